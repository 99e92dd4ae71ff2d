"""Window test with real events: dropped bodies land on a floor that a click adds, and on each other.

Everything is done by clicks and keys; the viewport draws the contacts.
The pictures are those of docs/tutorials/first-minute.md.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

import bpy
import numpy as np
from mathutils import Quaternion, Vector

sys.path.insert(0, str(Path(__file__).parent))
import scenes
from events import (
    clear_scene,
    click,
    picture,
    run,
    shot,
    sidebar,
    start_playback,
    stop_playback,
    verified_frames,
    wait_until,
)
from visible_motion import evaluated_frames

# Half a second of fall, one second to come to rest.
FRAMES = 40
# Invisible penetration, and largest gap of a body that rests on another one, in parts of the size.
MAX_DEPTH, MAX_GAP = 1e-3, 0.01
# Region with the middle of the viewport and the panel, in pixels from the window's upper left corner.
VIEW = (424, 84, 890, 640)


@dataclass(frozen=True)
class DropScene:
    """A scene with falling bodies. make: builds and returns the selected objects.  clicks: the buttons in order.

    frame: of the picture.  within: time limit of the playback, s.
    """

    name: str
    make: Callable[[], Sequence[bpy.types.Object]]
    clicks: Sequence[str]
    frame: int
    within: float


def jelly() -> Sequence[bpy.types.Object]:
    """A default UV sphere above the floor."""
    bpy.ops.mesh.primitive_uv_sphere_add(location=(0.0, 0.0, 2.5))
    bpy.context.object.data.shade_smooth()
    return [bpy.context.object]


def cube() -> Sequence[bpy.types.Object]:
    """The default cube of eight vertices, rotated and above the floor."""
    bpy.ops.mesh.primitive_cube_add(location=(0.0, 0.0, 3.0), rotation=(0.3, 0.2, 0.1))
    return [bpy.context.object]


def stack() -> Sequence[bpy.types.Object]:
    """Three flattened spheres that fall onto one another."""
    made = []
    for number in range(3):
        bpy.ops.mesh.primitive_uv_sphere_add(segments=24, ring_count=12, location=(0.0, 0.0, 1.3 + 1.5 * number))
        bpy.context.object.scale.z = 0.5
        bpy.ops.object.transform_apply(location=False, rotation=False)
        bpy.context.object.data.shade_smooth()
        made.append(bpy.context.object)
    return made


DROPS = (
    DropScene("jelly", jelly, ("add()", "floor()"), 19, 60.0),
    DropScene("cube", cube, ("add()", "floor()"), 19, 120.0),
    DropScene("stack", stack, ("add()", "together()", "floor()"), 30, 240.0),
)


def set_view(objects: Sequence[bpy.types.Object]) -> None:
    """Frame the objects and the ground next to the panel."""
    view = sidebar()[1].spaces.active.region_3d
    top = max((obj.matrix_world @ Vector(corner)).z for obj in objects for corner in obj.bound_box)
    view.view_perspective, view.view_location = "PERSP", (0.0, 0.0, 0.45 * top)
    view.view_distance = 2.4 * max(top, 3.0)
    view.view_rotation = Quaternion((0.75, 0.58, 0.19, 0.25))


def play_drop(one: DropScene) -> Iterator[float]:
    scene = scenes.new_scene(one.name, FRAMES)
    objects = one.make()
    scene.frame_set(1)
    for other in scene.objects:
        other.select_set(other in objects)
    bpy.context.view_layer.objects.active = objects[0]
    set_view(objects)
    yield 1.0
    for command in one.clicks:
        yield from click(command)
        yield 0.7
    assert all(obj.dampsim.enabled for obj in objects)
    floor = next(obj for obj in scene.objects if obj.dampsim_collider.plane)
    assert bpy.context.object == objects[0], "Add Floor has chosen another object"
    shot(f"contact_{one.name}_0")

    began = time.monotonic()
    yield from start_playback()
    yield from wait_until(lambda: verified_frames(objects[0]) >= FRAMES, one.within, f"{one.name} to play")
    spent = time.monotonic() - began
    yield from stop_playback()
    for obj in objects:
        obj.dampsim.show_contacts = True
    for frame in (8, one.frame, FRAMES):
        scene.frame_set(frame)
        yield 1.0
        shot(f"contact_{one.name}_{frame}")
        if frame == one.frame:
            picture(f"first_minute_{one.name}", *VIEW)
    yield 0.5

    lows, sizes = [], []
    for obj in objects:
        shown = np.array([points for points, _ in evaluated_frames(obj, list(range(1, FRAMES + 1)))])
        size = float(np.ptp(shown[0], axis=0).max())
        lows.append(shown[:, :, 2].min(axis=1) - floor.location.z)
        sizes.append(size)
        assert shown[0][:, 2].mean() - shown[-1][:, 2].mean() > 0.1 * size, f"{obj.name}: it does not fall"
    print(
        f"window: {one.name}: {FRAMES} frames in {spent:.1f} s; lowest {100.0 * min(lows[0]) / sizes[0]:.2f}% of its "
        f"size over the floor, {100.0 * lows[0][-1] / sizes[0]:.2f}% at the end",
        flush=True,
    )
    assert min(map(np.min, lows)) > -MAX_DEPTH * max(sizes), f"{one.name}: something is seen below the floor"
    assert lows[0][-1] < MAX_GAP * sizes[0], f"{one.name}: it does not lie on the floor"
    for low, above in pairwise(lows):
        assert above[-1] > low[-1] + 0.2 * sizes[0], f"{one.name}: one has gone through the other"


def contact() -> Iterator[float]:
    yield from clear_scene()
    for one in DROPS:
        yield from play_drop(one)


run(contact(), "contact")
