/* Export, import and erase what this browser keeps. An imported file is data: checked, merged, and shown as text alone. */
(() => {
  "use strict";
  const course = (window.course ??= {});

  const NAME = "training-systems";
  const BYTES = 5_000_000;
  const DEPTH = 8;
  const ENTRIES = 10_000;

  /** Everything that is kept, as the text of a file. */
  function write(now = new Date()) {
    const { FORMAT, all } = course.storage;
    const document = { course: NAME, format: FORMAT, exported: now.toISOString(), revision: window.courseData?.revision ?? "", entries: all() };
    return `${JSON.stringify(document, null, 1)}\n`;
  }

  /** How deep lists and objects lie in one another, told without reading them. */
  function depth(text) {
    let [deep, deepest, quoted] = [0, 0, false];
    for (let place = 0; place < text.length; place += 1) {
      const letter = text[place];
      if (quoted && letter === "\\") place += 1;
      else if (letter === '"') quoted = !quoted;
      else if (!quoted && (letter === "{" || letter === "[")) deepest = Math.max(deepest, (deep += 1));
      else if (!quoted && (letter === "}" || letter === "]")) deep -= 1;
    }
    return deepest;
  }

  /** The document in the text, in the present format. Throws a TypeError that says why it is none. */
  function read(text) {
    if (text.length > BYTES) throw new TypeError(`it is larger than ${BYTES / 1_000_000} MB`);
    if (depth(text) > DEPTH) throw new TypeError("it is nested deeper than anything that this site writes");
    let document;
    try {
      document = JSON.parse(text);
    } catch (error) {
      throw new TypeError("it is not JSON", { cause: error });
    }
    if (typeof document !== "object" || document === null || document.course !== NAME) throw new TypeError("it was not exported by this site");
    const current = course.storage.migrate(document);
    if (Array.isArray(current.entries) || Object.keys(current.entries).length > ENTRIES) throw new TypeError(`it holds no entries, or more than ${ENTRIES}`);
    return current;
  }

  function sum({ added, updated, kept, same, refused }) {
    const parts = [
      `${added.length} new`,
      `${updated.length} brought up to date`,
      `${kept.length} kept as they are here, since they are newer or hold more`,
      `${same.length} equal`,
    ];
    return `Imported: ${parts.join(", ")}.${refused.length ? ` Not taken: ${refused.length}.` : ""}`;
  }

  async function take(file, result) {
    const { make, say } = course.page;
    try {
      if (file.size > BYTES) throw new TypeError(`it is larger than ${BYTES / 1_000_000} MB`);
      const summary = course.storage.take(read(await file.text()));
      const reasons = summary.refused.slice(0, 10).map(({ key, reason }) => make("li", {}, `${key.slice(0, 100)}: ${reason}`));
      result.replaceChildren(make("p", {}, sum(summary)), ...(reasons.length ? [make("ul", {}, reasons)] : []));
    } catch (error) {
      const why = error instanceof TypeError ? error.message : `it cannot be read (${error.name})`;
      result.replaceChildren(make("p", { class: "trouble" }, `Nothing was imported from ${file.name}: ${why}. Choose a file that “Export” has written.`));
    }
    say(result.textContent);
  }

  function save() {
    course.page.download(`${NAME}-${course.review.today()}.json`, "application/json", write());
  }

  /** The dialog that asks before everything is erased; it is closed without harm by Escape. */
  function ask(result) {
    const { make, button } = course.page;
    const close = () => {
      dialog.close();
      dialog.remove();
    };
    const erase = () => {
      course.storage.erase();
      close();
      result.replaceChildren(make("p", {}, "Everything was erased from this browser."));
      course.page.say(result.textContent);
      document.querySelector("#keep h2")?.focus();
    };
    const dialog = make("dialog", { class: "course-dialog", "aria-labelledby": "erase-title", onclose: () => dialog.remove() },
      make("h2", { id: "erase-title" }, "Erase everything?"),
      make("p", {}, "Progress, predictions, answers and notes are removed from this browser. Only an exported file can bring them back."),
      make("div", { class: "course-row" },
        button("Cancel", close, { class: "course-button strong", autofocus: true }),
        button("Export first", save),
        button("Erase everything", erase, { class: "course-button danger" })));
    document.body.append(dialog);
    dialog.showModal();
  }

  function view() {
    const { make, button } = course.page;
    const result = make("div", { class: "transfer-result" });
    const input = make("input", { type: "file", accept: ".json,application/json", id: "import-file", onchange: async () => {
      const [file] = input.files;
      if (file) await take(file, result);
      input.value = "";
    } });
    return make("div", {},
      make("p", {}, "Export writes one file with all of it: a backup, and the way to another browser. Import merges such a file with what is here: newer work stays, on both sides."),
      make("div", { class: "course-row" }, button("Export", save, { class: "course-button strong" }),
        make("label", { class: "course-file", for: "import-file" }, "Import a file: ", input)),
      result,
      make("p", {}, button("Erase everything …", () => ask(result), { class: "course-button danger" })));
  }

  course.transfer = { read, write, view };
})();
