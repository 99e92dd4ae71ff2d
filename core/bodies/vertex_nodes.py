"""Shared parts of kinds whose nodes are mesh vertices: pins, painted maps and the binding to the animated surface."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
from scipy.sparse import csr_matrix
from scipy.spatial import cKDTree

from ..base.arrays import Array, Index, Mask
from ..scene.body import HARD_PIN_WEIGHT, Body
from ..system.discretization import BodyDiscretization
from ..system.term import PinSprings, pin_springs
from .kind import BASE_YOUNG
from .model import Model, Strands
from .pins import nodal_part_shares, pin_strength
from .solid import MIN_SETTLE_SCALE
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
class PinConstraints:
    """Pins of nodes that are mesh vertices.

    nodes: (p,) pinned nodes.  stiffness: (p,) N/m, infinite for hard pins.
    settle_scale, part_shares: see BodyDiscretization.
    """

    nodes: Index
    stiffness: Array
    settle_scale: Array | None
    part_shares: Array | None = None

    @staticmethod
    def of(body: Body, vertices: Index, duplicates: Index, shares: Array) -> PinConstraints:
        """Return the pins of a body.

        vertices: (n,) vertex of each node.  duplicates: see VertexSkin.
        shares: (n,) relative shares of the nodes in the total stiffness of soft pins.
        """
        # A pin on one side of a seam pins both sides.
        pins = body.pins.copy()
        np.maximum.at(pins, duplicates[:, 1], pins[duplicates[:, 0]])
        weights = pins[vertices]
        thickness = 1e-3 * body.settings.thickness
        stiffness = np.where(
            weights >= HARD_PIN_WEIGHT, np.inf, pin_strength(weights) * BASE_YOUNG * thickness * shares / shares.sum()
        )
        pinned = np.flatnonzero(weights > 0.0)
        settle_scale = weights_at_nodes(body.settle_map, vertices)
        return PinConstraints(
            pinned,
            stiffness[pinned],
            None if settle_scale is None else np.maximum(settle_scale, MIN_SETTLE_SCALE),
            nodal_part_shares(body, lambda weights: weights_at_nodes(weights, vertices)),
        )

    @property
    def spring_terms(self) -> tuple[PinSprings, ...]:
        """Force term of the soft pins; empty if there are none."""
        return pin_springs(self.nodes, self.stiffness)

    def hard_pin_mask(self, count: int) -> Mask:
        """Return a mask (n,) of the hard-pinned nodes. count: n."""
        found = np.zeros(count, dtype=bool)
        found[self.nodes[np.isinf(self.stiffness)]] = True
        return found


def weights_at_nodes(values: Array | None, vertices: Index) -> Array | None:
    """Return painted weights (v,) at the nodes (n,), given by their vertices, clipped to 0 to 1."""
    return None if values is None else np.clip(values[vertices], 0.0, 1.0)


def length_factors(painted: Array | None, elements: Index) -> Array:
    """Return the length factors (m,) of elements (m, k) from painted weights (n,) at the nodes."""
    if painted is None:
        return np.ones(len(elements))
    return np.asarray(_MIN_LENGTH_FACTOR + (1.0 - _MIN_LENGTH_FACTOR) * painted[elements].mean(axis=1))


def duplicate_vertices(first_coincident: Index, node_of: Index) -> Index:
    """Return pairs (d, 2): a vertex that coincides with a node's vertex, and the latter.

    first_coincident: (v,) first vertex at the same position.  node_of: (v,) node of each vertex, -1 for none.
    """
    duplicates = np.flatnonzero(
        (first_coincident != np.arange(len(first_coincident))) & (node_of[first_coincident] >= 0)
    )
    return np.stack([duplicates, first_coincident[duplicates]], axis=1)


def vertex_model(
    body: Body,
    block: BodyDiscretization,
    vertices: Index,
    duplicates: Index,
    surface_stiffness: float = 0.0,
    strands: Strands | None = None,
) -> Model:
    """Return the model of a block whose nodes are vertices (n,).

    duplicates: see VertexSkin.  surface_stiffness, strands: see Model.
    """
    count = len(body.surface.vertices)
    binding = SurfaceBinding.bind(block.rest, body.surface.vertices, np.arange(count))
    pins = BoundVertices(vertices[block.pinned], binding.subset(block.pinned))
    skin = VertexSkin(vertices, block.rest, count, duplicates)
    return Model(
        block, skin, pins, BoundVertices(vertices, binding), surface_stiffness=surface_stiffness, strands=strands
    )
