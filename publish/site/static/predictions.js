/* Predict, commit, reveal: the result is shown to whoever has said what to expect, or does not want to. */
(() => {
  "use strict";
  const course = (window.course ??= {});

  function words(tries) {
    const [first, last] = [tries[0], tries.at(-1)];
    const verdict = last.option === "" ? "You looked without predicting." : last.right ? "As you predicted." : "Not as you predicted.";
    if (tries.length === 1) return verdict;
    const began = first.option === "" ? "you first looked without predicting" : `your first prediction was “${first.said}”`;
    return `${verdict} This is try ${tries.length}; ${began}.`;
  }

  /** What is hidden until the reader has committed, anywhere on the page. */
  const results = (id) => [...document.querySelectorAll(".revealed")].filter((one) => one.dataset.for === id);

  function start() {
    for (const form of document.querySelectorAll("form.prediction")) {
      course.choices.setup(form, {
        kind: "prediction",
        commit: "Commit and see",
        again: "Predict again",
        skip: "Show without predicting",
        explain: () => true,
        words,
        changed: (state) => {
          for (const result of results(form.dataset.id)) result.hidden = state.entry() === null;
        },
      });
    }
  }

  course.predictions = { start, words };
})();
