"""Modifiers of an exported bake are in the file, or the report names them with a fix."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

import bpy
import numpy as np
import pytest
from scenes import nearest_vertex_distance, new_scene, size, wobbler, world_vertices
from test_baking import bake
from test_generated_vertices import half_ball
from test_movers import MODIFIER_TYPES, add_moving_modifier, differ, node_group, shapes, sheet

pytestmark = [pytest.mark.bpy, pytest.mark.versions]
Load = Callable[[str], ModuleType]
LAST = 8


def shrink(obj: bpy.types.Object) -> Any:
    """Add Geometry Nodes that move each vertex by the same amount at all frames."""
    modifier: Any = obj.modifiers.new("Shrink", "NODES")
    modifier.node_group = node_group("GeometryNodeSetPosition", keyed=False)
    node = next(n for n in modifier.node_group.nodes if n.bl_idname == "GeometryNodeSetPosition")
    node.inputs["Offset"].default_value = (0.3, 0.0, 0.0)
    return modifier


@pytest.mark.parametrize("modifier_type", MODIFIER_TYPES)
def test_each_modifier_is_exported_or_reported(load: Load, modifier_type: str) -> None:
    new_scene(5)
    obj = sheet()
    plain = shapes(obj)
    modifier = shrink(obj) if modifier_type == "NODES" else add_moving_modifier(obj, modifier_type)
    truth = shapes(obj)
    causes, staging = load("dampsim_addon.jobs.export.causes"), load("dampsim_addon.jobs.export.staging")
    with staging.disable_modifiers([obj], True):
        kept = shapes(obj)
    reported = [*causes.lost_parts(obj, "GLTF"), causes.omission_note(obj, False)]
    if modifier_type != "ARMATURE" and differ(plain, truth):
        assert any(f"'{modifier.name}'" in text for text in reported)
    if differ(kept, truth):
        assert f"'{modifier.name}'" in causes.omission_note(obj, True)


def test_vertex_formats_keep_static_nodes(load: Load, tmp_path: Path) -> None:
    new_scene(LAST)
    obj = wobbler(tmp_path / "cache")
    bake(obj, "SHAPE_KEYS")
    shrink(obj)
    gltf, textures = load("dampsim_addon.api").export([obj], tmp_path / "out", ["GLTF", "VAT_EXR"])
    assert gltf.part > 0.1
    assert "The modifier 'Shrink' moves vertices" in gltf.warning
    assert (textures.part < 1e-4, textures.warning) == (True, "")
    assert all("('Subdivision')" in one.notes[-1] for one in (gltf, textures))


@pytest.mark.parametrize("form", ["ALEMBIC", "USD", "VAT_EXR"])
def test_vertex_formats_keep_mirrored_half(load: Load, form: str, tmp_path: Path) -> None:
    scene = new_scene(LAST)
    obj = half_ball(tmp_path / "cache", "MIRROR")
    bake(obj, "POINT_CACHE")
    played = [world_vertices(obj, frame) for frame in (1, LAST)]
    (result,) = load("dampsim_addon.api").export([obj], tmp_path / "out", [form])
    assert (result.part < 1e-4, result.warning, result.notes) == (True, "", ())
    fps = scene.render.fps
    new_scene(LAST).render.fps = fps
    if form == "VAT_EXR":
        bpy.ops.import_scene.gltf(filepath=str(tmp_path / "out_vat.glb"))
    else:
        read = bpy.ops.wm.alembic_import if form == "ALEMBIC" else bpy.ops.wm.usd_import
        read(filepath=str(next(tmp_path.glob("out.*"))), set_frame_range=False)
    copy = next(one for one in bpy.context.scene.objects if one.type == "MESH")
    numbers = [0] if form == "VAT_EXR" else [0, LAST - 1]
    for points, number in zip(played, numbers, strict=False):
        found = world_vertices(copy, number)
        assert np.isfinite(found).all()
        assert nearest_vertex_distance(found, points) < 1e-4 * size(points)


@pytest.mark.parametrize("form", ["ALEMBIC", "USD"])
def test_unbaked_cloth_is_named(load: Load, form: str, tmp_path: Path) -> None:
    new_scene(LAST)
    obj = wobbler(tmp_path / "cache")
    bake(obj, "SHAPE_KEYS")
    obj.modifiers.new("Cloth", "CLOTH")
    export = load("dampsim_addon.api").export
    (result,) = export([obj], tmp_path / "out", [form])
    assert result.part > 0.01
    assert "The modifier 'Cloth' is not baked, and exporters play only its cache; bake it first." in result.warning
    bpy.ops.ptcache.bake_all(bake=True)
    (result,) = export([obj], tmp_path / "out", [form])
    assert (result.part < 1e-4, result.warning) == (True, "")
