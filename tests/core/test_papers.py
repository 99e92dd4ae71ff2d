"""Scenes and steps behind the pages about the papers, and the table that maps each paper to the code."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from dampsim.core.literature.damping.clusters import connected_clusters
from dampsim.core.literature.damping.damping import DampedBody, Damping
from dampsim.core.literature.damping.velocity_dampings import PointDamping, SpringDamping
from dampsim.core.literature.integrators import INTEGRATORS, Integrator
from dampsim.core.literature.papers.oscillator import analytical_stability_limit, growth_factor, step_matrix
from dampsim.core.literature.papers.oscillator import stability_limit as longest
from dampsim.core.literature.papers.rate_step import PerStepDamping
from dampsim.core.literature.papers.schmedding_scenes import (
    SchmeddingScene,
    ball_on_membrane,
    dragged_shoe,
    energy_limit,
    joined_velocities,
    largest_scene_step,
    rope_bridge,
    run_explicit,
)
from dampsim.core.materials import ElasticMaterial
from dampsim.core.scene.parameters import Settings

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs" / "papers.md"
EXPLICIT = [one for one in INTEGRATORS if not one.is_implicit]


def scene_dampings(scene: SchmeddingScene, method: type[Damping], gamma: float) -> list[Damping]:
    values = Settings(damping_by=method.name, gamma=gamma).as_dict()
    chosen = {name: values[name] for name in method.parameters}
    return [PerStepDamping(method(DampedBody(scene.block, chosen, ElasticMaterial(1e5, 0.3, 1000.0), 1.0)))]


@pytest.mark.parametrize("ratio", [0.0, 0.3, 1.0, 1.5])
@pytest.mark.parametrize("integrator", EXPLICIT, ids=lambda one: one.name)
def test_explicit_stability_limit_matches_theory(integrator: type[Integrator], ratio: float) -> None:
    """Explicit steps of a damped spring are stable up to the analytical limit."""
    # The tolerance of the search is 1e-4.
    assert longest(integrator, ratio) == pytest.approx(
        analytical_stability_limit(integrator.name, ratio), rel=2e-4, abs=1e-12
    )


@pytest.mark.parametrize("integrator", [one for one in INTEGRATORS if one.is_implicit], ids=lambda one: one.name)
def test_implicit_stability_and_stiff_decay(
    integrator: type[Integrator],
) -> None:
    """Implicit steps of a damped spring are stable at any length; only Euler's damp a stiff one."""
    assert max(growth_factor(integrator, ratio, h) for ratio in (0.0, 0.5, 2.0) for h in (1e-2, 1.0, 1e3)) <= 1.0 + 1e-9
    # 1/(1 + h omega) for backward Euler; the trapezoid and the midpoint go to -1.
    assert (growth_factor(integrator, 0.1, 1e3) < 2e-3) == ("EULER" in integrator.name)
    assert (growth_factor(integrator, 0.1, 1e3) > 0.99) == ("EULER" not in integrator.name)


def test_step_matrix_matches_formula() -> None:
    h, ratio = 0.4, 0.2
    by_name = {one.name: one for one in INTEGRATORS}
    force = np.array([-1.0, -2.0 * ratio])
    forward = np.array([[1.0, h], h * force + [0.0, 1.0]])
    symplectic = np.array([[1.0, 0.0] + h * forward[1], forward[1]])
    backward = np.linalg.inv(np.array([[1.0, -h], [h, 1.0 + 2.0 * ratio * h]]))
    middle = 0.5 * h * np.array([[0.0, 1.0], force])
    trapezoid = np.linalg.solve(np.eye(2) - middle, np.eye(2) + middle)
    for name, wanted in (
        ("FORWARD_EULER", forward), ("SYMPLECTIC_EULER", symplectic), ("BACKWARD_EULER", backward),
        ("IMPLICIT_MIDPOINT", trapezoid), ("NEWMARK", trapezoid),
    ):  # fmt: skip
        # The solver's tolerance is 1e-12.
        np.testing.assert_allclose(step_matrix(by_name[name], ratio, h), wanted, atol=1e-9)


@pytest.mark.parametrize("make", [dragged_shoe, ball_on_membrane, rope_bridge], ids=lambda make: make.__name__)
def test_paper_scenes_balance_and_run_stably(make: object) -> None:
    """Internal forces of the papers' scenes add up to zero, and short steps are stable."""
    scene: SchmeddingScene = make()  # type: ignore[operator]
    one = run_explicit(scene, [], scene.step, times=[0.0, scene.seconds])
    assert one.is_stable
    assert len(one.snapshots) == 2
    assert np.array_equal(one.snapshots[0], scene.start)
    assert one.max_elastic_energy > 0.0
    if scene.ball_marker[1] or make is rope_bridge:
        force = scene.external_force(one.snapshots[-1] * 0.98, 0.0)
        # Every action has an equal reaction.
        assert np.abs(force.sum(axis=0)).max() < 1e-9 * max(float(np.abs(force).max()), 1.0)
    objects = {dragged_shoe: 1, ball_on_membrane: 2, rope_bridge: 3}[make]  # type: ignore[index]
    from dampsim.core.literature.damping.clusters import Mesh

    assert connected_clusters(Mesh.from_elements(scene.block.mass, scene.block.groups)).cluster_count == objects


def test_joints_meet_and_conserve_momentum() -> None:
    """Joined nodes meet at the end of a step with their common momentum; a fixed node does not move."""
    scene = rope_bridge(has_joints=True)
    first, second = scene.joints.T
    np.testing.assert_allclose(scene.start[first], scene.start[second], atol=1e-12)
    rng = np.random.default_rng(2)
    x, v, h = scene.start + 0.01 * rng.standard_normal(scene.start.shape), rng.standard_normal(scene.start.shape), 2e-3
    v[scene.block.is_fixed] = 0.0
    after = joined_velocities(scene, x, v, h)
    end = x + h * after
    np.testing.assert_allclose(end[first], end[second], atol=1e-14)
    mass = scene.block.mass[:, None]
    np.testing.assert_allclose((mass * after).sum(axis=0), (mass * v).sum(axis=0), atol=1e-9)
    others = np.setdiff1d(np.arange(len(x)), scene.joints)
    assert np.array_equal(after[others], v[others])
    # A joint with a fixed node moves the other one only.
    held = replace(scene, joints=np.array([[scene.block.pinned[0], first[0]]]))
    after = joined_velocities(held, x, v, h)
    assert np.array_equal(after[scene.block.pinned[0]], v[scene.block.pinned[0]])
    np.testing.assert_allclose((x + h * after)[first[0]], x[scene.block.pinned[0]], atol=1e-14)


def test_joined_bridge_hangs_together() -> None:
    scene = rope_bridge(has_joints=True)
    run = run_explicit(replace(scene, seconds=0.05), [], scene.step)
    first, second = scene.joints.T
    assert run.is_stable
    np.testing.assert_allclose(run.final_positions[first], run.final_positions[second], atol=1e-12)


def test_ball_force_grows_with_depth() -> None:
    """A node in the ball is pushed out along the radius by 10 kN/m times its depth; the ball takes the reaction."""
    scene = ball_on_membrane()
    ball, radius = scene.ball_marker
    x = scene.start.copy()
    x[ball] += [0.03, -0.02, -0.05]
    force = scene.external_force(x, 0.0)
    offsets = x[:ball] - x[ball]
    far = np.linalg.norm(offsets, axis=1)
    assert 0 < (far < radius).sum() < ball
    depth = np.maximum(radius - far, 0.0)
    np.testing.assert_allclose(force[:ball], 1e4 * depth[:, None] * offsets / far[:, None], atol=1e-9)
    np.testing.assert_allclose(force[ball], -force[:ball].sum(axis=0), atol=1e-9)


def test_ball_rebounds_without_damping() -> None:
    """Without damping, the membrane throws the ball back, no higher than its energy allows."""
    scene = ball_on_membrane()
    node = scene.ball_marker[0]
    one = run_explicit(scene, [], 0.25 * scene.step, times=[0.1, scene.seconds])
    assert one.snapshots[0][node, 2] < scene.start[node, 2] < one.snapshots[1][node, 2]
    # A speed of 3 m/s allows a rebound of at most 0.46 m.
    assert one.snapshots[1][node, 2] < scene.start[node, 2] + 0.46


def test_shoe_with_spring_or_point_damping() -> None:
    """The shoe falls under spring damping as without damping, and stays in the air under point damping."""
    scene = dragged_shoe()
    mass = scene.block.mass

    def fallen(dampings: list[Damping]) -> float:
        return float(
            mass @ (scene.start - run_explicit(scene, dampings, scene.step).final_positions)[:, 2] / mass.sum()
        )

    # Without the dragger it falls by h^2 g n (n + 1)/2 in n steps of symplectic Euler, however it deforms.
    alone = replace(scene, external_force=lambda positions, time: 0.0 * positions)
    steps = round(scene.seconds / scene.step) + 1
    wanted = 0.5 * 9.81 * scene.step**2 * steps * (steps + 1)
    assert (scene.start - run_explicit(alone, [], scene.step).final_positions)[:, 2] == pytest.approx(wanted, rel=1e-9)
    free = fallen([])
    assert free > 0.5
    # Internal forces change the dragger's force slightly.
    assert fallen(scene_dampings(scene, SpringDamping, 1.0)) == pytest.approx(free, rel=0.02)
    assert abs(fallen(scene_dampings(scene, PointDamping, 1.0))) < 0.01 * free


def test_largest_scene_step_is_sharp() -> None:
    scene = dragged_shoe()
    limit = energy_limit(scene)
    found = largest_scene_step(scene, [], limit)
    assert run_explicit(scene, [], found, limit).is_stable
    failing = run_explicit(scene, [], 1.03 * found, limit)
    assert not failing.is_stable
    assert failing.failure_time < scene.seconds
    # Spring damping allows a longer step.
    assert run_explicit(scene, scene_dampings(scene, SpringDamping, 1.0), 1.1 * found, limit).is_stable


def rows(text: str) -> list[list[str]]:
    """Return the cells of all table rows except the headers."""
    lines = [line for line in text.splitlines() if line.startswith("|")]
    found = [[cell.strip() for cell in line.strip("|").split("|")] for line in lines]
    heads = {k - 1 for k, cells in enumerate(found) if set(cells[0]) <= set("- ")}
    return [cells for k, cells in enumerate(found) if k not in heads and k - 1 not in heads]


def table_faults(text: str) -> list[str]:
    """Return the faults of a table about papers: rows without a place, and files that do not exist."""
    wrong = [" | ".join(cells) for cells in rows(text) if len(cells) != 4 or not all(cells)]
    for name in re.findall(r"`((?:core|tests|tools|dampsim_addon|docs)/[\w./-]+)`", text):
        if not (ROOT / name).exists():
            wrong.append(name)
    for name in re.findall(r"\]\(([\w./-]+\.(?:md|svg|py|csv))(?:#[\w-]+)?\)", text):
        if not (PAGE.parent / name).exists():
            wrong.append(name)
    return wrong


def test_paper_rows_have_existing_places() -> None:
    """Every row of the table about the papers has a place, and every file that it names exists."""
    text = PAGE.read_text(encoding="utf-8")
    assert table_faults(text) == []
    heads = re.findall(r"^## \[(\w+)\]", text, re.MULTILINE)
    assert set(heads) == {"Sch", "MSS", "Ctl", "You", "SRD"}
    # Every section has a table.
    for part in re.split(r"^## ", text, flags=re.MULTILINE)[1:]:
        assert len(rows(part)) > 5, part[:20]


@pytest.mark.parametrize(
    ("line", "wrong"),
    [
        ("| (1) | done |  | – |", ["(1) | done |  | –"]),
        ("| (1) | done | `core/literature/damping/nowhere.py` | – |", ["core/literature/damping/nowhere.py"]),
        ("| (1) | done | [page](validation/nowhere.md) | – |", ["validation/nowhere.md"]),
        ("| (1) | done |", ["(1) | done"]),
        ("| (1) | done | `core/literature/damping/velocity_dampings.py` | – |", []),
    ],
)
def test_wrong_paper_row_is_found(line: str, wrong: list[str]) -> None:
    assert table_faults(f"| what | how | where |\n|---|---|---|\n{line}\n") == wrong
