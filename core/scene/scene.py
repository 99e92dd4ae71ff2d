"""Scene handed over by Blender as plain arrays, in metres and seconds, in world space: bodies, colliders and links."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace

import numpy as np

from ..base.arrays import Array, Index
from ..base.errors import SceneError
from ..base.wording import format_count
from ..geometry.mesh.surface import Surface, check_vertices
from .body import Body, BodySample, ColliderSample, Sampler, SceneSample, check_body, check_weight_range
from .parameters import Settings


@dataclass(frozen=True)
class Anchor:
    """Object that only its animation moves, and to which bodies can be linked. Scene.sampler gives its motion.

    name: unique among the bodies and anchors of the scene.
    vertices: (v, 3) m at rest.
    """

    name: str
    vertices: Array


@dataclass(frozen=True)
class LinkPoint:
    """Point attached to a body or an anchor.

    owner: name of the body or anchor.
    point: (3,) m, position at rest.
    """

    owner: str
    point: Array


@dataclass(frozen=True)
class Link:
    """Connection between two points. Simulation raises SceneError if an owner is not part of the scene.

    name: name used in messages.
    first, second: the points. They have different owners, at least one of which is a body.
    stiffness: N/m; None for a rigid link.
    """

    name: str
    first: LinkPoint
    second: LinkPoint
    stiffness: float | None = None

    @property
    def points(self) -> tuple[LinkPoint, LinkPoint]:
        return self.first, self.second


@dataclass(frozen=True)
class Collider:
    """Surface that bodies collide with. Scene.sampler gives its motion and settings.

    Simulation raises MeshError or SceneError if it is not valid.

    name: unique among the colliders of the scene.
    vertices: (v, 3) m at the first frame; samples have the same number.
    triangles: (t, 3), in any orientation; empty for an infinite plane.
    is_plane: whether it is an infinite plane. Its three vertices are then a point of the plane, and that point moved
        along the two axes of the plane. The cross product of these axes points to the upper side.
    cache_id: identifier in caches, '' to use the name.
    roughness_map: (v,) painted factors on the roughness; None if not painted. An infinite plane has none.
    """

    name: str
    vertices: Array
    triangles: Index
    is_plane: bool = False
    cache_id: str = ""
    roughness_map: Array | None = None

    @property
    def identity(self) -> str:
        """Identifier of the collider in caches."""
        return self.cache_id or self.name


# Largest valid coordinate, m. Larger ones are mistakes, and too large for accurate floating-point arithmetic.
MAX_COORDINATE = 1e9


@dataclass(frozen=True)
class Scene:
    """Bodies that are simulated together, with their links and colliders.

    Simulation raises SceneError if the scene is not valid.

    bodies: one or more.
    fps: frames per second.
    gravity: (3,) m/s^2; if keyframed, at the first frame.
    first, last: frame range, both included.
    links: links between bodies, or of bodies to anchors.
    anchors: animated objects that links are attached to.
    colliders: animated surfaces that bodies collide with.
    sampler: function from a frame to the animation of all objects; None if they stay at rest. Use sample() to call it.
    """

    bodies: tuple[Body, ...]
    fps: float
    gravity: Array
    first: int
    last: int
    links: tuple[Link, ...] = ()
    anchors: tuple[Anchor, ...] = ()
    colliders: tuple[Collider, ...] = ()
    sampler: Sampler | None = None

    @property
    def name(self) -> str:
        """Names of all bodies, for messages about the whole scene."""
        return ", ".join(body.name for body in self.bodies)

    @property
    def settings(self) -> tuple[Settings, ...]:
        """Settings of each body; if keyframed, at the first frame."""
        return tuple(body.settings for body in self.bodies)

    @property
    def frame_numbers(self) -> range:
        """Numbers of all frames."""
        return range(self.first, self.last + 1)

    @property
    def is_loop(self) -> bool:
        return any(body.settings.loop for body in self.bodies)

    @property
    def has_contact(self) -> bool:
        """Return whether any contact is possible."""
        together = sum(body.settings.touch_together for body in self.bodies) > 1
        return together or any(body.settings.touch_self or self.collider_indices(body) for body in self.bodies)

    def collider_indices(self, body: Body) -> tuple[int, ...]:
        """Return the indices of the colliders that a body collides with."""
        if not body.settings.collide:
            return ()
        return tuple(k for k, one in enumerate(self.colliders) if body.colliders is None or one.name in body.colliders)

    def body_index(self, name: str) -> int:
        """Return the index of a body by name. Raises ValueError if there is none."""
        return [body.name for body in self.bodies].index(name)

    def body(self, name: str) -> Body:
        return self.bodies[self.body_index(name)]

    def link_points(self, name: str) -> Array:
        """Return the points (k, 3) m at rest at which links hold a body."""
        points = [place.point for link in self.links for place in link.points if place.owner == name]
        return np.array(points, dtype=float).reshape(-1, 3)

    def sample(self, frame: float) -> SceneSample:
        """Return the animation of all objects at a frame, with the settings of each body.

        Samples do not depend on the order in which frames are sampled. Raises SceneError if the sampler returns other
        numbers of objects or vertices, or a coordinate that is not finite or too large.
        """
        found = self.rest_sample(frame) if self.sampler is None else self.sampler(frame)
        for what, samples, objects in (
            ("bodies", found.bodies, self.bodies),
            ("anchors", found.anchors, self.anchors),
            ("colliders", found.colliders, self.colliders),
        ):
            if len(samples) != len(objects):
                raise SceneError(f"{self.name}: the sampler returns {len(samples)} {what} instead of {len(objects)}.")
        for body, body_sample in zip(self.bodies, found.bodies, strict=True):
            _check_sampled_vertices(body.name, body_sample.vertices, len(body.surface.vertices), frame)
            if body_sample.pins is not None and body_sample.pins.shape != body.pins.shape:
                raise SceneError(f"{body.name}: the sampler returns pin weights of other vertices at frame {frame:g}.")
            if body_sample.pins is not None:
                check_weight_range(body.name, body_sample.pins)
        for collider, collider_sample in zip(self.colliders, found.colliders, strict=True):
            _check_sampled_vertices(collider.name, collider_sample.vertices, len(collider.vertices), frame)
        bodies = (
            one if body.has_animated_settings and one.settings else replace(one, settings=body.settings)
            for body, one in zip(self.bodies, found.bodies, strict=True)
        )
        return replace(found, bodies=tuple(bodies))

    def rest_sample(self, frame: float) -> SceneSample:
        """Return the sample at a frame if no object moves."""
        return SceneSample(
            frame,
            tuple(BodySample(body.surface.vertices, body.settings) for body in self.bodies),
            tuple(anchor.vertices for anchor in self.anchors),
            tuple(ColliderSample(collider.vertices) for collider in self.colliders),
        )


def check_scene(scene: Scene) -> None:
    """Raise one of the user errors (core/base/errors.py) if the scene cannot be simulated."""
    name = scene.name
    if not scene.fps > 0.0:
        raise SceneError(f"{name}: the frame rate is {scene.fps:g} per second; set one above zero.")
    if scene.last < scene.first:
        raise SceneError(f"{name}: the frame range {scene.first} to {scene.last} is empty; set an end after its start.")
    for body in scene.bodies:
        check_body(body)
    _check_names([body.name for body in scene.bodies] + [collider.name for collider in scene.anchors])
    _check_names([obstacle.name for obstacle in scene.colliders])
    for obstacle in scene.colliders:
        check_vertices(Surface(obstacle.name, obstacle.vertices, obstacle.triangles))
        painted = obstacle.roughness_map
        if painted is not None and (obstacle.is_plane or painted.shape != (len(obstacle.vertices),)):
            raise SceneError(f"{obstacle.name}: its painted roughness does not fit the mesh; choose the group again.")
        if painted is not None:
            check_weight_range(obstacle.name, painted)
    for link in scene.links:
        _check_link(scene, link)


def _check_sampled_vertices(name: str, vertices: Array, count: int, frame: float) -> None:
    """Raise SceneError unless vertices are (count, 3) valid coordinates. name: of the object."""
    if vertices.shape != (count, 3):
        raise SceneError(
            f"{name}: the mesh has {format_count(len(vertices), 'vertex')} at frame {frame:g} instead of {count}; "
            "move the modifier that changes them below the deforming ones."
        )
    if not float(np.abs(vertices).max(initial=0.0)) < MAX_COORDINATE:
        if np.isfinite(vertices).all():
            raise SceneError(
                f"{name}: it reaches farther than a million km from the world origin at frame {frame:g}; "
                "move it closer or scale it down."
            )
        raise SceneError(
            f"{name}: the animation gives vertices no valid position at frame {frame:g}; check its drivers."
        )


def _check_names(names: Iterable[str]) -> None:
    seen: set[str] = set()
    for name in names:
        if name in seen:
            raise SceneError(f"{name}: two objects of this name are simulated together; rename one of them.")
        seen.add(name)


def _check_link(scene: Scene, link: Link) -> None:
    bodies = {body.name for body in scene.bodies}
    known = bodies | {collider.name for collider in scene.anchors}
    for place in link.points:
        if place.owner not in known:
            raise SceneError(f"{link.name}: {place.owner} is not simulated with it; choose Simulate Together for both.")
    if link.first.owner == link.second.owner:
        raise SceneError(f"{link.name}: it links {link.first.owner} to itself; choose two objects.")
    if not bodies & {link.first.owner, link.second.owner}:
        raise SceneError(f"{link.name}: neither end is simulated; link a simulated object.")
