"""Workflows for each kind of body: Add, playback, bakes to all targets, ghosts, calibration and command line."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from types import ModuleType

import bpy
import numpy as np
import pytest
from scenes import LAST, TARGETS, add_simulation, new_scene, world_vertices
from test_baking import bake, error_limit
from test_groups import cube, grid, plate, wire
from test_live import assert_same_bits, bake_frames, frame_status, live_frames, play

pytestmark = [pytest.mark.bpy, pytest.mark.versions]
Load = Callable[[str], ModuleType]
# A sample of each kind, and the kind that Add chooses for it.
SAMPLE_BY_KIND = {
    "SOLID": (cube, "SOLID"),
    "SPRINGS": (lambda: grid(6), "CLOTH"),
    "CLOTH": (lambda: grid(6), "CLOTH"),
    "ROPE": (lambda: wire(count=11), "ROPE"),
    "WEAVE": (lambda: grid(6), "CLOTH"),
    "RIGID": (cube, "SOLID"),
    "SHELL": (lambda: plate(cuts=3), "CLOTH"),
}


@pytest.fixture(
    params=[pytest.param(name, marks=pytest.mark.slow if name in ("RIGID", "SHELL") else ()) for name in SAMPLE_BY_KIND]
)
def thing(request: pytest.FixtureRequest, tmp_path: Path) -> bpy.types.Object:
    """Return a simulated object of the requested kind."""
    new_scene()
    make, chosen = SAMPLE_BY_KIND[request.param]
    obj = make()
    add_simulation(obj, tmp_path)
    assert obj.dampsim.kind == chosen
    if request.param in ("SPRINGS", "WEAVE", "RIGID"):
        obj.dampsim.kind = request.param
    if request.param == "RIGID":
        # It swings about an upper edge, across its motion; pinned by a face it could not move.
        obj.vertex_groups["Pin"].remove(range(len(obj.data.vertices)))
        obj.vertex_groups["Pin"].add([v.index for v in obj.data.vertices if v.co.z > 0.0 > v.co.y], 1.0, "REPLACE")
    obj.dampsim.resolution = 100
    return obj


@pytest.mark.parametrize(
    "thing",
    [pytest.param(name, marks=() if name in ("SOLID", "CLOTH") else pytest.mark.slow) for name in SAMPLE_BY_KIND],
    indirect=True,
)
def test_targets_play_cached_frames(load: Load, thing: bpy.types.Object) -> None:
    """Each target plays the cached frames within the error bound, and Clear restores the object."""
    plain = {frame: world_vertices(thing, frame) for frame in (1, LAST)}
    for target in TARGETS:
        bake(thing, target)
        cache = load("dampsim_addon.model.caches").frame_cache(thing)
        assert cache.frame_numbers() == list(range(1, LAST + 1))
        limit, moved = error_limit(thing, plain[1]), 0.0
        for number in cache.frame_numbers():
            played = world_vertices(thing, number)
            assert np.linalg.norm(played - cache.read_shape(number, thing.name), axis=1).max() <= limit
            moved = max(moved, float(np.abs(played - cache.read_shape(1, thing.name)).max()))
        assert moved > 0.02
        assert bpy.ops.dampsim.clear() == {"FINISHED"}
        for frame, points in plain.items():
            np.testing.assert_array_equal(world_vertices(thing, frame), points)


def test_playback_equals_bake_bitwise(load: Load, live: ModuleType, thing: bpy.types.Object) -> None:
    play()
    assert [frame_status(live, thing, frame) for frame in range(1, LAST + 1)] == ["VALID"] * LAST
    played = live_frames(live, thing)
    thing.dampsim.target = "POINT_CACHE"
    assert_same_bits(played, bake_frames(load, thing))


def test_ghosts_compared_and_picked(load: Load, thing: bpy.types.Object) -> None:
    assert bpy.ops.dampsim.ghost_add() == {"FINISHED"}
    thing.dampsim.settle = 5.0
    assert bpy.ops.dampsim.ghost_add() == {"FINISHED"}
    assert bpy.ops.dampsim.compare() == {"FINISHED"}
    shown = load("dampsim_addon.status.results").ghosts_of(thing)
    assert len(shown.surfaces) == 2
    assert np.abs(np.asarray(shown.surfaces[0]) - np.asarray(shown.surfaces[1])).max() > 1e-4
    assert bpy.ops.dampsim.ghost_pick(number=0) == {"FINISHED"}
    assert thing.dampsim.settle == pytest.approx(8.0)


@pytest.mark.slow
def test_sag_and_rest_are_measured(load: Load, thing: bpy.types.Object) -> None:
    thing.dampsim.settle, thing.dampsim.swing = 24.0, 3.0
    if thing.dampsim.kind != "RIGID":
        assert bpy.ops.dampsim.measure() == {"FINISHED"}
        assert thing.dampsim.measured_sag > 0.0
        assert thing.dampsim.measured_young == pytest.approx(thing.dampsim.stiffness, rel=1e-5)
    assert bpy.ops.dampsim.calibrate() == {"FINISHED"}
    curve = load("dampsim_addon.status.results").displayed_curve(thing).curve
    # The search accepts half a frame. A sheet that hangs by its corners has several rest shapes.
    assert curve.rest == pytest.approx(24.0, abs=1.5)


def test_cli_bakes_and_reports(load: Load, thing: bpy.types.Object, tmp_path: Path) -> None:
    cli, report = load("dampsim_addon.cli"), tmp_path / "report.json"
    bpy.ops.wm.save_as_mainfile(filepath=str(tmp_path / "thing.blend"))
    assert cli.main(["bake", "--set", "settle=7", "--target", "point_cache", "--report", str(report)]) == cli.DONE
    (told,) = json.loads(report.read_text())["objects"]
    assert told["name"] == thing.name
    assert bpy.data.objects[thing.name].dampsim.baked == "POINT_CACHE"
    assert cli.main(["info", "--report", str(report)]) == cli.DONE


def test_presets_match_kind(load: Load, thing: bpy.types.Object) -> None:
    """Cloth offers fabrics, and the other kinds offer material presets."""
    presets = load("dampsim_addon.model.presets")
    if thing.dampsim.kind != "CLOTH":
        assert not bpy.ops.dampsim.fabric.poll()
        assert bpy.ops.dampsim.preset(filepath=str(presets.material_scripts()[0])) == {"FINISHED"}
        assert presets.current_material(thing.dampsim)
        return
    fabrics = load("dampsim_addon.ui.add.add_operators")
    for name, fabric in load("core.bodies.fabrics").FABRICS.items():
        assert bpy.ops.dampsim.fabric(fabric=name) == {"FINISHED"}
        assert fabrics.current_fabric(thing.dampsim) == name
        thickness = float(f"{thing.dampsim.thickness:.3g}")
        for key, value in fabric.settings_at(thickness).items():
            assert getattr(thing.dampsim, key) == pytest.approx(value)
    thing.dampsim.bending *= 1.1
    assert fabrics.current_fabric(thing.dampsim) == ""
    with pytest.raises(RuntimeError, match="choose one of Silk, "):
        bpy.ops.dampsim.fabric(fabric="Tweed")


def test_thin_solid_offers_shell(load: Load, tmp_path: Path) -> None:
    new_scene()
    obj = plate()
    add_simulation(obj, tmp_path, kind="SOLID", resolution=50, stiffness=1e5)
    bake(obj, "POINT_CACHE")
    finding = load("dampsim_addon.ui.bake.checks").find_issues(obj, bpy.context.scene)["coarse"]
    assert [way.button_label for way in finding.fixes] == ["Double Resolution", "Simulate as Shell"]
    assert bpy.ops.dampsim.mend(check="coarse", way=1) == {"FINISHED"}
    assert obj.dampsim.kind == "CLOTH"
    assert obj.dampsim.thickness == pytest.approx(10.0, rel=0.05)
    obj = cube("Thick")
    add_simulation(obj, tmp_path, measured_fill=0.3)
    finding = load("dampsim_addon.ui.bake.checks").find_issues(obj, bpy.context.scene)["coarse"]
    assert [way.button_label for way in finding.fixes] == ["Double Resolution"]
