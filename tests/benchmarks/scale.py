"""Cost of DampSim in large files: python tests/benchmarks/scale.py [--objects N] [--frames N]

The scene has many objects, of which none or ten are simulated. DampSim's handlers are timed, and a redraw of the panels
with few and many cached frames. No test depends on these times: tests/addon/test_large_files.py counts lines instead.
"""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
ROOT = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT / "tests"), str(ROOT / "tests/addon")]
import bpy  # noqa: E402
import numpy as np  # noqa: E402

import conftest  # noqa: E402, F401  (loads the checkout as the package dampsim)
import dampsim  # noqa: E402

REPEATS = 30
EVENTS = {
    "a change of frame": ("frame_change_pre", "frame_change_post"),
    "an edit": ("depsgraph_update_post",),
    "undo": ("undo_pre", "undo_post"),
}


def median_seconds(act: Callable[[], object]) -> float:
    act()
    found = []
    for _ in range(REPEATS):
        began = time.perf_counter()
        act()
        found.append(time.perf_counter() - began)
    return float(np.median(found))


def call_handlers(*names: str) -> Callable[[], None]:
    """Return a function that calls DampSim's handlers of the named lists."""
    scene, depsgraph = bpy.context.scene, bpy.context.evaluated_depsgraph_get()
    there = [handler for name in names for handler in getattr(bpy.app.handlers, name)]
    ours = [handler for handler in there if handler.__module__.startswith("dampsim")]

    def run() -> None:
        for handler in ours:
            handler(scene, depsgraph)

    return run


def loop_over_objects() -> None:
    """Loop over all objects of the scene, as a reference."""
    [obj for obj in bpy.context.scene.objects if obj.type == "MESH" and obj.dampsim.enabled]


def build(objects: int, ours: int, grouped: bool) -> list[bpy.types.Object]:
    bpy.ops.wm.read_homefile(use_empty=True, use_factory_startup=True)
    scene, mesh, found = bpy.context.scene, bpy.data.meshes.new("Crowd"), []
    for _ in range(ours):
        bpy.ops.mesh.primitive_cube_add()
        bpy.ops.dampsim.add()
        found.append(bpy.context.object)
        # Without the simulation itself.
        found[-1].dampsim.live = False
    for place in range(objects):
        obj = bpy.data.objects.new(f"Crowd{place:05d}", mesh if place % 2 else None)
        scene.collection.objects.link(obj)
    if grouped:
        from dampsim.dampsim_addon.model.groups import join_group

        join_group(found)
    bpy.context.view_layer.update()
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--objects", type=int, default=20_000)
    parser.add_argument("--frames", type=int, default=100_000)
    options = parser.parse_args()
    dampsim.register()
    from test_drawing import redraw

    from dampsim.dampsim_addon import live
    from dampsim.dampsim_addon.model.cache_status import refresh_status
    from dampsim.dampsim_addon.model.caches import frame_cache

    def load(name: str) -> object:
        return sys.modules[f"dampsim.{name}"]

    for ours, together in ((0, False), (10, False), (10, True)):
        build(options.objects, ours, together)
        live.install()
        print(f"{options.objects} objects, {ours} simulated{' together' if together else ''}")
        whole = median_seconds(loop_over_objects)
        for what, names in EVENTS.items():
            took = median_seconds(call_handlers(*names))
            print(f"  {what:16s} {1e3 * took:6.2f} ms, {took / whole:.2f} times asking each object")
        live.uninstall()
    obj = build(options.objects, 10, True)[0]
    with tempfile.TemporaryDirectory() as folder:
        obj.dampsim.cache_folder, obj.dampsim.cache_id = folder, "0123456789abcdef"
        place = frame_cache(obj).folder
        place.mkdir(parents=True)
        bare = median_seconds(lambda: redraw(load))
        for frame in range(options.frames):
            (place / f"frame_{frame:06d}.frame").touch()
        began = time.perf_counter()
        refresh_status(obj)
        print(f"{options.frames} cached frames: {1e3 * (time.perf_counter() - began):.0f} ms to look once")
        took = median_seconds(lambda: redraw(load))
        print(f"  a redraw of all panels {1e3 * took:.2f} ms, {took / bare:.2f} times one without frames")
    dampsim.unregister()


if __name__ == "__main__":
    main()
