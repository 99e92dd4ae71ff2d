"""Potential, friction and stiffness of contacts against the formulas of docs/explanation/physics/07-contact.md."""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest
from contact_cases import COUNT, NODES, random_rows
from scipy.sparse import csr_matrix, diags

from builders import gridded_box, scene, static_body
from dampsim.core.contact.penalty_and_friction import ContactPotential, ContactSet, PenaltyScaling
from dampsim.core.contact_response import impacts
from dampsim.core.contact_response.impacts import is_translating_support
from dampsim.core.settle.support_modes import (
    Support,
    SupportModes,
    compute_support_modes,
    destabilising_ratio,
    earliest_rest_time,
    law_overshoot,
    modal_damping,
)
from dampsim.core.settle.waveform import settle_law
from dampsim.core.simulation.simulation import Simulation
from references import contact


def reference_contacts(rows: ContactSet, pressing: np.ndarray) -> list[contact.Contact]:
    dense = rows.weights.toarray()
    return [
        contact.Contact(
            {node: float(w) for node, w in enumerate(dense[k]) if w},
            rows.base_offset[k], rows.normal[k], float(rows.distance[k]), float(rows.target_gap[k]),
            float(rows.stiffness[k]), float(rows.friction[k]), float(pressing[k]), rows.stick_anchor[k],
        )
        for k in range(len(rows))
    ]  # fmt: skip


@pytest.mark.parametrize("seed", range(3))
def test_contact_energy_and_derivatives_match_reference(seed: int) -> None:
    rows, pressing, x = random_rows(seed)
    energy, wanted = ContactPotential(rows, pressing), reference_contacts(rows, pressing)
    # All branches occur: open, pressing, beyond; sticking and sliding.
    assert set(np.unique(energy.contact_states(x) % 4)) == {0, 1, 2}
    assert set(np.unique(energy.contact_states(x) // 4)) == {0, 1}
    value, slope = energy.value_gradient(x)
    scale = contact.energy(wanted, x)
    # Sums of a few hundred products.
    assert value == pytest.approx(scale, rel=1e-12)
    expected = contact.gradient(wanted, x)
    np.testing.assert_allclose(slope, expected, atol=1e-12 * np.abs(expected).max())
    stiff = contact.hessian(wanted, x)
    np.testing.assert_allclose(energy.hessian(x).toarray(), stiff, atol=1e-12 * np.abs(stiff).max())
    np.testing.assert_allclose(energy.forces_at(x).force, [one.force(x) for one in wanted], rtol=1e-9)
    np.testing.assert_allclose(
        energy.retained_slip(x), [one.remaining_slip(x) for one in wanted], rtol=1e-9, atol=1e-15
    )


@pytest.mark.parametrize("seed", range(3))
def test_contact_derivatives_match_finite_differences(seed: int) -> None:
    rows, pressing, x = random_rows(seed)
    energy = ContactPotential(rows, pressing)
    step = 1e-8
    slope, stiff = energy.value_gradient(x)[1], energy.hessian(x).toarray()
    rng = np.random.default_rng(seed)
    for _ in range(5):
        way = rng.normal(size=x.shape)
        # The second derivative jumps where a branch changes within the step.
        assert np.array_equal(energy.contact_states(x + step * way), energy.contact_states(x - step * way))
        (up, after), (down, before) = (energy.value_gradient(x + sign * step * way) for sign in (1.0, -1.0))
        # Rounding error of a difference of 1e-8.
        assert (up - down) / (2 * step) == pytest.approx(float(np.vdot(slope, way)), rel=1e-6)
        found, wanted = ((after - before) / (2 * step)).ravel(), stiff @ way.ravel()
        np.testing.assert_allclose(found, wanted, atol=1e-6 * np.abs(wanted).max())


@pytest.mark.parametrize("seed", range(3))
def test_stiffness_factors_reproduce_contact_stiffness(seed: int) -> None:
    rows, pressing, x = random_rows(seed)
    energy = ContactPotential(rows, pressing)
    there = energy.contact_states(x)
    # Also as in the preconditioner, where contacts predicted deep count as half as deep.
    for branches in (there, np.where(there % 4 == 2, there - 1, there)):
        which, ways = energy.stiffness_vectors(x, branches)
        found = np.zeros((COUNT, 3, 3))
        np.add.at(found, which, ways[:, :, None] * ways[:, None, :])
        wanted = energy.stiffness_blocks(x, branches)
        # Rounding error of sums of a few products.
        np.testing.assert_allclose(found, wanted, atol=1e-13 * np.abs(wanted).max())
        # All kinds occur: open, sticking, sliding and frictionless contacts.
        assert set(np.bincount(which, minlength=COUNT)) == {0, 1, 2, 3}


def test_contact_potential_continuous_between_branches() -> None:
    rows, pressing, x = random_rows(5)
    way = np.asarray(rows.weights @ x)
    for depth in (0.0, -0.5 * rows.distance):
        there = rows.target_gap + depth
        base = rows.normal * there[:, None] - way
        values = []
        for off in (-1e-9, 1e-9):
            moved = replace(rows, base_offset=base + off * rows.distance[:, None] * rows.normal)
            values.append(ContactPotential(moved, pressing).value_gradient(x))
        assert values[0][0] == pytest.approx(values[1][0], rel=1e-7)
        np.testing.assert_allclose(values[0][1], values[1][1], atol=1e-6 * np.abs(values[0][1]).max())


def test_holding_stiffness_excludes_sliding_friction() -> None:
    rows, pressing, x = random_rows(1)
    energy = ContactPotential(rows, pressing)
    wanted = np.zeros((3 * NODES, 3 * NODES))
    for one, slides in zip(reference_contacts(rows, pressing), energy.contact_states(x) >= 4, strict=True):
        wanted += contact.hessian([replace(one, mu=0.0) if slides else one], x)
    np.testing.assert_allclose(energy.resting_stiffness(x).toarray(), wanted, atol=1e-12 * np.abs(wanted).max())


@pytest.mark.parametrize("bounce", [0.0, 0.1, 0.5])
def test_support_mode_damping_matches_settings(bounce: float) -> None:
    """Damping of support modes and the earliest rest time follow from Settle and Bounce."""
    law = settle_law(2.0, bounce, 1.2)
    rates = np.array([3.0, 40.0, 300.0, 2e3, 1e5, 1e7])
    held = SupportModes(10, 10, 1.0 / rates, np.eye(6))
    found = modal_damping(held, law)
    wanted = [contact.drag(rate, law.decay, law.frequency, law_overshoot(law)) for rate in rates]
    np.testing.assert_allclose(found, wanted, rtol=1e-12)
    # The equation of motion (7.10) then has the damping ratio of that overshoot, or a higher one.
    square = law.decay**2 + law.frequency**2 if bounce else 2.0 * law.decay**2
    first = 2.0 * law.decay / square if bounce else 1.5 / law.decay
    for rate, c in zip(rates, found, strict=True):
        m, d = 1.0 / rate + 1.0 / square, first + c / rate
        ratio = d / (2.0 * np.sqrt(m))
        least = -np.log(law_overshoot(law)) / np.hypot(np.pi, np.log(law_overshoot(law))) if bounce else 1.0
        assert ratio == pytest.approx(least) if c > 0.6 * law.decay else ratio >= least * (1.0 - 1e-9)
    if not bounce:
        # After a kick a mode rests at the Settle time for any stiffness, unless it would rest earlier by itself.
        t = np.linspace(0.1, 4.0, 400001)
        for rate, c in zip(rates[2:], found[2:], strict=True):
            slow, fast = np.sort(-np.roots([1.0 / rate + 1.0 / square, first + c / rate, 1.0]).real)
            swing = np.exp(-slow * t) - np.exp(-fast * t)
            assert t[np.flatnonzero(swing > 0.01 * swing.max())[-1]] == pytest.approx(2.0, rel=1e-3)
    # Sliding motion is not damped.
    free = modal_damping(SupportModes(10, 10, np.full(6, 1e9), np.eye(6)), law)
    assert free.max() < 1e-3 * law.decay
    # After a kick on the softest support, critically damped, it is below 1% of its peak after this time.
    for share in (1.0, 0.3):
        shares = np.array([share, 0.0, 0.0, 0.0, 0.0, 0.0])
        t = earliest_rest_time(held, law, shares) / np.sqrt(1.0 / 3.0 + 1.0 / square)
        assert t > 1.0
        assert share * t * np.exp(1.0 - t) == pytest.approx(0.01, rel=1e-9)
    # Modes below 1% do not count; of the others the one that rests last does.
    assert earliest_rest_time(held, law, np.array([0.009, 0.0, 0.0, 0.0, 0.0, 0.0])) == 0.0
    both = earliest_rest_time(held, law, np.array([0.02, 1.0, 0.0, 0.0, 0.0, 0.0]))
    alone = [
        earliest_rest_time(held, law, row)
        for row in (np.array([0.02, 0, 0, 0, 0, 0]), np.array([0.0, 1.0, 0, 0, 0, 0]))
    ]
    assert both == max(alone)


def test_translating_support_is_recognised() -> None:
    rows = random_rows(1)[0].select(np.arange(3))
    # Three nodes of a region on a collider; a point of the collider touches the last one.
    rows = replace(rows, weights=csr_matrix(np.diag([1.0, 1.0, -1.0, 0.0])[:3]))
    way, free, pressing = np.array([0.3, 0.0, -0.1]), np.arange(3), np.ones(3)
    along = replace(rows, kinematic_drift=np.array([way, way, -way]))
    assert is_translating_support(along, pressing, 4, free)
    off = along.kinematic_drift + np.array([[0.0], [1e-3], [0.0]]) * rows.distance.min()
    assert not is_translating_support(replace(along, kinematic_drift=off), pressing, 4, free)
    # Open contacts do not count. Without active contacts, or on another body, the result is False.
    assert is_translating_support(replace(along, kinematic_drift=off), np.array([1.0, 0.0, 1.0]), 4, free)
    assert not is_translating_support(along, np.zeros(3), 4, free)
    on_body = replace(along, weights=csr_matrix(np.array([[1.0, 0, 0, -1.0], [0, 1.0, 0, 0], [0, 0, -1.0, 0]])))
    assert not is_translating_support(on_body, pressing, 4, free)


def test_support_modes_match_rigid_compliance() -> None:
    """Support modes are the compliance of a body's rigid motions on its contacts, with their stability limit."""
    surface = gridded_box("Block", (0, 0, 0), (0.3, 0.2, 0.2), 0.1)
    simulation = Simulation(scene(static_body(surface, resolution=60, settle=12.0), last=2, gravity=np.zeros(3)))
    system = simulation.islands[0].system
    (region,) = system.regions
    rng = np.random.default_rng(0)
    x = system.rest + 0.01 * rng.normal(size=system.rest.shape)
    springs = np.where(system.rest[:, 2] < 0.05, 1e4, 0.0).repeat(3) * np.tile([0.5, 0.5, 1.0], len(x))
    elastic, contacts = system.stiffness_at_rest(np.ones(1), True), diags(springs).tocsr()
    K = elastic + contacts
    force = rng.normal(size=x.shape)
    force -= force.mean(axis=0)
    held = compute_support_modes(system, region, x, elastic, contacts, 5, 5)
    mass = system.mass
    offset = x - mass @ x / mass.sum()
    R = np.zeros((x.size, 6))
    for node, r in enumerate(offset):
        R[3 * node : 3 * node + 3] = np.hstack([np.eye(3), np.stack([np.cross(e, r) for e in np.eye(3)], axis=1)])
    M = mass.repeat(3)[:, None]
    compliance, inertia = (M * R).T @ np.linalg.solve(K.toarray(), M * R), R.T @ (M * R)
    V, soft = held.shapes, held.compliance
    # M-orthonormal, and the whole compliance, without the weak springs at a free body's mean.
    np.testing.assert_allclose(V.T @ inertia @ V, np.eye(6), atol=1e-9)
    found = inertia @ V @ np.diag(soft) @ V.T @ inertia
    np.testing.assert_allclose(found, compliance, atol=1e-6 * np.abs(compliance).max())
    # Largest ratio, over all rotations, of the moment of a co-rotating force to the springs' resistance.
    most = 0.0
    for turn in np.concatenate([rng.normal(size=(400, 3)), np.eye(3)]):
        pushes = -(np.cross(turn, offset) * np.cross(turn, force)).sum()
        own = R.T @ contacts @ R
        resists = turn @ np.linalg.inv(np.linalg.inv(own)[3:, 3:]) @ turn
        most = max(most, pushes / resists)
    leaning = destabilising_ratio(held, offset, force)
    assert leaning >= most
    assert leaning == pytest.approx(most, rel=0.05)
    assert Support(held, np.zeros(6), np.zeros(3)).is_firmly_supported(offset, 0.19 / leaning * force)
    assert not Support(held, np.zeros(6), np.zeros(3)).is_firmly_supported(offset, 0.21 / leaning * force)
    # Without springs the ratio is infinite.
    none = csr_matrix(contacts.shape)
    unheld = compute_support_modes(system, region, x, K.tocsr(), none, 5, 5)
    assert destabilising_ratio(unheld, offset, force) == np.inf
    matrix = Support(held, np.arange(1.0, 7.0), np.zeros(3)).damping_matrix(offset, M * R)
    np.testing.assert_allclose(matrix, (V.T @ inertia).T @ np.diag(np.arange(1.0, 7.0)) @ (V.T @ inertia), rtol=1e-9)


def test_penalty_scaling_of_deep_contacts() -> None:
    """Contacts pressed through their whole distance are stiffened twice, unless they are eased out."""
    rows, _, x = random_rows(4)
    rows = replace(
        rows, key=np.stack([np.zeros(COUNT), np.zeros(COUNT), np.arange(COUNT), np.ones(COUNT)], 1).astype(int)
    )
    depths = np.array([-(one.n @ one.offset(x)) for one in reference_contacts(rows, np.zeros(COUNT))])
    behind, eased = depths > 0.2 * rows.distance, rows.target_gap <= 0.0
    # Of the contacts that began behind the surface some come out and some go deeper.
    farther = np.arange(COUNT) % 2 == 0
    began = np.where(eased, np.where(farther, 0.9, 1.1) * np.maximum(depths, 0.0), 0.0)
    deep = behind & (~eased | farther)
    # All kinds occur.
    assert min((behind & ~eased).sum(), (~behind).sum(), (behind & eased & farther).sum(), (behind & ~deep).sum()) > 0
    hardening, order = PenaltyScaling(), np.random.default_rng(0).permutation(COUNT)
    for factor in (8.0, 64.0):
        assert hardening.raise_stiffness(rows, x, began)
        # In any later order of the contacts.
        found = hardening(rows.select(order))
        np.testing.assert_array_equal(found.stiffness, (rows.stiffness * np.where(deep, factor, 1.0))[order])
    assert not hardening.raise_stiffness(rows, x, began)
    # Without a previous step no contact was pressed in by it.
    first = PenaltyScaling()
    assert first.raise_stiffness(rows, x, np.zeros(COUNT))
    np.testing.assert_array_equal(first(rows).stiffness, rows.stiffness * np.where(behind & ~eased, 8.0, 1.0))
    # Points held mostly by pins cannot come out; stiffer contacts would only slow the steps down.
    few = rows.weights * 1e-3
    pinned = replace(rows, weights=few, base_offset=rows.base_offset + (rows.weights - few) @ x)
    np.testing.assert_allclose(
        ContactPotential(pinned, np.zeros(COUNT)).forces_at(x).gap,
        ContactPotential(rows, np.zeros(COUNT)).forces_at(x).gap,
    )
    assert not PenaltyScaling().raise_stiffness(pinned, x, began)


@pytest.mark.parametrize("seed", [0, 1])
def test_contact_energy_cache_depends_on_positions(seed: int) -> None:
    rows, pressing, x = random_rows(seed)
    other = x + 0.002 * np.random.default_rng(seed).normal(size=x.shape)
    kept = ContactPotential(rows, pressing)
    for place in (x, other, other.copy(), x):
        value, gradient = ContactPotential(rows, pressing).value_gradient(place)
        assert kept.value_gradient(place)[0] == value
        np.testing.assert_array_equal(kept.value_gradient(place)[1], gradient)
        # With other normal forces it continues from the same position.
        after = ContactPotential(rows, ContactPotential(rows, pressing).forces_at(place).force)
        for asked in (place, other):
            np.testing.assert_array_equal(
                kept.with_normal_forces_at(place).value_gradient(asked)[1], after.value_gradient(asked)[1]
            )


@pytest.mark.parametrize(
    ("speed", "gravity_speed", "is_impact"),
    [(0.19, 0.0, False), (0.21, 0.0, True), (0.29, 0.1, False), (0.31, 0.1, True)],
)
def test_impact_needs_both_speeds(
    speed: float, gravity_speed: float, is_impact: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An impact is faster than 0.2 m/s and than three times the speed that gravity adds in a step."""
    resultant = SimpleNamespace(normal=np.array([0.0, 0.0, 1.0]))
    monkeypatch.setattr(impacts, "_relative_velocity_at_contact", lambda *_: np.array([5.0, 0.0, -speed]))
    places = (np.zeros((1, 3)), np.zeros((1, 3)))
    found = impacts.impact_speed(None, resultant, places, places[0], gravity_speed)  # type: ignore[arg-type]
    assert found == (speed if is_impact else 0.0)
