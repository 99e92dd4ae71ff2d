"""Pieces of a mesh: parts that no simulated element connects, and vertices that belong to no element.

A piece that a pin or a link reaches is simulated with it. Any other piece falls, unless it is a follower. Followers and
vertices without an element move with the nearest simulated vertices.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from scipy.sparse import coo_matrix, csr_matrix
from scipy.sparse.csgraph import connected_components
from scipy.spatial import cKDTree

from ..base.arrays import Array, Index, Mask
from ..geometry.mesh.surface import label_components, renumber_labels, weld_vertices
from ..scene.body import HARD_PIN_WEIGHT, Body
from ..system.term import PinSprings
from . import kind_by_name
from .kind import BodyKind, Model, Skin
from .solid import LatticeBody
from .surface_binding import SurfaceBinding


@dataclass(frozen=True)
class Pieces:
    """Pieces of a mesh as it is simulated.

    labels: (v,) piece of each vertex; -1 for a vertex without an element.
    is_reached: (p,) whether a pin or a link reaches each piece.
    has_loose_pins: whether pins hold vertices without an element, which hold nothing else.
    is_held: (v,) whether pins hold a vertex firmly, so that it follows nothing; None if they hold none.
    """

    labels: Index
    is_reached: Mask
    has_loose_pins: bool = False
    is_held: Mask | None = None

    @property
    def unreached_vertices(self) -> Mask:
        """Vertices (v,) of the pieces that nothing reaches."""
        return np.append(~self.is_reached, False)[self.labels]

    @property
    def unreached_count(self) -> int:
        """Number of pieces that nothing reaches; 0 if nothing is pinned or linked, so that all are meant to be free."""
        return int((~self.is_reached).sum()) if self.can_follow or self.has_loose_pins else 0

    @property
    def can_follow(self) -> bool:
        """True where something reaches a piece, with which others can move."""
        return bool(self.is_reached.any())

    @property
    def unconnected_vertices(self) -> Mask:
        """Vertices (v,) without an element."""
        return np.asarray(self.labels < 0)

    @property
    def following_vertices(self) -> Mask:
        """Vertices (v,) without an element that follow the nearest simulated ones."""
        return self.unconnected_vertices if self.is_held is None else self.unconnected_vertices & ~self.is_held


def find_pieces(body: Body, link_points: Array | None = None, labels: Index | None = None) -> Pieces:
    """Return the pieces of a body. Raises MeshError where a solid of several parts encloses no volume.

    link_points: (k, 3) m, points of its links at rest.  labels: result of label_pieces, if it is known.
    """
    labels = label_pieces(body) if labels is None else labels
    is_reached = np.zeros(int(labels.max(initial=-1)) + 1, dtype=bool)
    is_reached[labels[(body.pins > 0.0) & (labels >= 0)]] = True
    connected = np.flatnonzero(labels >= 0)
    if link_points is not None and len(link_points) and len(connected):
        _, nearest = cKDTree(body.surface.vertices[connected]).query(link_points)
        is_reached[labels[connected[nearest]]] = True
    is_held = None if body.has_changing_pins else body.pins >= HARD_PIN_WEIGHT
    return Pieces(labels, is_reached, bool((body.pins[labels < 0] > 0.0).any()), is_held)


def label_pieces(body: Body) -> Index:
    """Return the piece (v,) of each vertex; -1 for a vertex without an element. Raises MeshError, see find_pieces.

    Edges, faces, seams and coincident vertices connect vertices. Solids are connected by their tetrahedra.
    """
    kind, (_, welded) = kind_by_name(body.kind), weld_vertices(body.surface.vertices)
    has_element, labels = label_components(welded, _element_edges(kind, body), body.seams)
    if "tets" in kind.sections(body.settings) and labels.max(initial=0) > 0:
        # Parts that share tetrahedra move together, such as an eye inside a head.
        lattice = LatticeBody.of(body).mesh
        edges = np.concatenate([lattice.tets[:, [0, k]] for k in (1, 2, 3)])
        count = len(lattice.nodes)
        graph = coo_matrix((np.ones(len(edges)), (edges[:, 0], edges[:, 1])), shape=(count, count))
        _, piece_of_node = connected_components(graph, directed=False)
        labels = renumber_labels(piece_of_node[lattice.tets[lattice.embedding.tets, 0]], has_element)
    return labels


def _element_edges(kind: type[BodyKind], body: Body) -> Index:
    triangles = body.surface.triangles
    edges = [triangles[:, [0, 1]], triangles[:, [1, 2]]]
    return np.concatenate([*edges, body.edges] if kind.uses_edges else edges)


@dataclass(frozen=True)
class FollowingSkin:
    """Skin in which some vertices follow the nearest simulated ones.

    They take the rigid motion that best moves these from the animated to the simulated surface.

    skin: of all other vertices.  followers: (f,) vertices.  pins: (f,) their pin weights.
    near: (f, k) vertices that each one follows.  weights: (f, k) their weights.
    """

    skin: Skin
    followers: Index
    pins: Array
    near: Index
    weights: Array

    def __call__(self, nodes: Array, animated: Array) -> Array:
        surface = self.skin(nodes, animated)
        animated_followers, all_rotate = animated[self.followers], np.ones(len(self.followers), dtype=bool)
        positions = SurfaceBinding(animated, self.near, self.weights, animated_followers, all_rotate)(surface)
        surface[self.followers] = positions + self.pins[:, None] * (animated_followers - positions)
        return surface

    def node_operator(self) -> tuple[csr_matrix, Array]:
        operator, animation_weights = self.skin.node_operator()
        row = np.arange(len(self.followers)).repeat(self.near.shape[1])
        shape = (len(self.followers), len(animation_weights))
        means = csr_matrix(((self.weights * (1.0 - self.pins)[:, None]).ravel(), (row, self.near.ravel())), shape=shape)
        is_kept = np.ones(len(animation_weights))
        is_kept[self.followers] = 0.0
        places = (self.followers, np.arange(len(self.followers)))
        spread = csr_matrix((np.ones(len(self.followers)), places), shape=shape[::-1])
        kept = coo_matrix((is_kept, (np.arange(len(is_kept)), np.arange(len(is_kept)))))
        weights = is_kept * animation_weights + spread @ (means @ animation_weights + self.pins)
        return ((kept + spread @ means) @ operator).tocsr(), weights

    def weights_for_points(self, points: Array) -> tuple[Index, Array]:
        return self.skin.weights_for_points(points)


def build_model(body: Body) -> Model:
    """Return the model of a body, with followers. Raises the user errors of core/base/errors.py.

    If its pins change, all elements are simulated, also those between hard pins.
    """
    if not body.has_changing_pins:
        return _build_model(body)
    return with_pins(_build_model(replace(body, pins=np.zeros(len(body.pins)))), body, body.pins)


def with_pins(model: Model, body: Body, pins: Array) -> Model:
    """Return a model of the same nodes and elements with other pin weights (v,)."""
    pinned = _build_model(replace(body, pins=pins))
    own = pinned.block
    terms = [term for term in model.block.terms if not isinstance(term, PinSprings)]
    terms += [term for term in own.terms if isinstance(term, PinSprings)]
    block = replace(model.block, terms=tuple(terms), pinned=own.pinned, pin_stiffness=own.pin_stiffness)
    block = replace(block, is_net=own.is_net)
    return replace(model, block=block, skin=pinned.skin, pins=pinned.pins)


def _build_model(body: Body) -> Model:
    kind, simulated = kind_by_name(body.kind), _without_followers(body)
    edges = _element_edges(kind, simulated)
    has_element, _ = label_components(weld_vertices(body.surface.vertices)[1], edges, simulated.seams)
    if not has_element.all():
        # A pin without an element holds only its vertex.
        simulated = replace(simulated, pins=np.where(has_element, body.pins, 0.0))
    model = kind.build(simulated)
    # Elements without a size are not simulated either. Their vertices have the full weight of the animation.
    is_animated = (model.skin.node_operator()[1] >= 1.0) & (body.pins < HARD_PIN_WEIGHT)
    is_following = ~has_element | is_animated
    if not is_following.any() or is_following.all():
        return model
    skin = _follow_nearest(body, model.skin, np.flatnonzero(is_following))
    has_fewer_faces = model.faces is None and len(simulated.surface.triangles) < len(body.surface.triangles)
    return replace(model, skin=skin, faces=simulated.surface.triangles if has_fewer_faces else model.faces)


def _without_followers(body: Body) -> Body:
    """Return the body without the faces, edges and seams of its followers."""
    mask = body.follower_mask
    if mask is None or not mask.any() or mask.all():
        return body

    def keep(parts: Index) -> Index:
        return np.asarray(parts[~mask[parts].any(axis=1)])

    surface = replace(body.surface, triangles=keep(body.surface.triangles))
    return replace(body, surface=surface, edges=keep(body.edges), seams=keep(body.seams))


def _follow_nearest(body: Body, skin: Skin, followers: Index) -> FollowingSkin:
    """Return the skin in which each connected group of followers moves rigidly with the simulated vertices near it."""
    points, count = body.surface.vertices, len(body.surface.vertices)
    others = np.setdiff1d(np.arange(count), followers)
    is_follower = np.zeros(count, dtype=bool)
    is_follower[followers] = True
    triangles = body.surface.triangles
    edges = np.concatenate([triangles[:, [0, 1]], triangles[:, [1, 2]], body.edges])
    edges = edges[is_follower[edges].all(axis=1)]
    group = label_components(weld_vertices(points)[1], edges, edges[:0])[1][followers]
    # Vertices without an edge to another follower are groups of their own.
    single = np.flatnonzero(group < 0)
    group[single] = group.max(initial=-1) + 1 + np.arange(len(single))
    binding = SurfaceBinding.bind(points[followers], points, others)
    # All of a group follow the surroundings of its vertex that is nearest to a simulated one.
    distance, _ = cKDTree(points[others]).query(points[followers])
    order = np.lexsort((distance, group))
    leader = order[np.searchsorted(group[order], np.arange(group.max() + 1))][group]
    near, weights = binding.near[leader], binding.weights[leader]
    return FollowingSkin(skin, followers, body.pins[followers] ** 4, near, weights)
