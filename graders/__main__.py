"""The grader's commands: `python -m graders grade|check|record|verify|schema`."""

from __future__ import annotations

from graders.early import leave_quietly, raise_again

if __name__ == "__main__":
    leave_quietly()  # before the long imports, so that Ctrl-C in them is no traceback

import asyncio
import csv
import hashlib
import json
import os
import secrets
import signal
import sys
from collections.abc import Callable, Coroutine, Iterator
from concurrent.futures import ProcessPoolExecutor
from contextlib import contextmanager, suppress
from dataclasses import replace
from datetime import UTC, datetime
from multiprocessing import get_context
from pathlib import Path
from typing import Annotated, Any, TypeVar

import typer
from pydantic import ValidationError
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn
from rich.text import Text
from typer.core import TyperGroup

from course.catalogue import Catalogue, Lesson, find_root, survey
from course.errors import CourseError
from course.receipt import Environment, write_text
from course.schema import Limits
from graders import batch
from graders.check import Desk, Settings, check
from graders.collect import Class, search
from graders.kernels.cold import KernelFailed
from graders.kernels.isolation import Isolation, Mode
from graders.kernels.isolation import survey as survey_isolation
from graders.measure import environment
from graders.orphans import sweep
from graders.record import record
from graders.reports.files import write_reports
from graders.reports.lines import STYLES, class_lines, own_lines, table, totals, width
from graders.reports.text import visible
from graders.store import OtherSeed, Run, Store, StoreFailed
from graders.verdict import Results, SubmissionResult, Verdict
from graders.verify import verify_by_id
from graders.version import grader_digest

T = TypeVar("T")

PASSED, TO_MEND, BAD_ARGUMENTS, OWN_FAULT, INTERRUPTED = 0, 1, 2, 3, 130
READER_GONE = 141  # as a shell shows a program that SIGPIPE has ended
OTHER_LIMITS = tuple(name for name in Limits.model_fields if not name.endswith("_seconds"))
PACKAGES = ("ipykernel", "jax", "mlflow", "nbclient", "numpy")


class _Commands(TyperGroup):
    """The commands, with an end without noise when the reader of a pipe has gone or somebody presses Ctrl-C."""

    def invoke(self, ctx: typer.Context) -> Any:  # type: ignore[override]  # typer's own copy of click's Context
        raise_again()
        try:
            try:
                return super().invoke(ctx)
            finally:
                sys.stdout.flush()
        except BrokenPipeError:
            # Python would write once more when it ends, and complain.
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
            raise typer.Exit(READER_GONE) from None
        except KeyboardInterrupt:
            print("interrupted", file=sys.stderr)
            raise typer.Exit(INTERRUPTED) from None


class _Console(Console):
    """Rich's console, which tells that the reader of a pipe has gone instead of ending the program on the spot."""

    def on_broken_pipe(self) -> None:
        raise BrokenPipeError


app = typer.Typer(
    cls=_Commands, add_completion=False, no_args_is_help=True, pretty_exceptions_enable=False, rich_markup_mode=None,
    help="Run learners' work headlessly, compare what is observed with recorded receipts, and say what came of it.",
)  # fmt: skip

Seed = Annotated[
    int | None, typer.Option(help="Seed of the draws. Without it a fresh one is used and shown; give it again to repeat a run.")
]
CellSeconds = Annotated[float | None, typer.Option(min=0.1, help="Time limit of a cell in seconds, instead of the lesson's own.")]
TotalSeconds = Annotated[
    float | None, typer.Option(min=0.1, help="Time limit of a whole submission in seconds, instead of the lesson's own.")
]
Limit = Annotated[
    list[str] | None,
    typer.Option(
        help="Another limit instead of the lesson's own, as NAME=NUMBER; may be given several times. " + ", ".join(OTHER_LIMITS)
    ),
]
Isolated = Annotated[
    Mode,
    typer.Option(
        "--isolation",
        help="auto: what this machine allows; require: refuse to run anything with less than everything; off: only what every system has.",
    ),
]
Json = Annotated[Path | None, typer.Option("--json", help="Write results.json here.")]
Junit = Annotated[Path | None, typer.Option("--junit", help="Write JUnit XML here.")]
Csv = Annotated[Path | None, typer.Option("--csv", help="Write CSV here.")]
Html = Annotated[Path | None, typer.Option("--html", help="Write a page for a browser here.")]


class Stop(Exception):
    """End the command with a message and an exit code."""

    def __init__(self, code: int, message: str) -> None:
        super().__init__(message)
        self.code = code


@contextmanager
def _spoken() -> Iterator[None]:
    """Turn what may go wrong into one message on stderr and an exit code."""
    try:
        yield
    except Stop as stop:
        print(visible(str(stop)), file=sys.stderr)
        raise typer.Exit(stop.code) from None
    except CourseError as error:
        for problem in error.problems:
            print(visible(str(problem)), file=sys.stderr)
        raise typer.Exit(OWN_FAULT) from None
    except KeyboardInterrupt:
        print("interrupted", file=sys.stderr)
        raise typer.Exit(INTERRUPTED) from None
    except BrokenPipeError:
        raise  # nobody reads any more: see _Commands
    except StoreFailed as error:
        print(visible(str(error)), file=sys.stderr)
        raise typer.Exit(OWN_FAULT) from None
    except (OSError, KernelFailed) as error:
        print(visible(f"the grader cannot go on: {error}"), file=sys.stderr)
        raise typer.Exit(OWN_FAULT) from None


def _course() -> tuple[Path, Catalogue, Path]:
    root = find_root()
    return root, survey(root), root / ".cache"


def _lesson(catalogue: Catalogue, name: str) -> Lesson:
    try:
        return catalogue.lesson(name)
    except CourseError as error:
        raise Stop(OWN_FAULT if catalogue.problems else BAD_ARGUMENTS, str(error)) from None


def _run(work: Coroutine[Any, Any, T]) -> T:
    """Run to the end. SIGTERM ends it as Ctrl-C does, so that kernels and scratch folders do not stay behind."""

    async def ended_by_signal() -> T:
        task = asyncio.current_task()
        if task is not None:
            with suppress(NotImplementedError):  # Windows
                asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, task.cancel)
        return await work

    try:
        return asyncio.run(ended_by_signal())
    except asyncio.CancelledError:
        raise KeyboardInterrupt from None


def _settings(
    seed: int | None, cache: Path, cell: float | None, total: float | None, limit: list[str] | None, mode: Mode
) -> Settings:
    isolation = survey_isolation(mode)
    if mode is Mode.REQUIRE and isolation.missing:
        raise Stop(
            OWN_FAULT, f"nothing was run, since --isolation require is given and this machine lacks: {'; '.join(isolation.missing)}. docs/security.md says what each layer needs; --isolation auto runs with what there is"
        )  # fmt: skip
    seed = secrets.randbelow(1_000_000) if seed is None else seed
    return Settings(seed, cache, cell, total, _more_limits(limit or []), isolation)


def _isolation(settings: Settings) -> Isolation:
    return settings.isolation or survey_isolation()


def _more_limits(given: list[str]) -> dict[str, int]:
    """The limits of ``--limit NAME=NUMBER``."""
    found: dict[str, int] = {}
    for one in given:
        name, _, number = one.partition("=")
        if name not in OTHER_LIMITS or not number.isdecimal():
            raise Stop(BAD_ARGUMENTS, f"--limit {one}: give NAME=NUMBER, where NAME is one of {', '.join(OTHER_LIMITS)}")
        try:
            Limits.model_validate({name: int(number)})
        except ValidationError as error:
            raise Stop(BAD_ARGUMENTS, f"--limit {one}: {error.errors()[0]['msg'].lower()}") from None
        found[name] = int(number)
    return found


def _print(console: Console, verdict: Verdict | None, line: str) -> None:
    # Text, not markup: brackets in a name are brackets. soft_wrap keeps one verdict on one line.
    console.print(Text(line, style=STYLES[verdict] if verdict and console.is_terminal else ""), soft_wrap=True, highlight=False)


@app.command("check")
def check_command(
    lesson: Annotated[str, typer.Argument(help="The lesson's id, for instance recovery-01.")],
    file: Annotated[Path | None, typer.Argument(help="Your notebook or script; exercises/<lesson>.ipynb if absent.")] = None,
    seed: Seed = None,
    cell_seconds: CellSeconds = None,
    total_seconds: TotalSeconds = None,
    limit: Limit = None,
    isolation: Isolated = Mode.AUTO,
    json_file: Json = None,
    junit_file: Junit = None,
    csv_file: Csv = None,
) -> None:
    """Check your own file in a fresh kernel, as an instructor's grading run would.

    Exit code: 0 all exercises pass, 1 something to mend, 2 wrong arguments, 3 the grader's own fault.
    """
    with _spoken():
        root, catalogue, cache = _course()
        found = _lesson(catalogue, lesson)
        path = file or root / "exercises" / f"{lesson}.ipynb"
        if not path.exists() and not path.is_symlink():
            hint = "; `make build` makes it" if file is None else ""
            raise Stop(BAD_ARGUMENTS, f"there is no file {path}{hint}")
        settings = _settings(seed, cache, cell_seconds, total_seconds, limit, isolation)
        started = _now()

        async def one() -> tuple[dict[str, str], SubmissionResult]:
            desk = Desk(found, settings)
            try:
                return {lesson: desk.receipt_digest}, await check(desk, path.stem, path, path.name)
            finally:
                await desk.close()

        receipts, result = _run(one())
        results = _results(started, settings, receipts, [found], [result], complete=True)
        _write(results, {"json": json_file, "junit": junit_file, "csv": csv_file})
    console = _Console()
    for verdict, line in own_lines(result):
        _print(console, verdict, line)
    raise typer.Exit({Verdict.PASS: PASSED, Verdict.ERROR: OWN_FAULT}.get(result.verdict, TO_MEND))


@app.command("grade")
def grade_command(
    folder: Annotated[Path, typer.Argument(help="The class: one folder a learner, with .ipynb or .py files.")],
    lesson: Annotated[list[str] | None, typer.Option(help="Only this lesson; may be given several times.")] = None,
    out: Annotated[Path | None, typer.Option(help="Folder for the reports; reports/<name of the class folder> if absent.")] = None,
    jobs: Annotated[int, typer.Option(min=1, max=64, help="How many submissions run at the same time.")] = 2,
    expect: Annotated[Path | None, typer.Option(help="A CSV table of verdicts to compare with: exit 1 where one differs.")] = None,
    seed: Seed = None,
    fresh: Annotated[bool, typer.Option("--fresh", help="Begin anew, also where a run was interrupted.")] = False,
    cell_seconds: CellSeconds = None,
    total_seconds: TotalSeconds = None,
    limit: Limit = None,
    isolation: Isolated = Mode.AUTO,
    json_file: Json = None,
    junit_file: Junit = None,
    csv_file: Csv = None,
    html_file: Html = None,
) -> None:
    """Grade a class: a line a verdict, a summary table, and the reports results.json, results.csv, junit.xml and report.html.

    Each result is kept as it comes. A run that was interrupted or killed goes on where it was when it is started again.

    Exit code: 0 every submission got a verdict, 2 wrong arguments or nothing to grade, 3 at least one ERROR (the
    grader's own fault, which costs no learner anything), 130 interrupted (what was graded until then is reported).
    """
    with _spoken():
        root, catalogue, cache = _course()
        wanted = tuple(_lesson(catalogue, name).id for name in lesson or ())
        found = _class(folder, catalogue, wanted)
        rows = _table(expect) if expect is not None else None
        if rows is not None and wanted:
            rows = {key: row for key, row in rows.items() if key[1] in wanted}
        target = out or Path("reports") / found.folder.resolve().name
        files = {
            "json": json_file or target / "results.json",
            "csv": csv_file or target / "results.csv",
            "junit": junit_file or target / "junit.xml",
            "html": html_file or target / "report.html",
        }
        console = _Console()
        # Before anything is begun, so that what is wrong is said first.
        settings = _settings(seed, cache, cell_seconds, total_seconds, limit, isolation)
        _sweep(cache)
        with Store(target / "results.sqlite") as store:
            run = _begin(store, found, wanted, seed, fresh)
            settings = replace(settings, seed=run.seed)
            results, ended = _grade(console, store, run, root, catalogue, found, settings, jobs)
            with store.alone():  # so that the reports are all of one run, also where two graders end at once
                _write(results, files)
            errors = any(one.verdict is Verdict.ERROR for one in results.submissions)
            if results.complete and not errors:
                store.finish(run)
        if isinstance(ended, BrokenPipeError):
            raise ended
        _summary(console, found, results, files, _isolation(settings))
    if ended:
        raise typer.Exit(INTERRUPTED)
    if rows is not None:
        differing = _compare(results, rows)
        for line in differing:
            print(visible(line), file=sys.stderr)
        print(f"{len(differing)} verdicts differ from {expect}" if differing else f"all {len(rows)} verdicts are those of {expect}")
        if differing:
            raise typer.Exit(TO_MEND)
    raise typer.Exit(OWN_FAULT if errors else PASSED)


Ended = KeyboardInterrupt | BrokenPipeError | None


def _grade(
    console: Console, store: Store, run: Run, root: Path, catalogue: Catalogue, found: Class, settings: Settings, jobs: int
) -> tuple[Results, Ended]:
    """Grade a class, or what is left of it. Also returns what ended it early, if anything did."""
    desks = batch.open_desks(catalogue, found, settings)
    place = environment(PACKAGES, devices=False)
    terms = batch.open_terms(
        catalogue, desks, settings, grader=grader_digest(), environment=_digest(root, place), isolation=_isolation(settings).told()
    )  # fmt: skip
    ledger = batch.open_ledger(store, run, found, terms)
    finished: list[SubmissionResult] = []
    ended: Ended = None
    try:
        _say_how(console, found, ledger)
        with _progress(console, found) as show:

            def done(result: SubmissionResult) -> None:
                finished.append(result)
                show(result)

            finished = _run(batch.grade(catalogue, found, desks, jobs, done, ledger))
    except (KeyboardInterrupt, BrokenPipeError) as error:
        ended = error
        order = {(one.learner, one.lesson): number for number, one in enumerate(found.found)}
        finished.sort(key=lambda result: order[result.learner, result.lesson])
    receipts = {lesson: desk.receipt_digest for lesson, desk in desks.items() if isinstance(desk, Desk)}
    lessons = [catalogue.lesson(name) for name in found.lessons]
    return _results(run.started, settings, receipts, lessons, finished, complete=ended is None), ended


def _sweep(cache: Path) -> None:
    """Clean away what killed graders have left, and say so."""
    swept = sweep(cache)
    if swept.folders:
        print(f"a grader that was killed had left {swept}: cleaned away", file=sys.stderr)


def _begin(store: Store, found: Class, wanted: tuple[str, ...], seed: int | None, fresh: bool) -> Run:
    try:
        return store.begin(str(found.folder.resolve()), wanted, seed, secrets.randbelow(1_000_000), fresh=fresh)
    except OtherSeed as other:
        raise Stop(
            BAD_ARGUMENTS, f"a run of this class with seed {other.seed} is not finished: leave out --seed to go on with it, or give --fresh to begin anew with seed {seed}"
        ) from None  # fmt: skip


def _digest(root: Path, place: Environment) -> str:
    """What stands for the environment in the store: the interpreter, and the locked versions of all packages."""
    lock = root / "requirements-cpu.txt"
    locked = lock.read_bytes() if lock.is_file() else b""
    return hashlib.sha256(place.model_dump_json().encode() + locked).hexdigest()


def _say_how(console: Console, found: Class, ledger: batch.Ledger) -> None:
    """Say what was found of an earlier run, and of other graders."""
    if ledger.run.others:
        numbers = ", ".join(map(str, ledger.run.others))
        _print(console, None, f"another grader (process {numbers}) is at work on this class; this is a run of its own. The reports are those of the run that ends last")  # fmt: skip
    if ledger.run.goes_on:
        total = sum(bool(one.files) for one in found.found)
        text = f"going on: {len(ledger.known)} of {total} submissions were graded before"
        if ledger.changed:
            text += (
                f"; {ledger.changed} more were, but their files, the lesson, the limits or the grader have changed: graded again"
            )
        _print(console, None, text)


def _class(folder: Path, catalogue: Catalogue, wanted: tuple[str, ...]) -> Class:
    if not folder.is_dir():
        raise Stop(BAD_ARGUMENTS, f"there is no folder {folder}: give the class folder, with one folder a learner in it")
    found = search(folder, catalogue, wanted)
    if not found.found:
        raise Stop(
            BAD_ARGUMENTS, f"no submissions found in {folder}: it should hold one folder a learner, with files named like recovery-01.ipynb"
        )  # fmt: skip
    return found


@contextmanager
def _progress(console: Console, found: Class) -> Iterator[Callable[[SubmissionResult], None]]:
    """A bar with what is done and how long the rest may take on a terminal, plain lines elsewhere."""
    columns = min(32, max((width(visible(one.learner)) for one in found.found), default=8))

    def lines(result: SubmissionResult) -> None:
        if result.file or any(one.verdict is Verdict.ERROR for one in result.exercises):
            for verdict, line in class_lines(result, columns):
                _print(console, verdict, line)

    if not console.is_terminal:
        yield lines
        return
    bar = Progress(
        TextColumn("grading"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn(), TextColumn("left"), TimeRemainingColumn(),
        console=console, transient=True,
    )  # fmt: skip
    with bar:
        task = bar.add_task("grading", total=sum(bool(one.files) for one in found.found))

        def show(result: SubmissionResult) -> None:
            lines(result)
            if result.file:
                bar.advance(task)

        yield show


def _summary(console: Console, found: Class, results: Results, files: dict[str, Path], isolation: Isolation) -> None:
    # A file has no width to keep to; a terminal folds the table to its own.
    plain = console if console.is_terminal else Console(width=40 + 24 * len(found.lessons))
    plain.print()
    plain.print(table(results.submissions))
    handed_in = {one.learner for one in results.submissions if one.file or one.verdict is Verdict.ERROR}
    handed_in |= {path.relative_to(found.folder).parts[0] for path in found.unknown}
    nothing = sorted({one.learner for one in results.submissions} - handed_in)
    if nothing:
        _print(console, None, f"nothing handed in by: {'; '.join(map(visible, nothing))}")
    for path in found.unknown:
        _print(console, None, f"left out, of no lesson that is known: {visible(path.relative_to(found.folder).as_posix())}")
    for one in results.submissions:
        for notice in one.notices:
            _print(console, None, f"note: {visible(one.learner)}, {one.lesson}: {visible(notice)}")
    _print(console, None, totals(results.submissions) + f"; draws by seed {results.seed}")
    if not results.complete:
        _print(console, None, "interrupted: the reports hold what was graded until then; the same command goes on")
    if results.complete and any(one.verdict is Verdict.ERROR for one in results.submissions):
        _print(console, None, "ERROR is no verdict: mend the cause and give the same command again; it tries only these again")
    _print(console, None, f"isolation: {isolation.brief()}")
    _print(console, None, f"reports: {', '.join(str(path) for path in files.values())}")


def _now() -> datetime:
    return datetime.now(UTC).replace(microsecond=0)


def _results(
    started: datetime,
    settings: Settings,
    receipts: dict[str, str],
    lessons: list[Lesson],
    done: list[SubmissionResult],
    *,
    complete: bool,
) -> Results:
    limits = {}
    for lesson in lessons:
        found = settings.limits(lesson)
        limits[lesson.id] = found.model_dump()
    return Results(
        started=started, finished=_now(), complete=complete, seed=settings.seed, receipts=receipts, environment=environment(PACKAGES, devices=False),
        isolation=_isolation(settings).told(), limits=limits, submissions=tuple(done),
    )  # fmt: skip


def _write(results: Results, files: dict[str, Path | None] | dict[str, Path]) -> None:
    write_reports(results, {kind: path for kind, path in files.items() if path is not None})


Row = tuple[str, str, str]


def _table(path: Path) -> dict[Row, Row]:
    """A table of expected verdicts: (learner, lesson, exercise) -> (verdict, reason, mistake)."""
    try:
        with path.open(encoding="utf-8-sig", newline="") as file:
            reader = csv.DictReader(file)
            found = {
                (row["learner"], row["lesson"], row["exercise"]): (row["verdict"], row["reason"], row["mistake"]) for row in reader
            }
            if not found:
                raise KeyError("no rows")
            return found
    except FileNotFoundError:
        raise Stop(BAD_ARGUMENTS, f"there is no table {path}") from None
    except (KeyError, ValueError, csv.Error):
        raise Stop(
            BAD_ARGUMENTS, f"{path} is not a table with the columns learner, lesson, exercise, verdict, reason, mistake"
        ) from None


def _compare(results: Results, rows: dict[Row, Row]) -> list[str]:
    """What differs between the verdicts and a table; every verdict on a handed-in file must have its row."""
    got = {
        (one.learner, one.lesson, result.exercise): (
            result.verdict.value,
            result.reason.value if result.reason else "",
            result.mistake or "",
        )
        for one in results.submissions
        for result in one.exercises
        if one.file or (one.learner, one.lesson, result.exercise) in rows
    }
    return [
        f"{'/'.join(key)}: expected {rows.get(key, 'no row')}, got {got.get(key, 'no verdict')}"
        for key in sorted({*rows, *got})
        if rows.get(key) != got.get(key)
    ]


@app.command("record")
def record_command(
    lessons: Annotated[list[str] | None, typer.Argument(help="The lessons' ids.")] = None,
    every: Annotated[bool, typer.Option("--all", help="Every lesson.")] = False,
) -> None:
    """Run a lesson's reference (base, variants, mistakes) and write its receipt and figures. Review the change as a diff.

    Exit code: 0 recorded, 2 wrong arguments, 3 the lesson does not run or a mistake is not told apart.
    """
    with _spoken():
        root, catalogue, cache = _course()
        chosen = _chosen(catalogue, lessons, every)
        for lesson in chosen:
            receipt = record(lesson, root, cache, lambda text: print(text, file=sys.stderr))
            print(
                f"recorded {lesson.shown(lesson.receipt)}: {len(receipt.lines)} lines, {len(receipt.runs)} runs, {receipt.seconds} s"
            )


@app.command("verify")
def verify_command(
    lessons: Annotated[list[str] | None, typer.Argument(help="The lessons' ids; all if absent.")] = None,
    jobs: Annotated[int, typer.Option(min=1, max=16, help="How many lessons run at the same time.")] = 2,
) -> None:
    """Run lessons again, as script and as notebook, and compare every line and observation with their receipts.

    Exit code: 0 everything agrees, 1 something differs, 2 wrong arguments, 3 a lesson does not run or has no receipt.
    """
    codes = {PASSED}
    with _spoken():
        root, catalogue, _ = _course()
        chosen = [lesson.id for lesson in _chosen(catalogue, lessons, every=not lessons)]
        # A process for each lesson, started anew: a Jupyter client's sockets do not go together with threads.
        with ProcessPoolExecutor(min(jobs, len(chosen)), mp_context=get_context("spawn"), max_tasks_per_child=1) as pool:
            for outcome in pool.map(verify_by_id, [root] * len(chosen), chosen):
                codes.add(OWN_FAULT if outcome.faults else TO_MEND if outcome.problems else PASSED)
                head = "ERROR" if outcome.faults else "FAIL" if outcome.problems else "PASS"
                print(f"{head:<9} {outcome.lesson}  {outcome.counts}".rstrip())
                for line in (*outcome.faults, *outcome.problems):
                    print(f"  {visible(line)}", flush=True)
    raise typer.Exit(max(codes))


def _chosen(catalogue: Catalogue, names: list[str] | None, every: bool) -> list[Lesson]:
    if every and catalogue.problems:
        raise CourseError(*catalogue.problems)
    if every:
        return list(catalogue.lessons)
    if not names:
        raise Stop(BAD_ARGUMENTS, "name a lesson, for instance recovery-01, or give --all")
    return [_lesson(catalogue, name) for name in names]


@app.command("schema")
def schema_command() -> None:
    """Write docs/schemas/results.schema.json, which describes results.json."""
    with _spoken():
        root = find_root()
        write_text(root / "docs" / "schemas" / "results.schema.json", results_schema())


def results_schema() -> str:
    """The JSON Schema of results.json as text."""
    schema: dict[str, Any] = {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "$comment": "Generated by `python -m graders schema`; do not edit.",
        **Results.model_json_schema(mode="serialization"),
    }
    extra = {
        "verdict": {"enum": [one.value for one in Verdict]},
        "points": {"anyOf": [{"type": "number"}, {"type": "null"}]},
        "out_of": {"type": "number"},
    }
    schema["$defs"]["SubmissionResult"]["properties"] |= extra
    return json.dumps(schema, indent=1) + "\n"


def main() -> None:
    """Run the command line with UTF-8 output and UTF-8 file names, whatever the locale says."""
    if os.name == "posix" and sys.getfilesystemencoding().lower() != "utf-8" and not sys.flags.utf8_mode:
        # How names of files are read is settled when Python starts: so it is started again, as the same process.
        os.execv(sys.executable, [sys.executable, "-X", "utf8", *sys.orig_argv[1:]])  # noqa: S606
    for stream in (sys.stdout, sys.stderr):
        if hasattr(stream, "reconfigure"):
            stream.reconfigure(encoding="utf-8", errors="backslashreplace")

    try:
        app()
    finally:
        leave_quietly()


if __name__ == "__main__":
    main()
