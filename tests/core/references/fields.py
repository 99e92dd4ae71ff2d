"""Reference implementation of force fields for one node at a time, without linear algebra.

Equations are those of docs/explanation/physics/08-force-fields.md.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

Vector = tuple[float, float, float]


def _dot(a: Vector, b: Vector) -> float:
    return a[0] * b[0] + a[1] * b[1] + a[2] * b[2]


def _cross(a: Vector, b: Vector) -> Vector:
    return a[1] * b[2] - a[2] * b[1], a[2] * b[0] - a[0] * b[2], a[0] * b[1] - a[1] * b[0]


def _times(a: Vector, factor: float) -> Vector:
    return a[0] * factor, a[1] * factor, a[2] * factor


def _plus(*terms: Vector) -> Vector:
    return tuple(sum(one[k] for one in terms) for k in range(3))  # type: ignore[return-value]


def _faded(r: float, power: float, least: float | None, most: float | None) -> float:
    if most is not None and r > most:
        return 0.0
    if least is not None:
        return 1.0 if r < least else 1.0 / (1.0 + r - least) ** power
    return 1.0 / (1.0 + r) ** power


def acceleration(
    kind: str,
    shape: str,
    place: Vector,
    axis: Vector,
    point: Vector,
    velocity: Vector,
    strength: float,
    damping: float = 0.0,
    flow: float = 0.0,
    rest_length: float = 0.0,
    gravitation: bool = False,
    within: str = "SPHERE",
    fade: Sequence[float | None] = (0.0, None, None),
    across: Sequence[float | None] = (0.0, None, None),
    side: str = "BOTH",
    weight: float = 1.0,
) -> Vector:
    q = _plus(point, _times(place, -1.0))
    height = _dot(q, axis)
    if (side == "POSITIVE" and height < 0.0) or (side == "NEGATIVE" and height > 0.0):
        return 0.0, 0.0, 0.0
    from_axis = _plus(q, _times(axis, -height))
    if shape == "LINE" or (kind == "VORTEX" and shape == "PLANE"):
        r = from_axis
    else:
        r = _times(axis, height) if shape == "PLANE" else q
    length = math.sqrt(_dot(r, r))
    if within == "SPHERE":
        f = weight * _faded(length, *fade)  # type: ignore[arg-type]
    else:
        radius = math.sqrt(_dot(from_axis, from_axis))
        beside = radius if within == "TUBE" else math.degrees(math.atan2(radius, height))
        f = weight * _faded(abs(height), *fade) * _faded(beside, *across)  # type: ignore[arg-type]
    if f == 0.0:
        return 0.0, 0.0, 0.0
    drag = _times(velocity, -flow * f)
    if kind == "WIND":
        return _plus(_times(axis, strength * f), drag)
    if kind == "FORCE":
        return _plus(_times(r, strength * f / length / (length**2 if gravitation else 1.0)), drag)
    if kind == "VORTEX" and shape == "POINT":
        around = _cross(axis, r)
        return _plus(_times(around, strength * f * length / math.sqrt(_dot(around, around))), drag)
    if kind == "VORTEX":
        around = _times(_cross(axis, q), strength * f)
        # n x (n x q) points towards the axis.
        return _plus(around, _times(from_axis, -((strength * f) ** 2)), _times(velocity, -1.0), drag)
    if kind == "MAGNET":
        b = axis if shape == "PLANE" else _cross(axis, r)
        return _plus(_times(_cross(velocity, b), strength * f / math.sqrt(_dot(b, b))), drag)
    if kind == "HARMONIC":
        stretch = 1.0 - rest_length / length if rest_length else 1.0
        return _plus(_times(r, -strength * f * stretch), _times(velocity, -2.0 * damping * math.sqrt(abs(strength))))
    if kind == "DRAG":
        speed = math.sqrt(_dot(velocity, velocity))
        return _times(velocity, -f * (min(strength, 2.0) * speed + min(damping, 2.0)))
    raise ValueError(kind)
