"""Digests of the inputs that move and shape an object, by names the user knows, to report changes since a bake.

They are computed without visiting frames. They cover the definition of drivers and constraints, not their results.
Live does not rely on them to validate its frames: it compares the samples themselves.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable, Collection, Iterable, Mapping
from typing import Any

import bpy
import numpy as np

from ...core import PARAMETERS
from ..blender.animation import (
    animated_paths,
    driver_targets,
    drivers_of,
    has_keyed_attributes,
    has_keyed_points,
    stack_paths,
    user_fcurves,
)
from ..blender.bone_bakes import kept_pose
from ..blender.dampsim_names import bake_mark, is_output_modifier
from ..blender.geometry_nodes import node_effect
from ..blender.modifiers import DEFORMING, modifier_settings, sampled_modifiers
from ..blender.movers import References, referenced_objects, scene_cameras
from ..blender.sampler import read_array
from ..blender.vertex_groups import edge_values, marked_edges, read_weights
from ..model.colliders import active_colliders, roughness_group, simulation_view_layer
from ..model.force_fields import fields_acting_on
from ..model.groups import group_of
from ..scene_reader.contributors import unbaked_simulations
from ..scene_reader.muscles import controller_settings, damper_attribute, has_muscles, sensor_targets
from ..scene_reader.parts import find_animated_dial
from ..scene_reader.scene_builder import effective_groups, seam_groups
from .content_digests import digest_contents, may_have_contents
from .detail_digests import digest_details, effector_values
from .digest_run import bone_places, digest_run, once_per_run
from .setup_digests import (
    AddDigest,
    array_bytes,
    digest_setup,
    digest_source_setups,
    driver_chain,
    driver_values,
    drivers_of_object,
    key_values,
    keyframe_points,
    replace_bone_names,
    rounded,
    user_strips,
)

_BONE = re.compile(r'pose\.bones\["((?:[^"\\]|\\.)*)"\]')
# Prefixes of the names of a collider's inputs.
COLLIDER_MOTION_PREFIX, COLLIDER_SHAPE_PREFIX = "the movement of collider ", "the shape of collider "
COLLIDER_SETUP_PREFIX = "the setup of collider "
COLLIDER_ROUGHNESS_PREFIX, COLLIDER_DETAILS_PREFIX = "the painted roughness of collider ", "the details of collider "
# Prefixes of the entries of details, which cannot be read from meshes in Edit Mode.
DETAIL_PREFIXES = (
    "details of ", "objects read by drivers and nodes of ", "animation of ", "links of ", COLLIDER_DETAILS_PREFIX,
)  # fmt: skip
COLLIDER_PREFIXES = (
    COLLIDER_MOTION_PREFIX, COLLIDER_SHAPE_PREFIX, COLLIDER_SETUP_PREFIX, COLLIDER_ROUGHNESS_PREFIX,
    COLLIDER_DETAILS_PREFIX,
)  # fmt: skip
# Prefixes of entries, with those of others that name the same edits more closely.
_FALLBACK_PREFIXES = {
    "details of ": (
        "constraint ", "modifiers and constraints of ", "bone weights of ", "shape of ", "shape keys of ",
        "rest pose of ", "node groups of ",
    ),
    "objects read by drivers and nodes of ": ("inputs of drivers of ",),
}  # fmt: skip
# Prefix of the keyframes of a dial.
DIAL_KEYS_PREFIX = "keyframed "
# Prefix of the input that every influencing object has. The object itself comes first.
PARENT_PREFIX = "parent of "
# Prefix of the input that every bone of these objects has, in their order.
POSE_PREFIX = "pose of "
# Name of the input of objects that act on Blender's own simulations beneath an object.
EFFECTORS = "force fields and collisions of Blender's simulations"
# Name of the input of muscles and sensors.
MUSCLES = "the muscles"
# Function that returns the name under which an object is reported.
DisplayName = Callable[[bpy.types.Object], str]


@digest_run()
def input_digests(
    obj: bpy.types.Object,
    scene: bpy.types.Scene,
    display_names: Mapping[bpy.types.Object, str] | None = None,
    bone_names: Mapping[str, str] | None = None,
    muscle_names: Mapping[str, str] | None = None,
) -> dict[str, str]:
    """Return digests by input name: keyframes and poses by object and bone, modifiers, mesh, weights and colliders.

    display_names: of influencing objects where they differ from the current ones: see bake_changes._previous_names().
    bone_names: the same of bones, by their current names: see bake_changes._previous_bone_names().
    muscle_names: earlier names in the settings of muscles and sensors, by their current ones.
    """
    parts: dict[str, Any] = {}
    names = display_names or {}

    def add_digest(name: str, value: object) -> None:
        parts.setdefault(name, hashlib.sha256()).update(repr(value).encode())

    def display_name(one: bpy.types.Object) -> str:
        return names.get(one, str(one.name))

    sources = motion_sources(obj)
    for source in sources:
        digest_motion(source, source == obj, add_digest, display_name, bone_names or {})
    named = {source: display_name(source) for source in sources}
    digest_setup(obj, named, add_digest)
    digest_details(named, add_digest, obj)
    for source, name in named.items():
        _digest_read_objects(source, named, f"objects read by drivers and nodes of {name}", add_digest)
    _digest_scene(obj, scene, add_digest)
    _digest_links(obj, named, add_digest)
    felt, keyed = sampled_modifiers(obj), stack_paths(obj)
    for modifier in obj.modifiers:
        if (modifier in felt or modifier.type in (*DEFORMING, "MIRROR")) and not is_output_modifier(modifier):
            settings = modifier.show_viewport, _settings_and_references(modifier, display_name, keyed)
            add_digest(f"modifier {modifier.name}", settings)
    _digest_dial_keys(obj, add_digest)
    add_digest("the mesh", _mesh_shape(obj.data))
    if has_muscles(obj):
        _digest_muscles(obj, add_digest, display_name, muscle_names or {})
    dampers = edge_values(obj.data, damper_attribute(obj))
    if dampers is not None:
        add_digest("the dampers", dampers.tobytes())
    painted = [name for name in effective_groups(obj).values() if name in obj.vertex_groups]
    painted += [one.vertex_group for one in obj.dampsim.parts if one.vertex_group in obj.vertex_groups]
    painted = list(dict.fromkeys(painted))
    painted += [name for name in seam_groups(obj) if obj.dampsim.kind == "CLOTH" and name not in painted]
    for name, values in zip(painted, read_weights(obj, painted), strict=True):
        add_digest(weights_input(name), values.tobytes())
    colliders = active_colliders(obj, simulation_view_layer(scene))
    for collider in colliders:
        _digest_collider(collider, add_digest)
    _digest_untracked(obj, scene, [*named, *colliders], add_digest)
    return {name: digest.hexdigest()[:12] for name, digest in parts.items()}


def _mesh_shape(mesh: bpy.types.Mesh) -> object:
    """Return the number of faces and the vertices of a mesh, unless these are keyed: others cover their keyframes."""
    return len(mesh.polygons), b"" if has_keyed_points(mesh) else array_bytes(mesh.vertices, "co", 3)


def without_fallbacks(changed: list[str]) -> list[str]:
    """Return changed inputs without details of objects of which other entries already name the edit."""

    def is_named(detail: str) -> bool:
        if detail.startswith(COLLIDER_DETAILS_PREFIX):
            name = detail.removeprefix(COLLIDER_DETAILS_PREFIX)
            return any(
                f"{prefix}{name}" in changed for prefix in COLLIDER_PREFIXES if prefix != COLLIDER_DETAILS_PREFIX
            )
        for fallback, entries in _FALLBACK_PREFIXES.items():
            if detail.startswith(fallback):
                name = detail.removeprefix(fallback)
                return any(one.startswith(entries) and one.endswith(f" of {name}") for one in changed)
        return False

    return [one for one in changed if not is_named(one)]


def influencing_objects(obj: bpy.types.Object) -> list[bpy.types.Object]:
    """Return the objects that influence an object's motion, itself first, in the order of input_digests()."""
    return list(dict.fromkeys([*motion_sources(obj), *sensor_targets(obj)]))


def _digest_dial_keys(obj: bpy.types.Object, add_digest: Any) -> None:
    driven = [(driver.data_path, driver.driver.expression) for driver in drivers_of(obj)]
    keyed = [(curve.data_path, (curve.mute, _keyframe_bytes(curve))) for curve in user_fcurves(obj)]
    for path, value in (*driven, *keyed):
        parameter, found = PARAMETERS.get(path.removeprefix("dampsim.")), find_animated_dial(obj, path)
        if parameter is not None:
            add_digest(f"{DIAL_KEYS_PREFIX}{parameter.label}", value)
        elif found is not None:
            part, label = obj.dampsim.parts[found[0]].name, PARAMETERS[found[1]].label
            add_digest(f"{DIAL_KEYS_PREFIX}{label} of part '{part}'", value)


def weights_input(group: str) -> str:
    """Return the name of the input of a vertex group's weights."""
    return f"weights of '{group}'"


def _digest_muscles(
    obj: bpy.types.Object, add_digest: Any, display_name: DisplayName, earlier: Mapping[str, str]
) -> None:
    for one in (*obj.dampsim.muscles, *obj.dampsim.sensors):
        add_digest(MUSCLES, marked_edges(obj.data, one.attribute).tobytes())
    for part in controller_settings(obj):
        texts = [display_name(one) if isinstance(one, bpy.types.Object) else str(one) for one in part]
        add_digest(MUSCLES, [earlier.get(text, text) for text in texts])
    for curve in user_fcurves(obj):
        if curve.data_path.startswith("dampsim.muscles"):
            add_digest("keyframes of the muscles", (curve.data_path, curve.mute, _keyframe_bytes(curve)))
    for target in sensor_targets(obj):
        digest_motion(target, False, add_digest, display_name)


def _digest_collider(other: bpy.types.Object, add_digest: Any) -> None:
    motion_name, shape_name = f"{COLLIDER_MOTION_PREFIX}{other.name_full}", f"{COLLIDER_SHAPE_PREFIX}{other.name_full}"
    # Sources are identified by index, since names may change. Exchanging two of them changes the digest.
    source_names = {one: f"source {place}" for place, one in enumerate(motion_sources(other))}

    def display_name(one: bpy.types.Object) -> str:
        return source_names.get(one, str(one.name))

    for source in source_names:
        # Rigs and parents move the collider, so their digests are part of its own.
        bone_names = {name: str(place) for name, place in bone_places(source).items()}
        digest_motion(
            source, False, lambda name, value: add_digest(motion_name, (name, value)), display_name, bone_names
        )
    setup_name = f"{COLLIDER_SETUP_PREFIX}{other.name_full}"
    digest_source_setups(source_names, lambda name, value: add_digest(setup_name, (name, value)), other)
    details_name = f"{COLLIDER_DETAILS_PREFIX}{other.name_full}"
    digest_details(source_names, lambda name, value: add_digest(details_name, (name, value)))
    for source in source_names:
        _digest_read_objects(source, source_names, details_name, add_digest)
    add_digest(details_name, key_values(other.data))
    keyed = stack_paths(other)
    for modifier in other.modifiers:
        add_digest(shape_name, (modifier.show_viewport, _settings_and_references(modifier, display_name, keyed)))
    add_digest(shape_name, _mesh_shape(other.data))
    add_digest(shape_name, (other.dampsim.baked, other.dampsim.baked_of, other.dampsim.baked_size))
    painted = [name for name in (roughness_group(other),) if name in other.vertex_groups]
    add_digest(f"{COLLIDER_ROUGHNESS_PREFIX}{other.name_full}", [one.tobytes() for one in read_weights(other, painted)])


def _digest_read_objects(
    source: bpy.types.Object, known: Mapping[bpy.types.Object, str], name: str, add_digest: AddDigest
) -> None:
    """Add the digests of the movers of objects that drivers and nodes read, unless these objects move it too.

    known: the objects that move it.  name: of the entry.
    """
    chain, read = driver_chain(drivers_of_object(source))
    trees = [m.node_group for m in source.modifiers if m.type == "NODES" and not is_output_modifier(m)]
    if any(node_effect(tree).reads_camera for tree in trees):
        markers = sorted((one for one in bpy.context.scene.timeline_markers if one.camera), key=lambda one: one.frame)
        chain.append([one.frame for one in markers])
        read += [one.camera for one in markers] or scene_cameras(bpy.context.scene)
    if chain:
        add_digest(name, chain)
    _digest_others(read, known, name, add_digest)


def _digest_others(
    roots: Iterable[bpy.types.Object], known: Mapping[bpy.types.Object, str], name: str, add_digest: AddDigest
) -> None:
    """Add the digests of everything that moves some objects to one entry. known, name: see _digest_read_objects()."""
    found = dict.fromkeys(one for root in roots for one in motion_sources(root))
    places = {one: str(place) for place, one in enumerate(one for one in found if one not in known)}
    names = {**known, **places}

    def add(part: str, value: object) -> None:
        add_digest(name, (part, value))

    for one in places:
        bone_names = {bone: str(place) for bone, place in bone_places(one).items()}
        digest_motion(one, False, add, lambda other: names.get(other, ""), bone_names)
        chain, _ = driver_chain(drivers_of_object(one))
        if chain:
            add("drivers", chain)
    digest_source_setups(places, add, None)
    digest_details(places, add)


def _digest_scene(obj: bpy.types.Object, scene: bpy.types.Scene, add_digest: AddDigest) -> None:
    """Add the digests of the animation of gravity and of the force fields, whose fixed values are settings."""
    curves = [curve for curve in user_fcurves(scene) if curve.data_path == "gravity"]
    drivers = [curve for curve in drivers_of(scene) if curve.data_path == "gravity"]
    if curves or drivers:
        keys = [(curve.array_index, curve.mute, _keyframe_bytes(curve)) for curve in curves]
        chain, read = driver_chain(drivers)
        values = [(curve.driver.expression, list(driver_values(curve))) for curve in drivers]
        add_digest("animation of gravity", (keys, values, chain))
        _digest_others(read, {}, "animation of gravity", add_digest)
    fields = fields_acting_on(obj, scene) if obj.dampsim.field_weight > 0.0 else []
    moved = [one for one in fields if animated_paths(one) or one.parent is not None or len(one.constraints)]
    read = [other for one in moved for other in driver_chain(drivers_of_object(one))[1]]
    _digest_others([*moved, *read], {}, "animation of force fields", add_digest)


def _digest_untracked(
    obj: bpy.types.Object, scene: bpy.types.Scene, moving: Iterable[bpy.types.Object], add_digest: AddDigest
) -> None:
    """Add the digests of contents, and of the forces on Blender's own simulations, that move some objects.

    These have no reference to the force fields and the objects that they collide with.
    """
    if not _has_untracked(scene):
        return
    links = [link.other for link in obj.dampsim.links if link.other is not None]
    reached = _references(scene).reachable([*moving, *links, *fields_acting_on(obj, scene)])
    digest_contents(reached, add_digest)
    objects = [one for one in reached if isinstance(one, bpy.types.Object)]
    if not unbaked_simulations(scene, objects, group_of(obj).members):
        return
    effectors = []
    for one in scene.objects:
        is_field = one.field is not None and one.field.type != "NONE"
        if one != obj and (is_field or any(m.type == "COLLISION" for m in one.modifiers)):
            shape = _mesh_shape(one.data) if isinstance(one.data, bpy.types.Mesh) else ""
            values: list[object] = [(effector_values(one), shape)]
            _digest_others([one], {}, EFFECTORS, lambda _, value, values=values: values.append(value))
            effectors.append(repr(values))
    # A rename changes the order of the objects.
    for text in sorted(effectors):
        add_digest(EFFECTORS, text)


@once_per_run
def _has_untracked(scene: bpy.types.Scene) -> bool:
    """Return whether the file has any contents, or unbaked simulations, that _digest_untracked() may find."""
    objects = [obj for obj in bpy.data.objects if obj.modifiers or obj.rigid_body or obj.rigid_body_constraint]
    return bool(unbaked_simulations(scene, objects, ())) or may_have_contents()


@once_per_run
def _references(scene: bpy.types.Scene) -> References:
    """Return the references between the datablocks of the file. scene: any, as the key of the run."""
    return References()


def _digest_links(obj: bpy.types.Object, known: Mapping[bpy.types.Object, str], add_digest: AddDigest) -> None:
    """Add the digests of the links of an object, and of the movers of the objects that they hold it to."""
    links = [link for link in obj.dampsim.links if link.other is not None]
    name = known[obj]
    entry = f"links of {name}"
    add_digest(entry, len(links))
    for link in links:
        bone = bone_places(link.other).get(link.bone, link.bone)
        places = [rounded(list(point.place)) for point in link.points]
        add_digest(entry, (bone, link.rigid, rounded(link.stiffness), places))
    members = group_of(obj).members
    _digest_others([one.other for one in links if one.other not in members], known, entry, add_digest)


def motion_sources(obj: bpy.types.Object) -> list[bpy.types.Object]:
    """Return the object and all objects that move or deform it: parents, targets of constraints and modifiers."""
    found: dict[bpy.types.Object, None] = {}
    queue = [obj]
    while queue:
        one = queue.pop()
        if one in found:
            continue
        found[one] = None
        holders = [one, *(one.pose.bones if one.pose is not None else ())]
        referring = [constraint for holder in holders for constraint in holder.constraints]
        referring += [modifier for modifier in one.modifiers if not is_output_modifier(modifier)]
        queue += [other for struct in referring for other in referenced_objects(struct)]
        if one.parent is not None:
            queue.append(one.parent)
    return list(found)


def digest_motion(
    source: bpy.types.Object,
    is_simulated_object: bool,
    add_digest: Any,
    display_name: DisplayName,
    bone_names: Mapping[str, str] | None = None,
) -> None:
    keyed_paths, name, earlier = set[str](), display_name(source), bone_names or {}
    places = bone_places(source)
    for block in (source, source.data, getattr(source.data, "shape_keys", None)):
        if block is None:
            continue
        is_own_mesh = is_simulated_object and block == source.data
        if is_own_mesh and not has_keyed_points(block) and not has_keyed_attributes(block):
            continue
        for curve in user_fcurves(block):
            if curve.data_path.startswith("dampsim."):
                continue
            bone = _BONE.match(curve.data_path)
            bone_name = bpy.utils.unescape_identifier(bone[1]) if bone else ""
            keyed_paths.add(curve.data_path)
            add_digest(
                f"keyframes of {earlier.get(bone_name, bone_name) if bone else name}",
                (replace_bone_names(curve.data_path, places), curve.array_index, curve.mute, _keyframe_bytes(curve)),
            )
        for driver in drivers_of(block):
            read = driver_targets(driver.driver)
            paths = [replace_bone_names(target.data_path, bone_places(target.id)) for target in read]
            targets = list(zip(paths, (_reference_name(target.id, display_name) for target in read), strict=True))
            keyed_paths.add(driver.data_path)
            path = replace_bone_names(driver.data_path, places)
            add_digest(f"drivers of {name}", (path, driver.driver.expression, targets))
        for track in block.animation_data.nla_tracks if block.animation_data is not None else ():
            own = user_strips(track)
            strips = [(s.frame_start, s.frame_end, s.scale, s.blend_type, _fixed_influence(s), s.mute) for s in own]
            if strips:
                add_digest(f"NLA tracks of {name}", (track.mute, strips))
    # The transform of a rigid body is a result of its simulation at one frame.
    if source.rigid_body is None:
        add_digest(f"place of {name}", _static_transform(source, "", keyed_paths))
    parent_bone = bone_places(source.parent).get(source.parent_bone, source.parent_bone)
    parent = _reference_name(source.parent, display_name)
    add_digest(f"{PARENT_PREFIX}{name}", (parent, parent_bone, rounded(source.matrix_parent_inverse)))
    keyed = set(stack_paths(source))
    for constraint in source.constraints:
        settings = _settings_and_references(constraint, display_name, keyed)
        add_digest(f"constraint {constraint.name} of {name}", settings)
    for bone in source.pose.bones if source.pose is not None else ():
        if bake_mark(bone.bone):
            continue
        bone_name = earlier.get(bone.name, bone.name) or name
        add_digest(f"{POSE_PREFIX}{bone_name}", _static_transform(bone, f"{bone.path_from_id()}.", keyed_paths))
        for constraint in bone.constraints:
            settings = _settings_and_references(constraint, display_name, keyed)
            add_digest(f"constraint {constraint.name} of {bone_name}", settings)


def _fixed_influence(strip: bpy.types.NlaStrip) -> float | None:
    """Return the influence of an NLA strip; None if it is keyframed."""
    return None if any(curve.data_path == "influence" for curve in strip.fcurves) else strip.influence


def _static_transform(one: bpy.types.Object | bpy.types.PoseBone, path: str, keyed_paths: set[str]) -> list[object]:
    """Return the part of a transform that is not keyframed. path: prefix of its data paths."""
    turn = {"QUATERNION": "rotation_quaternion", "AXIS_ANGLE": "rotation_axis_angle"}.get(one.rotation_mode)
    names = ("location", turn or "rotation_euler", "scale")
    values = {name: getattr(one, name) for name in names if f"{path}{name}" not in keyed_paths}
    if isinstance(one, bpy.types.PoseBone):
        # Those from before a bake to existing bones, which is an output.
        values |= {name: before for name, before in kept_pose(one).items() if name in values}
    return [one.rotation_mode, *(rounded(value) for value in values.values())]


def _reference_name(other: bpy.types.ID | None, display_name: DisplayName) -> str:
    """Return the name of a referenced datablock; '' for None."""
    return display_name(other) if isinstance(other, bpy.types.Object) else str(getattr(other, "name", ""))


def _keyframe_bytes(curve: bpy.types.FCurve) -> bytes:
    modes = read_array(curve.keyframe_points, "interpolation", np.int32).tobytes()
    modifiers = repr([modifier_settings(one) for one in curve.modifiers]).encode()
    points = [
        (point.frame, point.min, point.max)
        for modifier in curve.modifiers
        if modifier.type == "ENVELOPE"
        for point in modifier.control_points
    ]
    return keyframe_points(curve) + modes + modifiers + (repr(points).encode() if points else b"")


def _settings_and_references(struct: Any, display_name: DisplayName, keyed: Collection[str]) -> list[object]:
    """Return the settings of a modifier or constraint, and the names of the objects that it refers to.

    keyed: data paths of animated settings, which are left out.
    """
    pointers = [getattr(struct, prop.identifier) for prop in struct.bl_rna.properties if prop.type == "POINTER"]
    return [
        *modifier_settings(struct, keyed),
        *(display_name(one) for one in pointers if isinstance(one, bpy.types.Object)),
    ]
