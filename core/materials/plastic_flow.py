"""Plastic flow: strain beyond a yield limit becomes part of the stress-free shape of an element ([You] 5.1.2).

Each element has a plastic flow, the permanent part of its deformation; the rest is elastic. Strains are logarithmic,
so stretching to twice the length and compressing to half of it are equally large. See
docs/explanation/physics/09-plasticity.md.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
from scipy.sparse import csr_matrix

from ..base.arrays import Array, Index
from .membrane import Membrane
from .shell_bending import ShellBending
from .strain_energy import Energy, StrainEnergy
from .strains import SpringStrain
from .tetrahedra import TetElasticity

# Strain increments below this in a step are ignored.
_MIN_INCREMENT = 1e-10
# A triangle or spring compressed below this stretch counts as inverted, as a tetrahedron may be.
_CRUSHED_STRETCH = 1e-3
_TINY = 1e-300


@dataclass(frozen=True)
class YieldSurface:
    """Yield limit and flow of a step.

    limit: elastic strain at which flow starts.  flow_fraction: part of the strain beyond the limit that flows in the
    step.  max_strain: largest total plastic strain.
    """

    limit: float
    flow_fraction: float
    max_strain: float


class PlasticFlow:
    """Base class of the plastic flow of the elements of an energy. A flow is a single array for each type of element.

    energy: without plastic flow.  elements: nodes (m, k) of the elements of equivalent_strain().
    """

    energy: Energy
    elements: Index

    def zero_flow(self) -> Array:
        """Return the flow of undeformed elements."""
        raise NotImplementedError

    def energy_after(self, flow: Array) -> Energy:
        """Return the energy after a plastic flow."""
        raise NotImplementedError

    def updated_flow(self, flow: Array, positions: Array, yield_surface: YieldSurface) -> Array:
        """Return the flow at the end of a step at positions (n, 3) m; the same array if nothing flows."""
        raise NotImplementedError

    def equivalent_strain(self, flow: Array, reference: Array | None = None) -> Array:
        """Return the equivalent plastic strain (m,) of a flow, relative to a reference flow if given."""
        raise NotImplementedError


def _plastic_increments(size: Array, yield_surface: YieldSurface) -> Array:
    """Return the plastic increments (m,) of strains with norms (m,)."""
    increments = np.maximum(size - yield_surface.limit, 0.0) * yield_surface.flow_fraction
    return np.asarray(np.where(increments > _MIN_INCREMENT, increments, 0.0))


class TensorFlow(PlasticFlow):
    """Flow (m, d, d) of elements with a deformation gradient, F = F_e F_p.

    With F_e = U S V^T and e = log S (for solids its deviatoric part, which preserves volume),

        F_p <- V exp(over e/|e|) V^T F_p,   over = part max(0, |e| - limit)

    and then the strain of F_p is limited to max_strain.
    """

    energy: TetElasticity | Membrane

    def __init__(self, energy: TetElasticity | Membrane) -> None:
        self.energy = energy
        self._is_solid = isinstance(energy, TetElasticity)
        self.elements = energy.tets if isinstance(energy, TetElasticity) else energy.triangles

    def zero_flow(self) -> Array:
        return np.tile(np.eye(3 if self._is_solid else 2), (len(self.elements), 1, 1))

    def energy_after(self, flow: Array) -> Energy:
        return self.energy.with_flow(flow)

    def _deviatoric(self, logs: Array) -> Array:
        """Return strains (m, d) from logarithmic stretches: for solids, their deviatoric part."""
        return logs - logs.mean(axis=1, keepdims=True) if self._is_solid else logs

    def updated_flow(self, flow: Array, positions: Array, yield_surface: YieldSurface) -> Array:
        # F (m, 3, d) relative to the modelled shape.
        order = (2, 0, 1) if self._is_solid else (1, 2, 0)
        F = np.ascontiguousarray(self.energy.deformation_gradients(positions).transpose(order)) @ np.linalg.inv(flow)
        squares, vectors = np.linalg.eigh(F.transpose(0, 2, 1) @ F)
        # Inverted or crushed elements have no meaningful strain.
        is_sound = np.linalg.det(F) > 0.0 if self._is_solid else squares[:, 0] > _CRUSHED_STRETCH**2
        strain = self._deviatoric(0.5 * np.log(np.maximum(squares, _TINY)))
        size = np.linalg.norm(strain, axis=1)
        increments = np.where(is_sound, _plastic_increments(size, yield_surface), 0.0)
        flowing = np.flatnonzero(increments)
        if not len(flowing):
            return flow
        strain_increments = strain[flowing] * (increments[flowing] / size[flowing])[:, None]
        new_flow = flow.copy()
        vectors = vectors[flowing]
        # Tensors with eigenvalues exp(strain increment).
        factors = (vectors * np.exp(strain_increments)[:, None, :]) @ vectors.transpose(0, 2, 1)
        new_flow[flowing] = self._limit_strain(factors @ flow[flowing], yield_surface.max_strain)
        return new_flow

    def _limit_strain(self, flow: Array, max_strain: float) -> Array:
        """Return the flow with its strain limited to max_strain."""
        left, sizes, right = np.linalg.svd(flow)
        strain = self._deviatoric(np.log(np.maximum(sizes, _TINY)))
        size = np.linalg.norm(strain, axis=1)
        strain *= np.minimum(1.0, max_strain / np.maximum(size, _TINY))[:, None]
        # Recompute elements within the limit too, so that rounding cannot accumulate to a change of volume.
        return np.asarray((left * np.exp(strain)[:, None, :]) @ right)

    def equivalent_strain(self, flow: Array, reference: Array | None = None) -> Array:
        relative_flow = flow if reference is None else flow @ np.linalg.inv(reference)
        sizes = np.linalg.svd(relative_flow, compute_uv=False)
        return np.asarray(np.linalg.norm(self._deviatoric(np.log(np.maximum(sizes, _TINY))), axis=1))


class SpringFlow(PlasticFlow):
    """Flow (m,) of springs: the logarithm of the rest length over the modelled length."""

    energy: StrainEnergy

    def __init__(self, energy: StrainEnergy) -> None:
        assert isinstance(energy.strain, SpringStrain)
        self.energy, self._spring, self.elements = energy, energy.strain, energy.strain.elements

    def zero_flow(self) -> Array:
        return np.zeros(len(self._spring.lengths))

    def energy_after(self, flow: Array) -> Energy:
        # The amount of material is unchanged, so the weights stay.
        strain = SpringStrain(self._spring.lengths * np.exp(flow), self._spring.elements)
        return replace(self.energy, strain=strain)

    def updated_flow(self, flow: Array, positions: Array, yield_surface: YieldSurface) -> Array:
        ends = positions[self._spring.elements]
        ratio = np.linalg.norm(ends[:, 0] - ends[:, 1], axis=1) / self._spring.lengths
        strain = np.log(np.maximum(ratio, _TINY)) - flow
        increments = np.where(ratio > _CRUSHED_STRETCH, _plastic_increments(np.abs(strain), yield_surface), 0.0)
        if not increments.any():
            return flow
        new_flow = np.clip(flow + np.copysign(increments, strain), -yield_surface.max_strain, yield_surface.max_strain)
        return np.asarray(np.where(increments > 0.0, new_flow, flow))

    def equivalent_strain(self, flow: Array, reference: Array | None = None) -> Array:
        return np.asarray(np.abs(flow if reference is None else flow - reference))


class BendingFlow(PlasticFlow):
    """Flow (h,) of the hinges of a sheet: the change of their rest angles in rad.

    The strain of a triangle is that at its outer surface, t/2 |Lambda|, with Lambda of energies.shell_bending. Strain
    beyond the limit flows in equal proportion from all angles of a triangle, half from each side of a hinge.
    """

    energy: ShellBending

    def __init__(self, energy: ShellBending, rest: Array, thickness: float) -> None:
        """rest: (n, 3) m.  thickness: t in m."""
        self.energy, self._rest, self._thickness = energy, rest, thickness
        self._faces, self.elements = energy.hinges.faces, energy.triangles
        is_pinned = energy.pinned[self._faces]
        # A pinned triangle does not bend: its neighbour determines the flow of their hinge alone.
        self._flow_shares = np.where(is_pinned, 0.0, np.where(is_pinned[:, ::-1], 1.0, 0.5))

    @cached_property
    def _strain_operator(self) -> csr_matrix:
        return 0.5 * self._thickness * self.energy.curvature_operator(self._rest)

    def _strain_norms(self, angles: Array) -> Array:
        """Return the bending strains (m,) of triangles for hinge angles (h,)."""
        return np.asarray(np.linalg.norm((self._strain_operator @ angles).reshape(-1, 3), axis=1))

    def zero_flow(self) -> Array:
        return np.zeros(len(self._faces))

    def energy_after(self, flow: Array) -> Energy:
        return self.energy.with_flow(flow)

    def updated_flow(self, flow: Array, positions: Array, yield_surface: YieldSurface) -> Array:
        angles = self.energy.with_flow(flow).excess_angles(positions)
        size = self._strain_norms(angles)
        flow_fractions = _plastic_increments(size, yield_surface) / np.maximum(size, _TINY)
        if not flow_fractions.any():
            return flow
        new_flow = flow + (self._flow_shares * flow_fractions[self._faces]).sum(axis=1) * angles
        size = self._strain_norms(new_flow)
        limit_factors = np.minimum(1.0, yield_surface.max_strain / np.maximum(size, _TINY))
        return np.asarray(new_flow * limit_factors[self._faces].min(axis=1, initial=1.0))

    def equivalent_strain(self, flow: Array, reference: Array | None = None) -> Array:
        return self._strain_norms(flow if reference is None else flow - reference)
