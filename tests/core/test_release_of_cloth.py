"""Start of cloth and ropes that are released from rest out of balance: the law's path from the first substep on."""

from __future__ import annotations

import math
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
from dampsim.core.settle.first_mode import FirstModeLaw, first_mode_law
from dampsim.core.system.state import State
from settle_cases import make_simulation

SETTLE = 1.0
BODIES: dict[str, Callable[..., Body]] = {
    "rope": lambda **dials: hanging_bodies.rope(16, **dials),
    "flag": lambda **dials: hanging_bodies.flag(8, **dials),
}


def released_mode(law: FirstModeLaw, ratio: float, h: float, steps: int, use_fallback: bool = False) -> np.ndarray:
    """Return the deflections (steps + 1,) of a mode after a release from 1 at rest. ratio: of its eigenvalue."""
    found = law.fallback_coefficients(h) if use_fallback else law.coefficients(h)
    # Stiffness over inertia of the mode in a step, and its load 0.
    q = h * float(found.inertia_time) * ratio * law.eigenvalue
    x, change = [1.0], 0.0
    for number in range(steps):
        lag = float(found.initial_force_change if number == 0 else found.force_lag)
        load = float(found.sigma) * q * change + lag * q * x[-1]
        x.append((x[-1] + float(found.kappa) * change + load) / (1.0 + q))
        change = x[-1] - x[-2]
    return np.array(x)


@pytest.mark.parametrize("h", [1 / 12, 1 / 24, 1 / 60, 1 / 480])
@pytest.mark.parametrize("overshoot", [0.1, 0.3, 0.5])
@pytest.mark.parametrize("is_slack", [False, True])
def test_released_mode_follows_its_law(h: float, overshoot: float, is_slack: bool) -> None:
    """The first mode has the law's deflection after every substep, of any length up to that at which kappa is 1."""
    law = replace(first_mode_law(SETTLE, overshoot, 14.0, has_slack_modes=True), can_snap_taut=is_slack)
    if is_slack:
        h = min(h, 1.9 * law.decay / law.natural_frequency**2)
    times = h * np.arange(13)
    np.testing.assert_allclose(released_mode(law, 1.0, h, 12), law.release_response(times), atol=1e-9)


@pytest.mark.parametrize("overshoot", [0.05, 0.3, 0.5])
@pytest.mark.parametrize("ratio", [3.0, 10.0])
def test_short_steps_damp_faster_modes(overshoot: float, ratio: float) -> None:
    """A faster mode of a slack sheet moves alike in short and in long substeps, and not so without the lag."""
    law = replace(first_mode_law(SETTLE, overshoot, 14.0, has_slack_modes=True), can_snap_taut=True)
    # The longest step resolves the mode.
    h = 0.3 / math.sqrt(ratio) / law.natural_frequency
    paths = {
        name: [released_mode(law, ratio, h / count, 40 * count, name == "without")[::count] for count in (1, 8)]
        for name in ("with", "without")
    }
    errors = {name: float(np.abs(long - short).max()) for name, (long, short) in paths.items()}
    assert errors["with"] < 0.5 * errors["without"]


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


@pytest.mark.parametrize("rate", [(12, 1), (24, 3), (60, 1)], ids=["12 fps", "24 fps", "60 fps"])
@pytest.mark.parametrize("bounce", [20.0, 50.0])
def test_flags_follow_one_path(rate: tuple[int, int], bounce: float) -> None:
    """A flag follows one path at any rate and with any number of substeps, within 2% of the swing.

    Without the lag of short substeps, the worst distance is 0.04.
    """
    dials, pull = {"bounce": bounce, "bounce_by": BounceBy.DIALLED}, np.array([0.0, 8.0, 0.0])
    exact, other = (path(BODIES["flag"], *one, pull, **dials) for one in ((24, 8), rate))
    swing = np.linalg.norm(exact - exact[-1], axis=2).max()
    assert np.linalg.norm(other - exact, axis=2).max() < 0.02 * swing


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
