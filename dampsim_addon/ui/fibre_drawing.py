"""Overlay data of a solid's fibres: a line in each tetrahedron with fibres, redder where they are shorter."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ...core.arrays import Array
from ...core.frames.frame import Frame
from ...core.measure.fibres import fibres_at
from ...core.simulation.simulation import Simulation

_LONG, _REST, _SHORT = np.array([0.3, 0.6, 1.0]), np.array([1.0, 0.9, 0.75]), np.array([1.0, 0.15, 0.1])
# Relative change of length, in both directions, at which the colour is saturated.
_FULL = 0.4


@dataclass(frozen=True)
class Shown:
    """Fibres of a body at a frame.

    points: (2k, 3) m, both ends of each line.  colors: (2k, 4).  label: mean change of length as text.
    """

    points: Array
    colors: Array
    words: str


def shown(simulation: Simulation, frame: Frame, name: str) -> Shown | None:
    """Return the overlay data of a body's fibres, or None without fibres."""
    found = fibres_at(simulation, frame, name)
    if found is None:
        return None
    part = np.clip((1.0 - found.stretches) / _FULL, -1.0, 1.0)
    end = np.where((part > 0.0)[:, None], _SHORT, _LONG)
    tints = _REST + np.abs(part)[:, None] * (end - _REST)
    # Weaker fibres are fainter.
    colors = np.column_stack([tints, 0.25 + 0.75 * found.strengths])
    return Shown(found.lines.reshape(-1, 3), colors.repeat(2, axis=0), words(found.mean))


def words(mean: float) -> str:
    """Return the mean stretch of fibres as text. mean: current length over modelled length."""
    if abs(mean - 1.0) < 5e-4:
        return "as long as modelled"
    return f"{100.0 * abs(mean - 1.0):.1f}% {'shorter' if mean < 1.0 else 'longer'} on average"
