"""The Sphinx extension: the course's directives, formulas made while building, and what every page carries for the scripts."""

from __future__ import annotations

import posixpath
from pathlib import Path
from typing import Any

from docutils import nodes
from pygments.lexers.special import TextLexer
from sphinx import addnodes
from sphinx.application import Sphinx
from sphinx.util import logging

from publish.site import elements
from publish.site.formulas import FormulaError
from publish.site.units import UnitDirective
from publish.site.whole import current

log = logging.getLogger(__name__)

# What a page is to the scripts, by its name; lessons and projects say it themselves.
_KINDS = {"index": "home", "docs/grading": "instructors"}


def setup(app: Sphinx) -> dict[str, Any]:
    """Register everything with Sphinx."""
    app.add_node(elements.Html, html=(elements.visit, elements.depart))
    app.set_translator("html", elements.Translator)
    app.add_directive("unit", UnitDirective)
    app.add_html_math_renderer("katex", (_formula, None), (_formula, None))
    app.add_lexer("floors", TextLexer)
    app.connect("doctree-read", render_formulas)
    app.connect("doctree-read", unlink_files)
    app.connect("html-page-context", context)
    return {"parallel_read_safe": False, "parallel_write_safe": False}


def render_formulas(app: Sphinx, doctree: nodes.document) -> None:
    """Render every formula of a page as it is read, so that a bad one is told with its file and line."""
    formulas = current.get().formulas
    for node in [*doctree.findall(nodes.math), *doctree.findall(nodes.math_block)]:
        text, display = node.astext(), isinstance(node, nodes.math_block)
        try:
            node["html"] = formulas.html(text, display=display)
        except FormulaError as error:
            log.warning("the formula %r cannot be read: %s", text, error, location=node)
            node["html"] = ""


def _formula(translator: Any, node: nodes.Element) -> None:
    tag = "div" if isinstance(node, nodes.math_block) else "span"
    translator.body.append(translator.starttag(node, tag, "", CLASS="formula"))
    translator.body.append(f"{node['html']}</{tag}>")
    raise nodes.SkipNode


def unlink_files(app: Sphinx, doctree: nodes.document) -> None:
    """A link to a file of the course that is not on the site becomes plain text. One that leads nowhere stays, and is a fault."""
    for node in list(doctree.findall(addnodes.pending_xref)):
        target = str(node["reftarget"]).partition("#")[0]
        path = posixpath.normpath(posixpath.join(posixpath.dirname(node["refdoc"]), target))
        if node["refdomain"] is None and target and not path.startswith("..") and (current.get().sheets.root / path).exists():
            node.replace_self(node.children)


def context(app: Sphinx, pagename: str, templatename: str, context: dict[str, Any], doctree: Any) -> None:
    """What the page is, for the scripts: see docs/site.md."""
    unit = next((one for one in current.get().sheets.all if one.page == pagename), None)
    kind = unit.kind if unit else _KINDS.get(pagename) or Path(pagename).name.replace("index", "guide")
    context["course_page"], context["course_unit"] = kind, unit.id if unit else ""
