"""The promise: N frames after the stop it is at rest, in any direction, on shapes that the law was not made with."""

from __future__ import annotations

import numpy as np
import pytest
from promise import along, direction, made, poke, released, stop, straight, turning

from shapes import belly, dumbbell, ear, horn, horseshoe

SHAPES = {"horn": horn, "ear": ear, "dumbbell": dumbbell, "horseshoe": horseshoe, "belly": belly}


@pytest.mark.slow
@pytest.mark.parametrize("bounce", [0.0, 10.0, 30.0])
@pytest.mark.parametrize("shape", SHAPES)
def test_any_stop_and_any_release_rests_at_the_dialled_frame(shape: str, bounce: float) -> None:
    rng = np.random.default_rng([5, list(SHAPES).index(shape)])
    surface = SHAPES[shape]()
    wrong = []
    for k in range(20):
        settle = float(rng.choice([8, 12, 24, 48]))
        body = made(surface, 0.05, settle=settle, bounce=bounce)
        if k % 4 == 3:
            outcome = stop(body, turning(surface, 0.5 * direction(rng)), 24.0)
        else:
            outcome = stop(body, straight(surface, 0.2 * direction(rng)), 24.0)
        late = outcome.rest - settle
        if abs(late) > max(1.0, 0.05 * settle) or outcome.overshoot > bounce / 100.0 + 0.10:
            wrong.append(("stop", k, settle, outcome))
        load = poke(rng, surface) if k % 4 == 3 else along(direction(rng))
        outcome = released(body, load, 0.05, 24.0)
        if not 0.8 * settle <= outcome.rest <= 1.05 * settle or outcome.overshoot > bounce / 100.0 + 0.10:
            wrong.append(("release", k, settle, outcome))
        if bounce == 0.0 and outcome.overshoot > 0.02:
            wrong.append(("swings back", k, settle, outcome))
    assert not wrong
