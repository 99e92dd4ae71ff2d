"""Table of NLA edits: for each target, the played shapes differ from the exact ones by less than the bake's bound.

The table has all targets of the registry. Each row is an edit and the exact shape at a frame.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

import bpy
import numpy as np
import pytest
from scenes import LAST, PACKAGE, new_scene, size, wobbler, world_vertices
from test_bone_bakes import belly
from test_existing_bones import tail

pytestmark = [pytest.mark.bpy, pytest.mark.versions]
Load = Callable[[str], ModuleType]
INFLUENCES = (0.0, 0.25, 0.5, 1.0)
REPEATS = 3
TARGETS = {target.name: target for target in importlib.import_module(f"{PACKAGE}.dampsim_addon.targets").TARGETS}
# Rows that a target and those derived from it refuse, since Blender cannot play them: one time value, a file without
# repeats.
IMPOSSIBLE = {
    "ABSOLUTE_KEYS": {"influence"},
    "POINT_CACHE": {"repeated"},
    "MDD": {"repeated"},
    "ALEMBIC": {"influence", "scaled", "repeated"},
}
QUICK = ("SHAPE_KEYS", "POINT_CACHE")


def local(obj: bpy.types.Object, frames: Any) -> np.ndarray:
    """Return the vertices in object space, (f, v, 3) m."""
    found = []
    for frame in frames:
        world, inverse = world_vertices(obj, frame), np.array(obj.matrix_world.inverted())
        found.append(world @ inverse[:3, :3].T + inverse[:3, 3])
    return np.array(found)


def worst(played: np.ndarray, expected: np.ndarray) -> float:
    return float(np.linalg.norm(played - expected, axis=-1).max())


def player(load: Load, obj: bpy.types.Object) -> Any:
    """Return the strip or modifier that plays the bake."""
    modifier = load("dampsim_addon.blender.dampsim_names").bake_modifier(obj)
    if modifier is not None:
        return modifier
    owner, mark = load("dampsim_addon.targets").get_target(obj.dampsim.baked).animated_data(obj)
    return load("dampsim_addon.targets.bake_tracks").bake_strips(owner.animation_data, mark)[0]


def mute(load: Load, obj: bpy.types.Object, is_muted: bool) -> None:
    one = player(load, obj)
    if isinstance(one, bpy.types.Modifier):
        one.show_viewport = not is_muted
    else:
        one.mute = is_muted


def blended_poses(load: Load, obj: bpy.types.Object, rig: bpy.types.Object, influence: float) -> np.ndarray:
    """Return the vertices (f, v, 3) m with each bone's rotation between those with and without the bake.

    Blender blends unit quaternions linearly, and normalises them.
    """
    found, strip = [], player(load, obj)

    def rotations(value: float, frame: int) -> np.ndarray:
        strip.influence = value
        bpy.context.scene.frame_set(frame)
        return np.array([bone.matrix_basis.to_quaternion() for bone in rig.pose.bones])

    for frame in range(1, LAST + 1):
        bare, baked = rotations(0.0, frame), rotations(1.0, frame)
        baked *= np.where((bare * baked).sum(axis=1) < 0.0, -1.0, 1.0)[:, None]
        for bone, turn in zip(rig.pose.bones, bare + influence * (baked - bare), strict=True):
            bone.rotation_quaternion = turn
        bpy.context.view_layer.update()
        mesh = obj.evaluated_get(bpy.context.view_layer.depsgraph).data
        found.append(np.array([vertex.co for vertex in mesh.vertices]))
    strip.influence = influence
    return np.array(found)


def impossible_rows(target: type) -> set[str]:
    return set[str]().union(*(IMPOSSIBLE.get(getattr(base, "name", ""), set()) for base in target.__mro__))


def test_derived_targets_refuse_same_rows() -> None:
    assert IMPOSSIBLE.keys() < TARGETS.keys()
    for name, rows in IMPOSSIBLE.items():
        assert impossible_rows(type("Derived", (TARGETS[name],), {"name": "DERIVED"})) == rows
    assert impossible_rows(TARGETS["SHAPE_KEYS"]) == set()


@pytest.mark.parametrize("target", [
    one if one in QUICK else pytest.param(one, marks=pytest.mark.slow) for one in TARGETS
])  # fmt: skip
def test_edits_play_within_bound(load: Load, tmp_path: Path, target: str) -> None:
    """Influence, muting, scale and repeat are exact within the bound, also after one another."""
    if target == "ALEMBIC" and not bpy.app.build_options.alembic:
        pytest.skip("this Blender was built without Alembic")
    new_scene()
    makers = {"BONES": belly, "EXISTING_BONES": tail}
    obj, rig = makers[target](tmp_path) if target in makers else (wobbler(tmp_path), None)
    obj.dampsim.target = target
    bpy.context.view_layer.objects.active = obj
    every = range(1, LAST + 1)
    plain = local(obj, every)
    assert bpy.ops.dampsim.bake() == {"FINISHED"}
    api, error, impossible = (
        load("dampsim_addon.api"),
        load("core.base.errors").SceneError,
        impossible_rows(TARGETS[target]),
    )
    cache = load("dampsim_addon.model.caches").frame_cache(obj)
    full = local(obj, every)
    simulated = []
    for frame in every:
        bpy.context.scene.frame_set(frame)
        inverse = np.array(obj.matrix_world.inverted())
        simulated.append(cache.read_shape(frame, obj.name) @ inverse[:3, :3].T + inverse[:3, 3])
    moved = worst(full, plain)
    # Single precision; the bound is in world space, where the object is smaller.
    allowed = max(float(obj.dampsim.baked_error) / min(obj.scale), 4e-6 * size(full[0]))
    # Existing bones cannot follow all of the flesh.
    assert moved > (2.0 if target == "EXISTING_BONES" else 10.0) * allowed
    errors = {"played": worst(full, np.array(simulated))}

    assert load("dampsim_addon.targets.influence").has_influence(obj) != ("influence" in impossible)
    for influence in INFLUENCES if "influence" not in impossible else ():
        obj.dampsim.influence = influence
        expected = plain + influence * (np.array(simulated) - plain)
        if target == "EXISTING_BONES":
            expected = blended_poses(load, obj, rig, influence)
            assert worst(local(obj, every), expected) < 1e-5 * size(full[0])
        errors[f"influence {influence}"] = worst(local(obj, every), expected)
    obj.dampsim.influence = 1.0

    mute(load, obj, True)
    errors["muted"] = worst(local(obj, every), plain)
    mute(load, obj, False)

    once = np.array(simulated)
    if rig is not None:
        # Bones play on top of the pose of the rig, which keeps its own speed. So let it stand still.
        rig.animation_data.action = None
        once = local(obj, every)
    if "scaled" in impossible:
        with pytest.raises(error, match="plays at its own speed"):
            api.retime([obj], 2.0)
    else:
        api.retime([obj], 2.0)
        errors["scaled"] = worst(local(obj, [2 * frame - 1 for frame in every]), once)
        api.retime([obj], 1.0)
    if "repeated" not in impossible:
        player(load, obj).repeat = float(REPEATS)
        length = LAST - 1
        for cycle in range(1, REPEATS):
            again = local(obj, [cycle * length + frame for frame in range(2, LAST)])
            errors[f"cycle {cycle + 1}"] = worst(again, once[1:length])
    print(target, {name: f"{value / allowed:.3f}" for name, value in errors.items()})
    assert {name: value for name, value in errors.items() if value > allowed * (1.0 + 1e-3)} == {}
