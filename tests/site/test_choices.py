"""Predictions and the quiz: committed before it is shown, kept, asked again as a further try."""

PLOT = "form.prediction"


def choose(form, value):
    form.locator(f"input[value='{value}']").check()
    form.locator("button[type=submit]").click()


def stored(page, key):
    return page.evaluate("key => course.storage.get(key)", key)


def test_nothing_is_told_before_the_reader_commits(reader):
    page = reader().open("unit.html")
    form = page.locator(PLOT)
    assert not page.is_visible("#result")
    assert form.locator(".feedback:visible").count() == 0
    form.locator("button[type=submit]").click()
    assert "Choose one" in form.locator("[role=status]").inner_text()
    assert stored(page, "prediction/aaaa0000aaaa0000") is None
    assert not page.is_visible("#result")


def test_a_committed_prediction_is_kept_and_explained(reader):
    ana = reader()
    page = ana.open("unit.html")
    choose(page.locator(PLOT), "a3")
    for again in (page, ana.open("unit.html")):
        form = again.locator(PLOT)
        assert again.is_visible("#result")
        assert "Not as you predicted" in form.inner_text()
        assert "Nine is tempting." in form.inner_text()
        assert "Eight it is." in form.inner_text()
        assert form.locator("input:checked").get_attribute("value") == "a3"
        assert form.locator("input:enabled").count() == 0
        assert not form.locator("button[type=submit]").is_visible()
    entry = stored(page, "prediction/aaaa0000aaaa0000")
    assert entry["ask"] == "Where does it begin?"
    assert [(one["option"], one["said"], one["right"]) for one in entry["tries"]] == [("a3", "At 9", False)]


def test_a_second_prediction_stands_beside_the_first(reader):
    page = reader().open("unit.html")
    form = page.locator(PLOT)
    choose(form, "a1")
    form.get_by_role("button", name="Predict again").click()
    assert page.is_visible("#result")
    assert form.locator(".feedback:visible").count() == 0
    choose(form, "a2")
    assert "This is try 2; your first prediction was “At 7”." in form.inner_text()
    assert [one["right"] for one in stored(page, "prediction/aaaa0000aaaa0000")["tries"]] == [False, True]


def test_who_only_looks_has_not_predicted(reader):
    page = reader().open("unit.html")
    form = page.locator(PLOT)
    form.get_by_role("button", name="Show without predicting").click()
    assert page.is_visible("#result")
    assert "without predicting" in form.inner_text()
    assert form.locator("input:checked").count() == 0
    assert stored(page, "prediction/aaaa0000aaaa0000")["tries"][0]["option"] == ""


def test_a_wrong_answer_explains_itself_alone_and_is_asked_again(reader):
    page = reader().open("unit.html#quiz")
    first, second = page.locator("form.question").all()
    retry = page.get_by_role("button", name="Ask what went wrong again")
    choose(first, "b3")
    assert "Three is wrong." in first.inner_text()
    assert "One is right." not in first.inner_text()
    assert not retry.is_visible()
    choose(second, "c2")
    assert "Green is right." in second.inner_text()
    assert "Red is wrong." in second.inner_text()
    assert "2 of 2 answered, 1 right, 1 at the first try." in page.inner_text(".quiz")
    retry.click()
    assert first.locator("input:enabled").count() == 4
    assert first.locator("input:checked").count() == 0
    assert second.locator("input:enabled").count() == 0
    assert page.evaluate("document.activeElement.closest('form').dataset.id") == "tiny-01/first"
    choose(first, "b1")
    assert "2 of 2 answered, 2 right, 1 at the first try." in page.inner_text(".quiz")
    assert not retry.is_visible()
    assert [one["option"] for one in stored(page, "question/bbbb0000bbbb0000")["tries"]] == ["b3", "b1"]


def test_a_changed_question_is_asked_anew(reader):
    ana = reader()
    page = ana.open("unit.html#quiz")
    choose(page.locator("form.question").first, "b1")
    changed = ana.open(
        "unit.html#quiz",
        "addEventListener('DOMContentLoaded', () => document.querySelector('form.question').dataset.key = 'dddd0000dddd0000', true)",
    )
    assert changed.locator("form.question").first.locator("input:enabled").count() == 4
    assert stored(changed, "question/bbbb0000bbbb0000")["tries"][0]["option"] == "b1"


def order(page):
    return page.eval_on_selector_all("form.question:first-of-type input", "all => all.map(one => one.value)")


def test_the_order_of_answers_is_the_readers_own_and_stays(reader):
    ana = reader()
    first = order(ana.open("unit.html#quiz"))
    assert sorted(first) == ["b1", "b2", "b3", "b4"]
    assert order(ana.open("unit.html#quiz")) == first
    places = ana.open("unit.html").evaluate(
        """() => [...Array(400).keys()].map((seed) => course.quiz.shuffled(['b1', 'b2', 'b3', 'b4'], `${seed} key`).indexOf('b1'))"""
    )
    # Of 400 readers about 100 have the right answer at each place; 60 is more than four standard deviations away.
    assert all(60 < places.count(place) < 140 for place in range(4))


def test_two_answers_at_one_moment_are_both_kept(scripts):
    merged = scripts.evaluate("""() => {
      const at = '2026-01-01T00:00:00.000Z', one = (option) => ({ at, ask: 'x', tries: [{ option, said: '', right: false, at }] });
      const both = [course.entries.merge('question/k', one('a'), one('b')), course.entries.merge('question/k', one('b'), one('a'))];
      return both.map((each) => each.tries.map((each) => each.option).join(''));
    }""")
    assert merged == ["ab", "ab"]


def test_only_so_many_tries_are_kept_but_always_the_first(scripts):
    tries = scripts.evaluate("() => course.entries.trim([...Array(300).keys()])")
    assert (tries[0], tries[1], tries[-1], len(tries)) == (0, 101, 299, 200)
