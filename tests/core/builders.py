"""Bodies and scenes for tests of springs, links and several bodies."""

from __future__ import annotations

from collections.abc import Generator, Iterable
from dataclasses import replace
from typing import Any, TypeVar

import numpy as np

from animated import AnimatedBody, AnimatedScene, Motion
from dampsim.core.geometry.mesh.surface import Surface
from dampsim.core.scene.body import Body
from dampsim.core.scene.parameters import Settings
from dampsim.core.scene.scene import Link, LinkPoint
from shapes import sheet, tube

Result = TypeVar("Result")

DOWN = np.array([0.0, 0.0, -9.81])
# Cloth of 0.2 kg/m^2 that stretches and bends like strong cotton: E t = 500 N/m, B = 5e-5 N m.
STOUT_COTTON: dict[str, Any] = {
    "thickness": 1.0, "stiffness": 500.0, "density": 200.0, "bending": 1.1,
    "plastic_yield": 0.0, "plastic_creep": 20.0, "plastic_most": 100.0,
}  # fmt: skip


def run_to_end(steps: Generator[Any, None, Result]) -> Result:
    """Run a generator to its end and return its result."""
    while True:
        try:
            next(steps)
        except StopIteration as end:
            result: Result = end.value
            return result


def gridded_box(name: str, low: Iterable[float], high: Iterable[float], spacing: float) -> Surface:
    """Return a box whose sides are grids of squares; no two sides share vertices."""
    low, high = np.array(list(low), dtype=float), np.array(list(high), dtype=float)
    ticks = [np.linspace(a, b, max(round((b - a) / spacing), 1) + 1) for a, b in zip(low, high, strict=True)]
    vertices, triangles, count = [], [], 0
    for axis in range(3):
        p, q = (axis + 1) % 3, (axis + 2) % 3
        for end, outward in ((low[axis], False), (high[axis], True)):
            a, b = np.meshgrid(ticks[p], ticks[q], indexing="ij")
            side = np.empty((a.size, 3))
            side[:, axis], side[:, p], side[:, q] = end, a.ravel(), b.ravel()
            i, j = np.meshgrid(np.arange(a.shape[0] - 1), np.arange(a.shape[1] - 1), indexing="ij")
            k, wide = (i * a.shape[1] + j).ravel(), a.shape[1]
            faces = np.concatenate([np.stack([k, k + wide, k + wide + 1], 1), np.stack([k, k + wide + 1, k + 1], 1)])
            vertices.append(side)
            triangles.append((faces if outward else faces[:, ::-1]) + count)
            count += len(side)
    return Surface(name, np.concatenate(vertices), np.concatenate(triangles).astype(np.int64))


def static_body(
    surface: Surface, pins: np.ndarray | None = None, motion: Motion | None = None, **more: Any
) -> AnimatedBody:
    """Return a body that stays at rest unless a motion is given. more: settings, and fields of AnimatedBody."""
    fields = {name: more.pop(name) for name in list(more) if name in AnimatedBody.__dataclass_fields__}
    weights = np.zeros(len(surface.vertices)) if pins is None else pins
    return AnimatedBody(surface, weights, Settings(**more), motion=motion, **fields)


def bar(name: str, low: float, high: float, pinned: bool, **more: Any) -> Body:
    """Return a part of a bar along x, 0.1 m thick; if pinned, by its low end."""
    surface = gridded_box(name, (low, 0.0, 0.0), (high, 0.1, 0.1), 0.05)
    pins = (surface.vertices[:, 0] < low + 1e-6).astype(float) if pinned else None
    return static_body(surface, pins, **{"stiffness": 300.0, "settle": 24.0, "bounce": 30.0, **more})


def weld(name: str, first: str, second: str, x: float, stiffness: float | None = None) -> tuple[Link, ...]:
    """Return sixteen links spread over a bar's cross-section at x."""
    ticks = np.linspace(0.0, 0.1, 4)
    points = [np.array([x, y, z]) for y in ticks for z in ticks]
    return tuple(
        Link(f"{name} {k}", LinkPoint(first, point), LinkPoint(second, point), stiffness)
        for k, point in enumerate(points)
    )


def wire_cube(name: str = "Cube", **more: Any) -> Body:
    """Return a cube of twelve wires of 1 m, pinned at its four upper corners."""
    v = np.array([(x, y, z) for x in (0, 1) for y in (0, 1) for z in (0, 1)], dtype=float)
    edges = np.array([(i, j) for i in range(8) for j in range(i + 1, 8) if np.abs(v[i] - v[j]).sum() == 1])
    surface = Surface(name, v, np.zeros((0, 3), dtype=np.int64))
    pins = more.pop("pins", (v[:, 2] > 0.5).astype(float))
    return static_body(surface, pins, kind="SPRINGS", edges=edges, **{"stiffness": 1e5, **more})


def net(count: int = 9, name: str = "Net", **more: Any) -> Body:
    """Return a net of 1 m x 1 m, of quads without diagonals, pinned along one edge."""
    surface = replace(sheet(count), name=name)
    k = np.arange(count * count).reshape(count, count)
    edges = np.concatenate(
        [np.stack([k[:-1].ravel(), k[1:].ravel()], 1), np.stack([k[:, :-1].ravel(), k[:, 1:].ravel()], 1)]
    )
    pins = more.pop("pins", (surface.vertices[:, 0] < 1e-9).astype(float))
    return static_body(surface, pins, kind="SPRINGS", edges=edges, **{"stiffness": 1e5, **more})


def strutted_rod(name: str = "Strutted", **more: Any) -> Body:
    """Return a rod along x, 1 m long, pinned at its end and filled with springs."""
    surface = tube(1.0, 0.12, 16, 12)
    surface = Surface(name, surface.vertices[:, [2, 1, 0]] * np.array([1.0, -1.0, 1.0]), surface.triangles)
    pins = more.pop("pins", (surface.vertices[:, 0] < 0.06).astype(float))
    dials = {"kind": "SPRINGS", "struts": "VOLUME", "resolution": 400, "stiffness": 500.0, **more}
    return static_body(surface, pins, **dials)


def wire(name: str, points: np.ndarray, pinned: Iterable[int] = (0,), **more: Any) -> Body:
    """Return a chain of wires through points (v, 3)."""
    k = np.arange(len(points))
    pins = np.isin(k, list(pinned)).astype(float)
    surface = Surface(name, np.asarray(points, dtype=float), np.zeros((0, 3), dtype=np.int64))
    return static_body(surface, pins, kind="SPRINGS", edges=np.stack([k[:-1], k[1:]], 1), **{"stiffness": 1e5, **more})


def scene(*bodies: Body, fps: float = 24.0, last: int = 12, gravity: np.ndarray = DOWN, **more: Any) -> AnimatedScene:
    return AnimatedScene(bodies, fps, gravity, 1, last, **more)
