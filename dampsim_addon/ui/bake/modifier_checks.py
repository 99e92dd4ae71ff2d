"""Bake checks of modifiers that generate geometry or move it unfelt. Their fixes keep the look of the mesh."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import bpy
import numpy as np

from ....core import SceneError
from ....core.base.wording import format_count
from ...blender.animation import animated_paths, is_modifier_animated
from ...blender.bone_envelopes import can_convert_envelopes, convert_envelopes
from ...blender.dampsim_names import is_output_modifier
from ...blender.modifier_application import apply_modifiers, is_different_in_render, modifiers_safe_to_apply
from ...blender.modifiers import (
    can_change_topology,
    deform_stack,
    find_switched_modifiers,
    is_deforming,
    simulated_topology_modifiers,
    topology_modifiers,
    trailing_solidify,
    unfelt_modifiers,
    weight_removing_modifiers,
)
from ...blender.movers import ModifierEffect, modifier_type_effect
from ...blender.sampler import mode_name
from ...model.colliders import simulation_view_layer
from ...status.late_refusals import remembered_refusal
from ...status.pieces import known_parts, refresh_parts
from ...targets import CompressedKeys, PointCache
from ..common.issue import Issue, fix_button, set_options, target_issue

# Settings of modifiers for renders.
_RENDER_SETTINGS = ("show_render", "render_levels")


def keys_cannot_bake_generated(obj: bpy.types.Object, scene: bpy.types.Scene) -> Issue | None:
    """Report shape keys that cannot move generated vertices, because they come before the modifiers."""
    generators = simulated_topology_modifiers(obj)
    if not generators or obj.dampsim.bakes_to_file:
        return None
    mirrors = [modifier.name for modifier in generators if modifier.type == "MIRROR"]
    problem = f"Shape keys cannot move the vertices that {mirrors[0]} generates"
    to_apply = modifiers_safe_to_apply(obj, "MIRROR")
    if not to_apply:
        return target_issue(PointCache, f"{problem}. Bake to a file instead")
    apply_issue = _apply_issue(f"{problem}. Bake to a file, or", to_apply)
    return replace(apply_issue, alternative=target_issue(PointCache))


def folds_moved_mesh(obj: bpy.types.Object, scene: bpy.types.Scene) -> Issue | None:
    """Report a modifier that shape keys and bones cannot follow where the simulation moves the mesh far."""
    folding = [m for m in deform_stack(obj) if m.type == "CAST" and _has_factor(m)]
    # A refused bake says so itself.
    if not folding or obj.dampsim.bakes_to_file or remembered_refusal(obj, scene) is not None:
        return None
    return target_issue(
        PointCache,
        f"{folding[0].name} folds the mesh where the simulation moves it far, which shape keys and bones cannot "
        "follow. Bake to a file instead",
    )


def stretches_by_extent(obj: bpy.types.Object, scene: bpy.types.Scene) -> Issue | None:
    """Report a modifier that enlarges the error of bones: it stretches the mesh by its extent, which they change."""
    bending = [m for m in deform_stack(obj) if m.type == "SIMPLE_DEFORM" and _has_factor(m)]
    stretching = [m for m in bending if m.deform_method == "STRETCH"]
    if not stretching or not obj.dampsim.bakes_to_bones:
        return None
    return target_issue(
        CompressedKeys,
        f"{stretching[0].name} depends on the extent of the mesh, which enlarges the error of bones. Bake to shape "
        "keys instead",
    )


def _has_factor(modifier: Any) -> bool:
    """Return whether the factor of a modifier, without which it does nothing, is or becomes other than 0."""
    return modifier.factor != 0.0 or is_modifier_animated(modifier, "factor")


def live_cannot_show(obj: bpy.types.Object, scene: bpy.types.Scene) -> Issue | None:
    """Report a generating modifier above the last deforming one, after which Live displays its frames."""
    generators = topology_modifiers(obj)
    if not generators or simulated_topology_modifiers(obj) or obj.dampsim.baked or not obj.dampsim.live:
        return None
    text = f"Live cannot show shape keys: {generators[0].name} is above {deform_stack(obj)[-1].name}"
    if any(modifier in generators for modifier in weight_removing_modifiers(obj)):
        # A bake to a file simulates the vertices after these modifiers, which lose the pins.
        return Issue(text, "Switch Off Live", set_options(live=False), "Simulate this object only when it is baked")
    return target_issue(PointCache, f"{text}. Bake to a file instead")


def render_differs(obj: bpy.types.Object, scene: bpy.types.Scene) -> Issue | None:
    """Report modifiers that differ in renders: baked frames have the topology and the motion of the viewport."""
    differing = _modifiers_differing_in_render(obj)
    if not differing:
        return _simplify_differs(_simulated_stack(obj), scene)
    modifier = differing[0]
    difference = f"{modifier.name} is enabled only in {'viewports' if modifier.show_viewport else 'renders'}"
    if modifier.show_viewport == modifier.show_render:
        levels = format_count(modifier.levels, "level")
        difference = f"{modifier.name} has {levels} in viewports and {modifier.render_levels} in renders"
    text = f"{difference}. Renders would not show the simulation"
    animated = set(animated_paths(obj))
    if any(f"{one.path_from_id()}.{name}" in animated for one in differing for name in _RENDER_SETTINGS):
        return Issue(f"{text}. Remove the animation of these settings")
    tooltip = f"Set the render settings of {modifier.name} to those of the viewport. The simulation does not change"
    return Issue(text, "Match Viewport", _match_render_to_viewport, tooltip)


def _simulated_stack(obj: bpy.types.Object) -> list[bpy.types.Modifier]:
    """Return the modifiers up to the last one whose vertices are simulated; none if the mesh's own vertices are."""
    if not simulated_topology_modifiers(obj):
        return []
    stack = list(obj.modifiers)
    return stack[: stack.index(deform_stack(obj)[-1]) + 1]


def _modifiers_differing_in_render(obj: bpy.types.Object) -> list[bpy.types.Modifier]:
    moving = [m for m in obj.modifiers if is_deforming(m) and not is_output_modifier(m)]
    generating = [m for m in _simulated_stack(obj) if can_change_topology(m)]
    return [m for m in moving if m.show_viewport != m.show_render] + list(filter(is_different_in_render, generating))


def _simplify_differs(stack: Sequence[bpy.types.Modifier], scene: bpy.types.Scene) -> Issue | None:
    """Report Simplify settings that give a modifier different levels in viewports and renders."""
    viewport_levels, render_levels = scene.render.simplify_subdivision, scene.render.simplify_subdivision_render
    limited = [
        m
        for m in stack
        if m.type in ("SUBSURF", "MULTIRES") and m.show_viewport and m.levels > min(viewport_levels, render_levels)
    ]
    if not scene.render.use_simplify or viewport_levels == render_levels or not limited:
        return None
    return Issue(
        f"Simplify gives {limited[0].name} different levels in viewports and renders, so renders would not show the "
        "simulation. Set both values of Max Subdivision to the same number"
    )


def _match_render_to_viewport(obj: bpy.types.Object, scene: bpy.types.Scene) -> None:
    for modifier in _modifiers_differing_in_render(obj):
        modifier.show_render = modifier.show_viewport
        if modifier.type in ("SUBSURF", "MULTIRES"):
            modifier.render_levels = modifier.levels


def thickness_after_simulation(obj: bpy.types.Object, scene: bpy.types.Scene) -> Issue | None:
    """Report an open mesh that is simulated as a solid, but gets its thickness only after the simulation."""
    solidify_modifier = trailing_solidify(obj)
    if obj.dampsim.kind != "SOLID" or solidify_modifier is None or not has_open_edges(obj.data):
        return None
    problem = f"The surface is open, and {solidify_modifier.name} adds thickness only after the simulation"
    to_apply = modifiers_safe_to_apply(obj, "SOLIDIFY")
    if not to_apply:
        return Issue(f"{problem}. Apply {solidify_modifier.name}, or choose Springs")
    return _apply_issue(f"{problem}. Choose Springs, or", to_apply)


def has_open_edges(mesh: bpy.types.Mesh) -> bool:
    """Return whether an edge of the mesh has only one face."""
    edge_indices = np.empty(len(mesh.loops), dtype=np.int32)
    mesh.loops.foreach_get("edge_index", edge_indices)
    return bool((np.bincount(edge_indices, minlength=1) == 1).any())


def _apply_issue(problem: str, to_apply: Sequence[bpy.types.Modifier]) -> Issue:
    names, kind = " and ".join(modifier.name for modifier in to_apply), to_apply[-1].type
    geometry = "the other half" if kind == "MIRROR" else "its geometry"
    return Issue(
        f"{problem} apply {names}: {geometry} becomes real vertices. The look does not change",
        f"Apply {names}",
        lambda o, s: apply_modifiers(o, bpy.context.view_layer, modifiers_safe_to_apply(o, kind)),
        f"Convert {geometry} to real vertices, with shape keys and weights. The look does not change",
    )


def position_dependent_weights(obj: bpy.types.Object, scene: bpy.types.Scene) -> Issue | None:
    """Report bone envelopes: shape keys before them change the weights of the vertices that they move."""
    parts = known_parts(obj)
    if parts is None or not parts.enveloped.any() or obj.dampsim.bakes_to_file or obj.dampsim.bakes_to_bones:
        return None
    count = int(parts.enveloped.sum())
    text = (
        f"Bone envelopes move {format_count(count, 'vertex')}. Their weights change with the shape, so shape keys may "
        "not reach it"
    )
    return replace(envelope_fix(obj, target_issue(PointCache)), text=text, vertices=parts.enveloped)


def envelope_fix(obj: bpy.types.Object, alternative: Issue) -> Issue:
    """Return the fix that turns bone envelopes into weights, if that keeps the look; else the alternative alone."""
    if not can_convert_envelopes(obj):
        return alternative
    tooltip = (
        "Write the weights of the envelopes to vertex groups, and switch the envelopes off. The look does not change"
    )
    return fix_button("Convert Envelopes to Weights", _convert_envelopes, tooltip, alternative)


def _convert_envelopes(obj: bpy.types.Object, scene: bpy.types.Scene) -> None:
    if obj.mode != "OBJECT":
        mode = mode_name(obj)
        raise SceneError(f"{obj.name}: leave {mode} Mode before changing bone weights.")
    if not convert_envelopes(obj, scene, simulation_view_layer(scene)):
        raise SceneError(f"{obj.name}: vertex groups cannot replace its bone envelopes; bake to PC2 Cache.")
    refresh_parts(obj, is_forced=True)


def unfelt_motion(obj: bpy.types.Object, scene: bpy.types.Scene) -> Issue | None:
    """Report modifiers that move or replace vertices over time, but are not sampled."""
    # Another check reports those that animation switches.
    switched = find_switched_modifiers(obj)
    found = [modifier for modifier in unfelt_modifiers(obj) if modifier not in switched]
    if not found:
        return None
    names = ", ".join(m.name for m in found)
    accept = Issue("", "Play It After" if len(found) == 1 else "Play Them After", _accept_unfelt,
                   f"Apply {names} to the simulated mesh at each frame, and hide this message")  # fmt: skip
    if any(modifier_type_effect(m.type) is ModifierEffect.SIMULATES for m in found):
        text = f"{names} would move the mesh after the simulation, which does not feel it. Use one simulation per mesh"
        return Issue(text, f"Disable {names}", _disable_unfelt, f"Switch off {names} in viewports and renders", accept)
    text = f"{names} changes" if len(found) == 1 else f"{names} change"
    text = f"{text} the mesh over time, which the simulation does not feel"
    if not obj.dampsim.bakes_to_file and found[0] in deform_stack(obj):
        return replace(target_issue(PointCache, f"{text}. Bake to a file to include it"), alternative=accept)
    return replace(accept, text=text)


def _accept_unfelt(obj: bpy.types.Object, scene: bpy.types.Scene) -> None:
    names = [*obj.dampsim.accepted_modifiers.split("\n"), *(m.name for m in unfelt_modifiers(obj))]
    obj.dampsim.accepted_modifiers = "\n".join(name for name in dict.fromkeys(names) if name in obj.modifiers)


def _disable_unfelt(obj: bpy.types.Object, scene: bpy.types.Scene) -> None:
    for modifier in unfelt_modifiers(obj):
        modifier.show_viewport = modifier.show_render = False
