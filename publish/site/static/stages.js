/* One stage of a lesson or project at a time, addressed by the hash. */
(() => {
  "use strict";
  const course = (window.course ??= {});

  let stages = [];
  let shown = null;

  const title = (stage) => {
    const unit = course.page.unit(course.page.unitId);
    return unit?.stages.find((one) => one.id === stage.dataset.stage)?.title ?? course.page.plain(stage.querySelector("h1, h2"));
  };
  const markId = (stage) => `${course.page.unitId}/stage/${stage.dataset.stage}`;
  const isDone = (stage) => course.storage.get(`check/${markId(stage)}`)?.done === true;

  /** The element that the address names; a broken hash names none. */
  function named() {
    try {
      return document.getElementById(decodeURIComponent(location.hash.slice(1)));
    } catch (error) {
      if (error instanceof URIError) return null;
      throw error;
    }
  }

  /** Show a stage and hide the others; a search in the page still finds what is in them. */
  function show(stage) {
    shown = stage;
    for (const one of stages) {
      if (one === stage) one.removeAttribute("hidden");
      else one.setAttribute("hidden", "until-found");
    }
    for (const link of document.querySelectorAll("nav.stages a")) {
      if (link.hash === `#${stage.id}`) link.setAttribute("aria-current", "step");
      else link.removeAttribute("aria-current");
    }
    if (course.page.unitId) {
      course.storage.set(`place/${course.page.unitId}`, { unit: course.page.unitId, stage: stage.dataset.stage });
    }
  }

  /** Follow the address: its stage, the element in it, and the focus there. */
  function follow() {
    const target = named();
    const stage = target?.closest(".stage");
    if (stage && stages.includes(stage)) {
      show(stage);
      for (let around = target.closest("details"); around; around = around.parentElement.closest("details")) around.open = true;
      const veiled = target.closest(".revealed[hidden]");
      const form = veiled && [...document.querySelectorAll("form.prediction")].find((one) => one.dataset.id === veiled.dataset.for);
      focus(form ?? (target === stage ? stage.querySelector("h1, h2") : target));
      if (target === stage) (document.querySelector("nav.stages") ?? stage).scrollIntoView();
      else (form ?? target).scrollIntoView();
    } else if (!location.hash || !shown) show(stages[0]);
  }

  /** Let reading and tabbing go on from here. */
  function focus(element) {
    if (!element.matches("a[href], button, input, textarea, summary")) element.setAttribute("tabindex", "-1");
    element.focus({ preventScroll: true });
  }

  /** Go to a neighbor: 1 is the stage after this one, -1 the one before. */
  function step(by) {
    const stage = stages[stages.indexOf(shown) + by];
    if (stage) go(stage);
    return Boolean(stage);
  }

  function go(stage) {
    if (location.hash === `#${stage.id}`) follow();
    else location.hash = `#${stage.id}`;
  }

  function finish(stage) {
    course.storage.set(`check/${markId(stage)}`, { done: true });
    course.progress.settle(course.page.unit(course.page.unitId));
  }

  /** Links to the stages before and after, at the end of each. */
  function foot(stage, place) {
    const { make } = course.page;
    const [before, after] = [stages[place - 1], stages[place + 1]];
    const back = before && make("a", { class: "course-button", href: `#${before.id}` }, `Back: ${title(before)}`);
    const on = after
      ? make("a", { class: "course-button strong", href: `#${after.id}`, onclick: () => finish(stage) }, `Finished, on to ${title(after)}`)
      : make("a", { class: "course-button strong", href: course.page.url("learning.html"), onclick: () => finish(stage) }, "Finished, on to My learning");
    return make("nav", { class: "stage-steps course-row", "aria-label": `After ${title(stage)}` }, back, on);
  }

  function marks() {
    const links = [...document.querySelectorAll("nav.stages a")];
    const done = stages.filter(isDone).length;
    for (const link of links) {
      const stage = stages.find((one) => link.hash === `#${one.id}`);
      if (!stage) continue;
      link.classList.toggle("finished", isDone(stage));
      link.querySelector(".mark")?.remove();
      if (isDone(stage)) link.append(course.page.make("span", { class: "mark course-hidden" }, " (finished)"));
    }
    const bar = document.querySelector("nav.stages .stages-sum");
    if (bar) bar.textContent = `${done} of ${course.page.count(stages.length, "stage")} finished`;
  }

  function start() {
    stages = [...document.querySelectorAll("section.stage")];
    if (!stages.length) return;
    document.querySelector("nav.stages")?.append(course.page.make("p", { class: "stages-sum" }));
    stages.forEach((stage, place) => {
      stage.append(foot(stage, place));
      stage.addEventListener("beforematch", () => show(stage));
    });
    course.storage.watch((key) => {
      if (key === null || key.startsWith("check/")) marks();
    });
    window.addEventListener("hashchange", follow);
    marks();
    follow();
    // The browser goes to the address itself when the page is loaded, and takes the focus along.
    if (location.hash) window.addEventListener("load", () => setTimeout(follow));
  }

  course.stages = { start, step, go: (place) => stages[place] && go(stages[place]), present: () => stages.length > 0 };
})();
