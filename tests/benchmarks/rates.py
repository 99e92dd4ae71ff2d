"""Compare the CPU times of the damping of [SRD] and of Rayleigh damping on a cloth of 33 x 33 vertices."""

from __future__ import annotations

import sys
import time
from pathlib import Path

import numpy as np

ROOT = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT / "tests")]

import conftest  # noqa: E402, F401
from dampsim.core.literature.damping.damping import PotentialDamping  # noqa: E402
from dampsim.core.literature.damping.viscous_dampings import Dissipation, StiffnessDamping  # noqa: E402
from dampsim.core.literature.papers.flat_scenes import cloth  # noqa: E402
from dampsim.core.materials import Fabric, StVKMembrane  # noqa: E402
from dampsim.core.materials.strain_energy import isotropic_moduli  # noqa: E402
from dampsim.core.materials.strains import SurfaceGreenStrain  # noqa: E402
from dampsim.core.settle.controls import Controls  # noqa: E402
from dampsim.core.settle.law import BackwardEulerLaw  # noqa: E402
from dampsim.core.solvers.newton import minimise_newton  # noqa: E402
from dampsim.core.steppers.implicit import Stepper  # noqa: E402
from dampsim.core.system.state import State  # noqa: E402
from dampsim.core.system.system import build_system  # noqa: E402

STEPS, H, BETA = 40, 0.005, 0.15


def main() -> None:
    count = 33
    flat = cloth(count, np.arange(count))
    rest, (faces,) = flat.rest, flat.blocks[0].groups
    energy = StVKMembrane(rest, faces, Fabric(150.0, 0.5))
    held = np.arange(count), np.full(count, np.inf)
    system = build_system(rest, faces, flat.blocks[0].mass, (energy,), flat.gravity, *held, has_eigenvalues=False)
    drag = BETA * isotropic_moduli(energy.fabric.lam, energy.fabric.mu, 2)
    rate = PotentialDamping(
        Dissipation(SurfaceGreenStrain(energy.shape_gradients, faces), drag, energy.weights, len(rest))
    )
    rayleigh = PotentialDamping(StiffnessDamping((energy,), BETA))
    dampings = {"rates of strain": rate.matrix, "Rayleigh": rayleigh.matrix, "none": None}
    upright = np.column_stack([np.zeros(len(rest)), rest[:, 1], -rest[:, 0]])
    for motion, start in (("hanging", upright), ("swinging", rest)):
        states = {name: State.at_rest(start) for name in dampings}
        steppers = {name: Stepper(system, minimise_newton, one) for name, one in dampings.items()}
        controls = Controls(tuple(BackwardEulerLaw() for _ in system.regions), 1.0, 1e-3)
        times, iterations = dict.fromkeys(dampings, 0.0), dict.fromkeys(dampings, 0)
        for _ in range(STEPS):
            for name, state in states.items():
                begun = time.process_time()
                states[name], report = steppers[name].step(
                    state, system.stationary_inputs(state.positions), H, controls
                )
                times[name] += time.process_time() - begun
                iterations[name] += report.iterations
        for name, spent in times.items():
            each, per_step = 1e3 * spent / iterations[name], 1e3 * spent / STEPS
            shares = f"{iterations[name] / STEPS:.1f} iterations of {each:.1f} ms"
            print(f"{motion}, {name}: {per_step:.1f} ms a step, {shares}")


if __name__ == "__main__":
    main()
