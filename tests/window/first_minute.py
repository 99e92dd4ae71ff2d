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
from events import SHOTS, click, emptied, into_view, picture, progress, run, shell, shot, sidebar, until, verified
from looks import looks, watched

# Two swings of a third of a second, and the rest of 1.5 s to settle.
FRAMES = 36
# After half a second, a user sees that it moves.
ENOUGH = 12
# Visible motion, and unacceptable distance from the animation, in parts of the size.
SEEN, TORN = 0.01, 0.6
# Largest gap of a closed seam, and largest change of length of an intact edge, in parts of the size.
CLOSED, EDGE = 1e-3, 0.2
# Region with the middle of the viewport and the panel, in pixels from the window's upper left corner.
VIEW = (424, 84, 890, 640)


@dataclass(frozen=True)
class Minute:
    """A first session. make: builds the object.  clicks: the buttons until it is pinned.  frame: of the picture."""

    name: str
    make: Callable[[bpy.types.Scene], bpy.types.Object]
    clicks: Sequence[str]
    frame: int = 15


MINUTES = (
    Minute("suzanne", scenes.suzanne, ("add()", "pin_gradient()")),
    Minute("belly", scenes.belly, ("add()",)),
    Minute("tail", scenes.tail, ("add()",)),
    # Apply Mirror, then bake to a file, because Subdivision is above Armature.
    Minute("half_head", scenes.half_head, ("add()", 'mend(check="keys"', 'mend(check="shown"')),
    Minute("shirt", scenes.shirt, ("add()", "pin()")),
    Minute("linked", lambda scene: scenes.from_elsewhere(scene, SHOTS), ("local_add()", "pin_gradient()")),
    Minute("text", scenes.text, ("convert_add()", "pin_gradient()")),
    Minute("curve", scenes.curve, ("convert_add()", "pin_gradient()")),
    Minute("ear", scenes.ear, ("add()",)),
    Minute("big_belly", lambda scene: scenes.belly(scene, 3.0, "Big Belly"), ("add()",)),
)


def look(obj: bpy.types.Object) -> None:
    """Frame the object next to the panel, with space for its motion."""
    view = sidebar()[1].spaces.active.region_3d
    bpy.context.view_layer.update()
    corners = [obj.matrix_world @ Vector(corner) for corner in obj.bound_box]
    view.view_perspective, view.view_location = "PERSP", sum(corners, Vector()) / 8.0
    view.view_distance = 2.9 * max(obj.dimensions)
    view.view_rotation = Quaternion((0.75, 0.58, 0.19, 0.25))


def minute(one: Minute) -> Iterator[float]:
    scene = scenes.new_scene(one.name, FRAMES)
    obj = one.make(scene)
    scene.frame_set(1)
    for other in scene.objects:
        other.select_set(other == obj)
    bpy.context.view_layer.objects.active = obj
    look(obj)
    yield 1.0
    shot(f"first_{one.name}_0")
    spent = 0.0
    for number, command in enumerate(one.clicks):
        yield from click(command)
        began = time.monotonic()
        yield 0.01
        yield from until(lambda: bpy.context.object and bpy.context.object.dampsim.enabled, 20, command)
        yield 0.1
        spent += time.monotonic() - began
        yield 0.7
        shot(f"first_{one.name}_{number + 1}")
    obj = bpy.context.object

    into_view()
    began, times = time.monotonic(), []
    shell("xdotool", "key", "space")
    for count in (1, ENOUGH, FRAMES):
        yield from until(lambda count=count: verified(obj) >= count, 180, f"{one.name} to play to frame {count}")
        times.append(time.monotonic() - began)
    shell("xdotool", "key", "Escape")
    yield from until(lambda: not bpy.context.screen.is_animation_playing, 5, "ESC to stop the playback")
    scene.frame_set(one.frame)
    yield 1.0
    shot(f"first_{one.name}_9")
    picture(f"first_minute_{one.name}", *VIEW)

    frames = list(range(1, FRAMES + 1))
    shown = watched(obj, frames)
    obj.dampsim.live = False
    found = looks(shown, watched(obj, frames))
    obj.dampsim.live = True
    one_frame, enough, whole = times
    print(
        f"window: {one.name}, {obj.dampsim.kind}: moves {spent + enough:.1f} s after the click (buttons {spent:.1f} s, "
        f"then frame 1 after {one_frame:.1f} s, {ENOUGH} after {enough:.1f} s, {FRAMES} after {whole:.1f} s); by "
        f"{found.moves:.1%} of its size, {found.lags:.1%} off its animation; seams {found.seam:.2%}, edges "
        f"{found.edge:.1%}",
        flush=True,
    )
    assert found.moves > SEEN, f"{one.name}: no visible motion"
    assert found.lags < TORN, f"{one.name} is thrown about"
    assert found.seam < CLOSED, f"{one.name}: a seam opens"
    assert found.edge < EDGE, f"{one.name} is torn"


def baked(obj: bpy.types.Object) -> Iterator[float]:
    """Bake the object and compare the bake with the live frames."""
    obj.dampsim.cache_folder = str(SHOTS / "first")
    bpy.context.scene.frame_set(1)
    played = watched(obj, [10, 20])
    yield from click("bake()")
    yield from until(lambda: progress().object_name == obj.name, 10, "Bake to start by a click")
    yield from until(lambda: not progress().object_name, 120, "the bake to end")
    off = [abs(a - b).max() for (a, _), (b, _) in zip(played, watched(obj, [10, 20]), strict=True)]
    # Twice the error bound of 0.1% of the size.
    assert max(off) < 2e-3 * max(obj.dimensions), off
    shot("first_baked")


def first_minute() -> Iterator[float]:
    sidebar()[1].spaces.active.clip_start = 1e-3
    yield from emptied()
    for one in MINUTES:
        yield from minute(one)
        if one.name == "belly":
            yield from baked(bpy.context.object)


run(first_minute(), "first_minute")
