"""Text that is safe to show: a name, a message or an output may hold anything."""

from __future__ import annotations

import re
import unicodedata

LONGEST = 2_000  # characters of a message in any report

# What turns the direction of the text around it: a name must not make a line read as another one.
_BIDI = "\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069"
# Control characters of terminals (the second kind needs no escape character), and halves of surrogate pairs, which are no UTF-8.
_HIDDEN = re.compile(f"[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\u2028\u2029{_BIDI}\ud800-\udfff]")
_FORMULA = frozenset("=+-@")


def visible(text: str) -> str:
    """Text for one line of a terminal or of a page: control characters, line ends and bidirectional controls as escapes.

    A learner's folder may be named by an escape sequence; printed raw it would clear the screen, or begin a line that
    looks like a verdict.
    """
    return "".join(one if _plain(one) else _escape(one) for one in text)


def xml(text: str) -> str:
    """Text that XML 1.0 can hold and a terminal can show; everything else as escapes. Tabs and line feeds stay."""
    return "".join(one if _xml(ord(one)) and not _HIDDEN.match(one) else _escape(one) for one in text)


def cell(text: str) -> str:
    """Text for a spreadsheet's cell: what would be read as a formula gets a leading apostrophe, also where quotes, blanks or
    invisible characters stand before it. Control characters other than line ends and tabs are escapes.
    """
    clean = _HIDDEN.sub(lambda found: _escape(found[0]), text)
    return f"'{clean}" if clean[:1] in {"\t", "\r", "\n"} or _formula(clean) else clean


def json_text(text: str) -> str:
    """JSON in which no character can act on a terminal. What it means is unchanged: JSON's own escapes are used."""
    return _HIDDEN.sub(lambda found: f"\\u{ord(found[0]):04x}", text)


def short(text: str) -> str:
    """A message of a bounded length, which says that it was cut."""
    return text if len(text) <= LONGEST else f"{text[:LONGEST]} … (cut; {len(text)} characters)"


def _formula(text: str) -> bool:
    for one in text:
        if one in "'\"" or one.isspace() or unicodedata.category(one) in {"Zs", "Cf", "Cc"}:
            continue
        # Some spreadsheets take the full-width forms for the plain ones.
        return unicodedata.normalize("NFKC", one)[:1] in _FORMULA
    return False


def _plain(one: str) -> bool:
    if one in "\u200c\u200d":
        return True  # joiners: words of some languages, and emoji, need them
    return unicodedata.category(one) not in {"Cc", "Cf", "Cs", "Zl", "Zp"} and not _no_character(ord(one))


def _no_character(code: int) -> bool:
    return code & 0xFFFE == 0xFFFE or 0xFDD0 <= code <= 0xFDEF


def _xml(code: int) -> bool:
    return code in {0x9, 0xA} or 0x20 <= code <= 0xD7FF or 0xE000 <= code <= 0xFFFD or 0x10000 <= code <= 0x10FFFF


def _escape(one: str) -> str:
    code = ord(one)
    return f"\\x{code:02x}" if code < 0x100 else f"\\u{code:04x}" if code < 0x10000 else f"\\U{code:08x}"


def points(earned: float | None, out_of: float) -> str:
    """``2/2``; a dash where no mark is given."""
    return f"{'–' if earned is None else f'{earned:g}'}/{out_of:g}"
