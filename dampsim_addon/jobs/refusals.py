"""Reasons for which a bake is refused before it starts. A new one is one entry of REFUSALS.

They are known without another frame and without a model, so that the panel reports them above the Bake button.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

import bpy

from ...core import SceneError, kind_by_name
from ...core.bodies.fibres import check_direction_group
from ...core.scene.muscles import check_controller
from ...core.simulation.method_selection import check_same_method
from ..blender.animated_values import LARGEST_FALSE, animated_values, first_disabled_frame, is_driven
from ..blender.animation import VISIBILITY_PATH, animated_paths, drivers_of, user_fcurves
from ..blender.dampsim_names import is_output_modifier
from ..blender.modifiers import (
    can_change_topology,
    is_deforming,
    modifier_bound_to_generated,
    simulated_topology_modifiers,
    weight_removing_modifiers,
)
from ..blender.movers import has_deforming_parent
from ..blender.vertex_groups import check_evaluated_weights
from ..model.caches import target_folder
from ..model.colliders import active_colliders, check_roughness_group
from ..model.force_fields import fields_acting_on
from ..model.groups import group_of, joined_objects
from ..model.links import check_links
from ..model.properties import read_settings
from ..scene_reader.contributors import is_evaluated_for_others, is_in_viewports, stepped_rig
from ..scene_reader.mesh_parts import checked_body
from ..scene_reader.muscles import build_controller, sensor_targets
from ..scene_reader.scene_builder import check_object, used_groups
from ..targets import PointCache, get_target
from ..targets.cache_file import check_library_modifier
from ..targets.keys import check_shared_mesh
from ..targets.target import OtherTargetError
from .curve_bake import check_following_curve

Refusal = Callable[[bpy.types.Object, bpy.types.Scene, bpy.types.ViewLayer], None]


def check_time_stretching(obj: bpy.types.Object, scene: bpy.types.Scene, layer: bpy.types.ViewLayer) -> None:
    """Raise SceneError if the frames of the shot are not those of the animation."""
    if scene.render.frame_map_old != scene.render.frame_map_new:
        raise SceneError(
            f"{obj.name}: Time Stretching is on; set Old and New under Time Stretching to the same number."
        )


def check_cache_folder(obj: bpy.types.Object, scene: bpy.types.Scene, layer: bpy.types.ViewLayer) -> None:
    """Raise SceneError if the cache folder is relative and the file is unsaved."""
    if obj.dampsim.cache_folder.startswith("//") and not bpy.data.filepath:
        raise SceneError(
            f"{obj.name}: its cache folder is relative to the .blend file, which is unsaved; save it first."
        )


def check_target(obj: bpy.types.Object, scene: bpy.types.Scene, layer: bpy.types.ViewLayer) -> None:
    """Raise DampSimError if the object cannot be baked to its target."""
    target = get_target(obj.dampsim.target)
    check_library_modifier(obj, target.modifier_type)
    check_shared_mesh(obj)
    target.check(obj)
    target.check_folder(obj, target_folder(obj))
    check_keys_are_played(obj)


def check_keys_are_played(obj: bpy.types.Object) -> None:
    """Raise OtherTargetError if a modifier makes shape keys before the modifiers useless."""
    replacing = _replacing_modifier(obj)
    if replacing is not None and not obj.dampsim.bakes_to_file:
        raise OtherTargetError(
            f"{obj.name}: shape keys have no effect before {replacing.name}, which replaces the vertices; bake to PC2 "
            "Cache.",
            PointCache.name,
        )
    bound = modifier_bound_to_generated(obj)
    if bound is not None:
        raise OtherTargetError(
            f"{obj.name}: modifier {bound.name} is bound to vertices that an earlier modifier adds, so shape keys "
            "cannot feel it; bake to PC2 Cache.",
            PointCache.name,
        )


def _replacing_modifier(obj: bpy.types.Object) -> bpy.types.Modifier | None:
    """Return the last modifier that discards the positions of the vertices before it, or None."""
    found = None
    for modifier in obj.modifiers:
        if not modifier.show_viewport or is_output_modifier(modifier):
            continue
        is_file = modifier.type == "MESH_CACHE" and modifier.deform_mode == "OVERWRITE" and modifier.factor == 1.0
        # Without a file, the modifier does nothing.
        is_file = is_file and Path(bpy.path.abspath(modifier.filepath or "//")).is_file()
        is_sequence = modifier.type == "MESH_SEQUENCE_CACHE" and "VERT" in modifier.read_data
        is_sequence = is_sequence and modifier.cache_file is not None
        is_bound = modifier.type == "SURFACE_DEFORM" and modifier.is_bound and modifier.strength == 1.0
        if (is_file or is_sequence or is_bound) and not getattr(modifier, "vertex_group", ""):
            found = modifier
    return found


def check_parent(obj: bpy.types.Object, scene: bpy.types.Scene, layer: bpy.types.ViewLayer) -> None:
    """Raise SceneError if the parent type deforms the mesh together with the shape keys or bones of a bake."""
    if has_deforming_parent(obj) and not obj.dampsim.bakes_to_file:
        label = obj.parent.type.title()
        raise SceneError(
            f"{obj.name}: {obj.parent.name} deforms the mesh by its parent type {label}, which only bakes to files "
            f"reproduce; convert it to the modifier {label} or bake to PC2 Cache."
        )


def check_mesh(obj: bpy.types.Object, scene: bpy.types.Scene, layer: bpy.types.ViewLayer) -> None:
    """Raise DampSimError if the mesh cannot be simulated as it is.

    The evaluated mesh is simulated instead if modifiers generate vertices; it is checked when the scene is read.
    """
    if not simulated_topology_modifiers(obj) and len(obj.data.vertices):
        checked_body(obj)


def check_own_links(obj: bpy.types.Object, scene: bpy.types.Scene, layer: bpy.types.ViewLayer) -> None:
    """Raise SceneError where a link of the object has no valid target, or a simulated one outside its group."""
    if len(obj.dampsim.links):
        check_links(group_of(obj).members, [obj])


def check_muscles(obj: bpy.types.Object, scene: bpy.types.Scene, layer: bpy.types.ViewLayer) -> None:
    """Raise SceneError if the muscle controller is not valid."""
    if simulated_topology_modifiers(obj):
        return
    controller = build_controller(obj, obj, scene, layer)
    if controller is not None:
        check_controller(str(obj.name), controller)


def motion_inputs(obj: bpy.types.Object, layer: bpy.types.ViewLayer) -> list[bpy.types.Object]:
    """Return the objects that a bake of an object reads at each frame: itself, colliders, ends of links and targets."""
    links = [link.other for link in obj.dampsim.links if link.other is not None]
    return list(dict.fromkeys([obj, *active_colliders(obj, layer), *links, *sensor_targets(obj)]))


def can_switch_between_frames(obj: bpy.types.Object) -> bool:
    """Return whether animation may disable an object, scale it to zero or change its vertices between two frames.

    Keyframes at whole frames do so at these frames, which a bake reads before it simulates.
    """
    changing = [f"{m.path_from_id()}." for m in obj.modifiers if can_change_topology(m)]
    paths = (VISIBILITY_PATH, "scale", "delta_scale", *changing)
    drivers = any(curve.data_path.startswith(paths) for curve in drivers_of(obj))
    curves = [curve for curve in user_fcurves(obj) if curve.data_path.startswith(paths)]
    has_fraction = any(not key.co.x.is_integer() for curve in curves for key in curve.keyframe_points)
    return drivers or has_fraction or (obj.parent is not None and can_switch_between_frames(obj.parent))


def check_visibility(obj: bpy.types.Object, scene: bpy.types.Scene, layer: bpy.types.ViewLayer) -> None:
    """Raise SceneError if a bake reads the motion of a disabled object, which Blender does not evaluate."""
    for one in motion_inputs(obj, layer):
        is_enabled = is_in_viewports(one, layer)
        # A disabled object can be a collider only if its visibility is animated.
        is_read = is_enabled or one != obj
        frame = first_disabled_frame(one, scene.frame_start, scene.frame_end) if is_read else None
        # Other checks report the object itself and its colliders.
        is_reported = one == obj or one in active_colliders(obj, layer)
        if (frame is None and (is_enabled or is_reported)) or (not is_reported and is_evaluated_for_others(one, layer)):
            continue
        animation = "driver" if is_driven(one, VISIBILITY_PATH) else "keyframes"
        when, fix = (
            (f" at frame {frame}", f"Remove the {animation} of its Disable in Viewports")
            if frame is not None
            else ("", "Show it in the outliner")
        )
        raise SceneError(f"{one.name}: it is disabled in viewports{when}, so its motion is unknown. {fix}.")


def check_switches(obj: bpy.types.Object, scene: bpy.types.Scene, layer: bpy.types.ViewLayer) -> None:
    """Raise SceneError if animation switches a modifier that moves vertices, which a bake cannot play.

    The bake switches modifiers itself, and its place among them depends on which are shown.
    """
    frames, animated = range(scene.frame_start, scene.frame_end + 1), set(animated_paths(obj))
    for modifier in obj.modifiers:
        path = f"{modifier.path_from_id()}.show_viewport"
        if path not in animated or is_output_modifier(modifier) or not is_deforming(modifier):
            continue
        values = animated_values(obj, path, frames)
        shown = None if values is None else values > LARGEST_FALSE
        if shown is not None and shown.any() and not shown.all():
            raise SceneError(
                f"{obj.name}: animation switches modifier {modifier.name} in viewports, which a bake cannot play. "
                "Animate its strength instead, or remove that animation."
            )


def check_solvers(obj: bpy.types.Object, scene: bpy.types.Scene, layer: bpy.types.ViewLayer) -> None:
    """Raise SceneError if the motion depends on the order in which frames are evaluated.

    A bake evaluates frames in another order than playback, and so does each re-bake.
    """
    refuse_stepped_rig(stepped_rig(posing_inputs(obj, layer)))


def posing_inputs(obj: bpy.types.Object, layer: bpy.types.ViewLayer) -> list[bpy.types.Object]:
    """Return the objects whose rigs a bake of an object poses at each frame: motion_inputs() and force fields."""
    return [*motion_inputs(obj, layer), *fields_acting_on(obj, layer)]


def refuse_stepped_rig(rig: bpy.types.Object | None) -> None:
    """Raise SceneError if there is a rig whose pose depends on the frames before."""
    if rig is not None:
        raise SceneError(
            f"{rig.name}: its iTaSC solver is in Simulation mode, so that its pose depends on the frames before. "
            "Bake its pose to keyframes, or choose Animation mode."
        )


def check_fibres(obj: bpy.types.Object, scene: bpy.types.Scene, layer: bpy.types.ViewLayer) -> None:
    """Raise MeshError if the fibres follow a painted direction that is not chosen."""
    settings = read_settings(obj)
    if "fibres" in kind_by_name(obj.dampsim.kind).sections(settings) and obj.dampsim.fibre_group:
        check_direction_group(str(obj.name), settings, bool(obj.dampsim.direction_group))


def check_collider_modes(obj: bpy.types.Object, scene: bpy.types.Scene, layer: bpy.types.ViewLayer) -> None:
    """Raise SceneError if a collider is in Edit Mode."""
    for other in active_colliders(obj, layer):
        if other.data.is_editmode:
            raise SceneError(f"{other.name}: this collider is in Edit Mode. Leave Edit Mode before simulating.")


def check_collider_groups(obj: bpy.types.Object, scene: bpy.types.Scene, layer: bpy.types.ViewLayer) -> None:
    """Raise SceneError if the vertex group of a collider's painted roughness is missing, or a modifier removes it."""
    for other in active_colliders(obj, layer):
        check_roughness_group(other, layer)


def check_weights(obj: bpy.types.Object, scene: bpy.types.Scene, layer: bpy.types.ViewLayer) -> None:
    """Raise SceneError if simulated modifiers remove the weights of a vertex group that the simulation needs.

    The check reads the mesh after all visible modifiers. If later modifiers may remove weights too, only the bake can
    tell.
    """
    simulated = simulated_topology_modifiers(obj)
    if simulated and set(weight_removing_modifiers(obj)) <= set(simulated):
        for name in used_groups(obj).values():
            if name in obj.vertex_groups:
                check_evaluated_weights(obj, layer, name)


def check_integrators(obj: bpy.types.Object, scene: bpy.types.Scene, layer: bpy.types.ViewLayer) -> None:
    """Raise SceneError if objects that it is linked to or touches use other stepping methods."""
    joined = joined_objects(obj)
    if len(joined) > 1:
        check_same_method(
            [str(one.name) for one in joined],
            [one.dampsim.kind for one in joined],
            [read_settings(one) for one in joined],
        )


REFUSALS: dict[str, Refusal] = {
    "object": lambda obj, scene, layer: check_object(obj, layer),
    "stretching": check_time_stretching,
    "unsaved": check_cache_folder,
    "target": check_target,
    "parent": check_parent,
    "curve": lambda obj, scene, layer: check_following_curve(obj),
    "links": check_own_links,
    "integrators": check_integrators,
    "mesh": check_mesh,
    "fibres": check_fibres,
    "muscles": check_muscles,
    "visibility": check_visibility,
    "switching": check_switches,
    "solver": check_solvers,
    "editing": check_collider_modes,
    "roughness": check_collider_groups,
    "weights": check_weights,
}
"""Functions that raise DampSimError if a bake of the object would be refused, by the name of their check."""


def check_refusals(
    objects: Sequence[bpy.types.Object], scene: bpy.types.Scene, view_layer: bpy.types.ViewLayer
) -> None:
    """Raise DampSimError if an object cannot be baked. All objects pass a check before the next one is done."""
    for refusal in REFUSALS.values():
        for obj in objects:
            refusal(obj, scene, view_layer)
