"""The settle curve of Calibrate, its picture in both themes, and the quantities of the overlay."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from xml.etree import ElementTree

import bpy
import numpy as np
import pytest
from scenes import armature, new_scene, wobbler

pytestmark = pytest.mark.bpy
Load = Callable[[str], ModuleType]


@pytest.mark.slow
def test_calibrate_keeps_accurate_settle(load: Load, tmp_path: Path) -> None:
    new_scene()
    obj = wobbler(tmp_path)
    # A long thin body bends far, and rests on time all the same.
    obj.scale, obj.dampsim.stiffness = (0.1, 0.1, 1.0), 3000.0
    obj.dampsim.settle, obj.dampsim.bounce, obj.dampsim.swing = 48.0, 0.0, 60.0
    bpy.context.view_layer.update()
    assert bpy.ops.dampsim.calibrate() == {"FINISHED"}
    shown = load("dampsim_addon.status.results").displayed_curve(obj)
    assert "60%" in shown.source
    # The search accepts half a frame, and rounding adds as much.
    assert shown.curve.rest == pytest.approx(obj.dampsim.settle, abs=1.0)
    assert shown.curve.measured[0] == 1.0
    # The curve starts before the release by the time in which a stop would deflect it so far: Settle ln 2 / 5.99.
    assert shown.curve.frames[0] == pytest.approx(48.0 * obj.dampsim.calibration * 0.1157, rel=1e-3)
    assert shown.curve.summary.startswith(f"At rest {shown.curve.rest:.1f} frames after the stop (set 48)")
    assert obj.dampsim.calibration == 1.0


def test_cancelled_calibration_changes_nothing(load: Load, tmp_path: Path) -> None:
    scene = new_scene()
    obj = wobbler(tmp_path)
    scene.frame_set(7)
    work = load("dampsim_addon.ui.objects.operators").calibrate_settle(scene, bpy.context.view_layer, obj)
    # Skip the preparation.
    assert any(step.text == "Releasing" for step in work)
    work.close()
    assert obj.dampsim.calibration == 1.0
    assert load("dampsim_addon.status.results").displayed_curve(obj) is None
    assert scene.frame_current == 7
    assert obj.modifiers["Subdivision"].show_viewport


def test_calibrate_unpinned_body_is_refused(tmp_path: Path) -> None:
    new_scene()
    obj = wobbler(tmp_path)
    obj.dampsim.pin_group = ""
    with pytest.raises(RuntimeError, match=r"Wobbler: it is not completely held.*Choose a pin group"):
        bpy.ops.dampsim.calibrate()
    assert obj.dampsim.calibration == 1.0


@pytest.mark.parametrize("theme", ["DARK", "LIGHT"])
def test_picture_plots_measured_curve(load: Load, theme: str) -> None:
    picture, curve = load("core.measure.picture"), load("core.measure.curve")
    frames = np.arange(31.0)
    measured = np.exp(-frames / 5.0) * np.cos(frames / 2.0)
    shown = curve.SettleCurve(frames, measured, np.exp(-frames / 5.0), None, 24.0, 22.0, 0.4, 0.5)
    look = getattr(picture, theme)
    pixels = picture.draw_curve(shown, look)
    assert pixels.shape == (picture.HEIGHT, picture.WIDTH, 4)
    assert ((pixels >= 0.0) & (pixels <= 1.0)).all()
    there = np.abs(pixels[:, :, :3] - look.measured).max(axis=2) < 0.02
    rows, columns = np.nonzero(there)
    assert columns.min() < 0.05 * picture.WIDTH
    assert columns.max() > 0.95 * picture.WIDTH
    # The curve is highest at the left and lowest at its first swing to the other side.
    lowest = columns[rows == rows.min()].mean() / picture.WIDTH
    assert lowest == pytest.approx(frames[measured.argmin()] / 30.0, abs=0.03)
    # The legend is readable: its hues contrast with the paper.
    for hue in (look.measured, look.predicted, look.end):
        assert np.abs(np.array(hue) - look.background).max() > 0.4
    text = "".join(ElementTree.fromstring(picture.curve_svg(shown, "Settle < 24 & more")).itertext())
    assert shown.summary in text
    assert "Settle < 24 & more" in text


def test_armature_selects_mesh_reference(load: Load, tmp_path: Path) -> None:
    scene = new_scene()
    obj = wobbler(tmp_path)
    snapshot = load("dampsim_addon.scene_reader.scene_builder")
    with snapshot.GroupSampler(scene, bpy.context.view_layer, [obj]) as sampler:
        assert snapshot.build_scene(sampler).bodies[0].reference_motion == "PINS"
    armature(obj)
    with snapshot.GroupSampler(scene, bpy.context.view_layer, [obj]) as sampler:
        assert snapshot.build_scene(sampler).bodies[0].reference_motion == "MESH"
    obj.dampsim.carrier = "NONE"
    with snapshot.GroupSampler(scene, bpy.context.view_layer, [obj]) as sampler:
        assert snapshot.build_scene(sampler).bodies[0].reference_motion == "NONE"


def test_painted_groups_reach_simulation(load: Load, tmp_path: Path) -> None:
    scene = new_scene()
    obj = wobbler(tmp_path)
    top = [v.index for v in obj.data.vertices if v.co.z > 0.3]
    for role, weight in (("settle_group", 0.5), ("stiffness_group", 0.2)):
        group = obj.vertex_groups.new(name=role)
        group.add([v.index for v in obj.data.vertices], 1.0, "REPLACE")
        group.add(top, weight, "REPLACE")
        setattr(obj.dampsim, role, role)
    snapshot = load("dampsim_addon.scene_reader.scene_builder")
    with snapshot.GroupSampler(scene, bpy.context.view_layer, [obj]) as sampler:
        (body,) = snapshot.build_scene(sampler).bodies
    assert body.settle_map[top] == pytest.approx(0.5)
    assert body.stiffness_map[top] == pytest.approx(0.2)
    assert body.settle_map.max() == body.stiffness_map.max() == 1.0


def test_overlay_stretch_edges_normals(load: Load, tmp_path: Path) -> None:
    scene = new_scene()
    obj = wobbler(tmp_path)
    shapes, snapshot = (
        load("dampsim_addon.ui.viewport.shape_overlays"),
        load("dampsim_addon.scene_reader.scene_builder"),
    )
    with snapshot.GroupSampler(scene, bpy.context.view_layer, [obj]) as sampler:
        simulation = load("core.simulation.simulation").Simulation(snapshot.build_scene(sampler))
    block = simulation.model_of(obj.name).block
    rest, (tets,) = block.rest, block.groups
    assert shapes.element_stretches(simulation, obj.name, rest) == pytest.approx(1.0)
    # Completely pinned tetrahedra are not simulated.
    held = block.is_fixed[tets].all(axis=1)
    assert 0 < held.sum() < len(tets)
    for sizes, wanted in (([1.0, 3.0, 1.0], 3.0), ([0.25, 1.0, 2.0], 4.0), ([-1.0, 1.0, 1.0], np.inf)):
        found = shapes.element_stretches(simulation, obj.name, rest * sizes)
        assert found[~held] == pytest.approx(wanted)
        assert found[held] == pytest.approx(1.0)
    found = load("core.materials.assembly").element_edges(tets)
    wanted = {tuple(sorted(pair)) for tet in tets.tolist() for pair in itertools.combinations(tet, 2)}
    assert len(found) == len(wanted)
    assert {tuple(pair) for pair in found.tolist()} == wanted
    surface = simulation.scene.bodies[0].surface
    normals = load("dampsim_addon.ui.compare.overlay").vertex_normals(surface.vertices, surface.triangles)
    assert np.linalg.norm(normals, axis=1) == pytest.approx(1.0)
    # The normals of the ellipsoid point outwards.
    assert ((surface.vertices - surface.vertices.mean(axis=0)) * normals).sum(axis=1).min() > 0.0


def test_viewport_shows_live_status(load: Load, tmp_path: Path) -> None:
    scene = new_scene()
    obj = wobbler(tmp_path)
    live, line = load("dampsim_addon.live"), load("dampsim_addon.ui.main.live_status")
    live.install()
    try:
        assert line.live_status_text(obj, bpy.context)[0] == "Live: press play"
        for frame in (1, 2, 3):
            scene.frame_set(frame)
        text, wrong = line.live_status_text(obj, bpy.context)
        assert text.startswith("Live: 3 of 12 frames")
        assert not wrong
        obj.dampsim.settle = 20.0
        assert "out of date" in line.live_status_text(obj, bpy.context)[0]
        obj.dampsim.pin_group = "Lost"
        scene.frame_set(4)
        text, wrong = line.live_status_text(obj, bpy.context)
        assert wrong
        assert "Lost" in text
    finally:
        live.uninstall()
