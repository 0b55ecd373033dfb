"""Results of a whole class in little memory: a big class must not cost the grader more than a small one.

As objects the results of five thousand submissions take more than everything else in the grader together.
"""

from __future__ import annotations

import json
import zlib
from collections.abc import Iterator, Sequence
from typing import overload

from graders.verdict import SubmissionResult


def pack(result: SubmissionResult) -> bytes:
    """A result as a few hundred bytes."""
    # ASCII, since a name may hold a lone surrogate, which is no UTF-8.
    return zlib.compress(json.dumps(result.model_dump(mode="json"), ensure_ascii=True, allow_nan=False).encode("ascii"))


def unpack(data: bytes) -> SubmissionResult:
    """The result again."""
    return SubmissionResult.model_validate(json.loads(zlib.decompress(data)))


class Packed(Sequence[SubmissionResult]):
    """Results in the order of their places, whenever they come. Each is made anew when it is asked for."""

    def __init__(self) -> None:
        self._data: dict[int, bytes] = {}
        self._order: list[int] | None = []

    def put(self, place: int, result: SubmissionResult) -> None:
        """Put a result in its place among the others."""
        self._data[place] = pack(result)
        self._order = None

    def _places(self) -> list[int]:
        if self._order is None:
            self._order = sorted(self._data)
        return self._order

    def __len__(self) -> int:
        return len(self._data)

    @overload
    def __getitem__(self, index: int) -> SubmissionResult: ...
    @overload
    def __getitem__(self, index: slice) -> list[SubmissionResult]: ...
    def __getitem__(self, index: int | slice) -> SubmissionResult | list[SubmissionResult]:
        found = self._places()[index]
        return unpack(self._data[found]) if isinstance(found, int) else [unpack(self._data[one]) for one in found]

    def __iter__(self) -> Iterator[SubmissionResult]:
        return (unpack(self._data[place]) for place in self._places())
