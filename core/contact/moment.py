"""Where surfaces are at a step's start, and what moves them during it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property

import numpy as np

from ..arrays import Array, Mask
from .model import ContactModel


@dataclass(frozen=True)
class Span:
    """A surface that only its animation moves, during a step: start, end (v, 3) m, along straight lines."""

    start: Array
    end: Array

    def part(self, index: int, parts: int) -> Span:
        """One of several equal parts of the step."""
        way = self.end - self.start
        last = index + 1 == parts
        end = self.end if last else self.start + way * ((index + 1) / parts)
        return Span(self.start + way * (index / parts), end)

    @property
    def is_still(self) -> bool:
        return np.array_equal(self.start, self.end)


@dataclass(frozen=True)
class Obstructing:
    """An obstacle during a step. roughness: times friction.  thickness: m in front of its surface."""

    span: Span
    roughness: float = 1.0
    thickness: float = 0.0


@dataclass(frozen=True)
class Touching:
    """What counts of a body where it touches something, during a step.

    span: of its surface, as it is animated.  distance: m, 0 for the usual part of its size.
    friction, backward: forwards, or in all directions, and backwards.
    obstacles: of the scene, the same for all bodies of a system.
    consistent: whether all points of a piece that begins inside of something leave it the same way.
    """

    span: Span
    distance: float = 0.0
    friction: float = 0.5
    backward: float = 0.5
    obstacles: tuple[Obstructing, ...] = ()
    consistent: bool = False

    def part(self, index: int, parts: int) -> Touching:
        """One of several equal parts of the step."""
        around = tuple(Obstructing(one.span.part(index, parts), one.roughness, one.thickness) for one in self.obstacles)
        return replace(self, span=self.span.part(index, parts), obstacles=around)

    def ended(self) -> Touching:
        """The same with all that moves where it is at the end."""
        around = tuple(
            Obstructing(Span(one.span.end, one.span.end), one.roughness, one.thickness) for one in self.obstacles
        )
        return replace(self, span=Span(self.span.end, self.span.end), obstacles=around)

    @property
    def is_still(self) -> bool:
        return self.span.is_still and all(one.span.is_still for one in self.obstacles)


@dataclass(frozen=True)
class Moment:
    """A model at the start of a step of h s.

    start: (N, 3) m of all points.  offset: (N, 3) m, what of their places at the end no node moves.
    drift: (N, 3) m, how far that goes in the step.
    distance: (s,) m, the contact distance of each surface.
    friction, backward: (s,) of bodies; obstacles have their roughness.
    young: (s,) Pa, none for obstacles.
    consistent: (s,) see Touching; of obstacles never.
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
        """positions: (n, 3) of the nodes at the start.  touching: of each block.  factors: (b,) on its stiffness."""
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
        """(s, s) m, the contact distance of each two surfaces: of two bodies the mean of theirs."""
        both = self.distance[:, None] + self.distance
        alone = self.model.is_obstacle
        return np.asarray(np.where(alone[:, None] | alone, 1.0, 0.5) * both)

    @cached_property
    def _began(self) -> tuple[Array, Array]:
        """Boxes around the surfaces at the start, (3, s) m."""
        return self._boxed(np.ascontiguousarray(self.start.T))

    def _boxed(self, rows: Array) -> tuple[Array, Array]:
        first = self.model.starts[:-1]
        return np.minimum.reduceat(rows, first, axis=1), np.maximum.reduceat(rows, first, axis=1)

    def boxes(self, points: Array) -> tuple[Array, Array]:
        """Around each surface where the step starts and where it ends, with points (N, 3) m: low, high (3, s) m."""
        (low, high), (first, last) = self._began, self._boxed(np.ascontiguousarray(points.T))
        return np.minimum(low, first), np.maximum(high, last)

    def moves(self, points: Array) -> tuple[Array, Array]:
        """How far each surface goes until points (N, 3) m in the mean, (s, 3) m, and at most beside that, (s,) m."""
        first, way = self.model.starts, np.ascontiguousarray((points - self.start).T)
        mean = np.add.reduceat(way, first[:-1], axis=1) / np.diff(first)
        way -= mean[:, self.model.owner]
        return mean.T, np.sqrt(np.maximum.reduceat((way * way).sum(axis=0), first[:-1]))

    def points(self, positions: Array) -> Array:
        """(N, 3) m of all points at the step's end, for positions (n, 3) of the nodes."""
        return np.asarray(self.model.operator @ positions + self.offset)
