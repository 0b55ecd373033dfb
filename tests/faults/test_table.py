"""The table of expectations speaks of every case, and of nothing that is not there."""

import importlib
import json
import re

import pytest

from tests.faults.cells import Folder
from tests.faults.table import CASES, HERE, cases

WANTED = {
    **dict.fromkeys(f"N{n:02}" for n in (1, 2, 4, 5, 7, 8, 10, 12, 13, 14, 15, 18, 21, 22, 23, 24, 25, 26, 29, 30)),
    **dict.fromkeys(
        f"X{n:02}"
        for n in (
            1,
            2,
            5,
            6,
            7,
            9,
            11,
            12,
            13,
            14,
            15,
            17,
            18,
            19,
            20,
            21,
            22,
            24,
            26,
            28,
            29,
            30,
            33,
            34,
            35,
            37,
            38,
            40,
            43,
            44,
            45,
            46,
        )
    ),
    **dict.fromkeys(f"C{n:02}" for n in (1, 2, 3, 4, 7, 8, 9, 10, 15, 16, 18, 19, 21, 22, 23, 24, 25)),
    **dict.fromkeys(f"W{n:02}" for n in (1, 4, 5, 6, 7, 8, 11, 12, 13, 14, 15, 17, 18, 19, 21, 22, 23, 25, 26, 28, 30, 32, 33)),
    **dict.fromkeys(f"E{n:02}" for n in (3, 4, 5, 6, 7, 8, 10, 11, 12, 13, 18, 19, 20, 21)),
}
PLACES = {"class", "slow", "limits", "run", "test", "pairs", "later"}


def test_every_case_is_there_once():
    found = [case["id"] for case in cases()]
    assert len(WANTED) == 106
    assert sorted(found) == sorted(WANTED)


@pytest.mark.parametrize("case", cases(), ids=lambda case: case["id"])
def test_every_case_has_somebody_who_looks_at_it(case, tmp_path):
    assert set(case) <= {"id", "kind", "where", "why", "rows", "test"} and case["kind"]
    where = case.get("where", "class")
    assert where in PLACES
    if where == "test":
        module, _, name = case["test"].partition(".py::")
        assert callable(getattr(importlib.import_module(f"tests.faults.{module}"), name))
    elif where == "pairs":
        pairs = json.loads((HERE.parent / "course" / "pairs.json").read_text(encoding="utf-8"))
        assert any(pair["name"].startswith(f"{case['id']}-") for kind in ("text", "expr") for pair in pairs[kind])
    elif where == "later":
        assert case["why"]
    else:
        assert case["rows"]
        into = Folder(tmp_path, "ragged-02" if where == "run" else "ragged-01")
        if case["id"] == "N23":
            CASES["N23"](into, lines=10)
        else:
            CASES[case["id"]](into)
        needing = {row["learner"] for row in case["rows"] if "needs" in row}
        assert {row["learner"] for row in case["rows"]} - needing <= {path.name for path in tmp_path.iterdir()}
        assert {path.name for path in tmp_path.iterdir()} <= {row["learner"] for row in case["rows"]}


def test_no_verdict_is_misspelled():
    text = (HERE / "expected.toml").read_text(encoding="utf-8")
    found = set(re.findall(r'\b(?:pad|mean|run) = "([^"]+)"', text))
    words = {word for one in found for word in one.split() if word != "|"}
    verdicts = {"PASS", "FAIL", "TIMEOUT", "UNSOLVED", "SKIP"}
    reasons = {"wrong", "raised", "missing", "died", "timeout", "unreadable", "refused", "no-answer", "memory"}
    assert words <= verdicts | reasons | {"output-limit", "resource-limit", "not-run"}
