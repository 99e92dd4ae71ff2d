"""Refusals of a bake: each one is reported above the button before the bake, which refuses at once with its words."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import NoReturn

import bpy
import numpy as np
import pytest
from scenes import add_simulation, armature, new_scene, wobbler
from test_doctor import _caged as caged
from test_doctor import _replaced_vertices as replaced_vertices

pytestmark = [pytest.mark.bpy, pytest.mark.versions]
Load = Callable[[str], ModuleType]


def plain(cache: Path) -> bpy.types.Object:
    """Return a pinned ball whose modifiers generate no vertices."""
    obj = wobbler(cache)
    obj.modifiers.clear()
    return obj


def sheet(cache: Path) -> bpy.types.Object:
    bpy.ops.mesh.primitive_grid_add(x_subdivisions=4, y_subdivisions=4)
    obj = bpy.context.object
    obj.name = "Sheet"
    add_simulation(obj, cache)
    obj.dampsim.pin_group, obj.dampsim.kind = "", "CLOTH"
    return obj


def box(name: str) -> bpy.types.Object:
    active = bpy.context.view_layer.objects.active
    bpy.ops.mesh.primitive_cube_add(location=(9.0, 0.0, 0.0))
    obj = bpy.context.object
    obj.name = name
    obj.select_set(False)
    bpy.context.view_layer.objects.active = active
    if active is not None:
        active.select_set(True)
    return obj


def hidden(cache: Path) -> bpy.types.Object:
    obj = plain(cache)
    obj.hide_set(True)
    return obj


def collection_of(obj: bpy.types.Object) -> bpy.types.LayerCollection:
    """Put an object into a collection inside another one. Return the outer one."""
    outer, inner = bpy.data.collections.new("Character"), bpy.data.collections.new("Body")
    bpy.context.scene.collection.children.link(outer)
    outer.children.link(inner)
    for one in obj.users_collection:
        one.objects.unlink(obj)
    inner.objects.link(obj)
    return bpy.context.view_layer.layer_collection.children[outer.name]


def excluded_collection(cache: Path) -> bpy.types.Object:
    obj = plain(cache)
    collection_of(obj).exclude = True
    return obj


def hidden_collection(cache: Path) -> bpy.types.Object:
    obj = plain(cache)
    collection_of(obj).hide_viewport = True
    return obj


def disabled_collections(cache: Path) -> bpy.types.Object:
    obj = plain(cache)
    outer = collection_of(obj)
    outer.collection.hide_viewport = outer.children[0].collection.hide_viewport = True
    obj.hide_viewport = True
    return obj


def edited(cache: Path) -> bpy.types.Object:
    obj = plain(cache)
    bpy.ops.object.mode_set(mode="EDIT")
    return obj


def flat(cache: Path) -> bpy.types.Object:
    obj = plain(cache)
    obj.scale.x = 0.0
    return obj


def missing_group(cache: Path) -> bpy.types.Object:
    obj = plain(cache)
    obj.dampsim.settle_group = "Lost"
    return obj


def stretched_time(cache: Path) -> bpy.types.Object:
    bpy.context.scene.render.frame_map_new = 200
    return plain(cache)


def unsaved_folder(cache: Path) -> bpy.types.Object:
    obj = plain(cache)
    obj.dampsim.cache_folder = "//cache"
    return obj


def shared_mesh(cache: Path) -> bpy.types.Object:
    obj = plain(cache)
    bpy.context.scene.collection.objects.link(bpy.data.objects.new("Twin", obj.data))
    return obj


def mesh_cache(cache: Path) -> bpy.types.Object:
    obj = wobbler(cache)
    obj.modifiers.remove(obj.modifiers["Subdivision"])
    obj.modifiers.new("Still", "SMOOTH").factor = 0.0
    replaced_vertices(obj)
    return obj


def absolute_keys(cache: Path) -> bpy.types.Object:
    obj = plain(cache)
    obj.shape_key_add(name="Basis")
    obj.data.shape_keys.use_relative = False
    return obj


def curve_with_keys(cache: Path) -> bpy.types.Object:
    data = bpy.data.curves.new("Cable", "CURVE")
    data.dimensions = "3D"
    spline = data.splines.new("POLY")
    spline.points.add(3)
    for number, point in enumerate(spline.points):
        point.co = (0.3 * number, 0.0, 0.0, 1.0)
    curve = bpy.data.objects.new("Cable", data)
    bpy.context.scene.collection.objects.link(curve)
    curve.select_set(True)
    bpy.context.view_layer.objects.active = curve
    assert bpy.ops.dampsim.curve_rope() == {"FINISHED"}
    curve.shape_key_add(name="Basis")
    rope = bpy.context.object
    rope.dampsim.cache_folder = str(cache)
    return rope


def deleted_link(cache: Path) -> bpy.types.Object:
    obj = plain(cache)
    obj.dampsim.links.add()
    return obj


def renamed_group(cache: Path) -> bpy.types.Object:
    obj = plain(cache)
    obj.dampsim.pin_group = "Pins"
    return obj


def lost_bone(cache: Path) -> bpy.types.Object:
    obj = plain(cache)
    link = obj.dampsim.links.add()
    link.other = armature(box("Peg"))
    link.bone = "Lost"
    return obj


def self_link(cache: Path) -> bpy.types.Object:
    obj = plain(cache)
    obj.dampsim.links.add().other = obj
    return obj


def separate_link(cache: Path) -> bpy.types.Object:
    other, obj = box("Neighbour"), plain(cache)
    other.dampsim.enabled = True
    obj.dampsim.links.add().other = other
    return obj


def two_integrators(cache: Path) -> bpy.types.Object:
    other, obj = box("Neighbour"), plain(cache)
    for one in (obj, other):
        one.dampsim.enabled, one.dampsim.together = True, "pair"
    obj.dampsim.links.add().other = other
    other.dampsim.damping_by, other.dampsim.integrator = "RAYLEIGH", "SYMPLECTIC_EULER"
    return obj


def damped_beside_weave(cache: Path) -> bpy.types.Object:
    other, obj = box("Neighbour"), sheet(cache)
    obj.dampsim.kind = "WEAVE"
    for one in (obj, other):
        one.dampsim.enabled, one.dampsim.together, one.dampsim.damping_by = True, "pair", "STRAIN_RATE"
    obj.dampsim.links.add().other = other
    return obj


def open_balloon(cache: Path) -> bpy.types.Object:
    obj = sheet(cache)
    obj.dampsim.pressure = 1.0
    return obj


def keyed_balloon(cache: Path) -> bpy.types.Object:
    """Return an open sheet without pressure at the first frame."""
    obj = sheet(cache)
    for frame, pressure in ((1, 0.0), (5, 1.0)):
        obj.dampsim.pressure = pressure
        obj.keyframe_insert("dampsim.pressure", frame=frame)
    obj.dampsim.pressure = 0.0
    return obj


def inner_seam(cache: Path) -> bpy.types.Object:
    obj = sheet(cache)
    inner = [v.index for v in obj.data.vertices if max(abs(v.co.x), abs(v.co.y)) < 0.6]
    obj.vertex_groups.new(name="Seam").add(inner, 1.0, "REPLACE")
    return obj


def open_solid(cache: Path) -> bpy.types.Object:
    obj = sheet(cache)
    obj.dampsim.kind = "SOLID"
    return obj


def triangle_weave(cache: Path) -> bpy.types.Object:
    bpy.ops.mesh.primitive_circle_add(vertices=7, fill_type="NGON")
    obj = bpy.context.object
    add_simulation(obj, cache)
    obj.dampsim.pin_group, obj.dampsim.kind = "", "WEAVE"
    return obj


def flat_faces(cache: Path) -> bpy.types.Object:
    """Return cloth whose faces have no area."""
    obj = sheet(cache)
    for vertex in obj.data.vertices:
        vertex.co.y = 0.0
    obj.data.update()
    return obj


def empty_pins(cache: Path) -> bpy.types.Object:
    obj = plain(cache)
    obj.vertex_groups["Pin"].remove(range(len(obj.data.vertices)))
    return obj


def undirected_fibres(cache: Path) -> bpy.types.Object:
    obj = plain(cache)
    obj.dampsim.fibre_group, obj.dampsim.fibres_along = "Pin", "PAINTED"
    return obj


def empty_muscle(cache: Path) -> bpy.types.Object:
    obj = sheet(cache)
    obj.dampsim.kind = "SPRINGS"
    obj.dampsim.muscles.add().name = "Calf"
    return obj


def key_disabled(obj: bpy.types.Object) -> None:
    """Disable an object in viewports by a keyframe at the last frame."""
    for frame, disabled in ((1, False), (3, True)):
        obj.hide_viewport = disabled
        obj.keyframe_insert("hide_viewport", frame=frame)
    bpy.context.scene.frame_set(1)


def disabled_later(cache: Path) -> bpy.types.Object:
    obj = plain(cache)
    key_disabled(obj)
    return obj


def disabled_by_driver(cache: Path) -> bpy.types.Object:
    obj = plain(cache)
    obj.driver_add("hide_viewport").driver.expression = "frame >= 3"
    return obj


def collider_disabled_by_property(cache: Path) -> bpy.types.Object:
    """Return an object beside a collider that a keyed property of another object switches off."""
    obj, other, switch = plain(cache), box("Box"), box("Switch")
    other.dampsim_collider.is_collider = True
    switch["hide"] = 0.0
    for frame, value in ((1, 0.0), (3, 1.0)):
        switch["hide"] = value
        switch.keyframe_insert('["hide"]', frame=frame)
    driver = other.driver_add("hide_viewport").driver
    variable = driver.variables.new()
    variable.targets[0].id, variable.targets[0].data_path = switch, '["hide"]'
    driver.expression = f"{variable.name} > 0.7"
    bpy.context.scene.frame_set(1)
    return obj


def disabled_by_strip(cache: Path) -> bpy.types.Object:
    obj = disabled_later(cache)
    data = obj.animation_data
    strip, slot = data.nla_tracks.new().strips.new("Mine", 1, data.action), data.action_slot
    strip.action_slot, data.action = slot, None
    return obj


def collider_disabled_later(cache: Path) -> bpy.types.Object:
    obj, other = plain(cache), box("Box")
    other.dampsim_collider.is_collider = True
    key_disabled(other)
    return obj


def link_disabled_later(cache: Path) -> bpy.types.Object:
    obj, other = plain(cache), box("Box")
    obj.dampsim.links.add().other = other
    key_disabled(other)
    return obj


def link_disabled(cache: Path) -> bpy.types.Object:
    """Return a linked object that Blender does not move, since nothing enabled depends on its target."""
    obj, other = plain(cache), box("Box")
    obj.dampsim.links.add().other = other
    other.hide_viewport = True
    return obj


def link_excluded(cache: Path) -> bpy.types.Object:
    obj, other = plain(cache), box("Box")
    obj.dampsim.links.add().other = other
    collection_of(other).exclude = True
    return obj


def target_disabled(cache: Path) -> bpy.types.Object:
    obj, other = sheet(cache), box("Box")
    obj.dampsim.kind = "SPRINGS"
    muscle, sensor = obj.dampsim.muscles.add(), obj.dampsim.sensors.add()
    muscle.name = muscle.attribute = "Calf"
    obj.data.attributes.new("Calf", "BOOLEAN", "EDGE").data[0].value = True
    obj.vertex_groups.new(name="Nose").add([0], 1.0, "REPLACE")
    sensor.sense, sensor.vertex_group, sensor.target = "DISTANCE", "Nose", other
    muscle.weights.add()
    other.hide_viewport = True
    return obj


def edited_collider(cache: Path) -> bpy.types.Object:
    obj, other = plain(cache), box("Box")
    other.dampsim_collider.is_collider = True
    bpy.context.view_layer.objects.active = other
    bpy.ops.object.select_all(action="DESELECT")
    bpy.ops.object.mode_set(mode="EDIT")
    return obj


def springs_with_dampers(cache: Path, name: str, value: float = 1.0) -> bpy.types.Object:
    """Return springs with a damper attribute Damper, and another one chosen."""
    obj = plain(cache)
    obj.dampsim.kind, obj.dampsim.damper_attribute = "SPRINGS", name
    obj.data.attributes.new("Damper", "FLOAT", "EDGE").data[0].value = value
    return obj


def lost_dampers(cache: Path) -> bpy.types.Object:
    return springs_with_dampers(cache, "Lost")


def renamed_dampers(cache: Path) -> bpy.types.Object:
    return springs_with_dampers(cache, "Dampers")


def negative_damper(cache: Path) -> bpy.types.Object:
    return springs_with_dampers(cache, "Damper", -1.0)


def infinite_damper(cache: Path) -> bpy.types.Object:
    return springs_with_dampers(cache, "Damper", float("inf"))


def damper_without_number(cache: Path) -> bpy.types.Object:
    return springs_with_dampers(cache, "Damper", float("nan"))


def painted_box(group: str) -> bpy.types.Object:
    """Return a collider with a roughness group that does not exist."""
    other = box("Box")
    other.dampsim_collider.is_collider, other.dampsim_collider.roughness_group = True, group
    return other


def lost_roughness(cache: Path) -> bpy.types.Object:
    obj = wobbler(cache)
    painted_box("Lost")
    return obj


def renamed_roughness(cache: Path) -> bpy.types.Object:
    obj = wobbler(cache)
    painted_box("Ices").vertex_groups.new(name="Ice")
    return obj


def rebuilt(cache: Path) -> bpy.types.Object:
    """Return an object that is simulated after a modifier that builds another mesh."""
    obj = plain(cache)
    obj.dampsim.target, obj.dampsim.settle_group = "POINT_CACHE", "Pin"
    remesh = obj.modifiers.new("Rebuild", "REMESH")
    remesh.mode, remesh.voxel_size = "VOXEL", 0.2
    obj.modifiers.new("Last", "SIMPLE_DEFORM").angle = 0.0
    return obj


def rebuilt_part(cache: Path) -> bpy.types.Object:
    obj = rebuilt(cache)
    obj.dampsim.pin_group = obj.dampsim.settle_group = ""
    part = obj.dampsim.parts.add()
    part.name, part.vertex_group = "Ear", "Pin"
    return obj


def switched_bend(cache: Path) -> bpy.types.Object:
    """Return an object with a modifier that keyframes show from frame 2 on."""
    obj = plain(cache)
    bend = obj.modifiers.new("Bend", "SIMPLE_DEFORM")
    for frame, is_shown in ((1, False), (2, True)):
        bend.show_viewport = is_shown
        bend.keyframe_insert("show_viewport", frame=frame)
    return obj


def switched_bend_by_driver(cache: Path) -> bpy.types.Object:
    obj = plain(cache)
    bend = obj.modifiers.new("Bend", "SIMPLE_DEFORM")
    bend.driver_add("show_viewport").driver.expression = "frame < 3"
    return obj


def latticed(cache: Path) -> bpy.types.Object:
    """Return an object that its parent bends without a modifier."""
    obj = plain(cache)
    caged(obj)
    for point in obj.parent.data.points:
        point.co_deform.x += 0.3 * point.co.z**2
    return obj


def latticed_bones(cache: Path) -> bpy.types.Object:
    obj = latticed(cache)
    obj.dampsim.target = "BONES"
    return obj


def stepped_rig(cache: Path) -> bpy.types.Object:
    """Return an object below a bone whose pose depends on the frames that were evaluated before."""
    obj = plain(cache)
    rig, goal = armature(obj), bpy.data.objects.new("Goal", None)
    bpy.context.scene.collection.objects.link(goal)
    for frame, place in ((1, (0.0, 0.0, 1.0)), (3, (0.9, 0.0, 0.4))):
        goal.location = place
        goal.keyframe_insert("location", frame=frame)
    rig.pose.ik_solver, rig.pose.ik_param.mode = "ITASC", "SIMULATION"
    rig.pose.bones["high"].constraints.new("IK").target = goal
    return obj


def stepped_collider(cache: Path) -> bpy.types.Object:
    obj, other = plain(cache), stepped_rig(cache)
    bpy.ops.dampsim.remove()
    other.dampsim_collider.is_collider = True
    bpy.context.view_layer.objects.active = obj
    return obj


# Check, part of its message, and the label of its first button, or ''.
CASES: dict[Callable[[Path], bpy.types.Object], tuple[str, str, str]] = {
    hidden: ("object", "The object is hidden", "Show"),
    excluded_collection: ("object", "The object is hidden", "Show"),
    hidden_collection: ("object", "The object is hidden", "Show"),
    disabled_collections: ("object", "The object is hidden", "Show"),
    edited: ("object", "Leave Edit Mode before baking", "Leave Edit Mode"),
    flat: ("object", "Its scale is zero along an axis", ""),
    renamed_group: ("object", "Pin group 'Pins' is missing. Did you mean 'Pin'?", "Use Pin"),
    missing_group: ("object", "Settle group 'Lost' is missing", "Choose None"),
    lost_dampers: ("object", "Damper Attribute 'Lost' is missing. Choose a float attribute", "Choose None"),
    renamed_dampers: (
        "object",
        "Damper Attribute 'Dampers' is missing. Did you mean 'Damper'?",
        "Use Damper",
    ),
    negative_damper: ("object", "Damper Attribute 'Damper' has a negative value", ""),
    infinite_damper: ("object", "Damper Attribute 'Damper' has a value that is not a finite number", ""),
    damper_without_number: ("object", "Damper Attribute 'Damper' has a value that is not a finite number", ""),
    stretched_time: ("stretching", "Time Stretching is on", "Turn Off Time Stretching"),
    unsaved_folder: ("unsaved", "Its cache folder is relative to the .blend file", "Use Default Folder"),
    shared_mesh: ("target", "Its mesh is shared by 2 objects", "Make Single User"),
    mesh_cache: ("target", "Shape keys have no effect before Mesh Cache", "Bake to PC2 Cache"),
    absolute_keys: ("target", "Its shape keys are absolute", "Bake to PC2 Cache"),
    latticed: ("parent", "Cage deforms the mesh by its parent type Lattice", "Convert to Lattice Modifier"),
    latticed_bones: ("parent", "Cage deforms the mesh by its parent type Lattice", "Convert to Lattice Modifier"),
    curve_with_keys: ("curve", "Its curve Cable already has shape keys", ""),
    deleted_link: ("links", "The object of a link was deleted", "Remove Link"),
    lost_bone: ("links", "Bone 'Lost' of a link is missing", "Remove Link"),
    self_link: ("links", "A link connects the object to itself", "Remove Link"),
    separate_link: ("links", "It is linked to Neighbour, which is simulated separately", "Simulate Together"),
    two_integrators: ("integrators", "they are simulated together, but use different time stepping", ""),
    damped_beside_weave: ("integrators", "but their damping models cannot be combined", ""),
    open_balloon: ("mesh", "The sheet is open, so that it holds no air", "Set Pressure to 0"),
    keyed_balloon: ("mesh", "The sheet is open, so that it holds no air", ""),
    inner_seam: ("mesh", "Vertex group 'Seam' is not on a border", "Do Not Sew"),
    open_solid: ("mesh", "The mesh is open and encloses no volume", "Simulate as Cloth"),
    triangle_weave: ("mesh", "No two yarns cross", "Simulate as Cloth"),
    flat_faces: ("mesh", "All faces are thinner than a hair", "Simulate as Rope"),
    empty_pins: ("mesh", "No vertex has a weight in pin group 'Pin'", "Choose None"),
    undirected_fibres: ("fibres", "no Direction Group is chosen", "Use Longest Axis"),
    empty_muscle: ("muscles", "Muscle Calf has no edges", ""),
    disabled_later: ("visibility", "It is disabled in viewports at frame 3", "Remove Keyframes"),
    disabled_by_driver: ("visibility", "It is disabled in viewports at frame 3", "Remove Driver"),
    disabled_by_strip: ("visibility", "It is disabled in viewports at frame 3", "Remove Keyframes"),
    collider_disabled_by_property: ("visibility", "Box: it is disabled in viewports at frame 3", "Remove Driver"),
    collider_disabled_later: ("visibility", "Box: it is disabled in viewports at frame 3", "Remove Keyframes"),
    link_disabled_later: ("visibility", "Box: it is disabled in viewports at frame 3", "Remove Keyframes"),
    link_disabled: ("visibility", "Box: it is disabled in viewports, so its motion is unknown", "Show"),
    link_excluded: ("visibility", "Box: it is disabled in viewports, so its motion is unknown", "Show"),
    target_disabled: ("visibility", "Box: it is disabled in viewports, so its motion is unknown", "Show"),
    switched_bend: ("switching", "Animation switches modifier Bend in viewports", ""),
    switched_bend_by_driver: ("switching", "Animation switches modifier Bend in viewports", ""),
    stepped_rig: ("solver", "its iTaSC solver is in Simulation mode", "Bake Pose"),
    stepped_collider: ("solver", "its iTaSC solver is in Simulation mode", "Bake Pose"),
    edited_collider: ("editing", "this collider is in Edit Mode", ""),
    lost_roughness: (
        "roughness",
        "Box: roughness group 'Lost' is missing. Choose another roughness group",
        "Choose None",
    ),
    rebuilt: ("weights", "The modifier Rebuild removes the weights of vertex group 'Pin'", "Choose None"),
    rebuilt_part: ("weights", "The modifier Rebuild removes the weights of vertex group 'Pin'", "Choose None"),
    renamed_roughness: ("roughness", "Box: roughness group 'Ices' is missing. Did you mean 'Ice'?", "Use Ice"),
}


def test_constant_switch_is_baked(tmp_path: Path) -> None:
    """Keyframes that never switch a modifier refuse nothing."""
    new_scene(3)
    obj = plain(tmp_path)
    bend = obj.modifiers.new("Bend", "SIMPLE_DEFORM")
    bend.keyframe_insert("show_viewport", frame=1)
    assert bpy.ops.dampsim.bake() == {"FINISHED"}


@pytest.mark.parametrize("target", ["POINT_CACHE", pytest.param("ALEMBIC", marks=pytest.mark.slow)])
def test_files_play_deforming_parents(load: Load, tmp_path: Path, target: str) -> None:
    """A bake to a file needs no conversion of the parent type."""
    scene = new_scene(3)
    obj = latticed(tmp_path)
    obj.dampsim.target = target
    for frame, shift in ((1, 0.0), (3, 0.2)):
        for point in obj.parent.data.points:
            point.co_deform.y = point.co.y + shift * point.co.z
            point.keyframe_insert("co_deform", frame=frame)
    bpy.context.view_layer.update()
    assert "parent" not in load("dampsim_addon.ui.bake.checks").find_issues(obj, scene)
    (result,) = load("dampsim_addon.api").bake([obj])
    assert not result.problem


def test_baked_pose_moves_as_played(load: Load, tmp_path: Path) -> None:
    """The fix keeps the pose at each frame, and the frame; a bake then plays it, in any order of frames."""
    scene = new_scene(6)
    obj = stepped_rig(tmp_path)
    rig = bpy.data.objects["Rig"]

    def poses() -> list[np.ndarray]:
        return [np.array(rig_pose_at(rig, frame)) for frame in range(1, 7)]

    played = poses()
    assert np.ptp(played, axis=0).max() > 0.1
    scene.frame_set(4)
    (fix,) = load("dampsim_addon.ui.bake.checks").find_issues(obj, scene)["solver"].fixes
    fix.fix(obj, scene)
    assert scene.frame_current == 4
    np.testing.assert_allclose(poses(), played, atol=1e-4)
    assert bpy.ops.dampsim.bake() == {"FINISHED"}


def test_baked_pose_keeps_other_curves(load: Load, tmp_path: Path) -> None:
    """A walking rig still walks, and keyframes of bones between frames no longer count."""
    scene = new_scene(6)
    obj = stepped_rig(tmp_path)
    rig = bpy.data.objects["Rig"]
    rig["dial"] = 0.0
    for frame in (1, 6):
        rig.location.x, rig["dial"] = 0.4 * frame, float(frame)
        rig.keyframe_insert("location", index=0, frame=frame)
        rig.keyframe_insert('["dial"]', frame=frame)
    rig.pose.bones["low"].location.x = 0.5
    rig.pose.bones["low"].keyframe_insert("location", index=0, frame=2.5)
    rig.pose.bones["low"].location.x = 0.0
    rig.pose.bones["low"].keyframe_insert("location", index=0, frame=3.5)
    earlier, actions = rig.animation_data.action, len(bpy.data.actions)

    def states() -> list[object]:
        poses = [rig_pose_at(rig, frame) for frame in range(1, 7)]
        return [np.append(np.ravel(one), places_at(frame)) for frame, one in enumerate(poses, 1)]

    def places_at(frame: int) -> list[float]:
        scene.frame_set(frame)
        return [rig.matrix_world.translation.x, rig["dial"]]

    played = states()
    (fix,) = load("dampsim_addon.ui.bake.checks").find_issues(obj, scene)["solver"].fixes
    fix.fix(obj, scene)
    np.testing.assert_allclose(states(), played, atol=1e-4)
    new = rig.animation_data.action
    assert new != earlier
    assert len(bpy.data.actions) == actions + 1
    (curves,) = load("dampsim_addon.blender.animation").slot_bags(rig.animation_data)
    baked = curves.fcurves.find('pose.bones["low"].location', index=0)
    assert [point.co.x for point in baked.keyframe_points] == list(range(1, 7))
    assert baked.group.name == "low"


def test_pose_is_baked_beside_empty_action(load: Load, tmp_path: Path) -> None:
    """A rig whose action has a slot without keyframes moves as before, too."""
    scene = new_scene(6)
    obj = stepped_rig(tmp_path)
    rig = bpy.data.objects["Rig"]
    data, empty = rig.animation_data or rig.animation_data_create(), bpy.data.actions.new("Empty")
    data.action = empty
    data.action_slot = empty.slots.new("OBJECT", "Rig")
    actions = len(bpy.data.actions)
    played = [rig_pose_at(rig, frame) for frame in range(1, 7)]
    (fix,) = load("dampsim_addon.ui.bake.checks").find_issues(obj, scene)["solver"].fixes
    fix.fix(obj, scene)
    np.testing.assert_allclose([rig_pose_at(rig, frame) for frame in range(1, 7)], played, atol=1e-4)
    assert len(bpy.data.actions) == actions + 1


def test_failed_pose_bake_keeps_frame(load: Load, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    scene = new_scene(6)
    obj = stepped_rig(tmp_path)
    scene.frame_set(4)
    checks = load("dampsim_addon.ui.bake.refusal_checks")

    def fail(*_: object, **__: object) -> NoReturn:
        scene.frame_set(6)
        raise load("core").SceneError("Rig: its pose cannot be baked.")

    monkeypatch.setattr(checks, "call_operator", fail)
    (fix,) = load("dampsim_addon.ui.bake.checks").find_issues(obj, scene)["solver"].fixes
    with pytest.raises(load("core").SceneError):
        fix.fix(obj, scene)
    assert scene.frame_current == 4


def test_panel_searches_rigs_once(load: Load, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A rig with the solver costs one search after each update, not at each redraw; another mode is noticed at once."""
    scene = new_scene(3)
    obj, contributors = stepped_rig(tmp_path), load("dampsim_addon.scene_reader.contributors")
    searches, create = [], contributors.References
    monkeypatch.setattr(contributors, "References", lambda: [searches.append(1), create()][1])
    bpy.context.view_layer.update()
    check = load("dampsim_addon.ui.bake.refusal_checks").REFUSAL_CHECKS["solver"]
    assert all(check(obj, scene) is not None for _ in range(5))
    assert len(searches) == 1
    bpy.data.objects["Rig"].update_tag()
    bpy.context.view_layer.update()
    assert all(check(obj, scene) is not None for _ in range(5))
    assert len(searches) == 2
    bpy.data.objects["Rig"].pose.ik_param.mode = "ANIMATION"
    assert check(obj, scene) is None


def rig_pose_at(rig: bpy.types.Object, frame: int) -> list[tuple[float, ...]]:
    """Return the evaluated ends of the bones of a rig at a frame."""
    bpy.context.scene.frame_set(frame)
    evaluated = rig.evaluated_get(bpy.context.evaluated_depsgraph_get())
    return [tuple(bone.tail) for bone in evaluated.pose.bones]


def test_refusals_have_cases(load: Load) -> None:
    refusals = load("dampsim_addon.jobs.refusals").REFUSALS
    assert {check for check, *_ in CASES.values()} == set(refusals)
    assert set(refusals) <= set(load("dampsim_addon.ui.bake.checks").CHECKS)


@pytest.mark.parametrize("build", CASES, ids=lambda f: f.__name__)
def test_refusal_is_reported_before_bake(
    load: Load, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, build: Callable[[Path], bpy.types.Object]
) -> None:
    """The panel and `info` report it, Bake refuses with the same sentence before it reads a frame, and a fix helps."""

    def read_frames(*_: object) -> NoReturn:
        pytest.fail("the bake has begun")

    job = load("dampsim_addon.jobs.prepare")
    monkeypatch.setattr(job, "prepare_scene", read_frames)
    scene = new_scene(3)
    obj = build(tmp_path)
    layer = bpy.context.view_layer
    layer.update()
    find_issues = load("dampsim_addon.ui.bake.checks").find_issues
    name, words, label = CASES[build]
    issue = find_issues(obj, scene)[name]
    assert words in issue.text
    assert issue.button_label == label
    (result,) = (one for one in load("dampsim_addon.api").bake([obj], restart=True) if one.name == obj.name)
    sentence = f"{issue.text[0].lower()}{issue.text[1:]}"
    assert sentence.lower() in result.problem.lower()
    assert load("dampsim_addon.jobs.info").object_info(scene, layer, obj).problem == result.problem
    assert not list(tmp_path.rglob("*.npz"))
    if label:
        issue.fixes[0].fix(obj, scene)
        layer.update()
        assert name not in find_issues(obj, scene)
    if obj.mode == "EDIT" or bpy.context.mode != "OBJECT":
        bpy.ops.object.mode_set(mode="OBJECT")


def test_lost_weights_second_fix(load: Load, tmp_path: Path) -> None:
    """Bakes to shape keys simulate the mesh itself; the weights after modifiers that are left out do not matter."""
    scene = new_scene(3)
    obj = rebuilt(tmp_path)
    bpy.context.view_layer.update()
    find_issues = load("dampsim_addon.ui.bake.checks").find_issues
    _, keys = find_issues(obj, scene)["weights"].fixes
    assert keys.button_label == "Bake to Compressed Keys"
    keys.fix(obj, scene)
    bpy.context.view_layer.update()
    assert "weights" not in find_issues(obj, scene)
    assert bpy.ops.dampsim.bake() == {"FINISHED"}
    obj.dampsim.target = "POINT_CACHE"
    obj.modifiers.move(obj.modifiers.find("Last"), 0)
    bpy.context.view_layer.update()
    assert "weights" not in find_issues(obj, scene)


def flattened_by_constraint(cache: Path) -> bpy.types.Object:
    """Return a turned object whose parent a constraint flattens, so that no column of its matrix is zero."""
    obj, parent = plain(cache), box("Handle")
    obj.parent, obj.rotation_euler = parent, (0.4, 0.5, 0.6)
    limit = parent.constraints.new("LIMIT_SCALE")
    limit.use_max_x, limit.max_x = True, 0.0
    for frame, influence in ((1, 0.0), (2, 0.0), (3, 1.0)):
        limit.influence = influence
        limit.keyframe_insert("influence", frame=frame)
    bpy.context.scene.frame_set(1)
    return obj


def disabled_by_place(cache: Path) -> bpy.types.Object:
    """Return an object that is disabled by the place of another one."""
    obj, other = plain(cache), box("Switch")
    for frame, place in ((1, 0.0), (2, 0.0), (3, 1.0)):
        other.location.x = place
        other.keyframe_insert("location", frame=frame)
    driver = obj.driver_add("hide_viewport").driver
    variable = driver.variables.new()
    variable.type, variable.targets[0].id, driver.expression = "TRANSFORMS", other, variable.name
    bpy.context.scene.frame_set(1)
    return obj


@pytest.mark.parametrize(
    ("build", "words"),
    [
        (
            flattened_by_constraint,
            "Wobbler: its scale is zero along an axis at frame 3. Set a scale above zero, also of its ",
        ),
        (disabled_by_place, "Wobbler: it is disabled in viewports at frame 3, so its motion is unknown"),
    ],
    ids=lambda value: getattr(value, "__name__", ""),
)
def test_uncertain_faults_stop_bakes(
    load: Load, tmp_path: Path, build: Callable[[Path], bpy.types.Object], words: str
) -> None:
    """No check can foresee these faults. The bake stops at their frame and writes no wrong motion."""
    new_scene(3)
    obj = build(tmp_path)
    bpy.context.view_layer.update()
    (result,) = load("dampsim_addon.api").bake([obj], restart=True)
    assert words in result.problem
    assert not obj.dampsim.baked


@pytest.mark.parametrize("how", ["parent", "constraint", "modifier"])
def test_hidden_rig_still_moves_link(load: Load, tmp_path: Path, how: str) -> None:
    """Blender evaluates a disabled object on which a visible one depends, so that a link follows it."""
    scene = new_scene(8)
    obj, other = plain(tmp_path), box("Handle")
    obj.dampsim.links.add().other = other
    for frame, place in ((1, 0.0), (8, 7.0)):
        other.location.x = place
        other.keyframe_insert("location", frame=frame)
    if how == "parent":
        box("Child").parent = other
    elif how == "constraint":
        box("Child").constraints.new("COPY_LOCATION").target = other
    else:
        obj.modifiers.new("Hook", "HOOK").object = other
    other.hide_viewport = True
    bpy.context.view_layer.update()
    assert "visibility" not in load("dampsim_addon.ui.bake.checks").find_issues(obj, scene)
    anchor_matrix, found = load("dampsim_addon.model.links").anchor_matrix, []
    for frame in (1, 8):
        scene.frame_set(frame)
        found.append(anchor_matrix(bpy.context.view_layer, other, "")[0, 3])
    assert found == pytest.approx([0.0, 7.0])
