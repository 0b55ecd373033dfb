"""What is kept: two tabs, older and newer formats, damage, and browsers that keep nothing."""

import json

import pytest

NOTE = "textarea.note"
LATER = "2026-05-05T05:05:05.000Z"


def keep(page, text):
    page.fill(NOTE, text)
    page.evaluate("document.activeElement.blur()")


def note(page):
    return page.evaluate("course.storage.get('note/tiny-01/evidence/1')")


def test_notes_and_marks_come_back_after_a_reload(reader):
    page = reader().open("unit.html#evidence")
    keep(page, "first line\n<img src=x onerror=alert(1)>")
    page.check("input[data-id='tiny-01/evidence/1']")
    page.reload()
    assert page.input_value(NOTE) == "first line\n<img src=x onerror=alert(1)>"
    assert page.is_checked("input[data-id='tiny-01/evidence/1']")


def test_what_was_typed_last_is_kept_when_the_page_is_left(reader):
    ana = reader()
    page = ana.open("unit.html#evidence")
    page.fill(NOTE, "in a hurry")
    page.goto(ana.home + "index.html")
    page.goto(ana.home + "unit.html#evidence")
    assert page.input_value(NOTE) == "in a hurry"


def test_a_hint_that_was_opened_is_remembered(reader):
    page = reader().open("unit.html#experiment")
    page.click("summary:has-text('Hint')")
    page.wait_for_function("course.storage.get('reveal/tiny-01/exercise/change/hint-1')")


def test_two_tabs_see_what_the_other_does(reader):
    ana = reader()
    one, other = ana.open("unit.html"), ana.open("unit.html#evidence")
    one.check("input[data-id='tiny-01/stage/understand']")
    other.wait_for_function("document.querySelector(\"input[data-id='tiny-01/stage/understand']\").checked")
    keep(other, "from the other tab")
    one.wait_for_function("document.querySelector('textarea.note').value === 'from the other tab'")


def test_two_tabs_that_write_one_note_lose_nothing(reader):
    ana = reader()
    one, other = ana.open("unit.html#evidence"), ana.open("unit.html#evidence")
    one.clock.install()  # so that the pause after the last key does not end: the text is there and not yet kept
    one.fill(NOTE, "written in one tab")
    keep(other, "written in the other")
    one.wait_for_function("course.storage.get('note/tiny-01/evidence/1')?.text === 'written in the other'")
    assert one.input_value(NOTE) == "written in one tab"
    one.evaluate("document.activeElement.blur()")
    entry = note(one)
    assert {entry["text"], *(each["text"] for each in entry["earlier"])} == {"written in one tab", "written in the other"}
    one.reload()
    one.click("text=Earlier versions of this note")
    assert "written in" in one.inner_text(".note-earlier pre")


def test_an_entry_of_one_tab_is_not_overwritten_by_an_older_one(reader):
    page = reader().open("unit.html")
    kept = page.evaluate(
        """later => {
          const entry = (at, done) => ({ at, done });
          localStorage.setItem('training-systems:check/tiny-01/x', JSON.stringify(entry(later, true)));
          course.storage.take({ format: 1, entries: { 'check/tiny-01/x': entry('2026-01-01T00:00:00.000Z', false) } });
          return localStorage.getItem('training-systems:check/tiny-01/x');
        }""",
        LATER,
    )
    assert json.loads(kept) == {"at": LATER, "done": True}


def test_what_is_done_now_is_newer_than_what_it_replaces_even_if_the_clock_was_set_back(reader):
    page = reader().open("unit.html")
    at = page.evaluate("""() => {
      localStorage.setItem('training-systems:check/tiny-01/x', JSON.stringify({ at: '2999-01-01T00:00:00.000Z', done: true }));
      course.storage.set('check/tiny-01/x', { done: false });
      return course.storage.get('check/tiny-01/x');
    }""")
    assert at == {"at": "2999-01-01T00:00:00.001Z", "done": False}


OLD = {
    "saved": "2026-01-02T03:04:05.000Z",
    "done": ["tiny-01/stage/understand"],
    "notes": {"tiny-01/evidence/1": "an old note"},
    "predictions": {"aaaa0000aaaa0000": {"ask": "Where?", "option": "a2", "said": "At 8", "right": True}},
}


def put(text):
    return f"localStorage.length || localStorage.setItem('training-systems', {json.dumps(text)})"


def test_an_older_format_is_brought_up_to_date(reader):
    ana = reader()
    page = ana.open("unit.html", put(json.dumps(OLD)))
    assert page.is_checked("input[data-id='tiny-01/stage/understand']")
    assert page.input_value(NOTE) == "an old note"
    assert page.is_visible("#result")
    assert page.evaluate("localStorage.getItem('training-systems')") is None
    assert page.evaluate("localStorage.getItem('training-systems:format')") == "1"


@pytest.mark.parametrize("text", ["{", "null", json.dumps({**OLD, "notes": {"tiny-01/evidence/1": 5}}), json.dumps({"done": 7})])
def test_what_is_damaged_is_left_where_it_is(reader, text):
    page = reader().open("unit.html", put(text))
    page.wait_for_selector("html.course-ready")
    assert page.evaluate("localStorage.getItem('training-systems')") == text


def test_a_damaged_entry_is_ignored_and_kept(reader):
    page = reader().open("unit.html", "localStorage.setItem('training-systems:note/tiny-01/evidence/1', '{\"text\": 5}')")
    assert page.input_value(NOTE) == ""
    assert page.evaluate("localStorage.getItem('training-systems:note/tiny-01/evidence/1')") == '{"text": 5}'


def test_what_a_newer_site_keeps_is_not_touched(reader):
    page = reader().open("unit.html", "localStorage.setItem('training-systems:format', '2')")
    assert "newer version" in page.inner_text(".course-notice")
    before = page.evaluate("JSON.stringify(localStorage)")
    page.check("input[data-id='tiny-01/stage/understand']")
    assert page.is_checked("input[data-id='tiny-01/stage/understand']")
    assert page.evaluate("JSON.stringify(localStorage)") == before


@pytest.mark.parametrize(
    "script",
    [
        "Object.defineProperty(window, 'localStorage', { get() { throw new DOMException('denied', 'SecurityError'); } })",
        "Storage.prototype.setItem = () => { throw new DOMException('none', 'QuotaExceededError'); }",
        "Object.defineProperty(window, 'localStorage', { value: null })",
    ],
    ids=["denied", "no room at all", "absent"],
)
def test_a_browser_that_keeps_nothing_is_told_once_and_works_on(reader, script):
    page = reader().open("unit.html", script)
    assert page.locator(".course-notice").count() == 1
    assert "does not let the page keep anything" in page.inner_text(".course-notice")
    page.check("input[data-id='tiny-01/stage/understand']")
    page.click("nav.stages a[href='#evidence']")
    keep(page, "kept for now")
    assert note(page)["text"] == "kept for now"
    assert page.locator(".course-notice").count() == 1
    page.click(".course-notice button")
    assert page.locator(".course-notice").count() == 0


def test_a_full_browser_is_told_once_a_tab_and_loses_nothing_of_the_page(reader):
    ana = reader()
    page = ana.open("unit.html")
    page.evaluate("""() => {
      const set = Storage.prototype.setItem;
      Storage.prototype.setItem = function (key, value) {
        if (this === localStorage) throw new DOMException('full', 'QuotaExceededError');
        set.call(this, key, value);
      };
    }""")
    page.check("input[data-id='tiny-01/stage/understand']")
    page.check("input[data-id='tiny-01/evidence/1']", force=True) if page.is_visible("#evidence") else None
    assert "no room left" in page.inner_text(".course-notice")
    assert page.is_checked("input[data-id='tiny-01/stage/understand']")
    assert page.evaluate("course.transfer.write()").count("stage/understand") == 1
    page.reload()
    assert page.locator(".course-notice").count() == 0


MERGES = [
    ("check/a", {"done": True}, {"done": False}),
    ("note/a", {"text": "one", "earlier": []}, {"text": "two", "earlier": [{"text": "zero", "at": "2025-01-01T00:00:00.000Z"}]}),
    ("reveal/a", {"first": "2026-01-01T00:00:00.000Z"}, {"first": "2026-01-02T00:00:00.000Z"}),
    ("review/a", {"finished": "2026-01-02", "done": ["2026-01-03"]}, {"finished": "2026-01-01", "done": ["2026-01-04"]}),
    ("place/a", {"unit": "a", "stage": "b"}, {"unit": "a", "stage": "c"}),
    ("setting/a", {"value": 1}, {"value": "x"}),
    ("prediction/a", {"ask": "x", "tries": [{"option": "1", "said": "", "right": True, "at": LATER}]}, {"ask": "x", "tries": []}),
]


@pytest.mark.parametrize(("key", "one", "other"), MERGES, ids=[key for key, _, _ in MERGES])
@pytest.mark.parametrize("times", [(0, 1), (1, 0), (0, 0)])
def test_merging_does_not_depend_on_who_comes_first(scripts, key, one, other, times):
    ats = ["2026-03-03T00:00:00.000Z", "2026-04-04T00:00:00.000Z"]
    one, other = {"at": ats[times[0]], **one}, {"at": ats[times[1]], **other}

    def merge(first, second):
        return scripts.evaluate(
            "([key, a, b]) => course.entries.merge(key, course.entries.clean(key, a), course.entries.clean(key, b))",
            [key, first, second],
        )

    both = merge(one, other)
    assert both == merge(other, one)
    assert both == merge(both, other)
    assert both["at"] == max(one["at"], other["at"])
    assert merge(one, one) == one
