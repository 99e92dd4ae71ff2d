"""Contents of an F-curve: its keyframes, modifiers and settings, which another curve can receive.

A bake to another target moves the influence that the user has animated from an NLA strip to a modifier, or back. All of
the user's work on the curve goes with it, as Blender shows it in the Graph Editor.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Any

import bpy

from .target import apply_settings, read_settings_of

Settings = list[tuple[str, Any]]

# Settings of a curve as a whole.
_CURVE_SETTINGS = ("extrapolation", "auto_smoothing", "color_mode", "color", "lock", "mute")
# Settings of a keyframe. Those of handles come last, as the others move the handles.
_KEYFRAME_SETTINGS = (
    *("co", "type", "interpolation", "easing", "amplitude", "period", "back"),
    *("handle_left_type", "handle_right_type", "handle_left", "handle_right"),
)
# Settings of a keyframe that belong to the segment behind it.
_SEGMENT_SETTINGS = ("interpolation", "easing", "amplitude", "period", "back")
# The other side of a keyframe, and the easing that plays as another one backwards.
_OPPOSITES = {
    "handle_left": "handle_right",
    "handle_right": "handle_left",
    "handle_left_type": "handle_right_type",
    "handle_right_type": "handle_left_type",
    "EASE_IN": "EASE_OUT",
    "EASE_OUT": "EASE_IN",
}
# Automatic easing of a segment by its interpolation; others have none.
_AUTO_EASING = {
    **dict.fromkeys(("SINE", "QUAD", "CUBIC", "QUART", "QUINT", "EXPO", "CIRC"), "EASE_IN"),
    **dict.fromkeys(("BACK", "BOUNCE", "ELASTIC"), "EASE_OUT"),
}
# Settings that are a frame and a value.
_PLACES = ("co", "handle_left", "handle_right")
_POINT_SETTINGS = ("frame", "min", "max")
# Kinds of properties that are values.
_VALUES = {"BOOLEAN", "INT", "FLOAT", "ENUM", "STRING"}


@dataclass(frozen=True)
class _ModifierContents:
    """Modifier of an F-curve. kind: Blender's name of its type.  points: of an envelope."""

    kind: str
    settings: Settings
    points: list[Settings]


@dataclass(frozen=True)
class FCurveContents:
    """Contents of an F-curve, except its data path.

    settings: of the curve.  keyframes: settings of each keyframe, in ascending order of frames.
    """

    settings: Settings
    keyframes: list[Settings]
    modifiers: list[_ModifierContents]

    @property
    def first_key(self) -> tuple[float, float]:
        """Frame and value of the first keyframe. Raises IndexError if there is none."""
        frame, value = dict(self.keyframes[0])["co"]
        return float(frame), float(value)

    def retimed(self, to_frame: Callable[[float], float]) -> FCurveContents:
        """Return the contents with other frames of keyframes and handles. F-curve modifiers stay.

        to_frame: new frame of a frame. If it descends, the curve plays backwards. Two kinds of segments then differ, as
        Blender has no reverse of them: constant ones, which hold the value at their start, and elastic ones with an
        amplitude above their change.
        """
        keyframes = [
            [(name, (to_frame(one[0]), one[1]) if name in _PLACES else one) for name, one in key]
            for key in self.keyframes
        ]
        frames = [dict(key)["co"][0] for key in keyframes]
        is_backward = bool(frames) and frames[0] > frames[-1]
        return replace(self, keyframes=_backward(keyframes) if is_backward else keyframes)


def _backward(keyframes: list[Settings]) -> list[Settings]:
    """Return keyframes, in descending order of frames, as those of a curve that plays backwards."""
    found = []
    keys = [dict(key) for key in reversed(keyframes)]
    for key, follower in zip(keys, [*keys[1:], keys[0]], strict=True):
        made = {name: key[_OPPOSITES.get(name, name)] for name in key}
        made |= {name: follower[name] for name in _SEGMENT_SETTINGS if name in key}
        easing = made["easing"]
        if easing == "AUTO":
            easing = _AUTO_EASING.get(made["interpolation"], easing)
        made["easing"] = _OPPOSITES.get(easing, easing)
        found.append(list(made.items()))
    return found


def read_curve(curve: bpy.types.FCurve) -> FCurveContents:
    """Return the contents of an F-curve."""
    return FCurveContents(
        read_settings_of(curve, _CURVE_SETTINGS),
        [read_settings_of(key, _KEYFRAME_SETTINGS) for key in curve.keyframe_points],
        [
            _ModifierContents(
                one.type,
                read_settings_of(one, _value_names(one)),
                [read_settings_of(point, _POINT_SETTINGS) for point in getattr(one, "control_points", ())],
            )
            for one in curve.modifiers
        ],
    )


def write_curve(curve: bpy.types.FCurve, contents: FCurveContents) -> None:
    """Replace the contents of an F-curve."""
    curve.keyframe_points.clear()
    curve.keyframe_points.add(len(contents.keyframes))
    for key, settings in zip(curve.keyframe_points, contents.keyframes, strict=True):
        apply_settings(key, settings)
    for modifier in reversed(list(curve.modifiers)):
        curve.modifiers.remove(modifier)
    for one in contents.modifiers:
        made: Any = curve.modifiers.new(one.kind)
        # The start of a range precedes its end, and both the lengths of its fades.
        apply_settings(made, one.settings)
        points = [dict(settings) for settings in one.points]
        for point in points:
            made.control_points.add(point["frame"])
        for name in _POINT_SETTINGS if points else ():
            # Setting a property of one point reads beyond its memory in Blender, which may end it.
            made.control_points.foreach_set(name, [point[name] for point in points])
    apply_settings(curve, contents.settings)
    curve.update()


def _value_names(struct: Any) -> Iterator[str]:
    """Iterate over the names of the values of a struct that can be set, in Blender's order."""
    for prop in struct.bl_rna.properties:
        if prop.type in _VALUES and not prop.is_readonly:
            yield prop.identifier
