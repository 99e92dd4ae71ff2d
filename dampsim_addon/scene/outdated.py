"""Whether a bake is still of what is dialled. Looked up at every drawing of a panel, so no frame is visited for it:
edited poses and keyframes of others are not seen.
"""

from __future__ import annotations

import json

import bpy

from ...core.scene.parameters import PARAMETERS, Parameter
from ..blender.animation import animated_paths
from ..blender.sampler import frame_rate
from .groups import group_of

_MAPS = {
    "pin_group": "Pins", "settle_group": "Settle Group", "stiffness_group": "Stiffness Group",
    "length_group": "Length Group", "centre_group": "Centre Group",
}  # fmt: skip
_KEYED = "keyframes"


def remember(obj: bpy.types.Object, scene: bpy.types.Scene) -> None:
    """The bake that was made is of what is dialled now."""
    obj.dampsim.baked_of = json.dumps(_dialled(obj, scene))


def changed(obj: bpy.types.Object, scene: bpy.types.Scene) -> list[str]:
    """What is dialled otherwise than it was for the bake, for all that are simulated with it, in words."""
    members = group_of(obj).members
    found = []
    for member in members:
        # A bake of an older DampSim remembers nothing.
        before = json.loads(member.dampsim.baked_of or "{}")
        whose = f"{member.name}: " if len(members) > 1 else ""
        found += [
            f"{whose}{what} {_said(before[what])}, now {_said(now)}"
            for what, now in _dialled(member, scene).items()
            if what in before and before[what] != now
        ]
    return found


def _dialled(obj: bpy.types.Object, scene: bpy.types.Scene) -> dict[str, str]:
    """By label. What has no meaning with the others is not there."""
    group, keyed = obj.dampsim, animated_paths(obj)
    found = {
        parameter.label: _KEYED if f"dampsim.{name}" in keyed else _shown(parameter, getattr(group, name))
        for name, parameter in PARAMETERS.items()
        if parameter.has_meaning(lambda choice: getattr(group, choice))
    }
    found |= {label: getattr(group, name) for name, label in _MAPS.items()}
    gravity = tuple(scene.gravity) if scene.use_gravity else (0.0, 0.0, 0.0)
    found["Gravity"] = ", ".join(f"{part:.4g}" for part in gravity)
    found["Frame Rate"] = f"{frame_rate(scene):.6g}"
    found["Frame Start"], found["End"] = str(scene.frame_start), str(scene.frame_end)
    return found


def _shown(parameter: Parameter, value: object) -> str:
    if isinstance(value, bool):
        return "on" if value else "off"
    if isinstance(value, float):
        return f"{value:.6g}"
    return next((choice.label for choice in parameter.choices if choice.name == value), str(value))


def _said(value: str) -> str:
    return value or "none"
