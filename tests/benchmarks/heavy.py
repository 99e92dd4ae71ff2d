"""Large bodies without Blender: python tests/benchmarks/heavy.py [--tets 5000 20000 …] [--frames N] [--superlu]

The ball of bake.py, of 10,114 vertices with a pinned lower third, is shaken. --bodies selects harder ones: a nearly
incompressible ball, a thin disc, a ball with painted stiffness, a rod. Each size runs in a separate process, to
measure its peak memory. Reported are set-up with the first step, time per frame and, with --exact, the largest error
over the motion, compared with tight tolerance. Times are CPU times, and no test depends on them.
"""

from __future__ import annotations

import argparse
import os
import resource
import statistics
import subprocess
import sys
import time
from dataclasses import replace
from itertools import product
from pathlib import Path

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
TESTS = Path(__file__).resolve().parents[1]
sys.path[:0] = [str(TESTS), str(TESTS / "core")]
import numpy as np  # noqa: E402

import conftest  # noqa: E402, F401  (loads the checkout as the package dampsim)

RINGS, AROUND = 80, 128


def ball() -> tuple[np.ndarray, np.ndarray]:
    """Return the vertices and triangles of the ball of bake.py."""
    angle = 2.0 * np.pi * np.arange(AROUND) / AROUND
    rings = [
        np.stack([np.sin(a) * np.cos(angle), np.sin(a) * np.sin(angle), np.full(AROUND, np.cos(a))], axis=1)
        for a in np.pi * np.arange(1, RINGS) / RINGS
    ]
    vertices = np.concatenate([[[0.0, 0.0, 1.0]], *rings, [[0.0, 0.0, -1.0]]])
    j = np.arange(AROUND)
    i, last = (j + 1) % AROUND, len(vertices) - 1
    triangles = [np.stack([0 * j, 1 + j, 1 + i], axis=1)]
    for k in range(RINGS - 2):
        p = 1 + k * AROUND
        triangles += [np.stack([p + j, p + AROUND + j, p + AROUND + i], axis=1)]
        triangles += [np.stack([p + j, p + AROUND + i, p + i], axis=1)]
    p = 1 + (RINGS - 2) * AROUND
    triangles.append(np.stack([p + j, 0 * j + last, p + i], axis=1))
    return vertices, np.concatenate(triangles)


# By name: scale of the ball, height below which it is pinned, Young's modulus in kPa, Poisson's ratio.
BODIES: dict[str, tuple[tuple[float, float, float], float, float, float]] = {
    "ball": ((1.0, 1.0, 1.0), -0.33, 300.0, 0.4),
    "incompressible": ((1.0, 1.0, 1.0), -0.33, 300.0, 0.49),
    "painted": ((1.0, 1.0, 1.0), -0.33, 300.0, 0.4),
    # A disc upright on its rim, 20 times as wide as thick; a rod 40 times as long as wide.
    "disc": ((1.0, 0.05, 1.0), -0.66, 30000.0, 0.4),
    "rod": ((0.05, 0.05, 2.0), -1.8, 300000.0, 0.4),
}


def measure_body(name: str, tets: int, frames: int, bounce: float, exact: bool) -> None:
    from animated import AnimatedScene
    from builders import static_body
    from dampsim.core.geometry.mesh.surface import Surface
    from dampsim.core.simulation.simulation import Simulation

    vertices, triangles = ball()
    stretched, height, young, poisson = BODIES[name]
    vertices = vertices * stretched

    def shaken(frame: float) -> np.ndarray:
        return vertices + np.array([0.15 * np.sin(0.4 * frame), 0.0, 0.0])

    pins = (vertices[:, 2] < height).astype(float)
    surface = Surface(name.title(), vertices, triangles)
    body = static_body(surface, pins, shaken, resolution=tets, stiffness=young, bounce=bounce, poisson=poisson)
    if name == "painted":
        # The stiffness at the top is 1/100 of that at the pins.
        body = replace(body, stiffness_map=np.clip(0.75 - 0.75 * vertices[:, 2], 0.0, 1.0))
    scene = AnimatedScene((body,), 24.0, np.array([0.0, 0.0, -9.81]), 1, frames)
    began = time.process_time()
    simulation = Simulation(scene)
    steps = simulation.frames()
    shapes = [next(steps).surface, next(steps).surface]
    ready = time.process_time() - began
    spent, iterations = [], []
    for _ in range(frames - 2):
        began = time.process_time()
        frame = next(steps)
        spent.append(1e3 * (time.process_time() - began))
        shapes.append(frame.surface)
        iterations.append(frame.iterations)
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e6
    count = len(simulation.islands[0].system.blocks[0].rest)
    text = f"{name}, {tets} tets asked, {count} nodes, Bounce {bounce:.0f}: set-up and first step {ready:.1f} s, "
    text += f"{statistics.median(spent):.1f} ms a frame, {np.mean(iterations):.1f} iterations, peak {peak:.2f} GB"
    if exact:
        tight = replace(body, settings=replace(body.settings, accuracy="TIGHT"))
        off, way = 0.0, 0.0
        for frame, shape in zip(Simulation(replace(scene, bodies=(tight,))).frames(), shapes, strict=True):
            off = max(off, float(np.linalg.norm(frame.surface - shape, axis=1).max()))
            carried = shapes[0] + shaken(frame.number) - shaken(1.0)
            way = max(way, float(np.linalg.norm(frame.surface - carried, axis=1).max()))
        text += f", error {off / way:.0e} of the motion"
    print(text, flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--tets", type=int, nargs="+", default=[5000, 20000, 100000])
    parser.add_argument("--bodies", nargs="+", choices=list(BODIES), default=["ball"])
    parser.add_argument("--frames", type=int, default=24)
    parser.add_argument("--bounce", type=float, nargs="+", default=[0.0, 40.0])
    parser.add_argument("--superlu", action="store_true", help="with SuperLU's factors, as a baseline")
    parser.add_argument("--exact", action="store_true", help="measure the error too, which takes longer")
    options = parser.parse_args()
    if len(options.tets) == len(options.bounce) == len(options.bodies) == 1:
        if options.superlu:
            from dampsim.core.objective import factorised_system
            from dampsim.core.solvers import factorisation, modes

            factorised_system.build_preconditioner = lambda matrix, places: factorisation.factorise(matrix)
            modes._smallest_by_iteration = lambda block, root, places: None
        measure_body(options.bodies[0], options.tets[0], options.frames, options.bounce[0], options.exact)
        return
    more = [name for name, wanted in (("--superlu", options.superlu), ("--exact", options.exact)) if wanted]
    for name, tets, bounce in product(options.bodies, options.tets, options.bounce):
        own = ["--bodies", name, "--tets", str(tets), "--bounce", str(bounce), "--frames", str(options.frames), *more]
        subprocess.run([sys.executable, __file__, *own], check=True)


if __name__ == "__main__":
    main()
