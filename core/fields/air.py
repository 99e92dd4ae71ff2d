"""Air around sheets: its velocity in the fields Wind and Turbulence, and its resistance to each face.

See docs/explanation/physics/08-force-fields.md.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np

from ..base.arrays import Array, Index
from ..geometry.mesh.triangles import cross_rows
from .field import ForceField, ForceFieldType
from .forces import gradient_noise, sample_field, turbulence

AIR_FIELDS = (ForceFieldType.WIND, ForceFieldType.TURBULENCE)
"""Types of fields that move the air around sheets. They do not accelerate sheets directly."""

# Strength of a field over the squared speed of the air, 1/m: strengths that are usual for flags give usual winds.
_STRENGTH_PER_SQUARED_SPEED = 8.0
# Standard deviation of forces.turbulence().
_TURBULENCE_DEVIATION = 0.177
# Time in s between two gusts, and the factor by which the gradient noise reaches from -1 to 1.
_GUST_TIME, _GUST_RANGE = 2.0, 2.0
# Point through which the gusts read the gradient noise, away from the lattice, where it is 0.
_GUST_LINE = np.array([0.0, 0.37, 0.71])
# Least speed in m/s at which eddies pass.
_MIN_TRAVEL_SPEED = 0.5

# Upper limits of the speeds of the Beaufort scale, m/s.
_BEAUFORT = (
    (0.3, "calm"), (1.6, "light air"), (3.4, "light breeze"), (5.5, "gentle breeze"), (8.0, "moderate breeze"),
    (10.8, "fresh breeze"), (13.9, "strong breeze"), (17.2, "near gale"), (20.8, "gale"), (24.5, "strong gale"),
    (28.5, "storm"), (32.7, "violent storm"), (math.inf, "hurricane"),
)  # fmt: skip

# Density of the air, kg/m^3.
_AIR_DENSITY = 1.2
# Normal coefficient: its slope at small angles to the air, and its value face on, of a plate about as wide as long.
_NORMAL_SLOPE, _NORMAL_FACE_ON = 2.5, 1.2
# Friction coefficient along the face.
_FRICTION = 0.05


@dataclass(frozen=True)
class WindTime:
    """Time at which fields move the air.

    seconds: s since the first frame.
    period: s after which gusts and eddies repeat; None if they never do.
    travel: (3,) m/s, velocity at which eddies pass; zero for the axis of the field.
    """

    seconds: float
    period: float | None
    travel: Array

    def blend(self, value_at: Callable[[float], Array]) -> Array:
        """Return a random value at the time, which is exactly periodic with the period.

        value_at: returns the value at a time in s. Over a period, the value fades into the one a period before, with
        weights that keep its standard deviation.
        """
        if self.period is None:
            return value_at(self.seconds)
        time = self.seconds % self.period
        if time == 0.0:
            return value_at(time)
        angle = 0.5 * np.pi * time / self.period
        return np.asarray(np.cos(angle) * value_at(time) + np.sin(angle) * value_at(time - self.period))


def speed_of(strength: Array | float) -> Array:
    """Return the speed of the air (n,) m/s for the strengths (n,) of a field."""
    return np.asarray(np.sign(strength) * np.sqrt(np.abs(strength) / _STRENGTH_PER_SQUARED_SPEED))


def beaufort_name(speed: float) -> str:
    """Return the name of a wind of a speed in m/s on the Beaufort scale."""
    return next(name for limit, name in _BEAUFORT if abs(speed) < limit or limit == math.inf)


def air_velocities(fields: Sequence[ForceField], weight: float, time: WindTime, points: Array) -> Array:
    """Return the velocity of the air (n, 3) m/s at points (n, 3) m.

    fields: of which those of AIR_FIELDS count.  weight: factor on their strengths.
    """
    total = np.zeros_like(points)
    for one in fields:
        if one.kind not in AIR_FIELDS:
            continue
        field = replace(one, strength=one.strength + one.noise * _gust(time, one.seed)) if one.noise else one
        sample = sample_field(field, points, total, weight, 1.0)
        speed = speed_of(field.strength * sample.falloff)[:, None]
        if not speed.any():
            continue
        if field.kind is ForceFieldType.WIND:
            total = total + speed * field.axis
        else:
            places = points if field.fixed_pattern else sample.offset
            total = total + speed * _eddies(field, places, time)
    return total


def mean_wind(fields: Sequence[ForceField], weight: float, point: Array) -> Array:
    """Return the velocity (3,) m/s of the air at a point (3,) m without gusts and eddies."""
    steady = [replace(one, noise=0.0) for one in fields if one.kind is ForceFieldType.WIND]
    return np.asarray(air_velocities(steady, weight, WindTime(0.0, None, np.zeros(3)), point[None])[0])


def _gust(time: WindTime, seed: int) -> float:
    """Return a smooth random number from about -1 to 1."""

    def value_at(seconds: float) -> Array:
        return _GUST_RANGE * gradient_noise(_GUST_LINE[None] + [[seconds / _GUST_TIME, 0.0, 0.0]], seed)

    return float(time.blend(value_at)[0])


def _eddies(field: ForceField, points: Array, time: WindTime) -> Array:
    """Return vector noise (n, 3) of standard deviation 1, which travels with the wind (Taylor's frozen turbulence)."""
    speed = float(np.linalg.norm(time.travel))
    direction = time.travel / speed if speed > 0.0 else field.axis
    travel = max(speed, _MIN_TRAVEL_SPEED) * direction
    return time.blend(lambda s: turbulence(points - s * travel, field.size, field.seed) / _TURBULENCE_DEVIATION)


def face_resistance(positions: Array, triangles: Index, velocities: Array, factor: float) -> Array:
    """Return the resistance (m, 3, 3) N s/m of faces to the air; a face feels this times the velocity of the air.

    positions: (n, 3) m.  triangles: (m, 3).  velocities: (m, 3) m/s, of the air past each face.
    factor: factor on the density of the air.

    The matrices are symmetric and positive semi-definite. Their normal coefficient is c_s sin a/(1 + (c_s/c_90 - 1)
    sin a) at an angle a between face and air.
    """
    normal, double_area = _face_normals(positions, triangles)
    speed = np.sqrt(np.einsum("mi,mi->m", velocities, velocities))
    sine = np.abs(np.einsum("mi,mi->m", velocities, normal)) / np.maximum(speed, np.finfo(float).tiny)
    pressure = 0.25 * factor * _AIR_DENSITY * double_area * speed
    along_normal = _NORMAL_SLOPE / (1.0 + (_NORMAL_SLOPE / _NORMAL_FACE_ON - 1.0) * sine) - _FRICTION
    found = (pressure * along_normal)[:, None, None] * (normal[:, :, None] * normal[:, None, :])
    found.reshape(-1, 9)[:, ::4] += (pressure * _FRICTION)[:, None]
    return np.asarray(found)


def _face_normals(positions: Array, triangles: Index) -> tuple[Array, Array]:
    """Return the unit normals (m, 3) and twice the areas (m,) m^2 of faces; the normal of a degenerate face is 0."""
    # Put the coordinates first: numpy is much faster along many faces than along three coordinates.
    first, second, third = np.ascontiguousarray(positions.T)[:, triangles.T].transpose(1, 0, 2)
    normal = cross_rows(second - first, third - first)
    double_area = np.sqrt((normal**2).sum(axis=0))
    return np.ascontiguousarray((normal / np.maximum(double_area, np.finfo(float).tiny)).T), double_area


def windward_weights(positions: Array, triangles: Index, velocities: Array, resistance: Array) -> Array:
    """Return weights (m,) that move the pressure on a loose sheet to its windward edge and keep its drag.

    This is the only moment that turns a flat plate into the wind; it grows from 0 face on.

    positions, triangles, velocities: see face_resistance(), of one connected sheet.
    resistance: (m, 3, 3) N s/m, of its faces.
    """
    corners, (normal, area) = positions[triangles], _face_normals(positions, triangles)
    total = float(area.sum())
    mean = area @ velocities / max(total, float(np.finfo(float).tiny))
    speed = float(np.linalg.norm(mean))
    if speed == 0.0 or total == 0.0:
        return np.ones(len(triangles))
    direction = mean / speed
    cosine = np.linalg.norm(direction - (normal @ direction)[:, None] * normal, axis=1)
    upwind = -(corners.mean(axis=1) @ direction)
    upwind = upwind - area @ upwind / total
    reach = float(np.abs(upwind).max(initial=0.0))
    if reach == 0.0:
        return np.ones(len(triangles))
    weight = 1.0 + cosine * upwind / reach
    # On a dome the mean of the weights over the area would take a fifth of the drag from its apex.
    drag = np.einsum("i,mij,j->m", direction, resistance, direction)
    kept = float(drag @ weight)
    return np.asarray(weight * (float(drag.sum()) / kept)) if kept > 0.0 else np.ones(len(triangles))


def nodal_resistance(resistance: Array, triangles: Index, count: int) -> Array:
    """Return the resistance (n, 3, 3) N s/m of n = count nodes, a third of each of their faces' (m, 3, 3)."""
    corners, found = triangles.T.ravel(), np.empty((count, 9))
    for k, thirds in enumerate(resistance.reshape(-1, 9).T / 3.0):
        found[:, k] = np.bincount(corners, weights=np.tile(thirds, 3), minlength=count)
    return found.reshape(count, 3, 3)
