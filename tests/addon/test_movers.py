"""Everything that moves an object is felt by the simulation, or reported above Bake with a fix."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

import bpy
import numpy as np
import pytest
from scenes import armature, new_scene, wobbler

pytestmark = [pytest.mark.bpy, pytest.mark.versions]
Load = Callable[[str], ModuleType]
FRAMES = (1, 2, 3, 5)
MODIFIER_TYPES = [item.identifier for item in bpy.types.Modifier.bl_rna.properties["type"].enum_items]
CONSTRAINT_TYPES = [item.identifier for item in bpy.types.Constraint.bl_rna.properties["type"].enum_items]
# Types whose motion this test cannot provoke: they need a binding, a file, a volume or a particle system.
UNPROVOKED = {
    "COLLISION", "CORRECTIVE_SMOOTH", "DYNAMIC_PAINT", "EXPLODE", "FLUID", "LAPLACIANDEFORM", "LAPLACIANSMOOTH",
    "MESH_CACHE", "MESH_DEFORM", "MESH_SEQUENCE_CACHE", "MULTIRES", "NODES", "NORMAL_EDIT", "PARTICLE_INSTANCE",
    "PARTICLE_SYSTEM", "SURFACE", "SURFACE_DEFORM", "TRIANGULATE", "UV_PROJECT", "UV_WARP", "VERTEX_WEIGHT_EDIT",
    "VERTEX_WEIGHT_MIX", "VERTEX_WEIGHT_PROXIMITY", "VOLUME_TO_MESH", "WEIGHTED_NORMAL", "DATA_TRANSFER", "EDGE_SPLIT",
    "REMESH", "SKIN", "SUBSURF",
}  # fmt: skip


def sheet() -> bpy.types.Object:
    """Return a bent grid that is simulated as cloth and pinned at one side."""
    # The operator Add would take longer.
    bpy.ops.mesh.primitive_grid_add(x_subdivisions=4, y_subdivisions=4, size=1.0)
    obj = bpy.context.object
    obj.name = "Sheet"
    for vertex in obj.data.vertices:
        vertex.co.z = 0.3 * vertex.co.x**2
    obj.vertex_groups.new(name="Pin").add([v.index for v in obj.data.vertices if v.co.y > 0.4], 1.0, "REPLACE")
    # Half of the weights lie between the two values that animate() gives to thresholds.
    obj.vertex_groups.new(name="Part").add([0, 1, 2], 0.5, "REPLACE")
    obj.dampsim.enabled, obj.dampsim.kind = True, "CLOTH"
    obj.dampsim.pin_group, obj.dampsim.settle = "Pin", 6.0
    return obj


def helpers() -> list[bpy.types.Object]:
    """Return moving objects of several types, as targets of modifiers and constraints."""
    mesh = bpy.data.meshes.new("Target")
    mesh.from_pydata([(-2, -2, 0), (2, -2, 0), (2, 2, 0), (-2, 2, 0), (0, 0, 1)], [], [(0, 1, 2, 3), (0, 1, 4)])
    curve = bpy.data.curves.new("Path", "CURVE")
    curve.splines.new("POLY").points.add(3)
    for number, point in enumerate(curve.splines[0].points):
        point.co = (number, 0.2 * number**2, 0.0, 1.0)
    curve.use_path = True
    cage = bpy.data.lattices.new("Cage")
    cage.points[0].co_deform.x -= 2.0
    data = (mesh, cage, curve, bpy.data.cameras.new("View"), None)
    found = [bpy.data.objects.new(f"Helper {number}", one) for number, one in enumerate(data)]
    for number, obj in enumerate(found):
        bpy.context.scene.collection.objects.link(obj)
        for frame, place in ((1, 0.1), (5, 0.9)):
            obj.location = (place, 0.3 * place, 0.2 * place + 0.1 * number)
            obj.keyframe_insert("location", frame=frame)
    return found


def animate(owner: Any, struct: Any, targets: list[bpy.types.Object]) -> None:
    """Refer to moving objects, and animate each number of a modifier or constraint."""
    for prop in struct.bl_rna.properties:
        if prop.type == "POINTER" and not prop.is_readonly:
            for target in targets:
                try:
                    setattr(struct, prop.identifier, target)
                except TypeError:
                    continue
                if getattr(struct, prop.identifier) is not None:
                    break
        elif prop.type == "FLOAT" and not prop.is_readonly and not getattr(prop, "is_array", False):
            low, high = prop.hard_min, prop.hard_max
            for frame, value in ((1, 0.2), (5, 0.7)):
                setattr(struct, prop.identifier, min(max(value, low), high))
                if prop.is_animatable:
                    owner.keyframe_insert(struct.path_from_id(prop.identifier), frame=frame)


def add_moving_modifier(obj: bpy.types.Object, modifier_type: str) -> Any:
    modifier: Any = obj.modifiers.new("Mover", modifier_type)
    if modifier is None:
        pytest.skip("this type is not for meshes")
    values = {
        "ARRAY": {"use_object_offset": True},
        "BEVEL": {"limit_method": "NONE", "use_clamp_overlap": False},
        "HOOK": {"vertex_group": "Pin"},
        "MASK": {"vertex_group": "Part"},
        "OCEAN": {"resolution": 4},
    }
    for name, value in values.get(modifier_type, {}).items():
        setattr(modifier, name, value)
    targets = helpers()
    if modifier_type != "WAVE":
        animate(obj, modifier, targets)
    if modifier_type == "ARMATURE":
        modifier.object = moving_rig()
        obj.vertex_groups.new(name="Bone").add(range(len(obj.data.vertices)), 1.0, "REPLACE")
    if modifier_type == "ARRAY":
        modifier.fit_type = "FIXED_COUNT"
    if modifier_type == "WARP":
        modifier.object_to = targets[-1]
        targets[-1].animation_data_clear()
    return modifier


def moving_rig() -> bpy.types.Object:
    rig = bpy.data.objects.new("Rig", bpy.data.armatures.new("Rig"))
    bpy.context.scene.collection.objects.link(rig)
    active = bpy.context.view_layer.objects.active
    bpy.context.view_layer.objects.active = rig
    bpy.ops.object.mode_set(mode="EDIT")
    bone = rig.data.edit_bones.new("Bone")
    bone.head, bone.tail = (0, 0, -1), (0, 0, 1)
    bpy.ops.object.mode_set(mode="OBJECT")
    bpy.context.view_layer.objects.active = active
    for frame, place in ((1, 0.0), (5, 0.4)):
        rig.pose.bones["Bone"].location.x = place
        rig.pose.bones["Bone"].keyframe_insert("location", frame=frame)
    return rig


def evaluated(obj: bpy.types.Object) -> np.ndarray:
    mesh = obj.evaluated_get(bpy.context.view_layer.depsgraph).data
    return np.array([v.co[:] for v in mesh.vertices])


def shapes(obj: bpy.types.Object) -> list[np.ndarray]:
    found = []
    for frame in FRAMES:
        bpy.context.scene.frame_set(frame)
        found.append(evaluated(obj))
    return found


def differ(one: list[np.ndarray], two: list[np.ndarray]) -> bool:
    return any(a.shape != b.shape or np.abs(a - b).max(initial=0.0) > 1e-4 for a, b in zip(one, two, strict=True))


def moves(found: list[np.ndarray]) -> bool:
    return differ(found[1:], [found[0]] * (len(found) - 1))


def sampled_shapes(load: Load, obj: bpy.types.Object) -> list[np.ndarray]:
    scene, layer = bpy.context.scene, bpy.context.view_layer
    with load("dampsim_addon.blender.sampler").Sampler(scene, layer, obj) as sampler:
        found = []
        for frame in FRAMES:
            sampler.set_frame(frame)
            found.append(sampler.local_positions())
    return found


@pytest.mark.parametrize("place", ["first", "last"])
@pytest.mark.parametrize("modifier_type", MODIFIER_TYPES)
def test_each_modifier_is_felt_or_reported(load: Load, modifier_type: str, place: str) -> None:
    scene = new_scene(5)
    obj = sheet()
    modifier = add_moving_modifier(obj, modifier_type)
    if place == "first":
        # A hook that does not move.
        hook = obj.modifiers.new("Hook", "HOOK")
        hook.object, hook.vertex_group = bpy.data.objects.new("Still", None), "Pin"
        scene.collection.objects.link(hook.object)
    truth = shapes(obj)
    movers = load("dampsim_addon.blender.movers")
    if modifier_type not in movers.MODIFIER_EFFECTS:
        assert "unfelt" in load("dampsim_addon.ui.bake.checks").find_issues(obj, scene), "a new type is reported"
        return
    assert moves(truth) or modifier_type in UNPROVOKED, "the test no longer provokes motion"
    issues = load("dampsim_addon.ui.bake.checks").find_issues(obj, scene)
    found = [issue for name, issue in issues.items() if name in ("unfelt", "keys")]
    felt = not differ(truth, sampled_shapes(load, obj))
    assert felt or not moves(truth) or any(modifier.name in issue.text and issue.fixes for issue in found)
    assert not (felt and moves(truth) and "unfelt" in issues), "a modifier that is felt is reported"


def test_displacing_ocean_is_felt(load: Load) -> None:
    new_scene(5)
    obj = sheet()
    modifier: Any = obj.modifiers.new("Ocean", "OCEAN")
    modifier.geometry_mode, modifier.resolution = "DISPLACE", 4
    for frame, time in ((1, 0.0), (5, 2.0)):
        modifier.time = time
        modifier.keyframe_insert("time", frame=frame)
    assert moves(shapes(obj))
    assert not differ(shapes(obj), sampled_shapes(load, obj))


def node_group(*names: str, keyed: bool = True, **inputs: object) -> Any:
    """Return a Geometry Nodes tree with some nodes in a row; the offset of a Set Position is animated."""
    tree: Any = bpy.data.node_groups.new("Tree", "GeometryNodeTree")
    for direction in ("INPUT", "OUTPUT"):
        tree.interface.new_socket("Geometry", in_out=direction, socket_type="NodeSocketGeometry")
    last = tree.nodes.new("NodeGroupInput").outputs[0]
    for name in names:
        node = tree.nodes.new(name)
        source = next(s for s in node.inputs if s.type == "GEOMETRY")
        tree.links.new(last, source)
        last = next(s for s in node.outputs if s.type == "GEOMETRY")
        if name == "GeometryNodeSetPosition" and keyed:
            vector = tree.nodes.new("ShaderNodeCombineXYZ")
            tree.links.new(vector.outputs[0], node.inputs["Offset"])
            for frame, value in ((1, 0.0), (2, 0.0), (5, 0.4)):
                vector.inputs[0].default_value = value
                vector.inputs[0].keyframe_insert("default_value", frame=frame)
    tree.links.new(last, tree.nodes.new("NodeGroupOutput").inputs[0])
    return tree


NODE_CASES = {
    "set position": (("GeometryNodeSetPosition",), True, "felt"),
    "after attributes": (("GeometryNodeStoreNamedAttribute", "GeometryNodeSetPosition"), True, "felt"),
    "subdivided": (("GeometryNodeSubdivideMesh", "GeometryNodeSetPosition"), True, "reported"),
    "still": (("GeometryNodeSetPosition",), False, "still"),
    "smooth by angle": (("GeometryNodeSetShadeSmooth",), False, "still"),
    "unknown": (("GeometryNodeConvexHull", "GeometryNodeSetPosition"), True, "reported"),
}


@pytest.mark.parametrize("case", NODE_CASES)
@pytest.mark.parametrize("hooked", [False, True])
def test_geometry_nodes(load: Load, case: str, hooked: bool) -> None:
    names, keyed, expected = NODE_CASES[case]
    scene = new_scene(5)
    obj = sheet()
    modifier: Any = obj.modifiers.new("Nodes", "NODES")
    modifier.node_group = node_group(*names, keyed=keyed)
    if hooked:
        hook = obj.modifiers.new("Hook", "HOOK")
        hook.object, hook.vertex_group = bpy.data.objects.new("Still", None), "Pin"
        scene.collection.objects.link(hook.object)
        # Blender 5.2 adds hooks before all other modifiers.
        obj.modifiers.move(obj.modifiers.find("Hook"), len(obj.modifiers) - 1)
    issue = load("dampsim_addon.ui.bake.checks").find_issues(obj, scene).get("unfelt")
    assert (issue is not None) == (expected == "reported")
    if expected == "felt":
        assert not differ(shapes(obj), sampled_shapes(load, obj))
    if expected == "reported":
        assert len(issue.fixes) == 1 + hooked
        before = shapes(obj)
        assert bpy.ops.dampsim.mend(check="unfelt", way=0) == {"FINISHED"}
        # A convex hull has no weights for the pins.
        remaining = ["weights"] if case == "unknown" and hooked else []
        assert list(load("dampsim_addon.ui.bake.checks").find_issues(obj, scene)) == remaining
        assert not differ(before, shapes(obj))
        if hooked:
            assert not differ(before, sampled_shapes(load, obj))


def test_node_group_in_node_group(load: Load) -> None:
    new_scene(5)
    obj = sheet()
    outer = node_group("GeometryNodeSetShadeSmooth")
    group = outer.nodes.new("GeometryNodeGroup")
    group.node_tree = node_group("GeometryNodeSetPosition")
    source = next(n for n in outer.nodes if n.bl_idname == "GeometryNodeSetShadeSmooth")
    output = next(n for n in outer.nodes if n.bl_idname == "NodeGroupOutput")
    outer.links.new(source.outputs[0], group.inputs[0])
    outer.links.new(group.outputs[0], output.inputs[0])
    modifier: Any = obj.modifiers.new("Nodes", "NODES")
    modifier.node_group = outer
    assert moves(shapes(obj))
    assert not differ(shapes(obj), sampled_shapes(load, obj))


def store(tree: Any, name: str, data_type: str) -> Any:
    """Put a Store Named Attribute node before the output of a tree, and return its value socket."""
    node, output = tree.nodes.new("GeometryNodeStoreNamedAttribute"), tree.nodes["Group Output"]
    node.data_type, node.domain, node.inputs["Name"].default_value = data_type, "POINT", name
    tree.links.new(output.inputs[0].links[0].from_socket, node.inputs["Geometry"])
    tree.links.new(node.outputs[0], output.inputs[0])
    return next(socket for socket in node.inputs if socket.name == "Value" and socket.enabled)


def store_keyed_position(obj: bpy.types.Object) -> Any:
    tree = node_group("GeometryNodeSetShadeSmooth")
    add = tree.nodes.new("ShaderNodeVectorMath")
    tree.links.new(tree.nodes.new("GeometryNodeInputPosition").outputs[0], add.inputs[0])
    for frame, value in ((1, 0.0), (5, 0.4)):
        add.inputs[1].default_value = (value, 0.0, 0.0)
        add.inputs[1].keyframe_insert("default_value", frame=frame)
    tree.links.new(add.outputs[0], store(tree, "position", "FLOAT_VECTOR"))
    return tree


def read_keyed_attribute(obj: bpy.types.Object) -> Any:
    tree = node_group("GeometryNodeSetPosition", keyed=False)
    obj.data.attributes.new("offset", "FLOAT_VECTOR", "POINT")
    for frame, value in ((1, 0.0), (5, 0.4)):
        obj.data.attributes["offset"].data[0].vector = (value, 0.0, 0.0)
        obj.data.keyframe_insert('attributes["offset"].data[0].vector', frame=frame)
    attribute = tree.nodes.new("GeometryNodeInputNamedAttribute")
    attribute.data_type, attribute.inputs[0].default_value = "FLOAT_VECTOR", "offset"
    offset = next(socket for socket in attribute.outputs if socket.enabled)
    tree.links.new(offset, tree.nodes["Set Position"].inputs["Offset"])
    return tree


@pytest.mark.parametrize("make_tree", [store_keyed_position, read_keyed_attribute])
def test_nodes_with_attributes(load: Load, make_tree: Callable[[bpy.types.Object], Any]) -> None:
    scene = new_scene(5)
    obj = sheet()
    modifier: Any = obj.modifiers.new("Nodes", "NODES")
    modifier.node_group = make_tree(obj)
    assert moves(shapes(obj))
    assert not differ(shapes(obj), sampled_shapes(load, obj))
    assert "unfelt" not in load("dampsim_addon.ui.bake.checks").find_issues(obj, scene)


@pytest.mark.parametrize(("name", "is_muted", "is_stored"), [("position", False, True), ("", False, False),
                                                             ("position", True, False)])  # fmt: skip
def test_attributes_without_name_are_not_stored(load: Load, name: str, is_muted: bool, is_stored: bool) -> None:
    scene = new_scene(5)
    obj = sheet()
    tree = store_keyed_position(obj)
    node = next(node for node in tree.nodes if node.bl_idname == "GeometryNodeStoreNamedAttribute")
    node.inputs["Name"].default_value, node.mute = name, is_muted
    modifier: Any = obj.modifiers.new("Nodes", "NODES")
    modifier.node_group = tree
    effect = load("dampsim_addon.blender.geometry_nodes").node_effect(tree)
    assert moves(shapes(obj)) == effect.moves_points == effect.sets_positions == effect.may_store("position")
    assert effect.may_store("position") == is_stored
    assert not effect.may_store("Pin")
    assert "unfelt" not in load("dampsim_addon.ui.bake.checks").find_issues(obj, scene)


def double_positions(*after: str) -> Any:
    """Return a tree without animation that moves each vertex by its own place, before other nodes."""
    tree = node_group("GeometryNodeSetPosition", *after, keyed=False)
    place = tree.nodes.new("GeometryNodeInputPosition")
    tree.links.new(place.outputs[0], tree.nodes["Set Position"].inputs["Offset"])
    return tree


def key_shape(obj: bpy.types.Object) -> None:
    obj.shape_key_add(name="Basis")
    key = obj.shape_key_add(name="Wide")
    for point in key.data:
        point.co *= 1.5
    for frame, value in ((1, 0.0), (2, 0.0), (5, 1.0)):
        key.value = value
        key.keyframe_insert("value", frame=frame)


def bend_by_rig(obj: bpy.types.Object) -> None:
    add_moving_modifier(obj, "ARMATURE")


def animate_location(obj: bpy.types.Object) -> None:
    for frame, place in ((1, 0.0), (5, 0.4)):
        obj.location.x = place
        obj.keyframe_insert("location", frame=frame)


@pytest.mark.parametrize("move", [key_shape, bend_by_rig])
@pytest.mark.parametrize("after", [(), ("GeometryNodeSubdivideMesh",)])
def test_still_nodes_after_motion(load: Load, move: Callable[[bpy.types.Object], None], after: tuple[str, ...]) -> None:
    """A tree without animation that doubles the motion before it is felt, or reported if it adds vertices."""
    scene = new_scene(5)
    obj = sheet()
    move(obj)
    modifier: Any = obj.modifiers.new("Nodes", "NODES")
    modifier.node_group = double_positions(*after)
    assert moves(shapes(obj))
    issue = load("dampsim_addon.ui.bake.checks").find_issues(obj, scene).get("unfelt")
    assert (issue is None) != bool(after)
    if not after:
        assert not differ(shapes(obj), sampled_shapes(load, obj))


def test_still_nodes_without_motion(load: Load) -> None:
    """A tree without animation is neither sampled nor reported if only the whole object moves."""
    scene = new_scene(5)
    obj = sheet()
    animate_location(obj)
    modifier: Any = obj.modifiers.new("Nodes", "NODES")
    modifier.node_group = double_positions("GeometryNodeSubdivideMesh")
    assert "unfelt" not in load("dampsim_addon.ui.bake.checks").find_issues(obj, scene)


def pin_by_nodes(obj: bpy.types.Object) -> None:
    modifier: Any = obj.modifiers.new("Nodes", "NODES")
    modifier.node_group = node_group("GeometryNodeSetShadeSmooth")
    weight = store(modifier.node_group, "Pin", "FLOAT")
    for frame, value in ((1, 0.0), (5, 1.0)):
        weight.default_value = value
        weight.keyframe_insert("default_value", frame=frame)


def pin_by_transfer(obj: bpy.types.Object) -> None:
    bpy.ops.mesh.primitive_grid_add(x_subdivisions=4, y_subdivisions=4, size=1.0)
    source = bpy.context.object
    source.vertex_groups.new(name="Pin").add([v.index for v in obj.data.vertices if v.co.x > 0.0], 1.0, "REPLACE")
    for frame, place in ((1, 2.0), (5, 0.0)):
        source.location.x = place
        source.keyframe_insert("location", frame=frame)
    modifier: Any = obj.modifiers.new("Transfer", "DATA_TRANSFER")
    modifier.object, modifier.use_vert_data, modifier.data_types_verts = source, True, {"VGROUP_WEIGHTS"}
    modifier.vert_mapping, modifier.layers_vgroup_select_src = "POLYINTERP_NEAREST", "ALL"


@pytest.mark.parametrize("provoke", [pin_by_nodes, pin_by_transfer])
def test_pins_changed_by_modifier(load: Load, provoke: Callable[[bpy.types.Object], None]) -> None:
    """Each sample has the weights that Blender evaluates."""
    scene = new_scene(5)
    obj = sheet()
    provoke(obj)
    group, truth = obj.vertex_groups["Pin"].index, []
    for frame in (1, 5):
        scene.frame_set(frame)
        mesh = obj.evaluated_get(bpy.context.view_layer.depsgraph).data
        truth.append([sum(one.weight for one in v.groups if one.group == group) for v in mesh.vertices])
    assert truth[0] != truth[1]
    layer = bpy.context.view_layer
    with load("dampsim_addon.blender.sampler").GroupSampler(scene, layer, [obj]) as sampler:
        core_scene = load("dampsim_addon.scene_reader.scene_builder").build_scene(sampler)
        found = [core_scene.sample(float(frame)).bodies[0].pins for frame in (1, 5)]
    np.testing.assert_allclose(found, truth, atol=1e-6)


def operand(obj: bpy.types.Object) -> bpy.types.Object:
    """Return a still cube that a Boolean cuts from the object."""
    bpy.ops.mesh.primitive_cube_add(size=0.5, location=(0.5, 0.0, 0.0))
    cube = bpy.context.object
    obj.modifiers.new("Boolean", "BOOLEAN").object = cube
    return cube


def key_object(obj: bpy.types.Object, path: str, values: tuple[object, object]) -> None:
    for frame, value in zip((1, 5), values, strict=True):
        setattr(obj, path, value)
        obj.keyframe_insert(path, frame=frame)


def cut_while_moving(obj: bpy.types.Object) -> None:
    operand(obj)
    key_object(obj, "location", ((0.0, 0.0, 0.0), (0.6, 0.0, 0.0)))


def cut_by_keyed_texture(obj: bpy.types.Object) -> None:
    texture = bpy.data.textures.new("Clouds", "CLOUDS")
    operand(obj).modifiers.new("Displace", "DISPLACE").texture = texture
    key_object(texture, "noise_scale", (0.1, 1.0))


def displace_painted_weights(obj: bpy.types.Object) -> None:
    obj.modifiers.new("Boolean", "DYNAMIC_PAINT")
    bpy.context.view_layer.objects.active = obj
    bpy.ops.dpaint.type_toggle(type="CANVAS")
    surface = obj.modifiers["Boolean"].canvas_settings.canvas_surfaces[0]
    surface.surface_type, surface.output_name_a = "WEIGHT", "Part"
    obj.modifiers.new("Displace", "DISPLACE").vertex_group = "Part"


@pytest.mark.parametrize("provoke", [cut_while_moving, cut_by_keyed_texture, displace_painted_weights])
def test_indirect_motion_is_reported(load: Load, provoke: Callable[[bpy.types.Object], None]) -> None:
    scene = new_scene(5)
    obj = sheet()
    provoke(obj)
    issue = load("dampsim_addon.ui.bake.checks").find_issues(obj, scene)["unfelt"]
    assert "Boolean" in issue.text
    assert issue.fixes


def test_generator_moves_along(load: Load) -> None:
    """An operand that is a child of the object cuts the same vertices at each frame."""
    scene = new_scene(5)
    obj = sheet()
    operand(obj).parent = obj
    key_object(obj, "location", ((0.0, 0.0, 0.0), (0.6, 0.0, 0.0)))
    assert "unfelt" not in load("dampsim_addon.ui.bake.checks").find_issues(obj, scene)


def test_mutual_modifiers_end(load: Load) -> None:
    new_scene(5)
    obj = sheet()
    operand(obj).modifiers.new("Boolean", "BOOLEAN").object = obj
    assert not load("dampsim_addon.blender.movers").can_move(obj)


def test_unknown_modifier_is_reported(load: Load) -> None:
    """A type of a later version counts as a simulation that is not felt."""
    movers = load("dampsim_addon.blender.movers")
    assert movers.modifier_type_effect("TYPE_OF_2031") is movers.ModifierEffect.SIMULATES


@pytest.mark.parametrize("constraint_type", CONSTRAINT_TYPES)
def test_each_constraint_is_felt(load: Load, constraint_type: str) -> None:
    """Any constraint moves the evaluated matrix, from which samples are taken."""
    scene = new_scene(5)
    obj = sheet()
    targets = helpers()
    bpy.context.view_layer.objects.active = obj
    try:
        constraint: Any = obj.constraints.new(constraint_type)
    except (TypeError, RuntimeError):
        pytest.skip("this type is not for objects")
    animate(obj, constraint, [targets[2], *targets])
    truth = []
    for frame in FRAMES:
        scene.frame_set(frame)
        truth.append(np.array(obj.evaluated_get(bpy.context.view_layer.depsgraph).matrix_world))
    with load("dampsim_addon.blender.sampler").Sampler(scene, bpy.context.view_layer, obj) as sampler:
        for frame, matrix in zip(FRAMES, truth, strict=True):
            sampler.set_frame(frame)
            np.testing.assert_array_equal(sampler.matrix(), matrix)


def _lag(obj: bpy.types.Object) -> float:
    """Return the largest distance along x that the free side is away from the pinned one, m."""
    tip = [v.index for v in obj.data.vertices if v.co.y < -0.4]
    pinned = [v.index for v in obj.data.vertices if v.co.y > 0.4]
    lags = []
    for frame in range(1, bpy.context.scene.frame_end + 1):
        bpy.context.scene.frame_set(frame)
        points = evaluated(obj) @ np.array(obj.matrix_world)[:3, :3].T + np.array(obj.matrix_world)[:3, 3]
        lags.append(abs(points[tip, 0].mean() - points[pinned, 0].mean()))
    return float(max(lags))


@pytest.mark.slow
def test_tip_lags_behind_geometry_nodes(load: Load, tmp_path: Path) -> None:
    """The same motion by keyframes, by geometry nodes, and by those under a hook gives the same lag."""
    lags = []
    for way in ("keyframes", "nodes", "hooked"):
        scene = new_scene(10)
        obj = sheet()
        obj.dampsim.cache_folder = str(tmp_path / way)
        if way == "keyframes":
            for frame, value in ((1, 0.0), (2, 0.0), (5, 0.4)):
                obj.location.x = value
                obj.keyframe_insert("location", frame=frame)
        else:
            modifier: Any = obj.modifiers.new("Nodes", "NODES")
            modifier.node_group = node_group("GeometryNodeSetPosition")
        if way == "hooked":
            hook = obj.modifiers.new("Hook", "HOOK")
            hook.object, hook.vertex_group = bpy.data.objects.new("Still", None), "Pin"
            scene.collection.objects.link(hook.object)
        bpy.context.view_layer.objects.active = obj
        assert bpy.ops.dampsim.bake() == {"FINISHED"}
        lags.append(_lag(obj))
    assert lags[0] > 0.02
    np.testing.assert_allclose(lags[1:], lags[0], rtol=0.02)


def test_armature_as_deforming_parent(load: Load, tmp_path: Path) -> None:
    scene = new_scene(5)
    obj = wobbler(tmp_path)
    rig = moving_rig()
    obj.vertex_groups["Pin"].name = obj.dampsim.pin_group = "Bone"
    obj.parent, obj.parent_type = rig, "ARMATURE"
    bpy.context.view_layer.objects.active = obj
    bpy.context.view_layer.update()
    before = shapes(obj)
    issue = load("dampsim_addon.ui.bake.checks").find_issues(obj, scene)["parent"]
    assert "Rig deforms the mesh" in issue.text
    assert bpy.ops.dampsim.mend(check="parent") == {"FINISHED"}
    assert obj.modifiers[0].type == "ARMATURE"
    assert not differ(before, shapes(obj))
    # The object moves among the envelopes, which no weights replace.
    assert obj.modifiers[0].use_bone_envelopes
    assert [
        one.button_label for one in load("dampsim_addon.ui.bake.checks").find_issues(obj, scene)["envelopes"].fixes
    ] == ["Bake to PC2 Cache"]
    assert "parent" not in load("dampsim_addon.ui.bake.checks").find_issues(obj, scene)


@pytest.mark.parametrize("target", ["SHAPE_KEYS", "BONES"])
@pytest.mark.parametrize("how", ["parent", "modifier"])
def test_envelopes_become_weights(load: Load, tmp_path: Path, how: str, target: str) -> None:
    """Blender's envelopes move vertices without weights. The fix gives them the same weights, which keys can carry."""
    scene = new_scene(5)
    obj = wobbler(tmp_path)
    obj.animation_data_clear()
    obj.dampsim.target, obj.dampsim.max_bones = target, 8
    rig = armature(obj)
    upper = [v.index for v in obj.data.vertices if v.co.z > -0.2]
    for name in ("low", "high"):
        obj.vertex_groups[name].remove(upper)
    wide = obj.shape_key_add(name="Basis") and obj.shape_key_add(name="Wide")
    for point in wide.data:
        point.co.x *= 1.1
    wide.value = 0.5
    if target == "BONES":
        obj.shape_key_clear()
    bone = rig.data.bones["high"]
    bone.head_radius, bone.tail_radius, bone.envelope_distance, bone.envelope_weight = 0.05, 0.2, 1.7, 3.0
    rig.data.bones["low"].envelope_distance = 1.6
    if how == "parent":
        obj.modifiers.remove(obj.modifiers["Armature"])
        obj.parent, obj.parent_type = rig, "ARMATURE"
    else:
        obj.modifiers["Armature"].use_bone_envelopes = True
    bpy.context.view_layer.objects.active = obj
    bpy.context.view_layer.update()
    before, issues = shapes(obj), load("dampsim_addon.ui.bake.checks").find_issues
    assert np.abs(before[0] - before[-1]).max() > 0.1
    check = {"parent": "parent", "modifier": "envelopes" if target == "SHAPE_KEYS" else "target"}[how]
    fixes = [one.button_label for one in issues(obj, scene)[check].fixes]
    assert fixes[0] == ("Convert to Armature Modifier" if how == "parent" else "Convert Envelopes to Weights")
    assert bpy.ops.dampsim.mend(check=check) == {"FINISHED"}
    bpy.context.view_layer.update()
    # Weights and positions have single precision.
    np.testing.assert_allclose(shapes(obj), before, atol=2e-6)
    assert not {"parent", "envelopes", "target", "boneless"} & set(issues(obj, scene))
    (result,) = load("dampsim_addon.api").bake([obj])
    assert not result.problem
