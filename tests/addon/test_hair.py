"""Hair curves: guide strands are simulated as ropes, and all strands follow them live and baked."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import bpy
import numpy as np
import pytest
from scenes import LAST, new_scene

pytestmark = [pytest.mark.bpy, pytest.mark.versions]


def hair_patch(strands: int = 40, count: int = 6) -> bpy.types.Object:
    """Upright hair strands of 0.3 m on a patch, with keyframed sway."""
    data = bpy.data.hair_curves.new("Hair")
    data.add_curves([count] * strands)
    rng = np.random.default_rng(0)
    roots = np.column_stack([rng.random((strands, 2)) * 0.2, np.zeros(strands)])
    up = np.array([0.1, 0.0, 0.3]) * np.linspace(0.0, 1.0, count)[:, None]
    data.attributes["position"].data.foreach_set("vector", (roots[:, None] + up).ravel())
    obj = bpy.data.objects.new("Hair", data)
    bpy.context.scene.collection.objects.link(obj)
    obj.location, obj.rotation_euler.z, obj.scale = (0.3, 0.2, 1.0), 0.4, (0.8, 0.8, 0.8)
    for frame, place in ((1, 0.2), (3, 0.2), (6, 0.4)):
        obj.location.y = place
        obj.keyframe_insert("location", frame=frame)
    obj.select_set(True)
    bpy.context.view_layer.objects.active = obj
    return obj


def evaluated_points(hair: bpy.types.Object, frame: int) -> np.ndarray:
    """Return the evaluated points (p, 3) of a frame in world space."""
    bpy.context.scene.frame_set(frame)
    data = hair.evaluated_get(bpy.context.evaluated_depsgraph_get()).data
    found = np.empty(3 * len(data.points), dtype=np.float32)
    data.attributes["position"].data.foreach_get("vector", found)
    matrix = np.array(hair.matrix_world)
    return np.asarray(found.reshape(-1, 3) @ matrix[:3, :3].T + matrix[:3, 3])


def without_stretch(points: np.ndarray, groom: np.ndarray) -> np.ndarray:
    """Return strands of six points (p, 3) with the lengths of the groom, which the simulation may stretch."""
    now, then = (np.diff(one.reshape(-1, 6, 3), axis=1) for one in (points, groom))
    now *= (np.linalg.norm(then, axis=2) / np.linalg.norm(now, axis=2))[..., None]
    roots = points.reshape(-1, 6, 3)[:, :1]
    return np.concatenate([roots, roots + np.cumsum(now, axis=1)], axis=1).reshape(-1, 3)


def add_guides(hair: bpy.types.Object, cache: Path, guides: int = 5) -> bpy.types.Object:
    assert bpy.ops.dampsim.hair(guides=guides) == {"FINISHED"}
    wire = bpy.context.object
    wire.dampsim.cache_folder, wire.dampsim.settle, wire.dampsim.target = str(cache), 12.0, "POINT_CACHE"
    return wire


def test_hair_radius_ignores_invalid_values(load: Any) -> None:
    new_scene()
    hair = hair_patch()
    radii = hair.data.attributes.get("radius") or hair.data.attributes.new("radius", "FLOAT", "POINT")
    values = np.full(len(hair.data.points), 0.25, dtype=np.float32)
    values[:2] = np.inf, np.nan
    radii.data.foreach_set("value", values)
    assert load("dampsim_addon.blender.hair").Strands.from_curves(hair.data).radius == 0.25


def test_hair_follows_baked_guides(load: Any, tmp_path: Path) -> None:
    """Clear restores the hair."""
    new_scene()
    hair = hair_patch()
    plain = {number: evaluated_points(hair, number) for number in (1, LAST)}
    wire = add_guides(hair, tmp_path)
    assert (wire.dampsim.kind, len(wire.data.vertices)) == ("ROPE", 30)
    np.testing.assert_allclose(evaluated_points(hair, LAST), plain[LAST], atol=1e-6)
    bpy.context.scene.frame_set(1)
    assert bpy.ops.dampsim.bake() == {"FINISHED"}
    cache = load("dampsim_addon.model.caches").frame_cache(wire)
    strands = load("dampsim_addon.blender.hair").Strands.from_curves(hair.data)
    rows = (strands.starts[strands.select_guides(5)][:, None] + np.arange(6)).ravel()
    moved = 0.0
    for number in range(1, LAST + 1):
        there, wanted = evaluated_points(hair, number), cache.read_shape(number, wire.name)
        np.testing.assert_allclose(there[rows], without_stretch(wanted, plain[LAST][rows]), atol=4e-6)
        if number in plain:
            away = (there - plain[number]).reshape(40, 6, 3)
            assert np.abs(away[:, 0]).max() < 2e-6
            moved = max(moved, float(np.linalg.norm(away[:, -1], axis=1).min()))
    assert moved > 1e-3
    assert bpy.ops.dampsim.clear() == {"FINISHED"}
    np.testing.assert_allclose(evaluated_points(hair, LAST), plain[LAST], atol=1e-6)


def test_strands_rest_during_bake(load: Any, tmp_path: Path) -> None:
    """A bake disables the hair, whose motion still moves the guides, and enables it at the end."""
    scene = new_scene(LAST)
    hair = hair_patch()
    wire, found = add_guides(hair, tmp_path), []
    for create in ("blender.sampler", "GroupSampler"), ("scene_reader.isolation", "isolated_sampler"):
        sampler = getattr(load(f"dampsim_addon.{create[0]}"), create[1])(scene, bpy.context.view_layer, [wire])
        with sampler as entered:
            assert hair.hide_viewport == (create[1] == "isolated_sampler")
            found.append([entered.members[0].world_positions_at(frame) for frame in (1, 4, 6)])
    np.testing.assert_array_equal(found[0], found[1])
    assert np.abs(found[0][2] - found[0][0]).max() > 0.1
    assert not hair.hide_viewport


def test_hair_follows_guides_in_live(load: Any, tmp_path: Path) -> None:
    new_scene()
    live = load("dampsim_addon.live")
    live.install()
    try:
        hair = hair_patch()
        plain = evaluated_points(hair, 1)
        wire = add_guides(hair, tmp_path)
        played = [evaluated_points(hair, number) for number in range(1, LAST + 1)]
        strands = load("dampsim_addon.blender.hair").Strands.from_curves(hair.data)
        rows = (strands.starts[strands.select_guides(5)][:, None] + np.arange(6)).ravel()
        kept = [one.frame.shapes[wire.name] for one in live.find_session(wire).frames]
        assert len(kept) == LAST
        for there, wanted in zip(played, kept, strict=True):
            np.testing.assert_allclose(there[rows], without_stretch(wanted, plain[rows]), atol=4e-6)
    finally:
        live.uninstall()


def test_many_guides_give_a_warning(load: Any) -> None:
    hair = load("dampsim_addon.ui.add.add_operators")
    assert hair.guides_report("Wig Guides", "Wig", hair.MAX_FAST_GUIDES) == (
        {"INFO"},
        "Wig Guides: simulating 100 guides, which Wig follows",
    )
    how, said = hair.guides_report("Wig Guides", "Wig", hair.MAX_FAST_GUIDES + 1)
    assert how == {"WARNING"}
    assert said.startswith("Wig Guides: simulating 101 guides, which Wig follows.")
    assert said.endswith("choose fewer Guides")


def test_guide_distribution_and_refusals(load: Any, tmp_path: Path) -> None:
    """Guides are spread evenly; hair that has no strands, or follows guides already, is refused."""
    new_scene()
    hair = hair_patch(1)
    add_guides(hair, tmp_path)
    bpy.context.view_layer.objects.active = hair
    with pytest.raises(RuntimeError, match="Hair: it already follows guides"):
        bpy.ops.dampsim.hair()
    empty = bpy.data.objects.new("Bald", bpy.data.hair_curves.new("Bald"))
    bpy.context.scene.collection.objects.link(empty)
    bpy.context.view_layer.objects.active = empty
    with pytest.raises(RuntimeError, match="Bald: no strand has two or more points"):
        bpy.ops.dampsim.hair()
    roots = np.column_stack([np.linspace(0.0, 1.0, 101), np.zeros((101, 2))])
    points = (roots[:, None] + np.array([[0.0, 0.0, 0.0], [0.0, 0.0, 1.0]])).reshape(-1, 3)
    strands = load("dampsim_addon.blender.hair").Strands(points, 2 * np.arange(101), np.full(101, 2), 0.0)
    np.testing.assert_array_equal(strands.select_guides(3), [0, 50, 100])
