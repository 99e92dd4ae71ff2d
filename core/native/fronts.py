"""A solve with the factors of fronts, compiled."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from ..arrays import Index, Single
from .library import Library


class Fronts:
    """The same as solvers.multifrontal.Multifrontal for one right side, by another order of sums.

    ups: the matrices that were given, in one piece now.
    """

    def __init__(
        self,
        library: Library,
        bounds: Sequence[tuple[int, int]],
        others: Sequence[Index],
        ups: Sequence[Single],
        order: Index,
    ) -> None:
        """bounds: first row of each front and one past its last.  others: rows of its ancestors that it changes.

        ups: (own + others, own) each.  order: (n,) rows as they are eliminated.
        """
        self._call, self._rows, self._count = library.solve, len(order), len(bounds)
        far, sizes = np.array([len(one) for one in others]), np.array([one.size for one in ups])
        fronts = np.column_stack([np.array(bounds), _starts(far), far, _starts(sizes)]).astype(np.int64)
        up = np.empty(int(sizes.sum()), dtype=np.float32)
        self.ups = list[Single]()
        for place, one in zip(fronts[:, 4], ups, strict=True):
            piece = up[place : place + one.size].reshape(one.shape, order="F")
            piece[...] = one
            self.ups.append(piece)
        self._room = max(one.shape[0] for one in ups)
        self._held = fronts, np.concatenate(others).astype(np.int32), up, order.astype(np.int32)
        self._arrays = [one.ctypes.data for one in self._held]

    def solve(self, right: Single) -> Single:
        """The inverse times right (n,)."""
        b, answer = np.ascontiguousarray(right, dtype=np.float32), np.empty(self._rows, dtype=np.float32)
        if b.shape != answer.shape:
            raise ValueError(f"the right side has {b.shape} rows instead of {self._rows}")
        # Room of its own: several threads may solve.
        x, y = np.empty(self._rows, dtype=np.float32), np.empty(self._room, dtype=np.float32)
        self._call(
            self._rows, self._count, *self._arrays, b.ctypes.data, answer.ctypes.data, x.ctypes.data, y.ctypes.data
        )
        return answer


def _starts(lengths: Index) -> Index:
    return np.concatenate([[0], np.cumsum(lengths)[:-1]])
