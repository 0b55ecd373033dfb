"""More of the kinds that were handed: for each at least three relatives of the case, most without a kernel.

What the file alone decides is looked at in the program that is made of it; what only a run decides is one class, which is
marked `lessons`.
"""

import json
import stat
import zipfile

import pytest

from course.catalogue import load
from graders.collect import search
from graders.program import of_submission
from graders.submission import read
from tests.faults.cells import MEAN, PAD, SCRIPT, SETUP, WRONG_MEAN, WRONG_PAD, Folder, code, notebook
from tests.faults.grading import grade


@pytest.fixture
def lesson(ragged):
    return load(ragged).lesson("ragged-01")


@pytest.fixture
def program(lesson, tmp_path):
    def of(made):
        into = Folder(tmp_path)
        return of_submission(lesson, read(into.script("Kim", made) if isinstance(made, str) else into.put("Kim", made)))

    return of


def order(found):
    return [step.id for step in found.steps]


GIVEN = ["parameters", "setup", "other-labels"]


@pytest.mark.parametrize(
    "script",
    [
        SCRIPT,
        f"# a note\n{SCRIPT}",
        SCRIPT.replace("\n", "\r\n"),
        f"import math\n\n{SCRIPT}",
        f"#!/usr/bin/env python\n# -*- coding: utf-8 -*-\n{SCRIPT}",
        SCRIPT.replace("labels = [[3, 1, 2], [5], [4, 4]]", "labels = [\n    [3, 1, 2],\n    [5], [4, 4],\n]  # mine"),
    ],
)
def test_a_script_without_markers_stands_on_the_given_code_that_it_holds(program, script):
    """Else a run with other labels would set them back to the first ones."""
    found = program(script)
    assert [name for name in order(found) if not name.startswith("own-")] == GIVEN
    last = found.steps[-1]
    assert last.origin == "own" and "padded_labels" in last.source and "labels = [" not in last.source.partition("width")[0]


@pytest.mark.parametrize(
    "script", [f"import numpy as np; labels = [[1]]\n{PAD}", f"import numpy as np\nlabels = [[9]]\n{PAD}", "x = (", PAD]
)
def test_code_that_is_not_the_given_one_is_not_taken_for_it(program, script):
    assert [step.origin for step in program(script).steps] == ["given", "given", "given", "own"]


def test_own_cells_before_missing_given_cells_run_after_them(program):
    made = notebook(before="helper = len(labels)")
    assert order(program(made)) == [*GIVEN, "own-2", "pad", "mean"]


@pytest.mark.parametrize(
    "source", ["pass", "...", "raise NotImplementedError", "raise NotImplementedError('todo')", "# later", '"""later"""\npass']
)
def test_placeholders_everywhere_are_an_unchanged_file(program, source):
    assert program(notebook(pad=source, mean=source)).unchanged == {"pad", "mean"}
    if source != "...":  # which is what was handed out
        assert "pad" not in program(notebook(pad=source)).unchanged, "one cell alone may be meant to stop there"


@pytest.mark.parametrize(
    ("own", "changed"),
    [
        ("last = None", {"last": 4}),
        ("for last in range(3):\n    pass", {"last": 4}),
        ("import numpy as mask", {"mask": 4}),
        ("def last():\n    pass", {"last": 4}),
        ("%%time\nlast = 1", {"last": 4}),
        ("last += 1", {"last": 4}),
        ("def f():\n    last = 1", {}),
        ("print(last)", {}),
        ("last[0] = 7", {}),
        ("del last", {}),
        ("last = (", {}),
    ],
)
def test_what_an_own_cell_binds_anew(program, own, changed):
    assert program(notebook(after=own)).changed == ({"pad": changed} if changed else {})


def test_what_another_exercises_cell_binds_anew_changes_nothing(program):
    assert program(notebook(mean=f"{MEAN}\nlast = None")).changed == {}
    assert program(notebook(pad=f"{PAD}\nmasked = None")).changed == {}


@pytest.mark.parametrize("kind", ["markdown", "raw", "heading"])
def test_answers_turned_into_words_are_pointed_out(program, kind):
    made = notebook(mean=None)
    made["cells"].append({"cell_type": kind, "id": "mean", "metadata": {}, "source": MEAN})
    assert f"cell 3 (mean) is a {kind} cell, so it wasn't run" in program(made).missing["mean"]
    made["cells"][-1]["source"] = "Now the mean: leave the padding out."
    assert "is gone" in program(made).missing["mean"]


# A class of zips


def put_zip(into, learner, members):
    return into.zip(f"{learner}.zip", members)


@pytest.fixture
def zips(tmp_path):
    into = Folder(tmp_path / "class")
    put_zip(into, "Ana", {"Ana/ragged-01.ipynb": notebook(cells=[]), "Ana/notes.txt": "n"})
    put_zip(into, "Bo", {"../ragged-01.ipynb": notebook()})
    link = zipfile.ZipInfo("ragged-01.ipynb")
    link.external_attr = (stat.S_IFLNK | 0o777) << 16
    with zipfile.ZipFile(into.root / "Cy.zip", "w") as archive:
        archive.writestr(link, "/etc/hosts")
    (into.root / "Di.zip").write_bytes(b"PK\x03\x04 cut short")
    with zipfile.ZipFile(into.root / "Ed.zip", "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("ragged-01.ipynb", b" " * 20_000_000)
    (into.root / "Flo").mkdir()
    put_zip(into, "Flo/handed in", {"a/ragged-01.ipynb": notebook(cells=[])})
    put_zip(into, "Gus", {"a.txt": "nothing"})
    put_zip(into, "Hal", {"ragged-01.ipynb": "{", "ragged-01 (1).ipynb": "{"})
    into.put("Ida", notebook(cells=[]))
    return into


ZIPPED = {
    "Ana": ("UNSOLVED", "no code cells"),
    "Bo": ("SKIP", "leads out of it"),
    "Cy": ("SKIP", "a link or a device"),
    "Di": ("FAIL", "is not a zip that can be read"),
    "Ed": ("SKIP", "times its size"),
    "Flo": ("UNSOLVED", "no code cells"),
    "Gus": ("UNSOLVED", "nothing was handed in"),
    "Hal": ("SKIP", "2 files for one lesson"),
    "Ida": ("UNSOLVED", "no code cells"),
}


def test_zips_are_looked_into_and_never_unpacked(ragged, zips, tmp_path):
    graded = grade(ragged, zips.root, tmp_path / "out")
    assert graded.code == 0, graded.out + graded.err
    assert graded.after == graded.before and not graded.left
    assert {one["learner"] for one in graded.results["submissions"]} == set(ZIPPED)
    for learner, (verdict, said) in ZIPPED.items():
        row = graded.row(learner)
        assert row["verdict"] == verdict and said in row["exercises"][0]["message"], row
    assert graded.row("Ana")["file"] == "Ana.zip/Ana/ragged-01.ipynb"
    assert len(graded.row("Ana")["sha256"]) == 64


@pytest.mark.parametrize("name", ["ragged-01.ipynb", "deep/er/RAGGED-01.IPYNB", "ragged-01_late.ipynb", "w\\ragged-01.ipynb"])
def test_a_notebook_in_a_zip_is_found_by_its_name(ragged, tmp_path, name):
    into = Folder(tmp_path / "class")
    put_zip(into, "Ana", {name: notebook(), "__MACOSX/._ragged-01.ipynb": "x", ".ipynb_checkpoints/ragged-01.ipynb": notebook()})
    (found,) = search(into.root, load(ragged)).found
    assert (found.learner, found.lesson, len(found.files)) == ("Ana", "ragged-01", 1)
    assert read(found.files[0]).cells[0].source == SETUP


def test_folders_and_zips_of_one_learner_are_one_learner(ragged, tmp_path):
    into = Folder(tmp_path / "class")
    put_zip(into, "Ana", {"ragged-01.ipynb": notebook()})
    into.put("Ana", notebook())
    (found,) = search(into.root, load(ragged), ("ragged-01",)).found
    assert len(found.files) == 2, "both are listed, and none is chosen silently"


def test_a_hidden_folder_is_a_learners_if_it_holds_a_notebook(ragged, tmp_path):
    into = Folder(tmp_path / "class")
    into.put("..Ana", notebook())
    into.put(".ipynb_checkpoints", notebook())
    into.put(".cache", "x", "data.py")
    into.put("Bo", notebook())
    assert sorted(one.learner for one in search(into.root, load(ragged)).found) == ["..Ana", "Bo"]


# What only a run decides: a class of its own. Learner -> what is handed in, then the verdicts, then words of the messages.

SLEEPER = "import subprocess, sys\nsubprocess.Popen([sys.executable, '-c', 'import time; time.sleep(60)'], {}).pid\n"
ROWS = {
    # N: files
    "worksheets twice": ({"nbformat": 3, "metadata": {}, "worksheets": [{"cells": [{"cell_type": "code", "input": one}]} for one in (SETUP, PAD, MEAN)]}, "PASS", "PASS", ()),
    "utf-16": (json.dumps(notebook()).encode("utf-16"), "PASS", "PASS", ()),
    "null metadata": ({**notebook(), "metadata": None}, "PASS", "PASS", ()),
    # X: running
    "exit by signal": (notebook(mean="import os, signal\nos.kill(os.getpid(), signal.SIGKILL)"), "PASS", "FAIL died", ("SIGKILL",)),
    "abort": (notebook(mean="import os\nos.abort()"), "PASS", "FAIL died", ()),
    "exit with a text": (notebook(mean=f"raise SystemExit('done')\n{MEAN}"), "PASS", "FAIL raised", ("ended the cell",)),
    "exit in a function": (notebook(mean=MEAN.replace("return", "exit()\n    return")), "PASS", "PASS | FAIL raised", ()),
    "error class of one's own": (notebook(mean="class Mine(BaseException):\n    def __str__(self):\n        raise ValueError\nraise Mine"), "PASS", "FAIL raised", ()),
    "error group": (notebook(mean="raise ExceptionGroup('many', [ValueError('a'), KeyError('b')])"), "PASS", "FAIL raised", ("many",)),
    "recursion": (notebook(mean="def down():\n    return down()\ndown()"), "PASS", "FAIL raised", ("RecursionError",)),
    "broken magic": (notebook(before="%no_such_magic"), "PASS", "PASS", ()),
    "script magic": (notebook(before="%%sh\nkill -9 $$"), "PASS", "PASS", ()),
    "captured error": (notebook(mean=f"%%capture\nraise KeyError('hidden')\n{MEAN}"), "PASS", "FAIL raised", ("hidden",)),
    "child without environment": (notebook(before=SLEEPER.replace("{}", "env={}").replace("], env", "], env")), "PASS", "PASS", ()),
    "thread without end": (notebook(before="import threading, time\nthreading.Thread(target=time.sleep, args=(60,)).start()"), "PASS", "PASS", ()),
    "exit hook": (notebook(after="import atexit, time\natexit.register(time.sleep, 60)"), "PASS", "PASS", ()),
    "stdout closed": (notebook(before="import sys, os\nsys.stdout.close()\nos.close(1)"), "PASS", "PASS", ()),
    "stdout replaced": (notebook(before="import sys\nsys.stdout = None"), "PASS | TIMEOUT timeout", "PASS | TIMEOUT timeout", ()),
    "binary output": (notebook(before="from IPython.display import display\ndisplay({'image/png': 'x' * 100, 'text/plain': chr(27)}, raw=True)"), "PASS", "PASS", ()),
    "numpy replaced": (notebook(before="import sys\nsys.modules['numpy'] = None"), "PASS | FAIL raised | FAIL wrong", "PASS | FAIL raised | FAIL wrong", ()),
    "json replaced": (notebook(after="import json\njson.dumps = lambda *a, **k: '{}'", pad=WRONG_PAD), "FAIL wrong", "PASS", ()),
    "equal to everything": (notebook(mean=f"{MEAN}\nclass Yes(float):\n    def __eq__(self, other):\n        return True\n    __hash__ = None\ndef masked_mean(x, m):\n    return Yes(0)"), "PASS", "FAIL wrong", ()),
    "array subclass": (notebook(mean=f"{MEAN}\nclass Mine(np.ndarray):\n    pass\nmasked = masked.view(Mine)"), "PASS", "FAIL wrong", ()),
    "repr of a class": (notebook(mean=f"{MEAN}\nclass Meta(type):\n    def __repr__(cls):\n        raise ValueError\nclass Bad(metaclass=Meta):\n    pass\nmasked = Bad"), "PASS", "FAIL wrong", ()),
    "huge name": (notebook(mean=f"{MEAN}\nmasked = type('x' * 1_000_000, (), {{}})()"), "PASS", "FAIL wrong", ()),
    "history rewritten": (notebook(before="ip = get_ipython()\nip.user_ns['In'].clear()\nip.run_cell = None"), "PASS | FAIL tampered | FAIL died | TIMEOUT timeout", "PASS | FAIL tampered | FAIL died | TIMEOUT timeout", ()),
    # W: the work
    "only comments": (notebook(pad="# padded_labels, mask, last", mean="# masked"), "UNSOLVED no-answer", "UNSOLVED no-answer", ()),
    "half a placeholder": (notebook(mean="pass"), "PASS", "FAIL missing | UNSOLVED no-answer", ()),
    "all wrong": (notebook(pad=WRONG_PAD, mean=WRONG_MEAN), "FAIL wrong", "FAIL wrong", ("The last column",)),
    "none": (notebook(mean=MEAN.replace("return", "print").replace("float(", "(")), "PASS", "FAIL wrong", ("print instead of return",)),
    "function left alone": (notebook(mean=f"{MEAN}\nmasked = masked_mean"), "PASS", "FAIL wrong", ()),
    "typed in for the variant": (notebook(mean=MEAN.replace("return float((x * m).sum() / m.sum())", "return {16: 19 / 6, 19: 22 / 6}[int(x.sum())]")), "PASS", "FAIL raised | FAIL wrong", ("freshly drawn",)),
    "data by https": (notebook(pad=f"import urllib.request\nlabels = urllib.request.urlopen('https://192.0.2.1/labels.json', timeout=2).read()\n{PAD}"), "FAIL raised", "FAIL raised", ()),
    "data of the home folder": (notebook(pad=f"from pathlib import Path\nlabels = Path.home().joinpath('labels.json').read_text()\n{PAD}"), "FAIL raised", "FAIL raised", ("the file isn't part of the exercise",)),
    "marked but empty": (notebook(cells=[code(SETUP, "setup"), code("", "pad"), code("\n\n", "mean")]), "UNSOLVED no-answer", "UNSOLVED no-answer", ()),
    "overwritten rightly": (notebook(after="last = np.array(last) + 0"), "PASS", "PASS", ()),
    "deleted afterwards": (notebook(after="del last, mask, masked"), "PASS", "PASS", ()),
    "spoilt by the other": (notebook(mean="masked = padded_labels\nmasked[~mask] = 0\n" + MEAN.split("\n\n")[1], after="last = last + 0"), "PASS", "PASS", ()),
}  # fmt: skip


@pytest.fixture(scope="session")
def of_siblings(ragged, tmp_path_factory):
    into = Folder(tmp_path_factory.mktemp("siblings") / "class")
    for learner, (made, *_) in ROWS.items():
        into.put(learner, made)
    return grade(ragged, into.root, into.root.parent / "out", "--jobs", "3", "--cell-seconds", "10")


@pytest.mark.lessons
@pytest.mark.parametrize("learner", ROWS)
def test_a_sibling(of_siblings, learner):
    _, pad, mean, said = ROWS[learner]
    row = of_siblings.row(learner)
    for result, right in zip(row["exercises"], (pad, mean), strict=True):
        assert f"{result['verdict']} {result['reason'] or ''}".strip() in right.split(" | "), row
    messages = " ".join(result["message"] for result in row["exercises"])
    assert all(word in messages for word in said), messages
    assert len(messages) < 5_000


@pytest.mark.lessons
def test_the_siblings_leave_nothing(of_siblings):
    assert of_siblings.code == 0, of_siblings.err
    assert of_siblings.after == of_siblings.before and not of_siblings.left, of_siblings.left
    assert len(of_siblings.results["submissions"]) == len(ROWS)
