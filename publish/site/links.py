"""Whether every link of the site leads somewhere: pages, files, and the places in a page. Nothing is asked of the network."""

from __future__ import annotations

import posixpath
import re
from dataclasses import dataclass, field
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit

_ATTRIBUTES = {"href", "src", "data-src", "poster", "action"}
# Elements whose address may be the thing itself, as data.
_MAY_HOLD = frozenset({"img", "link"})
_CSS = re.compile(r"url\(\s*['\"]?([^'\")]+)['\"]?\s*\)")


@dataclass(frozen=True)
class Finding:
    """A link that is broken: the page that it stands on, the link, and what is wrong."""

    page: str
    link: str
    what: str


@dataclass
class _Page(HTMLParser):
    """What a page names and where it leads."""

    ids: set[str] = field(default_factory=set)
    doubles: set[str] = field(default_factory=set)
    links: list[tuple[str, str]] = field(default_factory=list)

    def __post_init__(self) -> None:
        HTMLParser.__init__(self, convert_charrefs=True)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """Note ids and addresses."""
        for name, value in attrs:
            if name == "id" and value:
                (self.doubles if value in self.ids else self.ids).add(value)
            elif name in _ATTRIBUTES and value is not None:
                self.links.append((tag, value))


def check(folder: Path) -> tuple[list[Finding], int]:
    """Follow every link of a site.

    An address outside must be https, and only a link may lead there: nothing is loaded from anywhere else.

    Args:
        folder: the site.

    Returns:
        what is broken, and how many links there are.
    """
    pages: dict[str, _Page] = {}
    for path in sorted(folder.rglob("*.html")):
        page = _Page()
        page.feed(path.read_text(encoding="utf-8"))
        pages[path.relative_to(folder).as_posix()] = page
    findings = [Finding(name, f"#{one}", "the id stands twice") for name, page in pages.items() for one in sorted(page.doubles)]
    count = 0
    for name, page in pages.items():
        for tag, link in dict.fromkeys(page.links):
            count += 1
            if what := _fault(name, tag, link, folder, pages):
                findings.append(Finding(name, link, what))
    for path in sorted((folder / "_static").rglob("*.css")):
        name = path.relative_to(folder).as_posix()
        for link in _CSS.findall(path.read_text(encoding="utf-8")):
            count += 1
            if not link.startswith("data:") and (what := _fault(name, "url", link, folder, pages)):
                findings.append(Finding(name, link, what))
    return findings, count


def _fault(page: str, tag: str, link: str, folder: Path, pages: dict[str, _Page]) -> str:
    """What is wrong with a link; empty if nothing is."""
    try:
        parts = urlsplit(link)
    except ValueError as error:
        return f"not an address: {error}"
    if parts.scheme or parts.netloc:
        if tag != "a":
            return "" if parts.scheme == "data" and tag in _MAY_HOLD else "it is loaded from outside of the site"
        return "" if parts.scheme == "https" and re.fullmatch(r"[a-z0-9.-]+\.[a-z]+", parts.netloc) else "not an https address"
    target = posixpath.normpath(posixpath.join(posixpath.dirname(page), unquote(parts.path))) if parts.path else page
    if target.startswith(("..", "/")):
        return "it leads out of the site"
    if not (folder / target).is_file():
        return (
            "there is no such file"
            if not (folder / target).is_dir()
            else "it leads to a folder, which a page read from a file is not"
        )
    fragment = unquote(parts.fragment)
    if fragment and target in pages and fragment not in pages[target].ids:
        return f"{target} has no {fragment!r}"
    return ""
