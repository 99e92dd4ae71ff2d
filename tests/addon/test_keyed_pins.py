"""Keyed pressure in Blender: equality of playback and bakes, resume and the out-of-date line."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from types import ModuleType

import bpy
import numpy as np
import pytest
from scenes import add_simulation, new_scene, world_vertices
from test_live import assert_same_bits, bake_frames, live_frames, play

pytestmark = pytest.mark.bpy
Load = Callable[[str], ModuleType]
LAST = 8


def balloon(cache: Path) -> bpy.types.Object:
    """Return a weightless balloon that is pinned at its foot and inflated by keyframes between frames 2 and 6."""
    bpy.ops.mesh.primitive_ico_sphere_add(subdivisions=2, radius=0.2)
    obj = bpy.context.object
    obj.name = "Balloon"
    group = obj.vertex_groups.new(name="Pin")
    group.add([v.index for v in obj.data.vertices if v.co.z < -0.19], 1.0, "REPLACE")
    add_simulation(obj, cache, kind="CLOTH", gravity_weight=0.0, thickness=0.1, stiffness=10000.0)
    for frame, pressure in ((2, 0.0), (6, 300.0)):
        obj.dampsim.pressure = pressure
        obj.keyframe_insert("dampsim.pressure", frame=frame)
    return obj


def test_keyed_pressure_live_equals_bake(load: Load, live: ModuleType, tmp_path: Path) -> None:
    new_scene(LAST)
    obj = balloon(tmp_path)
    play(1, LAST)
    played = live_frames(live, obj)
    assert_same_bits(played, bake_frames(load, obj))
    assert load("dampsim_addon.api").bake([obj])[0].problem == ""
    sizes = [float(np.ptp(world_vertices(obj, frame)[:, 0])) for frame in range(1, LAST + 1)]
    assert sizes[1] == pytest.approx(sizes[0], rel=1e-4)
    assert sizes[-1] > 1.02 * sizes[0]
    changes = load("dampsim_addon.status.bake_changes")
    assert changes.changes_since_bake(obj, bpy.context.scene) == []
    obj.dampsim.pressure = 100.0
    obj.keyframe_insert("dampsim.pressure", frame=6)
    changes.refresh_digests(obj)
    assert changes.changes_since_bake(obj, bpy.context.scene) == ["keyframed Pressure"]
