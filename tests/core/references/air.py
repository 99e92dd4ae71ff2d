"""Reference implementation of the air's resistance for one face at a time, without linear algebra.

Equations are those of docs/explanation/physics/08-force-fields.md.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

Vector = Sequence[float]


def _dot(a: Vector, b: Vector) -> float:
    return sum(p * q for p, q in zip(a, b, strict=True))


def _minus(a: Vector, b: Vector) -> list[float]:
    return [p - q for p, q in zip(a, b, strict=True)]


def force_on_face(corners: Sequence[Vector], past: Vector, wind: Vector, air: float) -> list[float]:
    """Return the force in N of a wind on a face at rest. past: m/s, of the air past the face."""
    a, b = _minus(corners[1], corners[0]), _minus(corners[2], corners[0])
    cross = [a[1] * b[2] - a[2] * b[1], a[2] * b[0] - a[0] * b[2], a[0] * b[1] - a[1] * b[0]]
    twice = math.sqrt(_dot(cross, cross))
    normal = [one / twice for one in cross]
    speed = math.sqrt(_dot(past, past))
    sine = abs(_dot(past, normal)) / speed
    pressure = 0.5 * 1.2 * air * (twice / 2.0) * speed
    across = _dot(wind, normal)
    on_normal = pressure * 2.5 / (1.0 + (2.5 / 1.2 - 1.0) * sine) * across
    return [on_normal * n + pressure * 0.05 * (w - across * n) for w, n in zip(wind, normal, strict=True)]
