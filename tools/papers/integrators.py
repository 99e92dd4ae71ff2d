"""Page docs/validation/integrators.md: the order of every integrator, and the claims of [Ctl] about them."""

from __future__ import annotations

import itertools

import numpy as np

import test_integrators as stepping
from dampsim.core.literature.damping.damping import PotentialDamping
from dampsim.core.literature.integrators import INTEGRATORS
from dampsim.core.materials.loads_and_springs import spring_energy
from dampsim.core.system.state import State

from .page import FAILS, HOLDS, MADE, PARTLY, Claim, picture, table, verdicts

CURVED = (50, 100, 200, 400, 800)


def integrators() -> str:
    rest = np.zeros((2, 3))
    rest[1, 0] = 1.0
    system = stepping.build_system(
        rest,
        np.array([[0, 1]]),
        np.ones(2),
        (),
        np.zeros(3),
        np.arange(2),
        np.full(2, stepping.STIFFNESS),
        has_eigenvalues=False,
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
            end = stepping.run(one, system, PotentialDamping(stepping._Drag()), state, 1.0 / count, count)[-1]
            errors.append(float(np.abs(end.positions - rest - exact).max()))
        orders = [float(np.log2(x / y)) for x, y in itertools.pairwise(errors)]
        rows.append([one.label, one.order, *(f"{order:.2f}" for order in orders[1:])])
        lines[one.label] = (np.log2(counts), np.array(errors))
    curved = _curved()
    worst = max(abs(float(value) - one.order) for one, row in zip(INTEGRATORS, rows, strict=True) for value in row[2:])
    bent = max(one.order - orders[-1] for one, orders in zip(INTEGRATORS, curved, strict=True))
    by_name = {one.name: orders[-1] for one, orders in zip(INTEGRATORS, curved, strict=True)}
    second = {name: by_name[name] for name in ("IMPLICIT_MIDPOINT", "NEWMARK")}
    errors = {label: values for label, (_, values) in lines.items()}
    first, middle = errors["Backward Euler"], errors["Implicit Midpoint"]
    claims = [
        Claim("each integrator has its declared order", HOLDS if max(worst, bent) < 0.1 else PARTLY,
              f"off by at most {worst:.2f} on a damped oscillator; below it by at most {bent:.2f} on a swinging spring. There the positions of symplectic Euler "
              f"are of order {by_name['SYMPLECTIC_EULER']:.2f}: without damping, only its velocities are half a step off"),
        Claim("[Ctl]: midpoint and trapezoid are of second order", HOLDS if min(second.values()) > 1.9 else FAILS,
              f"{second['IMPLICIT_MIDPOINT']:.2f} and {second['NEWMARK']:.2f} on the swinging spring; at 800 steps their error is 1/{first[-1] / middle[-1]:.0f} of backward Euler's"),
        Claim("[Ctl]: they need a more accurate expansion of the force than one linear solve", HOLDS,
              "DampSim solves both to the tolerance, and they keep their order with nonlinear forces"),
        Claim("backward Euler keeps its order with one Newton iteration", HOLDS, f"{curved[0][-1]:.2f} and {curved[1][-1]:.2f} on the swinging spring"),
    ]  # fmt: skip
    return (
        "# Integrators\n\n" + MADE + "\n## Verdicts\n\n" + verdicts(claims)
        + "\nStability limits and numerical dissipation are on [springs.md](springs.md).\n"
        "\n## A damped oscillator\n\n1 kg on 40 N/m with 1.5 N s/m, after a second, compared with the exact solution.\n\n"
        + picture("integrators", "Error against steps", lines=lines, title="Error of the position after a second", x_label="number of steps, as a power of 2",
                  y_label="largest error, m", log_scale=True)
        + "\n" + table(["integrator", "declared order", "100 to 200 steps", "200 to 400", "400 to 800"], rows)
        + "\n## A swinging spring\n\n0.5 kg on a spring of 1 m and 60 N/m, thrown sideways at 3 m/s, after a second, undamped. The order follows from the\n"
        "distances between the ends of runs with n, 2n and 4n steps. The forces are nonlinear.\n\n"
        + table(["integrator", "declared order", *(f"{n} to {4 * n} steps" for n in CURVED[:-2])],
                [[one.label, one.order, *(f"{order:.2f}" for order in orders)] for one, orders in zip(INTEGRATORS, curved, strict=True)])
    )  # fmt: skip


def _curved() -> list[list[float]]:
    """Return the orders on a spring whose mass swings about its fixed end."""
    rest = np.array([[0.0, 0.0, 0.0], [1.0, 0.0, 0.0]])
    energy = spring_energy(np.array([[0, 1]]), np.ones(1), np.array([60.0]))
    system = stepping.build_system(
        rest,
        np.array([[0, 1]]),
        np.full(2, 0.5),
        (energy,),
        np.zeros(3),
        np.array([0]),
        np.array([np.inf]),
        has_eigenvalues=False,
    )
    speed = np.array([[0.0, 0.0, 0.0], [0.0, 3.0, 0.0]])
    found = []
    for one in INTEGRATORS:
        ends = []
        for count in CURVED:
            state = State(0.0, rest, speed, np.zeros_like(rest))
            after = stepping.run(one, system, None, state, 1.0 / count, count, 1e-8)
            ends.append(after[-1].positions)
        apart = [float(np.linalg.norm(b - a)) for a, b in itertools.pairwise(ends)]
        found.append([float(np.log2(a / b)) for a, b in itertools.pairwise(apart)])
    return found
