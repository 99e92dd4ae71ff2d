"""Measures of the visible motion of an evaluated mesh beyond its animation, in parts of its size."""

from __future__ import annotations

from dataclasses import dataclass

import bpy
import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]


@dataclass(frozen=True)
class VisibleMotion:
    """Largest values over all frames, in parts of the size.

    moves: displacement of a vertex from the first frame, relative to the animation.  lags: distance of a vertex from
    the animation.  seam: gap between vertices that coincide in the animation.  edge: change of an edge's length.
    """

    moves: float
    lags: float
    seam: float
    edge: float


def evaluated(obj: bpy.types.Object) -> tuple[Array, NDArray[np.int64]]:
    """Return the evaluated vertices (v, 3) in world space and the edges (e, 2)."""
    shown = obj.evaluated_get(bpy.context.evaluated_depsgraph_get())
    mesh = shown.data
    points, edges = np.empty(3 * len(mesh.vertices), np.float32), np.empty(2 * len(mesh.edges), np.int32)
    mesh.vertices.foreach_get("co", points)
    mesh.edges.foreach_get("vertices", edges)
    matrix = np.array(obj.evaluated_get(bpy.context.evaluated_depsgraph_get()).matrix_world)
    return points.reshape(-1, 3) @ matrix[:3, :3].T + matrix[:3, 3], edges.reshape(-1, 2).astype(np.int64)


def evaluated_frames(obj: bpy.types.Object, frames: list[int]) -> list[tuple[Array, NDArray[np.int64]]]:
    """Return the evaluated vertices and edges of each frame."""
    found = []
    for frame in frames:
        bpy.context.scene.frame_set(frame)
        found.append(evaluated(obj))
    return found


def measure_motion(
    simulated: list[tuple[Array, NDArray[np.int64]]], animated: list[tuple[Array, NDArray[np.int64]]]
) -> VisibleMotion:
    """Compare frames with the simulation and the same frames without it."""
    size = float(np.ptp(animated[0][0], axis=0).max())
    assert all(np.isfinite(points).all() for points, _ in simulated), "it is not finite"
    assert all(len(a[0]) == len(b[0]) for a, b in zip(simulated, animated, strict=True)), "it has other vertices"
    off = [a[0] - b[0] for a, b in zip(simulated, animated, strict=True)]
    twins = coincident_pairs(animated[0][0], 1e-5 * size)
    length = [[np.linalg.norm(np.diff(p[e], axis=1)[:, 0], axis=1) for p, e in run] for run in (simulated, animated)]
    return VisibleMotion(
        moves=max(float(np.linalg.norm(one - off[0], axis=1).max()) for one in off) / size,
        lags=max(float(np.linalg.norm(one, axis=1).max()) for one in off) / size,
        seam=max(
            (float(np.linalg.norm(p[twins[:, 0]] - p[twins[:, 1]], axis=1).max(initial=0.0)) for p, _ in simulated)
        )
        / size,
        edge=max(float(np.abs(a - b).max()) for a, b in zip(*length, strict=True)) / size,
    )


def coincident_pairs(points: Array, within: float) -> NDArray[np.int64]:
    """Return the pairs (k, 2) of coincident vertices."""
    order = np.lexsort(np.round(points / within).T)
    near = np.linalg.norm(np.diff(points[order], axis=0), axis=1) < within
    return np.stack([order[:-1][near], order[1:][near]], axis=1)
