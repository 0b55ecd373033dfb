"""The data of the course's TOML files as frozen models. `docs/schemas/` holds the same as JSON Schema, generated.

Every model forbids unknown keys: a misspelled key must not silently mean its default.
"""

from __future__ import annotations

import re
import tomllib
from datetime import date
from pathlib import Path
from typing import Annotated, Any, Literal, TypeVar

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, StringConstraints, ValidationError, model_validator

from course.errors import CourseError, Problem

FORMAT = 1

Slug = Annotated[str, StringConstraints(pattern=r"^[a-z0-9]+(-[a-z0-9]+)*$", max_length=64)]
LessonId = Annotated[str, StringConstraints(pattern=r"^[a-z0-9]+(-[a-z0-9]+)*-[0-9]{2}$")]
Identifier = Annotated[str, StringConstraints(pattern=r"^[A-Za-z_][A-Za-z0-9_]*$")]
PhaseId = Annotated[str, StringConstraints(pattern=r"^[0-9]{2}$")]
Text = Annotated[str, StringConstraints(strip_whitespace=True, min_length=1)]
Scalar = bool | int | float | str
ParameterValue = Scalar | tuple[Scalar, ...]
Parameters = dict[str, ParameterValue]


class Model(BaseModel):
    """Base of all course data: immutable, and strict about unknown keys."""

    model_config = ConfigDict(frozen=True, extra="forbid", str_strip_whitespace=True)


ComparatorName = Literal["exact", "close", "at_most", "same_set", "same_order", "raises", "ignored"]


class Comparator(Model):
    """How an observed value is compared with the expected one. Written in TOML as one string, for instance
    ``"close rtol=1e-5"``, ``"at_most 1e-8"`` or ``"exact dtype=float32"``.

    Attributes:
        name: the rule; see :mod:`course.comparison`.
        rtol: relative tolerance of ``close``; None means 1e-6, or 1e-5 where either side is float32,
            2e-3 for float16, 1e-2 for bfloat16.
        atol: absolute tolerance of ``close``; None means 1e-15.
        bound: the bound of ``at_most``.
        dtype: if given, the dtype the observed array must have (``exact`` and ``close`` only).
        library: if given, ``numpy`` or ``jax``: the kind of array that is asked for.
    """

    name: ComparatorName
    rtol: float | None = None
    atol: float | None = None
    bound: float | None = None
    dtype: str | None = None
    library: Literal["numpy", "jax"] | None = None

    @classmethod
    def parse(cls, text: str) -> Comparator:
        """Read the one-string form. Raises ValueError with the accepted forms when it cannot be read."""
        name, *words = text.split()
        fields: dict[str, Any] = {"name": name}
        allowed = {"close": {"rtol", "atol", "dtype", "library"}, "exact": {"dtype", "library"}}.get(name, set())
        for word in words:
            key, equals, value = word.partition("=")
            if not equals and name == "at_most" and "bound" not in fields:
                fields["bound"] = float(word)
            elif equals and key in allowed:
                fields[key] = float(value) if key in {"rtol", "atol"} else value
            else:
                raise ValueError(f"cannot read {word!r} in comparator {text!r}; accepted: {COMPARATOR_FORMS}")
        if name == "at_most" and "bound" not in fields:
            raise ValueError("at_most needs its bound, for instance `at_most 1e-8`")
        return cls(**fields)

    def __str__(self) -> str:
        words: list[str] = [self.name]
        if self.bound is not None:
            words.append(f"{self.bound:g}")
        words += [f"{key}={value:g}" for key, value in (("rtol", self.rtol), ("atol", self.atol)) if value is not None]
        words += [f"{key}={value}" for key, value in (("dtype", self.dtype), ("library", self.library)) if value]
        return " ".join(words)


COMPARATOR_FORMS = (
    "exact [dtype=D] [library=numpy|jax], close [rtol=R] [atol=A] [dtype=D] [library=L], at_most B, same_set, "
    "same_order, raises, ignored"
)


def _comparator(value: object) -> object:
    return Comparator.parse(value) if isinstance(value, str) and value.split() else value


ComparatorField = Annotated[
    Comparator,
    BeforeValidator(_comparator, json_schema_input_type=str),
    Field(description=f"One string: {COMPARATOR_FORMS}"),
]


class Objective(Model):
    """Something the learner can do afterwards."""

    id: Slug
    text: Text


class Option(Model):
    """One answer to choose, in a quiz or a prediction. Feedback is shown after choosing, right or wrong."""

    text: Text
    correct: bool = False
    feedback: Text


def _one_right(options: tuple[Option, ...]) -> None:
    if sum(option.correct for option in options) != 1:
        raise ValueError("exactly one option must have `correct = true`")


def _expression(text: str) -> None:
    try:
        compile(text, "<probe>", "eval")
    except SyntaxError as error:
        raise ValueError(f"{text!r} is not an expression: {error.msg}") from None


class Prediction(Model):
    """A question put before a result is shown."""

    ask: Text
    options: tuple[Option, ...] = Field(min_length=2, alias="option")

    @model_validator(mode="after")
    def _check(self) -> Prediction:
        _one_right(self.options)
        return self


class Output(Model):
    """How printed lines are compared.

    Attributes:
        cell: the cell that prints the line; all cells if absent.
        line: a pattern with ``*`` for any text, matched against the whole recorded line.
        compare: the comparator for the numbers of that line.
    """

    cell: Slug | None = None
    line: Text
    compare: ComparatorField

    def matches(self, cell: str, line: str) -> bool:
        """Whether this rule is about that line, printed by that cell."""
        pattern = ".*".join(re.escape(part) for part in self.line.split("*"))
        return self.cell in (None, cell) and re.fullmatch(pattern, line) is not None


class Fact(Model):
    """A value of the reference run that the words quote or that stands for itself: recorded, and compared when verified.

    Attributes:
        cell: observed right after this cell.
        expression: over the names of the script.
    """

    id: Slug
    cell: Slug
    expression: Text
    compare: ComparatorField

    @model_validator(mode="after")
    def _check(self) -> Fact:
        _expression(self.expression)
        return self


class Figure(Model):
    """A figure drawn by a cell of role ``figure``; its data and provenance are kept beside it."""

    cell: Slug
    title: Text
    alt: Text
    reading: Text
    prediction: Prediction


class Experiment(Model):
    """A cell of role ``experiment``: what to expect from it and what that means."""

    cell: Slug
    prediction: Prediction
    expected: Text
    meaning: Text


class Range(Model):
    """What a draw may choose for one parameter. In TOML ``[low, high]`` (both included) or ``{ choice = [...] }``."""

    low: int | float | None = None
    high: int | float | None = None
    choice: tuple[ParameterValue, ...] = ()

    @model_validator(mode="after")
    def _check(self) -> Range:
        if bool(self.choice) == (self.low is not None):
            raise ValueError("give either [low, high] or { choice = [...] }")
        if self.low is not None and (self.high is None or self.high <= self.low):
            raise ValueError("in [low, high], high must be greater than low")
        return self


def _range(value: object) -> object:
    if isinstance(value, (list, tuple)) and len(value) == 2:
        return {"low": value[0], "high": value[1]}
    return value


RangeField = Annotated[Range, BeforeValidator(_range, json_schema_input_type=tuple[int | float, int | float] | Range)]


class Mistake(Model):
    """A wrong solution that people really write.

    Attributes:
        code: a few lines run after the reference solution of the exercise, in the same cell.
        say: what a learner whose observations match is told. It helps without giving the answer.
    """

    id: Slug
    code: Text
    say: Text


class Task(Model):
    """What is asked of a learner and how it is judged: an exercise of a lesson or a stage of a project."""

    id: Slug
    title: Text
    points: float = Field(default=1, ge=0, allow_inf_nan=False)
    meets: tuple[Slug, ...] = Field(min_length=1)
    task: Text
    guide: tuple[Text, ...] = Field(min_length=1)
    hints: tuple[Text, Text]
    reasoning: Text
    probes: dict[str, ComparatorField] = Field(min_length=1)
    variants: tuple[Parameters, ...] = ()
    draw: dict[str, RangeField] = {}
    mistakes: tuple[Mistake, ...] = Field(default=(), alias="mistake")

    @model_validator(mode="after")
    def _check(self) -> Task:
        if not self.draw and len(self.variants) < 2:
            raise ValueError("it needs a draw or at least two variants, or a typed-in answer passes")
        for expression in self.probes:
            _expression(expression)
        for mistake in self.mistakes:
            try:
                compile(mistake.code, "<mistake>", "exec")
            except SyntaxError as error:
                raise ValueError(f"mistake {mistake.id!r} is not valid Python: {error.msg}") from None
        return self


class Exercise(Task):
    """One exercise: the cell of the same id in `code/main.py` is its answer."""

    kind: Literal["modify", "transfer", "challenge"]


class Stage(Task):
    """One stage of a project: the cell of the same id in `stages.py` puts the learner's module to the test.

    Attributes:
        needs: the functions and classes of the module that the stage stands on. While one of them is a stub, the stage is
            unsolved.
    """

    needs: tuple[Identifier, ...] = Field(min_length=1)


class Diagnosis(Model):
    """Symptom, likely cause, and the check that decides."""

    symptom: Text
    cause: Text
    check: Text


class Evidence(Model):
    """Something to keep from the learner's own run, and why somebody would ask for it."""

    item: Text
    why: Text


class Reference(Model):
    """A primary source: what to read there, and which version or date of it was read."""

    title: Text
    url: Annotated[str, StringConstraints(pattern=r"^https://\S+$")]
    read: Text
    version: Text


class Limits(Model):
    """What one run of a submission may use: all cells of all its runs together where nothing else is said."""

    cell_seconds: float = Field(default=30, gt=0, description="wall time of a cell")
    total_seconds: float = Field(default=180, gt=0, description="wall time of all cells")
    memory_mb: int = Field(default=4_000, ge=500, description="memory of all processes together")
    processes: int = Field(default=128, ge=2, description="processes at the same time, the kernel among them")
    scratch_mb: int = Field(default=1_000, ge=10, description="what the files in the scratch folder may hold together")
    file_mb: int = Field(default=500, ge=10, description="what one file may hold")
    open_files: int = Field(default=1_024, ge=128, description="descriptors that a process may have open")
    output_mb: int = Field(default=64, ge=1, description="what a cell may print")


class UnitFile(Model):
    """What `lesson.toml` and `project.toml` have in common."""

    format: Literal[1]
    id: Slug
    title: Text
    minutes: int = Field(gt=0, le=1200)
    hardware: Literal["cpu", "gpu", "tpu"] = "cpu"
    revision: date
    after: tuple[str, ...] = ()
    question: Text
    packages: tuple[str, ...] = Field(min_length=1, description="distributions whose versions the receipt records")
    limits: Limits = Limits()
    grading: Parameters = Field(
        default={}, description="parameters that a grading run changes, to leave out drills on which no exercise depends"
    )
    objectives: tuple[Objective, ...] = Field(min_length=1)
    outputs: tuple[Output, ...] = Field(default=(), alias="output")
    facts: tuple[Fact, ...] = Field(default=(), alias="fact")
    figures: tuple[Figure, ...] = Field(default=(), alias="figure")
    exercises: tuple[Task, ...] = ()
    diagnoses: tuple[Diagnosis, ...] = Field(default=(), alias="diagnosis")
    evidence: tuple[Evidence, ...] = ()
    references: tuple[Reference, ...] = Field(default=(), alias="reference")

    def line_rule(self, cell: str, line: str) -> Comparator:
        """How a printed line is compared: by the first `[[output]]` that matches it, else exactly."""
        return next((output.compare for output in self.outputs if output.matches(cell, line)), Comparator(name="exact"))


class LessonFile(UnitFile):
    """`lesson.toml`."""

    id: LessonId
    experiments: tuple[Experiment, ...] = Field(default=(), alias="experiment")
    exercises: tuple[Exercise, ...] = Field(default=(), alias="exercise")


class ProjectFile(UnitFile):
    """`project.toml`. What a lesson calls exercises are here the stages.

    Attributes:
        module: the file that the learner writes and hands in.
        files: given files of the project's folder that stand beside the module when `stages.py` runs.
    """

    module: Annotated[str, StringConstraints(pattern=r"^[a-z][a-z0-9_]*\.py$")]
    files: tuple[Annotated[str, StringConstraints(pattern=r"^[a-z][a-z0-9_]*\.[a-z0-9]+$")], ...] = ()
    exercises: tuple[Stage, ...] = Field(min_length=1, alias="stage")


class Question(Model):
    """One quiz question."""

    id: Slug
    text: Text
    meets: Slug
    options: tuple[Option, ...] = Field(min_length=3, alias="option")

    @model_validator(mode="after")
    def _check(self) -> Question:
        _one_right(self.options)
        return self


class QuizFile(Model):
    """`quiz.toml`."""

    format: Literal[1]
    questions: tuple[Question, ...] = Field(min_length=4, max_length=6, alias="question")


class StartingPoint(Model):
    """A question with which a reader tests whether the phase is the right place to start."""

    question: Text
    answer: Text


class Milestone(Model):
    """What is done when the lesson is done."""

    lesson: LessonId
    text: Text


class PhaseProject(Model):
    """The project that a phase leads to: a folder below `projects/`, planned until that folder is there."""

    name: Slug
    proves: Text


class PhaseFile(Model):
    """`phase.toml`. Lessons are listed in their order of study."""

    format: Literal[1]
    id: PhaseId
    title: Text
    summary: Text
    question: Text
    preparation: tuple[Text, ...] = Field(min_length=1)
    starting_point: StartingPoint
    lessons: tuple[str, ...] = Field(min_length=1, description="folder names, in the order of study")
    milestones: tuple[Milestone, ...] = Field(alias="milestone")
    changed_condition: Text
    project: PhaseProject


class Term(Model):
    """A word of a phase, and what it means there.

    Attributes:
        lesson: the lesson that introduces it, in whose files it must occur.
    """

    name: Text
    lesson: LessonId
    text: Text


class GlossaryFile(Model):
    """`glossary.toml` of a phase."""

    format: Literal[1]
    terms: tuple[Term, ...] = Field(min_length=1, alias="term")


class PhaseEntry(Model):
    """One row of `course.toml`. A phase whose folder does not exist is planned, and shown as such."""

    id: PhaseId
    folder: Annotated[str, StringConstraints(pattern=r"^[0-9]{2}(-[a-z0-9]+)+$")]
    title: Text
    after: tuple[PhaseId, ...] = ()
    optional: Literal["accelerator"] | None = None

    @property
    def slug(self) -> str:
        """The folder without its number: the first part of the ids of its lessons."""
        return self.folder.partition("-")[2]


class CourseFile(Model):
    """`course.toml`."""

    format: Literal[1]
    title: Text
    phases: tuple[PhaseEntry, ...] = Field(min_length=1, alias="phase")


FILES: dict[str, type[Model]] = {
    "course.toml": CourseFile,
    "phase.toml": PhaseFile,
    "glossary.toml": GlossaryFile,
    "lesson.toml": LessonFile,
    "project.toml": ProjectFile,
    "quiz.toml": QuizFile,
}

M = TypeVar("M", bound=Model)


def read_toml(path: Path, model: type[M], shown: str | None = None) -> M:
    """Read and validate one TOML file.

    Args:
        path: the file.
        model: what it must be.
        shown: how messages name the file; its path if absent.

    Raises:
        CourseError: naming file, key and remedy, for a missing file, broken TOML, an unknown key or a bad value.
    """
    name = shown or str(path)
    try:
        data = tomllib.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise CourseError.at(name, "", "the file is missing", f"write it; docs/lesson-format.md shows {path.name}") from None
    except UnicodeDecodeError as error:
        raise CourseError.at(name, f"byte {error.start}", "the file is not UTF-8", "save it as UTF-8") from None
    except tomllib.TOMLDecodeError as error:
        raise CourseError.at(name, "", f"not valid TOML: {error}", "mend the line that is named") from None
    try:
        return model.model_validate(data)
    except ValidationError as error:
        raise CourseError(*(_problem(name, item, model) for item in error.errors())) from None


def _problem(file: str, item: Any, model: type[Model]) -> Problem:
    """Put a pydantic error into the words of the course: file, key, remedy."""
    key = re.sub(r"\.(\d+)", r"[\1]", ".".join(str(part) for part in item["loc"]))
    if item["type"] == "extra_forbidden":
        return Problem(file, key, "unknown key", f"remove it or mend its spelling; known keys: {_known(model, item['loc'])}")
    if item["type"] == "missing":
        return Problem(file, key, "the key is missing", "add it; docs/lesson-format.md says what it means")
    got = "" if isinstance(item["input"], (dict, list)) else f" (got {item['input']!r})"
    message = item["msg"].removeprefix("Value error, ")
    return Problem(file, key, f"{message[0].lower()}{message[1:]}{got}", "change the value")


def _known(model: type[Model], loc: tuple[Any, ...]) -> str:
    """The keys allowed beside an unknown one, found by walking the model along the location of the error."""
    node: Any = model
    for part in loc[:-1]:
        if isinstance(part, int):
            continue
        fields = {field.alias or name: field for name, field in node.model_fields.items()}
        found = fields.get(str(part))
        inner = [kind for kind in _models_in(found.annotation)] if found else []
        if not inner:
            return "see docs/lesson-format.md"
        node = inner[0]
    return ", ".join(field.alias or name for name, field in node.model_fields.items())


def _models_in(annotation: Any) -> list[type[Model]]:
    if isinstance(annotation, type) and issubclass(annotation, Model):
        return [annotation]
    return [found for part in getattr(annotation, "__args__", ()) for found in _models_in(part)]
