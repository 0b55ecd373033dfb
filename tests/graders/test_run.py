"""Real kernels: observation at the point of use, limits, and nothing left behind."""

import asyncio
import os
import secrets
import shutil
import tempfile
from pathlib import Path

import psutil
import pytest

from course.schema import Limits
from course.values import show
from graders.kernels.cold import KernelFailed
from graders.kernels.sandbox import TOKEN, end_processes, remove, scratch
from graders.program import Program, Step
from graders.run import Loss, Plan, run

LIMITS = Limits(cell_seconds=20, total_seconds=60)


def run_cells(cache, *sources, probes=("x",), limits=LIMITS, plans=(), after=0):
    steps = tuple(
        Step(f"c{number}", source, "exercise" if number == after else "own", number + 1, number == 0)
        for number, source in enumerate(sources)
    )
    program = Program(steps, {"e": after})
    wanted = [Plan({}, {"e": probes}), *(Plan(parameters, {"e": probes}, name=str(parameters)) for parameters in plans)]
    return asyncio.run(run(program, wanted, limits, cache))


def shown(trace):
    return {probe: show(value) for probe, value in trace.observations.get("e", {}).items()}


def test_probes_are_taken_before_a_later_cell_reuses_the_name(cache):
    (trace,) = run_cells(cache, "x = 1", "x = 2")
    assert shown(trace) == {"x": "1"}


def test_variants_have_a_fresh_namespace_and_an_empty_folder(cache):
    source = "N = 1"
    cell = "import os\nassert os.listdir('.') == [] and 'left' not in globals()\nleft = 1\nopen('file', 'w').close()\nx = N * 10"
    base, two, three = run_cells(cache, source, cell, plans=[{"N": 2}, {"N": 3}], after=1)
    assert [shown(one)["x"] for one in (base, two, three)] == ["10", "20", "30"]
    assert all(outcome.status == "ok" for one in (base, two, three) for outcome in one.cells)


def test_an_error_does_not_end_the_run_and_stderr_is_no_error(cache):
    (trace,) = run_cells(cache, "import sys\nprint('warning', file=sys.stderr)\nx = 1\n1/0", "print('on')")
    assert [one.status for one in trace.cells] == ["error", "ok"]
    assert trace.cells[0].error == "ZeroDivisionError: division by zero"
    assert trace.cells[0].stderr == "warning\n" and trace.cells[1].stdout == "on\n"
    assert shown(trace) == {"x": "1"}


def test_a_loop_is_interrupted_and_the_rest_still_runs(cache):
    limits = Limits(cell_seconds=1, total_seconds=60)
    base, variant = run_cells(cache, "x = 1\nwhile True: pass", "y = 2", limits=limits, plans=[{"N": 2}])
    assert [one.status for one in base.cells] == ["timeout", "ok"]
    assert base.lost is None and shown(variant) == {"x": "1"}


def test_a_loop_that_swallows_interrupts_is_killed(cache):
    source = "import signal\nsignal.signal(signal.SIGINT, signal.SIG_IGN)\nwhile True: pass"
    base, variant = run_cells(cache, "x = 1", source, limits=Limits(cell_seconds=1, total_seconds=60), plans=[{"N": 2}])
    assert [one.status for one in base.cells] == ["ok", "timeout"] and base.lost == Loss(1, "timeout")
    assert [one.status for one in variant.cells] == ["ok"]  # in a new kernel, up to the cell that took the first one along
    assert shown(base) == shown(variant) == {"x": "1"}


def test_a_kernel_that_exits_is_seen_at_once(cache):
    (trace,) = run_cells(cache, "import os; os._exit(0)", "x = 1", after=1)
    assert [one.status for one in trace.cells] == ["died", "not-run"]
    assert trace.lost == Loss(0, "died", "status 0") and shown(trace) == {}


def test_the_whole_time_is_bounded(cache):
    (trace,) = run_cells(cache, "import time; time.sleep(60)", "x = 1", limits=Limits(cell_seconds=20, total_seconds=1), after=1)
    assert [one.status for one in trace.cells] == ["timeout", "not-run"]
    assert shown(trace) == {} and trace.lost is None  # nothing is known of a cell that was not run


def test_a_probe_that_does_not_end_is_interrupted_and_no_tampering(cache):
    source = "def f():\n    while True: pass"
    limits = Limits(cell_seconds=1, total_seconds=60)
    (trace,) = run_cells(cache, source, "y = 2", probes=("f()",), limits=limits)
    assert (trace.slow, trace.tampered, shown(trace)) == ({"e"}, frozenset(), {})
    assert trace.cells[1].status == "ok"


def test_a_kernel_that_does_not_answer_is_no_fault_of_the_learner(cache, monkeypatch):
    monkeypatch.setattr("graders.run.INSTALL_SECONDS", 1e-6)
    with pytest.raises(KernelFailed, match="does not answer"):
        run_cells(cache, "x = 1")


@pytest.mark.parametrize(
    "left", ["os.mkdir('1')\n    open('1/file', 'w').close()", "open('1', 'w').close()"], ids=["folder", "file"]
)
def test_what_a_run_leaves_behind_is_not_in_the_next_ones_way(cache, left):
    base, two = run_cells(cache, "N = 1", f"import os\nif N == 1:\n    {left}\nx = os.listdir('.')", plans=[{"N": 2}], after=1)
    assert (shown(base)["x"], shown(two)["x"]) == ("['1']", "[]")


def test_a_flood_of_output_is_cut_and_said(cache):
    (trace,) = run_cells(cache, "for _ in range(60): print('y' * 50_000, flush=True)\nx = 1")
    assert trace.cells[0].cut and len(trace.cells[0].stdout) <= 1_000_000
    assert shown(trace) == {"x": "1"}


@pytest.mark.parametrize(
    "trick",
    [
        "import builtins; builtins.abs = builtins.sum = lambda *a: 0",
        "get_ipython().input_transformers_cleanup.append(lambda lines: ['pass\\n'])",
        "import numpy.testing; numpy.testing.assert_allclose = print",
    ],
)
def test_what_a_learner_replaces_does_not_change_what_is_seen(cache, trick):
    (trace,) = run_cells(cache, f"x = 1\n{trick}")
    assert shown(trace) == {"x": "1"}


@pytest.mark.parametrize(
    "trick", ["import json; json.dumps = lambda *a, **k: '{}'", "import builtins; builtins.isinstance = lambda *a: True"]
)
def test_a_kernel_that_a_learner_has_broken_gives_no_observation_and_no_exception(cache, trick):
    (trace,) = run_cells(cache, f"x = 1\n{trick}", "y = 2", limits=Limits(cell_seconds=3, total_seconds=60))
    assert shown(trace) == {} and trace.lost is not None


def test_a_probe_that_was_replaced_is_tampering(cache):
    trick = 'import sys; sys.modules[\'graders_probe\'].observe = lambda *a: \'{"nonce": "x", "values": {"x": {"kind": "int", "data": 1}}}\''
    (trace,) = run_cells(cache, trick)
    assert trace.tampered == {"e"} and shown(trace) == {}


def test_only_plain_data_counts(cache):
    source = (
        "import numpy as np\n"
        "class Equal:\n"
        "    def __eq__(self, other): return True\n"
        "    def __array__(self, *a, **k): return np.ones(3)\n"
        "    def __repr__(self): raise SystemExit\n"
        "    def __reduce__(self): return (print, ('unpickled',))\n"
        "class Sub(int): pass\n"
        "x, y, z = Equal(), Sub(3), [Equal()]"
    )
    (trace,) = run_cells(cache, source, probes=("x", "y", "z", "nope", "1/0"))
    assert shown(trace) == {
        "x": "a Equal",
        "y": "a Sub",
        "z": "[a Equal]",
        "nope": "NameError: name 'nope' is not defined",
        "1/0": "ZeroDivisionError: division by zero",
    }
    assert "x" in trace.names["e"]


def test_a_value_without_end_is_bounded(cache):
    (trace,) = run_cells(
        cache, "import numpy as np\nx = np.zeros(10**7)\ny = []\ny.append(y)\nz = 'a' * 10**7", probes=("x", "y", "z")
    )
    assert all("too large" in text for text in shown(trace).values())


def test_the_environment_is_clean_and_the_folder_is_gone(cache, monkeypatch):
    monkeypatch.setenv("SECRET_TOKEN", "s3cret")
    monkeypatch.setenv("HOME", "/nonexistent")
    source = "import os\nx = 'SECRET_TOKEN' in os.environ\ny = os.path.expanduser('~')\nz = os.getcwd()"
    (trace,) = run_cells(cache, source, probes=("x", "y", "z"))
    seen = trace.observations["e"]
    assert seen["x"].data is False
    for name in ("y", "z"):
        assert str(seen[name].data).startswith(str(Path(tempfile.gettempdir()).resolve())) or str(seen[name].data).startswith(
            tempfile.gettempdir()
        )
        assert not Path(seen[name].data).exists()


@pytest.mark.parametrize("more", ["", "env={}, "], ids=["their own session", "an empty environment"])
def test_children_are_ended(cache, more):
    mark = f"mark-{secrets.token_hex(8)}"
    source = f"import subprocess, sys\nx = subprocess.Popen([sys.executable, '-c', 'import time; time.sleep(300)', {mark!r}], {more}start_new_session=True).pid"
    (trace,) = run_cells(cache, source)
    assert trace.observations["e"]["x"].data and trace.left == 1
    assert not [one.pid for one in psutil.process_iter(["cmdline"]) if mark in (one.info["cmdline"] or ())]


def test_only_processes_of_the_run_are_ended():
    assert end_processes("no such run") == 0


def test_two_scratch_folders_do_not_meet(cache):
    with scratch(cache) as one, scratch(cache) as other:
        assert one.root != other.root
        assert one.environment()[TOKEN] != other.environment()[TOKEN]
    assert not one.root.exists() and not other.root.exists()


@pytest.mark.skipif(not hasattr(os, "geteuid") or os.geteuid() == 0, reason="root may delete everything")
def test_read_only_folders_are_deleted(tmp_path):
    (tmp_path / "ts" / "d").mkdir(parents=True)
    (tmp_path / "ts" / "d" / "file").touch()
    (tmp_path / "ts" / "d").chmod(0o500)
    remove(tmp_path / "ts")
    assert not (tmp_path / "ts").exists()


@pytest.mark.skipif(os.name == "nt", reason="Windows has no such permissions")
def test_deleting_changes_nothing_around_the_folder(tmp_path, monkeypatch):
    folder = tmp_path / "ts"
    folder.mkdir(mode=0o500)
    tmp_path.chmod(0o755)

    def refuse(path, **more):
        for handler in (more.get("onexc"), more.get("onerror")):
            if handler:
                handler(os.rmdir, str(path), OSError())

    monkeypatch.setattr(shutil, "rmtree", refuse)
    remove(folder)
    assert (folder.stat().st_mode & 0o777, tmp_path.stat().st_mode & 0o777) == (0o700, 0o755)
