"""Random edits of a shot, as an animator might make them.

An edit takes a random generator and returns a description of its change, or '' if the scene has nothing to change.
"""

from __future__ import annotations

import importlib
import os
from collections.abc import Callable
from random import Random
from typing import Any

import bpy
from scenes import add_simulation, new_scene

PACKAGE = os.environ.get("DAMPSIM_INSTALLED") or "dampsim"
PARAMETERS = importlib.import_module(f"{PACKAGE}.core.scene.parameters").PARAMETERS
groups = importlib.import_module(f"{PACKAGE}.dampsim_addon.model.groups")

Edit = Callable[[Random], str]
EDITS: dict[str, tuple[Edit, ...]] = {}
LAST = 6
MAX_BODIES, MAX_OBJECTS = 3, 9
# The shots are no loops. Preroll and high resolutions take time without covering more code.
_EXCLUDED_PARAMETERS = ("loop", "resolution", "preroll", "substeps", "sweeps")
_GROUP_PROPERTIES = (
    "pin_group", "settle_group", "stiffness_group", "length_group", "centre_group", "friction_group", "front_group",
    "fibre_group", "direction_group", "damping_group",
)  # fmt: skip
_TRANSFORM_PROPERTIES = ("location", "rotation_euler", "scale")


def register_edit(sort: str) -> Callable[[Edit], Edit]:
    def enter(edit: Edit) -> Edit:
        EDITS[sort] = (*EDITS.get(sort, ()), edit)
        return edit

    return enter


# Creation of the shot.


def ball(name: str, place: float, cache: object, **dials: Any) -> bpy.types.Object:
    bpy.ops.mesh.primitive_ico_sphere_add(subdivisions=2, radius=0.5, location=(place, 0.0, 0.0))
    obj = bpy.context.object
    obj.name = obj.data.name = name
    obj.vertex_groups.new(name="Pin").add([v.index for v in obj.data.vertices if v.co.z < -0.2], 1.0, "REPLACE")
    add_simulation(
        obj, cache, **{"resolution": 60, "stiffness": 200.0, "target": "POINT_CACHE", "accuracy": "PREVIEW", **dials}
    )
    return obj


def empty(name: str, *place: float) -> bpy.types.Object:
    obj = bpy.data.objects.new(name, None)
    obj.location = place
    bpy.context.scene.collection.objects.link(obj)
    return obj


def create_shot(cache: object, chance: Random) -> bpy.types.Scene:
    """Create a rigged ball with a parent, shape keys and wind, and a second ball linked to a moving empty."""
    scene = new_scene(LAST)
    flesh = ball("Flesh", 0.0, cache, settle=8.0)
    flesh.shape_key_add(name="Basis")
    puff = flesh.shape_key_add(name="Puff")
    puff.points[5].co.z += 0.3
    for frame, value in ((1, 0.2), (5, 0.8)):
        puff.value = value
        puff.keyframe_insert("value", frame=frame)
    _rig(flesh)
    parent, hook = empty("Parent", 0.2, 0.0, -1.0), empty("Hook", 1.5, 0.0, 0.7)
    for frame, angle in ((1, 0.1), (3, 0.4), (6, 0.2)):
        parent.rotation_euler.x = hook.location.y = angle
        parent.keyframe_insert("rotation_euler", frame=frame)
        hook.keyframe_insert("location", frame=frame)
    flesh.parent = parent
    other = ball("Other", 1.5, cache, stiffness_by="SAG", sag=2.0)
    _link(other, hook, (0.0, 0.0, 0.5))
    bpy.ops.object.effector_add(type="WIND", location=(0.0, -2.0, 0.0), rotation=(-1.5, 0.0, 0.0))
    bpy.context.object.name, bpy.context.object.field.strength = "Wind", 3.0
    _fix_seed(bpy.context.object)
    if chance.random() < 0.3:
        _link(flesh, other, (0.5, 0.0, 0.0))
        groups.join_group([flesh, other])
    bpy.context.view_layer.objects.active = flesh
    return scene


def _fix_seed(obj: bpy.types.Object) -> None:
    """Fix the seed of a new field, which Blender derives from the clock."""
    obj.field.seed = 1


def _rig(obj: bpy.types.Object) -> None:
    rig = bpy.data.objects.new("Rig", bpy.data.armatures.new("Rig"))
    bpy.context.scene.collection.objects.link(rig)
    bpy.context.view_layer.objects.active = rig
    bpy.ops.object.mode_set(mode="EDIT")
    for name, low, high in (("low", -1.0, 0.0), ("high", 0.0, 1.0)):
        bone = rig.data.edit_bones.new(name)
        bone.head, bone.tail = (0.0, 0.0, low), (0.0, 0.0, high)
    bpy.ops.object.mode_set(mode="OBJECT")
    for name, side in (("low", -1.0), ("high", 1.0)):
        group = obj.vertex_groups.new(name=name)
        for vertex in obj.data.vertices:
            group.add([vertex.index], min(max(0.5 + side * vertex.co.z, 0.0), 1.0), "REPLACE")
    obj.modifiers.new("Armature", "ARMATURE").object = rig
    bone = rig.pose.bones["high"]
    bone.rotation_mode = "XYZ"
    for frame, angle in ((1, 0.0), (4, 0.4)):
        bone.rotation_euler.x = angle
        bone.keyframe_insert("rotation_euler", frame=frame)


def _link(obj: bpy.types.Object, other: bpy.types.Object, *places: tuple[float, float, float]) -> None:
    link = obj.dampsim.links.add()
    link.other = other
    for place in places:
        link.points.add().place = place


# Objects of the scene.


def objects() -> list[bpy.types.Object]:
    return sorted(bpy.context.scene.objects, key=lambda obj: obj.name)


def bodies() -> list[bpy.types.Object]:
    return [obj for obj in objects() if obj.type == "MESH" and obj.dampsim.enabled]


def random_body(chance: Random) -> bpy.types.Object:
    return chance.choice(bodies())


def force_fields() -> list[bpy.types.Object]:
    return [obj for obj in objects() if obj.field is not None and obj.field.type != "NONE"]


def rigs() -> list[bpy.types.Object]:
    return [obj for obj in objects() if obj.type == "ARMATURE"]


def fcurves() -> list[tuple[Any, bpy.types.FCurve]]:
    """Return every F-curve of the file with its channel bag."""
    return [
        (bag, curve)
        for action in sorted(bpy.data.actions, key=lambda action: action.name)
        for layer in action.layers
        for strip in layer.strips
        for bag in strip.channelbags
        for curve in bag.fcurves
    ]


def animated_blocks() -> list[tuple[bpy.types.ID, bpy.types.AnimData]]:
    blocks = [*objects(), bpy.context.scene, *(obj.data.shape_keys for obj in bodies() if obj.data.shape_keys)]
    return [(block, block.animation_data) for block in blocks if block.animation_data is not None]


def random_offset(chance: Random, size: float = 0.3) -> float:
    return round(chance.uniform(-size, size), 3)


def random_frame(chance: Random) -> int:
    return chance.randrange(1, LAST + 1)


# Transforms and poses.


@register_edit("pose")
def move(chance: Random) -> str:
    obj, how, axis, way = (
        chance.choice(objects()),
        chance.choice(_TRANSFORM_PROPERTIES),
        chance.randrange(3),
        random_offset(chance),
    )
    getattr(obj, how)[axis] += way
    return f"{obj.name}.{how}[{axis}] += {way}"


@register_edit("pose")
def move_and_key(chance: Random) -> str:
    obj, how, frame, way = (
        chance.choice(objects()),
        chance.choice(_TRANSFORM_PROPERTIES),
        random_frame(chance),
        random_offset(chance),
    )
    getattr(obj, how)[chance.randrange(3)] += way
    obj.keyframe_insert(how, frame=frame)
    return f"{obj.name}.{how} by {way}, keyed at {frame}"


@register_edit("pose")
def rotate_bone(chance: Random) -> str:
    if not rigs():
        return ""
    rig, angle, frame = chance.choice(rigs()), random_offset(chance, 0.8), random_frame(chance)
    bone = chance.choice(list(rig.pose.bones))
    bone.rotation_mode, bone.rotation_euler.y = "XYZ", angle
    if keyed := chance.random() < 0.5:
        bone.keyframe_insert("rotation_euler", frame=frame)
    return f"{rig.name}/{bone.name} to {angle}" + (f", keyed at {frame}" if keyed else "")


@register_edit("pose")
def switch_rest_position(chance: Random) -> str:
    if not rigs():
        return ""
    rig = chance.choice(rigs())
    rig.data.pose_position = "REST" if rig.data.pose_position == "POSE" else "POSE"
    return f"{rig.name} in {rig.data.pose_position} position"


@register_edit("pose")
def compensate_scale_in_mesh(chance: Random) -> str:
    obj = random_body(chance)
    if obj.data.shape_keys or obj.data.users > 1:
        return ""
    obj.scale *= 2.0
    for vertex in obj.data.vertices:
        vertex.co *= 0.5
    obj.data.update()
    return f"{obj.name}: twice the scale, half the mesh"


@register_edit("pose")
def edit_a_bone(chance: Random) -> str:
    seen = [rig for rig in rigs() if rig.visible_get()]
    if not seen:
        return ""
    rig, way = chance.choice(seen), random_offset(chance)
    bpy.context.view_layer.objects.active = rig
    bpy.ops.object.mode_set(mode="EDIT")
    rig.data.edit_bones[chance.randrange(len(rig.data.edit_bones))].tail.x += way
    bpy.ops.object.mode_set(mode="OBJECT")
    return f"tail of a bone of {rig.name} moved by {way}"


# F-curves and animation data.


@register_edit("curve")
def nudge_a_key(chance: Random) -> str:
    if not fcurves():
        return ""
    _, curve = chance.choice(fcurves())
    place, way = chance.randrange(len(curve.keyframe_points)), random_offset(chance)
    curve.keyframe_points[place].co[1] += way
    curve.update()
    return f"key {place} of {curve.data_path} changed by {way}"


@register_edit("curve")
def shift_a_key(chance: Random) -> str:
    if not fcurves():
        return ""
    _, curve = chance.choice(fcurves())
    curve.keyframe_points[-1].co[0] += 1.0
    curve.update()
    return f"last key of {curve.data_path} one frame later"


@register_edit("curve")
def change_a_curve(chance: Random) -> str:
    if not fcurves():
        return ""
    bag, curve = chance.choice(fcurves())
    path, what = curve.data_path, chance.choice(["mute", "noise", "interpolation", "remove", "key removed"])
    if what == "mute":
        curve.mute = not curve.mute
    elif what == "noise":
        curve.modifiers.new("NOISE").strength = 0.3
    elif what == "interpolation":
        for key in curve.keyframe_points:
            key.interpolation = chance.choice(["CONSTANT", "LINEAR", "BEZIER"])
    elif what == "remove" or len(curve.keyframe_points) < 2:
        bag.fcurves.remove(curve)
    else:
        curve.keyframe_points.remove(curve.keyframe_points[-1])
    return f"{path}: {what}"


@register_edit("curve")
def change_animation_data(chance: Random) -> str:
    if not animated_blocks():
        return ""
    block, data = chance.choice(animated_blocks())
    what = chance.choice(["unlink", "push down", "mute track", "influence", "clear"])
    if what == "unlink":
        data.action = None
    elif what == "push down" and data.action:
        action, slot = data.action, data.action_slot
        data.action = None
        strip = data.nla_tracks.new().strips.new("pushed", 1, action)
        strip.action_slot = slot
    elif what == "mute track" and len(data.nla_tracks):
        data.nla_tracks[0].mute = not data.nla_tracks[0].mute
    elif what == "influence" and len(data.nla_tracks):
        strip = data.nla_tracks[0].strips[0]
        strip.use_animated_influence, strip.influence = False, 0.5
    elif what == "clear":
        block.animation_data_clear()
    else:
        return ""
    return f"{what} the animation of {block.name}"


# Vertex groups.


@register_edit("weights")
def paint(chance: Random) -> str:
    obj = random_body(chance)
    if not len(obj.vertex_groups):
        return ""
    group, weight = chance.choice(list(obj.vertex_groups)), round(chance.random(), 2)
    some = chance.sample(range(len(obj.data.vertices)), 4)
    group.add(some, weight, chance.choice(["REPLACE", "ADD"]))
    obj.data.update()
    return f"{obj.name}/{group.name}: {weight} at {some}"


@register_edit("weights")
def choose_a_group(chance: Random) -> str:
    obj, role = random_body(chance), chance.choice(_GROUP_PROPERTIES)
    names = [group.name for group in obj.vertex_groups] + ["" if role != "pin_group" else "Pin"]
    setattr(obj.dampsim, role, chance.choice(names))
    return f"{obj.name}.{role} = {getattr(obj.dampsim, role)!r}"


@register_edit("weights")
def change_vertex_groups(chance: Random) -> str:
    obj = random_body(chance)
    what, some = chance.choice(["new", "rename", "order", "remove"]), list(obj.vertex_groups)
    if what == "new" or not some:
        obj.vertex_groups.new(name="More").add(chance.sample(range(len(obj.data.vertices)), 6), 0.7, "REPLACE")
        obj.data.update()
    elif what == "rename":
        chance.choice(some).name = f"Group{chance.randrange(99)}"
    elif what == "order":
        bpy.context.view_layer.objects.active = obj
        obj.vertex_groups.active_index = 0
        bpy.ops.object.vertex_group_move(direction="DOWN")
    elif chance.random() < 0.5:
        obj.vertex_groups.remove(chance.choice(some))
    return f"{obj.name}: {what} vertex group"


# Parameters.


def random_value(name: str, chance: Random) -> Any:
    one = PARAMETERS[name]
    if one.choices:
        return chance.choice(one.choices).name
    if isinstance(one.default, bool):
        return chance.random() < 0.5
    low, high = one.soft_min or one.min, one.soft_max or one.max
    # Extreme values take time without covering more code.
    value = float(one.default) * 2.0 ** chance.uniform(-1.0, 1.0) or chance.uniform(low, high)
    value = min(max(value, low), high)
    return int(value) if isinstance(one.default, int) else float(f"{value:.3g}")


@register_edit("dial")
@register_edit("dial")
def change_parameter(chance: Random) -> str:
    obj = random_body(chance)
    ours = [
        name
        for name, one in PARAMETERS.items()
        if name not in _EXCLUDED_PARAMETERS and one.section in ("dials", "shape", "shot")
    ]
    name = chance.choice(
        ours if chance.random() < 0.5 else [name for name in PARAMETERS if name not in _EXCLUDED_PARAMETERS]
    )
    setattr(obj.dampsim, name, value := random_value(name, chance))
    return f"{obj.name}.{name} = {value}"


@register_edit("dial")
def change_integer_parameter(chance: Random) -> str:
    obj, name = random_body(chance), chance.choice(["resolution", "substeps", "preroll"])
    value = chance.randrange(50, 90) if name == "resolution" else chance.randrange(1, 3)
    setattr(obj.dampsim, name, value)
    return f"{obj.name}.{name} = {value}"


@register_edit("dial")
@register_edit("dial")
def key_a_dial(chance: Random) -> str:
    obj, frame = random_body(chance), random_frame(chance)
    name = chance.choice([name for name, one in PARAMETERS.items() if one.animatable])
    if keep := chance.random() < 0.5:
        obj.dampsim.keyframe_insert(name, frame=1)
    setattr(obj.dampsim, name, value := random_value(name, chance))
    obj.dampsim.keyframe_insert(name, frame=frame)
    return f"{obj.name}.{name} = {value}, keyed at {frame}" + (" and 1" if keep else "")


@register_edit("dial")
def drive_a_dial(chance: Random) -> str:
    obj = random_body(chance)
    name = chance.choice([name for name, one in PARAMETERS.items() if one.animatable])
    value = getattr(obj.dampsim, name)
    driver = obj.driver_add(f"dampsim.{name}").driver
    driver.expression = chance.choice([f"{value}", f"{value} * (1 + 0.05 * frame)", f"{value} * frame / 4"])
    return f"{obj.name}.{name} driven by {driver.expression}"


@register_edit("dial")
def change_a_driver(chance: Random) -> str:
    found = [(block, driver) for block, data in animated_blocks() for driver in data.drivers]
    if not found:
        return ""
    block, driver = chance.choice(found)
    path = driver.data_path
    if chance.random() < 0.5:
        driver.driver.expression = f"({driver.driver.expression}) * 0.9"
        return f"driver of {path} of {block.name} changed"
    block.animation_data.drivers.remove(driver)
    return f"driver of {path} of {block.name} removed"


@register_edit("dial")
def choose_a_kind(chance: Random) -> str:
    obj = random_body(chance)
    obj.dampsim.kind = "SPRINGS" if obj.dampsim.kind == "SOLID" and chance.random() < 0.3 else "SOLID"
    return f"{obj.name} is {obj.dampsim.kind}"


# Modifiers.


@register_edit("modifier")
def add_a_modifier(chance: Random) -> str:
    obj = random_body(chance)
    kind = chance.choice(["SIMPLE_DEFORM", "CAST", "WAVE", "SMOOTH", "HOOK", "LATTICE", "DISPLACE", "SUBSURF"])
    if len(obj.modifiers) > 5:
        return ""
    modifier = obj.modifiers.new(kind.title(), kind)
    if kind == "SIMPLE_DEFORM":
        modifier.angle = 0.4
    elif kind == "HOOK":
        modifier.object = chance.choice([one for one in objects() if one != obj])
        modifier.vertex_indices_set(chance.sample(range(len(obj.data.vertices)), 5))
    elif kind == "LATTICE":
        lattice = bpy.data.objects.new("Lattice", bpy.data.lattices.new("Lattice"))
        bpy.context.scene.collection.objects.link(lattice)
        lattice.scale = (2.0, 2.0, 2.0)
        modifier.object = lattice
    if kind != "SUBSURF":
        obj.modifiers.move(len(obj.modifiers) - 1, 0)
    return f"{obj.name}: new {kind}"


@register_edit("modifier")
def change_a_modifier(chance: Random) -> str:
    obj = random_body(chance)
    some = [modifier for modifier in obj.modifiers if not modifier.name.startswith("DampSim")]
    if not some:
        return ""
    modifier, what = chance.choice(some), chance.choice(["mute", "move", "setting", "setting", "remove"])
    name = modifier.name
    if what == "mute":
        modifier.show_viewport = not modifier.show_viewport
    elif what == "move":
        obj.modifiers.move(list(obj.modifiers).index(modifier), chance.randrange(len(some)))
    elif what == "remove":
        obj.modifiers.remove(modifier)
    else:
        what = next(
            (one for one in ("strength", "factor", "height", "use_vertex_groups") if hasattr(modifier, one)), ""
        )
        if not what:
            return ""
        now = getattr(modifier, what)
        setattr(modifier, what, not now if isinstance(now, bool) else now * 0.8 + 0.1)
    return f"{obj.name}/{name}: {what}"


@register_edit("modifier")
def pull_a_lattice(chance: Random) -> str:
    lattices = [obj for obj in objects() if obj.type == "LATTICE"]
    if not lattices:
        return ""
    lattice, way = chance.choice(lattices), random_offset(chance)
    lattice.data.points[chance.randrange(8)].co_deform.x += way
    lattice.data.update_tag()
    return f"a point of {lattice.name} moved by {way}"


# Meshes.


@register_edit("mesh")
def pull_a_vertex(chance: Random) -> str:
    obj, way = random_body(chance), random_offset(chance, 0.05)
    place = chance.randrange(len(obj.data.vertices))
    keys = obj.data.shape_keys
    (keys.key_blocks[-1].points if keys else obj.data.vertices)[place].co.x += way
    obj.data.update()
    return f"vertex {place} of {obj.name} moved by {way}"


@register_edit("mesh")
def pull_in_edit_mode(chance: Random) -> str:
    obj = random_body(chance)
    bpy.ops.object.select_all(action="DESELECT")
    bpy.context.view_layer.objects.active = obj
    bpy.ops.object.mode_set(mode="EDIT")
    bpy.ops.mesh.select_all(action="SELECT")
    bpy.ops.transform.resize(value=(1.02, 1.0, 1.0))
    if chance.random() < 0.3 and len(obj.data.vertices) < 50:
        bpy.ops.mesh.subdivide()
    bpy.ops.object.mode_set(mode="OBJECT")
    return f"{obj.name}: edited in Edit Mode, {len(obj.data.vertices)} vertices"


@register_edit("mesh")
def change_shape_keys(chance: Random) -> str:
    obj = random_body(chance)
    keys = obj.data.shape_keys
    if keys is None or len(keys.key_blocks) < 2:
        obj.shape_key_add(name="Basis")
        obj.shape_key_add(name="More").points[3].co.y += 0.2
        return f"{obj.name}: shape keys"
    key, value = chance.choice(list(keys.key_blocks)[1:]), round(chance.random(), 2)
    what = chance.choice(["value", "key", "drive", "mute", "range", "group", "remove"])
    if what == "value":
        key.value = value
    elif what == "key":
        key.value = value
        key.keyframe_insert("value", frame=random_frame(chance))
    elif what == "drive":
        key.driver_add("value").driver.expression = f"{value} * frame / 6"
    elif what == "mute":
        key.mute = not key.mute
    elif what == "range":
        key.slider_max = 0.5
    elif what == "group":
        key.vertex_group = obj.vertex_groups[0].name if len(obj.vertex_groups) and not key.vertex_group else ""
    else:
        obj.shape_key_remove(key)
        return f"{obj.name}: a shape key removed"
    return f"{obj.name}/{key.name}: {what} {value}"


# Constraints and parents.


@register_edit("constraint")
def add_constraint(chance: Random) -> str:
    obj = chance.choice([obj for obj in objects() if not len(obj.constraints)] or objects())
    kind = chance.choice(["COPY_LOCATION", "COPY_ROTATION", "DAMPED_TRACK", "LIMIT_LOCATION"])
    constraint = obj.constraints.new(kind)
    if kind != "LIMIT_LOCATION":
        # Only objects later in name order, to avoid cycles.
        constraint.target = next((one for one in reversed(objects()) if one.name > obj.name), None)
    else:
        constraint.use_max_x, constraint.max_x = True, 0.1
    constraint.influence = 0.5
    return f"{obj.name}: {kind}"


@register_edit("constraint")
def change_a_constraint(chance: Random) -> str:
    found = [(obj, one) for obj in objects() for one in obj.constraints]
    if not found:
        return ""
    obj, one = chance.choice(found)
    what = chance.choice(["influence", "mute", "key", "remove"])
    if what == "remove":
        obj.constraints.remove(one)
    elif what == "mute":
        one.mute = not one.mute
    else:
        one.influence = round(chance.random(), 2)
        if what == "key":
            one.keyframe_insert("influence", frame=random_frame(chance))
    return f"{obj.name}: {what} of a constraint"


@register_edit("constraint")
def change_parent(chance: Random) -> str:
    obj = chance.choice(bodies() + force_fields() + [one for one in objects() if one.type == "EMPTY"])
    # Only objects later in name order, to avoid cycles.
    other = chance.choice([None, *(one for one in objects() if one.name > obj.name)])
    obj.parent, obj.parent_type = other, "OBJECT"
    if other is not None and other.type == "ARMATURE" and len(other.data.bones):
        obj.parent_type, obj.parent_bone = "BONE", other.data.bones[-1].name
    return f"{obj.name} has parent {other.name if other else None}"


# Scene settings.


@register_edit("scene")
def change_frame_rate(chance: Random) -> str:
    render = bpy.context.scene.render
    render.fps, render.fps_base = chance.choice([24, 25, 30, 60]), chance.choice([1.0, 1.0, 1.001])
    return f"{render.fps}/{render.fps_base:.4g} frames a second"


@register_edit("scene")
def change_frame_range(chance: Random) -> str:
    scene = bpy.context.scene
    scene.frame_start, scene.frame_end = chance.choice([0, 1, 1, 2]), chance.choice([LAST - 1, LAST, LAST + 1])
    return f"frames {scene.frame_start} to {scene.frame_end}"


@register_edit("scene")
def change_gravity(chance: Random) -> str:
    scene, what = bpy.context.scene, chance.choice(["set", "key", "switch", "drive", "change driver"])
    drivers = list(scene.animation_data.drivers) if scene.animation_data else []
    if what == "set":
        scene.gravity[chance.randrange(3)] = random_offset(chance, 9.0)
    elif what == "key":
        scene.gravity[2] = random_offset(chance, 9.0)
        scene.keyframe_insert("gravity", frame=random_frame(chance))
    elif what == "switch":
        scene.use_gravity = not scene.use_gravity
    elif what == "drive":
        scene.driver_add("gravity", 0).driver.expression = f"{random_offset(chance)} * frame"
    elif drivers:
        drivers[0].driver.expression = f"{random_offset(chance)} * frame"
    else:
        return ""
    return f"gravity: {what}, {tuple(scene.gravity)}, {scene.use_gravity}"


# Force fields.


@register_edit("field")
def add_a_field(chance: Random) -> str:
    if len(objects()) >= MAX_OBJECTS:
        return ""
    kind = chance.choice(["WIND", "FORCE", "VORTEX", "TURBULENCE", "DRAG"])
    bpy.ops.object.effector_add(type=kind, location=(random_offset(chance, 2.0), random_offset(chance, 2.0), 0.5))
    bpy.context.object.field.strength = 2.0
    _fix_seed(bpy.context.object)
    return f"{kind} {bpy.context.object.name}"


@register_edit("field")
def change_a_field(chance: Random) -> str:
    if not force_fields():
        return ""
    obj, what = (
        chance.choice(force_fields()),
        chance.choice(["strength", "strength", "noise", "key", "type", "falloff", "hide"]),
    )
    if what == "strength":
        obj.field.strength = random_offset(chance, 8.0)
    elif what == "noise":
        obj.field.noise, obj.field.seed = round(chance.random(), 2), chance.randrange(1, 99)
    elif what == "key":
        obj.field.strength = random_offset(chance, 8.0)
        obj.keyframe_insert("field.strength", frame=random_frame(chance))
    elif what == "type":
        obj.field.type = chance.choice(["NONE", "FORCE", "WIND", "MAGNET"])
    elif what == "falloff":
        obj.field.falloff_power = 1.0 + chance.random()
    else:
        obj.hide_viewport = not obj.hide_viewport
    return f"{obj.name}: {what}"


@register_edit("field")
def change_field_collections(chance: Random) -> str:
    if not force_fields():
        return ""
    obj, wind, what = (
        random_body(chance),
        chance.choice(force_fields()),
        chance.choice(["limit", "in", "out", "hide", "exclude"]),
    )
    other = bpy.data.collections.get("Winds")
    if other is None:
        other = bpy.data.collections.new("Winds")
        bpy.context.scene.collection.children.link(other)
    if what == "limit":
        obj.dampsim.field_collection = None if obj.dampsim.field_collection else other
    elif what == "in" and wind.name not in other.objects:
        other.objects.link(wind)
        if chance.random() < 0.5 and wind.name in bpy.context.scene.collection.objects:
            bpy.context.scene.collection.objects.unlink(wind)
    elif what == "out" and wind.name in other.objects:
        if wind.name not in bpy.context.scene.collection.objects:
            bpy.context.scene.collection.objects.link(wind)
        other.objects.unlink(wind)
    elif what == "hide":
        other.hide_viewport = not other.hide_viewport
    elif what == "exclude":
        layer = bpy.context.view_layer.layer_collection.children["Winds"]
        layer.exclude = not layer.exclude
    else:
        return ""
    return f"collection of winds: {what} {obj.name} {wind.name}"


# Colliders.


def colliders() -> list[bpy.types.Object]:
    return [obj for obj in objects() if obj.type == "MESH" and (obj.dampsim_collider.is_collider or obj.collision)]


@register_edit("collider")
def add_a_collider(chance: Random) -> str:
    if len(objects()) >= MAX_OBJECTS:
        return ""
    how = chance.choice(["mark", "plane", "collision"])
    bpy.ops.mesh.primitive_cube_add(size=0.6, location=(random_offset(chance, 1.0), random_offset(chance, 1.0), -2.0))
    obj = bpy.context.object
    obj.dampsim_collider.plane = how == "plane"
    if how == "collision":
        obj.modifiers.new("Collision", "COLLISION")
    else:
        obj.dampsim_collider.is_collider = True
    return f"{obj.name}: {how}"


def _collection_of_all_objects() -> bpy.types.Collection:
    """Return a collection of all objects."""
    found = bpy.data.collections.get("Stops") or bpy.data.collections.new("Stops")
    for obj in bpy.data.objects:
        if obj.name not in found.objects:
            found.objects.link(obj)
    return found


@register_edit("collider")
@register_edit("collider")
def change_a_collider(chance: Random) -> str:
    if not colliders():
        return ""
    obj, ways = (
        chance.choice(colliders()),
        ["dial", "key", "paint", "plane", "mark", "pull", "collide", "limit", "build"],
    )
    how = chance.choice(ways)
    marks = obj.dampsim_collider
    if how == "dial":
        marks.roughness, marks.thickness = round(chance.random(), 2), round(0.05 * chance.random(), 3)
    elif how == "key":
        marks.roughness = round(chance.random(), 2)
        marks.keyframe_insert("roughness", frame=random_frame(chance))
    elif how == "paint":
        group = obj.vertex_groups.get("Ice") or obj.vertex_groups.new(name="Ice")
        group.add([chance.randrange(len(obj.data.vertices))], round(chance.random(), 2), "REPLACE")
        marks.roughness_group = chance.choice(["Ice", "Ice", ""])
    elif how == "plane":
        marks.plane = not marks.plane
    elif how == "mark":
        marks.is_collider = not marks.is_collider
    elif how == "pull":
        obj.data.vertices[0].co.x += random_offset(chance)
        obj.data.update()
    elif how == "build":
        if "Build" in obj.modifiers:
            obj.modifiers.remove(obj.modifiers["Build"])
        elif chance.random() < 0.3 and obj not in bodies():
            obj.modifiers.new("Build", "BUILD")
    else:
        of_whom = random_body(chance).dampsim
        if how == "collide":
            of_whom.collide = not of_whom.collide
        else:
            # Not the scene's own collection, to which Blender 4.5 allows no pointer.
            of_whom.collider_collection = None if of_whom.collider_collection else _collection_of_all_objects()
    return f"{obj.name}: {how}"


# Links and groups.


@register_edit("link")
def add_a_link(chance: Random) -> str:
    obj = random_body(chance)
    members = groups.group_of(obj).members
    others = [one for one in objects() if one != obj and (one not in bodies() or one in members)]
    if not others or len(obj.dampsim.links) > 2:
        return ""
    _link(
        obj,
        other := chance.choice(others),
        (random_offset(chance, 0.4), 0.0, 0.4),
        (random_offset(chance, 0.4), 0.3, 0.3),
    )
    return f"{obj.name} linked to {other.name}"


@register_edit("link")
@register_edit("link")
def change_a_link(chance: Random) -> str:
    found = [(obj, link) for obj in bodies() for link in obj.dampsim.links]
    if not found:
        return ""
    obj, link = chance.choice(found)
    what = chance.choice(["rigid", "stiffness", "point", "bone", "armature", "remove"])
    if what == "rigid":
        link.rigid = not link.rigid
    elif what == "stiffness":
        link.rigid, link.stiffness = False, round(chance.uniform(1.0, 500.0))
    elif what == "point" and len(link.points):
        link.points[0].place[chance.randrange(3)] += random_offset(chance)
    elif what == "bone" and link.other is not None and link.other.type == "ARMATURE":
        link.bone = "" if link.bone else link.other.pose.bones[0].name
    elif what == "armature" and rigs() and link.other not in bodies():
        link.bone, link.other = "", chance.choice(rigs())
    elif what == "remove":
        obj.dampsim.links.remove(list(obj.dampsim.links).index(link))
    else:
        return ""
    return f"a link of {obj.name}: {what}"


@register_edit("group")
def join_group(chance: Random) -> str:
    if len(bodies()) < 2:
        return ""
    some = chance.sample(bodies(), 2)
    groups.join_group(some)
    return f"{some[0].name} joined with {some[1].name}"


@register_edit("group")
def leave_group(chance: Random) -> str:
    obj = random_body(chance)
    members = [one for one in groups.group_of(obj).members if one != obj]
    for one in (obj, *members):
        for place in reversed(range(len(one.dampsim.links))):
            if one.dampsim.links[place].other in (members if one == obj else [obj]):
                one.dampsim.links.remove(place)
    groups.leave_group(obj)
    return f"{obj.name} leaves its group"


# Objects.


@register_edit("object")
def rename(chance: Random) -> str:
    obj = chance.choice(objects())
    old, obj.name = obj.name, f"{chance.choice('AMZ')} {chance.randrange(99)}"
    return f"{old} is now {obj.name}"


@register_edit("object")
def duplicate(chance: Random) -> str:
    obj = chance.choice(objects())
    if len(bodies()) >= MAX_BODIES or len(objects()) >= MAX_OBJECTS or not obj.visible_get():
        return ""
    bpy.ops.object.select_all(action="DESELECT")
    obj.select_set(True)
    bpy.context.view_layer.objects.active = obj
    bpy.ops.object.duplicate(linked=chance.random() < 0.3)
    return f"{obj.name} duplicated as {bpy.context.object.name}"


@register_edit("object")
def delete(chance: Random) -> str:
    obj = chance.choice(objects())
    if (obj in bodies() and len(bodies()) < 2) or chance.random() < 0.5:
        return ""
    name = obj.name
    bpy.data.objects.remove(obj)
    return f"{name} deleted"


@register_edit("object")
def hide(chance: Random) -> str:
    others = [obj for obj in objects() if obj not in bodies()]
    if not others:
        return ""
    obj = chance.choice(others)
    obj.hide_viewport = not obj.hide_viewport
    return f"{obj.name} hidden: {obj.hide_viewport}"


@register_edit("object")
def switch_live(chance: Random) -> str:
    obj = random_body(chance)
    obj.dampsim.live = not obj.dampsim.live or chance.random() < 0.5
    return f"{obj.name}.live = {obj.dampsim.live}"


@register_edit("object")
def switch_draft(chance: Random) -> str:
    obj = random_body(chance)
    obj.dampsim.draft, obj.dampsim.draft_part = not obj.dampsim.draft, chance.choice((84.0, 90.0))
    return f"{obj.name}.draft = {obj.dampsim.draft}, {obj.dampsim.draft_part:g}%"


def random_edit(chance: Random) -> str:
    """Apply a random edit and return its description. Every sort is equally likely."""
    while True:
        edit = chance.choice(EDITS[chance.choice(list(EDITS))])
        if said := edit(chance):
            return f"{edit.__name__}: {said}"
