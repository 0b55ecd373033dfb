/* The quiz: one question at a time answered, feedback on each option, only what went wrong asked again. */
(() => {
  "use strict";
  const course = (window.course ??= {});

  /** Numbers from 0 to 1 that follow from a text: the same text gives the same row of them. */
  function random(text) {
    let state = 2166136261;
    for (const letter of text) state = Math.imul(state ^ letter.codePointAt(0), 16777619);
    return () => {
      state = (state + 0x6d2b79f5) | 0;
      let mixed = Math.imul(state ^ (state >>> 15), 1 | state);
      mixed = (mixed + Math.imul(mixed ^ (mixed >>> 7), 61 | mixed)) ^ mixed;
      return ((mixed ^ (mixed >>> 14)) >>> 0) / 4294967296;
    };
  }

  /** The items in an order that the text decides. */
  function shuffled(items, text) {
    const order = [...items];
    const draw = random(text);
    for (let place = order.length - 1; place > 0; place -= 1) {
      const other = Math.floor(draw() * (place + 1));
      [order[place], order[other]] = [order[other], order[place]];
    }
    return order;
  }

  /** A number of this reader's own, so that two of them do not see the same order and one of them always does. */
  function seed() {
    if (!course.storage.get("setting/seed")) {
      course.storage.set("setting/seed", { value: crypto.getRandomValues(new Uint32Array(1))[0] });
    }
    return course.storage.get("setting/seed").value;
  }

  function words(tries) {
    const last = tries.at(-1);
    const verdict = last.right ? "Right." : "Not right.";
    return tries.length === 1 ? verdict : `${verdict} This is try ${tries.length}.`;
  }

  function start() {
    for (const quiz of document.querySelectorAll(".quiz")) {
      const { make, button, count } = course.page;
      const forms = [...quiz.querySelectorAll("form.question")];
      const score = make("p", { class: "score", role: "status" });
      const retry = button("Ask what went wrong again", () => again(states), { class: "course-button strong" });
      const foot = make("div", { class: "quiz-foot" }, score, retry);
      let states = [];
      const sum = () => {
        const answered = states.filter((state) => state.entry());
        const right = answered.filter((state) => state.entry().tries.at(-1).right);
        const first = answered.filter((state) => state.entry().tries[0].right);
        score.textContent =
          answered.length === 0
            ? `${count(states.length, "question")}. Each answer is explained.`
            : `${answered.length} of ${states.length} answered, ${right.length} right, ${first.length} at the first try.`;
        retry.hidden = answered.length < states.length || !states.some(isWrong);
      };
      states = forms.map((form) => question(form, sum));
      if (states.length) quiz.append(foot);
      sum();
    }
  }

  const isWrong = (state) => state.entry() && !state.entry().tries.at(-1).right && !state.asking;

  /** Ask only those anew whose last answer was wrong. */
  function again(states) {
    const wrong = states.filter(isWrong);
    for (const state of [...wrong].reverse()) course.choices.ask(state);
  }

  function question(form, changed) {
    const fieldset = form.querySelector("fieldset");
    for (const option of shuffled(form.querySelectorAll(".option"), `${seed()} ${form.dataset.key}`)) fieldset.append(option);
    return course.choices.setup(form, {
      kind: "question",
      commit: "Check my answer",
      again: "Answer again",
      // A wrong answer is asked again, so nothing but itself is explained before the right one was found.
      explain: (tried, { chosen }) => chosen || tried.right,
      words,
      changed: () => changed(),
    });
  }

  course.quiz = { start, shuffled };
})();
