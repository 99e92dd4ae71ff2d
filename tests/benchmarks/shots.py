"""Compare cloth with Blender's Cloth on whole shots: python tests/benchmarks/shots.py [--shots NAME ...] [--frames N]

Each shot is built twice in one process, once with Blender's Cloth and once for DampSim. The solvers alternate frame by
frame. DampSim's time is that of a complete bake, of which the time before the first frame is printed separately as
preparation; Blender's time includes the evaluation of its colliders. All times are processor times of all threads.
No test depends on them. Stretch is the 99th percentile over all frames and all edges away from the pins, and the
largest one.

| shot | cloth | moved by |
|---|---|---|
| flag | 651 vertices, pinned along an edge | wind and turbulence |
| table | 625 vertices with self-collision | falls over a cylinder |
| cape | 713 vertices, pinned along the shoulders | a walking body of 6,000 vertices |
| gathered | the same with a cape in folds: its hem is 2.6 times as long as its pinned edge | the same body |
| shirt | about 2,900 vertices with sleeves and self-collision | a running body |
| skirt | 2,000 vertices with self-collision | walking legs |
| net | 121 vertices without faces, pinned around | a ball that sinks into it |
| sheet | 10,000 vertices, pinned along an edge | falls from horizontal |

The shot `hair` runs with DampSim alone, see hair.py in this folder.
"""

from __future__ import annotations

import argparse
import math
import os
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
ROOT = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT / "tests"), str(ROOT / "tests" / "core")]
import bpy  # noqa: E402
import hair  # noqa: E402
import numpy as np  # noqa: E402
from mathutils import Euler, Vector  # noqa: E402

import conftest  # noqa: E402, F401  (loads the checkout as the package dampsim)
import dampsim  # noqa: E402
from dampsim.core.bodies.fabrics import FABRICS  # noqa: E402

FPS = 24
Points = Callable[[], np.ndarray]
"""Function that returns the vertices (v, 3) of a frame, called outside of the timed section."""


def mesh_object(
    scene: bpy.types.Scene, name: str, points: np.ndarray, faces: list[tuple[int, ...]], edges: list[tuple[int, int]]
) -> bpy.types.Object:
    mesh = bpy.data.meshes.new(name)
    mesh.from_pydata(points.reshape(-1, 3).tolist(), edges, faces)
    obj = bpy.data.objects.new(name, mesh)
    scene.collection.objects.link(obj)
    return obj


def grid_faces(rows: int, columns: int, closed: bool = False) -> list[tuple[int, ...]]:
    """Return the faces of a grid of vertices, row by row; closed: whether the last column meets the first."""
    count = columns if closed else columns - 1
    return [
        (j * columns + i, j * columns + (i + 1) % columns, (j + 1) * columns + (i + 1) % columns, (j + 1) * columns + i)
        for j in range(rows - 1)
        for i in range(count)
    ]


def pin(obj: bpy.types.Object, is_pinned: np.ndarray) -> None:
    group = obj.vertex_groups.new(name="Pin")
    group.add([int(k) for k in np.flatnonzero(is_pinned)], 1.0, "REPLACE")


def vertices(obj: bpy.types.Object) -> np.ndarray:
    flat = np.empty(3 * len(obj.data.vertices), dtype=np.float32)
    obj.data.vertices.foreach_get("co", flat)
    return flat.reshape(-1, 3).astype(float)


def field(scene: bpy.types.Scene, kind: str, location: tuple[float, float, float], turn: tuple[float, float, float]):
    obj = bpy.data.objects.new(kind.title(), None)
    scene.collection.objects.link(obj)
    obj.location, obj.rotation_euler = location, turn
    with bpy.context.temp_override(
        scene=scene, view_layer=scene.view_layers[0], object=obj, active_object=obj, selected_objects=[obj]
    ):
        bpy.ops.object.forcefield_toggle()
    obj.field.type = kind
    return obj.field


def capsule(start: Vector, end: Vector, first: float, last: float, rows: int, around: int) -> tuple[np.ndarray, list]:
    """Return points (v, 3) and faces of a closed capsule with the radii first and last at its ends."""
    along = (end - start).normalized()
    side = along.orthogonal().normalized()
    other = along.cross(side)
    points, turn = [start - first * along], 2.0 * math.pi / around
    for t in np.linspace(0.0, 1.0, rows).tolist():
        # Hemispheres take a fifth of the rows at each end.
        if t < 0.2:
            angle = 0.5 * math.pi * (t + 0.01) / 0.21
            centre, radius = start - first * math.cos(angle) * along, first * math.sin(angle)
        elif t > 0.8:
            angle = 0.5 * math.pi * (1.01 - t) / 0.21
            centre, radius = end + last * math.cos(angle) * along, last * math.sin(angle)
        else:
            part = (t - 0.2) / 0.6
            centre, radius = start.lerp(end, part), first + part * (last - first)
        points += [centre + radius * (math.cos(turn * k) * side + math.sin(turn * k) * other) for k in range(around)]
    points.append(end + last * along)
    faces = [tuple(1 + k for k in face) for face in grid_faces(rows, around, True)]
    faces += [(0, 1 + (k + 1) % around, 1 + k) for k in range(around)]
    base = 1 + (rows - 1) * around
    faces += [(len(points) - 1, base + k, base + (k + 1) % around) for k in range(around)]
    return np.array(points), faces


@dataclass(frozen=True)
class Limb:
    """Capsule of a body, in m. bone: its name; swing: its largest turn about the y axis in rad, at `pivot`."""

    bone: str
    start: Vector
    end: Vector
    radii: tuple[float, float]
    swing: float


def limbs(arms_out: float) -> list[Limb]:
    """Return the capsules of a person who faces +x. arms_out: angle of the arms from hanging, rad."""
    found = [
        Limb("chest", Vector((0, 0, 1.0)), Vector((0, 0, 1.38)), (0.15, 0.16), 0.0),
        Limb("head", Vector((0, 0, 1.56)), Vector((0, 0, 1.70)), (0.09, 0.11), 0.0),
    ]
    for side, name in ((-1, "R"), (1, "L")):
        out = Vector((0, side * math.sin(arms_out), -math.cos(arms_out)))
        shoulder, hip = Vector((0, side * 0.19, 1.42)), Vector((0, side * 0.095, 0.92))
        found.append(Limb(f"arm.{name}", shoulder, shoulder + 0.55 * out, (0.065, 0.045), side * 0.5))
        found.append(Limb(f"leg.{name}", hip, hip + Vector((0, 0, -0.82)), (0.088, 0.055), -side * 0.45))
    return found


def person(scene: bpy.types.Scene, arms_out: float, frames_per_step: float, pace: float, count: int = 6000):
    """Add a walking person with an armature; pace in m/s. Return the armature."""
    parts = limbs(arms_out)
    around = 32
    rows = count // (len(parts) * around)
    points, faces, groups, start = [], [], {}, 0
    for one in parts:
        these, own = capsule(one.start, one.end, *one.radii, rows, around)
        faces += [tuple(start + k for k in face) for face in own]
        groups[one.bone] = range(start, start + len(these))
        points.append(these)
        start += len(these)
    body = mesh_object(scene, "Body", np.concatenate(points), faces, [])
    rig = bpy.data.objects.new("Rig", bpy.data.armatures.new("Rig"))
    scene.collection.objects.link(rig)
    with bpy.context.temp_override(
        scene=scene, view_layer=scene.view_layers[0], object=rig, active_object=rig, selected_objects=[rig]
    ):
        scene.view_layers[0].objects.active = rig
        bpy.ops.object.mode_set(mode="EDIT")
        for one in parts:
            bone = rig.data.edit_bones.new(one.bone)
            bone.head, bone.tail = one.start, one.end
        bpy.ops.object.mode_set(mode="OBJECT")
    for one in parts:
        body.vertex_groups.new(name=one.bone).add(list(groups[one.bone]), 1.0, "REPLACE")
        bone = rig.pose.bones[one.bone]
        bone.rotation_mode = "XYZ"
        axis = rig.data.bones[one.bone].matrix_local.to_3x3().inverted() @ Vector((0, 1, 0))
        for frame in range(1, scene.frame_end + 1):
            moved = min(max((frame - 8) / 8.0, 0.0), 1.0)
            angle = moved * one.swing * math.sin(math.pi * (frame - 8) / frames_per_step)
            bone.rotation_euler = Euler(angle * axis)
            bone.keyframe_insert("rotation_euler", frame=frame)
    for frame in range(1, scene.frame_end + 1):
        moved = max(frame - 8, 0)
        rig.location = (pace * (moved - 8.0 * (1.0 - math.exp(-moved / 8.0))) / FPS, 0.0, 0.0)
        rig.keyframe_insert("location", frame=frame)
    body.parent = rig
    body.modifiers.new("Armature", "ARMATURE").object = rig
    body.modifiers.new("Collision", "COLLISION")
    return rig


def flag(scene: bpy.types.Scene) -> bpy.types.Object:
    x, z = np.meshgrid(np.linspace(0.0, 1.5, 31), np.linspace(1.0, 2.0, 21))
    obj = mesh_object(scene, "Flag", np.stack([x, 0.0 * x, z], axis=2), grid_faces(21, 31), [])
    pin(obj, vertices(obj)[:, 0] < 1e-6)
    wind = field(scene, "WIND", (-1.5, -0.6, 1.5), (0.0, 0.5 * math.pi, 0.35))
    wind.strength, wind.flow, wind.seed = 12.0, 1.0, 1
    whirls = field(scene, "TURBULENCE", (0.0, 0.0, 1.5), (0.0, 0.0, 0.0))
    whirls.strength, whirls.size, whirls.flow, whirls.seed = 8.0, 0.6, 0.0, 2
    return obj


def table(scene: bpy.types.Scene) -> bpy.types.Object:
    rows, around = 9, 48
    angle = 2.0 * np.pi * np.arange(around) / around
    rings = [
        np.stack([0.3 * np.cos(angle), 0.3 * np.sin(angle), np.full(around, z)], axis=1)
        for z in np.linspace(0.0, 0.5, rows)
    ]
    caps = [tuple(reversed(range(around))), tuple((rows - 1) * around + k for k in range(around))]
    top = mesh_object(scene, "Table", np.concatenate(rings), [*grid_faces(rows, around, True), *caps], [])
    top.modifiers.new("Collision", "COLLISION")
    x, y = np.meshgrid(np.linspace(-0.5, 0.5, 25), np.linspace(-0.5, 0.5, 25))
    return mesh_object(scene, "Tablecloth", np.stack([x, y, np.full_like(x, 0.53)], axis=2), grid_faces(25, 25), [])


def worn(obj: bpy.types.Object, rig: bpy.types.Object, bone: str) -> bpy.types.Object:
    """Let a garment follow a bone before it is simulated."""
    obj.vertex_groups.new(name=bone).add([one.index for one in obj.data.vertices], 1.0, "REPLACE")
    obj.parent = rig
    obj.modifiers.new("Armature", "ARMATURE").object = rig
    return obj


def cape(scene: bpy.types.Scene) -> bpy.types.Object:
    rig = person(scene, 0.25, 12.0, 1.4)
    down, across = np.meshgrid(np.linspace(0.0, 1.0, 31), np.linspace(-1.0, 1.0, 23), indexing="ij")
    deep, wide, turn = 0.18 + 0.15 * down, 0.30 + 0.16 * down, math.pi + 1.4 * across
    pleats = 1.0 + 0.05 * down * np.cos(7.0 * math.pi * across)
    points = np.stack([deep * pleats * np.cos(turn), wide * pleats * np.sin(turn), 1.46 - 1.0 * down], axis=2)
    obj = mesh_object(scene, "Cape", points, grid_faces(31, 23), [])
    pin(obj, np.arange(31 * 23) < 23)
    return worn(obj, rig, "chest")


def gathered(scene: bpy.types.Scene) -> bpy.types.Object:
    """Build a cape that is gathered along the shoulders. Its hem is 2.6 times as long as its pinned edge."""
    rig = person(scene, 0.25, 12.0, 1.4)
    rows, columns = 23, 31
    down, across = np.meshgrid(np.linspace(0.0, 1.0, rows), np.linspace(-1.0, 1.0, columns), indexing="ij")
    fold = 1.0 - np.cos(5.0 * math.pi * (across + 1.0) + 0.9 * np.sin(2.1 * (across + 1.0)))
    out = 0.09 * (0.2 + 0.8 * down) * (1.0 + 0.35 * np.cos(3.3 * across + 0.6)) * fold
    deep, wide, turn = 0.18 + 0.08 * down + out, 0.31 + 0.13 * down + out, math.pi + 1.4 * across
    points = np.stack([deep * np.cos(turn), wide * np.sin(turn), 1.46 - 1.0 * down], axis=2)
    obj = mesh_object(scene, "Cape", points, grid_faces(rows, columns), [])
    pin(obj, np.arange(rows * columns) < columns)
    return worn(obj, rig, "chest")


def skirt(scene: bpy.types.Scene) -> bpy.types.Object:
    rig = person(scene, 0.6, 12.0, 1.4)
    rows, around = 25, 80
    down, turn = np.meshgrid(np.linspace(0.0, 1.0, rows), 2.0 * np.pi * np.arange(around) / around, indexing="ij")
    wide = (0.20 + 0.20 * down) * (1.0 + 0.08 * down * np.cos(9.0 * turn))
    points = np.stack([wide * np.cos(turn), 1.1 * wide * np.sin(turn), 1.04 - 0.55 * down], axis=2)
    obj = mesh_object(scene, "Skirt", points, grid_faces(rows, around, True), [])
    pin(obj, np.arange(rows * around) < around)
    return worn(obj, rig, "chest")


def shirt(scene: bpy.types.Scene) -> bpy.types.Object:
    import bmesh  # available only after bpy

    arms_out = 1.0
    rig = person(scene, arms_out, 6.0, 4.0)
    hull, faces = capsule(Vector((0, 0, 0.80)), Vector((0, 0, 1.38)), 0.20, 0.19, 24, 32)
    parts, start = [(hull, faces)], [0]
    for one in limbs(arms_out):
        if one.bone.startswith("arm"):
            parts.append(capsule(one.start - 0.1 * (one.end - one.start), one.end, 0.115, 0.105, 24, 32))
    start = np.cumsum([0, *(len(points) for points, _ in parts)])
    joined = [
        tuple(int(first) + k for k in face) for first, (_, own) in zip(start, parts, strict=False) for face in own
    ]
    obj = mesh_object(scene, "Shirt", np.concatenate([points for points, _ in parts]), joined, [])
    even = obj.modifiers.new("Even", "REMESH")
    even.mode, even.voxel_size = "VOXEL", 0.027
    scene.view_layers[0].update()
    obj.data = bpy.data.meshes.new_from_object(obj.evaluated_get(scene.view_layers[0].depsgraph))
    obj.modifiers.clear()
    cuts = [(Vector((0, 0, 1.52)), Vector((0, 0, 1))), (Vector((0, 0, 0.72)), Vector((0, 0, -1)))]
    for side in (-1, 1):
        out = Vector((0, side * math.sin(arms_out), -math.cos(arms_out)))
        cuts.append((Vector((0, side * 0.19, 1.42)) + 0.36 * out, out))
    made = bmesh.new()
    made.from_mesh(obj.data)
    for place, out in cuts:
        near = [face for face in made.faces if abs(out.y) < 0.5 or out.y * face.calc_center_median().y > 0.2]
        some = list(dict.fromkeys(part for face in near for part in (face, *face.edges, *face.verts)))
        bmesh.ops.bisect_plane(made, geom=some, plane_co=place, plane_no=out, clear_outer=True)
    bmesh.ops.remove_doubles(made, verts=[one for one in made.verts if one.is_boundary], dist=0.012)
    made.to_mesh(obj.data)
    made.free()
    pin(obj, vertices(obj)[:, 2] > 1.47)
    return worn(obj, rig, "chest")


def net(scene: bpy.types.Scene) -> bpy.types.Object:
    x, y = np.meshgrid(np.linspace(-0.5, 0.5, 11), np.linspace(-0.5, 0.5, 11))
    edges = [(11 * j + i, 11 * j + i + 1) for j in range(11) for i in range(10)]
    edges += [(11 * j + i, 11 * j + i + 11) for j in range(10) for i in range(11)]
    obj = mesh_object(scene, "Net", np.stack([x, y, np.full_like(x, 1.0)], axis=2), [], edges)
    pin(obj, np.maximum(np.abs(x), np.abs(y)).ravel() > 0.499)
    points, faces = capsule(Vector((0, 0, -1e-3)), Vector((0, 0, 1e-3)), 0.2, 0.2, 24, 32)
    ball = mesh_object(scene, "Ball", points, faces, [])
    for frame in range(1, scene.frame_end + 1):
        ball.location = (0.0, 0.0, 1.0 + max(0.25 - 0.02 * frame, -0.05))
        ball.keyframe_insert("location", frame=frame)
    ball.modifiers.new("Collision", "COLLISION")
    return obj


def sheet(scene: bpy.types.Scene) -> bpy.types.Object:
    y, x = np.meshgrid(np.linspace(-0.5, 0.5, 100), np.linspace(0.0, 1.0, 100), indexing="ij")
    obj = mesh_object(scene, "Sheet", np.stack([x, y, np.full_like(x, 1.2)], axis=2), grid_faces(100, 100), [])
    pin(obj, vertices(obj)[:, 0] < 1e-6)
    return obj


@dataclass(frozen=True)
class Shot:
    """A shot. build: adds its objects to a scene and returns the simulated one. kind, air: its settings in DampSim."""

    build: Callable[[bpy.types.Scene], bpy.types.Object]
    self_collision: bool = False
    kind: str = "CLOTH"
    air: float = 0.0


SHOTS = {
    "flag": Shot(flag, air=1.0),
    "table": Shot(table, True),
    "cape": Shot(cape, True, air=1.0),
    "gathered": Shot(gathered, True, air=1.0),
    "shirt": Shot(shirt, True),
    "skirt": Shot(skirt, True),
    "net": Shot(net, kind="SPRINGS"),
    "sheet": Shot(sheet),
}


def build(name: str, frames: int) -> tuple[bpy.types.Scene, bpy.types.Object]:
    scene = bpy.data.scenes.new(name)
    scene.frame_start, scene.frame_end, scene.render.fps = 1, frames, FPS
    return scene, SHOTS[name].build(scene)


def evaluated(scene: bpy.types.Scene, obj: bpy.types.Object) -> np.ndarray:
    one = obj.evaluated_get(scene.view_layers[0].depsgraph)
    flat = np.empty(3 * len(one.data.vertices), dtype=np.float32)
    one.data.vertices.foreach_get("co", flat)
    return flat.reshape(-1, 3).astype(float)


def blender_object(name: str, frames: int) -> tuple[bpy.types.Scene, bpy.types.Object]:
    """Build a shot for Blender's Cloth and return its scene and its simulated object."""
    scene, obj = build(name, frames)
    cloth = obj.modifiers.new("Cloth", "CLOTH")
    if "Pin" in obj.vertex_groups:
        cloth.settings.vertex_group_mass = "Pin"
    cloth.collision_settings.use_self_collision = SHOTS[name].self_collision
    return scene, obj


def blender_frames(name: str, frames: int) -> Iterator[Points]:
    scene, obj = blender_object(name, frames)
    for frame in range(1, frames + 1):
        scene.frame_set(frame)
        points = evaluated(scene, obj)
        yield lambda points=points: points


def dampsim_object(name: str, frames: int) -> tuple[bpy.types.Scene, bpy.types.Object]:
    """Build a shot for DampSim and return its scene and its simulated object."""
    scene, obj = build(name, frames)
    group = obj.dampsim
    group.enabled, group.kind, group.start_settled = True, SHOTS[name].kind, False
    if "Pin" in obj.vertex_groups:
        group.pin_group = "Pin"
    if SHOTS[name].kind == "CLOTH":
        for key, value in FABRICS["Cotton"].settings.items():
            setattr(group, key, value)
    group.air = SHOTS[name].air
    group.touch_self, group.detail, group.cache_folder = SHOTS[name].self_collision, 200000, tempfile.mkdtemp()
    return scene, obj


def dampsim_frames(name: str, frames: int) -> Iterator[Points]:
    from dampsim.dampsim_addon.jobs import bake as job
    from dampsim.dampsim_addon.model.caches import frame_cache

    scene, obj = dampsim_object(name, frames)
    for step in job.bake_object(scene, scene.view_layers[0], obj, True):
        if step.text == "Simulating":
            yield lambda number=step.completed: frame_cache(obj).read_shape(number, obj.name)


def free_edges(name: str) -> tuple[np.ndarray, np.ndarray]:
    """Return the edges (e, 2) of a shot away from its pins, and their rest lengths (e,), m."""
    _, obj = build(name, 1)
    ends = np.empty(2 * len(obj.data.edges), dtype=np.int32)
    obj.data.edges.foreach_get("vertices", ends)
    index = obj.vertex_groups["Pin"].index if "Pin" in obj.vertex_groups else -1
    is_pinned = np.array([any(one.group == index for one in each.groups) for each in obj.data.vertices])
    edges = ends.reshape(-1, 2)
    edges = edges[~is_pinned[edges].any(axis=1)]
    return edges, edge_lengths(vertices(obj), edges)


def edge_lengths(points: np.ndarray, edges: np.ndarray) -> np.ndarray:
    return np.asarray(np.linalg.norm(points[edges[:, 0]] - points[edges[:, 1]], axis=1))


def run(name: str, frames: int, solvers: list[str]) -> None:
    """Run a shot with all solvers in turns, and print their times and the stretch of edges away from pins."""
    makers = {"blender": blender_frames, "dampsim": dampsim_frames}
    edges, lengths = free_edges(name)
    stretch: dict[str, list[np.ndarray]] = {one: [] for one in solvers}
    running = {one: makers[one](name, frames) for one in solvers}
    spent: dict[str, list[float]] = {one: [] for one in solvers}
    last: dict[str, np.ndarray] = {}
    moved: dict[str, list[float]] = {one: [] for one in solvers}
    for frame in range(frames):
        for one in solvers:
            began = time.process_time()
            points = next(running[one])
            spent[one].append(time.process_time() - began)
            now = np.asarray(points())
            if frame:
                moved[one].append(float(np.linalg.norm(now - last[one], axis=1).mean()))
            last[one] = now
            stretch[one].append(edge_lengths(now, edges) / lengths - 1.0)
    for one in solvers:
        for _ in running[one]:
            pass
        times = spent[one][1:]
        print(
            f"{name:8} {one:8} {len(last[one]):6} vertices: preparation {spent[one][0]:6.2f} s, "
            f"mean {1e3 * statistics.mean(times):7.1f} ms a frame, median {1e3 * statistics.median(times):7.1f}, "
            f"longest {1e3 * max(times):7.1f}, motion {1e3 * statistics.mean(moved[one]):5.1f} mm a frame, "
            f"stretch {100.0 * np.quantile(stretch[one], 0.99):.2f}%, largest {100.0 * np.max(stretch[one]):.1f}%",
            flush=True,
        )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--shots", nargs="+", choices=[*SHOTS, "hair"], default=[*SHOTS, "hair"])
    parser.add_argument("--frames", type=int, default=50)
    parser.add_argument("--solvers", nargs="+", choices=["blender", "dampsim"], default=["blender", "dampsim"])
    options = parser.parse_args()
    dampsim.register()
    bpy.ops.wm.read_homefile(use_empty=True, use_factory_startup=True)
    for name in options.shots:
        if name == "hair":
            hair.run(options.frames)
        else:
            run(name, options.frames, options.solvers)


if __name__ == "__main__":
    main()
