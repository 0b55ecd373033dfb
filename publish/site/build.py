"""Makes the site: the sources of the pages, Sphinx over them, the downloads, and the check that every link leads somewhere.

Sphinx reads and keeps its memory in `.cache/site/`, so that only what has changed is made again. When what makes the pages has
changed (this package, Sphinx itself, the list of pages), everything is.
"""

from __future__ import annotations

import hashlib
import importlib.metadata
import io
import json
import re
import shutil
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from sphinx.application import Sphinx
from sphinx.util.docutils import docutils_namespace, patch_docutils

from course.catalogue import Catalogue
from course.errors import CourseError, Problem
from course.receipt import write_text
from publish.site import data, formulas, words
from publish.site.links import Finding, check
from publish.site.whole import Site, current

HERE = Path(__file__).parent
OUTPUT = "_site"
_CACHE = Path(".cache") / "site"
_WARNING = re.compile(r"^(?P<place>.*?): (WARNING|ERROR|SEVERE|CRITICAL): (?P<what>.*)$")
_MADE_WITH = ("sphinx", "myst-parser", "furo", "sphinx-design", "sphinx-copybutton", "docutils", "pygments")


@dataclass(frozen=True)
class Result:
    """What a build has made.

    Attributes:
        folder: the site.
        pages: how many pages it has.
        written: how many of them were made anew.
        links: how many links were followed.
    """

    folder: Path
    pages: int
    written: int
    links: int


def build(catalogue: Catalogue, folder: Path | None = None, *, memory: Path | None = None, fresh: bool = False) -> Result:
    """Make the site, as much of it as has changed.

    Args:
        catalogue: the course.
        folder: where the site goes; `_site` in the course if absent. Its content is replaced.
        memory: where Sphinx keeps what it has read; `.cache/site` in the course if absent.
        fresh: make every page anew.

    Raises:
        CourseError: for faults of the course's files, a formula that cannot be read, a warning of Sphinx, or a broken link.
    """
    if catalogue.problems:
        raise CourseError(*catalogue.problems)
    site = Site(catalogue)
    cache = memory or catalogue.root / _CACHE
    output = folder or catalogue.root / OUTPUT
    source = cache / "source"
    token = current.set(site)
    try:
        pages = words.render(site)
        if fresh:
            _forget(cache)
        _forget_if_changed(cache, output, pages)
        _mirror(source, {**{name: text.encode() for name, text in pages.items()}, **_static()})
        written = _sphinx(source, output, cache / "doctrees", catalogue)
        _mirror(output / "downloads", {name.partition("/")[2]: blob for name, blob in site.downloads.files().items()})
        write_text(output / "_static" / "course-data.js", data.render(site.sheets))
    finally:
        current.reset(token)
    findings, links = check(output)
    if findings:
        raise CourseError(*(_problem(one) for one in findings))
    return Result(output, len(pages), written, links)


def _problem(one: Finding) -> Problem:
    return Problem(one.page, one.link, one.what, "mend the link where the page's words come from")


def _static() -> dict[str, bytes]:
    """The files that go beside the pages, by their place among the sources."""
    files = {f"_static/{path.name}": path.read_bytes() for path in sorted((HERE / "static").iterdir()) if path.is_file()}
    files |= {f"_static/fonts/{path.name}": path.read_bytes() for path in sorted((formulas.FOLDER / "fonts").glob("*.woff2"))}
    files["_static/katex.css"] = formulas.style().encode()
    files["_static/katex-license.txt"] = (formulas.FOLDER / "LICENSE").read_bytes()
    return files | {f"_templates/{path.name}": path.read_bytes() for path in sorted((HERE / "templates").glob("*.html"))}


def _mirror(folder: Path, files: Mapping[str, bytes]) -> None:
    """Make a folder hold just these files; one that has not changed is not touched."""
    wanted = {folder / name: blob for name, blob in files.items()}
    for path in [path for path in folder.rglob("*") if path.is_file() and path not in wanted]:
        path.unlink()
    for path, blob in wanted.items():
        if not path.is_file() or path.read_bytes() != blob:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(blob)


def _forget_if_changed(cache: Path, output: Path, pages: Mapping[str, str]) -> None:
    """Begin anew where something has changed that every page depends on."""
    state = hashlib.sha256()
    for path in sorted(path for path in HERE.rglob("*") if path.is_file() and path.suffix != ".pyc"):
        state.update(path.relative_to(HERE).as_posix().encode() + b"\0" + path.read_bytes())
    versions = [[name, importlib.metadata.version(name)] for name in _MADE_WITH]
    titles = [[name, text.partition("\n")[0]] for name, text in sorted(pages.items())]
    state.update(json.dumps([versions, titles, str(output)]).encode())
    stamp = cache / "stamp"
    if not stamp.is_file() or stamp.read_text(encoding="utf-8") != state.hexdigest() or not (output / "index.html").is_file():
        _forget(cache)
        if output.is_dir():
            _refuse_foreign(output)
            shutil.rmtree(output)
        cache.mkdir(parents=True, exist_ok=True)
        write_text(stamp, state.hexdigest())


def _forget(cache: Path) -> None:
    """Take away Sphinx's memory."""
    (cache / "stamp").unlink(missing_ok=True)
    if (cache / "doctrees").is_dir():
        shutil.rmtree(cache / "doctrees")


def _refuse_foreign(output: Path) -> None:
    """A folder that is to be replaced must be a site of ours, or empty."""
    if output.name != OUTPUT and any(output.iterdir()) and not (output / "_static" / "katex.css").is_file():
        raise CourseError.at(
            output.name, "", "the folder holds something that is not a site", "name another folder, or move it away"
        )


def _sphinx(source: Path, output: Path, doctrees: Path, catalogue: Catalogue) -> int:
    """Run Sphinx; a warning is a fault. Returns how many pages were written.

    Raises:
        CourseError: with every warning.
    """
    warnings = io.StringIO()
    written: list[str] = []
    try:
        with patch_docutils(source), docutils_namespace():
            app = Sphinx(
                srcdir=source,
                confdir=None,
                outdir=output,
                doctreedir=doctrees,
                buildername="html",
                confoverrides=_configuration(catalogue),
                status=None,
                warning=warnings,
                warningiserror=True,
            )
            app.connect("html-page-context", lambda app, page, template, context, tree: written.append(page) if tree else None)
            app.build()
            failed = app.statuscode != 0
    except BaseException:
        _forget(doctrees.parent)
        raise
    text = re.sub(r"\x1b\[[0-9;]*m", "", warnings.getvalue())
    if failed or text.strip():
        # Sphinx remembers a page with a fault as read, and would not tell of it again.
        _forget(doctrees.parent)
        raise CourseError(*(_warning(line, catalogue.root, source) for line in text.splitlines() if line.strip()))
    return len(written)


def _warning(line: str, root: Path, source: Path) -> Problem:
    found = _WARNING.match(line)
    place, what = (found["place"], found["what"]) if found else ("", line)
    for folder in (source, root):
        place = place.replace(f"{folder.as_posix()}/", "").replace(f"{folder}", "")
    return Problem(place or "site", "", what, "mend it: a page with a warning is not published")


def _configuration(catalogue: Catalogue) -> dict[str, Any]:
    title = catalogue.file.title
    scripts = sorted(path.name for path in (HERE / "static").glob("*.js"))
    styles = ["katex.css", *sorted(path.name for path in (HERE / "static").glob("*.css"))]
    return {
        "project": title,
        "author": title,
        "language": "en",
        "extensions": ["myst_parser", "sphinx_design", "sphinx_copybutton", "publish.site.extension"],
        "exclude_patterns": ["_static", "_templates"],
        "templates_path": ["_templates"],
        "myst_enable_extensions": ["dollarmath", "colon_fence"],
        "myst_heading_anchors": 4,
        "myst_url_schemes": ["http", "https"],
        "html_theme": "furo",
        "html_title": title,
        "html_static_path": ["_static"],
        "html_css_files": styles,
        "html_js_files": [(name, {"defer": "defer"}) for name in scripts],
        "html_math_renderer": "katex",
        "html_copy_source": False,
        "html_show_copyright": False,
        "html_show_sphinx": False,
        "html_use_index": False,
        "html_theme_options": {"top_of_page_buttons": []},
        "copybutton_prompt_text": r"\$ ",
        "copybutton_prompt_is_regexp": True,
        "copybutton_exclude": ".linenos, .gp",
        "copybutton_selector": "div.highlight:not(.output div) pre",
        "smartquotes": False,
        "nitpicky": True,
        "toc_object_entries": False,
    }
