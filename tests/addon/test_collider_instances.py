"""Instances of Geometry Nodes on colliders are reported, whatever the frame at which they appear."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

import bpy
import pytest
from scenes import new_scene, wobbler
from test_baking import bake
from test_colliders import collider

pytestmark = [pytest.mark.bpy, pytest.mark.versions]
Load = Callable[[str], ModuleType]
WORDS = "Box shows instances on frames 4 to 6 that the simulation passed through; use separate colliders in their place"


def add_instances(obj: bpy.types.Object, first: int, last: int) -> Any:
    """Show a cube at each vertex of an object from a first to a last frame. Returns the node that compares them."""
    tree = bpy.data.node_groups.new("Scatter", "GeometryNodeTree")
    for in_out in ("INPUT", "OUTPUT"):
        tree.interface.new_socket("Geometry", in_out=in_out, socket_type="NodeSocketGeometry")
    nodes = {
        kind: tree.nodes.new(kind)
        for kind in ("NodeGroupInput", "GeometryNodeMeshCube", "GeometryNodeInstanceOnPoints", "NodeGroupOutput",
                     "GeometryNodeJoinGeometry", "GeometryNodeInputSceneTime", "FunctionNodeCompare")
    }  # fmt: skip
    shown, scatter, joined = (
        nodes[kind] for kind in ("FunctionNodeCompare", "GeometryNodeInstanceOnPoints", "GeometryNodeJoinGeometry")
    )
    shown.operation = "EQUAL"
    shown.inputs["B"].default_value = 0.5 * (first + last)
    shown.inputs["Epsilon"].default_value = 0.5 * (last - first) + 0.01
    tree.links.new(nodes["GeometryNodeInputSceneTime"].outputs["Frame"], shown.inputs["A"])
    tree.links.new(shown.outputs[0], scatter.inputs["Selection"])
    tree.links.new(nodes["NodeGroupInput"].outputs[0], scatter.inputs["Points"])
    tree.links.new(nodes["GeometryNodeMeshCube"].outputs[0], scatter.inputs["Instance"])
    tree.links.new(scatter.outputs[0], joined.inputs[0])
    tree.links.new(nodes["NodeGroupInput"].outputs[0], joined.inputs[0])
    tree.links.new(joined.outputs[0], nodes["NodeGroupOutput"].inputs[0])
    obj.modifiers.new("Scatter", "NODES").node_group = tree
    return shown


def test_later_instances_are_reported(load: Load, tmp_path: Path) -> None:
    scene = new_scene(8)
    obj = wobbler(tmp_path)
    shown = add_instances(collider(), 4, 6)
    instances, find_issues = load("dampsim_addon.model.instances"), load("dampsim_addon.ui.bake.checks").find_issues
    assert "instances" not in find_issues(obj, scene)
    bake(obj, "SHAPE_KEYS")
    assert WORDS in obj.dampsim.baked_touched.splitlines()
    issue = find_issues(obj, scene)["instances"]
    assert issue.text == (
        "Box shows instances at frame 4 that the simulation passes through. Use separate colliders in their place"
    )
    # As a mesh, these instances would change the topology.
    assert [fix.button_label for fix in issue.fixes] == ["Ignore Instances"]
    # All frames are in the cache, and the session knows none of them.
    instances._ReadFrames.current().counts.clear()
    bake(obj, "POINT_CACHE")
    assert WORDS in obj.dampsim.baked_touched.splitlines()
    # Nodes without instances at these frames.
    shown.inputs["B"].default_value = 100.0
    bpy.context.view_layer.update()
    assert "instances" not in find_issues(obj, scene)
    bake(obj, "POINT_CACHE")
    assert "instances" not in obj.dampsim.baked_touched


def test_accepted_later_instances_are_silent(load: Load, tmp_path: Path) -> None:
    scene = new_scene(6)
    obj = wobbler(tmp_path)
    add_instances(collider(), 4, 6)
    bake(obj, "SHAPE_KEYS")
    assert bpy.ops.dampsim.mend(check="instances", way=0) == {"FINISHED"}
    assert "instances" not in load("dampsim_addon.ui.bake.checks").find_issues(obj, scene)
    bake(obj, "SHAPE_KEYS", restart=True)
    assert "instances" not in obj.dampsim.baked_touched


def test_live_notes_later_instances(load: Load, live: ModuleType, tmp_path: Path) -> None:
    """Playback reads the same frames as a bake, so that the panel knows their instances before it."""
    scene = new_scene(5)
    obj = wobbler(tmp_path)
    add_instances(collider(), 3, 4)
    for frame in range(1, 6):
        scene.frame_set(frame)
    assert live.find_session(obj) is not None
    text = load("dampsim_addon.ui.bake.checks").find_issues(obj, scene)["instances"].text
    assert text.startswith("Box shows instances at frame 3 that")


def test_live_keeps_notes_despite_handlers(load: Load, live: ModuleType, tmp_path: Path) -> None:
    """An update that Live causes is no edit of the collider, although a handler of a script has tagged its geometry."""
    scene = new_scene(5)
    obj, box = wobbler(tmp_path), collider()
    add_instances(box, 3, 4)

    def tag(shown: bpy.types.Scene, depsgraph: Any = None) -> None:
        box.data.update_tag()

    bpy.app.handlers.frame_change_post.append(tag)
    try:
        for frame in range(1, 6):
            scene.frame_set(frame)
    finally:
        bpy.app.handlers.frame_change_post.remove(tag)
    assert "frame 3" in load("dampsim_addon.ui.bake.checks").find_issues(obj, scene)["instances"].text


def switch_off(box: Any) -> None:
    box.modifiers["Scatter"].show_viewport = False


def realize(box: Any) -> None:
    """Add a modifier with nodes that another object has already, which is no edit of nodes."""
    box.modifiers.new("Realize", "NODES").node_group = bpy.data.node_groups["Realize"]


@pytest.mark.parametrize("edit", [switch_off, realize])
def test_instances_fixed_by_hand_are_forgotten(load: Load, tmp_path: Path, edit: Callable[[Any], None]) -> None:
    scene = new_scene(6)
    obj, box = wobbler(tmp_path), collider()
    add_instances(box, 4, 6)
    tree = bpy.data.node_groups.new("Realize", "GeometryNodeTree")
    for in_out in ("INPUT", "OUTPUT"):
        tree.interface.new_socket("Geometry", in_out=in_out, socket_type="NodeSocketGeometry")
    start, realized, end = map(tree.nodes.new, ("NodeGroupInput", "GeometryNodeRealizeInstances", "NodeGroupOutput"))
    tree.links.new(start.outputs[0], realized.inputs[0])
    tree.links.new(realized.outputs[0], end.inputs[0])
    bpy.ops.mesh.primitive_cube_add(location=(50.0, 0.0, 0.0))
    realize(bpy.context.object)
    bpy.context.view_layer.update()
    bake(obj, "SHAPE_KEYS")
    find_issues = load("dampsim_addon.ui.bake.checks").find_issues
    assert "instances" in find_issues(obj, scene)
    edit(box)
    if edit is realize:
        bpy.context.view_layer.update()
    assert "instances" not in find_issues(obj, scene)
