"""Overlay data of plastic flow: the surface of a body, redder where it has flowed more."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ...core.arrays import Array, Index
from ...core.frames.frame import Frame
from ...core.measure.flow import flowed_at
from ...core.simulation.simulation import Simulation
from .ghost_drawing import normals

# Offset in front of the surface, relative to the size, so that the surface does not hide the colours.
_BEFORE = 2e-3
_LEAST, _MOST = np.array([1.0, 0.85, 0.1]), np.array([0.95, 0.05, 0.02])
# Opacity where the flow is largest.
_COVER = 0.85


@dataclass(frozen=True)
class Shown:
    """Plastic flow of a body at a frame.

    points: (v, 3) m.  colors: (v, 4).  triangles: (t, 3).  edges: (e, 2), only for bodies without triangles.
    label: largest flow as text.  label_position: (3,) m, the point of the largest flow.
    """

    points: Array
    colors: Array
    triangles: Index
    edges: Index
    words: str
    place: Array


def shown(simulation: Simulation, frame: Frame, name: str) -> Shown | None:
    """Return the overlay data of a body's plastic flow, or None if nothing has flowed."""
    found = flowed_at(simulation, frame, name)
    if found is None:
        return None
    body, points = simulation.scene.body(name), frame.shapes[name]
    triangles, edges = body.surface.triangles, body.edges
    part = found.strains / max(float(found.strains.max()), 1e-30)
    tint = _LEAST + part[:, None] * (_MOST - _LEAST)
    colors = np.column_stack([tint, _COVER * np.sqrt(np.maximum(part, 0.0))])
    if len(triangles):
        points = points + _BEFORE * body.surface.size * normals(points, triangles)
        edges = edges[:0]
    words = f"plastic strain up to {100.0 * found.most:.3g}%"
    return Shown(points, colors, triangles, edges, words, points[int(found.strains.argmax())])
