"""Reported stretch of cloth and ropes against their actual stretch."""

from __future__ import annotations

import numpy as np
import pytest
from hanging_bodies import rope

from builders import gridded_box, scene, static_body
from dampsim.core.measure.contact_results import contact_summary, has_contact_findings
from dampsim.core.measure.report import BodyContactSummary, ShotReport
from dampsim.core.simulation.simulation import Simulation
from shapes import sheet

pytestmark = pytest.mark.kernel


@pytest.mark.parametrize("young", [1e4, 30.0])
def test_rope_stretch_report_under_gravity(young: float) -> None:
    """The stretch of a rope is reported if it exceeds 10%."""
    simulation = Simulation(scene(rope(stiffness=young), last=2))
    frame = list(simulation.frames())[-1]
    found = contact_summary(simulation, frame.state, "Rope").stretched
    # The uppermost of 20 segments carries all mass but half of its own: rho g L/E, in kPa.
    longer = 9.81 * (1.0 - 0.5 / 20.0) / young
    assert found == (pytest.approx(longer, rel=1e-6) if longer > 0.1 else 0.0)


def test_sheet_stretch_report_is_maximum() -> None:
    square = sheet(9)
    pins = (square.vertices[:, 1] > square.vertices[:, 1].max() - 1e-9).astype(float)
    dials = {"thickness": 1.0, "density": 200.0, "bending": 1.0, "stiffness": 12.0}
    simulation = Simulation(scene(static_body(square, pins, kind="CLOTH", **dials), last=2))
    frame = list(simulation.frames())[-1]
    worst = 0.0
    for corners in square.triangles:
        flat, now = square.vertices[corners], frame.state.positions[corners]
        edges = np.column_stack([flat[1] - flat[0], flat[2] - flat[0]])
        # Express the triangle in two coordinates of its rest plane.
        plane = np.linalg.svd(edges)[0][:, :2]
        stretch = np.column_stack([now[1] - now[0], now[2] - now[0]]) @ np.linalg.inv(plane.T @ edges)
        worst = max(worst, float(np.linalg.svd(stretch)[1].max()) - 1.0)
    assert worst > 0.1
    assert contact_summary(simulation, frame.state, square.name).stretched == pytest.approx(worst, rel=1e-9)


def test_solids_report_no_stretch() -> None:
    block = static_body(gridded_box("Block", (0.0, 0.0, 0.0), (0.2, 0.2, 0.2), 0.1), stiffness=1.0, resolution=50)
    simulation = Simulation(scene(block, last=2))
    assert not has_contact_findings(simulation.islands[0].system)
    assert contact_summary(simulation, list(simulation.frames())[-1].state, "Block") == BodyContactSummary()


def test_report_keeps_first_maximum_frame() -> None:
    frames = [
        (1, BodyContactSummary(stretched=0.2)),
        (2, BodyContactSummary(stretched=0.5)),
        (3, BodyContactSummary(stretched=0.5)),
        (4, BodyContactSummary()),
    ]
    assert ShotReport.from_frames(frames).stretched == (2, 0.5)
