"""Identification of DampSim's own data by stored marks. A name alone is no mark, because users choose names freely.

Shape keys: a record of names and the range. Modifiers: a recorded name and the file that they play. Actions, cache
files and node groups: custom properties.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Any

import bpy

PREFIX = "DampSim "
BASIS, PROBE, OFFSET = PREFIX + "Basis", PREFIX + "Probe", PREFIX + "Offset"
CACHE_MODIFIER = PREFIX + "Cache"
LIVE_MODIFIER = PREFIX + "Live"
BAKE_TRACK, BASE_TRACK = PREFIX + "Bake", PREFIX + "Base"

_DAMPSIM_KEY = re.compile(PREFIX + r"(Basis|Probe|Offset|Shape \d{3,}|-?\d{4,})")
# Custom property that marks the node group of maps.
MAPS_TAG = "dampsim_maps"
_MODIFIER_PATH = re.compile(r'modifiers\["(.*)"\]\..*')
_KEY_VALUE_PATH = re.compile(r'key_blocks\["(.*)"\]\.value')
# Files of bakes, in folders with the names of caches, and of displayed live frames.
_BAKE_FILE_NAME = re.compile(r"(?:.*[\\/])?bake(?:_[a-z0-9]+)?\.[a-z0-9]+", re.DOTALL)
_BAKE_FILE = re.compile(r"(?:.*[\\/])?[0-9a-f]{16}[\\/]bake(?:_[a-z0-9]+)?\.[a-z0-9]+", re.DOTALL)
_LIVE_FILE = re.compile(r"(?:.*[\\/])?dampsim_\d+(?:_draft)?\.pc2", re.DOTALL)
RIG_MODIFIER = f"{PREFIX}Rig"
_RIG_MODIFIER = re.compile(rf"{RIG_MODIFIER}(?:\.\d+)?")
# Custom properties: of actions and cache files of a bake, of the F-curves in such an action, of shape keys.
_BAKE_TAG, _BASE = "dampsim_bake", "base"
_CURVES_TAG = "dampsim_curves"
_KEYS_TAG = "dampsim_keys"
# Custom property of actions, bones and generated rigs: which bake made them, where several are on one rig.
_MARK_TAG = "dampsim_mark"
# Range Max of the shape keys of a bake: the first number above the default of Blender, which displays as 1.
_MARKED_RANGE_MAX = 1.0 + 2.0**-23


def shape_name(number: int) -> str:
    """Return the name of the key of a shape in a compressed bake."""
    return f"{PREFIX}Shape {number:03d}"


def frame_name(number: int) -> str:
    """Return the name of the shape key of a frame."""
    return f"{PREFIX}{number:05d}"


def mark_bake_key(key: bpy.types.ShapeKey) -> None:
    """Mark a shape key as made by a bake."""
    keys: Any = key.id_data
    key.slider_max = _MARKED_RANGE_MAX
    keys[_KEYS_TAG] = "\n".join([*recorded_names(keys, _KEYS_TAG), key.name])


def unmark_bake_keys(keys: Any) -> None:
    """Give all shape keys to the user. Bakes of earlier versions are recognised again while their action exists."""
    for key in bake_keys(keys):
        key.slider_max = 1.0 if key.slider_max == _MARKED_RANGE_MAX else key.slider_max
    if _KEYS_TAG in keys:
        del keys[_KEYS_TAG]


def bake_keys(keys: Any) -> list[bpy.types.ShapeKey]:
    """Return the shape keys that a bake made. keys: bpy.types.Key, or None.

    Their names are recorded, and none has the default range of a new key, which the user may have given such a name.
    Keys with other names are the bake's if they have its range and as many recorded names are missing.
    """
    if keys is None:
        return []
    if _KEYS_TAG not in keys:
        return _bake_keys_without_record(keys)
    names = recorded_names(keys, _KEYS_TAG)
    renamed = renamed_bake_keys(keys)
    ranged = [key for key in keys.key_blocks if (key.slider_min, key.slider_max) != (0.0, 1.0) or key in renamed]
    return [key for key in ranged if key.name in names or key in renamed]


def joined_bake_keys(keys: Any) -> list[bpy.types.ShapeKey]:
    """Return the shape keys that came with a baked object that was joined into this one, without its animation.

    They have the name and range of a bake's keys, but belong to no bake of this object. keys: bpy.types.Key, or None.
    """
    if keys is None:
        return []
    ours = bake_keys(keys)
    marked = [key for key in keys.key_blocks if key.slider_max == _MARKED_RANGE_MAX and key not in ours]
    return [key for key in marked if _DAMPSIM_KEY.fullmatch(key.name)]


def renamed_bake_keys(keys: Any) -> dict[bpy.types.ShapeKey, str]:
    """Return the shape keys of a bake that the user has renamed, with recorded names that are free."""
    names = recorded_names(keys, _KEYS_TAG)
    missing = [name for name in names if name not in keys.key_blocks]
    found = [k for k in keys.key_blocks if k.name not in names and k.slider_max == _MARKED_RANGE_MAX]
    # If a key was deleted, a copy of another one cannot be told from it.
    return dict(zip(found, missing, strict=False)) if len(found) <= len(missing) else {}


def restore_key_names(keys: Any) -> None:
    """Give renamed shape keys of a bake their recorded names again, in the F-curves, too."""
    for key, name in renamed_bake_keys(keys).items():
        key.name = name


def is_bake_basis(keys: Any) -> bool:
    """Return whether a bake made the reference key, because the mesh had no shape keys."""
    return keys.reference_key in bake_keys(keys)


def _bake_keys_without_record(keys: bpy.types.Key) -> list[bpy.types.ShapeKey]:
    """Return the shape keys of a bake by a version that did not record them: its tagged action animates them."""
    named = [key for key in keys.key_blocks if _DAMPSIM_KEY.fullmatch(key.name)]
    data = keys.animation_data
    if not named or data is None:
        return []
    strips = [strip for track in data.nla_tracks for strip in track.strips]
    for strip in strips:
        strips += strip.strips
    actions = {owner.action for owner in (data, *strips) if owner.action is not None and is_tagged_action(owner.action)}
    bags = [bag for action in actions for layer in action.layers for strip in layer.strips for bag in strip.channelbags]
    paths = {curve.data_path for bag in bags for curve in bag.fcurves}
    if "eval_time" in paths:
        return named
    return [k for k in named if paths and (k.name == BASIS or f'key_blocks["{k.name}"].value' in paths)]


def recorded_names(block: Any, tag: str) -> list[str]:
    """Return the names in a custom property, which anyone may have changed."""
    recorded = block.get(tag)
    return recorded.split("\n") if isinstance(recorded, str) and recorded else []


def is_bake_file(name: str) -> bool:
    """Return whether a file has the name of a bake's: bake.EXTENSION or bake_NAME.EXTENSION."""
    return _BAKE_FILE_NAME.fullmatch(name) is not None


def bake_modifier(obj: bpy.types.Object) -> Any:
    """Return the modifier that plays the bake of an object; None if there is none.

    It has the recorded name and plays the file of a bake. Versions before the record named it CACHE_MODIFIER.
    """
    recorded = obj.dampsim.cache_modifier
    modifier = obj.modifiers.get(recorded or CACHE_MODIFIER)
    if modifier is None:
        return None
    file = played_file(modifier)
    return modifier if (is_bake_file(file) if recorded else _BAKE_FILE.fullmatch(file)) else None


def live_modifiers(obj: bpy.types.Object) -> list[Any]:
    """Return the modifiers that display a live frame: one, and duplicates of it."""
    return [one for one in obj.modifiers if one.type == "MESH_CACHE" and _LIVE_FILE.fullmatch(one.filepath)]


def live_modifier(obj: bpy.types.Object) -> Any:
    """Return the modifier that displays the live frames of an object; None if there is none."""
    return next(iter(live_modifiers(obj)), None)


def is_maps_modifier(modifier: Any) -> bool:
    """Return whether a modifier makes maps: it reads the shape and changes only attributes."""
    return bool(modifier.type == "NODES" and modifier.node_group is not None and modifier.node_group.get(MAPS_TAG))


def is_rig_modifier(modifier: Any) -> bool:
    """Return whether a modifier follows a generated rig: one that a bake made, because the mesh had none."""
    if is_lost_rig_modifier(modifier):
        return True
    return bool(modifier.type == "ARMATURE" and modifier.object is not None and bake_mark(modifier.object))


def is_lost_rig_modifier(modifier: Any) -> bool:
    """Return whether a modifier followed a generated rig that the user has deleted."""
    is_lost = modifier.type == "ARMATURE" and modifier.object is None
    return bool(is_lost and _RIG_MODIFIER.fullmatch(modifier.name))


def is_output_modifier(modifier: bpy.types.Modifier) -> bool:
    """Return whether a modifier plays a bake or a live frame, makes maps, or follows a generated rig.

    No simulation may feel it.
    """
    if is_maps_modifier(modifier) or is_rig_modifier(modifier):
        return True
    path = played_file(modifier)
    if not path:
        return False
    return bool(_BAKE_FILE.fullmatch(path) or _LIVE_FILE.fullmatch(path)) or modifier == bake_modifier(modifier.id_data)


def played_file(modifier: Any) -> str:
    """Return the path of the file that a modifier plays; '' for other modifiers."""
    if modifier.type == "MESH_SEQUENCE_CACHE":
        return modifier.cache_file.filepath if modifier.cache_file is not None else ""
    return modifier.filepath if modifier.type == "MESH_CACHE" else ""


def is_bake_cache_file(file: bpy.types.CacheFile) -> bool:
    """Return whether a bake made Blender's datablock of a cache file."""
    is_named = file.name.startswith(PREFIX) and _BAKE_FILE.fullmatch(file.filepath) is not None
    return is_named or bool(file.get(_BAKE_TAG))


def tag_bake(block: bpy.types.ID, is_base: bool = False, mark: str = "") -> None:
    """Tag an action or Blender's datablock of a cache file as made by a bake.

    is_base: whether an action holds the bake's keys at zero.  mark: see bake_mark().
    """
    block[_BAKE_TAG] = _BASE if is_base else True
    if mark:
        block[_MARK_TAG] = mark


def bake_mark(block: Any) -> str:
    """Return the mark of the bake that made an action, bone or rig; '' for shape keys, and for the user's own.

    Several objects may bake to bones of the same rig.
    """
    mark = block.get(_MARK_TAG)
    return mark if isinstance(mark, str) else ""


def mark_data(data: bpy.types.Bone | bpy.types.BoneCollection | bpy.types.ID, mark: str) -> None:
    """Mark a bone, bone collection, rig or its armature as made by a bake."""
    data[_MARK_TAG] = mark


def untag_action(action: Any) -> None:
    """Remove the tags of tag_bake() and record_curves()."""
    for tag in (_BAKE_TAG, _CURVES_TAG, _MARK_TAG):
        if tag in action:
            del action[tag]


def is_tagged_action(action: bpy.types.Action) -> bool:
    """Return whether an action was made by a bake."""
    return bool(action.get(_BAKE_TAG))


def plays_bake(strip: Any, mark: str, is_base: bool = False) -> bool:
    """Return whether an NLA strip plays the action of a bake, or that of its base track. mark: see bake_mark()."""
    action = strip.action
    return action is not None and has_bake(action, mark) and (action.get(_BAKE_TAG) == _BASE) == is_base


def has_bake(action: bpy.types.Action, mark: str) -> bool:
    """Return whether the bake with a mark made an action."""
    return is_tagged_action(action) and bake_mark(action) == mark


def record_curves(action: bpy.types.Action, paths: Iterable[str]) -> None:
    """Record the data paths of the F-curves that a bake made in a tagged action."""
    action[_CURVES_TAG] = "\n".join(paths)


def is_dampsim_fcurve(action: Any, path: str) -> bool:
    """Return whether a bake made an F-curve. The user may have added others to the same action since."""
    if not is_tagged_action(action):
        return False
    if _CURVES_TAG in action:
        return path in recorded_names(action, _CURVES_TAG)
    key = _KEY_VALUE_PATH.fullmatch(path)
    return _DAMPSIM_KEY.fullmatch(key[1]) is not None if key else path == "eval_time"


def is_output_path(block: bpy.types.ID, path: str) -> bool:
    """Return whether a data path leads to the modifier of a bake or of Live, which the user may have animated."""
    # The panel calls this on rigs with thousands of F-curves.
    name = modifier_of_path(path)
    if not name or not isinstance(block, bpy.types.Object):
        return False
    modifier = block.modifiers.get(name)
    if modifier is None:
        return name in (block.dampsim.cache_modifier or CACHE_MODIFIER, LIVE_MODIFIER)
    return is_output_modifier(modifier)


def modifier_of_path(path: str) -> str:
    """Return the name of the modifier to which a data path of an object leads; '' for other paths."""
    found = _MODIFIER_PATH.fullmatch(path) if path.startswith("modifiers") else None
    return bpy.utils.unescape_identifier(found[1]) if found else ""
