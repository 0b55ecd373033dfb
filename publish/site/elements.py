"""Nodes of a page that HTML knows and docutils does not: forms, fieldsets, details, stages. Their children are ordinary nodes."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from docutils import nodes
from sphinx.writers.html5 import HTML5Translator


class Html(nodes.General, nodes.Element):
    """An HTML element: its tag in ``tag``, its attributes in ``html``; children between start and end tag."""


def make(tag: str, *children: nodes.Node | str, classes: Iterable[str] = (), ids: Iterable[str] = (), **html: str) -> Html:
    """An element.

    Args:
        tag: its name.
        children: nodes, or plain text.
        classes: its classes.
        ids: its ids.
        html: attributes; an underscore in a name stands for a hyphen.
    """
    node = Html(tag=tag, html={name.replace("_", "-"): value for name, value in html.items()})
    node["classes"] += classes
    node["ids"] += ids
    node += [nodes.Text(child) if isinstance(child, str) else child for child in children]
    return node


def details(summary: str | list[nodes.Node], *children: nodes.Node, classes: Iterable[str] = ("reveal",), **html: str) -> Html:
    """Something behind a click; it opens without a script."""
    head = make("summary", *([summary] if isinstance(summary, str) else summary))
    return make("details", head, *children, classes=classes, **html)


def link(text: str, url: str, **html: str) -> Html:
    """A link, for instance to a download."""
    return make("a", text, href=url, **html)


def paragraph(*children: nodes.Node | str, classes: Iterable[str] = ()) -> nodes.paragraph:
    """A paragraph."""
    node = nodes.paragraph()
    node["classes"] += classes
    node += [nodes.Text(child) if isinstance(child, str) else child for child in children]
    return node


def term(text: str) -> nodes.literal:
    """A name or a command within a line."""
    return nodes.literal(text, text)


def code(text: str, language: str = "python", classes: Iterable[str] = ()) -> nodes.literal_block:
    """A block of code or of printed text."""
    block = nodes.literal_block(text, text, language=language)
    block["classes"] += classes
    return block


def table(head: Iterable[str], rows: Iterable[Iterable[nodes.Node | str]], classes: Iterable[str] = ()) -> Html:
    """A table; the first cell of each row is its title. Without titles of the columns it has no row for them."""
    names = list(head)
    titles = make("tr", *(make("th", name, scope="col") for name in names))
    body: list[nodes.Node] = []
    for row in rows:
        first, *others = row
        cells = [make("td", one, data_label=name) for name, one in zip(names[1:], others, strict=True)]
        body.append(make("tr", make("th", first, scope="row"), *cells))
    parts = [make("thead", titles)] if titles.astext().strip() else []
    made = make("table", *parts, make("tbody", *body), classes=("docutils", *classes))
    return make("div", made, classes=("table-wrapper",))


class Translator(HTML5Translator):
    """Sphinx's writer, which also says of a section that it is a stage."""

    def visit_section(self, node: nodes.section) -> None:
        """Write the start tag; of a stage with its id, by which scripts find it."""
        if "stage" not in node:
            super().visit_section(node)
            return
        self.section_level += 1
        self.body.append(self.starttag(node, "section", **{"data-stage": node["stage"]}))


def visit(translator: Any, node: Html) -> None:
    """Write the start tag."""
    translator.body.append(translator.starttag(node, node["tag"], "", **node["html"]))


def depart(translator: Any, node: Html) -> None:
    """Write the end tag, unless the element is one that has none."""
    if node["tag"] not in {"input", "img", "hr", "br"}:
        translator.body.append(f"</{node['tag']}>")
