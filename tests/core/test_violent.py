"""Violent shots are bounded: bodies of all kinds that fast colliders, plates and jumping pins hit.

No time is measured, only the work that the meters of the frames count.
"""

from __future__ import annotations

import numpy as np
import pytest
from violent_scenes import HIT_FRAMES, impact_speed, random_violent_scene, run_violent, violent_scene

from dampsim.core.scene.scene import Scene
from dampsim.core.steppers.step_policy import SpentWork

pytestmark = pytest.mark.slow
# Work of a frame beyond its budget: the parts that bring its last step to an end.
MAX_EXTRA_WORK = 1000.0
# Speed that a body reaches without any impact, m/s, and largest speed relative to the impact.
HARMLESS_SPEED, MAX_SPEED_RATIO = 5.0, 1.5
MAX_DEPTH = 0.05
# In these seeds a pin is in the way of a collider.
HELD_IN_COLLIDER = {16}


def check(made: Scene, is_held: bool = False) -> None:
    frames = list(run_violent(made))[1:]
    assert max(one.work for one in frames) <= SpentWork().budget + MAX_EXTRA_WORK
    assert np.isfinite([one.size for one in frames]).all()
    # Whoever falls on after the impact gains speed by weight.
    gains = [np.linalg.norm(made.gravity) * (one.number - 1) / made.fps for one in frames]
    fastest = max(one.speed - gain for one, gain in zip(frames, gains, strict=True))
    assert fastest <= MAX_SPEED_RATIO * max(impact_speed(made), HARMLESS_SPEED)
    assert is_held or max(one.depth for one in frames) <= MAX_DEPTH
    assert is_held or max(one.depth for one in frames if one.number > 1 + HIT_FRAMES + 6) < 2e-3


@pytest.mark.parametrize("seed", range(20))
def test_random_violence_is_bounded(seed: int) -> None:
    check(random_violent_scene(seed), seed in HELD_IN_COLLIDER)


@pytest.mark.parametrize("name", ["bar:SOLID", "teleport:SOLID", "hammer:WEAVE", "hammer:SPRINGS", "jump:CLOTH"])
def test_worst_scenes_are_bounded(name: str) -> None:
    check(violent_scene(*name.split(":")))
