"""Surfaces for tests, and a helper that changes the only body of a scene."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
from scipy.spatial import ConvexHull

from dampsim.core.geometry.mesh.surface import Surface
from dampsim.core.scene.scene import Scene


def _hull(name: str, points: np.ndarray) -> Surface:
    hull = ConvexHull(points)
    triangles = hull.simplices.copy()
    corners = points[triangles] - points.mean(axis=0)
    inward = np.linalg.det(corners) < 0.0
    triangles[inward] = triangles[inward][:, ::-1]
    return Surface(name, points, triangles.astype(np.int64))


def sphere(count: int = 800) -> Surface:
    """Return a unit sphere with vertices on a golden spiral."""
    k = np.arange(count) + 0.5
    z, angle = 1.0 - 2.0 * k / count, np.pi * (1.0 + np.sqrt(5.0)) * k
    r = np.sqrt(1.0 - z**2)
    return _hull("Sphere", np.stack([r * np.cos(angle), r * np.sin(angle), z], axis=1))


def box(size: tuple[float, float, float] = (1.0, 0.25, 0.25)) -> Surface:
    corners = np.array([(x, y, z) for x in (0, 1) for y in (0, 1) for z in (0, 1)], dtype=float)
    return _hull("Box", corners * np.array(size))


def ring(around: int = 48, across: int = 16) -> Surface:
    a, b = np.meshgrid(2 * np.pi * np.arange(around) / around, 2 * np.pi * np.arange(across) / across, indexing="ij")
    r = 1.0 + 0.3 * np.cos(b)
    vertices = np.stack([r * np.cos(a), r * np.sin(a), 0.3 * np.sin(b)], axis=2).reshape(-1, 3)
    i, j = np.meshgrid(np.arange(around), np.arange(across), indexing="ij")
    k = [((i + di) % around * across + (j + dj) % across).ravel() for di, dj in ((0, 0), (1, 0), (1, 1), (0, 1))]
    triangles = np.concatenate([np.stack([k[0], k[1], k[2]], axis=1), np.stack([k[0], k[2], k[3]], axis=1)])
    return Surface("Ring", vertices, triangles)


def tube(length: float, radius: float, rings: int, sides: int) -> Surface:
    """Return a closed rod that stands on z = 0."""
    around = 2 * np.pi * np.arange(sides) / sides
    circle = radius * np.stack([np.cos(around), np.sin(around)], axis=1)
    heights = np.linspace(0.0, length, rings + 1)
    vertices = np.concatenate([np.column_stack([circle, np.full(sides, z)]) for z in heights])
    k, j = (values.ravel() for values in np.meshgrid(np.arange(rings), np.arange(sides), indexing="ij"))
    a, b = k * sides + j, k * sides + (j + 1) % sides
    caps = np.column_stack([np.zeros(sides - 2, dtype=int), np.arange(2, sides), np.arange(1, sides - 1)])
    triangles = np.concatenate(
        [
            np.column_stack([a, b, b + sides]),
            np.column_stack([a, b + sides, a + sides]),
            caps,
            caps[:, ::-1] + rings * sides,
        ]
    )
    return Surface("Tube", vertices, triangles)


def sheet(count: int = 6) -> Surface:
    x, y = np.meshgrid(np.linspace(0, 1, count), np.linspace(0, 1, count), indexing="ij")
    vertices = np.stack([x.ravel(), y.ravel(), 0.0 * x.ravel()], axis=1)
    i, j = np.meshgrid(np.arange(count - 1), np.arange(count - 1), indexing="ij")
    k = (i * count + j).ravel()
    triangles = np.concatenate(
        [np.stack([k, k + count, k + count + 1], axis=1), np.stack([k, k + count + 1, k + 1], axis=1)]
    )
    return Surface("Sheet", vertices, triangles)


def with_body(scene: Scene, **changes: Any) -> Scene:
    """Return the scene with changes of its only body."""
    (body,) = scene.bodies
    return replace(scene, bodies=(replace(body, **changes),))


SHAPES: dict[str, Surface] = {
    "sphere": sphere(),
    "box": box(),
    "rod": _hull("Rod", np.concatenate([box((2.0, 0.05, 0.05)).vertices])),
    "ring": ring(),
}


def sweep_circles(name: str, points: np.ndarray, radii: np.ndarray, sides: int = 12, flat: float = 1.0) -> Surface:
    """Return a closed tube of circles (k,) m around a curve (k, 3) m in the plane y = 0. flat: height over width."""
    way = np.gradient(points, axis=0)
    way /= np.linalg.norm(way, axis=1, keepdims=True)
    across = np.array([0.0, 1.0, 0.0])
    up = np.cross(way, across)
    angle = 2.0 * np.pi * np.arange(sides) / sides
    around = np.cos(angle)[None, :, None] * across + flat * np.sin(angle)[None, :, None] * up[:, None]
    rings = points[:, None] + radii[:, None, None] * around
    vertices = np.concatenate([rings.reshape(-1, 3), points[[0, -1]]])
    first, last, k = len(vertices) - 2, len(vertices) - 1, np.arange(sides)
    following = (k + 1) % sides
    sheets = [np.stack([np.full(sides, first), k, following], 1)]
    for ring in range(len(points) - 1):
        a, b = ring * sides + k, ring * sides + following
        sheets += [np.stack([a, a + sides, b], 1), np.stack([b, a + sides, b + sides], 1)]
    end = (len(points) - 1) * sides
    sheets.append(np.stack([np.full(sides, last), end + following, end + k], 1))
    triangles = np.concatenate(sheets)
    corners = vertices[triangles]
    if np.einsum("ij,ij->", corners[:, 0], np.cross(corners[:, 1], corners[:, 2])) < 0.0:
        triangles = triangles[:, ::-1]
    return Surface(name, vertices, np.ascontiguousarray(triangles, dtype=np.int64))


def horn() -> Surface:
    """Return a tapering quarter circle with a radius of 1 m."""
    angle = np.linspace(0.0, 0.5 * np.pi, 17)
    points = np.stack([np.sin(angle), 0.0 * angle, 1.0 - np.cos(angle)], axis=1)
    return sweep_circles("Horn", points, 0.16 - 0.07 * angle)


def ear() -> Surface:
    """Return a leaf, three times as wide as thick."""
    t = np.linspace(0.0, 1.0, 15)
    return sweep_circles(
        "Ear", np.stack([t, 0.0 * t, 0.0 * t], 1), 0.06 + 0.2 * np.sin(np.pi * t**0.8) * (1 - 0.4 * t), flat=0.35
    )


def dumbbell() -> Surface:
    """Return a heavy ball on a stalk."""
    t = np.linspace(0.0, 1.0, 23)
    ball = np.sqrt(np.maximum(0.22**2 - (t - 0.76) ** 2, 0.0))
    return sweep_circles("Dumbbell", np.stack([t, 0.0 * t, 0.0 * t], 1), np.maximum(ball, 0.08 - 0.05 * (t > 0.9)))


def horseshoe() -> Surface:
    """Return half a ring, for pins at one end."""
    angle = np.linspace(0.0, np.pi, 21)
    points = 0.5 * np.stack([1.0 - np.cos(angle), 0.0 * angle, np.sin(angle)], axis=1)
    return sweep_circles("Horseshoe", points, np.full(21, 0.11))


def belly() -> Surface:
    """Return a wide dome, for pins on its whole base."""
    t = np.linspace(0.0, 1.0, 11)
    return sweep_circles(
        "Belly", np.stack([0.5 * t, 0.0 * t, 0.0 * t], 1), 0.02 + 0.55 * np.sqrt(np.maximum(1.0 - t**2, 0.0)), 16
    )


def tail() -> Surface:
    """Return a tail of 1 m, a quarter as thick at its end as at its root."""
    t = np.linspace(0.0, 1.0, 21)
    return sweep_circles("Tail", np.stack([t, 0.0 * t, 0.0 * t], 1), 0.1 - 0.075 * t)


def lump() -> Surface:
    """Return a ball with a slight waist."""
    angle = np.linspace(0.05, np.pi - 0.05, 13)
    points = np.stack([0.3 * (1.0 - np.cos(angle)), 0.0 * angle, 0.0 * angle], 1)
    return sweep_circles("Lump", points, 0.3 * np.sin(angle) * (1.0 + 0.15 * np.cos(3.0 * angle)))
