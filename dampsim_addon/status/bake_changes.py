"""Detection of changes to dials, animation and meshes since a bake.

Panels call this at each redraw, so it visits no frames. A timer updates the digests of keyframes, poses and the mesh of
the active object after edits.
"""

from __future__ import annotations

import json

import bpy
from bpy.app.handlers import persistent

from ...core import PARAMETERS, Parameter
from ..blender.animation import animated_paths
from ..blender.fields import is_gravity_animated
from ..blender.handlers import add_handlers, remove_handlers
from ..blender.modifiers import topology_modifiers
from ..blender.sampler import frame_rate, gravity
from ..blender.viewports import redraw_viewports
from ..model.colliders import collider_settings
from ..model.force_fields import force_field_settings
from ..model.groups import group_of
from ..model.objects import is_job_running, is_simulated
from ..scene_reader.scene_builder import VERTEX_GROUP_ROLES
from ..targets import Storage, find_target
from .bake_inputs import COLLIDER_MOTION_PREFIX, COLLIDER_SHAPE_PREFIX, input_digests
from .renames import previous_names, rename_colliders, rename_shared_settings, with_current_name

_KEYFRAMED = "keyframes"
# Messages list at most this many changes.
_MAX_LISTED = 4
# Interval of the timer, s.
_TIMER_INTERVAL = 0.5


# By session uid of an object: its latest input digests, and current names by the names at the time of the bake. And
# whether there was an edit since they were computed.
_latest_digests: dict[int, tuple[dict[str, str], dict[str, str]]] = {}
_has_new_edit = True


def record_bake_inputs(obj: bpy.types.Object, scene: bpy.types.Scene) -> None:
    """Store the current dials, settings and digests as the inputs of the object's bake."""
    obj.dampsim.baked_of = json.dumps({**_dial_values(obj), **_shot_settings(obj, scene)})
    now = input_digests(obj, scene)
    _latest_digests[obj.session_uid] = now, {}
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
        before, latest = json.loads(member.dampsim.baked_from or "{}"), _latest_digests.get(member.session_uid)
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
            _latest_digests[member.session_uid] = input_digests(member, bpy.context.scene, previous), names


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
    return value or "none"


@persistent
def _on_edit(*_: object) -> None:
    global _has_new_edit
    _has_new_edit = True


@persistent
def _on_load(*_: object) -> None:
    global _has_new_edit
    _has_new_edit = True
    _latest_digests.clear()


def _on_timer() -> float:
    global _has_new_edit
    obj = bpy.context.view_layer.objects.active if bpy.context.view_layer else None
    is_playing = any(window.screen.is_animation_playing for window in bpy.context.window_manager.windows)
    if _has_new_edit and obj is not None and is_simulated(obj) and not is_playing and not is_job_running(bpy.context):
        _has_new_edit, before = False, _latest_digests.get(obj.session_uid)
        refresh_digests(obj)
        if _latest_digests.get(obj.session_uid) != before:
            redraw_viewports()
    return _TIMER_INTERVAL


_HANDLERS = {
    "depsgraph_update_post": _on_edit,
    "undo_post": _on_edit,
    "redo_post": _on_edit,
    "load_pre": _on_load,
}


def register() -> None:
    add_handlers(_HANDLERS)
    if not bpy.app.background:
        bpy.app.timers.register(_on_timer, first_interval=_TIMER_INTERVAL, persistent=True)


def unregister() -> None:
    if bpy.app.timers.is_registered(_on_timer):
        bpy.app.timers.unregister(_on_timer)
    remove_handlers(_HANDLERS)
    _latest_digests.clear()
