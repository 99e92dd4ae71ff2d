"""Window test with real events: the tutorial of the belly, from Add to a changed dial, by clicks and keys.

Rig and keyframes are those of the page, made in scenes.py: their steps belong to Blender. Add is clicked, the dial is
typed, and the space bar plays. first_minute.py clicks Bake on the same belly. tests/addon/test_tutorials.py follows
each sentence, without a window.
"""

from __future__ import annotations

import re
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import bpy

sys.path.insert(0, str(Path(__file__).parent))
import scenes
from events import (
    SHOTS,
    addon_module,
    clear_scene,
    click,
    paste_value,
    point_at_viewport,
    run,
    scroll,
    shell,
    shot,
    verified_frames,
    wait_until,
)

# The belly stops at frame 13 and rests 24 frames later.
LAST = 48
# Error of the time of rest, as in docs/validation/settle.md.
REST_ERROR = 0.05
BELLY_PARTS = 150


def begin(obj: bpy.types.Object) -> Iterator[float]:
    """Select the object and click Add."""
    for other in bpy.context.scene.objects:
        other.select_set(other == obj)
    bpy.context.view_layer.objects.active = obj
    yield 1.0
    yield from click("add()")
    yield from wait_until(lambda: obj.dampsim.enabled, 20, "Add")
    obj.dampsim.cache_folder, obj.dampsim.resolution = str(SHOTS / f"tutorial_{obj.name}"), BELLY_PARTS
    yield 1.0


def play(obj: bpy.types.Object) -> Iterator[float]:
    """Press the space bar, wait for the last frame, and press ESC."""
    bpy.context.scene.frame_set(1)
    point_at_viewport()
    yield 0.3
    shell("xdotool", "key", "space")
    began = time.monotonic()
    yield from wait_until(lambda: verified_frames(obj) >= LAST, 600, "the last frame")
    shell("xdotool", "key", "Escape")
    yield from wait_until(lambda: not bpy.context.screen.is_animation_playing, 5, "ESC to stop the playback")
    print(f"window: {obj.name} played in {time.monotonic() - began:.0f} s", flush=True)
    yield 1.0


def measured_rest(obj: bpy.types.Object) -> float:
    """Return the frames from the stop to the rest in the panel Settle Curve."""
    curve = addon_module("dampsim_addon.status.results").displayed_curve(obj).curve
    assert re.match(r"At rest \d+\.\d frames after the stop", curve.summary), curve.summary
    return float(curve.rest)


def set_dial(obj: bpy.types.Object, name: str, value: float) -> Iterator[float]:
    yield from scroll(-30)
    yield from paste_value(name, value, 0.4)
    assert getattr(obj.dampsim, name) == value


def make_linear(armature: bpy.types.Object) -> None:
    data: Any = armature.animation_data
    for curve in data.action.layers[0].strips[0].channelbag(data.action_slot).fcurves:
        for point in curve.keyframe_points:
            point.interpolation = "LINEAR"


def check_rest(obj: bpy.types.Object, expected: float) -> None:
    rest = measured_rest(obj)
    print(f"window: {obj.name} rests {rest:.1f} frames after the stop, set {expected:g}", flush=True)
    assert abs(rest - expected) < REST_ERROR * expected, (rest, expected)


def belly() -> Iterator[float]:
    obj = scenes.belly(scenes.new_scene("Belly", LAST))
    make_linear(obj.parent)
    yield from begin(obj)
    assert (obj.dampsim.kind, obj.dampsim.pin_group) == ("SOLID", "Pin")
    yield from play(obj)
    check_rest(obj, obj.dampsim.settle)
    shot("tutorial_belly_played")
    yield from set_dial(obj, "settle", 12.0)
    yield from play(obj)
    check_rest(obj, 12.0)


def tutorials() -> Iterator[float]:
    yield from clear_scene()
    yield from belly()


run(tutorials(), "tutorials")
