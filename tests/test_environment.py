"""How the environment is made, used and checked. Nothing is installed here: `.ci/run` does that for real."""

import json
import os
import re
import shlex
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

import environment
from environment import RUNTIME, STAMP, TroubleError, Wanted, due

ROOT = Path(environment.__file__).resolve().parent
POSIX = pytest.mark.skipif(os.name == "nt", reason="signals of POSIX")
MAKE = pytest.mark.skipif(shutil.which("make") is None, reason="make is not installed")

WANT = Wanted("/here/.venv", "3.13", "r" * 64, None)
GOOD = {"format": 1, "folder": "/here/.venv", "python": "3.13", "runtime": "r" * 64, "development": None}


# --- what has to be done


@pytest.mark.parametrize(
    ("stamp", "want", "task"),
    [
        (None, WANT, "make"),
        (GOOD, WANT, "nothing"),
        (GOOD | {"folder": "/there/.venv"}, WANT, "make"),
        (GOOD | {"python": "3.12"}, WANT, "make"),
        (GOOD | {"python": "3.12"}, WANT._replace(python=None), "nothing"),
        (GOOD | {"runtime": "other"}, WANT, "make"),
        (GOOD, WANT._replace(development="d"), "add"),
        (GOOD | {"development": "d"}, WANT._replace(development="d"), "nothing"),
        (GOOD | {"development": "old"}, WANT._replace(development="d"), "add"),
        (GOOD | {"development": "old"}, WANT, "nothing"),
        (GOOD, WANT._replace(site="s"), "add"),
        (GOOD | {"site": "old"}, WANT._replace(site="s"), "add"),
        (GOOD | {"site": "s"}, WANT._replace(site="s"), "nothing"),
        (GOOD | {"site": "s"}, WANT, "nothing"),
        (GOOD, WANT._replace(scale="s"), "add"),
        (GOOD | {"scale": "s"}, WANT._replace(scale="s"), "nothing"),
        (GOOD | {"scale": "old"}, WANT._replace(scale="s"), "add"),
        (GOOD | {"scale": "old"}, WANT, "nothing"),
        (GOOD | {"development": "d"}, WANT._replace(development="d", scale="s"), "add"),
        ({}, WANT, "make"),
    ],
)
def test_what_is_due(stamp, want, task):
    assert due(stamp, want)[0] == task


def test_what_is_lacking_is_named():
    want = WANT._replace(development="d", scale="s")
    assert environment.lacking(GOOD, want) == [environment.DEVELOPMENT, environment.SCALE]
    assert environment.lacking(GOOD | {"development": "d"}, want) == [environment.SCALE]
    assert due(GOOD | {"development": "d"}, want)[1] == "Dask is missing or out of date"
    assert due(GOOD, want)[1] == "the development tools and Dask are missing or out of date"


def fake_environment(folder, home):
    interpreter = environment.interpreter(folder)
    interpreter.parent.mkdir(parents=True)
    interpreter.touch()
    (folder / "pyvenv.cfg").write_text(f"home = {home}\n", encoding="utf-8")
    (folder / STAMP).write_text(json.dumps(GOOD), encoding="utf-8")


def test_a_whole_environment_says_what_it_is_made_of(tmp_path):
    fake_environment(tmp_path / ".venv", tmp_path)
    assert environment.read_stamp(tmp_path / ".venv") == GOOD


@pytest.mark.parametrize("damage", ["home is gone", "no interpreter", "no stamp", "half a stamp", "a list", "no pyvenv.cfg"])
def test_a_damaged_environment_says_nothing(tmp_path, damage):
    folder = tmp_path / ".venv"
    fake_environment(folder, tmp_path / "gone" if damage == "home is gone" else tmp_path)
    if damage == "no interpreter":
        environment.interpreter(folder).unlink()
    elif damage == "no stamp":
        (folder / STAMP).unlink()
    elif damage == "half a stamp":
        (folder / STAMP).write_text('{"form', encoding="utf-8")
    elif damage == "a list":
        (folder / STAMP).write_text("[]", encoding="utf-8")
    elif damage == "no pyvenv.cfg":
        (folder / "pyvenv.cfg").unlink()
    assert environment.read_stamp(folder) is None


def test_line_ends_and_comments_do_not_make_an_environment_stale(tmp_path):
    (tmp_path / "a").write_bytes(b"x==1\n")
    (tmp_path / "b").write_bytes(b"# generated\r\nx==1\r\n")
    (tmp_path / "c").write_bytes(b"x==2\n")
    assert environment.digest(tmp_path / "a") == environment.digest(tmp_path / "b") != environment.digest(tmp_path / "c")


def test_a_missing_lock_is_named(tmp_path):
    with pytest.raises(TroubleError, match=f"{RUNTIME} is missing"):
        environment.wanted(tmp_path, development=False)


def test_where_the_interpreter_is():
    folder = Path("course") / ".venv"
    assert environment.interpreter(folder, windows=True) == folder / "Scripts" / "python.exe"
    assert environment.interpreter(folder, windows=False) == folder / "bin" / "python"


@pytest.mark.parametrize(
    ("version", "fits"), [((3, 10), False), ((3, 11), True), ((3, 14), True), ((3, 15), False), ((4, 0), False)]
)
def test_which_pythons_fit(version, fits):
    assert environment.fits(version) is fits


# --- making it


@pytest.fixture
def course(tmp_path, monkeypatch):
    """A folder with locks, and an installer that only notes what it was told to do."""
    for name in environment.LOCKS:
        (tmp_path / name).write_text("x==1 \\\n    --hash=sha256:0\n", encoding="utf-8")
    steps = []

    def note(root, command, what, uv, note):
        steps.append(what)
        installed = [word for word in command if word in environment.LOCKS]
        (tmp_path / "installed.txt").write_text(" ".join(installed), encoding="utf-8")
        if what == "creating the environment":
            folder = root / ".venv"
            folder.mkdir(exist_ok=True)
            (folder / "pyvenv.cfg").write_text(f"home = {tmp_path}\n", encoding="utf-8")

    monkeypatch.setattr(environment, "carry_out", note)
    monkeypatch.setattr(environment, "find_uv", lambda root: None)
    answers = environment.answers
    monkeypatch.setattr(environment, "answers", lambda command: "pip 1.0" if "pip" in command else answers(command))
    monkeypatch.setattr(environment, "interpreter", lambda folder, windows=False: Path(sys.executable))
    return tmp_path, steps


def test_made_once_then_left_alone(course, capsys):
    root, steps = course
    environment.prepare(root)
    assert steps == ["creating the environment", "installing the packages"]
    assert "ready after" in capsys.readouterr().err
    environment.prepare(root)
    assert len(steps) == 2
    assert capsys.readouterr().err == ""
    assert not list((root / ".cache").iterdir())


def test_tools_are_added_to_what_is_there(course):
    root, steps = course
    environment.prepare(root)
    environment.prepare(root, development=True)
    assert steps[2:] == ["installing the packages"]
    environment.prepare(root, development=True)
    environment.prepare(root)
    assert len(steps) == 3


def test_what_is_added_later_leaves_what_was_added_before(course):
    root, steps = course
    installed = root / "installed.txt"
    environment.prepare(root, development=True)
    assert installed.read_text(encoding="utf-8").split() == [environment.RUNTIME, environment.SITE, environment.DEVELOPMENT]
    environment.prepare(root, scale=True)
    assert installed.read_text(encoding="utf-8") == environment.SCALE
    environment.prepare(root, development=True, scale=True)
    environment.prepare(root, development=True)
    environment.prepare(root)
    assert len(steps) == 3
    (root / environment.SCALE).write_text("x==2 \\\n    --hash=sha256:0\n", encoding="utf-8")
    environment.prepare(root, development=True)
    assert len(steps) == 3
    environment.prepare(root, development=True, scale=True)
    assert len(steps) == 4 and installed.read_text(encoding="utf-8") == environment.SCALE


def test_what_makes_the_pages_is_added_and_the_tools_stay(course):
    root, steps = course
    environment.prepare(root, site=True)
    assert len(steps) == 2
    environment.prepare(root)
    environment.prepare(root, site=True)
    assert len(steps) == 2
    environment.prepare(root, development=True)
    assert steps[2:] == ["installing the packages"]
    (root / environment.SITE).write_text("y==2 \\\n    --hash=sha256:0\n", encoding="utf-8")
    environment.prepare(root, site=True)
    assert len(steps) == 4
    environment.prepare(root, development=True)
    assert len(steps) == 4, "adding one group has forgotten the other"


def test_all_at_once_from_nothing(course):
    root, steps = course
    environment.prepare(root, development=True, scale=True)
    assert steps == ["creating the environment", "installing the packages"]
    assert (root / "installed.txt").read_text(encoding="utf-8").split() == list(environment.LOCKS)


@pytest.mark.parametrize(
    ("words", "extras"),
    [
        ([], (False, False, False)),
        (["--dev"], (True, False, False)),
        (["--site"], (False, True, False)),
        (["--scale"], (False, False, True)),
        (["--scale", "--dev"], (True, False, True)),
    ],
)
def test_what_the_words_before_a_command_ask_for(monkeypatch, words, extras):
    asked = []
    monkeypatch.setattr(environment, "prepare", lambda root, *more: asked.append(more))
    monkeypatch.setattr(environment, "run", lambda root, arguments: asked.append(arguments) or 0)
    assert environment.main([*words, "graders", "--dev", "--scale"]) == 0
    assert asked == [extras, ["-m", "graders", "--dev", "--scale"]]
    assert environment.main([*words, "--prepare"]) == 0
    assert asked[2:] == [extras]


def test_without_uv_what_uv_made_is_made_again_to_add_the_tools(course, monkeypatch):
    root, steps = course
    environment.prepare(root)
    answers = environment.answers
    monkeypatch.setattr(environment, "answers", lambda command: "" if "pip" in command else answers(command))
    environment.prepare(root, development=True)
    assert steps[2:] == ["creating the environment", "installing the packages"]


def test_a_python_that_does_not_run_is_said(course, monkeypatch):
    root, _ = course
    monkeypatch.setattr(environment, "answers", lambda command: "")
    with pytest.raises(TroubleError, match="does not run"):
        environment.prepare(root)
    assert environment.read_stamp(root / ".venv") is None


def test_a_changed_lock_makes_it_again_from_nothing(course):
    root, steps = course
    environment.prepare(root)
    (root / ".venv" / "left-over").touch()
    (root / RUNTIME).write_text("x==2 \\\n    --hash=sha256:0\n", encoding="utf-8")
    environment.prepare(root)
    assert len(steps) == 4
    assert not (root / ".venv" / "left-over").exists()


@pytest.mark.parametrize("development", [False, True])
def test_an_interrupted_installation_is_begun_again(course, monkeypatch, development):
    root, steps = course
    if development:
        environment.prepare(root)
    note = environment.carry_out

    def interrupt(root, command, what, uv, more):
        note(root, command, what, uv, more)
        if what == "installing the packages":
            raise KeyboardInterrupt

    monkeypatch.setattr(environment, "carry_out", interrupt)
    with pytest.raises(KeyboardInterrupt):
        environment.prepare(root, development)
    assert environment.read_stamp(root / ".venv") is None
    monkeypatch.setattr(environment, "carry_out", note)
    steps.clear()
    environment.prepare(root, development)
    assert steps == ["creating the environment", "installing the packages"]


def test_no_fitting_python_and_no_uv(course, monkeypatch):
    root, steps = course
    monkeypatch.setattr(environment, "fits", lambda version: False)
    with pytest.raises(TroubleError, match=r"Python 3\.11 to 3\.14 is needed.*make PYTHON="):
        environment.prepare(root)
    assert not steps
    assert not (root / ".venv").exists()


def test_uv_may_choose_another_python():
    folder = Path(".venv")
    assert environment.create_command(folder, "uv", None)[-3:] == ["--python", ">=3.11,<3.15", ".venv"]
    assert ">=3.11,<3.15" not in environment.create_command(folder, "uv", "3.13")
    assert environment.create_command(folder, None, "3.13")[1:] == ["-m", "venv", ".venv"]


@pytest.mark.parametrize("uv", [None, "uv"])
def test_only_locked_wheels_are_installed(uv):
    command = environment.install_command(Path(".venv"), uv, [RUNTIME])
    assert command[-5:] == ["--require-hashes", "--only-binary", ":all:", "-r", RUNTIME]


@POSIX
@pytest.mark.parametrize(("script", "runs"), [("echo uv 1.0", True), ("exit 127", False)])
def test_a_uv_that_does_not_run_does_not_count(tmp_path, monkeypatch, script, runs):
    (tmp_path / "uv").write_text(f"#!/bin/sh\n{script}\n", encoding="utf-8")
    (tmp_path / "uv").chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path))
    assert (environment.find_uv(ROOT) is not None) is runs


@pytest.mark.parametrize(
    ("output", "says"),
    [
        ("The virtual environment was not created because ensurepip is not available", "python3-venv"),
        ("ERROR: [Errno 28] No space left on device", "disk space"),
        ("ERROR: THESE PACKAGES DO NOT MATCH THE HASHES", "cache"),
        ("error: In `--require-hashes` mode, all requirements must have their versions pinned with `==`", "damaged"),
        ("Because x has no usable wheels", "Apple silicon"),
        ("error: No interpreter found for Python", "Python 3.11 to 3.14 is needed"),
        ("invalid peer certificate: UnknownIssuer", "SSL_CERT_FILE"),
        ("Connection refused", "network"),
    ],
)
def test_a_failed_step_shows_the_output_and_what_to_do(tmp_path, capsys, output, says):
    command = [sys.executable, "-c", f"print({output!r}); raise SystemExit(7)"]
    with pytest.raises(TroubleError, match=f"installing failed.*{says}"):
        environment.carry_out(tmp_path, command, "installing", None, lambda child: None)
    assert output in capsys.readouterr().err


def test_trouble_is_exit_code_3(monkeypatch, capsys):
    def fail(root, *extras):
        raise TroubleError("no disk")

    monkeypatch.setattr(environment, "prepare", fail)
    assert environment.main(["graders", "grade"]) == 3
    assert capsys.readouterr().err == "environment: no disk\n"


@pytest.mark.parametrize("arguments", [[], ["--dev"], ["--scale"], ["--no-such-option"], ["--dev", "--no-such-option"]])
def test_wrong_arguments_are_exit_code_2(arguments, capsys):
    assert environment.main(arguments) == 2
    assert "usage: python -m environment" in capsys.readouterr().err


def test_clearing_removes_the_stamp_first(tmp_path, monkeypatch):
    folder = tmp_path / ".venv"
    fake_environment(folder, tmp_path)
    (folder / ".lock").touch()
    gone = []
    unlink = Path.unlink
    monkeypatch.setattr(Path, "unlink", lambda path, *rest, **more: (gone.append(path.name), unlink(path, *rest, **more)))
    environment.clear(folder)
    assert gone[0] == STAMP
    assert not list(folder.iterdir())


def test_what_is_left_of_an_environment_is_cleared_too(tmp_path):
    folder = tmp_path / ".venv"
    fake_environment(folder, tmp_path)
    (folder / "pyvenv.cfg").unlink()
    environment.clear(folder)
    assert not list(folder.iterdir())


@POSIX
def test_a_link_to_another_disk_stays_a_link(tmp_path):
    fake_environment(tmp_path / "elsewhere", tmp_path)
    (tmp_path / ".venv").symlink_to(tmp_path / "elsewhere")
    environment.clear(tmp_path / ".venv")
    assert (tmp_path / ".venv").is_symlink()
    assert not list((tmp_path / "elsewhere").iterdir())


def test_what_is_not_an_environment_is_left_alone(tmp_path):
    folder = tmp_path / ".venv"
    folder.mkdir()
    (folder / "thesis.txt").write_text("mine", encoding="utf-8")
    with pytest.raises(TroubleError, match="in the way"):
        environment.clear(folder)
    assert (folder / "thesis.txt").read_text(encoding="utf-8") == "mine"
    (tmp_path / "file").touch()
    with pytest.raises(TroubleError, match="not a folder"):
        environment.clear(tmp_path / "file")


# --- one process at a time


def dead_process():
    process = subprocess.Popen([sys.executable, "-c", ""])
    process.wait()
    return process.pid


def holder(*pids, host=None):
    return " ".join([host or environment.socket.gethostname(), *map(str, pids)]) + "\n"


def test_the_lock_of_a_dead_process_is_taken_over(tmp_path):
    path = tmp_path / "lock"
    path.write_text(holder(dead_process(), dead_process()), encoding="utf-8")
    with environment.alone(path, patience=5) as note:
        assert path.read_text(encoding="utf-8") == holder(os.getpid())
        note(17)
        assert path.read_text(encoding="utf-8") == holder(os.getpid(), 17)
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    "text",
    ["", "no numbers\n", holder(os.getppid()), holder(1, host="another-machine"), holder("DEAD", os.getppid())],
    ids=["empty", "unknown", "alive", "another machine", "its installer is alive"],
)
def test_the_lock_of_a_live_or_unknown_process_is_waited_for(tmp_path, text, capsys):
    path = tmp_path / "lock"
    text = text.replace("DEAD", str(dead_process()))
    path.write_text(text, encoding="utf-8")
    with pytest.raises(TroubleError, match="delete"), environment.alone(path, patience=0.1, pause=0.02):
        pytest.fail("two at once")
    assert path.read_text(encoding="utf-8") == text
    assert capsys.readouterr().err.count("waiting for it") == 1


def test_a_lock_made_meanwhile_is_given_back(tmp_path):
    path = tmp_path / "lock"
    path.write_text(holder(os.getppid()), encoding="utf-8")
    environment.take_away(path, holder(dead_process()))
    assert [entry.name for entry in tmp_path.iterdir()] == ["lock"]
    assert path.read_text(encoding="utf-8") == holder(os.getppid())


def test_a_folder_that_cannot_be_written_is_said_at_once(course, monkeypatch):
    root, steps = course

    def refuse(*arguments):
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(environment, "WINDOWS", False)
    monkeypatch.setattr(environment.os, "open", refuse)
    with pytest.raises(TroubleError, match="cannot be written"):
        environment.prepare(root)
    assert not steps


def test_several_processes_enter_one_after_the_other(tmp_path):
    path, log = tmp_path / "lock", tmp_path / "log"
    path.write_text(holder(dead_process()), encoding="utf-8")
    code = (
        "import sys, time, pathlib, environment\n"
        "with environment.alone(pathlib.Path(sys.argv[1]), patience=60, pause=0.01):\n"
        "    for word in 'in', 'out':\n"
        "        with open(sys.argv[2], 'a') as file: file.write(word + ' ')\n"
        "        time.sleep(0.05)\n"
    )
    crowd = [
        subprocess.Popen([sys.executable, "-c", code, str(path), str(log)], cwd=ROOT, stderr=subprocess.DEVNULL) for _ in range(4)
    ]
    assert [process.wait(60) for process in crowd] == [0] * 4
    assert log.read_text(encoding="utf-8").split() == ["in", "out"] * 4
    assert not path.exists()


# --- running something in it


@pytest.fixture
def this_python(monkeypatch):
    monkeypatch.setattr(environment, "interpreter", lambda folder, windows=False: Path(sys.executable))


@pytest.mark.parametrize("code", [0, 1, 2, 3, 5])
def test_the_exit_code_is_passed_through(this_python, code):
    assert environment.run(ROOT, ["-c", f"raise SystemExit({code})"]) == code


def test_commands_run_in_the_repository_as_if_the_environment_were_activated(this_python, tmp_path, monkeypatch):
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    code = (
        "import os, sys, pathlib\n"
        f"assert os.path.samefile('.', {str(ROOT)!r})\n"
        "assert 'PYTHONPATH' not in os.environ\n"
        "assert os.environ['MLFLOW_DISABLE_TELEMETRY'] == 'true'\n"
        f"assert pathlib.Path(os.environ['VIRTUAL_ENV']) == pathlib.Path({str(ROOT / '.venv')!r})\n"
        "assert sys.argv[1:] == ['a b', '$(x)', '']\n"
    )
    monkeypatch.chdir(tmp_path)
    assert environment.run(ROOT, ["-c", code, "a b", "$(x)", ""]) == 0


@pytest.mark.parametrize(
    ("code", "interrupted", "shown"),
    [(0, False, 0), (1, False, 1), (-9, False, 137), (-2, True, 130), (2, True, 130), (0, True, 0), (0xC000013A, False, 130)],
)
def test_exit_codes_as_a_shell_shows_them(code, interrupted, shown):
    assert environment.exit_code(code, interrupted) == shown


@POSIX
@pytest.mark.parametrize(("name", "code"), [("SIGINT", 130), ("SIGTERM", 143)])
def test_signals_reach_the_child(tmp_path, name, code):
    child = "import os, time; print(os.getpid(), flush=True); time.sleep(60)"
    parent = (
        "import environment, pathlib, sys\n"
        "environment.interpreter = lambda folder: pathlib.Path(sys.executable)\n"
        f"sys.exit(environment.run(pathlib.Path({str(ROOT)!r}), ['-c', {child!r}]))\n"
    )
    command = [sys.executable, "-c", parent]
    with subprocess.Popen(
        command, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, start_new_session=True
    ) as process:
        pid = int(process.stdout.readline())
        process.send_signal(getattr(signal, name))
        assert process.wait(30) == code
    deadline = time.monotonic() + 10
    while environment.lives(pid) and time.monotonic() < deadline:
        time.sleep(0.02)
    assert not environment.lives(pid)


# --- an old Python


def old_pythons():
    """Pythons before 3.11 that run: on the path, or kept by pyenv."""
    found = [path for path in (shutil.which(f"python3.{minor}") for minor in (8, 9, 10)) if path]
    if shutil.which("pyenv"):
        root = subprocess.run(["pyenv", "root"], capture_output=True, text=True, check=False).stdout.strip()
        found += [str(path) for minor in (8, 9, 10) for path in Path(root).glob(f"versions/3.{minor}.*/bin/python")] if root else []
    for path in found:
        done = subprocess.run([path, "-c", "import sys; print(*sys.version_info[:2])"], capture_output=True, text=True, check=False)
        if done.returncode == 0:
            return path
    return None


def test_an_old_python_gets_one_sentence(tmp_path):
    python = old_pythons()
    if python is None:
        pytest.skip("no Python before 3.11 is installed here")
    for name in ("environment.py", RUNTIME):
        shutil.copy(ROOT / name, tmp_path)
    variables = {name: value for name, value in os.environ.items() if name not in {"PYTHONPATH", "PYTHONHOME"}} | {
        "PATH": os.defpath
    }
    if environment.shutil.which("uv", path=os.defpath):
        pytest.skip("uv is in the system's own folders, and would find a Python")
    done = subprocess.run(
        [python, "-m", "environment", "x"], cwd=tmp_path, env=variables, capture_output=True, text=True, check=False
    )
    assert done.returncode == 3
    assert re.fullmatch(r"environment: Python 3\.11 to 3\.14 is needed, and this is 3\.\d+\. .*\n", done.stderr)
    assert not (tmp_path / ".venv").exists()


# --- the Makefile


def without_make():
    """The variables without those of a make that runs these tests: it would hand its own options on."""
    ours = {"MAKEFLAGS", "MAKEOVERRIDES", "MFLAGS", "MAKELEVEL", "SUBMISSIONS", "LESSON", "FILE", "ARGS"}
    return {name: value for name, value in os.environ.items() if name not in ours}


def rules():
    text = (ROOT / "Makefile").read_text(encoding="utf-8")
    return dict(re.findall(r"^([a-z-]+):[^\n]*\n((?:\t[^\n]*\n)+)", text, re.MULTILINE))


def test_every_target_is_one_python_line_and_is_listed():
    listed = environment.targets((ROOT / "Makefile").read_text(encoding="utf-8")).splitlines()
    names = [line.split()[1] for line in listed]
    phony = re.search(r"^\.PHONY: (.*)$", (ROOT / "Makefile").read_text(encoding="utf-8"), re.MULTILINE).group(1).split()
    assert set(names) == set(rules()) - {"help"} == set(phony) - {"help"}
    assert all(len(line) < 120 and len(line.split()) > 4 for line in listed)
    for name, recipe in rules().items():
        assert re.fullmatch(r"\t@\$\((RUN|PYTHON)\)[^\n]*\n", recipe), f"{name} is more than one line"


@MAKE
def test_make_alone_lists_the_targets():
    done = subprocess.run(
        ["make", f"PYTHON={shlex.quote(sys.executable)}"],
        cwd=ROOT,
        env=without_make(),
        capture_output=True,
        text=True,
        check=True,
        timeout=60,
    )
    assert done.stdout.splitlines()[0].startswith("make grade ")
    assert len(done.stdout.splitlines()) == len(rules()) - 1


@MAKE
@POSIX
@pytest.mark.parametrize("through", ["command line", "environment"])
@pytest.mark.parametrize(
    "name",
    [
        "Ana Pérez",
        "a'b",
        'a "b" c',
        "$(touch pwned)",
        "$(shell touch pwned)",
        "`touch pwned`",
        "x; touch pwned",
        "$$HOME",
        "a\\b",
        "#1",
        "%",
    ],
)
def test_a_name_reaches_the_command_as_it_is(tmp_path, name, through):
    shutil.copy(ROOT / "Makefile", tmp_path)
    stub = tmp_path / "stub.py"
    stub.write_text("import json, sys; print(json.dumps(sys.argv[1:]))", encoding="utf-8")
    python = f"PYTHON={shlex.quote(sys.executable)} stub.py"
    for target, variable, expected in [
        (["grade"], "SUBMISSIONS", ["graders", "grade", name]),
        (["check", "LESSON=recovery-01"], "FILE", ["graders", "check", "recovery-01", name]),
        (["reset"], "LESSON", ["publish", "reset", name]),
    ]:
        given = {variable: name} if through == "environment" else {}
        words = [] if given else [f"{variable}={name}"]
        done = subprocess.run(
            ["make", "-s", python, *target, *words],
            cwd=tmp_path,
            env=without_make() | given,
            capture_output=True,
            text=True,
            check=True,
        )
        assert json.loads(done.stdout) == ["-m", "environment", *expected]
    assert not (tmp_path / "pwned").exists()


# --- the locks


def test_the_locks_fit_pyproject(capsys):
    assert environment.check_locks(ROOT) == 0, capsys.readouterr().err


LOCK = environment.BANNER + (
    "jax==0.9.2 \\\n    --hash=sha256:aa \\\n    --hash=sha256:bb\n"
    "scipy==1.17.1 ; python_full_version < '3.12' \\\n    --hash=sha256:cc\n"
    "scipy==1.18.1 ; python_full_version >= '3.12' \\\n    --hash=sha256:dd\n"
)


def test_the_pins_of_a_lock():
    assert environment.pins(LOCK) == [
        ("jax", "0.9.2", ""),
        ("scipy", "1.17.1", "python_full_version < '3.12'"),
        ("scipy", "1.18.1", "python_full_version >= '3.12'"),
    ]


@pytest.mark.parametrize(
    ("text", "asked", "says"),
    [
        (LOCK, ["jax==0.9.2", "SciPy>=1.17,<2"], None),
        (LOCK, ["jax==0.9.1"], "asks for ==0.9.1"),
        (LOCK, ["scipy>=1.18"], "scipy==1.17.1 is locked"),
        (LOCK, ["grain==0.2"], "grain is missing"),
        (LOCK.removeprefix(environment.BANNER), [], "banner"),
        (LOCK.replace(" \\\n    --hash=sha256:cc", ""), [], "has no hash"),
        (LOCK + "--index-url https://example.org/simple\n", [], "belongs to one machine"),
        (LOCK + "# " + "x" * environment.LARGEST_LOCK, [], "bytes"),
    ],
)
def test_what_is_wrong_with_a_lock(text, asked, says):
    problems = environment.lock_problems(text, asked)
    assert (not problems) if says is None else any(says in problem for problem in problems), problems


@pytest.mark.parametrize(
    ("version", "clause", "met"),
    [
        ("1.2", "==1.2", True),
        ("1.2.0", "==1.2", True),
        ("1.10", ">=1.9", True),
        ("1.9", ">=1.10", False),
        ("8.9", ">=8.9", True),
        ("3.0", "<4", True),
        ("4.0", "<4", False),
        ("4.0rc1", "==4.0", False),
        ("2.0", ">1", True),
        ("1", "<=1.0", True),
    ],
)
def test_versions_meet_clauses(version, clause, met):
    assert environment.satisfies(version, clause) is met


def test_a_lock_that_cannot_be_renewed_stays_as_it_was(tmp_path, monkeypatch, capsys):
    for name in environment.LOCKS:
        (tmp_path / name).write_text(f"{name} as it was\n", encoding="utf-8")
    shutil.copy(ROOT / "pyproject.toml", tmp_path)
    fake = tmp_path / "fake.py"
    fake.write_text(
        "import pathlib, sys\n"
        "out = pathlib.Path(sys.argv[sys.argv.index('-o') + 1])\n"
        "out.write_text('new')\n"
        "sys.exit('scale' in out.name)\n",
        encoding="utf-8",
    )
    real = subprocess.run
    monkeypatch.setattr(
        environment.subprocess, "run", lambda command, **more: real([sys.executable, str(fake), *command[1:]], **more)
    )
    assert environment.lock(tmp_path, []) == 1
    for name in environment.LOCKS:
        assert (tmp_path / name).read_text(encoding="utf-8") == f"{name} as it was\n"
    assert "as they were" in capsys.readouterr().err


def locked(root, monkeypatch):
    """Renew the locks of a folder with an installer that writes down what it was asked for."""
    fake = root / "fake.py"
    fake.write_text(
        "import json, pathlib, sys\n"
        "words = sys.argv[1:]\n"
        "asked = sys.stdin.read().split() if '-' in words else []\n"
        "pathlib.Path(words[words.index('-o') + 1]).write_text('x==1\\n    --hash=sha256:0\\n')\n"
        "with open('asked.jsonl', 'a') as file: file.write(json.dumps([words, asked]) + '\\n')\n",
        encoding="utf-8",
    )
    real = subprocess.run
    monkeypatch.setattr(
        environment.subprocess, "run", lambda command, **more: real([sys.executable, str(fake), *command[1:]], **more)
    )
    monkeypatch.setattr(environment, "check_locks", lambda root: 0)
    assert environment.lock(root, []) == 0
    return [json.loads(line) for line in (root / "asked.jsonl").read_text(encoding="utf-8").splitlines()]


def test_what_goes_with_dask_is_locked_beside_the_rest(tmp_path, monkeypatch):
    for name in environment.LOCKS:
        (tmp_path / name).touch()
    shutil.copy(ROOT / "pyproject.toml", tmp_path)
    *_, (words, asked) = locked(tmp_path, monkeypatch)
    assert words[-2:] == ["-o", environment.SCALE]
    assert [words[at + 1] for at, word in enumerate(words) if word == "-c"] == list(environment.LOCKS[:-1])
    assert asked == environment.asked_for(ROOT)[environment.SCALE] and any(one.startswith("distributed==") for one in asked)


def test_locks_that_cannot_be_installed_together_are_a_problem(tmp_path, capsys):
    shutil.copy(ROOT / "pyproject.toml", tmp_path)
    for name in environment.LOCKS:
        shutil.copy(ROOT / name, tmp_path)
    assert environment.check_locks(tmp_path) == 0
    scale = tmp_path / environment.SCALE
    for package, against in (("psutil", environment.RUNTIME), ("distributed", None)):
        whole = scale.read_text(encoding="utf-8")
        scale.write_text(re.sub(rf"(?m)^{package}==\S+", f"{package}==0.1", whole), encoding="utf-8")
        capsys.readouterr()
        assert environment.check_locks(tmp_path) == 1
        said = capsys.readouterr().err
        assert f"{environment.SCALE}: {package}==0.1" in said and (against is None or f"but {against} has" in said), said
        scale.write_text(whole, encoding="utf-8")
