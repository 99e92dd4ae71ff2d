"""Influence of a bake to a file in NLA strips of the user: several, held, repeated and silent ones."""

from __future__ import annotations

from collections.abc import Callable
from itertools import product
from pathlib import Path
from types import ModuleType
from typing import Any

import bpy
import pytest
from scenes import new_scene, wobbler

pytestmark = [pytest.mark.bpy, pytest.mark.versions]
Load = Callable[[str], ModuleType]
EASINGS = ("AUTO", "EASE_IN", "EASE_OUT", "EASE_IN_OUT")


def baked_with_strip(load: Load, folder: Path) -> tuple[bpy.types.Object, Any]:
    """Return a bake to a file and the NLA strip of its influence, at frames 1 to 9."""
    new_scene(20)
    obj = wobbler(folder)
    obj.dampsim.target = "POINT_CACHE"
    assert bpy.ops.dampsim.bake() == {"FINISHED"}
    load("dampsim_addon.targets.influence").key_influence(obj, [(1.0, 1.0), (9.0, 0.3)])
    data = obj.animation_data
    return obj, add_strip(data, "Shot", 1, data.action)


def add_strip(data: bpy.types.AnimData, name: str, first: int, action: bpy.types.Action) -> Any:
    strip = data.nla_tracks.new().strips.new(name, first, action)
    strip.action_slot, data.action = action.slots[0], None
    strip.action_frame_start, strip.action_frame_end = 1.0, 9.0
    return strip


def played(obj: bpy.types.Object, *frames: int) -> list[float]:
    """Return the factor that Blender plays at frames; Influence displays the same."""
    found = []
    for frame in frames:
        bpy.context.scene.frame_set(frame)
        found.append(obj.modifiers["DampSim Cache"].factor)
        assert obj.dampsim.influence == pytest.approx(found[-1], abs=1e-5)
    return found


def silence(data: bpy.types.AnimData, kind: str) -> None:
    track = data.nla_tracks[0]
    if kind == "track":
        track.mute = True
    elif kind == "strip":
        track.strips[0].mute = True
    else:
        data.use_nla = False


@pytest.mark.parametrize("kind", ["track", "strip", "off"])
def test_silent_strip_takes_no_keys(load: Load, tmp_path: Path, kind: str) -> None:
    """Keyframes are not lost in a strip that is not heard: they are in a new action, and play."""
    obj, strip = baked_with_strip(load, tmp_path)
    silence(obj.animation_data, kind)
    obj.modifiers["DampSim Cache"].factor = 1.0
    assert played(obj, 1, 9, 16) == [1.0, 1.0, 1.0]
    load("dampsim_addon.targets.influence").key_influence(obj, [(12.0, 1.0), (16.0, 0.2)])
    assert played(obj, 9, 12, 16) == pytest.approx([1.0, 1.0, 0.2])
    assert obj.animation_data.action not in (None, strip.action)
    assert list(strip.action.frame_range) == [1.0, 9.0]


@pytest.mark.parametrize("is_same_track", [False, True])
def test_strip_of_frame_takes_keys(load: Load, tmp_path: Path, is_same_track: bool) -> None:
    """The strip that plays at the frames takes the keyframes, not the other one."""
    obj, strip = baked_with_strip(load, tmp_path)
    data, other = obj.animation_data, strip.action.copy()
    if is_same_track:
        second = data.nla_tracks[0].strips.new("Second", 11, other)
        second.action_slot = other.slots[0]
    else:
        second = add_strip(data, "Second", 11, other)
        second.extrapolation = "NOTHING"
    assert (second.frame_start, second.frame_end) == (11.0, 19.0)
    assert played(obj, 1, 9, 10, 11, 19) == pytest.approx([1.0, 0.3, 0.3, 1.0, 0.3])
    influence = load("dampsim_addon.targets.influence")
    influence.key_influence(obj, [(3.0, 0.9), (6.0, 0.5)])
    influence.key_influence(obj, [(12.0, 0.8), (16.0, 0.1)])
    assert played(obj, 1, 3, 6, 9, 11, 12, 16, 19) == pytest.approx([1.0, 0.9, 0.5, 0.3, 1.0, 0.8, 0.1, 0.3])
    assert influence.influence_values(obj, (3, 16)) == pytest.approx((0.9, 0.1))
    with influence.constant_influence(obj, 0.7):
        for frame in (3, 16):
            bpy.context.scene.frame_set(frame)
            assert obj.modifiers["DampSim Cache"].factor == pytest.approx(0.7)


@pytest.mark.parametrize("first", [4, 1])
def test_uncovered_frames_are_refused(load: Load, tmp_path: Path, first: int) -> None:
    """A keyframe or blend outside of the strip would not play, so a message names the strip and its frames."""
    obj, strip = baked_with_strip(load, tmp_path)
    strip.frame_end, strip.frame_start = first + 8, first
    message = f"Wobbler: its Influence is in the NLA strip 'Shot', which covers frames {first} to {first + 8}"
    # The ends of the strip are held.
    assert played(obj, first, 8 + first, 16) == pytest.approx([1.0, 0.3, 0.3])
    error = load("core.base.errors").SceneError
    influence = load("dampsim_addon.targets.influence")
    for frames in ([12.0, 16.0], [2.0, 16.0], [first - 1.0, 8.0]):
        with pytest.raises(error, match=message):
            influence.key_influence(obj, [(frame, 0.5) for frame in frames])
    with pytest.raises(error, match=message):
        load("dampsim_addon.api").blend([obj], "LAND", 16, 6)
    assert len(influence.keyed_curves(obj)[0].keyframe_points) == 2
    assert not obj.dampsim.blended_frames
    influence.key_influence(obj, [(first + 0.0, 0.9), (first + 8.0, 0.4)])
    assert played(obj, first, 8 + first) == pytest.approx([0.9, 0.4])


def test_repeated_strip_is_refused(load: Load, tmp_path: Path) -> None:
    """A keyframe would play in every repetition; the displayed influence is that of each."""
    obj, strip = baked_with_strip(load, tmp_path)
    strip.repeat = 2.0
    assert played(obj, 1, 8, 9, 10, 16, 17, 20)[3:5] == pytest.approx(played(obj, 2, 8))
    with pytest.raises(load("core.base.errors").SceneError, match="NLA strip 'Shot', which repeats; set its Repeat"):
        load("dampsim_addon.targets.influence").key_influence(obj, [(4.0, 0.5)])


@pytest.mark.parametrize(("interpolation", "easing"), [
    ("BEZIER", "AUTO"), ("LINEAR", "AUTO"), *product(("QUAD", "BACK", "ELASTIC"), EASINGS),
])  # fmt: skip
def test_reversed_influence_moves_along(load: Load, tmp_path: Path, interpolation: str, easing: str) -> None:
    """A curve in a reversed strip plays the same in another target: its segments and handles are reversed."""
    obj, strip = baked_with_strip(load, tmp_path)
    influence = load("dampsim_addon.targets.influence")
    influence.key_influence(obj, [(1.0, 0.8), (4.0, 0.3), (9.0, 0.6)])
    keys = influence.keyed_curves(obj)[0].keyframe_points
    keys[0].interpolation, keys[0].easing = interpolation, easing
    keys[1].interpolation = "LINEAR"
    # Blender's elastic segments have no reverse with an amplitude above their change.
    keys[0].amplitude = 0.1
    keys[0].handle_right_type = keys[1].handle_left_type = "FREE"
    keys[0].handle_right, keys[1].handle_left = (2.5, 0.85), (3.5, 0.4)
    strip.use_reverse = True
    expected = played(obj, *range(1, 10))
    assert expected[0] == pytest.approx(0.6, abs=1e-6)
    obj.dampsim.target = "FRAME_KEYS"
    assert bpy.ops.dampsim.bake() == {"FINISHED"}
    assert influence.influence_values(obj, range(1, 10)) == pytest.approx(expected, abs=1e-5)
