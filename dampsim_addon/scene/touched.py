"""Messages about an object in a shot: penetration, stretch and late rest."""

from __future__ import annotations

import math

import bpy

from ...core.bodies.registry import kind
from ...core.measure.report import Report, Sunk
from ..blender.sampler import frame_rate
from .properties import read_settings

# Maximum number of penetrations that are listed.
_TOLD = 3
# Frames by which rest may be later than Settle without a message.
_NEWS = 1.0
# Smaller errors, in percent or millimetres, are not shown as numbers.
_LEAST = 1e-3


def sentences(report: Report, obj: bpy.types.Object, scene: bpy.types.Scene) -> list[str]:
    """Return messages about penetration, stretch, and rest later than set by Settle; none where all is well."""
    found = [_sunk(number, one, obj, scene) for number, one in report.sunk[:_TOLD]]
    if len(report.sunk) > _TOLD:
        found.append(f"… and {len(report.sunk) - _TOLD} more penetrations")
    number, longer = report.stretched
    settings = read_settings(obj)
    if longer:
        # Plastic flow stretches an object on purpose, independently of its stiffness.
        flows = settings.plastic_yield > 0.0 and "plastic" in kind(obj.dampsim.kind).sections(settings)
        mend = "beyond Yield it is permanent" if flows else "raise Stiffness to reduce it"
        found.append(f"Stretched by up to {100.0 * longer:.0f}% at frame {number}; {mend}")
    frames = report.soonest * frame_rate(scene)
    if settings.by_settle and frames > settings.settle + _NEWS:
        found.append(f"Needs at least {math.ceil(frames)} frames to come to rest, because it swings on its support")
    return found


def _sunk(number: int, one: Sunk, obj: bpy.types.Object, scene: bpy.types.Scene) -> str:
    deep, where = length(one.depth, scene), f"at frame {number}"
    other = "itself" if one.other == obj.name else one.other
    if one.squeezed:
        why = "too little room, or too hard an impact. Raise Substeps or Stiffness"
        return f"Pressed {deep} into {other} {where}: {why}"
    if one.points:
        many, they = ("1 point is", "it moves") if one.points == 1 else (f"{one.points} points are", "they move")
        return f"{many} inside {other}, up to {deep} deep, {where}; {they} out slowly"
    if one.others:
        many, they = ("1 point", "is inside it") if one.others == 1 else (f"{one.others} points", "are inside it")
        return f"{many} of {other} {they}, up to {deep} deep, {where}; it moves away slowly"
    return f"It is {deep} deep inside {other} {where} and moves out slowly"


def length(value: float, scene: bpy.types.Scene) -> str:
    """Return a length, given in Blender units, as text in mm or m."""
    metres = value * scene.unit_settings.scale_length
    return f"{small(1000.0 * metres)} mm" if metres < 1.0 else f"{metres:.3g} m"


def small(value: float) -> str:
    """Return a small number as text, without exponent."""
    return f"{value:.2g}" if value >= _LEAST or value == 0.0 else f"less than {_LEAST:g}"
