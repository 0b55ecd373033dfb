"""Files that are hard to read: one function a case, each putting its submissions into a class folder."""

from __future__ import annotations

import json
import os

from tests.faults.cells import MEAN, PAD, SCRIPT, SETUP, Folder, code, notebook, text


def n01(into: Folder) -> None:
    cells = [{"cell_type": "heading", "level": 1, "source": ["Ragged"]}]
    cells += [
        {"cell_type": "code", "input": source.splitlines(keepends=True), "language": "python", "prompt_number": 1,
         "outputs": [{"output_type": "pyout", "text": ["1"]}]}
        for source in (SETUP, PAD, MEAN)
    ]  # fmt: skip
    into.put("N01", {"metadata": {"name": "ragged"}, "nbformat": 3, "nbformat_minor": 0, "worksheets": [{"cells": cells}]})


def n02(into: Folder) -> None:
    made = notebook()
    del made["metadata"]
    into.put("N02", made)


def n04(into: Folder) -> None:
    made = notebook()
    for cell in made["cells"]:
        del cell["id"]
    into.put("N04", made)


def n05(into: Folder) -> None:
    made = notebook()
    made["cells"][1]["id"] = made["cells"][2]["id"] = "same"
    into.put("N05", made)


def n07(into: Folder) -> None:
    into.put("N07", b"\xef\xbb\xbf" + text(notebook()).encode())
    into.script("N07 script", b"\xef\xbb\xbf" + SCRIPT.encode())


def n08(into: Folder) -> None:
    made = notebook(pad=PAD.replace("\n", "\r\n"), mean=MEAN.replace("\n", "\r"))
    into.put("N08", text(made).replace("\n", "\r\n"))


def n10(into: Folder) -> None:
    into.put("N10", text(notebook(before="# it's")).encode().replace(b"it's", b"it\x92s"))


def n12(into: Folder) -> None:
    mark = '<<<<<<< HEAD\n "nbformat": 4,\n=======\n "nbformat": 3,\n>>>>>>> theirs\n "nbformat_minor"'
    into.put("N12", text(notebook()).replace(' "nbformat": 4,\n "nbformat_minor"', mark))


def n13(into: Folder) -> None:
    into.put("N13", text(notebook())[:700])


def n14(into: Folder) -> None:
    into.put("N14", b"")
    into.put("N14 blank", b" \n\n")


def n15(into: Folder) -> None:
    into.put("N15", "<!DOCTYPE html>\n<html><body>ragged</body></html>\n")
    into.put("N15 py", SCRIPT)
    into.put("N15 list", "[]\n")
    into.put("N15 num", "3\n")


def n18(into: Folder) -> None:
    (into.root / "N18 dir" / f"{into.lesson}.ipynb" / "inner").mkdir(parents=True)
    if hasattr(os, "mkfifo"):
        (into.root / "N18 fifo").mkdir()
        os.mkfifo(into.root / "N18 fifo" / f"{into.lesson}.ipynb")


def n21(into: Folder) -> None:
    r = {"kernelspec": {"display_name": "R", "language": "R", "name": "ir"}, "language_info": {"name": "R"}}
    into.put("N21 r", {"cells": [code("last <- sapply(labels, tail, 1)")], "metadata": r, "nbformat": 4, "nbformat_minor": 5})
    julia = {"kernelspec": {"display_name": "Julia 1.10", "language": "julia", "name": "julia-1.10"}}
    into.put(
        "N21 julia", {"cells": [code("last = [x[end] for x in labels]")], "metadata": julia, "nbformat": 4, "nbformat_minor": 5}
    )


def n22(into: Folder) -> None:
    made = notebook(nbformat_minor=0)
    for cell in made["cells"]:
        del cell["id"]
    first = made["cells"][0]
    first["source"] = f'#@title Labels {{ display-mode: "form" }}\n{SETUP}'
    first["metadata"] = {"id_": "x", "cellView": "form", "colab": {"base_uri": "https://localhost:8080/"}, "outputId": "0e-1f"}
    widgets = {"application/vnd.jupyter.widget-state+json": {"ab12": {"model_name": "IntSliderModel"}}}
    spec = {"display_name": "Python 3", "name": "python3"}
    made["metadata"] = {"accelerator": "GPU", "colab": {"provenance": []}, "kernelspec": spec, "widgets": widgets}
    into.put("N22", made)


def n23(into: Folder, lines: int = 500_000) -> None:
    """About a hundred bytes a line of stored output: 50 MB are read, 100 MB are over the reader's limit."""
    made = notebook()
    line = "epoch 1 loss 0.5 " + "." * 80 + "\n"
    made["cells"][0]["outputs"] = [{"output_type": "stream", "name": "stdout", "text": "@"}]
    head, tail = json.dumps(made).split('"@"')
    into.put("N23", f"{head}[{', '.join([json.dumps(line)] * lines)}]{tail}")
    into.put("N23 over", f"{head}[{', '.join([json.dumps(line)] * 700_000)}]{tail}")


def n24(into: Folder) -> None:
    for depth in (900, 100_000):
        head = '{"cells": [], "nbformat": 4, "nbformat_minor": 5, "metadata": {"x": '
        into.put(f"N24 {depth}", f"{head}{'[' * depth}{']' * depth}}}}}")


def n25(into: Folder) -> None:
    into.put("N25", text(notebook()).replace("{", '{\n "cells": [],', 1))


def n26(into: Folder) -> None:
    made = notebook()
    made["cells"] += [
        {"cell_type": "raw", "metadata": {"format": "text/latex"}, "source": "last = None"},
        {"cell_type": "heading", "level": 2, "metadata": {}, "source": "Notes"},
        {"metadata": {}, "source": "last = None"},
        {"cell_type": "markdown", "metadata": {}, "source": "text"},
    ]
    into.put("N26", made)


def n29(into: Folder) -> None:
    into.put("N29", text(notebook(before="s = '@'")).replace("@", "\\ud800"))
    into.put("N29 out", notebook(before="print(chr(0xDCC3))"))


def n30(into: Folder) -> None:
    made = notebook()
    words = '![a](attachment:a.png) ![b](attachment:gone.png) <img src="attachment:a.png">'
    image = {"image/png": "iVBORw0KGgo="}
    made["cells"].append({
        "cell_type": "markdown", "metadata": {}, "source": words, "attachments": {"a.png": image, "../../x.png": image},
    })  # fmt: skip
    into.put("N30", made)


CASES = {name.upper(): made for name, made in dict(globals()).items() if name[:1] == "n" and name[1:].isdigit()}
