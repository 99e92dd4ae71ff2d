"""Bake checks of colliders and collisions."""

from __future__ import annotations

from collections.abc import Sequence

import bpy
import numpy as np

from ....core import kind_by_name
from ...blender.animation import animated_paths
from ...blender.collider_reader import topology_changing_modifier
from ...blender.node_builder import NodeBuilder
from ...model.colliders import (
    ColliderIssue,
    active_colliders,
    add_collider,
    candidate_colliders,
    find_collider,
    has_collision,
    simulation_view_layer,
)
from ...model.groups import format_names, group_of
from ...model.instances import (
    forget_instances,
    has_changing_instances,
    instance_names,
    instances_text,
    shows_node_instances,
    unfelt_instancers,
)
from ...status.overlaps import Overlap, known_overlaps, largest_overlap, overlap_text
from ...status.pieces import accept, is_accepted
from ...work.operators import call_operator
from ..common.issue import Issue, issue_with_fixes, set_options, set_values
from ..objects.group_operators import simulate_together

# An object is flat along an axis if this column of its matrix is shorter than this fraction of the longest.
_FLAT_RATIO = 1e-9


def _colliders_lacking(obj: bpy.types.Object, scene: bpy.types.Scene, lack: ColliderIssue) -> list[bpy.types.Object]:
    if not obj.dampsim.collide:
        return []
    return [other for other, why in candidate_colliders(obj, simulation_view_layer(scene)) if why is lack]


def _remove_collider_fix(*colliders: bpy.types.Object) -> Issue | None:
    """Return the fix that removes colliders; None where Blender's own Collision makes them colliders."""
    if any(not other.dampsim_collider.is_collider or has_collision(other) for other in colliders):
        return None
    remove = set_values([other.dampsim_collider for other in colliders], is_collider=False)
    which = format_names(colliders)
    return Issue("", "Remove Collider", remove, f"Stop {which} from acting as a collider. The object itself is kept")


def starts_inside_collider(obj: bpy.types.Object, scene: bpy.types.Scene) -> Issue | None:
    """Report vertices inside a collider at the first frame, as far as they are known."""
    overlaps = known_overlaps(obj, scene)
    if not overlaps:
        return None
    overlap = largest_overlap(overlaps)
    move_fix = _move_out_fix(obj, overlap)
    other, text = find_collider(overlap.collider), overlap_text(overlap, scene)
    can_lower = overlap.is_plane and other is not None and other.library is None
    if not can_lower or animated_paths(other) or other.parent or len(other.constraints):
        return issue_with_fixes(text if move_fix else f"{text}. Move them apart at the first frame", move_fix)
    lower_fix = Issue(
        "", f"Lower {overlap.collider}", lambda o, s: _lower_plane(other, overlap.depth),
        "Move the plane down until the whole object starts above it",
    )  # fmt: skip
    return issue_with_fixes(text, lower_fix, move_fix)


def _move_out_fix(obj: bpy.types.Object, overlap: Overlap) -> Issue | None:
    """Return the fix that starts the object outside; None where it moves nothing, or has been applied."""
    can_help = overlap.object_vertices > overlap.pinned_vertices and not obj.dampsim.move_out
    if not can_help or not kind_by_name(obj.dampsim.kind).moves_out:
        return None
    tooltip = "Start with these vertices outside. Each patch moves in one direction; pinned vertices stay"
    return Issue("", "Move Out", set_options(move_out=True), tooltip)


def _lower_plane(plane: bpy.types.Object, depth: float) -> None:
    up = np.array(plane.matrix_world)[:3, 2]
    # A little farther, because the depth is rounded.
    plane.location = np.array(plane.location) - (1.0 + 1e-4) * depth * up / np.linalg.norm(up)


def collider_changes_topology(obj: bpy.types.Object, scene: bpy.types.Scene) -> Issue | None:
    """Report a collider whose topology changes during playback."""
    for other in active_colliders(obj, simulation_view_layer(scene)):
        modifier_name = "" if other.dampsim_collider.plane else topology_changing_modifier(other, certain_only=True)
        if modifier_name:
            remove_fix = _remove_collider_fix(other)
            hint = "Apply it, or remove the collider" if remove_fix else "Apply it, or disable it"
            text = f"{modifier_name} changes the topology of the collider {other.name} during playback. {hint}"
            return issue_with_fixes(text, remove_fix)
    return None


def hidden_collider(obj: bpy.types.Object, scene: bpy.types.Scene) -> Issue | None:
    """Report colliders that are disabled in viewports: Blender does not evaluate their motion."""
    others = _colliders_lacking(obj, scene, ColliderIssue.HIDDEN)
    if not others:
        return None
    text = (
        f"{format_names(others)} {'is' if len(others) == 1 else 'are'} disabled in viewports, so collisions are ignored"
    )
    can_enable = all(any(not one.hide_viewport for one in other.users_collection) for other in others)
    tooltip = "Enable it in viewports. To only hide it, use the eye icon in the outliner"
    enable_fix = Issue("", "Enable", set_values(others, hide_viewport=False), tooltip) if can_enable else None
    text = text if can_enable else f"{text}. Enable its collection"
    return issue_with_fixes(text, enable_fix, _remove_collider_fix(*others))


def unbaked_collider(obj: bpy.types.Object, scene: bpy.types.Scene) -> Issue | None:
    """Report colliders that another group simulates: their motion is known only after their bake."""
    others = _colliders_lacking(obj, scene, ColliderIssue.UNBAKED)
    if not others:
        return None
    verb = "is a collider, but it is" if len(others) == 1 else "are colliders, but they are"
    text = f"{format_names(others)} {verb} simulated separately and not baked. Bake first"
    return Issue(
        f"{text}, or",
        "Simulate Together",
        lambda o, s: simulate_together([o, *others], collide=True),
        "Simulate these objects together, so that they collide with each other",
    )


def flat_collider(obj: bpy.types.Object, scene: bpy.types.Scene) -> Issue | None:
    """Report colliders with zero scale along an axis: they have no inside."""
    for other in active_colliders(obj, simulation_view_layer(scene)):
        columns = np.linalg.norm(np.array(other.matrix_world, dtype=float)[:3, :3], axis=0)
        if other.dampsim_collider.plane:
            columns = columns[:2]
        if not columns.min() > _FLAT_RATIO * max(columns.max(), 1e-30):
            return Issue(f"The collider {other.name} has zero scale along an axis. Set a positive scale")
    return None


def unfelt_instances(obj: bpy.types.Object, scene: bpy.types.Scene) -> Issue | None:
    """Report instances on colliders and of collections with colliders: a collider is read without its instances."""
    layer = simulation_view_layer(scene)
    others = unfelt_instancers(obj, layer)
    names = instance_names(others)
    if not others or is_accepted(obj, "instances", names):
        return None
    ignore = Issue("", "Ignore Instances", lambda o, s: accept(o, "instances", names),
                   "Pass through these instances, and do not report them again")  # fmt: skip
    text = instances_text(others, layer)
    if any(map(has_changing_instances, others)):
        return issue_with_fixes(f"{text}. Use separate colliders in their place", ignore)
    editable = [other for other in others if other.library is None]
    from_nodes = [other for other in editable if shows_node_instances(other, layer)]
    if from_nodes:
        tip = f"Add a modifier to {format_names(from_nodes)} that turns the instances into a mesh"
        return issue_with_fixes(text, Issue("", "Realize Instances", lambda o, s: _realize(from_nodes), tip), ignore)
    instancers = [other for other in editable if other.instance_type != "NONE"]
    if instancers:
        tip = "Turn the instances into objects, and make those that are meshes colliders"
        fix = Issue("", "Make Instances Real", lambda o, s: _make_real(o, instancers), tip)
        return issue_with_fixes(text, fix, ignore)
    return issue_with_fixes(f"{text}. Use Make Instances Real, and make the new objects colliders", ignore)


def _realize(others: Sequence[bpy.types.Object]) -> None:
    """Add a modifier to objects that turns the instances of their Geometry Nodes into a mesh."""
    tree = bpy.data.node_groups.new("Realize Instances", "GeometryNodeTree")
    tree.is_modifier = True
    nodes = NodeBuilder(tree)
    nodes.link(nodes.field("GeometryNodeRealizeInstances", (nodes.start.outputs[0],)), nodes.end.inputs[0])
    for other in others:
        # Several simulated objects may report the same collider.
        if not other.modifiers[-1].name.startswith("Realize Instances"):
            other.modifiers.new(tree.name, "NODES").node_group = tree
        forget_instances(other)


def _make_real(obj: bpy.types.Object, others: Sequence[bpy.types.Object]) -> None:
    """Turn the instances of objects into objects, and those that are meshes into colliders of a simulated object."""
    known = set(bpy.data.objects)
    for other in [one for one in others if one.instance_type != "NONE"]:
        with bpy.context.temp_override(
            active_object=other, object=other, selected_objects=[other], selected_editable_objects=[other]
        ):
            failure = f"{other.name}: its instances cannot be made real"
            call_operator(bpy.ops.object.duplicates_make_real, failure, "make them real by hand")
    limit = obj.dampsim.collider_collection
    for new in [one for one in bpy.data.objects if one not in known and one.type == "MESH"]:
        new.dampsim_collider.is_collider = True
        add_collider(new)
        if limit is not None and limit.all_objects.get(new.name) != new:
            limit.objects.link(new)


def no_collision_partner(obj: bpy.types.Object, scene: bpy.types.Scene) -> Issue | None:
    """Report Other Bodies without another body of the group that also has it on."""
    if not obj.dampsim.touch_together:
        return None
    others = [other for other in group_of(obj).members if other != obj]
    if any(other.dampsim.touch_together for other in others):
        return None
    disable_fix = Issue("", "Disable", set_options(touch_together=False), "Disable Other Bodies")
    if not others:
        return issue_with_fixes(
            "Other Bodies is on, but nothing is simulated with it. Select others and press Simulate Together, or",
            disable_fix,
        )
    enable = set_values([other.dampsim for other in others], touch_together=True)
    tooltip = "Enable Other Bodies for all objects that are simulated together"
    text = "Other Bodies is on for this object, but off for all objects simulated with it"
    return issue_with_fixes(text, Issue("", "Enable for All", enable, tooltip), disable_fix)


def colliders_disabled(obj: bpy.types.Object, scene: bpy.types.Scene) -> Issue | None:
    """Report colliders that are ignored because Colliders is off."""
    if obj.dampsim.collide:
        return None
    others = [other for other, why in candidate_colliders(obj, simulation_view_layer(scene)) if why is None]
    if not others:
        return None
    return Issue(
        f"It passes through {format_names(others)}: Colliders is off",
        "Enable Colliders",
        set_options(collide=True),
        "Collide with the colliders of the scene, or of the Collider Collection",
    )
