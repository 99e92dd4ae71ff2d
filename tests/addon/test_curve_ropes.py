"""Ropes from curves: the centre line is simulated, and the curve follows the bake."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import bpy
import numpy as np
import pytest
from scenes import LAST, dump, new_scene

pytestmark = [pytest.mark.bpy, pytest.mark.versions]
KINDS = ["POLY", "BEZIER", "NURBS"]


def moving_curve(kind: str, count: int = 6, **more: Any) -> bpy.types.Object:
    """Return a moving curve object with two splines of 1 m along x."""
    data = bpy.data.curves.new("Cable", "CURVE")
    data.dimensions, data.bevel_depth = "3D", 0.02
    for place in (0.0, 0.5):
        spline = data.splines.new(kind)
        points = spline.bezier_points if kind == "BEZIER" else spline.points
        points.add(count - 1)
        for number, point in enumerate(points):
            co = (number / (count - 1), place, 0.0)
            point.co = co if kind == "BEZIER" else (*co, 1.0)
            if kind == "BEZIER":
                point.handle_left_type = point.handle_right_type = "AUTO"
        if kind == "NURBS":
            spline.use_endpoint_u = True
    obj = bpy.data.objects.new("Cable", data)
    bpy.context.scene.collection.objects.link(obj)
    obj.location, obj.rotation_euler.z, obj.scale = (0.3, 0.2, 1.0), 0.4, (0.8, 0.8, 0.8)
    for frame, place in ((1, 0.2), (3, 0.2), (6, 0.4)):
        obj.location.y = place
        obj.keyframe_insert("location", frame=frame)
    for other in bpy.context.selected_objects:
        other.select_set(False)
    obj.select_set(True)
    bpy.context.view_layer.objects.active = obj
    return obj


def centre_line(curve: bpy.types.Object, frame: int) -> np.ndarray:
    """Return the evaluated centre line in world space, (v, 3) m."""
    bevel, curve.data.bevel_depth = curve.data.bevel_depth, 0.0
    bpy.context.scene.frame_set(frame)
    evaluated = curve.evaluated_get(bpy.context.evaluated_depsgraph_get())
    mesh = evaluated.to_mesh()
    found = np.array([curve.matrix_world @ vertex.co for vertex in mesh.vertices])
    evaluated.to_mesh_clear()
    curve.data.bevel_depth = bevel
    return found


def add_curve_rope(curve: bpy.types.Object, cache: Path) -> bpy.types.Object:
    assert bpy.ops.dampsim.curve_rope() == {"FINISHED"}
    rope = bpy.context.object
    rope.dampsim.cache_folder, rope.dampsim.settle, rope.dampsim.target = str(cache), 12.0, "POINT_CACHE"
    return rope


@pytest.mark.parametrize("kind", KINDS)
def test_curve_follows_baked_rope(load: Any, tmp_path: Path, kind: str) -> None:
    """The curve follows its baked rope, and Clear restores it."""
    new_scene()
    curve = moving_curve(kind)
    plain = centre_line(curve, LAST)
    rope = add_curve_rope(curve, tmp_path)
    assert (rope.dampsim.kind, rope.dampsim.thickness) == ("ROPE", pytest.approx(40.0))
    assert len(rope.data.vertices) == len(plain)
    bpy.context.scene.frame_set(1)
    before = dump()
    assert bpy.ops.dampsim.bake() == {"FINISHED"}
    cache = load("dampsim_addon.model.caches").frame_cache(rope)
    length = 0.8
    for number in range(1, LAST + 1):
        away = np.linalg.norm(centre_line(curve, number) - cache.read_shape(number, rope.name), axis=1)
        # Six control points of a spline cannot follow every bend.
        assert away.max() < (1e-5 if kind == "POLY" else 0.03) * length
    assert np.abs(centre_line(curve, LAST) - plain).max() > 0.05
    assert bpy.ops.dampsim.clear() == {"FINISHED"}
    assert curve.data.shape_keys is None
    np.testing.assert_allclose(centre_line(curve, LAST), plain, atol=1e-6)
    bpy.context.scene.frame_set(1)
    assert dump() == before


def test_rope_pins_first_spline_points(tmp_path: Path) -> None:
    new_scene()
    rope = add_curve_rope(moving_curve("BEZIER"), tmp_path)
    held = [v.index for v in rope.data.vertices if any(g.weight == 1.0 for g in v.groups)]
    assert len(held) == 2
    assert all(abs(rope.data.vertices[k].co.x) < 1e-6 for k in held)


def test_incompatible_curve_is_refused(tmp_path: Path) -> None:
    """A curve that cannot follow is refused before anything is simulated."""
    new_scene()
    curve = moving_curve("POLY")
    rope = add_curve_rope(curve, tmp_path)
    curve.data.splines[0].points.add(1)
    with pytest.raises(RuntimeError, match="the points of its curve Cable have changed"):
        bpy.ops.dampsim.bake()
    new_scene()
    curve = moving_curve("POLY")
    rope = add_curve_rope(curve, tmp_path)
    curve.shape_key_add(name="Mine")
    with pytest.raises(RuntimeError, match="its curve Cable already has shape keys"):
        bpy.ops.dampsim.bake()
    assert not rope.dampsim.baked
    bpy.context.view_layer.objects.active = curve
    with pytest.raises(RuntimeError, match="already follows Cable Rope"):
        bpy.ops.dampsim.curve_rope()
    empty = bpy.data.objects.new("Empty Curve", bpy.data.curves.new("Nothing", "CURVE"))
    bpy.context.scene.collection.objects.link(empty)
    bpy.context.view_layer.objects.active = empty
    with pytest.raises(RuntimeError, match="has no length"):
        bpy.ops.dampsim.curve_rope()
