"""Messages about an object in a shot: hard steps, penetration, stretch, late rest and walks backward."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping

import bpy
import numpy as np

from ...core import SettleCurve, kind_by_name
from ...core.base.wording import format_count, format_metres, format_number, format_percent
from ...core.measure.report import Penetration, ShotReport
from ...core.settle.step_report import Verdict
from ...core.steppers.step_policy import GUARDS
from ..blender.sampler import frame_rate
from ..model.properties import read_settings

# Maximum number of penetrations that are listed.
_MAX_LISTED = 3
# Maximum number of frames, or of ranges of frames, that are listed.
_MAX_LISTED_FRAMES = 5
# Effect of guards that bring a step to an end.
_LIMITED = "shape and speed limited"
# Effects of guards on the steps of a frame.
_EFFECTS = {
    Verdict.BISECT: "halved",
    Verdict.RETRY: "retried with calmer motion",
    Verdict.ACCEPT: "accepted before they converged",
    Verdict.TRUNCATE: "cut short to keep surfaces apart",
    Verdict.PUSH_OUT: "ended with the object pushed out of others",
    Verdict.LIMIT: _LIMITED,
}
# Part of a stretch from which the animation is its cause.
_POSED_PART = 0.5
# Frames by which rest may be later than Settle without a message.
_SETTLE_TOLERANCE = 1.0
# Path against its Front, relative to its largest dimension, that a walker covers without a message.
_BACKWARD_TOLERANCE = 0.25


def report_messages(report: ShotReport, obj: bpy.types.Object, scene: bpy.types.Scene) -> list[str]:
    """Return messages about penetration, stretch, late rest and walks against Front; none where all is well."""
    found = [_penetration_message(number, one, obj, scene) for number, one in report.penetrations[:_MAX_LISTED]]
    if len(report.penetrations) > _MAX_LISTED:
        found.append(f"… and {format_count(len(report.penetrations) - _MAX_LISTED, 'more penetration')}")
    number, stretch = report.stretched
    settings = read_settings(obj)
    if stretch:
        # Plastic flow stretches an object on purpose, independently of its stiffness.
        is_plastic = settings.plastic_yield > 0.0 and "plastic" in kind_by_name(obj.dampsim.kind).sections(settings)
        fix = "stretch beyond Yield is permanent" if is_plastic else "raise Stiffness to reduce it"
        if report.posed_stretch > _POSED_PART * stretch:
            # No stiffness can shorten edges between pins.
            fix = f"the animation alone stretches it by {format_percent(report.posed_stretch)}"
        found.append(f"Stretched by up to {format_percent(stretch)} at frame {number}; {fix}")
    frames = report.earliest_rest * frame_rate(scene)
    if settings.is_settle_controlled and frames > settings.settle + _SETTLE_TOLERANCE:
        count = format_count(math.ceil(frames), "frame")
        found.append(f"Needs at least {count} to come to rest, because it swings on its support")
    if report.walked < -_BACKWARD_TOLERANCE * max(*obj.dimensions):
        found.append(
            f"Walks {format_length(-report.walked, scene)} against its Front; choose the opposite Front, or change the "
            "Delay of its muscles"
        )
    return found


def preparation_messages(cut_stages: Iterable[str]) -> list[str]:
    """Return a message about each stage of a preparation in which a search spent its work."""
    return [
        f"The search for {stage} ended early, because it took too much work. The object may move at the start. Model "
        "objects apart where they overlap or are squeezed at the first frame, or switch off Start at Rest"
        for stage in cut_stages
    ]


def rest_message(report: ShotReport, curve: SettleCurve | None, last: int) -> str:
    """Return a message about a body that missed Settle and touched something; '' otherwise.

    It names the partner and frames of the longest contact, which may be the reason.
    curve: None if nothing was measured.  last: frame at which the curve ends.
    """
    if curve is None or not curve.has_missed_dial:
        return ""
    stop = last - float(curve.frames[-1])
    partner, frames = report.longest_contact(stop, stop + max(min(curve.rest, float(curve.frames[-1])), curve.dial))
    if not frames:
        return ""
    dial = format_number(curve.dial, 4)
    event = f"Rests after {curve.rest:.1f} frames" if np.isfinite(curve.rest) else "Does not rest"
    return f"{event} (Settle: {dial}) and touches {partner} {frames_text(list(frames))}"


def hard_steps_message(guards: Mapping[str, Iterable[int]]) -> str:
    """Return a warning that names the effects of guards and their frames; '' without any.

    guards: frames with hard steps, by guard, see Progress. Guards of other versions are ignored.
    """
    frames: dict[str, set[int]] = {}
    for guard in GUARDS:
        if guard.name in guards and guard.verdict in _EFFECTS:
            frames.setdefault(_EFFECTS[guard.verdict], set()).update(guards[guard.name])
    limited = sorted(frames.pop(_LIMITED, ()))
    parts = [f"{effect} {frames_text(sorted(frames[effect]))}" for effect in _EFFECTS.values() if frames.get(effect)]
    if not parts and not limited:
        return ""
    sentences = [f"Hit too hard {frames_text(limited)}: {_LIMITED}. "] if limited else []
    sentences += [f"Steps were {', '.join(parts)}. "] if parts else []
    sentences.append(
        "If the result looks wrong there, slow down the motion that drives or hits the object, or raise Substeps"
    )
    return "".join(sentences)


def frames_text(frames: list[int]) -> str:
    """Return the text for sorted frames: 'on frames 3 to 6 and 9'."""
    ranges: list[list[int]] = []
    for frame in frames:
        if ranges and frame == ranges[-1][-1] + 1:
            ranges[-1].append(frame)
        else:
            ranges.append([frame])
    # A range of two frames is not shorter than the two.
    pieces = [text for one in ranges for text in ([f"{one[0]} to {one[-1]}"] if len(one) > 2 else map(str, one))]
    if len(pieces) > _MAX_LISTED_FRAMES:
        pieces = [*pieces[: _MAX_LISTED_FRAMES - 1], "others"]
    text = " and ".join([*([", ".join(pieces[:-1])] if pieces[:-1] else []), pieces[-1]])
    return f"on frame {text}" if len(frames) == 1 else f"on frames {text}"


def _penetration_message(number: int, one: Penetration, obj: bpy.types.Object, scene: bpy.types.Scene) -> str:
    depth_words, frame_words = format_length(one.depth, scene), f"at frame {number}"
    other_name = "itself" if one.partner == obj.name else one.partner
    if one.is_squeezed:
        advice = "too little room, or too hard an impact. Raise Substeps or Stiffness"
        return f"Pressed {depth_words} into {other_name} {frame_words}: {advice}"
    if one.points_inside:
        verbs = ("is", "it moves") if one.points_inside == 1 else ("are", "they move")
        return (
            f"{format_count(one.points_inside, 'point')} {verbs[0]} inside {other_name}, up to {depth_words} deep, "
            f"{frame_words}; {verbs[1]} out slowly"
        )
    if one.partner_points_inside:
        verb = "is" if one.partner_points_inside == 1 else "are"
        return (
            f"{format_count(one.partner_points_inside, 'point')} of {other_name} {verb} inside it, "
            f"up to {depth_words} deep, {frame_words}; it moves away slowly"
        )
    return f"It is {depth_words} deep inside {other_name} {frame_words} and moves out slowly"


def format_length(value: float, scene: bpy.types.Scene) -> str:
    """Return a length, given in Blender units, as text in mm, m or km."""
    return format_metres(value * scene.unit_settings.scale_length)
