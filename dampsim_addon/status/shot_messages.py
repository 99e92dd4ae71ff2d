"""Messages about an object in a shot: penetration, stretch and late rest."""

from __future__ import annotations

import math

import bpy

from ...core import kind_by_name
from ...core.measure.report import Penetration, ShotReport
from ..blender.sampler import frame_rate
from ..model.properties import read_settings

# Maximum number of penetrations that are listed.
_MAX_LISTED = 3
# Frames by which rest may be later than Settle without a message.
_SETTLE_TOLERANCE = 1.0
# Smaller errors, in percent or millimetres, are not shown as numbers.
_MIN_SHOWN = 1e-3


def report_messages(report: ShotReport, obj: bpy.types.Object, scene: bpy.types.Scene) -> list[str]:
    """Return messages about penetration, stretch, and rest later than set by Settle; none where all is well."""
    found = [_penetration_message(number, one, obj, scene) for number, one in report.penetrations[:_MAX_LISTED]]
    if len(report.penetrations) > _MAX_LISTED:
        found.append(f"… and {len(report.penetrations) - _MAX_LISTED} more penetrations")
    number, stretch = report.stretched
    settings = read_settings(obj)
    if stretch:
        # Plastic flow stretches an object on purpose, independently of its stiffness.
        is_plastic = settings.plastic_yield > 0.0 and "plastic" in kind_by_name(obj.dampsim.kind).sections(settings)
        fix = "stretch beyond Yield is permanent" if is_plastic else "raise Stiffness to reduce it"
        found.append(f"Stretched by up to {100.0 * stretch:.0f}% at frame {number}; {fix}")
    frames = report.earliest_rest * frame_rate(scene)
    if settings.is_settle_controlled and frames > settings.settle + _SETTLE_TOLERANCE:
        found.append(f"Needs at least {math.ceil(frames)} frames to come to rest, because it swings on its support")
    return found


def _penetration_message(number: int, one: Penetration, obj: bpy.types.Object, scene: bpy.types.Scene) -> str:
    depth_words, frame_words = format_length(one.depth, scene), f"at frame {number}"
    other_name = "itself" if one.partner == obj.name else one.partner
    if one.is_squeezed:
        advice = "too little room, or too hard an impact. Raise Substeps or Stiffness"
        return f"Pressed {depth_words} into {other_name} {frame_words}: {advice}"
    if one.points_inside:
        count_words, verb_words = (
            ("1 point is", "it moves") if one.points_inside == 1 else (f"{one.points_inside} points are", "they move")
        )
        return f"{count_words} inside {other_name}, up to {depth_words} deep, {frame_words}; {verb_words} out slowly"
    if one.partner_points_inside:
        count_words, verb_words = (
            ("1 point", "is inside it")
            if one.partner_points_inside == 1
            else (f"{one.partner_points_inside} points", "are inside it")
        )
        return (
            f"{count_words} of {other_name} {verb_words}, up to {depth_words} deep, {frame_words}; it moves away slowly"
        )
    return f"It is {depth_words} deep inside {other_name} {frame_words} and moves out slowly"


def format_length(value: float, scene: bpy.types.Scene) -> str:
    """Return a length, given in Blender units, as text in mm or m."""
    metres = value * scene.unit_settings.scale_length
    return f"{format_small(1000.0 * metres)} mm" if metres < 1.0 else f"{metres:.3g} m"


def format_small(value: float) -> str:
    """Return a small number as text, without exponent."""
    return f"{value:.2g}" if value >= _MIN_SHOWN or value == 0.0 else f"less than {_MIN_SHOWN:g}"
