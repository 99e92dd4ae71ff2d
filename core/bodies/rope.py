"""Ropes: the edges of a mesh as threads that resist stretch and bending (docs/physics.md section 6)."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ..arrays import Array, Index
from ..elements.assembly import edges_of
from ..energies import RodBending
from ..energies.springs import springs
from ..errors import MeshError
from ..geometry.surface import check_vertices, welded
from ..scene.body import Body
from ..scene.parameters import Settings
from ..system.block import Block
from ..system.term import Potential
from .kind import BASE_YOUNG, Kind
from .model import Model
from .muscular import muscle_of, muscular
from .vertices import Held, doubled, painted_at, painted_lengths, vertex_model
from .volume import softened

# Shortest edge, relative to the size of the body; shorter ones are ignored.
_SHORT = 1e-9
# Where more than two edges meet, two of them continue each other if they turn by less than this angle (its cosine).
_STRAIGHT = np.cos(np.radians(60.0))


@dataclass(frozen=True)
class Threads:
    """Edges of a mesh as threads.

    vertices: (n,) mesh vertices that have an edge; these are the nodes.  edges: (e, 2) nodes.  lengths: (e,) m.
    duplicates: see VertexSkin.
    """

    vertices: Index
    edges: Index
    lengths: Array
    doubles: Index

    @staticmethod
    def of(body: Body) -> Threads:
        """Return the threads of a body. Raises MeshError if no edge has a length."""
        points = body.surface.vertices
        first, label = welded(points)
        stands = first[label]
        drawn = stands[body.edges] if len(body.edges) else edges_of(stands[body.surface.triangles])
        edges = np.unique(np.sort(drawn, axis=1), axis=0)
        lengths = np.linalg.norm(points[edges[:, 0]] - points[edges[:, 1]], axis=1)
        there = lengths > _SHORT * body.surface.size
        edges, lengths = edges[there], lengths[there]
        if not len(edges):
            raise MeshError(f"{body.name}: the mesh has no edges; choose an object with edges.")
        vertices = np.unique(edges)
        place = np.full(len(points), -1)
        place[vertices] = np.arange(len(vertices))
        return Threads(vertices, place[edges].astype(np.int64), lengths, doubled(stands, place))


class Rope(Kind):
    """Kind whose edges are segments of a rope."""

    name = "ROPE"
    label = "Rope"
    text = "Simulate every edge as a piece of rope: cables, cords, threads, whips, nets. The mesh needs no faces"
    looks_at_edges = True
    needs_faces = False
    natural = True
    switched = True

    @staticmethod
    def sections(settings: Settings) -> tuple[str, ...]:
        return ("thin", "fabric")

    @staticmethod
    def check(body: Body) -> None:
        check_vertices(body.surface)
        if not len(body.edges) and not len(body.surface.triangles):
            raise MeshError(f"{body.name}: the mesh has no edges; choose an object with edges.")

    @staticmethod
    def build(body: Body) -> Model:
        settings, threads = body.settings, Threads.of(body)
        rest, edges = body.surface.vertices[threads.vertices], threads.edges
        thickness = 1e-3 * settings.thickness
        section = 0.25 * np.pi * thickness**2
        shares = np.bincount(edges.ravel(), (0.5 * threads.lengths).repeat(2), minlength=len(rest)).astype(float)
        held = Held.of(body, threads.vertices, threads.doubles, shares)
        painted = painted_at(body.stiffness_map, threads.vertices)
        parts = np.ones(len(rest)) if painted is None else painted
        stretch = BASE_YOUNG * section * (1.0 if painted is None else softened(parts[edges].mean(axis=1)))
        sizes = painted_lengths(painted_at(body.length_map, threads.vertices), edges)
        sizes *= 1.0 - settings.shrink / 100.0
        lengths, stretches = threads.lengths * sizes, np.broadcast_to(stretch, len(edges)).copy()
        muscle = muscle_of(body, threads.vertices, edges)
        own = muscle < 0
        pull = (Potential(springs(edges[own], lengths[own], stretches[own])),) if own.any() else ()
        triples = following(rest, edges)
        # E I of a round wire, scaled by the Bending factor: the strands of a rope slide, so it bends more easily.
        rigidity = settings.bending * BASE_YOUNG * np.pi * thickness**4 / 64.0
        bend = rigidity * (np.ones(len(triples)) if painted is None else softened(parts[triples].mean(axis=1)))
        bending = RodBending.of(rest, triples, bend, held.fixed(len(rest)))
        # Group the nodes of consecutive edges, so that a pinned edge clamps the next one.
        groups = (edges, triples) if settings.bending > 0.0 else (edges,)
        block = Block(
            body.name, rest, settings.density * section * shares, groups,
            (*pull, *muscular(body, muscle, edges, lengths, stretches), Potential(bending), *held.springs),
            held.nodes, held.stiffness, held.pace, not settings.damp_swing, net=True,
            centre=painted_at(body.centre_map, threads.vertices),
        )  # fmt: skip
        firm = BASE_YOUNG * section / block.size
        return vertex_model(body, block, threads.vertices, threads.doubles, firm)


def following(rest: Array, edges: Index) -> Index:
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
        ways = rest[near] - rest[node]
        ways /= np.linalg.norm(ways, axis=1)[:, None]
        straight = -(ways @ ways.T)
        np.fill_diagonal(straight, -1.0)
        while straight.max() > _STRAIGHT:
            i, j = np.unravel_index(int(straight.argmax()), straight.shape)
            found.append(np.array([[near[i], node, near[j]]]))
            straight[[i, j], :] = straight[:, [i, j]] = -1.0
    return np.asarray(np.concatenate(found), dtype=np.int64)
