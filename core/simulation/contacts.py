"""Contact model of an island, and its contact inputs from the animation."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from scipy.sparse import coo_matrix, csr_matrix, vstack
from scipy.spatial import cKDTree

from ..arrays import Array, Index
from ..bodies.kind import BASE_YOUNG
from ..bodies.model import Model, Strands
from ..contact.model import ContactModel
from ..contact.moment import Obstructing, Span, Touching
from ..contact.touchable import DISTANCE, Touchable
from ..geometry.outwards import turned_outwards
from ..geometry.refined import refined
from ..geometry.surface import welded
from ..scene.body import Body
from ..scene.parameters import ColliderDials, Depth, Front, Settings
from ..scene.scene import Scene
from ..system.system import System
from .sampling import Animated


def contact_model(
    scene: Scene, models: Sequence[Model], bodies: tuple[int, ...], system: System
) -> ContactModel | None:
    """Return the contact model of an island, or None if it cannot touch anything.

    bodies: scene indices of the island's bodies.
    """
    facing: list[tuple[int, int]] = []
    together = [k for k, body in enumerate(bodies) if scene.bodies[body].settings.touch_together]
    facing += [(a, b) for place, a in enumerate(together) for b in together[place + 1 :]]
    own = tuple(k for k, body in enumerate(bodies) if scene.bodies[body].settings.touch_self)
    used = sorted({k for body in bodies for k in scene.obstacles_of(scene.bodies[body])})
    for k, body in enumerate(bodies):
        facing += [(k, len(bodies) + used.index(one)) for one in scene.obstacles_of(scene.bodies[body])]
    if not facing and not own:
        return None
    made = [
        _touchables(scene.bodies[body], models[body], place, system.slices[place].start, len(system.rest))
        for place, body in enumerate(bodies)
    ]
    surfaces = [one for one, _ in made]
    for k in used:
        one = scene.obstacles[k]
        hold = np.ones(len(one.vertices))
        triangles = one.triangles if one.plane else sewn(one.vertices, one.triangles)
        surfaces.append(Touchable(one.name, one.vertices, triangles, None, hold, plane=one.plane))
    obstacles = [*(-1 for _ in bodies), *used]
    finer: dict[int, int] = {}
    for place, (_, flesh) in enumerate(made):
        if flesh is not None:
            finer[place] = len(surfaces)
            surfaces.append(flesh)
            obstacles.append(-1)
    facing += [(finer.get(a, a), finer.get(b, b)) for a, b in facing if a in finer or b in finer]
    flesh_of = tuple((fine, body) for body, fine in finer.items())
    for surface in surfaces:
        surface.prepare()
    return ContactModel(tuple(surfaces), tuple(obstacles), tuple(facing), own, flesh_of)


def sewn(vertices: Array, triangles: Index) -> Index:
    """Return triangles (t, 3) or edges with coincident vertices merged, as along seams. Orient triangles outwards."""
    if not len(triangles):
        return triangles
    first, label = welded(vertices)
    joined = np.asarray(first[label][triangles])
    return turned_outwards(vertices, joined) if joined.shape[1] == 3 else joined


def _touchables(body: Body, model: Model, place: int, start: int, nodes: int) -> tuple[Touchable, Touchable | None]:
    """Return a body's visible collision surface, and a finer proxy surface where needed.

    Nothing may pass through the visible surface. Contacts on its coarse faces must act on all nodes behind them, which
    needs the finer proxy.
    start: index of the body's first node in the system.
    nodes: node count of the system.
    """
    vertices = body.surface.vertices
    triangles = sewn(vertices, body.surface.triangles) if model.faces is None else model.faces
    operator, hold = model.skin.carried()
    wires = body.edges[:0] if len(triangles) else sewn(vertices, body.edges)
    placed = _placed(operator, start, nodes)
    seen = Touchable(body.name, vertices, triangles, placed, hold, None, place, BASE_YOUNG, wires=wires)
    if model.strands is not None:
        seen = _strung(seen, model.strands)
    if len(body.seams):
        seen = replace(seen, seam=_beyond(vertices, body.seams))
    if model.firm:
        seen = replace(seen, young=_behind(seen, model.firm))
    fine = refined(vertices, triangles, model.spacing) if model.spacing and len(triangles) else None
    if fine is None or fine.operator.shape[0] == len(vertices):
        return _rough(body, seen, None), None
    rest = np.asarray(fine.operator @ vertices)
    own, weights = model.skin.attached(rest[len(vertices) :])
    held = np.asarray(fine.operator[len(vertices) :] @ hold)
    rows = np.arange(len(own)).repeat(own.shape[1])
    inner = coo_matrix(((weights * (1.0 - held)[:, None]).ravel(), (rows, own.ravel())), (len(own), operator.shape[1]))
    inner = inner.tocsr()
    inner.eliminate_zeros()
    both = _placed(vstack([operator, inner], format="csr"), start, nodes)
    hold = np.concatenate([hold, held])
    flesh = Touchable(body.name, rest, fine.triangles, both, hold, fine.operator, place, seen.young)
    # A corner has the same area share on both surfaces.
    seen = replace(seen, shares=flesh.areas[: len(vertices)], fold=model.spacing)
    return _rough(body, seen, None), _rough(body, flesh, fine.operator)


def _strung(surface: Touchable, strands: Strands) -> Touchable:
    """Return the surface with its threads alone, which collide along their length; holes between them stay open."""
    edges = np.unique(np.sort(strands.edges, axis=1), axis=0)
    bare = surface.triangles[:0]
    return replace(surface, triangles=bare, wires=edges, strung=True, least=strands.thickness, shares=strands.areas)


def _beyond(vertices: Array, seams: Index) -> tuple[Index, Array]:
    """Return seam partners and their rest distances, see CollisionSurface.seam. seams: (s, 2)."""
    pairs = np.concatenate([seams, seams[:, ::-1]])
    way, nearest = cKDTree(vertices[pairs[:, 0]]).query(vertices)
    return pairs[nearest, 1], np.asarray(way)


def _placed(operator: csr_matrix, start: int, nodes: int) -> csr_matrix:
    """Expand the columns of an operator from a body's nodes to all nodes of the system."""
    wide = operator.tocoo()
    return coo_matrix((wide.data, (wide.row, wide.col + start)), shape=(wide.shape[0], nodes)).tocsr()


def _rough(body: Body, surface: Touchable, between: csr_matrix | None) -> Touchable:
    """Return the surface with its painted friction and its front directions.

    between: (v, a) the surface's points as means of the body's vertices; None where they are the same.
    """

    def there(values: Array | None) -> Array | None:
        return values if values is None or between is None else np.asarray(between @ values)

    front = None
    axis = body.settings.front
    if axis == Front.PAINTED:
        painted = there(body.front_map)
        front = None if painted is None else _uphill(surface.rest, surface.triangles, painted)
    elif axis != Front.NONE:
        sign, letter = axis.split("_")
        way = body.axes["XYZ".index(letter)] * (1.0 if sign == "PLUS" else -1.0)
        front = np.tile(way / np.linalg.norm(way), (len(surface.rest), 1))
    return replace(surface, rough=there(body.friction_map), front=front)


def _behind(surface: Touchable, firm: float) -> float:
    """Return Young's modulus in Pa that matches a stiffness in N/m per vertex at the default contact distance."""
    area = float(surface.areas[surface.points].mean()) if len(surface.points) else 0.0
    return firm * DISTANCE * surface.size / area if area > 0.0 else BASE_YOUNG


def _uphill(vertices: Array, triangles: Index, values: Array) -> Array:
    """Return unit vectors (v, 3) along the surface gradient of painted values (v,); zero where they are constant."""
    a, b, c = (vertices[triangles[:, k]] for k in range(3))
    normal = np.cross(b - a, c - a)
    square = np.maximum(np.einsum("ti,ti->t", normal, normal), 1e-300)
    slope = (
        sum(values[triangles[:, k]][:, None] * np.cross(normal, side) for k, side in enumerate((c - b, a - c, b - a)))
        / square[:, None]
    )
    total = np.zeros_like(vertices)
    area = 0.5 * np.sqrt(square)
    for k in range(3):
        np.add.at(total, triangles[:, k], area[:, None] * slope)
    length = np.linalg.norm(total, axis=1)[:, None]
    return np.where(length > 0.0, total / np.maximum(length, 1e-300), 0.0)


@dataclass(frozen=True)
class TouchPose:
    """Contact data of a body at one time.

    surface: (v, 3) m, animated.
    settings: the body's dials.
    obstacles: animated vertices and dials of the scene's colliders.
    """

    surface: Array
    settings: Settings
    obstacles: tuple[tuple[Array, ColliderDials], ...]

    @staticmethod
    def of(scene: Scene, body: int, animated: Animated) -> TouchPose:
        """Return the contact data of a body in a sample of the scene."""
        settings = animated.settings[body] if animated.settings else scene.bodies[body].settings
        return TouchPose(animated.bodies[body], settings, animated.obstacles)


def touching(start: TouchPose | None, end: TouchPose | None) -> Touching | None:
    """Return the contact inputs from one time to another, with the dials at the end; None if contact is impossible."""
    if start is None or end is None:
        return None
    around = tuple(
        Obstructing(Span(before, after), dials.roughness, dials.thickness)
        for (before, _), (after, dials) in zip(start.obstacles, end.obstacles, strict=True)
    )
    dials = end.settings
    backward = dials.friction if dials.front == Front.NONE else dials.friction_back
    same = dials.depth == Depth.CONSISTENT
    return Touching(Span(start.surface, end.surface), dials.contact_distance, dials.friction, backward, around, same)
