"""Window test with real events: tools of an animator after a bake, and keyframes of Hold, Pressure and Influence."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import bpy

sys.path.insert(0, str(Path(__file__).parent))
import scenes
from events import (
    SHOTS,
    clear_scene,
    click,
    find,
    lower_edge,
    paste_value,
    point,
    point_at_viewport,
    progress,
    run,
    scroll,
    shell,
    shot,
    sidebar,
    wait_until,
)

LAST = 48
# Pixels from the lower edge of Bake to the header of Kind and Stiffness, and from Calibrate to that of Start and Loop.
KIND_HEADER, START_HEADER = 48, 74


def prepare(obj: bpy.types.Object, **dials: Any) -> Iterator[float]:
    """Select an object alone and click Add."""
    for other in bpy.context.scene.objects:
        other.select_set(other == obj)
    bpy.context.view_layer.objects.active = obj
    yield 1.0
    yield from click("add()")
    yield from wait_until(lambda: obj.dampsim.enabled, 20, "Add")
    obj.dampsim.live, obj.dampsim.cache_folder = False, str(SHOTS / f"animator_{obj.name}")
    for name, value in dials.items():
        setattr(obj.dampsim, name, value)
    yield 1.0


def bake(obj: bpy.types.Object) -> Iterator[float]:
    yield from click("bake()")
    yield from wait_until(lambda: obj.dampsim.baked and not progress().object_name, 120, "the bake")
    yield 1.0


def strip_of(obj: bpy.types.Object) -> Any:
    return obj.data.shape_keys.animation_data.nla_tracks[-1].strips[0]


def influence_keys(obj: bpy.types.Object) -> list[tuple[float, float]]:
    curve = strip_of(obj).fcurves.find("influence")
    return [(round(key.co.x), round(key.co.y, 3)) for key in curve.keyframe_points] if curve is not None else []


def is_blended(keys: list[tuple[float, float]]) -> bool:
    """Return whether the ear has these keyframes of Influence, or a finished blend along arcs."""
    obj = bpy.data.objects["Ear"]
    return influence_keys(obj) == keys or bool(obj.dampsim.blended_frames and not progress().object_name)


def curve_of(obj: bpy.types.Object, name: str) -> Any:
    data = obj.animation_data
    return data.action.layers[0].strips[0].channelbag(data.action_slot).fcurves.find(f"dampsim.{name}")


def keys_of(obj: bpy.types.Object, name: str) -> list[tuple[float, float]]:
    return [(round(key.co.x), round(key.co.y, 3)) for key in curve_of(obj, name).keyframe_points]


def undo() -> Iterator[float]:
    point_at_viewport()
    yield 0.3
    shell("xdotool", "key", "ctrl+z")
    yield 1.0


def open_panel(y: float) -> Iterator[float]:
    """Click the header of a panel. y: pixels from the top of the sidebar."""
    point((0.3, y))
    yield 0.3
    shell("xdotool", "click", "1")
    yield 1.0


def blends(scene: bpy.types.Scene) -> Iterator[float]:
    """Key, land, fade and mute a bake by its buttons; let it rest by a frame; add and remove maps."""
    obj = scenes.ear(scene)
    yield from prepare(obj, resolution=100)
    yield from bake(obj)
    scene.frame_set(20)
    yield from scroll(8)
    yield from paste_value("influence", 0.5)
    assert abs(obj.dampsim.influence - 0.5) < 1e-6, obj.dampsim.influence
    yield from click("key_influence(", 0.82)
    yield from wait_until(lambda: influence_keys(obj) == [(20, 0.5)], 10, "the keyframe of Influence")
    shot("60_influence")
    yield from undo()
    for kind, frame, keys in (
        ("LAND", 30, [(18, 1.0), (30, 0.0)]),
        ("FADE_IN", 10, [(10, 0.0), (22, 1.0)]),
        ("FADE_OUT", 30, [(30, 1.0), (42, 0.0)]),
    ):
        bpy.data.objects["Ear"].dampsim.influence = 1.0
        curve = strip_of(bpy.data.objects["Ear"]).fcurves.find("influence")
        if curve is not None:
            curve.keyframe_points.clear()
        scene.frame_set(frame)
        sidebar()[2].tag_redraw()
        yield 0.5
        yield from click(f"blend(kind='{kind}'", 0.65 if kind == "FADE_OUT" else 0.25)
        yield from wait_until(lambda keys=keys: is_blended(keys), 60, kind)
        if bpy.data.objects["Ear"].dampsim.blended_frames:
            # Where the ear has turned far, the bake blends along arcs, and keys nothing.
            yield 1.0
            shot(f"61_{kind.lower()}_along_arcs")
            yield from click("remove_blends(")
            yield from wait_until(lambda: not bpy.data.objects["Ear"].dampsim.blended_frames, 60, "Remove Blends")
            yield from wait_until(lambda: not progress().object_name, 60, "the end of Remove Blends")
    yield 1.0
    shot("61_faded")
    obj = bpy.data.objects["Ear"]
    keyed = influence_keys(obj)
    scene.frame_set(40)
    sidebar()[2].tag_redraw()
    yield 0.5
    yield from click("rest_by_frame(")
    yield from wait_until(lambda: obj.dampsim.settle > 24.5 and not progress().object_name, 60, "Rest by Frame")
    yield 1.0
    assert influence_keys(obj) == keyed
    yield from click("maps(")
    yield from wait_until(lambda: any(one.type == "NODES" for one in obj.modifiers), 10, "Add Maps")
    yield 1.0
    shot("62_maps")
    yield from click("maps(", 0.4)
    yield 1.0
    assert [one.type for one in obj.modifiers].count("NODES") == 1
    yield from click("maps(remove=True", 0.82)
    yield from wait_until(lambda: not any(one.type == "NODES" for one in obj.modifiers), 10, "the cross of the maps")
    scene.render.fps = 48
    sidebar()[2].tag_redraw()
    yield 1.0
    # A menu is no operator: it lies above the button that exports. Its third entry keeps the seconds.
    place = yield from find("export(")
    point((0.5, place[1] - 26))
    yield 0.3
    shell("xdotool", "click", "1")
    yield 1.0
    shot("63_keep_seconds")
    shell("xdotool", "key", "k")
    yield from wait_until(lambda: strip_of(obj).scale == 2.0, 10, "Keep Seconds")
    scene.render.fps = 24
    yield from scroll(8)
    shot("64_curve")


def throws(scene: bpy.types.Scene) -> Iterator[float]:
    """Key Hold and Pressure under the pointer, throw an object without pins, and bake both."""
    obj = scenes.mesh_object("Ball", scenes.ball(0.3, (0.0, 0.0, 0.0)))
    scenes.swing(obj, 0, 0.5, (1, 7, 13))
    for vertex in obj.data.vertices:
        vertex.select = vertex.co.z < -0.1
    yield from prepare(obj, resolution=60)
    yield from scroll(-20)
    yield from click("pin()", 0.2)
    yield from wait_until(lambda: obj.dampsim.pin_group, 10, "the pins")
    for frame, hold in ((10, 1.0), (11, 0.0), (24, 1.0)):
        scene.frame_set(frame)
        yield 0.3
        yield from paste_value("hold", hold, 0.4, is_keyed=True)
    assert keys_of(obj, "hold") == [(10, 1.0), (11, 0.0), (24, 1.0)], keys_of(obj, "hold")
    shot("65_hold")
    yield from paste_value("catch_frames", 5)
    assert obj.dampsim.catch_frames == 5, obj.dampsim.catch_frames
    yield from click('mend(check="catch"')
    yield from wait_until(lambda: curve_of(obj, "hold").evaluate(20.0) == 0.0, 10, "Make Constant")
    yield from bake(obj)
    scene.frame_set(18)
    layer = bpy.context.view_layer
    points = [obj.matrix_world @ one.co for one in obj.evaluated_get(layer.depsgraph).data.vertices]
    assert min(one.z for one in points) < -0.3
    yield 0.5
    shot("66_thrown")

    obj = scenes.mesh_object("Balloon", scenes.ball(0.3, (0.0, 0.0, 1.0)))
    # Without air, the balloon keeps its velocity.
    free = {"let_fall": True, "gravity_weight": 0.0, "air": 0.0, "start_settled": False}
    yield from prepare(obj, kind="CLOTH", stiffness=3000.0, **free)
    edge = yield from lower_edge("bake()")
    yield from open_panel(edge + KIND_HEADER)
    for frame, pressure in ((2, 0.0), (12, 300.0)):
        scene.frame_set(frame)
        yield 0.3
        yield from paste_value("pressure", pressure, is_keyed=True)
    assert keys_of(obj, "pressure") == [(2, 0.0), (12, 300.0)]
    shot("67_pressure")
    edge = yield from lower_edge("calibrate()")
    yield from open_panel(edge + START_HEADER)
    yield from paste_value("velocity_z", 2.0)
    yield from paste_value("spin_z", 1.0)
    assert (obj.dampsim.velocity_z, obj.dampsim.spin_z) == (2.0, 1.0)
    shot("68_velocity")
    yield from scroll(-20)
    scene.frame_end = 13
    yield from bake(obj)
    scene.frame_set(13)
    points = [obj.matrix_world @ one.co for one in obj.evaluated_get(layer.depsgraph).data.vertices]
    middle, width = sum(one.z for one in points) / len(points), max(one.x for one in points) - min(o.x for o in points)
    assert abs(middle - 2.0) < 0.05, middle
    assert width > 0.303, width
    yield 0.5
    shot("69_inflated")


def animator() -> Iterator[float]:
    yield from clear_scene()
    yield from blends(scenes.new_scene("Blends", LAST))
    yield from throws(scenes.new_scene("Throws", 30))


run(animator(), "animator")
