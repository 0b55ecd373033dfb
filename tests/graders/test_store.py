"""The store: what is committed stays, a run is gone on with by one grader only, and nothing is taken for what it is not."""

import asyncio
import os
import sqlite3
import subprocess
import sys
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from graders import batch, owner, store
from graders.check import Settings
from graders.collect import search
from graders.owner import Life, Owner
from graders.packed import Packed
from graders.store import OtherSeed, Store, StoreFailed, Terms
from graders.verdict import Reason, SubmissionResult, Verdict, not_judged
from tests.conftest import reference_answers

TERMS = Terms("lesson", "receipt", "grader", "environment", "{}", "[]")


def result(learner="Ana", verdict=Verdict.PASS, message="", lesson="tiny-01"):
    reason = None if verdict is Verdict.PASS else Reason.WRONG
    exercises = not_judged((("double", 2.0),), verdict, reason, message)
    return SubmissionResult(learner=learner, lesson=lesson, file=f"{learner}/{lesson}.ipynb", sha256="a" * 64, exercises=exercises)


@pytest.fixture
def path(tmp_path):
    return tmp_path / "out" / "results.sqlite"


def begin(opened, seed=None, *, new_seed=1, fresh=False, folder="/class", lessons=()):
    return opened.begin(folder, lessons, seed, new_seed, fresh=fresh)


def disown(path, holder):
    """Make a run look as if another process had begun it."""
    with sqlite3.connect(path) as base:
        base.execute("UPDATE run SET owner = ?", (str(holder),))
    base.close()


def dead():
    """A process that has lived and died."""
    child = subprocess.Popen([sys.executable, "-c", "print(1); input()"], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    child.stdout.readline()
    named = owner._named(child.pid)
    assert named.life() is Life.ALIVE
    child.communicate(b"\n")
    assert named.life() is Life.DEAD
    return named


def test_a_result_is_on_the_disk_when_keep_returns_and_comes_back_the_same(path):
    names = ["Ana Pérez", "日本", "\udcff\udcfe", "\ud800", "=1+1", "a\nb", "", "\x1b[2J", "'; DROP TABLE result; --"]
    with Store(path) as opened:
        run = begin(opened)
        for name in names:
            opened.keep(run, "s", TERMS, result(name, Verdict.FAIL, f"message of {name}"))
        # Another process, while the first has it open.
        code = "import sqlite3, sys; print(sqlite3.connect(sys.argv[1]).execute('SELECT count(*) FROM result').fetchone()[0])"
        done = subprocess.run([sys.executable, "-c", code, str(path)], capture_output=True, text=True, check=True)
        assert done.stdout.strip() == str(len(names))
    with Store(path) as opened:
        kept = opened.results(begin(opened))
        assert [kept[name, "tiny-01"].result for name in names] == [
            result(name, Verdict.FAIL, f"message of {name}") for name in names
        ]
        assert {one.terms for one in kept.values()} == {TERMS}
    with sqlite3.connect(path) as base:
        assert base.execute("PRAGMA integrity_check").fetchone() == ("ok",)
    base.close()
    assert sorted(one.name for one in path.parent.iterdir()) == ["results.sqlite"]


def test_of_two_results_for_the_same_bytes_and_terms_the_first_stands(path):
    with Store(path) as opened:
        run = begin(opened)
        first, second = result(message="first", verdict=Verdict.FAIL), result(message="second", verdict=Verdict.FAIL)
        assert opened.keep(run, "s", TERMS, first) == first
        assert opened.keep(run, "s", TERMS, second) == first
        assert opened.keep(run, "other bytes", TERMS, second) == second
        assert [one.result for one in opened.results(run).values()] == [second]


def test_an_error_is_not_kept_and_does_not_take_the_place_of_a_verdict(path):
    with Store(path) as opened:
        run = begin(opened)
        opened.keep(run, "s", TERMS, result())
        opened.keep(run, "s2", TERMS, result(verdict=Verdict.ERROR))
        opened.keep(run, "s", TERMS, result("Bo", Verdict.ERROR))
        assert [one.result for one in opened.results(run).values()] == [result()]
        standing = opened.standing(run, "Ana", "tiny-01", "s")
        assert standing is not None and standing.result == result()
        assert opened.standing(run, "Ana", "tiny-01", "s2") is None
        assert opened.standing(begin(opened, folder="/another"), "Ana", "tiny-01", "s") is None


def test_an_unfinished_run_goes_on_with_its_seed_and_a_finished_one_does_not(path):
    with Store(path) as opened:
        first = begin(opened, new_seed=5)
        opened.keep(first, "s", TERMS, result())
        assert not first.goes_on and first.seed == 5
        again = begin(opened, new_seed=6)
        assert again.goes_on and (again.id, again.seed, again.started) == (first.id, 5, first.started)
        assert begin(opened, 5).goes_on
        with pytest.raises(OtherSeed) as other:
            begin(opened, 7)
        assert other.value.seed == 5
        # Another class, and a run for some lessons, are other runs.
        assert not begin(opened, folder="/other").goes_on
        assert not begin(opened, lessons=("tiny-01",)).goes_on
        opened.finish(first)
        new = begin(opened, new_seed=8)
        assert not new.goes_on and new.seed == 8 and opened.results(new) == {}


def test_fresh_gives_an_unfinished_run_up(path):
    with Store(path) as opened:
        first = begin(opened, new_seed=5)
        fresh = begin(opened, 9, fresh=True)
        assert (fresh.goes_on, fresh.seed) == (False, 9) and fresh.id != first.id
        assert begin(opened).id == fresh.id


def test_a_run_is_left_to_its_grader_while_that_lives_and_taken_over_when_it_is_dead(path):
    living = subprocess.Popen(
        [sys.executable, "-c", "print(1, flush=True); input()"], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    )
    living.stdout.readline()
    try:
        with Store(path) as opened:
            first = begin(opened, new_seed=5)
            disown(path, owner._named(living.pid))
            second = begin(opened, new_seed=6)
            assert not second.goes_on and second.seed == 6 and second.others == (living.pid,)
            # Neither ends the other's.
            opened.finish(second)
            third = begin(opened, new_seed=7, fresh=True)
            assert not third.goes_on and third.others == (living.pid,)
            opened.finish(third)
            living.communicate(b"\n")
            again = begin(opened, new_seed=8)
            assert again.goes_on and again.id == first.id
    finally:
        living.kill()
        living.wait()


def test_a_number_that_was_given_again_does_not_make_a_grader_alive():
    mine = owner.me()
    assert mine.life() is Life.ALIVE
    assert Owner(mine.machine, mine.pid, "abcdef").life() is Life.DEAD
    assert Owner("zzzz", mine.pid, mine.birth).life() is Life.UNSEEN
    assert owner.parse(str(mine)) == mine
    assert [owner.parse(text) for text in ("", "a-b-c", f"{mine}-1", "../x")] == [None] * 4


def test_a_run_on_another_machine_is_left_alone_until_it_has_been_silent_for_long(path):
    with Store(path) as opened:
        first = begin(opened)
        disown(path, Owner("beef", 1, "abcdef"))
        assert not begin(opened).goes_on
        long_ago = (datetime.now(UTC) - store.UNSEEN_FOR - timedelta(seconds=1)).isoformat()
        with sqlite3.connect(path) as base:
            base.execute("UPDATE run SET seen = ?, owner = ? WHERE id = ?", (long_ago, "beef-1-abcdef", first.id))
            base.execute("UPDATE run SET state = 'finished' WHERE id <> ?", (first.id,))
        base.close()
        assert begin(opened).id == first.id


def test_when_a_run_is_finished_older_ones_of_dead_graders_are_given_up(path):
    with Store(path) as opened:
        first = begin(opened)
        disown(path, dead())
        with sqlite3.connect(path) as base:  # as if it had been alive when the second began
            base.execute(
                "INSERT INTO run SELECT id + 1, class, lessons, 77, started, state, ?, seen, takes FROM run", (str(owner.me()),)
            )
        base.close()
        second = store.Run(first.id + 1, "/class", 77, first.started, False, ())
        opened.finish(second)
        assert not begin(opened).goes_on


@pytest.mark.parametrize(
    ("make", "said"),
    [
        (lambda path: path.write_bytes(b"not a database, but some text that is long enough to be looked at" * 20), "damaged"),
        (lambda path: path.mkdir(), "--out"),
        (lambda path: sqlite3.connect(path).executescript("PRAGMA user_version = 99").close(), "another version"),
    ],
)
def test_what_is_no_store_is_named_and_left_as_it_is(path, make, said):
    path.parent.mkdir()
    make(path)
    before = path.read_bytes() if path.is_file() else None
    with pytest.raises(StoreFailed, match=said) as failed:
        Store(path)
    assert str(path) in str(failed.value)
    assert (path.read_bytes() if path.is_file() else None) == before


def test_a_damaged_row_is_named(path):
    with Store(path) as opened:
        run = begin(opened)
        opened.keep(run, "s", TERMS, result())
        with sqlite3.connect(path) as base:
            base.execute("UPDATE result SET result = '{}'")
        base.close()
        with pytest.raises(StoreFailed, match="move it away"):
            opened.results(run)


def test_a_locked_store_is_waited_for_and_then_named(path, monkeypatch):
    monkeypatch.setattr(store, "BUSY_SECONDS", 0.3)
    with Store(path) as opened:
        run = begin(opened)
        other = sqlite3.connect(path, isolation_level=None)
        other.execute("BEGIN IMMEDIATE")
        with pytest.raises(StoreFailed, match="another program has kept it locked"):
            opened.keep(run, "s", TERMS, result())
        other.execute("COMMIT")
        other.close()
        # The store is as usable as before.
        opened.keep(run, "s", TERMS, result())
        assert len(opened.results(run)) == 1


def test_many_processes_may_open_the_same_new_store_at_once(path):
    code = """
import sys
from pathlib import Path
from graders.store import Store
sys.stdin.readline()
with Store(Path(sys.argv[1])) as opened:
    print(opened.begin("/class", (), None, int(sys.argv[2])).id)
"""
    children = [
        subprocess.Popen(
            [sys.executable, "-c", code, str(path), str(number)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )
        for number in range(4)
    ]
    answers = []
    for child in children:
        child.stdin.write("\n")
        child.stdin.flush()
    for child in children:
        answers.append(child.communicate(timeout=120)[0].strip())
        assert child.returncode == 0
    with sqlite3.connect(path) as base:
        rows = base.execute("SELECT id FROM run").fetchall()
    base.close()
    # A run of its own for each, or one that a process which had ended before had left.
    assert sorted({int(one) for one in answers}) == [number for (number,) in sorted(rows)]


def test_network_drives_are_told_by_their_kind(tmp_path, monkeypatch):
    class Disk:
        def __init__(self, mountpoint, fstype):
            self.mountpoint, self.fstype = mountpoint, fstype

    disks = [Disk("/", "ext4"), Disk(str(tmp_path), "nfs4"), Disk(str(tmp_path / "local"), "ext4")]
    monkeypatch.setattr(store.psutil, "disk_partitions", lambda all: disks)
    (tmp_path / "local").mkdir()
    assert store.networked(tmp_path) and not store.networked(tmp_path / "local") and not store.networked(Path("/"))
    with Store(tmp_path / "results.sqlite") as opened:
        begin(opened)
        with sqlite3.connect(opened.path) as base:
            assert base.execute("PRAGMA journal_mode").fetchone() == ("delete",)
        base.close()


# --- a class with its ledger; what a kernel would say is given ----------------------------------------------------


@pytest.fixture
def handed_in(tiny, hand_in):
    for number, name in enumerate(("Ana", "Bo", "Cy")):
        file = hand_in(tiny, reference_answers(tiny), name)
        # One and the same file would be known by any of the names.
        file.write_bytes(file.read_bytes() + b" " * number)
    return file.parents[1]


class Fake:
    """Stands for `check`: says which files it was asked for."""

    def __init__(self, verdicts=None):
        self.asked, self.verdicts = [], verdicts or {}

    async def __call__(self, desk, learner, file, shown):
        if file is not None:
            self.asked.append(learner)
        one = result(learner, self.verdicts.get(learner, Verdict.PASS))
        return one.model_copy(update={"file": shown, "sha256": batch.fingerprint(file) if file else "", "seed": desk.settings.seed})


def graded(opened, run, catalogue, folder, cache, monkeypatch, fake, grader="g", cell_seconds=None, done=lambda result: None):
    monkeypatch.setattr(batch, "check", fake)
    found = search(folder, catalogue)
    settings = Settings(run.seed, cache, cell_seconds)
    desks = batch.open_desks(catalogue, found, settings)
    terms = batch.open_terms(catalogue, desks, settings, grader=grader, environment="e", isolation=("one",))
    ledger = batch.open_ledger(opened, run, found, terms)
    fake.asked.clear()
    results = Packed()
    places = {(one.learner, one.lesson): number for number, one in enumerate(found.found)}

    def keep(result):
        results.put(places[result.learner, result.lesson], result)
        done(result)

    asyncio.run(batch.grade(catalogue, found, desks, 2, keep, ledger))
    return ledger, list(results)


def test_only_what_is_not_in_the_store_is_judged(path, tiny_course, handed_in, cache, monkeypatch):
    fake = Fake({"Bo": Verdict.ERROR})
    with Store(path) as opened:
        ledger, results = graded(opened, begin(opened), tiny_course, handed_in, cache, monkeypatch, fake)
        assert sorted(fake.asked) == ["Ana", "Bo", "Cy"] and not ledger.known
        fake.verdicts.clear()
        run = begin(opened)
        ledger, again = graded(opened, run, tiny_course, handed_in, cache, monkeypatch, fake)
        assert fake.asked == ["Bo"], "an ERROR is tried again, and nothing else"
        assert [again[0], again[2]] == [results[0], results[2]] and again[1].verdict is Verdict.PASS
        # A changed file, another grader, other limits: judged again.
        (handed_in / "Ana" / "tiny-01.ipynb").write_text("{}")
        ledger, _ = graded(opened, run, tiny_course, handed_in, cache, monkeypatch, fake)
        assert fake.asked == ["Ana"] and ledger.changed == 1
        run = begin(opened)
        ledger, _ = graded(opened, run, tiny_course, handed_in, cache, monkeypatch, fake, grader="another")
        assert sorted(fake.asked) == ["Ana", "Bo", "Cy"] and ledger.changed == 3
        ledger, _ = graded(opened, begin(opened), tiny_course, handed_in, cache, monkeypatch, fake, "another", cell_seconds=3)
        assert sorted(fake.asked) == ["Ana", "Bo", "Cy"] and ledger.changed == 3
        ledger, _ = graded(opened, begin(opened), tiny_course, handed_in, cache, monkeypatch, fake, "another", cell_seconds=3)
        assert fake.asked == [] and len(ledger.known) == 3
        # A second file beside the first: which one counts is not known any more.
        (handed_in / "Cy" / "second tiny-01.py").write_text("x = 1\n")
        ledger, results = graded(opened, begin(opened), tiny_course, handed_in, cache, monkeypatch, fake, "another", cell_seconds=3)
        assert results[2].verdict is Verdict.SKIP


def test_an_error_names_the_older_result_that_stands(path, tiny_course, handed_in, cache, monkeypatch):
    with Store(path) as opened:
        run = begin(opened)
        graded(opened, run, tiny_course, handed_in, cache, monkeypatch, Fake())
        opened.finish(run)
        fake = Fake({"Ana": Verdict.ERROR})
        _, results = graded(opened, begin(opened), tiny_course, handed_in, cache, monkeypatch, fake, "another")
        assert results[0].verdict is Verdict.ERROR and "an older result for the same file stands: PASS" in results[0].notices[0]
        assert not results[1].notices


def renamed(folder):
    (folder / "Ana").rename(folder / "Anna")


def changed(folder):
    file = folder / "Ana" / "tiny-01.ipynb"
    file.write_bytes(file.read_bytes() + b"\n")


def as_script(folder):
    file = folder / "Ana" / "tiny-01.ipynb"
    file.rename(file.with_suffix(".py"))


# What a result depends on, one by one: a change, and who is judged again for it.
PARTS = {
    "nothing": ({}, None, []),
    "the name of a learner": ({}, renamed, []),
    "the submission": ({}, changed, ["Ana"]),
    "the kind of file": ({}, as_script, ["Ana"]),
    "the lesson": ({"lesson_digest": "another"}, None, ["Ana", "Bo", "Cy"]),
    "the receipt": ({"receipt_digest": "another"}, None, ["Ana", "Bo", "Cy"]),
    "the grader": ({"grader": "another"}, None, ["Ana", "Bo", "Cy"]),
    "the environment": ({"environment": "another"}, None, ["Ana", "Bo", "Cy"]),
    "the limits": ({"limits": "another"}, None, ["Ana", "Bo", "Cy"]),
    "the isolation": ({"isolation": "another"}, None, ["Ana", "Bo", "Cy"]),
    "another seed": ({"seed": 5}, None, ["Ana", "Bo", "Cy"]),
    "the same seed": ({"seed": 1}, None, []),
    "--fresh": ({"fresh": True}, None, ["Ana", "Bo", "Cy"]),
}


@pytest.mark.parametrize("part", PARTS)
def test_a_class_graded_again_is_judged_anew_where_something_has_changed(path, tiny_course, handed_in, cache, monkeypatch, part):
    new, change, again = PARTS[part]
    terms = {key: value for key, value in new.items() if key not in {"seed", "fresh"}}
    fake = Fake({"Bo": Verdict.FAIL})
    with Store(path) as opened:
        run = begin(opened)
        _, first = graded(opened, run, tiny_course, handed_in, cache, monkeypatch, fake)
        opened.finish(run)
        if change:
            change(handed_in)
        changing = batch.open_terms

        def other(*words, **more):
            return {name: replace(one, **terms) for name, one in changing(*words, **more).items()}

        monkeypatch.setattr(batch, "open_terms", other)
        second = begin(opened, new.get("seed"), new_seed=2, fresh=new.get("fresh", False))
        ledger, results = graded(opened, second, tiny_course, handed_in, cache, monkeypatch, fake)
        assert sorted(fake.asked) == again and ledger.taken == 3 - len(again) and not ledger.changed
        stands = [one for one in first if one.learner not in again]
        assert [one.exercises for one in results if one.learner not in again] == [one.exercises for one in stands]
        # What was taken over is of this run now, with the seed by which it was judged.
        kept = {one.result.learner: one.result.seed for one in opened.results(second).values()}
        assert kept == {one.learner: second.seed if one.learner in again else 1 for one in results}
        opened.finish(second)
        third = begin(opened, new.get("seed"), new_seed=3)
        ledger, _ = graded(opened, third, tiny_course, handed_in, cache, monkeypatch, fake)
        assert ledger.taken == 3 and not fake.asked


def test_a_fresh_run_that_was_killed_stays_fresh(path, tiny_course, handed_in, cache, monkeypatch):
    fake = Fake()
    with Store(path) as opened:
        run = begin(opened)
        graded(opened, run, tiny_course, handed_in, cache, monkeypatch, fake)
        opened.finish(run)
        begin(opened, fresh=True)
        gone_on = begin(opened)
        assert gone_on.goes_on
        graded(opened, gone_on, tiny_course, handed_in, cache, monkeypatch, fake)
        assert sorted(fake.asked) == ["Ana", "Bo", "Cy"]


def test_of_two_files_in_one_archive_each_has_its_own_result(path):
    with Store(path) as opened:
        run = begin(opened)
        opened.keep(run, "s", TERMS, result("Ana").model_copy(update={"file": "Ana/hw.zip/tiny-01.ipynb"}))
        opened.finish(run)
        again = begin(opened, fresh=False)
        asked = [store.Asked("Bo", "tiny-01", f"Bo/hw.zip/{name}", "s", TERMS) for name in ("tiny-01.py", "tiny-01.ipynb")]
        assert opened.take_over(again, asked[:1]) == {}
        assert [one.file for one in opened.take_over(again, asked).values()] == ["Bo/hw.zip/tiny-01.ipynb"]


def test_a_store_of_version_1_is_brought_up_to_date(path):
    with Store(path) as opened:
        run = begin(opened, 7)
        opened.keep(run, "s", TERMS, result("Ana"))
        opened.finish(run)
    with sqlite3.connect(path) as base:  # back to what version 1 had
        base.execute("UPDATE result SET result = json_remove(result, '$.seed')")
        base.execute("ALTER TABLE result DROP COLUMN seed")
        base.execute("ALTER TABLE run DROP COLUMN takes")
        base.execute("PRAGMA user_version = 1")
    base.close()
    with Store(path) as opened:
        again = begin(opened, 7)
        (taken,) = opened.take_over(again, [store.Asked("Ana", "tiny-01", "Ana/tiny-01.ipynb", "s", TERMS)]).values()
        assert taken == result("Ana").model_copy(update={"seed": 7})
        assert (
            opened.take_over(begin(opened, 8, fresh=True), [store.Asked("Ana", "tiny-01", "Ana/tiny-01.ipynb", "s", TERMS)]) == {}
        )


def test_a_store_that_fails_ends_the_run_with_its_own_message(path, tiny_course, handed_in, cache, monkeypatch):
    with Store(path) as opened:
        seen = []

        def full(*words):
            raise StoreFailed("the disk is full")

        monkeypatch.setattr(opened, "keep", full)
        with pytest.raises(StoreFailed, match="the disk is full"):
            graded(opened, begin(opened), tiny_course, handed_in, cache, monkeypatch, Fake(), done=seen.append)
        assert seen == [], "what is not kept is not told"


def test_a_fingerprint_waits_for_nothing(tmp_path):
    file = tmp_path / "a.ipynb"
    file.write_bytes(b"abc")
    assert batch.fingerprint(file) == "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"
    assert batch.fingerprint(tmp_path) == "" and batch.fingerprint(tmp_path / "none") == ""
    (tmp_path / "link").symlink_to(file)
    assert batch.fingerprint(tmp_path / "link") == ""
    if hasattr(os, "mkfifo"):
        os.mkfifo(tmp_path / "fifo")
        assert batch.fingerprint(tmp_path / "fifo") == ""
