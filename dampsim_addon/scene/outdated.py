"""Whether a bake is still of what is dialled. Looked up at every drawing of a panel, so no frame is visited for it:
edited poses and keyframes of others are not seen.
"""

from __future__ import annotations

import json

import bpy

from ...core.scene.parameters import PARAMETERS, Parameter
from ..blender.animation import animated_paths
from ..blender.modifiers import makers
from ..blender.sampler import frame_rate, gravity
from ..targets import Storage, find
from .groups import group_of
from .snapshot import GROUPS

_KEYED = "keyframes"


def remember(obj: bpy.types.Object, scene: bpy.types.Scene) -> None:
    """The bake that was made is of what is dialled now."""
    obj.dampsim.baked_of = json.dumps({**_dials(obj), **_shot(scene)})


def changed(obj: bpy.types.Object, scene: bpy.types.Scene) -> list[str]:
    """What is otherwise than it was for the bake, in words: dials of all simulated with it, and the shot."""
    members = group_of(obj).members
    found = []
    for member in members:
        whose = f"{member.name}: " if len(members) > 1 else ""
        found += [whose + what for what in _differences(member, _dials(member))]
    # What they share is said once.
    return found + _differences(obj, _shot(scene))


def _differences(obj: bpy.types.Object, facts: dict[str, str]) -> list[str]:
    # A bake of an older DampSim remembers nothing.
    before = json.loads(obj.dampsim.baked_of or "{}")
    return [
        f"{what} {_said(before[what])}, now {_said(now)}"
        for what, now in facts.items()
        if what in before and before[what] != now
    ]


def _dials(obj: bpy.types.Object) -> dict[str, str]:
    """By label. What has no meaning with the others is not there."""
    group, keyed = obj.dampsim, animated_paths(obj)
    found = {
        parameter.label: _KEYED if f"dampsim.{name}" in keyed else _shown(parameter, getattr(group, name))
        for name, parameter in PARAMETERS.items()
        if parameter.has_meaning(lambda choice: getattr(group, choice))
    }
    for role in GROUPS:
        # The panel calls this one by another name.
        label = "Pins" if role == "pin_group" else group.bl_rna.properties[role].name
        found[label] = getattr(group, role)
    made_by = find(group.baked)
    if made_by is not None and made_by.storage is Storage.FILE:
        # What lies behind them has as many vertices as they made.
        found["Modifiers"] = ", ".join(_made(modifier) for modifier in makers(obj))
    return found


def _made(modifier: bpy.types.Modifier) -> str:
    levels = modifier.levels if modifier.type in ("SUBSURF", "MULTIRES") else None
    return str(modifier.name) if levels is None else f"{modifier.name} ({levels})"


def _shot(scene: bpy.types.Scene) -> dict[str, str]:
    return {
        "Gravity": ", ".join(f"{part:.4g}" for part in gravity(scene)),
        "Frame Rate": f"{frame_rate(scene):.6g}",
        "Frame Start": str(scene.frame_start),
        "End": str(scene.frame_end),
    }


def _shown(parameter: Parameter, value: object) -> str:
    if isinstance(value, bool):
        return "on" if value else "off"
    if isinstance(value, float):
        return f"{value:.6g}"
    return next((choice.label for choice in parameter.choices if choice.name == value), str(value))


def _said(value: str) -> str:
    return value or "none"
