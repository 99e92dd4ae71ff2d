"""Window test with real events: a bake of the preview range and of another range, and a retimed bake."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import bpy

sys.path.insert(0, str(Path(__file__).parent))
import scenes
from events import SHOTS, clear_scene, click, find, point, progress, run, scroll, shell, shot, sidebar, wait_until

LAST = 48


def timing() -> Iterator[float]:
    yield from clear_scene()
    scene = scenes.new_scene("Timing", LAST)
    obj = scenes.ear(scene)
    scene.frame_set(1)
    for other in scene.objects:
        other.select_set(other == obj)
    bpy.context.view_layer.objects.active = obj
    yield 1.0
    yield from click("add()")
    yield from wait_until(lambda: obj.dampsim.enabled, 20, "Add")
    obj.dampsim.resolution, obj.dampsim.cache_folder = 100, str(SHOTS / "timing")
    yield 1.0
    yield from click("bake()")
    yield from wait_until(lambda: obj.dampsim.baked and not progress().object_name, 120, "the bake")
    settle = obj.dampsim.settle
    obj.dampsim.settle *= 2.0
    scene.use_preview_range, scene.frame_preview_start, scene.frame_preview_end = True, 16, 36
    sidebar()[2].tag_redraw()
    yield 2.0
    shot("50_preview_range")
    yield from click("bake()")
    yield from wait_until(lambda: "frames 16 to 36" in obj.dampsim.baked_touched, 120, "the range")
    yield from wait_until(lambda: not progress().object_name, 60, "the end of the bake")
    yield 2.0
    shot("51_range")
    scene.use_preview_range = False
    sidebar()[2].tag_redraw()
    yield 2.0
    shot("52_other_dials")
    yield from click('mend(check="ranges"')
    yield from wait_until(lambda: obj.dampsim.settle == settle, 10, "Restore 1 Dial")
    yield 1.0
    yield from open_menu("bake()", 0.86)
    shot("53_bake_menu")
    shell("xdotool", "key", "Escape")
    yield 0.5
    window, area, region = sidebar()
    scene.frame_set(10)
    with bpy.context.temp_override(window=window, area=area, region=region):
        bpy.ops.dampsim.rebake_range("INVOKE_DEFAULT")
    yield 1.5
    shot("54_range_dialog")
    shell("xdotool", "key", "Return")
    yield from wait_until(lambda: "frames 10 to 40" in obj.dampsim.baked_touched, 60, "the dialog to bake")
    yield from wait_until(lambda: not progress().object_name, 60, "the end of the bake")
    yield from scroll(8)
    yield 1.5
    shot("55_retime")
    # A menu is no operator: it lies above the button that exports.
    yield from find("export(")
    place = yield from find("export(")
    point((0.5, place[1] - 26))
    yield 0.3
    shell("xdotool", "click", "1")
    yield 1.0
    shot("56_retime_menu")
    shell("xdotool", "key", "Escape")
    yield 0.5
    with bpy.context.temp_override(window=window, area=area, region=region):
        bpy.ops.dampsim.retime("INVOKE_DEFAULT", scale=1.5)
    strip = obj.data.shape_keys.animation_data.nla_tracks[-1].strips[0]
    assert strip.scale == 1.5, strip.scale
    region.tag_redraw()
    yield 1.5
    shot("57_retimed")


def open_menu(command: str, across: float) -> Iterator[float]:
    """Click the arrow beside the button of an operator."""
    _, y = yield from find(command)
    point((across, y))
    yield 0.3
    shell("xdotool", "click", "1")
    yield 1.0


run(timing(), "timing")
