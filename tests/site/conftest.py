"""A real browser, pages by hand, and the whole site. Without a browser the tests are skipped, unless it is demanded."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
from playwright.sync_api import sync_playwright

ROOT = Path(__file__).resolve().parents[2]
STATIC = ROOT / "publish" / "site" / "static"
BROWSERS = ("chromium", "chromium-browser", "google-chrome")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if Path(__file__).parent in item.path.parents:
            item.add_marker(pytest.mark.browser)


MISSING: list[str] = []


def missing(what: str) -> None:
    """Skip, or fail where a browser is demanded: a check that is not made must not pass for one that was."""
    if os.environ.get("REQUIRE_BROWSER") == "1":
        pytest.fail(f"{what}, and REQUIRE_BROWSER=1 demands the browser tests", pytrace=False)
    MISSING.append(what)
    pytest.skip(what)


def pytest_terminal_summary(terminalreporter) -> None:
    for what in sorted(set(MISSING)):
        terminalreporter.write_line(f"The browser tests were skipped: {what}. Debian has it: apt-get install chromium")


@pytest.fixture(scope="package")
def browser():
    path = next(filter(None, map(shutil.which, BROWSERS)), None)
    if path is None:
        missing("no chromium is installed")
    quiet = ["--disable-background-networking", "--disable-component-update", "--disable-sync", "--no-first-run", "--disable-gpu"]
    # Chromium refuses its own sandbox to root, as which CI runs.
    alone = ["--no-sandbox"] if hasattr(os, "geteuid") and os.geteuid() == 0 else []
    with sync_playwright() as started:
        made = started.chromium.launch(executable_path=path, args=quiet + alone)
        yield made
        made.close()


class Reader:
    """Somebody with a browser of their own: pages that share what is kept, and what went wrong on them.

    Attributes:
        context: the browser's storage and settings.
        home: where addresses begin; requests to anything else are refused and noted.
        requests: the refused addresses.
        errors: what the console and the scripts reported as errors.
    """

    def __init__(self, browser, home: str, **settings):
        self.home, self.requests, self.errors = home, [], []
        self.context = browser.new_context(accept_downloads=True, **settings)
        self.context.set_default_timeout(15_000)
        self.context.route("**/*", self._route)

    def _route(self, route) -> None:
        if route.request.url.startswith((self.home, "blob:", "data:")):
            route.continue_()
        else:
            self.requests.append(route.request.url)
            route.abort()

    def open(self, path: str = "", script: str | None = None):
        page = self.context.new_page()
        page.on(
            "console",
            lambda message: (
                message.type == "error" and self.errors.append(f"{page.url}: {message.text} ({message.location.get('url')})")
            ),
        )
        page.on("pageerror", lambda error: self.errors.append(f"{page.url}: {error}"))
        if script:
            page.add_init_script(script)
        page.goto(self.home + path)
        return page

    def check(self) -> None:
        """Nothing outside was asked for, and nothing was reported."""
        assert not self.requests, "\n".join(self.requests)
        assert not self.errors, "\n".join(self.errors)


@pytest.fixture
def reader(browser, little) -> Iterator[Callable[..., Reader]]:
    """Make readers: ``reader()`` on the pages by hand, ``reader(home=…)`` elsewhere. What they met is checked in the end."""
    made: list[Reader] = []

    def make(home: str | None = None, *, checked: bool = True, **settings) -> Reader:
        one = Reader(browser, home or f"{little.as_uri()}/", **settings)
        made.append(one)
        one.checked = checked
        return one

    yield make
    for one in made:
        one.context.close()
    for one in made:
        if one.checked:
            one.check()


@pytest.fixture(scope="package")
def scripts(browser, little):
    """A page for calls of pure functions: nothing that one test does there is seen by another."""
    ana = Reader(browser, f"{little.as_uri()}/")
    yield ana.open("learning.html")
    ana.context.close()
    ana.check()


@pytest.fixture(scope="package")
def little(tmp_path_factory) -> Path:
    """A course of two lessons by hand with home and My learning: the contract of docs/site.md, without the builder."""
    folder = tmp_path_factory.mktemp("little")
    shutil.copytree(STATIC, folder / "_static")
    pages = Path(__file__).parent / "pages"
    shutil.copy(pages / "course-data.js", folder / "_static")
    scripts = "".join(f'<script defer src="_static/{path.name}"></script>' for path in sorted((folder / "_static").glob("*.js")))
    unit = (
        (pages / "unit.html")
        .read_text(encoding="utf-8")
        .replace("<!-- scripts -->", f'<link rel="stylesheet" href="_static/course.css">{scripts}')
    )
    (folder / "unit.html").write_text(unit, encoding="utf-8")
    for name, kind, view in (("index", "home", "home-learning"), ("learning", "learning", "learning-view")):
        body = f'<article><h1>{kind}</h1><div id="{view}"><p>This needs scripts.</p></div></article>'
        text = re.sub(r"<article>.*</article>", body, unit, flags=re.DOTALL)
        text = re.sub(r'<meta name="course-unit".*?>', "", text).replace('content="lesson"', f'content="{kind}"')
        (folder / f"{name}.html").write_text(text, encoding="utf-8")
    return folder


@pytest.fixture(scope="package")
def whole(browser, site) -> Path:
    """The whole site; without a browser it is not even made."""
    return site


@dataclass
class Server:
    """The site behind `python -m publish serve`: its address, and a way to end it."""

    process: subprocess.Popen[str]
    home: str

    def stop(self) -> None:
        self.process.terminate()
        self.process.wait(30)


@pytest.fixture
def server(whole) -> Iterator[Server]:
    command = [sys.executable, "-u", "-m", "publish", "serve", "--port", "0", "--out", str(whole)]
    with subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True) as process:
        try:
            said = next(filter(None, (re.search(r"http://\S+/", line) for line in process.stdout)))
            yield Server(process, said.group())
        finally:
            process.kill()
