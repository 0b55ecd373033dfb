"""What the documents say is so: keys, verdicts, floors, commands and links are held to the code."""

import re
from pathlib import Path

import pytest

from course import receipt, schema
from graders import probe, run, submission, verdict
from tests.test_architecture import FLOORS, modules

ROOT = Path(__file__).resolve().parent.parent
DOCUMENTS = sorted([*ROOT.glob("*.md"), *ROOT.glob("docs/*.md")])


def read(name):
    return (ROOT / name).read_text(encoding="utf-8")


@pytest.mark.parametrize("path", DOCUMENTS, ids=lambda path: path.name)
def test_every_link_leads_somewhere(path):
    text = re.sub(r"^(`{3,})\w*\n.*?^\1$", "", path.read_text(encoding="utf-8"), flags=re.MULTILINE | re.DOTALL)
    for target in re.findall(r"(?<!`)\[[^\]`]*\]\(([^)\s]+)\)", text):
        if target.startswith("https://"):
            continue
        name, _, heading = target.partition("#")
        file = path.parent / name if name else path
        assert file.exists(), f"{path.name}: {target}"
        if heading:
            slugs = [re.sub(r"[^\w\s-]", "", one).strip().lower().replace(" ", "-") for one in headings(file)]
            assert heading in slugs, f"{path.name}: {target}"


def headings(path):
    return re.findall(r"^#+ (.+)$", path.read_text(encoding="utf-8"), re.MULTILINE)


def models(module, base):
    found = [one for one in vars(module).values() if isinstance(one, type) and issubclass(one, base)]
    return [one for one in found if one.__module__ == module.__name__]


# Not keys of a file: written as one text or as a list, or the common part of two files.
WITHOUT_KEYS = {"Comparator", "Range", "UnitFile"}


def test_the_lesson_format_names_every_key():
    text = read("docs/lesson-format.md")
    for model in [*models(schema, schema.Model), receipt.Receipt, receipt.Environment, receipt.FigureRecord]:
        if model.__name__ in WITHOUT_KEYS:
            continue
        for name, field in model.model_fields.items():
            key = field.alias or name
            assert re.search(rf"`[^`\n]*\b{key}\b[^`\n]*`", text), f"docs/lesson-format.md does not name {model.__name__}.{key}"


def test_every_comparator_is_in_both_documents():
    for name in schema.ComparatorName.__args__:
        for document in ("docs/lesson-format.md", "docs/grading.md"):
            assert re.search(rf"^\| `{name}\b", read(document), re.MULTILINE), f"{document}: {name}"


def test_every_verdict_and_reason_is_explained():
    text = read("docs/grading.md")
    for word in [*verdict.Verdict, *verdict.Reason]:
        assert f"| `{word.value}` |" in text, f"docs/grading.md does not explain {word.value}"


def test_the_limits_are_those_of_the_code():
    text = read("docs/grading.md")
    limits = schema.Limits()
    for number, words in [
        (submission.MAX_BYTES // 1_000_000, "{} MB"),
        (submission.MAX_CELLS, "{:,} cells"),
        (submission.MAX_DEPTH, "{} levels of nesting"),
        (submission.MAX_SOURCE, "the code of a cell | {:,} characters"),
        (run.MAX_OUTPUT, "output of a cell | {:,} characters"),
        (probe.MAX_ITEMS, "{:,} items"),
        (probe.MAX_TEXT, "{:,} characters, 20 levels"),
        (probe.MAX_DEPTH, "{} levels |"),
        (int(limits.cell_seconds), "one cell | {} s"),
        (int(limits.total_seconds), "included | {} s"),
        (int(run.GRACE_SECONDS), "for {} s more"),
    ]:
        assert words.format(number) in text, words.format(number)


# --- floors


def floors():
    """The block in docs/architecture.md: package -> module -> floor."""
    block = re.search(r"```floors\n(.*?)```", read("docs/architecture.md"), re.DOTALL).group(1)
    found, package = {}, ""
    for line in block.splitlines():
        head, slash, rest = line.partition("/")
        package = head if slash else package
        for number, names in re.findall(r"(\d+) ([^\d]+)", rest or line):
            found.setdefault(package, {}).update({name.strip(): int(number) for name in names.split(",")})
    return found


def test_the_architecture_shows_the_floors_that_are_checked():
    shown = floors()
    assert {package: shown[package] for package in FLOORS} == FLOORS


def test_the_architecture_says_what_every_module_is():
    shown, text = floors(), read("docs/architecture.md")
    for package in shown:
        there = {name for name, _ in modules(ROOT, package)}
        assert there == set(shown[package]), f"docs/architecture.md lists other modules of {package} than there are"
        for name in there - {"__main__"}:
            assert f"| `{package}/{name.replace('.', '/')}` |" in text, (
                f"docs/architecture.md does not say what {package}.{name} is"
            )


# --- commands


def test_the_readme_has_every_command_with_and_without_make():
    readme = read("README.md")
    makefile = read("Makefile")
    rows = dict(re.findall(r"^\| `make ([a-z-]+)[^`]*` \| `python -m environment ([^`]*)`", readme, re.MULTILINE))
    recipes = re.findall(r"^([a-z-]+):[^\n]*## [^\n]*\n\t@([^\n]*)\n", makefile, re.MULTILINE)
    assert {name for name, _ in recipes} <= set(rows)
    for name, recipe in recipes:
        words = recipe.replace("$(RUN)", "").replace("$(PYTHON) -m environment", "").split()
        fixed = [word for word in words if "$" not in word and not word.startswith('"')]
        assert rows[name].split()[: len(fixed)] == fixed, f"README.md, make {name}"


def test_documents_name_files_that_exist():
    for path in DOCUMENTS:
        for name in re.findall(r"`((?:course|graders|publish|docs|tests)/[a-z_/-]+\.(?:py|md))`", path.read_text(encoding="utf-8")):
            assert (ROOT / name).exists(), f"{path.name}: {name}"


def test_examples_of_commands_are_commands():
    from graders.__main__ import app

    known = {one.name for one in app.registered_commands}
    for path in DOCUMENTS:
        for name in re.findall(r"python[0-9.]* -m (?:environment )?graders ([a-z]+)", path.read_text(encoding="utf-8")):
            assert name in known, f"{path.name}: graders {name}"
