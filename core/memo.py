"""Memoisation with limited capacity."""

from __future__ import annotations

from collections.abc import Callable, Hashable
from typing import Generic, TypeVar

Made = TypeVar("Made")


class Memo(Generic[Made]):
    """Least-recently-used cache of results, by hashable keys."""

    def __init__(self, most: int) -> None:
        """Create an empty cache. capacity: number of results; the least recently used one is dropped first."""
        self._most = most
        self._kept: dict[Hashable, Made] = {}

    def get(self, key: Hashable, make: Callable[[], Made]) -> Made:
        """Return the result stored under the key; make and store it if there is none."""
        if key in self._kept:
            self._kept[key] = found = self._kept.pop(key)
            return found
        made = make()
        while len(self._kept) >= self._most:
            del self._kept[next(iter(self._kept))]
        self._kept[key] = made
        return made

    def clear(self) -> None:
        self._kept.clear()

    def __len__(self) -> int:
        return len(self._kept)
