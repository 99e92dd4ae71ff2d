"""Accelerations by force fields: the formulas of Blender's fields for particles of 1 kg.

See docs/explanation/physics/08-force-fields.md.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from ..base.arrays import Array
from ..native.library import KernelLibrary, doubles, load_library, pointers, require_shape
from .field import FalloffType, ForceField, ForceFieldShape, ForceFieldSide, ForceFieldType

_Words = NDArray[np.uint64]
_WORD = 0xFFFFFFFFFFFFFFFF
# Odd multipliers of the hash: the digits of the golden ratio, and two that mix bits well.
_STRIDES = np.array([0x9E3779B97F4A7C15, 0xC2B2AE3D27D4EB4F, 0x165667B19E3779F9], dtype=np.uint64)
# Midpoints of the twelve edges of a cube, four of them twice.
_GRADIENTS = np.array(
    [(x, y, 0) for x in (1, -1) for y in (1, -1)]
    + [(x, 0, z) for x in (1, -1) for z in (1, -1)]
    + [(0, y, z) for y in (1, -1) for z in (1, -1)]
    + [(1, 1, 0), (-1, 1, 0), (0, -1, 1), (0, -1, -1)],
    dtype=float,
)
_CORNERS = np.array([(i, j, k) for i in (0, 1) for j in (0, 1) for k in (0, 1)])
# Octaves of the turbulence, each with half the size and half the strength of the previous one.
_OCTAVES = 3


def _hash(words: _Words) -> _Words:
    """Return hashed words (k,), in which each bit depends on all bits of the input word."""
    words = (words ^ (words >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    words = (words ^ (words >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return words ^ (words >> np.uint64(31))


def gradient_noise(points: Array, seed: int) -> Array:
    """Return smooth, statistically uniform noise (n,) from -1 to 1 at points (n, 3); it is zero at integer points."""
    low = np.floor(points)
    part = points - low
    whole = low.astype(np.int64).view(np.uint64)
    start = np.uint64((seed * 0xD1342543DE82EF95) & _WORD)
    ease = part * part * part * (part * (6.0 * part - 15.0) + 10.0)
    total = np.zeros(len(points))
    for corner in _CORNERS:
        words = start + ((whole + corner.astype(np.uint64)) * _STRIDES).sum(axis=1, dtype=np.uint64)
        gradient = _GRADIENTS[(_hash(words) >> np.uint64(60)).astype(np.int64)]
        weight = np.where(corner == 1, ease, 1.0 - ease).prod(axis=1)
        total += weight * ((part - corner) * gradient).sum(axis=1)
    return total


def turbulence(points: Array, size: float, seed: int) -> Array:
    """Return vector noise (n, 3) from -1 to 1 at points (n, 3) m. size: m, of the largest eddies; 0 means 1 m."""
    scaled = points / size if size != 0.0 else points
    library = load_library()
    if library is not None:
        return compiled_noise(library, scaled, _OCTAVES, seed)
    found = np.empty_like(points)
    for axis in range(3):
        octaves = [0.5**k * gradient_noise(2.0**k * scaled, 3 * seed + axis) for k in range(_OCTAVES)]
        found[:, axis] = sum(octaves) / (2.0 - 0.5 ** (_OCTAVES - 1))
    return found


def compiled_noise(library: KernelLibrary, points: Array, octaves: int, seed: int) -> Array:
    """Return vector noise (n, 3) from -1 to 1 at points (n, 3), equal to turbulence() to the last bit.

    The points are in units of the largest eddies.  Raises ValueError if they have another shape.
    """
    require_shape(points, (len(points), 3), "points")
    places = doubles(points)
    found = np.empty_like(places)
    divisor = 2.0 - 0.5 ** (octaves - 1)
    library.noise(len(places), octaves, seed & _WORD, divisor, *pointers(places, found))
    return found


def flicker(frame: float, seed: int) -> float:
    """Return a random number from -1 to 1 that changes each frame, with linear interpolation between frames."""
    low = int(np.floor(frame))
    start = (seed * 0xD1342543DE82EF95) & _WORD
    words = np.array([(start + (low + k) * int(_STRIDES[0])) & _WORD for k in (0, 1)], dtype=np.uint64)
    # A double has 53 bits of precision.
    ends = (_hash(words) >> np.uint64(11)).astype(float) / 2.0**52 - 1.0
    return float(ends[0] + (frame - low) * (ends[1] - ends[0]))


# Largest effective coefficients of Drag, as in Blender.
_MAX_DRAG = 2.0


@dataclass(frozen=True)
class FieldSample:
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
    axial_distance: Array
    source_offset: Array
    distance: Array
    falloff: Array
    velocities: Array
    max_drag_rate: float

    @property
    def active_mask(self) -> Array:
        """Mask (n, 1): 1 where the field acts, else 0."""
        return (self.falloff > 0.0).astype(float)[:, None]

    def drag(self, rate: float | Array) -> Array:
        """Return the drag (n, 3) m/s^2 for a rate, a number or (n,) 1/s, limited to max_drag_rate."""
        return -np.minimum(np.broadcast_to(rate, len(self.falloff)), self.max_drag_rate)[:, None] * self.velocities


def _wind(field: ForceField, sample: FieldSample) -> Array:
    """Return S f n, with the strength S, the falloff f and the axis n."""
    return np.asarray(field.strength * sample.falloff[:, None] * field.axis)


def _force(field: ForceField, sample: FieldSample) -> Array:
    """Return S f r/|r|, divided by |r|^2 for gravitation."""
    size = field.strength * sample.falloff
    if field.gravitation:
        near = sample.distance > np.finfo(np.float32).eps
        size = np.where(near, size / np.where(near, sample.distance, 1.0) ** 2, 0.0)
    return np.asarray(size[:, None] * _normalized(sample.source_offset))


def _vortex(field: ForceField, sample: FieldSample) -> Array:
    """Return, for a point, S f |r| along n x r, otherwise S f n x q + (S f)^2 n x (n x q) - v about the axis."""
    if field.shape is ForceFieldShape.POINT:
        size = field.strength * sample.distance * sample.falloff
        return np.asarray(size[:, None] * _normalized(np.cross(field.axis, sample.source_offset)))
    size = (field.strength * sample.falloff)[:, None]
    around = size * np.cross(field.axis, sample.offset)
    return np.asarray(sample.active_mask * (around + size * np.cross(field.axis, around) + sample.drag(1.0)))


def _magnet(field: ForceField, sample: FieldSample) -> Array:
    """Return S f v x b/|b|, with b = n for a plane, otherwise b = n x r."""
    around = (
        np.tile(field.axis, (len(sample.source_offset), 1))
        if field.shape is ForceFieldShape.PLANE
        else np.cross(field.axis, sample.source_offset)
    )
    return np.cross(sample.velocities, (field.strength * sample.falloff)[:, None] * _normalized(around))


def _harmonic(field: ForceField, sample: FieldSample) -> Array:
    """Return -S f r (|r| - l)/|r| - 2 d sqrt|S| v: a spring of rest length l and damping ratio d."""
    offset = sample.source_offset
    if field.rest_length:
        offset = offset - field.rest_length * _normalized(offset)
    damping = sample.drag(2.0 * field.damping * np.sqrt(abs(field.strength)))
    return np.asarray(sample.active_mask * (damping - (field.strength * sample.falloff)[:, None] * offset))


def _turbulence(field: ForceField, sample: FieldSample) -> Array:
    """Return S f times a noise of three octaves."""
    points = sample.points if field.fixed_pattern else sample.offset
    return np.asarray((field.strength * sample.falloff)[:, None] * turbulence(points, field.size, field.seed))


def _drag(field: ForceField, sample: FieldSample) -> Array:
    """Return -f (S |v| + d) v."""
    quadratic, linear = (min(one, _MAX_DRAG) for one in (field.strength, field.damping))
    return sample.drag(sample.falloff * (quadratic * np.linalg.norm(sample.velocities, axis=1) + linear))


FORCES: dict[ForceFieldType, Callable[[ForceField, FieldSample], Array]] = {
    ForceFieldType.WIND: _wind,
    ForceFieldType.FORCE: _force,
    ForceFieldType.VORTEX: _vortex,
    ForceFieldType.MAGNET: _magnet,
    ForceFieldType.HARMONIC: _harmonic,
    ForceFieldType.TURBULENCE: _turbulence,
    ForceFieldType.DRAG: _drag,
}
# Types whose own law already includes drag, so that flow is ignored.
_NO_FLOW = (ForceFieldType.HARMONIC, ForceFieldType.DRAG)


def field_accelerations(
    fields: Sequence[ForceField], weight: float, frame: float, points: Array, velocities: Array, h: float
) -> Array:
    """Return the accelerations (n, 3) m/s^2 of nodes at points (n, 3) m with velocities (n, 3) m/s, in a step of h s.

    weight: factor on all fields.  frame: time of the noise.
    """
    total = np.zeros_like(points)
    for one in fields:
        field = _with_noise(one, frame)
        sample = sample_field(field, points, velocities, weight, h)
        if sample.falloff.any():
            total += FORCES[field.kind](field, sample)
            if field.flow != 0.0 and field.kind not in _NO_FLOW:
                total += sample.drag(field.flow * sample.falloff)
    return total


def sample_field(field: ForceField, points: Array, velocities: Array, weight: float, h: float) -> FieldSample:
    """Return the quantities of a field at the nodes; for the parameters see field_accelerations()."""
    offset = points - field.location
    axial_distance = offset @ field.axis
    source_offset = offset
    if field.shape is ForceFieldShape.LINE or (
        field.kind is ForceFieldType.VORTEX and field.shape is ForceFieldShape.PLANE
    ):
        source_offset = offset - axial_distance[:, None] * field.axis
    elif field.shape is ForceFieldShape.PLANE:
        source_offset = axial_distance[:, None] * field.axis
    distance = np.linalg.norm(source_offset, axis=1)
    falloff = weight * _falloff(field, offset, axial_distance, distance)
    return FieldSample(
        points, offset, axial_distance, source_offset, distance, np.maximum(falloff, 0.0), velocities, 1.0 / h
    )


def _falloff(field: ForceField, offset: Array, axial_distance: Array, distance: Array) -> Array:
    """Return the fraction (n,) of the strength at the nodes."""
    if field.falloff_type is FalloffType.SPHERE:
        found = field.falloff(distance)
    elif field.falloff_type is FalloffType.TUBE:
        found = field.falloff(np.abs(axial_distance)) * field.second_falloff(
            np.linalg.norm(offset - axial_distance[:, None] * field.axis, axis=1)
        )
    else:
        far = np.linalg.norm(offset, axis=1)
        cosine = np.clip(axial_distance / np.where(far > 0.0, far, 1.0), -1.0, 1.0)
        found = field.falloff(np.abs(axial_distance)) * field.second_falloff(np.degrees(np.arccos(cosine)))
    if field.side is ForceFieldSide.BOTH:
        return found
    return np.where(axial_distance < 0.0 if field.side is ForceFieldSide.POSITIVE else axial_distance > 0.0, 0.0, found)


def _with_noise(field: ForceField, frame: float) -> ForceField:
    """Return the field with the noise of this frame added to its strength."""
    if field.noise == 0.0:
        return field
    strength_noise = field.noise * flicker(frame, field.seed)
    damping_noise = field.noise * flicker(frame, field.seed + 1) if field.kind in _NO_FLOW else 0.0
    return replace(field, strength=field.strength + strength_noise, damping=field.damping + damping_noise)


def _normalized(vectors: Array) -> Array:
    """Return vectors (n, 3) scaled to length 1; zero vectors stay zero."""
    lengths = np.linalg.norm(vectors, axis=1, keepdims=True)
    return np.asarray(vectors / np.where(lengths > 0.0, lengths, 1.0))
