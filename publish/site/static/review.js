/* When a finished lesson is looked at again. Days are calendar days of the reader, written 2026-11-30. Pure functions. */
(() => {
  "use strict";
  const course = (window.course ??= {});

  const INTERVALS = [1, 3, 7, 21, 60]; // days after the lesson was finished

  const number = (day) => Date.parse(`${day}T00:00:00Z`) / 86_400_000;
  const later = (day, days) => new Date((number(day) + days) * 86_400_000).toISOString().slice(0, 10);
  const between = (from, to) => number(to) - number(from);

  /** The reader's calendar day at this moment. */
  function today(now = new Date()) {
    const two = (part) => String(part).padStart(2, "0");
    return `${now.getFullYear()}-${two(now.getMonth() + 1)}-${two(now.getDate())}`;
  }

  /**
   * The next review: its place (1 to 5) and day; null after the last one.
   *
   * A review that came late moves the following ones, so that the gaps between them stay.
   */
  function next(review) {
    const place = review.done.length;
    if (place >= INTERVALS.length) return null;
    const planned = later(review.finished, INTERVALS[place]);
    if (place === 0) return { place: 1, day: planned };
    const spaced = later(review.done[place - 1], INTERVALS[place] - INTERVALS[place - 1]);
    return { place: place + 1, day: spaced > planned ? spaced : planned };
  }

  /** Whether the next review is to be done on this day, and by how many days it is late. */
  function due(review, day) {
    const coming = next(review);
    return coming && coming.day <= day ? { ...coming, late: between(coming.day, day) } : null;
  }

  /** The entry after a review was done on this day. One a day counts. */
  const did = (review, day) => ({ ...review, done: review.done.includes(day) ? review.done : [...review.done, day].sort() });

  course.review = { INTERVALS, today, later, between, next, due, did };
})();
