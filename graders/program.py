"""What is run for a submission: the given cells and the learner's own, in one order, given cells restored.

For a lesson these are the cells of its script and of the submitted notebook. For a project the submitted module is written
to the working directory, with the given files beside it, and the cells of `stages.py` put it to the test.
"""

from __future__ import annotations

import ast
import builtins
import re
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from course.catalogue import Lesson, Project, Unit
from course.schema import Parameters
from course.script import Cell, Scaffold, same_code, untouched
from course.starter import asked, is_untouched, open_stubs
from graders.submission import MARKER, Submission, SubmittedCell


@dataclass(frozen=True)
class Step:
    """One cell to run.

    Attributes:
        id: the cell's id, or ``own-7`` for the learner's additional cell at position 7.
        source: the code.
        origin: ``given``, ``exercise`` (the learner's answer), ``own`` (the learner's additional cell) or ``stage`` (given code
            that runs the learner's module).
        position: where the learner sees it, 1-based; None for a given cell that the submission does not have.
        parameters: whether this is the parameters cell, after which a run changes them.
    """

    id: str
    source: str
    origin: str
    position: int | None = None
    parameters: bool = False


@dataclass(frozen=True)
class Program:
    """Cells in the order in which they run.

    Attributes:
        steps: the cells.
        observed_after: exercise id -> index of the step after which its probes are taken.
        answers: exercise id -> the learner's code for it, for recognising what is untouched.
        missing: exercises that have no cell of their own, with what to say about it.
        notices: what was restored or is odd.
        left: exercise id -> what to say if it was left open: its blanks are untouched, or what it needs is a stub still.
        unchanged: exercises whose answer is still as it was handed out.
        pending: exercises whose own cell still has a blank; the answer may stand in another cell.
        given: exercise id -> names in its probes that mean what the lesson's given cells made of them.
        plain: exercise id -> names in its probes that are Python's own.
        keeps: index of a step -> names that are remembered as that step bound them.
        changed: exercise id -> names it asks for that the learner's own later cells bind anew -> positions of these cells.
            Such an exercise is looked at once more in the end: what a learner's own cell says of an answer counts, what
            the cells of other exercises do to its names does not.
    """

    steps: tuple[Step, ...]
    observed_after: dict[str, int]
    answers: dict[str, str] = field(default_factory=dict)
    missing: dict[str, str] = field(default_factory=dict)
    notices: tuple[str, ...] = ()
    left: Mapping[str, str] = field(default_factory=dict)
    unchanged: frozenset[str] = frozenset()
    pending: frozenset[str] = frozenset()
    given: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    plain: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    keeps: Mapping[int, tuple[str, ...]] = field(default_factory=dict)
    changed: Mapping[str, Mapping[str, int]] = field(default_factory=dict)

    def place(self, step: int) -> str:
        """How messages name a step."""
        found = self.steps[step]
        if found.origin == "stage":
            return f"the stage {found.id}"
        return f"cell {found.position}" if found.position else f"the given cell {found.id}"

    def until(self, step: int) -> Program:
        """The program up to a step, without it."""
        observed = {exercise: after for exercise, after in self.observed_after.items() if after < step}
        return replace(self, steps=self.steps[:step], observed_after=observed)


def reference(unit: Unit, exercise: str | None = None, extra: str = "") -> Program:
    """The program of the reference.

    Args:
        unit: the lesson or project.
        exercise: if given, only what this exercise or stage stands on: the parameters, the build cells before it, its cell.
        extra: code appended to the reference of the exercise: a named mistake.
    """
    if isinstance(unit, Project):
        return of_module(unit, f"{unit.solution or ''}\n{extra}", () if exercise is None else (exercise,))
    assert isinstance(unit, Lesson)
    return _of_lesson(unit, exercise, extra)


def _of_lesson(lesson: Lesson, exercise: str | None, extra: str) -> Program:
    steps: list[Step] = []
    observed: dict[str, int] = {}
    for cell in lesson.cells:
        if exercise is not None and cell.id != exercise and cell.role not in {"parameters", "build"}:
            continue
        source = f"{cell.source}\n{extra}" if cell.id == exercise and extra else cell.source
        origin = "exercise" if cell.role == "exercise" else "given"
        steps.append(Step(cell.id, source, origin, parameters=cell.role == "parameters"))
        if cell.role == "exercise":
            observed[cell.id] = len(steps) - 1
        if cell.id == exercise:
            break
    given, plain, keeps, _ = _meanings(lesson, steps)
    return Program(tuple(steps), observed, given=given, plain=plain, keeps=keeps)


def of_submission(unit: Unit, submission: Submission, only: tuple[str, ...] = (), *, figures: bool = False) -> Program:
    """The program of a submission.

    Args:
        unit: what it is a submission to.
        submission: the file, read.
        only: stages of a project; all if empty. A lesson's cells build on each other and are always run whole.
        figures: whether the cells that draw a project's figures are run; those of a lesson always are.
    """
    if isinstance(unit, Project):
        return of_module(unit, submission.text, only, figures=figures)
    assert isinstance(unit, Lesson)
    return _of_notebook(unit, submission)


def of_module(project: Project, source: str, only: tuple[str, ...] = (), *, figures: bool = True) -> Program:
    """The program that puts a module to the test.

    Args:
        project: the project.
        source: the module, the learner's or the reference.
        only: the stages to run, each after the build cells before it; all stages if empty.
        figures: whether the figures are drawn. They may show what any stage left, and are left out where ``only`` is given.
    """
    files = {**project.files, project.meta.module: source}
    steps = [Step("files", _writes(files), "given")]
    observed: dict[str, int] = {}
    for cell in project.cells:
        if (cell.role == "stage" and only and cell.id not in only) or (cell.role == "figure" and (only or not figures)):
            continue
        origin = "stage" if cell.role == "stage" else "given"
        steps.append(Step(cell.id, cell.source, origin, parameters=cell.role == "parameters"))
        if cell.role == "stage":
            observed[cell.id] = len(steps) - 1
    stubs = open_stubs(source, project.starter)
    left = {}
    for stage in project.meta.exercises:
        mine = {name: text for need in stage.needs for name, text in asked(need, stubs).items()}
        if mine:
            name, text = next(iter(mine.items()))
            are = "is a stub still" if len(mine) == 1 else "are stubs still"
            left[stage.id] = f"{', '.join(mine)} {are} in {project.meta.module}; begin with {name}: {text}"
    unchanged = frozenset(stage.id for stage in project.meta.exercises) if is_untouched(source, project.starter) else frozenset()
    return Program(tuple(steps), observed, left=left, unchanged=unchanged)


def _writes(files: Mapping[str, str]) -> str:
    """Code that writes files to the working directory and leaves no name behind."""
    path = "__import__('pathlib').Path"
    return "".join(f"{path}({name!r}).write_text({text!r}, encoding='utf-8', newline='')\n" for name, text in files.items())


def _of_notebook(lesson: Lesson, submission: Submission) -> Program:
    """The program of a notebook or script handed in to a lesson.

    The lesson's cells keep the lesson's order. A given cell is the lesson's own code, whatever the file holds. The
    learner's additional cells run after the cell that they follow in the file.
    """
    sorted_out = _sort(lesson, submission)
    found, follows = sorted_out.found, sorted_out.follows
    steps: list[Step] = []
    observed: dict[str, int] = {}
    answers: dict[str, str] = {}
    notices: list[str] = []

    held: list[str | None] = [None] if found else []

    def own() -> None:
        for after in held:
            steps.extend(Step(f"own-{cell.position}", cell.source, "own", cell.position) for cell in follows.get(after, ()))
        held.clear()

    for cell in lesson.cells:
        mine = found.get(cell.id, [])
        if mine or cell.role not in {"parameters", "build"}:
            # Where given code is not in the file, the learner's own cells stand on it, and so run after it.
            own()
        if cell.role != "exercise":
            steps.append(Step(cell.id, cell.source, "given", mine[0].position if mine else None, cell.role == "parameters"))
            notices += _restored(cell, mine) if found else []
        elif mine:
            steps.extend(Step(cell.id, one.source, "exercise", one.position) for one in mine)
            answers[cell.id] = "\n".join(one.source for one in mine)
            observed[cell.id] = len(steps) - 1
            if len(mine) > 1:
                places = " and ".join(str(one.position) for one in mine)
                notices.append(f"cells {places} both are {cell.id}; both were run, in this order")
        held.append(cell.id)
    held += [] if found else [None]
    own()
    missing = {
        exercise.id: _gone(lesson, exercise.id, sorted_out.converted)
        for exercise in lesson.meta.exercises
        if exercise.id not in observed
    }
    # Such a cell may only have lost its name; the names that it assigns decide then, and are looked at in the end.
    observed |= dict.fromkeys(missing, len(steps) - 1)
    unchanged = frozenset(name for name, code in answers.items() if same_code(code, lesson.scaffolds[name].source))
    blank = frozenset(name for name, code in answers.items() if untouched(code, lesson.scaffolds[name]))
    left = {name: text for name, code in answers.items() if (text := _open(code, lesson.scaffolds[name]))}
    empty = frozenset(name for name, code in answers.items() if placeholder(code))
    if unchanged | empty == set(lesson.scaffolds):
        unchanged |= empty  # nothing was written anywhere: whoever leaves out one cell may have meant to stop in it
    given, plain, keeps, asked = _meanings(lesson, steps)
    changed = _changed(steps, observed, asked)
    for exercise, names in changed.items():
        given[exercise] += asked[exercise]
        _keep(keeps, observed[exercise], asked[exercise])
        for index, step in enumerate(steps):
            if step.origin == "own" and index > observed[exercise]:
                _keep(keeps, index, tuple(sorted(bound(step.source) & set(names))))
    notices += _calls_exit(steps)
    return Program(
        tuple(steps), observed, answers, missing, tuple(notices), left, unchanged, unchanged | blank | set(changed), given, plain, keeps,
        changed,
    )  # fmt: skip


def _changed(steps: list[Step], observed: Mapping[str, int], asked: Names) -> dict[str, dict[str, int]]:
    """See :class:`Program`. A name that two exercises ask for is left alone: it is not told apart whose it is."""
    owners = Counter(name for names in asked.values() for name in names)
    found: dict[str, dict[str, int]] = {}
    for index, step in enumerate(steps):
        if step.origin != "own" or step.position is None:
            continue
        again = bound(step.source)
        for exercise, names in asked.items():
            if observed.get(exercise, index) < index:
                mine = {name: step.position for name in names if name in again and owners[name] == 1}
                if mine:
                    found.setdefault(exercise, {}).update(mine)
    return found


def _keep(keeps: dict[int, tuple[str, ...]], index: int, names: tuple[str, ...]) -> None:
    if names:
        keeps[index] = tuple(sorted({*keeps.get(index, ()), *names}))


def _calls_exit(steps: list[Step]) -> list[str]:
    """What to say of ``quit()`` and ``exit()``, which end a console but not a cell that is run like this."""
    found = [
        f"cell {step.position} calls {name}(), which has no effect here"
        for step in steps
        for name in ("quit", "exit")
        if step.origin != "given" and re.search(rf"^\s*{name}\(\)\s*$", step.source, re.MULTILINE)
    ]
    return list(dict.fromkeys(found))


def placeholder(source: str) -> bool:
    """Whether code holds nothing but what stands for code: ``pass``, ``...``, a text, ``raise NotImplementedError``."""
    try:
        body = ast.parse(source).body
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return False
    return all(
        isinstance(node, ast.Pass)
        or (isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant))
        or (isinstance(node, ast.Raise) and node.exc is not None and ast.unparse(node.exc).startswith("NotImplementedError"))
        for node in body
    )


def _open(answer: str, original: Scaffold) -> str:
    """What to say if an exercise was left open, or an empty text."""
    if not any(line.strip() and not line.strip().startswith("#") for line in answer.splitlines()):
        return "the cell is empty"
    if same_code(answer, original.source):
        return "unchanged from the release"
    left, total = untouched(answer, original), len(original.blanks)
    return f"{left} of {total} blanks {'is' if left == 1 else 'are'} untouched" if left else ""


Names = dict[str, tuple[str, ...]]


def _meanings(lesson: Lesson, steps: list[Step]) -> tuple[Names, Names, dict[int, tuple[str, ...]], Names]:
    """What the names in the probes of each exercise mean: see :class:`Program`. The last are those that it asks for.

    A name that the exercise itself asks for is the learner's. Any other that a given cell before it binds is the lesson's.
    """
    given: Names = {}
    plain: Names = {}
    asked: Names = {}
    known: set[str] = set()
    for cell in lesson.cells:
        own = bindings(cell.source)
        if cell.role != "exercise":
            known |= own
            continue
        probes = lesson.exercise(cell.id).probes
        used = {node.id for text in probes for node in ast.walk(ast.parse(text, mode="eval")) if isinstance(node, ast.Name)}
        given[cell.id] = tuple(sorted((used & known) - own))
        plain[cell.id] = tuple(sorted(name for name in used - known - own if hasattr(builtins, name)))
        asked[cell.id] = tuple(sorted(used & own))
    wanted = {name for names in given.values() for name in names}
    keeps = {index: tuple(sorted(wanted & bindings(step.source))) for index, step in enumerate(steps) if step.origin == "given"}
    return given, plain, {index: names for index, names in keeps.items() if names}, asked


def bindings(source: str) -> set[str]:
    """The names that a cell binds at its top level, loops and ``with`` blocks included."""
    found: set[str] = set()
    waiting: list[ast.AST] = list(ast.parse(source).body)
    while waiting:
        node = waiting.pop()
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            found.add(node.name)  # what is bound inside stays inside
        elif isinstance(node, ast.alias):
            found.add((node.asname or node.name).split(".")[0])
        elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            found.add(node.id)
        elif not isinstance(node, ast.Lambda | ast.ListComp | ast.SetComp | ast.DictComp | ast.GeneratorExp):
            waiting += ast.iter_child_nodes(node)
    return found


def bound(source: str) -> set[str]:
    """The names that a learner's cell binds: as :func:`bindings`, magics left out; none where it cannot be parsed."""
    lines = ("" if line.lstrip()[:1] in {"%", "!"} else line for line in source.split("\n"))
    try:
        return bindings("\n".join(lines))
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return set()


@dataclass(frozen=True)
class _Sorted:
    """The submitted cells by what they are: by the lesson's cell that they say to be; by the cell that they follow, for
    the learner's additional ones; and exercise cells that are not code any more.
    """

    found: dict[str, list[SubmittedCell]]
    follows: dict[str | None, list[SubmittedCell]]
    converted: dict[str, SubmittedCell]


def _sort(lesson: Lesson, submission: Submission) -> _Sorted:
    roles = {cell.id: cell.role for cell in lesson.cells}
    result = _Sorted({}, {}, {})
    last: str | None = None
    for cell in _apart(lesson, submission.cells):
        name = _name(lesson, cell)
        if cell.kind != "code":
            # Its own marker comment or its code must say so: the words above an exercise may carry its name as well.
            if name and roles[name] == "exercise" and (_marked(cell) or bound(cell.source) & bindings(lesson.cell(name).source)):
                result.converted[name] = cell
        elif name is not None and name in result.found and _recognized(lesson, cell) == name:
            last = name  # a copy of a given cell: running it again would only undo the parameters of a run
        elif name is None or (roles[name] != "exercise" and name in result.found):
            if cell.source.strip():
                result.follows.setdefault(last, []).append(cell)
        else:
            result.found.setdefault(name, []).append(cell)
            last = name
    return result


def _name(lesson: Lesson, cell: SubmittedCell) -> str | None:
    """The lesson's cell that a submitted one says to be, or whose code it holds."""
    ids = {one.id for one in lesson.cells}
    return next((one for one in cell.names if one in ids), None) or _recognized(lesson, cell)


def _marked(cell: SubmittedCell) -> bool:
    return MARKER.match(cell.source.split("\n", 1)[0]) is not None


def _apart(lesson: Lesson, cells: tuple[SubmittedCell, ...]) -> list[SubmittedCell]:
    """The cells, with those taken apart that hold given code among code of the learner's: a script without any markers.

    Otherwise a run under other parameters would set what the lesson has just chosen back to its first value.
    """
    there = {_name(lesson, cell) for cell in cells}
    gone = [one for one in lesson.cells if one.role in {"parameters", "build"} and one.id not in there]
    parts: list[SubmittedCell] = []
    for cell in cells:
        nameless = cell.kind == "code" and _name(lesson, cell) is None
        parts += _split(cell, gone) if nameless and gone else [cell]
    return parts


def _split(cell: SubmittedCell, gone: list[Cell]) -> list[SubmittedCell]:
    """One cell at the statements of given cells that it holds whole; these are taken out of ``gone``."""
    try:
        body = ast.parse(cell.source).body
        dumps = [ast.dump(node) for node in body]
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return [cell]
    lines = cell.source.split("\n")
    parts: list[SubmittedCell] = []
    done = at = 0  # lines that are in a part, statements that were looked at
    for given in list(gone):
        wanted = [ast.dump(node) for node in ast.parse(given.source).body]
        places = range(at, len(dumps) - len(wanted) + 1) if wanted else ()
        start = next((one for one in places if dumps[one : one + len(wanted)] == wanted), None)
        if start is None:
            continue
        end = start + len(wanted)
        first = min(body[start].lineno, *(one.lineno for one in getattr(body[start], "decorator_list", ())), len(lines)) - 1
        stop = body[end - 1].end_lineno or len(lines)
        if first < done or (start and (body[start - 1].end_lineno or 0) > first) or (end < len(body) and body[end].lineno <= stop):
            continue  # it shares a line with other code
        parts.append(replace(cell, source="\n".join(lines[done:first]), names=()))
        parts.append(replace(cell, source="\n".join(lines[first:stop]), names=(given.id,)))
        gone.remove(given)
        done, at = stop, end
    if not parts:
        return [cell]
    parts.append(replace(cell, source="\n".join(lines[done:]), names=()))
    return [part for part in parts if part.source.strip()]


def _recognized(lesson: Lesson, cell: SubmittedCell) -> str | None:
    """The given cell whose code this is, for files that have lost every other sign of it."""
    if cell.kind != "code" or not cell.source.strip():
        return None
    code = _without_marker(cell.source)
    return next((one.id for one in lesson.cells if one.role != "exercise" and same_code(code, one.source)), None)


def _restored(cell: Cell, mine: list[SubmittedCell]) -> list[str]:
    if not mine:
        return [f"the given cell {cell.id} ({cell.title}) is not in the file; the lesson's own was run"]
    if same_code(_without_marker(mine[0].source), cell.source):
        return []
    return [f"cell {mine[0].position} ({cell.title}) is given code that was edited; the lesson's own was run instead"]


def _gone(lesson: Lesson, exercise: str, converted: dict[str, SubmittedCell]) -> str:
    if exercise in converted:
        cell = converted[exercise]
        return f"cell {cell.position} ({exercise}) is a {cell.kind} cell, so it wasn't run; change it back to Code"
    return f"the cell {exercise} is gone; `make reset LESSON={lesson.id}` brings the original back, with a backup of yours"


def _without_marker(source: str) -> str:
    first, _, rest = source.partition("\n")
    return rest if MARKER.match(first) else source


def overrides(parameters: Parameters) -> str:
    """The assignments that change the parameters, as code to run after the parameters cell.

    Several values are a tuple, as constants should be: a solution must not meet another type than in the lesson.
    """
    lines = [f"{name} = {value!r}" for name, value in parameters.items()]
    code = "\n".join(lines)
    ast.parse(code)  # a name or value that is not a literal would be a fault in lesson.toml
    return code


def parameters_text(parameters: Parameters) -> str:
    """Parameters as reports show them: ``RECORDS=14, SEED=23``, or ``base`` for none."""
    return ", ".join(f"{name}={value}" for name, value in parameters.items()) or "base"
