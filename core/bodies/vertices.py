"""What is common to kinds whose nodes are the mesh's own vertices: pins, what is painted, and how they follow."""

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

# Part of the modelled length where Length is painted 0.
_SHORTEST = 0.5


@dataclass(frozen=True)
class Moved:
    """A surface whose vertices are the nodes; those without a spring stay on the animation.

    vertices: (n,) which vertex each node is.
    rest: (n, 3) m.
    count: v.
    doubles: (d, 2) vertices that go along with another one, and which.
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
    """How vertices that are nodes are held.

    nodes: (p,) pinned ones.  stiffness: (p,) N/m, infinite for hard pins.  pace: see Block.
    """

    nodes: Index
    stiffness: Array
    pace: Array | None

    @staticmethod
    def of(body: Body, vertices: Index, doubles: Index, shares: Array) -> Held:
        """vertices: (n,) which each node is.  doubles: see Moved.  shares: (n,) of soft pins' stiffness in all."""
        # What holds one of a seam's two sides holds both.
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
        """The term of the soft ones, if there are any."""
        return pin_springs(self.nodes, self.stiffness)

    def fixed(self, count: int) -> Mask:
        """(n,) whether a node is pinned hard."""
        found = np.zeros(count, dtype=bool)
        found[self.nodes[np.isinf(self.stiffness)]] = True
        return found


def painted_at(values: Array | None, vertices: Index) -> Array | None:
    """Weights (v,) at the nodes (n,), which are vertices; 0 to 1."""
    return None if values is None else np.clip(values[vertices], 0.0, 1.0)


def painted_lengths(painted: Array | None, elements: Index) -> Array:
    """Parts of the modelled length of elements (m, k) for weights (n,) at the nodes."""
    if painted is None:
        return np.ones(len(elements))
    return np.asarray(_SHORTEST + (1.0 - _SHORTEST) * painted[elements].mean(axis=1))


def doubled(stands: Index, place: Index) -> Index:
    """(d, 2) vertices that lie where another one does that is a node, and that one.

    stands: (v,) the first vertex in each one's place.  place: (v,) of each vertex among the nodes, -1 for none.
    """
    double = np.flatnonzero((stands != np.arange(len(stands))) & (place[stands] >= 0))
    return np.stack([double, stands[double]], axis=1)


def vertex_model(
    body: Body, block: Block, vertices: Index, doubles: Index, firm: float = 0.0, strands: Strands | None = None
) -> Model:
    """The model of a block whose nodes are vertices (n,). doubles: see Moved.  firm, strands: see Model."""
    count = len(body.surface.vertices)
    around = Tied.tie(block.rest, body.surface.vertices, np.arange(count))
    held = Vertices(vertices[block.pinned], around.some(block.pinned))
    skin = Moved(vertices, block.rest, count, doubles)
    return Model(block, skin, held, Vertices(vertices, around), firm=firm, strands=strands)
