"""Positions of the surfaces at a step's start, and their kinematic motion during the step."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property

import numpy as np

from ..arrays import Array, Mask
from .model import ContactModel


@dataclass(frozen=True)
class Span:
    """Motion of an animated surface during a step, along straight lines from start to end, (v, 3) m."""

    start: Array
    end: Array

    def part(self, index: int, parts: int) -> Span:
        """Return the motion during one of count equal parts of the step."""
        way = self.end - self.start
        last = index + 1 == parts
        end = self.end if last else self.start + way * ((index + 1) / parts)
        return Span(self.start + way * (index / parts), end)

    @property
    def is_still(self) -> bool:
        return np.array_equal(self.start, self.end)


@dataclass(frozen=True)
class Obstructing:
    """Motion of an obstacle during a step.

    friction_scale: factor on friction.  thickness: m, contact distance in front of its surface.
    """

    span: Span
    roughness: float = 1.0
    thickness: float = 0.0


@dataclass(frozen=True)
class Touching:
    """Contact settings and kinematic motion of a body during a step.

    motion: of its surface as animated.  contact_distance: m, 0 for the default fraction of its size.
    friction, backward_friction: coefficients forwards (or in all directions) and backwards.
    obstacles: of the scene, the same for all bodies of a system.
    common_exit: whether all points of a piece that starts inside another body leave it in the same direction.
    """

    span: Span
    distance: float = 0.0
    friction: float = 0.5
    backward: float = 0.5
    obstacles: tuple[Obstructing, ...] = ()
    consistent: bool = False

    def part(self, index: int, parts: int) -> Touching:
        """Return the inputs of one of count equal parts of the step."""
        around = tuple(Obstructing(one.span.part(index, parts), one.roughness, one.thickness) for one in self.obstacles)
        return replace(self, span=self.span.part(index, parts), obstacles=around)

    def ended(self) -> Touching:
        """Return the inputs with all motion stopped at its end."""
        around = tuple(
            Obstructing(Span(one.span.end, one.span.end), one.roughness, one.thickness) for one in self.obstacles
        )
        return replace(self, span=Span(self.span.end, self.span.end), obstacles=around)

    @property
    def is_still(self) -> bool:
        return self.span.is_still and all(one.span.is_still for one in self.obstacles)


@dataclass(frozen=True)
class Moment:
    """Contact model at the start of a step of h s.

    start: (N, 3) m, all points.  kinematic_offset: (N, 3) m, the part of their end positions that is independent of
        nodes.
    kinematic_drift: (N, 3) m, displacement of that part during the step.
    contact_distance: (s,) m, of each surface.
    friction, backward_friction: (s,) coefficients of bodies; factors of obstacles.
    young: (s,) Pa; 0 for obstacles.
    common_exit: (s,) see ContactInputs; false for obstacles.
    cache: results of core.contact.intersections, by key.
    """

    model: ContactModel
    start: Array
    offset: Array
    drift: Array
    distance: Array
    friction: Array
    backward: Array
    young: Array
    consistent: Mask
    h: float
    kept: dict[object, object] = field(default_factory=dict)

    @staticmethod
    def of(
        model: ContactModel, positions: Array, touching: Sequence[Touching | None], factors: Array, h: float
    ) -> Moment:
        """Return the state for nodes at positions (n, 3) m, the step's start.

        inputs: of each block.  stiffness_factors: (b,) of each block.
        """
        around = next(one.obstacles for one in touching if one is not None)
        start, offset = np.empty((model.count, 3)), np.empty((model.count, 3))
        carried = model.operator @ positions
        numbers = []
        for place, (surface, obstacle) in enumerate(zip(model.surfaces, model.obstacles, strict=True)):
            part = model.points_of(place)
            if surface.is_obstacle:
                there = around[obstacle]
                start[part], offset[part] = there.span.start, there.span.end
                numbers.append((there.thickness, there.roughness, there.roughness, 0.0))
            else:
                own = touching[surface.block]
                assert own is not None
                hold, (begin, end) = surface.hold[:, None], (own.span.start, own.span.end)
                if surface.animated is not None:
                    begin, end = surface.animated @ begin, surface.animated @ end
                start[part], offset[part] = carried[part] + hold * begin, hold * end
                distance = own.distance or surface.distance
                numbers.append((distance, own.friction, own.backward, surface.young * float(factors[surface.block])))
        distance, friction, backward, young = np.array(numbers).T
        bodies = [None if one.is_obstacle else touching[one.block] for one in model.surfaces]
        same = np.array([one is not None and one.consistent for one in bodies])
        return Moment(model, start, offset, offset - (start - carried), distance, friction, backward, young, same, h)

    @cached_property
    def pair_distances(self) -> Array:
        """Contact distance (s, s) of two surfaces in m: the mean of two bodies' distances, the sum with an obstacle."""
        both = self.distance[:, None] + self.distance
        alone = self.model.is_obstacle
        return np.asarray(np.where(alone[:, None] | alone, 1.0, 0.5) * both)

    @cached_property
    def _began(self) -> tuple[Array, Array]:
        """Bounding boxes of the surfaces at the step's start, low and high (3, s) m."""
        return self._boxed(np.ascontiguousarray(self.start.T))

    def _boxed(self, rows: Array) -> tuple[Array, Array]:
        first = self.model.starts[:-1]
        return np.minimum.reduceat(rows, first, axis=1), np.maximum.reduceat(rows, first, axis=1)

    def boxes(self, points: Array) -> tuple[Array, Array]:
        """Return boxes low, high (3, s) m around each surface's start and end positions.

        points: (N, 3) m at the end.
        """
        (low, high), (first, last) = self._began, self._boxed(np.ascontiguousarray(points.T))
        return np.minimum(low, first), np.maximum(high, last)

    def moves(self, points: Array) -> tuple[Array, Array]:
        """Return each surface's mean displacement (s, 3) m and its points' largest deviation from it (s,) m.

        points: (N, 3) m at the end.
        """
        first, way = self.model.starts, np.ascontiguousarray((points - self.start).T)
        mean = np.add.reduceat(way, first[:-1], axis=1) / np.diff(first)
        way -= mean[:, self.model.owner]
        return mean.T, np.sqrt(np.maximum.reduceat((way * way).sum(axis=0), first[:-1]))

    def points(self, positions: Array) -> Array:
        """Return all points (N, 3) m at the step's end, for nodes at positions (n, 3) m."""
        return np.asarray(self.model.operator @ positions + self.offset)
