"""Blender properties made from the core's parameters."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from bpy.props import BoolProperty, EnumProperty, FloatProperty, IntProperty

from ...core.scene.parameters import Choice, Parameter


def property_of(parameter: Parameter, keyed: bool = True) -> Any:
    """Return the Blender property of a parameter. can_animate: whether an animatable parameter can be keyframed."""
    common = {"name": parameter.label, "description": parameter.text, "default": parameter.default}
    if not parameter.animatable or not keyed:
        common["options"] = set()
    if parameter.choices:
        return EnumProperty(items=items_of(parameter.choices), **common)
    if isinstance(parameter.default, bool):
        return BoolProperty(**common)
    limits = {
        "min": parameter.least,
        "max": parameter.most,
        "soft_min": parameter.soft_least or parameter.least,
        "soft_max": parameter.soft_most or parameter.most,
    }
    if isinstance(parameter.default, int):
        return IntProperty(**common, **{key: int(value) for key, value in limits.items()})
    if parameter.unit == "%":
        return FloatProperty(**common, **limits, subtype="PERCENTAGE", precision=1)
    if parameter.unit == "frames":
        return FloatProperty(**common, **limits, precision=1)
    return FloatProperty(**common, **limits)


def items_of(choices: Sequence[Choice]) -> list[tuple[str, str, str, int]]:
    """Return enum items. Files store the number of a choice, so inserted choices have explicit numbers."""
    places = iter(range(len(choices)))
    return [(c.name, c.label, c.text, next(places) if c.number is None else c.number) for c in choices]
