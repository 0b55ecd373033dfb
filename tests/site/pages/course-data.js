window.courseData = {
  format: 1, title: "Tiny course", revision: "2026-11-30",
  phases: [{ id: "01", title: "Tiny phase", url: "unit.html", units: [
    {
      id: "tiny-01", title: "A lesson by hand", kind: "lesson", url: "unit.html", minutes: 5, after: [], revision: "2026-11-30",
      stages: [{ id: "understand", title: "Understand" }, { id: "experiment", title: "Experiment" }, { id: "evidence", title: "Evidence" }],
      predictions: [{ id: "tiny-01/plot", key: "aaaa0000aaaa0000" }],
      questions: [{ id: "tiny-01/first", key: "bbbb0000bbbb0000" }, { id: "tiny-01/second", key: "cccc0000cccc0000" }],
      exercises: [{ id: "tiny-01/exercise/change", title: "Change it" }],
      evidence: [{ id: "tiny-01/evidence/1", item: "The printed <b>order</b>" }],
    },
    {
      id: "tiny-02", title: "The next lesson", kind: "lesson", url: "unit.html", minutes: 5, after: ["tiny-01"], revision: "2026-11-30",
      stages: [{ id: "understand", title: "Understand" }], predictions: [], questions: [], exercises: [], evidence: [],
    },
  ] }],
};
