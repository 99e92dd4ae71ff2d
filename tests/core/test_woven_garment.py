"""A woven sleeve on a moving arm."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest
from woven_garment import ARM_RADIUS, SLEEVE_SIZE, STILL, arm_place, deepest_yarn, dressed_arm, sleeve, yarn_crossings

from dampsim.core.simulation.simulation import Simulation
from dampsim.core.yarns.yarns import trace_yarns


def test_sleeve_consists_of_closed_yarns() -> None:
    """Closed yarns around the sleeve cross those along it, and end it as hems."""
    body = sleeve(8)
    yarns = trace_yarns(body.surface.vertices, body.edges, body.surface.triangles)
    assert sorted((len(yarn.nodes), yarn.closed) for yarn in yarns) == [(8, True)] * 10 + [(10, False)] * 8


@pytest.mark.slow
def test_sleeve_follows_moving_arm() -> None:
    """A sleeve stays on an arm that accelerates, stops and turns, and rests with it."""
    made = dressed_arm(20, 30, substeps=3)
    (body,), (arm,) = made.bodies, made.colliders
    frames = list(Simulation(made).frames())
    for frame in frames:
        # No step failed or came to an early end.
        assert not frame.guards
        assert deepest_yarn(frame, body, arm) < 1e-3 * SLEEVE_SIZE
    assert not any(yarn_crossings(before, after, body) for before, after in pairwise(frames))
    middle = arm_place(frames[-1].number, np.zeros((1, 3)))[0]
    assert np.linalg.norm(frames[-1].shapes["Sleeve"].mean(axis=0) - middle) < ARM_RADIUS
    last = frames[-1].shapes["Sleeve"]
    # It swings by 8% of its size when the arm comes to rest, and by less than 1% to either side after Settle.
    for frame in frames[int(STILL + body.settings.settle) :]:
        assert np.linalg.norm(frame.shapes["Sleeve"] - last, axis=1).max() < 0.02 * SLEEVE_SIZE


@pytest.mark.slow
def test_calm_steps_of_large_cloth_converge() -> None:
    """No step of 1,000 crossings spends the work of its frame; if work counted nodes as elsewhere, two frames would."""
    assert not any(frame.guards for frame in Simulation(dressed_arm(32, 4, substeps=4)).frames())
