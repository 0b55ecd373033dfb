"""What is measured: each peer as its users would run it over a class, the floor, and this grader.

A runner makes a :class:`Job` for a :class:`Stand`: what commands do the work, and how to see that it was done. Whatever a peer needs
before it can grade (its database, its tests) is made beforehand and does not count.
"""

from __future__ import annotations

import json
import math
import shutil
import sys
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from bench import classes
from bench.measure import Failed, Job, carry_out, variables
from bench.peers import ROOT, Place
from course.catalogue import load

HERE = Path(__file__).resolve().parent
OWN = Path(sys.executable)
JOBS = 2
SEED = "6"
VARIANTS = 2  # under so many other sets of parameters every exercise is judged
_TOLERANCE = 1e-2  # one is computed by JAX in single precision, the other by NumPy


@dataclass(frozen=True)
class Stand:
    """One measurement.

    Attributes:
        variant: ``jax`` or ``numpy``, or the id of one of the course's lessons.
        size: how many notebooks.
        folder: of this measurement, new and empty.
        shelf: a folder for what several measurements need, made once.
        home: HOME of everything that runs.
        place: the environment of the peer; None for what runs in the course's own.
    """

    variant: str
    size: int
    folder: Path
    shelf: Path
    home: Path
    place: Place | None

    @property
    def python(self) -> Path:
        """The interpreter that runs this."""
        return self.place.python if self.place else OWN

    def program(self, name: str) -> str:
        """The path of a command of the peer."""
        assert self.place is not None
        return self.place.program(name)

    @cached_property
    def group(self) -> tuple[classes.Student, ...]:
        """Who hands in."""
        return classes.students(self.size)

    @property
    def marks(self) -> Path:
        """Where each notebook that comes to its end leaves a file; see the last cell of the lesson."""
        return self.folder / "marks"

    def take(self, kind: str, make: Callable[[Path], None]) -> Path:
        """A copy for this measurement of what ``make`` makes once for all measurements of this variant and size."""
        kept = self.shelf / f"{self.variant}-{self.size}" / kind
        if not kept.is_dir():
            beside = kept.with_suffix(".new")
            shutil.rmtree(beside, ignore_errors=True)
            beside.mkdir(parents=True)
            make(beside)
            beside.rename(kept)  # whole, or not there
        return Path(shutil.copytree(kept, self.folder / kind))

    def prepare(self, *command: str | Path, folder: Path, own: bool = False) -> None:
        """Carry out a command that is not measured. ``own``: in the course's environment, not in the peer's."""
        more = {"PYTHONPATH": str(ROOT)} if own else {}
        carry_out(list(map(str, command)), folder, variables(self.home, OWN if own else self.python, more))

    @cached_property
    def notebooks(self) -> list[str]:
        """The plain notebooks of the class, or copies of a lesson's executed one without its outputs."""
        folder = self.take("plain", self._plain)
        return sorted(map(str, folder.glob("*.ipynb")))

    def _plain(self, folder: Path) -> None:
        if self.variant in classes.VARIANTS:
            classes.plain(self.variant, self.group, folder)
            return
        cells = json.loads(_notebook(self.variant).read_text(encoding="utf-8"))["cells"]
        for student in self.group:
            codes = [classes.code("".join(cell["source"])) for cell in cells if cell["cell_type"] == "code"]
            codes[0]["source"] = f"# {student.name}\n{codes[0]['source']}"
            classes.write(folder / f"{student.name}.ipynb", codes)

    @cached_property
    def course(self) -> Path:
        """The course with the lesson, recorded and checked once: its caches are as they are after a first use."""
        if self.variant not in classes.VARIANTS:
            return ROOT
        whole = Stand(self.variant, 0, self.folder, self.shelf, self.home, None)
        return whole.take("course", whole._course)

    def _course(self, folder: Path) -> None:
        folder.rmdir()
        lesson = classes.course(self.variant, folder)
        self.prepare(OWN, "-m", "graders", "record", lesson, folder=folder, own=True)
        classes.handed_in(self.variant, classes.students(1), folder / "once", lesson)
        self.prepare(OWN, "-m", "graders", "grade", "once", "--out", "once", folder=folder, own=True)
        shutil.rmtree(folder / "once")

    @cached_property
    def lesson(self) -> str:
        """The lesson that the notebooks are of."""
        return load(self.course).units[0].id if self.variant in classes.VARIANTS else self.variant

    # --- whether the work was done ---------------------------------------------------------------------------------

    def marked(self) -> None:
        """Every notebook has come to its end, with the loss that its constants give."""
        self.losses({file.name: file.read_text(encoding="utf-8") for file in self.marks.iterdir()})

    def losses(self, said: dict[str, str]) -> None:
        """What each student's notebook has computed.

        Raises:
            Failed: if one is missing or wrong.
        """
        for student in self.group:
            if student.name not in said:
                raise Failed(f"the notebook of {student.name} was not run to its end")
            if not math.isclose(float(said[student.name]), wanted := classes.loss(student), rel_tol=_TOLERANCE, abs_tol=1e-5):
                raise Failed(f"the notebook of {student.name} gave {said[student.name]}, not {wanted:.5g}")

    def executed(self, folder: Path) -> None:
        """Every notebook was written with the printed lines of the last cell.

        Raises:
            Failed: if one is missing, or something in it was not run.
        """
        self.printed({file.stem: _printed(file) for file in folder.glob("*.ipynb")})

    def printed(self, found: dict[str, list[str]]) -> None:
        """Every notebook has printed in its last cell what it prints there.

        Args:
            found: notebook to what its code cells printed.

        Raises:
            Failed: if one is missing, or something in it was not run.
        """
        if self.variant in classes.VARIANTS:
            ends = {name: texts[-1].strip().rpartition(" ") for name, texts in found.items() if texts}
            self.losses({name: value for name, (head, _, value) in ends.items() if head == f"finished {name}"})
            return
        wanted = _printed(_notebook(self.variant))
        for student in self.group:
            texts = found.get(student.name, [])
            if len(texts) != len(wanted) or texts[-1] != wanted[-1]:
                raise Failed(f"the notebook of {student.name} was not run to its end")


def _notebook(lesson: str) -> Path:
    unit = load(ROOT).lesson(lesson)
    return unit.folder / f"{lesson}.ipynb"


def _printed(file: Path) -> list[str]:
    """What the code cells of a notebook printed, one text a cell. A cell that was not run, and those after it, are left out."""
    texts = []
    for cell in json.loads(file.read_text(encoding="utf-8"))["cells"]:
        if cell["cell_type"] == "code":
            if cell["execution_count"] is None:
                break
            outputs = [one["text"] for one in cell["outputs"] if one["output_type"] == "stream" and one["name"] == "stdout"]
            texts.append("".join(text if isinstance(text, str) else "".join(text) for text in outputs))
    return texts


@dataclass(frozen=True)
class Runner:
    """Something that is measured.

    Attributes:
        name: as the command line names it.
        title: as tables name it.
        job: what it does on a stand.
        peer: whose environment it runs in; the course's own if absent.
        lessons: whether it runs the course's own lessons, too.
        isolates: whether each notebook has a process of its own.
        about: how it is run, for the words below the table.
    """

    name: str
    title: str
    job: Callable[[Stand], Job]
    peer: str | None
    isolates: bool
    about: str
    lessons: bool = False


def _out(stand: Stand, name: str = "out") -> Path:
    folder = stand.folder / name
    folder.mkdir()
    return folder


def _marking(stand: Stand) -> dict[str, str]:
    stand.marks.mkdir()
    return {"BENCH_MARKS": str(stand.marks)}


def _script(at_once: int) -> Callable[[Stand], Job]:
    def job(stand: Stand) -> Job:
        if stand.variant not in classes.VARIANTS:
            script = load(ROOT).lesson(stand.variant).script
            log = stand.folder / "output.log"
            last = _printed(_notebook(stand.variant))[-1].strip()

            def check() -> None:
                if not log.read_text(encoding="utf-8").strip().endswith(last):
                    raise Failed(f"the script of {stand.variant} did not print {last!r} in the end")

            return Job([[str(OWN), str(script)]], check, environment={"MPLBACKEND": "agg"})
        folder = stand.take("scripts", lambda path: classes.scripts(stand.variant, stand.group, path))
        commands = [[str(OWN), str(file)] for file in sorted(folder.glob("*.py"))]
        return Job(commands, stand.marked, at_once, {"MPLBACKEND": "agg", **_marking(stand)})

    return job


def _nbclient(at_once: int) -> Callable[[Stand], Job]:
    def job(stand: Stand) -> Job:
        out = _out(stand)
        python = stand.python if stand.variant in classes.VARIANTS else OWN  # a lesson needs more than the peers have
        command = [str(python), str(HERE / "drivers" / "nbclient_class.py"), str(at_once), str(out), *stand.notebooks]
        return Job([command], lambda: stand.executed(out))

    return job


def _driver(name: str) -> Callable[[Stand], Job]:
    def job(stand: Stand) -> Job:
        out = _out(stand)
        command = [str(stand.python), str(HERE / "drivers" / f"{name}_class.py"), str(out), *stand.notebooks]
        return Job([command], lambda: stand.executed(out))

    return job


def _nbmake(stand: Stand) -> Job:
    return _pytest(stand, stand.folder / "plain", ["--nbmake"])


def _nbval(stand: Stand) -> Job:
    def recorded(folder: Path) -> None:
        """It compares outputs, so there have to be some: those of a run of the floor."""
        source = folder.with_suffix(".source")
        classes.plain(stand.variant, stand.group, source)
        stand.prepare(OWN, "-P", HERE / "floor.py", source, "--out", folder, folder=folder)
        shutil.rmtree(source)

    # The cells of a notebook belong together; without that they would be shared out among the workers.
    return _pytest(stand, stand.take("recorded", recorded), ["--nbval", "--dist", "loadscope"])


def _pytest(stand: Stand, folder: Path, options: list[str]) -> Job:
    assert stand.notebooks
    command = [stand.program("pytest"), "-q", "-p", "no:cacheprovider", "-n", str(JOBS), *options, str(folder)]
    return Job([command], stand.marked, environment=_marking(stand))


def _nbgrader(stand: Stand) -> Job:
    def make(folder: Path) -> None:
        classes.nbgrader(stand.variant, stand.group, folder)
        stand.prepare(stand.program("nbgrader"), "generate_assignment", classes.ASSIGNMENT, folder=folder)

    folder = stand.take("nbgrader", make)

    def check() -> None:
        stand.marked()
        for student in stand.group:
            if not (folder / "autograded" / student.name / classes.ASSIGNMENT / f"{classes.ASSIGNMENT}.ipynb").is_file():
                raise Failed(f"there is no autograded notebook of {student.name}")

    command = [stand.program("nbgrader"), "autograde", classes.ASSIGNMENT]
    return Job([command], check, environment=_marking(stand), folder=folder)


def _otter_folder(stand: Stand) -> tuple[Path, Path]:
    def make(folder: Path) -> None:
        classes.otter(stand.variant, stand.group, folder)
        master = folder / "master" / f"{classes.ASSIGNMENT}.ipynb"
        stand.prepare(stand.program("otter"), "assign", "--no-run-tests", master, folder / "made", folder=folder)

    folder = stand.take("otter", make)
    (archive,) = (folder / "made" / "autograder").glob("*.zip")
    return folder, archive


_OTTER_POINTS = sum(cell.id.endswith("-test") for cell in classes.cells("numpy"))


def _otter_run(stand: Stand) -> Job:
    folder, archive = _otter_folder(stand)
    files = sorted((folder / "class").glob("*.ipynb"))
    outs = [_out(stand, f"out-{file.stem}") for file in files]

    def check() -> None:
        stand.marked()
        for out in outs:
            results = json.loads((out / "results.json").read_text(encoding="utf-8"))
            total = sum(one.get("score", 0) for one in results["tests"] if one.get("max_score"))
            if total != _OTTER_POINTS:
                raise Failed(f"otter gave {total} of {_OTTER_POINTS} points in {out.name}")

    commands = [
        [stand.program("otter"), "run", "-a", str(archive), "-o", str(out), "--no-logo", str(file)]
        for file, out in zip(files, outs, strict=True)
    ]
    return Job(commands, check, environment=_marking(stand))


def _otter_api(stand: Stand) -> Job:
    folder, archive = _otter_folder(stand)
    files = sorted((folder / "class").glob("*.ipynb"))
    said = stand.folder / "points.txt"

    def check() -> None:
        stand.marked()
        lines = said.read_text(encoding="utf-8").split("\n")
        for student in stand.group:
            if not any(line.split()[:1] == [student.name] and float(line.split()[1]) == _OTTER_POINTS for line in lines):
                raise Failed(f"otter did not give {student.name} {_OTTER_POINTS} points")

    command = [str(stand.python), str(HERE / "drivers" / "otter_class.py"), str(archive), str(said), *map(str, files)]
    return Job([command], check, environment=_marking(stand))


def _nbdev(stand: Stand) -> Job:
    folder = Path(stand.notebooks[0]).parent
    command = [stand.program("nbdev-test"), str(folder), "--n-workers", str(JOBS)]
    return Job([command], stand.marked, environment=_marking(stand), folder=folder)


def _floor(stand: Stand) -> Job:
    folder = Path(stand.notebooks[0]).parent
    modules = ["numpy", "matplotlib.pyplot", *(["jax", "jax.numpy"] if stand.variant == "jax" else [])]
    command = [str(OWN), "-P", str(HERE / "floor.py"), str(folder), "--jobs", str(JOBS), "--modules", ",".join(modules)]
    return Job([command], stand.marked, environment=_marking(stand))


_OURS = {"PYTHONPATH": str(ROOT)}


def _run(kernel: str) -> Callable[[Stand], Job]:
    def job(stand: Stand) -> Job:
        out = stand.folder / "printed.json"
        command = [str(OWN), "-m", "bench.ours", stand.lesson, str(out), *stand.notebooks, "--kernel", kernel, "--jobs", str(JOBS)]

        def check() -> None:
            stand.printed(json.loads(out.read_text(encoding="utf-8")) if out.is_file() else {})

        return Job([command], check, environment=_OURS, folder=stand.course)

    return job


def _grade(kernel: str, times: int = 1) -> Callable[[Stand], Job]:
    def job(stand: Stand) -> Job:
        folder = stand.take("class", lambda path: classes.handed_in(stand.variant, stand.group, path, stand.lesson))
        outs = [stand.folder / f"results-{number}.json" for number in range(times)]
        commands = [
            [str(OWN), "-m", "graders", "grade", str(folder), "--out", str(stand.folder / "reports"), "--json", str(out),
             "--seed", SEED, "--jobs", str(JOBS), "--kernel", kernel]
            for out in outs
        ]  # fmt: skip

        def check() -> None:
            for out in outs:
                passed = _passed(out)
                for student in stand.group:
                    if passed.get(student.name) is not True:
                        raise Failed(f"{student.name} was not judged PASS with all variants and the draw")

        return Job(commands, check, environment=_OURS, folder=stand.course)

    return job


def _passed(results: Path) -> dict[str, bool]:
    """Learner to whether every exercise was judged PASS after the base run, two variants and a draw."""
    if not results.is_file():
        return {}
    return {
        one["learner"]: bool(one["exercises"]) and all(_proven(exercise) for exercise in one["exercises"])
        for one in json.loads(results.read_text(encoding="utf-8"))["submissions"]
    }


def _proven(exercise: dict[str, Any]) -> bool:
    runs = exercise["runs"]
    variants = [one for one in runs if one != "base" and not one.startswith("draw ")]
    return exercise["verdict"] == "PASS" and "base" in runs and f"draw {SEED}" in runs and len(variants) == VARIANTS


def _check(stand: Stand) -> Job:
    out = stand.folder / "results.json"
    command = [
        str(OWN), "-m", "graders", "check", stand.variant, str(_notebook(stand.variant)), "--seed", SEED, "--json", str(out),
    ]  # fmt: skip

    def check() -> None:
        if set(_passed(out).values()) != {True}:
            raise Failed(f"the reference of {stand.variant} was not judged PASS with all variants and the draw")

    return Job([command], check, environment=_OURS, folder=ROOT)


RUNNERS = {
    runner.name: runner
    for runner in (
        Runner("script", "plain `python main.py`", _script(1), None, True, "one after the other", lessons=True),
        Runner("script-2", "plain `python main.py`, two at a time", _script(2), None, True, "two processes at a time"),
        Runner("nbclient", "nbclient", _nbclient(1), "nbclient", True, "one after the other, in one program", lessons=True),
        Runner("nbclient-2", "nbclient, two at a time", _nbclient(2), "nbclient", True, "`async_execute`, two at a time, in one program"),
        Runner("papermill", "papermill", _driver("papermill"), "papermill", True, "`execute_notebook`, one after the other, in one program"),
        Runner("nbval", "nbval, `-n 2`", _nbval, "nbval", True, "`pytest --nbval -n 2 --dist loadscope`; compares outputs"),
        Runner("nbmake", "nbmake, `-n 2`", _nbmake, "nbmake", True, "`pytest --nbmake -n 2`"),
        Runner("nbgrader", "nbgrader autograde", _nbgrader, "nbgrader", True, "as it ships, with a database of its own; three solution and three test cells"),
        Runner("otter-run", "otter run", _otter_run, "otter-grader", True, "one command a notebook, one after the other; three questions"),
        Runner("otter-api", "otter, Python API", _otter_api, "otter-grader", True, "`grade_submission`, one after the other, in one program"),
        Runner("ploomber", "ploomber-engine", _driver("ploomber"), "ploomber-engine", False, "all notebooks in one process"),
        Runner("nbdev", "nbdev-test, two workers", _nbdev, "nbdev", False, "notebooks of a worker share its process"),
        Runner("floor", "floor: fork and plain `exec`, two at a time", _floor, None, True, "`bench/floor.py`; no kernel, no limits, nothing observed"),
        Runner("run", "**this grader, execution only**", _run("auto"), None, True, "`bench/ours.py`: each notebook in an isolated kernel, two at a time", lessons=True),
        Runner("run-cold", "this grader, execution only, `--kernel cold`", _run("cold"), None, True, "the same in ordinary kernels", lessons=True),
        Runner("grade", "**this grader, full judging**", _grade("auto"), None, True, "`graders grade`, empty store; base run, two variants and a draw, three exercises with probes"),
        Runner("grade-cold", "this grader, full judging, `--kernel cold`", _grade("cold"), None, True, "the same in ordinary kernels"),
        Runner("again", "this grader, the same class again", _grade("auto", 2), None, True, "`graders grade` twice; nothing has changed the second time"),
        Runner("check", "this grader, `check` of a lesson", _check, None, True, "`graders check` of the reference notebook, start of everything included", lessons=True),
    )
}  # fmt: skip
