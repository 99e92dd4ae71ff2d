"""Outward orientation of faces, whatever their modelled orientation."""

from __future__ import annotations

import numpy as np
import pytest

from builders import gridded_box
from dampsim.core.geometry.mesh.surface import CornerFans, orient_outward, weld_vertices
from dampsim.core.geometry.mesh.triangles import Topology


def volume(vertices: np.ndarray, triangles: np.ndarray) -> float:
    a, b, c = vertices[triangles].transpose(1, 0, 2)
    return float(np.einsum("ti,ti->", a, np.cross(b, c)) / 6.0)


def flip_triangles(triangles: np.ndarray, which: np.ndarray) -> np.ndarray:
    return np.where(which[:, None], triangles[:, [0, 2, 1]], triangles)


def box(size: float, place: float = 0.0) -> tuple[np.ndarray, np.ndarray]:
    made = gridded_box("Box", (place - size,) * 3, (place + size,) * 3, size)
    first, label = weld_vertices(made.vertices)
    return made.vertices[first], label[made.triangles]


@pytest.mark.parametrize("share", [0.0, 0.3, 0.6, 1.0])
def test_closed_surface_orients_outward(share: float) -> None:
    """A closed surface is oriented outward, whatever share of its faces was flipped."""
    vertices, triangles = box(1.0)
    assert volume(vertices, triangles) == pytest.approx(8.0)
    chance = np.random.default_rng(1)
    for far in (0.0, 30.0):
        found = orient_outward(vertices + far, flip_triangles(triangles, chance.random(len(triangles)) < share))
        np.testing.assert_array_equal(found, triangles)


def test_pieces_orient_outward_cavity_inward() -> None:
    (large, a), (other, b), (hole, c) = box(1.0), box(0.5, 4.0), box(0.5)
    vertices = np.concatenate([large, other, hole])
    pieces = [a, b + len(large), c + len(large) + len(other)]
    inside_out = np.concatenate([piece[:, [0, 2, 1]] for piece in pieces])
    found = orient_outward(vertices, inside_out)
    # The inner box counts as a cavity only if the box around it was modelled with outward faces.
    assert volume(vertices, found[: len(a)]) == pytest.approx(8.0)
    assert volume(vertices, found[len(a) : len(a) + len(b)]) == pytest.approx(1.0)
    hollow = np.concatenate([pieces[0], pieces[1], pieces[2][:, [0, 2, 1]]])
    np.testing.assert_array_equal(orient_outward(vertices, hollow), hollow)


def test_open_sheet_follows_majority() -> None:
    vertices, triangles = box(1.0)
    sheet = triangles[vertices[triangles][:, :, 2].min(axis=1) < 0.9]
    which = np.zeros(len(sheet), dtype=bool)
    which[:5] = True
    for turn in (False, True):
        wanted = flip_triangles(sheet, np.full(len(sheet), turn))
        np.testing.assert_array_equal(orient_outward(vertices, flip_triangles(wanted, which)), wanted)


def test_moebius_strip_is_unchanged() -> None:
    count = 12
    strip = np.array([[2 * k, 2 * k + 1, 2 * k + 2, 2 * k + 3] for k in range(count)])
    ends = {2 * count: 1, 2 * count + 1: 0}
    triangles = np.concatenate([strip[:, [0, 1, 2]], strip[:, [2, 1, 3]]])
    triangles = np.vectorize(lambda k: ends.get(k, k))(triangles)
    angle = np.repeat(np.linspace(0.0, 2.0 * np.pi, count, endpoint=False), 2)
    side = np.tile([-0.2, 0.2], count)
    ring = 1.0 + side * np.cos(0.5 * angle)
    vertices = np.stack([ring * np.cos(angle), ring * np.sin(angle), side * np.sin(0.5 * angle)], axis=1)
    np.testing.assert_array_equal(orient_outward(vertices, triangles), triangles)
    assert len(orient_outward(vertices, triangles[:0])) == 0


def fans_around(triangles: np.ndarray) -> list[list[int]]:
    """Return the triangles of the fans around each triangle."""
    fans = CornerFans.of(triangles, Topology.from_triangles(triangles).triangle_edges)
    members, place = fans.triangles_of_fans(np.arange(len(triangles)))
    return [sorted(set(members[place == k].tolist())) for k in range(len(triangles))]


def test_fans_continue_only_consistent_triangles() -> None:
    ring = np.array([[0, 1, 2], [0, 2, 3], [0, 3, 4], [0, 4, 1]])
    assert fans_around(ring) == [[0, 1, 2, 3]] * 4
    # The way around the other side remains.
    assert fans_around(np.delete(ring, 3, axis=0)) == [[0, 1, 2]] * 3
    # A triangle turned over, a third triangle at two opposite edges, and another sheet at the middle vertex.
    turned = ring.copy()
    turned[3] = turned[3, ::-1]
    assert fans_around(turned) == [[0, 1, 2], [0, 1, 2], [0, 1, 2], [3]]
    junction = np.concatenate([ring, [[0, 1, 5], [0, 6, 3]]])
    assert fans_around(junction) == [[0, 1], [0, 1], [2, 3], [2, 3], [4], [5]]
    touching = np.concatenate([ring, [[0, 5, 6]]])
    assert fans_around(touching) == [[0, 1, 2, 3]] * 4 + [[4]]


def test_fans_ignore_collapsed_triangles() -> None:
    welded = np.array([[0, 1, 2], [2, 1, 1], [1, 3, 2]])
    assert fans_around(welded)[::2] == [[0, 2], [0, 2]]


def test_fans_of_no_triangles() -> None:
    assert fans_around(np.zeros((0, 3), dtype=np.int64)) == []
