"""Text that is safe to show: a name, a message or an output may hold anything."""

from __future__ import annotations

import unicodedata


def visible(text: str) -> str:
    """Text for one line of a terminal: control characters, line ends and bidirectional controls are shown as escapes.

    A learner's folder may be named by an escape sequence; printed raw it would clear the screen, or begin a line that
    looks like a verdict.
    """
    return "".join(one if _plain(one) else _escape(one) for one in text)


def xml(text: str) -> str:
    """Text that XML 1.0 can hold; what it cannot is shown as an escape."""
    return "".join(one if one in "\t\n" or _xml(ord(one)) else _escape(one) for one in text)


def cell(text: str) -> str:
    """Text for a spreadsheet's cell: what would be read as a formula gets a leading apostrophe."""
    clean = text.encode("utf-8", "backslashreplace").decode("utf-8").replace("\x00", "\\x00")
    return f"'{clean}" if clean.lstrip("'\" \n")[:1] in tuple("=+-@\t\r") and clean else clean


def _plain(one: str) -> bool:
    return unicodedata.category(one) not in {"Cc", "Cf", "Cs", "Zl", "Zp"} or one in "\u200c\u200d"


def _xml(code: int) -> bool:
    return 0x20 <= code <= 0xD7FF or 0xE000 <= code <= 0xFFFD or 0x10000 <= code <= 0x10FFFF


def _escape(one: str) -> str:
    code = ord(one)
    return f"\\x{code:02x}" if code < 0x100 else f"\\u{code:04x}" if code < 0x10000 else f"\\U{code:08x}"


def points(earned: float | None, out_of: float) -> str:
    """``2/2``; a dash where no mark is given."""
    return f"{'–' if earned is None else f'{earned:g}'}/{out_of:g}"
