"""Draft: fewer elements, and dials that mean the same."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from test_cloth import strip
from test_shot import ended

from builders import net, scene, still, strutted, wire
from dampsim.core.bodies.draft import drafted, fineness
from dampsim.core.bodies.registry import kind
from dampsim.core.measure.calibrate import release_test
from dampsim.core.scene.body import Body
from dampsim.core.simulation.simulation import Simulation
from shapes import tube


def rod() -> Body:
    surface = tube(1.0, 0.08, 24, 12)
    pins = (surface.vertices[:, 2] < 0.06).astype(float)
    return still(surface, pins, resolution=1500, stiffness=2500.0, settle=24.0, bounce=40.0)


def sheet() -> Body:
    return strip(60)


def count(body: Body) -> int:
    return len(kind(body.kind).build(body).block.rest)


@pytest.mark.parametrize("make", [rod, sheet, strutted])
def test_a_draft_has_about_its_part_of_the_nodes_and_differs_in_nothing_else(make: object) -> None:
    body = make()  # type: ignore[operator]
    body = replace(body, settings=replace(body.settings, resolution=1500))
    draft, name = drafted(body, 0.3), fineness(body)
    assert name
    # Of thin bodies' tetrahedra the surface alone keeps more nodes than their part.
    assert count(draft) < 0.6 * count(body)
    same = replace(draft, settings=replace(draft.settings, **{name: getattr(body.settings, name)}))
    assert same == body


@pytest.mark.parametrize("make", [net, lambda: wire("Wire", np.linspace(0.0, 1.0, 9)[:, None] * [1.0, 0.0, 0.0])])
def test_what_its_mesh_alone_makes_has_no_draft(make: object) -> None:
    body = make()  # type: ignore[operator]
    assert drafted(body, 0.1) is body


def test_a_draft_rests_and_bounces_as_dialled() -> None:
    found = []
    for body in (rod(), drafted(rod(), 0.2)):
        curve = ended(release_test(Simulation(scene(body)), body.name, 0.02))
        # As docs/validation/settle.md has it of a release: 0.8 to 1.05 of the dial, and 10 percentage points.
        assert 0.8 * 24.0 < curve.rest < 1.05 * 24.0
        assert curve.overshoot == pytest.approx(0.4, abs=0.1)
        found.append(curve)
    full, draft = found
    assert draft.rest == pytest.approx(full.rest, abs=1.0)
