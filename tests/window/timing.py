"""Window test with real events: bakes of the preview range and of another range, a retimed bake, and a loop."""

from __future__ import annotations

import sys
from collections.abc import Generator, Iterator
from pathlib import Path

import bpy

sys.path.insert(0, str(Path(__file__).parent))
import scenes
from events import (
    DATA_PATH,
    SHOTS,
    clear_scene,
    click,
    find,
    lower_edge,
    point,
    progress,
    run,
    scroll,
    shell,
    shot,
    sidebar,
    wait_until,
)

LAST = 48
# Pixels from the lower edge of Calibrate to the header of Start and Loop.
START_HEADER = 74
# Pixels from the menu Retime to the button of the dialog that its first entry opens there.
RETIME_BUTTON = 35


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
    scene.frame_set(10)
    yield from open_menu("bake()", 0.86)
    # The underlined letter of its second entry.
    shell("xdotool", "key", "b")
    yield 1.5
    shot("54_range_dialog")
    shell("xdotool", "key", "Return")
    yield from wait_until(lambda: "frames 10 to 40" in obj.dampsim.baked_touched, 60, "the dialog to bake")
    yield from wait_until(lambda: not progress().object_name, 60, "the end of the bake")
    yield from scroll(8)
    yield 1.5
    shot("55_retime")
    yield from find("export(")
    menu = yield from open_retime_menu()
    shot("56_retime_menu")
    shell("xdotool", "key", "s")
    yield 1.5
    # The dialog opens with its field under the pointer.
    bpy.context.window_manager.clipboard = "1.5"
    shell("xdotool", "key", "ctrl+v")
    yield 1.0
    shot("56_scale_dialog")
    point((0.5, menu + RETIME_BUTTON))
    yield 0.3
    shell("xdotool", "click", "1")
    strip = obj.data.shape_keys.animation_data.nla_tracks[-1].strips[0]
    yield from wait_until(lambda: strip.scale == 1.5, 10, "Scale")
    sidebar()[2].tag_redraw()
    yield 1.5
    shot("57_retimed")
    yield from open_retime_menu()
    shell("xdotool", "key", "o")
    yield from wait_until(lambda: strip.scale == 1.0, 10, "Own Speed")
    scene.frame_set(44)
    settle = obj.dampsim.settle
    yield from open_retime_menu()
    shell("xdotool", "key", "t")
    yield from wait_until(
        lambda: obj.dampsim.settle != settle and not progress().object_name, 60, "To Rest at Frame 44"
    )
    yield 1.0
    yield from loop()


def loop() -> Iterator[float]:
    """Take over the preview range, click Loop, and bake a cycle that a strip repeats."""
    scene = scenes.new_scene("Loop", 24)
    obj = scenes.mesh_object("Ball", scenes.ball(0.3, (0.0, 0.0, 0.0)))
    scenes.swing(obj, 0, 0.3, (1, 9, 17))
    obj.vertex_groups.new(name="Pin").add([v.index for v in obj.data.vertices if v.co.z < -0.1], 1.0, "REPLACE")
    obj.select_set(True)
    bpy.context.view_layer.objects.active = obj
    scene.use_preview_range, scene.frame_preview_start, scene.frame_preview_end = True, 1, 16
    yield 1.0
    yield from scroll(-20)
    yield from click("add()")
    yield from wait_until(lambda: obj.dampsim.enabled, 20, "Add")
    obj.dampsim.live, obj.dampsim.resolution, obj.dampsim.pin_group = False, 60, "Pin"
    obj.dampsim.cache_folder = str(SHOTS / "loop")
    yield 1.0
    yield from click("use_preview_range(")
    yield from wait_until(lambda: scene.frame_end == 16 and not scene.use_preview_range, 10, "Use Preview Range")
    edge = yield from lower_edge("calibrate()")
    point((0.3, edge + START_HEADER))
    yield 0.3
    shell("xdotool", "click", "1")
    yield 1.0
    yield from find("loop", 0.55, DATA_PATH)
    shell("xdotool", "click", "1")
    yield from wait_until(lambda: obj.dampsim.loop, 10, "Loop")
    shot("58_loop")
    yield from scroll(-20)
    yield from click("bake()")
    yield from wait_until(lambda: obj.dampsim.baked and not progress().object_name, 120, "the bake of a loop")
    strip = obj.data.shape_keys.animation_data.nla_tracks[-1].strips[0]
    assert strip.action.use_cyclic
    assert tuple(strip.action.frame_range) == (1.0, 17.0), tuple(strip.action.frame_range)
    yield 1.0
    shot("59_looped")


def open_retime_menu() -> Generator[float, None, float]:
    """Click the menu Retime, and return its place. A menu is no operator: it lies above the button that exports."""
    _, y = yield from find("export(")
    point((0.5, y - 26))
    yield 0.3
    shell("xdotool", "click", "1")
    yield 1.0
    return y - 26


def open_menu(command: str, across: float) -> Iterator[float]:
    """Click the arrow beside the button of an operator."""
    _, y = yield from find(command)
    point((across, y))
    yield 0.3
    shell("xdotool", "click", "1")
    yield 1.0


run(timing(), "timing")
