"""Stages: one at a time, by the address, with marks; all of them without scripts and on paper."""

import re


def shows(page, stage):
    page.wait_for_selector(f"#{stage}:not([hidden])")
    assert page.locator("section.stage:not([hidden])").count() == 1


def test_the_first_stage_is_shown_and_the_address_chooses(reader):
    ana = reader()
    page = ana.open("unit.html")
    shows(page, "understand")
    page.click("nav.stages a[href='#experiment']")
    shows(page, "experiment")
    assert page.evaluate("document.activeElement.textContent") == "Experiment"
    assert page.get_attribute("nav.stages a[href='#experiment']", "aria-current") == "step"
    page.go_back()
    shows(page, "understand")
    shows(ana.open("unit.html#evidence"), "evidence")
    shows(ana.open("unit.html#nowhere"), "understand")
    shows(ana.open("unit.html#%E0%A4%A"), "understand")


def test_a_link_into_a_stage_opens_what_hides_its_target(reader):
    page = reader().open("unit.html#deep")
    shows(page, "experiment")
    assert page.is_visible("#deep")


def test_a_link_to_a_result_that_was_not_predicted_leads_to_the_prediction(reader):
    page = reader().open("unit.html#result")
    assert not page.is_visible("#result")
    page.wait_for_function("document.activeElement.dataset.id === 'tiny-01/plot'")


def test_finishing_marks_the_stage_and_goes_on(reader):
    page = reader().open("unit.html")
    page.click("text=Finished, on to Experiment")
    shows(page, "experiment")
    assert page.is_checked("input[data-id='tiny-01/stage/understand']")
    assert "1 of 3 stages finished" in page.inner_text("nav.stages")
    assert "finished" in page.get_attribute("nav.stages a[href='#understand']", "class")
    page.click("text=Back: Understand")
    page.uncheck("input[data-id='tiny-01/stage/understand']")
    assert "0 of 3 stages finished" in page.inner_text("nav.stages")


def test_the_last_stage_finishes_the_lesson_and_begins_its_reviews(reader):
    page = reader().open("unit.html")
    page.click("text=Finished, on to Experiment")
    page.click("text=Finished, on to Evidence")
    page.click("text=Finished, on to My learning")
    assert page.url.endswith("learning.html")
    assert "A lesson by hand" in page.inner_text("#reviews")
    assert "In 1 day" in page.inner_text("#reviews")


def test_a_search_in_the_page_finds_other_stages(reader):
    page = reader().open("unit.html")
    assert page.get_attribute("#evidence", "hidden") == "until-found"
    page.evaluate("document.getElementById('evidence').dispatchEvent(new Event('beforematch'))")
    shows(page, "evidence")


def test_keys_lead_through_the_stages_and_can_be_turned_off(reader):
    ana = reader()
    page = ana.open("unit.html")
    page.keyboard.press("n")
    shows(page, "experiment")
    page.keyboard.press("3")
    shows(page, "evidence")
    page.keyboard.press("9")
    page.keyboard.press("Control+p")
    shows(page, "evidence")
    page.focus("textarea.note")
    page.keyboard.type("p1n")
    shows(page, "evidence")
    assert page.input_value("textarea.note") == "p1n"
    page.evaluate("document.activeElement.blur()")
    page.keyboard.press("p")
    shows(page, "experiment")
    page.keyboard.press("?")
    page.wait_for_selector("dialog[open]")
    page.keyboard.press("n")
    shows(page, "experiment")
    page.uncheck("dialog input")
    page.keyboard.press("Escape")
    page.keyboard.press("n")
    shows(page, "experiment")
    again = ana.open("unit.html")
    again.keyboard.press("n")
    shows(again, "understand")


def test_without_scripts_everything_is_there_in_reading_order(reader):
    page = reader(java_script_enabled=False).open("unit.html")
    text = page.inner_text("article")
    places = [
        text.index(word)
        for word in ("Words of the first stage", "Where does it begin?", "The result of the plot", "Second?", "Note")
    ]
    assert places == sorted(places)
    page.click("text=Answer >> nth=0")
    assert page.is_visible("text=Nine is tempting.")


def test_paper_holds_every_stage_and_no_button(reader):
    page = reader().open("unit.html")
    page.emulate_media(media="print")
    assert all(page.is_visible(f"#{stage} h2") for stage in ("understand", "experiment", "evidence"))
    assert page.is_visible("#result")
    assert [one for one in page.query_selector_all("button, nav") if one.is_visible()] == []
    assert re.match(rb"%PDF", page.pdf())
