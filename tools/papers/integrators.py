"""docs/validation/integrators.md: the order of every integrator."""

from __future__ import annotations

import itertools

import numpy as np

import test_integrators as stepping
from dampsim.core.damping.damping import ByPotential
from dampsim.core.integrators import INTEGRATORS
from dampsim.core.system.state import State

from .page import MADE, picture, table


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
