"""Pieces of a mesh: which ones a pin reaches, and how parts without elements follow the others."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from scipy.spatial.transform import Rotation

from builders import scene, static_body
from dampsim.core.bodies import KINDS
from dampsim.core.bodies.pieces import build_model, find_pieces, label_pieces
from dampsim.core.geometry.mesh.surface import Surface
from dampsim.core.geometry.tetmesh.tetrahedralise import tetrahedralise
from dampsim.core.scene.body import Body
from dampsim.core.scene.fingerprint import body_fingerprint
from dampsim.core.simulation.simulation import Simulation
from shapes import sheet, sphere, tube


def combine(*surfaces: Surface) -> Surface:
    """Return one surface of several parts."""
    starts = np.cumsum([0, *(len(one.vertices) for one in surfaces)])
    triangles = [one.triangles + start for one, start in zip(surfaces, starts, strict=False)]
    return Surface("Parts", np.concatenate([one.vertices for one in surfaces]), np.concatenate(triangles))


def shifted(surface: Surface, *shift: float, scale: float = 1.0) -> Surface:
    return replace(surface, vertices=scale * surface.vertices + np.array(shift))


def with_points(surface: Surface, *points: tuple[float, float, float]) -> Surface:
    return replace(surface, vertices=np.concatenate([surface.vertices, points]))


def edges_of(surface: Surface) -> np.ndarray:
    t = surface.triangles
    return np.unique(np.sort(np.concatenate([t[:, [0, 1]], t[:, [1, 2]], t[:, [2, 0]]]), axis=1), axis=0)


def body_of_kind(surface: Surface, kind: str, **more: Any) -> Body:
    edges = edges_of(surface) if kind in ("SPRINGS", "ROPE", "WEAVE") else np.zeros((0, 2), dtype=np.int64)
    return static_body(surface, kind=kind, edges=edges, **more)


@pytest.mark.parametrize("kind", [kind.name for kind in KINDS if kind.name != "SOLID"])
def test_pin_reaches_own_piece(kind: str) -> None:
    """Two sheets and a vertex of their own; a pin holds the first, a link point the second."""
    one, other = sheet(4), shifted(sheet(3), 3.0, 0.0, 0.0)
    surface = with_points(combine(one, other), (9.0, 9.0, 9.0))
    pins = np.zeros(len(surface.vertices))
    pins[[0, -1]] = 1.0
    body = body_of_kind(surface, kind, pins=pins)
    pieces = find_pieces(body)
    assert pieces.labels.tolist() == [0] * 16 + [1] * 9 + [-1]
    assert pieces.is_reached.tolist() == [True, False]
    assert pieces.unreached_count == 1
    assert np.flatnonzero(pieces.unreached_vertices).tolist() == list(range(16, 25))
    assert np.flatnonzero(pieces.unconnected_vertices).tolist() == [25]
    assert find_pieces(body, np.array([[3.4, 0.2, 0.0]])).unreached_count == 0
    # Where nothing is pinned, no piece differs from the others.
    assert find_pieces(replace(body, pins=0.0 * pins)).unreached_count == 0


def test_seams_and_coincident_vertices_connect() -> None:
    sewn = combine(sheet(3), shifted(sheet(3), 2.0, 0.0, 0.0))
    body = static_body(sewn, kind="CLOTH")
    assert label_pieces(body).max() == 1
    assert label_pieces(replace(body, seams=np.array([[8, 9]]))).max() == 0
    # The border of one sheet coincides with that of the other.
    touching = combine(sheet(3), shifted(sheet(3), 1.0, 0.0, 0.0))
    assert label_pieces(static_body(touching, kind="CLOTH")).max() == 0
    # A seam to a vertex without a face sews nothing.
    loose = with_points(sewn, (1.5, 0.5, 0.0))
    through = static_body(loose, kind="CLOTH", seams=np.array([[8, 18], [18, 9]]))
    assert label_pieces(through).tolist() == [0] * 9 + [1] * 9 + [-1]


def test_tetrahedra_connect_parts_of_solids() -> None:
    """An eye moves with the head around it, a ball beside it does not."""
    head, eye, ball = sphere(300), shifted(sphere(60), 0.6, 0.0, 0.2, scale=0.2), shifted(sphere(60), 4.0, 0.0, 0.0)
    labels = label_pieces(static_body(combine(head, eye, ball), resolution=500))
    assert labels.tolist() == [0] * 360 + [1] * 60


@pytest.mark.parametrize("kind", ["SOLID", "CLOTH", "SPRINGS"])
def test_loose_vertices_follow_rigidly(kind: str) -> None:
    """Two loose vertices beside a rod move with it, and keep their own animation; a pinned one stays on it."""
    rod = tube(1.0, 0.2, 6, 8)
    surface = with_points(rod, (0.4, 0.0, 0.9), (0.5, 0.0, 0.9), (0.0, 0.4, 0.1))
    pins = np.zeros(len(surface.vertices))
    pins[-1] = 1.0
    model = build_model(body_of_kind(surface, kind, pins=pins, resolution=300))
    assert not len(model.block.pinned)
    turn, shift = Rotation.from_euler("xyz", (0.4, -1.1, 2.0)).as_matrix(), np.array([0.3, 2.0, -1.0])
    animated = surface.vertices.copy()
    animated[-3] += (0.0, 0.1, 0.0)
    result = model.skin(model.block.rest @ turn.T + shift, animated)
    np.testing.assert_allclose(result[:-1], (animated @ turn.T + shift)[:-1], atol=1e-9)
    np.testing.assert_allclose(result[-1], animated[-1], atol=1e-12)
    operator, animation_weights = model.skin.node_operator()
    np.testing.assert_allclose(np.asarray(operator.sum(axis=1)).ravel(), 1.0 - animation_weights, atol=1e-12)
    # A translation is exact for the operator, too.
    np.testing.assert_allclose((operator @ np.ones(len(model.block.rest)))[-3:], [1.0, 1.0, 0.0], atol=1e-12)


def test_following_piece_stays_rigid() -> None:
    """A button on a bent sheet keeps its shape, has no nodes and no contacts."""
    cloth, button = sheet(8), shifted(sheet(3), 0.45, 0.45, 0.02, scale=0.1)
    surface = combine(cloth, button)
    mask = np.arange(len(surface.vertices)) >= 64
    body = static_body(surface, kind="CLOTH", follower_mask=mask)
    model = build_model(body)
    assert len(model.block.rest) == 64
    assert model.faces is not None
    assert model.faces.max() < 64
    nodes = model.block.rest.copy()
    nodes[:, 2] += 0.5 * nodes[:, 0] ** 2
    moved = model.skin(nodes, surface.vertices)[mask]
    apart = np.linalg.norm(moved[:, None] - moved, axis=2)
    rest = surface.vertices[mask]
    np.testing.assert_allclose(apart, np.linalg.norm(rest[:, None] - rest, axis=2), atol=1e-12)
    # Its middle stays 2 cm above the parabola. The mean of the nodes around it is up to 7 mm above the parabola.
    np.testing.assert_allclose(moved[4], (0.5 - 0.02 * 0.5, 0.5, 0.125 + 0.02), atol=8e-3)
    assert body_fingerprint(body) != body_fingerprint(replace(body, follower_mask=None))


def test_far_vertex_leaves_tetrahedra_unchanged() -> None:
    alone, pair = sphere(200), with_points(sphere(200), (50.0, 0.0, 0.0))
    mesh, same = tetrahedralise(alone, 300), tetrahedralise(pair, 300)
    np.testing.assert_array_equal(mesh.nodes, same.nodes)
    assert same.embedding.weights.min() > -0.5


def test_followers_move_in_simulation() -> None:
    """A fringe hangs from a pinned sheet; a bead that nothing holds follows it down instead of falling."""
    cloth = sheet(5)
    surface = combine(cloth, shifted(sheet(2), 0.9, 0.4, -0.01, scale=0.05))
    pins = np.zeros(len(surface.vertices))
    pins[:25][cloth.vertices[:, 0] < 0.01] = 1.0
    mask = np.arange(len(surface.vertices)) >= 25
    last = {}
    for name, followers in (("falls", None), ("follows", mask)):
        body = static_body(surface, pins, kind="CLOTH", follower_mask=followers, stiffness=500.0, start_settled=False)
        *_, frame = Simulation(scene(body, last=8)).frames()
        last[name] = frame.surface
    edge = last["follows"][22]
    assert np.linalg.norm(last["follows"][mask].mean(axis=0) - edge) < 0.15
    assert last["falls"][mask][:, 2].max() < -0.2
