"""Maps of stretch, compression, contact and velocity, compared with values computed from the baked shapes."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from types import ModuleType

import bpy
import numpy as np
import pytest
from scenes import LAST, dump, new_scene, wobbler, world_vertices

pytestmark = [pytest.mark.bpy, pytest.mark.versions]
Load = Callable[[str], ModuleType]


def evaluated_mesh(obj: bpy.types.Object) -> bpy.types.Mesh:
    return obj.evaluated_get(bpy.context.evaluated_depsgraph_get()).data


def attribute(mesh: bpy.types.Mesh, name: str) -> np.ndarray:
    """Return an attribute (v,) or (v, 3) of a mesh."""
    found = mesh.attributes[name]
    width, field = (3, "vector") if found.data_type == "FLOAT_VECTOR" else (1, "value")
    flat = np.empty(width * len(found.data), dtype=np.float32)
    found.data.foreach_get(field, flat)
    return flat.reshape(-1, 3) if width == 3 else flat


def point_strains(mesh: bpy.types.Mesh, rest: np.ndarray, now: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return the principal stretches (v, 2) and their directions (v, 2, 3), from deformation gradients in 3D.

    rest, now: vertices (v, 3).  Each corner has F = [d1 d2 n] [e1 e2 m]^-1 with unit normals, and a point the mean of
    the tensors F F^T in the planes of its faces, each turned by the rotation in which the tangent axes correspond.
    """
    axis = np.array([0.4153, 0.7071, 0.5722])
    total, count = np.zeros((len(rest), 3)), np.zeros(len(rest))

    def basis(normal: np.ndarray) -> np.ndarray:
        first = axis - (axis @ normal) * normal
        first /= np.linalg.norm(first)
        return np.array([first, np.cross(normal, first)])

    for face in mesh.polygons:
        ring = list(face.vertices)
        for k, here in enumerate(ring):
            ends = [ring[(k + 1) % len(ring)], ring[k - 1]]
            frames = []
            for shape in (rest, now):
                edges = [shape[end] - shape[here] for end in ends]
                normal = np.cross(*edges)
                frames.append(np.array([*edges, normal / np.linalg.norm(normal)]).T)
            gradient = frames[1] @ np.linalg.inv(frames[0])
            plane = basis(frames[1][:, 2])
            flat = plane @ gradient @ gradient.T @ plane.T
            total[here] += (flat[0, 0], flat[0, 1], flat[1, 1])
            count[here] += 1
    b11, b12, b22 = (total / count[:, None]).T
    values, vectors = np.linalg.eigh(np.array([[b11, b12], [b12, b22]]).transpose(2, 0, 1))
    planes = np.array([basis(np.array(v.normal)) for v in mesh.vertices])
    directions = np.einsum("vki,vkj->vij", vectors, planes)
    return np.sqrt(values[:, ::-1]), directions[:, ::-1]


def baked_wobbler(tmp_path: Path, target: str, **marks: object) -> bpy.types.Object:
    new_scene()
    obj = wobbler(tmp_path / "cache")
    obj.modifiers.clear()
    obj.dampsim.resolution, obj.dampsim.target = 100, target
    bpy.context.view_layer.objects.active = obj
    assert bpy.ops.dampsim.bake() == {"FINISHED"}
    return obj


@pytest.mark.parametrize("target", ["SHAPE_KEYS", "POINT_CACHE"])
def test_strains_of_baked_shapes(load: Load, tmp_path: Path, target: str) -> None:
    """Stretch and compression are the principal ones of the simulated shapes, along their directions."""
    obj = baked_wobbler(tmp_path, target)
    rest = np.array([v.co[:] for v in obj.data.vertices])
    played = [world_vertices(obj, frame) for frame in range(1, LAST + 1)]
    load("dampsim_addon.api").add_maps([obj])
    for frame in (1, 7, 9):
        bpy.context.scene.frame_set(frame)
        mesh = evaluated_mesh(obj)
        now = attribute(mesh, "position").astype(float)
        np.testing.assert_allclose(world_vertices(obj, frame), played[frame - 1], atol=1e-6)
        mesh = evaluated_mesh(obj)
        stretches, directions = point_strains(mesh, rest, now)
        np.testing.assert_allclose(attribute(mesh, "dampsim_stretch"), stretches[:, 0] - 1.0, atol=2e-5)
        np.testing.assert_allclose(attribute(mesh, "dampsim_compression"), 1.0 - stretches[:, 1], atol=2e-5)
        # A direction has no sign, and none at all where both stretches are equal.
        is_clear = stretches[:, 0] - stretches[:, 1] > 0.005
        for place, name in enumerate(("dampsim_stretch_direction", "dampsim_compression_direction")):
            cosines = np.abs(np.einsum("vi,vi->v", attribute(mesh, name), directions[:, place]))
            assert cosines[is_clear].min() > 0.999
    assert is_clear.sum() > 20
    assert np.abs(stretches - 1.0).max() > 0.02


def test_rest_shape_has_no_strain(load: Load, tmp_path: Path) -> None:
    new_scene()
    obj = wobbler(tmp_path)
    load("dampsim_addon.api").add_maps([obj])
    bpy.context.scene.frame_set(1)
    mesh = evaluated_mesh(obj)
    assert len(mesh.vertices) > len(obj.data.vertices)
    for name in ("dampsim_stretch", "dampsim_compression", "dampsim_contact", "dampsim_velocity"):
        assert np.abs(attribute(mesh, name)).max() < 1e-4


def test_velocity_of_baked_shapes(load: Load, tmp_path: Path) -> None:
    """Frames in order give the velocity since the frame before in world space, m/s."""
    obj = baked_wobbler(tmp_path, "SHAPE_KEYS")
    played = [world_vertices(obj, frame) for frame in range(1, LAST + 1)]
    load("dampsim_addon.api").add_maps([obj])
    for frame in range(1, LAST + 1):
        bpy.context.scene.frame_set(frame)
        found = attribute(evaluated_mesh(obj), "dampsim_velocity")
        expected = 24.0 * (played[frame - 1] - played[max(frame - 2, 0)])
        np.testing.assert_allclose(found, expected, atol=1e-3)
    assert np.abs(found).max() > 0.1


def test_maps_show_shape_after_changes(load: Load, tmp_path: Path) -> None:
    """Blender's cache of the velocity holds no shape, and no velocity of an earlier bake, in memory and on disk."""
    obj, frames = baked_wobbler(tmp_path, "SHAPE_KEYS"), range(1, LAST + 1)
    load("dampsim_addon.api").add_maps([obj])

    def play() -> np.ndarray:
        return np.array([(bpy.context.scene.frame_set(frame), velocity())[1] for frame in frames])

    def velocity() -> np.ndarray:
        return attribute(evaluated_mesh(obj), "dampsim_velocity")

    first = play()
    bpy.ops.wm.save_as_mainfile(filepath=str(tmp_path / "maps.blend"))
    for is_cached in (False, True):
        if is_cached:
            for other in bpy.context.scene.objects:
                other.select_set(other == obj)
            assert bpy.ops.object.simulation_nodes_cache_bake(selected=True) == {"FINISHED"}
            bpy.context.scene.frame_set(8)
            np.testing.assert_allclose(velocity(), first[7], atol=1e-3)
        obj.dampsim.settle += 20.0
        assert bpy.ops.dampsim.bake() == {"FINISHED"}
        assert "velocity map stays 0 until the shot is played from frame 1" in obj.dampsim.baked_touched
        # Backwards, so that Blender finds no frame before.
        for frame in (10, 8, 5):
            bpy.context.scene.frame_set(frame)
            assert not velocity().any()
            cached = attribute(evaluated_mesh(obj), "position")
            modifier = load("dampsim_addon.blender.maps").maps_modifier(obj)
            modifier.show_viewport = False
            np.testing.assert_allclose(attribute(evaluated_mesh(obj), "position"), cached, atol=1e-6)
            modifier.show_viewport = True
        if not is_cached:
            again = play()
            assert np.abs(again - first).max() > 0.1
            played = np.array([world_vertices(obj, frame) for frame in frames])
            np.testing.assert_allclose(again[1:], 24.0 * np.diff(played, axis=0), atol=1e-3)
            first = again


def test_contact_follows_distance(load: Load, tmp_path: Path) -> None:
    """The contact is 1 on a collider and falls linearly to 0 at the contact range."""
    new_scene()
    obj = wobbler(tmp_path)
    obj.modifiers.clear()
    bpy.ops.mesh.primitive_cube_add(size=2.0, location=(0.0, 0.0, -1.75))
    box = bpy.context.object
    box.dampsim_collider.is_collider = True
    bpy.context.view_layer.objects.active = obj
    load("dampsim_addon.api").add_maps([obj], contact_range=0.2)
    bpy.context.scene.frame_set(1)
    found = attribute(evaluated_mesh(obj), "dampsim_contact")
    height = world_vertices(obj, 1)[:, 2] + 0.75
    np.testing.assert_allclose(found, np.clip(1.0 - np.abs(height) / 0.2, 0.0, 1.0), atol=2e-3)
    assert found.max() > 0.5
    # An update keeps the distance.
    load("dampsim_addon.api").add_maps([obj])
    np.testing.assert_array_equal(attribute(evaluated_mesh(obj), "dampsim_contact"), found)


def test_maps_do_not_change_bakes(load: Load, tmp_path: Path) -> None:
    """A bake with maps is the same, nothing is reported, and they can be removed without a trace."""
    obj = baked_wobbler(tmp_path, "SHAPE_KEYS")
    played, api = world_vertices(obj, 7), load("dampsim_addon.api")
    before = dump()
    issues = load("dampsim_addon.ui.bake.checks").find_issues
    known = issues(obj, bpy.context.scene)
    api.add_maps([obj])
    assert issues(obj, bpy.context.scene) == known
    assert not load("dampsim_addon.status.bake_changes").changes_since_bake(obj, bpy.context.scene)
    assert bpy.ops.dampsim.bake() == {"FINISHED"}
    np.testing.assert_array_equal(world_vertices(obj, 7), played)
    assert bpy.ops.dampsim.maps() == {"FINISHED"}
    assert bpy.ops.dampsim.maps(remove=True) == {"FINISHED"}
    after = dump()
    before["scene"] = after["scene"]
    assert after == before


@pytest.mark.slow
def test_cli_adds_and_removes_maps(load: Load, tmp_path: Path) -> None:
    new_scene()
    obj = wobbler(tmp_path / "cache")
    path, cli = tmp_path / "scene.blend", load("dampsim_addon.cli")
    bpy.ops.wm.save_as_mainfile(filepath=str(path))
    assert cli.main(["maps"]) == cli.DONE
    bpy.ops.wm.open_mainfile(filepath=str(path))
    obj = bpy.data.objects["Wobbler"]
    # Before Subdivision, which interpolates the maps.
    assert [one.type for one in obj.modifiers] == ["NODES", "SUBSURF"]
    assert cli.main(["maps", "--remove"]) == cli.DONE
    assert [one.type for one in obj.modifiers] == ["SUBSURF"]
