"""Golden runs: digests of all frames of the samples and of one run for each damping and integrator.

    python tests/golden.py          compare with tests/golden.json (in an environment of requirements/bpy.txt)
    python tests/golden.py write    store the results as the new reference; the commit message gives the reason

Refactoring and renaming must not change a digest. Bytes depend on processor and libraries; on other machines, the
courses are compared instead: the mean position of every fourth frame.
"""

from __future__ import annotations

import hashlib
import importlib
import json
import os
import platform
import sys
from collections.abc import Iterable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

# As in run.py: the number of threads changes the bytes of sums.
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
import numpy as np
import scipy

ROOT = Path(__file__).parents[1]
REFERENCE_FILE = Path(__file__).with_suffix(".json")
# Largest deviation on other processors and libraries, relative to the size.
MAX_DEVIATION = 2e-3
# Larger deviation, and the number of frames for which it is allowed, after a step that needed a fallback: rounding
# decides when the fallback begins.
MAX_DEVIATION_AFTER_FALLBACK, FALLBACK_FRAMES = 0.05, 48
# Interval in frames between the entries of a course.
_COURSE_INTERVAL = 4


def machine_description() -> str:
    """Return a description of processor and libraries, on which the bytes depend.

    numpy and OpenBLAS choose their loops by the processor's features, not by its name.
    """
    said: dict[str, str] = {}
    info = Path("/proc/cpuinfo")
    if info.exists():
        for line in info.read_text().split("\n\n")[0].splitlines():
            name, _, value = line.partition(":")
            said[name.strip()] = value.strip()
    can = hashlib.sha256(" ".join(sorted(said.get("flags", "").split())).encode()).hexdigest()[:8]
    kernel = importlib.import_module("dampsim.core.native.library").load_library()
    made = f"{'numpy' if kernel is None else 'compiled kernel, numpy'} {np.__version__} scipy {scipy.__version__}"
    return f"{platform.machine()} {said.get('model name', '')} {can} {made}"


def summary(frames: Iterable[Any], size: float) -> dict[str, Any]:
    """Return digest, course, retried frames and size of a run.

    digest: of positions, velocities and surface of every frame.  course: mean surface position of every 4th frame.
    helped: frames with steps that were retried.
    """
    total, course, helped = hashlib.sha256(), [], []
    for count, frame in enumerate(frames):
        for array in (frame.state.positions, frame.state.velocities, frame.surface):
            total.update(np.ascontiguousarray(array, dtype=float).tobytes())
        if frame.guards:
            helped.append(count)
        if count % _COURSE_INTERVAL == 0:
            course.append([float(f"{value:.6g}") for value in frame.surface.mean(axis=0)])
    return {"digest": total.hexdigest(), "course": course, "helped": helped, "size": size}


def deviation(found: dict[str, Any], known: dict[str, Any], same: bool) -> str:
    """Return the deviation of a run from a known one, or ''. same: whether the bytes must agree."""
    if same:
        return "" if found["digest"] == known["digest"] else "the bytes of its frames differ"
    a, b = np.array(found["course"]), np.array(known["course"])
    if a.shape != b.shape:
        return f"it has {len(a)} frames in its course instead of {len(b)}"
    off = np.abs(a - b).max(axis=1) / known["size"]
    count = _COURSE_INTERVAL * np.arange(len(off))
    bound = np.full(len(off), MAX_DEVIATION)
    for one in {*found["helped"], *known["helped"]}:
        bound[(count >= one) & (count < one + FALLBACK_FRAMES)] = MAX_DEVIATION_AFTER_FALLBACK
    worst = int((off / bound).argmax())
    return "" if off[worst] <= bound[worst] else f"it deviates by {off[worst]:.1e} of its size"


def damping_runs() -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield runs of a rod on a shaking foot, with every damping and with every implicit integrator."""
    from animated import AnimatedBody, AnimatedScene
    from dampsim.core.literature.damping import DAMPINGS
    from dampsim.core.literature.integrators import INTEGRATORS
    from dampsim.core.scene.parameters import PARAMETERS, Settings
    from dampsim.core.simulation.simulation import Simulation
    from shapes import tube

    surface = tube(1.0, 0.08, 24, 12)
    pins = (surface.vertices[:, 2] < 0.06).astype(float)

    def motion(frame: float) -> np.ndarray:
        return surface.vertices + np.array([0.1 * np.sin(0.9 * frame), 0.0, 0.02 * np.sin(0.5 * frame)])

    def run(**dials: Any) -> dict[str, Any]:
        settings = Settings(
            stiffness=2500.0, settle=16.0, bounce=40.0, resolution=300, poisson=0.35, accuracy="TIGHT", **dials
        )
        scene = AnimatedScene(
            (AnimatedBody(surface, pins, settings, motion=motion),), 24.0, np.array([0.0, 0.0, -9.81]), 1, 24
        )
        return summary(Simulation(scene).frames(), surface.size)

    for choice in PARAMETERS["damping_by"].choices:
        yield f"damping {choice.name}", run(damping_by=choice.name)
    for one in INTEGRATORS:
        if one.is_implicit:
            yield f"integrator {one.name}", run(damping_by=DAMPINGS[0].name, integrator=one.name)


class Runs:
    """Current runs by name, simulated once and only as far as needed."""

    def __init__(self, runs: Iterator[tuple[str, dict[str, Any]]]) -> None:
        self._runs, self._made = runs, dict[str, dict[str, Any]]()

    def __getitem__(self, name: str) -> dict[str, Any]:
        while name not in self._made:
            made = next(self._runs, None)
            assert made is not None, f"{name} is not simulated"
            self._made[made[0]] = made[1]
        return self._made[name]


def sample_runs() -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield runs of every object of the sample files; needs the registered add-on."""
    import bpy

    from dampsim.core.simulation.simulation import Simulation
    from dampsim.dampsim_addon.blender.sampler import GroupSampler
    from dampsim.dampsim_addon.scene_reader.scene_builder import build_scene

    for path in sorted((ROOT / "sample_blends").glob("*.blend")):
        if path.stem not in ("jelly", "creature", "antenna"):
            # Linked objects, contact and cloth take minutes.
            continue
        bpy.ops.wm.open_mainfile(filepath=str(path))
        scene, layer = bpy.context.scene, bpy.context.view_layer
        for obj in [obj for obj in scene.objects if obj.type == "MESH" and obj.dampsim.enabled]:
            with GroupSampler(scene, layer, [obj]) as sampler:
                taken = build_scene(sampler)
                (body,) = taken.bodies
                exact = replace(body, settings=replace(body.settings, accuracy="TIGHT"))
                taken = replace(taken, bodies=(exact,))
                size = taken.bodies[0].surface.size
                yield f"sample {path.stem} {obj.name}", summary(Simulation(taken).frames(), size)


def main() -> None:
    sys.path[:0] = [str(ROOT / "tests"), str(ROOT / "tests" / "core")]
    import bpy

    import conftest  # noqa: F401
    import dampsim

    dampsim.register()
    found = dict([*damping_runs(), *sample_runs()])
    if sys.argv[1:] == ["write"]:
        REFERENCE_FILE.write_text(
            json.dumps({"machine": machine_description(), "blender": bpy.app.version_string, "runs": found}, indent=1)
            + "\n",
            encoding="utf-8",
        )
        return
    kept = json.loads(REFERENCE_FILE.read_text(encoding="utf-8"))
    same = kept["machine"] == machine_description()
    print("comparing bytes" if same else f"comparing courses: the reference is from {kept['machine']}")
    wrong = {name: deviation(found[name], kept["runs"][name], same) for name in kept["runs"] if name in found}
    wrong |= {name: "it is missing" for name in kept["runs"] if name not in found}
    for name, what in wrong.items():
        print(f"{name}: {what or 'unchanged'}")
    sys.exit(any(wrong.values()))


if __name__ == "__main__":
    main()
