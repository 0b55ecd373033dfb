"""What is measured in which order, and the goals that it is held against."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from bench.classes import VARIANTS
from bench.runners import RUNNERS

CLASSES = tuple(name for name in RUNNERS if name not in {"again", "check"})
NUMPY_SIZES = (10,)
SCALE = (50, 500, 5000)
HUGE = 200  # from here on memory is looked at, seldom, in the timed rounds, and there is no round for it alone


@dataclass(frozen=True, order=True)
class Case:
    """One thing to measure.

    Attributes:
        variant: of the notebooks, or the id of a lesson.
        size: how many of them.
        runner: who runs them.
    """

    variant: str
    size: int
    runner: str

    def __str__(self) -> str:
        return f"{self.runner} {self.variant} {self.size}"


@dataclass(frozen=True)
class Side:
    """One side of a goal's ratio: ``wall`` seconds, those of the ``first`` or ``second`` command, wall seconds for ``each``
    submission, or the process's ``own`` memory.
    """

    case: Case
    what: str = "wall"


@dataclass(frozen=True)
class Goal:
    """A goal: a ratio of two sides that were measured in the same round.

    Attributes:
        text: what is compared.
        over, under: the sides.
        least, most: the bound; exactly one of them is given.
    """

    text: str
    over: Side
    under: Side
    least: float | None = None
    most: float | None = None


def _jax(runner: str, size: int, what: str = "wall") -> Side:
    return Side(Case("jax", size, runner), what)


def _lesson(runner: str, lesson: str, size: int = 1) -> Side:
    return Side(Case(lesson, size, runner))


GOALS = (
    Goal("40 JAX notebooks, execution only: throughput against nbgrader autograde", _jax("nbgrader", 40), _jax("run", 40), least=10),
    Goal("the same against otter run", _jax("otter-run", 40), _jax("run", 40), least=20),
    Goal("the same against nbdev-test with two workers, which isolates nothing", _jax("nbdev", 40), _jax("run", 40), least=1),
    Goal("40 JAX notebooks, full judging: throughput against nbgrader autograde", _jax("nbgrader", 40), _jax("grade", 40), least=5),
    Goal("time against the floor, 40 notebooks", _jax("run", 40), _jax("floor", 40), most=1.5),
    Goal("time against the floor, 200 notebooks", _jax("run", 200), _jax("floor", 200), most=1.5),
    Goal("10 times `recovery-06` (MLflow), execution only: throughput against nbclient", _lesson("nbclient", "recovery-06", 10), _lesson("run", "recovery-06", 10), least=3),
    Goal("500 unchanged submissions again: time against the first run", _jax("again", 500, "second"), _jax("again", 500, "first"), most=0.02),
    Goal("cost of a submission, 5,000 against 50", _jax("grade", 5000, "each"), _jax("grade", 50, "each"), most=1.1),
    Goal("the grader's own memory, 5,000 submissions against 50", _jax("grade", 5000, "own"), _jax("grade", 50, "own"), most=1.2),
    Goal("`check` of `recovery-06` against its plain script", _lesson("check", "recovery-06"), _lesson("script", "recovery-06"), most=1.5),
    Goal("`check` of `recovery-01` against nbclient on its notebook", _lesson("check", "recovery-01"), _lesson("nbclient", "recovery-01"), most=1.5),
)  # fmt: skip


def cases(sizes: tuple[int, ...], *, goals_only: bool = False, only: tuple[str, ...] = (), most: int | None = None) -> list[Case]:
    """What to measure, in the order of a round.

    Args:
        sizes: of the classes in the tables.
        goals_only: just what the goals need.
        only: names of runners; all if empty.
        most: leave out larger classes.
    """
    wanted = {side.case for goal in GOALS for side in (goal.over, goal.under)}
    wanted |= {Case("jax", size, "grade") for size in SCALE}
    if not goals_only:
        wanted |= {Case(variant, size, runner) for variant, size in _tables(sizes) for runner in CLASSES}
    kept = [one for one in wanted if (not only or one.runner in only) and (most is None or one.size <= most)]
    order = list(RUNNERS)
    return sorted(kept, key=lambda one: (one.variant not in VARIANTS, one.variant, one.size, order.index(one.runner)))


def _tables(sizes: tuple[int, ...]) -> Iterator[tuple[str, int]]:
    for size in sizes:
        yield "jax", size
        if size in NUMPY_SIZES:
            yield "numpy", size


def rounds_of(text: str, size: int) -> int:
    """How many rounds a class of this size gets.

    Args:
        text: a number, or numbers with the size from which on they hold: ``5,40:3,500:1``.
        size: the size.

    Raises:
        ValueError: if the text is not of this form.
    """
    found: dict[int, int] = {}
    for part in text.split(","):
        bound, _, number = part.rpartition(":")
        found[int(bound or 0)] = int(number)
    if 0 not in found or min(found.values()) < 1:
        raise ValueError(f"{text!r}: begin with a number of rounds, at least 1, for instance 5 or 5,40:3,500:1")
    return found[max(bound for bound in found if bound <= size)]


def schedule(wanted: list[Case], rounds: str, *, memory: bool) -> Iterator[tuple[int, Case]]:
    """Every measurement: round by round, and in each round the runners of a class one place further on.

    Round 0 is for memory, and fills caches; its times are not used.
    """
    groups: dict[tuple[str, int], list[Case]] = {}
    for case in wanted:
        groups.setdefault((case.variant, case.size), []).append(case)
    for number in range(max((rounds_of(rounds, size) for _, size in groups), default=0) + 1):
        for (_, size), group in groups.items():
            if number <= rounds_of(rounds, size) and (number or (memory and size < HUGE)):
                turn = number % len(group)
                yield from ((number, case) for case in (*group[turn:], *group[:turn]))
