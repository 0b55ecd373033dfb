/* The portfolio: what a learner has to show, as Markdown and as a page to print. */
(() => {
  "use strict";
  const course = (window.course ??= {});

  /** A plain text that means itself in Markdown. */
  const escape = (text) =>
    text.replace(/\s+/g, " ").trim().replace(/[\\`*_[\]<>#|~&]|^[-+]/g, "\\$&").replace(/^(\d+)(?=[.)])/, "$1\\");

  /** A note as a quotation. It is the learner's Markdown, but HTML in it stays text. */
  const quote = (text) => text.trim().split(/\r?\n/).map((line) => `> ${line.replace(/<(?=[a-z/!?])/gi, "\\<")}`.trimEnd()).join("\n");

  function outcome(one) {
    const last = one.tries.at(-1);
    const first = one.tries[0];
    if (last.option === "") return "looked without predicting";
    if (one.first) return `“${first.said}”: right`;
    const began = first.option === "" ? "looked first" : `“${first.said}”: not right`;
    return one.tries.length === 1 ? began : `${began}; try ${one.tries.length}, “${last.said}”: ${one.right ? "right" : "not right"}`;
  }

  /** What there is to show of a unit: titled parts with their lines and notes; null where nothing was done. */
  function unit(one) {
    const now = course.progress.of(one);
    const tried = (list) => list.filter((each) => each.tries.length).map((each) => ({ text: each.ask, more: outcome(each) }));
    const done = now.stages.filter((each) => each.done).map((each) => each.title);
    const help = (each) => [each.hints && course.page.count(each.hints, "hint"), each.solution && "the solution"].filter(Boolean).join(" and ");
    const parts = [
      { title: "Predictions", lines: tried(now.predictions) },
      { title: "Quiz", lines: tried(now.questions) },
      { title: "Exercises", lines: now.exercises.filter((each) => each.done).map((each) => ({ text: each.title, more: help(each) ? `done, ${help(each)} opened` : "done" })) },
      { title: "Evidence", lines: now.evidence.filter((each) => each.done || each.note.trim()).map((each) => ({ text: each.item, more: each.done ? "kept" : "noted", note: each.note })) },
      { title: "Notes", lines: now.notes.map((each) => ({ text: each.id.slice(one.id.length + 1), more: "", note: each.text })) },
    ].filter((part) => part.lines.length);
    if (!parts.length && !done.length) return null;
    const finished = now.review ? `Finished on ${now.review.finished}, ${course.page.count(now.review.done.length, "review")} since.` : "";
    const stages = done.length ? `Stages finished: ${done.join(", ")}.` : "No stage finished yet.";
    return { id: one.id, title: one.title, sum: `${stages} ${finished}`.trim(), parts };
  }

  const collect = () => course.page.units().map(unit).filter(Boolean);
  const name = () => String(course.storage.get("setting/name")?.value ?? "");
  const heading = () => [name(), window.courseData?.title ?? "Portfolio"].filter(Boolean).join(": ");

  /** The portfolio as the text of a Markdown file. */
  function markdown(day = course.review.today()) {
    const blocks = [`# ${escape(heading())}`, `Portfolio of ${day}. The learner's own record; what a grader says is in its report.`];
    for (const one of collect()) {
      blocks.push(`## ${escape(one.title)} (${escape(one.id)})`, escape(one.sum));
      for (const part of one.parts) {
        blocks.push(`### ${part.title}`);
        for (const line of part.lines) {
          blocks.push(`- ${escape(line.text)}${line.more ? ` (${escape(line.more)})` : ""}`);
          if (line.note?.trim()) blocks.push(quote(line.note));
        }
      }
    }
    return `${blocks.join("\n\n")}\n`;
  }

  /** The same to read and print. */
  function view() {
    const { make } = course.page;
    const units = collect();
    if (!units.length) return [make("p", {}, "Nothing to show yet: predict, answer, tick or note something in a lesson.")];
    return [
      make("h3", { class: "portfolio-heading" }, heading()),
      ...units.map((one) => make("article", { class: "portfolio-unit" }, make("h3", {}, one.title), make("p", {}, one.sum), one.parts.map((part) => [
        make("h4", {}, part.title),
        make("ul", {}, part.lines.map((line) =>
          make("li", {}, line.text, line.more && make("span", { class: "said" }, ` (${line.more})`), line.note?.trim() && make("pre", { class: "written" }, line.note)))),
      ]).flat())),
    ];
  }

  function controls() {
    const { make, button } = course.page;
    const input = make("input", { type: "text", id: "portfolio-name", maxlength: "100", autocomplete: "name", value: name() });
    course.storage.watch((key) => key === null && (input.value = name()));
    input.addEventListener("change", () => course.storage.set("setting/name", { value: input.value }));
    return make("div", { class: "portfolio-controls" },
      make("p", {}, "What you have done, predicted, answered and noted, to hand to somebody."),
      make("p", {}, make("label", { for: "portfolio-name" }, "Name on it (as you like): "), input),
      make("div", { class: "course-row" },
        button("Save as Markdown", () => course.page.download(`portfolio-${course.review.today()}.md`, "text/markdown", markdown()), { class: "course-button strong" }),
        button("Print", () => window.print())));
  }

  course.portfolio = { markdown, view, controls };
})();
