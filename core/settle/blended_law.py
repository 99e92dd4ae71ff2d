"""Law of a body whose parts have dials of their own (docs/explanation/physics/02-settle-law.md)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from ..base.arrays import Array
from .law import Coefficients, DeformationLaw


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
    def natural_frequency(self) -> Array:
        return self._blend([law.natural_frequency for law in self.laws])

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
