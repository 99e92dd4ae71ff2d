"""Fabrics that Add chooses, and cloth of files from before it chose any."""

from __future__ import annotations

from collections.abc import Callable
from types import ModuleType

import bpy
import pytest
from scenes import new_scene
from test_add_and_pins import select

pytestmark = [pytest.mark.bpy]
Load = Callable[[str], ModuleType]


def added_grid(name: str, size: float = 1.0) -> bpy.types.Object:
    bpy.ops.mesh.primitive_grid_add(size=size)
    obj = bpy.context.object
    obj.name = name
    select(obj)
    assert bpy.ops.dampsim.add() == {"FINISHED"}
    return obj


@pytest.mark.parametrize(
    ("name", "size", "fabric"),
    [
        ("Grid", 1.0, "Cotton"),
        ("Grid", 0.2, "Silk"),
        ("Grid", 20.0, "Canvas"),
        ("Hero_Cape.001", 1.2, "Satin"),
        ("Flags", 1.5, "Nylon"),
        ("Leaf", 0.1, "Paper"),
        ("Belt", 1.0, "Leather"),
        # Only whole words count.
        ("Landscape", 1.0, "Cotton"),
    ],
)
def test_fabric_by_name_and_size(load: Load, name: str, size: float, fabric: str) -> None:
    new_scene()
    obj = added_grid(name, size)
    fabrics = load("dampsim_addon.ui.add.add_operators")
    values = load("core.bodies.fabrics").FABRICS[fabric]
    assert fabrics.current_fabric(obj.dampsim) == fabric
    settings = obj.dampsim
    assert 1e-3 * settings.density * settings.thickness == pytest.approx(values.area_density, rel=0.01)
    assert settings.stiffness * settings.thickness == pytest.approx(values.stretch, rel=0.01)
    assert settings.shear == pytest.approx(values.shear)
    assert settings.air == 1.0


@pytest.mark.parametrize(
    ("size", "fps", "settle"), [(1.0, 24, 72.0), (4.0, 24, 144.0), (1.0, 60, 180.0), (0.04, 24, 24.0)]
)
def test_sheet_settles_by_size(size: float, fps: int, settle: float) -> None:
    """With 24 frames, sheets of a metre could not swing, and hung like boards."""
    new_scene()
    bpy.context.scene.render.fps = fps
    group = added_grid("Grid", size).dampsim
    assert group.settle == settle
    group.kind = "SOLID"
    assert group.settle == 24.0


def test_fabric_ends_with_cloth(load: Load) -> None:
    """Another kind gets its own defaults, unless the fabric was edited."""
    new_scene()
    group = added_grid("Grid").dampsim
    group.kind = "SOLID"
    assert (group.density, group.bending, group.stiffness_by) == (1000.0, 1.0, "SAG")
    edited = added_grid("Grid").dampsim
    edited.density = 140.0
    edited.kind = "SPRINGS"
    assert edited.density == pytest.approx(140.0)


def test_cloth_of_older_files_keeps_values(load: Load) -> None:
    """Older files store the stiffness and thickness that Add chose; weight and bending were the defaults."""
    new_scene()
    bpy.ops.mesh.primitive_grid_add(size=1.0)
    group = bpy.context.object.dampsim
    group.enabled, group.kind, group.stiffness_by = True, "CLOTH", "MODULUS"
    group.stiffness, group.thickness = 4900.0, 1.0
    assert group.air == 0.0
    found = load("dampsim_addon.model.properties").read_settings(bpy.context.object)
    assert (found.density, found.bending, found.stiffness, found.shear) == (1000.0, 1.0, 4900.0, 100.0)


@pytest.mark.parametrize(("opening", "kind"), [(0.05, "SOLID"), (0.10, "SOLID"), (0.18, "CLOTH")])
def test_skinned_body_with_opening(load: Load, opening: float, kind: str) -> None:
    """opening: area relative to the surface. Without a skeleton, 0.10 is cloth."""
    new_scene()
    sides, radius = 48, 0.3
    # The wall of a can without a lid: 2 r h + r^2 of area, of which r^2 is open.
    height = 0.5 * radius * (1.0 / opening - 1.0)
    bpy.ops.mesh.primitive_cylinder_add(vertices=sides, end_fill_type="NGON", radius=radius, depth=height)
    obj = bpy.context.object
    mesh = obj.data
    lid = next(face for face in mesh.polygons if face.normal.z > 0.9)
    import bmesh  # available only after bpy

    made = bmesh.new()
    made.from_mesh(mesh)
    made.faces.ensure_lookup_table()
    bmesh.ops.delete(made, geom=[made.faces[lid.index]], context="FACES_ONLY")
    made.to_mesh(mesh)
    made.free()
    obj.modifiers.new("Armature", "ARMATURE")
    select(obj)
    assert bpy.ops.dampsim.add() == {"FINISHED"}
    assert obj.dampsim.kind == kind
