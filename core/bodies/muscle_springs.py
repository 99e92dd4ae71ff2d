"""Muscles and individual dampers among the springs of a net or the segments of a rope."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from scipy.spatial import cKDTree

from ..base.arrays import Array, Index
from ..base.errors import MeshError
from ..materials.assembly import element_edges
from ..materials.loads_and_springs import SpringEnergy, spring_energy
from ..scene.body import Body
from ..system.switched_springs import SpringDampers, SwitchedSprings
from ..system.term import Potential
from .vertex_nodes import first_coincident_vertices

# Cosine of the largest angle between a spring in the volume and the muscle edge that it runs along: 45 degrees.
_MIN_COSINE = 0.7071


def muscle_indices(body: Body, vertices: Index, edges: Index) -> Index:
    """Return the muscle index (e,) of each spring, -1 for none.

    Raises MeshError if a muscle has no simulated edge, or two muscles share one.

    vertices: (n,) vertex of each node.  edges: (e, 2) nodes of each spring.
    """
    indices = np.full(len(edges), -1)
    if body.controller is None:
        return indices
    count, first_coincident = len(body.surface.vertices), first_coincident_vertices(body)
    keys = _edge_keys(vertices[edges], count)
    for place, muscle in enumerate(body.controller.muscles):
        is_of_muscle = np.isin(keys, _edge_keys(first_coincident[muscle.edges], count))
        if not is_of_muscle.any():
            raise MeshError(f"{body.name}: no edge of muscle {muscle.name} is simulated; assign other edges to it.")
        assigned_before = indices[is_of_muscle & (indices >= 0)]
        if len(assigned_before):
            other = body.controller.muscles[int(assigned_before[0])]
            raise MeshError(
                f"{body.name}: muscles {other.name} and {muscle.name} share an edge; assign it to one of them."
            )
        indices[is_of_muscle] = place
    return indices


def volume_muscle_indices(body: Body, nodes: Array, edges: Index) -> Index:
    """Return the muscle index (e,) of each spring in the volume of a body, -1 for none.

    A spring belongs to the nearest muscle whose edges run within a spring's length of its middle, at most 45 degrees
    from its direction. Raises MeshError if a muscle has no spring, or two muscles share an edge.

    nodes: (n, 3) m at rest.  edges: (e, 2) nodes of each spring.
    """
    if body.controller is None:
        return np.full(len(edges), -1)
    mesh_edges = body.edges if len(body.edges) else element_edges(body.surface.triangles)
    muscle_indices(body, first_coincident_vertices(body), mesh_edges)
    offsets = nodes[edges[:, 1]] - nodes[edges[:, 0]]
    lengths = np.linalg.norm(offsets, axis=1)
    reach = float(np.median(lengths))
    points, directions, owners = [], [], []
    for place, muscle in enumerate(body.controller.muscles):
        start, end = (body.surface.vertices[muscle.edges[:, k]] for k in (0, 1))
        size = np.linalg.norm(end - start, axis=1)
        # Points along each edge, four or more within the reach.
        counts = 2 + np.ceil(4.0 * size / reach).astype(int)
        for a, b, count in zip(start, end, counts.tolist(), strict=True):
            points.append(a + np.linspace(0.0, 1.0, count)[:, None] * (b - a))
        directions.append(np.repeat((end - start) / np.maximum(size, 1e-300)[:, None], counts, axis=0))
        owners.append(np.full(int(counts.sum()), place))
    distance, nearest = cKDTree(np.concatenate(points)).query(0.5 * (nodes[edges[:, 0]] + nodes[edges[:, 1]]))
    cosine = np.abs(np.einsum("ei,ei->e", offsets, np.concatenate(directions)[nearest])) / lengths
    is_along = (distance <= reach) & (cosine >= _MIN_COSINE)
    indices = np.where(is_along, np.concatenate(owners)[nearest], -1)
    for place, muscle in enumerate(body.controller.muscles):
        if not (indices == place).any():
            raise MeshError(
                f"{body.name}: no spring of the volume runs along muscle {muscle.name}; raise Resolution, or assign "
                "longer edges to it."
            )
    return np.asarray(indices)


def damper_terms(body: Body, vertices: Index, edges: Index) -> tuple[SpringDampers, ...]:
    """Return the force term of a body's dampers; empty without dampers.

    vertices: (n,) vertex of each node.  edges: (e, 2) nodes of each spring.
    """
    if body.dampers is None or not body.dampers.any():
        return ()
    # Coincident edges are one spring, with the strongest of their dampers, which comes last.
    order = np.argsort(body.dampers, kind="stable")
    mesh_edges = first_coincident_vertices(body)[body.edges[order]]
    matches = match_edges(vertices[edges], mesh_edges, len(body.surface.vertices))
    damping = np.where(matches >= 0, body.dampers[order][matches], 0.0)
    has_damper = damping > 0.0
    return (SpringDampers(edges[has_damper], damping[has_damper]),) if has_damper.any() else ()


def match_edges(edges: Index, others: Index, count: int) -> Index:
    """Return for each edge (e,) the index of the last equal one among others, -1 for none. Ends may be swapped.

    edges: (e, 2).  others: (k, 2), at least one.  count: number of vertices.
    """
    keys, other_keys = _edge_keys(edges, count), _edge_keys(others, count)
    order = np.argsort(other_keys, kind="stable")
    last = order[np.searchsorted(other_keys[order], keys, side="right") - 1]
    return np.asarray(np.where(other_keys[last] == keys, last, -1))


def _edge_keys(pairs: Index, count: int) -> Index:
    return np.asarray(np.sort(pairs, axis=1) @ np.array([count, 1]))


def spring_terms(
    body: Body,
    muscle: Index,
    edges: Index,
    lengths: Array,
    stiffness: Array,
    passive_term: Callable[[SpringEnergy], Potential],
) -> tuple[Potential, ...]:
    """Return the force terms of a body's passive springs and of its muscles; empty for those that it has not.

    muscle: (e,) see muscle_indices.  edges: (e, 2).  lengths: (e,) m.  stiffness: (e,) N at twice the rest length.
    passive_term: function from the energy of passive springs to their term.
    """
    is_muscle = muscle >= 0
    passive: tuple[Potential, ...] = ()
    if not is_muscle.all():
        energy = spring_energy(edges[~is_muscle], lengths[~is_muscle], stiffness[~is_muscle])
        passive = (passive_term(energy),)
    if body.controller is None or not is_muscle.any():
        return passive
    muscles = body.controller.muscles
    off_stiffness = np.array([one.stiffness for one in muscles])
    owner = muscle[is_muscle]
    return (
        *passive,
        SwitchedSprings(
            spring_energy(edges[is_muscle], lengths[is_muscle], stiffness[is_muscle] * off_stiffness[owner]),
            muscle_indices=owner,
            length_ratios=np.array([one.length for one in muscles]),
            stiffness_ratios=np.array([one.stiffness_on for one in muscles]) / off_stiffness,
            damping_times=np.array([(one.damping, one.damping_on) for one in muscles]),
        ),
    )
