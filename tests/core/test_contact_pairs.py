"""Random bodies that fall on each other and on the floor never are inside of each other where one could see it.

Sharp and round, small and large, soft and stiff, quick and slow ones, tilted. DAMPSIM_PAIRS says how many of them there
are, of which a third is not convex; with 150 it takes about an hour.
"""

from __future__ import annotations

import os

import pytest

from dampsim.core.measure.contacts import SEEN
from dampsim.core.simulation.simulation import Simulation
from pairs import Pair, crosses, random_pair, visible_depth

_COUNT = int(os.environ.get("DAMPSIM_PAIRS", "12"))


def deepest(pair: Pair) -> tuple[float, int, bool]:
    """How deep anything is in anything at any frame, over the smaller size; at which frame, and if so at the end."""
    worst, when, shapes = 0.0, 0, None
    for frame in Simulation(pair.scene).frames():
        shapes = frame.shapes
        depth = visible_depth(pair, shapes)
        if depth > worst:
            worst, when = depth, frame.number
    assert shapes is not None
    return worst, when, crosses(pair, shapes)


@pytest.mark.parametrize(("seed", "concave"), [(2, False), (16, False), (103, True)])
def test_what_falls_on_something_stays_outside_of_it(seed: int, concave: bool) -> None:
    worst, when, crossing = deepest(random_pair(seed, concave, last=24))
    assert worst <= SEEN, when
    assert not crossing


@pytest.mark.long
@pytest.mark.parametrize("number", range(_COUNT))
def test_random_bodies_stay_outside_of_each_other(number: int) -> None:
    concave = number % 3 == 2
    worst, when, crossing = deepest(random_pair(100 + number // 3 if concave else number - number // 3, concave))
    assert worst <= SEEN, when
    assert not crossing
