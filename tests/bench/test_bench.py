"""The bench: what it counts is counted, what is not done is caught, and the page says what the file says."""

import json
import os
import re
import signal
import subprocess
import sys
import time
import zipfile
from pathlib import Path
from xml.etree import ElementTree

import pytest

import environment
from bench import __main__ as command
from bench import classes, measure, peers, plan, report, results
from bench.measure import Failed, Job, variables
from bench.peers import Place
from bench.plan import GOALS, Case, Goal, Side
from bench.results import Kept, Results, Sample
from bench.runners import OWN, RUNNERS, Runner, Stand

HERE = Path(report.__file__).parent

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="the bench measures on Linux only")


# --- the measuring stick


@pytest.fixture
def stick(tmp_path):
    def use(*programs, limit=300.0, memory=0.0, check=lambda: None, **more):
        folder = tmp_path / f"m{len(list(tmp_path.iterdir()))}"
        folder.mkdir()
        job = Job([[sys.executable, "-c", program] for program in programs], check, **more)
        return measure.measure(job, folder, variables(tmp_path / "home", OWN), limit, memory)

    return use


BURN = "import time\nwhile time.process_time() < 0.4:\n    pass\n"
DETACH = "import os\nif os.fork() == 0:\n    os.setsid()\n    if os.fork() == 0:\n"


def test_cpu_of_processes_that_detach_themselves_is_counted(stick):
    daemon = DETACH + "".join(f"        {line}\n" for line in BURN.splitlines())
    assert stick(daemon).cpu >= 0.39
    assert stick("pass").cpu < 0.39


def test_cpu_that_nobody_waits_for_is_counted_where_a_group_can_be_made(stick):
    # As in a PID namespace, where the system reaps unseen.
    unseen = "import os, signal, time\nsignal.signal(signal.SIGCHLD, signal.SIG_IGN)\nif os.fork() == 0:\n"
    unseen += "".join(f"    {line}\n" for line in [*BURN.splitlines(), "os._exit(0)"])
    unseen += "else:\n    import contextlib\n    with contextlib.suppress(ChildProcessError):\n        os.wait()\n"
    used = stick(unseen)
    if not used.exact:
        assert "PID namespaces" in report.generated(run_of([sample(exact=False)]))
        pytest.skip("no control group can be made here")
    assert used.cpu >= 0.39


def test_memory_of_children_is_seen(stick):
    child = "x = bytearray(150_000_000); import time; time.sleep(1)"
    program = f"import subprocess, sys; subprocess.run([sys.executable, '-c', {child!r}])"
    used = stick(program, memory=0.1)
    assert used.peak_mb > 150 > used.own_mb
    assert stick(program).peak_mb is None


def test_a_failure_shows_the_end_of_the_output(stick):
    with pytest.raises(Failed, match=r"ended with 3:\n(.|\n)*what went wrong"):
        stick("pass", "import sys; print('what went wrong'); sys.exit(3)", "raise SystemExit")


def test_what_does_not_end_is_ended_with_all_that_it_started(stick, tmp_path):
    pid = tmp_path / "pid"
    program = f"import os, time\nif os.fork() == 0:\n    os.setsid()\n    open({str(pid)!r}, 'w').write(str(os.getpid()))\ntime.sleep(600)"
    with pytest.raises(Failed, match="did not end within 5 s"):
        stick(program, limit=5.0)
    assert not environment.lives(int(pid.read_text()))


def test_a_bench_that_is_stopped_leaves_nothing_running(tmp_path):
    pid = tmp_path / "pid"
    program = f"import os, time\nif os.fork() == 0:\n    os.setsid()\n    open({str(pid)!r}, 'w').write(str(os.getpid()) + '.')\ntime.sleep(600)"
    order = {"commands": [[sys.executable, "-c", program]], "at_once": 1, "log": str(tmp_path / "log"), "folder": str(tmp_path)}
    order |= {"environment": {}, "limit_seconds": 600, "memory_seconds": 0}
    (tmp_path / "order.json").write_text(json.dumps(order))
    process = subprocess.Popen([sys.executable, HERE / "stick.py", tmp_path / "order.json", tmp_path / "used.json"])
    while not pid.exists() or not pid.read_text().endswith("."):
        assert process.poll() is None
        time.sleep(0.05)
    process.terminate()
    assert process.wait() == 128 + signal.SIGTERM
    while environment.lives(int(pid.read_text()[:-1])) and not zombie(int(pid.read_text()[:-1])):
        time.sleep(0.05)  # until the system has ended it; the order to end was given before


def zombie(pid):
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "Z"
    except OSError:
        return True


def test_work_that_was_not_done_is_a_failure(stick):
    def check():
        raise Failed("nothing was done")

    with pytest.raises(Failed, match=r"nothing was done\n(.|\n)*said this"):
        stick("print('said this')", check=check)


def test_commands_run_as_many_at_once_as_asked(stick, tmp_path):
    # Each waits until it sees the other; one after the other they would not end.
    def meet(mine, other):
        return f"import pathlib, time\np = pathlib.Path({str(tmp_path)!r})\n(p / '{mine}').touch()\nwhile not (p / '{other}').exists():\n    time.sleep(0.01)"

    assert len(stick(meet("a", "b"), meet("b", "a"), at_once=2).steps) == 2
    with pytest.raises(Failed, match="did not end"):
        stick(meet("c", "d"), meet("d", "c"), at_once=1, limit=3.0)


def test_nothing_of_the_callers_environment_is_measured(tmp_path, monkeypatch):
    monkeypatch.setenv("SECRET_OF_MINE", "x")
    assert "SECRET_OF_MINE" not in variables(tmp_path, OWN)


# --- notebooks and the work


def test_every_student_has_constants_of_their_own():
    group = classes.students(50)
    assert len({classes.answered(classes.cells("jax")[0], one) for one in group}) == 50
    assert len({classes.loss(one) for one in group}) == 50
    assert classes.students(10) == group[:10]


def test_numpy_differs_from_jax_only_where_it_must():
    jax, numpy = classes.cells("jax"), classes.cells("numpy")
    assert [cell.id for cell in jax] == [cell.id for cell in numpy]
    other = {one.id for one, two in zip(jax, numpy, strict=True) if one.source != two.source}
    assert other == {cell.id for cell in classes.read_script(classes.LESSON / "without_jax.py")}
    assert not any(re.search(r"\bjax\b|\bjnp\b", cell.source) for cell in numpy)


def stand_for(runner, tmp_path, size=2):
    """A stand with everything prepared, and no environment of a peer behind it."""
    place = Place(tmp_path / "none", {}) if runner.peer else None
    stand = Stand("jax", size, tmp_path / "m", tmp_path / "shelf", tmp_path / "home", place)
    stand.folder.mkdir()
    shelf = tmp_path / "shelf" / f"jax-{size}"
    classes.nbgrader("jax", stand.group, shelf / "nbgrader")
    classes.otter("jax", stand.group, shelf / "otter")
    archive = shelf / "otter" / "made" / "autograder" / "a.zip"
    archive.parent.mkdir(parents=True)
    zipfile.ZipFile(archive, "w").close()
    classes.course("jax", tmp_path / "shelf" / "jax-0" / "course")
    return stand


@pytest.mark.parametrize("name", RUNNERS)
def test_a_runner_that_does_nothing_is_caught(name, tmp_path):
    runner = RUNNERS[name]
    stand = stand_for(runner, tmp_path)
    if name == "check":
        stand = Stand("recovery-01", 1, stand.folder, stand.shelf, stand.home, None)
    job = runner.job(stand)
    assert job.commands
    (stand.folder / "output.log").write_text("")
    with pytest.raises((Failed, FileNotFoundError)):
        job.check()


def test_a_lesson_that_is_not_run_is_caught(tmp_path):
    for name in ("nbclient", "run", "script"):
        stand = Stand("recovery-06", 2, tmp_path / name, tmp_path / "shelf", tmp_path, None)
        stand.folder.mkdir()
        job = RUNNERS[name].job(stand)
        (stand.folder / "output.log").write_text("PASS: another")
        with pytest.raises(Failed, match=r"recovery-06|not run to its end"):
            job.check()


def marks(stand, **other):
    said = {one.name: f"{classes.loss(one):.5g}" for one in stand.group} | other
    stand.losses({name: value for name, value in said.items() if value})


def test_a_wrong_result_or_a_missing_one_is_caught(tmp_path):
    stand = Stand("jax", 3, tmp_path, tmp_path, tmp_path, None)
    marks(stand)
    with pytest.raises(Failed, match=r"s0001 gave 0.5, not"):
        marks(stand, s0001="0.5")
    with pytest.raises(Failed, match="s0002 was not run to its end"):
        marks(stand, s0002="")
    with pytest.raises(Failed, match="s0001 gave"):
        marks(stand, s0001=f"{classes.loss(stand.group[0]):.5g}")


def test_a_verdict_counts_only_with_all_variants_and_the_draw(tmp_path):
    from bench.runners import _passed

    def passed(verdict="PASS", runs=("base", "N = 5", "N = 7", "draw 6")):
        exercise = {"verdict": verdict, "runs": list(runs)}
        (tmp_path / "r.json").write_text(json.dumps({"submissions": [{"learner": "s", "exercises": [exercise]}]}))
        return _passed(tmp_path / "r.json")["s"]

    assert passed()
    assert not passed("FAIL")
    assert not passed(runs=("base", "N = 5", "N = 7"))
    assert not passed(runs=("base", "N = 5", "draw 6"))


def test_the_floor_runs_cells_and_says_what_failed(tmp_path):
    source, out = tmp_path / "in", tmp_path / "out"
    out.mkdir()
    classes.plain("numpy", classes.students(2), source)

    def floor():
        words = [sys.executable, "-P", HERE / "floor.py", source, "--modules", "numpy,matplotlib.pyplot", "--out", out]
        return subprocess.run(words, capture_output=True, text=True, check=False)

    assert floor().returncode == 0
    stand = Stand("numpy", 2, tmp_path, tmp_path, tmp_path, None)
    stand.executed(out)
    classes.write(source / "s9999.ipynb", [classes.code("print(1)"), classes.code("1 / 0"), classes.code("print(2)")])
    done = floor()
    assert done.returncode == 1
    assert "s9999.ipynb" in done.stderr
    assert "ZeroDivisionError" in done.stderr
    assert not (out / "s9999.ipynb").exists()


# --- peers


def test_peers_are_pinned_exactly_and_nothing_is_pinned_twice():
    locked = {line.split("==")[0] for line in peers.shared()}
    for peer in peers.peers().values():
        assert peer.asked
        for line in (*peer.asked, *peer.needed):
            name, exact, version = line.partition("==")
            assert (environment.normal(name) in locked) != bool(exact and version), f"bench/peers/{peer.name}.txt: {line}"
    assert {runner.peer for runner in RUNNERS.values() if runner.peer} == peers.peers().keys()


def test_an_environment_is_made_anew_when_its_versions_change(tmp_path, monkeypatch):
    made = []
    monkeypatch.setattr(peers, "_install", lambda peer, folder: made.append(folder.mkdir(parents=True)) or {"a": "1"})
    peer = peers.Peer("a", ("a==1",), ())
    for one in (peer, peer, peers.Peer("a", ("a==2",), ()), peer):
        assert peers.prepare(one, tmp_path, lambda text: None).versions == {"a": "1"}
    assert len(made) == 3


def test_a_peer_that_cannot_be_installed_is_said(tmp_path, monkeypatch):
    # An environment without an installer behind it.
    monkeypatch.setattr(environment, "create_command", lambda *_: [sys.executable, "-c", "import sys; sys.exit('no space')"])
    with pytest.raises(peers.Missing, match="no space"):
        peers.prepare(peers.Peer("a", ("a==1",), ()), tmp_path, lambda text: None)
    assert not (tmp_path / "peers" / "a" / "bench.json").exists()


# --- rounds


def test_rounds_by_size():
    assert [plan.rounds_of("5,40:3,500:1", size) for size in (1, 39, 40, 499, 500, 5000)] == [5, 5, 3, 3, 1, 1]
    assert plan.rounds_of("2", 5000) == 2
    for wrong in ("", "x", "40:3", "0"):
        with pytest.raises(ValueError, match=r"begin with|invalid literal"):
            plan.rounds_of(wrong, 1)


def test_every_round_runs_every_runner_once_and_begins_with_another():
    wanted = plan.cases((1, 10))
    order = list(plan.schedule(wanted, "3,500:1", memory=True))
    assert len(order) == len(set(order))
    small = [[case for number, case in order if number == turn and case.size == 10 and case.variant == "jax"] for turn in range(4)]
    assert len({tuple(one) for one in small}) == 4
    assert len({frozenset(one) for one in small}) == 1
    assert {number for number, case in order if case.size >= plan.HUGE and case.size < 500} == {1, 2, 3}
    assert {number for number, case in order if case.size >= 500} == {1}
    assert not [number for number, _ in plan.schedule(wanted, "1", memory=False) if number == 0]


def test_the_goals_alone_measure_all_that_they_need():
    wanted = plan.cases((1,), goals_only=True)
    assert {side.case for goal in GOALS for side in (goal.over, goal.under)} <= set(wanted)
    assert len(wanted) < len(plan.cases((1,)))
    assert {case.size for case in plan.cases((1, 10), most=10)} <= {1, 10}


def test_each_measurement_is_kept_and_others_are_not_used(tmp_path):
    path = tmp_path / "rounds.jsonl"
    kept = Kept(path, "one")
    kept.add(sample(wall=1.0))
    kept.add(sample(wall=2.0, round=2))
    path.write_text(path.read_text() + '{"setup": "one", "runner": "cut of')
    again = Kept(path, "one")
    assert [one.wall for one in again.samples] == [1.0, 2.0]
    assert again.find(Case("jax", 40, "run"), 2).wall == 2.0
    other = Kept(path, "two")
    assert (other.samples, other.others) == ([], 2)
    again.forget()
    assert Kept(path, "one").samples == []


def test_what_is_measured_decides_what_is_used_again(tmp_path, monkeypatch):
    monkeypatch.setattr(results, "HERE", tmp_path)
    monkeypatch.setattr(results, "_MEASURED", ("floor.py", "lesson"))
    (tmp_path / "floor.py").write_text("1")
    (tmp_path / "lesson").mkdir()
    seen = [results.setup(["a"]), results.setup(["b"])]
    (tmp_path / "lesson" / "main.py").write_text("1")
    seen.append(results.setup(["a"]))
    monkeypatch.setattr(results, "grader_digest", lambda: "another")
    seen.append(results.setup(["a"]))
    assert len(set(seen)) == 4


# --- the page


def sample(runner="run", wall=4.0, size=40, round=1, variant="jax", **more):
    rest = {"cpu": 8.0, "exact": True, "steps": (), "peak_mb": 300.0, "own_mb": 90.0, "load": 0.1}
    return Sample(runner=runner, variant=variant, size=size, round=round, wall=wall, **(rest | more))


def run_of(samples):
    on = results.Machine(processor="Some (R) Processor", cores=2, memory_gb=8, system="Linux", python="3.11")
    shared = {"jax": "0.9"}
    versions = {"shared": shared, "nbgrader": {**shared, "nbgrader": "0.9.6"}}
    return Results(date="2026-01-02", machine=on, setup="s", versions=versions, missing=("nbdev",), samples=tuple(samples))


def test_ratios_are_taken_within_a_round():
    found = run_of(
        [sample("nbgrader", 100.0, round=0), sample(round=0), *(sample(wall=4.0 * number, round=number) for number in (1, 2, 3))]
    )
    more = [sample("nbgrader", wall, round=number) for number, wall in ((1, 60.0), (2, 80.0))]
    assert run_of([*found.samples, *more]).ratios(GOALS[0]) == [15.0, 10.0]
    assert found.ratios(GOALS[0]) == []


@pytest.mark.parametrize(("ratio", "least", "most", "said"), [
    (10.0, 10, None, "reached"), (9.0, 10, None, "missed: 90% of it"), (1.5, None, 1.5, "reached"), (1.8, None, 1.5, "missed: 1.20 times it"),
])  # fmt: skip
def test_a_goal_is_reached_or_missed_by_so_much(ratio, least, most, said):
    side = Side(Case("jax", 1, "run"))
    assert report.verdict(Goal("", side, side, least, most), ratio) == said


def test_sides_of_goals_are_what_they_say():
    again = sample("again", 10.0, 500, steps=(8.0, 0.1))
    found = run_of([again, sample("grade", 50.0, 50, own_mb=100.0), sample("grade", 6000.0, 5000, own_mb=110.0)])
    ratios = {goal.text: found.ratios(goal) for goal in GOALS}
    by = {text.split(",")[0]: values for text, values in ratios.items() if values}
    assert by["500 unchanged submissions again: time against the first run"] == [0.0125]
    assert by["cost of a submission"] == [1.2]
    assert by["the grader's own memory"] == [1.1]


def test_the_page_says_what_was_measured():
    text = report.generated(
        run_of([sample("nbgrader", 80.0), sample(wall=4.0), sample("nbdev", 6.0), sample("run", 999.0, round=0)])
    )
    rows = re.findall(r"^\| (nbgrader autograde|\*\*this grader, execution only\*\*|nbdev.*) \| (.*) \|$", text, re.MULTILINE)
    time, cpu, memory = (dict(rows[start : start + 3]) for start in (0, 3, 6))
    ours, nbdev = "**this grader, execution only**", r"nbdev-test, two workers \*"
    assert time == {"nbgrader autograde": "2.00", ours: "0.100", nbdev: "0.150"}
    assert set(cpu.values()) == {"0.200"}
    assert set(memory.values()) == {"300"}
    assert "≥ 10 × | **20.0 ×** |  | 1 | reached |" in text
    assert "not measured" in text
    assert "could not be installed: nbdev." in text
    assert "nbgrader 0.9.6" in text


def test_the_page_keeps_its_words_and_needs_its_markers():
    old = f"before\n{report.BEGIN}\nold\n{report.END}\nafter\n"
    new = report.page(old, None)
    assert new.startswith(f"before\n{report.BEGIN}\n")
    assert new.endswith(f"{report.END}\nafter\n")
    assert "old" not in new
    assert report.page(new, None) == new
    with pytest.raises(ValueError, match=r"markers|missing"):
        report.page("before\nafter\n", None)


def test_the_picture_is_small_the_same_each_time_and_for_both_themes():
    found = run_of([sample(name, 1.0 + number) for number, name in enumerate(plan.CLASSES)])
    svg = report.picture(found)
    assert len(svg.encode()) < 100_000
    assert svg == report.picture(found)
    assert ElementTree.fromstring(svg).tag.endswith("svg")
    assert "prefers-color-scheme:dark" in svg
    assert report._INK not in svg
    assert svg.count("currentColor") > len(plan.CLASSES)
    for runner in RUNNERS.values():
        assert (re.sub(r"[*`]", "", runner.title) in svg) == (runner.name in plan.CLASSES)


def test_results_are_read_as_they_were_written(tmp_path):
    found = run_of([sample(), sample("nbgrader", steps=(1.0, 2.0), peak_mb=None)])
    path = results.save(found, tmp_path)
    assert path.name == "2026-01-02-2-cores-some-r-processor.json"
    assert results.read(path) == found
    results.save(found.model_copy(update={"date": "2026-01-10"}), tmp_path)
    assert results.read(results.newest(tmp_path)).date == "2026-01-10"


def test_the_page_is_what_the_newest_results_give():
    for path, wanted in report.products(report.latest()).items():
        assert path.is_file(), f"{path.name} is missing: python -m environment bench --report"
        assert path.read_text(encoding="utf-8") == wanted, f"{path.name} is out of date: python -m environment bench --report"


def test_results_name_no_place_of_the_machine():
    for path in results.FOLDER.glob("*.json"):
        assert not re.search(r"(/[a-z]+){2}|https?:", path.read_text(encoding="utf-8")), path.name


# --- the command


def bench(root, *words):
    env = {**os.environ, "PYTHONPATH": str(root)}
    return subprocess.run([sys.executable, "-m", "bench", *words], cwd=root, env=env, capture_output=True, text=True, check=False)


def test_a_quick_run_measures_and_goes_on(root, tmp_path):
    before = {path: path.read_bytes() for path in (report.PAGE, *results.FOLDER.glob("*"))}
    first = bench(root, "--quick", "--kept", str(tmp_path))
    assert first.returncode == 0, first.stderr
    for name in command.QUICK:
        assert RUNNERS[name].title in first.stdout
    assert "[4/4]" in first.stderr
    found = results.read(results.newest(tmp_path / "results"))
    assert {one.runner for one in found.samples} == set(command.QUICK)
    assert all(one.wall > 0 and one.cpu > 0 and one.own_mb for one in found.samples)
    again = bench(root, "--quick", "--kept", str(tmp_path))
    assert again.returncode == 0, again.stderr
    assert "round 1" not in again.stderr
    assert results.read(results.newest(tmp_path / "results")).samples == found.samples
    assert {path: path.read_bytes() for path in before} == before
    assert "1 times, 1 of them done" in bench(root, "--quick", "--list", "--kept", str(tmp_path)).stdout


@pytest.mark.parametrize(("words", "said"), [
    (["--only", "nbgader"], "there is no runner 'nbgader'"), (["--sizes", "0"], "give numbers of notebooks"),
    (["--rounds", "40:2"], "begin with a number of rounds"), (["--only", "again", "--most", "1"], "nothing is left to measure"),
])  # fmt: skip
def test_wrong_arguments_are_said(root, words, said):
    done = bench(root, *words)
    assert done.returncode == 2
    assert said in " ".join(re.sub(r"[^\w':.,]", " ", done.stderr).split())


def test_a_runner_that_fails_ends_the_bench(tmp_path, monkeypatch, capsys):
    lazy = Runner(
        "script", "lazy", lambda stand: Job([[str(OWN), "-c", "print('I did my best')"]], lambda: stand.losses({})), None, True, ""
    )
    monkeypatch.setitem(RUNNERS, "script", lazy)
    with pytest.raises(command.typer.Exit) as ended:
        command.bench(quick=True, only="script", kept=tmp_path, most=None, rounds="1", sizes="1", publish=None, memory=False)
    assert ended.value.exit_code == 3
    said = " ".join(capsys.readouterr().err.split())
    assert "script jax 1, round 1: its work was not done: the notebook of s0000 was not run to its end I did my best" in said
    assert Kept(tmp_path / "rounds.jsonl", "").others == 0
