"""Results that are kept, but never more than so many."""

from __future__ import annotations

from collections.abc import Callable, Hashable
from typing import Generic, TypeVar

Made = TypeVar("Made")


class Memo(Generic[Made]):
    """The last few results of some work, by what they were made from."""

    def __init__(self, most: int) -> None:
        """most: results that are kept; the one used longest ago goes first."""
        self._most = most
        self._kept: dict[Hashable, Made] = {}

    def get(self, key: Hashable, make: Callable[[], Made]) -> Made:
        """What is kept under the key, or what is made now."""
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
