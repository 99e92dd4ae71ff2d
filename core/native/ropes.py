"""Compiled energies of springs and rods, and a direct solve for matrices of 3 x 3 blocks near the diagonal."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..base.arrays import Array, Index, Mask
from .elements import CompiledElements, Places
from .library import (
    KernelLibrary,
    doubles,
    integers,
    pointers,
    require_indices,
    require_pattern,
    require_row_count,
    require_shape,
)


class _RopeElements(CompiledElements):
    """Energy of springs (k = 2 nodes) or rods (k = 3)."""

    def __init__(self, energy: Any, blocks: Any, elements: Index, size: int, name: str, **numbers: Array) -> None:
        """Store elements (m, k) and their numbers (m,), after checking them.

        energy, blocks: functions of the kernel.  size: k.  name: of the elements, for messages.
        """
        nodes = int(elements.max(initial=-1)) + 1
        require_row_count(nodes, "nodes")
        require_indices(elements, (len(elements), size), nodes, name)
        for label, one in numbers.items():
            require_shape(one, (len(elements),), label.replace("_", " "))
        super().__init__(energy, nodes, elements, *numbers.values())
        self._blocks = blocks

    def add_blocks(self, positions: Array, factor: float, places: Places, blocks: Array, project: bool) -> None:
        """Add the Hessian times a factor to blocks (b, 3, 3). places: (m, k, k), of pairs of nodes.

        project: whether to set negative eigenvalues of each element to zero.
        """
        self._add_hessian(self._blocks, positions, (project, factor), places, blocks)

    def _checked(self, positions: Array) -> Array:
        if positions.ndim != 2 or len(positions) < self._nodes:
            raise ValueError(f"positions have the shape {positions.shape} instead of at least ({self._nodes}, 3)")
        require_shape(positions, (len(positions), 3), "positions")
        return doubles(positions)


class CompiledSprings(_RopeElements):
    """Compiled equivalent of materials.loads_and_springs.spring_energy()."""

    def __init__(self, library: KernelLibrary, edges: Index, lengths: Array, weights: Array) -> None:
        """Store the springs.

        edges: (m, 2) nodes.  lengths: (m,) m at rest.  weights: (m,) J, stiffness times length.

        Raises ValueError if the arrays do not match, because the kernel does not check bounds.
        """
        functions = library.springs, library.spring_blocks
        super().__init__(*functions, edges, 2, "edges", lengths=lengths, weights=weights)


class CompiledRods(_RopeElements):
    """Compiled equivalent of materials.rod_bending.RodBending."""

    def __init__(self, library: KernelLibrary, elements: Index, weights: Array, rest: Array, smoothing: Array) -> None:
        """Store the rods.

        elements: (m, 3) nodes.  weights: (m,) N m.  rest: (m,) rad.  smoothing: (m,) rad^2, see RodBending.

        Raises ValueError if the arrays do not match.
        """
        numbers = {"weights": weights, "rest_angles": rest, "smoothing": smoothing}
        super().__init__(library.rods, library.rod_blocks, elements, 3, "elements", **numbers)


class EnvelopeFactors:
    """Cholesky factors of symmetric matrices of 3 x 3 blocks with one pattern, without fill beyond its envelope.

    Pieces are ranges of rows that no block couples with others.

    piece_count: p.  piece_of_row: (n,).
    buffers: first rows of the pieces (p + 1,), starts, columns, and first column and offset of each row (n,).
    work: multiplications of a factorisation.
    """

    def __init__(self, library: KernelLibrary, starts: Places, columns: Places) -> None:
        """Store the pattern of b blocks. starts: (n + 1,).  columns: (b,), ascending in each row, with the diagonal.

        Raises ValueError if the arrays do not match.
        """
        count, stored = len(starts) - 1, len(columns)
        require_row_count(count, "nodes")
        require_pattern(starts, columns, count)
        rows = np.arange(count)
        first = columns[starts[:-1]].astype(np.int64)
        if (first > rows).any():
            raise ValueError("the diagonal blocks are not on the diagonal")
        # A piece begins where no later row reaches back before it.
        begins = np.minimum.accumulate(first[::-1])[::-1] == rows
        self.piece_of_row = np.cumsum(begins) - 1
        self.piece_count = int(begins.sum())
        widths = 3 * (rows - first) + 3
        self.work = float((widths.astype(float) ** 2).sum()) * 3.0
        offsets = np.concatenate([[0], np.cumsum(3 * widths)])
        self._library, self._count, self._stored = library, count, stored
        pieces = np.append(np.flatnonzero(begins), count).astype(np.int32)
        self._size = int(offsets[-1])
        self._factors: Array | None = None
        self.buffers: tuple[Places | Index, ...] = pieces, *map(integers, (starts, columns, first)), offsets[:-1].copy()
        self._pointers = pointers(*self.buffers)

    @property
    def counts(self) -> tuple[int, int, int]:
        """Numbers of rows, of blocks and of stored numbers of the factors."""
        return self._count, self._stored, self._size

    def factorise(self, blocks: Array, wanted: Mask | None = None) -> Mask:
        """Factorise the wanted pieces (p,), or all, of a matrix with blocks (b, 3, 3).

        Return the mask (p,) of those that are not positive definite, and have no factors.
        """
        require_shape(blocks, (self._stored, 3, 3), "blocks")
        if self._factors is None:
            self._factors = np.empty(self._size)
        asked = np.ones(self.piece_count, dtype=np.int32) if wanted is None else wanted.astype(np.int32)
        require_shape(asked, (self.piece_count,), "pieces")
        values = doubles(blocks)
        self._library.envelope_factorise(self.piece_count, *self._pointers, *pointers(values, asked, self._factors))
        return asked.astype(bool)

    def solve(self, right: Array) -> Array:
        """Return the inverse of the last matrix times right (n, 3). All pieces must have factors."""
        require_shape(right, (self._count, 3), "right-hand sides")
        if self._factors is None:
            raise ValueError("there are no factors")
        answer = np.array(right, dtype=float, order="C")
        self._library.envelope_solve(self._count, *self._pointers[3:], *pointers(self._factors, answer))
        return answer

    def solve_columns(self, right: Array) -> Array:
        """Return the inverse of the last matrix times right (3n,) or (3n, k). All pieces must have factors."""
        columns = right.reshape(len(right), -1)
        answers = [self.solve(columns[:, k].reshape(-1, 3)).ravel() for k in range(columns.shape[1])]
        return np.asarray(np.stack(answers, axis=1).reshape(right.shape))
