"""Display of contact: forces in the viewport, and messages on penetration, rest and stretch."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import bpy
import numpy as np
import pytest
from scenes import new_scene, world_vertices
from test_drawing import REDRAWS, forbid_disk_and_factorisation, redraw

pytestmark = pytest.mark.bpy
Load = Callable[[str], ModuleType]


def ball(cache: Path, low: float, **dials: object) -> bpy.types.Object:
    """Return a ball of 1 m whose lowest point is at height low above its floor, m."""
    bpy.ops.mesh.primitive_uv_sphere_add(segments=16, ring_count=8, radius=0.5, location=(0.0, 0.0, 0.5))
    obj = bpy.context.object
    assert bpy.ops.dampsim.add() == {"FINISHED"}
    assert bpy.ops.dampsim.floor() == {"FINISHED"}
    bpy.data.objects["Floor"].location.z = -low
    for name, value in {"cache_folder": str(cache), "resolution": 200, **dials}.items():
        setattr(obj.dampsim, name, value)
    return obj


def play(last: int) -> None:
    for frame in range(1, last + 1):
        bpy.context.scene.frame_set(frame)


def test_initial_penetration_is_reported(load: Load, live: ModuleType, tmp_path: Path) -> None:
    """Playback and bakes report the depth of an initial penetration."""
    new_scene(12)
    obj = ball(tmp_path, -0.1)
    play(12)
    session = live.find_session(obj)
    number, deepest = session.contact_report(obj).penetrations[0]
    # A step removes the penetration at no more than half the size per second.
    assert number == 2
    assert 0.0 < deepest.depth <= 0.1
    told = f"{deepest.points_inside} points are inside Floor, up to {1000.0 * deepest.depth:.2g} mm deep, at frame 2"
    assert [text for text in redraw(load) if text.startswith(told[:20])]
    sentence = load("dampsim_addon.status.shot_messages").report_messages(
        session.contact_report(obj), obj, bpy.context.scene
    )[0]
    assert sentence == f"{told}; they move out slowly"
    with forbid_disk_and_factorisation():
        for _ in range(REDRAWS):
            redraw(load)
    obj.dampsim.target = "POINT_CACHE"
    result = load("dampsim_addon.api").bake([obj])[0]
    assert sentence in result.touched
    assert obj.dampsim.baked_touched.splitlines() == list(result.touched)
    told_there = load("dampsim_addon.cli.bake_commands").report_line
    assert sentence in told_there(vars(result))
    assert [text for text in redraw(load) if text.startswith(told[:20])]
    # A bake without contact clears the message.
    obj.location.z = 5.0
    assert load("dampsim_addon.api").bake([obj], restart=True)[0].touched == ()
    assert not obj.dampsim.baked_touched


def test_walk_against_front_is_reported(load: Load, tmp_path: Path) -> None:
    scene = new_scene(4)
    obj = ball(tmp_path, 0.0)
    report, said = (load(name) for name in ("core.measure.report", "dampsim_addon.status.shot_messages"))
    size = max(obj.dimensions)
    assert said.report_messages(report.ShotReport(walked=-0.2 * size), obj, scene) == []
    (sentence,) = said.report_messages(report.ShotReport(walked=-3.0 * size), obj, scene)
    assert sentence.startswith("Walks ")
    assert "against its Front" in sentence


@pytest.mark.slow
def test_support_delayed_rest_is_reported(load: Load, live: ModuleType, tmp_path: Path) -> None:
    scene = new_scene(16)
    # So soft that it swings on its support for longer than a frame.
    obj = ball(tmp_path, 0.02, settle=1.0, stiffness_by="MODULUS", stiffness=1000.0)
    play(16)
    report = live.find_session(obj).contact_report(obj)
    frames = report.earliest_rest * 24.0
    assert frames > 2.0
    sentences = load("dampsim_addon.status.shot_messages").report_messages
    said = f"Needs at least {np.ceil(frames):.0f} frames to come to rest, because it swings on its support"
    assert sentences(report, obj, scene) == [said]
    obj.dampsim.settle = frames
    assert sentences(report, obj, scene) == []
    obj.dampsim.settle, obj.dampsim.damping_by = 1.0, "TAU_KAPPA"
    assert sentences(report, obj, scene) == []


def test_rope_stretch_is_reported(load: Load, live: ModuleType, tmp_path: Path) -> None:
    """Playback and bakes report the stretch of a soft rope."""
    scene = new_scene(4)
    mesh = bpy.data.meshes.new("Rope")
    mesh.from_pydata([(0.0, 0.0, -0.1 * k) for k in range(11)], [(k, k + 1) for k in range(10)], [])
    obj = bpy.data.objects.new("Rope", mesh)
    scene.collection.objects.link(obj)
    bpy.context.view_layer.objects.active = obj
    obj.select_set(True)
    assert bpy.ops.dampsim.add() == {"FINISHED"}
    group = obj.vertex_groups.new(name="Pin")
    group.add([0], 1.0, "REPLACE")
    obj.dampsim.pin_group, obj.dampsim.cache_folder = "Pin", str(tmp_path)
    # Nearly the whole weight pulls on the top edge: rho g L/E = 0.5.
    obj.dampsim.density, obj.dampsim.stiffness = 1000.0, 0.95 * 9.81 / 0.5
    play(4)
    told = "Stretched by up to 50% at frame 1; raise Stiffness to reduce it"
    assert [text for text in redraw(load) if text.startswith(told[:20])]
    (sentence,) = load("dampsim_addon.api").bake([obj])[0].touched
    assert sentence == told
    obj.dampsim.stiffness *= 100.0
    assert load("dampsim_addon.api").bake([obj], restart=True)[0].touched == ()


def test_posed_stretch_is_reported(load: Load, live: ModuleType, tmp_path: Path) -> None:
    """Playback and bakes do not advise a higher stiffness where the animation pulls pins apart."""
    scene = new_scene(4)
    mesh = bpy.data.meshes.new("Rope")
    mesh.from_pydata([(0.1 * k, 0.0, 0.0) for k in range(11)], [(k, k + 1) for k in range(10)], [])
    obj = bpy.data.objects.new("Rope", mesh)
    scene.collection.objects.link(obj)
    bpy.context.view_layer.objects.active = obj
    obj.select_set(True)
    assert bpy.ops.dampsim.add() == {"FINISHED"}
    obj.vertex_groups.new(name="Pin").add([0, 10], 1.0, "REPLACE")
    obj.dampsim.pin_group, obj.dampsim.cache_folder = "Pin", str(tmp_path)
    obj.shape_key_add(name="Basis")
    apart = obj.shape_key_add(name="Apart")
    for point in apart.data:
        point.co.x *= 1.6
    for frame, value in ((1, 0.0), (4, 1.0)):
        apart.value = value
        apart.keyframe_insert("value", frame=frame)
    obj.dampsim.target = "POINT_CACHE"
    play(4)
    told = "at frame 4; the animation alone stretches it by 60%"
    # The panel breaks long lines.
    assert told in " ".join(filter(None, redraw(load)))
    (sentence,) = load("dampsim_addon.api").bake([obj])[0].touched
    assert sentence.startswith("Stretched by up to")
    assert sentence.endswith(told)


def test_viewport_draws_support_forces(
    load: Load, live: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    scene = new_scene(40)
    obj = ball(tmp_path, 0.0, settle=6.0, bounce=0.0)
    obj.dampsim.show_contacts = True
    play(40)
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
    monkeypatch.setattr(drawing, "gpu", SimpleNamespace(state=state))
    monkeypatch.setattr(overlay, "bpy", SimpleNamespace(context=context))
    for name in ("draw_lines", "draw_points", "draw_text"):
        monkeypatch.setattr(drawing, name, lambda *given, **_: put.append(given))
    overlay.draw_in_scene()
    overlay.draw_labels()
    found = overlay.body_view(obj, scene).data(load("dampsim_addon.ui.contact.overlay").contact_overlay)
    low = world_vertices(obj, 40)[:, 2].min()
    assert len(found.points) >= 1
    np.testing.assert_allclose(found.points[:, 2], low, atol=2e-3)
    rises = found.lines[1::2] - found.lines[::2]
    assert (rises[:, 2] > 0.0).all()
    assert np.linalg.norm(rises, axis=1).max() == pytest.approx(0.2 * 3.0**0.5, rel=0.01)
    (words, _), weight = found.labels[0], 9.81 * live.find_session(obj).simulation.system_of("Sphere").mass.sum()
    assert words.startswith("Floor: ")
    # It is at rest, as far as a frame shows.
    assert 1000.0 * float(words.split()[1]) == pytest.approx(weight, rel=0.1)
    assert words.endswith(" kN")
    newtons = load("dampsim_addon.ui.contact.overlay").force_text
    assert [newtons(force) for force in (2.5e6, 999.0, 1.5, 0.0021)] == ["2.5 MN", "999 N", "1.5 N", "2.1 mN"]
    assert words in [word for given in put for word in given if isinstance(word, str)]
    once = len(put)
    monkeypatch.setattr(load("dampsim_addon.ui.contact.overlay"), "body_contact_forces", None)
    with forbid_disk_and_factorisation():
        for _ in range(REDRAWS):
            overlay.draw_in_scene()
            overlay.draw_labels()
    assert len(put) == (REDRAWS + 1) * once
    assert not len(found.deep_points)
    # Forces of an unreadable collider are not drawn.
    monkeypatch.undo()
    floor = bpy.data.objects["Floor"]
    drawn = load("dampsim_addon.ui.common.overlay_option").BodyView(
        live.find_session(obj), live.find_session(obj).simulation, "Sphere", live.find_session(obj).frames[-1].frame
    )
    floor.hide_viewport = True
    assert drawn.data(load("dampsim_addon.ui.contact.overlay").contact_overlay) is None


def test_contact_that_ends_steering_is_reported(load: Load, live: ModuleType, tmp_path: Path) -> None:
    """Playback and bakes name the floor on which a flag drags, and the frames, if it misses Settle."""
    new_scene(40)
    bpy.ops.mesh.primitive_grid_add(x_subdivisions=6, y_subdivisions=6, size=1.0)
    obj = bpy.context.object
    for vertex in obj.data.vertices:
        vertex.co = (vertex.co.x, 0.0, vertex.co.y - 0.5)
    assert bpy.ops.dampsim.add() == {"FINISHED"}
    assert bpy.ops.dampsim.floor() == {"FINISHED"}
    bpy.data.objects["Floor"].location.z = -0.97
    group = obj.vertex_groups.new(name="Pin")
    group.add([vertex.index for vertex in obj.data.vertices if vertex.co.z > -1e-3], 1.0, "REPLACE")
    dials = {
        "pin_group": "Pin",
        "cache_folder": str(tmp_path),
        "settle": 20.0,
        "bounce": 0.0,
        "bounce_by": "DIALLED",
        "kind": "CLOTH",
    }
    for name, value in dials.items():
        setattr(obj.dampsim, name, value)
    for frame, y in ((1, 0.0), (5, 0.2)):
        obj.location.y = y
        obj.keyframe_insert("location", frame=frame)
    play(40)
    # The flag first touches the floor while its pins move, or just after.
    told = re.compile(r"and touches Floor on frames [4567] to 25\b")
    assert told.search(" ".join(redraw(load)))
    touched = load("dampsim_addon.api").bake([obj])[0].touched
    assert touched[0].startswith("Rests after ")
    assert told.search(touched[0])
    assert obj.dampsim.baked_touched.splitlines()[0] == touched[0]
    bpy.data.objects["Floor"].location.z = -3.0
    assert not [text for text in load("dampsim_addon.api").bake([obj], restart=True)[0].touched if "touches" in text]


def test_rest_message(load: Load) -> None:
    """The message gives both times, the partner and the frames, and is silent without contact or error."""
    report, said = (load(name) for name in ("core.measure.report", "dampsim_addon.status.shot_messages"))
    curve_type = load("core.measure.curve").SettleCurve
    zero = np.array([0.0, 60.0])
    late = curve_type(zero, zero, None, None, dial=24.0, rest=31.26, bounce=0.0, overshoot=0.0)
    touched = report.ShotReport(contact_frames=(("Wall", (9, 20, 21, 22)),))
    expected = "Rests after 31.3 frames (Settle: 24) and touches Wall on frames 20 to 22"
    assert said.rest_message(touched, late, 70) == expected
    never = replace(late, rest=np.inf)
    assert said.rest_message(touched, never, 70).startswith("Does not rest (Settle: 24) and touches Wall")
    assert said.rest_message(touched, replace(late, rest=25.0), 70) == ""
    assert said.rest_message(touched, None, 70) == ""
    # The contact was over before the stop.
    assert said.rest_message(touched, late, 90) == ""
