"""Compare DampSim with Blender's solvers on one mesh: python tests/benchmarks/bake.py [--contact] [--frames N] ...

A ball of about 10,000 vertices with a pinned lower third is shaken. With --contact, a wavy wall of about 10,000
triangles, a Collision object for all solvers, is moved into it. The solvers alternate frame by frame in one process;
the first frame is not counted. Only the ratios are meaningful, and no test depends on them.
"""

from __future__ import annotations

import argparse
import os
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests"))
import bpy  # noqa: E402
import numpy as np  # noqa: E402

import conftest  # noqa: E402, F401  (loads the checkout as the package dampsim)
import dampsim  # noqa: E402

TETS = 5000


def ball(scene: bpy.types.Scene, name: str) -> bpy.types.Object:
    bpy.context.window.scene = scene if bpy.context.window else None
    mesh = bpy.data.meshes.new(name)
    rings, around = 80, 128
    vertices = [(0.0, 0.0, 1.0)]
    for k in range(1, rings):
        a = np.pi * k / rings
        b = 2.0 * np.pi * np.arange(around) / around
        ring = np.stack([np.sin(a) * np.cos(b), np.sin(a) * np.sin(b), np.full(around, np.cos(a))], axis=1)
        vertices += [tuple(v) for v in ring]
    vertices.append((0.0, 0.0, -1.0))
    faces: list[tuple[int, ...]] = []
    for j in range(around):
        i = (j + 1) % around
        faces.append((0, 1 + j, 1 + i))
        for k in range(rings - 2):
            p = 1 + k * around
            faces.append((p + j, p + around + j, p + around + i, p + i))
        p = 1 + (rings - 2) * around
        faces.append((p + j, len(vertices) - 1, p + i))
    mesh.from_pydata(vertices, [], faces)
    obj = bpy.data.objects.new(name, mesh)
    scene.collection.objects.link(obj)
    pins = obj.vertex_groups.new(name="Pin")
    pins.add([v.index for v in mesh.vertices if v.co.z < -0.33], 1.0, "REPLACE")
    for frame in range(1, 200):
        obj.location.x = 0.15 * float(np.sin(0.4 * frame))
        obj.keyframe_insert("location", frame=frame)
    return obj


def wall(scene: bpy.types.Scene) -> None:
    """Add a wavy wall that indents the ball by a tenth of its size and retreats."""
    mesh = bpy.data.meshes.new("Wall")
    line = np.linspace(-1.4, 1.4, 71)
    y, z = (one.ravel() for one in np.meshgrid(line, line, indexing="ij"))
    x = 0.03 * np.sin(12.0 * y) * np.cos(12.0 * z)
    k = np.arange(71 * 71).reshape(71, 71)
    faces = np.stack([k[:-1, :-1], k[:-1, 1:], k[1:, 1:], k[1:, :-1]], axis=2).reshape(-1, 4)
    mesh.from_pydata(np.stack([x, y, z], axis=1), [], faces.tolist())
    obj = bpy.data.objects.new("Wall", mesh)
    scene.collection.objects.link(obj)
    obj.modifiers.new("Collision", "COLLISION")
    for frame in range(1, 200):
        obj.location.x = 1.3 - 0.25 * float(np.sin(0.13 * frame) ** 2)
        obj.keyframe_insert("location", frame=frame)


def scene_of(name: str, frames: int, contact: bool) -> bpy.types.Scene:
    scene = bpy.data.scenes.new(name)
    scene.frame_start, scene.frame_end = 1, frames
    if contact:
        wall(scene)
    return scene


def soft_body(frames: int, contact: bool) -> Iterator[None]:
    scene = scene_of("Soft Body", frames, contact)
    obj = ball(scene, "Soft Body")
    settings = obj.modifiers.new("Soft Body", "SOFT_BODY").settings
    settings.use_goal, settings.vertex_group_goal = True, "Pin"
    settings.goal_min, settings.goal_max, settings.goal_default = 0.0, 1.0, 1.0
    settings.use_edges, settings.pull, settings.push = True, 0.99, 0.99
    return play_frames(scene, obj, frames)


def cloth(frames: int, contact: bool) -> Iterator[None]:
    scene = scene_of("Cloth", frames, contact)
    obj = ball(scene, "Cloth")
    settings = obj.modifiers.new("Cloth", "CLOTH").settings
    settings.vertex_group_mass = "Pin"
    settings.use_internal_springs = True
    return play_frames(scene, obj, frames)


def play_frames(scene: bpy.types.Scene, obj: bpy.types.Object, frames: int) -> Iterator[None]:
    layer = scene.view_layers[0]
    for frame in range(1, frames + 1):
        scene.frame_set(frame)
        mesh = obj.evaluated_get(layer.depsgraph).data
        flat = np.empty(3 * len(mesh.vertices), dtype=np.float32)
        mesh.vertices.foreach_get("co", flat)
        assert np.isfinite(flat).all(), f"{obj.name} broke down at frame {frame}"
        yield


def bake_dampsim(frames: int, contact: bool, accuracy: str, collide: bool = True) -> Iterator[None]:
    from dampsim.dampsim_addon.jobs import bake as job

    name = f"DampSim {accuracy.lower()}" + ("" if collide else ", no contact")
    scene = scene_of(name, frames, contact)
    obj = ball(scene, name)
    group = obj.dampsim
    group.enabled, group.pin_group, group.resolution, group.accuracy = True, "Pin", TETS, accuracy
    group.stiffness, group.bounce, group.collide = 300.0, 0.0, collide
    group.cache_folder = tempfile.mkdtemp()
    began = time.perf_counter()
    for step in job.bake_object(scene, scene.view_layers[0], obj, True):
        if step.text == "Simulating":
            if step.completed == 1:
                print(f"  {name}: set-up {time.perf_counter() - began:.2f} s", flush=True)
            yield


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--frames", type=int, default=100)
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--contact", action="store_true", help="with a wall that is moved into the ball")
    options = parser.parse_args()
    dampsim.register()
    bpy.ops.wm.read_homefile(use_empty=True, use_factory_startup=True)
    makers: dict[str, Callable[[int, bool], Iterator[None]]] = {
        "DampSim, baking": lambda *what: bake_dampsim(*what, "BAKE"),
        "DampSim, preview": lambda *what: bake_dampsim(*what, "PREVIEW"),
        "Soft Body, edges 0.99": soft_body,
        "Cloth, internal springs": cloth,
    }
    if options.contact:
        makers["DampSim, baking, no contact"] = lambda *what: bake_dampsim(*what, "BAKE", collide=False)
    medians: dict[str, list[float]] = {name: [] for name in makers}
    for repeat in range(options.repeats):
        print(f"repeat {repeat + 1} of {options.repeats}", flush=True)
        running = {name: make(options.frames, options.contact) for name, make in makers.items()}
        for steps in running.values():
            next(steps)
        spent: dict[str, list[float]] = {name: [] for name in makers}
        for _ in range(1, options.frames):
            for name, steps in running.items():
                began = time.perf_counter()
                next(steps)
                spent[name].append(time.perf_counter() - began)
        for name, times in spent.items():
            medians[name].append(statistics.median(times))
            mean, longest = 1e3 * statistics.mean(times), 1e3 * max(times)
            print(f"  {name}: median {1e3 * medians[name][-1]:.1f}, mean {mean:.1f}, longest {longest:.0f} ms a frame")
    base = statistics.median(medians["DampSim, baking"])
    print(f"bpy {bpy.app.version_string}, {TETS} tets asked, {options.frames} frames, OPENBLAS_NUM_THREADS=1")
    for name, values in medians.items():
        middle = statistics.median(values)
        print(f"{name}: {1e3 * middle:.1f} ms a frame, {middle / base:.2f} times baking")


if __name__ == "__main__":
    main()
