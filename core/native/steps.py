"""Compiled part of a step's potential that depends on the velocities alone, see steps.c."""

from __future__ import annotations

import numpy as np
from scipy.sparse import csr_matrix

from ..base.arrays import Array, Index
from .library import (
    KernelLibrary,
    doubles,
    integers,
    pointers,
    require_indices,
    require_row_count,
    require_shape,
    require_sparse,
)


class CompiledStep:
    """Inertia, load and drag of a step of free nodes, with another order of summation than in numpy.

    With inertia i, predicted velocities p, load f and drag D, their part of psi at velocities v is

        1/2 sum i |v - p|^2 - f . v + 1/2 v . D v

    The positions at the end follow in the same pass, as all energies need them.
    """

    def __init__(
        self,
        library: KernelLibrary,
        free: Index,
        h: float,
        inertia: Array,
        vectors: tuple[Array, Array, Array],
        ends: tuple[Array, Array],
        drag: csr_matrix | None,
    ) -> None:
        """Store a step of h s.

        free: (f,) nodes.  inertia: (f,) kg/s.  vectors: (f, 3) each: m of the positions at the start, m/s of the
        predicted velocities, and N of the load.
        ends: (n, 3) each: m of the positions at the end, and m/s of the velocities; both only matter for hard pins.
        drag: (3n, 3n) kg/s, or None.

        Raises ValueError if the arrays do not match, because the kernel does not check bounds.
        """
        count, nodes = len(free), len(ends[0])
        require_row_count(nodes, "nodes")
        require_indices(free, (count,), nodes, "free nodes")
        require_shape(inertia, (count,), "inertia")
        for one in vectors:
            require_shape(one, (count, 3), "vectors of free nodes")
        for one in ends:
            require_shape(one, (nodes, 3), "ends of nodes")
        if drag is not None:
            require_sparse(drag, (3 * nodes, 3 * nodes), "drag")
        self._library, self._count, self._h = library, count, float(h)
        self._ends = doubles(ends[0])
        start, predicted, load = map(doubles, vectors)
        rows = integers(free), start, doubles(inertia), predicted, load
        empty = np.zeros(1, dtype=np.int32), np.zeros(0, dtype=np.int32), np.zeros(0)
        given = empty if drag is None else (integers(drag.indptr), integers(drag.indices), doubles(drag.data))
        velocities = np.array(ends[1], dtype=float, order="C")
        # The arrays must live on while the kernel uses their addresses.
        self._buffers = *rows, *given, velocities, np.empty((nodes, 3))
        free_pointer, *self._row_pointers = pointers(*rows)
        self._first, self._drag = free_pointer, (0 if drag is None else nodes, *pointers(*self._buffers[5:]))

    def evaluate(self, v: Array) -> tuple[float, Array, Array]:
        """Return the part of psi in W at velocities v (f, 3) m/s, its gradient (f, 3) N, and the positions (n, 3) m.

        Raises ValueError if v has another shape.
        """
        require_shape(v, (self._count, 3), "velocities")
        given, gradient, positions = doubles(v), np.empty((self._count, 3)), self._ends.copy()
        results = pointers(given, positions, gradient)
        value = self._library.step_terms(self._count, self._first, self._h, *self._row_pointers, *self._drag, *results)
        return float(value), gradient, positions
