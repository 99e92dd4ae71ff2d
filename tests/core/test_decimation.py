"""Decimation of dense sheets, and the wrap that moves the dense surface with the coarse sheet."""

from __future__ import annotations

import numpy as np
import pytest
from hanging_bodies import flag

from builders import STOUT_COTTON, scene, static_body
from dampsim.core.bodies import kind_by_name
from dampsim.core.bodies.sheet_wrap import SheetWrap
from dampsim.core.geometry.mesh.decimation import decimate
from dampsim.core.geometry.mesh.surface import Surface, count_open_edges, triangle_areas
from dampsim.core.simulation.simulation import Simulation
from shapes import ring, sheet, sphere


@pytest.mark.parametrize("surface", [sheet(30), sphere(900), ring(48, 16)], ids=["sheet", "ball", "ring"])
def test_decimation_preserves_shape_and_topology(surface: Surface) -> None:
    points, triangles = surface.vertices, surface.triangles
    count = len(points) // 3
    found = decimate(points, triangles, count, np.zeros(len(points)))
    left = np.unique(found.triangles)
    assert len(left) == count
    # The Euler characteristic stays, and closed surfaces stay closed.
    sides = np.sort(found.triangles[:, [0, 1, 1, 2, 2, 0]].reshape(-1, 2), axis=1)
    before = np.sort(triangles[:, [0, 1, 1, 2, 2, 0]].reshape(-1, 2), axis=1)
    euler = [
        len(np.unique(t)) - len(np.unique(s, axis=0)) + len(t)
        for t, s in ((found.triangles, sides), (triangles, before))
    ]
    assert euler[0] == euler[1]
    assert (count_open_edges(found.triangles) == 0) == (count_open_edges(triangles) == 0)
    # A ring with so few vertices is less round.
    areas = triangle_areas(points, found.triangles)
    assert areas.sum() == pytest.approx(triangle_areas(points, triangles).sum(), rel=0.03)
    assert np.isin(found.representative, left).all()
    # No vertex moved far: about the distance between remaining vertices.
    apart = np.sqrt(areas.sum() / count)
    assert np.linalg.norm(points - points[found.representative], axis=1).max() < 4.0 * apart


def test_decimation_keeps_pins_and_corners() -> None:
    """A vertex merges only into one with at least its pin weight, and corners stay."""
    surface = sheet(20)
    held = (surface.vertices[:, 0] > 0.9).astype(float)
    found = decimate(surface.vertices, surface.triangles, 80, held)
    assert (held[found.representative] >= held).all()
    low, high = surface.vertices.min(axis=0), surface.vertices.max(axis=0)
    corners = np.flatnonzero(((surface.vertices == low) | (surface.vertices == high)).all(axis=1))
    assert len(corners) == 4
    assert np.isin(corners, found.triangles).all()


@pytest.mark.slow
def test_decimated_sheet_matches_dense_sheet() -> None:
    """The wrapped surface follows rigid motions exactly and a fall within 5 cm."""
    body = flag(25, detail=120)
    model = kind_by_name("CLOTH").build(body)
    assert len(model.block.rest) == 120
    assert model.block.mass.sum() == pytest.approx(0.2, rel=1e-6)
    rest = body.surface.vertices
    np.testing.assert_allclose(model.skin(model.block.rest, rest), rest, atol=1e-12)
    turn = np.linalg.qr(np.random.default_rng(0).standard_normal((3, 3)))[0]
    turn *= np.sign(np.linalg.det(turn))
    moved = model.skin(model.block.rest @ turn.T + 1.0, rest @ turn.T + 1.0)
    np.testing.assert_allclose(moved, rest @ turn.T + 1.0, atol=1e-12)
    # Its fall from the horizontal agrees with the dense sheet within a few percent of its size.
    shapes = []
    for detail in (120, 5000):
        turned = Surface("Flag", np.column_stack([rest[:, 0], -rest[:, 2], 0.0 * rest[:, 0]]), body.surface.triangles)
        swung = static_body(
            turned, body.pins, kind="CLOTH", **{**STOUT_COTTON, "detail": detail, "start_settled": False}
        )
        *_, frame = Simulation(scene(swung, last=8)).frames()
        shapes.append(frame.shapes["Flag"])
    assert np.abs(shapes[0] - shapes[1]).max() < 0.05
    assert np.linalg.norm(shapes[0] - turned.vertices, axis=1).max() > 0.3


@pytest.mark.parametrize("crumpled", [0.0, 0.08])
def test_sheet_wrap_rotations_are_best_fit(
    crumpled: float,
) -> None:
    """A node's rotation is the polar factor of the least-squares fit to its edges and normals."""
    skin = kind_by_name("CLOTH").build(flag(25, detail=120)).skin
    assert isinstance(skin, SheetWrap)
    rolled = skin.rest.copy()
    assert np.ptp(skin.rest[:, 1]) == 0.0
    rolled[:, 0], rolled[:, 2] = np.sin(4.0 * skin.rest[:, 0]) / 4.0, 1.3 * skin.rest[:, 2]
    rolled[:, 1] += (1.0 - np.cos(4.0 * skin.rest[:, 0])) / 4.0
    rolled += crumpled * np.random.default_rng(0).standard_normal(rolled.shape)
    folded = 0
    for node, found in enumerate(skin._node_rotations(rolled)):
        old, new = [], []
        for triangle in skin.triangles[(skin.triangles == node).any(axis=1)]:
            corners = [skin.rest[triangle], rolled[triangle]]
            for places, rows in zip(corners, (old, new), strict=True):
                rows.extend(places[triangle != node] - places[triangle == node])
            normals = [np.cross(one[1] - one[0], one[2] - one[0]) for one in corners]
            # Both get the length of the rest shape's edges.
            rows = [one / np.linalg.norm(one) * np.sqrt(np.linalg.norm(normals[0])) for one in normals]
            old.append(rows[0])
            new.append(rows[1])
        F = np.linalg.lstsq(np.array(old), np.array(new), rcond=None)[0].T
        u, _, w = np.linalg.svd(F)
        folded += np.linalg.det(F) < 0.0
        # The accuracy of an SVD of a least-squares fit to a few edges.
        np.testing.assert_allclose(found, u @ np.diag([1.0, 1.0, np.linalg.det(u @ w)]) @ w, atol=1e-9)
    # Some of the crumpled nodes are inverted.
    assert (folded > 0) == (crumpled > 0.0)
