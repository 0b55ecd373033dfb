"""The words in which the grader speaks, and the data of a result. Everything here is plain and frozen."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from enum import StrEnum
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, SkipValidation

from course.receipt import Environment


class Verdict(StrEnum):
    """The closed vocabulary. ERROR is the grader's, the host's or the course's fault and costs a learner nothing."""

    PASS = "PASS"  # noqa: S105 - a verdict, not a password
    FAIL = "FAIL"
    ERROR = "ERROR"
    TIMEOUT = "TIMEOUT"
    UNSOLVED = "UNSOLVED"
    SKIP = "SKIP"


class Reason(StrEnum):
    """Why a verdict is not PASS."""

    WRONG = "wrong"
    RAISED = "raised"
    MISSING = "missing"
    TIMEOUT = "timeout"
    DIED = "died"
    MEMORY = "memory"
    OUTPUT_LIMIT = "output-limit"
    RESOURCE_LIMIT = "resource-limit"
    TAMPERED = "tampered"
    NOT_RUN = "not-run"
    UNREADABLE = "unreadable"
    REFUSED = "refused"
    NO_ANSWER = "no-answer"
    INTERNAL = "internal"


class _Result(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class ExerciseResult(_Result):
    """The verdict of one exercise of one submission.

    Attributes:
        exercise: its id.
        verdict, reason: reason is None for PASS only.
        probe: the expression that decided, if one did.
        message: one line for a person, without the name of the exercise.
        mistake: the id of the named mistake whose observations match, if one does.
        points, out_of: what was earned of what; points is None where no mark is given (ERROR).
        runs: under which parameters the exercise was judged: ``base``, ``RECORDS=14, SEED=23``, ``draw 518203``.
    """

    exercise: str
    verdict: Verdict
    reason: Reason | None = None
    probe: str | None = None
    message: str = ""
    mistake: str | None = None
    points: float | None
    out_of: float
    runs: tuple[str, ...] = ()


class SubmissionResult(_Result):
    """What came of one submission to one lesson.

    Attributes:
        learner: the name as handed in, never changed.
        lesson: the lesson's id.
        file: the file, relative to the class folder, or empty where nothing was handed in.
        sha256: of the submitted bytes; empty where there are none.
        exercises: one result an exercise of the lesson, in its order, always all of them.
        notices: what was noticed and costs nothing: restored cells, repaired files, errors after the last exercise.
        seconds: wall time, a local observation.
        seed: of the draws by which it was judged, absent where nothing was run.
    """

    learner: str
    lesson: str
    file: str
    sha256: str
    exercises: tuple[ExerciseResult, ...]
    notices: tuple[str, ...] = ()
    seconds: float = 0.0
    seed: int | None = None

    def plain(self) -> dict[str, Any]:
        """The JSON form, with its own verdict and points added for readers that do not want to sum."""
        return self.model_dump(mode="json") | {"verdict": self.verdict.value, "points": self.points, "out_of": self.out_of}

    @property
    def verdict(self) -> Verdict:
        """The lesson's verdict: PASS only if there is an exercise and every one passed, else the gravest one."""
        found = {result.verdict for result in self.exercises}
        for verdict in (Verdict.ERROR, Verdict.TIMEOUT, Verdict.FAIL, Verdict.SKIP, Verdict.UNSOLVED):
            if verdict in found:
                return verdict
        return Verdict.PASS if found else Verdict.ERROR

    @property
    def points(self) -> float | None:
        """The sum of the points, or None where some exercise has no mark."""
        earned = [result.points for result in self.exercises]
        return None if any(one is None for one in earned) else sum(one for one in earned if one is not None)

    @property
    def out_of(self) -> float:
        """The sum of what could be earned. It comes from the lesson, never from the submitted file."""
        return sum(result.out_of for result in self.exercises)


class Results(_Result):
    """`results.json`: one grading run.

    Attributes:
        started, finished: in UTC.
        complete: False if the run was interrupted; what was graded until then is in it.
        seed: the seed of the draws of this run. The same seed draws the same parameters again. A result that was taken over
            from an earlier run has that one's.
        receipts: lesson id to the SHA-256 of the receipt file that was judged by.
        environment: where it ran.
        isolation: what kept the learner's code apart, layer by layer.
        limits: lesson id to its limits: seconds, MB and numbers, by the names of :class:`course.schema.Limits`.
        submissions: in the order of the class folder.
    """

    format: Literal[1] = 1
    started: datetime
    finished: datetime
    complete: bool = True
    seed: int
    receipts: dict[str, str]
    environment: Environment
    isolation: tuple[str, ...]
    limits: dict[str, dict[str, float]]
    #: Not looked into here: those of a big class are not held as objects.
    submissions: SkipValidation[Sequence[SubmissionResult]]

    def head(self) -> dict[str, Any]:
        """The JSON form of all but the submissions."""
        return self.model_dump(mode="json", exclude={"submissions"})


def not_judged(
    exercises: tuple[tuple[str, float], ...], verdict: Verdict, reason: Reason, message: str
) -> tuple[ExerciseResult, ...]:
    """The same verdict for every exercise: for a file that cannot be read, or work that could not be run.

    Args:
        exercises: id and points of each.
        verdict: the same for all.
        reason: the same for all.
        message: the same for all.
    """
    points = None if verdict is Verdict.ERROR else 0.0
    return tuple(
        ExerciseResult(exercise=name, verdict=verdict, reason=reason, message=message, points=points, out_of=worth)
        for name, worth in exercises
    )
