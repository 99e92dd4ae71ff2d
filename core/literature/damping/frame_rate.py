"""Damping fractions per frame, independent of the frame rate (docs/explanation/physics/02-settle-law.md)."""

from __future__ import annotations

# Frame rate at which gamma is the fraction removed per frame.
REFERENCE_FRAME_RATE = 24.0


def retained_fraction(gamma: float, h: float) -> float:
    """Return the fraction that a step of h seconds retains if a fraction gamma is removed in a 24th of a second."""
    return float((1.0 - gamma) ** (REFERENCE_FRAME_RATE * h))


def removed_fraction(kappa: float, h: float) -> float:
    """Return the gamma of which a step of h seconds retains kappa, see retained_fraction; 0 if kappa adds velocity."""
    return float(1.0 - min(kappa, 1.0) ** (1.0 / (REFERENCE_FRAME_RATE * h)))
