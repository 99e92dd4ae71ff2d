"""Blender properties made from the core's parameters."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Protocol

from bpy.props import BoolProperty, EnumProperty, FloatProperty, IntProperty

from ...core import Parameter
from ..translations import CONTEXT


class HasNumber(Protocol):
    """Entry of a registry that .blend files store by number."""

    @property
    def name(self) -> str: ...
    @property
    def label(self) -> str: ...
    @property
    def description(self) -> str: ...
    @property
    def number(self) -> int: ...


def blender_property(parameter: Parameter, can_animate: bool = True) -> Any:
    """Return the Blender property of a parameter. can_animate: whether an animatable parameter can be keyframed."""
    common = {"name": parameter.label, "description": parameter.description, "default": parameter.default}
    common["translation_context"] = CONTEXT
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


def enum_items(entries: Iterable[HasNumber]) -> list[tuple[str, str, str, int]]:
    """Return the items of an EnumProperty. .blend files store the number of an entry, so each has an explicit one."""
    return [(entry.name, entry.label, entry.description, entry.number) for entry in entries]
