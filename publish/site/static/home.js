/* Home: where the reader left, and what is due. */
(() => {
  "use strict";
  const course = (window.course ??= {});

  function resume() {
    const { make, url, units } = course.page;
    const last = course.progress.last();
    if (!last) {
      const first = units()[0];
      return first && make("p", {}, "Nothing begun yet. ", make("a", { href: url(first.url) }, `Begin with “${first.title}”`), ".");
    }
    const { unit, stage } = last;
    const state = course.progress.of(unit);
    const done = state.stages.filter((one) => one.done).length;
    const following = units()[units().findIndex((one) => one.id === unit.id) + 1];
    const link = make("a", { class: "course-button strong", href: url(unit.url, stage?.id) }, stage ? `Go on with ${stage.title}` : "Go on");
    return [
      make("p", {}, make("strong", {}, unit.title), `: ${done} of ${course.page.count(state.stages.length, "stage")} finished.`),
      state.finished && following
        ? make("p", {}, make("a", { class: "course-button strong", href: url(following.url) }, `Next: ${following.title}`))
        : make("p", {}, link),
    ];
  }

  function waiting() {
    const { make, url } = course.page;
    const due = course.progress.due(course.review.today());
    if (!due.length) return make("p", {}, "No review is due today.");
    return make("ul", {}, due.map(({ unit, due: { place, late } }) =>
      make("li", {}, make("a", { href: url("learning.html", "reviews") }, unit.title), `, review ${place}`, late ? `, due ${course.page.count(late, "day")} ago` : ", due today"),
    ));
  }

  function start() {
    const place = document.getElementById("home-learning");
    if (!place) return;
    const { make } = course.page;
    const show = () =>
      place.replaceChildren(
        make("section", { class: "course-card", "aria-labelledby": "resume-title" }, make("h2", { id: "resume-title" }, "Pick up where you left"), resume()),
        make("section", { class: "course-card", "aria-labelledby": "due-title" }, make("h2", { id: "due-title" }, "What is due"), waiting()),
      );
    course.storage.watch(show);
    show();
  }

  course.home = { start };
})();
