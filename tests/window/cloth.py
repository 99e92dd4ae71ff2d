"""Window test with real events: the first minutes with cloth, by clicks and keys only.

A tablecloth falls over a ball, and a flag with a pinned hoist falls into its own folds. Both play, come to rest and
intersect nothing.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import bpy
import numpy as np
from mathutils import Quaternion

sys.path.insert(0, str(Path(__file__).parent))
import scenes
from events import clear_scene, click, run, shot, sidebar, start_playback, stop_playback, verified_frames, wait_until
from visible_motion import Array, evaluated_frames

# Invisible penetration and motion per frame at rest, in parts of the size; largest strain of an edge.
MAX_DEPTH, MAX_REST_MOTION, MAX_STRAIN = 1e-3, 1e-3, 0.05
# Settle in frames: Add chooses more for cloth of this size, which would have to be played for longer.
SETTLE = 24.0
# Radius of the ball at its vertices, m; its edges lie deeper.
RADIUS = 0.5


@dataclass(frozen=True)
class ClothScene:
    """A scene with cloth. make: builds objects; the first one is active, and all are selected after the first click.

    clicks: the buttons in order.  itself: whether self-contact is on.
    """

    name: str
    make: Callable[[], Sequence[bpy.types.Object]]
    clicks: Sequence[str]
    frames: int
    itself: bool = False


def tablecloth() -> Sequence[bpy.types.Object]:
    bpy.ops.mesh.primitive_uv_sphere_add(radius=RADIUS, segments=48, ring_count=24, location=(0.0, 0.0, 0.5))
    ball = bpy.context.object
    bpy.ops.mesh.primitive_grid_add(x_subdivisions=20, y_subdivisions=20, size=2.0, location=(0.0, 0.0, 1.2))
    return [bpy.context.object, ball]


def flag() -> Sequence[bpy.types.Object]:
    """An upright flag whose hoist is selected, to be pinned."""
    bpy.ops.mesh.primitive_grid_add(x_subdivisions=18, y_subdivisions=12, size=1.0, rotation=(1.5708, 0.0, 0.0))
    obj = bpy.context.object
    obj.scale = (1.2, 0.8, 1.0)
    bpy.ops.object.transform_apply(location=False, rotation=True, scale=True)
    mesh = obj.data
    for one in (mesh.polygons, mesh.edges):
        one.foreach_set("select", np.zeros(len(one), dtype=bool))
    left = min(vertex.co.x for vertex in mesh.vertices)
    for vertex in mesh.vertices:
        vertex.select = vertex.co.x < left + 1e-4
    return [obj]


CLOTHS = (
    # Folds may still slip open after three times Settle. The order of the faces of Blender's sphere differs from run to
    # run, and with it the folds.
    ClothScene("tablecloth", tablecloth, ("add()", "collider()"), 96),
    ClothScene("flag", flag, ("add()", "pin()"), 108, True),
)


def play_cloth(one: ClothScene) -> Iterator[float]:
    scene = scenes.new_scene(one.name, one.frames)
    objects = one.make()
    scene.frame_set(1)
    obj = objects[0]
    for other in scene.objects:
        other.select_set(other == obj)
    bpy.context.view_layer.objects.active = obj
    view = sidebar()[1].spaces.active.region_3d
    view.view_perspective, view.view_location = "PERSP", (0.0, 0.0, 0.3 if len(objects) > 1 else 0.0)
    view.view_distance, view.view_rotation = 5.5 if len(objects) > 1 else 4.0, Quaternion((0.75, 0.58, 0.19, 0.25))
    yield 1.0
    for number, command in enumerate(one.clicks):
        if number:
            for other in objects:
                other.select_set(True)
            yield 0.5
        yield from click(command)
        yield 0.7
    assert obj.dampsim.enabled
    assert obj.dampsim.kind == "CLOTH", obj.dampsim.kind
    # Same as its checkboxes in the panel.
    obj.dampsim.touch_self = one.itself
    obj.dampsim.start_settled = False
    obj.dampsim.settle = SETTLE
    shot(f"cloth_{one.name}_0")

    began = time.monotonic()
    yield from start_playback()
    yield from wait_until(lambda: verified_frames(obj) >= one.frames, 400, f"{one.name} to play")
    spent = time.monotonic() - began
    yield from stop_playback()
    for frame in (12, one.frames // 2, one.frames):
        scene.frame_set(frame)
        yield 1.0
        shot(f"cloth_{one.name}_{frame}")
    shown = evaluated_frames(obj, list(range(1, one.frames + 1)))
    points, edges = np.array([there for there, _ in shown]), shown[0][1]
    size = float(np.ptp(points[0], axis=0).max())
    lengths = np.linalg.norm(points[:, edges[:, 0]] - points[:, edges[:, 1]], axis=2)
    longest = float((lengths / lengths[0]).max()) - 1.0
    late = float(np.linalg.norm(points[-1] - points[-2], axis=1).max()) / size
    print(
        f"window: {one.name}: {len(points[0])} vertices, {one.frames} frames in {spent:.1f} s; edges at most "
        f"{longest:.1%} longer; moves by {late:.2%} of its size in the last frame",
        flush=True,
    )
    assert np.linalg.norm(points[-1] - points[0], axis=1).max() > 0.2 * size, f"{one.name}: it does not fall"
    assert longest < MAX_STRAIN, f"{one.name}: it is stretched"
    assert late < MAX_REST_MOTION, f"{one.name}: it does not rest"
    if len(objects) > 1:
        low = largest_depth(points, np.array(objects[1].matrix_world.translation))
        assert low < MAX_DEPTH * size, f"{one.name}: something is seen within the ball"


def largest_depth(points: Array, middle: Array) -> float:
    """Return the largest depth of a vertex in a ball of RADIUS, m."""
    return float(RADIUS - np.linalg.norm(points - middle, axis=2).min())


def cloth() -> Iterator[float]:
    yield from clear_scene()
    for one in CLOTHS:
        yield from play_cloth(one)


run(cloth(), "cloth")
