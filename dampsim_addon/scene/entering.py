"""What moves and shapes an object, told apart by names an artist knows: to say what changed since a bake.

It is looked up without visiting frames: what drivers, constraints and expressions make of it is not known here, only
what they are. Whether Live's frames hold rests on the samples themselves, not on this.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterator
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
# How the parts begin that are of a collider.
MOVES, SHAPE = "the movement of collider ", "the shape of collider "
# How those begin that end with the name of what moves the object; the first of all is the object itself.
PARENT = "parent of "
OF_SOURCES = ("keyframes of ", "drivers of ", "NLA tracks of ", "place of ", PARENT, "constraint ")
# Digits of values that are compared.
_DIGITS = 5


def entering(obj: bpy.types.Object, scene: bpy.types.Scene) -> dict[str, str]:
    """Digests by what they are of, in words: keyframes and poses by object and bone, modifiers, mesh and weights; and
    the same of the colliders that stop it.
    """
    parts: dict[str, Any] = {}

    def put(name: str, value: object) -> None:
        parts.setdefault(name, hashlib.sha256()).update(repr(value).encode())

    own = sources(obj)
    for source in own:
        _movement(source, source == obj, put)
    for modifier in obj.modifiers:
        if modifier.type in (*DEFORMING, "MIRROR") and not is_ours(modifier.name):
            put(f"modifier {modifier.name}", (modifier.show_viewport, _set(modifier)))
    put("the mesh", (len(obj.data.polygons), _bytes(obj.data.vertices, "co", 3)))
    if has_muscles(obj):
        _machine(obj, put)
    painted = [name for role in GROUPS if (name := getattr(obj.dampsim, role)) in obj.vertex_groups]
    painted += [name for name in seam_groups(obj) if obj.dampsim.kind == "CLOTH" and name not in painted]
    for name, values in zip(painted, weights(obj, painted), strict=True):
        put(f"weights of '{name}'", values.tobytes())
    for collider in stopping(obj, layer_of(scene)):
        _collider(collider, put)
    return {name: digest.hexdigest()[:12] for name, digest in parts.items()}


def _machine(obj: bpy.types.Object, put: Any) -> None:
    for one in (*obj.dampsim.muscles, *obj.dampsim.sensors):
        put("the muscles", marked(obj.data, one.attribute).tobytes())
    put("the muscles", [str(one) for one in machine_of(obj)])
    for curve in curves(obj):
        if curve.data_path.startswith("dampsim.muscles"):
            put("keyframes of the muscles", (curve.data_path, curve.mute, _keys(curve)))
    for target in targets(obj):
        _movement(target, False, put)


def _collider(other: bpy.types.Object, put: Any) -> None:
    moves, shape = f"{MOVES}{other.name}", f"{SHAPE}{other.name}"
    for source in sources(other):
        # Of rigs and parents, what moves them moves it.
        _movement(source, False, lambda name, value: put(moves, (name, value)))
    for modifier in other.modifiers:
        put(shape, (modifier.show_viewport, _set(modifier)))
    put(shape, (len(other.data.polygons), _bytes(other.data.vertices, "co", 3)))
    put(shape, (other.dampsim.baked, other.dampsim.baked_of, other.dampsim.baked_size))


def sources(obj: bpy.types.Object) -> list[bpy.types.Object]:
    """The object, and all that it is held or bent by."""
    found: dict[bpy.types.Object, None] = {}
    waiting = [obj]
    while waiting:
        one = waiting.pop()
        if one in found:
            continue
        found[one] = None
        bones = one.pose.bones if one.pose is not None else ()
        held_by = [one, *bones]
        waiting += [c.target for holder in held_by for c in holder.constraints if getattr(c, "target", None)]
        waiting += [other for m in one.modifiers if not is_ours(m.name) for other in _objects(m)]
        if one.parent is not None:
            waiting.append(one.parent)
    return list(found)


def _movement(source: bpy.types.Object, own: bool, put: Any) -> None:
    keyed: set[str] = set()
    for block in (source, source.data, getattr(source.data, "shape_keys", None)):
        if block is None or (own and block == source.data):
            continue
        for curve in curves(block):
            if curve.data_path.startswith("dampsim."):
                continue
            bone = _BONE.match(curve.data_path)
            keyed.add(curve.data_path)
            put(f"keyframes of {_named(source, bone[1] if bone else '')}", (curve.data_path, curve.array_index,
                curve.mute, _keys(curve)))  # fmt: skip
        data = block.animation_data
        for driver in data.drivers if data is not None else ():
            said = [(target.data_path, getattr(target.id, "name", "")) for v in driver.driver.variables
                    for target in v.targets]  # fmt: skip
            keyed.add(driver.data_path)
            put(f"drivers of {source.name}", (driver.data_path, driver.driver.expression, said))
        for track in data.nla_tracks if data is not None else ():
            strips = [(s.frame_start, s.frame_end, s.scale, s.blend_type, s.influence, s.mute) for s in track.strips]
            if not any(is_ours(name) for name in (track.name, *(s.name for s in track.strips))):
                put(f"NLA tracks of {source.name}", (track.mute, strips))
    # Of what a rigid body simulation moves, this is of one frame.
    if source.rigid_body is None:
        put(f"place of {source.name}", _still(source, "", keyed))
    put(f"{PARENT}{source.name}", (getattr(source.parent, "name", ""), source.parent_bone,
        _floats(source.matrix_parent_inverse)))  # fmt: skip
    for constraint in source.constraints:
        put(f"constraint {constraint.name} of {source.name}", _set(constraint))
    for bone in source.pose.bones if source.pose is not None else ():
        put(f"pose of {_named(source, bone.name)}", _still(bone, f"{bone.path_from_id()}.", keyed))
        for constraint in bone.constraints:
            put(f"constraint {constraint.name} of {_named(source, bone.name)}", _set(constraint))


def _still(one: bpy.types.Object | bpy.types.PoseBone, path: str, keyed: set[str]) -> list[object]:
    """What of a place is the same at all frames. path: what keyframes' paths of it begin with."""
    turn = {"QUATERNION": "rotation_quaternion", "AXIS_ANGLE": "rotation_axis_angle"}.get(one.rotation_mode)
    names = ("location", turn or "rotation_euler", "scale")
    return [one.rotation_mode, *(_floats(getattr(one, name)) for name in names if f"{path}{name}" not in keyed)]


def _named(source: bpy.types.Object, bone: str) -> str:
    return bone or str(source.name)


def _keys(curve: bpy.types.FCurve) -> bytes:
    points = curve.keyframe_points
    found = [_bytes(points, name, 2) for name in ("co", "handle_left", "handle_right")]
    modes = np.empty(len(points), dtype=np.int32)
    points.foreach_get("interpolation", modes)
    return b"".join([*found, modes.tobytes(), repr([_set(m) for m in curve.modifiers]).encode()])


def _bytes(collection: Any, name: str, width: int) -> bytes:
    values = np.empty(width * len(collection), dtype=np.float32)
    collection.foreach_get(name, values)
    return values.tobytes()


def _objects(struct: Any) -> Iterator[bpy.types.Object]:
    for prop in struct.bl_rna.properties:
        if prop.type == "POINTER" and isinstance(value := getattr(struct, prop.identifier), bpy.types.Object):
            yield value


def _set(struct: Any) -> list[object]:
    """What is set of a modifier or constraint, and what it refers to."""
    return [*dialled_of(struct), *(other.name for other in _objects(struct))]


def _floats(value: Any) -> object:
    return [_floats(one) for one in value] if hasattr(value, "__len__") else round(value, _DIGITS) + 0.0
