"""`_static/course-data.js`: the map of the course for the scripts of the pages. Its form is described in docs/site.md."""

from __future__ import annotations

import json
from typing import Any

from publish.site.sheets import Asked, Sheet, Sheets, address, guide_page

FORMAT = 1


def render(sheets: Sheets) -> str:
    """The script: one assignment of plain data, so that it also works where a page is read from a file."""
    data = {
        "format": FORMAT,
        "title": sheets.catalogue.file.title,
        "revision": sheets.revision,
        "phases": [
            {
                "id": phase.entry.id,
                "title": phase.entry.title,
                "url": address(guide_page(phase)),
                "units": [_unit(sheet) for sheet in sheets.of(phase)],
            }
            for phase in sheets.written
        ],
    }
    return f"window.courseData = {json.dumps(data, ensure_ascii=False, indent=1)};\n"


def _unit(sheet: Sheet) -> dict[str, Any]:
    return {
        "id": sheet.id,
        "title": sheet.title,
        "kind": sheet.kind,
        "url": address(sheet.page),
        "minutes": sheet.meta.minutes,
        "after": list(sheet.meta.after),
        "revision": sheet.meta.revision.isoformat(),
        "stages": _listed(sheet.stages, "title"),
        "predictions": _listed(sheet.predictions, "key"),
        "questions": _listed(sheet.questions, "key"),
        "exercises": _listed(sheet.exercises, "title"),
        "evidence": _listed(sheet.evidence, "item"),
    }


def _listed(things: tuple[Asked, ...], name: str) -> list[dict[str, str]]:
    return [{"id": one.id, name: one.text} for one in things]
