"""Overlay data of the contacts of a body: points, force lines and labels."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from ...core.arrays import Array
from ...core.frames.frame import Frame
from ...core.measure.contacts import SEEN, pressing
from ...core.simulation.simulation import Simulation

# Length of the line of the largest force, relative to the body's size: lines compare forces, and labels quantify them.
_LONGEST = 0.2


@dataclass(frozen=True)
class Shown:
    """Contacts of a body at a frame.

    lines: (2k, 3) m, start and end of each force line in turn.
    deep_points: (j, 3) m, contact points with visible penetration.
    labels: total force of each other object as text, and its centre of pressure (3,) m.
    """

    lines: Array
    deep: Array
    words: tuple[tuple[str, Array], ...]

    @property
    def points(self) -> Array:
        """Contact points (k, 3) m."""
        return self.lines[::2]


def shown(simulation: Simulation, frame: Frame, body: str, obstacles: Mapping[str, Array]) -> Shown:
    """Return the overlay data of a body's contacts.

    obstacles: vertices (v, 3) m of the colliders at the frame, by name.
    """
    found = pressing(simulation, frame, body, obstacles)
    if not len(found):
        return Shown(np.zeros((0, 3)), np.zeros((0, 3)), ())
    size = simulation.scene.body(body).surface.size
    ends = found.points + (_LONGEST * size / found.forces.max()) * found.forces[:, None] * found.normals
    words = []
    for place in np.unique(found.others):
        mine, name = found.others == place, found.names[place]
        share = found.forces[mine] / found.forces[mine].sum()
        text = f"{'itself' if name == body else name}: {newtons(found.forces[mine].sum())}"
        words.append((text, share @ found.points[mine]))
    lines = np.stack([found.points, ends], axis=1).reshape(-1, 3)
    return Shown(lines, found.points[found.depths > SEEN * size], tuple(words))


def newtons(force: float) -> str:
    """Return a force as text, with a unit prefix instead of an exponent. force: N."""
    size, unit = next(
        one for one in ((1e6, "MN"), (1e3, "kN"), (1.0, "N"), (1e-3, "mN")) if force >= one[0] or one[0] < 1.0
    )
    return f"{force / size:.3g} {unit}"
