"""Digests of the details behind modifiers, constraints and nodes: names of bones and groups, curves, textures, actions,
files and physics.

They complete those of bake_inputs and setup_digests, in entries of their own. Values that these cover are left out, and
so are animated ones.
"""

from __future__ import annotations

import functools
import hashlib
import re
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

import bpy
import numpy as np

from ..blender.animation import (
    animated_paths,
    drivers_of,
    has_keyed_attributes,
    has_keyed_points,
    is_modifier_animated,
    stack_paths,
    user_fcurves,
)
from ..blender.dampsim_names import bake_keys, is_output_modifier
from ..blender.geometry_nodes import nested_trees
from ..blender.modifiers import modifier_settings, sampled_modifiers
from ..blender.movers import node_inputs, referenced_objects
from ..blender.sampler import read_array
from .digest_run import bone_places
from .setup_digests import AddDigest, digest_tree, group_weights, keyframe_points, rounded, used_weights

# Names of the objects that move another one, by which they are compared.
Names = Mapping[bpy.types.Object, str]
_PLAIN_TYPES = ("BOOLEAN", "INT", "FLOAT", "ENUM")
# Settings without effect on motion, and beginnings of their names.
_NO_EFFECT = {
    "name", "tag", "id_type", "filepath_raw", "animation_data", "original", "library", "override_library", "asset_data",
    "preview", "library_weak_reference", "point_cache", "shape_keys",
}  # fmt: skip
_NO_EFFECT_PREFIXES = (
    "rna_",
    "bl_",
    "show_",
    "is_",
    "select",
    "hide",
    "active",
    "use_fake",
    "use_extra",
    "ui_",
    "color_",
)
# Structs that are results, or too large to be read.
_SKIPPED_TYPES = ("PointCache", "ParticleSystem", "Depsgraph", "FluidDomainSettings")
_SKIPPED_COLLECTIONS = (
    "body_format",
    "background_images",
    "object_paths",
    "particles",
    "child_particles",
    "bakes",
    "node_warnings",
    "panels",
)
# Datablocks whose own settings count, without those that they refer to.
_FILE_TYPES = (bpy.types.MovieClip, bpy.types.CacheFile, bpy.types.Volume)
# Modifiers through which the weights of another object may reach their own.
_WEIGHT_READERS = ("ARRAY", "BOOLEAN", "DATA_TRANSFER", "NODES", "PARTICLE_INSTANCE")
# Beginning of the data path of a setting of a modifier or constraint: the path of that one.
_STACK_ITEM = re.compile(r'.*?(?:modifiers|constraints)\["(?:[^"\\]|\\.)*"\]')
# Nested structs are read to this depth.
_MAX_DEPTH = 5


def digest_details(sources: Names, add_digest: AddDigest, simulated: bpy.types.Object | None = None) -> None:
    """Add the digests of the details of the objects that move another one.

    sources: with their names.  simulated: that one, of which only sampled modifiers count; None for a collider.
    """
    read = dict.fromkeys(one for source in sources for one in _weight_sources(source, source == simulated))
    for source, name in sources.items():
        add_digest(f"details of {name}", list(_details(source, sources, source == simulated)))
        if isinstance(source.data, bpy.types.Mesh):
            add_digest(f"edges and faces of {name}", _connections(source.data))
    for other in [one for one in read if one != simulated]:
        name = sources.get(other, str(other.name))
        add_digest(f"details of {name}", group_weights(other, _group_names(other)))


def _felt_modifiers(source: bpy.types.Object, is_simulated: bool) -> list[bpy.types.Modifier]:
    """Return the modifiers of an object that move another one. is_simulated: only those that are sampled."""
    felt = sampled_modifiers(source) if is_simulated else source.modifiers
    return [one for one in felt if not is_output_modifier(one)]


def _weight_sources(source: bpy.types.Object, is_simulated: bool) -> Iterator[bpy.types.Object]:
    """Iterate over other meshes of which an object's modifiers may read any vertex group."""
    for modifier in _felt_modifiers(source, is_simulated):
        is_reader = modifier.type in _WEIGHT_READERS
        if isinstance(modifier, bpy.types.DataTransferModifier):
            is_reader = modifier.use_vert_data and "VGROUP_WEIGHTS" in modifier.data_types_verts
        if is_reader:
            others = [one for one in referenced_objects(modifier) if one != source]
            yield from [one for one in others if isinstance(one.data, bpy.types.Mesh)]


def _group_names(obj: bpy.types.Object) -> list[str]:
    return [str(group.name) for group in obj.vertex_groups]


def _details(source: bpy.types.Object, names: Names, is_simulated: bool) -> Iterator[object]:
    bones, keyed = source.pose.bones if source.pose is not None else (), _keyed_items(source)
    for constraint in [constraint for one in (source, *bones) for constraint in one.constraints]:
        yield _stack_values(constraint, names, keyed), list(_target_weights(constraint))
    for modifier in _felt_modifiers(source, is_simulated):
        if modifier.type == "NODES":
            yield list(_node_details(modifier, names))
            continue
        yield _stack_values(modifier, names, keyed)
        if is_modifier_animated(modifier):
            yield modifier_settings(modifier, animated_paths(source))
        if modifier.type == "HOOK":
            yield list(modifier.vertex_indices)
        if modifier.type == "PARTICLE_SYSTEM":
            yield _block_values(modifier.particle_system.settings, names)
        if getattr(modifier, "texture_coords", "") == "UV":
            yield _texture_coordinates(source.data, modifier.uv_layer)
    yield list(_key_limits(source))
    yield list(_data_details(source, names, is_simulated))
    yield list(_rigid_bodies(source, names))


def _data_details(source: bpy.types.Object, names: Names, is_simulated: bool) -> Iterator[object]:
    """Iterate over the details of an object's data, which move another one."""
    data = source.data
    if source.type == "MESH" and not is_simulated:
        yield used_weights(source), group_weights(source, _further_groups(source))
    elif source.type == "LATTICE":
        yield _point_weights(source), source.vertex_groups.find(data.vertex_group)
    elif source.type == "ARMATURE":
        places = bone_places(source)
        handles = [(one.bbone_custom_handle_start, one.bbone_custom_handle_end) for one in data.bones]
        yield [[places.get(bone.name) for bone in pair if bone is not None] for pair in handles if any(pair)]
    elif isinstance(data, bpy.types.Curve):
        yield [list(_struct_values(one, names, (), "", _MAX_DEPTH)) for one in data.splines]
        if not has_keyed_points(data):
            points = [one for spline in data.splines for one in (*spline.points, *spline.bezier_points)]
            yield [rounded(one.radius) for one in points]
    elif isinstance(data, (bpy.types.Curves, bpy.types.PointCloud)) and "position" in data.attributes:
        yield _attribute_bytes(data.attributes["position"])
    elif source.type == "GREASEPENCIL":
        drawings = [(one.frame_number, one.drawing.attributes) for layer in data.layers for one in layer.frames]
        yield [(number, _attribute_bytes(one["position"])) for number, one in drawings if "position" in one]
    if source.type in ("LATTICE", "FONT", "META", "CAMERA", "VOLUME"):
        depth = 1 if source.type in ("FONT", "META") else _MAX_DEPTH
        yield list(_struct_values(data, names, animated_paths(data), "", depth))


# Settings of structs.


def _struct_values(
    struct: Any, names: Names, keyed: Sequence[str], path: str = "", depth: int = 0
) -> Iterator[tuple[str, object]]:
    """Iterate over the settings of a struct and those in it. Other digests cover the plain ones of the outermost.

    keyed: data paths of animated settings, which are left out.
    path: data path of the struct, with a dot, which Blender itself does not know of every struct.
    """
    for name, kind in _setting_kinds(type(struct)):
        if any(one.startswith(f"{path}{name}") for one in keyed):
            continue
        if kind in _PLAIN_TYPES and depth:
            yield name, rounded(getattr(struct, name))
        elif kind in ("STRING", "FILE"):
            text = str(getattr(struct, name))
            yield name, _file_name(text) if kind == "FILE" else _label(struct, text)
        elif kind == "POINTER":
            yield name, _pointer_value(getattr(struct, name), names, keyed, f"{path}{name}.", depth)
        elif kind == "COLLECTION" and depth < _MAX_DEPTH:
            items = [one for one in getattr(struct, name) if isinstance(one, bpy.types.bpy_struct)]
            # Animation of one item leaves out all of them.
            yield name, [list(_struct_values(one, names, keyed, f"{path}{name}[].", depth + 1)) for one in items]


def _keyed_items(source: bpy.types.Object) -> Mapping[str, list[str]]:
    """Return the data paths of the animated settings of modifiers and constraints, by the paths of these."""
    found = defaultdict[str, list[str]](list)
    for path in stack_paths(source):
        item = _STACK_ITEM.match(path)
        if item is not None:
            found[item[0]].append(path)
    return found


def _stack_values(struct: Any, names: Names, keyed: Mapping[str, Sequence[str]]) -> list[object]:
    """Return the settings of a modifier or constraint. keyed: see _keyed_items()."""
    path = struct.path_from_id()
    return list(_struct_values(struct, names, keyed.get(path, ()), f"{path}."))


@functools.cache
def _setting_kinds(kind: type) -> list[tuple[str, str]]:
    """Return the names and the types of the settings of a struct that count; FILE for paths of files."""
    found = []
    for prop in kind.bl_rna.properties:  # type: ignore[attr-defined]
        name = prop.identifier
        is_idle = name in _NO_EFFECT or name.startswith(_NO_EFFECT_PREFIXES)
        is_skipped = prop.type in ("POINTER", "COLLECTION") and (
            name in _SKIPPED_COLLECTIONS or prop.fixed_type.identifier in _SKIPPED_TYPES
        )
        if (
            (is_idle and name != "color_ramp")
            or is_skipped
            or (prop.is_readonly and prop.type in (*_PLAIN_TYPES, "STRING"))
        ):
            continue
        is_file = prop.type == "STRING" and prop.subtype in ("FILE_PATH", "DIR_PATH", "FILEPATH", "DIRPATH")
        found.append((name, "FILE" if is_file else prop.type))
    return found


def _file_name(path: str) -> str:
    """Return the name of a file without its folders, which differ after a project was moved."""
    # Blender stores an empty path of a volume as "..".
    return path.replace("\\", "/").rstrip("./").rpartition("/")[2]


def _label(struct: Any, text: str) -> object:
    """Return a text, or the place of the bone or vertex group that it names, since these can be renamed."""
    if not text:
        return text
    owners = [getattr(struct, name, None) for name in ("target", "object", "pole_target")]
    for owner in [one for one in owners if isinstance(one, bpy.types.Object)]:
        if (place := bone_places(owner).get(text)) is not None:
            return "bone", place
    for owner in [one for one in (struct.id_data, *owners) if isinstance(one, bpy.types.Object)]:
        if (place := owner.vertex_groups.find(text)) >= 0:
            return "group", place
    return text


def _pointer_value(value: Any, names: Names, keyed: Sequence[str], path: str, depth: int) -> object:
    if value is None or depth >= _MAX_DEPTH:
        return ""
    if isinstance(value, bpy.types.ID):
        return _block_values(value, names)
    return list(_struct_values(value, names, keyed, path, depth + 1))


def _block_values(block: bpy.types.ID | None, names: Names) -> object:
    """Return the content of a datablock to which something refers, by which it can be told from others."""
    if isinstance(block, bpy.types.Object):
        return names.get(block, "")
    if isinstance(block, bpy.types.Action):
        bags = [bag for layer in block.layers for strip in layer.strips for bag in strip.channelbags]
        return [(c.data_path, c.array_index, c.mute, keyframe_points(c)) for bag in bags for c in bag.fcurves]
    if isinstance(block, bpy.types.NodeTree):
        return digest_tree(block)
    if isinstance(block, bpy.types.Image):
        made = (rounded(block.generated_color), *block.size) if block.source == "GENERATED" else ()
        return block.source, _file_name(block.filepath) or block.name, made
    if isinstance(block, _FILE_TYPES):
        kinds = [(name, kind) for name, kind in _setting_kinds(type(block)) if kind in (*_PLAIN_TYPES, "FILE")]
        keyed = animated_paths(block)
        values = [(n, _file_name(getattr(block, n)) if k == "FILE" else rounded(getattr(block, n))) for n, k in kinds]
        return [one for one in values if one[0] not in keyed]
    if isinstance(block, bpy.types.Collection):
        return rounded(block.instance_offset)
    if isinstance(block, (bpy.types.Texture, bpy.types.ParticleSettings)):
        return list(_struct_values(block, names, animated_paths(block), "", 1)), _animation(block)
    return type(block).__name__


def _animation(block: bpy.types.ID) -> object:
    """Return the keyframes and the drivers of a datablock."""
    curves = [(one.data_path, one.array_index, one.mute, keyframe_points(one)) for one in user_fcurves(block)]
    return curves, [(one.data_path, one.mute, one.driver.expression) for one in drivers_of(block)]


def effector_values(obj: bpy.types.Object) -> list[object]:
    """Return the settings of an object that acts on Blender's own simulations as a force field or by collisions."""
    keyed = animated_paths(obj)
    return [
        _pointer_value(getattr(obj, name), {}, keyed, f"{name}.", _MAX_DEPTH - 1) for name in ("field", "collision")
    ]


# Vertices.


def _connections(mesh: bpy.types.Mesh) -> str:
    """Return a digest of the edges and of the corners of the faces of a mesh."""
    pairs, order = mesh.attributes.get(".edge_verts"), mesh.attributes.get(".corner_vert")
    if pairs is not None and order is not None and not mesh.is_editmode:
        # Reading attributes is a plain memory copy.
        edges, corners = read_array(pairs.data, "value", np.int32, 2), read_array(order.data, "value", np.int32)
    else:
        edges = read_array(mesh.edges, "vertices", np.int32, 2)
        corners = read_array(mesh.loops, "vertex_index", np.int32)
    return hashlib.sha256(edges.tobytes() + corners.tobytes()).hexdigest()


def _target_weights(constraint: Any) -> Iterator[object]:
    """Iterate over the weights of the vertex groups that a constraint follows."""
    for kind in ("target", "pole_target"):
        target, name = getattr(constraint, kind, None), getattr(constraint, kind.replace("target", "subtarget"), "")
        if target is not None and target.type in ("MESH", "LATTICE") and name in target.vertex_groups:
            yield group_weights(target, [name]) if target.type == "MESH" else _point_weights(target)


def _further_groups(source: bpy.types.Object) -> list[str]:
    """Return the vertex groups that shape keys, particles and settings within modifiers of a mesh name."""
    keys = getattr(source.data, "shape_keys", None)
    structs = [one for one in _felt_modifiers(source, False) if one.type != "NODES"]
    texts = {text for struct in (*structs, *source.particle_systems) for text in _texts(struct)}
    texts |= {key.vertex_group for key in keys.key_blocks} if keys is not None else set()
    return [name for name in _group_names(source) if name in texts]


def _texts(struct: Any, depth: int = 0) -> Iterator[str]:
    """Iterate over the texts among the settings of a struct and those in it."""
    for name, kind in _setting_kinds(type(struct)):
        value = getattr(struct, name)
        if kind == "STRING":
            yield value
        elif kind in ("POINTER", "COLLECTION") and depth < _MAX_DEPTH:
            inner = [value] if kind == "POINTER" else value
            for one in [one for one in inner if isinstance(one, bpy.types.bpy_struct)]:
                if not isinstance(one, bpy.types.ID):
                    yield from _texts(one, depth + 1)


def _point_weights(lattice: bpy.types.Object) -> object:
    """Return the weights of the points of a lattice by the indices of their groups."""
    return [[(one.group, rounded(one.weight)) for one in point.groups] for point in lattice.data.points]


def _texture_coordinates(mesh: Any, name: str) -> bytes:
    layers = getattr(mesh, "uv_layers", None)
    layer = (layers.get(name) or layers.active) if layers else None
    return b"" if layer is None else read_array(layer.uv, "vector", np.float32, 2).tobytes()


def _key_limits(source: bpy.types.Object) -> Iterator[object]:
    """Iterate over the limits of shape keys, and the key that an object shows alone."""
    keys = getattr(source.data, "shape_keys", None)
    ours = bake_keys(keys)
    for key in [one for one in (keys.key_blocks if keys is not None else ()) if one not in ours]:
        yield rounded(key.slider_min), rounded(key.slider_max)
    if keys is not None and source.show_only_shape_key:
        yield source.active_shape_key_index


# Nodes.

# Attributes that nodes read without their names, by type of node.
_READ_ATTRIBUTES = {
    "GeometryNodeMaterialSelection": {"material_index"},
    "GeometryNodeInputMaterialIndex": {"material_index"},
    "GeometryNodeInputShadeSmooth": {"sharp_face"},
    "GeometryNodeInputEdgeSmooth": {"sharp_edge"},
    "GeometryNodeInputID": {"id"},
}


def _node_details(modifier: Any, names: Names) -> Iterator[object]:
    """Iterate over the datablocks, curves and ramps of Geometry Nodes, and the attributes that these read by name."""
    trees = list(nested_trees(modifier.node_group))
    sockets = [socket for tree in trees for node in tree.nodes for socket in node.inputs]
    values = [*node_inputs(modifier), *(getattr(socket, "default_value", None) for socket in sockets)]
    if is_modifier_animated(modifier):
        fixed = node_inputs(modifier, animated_paths(modifier.id_data))
        yield [rounded(one) for one in fixed if not isinstance(one, (bpy.types.ID, str))]
    yield [_block_values(one, names) for one in values if isinstance(one, bpy.types.ID)]
    texts = {one for one in values if isinstance(one, str) and one}
    read = set[str]()
    for node in [node for tree in trees for node in tree.nodes]:
        own = [one for one in _setting_kinds(type(node)) if one[0] not in _node_setting_names()]
        texts |= {str(getattr(node, name)) for name, kind in own if kind == "STRING"}
        read |= _READ_ATTRIBUTES.get(str(node.bl_idname), set())
        yield list(_node_values(node, names, own))
    yield list(_named_attributes(modifier.id_data, sorted(texts | read)))


def _node_values(node: Any, names: Names, own: Sequence[tuple[str, str]]) -> Iterator[object]:
    """Iterate over the texts, curves and ramps of a node. own: names and types of the settings of its type."""
    keyed, path = animated_paths(node.id_data), node.path_from_id()
    for name, kind in own:
        value = getattr(node, name)
        if kind == "STRING":
            yield name, value
        elif kind == "POINTER" and not isinstance(value, (bpy.types.Node, bpy.types.ID)):
            yield name, _pointer_value(value, names, keyed, f"{path}.{name}.", 0)


@functools.cache
def _node_setting_names() -> set[str]:
    """Return the names of the settings that all nodes have."""
    return {prop.identifier for prop in bpy.types.Node.bl_rna.properties}


def _named_attributes(obj: bpy.types.Object, names: Iterable[str]) -> Iterator[object]:
    """Iterate over the values of the attributes and vertex groups of a mesh."""
    if not isinstance(obj.data, bpy.types.Mesh):
        return
    is_keyed = has_keyed_attributes(obj.data)
    for name in names:
        attribute = obj.data.attributes.get(name)
        if name in obj.vertex_groups:
            yield group_weights(obj, [name])
        elif attribute is not None and name != "position" and len(attribute.data) and not is_keyed:
            yield attribute.data_type, attribute.domain, _attribute_bytes(attribute)


def _attribute_bytes(attribute: Any) -> bytes:
    if not len(attribute.data):
        return b""
    prop = next(one for one in attribute.data[0].bl_rna.properties if one.identifier in ("value", "vector", "color"))
    if prop.type == "STRING":
        return repr([one.value for one in attribute.data]).encode()
    width = max(getattr(prop, "array_length", 0), 1)
    kind = {"BOOLEAN": np.bool_, "INT": np.int32}.get(prop.type, np.float32)
    return read_array(attribute.data, prop.identifier, kind, width).tobytes()


# Rigid bodies.


def _rigid_bodies(source: bpy.types.Object, names: Names) -> Iterator[object]:
    """Iterate over the settings of the rigid body world in which an object moves, and of the bodies in it."""
    world = bpy.context.scene.rigidbody_world
    if world is None or (source.rigid_body is None and source.rigid_body_constraint is None):
        return
    yield _pointer_value(world.effector_weights, names, (), "", 0)
    yield world.enabled, rounded(world.time_scale), world.substeps_per_frame, world.solver_iterations
    for collection in (world.collection, world.constraints):
        for one in collection.objects if collection is not None else ():
            keyed = animated_paths(one)
            for name in ("rigid_body", "rigid_body_constraint"):
                yield _pointer_value(getattr(one, name), names, keyed, f"{name}.", _MAX_DEPTH - 1)
            yield _animation(one)
