"""The pieces of the site by themselves: the check of links, formulas, the server, the commands."""

from __future__ import annotations

import re
import threading
import urllib.error
import urllib.request
from pathlib import Path

import pytest
from typer.testing import CliRunner

from publish.__main__ import app
from publish.site import formulas, links, serve


@pytest.fixture
def site(tmp_path) -> Path:
    """Two pages, a style sheet and a font, without a fault."""
    (tmp_path / "_static").mkdir()
    (tmp_path / "sub").mkdir()
    (tmp_path / "_static" / "a.css").write_text("@font-face{src:url(f.woff2)} i{background:url('data:image/png;base64,AA')}")
    (tmp_path / "_static" / "f.woff2").write_bytes(b"f")
    (tmp_path / "index.html").write_text(
        '<a href="sub/page.html?x=1#there">to</a> <a href="#here">here</a> <b id="here"></b> <a href="https://docs.python.org/3/">out</a>'
        '<link rel="stylesheet" href="_static/a.css?v=1"> <link rel="icon" href="data:image/svg+xml,AA"> <img src="data:image/png;base64,AA" alt="">'
    )
    (tmp_path / "sub" / "page.html").write_text('<p id="there"></p><a href="../index.html">back</a><a href="./page.html">self</a>')
    return tmp_path


def test_good_links_are_counted_and_nothing_is_said(site):
    findings, count = links.check(site)
    assert findings == []
    assert count == 10


@pytest.mark.parametrize(
    ("html", "what"),
    [
        ('<a href="gone.html">x</a>', "there is no such file"),
        ('<a href="sub/">x</a>', "it leads to a folder"),
        ('<a href="sub/page.html#gone">x</a>', "sub/page.html has no 'gone'"),
        ('<a href="#gone">x</a>', "index.html has no 'gone'"),
        ('<a href="../outside.html">x</a>', "it leads out of the site"),
        ('<a href="/root.html">x</a>', "it leads out of the site"),
        ('<a href="http://docs.python.org/">x</a>', "not an https address"),
        ('<a href="https://localhost:8000/">x</a>', "not an https address"),
        ('<a href="javascript:alert(1)">x</a>', "not an https address"),
        ('<a href="//cdn.example.org/x.js">x</a>', "not an https address"),
        ('<script src="https://cdn.example.org/x.js"></script>', "it is loaded from outside of the site"),
        ('<script src="data:text/javascript,alert(1)"></script>', "it is loaded from outside of the site"),
        ('<link rel="stylesheet" href="https://fonts.example.org/x.css">', "it is loaded from outside of the site"),
        ('<img src="https://example.org/x.png" alt="">', "it is loaded from outside of the site"),
        ('<b id="here"></b><i id="two"></i><i id="two"></i>', "the id stands twice"),
    ],
)
def test_each_broken_link_is_told(site, html, what):
    page = site / "index.html"
    page.write_text(page.read_text().replace('<b id="here"></b>', "") + f'<u id="here"></u>{html.replace("here", "there-is")}')
    findings, _ = links.check(site)
    assert [one.page for one in findings] == ["index.html"]
    assert what in findings[0].what


def test_a_font_that_is_not_here_is_told(site):
    (site / "_static" / "a.css").write_text("@import url(https://fonts.example.org/x.css); i{src:url(gone.woff2)}")
    findings, _ = links.check(site)
    assert [one.what for one in findings] == ["it is loaded from outside of the site", "there is no such file"]


def test_a_formula_is_html_and_mathml():
    made = formulas.Formulas().html(r"\frac{\sum_j m_j y_j}{3}", display=True)
    assert made.startswith('<span class="katex-display">')
    assert "<math " in made
    assert "<mfrac>" in made
    # Longer than what QuickJS keeps in one piece.
    assert len(formulas.Formulas().html("+".join(f"x_{{{number}}}" for number in range(500)), display=False)) > 100_000


@pytest.mark.parametrize("text", [r"\frac{1}{", r"\nothing", r"x^", "café", r"\href{https://example.org}{x}"])
def test_a_bad_formula_is_told_and_the_next_one_is_made(text):
    made = formulas.Formulas()
    with pytest.raises(formulas.FormulaError) as caught:
        made.html(text, display=False)
    assert str(caught.value)
    assert "<mi>x</mi>" in made.html("x", display=False)


def test_the_style_of_formulas_asks_for_the_fonts_that_are_here():
    fonts = {path.name for path in (formulas.FOLDER / "fonts").iterdir()}
    assert set(re.findall(r"url\(fonts/([^)]+)\)", formulas.style())) == fonts
    assert 'src:url(fonts/KaTeX_AMS-Regular.woff2) format("woff2")}' in formulas.style()


def test_the_server_shows_the_site_to_this_machine_only(site):
    with serve.server(site, 0) as one:
        assert one.server_address[0] == "127.0.0.1"
        thread = threading.Thread(target=one.serve_forever)
        thread.start()
        try:
            address = f"http://127.0.0.1:{one.server_port}"
            with urllib.request.urlopen(f"{address}/sub/page.html") as answer:
                assert answer.headers["Cache-Control"] == "no-cache"
                assert b'id="there"' in answer.read()
            with pytest.raises(urllib.error.HTTPError) as caught:
                urllib.request.urlopen(f"{address}/../secret.txt")
            caught.value.close()
            assert caught.value.code == 404
        finally:
            one.shutdown()
            thread.join()


def test_serve_without_a_site_says_how_to_make_one(small, monkeypatch):
    monkeypatch.chdir(small.root)
    result = CliRunner().invoke(app, ["serve"])
    assert result.exit_code == 1
    assert "holds no site — write it with `make site`" in result.output


def test_a_taken_port_is_told(site):
    with serve.server(site, 0) as one:
        result = CliRunner().invoke(app, ["serve", "--out", str(site), "--port", str(one.server_port)])
    assert result.exit_code == 1
    assert f"port {one.server_port}: Address already in use — choose another with --port" in result.output


def test_site_says_what_it_wrote_and_what_is_wrong(small, monkeypatch):
    monkeypatch.chdir(small.root)
    small.change("lesson.md", "{recorded}`Values`", "{recorded}`Nothing`")
    result = CliRunner().invoke(app, ["site"])
    assert result.exit_code == 1
    assert "nothing recorded is called 'Nothing'" in result.output


def test_without_sphinx_the_command_says_what_to_do(small, monkeypatch):
    monkeypatch.chdir(small.root)
    monkeypatch.setitem(__import__("sys").modules, "publish.site.build", None)
    result = CliRunner().invoke(app, ["site"])
    assert result.exit_code == 1
    assert "python -m environment --site publish site" in result.output
