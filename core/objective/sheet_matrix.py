"""Hessian of a sheet's step as 3 x 3 blocks on a fixed pattern, for the compiled solver (docs/decisions/0047).

The pattern of elements is computed once per system. Contacts add blocks to it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
from scipy.sparse import bsr_matrix, csr_matrix
from scipy.sparse.csgraph import reverse_cuthill_mckee

from ..base.arrays import Array, Index, take_rows
from ..contact.penalty_and_friction import CompiledContactPotential, ContactPotential, ContactSet
from ..materials import Corotational, Energy, ShellBending
from ..native.contacts import ContactEvaluation
from ..native.elements import BlockFactors, Places, ShellPlaces, read_only
from ..native.library import KernelLibrary
from ..solvers.factorisation import LowRank, LowRankUpdate, factorise
from .step_potential import StepPotential

# Relative preconditioned residual at which conjugate gradients stop, and the same while contacts press: their changes
# leave nothing of a more exact direction.
_FORCING, _CONTACT_FORCING = 0.05, 0.1
# After more steps than this, the matrix is factorised completely.
_MAX_STEPS = 300
# Least work of contacts that close along a direction, over its descent, at which they are foreseen: half the decrease
# that the direction predicts. Least descent with foreseen contacts over that without them.
_MIN_CLOSING_WORK, _MIN_FORESEEN_DESCENT = 0.25, 0.5
# Number of patterns that a stepper keeps.
KEPT_PATTERNS = 4

Pairs = tuple[Index, Index]
"""Nodes of the rows and of the columns of blocks."""


@dataclass(frozen=True)
class BlockPattern:
    """Symmetric sparsity pattern of 3 x 3 blocks, with all diagonal blocks.

    count: n.  keys: (b,) row * n + column of each block, ascending.
    starts, columns, diagonal, mirror: see BlockFactors.
    """

    count: int
    keys: Index
    starts: Places
    columns: Places
    diagonal: Places
    mirror: Places

    @staticmethod
    def of(count: int, keys: Index) -> BlockPattern:
        """Return the pattern of unique ascending keys (b,), which include the diagonal and are symmetric."""
        rows, columns = keys // count, keys % count
        starts = np.concatenate([[0], np.cumsum(np.bincount(rows, minlength=count))]).astype(np.int32)
        diagonal = np.searchsorted(keys, np.arange(count) * (count + 1)).astype(np.int32)
        # Sorted by column, then by row: the order of the transposed blocks.
        mirror = np.empty(len(keys), dtype=np.int32)
        mirror[np.argsort(columns, kind="stable")] = np.arange(len(keys), dtype=np.int32)
        own = starts, columns.astype(np.int32), diagonal, mirror
        return BlockPattern(count, keys, *map(read_only, own))

    @staticmethod
    def ordered(free_index: Index, pairs: Sequence[Pairs]) -> tuple[BlockPattern, Index, Index]:
        """Return the pattern of pairs of nodes, with rows in an order that keeps its envelope narrow.

        Also return the row (n,) of each node, -1 for hard pins, and the row of v of each row (f,).

        free_index: (n,) row of v of each node; -1 for hard pins.
        """
        count, none = int((free_index >= 0).sum()), np.zeros(0, dtype=np.int64)
        rows, columns = (free_index[np.concatenate([none, *(pair[k].ravel() for pair in pairs)])] for k in (0, 1))
        used = (rows >= 0) & (columns >= 0)
        graph = csr_matrix((np.ones(used.sum()), (rows[used], columns[used])), shape=(count, count))
        order = np.asarray(reverse_cuthill_mckee((graph + graph.T).tocsr(), symmetric_mode=True), dtype=np.int64)
        place = np.empty(count + 1, dtype=np.int64)
        place[order], place[count] = np.arange(count), -1
        rows, columns = place[rows[used]], place[columns[used]]
        keys = np.concatenate([rows * count + columns, columns * count + rows, np.arange(count) * (count + 1)])
        return BlockPattern.of(count, np.unique(keys)), place[free_index], order

    def as_matrix(self, blocks: Array) -> csr_matrix:
        """Return blocks (b, 3, 3) as a matrix (3f, 3f)."""
        return bsr_matrix((blocks, self.columns, self.starts), shape=(3 * self.count,) * 2).tocsr()

    def places(self, rows: Index, columns: Index) -> Places:
        """Return the places of blocks; -1 where a row or a column is negative, or there is no block."""
        keys = rows * self.count + columns
        found = np.minimum(np.searchsorted(self.keys, keys), len(self.keys) - 1)
        is_stored = (rows >= 0) & (columns >= 0) & (self.keys[found] == keys)
        return read_only(np.where(is_stored, found, -1).astype(np.int32))

    def with_blocks(self, rows: Index, columns: Index) -> tuple[BlockPattern, Index] | None:
        """Return the pattern with further blocks and their transposes, and the new place of each block.

        Return None if all of them are there. Negative rows and columns are ignored.
        """
        used = (rows >= 0) & (columns >= 0)
        rows, columns = rows[used], columns[used]
        keys = np.unique(np.concatenate([rows * self.count + columns, columns * self.count + rows]))
        found = np.minimum(np.searchsorted(self.keys, keys), len(self.keys) - 1)
        missing = keys[self.keys[found] != keys]
        if not len(missing):
            return None
        before = np.searchsorted(self.keys, missing)
        added = before + np.arange(len(missing))
        moved = np.arange(len(self.keys)) + np.cumsum(np.bincount(before, minlength=len(self.keys) + 1))[:-1]
        rows, columns = missing // self.count, missing % self.count
        size = len(self.keys) + len(missing)
        new_keys, (new_columns, mirror) = np.empty(size, dtype=np.int64), np.empty((2, size), dtype=np.int32)
        new_keys[moved], new_keys[added] = self.keys, missing
        new_columns[moved], new_columns[added] = self.columns, columns
        # Missing blocks are transposed ones of each other.
        mirror[moved], mirror[added] = moved[self.mirror], added[np.searchsorted(missing, columns * self.count + rows)]
        starts = self.starts + np.append(0, np.cumsum(np.bincount(rows, minlength=self.count)))
        own = starts.astype(np.int32), new_columns, moved[self.diagonal].astype(np.int32), mirror
        return BlockPattern(self.count, new_keys, *map(read_only, own)), moved


def _moved_blocks(blocks: Array, moved: Index, count: int) -> Array:
    """Return `count` blocks with the given ones (b, 3, 3) at their new places, and zeros elsewhere."""
    found = np.zeros((count, 3, 3))
    found[moved] = blocks
    return found


def _moved_places(places: Places, moved: Index) -> Places:
    """Return places after their blocks have moved; -1 stays."""
    return read_only(np.append(moved, -1)[places].astype(np.int32))


@dataclass(frozen=True)
class ElementPattern:
    """Pattern of the elements of a system, and the places of each energy in it.

    slot: (n,) row of each node; -1 for hard pins.  order: (f,) row of v of each row.
    places: of each energy of the potential: of a Corotational, (m, 3, 3); of a curved ShellBending, see
        CompiledShell.places(); of others None.
    topology: objects that identify the elements.
    """

    pattern: BlockPattern
    slot: Index
    order: Index
    places: tuple[Places | ShellPlaces | None, ...]
    topology: tuple[object, ...]

    @staticmethod
    def topology_of(potential: StepPotential) -> tuple[object, ...]:
        """Return objects whose identity determines the pattern."""
        found: list[object] = [potential.links is not None]
        for part, _, energy in potential.scaled_energies:
            shape: object = energy.triangles if isinstance(energy, Corotational) else type(energy)
            if isinstance(energy, ShellBending):
                shape = energy.hinges
            found += [part.start, shape]
        return tuple(found)

    @staticmethod
    def create(potential: StepPotential, free_index: Index, x: Array) -> ElementPattern:
        """Return the pattern of a potential's energies. free_index: (n,), -1 for hard pins.  x: (n, 3) m."""
        pairs = [_pairs_of_energy(energy, part, x) for part, _, energy in potential.scaled_energies]
        if potential.links is not None:
            pairs.append(matrix_pairs(potential.link_hessian(x), 0))
        pattern, slot, order = BlockPattern.ordered(free_index, pairs)
        places: list[Places | ShellPlaces | None] = []
        for (_, _, energy), (first, second) in zip(potential.scaled_energies, pairs, strict=False):
            if isinstance(energy, Corotational):
                places.append(pattern.places(slot[first], slot[second]))
            elif isinstance(energy, ShellBending) and energy.coordinate_hessian is None:
                ends, shell = (slot[first], slot[second]), energy.compiled()
                assert shell is not None
                places.append(shell.places(pattern.places(*ends), pattern.places(*ends[::-1])))
            else:
                places.append(None)
        return ElementPattern(pattern, slot, order, tuple(places), ElementPattern.topology_of(potential))

    def with_blocks(self, rows: Index, columns: Index) -> tuple[ElementPattern, Index] | None:
        """Return the pattern with further blocks, see BlockPattern.with_blocks()."""
        extended = self.pattern.with_blocks(rows, columns)
        if extended is None:
            return None
        pattern, moved = extended
        places = tuple(
            None
            if one is None
            else (*one[:4], _moved_places(one[4], moved))
            if isinstance(one, tuple)
            else _moved_places(one, moved)
            for one in self.places
        )
        return replace(self, pattern=pattern, places=places), moved


def _pairs_of_energy(energy: Energy, part: slice, x: Array) -> Pairs:
    """Return the nodes of the rows and of the columns of the blocks of an energy's Hessian."""
    if isinstance(energy, Corotational):
        return element_pairs(energy.triangles + part.start)
    if isinstance(energy, ShellBending) and energy.coordinate_hessian is None:
        compiled = energy.compiled()
        assert compiled is not None
        rows, columns = compiled.pair_nodes()
        return rows + part.start, columns + part.start
    if isinstance(energy, ShellBending):
        matrix = energy.coordinate_hessian
        assert matrix is not None
        return np.arange(matrix.shape[0]).repeat(np.diff(matrix.indptr)) + part.start, matrix.indices + part.start
    return matrix_pairs(energy.hessian(x[part], True), part.start)


def element_pairs(elements: Index) -> Pairs:
    """Return all pairs of nodes of elements (m, k)."""
    shape = (*elements.shape, elements.shape[1])
    return np.broadcast_to(elements[:, :, None], shape), np.broadcast_to(elements[:, None, :], shape)


def matrix_pairs(matrix: csr_matrix, start: int) -> Pairs:
    """Return the pairs of nodes of the blocks of a matrix (3n, 3n) of the nodes from start on."""
    blocks = matrix.tobsr((3, 3))
    rows = np.arange(len(blocks.indptr) - 1).repeat(np.diff(blocks.indptr))
    return rows + start, blocks.indices.astype(np.int64) + start


class SheetMatrix:
    """Hessian of a step of sheets, h times that of the potential and the inertia."""

    def __init__(
        self,
        library: KernelLibrary,
        elements: ElementPattern,
        potential: StepPotential,
        inertia: Array,
        h: float,
        damping: csr_matrix | None,
    ) -> None:
        """inertia: (f,) of the rows of v.  damping: (3n, 3n) or None."""
        self._library, self._elements, self._potential, self._h = library, elements, potential, h
        self._inertia, self._damping = inertia[elements.order], damping
        self._base: Array | None = None
        self._slots = read_only(elements.slot.astype(np.int32))
        is_free = elements.slot >= 0
        self._nodes = np.flatnonzero(is_free)[np.argsort(elements.slot[is_free])]
        self._blocks: Array | None = None
        self._contacts_in_blocks: ContactEvaluation | None = None
        self._factors: tuple[BlockPattern, BlockFactors] | None = None
        self._contact_blocks: tuple[ContactSet, csr_matrix] | None = None
        self._constant = {
            number for number, (_, _, energy) in enumerate(potential.scaled_energies) if has_constant_hessian(energy)
        }

    @property
    def order(self) -> Index:
        """Row of v (f,) of each row of the matrix."""
        return self._elements.order

    @cached_property
    def rows(self) -> Index:
        """Row of the matrix (f,) of each row of v."""
        return np.argsort(self.order)

    def factors_at(self, x: Array) -> tuple[BlockFactors, Array]:
        """Return the incomplete factors and the blocks (b, 3, 3) of the projected Hessian at x (n, 3) m.

        Of two transposed blocks, only the first one is complete. Both results are valid until the next call.
        """
        contacts, potential = self._potential.contacts, self._potential
        is_new = self._contact_blocks is None or self._contact_blocks[0] is not (contacts and contacts.contacts)
        if contacts is not None and not isinstance(contacts, CompiledContactPotential) and is_new:
            self._add_contact_pattern(contacts.contacts)
        if self._base is None:
            self._base = self._constant_blocks(x)
        blocks = self._copy_of_base(self._base)
        for number, (part, factor, energy) in enumerate(potential.scaled_energies):
            places = self._elements.places[number]
            if number in self._constant:
                continue
            if isinstance(energy, Corotational):
                membrane = energy.compiled()
                assert membrane is not None
                assert isinstance(places, np.ndarray)
                membrane.add_blocks(x[part], self._h * factor, places, blocks)
            elif isinstance(places, tuple):
                assert isinstance(energy, ShellBending)
                shell = energy.compiled()
                assert shell is not None
                shell.add_blocks(x[part], self._h * factor, places, blocks)
            else:
                blocks = self._add_matrix(blocks, energy.hessian(x[part], True), self._h * factor, part.start)
        if potential.links is not None:
            blocks = self._add_matrix(blocks, potential.link_hessian(x), self._h, 0)
        if isinstance(contacts, CompiledContactPotential):
            self._contacts_in_blocks = contacts.evaluate(x)
            blocks = self._add_compiled_contacts(blocks, contacts, self._contacts_in_blocks)
        elif contacts is not None:
            self._add_contacts(blocks, contacts, x)
        self._blocks = blocks
        factors = self._factors_of_pattern()
        factors.factorise(blocks)
        return factors, blocks

    def foresee_contacts(self, ends: Array, min_power: float) -> tuple[BlockFactors, Array] | None:
        """Replace the contacts in the last matrix by those foreseen at ends (n, 3) m.

        Return the incomplete factors, and the change (f, 3) N of the gradient in the rows of the matrix. Return None
        without compiled contacts, or if closing takes at most min_power W, see CompiledContactPotential.foreseen().
        """
        contacts, at, blocks = self._potential.contacts, self._contacts_in_blocks, self._blocks
        if not isinstance(contacts, CompiledContactPotential) or at is None or blocks is None:
            return None
        found = contacts.foreseen(at, ends, self._h * min_power)
        if found is None:
            return None
        contacts.add_blocks(at, -self._h, self._contact_rows(), blocks)
        self._contacts_in_blocks, change = found
        self._blocks = self._add_compiled_contacts(blocks, contacts, self._contacts_in_blocks)
        factors = self._factors_of_pattern()
        factors.factorise(self._blocks)
        return factors, take_rows(change, self._nodes)

    def _copy_of_base(self, base: Array) -> Array:
        """Return a copy of the constant blocks, in the memory of the last one if it fits."""
        if self._blocks is None or self._blocks.shape != base.shape:
            self._blocks = np.empty_like(base)
        np.copyto(self._blocks, base)
        return self._blocks

    def _factors_of_pattern(self) -> BlockFactors:
        """Return the factors for the current pattern, with the memory of the last ones if it is the same."""
        pattern = self._elements.pattern
        if self._factors is None or self._factors[0] is not pattern:
            made = BlockFactors(self._library, pattern.starts, pattern.columns, pattern.diagonal, pattern.mirror)
            self._factors = pattern, made
        return self._factors[1]

    def as_sparse(self, blocks: Array) -> csr_matrix:
        """Return blocks (b, 3, 3) of factors_at() as a matrix (3f, 3f) whose rows are those of the pattern."""
        pattern = self._elements.pattern
        is_first = np.arange(len(blocks)) <= pattern.mirror
        blocks = np.where(is_first[:, None, None], blocks, blocks[pattern.mirror].transpose(0, 2, 1))
        return pattern.as_matrix(blocks)

    def _constant_blocks(self, x: Array) -> Array:
        """Return the blocks of the inertia, the damping and the energies whose Hessian is constant."""
        pattern = self._elements.pattern
        blocks = np.zeros((len(pattern.keys), 3, 3))
        for number in self._constant:
            part, factor, energy = self._potential.scaled_energies[number]
            if isinstance(energy, ShellBending):
                matrix = energy.coordinate_hessian
                assert matrix is not None
                places = self._places_of(*_pairs_of_energy(energy, part, x))
                used = places >= 0
                added = self._h * factor * matrix.data[used]
                blocks.reshape(-1, 9)[places[used], ::4] += added[:, None]
            else:
                blocks = self._add_matrix(blocks, energy.hessian(x[part], True), self._h * factor, part.start)
        if self._damping is not None:
            blocks = self._add_matrix(blocks, self._damping, 1.0, 0)
        for k in range(3):
            blocks[self._elements.pattern.diagonal, k, k] += self._inertia
        return blocks

    def _places_of(self, rows: Index, columns: Index) -> Places:
        slot = self._elements.slot
        return self._elements.pattern.places(slot[rows], slot[columns])

    def _add_matrix(self, blocks: Array, matrix: csr_matrix, factor: float, start: int) -> Array:
        """Return blocks (b, 3, 3) with a matrix (3n, 3n) added, after adding its blocks to the pattern."""
        added = matrix.tobsr((3, 3))
        rows, columns = (self._elements.slot[nodes] for nodes in matrix_pairs(added, start))
        places, is_free = self._elements.pattern.places(rows, columns), (rows >= 0) & (columns >= 0)
        if (places[is_free] < 0).any():
            blocks = self._extended(blocks, rows, columns)
            places = self._elements.pattern.places(rows, columns)
        # Each block of a sparse matrix is stored once.
        blocks[places[is_free]] += factor * added.data[is_free]
        return blocks

    def _extended(self, blocks: Array, rows: Index, columns: Index) -> Array:
        """Return blocks (b, 3, 3) on the pattern with further blocks."""
        extended = self._elements.with_blocks(rows, columns)
        if extended is None:
            return blocks
        self._elements, moved = extended
        self._contact_blocks = None
        count = len(self._elements.pattern.keys)
        if self._base is not None and self._base is not blocks:
            self._base = _moved_blocks(self._base, moved, count)
        return _moved_blocks(blocks, moved, count)

    def _add_contact_pattern(self, contacts: ContactSet) -> None:
        rows, columns, _, _ = self._contact_pairs(contacts)
        if self._base is not None:
            self._base = self._extended(self._base, rows, columns)
        elif (extended := self._elements.with_blocks(rows, columns)) is not None:
            self._elements = extended[0]
        self._contact_blocks = None

    def _contact_pairs(self, contacts: ContactSet) -> tuple[Index, Index, Array, Index]:
        """Return rows, columns, weight products and contacts of all pairs of free nodes of a contact."""
        weights = contacts.weights
        slot = self._elements.slot[weights.indices]
        counts = np.diff(weights.indptr)
        # Combine each weight with each weight of its contact.
        repeated = counts.repeat(counts)
        first = np.arange(len(slot)).repeat(repeated)
        begin = weights.indptr[:-1].repeat(counts).repeat(repeated)
        second = begin + np.arange(len(first)) - (np.cumsum(repeated) - repeated).repeat(repeated)
        used = (slot[first] >= 0) & (slot[second] >= 0)
        first, second = first[used], second[used]
        return slot[first], slot[second], weights.data[first] * weights.data[second], contacts.weight_rows[first]

    def _add_compiled_contacts(self, blocks: Array, contacts: CompiledContactPotential, at: ContactEvaluation) -> Array:
        """Return blocks (b, 3, 3) with those of contacts added, after adding blocks of active contacts if needed."""
        if contacts.add_blocks(at, self._h, self._contact_rows(), blocks):
            active = contacts.contacts.select(contacts.active_contacts(at))
            rows, columns, _, _ = self._contact_pairs(active)
            blocks = self._extended(blocks, rows, columns)
            contacts.add_blocks(at, self._h, self._contact_rows(), blocks)
        return blocks

    def _contact_rows(self) -> tuple[Places, Places, Places]:
        pattern = self._elements.pattern
        return self._slots, pattern.starts, pattern.columns

    def _add_contacts(self, blocks: Array, contacts: ContactPotential, x: Array) -> None:
        if self._contact_blocks is None:
            rows, columns, products, contact = self._contact_pairs(contacts.contacts)
            places = self._elements.pattern.places(rows, columns)
            used, compact = np.unique(places, return_inverse=True)
            gather = csr_matrix((products, (compact, contact)), shape=(len(used), len(contacts.contacts)))
            self._contact_blocks, self._contact_places = (contacts.contacts, gather), used
        stiffness = contacts.stiffness_blocks(x).reshape(-1, 9)
        blocks[self._contact_places] += self._h * (self._contact_blocks[1] @ stiffness).reshape(-1, 3, 3)


def has_constant_hessian(energy: Energy) -> bool:
    """Return whether the Hessian of an energy is the same everywhere."""
    if isinstance(energy, ShellBending):
        return energy.coordinate_hessian is not None
    return bool(getattr(energy, "has_constant_hessian", False))


class BlockDirections:
    """Newton directions by conjugate gradients that an incomplete factorisation preconditions."""

    def __init__(
        self,
        matrix: SheetMatrix,
        positions: Callable[[Array], Array],
        low_rank: Callable[[], LowRank],
        *,
        is_in_contact: bool = False,
    ) -> None:
        """Create the directions of a search.

        positions: returns (n, 3) m for velocities v (f, 3).  low_rank: returns the low-rank part of the Hessian.
        is_in_contact: whether contacts may press, so that directions need not be as exact.
        """
        self._matrix, self._positions, self._low_rank = matrix, positions, low_rank
        self._forcing, self._is_in_contact = _CONTACT_FORCING if is_in_contact else _FORCING, is_in_contact
        self._factors: BlockFactors | None = None
        self._known_low_rank: tuple[LowRank, tuple[Array, Array, Index]] | None = None

    def direction_at(self, v: Array, gradient: Array, *, foresees: bool = False) -> tuple[Array, float]:
        """Return the direction (f, 3) at v, and the preconditioned norm of the gradient.

        foresees: whether to foresee contacts that close on the way.
        """
        self._factors, blocks = self._matrix.factors_at(self._positions(v))
        right = -take_rows(gradient, self._matrix.order)
        found, norm = self._solution(right)
        if found is None:
            low = _reordered(self._low_rank(), self._matrix.order)
            solve = LowRankUpdate(factorise(self._matrix.as_sparse(blocks)), low)
            found = solve(right.ravel()).reshape(-1, 3)
        elif foresees and self._is_in_contact:
            found, norm = self._foreseen_solution(v, right, found, norm)
        return take_rows(found, self._matrix.rows), norm

    def _solution(self, right: Array) -> tuple[Array | None, float]:
        """Return the solution (f, 3) for a right-hand side (f, 3), or None, and the preconditioned norm of that."""
        if self._factors is None or not self._factors.is_valid:
            return None, 0.0
        parts = self._sorted_low_rank(self._low_rank())
        found, steps, norm = self._factors.conjugate_gradients(right, parts, self._forcing, _MAX_STEPS)
        return found if steps <= _MAX_STEPS else None, norm

    def _foreseen_solution(self, v: Array, right: Array, found: Array, norm: float) -> tuple[Array, float]:
        """Return the solution (f, 3) with the contacts at the end of the one found, and its preconditioned norm.

        Return those given if the contacts change little, or if the other solution descends too little.
        """
        descent = float(np.vdot(right, found))
        ends = self._positions(v + take_rows(found, self._matrix.rows))
        foreseen = self._matrix.foresee_contacts(ends, _MIN_CLOSING_WORK * descent)
        if foreseen is None:
            return found, norm
        self._factors, change = foreseen
        other, _ = self._solution(right - change)
        if other is None:
            return found, norm
        is_better = float(np.vdot(right, other)) >= _MIN_FORESEEN_DESCENT * descent
        return other if is_better else found, self._norm(right)

    def _sorted_low_rank(self, low: LowRank) -> tuple[Array, Array, Index]:
        """Return the columns, the signs and the region of each row of the matrix, see BlockFactors."""
        if self._known_low_rank is None or self._known_low_rank[0] is not low:
            order = self._matrix.order
            columns = low.columns.reshape(len(order), 3, low.columns.shape[1])
            self._known_low_rank = low, (take_rows(columns, order), low.signs, low.block[::3][order])
        return self._known_low_rank[1]

    def norm(self, gradient: Array) -> float:
        """Return the norm of a gradient (f, 3) in the last preconditioner; infinite before the first direction."""
        if self._factors is None or not self._factors.is_valid:
            return np.inf
        return self._norm(take_rows(gradient, self._matrix.order))

    def _norm(self, right: Array) -> float:
        """Return the norm of a right-hand side (f, 3) in the valid preconditioner."""
        assert self._factors is not None
        return float(np.sqrt(max(float(np.vdot(right, self._factors.solve(right))), 0.0)))


def _reordered(low: LowRank, order: Index) -> LowRank:
    dof = (3 * order[:, None] + np.arange(3)).ravel()
    return LowRank(low.columns[dof], low.signs, low.block[dof])


def cached_elements(
    known: dict[int, ElementPattern], potential: StepPotential, free_index: Index, x: Array
) -> ElementPattern:
    """Return the element pattern of a potential from a cache of a stepper, or create it."""
    topology = ElementPattern.topology_of(potential)
    for one in known.values():
        if len(one.topology) == len(topology) and all(
            a is b or (isinstance(a, (int, type)) and a == b) for a, b in zip(one.topology, topology, strict=True)
        ):
            return one
    if len(known) == KEPT_PATTERNS:
        known.clear()
    return known.setdefault(len(known), ElementPattern.create(potential, free_index, x))
