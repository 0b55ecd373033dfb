/* How far the reader is with a unit, put together from the map of the course and from what is kept. */
(() => {
  "use strict";
  const course = (window.course ??= {});
  const get = (key) => course.storage.get(key);
  const done = (id) => get(`check/${id}`)?.done === true;
  const opened = (id) => get(`reveal/${id}`) !== null;

  /** A prediction or question: the tries at it, and how the first and the last went. */
  function choice(kind, { id, key }) {
    const entry = get(`${kind}/${key}`);
    const tries = entry?.tries ?? [];
    return { id, key, ask: entry?.ask ?? "", tries, first: tries[0]?.right === true, right: tries.at(-1)?.right === true };
  }

  function of(unit) {
    const stages = unit.stages.map((stage) => ({ ...stage, done: done(`${unit.id}/stage/${stage.id}`) }));
    const exercises = unit.exercises.map((one) => {
      const hints = ["hint-1", "hint-2"].filter((hint) => opened(`${one.id}/${hint}`)).length;
      return { ...one, done: done(one.id), hints, solution: opened(`${one.id}/solution`) };
    });
    const notes = course.storage.keys(`note/${unit.id}/`).map((key) => ({ id: key.slice("note/".length), ...get(key) }));
    const evidence = unit.evidence.map((one) => ({ ...one, done: done(one.id), note: get(`note/${one.id}`)?.text ?? "" }));
    const known = new Set(unit.evidence.map((one) => one.id));
    return {
      stages,
      exercises,
      evidence,
      notes: notes.filter((note) => !known.has(note.id) && note.text.trim()),
      predictions: unit.predictions.map((one) => choice("prediction", one)),
      questions: unit.questions.map((one) => choice("question", one)),
      review: get(`review/${unit.id}`),
      finished: stages.length > 0 && stages.every((stage) => stage.done),
      begun: get(`place/${unit.id}`) !== null || stages.some((stage) => stage.done),
    };
  }

  /** Begin the reviews of a unit that has just been finished; later changes of its marks leave them alone. */
  function settle(unit) {
    if (unit && of(unit).finished && !get(`review/${unit.id}`)) {
      course.storage.set(`review/${unit.id}`, { finished: course.review.today(), done: [] });
    }
  }

  /** Units whose review is due on this day, the longest waiting first. */
  function due(day) {
    const waiting = course.page.units().map((unit) => {
      const review = get(`review/${unit.id}`);
      return { unit, review, due: review && course.review.due(review, day) };
    });
    return waiting.filter((one) => one.due).sort((one, other) => (one.due.day < other.due.day ? -1 : 1));
  }

  /** Where the reader was last: the unit and its stage; null before the first lesson. */
  function last() {
    const places = course.storage.keys("place/").map(get).sort((one, other) => (one.at < other.at ? 1 : -1));
    for (const place of places) {
      const unit = course.page.unit(place.unit);
      if (unit) return { unit, stage: unit.stages.find((stage) => stage.id === place.stage) ?? unit.stages[0] };
    }
    return null;
  }

  /** Predictions and answers to what the course no longer asks in this form. */
  function outdated() {
    const asked = course.page.units().flatMap((unit) => [
      ...unit.predictions.map((one) => `prediction/${one.key}`), ...unit.questions.map((one) => `question/${one.key}`),
    ]);
    const known = new Set(asked);
    return [...course.storage.keys("prediction/"), ...course.storage.keys("question/")].filter((key) => !known.has(key)).map(get);
  }

  course.progress = { of, settle, due, last, outdated };
})();
