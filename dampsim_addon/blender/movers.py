"""Registry of everything in Blender that can move the vertices of an object, and the references between datablocks.

Transforms are always felt: samples are taken from the evaluated matrix, so that any parent, constraint, driver, NLA
strip or rigid body counts, also of future versions. Modifiers need a choice, because some of them act after the
simulation.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator
from enum import Enum
from itertools import takewhile
from typing import Any

import bpy

from .animation import (
    animated_paths,
    driver_targets,
    drivers_of,
    has_keyed_attributes,
    has_keyed_points,
    is_animated,
    is_modifier_animated,
)
from .dampsim_names import is_output_modifier
from .geometry_nodes import modifier_effect, read_datablocks


class ModifierEffect(Enum):
    """Effect of a type of modifier on the simulated vertices."""

    # Moves vertices and keeps the topology: felt.
    MOVES = "moves"
    # Changes weights, texture coordinates, normals or faces that a later modifier may use: felt through that one.
    PREPARES = "prepares"
    # May add or remove vertices: felt where its vertices are simulated, otherwise reported if it changes over time.
    GENERATES = "generates"
    # Runs a simulation of Blender with a cache on the same mesh: reported.
    SIMULATES = "simulates"
    # Moves no vertex.
    NONE = "none"


_TYPES: dict[ModifierEffect, tuple[str, ...]] = {
    ModifierEffect.MOVES: (
        "ARMATURE", "CAST", "CORRECTIVE_SMOOTH", "CURVE", "DISPLACE", "HOOK", "LAPLACIANDEFORM", "LAPLACIANSMOOTH",
        "LATTICE", "MESH_CACHE", "MESH_DEFORM", "MESH_SEQUENCE_CACHE", "SHRINKWRAP", "SIMPLE_DEFORM", "SMOOTH",
        "SURFACE_DEFORM", "VERTEX_WEIGHT_EDIT", "VERTEX_WEIGHT_MIX", "VERTEX_WEIGHT_PROXIMITY", "VOLUME_DISPLACE",
        "WARP", "WAVE",
    ),
    ModifierEffect.PREPARES: (
        "DATA_TRANSFER", "NORMAL_EDIT", "TRIANGULATE", "UV_PROJECT", "UV_WARP", "WEIGHTED_NORMAL",
    ),
    ModifierEffect.GENERATES: (
        "ARRAY", "BEVEL", "BOOLEAN", "BUILD", "DECIMATE", "EDGE_SPLIT", "EXPLODE", "MASK", "MESH_TO_VOLUME", "MIRROR",
        "MULTIRES", "NODES", "OCEAN", "PARTICLE_INSTANCE", "REMESH", "SCREW", "SKIN", "SOLIDIFY", "SUBSURF",
        "VOLUME_TO_MESH", "WELD", "WIREFRAME",
    ),
    ModifierEffect.SIMULATES: ("CLOTH", "DYNAMIC_PAINT", "FLUID", "SOFT_BODY"),
    ModifierEffect.NONE: ("COLLISION", "PARTICLE_SYSTEM", "SURFACE"),
}  # fmt: skip
MODIFIER_EFFECTS = {name: effect for effect, names in _TYPES.items() for name in names}
# Types through which particles move vertices.
PARTICLE_USERS = {"DYNAMIC_PAINT", "EXPLODE", "FLUID", "PARTICLE_INSTANCE"}
# Types that change over time although nothing of them is animated.
_TIMED_TYPES = {"BUILD", "EXPLODE", "PARTICLE_INSTANCE"}
# Types that move vertices although nothing of them is animated.
_PLAYING_TYPES = {"MESH_CACHE", "MESH_SEQUENCE_CACHE", "WAVE"}
# Surfaces of Dynamic Paint that move vertices, and those that change the weights of a vertex group.
_MOVING_SURFACES, _WEIGHT_SURFACE = {"DISPLACE", "WAVE"}, "WEIGHT"
# Sources of images that differ between frames.
_PLAYING_IMAGES = {"SEQUENCE", "MOVIE"}

# Beginnings of the paths of the properties that move an object.
_TRANSFORM_PATHS = ("location", "rotation", "scale", "delta_")

# Types of parents that deform the mesh as a modifier would, with the type of the parent object.
_DEFORMING_PARENTS = {"ARMATURE": "ARMATURE", "LATTICE": "LATTICE"}
# Types of datablocks that refer to objects, but through which none of them moves another one, except by drivers.
_NOT_FOLLOWED = (
    bpy.types.Scene,
    bpy.types.WindowManager,
    bpy.types.Screen,
    bpy.types.WorkSpace,
    bpy.types.World,
    bpy.types.Material,
)


def modifier_type_effect(modifier_type: str) -> ModifierEffect:
    """Return the effect of a type. A type that this version does not know counts as a simulation, so it is reported."""
    return MODIFIER_EFFECTS.get(modifier_type, ModifierEffect.SIMULATES)


def moves_on_its_own(modifier: Any, visited: set[int] | None = None) -> bool:
    """Return whether a modifier may move or replace vertices over time, apart from the motion of its input.

    Nodes that set positions may enlarge or bend that motion.
    visited: session uids of the objects that are being judged already.
    """
    effect = modifier_type_effect(modifier.type)
    if modifier.type == "NODES":
        nodes = modifier_effect(modifier)
        if not nodes.moves_points:
            return False
        return changes_over_time(modifier, visited) or (nodes.sets_positions and _has_moving_input(modifier, visited))
    if effect is ModifierEffect.GENERATES:
        return modifier.type in _TIMED_TYPES or changes_over_time(modifier, visited)
    if modifier.type == "DYNAMIC_PAINT":
        canvas = modifier.canvas_settings
        return canvas is not None and any(_moves_by_paint(modifier, one) for one in canvas.canvas_surfaces)
    if modifier.type == "FLUID":
        return bool(modifier.fluid_type == "DOMAIN")
    return effect is ModifierEffect.SIMULATES


def _has_moving_input(modifier: Any, visited: set[int] | None) -> bool:
    """Return whether shape keys, keyed vertices or an earlier modifier may move the vertices that reach a modifier."""
    obj = modifier.id_data
    keys = getattr(obj.data, "shape_keys", None)
    if has_keyed_points(obj.data) or (keys is not None and animated_paths(keys)):
        return True
    # Hidden ones count, because DampSim hides some meanwhile.
    before = list(takewhile(lambda one: one != modifier, obj.modifiers))
    moving = [m for m in before if modifier_type_effect(m.type) is ModifierEffect.MOVES and not is_output_modifier(m)]
    if any(m.type in _PLAYING_TYPES or changes_over_time(m, visited and set(visited)) for m in moving):
        return True
    return any(moves_on_its_own(m, visited) for m in before if m.type == "NODES" and not is_output_modifier(m))


def _moves_by_paint(modifier: Any, surface: Any) -> bool:
    """Return whether a surface of Dynamic Paint moves vertices, or paints the weights by which they are moved."""
    if surface.surface_type != _WEIGHT_SURFACE:
        return surface.surface_type in _MOVING_SURFACES
    obj = modifier.id_data
    used = {getattr(one, "vertex_group", "") for one in obj.modifiers} | {obj.dampsim.pin_group}
    return bool(surface.output_name_a) and surface.output_name_a in used


def changes_over_time(modifier: Any, visited: set[int] | None = None) -> bool:
    """Return whether a modifier is animated, or refers to objects that may move. visited: see moves_on_its_own()."""
    own = modifier.id_data
    if is_modifier_animated(modifier):
        return True
    if modifier.type == "NODES" and (modifier_effect(modifier).changes_over_time or has_keyed_attributes(own.data)):
        return True
    visited = {own.session_uid} if visited is None else visited
    others = [one for one in referenced_objects(modifier) if one != own]
    return any(can_move(one, visited) or _moves_relative_to(own, one, visited) for one in others)


def _moves_relative_to(obj: bpy.types.Object, other: bpy.types.Object, visited: set[int]) -> bool:
    """Return whether an object may move as a whole relative to another one that does not move itself."""
    parents = list(_ancestors(other))
    if obj in parents:
        return False
    if obj.rigid_body is not None or len(obj.constraints):
        return True
    if any(path.startswith(_TRANSFORM_PATHS) for path in animated_paths(obj)):
        return True
    parent = obj.parent
    return parent is not None and parent not in (other, *parents) and can_move(parent, visited)


def _ancestors(obj: bpy.types.Object) -> Iterator[bpy.types.Object]:
    while obj.parent is not None:
        obj = obj.parent
        yield obj


def referenced_objects(struct: Any) -> Iterator[bpy.types.Object]:
    """Iterate over the objects that a modifier or constraint refers to, also by a collection."""
    values = [getattr(struct, p.identifier) for p in struct.bl_rna.properties if p.type == "POINTER"]
    values += [target.target for target in getattr(struct, "targets", ())]
    if getattr(struct, "type", "") == "NODES":
        values += [*node_inputs(struct), *read_datablocks(struct.node_group)]
    for value in values:
        if isinstance(value, bpy.types.Object):
            yield value
        elif isinstance(value, bpy.types.Collection):
            yield from value.all_objects


def scene_cameras(scene: bpy.types.Scene) -> list[bpy.types.Object]:
    """Return the camera of a scene, and those to which its markers switch."""
    cameras = [scene.camera, *(marker.camera for marker in scene.timeline_markers)]
    return list(dict.fromkeys(camera for camera in cameras if camera is not None))


def node_inputs(modifier: Any, keyed: Collection[str] = ()) -> list[Any]:
    """Return the values of the inputs of a Geometry Nodes modifier, and the names of the attributes that they read.

    keyed: data paths of inputs that are left out.
    """
    path = modifier.path_from_id() if keyed else ""
    # Blender 5.2 stores the inputs in a property group. Its modifiers have no custom properties, and keys() raises.
    inputs = getattr(getattr(modifier, "properties", None), "inputs", None)
    if inputs is None:
        names = [name for name in modifier.keys() if f'{path}["{name}"]' not in keyed]  # noqa: SIM118 (no mapping)
        return [modifier[name] for name in names]
    names = [one.identifier for one in inputs.bl_rna.properties if one.identifier != "rna_type"]
    sockets = [getattr(inputs, name) for name in names if f"{path}.properties.inputs.{name}.value" not in keyed]
    # Sockets of geometry have no value.
    return [getattr(socket, name, None) for socket in sockets for name in ("value", "attribute_name")]


def has_deforming_parent(obj: bpy.types.Object) -> bool:
    """Return whether the parent deforms the mesh by its parent type, without a modifier."""
    return obj.parent is not None and _DEFORMING_PARENTS.get(obj.parent_type) == obj.parent.type


def can_move(obj: bpy.types.Object, visited: set[int] | None = None) -> bool:
    """Return whether an object may move or deform over time, judged without evaluation."""
    visited = set() if visited is None else visited
    if obj.session_uid in visited:
        return False
    visited.add(obj.session_uid)
    blocks = (obj, obj.data, getattr(obj.data, "shape_keys", None))
    if any(block is not None and is_animated(block) for block in blocks):
        return True
    if obj.rigid_body is not None or any(m.type in _PLAYING_TYPES for m in obj.modifiers):
        return True
    if any(_has_changing_texture(m) or moves_on_its_own(m, visited) for m in obj.modifiers):
        return True
    bones = obj.pose.bones if obj.pose is not None else ()
    constraints = [c for holder in (obj, *bones) for c in holder.constraints]
    # Tracks of a camera solver and cached transforms move without another object.
    if any(c.type in ("CAMERA_SOLVER", "FOLLOW_TRACK", "OBJECT_SOLVER", "TRANSFORM_CACHE") for c in constraints):
        return True
    others = [one for struct in (*constraints, *obj.modifiers) for one in referenced_objects(struct)]
    return any(can_move(one, visited) for one in (*others, *([obj.parent] if obj.parent else [])))


def _has_changing_texture(modifier: Any) -> bool:
    texture = getattr(modifier, "texture", None)
    if texture is None:
        return False
    image = getattr(texture, "image", None)
    is_playing = image is not None and image.source in _PLAYING_IMAGES
    return is_playing or any(map(is_animated, filter(None, (texture, texture.node_tree))))


class References:
    """References of all datablocks of the file, from Blender's own list of them.

    The list covers parents, constraints, drivers, modifiers, node trees, textures, particles, collections and custom
    properties, also of future versions.
    """

    def __init__(self) -> None:
        self._targets = defaultdict[bpy.types.ID, set[bpy.types.ID]](set)
        for target, users in bpy.data.user_map().items():
            for user in users:
                self._targets[user].add(target)

    def reachable(self, roots: Iterable[bpy.types.ID]) -> set[bpy.types.ID]:
        """Return all datablocks that may influence some datablocks, including those."""
        return set(self._graph(roots))

    def influenced(self, roots: Iterable[bpy.types.ID], causes: Iterable[bpy.types.ID]) -> set[bpy.types.ID]:
        """Return the datablocks of reachable(roots) that some other ones may influence, including those among them.

        The time does not grow with the number of roots for each datablock that many of them share.
        """
        graph, users = self._graph(roots), defaultdict[bpy.types.ID, list[bpy.types.ID]](list)
        for user, targets in graph.items():
            for target in targets:
                users[target].append(user)
        found, queue = set[bpy.types.ID](), [one for one in causes if one in graph]
        while queue:
            one = queue.pop()
            if one not in found:
                found.add(one)
                queue += users.get(one, ())
        return found

    def _graph(self, roots: Iterable[bpy.types.ID]) -> dict[bpy.types.ID, list[bpy.types.ID]]:
        """Return all datablocks that may influence some datablocks, including those, with those that each refers to."""
        graph = dict[bpy.types.ID, list[bpy.types.ID]]()
        queue = [one for one in roots if not isinstance(one, _NOT_FOLLOWED)]
        while queue:
            one = queue.pop()
            if one not in graph:
                graph[one] = self._targets_of(one)
                queue += graph[one]
        return graph

    def _targets_of(self, block: bpy.types.ID) -> list[bpy.types.ID]:
        """Return the datablocks to which a datablock refers."""
        found = list[bpy.types.ID]()
        if not isinstance(block, _NOT_FOLLOWED):
            found += [one for one in self._targets.get(block, ()) if not isinstance(one, _NOT_FOLLOWED)]
        # A driver may read a property of any datablock, which another driver may set.
        drivers = (curve.driver for curve in drivers_of(block))
        return found + [target.id for driver in drivers for target in driver_targets(driver) if target.id is not None]

    def reachable_objects(self, roots: Iterable[bpy.types.ID]) -> list[bpy.types.Object]:
        """Return the objects among reachable(), in the order of their names."""
        found = [one for one in self.reachable(roots) if isinstance(one, bpy.types.Object)]
        return sorted(found, key=lambda obj: str(obj.name_full))


def has_followed_users(types: Collection[str], is_counted: Callable[[bpy.types.ID], bool]) -> bool:
    """Return whether References may reach datablocks of some types; takes a tenth of its time.

    types: as in bpy.types.ID.id_type.  is_counted: whether a datablock of these types counts.
    """
    users = bpy.data.user_map(key_types=set(types))
    return any(
        not isinstance(user, _NOT_FOLLOWED) for block, found in users.items() if is_counted(block) for user in found
    )


def is_local(*blocks: bpy.types.ID) -> bool:
    """Return whether datablocks belong to this file alone: neither linked nor library overrides."""
    return all(one.library is None and one.override_library is None for one in blocks)


def count_mesh_users(mesh: bpy.types.Mesh) -> int:
    """Return the number of objects that use a mesh."""
    return mesh.users - int(mesh.use_fake_user)


def has_object(objects: Any, obj: bpy.types.Object) -> bool:
    """Return whether a collection of Blender, such as scene.objects, has an object.

    A name finds only one of several objects from different files.
    """
    found = objects.get(obj.name)
    return found == obj or (found is not None and obj in objects.values())
