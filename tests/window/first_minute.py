"""Window test with real events: the first minute with DampSim on typical objects.

Each case begins in an empty scene with an object of scenes.py, and ends in visible motion after a click on Add or on
the button that the panel offers instead. The pictures are those of docs/tutorials/first-minute.md.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import bpy
from mathutils import Quaternion, Vector

sys.path.insert(0, str(Path(__file__).parent))
import scenes
from events import (
    SHOTS,
    call_menu_entry,
    clear_scene,
    click,
    picture,
    progress,
    run,
    shot,
    sidebar,
    start_playback,
    stop_playback,
    verified_frames,
    wait_until,
)
from visible_motion import evaluated_frames, measure_motion

# Two swings of a third of a second, and the rest of 1.5 s to settle.
FRAMES = 36
# After half a second, a user sees that it moves.
VISIBLE_FRAMES = 12
# Visible motion, and unacceptable distance from the animation, in parts of the size.
MIN_MOTION, MAX_LAG = 0.01, 0.6
# Largest gap of a closed seam, and largest change of length of an intact edge, in parts of the size.
MAX_SEAM_GAP, MAX_EDGE_CHANGE = 1e-3, 0.2
# Region with the middle of the viewport and the panel, in pixels from the window's upper left corner.
VIEW = (424, 84, 890, 640)
# The entry of the menu Gradient that pins the top.
PIN_TOP = "pin_gradient"


@dataclass(frozen=True)
class FirstSession:
    """A first session. make: builds the object.  clicks: the buttons until it is pinned.  frame: of the picture."""

    name: str
    make: Callable[[bpy.types.Scene], bpy.types.Object]
    clicks: Sequence[str]
    frame: int = 15


MINUTES = (
    FirstSession("suzanne", scenes.suzanne, ("add()", PIN_TOP)),
    FirstSession("belly", scenes.belly, ("add()",)),
    FirstSession("tail", scenes.tail, ("add()",)),
    # Apply Mirror, then bake to a file, because Subdivision is above Armature.
    FirstSession("half_head", scenes.half_head, ("add()", 'mend(check="keys"', 'mend(check="shown"')),
    FirstSession("shirt", scenes.shirt, ("add()", "pin()")),
    FirstSession("linked", lambda scene: scenes.linked_jelly(scene, SHOTS), ("local_add()", PIN_TOP)),
    FirstSession("text", scenes.text, ("convert_add()", PIN_TOP)),
    FirstSession("curve", scenes.curve, ("convert_add()", PIN_TOP)),
    FirstSession("ear", scenes.ear, ("add()",)),
    FirstSession("big_belly", lambda scene: scenes.belly(scene, 3.0, "Big Belly"), ("add()",)),
)


def set_view(obj: bpy.types.Object) -> None:
    """Frame the object next to the panel, with space for its motion."""
    view = sidebar()[1].spaces.active.region_3d
    bpy.context.view_layer.update()
    corners = [obj.matrix_world @ Vector(corner) for corner in obj.bound_box]
    view.view_perspective, view.view_location = "PERSP", sum(corners, Vector()) / 8.0
    view.view_distance = 2.9 * max(obj.dimensions)
    view.view_rotation = Quaternion((0.75, 0.58, 0.19, 0.25))


def play_minute(one: FirstSession) -> Iterator[float]:
    scene = scenes.new_scene(one.name, FRAMES)
    obj = one.make(scene)
    scene.frame_set(1)
    for other in scene.objects:
        other.select_set(other == obj)
    bpy.context.view_layer.objects.active = obj
    set_view(obj)
    yield 1.0
    shot(f"first_{one.name}_0")
    spent = 0.0
    for number, command in enumerate(one.clicks):
        yield from call_menu_entry(PIN_TOP, begin="TOP") if command == PIN_TOP else click(command)
        began = time.monotonic()
        yield 0.01
        yield from wait_until(lambda: bpy.context.object and bpy.context.object.dampsim.enabled, 20, command)
        yield 0.1
        spent += time.monotonic() - began
        yield 0.7
        shot(f"first_{one.name}_{number + 1}")
    obj = bpy.context.object

    began, times = time.monotonic(), []
    yield from start_playback()
    for count in (1, VISIBLE_FRAMES, FRAMES):
        yield from wait_until(
            lambda count=count: verified_frames(obj) >= count, 180, f"{one.name} to play to frame {count}"
        )
        times.append(time.monotonic() - began)
    yield from stop_playback()
    scene.frame_set(one.frame)
    yield 1.0
    shot(f"first_{one.name}_9")
    picture(f"first_minute_{one.name}", *VIEW)

    frames = list(range(1, FRAMES + 1))
    shown = evaluated_frames(obj, frames)
    obj.dampsim.live = False
    found = measure_motion(shown, evaluated_frames(obj, frames))
    obj.dampsim.live = True
    one_frame, enough, whole = times
    print(
        f"window: {one.name}, {obj.dampsim.kind}: moves {spent + enough:.1f} s after the click (buttons {spent:.1f} s, "
        f"then frame 1 after {one_frame:.1f} s, {VISIBLE_FRAMES} after {enough:.1f} s, {FRAMES} after {whole:.1f} s); "
        f"by {found.moves:.1%} of its size, {found.lags:.1%} off its animation; seams {found.seam:.2%}, edges "
        f"{found.edge:.1%}",
        flush=True,
    )
    assert found.moves > MIN_MOTION, f"{one.name}: no visible motion"
    assert found.lags < MAX_LAG, f"{one.name} is thrown about"
    assert found.seam < MAX_SEAM_GAP, f"{one.name}: a seam opens"
    assert found.edge < MAX_EDGE_CHANGE, f"{one.name} is torn"


def bake_and_compare(obj: bpy.types.Object) -> Iterator[float]:
    """Bake the object and compare the bake with the live frames."""
    obj.dampsim.cache_folder = str(SHOTS / "first")
    bpy.context.scene.frame_set(1)
    played = evaluated_frames(obj, [10, 20])
    yield from click("bake()")
    yield from wait_until(lambda: progress().object_name == obj.name, 10, "Bake to start by a click")
    yield from wait_until(lambda: not progress().object_name, 120, "the bake to end")
    off = [abs(a - b).max() for (a, _), (b, _) in zip(played, evaluated_frames(obj, [10, 20]), strict=True)]
    # Twice the error bound of 0.1% of the size.
    assert max(off) < 2e-3 * max(obj.dimensions), off
    shot("first_baked")


def first_minute() -> Iterator[float]:
    sidebar()[1].spaces.active.clip_start = 1e-3
    yield from clear_scene()
    for one in MINUTES:
        yield from play_minute(one)
        if one.name == "belly":
            yield from bake_and_compare(bpy.context.object)


run(first_minute(), "first_minute")
