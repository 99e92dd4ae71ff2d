"""Settings that the dials give for a step, and the number of substeps that a settle law needs."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import lru_cache

import numpy as np

from ..base.arrays import Array
from .first_mode import FirstModeLaw
from .law import Coefficients, DeformationLaw
from .waveform import WaveformLaw, settle_law

# Phase in rad of the first mode in one substep: up to the first value its peaks are met within 5%. The kappa of
# FirstModeLaw grows with the phase, and motion softer than at rest (a buckling bend) then gains amplitude: at the
# second value kappa is 1.6, at pi/3 it has no bound.
TARGET_PHASE = math.pi / 6.0
MAX_PHASE = math.pi / 5.0
# Largest number of substeps per frame; a stronger overshoot is limited instead.
MAX_SUBSTEPS = 20
# Relative size of rounding errors.
_ROUNDING = 1e-9
SettleLaw = WaveformLaw | FirstModeLaw
"""Law that Settle and Bounce control."""
SettleLawFactory = Callable[[float, float, float], SettleLaw]
"""Function that returns a law for settle time in s, overshoot and eigenvalue in 1/s^2."""


@dataclass(frozen=True)
class YarnDials:
    """Dials for the yarns of woven cloth (docs/explanation/woven-cloth.md).

    friction: Coulomb coefficient.
    grip: N, normal force at each crossing even without tension.
    drag: N s/m, resistance to sliding.
    stretch, bend: s, damping over stiffness.
    rayleigh: whether this damping multiplies the tangent instead of the strain rates.

    The defaults prevent sliding, as the search for the hanging shape needs.
    """

    friction: float = 1.0
    grip: float = 1e9
    drag: float = 0.0
    stretch: float = 0.0
    bend: float = 0.0
    rayleigh: bool = False


@dataclass(frozen=True)
class Controls:
    """Settings that the dials give for one system.

    laws: one per region.
    follow_through: phi, 1 is physical; one value for all blocks or one per block.
    tolerance: tolerance of the solver.
    stiffness: factor on the elastic energies, for a material that stiffens during the shot; one value or one per block.
        The eigenvalues of the laws already include it.
    yarns: one per woven block.
    former_laws: one per region, with the dials of the last step; none if they have not changed.
    former_step: duration of the last step in s, if former_laws are given; 0 for that of this step.
    velocity_ratios: factor of each region on the deformation's velocity at the start of the step, because the pace of
        its decay has changed; none if it has not.
    is_static: whether the steps search for an equilibrium, so that changes too small to see still add up.
    """

    laws: tuple[DeformationLaw, ...]
    follow_through: float | tuple[float, ...]
    tolerance: float
    stiffness: float | tuple[float, ...] = 1.0
    yarns: tuple[YarnDials, ...] = ()
    former_laws: tuple[DeformationLaw, ...] = ()
    former_step: float = 0.0
    velocity_ratios: tuple[float | Array, ...] = ()
    is_static: bool = False

    def coefficients(self, region: int, h: float, use_fallback: bool = False) -> Coefficients:
        """Return the coefficients of a region for a step of h seconds."""
        law = self.laws[region]
        found = law.fallback_coefficients(h) if use_fallback else law.coefficients(h)
        if self.former_laws:
            found = _continued(found, law, self.former_laws[region], h, self.former_step or h)
        if not self.velocity_ratios:
            return found
        ratio = self.velocity_ratios[region]
        return replace(found, kappa=found.kappa * ratio, sigma=found.sigma * ratio)

    def with_unchanged_dials(self) -> Controls:
        """Return the controls of the later parts of a step."""
        has_changed = self.former_laws or self.velocity_ratios
        return replace(self, former_laws=(), former_step=0.0, velocity_ratios=()) if has_changed else self

    def follow_through_per_block(self, block_count: int) -> Array:
        """Return the follow-through of each block, (b,)."""
        return np.broadcast_to(np.asarray(self.follow_through, dtype=float), block_count)

    def stiffness_per_block(self, block_count: int) -> Array:
        """Return the stiffness factor of each block, (b,)."""
        return np.broadcast_to(np.asarray(self.stiffness, dtype=float), block_count)


def history_change(
    law: DeformationLaw, former: DeformationLaw, h: float, former_step: float
) -> tuple[float | Array, float | Array]:
    """Return the history with which a motion goes on from the same point of its curve under another law.

    former, former_step: law and duration in s of the last step.

    The last move d of a mode at c with the velocity v w0 was m c + n v. Under the new law, it is
    m' c + n' v = r d + p c. The result is r and p.
    """
    (released, thrown), (former_released, former_thrown) = law.last_moves(h), former.last_moves(former_step)
    ratio = thrown / former_thrown
    return ratio, released - ratio * former_released


def _continued(
    found: Coefficients, law: DeformationLaw, former: DeformationLaw, h: float, former_step: float
) -> Coefficients:
    """Return the coefficients of a step in which the dials change, (2.52) of physics, section 2.

    found: those of the law.  former, former_step: law and duration in s of the last step.
    """
    ratio, part = history_change(law, former, h, former_step)
    stiffness_ratio = found.inertia_time * h * law.eigenvalue
    change: float | Array = 0.0
    if np.any(part) and np.all(stiffness_ratio > 0.0):
        change = part * (found.kappa / stiffness_ratio + found.sigma)
    # The history has velocities and rates.
    rate_ratio = ratio * former_step / h
    initial = found.initial_force_change
    if found.is_waveform:
        # Without a history, sigma times this change is the force. No last step has to be continued then.
        initial = initial / rate_ratio
    return replace(
        found,
        kappa=found.kappa * rate_ratio,
        sigma=found.sigma * rate_ratio,
        initial_force_change=initial,
        dial_change=change,
    )


def has_new_bounce(law: SettleLaw, former: DeformationLaw) -> bool:
    """Return whether a law has another overshoot than that of the last step, of the same kind."""
    if not isinstance(former, type(law)):
        return False
    return abs(law.frequency * former.decay - former.frequency * law.decay) > _ROUNDING * law.decay * former.decay


@dataclass(frozen=True)
class Substeps:
    """Substeps per frame, and the overshoot they can resolve.

    count: substeps per frame.  overshoot: resolved overshoot.  is_limited: whether it is less than requested.
    """

    count: int
    overshoot: float
    is_limited: bool


@lru_cache(maxsize=256)
def choose_substeps(
    settle: float, overshoot: float, frame_time: float, min_count: int, make_law: SettleLawFactory = settle_law
) -> Substeps:
    """Return enough substeps to resolve the overshoot, or a smaller overshoot if that takes too many.

    settle: s.  frame_time: s.  min_count: number of substeps set by the user.
    """

    def required_count(o: float, phase: float) -> int:
        return max(min_count, math.ceil(make_law(settle, o, 1.0).frequency * frame_time / phase - 1e-9))

    max_count = max(min_count, MAX_SUBSTEPS)
    if required_count(overshoot, MAX_PHASE) <= max_count:
        return Substeps(min(required_count(overshoot, TARGET_PHASE), max_count), overshoot, False)
    low, high = 0.0, overshoot
    for _ in range(60):
        middle = 0.5 * (low + high)
        low, high = (middle, high) if required_count(middle, MAX_PHASE) <= max_count else (low, middle)
    return Substeps(max_count, low, True)
