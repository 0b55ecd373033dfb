"""Export, import, erase, portfolio: everything comes along, nothing newer is lost, nothing imported becomes HTML."""

import json

import pytest

from tests.site.test_choices import choose

AT = "2026-02-02T02:02:02.000Z"
EARLY, LATE = "2026-01-01T00:00:00.000Z", "2026-06-06T00:00:00.000Z"


def document(entries, **more):
    return {"course": "training-systems", "format": 1, "exported": AT, "revision": "", "entries": entries, **more}


def bring(page, content, name="work.json"):
    text = content if isinstance(content, str | bytes) else json.dumps(content)
    page.set_input_files(
        "#import-file", {"name": name, "mimeType": "application/json", "buffer": text.encode() if isinstance(text, str) else text}
    )
    page.wait_for_selector(".transfer-result p")
    return page.inner_text(".transfer-result")


def save(page, button):
    with page.expect_download() as download:
        page.get_by_role("button", name=button, exact=True).click()
    return download.value.suggested_filename, download.value.path().read_text(encoding="utf-8")


def test_all_work_goes_into_another_browser(reader):
    ana, ben = reader(), reader()
    page = ana.open("unit.html")
    choose(page.locator("form.prediction"), "a3")
    page.click("text=Finished, on to Experiment")
    choose(page.locator("form.question").first, "b2")
    page.click("text=Finished, on to Evidence")
    page.fill("textarea.note", "my evidence")
    page.click("text=Finished, on to My learning")
    page.wait_for_selector("#reviews table")
    name, text = save(page, "Export")
    assert name.startswith("training-systems-2")
    there = ben.open("learning.html")
    assert "Imported: " in bring(there, text)
    unlike = {"setting/seed"}
    kept = [one.evaluate("course.storage.all()") for one in (page, there)]
    assert {key: entry for key, entry in kept[0].items() if key not in unlike} == {
        key: entry for key, entry in kept[1].items() if key not in unlike
    }
    lesson = ben.open("unit.html#evidence")
    assert lesson.input_value("textarea.note") == "my evidence"
    assert lesson.is_checked("input[data-id='tiny-01/stage/evidence']")
    assert "0 new" in bring(there, text)


def test_newer_work_stays_on_both_sides(reader):
    page = reader().open("learning.html")
    bring(page, document({
        "note/tiny-01/evidence/1": {"at": AT, "text": "here", "earlier": []},
        "check/tiny-01/stage/understand": {"at": AT, "done": True},
        "question/k": {"at": AT, "ask": "?", "tries": [{"option": "a", "said": "a", "right": False, "at": AT}]},
    }))  # fmt: skip
    said = bring(page, document({
        "note/tiny-01/evidence/1": {"at": EARLY, "text": "older", "earlier": []},
        "check/tiny-01/stage/understand": {"at": EARLY, "done": False},
        "check/tiny-01/evidence/1": {"at": LATE, "done": True},
        "question/k": {"at": EARLY, "ask": "?", "tries": [{"option": "b", "said": "b", "right": True, "at": EARLY}]},
    }))  # fmt: skip
    assert said.startswith("Imported: 1 new, 2 brought up to date, 1 kept as they are here")
    kept = page.evaluate("course.storage.all()")
    assert kept["note/tiny-01/evidence/1"]["text"] == "here"
    assert [one["text"] for one in kept["note/tiny-01/evidence/1"]["earlier"]] == ["older"]
    assert kept["check/tiny-01/stage/understand"]["done"] is True
    assert [one["option"] for one in kept["question/k"]["tries"]] == ["b", "a"]
    bring(page, document({"note/tiny-01/evidence/1": {"at": LATE, "text": "newest", "earlier": []}}))
    assert page.evaluate("course.storage.get('note/tiny-01/evidence/1').text") == "newest"


def test_an_older_export_is_read(reader):
    page = reader().open("learning.html")
    said = bring(
        page,
        {
            "course": "training-systems",
            "format": 0,
            "saved": AT,
            "done": ["tiny-01/stage/understand"],
            "notes": {},
            "predictions": {},
        },
    )
    assert "1 new" in said
    assert "1 of 3 stages" in page.inner_text("#progress")


HOSTILE = {
    "not JSON": ("<script>alert(1)</script>", "it is not JSON"),
    "another site": ({"course": "other", "format": 1, "entries": {}}, "not exported by this site"),
    "no object": ("[1]", "not exported by this site"),
    "null": ("null", "not exported by this site"),
    "newer": (document({}, format=2), "only a newer version"),
    "no format": (document({}, format="1"), "does not say its format"),
    "negative": (document({}, format=-1), "does not say its format"),
    "list": (document([]), "no entries"),
    "no entries": (document(None), "no entries"),
    "deep": ('{"course": "training-systems", "format": 1, "entries": ' + "[" * 100_000 + "]" * 100_000 + "}", "nested deeper"),
    "large": (" " * 5_000_001, "larger than 5 MB"),
    "many": (document({f"check/{place}": {"at": AT, "done": True} for place in range(10_001)}), "more than 10000"),
    "old with nonsense": ({"course": "training-systems", "format": 0, "done": 5}, "Nothing was imported"),
    "not text": (b"\xff\xfe\x00\x80", "it is not JSON"),
}


@pytest.mark.parametrize("name", HOSTILE)
def test_a_file_that_is_none_of_ours_changes_nothing(reader, name):
    page = reader().open("learning.html")
    page.evaluate("course.storage.set('check/tiny-01/stage/understand', { done: true })")
    before = page.evaluate("JSON.stringify(localStorage)")
    content, reason = HOSTILE[name]
    assert reason in bring(page, content, "<b>work</b>.json")
    assert page.evaluate("JSON.stringify(localStorage)") == before
    assert page.locator(".transfer-result b").count() == 0


BAD = {
    "key": ("script/x", {"at": AT}),
    "prototype": ("__proto__", {"at": AT, "done": True}),
    "constructor": ("constructor/x", {"at": AT, "done": True}),
    "spaces": ("check/ x", {"at": AT, "done": True}),
    "long key": ("check/" + "x" * 300, {"at": AT, "done": True}),
    "type": ("check/x", {"at": AT, "done": "yes"}),
    "missing": ("check/x", {"at": AT}),
    "no object": ("check/x", 5),
    "list": ("check/x", []),
    "time": ("check/x", {"at": "yesterday", "done": True}),
    "no such day": ("review/x", {"at": AT, "finished": "2026-02-30", "done": []}),
    "day": ("review/x", {"at": AT, "finished": "2026-2-3", "done": []}),
    "too long": ("note/x", {"at": AT, "text": "x" * 20_001, "earlier": []}),
    "too many": ("question/x", {"at": AT, "ask": "", "tries": [{"option": "", "said": "", "right": True, "at": AT}] * 201}),
    "text that is a number": ("note/x", {"at": AT, "text": 5, "earlier": []}),
    "setting": ("setting/x", {"at": AT, "value": {"a": 1}}),
}


@pytest.mark.parametrize("name", BAD)
def test_a_bad_entry_is_refused_and_the_others_are_taken(reader, name):
    page = reader().open("learning.html")
    key, value = BAD[name]
    said = bring(page, json.dumps(document({"check/good": {"at": AT, "done": True}, key: value})))
    assert "1 new" in said
    assert "Not taken: 1." in said
    assert page.evaluate("Object.keys(course.storage.all()).filter((key) => key !== 'setting/seed')") == ["check/good"]
    assert page.evaluate("({}).done") is None


def test_what_does_not_belong_to_an_entry_is_left_out(reader):
    page = reader().open("learning.html")
    bring(page, document({"check/x": {"at": AT, "done": True, "__proto__": {"a": 1}, "extra": "<b>"}}))
    assert page.evaluate("localStorage.getItem('training-systems:check/x')") == json.dumps({"at": AT, "done": True}).replace(
        " ", ""
    )


def test_a_time_to_come_does_not_win_for_ever(reader):
    page = reader().open("learning.html")
    bring(page, document({"note/tiny-01/evidence/1": {"at": "9999-01-01T00:00:00.000Z", "text": "from the future", "earlier": []}}))
    assert page.evaluate("course.storage.get('note/tiny-01/evidence/1').at <= new Date().toISOString()")


EVIL = '<img src=x onerror="window.evil = 1"><script>window.evil = 1</script>[x](javascript:window.evil=1)'


def test_nothing_imported_becomes_html(reader):
    ana = reader()
    page = ana.open("learning.html")
    tries = [{"option": "a1", "said": EVIL, "right": False, "at": AT}]
    bring(page, document({
        "note/tiny-01/evidence/1": {"at": AT, "text": EVIL, "earlier": [{"text": f"old {EVIL}", "at": AT}]},
        "note/tiny-01/more": {"at": AT, "text": EVIL, "earlier": []},
        "prediction/aaaa0000aaaa0000": {"at": AT, "ask": EVIL, "tries": tries},
        "question/gone": {"at": AT, "ask": EVIL, "tries": tries},
        "setting/name": {"at": AT, "value": EVIL[:150]},
        "place/tiny-01": {"at": AT, "unit": "tiny-01", "stage": "javascript:"},
    }))  # fmt: skip
    for path in ("learning.html", "index.html", "unit.html", "unit.html#evidence"):
        shown = ana.open(path)
        shown.eval_on_selector_all("details", "all => all.forEach((one) => { one.open = true; })")
        assert shown.locator("article img, article script").count() == 0
        assert shown.evaluate("window.evil") is None
    page.eval_on_selector_all("details", "all => all.forEach((one) => { one.open = true; })")
    assert EVIL in page.inner_text("#progress")
    text = page.evaluate("course.portfolio.markdown()")
    assert "\\<img" in text
    assert "\n<" not in text


def test_everything_is_erased_only_when_it_is_meant(reader):
    ana = reader()
    page = ana.open("learning.html")
    page.evaluate("localStorage.setItem('other', 'stays')")
    bring(page, document({"check/tiny-01/stage/understand": {"at": AT, "done": True}, "setting/name": {"at": AT, "value": "Ana"}}))
    other = ana.open("unit.html")
    page.bring_to_front()
    for leave in (lambda: page.keyboard.press("Escape"), lambda: page.get_by_role("button", name="Cancel").click()):
        page.get_by_role("button", name="Erase everything …").click()
        assert page.evaluate("document.activeElement.textContent") == "Cancel"
        leave()
        assert "1 of 3 stages" in page.inner_text("#progress")
    page.get_by_role("button", name="Erase everything …").click()
    _, text = save(page, "Export first")
    assert "stage/understand" in text
    page.locator("dialog").get_by_role("button", name="Erase everything").click()
    assert "0 of 3 stages" in page.inner_text("#progress")
    assert "Everything was erased" in page.inner_text(".transfer-result")
    assert page.evaluate("Object.keys(localStorage).sort()") == ["other", "training-systems:format"]
    other.wait_for_function("!document.querySelector(\"input[data-id='tiny-01/stage/understand']\").checked")


def test_the_portfolio_is_markdown_and_a_page_to_print(reader):
    page = reader().open("learning.html")
    bring(page, document({
        "note/tiny-01/evidence/1": {"at": AT, "text": "order: **4 0 1**\n\n    code", "earlier": []},
        "check/tiny-01/exercise/change": {"at": AT, "done": True},
        "reveal/tiny-01/exercise/change/hint-1": {"at": AT, "first": AT},
        "check/tiny-01/stage/understand": {"at": AT, "done": True},
        "prediction/aaaa0000aaaa0000": {"at": LATE, "ask": "Where *does* it?", "tries": [
            {"option": "a1", "said": "At 7", "right": False, "at": AT}, {"option": "a2", "said": "At 8", "right": True, "at": LATE},
        ]},
    }))  # fmt: skip
    page.fill("#portfolio-name", "Ana_B")
    page.press("#portfolio-name", "Tab")
    name, text = save(page, "Save as Markdown")
    assert name.startswith("portfolio-2")
    assert text.startswith("# Ana\\_B: Tiny course\n\nPortfolio of 2")
    for line in (
        "## A lesson by hand (tiny-01)",
        "Stages finished: Understand.",
        "- Where \\*does\\* it? (“At 7”: not right; try 2, “At 8”: right)",
        "- Change it (done, 1 hint opened)",
        "- The printed \\<b\\>order\\</b\\> (noted)",
        "> order: **4 0 1**\n>\n>     code",
    ):
        assert f"\n{line}\n" in text
    assert "The next lesson" not in text
    page.emulate_media(media="print")
    page.evaluate("window.dispatchEvent(new Event('beforeprint'))")
    assert page.is_visible("text=Ana_B: Tiny course")
    assert page.is_visible("#portfolio >> text=At 8")
    assert not page.is_visible("#progress")
    assert not page.is_visible("text=Save as Markdown")


def test_home_knows_where_the_reader_left(reader):
    ana = reader()
    assert "Begin with “A lesson by hand”" in ana.open("index.html").inner_text("#home-learning")
    page = ana.open("unit.html#experiment")
    page.goto(ana.home + "index.html")
    page.click("text=Go on with Experiment")
    page.wait_for_selector("html.course-ready #experiment:not([hidden])")
    for stage in ("understand", "experiment", "evidence"):
        page.evaluate("stage => course.storage.set(`check/tiny-01/stage/${stage}`, { done: true })", stage)
    page.goto(ana.home + "index.html")
    assert "Next: The next lesson" in page.inner_text("#home-learning")


def test_answers_to_changed_questions_are_still_shown(reader):
    page = reader().open("learning.html")
    bring(
        page,
        document(
            {"question/feed": {"at": AT, "ask": "Asked before", "tries": [{"option": "a", "said": "so", "right": True, "at": AT}]}}
        ),
    )
    page.click("text=Answers to questions that have changed since")
    assert page.is_visible("text=Asked before — so")
