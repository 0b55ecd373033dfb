/* Choose, commit, then see: what a prediction and a question of the quiz have in common. */
(() => {
  "use strict";
  const course = (window.course ??= {});

  /**
   * Make a form of the page work.
   *
   * The policy says `kind` (of the entry), the words of the buttons (`commit`, `again`), `explain(tried, option)`: whether the
   * feedback on an option is shown, and `changed(state)`: called after each change. Gives the state of the form.
   */
  function setup(form, policy) {
    const { make, button, plain } = course.page;
    const key = `${policy.kind}/${form.dataset.key}`;
    const options = [...form.querySelectorAll(".option")].map((label) => {
      const input = label.querySelector("input");
      const feedback = [...form.querySelectorAll(".feedback")].find((one) => one.dataset.option === input.value);
      feedback.querySelector(".chosen")?.remove();
      feedback.id = `feedback-${form.dataset.key}-${input.value}`;
      return { label, input, feedback, right: feedback.dataset.correct === "true", said: plain(label) };
    });
    for (const { label, input, feedback } of options) {
      const group = make("div", { class: "choice" });
      label.replaceWith(group);
      group.append(label, feedback);
      input.autocomplete = "off"; // Firefox would choose again what was chosen before a reload
    }
    form.querySelector(".answer")?.remove();

    const state = { form, key, options, entry: () => course.storage.get(key) };
    const commit = make("button", { type: "submit", class: "course-button strong" }, policy.commit);
    const again = button(policy.again, () => ask(state), { class: "course-button again" });
    const outcome = make("p", { class: "outcome", role: "status", id: `outcome-${form.dataset.key}` });
    const row = make("div", { class: "course-row" }, commit, again);
    form.append(outcome, row);
    if (policy.skip) {
      state.skip = button(policy.skip, () => record(state, null, again), { class: "course-button quiet" });
      row.append(state.skip);
    }
    Object.assign(state, { policy, commit, again, outcome });

    form.addEventListener("submit", (event) => {
      event.preventDefault();
      const option = options.find(({ input }) => input.checked);
      if (option) record(state, option, again);
      else refuse(state);
    });
    form.addEventListener("change", () => form.classList.remove("unchosen"));
    course.storage.watch((changed) => {
      if (changed === null || changed === key) show(state, false);
    });
    show(state, false);
    return state;
  }

  function refuse(state) {
    state.form.classList.add("unchosen");
    state.outcome.textContent = "Choose one of the answers first.";
    state.options[0].input.focus();
  }

  /** What is asked, without the words that only lead to it. */
  function asked(form) {
    const legend = form.querySelector("legend").cloneNode(true);
    legend.querySelector(".lead")?.remove();
    return course.page.plain(legend);
  }

  /** Keep a try at it, and show what it leads to. Without an option the reader only wants to see. */
  function record(state, option, next) {
    const now = new Date().toISOString();
    const made = { option: option?.input.value ?? "", said: option?.said ?? "", right: option?.right ?? false, at: now };
    const tries = course.entries.trim([...(state.entry()?.tries ?? []), made]);
    course.storage.set(state.key, { ask: asked(state.form), tries });
    next.focus();
  }

  /** Ask anew. What was tried before is kept. */
  function ask(state) {
    show(state, true);
    state.options[0].input.focus();
  }

  function show(state, asking) {
    const { form, options, policy, commit, again, outcome } = state;
    const tries = state.entry()?.tries ?? [];
    const tried = tries.at(-1) ?? null;
    state.asking = asking || tried === null;
    form.classList.toggle("asking", state.asking);
    for (const { label, input, feedback, right } of options) {
      const chosen = !state.asking && tried.option === input.value;
      const told = !state.asking && policy.explain(tried, { chosen, right });
      input.disabled = !state.asking;
      input.checked = chosen;
      feedback.hidden = !told;
      label.classList.toggle("chosen", chosen);
      label.classList.toggle("right", told && right);
      label.classList.toggle("wrong", told && !right);
      if (told) input.setAttribute("aria-describedby", feedback.id);
      else input.removeAttribute("aria-describedby");
    }
    commit.hidden = !state.asking;
    again.hidden = state.asking;
    if (state.skip) state.skip.hidden = tried !== null;
    outcome.className = `outcome ${state.asking ? "" : tried.option === "" ? "seen" : tried.right ? "right" : "wrong"}`;
    outcome.textContent = state.asking ? "" : policy.words(tries);
    policy.changed?.(state);
  }

  course.choices = { setup, ask };
})();
