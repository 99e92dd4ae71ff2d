"""A solid's fibres as they are drawn: a line in each tetrahedron that has some, the redder the shorter they are."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ...core.arrays import Array
from ...core.frames.frame import Frame
from ...core.measure.fibres import fibres_at
from ...core.simulation.simulation import Simulation

_LONG, _REST, _SHORT = np.array([0.3, 0.6, 1.0]), np.array([1.0, 0.9, 0.75]), np.array([1.0, 0.15, 0.1])
# From this stretch on a colour is full, both ways.
_FULL = 0.4


@dataclass(frozen=True)
class Shown:
    """Of one body at one frame.

    points: (2k, 3) m, two for each line.  colors: (2k, 4).  words: how short they are.
    """

    points: Array
    colors: Array
    words: str


def shown(simulation: Simulation, frame: Frame, name: str) -> Shown | None:
    """None where it has no fibres."""
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
    """mean: stretch of the fibres."""
    if abs(mean - 1.0) < 5e-4:
        return "as long as modelled"
    return f"{100.0 * abs(mean - 1.0):.1f}% {'shorter' if mean < 1.0 else 'longer'} on average"
