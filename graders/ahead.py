"""Opens ahead of need what takes time to open: kernels for the next submissions, while those before them are run."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager
from typing import Generic, TypeVar

T = TypeVar("T")


class Ahead(Generic[T]):
    """A source of opened things, some of which are ready before they are asked for. Each is used once, and closed after that."""

    def __init__(self, make: Callable[[], AbstractAsyncContextManager[T]], fit: Callable[[T], bool]) -> None:
        """Args:
        make: opens one.
        fit: whether one that has been ready for a while can still be used.
        """
        self._make, self._fit = make, fit
        self._ready: deque[asyncio.Task[tuple[AsyncExitStack, T]]] = deque()

    def prepare(self, number: int) -> None:
        """Have as many ready, or on the way. What cannot be opened is no matter: whoever asks for one tries anew."""
        while len(self._ready) < number:
            self._ready.append(asyncio.ensure_future(self._open()))

    async def _open(self) -> tuple[AsyncExitStack, T]:
        stack = AsyncExitStack()
        return stack, await stack.enter_async_context(self._make())

    @asynccontextmanager
    async def one(self) -> AsyncIterator[T]:
        """One of them: ready, on the way, or opened now.

        Raises:
            Exception: what opening one raises.
        """
        async with AsyncExitStack() as stack:
            made: T | None = None
            while self._ready and made is None:
                made = await self._take(stack)
            yield await stack.enter_async_context(self._make()) if made is None else made

    async def _take(self, stack: AsyncExitStack) -> T | None:
        """The first one, handed over to a stack; None if it could not be opened or is not fit any more."""
        task = self._ready.popleft()
        try:
            # Who waits may be cancelled; the one that is on the way is for the next then.
            await asyncio.wait({task})
        except asyncio.CancelledError:
            self._ready.appendleft(task)
            raise
        if task.cancelled() or task.exception() is not None:
            return None
        own, made = task.result()
        if self._fit(made):
            stack.push_async_exit(own)
            return made
        await own.aclose()
        return None

    async def close(self) -> None:
        """Close those that nobody has asked for."""
        tasks = list(self._ready)
        self._ready.clear()
        for task in tasks:
            task.cancel()
        for found in await asyncio.gather(*tasks, return_exceptions=True):
            if not isinstance(found, BaseException):
                await found[0].aclose()
