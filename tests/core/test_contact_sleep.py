"""Sleep of resting bodies: it ends when the surroundings change, and does not alter the motion."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest

from builders import scene
from dampsim.core.frames.frame import Frame
from dampsim.core.scene.body import Body
from dampsim.core.scene.parameters import ColliderSettings
from dampsim.core.scene.scene import Collider, Scene
from dampsim.core.simulation.simulation import Simulation
from dampsim.core.steppers import implicit
from supports import block, plane

SIZE = 0.2 * 3**0.5
R = 0.005 * SIZE
# Frame in the step to which the block wakes; it sleeps long before.
WOKEN = 80


def resting_block(**more: float) -> Body:
    return block(low=(0, 0, 0.95 * R), settle=6.0, friction=0.8, **more)


def with_keyed_setting(name: str, value: float) -> Body:
    body = resting_block()
    changed = replace(body.settings, **{name: value})
    return replace(body, settings_by_frame=lambda frame: changed if frame >= WOKEN else body.settings)


def floor_friction(frame: float) -> ColliderSettings:
    return ColliderSettings(roughness=1.0 if frame < WOKEN else 0.0)


def floor_path(frame: float) -> np.ndarray:
    return np.array([0.0, 0.0, 0.01 * max(frame - WOKEN + 1.0, 0.0)])


SLOPE = 9.81 * np.array([0.5, 0.0, -0.8])


def slope_scene(body: Body, floor: Collider | None = None) -> Scene:
    return scene(body, last=WOKEN + 12, gravity=SLOPE, colliders=(floor or plane(),))


CHANGES: dict[str, Callable[[], Scene]] = {
    "nothing": lambda: slope_scene(resting_block()),
    "friction": lambda: slope_scene(with_keyed_setting("friction", 0.0)),
    "contact distance": lambda: slope_scene(with_keyed_setting("contact_distance", 0.01)),
    "roughness of the floor": lambda: slope_scene(resting_block(), replace(plane(), settings_by_frame=floor_friction)),
    "the floor rises": lambda: slope_scene(resting_block(), plane(path=floor_path)),
}


def frames(wanted: Scene) -> list[Frame]:
    return list(Simulation(wanted).frames())


@pytest.mark.parametrize(
    "way", [pytest.param(way, marks=() if way == "friction" else pytest.mark.slow) for way in CHANGES]
)
def test_resting_block_sleeps_and_wakes(way: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """A resting block sleeps, wakes when its support changes, and moves as without sleep."""
    asleep = frames(CHANGES[way]())
    monkeypatch.setattr(implicit, "is_asleep", lambda *args: False)
    awake = frames(CHANGES[way]())
    slept = {frame.number for frame in asleep if frame.iterations == 0}
    assert set(range(WOKEN - 10, WOKEN)) <= slept
    assert (WOKEN in slept) == (way == "nothing")
    off = np.array([np.abs(a.surface - b.surface).max() for a, b in zip(asleep, awake, strict=True)])
    # It falls asleep when a step is below 1e-8 of the size. Moving steps are solved to their tolerance; where friction
    # sticks anew that is up to a tenth of its limit (docs/decisions/0017).
    assert off[: WOKEN - 1].max() < 1e-6 * SIZE
    assert off.max() < 3e-4 * SIZE
    still = [frame.state.positions.tobytes() for frame in asleep[WOKEN - 10 : WOKEN - 1]]
    assert len(set(still)) == 1
    if way == "friction":
        assert asleep[-1].surface[:, 0].mean() - asleep[0].surface[:, 0].mean() > 0.2
    # A restart from a frame with sleep is identical to the bit.
    monkeypatch.undo()
    rest = list(Simulation(CHANGES[way]()).frames(asleep[WOKEN - 6]))
    for one, other in zip(rest, asleep[WOKEN - 5 :], strict=True):
        assert one.state.positions.tobytes() == other.state.positions.tobytes()


def test_flying_block_does_not_sleep() -> None:
    floating = scene(block(low=(0, 0, 1.0)), last=12, gravity=np.zeros(3), colliders=(plane(),))
    falling = scene(block(low=(0, 0, 1.0)), last=12, colliders=(plane(),))
    assert frames(falling)[-1].surface[:, 2].min() < 0.1
    assert np.abs(frames(floating)[-1].surface - frames(floating)[0].surface).max() < 1e-12
