"""What of a scene can touch, and how an animated scene moves it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from scipy.sparse import coo_matrix, vstack

from ..arrays import Array, Index
from ..bodies.kind import BASE_YOUNG
from ..bodies.model import Model
from ..contact.model import DISTANCE, ContactModel, Touchable
from ..contact.moment import Obstructing, Span, Touching
from ..geometry.refined import refined
from ..geometry.surface import welded
from ..scene.body import Body
from ..scene.parameters import ColliderDials, Front, Settings
from ..scene.scene import Scene
from ..system.system import System
from .sampling import Animated


def contact_model(
    scene: Scene, models: Sequence[Model], bodies: tuple[int, ...], system: System
) -> ContactModel | None:
    """Of an island's bodies (places in the scene); None where nothing of it can touch anything."""
    facing: list[tuple[int, int]] = []
    together = [k for k, body in enumerate(bodies) if scene.bodies[body].settings.touch_together]
    facing += [(a, b) for place, a in enumerate(together) for b in together[place + 1 :]]
    own = tuple(k for k, body in enumerate(bodies) if scene.bodies[body].settings.touch_self)
    used = sorted({k for body in bodies for k in scene.obstacles_of(scene.bodies[body])})
    for k, body in enumerate(bodies):
        facing += [(k, len(bodies) + used.index(one)) for one in scene.obstacles_of(scene.bodies[body])]
    if not facing and not own:
        return None
    surfaces = [
        _touchable(scene.bodies[body], models[body], place, system.slices[place].start, len(system.rest))
        for place, body in enumerate(bodies)
    ]
    for k in used:
        one = scene.obstacles[k]
        hold = np.ones(len(one.vertices))
        triangles = one.triangles if one.plane else sewn(one.vertices, one.triangles)
        surfaces.append(Touchable(one.name, one.vertices, triangles, None, hold, plane=one.plane))
    obstacles = (*(-1 for _ in bodies), *used)
    return ContactModel(tuple(surfaces), obstacles, tuple(facing), own)


def sewn(vertices: Array, triangles: Index) -> Index:
    """Triangles (t, 3), or edges, with one vertex in the place of several that lie in one place, as along seams."""
    if not len(triangles):
        return triangles
    first, label = welded(vertices)
    return np.asarray(first[label][triangles])


def _touchable(body: Body, model: Model, place: int, start: int, nodes: int) -> Touchable:
    """start: of the body's nodes in the system, which has so many."""
    vertices = body.surface.vertices
    triangles = sewn(vertices, body.surface.triangles) if model.faces is None else model.faces
    operator, hold = model.skin.carried()
    fine = refined(vertices, triangles, model.spacing) if model.spacing and len(triangles) else None
    if fine is not None and fine.operator.shape[0] > len(vertices):
        # What lies between vertices is carried as the flesh there is, not as the flat faces are.
        triangles, rest = fine.triangles, np.asarray(fine.operator @ vertices)
        more = fine.operator[len(vertices) :]
        own, weights = model.skin.attached(rest[len(vertices) :])
        held = np.asarray(more @ hold)
        rows = np.arange(len(own)).repeat(own.shape[1])
        inner = coo_matrix(
            ((weights * (1.0 - held)[:, None]).ravel(), (rows, own.ravel())), (len(own), operator.shape[1])
        )
        inner = inner.tocsr()
        inner.eliminate_zeros()
        operator, hold = vstack([operator, inner], format="csr"), np.concatenate([hold, held])
    else:
        fine, rest = None, vertices
    wide = operator.tocoo()
    operator = coo_matrix((wide.data, (wide.row, wide.col + start)), shape=(len(rest), nodes)).tocsr()
    between = None if fine is None else fine.operator

    def there(values: Array | None) -> Array | None:
        return values if values is None or between is None else np.asarray(between @ values)

    front = None
    axis = body.settings.front
    if axis == Front.PAINTED:
        painted = there(body.front_map)
        front = None if painted is None else _uphill(rest, triangles, painted)
    elif axis != Front.NONE:
        sign, letter = axis.split("_")
        way = body.axes["XYZ".index(letter)] * (1.0 if sign == "PLUS" else -1.0)
        front = np.tile(way / np.linalg.norm(way), (len(rest), 1))
    found = Touchable(
        body.name, rest, triangles, operator, hold, between, place, BASE_YOUNG, False, there(body.friction_map), front,
        body.edges[:0] if len(triangles) else sewn(vertices, body.edges),
    )  # fmt: skip
    return replace(found, young=_behind(found, model.firm)) if model.firm else found


def _behind(surface: Touchable, firm: float) -> float:
    """Pa of a surface on whose vertices, in the mean, something of firm N/m would press at the usual distance."""
    area = float(surface.areas[surface.points].mean()) if len(surface.points) else 0.0
    return firm * DISTANCE * surface.size / area if area > 0.0 else BASE_YOUNG


def _uphill(vertices: Array, triangles: Index, values: Array) -> Array:
    """(v, 3) unit vectors in which painted values (v,) grow along the surface; none where they do not."""
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
    """What counts of a body where it touches something, at one time.

    surface: (v, 3) m, as it is animated.  settings: its dials.  obstacles: of the scene.
    """

    surface: Array
    settings: Settings
    obstacles: tuple[tuple[Array, ColliderDials], ...]

    @staticmethod
    def of(scene: Scene, body: int, animated: Animated) -> TouchPose:
        settings = animated.settings[body] if animated.settings else scene.bodies[body].settings
        return TouchPose(animated.bodies[body], settings, animated.obstacles)


def touching(start: TouchPose | None, end: TouchPose | None) -> Touching | None:
    """From one time to another, with the dials of the end."""
    if start is None or end is None:
        return None
    around = tuple(
        Obstructing(Span(before, after), dials.roughness, dials.thickness)
        for (before, _), (after, dials) in zip(start.obstacles, end.obstacles, strict=True)
    )
    dials = end.settings
    backward = dials.friction if dials.front == Front.NONE else dials.friction_back
    return Touching(Span(start.surface, end.surface), dials.contact_distance, dials.friction, backward, around)
