"""Draft: fewer elements with the same effect of Settle and Bounce."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from test_cloth import strip

from builders import net, run_to_end, scene, static_body, strutted_rod, wire
from dampsim.core.bodies import coarsen_body, kind_by_name, resolution_parameter
from dampsim.core.measure.calibrate import release_test
from dampsim.core.scene.body import Body
from dampsim.core.simulation.simulation import Simulation
from shapes import tube


def rod() -> Body:
    surface = tube(1.0, 0.08, 24, 12)
    pins = (surface.vertices[:, 2] < 0.06).astype(float)
    return static_body(surface, pins, resolution=1500, stiffness=2500.0, settle=24.0, bounce=40.0)


def sheet() -> Body:
    return strip(60)


def node_count(body: Body) -> int:
    return len(kind_by_name(body.kind).build(body).block.rest)


@pytest.mark.parametrize("make", [rod, sheet, strutted_rod])
def test_draft_reduces_only_resolution(make: object) -> None:
    body = make()  # type: ignore[operator]
    body = replace(body, settings=replace(body.settings, resolution=1500))
    draft, name = coarsen_body(body, 0.3), resolution_parameter(body)
    assert name
    # The surface of a thin body keeps more nodes than the fraction.
    assert node_count(draft) < 0.6 * node_count(body)
    same = replace(draft, settings=replace(draft.settings, **{name: getattr(body.settings, name)}))
    assert same == body


@pytest.mark.parametrize("make", [net, lambda: wire("Wire", np.linspace(0.0, 1.0, 9)[:, None] * [1.0, 0.0, 0.0])])
def test_mesh_bound_bodies_have_no_draft(make: object) -> None:
    """Nets and wires take their nodes from the mesh, so a draft leaves them unchanged."""
    body = make()  # type: ignore[operator]
    assert coarsen_body(body, 0.1) is body


def test_draft_keeps_settle_and_bounce() -> None:
    found = []
    for body in (rod(), coarsen_body(rod(), 0.2)):
        curve = run_to_end(release_test(Simulation(scene(body)), body.name, 0.02))
        # Bounds for a release in test_stop_and_release.py: 0.8 to 1.05 of Settle, and 10 percentage points.
        assert 0.8 * 24.0 < curve.rest < 1.05 * 24.0
        assert curve.overshoot == pytest.approx(0.4, abs=0.1)
        found.append(curve)
    full, draft = found
    assert draft.rest == pytest.approx(full.rest, abs=1.0)
