"""The sample bridge: it starts at rest, its welds hold, and one bake includes all members."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from types import ModuleType

import bpy
import numpy as np
import pytest
from scenes import world_vertices

pytestmark = [pytest.mark.bpy, pytest.mark.slow]
Load = Callable[[str], ModuleType]
BRIDGE = Path(__file__).parents[2] / "sample_blends" / "bridge.blend"
MEMBERS = 22


@pytest.fixture
def ropes() -> list[bpy.types.Object]:
    bpy.ops.wm.open_mainfile(filepath=str(BRIDGE))
    return [bpy.data.objects["Rope Left"], bpy.data.objects["Rope Right"]]


def test_bridge_hangs_without_drift(load: Load, ropes: list[bpy.types.Object]) -> None:
    scene = bpy.context.scene
    bpy.data.objects["Far Posts"].animation_data_clear()
    sampling, groups = load("dampsim_addon.blender.sampler"), load("dampsim_addon.model.groups")
    group = groups.group_of(ropes[0])
    assert len(group.members) == MEMBERS
    with sampling.GroupSampler(scene, bpy.context.view_layer, group.members) as sampler:
        taken = load("dampsim_addon.scene_reader.scene_builder").build_scene(sampler)
        pose = taken.sample(float(taken.first))
    seconds = 20
    simulation = load("core.simulation.simulation").Simulation(
        replace(taken, last=taken.first + round(seconds * taken.fps), sampler=lambda frame: replace(pose, frame=frame))
    )
    frames = simulation.frames()
    begin = next(frames)
    *_, before, last = frames
    assert last.number == taken.first + seconds * taken.fps
    speed = np.linalg.norm(last.state.positions - before.state.positions, axis=1).max() * taken.fps
    assert speed < 1e-6
    # It starts in its static shape: the residual of that search is invisible.
    assert np.linalg.norm(last.state.positions - begin.state.positions, axis=1).max() < 1e-4
    (island,) = simulation.islands
    assert len(island.system.links.stiffness) == 80
    assert np.abs(island.system.links.gaps(last.state.positions)).max() < 1e-4
    # The middle hangs slightly lower than modelled.
    name = "Plank 10"
    sunk = (simulation.scene.body(name).surface.vertices - last.shapes[name])[:, 2]
    assert 0.0 < sunk.min() <= sunk.max() < 0.2


def test_single_bake_includes_all_members(load: Load, ropes: list[bpy.types.Object], tmp_path: Path) -> None:
    scene = bpy.context.scene
    simulated = [obj for obj in scene.objects if obj.type == "MESH" and obj.dampsim.enabled]
    for obj in simulated:
        obj.dampsim.cache_folder = str(tmp_path)
    scene.frame_end = 14
    bpy.context.view_layer.objects.active = ropes[0]
    assert bpy.ops.dampsim.bake() == {"FINISHED"}
    cache = load("dampsim_addon.model.caches").frame_cache(ropes[0])
    assert len(simulated) == MEMBERS
    for obj in simulated:
        assert obj.dampsim.baked == "SHAPE_KEYS"
        expected = cache.read_shape(14, obj.name)
        limit = 0.01 * obj.dampsim.bound_percent * float(np.linalg.norm(np.ptp(expected, axis=0)))
        for modifier in obj.modifiers:
            modifier.show_viewport = modifier.type not in ("BEVEL", "SKIN", "SUBSURF")
        assert np.linalg.norm(world_vertices(obj, 14) - expected, axis=1).max() < limit + 1e-5
