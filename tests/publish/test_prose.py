"""`lesson.md` as blocks, and every fault in it with file, line and remedy."""

from __future__ import annotations

import pytest

from course.errors import CourseError
from publish import prose

FILE = "phases/06-small/01-pad/lesson.md"


def test_blocks_come_in_order_with_stage_heading_and_line(small):
    blocks = prose.read(small.lesson)
    assert [(block.kind, block.ref) for block in blocks if block.kind != "words"] == [
        ("figure", "plot"),
        ("cell", "parameters"),
        ("cell", "data"),
        ("cell", "done"),
        ("experiment", "longer"),
        ("exercise", "pad"),
        ("quiz", ""),
        ("diagnosis", ""),
        ("evidence", ""),
        ("references", ""),
    ]
    lines = (small.folder / "lesson.md").read_text().split("\n")
    for block in blocks:
        first = block.text.split("\n")[0] if block.kind == "words" else f"```{{{block.kind}}}{block.ref and ' ' + block.ref}"
        assert lines[block.line - 1] == first
    figure = next(block for block in blocks if block.kind == "figure")
    assert (figure.stage, figure.heading) == ("Understand", "The figure")
    assert [block.heading for block in blocks if block.text.startswith("## ")] == ["The figure", "Carry forward"]


def test_no_word_is_lost(small):
    words = [line for block in prose.read(small.lesson) for line in block.text.split("\n")]
    written = (small.folder / "lesson.md").read_text().split("\n")
    wanted = [line for line in written if line.strip() and not line.startswith("```")]
    assert [line for line in words if line.strip() and not line.startswith("```")] == wanted


def test_a_directive_inside_a_code_block_is_an_example(small):
    small.change("lesson.md", "Parameters first.", "````text\n```{cell} nowhere\n```\n# Not a heading\n````")
    assert any("nowhere" in block.text for block in prose.read(small.lesson))


AFTER = "```{after} longer\nIt was {recorded}`Length`.\n```\n"


def test_words_may_come_after_a_prediction(small):
    small.change("lesson.md", "```{experiment} longer\n```\n", f"```{{experiment}} longer\n```\n\n{AFTER}\nNext.\n")
    blocks = prose.read(small.lesson)
    place = next(index for index, block in enumerate(blocks) if block.kind == "experiment")
    after, following = blocks[place + 1 : place + 3]
    assert (after.kind, after.after, after.text) == ("words", "longer", "It was {recorded}`Length`.")
    assert (after.stage, after.heading) == ("Experiment", "Experiment")
    assert (following.kind, following.after, following.text) == ("words", "", "Next.")
    lines = (small.folder / "lesson.md").read_text().split("\n")
    assert [lines[one.line - 1] for one in (after, following)] == [after.text, following.text]
    assert {block.after for block in blocks if block is not after} == {""}


def test_code_may_come_after_a_prediction(small):
    held = "````{after} longer\n\n```text\n# no heading\n```\n````\n"
    small.change("lesson.md", "```{experiment} longer\n```\n", f"```{{experiment}} longer\n```\n\n{held}")
    (after,) = (block for block in prose.read(small.lesson) if block.after)
    assert after.text == "```text\n# no heading\n```"


def _after(body: str, name: str = "longer") -> str:
    return f"```{{experiment}} longer\n```\n\n````{{after}} {name}\n{body}\n````\n"


EXPERIMENT = "```{experiment} longer\n```\n"
FAULTS = [
    (EXPERIMENT, _after("So.", "shorter"), "````{after} shorter", "{after} names 'shorter', which is no figure", "plot, longer"),
    (EXPERIMENT, _after("So.", ""), "````{after} ", "{after} names ''", "use one of: plot, longer"),
    (EXPERIMENT, _after("So.", "data"), "````{after} data", "{after} names data, a cell of role build without", "plot, longer"),
    (EXPERIMENT, _after("So.", "plot"), "````{after} plot", "{after} plot does not stand below {figure} plot", "move it below"),
    (EXPERIMENT, AFTER + "\n" + EXPERIMENT, "```{after} longer", "{after} longer does not stand below", "move it below"),
    (EXPERIMENT, _after(""), "````{after} longer", "{after} is empty", "remove it"),
    (EXPERIMENT, _after("So.\n\n## Why"), "## Why", "a heading stands inside {after}", "close the block before it"),
    (EXPERIMENT, _after("So.\n\n```{quiz} \n```"), "```{quiz} ", "{quiz} stands inside {after}", "close the block before it"),
    (EXPERIMENT, _after("So.\n\n```{quizz}\n```"), "```{quizz}", "unknown directive '{quizz}'", "use one of"),
    (EXPERIMENT, _after("So.\n\n[a]: https://example.org"), "[a]: https://example.org", "the link definition", "[text](url)"),
    (
        "# Experiment\n",
        "# Experiments\n",
        "# Experiments",
        "'Experiments' is not one of the five stages",
        "# Understand, # Build & Run",
    ),
    ("# Experiment\n", "## Experiment\n", "", "the heading `# Experiment` is missing", "in this order"),
    ("# Evidence\n", "# Evidence\n\n# Evidence\n", "# Evidence", "# Evidence stands twice", "keep one"),
    ("# Understand\n", "Hello.\n\n# Understand\n", "Hello.", "words above the first stage", "under # Understand"),
    ("```{cell} data\n", "```{code} data\n", "```{code} data", "unknown directive '{code} data'", "{cell}, {figure}"),
    ("```{cell} data\n", "```{cell} dota\n", "```{cell} dota", "names 'dota'", "parameters, data, done"),
    ("```{cell} data\n", "```{figure} data\n", "```{figure} data", "whose role is build", "write {cell} data"),
    ("```{cell} data\n", "```{cell} data\nprint()\n", "```{cell} data", "{cell} has a body", "leave it empty"),
    ("```{cell} data\n```\n", "- a list\n\n  ```{cell} data\n  ```\n", "  ```{cell} data", "inside a list", "start of a line"),
    (
        "```{cell} data\n```\n",
        "```{cell} data\n```\n\n```{cell} data\n```\n",
        "```{cell} data",
        "data is shown twice (also on line 21)",
        "keep one",
    ),
    ("```{cell} data\n```\n", "", "", "cell data of code/main.py is not shown", "{cell} data"),
    ("```{quiz}\n", "```{quiz} q1\n", "```{quiz} q1", "{quiz} takes no id", "{quiz} alone"),
    ("```{references}\n```\n", "", "", "{references} is missing", "add a fenced block"),
    ("Divide by", "[a]: https://example.org\n\nDivide by", "[a]: https://example.org", "link definition", "[text](url)"),
]


@pytest.mark.parametrize(("old", "new", "line", "what", "remedy"), FAULTS, ids=[fault[3] for fault in FAULTS])
def test_each_fault_names_file_line_and_remedy(small, old, new, line, what, remedy):
    """``line`` is the text of the line that must be named, the last such one; empty where the file as a whole is at fault."""
    small.change("lesson.md", old, new)
    with pytest.raises(CourseError) as caught:
        prose.read(small.lesson)
    found = [problem for problem in caught.value.problems if what in problem.what]
    assert found, str(caught.value)
    assert found[0].file == FILE
    lines = (small.folder / "lesson.md").read_text().split("\n")
    assert found[0].key == (f"line {max(n for n, one in enumerate(lines, 1) if one == line)}" if line else "")
    assert remedy in found[0].remedy


def test_stages_out_of_order(small):
    text = (small.folder / "lesson.md").read_text()
    text = text.replace("# Experiment\n", "# X\n").replace("# Build & Run", "# Experiment").replace("# X\n", "# Build & Run\n")
    (small.folder / "lesson.md").write_text(text)
    with pytest.raises(CourseError, match=r"line 14: # Experiment is out of order"):
        prose.read(small.lesson)


def test_all_faults_are_found_in_one_reading(small):
    small.change("lesson.md", "```{cell} data\n", "```{cell} dota\n")
    small.change("lesson.md", "```{quiz}\n", "```{quizz}\n")
    with pytest.raises(CourseError) as caught:
        prose.read(small.lesson)
    assert all(part in str(caught.value) for part in ("'dota'", "{quizz}", "cell data", "{quiz} is missing"))
