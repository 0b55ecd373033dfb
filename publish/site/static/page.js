/* What every part needs of the page: where it is, the map of the course, elements made of text, messages to the reader. */
(() => {
  "use strict";
  const course = (window.course ??= {});

  const meta = (name) => document.querySelector(`meta[name="course-${name}"]`)?.content ?? "";
  const root = document.documentElement.dataset.content_root ?? "./";
  const told = new Set();

  /** The address of a page, or of a unit's stage, from this page. */
  const url = (path, hash = "") => root + path + (hash && `#${hash}`);

  const phases = () => window.courseData?.phases ?? [];
  const units = () => phases().flatMap((phase) => phase.units);
  const unit = (id) => units().find((one) => one.id === id);

  /**
   * An element. Children that are not elements become text, so nothing that was stored or imported is ever read as HTML.
   * A property whose value is a function is a listener (`onclick`); true gives an empty attribute, false and null none.
   */
  function make(tag, properties = {}, ...children) {
    const element = document.createElement(tag);
    for (const [name, value] of Object.entries(properties)) {
      if (typeof value === "function") element.addEventListener(name.slice(2), value);
      else if (value !== false && value !== null && value !== undefined) element.setAttribute(name, value === true ? "" : value);
    }
    element.append(...children.flat().filter((child) => child !== null && child !== undefined && child !== false));
    return element;
  }

  const button = (text, onclick, properties = {}) => make("button", { type: "button", class: "course-button", onclick, ...properties }, text);

  /** The text of an element as a person reads it; a formula counts once, as it was written. */
  function plain(element) {
    const copy = element.cloneNode(true);
    for (const formula of copy.querySelectorAll(".katex")) formula.replaceWith(formula.querySelector("annotation")?.textContent ?? formula.textContent);
    return copy.textContent.replace(/\s+/g, " ").trim();
  }

  const count = (number, word, words = `${word}s`) => `${number} ${number === 1 ? word : words}`;

  /** Tell the reader something that needs attention, once in each tab, and let it be put away. */
  function tell(id, text) {
    const mark = `training-systems:told:${id}`;
    if (told.has(id)) return;
    told.add(id);
    try {
      if (sessionStorage.getItem(mark)) return;
      sessionStorage.setItem(mark, "1");
    } catch (error) {
      console.info(`course: it is told again on the next page, since this tab keeps nothing (${error.name})`);
    }
    const notice = make("div", { class: "course-notice", "data-notice": id }, make("p", {}, text));
    notice.append(button("Close", () => notice.remove()));
    (document.querySelector("article") ?? document.body).prepend(notice);
    say(text);
  }

  /** Tell it to a screen reader alone: what changed on the page is to be seen anyway. */
  function say(text) {
    let region = document.querySelector(".course-live");
    if (!region) {
      region = make("div", { class: "course-live", role: "status" });
      document.body.append(region);
    }
    region.textContent = text;
  }

  /** Give a file to the reader. */
  function download(name, type, text) {
    const address = URL.createObjectURL(new Blob([text], { type }));
    const link = make("a", { href: address, download: name, hidden: true });
    document.body.append(link);
    link.click();
    link.remove();
    setTimeout(() => URL.revokeObjectURL(address), 10_000);
  }

  course.page = {
    kind: meta("page"), unitId: meta("unit"), url, phases, units, unit, make, button, plain, count, tell, say, download,
  };
})();
