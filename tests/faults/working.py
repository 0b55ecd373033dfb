"""What goes wrong around a class: names, missing and doubled files, what is asked. One function a case."""

from __future__ import annotations

import os

from tests.faults.cells import MEAN, PAD, WRONG_MEAN, WRONG_PAD, Folder, code, notebook

NAMES = (
    "Ana Maria", "O'Neil, Pat", 'say "hi"', "Zoë Łuk", "李 雷", "abc +1", "hw (final) [v2]*?", "100%_#1&x=2", "-rf", "--help",
    "a;touch pwned", "$(touch pwned)", "`touch pwned`", "new\nline", "tab\there", "rtl\u202egnp.exe", "e\u0301 nfd", "CON",
    "trail. ", "<b>bold</b>", "=1+1", "n" * 200, "..hidden", "~root", "a\\b",
)  # fmt: skip


def w01(into: Folder) -> None:
    into.put("W01", notebook(mean=None))


def w04(into: Folder) -> None:
    into.put("W04", notebook(mean=MEAN.replace("masked_mean", "mask_mean")))


def w05(into: Folder) -> None:
    made = notebook(pad="pass", mean=None)
    made["cells"] += [code(PAD, "mine"), code(MEAN, "mine2")]
    into.put("W05", made)


def w06(into: Folder) -> None:
    made = notebook(mean=None)
    made["cells"].append({"cell_type": "markdown", "id": "mean", "metadata": {"tags": ["ex:mean"]}, "source": MEAN})
    into.put("W06", made)


def w07(into: Folder) -> None:
    for name, right in (("5001_ragged-01", False), ("5002_ragged-01-1", True), ("LATE_5003_ragged-01-2", False)):
        into.put("W07 ana", notebook(mean=MEAN if right else WRONG_MEAN), f"ana_101_{name}.ipynb")
    for name in ("5000_ragged-01-9", "5004_ragged-01-10"):
        into.put("W07 bo", notebook(), f"bo_102_{name}.ipynb")


def w08(into: Folder, made: str | None = None) -> None:
    """Names with anything in them. What a platform cannot store as a folder's name is left out there."""
    for name in NAMES:
        try:
            into.put(name, made or notebook())
        except OSError:
            if os.name == "posix":
                raise


def w11(into: Folder) -> None:
    (into.root / "W11 empty").mkdir(parents=True)
    (into.root / "W11 empty" / ".keep").touch()
    into.put("W11 stripped", notebook(cells=[]))
    blank = "# {}\nraise NotImplementedError"
    into.put("W11 untouched", notebook(pad=blank.format("padded_labels, mask, last"), mean=blank.format("masked, masked_mean")))


def w12(into: Folder) -> None:
    into.put("W12", notebook(pad=WRONG_PAD, mean=WRONG_MEAN, after="100"))
    into.put("W12 half", notebook(mean=WRONG_MEAN))


def w13(into: Folder) -> None:
    into.put("W13", notebook())


def w14(into: Folder, seconds: float = 20) -> None:
    for number in range(1, 7):
        into.put(f"s{number}", notebook(before=f"import time\ntime.sleep({seconds})" if number == 4 else ""))


def w15(into: Folder) -> None:
    for name in "ace":
        into.put(f"W15 {name}", notebook())
    into.put("W15 b", b"\xff\xfe\x00{")
    into.put("W15 d", notebook(before="import os\nos._exit(3)"))


def w17(into: Folder) -> None:
    for name, mode, folder in (("ro", 0o444, 0o555), ("noread", 0o000, 0o755), ("nodir", 0o644, 0o000)):
        path = into.put(f"W17 {name}", notebook())
        path.chmod(mode)
        path.parent.chmod(folder)


def w18(into: Folder) -> None:
    for name in ('=HYPERLINK("x","y")', "@SUM(1+1)", "-2 + 3"):
        into.put(name, notebook())
    into.put("+1", notebook(mean=f"raise ValueError('=1+1')\n\n{MEAN}"))
    into.put("W18 x", notebook(mean=f"raise ValueError('\\t=cmd|calc!A0')\n\n{MEAN}"))


def w19(into: Folder) -> None:
    show = """\
from IPython.display import HTML, Javascript, Markdown, display
evil = '<script>1</script></pre></td><img src=x onerror="1"><svg onload="1">]]><script>1</script>{{7*7}} {% raw %} ${7*7}'
print(evil)
display(HTML(evil), Markdown('[x](javascript:1)'), Javascript("document.title='owned'"))
raise ValueError(evil)"""
    into.put("<img src=x onerror=alert(1)>", notebook(after=show))


def w25(into: Folder) -> None:
    into.put("W25", notebook(mean=MEAN.split("return")[0] + "raise ValueError(f'{x!r} {m!r}')"))
    held_out = MEAN.replace("    return", "    if x.sum() not in (16, 19):\n        raise ValueError(f'{x!r} {m!r}')\n    return")
    into.put("W25 held out", notebook(mean=held_out))


def w28(into: Folder) -> None:
    typed = "masked = np.array([[3, 1, 2], [5, 0, 0], [4, 4, 0]])\n\ndef masked_mean(x, m):\n    return 3.1666666666666665"
    into.put("W28", notebook(mean=typed))


def w30(into: Folder) -> None:
    body = "    x[~m] = 0\n    total = float(x.sum() / m.sum())\n    x[:] = 0\n    m[:] = False\n    return total"
    into.put("W30", notebook(mean=f"masked = np.where(mask, padded_labels, 0)\n\ndef masked_mean(x, m):\n{body}"))


def w32(into: Folder) -> None:
    far = "import json\nlabels = json.load(open(r'C:\\Users\\me\\Desktop\\labels.json'))\n"
    into.put("W32", notebook(pad=far + PAD))
    into.put("W32 colab", notebook(pad=f"from google.colab import drive\ndrive.mount('/content/drive')\n{PAD}"))


def w33(into: Folder) -> None:
    into.put("W33", notebook(after="1/0"))
    into.put("W33 syntax", notebook(after="def f(:\n    pass"))
    into.put("W33 overwrite", notebook(after="last = None\nmask = 3"))
    into.put("W33 own cell", notebook(pad=f"{PAD}\nlast = None\nmask = 3"))
    other = notebook(mean=f"{MEAN}\nlast = None\nmask = 3")
    into.put("W33 other exercise", other)


CASES = {name.upper(): made for name, made in dict(globals()).items() if name[:1] == "w" and name[1:].isdigit()}
