"""One simulated object as plain arrays, and samples of a scene at one time, in metres and seconds, in world space."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from ..base.arrays import Array, Index, Mask
from ..base.errors import PinError, SceneError
from ..fields.field import ExternalForces
from ..geometry.mesh.surface import Surface
from .muscles import Controller, SensorInputs, check_controller
from .parameters import ColliderSettings, ReferenceChoice, Settings
from .part import Part, check_parts

# Memory of the kept samples, bytes: 250 frames of 40,000 vertices. Further ones are read again, which takes a few per
# cent of the time that frames of such sizes take to simulate.
_MAX_KEPT_BYTES = 2**28
# Pin weight from which a pin is hard.
HARD_PIN_WEIGHT = 0.999


@dataclass(frozen=True)
class BodySample:
    """Body at one time.

    vertices: (v, 3) m, animated, in world space.
    settings: of which only animatable ones are used; those of the body unless Body.has_animated_settings.
    external_forces: gravity and force fields; None if there is only the scene's constant gravity.
    sensor_inputs: animated inputs of the muscle controller; None if it has none.
    pins: (v,) evaluated pin weights; None if they are those of the body.
    """

    vertices: Array
    settings: Settings | None = None
    external_forces: ExternalForces | None = None
    sensor_inputs: SensorInputs | None = None
    pins: Array | None = None


@dataclass(frozen=True)
class ColliderSample:
    """Collider at one time. vertices: (v, 3) m, animated, in world space."""

    vertices: Array
    settings: ColliderSettings = field(default_factory=ColliderSettings)


@dataclass(frozen=True)
class SceneSample:
    """Scene at one time, with its objects in the scene's order.

    frame: may be fractional.
    anchors: (v, 3) m of each anchor, animated, in world space.
    """

    frame: float
    bodies: tuple[BodySample, ...]
    anchors: tuple[Array, ...] = ()
    colliders: tuple[ColliderSample, ...] = ()

    @property
    def settings(self) -> tuple[Settings, ...]:
        """Settings of each body, in a sample by Scene.sample()."""
        return tuple(body.settings for body in self.bodies if body.settings is not None)

    def with_body(self, index: int, **changes: Any) -> SceneSample:
        """Return the sample with other fields of one body."""
        changed = replace(self.bodies[index], **changes)
        return replace(self, bodies=(*self.bodies[:index], changed, *self.bodies[index + 1 :]))

    def size_in_bytes(self) -> int:
        """Return the memory of the vertices and weights, which are nearly all of a sample."""
        colliders = [collider.vertices for collider in self.colliders]
        pins = [body.pins for body in self.bodies if body.pins is not None]
        return sum(one.nbytes for one in (*(body.vertices for body in self.bodies), *pins, *self.anchors, *colliders))


Sampler = Callable[[float], SceneSample]
"""Function from a frame, which may be fractional, to the sample of a scene there."""


class SampleStore:
    """Sampler that keeps samples, so that frames that were checked are not read again.

    It keeps those of whole frames, and all those of a loop, which is simulated several times.

    size: kept memory, bytes.
    """

    def __init__(self, sampler: Sampler, is_loop: bool) -> None:
        self._sampler, self._is_loop = sampler, is_loop
        self._samples: dict[float, SceneSample] = {}
        self.size = 0

    def __call__(self, frame: float) -> SceneSample:
        """Return the sample at a frame."""
        if frame in self._samples:
            return self._samples[frame]
        found = self._sampler(frame)
        size = found.size_in_bytes()
        if (self._is_loop or frame == round(frame)) and self.size + size <= _MAX_KEPT_BYTES:
            self._samples[frame] = found
            self.size += size
        return found


def _no_edges() -> Index:
    return np.zeros((0, 2), dtype=np.int64)


@dataclass(frozen=True)
class Body:
    """Geometry and settings of one simulated object. Scene.sampler gives its animation.

    Arrays are in world space. Simulation checks them, and raises one of the user errors if they are not valid.
    A map (v,) holds the painted weight of each vertex, and is None if it is not painted.

    surface: the surface at rest.
    pins: (v,) weights 0 to 1 with which the vertices follow the animation, at the first frame and without Hold.
    settings: the parameters; if keyframed, at the first frame.
    kind: name of one of bodies.KINDS.
    edges: (e, 2) edges of the mesh, for kinds that use them.
    settle_map: (v,) factors on the settle time.
    stiffness_map: (v,) 0 to 1, see bodies.solid.
    length_map: (v,) 0 to 1, see bodies.vertex_nodes.
    dampers: (e,) N s/m, damper of each edge, beside the damping of the body; None without such dampers.
    centre_map: (v,) 0 to 1, weights that define the centre of damping forces along rays.
    has_animated_settings: whether the settings of its samples are used; if not, they are constant.
    has_animated_pressure: whether their pressure is used too; otherwise that of `settings` is constant.
    has_animated_pins: whether Hold or the pin weights of its samples change.
    is_deforming: whether the animation deforms the mesh, beyond moving it rigidly.
    cache_id: identifier of the object in caches, independent of its name; '' to use the name.
    damping_map: (v,) factors on the strain-rate damping; None if not painted.
    friction_map: (v,) factors on the friction.
    front_map: (v,) weights that increase towards the front, see the parameter of that name.
    fibre_map: (v,) 0 to 1, strength of the fibres; None without fibres.
    fibre_direction: (v,) weights that increase from 0 to 1 along the fibres.
    axes: (3, 3) local axes of the object at rest in world space, one per row.
    colliders: names of the scene's colliders that it collides with; None for all.
    seams: (s, 2) vertices that are sewn together, for cloth.
    controller: switches the muscles; None without muscles.
    parts: parts with dials of their own.
    follower_mask: (v,) vertices of pieces that are not simulated, but follow the nearest other vertices; None for none.
    """

    surface: Surface
    pins: Array
    settings: Settings
    kind: str = "SOLID"
    edges: Index = field(default_factory=_no_edges)
    settle_map: Array | None = None
    stiffness_map: Array | None = None
    length_map: Array | None = None
    has_animated_settings: bool = False
    has_animated_pressure: bool = False
    has_animated_pins: bool = False
    is_deforming: bool = False
    cache_id: str = ""
    centre_map: Array | None = None
    friction_map: Array | None = None
    front_map: Array | None = None
    axes: Array = field(default_factory=lambda: np.eye(3))
    colliders: tuple[str, ...] | None = None
    seams: Index = field(default_factory=_no_edges)
    controller: Controller | None = None
    fibre_map: Array | None = None
    fibre_direction: Array | None = None
    follower_mask: Mask | None = None
    parts: tuple[Part, ...] = ()
    dampers: Array | None = None
    damping_map: Array | None = None

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
    def is_inflated(self) -> bool:
        """Return whether air presses on the sheet of the body at any time."""
        return self.settings.pressure != 0.0 or self.has_animated_pressure

    @property
    def has_changing_pins(self) -> bool:
        """Return whether the pins of any frame differ from `pins`."""
        return self.has_animated_pins or self.settings.hold != 1.0

    def pins_at(self, sample: BodySample) -> Array:
        """Return the pin weights (v,) in a sample by Scene.sample(), multiplied by Hold."""
        settings = sample.settings or self.settings
        return settings.hold * (self.pins if sample.pins is None else sample.pins)

    @property
    def maps(self) -> dict[str, Array | None]:
        """Painted maps by the names that messages and cache headers use."""
        return {
            "the painted Settle": self.settle_map,
            "the painted Stiffness": self.stiffness_map,
            "the painted Length": self.length_map,
            "the painted Centre": self.centre_map,
            "the painted Friction": self.friction_map,
            **({} if self.damping_map is None else {"the painted Damping": self.damping_map}),
            "the painted Front": self.front_map,
            "the painted Fibres": self.fibre_map,
            "the painted Direction": self.fibre_direction,
            **{f"the weights of part {part.name}": part.weights for part in self.parts},
        }

    @property
    def reference_motion(self) -> str:
        """Reference motion that applies: PINS, MESH or NONE, never AUTO."""
        chosen = self.settings.carrier
        if chosen != ReferenceChoice.AUTO:
            return chosen
        return ReferenceChoice.MESH if self.is_deforming else ReferenceChoice.PINS


def unpinned_size(vertices: Array, pins: Array, *parts: Index) -> float:
    """Return the size in m that Sag refers to: the diagonal of the bounding box of elements not entirely hard-pinned.

    vertices: (v, 3) m.  pins: (v,).  parts: (k, 2) edges or (k, 3) triangles.
    """
    free = np.concatenate([part[(pins < HARD_PIN_WEIGHT)[part].any(axis=1)].ravel() for part in parts])
    return float(np.linalg.norm(np.ptp(vertices[free] if len(free) else vertices, axis=0)))


def check_weight_range(name: str, weights: Array) -> None:
    """Raise PinError if a painted weight is negative, infinite or no number. name: of the object.  weights: (v,)."""
    if not (np.isfinite(weights) & (weights >= 0.0)).all():
        raise PinError(
            f"{name}: a weight of its vertex groups is negative or not a finite number; "
            "check the modifiers that change them."
        )


def check_dampers(name: str, dampers: Array) -> None:
    """Raise SceneError if a damper is negative, infinite or no number. name: of the object.  dampers: (e,) N s/m."""
    if not (np.isfinite(dampers) & (dampers >= 0.0)).all():
        wrong = "not a finite number" if not np.isfinite(dampers).all() else "negative"
        raise SceneError(f"{name}: one of its dampers is {wrong}; set values of at least 0 N s/m.")


def check_body(body: Body) -> None:
    """Raise PinError if painted weights do not fit the mesh, SceneError if muscles or dampers are invalid."""
    for weights in (body.pins, body.follower_mask, *body.maps.values()):
        if weights is not None and weights.shape != (len(body.surface.vertices),):
            raise PinError(f"{body.name}: the painted weights do not fit the mesh; choose the vertex groups again.")
        if weights is not None:
            check_weight_range(body.name, weights.astype(float))
    if body.dampers is not None:
        if body.dampers.shape != body.edges.shape[:1]:
            raise SceneError(f"{body.name}: its dampers do not fit its edges; choose the Damper Attribute again.")
        check_dampers(body.name, body.dampers)
    check_parts(body.name, body.parts)
    if body.controller is not None:
        check_controller(body.name, body.controller)
