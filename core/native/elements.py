"""Compiled energies of elements, sheets and tetrahedra, and linear solves with matrices of 3 x 3 blocks."""

from __future__ import annotations

from operator import is_
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_matrix

from ..base.arrays import Array, Index, are_equal
from .library import (
    LANES,
    KernelLibrary,
    doubles,
    integers,
    pointers,
    require_indices,
    require_pattern,
    require_result,
    require_row_count,
    require_rows,
    require_shape,
    require_sparse,
)

Places = NDArray[np.int32]
"""Indices of blocks of a matrix; -1 for blocks that it does not have."""

ShellPlaces = tuple[Places, Places, Places, Places, Places]
"""Products of a shell's Hessian: slots, offsets, left, right and targets, see CompiledShell.places()."""


def read_only(places: Places) -> Places:
    """Return the same array, which the wrappers of the kernel then check once."""
    places.flags.writeable = False
    return places


class KnownPlaces:
    """Places that were valid for a number of blocks. They are checked again unless they are read-only."""

    def __init__(self) -> None:
        self._known: tuple[Places, int] | None = None

    def require(self, places: Places, shape: tuple[int, ...], blocks: Array, lowest: int = -1) -> None:
        """Check places of at least `lowest`, unless they are known.

        Raises ValueError if blocks are not (b, 3, 3), or places have another shape or point beyond them.
        """
        require_result(blocks, (len(blocks), 3, 3), np.float64, "blocks")
        known, is_fixed = self._known, not places.flags.writeable
        is_new = known is None or known[0] is not places or known[1] != len(blocks) or not is_fixed
        if is_new:
            if places.dtype != np.int32 or not places.flags.c_contiguous:
                raise ValueError("the places are not a contiguous array of 32-bit integers")
            require_indices(places, shape, len(blocks), "places of blocks", lowest)
            self._known = (places, len(blocks)) if is_fixed else None


class CompiledElements:
    """Energy of elements, compiled, with another summation order than in numpy."""

    def __init__(self, energy: Any, nodes: int, elements: NDArray[Any], *numbers: Array) -> None:
        """Store elements (m, k) and their numbers.

        energy: function of the kernel.  nodes: n.
        """
        self._energy, self._nodes, self._count = energy, nodes, len(elements)
        self._buffers: tuple[NDArray[Any], ...] = integers(elements), *map(doubles, numbers)
        self._pointers, self._known_places = pointers(*self._buffers), KnownPlaces()

    def value_gradient(self, positions: Array) -> tuple[float, Array]:
        """Return the energy in J and its gradient (n, 3) in N at positions (n, 3) m.

        Raises ValueError if positions have another shape.
        """
        x = self._checked(positions)
        gradient = np.zeros_like(x)
        return float(self._energy(self._count, *self._pointers, *pointers(x, gradient))), gradient

    def _add_hessian(
        self, add: Any, positions: Array, options: tuple[float, ...], places: Places, blocks: Array
    ) -> None:
        """Add the Hessian to blocks (b, 3, 3) by a function of the kernel with options. places: (m, k, k)."""
        x, nodes = self._checked(positions), self._buffers[0].shape[1]
        self._known_places.require(places, (self._count, nodes, nodes), blocks)
        add(self._count, *self._pointers, *options, *pointers(x, places, blocks))

    def _checked(self, positions: Array) -> Array:
        require_shape(positions, (self._nodes, 3), "positions")
        return doubles(positions)


class CompiledMembrane(CompiledElements):
    """Compiled equivalent of materials.membrane.Corotational."""

    def __init__(self, library: KernelLibrary, nodes: int, triangles: Index, shape: Array, moduli: Array) -> None:
        """Store the triangles.

        nodes: n.  triangles: (m, 3).  shape: (m, 3, 2) 1/m, see plane_shape_gradients().  moduli: (m, 3) J, mu,
        lambda and the modulus of the yarns times the weights.

        Raises ValueError if the arrays do not match, because the kernel does not check bounds.
        """
        require_row_count(nodes, "nodes")
        require_indices(triangles, (len(triangles), 3), nodes, "triangles")
        require_shape(shape, (len(triangles), 3, 2), "shape gradients")
        require_shape(moduli, (len(triangles), 3), "moduli")
        super().__init__(library.membrane, nodes, triangles, shape, moduli)
        self._membrane_blocks = library.membrane_blocks

    def add_blocks(self, positions: Array, factor: float, places: Places, blocks: Array) -> None:
        """Add the projected Hessian times a factor to blocks (b, 3, 3); to the first of two transposed ones.

        places: (m, 3, 3), of pairs of corners.
        """
        self._add_hessian(self._membrane_blocks, positions, (factor,), places, blocks)


class CompiledShell:
    """Compiled equivalent of materials.shell_bending.ShellBending for curved sheets."""

    def __init__(
        self, library: KernelLibrary, nodes: int, hinges: Index, rest: Array, stiffness: csr_matrix, fade: float
    ) -> None:
        """Store the hinges.

        nodes: n.  hinges: (h, 4), see Hinges.nodes.  rest: (h,) rad.  stiffness: (h, h) N m, symmetric.
        fade: rad, angle at which the coupling of hinges starts to fade.

        Raises ValueError if the arrays do not match.
        """
        require_row_count(nodes, "nodes")
        require_indices(hinges, (len(hinges), 4), nodes, "hinges")
        require_shape(rest, (len(hinges),), "rest angles")
        # The kernel wraps differences of angles by whole turns, one after the other.
        if not (np.abs(rest) <= 2.0 * np.pi).all():
            raise ValueError("a rest angle is not between -2 pi and 2 pi")
        require_sparse(stiffness, (len(hinges), len(hinges)), "stiffnesses")
        if not stiffness.has_canonical_format:
            raise ValueError("the stiffness is not a canonical matrix")
        if not 0.0 < fade < np.pi:
            raise ValueError(f"the angle {fade} is not between 0 and pi")
        self._library, self._nodes, self._count, self._fade = library, nodes, len(hinges), fade
        starts, columns = integers(stiffness.indptr), integers(stiffness.indices)
        self._buffers = integers(hinges), doubles(rest), starts, columns, doubles(stiffness.data)
        self._pointers = pointers(*self._buffers)
        self._slopes = np.empty((self._count, 4, 3)), np.empty(self._count), np.empty(self._count)
        self._known_places, self._known_products = KnownPlaces(), tuple[Places, ...]()
        self._moments = np.empty((0, 4))
        self._evaluated_at: Array | None = None

    def couples(self) -> tuple[Index, Index, Index]:
        """Return the couples of hinges with the nodes of those that they are coupled with: hinge and node (c,).

        Also return the slots (e, 4): the couple of each stored stiffness's row with each node of its column.
        """
        hinges, _, starts, columns, _ = self._buffers
        rows = np.arange(self._count).repeat(np.diff(starts))
        keys, slots = np.unique(rows[:, None] * self._nodes + hinges[columns], return_inverse=True)
        return keys // self._nodes, keys % self._nodes, slots.reshape(len(rows), 4)

    def pair_nodes(self) -> tuple[Index, Index]:
        """Return the nodes (c, 4) of the rows and of the columns of the blocks that each couple adds to."""
        hinge, node, _ = self.couples()
        return self._buffers[0][hinge].astype(np.int64), node[:, None].repeat(4, axis=1)

    def places(self, places: Places, mirrored: Places) -> ShellPlaces:
        """Return the products of J^T K J, sorted by the blocks that they add to.

        places, mirrored: (c, 4) of pair_nodes(), and of the transposed blocks.

        The result has five arrays: the slots (e, 4), see couples(); the offsets (u + 1,) of the products of each block;
        for each product its node (k,), which is 4 times the hinge plus the place in it, and its couple (k,); and the
        places (u,) of the blocks. Two transposed blocks have the place of the first one.
        """
        hinge, _, slots = self.couples()
        couple, corner = np.nonzero((places >= 0) & (places <= mirrored))
        targets = places[couple, corner]
        order = np.argsort(targets, kind="stable")
        targets, counts = np.unique(targets, return_counts=True)
        left, right = (4 * hinge[couple] + corner)[order], couple[order]
        given = slots, np.append(0, np.cumsum(counts)), left, right, targets
        first, second, third, fourth, last = (read_only(integers(one)) for one in given)
        return first, second, third, fourth, last

    def value_gradient(self, positions: Array) -> tuple[float, Array]:
        """Return the energy in J and its gradient (n, 3) in N at positions (n, 3) m."""
        require_shape(positions, (self._nodes, 3), "positions")
        x, gradient = np.array(positions, dtype=float, order="C"), np.zeros((self._nodes, 3))
        results = pointers(x, *self._slopes, gradient)
        value = self._library.shell(self._count, *self._pointers, self._fade, *results)
        self._evaluated_at = x
        return float(value), gradient

    def add_blocks(self, positions: Array, factor: float, places: ShellPlaces, blocks: Array) -> None:
        """Add J^T K J times a factor to blocks (b, 3, 3); to the first of two transposed ones.

        places: see places().

        Raises ValueError if the arrays do not match.
        """
        # The last evaluation was usually here, and its slopes are still stored.
        if self._evaluated_at is None or not are_equal(self._evaluated_at, positions):
            self.value_gradient(positions)
        *products, targets = places
        self._require_products(tuple(products), len(targets))
        self._known_places.require(targets, (len(targets),), blocks, 0)
        slots, offsets, left, right = products
        self._library.shell_blocks(
            self._count, *self._pointers[2:], self._fade, factor, *pointers(*self._slopes[:2], slots),
            len(self._moments), self._moments.ctypes.data, len(targets),
            *pointers(offsets, left, right, targets, blocks),
        )  # fmt: skip

    def _require_products(self, products: tuple[Places, ...], count: int) -> None:
        """Check slots, offsets, left and right of a number of blocks, unless they are known and read-only."""
        slots, offsets, left, right = products
        is_known = len(products) == len(self._known_products) and all(map(is_, products, self._known_products))
        if is_known and len(offsets) == count + 1:
            return
        for one in products:
            if one.dtype != np.int32 or not one.flags.c_contiguous:
                raise ValueError("the products are not contiguous arrays of 32-bit integers")
        couples = int(slots.max(initial=-1)) + 1
        require_indices(slots, (len(self._buffers[3]), 4), max(couples, 1), "couples")
        require_rows(offsets, count, len(left), "products")
        require_indices(left, (len(left),), max(4 * self._count, 1), "nodes of products")
        require_indices(right, (len(left),), max(couples, 1), "couples of products")
        is_fixed = not any(one.flags.writeable for one in products)
        self._known_products, self._moments = products if is_fixed else (), np.empty((couples, 4))


class BlockFactors:
    """Incomplete factors, in single precision, of symmetric matrices of 3 x 3 blocks with one pattern.

    Memory is kept for the next matrix. The diagonal shift of the last one only tells where the search for the smallest
    one begins: with a larger one, searches were less exact, and crumpled cloth hopped.
    is_valid: False if no positive factors were found.
    """

    def __init__(
        self, library: KernelLibrary, starts: Places, columns: Places, diagonal: Places, mirror: Places
    ) -> None:
        """Store the pattern of b blocks.

        starts: (n + 1,).  columns: (b,), ascending in each row.  diagonal: (n,) index of each row's diagonal block.
        mirror: (b,) index of each transposed block.

        Raises ValueError if the arrays do not match.
        """
        count, stored = len(starts) - 1, len(columns)
        require_row_count(count, "nodes")
        require_pattern(starts, columns, count)
        require_indices(mirror, (stored,), max(stored, 1), "transposed blocks")
        require_indices(diagonal, (count,), max(stored, 1), "diagonal blocks")
        is_outside = (diagonal < starts[:-1]) | (diagonal >= starts[1:])
        if (columns[diagonal] != np.arange(count)).any() or is_outside.any():
            raise ValueError("the diagonal blocks are not on the diagonal")
        self._library, self._count, self._stored = library, count, stored
        pattern = map(integers, (starts, columns, diagonal, mirror))
        shift, stores = np.zeros(1, dtype=np.float32), np.empty((2, stored, 3, 4), dtype=np.float32)
        self._buffers = *pattern, shift, *stores, *self._pairs(starts, columns, diagonal)
        *self._pattern, self._mirror, self._shift, self._matrix, self._factors = pointers(*self._buffers[:7])
        self._products = pointers(*self._buffers[7:])
        self._size, self.is_valid = 0.0, False

    def _pairs(self, starts: Places, columns: Places, diagonal: Places) -> tuple[Places, Places]:
        """Return the offsets (b + 1,) of the pairs of blocks (k, 2) whose products the factors of each block need."""
        lower = diagonal - starts[:-1]
        is_lower = columns < np.arange(self._count).repeat(np.diff(starts))
        most = int(lower[columns[is_lower]].sum(dtype=np.int64))
        if most > np.iinfo(np.int32).max:
            raise ValueError(f"{most} products of blocks are too many")
        marks, offsets = np.empty(self._count, dtype=np.int32), np.empty(self._stored + 1, dtype=np.int32)
        pairs = np.empty((most, 2), dtype=np.int32)
        given = integers(starts), integers(columns), integers(diagonal)
        count = self._library.block_pairs(self._count, *pointers(*given, marks, offsets, pairs))
        return offsets, pairs[:count].copy()

    def factorise(self, blocks: Array) -> bool:
        """Factorise a matrix (b, 3, 3), read from the first of two transposed blocks, and return is_valid."""
        require_shape(blocks, (self._stored, 3, 3), "blocks")
        values = doubles(blocks)
        self._size = self._library.block_factorise(
            self._count, *self._pattern, self._mirror, values.ctypes.data, *self._products, self._matrix,
            self._factors, self._shift,
        )  # fmt: skip
        self.is_valid = self._size > 0.0
        return self.is_valid

    def solve(self, right: Array) -> Array:
        """Return the inverse of the factors times right (n, 3)."""
        require_shape(right, (self._count, 3), "right-hand sides")
        given, found = doubles(right), np.empty((self._count, 3))
        workspace = np.empty((self._count, 4), dtype=np.float32)
        self._library.block_solve(
            self._count, *self._pattern, self._factors, self._size, *pointers(given, workspace, found)
        )
        return found

    def conjugate_gradients(
        self, right: Array, low_rank: tuple[Array, Array, Index], forcing: float, max_steps: int
    ) -> tuple[Array, int, float]:
        """Solve (A + Y diag(signs) Y^T) x = right (n, 3) by conjugate gradients, preconditioned with the factors.

        low_rank: Y (n, 3, k), signs (r, k), and the row (n,) of signs of each node.
        forcing: relative preconditioned residual at which to stop.

        Also return the number of steps, max_steps + 1 if they did not suffice, and the preconditioned norm of right.
        """
        columns, signs, region = low_rank
        regions, k = signs.shape
        require_shape(right, (self._count, 3), "right-hand sides")
        require_shape(columns, (self._count, 3, k), "columns of the low-rank part")
        require_indices(region, (self._count,), max(regions, 1), "regions")
        k = k if regions else 0
        given, found, norm = doubles(right), np.empty((self._count, 3)), np.empty(1)
        low = doubles(columns), doubles(signs), integers(region)
        vectors, amplitudes = np.empty(((4 + k) * self._count, 4), dtype=np.float32), np.empty(max(regions * k, 1))
        steps = self._library.block_cg(
            self._count, *self._pattern, self._matrix, self._factors, self._size, k, regions, *pointers(*low),
            given.ctypes.data, forcing, max_steps, *pointers(vectors, amplitudes, norm, found),
        )  # fmt: skip
        return found, int(steps), float(norm[0])


class CompiledTetrahedra(CompiledElements):
    """Compiled equivalent of energies.tetrahedra.TetElasticity."""

    def __init__(
        self, library: KernelLibrary, nodes: int, tets: Index, shape: Array, weights: Array, model: tuple[float, ...]
    ) -> None:
        """Arrange tetrahedra in batches for the kernel.

        nodes: number of nodes.  tets: (m, 4).  shape: (m, 4, 3) 1/m, gradients of the corners' shape functions.
        weights: (m,) m^3.  model: mu, lambda, alpha, and the offset that is subtracted from the energy density.

        Raises ValueError if the arrays do not match, because the kernel does not check bounds.
        """
        require_row_count(nodes, "nodes")
        require_indices(tets, (len(tets), 4), nodes, "corners of tetrahedra")
        require_shape(shape, (len(tets), 4, 3), "shape gradients")
        require_shape(weights, (len(tets),), "weights of tetrahedra")
        coefficients = np.array(model, dtype=float)
        require_shape(coefficients, (4,), "coefficients of the model")
        padding = -len(tets) % LANES
        # The last batch is padded with copies of the last tetrahedron of zero weight.
        padded_tets = np.concatenate([tets, np.repeat(tets[-1:], padding, axis=0)])
        inverse = np.concatenate([shape[:, 1:], np.zeros((padding, 3, 3))])
        super().__init__(
            library.neo_hookean,
            nodes,
            padded_tets.reshape(-1, LANES, 4).transpose(0, 2, 1),
            inverse.reshape(-1, LANES, 3, 3).transpose(0, 2, 3, 1),
            np.concatenate([weights, np.zeros(padding)]),
            coefficients,
        )
        self._count = len(padded_tets)
