"""Plasticity in Blender: live playback equals bakes to every target; panel, presets, Reset and overlay."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import bpy
import numpy as np
import pytest
import test_contact_samples
from scenes import TARGETS, new_scene, world_vertices
from stored_history import history_bytes
from test_drawing import REDRAWS, forbid_disk_and_factorisation, redraw

pytestmark = pytest.mark.bpy
Load = Callable[[str], ModuleType]
LAST = 40


def dented_ball(cache: Path, **dials: object) -> bpy.types.Object:
    """A ball of clay, dented from above by a smaller ball that retreats by frame 20."""
    bpy.ops.mesh.primitive_uv_sphere_add(segments=16, ring_count=8, radius=0.1, location=(0.0, 0.0, 0.0))
    obj = bpy.context.object
    low = [vertex.index for vertex in obj.data.vertices if vertex.co.z < -0.05]
    obj.vertex_groups.new(name="Pin").add(low, 1.0, "REPLACE")
    bpy.ops.mesh.primitive_uv_sphere_add(segments=16, ring_count=8, radius=0.05, location=(0.0, 0.0, 0.16))
    tool = bpy.context.object
    tool.name = "Tool"
    for frame, height in ((1, 0.16), (8, 0.1), (16, 0.1), (20, 0.2)):
        tool.location.z = height
        tool.keyframe_insert("location", index=2, frame=frame)
    assert bpy.ops.dampsim.collider() == {"FINISHED"}
    bpy.context.view_layer.objects.active = obj
    tool.select_set(False)
    obj.select_set(True)
    assert bpy.ops.dampsim.add() == {"FINISHED"}
    given = {"cache_folder": str(cache), "resolution": 250, "settle": 8.0, "bounce": 0.0, "plastic_yield": 5.0}
    for name, value in {**given, "pin_group": "Pin", "gravity_weight": 0.0, **dials}.items():
        setattr(obj.dampsim, name, value)
    return obj


def play(last: int = LAST) -> None:
    for frame in range(1, last + 1):
        bpy.context.scene.frame_set(frame)


def dent_depth(obj: bpy.types.Object, frame: float = LAST) -> float:
    """Return the depth of the dent, m."""
    return 0.1 - float(world_vertices(obj, frame)[:, 2].max())


@pytest.mark.slow
def test_dent_live_equals_all_targets(load: Load, live: ModuleType, tmp_path: Path) -> None:
    new_scene(LAST)
    obj = dented_ball(tmp_path)
    play()
    played = [world_vertices(obj, frame) for frame in (10, 16, 30, LAST)]
    kept = [kept.frame.state for kept in live.find_session(obj).frames]
    assert dent_depth(obj) > 0.01
    api = load("dampsim_addon.api")
    for name in TARGETS:
        (result,) = api.bake([obj], target=name)
        assert result.problem == ""
        cache = load("dampsim_addon.model.caches").frame_cache(obj)
        for number, state in enumerate(kept, 1):
            there = cache.read(number).state
            assert there.positions.tobytes() == state.positions.tobytes()
            assert history_bytes(there.history) == history_bytes(state.history)
        for shape, frame in zip(played, (10, 16, 30, LAST), strict=True):
            # The error bound of the compressed target is 1/1000 of the size; single precision errs less.
            np.testing.assert_allclose(world_vertices(obj, frame), shape, atol=4e-4)
        api.clear([obj])


@pytest.mark.slow
def test_changed_yield_outdates_frames(load: Load, live: ModuleType, tmp_path: Path) -> None:
    scene = new_scene(12)
    obj = dented_ball(tmp_path, resolution=150)
    play(12)
    session = live.find_session(obj)
    assert session.frame_status(obj, scene, 12) is live.FrameStatus.VALID
    before = world_vertices(obj, 12)
    obj.dampsim.plastic_yield = 9.0
    assert session.frame_status(obj, scene, 12) is live.FrameStatus.STALE
    play(12)
    assert session.frame_status(obj, scene, 12) is live.FrameStatus.VALID
    assert np.abs(world_vertices(obj, 12) - before).max() > 1e-5
    obj.dampsim.target = "POINT_CACHE"
    api = load("dampsim_addon.api")
    api.bake([obj])
    obj.dampsim.plastic_creep = 3.0
    assert [text for text in redraw(load) if "Creep" in text and "now 3" in text]


@pytest.mark.slow
def test_plastic_reset_restores_modelled_shape(load: Load, live: ModuleType, tmp_path: Path) -> None:
    scene = new_scene(50)
    obj = dented_ball(tmp_path)
    play(34)
    assert dent_depth(obj, 34) > 0.01
    scene.frame_set(34)
    assert bpy.ops.dampsim.plastic_reset() == {"FINISHED"}
    bags = load("dampsim_addon.blender.animation").channelbags(obj)
    keys = [curve for bag in bags for curve in bag.fcurves if curve.data_path == "dampsim.plastic_reset"]
    assert [tuple(one.co) for one in keys[0].keyframe_points] == [(33.0, 0.0), (34.0, 1.0), (42.0, 0.0)]
    play(50)
    assert dent_depth(obj, 33) > 0.01
    assert abs(dent_depth(obj, 46)) < 2e-4
    assert abs(dent_depth(obj, 50)) < 1e-4


def test_overlay_colours_plastic_strain(
    load: Load, live: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    scene = new_scene(24)
    obj = dented_ball(tmp_path, resolution=150)
    obj.dampsim.show_flow = True
    overlay, drawing = load("dampsim_addon.ui.viewport.overlay"), load("dampsim_addon.ui.common.drawing")
    put: list[Any] = []
    state = SimpleNamespace(**dict.fromkeys(("blend_set", "depth_test_set", "depth_mask_set"), lambda *_: None))
    context = SimpleNamespace(
        scene=scene,
        view_layer=bpy.context.view_layer,
        object=obj,
        space_data=SimpleNamespace(overlay=SimpleNamespace(show_overlays=True)),
        preferences=bpy.context.preferences,
    )
    play(2)
    assert overlay.body_view(obj, scene).data(load("dampsim_addon.ui.plastic.panel").flow_overlay) is None
    play(24)
    found = overlay.body_view(obj, scene).data(load("dampsim_addon.ui.plastic.panel").flow_overlay)
    strains = (
        load("core.measure.element_states")
        .plastic_strain(live.find_session(obj).simulation, live.find_session(obj).frames[23].frame, obj.name)
        .strains
    )
    # The strain is largest under the tool and zero at the other end; the colour follows it.
    vertices = world_vertices(obj, 1)
    assert vertices[int(strains.argmax()), 2] > 0.05
    assert strains[vertices[:, 2] < -0.08].max() == 0.0
    assert int(found.colors[:, 1].argmin()) == int(strains.argmax())
    assert found.colors[strains == 0.0, 3].max() == 0.0
    assert found.label.startswith("plastic strain up to ")
    assert 5.0 < float(found.label.split()[-1].rstrip("%")) < 100.0
    outside = np.linalg.norm(found.points, axis=1) - np.linalg.norm(world_vertices(obj, 24), axis=1)
    assert 0.0 < np.median(outside) < 0.01 * 0.2
    monkeypatch.setattr(drawing, "gpu", SimpleNamespace(state=state))
    monkeypatch.setattr(overlay, "bpy", SimpleNamespace(context=context))
    for name in ("draw_lines", "draw_points", "draw_text", "draw_colored"):
        monkeypatch.setattr(drawing, name, lambda *given, **_: put.append(given))
    monkeypatch.setattr(load("dampsim_addon.ui.plastic.panel"), "plastic_strain", None)
    with forbid_disk_and_factorisation():
        for _ in range(REDRAWS):
            overlay.draw_in_scene()
            overlay.draw_labels()
    assert found.label in [word for given in put for word in given if isinstance(word, str)]
    assert any(given[-1] == "TRIS" and len(given[2]) for given in put)


def test_panel_reports_plastic_strain(load: Load, live: ModuleType, tmp_path: Path) -> None:
    """The panel also warns of an energy that collapses."""
    new_scene(16)
    obj = dented_ball(tmp_path, resolution=150)
    play(16)
    assert [text for text in redraw(load) if text.startswith("At this frame: plastic strain up to")]
    warned = "Saint Venant-Kirchhoff collapses"
    assert not [text for text in redraw(load) if text.startswith(warned)]
    obj.dampsim.material = "StVK"
    assert [text for text in redraw(load) if text.startswith(warned)]
    # Cloth has its own energies and ignores this one.
    obj.dampsim.kind = "CLOTH"
    assert not [text for text in redraw(load) if text.startswith(warned)]
    obj.dampsim.kind = "SOLID"
    obj.dampsim.plastic_yield = 0.0
    assert [text for text in redraw(load) if text.startswith("No permanent deformation")]


def test_presets_switch_plasticity(load: Load, tmp_path: Path) -> None:
    new_scene(8)
    obj = dented_ball(tmp_path)
    presets = load("dampsim_addon.model.presets")
    own = {presets.material_title(path): path for path in presets.material_scripts() if "dampsim_addon" in str(path)}
    yields: dict[str, Any] = {}
    for name in ("Clay", "Jelly", "Dough", "Rubber"):
        assert bpy.ops.dampsim.preset(filepath=str(own[name])) == {"FINISHED"}
        assert presets.current_material(obj.dampsim) == name
        yields[name] = obj.dampsim.plastic_yield
    assert yields["Clay"] > 0.0 < yields["Dough"]
    assert yields["Jelly"] == yields["Rubber"] == 0.0
    bpy.ops.mesh.primitive_grid_add(x_subdivisions=8, y_subdivisions=8, size=0.3)
    sheet = bpy.context.object
    assert bpy.ops.dampsim.add() == {"FINISHED"}
    assert sheet.dampsim.kind == "CLOTH"
    fabrics = load("dampsim_addon.ui.add.add_operators")
    for name, flows in (("Foil", True), ("Silk", False)):
        assert bpy.ops.dampsim.fabric(fabric=name) == {"FINISHED"}
        assert (sheet.dampsim.plastic_yield > 0.0) is flows
        assert fabrics.current_fabric(sheet.dampsim) == name


def test_ropes_have_no_plasticity(load: Load, tmp_path: Path) -> None:
    new_scene(8)
    obj = dented_ball(tmp_path)
    poll = load("dampsim_addon.ui.plastic.panel").DAMPSIM_PT_plastic.poll
    assert poll(bpy.context)
    obj.dampsim.kind = "ROPE"
    assert not poll(bpy.context)
    assert not bpy.ops.dampsim.plastic_reset.poll()


@pytest.mark.slow
def test_sample_dents_persist(load: Load, tmp_path: Path) -> None:
    """No part of the sample penetrates another one."""
    test_contact_samples.test_sample_has_no_intersections(load, "dent", 120, 14, tmp_path)
    obj = bpy.data.objects["Clay"]
    assert obj.dampsim.plastic_yield > 0.0
    cache = load("dampsim_addon.model.caches").frame_cache(obj)
    first, pressed, last = (cache.read(number).surface for number in (1, 54, 120))
    # All three dents remain after the plate was shaken.
    for way in ((-0.5, -0.6, 0.62), (0.62, -0.55, 0.5), (0.05, -0.25, 1.0)):
        along = np.array(way) / np.linalg.norm(way)
        spot = int((first @ along).argmax())
        before, after = (float((first[spot] - there[spot]) @ along) for there in (pressed, last))
        assert after > 0.12
        assert before > 0.12
