"""Accelerations by force fields, docs/physics.md section 8: the formulas of Blender's fields for particles of 1 kg."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np

from ..arrays import Array
from .field import Field, Kind, Shape, Side, Within
from .noise import flicker, turbulence

# Largest effective coefficients of Drag, as in Blender.
_MOST_DRAG = 2.0


@dataclass(frozen=True)
class Seen:
    """Quantities of a field at the nodes.

    points: (n, 3) m.
    offset: (n, 3) m, from the location of the field.
    axial_distance: (n,) m, component of the offset along the axis.
    source_offset: (n, 3) m, from the nearest point of the source, see ForceFieldShape.
    distance: (n,) m, length of source_offset.
    falloff: (n,) fraction of the strength at the node.
    velocities: (n, 3) m/s.
    max_drag_rate: 1/s, a larger rate would reverse the velocity within the step.
    """

    points: Array
    offset: Array
    along: Array
    way: Array
    distance: Array
    there: Array
    velocities: Array
    fastest: float

    @property
    def reached(self) -> Array:
        """Mask (n, 1): 1 where the field acts, else 0."""
        return (self.there > 0.0).astype(float)[:, None]

    def slowed(self, rate: float | Array) -> Array:
        """Return the drag (n, 3) m/s^2 for a rate, a number or (n,) 1/s, limited to max_drag_rate."""
        return -np.minimum(np.broadcast_to(rate, len(self.there)), self.fastest)[:, None] * self.velocities


def _wind(field: Field, seen: Seen) -> Array:
    """Return S f n, with the strength S, the falloff f and the axis n."""
    return np.asarray(field.strength * seen.there[:, None] * field.axis)


def _force(field: Field, seen: Seen) -> Array:
    """Return S f r/|r|, divided by |r|^2 for gravitation."""
    size = field.strength * seen.there
    if field.gravitation:
        near = seen.distance > np.finfo(np.float32).eps
        size = np.where(near, size / np.where(near, seen.distance, 1.0) ** 2, 0.0)
    return np.asarray(size[:, None] * _unit(seen.way))


def _vortex(field: Field, seen: Seen) -> Array:
    """Return, for a point, S f |r| along n x r, otherwise S f n x q + (S f)^2 n x (n x q) - v about the axis."""
    if field.shape is Shape.POINT:
        size = field.strength * seen.distance * seen.there
        return np.asarray(size[:, None] * _unit(np.cross(field.axis, seen.way)))
    size = (field.strength * seen.there)[:, None]
    around = size * np.cross(field.axis, seen.offset)
    return np.asarray(seen.reached * (around + size * np.cross(field.axis, around) + seen.slowed(1.0)))


def _magnet(field: Field, seen: Seen) -> Array:
    """Return S f v x b/|b|, with b = n for a plane, otherwise b = n x r."""
    around = np.tile(field.axis, (len(seen.way), 1)) if field.shape is Shape.PLANE else np.cross(field.axis, seen.way)
    return np.cross(seen.velocities, (field.strength * seen.there)[:, None] * _unit(around))


def _harmonic(field: Field, seen: Seen) -> Array:
    """Return -S f r (|r| - l)/|r| - 2 d sqrt|S| v: a spring of rest length l and damping ratio d."""
    way = seen.way
    if field.rest_length:
        way = way - field.rest_length * _unit(way)
    damping = seen.slowed(2.0 * field.damping * np.sqrt(abs(field.strength)))
    return np.asarray(seen.reached * (damping - (field.strength * seen.there)[:, None] * way))


def _turbulence(field: Field, seen: Seen) -> Array:
    """Return S f times a noise of three octaves."""
    points = seen.points if field.fixed_pattern else seen.offset
    return np.asarray((field.strength * seen.there)[:, None] * turbulence(points, field.size, field.seed))


def _drag(field: Field, seen: Seen) -> Array:
    """Return -f (S |v| + d) v."""
    quadratic, linear = (min(one, _MOST_DRAG) for one in (field.strength, field.damping))
    return seen.slowed(seen.there * (quadratic * np.linalg.norm(seen.velocities, axis=1) + linear))


FORCES: dict[Kind, Callable[[Field, Seen], Array]] = {
    Kind.WIND: _wind,
    Kind.FORCE: _force,
    Kind.VORTEX: _vortex,
    Kind.MAGNET: _magnet,
    Kind.HARMONIC: _harmonic,
    Kind.TURBULENCE: _turbulence,
    Kind.DRAG: _drag,
}
# Types whose own law already includes drag, so that flow is ignored.
_NO_FLOW = (Kind.HARMONIC, Kind.DRAG)


def accelerations(
    fields: Sequence[Field], weight: float, frame: float, points: Array, velocities: Array, h: float
) -> Array:
    """Return the accelerations (n, 3) m/s^2 of nodes at points (n, 3) m with velocities (n, 3) m/s, in a step of h s.

    weight: factor on all fields.  frame: time of the noise.
    """
    total = np.zeros_like(points)
    for one in fields:
        field = _flickering(one, frame)
        seen = look(field, points, velocities, weight, h)
        if seen.there.any():
            total += FORCES[field.kind](field, seen)
            if field.flow != 0.0 and field.kind not in _NO_FLOW:
                total += seen.slowed(field.flow * seen.there)
    return total


def look(field: Field, points: Array, velocities: Array, weight: float, h: float) -> Seen:
    """Return the quantities of a field at the nodes; for the parameters see field_accelerations()."""
    offset = points - field.place
    along = offset @ field.axis
    way = offset
    if field.shape is Shape.LINE or (field.kind is Kind.VORTEX and field.shape is Shape.PLANE):
        way = offset - along[:, None] * field.axis
    elif field.shape is Shape.PLANE:
        way = along[:, None] * field.axis
    distance = np.linalg.norm(way, axis=1)
    there = weight * _falloff(field, offset, along, distance)
    return Seen(points, offset, along, way, distance, np.maximum(there, 0.0), velocities, 1.0 / h)


def _falloff(field: Field, offset: Array, along: Array, distance: Array) -> Array:
    """Return the fraction (n,) of the strength at the nodes."""
    if field.within is Within.SPHERE:
        found = field.fade(distance)
    elif field.within is Within.TUBE:
        found = field.fade(np.abs(along)) * field.across(np.linalg.norm(offset - along[:, None] * field.axis, axis=1))
    else:
        far = np.linalg.norm(offset, axis=1)
        cosine = np.clip(along / np.where(far > 0.0, far, 1.0), -1.0, 1.0)
        found = field.fade(np.abs(along)) * field.across(np.degrees(np.arccos(cosine)))
    if field.side is Side.BOTH:
        return found
    return np.where(along < 0.0 if field.side is Side.POSITIVE else along > 0.0, 0.0, found)


def _flickering(field: Field, frame: float) -> Field:
    """Return the field with the noise of this frame added to its strength."""
    if field.noise == 0.0:
        return field
    more = field.noise * flicker(frame, field.seed)
    other = field.noise * flicker(frame, field.seed + 1) if field.kind in _NO_FLOW else 0.0
    return replace(field, strength=field.strength + more, damping=field.damping + other)


def _unit(vectors: Array) -> Array:
    """Return vectors (n, 3) scaled to length 1; zero vectors stay zero."""
    lengths = np.linalg.norm(vectors, axis=1, keepdims=True)
    return np.asarray(vectors / np.where(lengths > 0.0, lengths, 1.0))
