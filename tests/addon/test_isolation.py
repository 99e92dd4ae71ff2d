"""A bake evaluates only the objects that contribute to it, and leaves all others as they were."""

from __future__ import annotations

from collections.abc import Callable
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
    node_group,
    sheet,
)

pytestmark = [pytest.mark.bpy, pytest.mark.versions]
Load = Callable[[str], ModuleType]


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


def is_evaluated(obj: bpy.types.Object) -> bool:
    return obj.evaluated_get(bpy.context.view_layer.depsgraph) != obj


def samples(load: Load, obj: bpy.types.Object, isolated: bool) -> tuple[list[np.ndarray], bool]:
    """Return the sampled vertices in world space at some frames, and whether the bystander was evaluated."""
    scene, layer, found, evaluated = bpy.context.scene, bpy.context.view_layer, [], False
    isolation = load("dampsim_addon.scene_reader.isolation")
    with load("dampsim_addon.blender.sampler").GroupSampler(scene, layer, [obj]) as sampler:
        steps = isolation.isolate_group(sampler) if isolated else None
        if steps is not None:
            steps.__enter__()
        for frame in (*FRAMES, 2.5):
            sampler.set_frame(frame)
            found.append(sampler.members[0].world_positions())
            evaluated |= is_evaluated(bpy.data.objects["Bystander"])
        if steps is not None:
            steps.__exit__(None, None, None)
    return found, evaluated


def check_same_samples(load: Load, obj: bpy.types.Object, expect_isolated: bool = True) -> None:
    bystander()
    expected, _ = samples(load, obj, isolated=False)
    found, evaluated = samples(load, obj, isolated=True)
    assert evaluated != expect_isolated
    for one, other in zip(found, expected, strict=True):
        np.testing.assert_array_equal(one, other)
    assert is_evaluated(bpy.data.objects["Bystander"])
    assert not bpy.data.objects["Bystander"].hide_viewport


@pytest.mark.parametrize("modifier_type", MODIFIER_TYPES)
def test_modifiers_keep_their_objects(load: Load, modifier_type: str) -> None:
    new_scene(5)
    obj = sheet()
    add_moving_modifier(obj, modifier_type)
    check_same_samples(load, obj)


@pytest.mark.parametrize("constraint_type", CONSTRAINT_TYPES)
def test_constraints_keep_their_objects(load: Load, constraint_type: str) -> None:
    new_scene(5)
    obj, targets = sheet(), helpers()
    try:
        constraint: Any = obj.constraints.new(constraint_type)
    except (TypeError, RuntimeError):
        pytest.skip("this type is not for objects")
    animate(obj, constraint, [targets[2], *targets])
    check_same_samples(load, obj)


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
def test_other_links_keep_their_objects(load: Load, link: Callable[..., bool]) -> None:
    new_scene(5)
    obj = sheet()
    check_same_samples(load, obj, link(obj, helpers()[0]))


def test_restored_after_bake_and_error(load: Load, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    scene = new_scene(3)
    obj, other, layer = ball("Flesh", 0.0, tmp_path), bystander(), bpy.context.view_layer
    other.select_set(True)
    hidden = bystander("Hidden")
    hidden.hide_viewport = True
    jobs = load("dampsim_addon.jobs.bake")

    def check() -> None:
        assert (other.hide_viewport, hidden.hide_viewport, other.select_get()) == (False, True, True)
        assert set(scene.keys()) == keys
        assert is_evaluated(other)

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

    monkeypatch.setattr(jobs, "_prepare", fail)
    with pytest.raises(ZeroDivisionError):
        bake_frames(load, obj)
    assert error.raised
    check()


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
    assert not bpy.data.objects["Bystander"].hide_viewport
    assert "dampsim_disabled" not in bpy.context.scene


def test_frame_handlers_of_scripts_prevent_isolation(load: Load) -> None:
    def handler(*_: object) -> None:
        pass

    new_scene(5)
    obj = sheet()
    bpy.app.handlers.frame_change_post.append(handler)
    try:
        check_same_samples(load, obj, expect_isolated=False)
    finally:
        bpy.app.handlers.frame_change_post.remove(handler)
