"""Bakes that would fail after the simulation are refused before it, as far as that can be known."""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterator
from pathlib import Path
from types import ModuleType
from typing import NoReturn

import bpy
import pytest
from scenes import add_simulation, new_scene, size, wobbler, world_vertices
from test_bone_bakes import belly, played_error
from test_existing_bones import CHAIN, tail

pytestmark = pytest.mark.bpy
Load = Callable[[str], ModuleType]
ROOT = Path(__file__).resolve().parents[2] / "dampsim_addon"
# Modules that write a bake.
WRITING = [*sorted((ROOT / "targets").glob("*.py")), ROOT / "jobs" / "write.py", ROOT / "jobs" / "curve_bake.py"]
DISK = "a failure of the disk or of Blender's exporter"
# Functions that refuse a bake while it is written, and the check that foresees it, or the reason why none can.
LATE = {
    "bones._require_bone_weights": "boneless",
    "pre_modifier_shapes.pre_modifier_offsets": "Target.motion_check",
    "write._write_target": "settings of the user that no check knows; the message names them",
    "cache_file.os_errors_as_cache_errors": DISK,
    "cache_file.remove_cache_files": DISK,
    "alembic.attach_modifier": DISK,
    "alembic._export_alembic": DISK,
    "__init__.get_target": "the name is stored in the file, and read before the simulation",
}
# Functions that no bake calls.
OTHER = {"retiming.set_time_scale", "retiming._scale_file"}


def raising_functions(path: Path) -> Iterator[str]:
    """Iterate over the functions of a module that raise a message for the user, but are no checks."""

    def visit(node: ast.AST, function: str) -> Iterator[str]:
        for child in ast.iter_child_nodes(node):
            if isinstance(child, ast.FunctionDef):
                yield from visit(child, child.name)
                continue
            if isinstance(child, ast.Raise) and child.exc is not None:
                called = child.exc.func if isinstance(child.exc, ast.Call) else child.exc
                name = ast.unparse(called)
                is_message = name.endswith("Error") and name not in ("ValueError", "InterruptedError")
                if is_message or name == "_no_shape":
                    yield function
            yield from visit(child, function)

    found = visit(ast.parse(path.read_text(encoding="utf-8")), "")
    return (f"{path.stem}.{name}" for name in dict.fromkeys(found) if not name.lstrip("_").startswith("check"))


def test_late_refusals_are_listed(load: Load) -> None:
    """A new refusal after the simulation needs a check that foresees it, or a reason."""
    found = {name for path in WRITING for name in raising_functions(path)}
    assert found - OTHER == set(LATE)
    checks = load("dampsim_addon.ui.bake.checks").CHECKS
    named = {reason for reason in LATE.values() if " " not in reason}
    assert named <= {*checks, "Target.motion_check"}


def moved_by_constraint(cache: Path) -> bpy.types.Object:
    """Return a mesh that a constraint moves relative to its rig."""
    obj, _ = belly(cache)
    guide = bpy.data.objects.new("Guide", None)
    bpy.context.scene.collection.objects.link(guide)
    for frame, place in ((1, 0.0), (3, 0.5)):
        guide.location.x = place
        guide.keyframe_insert("location", frame=frame)
    constraint = obj.constraints.new("COPY_LOCATION")
    constraint.target, constraint.use_offset = guide, True
    return obj


def scaled_by_strip(cache: Path) -> bpy.types.Object:
    """Return a tail with a bone above the chain that a strip scales unevenly."""
    obj, rig = tail(cache)
    root = rig.pose.bones["root"]
    for frame, scale in ((1, 1.0), (3, 1.5)):
        root.scale.x = scale
        root.keyframe_insert("scale", frame=frame)
    data = rig.animation_data
    strip, slot = data.nla_tracks.new().strips.new("Mine", 1, data.action), data.action_slot
    strip.action_slot, data.action = slot, None
    return obj


def read_by_driver(cache: Path, kind: str = "TRANSFORMS") -> bpy.types.Object:
    """Return a tail with a corrective shape key that a bone of the chain drives."""
    obj, rig = tail(cache)
    obj.shape_key_add(name="Basis")
    key = obj.shape_key_add(name="Bulge")
    key.data[0].co.x += 0.1
    driver = key.driver_add("value").driver
    variable = driver.variables.new()
    variable.type, variable.targets[0].id = kind, rig
    if kind == "TRANSFORMS":
        variable.targets[0].bone_target = CHAIN[1]
    else:
        variable.targets[0].data_path = f'pose.bones["{CHAIN[1]}"].rotation_quaternion[1]'
    driver.expression = variable.name
    return obj


def read_by_path(cache: Path) -> bpy.types.Object:
    return read_by_driver(cache, "SINGLE_PROP")


def cast_to_sphere(cache: Path) -> bpy.types.Object:
    """Return an object whose modifier leaves its vertices no other places than those on a sphere."""
    obj = wobbler(cache)
    cast = obj.modifiers.new("Cast", "CAST")
    cast.factor = 1.0
    obj.modifiers.move(len(obj.modifiers) - 1, 0)
    return obj


def driven(obj: bpy.types.Object, path: str, index: int = -1, expression: str = "zero_from_3(frame)") -> None:
    """Drive a property by a function of Python that no check interprets: 1 before frame 3, then 0."""
    bpy.app.driver_namespace["zero_from_3"] = lambda frame: float(frame < 3)
    obj.driver_add(path, index).driver.expression = expression


def scaled_by_python(cache: Path) -> bpy.types.Object:
    obj = wobbler(cache)
    driven(obj, "scale", 2)
    return obj


def disabled_by_python(cache: Path) -> bpy.types.Object:
    obj = wobbler(cache)
    driven(obj, "hide_viewport", expression="1 - zero_from_3(frame)")
    return obj


def switched_by_python(cache: Path) -> bpy.types.Object:
    """Return an object whose vertex count a driven modifier changes."""
    obj = wobbler(cache)
    obj.modifiers.new("Array", "ARRAY").fit_type = "FIXED_COUNT"
    driven(obj, 'modifiers["Array"].count', expression="2 + zero_from_3(frame)")
    obj.modifiers.new("Cast", "CAST").factor = 0.1
    obj.dampsim.target = "POINT_CACHE"
    return obj


def guide_of(obj: bpy.types.Object) -> bpy.types.Object:
    """Return an object that constraints and drivers read."""
    guide = bpy.data.objects.new("Guide", None)
    bpy.context.scene.collection.objects.link(guide)
    return guide


def scaled_by_transform_channel(cache: Path) -> bpy.types.Object:
    obj = wobbler(cache)
    guide = guide_of(obj)
    for frame, place in ((1, 1.0), (3, 0.0)):
        guide.location.x = place
        guide.keyframe_insert("location", frame=frame)
    driver = obj.driver_add("scale", 0).driver
    driver.type = "SUM"
    variable = driver.variables.new()
    variable.type, variable.targets[0].id, variable.targets[0].transform_type = "TRANSFORMS", guide, "LOC_X"
    return obj


def scaled_by_keyed_constraint(cache: Path) -> bpy.types.Object:
    """Return an object that copies a scale of zero once the influence of a constraint is 1."""
    obj = wobbler(cache)
    guide = guide_of(obj)
    guide.scale.z = 0.0
    constraint = obj.constraints.new("COPY_SCALE")
    constraint.target = guide
    for frame, influence in ((1, 0.0), (3, 1.0)):
        constraint.influence = influence
        constraint.keyframe_insert("influence", frame=frame)
    return obj


def disabled_by_meta_strip(cache: Path) -> bpy.types.Object:
    obj = wobbler(cache)
    for frame in (1, 3):
        obj.hide_viewport = frame == 3
        obj.keyframe_insert("hide_viewport", frame=frame)
    data = obj.animation_data
    track = data.nla_tracks.new()
    strip, slot = track.strips.new("Mine", 1, data.action), data.action_slot
    strip.action_slot, data.action, strip.select = slot, None, True
    area_type, context = "NLA_EDITOR", bpy.context
    window = context.window_manager.windows[0]
    area = window.screen.areas[0]
    before, area.type = area.type, area_type
    with context.temp_override(window=window, area=area, region=area.regions[-1], object=obj, active_object=obj):
        bpy.ops.nla.meta_add()
    area.type = before
    assert track.strips[0].type == "META"
    obj.hide_viewport = False
    return obj


def disabled_collider(cache: Path) -> bpy.types.Object:
    obj = wobbler(cache)
    bpy.ops.mesh.primitive_cube_add(location=(5.0, 0.0, 0.0))
    other = bpy.context.object
    other.name = "Stop"
    other.dampsim_collider.is_collider = True
    driven(other, "hide_viewport", expression="1 - zero_from_3(frame)")
    return obj


def disabled_link_end(cache: Path) -> bpy.types.Object:
    obj = wobbler(cache)
    guide = guide_of(obj)
    guide.keyframe_insert("location", frame=1)
    obj.dampsim.links.add().other = guide
    driven(guide, "hide_viewport", expression="1 - zero_from_3(frame)")
    return obj


def flattened_by_bone(cache: Path) -> bpy.types.Object:
    """Return a body with a bone whose constraint takes over a scale of zero."""
    obj, rig = belly(cache)
    guide = guide_of(obj)
    guide.scale.x = 0.0
    constraint = rig.pose.bones["spine.L"].constraints.new("COPY_SCALE")
    constraint.target = guide
    driven(rig, 'pose.bones["spine.L"].constraints[0].influence', expression="1 - zero_from_3(frame)")
    obj.dampsim.target = "SHAPE_KEYS"
    return obj


def hidden_by_scale(cache: Path) -> bpy.types.Object:
    """Return a mesh with a bone that is scaled to zero at one frame."""
    obj, rig = belly(cache)
    chest = rig.pose.bones["chest"]
    for frame, scale in ((2, 1.0), (3, 0.0), (4, 1.0)):
        chest.scale = (scale,) * 3
        chest.keyframe_insert("scale", frame=frame)
    return obj


def flat_rig(cache: Path) -> bpy.types.Object:
    """Return a mesh that is no child of its rig, which is scaled to zero along one axis at one frame."""
    obj, rig = belly(cache)
    obj.parent = None
    rig.animation_data_clear()
    for frame, scale in ((2, 1.0), (3, 0.0)):
        rig.scale.z = scale
        rig.keyframe_insert("scale", frame=frame)
    return obj


def fading_action(cache: Path) -> bpy.types.Object:
    """Return a mesh with a rig whose action has an influence, which Blender ignores until there are tracks."""
    obj, rig = belly(cache)
    rig.animation_data.action_influence = 0.6
    return obj


def added_action(cache: Path) -> bpy.types.Object:
    """Return an object whose shape keys have an action that Blender would add to the tracks of a bake."""
    obj = wobbler(cache)
    obj.shape_key_add(name="Basis")
    key = obj.shape_key_add(name="Smile")
    key.keyframe_insert("value", frame=1)
    obj.data.shape_keys.animation_data.action_blend_type = "ADD"
    return obj


def cast_by_keys(cache: Path) -> bpy.types.Object:
    """Return an object whose modifier leaves its vertices no other places at the last frame alone."""
    obj = cast_to_sphere(cache)
    for frame, factor in ((3, 0.0), (4, 1.0)):
        obj.modifiers["Cast"].factor = factor
        obj.modifiers["Cast"].keyframe_insert("factor", frame=frame)
    return obj


def put_at_point(cache: Path) -> bpy.types.Object:
    """Return an object whose modifier puts all vertices at one point."""
    obj = wobbler(cache)
    tree = bpy.data.node_groups.new("Point", "GeometryNodeTree")
    for way in ("INPUT", "OUTPUT"):
        tree.interface.new_socket("Geometry", in_out=way, socket_type="NodeSocketGeometry")
    kinds = ("NodeGroupInput", "GeometryNodeSetPosition", "NodeGroupOutput", "GeometryNodeInputSceneTime")
    start, place, end, clock = (tree.nodes.new(kind) for kind in kinds)
    tree.links.new(start.outputs[0], place.inputs[0])
    tree.links.new(place.outputs[0], end.inputs[0])
    tree.links.new(clock.outputs[0], place.inputs["Position"])
    obj.modifiers.new("Point", "NODES").node_group = tree
    obj.modifiers.move(len(obj.modifiers) - 1, 0)
    return obj


def keyed_vertices(cache: Path) -> bpy.types.Object:
    obj = wobbler(cache)
    vertex = obj.data.vertices[0]
    for frame, height in ((1, 1.0), (3, 1.5)):
        vertex.co.z = height
        vertex.keyframe_insert("co", frame=frame)
    return obj


def moved_by_simulation_zone(cache: Path) -> bpy.types.Object:
    """Return an object that a simulation zone moves, which forgets shape keys from the second frame on."""
    obj = wobbler(cache)
    tree = bpy.data.node_groups.new("Tree", "GeometryNodeTree")
    for direction in ("INPUT", "OUTPUT"):
        tree.interface.new_socket("Geometry", in_out=direction, socket_type="NodeSocketGeometry")
    start, end = tree.nodes.new("GeometryNodeSimulationInput"), tree.nodes.new("GeometryNodeSimulationOutput")
    start.pair_with_output(end)
    move = tree.nodes.new("GeometryNodeSetPosition")
    move.inputs["Offset"].default_value = 0.1, 0.0, 0.0
    tree.links.new(tree.nodes.new("NodeGroupInput").outputs[0], start.inputs["Geometry"])
    tree.links.new(start.outputs["Geometry"], move.inputs[0])
    tree.links.new(move.outputs[0], end.inputs["Geometry"])
    tree.links.new(end.outputs["Geometry"], tree.nodes.new("NodeGroupOutput").inputs[0])
    obj.modifiers.new("Nodes", "NODES").node_group = tree
    obj.modifiers.move(len(obj.modifiers) - 1, 0)
    return obj


def bound_to_anchors(cache: Path) -> bpy.types.Object:
    """Return an object whose modifier moves all vertices by those of a few anchors."""
    obj = wobbler(cache)
    obj.vertex_groups.new(name="Anchors").add(list(range(40)), 1.0, "REPLACE")
    obj.modifiers.clear()
    obj.modifiers.new("Laplacian", "LAPLACIANDEFORM").vertex_group = "Anchors"
    assert bpy.ops.object.laplaciandeform_bind(modifier="Laplacian") == {"FINISHED"}
    return obj


CASES = {
    moved_by_constraint: "Torso: it moves relative to its rig",
    scaled_by_strip: "Tail: the bone root is scaled unevenly at frame",
    read_by_driver: 'Tail: the driver of key_blocks["Bulge"].value reads a bone of the bake',
    read_by_path: 'Tail: the driver of key_blocks["Bulge"].value reads a bone of the bake',
    cast_to_sphere: "Wobbler: at frame 1, its modifiers cannot produce the simulated shape",
    scaled_by_python: "Wobbler: its scale is zero along an axis at frame 3",
    disabled_by_python: "Wobbler: it is disabled in viewports at frame 3",
    switched_by_python: "at frame 3",
    scaled_by_transform_channel: "Wobbler: its scale is zero along an axis at frame 3",
    scaled_by_keyed_constraint: "Wobbler: its scale is zero along an axis at frame 3",
    disabled_by_meta_strip: "Wobbler: it is disabled in viewports at frame 3",
    disabled_collider: "Stop: the collider is disabled in viewports at frame 3",
    disabled_link_end: "Guide: it is disabled in viewports at frame 3",
    flattened_by_bone: "Torso: at frame 3, its modifiers cannot produce the simulated shape",
    keyed_vertices: "Wobbler: its vertices are keyed, and shape keys would replace them; bake to PC2 Cache.",
    moved_by_simulation_zone: "Wobbler: at frame 2, its modifiers cannot produce the simulated shape",
    hidden_by_scale: "Torso: the bone chest is scaled to zero at frame 3",
    flat_rig: "Torso: its rig Rig is scaled to zero at frame 3",
    fading_action: "Torso: the tracks of a bake would change how the action RigAction of its rig Rig plays",
    added_action: "Wobbler: the tracks of a bake would change how the action",
    cast_by_keys: "Wobbler: at frame 4, its modifiers cannot produce the simulated shape",
    put_at_point: "Wobbler: at frame 1, its modifiers cannot produce the simulated shape",
    bound_to_anchors: "Wobbler: at frame 1, its modifiers cannot produce the simulated shape",
}


# Cases that are built with the target that refuses them; the others are tried with several.
WITH_TARGET = (
    hidden_by_scale,
    flat_rig,
    fading_action,
    scaled_by_strip,
    read_by_driver,
    read_by_path,
    scaled_by_python,
    disabled_by_python,
    switched_by_python,
    scaled_by_transform_channel,
    scaled_by_keyed_constraint,
    disabled_by_meta_strip,
    disabled_collider,
    disabled_link_end,
    flattened_by_bone,
    keyed_vertices,
    moved_by_simulation_zone,
)


def sagging_smooth(cache: Path, rest_source: str) -> bpy.types.Object:
    """Return a sagging ball whose modifier smooths away a part of every change of its shape."""
    bpy.ops.mesh.primitive_uv_sphere_add(segments=16, ring_count=10)
    obj = bpy.context.object
    pins = [vertex.index for vertex in obj.data.vertices if vertex.co.z < -0.8]
    obj.vertex_groups.new(name="Pin").add(pins, 1.0, "REPLACE")
    add_simulation(obj, cache, resolution=300)
    smooth = obj.modifiers.new("Smooth", "CORRECTIVE_SMOOTH")
    bpy.context.view_layer.update()
    smooth.rest_source = rest_source
    if rest_source == "BIND":
        assert bpy.ops.object.correctivesmooth_bind(modifier="Smooth") == {"FINISHED"}
    return obj


@pytest.mark.parametrize("rest_source", ["ORCO", "BIND"])
def test_smoothed_sag_is_refused_early(load: Load, tmp_path: Path, rest_source: str) -> None:
    """The modifier follows the small motions of the first check, but not the sag; bones and files take it."""
    new_scene(4)
    obj = sagging_smooth(tmp_path, rest_source)
    stages = set()
    for target in ("SHAPE_KEYS", "FRAME_KEYS"):
        obj.dampsim.target = target
        steps = load("dampsim_addon.jobs.bake").bake_object(bpy.context.scene, bpy.context.view_layer, obj, True)
        with pytest.raises(Exception, match=r"at frame 1, its modifiers cannot produce .*; bake to PC2 Cache"):
            stages.update(step.text for step in steps)
    assert "Simulating" not in stages
    for target in ("POINT_CACHE", "BONES"):
        assert load("dampsim_addon.api").bake([obj], target=target)[0].problem == ""


@pytest.mark.parametrize(
    ("build", "target"),
    [
        *((build, "" if build in WITH_TARGET else "BONES") for build in CASES),
        *((build, "SHAPE_KEYS") for build in CASES if build not in (*WITH_TARGET, moved_by_constraint)),
    ],
    ids=lambda one: getattr(one, "__name__", one),
)
def test_refused_before_simulation(
    load: Load,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    build: Callable[[Path], bpy.types.Object],
    target: str,
) -> None:
    """Nothing is simulated, and nothing is changed."""

    def simulate(*_: object, **__: object) -> NoReturn:
        pytest.fail("the simulation has begun")

    monkeypatch.setattr(load("dampsim_addon.jobs.prepare"), "prepare_simulation", simulate)
    new_scene(4)
    obj = build(tmp_path)
    if target:
        obj.dampsim.target = target
    bpy.context.scene.frame_set(1)
    keys = obj.data.shape_keys
    (result,) = load("dampsim_addon.api").bake([obj], restart=True)
    assert CASES[build] in result.problem
    assert obj.data.shape_keys == keys
    assert not list(tmp_path.rglob("*.npz"))


def disabled_between_frames(cache: Path) -> bpy.types.Object:
    obj = wobbler(cache)
    obj.driver_add("hide_viewport").driver.expression = "2.2 < frame < 2.8"
    return obj


def flattened_between_frames(cache: Path) -> bpy.types.Object:
    """Return an object beside a collider whose scale keyframes at fractional frames set to zero."""
    obj = wobbler(cache)
    bpy.ops.mesh.primitive_cube_add(location=(5.0, 0.0, 0.0))
    other = bpy.context.object
    other.name, other.dampsim_collider.is_collider = "Stop", True
    other.parent = guide_of(obj)
    for frame, scale in ((2.0, 1.0), (2.2, 0.0), (2.9, 1.0)):
        other.parent.scale.z = scale
        other.parent.keyframe_insert("scale", frame=frame)
    for bag in other.parent.animation_data.action.layers[0].strips[0].channelbags:
        for key in (key for curve in bag.fcurves for key in curve.keyframe_points):
            key.interpolation = "CONSTANT"
    return obj


def rebuilt_between_frames(cache: Path) -> bpy.types.Object:
    obj = switched_by_python(cache)
    obj.animation_data.drivers[0].driver.expression = "2 + (2.2 < frame < 2.8)"
    return obj


@pytest.mark.parametrize(
    ("build", "words"),
    [
        (disabled_between_frames, "Wobbler: it is disabled in viewports at frame 2"),
        (flattened_between_frames, "Stop: its scale is zero along an axis at frame 2."),
        (rebuilt_between_frames, "modifier Array gives 2766 vertices at frame 2."),
    ],
    ids=lambda one: getattr(one, "__name__", ""),
)
def test_refused_before_first_frame(
    load: Load, tmp_path: Path, build: Callable[[Path], bpy.types.Object], words: str
) -> None:
    """Substeps are read, too, where animation may disable or flatten an object between two frames."""
    new_scene(4)
    obj = build(tmp_path)
    bpy.context.scene.frame_set(1)
    steps = load("dampsim_addon.jobs.bake").bake_object(bpy.context.scene, bpy.context.view_layer, obj, True)
    stages = set()
    with pytest.raises(load("core").DampSimError, match=words):
        stages.update(step.text for step in steps)
    assert "Simulating" not in stages
    assert not list(tmp_path.rglob("*.npz"))


@pytest.mark.parametrize(("frames", "expected"), [((1, 4), False), ((1, 3.5), True)])
def test_whole_keyframes_need_no_substeps(
    load: Load, tmp_path: Path, frames: tuple[float, float], expected: bool
) -> None:
    obj, can_switch = wobbler(tmp_path), load("dampsim_addon.jobs.refusals").can_switch_between_frames
    assert not can_switch(obj)
    for frame in frames:
        obj.keyframe_insert("scale", frame=frame)
    assert can_switch(obj) == expected


def shaken_by_noise(cache: Path) -> bpy.types.Object:
    """Return an object whose vertices nodes move by a noise, which rounds more than other modifiers do."""
    obj = put_at_point(cache)
    tree = obj.modifiers["Point"].node_group
    place = next(node for node in tree.nodes if node.bl_idname == "GeometryNodeSetPosition")
    clock = place.inputs["Position"].links[0].from_node
    tree.links.remove(place.inputs["Position"].links[0])
    noise, scale = tree.nodes.new("ShaderNodeTexNoise"), tree.nodes.new("ShaderNodeVectorMath")
    noise.noise_dimensions, scale.operation, scale.inputs["Scale"].default_value = "4D", "SCALE", 0.1
    tree.links.new(clock.outputs[0], noise.inputs["W"])
    tree.links.new(noise.outputs["Color"], scale.inputs[0])
    tree.links.new(scale.outputs[0], place.inputs["Offset"])
    return obj


def test_noise_takes_few_evaluations(load: Load, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The check ends once a shape is near enough, and the bake where corrections only round."""
    module, frames = load("dampsim_addon.targets.pre_modifier_shapes"), 4
    evaluate, count = module._deformed, 0

    def counted(*arguments: object) -> object:
        nonlocal count
        count += 1
        return evaluate(*arguments)

    monkeypatch.setattr(module, "_deformed", counted)
    new_scene(frames)
    obj = shaken_by_noise(tmp_path)
    obj.dampsim.target = "SHAPE_KEYS"
    (result,) = load("dampsim_addon.api").bake([obj], restart=True)
    assert (result.problem, result.error < 1e-5 * size(world_vertices(obj, 1))) == ("", True)
    # 25 corrections and five Jacobians, for the bake and for the check, would be 80 evaluations of each frame.
    assert count < 45 * frames


@pytest.mark.parametrize("build", [belly, tail], ids=lambda one: one.__name__)
def test_sound_rigs_reach_simulation(
    load: Load,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    build: Callable[[Path], tuple[bpy.types.Object, object]],
) -> None:
    class StartedError(Exception):
        pass

    def simulate(*_: object, **__: object) -> NoReturn:
        raise StartedError

    monkeypatch.setattr(load("dampsim_addon.jobs.prepare"), "prepare_simulation", simulate)
    new_scene(4)
    obj, _ = build(tmp_path)
    with pytest.raises(StartedError):
        load("dampsim_addon.api").bake([obj], restart=True)


def coupled(obj: bpy.types.Object) -> None:
    """Smooth the mesh, so that the vertices depend on each other."""
    obj.modifiers.new("Smooth", "SMOOTH").iterations = 5


def folded(obj: bpy.types.Object) -> None:
    """Cast the mesh so far to a sphere that large motion folds it."""
    obj.modifiers.new("Cast", "CAST").factor = 0.9


def enlarged(obj: bpy.types.Object) -> None:
    """Stretch the mesh, which enlarges errors."""
    modifier = obj.modifiers.new("Stretch", "SIMPLE_DEFORM")
    modifier.deform_method, modifier.factor, modifier.deform_axis = "STRETCH", 1.0, "Z"


@pytest.mark.parametrize(("change", "words"), [(coupled, ""), (folded, "Cast cannot follow"), (enlarged, "")])
def test_bones_state_error_of_modifiers(
    load: Load, tmp_path: Path, change: Callable[[bpy.types.Object], None], words: str
) -> None:
    """Other modifiers never refuse a bake to bones after its simulation; the measured error is stated."""
    new_scene(8)
    obj = wobbler(tmp_path)
    obj.modifiers.clear()
    change(obj)
    obj.dampsim.target, obj.dampsim.max_bones = "BONES", 4
    assert bpy.ops.dampsim.bake(which="ACTIVE", restart=True) == {"FINISHED"}
    shape = load("dampsim_addon.model.caches").frame_cache(obj).read(1).surface
    assert played_error(load, obj) * size(shape) == pytest.approx(obj.dampsim.baked_error, rel=1e-3)
    assert words in obj.dampsim.baked_touched
    assert ("cannot follow" in obj.dampsim.baked_touched) == bool(words)


def test_keys_follow_smoothing(load: Load, tmp_path: Path) -> None:
    new_scene(8)
    obj = wobbler(tmp_path)
    obj.modifiers.clear()
    coupled(obj)
    assert bpy.ops.dampsim.bake(which="ACTIVE", restart=True) == {"FINISHED"}
    assert played_error(load, obj) < 1.01e-3
