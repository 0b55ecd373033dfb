/* Starts the parts when the page is read and every script has been run, in whatever order they stand. */
(() => {
  "use strict";
  const course = (window.course ??= {});

  // The search shows a piece of each page that it finds, which it has to fetch. From a file it cannot.
  if (location.protocol === "file:" && typeof DOCUMENTATION_OPTIONS !== "undefined") DOCUMENTATION_OPTIONS.SHOW_SEARCH_SUMMARY = false;

  document.addEventListener("DOMContentLoaded", () => {
    course.storage.open();
    // A figure that is hidden until it was predicted must be there when the network is not.
    for (const image of document.images) image.loading = "eager";
    // Predictions and notes first: a stage that the address names is scrolled to when everything has its height.
    for (const part of ["predictions", "quiz", "notes", "learning", "home", "stages", "shortcuts", "scrollers"]) {
      try {
        course[part].start();
      } catch (error) {
        console.error(`course: ${part} does not work on this page`, error);
      }
    }
    document.documentElement.classList.add("course-ready");
  });
})();
