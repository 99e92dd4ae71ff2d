"""Compiled Newton steps of ropes, piece by piece, see pieces.c."""

from __future__ import annotations

import ctypes
from dataclasses import dataclass
from enum import IntEnum
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_matrix

from ..base.arrays import Array, Index
from .contacts import require_contacts
from .elements import Places
from .interface import PIECE_POINTERS, PiecesStructure
from .library import (
    KernelLibrary,
    doubles,
    integers,
    pointers,
    require_indices,
    require_result,
    require_row_count,
    require_rows,
    require_shape,
)
from .ropes import EnvelopeFactors


class PieceTask(IntEnum):
    """Task of a piece; the negative ones are results: no lower value was found, or a number is not finite."""

    REST = 0
    BEGIN = 1
    SEARCH = 2
    STUCK = -1
    NOT_FINITE = -2


@dataclass(frozen=True)
class PieceRows:
    """Step of the free nodes, in the order of the matrix rows.

    nodes: (f,).  slots: (n,) row of each node, or -1.  inertia: (f,) kg/s.
    predicted: (f, 3) m/s.  load: (f, 3) N.  start: (f, 3) m.
    """

    nodes: Index
    slots: Index
    inertia: Array
    predicted: Array
    load: Array
    start: Array


@dataclass(frozen=True)
class PieceElements:
    """Springs (k = 2 nodes) or rods (k = 3), sorted by piece.

    starts: (p + 1,) first elements of the pieces.  nodes: (m, k).  places: (m, k, k) of their blocks, or -1.
    numbers: (m,) each: for springs, lengths in m and weights in J; for rods, weights in N m, angles at rest in rad and
    their smoothing in rad^2.
    """

    starts: Index
    nodes: Index
    places: Places
    numbers: tuple[Array, ...]


@dataclass(frozen=True)
class PieceContacts:
    """Contacts, sorted by piece. All blocks that couple their nodes are in the matrix.

    starts: (p + 1,) first contacts of the pieces.  weights: (k, n).  vectors, scalars: see CompiledContacts.
    friction: (k,) coefficients.  forces: (k,) N, lagged normal forces.
    """

    starts: Index
    weights: csr_matrix
    vectors: tuple[Array, Array, Array]
    scalars: tuple[Array, Array, Array]
    friction: Array
    forces: Array


class CompiledPieces:
    """Newton's method for pieces of springs and rods that no block couples.

    velocities: (f, 3) m/s, in the order of the rows; the caller sets them before the first step.
    lagged_forces: (k,) N, normal forces that limit friction.
    updates, evaluations: (p,) numbers of friction updates and of evaluations of psi.
    gradient: (f, 3) N.
    """

    def __init__(
        self,
        library: KernelLibrary,
        factors: EnvelopeFactors,
        base: Array,
        rows: PieceRows,
        springs: PieceElements,
        rods: PieceElements,
        contacts: PieceContacts,
        positions: Array,
        h: float,
        noise: float,
        max_friction_updates: int,
    ) -> None:
        """Store a step of h s.

        base: (b, 3, 3) kg/s, constant part of the matrix of the factors.  positions: (n, 3) m, of the pins.
        noise: differences of psi up to this are rounding errors.

        Raises ValueError if the arrays do not match, because the kernel does not check bounds.
        """
        self._library, self._count = library, factors.piece_count
        row_count, block_count, self._size = factors.counts
        node_count = len(positions)
        require_row_count(node_count, "nodes")
        require_shape(positions, (node_count, 3), "positions")
        require_shape(base, (block_count, 3, 3), "blocks")
        require_indices(rows.nodes, (row_count,), node_count, "nodes of rows")
        require_indices(rows.slots, (node_count,), row_count, "rows of nodes", -1)
        require_shape(rows.inertia, (row_count,), "inertia")
        for one in (rows.predicted, rows.load, rows.start):
            require_shape(one, (row_count, 3), "vectors of rows")
        for elements, size, numbers in ((springs, 2, 2), (rods, 3, 3)):
            self._check_elements(elements, size, numbers, node_count, block_count)
        contact_count = self._check_contacts(contacts, node_count)
        if not (h > 0.0 and np.isfinite(h)):
            raise ValueError(f"a step of {h} s is not positive")
        self.velocities: Array = np.zeros((row_count, 3))
        self.gradient: Array = np.zeros((row_count, 3))
        self.lagged_forces = np.array(contacts.forces, dtype=float, order="C")
        limits, forces, gap = np.zeros((3, contact_count))
        limits[:] = contacts.friction * contacts.forces
        slip, offset = np.zeros((2, contact_count, 3))
        self.updates, self.evaluations = np.zeros((2, self._count), dtype=np.int64)
        before, direction = np.zeros((2, row_count, 3))
        real = [*springs.numbers, *rods.numbers, contacts.weights.data, *contacts.vectors, *contacts.scalars]
        arrays: dict[str, NDArray[Any]] = {
            "base": doubles(base), "nodes": integers(rows.nodes), "slots": integers(rows.slots),
            "inertia": doubles(rows.inertia), "predicted": doubles(rows.predicted), "load": doubles(rows.load),
            "start": doubles(rows.start),
            "spring_starts": integers(springs.starts), "edges": integers(springs.nodes),
            "spring_places": integers(springs.places),
            "rod_starts": integers(rods.starts), "rods": integers(rods.nodes), "rod_places": integers(rods.places),
            "contact_starts": integers(contacts.starts), "weight_starts": integers(contacts.weights.indptr),
            "weight_nodes": integers(contacts.weights.indices), "friction": doubles(contacts.friction),
            **dict(zip(_REAL_NAMES, map(doubles, real), strict=True)),
            "limit": limits, "lagged": self.lagged_forces, "force": forces, "gap": gap, "slip": slip, "offset": offset,
            "states": np.zeros(contact_count, dtype=np.int64), "v": self.velocities, "before": before,
            "positions": np.array(positions, dtype=float, order="C"), "pulls": np.zeros((node_count, 3)),
            "gradient": self.gradient, "direction": direction, "blocks": np.empty((block_count, 3, 3)),
            "factors": np.empty(self._size), "values": np.zeros(self._count),
            "updates": self.updates, "evaluations": self.evaluations,
        }  # fmt: skip
        arrays |= dict(zip(("rows", "starts", "columns", "first", "offsets"), factors.buffers, strict=True))
        # The structure has only their addresses.
        self._buffers = arrays
        self._structure = PiecesStructure(
            max_friction_updates, h, noise, *pointers(*(arrays[name] for name in PIECE_POINTERS))
        )

    def step(self, tasks: NDArray[np.int32], slopes: Array) -> None:
        """Do a PieceTask (p,) of each piece, and replace it by a negative one where there is no new direction.

        slopes: (p,) W, receives those along the new directions, -g^T H^-1 g for the gradients g and Hessians H of psi.
        """
        for one, kind in ((tasks, np.int32), (slopes, np.float64)):
            require_result(one, (self._count,), kind, "tasks and slopes")
        self._library.piece_steps(self._count, ctypes.addressof(self._structure), *pointers(tasks, slopes))

    def _check_elements(
        self, elements: PieceElements, size: int, numbers: int, node_count: int, block_count: int
    ) -> None:
        count = len(elements.nodes)
        require_indices(elements.nodes, (count, size), node_count, "elements")
        require_indices(elements.places, (count, size, size), block_count, "places of blocks", -1)
        require_rows(elements.starts, self._count, count, "elements")
        if len(elements.numbers) != numbers:
            raise ValueError(f"elements of {size} nodes have {numbers} numbers each")
        for one in elements.numbers:
            require_shape(one, (count,), "numbers of elements")

    def _check_contacts(self, contacts: PieceContacts, node_count: int) -> int:
        weights, count = contacts.weights, len(contacts.friction)
        if weights.shape != (count, node_count):
            raise ValueError(f"weights have shape {weights.shape}; expected ({count}, {node_count})")
        require_contacts(weights, contacts.vectors, (*contacts.scalars, contacts.friction, contacts.forces))
        require_rows(contacts.starts, self._count, count, "contacts")
        return count


_REAL_NAMES = (
    "lengths", "spring_weights", "rod_weights", "rest", "smoothing", "weights", "contact_base", "normal", "anchor",
    "distance", "target", "stiffness",
)  # fmt: skip
