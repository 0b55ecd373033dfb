/* What the reader did, kept in this browser: one entry a key, so that two tabs write beside each other. */
(() => {
  "use strict";
  const course = (window.course ??= {});

  const FORMAT = 1;
  const PREFIX = "training-systems:";
  const SINGLE = "training-systems"; // where format 0 kept everything

  const entries = new Map();
  const listeners = new Set();
  let backing = null; // localStorage, where it can be used
  let locked = false; // a newer version of the site has written here

  const GONE =
    "This browser does not let the page keep anything, perhaps because it is a private window. The page works on; export your work under My learning before you close it.";
  const FULL = "This browser has no room left for your work. What you do now is kept only until you leave the page: export it under My learning.";
  const NEWER = "A newer version of this site has kept your work in this browser. Nothing of it is changed; reload the page, or open the newer version.";

  // --- formats ---------------------------------------------------------------------------------------------------

  /** Format 0: one text a site. `done` and `predictions` by id and key, `notes` by id; one time for all of it. */
  function fromSingle(old) {
    const at = typeof old.saved === "string" ? old.saved : new Date(0).toISOString();
    const made = {};
    for (const id of old.done ?? []) made[`check/${id}`] = { at, done: true };
    for (const [id, text] of Object.entries(old.notes ?? {})) made[`note/${id}`] = { at, text, earlier: [] };
    for (const [key, one] of Object.entries(old.predictions ?? {})) {
      made[`prediction/${key}`] = { at, ask: one.ask, tries: [{ option: one.option, said: one.said, right: one.right, at }] };
    }
    return { format: 1, entries: made };
  }

  const MIGRATIONS = [fromSingle]; // the one at place n leads from format n to n + 1

  /** The document in this format. Throws a TypeError where its format is none of ours. */
  function migrate(document) {
    let left = document;
    if (!Number.isInteger(left?.format) || left.format < 0) throw new TypeError("it does not say its format");
    if (left.format > FORMAT) throw new TypeError(`it has format ${left.format}, which only a newer version of this site can read`);
    while (left.format < FORMAT) left = MIGRATIONS[left.format](left);
    if (typeof left.entries !== "object" || left.entries === null) throw new TypeError("it has no entries");
    return left;
  }

  // --- reading ---------------------------------------------------------------------------------------------------

  /** What is kept under a key; null where there is nothing, or what is there is damaged: then it stays as it is. */
  function read(key) {
    const text = backing?.getItem(PREFIX + key);
    if (!text) return null;
    try {
      return course.entries.clean(key, JSON.parse(text));
    } catch (error) {
      console.info(`course: what is kept under ${key} is damaged and left alone (${error.message})`);
      return null;
    }
  }

  const names = () => [...Array(backing.length).keys()].map((place) => backing.key(place)).filter((name) => name.startsWith(PREFIX));

  function load() {
    entries.clear();
    for (const name of names()) {
      const key = name.slice(PREFIX.length);
      const entry = key === "format" ? null : read(key);
      if (entry) entries.set(key, entry);
    }
  }

  /** Bring what an older version kept into this format; what is there already is merged, and what is damaged is left. */
  function upgrade() {
    const stored = backing.getItem(PREFIX + "format");
    locked = newer(stored);
    if (locked) {
      course.page.tell("newer", NEWER);
      return;
    }
    const single = stored === null ? backing.getItem(SINGLE) : null;
    if (single !== null) {
      try {
        const { refused } = take(migrate(Object.assign(JSON.parse(single), { format: 0 })));
        if (!refused.length) backing.removeItem(SINGLE);
      } catch (error) {
        console.info(`course: what an older version kept cannot be read and is left alone (${error.message})`);
      }
    }
    if (stored !== String(FORMAT)) write("format");
  }

  const newer = (format) => format !== null && !(Number(format) <= FORMAT);

  function open() {
    try {
      backing = window.localStorage;
      load();
      upgrade();
    } catch (error) {
      refuse(error);
    }
    window.addEventListener("storage", hear);
  }

  /** The browser keeps nothing, or nothing more: say so once, and go on with what is in memory. */
  function refuse(error) {
    const full = error.name === "QuotaExceededError" && backing !== null && backing.length > 0;
    course.page.tell(full ? "full" : "gone", full ? FULL : GONE);
    if (!full) backing = null;
  }

  // --- writing ---------------------------------------------------------------------------------------------------

  const notify = (key) => listeners.forEach((listener) => listener(key));

  function write(key, entry = null) {
    if (entry) entries.set(key, entry);
    if (backing && !locked) {
      try {
        backing.setItem(PREFIX + key, entry ? JSON.stringify(entry) : String(FORMAT));
      } catch (error) {
        refuse(error);
      }
    }
    if (entry) notify(key);
  }

  const present = (key) => read(key) ?? entries.get(key) ?? null;

  /**
   * Merge a document of this format into what is there.
   *
   * Gives the keys that are new (`added`), have changed (`updated`), stay since what is here is newer or holds more
   * (`kept`), were equal (`same`), and those that were `refused`, each with the reason. A time to come counts as now.
   */
  function take(document) {
    const summary = { added: [], updated: [], kept: [], same: [], refused: [] };
    const now = new Date().toISOString();
    for (const [key, value] of Object.entries(document.entries)) {
      try {
        const fresh = course.entries.clean(key, value);
        if (fresh.at > now) fresh.at = now;
        const there = present(key);
        const entry = there ? course.entries.merge(key, there, fresh) : fresh;
        const [before, after] = [JSON.stringify(there), JSON.stringify(entry)];
        if (before === after) summary[before === JSON.stringify(fresh) ? "same" : "kept"].push(key);
        else {
          summary[there ? "updated" : "added"].push(key);
          write(key, entry);
        }
      } catch (error) {
        if (!(error instanceof TypeError)) throw error;
        summary.refused.push({ key, reason: error.message });
      }
    }
    return summary;
  }

  /**
   * Keep what the reader did now.
   *
   * `base` is the time of the entry on which it was made, null where there was none. Where another tab has written since, both are merged.
   */
  function set(key, value, base = entries.get(key)?.at) {
    const there = present(key);
    const now = new Date(Math.max(Date.now(), there ? Date.parse(there.at) + 1 : 0)).toISOString();
    const fresh = course.entries.clean(key, { ...value, at: now });
    write(key, there && there.at !== base ? course.entries.merge(key, there, fresh) : fresh);
  }

  /** Another tab has written. */
  function hear(event) {
    if (event.storageArea !== backing || backing === null) return;
    if (event.key === null) load();
    else if (event.key === PREFIX + "format") locked = newer(event.newValue);
    else if (event.key.startsWith(PREFIX)) {
      const key = event.key.slice(PREFIX.length);
      const entry = read(key);
      if (entry) entries.set(key, entry);
      else entries.delete(key);
      notify(key);
      return;
    }
    if (locked) course.page.tell("newer", NEWER);
    notify(null);
  }

  /** Remove everything that this site has kept in the browser. */
  function erase() {
    entries.clear();
    if (backing) for (const name of names()) backing.removeItem(name);
    locked = false;
    write("format");
    notify(null);
  }

  course.storage = {
    FORMAT,
    open,
    migrate,
    take,
    set,
    erase,
    get: (key) => entries.get(key) ?? null,
    keys: (start = "") => [...entries.keys()].filter((key) => key.startsWith(start)).sort(),
    all: () => Object.fromEntries([...entries.entries()].sort(([one], [other]) => (one < other ? -1 : 1))),
    /** Call `listener(key)` after each change, here or in another tab; `key` is null where everything may have changed. */
    watch: (listener) => listeners.add(listener),
  };
})();
