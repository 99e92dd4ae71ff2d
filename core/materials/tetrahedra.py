"""Elastic energy of linear tetrahedra for any density Psi(F) of the deformation gradient F."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from copy import copy

import numpy as np
from scipy.sparse import csr_matrix

from ..base.arrays import Array, Index
from ..native.elements import CompiledTetrahedra
from ..native.library import KernelLibrary
from .assembly import SparsityPattern, project_positive
from .elastic_density import ElasticDensity, StableNeoHookean
from .strain_energy import KernelEnergy
from .strains import shape_gradients

# Deviation of F from the identity below which an element is at rest; covers rounding far from the origin.
_REST_TOLERANCE = 1e-9
# Relative size below which entries of the shape gradients are rounding errors.
_ZERO_TOLERANCE = 1e-14


class TetElasticity(KernelEnergy[CompiledTetrahedra]):
    """Elastic energy: sum over tetrahedra of weight * Psi(F), F = D_s D_m^-1 (constant per element).

    rest: (n, 3) m.  tets: (m, 4).  weights: (m,) m^3, the volume of material in each tet (its volume times the fill
    fraction).
    """

    def __init__(self, rest: Array, tets: Index, weights: Array, model: ElasticDensity) -> None:
        self.model = model
        self.tets = tets
        self.weights = weights
        self._node_count, self._rest = len(rest), rest
        self._shape_gradients = shape_gradients(rest, tets)
        m = len(tets)
        # Row c*m + e of the operator gives column c of F in element e, so that one sparse product yields all F.
        rows = (np.arange(3)[:, None, None] * m + np.arange(m)[None, :, None]).repeat(4, axis=2)
        cols = np.broadcast_to(tets[None], (3, m, 4))
        values = self._shape_gradients.transpose(2, 0, 1)
        # In a lattice many entries are rounding errors of zero; products are faster without them.
        is_nonzero = np.abs(values) > _ZERO_TOLERANCE * np.abs(values).max(axis=(0, 2), keepdims=True, initial=0.0)
        self._gradient = csr_matrix(
            (values[is_nonzero], (rows[is_nonzero], cols[is_nonzero])), shape=(3 * m, self._node_count)
        )
        self._divergence = self._gradient.T.tocsr()
        # Psi is a difference of terms as large as the moduli; this is the resulting rounding error in J.
        modulus = float(np.abs(model.stiffness(np.eye(3)[:, :, None])).max())
        self.rounding = 8.0 * float(np.finfo(float).eps) * modulus * float(weights.sum())
        # Computed on first use and shared by copies, which have the same elements.
        self._pattern: list[SparsityPattern] = []

    def deformation_gradients(self, positions: Array) -> Array:
        """Return deformation gradients F (3, 3, m)."""
        # One coordinate at a time, which avoids a transposition in memory.
        F = np.empty((3, self._gradient.shape[0]))
        for row, place in zip(F, np.ascontiguousarray(positions.T), strict=True):
            row[:] = self._gradient @ place
        return F.reshape(3, 3, -1)

    def _value_gradient(self, positions: Array) -> tuple[float, Array]:
        density, stress = self.model.density_stress(self.deformation_gradients(positions))
        stress *= self.weights
        gradient = np.empty((self._node_count, 3))
        for axis, row in enumerate(stress.reshape(3, -1)):
            gradient[:, axis] = self._divergence @ row
        return float(self.weights @ density), gradient

    @property
    def kernel_data(self) -> tuple[Array, Array] | None:
        return (self._shape_gradients, self.weights) if type(self.model) is StableNeoHookean else None

    def _compile(self, library: KernelLibrary) -> CompiledTetrahedra:
        assert isinstance(self.model, StableNeoHookean)
        parameters = self.model.kernel_parameters
        return CompiledTetrahedra(library, self._node_count, self.tets, self._shape_gradients, self.weights, parameters)

    def with_flow(self, flow: Array) -> TetElasticity:
        """Return the energy after a plastic flow F_p (m, 3, 3) of determinant 1: F F_p^-1 replaces F."""
        other = copy(self)
        other._shape_gradients = self._shape_gradients @ np.linalg.inv(flow)
        m = len(self.tets)
        data = np.ascontiguousarray(other._shape_gradients.transpose(2, 0, 1)).ravel()
        columns, starts = np.tile(self.tets.ravel(), 3), np.arange(0, 12 * m + 1, 4)
        other._gradient = csr_matrix((data, columns, starts), shape=(3 * m, self._node_count))
        other._divergence = other._gradient.T.tocsr()
        return other

    def has_same_material(self, other: TetElasticity) -> bool:
        """Return whether another energy has the same material."""
        return type(self.model) is type(other.model) and vars(self.model) == vars(other.model)

    @staticmethod
    def concatenate(parts: Sequence[tuple[int, TetElasticity]], node_count: int) -> TetElasticity:
        """Return one energy for parts of the same material, given as (first node, energy); nodes: total number."""
        rest = np.zeros((node_count, 3))
        for start, one in parts:
            rest[start : start + one._node_count] = one._rest
        tets = np.concatenate([one.tets + start for start, one in parts])
        return TetElasticity(rest, tets, np.concatenate([one.weights for _, one in parts]), parts[0][1].model)

    def with_element_scale(self, element_scale: Array) -> TetElasticity:
        """Return this energy with each tetrahedron multiplied by a factor (m,); `rounding` is not changed."""
        other = copy(self)
        other.weights = self.weights * element_scale
        return other

    def with_nodal_scale(self, factors: Array) -> TetElasticity:
        other = copy(self)
        other.weights = self.weights * factors[self.tets].mean(axis=1)
        other.rounding = self.rounding * float(np.abs(factors).max(initial=0.0))
        return other

    def with_rest(self, rest: Array) -> TetElasticity:
        """Return the energy of the same material with another rest shape (n, 3) m."""
        volume_ratios = tet_volumes(rest, self.tets) / tet_volumes(self._rest, self.tets)
        return TetElasticity(rest, self.tets, self.weights * volume_ratios, self.model)

    def rest_jacobian(self, positions: Array) -> csr_matrix:
        """Return the derivative (3n, 3n) N/m of the gradient at positions (n, 3) by the rest shape X; not symmetric.

        An element's gradient is V P(F) grad N_a. With G = sum_b dX_b (grad N_b)^T, a change of the rest shape gives
        dV = V tr G, dF = -F G and d(grad N_a) = -G^T grad N_a.
        """
        F = self.deformation_gradients(positions)
        _, stress = self.model.density_stress(F)
        C = self.model.stiffness(F).reshape(-1, 3, 3, 3, 3)
        P, F, N = stress.transpose(2, 0, 1), F.transpose(2, 0, 1), self._shape_gradients
        force = N @ P.transpose(0, 2, 1)
        blocks = np.einsum("ear,ebq->earbq", force, N)
        blocks -= np.einsum("eac,ercsd,esq,ebd->earbq", N, C, F, N, optimize=True)
        blocks -= np.einsum("ebr,eaq->earbq", force, N)
        blocks *= self.weights[:, None, None, None, None]
        return self._assemble(lambda some: blocks[some])

    def hessian(self, positions: Array, project: bool) -> csr_matrix:
        """Return the Hessian (3n, 3n) in N/m; if projected, element blocks have no negative eigenvalues."""
        F, one = self.deformation_gradients(positions), np.eye(3)[:, :, None]
        # At rest, as evaluated by each setup, all elements have the same elasticity tensor.
        is_at_rest = bool(len(self.tets) and np.abs(F - one).max() < _REST_TOLERANCE)

        def blocks(chunk: slice) -> Array:
            C = self.model.stiffness(one if is_at_rest else F[:, :, chunk])
            if project:
                C = project_positive(C)
            C, shape = C.reshape(-1, 3, 3, 3, 3), self._shape_gradients[chunk]
            if is_at_rest:
                weighted = shape * self.weights[chunk, None, None]
                return np.asarray(np.einsum("eac,rcsd,ebd->earbs", weighted, C[0], shape, optimize=True))
            C *= self.weights[chunk, None, None, None, None]
            return np.asarray(np.einsum("eac,ercsd,ebd->earbs", shape, C, shape, optimize=True))

        return self._assemble(blocks)

    def _assemble(self, element_blocks: Callable[[slice], Array]) -> csr_matrix:
        """Assemble blocks (l, 4, 3, 4, 3), computed per slice of elements, into a matrix (3n, 3n) in N/m."""
        if not self._pattern:
            self._pattern.append(SparsityPattern(self.tets, self._node_count))
        return self._pattern[0].assemble(element_blocks)


def tet_volumes(rest: Array, tets: Index) -> Array:
    """Return the signed volumes (m,) of tetrahedra in m^3."""
    corners = rest[tets]
    volumes: Array = np.linalg.det(corners[:, 1:] - corners[:, :1]) / 6.0
    return volumes


def lumped_mass(tets: Index, weights: Array, density: float, nodes: int) -> Array:
    """Return nodal masses (n,) in kg: a quarter of a tet's mass per corner. weights: (m,) m^3.  density: kg/m^3."""
    return np.bincount(tets.ravel(), (weights * density / 4.0).repeat(4), minlength=nodes).astype(float)
