"""What is to be said of an object in a shot, in sentences."""

from __future__ import annotations

import math

import bpy

from ...core.bodies.registry import kind
from ...core.measure.report import Report, Sunk
from ..blender.sampler import frame_rate
from .properties import read_settings

# More of them say nothing new.
_TOLD = 3
# Frames by which Settle may be missed before it is news.
_NEWS = 1.0
# Errors below this, in percent or millimetres, are all the same to an artist.
_LEAST = 1e-3


def sentences(report: Report, obj: bpy.types.Object, scene: bpy.types.Scene) -> list[str]:
    """Of what it went into, how far it was stretched, and of a rest later than dialled; none where all is well."""
    found = [_sunk(number, one, obj, scene) for number, one in report.sunk[:_TOLD]]
    if len(report.sunk) > _TOLD:
        found.append(f"… and into {len(report.sunk) - _TOLD} more")
    number, longer = report.stretched
    settings = read_settings(obj)
    if longer:
        # What flows is drawn out as it is meant to be, whatever its stiffness.
        flows = settings.plastic_yield > 0.0 and "plastic" in kind(obj.dampsim.kind).sections(settings)
        mend = "beyond Yield it stays so" if flows else "a higher Stiffness keeps it shorter"
        found.append(f"Stretched by up to {100.0 * longer:.0f}% at frame {number}: {mend}")
    frames = report.soonest * frame_rate(scene)
    if settings.by_settle and frames > settings.settle + _NEWS:
        found.append(f"Rests after {math.ceil(frames)} frames at the soonest here: it swings on what it lies on")
    return found


def _sunk(number: int, one: Sunk, obj: bpy.types.Object, scene: bpy.types.Scene) -> str:
    deep, where = length(one.depth, scene), f"at frame {number}"
    other = "itself" if one.other == obj.name else one.other
    if one.squeezed:
        why = "there is no room for it there, or it is hit too hard, where Substeps or Stiffness help"
        return f"Pressed {deep} into {other} {where}: {why}"
    if one.points:
        many, they = ("1 point is", "it comes") if one.points == 1 else (f"{one.points} points are", "they come")
        return f"{many} inside of {other}, {deep} deep, {where}; {they} out slowly"
    if one.others:
        many, they = ("1 point", "is inside of it") if one.others == 1 else (f"{one.others} points", "are inside of it")
        return f"{many} of {other} {they}, {deep} deep, {where}; it gives way slowly"
    return f"It is {deep} deep in {other} {where}, and comes out slowly"


def length(value: float, scene: bpy.types.Scene) -> str:
    """value: in Blender's units."""
    metres = value * scene.unit_settings.scale_length
    return f"{small(1000.0 * metres)} mm" if metres < 1.0 else f"{metres:.3g} m"


def small(value: float) -> str:
    """Not as 4.8e-09."""
    return f"{value:.2g}" if value >= _LEAST or value == 0.0 else f"under {_LEAST:g}"
