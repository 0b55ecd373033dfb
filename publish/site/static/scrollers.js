/* Code and tables that are wider than the page can be scrolled with the keyboard, in browsers that do not see to it themselves. */
(() => {
  "use strict";
  const course = (window.course ??= {});

  function start() {
    const watcher = new ResizeObserver((seen) => {
      for (const { target } of seen) {
        if (target.scrollWidth > target.clientWidth) target.tabIndex = 0;
        else target.removeAttribute("tabindex");
      }
    });
    for (const box of document.querySelectorAll("article pre, article .table-wrapper")) watcher.observe(box);
  }

  course.scrollers = { start };
})();
