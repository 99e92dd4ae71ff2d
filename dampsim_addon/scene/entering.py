"""Digests of the inputs that move and shape an object, by names the user knows, to report changes since a bake.

They are computed without visiting frames. They cover the definition of drivers and constraints, not their results.
Live does not rely on them to validate its frames: it compares the samples themselves.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import bpy
import numpy as np

from ..blender.animation import curves
from ..blender.edge_attributes import marked
from ..blender.marks import is_ours
from ..blender.modifiers import DEFORMING, dialled_of
from ..blender.vertex_groups import weights
from .colliders import layer_of, stopping
from .muscles import has_muscles, machine_of, targets
from .seams import seam_groups
from .snapshot import GROUPS

_BONE = re.compile(r'pose\.bones\["((?:[^"\\]|\\.)*)"\]')
# Prefixes of the names of a collider's inputs.
MOVES, SHAPE = "the movement of collider ", "the shape of collider "
# Prefix of the input that every influencing object has. The object itself comes first.
PARENT = "parent of "
# Decimals to which values are compared.
_DIGITS = 5
# Function that returns the name under which an object is reported.
Called = Callable[[bpy.types.Object], str]


def entering(
    obj: bpy.types.Object, scene: bpy.types.Scene, known_as: Mapping[bpy.types.Object, str] | None = None
) -> dict[str, str]:
    """Return digests by input name: keyframes and poses by object and bone, modifiers, mesh, weights and colliders.

    display_names: names of influencing objects where they differ from their current ones: see previous_names().
    """
    parts: dict[str, Any] = {}
    names = known_as or {}

    def put(name: str, value: object) -> None:
        parts.setdefault(name, hashlib.sha256()).update(repr(value).encode())

    def called(one: bpy.types.Object) -> str:
        return names.get(one, str(one.name))

    for source in sources(obj):
        _movement(source, source == obj, put, called)
    for modifier in obj.modifiers:
        if modifier.type in (*DEFORMING, "MIRROR") and not is_ours(modifier.name):
            put(f"modifier {modifier.name}", (modifier.show_viewport, _set(modifier, called)))
    put("the mesh", (len(obj.data.polygons), _bytes(obj.data.vertices, "co", 3)))
    if has_muscles(obj):
        _machine(obj, put, called)
    painted = [name for role in GROUPS if (name := getattr(obj.dampsim, role)) in obj.vertex_groups]
    painted += [name for name in seam_groups(obj) if obj.dampsim.kind == "CLOTH" and name not in painted]
    for name, values in zip(painted, weights(obj, painted), strict=True):
        put(f"weights of '{name}'", values.tobytes())
    for collider in stopping(obj, layer_of(scene)):
        _collider(collider, put)
    return {name: digest.hexdigest()[:12] for name, digest in parts.items()}


def moving(obj: bpy.types.Object) -> list[bpy.types.Object]:
    """Return the objects that influence an object's motion, itself first, in the order of input_digests()."""
    return list(dict.fromkeys([*sources(obj), *targets(obj)]))


def _machine(obj: bpy.types.Object, put: Any, called: Called) -> None:
    for one in (*obj.dampsim.muscles, *obj.dampsim.sensors):
        put("the muscles", marked(obj.data, one.attribute).tobytes())
    for part in machine_of(obj):
        put("the muscles", [called(one) if isinstance(one, bpy.types.Object) else str(one) for one in part])
    for curve in curves(obj):
        if curve.data_path.startswith("dampsim.muscles"):
            put("keyframes of the muscles", (curve.data_path, curve.mute, _keys(curve)))
    for target in targets(obj):
        _movement(target, False, put, called)


def _collider(other: bpy.types.Object, put: Any) -> None:
    moves, shape = f"{MOVES}{other.name_full}", f"{SHAPE}{other.name_full}"
    # Sources are identified by index, since names may change. Exchanging two of them changes the digest.
    places = {one: f"source {place}" for place, one in enumerate(sources(other))}

    def called(one: bpy.types.Object) -> str:
        return places.get(one, str(one.name))

    for source in places:
        # Rigs and parents move the collider, so their digests are part of its own.
        _movement(source, False, lambda name, value: put(moves, (name, value)), called)
    for modifier in other.modifiers:
        put(shape, (modifier.show_viewport, _set(modifier, called)))
    put(shape, (len(other.data.polygons), _bytes(other.data.vertices, "co", 3)))
    put(shape, (other.dampsim.baked, other.dampsim.baked_of, other.dampsim.baked_size))


def sources(obj: bpy.types.Object) -> list[bpy.types.Object]:
    """Return the object and all objects that move or deform it: parents, targets of constraints and modifiers."""
    found: dict[bpy.types.Object, None] = {}
    waiting = [obj]
    while waiting:
        one = waiting.pop()
        if one in found:
            continue
        found[one] = None
        bones = one.pose.bones if one.pose is not None else ()
        held_by = [one, *bones]
        waiting += [other for holder in held_by for c in holder.constraints for other in _targets(c)]
        waiting += [other for m in one.modifiers if not is_ours(m.name) for other in _objects(m)]
        if one.parent is not None:
            waiting.append(one.parent)
    return list(found)


def _movement(source: bpy.types.Object, own: bool, put: Any, called: Called) -> None:
    keyed, name = set[str](), called(source)
    for block in (source, source.data, getattr(source.data, "shape_keys", None)):
        if block is None or (own and block == source.data):
            continue
        for curve in curves(block):
            if curve.data_path.startswith("dampsim."):
                continue
            bone = _BONE.match(curve.data_path)
            keyed.add(curve.data_path)
            put(f"keyframes of {bone[1] if bone else name}", (curve.data_path, curve.array_index,
                curve.mute, _keys(curve)))  # fmt: skip
        data = block.animation_data
        for driver in data.drivers if data is not None else ():
            said = [(target.data_path, _said(target.id, called)) for v in driver.driver.variables
                    for target in v.targets]  # fmt: skip
            keyed.add(driver.data_path)
            put(f"drivers of {name}", (driver.data_path, driver.driver.expression, said))
        for track in data.nla_tracks if data is not None else ():
            strips = [(s.frame_start, s.frame_end, s.scale, s.blend_type, s.influence, s.mute) for s in track.strips]
            if not any(is_ours(one) for one in (track.name, *(s.name for s in track.strips))):
                put(f"NLA tracks of {name}", (track.mute, strips))
    # The transform of a rigid body is a result of its simulation at one frame.
    if source.rigid_body is None:
        put(f"place of {name}", _still(source, "", keyed))
    put(f"{PARENT}{name}", (_said(source.parent, called), source.parent_bone,
        _floats(source.matrix_parent_inverse)))  # fmt: skip
    for constraint in source.constraints:
        put(f"constraint {constraint.name} of {name}", _set(constraint, called))
    for bone in source.pose.bones if source.pose is not None else ():
        put(f"pose of {bone.name or name}", _still(bone, f"{bone.path_from_id()}.", keyed))
        for constraint in bone.constraints:
            put(f"constraint {constraint.name} of {bone.name or name}", _set(constraint, called))


def _still(one: bpy.types.Object | bpy.types.PoseBone, path: str, keyed: set[str]) -> list[object]:
    """Return the part of a transform that is not keyframed. path: prefix of its data paths."""
    turn = {"QUATERNION": "rotation_quaternion", "AXIS_ANGLE": "rotation_axis_angle"}.get(one.rotation_mode)
    names = ("location", turn or "rotation_euler", "scale")
    return [one.rotation_mode, *(_floats(getattr(one, name)) for name in names if f"{path}{name}" not in keyed)]


def _said(other: bpy.types.ID | None, called: Called) -> str:
    """Return the name of a referenced datablock; '' for None."""
    return called(other) if isinstance(other, bpy.types.Object) else str(getattr(other, "name", ""))


def _keys(curve: bpy.types.FCurve) -> bytes:
    points = curve.keyframe_points
    found = [_bytes(points, name, 2) for name in ("co", "handle_left", "handle_right")]
    modes = np.empty(len(points), dtype=np.int32)
    points.foreach_get("interpolation", modes)
    return b"".join([*found, modes.tobytes(), repr([_set(m, str) for m in curve.modifiers]).encode()])


def _bytes(collection: Any, name: str, width: int) -> bytes:
    values = np.empty(width * len(collection), dtype=np.float32)
    collection.foreach_get(name, values)
    return values.tobytes()


def _objects(struct: Any) -> Iterator[bpy.types.Object]:
    for prop in struct.bl_rna.properties:
        if prop.type == "POINTER" and isinstance(value := getattr(struct, prop.identifier), bpy.types.Object):
            yield value


def _targets(constraint: Any) -> Iterator[bpy.types.Object]:
    """Iterate over the target objects of a constraint, including poles and an Armature's targets."""
    yield from _objects(constraint)
    for one in getattr(constraint, "targets", ()):
        if one.target is not None:
            yield one.target


def _set(struct: Any, called: Called) -> list[object]:
    """Return the settings of a modifier or constraint, and the names of the objects that it refers to."""
    return [*dialled_of(struct), *(called(other) for other in _objects(struct))]


def _floats(value: Any) -> object:
    return [_floats(one) for one in value] if hasattr(value, "__len__") else round(value, _DIGITS) + 0.0
