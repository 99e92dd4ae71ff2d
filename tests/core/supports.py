"""Colliders and blocks for tests of contact, and penetration depths."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import numpy as np
from scipy.spatial.transform import Rotation

from animated import AnimatedCollider
from builders import gridded_box, static_body
from dampsim.core.geometry.collision.intersections import depth_inside
from dampsim.core.geometry.collision.proximity import Triangles
from dampsim.core.geometry.mesh.surface import Surface
from dampsim.core.scene.body import Body
from dampsim.core.scene.parameters import ColliderSettings
from dampsim.core.simulation.contact_setup import weld_coincident

Path = Callable[[float], np.ndarray]
"""Translation at a frame, (3,) m."""


def zero_path(frame: float) -> np.ndarray:
    return np.zeros(3)


def plane(height: float = 0.0, path: Path = zero_path, **dials: float) -> AnimatedCollider:
    there = np.array([[0.0, 0.0, height], [1.0, 0.0, height], [0.0, 1.0, height]])
    kept, none = ColliderSettings(**dials), np.zeros((0, 3), dtype=np.int64)
    return AnimatedCollider(
        "Floor",
        there + path(1.0),
        none,
        True,
        motion=lambda frame: there + path(frame),
        settings_by_frame=lambda frame: kept,
    )


def collider(surface: Surface, path: Path = zero_path) -> AnimatedCollider:
    """Return a mesh collider that moves without rotation."""
    return AnimatedCollider(
        surface.name,
        surface.vertices + path(1.0),
        surface.triangles,
        motion=lambda frame: surface.vertices + path(frame),
    )


def block(name: str = "Block", low: Iterable[float] = (-0.1, -0.1, 0.0), size: float = 0.2, **more: Any) -> Body:
    """Return a cube of 1000 kg/m^3 that starts in its modelled shape."""
    low = np.array(list(low), dtype=float)
    surface = gridded_box(name, low, low + size, more.pop("spacing", 0.25 * size))
    dials = {"stiffness": 100.0, "settle": 12.0, "bounce": 0.0, "resolution": 150, "density": 1000.0}
    return static_body(surface, **{**dials, "start_settled": False, **more})


def rotate_surface(surface: Surface, degrees: Iterable[float], centre: Iterable[float]) -> Surface:
    """Return a surface rotated about its middle, which is moved to a place."""
    turn = Rotation.from_euler("xyz", list(degrees), degrees=True)
    middle = 0.5 * (surface.vertices.min(axis=0) + surface.vertices.max(axis=0))
    return Surface(surface.name, turn.apply(surface.vertices - middle) + np.array(list(centre)), surface.triangles)


def wave_sheet(count: int, size: float, high: float, long: float) -> Surface:
    """Return an open square sheet of waves around z = 0, with count by count vertices."""
    line = np.linspace(-0.5 * size, 0.5 * size, count)
    x, y = (one.ravel() for one in np.meshgrid(line, line, indexing="ij"))
    vertices = np.stack([x, y, high * np.sin(2 * np.pi * x / long) * np.cos(2 * np.pi * y / long)], axis=1)
    i, j = np.meshgrid(np.arange(count - 1), np.arange(count - 1), indexing="ij")
    k = (i * count + j).ravel()
    triangles = np.concatenate([np.stack([k, k + count, k + count + 1], 1), np.stack([k, k + count + 1, k + 1], 1)])
    return Surface("Waves", vertices, triangles)


def max_depth_inside(points: np.ndarray, vertices: np.ndarray, triangles: np.ndarray) -> float:
    """Return the largest depth of points inside a closed surface, m."""
    triangles = weld_coincident(vertices, triangles)
    return float(depth_inside(points, Triangles(vertices, triangles)).max(initial=0.0))
