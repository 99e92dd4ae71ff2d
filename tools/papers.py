"""Makes docs/validation/{schmedding,srd,young,integrators}.md: what the papers claim beside what DampSim measures."""

from __future__ import annotations

import itertools
import sys
from collections.abc import Iterable
from dataclasses import replace
from functools import partial
from pathlib import Path

import numpy as np

ROOT = Path(__file__).resolve().parents[1]
sys.path[:0] = [str(ROOT / "tests"), str(ROOT / "tests" / "core")]
import conftest  # noqa: E402, F401  (loads the checkout as the package dampsim)
import test_damping as damping  # noqa: E402
import test_dissipation as rates  # noqa: E402
import test_integrators as stepping  # noqa: E402
import test_young as young  # noqa: E402
from dampsim.core.arrays import Array  # noqa: E402
from dampsim.core.damping.clusters import Mesh, body  # noqa: E402
from dampsim.core.damping.damping import ByPotential, Damping  # noqa: E402
from dampsim.core.damping.dissipation import Dissipation  # noqa: E402
from dampsim.core.damping.rate import remembered  # noqa: E402
from dampsim.core.damping.rayleigh import StiffnessDrag  # noqa: E402
from dampsim.core.damping.spring import fastest, incidence  # noqa: E402
from dampsim.core.damping.torque import TORQUE_SCHEMES  # noqa: E402
from dampsim.core.damping.traditional import viscosities  # noqa: E402
from dampsim.core.energies.strain_energy import StrainEnergy  # noqa: E402
from dampsim.core.integrators import INTEGRATORS  # noqa: E402
from dampsim.core.measure.diagnostics import angular_momentum, energies, linear_momentum  # noqa: E402
from dampsim.core.measure.plot import chart  # noqa: E402
from dampsim.core.papers.compare import largest_step, released, slivers  # noqa: E402
from dampsim.core.papers.flat_scenes import annulus, cloth, orbit, trapezoid  # noqa: E402
from dampsim.core.papers.per_step import PerStep  # noqa: E402
from dampsim.core.solvers.newton import minimise_newton  # noqa: E402
from dampsim.core.solvers.problem import Outcome  # noqa: E402
from dampsim.core.stepping.step import Stepper  # noqa: E402
from dampsim.core.system.inputs import BlockInputs  # noqa: E402
from dampsim.core.system.state import State  # noqa: E402

OUT = ROOT / "docs" / "validation"
MADE = "Made by `python run.py docs`.\n"
SCHEME = {
    "RIGID": "(d) best-fit rigid motion, ours", "EDGES": "(a) edges, our factor", "RADII": "(b) radii",
    "EDGES_PRINTED": "(a) edges, the paper's factor", "PROGRAMME": "(c) linear programme",
}  # fmt: skip


def table(head: Iterable[str], rows: Iterable[Iterable[object]]) -> str:
    lines = [list(head), *([str(cell) for cell in row] for row in rows)]
    lines.insert(1, ["---"] * len(lines[0]))
    return "\n".join("| " + " | ".join(line) + " |" for line in lines) + "\n"


def picture(name: str, alt: str, **of: object) -> str:
    (OUT / f"{name}.svg").write_text(chart(**of), encoding="utf-8")  # type: ignore[arg-type]
    return f"![{alt}]({name}.svg)\n"


def schmedding() -> str:
    rows = []
    for method, dials in damping.WAYS:
        if dials.get("clusters", "BODY") not in ("BODY", "ELEMENTS") or (not dials and "torque" in method.parameters):
            continue
        cells: list[object] = [method.label, dials.get("clusters", "").lower(), SCHEME.get(dials.get("torque", ""), "")]
        count = damping.STATES
        for sliver in (False, True):
            system = damping.squashed(sliver)
            acting = damping.made(method, system, gamma=1.0, **dials)
            worst, grew = np.zeros(2), 0
            for state in damping.states(system, count):
                v = acting.velocities(state.positions, state.velocities, state.velocities, damping.H)
                after = replace(state, velocities=v)
                size = float(system.mass @ np.linalg.norm(state.velocities, axis=1))
                reach = float(np.abs(state.positions - state.positions.mean(axis=0)).max())
                off = [
                    np.abs(linear_momentum(system, after) - linear_momentum(system, state)).max() / size,
                    np.abs(angular_momentum(system, after) - angular_momentum(system, state)).max() / (size * reach),
                ]
                worst = np.maximum(worst, off)
                before = damping.kinetic(system, state.velocities)
                grew += damping.kinetic(system, v) > before * (1.0 + 1e-12)
            cells += [f"{worst[0]:.0e}", f"{worst[1]:.0e}", f"{grew} of {count}"]
        rows.append(cells)
    head = [
        "damping",
        "within",
        "torque",
        "linear",
        "angular",
        "energy grew",
        "slivers: linear",
        "angular",
        "energy grew",
    ]
    text = (
        "# Optimized damping [Sch]\n\n"
        "R. Schmedding, M. Gissler, M. Teschner, *Optimized Damping for Dynamic Simulations*. "
        + MADE
        + "\n## Momentum and energy\n\n"
        "A free bar of 24 nodes with masses that differ up to 25 times, deformed, turned and moving at random, γ = 1; with slivers half of\n"
        "its layers are 500 times thinner. Largest change of the momenta, in parts of Σ m‖v‖ (times the reach), and in how many of the random states\n"
        "the kinetic energy grew.\n\n" + table(head, rows) + "\n"
        "**Agrees.** All but point damping keep the linear momentum to rounding; (a) to (d) keep the angular one. (b) and (d) never add\n"
        "energy, nor does (a) with the factor that loses most. **Does not.** (a) with the factor that is printed (read as min ‖f‖/‖f̄‖) adds\n"
        "energy where most of a field is rotation. (c) is read as the forces nearest in the sum of magnitudes without sum and torque; it bounds\n"
        "nothing, and is a hundred times slower. Projected springs keep both momenta, unprojected ones damp turning.\n"
    )
    return text + _sweeps() + _steps()


def _sweeps() -> str:
    system = damping.squashed(False)
    mesh = Mesh.of(system.mass, system.blocks[0].groups)
    state = damping.states(system, 1)[0]
    mean = body(mesh).means(state.velocities)[0]
    strength = (1.0 - remembered(0.9, damping.H)) / fastest(mesh)
    E = incidence(mesh).toarray()
    root = 1.0 / np.sqrt(system.mass)
    factor = np.abs(1.0 - strength * np.linalg.eigvalsh(root[:, None] * (E @ E.T) * root)[1:]).max()
    spring = next(method for method in damping.ACTING if method.name == "SPRING_WHOLE")
    counts = np.unique(np.geomspace(1, 2000, 30).astype(int))
    off = []
    for sweeps in counts:
        acting = damping.made(spring, system, gamma=0.9, sweeps=int(sweeps))
        v = acting.velocities(state.positions, state.velocities, state.velocities, damping.H)
        off.append(float(np.sqrt(system.mass @ ((v - mean) ** 2).sum(axis=1))))
    lines = {
        "k sweeps of springs": (counts, np.array(off)),
        "as the spectrum says": (counts, off[-1] * factor ** (counts - counts[-1])),
    }
    return (
        "\n## Sweeps of springs converge to the direct result\n\n"
        + picture(
            "sch_sweeps",
            "Distance from the direct result against sweeps",
            lines=lines,
            title="Unprojected springs: distance from v_cm",
            across="sweeps k",
            up="Σ m ‖v − v_cm‖², root, kg½ m/s",
            log=True,
        )
        + f"\n**Agrees.** The rate in the end is {factor:.5f}, the largest of |1 − h γ μ| over the spectrum μ of M⁻¹EEᵀ.\n"
    )


def _steps() -> str:
    cases = {"bar": released(), "bar with slivers": slivers()}
    explicit = next(one for one in INTEGRATORS if one.name == "SYMPLECTIC_EULER")
    wanted: list[tuple[str, str, str, dict[str, str]]] = [("undamped", "", "", {})]
    wanted += [("springs", "SPRING", "", {}), ("springs, unprojected", "SPRING_WHOLE", "", {})]
    for clusters in ("ELEMENTS", "RINGS", "BODY"):
        wanted += [
            (f"direct, {clusters.lower()}", "DIRECT", torque, {"clusters": clusters, "torque": torque})
            for torque in TORQUE_SCHEMES
            # A programme for each of many clusters in every step takes hours.
            if torque != "PROGRAMME" or clusters == "BODY"
        ]
    rows = []
    for label, name, torque, dials in wanted:
        cells = [label, SCHEME.get(torque, "")]
        for case in cases.values():
            method: Damping | None = None
            if name:
                kind = next(one for one in damping.ACTING if one.name == name)
                method = PerStep(damping.made(kind, case.system, gamma=0.5, **dials))
            cells.append(f"{1e3 * largest_step(case, explicit, method):.3g}")
        rows.append(cells)
    return (
        "\n## The largest stable step\n\n"
        "A clamped bar (E = 200 kPa, 192 tetrahedra) with symplectic Euler: the longest step, in ms, after 200 of which the energy is below 20\n"
        "times its start; γ = 0.5 in every step, as in the paper, whatever its length.\n\n"
        + table(["damping", "torque", *cases], rows)
        + "\nThe paper's order is undamped < spring < direct. Pins are what the direct damping of the whole body does not know of: it damps\n"
        "relative to the mean motion of all nodes, held ones included. Scheme (c) is tried for the body alone: a linear programme for each\n"
        "element in every step takes hours.\n"
    )


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


def young_page() -> str:
    rows = []
    for name, make in (("trapezoid of triangles", young.flat), ("box of tetrahedra", young.solid)):
        system = make(True)
        x, v = young.started(system)
        pinned = np.abs(young.ours(system, x, v, young.H) - young.reference(system, x, v, young.H)).max()
        system = make(False)
        x, v = young.started(system)
        off = [
            np.abs(young.ours(system, x, v, h) - young.reference(system, x, v, h)).max() / h
            for h in (0.02, 0.01, 0.005)
        ]
        rows.append([name, f"{pinned:.0e} m", *(f"{one:.1e}" for one in off)])
    start = trapezoid().rest.copy()
    start[10, 1] -= 0.6
    first = {f"τ = {tau}": young.released(trapezoid(), start, tau, 0.01, 4.0) for tau in (1.0, 4.0)}
    rests = [young.rest(*curve) for curve in first.values()]
    system = annulus()
    start = system.rest.copy()
    radius = np.linalg.norm(start, axis=1)
    start[:, 0] += 0.1 * (radius - 1.0) / (radius.max() - 1.0)
    second = {f"τ = {tau}": young.released(annulus(), start, tau, 0.05, 30.0) for tau in (0.33, 1.0, 2.0)}
    scaled = {f"{name}, times {name[4:]}": (float(name[4:]) * t, d) for name, (t, d) in second.items()}
    phi, psi = viscosities(3.0, 1.0, 1.0, 1.0)
    return (
        "# Young's non-oscillatory damping [You]\n\n"
        "Herbert David Young, *Controllable, Non-Oscillatory Damping for Deformable Objects*, thesis, UBC 2007. " + MADE + "\n"
        "## The step with κ = 0 is the minimum over stress\n\n"
        "One step of 20 ms, τ = 0.5 s, from a random deformation in motion: DampSim's step beside `core/papers/stress_form.py`, which minimises\n"
        "KE(σ) + (τ/h) PE(σ) as the thesis does. Pinned: largest difference of the positions. Unpinned: of the velocities, in m/s, for three steps h.\n\n"
        + table(["body", "pinned", "unpinned, h = 20 ms", "10 ms", "5 ms"], rows)
        + "\n**Agrees.** Unpinned the two differ by the torque of the elastic force about the old positions, where the thesis lets it act: of first\n"
        "order in h. Without that torque they are equal to 1e-6 (`tests/core/test_young.py`).\n\n"
        "## Example 1\n\n"
        + picture("you_example1", "d1 against time", lines=first, title="Trapezoid, one top vertex moved inwards", across="s", up="d1, of the start", log=True)
        + f"\nRest (1% of d1) after {rests[0]:.2f} s for τ = 1 and {rests[1]:.2f} s for τ = 4; the thesis says about 3 s and 0.75 s.\n\n"
        "## Example 2\n\n"
        + picture("you_example2", "d1 against time times tau", lines=scaled, title="Annulus of 414 triangles, time times τ", across="s",
                  up="d1, of the start", log=True)
        + "\n**Agrees.** With time scaled by τ the curves are one. The thesis does not give the first shape; here the outer edge is moved by a tenth.\n\n"
        "## Table 4.2\n\n"
        f"The formulas of 4.2 give ψ = {psi:.5f} and φ = {phi:.5f} for Λ = 1, λ = 3, μ = 1, ρ = 1. The table prints ψ = 0.22508, which is\n"
        f"{psi:.5f}/√2 = {psi / np.sqrt(2.0):.5f}: all of its digits are the formulas divided by √2. DampSim uses the formulas. Below a Poisson's ratio\n"
        "of 1/3 φ would be negative; such a material is refused by name.\n"
    )  # fmt: skip


def integrators() -> str:
    rest = np.zeros((2, 3))
    rest[1, 0] = 1.0
    system = stepping.build_system(
        rest, np.array([[0, 1]]), np.ones(2), (), np.zeros(3), np.arange(2), np.full(2, stepping.STIFFNESS), modal=False
    )
    start = rest + np.array([[0.3, 0.0, -0.2], [0.0, 0.5, 0.1]])
    speed = np.array([[0.0, 1.0, 0.0], [-2.0, 0.0, 0.5]])
    a = stepping.DRAG / 2.0
    w = np.sqrt(stepping.STIFFNESS - a * a)
    exact = np.exp(-a) * ((start - rest) * np.cos(w) + (speed + a * (start - rest)) / w * np.sin(w))
    rows, lines = [], {}
    counts = (50, 100, 200, 400, 800)
    for one in INTEGRATORS:
        errors = []
        for count in counts:
            state = State(0.0, start, speed, np.zeros_like(rest))
            end = stepping.run(one, system, ByPotential(stepping._Drag()), state, 1.0 / count, count)[-1]
            errors.append(float(np.abs(end.positions - rest - exact).max()))
        orders = [float(np.log2(x / y)) for x, y in itertools.pairwise(errors)]
        rows.append([one.label, one.order, *(f"{order:.2f}" for order in orders[1:])])
        lines[one.label] = (np.log2(counts), np.array(errors))
    return (
        "# Integrators\n\n" + MADE + "\nA damped oscillator (1 kg, 40 N/m, 1.5 N s/m) after a second, beside its exact solution.\n\n"
        + picture("integrators", "Error against steps", lines=lines, title="Error after 1 s", across="log2 of the number of steps", up="m", log=True)
        + "\n" + table(["integrator", "declared order", "100 to 200 steps", "200 to 400", "400 to 800"], rows)
    )  # fmt: skip


PAGES = {"schmedding": schmedding, "srd": srd, "young": young_page, "integrators": integrators}


def main() -> None:
    for name, page in PAGES.items():
        (OUT / f"{name}.md").write_text(page(), encoding="utf-8")
        print(OUT / f"{name}.md", flush=True)


if __name__ == "__main__":
    main()
