"""One line a verdict, and the summary table."""

from __future__ import annotations

import unicodedata
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence

from rich.table import Table
from rich.text import Text

from graders.reports.text import points, visible
from graders.verdict import ExerciseResult, SubmissionResult, Verdict

STYLES = {
    Verdict.PASS: "green",
    Verdict.FAIL: "red",
    Verdict.ERROR: "bold white on red",
    Verdict.TIMEOUT: "yellow",
    Verdict.UNSOLVED: "cyan",
    Verdict.SKIP: "magenta",
}
_SHORT = {
    Verdict.PASS: "pass",
    Verdict.FAIL: "fail",
    Verdict.ERROR: "ERROR",
    Verdict.TIMEOUT: "timeout",
    Verdict.UNSOLVED: "unsolved",
    Verdict.SKIP: "skip",
}


def width(text: str) -> int:
    """Columns that a terminal needs for a text: East Asian characters take two, combining ones none."""
    wide = sum(unicodedata.east_asian_width(one) in "WF" for one in text)
    return len(text) + wide - sum(bool(unicodedata.combining(one)) for one in text)


def pad(text: str, columns: int) -> str:
    """A text filled with blanks to a width."""
    return text + " " * max(0, columns - width(text))


def class_lines(submission: SubmissionResult, name_columns: int) -> Iterator[tuple[Verdict, str]]:
    """The lines of one submission of a class: verdict, lesson/exercise, learner, points, message.

    Args:
        submission: the result.
        name_columns: width of the column of names.
    """
    for result in submission.exercises:
        where = pad(f"{submission.lesson}/{result.exercise}", 36)
        name = pad(visible(submission.learner), name_columns)
        yield (
            result.verdict,
            f"{result.verdict:<9} {where} {name} {points(result.points, result.out_of):>7}   {_message(result)}".rstrip(),
        )


def own_lines(submission: SubmissionResult) -> Iterator[tuple[Verdict | None, str]]:
    """The lines for a learner's own file: one a verdict, notices, then the lesson's."""
    for result in submission.exercises:
        yield result.verdict, f"{result.verdict:<9} {submission.lesson}/{result.exercise}  {_message(result)}".rstrip()
    for notice in submission.notices:
        yield None, f"  note: {visible(notice)}"
    if submission.verdict is Verdict.PASS:
        yield Verdict.PASS, f"PASS: {submission.lesson}"
    else:
        passed = sum(result.verdict is Verdict.PASS for result in submission.exercises)
        yield None, f"{submission.lesson}: {passed} of {len(submission.exercises)} pass"


def _message(result: ExerciseResult) -> str:
    return visible(result.message) if result.message else runs_text(result.runs)


def runs_text(runs: Sequence[str]) -> str:
    """``base, 2 variants, draw 518203``."""
    variants = [name for name in runs if name != "base" and not name.startswith("draw ")]
    parts = ["base"] if "base" in runs else []
    parts += [f"{len(variants)} variant{'s' if len(variants) > 1 else ''}"] if variants else []
    return ", ".join([*parts, *(name for name in runs if name.startswith("draw "))])


def table(submissions: Sequence[SubmissionResult]) -> Table:
    """The summary: a row a learner, a column a lesson, what came of each exercise and the points."""
    lessons: dict[str, None] = {}
    by_learner: dict[str, dict[str, SubmissionResult]] = {}
    for one in submissions:
        lessons[one.lesson] = None
        by_learner.setdefault(one.learner, {})[one.lesson] = one
    found = Table(title="Summary", title_justify="left")
    found.add_column("learner", overflow="fold")
    for lesson in lessons:
        found.add_column(lesson, overflow="fold")
    found.add_column("points", justify="right")
    for learner, mine in by_learner.items():
        earned = [mine[lesson].points for lesson in lessons if lesson in mine]
        total = None if any(one is None for one in earned) else sum(one for one in earned if one is not None)
        out_of = sum(one.out_of for one in mine.values())
        found.add_row(visible(learner), *(_table_cell(mine.get(lesson)) for lesson in lessons), points(total, out_of))
    return found


def table_of_exercises(submissions: Iterable[SubmissionResult]) -> Table:
    """The summary of a class that is too big for a row a learner: a row an exercise, a column a verdict."""
    counts: dict[str, Counter[Verdict]] = {}
    for one in submissions:
        for result in one.exercises if one.file else ():
            counts.setdefault(f"{one.lesson}/{result.exercise}", Counter())[result.verdict] += 1
    seen = [verdict for verdict in Verdict if any(count[verdict] for count in counts.values())]
    found = Table(title="Summary", title_justify="left")
    found.add_column("exercise", overflow="fold")
    for verdict in seen:
        found.add_column(_SHORT[verdict], justify="right", style=STYLES[verdict])
    for exercise, count in sorted(counts.items()):
        found.add_row(exercise, *(f"{count[verdict]}" for verdict in seen))
    return found


def _table_cell(submission: SubmissionResult | None) -> Text:
    if submission is None or not submission.file:
        return Text("–", style="dim")
    counts = Counter(result.verdict for result in submission.exercises)
    text = Text()
    for verdict, count in counts.items():
        text.append(f"{', ' if text else ''}{count} {_SHORT[verdict]}", style=STYLES[verdict])
    return text


def totals(submissions: Iterable[SubmissionResult]) -> str:
    """``36 verdicts on 12 submissions: 20 PASS, 9 FAIL, …``."""
    judged = 0
    counts: Counter[Verdict] = Counter()
    for submission in submissions:
        if submission.file:
            judged += 1
            counts.update(result.verdict for result in submission.exercises)
    parts = ", ".join(f"{counts[verdict]} {verdict}" for verdict in Verdict if counts[verdict])
    return f"{sum(counts.values())} verdicts on {judged} submissions: {parts or 'none'}"
