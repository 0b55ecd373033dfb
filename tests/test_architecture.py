"""The rooms and their floors: a module imports only from lower floors of its own room, and rooms only along the arrows."""

import ast
import subprocess

import pytest

# docs/architecture.md shows this table; a module that is not in it has no place yet.
FLOORS = {
    "course": {
        "errors": 0, "lean": 0, "schema": 1, "script": 1, "values": 1, "starter": 2, "comparison": 2, "catalogue": 3, "lines": 3, "receipt": 4,
    },
    "graders": {
        "early": 0, "owner": 0, "version": 0, "excess": 2, "orphans": 2, "store": 2, "reports.html": 3,
        "probe": 1, "verdict": 1, "submission": 1, "collect": 2,
        "ahead": 0, "packed": 2, "kernels.order": 0, "kernels.pipes": 0, "kernels.syscalls": 0, "kernels.processes": 0, "kernels.landlock": 1, "kernels.seccomp": 1,
        "kernels.namespaces": 1, "kernels.sandbox": 1, "kernels.watch": 1, "kernels.confine": 2, "kernels.isolation": 2,
        "kernels.launch": 3, "kernels.cold": 3, "kernels.places": 0, "kernels.shelf": 0, "kernels.ready": 0, "kernels.imports": 0,
        "kernels.forkserver": 3, "kernels.servers": 4, "kernels.provisioner": 5, "kernels.warm": 6,
        "program": 2, "run": 7, "judge": 8, "measure": 8, "reports.text": 1, "reports.lines": 2, "reports.files": 4,
        "errand": 8, "outpost": 9, "serve": 11, "cluster": 12,
        "verify": 9, "check": 9, "evidence": 9, "record": 10, "batch": 10, "__main__": 13,
    },
    "publish": {
        "prose": 1, "recorded": 1, "markdown": 1, "ipynb": 1, "notebooks": 2, "exercises": 2, "projects": 2, "guide": 2, "schemas": 2,
        "build": 3, "bundle": 4,
        "site.keys": 1, "site.elements": 1, "site.formulas": 1, "site.links": 1, "site.serve": 1, "site.sheets": 3, "site.downloads": 5,
        "site.data": 4, "site.glossary": 4, "site.parts": 6, "site.whole": 6, "site.units": 7, "site.words": 7, "site.extension": 8, "site.build": 9,
        "__main__": 10,
    },
}  # fmt: skip
ARROWS = {"course": {"course"}, "graders": {"graders", "course"}, "publish": {"publish", "course"}}


def modules(root, package):
    for path in sorted((root / package).rglob("*.py")):
        name = ".".join(path.relative_to(root / package).with_suffix("").parts)
        if not name.endswith("__init__"):
            yield name, path


def imports(path):
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module:
            yield from (f"{node.module}.{alias.name}" for alias in node.names)


@pytest.mark.parametrize("package", ARROWS)
def test_rooms_import_along_the_arrows(root, package):
    for name, path in modules(root, package):
        for imported in imports(path):
            room = imported.split(".")[0]
            if room in {"course", "graders", "publish", "learner"}:
                assert room in ARROWS[package], f"{package}.{name} imports {imported}"


@pytest.mark.parametrize("package", FLOORS)
def test_modules_import_only_lower_floors(root, package):
    floors = FLOORS[package]
    for name, path in modules(root, package):
        assert name in floors, f"{package}.{name} has no floor yet: add it here and in docs/architecture.md"
        for imported in imports(path):
            room, _, rest = imported.partition(".")
            below = next((one for one in floors if rest == one or rest.startswith(f"{one}.")), None)
            if room == package and below is not None:
                assert floors[below] < floors[name], f"{package}.{name} imports {below}, which is not on a lower floor"


def test_every_module_says_what_it_is_for(root):
    for package in ARROWS:
        for path in (root / package).rglob("*.py"):
            assert ast.get_docstring(ast.parse(path.read_text(encoding="utf-8"))), path


def test_no_tracked_file_is_large(root):
    done = subprocess.run(["git", "ls-files", "-z"], cwd=root, capture_output=True, text=True, check=False)
    for name in filter(None, done.stdout.split("\0")):
        path = root / name
        assert not path.is_file() or path.stat().st_size <= 300_000, f"{name} is over 300 KB"
