"""Shared parts of kinds whose nodes are mesh vertices: pins, painted maps and the binding to the animated surface."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
from scipy.sparse import csr_matrix
from scipy.spatial import cKDTree

from ..arrays import Array, Index, Mask
from ..scene.body import HARD, Body
from ..system.block import Block
from ..system.term import PinSprings, pin_springs
from .followers import Tied, Vertices
from .kind import BASE_YOUNG
from .model import Model, Strands
from .pins import pin_strength
from .volume import LEAST_PACE

# Length factor where Length is painted 0.
_SHORTEST = 0.5


@dataclass(frozen=True)
class Moved:
    """Skin whose vertices are the nodes; vertices that are not nodes stay on the animation.

    vertices: (n,) vertex of each node.
    rest: (n, 3) m.
    count: number of vertices v.
    duplicates: (d, 2) vertices that follow another vertex, and that vertex.
    """

    vertices: Index
    rest: Array
    count: int
    doubles: Index = field(default_factory=lambda: np.zeros((0, 2), dtype=np.int64))

    def __call__(self, nodes: Array, animated: Array) -> Array:
        surface = animated.copy()
        surface[self.vertices] = nodes
        surface[self.doubles[:, 0]] = surface[self.doubles[:, 1]]
        return surface

    def carried(self) -> tuple[csr_matrix, Array]:
        nodes = np.full(self.count, -1)
        nodes[self.vertices] = np.arange(len(self.vertices))
        nodes[self.doubles[:, 0]] = nodes[self.doubles[:, 1]]
        rows = np.flatnonzero(nodes >= 0)
        operator = csr_matrix((np.ones(len(rows)), (rows, nodes[rows])), shape=(self.count, len(self.rest)))
        return operator, (nodes < 0).astype(float)

    def attached(self, points: Array) -> tuple[Index, Array]:
        _, nearest = cKDTree(self.rest).query(points)
        return nearest[:, None].astype(np.int64), np.ones((len(points), 1))


@dataclass(frozen=True)
class Held:
    """Pins of nodes that are mesh vertices.

    nodes: (p,) pinned nodes.  stiffness: (p,) N/m, infinite for hard pins.
    settle_scale: painted factors on the settle time, see BodyDiscretization.
    """

    nodes: Index
    stiffness: Array
    pace: Array | None

    @staticmethod
    def of(body: Body, vertices: Index, doubles: Index, shares: Array) -> Held:
        """Return the pins of a body.

        vertices: (n,) vertex of each node.  duplicates: see VertexSkin.
        shares: (n,) relative shares of the nodes in the total stiffness of soft pins.
        """
        # A pin on one side of a seam pins both sides.
        pins = body.pins.copy()
        np.maximum.at(pins, doubles[:, 1], pins[doubles[:, 0]])
        weights = pins[vertices]
        thickness = 1e-3 * body.settings.thickness
        stiffness = np.where(
            weights >= HARD, np.inf, pin_strength(weights) * BASE_YOUNG * thickness * shares / shares.sum()
        )
        pinned = np.flatnonzero(weights > 0.0)
        pace = painted_at(body.settle_map, vertices)
        return Held(pinned, stiffness[pinned], None if pace is None else np.maximum(pace, LEAST_PACE))

    @property
    def springs(self) -> tuple[PinSprings, ...]:
        """Force term of the soft pins; empty if there are none."""
        return pin_springs(self.nodes, self.stiffness)

    def fixed(self, count: int) -> Mask:
        """Return a mask (n,) of the hard-pinned nodes. count: n."""
        found = np.zeros(count, dtype=bool)
        found[self.nodes[np.isinf(self.stiffness)]] = True
        return found


def painted_at(values: Array | None, vertices: Index) -> Array | None:
    """Return painted weights (v,) at the nodes (n,), given by their vertices, clipped to 0 to 1."""
    return None if values is None else np.clip(values[vertices], 0.0, 1.0)


def painted_lengths(painted: Array | None, elements: Index) -> Array:
    """Return the length factors (m,) of elements (m, k) from painted weights (n,) at the nodes."""
    if painted is None:
        return np.ones(len(elements))
    return np.asarray(_SHORTEST + (1.0 - _SHORTEST) * painted[elements].mean(axis=1))


def doubled(stands: Index, place: Index) -> Index:
    """Return pairs (d, 2): a vertex that coincides with a node's vertex, and the latter.

    first_coincident: (v,) first vertex at the same position.  node_of: (v,) node of each vertex, -1 for none.
    """
    double = np.flatnonzero((stands != np.arange(len(stands))) & (place[stands] >= 0))
    return np.stack([double, stands[double]], axis=1)


def vertex_model(
    body: Body, block: Block, vertices: Index, doubles: Index, firm: float = 0.0, strands: Strands | None = None
) -> Model:
    """Return the model of a block whose nodes are vertices (n,).

    duplicates: see VertexSkin.  surface_stiffness, strands: see Model.
    """
    count = len(body.surface.vertices)
    around = Tied.tie(block.rest, body.surface.vertices, np.arange(count))
    held = Vertices(vertices[block.pinned], around.some(block.pinned))
    skin = Moved(vertices, block.rest, count, doubles)
    return Model(block, skin, held, Vertices(vertices, around), firm=firm, strands=strands)
