"""Reviews: calendar days, five of them, and what lateness moves."""

import pytest


def following(scripts, finished, done):
    found = scripts.evaluate("([finished, done]) => course.review.next({ finished, done })", [finished, done])
    return found and (found["place"], found["day"])


def test_who_is_in_time_reviews_after_1_3_7_21_and_60_days(scripts):
    done, seen = [], []
    for _ in range(5):
        place, day = following(scripts, "2026-01-31", done)
        seen.append(day)
        done.append(day)
        assert place == len(done)
    assert seen == ["2026-02-01", "2026-02-03", "2026-02-07", "2026-02-21", "2026-04-01"]
    assert following(scripts, "2026-01-31", done) is None


def test_lateness_moves_what_follows_and_haste_does_not(scripts):
    assert following(scripts, "2026-01-01", ["2026-01-10"]) == (2, "2026-01-12")
    assert following(scripts, "2026-01-01", ["2026-01-01"]) == (2, "2026-01-04")


@pytest.mark.parametrize(("day", "late"), [("2026-01-01", None), ("2026-01-02", 0), ("2026-01-05", 3)])
def test_due_from_its_day_on(scripts, day, late):
    found = scripts.evaluate("day => course.review.due({ finished: '2026-01-01', done: [] }, day)", day)
    assert (found and found["late"]) == late


@pytest.mark.parametrize(
    ("day", "days", "then"),
    [
        ("2028-02-28", 1, "2028-02-29"),
        ("2026-12-31", 1, "2027-01-01"),
        ("2026-03-28", 2, "2026-03-30"),
        ("2026-03-01", -1, "2026-02-28"),
    ],
)
def test_days_are_counted_in_the_calendar(scripts, day, days, then):
    assert scripts.evaluate("([day, days]) => course.review.later(day, days)", [day, days]) == then
    assert scripts.evaluate("([day, then]) => course.review.between(day, then)", [day, then]) == days


@pytest.mark.parametrize(
    ("zone", "day"), [("Pacific/Auckland", "2026-11-30"), ("America/Los_Angeles", "2026-11-29"), ("UTC", "2026-11-29")]
)
def test_today_is_the_readers_day(reader, zone, day):
    page = reader(timezone_id=zone).open("learning.html")
    assert page.evaluate("course.review.today(new Date('2026-11-29T20:00:00Z'))") == day


def test_a_review_is_shown_done_and_comes_again(reader):
    ana = reader()
    page = ana.open("index.html")
    page.evaluate("course.storage.set('review/tiny-01', { finished: course.review.later(course.review.today(), -4), done: [] })")
    page.reload()
    assert "A lesson by hand, review 1, due 3 days ago" in page.inner_text("#home-learning")
    page.click("#home-learning a[href$='#reviews']")
    page.get_by_role("button", name="Reviewed today: A lesson by hand").click()
    assert "1 of 5" in page.inner_text("#reviews")
    assert "In 2 days" in page.inner_text("#reviews")
    assert page.evaluate("document.activeElement.id") == "reviews-title"
    assert "No review is due today." in ana.open("index.html").inner_text("#home-learning")
