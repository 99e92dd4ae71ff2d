"""Muscles among the springs of a net or the segments of a rope."""

from __future__ import annotations

import numpy as np

from ..arrays import Array, Index
from ..energies.springs import springs
from ..errors import MeshError
from ..geometry.surface import welded
from ..scene.body import Body
from ..system.muscular import Muscular


def muscle_of(body: Body, vertices: Index, edges: Index) -> Index:
    """Return the muscle index (e,) of each spring, -1 for none.

    Raises MeshError if a muscle has no simulated edge, or two muscles share one.

    vertices: (n,) vertex of each node.  edges: (e, 2) nodes of each spring.
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
    """Return for each vertex (v,) the first vertex at the same position."""
    first, label = welded(body.surface.vertices)
    return np.asarray(first[label])


def _keys(pairs: Index, count: int) -> Index:
    return np.asarray(np.sort(pairs, axis=1) @ np.array([count, 1]))


def muscular(body: Body, muscle: Index, edges: Index, lengths: Array, stiffness: Array) -> tuple[Muscular, ...]:
    """Return the force term of a body's muscles; empty without muscles.

    muscle: (e,) see muscle_indices.  edges: (e, 2).  lengths: (e,) m.  stiffness: (e,) N at twice the rest length.
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
