"""Formulas as HTML and MathML, made by KaTeX while the pages are built, so that a reader needs no script and no network for them.

KaTeX (its licence stands beside it in `katex/`) runs in QuickJS. What it makes is handed over as JSON: a long text of QuickJS
is a tree of pieces, which does not cross into Python by itself.
"""

from __future__ import annotations

import json
from functools import cached_property
from pathlib import Path
from typing import Any

import quickjs

FOLDER = Path(__file__).parent / "katex"

_RENDER = """
function refuse(context) {
  throw new Error(context.command + " is not allowed in a formula");
}
function render(text, display) {
  const options = {displayMode: display, throwOnError: true, strict: "error", trust: refuse, output: "htmlAndMathml"};
  try {
    return JSON.stringify({html: katex.renderToString(text, options)});
  } catch (error) {
    return JSON.stringify({fault: String(error.message)});
  }
}
"""


class FormulaError(ValueError):
    """A formula that KaTeX does not understand; the message says what and where in it."""


class Formulas:
    """KaTeX, started when the first formula asks for it."""

    def __init__(self) -> None:
        self._known: dict[tuple[str, bool], str] = {}

    @cached_property
    def _render(self) -> Any:
        context = quickjs.Context()
        context.eval((FOLDER / "katex.min.js").read_text(encoding="utf-8"))
        context.eval(_RENDER)
        return context.get("render")

    def html(self, text: str, *, display: bool) -> str:
        """A formula as HTML with MathML in it.

        Args:
            text: in LaTeX's notation, without dollars.
            display: on lines of its own.

        Raises:
            FormulaError: if it is not a formula that KaTeX knows.
        """
        if (text, display) not in self._known:
            made = json.loads(self._render(text, display))
            if "fault" in made:
                raise FormulaError(made["fault"].removeprefix("KaTeX parse error: "))
            self._known[text, display] = made["html"]
        return self._known[text, display]


def style() -> str:
    """KaTeX's style sheet with the fonts that are here: every browser that this site is for takes WOFF2."""
    text = (FOLDER / "katex.min.css").read_text(encoding="utf-8")
    for kind, name in (("woff", "woff"), ("ttf", "truetype")):
        parts = text.split(f'.{kind}) format("{name}")')
        # Each part but the last ends with the beginning of such a source: `,url(fonts/Name`.
        text = "".join([*(part.rpartition(",url(")[0] for part in parts[:-1]), parts[-1]])
    return text
