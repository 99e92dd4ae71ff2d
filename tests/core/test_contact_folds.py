"""Self-contact in folds: contacts with all sides of a fold, and rest."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
from hanging_bodies import rope_through
from test_cloth_contact import ball, cloth
from test_contact_reports import plane

from builders import scene
from dampsim.core.contact.collision_surface import CollisionSurface, NeighbourPairs
from dampsim.core.contact.contact_history import CORNER_KINDS, EDGE, NEIGHBOUR, POINT, ContactHistory
from dampsim.core.contact.penalty_and_friction import ContactSet
from dampsim.core.contact.sheet_edge_contacts import tangled_edges
from dampsim.core.geometry.collision.edge_pairs import near_edge_pairs
from dampsim.core.geometry.mesh.surface import Surface
from dampsim.core.geometry.mesh.triangles import Topology
from dampsim.core.measure.contact_results import partners_in_contact
from dampsim.core.scene.body import Body
from dampsim.core.simulation.simulation import Simulation
from dampsim.core.system.state import History, State, SystemContacts
from detection_cases import DetectionStep, DetectionSurface, R
from shapes import sheet

CRUMPLED = Path(__file__).parent / "crumpled.npz"


def crumpled_cloth() -> tuple[Body, np.ndarray, np.ndarray]:
    """Return a square metre of cotton with self-contact, its crumpled node positions, and its contacts there."""
    body = cloth(21, 0.0)
    turn, points = 1.5, body.surface.vertices
    R = np.array([[np.cos(turn), 0.0, np.sin(turn)], [0.0, 1.0, 0.0], [-np.sin(turn), 0.0, np.cos(turn)]])
    upright = points @ R.T
    upright[:, 1] += 0.05 * np.sin(7.0 * upright[:, 2])
    upright[:, 2] += 0.02 - upright[:, 2].min()
    surface, settings = replace(body.surface, vertices=upright), replace(body.settings, touch_self=True)
    kept = np.load(CRUMPLED)
    body = replace(body, surface=surface, settings=settings, motion=lambda frame: upright)
    return body, kept["positions"].astype(float), kept["contacts"].astype(float)


@pytest.mark.slow
def test_crumpled_sheet_comes_to_rest() -> None:
    """With one side of a fold at a time it hopped by 1 to 4 thousandths of its size per frame, for ever."""
    body, heap, contacts = crumpled_cloth()
    simulation = Simulation(scene(body, last=40, colliders=(plane(0.0),)))
    first = simulation.first_frame()
    history = ContactHistory(contacts[:, :4].astype(np.int64), contacts[:, 4:7], contacts[:, 7], contacts[:, 8])
    last = SystemContacts(history, (), (None,) * len(simulation.islands[0].system.regions), np.zeros(0))
    state = State.at_rest(heap, first.state.time, History(contacts={"Cloth": last}))
    places = [frame.state.positions for frame in simulation.frames(replace(first, state=state))]
    moved = [float(np.linalg.norm(b - a, axis=1).max()) for a, b in pairwise(places)]
    # Three Settle times after the release.
    assert max(moved[-4:]) < 1e-4 * body.surface.size


def contact_normals(normals: np.ndarray, height: float, depth: float = 0.0) -> np.ndarray:
    """Return the contact normals (k, 3) of a sheet's vertex at a height over planes of the sheet through the origin.

    normals: (s, 3) of the planes, each a large triangle; the vertex has a small triangle of its own.
    depth: m by which the vertex ended the last step behind the sheet.
    """
    corners, triangles = [], []
    for normal in normals:
        along = np.cross(normal, [0.3, 0.5, 0.81])
        along /= np.linalg.norm(along)
        across = np.cross(normal, along)
        triangles.append(np.arange(3) + 3 * len(corners))
        # The triangles of a ridge also extend below the vertex.
        corners.append([along, -0.5 * along + across, -0.5 * along - across])
    up = np.array([0.0, 0.0, 1.0])
    tip = height * up + np.array([[0.0, 0.0, 0.0], [0.3 * R, 0.0, 0.5 * R], [0.0, 0.3 * R, 0.5 * R]])
    triangles.append(np.arange(3) + 3 * len(normals))
    points = np.concatenate([*np.array(corners), tip])
    rest = points.copy()
    # In the rest shape they are far apart.
    rest += 10.0 * np.repeat(np.arange(len(triangles)), 3)[:, None] * up
    surface = Surface("Sheet", points, np.array(triangles))
    key = np.array([[0, POINT, 3 * len(normals), 0]])
    history = ContactHistory.of(key, np.zeros((1, 3)), np.ones(1), np.array([depth]))
    rows = DetectionStep([DetectionSurface(surface, rest=rest)], (), (0,), history).detect()
    return np.asarray(rows.normal[rows.key[:, 2] == 3 * len(normals)])


def tilted_normals(*tilts: tuple[float, float]) -> np.ndarray:
    """Return unit normals (s, 3), each tilted by an angle towards a direction, both in rad."""
    return np.array([[np.sin(t) * np.cos(a), np.sin(t) * np.sin(a), np.cos(t)] for t, a in tilts])


@pytest.mark.parametrize("count", [1, 2, 3])
@pytest.mark.parametrize("tilt", [0.3, 0.8, 1.2])
def test_point_contacts_every_fold_side(count: int, tilt: float) -> None:
    """Planes below a point: a floor, a fold, or a corner."""
    normals = tilted_normals(*((tilt * (1.0 + 0.01 * k), 0.4 + 2.0 * np.pi * k / max(count, 2)) for k in range(count)))
    found = contact_normals(normals, 0.9 * R / np.cos(1.02 * tilt))
    assert len(found) == count
    apart = np.linalg.norm(found[:, None] - normals[None], axis=2)
    assert apart.min(axis=0).max() < 1e-6


@pytest.mark.parametrize(("height", "depth", "is_behind"), [(0.2, 0.2, True), (1.3, 1.2, False), (0.4, 0.1, False)])
def test_point_behind_one_side(height: float, depth: float, is_behind: bool) -> None:
    """A point that ended the last step behind one side of a fold is not behind all others that are near."""
    normals = contact_normals(tilted_normals((0.0, 0.0)), height * R, depth * R)
    np.testing.assert_allclose(normals, [[0.0, 0.0, -1.0 if is_behind else 1.0]], atol=1e-12)


def test_shallow_fold_counts_as_one_side() -> None:
    assert len(contact_normals(tilted_normals((0.01, 0.0), (0.01, np.pi)), 0.9 * R)) == 1


def test_friction_history_of_fold_sides() -> None:
    """Each side keeps its friction state while the number of sides stays; otherwise the nearest side gets all."""
    keys = np.array([[0, POINT, 4, 0], [0, CORNER_KINDS[0], 4, 0], [0, POINT, 7, 0], [0, EDGE, 4, 0]])
    slips = np.arange(12.0).reshape(4, 3)
    memory = ContactHistory.of(keys, slips, np.array([1.0, 2.0, 3.0, 4.0]), np.zeros(4)).merged_by_point()
    np.testing.assert_array_equal(memory.slips_of(keys), slips)
    np.testing.assert_array_equal(memory.forces_of(keys), [1.0, 2.0, 3.0, 4.0])
    # With one side less the remaining side has all; with one more the nearest side has all.
    np.testing.assert_array_equal(memory.slips_of(keys[[0, 2, 3]]), [slips[0] + slips[1], slips[2], slips[3]])
    more = np.concatenate([keys, [[0, CORNER_KINDS[0], 7, 0]]])
    np.testing.assert_array_equal(memory.slips_of(more), [*slips, np.zeros(3)])
    more[-1, 2] = 4
    more[-1, 1] = CORNER_KINDS[1]
    np.testing.assert_array_equal(memory.slips_of(more)[[0, 1, 4]], [slips[0] + slips[1], np.zeros(3), np.zeros(3)])


def edge_contacts(
    heights: tuple[float, float], limit: float = 10.0, history: ContactHistory | None = None
) -> ContactSet:
    """Return the contacts between two edges of a sheet that are perpendicular to each other.

    heights: m of the second edge above the first one, before and after the step. Their triangles point away from each
        other, unless a history says that they have crossed.  limit: m between the edges at rest.
    """
    up = np.sign(heights[0]) if history is None else -np.sign(heights[0])
    lower = np.array([[-1.0, 0.0, 0.0], [1.0, 0.0, 0.0], [0.0, 0.0, -2.0 * up]])
    upper = np.array([[0.0, -1.0, 0.0], [0.0, 1.0, 0.0], [0.0, 0.0, 2.0 * up]])
    start, end = (np.concatenate([lower, upper + np.array([0.1, 0.0, height])]) for height in heights)
    rest = np.concatenate([lower, lower + np.array([0.0, 0.0, limit])])
    surface = Surface("Sheet", start, np.arange(6).reshape(2, 3))
    thing = DetectionSurface(surface, end, rest=rest)
    step = DetectionStep([thing], pairs=(), self_colliding=(0,), history=history or ContactHistory())
    rows = step.detect()
    # Of the six edges, those are the first one and the fourth one.
    return rows.select(np.flatnonzero((rows.key[:, 1:3] == [EDGE, 3]).all(axis=1)))


@pytest.mark.parametrize("side", [1.0, -1.0])
def test_edges_keep_their_side(side: float) -> None:
    """Edges are pushed apart while they are near, and back if they crossed or stayed on the wrong side."""
    near = edge_contacts((3.0 * R * side, R * side))
    assert len(near) == 1
    # From the upper edge to the lower one, which is the first one.
    np.testing.assert_allclose(near.normal, [[0.0, 0.0, -side]], atol=1e-12)
    for heights in ((R, -3.0 * R), (0.4, -0.6), (R, -1e-5)):
        crossed = edge_contacts((heights[0] * side, heights[1] * side))
        np.testing.assert_allclose(crossed.normal, near.normal, atol=1e-12)
    # The edges come back, but are still on the wrong side: the contact of the last step pushes as before.
    forces = np.ones(1)
    behind = ContactHistory.of(near.key, np.zeros((1, 3)), forces, np.array([1e-4]))
    for heights in ((-1e-4, -2e-4), (-1e-4, 0.5 * R)):
        returned = edge_contacts((heights[0] * side, heights[1] * side), history=behind)
        np.testing.assert_allclose(returned.normal, near.normal, atol=1e-12)


@pytest.mark.parametrize("side", [1.0, -1.0])
@pytest.mark.parametrize("heights", [(3.0, 1.0), (1.0, -3.0), (40.0, -60.0)])
def test_smooth_edges_of_two_sheets(side: float, heights: tuple[float, float]) -> None:
    """The diagonals of two flat squares touch, and are pushed back if they crossed."""
    square = np.array([[-1.0, 0.0, 0.0], [1.0, 0.0, 0.0], [0.0, 1.0, 0.0], [0.0, -1.0, 0.0]])
    start, end = (square[[2, 3, 0, 1]] + np.array([0.1, 0.05, side * height * R]) for height in heights)
    faces = np.array([[0, 1, 2], [1, 0, 3]])
    lower, upper = Surface("Lower", square, faces), Surface("Upper", start, faces)
    rows = DetectionStep([DetectionSurface(lower), DetectionSurface(upper, end)]).detect()
    touched = [{*rows.weights[[k]].indices.tolist()} for k in np.flatnonzero(rows.key[:, 1] == EDGE)]
    assert touched.count({0, 1, 4, 5}) == 1
    row = np.flatnonzero(rows.key[:, 1] == EDGE)[touched.index({0, 1, 4, 5})]
    np.testing.assert_allclose(rows.normal[row], [0.0, 0.0, -side], atol=1e-12)


def test_distant_edges_do_not_touch() -> None:
    assert len(edge_contacts((3.0 * R, 3.0 * R))) == 0
    # They are so close at rest that they are far apart now.
    assert len(edge_contacts((R, R), limit=0.5 * R)) == 0


@pytest.mark.parametrize("side", [1.0, -1.0])
def test_neighbouring_edges_touch_later(side: float) -> None:
    """Edges that are close at rest touch at a smaller distance, and are pushed back if they crossed."""
    for limit, fraction in ((2.0 * R, 0.8), (0.5 * R, 0.2), (2.5 * R, 1.0)):
        for heights in ((0.1 * R, 0.1 * R), (0.1 * R, -R)):
            near = edge_contacts((heights[0] * side, heights[1] * side), limit=limit)
            np.testing.assert_allclose(near.distance, fraction * R, rtol=1e-12)
            np.testing.assert_allclose(near.normal, [[0.0, 0.0, -side]], atol=1e-12)
    # Edges with a common place at rest, such as sewn ones, never touch.
    assert len(edge_contacts((0.1 * R, 0.1 * R), limit=0.0)) == 0


def neighbour_step(
    heights: tuple[float, float], rest_height: float, *, aside: float = 0.0, history: ContactHistory | None = None
) -> DetectionStep:
    """Return a step in which a corner of a triangle is next to another triangle of its sheet, far larger.

    heights, rest_height: m of the corner above the larger triangle: before and after the step, and at rest.  aside: m
        from its middle along it, after the step.
    """
    large = np.array([[2.0, 0.0, 0.0], [-1.0, 1.5, 0.0], [-1.0, -1.5, 0.0]])
    small = np.array([[0.0, 0.0, 0.0], [0.1, 0.0, 0.2], [0.0, 0.1, 0.2]])
    shapes = [
        np.concatenate([large, small * [1.0, 1.0, np.sign(heights[0])] + [shift, 0.0, height]])
        for shift, height in ((0.0, rest_height), (aside, heights[0]), (aside, heights[1]))
    ]
    surface = Surface("Sheet", shapes[1], np.arange(6).reshape(2, 3))
    thing = DetectionSurface(surface, shapes[2], rest=shapes[0])
    return DetectionStep([thing], pairs=(), self_colliding=(0,), history=history or ContactHistory())


def neighbour_contacts(step: DetectionStep) -> ContactSet:
    """Return the contacts of a step between neighbours."""
    rows = step.detect()
    return rows.select(np.flatnonzero(rows.key[:, 1] == NEIGHBOUR))


@pytest.mark.parametrize("side", [1.0, -1.0])
@pytest.mark.parametrize(("rest_height", "fraction"), [(2.0 * R, 0.8), (0.5 * R, 0.2), (9.0 * R, 1.0)])
def test_points_touch_their_neighbours(side: float, rest_height: float, fraction: float) -> None:
    """They touch at a distance in proportion to that at rest, on the side from which the point came."""
    for heights in ((0.1 * R, 0.15 * R), (0.1 * R, -0.1 * R), (0.1 * R, -R)):
        near = neighbour_contacts(neighbour_step((heights[0] * side, heights[1] * side), rest_height))
        # Corner 3 of the first of two triangles.
        np.testing.assert_array_equal(near.key, [[0, NEIGHBOUR, 6, 0]])
        np.testing.assert_allclose(near.distance, fraction * R, rtol=1e-12)
        np.testing.assert_allclose(near.normal, [[0.0, 0.0, side]], atol=1e-12)
    behind = ContactHistory.of(near.key, np.zeros((1, 3)), np.ones(1), np.array([1e-4]))
    returned = neighbour_contacts(neighbour_step((-0.1 * R * side, 0.1 * R * side), rest_height, history=behind))
    np.testing.assert_allclose(returned.normal, [[0.0, 0.0, side]], atol=1e-12)


def layer_contacts(gap: float, slope: float, height: float) -> ContactSet:
    """Return the contacts between a triangle and a smaller one above it, two parts of one sheet.

    gap: m between them at rest.  slope: of the upper triangle at rest.  height: m of its corner above the lower one.
    """
    lower = np.array([[2.0, 0.0, 0.0], [-1.0, 1.5, 0.0], [-1.0, -1.5, 0.0]])
    upper = np.array([[0.0, 0.0, 0.0], [0.3, 0.0, 0.3 * slope], [0.0, 0.3, 0.0]])
    rest, now = (np.concatenate([lower, upper + np.array([0.0, 0.0, z])]) for z in (gap, height))
    surface = Surface("Sheet", now, np.arange(6).reshape(2, 3))
    return DetectionStep([DetectionSurface(surface, now, rest=rest)], pairs=(), self_colliding=(0,)).detect()


@pytest.mark.parametrize(("gap", "fraction"), [(0.1, 0.09), (1.0, 0.9), (2.0, 1.0)])
def test_layers_touch_before_neighbours(gap: float, fraction: float) -> None:
    """Parts of a sheet that face each other at rest touch at most of their distance, and do not press at rest."""
    rows = layer_contacts(gap * R, 0.0, 0.9 * gap * R)
    points = np.flatnonzero(rows.key[:, 1] == NEIGHBOUR)
    assert {6, 8, 10} == set(rows.key[points, 2].tolist())
    np.testing.assert_allclose(rows.distance[points], fraction * R, rtol=1e-12)
    assert (layer_contacts(gap * R, 0.0, gap * R).distance <= gap * R).all()
    # The corner of a steep triangle is beside the lower one.
    steep = layer_contacts(gap * R, 2.0, 0.2 * gap * R)
    corner = np.flatnonzero((steep.key[:, 1:3] == [NEIGHBOUR, 6]).all(axis=1))
    np.testing.assert_allclose(steep.distance[corner], [0.4 * gap * R], rtol=1e-12)


@pytest.mark.parametrize("gap", [0.1, 1.0, 2.0])
@pytest.mark.parametrize("turn", [0.0, 0.05, 0.5])
def test_edges_of_layers_touch_first(turn: float, gap: float) -> None:
    """Edges cross at most of their distance at rest, whether their ends are near each other or not."""
    lower = np.array([[-1.0, 0.0, 0.0], [1.0, 0.0, 0.0], [0.0, -2.0, 0.0]])
    upper = np.array([[-1.0, 0.005 - turn, 0.0], [1.0, 0.005 + turn, 0.0], [0.0, 2.0, 0.0]])
    lift = np.array([0.0, 0.0, gap * R])
    rest, now = np.concatenate([lower, upper + lift]), np.concatenate([lower, upper + 0.9 * lift])
    now[:, 1] += np.array([0.0, 0.0, 0.0, -0.1, 0.1, 0.0])
    surface = Surface("Sheet", now, np.arange(6).reshape(2, 3))
    rows = DetectionStep([DetectionSurface(surface, now, rest=rest)], pairs=(), self_colliding=(0,)).detect()
    # Of the six edges, those are the first one and the fourth one.
    edges = np.flatnonzero((rows.key[:, 1:3] == [EDGE, 3]).all(axis=1))
    distance = gap * R if turn else np.hypot(gap * R, 0.005)
    expected = 0.9 if turn or gap >= 1.0 else 0.4
    np.testing.assert_allclose(rows.distance[edges], [min(expected * distance, R)], rtol=1e-9)


def test_points_beside_neighbours_are_free() -> None:
    assert len(neighbour_contacts(neighbour_step((3.0 * R, 3.0 * R), 2.0 * R))) == 0
    assert len(neighbour_contacts(neighbour_step((0.1 * R, 0.1 * R), 2.0 * R, aside=-1.2))) == 0
    # A point on the triangle at rest, as where three sheets meet.
    assert len(neighbour_contacts(neighbour_step((0.1 * R, 0.1 * R), 0.0))) == 0


@pytest.mark.parametrize("count", [20, 60])
def test_neighbours_grow_with_vertices(count: int) -> None:
    """Two triangles of a square are neighbours of each other's corners, also if the limit spans many squares."""
    made = sheet(count)
    surface = CollisionSurface("Sheet", made.vertices, made.triangles, None, np.zeros(len(made.vertices)))
    pairs, scale = surface.neighbours.within(0.2)
    assert len(pairs.point) == 2 * (count - 1) ** 2
    keys = pairs.point * len(made.triangles) + pairs.triangle
    assert (np.diff(keys) > 0).all()
    np.testing.assert_allclose(scale * 0.2 * (count - 1), np.sqrt(0.5), rtol=1e-9)


def test_neighbours_hold_for_all_distances(monkeypatch: pytest.MonkeyPatch) -> None:
    """An animated contact distance does not list the neighbours anew."""
    listed, list_pairs = [], NeighbourPairs.of

    def count_lists(surface: CollisionSurface) -> NeighbourPairs:
        listed.append(surface)
        return list_pairs(surface)

    monkeypatch.setattr(NeighbourPairs, "of", count_lists)
    step = neighbour_step((0.1 * R, 0.1 * R), 2.0 * R)
    for distance, expected in ((R, 0.8 * R), (0.5 * R, 0.5 * R), (1.5 * R, 0.8 * R)):
        step.moment = replace(step.moment, contact_distance=np.array([distance]))
        np.testing.assert_allclose(neighbour_contacts(step).distance, expected, rtol=1e-12)
    assert len(listed) == 1


@pytest.mark.parametrize("is_sewn", [True, False])
def test_sewn_faces_are_not_tangled(is_sewn: bool) -> None:
    """Sewn vertices that overshoot each other by millimetres do not switch off the edges along their seam."""
    face = np.array([[-0.9, 0.0, -1e-3], [0.9, 0.0, -1e-3], [0.0, 1.0, 0.2]])
    points = np.concatenate([face, [[-1.0, 0.02, 0.0], [1.0, 0.02, 0.0], [0.0, -1.0, 0.0]]])
    partners = np.array([3, 4, 3, 0, 1, 0]), np.array([0.0, 0.0, 1.0, 0.0, 0.0, 1.0])
    surface = Surface("Sheet", points, np.arange(6).reshape(2, 3))
    thing = DetectionSurface(surface, surface_options={"seam": partners if is_sewn else None})
    step = DetectionStep([thing], pairs=(), self_colliding=(0,))
    assert tangled_edges(step.moment, 0, 0).any() == (not is_sewn)


def count_crossings(points: np.ndarray, triangles: np.ndarray) -> int:
    """Count the pairs of an edge and a triangle of a sheet that cross, by the signs of volumes."""
    edges = Topology.from_triangles(triangles).edges
    edge, triangle = (each.ravel() for each in np.indices((len(edges), len(triangles))))
    is_apart = (edges[edge][:, :, None] != triangles[triangle][:, None]).all(axis=(1, 2))
    start, end = points[edges[edge[is_apart]]].transpose(1, 0, 2)
    a, b, c = points[triangles[triangle[is_apart]]].transpose(1, 0, 2)

    def volume(*corners: np.ndarray) -> np.ndarray:
        return np.asarray(np.linalg.det(np.stack([one - corners[3] for one in corners[:3]], axis=1)))

    is_through = volume(a, b, c, start) * volume(a, b, c, end) < 0.0
    sides = np.sign([volume(start, end, a, b), volume(start, end, b, c), volume(start, end, c, a)])
    return int((is_through & (np.abs(sides.sum(axis=0)) == 3.0)).sum())


def test_folds_do_not_cross() -> None:
    """Points alone let folds of this cloth on a ball pass through each other in the 11th frame."""
    body = cloth(13, 0.05)
    body = replace(body, settings=replace(body.settings, touch_self=True))
    frames = Simulation(scene(body, last=13, colliders=(ball(0.2),))).frames()
    counts = [count_crossings(frame.state.positions, body.surface.triangles) for frame in frames]
    assert counts == [0] * 13


def test_falling_rope_lies_on_itself() -> None:
    """A coil that falls on the floor is stacked: its parts stay apart by most of the contact distance."""
    z = np.linspace(0.02, 1.02, 41)
    points = np.column_stack([0.02 * np.sin(20.0 * z), 0.02 * np.cos(20.0 * z), z])
    dials = {"thickness": 10.0, "stiffness": 1e4, "density": 1000.0, "bending": 0.1, "settle": 12.0}
    body = rope_through("Rope", points, 0, **dials)
    body = replace(body, settings=replace(body.settings, touch_self=True))
    edges = np.array([(k, k + 1) for k in range(40)])
    distances = []
    simulation = Simulation(scene(body, last=14, colliders=(plane(0.0),)))
    for frame in simulation.frames():
        pairs = near_edge_pairs(frame.state.positions, edges, frame.state.positions, edges, 0.02)
        distances.append(pairs.distance[pairs.second - pairs.first > 3].min(initial=0.02))
    assert distances[-1] < 0.01
    assert min(distances) > 0.5 * 0.005 * body.surface.size
    # Its edges are wires, not those of triangles.
    assert partners_in_contact(simulation, frame.state, "Rope") == ("Rope", "Floor")
    assert simulation.system_of("Rope").touched_regions(frame.state) == {0}
