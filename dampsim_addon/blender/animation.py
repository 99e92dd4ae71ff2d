"""User animation of a datablock: F-curves, drivers and NLA strips, without those that a bake added."""

from __future__ import annotations

from collections.abc import Iterator

import bpy

from .marks import is_marked, is_our_curve

# Fields of F-curve modifiers that are in the units of the curve.
_VALUES = {
    "NOISE": ("strength",),
    "FNGENERATOR": ("amplitude", "value_offset"),
    "LIMITS": ("min_y", "max_y"),
    "ENVELOPE": ("reference_value", "default_min", "default_max"),
}


def curves(block: bpy.types.ID) -> Iterator[bpy.types.FCurve]:
    """Iterate over the user's F-curves in the active action and in NLA strips."""
    data = block.animation_data
    if data is None:
        return
    actions = [data.action, *(strip.action for track in data.nla_tracks for strip in track.strips)]
    for action in (action for action in actions if action is not None):
        ours = is_marked(action)
        for bag in (bag for layer in action.layers for strip in layer.strips for bag in strip.channelbags):
            # The panel calls this on rigs with thousands of F-curves, so unmarked actions are not filtered.
            yield from (c for c in bag.fcurves if not is_our_curve(action, c.data_path)) if ours else bag.fcurves


def bags_of(block: bpy.types.ID) -> Iterator[bpy.types.ActionChannelbag]:
    """Iterate over the channelbags of a datablock's own slots, in the active action and in NLA strips."""
    data = block.animation_data
    if data is None:
        return
    strips = [strip for track in data.nla_tracks for strip in track.strips]
    for strip in strips:
        # Strips within a meta strip.
        strips += strip.strips
    for action, slot in [(one.action, one.action_slot) for one in (data, *strips)]:
        if action is None or slot is None:
            continue
        bags = [strip.channelbag(slot) for layer in action.layers for strip in layer.strips]
        yield from (bag for bag in bags if bag is not None)


def curves_of(block: bpy.types.ID, path: str) -> list[bpy.types.FCurve]:
    """Return the F-curves of one property, those of the active action first."""
    return [curve for bag in bags_of(block) for curve in bag.fcurves if curve.data_path == path]


def scale(curve: bpy.types.FCurve, factor: float, digits: int) -> None:
    """Multiply an F-curve's keyframes, handles and modifier values. significant_digits: to which values are rounded."""

    def scaled(value: float) -> float:
        return float(f"{value * factor:.{digits}g}")

    for key in curve.keyframe_points:
        for point in (key.co, key.handle_left, key.handle_right):
            point.y = scaled(point.y)
        if key.interpolation == "ELASTIC":
            key.amplitude *= factor
    for modifier in curve.modifiers:
        for name in _VALUES.get(modifier.type, ()):
            setattr(modifier, name, getattr(modifier, name) * factor)
        if modifier.type == "ENVELOPE":
            for point in modifier.control_points:
                point.min, point.max = point.min * factor, point.max * factor
        if modifier.type == "GENERATOR":
            # A product of linear factors (only the first is scaled), or a sum of powers.
            part = 2 if modifier.mode == "POLYNOMIAL_FACTORISED" else len(modifier.coefficients)
            modifier.coefficients = [c * factor if k < part else c for k, c in enumerate(modifier.coefficients)]
    curve.update()


def animated_paths(block: bpy.types.ID) -> list[str]:
    """Return the data paths of a datablock that the user animates by keyframes, drivers or NLA strips."""
    drivers = block.animation_data.drivers if block.animation_data is not None else ()
    return [curve.data_path for curve in curves(block)] + [driver.data_path for driver in drivers]
