"""Hessian of a step of ropes and nets as 3 x 3 blocks, and Newton directions from its direct factorisation.

See docs/decisions/0056-factorise-ropes-within-their-envelope.md.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from scipy.sparse import csr_matrix

from ..base.arrays import Array, Index
from ..contact.penalty_and_friction import CompiledContactPotential
from ..materials import Energy, RodBending
from ..materials.loads_and_springs import SpringEnergy
from ..native.elements import Places
from ..native.library import KernelLibrary
from ..native.ropes import EnvelopeFactors
from ..solvers.factorisation import LowRank, LowRankUpdate, Solve, factorise, factorise_positive
from .sheet_matrix import KEPT_PATTERNS, BlockPattern, Pairs, element_pairs, has_constant_hessian, matrix_pairs
from .step_potential import StepPotential

# Multiplications beyond which a factorisation with reordering and fill takes less time than one within the envelope.
MAX_ENVELOPE_WORK = 3e7


def _element_nodes(energy: Energy) -> Index | None:
    """Return the nodes (m, k) of the elements of a compiled energy; None for others."""
    if isinstance(energy, SpringEnergy):
        return energy.strain.elements
    return energy.elements if isinstance(energy, RodBending) else None


@dataclass(frozen=True)
class PieceOrder:
    """Elements of a pattern, sorted by piece.

    order: (m,) indices of the elements.  starts: (p + 1,) first element of each piece.  nodes: (m, k).
    places: (m, k, k).
    """

    order: Index
    starts: Index
    nodes: Index
    places: Places


@dataclass(frozen=True)
class RopePattern:
    """Pattern of a system's blocks, whose order keeps the envelope narrow.

    slot: (n,) row of each node; -1 for hard pins.  order: (f,) row of v of each row.
    elements: first node and nodes of the elements of each energy; None for those without compiled code.
    places: of the blocks of these elements.
    """

    blocks: BlockPattern
    slot: Index
    order: Index
    elements: tuple[tuple[int, Index] | None, ...]
    places: tuple[Places | None, ...]
    factors: EnvelopeFactors

    @staticmethod
    def create(
        library: KernelLibrary,
        free_index: Index,
        elements: tuple[tuple[int, Index] | None, ...],
        further: Sequence[Pairs],
    ) -> RopePattern:
        """Return the pattern of elements and further pairs of nodes. free_index: (n,) row of v; -1 for hard pins."""
        own = [None if one is None else element_pairs(one[0] + one[1]) for one in elements]
        blocks, slot, order = BlockPattern.ordered(free_index, [*(one for one in own if one is not None), *further])
        places = tuple(None if one is None else blocks.places(slot[one[0]], slot[one[1]]) for one in own)
        factors = EnvelopeFactors(library, blocks.starts, blocks.columns)
        return RopePattern(blocks, slot, order, elements, places, factors)

    def has_elements(self, elements: tuple[tuple[int, Index] | None, ...]) -> bool:
        """Return whether these are the elements of the pattern."""
        return len(elements) == len(self.elements) and all(
            a is b or (a is not None and b is not None and a[0] == b[0] and a[1] is b[1])
            for a, b in zip(elements, self.elements, strict=True)
        )

    @cached_property
    def piece_elements(self) -> dict[int, PieceOrder]:
        """Springs and rods of all energies, sorted by piece; by their number of nodes, 2 and 3."""
        found = {}
        for size in (2, 3):
            nodes, places = [np.zeros((0, size), dtype=np.int64)], [np.zeros((0, size, size), dtype=np.int32)]
            for elements, own_places in zip(self.elements, self.places, strict=True):
                if elements is not None and own_places is not None and elements[1].shape[1] == size:
                    nodes.append(elements[0] + elements[1])
                    places.append(own_places)
            all_nodes = np.concatenate(nodes)
            order, starts = self.sort_by_piece(self.pieces_of(all_nodes).max(axis=1, initial=-1))
            found[size] = PieceOrder(order, starts, all_nodes[order], np.concatenate(places)[order])
        return found

    def pieces_of(self, nodes: Index) -> Index:
        """Return the pieces of nodes; -1 for hard pins."""
        slots = self.slot[nodes]
        return np.where(slots >= 0, self.factors.piece_of_row[slots], -1)

    def sort_by_piece(self, pieces: Index) -> tuple[Index, Index]:
        """Return the order (m,) of elements by their pieces (e,), and the first element of each piece (p + 1,).

        Elements of piece -1 are left out.
        """
        order = np.argsort(pieces, kind="stable")
        order = order[np.searchsorted(pieces[order], 0) :]
        return order, np.searchsorted(pieces[order], np.arange(self.factors.piece_count + 1))

    def places_of(self, rows: Index, columns: Index) -> Places:
        """Return the places of pairs of nodes; -1 for pinned nodes and missing blocks."""
        return self.blocks.places(self.slot[rows], self.slot[columns])


class RopeMatrix:
    """Hessian of a step of ropes, h times that of the potential and the inertia.

    pattern: of the last blocks. Contacts between ropes extend it.
    """

    def __init__(
        self,
        library: KernelLibrary,
        potential: StepPotential,
        free_index: Index,
        inertia: Array,
        h: float,
        damping: csr_matrix | None,
        known: list[RopePattern],
        x: Array,
    ) -> None:
        """free_index: (n,).  inertia: (f,) of the rows of v.  damping: (3n, 3n) or None.

        known: patterns of the stepper, to which a new one is added.  x: (n, 3) m.
        """
        self._library, self._potential, self._free_index, self._h = library, potential, free_index, h
        self._inertia, self.damping = inertia, damping
        self._elements = tuple(
            None if (nodes := _element_nodes(energy)) is None else (part.start, nodes)
            for part, _, energy in potential.scaled_energies
        )
        self._further: list[Pairs] = []
        self._base: Array | None = None
        energies = zip(potential.scaled_energies, self._elements, strict=True)
        for (part, _, energy), elements in energies:
            if elements is None:
                self._further.append(matrix_pairs(energy.hessian(x[part], True), part.start))
        if damping is not None:
            self._further.append(matrix_pairs(damping, 0))
        if potential.links is not None:
            self._further.append(matrix_pairs(potential.link_hessian(x), 0))
        pattern = next((one for one in known if self._fits(one)), None)
        if pattern is None:
            pattern = RopePattern.create(library, free_index, self._elements, self._further)
            known[:] = [pattern, *known[: KEPT_PATTERNS - 1]]
        self.pattern = pattern

    def _fits(self, pattern: RopePattern) -> bool:
        return pattern.has_elements(self._elements) and all(
            ((pattern.places_of(*pair) >= 0) | (pattern.slot[pair[0]] < 0) | (pattern.slot[pair[1]] < 0)).all()
            for pair in self._further
        )

    def blocks_at(self, x: Array, project: bool) -> Array:
        """Return the blocks (b, 3, 3) of the Hessian at x (n, 3) m; with project, of its positive semi-definite part.

        They belong to the pattern after the call.
        """
        contacts = self._potential.contacts
        blocks = self.base_blocks(x).copy()
        energies = zip(self._potential.scaled_energies, self.pattern.places, strict=True)
        for (part, factor, energy), places in energies:
            if places is not None:
                assert isinstance(energy, (SpringEnergy, RodBending))
                compiled = energy.compiled()
                assert compiled is not None
                compiled.add_blocks(x[part], self._h * factor, places, blocks, project)
            elif not has_constant_hessian(energy):
                self._add_matrix(blocks, energy.hessian(x[part], project), self._h * factor, part.start)
        if self._potential.links is not None:
            self._add_matrix(blocks, self._potential.link_hessian(x), self._h, 0)
        if contacts is None:
            return blocks
        assert isinstance(contacts, CompiledContactPotential)
        slots = self.pattern.slot.astype(np.int32), self.pattern.blocks.starts, self.pattern.blocks.columns
        at = contacts.evaluate(x)
        if contacts.add_blocks(at, self._h, slots, blocks):
            self.add_contacts(contacts.contacts.weights[contacts.active_contacts(at)])
            return self.blocks_at(x, project)
        return blocks

    def base_blocks(self, x: Array) -> Array:
        """Return the constant part (b, 3, 3) of the Hessian at any x (n, 3) m."""
        if self._base is None:
            self._base = self._constant_blocks(x)
        return self._base

    def add_contacts(self, weights: csr_matrix) -> None:
        """Add the blocks that contacts with weights (k, n) need and the pattern does not have."""
        counts, found = np.diff(weights.indptr), []
        for count in np.unique(counts[counts > 1]).tolist():
            entries = weights.indptr[:-1][counts == count, None] + np.arange(count)
            found.append(element_pairs(weights.indices[entries].astype(np.int64)))
        if not found:
            return
        pairs = np.concatenate([one[0].ravel() for one in found]), np.concatenate([one[1].ravel() for one in found])
        is_free = (self.pattern.slot[pairs[0]] >= 0) & (self.pattern.slot[pairs[1]] >= 0)
        if (self.pattern.places_of(*pairs)[is_free] < 0).any():
            self._further.append(pairs)
            self.pattern = RopePattern.create(self._library, self._free_index, self._elements, self._further)
            self._base = None

    def as_sparse(self, blocks: Array) -> csr_matrix:
        """Return blocks (b, 3, 3) as a matrix (3f, 3f) whose rows are those of the pattern."""
        return self.pattern.blocks.as_matrix(blocks)

    def _constant_blocks(self, x: Array) -> Array:
        """Return the blocks of the inertia, the damping and the energies whose Hessian is constant."""
        pattern = self.pattern.blocks
        blocks = np.zeros((len(pattern.keys), 3, 3))
        for part, factor, energy in self._potential.scaled_energies:
            if has_constant_hessian(energy):
                self._add_matrix(blocks, energy.hessian(x[part], True), self._h * factor, part.start)
        if self.damping is not None:
            self._add_matrix(blocks, self.damping, 1.0, 0)
        for k in range(3):
            blocks[pattern.diagonal, k, k] += self._inertia[self.pattern.order]
        return blocks

    def _add_matrix(self, blocks: Array, matrix: csr_matrix, factor: float, start: int) -> None:
        """Add a matrix (3m, 3m) of the nodes from start on, whose blocks are in the pattern."""
        added = matrix.tobsr((3, 3))
        places = self.pattern.places_of(*matrix_pairs(added, start))
        used = places >= 0
        # Each block of a sparse matrix is stored once.
        blocks[places[used]] += factor * added.data[used]


class RopeDirections:
    """Newton directions from the exact Hessian of each piece where it is positive, else from the projected one."""

    def __init__(
        self, matrix: RopeMatrix, positions: Callable[[Array], Array], low_rank: Callable[[], LowRank]
    ) -> None:
        """positions: returns (n, 3) m for velocities v (f, 3).  low_rank: returns the low-rank part of the Hessian."""
        self._matrix, self._positions, self._low_rank = matrix, positions, low_rank

    def __call__(self, v: Array, gradient: Array) -> Array:
        """Return the direction (f, 3) at v for its gradient (f, 3)."""
        x, low = self._positions(v), self._low_rank()
        direction = -LowRankUpdate(self._solve_at(x, False), low)(gradient.ravel()).reshape(v.shape)
        if low.is_empty or float(np.vdot(gradient, direction)) <= 0.0:
            return np.asarray(direction)
        return np.asarray(-LowRankUpdate(self._solve_at(x, True), low)(gradient.ravel()).reshape(v.shape))

    def _solve_at(self, x: Array, project: bool) -> Solve:
        """Return a solve with the Hessian at x (n, 3) m. Pieces in which it is not positive definite are projected."""
        matrix, blocks = self._matrix, self._matrix.blocks_at(x, project)
        factors, order = matrix.pattern.factors, matrix.pattern.order
        if factors.work > MAX_ENVELOPE_WORK:
            found = None if project else factorise_positive(matrix.as_sparse(blocks))
            blocks = blocks if project or found is not None else matrix.blocks_at(x, True)
            return _reordered(found or factorise(matrix.as_sparse(blocks)), order)
        failed = factors.factorise(blocks)
        if failed.any() and not project:
            blocks = matrix.blocks_at(x, True)
            failed = factors.factorise(blocks, failed)
        if failed.any():
            return _reordered(factorise(matrix.as_sparse(blocks)), order)
        return _reordered(factors.solve_columns, order)


def envelope_solve(library: KernelLibrary, matrix: csr_matrix) -> Solve | None:
    """Return a solve with a matrix (3f, 3f) within its envelope.

    Return None if the matrix is not positive definite, or if the envelope is too wide.
    """
    stored = matrix.tobsr((3, 3))
    rows, columns = matrix_pairs(matrix, 0)
    pattern, slot, order = BlockPattern.ordered(np.arange(stored.shape[0] // 3), [(rows, columns)])
    factors = EnvelopeFactors(library, pattern.starts, pattern.columns)
    if factors.work > MAX_ENVELOPE_WORK:
        return None
    blocks = np.zeros((len(pattern.keys), 3, 3))
    blocks[pattern.places(slot[rows], slot[columns])] = stored.data
    return None if factors.factorise(blocks).any() else _reordered(factors.solve_columns, order)


def _reordered(solve: Solve, order: Index) -> Solve:
    """Return a solve in the rows of v from one in the rows of a matrix. order: (f,) row of v of each row."""
    dof = (3 * order[:, None] + np.arange(3)).ravel()

    def reordered_solve(right: Array) -> Array:
        answer = np.empty_like(right)
        answer[dof] = solve(np.ascontiguousarray(right[dof]))
        return answer

    return reordered_solve
