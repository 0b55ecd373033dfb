"""The store of results: SQLite beside the reports, one row committed for each submission as soon as it is judged.

A killed grader loses at most the submissions that were running. Started again, it finds its run here and goes on with the
same seed. SQLite itself, without a layer over it: the two tables are nobody else's, what matters is when something is
committed and who may write, and a grader should start at once. A gradebook of a course is another thing: it would read
`SubmissionResult`s from here.

A result is kept with everything that it depends on (see :class:`Terms`, and the run's seed), so that one that was judged
under other terms is never taken for the present one's.
"""

from __future__ import annotations

import json
import os
import sqlite3
import threading
import time
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import astuple, dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import psutil

from graders import owner
from graders.verdict import SubmissionResult, Verdict

VERSION = 2
BUSY_SECONDS = 60.0
# Nothing is known of a grader on another machine but when it last kept a result; no submission runs as long as this.
UNSEEN_FOR = timedelta(hours=1)
_NETWORKED = frozenset({"nfs", "nfs4", "cifs", "smb3", "smbfs", "9p", "afpfs", "webdav", "fuse.sshfs", "lustre", "ceph"})

_TABLES = """
CREATE TABLE IF NOT EXISTS run (
  id INTEGER PRIMARY KEY AUTOINCREMENT,
  class TEXT NOT NULL,
  lessons TEXT NOT NULL,
  seed INTEGER NOT NULL,
  started TEXT NOT NULL,
  state TEXT NOT NULL CHECK (state IN ('open', 'finished', 'given up')),
  owner TEXT NOT NULL,
  seen TEXT NOT NULL,
  takes TEXT NOT NULL CHECK (takes IN ('any seed', 'own seed', 'nothing'))
);
CREATE TABLE IF NOT EXISTS result (
  run INTEGER NOT NULL REFERENCES run (id),
  learner TEXT NOT NULL,
  lesson TEXT NOT NULL,
  sha256 TEXT NOT NULL,
  lesson_digest TEXT NOT NULL,
  receipt_digest TEXT NOT NULL,
  grader TEXT NOT NULL,
  environment TEXT NOT NULL,
  limits TEXT NOT NULL,
  isolation TEXT NOT NULL,
  kept TEXT NOT NULL,
  verdict TEXT NOT NULL,
  result TEXT NOT NULL,
  seed INTEGER NOT NULL,
  PRIMARY KEY (run, learner, lesson)
);
CREATE INDEX IF NOT EXISTS result_by_content ON result (lesson, sha256);
"""

# What version 1 did not have. A run of then is gone on with as it was begun, and takes nothing over.
_FROM_1 = (
    "ALTER TABLE run ADD COLUMN takes TEXT NOT NULL DEFAULT 'nothing' CHECK (takes IN ('any seed', 'own seed', 'nothing'))",
    "ALTER TABLE result ADD COLUMN seed INTEGER NOT NULL DEFAULT 0",
    "UPDATE result SET seed = (SELECT seed FROM run WHERE run.id = result.run)",
    "UPDATE result SET result = json_set(result, '$.seed', seed)",
)


class StoreFailed(Exception):
    """The store cannot be read or written. The text says which file, why, and what to do."""


class OtherSeed(Exception):
    """There is an unfinished run with another seed than the one that was asked for.

    Attributes:
        seed: of the unfinished run.
    """

    def __init__(self, seed: int) -> None:
        super().__init__(str(seed))
        self.seed = seed


@dataclass(frozen=True)
class Terms:
    """What the verdict on a submission to one lesson depends on, besides the submitted bytes and the seed.

    Attributes:
        lesson_digest: of the lesson's code and checks.
        receipt_digest: of the receipt file; empty where it could not be read.
        grader: of the grader's own sources.
        environment: of the interpreter and the versions of all packages.
        limits: as JSON.
        isolation: what keeps the learner's code apart, as JSON.
    """

    lesson_digest: str
    receipt_digest: str
    grader: str
    environment: str
    limits: str
    isolation: str


_SELECT = "SELECT sha256, lesson_digest, receipt_digest, grader, environment, limits, isolation, result, kept"
_SAME = (
    _SELECT
    + """ FROM result WHERE run = ? AND learner = ? AND lesson = ? AND sha256 = ?
  AND lesson_digest = ? AND receipt_digest = ? AND grader = ? AND environment = ? AND limits = ? AND isolation = ?"""
)
_STANDING = (
    _SELECT
    + """ FROM result JOIN run ON run.id = result.run
  WHERE lesson = ? AND sha256 = ? AND class = ? AND learner = ? ORDER BY kept DESC LIMIT 1"""
)
_KEEP = """INSERT OR REPLACE INTO result
  (run, learner, lesson, sha256, lesson_digest, receipt_digest, grader, environment, limits, isolation, kept, verdict, result, seed)
  VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)"""
_LIKE = (
    _SELECT
    + """ FROM result WHERE run <> ? AND lesson = ? AND sha256 = ?
  AND lesson_digest = ? AND receipt_digest = ? AND grader = ? AND environment = ? AND limits = ? AND isolation = ?
  AND (seed = ? OR ?) ORDER BY learner = ? DESC, kept DESC"""
)


@dataclass(frozen=True)
class Run:
    """A grading run of a class, new or gone on with.

    Attributes:
        id: its number in the store.
        folder: the class, by its full path.
        seed: of its draws.
        started: when it was first started.
        goes_on: whether it is an unfinished run of before.
        others: processes of graders that are at work on the same class at this moment.
        takes: which results of other runs it takes over, where they are of the same bytes and terms: ``any seed``; ``own seed``,
            where one was asked for; or ``nothing``.
    """

    id: int
    folder: str
    seed: int
    started: datetime
    goes_on: bool
    others: tuple[int, ...]
    takes: str = "any seed"


@dataclass(frozen=True)
class Asked:
    """A submission for which a result is looked for.

    Attributes:
        learner: the name.
        lesson: the lesson's id.
        file: as reports name it.
        sha256: of its bytes.
        terms: under which it would be judged now.
    """

    learner: str
    lesson: str
    file: str
    sha256: str
    terms: Terms


@dataclass(frozen=True)
class Kept:
    """A result in the store.

    Attributes:
        sha256: of the submitted bytes.
        terms: under which it was judged.
        result: the result itself.
        kept: when.
    """

    sha256: str
    terms: Terms
    result: SubmissionResult
    kept: datetime


class Store:
    """The open store. One process may use it from several threads, several processes may use the same file."""

    def __init__(self, path: Path) -> None:
        """Open it; it is made where there is none.

        Raises:
            StoreFailed: if it cannot be opened, or is not a store of this version.
            OSError: if its folder cannot be made.
        """
        self.path = path
        self._turn = threading.RLock()
        path.parent.mkdir(parents=True, exist_ok=True)
        with self._told():
            self._base = sqlite3.connect(path, timeout=BUSY_SECONDS, isolation_level=None, check_same_thread=False)
            try:
                self._prepare()
            except BaseException:
                self._base.close()
                raise

    def _prepare(self) -> None:
        version = self._base.execute("PRAGMA user_version").fetchone()[0]
        if version not in {0, 1, VERSION}:
            raise StoreFailed(
                f"{self.path} was made by another version of the grader: move it away, or give another folder with --out"
            )
        self._journal()
        # A verdict that was told is on the disk, also when the power fails.
        self._base.execute("PRAGMA synchronous = FULL")
        if version != VERSION:
            with self._writing():
                # Looked at once more, now that nobody else can change it.
                before = self._base.execute("PRAGMA user_version").fetchone()[0]
                for statement in _FROM_1 if before == 1 else () if before else filter(str.strip, _TABLES.split(";")):
                    self._base.execute(statement)
                self._base.execute(f"PRAGMA user_version = {VERSION}")

    def _journal(self) -> None:
        """A write-ahead log, which lets others read meanwhile. It needs shared memory, which network drives do not have."""
        mode = "DELETE" if networked(self.path.parent) else "WAL"
        end = time.monotonic() + BUSY_SECONDS
        while True:
            try:
                self._base.execute(f"PRAGMA journal_mode = {mode}").fetchone()
                return
            except sqlite3.OperationalError as error:
                # Where two graders make the same store, this is refused at once and not waited for.
                if error.sqlite_errorcode != sqlite3.SQLITE_BUSY or time.monotonic() > end:
                    raise
                time.sleep(0.05)

    def __enter__(self) -> Store:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    def close(self) -> None:
        """Close it. What was kept stays."""
        with self._turn, suppress(sqlite3.Error):
            self._base.close()

    def begin(self, folder: str, lessons: tuple[str, ...], seed: int | None, new_seed: int, *, fresh: bool = False) -> Run:
        """Go on with the unfinished run of a class, or begin a new one.

        A run whose grader still lives is left to it. Two graders that are started at the same moment never get the same run.

        Args:
            folder: the class, by its full path.
            lessons: the lessons that were asked for; empty for all. A run for one lesson is another run.
            seed: the seed that was asked for, if any.
            new_seed: of a new run, if none was asked for.
            fresh: give unfinished runs up and begin anew, with nothing of any run before.

        Raises:
            OtherSeed: if there is an unfinished run, and another seed is asked for.
            StoreFailed: if the store cannot be used.
        """
        of_class = (_ascii(folder), _ascii(sorted(lessons)))
        now = datetime.now(UTC)
        with self._told(), self._writing():
            rows = self._base.execute(
                "SELECT id, seed, started, owner, seen, takes FROM run WHERE class = ? AND lessons = ? AND state = 'open' ORDER BY id DESC",
                of_class,
            ).fetchall()
            working = [row for row in rows if _at_work(row[3], row[4], now)]
            left = [row for row in rows if row not in working]
            others = tuple(found.pid for row in working if (found := owner.parse(row[3])) is not None)
            if left and not fresh:
                number, old_seed, started, _, _, takes = left[0]
                if seed not in {None, old_seed}:
                    raise OtherSeed(old_seed)
                self._base.execute("UPDATE run SET owner = ?, seen = ? WHERE id = ?", (str(owner.me()), now.isoformat(), number))
                return Run(number, folder, old_seed, datetime.fromisoformat(started), True, others, takes)
            self._give_up([row[0] for row in left])
            chosen = new_seed if seed is None else seed
            takes = "nothing" if fresh else "any seed" if seed is None else "own seed"
            started = now.replace(microsecond=0)
            added = self._base.execute(
                "INSERT INTO run (class, lessons, seed, started, state, owner, seen, takes) VALUES (?, ?, ?, ?, 'open', ?, ?, ?)",
                (*of_class, chosen, started.isoformat(), str(owner.me()), now.isoformat(), takes),
            )
            return Run(int(added.lastrowid or 0), folder, chosen, started, False, others, takes)

    def results(self, run: Run) -> dict[tuple[str, str], Kept]:
        """What a run has so far: (learner, lesson) to the result."""
        with self._told(), self._turn:
            rows = self._base.execute(_SELECT + " FROM result WHERE run = ?", (run.id,)).fetchall()
        kept = [self._kept(row) for row in rows]
        return {(one.result.learner, one.result.lesson): one for one in kept}

    def keep(self, run: Run, sha256: str, terms: Terms, result: SubmissionResult) -> SubmissionResult:
        """Commit a result. When this returns, the result is on the disk.

        An ERROR is not kept: it says nothing about the submission, and is tried again.

        Returns:
            The result that stands: of two for the same bytes and terms, the first.
        """
        if result.verdict is Verdict.ERROR:
            return result
        key = (run.id, _ascii(result.learner), result.lesson, sha256, *astuple(terms))
        now = datetime.now(UTC).isoformat()
        with self._told(), self._writing():
            same = self._base.execute(_SAME, key).fetchone()
            if same is None:
                self._base.execute(_KEEP, (*key, now, *_written(run, result)))
            self._base.execute("UPDATE run SET seen = ? WHERE id = ?", (now, run.id))
        return result if same is None else self._kept(same).result

    def take_over(self, run: Run, asked: Iterable[Asked]) -> dict[tuple[str, str], SubmissionResult]:
        """Give a run the results that any other run has for the same bytes and terms, whoever handed them in.

        Returns:
            (learner, lesson) to the result, with the seed of the draws by which it was judged. All are on the disk.
        """
        found: dict[tuple[str, str], SubmissionResult] = {}
        if run.takes == "nothing":
            return found
        with self._told(), self._writing():
            for one in asked:
                key = (run.id, one.lesson, one.sha256, *astuple(one.terms), run.seed, run.takes == "any seed", _ascii(one.learner))
                rows = map(self._kept, self._base.execute(_LIKE, key))
                # By its name a file is a notebook or a script, and in an archive one of several.
                like = next((kept for kept in rows if _own(kept.result.file) == _own(one.file)), None)
                if like is None:
                    continue
                result = like.result.model_copy(update={"learner": one.learner, "file": one.file})
                place = (run.id, _ascii(one.learner), one.lesson, one.sha256, *astuple(one.terms))
                self._base.execute(_KEEP, (*place, like.kept.isoformat(), *_written(run, result)))
                found[one.learner, one.lesson] = result
        return found

    def standing(self, run: Run, learner: str, lesson: str, sha256: str) -> Kept | None:
        """The latest result for the same bytes in any run of the same class, under whatever terms: it stands while no other is known."""
        with self._told(), self._turn:
            row = self._base.execute(_STANDING, (lesson, sha256, _ascii(run.folder), _ascii(learner))).fetchone()
        return None if row is None else self._kept(row)

    def finish(self, run: Run) -> None:
        """Say that a run is complete, so that the next one draws afresh. Older unfinished runs of dead graders are given up."""
        with self._told(), self._writing():
            self._base.execute("UPDATE run SET state = 'finished' WHERE id = ?", (run.id,))
            older = self._base.execute(
                "SELECT old.id, old.owner, old.seen FROM run AS old JOIN run AS this ON old.class = this.class AND old.lessons = this.lessons"
                " WHERE this.id = ? AND old.id < this.id AND old.state = 'open'",
                (run.id,),
            ).fetchall()
            now = datetime.now(UTC)
            self._give_up([row[0] for row in older if not _at_work(row[1], row[2], now)])

    @contextmanager
    def alone(self) -> Iterator[None]:
        """While this lasts no other grader writes to the store, nor a report of its own under the same guard."""
        with self._told(), self._writing():
            yield

    def _give_up(self, runs: list[int]) -> None:
        self._base.executemany("UPDATE run SET state = 'given up' WHERE id = ?", [(one,) for one in runs])

    @contextmanager
    def _writing(self) -> Iterator[None]:
        """One transaction, in this process one at a time; other processes are waited for."""
        with self._turn:
            self._base.execute("BEGIN IMMEDIATE")
            try:
                yield
                self._base.execute("COMMIT")
            except BaseException:
                with suppress(sqlite3.Error):  # a full disk has rolled back already
                    self._base.execute("ROLLBACK")
                raise

    @contextmanager
    def _told(self) -> Iterator[None]:
        """Turn what SQLite says into words that name the file and the remedy."""
        try:
            yield
        except sqlite3.Error as error:
            raise StoreFailed(f"the results cannot be kept in {self.path}: {_why(error)}") from error

    def _kept(self, row: tuple[Any, ...]) -> Kept:
        sha256, *terms, text, kept = row
        try:
            return Kept(sha256, Terms(*terms), SubmissionResult.model_validate(json.loads(text)), datetime.fromisoformat(kept))
        except (ValueError, TypeError) as error:
            raise StoreFailed(f"{self.path} holds something that is not a result ({type(error).__name__}): {_AWAY}") from error


_AWAY = "move it away and start again"


def _written(run: Run, result: SubmissionResult) -> tuple[str, str, int]:
    """The columns of a result that come from itself."""
    return result.verdict.value, _ascii(result.model_dump(mode="json")), run.seed if result.seed is None else result.seed


def _own(file: str) -> str:
    """The name of a file without the folder of its learner."""
    return file.partition("/")[2] or file


def networked(folder: Path) -> bool:
    """Whether a folder lies on a network drive, as far as the system says."""
    place = str(folder.resolve())
    best = ("", "")
    with suppress(OSError, psutil.Error):
        for disk in psutil.disk_partitions(all=True):
            inside = place == disk.mountpoint or place.startswith(disk.mountpoint.rstrip(os.sep) + os.sep)
            if inside and len(disk.mountpoint) >= len(best[0]):
                best = (disk.mountpoint, disk.fstype)
    return best[1].lower() in _NETWORKED


def terms_text(values: Mapping[str, Any] | tuple[str, ...]) -> str:
    """Limits or layers as the text that :class:`Terms` holds: the same values give the same text."""
    return json.dumps(values, sort_keys=True)


def _at_work(holder: str, seen: str, now: datetime) -> bool:
    found = owner.parse(holder)
    life = found.life() if found is not None else owner.Life.UNSEEN
    if life is owner.Life.UNSEEN:
        return now - datetime.fromisoformat(seen) < UNSEEN_FOR
    # A second run within one process is this process's own affair.
    return life is owner.Life.ALIVE and found != owner.me()


def _why(error: sqlite3.Error) -> str:
    name = getattr(error, "sqlite_errorname", "")
    if name.startswith("SQLITE_BUSY") or name.startswith("SQLITE_LOCKED"):
        return f"another program has kept it locked for {BUSY_SECONDS:.0f} s; end that program and start again"
    if name.startswith("SQLITE_FULL"):
        return "the disk is full; make room and start again, it goes on where it was"
    if name.startswith("SQLITE_IOERR"):
        return f"{error}; is the disk full, or a limit on file sizes reached? Make room and start again, it goes on where it was"
    if name.startswith(("SQLITE_NOTADB", "SQLITE_CORRUPT")):
        return f"the file is damaged, or no store of results; {_AWAY}"
    if name.startswith(("SQLITE_READONLY", "SQLITE_CANTOPEN", "SQLITE_PERM")):
        return f"{error}; may you write there? Else give another folder with --out"
    return f"{error}; {_AWAY}"


def _ascii(value: Any) -> str:
    # ASCII, since a name may hold a lone surrogate, which is no UTF-8, and SQLite's text is.
    return json.dumps(value, ensure_ascii=True, allow_nan=False)
