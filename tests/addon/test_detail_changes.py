"""Edits of details behind modifiers, constraints, drivers and nodes outdate a bake; animated values do not."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

import bmesh
import bpy
import numpy as np
import pytest
from scenes import armature, new_scene, wobbler, world_vertices
from test_movers import animate_location, differ, key_object, node_group, sampled_shapes, shapes, sheet

pytestmark = [pytest.mark.bpy, pytest.mark.versions]
Load = Callable[[str], ModuleType]
# An object, and an edit that moves it.
Case = tuple[bpy.types.Object, Callable[[], Any]]


def changed_inputs(load: Load, obj: bpy.types.Object, before: Any) -> list[str]:
    """Return the inputs of an object that differ from earlier ones, as the panel lists them."""
    module = load("dampsim_addon.status.bake_changes")
    bpy.context.view_layer.update()
    now = module._current_inputs(obj, bpy.context.scene)
    names = dict.fromkeys([*before.digests, *now.digests])
    found = [one for one in names if module._is_different(before.digests.get(one), now.digests.get(one), one)]
    return found + module._differences(before.facts, now.facts)


def inputs(load: Load, obj: bpy.types.Object) -> Any:
    bpy.context.view_layer.update()
    return load("dampsim_addon.status.bake_changes")._current_inputs(obj, bpy.context.scene)


def empty(name: str, height: float | None = None) -> bpy.types.Object:
    """Return an empty; with a height, it rises to it from frame 1 to 5."""
    obj = bpy.data.objects.new(name, None)
    bpy.context.scene.collection.objects.link(obj)
    if height is not None:
        key_object(obj, "location", ((0.0, 0.0, 0.0), (0.0, 0.0, height)))
    return obj


def curve_of(block: Any, number: int = 0) -> Any:
    return block.animation_data.action.layers[0].strips[0].channelbags[0].fcurves[number]


def raise_last_key(block: Any, number: int = 0) -> None:
    curve_of(block, number).keyframe_points[-1].co.y = 3.0
    curve_of(block, number).update()


def read(block: Any, path: str, target: Any, source: str = "", expression: str = "x") -> Any:
    """Let a driver read a property of a target, or its height if the source is ''. Return the driver."""
    driver = block.driver_add(path).driver if path != "location" else block.driver_add(path, 2).driver
    variable = driver.variables.new()
    variable.name = "x"
    if source:
        if not isinstance(target, bpy.types.Object):
            variable.targets[0].id_type = target.id_type
        variable.targets[0].id, variable.targets[0].data_path = target, source
    else:
        variable.type = "TRANSFORMS"
        variable.targets[0].id, variable.targets[0].transform_type = target, "LOC_Z"
    driver.expression = expression
    return driver


def texture(keyed: bool = False) -> Case:
    obj, clouds = sheet(), bpy.data.textures.new("Clouds", "CLOUDS")
    obj.modifiers.new("Displace", "DISPLACE").texture = clouds
    if keyed:
        key_object(clouds, "noise_scale", (0.3, 1.0))
        return obj, lambda: raise_last_key(clouds)
    return obj, lambda: setattr(clouds, "noise_scale", 1.3)


def texture_by_driver() -> Case:
    obj, _ = texture()
    control = empty("Control", 1.0)
    read(bpy.data.textures["Clouds"], "noise_scale", control, "", "0.2 + x")
    return obj, lambda: raise_last_key(control, 2)


def swapped_groups() -> Case:
    obj = sheet()
    first, second = obj.modifiers.new("Displace", "DISPLACE"), obj.modifiers.new("Cast", "CAST")
    first.vertex_group, second.vertex_group, second.factor = "Part", "Pin", 0.5

    def edit() -> None:
        first.vertex_group, second.vertex_group = "Pin", "Part"

    return obj, edit


def rigged() -> tuple[bpy.types.Object, bpy.types.Object]:
    obj = sheet()
    return obj, armature(obj)


def constraint_bone() -> Case:
    obj, rig = sheet(), armature(sheet())
    constraint = obj.constraints.new("COPY_ROTATION")
    constraint.target, constraint.subtarget = rig, "low"
    return obj, lambda: setattr(constraint, "subtarget", "high")


def armature_constraint() -> Case:
    obj, rig = sheet(), armature(sheet())
    targets = obj.constraints.new("ARMATURE").targets
    for name in ("low", "high"):
        target = targets.new()
        target.target, target.subtarget = rig, name
    return obj, lambda: setattr(targets[0], "weight", 0.2)


def followed_group() -> Case:
    obj, other = sheet(), sheet()
    key_object(other, "location", ((0.0, 0.0, 0.0), (0.0, 0.0, 1.0)))
    constraint = obj.constraints.new("COPY_LOCATION")
    constraint.target, constraint.subtarget = other, "Part"
    return obj, lambda: other.vertex_groups["Part"].remove([0, 1])


def falloff() -> Case:
    obj = sheet()
    hook = obj.modifiers.new("Hook", "HOOK")
    hook.object, hook.vertex_group, hook.falloff_type = empty("Hand", 1.0), "Pin", "CURVE"
    hook.falloff_radius = 1.0

    def edit() -> None:
        hook.falloff_curve.curves[0].points[0].location = (0.0, 0.7)
        hook.falloff_curve.update()
        obj.update_tag()

    return obj, edit


def action_constraint() -> Case:
    obj, slider, pose = sheet(), empty("Slider", 1.0), empty("Pose")
    key_object(pose, "location", ((0.0, 0.0, 0.0), (0.0, 0.0, 1.0)))
    action = pose.animation_data.action
    pose.animation_data_clear()
    constraint: Any = obj.constraints.new("ACTION")
    constraint.target, constraint.action, constraint.action_slot = slider, action, action.slots[0]
    constraint.transform_channel, constraint.min, constraint.max = "LOCATION_Z", 0.0, 1.0
    constraint.frame_start, constraint.frame_end = 1, 5

    def edit() -> None:
        curve = action.layers[0].strips[0].channelbags[0].fcurves[2]
        curve.keyframe_points[1].co.y = 3.0
        curve.update()
        action.update_tag()

    return obj, edit


def driver_chain() -> Case:
    obj, first, second = sheet(), empty("First"), empty("Second")
    first["amount"], second["amount"] = 0.0, 0.0
    key_object(second, "location", ((0.0, 0.0, 0.0), (0.0, 0.0, 1.0)))
    read(first, '["amount"]', second, "location[2]", "2 * x")
    read(obj, "location", first, '["amount"]')
    return obj, lambda: raise_last_key(second, 2)


def driver_of_child() -> Case:
    obj, child, parent = sheet(), empty("Child"), empty("Parent", 1.0)
    child.parent = parent
    read(obj, "location", child)
    return obj, lambda: raise_last_key(parent, 2)


def keyed_camera() -> Case:
    obj, camera = sheet(), bpy.data.objects.new("Camera", bpy.data.cameras.new("Camera"))
    bpy.context.scene.collection.objects.link(camera)
    key_object(camera.data, "lens", (20.0, 80.0))
    read(obj, "location", camera, "data.lens", "x / 50")
    return obj, lambda: raise_last_key(camera.data)


def key_limit() -> Case:
    obj = sheet()
    obj.shape_key_add(name="Basis")
    key = obj.shape_key_add(name="Up")
    key.points[3].co.z += 0.4
    key_object(key, "value", (0.0, 1.0))
    return obj, lambda: setattr(key, "slider_max", 0.5)


def lone_key() -> Case:
    obj = sheet()
    obj.shape_key_add(name="Basis")
    key = obj.shape_key_add(name="Up")
    key.points[3].co.z, key.value, obj.active_shape_key_index = 1.0, 1.0, 0
    return obj, lambda: setattr(obj, "show_only_shape_key", True)


def cage_weights() -> Case:
    obj, cage = sheet(), sheet()
    armature(cage)
    obj.modifiers.new("Shrinkwrap", "SHRINKWRAP").target = cage
    return obj, lambda: cage.vertex_groups["high"].add(range(25), 1.0, "REPLACE")


def lattice_setting() -> Case:
    obj, cage = sheet(), bpy.data.objects.new("Cage", bpy.data.lattices.new("Cage"))
    bpy.context.scene.collection.objects.link(cage)
    cage.data.points[0].co_deform.z -= 1.0
    obj.modifiers.new("Lattice", "LATTICE").object = cage
    return obj, lambda: setattr(cage.data, "interpolation_type_u", "KEY_LINEAR")


def cloth_settings() -> Case:
    obj, cloth = sheet(), sheet()
    cloth.dampsim.enabled = False
    modifier: Any = cloth.modifiers.new("Cloth", "CLOTH")
    obj.modifiers.new("Shrinkwrap", "SHRINKWRAP").target = cloth

    def edit() -> None:
        modifier.settings.effector_weights.gravity = 0.0
        cloth.update_tag()

    return obj, edit


def rigid_body_world() -> Case:
    obj = sheet()
    bpy.ops.mesh.primitive_cube_add()
    bpy.ops.rigidbody.object_add()
    obj.parent = bpy.context.object
    return obj, lambda: setattr(bpy.context.scene.rigidbody_world, "time_scale", 0.5)


def noded(data_type: str) -> tuple[bpy.types.Object, Any, Any, Any]:
    """Return an object, its tree, a node from which the offset of all vertices comes, and the node of the time."""
    obj, tree = sheet(), node_group("GeometryNodeSetPosition", keyed=False)
    obj.modifiers.new("Nodes", "NODES").node_group = tree
    node, time = tree.nodes.new(data_type), tree.nodes.new("GeometryNodeInputSceneTime")
    return obj, tree, node, time


def link_offset(tree: Any, socket: Any) -> None:
    tree.links.new(socket, tree.nodes["Set Position"].inputs["Offset"])


def float_curve() -> Case:
    obj, tree, node, time = noded("ShaderNodeFloatCurve")
    tree.links.new(time.outputs["Seconds"], node.inputs["Value"])
    link_offset(tree, node.outputs[0])

    def edit() -> None:
        node.mapping.curves[0].points[1].location = (1.0, 0.2)
        node.mapping.update()
        tree.update_tag()

    return obj, edit


def named_attribute() -> Case:
    obj, tree, node, time = noded("GeometryNodeInputNamedAttribute")
    node.inputs[0].default_value = "Part"
    scale = tree.nodes.new("ShaderNodeVectorMath")
    scale.operation = "MULTIPLY"
    tree.links.new(node.outputs[0], scale.inputs[0])
    tree.links.new(time.outputs["Seconds"], scale.inputs[1])
    link_offset(tree, scale.outputs[0])
    return obj, lambda: obj.vertex_groups["Part"].add([3, 4, 5], 1.0, "REPLACE")


def swapped_objects() -> Case:
    obj, tree, node, _ = noded("GeometryNodeObjectInfo")
    other, moving, still = tree.nodes.new("GeometryNodeObjectInfo"), empty("A", 1.0), empty("B")
    node.inputs[0].default_value, other.inputs[0].default_value = moving, still
    link_offset(tree, node.outputs["Location"])

    def edit() -> None:
        node.inputs[0].default_value, other.inputs[0].default_value = still, moving

    return obj, edit


def view(height: float | None) -> bpy.types.Object:
    camera = bpy.data.objects.new("Camera", bpy.data.cameras.new("Camera"))
    bpy.context.scene.collection.objects.link(camera)
    if height is not None:
        key_object(camera, "location", ((0.0, 0.0, 0.0), (0.0, 0.0, height)))
    return camera


def active_camera() -> Case:
    obj, tree, node, _ = noded("GeometryNodeInputActiveCamera")
    place, camera = tree.nodes.new("GeometryNodeObjectInfo"), view(1.0)
    tree.links.new(node.outputs[0], place.inputs[0])
    link_offset(tree, place.outputs["Location"])
    bpy.context.scene.camera = camera
    return obj, lambda: raise_last_key(camera, 2)


def keyed_wind(path: str = "location") -> Case:
    obj = sheet()
    bpy.ops.object.effector_add(type="WIND")
    wind = bpy.context.object
    values: Any = ((0.0, 0.0, 0.0), (0.0, 0.0, 1.0)) if path == "location" else ((0.0,) * 3, (1.0, 0.0, 0.0))
    key_object(wind, path, values)
    return obj, lambda: raise_last_key(wind, 0)


def keyed_gravity() -> Case:
    obj, scene = sheet(), bpy.context.scene
    for frame, pull in ((1, -9.81), (5, 0.0)):
        scene.gravity[2] = pull
        scene.keyframe_insert("gravity", index=2, frame=frame)
    return obj, lambda: raise_last_key(scene)


def turned_edge() -> Case:
    obj = sheet()
    copy = bmesh.new()
    copy.from_mesh(obj.data)
    bmesh.ops.triangulate(copy, faces=copy.faces[:])
    copy.to_mesh(obj.data)

    def edit() -> None:
        inner = [edge for edge in copy.edges if len(edge.link_faces) == 2]
        longest = max(inner, key=lambda edge: edge.calc_length())
        bmesh.ops.rotate_edges(copy, edges=[longest])
        copy.to_mesh(obj.data)
        copy.free()

    return obj, edit


def envelope() -> Case:
    obj = sheet()
    animate_location(obj)
    modifier = curve_of(obj).modifiers.new("ENVELOPE")
    modifier.control_points.add(1)

    def edit() -> None:
        # Setting it at the point itself reads beyond its memory in Blender.
        modifier.control_points.foreach_set("max", [0.1])
        curve_of(obj).update()

    return obj, edit


def time_stretching() -> Case:
    obj = sheet()
    animate_location(obj)
    return obj, lambda: setattr(bpy.context.scene.render, "frame_map_new", 200)


def linked_anchor(edit: str) -> Case:
    obj, anchor, parent = sheet(), empty("Anchor"), empty("Parent", 1.0)
    anchor.parent = parent
    link = obj.dampsim.links.add()
    link.other = anchor
    point = link.points.add()
    edits: dict[str, Callable[[], Any]] = {
        "motion": lambda: raise_last_key(parent, 2),
        "place": lambda: setattr(point, "place", (0.5, 0.5, 0.0)),
        "removed": lambda: obj.dampsim.links.remove(0),
    }
    return obj, edits[edit]


def driven_pull(owner: str) -> Case:
    obj, control = sheet(), empty("Control")
    control["pull"] = -9.0
    if owner == "wind":
        bpy.ops.object.effector_add(type="WIND")
        read(bpy.context.object, "field.strength", control, '["pull"]')
        return obj, lambda: control.__setitem__("pull", 1.0)
    driver = bpy.context.scene.driver_add("gravity", 2).driver
    variable = driver.variables.new()
    variable.name, driver.expression = "x", "x"
    variable.targets[0].id, variable.targets[0].data_path = control, '["pull"]'
    return obj, lambda: control.__setitem__("pull", 1.0)


def followed_wind() -> Case:
    obj, rig = sheet(), armature(sheet())
    bpy.ops.object.effector_add(type="WIND")
    constraint = bpy.context.object.constraints.new("COPY_ROTATION")
    constraint.target, constraint.subtarget = rig, "low"
    return obj, lambda: setattr(constraint, "subtarget", "high")


def scene_property() -> Case:
    obj, scene = sheet(), bpy.context.scene
    scene["amount"] = 0.5
    driver = obj.driver_add("location", 2).driver
    variable = driver.variables.new()
    variable.name, variable.type, driver.expression = "x", "CONTEXT_PROP", "x"
    variable.targets[0].context_property, variable.targets[0].data_path = "ACTIVE_SCENE", '["amount"]'
    return obj, lambda: scene.__setitem__("amount", 2.0)


def bendy_handle() -> Case:
    obj, rig = rigged()
    bone = rig.data.bones["high"]
    bone.bbone_segments, bone.bbone_handle_type_start = 4, "ABSOLUTE"
    bone.bbone_custom_handle_start = rig.data.bones["low"]
    return obj, lambda: setattr(bone, "bbone_custom_handle_start", None)


def transferred_weights() -> Case:
    obj, other = sheet(), sheet()
    transfer: Any = obj.modifiers.new("Transfer", "DATA_TRANSFER")
    transfer.object, transfer.use_vert_data, transfer.data_types_verts = other, True, {"VGROUP_WEIGHTS"}
    obj.modifiers.new("Displace", "DISPLACE").vertex_group = "Part"
    return obj, lambda: other.vertex_groups["Part"].add(range(25), 0.5, "REPLACE")


def text_of_nodes() -> Case:
    obj, tree, node, time = noded("GeometryNodeInputNamedAttribute")
    text, scale = tree.nodes.new("FunctionNodeInputString"), tree.nodes.new("ShaderNodeVectorMath")
    text.string, scale.operation = "Part", "MULTIPLY"
    tree.links.new(text.outputs[0], node.inputs[0])
    tree.links.new(node.outputs[0], scale.inputs[0])
    tree.links.new(time.outputs["Seconds"], scale.inputs[1])
    link_offset(tree, scale.outputs[0])
    return obj, lambda: setattr(text, "string", "Pin")


def chosen_material() -> Case:
    obj, tree, node, time = noded("GeometryNodeMaterialSelection")
    for name in ("Plain", "Chosen"):
        obj.data.materials.append(bpy.data.materials.new(name))
    node.inputs[0].default_value = bpy.data.materials["Chosen"]
    tree.links.new(node.outputs[0], tree.nodes["Set Position"].inputs["Selection"])
    link_offset(tree, time.outputs["Seconds"])
    return obj, lambda: setattr(obj.data.polygons[0], "material_index", 1)


def text_object() -> Case:
    obj, tree, node, _ = noded("GeometryNodeObjectInfo")
    words = bpy.data.objects.new("Words", bpy.data.curves.new("Words", "FONT"))
    bpy.context.scene.collection.objects.link(words)
    box = tree.nodes.new("GeometryNodeBoundBox")
    node.inputs[0].default_value, words.data.body = words, "Hi"
    tree.links.new(node.outputs["Geometry"], box.inputs[0])
    link_offset(tree, box.outputs["Max"])
    return obj, lambda: setattr(words.data, "body", "Hello")


def keyed_strips() -> Case:
    obj = sheet()
    animate_location(obj)
    data = obj.animation_data
    strip = data.nla_tracks.new().strips.new("Walk", 1, data.action)
    strip.action_slot = data.action.slots[0]
    data.action = None
    strip.use_animated_time = strip.use_animated_influence = True
    for frame, time, influence in ((1, 1.0, 0.0), (5, 5.0, 1.0)):
        strip.strip_time, strip.influence = time, influence
        strip.keyframe_insert("strip_time", frame=frame)
        strip.keyframe_insert("influence", frame=frame)

    def edit() -> None:
        strip.fcurves.find("strip_time").keyframe_points[1].co.y = 2.0

    return obj, edit


def shaped_collider() -> Case:
    obj, ground = sheet(), sheet()
    ground.dampsim.enabled, ground.dampsim_collider.is_collider = False, True
    ground.location.z = -1.0
    ground.shape_key_add(name="Basis")
    key = ground.shape_key_add(name="Bump")
    key.points[3].co.z, key.value = 0.5, 0.3
    return obj, lambda: setattr(key, "value", 1.0)


EDITS: dict[str, tuple[Callable[[], Case], str]] = {
    "texture": (texture, "details of Sheet"),
    "keyed texture": (lambda: texture(keyed=True), "details of Sheet"),
    "driven texture": (texture_by_driver, "objects read by drivers and nodes of Sheet"),
    "groups": (swapped_groups, "details of Sheet"),
    "bone of constraint": (constraint_bone, "details of Sheet"),
    "armature constraint": (armature_constraint, "details of Sheet"),
    "followed group": (followed_group, "details of Sheet"),
    "falloff": (falloff, "details of Sheet"),
    "action of constraint": (action_constraint, "details of Sheet"),
    "chain of drivers": (driver_chain, "objects read by drivers and nodes of Sheet"),
    "parent of target": (driver_of_child, "objects read by drivers and nodes of Sheet"),
    "data of target": (keyed_camera, "inputs of drivers of Sheet"),
    "key limit": (key_limit, "details of Sheet"),
    "lone key": (lone_key, "details of Sheet"),
    "weights of cage": (cage_weights, "details of Sheet.001"),
    "lattice": (lattice_setting, "details of Cage"),
    "cloth": (cloth_settings, "details of Sheet.001"),
    "rigid bodies": (rigid_body_world, "details of Cube"),
    "node curve": (float_curve, "details of Sheet"),
    "attribute": (named_attribute, "details of Sheet"),
    "objects of nodes": (swapped_objects, "details of Sheet"),
    "camera": (active_camera, "objects read by drivers and nodes of Sheet"),
    "wind": (keyed_wind, "animation of force fields"),
    "turned wind": (lambda: keyed_wind("rotation_euler"), "animation of force fields"),
    "gravity": (keyed_gravity, "animation of gravity"),
    "edges": (turned_edge, "edges and faces of Sheet"),
    "envelope": (envelope, "keyframes of Sheet"),
    "anchor": (lambda: linked_anchor("motion"), "links of Sheet"),
    "place of link": (lambda: linked_anchor("place"), "links of Sheet"),
    "removed link": (lambda: linked_anchor("removed"), "links of Sheet"),
    "driven gravity": (lambda: driven_pull("scene"), "animation of gravity"),
    "driven wind": (lambda: driven_pull("wind"), "animation of force fields"),
    "followed wind": (followed_wind, "animation of force fields"),
    "scene property": (scene_property, "objects read by drivers and nodes of Sheet"),
    "bendy handle": (bendy_handle, "details of Rig"),
    "transfer": (transferred_weights, "details of Sheet.001"),
    "text of nodes": (text_of_nodes, "details of Sheet"),
    "material": (chosen_material, "details of Sheet"),
    "text object": (text_object, "details of Words"),
    "keyed strip": (keyed_strips, "animation settings of Sheet"),
    "shape of collider": (shaped_collider, "the details of collider Sheet.001"),
    "time": (time_stretching, "Time Stretching 100:100, now 100:200"),
}


@pytest.mark.parametrize("name", EDITS)
def test_detail_edit_outdates_bake(load: Load, name: str) -> None:
    """The edit is listed, and other frames are no change."""
    scene = new_scene(5)
    build, words = EDITS[name]
    obj, edit = build()
    scene.frame_set(1)
    before = inputs(load, obj)
    for frame in (3, 5):
        scene.frame_set(frame)
        assert changed_inputs(load, obj, before) == []
    scene.frame_set(1)
    edit()
    assert words in changed_inputs(load, obj, before)


def test_animated_stacks_are_no_changes(load: Load) -> None:
    """Fixed settings of animated modifiers and constraints are watched, the animated ones have keyframes."""
    scene = new_scene(5)
    obj, rig = rigged()
    cage = sheet()
    bend = cage.modifiers.new("Bend", "SIMPLE_DEFORM")
    key_object(bend, "angle", (0.0, 1.0))
    obj.modifiers.new("Shrinkwrap", "SHRINKWRAP").target = cage
    key_object(obj.modifiers["Shrinkwrap"], "offset", (0.0, 0.1))
    limit = rig.pose.bones["high"].constraints.new("LIMIT_ROTATION")
    key_object(limit, "influence", (0.0, 1.0))
    follow = obj.constraints.new("COPY_LOCATION")
    follow.target = rig
    obj.driver_add(f"{follow.path_from_id()}.influence").driver.expression = "frame / 5"
    scene.frame_set(1)
    before = inputs(load, obj)
    for frame in (3, 5):
        scene.frame_set(frame)
        assert changed_inputs(load, obj, before) == []
    bend.deform_axis = "Y"
    assert changed_inputs(load, obj, before) == ["details of Sheet.001"]
    limit.use_limit_x = True
    assert "constraint Limit Rotation of high" in changed_inputs(load, obj, before)


def test_renamed_groups_keep_details(load: Load) -> None:
    """Bones and vertex groups are compared by their places, and files by their names without folders."""
    scene = new_scene(5)
    obj, rig = rigged()
    constraint = obj.constraints.new("COPY_LOCATION")
    constraint.target, constraint.subtarget = rig, "high"
    cache: Any = obj.modifiers.new("Cache", "MESH_CACHE")
    cache.filepath = "//one/motion.pc2"
    before = inputs(load, obj)
    rig.data.bones["high"].name = "Neck"
    cache.filepath = "//moved/motion.pc2"
    assert not [one for one in changed_inputs(load, obj, before) if one.startswith("details")]
    cache.filepath = "//moved/other.pc2"
    assert "details of Sheet" in changed_inputs(load, obj, before)
    assert scene.frame_current == 1


def test_saved_node_inputs_are_no_changes(load: Load, tmp_path: Path) -> None:
    """Blender saves the switch from a value to an attribute as a number."""
    new_scene(5)
    obj, tree, _, _ = noded("GeometryNodeInputSceneTime")
    tree.interface.new_socket("Size", in_out="INPUT", socket_type="NodeSocketFloat")
    before = inputs(load, obj)
    bpy.ops.wm.save_as_mainfile(filepath=str(tmp_path / "saved.blend"))
    bpy.ops.wm.open_mainfile(filepath=str(tmp_path / "saved.blend"))
    assert changed_inputs(load, bpy.data.objects["Sheet"], before) == []


def test_collider_details_outdate_bake(load: Load, tmp_path: Path) -> None:
    """A bake stores and reports the details of its own objects and of its colliders."""
    scene = new_scene(3)
    obj = wobbler(tmp_path)
    bpy.ops.mesh.primitive_grid_add(location=(0.0, 0.0, -3.0))
    ground = bpy.context.object
    ground.dampsim_collider.is_collider = True
    clouds = bpy.data.textures.new("Clouds", "CLOUDS")
    ground.modifiers.new("Displace", "DISPLACE").texture = clouds
    obj.modifiers.new("Displace", "DISPLACE").texture = clouds
    obj.modifiers.move(1, 0)
    obj.dampsim.target, obj.dampsim.resolution = "POINT_CACHE", 60
    bpy.context.view_layer.objects.active = obj
    assert bpy.ops.dampsim.bake() == {"FINISHED"}
    changes = load("dampsim_addon.status.bake_changes")
    changes.refresh_digests(obj)
    assert changes.changes_since_bake(obj, scene) == []
    clouds.noise_scale = 1.5
    changes.refresh_digests(obj)
    assert changes.changes_since_bake(obj, scene) == ["details of Wobbler", "the details of collider Grid"]


def test_output_attributes_are_felt(load: Load) -> None:
    """Outputs of a tree that a modifier stores as positions or pins count like those of a node."""
    new_scene(5)
    obj, tree = sheet(), node_group("GeometryNodeSetShadeSmooth")
    socket = tree.interface.new_socket("Place", in_out="OUTPUT", socket_type="NodeSocketVector")
    add, time = tree.nodes.new("ShaderNodeVectorMath"), tree.nodes.new("GeometryNodeInputSceneTime")
    tree.links.new(tree.nodes.new("GeometryNodeInputPosition").outputs[0], add.inputs[0])
    tree.links.new(time.outputs["Seconds"], add.inputs[1])
    tree.links.new(add.outputs[0], tree.nodes["Group Output"].inputs["Place"])
    modifier: Any = obj.modifiers.new("Nodes", "NODES")
    modifier.node_group = tree
    set_output(modifier, socket.identifier, "Pin")
    assert load("dampsim_addon.blender.modifiers").has_weight_modifier(obj, "Pin")
    set_output(modifier, socket.identifier, "position")
    assert differ(shapes(obj)[1:], shapes(obj)[:1] * 3)
    assert not differ(shapes(obj), sampled_shapes(load, obj))


def set_output(modifier: Any, identifier: str, name: str) -> None:
    """Choose the attribute in which a Geometry Nodes modifier stores an output."""
    if hasattr(modifier, "properties"):
        getattr(modifier.properties.outputs, identifier).attribute_name = name
    else:
        modifier[f"{identifier}_attribute_name"] = name


@pytest.mark.parametrize("layers", [1, 2])
def test_cameras_of_markers_are_felt(load: Load, layers: int) -> None:
    """Nodes that read the active camera follow the one to which a marker switches, from its frame on."""
    scene = new_scene(5)
    obj, _ = active_camera()
    second = view(2.0)
    for number, camera in ((1, scene.camera), (3, second)):
        scene.timeline_markers.new("Cut", frame=number).camera = camera
    for number in range(1, layers):
        scene.view_layers.new(str(number))
    # The next evaluation after a switch sees the new camera.
    expected = [world_vertices(obj, frame) for frame in (1, 2, 3, 5)]
    isolation = load("dampsim_addon.scene_reader.isolation")
    found = []
    with isolation.isolated_sampler(scene, bpy.context.view_layer, [obj]) as sampler:
        for frame in (1, 2, 3, 5):
            sampler.set_frame(float(frame))
            found.append(sampler.members[0].world_positions())
    np.testing.assert_allclose(found, expected, atol=1e-6)


def test_cameras_share_a_frame(load: Load) -> None:
    """Markers at one frame count in their order."""
    scene = new_scene(5)
    obj, _ = active_camera()
    for name in ("First", "Second"):
        scene.timeline_markers.new(name, frame=3).camera = view(2.0)
    before = inputs(load, obj)
    raise_last_key(scene.timeline_markers[1].camera, 2)
    assert changed_inputs(load, obj, before) == ["objects read by drivers and nodes of Sheet"]


def collider() -> bpy.types.Object:
    ground = sheet()
    ground.dampsim.enabled, ground.dampsim_collider.is_collider = False, True
    return ground


@pytest.mark.parametrize("reader", ["none", "mask", "key", "cap"])
def test_only_read_weights_count(load: Load, reader: str) -> None:
    """Weights of a collider count where a setting of its own names them, or another mesh takes them over."""
    new_scene(5)
    obj, ground = sheet(), collider()
    if reader == "mask":
        mix = ground.modifiers.new("Mix", "VERTEX_WEIGHT_MIX")
        mix.vertex_group_a, mix.mask_vertex_group = "Pin", "Part"
    elif reader == "key":
        ground.shape_key_add(name="Basis")
        ground.shape_key_add(name="Up").vertex_group = "Part"
    elif reader == "cap":
        other = collider()
        other.modifiers.new("Array", "ARRAY").start_cap = ground
    before = inputs(load, obj)
    ground.vertex_groups["Part"].add(range(25), 0.7, "REPLACE")
    readers = {"none": [], "cap": ["the details of collider Sheet.002"]}
    assert changed_inputs(load, obj, before) == readers.get(reader, ["the details of collider Sheet.001"])


def test_unread_weights_are_not_read(load: Load, monkeypatch: pytest.MonkeyPatch) -> None:
    """A collider that several records watch is read once in a refresh, and only with a reader."""
    new_scene(5)
    obj, ground = sheet(), collider()
    module, groups = load("dampsim_addon.status.bake_changes"), load("dampsim_addon.blender.vertex_groups")
    read = list[str]()
    real = load("dampsim_addon.status.digest_run").all_weights
    monkeypatch.setattr(
        load("dampsim_addon.status.digest_run"), "all_weights", lambda one: read.append(one.name) or real(one)
    )
    assert groups.all_weights is real
    module._current_inputs(obj, bpy.context.scene)
    assert ground.name not in read
    ground.modifiers.new("Cast", "CAST").vertex_group = "Part"
    module.record_simulation_inputs([obj], bpy.context.scene)
    obj.dampsim.baked, obj.dampsim.baked_from = "SHAPE_KEYS", module.json.dumps({"the mesh": ""})
    read.clear()
    module.refresh_digests(obj)
    assert read.count(ground.name) == 1


def test_rigs_are_read_once(load: Load, monkeypatch: pytest.MonkeyPatch) -> None:
    """The number of constraints and drivers of a rig does not multiply the reading of its bones and drivers."""
    new_scene(5)
    obj, rig = rigged()
    rig["amount"] = 1.0
    run, counts = load("dampsim_addon.status.digest_run"), []

    def count() -> tuple[int, int]:
        marks, drivers = list[str](), list[str]()
        with monkeypatch.context() as patched:
            real_mark, real_drivers = run.bake_mark, run.drivers_of
            patched.setattr(run, "bake_mark", lambda bone: marks.append(bone.name) or real_mark(bone))
            patched.setattr(run, "drivers_of", lambda one: drivers.append(one.name) or real_drivers(one))
            inputs(load, obj)
        return len(marks), len(drivers)

    for _ in range(2):
        for _ in range(3):
            constraint = rig.pose.bones["high"].constraints.new("COPY_ROTATION")
            constraint.target, constraint.subtarget = rig, "low"
            read(constraint, "influence", rig, '["amount"]')
        counts.append(count())
    assert counts[0] == counts[1]
    assert min(counts[0]) > 0


def test_edit_mode_keeps_details(load: Load) -> None:
    """Attributes are empty in Edit Mode, so the digests of details follow when it is left."""
    scene = new_scene(5)
    obj, tree, node, time = noded("GeometryNodeInputNamedAttribute")
    node.inputs[0].default_value = "Amount"
    tree.links.new(time.outputs["Seconds"], tree.nodes["Set Position"].inputs["Offset"])
    obj.data.attributes.new("Amount", "FLOAT", "POINT")
    module = load("dampsim_addon.status.bake_changes")
    obj.dampsim.baked = "SHAPE_KEYS"
    before = inputs(load, obj)
    obj.dampsim.baked_from = module.json.dumps(before.digests)
    module.refresh_digests(obj)
    known = module.changes_since_bake(obj, scene)
    bpy.context.view_layer.objects.active = obj
    bpy.ops.object.mode_set(mode="EDIT")
    assert not [name for name in inputs(load, obj).digests if name.startswith("details")]
    module.refresh_digests(obj)
    assert module.changes_since_bake(obj, scene) == known
    bpy.ops.object.mode_set(mode="OBJECT")
    obj.data.attributes["Amount"].data[0].value = 1.0
    module._Digests.current().has_new_edit = False
    assert module._refresh_if_edited(obj)
    assert module.changes_since_bake(obj, scene) == [*known, "details of Sheet"]
