"""Detection of changes to dials, animation and meshes since a bake.

Panels call this at each redraw, so it visits no frames. A timer updates the digests of keyframes, poses and the mesh of
the active object after edits.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from functools import partial

import bpy

from ...core import PARAMETERS, Parameter
from ...core.base.wording import without_exponents
from ..blender.animation import animated_paths
from ..blender.fields import is_gravity_animated
from ..blender.modifiers import topology_modifiers
from ..blender.sampler import frame_rate, gravity
from ..model.colliders import collider_settings
from ..model.force_fields import force_field_settings
from ..model.groups import group_of
from ..model.objects import refresh_active
from ..scene_reader.scene_builder import VERTEX_GROUP_ROLES
from ..session import SessionState, Subscriber
from ..targets import Storage, find_target
from .bake_inputs import COLLIDER_MOTION_PREFIX, COLLIDER_SHAPE_PREFIX, input_digests
from .renames import previous_names, rename_colliders, rename_shared_settings, with_current_name

_KEYFRAMED = "keyframes"
# Messages list at most this many changes.
_MAX_LISTED = 4


@dataclass
class _Digests(SessionState):
    """Digests of the inputs of bakes.

    latest: by session uid of an object, its latest input digests, and current names by the names at the time of the
    bake.  has_new_edit: whether there was an edit since they were computed.
    """

    latest: dict[int, tuple[dict[str, str], dict[str, str]]] = field(default_factory=dict)
    has_new_edit: bool = True


def record_bake_inputs(obj: bpy.types.Object, scene: bpy.types.Scene) -> None:
    """Store the current dials, settings and digests as the inputs of the object's bake."""
    obj.dampsim.baked_of = json.dumps({**_dial_values(obj), **_shot_settings(obj, scene)})
    now = input_digests(obj, scene)
    _Digests.current().latest[obj.session_uid] = now, {}
    obj.dampsim.baked_from = json.dumps(now)


def changes_since_bake(obj: bpy.types.Object, scene: bpy.types.Scene) -> list[str]:
    """Return the changes since the bake, in words.

    They cover the dials of the whole group, the settings of the shot, and the latest digests of motion and meshes.
    """
    members = group_of(obj).members
    found, changed_inputs = [], []
    for member in members:
        prefix = f"{member.name}: " if len(members) > 1 else ""
        found += [prefix + what for what in _differences(member, _dial_values(member))]
        before = json.loads(member.dampsim.baked_from or "{}")
        latest = _Digests.current().latest.get(member.session_uid)
        if before and latest is not None:
            now, names = latest
            before = rename_colliders(before, now)
            differing = [name for name in {**before, **now} if _is_different(before.get(name), now.get(name), name)]
            changed_inputs += [with_current_name(name, names) for name in differing]
    # Report inputs that members share only once.
    changed_inputs = list(dict.fromkeys(changed_inputs))
    if len(changed_inputs) > _MAX_LISTED:
        changed_inputs = [*changed_inputs[: _MAX_LISTED - 1], f"{len(changed_inputs) - _MAX_LISTED + 1} more"]
    return found + changed_inputs + _differences(obj, _shot_settings(obj, scene))


def _is_different(previous: str | None, current: str | None, name: str) -> bool:
    # Added or removed colliders are reported by the list of all colliders.
    is_missing = previous is None or current is None
    return previous != current and not (is_missing and name.startswith((COLLIDER_MOTION_PREFIX, COLLIDER_SHAPE_PREFIX)))


def refresh_digests(obj: bpy.types.Object) -> None:
    """Update the input digests of an object's group, which takes milliseconds for a rig."""
    for member in group_of(obj).members:
        if member.dampsim.baked and member.dampsim.baked_from:
            previous = previous_names(member, json.loads(member.dampsim.baked_from))
            names = {earlier: str(one.name) for one, earlier in previous.items()}
            _Digests.current().latest[member.session_uid] = input_digests(member, bpy.context.scene, previous), names


def _differences(obj: bpy.types.Object, facts: dict[str, str]) -> list[str]:
    # Bakes of older versions stored nothing.
    before = rename_shared_settings(json.loads(obj.dampsim.baked_of or "{}"), facts)
    return [
        f"{what} {_format_missing(before[what])}, now {_format_missing(now)}"
        for what, now in facts.items()
        if what in before and before[what] != now
    ]


def _dial_values(obj: bpy.types.Object) -> dict[str, str]:
    """Return the dials in words, by label. Dials that have no effect with the others are left out."""
    group, keyed = obj.dampsim, animated_paths(obj)
    found = {
        parameter.label: _KEYFRAMED if f"dampsim.{name}" in keyed else _format_value(parameter, getattr(group, name))
        for name, parameter in PARAMETERS.items()
        if parameter.has_effect(lambda choice: getattr(group, choice))
    }
    for role in VERTEX_GROUP_ROLES:
        # The panel has another label for this group.
        label = "Pins" if role == "pin_group" else group.bl_rna.properties[role].name
        found[label] = getattr(group, role)
    found["Unpinned Pieces"] = group.unpinned_pieces.capitalize()
    found["Sew Loose Edges"] = "on" if group.sew_loose_edges else "off"
    made_by = find_target(group.baked)
    if made_by is not None and made_by.storage is Storage.FILE:
        # A cache file stores the vertices after these modifiers.
        found["Modifiers"] = ", ".join(_format_modifier(modifier) for modifier in topology_modifiers(obj))
    return found


def _format_modifier(modifier: bpy.types.Modifier) -> str:
    levels = modifier.levels if modifier.type in ("SUBSURF", "MULTIRES") else None
    return str(modifier.name) if levels is None else f"{modifier.name} ({levels})"


def _shot_settings(obj: bpy.types.Object, scene: bpy.types.Scene) -> dict[str, str]:
    return {
        "Gravity": _KEYFRAMED if is_gravity_animated(scene) else ", ".join(f"{part:.4g}" for part in gravity(scene)),
        "Frame Rate": f"{frame_rate(scene):.6g}",
        "Frame Start": str(scene.frame_start),
        "End": str(scene.frame_end),
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
    return without_exponents(value) or "none"


def _on_edit(*_: object) -> None:
    _Digests.current().has_new_edit = True


def _refresh_if_edited(obj: bpy.types.Object) -> bool:
    digests = _Digests.current()
    is_playing = any(window.screen.is_animation_playing for window in bpy.context.window_manager.windows)
    if not digests.has_new_edit or is_playing:
        return False
    digests.has_new_edit, before = False, digests.latest.get(obj.session_uid)
    refresh_digests(obj)
    return digests.latest.get(obj.session_uid) != before


SUBSCRIBER = Subscriber(
    "bake_changes",
    dict.fromkeys(("depsgraph_update_post", "undo_post", "redo_post"), _on_edit),
    partial(refresh_active, _refresh_if_edited),
    0.5,
)
