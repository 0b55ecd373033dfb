/* What an entry may be, and what becomes of two entries of one key. Pure functions; docs/site.md has the table. */
(() => {
  "use strict";
  const course = (window.course ??= {});

  const NOTE = 20_000; // characters
  const TRIES = 200;
  const DAYS = 20;
  const EARLIER = 20; // texts that another tab or an import replaced

  const fail = (reason) => {
    throw new TypeError(reason);
  };
  const flag = (value) => (typeof value === "boolean" ? value : fail("not true or false"));
  const text = (most) => (value) => {
    if (typeof value !== "string") fail("not a text");
    return value.length <= most ? value : fail(`longer than ${most} characters`);
  };
  const time = (value) => {
    const whole = typeof value === "string" && /^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z$/.test(value) && !Number.isNaN(Date.parse(value));
    return whole && new Date(value).toISOString() === value ? value : fail("not a time");
  };
  const day = (value) => {
    if (typeof value !== "string" || !/^\d{4}-\d\d-\d\d$/.test(value)) fail("not a day");
    return time(`${value}T00:00:00.000Z`).slice(0, 10);
  };
  const scalar = (value) => (["boolean", "number"].includes(typeof value) ? value : text(200)(value));
  const list = (most, each) => (value) => {
    if (!Array.isArray(value)) fail("not a list");
    return value.length <= most ? value.map(each) : fail(`more than ${most} items`);
  };
  const shape = (fields) => (value) => {
    if (typeof value !== "object" || value === null || Array.isArray(value)) fail("not an object");
    return Object.fromEntries(
      Object.entries(fields).map(([name, check]) => {
        if (!Object.hasOwn(value, name)) fail(`${name} is missing`);
        try {
          return [name, check(value[name])];
        } catch (error) {
          return fail(`${name}: ${error.message}`);
        }
      }),
    );
  };

  /** Whether the second is to win. At the same time the text decides, so that every tab decides alike. */
  const wins = (one, other) => other.at > one.at || (other.at === one.at && JSON.stringify(other) > JSON.stringify(one));
  const newer = (one, other) => (wins(one, other) ? other : one);
  /** At most as many tries as are kept: the first one, which says what was expected, and the last ones. */
  const trim = (all) => (all.length > TRIES ? [all[0], ...all.slice(1 - TRIES)] : all);
  const earliest = (one, other) => (other < one ? other : one);
  const unique = (values) => [...new Set(values)].sort();

  /** Tries of both, each once, in the order in which they were made. */
  function tries(one, other) {
    const all = new Map([...one.tries, ...other.tries].map((each) => [`${each.at} ${each.option}`, each]));
    const sorted = [...all.values()].sort((a, b) => (a.at + a.option < b.at + b.option ? -1 : 1));
    return { ...newer(one, other), tries: trim(sorted) };
  }

  /** The newer text; the other is not lost but goes to the earlier ones. */
  function notes(one, other) {
    const [first, second] = wins(one, other) ? [other, one] : [one, other];
    const known = new Map([...second.earlier, ...first.earlier].map((each) => [each.text, each]));
    if (second.text.trim()) known.set(second.text, { text: second.text, at: second.at });
    known.delete(first.text);
    const earlier = [...known.values()].sort((a, b) => (a.at < b.at ? -1 : 1)).slice(-EARLIER);
    return { ...first, earlier };
  }

  const reviews = (one, other) => ({
    ...newer(one, other),
    finished: earliest(one.finished, other.finished),
    done: unique([...one.done, ...other.done]).slice(0, DAYS),
  });

  const choice = {
    fields: {
      ask: text(4000),
      tries: list(TRIES, shape({ option: text(80), said: text(4000), right: flag, at: time })),
    },
    merge: tries,
  };
  const KINDS = {
    check: { fields: { done: flag }, merge: newer },
    note: { fields: { text: text(NOTE), earlier: list(EARLIER, shape({ text: text(NOTE), at: time })) }, merge: notes },
    reveal: { fields: { first: time }, merge: (one, other) => ({ ...newer(one, other), first: earliest(one.first, other.first) }) },
    prediction: choice,
    question: choice,
    review: { fields: { finished: day, done: list(DAYS, day) }, merge: reviews },
    place: { fields: { unit: text(100), stage: text(100) }, merge: newer },
    setting: { fields: { value: scalar }, merge: newer },
  };

  function kind(key) {
    const name = /^([a-z]+)\/[A-Za-z0-9][A-Za-z0-9/_.-]*$/.exec(key)?.[1];
    return key.length <= 200 && name && Object.hasOwn(KINDS, name) ? KINDS[name] : fail("not a key");
  }

  /** A copy of the entry that holds what belongs to it and nothing else; throws a TypeError that says what is wrong. */
  const clean = (key, value) => shape({ at: time, ...kind(key).fields })(value);

  /** One entry of two. The result is the same whichever comes first, and for an entry with itself it is that entry. */
  const merge = (key, one, other) => kind(key).merge(one, other);

  course.entries = { NOTE, clean, merge, trim };
})();
