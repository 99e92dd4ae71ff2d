"""Plastic flow: strain beyond a limit moves into the shape in which an element has no stress ([You] 5.1.2).

Each element has a flow, the part of its deformation that stays; what is beyond it is elastic (docs/physics.md section
9). Strains are logarithms of stretches: by them a stretch to twice the length and a squeeze to half of it are alike.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Protocol

import numpy as np
from scipy.sparse import csr_matrix

from ..arrays import Array, Index
from ..elements.strains import Stretch
from .energy import Energy
from .membrane import Membrane
from .shell_bending import ShellBending
from .strain_energy import StrainEnergy
from .tetrahedra import TetElasticity

# What would flow by less than this in a step is at rest.
_LEAST = 1e-10
# A triangle or spring that is squeezed to less than this part of itself is turned over, as a tetrahedron may be.
_CRUSHED = 1e-3
_TINY = 1e-300


@dataclass(frozen=True)
class Yielding:
    """How far and how fast something flows in a step.

    limit: the elastic strain beyond which it does.  part: of what is beyond, that flows in the step.  most: the strain
    up to which it flows.
    """

    limit: float
    part: float
    most: float


class Flow(Protocol):
    """How the elements of an energy flow. A flow is one array, whatever the elements are."""

    @property
    def energy(self) -> Energy:
        """Of what has not flowed."""
        ...

    @property
    def elements(self) -> Index:
        """(m, k) nodes of what amounts() tells of."""
        ...

    def none(self) -> Array:
        """Of what has not flowed."""
        ...

    def after(self, flow: Array) -> Energy:
        """The energy of what has flowed."""
        ...

    def flowed(self, flow: Array, positions: Array, yielding: Yielding) -> Array:
        """The flow at the end of a step at positions (n, 3) m; the same array where nothing does."""
        ...

    def amounts(self, flow: Array, before: Array | None = None) -> Array:
        """(m,) strain by which each element flowed, or by which a flow differs from one before."""
        ...


def _beyond(size: Array, yielding: Yielding) -> Array:
    """How much of strains of a size (m,) flows."""
    over = np.maximum(size - yielding.limit, 0.0) * yielding.part
    return np.asarray(np.where(over > _LEAST, over, 0.0))


def _exponential(logs: Array, vectors: Array) -> Array:
    """Tensors (m, d, d) with the eigenvalues exp of logs (m, d)."""
    return np.asarray((vectors * np.exp(logs)[:, None, :]) @ vectors.transpose(0, 2, 1))


class TensorFlow:
    """Of elements with a deformation gradient: a flow (m, d, d), F = F_e F_p.

    With F_e = U S V^T and e = log S, of solids without its mean, so that the volume stays,

        F_p <- V exp(over e/|e|) V^T F_p,   over = part max(0, |e| - limit)

    then no stretch of F_p itself beyond the most there may be.
    """

    def __init__(self, energy: TetElasticity | Membrane) -> None:
        self.energy = energy
        self._solid = isinstance(energy, TetElasticity)

    @property
    def elements(self) -> Index:
        return self.energy.tets if isinstance(self.energy, TetElasticity) else self.energy.triangles

    def none(self) -> Array:
        return np.tile(np.eye(3 if self._solid else 2), (len(self.elements), 1, 1))

    def after(self, flow: Array) -> Energy:
        return self.energy.with_flow(flow)

    def _deviatoric(self, logs: Array) -> Array:
        """Strains (m, d) from the logarithms of stretches."""
        return logs - logs.mean(axis=1, keepdims=True) if self._solid else logs

    def flowed(self, flow: Array, positions: Array, yielding: Yielding) -> Array:
        F = self._deformation(positions) @ np.linalg.inv(flow)
        squares, vectors = np.linalg.eigh(F.transpose(0, 2, 1) @ F)
        # What is turned over, or crushed flat, has no such strain.
        sound = np.linalg.det(F) > 0.0 if self._solid else squares[:, 0] > _CRUSHED**2
        strain = self._deviatoric(0.5 * np.log(np.maximum(squares, _TINY)))
        size = np.linalg.norm(strain, axis=1)
        over = np.where(sound, _beyond(size, yielding), 0.0)
        there = np.flatnonzero(over)
        if not len(there):
            return flow
        more = strain[there] * (over[there] / size[there])[:, None]
        changed = flow.copy()
        changed[there] = self._limited(_exponential(more, vectors[there]) @ flow[there], yielding.most)
        return changed

    def _limited(self, flow: Array, most: float) -> Array:
        left, sizes, right = np.linalg.svd(flow)
        strain = self._deviatoric(np.log(np.maximum(sizes, _TINY)))
        size = np.linalg.norm(strain, axis=1)
        strain *= np.minimum(1.0, most / np.maximum(size, _TINY))[:, None]
        # Made anew where nothing is cut too: rounding must not add up to a change of volume.
        return np.asarray((left * np.exp(strain)[:, None, :]) @ right)

    def _deformation(self, positions: Array) -> Array:
        """F (m, 3, d), of the elements as they were modelled."""
        if isinstance(self.energy, TetElasticity):
            return np.ascontiguousarray(self.energy.deformation_gradients(positions).transpose(2, 0, 1))
        return np.ascontiguousarray(self.energy.deformation(positions).transpose(1, 2, 0))

    def amounts(self, flow: Array, before: Array | None = None) -> Array:
        way = flow if before is None else flow @ np.linalg.inv(before)
        sizes = np.linalg.svd(way, compute_uv=False)
        return np.asarray(np.linalg.norm(self._deviatoric(np.log(np.maximum(sizes, _TINY))), axis=1))


class SpringFlow:
    """Of springs: a flow (m,), the logarithm of the rest length over the modelled one."""

    def __init__(self, energy: StrainEnergy) -> None:
        assert isinstance(energy.strain, Stretch)
        self.energy, self._spring = energy, energy.strain

    @property
    def elements(self) -> Index:
        return self._spring.elements

    def none(self) -> Array:
        return np.zeros(len(self._spring.lengths))

    def after(self, flow: Array) -> Energy:
        # As much material in another length: the weights stay.
        strain = Stretch(self._spring.lengths * np.exp(flow), self._spring.elements)
        return StrainEnergy(strain, self.energy.moduli, self.energy.weights, self.energy.clamped)

    def flowed(self, flow: Array, positions: Array, yielding: Yielding) -> Array:
        ends = positions[self._spring.elements]
        ratio = np.linalg.norm(ends[:, 0] - ends[:, 1], axis=1) / self._spring.lengths
        strain = np.log(np.maximum(ratio, _TINY)) - flow
        over = np.where(ratio > _CRUSHED, _beyond(np.abs(strain), yielding), 0.0)
        if not over.any():
            return flow
        moved = np.clip(flow + np.copysign(over, strain), -yielding.most, yielding.most)
        return np.asarray(np.where(over > 0.0, moved, flow))

    def amounts(self, flow: Array, before: Array | None = None) -> Array:
        return np.asarray(np.abs(flow if before is None else flow - before))


class BendingFlow:
    """Of a sheet's folds: a flow (h,) rad, by which the angles at rest are others than the modelled ones.

    The strain of a triangle is that of its outer faces, t/2 |Lambda|, with Lambda of energies.shell_bending. What is
    beyond the limit flows in the same part of all of its angles, of which a neighbour has the other half of the say.
    """

    def __init__(self, energy: ShellBending, rest: Array, thickness: float) -> None:
        """rest: (n, 3) m.  thickness: t in m."""
        self.energy, self._rest, self._thickness = energy, rest, thickness
        self._faces = energy.hinges.faces
        held = energy.held[self._faces]
        # A pinned triangle does not bend: the other one has all of the say.
        self._say = np.where(held, 0.0, np.where(held[:, ::-1], 1.0, 0.5))

    @property
    def elements(self) -> Index:
        return self.energy.triangles

    @cached_property
    def _strains(self) -> csr_matrix:
        return 0.5 * self._thickness * self.energy.curvatures(self._rest)

    def _sizes(self, angles: Array) -> Array:
        """(m,) strains of the triangles for angles (h,)."""
        return np.asarray(np.linalg.norm((self._strains @ angles).reshape(-1, 3), axis=1))

    def none(self) -> Array:
        return np.zeros(len(self._faces))

    def after(self, flow: Array) -> Energy:
        return self.energy.with_flow(flow)

    def flowed(self, flow: Array, positions: Array, yielding: Yielding) -> Array:
        angles = self.energy.with_flow(flow).bent(positions)
        size = self._sizes(angles)
        part = _beyond(size, yielding) / np.maximum(size, _TINY)
        if not part.any():
            return flow
        moved = flow + (self._say * part[self._faces]).sum(axis=1) * angles
        size = self._sizes(moved)
        cut = np.minimum(1.0, yielding.most / np.maximum(size, _TINY))
        return np.asarray(moved * cut[self._faces].min(axis=1, initial=1.0))

    def amounts(self, flow: Array, before: Array | None = None) -> Array:
        return self._sizes(flow if before is None else flow - before)
