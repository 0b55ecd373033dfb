"""A small complete course: one lesson with every role and every part, recorded by hand. No kernel is started for it."""

from __future__ import annotations

import hashlib
import struct
import zlib
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

import pytest

from course import catalogue, receipt
from course.catalogue import Catalogue, Lesson
from course.receipt import Environment, FigureRecord, Line, Receipt, Run
from course.values import Value

COURSE = """
format = 1
title = "A small course"
[[phase]]
id = "05"
folder = "05-before"
title = "What comes before"
[[phase]]
id = "06"
folder = "06-small"
title = "Small things"
after = ["05"]
"""

PHASE = """
format = 1
id = "06"
title = "Small things"
summary = "One lesson on padding."
question = "What is a mean of?"
preparation = ["You can add."]
lessons = ["01-pad"]
changed_condition = "Change the number of slots."
project = { name = "no-such-project", proves = "Nothing yet." }
[starting_point]
question = "What is the mean of 2 and 4?"
answer = "Three."
[[milestone]]
lesson = "small-01"
text = "You can take a mean."
"""

GLOSSARY = """
format = 1
[[term]]
name = "padding"
lesson = "small-01"
text = "Zeros up to $n$ slots."
"""

SCRIPT = """# %% Parameters id="parameters" role="parameters"
SLOTS = 4

# %% The data id="data" role="build"
values = [2.0, 4.0, 6.0]
print("Values:", values)
print("Seconds:", 0.25)

# %% The plot id="plot" role="figure"
shown = list(values)

# %% A longer row id="longer" role="experiment"
longer = values + values
print("Length:", len(longer))

# %% Pad the row id="pad" role="exercise"
padded = values + [0.0] * (SLOTS - len(values))  # SOLUTION: the values with zeros up to SLOTS
# BEGIN SOLUTION: the mean of the real values, called masked
numerator = sum(padded)
masked = numerator / len(values)
# END SOLUTION
# BEGIN REFERENCE: would tell the answer
assert masked == 4.0
# END REFERENCE
assert len(padded) == SLOTS

# %% The end id="done" role="build"
print("PASS: small-01")
"""

LESSON = """
format = 1
id = "small-01"
title = "Pad a row"
minutes = 10
revision = 2026-01-02
after = ["05"]
question = "What does padding do to a mean?"
packages = ["numpy"]
objectives = [{ id = "mean", text = "Take a mean of what is real" }]
evidence = [{ item = "The padded row", why = "It shows the zeros." }]

[[output]]
cell = "data"
line = "Seconds*"
compare = "ignored"

[[fact]]
id = "total"
cell = "data"
expression = "sum(values)"
compare = "close"

[[figure]]
cell = "plot"
title = "Three values"
alt = "Three points; their sum is {recorded}`total`."
reading = "From left to right; the sum is {recorded}`total | .1f`."
[figure.prediction]
ask = "Which point is highest?"
[[figure.prediction.option]]
text = "The first"
feedback = "It is the lowest."
[[figure.prediction.option]]
text = "The last"
correct = true
feedback = "Six is the largest."

[[experiment]]
cell = "longer"
expected = "The length is {recorded}`Length`."
meaning = "Adding lists joins them."
[experiment.prediction]
ask = "How long is it?"
[[experiment.prediction.option]]
text = "Three"
feedback = "Lists are joined, not added."
[[experiment.prediction.option]]
text = "Six"
correct = true
feedback = "Three and three."

[[exercise]]
id = "pad"
title = "Pad with zeros"
kind = "modify"
points = 2
meets = ["mean"]
task = "Pad the row to `SLOTS` and take the mean of what is real."
guide = ["Count the empty slots.", "Divide by the right number."]
hints = ["What does the sum count?", "The zeros add nothing to the sum."]
reasoning = "Zeros leave the numerator alone; REASONING-ONLY."
probes = { padded = "exact", masked = "close" }
variants = [{ SLOTS = 5 }]
draw = { SLOTS = [3, 9] }
[[exercise.mistake]]
id = "unmasked"
code = "masked = sum(padded) / SLOTS  # MISTAKE-CODE"
say = "MISTAKE-ADVICE: this counts the zeros."

[[diagnosis]]
symptom = "The mean is too small"
cause = "Zeros are counted"
check = "Print a | b"

[[reference]]
title = "Python: sum"
url = "https://docs.python.org/3/library/functions.html#sum"
read = "What it adds."
version = "Python 3.11"
"""

QUIZ = "format = 1\n" + "".join(
    f"""
[[question]]
id = "q{number}"
text = "Why {number}?"
meets = "mean"
[[question.option]]
text = "Because"
feedback = "No; the sum is {{recorded}}`total`."
[[question.option]]
text = "So that"
correct = true
feedback = "Yes."
[[question.option]]
text = "Never"
feedback = "No."
"""
    for number in range(1, 5)
)

WORDS = """# Understand

Three values and four slots. The values are {recorded}`Values`, their sum {recorded}`total | .2f`.

```python
# an example, not a directive: {recorded}`no such thing`
```

## The figure

```{figure} plot
```

# Build & Run

Parameters first.

```{cell} parameters
```

```{cell} data
```

The last block ends the run.

```{cell} done
```

# Experiment

```{experiment} longer
```

# Exercise & Check

```{exercise} pad
```

The mean is {recorded}`pad/masked`.

```{quiz}
```

```{diagnosis}
```

# Evidence

```{evidence}
```

## Carry forward

Divide by what is real.

```{references}
```
"""


def png() -> bytes:
    """An image of one grey point."""

    def chunk(kind: bytes, data: bytes) -> bytes:
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))

    head = struct.pack(">IIBBBBB", 1, 1, 8, 0, 0, 0, 0)
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", head) + chunk(b"IDAT", zlib.compress(b"\x00\x80")) + chunk(b"IEND", b"")


@dataclass
class Small:
    """The small course on disk."""

    root: Path

    @property
    def folder(self) -> Path:
        return self.root / "phases" / "06-small" / "01-pad"

    @property
    def exercises(self) -> Path:
        return self.root / "exercises"

    def load(self) -> Catalogue:
        return catalogue.load(self.root)

    @property
    def lesson(self) -> Lesson:
        return self.load().lesson("small-01")

    def change(self, path: str, old: str, new: str) -> None:
        """Replace a text that must be there, in a file of the lesson."""
        file = self.folder / path
        text = file.read_text(encoding="utf-8")
        assert old in text
        file.write_text(text.replace(old, new), encoding="utf-8", newline="\n")

    def record(self, **changes: object) -> Receipt:
        """Write the receipt of the lesson as it is now."""
        figure = self.folder / "figures" / "plot.png"
        figure.parent.mkdir(exist_ok=True)
        figure.write_bytes(png())
        made = Receipt(
            lesson="small-01",
            digest=self.lesson.digest,
            lock="0" * 64,
            recorded=datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC),
            commit="abc",
            environment=Environment(
                python="3.11.7", implementation="CPython", platform="Linux", machine="x86_64", packages={"numpy": "2.4.6"}
            ),
            seconds=0.5,
            lines=(
                Line(cell="data", text="Values: [2.0, 4.0, 6.0]"),
                Line(cell="data", text="Seconds: 0.25"),
                Line(cell="longer", text="Length: 6"),
                Line(cell="done", text="PASS: small-01"),
            ),
            facts={"total": Value(kind="float", data=12.0)},
            runs=(
                Run(
                    parameters={},
                    exercises={
                        "pad": {
                            "padded": Value(
                                kind="list", items=tuple(Value(kind="float", data=one) for one in (2.0, 4.0, 6.0, 0.0))
                            ),
                            "masked": Value(kind="float", data=4.0),
                        }
                    },
                ),
            ),
            mistakes={},
            figures={"plot": FigureRecord(data="d", svg="s", png=hashlib.sha256(png()).hexdigest())},
        )
        made = made.model_copy(update=changes)
        receipt.write(made, self.folder / "receipt.json")
        return made


@pytest.fixture
def small(tmp_path: Path) -> Small:
    """The small course, recorded, with nothing built."""
    course = Small(tmp_path / "a course")
    (course.folder / "code").mkdir(parents=True)
    files = {
        course.root / "course.toml": COURSE,
        course.folder.parent / "phase.toml": PHASE,
        course.folder.parent / "glossary.toml": GLOSSARY,
        course.folder / "lesson.toml": LESSON,
        course.folder / "quiz.toml": QUIZ,
        course.folder / "lesson.md": WORDS,
        course.folder / "code" / "main.py": SCRIPT,
    }
    for path, text in files.items():
        path.write_text(text, encoding="utf-8", newline="\n")
    course.record()
    return course
