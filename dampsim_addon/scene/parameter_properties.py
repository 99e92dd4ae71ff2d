"""Blender properties made from the core's parameters."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from bpy.props import BoolProperty, EnumProperty, FloatProperty, IntProperty

from ...core.scene.parameters import Choice, Parameter


def blender_property(parameter: Parameter, can_animate: bool = True) -> Any:
    """Return the Blender property of a parameter. can_animate: whether an animatable parameter can be keyframed."""
    common = {"name": parameter.label, "description": parameter.description, "default": parameter.default}
    if not parameter.animatable or not can_animate:
        common["options"] = set()
    if parameter.choices:
        return EnumProperty(items=enum_items(parameter.choices), **common)
    if isinstance(parameter.default, bool):
        return BoolProperty(**common)
    limits = {
        "min": parameter.min,
        "max": parameter.max,
        "soft_min": parameter.soft_min or parameter.min,
        "soft_max": parameter.soft_max or parameter.max,
    }
    if isinstance(parameter.default, int):
        return IntProperty(**common, **{key: int(value) for key, value in limits.items()})
    if parameter.unit == "%":
        return FloatProperty(**common, **limits, subtype="PERCENTAGE", precision=1)
    if parameter.unit == "frames":
        return FloatProperty(**common, **limits, precision=1)
    return FloatProperty(**common, **limits)


def enum_items(choices: Sequence[Choice]) -> list[tuple[str, str, str, int]]:
    """Return enum items. Files store the number of a choice, so inserted choices have explicit numbers."""
    places = iter(range(len(choices)))
    return [(c.name, c.label, c.description, next(places) if c.number is None else c.number) for c in choices]
