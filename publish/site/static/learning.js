/* My learning: what is due, how far each lesson is, and what was predicted, answered and noted. */
(() => {
  "use strict";
  const course = (window.course ??= {});

  const section = (id, title, ...children) =>
    course.page.make("section", { id, "aria-labelledby": `${id}-title` }, course.page.make("h2", { id: `${id}-title` }, title), ...children);

  // --- reviews ---------------------------------------------------------------------------------------------------

  function reviews() {
    const { make, button, url, units, count } = course.page;
    const today = course.review.today();
    const rows = units().flatMap((unit) => {
      const review = course.storage.get(`review/${unit.id}`);
      if (!review) return [];
      const [coming, due] = [course.review.next(review), course.review.due(review, today)];
      const days = coming && course.review.between(today, coming.day);
      const when = !coming ? "All reviews done" : due?.late ? `${count(due.late, "day")} late` : due ? "Today" : `In ${count(days, "day")}, on ${coming.day}`;
      const did = () => {
        course.storage.set(`review/${unit.id}`, course.review.did(review, course.review.today()));
        course.page.say(`Review of ${unit.title} kept.`);
        document.getElementById("reviews-title").focus();
      };
      return [
        make("tr", { class: due ? "due" : "" },
          make("th", { scope: "row" }, make("a", { href: url(unit.url) }, unit.title)),
          make("td", { "data-label": "Finished" }, review.finished),
          make("td", { "data-label": "Reviews" }, `${review.done.length} of ${course.review.INTERVALS.length}`),
          make("td", { "data-label": "Next" }, when, due && " ", due && button("Reviewed today", did, { "aria-label": `Reviewed today: ${unit.title}` }))),
      ];
    });
    const last = course.review.INTERVALS.at(-1);
    const rule = `A finished lesson comes back after ${course.review.INTERVALS.slice(0, -1).join(", ")} and ${last} days. Look at its questions again, then say so here.`;
    if (!rows.length) return [make("p", {}, `${rule} No lesson is finished yet.`)];
    const head = make("tr", {}, ["Lesson", "Finished", "Reviews", "Next"].map((word) => make("th", { scope: "col" }, word)));
    return [make("p", {}, rule), make("div", { class: "course-table", tabindex: "0", role: "region", "aria-label": "Table of the reviews" }, make("table", { class: "reviews" }, make("thead", {}, head), make("tbody", {}, rows)))];
  }

  // --- progress --------------------------------------------------------------------------------------------------

  const items = (title, list) => list.length > 0 && [course.page.make("h4", {}, title), course.page.make("ul", {}, list)];
  const state = (word, kind) => course.page.make("strong", { class: `state ${kind}` }, word);

  function choice(one) {
    const { make } = course.page;
    const last = one.tries.at(-1);
    const how = last.option === "" ? state("looked", "open") : one.first ? state("right", "right") : one.right ? state(`right at try ${one.tries.length}`, "right") : state("not right", "wrong");
    return make("li", {}, how, ` ${one.ask}`, last.said && make("span", { class: "said" }, ` — ${last.said}`));
  }

  /** Those that were tried, then how many are left. */
  function choices(list) {
    const left = list.filter((one) => !one.tries.length).length;
    const tried = list.filter((one) => one.tries.length).map(choice);
    return left ? [...tried, course.page.make("li", {}, state("open", "open"), ` ${left} of ${list.length}`)] : tried;
  }

  function details(unit, now) {
    const { make, url } = course.page;
    const mark = (done) => state(done ? "done" : "open", done ? "right" : "open");
    const help = (one) => [one.hints && course.page.count(one.hints, "hint"), one.solution && "solution"].filter(Boolean).join(" and ");
    const written = (text) => text.trim() && make("pre", { class: "written" }, text);
    return [
      items("Stages", now.stages.map((one) => make("li", {}, mark(one.done), " ", make("a", { href: url(unit.url, one.id) }, one.title)))),
      items("Predictions", choices(now.predictions)),
      items("Quiz", choices(now.questions)),
      items("Exercises", now.exercises.map((one) => make("li", {}, mark(one.done), ` ${one.title}`, help(one) && `, with ${help(one)} opened`))),
      items("Evidence", now.evidence.map((one) => make("li", {}, mark(one.done), ` ${one.item}`, written(one.note)))),
      items("Notes", now.notes.map((one) => make("li", {}, one.id.slice(unit.id.length + 1), written(one.text)))),
    ].filter(Boolean).flat();
  }

  function progress(open) {
    const { make, phases, count } = course.page;
    return phases().filter((phase) => phase.units.length).map((phase) =>
      make("div", { class: "course-phase" }, make("h3", {}, `Phase ${phase.id}: ${phase.title}`), phase.units.map((unit) => {
        const now = course.progress.of(unit);
        const done = now.stages.filter((one) => one.done).length;
        const sum = `${done} of ${count(now.stages.length, "stage")}`;
        const meter = make("progress", { max: now.stages.length || 1, value: done, "aria-label": `${unit.title}: ${sum}` });
        return make("details", { class: "course-unit", "data-unit": unit.id, open: open.has(unit.id) },
          make("summary", {}, make("span", { class: "unit-title" }, unit.title), make("span", { class: "unit-sum" }, sum), meter), details(unit, now));
      })));
  }

  function outdated() {
    const { make } = course.page;
    const old = course.progress.outdated();
    if (!old.length) return null;
    return make("details", {}, make("summary", {}, "Answers to questions that have changed since"),
      make("ul", {}, old.map((one) => make("li", {}, `${one.ask} — ${one.tries.at(-1)?.said ?? ""}`))));
  }

  // --- the page --------------------------------------------------------------------------------------------------

  function start() {
    const place = document.getElementById("learning-view");
    if (!place) return;
    const { make } = course.page;
    const [due, far, folio] = [make("div"), make("div"), make("details", { class: "portfolio-view" })];
    const show = () => {
      const open = new Set([...far.querySelectorAll("details[open]")].map((one) => one.dataset.unit));
      due.replaceChildren(...reviews());
      far.replaceChildren(...progress(open), ...[outdated()].filter(Boolean));
      folio.replaceChildren(make("summary", {}, "Show it here"), ...course.portfolio.view());
    };
    place.replaceChildren(
      section("reviews", "Reviews", due),
      section("progress", "Progress", far),
      section("keep", "Keep your work", course.transfer.view()),
      section("portfolio", "Portfolio", course.portfolio.controls(), folio),
      section("settings", "Settings", make("p", {}, course.shortcuts.toggle("Keyboard shortcuts (“?” lists them)"))),
    );
    for (const title of place.querySelectorAll("h2")) title.tabIndex = -1;
    window.addEventListener("beforeprint", () => (folio.open = true));
    course.storage.watch(show);
    show();
    if (location.hash) document.getElementById(location.hash.slice(1))?.scrollIntoView();
  }

  course.learning = { start };
})();
