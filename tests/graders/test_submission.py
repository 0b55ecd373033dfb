"""Files as they really come in. The bytes are never changed, and no file brings the reader down."""

import hashlib
import json
import os

import pytest
from hypothesis import given
from hypothesis import strategies as st

from graders.submission import MAX_DEPTH, Unreadable, read


def cells(*sources, **more):
    made = [{"cell_type": "code", "metadata": {}, "outputs": [], "execution_count": None, "source": source} for source in sources]
    return {"cells": made, "metadata": {}, "nbformat": 4, "nbformat_minor": 5, **more}


def written(tmp_path, data, name="a.ipynb"):
    path = tmp_path / name
    path.write_bytes(data if isinstance(data, bytes) else json.dumps(data).encode())
    return path


def refusal(path):
    before = path.read_bytes() if path.is_file() else b""
    with pytest.raises(Unreadable) as caught:
        read(path)
    if before:
        assert path.read_bytes() == before
        assert caught.value.sha256 == hashlib.sha256(before).hexdigest()
    return caught.value


def test_a_plain_notebook(tmp_path):
    path = written(tmp_path, cells("x = 1", ["y = 1\n", "z = 2"]))
    found = read(path)
    assert [cell.source for cell in found.cells] == ["x = 1", "y = 1\nz = 2"]
    assert found.sha256 == hashlib.sha256(path.read_bytes()).hexdigest()
    assert found.notices == ()


@pytest.mark.parametrize(
    ("prefix", "encoding"), [(b"\xef\xbb\xbf", "utf-8"), (b"", "utf-16"), (b"\n \n", "utf-8")], ids=["bom", "utf-16", "blanks"]
)
def test_encodings_that_editors_write(tmp_path, prefix, encoding):
    path = written(tmp_path, prefix + json.dumps(cells("x = 'é'"), ensure_ascii=False).encode(encoding))
    assert read(path).cells[0].source == "x = 'é'"


@pytest.mark.parametrize("ends", ["\r\n", "\r"])
def test_line_ends_become_those_of_unix(tmp_path, ends):
    assert read(written(tmp_path, cells(f"# cell: double{ends}x = 1"))).cells[0].source == "# cell: double\nx = 1"
    assert read(written(tmp_path, f"# %% A{ends}x = 1{ends}".encode(), "a.py")).cells[0].source == "x = 1"


def test_nbformat_3_is_converted(tmp_path):
    old = {"nbformat": 3, "nbformat_minor": 0, "metadata": {}, "worksheets": [{"cells": [
        {"cell_type": "heading", "source": "A", "level": 1},
        {"cell_type": "code", "input": ["x = 1"], "outputs": [], "language": "python"},
    ]}]}  # fmt: skip
    found = read(written(tmp_path, old))
    assert [(cell.kind, cell.source) for cell in found.cells] == [("heading", "A"), ("code", "x = 1")]
    assert "converted from nbformat 3" in found.notices


@pytest.mark.parametrize(
    ("data", "said"),
    [
        (b"", "is empty (0 bytes)"),
        (b"  \n", "is empty (3 bytes)"),
        (b"<!DOCTYPE html><html></html>", "is an HTML page"),
        (b"import numpy as np\nx = 1\n", "is Python text"),
        (b"no notebook at all", "does not hold JSON"),
        (b"[]", "JSON, but a list"),
        (b"3", "JSON, but a number"),
        (b'{"nbformat": 4}', "it has no cells"),
        (b'{"cells": [{"cell_type": "code", "sou', "ends early (37 bytes, JSON stops at line 1)"),
        (b'{"cells": [],\n<<<<<<< HEAD\n"nbformat": 4\n=======\n>>>>>>> b\n}', "line 2: unresolved git merge (<<<<<<< HEAD)"),
        (b'{"cells": [], "metadata": {"a": "\x92"}}', "byte 0x92 at offset"),
        (b'{"a" 1, "cells": []}', "broken JSON at line 1"),
        (b"[" * 100_000, "nested too deeply"),
        (b'{"cells": [], "n": ' + b"1" * 5_000 + b"}", "a number too long"),
    ],
)
def test_what_is_not_a_notebook_says_what_it_is(tmp_path, data, said):
    error = refusal(written(tmp_path, data))
    assert said in str(error)
    assert not error.refused


def test_what_must_not_be_run_is_refused(tmp_path):
    assert refusal(written(tmp_path, b'{"cells": [], "nbformat": 4, "cells": []}')).refused
    julia = cells("x = 1", metadata={"kernelspec": {"name": "julia-1.9", "language": "julia"}})
    error = refusal(written(tmp_path, julia))
    assert error.refused and "julia" in str(error)
    assert refusal(written(tmp_path, cells(*["x"] * 2001))).refused
    assert refusal(written(tmp_path, cells("x" * 1_000_001))).refused


def test_python_notebooks_of_other_tools_are_read(tmp_path):
    colab = cells("x = 1", metadata={"kernelspec": {"name": "python3"}, "widgets": {"application/x": {}}, "accelerator": "GPU"})
    assert read(written(tmp_path, colab)).cells[0].source == "x = 1"


@pytest.mark.parametrize("depth", [MAX_DEPTH - 8, MAX_DEPTH + 10, 900, 5000])
def test_depth_is_bounded(tmp_path, depth):
    data = json.dumps(cells("x"))[:-1] + ', "deep": ' + "[" * depth + "]" * depth + "}"
    path = written(tmp_path, data.encode())
    if depth < MAX_DEPTH - 4:
        read(path)
    else:
        assert "nested too deeply" in str(refusal(path))


def test_a_size_is_looked_at_before_the_file_is_read(tmp_path, monkeypatch):
    monkeypatch.setattr("graders.submission.MAX_BYTES", 100)
    with pytest.raises(Unreadable, match="the limit is") as caught:
        read(written(tmp_path, cells("x" * 200)))
    assert caught.value.refused


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="this platform has no FIFOs")
def test_fifos_directories_and_links_are_not_opened(tmp_path):
    fifo, folder, link = tmp_path / "f.ipynb", tmp_path / "d.ipynb", tmp_path / "l.ipynb"
    os.mkfifo(fifo)
    folder.mkdir()
    link.symlink_to("/etc/hosts")
    for path, said in ((fifo, "not a regular file"), (folder, "is a directory"), (link, "is a link")):
        with pytest.raises(Unreadable, match=said):
            read(path)


def test_a_lone_surrogate_in_a_source_is_named(tmp_path):
    error = refusal(written(tmp_path, b'{"cells": [{"cell_type": "code", "source": "x = \'\\ud800\'"}], "nbformat": 4}'))
    assert "cell 1 holds a character that can't be encoded (U+D800)" in str(error)


def test_cells_say_who_they_are_in_several_ways(tmp_path):
    data = cells("# cell: double\nx = 1", "y", "z", "w")
    data["cells"][1]["metadata"] = {"training_systems": {"cell": "function"}}
    data["cells"][2]["id"] = "numbers"
    data["cells"][3]["metadata"] = {"tags": ["ex:look", 3]}
    found = read(written(tmp_path, data))
    assert [cell.names[:1] for cell in found.cells] == [("double",), ("function",), ("numbers",), ("look",)]


def test_double_ids_and_odd_cells_are_noticed(tmp_path):
    data = cells("x", "y")
    data["cells"][0]["id"] = data["cells"][1]["id"] = "same"
    data["cells"] += [{"cell_type": "raw", "source": "r"}, {"source": "no type"}, 7]
    found = read(written(tmp_path, data))
    assert "cells 1 and 2 have the same id" in found.notices
    assert "cells that are neither code nor Markdown are not run: 3, 4, 5" in found.notices


def test_a_script_with_and_without_cells(tmp_path):
    plain = read(written(tmp_path, b"x = 1\n", "a.py"))
    assert len(plain.cells) == 1 and plain.notices
    percent = read(
        written(tmp_path, b'# %% A id="double" role="exercise"\n# cell: double\nx = 1\n# %% [markdown]\n# words\n', "b.py")
    )
    assert [(cell.kind, cell.names) for cell in percent.cells] == [("code", ("double",)), ("markdown", ())]
    many_lines = written(tmp_path, b"\n" * 200_000 + b"# %% A\nx = 1\n", "d.py")  # with a careless pattern this takes minutes
    assert read(many_lines).cells[-1].source == "x = 1"
    with pytest.raises(Unreadable, match="the comments above the first cell"):
        read(written(tmp_path, b"# ---\n# jupyter:\n#   jupytext: 3\n# ---\n# %% A\nx = 1\n", "e.py"))
    with pytest.raises(Unreadable, match="line 2: unresolved git merge"):
        read(written(tmp_path, b"x = 1\n<<<<<<< HEAD\ny = 2\n", "c.py"))


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=10),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.sampled_from(["cells", "metadata", "source", "cell_type", "id", "tags", "worksheets", "input", "nbformat", "kernelspec", "language", "training_systems", "cell"]), inner, max_size=6),
    max_leaves=25,
)  # fmt: skip


@given(JSON)
def test_no_json_brings_the_reader_down(tmp_path_factory, data):
    path = tmp_path_factory.mktemp("fuzz") / "a.ipynb"
    path.write_text(json.dumps(data))
    try:
        found = read(path)
    except Unreadable as error:
        assert str(error)
    else:
        assert all(isinstance(cell.source, str) for cell in found.cells)


@given(st.binary(max_size=200), st.sampled_from([".ipynb", ".py"]))
def test_no_bytes_bring_the_reader_down(tmp_path_factory, data, suffix):
    path = tmp_path_factory.mktemp("fuzz") / f"a{suffix}"
    path.write_bytes(data)
    try:
        read(path)
    except Unreadable as error:
        assert len(str(error)) < 2000


def test_merged_cells_are_taken_apart_at_their_markers(tmp_path):
    data = cells("before = 1\n# cell: numbers\nx = 1\n\n# cell: double\ny = 2", "%%time\n# a note\n# cell: look\nz = 3")
    found = read(written(tmp_path, data)).cells
    assert [(cell.position, cell.names[:1]) for cell in found] == [(1, ()), (1, ("numbers",)), (1, ("double",)), (2, ("look",))]
    assert found[0].source == "before = 1" and found[2].source == "# cell: double\ny = 2"


def test_a_late_double_key_is_found_in_a_large_object(tmp_path):
    keys = ", ".join(f'"k{n}": 1' for n in range(50_000))
    assert refusal(written(tmp_path, f'{{"cells": [], {keys}, "k7": 2}}'.encode())).refused


def test_the_ending_may_be_written_in_capitals(tmp_path):
    assert read(written(tmp_path, cells("x = 1"), "A.IPYNB")).cells[0].source == "x = 1"
