"""Cloth that falls over a ball, baked into a frame cache and read back."""

import tempfile
from pathlib import Path

import numpy as np
from scipy.spatial import ConvexHull

import checkout  # noqa: F401
from dampsim.core import Body, Collider, FrameCache, Scene, Settings, Simulation, Surface, bake

CELLS, WIDTH, HEIGHT = 12, 1.0, 0.45
RADIUS, BALL_VERTICES = 0.3, 400
FIRST, LAST = 1, 30
GRAVITY = np.array([0.0, 0.0, -9.81])


def sheet_surface() -> Surface:
    """Return a square sheet above the ball, in metres."""
    ticks = np.linspace(-0.5 * WIDTH, 0.5 * WIDTH, CELLS + 1)
    x, y = (values.ravel() for values in np.meshgrid(ticks, ticks, indexing="ij"))
    index = np.arange((CELLS + 1) ** 2).reshape(CELLS + 1, CELLS + 1)
    a, b, c, d = index[:-1, :-1].ravel(), index[1:, :-1].ravel(), index[1:, 1:].ravel(), index[:-1, 1:].ravel()
    triangles = np.concatenate([np.column_stack([a, b, c]), np.column_stack([a, c, d])])
    return Surface("Cloth", np.column_stack([x, y, np.full(len(x), HEIGHT)]), triangles)


def ball_hull() -> ConvexHull:
    """Return the convex hull of points on a spiral around a sphere at the origin, in metres."""
    k = np.arange(BALL_VERTICES) + 0.5
    z, angle = 1.0 - 2.0 * k / BALL_VERTICES, np.pi * (1.0 + np.sqrt(5.0)) * k
    r = np.sqrt(1.0 - z**2)
    return ConvexHull(RADIUS * np.column_stack([r * np.cos(angle), r * np.sin(angle), z]))


def simulate() -> tuple[float, float]:
    """Return the height of the lowest point and the smallest distance from the ball in all frames, both in m."""
    sheet, hull = sheet_surface(), ball_hull()
    ball = Collider("Ball", hull.points, hull.simplices.astype(np.int64))
    pins = np.zeros(len(sheet.vertices))
    cloth = Body(sheet, pins, Settings(), kind="CLOTH")
    scene = Scene((cloth,), fps=24.0, gravity=GRAVITY, first=FIRST, last=LAST, colliders=(ball,))
    with tempfile.TemporaryDirectory() as folder:
        cache = FrameCache(Path(folder) / "cache", scene.name)
        for _progress in bake(Simulation(scene), cache):
            pass
        shapes = np.array([cache.read_shape(number, "Cloth") for number in cache.frame_numbers()])
    # The ball is convex, so a point is outside if it is in front of at least one face.
    distances = shapes @ hull.equations[:, :3].T + hull.equations[:, 3]
    return float(shapes[-1, :, 2].min()), float(distances.max(axis=2).min())


if __name__ == "__main__":
    lowest, distance = simulate()
    print(f"Lowest point at the end: {lowest:.3f} m")
    print(f"Smallest distance of a vertex from the ball: {1000.0 * distance:.2f} mm")
