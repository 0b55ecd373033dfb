"""Opens at the start of a kernel what its threads else open when they need it first.

A program that uses up all descriptors would otherwise end its own kernel, or not, depending on what was printed before.
"""

from __future__ import annotations

from typing import Any


def open_early(app: Any) -> None:
    """Let the thread that publishes a kernel's output open its own end of the pipe through which all threads hand it messages.

    The ends of the other threads are open when they have told of the first request.

    Args:
        app: an initialized ``IPKernelApp``.
    """
    publishing = app.iopub_thread
    publishing.schedule(lambda: publishing._event_pipe)  # ipykernel makes it when it is looked at
