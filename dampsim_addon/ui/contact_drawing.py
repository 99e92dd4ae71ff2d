"""What presses on an object, as it is drawn: points, lines along which they are pushed, and how hard in words."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from ...core.arrays import Array
from ...core.frames.frame import Frame
from ...core.measure.contacts import SEEN, pressing
from ...core.simulation.simulation import Simulation

# The line of the hardest push, in parts of the size: lines show who bears more, the words how much.
_LONGEST = 0.2


@dataclass(frozen=True)
class Shown:
    """Of one body at one frame.

    lines: (2k, 3) m from where it is pressed to where a line for the force ends, in turn.
    deep: (j, 3) m, of the points that are so deep in something that it can be seen.
    words: how hard each of what presses does, and the middle (3,) m of where.
    """

    lines: Array
    deep: Array
    words: tuple[tuple[str, Array], ...]

    @property
    def points(self) -> Array:
        """(k, 3) m, where it is pressed."""
        return self.lines[::2]


def shown(simulation: Simulation, frame: Frame, body: str, obstacles: Mapping[str, Array]) -> Shown:
    """obstacles: (v, 3) m by name, where they are at the frame."""
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
    """Not as 4.8e+03 N."""
    size, unit = next(
        one for one in ((1e6, "MN"), (1e3, "kN"), (1.0, "N"), (1e-3, "mN")) if force >= one[0] or one[0] < 1.0
    )
    return f"{force / size:.3g} {unit}"
