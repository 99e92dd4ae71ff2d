"""Fibres in Blender: equality of playback and bakes, keys, groups, panel, drawing and refusals."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import bmesh
import bpy
import numpy as np
import pytest
from scenes import TARGETS, new_scene, world_vertices
from stored_history import history_bytes
from test_drawing import REDRAWS, forbid_disk_and_factorisation, redraw

pytestmark = pytest.mark.bpy
Load = Callable[[str], ModuleType]
LAST = 14


def tongue(cache: Path, **dials: object) -> bpy.types.Object:
    """Return a bar along X, pinned at its low end, with Contraction keyed to 30% between frames 2 and 6."""
    bpy.ops.mesh.primitive_cube_add(size=1.0)
    obj = bpy.context.object
    obj.name = "Tongue"
    content = bmesh.new()
    content.from_mesh(obj.data)
    bmesh.ops.subdivide_edges(content, edges=content.edges[:], cuts=7, use_grid_fill=True)
    for vertex in content.verts:
        vertex.co.y *= 0.25
        vertex.co.z *= 0.25
    content.to_mesh(obj.data)
    content.free()
    places = np.array([vertex.co[:] for vertex in obj.data.vertices])
    obj.vertex_groups.new(name="Pin").add(np.flatnonzero(places[:, 0] < -0.49).tolist(), 1.0, "REPLACE")
    obj.vertex_groups.new(name="Fibres").add(list(range(len(places))), 1.0, "REPLACE")
    level = obj.vertex_groups.new(name="Level")
    for number, x in enumerate(places[:, 0]):
        level.add([number], float(x + 0.5), "REPLACE")
    assert bpy.ops.dampsim.add() == {"FINISHED"}
    given = {
        "cache_folder": str(cache), "resolution": 200, "settle": 8.0, "bounce": 0.0, "pin_group": "Pin",
        "gravity_weight": 0.0, "fibre_group": "Fibres", "stiffness_by": "MODULUS", "stiffness": 100.0,
    }  # fmt: skip
    for name, value in {**given, **dials}.items():
        setattr(obj.dampsim, name, value)
    for frame, percent in ((2, 0.0), (6, 30.0)):
        obj.dampsim.contraction = percent
        obj.keyframe_insert("dampsim.contraction", frame=frame)
    return obj


def play(last: int = LAST) -> None:
    for frame in range(1, last + 1):
        bpy.context.scene.frame_set(frame)


def length(obj: bpy.types.Object, frame: float) -> float:
    return float(np.ptp(world_vertices(obj, frame)[:, 0]))


@pytest.mark.parametrize("along", [{}, {"fibres_along": "X"}, {"fibres_along": "PAINTED", "direction_group": "Level"}])
def test_keyed_contraction_playback_equals_bake(
    load: Load, live: ModuleType, tmp_path: Path, along: dict[str, str]
) -> None:
    new_scene(LAST)
    obj = tongue(tmp_path, **along)
    play()
    played = [world_vertices(obj, frame) for frame in (4, 6, LAST)]
    kept = [kept.frame.state for kept in live.find_session(obj).frames]
    assert length(obj, 1) == pytest.approx(1.0, abs=1e-3)
    # The pins keep the width of its end. It is at rest Settle frames after the last key.
    assert length(obj, LAST) == pytest.approx(0.7, abs=0.03)
    api = load("dampsim_addon.api")
    # Test all targets for one direction, because targets do not depend on it.
    for target in ["POINT_CACHE"] if along else TARGETS:
        (result,) = api.bake([obj], target=target)
        assert result.problem == ""
        cache = load("dampsim_addon.model.caches").frame_cache(obj)
        for number, state in enumerate(kept, 1):
            there = cache.read(number).state
            assert there.positions.tobytes() == state.positions.tobytes()
            assert history_bytes(there.history) == history_bytes(state.history)
        for shape, frame in zip(played, (4, 6, LAST), strict=True):
            # The bound of compressed keys is a thousandth of the size; PC2 has single precision.
            np.testing.assert_allclose(
                world_vertices(obj, frame), shape, atol=1e-6 if target == "POINT_CACHE" else 1.1e-3
            )


def test_changed_key_is_simulated_again(live: ModuleType, tmp_path: Path) -> None:
    scene = new_scene(LAST)
    obj = tongue(tmp_path)
    play()
    session = live.find_session(obj)
    assert session.frame_status(obj, scene, LAST) is live.FrameStatus.VALID
    obj.dampsim.contraction = 50.0
    obj.keyframe_insert("dampsim.contraction", frame=6)
    scene.frame_set(1)
    play()
    assert length(obj, LAST) == pytest.approx(0.5, abs=0.04)


def test_fibres_from_selection(load: Load, tmp_path: Path) -> None:
    new_scene(LAST)
    obj = tongue(tmp_path, fibre_group="")
    assert bpy.ops.dampsim.fibres() == {"FINISHED"}
    weights = load("dampsim_addon.blender.vertex_groups").read_weights
    name = obj.dampsim.fibre_group
    assert weights(obj, [name])[0].min() == 1.0
    bpy.ops.object.mode_set(mode="EDIT")
    bpy.ops.mesh.select_all(action="DESELECT")
    with pytest.raises(RuntimeError, match="Tongue: no vertex is selected"):
        bpy.ops.dampsim.fibres()
    mesh = bmesh.from_edit_mesh(obj.data)
    for vertex in mesh.verts:
        vertex.select_set(vertex.co.z > 0.1)
    bmesh.update_edit_mesh(obj.data)
    assert bpy.ops.dampsim.fibres() == {"FINISHED"}
    bpy.ops.object.mode_set(mode="OBJECT")
    assert obj.dampsim.fibre_group == name
    high = np.array([vertex.co.z > 0.1 for vertex in obj.data.vertices])
    np.testing.assert_array_equal(weights(obj, [name])[0], high.astype(float))


def test_cloth_ignores_fibre_group(load: Load, tmp_path: Path) -> None:
    scene = new_scene(LAST)
    obj = tongue(tmp_path)
    obj.dampsim.kind = "CLOTH"
    assert not load("dampsim_addon.ui.fibres.panel").DAMPSIM_PT_fibres.poll(bpy.context)
    snapshot = load("dampsim_addon.scene_reader.scene_builder")
    with snapshot.GroupSampler(scene, bpy.context.view_layer, [obj]) as sampler:
        assert snapshot.build_scene(sampler).body("Tongue").fibre_map is None


def test_constant_direction_group_is_refused(load: Load, tmp_path: Path) -> None:
    new_scene(LAST)
    obj = tongue(tmp_path, fibres_along="PAINTED", direction_group="Fibres")
    (result,) = load("dampsim_addon.api").bake([obj])
    assert result.problem.startswith("Tongue: its Direction Group is nearly constant along its fibres; paint it from")


def test_nan_contraction_is_reported(load: Load, live: ModuleType, tmp_path: Path) -> None:
    scene = new_scene(LAST)
    obj = tongue(tmp_path)
    obj.dampsim.contraction = float("nan")
    obj.keyframe_insert("dampsim.contraction", frame=6)
    (result,) = load("dampsim_addon.api").bake([obj])
    assert result.problem.startswith("Tongue: contraction: nan % is outside of its range, -100 to 60 %")
    scene.frame_set(1)
    play(6)
    assert live.find_session(obj).problem == result.problem


def test_contraction_display_avoids_disk(
    load: Load, live: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    scene = new_scene(LAST)
    obj = tongue(tmp_path)
    assert [text for text in redraw(load) if text.startswith("Keyframe Contraction")]
    obj.dampsim.show_fibres = True
    play()
    overlay, drawing = load("dampsim_addon.ui.viewport.overlay"), load("dampsim_addon.ui.common.drawing")
    put: list[Any] = []
    found = overlay.body_view(obj, scene).data(load("dampsim_addon.ui.fibres.panel").fibre_overlay)
    # The end is pinned; the free part is shorter by the keyed percentage.
    assert found.label.endswith("% shorter on average")
    assert 25.0 < float(found.label.split("%")[0]) < 31.0
    ways = found.points[1::2] - found.points[::2]
    assert (np.abs(ways[:, 0]) > 0.9 * np.linalg.norm(ways, axis=1)).mean() > 0.9
    state = SimpleNamespace(**dict.fromkeys(("blend_set", "depth_test_set", "depth_mask_set"), lambda *_: None))
    context = SimpleNamespace(
        scene=scene, view_layer=bpy.context.view_layer, object=obj, preferences=bpy.context.preferences,
        space_data=SimpleNamespace(overlay=SimpleNamespace(show_overlays=True)),
    )  # fmt: skip
    monkeypatch.setattr(drawing, "gpu", SimpleNamespace(state=state))
    monkeypatch.setattr(overlay, "bpy", SimpleNamespace(context=context))
    for name in ("draw_lines", "draw_points", "draw_text", "draw_colored"):
        monkeypatch.setattr(drawing, name, lambda *given, **_: put.append(given))
    with forbid_disk_and_factorisation():
        for _ in range(REDRAWS):
            overlay.draw_in_scene()
            texts = redraw(load)
    assert any(given[-1] == "LINES" and given[0] is found.points for given in put)
    assert [text for text in texts if text.startswith("At this frame, the fibres are")]


@pytest.mark.slow
def test_tentacle_sample_curls_and_rests(load: Load, tmp_path: Path) -> None:
    bpy.ops.wm.open_mainfile(filepath=str(Path(__file__).parents[2] / "sample_blends" / "tentacle.blend"))
    obj = bpy.data.objects["Arm"]
    obj.dampsim.cache_folder, obj.dampsim.target, obj.dampsim.resolution = str(tmp_path), "POINT_CACHE", 800
    (result,) = load("dampsim_addon.api").bake([obj])
    assert result.problem == ""
    cache = load("dampsim_addon.model.caches").frame_cache(obj)
    first, curled, stopped, rest = (cache.read(number).surface for number in (1, 56, 98, 150))
    tip = int(first[:, 2].argmax())
    # It curls from 2.4 m to about half of that, with its tip on the side of the suckers, and back.
    assert first[tip, 2] > 2.3
    assert curled[:, 2].max() < 1.4
    assert curled[tip, 0] > curled[:, 0].mean()
    assert np.abs(rest - first).max() < 0.02 * np.abs(stopped - first).max()
    assert result.rest == pytest.approx(26.0, abs=1.5)
