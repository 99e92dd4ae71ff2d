"""Edits of a bake's own keys, strips and modifiers are reported, and the next bake or Clear leaves nothing behind."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

import bpy
import numpy as np
import pytest
from scenes import FILES, TARGETS, dump, new_scene, wobbler, world_vertices

pytestmark = [pytest.mark.bpy, pytest.mark.versions]
Load = Callable[[str], ModuleType]
Edit = Callable[[bpy.types.Object], None]
LAST = 8


def bake(obj: bpy.types.Object, target: str = "SHAPE_KEYS") -> None:
    obj.dampsim.target = target
    bpy.context.view_layer.objects.active = obj
    assert bpy.ops.dampsim.bake() == {"FINISHED"}


def issue(load: Load, obj: bpy.types.Object) -> str:
    found = load("dampsim_addon.ui.bake.checks").find_issues(obj, bpy.context.scene)
    return found["damaged"].text if "damaged" in found else ""


def animation(obj: bpy.types.Object) -> Any:
    return obj.data.shape_keys.animation_data


def remove_key(obj: bpy.types.Object) -> None:
    obj.shape_key_remove(obj.data.shape_keys.key_blocks[1])


def mute_key(obj: bpy.types.Object) -> None:
    obj.data.shape_keys.key_blocks[1].mute = True


def remove_strip(obj: bpy.types.Object) -> None:
    track = animation(obj).nla_tracks["DampSim Bake"]
    track.strips.remove(track.strips[0])


def remove_action(obj: bpy.types.Object) -> None:
    bpy.data.actions.remove(animation(obj).nla_tracks["DampSim Bake"].strips[0].action)


EDITS: dict[str, tuple[Edit, str]] = {
    "key": (remove_key, "1 shape key of the bake is missing"),
    "all keys": (lambda obj: obj.shape_key_clear(), "shape keys of the bake are missing"),
    "mute": (mute_key, "1 shape key of the bake is muted"),
    "strip": (remove_strip, "The NLA strip of the bake is missing"),
    "action": (remove_action, "The NLA strip of the bake is missing"),
    "animation": (lambda obj: obj.data.shape_keys.animation_data_clear(), "The NLA strip of the bake is missing"),
}


@pytest.mark.parametrize("target", TARGETS)
def test_intact_bake_is_not_reported(load: Load, tmp_path: Path, target: str) -> None:
    new_scene(LAST)
    obj = wobbler(tmp_path)
    bake(obj, target)
    assert issue(load, obj) == ""


@pytest.mark.parametrize("name", EDITS)
def test_damaged_keys_are_reported(load: Load, tmp_path: Path, name: str) -> None:
    new_scene(LAST)
    obj = wobbler(tmp_path)
    bake(obj)
    edit, words = EDITS[name]
    edit(obj)
    assert words in issue(load, obj)
    bake(obj)
    assert issue(load, obj) == ""


def other_solo(obj: bpy.types.Object) -> None:
    animation(obj).nla_tracks.new().is_solo = True


def mute_tracks(obj: bpy.types.Object) -> None:
    for track in animation(obj).nla_tracks:
        track.mute = True


MUTING: dict[str, tuple[Edit, str]] = {
    "track": (lambda obj: setattr(animation(obj).nla_tracks["DampSim Bake"], "mute", True), "SHAPE_KEYS"),
    "tracks": (mute_tracks, "FRAME_KEYS"),
    "strip": (lambda obj: setattr(animation(obj).nla_tracks["DampSim Bake"].strips[0], "mute", True), "SHAPE_KEYS"),
    "NLA": (lambda obj: setattr(animation(obj), "use_nla", False), "SHAPE_KEYS"),
    "solo": (other_solo, "SHAPE_KEYS"),
    "modifier": (lambda obj: setattr(obj.modifiers["DampSim Cache"], "show_viewport", False), FILES[0]),
}


@pytest.mark.parametrize("name", MUTING)
def test_muted_bake_is_reported(load: Load, tmp_path: Path, name: str) -> None:
    """A muted bake stays muted when it is baked again, which the panel says, and Unmute lets it play exactly."""
    new_scene(LAST)
    obj = wobbler(tmp_path)
    edit, target = MUTING[name]
    bake(obj, target)
    find, scene = load("dampsim_addon.ui.bake.checks").find_issues, bpy.context.scene
    assert "muted" not in find(obj, scene)
    played = world_vertices(obj, LAST - 1)
    # Without NLA, keys keep the values of the last evaluated frame.
    world_vertices(obj, 1)
    edit(obj)
    if name not in ("solo", "NLA"):
        # A bake refuses a solo track, and switches the NLA on.
        bake(obj, target)
    assert find(obj, scene)["muted"].text == "Its bake is muted, so it does not play"
    assert np.abs(world_vertices(obj, LAST - 1) - played).max() > 1e-3
    assert bpy.ops.dampsim.mend(check="muted") == {"FINISHED"}
    assert "muted" not in find(obj, scene)
    assert np.abs(world_vertices(obj, LAST - 1) - played).max() < 1e-6


def test_missing_cache_modifier_is_reported(load: Load, tmp_path: Path) -> None:
    new_scene(LAST)
    obj = wobbler(tmp_path)
    bake(obj, FILES[0])
    obj.modifiers.remove(obj.modifiers["DampSim Cache"])
    assert "The modifier that plays the bake is missing" in issue(load, obj)
    bake(obj, FILES[0])
    assert issue(load, obj) == ""


@pytest.mark.parametrize("target", ["SHAPE_KEYS", "FRAME_KEYS", "ABSOLUTE_KEYS"])
def test_renamed_keys_belong_to_bake(load: Load, tmp_path: Path, target: str) -> None:
    """A renamed key is not felt by the next bake, which replaces it, and Clear removes it."""
    new_scene(LAST)
    obj = wobbler(tmp_path)
    before = dump()["mesh Wobbler"]
    bake(obj, target)
    count = len(obj.data.shape_keys.key_blocks)
    cache = load("dampsim_addon.model.caches").frame_cache
    first = cache(obj).read_shape(LAST, obj.name)
    for place in (1, 2):
        obj.data.shape_keys.key_blocks[place].name = f"Jiggle {place}"
    changes = load("dampsim_addon.status.bake_changes")
    changes.refresh_digests(obj)
    assert changes.changes_since_bake(obj, bpy.context.scene) == []
    assert issue(load, obj) == ""
    bpy.ops.dampsim.bake(restart=True)
    assert len(obj.data.shape_keys.key_blocks) == count
    assert not [key.name for key in obj.data.shape_keys.key_blocks if key.name.startswith("Jiggle")]
    assert (cache(obj).read_shape(LAST, obj.name) == first).all()
    obj.data.shape_keys.key_blocks[1].name = "Jiggle"
    assert bpy.ops.dampsim.clear() == {"FINISHED"}
    assert dump()["mesh Wobbler"] == before
    assert not [action.name for action in bpy.data.actions if action.name.startswith("DampSim")]


def test_clear_leaves_tweak_mode(tmp_path: Path) -> None:
    """Blender locks the actions while a strip of the bake is edited."""
    new_scene(LAST)
    obj = wobbler(tmp_path)
    before = dump()["mesh Wobbler"]
    bake(obj)
    data = animation(obj)
    track = data.nla_tracks["DampSim Bake"]
    data.nla_tracks.active, track.strips[0].select = track, True
    data.use_tweak_mode = True
    assert data.use_tweak_mode
    assert bpy.ops.dampsim.clear() == {"FINISHED"}
    assert dump()["mesh Wobbler"] == before
