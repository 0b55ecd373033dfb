"""The report for a browser: one file, a table of learners and lessons, and what came of each submission below it.

Its parts are put together as trees and not as text, so that whatever a name or a message holds comes out as text. It has no
script, loads nothing, and its policy forbids both.
"""

from __future__ import annotations

import xml.etree.ElementTree as ET
from collections import Counter
from collections.abc import Iterator

from graders.reports.lines import runs_text, totals
from graders.reports.text import points, short, visible
from graders.verdict import Results, SubmissionResult, Verdict

_POLICY = "default-src 'none'; style-src 'unsafe-inline'; base-uri 'none'; form-action 'none'"
_STYLE = """
:root { color-scheme: light dark; }
body { font: 1rem/1.45 system-ui, sans-serif; margin: 1.5rem auto; max-width: 80rem; padding: 0 1rem; }
table { border-collapse: collapse; margin: 0.5rem 0 1.5rem; }
th, td { border: 1px solid #8888; padding: 0.25rem 0.6rem; text-align: left; vertical-align: top; overflow-wrap: anywhere; }
th { font-weight: 600; }
td.points { text-align: right; white-space: nowrap; }
.PASS { color: light-dark(#116329, #7ee787); } .FAIL, .ERROR { color: light-dark(#b3261e, #ff8a80); }
.ERROR { font-weight: 700; } .TIMEOUT, .SKIP { color: light-dark(#8a5100, #f0b35a); }
.UNSOLVED, .none { color: light-dark(#57606a, #a0a8b0); }
.file { font-size: 0.85rem; }
"""


def report_html(results: Results) -> Iterator[str]:
    """The whole page, piece by piece: that of a big class need not be held whole."""
    head = ET.Element("head")
    ET.SubElement(head, "meta", charset="utf-8")
    ET.SubElement(head, "meta", {"http-equiv": "Content-Security-Policy", "content": _POLICY})
    ET.SubElement(head, "meta", name="viewport", content="width=device-width, initial-scale=1")
    _add(head, "title", "Results")
    _add(head, "style", _STYLE)
    yield f'<!DOCTYPE html>\n<html lang="en">{_text(head)}<body>'
    about = ET.Element("header")
    _add(about, "h1", "Results")
    _about(about, results)
    yield _text(about)
    yield from _overview(results)
    yield "<h2>Submissions</h2>"
    for number, one in enumerate(results.submissions):
        if one.file or one.notices or any(result.message for result in one.exercises):
            yield _text(_submission(number, one))
    yield "</body></html>\n"


def _text(part: ET.Element) -> str:
    return ET.tostring(part, encoding="unicode", method="html")


def _add(parent: ET.Element, tag: str, text: str, **attributes: str) -> ET.Element:
    made = ET.SubElement(parent, tag, attributes)
    made.text = text
    return made


def _about(body: ET.Element, results: Results) -> None:
    if not results.complete:
        _add(body, "p", "The run was interrupted: this is what was graded until then.", **{"class": "ERROR"})
    place = results.environment
    packages = ", ".join(f"{name} {version}" for name, version in place.packages.items())
    _add(body, "p", f"{totals(results.submissions)}. Draws by seed {results.seed}.")
    known = _add(body, "details", "")
    _add(known, "summary", "How it was run")
    listed = ET.SubElement(known, "ul")
    _add(listed, "li", f"{results.started:%Y-%m-%d %H:%M:%S} to {results.finished:%Y-%m-%d %H:%M:%S} UTC")
    _add(listed, "li", visible(f"{place.implementation} {place.python}, {place.platform} {place.machine}: {packages}"))
    for layer in results.isolation:
        _add(listed, "li", visible(layer))
    for lesson, limits in results.limits.items():
        _add(listed, "li", visible(f"{lesson}: {', '.join(f'{name} {value:g}' for name, value in limits.items())}"))


def _overview(results: Results) -> Iterator[str]:
    lessons: dict[str, None] = {}
    by_learner: dict[str, dict[str, int]] = {}
    for number, one in enumerate(results.submissions):
        lessons[one.lesson] = None
        by_learner.setdefault(one.learner, {})[one.lesson] = number
    head = ET.Element("thead")
    row = ET.SubElement(head, "tr")
    for title in ("learner", *lessons, "points"):
        _add(row, "th", visible(title), scope="col")
    yield f"<table><caption>Points, and how many exercises got which verdict</caption>{_text(head)}<tbody>"
    for learner, numbers in by_learner.items():
        mine = {lesson: (number, results.submissions[number]) for lesson, number in numbers.items()}
        row = ET.Element("tr")
        _add(row, "th", visible(learner), scope="row")
        for lesson in lessons:
            _overview_cell(ET.SubElement(row, "td"), mine.get(lesson))
        earned = [one.points for _, one in mine.values()]
        total = None if None in earned else sum(one for one in earned if one is not None)
        _add(row, "td", points(total, sum(one.out_of for _, one in mine.values())), **{"class": "points"})
        yield _text(row)
    yield "</tbody></table>"


def _overview_cell(place: ET.Element, found: tuple[int, SubmissionResult] | None) -> None:
    if found is None or not (found[1].file or found[1].verdict is Verdict.ERROR):
        _add(place, "span", "nothing handed in", **{"class": "none"})
        return
    number, one = found
    counts = Counter(result.verdict for result in one.exercises)
    text = f"{points(one.points, one.out_of)}: {', '.join(f'{count} {verdict}' for verdict, count in counts.items())}"
    _add(place, "a", text, href=f"#s{number}", **{"class": one.verdict.value})


def _submission(number: int, one: SubmissionResult) -> ET.Element:
    part = ET.Element("section", id=f"s{number}")
    _add(part, "h3", visible(f"{one.learner}, {one.lesson}"))
    if one.file:
        _add(part, "p", visible(f"{one.file} (sha256 {one.sha256 or 'not known'}), {one.seconds:g} s"), **{"class": "file"})
    table = ET.SubElement(part, "table")
    row = ET.SubElement(ET.SubElement(table, "thead"), "tr")
    for title in ("exercise", "verdict", "points", "what was seen"):
        _add(row, "th", title, scope="col")
    rows = ET.SubElement(table, "tbody")
    for result in one.exercises:
        row = ET.SubElement(rows, "tr")
        _add(row, "th", visible(result.exercise), scope="row")
        reason = f" ({result.reason})" if result.reason else ""
        _add(row, "td", f"{result.verdict}{reason}", **{"class": result.verdict.value})
        _add(row, "td", points(result.points, result.out_of), **{"class": "points"})
        _add(row, "td", visible(short(result.message)) if result.message else runs_text(result.runs), **{"class": "message"})
    if one.notices:
        listed = ET.SubElement(part, "ul")
        for notice in one.notices:
            _add(listed, "li", visible(short(notice)), **{"class": "notice"})
    return part
