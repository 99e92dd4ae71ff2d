"""Contact model of an island, with subdivided surfaces where needed, and its contact inputs from the animation."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import combinations

import numpy as np
from scipy.sparse import coo_matrix, csr_matrix, identity, vstack
from scipy.spatial import cKDTree

from ..base.arrays import Array, Index
from ..bodies.kind import BASE_YOUNG, Model, Strands
from ..contact.collision_state import ColliderMotion, ContactInputs, KinematicMotion
from ..contact.collision_surface import CONTACT_DISTANCE_RATIO, CollisionSurface
from ..contact.contact_model import ContactModel
from ..geometry.mesh.surface import orient_outward, weld_vertices
from ..geometry.mesh.triangles import Topology
from ..scene.body import Body, BodySample, ColliderSample
from ..scene.parameters import ExitDirection, FrontDirection
from ..scene.scene import Scene
from ..system.system import System


def build_contact_model(
    scene: Scene, models: Sequence[Model], bodies: tuple[int, ...], system: System
) -> ContactModel | None:
    """Return the contact model of an island, or None if it cannot touch anything.

    bodies: scene indices of the island's bodies.
    """
    group_colliding = [k for k, body in enumerate(bodies) if scene.bodies[body].settings.touch_together]
    colliding_pairs = list(combinations(group_colliding, 2))
    touching_self = [k for k, body in enumerate(bodies) if scene.bodies[body].settings.touch_self]
    in_pieces = [k for k in touching_self if models[bodies[k]].pieces is not None]
    self_colliding = tuple(k for k in touching_self if k not in in_pieces)
    obstacle_indices = sorted({k for body in bodies for k in scene.collider_indices(scene.bodies[body])})
    for k, body in enumerate(bodies):
        colliding_pairs += [
            (k, len(bodies) + obstacle_indices.index(one)) for one in scene.collider_indices(scene.bodies[body])
        ]
    if not colliding_pairs and not self_colliding and not in_pieces:
        return None
    body_surfaces = [
        _collision_surfaces(scene.bodies[body], models[body], place, system.slices[place].start, len(system.rest))
        for place, body in enumerate(bodies)
    ]
    surfaces = [one for one, _ in body_surfaces]
    for k in obstacle_indices:
        one = scene.colliders[k]
        pin_weights = np.ones(len(one.vertices))
        triangles = one.triangles if one.is_plane else weld_coincident(one.vertices, one.triangles)
        surfaces.append(
            CollisionSurface(
                one.name, one.vertices, triangles, None, pin_weights, is_plane=one.is_plane,
                friction_scale=one.roughness_map,
            )
        )  # fmt: skip
    proxy_index: dict[int, int] = {}
    for place, (_, proxy) in enumerate(body_surfaces):
        if proxy is not None:
            proxy_index[place] = len(surfaces)
            surfaces.append(proxy)
    colliding_pairs += [
        (proxy_index.get(a, a), proxy_index.get(b, b))
        for a, b in colliding_pairs
        if a in proxy_index or b in proxy_index
    ]
    proxies = tuple((fine, body) for body, fine in proxy_index.items())
    for place in in_pieces:
        pieces = _piece_surfaces(surfaces[place], models[bodies[place]].pieces)
        colliding_pairs += combinations(range(len(surfaces), len(surfaces) + len(pieces)), 2)
        surfaces += pieces
    obstacles = [-1] * len(bodies) + obstacle_indices
    obstacles += [-1] * (len(surfaces) - len(obstacles))
    for surface in surfaces:
        surface.prepare()
    # Edge contacts expect the threads of a pair first.
    colliding_pairs = [
        (b, a) if surfaces[b].is_thread and not surfaces[a].is_thread else (a, b) for a, b in colliding_pairs
    ]
    return ContactModel(tuple(surfaces), tuple(obstacles), tuple(colliding_pairs), self_colliding, proxies)


def weld_coincident(vertices: Array, triangles: Index) -> Index:
    """Return triangles (t, 3) or edges with coincident vertices merged, as along seams. Orient triangles outwards."""
    if not len(triangles):
        return triangles
    first, label = weld_vertices(vertices)
    welded_elements = np.asarray(first[label][triangles])
    return orient_outward(vertices, welded_elements) if welded_elements.shape[1] == 3 else welded_elements


def _collision_surfaces(
    body: Body, model: Model, block_index: int, start: int, node_count: int
) -> tuple[CollisionSurface, CollisionSurface | None]:
    """Return a body's visible collision surface, and a finer proxy surface where needed.

    Nothing may pass through the visible surface. Contacts on its coarse faces must act on all nodes behind them, which
    needs the finer proxy.
    start: index of the body's first node in the system.
    node_count: number of nodes of the system.
    """
    vertices = body.surface.vertices
    triangles = weld_coincident(vertices, body.surface.triangles) if model.faces is None else model.faces
    operator, pin_weights = model.skin.node_operator()
    wires = body.edges[:0] if len(triangles) else weld_coincident(vertices, body.edges)
    expanded = _expand_columns(operator, start, node_count)
    visible_surface = CollisionSurface(
        body.name, vertices, triangles, expanded, pin_weights, None, block_index, BASE_YOUNG, wires=wires
    )
    if model.strands is not None:
        visible_surface = _as_threads(visible_surface, model.strands)
    if len(body.seams):
        visible_surface = replace(visible_surface, seam=_seam_partners(vertices, body.seams))
    if model.surface_stiffness:
        visible_surface = replace(visible_surface, young=_matching_young(visible_surface, model.surface_stiffness))
    refinement = subdivide_to_length(vertices, triangles, model.spacing) if model.spacing and len(triangles) else None
    if refinement is None or refinement.operator.shape[0] == len(vertices):
        return _with_friction_maps(body, visible_surface, None), None
    rest = np.asarray(refinement.operator @ vertices)
    nodes_of_points, weights = model.skin.weights_for_points(rest[len(vertices) :])
    point_pin_weights = np.asarray(refinement.operator[len(vertices) :] @ pin_weights)
    rows = np.arange(len(nodes_of_points)).repeat(nodes_of_points.shape[1])
    entries = (weights * (1.0 - point_pin_weights)[:, None]).ravel(), (rows, nodes_of_points.ravel())
    point_operator = coo_matrix(entries, (len(nodes_of_points), operator.shape[1])).tocsr()
    point_operator.eliminate_zeros()
    combined_operator = _expand_columns(vstack([operator, point_operator], format="csr"), start, node_count)
    pin_weights = np.concatenate([pin_weights, point_pin_weights])
    proxy = CollisionSurface(
        body.name,
        rest,
        refinement.triangles,
        combined_operator,
        pin_weights,
        refinement.operator,
        block_index,
        visible_surface.young,
    )
    # A corner has the same area share on both surfaces.
    visible_surface = replace(visible_surface, area_shares=proxy.areas[: len(vertices)], fold_length=model.spacing)
    return _with_friction_maps(body, visible_surface, None), _with_friction_maps(body, proxy, refinement.operator)


def _piece_surfaces(surface: CollisionSurface, pieces: Index | None) -> list[CollisionSurface]:
    """Return the surface of each piece of a body, with its vertices alone. pieces: see Model."""
    assert pieces is not None
    assert surface.operator is not None
    found, triangle_piece = [], pieces[surface.triangles[:, 0]]
    for piece in range(int(pieces.max()) + 1):
        own = np.flatnonzero(pieces == piece)
        index = np.full(len(pieces), -1)
        index[own] = np.arange(len(own))
        selection = coo_matrix((np.ones(len(own)), (np.arange(len(own)), own)), (len(own), len(pieces))).tocsr()
        found.append(
            replace(
                surface, rest=surface.rest[own], triangles=index[surface.triangles[triangle_piece == piece]],
                operator=surface.operator[own], pin_weight=surface.pin_weight[own], animation_operator=selection,
                friction_scale=None if surface.friction_scale is None else surface.friction_scale[own],
                front_direction=None if surface.front_direction is None else surface.front_direction[own],
            )
        )  # fmt: skip
    return found


def _as_threads(surface: CollisionSurface, strands: Strands) -> CollisionSurface:
    """Return the surface with its threads alone, which collide along their length; holes between them stay open."""
    edges = np.unique(np.sort(strands.edges, axis=1), axis=0)
    bare = surface.triangles[:0]
    return replace(
        surface, triangles=bare, wires=edges, is_thread=True, min_distance=strands.thickness, area_shares=strands.areas
    )


def _seam_partners(vertices: Array, seams: Index) -> tuple[Index, Array]:
    """Return seam partners and their rest distances, see CollisionSurface.seam. seams: (s, 2)."""
    pairs = np.concatenate([seams, seams[:, ::-1]])
    distance, nearest = cKDTree(vertices[pairs[:, 0]]).query(vertices)
    return pairs[nearest, 1], np.asarray(distance)


def _expand_columns(operator: csr_matrix, start: int, node_count: int) -> csr_matrix:
    """Expand the columns of an operator from a body's nodes to all nodes of the system."""
    wide = operator.tocoo()
    return coo_matrix((wide.data, (wide.row, wide.col + start)), shape=(wide.shape[0], node_count)).tocsr()


def _with_friction_maps(body: Body, surface: CollisionSurface, interpolation: csr_matrix | None) -> CollisionSurface:
    """Return the surface with its painted friction and its front directions.

    interpolation: (v, a) the surface's points as means of the body's vertices; None where they are the same.
    """

    def interpolate(values: Array | None) -> Array | None:
        return values if values is None or interpolation is None else np.asarray(interpolation @ values)

    if body.settings.front == FrontDirection.PAINTED:
        painted = interpolate(body.front_map)
        front = None if painted is None else _gradient_directions(surface.rest, surface.triangles, painted)
    else:
        axis_direction = front_axis(body)
        front = None if axis_direction is None else np.tile(axis_direction, (len(surface.rest), 1))
    return replace(surface, friction_scale=interpolate(body.friction_map), front_direction=front)


def front_axis(body: Body) -> Array | None:
    """Return the unit vector (3,) of a body's Front at rest; None if it is no axis."""
    axis = body.settings.front
    if axis in (FrontDirection.NONE, FrontDirection.PAINTED):
        return None
    sign, letter = axis.split("_")
    direction = body.axes["XYZ".index(letter)] * (1.0 if sign == "PLUS" else -1.0)
    return np.asarray(direction / np.linalg.norm(direction))


def _matching_young(surface: CollisionSurface, surface_stiffness: float) -> float:
    """Return Young's modulus in Pa that matches a stiffness in N/m per vertex at the default contact distance."""
    area = float(surface.areas[surface.used_vertices].mean()) if len(surface.used_vertices) else 0.0
    return surface_stiffness * CONTACT_DISTANCE_RATIO * surface.size / area if area > 0.0 else BASE_YOUNG


def _gradient_directions(vertices: Array, triangles: Index, values: Array) -> Array:
    """Return unit vectors (v, 3) along the surface gradient of painted values (v,); zero where they are constant."""
    a, b, c = (vertices[triangles[:, k]] for k in range(3))
    normal = np.cross(b - a, c - a)
    square = np.maximum(np.einsum("ti,ti->t", normal, normal), 1e-300)
    sides = enumerate((c - b, a - c, b - a))
    slope = sum(values[triangles[:, k]][:, None] * np.cross(normal, side) for k, side in sides) / square[:, None]
    total = np.zeros_like(vertices)
    area = 0.5 * np.sqrt(square)
    for k in range(3):
        np.add.at(total, triangles[:, k], area[:, None] * slope)
    length = np.linalg.norm(total, axis=1)[:, None]
    return np.where(length > 0.0, total / np.maximum(length, 1e-300), 0.0)


ContactSample = tuple[BodySample, tuple[ColliderSample, ...]]
"""Sample of a body and of all colliders at one time."""


def contact_inputs(start: ContactSample | None, end: ContactSample | None) -> ContactInputs | None:
    """Return the contact inputs from one time to another, with the dials at the end; None if contact is impossible."""
    if start is None or end is None:
        return None
    (first_body, first_colliders), (last_body, last_colliders), dials = start, end, end[0].settings
    assert dials is not None
    obstacle_motions = []
    for before, after in zip(first_colliders, last_colliders, strict=True):
        motion = KinematicMotion(before.vertices, after.vertices)
        obstacle_motions.append(ColliderMotion(motion, after.settings.roughness, after.settings.thickness))
    body_motion = KinematicMotion(first_body.vertices, last_body.vertices)
    frictions = dials.friction, dials.friction if dials.front == FrontDirection.NONE else dials.friction_back
    is_consistent = dials.depth == ExitDirection.CONSISTENT
    return ContactInputs(body_motion, dials.contact_distance, *frictions, tuple(obstacle_motions), is_consistent)


_MAX_PASSES = 12
# Largest number of points; subdivision stops before exceeding it.
_MAX_POINTS = 30_000


@dataclass(frozen=True)
class Subdivision:
    """Subdivided surface. triangles: (t, 3).  operator: (p, v), its points as means of vertices, which come first."""

    triangles: Index
    operator: csr_matrix


def subdivide_to_length(vertices: Array, triangles: Index, length: float) -> Subdivision:
    """Subdivide the surface (v, 3), (t, 3) until no edge is longer than length (m) or the maximum size is reached."""
    operator = identity(len(vertices), format="csr")
    points = vertices
    for _ in range(_MAX_PASSES):
        topology = Topology.from_triangles(triangles)
        is_long = np.linalg.norm(points[topology.edges[:, 0]] - points[topology.edges[:, 1]], axis=1) > length
        if not is_long.any() or len(points) + int(is_long.sum()) > _MAX_POINTS:
            break
        middle = np.full(len(is_long), -1)
        middle[is_long] = len(points) + np.arange(int(is_long.sum()))
        ends = topology.edges[is_long]
        rows = np.arange(len(ends)).repeat(2)
        halves = coo_matrix((np.full(2 * len(ends), 0.5), (rows, ends.ravel())), shape=(len(ends), len(points)))
        operator = vstack([operator, halves.tocsr() @ operator], format="csr")
        points = np.concatenate([points, points[ends].mean(axis=1)])
        triangles = _split_triangles(triangles, middle[topology.triangle_edges], points)
    return Subdivision(triangles, operator)


def _split_triangles(triangles: Index, middles: Index, points: Array) -> Index:
    """Split triangles (t, 3) at the midpoints (t, 3) of their sides; -1 marks sides that are not split."""
    count = (middles >= 0).sum(axis=1)
    parts = [triangles[count == 0]]
    # Rotate the corners so that the only split side, or the only unsplit side, comes first.
    for number, first in ((1, middles >= 0), (2, middles < 0)):
        selected = np.flatnonzero(count == number)
        turn = (first[selected].argmax(axis=1)[:, None] + np.arange(3)) % 3
        a, b, c = triangles[selected[:, None], turn].T
        ab, bc, ca = middles[selected[:, None], turn].T
        if number == 1:
            parts += [np.stack([a, ab, c], axis=1), np.stack([ab, b, c], axis=1)]
            continue
        parts.append(np.stack([bc, c, ca], axis=1))
        # Split the remaining quadrilateral along its shorter diagonal.
        diagonals = (np.linalg.norm(points[start] - points[end], axis=1) for start, end in ((a, bc), (b, ca)))
        is_first_longer = np.greater(*diagonals)[:, None]
        parts.append(np.where(is_first_longer, np.stack([a, b, ca], axis=1), np.stack([a, b, bc], axis=1)))
        parts.append(np.where(is_first_longer, np.stack([b, bc, ca], axis=1), np.stack([a, bc, ca], axis=1)))
    every = np.flatnonzero(count == 3)
    (a, b, c), (ab, bc, ca) = triangles[every].T, middles[every].T
    parts += [np.stack(corners, axis=1) for corners in ((a, ab, ca), (ab, b, bc), (ca, bc, c), (ab, bc, ca))]
    return np.concatenate(parts)
