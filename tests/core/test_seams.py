"""Seams: borders that are joined hold like one piece."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from builders import scene, static_body
from dampsim.core.base.errors import MeshError
from dampsim.core.bodies.cloth import ClothKind
from dampsim.core.geometry.mesh.seams import SeamError, pair_border_vertices
from dampsim.core.geometry.mesh.surface import Surface
from dampsim.core.scene.body import Body
from dampsim.core.simulation.simulation import Simulation

# Cotton of nearly inextensible threads, 1 mm thick.
COTTON: dict[str, Any] = {"kind": "CLOTH", "thickness": 1.0, "stiffness": 3000.0, "density": 200.0, "bending": 0.18}


def panel(columns: int, rows: int, corner: tuple[float, float, float], size: tuple[float, float]) -> Surface:
    """Return a rectangle in the plane y = 0 from its lower left corner."""
    x, z = np.meshgrid(np.linspace(0.0, size[0], columns), np.linspace(0.0, size[1], rows), indexing="ij")
    k = (np.arange(columns - 1)[:, None] * rows + np.arange(rows - 1)).ravel()
    faces = np.concatenate([np.stack([k, k + rows, k + rows + 1], 1), np.stack([k, k + rows + 1, k + 1], 1)])
    return Surface("Panel", np.column_stack([x.ravel(), 0.0 * x.ravel(), z.ravel()]) + corner, faces)


def combine(one: Surface, other: Surface) -> Surface:
    triangles = np.concatenate([one.triangles, other.triangles + len(one.vertices)])
    return Surface("Garment", np.concatenate([one.vertices, other.vertices]), triangles)


def sewn_body(surface: Surface, members: np.ndarray, pins: np.ndarray, **more: Any) -> Body:
    seams = pair_border_vertices(surface.vertices, surface.triangles, members)
    return static_body(surface, pins.astype(float), seams=seams, **{**COTTON, **more})


def largest_gap(body: Body, points: np.ndarray) -> float:
    """Return the largest distance in m between paired vertices that are not both pinned."""
    free = body.seams[~(body.pins[body.seams] > 0.0).all(axis=1)]
    return float(np.linalg.norm(points[free[:, 0]] - points[free[:, 1]], axis=1).max())


def test_pairs_of_unequal_borders() -> None:
    """Each vertex of both borders is paired with a vertex at nearly the same fraction of the other border."""
    one, other = panel(4, 13, (0.0, 0.0, 0.0), (0.3, 1.2)), panel(4, 9, (0.5, 0.2, 0.1), (0.3, 1.0))
    surface = combine(one, other)
    # The right side of one panel and the left side of the other.
    x = surface.vertices[:, 0]
    pairs = pair_border_vertices(
        surface.vertices, surface.triangles, (np.abs(x - 0.3) < 1e-9) | (np.abs(x - 0.5) < 1e-9)
    )
    assert len(pairs) == 13
    assert np.unique(pairs[:, 0]).tolist() == list(range(39, 52))
    assert np.unique(pairs[:, 1]).tolist() == list(range(52, 61))
    # Fractions of the length differ by at most half of the larger spacing.
    high = surface.vertices[pairs, 2]
    assert np.abs(high[:, 0] / 1.2 - (high[:, 1] - 0.1)).max() < 0.5 / 8.0 + 1e-9


def test_pairs_of_ring_borders() -> None:
    """Ring borders are paired by position, independent of their start and direction."""
    turn = 2.0 * np.pi * np.arange(12) / 12
    low = np.column_stack([np.cos(turn), np.sin(turn), 0.0 * turn])
    # The other ring has another start and the opposite direction.
    high = np.roll(low[::-1], 5, axis=0) * 0.9
    up = np.array([0.0, 0.0, 1.0])
    rows = [low - up, low, high + 0.2 * up, high + up]
    k = np.arange(12)
    band = np.concatenate(
        [np.stack([k, (k + 1) % 12, k + 12], 1), np.stack([(k + 1) % 12, (k + 1) % 12 + 12, k + 12], 1)]
    )
    vertices, members = np.concatenate(rows), np.repeat([False, True, True, False], 12)
    pairs = pair_border_vertices(vertices, np.concatenate([band, band + 24]), members)
    assert len(pairs) == 12
    flat = vertices[pairs, :2] / np.linalg.norm(vertices[pairs, :2], axis=2)[:, :, None]
    np.testing.assert_allclose(flat[:, 0], flat[:, 1], atol=1e-9)


def test_two_seams_of_two_panels() -> None:
    front, back = panel(5, 6, (0.0, 0.0, 0.0), (0.4, 0.5)), panel(5, 6, (0.0, 0.3, 0.0), (0.4, 0.5))
    surface = combine(front, back)
    x = surface.vertices[:, 0]
    pairs = pair_border_vertices(surface.vertices, surface.triangles, (x < 1e-9) | (x > 0.4 - 1e-9))
    assert len(pairs) == 12
    np.testing.assert_allclose(
        surface.vertices[pairs[:, 0]][:, [0, 2]], surface.vertices[pairs[:, 1]][:, [0, 2]], atol=1e-12
    )


@pytest.mark.parametrize(
    ("members", "said"),
    [
        (lambda x, z: (x > 0.05) & (x < 0.35) & (z > 0.05) & (z < 0.45), "is not on a border of the mesh"),
        (lambda x, z: x < 1e-9, "covers 1 line along borders"),
        (lambda x, z: (x < 1e-9) | (x > 0.4 - 1e-9) | ((z < 1e-9) & (np.abs(x - 0.2) < 0.11)), "covers 3 lines"),
        (lambda x, z: x > -1.0, "covers 1 ring"),
    ],
)
def test_invalid_seam_group_is_refused(members: Any, said: str) -> None:
    """A seam group that does not cover two lines or rings is refused with a description of its borders."""
    surface = panel(9, 6, (0.0, 0.0, 0.0), (0.4, 0.5))
    with pytest.raises(SeamError, match=said):
        pair_border_vertices(
            surface.vertices, surface.triangles, members(surface.vertices[:, 0], surface.vertices[:, 2])
        )


def test_sewn_sheet_hangs_like_whole_sheet() -> None:
    whole = panel(5, 13, (0.0, 0.0, -1.2), (0.4, 1.2))
    # The lower half is modelled 5 cm beside and below its place.
    upper, lower = panel(5, 7, (0.0, 0.0, -0.6), (0.4, 0.6)), panel(5, 7, (0.0, 0.05, -1.25), (0.4, 0.6))
    halves = combine(upper, lower)
    z = halves.vertices[:, 2]
    cut = sewn_body(halves, (np.abs(z + 0.6) < 1e-9) | (np.abs(z + 0.65) < 1e-9), z > -1e-9)
    one = static_body(whole, (whole.vertices[:, 2] > -1e-9).astype(float), **COTTON)
    hung = {
        name: Simulation(scene(body, last=1)).first_frame().shapes[body.name]
        for name, body in (("cut", cut), ("one", one))
    }
    edge = 0.1
    # Each edge there carries half of 0.1 kg on 0.4 m of 3000 N/m, a strain of about 1e-3.
    assert largest_gap(cut, hung["cut"]) < 1e-3 * edge
    assert hung["cut"][:, 2].min() == pytest.approx(hung["one"][:, 2].min(), abs=2e-4)


def bag(**more: Any) -> Body:
    """Return two panels 0.3 m apart that are sewn along their sides and at the bottom, pinned at the top."""
    front, back = panel(9, 11, (0.0, 0.0, -0.5), (0.4, 0.5)), panel(9, 11, (0.0, 0.3, -0.5), (0.4, 0.5))
    surface = combine(front, back)
    x, z = surface.vertices[:, 0], surface.vertices[:, 2]
    members = (x < 1e-9) | (x > 0.4 - 1e-9) | (z < -0.5 + 1e-9)
    return sewn_body(surface, members, z > -1e-9, **more)


@pytest.mark.slow
@pytest.mark.parametrize("start_settled", [True, False])
def test_seams_close_gap_and_stay_closed(start_settled: bool) -> None:
    """Seams pull separate panels together and keep them together."""
    body = bag(start_settled=start_settled, settle=20.0)
    frames = list(Simulation(scene(body, last=40)).frames())
    gaps = []
    for frame in frames:
        points = frame.shapes[body.name]
        assert np.isfinite(points).all()
        gaps.append(largest_gap(body, points))
    # This is invisible on panels of half a metre.
    assert max(gaps[0 if start_settled else 12 :]) < 1e-3


def test_sewn_cushion_holds_pressure() -> None:
    front, back = panel(9, 9, (0.0, 0.0, 0.0), (0.4, 0.4)), panel(9, 9, (0.0, 0.02, 0.0), (0.4, 0.4))
    back = Surface(back.name, back.vertices, back.triangles[:, ::-1])
    surface = combine(front, back)
    x, z = surface.vertices[:, 0], surface.vertices[:, 2]
    rim = (np.minimum(x, z) < 1e-9) | (np.maximum(x, z) > 0.4 - 1e-9)
    pins = np.zeros(len(x))
    with pytest.raises(MeshError, match="Garment: the sheet is open"):
        ClothKind.build(static_body(surface, pins, **COTTON, pressure=20.0))
    body = sewn_body(surface, rim, z > 0.4 - 1e-9, pressure=20.0)
    shape = Simulation(scene(body, last=1)).first_frame().shapes[body.name]
    # The cushion is modelled 2 cm thick and inflates.
    assert np.ptp(shape[:, 1]) > 0.06
    assert largest_gap(body, shape) < 1e-3


def test_seams_on_coarsened_sheet() -> None:
    upper, lower = panel(41, 21, (0.0, 0.0, -0.5), (1.0, 0.5)), panel(41, 21, (0.0, 0.05, -1.1), (1.0, 0.5))
    halves = combine(upper, lower)
    z = halves.vertices[:, 2]
    body = sewn_body(halves, (np.abs(z + 0.5) < 1e-9) | (np.abs(z + 0.6) < 1e-9), z > -1e-9, detail=300)
    model = ClothKind.build(body)
    assert len(model.block.rest) < 400
    shape = Simulation(scene(body, last=1)).first_frame().shapes[body.name]
    assert len(body.seams) == 41
    assert largest_gap(body, shape) < 1e-3


@pytest.mark.slow
def test_seams_stay_closed_under_self_contact() -> None:
    body = bag(touch_self=True, contact_distance=0.01, settle=20.0)
    frames = list(Simulation(scene(body, last=6)).frames())
    # Far below the contact distance, which separates the panels elsewhere.
    assert max(largest_gap(body, frame.shapes[body.name]) for frame in frames) < 1e-3
