"""Self-contact of sheets: both of their sides, their edges, and grooves with several contact planes."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from scipy.sparse import csr_matrix
from scipy.spatial.transform import Rotation

from builders import STOUT_COTTON, scene, static_body
from dampsim.core.contact.contact_history import CORNER_KINDS, EDGE, POINT, ContactHistory
from dampsim.core.contact.contact_hysteresis import (
    keep_alternating_contacts,
    keep_corner_contacts,
    keep_thread_contacts,
)
from dampsim.core.contact.penalty_and_friction import ContactPotential, ContactSet
from dampsim.core.geometry.mesh.surface import Surface
from dampsim.core.simulation.simulation import Simulation
from detection_cases import DetectionStep, DetectionSurface, R
from shapes import sheet

FLAT = sheet(21)
NO_HISTORY = ContactHistory()
GAP = 0.8 * R


def flip_triangles(surface: Surface) -> Surface:
    return Surface(surface.name, surface.vertices, surface.triangles[:, ::-1])


def fold_sheet(points: np.ndarray) -> np.ndarray:
    """Fold a sheet of one metre: its half x > 0.55 lies flat above the other one, at a small gap."""
    x, y, z = points.T
    over = x > 0.55
    return np.column_stack([np.where(over, 1.0 - x, x), y, np.where(over, GAP, z)])


@pytest.mark.parametrize("surface", [FLAT, flip_triangles(FLAT)], ids=["fronts", "backs"])
def test_folded_sheet_self_contact_both_sides(surface: Surface) -> None:
    turn = Rotation.from_rotvec([0.4, -0.2, 0.7])
    rest = surface.vertices
    points = turn.apply(fold_sheet(rest))
    rows = DetectionStep(
        [DetectionSurface(replace_vertices(surface, points), rest=rest)], pairs=(), self_colliding=(0,)
    ).detect()
    rows = rows.select(np.flatnonzero(rows.key[:, 1] != EDGE))
    which = rows.key[:, 2]
    # Away from the fold, near which both halves are neighbours in the rest shape.
    mine = np.flatnonzero(rest[which, 0] > 0.6)
    assert set(which[mine]) == set(np.flatnonzero(rest[:, 0] > 0.6))
    np.testing.assert_allclose(turn.inv().apply(rows.normal[mine]), np.tile([0.0, 0.0, 1.0], (len(mine), 1)), atol=1e-9)
    np.testing.assert_allclose(np.einsum("ki,ki->k", rows.normal, rows.stick_anchor)[mine], GAP, atol=1e-9)
    others = np.flatnonzero(rest[which, 0] < 0.4)
    assert set(which[others]) == set(np.flatnonzero(rest[:, 0] < 0.4))
    np.testing.assert_allclose(rows.normal[others] @ turn.apply([0.0, 0.0, 1.0]), -1.0, atol=1e-9)


def test_sheet_edge_on_itself_makes_contact() -> None:
    rest = FLAT.vertices
    x, y = rest[:, :2].T
    # The part beyond 0.6 stands upright over x = 0.3, with its first row less than r above the rest.
    points = np.where((x > 0.62)[:, None], np.column_stack([0.31 + 0.0 * x, y, x - 0.65 + GAP]), rest)
    rows = DetectionStep(
        [DetectionSurface(replace_vertices(FLAT, points), rest=rest)], pairs=(), self_colliding=(0,)
    ).detect()
    lowest = np.flatnonzero(np.abs(x - 0.65) < 1e-9)
    mine = np.flatnonzero(np.isin(rows.key[:, 2], lowest))
    assert set(rows.key[mine, 2]) == set(lowest)
    np.testing.assert_allclose(rows.normal[mine], np.tile([0.0, 0.0, 1.0], (len(mine), 1)), atol=1e-9)


def replace_vertices(surface: Surface, points: np.ndarray) -> Surface:
    return Surface(surface.name, points, surface.triangles)


def plane_contacts(normals: np.ndarray, places: np.ndarray, kinds: list[int], point: int = 0) -> ContactSet:
    """Return a point's contacts with planes of normals (k, 3) through places (k, 3) m."""
    k = len(normals)
    return ContactSet(
        csr_matrix(np.ones((k, 1))), -places, normals, np.full(k, R), np.full(k, R), np.full(k, 100.0), np.zeros(k),
        np.zeros((k, 3)), np.array([[0, kind, point, 0] for kind in kinds]), np.zeros((k, 3)),
    )  # fmt: skip


# The sides of a groove along y, and the position of a point in contact with both.
GROOVE_NORMALS = np.array([[0.8, 0.0, 0.6], [-0.8, 0.0, 0.6]])
GROOVE_POINT = np.array([0.0, 0.0, 0.7 * R / 0.6])


def groove_plane(k: int, sign: float = 1.0) -> tuple[np.ndarray, np.ndarray]:
    """Return a plane of the groove and the closest place on it; sign -1 makes a ridge of the groove."""
    normal = GROOVE_NORMALS[k] * [1.0, 1.0, sign]
    return normal[None], (GROOVE_POINT - 0.7 * R * normal)[None]


def test_groove_keeps_both_contact_planes() -> None:
    """The previous plane of a groove stays while it presses, beside the newly detected one."""
    first, second = (plane_contacts(*groove_plane(k), [POINT]) for k in (0, 1))
    both = keep_corner_contacts(first, second, GROOVE_POINT[None], NO_HISTORY)
    assert len(both) == 2
    kinds = {tuple(np.round(n, 3)): kind for n, kind in zip(both.normal, both.key[:, 1], strict=True)}
    assert set(kinds.values()) == {POINT, CORNER_KINDS[0]}
    # Whichever side is detected next, each keeps its key.
    for again in (first, second):
        found = keep_corner_contacts(both, again, GROOVE_POINT[None], NO_HISTORY)
        assert {tuple(np.round(n, 3)): kind for n, kind in zip(found.normal, found.key[:, 1], strict=True)} == kinds


def test_corner_contacts_are_dropped() -> None:
    """Open contacts, edge contacts, equal planes, other points and ridges keep no second plane."""
    first, second = (plane_contacts(*groove_plane(k), [POINT]) for k in (0, 1))
    # A contact that opened; an edge contact; the same side; another point.
    away = GROOVE_POINT + 0.5 * R * GROOVE_NORMALS[0]
    assert (
        len(
            keep_corner_contacts(
                first,
                plane_contacts(GROOVE_NORMALS[1:], (away - 0.7 * R * GROOVE_NORMALS[1])[None], [POINT]),
                away[None],
                NO_HISTORY,
            )
        )
        == 1
    )
    assert (
        len(keep_corner_contacts(plane_contacts(*groove_plane(0), [EDGE]), second, GROOVE_POINT[None], NO_HISTORY)) == 1
    )
    assert len(keep_corner_contacts(first, first, GROOVE_POINT[None], NO_HISTORY)) == 1
    assert (
        len(keep_corner_contacts(first, plane_contacts(*groove_plane(1), [POINT], 5), GROOVE_POINT[None], NO_HISTORY))
        == 1
    )
    # The place on each side of a ridge lies behind the other side.
    ridge = [
        plane_contacts(np.array([n]), (GROOVE_POINT + c)[None], [POINT])
        for n, c in zip(GROOVE_NORMALS, RIDGE_OFFSETS, strict=True)
    ]
    assert all(ContactPotential(one, np.zeros(1)).forces_at(GROOVE_POINT[None]).gap[0] < 0.0 for one in ridge)
    assert len(keep_corner_contacts(*ridge, GROOVE_POINT[None], NO_HISTORY)) == 1


# Offsets to places on both sides of a ridge, both of which press.
RIDGE_OFFSETS = np.array([[0.6 * R, 0.0, -1.0 * R], [-0.6 * R, 0.0, -1.0 * R]])


@pytest.mark.slow
def test_crumpled_flag_comes_to_rest() -> None:
    """A flag that is pinned along one side falls into its folds, which slide over each other until about frame 100."""
    x, z = np.meshgrid(np.linspace(0.0, 1.2, 19), np.linspace(0.0, -0.8, 13))
    bumps = 0.002 * np.random.default_rng(1).standard_normal(x.size)
    k = np.arange(x.size).reshape(x.shape)
    a, b, c, d = (one.ravel() for one in (k[:-1, :-1], k[:-1, 1:], k[1:, 1:], k[1:, :-1]))
    flag = Surface(
        "Flag",
        np.column_stack([x.ravel(), bumps, z.ravel()]),
        np.concatenate([np.stack([a, d, c], 1), np.stack([a, c, b], 1)]),
    )
    pins = (flag.vertices[:, 0] < 1e-9).astype(float)
    dials = {**STOUT_COTTON, "touch_self": True, "start_settled": False, "settle": 24.0}
    shapes = [
        frame.shapes["Flag"]
        for frame in Simulation(scene(static_body(flag, pins, kind="CLOTH", **dials), last=130)).frames()
    ]
    late = [np.linalg.norm(b - a, axis=1).max() for a, b in zip(shapes[-8:-1], shapes[-7:], strict=True)]
    # A hopping sheet would move by the contact distance, 7 mm.
    assert max(late) < 5e-4


def test_thread_contact_kept_near_corner() -> None:
    """Detection finds one of two edges that meet in a corner; the other contact stays while it presses."""

    def of_edge(feature: int, place: np.ndarray, kind: int = EDGE) -> ContactSet:
        return plane_contacts(np.array([[0.0, 0.0, 1.0]]), place[None], [kind], feature)

    at, threads = np.array([[0.0, 0.0, 0.5 * R]]), frozenset({0})
    known, found = of_edge(1, np.zeros(3)), of_edge(2, np.array([R, 0.0, 0.0]))
    both = keep_thread_contacts(known, found, at, threads)
    assert both.key.tolist() == [found.key[0].tolist(), known.key[0].tolist()]
    # A contact that is detected again is not duplicated, and no other stays.
    assert len(keep_thread_contacts(known, of_edge(1, np.zeros(3)), at, threads)) == 1
    for gone in (
        keep_thread_contacts(known, found, np.array([[0.0, 0.0, 1.1 * R]]), threads),
        keep_thread_contacts(of_edge(1, np.array([6.0 * R, 0.0, 0.0])), found, at, threads),
        keep_thread_contacts(of_edge(1, np.zeros(3), POINT), found, at, threads),
        keep_thread_contacts(known, found, at, frozenset()),
    ):
        assert gone.key.tolist() == found.key.tolist()


def touching_sides(normals: np.ndarray, kinds: list[int], surface: int = 1) -> ContactSet:
    """Return contacts of a point with sides of normals (k, 3) of a surface; 0 is its own."""
    found = plane_contacts(normals, 0.1 * normals, kinds)
    return replace(found, key=np.array([[0, kind, 0, surface] for kind in kinds]))


def test_alternating_sides_are_kept() -> None:
    """A point between two sides keeps both, and in a corner of three all of them, each under its own key."""
    first, second, third = np.eye(3)
    one, other = (touching_sides(side[None], [POINT]) for side in (first, second))
    both = keep_alternating_contacts(one, other, NO_HISTORY)
    assert {tuple(normal) for normal in both.normal} == {tuple(first), tuple(second)}
    assert len({*map(tuple, both.key)}) == 2
    all_sides = keep_alternating_contacts(both, touching_sides(third[None], [POINT]), NO_HISTORY)
    assert {tuple(normal) for normal in all_sides.normal} == {tuple(first), tuple(second), tuple(third)}
    assert len({*map(tuple, all_sides.key)}) == 3


@pytest.mark.parametrize("case", ["same side", "own surface", "no longer near"])
def test_other_contacts_do_not_alternate(case: str) -> None:
    first, second = np.eye(3)[:2]
    surface = 0 if case == "own surface" else 1
    previous = touching_sides((second if case == "same side" else first)[None], [POINT], surface)
    detected = touching_sides(second[None], [POINT], surface)
    if case == "no longer near":
        detected = detected.select(np.zeros(0, dtype=np.int64))
    assert keep_alternating_contacts(previous, detected, NO_HISTORY) is detected
