"""Which springs of a net, or pieces of a rope, are muscles."""

from __future__ import annotations

import numpy as np

from ..arrays import Array, Index
from ..energies.springs import springs
from ..errors import MeshError
from ..geometry.surface import welded
from ..scene.body import Body
from ..system.muscular import Muscular


def muscle_of(body: Body, vertices: Index, edges: Index) -> Index:
    """(e,) the place of each spring's muscle, -1 for none. Raises MeshError where a spring is of two.

    vertices: (n,) of the body that have springs.  edges: (e, 2) of their places.
    """
    found = np.full(len(edges), -1)
    if body.controller is None:
        return found
    keys = _keys(vertices[edges], len(body.surface.vertices))
    for place, muscle in enumerate(body.controller.muscles):
        mine = np.isin(keys, _keys(_stands(body)[muscle.edges], len(body.surface.vertices)))
        if not mine.any():
            raise MeshError(f"{body.name}: no edge of muscle {muscle.name} is simulated; assign other edges to it.")
        twice = found[mine & (found >= 0)]
        if len(twice):
            other = body.controller.muscles[int(twice[0])]
            raise MeshError(
                f"{body.name}: muscles {other.name} and {muscle.name} share an edge; assign it to one of them."
            )
        found[mine] = place
    return found


def _stands(body: Body) -> Index:
    """(v,) for each vertex the first one in its place."""
    first, label = welded(body.surface.vertices)
    return np.asarray(first[label])


def _keys(pairs: Index, count: int) -> Index:
    return np.asarray(np.sort(pairs, axis=1) @ np.array([count, 1]))


def muscular(body: Body, muscle: Index, edges: Index, lengths: Array, stiffness: Array) -> tuple[Muscular, ...]:
    """The term of a body's muscles, if it has any.

    muscle: (e,) see muscle_of.  edges: (e, 2).  lengths: (e,) m.  stiffness: (e,) N at twice its length.
    """
    if body.controller is None or not (muscle >= 0).any():
        return ()
    mine, muscles = muscle >= 0, body.controller.muscles
    off = np.array([one.stiffness for one in muscles])
    return (
        Muscular(
            springs(edges[mine], lengths[mine], stiffness[mine] * off[muscle[mine]]),
            muscle=muscle[mine],
            lengths=np.array([one.length for one in muscles]),
            factors=np.array([one.stiffness_on for one in muscles]) / off,
            dampers=np.array([(one.damping, one.damping_on) for one in muscles]),
        ),
    )
