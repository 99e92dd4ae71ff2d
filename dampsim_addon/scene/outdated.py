"""Detection of changes to dials, animation and meshes since a bake.

Panels call this at each redraw, so it visits no frames. A timer updates the digests of keyframes, poses and the mesh of
the active object after edits.
"""

from __future__ import annotations

import json

import bpy
from bpy.app.handlers import persistent

from ...core.scene.parameters import PARAMETERS, Parameter
from ..blender.animation import animated_paths
from ..blender.fields import gravity_moves
from ..blender.handlers import unwatch, watch
from ..blender.modifiers import makers
from ..blender.sampler import frame_rate, gravity
from ..blender.views import redraw
from ..targets import Storage, find
from .colliders import settings_of_colliders
from .entering import MOVES, SHAPE, entering
from .force_fields import settings_of_fields
from .groups import group_of
from .objects import is_simulated, working
from .renamed import earlier_names, of_colliders, of_shared, told_now
from .snapshot import GROUPS

_KEYED = "keyframes"
# Messages list at most this many changes.
_NAMED = 4
# Interval of the timer, s.
_PAUSE = 0.5


# By session uid of an object: its latest input digests, and current names by the names at the time of the bake. And
# whether there was an edit since they were computed.
_seen: dict[int, tuple[dict[str, str], dict[str, str]]] = {}
_edited = True


def remember(obj: bpy.types.Object, scene: bpy.types.Scene) -> None:
    """Store the current dials, settings and digests as the inputs of the object's bake."""
    obj.dampsim.baked_of = json.dumps({**_dials(obj), **_shared(obj, scene)})
    now = entering(obj, scene)
    _seen[obj.session_uid] = now, {}
    obj.dampsim.baked_from = json.dumps(now)


def changed(obj: bpy.types.Object, scene: bpy.types.Scene) -> list[str]:
    """Return the changes since the bake, in words.

    They cover the dials of the whole group, the settings of the shot, and the latest digests of motion and meshes.
    """
    members = group_of(obj).members
    found, moved = [], []
    for member in members:
        whose = f"{member.name}: " if len(members) > 1 else ""
        found += [whose + what for what in _differences(member, _dials(member))]
        before, seen = json.loads(member.dampsim.baked_from or "{}"), _seen.get(member.session_uid)
        if before and seen is not None:
            now, names = seen
            before = of_colliders(before, now)
            differing = [name for name in {**before, **now} if _otherwise(before.get(name), now.get(name), name)]
            moved += [told_now(name, names) for name in differing]
    # Report inputs that members share only once.
    moved = list(dict.fromkeys(moved))
    if len(moved) > _NAMED:
        moved = [*moved[: _NAMED - 1], f"{len(moved) - _NAMED + 1} more"]
    return found + moved + _differences(obj, _shared(obj, scene))


def _otherwise(before: str | None, now: str | None, name: str) -> bool:
    # Added or removed colliders are reported by the list of all colliders.
    lacks = before is None or now is None
    return before != now and not (lacks and name.startswith((MOVES, SHAPE)))


def look(obj: bpy.types.Object) -> None:
    """Update the input digests of an object's group, which takes milliseconds for a rig."""
    for member in group_of(obj).members:
        if member.dampsim.baked and member.dampsim.baked_from:
            known_as = earlier_names(member, json.loads(member.dampsim.baked_from))
            names = {earlier: str(one.name) for one, earlier in known_as.items()}
            _seen[member.session_uid] = entering(member, bpy.context.scene, known_as), names


def _differences(obj: bpy.types.Object, facts: dict[str, str]) -> list[str]:
    # Bakes of older versions stored nothing.
    before = of_shared(json.loads(obj.dampsim.baked_of or "{}"), facts)
    return [
        f"{what} {_said(before[what])}, now {_said(now)}"
        for what, now in facts.items()
        if what in before and before[what] != now
    ]


def _dials(obj: bpy.types.Object) -> dict[str, str]:
    """Return the dials in words, by label. Dials that have no effect with the others are left out."""
    group, keyed = obj.dampsim, animated_paths(obj)
    found = {
        parameter.label: _KEYED if f"dampsim.{name}" in keyed else _shown(parameter, getattr(group, name))
        for name, parameter in PARAMETERS.items()
        if parameter.has_meaning(lambda choice: getattr(group, choice))
    }
    for role in GROUPS:
        # The panel has another label for this group.
        label = "Pins" if role == "pin_group" else group.bl_rna.properties[role].name
        found[label] = getattr(group, role)
    made_by = find(group.baked)
    if made_by is not None and made_by.storage is Storage.FILE:
        # A cache file stores the vertices after these modifiers.
        found["Modifiers"] = ", ".join(_made(modifier) for modifier in makers(obj))
    return found


def _made(modifier: bpy.types.Modifier) -> str:
    levels = modifier.levels if modifier.type in ("SUBSURF", "MULTIRES") else None
    return str(modifier.name) if levels is None else f"{modifier.name} ({levels})"


def _shared(obj: bpy.types.Object, scene: bpy.types.Scene) -> dict[str, str]:
    return {
        "Gravity": _KEYED if gravity_moves(scene) else ", ".join(f"{part:.4g}" for part in gravity(scene)),
        "Frame Rate": f"{frame_rate(scene):.6g}",
        "Frame Start": str(scene.frame_start),
        "End": str(scene.frame_end),
        **settings_of_fields(obj, scene),
        **settings_of_colliders(obj, scene),
    }


def _shown(parameter: Parameter, value: object) -> str:
    if isinstance(value, bool):
        return "on" if value else "off"
    if isinstance(value, float):
        return f"{value:.6g}"
    return next((choice.label for choice in parameter.choices if choice.name == value), str(value))


def _said(value: str) -> str:
    return value or "none"


@persistent
def _after_edit(*_: object) -> None:
    global _edited
    _edited = True


@persistent
def _forget(*_: object) -> None:
    global _edited
    _edited = True
    _seen.clear()


def _again() -> float:
    global _edited
    obj = bpy.context.view_layer.objects.active if bpy.context.view_layer else None
    playing = any(window.screen.is_animation_playing for window in bpy.context.window_manager.windows)
    if _edited and obj is not None and is_simulated(obj) and not playing and not working(bpy.context):
        _edited, before = False, _seen.get(obj.session_uid)
        look(obj)
        if _seen.get(obj.session_uid) != before:
            redraw()
    return _PAUSE


_HANDLERS = {
    "depsgraph_update_post": _after_edit,
    "undo_post": _after_edit,
    "redo_post": _after_edit,
    "load_pre": _forget,
}


def register() -> None:
    watch(_HANDLERS)
    if not bpy.app.background:
        bpy.app.timers.register(_again, first_interval=_PAUSE, persistent=True)


def unregister() -> None:
    if bpy.app.timers.is_registered(_again):
        bpy.app.timers.unregister(_again)
    unwatch(_HANDLERS)
    _seen.clear()
