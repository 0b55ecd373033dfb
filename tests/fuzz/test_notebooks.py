"""Notebooks of every structure on their way from the class folder to the program that is run."""

import hashlib
import json
import zipfile
from collections import Counter

from hypothesis import example, given
from hypothesis import strategies as st

from course.catalogue import load
from course.script import same_code
from graders.collect import search
from graders.program import of_submission
from graders.submission import Unreadable, read
from tests.conftest import ROOT

LESSON = load(ROOT / "tests" / "fixtures" / "course").lesson("tiny-01")
CATALOGUE = load(ROOT / "tests" / "fixtures" / "course")
IDS = [cell.id for cell in LESSON.cells]
NAMES = st.sampled_from([*IDS, "Double", "nothing", "double-2", ""])
CODE = st.one_of(
    st.sampled_from([cell.source for cell in LESSON.cells]),
    st.sampled_from([one.source for one in LESSON.scaffolds.values()]),
    st.sampled_from([
        "", "\n\n", "x = (", "%matplotlib inline\nx = 1", "!ls", "%%time\nx = 1", "def f(:", "quit()", "doubled = [2, 4, 6]", "N = 3", "mean = 4.0\r\n",
        "\x00", "\ufeffx = 1", "\ud800", "import numpy as np; N, SEED = 3, 1", "for N in range(3): numbers = []", "# only a comment", "'''", "\\", "x = 1\x0c\ny = 2",
        "\t x = 1", "match 1:\n    case numbers: pass", "lambda: (yield)", "async def scaled(): ...", "await x", "del N", "from math import *", "raise NotImplementedError",
    ]),
    st.text(max_size=30),
)  # fmt: skip


@st.composite
def sources(draw):
    """Code with, at times, marker comments before and in it."""
    parts = draw(st.lists(st.tuples(st.booleans(), NAMES, CODE), min_size=1, max_size=3))
    text = "\n".join((f"# cell: {name}\n" if marked else "") + code for marked, name, code in parts)
    return draw(st.sampled_from([text, text.replace("\n", "\r\n"), text + "\n", text.split("\n")]))


METADATA = st.fixed_dictionaries(
    {},
    optional={
        "training_systems": st.one_of(st.fixed_dictionaries({"cell": NAMES, "role": st.sampled_from(["exercise", "build", "x"])}), st.none(), st.just([1])),
        "tags": st.one_of(st.lists(NAMES.map(lambda name: f"ex:{name}"), max_size=2), st.just("ex:double"), st.none()),
        "nbgrader": st.just({"grade": True, "grade_id": "double"}),
    },
)  # fmt: skip
CELLS = st.fixed_dictionaries(
    {"cell_type": st.sampled_from(["code", "code", "code", "code", "markdown", "raw", "heading", "sql"]), "source": sources(), "metadata": METADATA},
    optional={"id": NAMES, "outputs": st.just([]), "execution_count": st.sampled_from([None, 1, "x"]), "level": st.just(1)},
)  # fmt: skip
NOTEBOOKS = st.fixed_dictionaries(
    {"cells": st.lists(CELLS, max_size=9), "nbformat": st.sampled_from([4, 4, 4, 3]), "nbformat_minor": st.sampled_from([0, 4, 5, 9])},
    optional={"metadata": st.sampled_from([{}, {"training_systems": {"lesson": "tiny-01"}}, {"training_systems": {"lesson": "00"}}, {"kernelspec": {"name": "python3", "language": "python"}}])},
)  # fmt: skip
FILES = st.sampled_from(["tiny-01.ipynb", "tiny-01 (1).ipynb", "Tiny-01.IPYNB", "other.ipynb", "tiny-01-tiny-02.ipynb", "é.ipynb"])
LEARNERS = st.sampled_from(["Ana", "O'Neil", "Zoë 100%", "-rf", "=1+1", "a.zip.d", ".hidden", "tiny-01"])


@given(st.lists(st.tuples(LEARNERS, FILES, NOTEBOOKS, st.booleans()), min_size=1, max_size=3))
@example(handed=[(".hidden", "tiny-01.ipynb", {"cells": [], "nbformat": 4, "nbformat_minor": 0}, True)])
def test_every_file_is_found_once_read_or_refused_and_becomes_a_program(tmp_path_factory, handed):
    folder = tmp_path_factory.mktemp("class")
    for number, (learner, name, data, packed) in enumerate(handed):
        (folder / learner).mkdir(exist_ok=True)
        raw = json.dumps(data).encode("utf-8", "surrogatepass")
        if packed:
            with zipfile.ZipFile(folder / learner / f"{number}.zip", "w") as archive:
                archive.writestr(name, raw)
        else:
            (folder / learner / name).write_bytes(raw)
    before = {path: hashlib.sha256(path.read_bytes()).hexdigest() for path in folder.rglob("*") if path.is_file()}
    found = search(folder, CATALOGUE, ("tiny-01",))
    rows = Counter((one.learner, one.lesson) for one in found.found)
    assert set(rows.values()) == {1} and {learner for learner, _ in rows} == {learner for learner, *_ in handed}
    places = Counter(path for one in found.found for path in one.files) + Counter(found.unknown)
    assert set(places.values()) <= {1}
    for path in places:
        try:
            submission = read(path)
        except Unreadable as error:
            assert str(error)
        else:
            holds(submission)
    assert before == {path: hashlib.sha256(path.read_bytes()).hexdigest() for path in folder.rglob("*") if path.is_file()}


def holds(submission):
    """What is true of every program, whatever was handed in."""
    program = of_submission(LESSON, submission)
    given_cells = [step for step in program.steps if step.origin == "given"]
    # The lesson's own cells, each once, in the lesson's order, with the lesson's own code.
    assert [(one.id, one.source) for one in given_cells] == [
        (cell.id, cell.source) for cell in LESSON.cells if cell.role != "exercise"
    ]
    assert [step.id for step in program.steps if step.parameters] == ["parameters"]
    assert set(program.observed_after) == set(LESSON.scaffolds) and set(program.missing) | set(program.answers) == set(
        LESSON.scaffolds
    )
    for exercise, after in program.observed_after.items():
        assert 0 <= after < len(program.steps)
        assert exercise in program.missing or program.steps[after].id == exercise
    assert all(0 <= index < len(program.steps) for index in program.keeps)
    kinds = {cell.position: cell.kind for cell in submission.cells}
    assert all(kinds[step.position] == "code" for step in program.steps if step.origin != "given")
    for index in range(len(program.steps) + 1):
        cut = program.until(index)
        assert len(cut.steps) == index and all(after < index for after in cut.observed_after.values())
    assert all(program.place(index) for index in range(len(program.steps)))
    # Code of the learner's is run, replaced with a notice, or a copy of given code; it is not lost.
    ran = "\n".join(step.source for step in program.steps if step.origin != "given")
    for cell in submission.cells:
        nameless = cell.kind == "code" and not set(cell.names) & set(IDS) and cell.source.strip()
        if nameless and not any(same_code(one.source, cell.source) for one in LESSON.cells):
            assert all(line.strip() in ran or _given(line) for line in cell.source.split("\n"))


def _given(line):
    """Whether a line is of given code, or a comment, which no comparison of code looks at."""
    return line.strip().startswith("#") or any(line.strip() in cell.source for cell in LESSON.cells)
