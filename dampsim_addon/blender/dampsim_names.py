"""Identification of DampSim's own data: shape keys, modifiers and tracks by full name, actions by a custom property."""

from __future__ import annotations

import re

import bpy

PREFIX = "DampSim "
BASIS, PROBE, OFFSET = PREFIX + "Basis", PREFIX + "Probe", PREFIX + "Offset"
CACHE_MODIFIER = PREFIX + "Cache"
LIVE_MODIFIER = PREFIX + "Live"
BAKE_TRACK, BASE_TRACK = PREFIX + "Bake", PREFIX + "Base"

_SHAPE = PREFIX + "Shape {:03d}"
_FRAME = PREFIX + "{:05d}"
# Blender appends a number where a name is taken. Other names with the same prefix belong to the user.
_DAMPSIM_NAME = re.compile(PREFIX + r"(Basis|Probe|Offset|Cache|Live|Bake|Base|Shape \d{3,}|-?\d{4,})(\.\d{3})?")
_MODIFIER_PATH = re.compile(r'modifiers\["(.*)"\]\..*')
_KEY_VALUE_PATH = re.compile(r'key_blocks\["(.*)"\]\.value')
_BAKE_TAG, _BASE = "dampsim_bake", "base"


def shape_name(number: int) -> str:
    """Return the name of the key of a shape in a compressed bake."""
    return _SHAPE.format(number)


def frame_name(number: int) -> str:
    """Return the name of the shape key of a frame."""
    return _FRAME.format(number)


def is_dampsim_name(name: str) -> bool:
    """Return whether DampSim gave a shape key, modifier or track its name."""
    return _DAMPSIM_NAME.fullmatch(name) is not None


def tag_action(action: bpy.types.Action, is_base: bool = False) -> None:
    """Tag an action as made by a bake. is_base: whether it holds the bake's keys at zero."""
    action[_BAKE_TAG] = _BASE if is_base else True


def untag_action(action: bpy.types.Action) -> None:
    """Remove the tag of tag_action()."""
    del action[_BAKE_TAG]


def is_tagged_action(action: bpy.types.Action) -> bool:
    """Return whether an action was made by a bake."""
    return bool(action.get(_BAKE_TAG))


def is_base_action(action: bpy.types.Action) -> bool:
    """Return whether an action holds the keys of a bake at zero."""
    return bool(action.get(_BAKE_TAG) == _BASE)


def is_dampsim_fcurve(action: bpy.types.Action, path: str) -> bool:
    """Return whether a bake made an F-curve. The user may have added others to the same action since."""
    if not is_tagged_action(action):
        return False
    key = _KEY_VALUE_PATH.fullmatch(path)
    return is_dampsim_name(key[1]) if key else path == "eval_time"


def is_output_path(path: str) -> bool:
    """Return whether a data path leads to the modifier of a bake or of Live, which the user may have animated."""
    # The panel calls this on rigs with thousands of F-curves.
    modifier = _MODIFIER_PATH.fullmatch(path) if path.startswith("modifiers") else None
    return modifier is not None and is_dampsim_name(modifier[1])
