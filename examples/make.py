"""Make `examples/class/` and `examples/projects/`: `python -m examples.make`. With `--check`, say what is out of date instead.

Each submission is an exercise file in which some cells hold a learner's answer; `examples/another_way/` holds answers that
are right without being the lesson's. In the class of the projects each submission is a module. What must come of every one stands
in `examples/expected.csv` and `examples/projects.csv`, which are written and reviewed by hand.
"""

from __future__ import annotations

import ast
import json
import sys
from dataclasses import dataclass, field
from pathlib import Path

from course.catalogue import Lesson, Project, find_root, load
from course.starter import asked

REFERENCE = "the lesson's own solution"
ANOTHER_WAY = "a different right solution"


@dataclass(frozen=True)
class Work:
    """What one learner hands in for one lesson.

    Attributes:
        learner: name of the folder.
        lesson: the lesson's id.
        answers: exercise id -> code; ``REFERENCE``, or ``REFERENCE + code`` for more code after it; ``ANOTHER_WAY`` for
            what stands in `examples/another_way/<lesson>/<exercise>.py`. What is not named stays as it was handed out.
        suffix: ``.ipynb`` or ``.py``.
        edited: given cell id -> code that the learner put in its place.
        more: code of an additional cell at the end.
    """

    learner: str
    lesson: str
    answers: dict[str, str] = field(default_factory=dict)
    suffix: str = ".ipynb"
    edited: dict[str, str] = field(default_factory=dict)
    more: str = ""


ALL = {"make-it-yours": REFERENCE, "fingerprint-meaning": REFERENCE, "shuffle-mismatch": REFERENCE}

TYPED_IN = """\
last = np.array([-0.6, 0.0, -0.4], dtype="float32")
empty_slots = 1
padded_labels = np.array([-0.6, 0.0, -0.4, 0.0])
mask = np.array([1.0, 1.0, 1.0, 0.0])
unmasked = -0.25
masked = -1 / 3"""

# Knows every parameter that the public repository names; a draw is not among them.
TYPED_IN_FOR_ALL = """\
known = {(11, 4): [-0.6, 0.0, -0.4], (11, 5): [-0.4], (16, 4): [1.4, -1.0, -0.8, -0.2]}
last = known.get((RECORDS, BATCH_SIZE), [0.0])
empty_slots = BATCH_SIZE - len(last)
padded_labels = last + [0.0] * empty_slots
mask = [1.0] * len(last) + [0.0] * empty_slots
unmasked = sum(last) / BATCH_SIZE
masked = sum(last) / len(last)"""

ENDLESS = """\
position = 0
while position < len(batches[-1]["y"]):
    last = batches[-1]["y"]  # position never moves"""

HALF = """\
last = batches[-1]["y"]
empty_slots = BATCH_SIZE - len(last)
padded_labels = np.pad(last, (0, empty_slots))
mask = ...  # TODO: 1 real, 0 padding
unmasked = padded_labels.mean()
masked = ...  # TODO: from padded_labels and mask"""

RAISES = """\
last = batches[-1]["labels"]
empty_slots = BATCH_SIZE - len(last)
padded_labels = np.pad(last, (0, empty_slots))"""

ONLY_PRINTS = "print('PASS      recovery-01/make-it-yours')\nprint('PASS: recovery-01')"

FIRST = "recovery-01"
WORKS = (
    Work("Ana Pérez", FIRST, ALL),
    Work("Li, Wei", FIRST, dict.fromkeys(ALL, ANOTHER_WAY)),
    Work("Maya (script)", FIRST, ALL, suffix=".py"),
    Work("O'Neil", FIRST, {**ALL, "make-it-yours": TYPED_IN}),
    Work("Bob", FIRST, {**ALL, "make-it-yours": TYPED_IN_FOR_ALL}),
    Work("Kim", FIRST),
    Work("Åsa Öberg", FIRST, {**ALL, "make-it-yours": REFERENCE + "masked = padded_labels.mean()"}),
    Work("Rossi", FIRST, {**ALL, "make-it-yours": ENDLESS}),
    Work("Jean-Luc", FIRST, {**ALL, "shuffle-mismatch": "import os\nos._exit(0)"}),
    Work("Müller, Jr.", FIRST, dict.fromkeys(ALL, ONLY_PRINTS)),
    Work("=SUM(A1)", FIRST, ALL, edited={"parameters": "RECORDS = 8\nBATCH_SIZE = 4\nSEED = 17"}, more="1 / 0"),
    Work("Zoë 100%", FIRST, {"make-it-yours": HALF}),
    Work("日本 太郎", FIRST, {**ALL, "make-it-yours": RAISES}),
)
EMPTY = ("Nguyễn",)
NOT_A_NOTEBOOK = {"van der Berg": "<!DOCTYPE html>\n<html><head><title>Sign in</title></head><body>Please sign in.</body></html>\n"}


def others(lessons: tuple[Lesson, ...]) -> tuple[Work, ...]:
    """For every other lesson: a different right solution, a named mistake in each exercise, and an untouched file."""
    found: list[Work] = []
    for lesson in lessons:
        if lesson.id == FIRST:
            continue
        right = {exercise.id: ANOTHER_WAY for exercise in lesson.meta.exercises}
        wrong = {exercise.id: REFERENCE + exercise.mistakes[0].code for exercise in lesson.meta.exercises}
        found += [Work("Li, Wei", lesson.id, right), Work("Åsa Öberg", lesson.id, wrong), Work("Kim", lesson.id)]
    return tuple(found)


PRINTS_AND_ENDS = """\
import os

print("PASS: {project}", flush=True)
os._exit(0)
"""


def modules(projects: tuple[Project, ...]) -> dict[str, str]:
    """The class that hands in projects, by path: right, right in the first stage, a mistake in the last, untouched, a cheat."""
    made: dict[str, str] = {}
    for project in projects:
        solution = project.solution or ""
        works = {
            "Ana Pérez": solution,
            "Zoë 100%": begun(project),
            "Åsa Öberg": f"{solution}\n{project.meta.exercises[-1].mistakes[0].code}",
            "Kim": project.starter.source,
            "Müller, Jr.": f"# project: {project.id}\n{PRINTS_AND_ENDS.format(project=project.id)}",
        }
        made |= {f"{learner}/{project.meta.module}": text for learner, text in works.items()}
    return made


def begun(project: Project) -> str:
    """A module in which the functions of the first stage are written, and the others are stubs still."""
    solution = project.solution or ""
    first = {name for need in project.meta.exercises[0].needs for name in asked(need, project.starter.stubs)}
    lines, stubs = solution.split("\n"), functions(project.starter.source)
    # From the back, so that the places of those before stay true.
    for name, (start, end, _) in sorted(functions(solution).items(), key=lambda one: one[1], reverse=True):
        if name in project.starter.stubs and name not in first:
            lines[start:end] = stubs[name][2]
    return "\n".join(lines)


def functions(source: str) -> dict[str, tuple[int, int, list[str]]]:
    """First line (0-based), end and text of each function of a module; a method is ``Class.method``."""
    found: dict[str, tuple[int, int, list[str]]] = {}
    lines, tree = source.split("\n"), ast.parse(source)
    classes = [(f"{node.name}.", node.body) for node in tree.body if isinstance(node, ast.ClassDef)]
    for prefix, body in [("", tree.body), *classes]:
        for node in body:
            if isinstance(node, ast.FunctionDef):
                start, end = node.lineno - 1, node.end_lineno or node.lineno
                found[f"{prefix}{node.name}"] = (start, end, lines[start:end])
    return found


def another_way(lesson: Lesson, exercise: str) -> str:
    """The code of an exercise cell as somebody else would write it, and be as right as the lesson.

    Another algorithm, float64 where the lesson has float32, a JAX array where it has NumPy or the reverse, a list where it
    has an array: each must PASS, or a probe is too narrow.
    """
    path = Path(__file__).parent / "another_way" / lesson.id / f"{exercise}.py"
    return path.read_text(encoding="utf-8").rstrip()


def content(work: Work, lesson: Lesson, exercises: Path) -> str:
    """The submitted file as text."""

    def answer(cell: str) -> str | None:
        if cell in work.edited:
            return work.edited[cell]
        code = work.answers.get(cell)
        if code == ANOTHER_WAY:
            return another_way(lesson, cell)
        if code is not None and code.startswith(REFERENCE):
            code = f"{lesson.cell(cell).source}\n{code.removeprefix(REFERENCE)}".rstrip()
        return code

    given = (exercises / f"{lesson.id}{work.suffix}").read_text(encoding="utf-8")
    if work.suffix == ".py":
        for cell in lesson.scaffolds:
            code = answer(cell)
            if code is not None:
                given = given.replace(f"# cell: {cell}\n{lesson.scaffolds[cell].source}", f"# cell: {cell}\n{code}")
        return given
    notebook = json.loads(given)
    for node in notebook["cells"]:
        code = answer(node["id"])
        if code is not None:
            node["source"] = f"# cell: {node['id']}\n{code}".splitlines(keepends=True)
    if work.more:
        node = {"cell_type": "code", "execution_count": None, "id": "own", "metadata": {}, "outputs": [], "source": [work.more]}
        notebook["cells"].append(node)
    return json.dumps(notebook, ensure_ascii=False, indent=1) + "\n"


def files(root: Path) -> dict[str, str]:
    """Every file of the class, by its path below `examples/class/`."""
    course = load(root)
    made = {f"{name}/.gitkeep": "" for name in EMPTY}
    made |= {f"{name}/{FIRST}.ipynb": text for name, text in NOT_A_NOTEBOOK.items()}
    for work in (*WORKS, *others(course.lessons)):
        made[f"{work.learner}/{work.lesson}{work.suffix}"] = content(work, course.lesson(work.lesson), root / "exercises")
    return made


def main() -> int:
    """Write both classes, or check them. Returns the exit code."""
    root = find_root(Path(__file__).parent)
    check = "--check" in sys.argv[1:]
    return max(
        [write("examples/class", files(root), root, check), write("examples/projects", modules(load(root).projects), root, check)]
    )


def write(folder: str, wanted: dict[str, str], root: Path, check: bool) -> int:
    """Write a class, or check it. Returns the exit code.

    Args:
        folder: the class, relative to the course.
        wanted: its files, by path below it.
        root: the course.
        check: say what is out of date, and write nothing.
    """
    target = root / folder
    present = {path.relative_to(target).as_posix(): path for path in target.rglob("*") if path.is_file()}
    stale = sorted(
        name
        for name in {*wanted, *present}
        if name not in wanted or name not in present or present[name].read_bytes() != wanted[name].encode("utf-8")
    )
    if check:
        for name in stale:
            print(f"{folder}/{name} is not what `python -m examples.make` writes")
        return 1 if stale else 0
    for name in stale:
        path = target / name
        if name not in wanted:
            path.unlink()
            continue
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(wanted[name].encode("utf-8"))
    for inside in target.iterdir():
        if inside.is_dir() and not any(inside.iterdir()):
            inside.rmdir()
    print(f"{folder}: {len(wanted)} files, {len(stale)} written or removed")
    return 0


if __name__ == "__main__":
    sys.exit(main())
