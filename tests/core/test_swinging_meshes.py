"""Bodies of all kinds on meshes that swing: they neither explode nor sink in, and no step fails."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from violent_scenes import BODIES, random_hit, run_violent

pytestmark = pytest.mark.slow

# Seeds per kind of body, 40 runs in all, and the last frame of each.
SEEDS, LAST = 5, 13
# Nets that fall flat onto the mesh spend their work, and end frames 6 to 7.1% deep (decision 0110).
DEEP = {("SPRINGS", 0): 0.08, ("SPRINGS", 2): 0.08}


@pytest.mark.parametrize("kind", BODIES)
@pytest.mark.parametrize("seed", range(SEEDS))
def test_body_on_swinging_mesh(kind: str, seed: int) -> None:
    """Sizes and depths are relative to those at rest; a simulation raises an error if a step fails."""
    frames = list(run_violent(replace(random_hit("ride", kind, seed), last=LAST)))
    assert len(frames) == LAST
    assert np.isfinite([(frame.speed, frame.size, frame.energy) for frame in frames]).all()
    assert max(frame.size for frame in frames) <= 1.2
    assert max(frame.depth for frame in frames) <= DEEP.get((kind, seed), 0.05)
