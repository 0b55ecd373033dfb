"""`python -m publish`: write the files and the site that people read, say what has drifted, bring an exercise back."""

from __future__ import annotations

import importlib
import io
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any, NoReturn

import typer

from course import catalogue
from course.catalogue import Catalogue
from course.errors import CourseError, Problem
from publish import build as building
from publish import bundle
from publish.build import Report
from publish.site import serve

app = typer.Typer(
    help=(
        "Write what people read and work in, from the lessons: reference notebooks, exercises, study guides, schemas, the site. "
        "Nothing is run for it: outputs and numbers come from the receipts that `make record` wrote."
    ),
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)

FAULT = 1  # drift, or a fault in the course's files
USAGE = 2  # wrong arguments

Id = Annotated[
    str | None, typer.Option("--lesson", metavar="ID", help="Only the files of this lesson or project, for instance recovery-01.")
]


@app.command("build")
def build_command(
    lesson: Id = None,
    check: Annotated[
        bool, typer.Option("--check", help="Write nothing; name each file that a build would change, and exit 1.")
    ] = False,
    strict: Annotated[
        bool, typer.Option("--strict", help="With --check: exercise files that were edited are errors too. For CI.")
    ] = False,
) -> None:
    """Write every generated file whose source has changed.

    An exercise file that you have edited is never overwritten: the build names it and leaves it. A lesson that cannot be built
    (a fault in its words, an old receipt) is named with the remedy, and the others are built all the same.

    Exit code: 0 all is well, 1 drift or a fault in the course's files, 2 wrong arguments.
    """
    if strict and not check:
        _stop(USAGE, "--strict belongs to --check: write `python -m publish build --check --strict`")
    course = _course(lesson)
    report = _run(lambda: building.check(course, lesson) if check else building.build(course, lesson))
    for line in (*report.done, *report.kept):
        typer.echo(line)
    for fault in (*report.drift, *map(str, report.problems)):
        typer.echo(fault, err=True)
    mistakes = [f"{len(lines)} {word}" for lines, word in ((report.drift, "drifted"), (report.problems, "to mend")) if lines]
    if strict and report.kept:
        mistakes.append(f"{len(report.kept)} edited, which --strict does not allow")
    parts = [f"{report.same} as they should be", *([f"{len(report.done)} written or removed"] if report.done else []), *mistakes]
    if report.kept and not strict:
        parts.append(f"{len(report.kept)} of yours kept")
    typer.echo(f"Generated files: {', '.join(parts)}.")
    raise typer.Exit(FAULT if mistakes else 0)


@app.command("reset")
def reset_command(
    lesson: Annotated[str, typer.Argument(metavar="LESSON", help="The lesson or project, for instance recovery-01.")],
    file: Annotated[
        str | None,
        typer.Option("--file", metavar="NAME", help="Only this file of it, for instance recovery-01.py; else all."),
    ] = None,
) -> None:
    """Bring the originals back: the exercise files of a lesson (notebook, script, evidence template) or the starter of a project.

    What you had written goes to backups/<time>/ first; the command says where. Without edits there is nothing to do.

    Exit code: 0 all is well, 1 a fault in the course's files, 2 wrong arguments.
    """
    course = _course(lesson)
    names = [path.rpartition("/")[2] for path in building.theirs(course.unit(lesson))]
    if file is not None and file.replace("\\", "/").rpartition("/")[2] not in names:
        _stop(USAGE, f"{lesson} has no file {file!r}; use one of: {', '.join(names)}")
    report = _run(lambda: building.reset(course, lesson, file))
    for line in report.done:
        typer.echo(line)
    if not report.done:
        typer.echo(f"Nothing to bring back: the files of {lesson} are as they were generated.")


@app.command("bundle")
def bundle_command(
    project: Annotated[str, typer.Argument(metavar="PROJECT", help="The project, for instance recovery-audit.")],
    out: Annotated[Path | None, typer.Option(help="The ZIP; dist/<project>.zip if absent.")] = None,
) -> None:
    """Write a project as a ZIP that works by itself: guide, starter, given files and the grader, without the solution.

    Exit code: 0 written, 1 a fault in the course's files, 2 wrong arguments.
    """
    course = _course(None)
    if project not in [one.id for one in course.projects]:
        known = ", ".join(one.id for one in course.projects) or "none yet"
        _stop(FAULT if course.problems else USAGE, *course.problems, f"there is no project {project!r}; use one of: {known}")
    path = out or course.root / "dist" / f"{project}.zip"

    def write() -> Report:
        data = bundle.render(course.project(project), course)
        path.parent.mkdir(parents=True, exist_ok=True)
        beside = path.with_name(f".{path.name}.new")
        beside.write_bytes(data)
        beside.replace(path)
        return Report(done=[f"wrote {path} ({len(data) // 1000} kB)"])

    for line in _run(write).done:
        typer.echo(line)


@app.command("site")
def site_command(
    out: Annotated[Path | None, typer.Option(help="The folder for the site; _site in the course if absent.")] = None,
    fresh: Annotated[bool, typer.Option("--fresh", help="Make every page anew, whatever has changed.")] = False,
) -> None:
    """Write the site: every lesson, project and guide as pages that need no network, with everything to download.

    Only what has changed is made again. A warning, a formula that cannot be read or a link that leads nowhere is a fault.

    Exit code: 0 written, 1 a fault in the course's files, 2 wrong arguments.
    """
    course, began = _course(None), time.monotonic()
    build = _site_module("build")

    def write() -> Report:
        made = build.build(course, out, fresh=fresh)
        seconds = time.monotonic() - began
        return Report(
            done=[
                f"wrote {made.folder / 'index.html'}: {made.pages} pages, {made.written} of them new or changed; "
                f"{made.links} links lead somewhere; {seconds:.1f} s"
            ]
        )

    for line in _run(write).done:
        typer.echo(line)


@app.command("serve")
def serve_command(
    port: Annotated[int, typer.Option(min=0, max=65535, help="The port; 0 for any that is free.")] = 8000,
    out: Annotated[Path | None, typer.Option(help="The folder of the site; _site in the course if absent.")] = None,
) -> None:
    """Show the site to browsers on this machine, and to nobody else. Stop with Ctrl-C.

    Exit code: 0 stopped, 1 there is no site or the port is taken, 2 wrong arguments.
    """
    try:
        folder = out or catalogue.find_root() / "_site"
    except CourseError as error:
        _stop(FAULT, *error.problems)
    if not (folder / "index.html").is_file():
        _stop(FAULT, f"{folder} holds no site — write it with `make site` (python -m environment --site publish site)")
    try:
        serve.serve(folder, port, typer.echo)
    except OSError as error:
        _stop(FAULT, f"port {port}: {error.strerror or error} — choose another with --port, or --port 0 for any that is free")


def _site_module(name: str) -> Any:
    """A module of what makes the pages; ends the command where Sphinx is not installed."""
    try:
        return importlib.import_module(f"publish.site.{name}")
    except ModuleNotFoundError as error:
        _stop(
            FAULT,
            f"{error.name} is not installed — run `make site` or `python -m environment --site publish site`, which installs it",
        )


def _stop(code: int, *messages: str | Problem) -> NoReturn:
    for message in messages:
        typer.echo(str(message), err=True)
    raise typer.Exit(code)


def _course(lesson: str | None) -> Catalogue:
    """The course without what is faulty in it; ends the command if there is none, or no such lesson."""
    try:
        course = catalogue.survey(catalogue.find_root())
    except CourseError as error:
        _stop(FAULT, *error.problems)
    if lesson is not None:
        try:
            course.unit(lesson)
        except CourseError as error:
            # Where lessons could not be read, the one that is asked for may be among them.
            _stop(FAULT if course.problems else USAGE, *error.problems)
    return course


def _run(command: Callable[[], Report]) -> Report:
    """The command's report; what stops it becomes a plain line."""
    try:
        return command()
    except CourseError as error:
        _stop(FAULT, *error.problems)
    except OSError as error:
        _stop(
            FAULT, f"{error.filename or 'a file'}: {error.strerror or error} — close programs that hold it, check space and rights"
        )


def main() -> None:
    """Run the command line."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            # A console with a small character set shows an escape instead of stopping the command.
            stream.reconfigure(errors="backslashreplace")
    app(prog_name="python -m publish")


if __name__ == "__main__":
    main()
