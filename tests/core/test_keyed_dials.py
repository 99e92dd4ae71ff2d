"""Dials keyed while a body calms down: the rest of the motion goes on at the new pace (physics, section 2)."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest
from hanging_bodies import tail

from animated import AnimatedBody
from builders import DOWN
from dampsim.core.scene.parameters import BounceBy, DampingBy
from dampsim.core.settle.waveform import REST_FRACTION
from settle_cases import displacements_after_stop, pinned_body, translation_motion
from shapes import box, horn

# Frame of the stop, see settle_cases.py, and the longest Settle.
STOP, LONGEST = 5.0, 48.0
Keyed = Callable[[float], float]

# Settle in frames by frame: a jump, both ways, and ramps of 12 frames.
CURVES: dict[str, Keyed] = {
    "jump to longer": lambda frame: 24.0 if frame <= STOP + 8.0 else 48.0,
    "jump to shorter": lambda frame: 48.0 if frame <= STOP + 12.0 else 16.0,
    "ramp to longer": lambda frame: float(np.interp(frame, [STOP + 4.0, STOP + 16.0], [20.0, 48.0])),
    "ramp to shorter": lambda frame: float(np.interp(frame, [STOP + 4.0, STOP + 16.0], [48.0, 24.0])),
}


BODIES = {
    "bar": lambda **more: pinned_body(box((1.0, 0.15, 0.15)), 0.05, **more),
    "horn": lambda **more: pinned_body(horn(), 0.05, **more),
    "bar by its first mode": lambda **more: pinned_body(
        box((1.0, 0.15, 0.15)), 0.05, damping_by=DampingBy.FIRST_MODE, **more
    ),
    "hanging tail": lambda **more: tail(**{**more, "bounce_by": BounceBy.DIALLED}),
}


def rest_frame(settle: Keyed, rest_phase: float = 1.0) -> float:
    """Return the frames after the stop at which a motion rests whose pace is 1/settle at each frame."""
    phase, frame = 0.0, 0.0
    while phase + 1.0 / settle(STOP + frame + 1.0) < rest_phase:
        frame += 1.0
        phase += 1.0 / settle(STOP + frame)
    return frame + (rest_phase - phase) * settle(STOP + frame + 1.0)


def rest_after_stop(body: AnimatedBody, settle: Keyed) -> float:
    """Return the frames after a stop at which a body rests."""
    keyed = replace(body, settings_by_frame=lambda frame: replace(body.settings, settle=settle(frame)))
    shapes, _, _ = displacements_after_stop(
        keyed, translation_motion(body.surface, np.array([0.0, 0.02, 0.0])), 24.0, DOWN * (body.kind == "ROPE")
    )
    distance = np.linalg.norm(shapes, axis=2).max(axis=1)
    limit = REST_FRACTION * distance.max()
    k = int(np.flatnonzero(distance > limit)[-1])
    return float(k + (distance[k] - limit) / (distance[k] - distance[k + 1]))


# The points of a rope are collinear. Its translation does not depend on the turn about their line.
@pytest.mark.filterwarnings("ignore:Optimal rotation is not uniquely")
@pytest.mark.parametrize("bounce", [0.0, 30.0])
@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=pytest.mark.slow) if "tail" in name else name for name in BODIES]
)
def test_keyed_settle_rests_on_time(name: str, bounce: float) -> None:
    """A body rests when its law's continuous curve does, which runs at the keyed pace from where it is."""
    body, late = BODIES[name](settle=LONGEST, bounce=bounce), {}
    # First Mode Only counts from a release.
    phase = rest_after_stop(body, lambda frame: 32.0) / 32.0
    for curve, settle in CURVES.items():
        wanted = rest_frame(settle, phase)
        late[curve] = (rest_after_stop(body, settle) - wanted) / max(1.0, 0.05 * wanted)
    assert np.abs(list(late.values())).max() < 1.0, late
