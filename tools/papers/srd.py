"""docs/validation/srd.md: the claims of [SRD] beside what DampSim measures."""

from __future__ import annotations

from dataclasses import replace
from functools import partial

import numpy as np

import test_dissipation as rates
import test_integrators as stepping
from dampsim.core.arrays import Array
from dampsim.core.damping.damping import ByPotential
from dampsim.core.damping.dissipation import Dissipation
from dampsim.core.damping.rayleigh import StiffnessDrag
from dampsim.core.energies.strain_energy import StrainEnergy
from dampsim.core.integrators import INTEGRATORS
from dampsim.core.measure.diagnostics import energies
from dampsim.core.papers.flat_scenes import cloth, orbit
from dampsim.core.solvers.newton import minimise_newton
from dampsim.core.solvers.problem import Outcome
from dampsim.core.stepping.step import Stepper
from dampsim.core.system.inputs import BlockInputs
from dampsim.core.system.state import State

from .page import MADE, picture, table


def srd() -> str:
    rows = []
    for name in rates.RATES:
        if name == "rod tangent":
            continue
        worst = 0.0
        for _ in range(100):
            potential, rest = rates.dissipation(name)
            x = rates.bent(rest, 0.3)
            v = rates.RNG.standard_normal(3) + np.cross(rates.RNG.standard_normal(3), x)
            usual = np.abs(potential.force(x, rates.RNG.standard_normal(x.shape))).max()
            worst = max(worst, float(np.abs(potential.force(x, v)).max()) / usual)
        rows.append([name, f"{worst:.0e}"])
    text = (
        "# Strain rate dissipation [SRD]\n\n"
        "Rosa M. Sánchez-Banderas, Miguel A. Otaduy, *Strain Rate Dissipation for Elastic Deformations*. " + MADE + "\n"
        "## No force on rigid motions\n\n"
        "Largest force over 100 random rigid motions of deformed states, in parts of the force that as fast a random motion has.\n\n"
        + table(["strain", "force"], rows)
        + "\n**Agrees**, but for the small-angle form of rods: its vector turns with the rod, so that a spin about it is resisted by as little as\n"
        "the rod is bent (below 0.1 rad; `tests/core/test_dissipation.py` has the bound).\n"
    )
    return text + _spring() + _cloth() + _newton()


def _spring() -> str:
    system = orbit()
    (energy,) = system.blocks[0].energies
    assert isinstance(energy, StrainEnergy)
    speed = np.array([[0.0, 0.0, 0.0], [0.0, 20.0, 0.0]])
    start = State(0.0, system.rest, speed, np.zeros_like(speed))
    r = max(np.roots([25.0, -50.0, 0.0, 0.0, -1600.0]).real)
    rows, lines = [], {}
    for integrator in ("SYMPLECTIC_EULER", "NEWMARK", "BACKWARD_EULER"):
        for beta in (0.01, 0.05, 0.1):
            ends = []
            for kind in ("strain rate", "Rayleigh"):
                potential = (
                    Dissipation(energy.strain, beta * energy.moduli, energy.weights, 2)
                    if kind == "strain rate"
                    else StiffnessDrag(system.blocks[0].energies, beta)
                )
                states = stepping.run(stepping.by(integrator), system, ByPotential(potential), start, 0.01, 3000, 1e-9)
                kinetic = np.array([energies(system, state).kinetic for state in states])
                ends.append(f"{kinetic[-1]:.1f}")
                if integrator == "NEWMARK":
                    lines[f"{kind}, β = {beta}"] = (0.01 * np.arange(0, 3001, 5), kinetic[::5])
            rows.append([next(i for i in INTEGRATORS if i.name == integrator).label, beta, *ends])
    return (
        "\n## The spring that is spun (3.6)\n\n"
        + picture(
            "srd_spring", "Kinetic energy against time", lines=lines, title="Newmark, h = 0.01 s", across="s", up="J"
        )
        + "\nL = 2 m, k = 100, m = 1 kg, 20 m/s across. Kinetic energy after 30 s, in J; uniform circular motion with the same angular momentum\n"
        f"has {0.5 * (40.0 / r) ** 2:.1f} J.\n\n"
        + table(["integrator", "β, s", "strain rate", "Rayleigh"], rows)
        + "\n**Agrees.** Strain rate ends in circular motion, Rayleigh stops it; Newmark and symplectic Euler say the same, backward Euler loses\n"
        "energy by itself.\n"
    )


def _cloth() -> str:
    count, beta, h, strong = 33, 0.05, 0.01, 0.5
    system = cloth(count, np.arange(count))
    plain = stepping.swinging(None, system, 220, h)
    names = ("strain rate", "Rayleigh")
    swing = {
        name: stepping.swinging(ByPotential(one), system, 220, h)
        for name, one in zip(names, stepping.potentials(system, beta), strict=True)
    }
    times = h * np.arange(221)
    rows = []
    for k in stepping.turning_points(plain):
        less = [stepping.lost(plain, swing[name], k) for name in names]
        rows.append([f"{times[k]:.2f}", f"{plain[k]:.3f}", *(f"{one:.3f}" for one in less), f"{less[0] / less[1]:.2f}"])
    hanging = {
        name: (0.02 * np.arange(41), stepping.hung(one, system, 0.02, 40))
        for name, one in zip(names, stepping.potentials(system, strong), strict=True)
    }
    apart = np.abs(hanging["strain rate"][1] - hanging["Rayleigh"][1]).max() / np.ptp(hanging["Rayleigh"][1])
    curves = {"undamped": (times, plain), **{name: (times, curve) for name, curve in swing.items()}}
    return (
        "\n## A cloth that hangs and one that swings\n\n"
        f"{count} × {count} nodes, a square metre of 0.2 kg, λ = 100 N/m, μ = 50 N/m, held at one edge; backward Euler, h = 10 ms,\n"
        f"β = {beta} s for both.\n\n"
        + picture(
            "srd_swing",
            "Kinetic energy of the swinging cloth",
            lines=curves,
            title="Let go when level",
            across="s",
            up="J",
        )
        + "\nKinetic energy lost against no damping, at each turning point of its curve, in J:\n\n"
        + table(["s", "undamped", "strain rate", "Rayleigh", "ratio"], rows)
        + "\n"
        + picture(
            "srd_hang",
            "The hem of the hanging cloth",
            lines=hanging,
            title="Hung up unstretched: height of the hem",
            across="s",
            up="m",
        )
        + f"\nHung up unstretched with β = {strong} s, overdamped, the two differ by at most {100.0 * apart:.1f}% of the way.\n"
        "\n**Agrees.** Both damp stretching alike; what turns as a whole is slowed by Rayleigh's damping much more.\n"
    )


class _Always:
    """An energy whose Hessian is made positive whether it has to be or not."""

    def __init__(self, energy: StrainEnergy) -> None:
        self._energy, self.rounding = energy, energy.rounding
        self.value_gradient = energy.value_gradient

    def hessian(self, positions: Array, project: bool) -> object:
        return self._energy.hessian(positions, True)


def _newton() -> str:
    system = cloth(7, np.arange(7))
    (energy,) = system.blocks[0].energies
    assert isinstance(energy, StrainEnergy)
    clamped = replace(energy, clamped=True)
    kinds = {"never": stepping._Raw(energy), "always": _Always(clamped), "where needed": clamped}
    rows = []
    for squeeze, fps in ((0.0, 60.0), (0.05, 60.0), (0.1, 60.0), (0.1, 24.0)):
        rng = np.random.default_rng(1)
        counts: dict[str, list[int]] = {name: [] for name in kinds}
        failed = dict.fromkeys(kinds, 0)
        for _ in range(30):
            x = system.rest * rng.uniform(1.0 - squeeze, 1.0 + squeeze, 3) + 0.005 * rng.standard_normal((49, 3))
            x[system.pinned] = system.rest[system.pinned]
            v = 0.5 * rng.standard_normal(x.shape)
            v[system.pinned] = 0.0
            place = x[system.pinned]
            for name, one in kinds.items():
                made = stepping.with_energy(system, one)
                taking = Stepper(made, partial(minimise_newton, most=400))
                state = State(0.0, x, v, np.zeros_like(x))
                held = (BlockInputs(place, place),)
                _, report = taking.step(state, held, 1.0 / fps, stepping.controls(made, 1e-8))
                counts[name].append(report.iterations)
                failed[name] += report.substeps > 1 or report.outcome is not Outcome.CONVERGED
        cells: list[object] = [f"{100 * squeeze:.0f}%, {fps:.0f} fps"]
        rows.append([*cells, *(f"{np.mean(counts[name]):.1f} ({failed[name]})" for name in kinds)])
    return (
        "\n## Newton's method with clamped stress (after (9))\n\n"
        "A crumpled and squeezed cloth of 7 × 7 nodes in 30 random states, one backward Euler step each, to 1e-8: mean iterations, and in how many\n"
        "states the full step failed (its halves are counted).\n\n"
        + table(["squeeze", *(f"clamped {name}" for name in kinds)], rows)
        + "\n**Agrees in part.** Clamping never fails and never ends at a maximum. Clamped always, as in the paper, it takes more iterations than\n"
        "without where the cloth is squeezed, as the Hessian is too stiff there; clamped only where the Hessian does not curve up, as DampSim does it,\n"
        "it takes fewer.\n"
    )
