"""The site that is being made: what the pages are made of, where Sphinx's directives find it."""

from __future__ import annotations

from contextvars import ContextVar

from course.catalogue import Catalogue
from publish.site.downloads import Downloads
from publish.site.formulas import Formulas
from publish.site.sheets import Sheets


class Site:
    """What all pages share."""

    def __init__(self, catalogue: Catalogue) -> None:
        self.sheets = Sheets(catalogue)
        self.downloads = Downloads(self.sheets)
        self.formulas = Formulas()


# Sphinx makes directives by itself and hands them nothing of ours.
current: ContextVar[Site] = ContextVar("current")
