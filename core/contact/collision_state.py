"""Positions of the surfaces at a step's start, and their kinematic motion during the step."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property

import numpy as np

from ..base.arrays import Array, Mask
from .contact_model import ContactModel


@dataclass(frozen=True)
class KinematicMotion:
    """Motion of an animated surface during a step, along straight lines from start to end, (v, 3) m."""

    start: Array
    end: Array

    def subinterval(self, index: int, count: int) -> KinematicMotion:
        """Return the motion during one of count equal parts of the step."""
        way = self.end - self.start
        last = index + 1 == count
        end = self.end if last else self.start + way * ((index + 1) / count)
        return KinematicMotion(self.start + way * (index / count), end)

    @property
    def is_still(self) -> bool:
        return np.array_equal(self.start, self.end)


@dataclass(frozen=True)
class ColliderMotion:
    """Motion of a collider during a step.

    friction_scale: factor on friction.  thickness: m, contact distance in front of its surface.
    """

    motion: KinematicMotion
    friction_scale: float = 1.0
    thickness: float = 0.0


@dataclass(frozen=True)
class ContactInputs:
    """Contact settings and kinematic motion of a body during a step.

    motion: of its surface as animated.  contact_distance: m, 0 for the default fraction of its size.
    friction, backward_friction: coefficients forwards (or in all directions) and backwards.
    colliders: of the scene, the same for all bodies of a system.
    common_exit: whether all points of a piece that starts inside another body leave it in the same direction.
    """

    motion: KinematicMotion
    contact_distance: float = 0.0
    friction: float = 0.5
    backward_friction: float = 0.5
    colliders: tuple[ColliderMotion, ...] = ()
    common_exit: bool = False

    def subinterval(self, index: int, count: int) -> ContactInputs:
        """Return the inputs of one of count equal parts of the step."""
        return self._with_motions(lambda motion: motion.subinterval(index, count))

    def at_end(self) -> ContactInputs:
        """Return the inputs with all motion stopped at its end."""
        return self._with_motions(lambda motion: KinematicMotion(motion.end, motion.end))

    def _with_motions(self, change: Callable[[KinematicMotion], KinematicMotion]) -> ContactInputs:
        colliders = tuple(replace(one, motion=change(one.motion)) for one in self.colliders)
        return replace(self, motion=change(self.motion), colliders=colliders)

    @property
    def is_still(self) -> bool:
        return self.motion.is_still and all(one.motion.is_still for one in self.colliders)


@dataclass(frozen=True)
class CollisionState:
    """Contact model at the start of a step of h s.

    start: (N, 3) m, all points.  kinematic_offset: (N, 3) m, the part of their end positions that is independent of
        nodes.
    kinematic_drift: (N, 3) m, displacement of that part during the step.
    contact_distance: (s,) m, of each surface.
    friction, backward_friction: (s,) coefficients of bodies; factors of colliders.
    young: (s,) Pa; 0 for colliders.
    common_exit: (s,) see ContactInputs; false for colliders.
    cache: results of core.contact.intersections and core.contact_response.push_out, and trees of
        core.contact.edge_contacts, by key.
    """

    model: ContactModel
    start: Array
    kinematic_offset: Array
    kinematic_drift: Array
    contact_distance: Array
    friction: Array
    backward_friction: Array
    young: Array
    common_exit: Mask
    h: float
    cache: dict[object, object] = field(default_factory=dict)

    @staticmethod
    def of(
        model: ContactModel,
        positions: Array,
        inputs: Sequence[ContactInputs | None],
        stiffness_factors: Array,
        h: float,
    ) -> CollisionState:
        """Return the state for nodes at positions (n, 3) m, the step's start.

        inputs: of each block.  stiffness_factors: (b,) of each block.
        """
        colliders = next(one.colliders for one in inputs if one is not None)
        start, offset = np.empty((model.point_count, 3)), np.empty((model.point_count, 3))
        simulated = model.operator @ positions
        parameters = []
        for place, (surface, collider) in enumerate(zip(model.surfaces, model.collider_indices, strict=True)):
            part = model.points_of(place)
            if surface.is_collider:
                collider_inputs = colliders[collider]
                start[part], offset[part] = collider_inputs.motion.start, collider_inputs.motion.end
                scale = collider_inputs.friction_scale
                parameters.append((collider_inputs.thickness, scale, scale, 0.0))
            else:
                body = inputs[surface.block]
                assert body is not None
                pin_weight, (begin, end) = surface.pin_weight[:, None], (body.motion.start, body.motion.end)
                if surface.animation_operator is not None:
                    begin, end = surface.animation_operator @ begin, surface.animation_operator @ end
                start[part], offset[part] = simulated[part] + pin_weight * begin, pin_weight * end
                distance = body.contact_distance or surface.default_distance
                young = surface.young * float(stiffness_factors[surface.block])
                parameters.append((distance, body.friction, body.backward_friction, young))
        distances, friction, backward, moduli = np.array(parameters).T
        bodies = [None if one.is_collider else inputs[one.block] for one in model.surfaces]
        common_exit = np.array([one is not None and one.common_exit for one in bodies])
        return CollisionState(
            model, start, offset, offset - (start - simulated), distances, friction, backward, moduli, common_exit, h
        )

    @cached_property
    def pair_distances(self) -> Array:
        """Contact distance (s, s) of two surfaces in m: the mean of two bodies' distances, the sum with a collider."""
        summed = self.contact_distance[:, None] + self.contact_distance
        is_obstacle = self.model.is_collider
        return np.asarray(np.where(is_obstacle[:, None] | is_obstacle, 1.0, 0.5) * summed)

    @cached_property
    def _start_boxes(self) -> tuple[Array, Array]:
        """Bounding boxes of the surfaces at the step's start, low and high (3, s) m."""
        return self._surface_boxes(np.ascontiguousarray(self.start.T))

    def _surface_boxes(self, rows: Array) -> tuple[Array, Array]:
        first = self.model.point_starts[:-1]
        return np.minimum.reduceat(rows, first, axis=1), np.maximum.reduceat(rows, first, axis=1)

    def swept_boxes(self, points: Array) -> tuple[Array, Array]:
        """Return boxes low, high (3, s) m around each surface's start and end positions.

        points: (N, 3) m at the end.
        """
        (low, high), (first, last) = self._start_boxes, self._surface_boxes(np.ascontiguousarray(points.T))
        return np.minimum(low, first), np.maximum(high, last)

    def displacement_bounds(self, points: Array) -> tuple[Array, Array]:
        """Return each surface's mean displacement (s, 3) m and its points' largest deviation from it (s,) m.

        points: (N, 3) m at the end.
        """
        first, displacement = self.model.point_starts, np.ascontiguousarray((points - self.start).T)
        mean = np.add.reduceat(displacement, first[:-1], axis=1) / np.diff(first)
        displacement -= mean[:, self.model.owner]
        return mean.T, np.sqrt(np.maximum.reduceat((displacement * displacement).sum(axis=0), first[:-1]))

    def points_at(self, positions: Array) -> Array:
        """Return all points (N, 3) m at the step's end, for nodes at positions (n, 3) m."""
        return np.asarray(self.model.operator @ positions + self.kinematic_offset)
