"""Shared parts of kinds whose nodes are mesh vertices: pins, painted maps and the binding to the animated surface."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property

import numpy as np
from scipy.sparse import csr_matrix
from scipy.spatial import cKDTree

from ..base.arrays import Array, Index
from ..base.errors import MeshError
from ..geometry.mesh.surface import check_vertices, weld_vertices
from ..materials.assembly import element_edges
from ..scene.body import HARD_PIN_WEIGHT, Body
from ..system.discretization import BodyDiscretization
from ..system.term import ForceTerm
from .kind import BASE_YOUNG, Model, Strands
from .pins import build_block, pin_strength
from .surface_binding import BoundVertices, SurfaceBinding

# Length factor where Length is painted 0.
_MIN_LENGTH_FACTOR = 0.5


@dataclass(frozen=True)
class VertexSkin:
    """Skin whose vertices are the nodes; vertices that are not nodes stay on the animation.

    vertices: (n,) vertex of each node.
    rest: (n, 3) m.
    count: number of vertices v.
    duplicates: (d, 2) vertices that follow another vertex, and that vertex.
    """

    vertices: Index
    rest: Array
    count: int
    duplicates: Index = field(default_factory=lambda: np.zeros((0, 2), dtype=np.int64))

    def __call__(self, nodes: Array, animated: Array) -> Array:
        surface = animated.copy()
        surface[self.vertices] = nodes
        surface[self.duplicates[:, 0]] = surface[self.duplicates[:, 1]]
        return surface

    def node_operator(self) -> tuple[csr_matrix, Array]:
        nodes = np.full(self.count, -1)
        nodes[self.vertices] = np.arange(len(self.vertices))
        nodes[self.duplicates[:, 0]] = nodes[self.duplicates[:, 1]]
        rows = np.flatnonzero(nodes >= 0)
        operator = csr_matrix((np.ones(len(rows)), (rows, nodes[rows])), shape=(self.count, len(self.rest)))
        return operator, (nodes < 0).astype(float)

    def weights_for_points(self, points: Array) -> tuple[Index, Array]:
        _, nearest = cKDTree(self.rest).query(points)
        return nearest[:, None].astype(np.int64), np.ones((len(points), 1))


@dataclass(frozen=True)
class VertexNodes:
    """Nodes of a body that are vertices of its mesh.

    vertices: (n,) vertex of each node.
    duplicates: (d, 2) a vertex that coincides with a node's vertex, and the latter.
    """

    body: Body
    vertices: Index
    duplicates: Index

    @staticmethod
    def of(body: Body, elements: Index, first_coincident: Index) -> VertexNodes:
        """Return the nodes of elements (m, k), given by vertices. first_coincident: see first_coincident_vertices."""
        vertices = np.unique(elements)
        is_duplicate = (first_coincident != np.arange(len(first_coincident))) & np.isin(first_coincident, vertices)
        duplicates = np.flatnonzero(is_duplicate)
        return VertexNodes(body, vertices, np.stack([duplicates, first_coincident[duplicates]], axis=1))

    @property
    def rest(self) -> Array:
        """Rest positions (n, 3) m."""
        return np.asarray(self.body.surface.vertices[self.vertices])

    @cached_property
    def numbers(self) -> Index:
        """Node (v,) of each vertex, also of duplicates; -1 for none."""
        found = np.full(len(self.body.surface.vertices), -1)
        found[self.vertices] = np.arange(len(self.vertices))
        found[self.duplicates[:, 0]] = found[self.duplicates[:, 1]]
        return found

    @property
    def pin_weights(self) -> Array:
        """Pin weights (v,) of the vertices; a pin on one side of a seam pins both sides."""
        pins = self.body.pins.copy()
        np.maximum.at(pins, self.duplicates[:, 1], pins[self.duplicates[:, 0]])
        return pins

    def at_nodes(self, values: Array | None) -> Array | None:
        """Return painted weights (v,) at the nodes (n,), clipped to 0 to 1."""
        return None if values is None else np.clip(values[self.vertices], 0.0, 1.0)

    def pins(self, shares: Array) -> tuple[Index, Array]:
        """Return the pinned nodes (p,) and their stiffness (p,) N/m, infinite for hard pins.

        shares: (n,) relative shares of the nodes in the total stiffness of soft pins.
        """
        weights = self.pin_weights[self.vertices]
        thickness = 1e-3 * self.body.settings.thickness
        stiffness = np.where(
            weights >= HARD_PIN_WEIGHT, np.inf, pin_strength(weights) * BASE_YOUNG * thickness * shares / shares.sum()
        )
        pinned = np.flatnonzero(weights > 0.0)
        return pinned, stiffness[pinned]

    def block(
        self, mass: Array, groups: tuple[Index, ...], terms: tuple[ForceTerm, ...], pins: tuple[Index, Array]
    ) -> BodyDiscretization:
        """Return the discretization of the body, see build_block."""
        swings = not self.body.settings.damp_swing
        return build_block(self.body, self.at_nodes, self.rest, mass, groups, terms, pins, swings, is_net=True)

    def model(self, block: BodyDiscretization, surface_stiffness: float = 0.0, strands: Strands | None = None) -> Model:
        """Return the model of a block with these nodes. surface_stiffness, strands: see Model."""
        count = len(self.body.surface.vertices)
        binding = SurfaceBinding.bind(block.rest, self.body.surface.vertices, np.arange(count))
        pins = BoundVertices(self.vertices[block.pinned], binding.subset(block.pinned))
        skin = VertexSkin(self.vertices, block.rest, count, self.duplicates)
        nodes = BoundVertices(self.vertices, binding)
        return Model(block, skin, pins, nodes, surface_stiffness=surface_stiffness, strands=strands)


def first_coincident_vertices(body: Body) -> Index:
    """Return for each vertex (v,) the first vertex at the same position."""
    first, label = weld_vertices(body.surface.vertices)
    return np.asarray(first[label])


def check_has_edges(body: Body) -> None:
    """Raise MeshError if the mesh of a body is not valid or has no edges."""
    check_vertices(body.surface)
    if not len(body.edges) and not len(body.surface.triangles):
        raise MeshError(f"{body.name}: the mesh has no edges; choose an object with edges.")


def welded_edges(body: Body, first_coincident: Index) -> Index:
    """Return the edges (e, 2) of a body, or of its faces, between first coincident vertices, each once."""
    if not len(body.edges):
        return element_edges(first_coincident[body.surface.triangles])
    return np.unique(np.sort(first_coincident[body.edges], axis=1), axis=0)


def length_factors(painted: Array | None, elements: Index) -> Array:
    """Return the length factors (m,) of elements (m, k) from painted weights (n,) at the nodes."""
    if painted is None:
        return np.ones(len(elements))
    return np.asarray(_MIN_LENGTH_FACTOR + (1.0 - _MIN_LENGTH_FACTOR) * painted[elements].mean(axis=1))
