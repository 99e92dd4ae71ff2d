"""Within the real window: looks at the panel, clicks Bake, presses ESC, resumes, plays and clears; with real events.

A generator run by a timer: each `yield seconds` lets Blender draw and take events. Screenshots go to $DAMPSIM_SHOTS.
"""

from __future__ import annotations

import os
import subprocess
import time
import traceback
from collections.abc import Iterator
from pathlib import Path

import bpy

SHOTS = Path(os.environ["DAMPSIM_SHOTS"]).resolve()
FRAMES = 40
# Places of the buttons in the sidebar, in pixels from its upper left corner, at the factory's scale and theme.
BAKE, RESUME, CLEAR = (0.5, 371), (0.3, 401), (0.7, 401)


def shell(*command: str) -> None:
    subprocess.run(command, check=True, timeout=20)


def shot(name: str) -> None:
    shell("import", "-window", "root", str(SHOTS / f"{name}.png"))


def sidebar() -> tuple[bpy.types.Window, bpy.types.Area, bpy.types.Region]:
    window = bpy.context.window_manager.windows[0]
    area = next(a for a in window.screen.areas if a.type == "VIEW_3D")
    return window, area, next(r for r in area.regions if r.type == "UI")


def click(place: tuple[float, float]) -> None:
    window, _, region = sidebar()
    x = region.x + place[0] * region.width
    y = window.height - (region.y + region.height) + place[1]
    shell("xdotool", "mousemove", str(round(x)), str(round(y)))
    time.sleep(0.05)
    shell("xdotool", "click", "1")


def progress() -> bpy.types.PropertyGroup:
    return bpy.context.window_manager.dampsim_progress


def until(condition: object, seconds: float, what: str) -> Iterator[float]:
    end = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > end:
            shot("timeout")
            raise AssertionError(f"waited {seconds} s for {what}")
        yield 0.05


def play() -> Iterator[float]:
    _window, area, region = sidebar()
    scene = bpy.context.scene
    scene.frame_end = FRAMES
    creature = bpy.data.objects["Creature"]
    creature.dampsim.cache_folder = str(SHOTS / "cache")
    area.spaces.active.show_region_ui = True
    area.spaces.active.shading.type = "MATERIAL"
    area.spaces.active.region_3d.view_perspective = "CAMERA"
    yield 2.0
    region.active_panel_category = "DampSim"
    yield 2.0
    shot("1_panel")

    click(BAKE)
    yield from until(lambda: progress().object_name == "Creature", 10, "Bake to start by a click")
    yield from until(lambda: "Simulating" in progress().text and progress().factor > 0.3, 120, "some frames")
    shot("2_baking")
    shell("xdotool", "key", "Escape")
    pressed = time.monotonic()
    yield from until(lambda: not progress().object_name, 5, "ESC to stop the bake")
    print(f"window: ESC stopped the bake after {time.monotonic() - pressed:.2f} s", flush=True)
    yield 1.0
    shot("3_stopped")
    kept = len(list((SHOTS / "cache").rglob("frame_*.npz")))
    assert 0 < kept < FRAMES, f"{kept} frames kept"
    assert creature.data.shape_keys is None

    click(RESUME)
    yield from until(lambda: progress().object_name == "Creature", 10, "Resume to start by a click")
    yield from until(lambda: not progress().object_name, 180, "the bake to end")
    yield 1.0
    assert len(list((SHOTS / "cache").rglob("frame_*.npz"))) == FRAMES
    assert len(creature.data.shape_keys.key_blocks) == FRAMES + 1
    scene.frame_set(20)
    yield 1.0
    shot("4_baked")

    click(CLEAR)
    yield from until(lambda: creature.data.shape_keys is None, 10, "Clear by a click")
    yield 1.0
    shot("5_cleared")
    assert list((SHOTS / "cache").rglob("frame_*.npz")) == []


STEPS = play()


def tick() -> float | None:
    try:
        return next(STEPS)
    except StopIteration:
        print("window: passed", flush=True)
        os._exit(0)
    except BaseException:
        traceback.print_exc()
        os._exit(1)


bpy.context.preferences.view.show_splash = False
bpy.app.timers.register(tick, first_interval=3.0)
