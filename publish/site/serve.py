"""Shows the site to this machine's browsers: an ordinary web server, bound to the loopback address, so that nobody else sees it."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from http import HTTPStatus
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

LOOPBACK = "127.0.0.1"


class _Handler(SimpleHTTPRequestHandler):
    """Serves files. A page is asked for anew each time, so that a reader sees what was just built."""

    def end_headers(self) -> None:
        """Add what keeps a browser from showing an older page."""
        self.send_header("Cache-Control", "no-cache")
        super().end_headers()

    def log_request(self, code: int | str = "-", size: int | str = "-") -> None:
        """Say only what went wrong."""
        if isinstance(code, HTTPStatus) and code >= HTTPStatus.BAD_REQUEST:
            super().log_request(code, size)


def server(folder: Path, port: int) -> ThreadingHTTPServer:
    """A server of a folder; it answers once ``serve_forever`` runs.

    Args:
        folder: the site.
        port: 0 for any that is free.

    Raises:
        OSError: if the port is taken.
    """
    return ThreadingHTTPServer((LOOPBACK, port), partial(_Handler, directory=str(folder)))


def serve(folder: Path, port: int, say: Callable[[str], None]) -> None:
    """Serve until Ctrl-C.

    Args:
        folder: the site.
        port: 0 for any that is free.
        say: told the address.

    Raises:
        OSError: if the port is taken.
    """
    with server(folder, port) as one:
        say(f"The site is at http://{LOOPBACK}:{one.server_port}/ — stop with Ctrl-C")
        try:
            one.serve_forever()
        except KeyboardInterrupt:
            say("stopped")
