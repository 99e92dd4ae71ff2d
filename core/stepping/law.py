"""Laws of a region's deformation: what they make of a substep (docs/physics.md section 2)."""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import ClassVar, Protocol

import numpy as np

from ..arrays import Array


@dataclass(frozen=True)
class Coefficients:
    """Of one substep, each a number, or one for each free node of the region (f,).

    kappa: remembered part of the deformation's velocity.
    s: inertia time, s (its inertia is M/s).
    theta: part of the elastic force that is taken at the substep's end; the rest, 1 - theta, at its start.
    sigma: remembered part of what the elastic force changed by.
    throw: inertia with which the deformation feels the reference motion's acceleration, over its mass.
    q: h s lambda_1.
    fresh: what the elastic force is taken to have changed by before the first substep, in parts of what it is out of
        balance: it then is at rest at the substep's start, not half a substep earlier.
    decay: 1/s, how fast the deformation comes to rest; 0 where the law does not say.
    waveform: whether all modes follow the dialled waveform, for which the force and the deformation's own velocity are
        kept; else the present form of [You], for which velocities are enough.
    """

    kappa: float | Array
    s: float | Array
    theta: float | Array = 1.0
    sigma: float | Array = 0.0
    throw: float | Array = 1.0
    q: float | Array = 0.0
    fresh: float | Array = 0.0
    decay: float | Array = 0.0
    waveform: bool = False

    def is_backward_euler(self, h: float) -> bool:
        """Whether nothing is left of the split into rigid motion and deformation."""
        return not self.waveform and bool(np.all(self.kappa == 1.0) and np.all(self.s == h))


class InertiaLaw(Protocol):
    """How a region's deformation remembers and resists, for a substep of h seconds."""

    @property
    def waveform(self) -> bool:
        """As in its coefficients."""
        ...

    def coefficients(self, h: float) -> Coefficients: ...

    def calmer(self, h: float) -> Coefficients:
        """Coefficients for a substep that fails with the usual ones."""
        ...


@dataclass(frozen=True)
class BackwardEulerLaw:
    """No damping but that of backward Euler itself: kappa = 1, s = h."""

    waveform: ClassVar[bool] = False

    def coefficients(self, h: float) -> Coefficients:
        return Coefficients(1.0, h)

    calmer = coefficients


@dataclass(frozen=True)
class FixedLaw:
    """kappa and s = tau by name, for those who know [You]."""

    kappa: float
    tau: float
    waveform: ClassVar[bool] = False

    def coefficients(self, h: float) -> Coefficients:
        return Coefficients(self.kappa, self.tau)

    calmer = coefficients


@dataclass(frozen=True)
class JoinedLaw:
    """Laws of bodies that links join to one region. parts: each with the number of free nodes that follow it."""

    parts: tuple[tuple[InertiaLaw, int], ...]

    @property
    def waveform(self) -> bool:
        return any(law.waveform for law, _ in self.parts)

    def coefficients(self, h: float) -> Coefficients:
        return self._joined([law.coefficients(h) for law, _ in self.parts])

    def calmer(self, h: float) -> Coefficients:
        return self._joined([law.calmer(h) for law, _ in self.parts])

    def _joined(self, found: list[Coefficients]) -> Coefficients:
        counts = [count for _, count in self.parts]
        values = {
            field.name: np.concatenate(
                [np.broadcast_to(getattr(one, field.name), count) for one, count in zip(found, counts, strict=True)]
            )
            for field in fields(Coefficients)
            if field.name != "waveform"
        }
        return Coefficients(**values, waveform=self.waveform)
