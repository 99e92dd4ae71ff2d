"""Start of cloth and ropes that are released from rest out of balance: the law's path from the first substep on."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import hanging_bodies
import numpy as np
import pytest

from builders import DOWN
from dampsim.core.fields.field import ExternalForces
from dampsim.core.scene.body import Body
from dampsim.core.scene.parameters import BounceBy
from dampsim.core.settle.first_mode import first_mode_law
from dampsim.core.system.state import State
from settle_cases import make_simulation

SETTLE = 1.0
BODIES: dict[str, Callable[..., Body]] = {
    "rope": lambda **dials: hanging_bodies.rope(16, **dials),
    "flag": lambda **dials: hanging_bodies.flag(8, **dials),
}


@pytest.mark.parametrize("h", [1 / 12, 1 / 24, 1 / 60, 1 / 480])
@pytest.mark.parametrize("overshoot", [0.1, 0.3, 0.5])
def test_released_mode_follows_its_law(h: float, overshoot: float) -> None:
    """The first mode has the law's deflection after every substep, of any length."""
    eigenvalue, steps = 14.0, 12
    law = first_mode_law(SETTLE, overshoot, eigenvalue, has_slack_modes=True)
    found = law.coefficients(h)
    # q of a mode with the mass 1, and its load 0.
    q = h * float(found.inertia_time) * eigenvalue
    x, change = [1.0], 0.0
    for number in range(steps):
        load = float(found.sigma) * q * change + (float(found.initial_force_change) * q * x[0] if number == 0 else 0.0)
        x.append((x[-1] + float(found.kappa) * change + load) / (1.0 + q))
        change = x[-1] - x[-2]
    np.testing.assert_allclose(x, law.release_response(h * np.arange(steps + 1)), atol=1e-9)


def path(make: Callable[..., Body], fps: int, substeps: int, pull: np.ndarray, **dials: Any) -> np.ndarray:
    """Return the positions (k, n, 3) m every 1/12 s after a release from the hanging shape under an added pull."""
    body = make(settle=SETTLE * fps, substeps=substeps, **dials)
    start = make_simulation(body, fps, 2, DOWN + pull).first_frame().state.positions
    simulation = make_simulation(body, fps, 1 + int(SETTLE * fps), DOWN)
    first = replace(simulation.first_frame(), state=State.at_rest(start))
    return np.array([start, *(frame.state.positions for frame in simulation.frames(first))])[:: fps // 12]


@pytest.mark.parametrize("name", BODIES)
@pytest.mark.parametrize(
    ("dials", "limit"),
    [({"bounce": 30.0, "bounce_by": BounceBy.DIALLED}, 0.07), ({"bounce_by": BounceBy.NATURAL}, 0.06)],
    ids=["dialled", "natural"],
)
def test_release_hardly_depends_on_rate(name: str, dials: dict[str, Any], limit: float) -> None:
    """The path at 24 fps with the fewest substeps is that of 8 substeps, within a part of the swing.

    The faster modes are not resolved; without the correction the worst distance is 0.18.
    """
    pull = np.array([0.6, 2.0, 0.0])
    exact, coarse = (path(BODIES[name], 24, substeps, pull, **dials) for substeps in (8, 1))
    swing = np.linalg.norm(exact - exact[-1], axis=2).max()
    assert swing > 0.1
    assert np.linalg.norm(coarse - exact, axis=2).max() < limit * swing


def test_changed_load_is_not_delayed_twice() -> None:
    """A load that is switched in a step acts half in it, whether the body was at rest or moved a little before."""
    found = []
    for switch, breath in ((5.5, 0.0), (5.5, 1e-3)):
        body = replace(  # type: ignore[call-arg]
            BODIES["rope"](settle=24.0, bounce=30.0, bounce_by=BounceBy.DIALLED, start_settled=True, accuracy="TIGHT"),
            external_forces=lambda frame, switch=switch, breath=breath: ExternalForces(
                DOWN + np.array([0.0, 3.0 if frame > switch else breath * (frame > 3.5), 0.0]), ()
            ),
        )
        simulation = make_simulation(body, 24.0, 12, DOWN)
        shapes = [frame.state.positions for frame in simulation.frames()]
        found.append(np.array(shapes[int(switch) :][:6]))
    moved = np.abs(found[0] - found[0][0]).max()
    assert moved > 0.01
    # The earlier load is a part of 3e-4 of the switched one.
    assert np.abs(found[1] - found[0]).max() < 1e-2 * moved
