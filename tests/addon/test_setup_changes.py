"""Edits of the setup behind keyframes and modifiers outdate a bake: each is named in the panel."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

import bpy
import pytest
from scenes import armature, new_scene, wobbler

pytestmark = [pytest.mark.bpy, pytest.mark.versions]
Load = Callable[[str], ModuleType]
Edit = Callable[[bpy.types.Object, bpy.types.Object], None]


def shot(cache: Path) -> tuple[bpy.types.Object, bpy.types.Object]:
    """Return a wobbler and its rig, whose NLA strip, drivers, constraints, lattice and shape keys all move it."""
    scene = new_scene(4)
    obj = wobbler(cache)
    rig = armature(obj)
    data = rig.animation_data
    action = data.action
    strip = data.nla_tracks.new().strips.new("Walk", 1, action)
    strip.action_slot = action.slots[0]
    data.action = None
    lattice = bpy.data.objects.new("Cage", bpy.data.lattices.new("Cage"))
    control = bpy.data.objects.new("Control", None)
    control["amount"] = 0.25
    for other in (lattice, control):
        scene.collection.objects.link(other)
    modifier = obj.modifiers.new("Lattice", "LATTICE")
    modifier.object = lattice
    obj.modifiers.new("Bend", "SIMPLE_DEFORM").angle = 0.1
    for name in ("First", "Second"):
        constraint = rig.pose.bones["low"].constraints.new("LIMIT_ROTATION")
        constraint.name, constraint.influence = name, 0.0
    driver = rig.pose.bones["high"].driver_add("location", 1).driver
    variable = driver.variables.new()
    variable.targets[0].id, variable.targets[0].data_path = control, '["amount"]'
    driver.expression = variable.name
    reader = obj.driver_add("location", 2).driver
    variable = reader.variables.new()
    variable.type = "TRANSFORMS"
    variable.targets[0].id, variable.targets[0].bone_target = rig, "low"
    reader.expression = f"0.1 * {variable.name}"
    obj.shape_key_add(name="Basis")
    smile = obj.shape_key_add(name="Smile")
    smile.points[3].co.z += 0.2
    smile.value = 0.5
    obj.dampsim.target, obj.dampsim.resolution = "POINT_CACHE", 60
    bpy.context.view_layer.objects.active = obj
    assert bpy.ops.dampsim.bake() == {"FINISHED"}
    return obj, rig


def strip_of(rig: bpy.types.Object) -> Any:
    return rig.animation_data.nla_tracks[0].strips[0]


def ease(obj: bpy.types.Object, rig: bpy.types.Object) -> None:
    bag = strip_of(rig).action.layers[0].strips[0].channelbags[0]
    bag.fcurves[0].extrapolation = "LINEAR"


def edit_rest_pose(obj: bpy.types.Object, rig: bpy.types.Object) -> None:
    bpy.context.view_layer.objects.active = rig
    bpy.ops.object.mode_set(mode="EDIT")
    rig.data.edit_bones["high"].roll = 0.7
    bpy.ops.object.mode_set(mode="OBJECT")


def set_value(path: str, value: object) -> Edit:
    """Return an edit that sets a value of obj or rig."""

    def edit(obj: bpy.types.Object, rig: bpy.types.Object) -> None:
        owner, _, name = path.rpartition(".")
        setattr(eval(owner, {"obj": obj, "rig": rig, "strip": strip_of(rig)}), name, value)

    return edit


def move_lattice(obj: bpy.types.Object, rig: bpy.types.Object) -> None:
    obj.modifiers["Lattice"].object.data.points[0].co_deform.x += 0.3


def set_property(obj: bpy.types.Object, rig: bpy.types.Object) -> None:
    bpy.data.objects["Control"]["amount"] = 0.5


def switch_slot(obj: bpy.types.Object, rig: bpy.types.Object) -> None:
    action = strip_of(rig).action
    strip_of(rig).action_slot = action.slots.new("OBJECT", "Other")


EDITS: dict[str, tuple[Edit, str]] = {
    "blend in": (set_value("strip.blend_in", 2.0), "animation settings of Rig"),
    "reverse": (set_value("strip.use_reverse", True), "animation settings of Rig"),
    "slot": (switch_slot, "keyframes of low"),
    "solo": (set_value("rig.animation_data.nla_tracks[0].is_solo", True), "animation settings of Rig"),
    "no NLA": (set_value("rig.animation_data.use_nla", False), "animation settings of Rig"),
    "extrapolation": (ease, "animation settings of Rig"),
    "rest position": (set_value("rig.data.pose_position", "REST"), "rest pose of Rig"),
    "roll": (edit_rest_pose, "rest pose of Rig"),
    "inherit scale": (set_value("rig.data.bones['high'].inherit_scale", "NONE"), "rest pose of Rig"),
    "bendy bone": (set_value("rig.pose.bones['high'].bbone_curveinx", 0.2), "rest pose of Rig"),
    "weights": (lambda o, r: o.vertex_groups["low"].add([0, 1], 0.3, "REPLACE"), "bone weights of Wobbler"),
    "lattice": (move_lattice, "shape of Cage"),
    "driver input": (set_property, "inputs of drivers of Rig"),
    "driver": (lambda o, r: setattr(r.animation_data.drivers[0], "mute", True), "inputs of drivers of Rig"),
    "modifiers": (lambda o, r: o.modifiers.move(0, 2), "modifiers and constraints of Wobbler"),
    "constraints": (lambda o, r: r.pose.bones["low"].constraints.move(0, 1), "modifiers and constraints of Rig"),
    "delta": (set_value("rig.delta_location.x", 0.3), "parenting of Rig"),
    "key value": (set_value("obj.data.shape_keys.key_blocks['Smile'].value", 0.9), "shape keys of Wobbler"),
    "key mute": (set_value("obj.data.shape_keys.key_blocks['Smile'].mute", True), "shape keys of Wobbler"),
    "key group": (set_value("obj.data.shape_keys.key_blocks['Smile'].vertex_group", "low"), "shape keys of Wobbler"),
    "key added": (lambda o, r: o.shape_key_add(name="Frown") and None, "shape keys of Wobbler"),
    "key removed": (lambda o, r: o.shape_key_remove(o.data.shape_keys.key_blocks["Smile"]), "shape keys of Wobbler"),
}


def changes(load: Load, obj: bpy.types.Object) -> list[str]:
    bpy.context.view_layer.update()
    module = load("dampsim_addon.status.bake_changes")
    module.refresh_digests(obj)
    found: list[str] = module.changes_since_bake(obj, bpy.context.scene)
    return found


@pytest.fixture(scope="module")
def baked_shot(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the saved file of a baked shot."""
    folder = tmp_path_factory.mktemp("shot")
    shot(folder)
    path = folder / "shot.blend"
    bpy.ops.wm.save_as_mainfile(filepath=str(path))
    return path


@pytest.mark.parametrize("name", EDITS)
def test_setup_edit_outdates_bake(load: Load, baked_shot: Path, tmp_path: Path, name: str) -> None:
    bpy.ops.wm.open_mainfile(filepath=str(baked_shot))
    obj, rig = bpy.data.objects["Wobbler"], bpy.data.objects["Rig"]
    obj.dampsim.cache_folder = str(tmp_path)
    assert changes(load, obj) == []
    edit, words = EDITS[name]
    edit(obj, rig)
    assert words in changes(load, obj)
    bpy.context.view_layer.objects.active = obj
    assert bpy.ops.dampsim.bake() == {"FINISHED"}
    assert changes(load, obj) == []


def test_limited_weights_keep_bake(load: Load, tmp_path: Path) -> None:
    """Automatic weights just above 1, which Blender's glTF exporter limits, are no change of the bone weights."""
    new_scene(4)
    obj = wobbler(tmp_path)
    armature(obj)
    tree: Any = bpy.data.node_groups.new("Weights", "GeometryNodeTree")
    for direction in ("INPUT", "OUTPUT"):
        tree.interface.new_socket("Geometry", in_out=direction, socket_type="NodeSocketGeometry")
    begin, store, end = (
        tree.nodes.new(kind) for kind in ("NodeGroupInput", "GeometryNodeStoreNamedAttribute", "NodeGroupOutput")
    )
    store.inputs["Name"].default_value = "low"
    next(one for one in store.inputs if one.name == "Value" and one.enabled).default_value = 1.0001
    tree.links.new(begin.outputs[0], store.inputs[0])
    tree.links.new(store.outputs[0], end.inputs[0])
    obj.modifiers.new("Weights", "NODES").node_group = tree
    bpy.context.view_layer.objects.active = obj
    obj.modifiers.move(len(obj.modifiers) - 1, 0)
    assert bpy.ops.object.modifier_apply(modifier="Weights") == {"FINISHED"}
    bpy.context.view_layer.objects.active = obj
    assert bpy.ops.dampsim.bake() == {"FINISHED"}
    assert changes(load, obj) == []
    assert obj.data.validate()
    assert changes(load, obj) == []


def noded(cache: Path) -> tuple[bpy.types.Object, Any, Any]:
    """Return an object that nodes move, their tree, and an object that they read."""
    scene = new_scene(4)
    obj = wobbler(cache)
    guide = bpy.data.objects.new("Guide", None)
    scene.collection.objects.link(guide)
    guide.keyframe_insert("location", frame=1)
    tree: Any = bpy.data.node_groups.new("Tree", "GeometryNodeTree")
    for direction in ("INPUT", "OUTPUT"):
        tree.interface.new_socket("Geometry", in_out=direction, socket_type="NodeSocketGeometry")
    move, read, vector = (
        tree.nodes.new(name) for name in ("GeometryNodeSetPosition", "GeometryNodeObjectInfo", "ShaderNodeCombineXYZ")
    )
    read.inputs[0].default_value = guide
    add = tree.nodes.new("ShaderNodeVectorMath")
    tree.links.new(read.outputs["Location"], add.inputs[0])
    tree.links.new(vector.outputs[0], add.inputs[1])
    tree.links.new(add.outputs[0], move.inputs["Offset"])
    tree.links.new(tree.nodes.new("NodeGroupInput").outputs[0], move.inputs[0])
    tree.links.new(move.outputs[0], tree.nodes.new("NodeGroupOutput").inputs[0])
    for frame, value in ((1, 0.0), (3, 0.2)):
        vector.inputs[0].default_value = value
        vector.inputs[0].keyframe_insert("default_value", frame=frame)
    obj.modifiers.new("Nodes", "NODES").node_group = tree
    obj.dampsim.target = "POINT_CACHE"
    bpy.context.view_layer.objects.active = obj
    assert bpy.ops.dampsim.bake() == {"FINISHED"}
    return obj, tree, guide


def first_key(block: bpy.types.ID) -> Any:
    return block.animation_data.action.layers[0].strips[0].channelbags[0].fcurves[0].keyframe_points[0]


NODE_EDITS: dict[str, tuple[Callable[[Any, Any], Any], str]] = {
    "value": (lambda t, g: setattr(t.nodes["Combine XYZ"].inputs[1], "default_value", 0.3), "node groups of Wobbler"),
    "key": (lambda t, g: setattr(first_key(t).co, "y", 0.4), "node groups of Wobbler"),
    "operation": (lambda t, g: setattr(t.nodes["Vector Math"], "operation", "SUBTRACT"), "node groups of Wobbler"),
    "link": (lambda t, g: t.links.remove(t.links[0]), "node groups of Wobbler"),
    "mute": (lambda t, g: setattr(t.nodes["Set Position"], "mute", True), "node groups of Wobbler"),
    "object": (lambda t, g: setattr(first_key(g).co, "y", 0.4), "keyframes of Guide"),
}


@pytest.mark.parametrize("name", NODE_EDITS)
def test_node_edits_outdate_bake(load: Load, tmp_path: Path, name: str) -> None:
    """Frames and places in the editor are no changes."""
    obj, tree, guide = noded(tmp_path)
    bpy.context.scene.frame_set(3)
    tree.nodes[0].location.x, tree.nodes[0].label = 50.0, "Mine"
    assert changes(load, obj) == []
    edit, words = NODE_EDITS[name]
    edit(tree, guide)
    assert words in changes(load, obj)


def test_keyed_vertices_outdate_bake(load: Load, tmp_path: Path) -> None:
    """Keyframes of points are felt and watched; the places that they have at a frame are no change."""
    scene = new_scene(4)
    obj = wobbler(tmp_path)
    vertex = max(obj.data.vertices, key=lambda one: one.co.z)
    for frame, height in ((1, 1.0), (3, 1.5)):
        vertex.co.z = height
        vertex.keyframe_insert("co", frame=frame)
    cage = bpy.data.objects.new("Cage", bpy.data.lattices.new("Cage"))
    scene.collection.objects.link(cage)
    bpy.ops.mesh.primitive_plane_add(location=(0.0, 0.0, -3.0))
    ground = bpy.context.object
    ground.dampsim_collider.is_collider = True
    for frame, height in ((1, 0.0), (3, 0.1)):
        cage.data.points[0].co_deform.z = ground.data.vertices[0].co.z = height
        cage.data.points[0].keyframe_insert("co_deform", frame=frame)
        ground.data.vertices[0].keyframe_insert("co", frame=frame)
    obj.modifiers.new("Lattice", "LATTICE").object = cage
    obj.dampsim.target = "POINT_CACHE"
    assert load("dampsim_addon.scene_reader.scene_builder").is_deformed(obj)
    bpy.context.view_layer.objects.active = obj
    assert bpy.ops.dampsim.bake() == {"FINISHED"}
    for frame in (1, 3):
        scene.frame_set(frame)
        assert changes(load, obj) == []
    first_key(obj.data).co.y = 0.4
    assert changes(load, obj) == [f"keyframes of {obj.name}"]
    first_key(cage.data).co.y = first_key(ground.data).co.y = 0.4
    words = ["keyframes of Wobbler", "keyframes of Cage", "the movement of collider Plane"]
    assert changes(load, obj) == words


UNUSED_GROUPS = ("damping_group", "centre_group", "front_group", "direction_group", "length_group")


@pytest.mark.parametrize("role", UNUSED_GROUPS)
def test_group_without_effect(load: Load, tmp_path: Path, role: str) -> None:
    """A missing group does not refuse the bake, and neither another choice nor new weights make it out of date."""
    scene = new_scene(3)
    obj = wobbler(tmp_path)
    group, changes = obj.dampsim, load("dampsim_addon.status.bake_changes")
    builder = load("dampsim_addon.scene_reader.scene_builder")
    setattr(group, role, "Lost")
    bpy.context.view_layer.update()
    assert "object" not in load("dampsim_addon.ui.bake.checks").find_issues(obj, scene)
    with builder.GroupSampler(scene, bpy.context.view_layer, [obj]) as sampler:
        before = load("core.scene.fingerprint").cache_inputs(builder.build_scene(sampler))
    assert bpy.ops.dampsim.bake() == {"FINISHED"}
    painted = obj.vertex_groups.new(name="Unused")
    painted.add([0, 1], 0.5, "REPLACE")
    setattr(group, role, "Unused")
    bpy.context.view_layer.update()
    changes.refresh_digests(obj)
    assert changes.changes_since_bake(obj, scene) == []
    with builder.GroupSampler(scene, bpy.context.view_layer, [obj]) as sampler:
        assert load("core.scene.fingerprint").cache_inputs(builder.build_scene(sampler)) == before


def test_damping_group_takes_effect(load: Load, tmp_path: Path) -> None:
    """With strain-rate damping, the group is checked, read and recorded."""
    scene = new_scene(3)
    obj = wobbler(tmp_path)
    group, changes = obj.dampsim, load("dampsim_addon.status.bake_changes")
    group.damping_by, group.damping_group = "STRAIN_RATE", "Lost"
    assert "object" in load("dampsim_addon.ui.bake.checks").find_issues(obj, scene)
    group.damping_group = "Pin"
    bpy.context.view_layer.update()
    assert bpy.ops.dampsim.bake() == {"FINISHED"}
    group.damping_group = ""
    changes.refresh_digests(obj)
    assert any("Damping Group" in change for change in changes.changes_since_bake(obj, scene))


def test_harmless_edits_keep_bake(load: Load, tmp_path: Path) -> None:
    """The frame, renamed keys and tracks, fake users and hidden parts move nothing."""
    obj, rig = shot(tmp_path)
    bpy.context.scene.frame_set(3)
    obj.data.shape_keys.key_blocks["Smile"].name = "Grin"
    rig.animation_data.nla_tracks[0].name = "Steps"
    rig.animation_data.nla_tracks[0].select = False
    strip_of(rig).action.name, strip_of(rig).action.use_fake_user = "Other", True
    obj.data.vertices[0].hide, rig.data.bones["low"].hide = True, True
    obj.modifiers.new("Smooth", "SUBSURF")
    obj.vertex_groups.new(name="Unused").add([0], 1.0, "REPLACE")
    assert changes(load, obj) == []
    bpy.ops.wm.save_as_mainfile(filepath=str(tmp_path / "saved.blend"))
    bpy.ops.wm.open_mainfile(filepath=str(tmp_path / "saved.blend"))
    assert changes(load, bpy.data.objects["Wobbler"]) == []


def test_records_of_earlier_versions_are_current(load: Load, tmp_path: Path) -> None:
    """Bakes of earlier versions stored nothing about the setup."""
    obj, _ = shot(tmp_path)
    prefixes = load("dampsim_addon.status.setup_digests").SETUP_PREFIXES
    table = load("dampsim_addon.status.bake_changes")
    recorded = table._text_table(obj.dampsim.baked_from)
    assert any(name.startswith(prefixes) for name in recorded)
    kept = {name: digest for name, digest in recorded.items() if not name.startswith(prefixes)}
    obj.dampsim.baked_from = str(kept).replace("'", '"')
    assert changes(load, obj) == []


def test_collider_setup_outdates_bake(load: Load, tmp_path: Path) -> None:
    obj, rig = shot(tmp_path)
    mesh = bpy.data.meshes.new("Crate")
    mesh.from_pydata([(0, 0, -5), (1, 0, -5), (0, 1, -5)], [], [(0, 1, 2)])
    crate = bpy.data.objects.new("Crate", mesh)
    bpy.context.scene.collection.objects.link(crate)
    crate.dampsim_collider.is_collider, crate.parent = True, rig
    bpy.context.view_layer.objects.active = obj
    assert bpy.ops.dampsim.bake() == {"FINISHED"}
    assert changes(load, obj) == []
    crate.delta_location.z = 0.5
    assert changes(load, obj) == ["the setup of collider Crate"]


def test_animated_values_are_no_changes(load: Load, tmp_path: Path) -> None:
    """Values that drivers and keyframes change from frame to frame do not call a bake out of date."""
    scene = new_scene(4)
    obj = wobbler(tmp_path)
    rig = armature(obj)
    path = bpy.data.objects.new("Path", bpy.data.curves.new("Path", "CURVE"))
    path.data.splines.new("POLY").points.add(3)
    scene.collection.objects.link(path)
    follow = rig.constraints.new("FOLLOW_PATH")
    follow.target, follow.influence = path, 0.0
    path.data.eval_time = 0.0
    path.data.keyframe_insert("eval_time", frame=1)
    path.data.eval_time = 50.0
    path.data.keyframe_insert("eval_time", frame=4)
    obj.shape_key_add(name="Basis")
    for block, name in ((obj.shape_key_add(name="Corrective"), "value"), (rig.pose.bones["low"], "bbone_curveinx")):
        block.driver_add(name).driver.expression = "frame / 100"
    assert bpy.ops.dampsim.bake() == {"FINISHED"}
    changes = load("dampsim_addon.status.bake_changes")
    for frame in (1, 4):
        scene.frame_set(frame)
        changes.refresh_digests(obj)
        assert changes.changes_since_bake(obj, scene) == []


@pytest.mark.parametrize("is_scene", [False, True])
def test_copied_character_keeps_bake(load: Load, tmp_path: Path, is_scene: bool) -> None:
    """A copy with a copied rig plays the same bake. Its own edits outdate it, and not the original."""
    obj, rig = shot(tmp_path)
    if is_scene:
        # A driver of a copied scene reads another object, which is a change.
        rig.pose.bones["high"].driver_remove("location", 1)
        assert bpy.ops.dampsim.bake() == {"FINISHED"}
        bpy.ops.scene.new(type="FULL_COPY")
    else:
        for one in bpy.context.scene.objects:
            one.select_set(one in (obj, rig))
        bpy.ops.object.duplicate()
    copy = next(one for one in bpy.context.scene.objects if one.type == "MESH" and one != obj)
    other = next(one for one in bpy.context.scene.objects if one.type == "ARMATURE" and one != rig)
    assert next(m.object for m in copy.modifiers if m.type == "ARMATURE") == other
    assert changes(load, copy) == []
    other.pose.bones["low"].constraints["First"].influence = 0.5
    assert changes(load, copy) == ["constraint First of low"]
    assert changes(load, obj) == []


def test_renamed_bones_keep_bake(load: Load, tmp_path: Path) -> None:
    """Blender renames keyframes, weights, drivers and constraints with a bone; later changes have its new name."""
    obj, rig = shot(tmp_path)
    hat = bpy.data.objects.new("Hat", None)
    bpy.context.scene.collection.objects.link(hat)
    hat.parent, hat.parent_type, hat.parent_bone = rig, "BONE", "high"
    obj.constraints.new("CHILD_OF").target, obj.constraints[0].influence = hat, 0.5
    bpy.ops.mesh.primitive_plane_add(location=(0.0, 0.0, -3.0))
    ground = bpy.context.object
    ground.dampsim_collider.is_collider = True
    ground.parent, ground.parent_type, ground.parent_bone = rig, "BONE", "low"
    bpy.context.view_layer.objects.active = obj
    assert bpy.ops.dampsim.bake() == {"FINISHED"}
    assert changes(load, obj) == []
    rig.data.bones["high"].name = 'Kopf "oben"'
    rig.data.bones["low"].name = "Fuss"
    assert changes(load, obj) == []
    rig.pose.bones["Fuss"].scale.x = 2.0
    assert "pose of Fuss" in changes(load, obj)
