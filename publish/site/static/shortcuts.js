/* Keys that lead around. They can be turned off, and do nothing while the reader writes. */
(() => {
  "use strict";
  const course = (window.course ??= {});

  const SETTING = "setting/shortcuts";
  const on = () => course.storage.get(SETTING)?.value !== false;
  const visit = (path) => () => location.assign(course.page.url(path));

  const KEYS = [
    { key: "n", does: "Next stage", run: () => course.stages.step(1) },
    { key: "p", does: "Stage before", run: () => course.stages.step(-1) },
    { key: "1", does: "First stage, and so on", until: "5", run: (key) => course.stages.go(Number(key) - 1) },
    { key: "h", does: "Home", run: visit("index.html") },
    { key: "l", does: "My learning", run: visit("learning.html") },
    { key: "/", does: "Search", run: null }, // Sphinx does it
    { key: "?", does: "This list", run: () => open() },
  ];

  /** Whether a key typed here is meant for the element: text, a choice, a widget. */
  const writes = (element) =>
    element.isContentEditable || element.closest("input:not([type=checkbox]), textarea, select, [role=textbox], dialog") !== null;

  function press(event) {
    const { key } = event;
    if (!on() || event.defaultPrevented || event.ctrlKey || event.metaKey || event.altKey || event.isComposing || writes(event.target)) return;
    const found = KEYS.find((one) => one.run && (one.until ? key >= one.key && key <= one.until && key.length === 1 : key === one.key));
    if (!found) return;
    event.preventDefault();
    found.run(key);
  }

  /** Sphinx has a shortcut of its own, which obeys the same switch. */
  function apply() {
    if (typeof DOCUMENTATION_OPTIONS !== "undefined") DOCUMENTATION_OPTIONS.ENABLE_SEARCH_SHORTCUTS = on();
  }

  let dialog = null;

  function open() {
    const { make, button } = course.page;
    if (!dialog) {
      const rows = KEYS.map((one) =>
        make("tr", {}, make("td", {}, make("kbd", {}, one.key), one.until ? [" to ", make("kbd", {}, one.until)] : null), make("td", {}, one.does)),
      );
      dialog = make(
        "dialog",
        { class: "course-dialog", "aria-labelledby": "shortcuts-title" },
        make("h2", { id: "shortcuts-title" }, "Keyboard shortcuts"),
        make("table", {}, make("tbody", {}, rows)),
        toggle("Use these keys"),
        make("div", { class: "course-row" }, button("Close", () => dialog.close(), { class: "course-button strong" })),
      );
      document.body.append(dialog);
    }
    dialog.showModal();
  }

  function toggle(words) {
    const { make } = course.page;
    const input = make("input", { type: "checkbox", autocomplete: "off", onchange: () => course.storage.set(SETTING, { value: input.checked }) });
    const show = () => {
      input.checked = on();
    };
    course.storage.watch((key) => (key === null || key === SETTING) && show());
    show();
    return make("label", { class: "course-switch" }, input, ` ${words}`);
  }

  function start() {
    document.addEventListener("keydown", press);
    course.storage.watch((key) => (key === null || key === SETTING) && apply());
    apply();
    const foot = document.querySelector("footer .right-details") ?? document.querySelector("footer");
    foot?.append(course.page.button("Keyboard shortcuts", open, { class: "course-button quiet" }));
  }

  course.shortcuts = { start, toggle };
})();
