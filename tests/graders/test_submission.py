"""Files as they really come in. The bytes are never changed, and no file brings the reader down."""

import copy
import hashlib
import json
import os
import stat
import zipfile

import pytest
from hypothesis import given
from hypothesis import strategies as st

from graders.submission import MAX_DEPTH, Unreadable, members, read


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
    lines = b"x = 1\n" + b"\n" * 200_000 + b"# lesson: tiny-01\n"
    assert read(written(tmp_path, lines, "f.py")).lesson == "tiny-01"
    for many, said in ((b"# %%\nx = 1\n" * 150_000, "2000"), (b"x = 1\n" * 400_000, "2000000")):
        error = refusal(written(tmp_path, many, "g.py"))
        assert error.refused and f"the limit is {said}" in str(error)
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


@pytest.mark.parametrize("encoding", ["utf-16-le", "utf-16-be", "utf-32", "utf-32-le", "utf-32-be"])
def test_other_encodings_of_unicode_are_read_and_said(tmp_path, encoding):
    path = written(tmp_path, json.dumps(cells("x = 'é'"), ensure_ascii=False).encode(encoding))
    found = read(path)
    assert found.cells[0].source == "x = 'é'"
    assert found.notices == (f"a.ipynb is {encoding[:6].upper()}, read as such",)


@pytest.mark.parametrize(
    ("data", "said"),
    [
        (b"\xff\xfe\x00{", "does not hold JSON"),  # as UTF-16 a single strange letter, which would be a Python name
        (b"\xff\xfe{\x00\x00", "is not UTF-16: byte 0x00"),
        (b"\xef\xbb\xbf", "is empty (3 bytes)"),
        (b"PK\x03\x04", "does not hold JSON"),
        (b"%PDF-1.7 \xe2\xe3", "is not UTF-8: byte 0xe2"),
        (b"\x00" * 100, "does not hold JSON"),
        (b"null", "JSON, but null"),
        (b'"text"', "JSON, but a text"),
        (b"NaN", "JSON, but a number"),
        (b'{"cells": {"0": {}}}', "it has no cells"),
        (b'{"worksheets": "none"}', "it has no cells"),
        (b"<?xml version='1.0'?><html/>", "is an HTML page"),
        (b'{"cells": []} trailing', "broken JSON at line 1"),
        (b"version https://git-lfs.github.com/spec/v1\noid sha256:0\nsize 1\n", "does not hold JSON"),
    ],
)
def test_more_of_what_is_no_notebook(tmp_path, data, said):
    error = refusal(written(tmp_path, data))
    assert said in str(error) and not error.refused


@pytest.mark.parametrize(
    ("data", "said"),
    [
        ({**cells("x"), "worksheets": [{"cells": []}]}, "both cells and worksheets"),
        ({"nbformat": 4, "cells": [{"cell_type": "code", "source": "x = 1", "input": "x = 2"}]}, "cell 1: it holds two sources"),
        ({**cells("x"), "metadata": {"language_info": {"name": "javascript"}}}, "a notebook for javascript"),
    ],
)
def test_what_one_program_shows_and_another_runs_is_refused(tmp_path, data, said):
    error = refusal(written(tmp_path, data))
    assert error.refused and said in str(error)


@pytest.mark.parametrize(
    ("data", "notice"),
    [
        ({**cells("x"), "nbformat": 5}, "nbformat 5 is not known; read as 4"),
        ({**cells("x"), "nbformat": "4"}, "nbformat 4 is not known; read as 4"),
        ({**cells("x"), "nbformat": True}, "nbformat True is not known; read as 4"),
        ({**cells("x"), "metadata": []}, "the notebook has no metadata; taken as empty"),
        (cells("x", ["y = 1", 7, None]), "what is not text in the source of cells was left out: 2"),
        (cells("x", None, {"a": 1}), "what is not text in the source of cells was left out: 2, 3"),
        ({**cells("x"), "metadata": {"a": float("nan")}}, "NaN is not JSON; read as a number"),
        ({**cells("x"), "metadata": {"a": [-float("inf")]}}, "-Infinity is not JSON; read as a number"),
        ({"nbformat": 2, "worksheets": [{"cells": [{"cell_type": "code", "input": "x"}]}]}, "converted from nbformat 2"),
        ({"nbformat": 3, "worksheets": [{"cells": [{"cell_type": "code", "input": "x"}]}, 7, {"cells": 7}]}, "converted from nbformat 3"),
    ],
)  # fmt: skip
def test_what_is_repaired_is_said(tmp_path, data, notice):
    path = written(tmp_path, data)
    before = path.read_bytes()
    found = read(path)
    assert notice in found.notices
    assert found.cells[0].source == "x" and path.read_bytes() == before


def test_notices_of_very_many_cells_are_short(tmp_path):
    data = cells("x")
    data["cells"] += [{"cell_type": "raw", "source": "r", "id": "same"}] * 1_500
    assert max(len(notice) for notice in read(written(tmp_path, data)).notices) < 300


@pytest.mark.parametrize("part", ["[],", "{},", '"",', "0,"])
def test_values_that_would_fill_the_memory_are_refused_unread(tmp_path, monkeypatch, part):
    monkeypatch.setattr("graders.submission.MAX_PARTS", 50_000)
    error = refusal(written(tmp_path, b'{"cells": [], "nbformat": 4, "x": [' + part.encode() * 60_000 + b"0]}"))
    assert error.refused and "more than 50000 values" in str(error)


def test_commas_and_brackets_in_outputs_are_no_values(tmp_path, monkeypatch):
    monkeypatch.setattr("graders.submission.MAX_PARTS", 1_000)
    data = cells("x = 1")
    data["cells"][0]["outputs"] = [{"output_type": "stream", "text": ['1,2,[3],{4}\\"\n' * 100] * 100}]
    assert read(written(tmp_path, data)).cells[0].source == "x = 1"


# In zips


def zipped(tmp_path, members, name="Ana.zip", **more):
    path = tmp_path / name
    with zipfile.ZipFile(path, "w", more.get("compression", zipfile.ZIP_DEFLATED)) as archive:
        for member, data in members:
            archive.writestr(member, data)
    return path


NOTEBOOK = json.dumps(cells("x = 1"))


def test_a_file_in_a_zip_is_read_from_there(tmp_path):
    path = zipped(tmp_path, [("work/a.ipynb", NOTEBOOK), ("work/b.py", "# %% A\ny = 1\n"), ("notes.txt", "n"), ("work/", "")])
    listing = sorted(tmp_path.rglob("*"))
    inside = members(path)
    assert [one.relative_to(path).as_posix() for one in inside] == ["work/a.ipynb", "work/b.py"]
    found = [read(one) for one in inside]
    assert [one.cells[0].source for one in found] == ["x = 1", "y = 1"]
    assert found[0].sha256 == hashlib.sha256(NOTEBOOK.encode()).hexdigest()
    assert sorted(tmp_path.rglob("*")) == listing, "nothing is extracted"


def test_a_zip_with_one_file_can_be_handed_in_itself(tmp_path):
    assert read(zipped(tmp_path, [("a.ipynb", NOTEBOOK), ("__MACOSX/._a.ipynb", b"\0")])).cells[0].source == "x = 1"
    assert read(zipped(tmp_path, [("a.py", "x = 1")])).cells[0].source == "x = 1"
    for several in ([], [("a.ipynb", NOTEBOOK), ("b.ipynb", NOTEBOOK)]):
        error = refusal(zipped(tmp_path, several))
        assert error.refused and f"holds {len(several)} notebooks" in str(error)


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("../a.ipynb", "leads out of it"),
        ("/etc/a.ipynb", "leads out of it"),
        ("x/../../a.ipynb", "leads out of it"),
        ("..\\a.ipynb", "leads out of it"),
        ("C:\\a.ipynb", "leads out of it"),
        ("\\\\host\\a.ipynb", "leads out of it"),
    ],
)
def test_a_path_that_leads_out_of_a_zip_is_refused(tmp_path, name, said):
    path = zipped(tmp_path, [("good.ipynb", NOTEBOOK), (name, NOTEBOOK)])
    for one in (path, path / "good.ipynb"):
        with pytest.raises(Unreadable, match=said) as caught:
            read(one)
        assert caught.value.refused
    with pytest.raises(Unreadable, match=said):
        members(path)
    assert [entry.name for entry in tmp_path.iterdir()] == ["Ana.zip"]


@pytest.mark.parametrize("kind", [stat.S_IFLNK, stat.S_IFIFO, stat.S_IFBLK])
def test_links_and_devices_in_a_zip_are_refused(tmp_path, kind):
    info = zipfile.ZipInfo("a.ipynb")
    info.external_attr = (kind | 0o777) << 16
    with pytest.raises(Unreadable, match="a link or a device") as caught:
        members(zipped(tmp_path, [(info, "/etc/hosts")]))
    assert caught.value.refused


def test_a_zip_that_unpacks_to_very_much_is_refused(tmp_path, monkeypatch):
    path = zipped(tmp_path, [("a.ipynb", b" " * 5_000_000 + NOTEBOOK.encode())])
    with pytest.raises(Unreadable, match="times its size") as caught:
        read(path / "a.ipynb")
    assert caught.value.refused
    monkeypatch.setattr("graders.submission.MAX_BYTES", 1_000_000)
    for one in (path, path / "a.ipynb"):
        with pytest.raises(Unreadable, match="the limit is"):
            read(one)
    many = zipped(tmp_path, [(f"{n}.ipynb", b"0" * 900_000) for n in range(5)], "B.zip")
    with pytest.raises(Unreadable, match="unpacks to 4 MB"):
        members(many)


def test_a_zip_that_lies_about_its_sizes_is_bounded(tmp_path, monkeypatch):
    monkeypatch.setattr("graders.submission.MAX_BYTES", 100_000)
    path = zipped(tmp_path, [("a.ipynb", b" " * 1_000_000)])
    data = path.read_bytes()
    size = (1_000_000).to_bytes(4, "little")
    assert data.count(size) == 2
    path.write_bytes(data.replace(size, (1_000).to_bytes(4, "little")))
    with pytest.raises(Unreadable):
        read(path / "a.ipynb")


def test_too_many_entries_and_double_names_are_refused(tmp_path):
    with pytest.raises(Unreadable, match="2001 entries"):
        members(zipped(tmp_path, [(f"{n}.txt", "") for n in range(2_001)]))
    with pytest.warns(UserWarning, match="Duplicate name"):
        path = zipped(tmp_path, [("a.ipynb", NOTEBOOK), ("a.ipynb", "{}")])
    with pytest.raises(Unreadable, match="twice"):
        members(path)
    with pytest.raises(Unreadable, match="twice"):
        members(zipped(tmp_path, [("w/a.ipynb", NOTEBOOK), ("w\\\\a.ipynb", "{}")]))


@pytest.mark.parametrize(
    ("data", "said"),
    [
        (b"", "is not a zip that can be read"),
        (b"PK\x05\x06" + b"\0" * 10, "is not a zip that can be read"),
        (b"Rar!\x1a\x07\x00", "is not a zip that can be read"),
        (b"\x1f\x8b\x08\x00", "is not a zip that can be read"),
    ],
)
def test_what_is_no_zip_is_unreadable(tmp_path, data, said):
    path = written(tmp_path, data, "Ana.zip")
    for call in (members, read):
        with pytest.raises(Unreadable, match=said):
            call(path)


def test_a_member_that_is_packed_oddly_locked_or_damaged_says_so(tmp_path):
    path = zipped(tmp_path, [("a.ipynb", NOTEBOOK)], compression=zipfile.ZIP_LZMA)
    with pytest.raises(Unreadable, match="pack it as an ordinary zip"):
        read(path)
    path = zipped(tmp_path, [("a.ipynb", NOTEBOOK)], compression=zipfile.ZIP_STORED)
    data = path.read_bytes()
    path.write_bytes(data.replace(b"x = 1", b"x = 2"))
    with pytest.raises(Unreadable, match="is damaged"):
        read(path)
    info = zipfile.ZipInfo("a.ipynb")
    path = zipped(tmp_path, [(info, NOTEBOOK)])
    data = bytearray(path.read_bytes())
    data[6] |= 1
    data[data.index(b"PK\x01\x02") + 8] |= 1
    path.write_bytes(bytes(data))
    with pytest.raises(Unreadable, match="password"):
        read(path)


@given(st.data())
def test_a_zip_with_any_byte_changed_is_read_or_unreadable(tmp_path_factory, data):
    folder = tmp_path_factory.mktemp("zip")
    path = zipped(folder, [("w/a.ipynb", NOTEBOOK), ("b.py", "x = 1")])
    raw = bytearray(path.read_bytes())
    for _ in range(data.draw(st.integers(1, 4))):
        raw[data.draw(st.integers(0, len(raw) - 1))] = data.draw(st.integers(0, 255))
    path.write_bytes(bytes(raw[: data.draw(st.integers(0, len(raw)))]) if data.draw(st.booleans()) else bytes(raw))
    before = path.read_bytes()
    try:
        for one in members(path):
            read(one)
    except Unreadable as error:
        assert len(str(error)) < 2_000
    assert path.read_bytes() == before and [entry.name for entry in folder.iterdir()] == ["Ana.zip"]


# Valid notebooks, changed at random: never anything but a submission or Unreadable, and never a byte of the file.

VALID = {
    "cells": [
        {"cell_type": "markdown", "id": "words", "metadata": {}, "source": ["# A\n", "b"], "attachments": {"a.png": {"image/png": "iVBO"}}},
        {"cell_type": "code", "id": "one", "metadata": {"tags": ["ex:double"]}, "source": "# cell: double\nx = 1", "execution_count": 1,
         "outputs": [{"output_type": "stream", "name": "stdout", "text": ["1\n"]}]},
        {"cell_type": "code", "id": "two", "metadata": {"training_systems": {"cell": "look"}}, "source": ["y = 1\n", "z = 2"], "outputs": [], "execution_count": None},
        {"cell_type": "raw", "id": "three", "metadata": {"format": "text/latex"}, "source": "raw"},
    ],
    "metadata": {"kernelspec": {"name": "python3", "language": "python", "display_name": "Python 3"}, "language_info": {"name": "python"}, "training_systems": {"lesson": "tiny-01"}},
    "nbformat": 4,
    "nbformat_minor": 5,
}  # fmt: skip
ODD = st.one_of(
    st.none(), st.booleans(), st.integers(), st.floats(), st.text(max_size=20), st.just([]), st.just({}), st.just([[]]),
    st.sampled_from(["\ud800", "# cell: double", "%%bash\nexit 1", "R", "code", "\x00", "\r", "4"]), st.lists(st.text(max_size=5), max_size=3),
)  # fmt: skip


def places(node):
    """Every container in a structure with every key of it."""
    if isinstance(node, dict | list):
        for key in list(node) if isinstance(node, dict) else range(len(node)):
            yield node, key
            yield from places(node[key])


@given(st.data())
def test_no_mutation_of_a_valid_notebook_brings_the_reader_down(tmp_path_factory, data):
    made = copy.deepcopy(VALID)
    for _ in range(data.draw(st.integers(1, 5))):
        found = list(places(made))
        if not found:
            break
        node, key = found[data.draw(st.integers(0, len(found) - 1))]
        change = data.draw(st.sampled_from(["replace", "remove", "double", "nest"]))
        if change == "replace":
            node[key] = data.draw(ODD)
        elif change == "remove":
            del node[key]
        elif change == "double" and isinstance(node, list):
            node.insert(key, copy.deepcopy(node[key]))
        else:
            node[key] = [node[key]] if data.draw(st.booleans()) else {"cells": node[key]}
    text = json.dumps(made, ensure_ascii=data.draw(st.booleans()), indent=data.draw(st.sampled_from([None, 1])))
    raw = text.encode(data.draw(st.sampled_from(["utf-8", "utf-8-sig", "utf-16"])), "surrogatepass")
    if data.draw(st.booleans()):
        raw = raw[: data.draw(st.integers(0, len(raw)))]
    path = tmp_path_factory.mktemp("fuzz") / "a.ipynb"
    path.write_bytes(raw)
    try:
        found_cells = read(path)
    except Unreadable as error:
        assert str(error) and len(str(error)) < 2_000
        assert error.sha256 == hashlib.sha256(raw).hexdigest()
    else:
        assert found_cells.sha256 == hashlib.sha256(raw).hexdigest()
        for cell in found_cells.cells:
            assert "\r" not in cell.source
            if cell.kind == "code":
                cell.source.encode("utf-8")  # what is run can be sent
        assert all(len(notice) < 1_000 for notice in found_cells.notices)
    assert path.read_bytes() == raw
