"""Strands of hair turn as their guides do, keep their lengths and stay out of colliders of any shape.

The reference is written from the formulas, with rotation matrices for the turned segments, and with Blender's BVH tree
and rays from the centre of a star-shaped head for the distance. The guides are moved without a simulation.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import bpy
import numpy as np
import pytest
from mathutils import Vector
from mathutils.bvhtree import BVHTree
from scenes import new_scene

pytestmark = [pytest.mark.bpy, pytest.mark.versions]
RADIUS, COUNT, POINTS, ROUNDS = 0.12, 60, 8, 5
Heads = Callable[[], bpy.types.Object]


def sphere() -> bpy.types.Object:
    bpy.ops.mesh.primitive_uv_sphere_add(segments=32, ring_count=16, radius=RADIUS)
    return bpy.context.object


def long_head() -> bpy.types.Object:
    """Return an ellipsoid with a nose and a hollow behind it; star-shaped around its origin."""
    head = sphere()
    for vertex in head.data.vertices:
        way = vertex.co.normalized()
        nose, hollow = ((way - Vector(place)).length_squared for place in ((0.0, 1.0, 0.0), (0.0, -0.8, 0.6)))
        bump = 0.05 * np.exp(-12.0 * nose) - 0.03 * np.exp(-9.0 * hollow)
        vertex.co = Vector((0.8, 1.1, 1.3)) * vertex.co + float(bump) * way
    return head


@dataclass(frozen=True)
class Scalp:
    """A head as a collider. depth: depth (m) of a point in it, negative outside.  away: direction out of it there."""

    tree: BVHTree

    @staticmethod
    def of(head: bpy.types.Object) -> Scalp:
        # Blender's own triangles: the faces of the long head are not plane.
        head.data.calc_loop_triangles()
        corners = [tuple(triangle.vertices) for triangle in head.data.loop_triangles]
        return Scalp(BVHTree.FromPolygons([vertex.co for vertex in head.data.vertices], corners))

    def depth(self, point: np.ndarray) -> float:
        distance, surface = self.tree.find_nearest(point)[3], self.tree.ray_cast((0.0, 0.0, 0.0), point)[3]
        return float(distance if np.linalg.norm(point) < surface else -distance)

    def away(self, point: np.ndarray) -> np.ndarray:
        way = (point - np.array(self.tree.find_nearest(point)[0])) * (1.0 if self.depth(point) < 0.0 else -1.0)
        return np.asarray(way / np.linalg.norm(way))

    def surface(self, way: np.ndarray) -> np.ndarray:
        return np.array(self.tree.ray_cast((0.0, 0.0, 0.0), way)[0])


def add_hair(scalp: Scalp, radius: float = 5e-4) -> bpy.types.Object:
    """Add strands that grow out of the upper half of a head and bend down."""
    chance, strands = np.random.default_rng(3), []
    part = np.linspace(0.0, 1.0, POINTS)[:, None]
    for _ in range(COUNT):
        way = chance.normal(size=3) * [1.0, 1.0, 0.3] + [0.0, 0.0, 1.0]
        way /= np.linalg.norm(way)
        root = scalp.surface(way)
        strand = root + 0.15 * part * way - 0.05 * part**2 * [0.0, 0.0, 1.0]
        strands.append(strand + 0.01 * part * chance.normal(size=3))
    data = bpy.data.hair_curves.new("Hair")
    data.add_curves([POINTS] * COUNT)
    data.attributes["position"].data.foreach_set("vector", np.array(strands, dtype=np.float32).ravel())
    widths = data.attributes.get("radius") or data.attributes.new("radius", "FLOAT", "POINT")
    widths.data.foreach_set("value", np.full(POINTS * COUNT, radius, dtype=np.float32))
    hair = bpy.data.objects.new("Hair", data)
    bpy.context.scene.collection.objects.link(hair)
    bpy.context.view_layer.objects.active = hair
    return hair


def mesh_points(mesh: Any) -> np.ndarray:
    flat = np.empty(3 * len(mesh.vertices))
    mesh.vertices.foreach_get("co", flat)
    return flat.reshape(-1, 3)


def shown(hair: bpy.types.Object) -> np.ndarray:
    """Return the evaluated strands (s, p, 3)."""
    data = hair.evaluated_get(bpy.context.evaluated_depsgraph_get()).data
    flat = np.empty(3 * len(data.points), dtype=np.float32)
    data.attributes["position"].data.foreach_get("vector", flat)
    return flat.reshape(-1, POINTS, 3).astype(float)


def swing(rest: np.ndarray, seed: int) -> np.ndarray:
    """Return guides (g, p, 3) whose free segments turn by up to about 140 degrees, to one side and into the head."""
    chance = np.random.default_rng(seed)
    blow = chance.normal(size=3) * [1.0, 1.0, 0.3]
    found = rest.copy()
    for guide in found:
        segments = np.diff(guide, axis=0)
        root = guide[0] / np.linalg.norm(guide[0])
        side = blow - (blow @ root) * root
        own = side / np.linalg.norm(side) + 0.1 * chance.normal(size=3) - root
        for j in range(1, POINTS - 1):
            length, part = np.linalg.norm(segments[j]), min(0.4 * j, 0.8)
            way = (1.0 - part) * segments[j] / length + part * own
            segments[j] = length * way / np.linalg.norm(way)
        guide[1:] = guide[0] + np.cumsum(segments, axis=0)
    return found


def rotation(axis: np.ndarray, angle: float) -> np.ndarray:
    """Return the matrix (3, 3) of a rotation about a unit axis."""
    x, y, z = axis
    cross = np.array([[0.0, -z, y], [z, 0.0, -x], [-y, x, 0.0]])
    return np.asarray(np.eye(3) + np.sin(angle) * cross + (1.0 - np.cos(angle)) * (cross @ cross))


def turned(hair: bpy.types.Object, groom: np.ndarray, rest: np.ndarray, now: np.ndarray) -> np.ndarray:
    """Return the strands as their guides turn them. rest, now: (g, p, 3) guides, whose points are those of a wire."""
    columns = {}
    for name, kind in ((".dampsim_guide", int), (".dampsim_weight", float)):
        for k in range(3):
            values = np.empty(COUNT * POINTS, dtype=np.int32 if kind is int else np.float32)
            hair.data.attributes[f"{name}{k}"].data.foreach_get("value", values)
            columns[name, k] = values.reshape(COUNT, POINTS)
    found = groom.copy()
    old, new = np.diff(rest, axis=1), np.diff(now, axis=1)
    for i in range(COUNT):
        for j in range(1, POINTS):
            segment, total = groom[i, j] - groom[i, j - 1], np.zeros(3)
            for k in range(3):
                guide, point = divmod(int(columns[".dampsim_guide", k][i, j]), POINTS)
                a, b = old[guide, point - 1], new[guide, point - 1]
                axis = np.cross(a, b)
                angle = np.arctan2(np.linalg.norm(axis), a @ b)
                turn = rotation(axis / max(np.linalg.norm(axis), 1e-30), angle)
                total += columns[".dampsim_weight", k][i, j] * (turn @ segment)
            found[i, j] = found[i, j - 1] + total * np.linalg.norm(segment) / np.linalg.norm(total)
    return found


def slid(strands: np.ndarray, scalp: Scalp, clearance: float) -> np.ndarray:
    """Return strands with each segment turned out of the head, in its plane with the outward direction."""
    found = strands.copy()
    for strand, before in zip(found, strands, strict=True):
        for j in range(1, POINTS):
            start, segment = strand[j - 1], before[j] - before[j - 1]
            length, end = float(np.linalg.norm(segment)), strand[j - 1] + segment
            if scalp.depth(end) > -clearance:
                for _ in range(ROUNDS):
                    away, depth = scalp.away(end), scalp.depth(end)
                    height = np.clip((end - start) @ away + clearance + depth, -length, length)
                    side = (end - start) - ((end - start) @ away) * away
                    end = start + height * away + np.sqrt(length**2 - height**2) * side / np.linalg.norm(side)
                if scalp.depth(end) > 0.0:
                    end = start + length * scalp.away(start)
            strand[j] = end
    return found


def lengths(strands: np.ndarray) -> np.ndarray:
    return np.asarray(np.linalg.norm(np.diff(strands, axis=1), axis=2))


@pytest.mark.parametrize(
    ("make_head", "seed"),
    [
        (sphere, 0),
        (long_head, 3),
        *[
            pytest.param(*pair, marks=pytest.mark.slow)
            for pair in ((sphere, 3), (sphere, 4), (long_head, 0), (long_head, 4))
        ],
    ],
)
def test_strands_match_reference(load: Any, make_head: Heads, seed: int) -> None:
    """No point is in the head, all lengths are kept, and nearly all points are where the formulas put them.

    In the hollow, rounding decides which of two faces is nearest, so a few points may differ.
    """
    new_scene()
    module = load("dampsim_addon.blender.hair")
    head = make_head()
    scalp = Scalp.of(head)
    hair = add_hair(scalp)
    groom = shown(hair)
    assert bpy.ops.dampsim.hair(guides=9) == {"FINISHED"}
    wire = bpy.context.object
    np.testing.assert_allclose(shown(hair), groom, atol=1e-6)
    rest = mesh_points(wire.data).reshape(-1, POINTS, 3)
    now = swing(rest, seed)
    wire.data.vertices.foreach_set("co", now.ravel())
    wire.data.update()
    expected = turned(hair, groom, rest, now)
    np.testing.assert_allclose(shown(hair), expected, atol=2e-6)
    inside = [scalp.depth(point) for point in expected[:, 1:].reshape(-1, 3)]
    assert max(inside) > 0.01
    colliders = module.hair_colliders([(head, False)], bpy.context.evaluated_depsgraph_get())
    assert [one.sign for one in colliders] == [1.0]
    assert module.update_hair(hair, colliders)
    found, expected = shown(hair), slid(expected, scalp, 5e-4)
    np.testing.assert_allclose(lengths(found), lengths(groom), rtol=1e-4)
    assert max(scalp.depth(point) for point in found[:, 1:].reshape(-1, 3)) < 1e-5
    distance = np.linalg.norm(found - expected, axis=2).ravel()
    assert np.quantile(distance, 0.98) < 2e-5
    own = {f".dampsim_{name}" for name in ("segment", "number", "inside")}
    assert not own.intersection(evaluated_attributes(hair))


def evaluated_attributes(hair: bpy.types.Object) -> list[str]:
    return [one.name for one in hair.evaluated_get(bpy.context.evaluated_depsgraph_get()).data.attributes]


def test_inward_normals_and_sheets(load: Any) -> None:
    """A head turned inside out works alike; a sheet is no collider of strands; a plane is one."""
    new_scene()
    module = load("dampsim_addon.blender.hair")
    head = sphere()
    head.data.flip_normals()
    bpy.ops.mesh.primitive_grid_add(size=1.0)
    sheet = bpy.context.object
    bpy.ops.mesh.primitive_plane_add(location=(0.0, 0.0, 0.11))
    floor = bpy.context.object
    depsgraph = bpy.context.evaluated_depsgraph_get()
    found = module.hair_colliders([(head, False), (sheet, False), (floor, True)], depsgraph)
    assert [(one.obj, one.sign, one.is_plane) for one in found] == [(head, -1.0, False), (floor, 1.0, True)]
    scalp = Scalp.of(head)
    hair = add_hair(scalp)
    assert bpy.ops.dampsim.hair(guides=9) == {"FINISHED"}
    wire = bpy.context.object
    now = swing(mesh_points(wire.data).reshape(-1, POINTS, 3), 0)
    wire.data.vertices.foreach_set("co", now.ravel())
    wire.data.update()
    above = shown(hair)[:, 0, 2] > 0.112
    before = shown(hair)[above]
    assert module.update_hair(hair, found)
    after = shown(hair)[above]
    assert before[:, :, 2].min() < 0.105
    assert after[:, 1:, 2].min() > 0.11
    assert max(scalp.depth(point) for point in after[:, 1:].reshape(-1, 3)) < 1e-5


@pytest.mark.parametrize("turn", [0.0, 0.8])
def test_bounds_miss_no_contact(load: Any, monkeypatch: pytest.MonkeyPatch, turn: float) -> None:
    """Strands that are tested only near the bounds of two colliders equal those that are always tested."""
    new_scene()
    module, tree = load("dampsim_addon.blender.hair"), load("dampsim_addon.blender.hair_tree")
    head = long_head()
    scalp = Scalp.of(head)
    bpy.ops.mesh.primitive_uv_sphere_add(segments=16, ring_count=8, radius=0.03, location=(0.05, 0.12, 0.14))
    ball = bpy.context.object
    ball.scale, ball.rotation_euler = (1.0, 0.4, 1.5), (turn, 2.0 * turn, 0.3)
    hair = add_hair(scalp)
    assert bpy.ops.dampsim.hair(guides=9) == {"FINISHED"}
    wire = bpy.context.object
    now = swing(mesh_points(wire.data).reshape(-1, POINTS, 3), 0)
    wire.data.vertices.foreach_set("co", now.ravel())
    wire.data.update()
    head.rotation_euler.z = 0.5 * turn
    colliders = module.hair_colliders([(head, False), (ball, False)], bpy.context.evaluated_depsgraph_get())
    results = []
    for is_everything_tested in (False, True):
        if is_everything_tested:
            monkeypatch.setattr(tree.HairTree, "_may_touch", lambda self, nodes, place: nodes.number(1.0))
        assert module.update_hair(hair, colliders)
        results.append(shown(hair))
        assert module.update_hair(hair, ())
    free = shown(hair)
    assert (np.abs(results[1] - free).max(axis=(1, 2)) > 1e-3).sum() > 10
    np.testing.assert_allclose(results[0], results[1], atol=1e-7)


@pytest.mark.parametrize("is_hair_mirrored", [False, True])
def test_mirrored_objects_turn_no_surface(load: Any, is_hair_mirrored: bool) -> None:
    """A negative scale of the hair, or of a collider that is symmetric, leaves the strands outside as before."""
    module, results = load("dampsim_addon.blender.hair"), []
    for sign in (1.0, -1.0):
        new_scene()
        head = long_head()
        scalp = Scalp.of(head)
        bpy.ops.mesh.primitive_uv_sphere_add(segments=16, ring_count=8, radius=0.03, location=(0.05, 0.12, 0.14))
        ball = bpy.context.object
        ball.scale, ball.rotation_euler = (sign, 0.4, 1.5), (0.8, 1.6, 0.3)
        hair = add_hair(scalp)
        assert bpy.ops.dampsim.hair(guides=9) == {"FINISHED"}
        wire = bpy.context.object
        now = swing(mesh_points(wire.data).reshape(-1, POINTS, 3), 0)
        wire.data.vertices.foreach_set("co", now.ravel())
        wire.data.update()
        hair.scale.x = -1.0 if is_hair_mirrored else 1.0
        bpy.context.view_layer.update()
        free = shown(hair)
        colliders = module.hair_colliders([(head, False), (ball, False)], bpy.context.evaluated_depsgraph_get())
        assert module.update_hair(hair, colliders)
        results.append(shown(hair))
        # Strands far from the colliders stay.
        away = np.abs(results[-1] - free).max(axis=(1, 2))
        assert 10 < (away > 1e-3).sum() < len(away) / 2
    np.testing.assert_allclose(results[0], results[1], atol=1e-5)


def test_guides_across_parting_are_ignored(load: Any) -> None:
    module = load("dampsim_addon.blender.hair")
    y = np.linspace(0.0, 1.0, 20)
    strands = []
    for side in (-1.0, 1.0):
        for place in y:
            root = np.array([0.01 * side, place, 0.0])
            strands.append(root + np.linspace(0.0, 1.0, 4)[:, None] * [0.3 * side, 0.0, -0.1])
    points = np.array(strands)
    side = np.repeat([-1.0, 1.0], 20)
    groom = module.Strands(points.reshape(-1, 3), 4 * np.arange(40), np.full(40, 4), 0.0)
    guides = np.array([1, 7, 13, 19, 24, 30, 36])
    wires = module.GuideWires.from_strands(groom, guides)
    found = module.GuideWeights.create(groom, wires)
    used = found.weights > 0.0
    guide_sides = side[guides][found.points // 4]
    np.testing.assert_array_equal(guide_sides[used], np.broadcast_to(side.repeat(4), used.shape)[used])
    np.testing.assert_allclose(found.weights.sum(axis=0), 1.0)
    # A single guide leads all strands, whichever way they go.
    one = module.GuideWeights.create(groom, module.GuideWires.from_strands(groom, guides[:1]))
    np.testing.assert_array_equal(one.weights, 1.0)


def test_tree_of_earlier_version_is_replaced(load: Any) -> None:
    """Files made before 33 contain a tree that adds displacements, and a mark without a state."""
    new_scene()
    module = load("dampsim_addon.blender.hair")
    hair = add_hair(Scalp.of(sphere()))
    groom = shown(hair)
    assert bpy.ops.dampsim.hair(guides=9) == {"FINISHED"}
    wire = bpy.context.object
    tree = module.hair_modifier(hair).node_group
    tree.nodes.clear()
    tree["dampsim_hair"] = True
    tree.nodes.new("GeometryNodeObjectInfo").inputs["Object"].default_value = wire
    tree.nodes.new("GeometryNodeInputNamedAttribute").inputs["Name"].default_value = ".dampsim_rest"
    assert module.find_hair(wire) == [hair]
    assert module.update_hair(hair, ())
    assert module.hair_modifier(hair).node_group == tree
    np.testing.assert_allclose(shown(hair), groom, atol=1e-6)
    assert not module.update_hair(hair, ())
    # Without its guides, hair keeps its groom.
    bpy.data.objects.remove(wire)
    np.testing.assert_allclose(shown(hair), groom, atol=1e-6)
    assert not module.update_hair(hair, ())
