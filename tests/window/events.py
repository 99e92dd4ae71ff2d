"""Control of a real Blender window: clicks, keys, waiting, and screenshots into $DAMPSIM_SHOTS.

Screenshots named docs_… are the pictures of docs/images.
"""

from __future__ import annotations

import importlib
import os
import subprocess
import time
import traceback
from collections.abc import Generator, Iterator
from pathlib import Path
from typing import Any

import bpy

SHOTS = Path(os.environ["DAMPSIM_SHOTS"]).resolve()
PACKAGE = "bl_ext.user_default.dampsim"
# Factor by which everything may take longer than on an idle machine.
_PATIENCE = 3.0


def shell(*command: str) -> None:
    subprocess.run(command, check=True, timeout=120)


def shot(name: str) -> None:
    shell("import", "-window", "root", str(SHOTS / f"{name}.png"))


def picture(name: str, x: float, y: float, width: float, height: float) -> None:
    """Save a part of the window for the documentation; x and y are pixels from its upper left corner."""
    place = f"{round(width)}x{round(height)}+{round(x)}+{round(y)}"
    shell("import", "-window", "root", "-crop", place, "+repage", str(SHOTS / f"docs_{name}.png"))


def panel_picture(name: str, height: float) -> None:
    window, _, region = sidebar()
    picture(name, region.x, window.height - (region.y + region.height), region.width, height)


def addon_module(name: str) -> Any:
    return importlib.import_module(f"{PACKAGE}.{name}")


def sidebar() -> tuple[bpy.types.Window, bpy.types.Area, bpy.types.Region]:
    window = bpy.context.window_manager.windows[0]
    area = next(a for a in window.screen.areas if a.type == "VIEW_3D")
    return window, area, next(r for r in area.regions if r.type == "UI")


# Last position of each button, in pixels from the top of the sidebar; step of the search, less than their height of 20.
_LAST_POSITIONS: dict[str, float] = {}
_STEP = 14
# Number of heights of the sidebar that are searched: with a settle curve, Calibrate is in the fourth.
_TURNS = 5


# Keys that copy the command of an operator's button, and the data path of a property.
_COMMAND, DATA_PATH = "ctrl+c", "ctrl+shift+alt+c"


def find(command: str, across: float = 0.5, copy: str = _COMMAND) -> Generator[float, None, tuple[float, float]]:
    """Move the pointer to the button of an operator and return its position.

    across: in parts of the sidebar's width.  copy: keys that copy the command of the button under the pointer.
    The search starts at the last position, continues everywhere, and then scrolls down.
    """
    for turns in range(_TURNS):
        height = sidebar()[2].height
        last = _LAST_POSITIONS.get(command, 30.0)
        for y in sorted([last, *range(16, height - 8, _STEP)], key=lambda one: abs(one - last)):
            if (yield from _is_at(command, (across, y), copy)):
                _LAST_POSITIONS[command] = y
                return across, y
        if turns < _TURNS - 1:
            yield from scroll(6)
    shot("missing")
    raise AssertionError(f"found no button for {command}")


def _is_at(command: str, place: tuple[float, float], copy: str = _COMMAND) -> Generator[float, None, bool]:
    """Return whether the button of an operator, or a property, is at this position."""
    point(place)
    yield 0.05
    bpy.context.window_manager.clipboard = ""
    shell("xdotool", "key", copy)
    yield 0.05
    # Properties of DampSim, and of the scene.
    starts = ("bpy.ops.dampsim.",) if copy == _COMMAND else (".dampsim.", "].")
    return any(f"{start}{command}" in bpy.context.window_manager.clipboard for start in starts)


def lower_edge(command: str, across: float = 0.5) -> Generator[float, None, float]:
    """Return the lower edge of the button of an operator, in pixels from the top of the sidebar."""
    _, y = yield from find(command, across)
    while (yield from _is_at(command, (across, y))):
        y += 2
    return y


def click(command: str, across: float = 0.5) -> Iterator[float]:
    """Find and click the button of an operator."""
    yield from find(command, across)
    shell("xdotool", "click", "1")


def paste_value(name: str, value: float, across: float = 0.7, *, is_keyed: bool = False) -> Iterator[float]:
    """Paste a value into a property of the active object under the pointer, and insert a keyframe with the key I."""
    yield from find(name, across, DATA_PATH)
    bpy.context.window_manager.clipboard = str(value)
    shell("xdotool", "key", "ctrl+v")
    yield 0.3
    if is_keyed:
        shell("xdotool", "key", "i")
        yield 0.3


def call_menu_entry(operator: str, **options: Any) -> Iterator[float]:
    """Run an operator as an entry of a menu beside a button does."""
    window, area, region = sidebar()
    with bpy.context.temp_override(window=window, area=area, region=region):
        getattr(bpy.ops.dampsim, operator)("INVOKE_DEFAULT", **options)
    yield 0.1


def point(place: tuple[float, float]) -> None:
    """Move the pointer to (part of the sidebar's width, pixels from its top)."""
    window, _, region = sidebar()
    y = window.height - (region.y + region.height) + place[1]
    shell("xdotool", "mousemove", str(round(region.x + place[0] * region.width)), str(round(y)))


def clear_scene() -> Iterator[float]:
    """Remove the default objects and show the tab of DampSim."""
    for obj in list(bpy.data.objects):
        bpy.data.objects.remove(obj)
    _, area, region = sidebar()
    area.spaces.active.show_region_ui = True
    area.spaces.active.show_gizmo = False
    bpy.context.preferences.system.viewport_aa = "OFF"
    yield 2.0
    region.active_panel_category = "DampSim"
    yield 2.0


def verified_frames(obj: bpy.types.Object) -> int:
    """Return the number of verified live frames of an object."""
    session = addon_module("dampsim_addon.live").find_session(obj)
    assert not (session and session.problem), session.problem
    return session.verified if session else 0


def progress() -> bpy.types.PropertyGroup:
    return bpy.context.window_manager.dampsim_progress


def scroll(turns: int) -> Iterator[float]:
    """Turn the wheel over the panels: down if positive, up if negative."""
    point((0.5, sidebar()[2].height / 2))
    shell("xdotool", "click", "--repeat", str(abs(turns)), "--delay", "100", "5" if turns > 0 else "4")
    yield 1.5


def point_at_viewport() -> None:
    """Move the pointer into the viewport, so that it receives keys."""
    window, area, _ = sidebar()
    shell("xdotool", "mousemove", str(area.x + area.width // 3), str(window.height - area.y - area.height // 2))


def start_playback() -> Iterator[float]:
    """Press the space bar over the viewport, and wait until a frame is played."""
    point_at_viewport()
    yield 0.3
    # Until a frame is played, Live may still count the frames of earlier dials.
    first = bpy.context.scene.frame_current
    shell("xdotool", "key", "space")
    yield from wait_until(
        lambda: bpy.context.screen.is_animation_playing and bpy.context.scene.frame_current != first,
        20,
        "the space bar to start the playback",
    )


def stop_playback() -> Iterator[float]:
    """Press ESC over the viewport, and wait until the playback stops."""
    shell("xdotool", "key", "Escape")
    yield from wait_until(lambda: not bpy.context.screen.is_animation_playing, 5, "ESC to stop the playback")


def wait_until(condition: object, seconds: float, event: str) -> Iterator[float]:
    """Wait for a condition. seconds: that it takes at most on an idle machine."""
    seconds *= _PATIENCE
    end = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > end:
            shot("timeout")
            raise AssertionError(f"waited {seconds} s for {event}")
        yield 0.02


def run(steps: Iterator[float], name: str) -> None:
    """Run the steps by a timer, then exit; each `yield seconds` lets Blender draw and handle events."""

    def tick() -> float | None:
        try:
            return next(steps)
        except StopIteration:
            print(f"window: {name} passed", flush=True)
            os._exit(0)
        except BaseException:
            traceback.print_exc()
            os._exit(1)

    bpy.context.preferences.view.show_splash = False
    bpy.app.timers.register(tick, first_interval=3.0)
