"""Centre line of a curve as a polyline, and the control points that move it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import bpy
import numpy as np

from ...core import Array, Index
from .sampler import read_array

_HANDLES = ("co", "handle_left", "handle_right")
# Weight of the rest positions in the least-squares fit of control points, relative to that of the samples.
_REGULARIZATION = 1e-4


@dataclass(frozen=True)
class CurvePolyline:
    """Centre line of a curve.

    points: (v, 3) in the curve's space.  edges: (e, 2).  open_starts: the first point of each open spline.
    """

    points: Array
    edges: Index
    open_starts: list[int]


@dataclass(frozen=True)
class ControlPointMap:
    """Linear map from displacements of a curve's centre line to its control points and handles.

    rest: (c, 3) in the curve's space.  inverse: (c, v).
    """

    rest: Array
    inverse: Array

    def __call__(self, displacements: Array) -> Array:
        """Return control points and handles (c, 3) for displacements (v, 3) of the centre line's points."""
        return self.rest + np.asarray(self.inverse @ displacements)


@contextmanager
def _thin_copy(curve: bpy.types.Curve) -> Iterator[tuple[bpy.types.Object, bpy.types.Curve]]:
    """Provide a temporary copy of a curve without thickness and with free handles."""
    data = curve.copy()
    data.dimensions, data.bevel_depth, data.extrude, data.offset, data.bevel_object = "3D", 0.0, 0.0, 0.0, None
    data.taper_object, data.bevel_factor_start, data.bevel_factor_end = None, 0.0, 1.0
    for spline in data.splines:
        for point in spline.bezier_points:
            point.handle_left_type = point.handle_right_type = "FREE"
    obj = bpy.data.objects.new(data.name, data)
    if data.shape_keys is not None:
        # A bake's keys would override the points.
        obj.shape_key_clear()
    try:
        yield obj, data
    finally:
        bpy.data.objects.remove(obj)
        bpy.data.curves.remove(data)


def _sample_polyline(obj: bpy.types.Object) -> tuple[Array, Index]:
    mesh = obj.to_mesh()
    if mesh is None:
        # The curve has no points.
        return np.zeros((0, 3)), np.zeros((0, 2), dtype=np.int64)
    points, edges = read_array(mesh.vertices, "co", float, 3), read_array(mesh.edges, "vertices", np.int64, 2)
    obj.to_mesh_clear()
    return points, edges


def _with_handles(points: Iterable[Any]) -> list[tuple[Any, str]]:
    """Return control points, of splines or of a shape key, each with the names of its positions."""
    return [(point, name) for point in points for name in (_HANDLES if hasattr(point, "handle_left") else ("co",))]


def centre_line(curve: bpy.types.Curve) -> CurvePolyline:
    """Return the centre line of a Bezier, NURBS or poly curve, at the resolution at which Blender draws it."""
    with _thin_copy(curve) as (obj, _):
        points, edges = _sample_polyline(obj)
    # Points of a spline are numbered consecutively.
    ends = np.bincount(edges.ravel(), minlength=len(points))
    follows = np.zeros(len(points), dtype=bool)
    follows[edges.max(axis=1)[np.abs(edges[:, 0] - edges[:, 1]) == 1]] = True
    return CurvePolyline(points, edges, np.flatnonzero((ends == 1) & ~follows).tolist())


def fit_control_points(curve: bpy.types.Curve) -> ControlPointMap:
    """Fit control points to the centre line: exactly where their numbers are equal, otherwise by least squares."""
    with _thin_copy(curve) as (obj, data):
        handles = _with_handles(point for spline in data.splines for point in (spline.bezier_points or spline.points))
        rest = np.array([getattr(point, name)[:3] for point, name in handles], dtype=float).reshape(-1, 3)
        samples, _ = _sample_polyline(obj)
        columns = np.empty((len(samples), len(handles)))
        step = max(float(np.ptp(samples, axis=0).max()), 1e-3)
        for number, (point, name) in enumerate(handles):
            place = tuple(getattr(point, name))
            setattr(point, name, (place[0] + step, *place[1:]))
            columns[:, number] = (_sample_polyline(obj)[0][:, 0] - samples[:, 0]) / step
            setattr(point, name, place)
    square = columns.T @ columns
    regularization = _REGULARIZATION**2 * np.trace(square) / max(len(square), 1) * np.eye(len(square))
    return ControlPointMap(rest, np.linalg.solve(square + regularization, columns.T))


def set_control_points(key: bpy.types.ShapeKey, positions: Array) -> None:
    """Set the control points and handles (c, 3) of a curve's shape key."""
    for (point, name), position in zip(_with_handles(key.data), positions, strict=True):
        setattr(point, name, position)
