"""A bake evaluates only the objects that contribute to it, and leaves all others as they were."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import bpy
import numpy as np
import pytest
from random_edits import ball
from scenes import new_scene
from test_live import bake_frames
from test_movers import (
    CONSTRAINT_TYPES,
    FRAMES,
    MODIFIER_TYPES,
    add_moving_modifier,
    animate,
    helpers,
    moving_rig,
    node_group,
    sheet,
)

pytestmark = [pytest.mark.bpy, pytest.mark.versions]
Load = Callable[[str], ModuleType]
_EVALUATIONS: list[float] = []


def bystander(name: str = "Bystander") -> bpy.types.Object:
    """Return an animated object to which nothing refers."""
    mesh = bpy.data.meshes.new(name)
    mesh.from_pydata([(0, 0, 0), (1, 0, 0), (0, 1, 0)], [], [(0, 1, 2)])
    obj = bpy.data.objects.new(name, mesh)
    bpy.context.scene.collection.objects.link(obj)
    for frame, place in ((1, 5.0), (5, 6.0)):
        obj.location.x = place
        obj.keyframe_insert("location", frame=frame)
    bpy.context.view_layer.update()
    return obj


def test_readers_of_disabled_objects_stay(load: Load) -> None:
    """An unrelated object that reads a disabled end of a link is what keeps Blender evaluating that end."""
    scene = new_scene(5)
    obj, reader = sheet(), bystander("Reader")
    end = bpy.data.objects.new("End", None)
    scene.collection.objects.link(end)
    for frame, place in ((1, 0.0), (5, 1.0)):
        end.location.x = place
        end.keyframe_insert("location", frame=frame)
    end.hide_viewport = True
    reader.constraints.new("COPY_LOCATION").target = end
    obj.dampsim.links.add().other = end
    bystander()
    bpy.context.view_layer.update()
    isolation = load("dampsim_addon.scene_reader.isolation")
    with isolation.isolated_sampler(scene, bpy.context.view_layer, [obj]) as sampler:
        assert not reader.hide_viewport
        assert bpy.data.objects["Bystander"].hide_viewport
        sampler.set_frame(5)
        assert end.evaluated_get(bpy.context.view_layer.depsgraph).matrix_world.translation.x == pytest.approx(1.0)


@pytest.fixture
def evaluations() -> Iterator[list[float]]:
    """Return the list to which each evaluation of a counted object appends the frame."""
    _EVALUATIONS.clear()
    yield _EVALUATIONS
    bpy.app.driver_namespace.pop("count_evaluation", None)
    bpy.context.preferences.filepaths.use_scripts_auto_execute = False


def count_evaluation(frame: float) -> float:
    _EVALUATIONS.append(frame)
    return 1.0


def count_evaluations(obj: bpy.types.Object) -> None:
    """Let each evaluation of an object call count_evaluation()."""
    prepare_counting()
    obj.driver_add("scale", 2).driver.expression = "count_evaluation(frame)"
    bpy.context.view_layer.update()


def prepare_counting() -> None:
    """Allow Python drivers, which each new file forbids again."""
    bpy.context.preferences.filepaths.use_scripts_auto_execute = True
    bpy.app.driver_namespace["count_evaluation"] = count_evaluation


def samples(load: Load, obj: bpy.types.Object, isolated: bool) -> list[np.ndarray]:
    """Return the sampled vertices in world space at some frames."""
    scene, layer = bpy.context.scene, bpy.context.view_layer
    isolation = load("dampsim_addon.scene_reader.isolation")
    create = isolation.isolated_sampler if isolated else load("dampsim_addon.blender.sampler").GroupSampler
    found = []
    with create(scene, layer, [obj]) as sampler:
        for frame in (*FRAMES, 2.5):
            sampler.set_frame(frame)
            found.append(sampler.members[0].world_positions())
    return found


def check_same_samples(
    load: Load, evaluations: list[float], obj: bpy.types.Object, expect_isolated: bool = True
) -> None:
    other = bystander()
    count_evaluations(other)
    expected = samples(load, obj, isolated=False)
    evaluations.clear()
    found = samples(load, obj, isolated=True)
    assert len(evaluations) == (0 if expect_isolated else len(FRAMES) + 2)
    bpy.context.view_layer.update()
    assert len(evaluations) == (1 if expect_isolated else len(FRAMES) + 2)
    for one, expected_one in zip(found, expected, strict=True):
        np.testing.assert_array_equal(one, expected_one)
    assert not other.hide_viewport
    assert other.evaluated_get(bpy.context.view_layer.depsgraph) != other


@pytest.mark.parametrize("modifier_type", MODIFIER_TYPES)
def test_modifiers_keep_their_objects(load: Load, evaluations: list[float], modifier_type: str) -> None:
    new_scene(5)
    obj = sheet()
    add_moving_modifier(obj, modifier_type)
    check_same_samples(load, evaluations, obj)


@pytest.mark.parametrize("constraint_type", CONSTRAINT_TYPES)
def test_constraints_keep_their_objects(load: Load, evaluations: list[float], constraint_type: str) -> None:
    new_scene(5)
    obj, targets = sheet(), helpers()
    try:
        constraint: Any = obj.constraints.new(constraint_type)
    except (TypeError, RuntimeError):
        pytest.skip("this type is not for objects")
    animate(obj, constraint, [targets[2], *targets])
    check_same_samples(load, evaluations, obj)


def driven(obj: bpy.types.Object, target: bpy.types.Object) -> bool:
    driver = obj.driver_add("location", 0).driver
    variable = driver.variables.new()
    variable.name, variable.type = "x", "TRANSFORMS"
    variable.targets[0].id, driver.expression = target, "2 * x"
    return True


def driven_by_python(obj: bpy.types.Object, target: bpy.types.Object) -> bool:
    obj.driver_add("location", 0).driver.expression = f"bpy.data.objects['{target.name}'].location.x"
    return False


def parented(obj: bpy.types.Object, target: bpy.types.Object) -> bool:
    obj.parent = target
    return True


def in_collection_of_nodes(obj: bpy.types.Object, target: bpy.types.Object) -> bool:
    """A hidden object would be missing from Collection Info."""
    collection = bpy.data.collections.new("Seen")
    bpy.context.scene.collection.children.link(collection)
    collection.objects.link(target)
    modifier: Any = obj.modifiers.new("Nodes", "NODES")
    tree = node_group("GeometryNodeSetPosition")
    modifier.node_group = tree
    info, near = tree.nodes.new("GeometryNodeCollectionInfo"), tree.nodes.new("GeometryNodeProximity")
    realize = tree.nodes.new("GeometryNodeRealizeInstances")
    info.inputs["Collection"].default_value = collection
    tree.links.new(info.outputs[0], realize.inputs[0])
    tree.links.new(realize.outputs[0], near.inputs[0])
    move = next(n for n in tree.nodes if n.bl_idname == "GeometryNodeSetPosition")
    tree.links.new(near.outputs["Position"], move.inputs["Position"])
    return True


def texture_coordinates(obj: bpy.types.Object, target: bpy.types.Object) -> bool:
    texture = bpy.data.textures.new("Clouds", "CLOUDS")
    modifier: Any = obj.modifiers.new("Displace", "DISPLACE")
    modifier.texture, modifier.texture_coords, modifier.texture_coords_object = texture, "OBJECT", target
    return True


def rigid_body(obj: bpy.types.Object, target: bpy.types.Object) -> bool:
    bpy.ops.rigidbody.world_add()
    bpy.context.view_layer.objects.active = target
    bpy.ops.rigidbody.object_add(type="PASSIVE")
    obj.parent = target
    return False


LINKS = (driven, driven_by_python, parented, in_collection_of_nodes, texture_coordinates, rigid_body)


@pytest.mark.parametrize("link", LINKS)
def test_other_links_keep_their_objects(load: Load, evaluations: list[float], link: Callable[..., bool]) -> None:
    new_scene(5)
    obj = sheet()
    check_same_samples(load, evaluations, obj, link(obj, helpers()[0]))


def test_restored_after_bake_and_error(load: Load, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    scene = new_scene(3)
    obj, other, layer = ball("Flesh", 0.0, tmp_path), bystander(), bpy.context.view_layer
    other.select_set(True)
    hidden = bystander("Hidden")
    hidden.hide_viewport = True
    jobs = load("dampsim_addon.jobs.bake")

    def check() -> None:
        layer.update()
        assert (other.hide_viewport, hidden.hide_viewport, other.select_get()) == (False, True, True)
        assert set(scene.keys()) == keys
        assert other.animation_data.drivers.find("hide_viewport") is None
        assert other.evaluated_get(layer.depsgraph) != other

    keys = set(scene.keys())
    bake_frames(load, obj)
    check()
    steps = jobs.bake_object(scene, layer, obj, True)
    next(steps)
    assert other.hide_viewport
    steps.close()
    check()
    error = SimpleNamespace(raised=False)

    def fail(*_: object) -> None:
        error.raised = other.hide_viewport
        raise ZeroDivisionError

    monkeypatch.setattr(jobs, "prepare_shot", fail)
    with pytest.raises(ZeroDivisionError):
        bake_frames(load, obj)
    assert error.raised
    check()


def heavy_bystanders() -> list[bpy.types.Object]:
    """Return objects that move by a bone, a shape key, keyframes, and a modifier."""
    rig = moving_rig()
    found = []
    for name in ("Posed", "Keyed", "Moved", "Wavy"):
        bpy.ops.mesh.primitive_grid_add(x_subdivisions=3, y_subdivisions=3, size=1.0, location=(4.0, 0.0, 0.0))
        found.append(bpy.context.object)
        found[-1].name = name
    posed, keyed, moved, wavy = found
    posed.vertex_groups.new(name="Bone").add(range(len(posed.data.vertices)), 1.0, "REPLACE")
    modifier: Any = posed.modifiers.new("Rig", "ARMATURE")
    modifier.object = rig
    keyed.shape_key_add(name="Basis")
    key = keyed.shape_key_add(name="High")
    for point in key.data:
        point.co.z += 1.0
    moved.modifiers.new("Smooth", "SUBSURF")
    for frame, value in ((1, 0.0), (5, 1.0)):
        key.value = moved.location.y = value
        key.keyframe_insert("value", frame=frame)
        moved.keyframe_insert("location", frame=frame)
    wavy.modifiers.new("Wave", "WAVE")
    return [rig, *found]


def evaluated_shapes(objects: list[bpy.types.Object]) -> list[np.ndarray]:
    """Return the matrices and the evaluated vertices of some objects, without an update of the depsgraph."""
    depsgraph = bpy.context.view_layer.depsgraph
    found = []
    for obj in objects:
        evaluated = obj.evaluated_get(depsgraph)
        found.append(np.array(evaluated.matrix_world))
        if obj.type == "MESH":
            found.append(np.array([v.co[:] for v in evaluated.data.vertices]))
    return found


@pytest.mark.parametrize("target", ["SHAPE_KEYS", "POINT_CACHE"])
def test_bake_evaluates_unrelated_objects_once(
    load: Load, tmp_path: Path, evaluations: list[float], target: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Unrelated objects are evaluated only at the next update, at the frame from before, and are as they were."""
    scene = new_scene(5)
    obj, others = ball("Flesh", 0.0, tmp_path), heavy_bystanders()
    obj.dampsim.target = target
    # The depsgraph evaluates the drivers of objects with modifiers, but not their geometry.
    rig, keyed, with_modifiers = others[0], others[2], [other for other in others if other.modifiers]
    count_evaluations(keyed)
    rig.pose.bones["Bone"].driver_add("scale", 2).driver.expression = "count_evaluation(frame)"
    scene.frame_set(3)
    expected, kept = evaluated_shapes(others), evaluated_shapes(with_modifiers)
    animated = [other.animation_data and other.animation_data.action for other in others]
    sampler, visited, found = load("dampsim_addon.blender.sampler").Sampler, set(), []
    set_frame = sampler.set_frame

    def set_frame_and_check(self: Any, frame: float) -> None:
        set_frame(self, frame)
        visited.add(frame)
        assert not evaluations
        # Its keyframes would take most of the time, although no driver of its bones is evaluated.
        assert not rig.evaluated_get(bpy.context.view_layer.depsgraph).is_evaluated
        found.append(evaluated_shapes(with_modifiers))
        for one, other in zip(found[0], found[-1], strict=True):
            np.testing.assert_array_equal(one, other)

    monkeypatch.setattr(sampler, "set_frame", set_frame_and_check)
    evaluations.clear()
    bake_frames(load, obj)
    assert visited >= {1.0, 2.0, 3.0, 4.0, 5.0}
    # A viewport evaluates them; without a window, nobody needs to.
    assert not evaluations
    bpy.context.view_layer.update()
    assert evaluations == [3.0] * 2
    assert scene.frame_current == 3
    assert [other.animation_data and other.animation_data.action for other in others] == animated
    for one, other in zip(expected, evaluated_shapes(others), strict=True):
        np.testing.assert_array_equal(one, other)
    scene.frame_set(4)
    assert evaluations == [3.0] * 2 + [4.0] * 2
    assert any(not np.array_equal(a, b) for a, b in zip(kept, evaluated_shapes(with_modifiers), strict=True))


def test_drivers_are_read_once(load: Load, monkeypatch: pytest.MonkeyPatch) -> None:
    """The search for rigs, and for objects that rely on disabled ones, does not grow with the meshes of a rig."""
    scene = new_scene(3)
    obj, layer, movers = sheet(), bpy.context.view_layer, load("dampsim_addon.blender.movers")
    rig = moving_rig()
    rig.driver_add("scale", 0).driver.expression = "1"
    free, end = bystander("Free"), bpy.data.objects.new("End", None)
    free.modifiers.new("Wave", "WAVE")
    scene.collection.objects.link(end)
    end.hide_viewport = True
    obj.dampsim.links.add().other = end
    for place in range(9):
        bystander(f"Mesh {place}").modifiers.new("Pose", "ARMATURE").object = rig
    layer.update()
    reads, read = [], movers.drivers_of
    monkeypatch.setattr(movers, "drivers_of", lambda block: [reads.append(block), *read(block)][1:])
    isolation = load("dampsim_addon.scene_reader.isolation")
    with isolation.isolated_sampler(scene, layer, [obj]):
        driven = {one.name for one in bpy.data.objects if one.animation_data and one.animation_data.drivers}
        assert driven == {"Free", rig.name}
    # Once for the rigs, and once for the disabled object.
    assert reads.count(rig) == 2


@pytest.mark.parametrize("has_animation_data", [False, True])
def test_restores_animation_data(load: Load, has_animation_data: bool) -> None:
    """An object that moves only by a modifier gets no animation data, and keeps the data that it has."""
    scene = new_scene(3)
    obj, layer = sheet(), bpy.context.view_layer
    other = bystander()
    other.animation_data_clear()
    other.modifiers.new("Wave", "WAVE")
    other.location.x = 3.0
    if has_animation_data:
        other.animation_data_create()
    with load("dampsim_addon.scene_reader.isolation").isolated_sampler(scene, layer, [obj]):
        assert other.hide_viewport
    assert not other.hide_viewport
    assert (other.animation_data is not None) == has_animation_data


@pytest.mark.parametrize("is_override", [False, True])
def test_linked_bystander(load: Load, tmp_path: Path, evaluations: list[float], is_override: bool) -> None:
    """A linked character, and a library override of one, are skipped too."""
    new_scene(3)
    other = bystander()
    count_evaluations(other)
    path = str(tmp_path / "library.blend")
    bpy.data.libraries.write(path, {other})
    scene = new_scene(5)
    prepare_counting()
    obj, layer = sheet(), bpy.context.view_layer
    with bpy.data.libraries.load(path, link=True) as (_, linked):
        linked.objects = ["Bystander"]
    found = linked.objects[0]
    scene.collection.objects.link(found)
    if is_override:
        found = found.override_create(remap_local_usages=True)
    layer.update()
    evaluations.clear()
    with load("dampsim_addon.scene_reader.isolation").isolated_sampler(scene, layer, [obj]) as sampler:
        sampler.set_frame(2)
        sampler.set_frame(3)
        assert not evaluations
    layer.update()
    assert len(evaluations) == 1
    assert not found.hide_viewport
    assert [curve.data_path for curve in found.animation_data.drivers] == ["scale"]


def test_file_saved_during_bake_is_repaired(load: Load, tmp_path: Path) -> None:
    """The objects of a file that was saved while they were disabled are enabled when it is opened."""
    scene = new_scene(3)
    obj = ball("Flesh", 0.0, tmp_path)
    bystander()
    steps = load("dampsim_addon.jobs.bake").bake_object(scene, bpy.context.view_layer, obj, True)
    next(steps)
    assert bpy.data.objects["Bystander"].hide_viewport
    bpy.ops.wm.save_as_mainfile(filepath=str(tmp_path / "during.blend"), copy=True)
    steps.close()
    bpy.ops.wm.open_mainfile(filepath=str(tmp_path / "during.blend"))
    other = bpy.data.objects["Bystander"]
    assert not other.hide_viewport
    assert other.animation_data.drivers.find("hide_viewport") is None
    assert "dampsim_disabled" not in bpy.context.scene


def test_renamed_objects_are_enabled_when_opened(load: Load, tmp_path: Path) -> None:
    """An object that was renamed or duplicated while it was disabled is enabled, too, and the user's own is not."""
    scene = new_scene(3)
    obj, path = ball("Flesh", 0.0, tmp_path), str(tmp_path / "during.blend")
    bystander().modifiers.new("Wave", "WAVE")
    own = bpy.data.objects.new("Own", None)
    scene.collection.objects.link(own)
    own.driver_add("hide_viewport").driver.expression = "frame"
    steps = load("dampsim_addon.jobs.bake").bake_object(scene, bpy.context.view_layer, obj, True)
    next(steps)
    other = bpy.data.objects["Bystander"]
    assert other.hide_viewport
    copy = other.copy()
    scene.collection.objects.link(copy)
    other.name = "Häuptling"
    bpy.ops.wm.save_as_mainfile(filepath=path, copy=True)
    steps.close()
    bpy.ops.wm.open_mainfile(filepath=path)
    assert [one.name for one in bpy.data.objects if one.hide_viewport] == ["Own"]


def test_frame_handlers_of_scripts_prevent_isolation(load: Load, evaluations: list[float]) -> None:
    def handler(*_: object) -> None:
        pass

    new_scene(5)
    obj = sheet()
    bpy.app.handlers.frame_change_post.append(handler)
    try:
        check_same_samples(load, evaluations, obj, expect_isolated=False)
    finally:
        bpy.app.handlers.frame_change_post.remove(handler)
