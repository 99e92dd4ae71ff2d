"""The preconditioner of pinned bodies has no inertia, so keyed dials need no new factorisation."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from animated import AnimatedScene
from builders import DOWN, bar
from dampsim.core.objective import factorised_system, inertia
from dampsim.core.scene.body import Body
from dampsim.core.scene.parameters import Settings
from dampsim.core.simulation.simulation import Simulation

pytestmark = pytest.mark.kernel

LAST = 12
KEYFRAMES: dict[str, Callable[[Settings, float], dict[str, float]]] = {
    "settle": lambda at, frame: {"settle": at.settle + 0.7 * frame},
    "bounce": lambda at, frame: {"bounce": at.bounce + 0.4 * frame},
    "stiffness": lambda at, frame: {"stiffness": at.stiffness * (1.0 + 0.1 * frame)},
}


def shaken_keyed_bar(dial: str, **more: Any) -> Body:
    """Return a bar with shaking pins and one dial that is keyed at every frame."""
    body = bar("Bar", 0.0, 1.0, True, resolution=600, **more)
    rest, at = body.surface.vertices, body.settings
    return replace(
        body,
        motion=lambda frame: rest + np.array([0.0, 0.05 * np.sin(0.8 * frame), 0.0]),
        settings_by_frame=lambda frame: replace(at, **KEYFRAMES[dial](at, frame)),
        settings=replace(at, **KEYFRAMES[dial](at, 1.0)),
    )


def count_factorisations(body: Body, monkeypatch: pytest.MonkeyPatch) -> tuple[int, np.ndarray, float]:
    """Return the number of factorisations, the surfaces (frames, v, 3) and the mean iterations per frame."""
    taken, plain = [0], factorised_system.build_preconditioner

    def counted(*what: Any) -> Any:
        taken[0] += 1
        return plain(*what)

    simulation = Simulation(AnimatedScene((body,), 24.0, DOWN, 1, LAST))
    frames = simulation.frames()
    shapes, iterations = [next(frames).surface], []
    with monkeypatch.context() as patched:
        patched.setattr(factorised_system, "build_preconditioner", counted)
        for frame in frames:
            shapes.append(frame.surface)
            iterations.append(frame.iterations)
    return taken[0], np.array(shapes), float(np.mean(iterations))


@pytest.mark.parametrize("dial", KEYFRAMES)
def test_keyed_dial_factorises_once(dial: str, monkeypatch: pytest.MonkeyPatch) -> None:
    count, _, _ = count_factorisations(shaken_keyed_bar(dial), monkeypatch)
    # Bounce changes the number of substeps: two step lengths occur here.
    assert count <= (2 if dial == "bounce" else 1)


def test_whip_factorises_at_each_key(monkeypatch: pytest.MonkeyPatch) -> None:
    """A preconditioner with inertia is factorised at each key."""
    # With Whip, inertia dominates the first mode, so this case shows that factorisations are counted.
    count, _, _ = count_factorisations(shaken_keyed_bar("settle", whip=3.0), monkeypatch)
    assert count == LAST - 1


@pytest.mark.parametrize("dial", KEYFRAMES)
def test_inertia_free_preconditioner_keeps_frames(dial: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """A preconditioner without inertia gives the same frames as one with it, in about as many iterations."""
    _, light, few = count_factorisations(shaken_keyed_bar(dial), monkeypatch)
    monkeypatch.setattr(inertia, "_NEGLIGIBLE_THETA_Q", np.inf)
    count, heavy, most = count_factorisations(shaken_keyed_bar(dial), monkeypatch)
    assert count > 1
    # Each of the two has an error of up to a thousandth of the motion.
    assert np.abs(light - heavy).max() < 2e-3 * np.abs(heavy - heavy[0]).max()
    assert few <= 1.1 * most
