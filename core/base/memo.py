"""Memoisation with limited capacity."""

from __future__ import annotations

from collections.abc import Callable, Hashable
from typing import Generic, TypeVar

Result = TypeVar("Result")


class Memo(Generic[Result]):
    """Least-recently-used cache of results, by hashable keys."""

    def __init__(self, capacity: int) -> None:
        """Create an empty cache. capacity: number of results; the least recently used one is dropped first."""
        self._capacity = capacity
        self._results: dict[Hashable, Result] = {}

    def get(self, key: Hashable, make: Callable[[], Result]) -> Result:
        """Return the result stored under the key; make and store it if there is none."""
        if key in self._results:
            self._results[key] = result_found = self._results.pop(key)
            return result_found
        result = make()
        while len(self._results) >= self._capacity:
            del self._results[next(iter(self._results))]
        self._results[key] = result
        return result

    def clear(self) -> None:
        self._results.clear()

    def __len__(self) -> int:
        return len(self._results)
