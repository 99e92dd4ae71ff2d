"""Parts that are removed per frame, whatever the frame rate (docs/physics.md section 2)."""

from __future__ import annotations

# Frames per second at which gamma is the part removed per frame.
RATE = 24.0


def remembered(gamma: float, h: float) -> float:
    """What a step of h seconds leaves where a part gamma is removed in a 24th of a second."""
    return float((1.0 - gamma) ** (RATE * h))


def removed(kappa: float, h: float) -> float:
    """The gamma of which a step leaves kappa, see remembered; 0 where kappa feeds instead of removing."""
    return float(1.0 - min(kappa, 1.0) ** (1.0 / (RATE * h)))
