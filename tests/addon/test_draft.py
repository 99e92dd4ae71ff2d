"""Draft affects playback only: bakes, renders, ghosts and full frames never come from it."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import bpy
import numpy as np
import pytest
from scenes import LAST, new_scene, wobbler, world_vertices
from test_drawing import Context, Layout
from test_live import assert_same_bits, bake_frames, frame_status, live_frames, play, render_coverage

pytestmark = pytest.mark.bpy
Load = Callable[[str], ModuleType]
LIVE_MODIFIER = "DampSim Live"


def object_in_draft(cache: Path) -> bpy.types.Object:
    obj = wobbler(cache)
    obj.dampsim.draft, obj.dampsim.draft_part = True, 30.0
    return obj


def node_count(live: ModuleType, obj: bpy.types.Object) -> int:
    return len(live_frames(live, obj)[0].state.positions)


def main_panel_text(load: Load) -> str:
    """Return the text of the main panel."""
    texts: list[str] = []
    load("dampsim_addon.ui").DAMPSIM_PT_main.draw(SimpleNamespace(layout=Layout(texts)), Context())
    return "\n".join(texts)


@pytest.mark.parametrize("kind", ["SOLID", pytest.param("CLOTH", marks=pytest.mark.slow)])
def test_draft_playback_full_bake(load: Load, live: ModuleType, tmp_path: Path, kind: str) -> None:
    """Draft plays fewer elements, and the bake still has all of them."""
    new_scene()
    obj = wobbler(tmp_path)
    obj.dampsim.kind, obj.dampsim.draft_part = kind, 30.0
    play()
    full, made = node_count(live, obj), bake_frames(load, obj)
    assert bpy.ops.dampsim.clear() == {"FINISHED"}
    obj.dampsim.draft = True
    play()
    assert node_count(live, obj) < 0.6 * full
    assert live.is_displayed_in_draft(obj)
    # The bake and its fingerprints do not depend on Draft.
    assert_same_bits(bake_frames(load, obj), made)
    cache = load("dampsim_addon.model.caches").frame_cache(obj)
    assert len(cache.read(1).state.positions) == full


def test_draft_switch_keeps_bake_valid(load: Load, tmp_path: Path) -> None:
    scene = new_scene()
    obj = wobbler(tmp_path)
    bake_frames(load, obj)
    obj.dampsim.draft, obj.dampsim.draft_part = True, 5.0
    bpy.context.view_layer.update()
    assert load("dampsim_addon.status.bake_changes").changes_since_bake(obj, scene) == []
    job, moments = load("dampsim_addon.jobs.bake"), []
    for step in job.bake_object(scene, bpy.context.view_layer, obj, False):
        moments.append(step.text)
    # All frames come from the cache.
    assert not any("Simulating" in text for text in moments)


def test_draft_switch_never_mixes_frames(live: ModuleType, tmp_path: Path) -> None:
    scene = new_scene()
    obj = wobbler(tmp_path)
    obj.dampsim.live = False
    plain = world_vertices(obj, 8)
    obj.dampsim.live = True
    play()
    full = world_vertices(obj, 8)
    scene.frame_set(8)
    obj.dampsim.draft = True
    bpy.context.view_layer.update()
    # No Draft frame exists yet, so only the animation is shown.
    assert frame_status(live, obj, 8) == "MISSING"
    assert not obj.modifiers[LIVE_MODIFIER].show_viewport
    play()
    draft = world_vertices(obj, 8)
    scene.frame_set(8)
    assert (frame_status(live, obj, 8), live.is_displayed_in_draft(obj)) == ("VALID", True)
    obj.dampsim.draft = False
    bpy.context.view_layer.update()
    # The full frame still exists; it is verified when it plays.
    assert (frame_status(live, obj, 8), live.is_displayed_in_draft(obj)) == ("STALE", False)
    assert obj.modifiers[LIVE_MODIFIER].show_viewport
    scene.frame_set(8)
    assert frame_status(live, obj, 8) == "VALID"
    np.testing.assert_array_equal(world_vertices(obj, 8), full)
    assert np.abs(draft - full).max() > 1e-4
    assert np.abs(draft - full).max() < 0.5 * np.abs(plain - full).max()


def test_draft_percentage_edit(live: ModuleType, tmp_path: Path) -> None:
    """A new percentage invalidates Draft frames and leaves full frames valid."""
    scene = new_scene()
    obj = object_in_draft(tmp_path)
    play()
    few, kept = node_count(live, obj), live_frames(live, obj)[-1]
    obj.dampsim.draft_part = 60.0
    assert frame_status(live, obj, LAST) == "STALE"
    play()
    assert node_count(live, obj) > 1.3 * few
    assert live_frames(live, obj)[-1] is not kept
    obj.dampsim.draft = False
    play()
    last = live_frames(live, obj)[-1]
    # An edit of the percentage while Draft is off counts when Draft is on again.
    obj.dampsim.draft_part = 30.0
    scene.frame_set(LAST)
    assert live_frames(live, obj)[-1] is last
    obj.dampsim.draft = True
    assert frame_status(live, obj, LAST) == "STALE"
    obj.dampsim.settle = 15.0
    play()
    assert node_count(live, obj) == few
    obj.dampsim.draft = False
    assert frame_status(live, obj, LAST) == "STALE"


def test_draft_after_undo_and_reload(live: ModuleType, tmp_path: Path) -> None:
    scene = new_scene()
    obj = wobbler(tmp_path / "cache")
    name = obj.name
    play()
    scene.frame_set(6)
    bpy.ops.ed.undo_push(message="in full")
    obj.dampsim.draft = True
    scene.frame_set(6)
    assert live.is_displayed_in_draft(obj)
    bpy.ops.ed.undo_push(message="in Draft")
    for move, draft in ((bpy.ops.ed.undo, False), (bpy.ops.ed.redo, True)) * 2:
        move()
        obj = bpy.data.objects[name]
        assert obj.dampsim.draft == draft
        assert live.is_displayed_in_draft(obj) == draft
        assert live.find_session(obj).draft == draft
        scene = bpy.context.scene
        scene.frame_set(6)
        assert (frame_status(live, obj, 6), live.is_displayed_in_draft(obj)) == ("VALID", draft)
    path = tmp_path / "saved.blend"
    bpy.ops.wm.save_as_mainfile(filepath=str(path))
    assert live.is_displayed_in_draft(obj)
    bpy.ops.wm.open_mainfile(filepath=str(path))
    obj = bpy.data.objects[name]
    assert obj.dampsim.draft
    assert not live.has_session(obj)
    assert LIVE_MODIFIER not in obj.modifiers
    play()
    assert live.is_displayed_in_draft(obj)
    assert live.find_session(obj).draft


@pytest.mark.slow
def test_render_uses_full_resolution(live: ModuleType, tmp_path: Path) -> None:
    scene = new_scene(6)
    obj = wobbler(tmp_path / "cache")
    for other, place in ((1, 0.0), (3, 0.8), (6, 0.3)):
        obj.location.x = place
        obj.keyframe_insert("location", frame=other)
    obj.dampsim.stiffness *= 0.3
    camera = bpy.data.objects.new("Camera", bpy.data.cameras.new("Camera"))
    scene.collection.objects.link(camera)
    camera.location, camera.rotation_euler, scene.camera = (0.0, -4.0, 0.0), (np.pi / 2.0, 0.0, 0.0), camera
    scene.render.engine, scene.cycles.samples, scene.cycles.seed = "CYCLES", 1, 0
    scene.render.film_transparent, scene.render.image_settings.color_mode = True, "RGBA"
    scene.render.resolution_x = scene.render.resolution_y = 96
    wanted = render_coverage(tmp_path / "full")
    drawn = [world_vertices(obj, frame) for frame in range(1, 7)]
    live.drop_session(obj)
    obj.dampsim.draft, obj.dampsim.draft_part = True, 13.0
    play(last=6)
    assert live.is_displayed_in_draft(obj)
    found = render_coverage(tmp_path / "draft")
    for one, other in zip(found, wanted, strict=True):
        np.testing.assert_array_equal(one, other)
    # After the render, Draft is shown again.
    assert live.is_displayed_in_draft(obj)
    assert live.find_session(obj).draft
    # The difference between Draft and full resolution is visible.
    assert max(np.abs(world_vertices(obj, frame) - drawn[frame - 1]).max() for frame in range(1, 7)) > 0.01
    scene.frame_set(4)
    bpy.ops.render.render()
    assert live.is_displayed_in_draft(obj)
    assert live.find_session(obj, render=True).verified >= 4


@pytest.mark.slow
def test_panel_announces_draft(load: Load, live: ModuleType, tmp_path: Path) -> None:
    new_scene()
    obj = object_in_draft(tmp_path)
    assert "Draft is shown" not in main_panel_text(load)
    play()
    words = main_panel_text(load)
    assert "Draft is shown" in words
    assert "About 120 of 400 tets. Bakes and renders use full resolution" in words.replace("\n", " ")
    assert f"Live in Draft: {LAST} of {LAST} frames" in words
    obj.dampsim.draft = False
    play()
    assert "Draft is shown" not in main_panel_text(load)
    assert f"Live: {LAST} of {LAST} frames" in main_panel_text(load)
    # Springs have no resolution, so they play unchanged.
    obj.dampsim.draft, obj.dampsim.kind = True, "SPRINGS"
    play()
    assert not live.is_in_draft(load("dampsim_addon.model.groups").group_of(obj))
    assert "Draft is shown" not in main_panel_text(load)


def test_ghosts_use_full_resolution(load: Load, live: ModuleType, tmp_path: Path) -> None:
    new_scene(4)
    obj = wobbler(tmp_path)
    ghosts: list[Any] = []
    assert bpy.ops.dampsim.ghost_add() == {"FINISHED"}
    for draft in (False, True):
        obj.dampsim.draft = draft
        play(last=4)
        assert bpy.ops.dampsim.compare() == {"FINISHED"}
        ghosts.append(load("dampsim_addon.status.results").ghosts_of(obj).surfaces[0])
    np.testing.assert_array_equal(*ghosts)
