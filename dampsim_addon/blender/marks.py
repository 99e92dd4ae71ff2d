"""How DampSim knows its own among the artist's data: keys, modifiers, tracks by their whole name, actions by a mark."""

from __future__ import annotations

import re

import bpy

PREFIX = "DampSim "
BASIS, PROBE, OFFSET = PREFIX + "Basis", PREFIX + "Probe", PREFIX + "Offset"
MODIFIER = PREFIX + "Cache"
LIVE = PREFIX + "Live"
TRACK = PREFIX + "Bake"

_SHAPE = PREFIX + "Shape {:03d}"
_FRAME = PREFIX + "{:05d}"
# Blender adds a number where a name is taken. Other names that begin like ours are the artist's.
_OURS = re.compile(PREFIX + r"(Basis|Probe|Offset|Cache|Live|Bake|Shape \d{3,}|-?\d{4,})(\.\d{3})?")
_PATH = re.compile(r'key_blocks\["(.*)"\]\.value')
_MARK = "dampsim_bake"


def shape_name(number: int) -> str:
    return _SHAPE.format(number)


def frame_name(number: int) -> str:
    return _FRAME.format(number)


def is_ours(name: str) -> bool:
    return _OURS.fullmatch(name) is not None


def mark(action: bpy.types.Action) -> None:
    """Say that the action is a bake's."""
    action[_MARK] = True


def unmark(action: bpy.types.Action) -> None:
    del action[_MARK]


def is_marked(action: bpy.types.Action) -> bool:
    return bool(action.get(_MARK))


def is_our_curve(action: bpy.types.Action, path: str) -> bool:
    """Whether a bake put the curve there: the artist may have keyed something else into the same action since."""
    if not is_marked(action):
        return False
    key = _PATH.fullmatch(path)
    return is_ours(key[1]) if key else path == "eval_time"
