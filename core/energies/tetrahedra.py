"""Elastic energy of linear tetrahedra for any density Psi(F) of the deformation gradient F."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from copy import copy

import numpy as np
from scipy.sparse import csr_matrix

from ..arrays import Array, Index
from ..elements.assembly import Pattern, positive
from ..elements.strains import gradients
from ..native.library import library
from ..native.tetrahedra import Tetrahedra
from .density import ElasticDensity
from .stable_neo_hookean import StableNeoHookean

# Strains and turns up to this are none: what rounding leaves of them at rest, far away from the origin.
_AT_REST = 1e-9
# Parts of an element's largest shape gradient that are none.
_NOTHING = 1e-14


class TetElasticity:
    """Sum over tetrahedra of weight * Psi(F), F = D_s D_m^-1 (constant per element).

    rest: (n, 3) m.  tets: (m, 4).  weights: (m,) m^3, the material's volume in each tet (the tet's volume times its
    fill fraction).
    """

    def __init__(self, rest: Array, tets: Index, weights: Array, model: ElasticDensity) -> None:
        self.model = model
        self.tets = tets
        self.weights = weights
        self._nodes, self._rest = len(rest), rest
        self._shape = gradients(rest, tets)
        m = len(tets)
        # Row c*m + e of the operator gives column c of F in element e, so that one sparse product yields all F.
        rows = (np.arange(3)[:, None, None] * m + np.arange(m)[None, :, None]).repeat(4, axis=2)
        cols = np.broadcast_to(tets[None], (3, m, 4))
        values = self._shape.transpose(2, 0, 1)
        # Along edges of a lattice much of it is nothing but rounding, and it takes as long as it has entries.
        there = np.abs(values) > _NOTHING * np.abs(values).max(axis=(0, 2), keepdims=True, initial=0.0)
        self._gradient = csr_matrix((values[there], (rows[there], cols[there])), shape=(3 * m, self._nodes))
        self._divergence = self._gradient.T.tocsr()
        # Values are differences of terms as large as the moduli: what they lose by that, in J.
        modulus = float(np.abs(model.stiffness(np.eye(3)[:, :, None])).max())
        self.rounding = 8.0 * float(np.finfo(float).eps) * modulus * float(weights.sum())
        # Found when it is first asked for; copies have the same elements.
        self._pattern: list[Pattern] = []
        # What it was compiled from, and that.
        self._compiled: tuple[Array, Array, Tetrahedra] | None = None

    def deformation_gradients(self, positions: Array) -> Array:
        """F as (3, 3, m)."""
        # Coordinate by coordinate, so that nothing has to be turned about in memory.
        F = np.empty((3, self._gradient.shape[0]))
        for row, place in zip(F, np.ascontiguousarray(positions.T), strict=True):
            row[:] = self._gradient @ place
        return F.reshape(3, 3, -1)

    def value_gradient(self, positions: Array) -> tuple[float, Array]:
        compiled = self._native()
        if compiled is not None:
            return compiled.value_gradient(positions)
        density, stress = self.model.density_stress(self.deformation_gradients(positions))
        stress *= self.weights
        gradient = np.empty((self._nodes, 3))
        for axis, row in enumerate(stress.reshape(3, -1)):
            gradient[:, axis] = self._divergence @ row
        return float(self.weights @ density), gradient

    def _native(self) -> Tetrahedra | None:
        """The same in the compiled kernel, if it can do it. Copies with other weights or shapes have their own."""
        kernel = library()
        if kernel is None or type(self.model) is not StableNeoHookean:
            return None
        if self._compiled is None or self._compiled[0] is not self._shape or self._compiled[1] is not self.weights:
            made = Tetrahedra(kernel, self._nodes, self.tets, self._shape, self.weights, self.model.numbers)
            self._compiled = self._shape, self.weights, made
        return self._compiled[2]

    def with_flow(self, flow: Array) -> TetElasticity:
        """The same material after a plastic flow F_p (m, 3, 3) of determinant 1: F F_p^-1 takes the place of F."""
        other = copy(self)
        other._shape = self._shape @ np.linalg.inv(flow)
        m = len(self.tets)
        data = np.ascontiguousarray(other._shape.transpose(2, 0, 1)).ravel()
        columns, starts = np.tile(self.tets.ravel(), 3), np.arange(0, 12 * m + 1, 4)
        other._gradient = csr_matrix((data, columns, starts), shape=(3 * m, self._nodes))
        other._divergence = other._gradient.T.tocsr()
        return other

    def alike(self, other: TetElasticity) -> bool:
        """Whether the other one is of the same material."""
        return type(self.model) is type(other.model) and vars(self.model) == vars(other.model)

    @staticmethod
    def joined(parts: Sequence[tuple[int, TetElasticity]], nodes: int) -> TetElasticity:
        """Energies that are alike, each of the nodes from a number on, as one of so many nodes: one call for all."""
        rest = np.zeros((nodes, 3))
        for start, one in parts:
            rest[start : start + one._nodes] = one._rest
        tets = np.concatenate([one.tets + start for start, one in parts])
        return TetElasticity(rest, tets, np.concatenate([one.weights for _, one in parts]), parts[0][1].model)

    def times(self, factors: Array) -> TetElasticity:
        """The same, each tetrahedron with a factor (m,). What rounding is, is that of the factor 1."""
        other = copy(self)
        other.weights = self.weights * factors
        return other

    def scaled(self, parts: Array) -> TetElasticity:
        other = copy(self)
        other.weights = self.weights * parts[self.tets].mean(axis=1)
        other.rounding = self.rounding * float(np.abs(parts).max(initial=0.0))
        return other

    def with_rest(self, rest: Array) -> TetElasticity:
        """The same material in elements that are stressless at another shape (n, 3) m."""
        parts = tet_volumes(rest, self.tets) / tet_volumes(self._rest, self.tets)
        return TetElasticity(rest, self.tets, self.weights * parts, self.model)

    def rest_jacobian(self, positions: Array) -> csr_matrix:
        """How the gradient at positions (n, 3) changes with the rest shape X, (3n, 3n) N/m; not symmetric.

        An element's gradient is V P(F) grad N_a. With G = sum_b dX_b (grad N_b)^T the rest shape's change gives
        dV = V tr G, dF = -F G and d(grad N_a) = -G^T grad N_a.
        """
        F = self.deformation_gradients(positions)
        _, stress = self.model.density_stress(F)
        C = self.model.stiffness(F).reshape(-1, 3, 3, 3, 3)
        P, F, N = stress.transpose(2, 0, 1), F.transpose(2, 0, 1), self._shape
        force = N @ P.transpose(0, 2, 1)
        blocks = np.einsum("ear,ebq->earbq", force, N)
        blocks -= np.einsum("eac,ercsd,esq,ebd->earbq", N, C, F, N, optimize=True)
        blocks -= np.einsum("ebr,eaq->earbq", force, N)
        blocks *= self.weights[:, None, None, None, None]
        return self._added(lambda some: blocks[some])

    def hessian(self, positions: Array, project: bool) -> csr_matrix:
        """Sparse (3n, 3n) N/m; with project, each element's part has its negative eigenvalues set to zero."""
        F, one = self.deformation_gradients(positions), np.eye(3)[:, :, None]
        # At rest, where each set-up asks for it, all elements are as stiff.
        alike = bool(len(self.tets) and np.abs(F - one).max() < _AT_REST)

        def blocks(some: slice) -> Array:
            C = self.model.stiffness(one if alike else F[:, :, some])
            if project:
                C = positive(C)
            C, shape = C.reshape(-1, 3, 3, 3, 3), self._shape[some]
            if alike:
                weighted = shape * self.weights[some, None, None]
                return np.asarray(np.einsum("eac,rcsd,ebd->earbs", weighted, C[0], shape, optimize=True))
            C *= self.weights[some, None, None, None, None]
            return np.asarray(np.einsum("eac,ercsd,ebd->earbs", shape, C, shape, optimize=True))

        return self._added(blocks)

    def _added(self, blocks_of: Callable[[slice], Array]) -> csr_matrix:
        """Sparse (3n, 3n) N/m. blocks_of: of some of the elements, (l, 4, 3, 4, 3)."""
        if not self._pattern:
            self._pattern.append(Pattern(self.tets, self._nodes))
        return self._pattern[0].summed(blocks_of)


def tet_volumes(rest: Array, tets: Index) -> Array:
    """Signed volumes (m,) in m^3."""
    corners = rest[tets]
    volumes: Array = np.linalg.det(corners[:, 1:] - corners[:, :1]) / 6.0
    return volumes


def lumped_mass(tets: Index, weights: Array, density: float, nodes: int) -> Array:
    """A quarter of each tet's mass for each of its corners, (n,) kg.  weights: (m,) m^3."""
    return np.bincount(tets.ravel(), (weights * density / 4.0).repeat(4), minlength=nodes).astype(float)
