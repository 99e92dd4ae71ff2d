"""Compare cloth with Blender's on one sheet: python tests/benchmarks/sheets.py [--sides N ...] [--fabrics NAME ...]

A square metre of triangles, pinned along an edge, falls from horizontal. Blender's Cloth has default settings and no
disk cache; DampSim simulates fabrics with the default Detail and at every vertex. The solvers alternate frame by frame
in one process, and the first frame is not counted. DampSim's time is that of a complete bake per frame. CPU time of
all threads is more robust on a busy machine. With --errors N, the first N frames are also solved to rounding from the
same start, and the errors of the bake are printed.
"""

from __future__ import annotations

import argparse
import os
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
ROOT = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT / "tests"), str(ROOT / "tests" / "core")]
import bpy  # noqa: E402
import numpy as np  # noqa: E402

import conftest  # noqa: E402, F401  (loads the checkout as the package dampsim)
import dampsim  # noqa: E402
from builders import scene as scene_for  # noqa: E402
from builders import static_body  # noqa: E402
from dampsim.core.bodies.fabrics import FABRICS  # noqa: E402
from dampsim.core.simulation.simulation import Simulation  # noqa: E402
from shapes import sheet  # noqa: E402

Points = Callable[[], np.ndarray]
"""Function that returns the vertices (v, 3), called outside of the timed section."""


def sheet_scene(side: int, name: str, frames: int) -> tuple[bpy.types.Scene, bpy.types.Object]:
    scene = bpy.data.scenes.new(name)
    scene.frame_start, scene.frame_end = 1, frames
    flat = sheet(side)
    mesh = bpy.data.meshes.new(name)
    mesh.from_pydata(flat.vertices.tolist(), [], flat.triangles.tolist())
    obj = bpy.data.objects.new(name, mesh)
    scene.collection.objects.link(obj)
    pins = obj.vertex_groups.new(name="Pin")
    pins.add([int(k) for k in np.flatnonzero(flat.vertices[:, 0] < 1e-9)], 1.0, "REPLACE")
    return scene, obj


def largest_strain(side: int, points: np.ndarray) -> float:
    """Return the largest strain of an edge."""
    flat = sheet(side)
    pairs = np.concatenate([flat.triangles[:, [k, k - 1]] for k in range(3)])
    before, now = (np.linalg.norm(x[pairs[:, 0]] - x[pairs[:, 1]], axis=1) for x in (flat.vertices, points))
    return float((now / before).max() - 1.0)


def blender_cloth(side: int, frames: int) -> Iterator[Points]:
    scene, obj = sheet_scene(side, "Cloth", frames)
    obj.modifiers.new("Cloth", "CLOTH").settings.vertex_group_mass = "Pin"
    for frame in range(1, frames + 1):
        scene.frame_set(frame)
        mesh = obj.evaluated_get(scene.view_layers[0].depsgraph).data
        flat = np.empty(3 * side * side, dtype=np.float32)
        mesh.vertices.foreach_get("co", flat)
        yield lambda flat=flat: flat.reshape(-1, 3).astype(float)


def dampsim_cloth(side: int, frames: int, detail: int, fabric: str) -> Iterator[Points]:
    from dampsim.dampsim_addon.jobs import bake as job
    from dampsim.dampsim_addon.model.caches import frame_cache

    scene, obj = sheet_scene(side, f"DampSim {detail} {fabric}", frames)
    group = obj.dampsim
    group.enabled, group.pin_group, group.kind, group.start_settled = True, "Pin", "CLOTH", False
    for name, value in FABRICS[fabric].settings.items():
        setattr(group, name, value)
    group.detail, group.cache_folder = detail, tempfile.mkdtemp()
    for step in job.bake_object(scene, scene.view_layers[0], obj, True):
        if step.text == "Simulating":
            yield lambda number=step.completed: frame_cache(obj).read_shape(number, obj.name)


def errors(side: int, frames: int) -> list[float]:
    """Return per frame the largest vertex error over the largest motion, relative to a step solved to rounding."""
    flat = sheet(side)
    pins = (flat.vertices[:, 0] < 1e-9).astype(float)
    body = static_body(flat, pins, kind="CLOTH", start_settled=False, detail=200000, **FABRICS["Cotton"].settings)
    rough, tight = (
        Simulation(scene_for(replace(body, settings=replace(body.settings, accuracy=one)), last=frames))
        for one in ("BAKE", "TIGHT")
    )
    frame, found = rough.first_frame(), []
    for number in range(2, frames):
        # The sampled inputs contain the settings, including the accuracy.
        (there, *_), (exact, *_) = (
            one.step(frame.state, sampled.samples[-1], sampled)
            for one, sampled in ((one, one.sample_frame(number)) for one in (rough, tight))
        )
        moved = np.linalg.norm(exact.positions - frame.state.positions, axis=1).max()
        found.append(float(np.linalg.norm(there.positions - exact.positions, axis=1).max() / moved))
        frame = replace(frame, state=there)
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--sides", type=int, nargs="+", default=[33, 65, 100])
    parser.add_argument("--frames", type=int, default=48)
    parser.add_argument("--errors", type=int, default=0)
    parser.add_argument("--fabrics", nargs="+", choices=list(FABRICS), default=["Cotton", "Denim"])
    options = parser.parse_args()
    dampsim.register()
    bpy.ops.wm.read_homefile(use_empty=True, use_factory_startup=True)
    n = options.frames
    makers: dict[str, Callable[[int], Iterator[Points]]] = {
        "Blender's Cloth": lambda side: blender_cloth(side, n),
    }
    for fabric in options.fabrics:
        makers[f"{fabric.lower()}, Detail 2,000"] = lambda side, fabric=fabric: dampsim_cloth(side, n, 2000, fabric)
        makers[f"{fabric.lower()}, every vertex"] = lambda side, fabric=fabric: dampsim_cloth(side, n, 200000, fabric)
    for side in options.sides:
        running = {name: make(side) for name, make in makers.items()}
        for steps in running.values():
            next(steps)
        worst = dict.fromkeys(makers, 0.0)
        spent: dict[str, list[float]] = {name: [] for name in makers}
        worked: dict[str, list[float]] = {name: [] for name in makers}
        for _ in range(1, n):
            for name, steps in running.items():
                began, work = time.perf_counter(), time.process_time()
                points = next(steps)
                spent[name].append(time.perf_counter() - began)
                worked[name].append(time.process_time() - work)
                worst[name] = max(worst[name], largest_strain(side, points()))
        base, own = statistics.median(spent["Blender's Cloth"]), sum(spent["Blender's Cloth"])
        busy, all_busy = statistics.median(worked["Blender's Cloth"]), sum(worked["Blender's Cloth"])
        print(f"{side * side} vertices, bpy {bpy.app.version_string}, {n} frames")
        for name, times in spent.items():
            middle, whole = statistics.median(times) / base, sum(times) / own
            processor, work = statistics.median(worked[name]), sum(worked[name])
            print(
                f"  {name}: median {1e3 * statistics.median(times):.0f} ms a frame ({middle:.2f} of Blender's), "
                f"all frames {whole:.2f} of Blender's, longest {1e3 * max(times):.0f} ms, "
                f"of the processor {1e3 * processor:.0f} ms ({processor / busy:.2f}, {work / all_busy:.2f}), "
                f"most stretched edge {100 * worst[name]:.2f}%",
                flush=True,
            )
        if options.errors:
            found = errors(side, options.errors)
            print(f"  error: median {statistics.median(found):.1e}, worst frame {max(found):.1e}", flush=True)


if __name__ == "__main__":
    main()
