"""Which generated files there are, whether those on disk are as they should be, and writing them.

Two rules say what may be overwritten. A file in `exercises/`, or in the `starter/` of a project, belongs to the learner:
`exercises/manifest.json` holds the digest it was generated with, and a file that has neither this digest nor the new content's has been edited, and is kept. A
generated file elsewhere is replaced, but if it was changed by hand a backup is made first.
"""

from __future__ import annotations

import hashlib
import json
import re
import shutil
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Literal

from course.catalogue import Catalogue, Lesson, Project, Unit
from course.errors import CourseError, Problem
from course.receipt import write_text
from publish import exercises, guide, ipynb, markdown, notebooks, projects, schemas

MANIFEST = f"{exercises.FOLDER}/manifest.json"

State = Literal["same", "missing", "stale", "changed", "edited", "extra", "left"]


@dataclass(frozen=True)
class Product:
    """A file that the course generates.

    Attributes:
        path: relative to the course, with forward slashes.
        text: what it must hold; None if faults in the course's files keep it from being made.
        unit: the lesson or project it belongs to, or None.
    """

    path: str
    text: str | None
    unit: Unit | None = None


@dataclass(frozen=True)
class Plan:
    """All files that should be there, and the faults that keep some from being made.

    Attributes:
        whole: whether these are all files of the course, so that any other generated file is one too many. A lesson that
            cannot be read is left out of the plan, and its files must not be taken for those of no lesson.
    """

    products: tuple[Product, ...]
    problems: tuple[Problem, ...]
    whole: bool


@dataclass(frozen=True)
class Finding:
    """How a file on disk stands to what it should be.

    Attributes:
        state: ``same``; ``missing``; ``stale`` (an older build's); ``changed`` (a generated file changed by hand, to be
            replaced after a backup); ``edited`` (a learner's, kept); ``extra`` (an older build's that no lesson
            produces any more); ``left`` (such a one that has been edited, kept).
    """

    path: str
    state: State
    product: Product | None = None


@dataclass
class Report:
    """What a command did and found, as plain lines.

    Attributes:
        done: what was written, removed or backed up.
        kept: the edited files that were left alone.
        drift: what is not as it should be; of a check only.
        problems: faults in the course's files.
        same: how many files were as they should be.
    """

    done: list[str] = field(default_factory=list)
    kept: list[str] = field(default_factory=list)
    drift: list[str] = field(default_factory=list)
    problems: list[Problem] = field(default_factory=list)
    same: int = 0


def plan(catalogue: Catalogue, only: str | None = None) -> Plan:
    """Make every generated file in memory; the manifest, which depends on what is on disk, is made while writing.

    Args:
        catalogue: the course; faulty lessons may be left out of it.
        only: the id of a lesson or project, to make its files alone.

    Raises:
        CourseError: if there is none of that id, or it is faulty.
    """
    whole = only is None and not catalogue.problems
    units = [catalogue.unit(only)] if only else catalogue.units
    names = guide.names(catalogue)
    products: list[Product] = []
    problems = [] if only else list(catalogue.problems)

    def make(paths: Iterable[str], files: Callable[[], dict[str, str]], unit: Unit) -> None:
        try:
            made = files()
        except CourseError as error:
            problems.extend(error.problems)
            made = {}
        products.extend(Product(path, made.get(path), unit) for path in paths)

    for unit in units:
        if isinstance(unit, Lesson):
            make([notebooks.path(unit)], partial(_reference, unit), unit)
        make([*theirs(unit), *([projects.guide(unit)] if isinstance(unit, Project) else [])], partial(_render, unit, names), unit)
    if not only:
        products += [Product(path, text) for path, text in schemas.render().items()]
    if whole:
        # What lists lessons waits until all of them can be read, or a faulty one would vanish from the lists.
        products.append(Product(f"{exercises.FOLDER}/README.md", exercises.listing(catalogue, names)))
        products += [Product(guide.path(phase), guide.render(phase, catalogue)) for phase in catalogue.phases if not phase.planned]
    # One stale receipt is met by the notebook and by the exercises: it is said once.
    return Plan(tuple(products), tuple(dict.fromkeys(problems)), whole)


def theirs(unit: Unit) -> tuple[str, ...]:
    """The files of a lesson or project that a learner works in, relative to the course."""
    if isinstance(unit, Lesson):
        return exercises.paths(unit)
    assert isinstance(unit, Project)
    return (projects.starter(unit),)


def _render(unit: Unit, names: Mapping[str, str]) -> dict[str, str]:
    if isinstance(unit, Lesson):
        return exercises.render(unit, names)
    assert isinstance(unit, Project)
    return projects.render(unit, names)


def _reference(lesson: Lesson) -> dict[str, str]:
    return {notebooks.path(lesson): notebooks.render(lesson)}


def digest(data: bytes) -> str:
    """SHA-256 of a file's content; line ends do not count, since editors and git change them unasked."""
    return hashlib.sha256(data.replace(b"\r\n", b"\n")).hexdigest()


def read_manifest(root: Path) -> dict[str, str]:
    """The digests with which learners' files were generated, by :func:`_name`; empty if it cannot be read.

    Without a digest a file counts as edited unless it has the new content, so a lost manifest loses nobody's work.
    """
    try:
        files = json.loads((root / MANIFEST).read_text(encoding="utf-8"))["files"]
        # These places alone: a path that leads elsewhere must not get anything removed there.
        return {name: value for name, value in files.items() if isinstance(value, str) and _name(_place(name)) == name}
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        return {}


def manifest_of(files: Mapping[str, str]) -> str:
    """The manifest of a course that holds these generated files, by path, as they are."""
    return _manifest_text({name: digest(text.encode()) for path, text in files.items() if (name := _name(path))})


def _manifest_text(entries: dict[str, str]) -> str:
    note = "Generated by `make build`: the SHA-256 of each file as it was generated. A file with another has been edited."
    return json.dumps({"note": note, "files": dict(sorted(entries.items()))}, indent=2, ensure_ascii=False) + "\n"


def survey(plan: Plan, root: Path, manifest: dict[str, str]) -> list[Finding]:
    """Compare what should be there with what is.

    Args:
        plan: what should be there.
        root: the course.
        manifest: of :func:`read_manifest`.
    """
    findings = [_finding(product, root, manifest) for product in plan.products if product.text is not None]
    if not plan.whole:
        return findings
    wanted = {product.path for product in plan.products}
    for path in _generated_files(root, manifest):
        if path not in wanted:
            data = _read(root / path)
            findings.append(Finding(path, "extra" if data is not None and _pristine(path, data, manifest) else "left"))
    return findings


def _finding(product: Product, root: Path, manifest: dict[str, str]) -> Finding:
    data = _read(root / product.path)
    if data is None:
        state: State = "missing"
    elif digest(data) == digest((product.text or "").encode()):
        state = "same"
    elif _pristine(product.path, data, manifest):
        state = "stale"
    else:
        state = "edited" if _name(product.path) else "changed"
    return Finding(product.path, state, product)


_STARTER = re.compile(r"projects/[a-z0-9-]+/starter/[a-z][a-z0-9_]*\.py")


def _name(path: str) -> str:
    """The name under which the manifest knows a learner's file; empty for any other file.

    For one in `exercises/` that is its name, for a project's module its whole path.
    """
    if _STARTER.fullmatch(path):
        return path
    folder, _, name = path.rpartition("/")
    return name if folder == exercises.FOLDER else ""


def _place(name: str) -> str:
    """The path of a file that the manifest knows under a name."""
    return name if "/" in name else f"{exercises.FOLDER}/{name}"


def _pristine(path: str, data: bytes, manifest: dict[str, str]) -> bool:
    """Whether a file is as an earlier build wrote it."""
    if name := _name(path):
        return manifest.get(name) == digest(data)
    text = data.decode("utf-8", errors="replace")
    if path.endswith(".ipynb"):
        return ipynb.is_sealed(text)
    return schemas.is_generated(text) if path.endswith(".json") else markdown.is_generated(text)


def _generated_files(root: Path, manifest: dict[str, str]) -> list[str]:
    """The files on disk that a build wrote, or that were made from such a one."""
    found = [_place(name) for name in manifest if (root / _place(name)).is_file()]
    places = [(root / "phases").glob("*/*/*.ipynb"), (root / schemas.FOLDER).glob("*.schema.json")]
    for path in sorted(one for place in places for one in place if one.is_file()):
        text = path.read_text(encoding="utf-8", errors="replace")
        if schemas.is_generated(text) or ipynb.is_reference(text):
            found.append(path.relative_to(root).as_posix())
    return found


def _read(path: Path) -> bytes | None:
    if path.is_dir():
        raise CourseError.at(path.name, "", "a folder stands where a file is generated", "move the folder away")
    try:
        return path.read_bytes()
    except FileNotFoundError:
        return None


def build(catalogue: Catalogue, only: str | None = None) -> Report:
    """Write what is missing or stale; keep what a learner has edited; remove what no lesson produces any more.

    Raises:
        CourseError: if there is no lesson or project ``only``.
    """
    root, manifest = catalogue.root, read_manifest(catalogue.root)
    made = plan(catalogue, only)
    findings = survey(made, root, manifest)
    report = Report(problems=list(made.problems))
    backups = Backups(root)
    for one in findings:
        match one.state:
            case "same":
                report.same += 1
            case "missing" | "stale":
                _write(root, one)
                report.done.append(f"wrote {one.path}")
            case "changed":
                copy = backups.keep(one.path)
                _write(root, one)
                report.done.append(f"wrote {one.path}; it had been changed by hand, and what was there is in {copy}")
            case "extra":
                (root / one.path).unlink()
                report.done.append(f"removed {one.path}: no lesson produces it any more")
            case "edited" | "left":
                report.kept.append(_kept(one))
    text = _manifest_text(_entries(made, findings, manifest))
    if _finding(Product(MANIFEST, text), root, {}).state != "same":
        _write(root, Finding(MANIFEST, "stale", Product(MANIFEST, text)))
        report.done.append(f"wrote {MANIFEST}")
    return report


def check(catalogue: Catalogue, only: str | None = None) -> Report:
    """Say what a build would change, and change nothing.

    Raises:
        CourseError: if there is no lesson or project ``only``.
    """
    root, manifest = catalogue.root, read_manifest(catalogue.root)
    made = plan(catalogue, only)
    findings = survey(made, root, manifest)
    report = Report(problems=list(made.problems))
    words = {
        "missing": "missing",
        "stale": "not what its source gives now",
        "changed": "changed by hand",
        "extra": "no lesson produces it any more",
    }
    for one in findings:
        if one.state in words:
            report.drift.append(f"{one.path}: {words[one.state]} — run `make build`")
        elif one.state == "same":
            report.same += 1
        else:
            report.kept.append(_kept(one))
    text = _manifest_text(_entries(made, findings, manifest))
    if _finding(Product(MANIFEST, text), root, {}).state != "same":
        report.drift.append(f"{MANIFEST}: not what the files in {exercises.FOLDER}/ give now — run `make build`")
    return report


def _kept(one: Finding) -> str:
    if one.state == "left":
        return f"left {one.path}: no lesson produces it any more, but it has been edited"
    if one.product is None or one.product.unit is None:
        return f"kept {one.path}: you have edited it; move it away and build again to have the new one"
    return f"kept {one.path}: you have edited it; `make reset {one.product.unit.make}` brings the original back (with a backup)"


def _write(root: Path, one: Finding) -> None:
    assert one.product is not None
    assert one.product.text is not None
    path = root / one.path
    path.parent.mkdir(parents=True, exist_ok=True)
    write_text(path, one.product.text)


def _entries(made: Plan, findings: list[Finding], manifest: dict[str, str]) -> dict[str, str]:
    """What the manifest should say once everything is built. The entries of kept files stay as they are."""
    entries = dict(manifest)
    for one in findings:
        if (name := _name(one.path)) and one.state not in {"edited", "left", "extra"} and one.product:
            entries[name] = digest((one.product.text or "").encode())
    if made.whole:
        wanted = {_name(product.path) for product in made.products}
        left = {_name(one.path) for one in findings if one.state == "left"}
        entries = {name: value for name, value in entries.items() if name in wanted | left}
    return entries


class Backups:
    """Copies of files before they are replaced: `backups/<time in UTC>/<name>`, never over an older backup."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self._folder: Path | None = None

    def keep(self, path: str) -> str:
        """Copy a file of the course, and return where the copy is, relative to the course.

        Raises:
            OSError: if it cannot be copied; then nothing must be replaced.
        """
        if self._folder is None:
            self._folder = self._new()
        copy = self._folder / (_name(path) or path)
        copy.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy2(self.root / path, copy)
        return copy.relative_to(self.root).as_posix()

    def _new(self) -> Path:
        """A folder of its own for this command, also where two are run within a second."""
        # On its own, so that a file of this name is an error and not one more taken name.
        (self.root / "backups").mkdir(exist_ok=True)
        stamp = datetime.now(UTC).strftime("%Y%m%dT%H%M%SZ")
        number = 1
        while True:
            folder = self.root / "backups" / (stamp if number == 1 else f"{stamp}-{number}")
            try:
                folder.mkdir()
            except FileExistsError:
                number += 1
            else:
                return folder


def reset(catalogue: Catalogue, unit_id: str, file: str | None = None) -> Report:
    """Bring the original files of a lesson in `exercises/`, or a project's starter, back; edited ones are backed up first.

    Args:
        catalogue: the course.
        unit_id: the lesson or project.
        file: the name of one of its files, to bring back that one alone.

    Raises:
        CourseError: if there is no such lesson, project or file, or the originals cannot be made; then nothing has been touched.
    """
    root, manifest = catalogue.root, read_manifest(catalogue.root)
    unit = catalogue.unit(unit_id)
    made = _render(unit, guide.names(catalogue))
    files = {path: made[path] for path in theirs(unit)}
    if file is not None:
        chosen = [path for path in files if Path(path).name == Path(file).name]
        if not chosen:
            known = ", ".join(Path(path).name for path in files)
            raise CourseError.at(unit_id, "", f"{file!r} is none of its files", f"use one of: {known}")
        files = {path: files[path] for path in chosen}
    report = Report()
    backups = Backups(root)
    for path, text in files.items():
        one = _finding(Product(path, text, unit), root, manifest)
        if one.state == "same":
            report.same += 1
        elif one.state == "edited":
            copy = backups.keep(path)
            _write(root, one)
            report.done.append(f"brought back {path}; yours is in {copy}")
        else:
            _write(root, one)
            report.done.append(f"wrote {path}; you had not edited it")
        manifest[_name(path)] = digest(text.encode())
    _write(root, Finding(MANIFEST, "stale", Product(MANIFEST, _manifest_text(manifest))))
    return report
