"""One of the artist's objects, as plain arrays: metres and seconds, world space."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np

from ..arrays import Array, Index
from ..errors import PinError, SceneError
from ..fields.field import Outside
from ..geometry.surface import Surface
from .muscles import Controller, Watching, check_controller
from .parameters import Reference, Settings

Motion = Callable[[float], Array]
"""The positions (v, 3) m that the artist's animation gives the vertices at a frame, fractions included."""
# No animation goes farther, m; numbers beyond it are mistakes, and lose their digits.
_FAR = 1e9
# From this weight on a pin is hard.
HARD = 0.999


def _no_edges() -> Index:
    return np.zeros((0, 2), dtype=np.int64)


@dataclass(frozen=True)
class Body:
    """What is simulated of one object.

    surface: at rest.
    pins: (v,) weights 0 to 1 with which the vertices follow the animation.
    settings: the dials; at the first frame, where they are keyframed.
    motion: of the vertices.
    kind: one of bodies.registry.KINDS by name.
    edges: (e, 2) of the mesh, for kinds that look at them.
    settle_map: (v,) parts of the settle time; None where not painted.
    stiffness_map: (v,) 0 to 1, see bodies.volume; None where not painted.
    length_map: (v,) 0 to 1, see bodies.springs; None where not painted.
    centre_map: (v,) 0 to 1, see damping.direct.shared; None where not painted.
    outside: gravity and the force fields at a frame for which the motion was just asked; None where there is but the
        scene's gravity, and that stands still.
    dials: the settings at a frame, of which the animatable ones count; None where nothing is keyframed.
    deforming: whether the animation bends the mesh, beyond moving it as a whole.
    mark: what the object is known by in caches, where its name may change; '' for its name.
    friction_map: (v,) parts of the friction; None where not painted.
    front_map: (v,) what is painted more towards the front, see the parameter of that name; None where not painted.
    fibre_map: (v,) 0 to 1, how strong its fibres are; None where it has none.
    fibre_direction: (v,) what is painted from 0 to 1 along the fibres; None where not painted.
    axes: (3, 3) the object's own axes at rest in world space, a row each.
    obstacles: names of the scene's obstacles that it stops at; None for all.
    seams: (s, 2) vertices that are sewn together, for cloth.
    controller: what switches springs; None where nothing does.
    watched: what the animation tells the controller; None where that is nothing.
    """

    surface: Surface
    pins: Array
    settings: Settings
    motion: Motion
    kind: str = "SOLID"
    edges: Index = field(default_factory=_no_edges)
    settle_map: Array | None = None
    stiffness_map: Array | None = None
    length_map: Array | None = None
    dials: Callable[[float], Settings] | None = None
    deforming: bool = False
    mark: str = ""
    centre_map: Array | None = None
    outside: Callable[[float], Outside] | None = None
    friction_map: Array | None = None
    front_map: Array | None = None
    axes: Array = field(default_factory=lambda: np.eye(3))
    obstacles: tuple[str, ...] | None = None
    seams: Index = field(default_factory=_no_edges)
    controller: Controller | None = None
    fibre_map: Array | None = None
    fibre_direction: Array | None = None
    watched: Watching | None = None

    @property
    def identity(self) -> str:
        """What the body is known by in caches."""
        return self.mark or self.name

    @property
    def name(self) -> str:
        """Of the object; no two bodies of a scene share one."""
        return self.surface.name

    @property
    def hanging_size(self) -> float:
        """See hanging_size()."""
        return hanging_size(self.surface.vertices, self.pins, self.surface.triangles, self.edges)

    @property
    def maps(self) -> dict[str, Array | None]:
        """What is painted, by names an artist knows."""
        return {
            "the painted Settle": self.settle_map,
            "the painted Stiffness": self.stiffness_map,
            "the painted Length": self.length_map,
            "the painted Centre": self.centre_map,
            "the painted Friction": self.friction_map,
            "the painted Front": self.front_map,
            "the painted Fibres": self.fibre_map,
            "the painted Direction": self.fibre_direction,
        }

    @property
    def reference(self) -> str:
        """The reference motion in force: PINS, MESH or NONE."""
        chosen = self.settings.carrier
        if chosen != Reference.AUTO:
            return chosen
        return Reference.MESH if self.deforming else Reference.PINS

    def at(self, frame: float) -> Settings:
        """The settings at a frame for which the motion was just asked."""
        return self.settings if self.dials is None else self.dials(frame)

    def animated(self, frame: float) -> Array:
        """Vertices (v, 3) m at a frame. Raises SceneError where they are not the mesh's, or nowhere."""
        return animated_vertices(self.name, self.motion, len(self.surface.vertices), frame)


def animated_vertices(name: str, motion: Motion, count: int, frame: float) -> Array:
    """Vertices (count, 3) m at a frame. Raises SceneError where they are not as many, or nowhere."""
    positions = motion(frame)
    if positions.shape != (count, 3):
        raise SceneError(
            f"{name}: the mesh has {len(positions)} vertices at frame {frame:g} instead of {count}; "
            "move the modifier that changes them below the deforming ones."
        )
    if not float(np.abs(positions).max(initial=0.0)) < _FAR:
        raise SceneError(
            f"{name}: the animation gives vertices no valid position at frame {frame:g}; check its drivers."
        )
    return positions


def hanging_size(vertices: Array, pins: Array, *parts: Index) -> float:
    """Diagonal of the box around what is not pinned hard altogether, m: what Sag is a part of.

    vertices: (v, 3) m.  pins: (v,).  parts: (k, 2) edges or (k, 3) triangles.
    """
    there = np.concatenate([part[(pins < HARD)[part].any(axis=1)].ravel() for part in parts])
    return float(np.linalg.norm(np.ptp(vertices[there] if len(there) else vertices, axis=0)))


def check_body(body: Body) -> None:
    """Raise PinError where painted weights do not fit the mesh."""
    for weights in (body.pins, *body.maps.values()):
        if weights is not None and weights.shape != (len(body.surface.vertices),):
            raise PinError(f"{body.name}: the painted weights do not fit the mesh; choose the vertex groups again.")
    if body.controller is not None:
        check_controller(body.name, body.controller)
