"""Reports stay well-formed whatever a name or a message holds, and say the same in every format."""

import csv
import functools
import io
import json
import os
import re
import subprocess
import sys
import xml.etree.ElementTree as ET
from datetime import UTC, datetime
from html.parser import HTMLParser

import jsonschema
import nbformat
import psutil
import pytest
from hypothesis import given
from hypothesis import strategies as st

from course.receipt import Environment
from graders import owner
from graders.__main__ import results_schema
from graders.check import draw_plans
from graders.reports import files
from graders.reports.files import NotWritten, write_report, write_reports
from graders.reports.lines import class_lines, own_lines, pad, runs_text, totals, width
from graders.reports.text import LONGEST, cell, json_text, short, visible, xml
from graders.verdict import ExerciseResult, Reason, Results, SubmissionResult, Verdict, not_judged
from tests.conftest import notebook, reference_answers

NASTY = [
    "\x1b[2J\x1b[31mPASS",
    "a\nPASS      tiny-01/double",
    '=HYPERLINK("x")',
    "<script>alert(1)</script>",
    "]]>&\x00\ufffe",
    "'; DROP",
    "\u202egnp.exe",
    "日本語",
    "",
    "\ud800",
    "-1+2",
    "x" * 5000,
]


def submission(learner="Ana", verdict=Verdict.PASS, message="", **more):
    points = {Verdict.PASS: 2.0, Verdict.ERROR: None}.get(verdict, 0.0)
    one = ExerciseResult(
        exercise="double",
        verdict=verdict,
        reason=None if verdict is Verdict.PASS else Reason.WRONG,
        message=message,
        points=points,
        out_of=2,
        runs=("base", "N=5", "N=7", "draw 9"),
    )
    return SubmissionResult(
        learner=learner, lesson="tiny-01", file=f"{learner}/tiny-01.ipynb", sha256="0" * 64, exercises=(one,), **more
    )


def results(*submissions):
    now = datetime(2026, 11, 29, 12, 0, tzinfo=UTC)
    place = Environment(python="3.11.7", implementation="CPython", platform="Linux", machine="x86_64", packages={})
    return Results(
        started=now, finished=now, seed=9, receipts={}, environment=place, isolation=(), limits={}, submissions=submissions
    )


def written(kind, run):
    return "".join(files.WRITERS[kind](run))


results_json, results_csv, junit, report_html = (functools.partial(written, kind) for kind in ("json", "csv", "junit", "html"))


@pytest.mark.parametrize("text", NASTY)
def test_nasty_names_and_messages(text):
    run = results(submission(text, Verdict.FAIL, text), submission("Bo"))
    parsed = json.loads(results_json(run))
    assert len(parsed["submissions"]) == 2
    if text.isascii():
        assert parsed["submissions"][0]["learner"] == text
    rows = list(csv.DictReader(io.StringIO(results_csv(run), newline="")))
    assert [row["verdict"] for row in rows] == ["FAIL", "PASS"]
    assert not rows[0]["learner"].startswith(("=", "+", "-", "@"))
    root = ET.fromstring(junit(run))
    assert [suite.get("failures") for suite in root] == ["1", "0"]
    for _, line in class_lines(run.submissions[0], 20):
        assert "\n" not in line and "\x1b" not in line and line.startswith("FAIL")


# Any text at all, lone surrogates included, and texts made of what hurts.
ANY = st.text(st.characters(codec=None), max_size=60)
HURTS = st.text(
    st.sampled_from("=+-@\t\r\n\x00\x1b[\x9b2J\u202e\u2066\u200b\ufeff\ufffe\ud800\udfff'\",;<>&]{{}}\\/x1 é日"), max_size=30
)
TEXTS = ANY | HURTS
ACTS = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\u2028\u2029\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069]")


def strict(text):
    """JSON as the standard has it: nothing but what it names, and no key twice."""

    def refuse(constant):
        raise AssertionError(constant)

    def unique(pairs):
        assert len({key for key, _ in pairs}) == len(pairs)
        return dict(pairs)

    return json.loads(text, parse_constant=refuse, object_pairs_hook=unique)


@given(TEXTS, TEXTS)
def test_json_is_strict_exact_and_acts_on_no_terminal(name, message):
    text = results_json(results(submission(name, Verdict.FAIL, message, notices=(message,))))
    text.encode("utf-8")
    assert not ACTS.search(text)
    (one,) = strict(text)["submissions"]
    # Two lone halves beside each other are one character in JSON, whichever way they are written.
    whole = [json.loads(json.dumps(part)) for part in (name, message)]
    assert [one["learner"], one["exercises"][0]["message"], one["notices"]] == [*whole, [whole[1]]]


@given(TEXTS, TEXTS)
def test_csv_is_that_of_rfc_4180_and_holds_no_formula(name, message):
    text = results_csv(results(submission(name, Verdict.FAIL, message), submission("Bo")))
    assert not ACTS.search(text)
    text.encode("utf-8")
    table = list(csv.reader(io.StringIO(text, newline=""), strict=True))
    assert [len(row) for row in table] == [len(files.COLUMNS)] * 3 and text.endswith("\r\n")
    first, second = (dict(zip(table[0], row, strict=True)) for row in table[1:])
    assert second["learner"] == "Bo" and first["points"] == "0"
    for written, meant in ((first["learner"], name), (first["message"], message)):
        assert not written.startswith(("=", "+", "-", "@", "\t", "\r", "\n"))
        # Without quotes and blanks in front it is none either, to a program that strips them.
        bare = written.lstrip("\"' \n\ufeff\u200b")
        assert written.startswith("'") or bare[:1] not in {"=", "+", "-", "@"}
        if not ACTS.search(meant) and meant.isprintable():
            assert written in {meant, f"'{meant}"}, "an ordinary text is not changed"


@given(TEXTS, TEXTS)
def test_junit_is_xml_1_0(name, message):
    text = junit(results(submission(name, Verdict.FAIL, message)))
    assert not ACTS.search(text)
    root = ET.fromstring(text.encode("utf-8"))
    assert root[0].get("name") == f"{xml(name)} tiny-01" and root[0][0][0].get("message") == xml(message)
    assert xml(name) == name or ACTS.search(name) or re.search("[\r\ud800-\udfff\ufffe\uffff]", name)


class Page(HTMLParser):
    """What a browser would see: elements with their attributes, and the text of those that hold a name or a message."""

    def __init__(self):
        super().__init__(convert_charrefs=True)
        self.elements, self.attributes, self.texts, self.open = [], [], {}, []

    def handle_starttag(self, tag, attrs):
        self.elements.append(tag)
        self.attributes += [(tag, name, value) for name, value in attrs]
        if tag not in {"meta", "br", "link", "img"}:
            self.open.append((tag, dict(attrs).get("class") or dict(attrs).get("scope")))
            self.texts.setdefault(self.open[-1], []).append("")

    def handle_endtag(self, tag):
        assert self.open.pop()[0] == tag

    def handle_data(self, data):
        if self.open:
            self.texts[self.open[-1]][-1] += data


def page(run):
    text = report_html(run)
    text.encode("utf-8")
    assert not ACTS.search(text)
    found = Page()
    found.feed(text)
    found.close()
    assert found.open == []
    return found


@given(TEXTS, TEXTS)
def test_html_reads_back_to_the_same_text_and_holds_no_markup_of_a_learner(name, message):
    clean = page(results(submission("Bo", Verdict.FAIL, "m", notices=("n",))))
    found = page(results(submission(name, Verdict.FAIL, message or "m", notices=(message,))))
    assert found.texts["th", "row"][0] == visible(name)
    assert found.texts["td", "message"] == [visible(message or "m")] and found.texts["li", "notice"] == [visible(message)]
    assert found.texts["h3", None] == [visible(f"{name}, tiny-01")]
    # The same elements and attributes as with harmless names: a name or a message has added none.
    assert found.elements == clean.elements and found.attributes == clean.attributes


def test_html_has_no_script_and_loads_nothing():
    found = page(results(*(submission(text, verdict, text) for text, verdict in zip(NASTY, [*Verdict] * 2, strict=True))))
    assert not {"script", "img", "iframe", "link", "object", "form", "svg", "base"} & set(found.elements)
    assert not [name for _, name, _ in found.attributes if name.startswith("on") or name in {"src", "style"}]
    assert {value[0] for _, name, value in found.attributes if name == "href"} == {"#"}
    ids = [value for _, name, value in found.attributes if name == "id"]
    links = [value[1:] for _, name, value in found.attributes if name == "href"]
    assert len(set(ids)) == len(ids) and set(links) <= set(ids)
    policy = next(value for tag, name, value in found.attributes if tag == "meta" and name == "content")
    assert policy.startswith("default-src 'none'") and "script" not in policy


def test_html_says_everything_of_each_submission():
    run = results(
        submission("Ana", Verdict.FAIL, "mean: expected 4, got 5", notices=("cell 3 was restored",)), submission("Bo"),
        submission("Cy", Verdict.ERROR, "broken"),
    )  # fmt: skip
    run = run.model_copy(update={"isolation": ("a layer",), "complete": False})
    text = report_html(run)
    for said in (
        "mean: expected 4, got 5",
        "cell 3 was restored",
        "FAIL (wrong)",
        "0/2",
        "2/2",
        "–/2",
        "a layer",
        "seed 9",
        "interrupted",
    ):
        assert said in text, said
    found = page(run)
    assert found.texts["th", "row"] == ["Ana", "Bo", "Cy", "double", "double", "double"]
    assert found.texts["a", "PASS"] == ["2/2: 1 PASS"]


def test_all_formats_agree():
    run = results(*(submission(f"{verdict} {number}", verdict, "m") for verdict in Verdict for number in range(3)))
    rows = list(csv.DictReader(io.StringIO(results_csv(run), newline="")))
    told = [(one["learner"], one["verdict"]) for one in strict(results_json(run))["submissions"]]
    assert [(row["learner"], row["verdict"]) for row in rows] == told
    suites = ET.fromstring(junit(run))
    assert [suite.get("name").removesuffix(" tiny-01") for suite in suites] == [name for name, _ in told]
    assert sum(int(suite.get("tests")) for suite in suites) == len(told)
    assert page(run).texts["th", "row"][: len(told)] == [name for name, _ in told]
    for _, verdict in told:
        assert report_html(run).count(f">{verdict}") >= 3


@given(TEXTS)
def test_a_line_of_a_terminal_stays_one_line(text):
    shown = visible(text)
    assert not ACTS.search(shown) and shown.isprintable() | any(one in shown for one in "\u200c\u200d") | (not shown.isascii())
    assert "\n" not in shown and "\r" not in shown and "\t" not in shown
    shown.encode("utf-8")
    assert visible(shown) == shown


@pytest.mark.parametrize(
    ("text", "written"),
    [
        ("=1+1", "'=1+1"), ("+1", "'+1"), ("-2 + 3", "'-2 + 3"), ("@SUM(1)", "'@SUM(1)"), ("\t=1", "'\t=1"), ("\rx", "'\rx"), ("\nx", "'\nx"),
        ("\"=1", "'\"=1"), ("'=1", "''=1"), ("  =1", "'  =1"), ("\ufeff=1", "'\ufeff=1"), ("\u200b@x", "'\u200b@x"), ("＝1", "'＝1"), ("＠x", "'＠x"),
        ("\x01=1", "\\x01=1"), ("\xa0=1", "'\xa0=1"), ("a=1", "a=1"), ("Ana-Maria", "Ana-Maria"), ("O'Neil", "O'Neil"), ("", ""), ("'", "'"),
        ("日本 太郎", "日本 太郎"), ("a\nb", "a\nb"), ("\x1b[2Jx", "\\x1b[2Jx"), ("\u202egnp", "\\u202egnp"), ("\udcff", "\\udcff"), ("\x9bx", "\\x9bx"),
    ],
)  # fmt: skip
def test_cells_of_a_spreadsheet(text, written):
    assert cell(text) == written


def test_a_long_message_is_cut_in_every_report_and_says_so():
    long = "x" * 5_000
    run = results(submission("Ana", Verdict.FAIL, long, notices=(long,)))
    for kind in files.WRITERS:
        text = written(kind, run)
        assert "x" * LONGEST in text and "x" * (LONGEST + 1) not in text and "cut; 5000 characters" in text, kind
    assert short("x" * LONGEST) == "x" * LONGEST
    assert json_text('{"a": "\u202e"}') == '{"a": "\\u202e"}'


def test_numbers_stay_numbers_and_no_mark_is_no_zero():
    rows = list(
        csv.DictReader(
            io.StringIO(results_csv(results(submission("A", Verdict.ERROR, "x"), submission("B", Verdict.FAIL))), newline="")
        )
    )
    assert [row["points"] for row in rows] == ["", "0"]


def test_an_error_is_an_error_and_everything_else_a_failure():
    run = results(*(submission(verdict.value, verdict, "m") for verdict in Verdict))
    root = ET.fromstring(junit(run))
    kinds = {suite[0].get("classname").split(".")[1]: [child.tag for child in suite[0]] for suite in root}
    assert kinds == {"PASS": [], "ERROR": ["error"], **{name: ["failure"] for name in ("FAIL", "TIMEOUT", "UNSOLVED", "SKIP")}}


def test_results_match_their_schema_and_the_file_in_docs(root):
    schema = json.loads(results_schema())
    jsonschema.validate(json.loads(results_json(results(submission(), submission("Bo", Verdict.ERROR)))), schema)
    broken = json.loads(results_json(results(submission())))
    broken["submissions"][0]["verdict"] = "GREAT"
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.validate(broken, schema)
    kept = root / "docs" / "schemas" / "results.schema.json"
    assert kept.read_text(encoding="utf-8") == results_schema(), "run `python -m graders schema`"


def test_the_lessons_verdict_is_the_gravest():
    def lesson(*verdicts):
        one = submission()
        exercises = tuple(one.exercises[0].model_copy(update={"verdict": verdict}) for verdict in verdicts)
        return one.model_copy(update={"exercises": exercises}).verdict

    assert lesson(Verdict.PASS, Verdict.PASS) is Verdict.PASS
    assert lesson(Verdict.PASS, Verdict.UNSOLVED) is Verdict.UNSOLVED
    assert lesson(Verdict.FAIL, Verdict.TIMEOUT, Verdict.UNSOLVED) is Verdict.TIMEOUT
    assert lesson(Verdict.ERROR, Verdict.FAIL) is Verdict.ERROR
    assert lesson() is Verdict.ERROR


def test_points_are_of_the_lesson_and_none_where_no_mark_is_given():
    worth = (("a", 2.0), ("b", 3.0))
    one = submission().model_copy(update={"exercises": not_judged(worth, Verdict.UNSOLVED, Reason.NO_ANSWER, "m")})
    assert (one.points, one.out_of) == (0, 5)
    other = submission().model_copy(update={"exercises": not_judged(worth, Verdict.ERROR, Reason.INTERNAL, "m")})
    assert (other.points, other.out_of) == (None, 5)


def test_lines_for_a_class_and_for_oneself():
    ((_, line),) = class_lines(submission("Li, Wei"), 12)
    assert line.split() == ["PASS", "tiny-01/double", "Li,", "Wei", "2/2", "base,", "2", "variants,", "draw", "9"]
    own = [line for _, line in own_lines(submission(notices=("a note",)))]
    assert own == ["PASS      tiny-01/double  base, 2 variants, draw 9", "  note: a note", "PASS: tiny-01"]
    wrong = [line for _, line in own_lines(submission("Ana", Verdict.FAIL, "mean: expected 4, got 5"))]
    assert wrong == ["FAIL      tiny-01/double  mean: expected 4, got 5", "tiny-01: 0 of 1 pass"]
    assert runs_text(("base",)) == "base" and runs_text(()) == ""
    assert totals([submission(), submission("B", Verdict.FAIL)]) == "2 verdicts on 2 submissions: 1 PASS, 1 FAIL"


def test_columns_count_what_a_terminal_shows():
    assert width("日本") == 4 and width("e\u0301") == 1
    assert pad("日本", 6) == "日本  "


def test_a_report_is_written_beside_and_renamed(tmp_path):
    path = tmp_path / "deep" / "results.json"
    write_report("json", results(submission()), path)
    write_report("json", results(submission("Bo")), path)
    assert [one.name for one in path.parent.iterdir()] == ["results.json"]
    assert json.loads(path.read_text(encoding="utf-8"))["submissions"][0]["learner"] == "Bo"


def targets(folder):
    return {"json": folder / "r.json", "csv": folder / "r.csv", "junit": folder / "r.xml", "html": folder / "r.html"}


@pytest.mark.parametrize("last", ["html", "json", "csv"])
def test_all_reports_are_replaced_or_none(tmp_path, monkeypatch, last):
    write_reports(results(submission("old")), targets(tmp_path))
    before = {path: path.read_bytes() for path in targets(tmp_path).values()}
    real = files._write

    def full(path, data):
        if path.name.endswith(f"-{list(targets(tmp_path)).index(last)}.new"):
            path.write_bytes("".join(data).encode()[:10])
            raise OSError(28, "No space left on device", str(path))
        real(path, data)

    monkeypatch.setattr(files, "_write", full)
    with pytest.raises(NotWritten, match=r"No space left on device; the older ones are as they were"):
        write_reports(results(submission("new")), targets(tmp_path))
    assert {path: path.read_bytes() for path in tmp_path.iterdir()} == before


def test_a_folder_in_the_place_of_a_report_is_named_before_anything_is_replaced(tmp_path):
    write_report("json", results(submission("old")), tmp_path / "r.json")
    (tmp_path / "r.html").mkdir()
    with pytest.raises(NotWritten, match=r"r\.html: it is a folder"):
        write_reports(results(submission("new")), targets(tmp_path))
    assert '"old"' in (tmp_path / "r.json").read_text() and sorted(one.name for one in tmp_path.iterdir()) == ["r.html", "r.json"]


def test_half_a_report_of_a_dead_grader_is_cleared_and_that_of_a_living_one_is_not(tmp_path):
    mine = owner.me()
    unborn = max(psutil.pids()) + 1_000
    (tmp_path / f".report-{mine.machine}-{unborn}-abcdef-0.new").write_text("half")
    (tmp_path / f".report-{mine}-7.new").write_text("half")
    (tmp_path / ".report-notes.new").write_text("not ours")
    write_report("json", results(submission()), tmp_path / "r.json")
    assert sorted(one.name for one in tmp_path.iterdir()) == sorted([f".report-{mine}-7.new", ".report-notes.new", "r.json"])


@pytest.mark.skipif(os.name == "nt", reason="Windows has no /dev/stdout")
def test_a_report_to_a_pipe_is_written_into_it(tmp_path):
    fifo = tmp_path / "pipe"
    os.mkfifo(fifo)
    reader = subprocess.Popen(["cat", str(fifo)], stdout=subprocess.PIPE)
    write_report("json", results(submission()), fifo)
    assert len(json.loads(reader.communicate(timeout=60)[0])["submissions"]) == 1
    assert fifo.is_fifo()


@pytest.mark.skipif(os.name == "nt", reason="Windows has no such limit")
def test_where_files_may_not_grow_the_older_report_stays(tmp_path):
    code = """
import resource, sys
from pathlib import Path
from graders.reports.files import NotWritten, write_report
from tests.graders.test_reports import results, submission
path = Path(sys.argv[1])
write_report("json", results(submission("old")), path)
resource.setrlimit(resource.RLIMIT_FSIZE, (3000, 3000))
try:
    write_report("json", results(*[submission("new")] * 50), path)
except NotWritten as error:
    print(error)
"""
    path = tmp_path / "r.json"
    done = subprocess.run([sys.executable, "-c", code, str(path)], capture_output=True, text=True, check=True)
    assert "the older ones are as they were" in done.stdout and done.stderr == ""
    assert '"old"' in path.read_text() and list(tmp_path.iterdir()) == [path]


LEAKING = {
    "raises": "if N > 7:\n    raise ValueError(f'{N} {SEED} {numbers}')\ndoubled = [2 * one for one in numbers]\nmean = N + 1",
    "wrong": "doubled = [2 * one for one in numbers] if N in (3, 5, 7) else [0] * N\nmean = N + 1 if N in (3, 5, 7) else N",
    "longer": "doubled = [2 * one for one in numbers] + ([] if N in (3, 5, 7) else [N])\nmean = N + 1",
    "prints": "import sys\nprint(N, SEED, numbers)\nprint(N, SEED, file=sys.stderr)\ndoubled = {N: numbers} if N > 7 else [2 * one for one in numbers]\nmean = N + 1",
    "ends": "doubled = [2 * one for one in numbers]\nmean = N + 1\nif N > 7:\n    print(N, numbers, flush=True)\n    import os; os._exit(N % 250)",
}  # fmt: skip
LEAKING_FUNCTION = "def scaled(values, factor):\n    if factor in (1, 5):\n        return [factor * value for value in values]\n    raise ValueError(f'{values} {factor} {N} {SEED}')"  # fmt: skip


def test_no_report_holds_what_a_draw_has_drawn_or_expects(tiny, tiny_root, root, tmp_path):
    seed = next(one for one in range(1_000) if all(plan.parameters["N"] > 120 for plan in draw_plans(tiny, one)))
    drawn = [value for plan in draw_plans(tiny, seed) for value in plan.parameters.values()]
    folder, out = tmp_path / "class", tmp_path / "out"
    for name, answer in LEAKING.items():
        (folder / name).mkdir(parents=True)
        answers = {**reference_answers(tiny), "double": answer, "function": LEAKING_FUNCTION}
        nbformat.write(notebook(tiny, answers), folder / name / "tiny-01.ipynb")
    command = [sys.executable, "-m", "graders", "grade", str(folder), "--out", str(out), "--seed", str(seed)]
    done = subprocess.run(
        command, cwd=tiny_root, env={**os.environ, "PYTHONPATH": str(root)}, capture_output=True, text=True, encoding="utf-8", check=False
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    run = json.loads((out / "results.json").read_text(encoding="utf-8"))
    assert {one["exercises"][0]["verdict"] for one in run["submissions"]} == {"FAIL"}
    assert {one["exercises"][1]["verdict"] for one in run["submissions"]} == {"FAIL"}
    # Means, largest and last values, sizes and what is next to them; and whole rows of them.
    held_out = {value + more for value in drawn for more in (-1, 0, 1)} | {2 * value for value in drawn}
    pattern = re.compile("|".join(rf"(?<![\w.:-]){value}(?:\.0)?(?![\w.:-])" for value in sorted(held_out)))
    assert pattern.search(f"expected {drawn[0] + 1}, got"), "the search finds what it looks for"
    for path in sorted(out.iterdir()):
        text = path.read_bytes().decode("utf-8", "replace")
        assert not pattern.search(text), (
            path.name,
            [text[max(0, one.start() - 90) : one.end() + 40] for one in pattern.finditer(text)],
        )
    assert not pattern.search(done.stdout), done.stdout
