"""Ropes: the edges of a mesh as threads that resist stretch and bending.

See docs/explanation/physics/06-body-models.md.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ..base.arrays import Array, Index
from ..base.errors import MeshError
from ..materials import RodBending
from ..scene.body import Body
from ..scene.parameters import Settings
from ..system.term import Potential, pin_springs
from .kind import BASE_YOUNG, BodyKind, Model
from .muscle_springs import damper_terms, muscle_indices, spring_terms
from .pins import hard_pin_mask
from .solid import stiffness_scale
from .vertex_nodes import VertexNodes, check_has_edges, first_coincident_vertices, length_factors, welded_edges

# Shortest edge, relative to the size of the body; shorter ones are ignored.
_MIN_EDGE_LENGTH = 1e-9
# Where more than two edges meet, two of them continue each other if they turn by less than this angle (its cosine).
_MAX_TURN_COSINE = np.cos(np.radians(60.0))


@dataclass(frozen=True)
class Threads:
    """Edges of a mesh as threads.

    nodes: vertices that have an edge.  edges: (e, 2) nodes.  lengths: (e,) m.
    """

    nodes: VertexNodes
    edges: Index
    lengths: Array

    @staticmethod
    def of(body: Body) -> Threads:
        """Return the threads of a body. Raises MeshError if no edge has a length."""
        points, first_coincident = body.surface.vertices, first_coincident_vertices(body)
        edges = welded_edges(body, first_coincident)
        lengths = np.linalg.norm(points[edges[:, 0]] - points[edges[:, 1]], axis=1)
        is_long_enough = lengths > _MIN_EDGE_LENGTH * body.surface.size
        edges, lengths = edges[is_long_enough], lengths[is_long_enough]
        if not len(edges):
            raise MeshError(f"{body.name}: the mesh has no edges; choose an object with edges.")
        nodes = VertexNodes.of(body, edges, first_coincident)
        return Threads(nodes, nodes.numbers[edges].astype(np.int64), lengths)


class RopeKind(BodyKind):
    """Kind whose edges are segments of a rope."""

    name = "ROPE"
    number = 3
    label = "Rope"
    description = "Simulate every edge as a piece of rope: cables, cords, threads, whips, nets. The mesh needs no faces"
    uses_edges = True
    needs_faces = False
    has_physical_bounce = True
    supports_muscles = True

    @staticmethod
    def sections(settings: Settings) -> tuple[str, ...]:
        return ("thin", "swing", "fabric", "integrator papers", "ratio papers")

    @staticmethod
    def check(body: Body) -> None:
        check_has_edges(body)

    @staticmethod
    def build(body: Body) -> Model:
        settings, threads = body.settings, Threads.of(body)
        nodes, rest, edges = threads.nodes, threads.nodes.rest, threads.edges
        thickness = 1e-3 * settings.thickness
        section = 0.25 * np.pi * thickness**2
        shares = np.bincount(edges.ravel(), (0.5 * threads.lengths).repeat(2), minlength=len(rest)).astype(float)
        pins, painted = nodes.pins(shares), nodes.at_nodes(body.stiffness_map)
        stretches = BASE_YOUNG * section * stiffness_scale(painted, edges)
        length_scales = length_factors(nodes.at_nodes(body.length_map), edges)
        length_scales *= 1.0 - settings.shrink / 100.0
        lengths = threads.lengths * length_scales
        muscle = muscle_indices(body, nodes.vertices, edges)
        springs = spring_terms(body, muscle, edges, lengths, stretches, Potential)
        triples = consecutive_edges(rest, edges)
        # E I of a round wire, scaled by the Bending factor: the strands of a rope slide, so it bends more easily.
        rigidity = settings.bending * BASE_YOUNG * np.pi * thickness**4 / 64.0
        bend = rigidity * stiffness_scale(painted, triples)
        bending = RodBending.from_rest_shape(rest, triples, bend, hard_pin_mask(pins, len(rest)))
        # Group the nodes of consecutive edges, so that a pinned edge clamps the next one.
        groups = (edges, triples) if settings.bending > 0.0 else (edges,)
        dampers = damper_terms(body, nodes.vertices, edges)
        terms = (*springs, *dampers, Potential(bending), *pin_springs(*pins))
        block = nodes.block(settings.density * section * shares, groups, terms, pins)
        return nodes.model(block, BASE_YOUNG * section / block.size)


def consecutive_edges(rest: Array, edges: Index) -> Index:
    """Return the nodes (m, 3) of consecutive edges (e, 2).

    Two edges that meet are always consecutive. Where more meet, the straightest pairs are.

    rest: (n, 3) m.
    """
    ends = np.concatenate([edges, edges[:, ::-1]])
    ends = ends[np.argsort(ends[:, 0], kind="stable")]
    counts = np.bincount(ends[:, 0], minlength=len(rest))
    starts = np.concatenate([[0], np.cumsum(counts)])
    two = np.flatnonzero(counts == 2)
    found = [np.stack([ends[starts[two], 1], two, ends[starts[two] + 1, 1]], axis=1)]
    for node in np.flatnonzero(counts > 2):
        near = ends[starts[node] : starts[node + 1], 1]
        directions = rest[near] - rest[node]
        directions /= np.linalg.norm(directions, axis=1)[:, None]
        straightness = -(directions @ directions.T)
        np.fill_diagonal(straightness, -1.0)
        while straightness.max() > _MAX_TURN_COSINE:
            i, j = np.unravel_index(int(straightness.argmax()), straightness.shape)
            found.append(np.array([[near[i], node, near[j]]]))
            straightness[[i, j], :] = straightness[:, [i, j]] = -1.0
    return np.asarray(np.concatenate(found), dtype=np.int64)
