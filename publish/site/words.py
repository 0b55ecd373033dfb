"""The sources of all pages, as MyST reads them: what is generated from the course, and the written pages in `pages/` and `docs/`."""

from __future__ import annotations

import hashlib
import json
from dataclasses import replace
from pathlib import Path

import jinja2

import environment
from course.catalogue import Lesson, Phase
from publish import guide, markdown
from publish.site import glossary
from publish.site.downloads import Download
from publish.site.sheets import Sheet, Sheets, address, guide_page, notes_page, relative
from publish.site.whole import Site

PAGES = Path(__file__).parent / "pages"

# Documents of the course that are pages as they stand.
DOCUMENTS = (
    ("For instructors", ("docs/grading.md", "docs/security.md")),
    ("For authors", ("docs/lesson-format.md", "docs/architecture.md", "docs/site.md", "CONTRIBUTING.md", "SECURITY.md")),
)

# What the navigation calls a page whose own title would not say which it is.
_TITLES = {"SECURITY": "Reporting a vulnerability"}


def render(site: Site) -> dict[str, str]:
    """The source of every page, by its file below Sphinx's folder."""
    sheets = site.sheets
    made = {f"{sheet.page}.md": _unit(site, sheet) for sheet in sheets.all}
    for phase in sheets.written:
        made[f"{guide_page(phase)}.md"] = _guide(site, phase)
        made[f"{notes_page(phase)}.md"] = _notes(sheets, phase)
    for _, names in DOCUMENTS:
        made |= {name: (sheets.root / name).read_text(encoding="utf-8-sig") for name in names if (sheets.root / name).is_file()}
    values = {
        "title": sheets.catalogue.file.title,
        "begin": _begin(sheets),
        "map": _map(sheets),
        "downloads": _home_downloads(site),
        "contents": _contents(sheets),
        "glossary": glossary.render(sheets),
        "devices": _devices(sheets),
        "recorded": _recorded(sheets),
        "pythons": environment.span(),
        "newest": f"{environment.BEYOND[0]}.{environment.BEYOND[1] - 1}",
        "size": environment.SIZE,
        "jax": _locked(sheets, "jax"),
        "first": sheets.all[0].id,
        "course": _download(site.downloads.course, "setup"),
        "phases": ", ".join(_download(files[1], "setup") + f" ({name})" for name, files in site.downloads.phases.items()),
    }
    # The pages are Markdown, where nothing is to be escaped for HTML.
    templates = jinja2.Environment(undefined=jinja2.StrictUndefined, keep_trailing_newline=True, autoescape=False)  # noqa: S701
    for path in sorted(PAGES.glob("*.md")):
        made[path.name] = templates.from_string(path.read_text(encoding="utf-8")).render(values)
    return made


def _unit(site: Site, sheet: Sheet) -> str:
    """The page of a lesson or project: its title, and the directive that shows it.

    The comment changes when anything on the page does, and so makes Sphinx read the page again.
    """
    files = [[one.path, one.size] for one in site.downloads.units[sheet.id]]
    around = [[one.path, one.name, one.what] for one in site.downloads.around(sheet)]
    before = [[name, site.sheets.names.get(name), site.sheets.page(name)] for name in sheet.meta.after]
    state = hashlib.sha256(json.dumps([sheet.digest, files, around, before]).encode()).hexdigest()
    return f"# {sheet.title}\n\n% {state}\n\n```{{unit}} {sheet.id}\n```\n"


def _guide(site: Site, phase: Phase) -> str:
    page = guide_page(phase)
    sheets = site.sheets

    def to(unit_id: str) -> str:
        return f"/{sheets[unit_id].page}.md"

    def work(lesson: Lesson) -> str:
        return _download(next(one for one in site.downloads.units[lesson.id] if one.file == f"{lesson.id}.ipynb"), page)

    links = guide.Links(lesson=lambda lesson: to(lesson.id), work=work, project=to)
    return markdown.join(
        guide.words(phase, sheets.catalogue, links),
        "## Take it along",
        _table(site.downloads.phases[phase.entry.id], page),
        "[Revision notes](notes.md) hold what the lessons claim, on one page.",
        toctree("", [f"{sheet.page}" for sheet in sheets.of(phase)] + [notes_page(phase)]),
    )


def _table(files: tuple[Download, ...], page: str) -> str:
    rows = [(_download(one, page), f"{one.what} ({one.size})") for one in files]
    return markdown.table(("file", "what it is"), rows)


def _download(one: Download, page: str) -> str:
    return f'<a href="{relative(one.path, page)}" download="{one.file}">{one.name}</a>'


def _notes(sheets: Sheets, phase: Phase) -> str:
    """What each lesson of a phase claims, what to carry forward, and how to tell what is wrong."""
    parts = [
        f"# Revision notes: {phase.entry.title}",
        "What the lessons claim, without the reasons. Each heading leads to the lesson.",
    ]
    for sheet in sheets.of(phase):
        if isinstance(sheet.unit, Lesson):
            parts += [f"## {sheet.title}", sheet.meta.question, _claims(sheet), *_forward(sheet)]
            parts += [markdown.diagnosis(sheet.meta.diagnoses)] if sheet.meta.diagnoses else []
    return markdown.join(*parts)


def _claims(sheet: Sheet) -> str:
    """The headings of the first stage; with the claim below one, where it is written out."""
    items: list[str] = []
    for block in sheet.blocks:
        if block.stage == "Understand" and block.text.startswith("## "):
            paragraphs = block.text.split("\n\n")
            claim = _claim(paragraphs)
            page = relative(address(sheet.page), notes_page(sheet.phase) if sheet.phase else "")
            heading = paragraphs[0].removeprefix("## ").partition("\n")[0]
            items.append(f"[{heading}]({page.removesuffix('.html')}.md#understand)" + (f": {claim}" if claim else ""))
    return markdown.bullets(items)


def _claim(paragraphs: list[str]) -> str:
    """The paragraph that says what is claimed, with the formula or table that it ends in and the words that go on after it."""
    begin = next((index for index, one in enumerate(paragraphs) if one.startswith("**Claim.**")), None)
    if begin is None:
        return ""
    end = begin + 1
    while end < len(paragraphs) and not paragraphs[end - 1].rstrip("$|` ").endswith((".", "?", "!")):
        end += 1
        if paragraphs[end - 1].startswith("|"):
            break
    return "\n\n".join(paragraphs[begin:end]).removeprefix("**Claim.**").strip()


def _forward(sheet: Sheet) -> list[str]:
    words = [one.text for one in sheet.blocks if one.kind == "words" and one.heading == "Carry forward"]
    return [f"**Carry forward.** {text.partition(chr(10))[2].strip()}" for text in words]


def _begin(sheets: Sheets) -> str:
    items = [
        f"[Phase {phase.entry.id}: {phase.entry.title}](/{guide_page(phase)}.md): {phase.meta.summary if phase.meta else ''} First lesson: "
        f"[{phase.lessons[0].meta.title}](/{sheets[phase.lessons[0].id].page}.md)."
        for phase in sheets.written
    ]
    return markdown.bullets(items)


def _map(sheets: Sheets) -> str:
    rows = []
    for phase in sheets.catalogue.phases:
        entry = phase.entry
        title = f"[{entry.title}](/{guide_page(phase)}.md)" if phase in sheets.written else entry.title
        state = f"{len(phase.lessons)} lessons" if phase in sheets.written else "planned"
        rows.append(
            (entry.id, title, ", ".join(entry.after) or "nothing", state + (", needs an accelerator" if entry.optional else ""))
        )
    return markdown.table(("phase", "title", "comes after", "state"), rows)


def _home_downloads(site: Site) -> str:
    files = [site.downloads.course]
    for name, phase in site.downloads.phases.items():
        files += [replace(one, name=f"Phase {name}: {one.name[0].lower()}{one.name[1:]}") for one in phase]
    return _table(tuple(files), "index")


def _devices(sheets: Sheets) -> str:
    """Where each lesson and project was recorded."""
    rows = []
    for sheet in sheets.all:
        where = sheet.receipt.environment
        device = ", ".join(where.devices) or "no JAX device"
        system = f"{where.platform}, {where.machine}, Python {where.python}"
        rows.append(
            (
                f"[{sheet.title}](/{sheet.page}.md)",
                sheet.meta.hardware.upper(),
                device,
                system,
                f"{sheet.receipt.recorded:%Y-%m-%d}",
            )
        )
    return markdown.table(("lesson or project", "written for", "recorded on", "system", "date"), rows)


def _recorded(sheets: Sheets) -> str:
    """Whether anything was recorded on an accelerator: in one sentence, from the receipts."""
    on = [sheet.title for sheet in sheets.all if any("cpu" not in one.lower() for one in sheet.receipt.environment.devices)]
    if on:
        return f"Recorded on an accelerator: {', '.join(on)}. Everything else was recorded on a CPU."
    return (
        "**No run of this course has been recorded on an accelerator yet.** Every lesson and project so far is written for a CPU and was "
        "recorded on one. Nothing here needs a GPU or TPU."
    )


def _locked(sheets: Sheets, package: str) -> str:
    """The version of a package that the course's environment holds."""
    pins = environment.pins((sheets.root / environment.RUNTIME).read_text(encoding="utf-8"))
    return next(pin.version for pin in pins if pin.name == package)


def _contents(sheets: Sheets) -> str:
    """The navigation."""
    groups = [("Learn", ["learning", *(guide_page(phase) for phase in sheets.written)])]
    groups += [("Look up", ["setup", "accelerators", "glossary"])]
    for caption, names in DOCUMENTS:
        groups.append((caption, [name.removesuffix(".md") for name in names if (sheets.root / name).is_file()]))
    return markdown.join(*(toctree(caption, names) for caption, names in groups if names))


def toctree(caption: str, names: list[str]) -> str:
    """A list of pages for the navigation, not shown where it stands."""
    options = [":hidden:", *([f":caption: {caption}"] if caption else [])]
    listed = [f"{_TITLES[name]} </{name}>" if name in _TITLES else f"/{name}" for name in names]
    return "\n".join(["```{toctree}", *options, "", *listed, "```"])
