"""Woven cloth equals tests/core/references/yarns.py, which is written from [SRD] section 5 alone."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from woven_scenes import SwatchStepper, woven_body

from dampsim.core.objective.weave_problem import WeaveProblem
from dampsim.core.settle.controls import Controls, YarnDials
from dampsim.core.settle.law import BackwardEulerLaw
from dampsim.core.system.state import YarnHistory
from dampsim.core.system.weave_term import FrozenSliding
from dampsim.core.yarns import elements
from dampsim.core.yarns.energy import SlidingFriction, YarnElasticity, YarnHessians, gravity_energy
from dampsim.core.yarns.woven_cloth import WovenCloth
from references.elastic import slopes
from references.yarns import Rectangle, angle, angle_rate, bend_rate, huber

ACROSS, ALONG, PITCH = 3, 2, 0.01
GRAVITY = np.array([1.0, -2.0, -9.0])


def thick_swatch() -> SwatchStepper:
    return SwatchStepper(woven_body(ACROSS, ALONG, PITCH, thickness=6.0, yarn_shear=2.0))


def reference_rectangle(cloth: WovenCloth, factor: float) -> Rectangle:
    m = cloth.material
    # Jamming begins at half the pitch, because yarns of 6 mm would touch even at rest.
    shear = factor * m.shear * m.stretch * PITCH
    return Rectangle(ACROSS, ALONG, factor * m.stretch, factor * m.bend, shear, m.linear_density, 0.5 * PITCH, PITCH)


def unknowns(cloth: WovenCloth, rest: np.ndarray) -> list[tuple[str, tuple[int, int]]]:
    """Return the meaning of each unknown: coordinate of a node, or arc length of a warp or weft; "" for unused ones."""
    ij = [tuple(int(k) for k in row) for row in np.rint(rest[:, :2] / PITCH)]
    found: list[tuple[str, tuple[int, int]]] = [("", (0, 0))] * cloth.unknown_count
    for node, place in enumerate(ij):
        for k in range(3):
            found[3 * node + k] = ("xyz"[k], place)
    for a, b in cloth.segments:
        (i, _), (k, _) = ij[cloth.node[a]], ij[cloth.node[b]]
        for passing in (a, b):
            if cloth.can_slide[passing]:
                found[cloth.arc_length_unknown[passing]] = ("weft" if i == k else "warp", ij[cloth.node[passing]])
    return found


def random_change(one: SwatchStepper, seed: int) -> np.ndarray:
    """Return random changes (unknowns,) of all unknowns: bends of about 1 rad, and yarns that slide until some jam."""
    rng = np.random.default_rng(seed)
    way = rng.uniform(-1.0, 1.0, (one.cloth.triples, 3))
    way[: one.cloth.count] *= 0.4 * PITCH
    way[one.cloth.count :] *= 0.42 * PITCH
    way[one.cloth.count :, 2] = 0.0
    return np.asarray(way.ravel())


def reference_variables(one: SwatchStepper, change: np.ndarray) -> tuple[dict, dict, dict]:
    """Return x, warp and weft of the reference for a change of the unknowns."""
    rest = one.system.rest
    ij = [tuple(int(k) for k in row) for row in np.rint(rest[:, :2] / PITCH)]
    x = {place: rest[k].astype(change.dtype) for k, place in enumerate(ij)}
    warp = {(i, j): (i * PITCH + 0 * change[0]) for i, j in ij}
    weft = {(i, j): (j * PITCH + 0 * change[0]) for i, j in ij}
    for (what, place), by in zip(unknowns(one.cloth, rest), change, strict=True):
        if what == "warp":
            warp[place] = warp[place] + by
        elif what == "weft":
            weft[place] = weft[place] + by
        elif what:
            x[place]["xyz".index(what)] += by
    return x, warp, weft


@pytest.mark.parametrize("seed", [1, 2, 3, 4])
def test_yarn_energy_and_gradient_match_paper(seed: int) -> None:
    """Energy and gradient match the paper for yarns that bend, shear, slide and jam."""
    one, change = thick_swatch(), random_change(thick_swatch(), seed)
    cloth, known = one.cloth, reference_rectangle(one.cloth, 20.0)
    moved, slid = cloth.split_unknowns(change.reshape(-1, 3))
    value, gradient = YarnElasticity(cloth, 20.0).value_gradient(one.system.rest + moved, cloth.rest_arc_lengths + slid)
    assert (cloth.lengths(cloth.rest_arc_lengths + slid) < 0.5 * PITCH).any()

    def total(by: np.ndarray) -> np.ndarray:
        return known.energy(*reference_variables(one, by))

    # Both are exact; angles of nearly straight yarns have an error of about 1e-8 by their cosine.
    assert value == pytest.approx(float(total(change).real), rel=1e-12)
    expected = slopes(total, change)
    np.testing.assert_allclose(gradient, expected, atol=1e-10 * np.abs(expected).max())


def test_gravity_energy_of_sliding_yarns() -> None:
    """The gravity energy includes the motion of yarn material that slides."""
    one, change = thick_swatch(), random_change(thick_swatch(), 5)
    cloth, known = one.cloth, reference_rectangle(one.cloth, 1.0)
    moved, slid = cloth.split_unknowns(change.reshape(-1, 3))
    pull = np.tile(GRAVITY, (cloth.count, 1))
    value, gradient = gravity_energy(cloth, one.system.rest + moved, cloth.rest_arc_lengths + slid, pull)

    def total(by: np.ndarray) -> np.ndarray:
        return known.weight(*reference_variables(one, by), GRAVITY)

    assert value == pytest.approx(float(total(change)), rel=1e-12)
    np.testing.assert_allclose(gradient, slopes(total, change), rtol=1e-12, atol=1e-18)
    assert np.abs(gradient[3 * cloth.count :]).max() > 0.0


@pytest.mark.parametrize("seed", range(3))
def test_projected_hessians_near_rest(seed: int) -> None:
    """The Hessians of taut stretch, jamming, and nearly straight and square bending and shear match the gradient."""
    one = thick_swatch()
    cloth, rng = one.cloth, np.random.default_rng(seed)
    elastic, fine = YarnElasticity(cloth, 20.0), 1e-5
    x = one.system.rest * np.array([1.6, 1.7, 1.0]) + fine * PITCH * rng.standard_normal(one.system.rest.shape)
    u = cloth.rest_arc_lengths + 0.01 * PITCH * rng.standard_normal(len(cloth.rest_arc_lengths)) * cloth.can_slide
    # Two neighbours slide towards each other until they jam. All segments stay taut.
    u[rng.choice(cloth.segments[cloth.can_slide[cloth.segments].all(axis=1)])] += 0.27 * PITCH * np.array([1.0, -1.0])
    assert (cloth.lengths(u) < cloth.jam_lengths).sum() == 1
    blocks, size = elastic.element_hessians(x, u), cloth.unknown_count
    matrix = np.zeros((size + 1, size + 1))
    for group, own in zip(cloth.element_groups, (blocks.stretch, blocks.bend, blocks.shear), strict=True):
        for rows, block in zip(group.unknowns, group.to_vectors.T @ own @ group.to_vectors, strict=True):
            matrix[np.ix_(rows, rows)] += block
    way = rng.standard_normal((cloth.triples, 3))
    way[cloth.count :, 2] = 0.0
    dx, du = cloth.split_unknowns(1e-8 * way)
    ahead, behind = (elastic.value_gradient(x + sign * dx, u + sign * du)[1] for sign in (1.0, -1.0))
    expected = matrix[:size, :size] @ way.ravel()
    # Neglected terms grow with the bends, about 1e-5; differences of 1e-8 m have an error of 1e-6.
    np.testing.assert_allclose((ahead - behind) / 2e-8, expected, atol=2e-4 * np.abs(expected).max())
    assert np.linalg.eigvalsh(matrix).min() > -1e-12 * np.abs(matrix).max()


def test_assembled_matrix_sums_blocks() -> None:
    """Blocks of all groups are summed at their free unknowns; the others have rows of the identity."""
    cloth, rng = thick_swatch().cloth, np.random.default_rng(4)
    free = rng.random((cloth.triples, 3)) < 0.8
    pattern, size = cloth.assembly_pattern(free), cloth.unknown_count
    groups = (*cloth.element_groups, cloth.passing_group)
    blocks = []
    expected = np.zeros((size + 1, size + 1))
    for group in groups:
        count = len(group.to_vectors)
        half = rng.standard_normal((len(group.unknowns), count, count))
        blocks.append(half + half.transpose(0, 2, 1))
        for rows, block in zip(group.unknowns, group.to_vectors.T @ blocks[-1] @ group.to_vectors, strict=True):
            np.add.at(expected, np.ix_(rows, rows), block)
    own = rng.standard_normal(size)
    expected = np.where(np.outer(free.ravel(), free.ravel()), expected[:size, :size] + np.diag(own), np.eye(size))
    matrix, tolerance = pattern.matrix(pattern.assemble([*blocks, own])), 1e-12 * np.abs(expected).max()
    np.testing.assert_allclose(matrix.full().toarray(), expected, atol=tolerance)
    np.testing.assert_allclose(np.stack([matrix @ one for one in np.eye(size)]), expected, atol=tolerance)
    # The product with one group's blocks is the gradient of its energy.
    values = rng.standard_normal(size)
    energy, gradient = groups[1].value_gradient(blocks[1], values)
    assert energy == pytest.approx(0.5 * float(values @ gradient))
    alone = cloth.assembly_pattern(np.ones_like(free))
    matrix = alone.matrix(alone.assemble([None, blocks[1], None, None, None]))
    np.testing.assert_allclose(gradient, matrix @ values, atol=1e-12 * np.abs(gradient).max())


@pytest.mark.parametrize("seed", range(4))
def test_hessians_of_crumpled_cloth_are_positive(seed: int) -> None:
    one = thick_swatch()
    cloth, elastic = one.cloth, YarnElasticity(one.cloth, 20.0)
    moved, slid = cloth.split_unknowns(random_change(one, seed).reshape(-1, 3))
    made = elastic.element_hessians(one.system.rest + moved, cloth.rest_arc_lengths + slid)
    for blocks in (made.stretch, made.bend, made.shear):
        values = np.linalg.eigvalsh(blocks)
        assert values.min() > -1e-12 * values.max()


@pytest.mark.parametrize("bend", [1e-7, 1e-3, 0.05, 0.099, 0.101, 1.0, 1.5, 2.5])
def test_bending_rates_around_threshold(bend: float) -> None:
    """Bending rates match the paper on both sides of the angle where the strain switches."""
    rng = np.random.default_rng(3)
    a = rng.standard_normal(3)
    across = np.cross(a, rng.standard_normal(3))
    across *= np.linalg.norm(a) / np.linalg.norm(across)
    b = 1.7 * (np.cos(bend) * a + np.sin(bend) * across)
    da, db = rng.standard_normal((2, 3))
    found = elements.bending_rate(a[None], b[None])[0] @ np.concatenate([da, db])
    if bend < elements.SMALL_ANGLE:
        # The rounding of a bend of 1e-7 is 1e-16 relative to rates of 1.
        np.testing.assert_allclose(found, bend_rate(a, b, da, db), rtol=1e-9, atol=1e-12)
    else:
        expected = angle_rate(a, b, da, db)
        assert np.linalg.norm(found) == pytest.approx(abs(expected), rel=1e-9)
        way = 1e-6
        slope = (angle(a + way * da, b + way * db) - angle(a - way * da, b - way * db)) / (2.0 * way)
        assert expected == pytest.approx(float(slope), rel=1e-6)


def test_kinetic_energy_of_sliding_yarns() -> None:
    one = thick_swatch()
    cloth, known = one.cloth, reference_rectangle(one.cloth, 1.0)
    change, speed = random_change(one, 1), random_change(one, 2)
    moved, slid = cloth.split_unknowns(change.reshape(-1, 3))
    x, u = one.system.rest + moved, cloth.rest_arc_lengths + slid
    v, du = cloth.split_unknowns(speed.reshape(-1, 3))
    way = v[cloth.node] - cloth.directions(x, u) * du[:, None]
    found = 0.5 * float(cloth.masses(u) @ (way**2).sum(axis=1))
    still_x, still_warp, still_weft = reference_variables(one, np.zeros(cloth.unknown_count))
    fast_x, fast_warp, fast_weft = reference_variables(one, speed)
    rates = [
        {place: fast[place] - still[place] for place in still}
        for fast, still in ((fast_x, still_x), (fast_warp, still_warp), (fast_weft, still_weft))
    ]
    expected = known.kinetic(*reference_variables(one, change), *rates)
    assert found == pytest.approx(expected, rel=1e-12)


def test_sliding_friction_is_huber_function() -> None:
    """Friction is a Huber function, and yarns that slipped stick at a new anchor."""
    ways = np.array([-3.0, -0.4, 0.0, 0.2, 0.5, 2.0])
    friction = SlidingFriction(np.zeros(6), np.full(6, 5.0), 10.0)
    value, slope = friction.value_gradient(ways)
    assert value == pytest.approx(sum(huber(way, 5.0, 10.0) for way in ways), rel=1e-14)
    for way, force in zip(ways[[0, 1, 3, 5]], slope[[0, 1, 3, 5]], strict=True):
        rate = (huber(way + 1e-6, 5.0, 10.0) - huber(way - 1e-6, 5.0, 10.0)) / 2e-6
        assert force == pytest.approx(rate, rel=1e-8)
    after = SlidingFriction(friction.moved_anchor(ways), friction.limit, 10.0)
    # Where it slipped, the force from the new anchor equals the friction limit.
    np.testing.assert_allclose(after.value_gradient(ways)[1], slope, rtol=1e-12)
    assert (np.abs(ways - after.anchor) <= 0.5 + 1e-12).all()


@pytest.mark.parametrize("seed", range(3))
def test_node_hessian_of_fixed_arc_lengths(seed: int) -> None:
    """The node Hessian matches differences of the gradient with fixed arc lengths.

    Its central differences use 1e-6 of the pitch, those here 1e-7; bends of about 1 rad cause an error of 1e-5.
    """
    one = thick_swatch()
    cloth, rng = one.cloth, np.random.default_rng(seed)
    elastic = YarnElasticity(cloth, 20.0)
    moved, slid = cloth.split_unknowns(random_change(one, seed + 1).reshape(-1, 3))
    x, u = one.system.rest + 0.5 * moved, cloth.rest_arc_lengths + 0.5 * slid
    way = rng.standard_normal(x.shape)
    step = 1e-7 * PITCH
    ahead, behind = (elastic.value_gradient(x + sign * step * way, u)[1][: x.size] for sign in (1.0, -1.0))
    found = elastic.node_hessian(x, u, False) @ way.ravel()
    np.testing.assert_allclose(found, (ahead - behind) / (2.0 * step), atol=1e-5 * np.abs(found).max())


def test_stretch_damping_uses_strain_rate() -> None:
    """[SRD] (12): v C v = beta E A sum D strain_rate^2, of l/D with both of its parts."""
    one = thick_swatch()
    cloth, rng = one.cloth, np.random.default_rng(0)
    x = one.system.rest + 0.1 * PITCH * rng.standard_normal(one.system.rest.shape)
    u = cloth.rest_arc_lengths + 0.1 * PITCH * rng.standard_normal(len(cloth.rest_arc_lengths)) * cloth.can_slide
    v = rng.standard_normal((cloth.triples, 3))
    v[cloth.count :, 2] = 0.0
    dx, du = cloth.split_unknowns(v)
    a, b = cloth.ends.T

    def strain(t: float) -> np.ndarray:
        return np.asarray(np.linalg.norm((x + t * dx)[b] - (x + t * dx)[a], axis=1) / cloth.lengths(u + t * du))

    rate, beta = (strain(1e-7) - strain(-1e-7)) / 2e-7, 0.03
    local = np.append(v.ravel(), 0.0)[cloth.stretch_unknowns] @ cloth.element_groups[0].to_vectors.T
    found = np.einsum(
        "si,sij,sj->s", local, YarnElasticity(cloth, 20.0).strain_rate_hessians(x, u, beta, 0.0).stretch, local
    )
    # The finite differences have an error of 1e-6.
    expected = beta * 20.0 * cloth.material.stretch * cloth.lengths(u) * rate**2
    np.testing.assert_allclose(found, expected, rtol=1e-5)


def damping_power(cloth: WovenCloth, hessians: YarnHessians, v: np.ndarray) -> float:
    """Return v C v in W of velocities (triples, 3)."""
    everything, power = np.append(v.ravel(), 0.0), 0.0
    for group, blocks in zip(cloth.element_groups, (hessians.stretch, hessians.bend, hessians.shear), strict=True):
        if blocks is not None:
            vectors = everything[group.unknowns] @ group.to_vectors.T
            power += float(np.einsum("si,sij,sj->", vectors, blocks, vectors))
    return power


def random_velocities(cloth: WovenCloth, rng: np.random.Generator) -> np.ndarray:
    v = rng.standard_normal((cloth.triples, 3))
    v[cloth.count :, 2] = 0.0
    return v


@pytest.mark.parametrize("bend", [1e-4, 0.3])
def test_bending_damping_uses_strain_rate(bend: float) -> None:
    """[SRD] (12): v C v = 2 beta B/L sum rate^2, with the rate (24) of small angles and (21) of the others."""
    one = thick_swatch()
    cloth, rng = one.cloth, np.random.default_rng(6)
    x = one.system.rest + bend * PITCH * rng.standard_normal(one.system.rest.shape)
    u = cloth.rest_arc_lengths + 0.1 * PITCH * rng.standard_normal(len(cloth.rest_arc_lengths)) * cloth.can_slide
    v, beta, expected = random_velocities(cloth, rng), 0.016, 0.0
    dx, _ = cloth.split_unknowns(v)
    D = cloth.lengths(u)
    for first, last in cloth.bends:
        (i, j), (_, k) = cloth.ends[first], cloth.ends[last]
        edges = x[j] - x[i], x[k] - x[j], dx[j] - dx[i], dx[k] - dx[j]
        rate = bend_rate(*edges) if angle(*edges[:2]) < 0.1 else angle_rate(*edges)
        expected += 2.0 * beta * 20.0 * cloth.material.bend / (D[first] + D[last]) * float(np.sum(rate**2))
    found = damping_power(cloth, YarnElasticity(cloth, 20.0).strain_rate_hessians(x, u, 0.0, beta), v)
    assert found == pytest.approx(expected, rel=1e-9)


@pytest.mark.parametrize("part", ["stretch", "bend"])
def test_yarn_rayleigh_damping_scales_stiffness(part: str) -> None:
    """[SRD] (11): the power of Rayleigh damping is beta v K v of stretch or bending, here of taut, straight yarns."""
    one = thick_swatch()
    without = {"shear": 0.0, "bend" if part == "stretch" else "stretch": 0.0}
    cloth = replace(one.cloth, material=replace(one.cloth.material, **without))
    rng, step = np.random.default_rng(7), 1e-8
    x, u, v = one.system.rest * np.array([1.05, 1.08, 1.0]), cloth.rest_arc_lengths, random_velocities(cloth, rng)
    dx, du = cloth.split_unknowns(step * v)
    elastic = YarnElasticity(cloth, 20.0)
    ahead, behind = (elastic.value_gradient(x + sign * dx, u + sign * du)[1] for sign in (1.0, -1.0))
    expected = 0.03 * float((ahead - behind) @ v.ravel()) / (2.0 * step)
    found = damping_power(
        cloth, YarnElasticity(one.cloth, 20.0).rayleigh_hessians(x, u, **{"stretch": 0.0, "bend": 0.0, part: 0.03}), v
    )
    # The finite differences have an error of 1e-6.
    assert expected > 0.0
    assert found == pytest.approx(expected, rel=1e-5)


def test_yarn_directions_are_segment_means() -> None:
    """The direction of a yarn at a node is the mean of its segments there, at its ends that of the last one."""
    one = thick_swatch()
    cloth, rng = one.cloth, np.random.default_rng(8)
    x = one.system.rest + 0.1 * PITCH * rng.standard_normal(one.system.rest.shape)
    u = cloth.rest_arc_lengths + 0.1 * PITCH * rng.standard_normal(len(cloth.rest_arc_lengths)) * cloth.can_slide
    found, counts = cloth.directions(x, u), set()
    for passing, direction in enumerate(found):
        own = [(x[cloth.node[b]] - x[cloth.node[a]]) / (u[b] - u[a]) for a, b in cloth.segments if passing in (a, b)]
        np.testing.assert_allclose(direction, sum(own) / len(own), rtol=1e-12, atol=1e-12)
        counts.add(len(own))
    assert counts == {1, 2}


def test_largest_step_keeps_crossings_apart() -> None:
    """A step of the search leaves at least a tenth of the distance between crossings."""
    one = thick_swatch()
    cloth = one.cloth
    h, problem = 1e-3, make_problem(one, YarnDials())
    du = np.where(
        np.arange(len(cloth.rest_arc_lengths)) == int(np.flatnonzero(cloth.can_slide)[0]), 10.0 * PITCH / h, 0.0
    )
    way = cloth.stack_unknowns(np.zeros_like(one.system.rest), du)
    part = problem.largest_step(np.zeros_like(way), way)
    D = cloth.lengths(cloth.rest_arc_lengths)
    left = cloth.lengths(cloth.rest_arc_lengths + h * part * du) - cloth.min_lengths
    nearest = int(left.argmin())
    assert left[nearest] == pytest.approx(0.1 * (D - cloth.min_lengths)[nearest], rel=1e-9)


def make_problem(one: SwatchStepper, dials: YarnDials) -> WeaveProblem:
    controls = Controls(tuple(BackwardEulerLaw() for _ in one.system.regions), 1.0, 1e-3, 1.0, (dials,))
    return WeaveProblem(one.stepper, one.state, one.system.stationary_inputs(), 1e-3, controls)


def test_slipping_force_grows_with_normal_force() -> None:
    """[SRD] 5: a crossing slips at mu (N0 + N), with the normal force N of the last step; knots do not slip."""
    one = thick_swatch()
    cloth, rng = one.cloth, np.random.default_rng(4)
    pressed = rng.uniform(0.0, 2.0, len(cloth.rest_arc_lengths))
    yarns = YarnHistory(cloth.rest_arc_lengths, cloth.rest_arc_lengths, pressed)
    name = one.system.blocks[0].name
    history = one.state.history
    history = history.with_block(name, replace(history.block(name), yarns=yarns))
    one.state = replace(one.state, history=history)
    limit = make_problem(one, YarnDials(0.3, 0.5))._friction.limit
    assert limit == pytest.approx(np.where(cloth.can_slide, 0.3 * (0.5 + pressed), 0.0), rel=1e-12)
    assert 0 < cloth.can_slide.sum() < len(limit)


def test_gradient_of_scaled_frozen_yarns() -> None:
    """Gradient and Hessian of yarns that do not slide follow their energy, with a factor on the stiffness."""
    one, rng = thick_swatch(), np.random.default_rng(5)
    moved, slid = one.cloth.split_unknowns(random_change(one, 3).reshape(-1, 3))
    x, u = one.system.rest + 0.5 * moved, one.cloth.rest_arc_lengths + 0.5 * slid
    plain = FrozenSliding(YarnElasticity(one.cloth), u)
    energy, way, step = plain.with_nodal_scale(np.full(len(x), 3.0)), rng.standard_normal(x.shape), 1e-6 * PITCH
    ahead, behind = (energy.value_gradient(x + sign * step * way) for sign in (1.0, -1.0))
    # The finite differences have an error of 1e-6.
    slope = (energy.value_gradient(x)[1] * way).sum()
    assert slope == pytest.approx((ahead[0] - behind[0]) / (2.0 * step), rel=1e-5)
    assert energy.value_gradient(x)[0] == pytest.approx(3.0 * plain.value_gradient(x)[0], rel=1e-12)
    found = energy.hessian(x, False) @ way.ravel()
    assert found == pytest.approx((ahead[1] - behind[1]).ravel() / (2.0 * step), abs=1e-4 * np.abs(found).max())


def test_rounding_of_frozen_yarns() -> None:
    """The rounding error is a few units of the stiffness times the length of all yarns, and follows the scale."""
    one = thick_swatch()
    energy = FrozenSliding(YarnElasticity(one.cloth), one.cloth.rest_arc_lengths)
    size = np.finfo(float).eps * one.cloth.material.stretch * float(one.cloth.rest_lengths.sum())
    assert size < energy.rounding < 100.0 * size
    assert energy.with_nodal_scale(np.full(len(one.system.rest), 3.0)).rounding == pytest.approx(3.0 * energy.rounding)
