/* Notes, done marks and reveals: what the reader writes, ticks and opens is kept as it happens. */
(() => {
  "use strict";
  const course = (window.course ??= {});

  const PAUSE = 500; // milliseconds without a key before a note is kept

  function check(input) {
    const key = `check/${input.dataset.id}`;
    const show = () => {
      input.checked = course.storage.get(key)?.done === true;
    };
    input.autocomplete = "off";
    input.addEventListener("change", () => {
      course.storage.set(key, { done: input.checked });
      course.progress.settle(course.page.unit(input.dataset.id.split("/")[0]));
    });
    course.storage.watch((changed) => (changed === null || changed === key) && show());
    show();
  }

  function note(area) {
    const { make } = course.page;
    const key = `note/${area.dataset.id}`;
    const said = make("p", { class: "note-state", role: "status" });
    const before = make("div", { class: "note-earlier" });
    let base; // time of the entry that the text goes back to
    let timer = 0;
    const stored = () => course.storage.get(key);
    const dirty = () => area.value !== (stored()?.text ?? "");

    function show() {
      if (!timer) {
        area.value = stored()?.text ?? "";
        base = stored()?.at ?? null;
      }
      before.replaceChildren(...earlier(stored()?.earlier ?? []));
      grow();
    }
    function keep(word) {
      clearTimeout(timer);
      timer = 0;
      if (dirty()) {
        course.storage.set(key, { text: area.value, earlier: stored()?.earlier ?? [] }, base);
        base = stored().at;
      }
      if (word) said.textContent = stored() ? "Kept in this browser." : "";
    }
    function grow() {
      if (area.scrollHeight > area.clientHeight) area.style.height = `${Math.min(area.scrollHeight + 4, 600)}px`;
    }

    area.maxLength = course.entries.NOTE;
    area.autocomplete = "off";
    area.after(said, before);
    area.addEventListener("input", () => {
      clearTimeout(timer);
      timer = setTimeout(() => keep(false), PAUSE);
      said.textContent = "";
      grow();
    });
    area.addEventListener("blur", () => timer && keep(true));
    document.addEventListener("visibilitychange", () => timer && document.visibilityState === "hidden" && keep(false));
    window.addEventListener("pagehide", () => timer && keep(false));
    course.storage.watch((changed) => (changed === null || changed === key) && show());
    show();
  }

  /** Texts that another tab or an import has replaced: nothing that was written is lost. */
  function earlier(texts) {
    const { make } = course.page;
    if (!texts.length) return [];
    const items = texts.map((one) => make("li", {}, make("time", { datetime: one.at }, new Date(one.at).toLocaleString()), make("pre", {}, one.text)));
    return [make("details", { class: "reveal" }, make("summary", {}, "Earlier versions of this note"), make("ul", {}, items))];
  }

  function reveal(details) {
    const key = `reveal/${details.dataset.id}`;
    details.addEventListener("toggle", () => {
      if (details.open && !course.storage.get(key)) course.storage.set(key, { first: new Date().toISOString() });
    });
  }

  function start() {
    document.querySelectorAll("input.done").forEach(check);
    document.querySelectorAll("textarea.note").forEach(note);
    document.querySelectorAll("details.reveal[data-id]").forEach(reveal);
  }

  course.notes = { start };
})();
