"""Values that F-curves, NLA strips and drivers give a property at other frames, without evaluating those frames.

Panels can call this at every redraw. Uncertain values are not given: those of Python in drivers, of variables that read
transforms, and of transitions, meta strips and animated strip time.
"""

from __future__ import annotations

import ast
import itertools
import math
import re
from collections.abc import Sequence
from typing import Any

import bpy
import numpy as np

from ...core import Array
from .animation import VISIBILITY_PATH, slot_bags, user_fcurves

# Largest number that counts as false.
LARGEST_FALSE = 1.0 - 1e-6
# Rotations whose components strips combine with each other.
_MIXED_ROTATIONS = ("rotation_quaternion", "rotation_axis_angle")
# Largest length of a chain of drivers that read each other.
_MAX_DEPTH = 8
# Operators and functions of expressions. They calculate all frames at once.
_BINARY: dict[type[ast.operator], Any] = {
    ast.Add: np.add, ast.Sub: np.subtract, ast.Mult: np.multiply, ast.Div: np.divide, ast.Mod: np.mod,
    ast.FloorDiv: np.floor_divide, ast.Pow: np.power,
}  # fmt: skip
_COMPARISONS: dict[type[ast.cmpop], Any] = {
    ast.Lt: np.less, ast.LtE: np.less_equal, ast.Gt: np.greater, ast.GtE: np.greater_equal, ast.Eq: np.equal,
    ast.NotEq: np.not_equal,
}  # fmt: skip
# Drivers that only combine their variables.
_COMBINATIONS: dict[str, Any] = {"AVERAGE": np.mean, "SUM": np.sum, "MIN": np.min, "MAX": np.max}
_CONSTANTS = {"True": 1.0, "False": 0.0, "pi": math.pi}
_FUNCTIONS: dict[str, Any] = {
    "abs": np.abs, "fabs": np.abs, "floor": np.floor, "ceil": np.ceil, "trunc": np.trunc, "int": np.trunc,
    "float": np.positive, "bool": lambda x: np.not_equal(x, 0.0), "sin": np.sin, "cos": np.cos, "tan": np.tan,
    "sqrt": np.sqrt, "exp": np.exp, "pow": np.power, "fmod": np.fmod, "radians": np.radians, "degrees": np.degrees,
    "min": lambda *x: np.minimum.reduce(np.broadcast_arrays(*x)),
    "max": lambda *x: np.maximum.reduce(np.broadcast_arrays(*x)),
    "round": lambda x: np.copysign(np.floor(np.abs(x) + 0.5), x),
    "clamp": lambda x, a=0.0, b=1.0: np.clip(x, a, b),
    "lerp": lambda a, b, x: a + x * (b - a),
}  # fmt: skip
_INDEXED = re.compile(r"(?P<path>.+)\[(?P<index>\d+)\]$")
_COMPONENT = re.compile(r"(?P<path>.+)\.(?P<axis>[xyzw])$")


def animated_values(block: bpy.types.ID, path: str, frames: Sequence[int], index: int = 0) -> Array | None:
    """Return the values (f,) of a property of a datablock at some frames; None if animation does not determine them.

    index: of the component, 0 for a single number.
    """
    return _values(block, path, index, frames, 0)


def first_disabled_frame(obj: bpy.types.Object, first: int, last: int) -> int | None:
    """Return the first frame at which animation disables an object in viewports; None if none is certain."""
    frames = range(first, last + 1)
    values = animated_values(obj, VISIBILITY_PATH, frames)
    # Blender converts numbers below 1 to false.
    return None if values is None else next((n for n, v in zip(frames, values, strict=True) if v > LARGEST_FALSE), None)


def is_driven(block: bpy.types.ID, path: str, index: int = 0) -> bool:
    """Return whether a driver that is not muted sets a component of a property."""
    return _find_driver(block, path, index) is not None


def _find_driver(block: bpy.types.ID, path: str, index: int) -> bpy.types.FCurve | None:
    data = block.animation_data
    found = data.drivers.find(path, index=index) if data is not None else None
    return None if found is None or found.mute else found


def _values(block: bpy.types.ID, path: str, index: int, frames: Sequence[int], depth: int) -> Array | None:
    if depth > _MAX_DEPTH or getattr(block, "animation_data", None) is None:
        return None
    driver = _find_driver(block, path, index)
    if driver is not None:
        return _driven_values(driver, frames, depth)
    return _played_values(block, path, index, frames) if _has_curve(block, path, index) else None


def _has_curve(block: bpy.types.ID, path: str, index: int) -> bool:
    return any((curve.data_path, curve.array_index) == (path, index) for curve in user_fcurves(block))


# Actions and NLA strips.


def _played_values(block: bpy.types.ID, path: str, index: int, frames: Sequence[int]) -> Array | None:
    """Return the values (f,) of the active action above the NLA strips; None if one of them is of an unknown kind."""
    data = block.animation_data
    solo = [track for track in data.nla_tracks if track.is_solo] if data.use_nla else []
    # A solo track plays even if it is muted.
    tracks = solo or [track for track in data.nla_tracks if data.use_nla and not track.mute]
    curve = None if solo else _find_curve(data, path, index)
    is_played = any(_find_curve(strip, path, index) is not None for track in tracks for strip in track.strips)
    default = _default(block, path, index)
    # In tweak mode, Blender plays the tracks below, and the action at the time of its strip.
    if default is None or data.use_tweak_mode or not (is_played or curve is not None):
        return None
    if tracks and path.endswith(_MIXED_ROTATIONS):
        return None
    found = np.full(len(frames), default)
    for track in tracks:
        strips = list(track.strips)
        if any(one.type != "CLIP" or one.use_animated_time or len(one.modifiers) for one in strips):
            return None
        for k, frame in enumerate(frames):
            strip, time = _playing_strip(strips, frame)
            lower = _find_curve(strip, path, index) if strip is not None and not strip.mute else None
            if lower is not None:
                value = lower.evaluate(_action_time(strip, time))
                found[k] = _blend(strip.blend_type, found[k], value, _influence(strip, time), default)
    if curve is not None:
        first, last = data.action.frame_range
        extrapolation = data.action_extrapolation
        mode, influence = (data.action_blend_type, data.action_influence) if tracks else ("REPLACE", 1.0)
        for k, frame in enumerate(frames):
            is_outside = (frame < first and extrapolation != "HOLD") or (frame > last and extrapolation == "NOTHING")
            if not (tracks and is_outside):
                found[k] = _blend(mode, found[k], curve.evaluate(frame), influence, default)
    return found


def _find_curve(owner: Any, path: str, index: int) -> bpy.types.FCurve | None:
    """Return the unmuted curve of a property in the action of a strip or of animation data."""
    curves = (curve for bag in slot_bags(owner) for curve in bag.fcurves)
    return next((one for one in curves if (one.data_path, one.array_index) == (path, index) and not one.mute), None)


def _playing_strip(strips: list[Any], frame: float) -> tuple[Any, float]:
    """Return the strip of a track that plays at a frame, if any, and the frame within it."""
    before = None
    for strip in strips:
        if strip.frame_start <= frame <= strip.frame_end:
            return strip, frame
        if frame < strip.frame_start:
            if before is None:
                return (strip, strip.frame_start) if strip.extrapolation == "HOLD" else (None, frame)
            break
        before = strip
    if before is None or before.extrapolation == "NOTHING":
        return None, frame
    return before, before.frame_end


def _action_time(strip: Any, frame: float) -> float:
    first, length = strip.action_frame_start, strip.action_frame_end - strip.action_frame_start
    if frame == strip.frame_end and float(strip.repeat).is_integer():
        inside = length
    else:
        # Blender calculates in single precision, which decides at the ends of repetitions.
        cycle = float(np.float32(length) * np.float32(strip.scale))
        inside = math.fmod(frame - strip.frame_start, cycle) / strip.scale if cycle else 0.0
    return float(first + (length - inside if strip.use_reverse else inside))


def _influence(strip: Any, frame: float) -> float:
    if strip.use_animated_influence:
        curve = strip.fcurves.find("influence")
        return float(strip.influence if curve is None or curve.mute else curve.evaluate(frame))
    if strip.blend_in and frame <= strip.frame_start + strip.blend_in:
        return float(abs(frame - strip.frame_start) / strip.blend_in)
    if strip.blend_out and frame >= strip.frame_end - strip.blend_out:
        return float(abs(strip.frame_end - frame) / strip.blend_out)
    return 1.0


def _blend(mode: str, below: float, value: float, influence: float, default: float) -> float:
    if influence <= 0.0:
        return below
    if mode == "ADD":
        return below + influence * value
    if mode == "SUBTRACT":
        return below - influence * value
    if mode == "MULTIPLY":
        return below * (influence * value + 1.0 - influence)
    if mode == "COMBINE" and default == 1.0:
        return float(below * max(value, 0.0) ** influence)
    if mode == "COMBINE":
        return below + influence * (value - default)
    return below + influence * (value - below)


def _default(block: bpy.types.ID, path: str, index: int) -> float | None:
    """Return the value that lies beneath the lowest NLA strip; None if the property does not exist."""
    owner, name = block, path
    if "." in path and not path.endswith("]"):
        parent, _, name = path.rpartition(".")
        try:
            owner = block.path_resolve(parent)
        except ValueError:
            # Curves stay when their bone or modifier is deleted.
            return None
    prop = owner.bl_rna.properties.get(name)
    if prop is None or prop.type not in ("BOOLEAN", "INT", "FLOAT"):
        return 0.0
    return float(prop.default_array[index] if prop.is_array else prop.default)


# Drivers.


def _driven_values(curve: bpy.types.FCurve, frames: Sequence[int], depth: int) -> Array | None:
    driver = curve.driver
    known: dict[str, Array] = {"frame": np.array(frames, dtype=float)}
    for variable in driver.variables:
        values = _variable_values(variable, frames, depth)
        if values is None:
            return None
        known[variable.name] = values
    columns = list(known.values())[1:]
    if driver.type == "SCRIPTED":
        found = _calculate(driver.expression, known, len(frames))
    elif not columns:
        return None
    else:
        found = _COMBINATIONS[driver.type](columns, axis=0)
    if found is None or not (len(curve.keyframe_points) or len(curve.modifiers)):
        return found
    return np.array([curve.evaluate(value) for value in found])


def _calculate(expression: str, known: dict[str, Array], count: int) -> Array | None:
    """Return the values (f,) of an expression; None if it does more than calculate. known: variables (f,) by name."""
    try:
        with np.errstate(all="ignore"):
            found = _node_values(ast.parse(expression.strip(), mode="eval").body, known)
    except (KeyError, SyntaxError, TypeError, ValueError, RecursionError, MemoryError):
        return None
    values = np.broadcast_to(np.asarray(found, dtype=float), (count,))
    return values if np.isfinite(values).all() else None


def _node_values(node: ast.AST, known: dict[str, Array]) -> Any:
    """Return the values (f,) of a part of an expression. Raises KeyError for a part that does more than calculate."""

    def values(one: ast.AST) -> Any:
        return np.asarray(_node_values(one, known), dtype=float)

    match node:
        case ast.Constant(value=bool() | int() | float()):
            return float(node.value)
        case ast.Name():
            return known[node.id] if node.id in known else _CONSTANTS[node.id]
        case ast.BinOp():
            return _BINARY[type(node.op)](values(node.left), values(node.right))
        case ast.UnaryOp(op=ast.USub()):
            return -values(node.operand)
        case ast.UnaryOp(op=ast.Not()):
            return values(node.operand) == 0.0
        case ast.BoolOp():
            first, *others = map(values, node.values)
            for other in others:
                is_last = (first != 0.0) == isinstance(node.op, ast.And)
                first = np.where(is_last, other, first)
            return first
        case ast.Compare():
            sides = [values(node.left), *map(values, node.comparators)]
            pairs = zip(node.ops, itertools.pairwise(sides), strict=True)
            return np.logical_and.reduce([_COMPARISONS[type(op)](*pair) for op, pair in pairs])
        case ast.IfExp():
            return np.where(values(node.test) != 0.0, values(node.body), values(node.orelse))
        case ast.Call(func=ast.Name()) if not node.keywords:
            return _FUNCTIONS[node.func.id](*map(values, node.args))
    raise KeyError(ast.dump(node))


def _variable_values(variable: bpy.types.DriverVariable, frames: Sequence[int], depth: int) -> Array | None:
    target = variable.targets[0]
    if variable.type == "CONTEXT_PROP":
        is_frame = target.context_property == "ACTIVE_SCENE" and target.data_path == "frame_current"
        return np.array(frames, dtype=float) if is_frame else None
    if variable.type != "SINGLE_PROP" or target.id is None:
        return None
    if isinstance(target.id, bpy.types.Scene) and target.data_path in ("frame_current", "frame_current_final"):
        return np.array(frames, dtype=float) if target.id == bpy.context.scene else None
    path, index = _split_path(target.data_path)
    try:
        current, prop = target.id.path_resolve(target.data_path), target.id.path_resolve(path, False)
    except (ValueError, TypeError):
        return None
    limits = _limits(prop) if isinstance(current, (bool, int, float)) else None
    if limits is None:
        return None
    # The path may lead to another datablock, such as the mesh or the shape keys of an object.
    block, path = prop.id_data, prop.path_from_id()
    if not (is_driven(block, path, index) or _has_curve(block, path, index)):
        return np.full(len(frames), float(current))
    # Blender may read the driven property of another datablock a frame late.
    values = _values(block, path, index, frames, depth + 1) if block == target.id else None
    if values is None or isinstance(current, bool):
        return None if values is None else np.asarray(values > LARGEST_FALSE, dtype=float)
    return np.asarray(np.clip(np.trunc(values) if isinstance(current, int) else values, *limits))


def _limits(prop: Any) -> tuple[float, float] | None:
    """Return the least and the largest value of a number; None if Blender calculates it from other properties."""
    path = prop.path_from_id()
    if path.endswith("]"):
        name = bpy.utils.unescape_identifier(path[path.rindex('["') + 2 : -2])
        found = prop.data.id_properties_ui(name).as_dict()
        return found.get("min", -math.inf), found.get("max", math.inf)
    rna = prop.data.bl_rna.properties.get(path.rpartition(".")[2])
    if rna is None or not rna.is_animatable or rna.is_readonly:
        return None
    return getattr(rna, "hard_min", -math.inf), getattr(rna, "hard_max", math.inf)


def _split_path(data_path: str) -> tuple[str, int]:
    """Return the path of a property without the index of its component, and that index."""
    if found := _INDEXED.match(data_path):
        return found["path"], int(found["index"])
    if found := _COMPONENT.match(data_path):
        return found["path"], "xyzw".index(found["axis"])
    return data_path, 0
