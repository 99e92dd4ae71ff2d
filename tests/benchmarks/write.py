"""Cost of writing a long bake of many vertices: python tests/benchmarks/write.py [--vertices N] [--frames N]

A synthetic swing of a large grid is cached frame by frame, as by a bake. Then each target is written in a separate
process, to measure its peak memory. No test depends on this.
"""

from __future__ import annotations

import argparse
import os
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests"))
import bpy  # noqa: E402
import numpy as np  # noqa: E402

import conftest  # noqa: E402, F401  (loads the checkout as the package dampsim)
import dampsim  # noqa: E402


def swing(vertices: np.ndarray, frame: int) -> np.ndarray:
    """Return the vertices in a large decaying swing with bends that grow towards the top."""
    height = (vertices[:, 2:] - vertices[:, 2].min()) / np.ptp(vertices[:, 2])
    moves = np.zeros_like(vertices)
    for k in range(1, 41):
        direction = np.array([np.sin(k), np.cos(1.7 * k), 0.3 * np.sin(2.0 * k)])
        strength = 0.5 / k**1.5 * np.exp(-0.02 * k * frame) * np.cos(0.23 * k * frame + k)
        moves += strength * np.sin(k * np.pi * height / 2.0 + 0.3 * k * vertices[:, :1]) * direction
    return vertices + moves


def measure(name: str, vertices: int, frames: int) -> None:
    from dampsim.core.frames.cache import FrameCache
    from dampsim.core.frames.frame import Frame
    from dampsim.core.system.state import State
    from dampsim.dampsim_addon.blender.sampler import Sampler
    from dampsim.dampsim_addon.jobs.write import max_error
    from dampsim.dampsim_addon.targets import Shot, get_target

    dampsim.register()
    bpy.ops.wm.read_homefile(use_empty=True, use_factory_startup=True)
    side = round(np.sqrt(vertices))
    bpy.ops.mesh.primitive_grid_add(x_subdivisions=side - 1, y_subdivisions=side - 1)
    obj, scene = bpy.context.object, bpy.context.scene
    obj.rotation_euler.x = 1.2
    bpy.context.view_layer.update()
    scene.frame_start, scene.frame_end = 1, frames
    obj.dampsim.enabled, obj.dampsim.target = True, name
    with tempfile.TemporaryDirectory() as folder, Sampler(scene, bpy.context.view_layer, obj) as sampler:
        cache = FrameCache(Path(folder) / "cache", obj.name)
        cache.start({})
        rest = sampler.world_positions()
        few = rest[:10]
        for number in range(1, frames + 1):
            state = State(number / 24.0, few, 0.0 * few, 0.0 * few)
            cache.append(Frame(number, state, {obj.name: swing(rest, number)}, {obj.name: ""}, 0))
        size = float(np.linalg.norm(np.ptp(rest, axis=0)))
        kind = get_target(name)
        shot = Shot(sampler, cache, list(range(1, frames + 1)), cache.folder, 1e-3 * size)
        before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        times = [time.perf_counter()]
        record = _run(kind.collect(shot))
        times.append(time.perf_counter())
        fitted = _run(kind.compress(shot, record))
        times.append(time.perf_counter())
        cost = kind.write(shot, fitted)
        times.append(time.perf_counter())
        error = _run(max_error(shot))
        times.append(time.perf_counter())
        read, fit, store, check = np.diff(times)
        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024.0
        print(
            f"{name}: {len(rest)} vertices, {frames} frames: read {read:.1f} s, fit {fit:.1f} s, store {store:.1f} s, "
            f"measure {check:.1f} s; {cost.keys} keys, {cost.size / 1e6:.1f} MB, error {100.0 * error / size:.4f}% of "
            f"size; peak {peak:.0f} MB ({before / 1024.0:.0f} MB before)"
        )


def _run(steps):  # type: ignore[no-untyped-def]
    while True:
        try:
            next(steps)
        except StopIteration as end:
            return end.value


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--vertices", type=int, default=50_000)
    parser.add_argument("--frames", type=int, default=250)
    parser.add_argument("--target", help="only this one, in this process")
    options = parser.parse_args()
    if options.target:
        measure(options.target, options.vertices, options.frames)
        return
    from dampsim.dampsim_addon.targets import TARGETS

    for kind in TARGETS:
        again = [sys.executable, __file__, "--vertices", str(options.vertices), "--frames", str(options.frames)]
        subprocess.run([*again, "--target", kind.name], check=True)


if __name__ == "__main__":
    main()
