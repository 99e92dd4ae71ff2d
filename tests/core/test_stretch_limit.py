"""Strain limit of sheets after rough steps."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from scipy.sparse import csr_matrix
from test_cloth_contact import cloth

from builders import scene
from dampsim.core.contact.penalty_and_friction import ContactSet
from dampsim.core.materials import Membrane
from dampsim.core.settle.work_meter import WorkMeter
from dampsim.core.simulation.simulation import Simulation
from dampsim.core.steppers.step_policy import StepPolicy
from dampsim.core.steppers.step_task import StepTask
from dampsim.core.steppers.stretch_limit import ExcessiveStretch, SheetEdges, StretchLimit
from dampsim.core.steppers.violence import Violence
from dampsim.core.system.state import State

H = 1.0 / 96.0
GUARD = ExcessiveStretch()


class Sheet:
    """Square metre of cloth, whose calm parts of steps are limited."""

    def __init__(self, stiffness_map: float | None = None, is_half_pinned: bool = False, **dials: object) -> None:
        body = cloth(25, 0.0, **{"stiffness": 1000.0, **dials})
        if stiffness_map is not None:
            body = replace(body, stiffness_map=np.full(len(body.surface.vertices), stiffness_map))
        if is_half_pinned:
            body = replace(body, pins=(body.surface.vertices[:, 0] < 0.0).astype(float))
        self.simulation = Simulation(scene(body, last=2))
        self.stepper = self.simulation.statics.steppers[0]
        self.system = self.stepper.system
        self.limit = StretchLimit(self.system)
        self.rest = self.system.rest
        self.part = self.make_part()

    def make_part(self) -> StepTask:
        at_rest, inputs = State.at_rest(self.rest), self.system.stationary_inputs()
        controls = self.simulation.controls()[0]
        return StepTask(self.system, at_rest, inputs, H, controls, None, None, WorkMeter(), Violence())

    @property
    def edges(self) -> SheetEdges:
        (edges,) = self.limit.edges(self.part.state, self.part.inputs, self.part.controls.stiffness_per_block(1))
        return edges

    def strains(self, x: np.ndarray) -> np.ndarray:
        return self.edges.strains(x)

    def limited(self, x: np.ndarray, guard: ExcessiveStretch = GUARD, contacts: ContactSet | None = None) -> State:
        """Return the state after a calm part that ended at x (n, 3) m."""
        after = replace(State.at_rest(self.rest), positions=x)
        return guard.limit_part(self.part, after, self.limit, contacts, 0.01)

    def pulled(self, distance: float) -> np.ndarray:
        """Return positions with one inner node moved in the plane. distance: m."""
        x = self.rest.copy()
        x[self.middle] += np.array([0.8, 0.6, 0.0]) * distance
        return x

    @property
    def middle(self) -> int:
        return int(np.linalg.norm(self.rest - self.rest.mean(axis=0), axis=1).argmin())


@pytest.fixture(scope="module")
def sheet() -> Sheet:
    return Sheet()


def test_rest_lengths_are_those_of_mesh(sheet: Sheet) -> None:
    np.testing.assert_allclose(sheet.strains(sheet.rest), 0.0, atol=1e-12)
    np.testing.assert_allclose(sheet.strains(1.1 * sheet.rest), 0.1, atol=1e-12)


def test_long_edges_are_shortened(sheet: Sheet) -> None:
    x = sheet.pulled(4e-3)
    assert sheet.strains(x).max() > 0.06
    after = sheet.limited(x)
    assert sheet.strains(after.positions).max() <= 0.026
    moved = np.linalg.norm(after.positions - x, axis=1)
    far = np.linalg.norm(sheet.rest - sheet.rest[sheet.middle], axis=1) > 0.45
    assert moved[far].max() == 0.0
    np.testing.assert_allclose(after.velocities, (after.positions - x) / H, atol=1e-12)


def test_limit_keeps_momentum(sheet: Sheet) -> None:
    x = sheet.pulled(4e-3)
    impulses = sheet.system.mass[:, None] * sheet.limited(x).velocities
    assert np.abs(impulses).max() > 1e-5
    np.testing.assert_allclose(impulses.sum(axis=0), 0.0, atol=1e-15)
    np.testing.assert_allclose(np.cross(x, impulses).sum(axis=0), 0.0, atol=1e-3 * np.abs(impulses).max())


def test_limit_is_counted(sheet: Sheet) -> None:
    sheet.part.counts.clear()
    sheet.limited(sheet.rest)
    assert sheet.part.counts[ExcessiveStretch] == 0
    sheet.limited(sheet.pulled(4e-3))
    assert sheet.part.counts[ExcessiveStretch] == 1


def test_limit_can_be_switched_off(sheet: Sheet) -> None:
    x = sheet.pulled(4e-3)
    assert sheet.limited(x, StepPolicy().without(ExcessiveStretch).excessive_stretch).positions is x


def test_stretched_sheet_is_left(sheet: Sheet) -> None:
    """Pins or loads that stretch the whole sheet cannot be countered edge by edge."""
    x = 1.1 * sheet.rest
    assert sheet.limited(x).positions is x


def test_soft_sheet_is_left() -> None:
    """A sheet that stretches by 1.6% under its own weight may reach 16%."""
    soft = Sheet(stiffness=120.0)
    x = soft.pulled(4e-3)
    assert soft.strains(x).max() > 0.06
    assert soft.limited(x).positions is x


def test_painted_stiffness_is_no_weight(sheet: Sheet) -> None:
    """Paint divides the strain under the weight by the stiffness that it leaves. It did so twice."""
    painted = Sheet(stiffness_map=0.5)
    (membrane,) = (one for one in painted.system.blocks[0].energies if isinstance(one, Membrane))
    left = float(membrane.weights.sum())  # of one square metre
    assert left < 0.5
    np.testing.assert_allclose(left * painted.edges.hanging_strain, sheet.edges.hanging_strain, rtol=1e-9)


def test_edges_of_pins_do_not_count() -> None:
    """Pins that move apart stretch the edges between them, which no impulse can shorten."""
    held = Sheet(is_half_pinned=True)
    x = held.rest.copy()
    x[int(x[:, 0].argmin()) + 40] += [0.0, 0.01, 0.0]
    assert held.strains(x).max() > GUARD.max_strain
    held.limited(x)
    assert held.part.counts[ExcessiveStretch] == 0


def test_limit_keeps_contacts_apart(sheet: Sheet) -> None:
    """A node that a contact holds moves only along its surface."""
    node, count = sheet.middle, len(sheet.rest)
    normal = np.array([[1.0, 0.0, 0.0]])
    x = sheet.pulled(4e-3)
    weights = csr_matrix(([1.0], ([0], [node])), shape=(1, count))
    one, none = np.ones(1), np.zeros((1, 3))
    contact = ContactSet(weights, none, normal, 0.01 * one, x[[node], 0], one, one, none, np.zeros((1, 4), int), none)
    assert sheet.limited(x).positions[node, 0] < x[node, 0] - 1e-4
    after = sheet.limited(x, contacts=contact).positions
    assert after[node, 0] >= x[node, 0] - 1e-9
    assert sheet.strains(after).max() <= 0.03
