"""What of a scene can touch, and how an animated scene moves it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from scipy.sparse import csr_matrix

from ..arrays import Array, Index
from ..bodies.kind import BASE_YOUNG
from ..bodies.model import Model
from ..contact.model import ContactModel, Touchable, stacked
from ..contact.moment import Obstructing, Span, Touching
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
    carried = [models[body].skin.carried() for body in bodies]
    operators = stacked([one[0] for one in carried], [part.start for part in system.slices], len(system.rest))
    surfaces = [
        _touchable(scene.bodies[body], place, operators[place], carried[place][1]) for place, body in enumerate(bodies)
    ]
    for k in used:
        one = scene.obstacles[k]
        hold = np.ones(len(one.vertices))
        triangles = one.triangles if one.plane else sewn(one.vertices, one.triangles)
        surfaces.append(Touchable(one.name, one.vertices, triangles, None, hold, plane=one.plane))
    obstacles = (*(-1 for _ in bodies), *used)
    return ContactModel(tuple(surfaces), obstacles, tuple(facing), own)


def sewn(vertices: Array, triangles: Index) -> Index:
    """Triangles (t, 3) with one vertex in the place of several that lie in one place, as along seams."""
    if not len(triangles):
        return triangles
    first, label = welded(vertices)
    return np.asarray(first[label][triangles])


def _touchable(body: Body, place: int, operator: csr_matrix, hold: Array) -> Touchable:
    rest, triangles = body.surface.vertices, sewn(body.surface.vertices, body.surface.triangles)
    front = None
    axis = body.settings.front
    if axis == Front.PAINTED:
        front = None if body.front_map is None else _uphill(rest, triangles, body.front_map)
    elif axis != Front.NONE:
        sign, letter = axis.split("_")
        way = body.axes["XYZ".index(letter)] * (1.0 if sign == "PLUS" else -1.0)
        front = np.tile(way / np.linalg.norm(way), (len(rest), 1))
    return Touchable(body.name, rest, triangles, operator, hold, place, BASE_YOUNG, False, body.friction_map, front)


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
