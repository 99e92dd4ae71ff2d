"""Scene handed over by Blender as plain arrays, in metres and seconds, in world space."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from ..base.arrays import Array
from ..base.errors import SceneError
from ..geometry.mesh.surface import Surface, check_vertices
from .body import Body, check_body
from .collider import Collider
from .link import Anchor, Link


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
    """

    bodies: tuple[Body, ...]
    fps: float
    gravity: Array
    first: int
    last: int
    links: tuple[Link, ...] = ()
    anchors: tuple[Anchor, ...] = ()
    colliders: tuple[Collider, ...] = ()

    @property
    def name(self) -> str:
        """Names of all bodies, for messages about the whole scene."""
        return ", ".join(body.name for body in self.bodies)

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


def check_scene(scene: Scene) -> None:
    """Raise one of the user errors (core/base/errors.py) if the scene cannot be simulated."""
    name = scene.name
    if not scene.fps > 0.0:
        raise SceneError(f"{name}: the frame rate is {scene.fps:g} per second; set one above zero.")
    if scene.last < scene.first:
        raise SceneError(f"{name}: the frame range {scene.first} to {scene.last} is empty; set an end after its start.")
    for body in scene.bodies:
        check_body(body)
        body.vertices_at(float(scene.first))
    _check_names([body.name for body in scene.bodies] + [collider.name for collider in scene.anchors])
    _check_names([obstacle.name for obstacle in scene.colliders])
    for obstacle in scene.colliders:
        check_vertices(Surface(obstacle.name, obstacle.vertices, obstacle.triangles))
    for link in scene.links:
        _check_link(scene, link)


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
