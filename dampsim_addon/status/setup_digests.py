"""Digests of the setup behind keyframes, poses and modifiers: NLA, rest poses, bone weights, shape keys, inputs of
drivers, the order of stacks, and the shapes of objects that deform others.

An entry that is missing is no change, because records of earlier versions have none. Animated values are left out:
others cover their keyframes and drivers.
"""

from __future__ import annotations

import functools
import hashlib
import re
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from typing import Any

import bpy
import numpy as np

from ..blender.animation import (
    animated_paths,
    channelbags,
    drivers_of,
    has_keyed_points,
    is_modifier_animated,
    user_fcurves,
)
from ..blender.dampsim_names import bake_keys, bake_mark, is_output_modifier, is_output_path, is_tagged_action
from ..blender.geometry_nodes import nested_trees
from ..blender.modifiers import modifier_settings, sampled_modifiers
from ..blender.movers import node_inputs, referenced_objects
from ..blender.sampler import read_array
from .digest_run import bone_places, curves_by_path, drivers_by_path, once_per_run, weights_of

# Function that adds a value to the digest of an input.
AddDigest = Callable[[str, object], None]
# Prefixes of the entries of this module.
SETUP_PREFIXES = (
    "animation settings of ", "rest pose of ", "modifiers and constraints of ", "parenting of ", "shape of ",
    "inputs of drivers of ", "bone weights of ", "shape keys of ", "node groups of ", "details of ",
    "edges and faces of ", "objects read by drivers and nodes of ", "animation of ", "links of ",
)  # fmt: skip
_BONE = re.compile(r'bones\["((?:[^"\\]|\\.)*)"\]')
# End of the data path of a component of a vector.
_ITEM = re.compile(r"(\[\d+\]|\.[xyzw])$")
# Decimals to which values are compared.
_DIGITS = 5
_SIMPLE_TYPES = ("BOOLEAN", "INT", "FLOAT", "ENUM")
# Prefixes of settings that have no effect on motion, and names of those that follow from others.
_DISPLAY_PREFIXES = ("show_", "is_", "select", "hide", "use_pin_to_last", "color")
_BONE_NAMES = (
    "use_deform", "use_inherit_rotation", "inherit_scale", "use_local_location", "use_relative_parent",
    "use_envelope_multiply", "use_connect", "envelope_distance", "envelope_weight", "head_radius", "tail_radius",
)  # fmt: skip
_POSE_PREFIXES = ("bbone_", "ik_", "lock_ik_", "use_ik_")
_DELTA_NAMES = ("delta_location", "delta_rotation_euler", "delta_rotation_quaternion", "delta_scale")
# Parts of the data paths of drivers whose values follow from others, or change with the frame.
_DERIVED_PATHS = ("matrix_", "frame_", "dimensions", "bound_box", "eval_time")
_SHAPED_TYPES = ("MESH", "LATTICE", "CURVE", "SURFACE")
# Constraints that read the shape of their target.
_SHAPE_CONSTRAINTS = ("FOLLOW_PATH", "CLAMP_TO", "SHRINKWRAP", "SPLINE_IK")


def digest_setup(obj: bpy.types.Object, sources: dict[bpy.types.Object, str], add_digest: AddDigest) -> None:
    """Add the digests of an object's setup. sources: the objects that move it, itself first, with their names."""
    name = sources[obj]
    digest_source_setups(sources, add_digest, obj)
    add_digest(f"modifiers and constraints of {name}", [modifier.name for modifier in sampled_modifiers(obj)])
    add_digest(f"bone weights of {name}", used_weights(obj))
    add_digest(f"shape keys of {name}", key_values(obj.data))


def digest_source_setups(
    sources: dict[bpy.types.Object, str], add_digest: AddDigest, moved: bpy.types.Object | None
) -> None:
    """Add the digests of the setups of the objects that move another one.

    sources: with their names.  moved: that one, None if it is not among them. Other digests cover its own shape and
    modifiers.
    """
    shaping = set(_shaping_objects(sources))
    for source, name in sources.items():
        blocks = [one for one in (source, source.data, getattr(source.data, "shape_keys", None)) if one is not None]
        for block in blocks:
            add_digest(f"animation settings of {name}", list(_animation_settings(block)))
            add_digest(f"inputs of drivers of {name}", list(_driver_inputs(block)))
        add_digest(f"modifiers and constraints of {name}", _stacks(source, source != moved))
        add_digest(f"parenting of {name}", _parenting(source))
        for modifier in source.modifiers:
            if modifier.type == "NODES" and not is_output_modifier(modifier):
                add_digest(f"node groups of {name}", _node_values(modifier))
        if source.type == "ARMATURE":
            add_digest(f"rest pose of {name}", _rest_pose(source))
        if source in shaping and source != moved and source.type in _SHAPED_TYPES:
            add_digest(f"shape of {name}", _shape_values(source.data))
            add_digest(f"shape of {name}", (source.dampsim.baked, source.dampsim.baked_of))


def replace_bone_names(path: str, places: Mapping[str, int]) -> str:
    """Return a data path with the places of bones instead of their names, since Blender renames both together."""

    def place_text(match: re.Match[str]) -> str:
        place = places.get(bpy.utils.unescape_identifier(match[1]))
        return match[0] if place is None else f"bones[{place}]"

    return _BONE.sub(place_text, path) if places else path


def _shaping_objects(sources: Iterable[bpy.types.Object]) -> Iterator[bpy.types.Object]:
    """Iterate over objects whose shape moves another one, by modifiers, constraints or as vertex parents."""
    for source in sources:
        bones = source.pose.bones if source.pose is not None else ()
        holders = [m for m in source.modifiers if not is_output_modifier(m)]
        holders += [c for one in (source, *bones) for c in one.constraints if c.type in _SHAPE_CONSTRAINTS]
        for holder in holders:
            yield from referenced_objects(holder)
        if source.parent is not None and source.parent_type.startswith(("VERTEX", "LATTICE", "CURVE")):
            yield source.parent


def _animation_settings(block: bpy.types.ID) -> Iterator[object]:
    """Iterate over the settings of a datablock's animation beyond its keyframes."""
    data = block.animation_data
    if data is None:
        return
    # Bakes create animation data, and tracks of their own.
    plain = (data.use_nla, round(data.action_influence, _DIGITS), data.action_blend_type, data.action_extrapolation)
    if plain != (True, 1.0, "REPLACE", "HOLD"):
        yield plain
    if data.action is not None and not is_tagged_action(data.action):
        yield data.action_slot_handle, [len(bag.fcurves) for bag in channelbags(block)]
    for track in data.nla_tracks:
        strips = user_strips(track)
        if strips or track.is_solo:
            yield track.mute, track.is_solo, [_strip_settings(strip) for strip in strips]
    for curve in user_fcurves(block):
        if not is_output_path(block, curve.data_path) and not curve.data_path.startswith("dampsim."):
            yield curve.extrapolation, list(_easings(curve))


def user_strips(track: bpy.types.NlaTrack) -> list[Any]:
    """Return the strips of an NLA track without those of a bake, which are an output."""
    return [strip for strip in track.strips if strip.action is None or not is_tagged_action(strip.action)]


def _strip_settings(strip: Any) -> object:
    curves = [(curve.data_path, curve.mute, keyframe_points(curve)) for curve in strip.fcurves]
    handle = strip.action_slot.handle if strip.action_slot is not None else 0
    # Animated time and influence are results.
    animated = {curve.data_path for curve in strip.fcurves}
    return (
        [one for one in _simple_settings(strip) if one[0] not in animated],
        handle,
        curves,
        [_strip_settings(one) for one in strip.strips],
    )


def keyframe_points(curve: bpy.types.FCurve) -> bytes:
    """Return the keyframes of a curve and their handles."""
    return b"".join(array_bytes(curve.keyframe_points, name, 2) for name in ("co", "handle_left", "handle_right"))


def _easings(curve: bpy.types.FCurve) -> Iterator[object]:
    """Iterate over the settings of the keyframes' easing, where they have one."""
    for key in curve.keyframe_points:
        if key.interpolation not in ("CONSTANT", "LINEAR", "BEZIER"):
            yield key.easing, *(round(value, _DIGITS) for value in (key.amplitude, key.period, key.back))


def _stacks(source: bpy.types.Object, has_modifiers: bool) -> object:
    """Return the order of the constraints of an object, and its modifiers if no other digest covers them."""
    bones = source.pose.bones if source.pose is not None else ()
    orders = [tuple(c.name for c in one.constraints) for one in (source, *bones) if len(one.constraints) > 1]
    own = [m for m in source.modifiers if has_modifiers and not is_output_modifier(m)]
    plain = [m for m in own if not is_modifier_animated(m)]
    return orders, [m.name for m in own], [(m.show_viewport, *modifier_settings(m)) for m in plain]


def _node_values(modifier: Any) -> object:
    """Return the inputs of a Geometry Nodes modifier and the nodes of its tree, without animated values."""
    values = [] if is_modifier_animated(modifier) else node_inputs(modifier)
    # Blender saves switches of the inputs as numbers.
    inputs = [_plain_value(int(value) if isinstance(value, bool) else value) for value in values]
    return inputs, [digest_tree(tree) for tree in nested_trees(modifier.node_group)]


def digest_tree(tree: Any) -> object:
    """Return the nodes, values, links, keyframes and drivers of a node tree, without animated values."""
    animated = set(animated_paths(tree))
    nodes = []
    for node in tree.nodes:
        prefix = f'nodes["{bpy.utils.escape_identifier(node.name)}"].inputs'
        sockets = [
            _plain_value(getattr(socket, "default_value", None))
            for place, socket in enumerate(node.inputs)
            if f"{prefix}[{place}].default_value" not in animated
        ]
        own = [value for value in _simple_settings(node) if value[0] not in _node_names()]
        nodes.append((node.bl_idname, node.mute, sockets, own))
    places = {node.name: place for place, node in enumerate(tree.nodes)}
    links = sorted(
        (places[one.from_node.name], one.from_socket.identifier, places[one.to_node.name], one.to_socket.identifier)
        for one in tree.links
        if not one.is_muted
    )
    curves = [(curve.data_path, curve.array_index, curve.mute, keyframe_points(curve)) for curve in user_fcurves(tree)]
    return nodes, links, curves, list(_driver_inputs(tree))


@functools.cache
def _node_names() -> set[str]:
    """Return the names of the settings that all nodes have, such as their place in the editor."""
    return {prop.identifier for prop in bpy.types.Node.bl_rna.properties}


def _plain_value(value: Any) -> object:
    """Return a value of a socket: its numbers, or the name of a datablock."""
    if isinstance(value, bpy.types.ID):
        # The digests of objects have their own names.
        return type(value).__name__
    return value if isinstance(value, (bool, int, str)) or value is None else rounded(value)


def _parenting(source: bpy.types.Object) -> object:
    """Return how an object follows its parent, and its delta transform."""
    keyed = set(animated_paths(source))
    deltas = [rounded(getattr(source, name)) for name in _DELTA_NAMES if name not in keyed]
    return source.parent_type, tuple(source.parent_vertices), deltas


def _rest_pose(rig: bpy.types.Object) -> object:
    """Return the bones of an armature as modelled, and the settings of their poses that no other digest covers."""
    keyed, keyed_data = set(animated_paths(rig)), set(animated_paths(rig.data))
    bones = [bone for bone in rig.data.bones if not bake_mark(bone)]
    places = {bone.name: place for place, bone in enumerate(bones)}
    found: list[object] = [rig.data.pose_position]
    for bone in bones:
        plain = [rounded(getattr(bone, name)) for name in (*_BONE_NAMES, "matrix_local", "length")]
        parent = places[bone.parent.name] if bone.parent is not None else -1
        found.append((parent, plain, _simple_settings(bone, ("bbone_",), keyed_data)))
    user_bones = [bone for bone in rig.pose.bones if not bake_mark(bone.bone)]
    return found + [_simple_settings(bone, _POSE_PREFIXES, keyed) for bone in user_bones]


@once_per_run
def used_weights(obj: Any) -> str:
    """Return a digest of the weights of all vertex groups that modifiers use."""
    names = {
        getattr(modifier, prop.identifier)
        for modifier in obj.modifiers
        if not is_output_modifier(modifier)
        for prop in modifier.bl_rna.properties
        if prop.type == "STRING" and prop.identifier.startswith("vertex_group")
    }
    armatures = [m for m in obj.modifiers if m.type == "ARMATURE" and not is_output_modifier(m)]
    rigs = [m.object for m in armatures if m.object is not None]
    rigs += [obj.parent] if obj.parent is not None and obj.parent_type == "ARMATURE" else []
    # Blender renames the groups of bones together with these.
    labels = {name: name for name in names}
    for number, rig in enumerate(rig for rig in rigs if rig.type == "ARMATURE"):
        places = bone_places(rig)
        labels |= {
            bone.name: f"bone {places[bone.name]} of rig {number}" if bone.name in places else bone.name
            for bone in rig.data.bones
            if bone.use_deform
        }
    used = sorted((labels[group.name], group.name) for group in obj.vertex_groups if group.name in labels)
    if not used:
        return ""
    digest = hashlib.sha256(repr([label for label, _ in used]).encode())
    for column in weights_of(obj).in_groups([obj.vertex_groups[name].index for _, name in used]):
        digest.update(column.tobytes())
    return digest.hexdigest()


def group_weights(obj: bpy.types.Object, names: Iterable[str]) -> str:
    """Return a digest of the weights of a mesh in some of its vertex groups; '' for none."""
    indices = [obj.vertex_groups[name].index for name in names]
    columns = weights_of(obj).in_groups(indices) if indices else ()
    return hashlib.sha256(b"".join(one.tobytes() for one in columns)).hexdigest() if indices else ""


def _shape_values(data: Any) -> object:
    """Return the shape of a mesh, lattice or curve, with the user's shape keys."""
    keys = getattr(data, "shape_keys", None)
    points = array_bytes(keys.reference_key.points, "co", 3) if keys is not None else _rest_points(data)
    # Other digests cover the keyframes of points.
    return None if keys is None and has_keyed_points(data) else points, key_values(data)


def key_values(data: Any) -> list[object]:
    """Return the user's shape keys of a mesh, lattice or curve, and their settings."""
    keys = getattr(data, "shape_keys", None)
    if keys is None:
        return []
    found: list[object] = []
    # Scripts can change the basis alone, and then Blender plays it instead of the vertices.
    basis = array_bytes(keys.reference_key.points, "co", 3)
    if isinstance(data, bpy.types.Mesh) and basis != _rest_points(data):
        found.append(basis)
    keyed = set(animated_paths(keys))
    ours = bake_keys(keys)
    blocks = [key for key in keys.key_blocks if key != keys.reference_key and key not in ours]
    places = {key.name: place for place, key in enumerate(blocks)}
    for key in blocks:
        value = None if key.path_from_id("value") in keyed else round(key.value, _DIGITS)
        relative = places.get(key.relative_key.name, -1) if key.relative_key is not None else -1
        found.append((value, key.mute, key.vertex_group, relative, array_bytes(key.points, "co", 3)))
    if blocks:
        found.append((keys.use_relative, None if "eval_time" in keyed else round(keys.eval_time, _DIGITS)))
    return found


def _rest_points(data: Any) -> object:
    if isinstance(data, bpy.types.Mesh):
        return array_bytes(data.vertices, "co", 3)
    if isinstance(data, bpy.types.Lattice):
        return array_bytes(data.points, "co_deform", 3)
    if isinstance(data, bpy.types.Curve):
        beziers = [
            (p.co[:], p.handle_left[:], p.handle_right[:], p.tilt) for s in data.splines for p in s.bezier_points
        ]
        points = [(p.co[:], p.tilt) for s in data.splines for p in s.points]
        keyed = animated_paths(data)
        settings = [(name, value) for name, value in _simple_settings(data) if name not in keyed]
        return rounded([beziers, points]), [(s.use_cyclic_u, s.order_u) for s in data.splines], settings
    return None


def _driver_inputs(block: bpy.types.ID) -> Iterator[object]:
    """Iterate over the settings of the drivers of a datablock, and the values and keyframes that they read."""
    for curve in drivers_of(block):
        yield from driver_values(curve)


def driver_values(curve: bpy.types.FCurve) -> Iterator[object]:
    """Iterate over the settings of a driver, and the values and keyframes that it reads."""
    path = replace_bone_names(curve.data_path, bone_places(curve.id_data))
    yield path, curve.mute, curve.driver.type, [modifier_settings(one) for one in curve.modifiers]
    yield keyframe_points(curve)
    for variable in curve.driver.variables:
        yield variable.type
        for target in variable.targets:
            settings = [value for name, value in _simple_settings(target) if name != "id_type"]
            bone = bone_places(target.id).get(target.bone_target, target.bone_target)
            yield settings, bone, list(_read_values(target, variable.type))


def _read_values(target: Any, kind: str) -> Iterator[object]:
    """Iterate over the keyframes and the plain value that the target of a variable reads. kind: of the variable."""
    if target.id is None:
        return
    block, path = _read_property(target) if kind == "SINGLE_PROP" else (target.id, "")
    keyed = (
        [_keyed_value(one, block) for one in curves_by_path(block).find_starts(path)]
        if path
        else _all_keyed_values(block)
    )
    is_keyed = bool(keyed)
    yield from keyed
    if not path and isinstance(block, bpy.types.Object):
        names = ("location", "rotation_euler", "rotation_quaternion", "scale")
        pose = block.pose.bones if block.pose is not None else ()
        bone = next((one for one in pose if one.name == target.bone_target), None)
        yield [] if is_keyed else [rounded(getattr(one, name)) for one in (block, bone) if one for name in names]
    elif path and not is_keyed and not _drivers_of_property(block, path) and not _is_derived(path):
        try:
            value = target.id.path_resolve(target.data_path)
        except (ValueError, TypeError):
            return
        if isinstance(value, (bool, int, float)):
            yield round(value, _DIGITS)


@once_per_run
def _all_keyed_values(block: Any) -> list[object]:
    return [_keyed_value(curve, block) for curve in user_fcurves(block)]


def _keyed_value(curve: bpy.types.FCurve, block: bpy.types.ID) -> object:
    return (
        replace_bone_names(curve.data_path, bone_places(block)),
        curve.array_index,
        curve.mute,
        keyframe_points(curve),
    )


def _is_derived(path: str) -> bool:
    return any(part in path for part in _DERIVED_PATHS)


def _read_property(target: Any) -> tuple[bpy.types.ID, str]:
    """Return the datablock of the property that a variable reads, and its data path in there."""
    path = _ITEM.sub("", target.data_path)
    try:
        prop = target.id.path_resolve(path, False)
        return prop.id_data, str(prop.path_from_id())
    except (ValueError, TypeError, AttributeError):
        return target.id, str(target.data_path)


def _drivers_of_property(block: bpy.types.ID, path: str) -> list[bpy.types.FCurve]:
    return drivers_by_path(block).find_starts(path)


def drivers_of_object(source: bpy.types.Object) -> list[bpy.types.FCurve]:
    """Return the drivers of an object, its data and shape keys, and the node trees and textures of its modifiers."""
    trees = [tree for m in source.modifiers if m.type == "NODES" for tree in nested_trees(m.node_group)]
    textures = [getattr(m, name, None) for m in source.modifiers for name in ("texture", "mask_texture")]
    blocks = [source, source.data, getattr(source.data, "shape_keys", None), *trees, *textures]
    return [curve for block in blocks if block is not None for curve in drivers_of(block)]


def driver_chain(drivers: Iterable[bpy.types.FCurve]) -> tuple[list[object], list[bpy.types.Object]]:
    """Return the inputs of the drivers that some drivers read, and the objects whose motion they read."""
    queue, visited = list(drivers), set[tuple[int, str, int]]()
    found, objects, own = list[object](), dict[bpy.types.Object, None](), {one.id_data.session_uid for one in queue}
    while queue:
        curve = queue.pop()
        key = curve.id_data.session_uid, curve.data_path, curve.array_index
        if key in visited:
            continue
        visited.add(key)
        for kind, target in [(one.type, target) for one in curve.driver.variables for target in one.targets]:
            if kind == "CONTEXT_PROP":
                found.append(list(_context_values(target)))
            elif isinstance(target.id, bpy.types.Object) and (kind != "SINGLE_PROP" or _is_derived(target.data_path)):
                objects[target.id] = None
            elif target.id is not None:
                block, path = _read_property(target)
                inner = _drivers_of_property(block, path)
                found += [(one.driver.expression, list(driver_values(one))) for one in inner]
                found += list(_strips(block)) if block.session_uid not in own else []
                queue += inner
    return found, list(objects)


def _context_values(target: Any) -> Iterator[object]:
    """Iterate over the value or the keyframes of a property of the active scene that the target of a variable reads."""
    scene, path = bpy.context.scene, target.data_path
    if target.context_property != "ACTIVE_SCENE" or _is_derived(path):
        return
    keyed = [curve for curve in user_fcurves(scene) if path.startswith(curve.data_path)]
    yield [(curve.array_index, curve.mute, keyframe_points(curve)) for curve in keyed]
    try:
        value = None if keyed or _drivers_of_property(scene, path) else scene.path_resolve(path)
    except (ValueError, TypeError):
        return
    if isinstance(value, (bool, int, float)):
        yield round(value, _DIGITS)


def _strips(block: bpy.types.ID) -> Iterator[object]:
    """Iterate over the settings of the NLA strips of a datablock."""
    tracks = block.animation_data.nla_tracks if block.animation_data is not None else ()
    for track in tracks:
        yield track.mute, track.is_solo, [_strip_settings(strip) for strip in user_strips(track)]


def _simple_settings(
    struct: Any, only: tuple[str, ...] = ("",), keyed: Collection[str] = ()
) -> list[tuple[str, object]]:
    """Return the names and values of the plain editable settings of a struct.

    only: prefixes of their names.  keyed: data paths of those that are left out.
    """
    path = f"{struct.path_from_id()}." if keyed else ""
    names = [name for name in _setting_names(type(struct), only) if f"{path}{name}" not in keyed]
    return [(name, rounded(getattr(struct, name))) for name in names]


@functools.cache
def _setting_names(kind: type, only: tuple[str, ...]) -> list[str]:
    return [
        prop.identifier
        for prop in kind.bl_rna.properties
        if prop.type in _SIMPLE_TYPES
        and not prop.is_readonly
        and prop.identifier.startswith(only)
        and not prop.identifier.startswith(_DISPLAY_PREFIXES)
    ]


def array_bytes(collection: Any, name: str, width: int) -> bytes:
    """Return a property of all items of a collection, in single precision."""
    return read_array(collection, name, np.float32, width).tobytes()


def rounded(value: Any) -> object:
    """Return a value with all its numbers rounded to the precision of comparisons."""
    if isinstance(value, (str, bool, int)) or value is None:
        return value
    if isinstance(value, float):
        return round(value, _DIGITS) + 0.0
    return sorted(value) if isinstance(value, set) else [rounded(one) for one in value]
