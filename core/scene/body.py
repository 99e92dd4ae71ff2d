"""One simulated object as plain arrays, in metres and seconds, in world space."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np

from ..base.arrays import Array, Index
from ..base.errors import PinError, SceneError
from ..fields.field import ExternalForces
from ..geometry.mesh.surface import Surface
from .muscles import Controller, SensorInputsByFrame, check_controller
from .parameters import ReferenceChoice, Settings

Motion = Callable[[float], Array]
"""Function from a frame, which may be fractional, to the animated vertex positions (v, 3) m."""
# Largest valid coordinate, m. Larger ones are mistakes, and too large for accurate floating-point arithmetic.
_MAX_COORDINATE = 1e9
# Pin weight from which a pin is hard.
HARD_PIN_WEIGHT = 0.999


def _no_edges() -> Index:
    return np.zeros((0, 2), dtype=np.int64)


@dataclass(frozen=True)
class Body:
    """Geometry, settings and animation of one simulated object.

    Arrays are in world space. Simulation checks them, and raises one of the user errors if they are not valid.
    A map (v,) holds the painted weight of each vertex, and is None if it is not painted.

    surface: the surface at rest.
    pins: (v,) weights 0 to 1 with which the vertices follow the animation.
    settings: the parameters; if keyframed, at the first frame.
    motion: animated positions of the vertices.
    kind: name of one of bodies.registry.KINDS.
    edges: (e, 2) edges of the mesh, for kinds that use them.
    settle_map: (v,) factors on the settle time.
    stiffness_map: (v,) 0 to 1, see bodies.solid.
    length_map: (v,) 0 to 1, see bodies.vertex_nodes.
    centre_map: (v,) 0 to 1, weights that define the centre of damping forces along rays.
    external_forces: gravity and the force fields at a frame; None if there is only constant gravity. Call it only
        for the frame of the last call of motion.
    settings_by_frame: the settings at a frame, of which only animatable ones are used; None if nothing is keyframed.
    is_deforming: whether the animation deforms the mesh, beyond moving it rigidly.
    cache_id: identifier of the object in caches, independent of its name; '' to use the name.
    friction_map: (v,) factors on the friction.
    front_map: (v,) weights that increase towards the front, see the parameter of that name.
    fibre_map: (v,) 0 to 1, strength of the fibres; None without fibres.
    fibre_direction: (v,) weights that increase from 0 to 1 along the fibres.
    axes: (3, 3) local axes of the object at rest in world space, one per row.
    colliders: names of the scene's colliders that it collides with; None for all.
    seams: (s, 2) vertices that are sewn together, for cloth.
    controller: switches the muscles; None without muscles.
    sensor_inputs: animated inputs of the controller; None if it has none.
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
    settings_by_frame: Callable[[float], Settings] | None = None
    is_deforming: bool = False
    cache_id: str = ""
    centre_map: Array | None = None
    external_forces: Callable[[float], ExternalForces] | None = None
    friction_map: Array | None = None
    front_map: Array | None = None
    axes: Array = field(default_factory=lambda: np.eye(3))
    colliders: tuple[str, ...] | None = None
    seams: Index = field(default_factory=_no_edges)
    controller: Controller | None = None
    fibre_map: Array | None = None
    fibre_direction: Array | None = None
    sensor_inputs: SensorInputsByFrame | None = None

    @property
    def identity(self) -> str:
        """Identifier of the body in caches."""
        return self.cache_id or self.name

    @property
    def name(self) -> str:
        """Name of the object, unique among the bodies of a scene."""
        return self.surface.name

    @property
    def unpinned_size(self) -> float:
        """Size in m of the part that is not pinned hard, see unpinned_size()."""
        return unpinned_size(self.surface.vertices, self.pins, self.surface.triangles, self.edges)

    @property
    def maps(self) -> dict[str, Array | None]:
        """Painted maps by the names that messages and cache headers use."""
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
    def reference_motion(self) -> str:
        """Reference motion that applies: PINS, MESH or NONE, never AUTO."""
        chosen = self.settings.carrier
        if chosen != ReferenceChoice.AUTO:
            return chosen
        return ReferenceChoice.MESH if self.is_deforming else ReferenceChoice.PINS

    def settings_at(self, frame: float) -> Settings:
        """Return the settings at a frame, which must be that of the last call of motion."""
        return self.settings if self.settings_by_frame is None else self.settings_by_frame(frame)

    def vertices_at(self, frame: float) -> Array:
        """Return the animated vertices (v, 3) m at a frame. Raises SceneError, see animated_vertices()."""
        return animated_vertices(self.name, self.motion, len(self.surface.vertices), frame)


def animated_vertices(name: str, motion: Motion, count: int, frame: float) -> Array:
    """Return the animated vertices (count, 3) m at a frame.

    Raises SceneError if their number differs from count, or a coordinate is not finite or too large.
    """
    positions = motion(frame)
    if positions.shape != (count, 3):
        raise SceneError(
            f"{name}: the mesh has {len(positions)} vertices at frame {frame:g} instead of {count}; "
            "move the modifier that changes them below the deforming ones."
        )
    if not float(np.abs(positions).max(initial=0.0)) < _MAX_COORDINATE:
        raise SceneError(
            f"{name}: the animation gives vertices no valid position at frame {frame:g}; check its drivers."
        )
    return positions


def unpinned_size(vertices: Array, pins: Array, *parts: Index) -> float:
    """Return the size in m that Sag refers to: the diagonal of the bounding box of elements not entirely hard-pinned.

    vertices: (v, 3) m.  pins: (v,).  parts: (k, 2) edges or (k, 3) triangles.
    """
    free = np.concatenate([part[(pins < HARD_PIN_WEIGHT)[part].any(axis=1)].ravel() for part in parts])
    return float(np.linalg.norm(np.ptp(vertices[free] if len(free) else vertices, axis=0)))


def check_body(body: Body) -> None:
    """Raise PinError if painted weights do not fit the mesh, SceneError if the muscle controller is invalid."""
    for weights in (body.pins, *body.maps.values()):
        if weights is not None and weights.shape != (len(body.surface.vertices),):
            raise PinError(f"{body.name}: the painted weights do not fit the mesh; choose the vertex groups again.")
    if body.controller is not None:
        check_controller(body.name, body.controller)
