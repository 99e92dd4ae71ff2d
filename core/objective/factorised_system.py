"""Data of a system that persist from step to step: its free nodes, its stiffness at rest, and factorisations."""

from __future__ import annotations

from collections.abc import Callable
from copy import copy
from dataclasses import replace
from typing import Self, TypeVar

import numpy as np
from scipy.sparse import csr_matrix, diags
from scipy.spatial import cKDTree

from ..base.arrays import Array, Index
from ..base.computation import Memo
from ..contact.contact_preconditioner import COLUMN_BATCH, InverseColumns
from ..solvers.factorisation import Solve
from ..solvers.preconditioner import accurate_solve, build_preconditioner
from ..system.region import Region
from ..system.state import State
from ..system.system import System
from .nodal_rotations import NodalRotations
from .reference_motion import RegionSlice, region_slices

# Number of bits of the inertia that identify a factorisation.
_INERTIA_BITS = 40
# Number of cached factorisations.
_MAX_CACHED_FACTORISATIONS = 8
# Relative rounding error of positions: a few units in the last place of the largest coordinate.
_ROUNDING = 4.0 * float(np.finfo(float).eps)

_Value = TypeVar("_Value")
ViscousMatrix = Callable[[Array], csr_matrix]
"""Function that returns the matrix C(x) in N s/m of a damping force -C(x) v."""


class Unknowns:
    """Unknowns of a step in rows of three numbers: velocities of nodes, then of yarn positions, if there are any.

    nodes: (k,) nodes of the first rows.
    row_of_node: (n,) row of each node, -1 for nodes without one: hard pins.
    """

    def __init__(self, nodes: Index, node_count: int) -> None:
        self.nodes = nodes
        self.row_of_node = np.full(node_count, -1)
        self.row_of_node[nodes] = np.arange(len(nodes))

    @property
    def is_empty(self) -> bool:
        """True if a step has nothing to solve."""
        return len(self.nodes) == 0


class FactorisedSystem:
    """System with its free nodes and with cached solves at rest.

    viscous: C(x), evaluated at each step's start; None without such a force.
    unknowns: of a step.
    free: (f,) nodes that are not hard pins.
    dof: (3f,) indices of their coordinates in the stacked coordinates of all nodes.
    free_index: (n,) index of each node among the free nodes, -1 for hard pins.
    nearest_free_index: (n,) the same of each node's nearest free node, in its own block if possible.
    region_slices: slices of each region, one per block.
    is_pinned_solid: whether the system consists of pinned solids only, so that its stiffness resists every motion.
    stiffness: (3f, 3f) N/m of the free nodes at rest, positive semi-definite, for stiffness factors of 1.
    """

    def __init__(self, system: System, viscous: ViscousMatrix | None) -> None:
        self.system, self.viscous = system, viscous
        self.free = np.flatnonzero(~system.is_fixed)
        self.dof = (3 * self.free[:, None] + np.arange(3)).ravel()
        self.unknowns = Unknowns(self.free, len(system.rest))
        self.free_index = self.unknowns.row_of_node
        self.nearest_free_index = self._find_nearest_free_index()
        self.nodal_rotations = NodalRotations.from_system(system)
        self.region_slices: tuple[tuple[RegionSlice, ...], ...] = tuple(
            region_slices(system, region) for region in system.regions
        )
        held = all(len(region.constrained_nodes) and not region.rigid_modes for region in system.regions)
        self.is_pinned_solid = (
            held and viscous is None and system.links is None and all(one.is_solid for one in system.blocks)
        )
        self.stiffness = self._restrict_to_free(system.stiffness_at_rest(np.ones(len(system.blocks)), True))
        self._rest_damping = self._restrict_to_free(viscous(system.rest)) if viscous else None
        noise = np.random.default_rng(0).standard_normal(len(self.dof))
        diagonal = (
            self.stiffness if system.links is None else self._restrict_to_free(system.blocks_stiffness_at_rest())
        ).diagonal()
        # Directions without stiffness at rest, such as those perpendicular to a spring, become stiff when deformed.
        self._rounding_force = _ROUNDING * noise * np.maximum(diagonal, diagonal.mean() if len(diagonal) else 0.0)
        self._factorisations: dict[tuple[float, bytes, bytes, bytes], Solve] = {}
        self._hanging_compliances: Memo[Solve] = Memo(_MAX_CACHED_FACTORISATIONS)
        self._compliances: list[tuple[Solve, InverseColumns]] = []
        self._roundings: list[tuple[Solve, float]] = []

    def with_regions(self, regions: tuple[Region, ...]) -> Self:
        """Return a copy with the same factorisations, for regions that differ only in their eigenvalues."""
        other = copy(self)
        other.system = replace(self.system, regions=regions)
        other.region_slices = tuple(region_slices(other.system, region) for region in regions)
        # The shape in which this is computed belongs to the regions.
        other._hanging_compliances = Memo(_MAX_CACHED_FACTORISATIONS)
        return other

    def _find_nearest_free_index(self) -> Index:
        """Return the index (n,) among the free nodes of each node's nearest free node, in its own block if possible."""
        index, rest = self.free_index.copy(), self.system.rest
        for part in self.system.slices:
            own = self.free[(self.free >= part.start) & (self.free < part.stop)]
            pinned = part.start + np.flatnonzero(index[part] < 0)
            candidates = own if len(own) else self.free
            if len(pinned) and len(candidates):
                index[pinned] = self.free_index[candidates[cKDTree(rest[candidates]).query(rest[pinned])[1]]]
        return index

    def _restrict_to_free(self, matrix: csr_matrix) -> csr_matrix:
        return matrix.tocsr()[self.dof][:, self.dof]

    def factorise(self, h: float, inertia: Array, factors: Array, stiffness_weights: Array | None = None) -> Solve:
        """Return a factorised solve with D + h K/e + C/e at rest.

        A dial that scales the stiffness scales 1/s by the same factor. The rounded D, and thus the factorisation, then
        stays the same.

        inertia: D = M/(s e) of the free nodes, (f,).  factors: (b,) stiffness factors of the blocks; e is the first.
        stiffness_weights: (n,) weight of each node's stiffness; 1 if None.
        """
        key = self._factorisation_key(h, inertia, factors, stiffness_weights)
        if key not in self._factorisations:
            matrix = diags(round_inertia(inertia).repeat(3)) + h * self.relative_stiffness(factors, stiffness_weights)
            if self._rest_damping is not None:
                matrix = matrix + self._rest_damping / float(factors[0])
            self._cache_factorisation(key, self.build_solve(matrix.tocsr()))
        return self._factorisations[key]

    def build_solve(self, matrix: csr_matrix) -> Solve:
        """Return an approximate solve with a matrix (3f, 3f) of the free nodes."""
        return build_preconditioner(matrix, self.system.rest[self.free])

    def hanging_compliance(self, factors: Array) -> Solve:
        """Return a solve with the stiffness (3f, 3f) N/m of the free nodes in the hanging shape, to 1%.

        factors: (b,) stiffness factor of each block.
        """
        return self._hanging_compliances.get(factors.tobytes(), lambda: self._hanging_compliance(factors))

    def _hanging_compliance(self, factors: Array) -> Solve:
        return accurate_solve(self.free_tangent(self.hanging_positions(), factors), self.system.rest[self.free])

    def hanging_positions(self) -> Array:
        """Return the positions (n, 3) m of all nodes in the hanging shape, with the pins at rest."""
        positions = self.system.rest.copy()
        for region in self.system.regions:
            if region.hanging_shape is not None:
                positions[region.free] += region.hanging_shape.displacements
        return positions

    def free_tangent(self, positions: Array, factors: Array) -> csr_matrix:
        """Return the tangent (3f, 3f) N/m of the free nodes at positions (n, 3) m of all nodes.

        factors: (b,) stiffness factor of each block.
        """
        return self._restrict_to_free(self.system.tangent(State.at_rest(positions), factors))

    def _factorisation_key(
        self, h: float, inertia: Array, factors: Array, stiffness_weights: Array | None
    ) -> tuple[float, bytes, bytes, bytes]:
        # Without drag, the matrix of a single block is independent of its factor.
        relevant_factors = factors if self._rest_damping is not None or len(factors) > 1 else np.ones(1)
        return (
            h,
            round_inertia(inertia).tobytes(),
            relevant_factors.tobytes(),
            b"" if stiffness_weights is None else stiffness_weights.tobytes(),
        )

    def _cache_factorisation(self, key: tuple[float, bytes, bytes, bytes], solve: Solve) -> None:
        if len(self._factorisations) >= _MAX_CACHED_FACTORISATIONS:
            self._factorisations.pop(next(iter(self._factorisations)))
        self._factorisations[key] = solve

    def inverse_columns(self, solve: Solve) -> InverseColumns:
        """Return lazily computed columns of a solve's inverse, for the nodes that carry contact surfaces."""
        return self._value_of(solve, self._compliances, self._inverse_columns)

    def _inverse_columns(self, solve: Solve) -> InverseColumns:
        assert self.system.contact is not None
        nodes = self.system.contact.surface_nodes
        if len(nodes):
            # Nodes in contact are near each other: sort them by position.
            nodes = nodes[cKDTree(self.system.rest[nodes], leafsize=COLUMN_BATCH).indices]
        slots = self.free_index[nodes]
        return InverseColumns(solve, len(self.free), slots[slots >= 0])

    def _value_of(self, solve: Solve, known: list[tuple[Solve, _Value]], make: Callable[[Solve], _Value]) -> _Value:
        """Return the known value of a solve, or make it. Values of factorisations that left the cache are dropped."""
        for other, value in known:
            if other is solve:
                return value
        cached = list(self._factorisations.values())
        known[:] = [one for one in known if any(one[0] is other for other in cached)]
        known.append((solve, make(solve)))
        return known[-1][1]

    def relative_stiffness(self, factors: Array, stiffness_weights: Array | None = None) -> csr_matrix:
        """Return the stiffness (3f, 3f) N/m of the free nodes at rest, divided by the first stiffness factor.

        factors, stiffness_weights: as in factorise().
        """
        if len(factors) == 1 and stiffness_weights is None:
            return self.stiffness
        stiffness = self.system.stiffness_at_rest(factors, True, stiffness_weights)
        return self._restrict_to_free(stiffness) / float(factors[0])

    def rounding_error(self, solve: Solve, scale: Array) -> float:
        """Return the error estimate that rounding alone causes, sqrt(W).

        scale: (f,) or a number, m: stiffness factor times the largest coordinate. Rounding forces are proportional to
        it.
        """
        if not np.ndim(scale) and self.system.links is None:
            return float(scale) * self._value_of(solve, self._roundings, self._unit_rounding_error)
        force = (scale.repeat(3) if np.ndim(scale) else scale) * self._rounding_force
        if self.system.links is not None:
            # The rounding error of a link acts on both of its ends, with opposite signs.
            pull = float(np.max(scale, initial=0.0)) * _ROUNDING * self.system.links.random_gradient()
            force = force + pull[self.free].ravel()
        # With links of extreme stiffness, rounding may make the product negative.
        return float(np.sqrt(max(float(force @ solve(force)), 0.0)))

    def _unit_rounding_error(self, solve: Solve) -> float:
        """Return the rounding error for a scale of 1."""
        force = self._rounding_force
        return float(np.sqrt(max(float(force @ solve(force)), 0.0)))


def round_inertia(inertia: Array) -> Array:
    """Round the inertia to fewer bits, so that values from different computations are equal."""
    parts, exponents = np.frexp(inertia)
    return np.asarray(np.ldexp(np.round(np.ldexp(parts, _INERTIA_BITS)), exponents - _INERTIA_BITS))
