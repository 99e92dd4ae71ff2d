"""Laws of a region's deformation and their coefficients for a substep (docs/explanation/physics/02-settle-law.md)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields
from typing import ClassVar, Protocol

import numpy as np

from ..base.arrays import Array


@dataclass(frozen=True)
class Coefficients:
    """Coefficients of one substep: numbers, or one value for each free node of the region (f,).

    kappa: retained fraction of the deformation velocity.
    inertia_time: s, in seconds (the inertia is M/s).
    theta: fraction of the elastic force taken at the end of the substep; the rest, 1 - theta, is taken at its start.
    sigma: retained fraction of the last change of the elastic force.
    reference_inertia_ratio: inertia with which the deformation responds to the reference motion's acceleration, over
        its mass.
    first_mode_stiffness_ratio: q = h s lambda_1, the ratio of the first mode's stiffness to its inertia.
    initial_force_change: change of the elastic force assumed before the first substep, as a fraction of the unbalanced
        force; under the first law, the part of that force which does not act. With it, a release begins at the start
        of that substep; without it, half a substep earlier.
    decay_rate: of the deformation, 1/s; 0 where the law does not define it.
    follow_through_offset: added to the body's Follow-through, in parts with one of their own.
    dial_change: part of the unbalanced force at the start of the substep that acts besides, because the dials have
        changed and the history of the new ones would be another.
    force_lag: of the first law: part of the unbalanced force at the start of the substep that does not act in it, while
        the inertia is smaller by this part too. It damps as longer substeps do.
    is_waveform: whether all modes follow the waveform law, which needs a history of the force and the deformation
        velocity; otherwise the present form of [You], which needs velocities only.
    """

    kappa: float | Array
    inertia_time: float | Array
    theta: float | Array = 1.0
    sigma: float | Array = 0.0
    reference_inertia_ratio: float | Array = 1.0
    first_mode_stiffness_ratio: float | Array = 0.0
    initial_force_change: float | Array = 0.0
    decay_rate: float | Array = 0.0
    follow_through_offset: float | Array = 0.0
    dial_change: float | Array = 0.0
    force_lag: float | Array = 0.0
    is_waveform: bool = False

    @property
    def is_uniform(self) -> bool:
        """True if the coefficients of the first-mode law are numbers."""
        return all(isinstance(one, float) for one in (self.kappa, self.inertia_time, self.follow_through_offset))

    @property
    def retains_force(self) -> bool:
        """True if a part of the last change of the elastic force is retained."""
        return bool(self.sigma) if isinstance(self.sigma, float) else bool(np.any(self.sigma))

    def is_backward_euler(self, h: float) -> bool:
        """Return whether the law reduces to backward Euler, without a split into rigid motion and deformation."""
        return not self.is_waveform and bool(np.all(self.kappa == 1.0) and np.all(self.inertia_time == h))


class DeformationLaw(Protocol):
    """Law of a region's deformation: its history and its inertia in a substep of h seconds."""

    @property
    def is_waveform(self) -> bool:
        """True if all modes follow the waveform law, see Coefficients."""
        ...

    @property
    def eigenvalue(self) -> float:
        """lambda_1 of the region in 1/s^2; 0 for a law that does not depend on it."""
        ...

    def last_moves(self, h: float) -> tuple[float | Array, float | Array]:
        """Return how far the first mode moved in the last h seconds, if it is now at 1.

        First if it is at rest there; second, the change for a velocity of the undamped frequency, or for that of the
        law if its velocity follows from its position.
        """
        ...

    def coefficients(self, h: float) -> Coefficients: ...

    def fallback_coefficients(self, h: float) -> Coefficients:
        """Return the fallback coefficients, for a substep that fails with the usual ones."""
        ...


@dataclass(frozen=True)
class BackwardEulerLaw:
    """Backward Euler with its numerical damping only: kappa = 1, s = h."""

    is_waveform: ClassVar[bool] = False
    eigenvalue: ClassVar[float] = 0.0

    def last_moves(self, h: float) -> tuple[float, float]:
        return 0.0, h

    def coefficients(self, h: float) -> Coefficients:
        return Coefficients(1.0, h)

    fallback_coefficients = coefficients


@dataclass(frozen=True)
class TauKappaLaw:
    """Law with kappa and s = tau given directly, for users who know [You]."""

    kappa: float
    tau: float
    is_waveform: ClassVar[bool] = False
    eigenvalue: ClassVar[float] = 0.0

    def last_moves(self, h: float) -> tuple[float, float]:
        return 0.0, h

    def coefficients(self, h: float) -> Coefficients:
        return Coefficients(self.kappa, self.tau)

    fallback_coefficients = coefficients


@dataclass(frozen=True)
class PiecewiseLaw:
    """Laws of bodies that links join to one region. parts: each law with the number of free nodes that follow it."""

    parts: tuple[tuple[DeformationLaw, int], ...]

    @property
    def is_waveform(self) -> bool:
        return any(law.is_waveform for law, _ in self.parts)

    @property
    def eigenvalue(self) -> float:
        return max(law.eigenvalue for law, _ in self.parts)

    def last_moves(self, h: float) -> tuple[Array, Array]:
        pairs = [(law.last_moves(h), count) for law, count in self.parts]
        released, thrown = (
            np.concatenate([np.broadcast_to(moves[k], count) for moves, count in pairs]) for k in range(2)
        )
        return released, thrown

    def coefficients(self, h: float) -> Coefficients:
        return self._concatenated([law.coefficients(h) for law, _ in self.parts])

    def fallback_coefficients(self, h: float) -> Coefficients:
        return self._concatenated([law.fallback_coefficients(h) for law, _ in self.parts])

    def _concatenated(self, coefficients: list[Coefficients]) -> Coefficients:
        pairs = [(one, count) for one, (_, count) in zip(coefficients, self.parts, strict=True)]
        values = {
            field.name: np.concatenate([np.broadcast_to(getattr(one, field.name), count) for one, count in pairs])
            for field in fields(Coefficients)
            if field.name != "is_waveform"
        }
        return Coefficients(**values, is_waveform=self.is_waveform)


@dataclass(frozen=True)
class BlendedLaw:
    """Laws of the parts of a body, blended at each free node.

    The blended matrices of inertia and damping are sums of positive semi-definite ones with positive weights, so a step
    at rest is stable however the shares change between neighbours.

    laws: k laws for the same eigenvalue; the first is that of the rest of the body.
    shares: (f, k) of the laws at the free nodes; rows sum to 1.
    follow_through_offsets: (k,) Follow-through of each part minus that of the body.
    """

    laws: tuple[DeformationLaw, ...]
    shares: Array
    follow_through_offsets: tuple[float, ...]

    @property
    def is_waveform(self) -> bool:
        return self.laws[0].is_waveform

    @property
    def eigenvalue(self) -> float:
        return self.laws[0].eigenvalue

    def last_moves(self, h: float) -> tuple[Array, Array]:
        moves = [law.last_moves(h) for law in self.laws]
        return self._blend([released for released, _ in moves]), self._blend([thrown for _, thrown in moves])

    def coefficients(self, h: float) -> Coefficients:
        return self._blended([law.coefficients(h) for law in self.laws])

    def fallback_coefficients(self, h: float) -> Coefficients:
        return self._blended([law.fallback_coefficients(h) for law in self.laws])

    def _blend(self, values: Sequence[float | Array]) -> Array:
        """Return the mean (f,) of one value, or one value per node (f,), for each law."""
        count = len(self.shares)
        columns = np.stack([np.broadcast_to(value, count) for value in values], axis=1)
        return np.asarray((self.shares * columns).sum(axis=1))

    def _blended(self, found: list[Coefficients]) -> Coefficients:
        """Blend what multiplies masses, forces and their changes: 1/s, kappa/s, theta, sigma and sigma c."""
        inverse_time = self._blend([1.0 / one.inertia_time for one in found])
        sigma = self._blend([one.sigma for one in found])
        initial_change = self._blend([one.sigma * one.initial_force_change for one in found])
        return Coefficients(
            kappa=self._blend([one.kappa / one.inertia_time for one in found]) / inverse_time,
            inertia_time=1.0 / inverse_time,
            theta=self._blend([one.theta for one in found]),
            sigma=sigma,
            reference_inertia_ratio=self._blend([one.reference_inertia_ratio for one in found]),
            # q = h s lambda_1
            first_mode_stiffness_ratio=1.0
            / self._blend([1.0 / np.maximum(one.first_mode_stiffness_ratio, 1e-300) for one in found])
            if self.is_waveform
            else 0.0,
            initial_force_change=np.where(sigma > 0.0, initial_change / np.maximum(sigma, 1e-300), 0.0),
            decay_rate=self._blend([one.decay_rate for one in found]),
            follow_through_offset=self._blend(self.follow_through_offsets),
            is_waveform=self.is_waveform,
        )
