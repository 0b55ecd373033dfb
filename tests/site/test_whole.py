"""The whole site in a real browser: the way of a learner, without a network, for every reader, on every page."""

import io
import json
import re
import zipfile

import pytest
from axe_playwright_python.sync_playwright import Axe
from pypdf import PdfReader

from tests.site.test_choices import choose
from tests.site.test_transfer import bring, save

LESSON = "phases/06-recovery/recovery-01.html"
PHONE = {"viewport": {"width": 390, "height": 844}, "is_mobile": True, "has_touch": True}
# `preload` would fetch the style sheets once more.
OPTIONS = {"resultTypes": ["violations"], "preload": False}
STANDARD = {**OPTIONS, "runOnly": ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa", "best-practice"]}
COLORS = {**OPTIONS, "runOnly": {"type": "rule", "values": ["color-contrast", "link-in-text-block"]}}


@pytest.fixture
def home(whole):
    return f"{whole.as_uri()}/"


def pages(whole):
    found = sorted(path.relative_to(whole).as_posix() for path in whole.rglob("*.html") if "_static" not in path.parts)
    assert {"index.html", "learning.html", LESSON} <= set(found)
    return found


def stages(page):
    return page.eval_on_selector_all("section.stage", "all => all.map((one) => one.id)")


def show(page, stage):
    page.evaluate("stage => { location.hash = stage; }", stage)
    page.wait_for_selector(f"section.stage#{stage}:not([hidden])")


def right(form):
    return form.locator(".feedback[data-correct=true]").get_attribute("data-option")


def wrong(form):
    return form.locator(".feedback[data-correct=false]").first.get_attribute("data-option")


def walk(page):
    """The whole of the first lesson, from home to evidence, by what is seen on the pages."""
    page.click("#home-learning a:has-text('Begin with')")
    page.wait_for_selector("html.course-ready section.stage")
    for stage in stages(page):
        page.wait_for_selector(f"section.stage#{stage}:not([hidden])")
        for form in page.locator("form.prediction:visible").all():
            result = page.locator(f".revealed[data-for='{form.get_attribute('data-id')}']")
            assert result.count() > 0
            assert not result.first.is_visible()
            choose(form, wrong(form))
            assert result.first.is_visible()
        for form in page.locator("form.question:visible").all():
            choose(form, wrong(form))
        if page.locator(".quiz:visible").count():
            page.get_by_role("button", name="Ask what went wrong again").click()
            for form in page.locator("form.question").all():
                choose(form, right(form))
            assert re.search(r"(\d+) of \1 answered, \1 right, 0 at the first try", page.inner_text(".quiz"))
        for box in page.locator("input.done:visible").all():
            if "/stage/" not in box.get_attribute("data-id"):
                box.check()
        for number, area in enumerate(page.locator("textarea.note:visible").all()):
            area.fill(f"note {number}")
        page.click(f"section.stage#{stage} .stage-steps a:has-text('Finished')")
    page.wait_for_selector("#reviews table")


def work(page):
    return {
        key: entry for key, entry in page.evaluate("course.storage.all()").items() if not key.startswith(("setting/", "place/"))
    }


def test_a_learner_goes_from_home_to_evidence_and_takes_it_along(reader, home):
    ana, ben = reader(home), reader(home)
    page = ana.open("index.html")
    walk(page)
    assert re.search(r"(\d+) of \1 stages", page.inner_text("#progress"))
    before = work(page)
    kinds = {key.split("/")[0] for key in before}
    assert {"check", "note", "prediction", "question", "review"} <= kinds
    page.reload()
    page.wait_for_selector("#reviews table")
    assert work(page) == before
    _, exported = save(page, "Export")
    _, portfolio = save(page, "Save as Markdown")
    assert "> note 0" in portfolio
    there = ben.open("learning.html")
    assert "Not taken" not in bring(there, exported)
    assert work(there) == before
    lesson = ben.open(f"{LESSON}#evidence")
    assert lesson.locator("textarea.note").first.input_value() == "note 0"
    assert "Next: " in ben.open("index.html").inner_text("#home-learning")


def test_words_that_answer_a_prediction_wait_for_it(reader, home):
    page = reader(home).open("phases/06-recovery/recovery-03.html#experiment")
    page.wait_for_selector("section.stage#experiment:not([hidden])")
    name = "recovery-03/omissions"
    results = page.locator(f".revealed[data-for='{name}']")
    told = "lost key even lowers it"
    assert results.count() == 2
    assert [one.is_visible() for one in results.all()] == [False, False]
    assert told not in page.inner_text("body")
    form = page.locator(f"form.prediction[data-id='{name}']")
    choose(form, wrong(form))
    assert [one.is_visible() for one in results.all()] == [True, True]
    assert told in page.inner_text("#experiment")
    page.reload()
    assert told in page.inner_text("#experiment")


def test_a_lesson_works_on_when_the_server_is_gone(reader, server):
    ana = reader(server.home)
    page = ana.open(LESSON)
    page.wait_for_function("[...document.images].every((one) => one.complete)")
    server.stop()
    ana.context.set_offline(True)
    form = page.locator("form.prediction").first
    choose(form, right(form))
    for stage in stages(page):
        show(page, stage)
    page.locator("textarea.note:visible").first.fill("written without a network")
    page.evaluate("document.activeElement.blur()")
    assert "written without a network" in page.evaluate("JSON.stringify(course.storage.all())")


def test_search_finds_without_a_network(reader, home):
    page = reader(home).open("search.html?q=permutation")
    page.wait_for_selector("#search-results ul.search li")
    assert "recovery-01" in page.inner_html("#search-results")


@pytest.mark.parametrize(
    ("path", "kinds"),
    [(LESSON, {"ipynb", "py", "md", "json", "svg", "png"}), ("phases/06-recovery/index.html", {"zip"}), ("index.html", {"zip"})],
)
def test_every_download_arrives(reader, server, whole, path, kinds):
    ana, seen = reader(server.home), set()
    links = "a[href*='downloads/']"
    unstaged = "all => [...new Set(all.filter((one) => !one.closest('.stage')).map((one) => one.getAttribute('href')))]"
    for address in ana.open(path).eval_on_selector_all(links, unstaged):
        page = ana.open(path)  # of one page, Chromium takes ten downloads before it asks
        page.eval_on_selector_all("details", "all => all.forEach((one) => { one.open = true; })")
        with page.expect_download() as download:
            page.locator(f"a[href='{address}']").first.click()
        blob = download.value.path().read_bytes()
        assert blob == ((whole / path).parent / address).read_bytes()
        if address.endswith(".ipynb"):
            assert json.loads(blob)["cells"]
        if address.endswith(".zip"):
            assert zipfile.ZipFile(io.BytesIO(blob)).testzip() is None
        seen.add(address.rpartition(".")[2])
        page.close()
    assert kinds <= seen


def describe(violation):
    nodes = [f"{node['target'][0]} {' '.join(node.get('failureSummary', '').split())[:200]}" for node in violation["nodes"][:3]]
    return f"{violation['id']}: {violation['help']}: {nodes}"


def examine(page, where, *, code=False):
    """What axe has to say: by every rule in the light, by those of color in the dark too.

    Every word of highlighted code has a color, out of a few: that is looked at once, with ``code``.
    """
    found = []
    if not page.evaluate("'axe' in window"):
        page.evaluate(Axe().axe_script)
    page.eval_on_selector_all("article details", "all => all.forEach((one) => { one.open = true; })")
    page.evaluate(
        "() => new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)))"
    )  # what was opened has its size
    parts = {} if code else {"exclude": [[".highlight pre > span"]]}
    for scheme, rules in (("light", STANDARD), ("dark", COLORS)):
        page.emulate_media(color_scheme=scheme, reduced_motion="reduce")  # no color half-way between two themes
        results = page.evaluate("([parts, rules]) => axe.run({ include: [['html']], ...parts }, rules)", [parts, rules])
        found += [f"{where} ({scheme}): {describe(one)}" for one in results["violations"]]
    return found


def test_axe_would_find_what_is_wrong(reader):
    page = reader(checked=False).open("unit.html")
    page.evaluate(
        "document.querySelector('article').insertAdjacentHTML('beforeend', '<img src=\"data:,\"><p style=\"color: #ccc; background: #fff\">pale</p>')"
    )
    page.evaluate("document.body.insertAdjacentHTML('beforeend', '<p>in no part of the page</p>')")
    found = examine(page, "unit")
    assert [one for one in found if "image-alt" in one]
    assert [one for one in found if one.startswith("unit (light): region:") and "body > p" in one]
    assert [one for one in found if "color-contrast" in one and "(dark)" in one]


def test_every_page_is_for_everybody_in_both_themes(reader, home, whole):
    ana, found, units = reader(home), [], set()
    for path in pages(whole):
        page = ana.open(path)
        if stages(page):
            units.add(path)
        else:
            found += examine(page, path)
        page.close()
    assert found == []
    assert units == set(UNITS), "and their stages are looked at below"


UNITS = [f"phases/06-recovery/recovery-0{number}.html" for number in range(1, 7)]
UNITS += ["projects/engineering-release.html", "projects/recovery-audit.html"]


@pytest.mark.parametrize("path", UNITS)
def test_every_stage_is_for_everybody_in_both_themes(reader, home, path):
    ana, found = reader(home), []
    for stage in stages(ana.open(path)):
        page = ana.open(f"{path}#{stage}")
        page.wait_for_selector(f"section.stage#{stage}:not([hidden])")
        # Right, wrong, not answered: each look of a form is there.
        for place, form in enumerate(page.locator("form:is(.prediction, .question):visible").all()):
            if place % 3 < 2:
                choose(form, wrong(form) if place % 3 else right(form))
        # axe would look through all that is hidden, at the price of minutes.
        page.eval_on_selector_all("section.stage[hidden]", "all => all.forEach((one) => one.remove())")
        found += examine(page, f"{path}#{stage}")
        page.close()
    assert found == []


def test_code_can_be_read_in_both_themes(reader, home):
    page = reader(home).open(f"{LESSON}#build-run")
    page.eval_on_selector_all("section.stage[hidden]", "all => all.forEach((one) => one.remove())")
    assert examine(page, LESSON, code=True) == []


@pytest.mark.parametrize("path", ["index.html", "learning.html"])
def test_what_a_learner_sees_of_own_work_is_for_everybody(reader, home, path):
    ana = reader(home)
    page = ana.open("index.html")
    walk(page)
    page.evaluate("course.storage.set('review/recovery-01', { finished: '2026-01-01', done: [] })")
    page = ana.open(path)
    assert page.evaluate("course.progress.due(course.review.today()).length") == 1
    found = examine(page, path)
    page.get_by_role("button", name="Keyboard shortcuts").click()
    page.wait_for_selector("dialog[open]")
    assert found + examine(page, f"{path}, shortcuts") == []


def wide(page):
    """What sticks out on the right; a box with a scrollbar of its own is as wide as it is."""
    return page.evaluate("() => document.documentElement.scrollWidth - document.documentElement.clientWidth")


def test_no_page_scrolls_sideways_on_a_phone(reader, home, whole):
    ana = reader(home, **PHONE)
    found = {}
    for path in pages(whole):
        page = ana.open(path)
        page.eval_on_selector_all("details", "all => all.forEach((one) => { one.open = true; })")
        for form in page.locator("form.prediction").all():
            form.evaluate("one => one.querySelector('.course-row .quiet')?.click()")
        for stage in stages(page) or [""]:
            if stage:
                show(page, stage)
            if wide(page) > 0:
                found[f"{path}#{stage}"] = wide(page)
        page.close()
    assert found == {}


def test_a_sheet_of_paper_holds_the_whole_lesson(reader, home):
    page = reader(home).open(f"{LESSON}#experiment")
    titles = page.eval_on_selector_all("section.stage > :is(h1, h2)", "all => all.map((one) => one.firstChild.textContent.trim())")
    last = page.eval_on_selector_all(
        "section.stage",
        "all => all.map((one) => [...one.querySelectorAll('p')].at(-1).textContent.trim().split(/\\s+/).slice(0, 4).join(' '))",
    )
    text = re.sub(r"\s+", " ", "\n".join(sheet.extract_text() for sheet in PdfReader(io.BytesIO(page.pdf())).pages))
    assert len(titles) == 5
    for title in titles:
        assert title in text
    for words in last:
        assert words in text
    for control in (
        "Commit and see",
        "Answer again",
        "Check my answer",
        "Keyboard shortcuts",
        "Finished, on to",
        "Skip to content",
    ):
        assert control not in text


def test_without_scripts_every_lesson_is_whole(reader, home, whole):
    ana = reader(home, java_script_enabled=False)
    for path in pages(whole):
        page = ana.open(path)
        for one in page.query_selector_all("section.stage, form.prediction, form.question, .revealed"):
            assert one.is_visible()
        page.close()


def focused(page):
    return page.evaluate("""() => {
      const box = document.activeElement.getBoundingClientRect();
      return [document.activeElement.tagName, document.activeElement.textContent.trim(), box.width > 0 && box.height > 0];
    }""")


def tab_to(page, selector, most=120):
    for _ in range(most):
        page.keyboard.press("Tab")
        if page.evaluate("selector => document.activeElement.matches(selector)", selector):
            return
    raise AssertionError(f"{selector} is not reached by Tab; the focus is on {focused(page)}")


def test_the_key_of_the_search_obeys_the_same_switch(reader, home):
    page = reader(home).open("index.html")
    for value, tag in ((True, "INPUT"), (False, "BODY")):
        page.evaluate("value => course.storage.set('setting/shortcuts', { value })", value)
        page.keyboard.press("/")
        assert focused(page)[0] == tag
        page.evaluate("document.activeElement.blur()")


def test_a_lesson_can_be_worked_with_the_keyboard_alone(reader, home):
    page = reader(home).open(LESSON)
    page.keyboard.press("Tab")
    assert "Skip to content" in focused(page)[1]
    page.keyboard.press("Enter")
    tab_to(page, "nav.stages a[href='#understand']")
    tab_to(page, "form.prediction input[type=radio]")
    page.keyboard.press("ArrowDown")
    page.keyboard.press("Tab")
    assert focused(page)[1] == "Commit and see"
    page.keyboard.press("Enter")
    assert focused(page)[1:] == ["Predict again", True]
    assert page.locator(".revealed:visible").count() > 0
    outline = page.evaluate("getComputedStyle(document.activeElement).outlineWidth")
    assert outline != "0px"
    tab_to(page, "#understand input.done")
    page.keyboard.press("Space")
    assert page.is_checked("#understand .stage-done input")
    tab_to(page, "#understand .stage-steps a.strong")
    page.keyboard.press("Enter")
    page.wait_for_selector("#build-run:not([hidden])")
    page.wait_for_function("document.activeElement.closest('#build-run') !== null")
    page.keyboard.press("p")
    page.wait_for_selector("#understand:not([hidden])")


def test_every_form_of_the_site_keeps_to_the_map(reader, home, whole):
    ana = reader(home)
    index = ana.open("index.html")
    units = index.evaluate("window.courseData.phases.flatMap((phase) => phase.units)")
    assert len(units) == 8
    for unit in units:
        page = ana.open(unit["url"])
        assert stages(page) == [one["id"] for one in unit["stages"]]
        for kind, selector in (("predictions", "form.prediction"), ("questions", "form.question")):
            on_page = page.eval_on_selector_all(selector, "all => all.map((one) => ({ id: one.dataset.id, key: one.dataset.key }))")
            assert on_page == unit[kind], unit["id"]
        for form in page.locator("form:is(.prediction, .question)").all():
            assert form.locator(".feedback[data-correct=true]").count() == 1
            assert form.locator(".feedback").count() == form.locator("input").count() >= 2
        marks = page.eval_on_selector_all("input.done", "all => all.map((one) => one.dataset.id)")
        assert len(marks) == len(set(marks))
        for one in [*unit["exercises"], *unit["evidence"]]:
            assert one["id"] in marks, one
        page.close()
    keys = [one["key"] for unit in units for kind in ("predictions", "questions") for one in unit[kind]]
    assert len(keys) == len(set(keys))
