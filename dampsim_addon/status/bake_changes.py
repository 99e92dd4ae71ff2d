"""Detection of changes to dials, animation and meshes since a bake, or since its frames were simulated.

A record stores objects and bones by name. A stored name that nothing has any more is taken for the previous name of a
newly reported object or bone.

Panels call this at each redraw, so it visits no frames. A timer updates the digests of keyframes, poses and the mesh of
the active object after edits.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import bpy

from ...core import PARAMETERS, Parameter
from ...core.base.errors import MAX_SHOWN, printable_text
from ...core.base.untrusted_files import parse_json
from ...core.base.wording import without_exponents
from ...core.scene.fingerprint import describe_known_changes, known_inputs
from ...core.scene.part import KEYABLE_PART_DIALS
from ..blender.animation import animated_paths, is_playing
from ..blender.dampsim_names import bake_mark
from ..blender.fields import is_gravity_animated
from ..blender.modifiers import topology_modifiers
from ..blender.sampler import frame_rate, gravity
from ..model.cache_status import known_status
from ..model.colliders import collider_settings
from ..model.force_fields import force_field_settings
from ..model.groups import Group, cache_ids, group_of, last_frame
from ..model.objects import refresh_active
from ..model.properties import VERTEX_GROUP_ROLES, effective_value, read_settings
from ..scene_reader.parts import animated_part_dials, assigned_parts
from ..scene_reader.scene_builder import has_group_effect
from ..session import SessionState, Subscriber
from ..targets import Storage, find_target
from ..targets.bake_tracks import bake_strips
from ..targets.influence import animated_owners
from .bake_inputs import (
    COLLIDER_PREFIXES,
    DETAIL_PREFIXES,
    DIAL_KEYS_PREFIX,
    EFFECTORS,
    MUSCLES,
    PARENT_PREFIX,
    POSE_PREFIX,
    influencing_objects,
    input_digests,
    motion_sources,
    weights_input,
    without_fallbacks,
)
from .content_digests import CONTENTS_PREFIX, have_contents_changed
from .digest_run import digest_run
from .setup_digests import SETUP_PREFIXES

_KEYFRAMED, _END = "keyframes", "End"
# End of the name of a part's vertex group.
_PART_GROUP = ": Vertex Group"
# Prefixes of inputs of which other lines report whether they exist, or which records of earlier versions lack.
_REPORTED_ELSEWHERE = (*COLLIDER_PREFIXES, DIAL_KEYS_PREFIX, *SETUP_PREFIXES, CONTENTS_PREFIX, EFFECTORS)
# Force Field Weight is a dial.
_LABELS = {parameter.label for parameter in PARAMETERS.values()}
# Prefix of the settings of one object, and key of the list of these objects.
_LIST_KEYS = (("Collider ", "Colliders of the Scene"), ("Force Field ", "Force Fields of the Scene"))
# Messages list at most this many changes.
_MAX_LISTED = 4


@dataclass(frozen=True)
class _InputRecord:
    """Inputs of a bake or of cached frames. facts: dials and settings in words.  digests: see input_digests()."""

    facts: dict[str, str]
    digests: dict[str, str]


@dataclass
class _Digests(SessionState):
    """Digests of the inputs of bakes and cached frames.

    latest: by session uid of an object, and whether they are compared with the cached frames instead of the bake, its
    latest input digests, and current names by the names at that time.
    simulated: by session uid, the inputs of the cached frames, where they differ from those of the bake.
    has_new_edit: whether there was an edit since the digests were computed.  has_kept_details: whether some were kept
    because a mesh was in Edit Mode.
    """

    latest: dict[tuple[int, bool], tuple[dict[str, str], dict[str, str]]] = field(default_factory=dict)
    simulated: dict[int, _InputRecord] = field(default_factory=dict)
    has_new_edit: bool = True
    has_kept_details: bool = False


def record_bake_inputs(obj: bpy.types.Object, scene: bpy.types.Scene, last: int) -> None:
    """Store the current dials, settings and digests as the inputs of the object's bake and of its cached frames.

    last: last frame of the bake.
    """
    now, state = _current_inputs(obj, scene), _Digests.current()
    now.facts[_END] = str(last)
    obj.dampsim.baked_of, obj.dampsim.baked_from = json.dumps(now.facts), json.dumps(now.digests)
    state.latest[obj.session_uid, False] = now.digests, {}
    state.simulated.pop(obj.session_uid, None)


def record_simulation_inputs(objects: Iterable[bpy.types.Object], scene: bpy.types.Scene) -> None:
    """Remember the current dials, settings and digests as the inputs of the objects' cached frames."""
    state = _Digests.current()
    for obj in objects:
        state.simulated[obj.session_uid] = now = _current_inputs(obj, scene)
        state.latest[obj.session_uid, True] = now.digests, {}


def _current_inputs(obj: bpy.types.Object, scene: bpy.types.Scene) -> _InputRecord:
    digests = input_digests(obj, scene)
    if _is_mesh_edited():
        # Missing entries are no change.
        digests = {name: digest for name, digest in digests.items() if not name.startswith(DETAIL_PREFIXES)}
    return _InputRecord({**_dial_values(obj), **_shot_settings(obj, scene)}, digests)


def _is_mesh_edited() -> bool:
    """Return whether a mesh is in Edit Mode, in which its attributes and texture coordinates are empty."""
    return any(mesh.is_editmode for mesh in bpy.data.meshes)


def _recorded_inputs(obj: bpy.types.Object, of_simulation: bool) -> tuple[_InputRecord, bool]:
    """Return the recorded inputs of the cached frames or of the bake, and whether they are of the frames alone."""
    known = _Digests.current().simulated.get(obj.session_uid) if of_simulation else None
    if known is not None:
        return known, True
    # Bakes of older versions stored nothing.
    group = obj.dampsim
    return _InputRecord(_text_table(group.baked_of), _text_table(group.baked_from)), False


def _text_table(text: str) -> dict[str, str]:
    """Return the texts by name that a file stored as JSON; none for a text that something else has changed."""
    try:
        found = parse_json(text or "{}")
    except ValueError:
        return {}
    is_valid = isinstance(found, dict) and all(isinstance(one, str) for one in found.values())
    return found if is_valid else {}


def _finite_number(text: str, fallback: float) -> float:
    try:
        number = float(text)
    except ValueError:
        return fallback
    return number if math.isfinite(number) else fallback


def baked_number(obj: bpy.types.Object, label: str) -> float:
    """Return the value that a dial had in the bake of an object; 0 if it is unknown or was keyframed."""
    return _finite_number(_recorded_inputs(obj, of_simulation=False)[0].facts.get(label, "0"), 0.0)


def changes_since_bake(obj: bpy.types.Object, scene: bpy.types.Scene) -> list[str]:
    """Return the changes since the bake, in words.

    They cover the dials of the whole group, the settings of the shot, and the latest digests of motion and meshes.
    """
    return _changes(obj, scene, of_simulation=False)


def changes_since_simulation(obj: bpy.types.Object, scene: bpy.types.Scene) -> list[str]:
    """Return the changes since the cached frames were simulated, in words, as far as they are known without a bake."""
    return _changes_since_header(obj, scene) or _changes(obj, scene, of_simulation=True)


def _changes_since_header(obj: bpy.types.Object, scene: bpy.types.Scene) -> list[str]:
    """Return the dials and settings that differ from those in the header of the cache. Keyframed dials are left out."""
    stored = known_status(obj).inputs
    return [] if stored is None else setting_changes(group_of(obj), scene, stored)


def setting_changes(group: Group, scene: bpy.types.Scene, stored: Mapping[str, Any]) -> list[str]:
    """Return the dials and settings of a group that differ from inputs of cached frames, without keyframed dials."""
    bodies = {
        mark: (member.name, member.dampsim.kind, _unkeyed_dials(member))
        for member, mark in zip(group.members, cache_ids(group).values(), strict=True)
    }
    return describe_known_changes(stored, known_inputs(frame_rate(scene), scene.frame_start, bodies))


def changed_dials(obj: bpy.types.Object) -> dict[str, Any]:
    """Return the values that changed dials of an object have in its cached frames, without keyframed dials."""
    stored, mark = known_status(obj).inputs or {}, cache_ids(group_of(obj))[obj.name]
    before = stored.get("bodies", {}).get(mark, {})
    return {
        name: before[PARAMETERS[name].label]
        for name, value in _unkeyed_dials(obj).items()
        if before.get(PARAMETERS[name].label, value) != value
    }


def _unkeyed_dials(obj: bpy.types.Object) -> dict[str, Any]:
    keyed = animated_paths(obj)
    return {name: value for name, value in read_settings(obj).as_dict().items() if f"dampsim.{name}" not in keyed}


def _changes(obj: bpy.types.Object, scene: bpy.types.Scene, of_simulation: bool) -> list[str]:
    members = group_of(obj).members
    found, changed_inputs = [], []
    for member in members:
        prefix = f"{member.name}: " if len(members) > 1 else ""
        recorded, is_simulation = _recorded_inputs(member, of_simulation)
        # A re-baked range has other dials than the cached frames around it. Both are up to date.
        has_dials_of_frames = not of_simulation and known_status(member).ranges and not changed_dials(member)
        if not has_dials_of_frames:
            found += [prefix + what for what in _differences(recorded.facts, _dial_values(member))]
        latest = _Digests.current().latest.get((member.session_uid, is_simulation))
        if recorded.digests and latest is not None:
            now, names = latest
            before = _rename_colliders(recorded.digests, now)
            differing = [name for name in {**before, **now} if _is_different(before.get(name), now.get(name), name)]
            changed_inputs += [_with_current_name(name, names) for name in without_fallbacks(differing)]
    # Report inputs that members share only once.
    changed_inputs = list(dict.fromkeys(changed_inputs))
    if len(changed_inputs) > _MAX_LISTED:
        changed_inputs = [*changed_inputs[: _MAX_LISTED - 1], f"{len(changed_inputs) - _MAX_LISTED + 1} more"]
    before, now = _recorded_inputs(obj, of_simulation)[0].facts, _shot_settings(obj, scene)
    if not obj.dampsim.loop:
        now = _without_covered_range(before, now, of_simulation)
    elif not of_simulation and _is_repeated_until(obj, int(now[_END])):
        now.pop(_END)
    return found + changed_inputs + _differences(before, now)


def _is_repeated_until(obj: bpy.types.Object, frame: int) -> bool:
    """Return whether repeated strips play the bake of a loop up to a frame."""
    strips = [one for owner, mark in animated_owners(obj) for one in bake_strips(owner.animation_data, mark)]
    return any(one.repeat > 1.0 and one.frame_end >= frame for one in strips)


def _without_covered_range(before: dict[str, str], now: dict[str, str], of_simulation: bool) -> dict[str, str]:
    """Return the current settings without the ends of a frame range that lies within the recorded one."""
    is_covered = {
        "Frame Start": int(now["Frame Start"]) >= _finite_number(before.get("Frame Start", ""), -math.inf),
        # Cached frames can be continued.
        _END: of_simulation or int(now[_END]) <= _finite_number(before.get(_END, ""), math.inf),
    }
    return {name: value for name, value in now.items() if not is_covered.get(name, False)}


def _is_different(previous: str | None, current: str | None, name: str) -> bool:
    # Added or removed colliders are reported by the list of all colliders, and keyframes by the value of their dial.
    is_missing, prefixes = previous is None or current is None, _REPORTED_ELSEWHERE
    return previous != current and not (is_missing and name.startswith(prefixes))


@digest_run()
def refresh_digests(obj: bpy.types.Object) -> None:
    """Update the input digests of an object's group, which takes milliseconds for a rig.

    While a mesh is in Edit Mode, those of details are kept.
    """
    state, is_edited = _Digests.current(), _is_mesh_edited()
    latest, state.has_kept_details = state.latest, is_edited
    for member in group_of(obj).members:
        for of_simulation in (False, True):
            recorded, is_simulation = _recorded_inputs(member, of_simulation)
            if recorded.digests and is_simulation == of_simulation and (of_simulation or member.dampsim.baked):
                before = latest.get((member.session_uid, of_simulation), (recorded.digests, {}))[0]
                now, names = _latest_digests(member, recorded)
                if is_edited:
                    now |= {name: digest for name, digest in before.items() if name.startswith(DETAIL_PREFIXES)}
                latest[member.session_uid, of_simulation] = now, names


def _latest_digests(
    obj: bpy.types.Object, record: _InputRecord, muscle_names: Mapping[str, str] | None = None
) -> tuple[dict[str, str], dict[str, str]]:
    """Return the digests with the names of objects and bones at the time of a record, and current names by these."""
    previous, bones = _previous_names(obj, record.digests), _previous_bone_names(obj, record.digests)
    names = {earlier: str(one.name) for one, earlier in previous.items()}
    names |= {earlier: name for name, earlier in bones.items()}
    return input_digests(obj, bpy.context.scene, previous, bones, muscle_names), names


def rename_recorded_inputs(obj: bpy.types.Object, renamed: Mapping[str, str], are_groups: bool) -> None:
    """Give the recorded inputs of an object the new names of vertex groups or edge attributes.

    renamed: new names by old name. The settings of the object already have the new names.
    """
    group, simulated = obj.dampsim, _Digests.current().simulated
    baked, is_baked = _recorded_inputs(obj, of_simulation=False)[0], bool(group.baked_of)
    records = [one for one in (baked if is_baked else None, simulated.get(obj.session_uid)) if one is not None]
    for record in records:
        if are_groups:
            labels = [_role_label(obj, role) for role in VERTEX_GROUP_ROLES]
            for label, value in record.facts.items():
                if label in labels or label.endswith(_PART_GROUP):
                    record.facts[label] = renamed.get(value, value)
            moved = {weights_input(old): weights_input(new) for old, new in renamed.items()}
            digests = {moved.get(name, name): digest for name, digest in record.digests.items()}
            record.digests.clear()
            record.digests.update(digests)
        if MUSCLES in record.digests:
            earlier = {new: old for old, new in renamed.items()}
            now, before = (_latest_digests(obj, record, names)[0] for names in ({}, earlier))
            # Otherwise the muscles had changed before the rename.
            if before.get(MUSCLES) == record.digests[MUSCLES]:
                record.digests[MUSCLES] = now.get(MUSCLES, "")
    if is_baked:
        group.baked_of, group.baked_from = json.dumps(baked.facts), json.dumps(baked.digests)
    if records:
        refresh_digests(obj)


def _differences(recorded: dict[str, str], facts: dict[str, str]) -> list[str]:
    before = _rename_shared_settings(recorded, facts)
    return [
        f"{what} {_format_missing(before[what])}, now {_format_missing(now)}"
        for what, now in facts.items()
        if what in before and before[what] != now
    ]


def _dial_values(obj: bpy.types.Object) -> dict[str, str]:
    """Return the dials in words, by label. Dials that have no effect with the others are left out."""
    group, keyed = obj.dampsim, animated_paths(obj)
    found = {
        one.label: _KEYFRAMED if f"dampsim.{name}" in keyed else _format_value(one, effective_value(group, name))
        for name, one in PARAMETERS.items()
        if one.has_effect(lambda choice: effective_value(group, choice))
    }
    found |= {
        _role_label(obj, role): getattr(group, role) for role in VERTEX_GROUP_ROLES if has_group_effect(obj, role)
    }
    found["Parts"] = ", ".join(part.name for part in assigned_parts(obj))
    keyed_dials = animated_part_dials(obj)
    for part in assigned_parts(obj):
        found[f"part {part.name}{_PART_GROUP}"] = part.vertex_group
        for name in KEYABLE_PART_DIALS:
            is_off = name == "sag" and not part.own_sag
            text = "off" if is_off else _format_value(PARAMETERS[name], getattr(part, name))
            is_keyed = (part.name, name) in keyed_dials
            found[f"part {part.name}: {PARAMETERS[name].label}"] = _KEYFRAMED if is_keyed else text
    found["Unpinned Pieces"] = group.unpinned_pieces.capitalize()
    found["Sew Loose Edges"] = "on" if group.sew_loose_edges else "off"
    made_by = find_target(group.baked)
    if made_by is not None and made_by.storage is Storage.FILE:
        # A cache file stores the vertices after these modifiers.
        found["Modifiers"] = ", ".join(_format_modifier(modifier) for modifier in topology_modifiers(obj))
    return found


def _role_label(obj: bpy.types.Object, role: str) -> str:
    """Return the label of a chosen vertex group. The panel has another one for the pins."""
    return "Pins" if role == "pin_group" else str(obj.dampsim.bl_rna.properties[role].name)


def _format_modifier(modifier: bpy.types.Modifier) -> str:
    levels = modifier.levels if modifier.type in ("SUBSURF", "MULTIRES") else None
    return str(modifier.name) if levels is None else f"{modifier.name} ({levels})"


def _shot_settings(obj: bpy.types.Object, scene: bpy.types.Scene) -> dict[str, str]:
    return {
        "Gravity": _KEYFRAMED if is_gravity_animated(scene) else ", ".join(f"{part:.4g}" for part in gravity(scene)),
        "Frame Rate": f"{frame_rate(scene):.6g}",
        "Time Stretching": f"{scene.render.frame_map_old}:{scene.render.frame_map_new}",
        "Frame Start": str(scene.frame_start),
        _END: str(last_frame(group_of(obj), scene)),
        **force_field_settings(obj, scene),
        **collider_settings(obj, scene),
    }


def _format_value(parameter: Parameter, value: object) -> str:
    if isinstance(value, bool):
        return "on" if value else "off"
    if isinstance(value, float):
        return f"{value:.6g}"
    return next((choice.label for choice in parameter.choices if choice.name == value), str(value))


def _format_missing(value: str) -> str:
    return printable_text(without_exponents(value), 2 * MAX_SHOWN) or "none"


def _previous_names(obj: bpy.types.Object, bake_inputs: Iterable[str]) -> dict[bpy.types.Object, str]:
    """Return the names at the time of a bake of influencing objects that were renamed since.

    bake_inputs: input digests of the bake. They list the object itself first, and have a parent entry for each object.
    """
    stored = [part.removeprefix(PARENT_PREFIX) for part in bake_inputs if part.startswith(PARENT_PREFIX)]
    if not stored:
        return {}
    _, *others = influencing_objects(obj)
    # A copy may have a copied rig, beside which the original one stays.
    is_copy = obj.name != stored[0] and bpy.data.objects.get(stored[0]) is not None
    used = {str(other.name) for other in others}
    missing = [name for name in stored[1:] if name not in used and (is_copy or bpy.data.objects.get(name) is None)]
    new = [other for other in others if other.name not in stored]
    # The previous name of a copy belongs to another object.
    found = {obj: stored[0]}
    if len(missing) == len(new):
        # Both lists are in the order of dependency, independently of names.
        found |= dict(zip(new, missing, strict=True))
    return {one: name for one, name in found.items() if name != one.name}


def _previous_bone_names(obj: bpy.types.Object, bake_inputs: Iterable[str]) -> dict[str, str]:
    """Return the names at the time of a bake of the bones that were renamed since, by their current names.

    bake_inputs: input digests of the bake, which list the poses of all bones that move the object in their order.
    """
    stored = [part.removeprefix(POSE_PREFIX) for part in bake_inputs if part.startswith(POSE_PREFIX)]
    poses = [source.pose for source in motion_sources(obj) if source.pose is not None] if stored else []
    current = list(dict.fromkeys(str(one.name) for pose in poses for one in pose.bones if not bake_mark(one.bone)))
    if len(stored) != len(current):
        return {}
    pairs = zip(current, stored, strict=True)
    return {name: earlier for name, earlier in pairs if name not in stored and earlier not in current}


def _with_current_name(part: str, names: Mapping[str, str]) -> str:
    """Replace the name in an input by the current one. names: current names, by previous ones."""
    for earlier, name in names.items():
        if part.endswith(f" of {earlier}"):
            return f"{part.removesuffix(earlier)}{name}"
    return part


def _rename_colliders(bake_inputs: Mapping[str, str], current: Mapping[str, str]) -> dict[str, str]:
    """Return the input digests of a bake with the current names of its colliders."""
    # Records of earlier versions have only the motion and the shape.
    pairs = _match_names(bake_inputs, current, COLLIDER_PREFIXES[:2])
    found = {}
    for part, digest in bake_inputs.items():
        prefix = next((one for one in COLLIDER_PREFIXES if part.startswith(one)), "")
        name = part.removeprefix(prefix)
        found[f"{prefix}{pairs.get(name, name)}" if prefix else part] = digest
    return found


def _rename_shared_settings(bake_settings: Mapping[str, str], current: Mapping[str, str]) -> dict[str, str]:
    """Return the settings stored with a bake, with the current names of colliders and force fields."""
    found = dict(bake_settings)
    for prefix, list_key in _LIST_KEYS:
        pairs = _match_names(bake_settings, current, (prefix,))
        if not pairs:
            continue
        names = _names_after_prefix(bake_settings, prefix)
        for name in names:
            found.pop(f"{prefix}{name}")
        found |= {f"{prefix}{pairs.get(name, name)}": bake_settings[f"{prefix}{name}"] for name in names}
        if {pairs.get(name, name) for name in names} == set(_names_after_prefix(current, prefix)):
            found[list_key] = current[list_key]
    return found


def _names_after_prefix(parts: Iterable[str], prefix: str) -> list[str]:
    return [part.removeprefix(prefix) for part in parts if part.startswith(prefix) and part not in _LABELS]


def _match_names(bake_values: Mapping[str, str], current: Mapping[str, str], prefixes: Sequence[str]) -> dict[str, str]:
    """Return current names by previous ones: first those with equal digests, then the rest in order."""
    current_names = _names_after_prefix(current, prefixes[0])
    missing = [
        name
        for name in _names_after_prefix(bake_values, prefixes[0])
        if name not in current_names and bpy.data.objects.get(name) is None
    ]
    new = [name for name in current_names if f"{prefixes[0]}{name}" not in bake_values]
    found = {}
    for name in [*missing]:
        equal = [one for one in new if all(bake_values.get(f"{h}{name}") == current.get(f"{h}{one}") for h in prefixes)]
        if equal:
            found[name] = equal[0]
            missing.remove(name)
            new.remove(equal[0])
    return found | dict(zip(missing, new, strict=False))


def _on_edit(*_: object) -> None:
    _Digests.current().has_new_edit = True


def _refresh_if_edited(obj: bpy.types.Object) -> bool:
    digests = _Digests.current()
    has_left_edit_mode = digests.has_kept_details and not _is_mesh_edited()
    if is_playing() or not (digests.has_new_edit or has_left_edit_mode or have_contents_changed()):
        return False
    digests.has_new_edit, before = False, dict(digests.latest)
    refresh_digests(obj)
    return digests.latest != before


SUBSCRIBER = Subscriber(
    "bake_changes",
    dict.fromkeys(("depsgraph_update_post", "undo_post", "redo_post"), _on_edit),
    partial(refresh_active, _refresh_if_edited),
    0.5,
)
