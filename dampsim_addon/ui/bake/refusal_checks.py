"""Bake checks that report, before the wait, problems because of which a bake is refused, with the same words."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace

import bpy

from ....core import PARAMETERS, DampSimError, FibreDirection, PinError, kind_by_name
from ....core.base.errors import FibreDirectionError, ResolutionError, WrongKindError
from ....core.bodies.cloth import OpenSheetError
from ....core.geometry.mesh.seams import SeamError
from ...blender.animated_values import first_disabled_frame, is_driven
from ...blender.animation import VISIBILITY_PATH, add_other_curves, animated_paths, remove_animation
from ...blender.bone_bakes import record_mark, rig_of
from ...blender.bone_envelopes import can_convert_envelopes, convert_deforming_parent
from ...blender.modifiers import simulated_topology_modifiers
from ...blender.movers import has_object, is_local
from ...blender.vertex_groups import edge_values
from ...jobs.refusals import (
    REFUSALS,
    Refusal,
    check_keys_are_played,
    motion_inputs,
    posing_inputs,
    refuse_stepped_rig,
)
from ...model.colliders import active_colliders, simulation_view_layer
from ...model.links import has_bone, is_target_deleted, linked_outside_group
from ...model.objects import remove_item
from ...scene_reader.contributors import is_in_viewports, known_stepped_rig
from ...scene_reader.muscles import damper_attribute, damper_attributes
from ...scene_reader.parts import find_wrong_part, remove_part
from ...scene_reader.scene_builder import (
    has_animated_pressure,
    missing_groups,
    reaches_too_far,
    seam_groups,
    used_groups,
)
from ...status.late_refusals import forget_refusal, remembered_refusal
from ...status.model_errors import known_model_error
from ...status.pieces import known_refusal
from ...targets import PointCache, get_target
from ...targets.bake_tracks import push_down_action
from ...targets.bones import Bones
from ...targets.existing_bones import ExistingBones
from ...targets.keys import has_shared_mesh
from ...targets.pre_modifier_shapes import can_edit_before_modifiers
from ...targets.shape_key_targets import CompressedKeys
from ...targets.target import ClashingKeysError, LibraryBakeError, OtherTargetError, UnplayableMotionError
from ...work.operators import call_operator
from ..common.issue import Check, Fix, Issue, closest_fix, fix_button, set_options, set_values, target_issue
from ..objects.group_operators import simulate_together
from . import modifier_checks


def _object_fix(obj: bpy.types.Object, error: DampSimError) -> Issue | None:
    if obj.library is not None:
        tooltip = "Make the object and its mesh local, which changes of the library no longer update"
        return fix_button("Make Local", _make_object_and_mesh_local, tooltip)
    missing = list(missing_groups(obj))
    if isinstance(error, PinError) and missing:
        role = missing[0]
        none = fix_button("Choose None", set_options(**{role: ""}), f"Use no {role.replace('_', ' ')}")
        return closest_fix(obj.dampsim, role, obj.vertex_groups.keys(), none)
    attribute = damper_attribute(obj)
    if attribute and edge_values(obj.data, attribute) is None:
        none = fix_button("Choose None", set_options(damper_attribute=""), "Use no dampers")
        return closest_fix(obj.dampsim, "damper_attribute", damper_attributes(obj), none)
    wrong_part = find_wrong_part(obj)
    if isinstance(error, PinError) and wrong_part is not None:
        return fix_button(
            "Remove Part", lambda o, s: remove_part(o, wrong_part[0]),
            "Remove this part, and keep its vertex group",
        )  # fmt: skip
    if obj.mode != "OBJECT":
        return fix_button(
            "Leave Edit Mode" if obj.mode == "EDIT" else "Object Mode", _enter_object_mode, "Enter Object Mode"
        )
    layer = simulation_view_layer(bpy.context.scene)
    if not obj.visible_get(view_layer=layer):
        if VISIBILITY_PATH in animated_paths(obj):
            return _animation_fix([obj], _show_without_animation)
        chain = _most_visible_chain(obj, layer)
        if any(_is_hidden(one) for one in chain):
            hiding = next(one for one in chain if _is_hidden(one))
            return fix_button("Show", _show, f"Show the object, and the collection {hiding.name} that hides it")
        return fix_button("Show", _show, "Show the object in the viewport") if chain else None
    return None


def _collection_chains(
    root: bpy.types.LayerCollection, obj: bpy.types.Object
) -> Iterator[tuple[bpy.types.LayerCollection, ...]]:
    """Iterate over the collections that hold an object, each with those that hold it, from the outermost one."""
    if has_object(root.collection.objects, obj):
        yield (root,)
    for child in root.children:
        for chain in _collection_chains(child, obj):
            yield (root, *chain)


def _is_hidden(one: bpy.types.LayerCollection) -> bool:
    return bool(one.exclude or one.hide_viewport or one.collection.hide_viewport)


def _most_visible_chain(obj: bpy.types.Object, layer: bpy.types.ViewLayer) -> tuple[bpy.types.LayerCollection, ...]:
    """Return the collections around an object of which the fewest are hidden; () if the view layer has none."""
    chains = _collection_chains(layer.layer_collection, obj)
    return min(chains, key=lambda chain: sum(map(_is_hidden, chain)), default=())


def _enter_object_mode(obj: bpy.types.Object, scene: bpy.types.Scene) -> None:
    with bpy.context.temp_override(active_object=obj, object=obj):
        call_operator(bpy.ops.object.mode_set, f"{obj.name}: the mode cannot be changed", "change it by hand",
            mode="OBJECT")  # fmt: skip


def _show(obj: bpy.types.Object, scene: bpy.types.Scene) -> None:
    layer = simulation_view_layer(scene)
    for one in _most_visible_chain(obj, layer):
        if one.exclude and one != layer.layer_collection:
            one.exclude = False
        one.hide_viewport = one.collection.hide_viewport = False
    obj.hide_viewport = False
    obj.hide_set(False, view_layer=layer)


def _disable_stretching(obj: bpy.types.Object, scene: bpy.types.Scene) -> None:
    scene.render.frame_map_old = scene.render.frame_map_new = 100


def _target_check_fix(obj: bpy.types.Object, error: DampSimError) -> Issue | None:
    if isinstance(error, LibraryBakeError):
        tooltip = "Turn the library override into a local object, which changes of the library no longer update"
        return fix_button("Make Object Local", lambda o, s: _make_local(o), tooltip)
    if isinstance(error, ClashingKeysError):
        action, owner = rig_of(obj).animation_data.action.name, rig_of(obj)
        tooltip = f"Move the action {action} to an NLA track beneath the bake, where it plays as before"
        return fix_button("Push Down Action", lambda o, s: push_down_action(owner, record_mark(o.data)), tooltip)
    name = error.target if isinstance(error, OtherTargetError) else _other_target(obj)
    other_target = None if name == obj.dampsim.target else target_issue(type(get_target(name)))
    if other_target is not None and obj.dampsim.bakes_to_bones and can_convert_envelopes(obj):
        return modifier_checks.envelope_fix(obj, other_target)
    return _single_user_fix(obj, other_target) or other_target


def _other_target(obj: bpy.types.Object) -> str:
    """Return the name of the target to offer where the error names none."""
    target = obj.dampsim.target
    if target not in (Bones.name, ExistingBones.name):
        return PointCache.name
    try:
        check_keys_are_played(obj)
    except OtherTargetError as error:
        return error.target
    return Bones.name if target == ExistingBones.name else CompressedKeys.name


def _parent_fix(obj: bpy.types.Object, error: DampSimError) -> Issue:
    tooltip = "Deform the mesh by a modifier instead of the parent type. The look does not change"
    label = obj.parent.type.title()
    convert = f"Convert to {label} Modifier"
    return fix_button(convert, _convert_parent, tooltip, target_issue(PointCache))


def _convert_parent(obj: bpy.types.Object, scene: bpy.types.Scene) -> None:
    convert_deforming_parent(obj, scene, simulation_view_layer(scene))


def _single_user_fix(obj: bpy.types.Object, alternative: Issue | None = None) -> Issue | None:
    """Return the fix that gives an object a local mesh of its own; None if it has one, or is linked itself."""
    if obj.library is not None:
        return None
    if not can_edit_before_modifiers(obj):
        tooltip = "Give this object its own local copy of the mesh, which changes of the library no longer update"
        return fix_button("Make Mesh Local", _make_mesh_local, tooltip, alternative)
    if not has_shared_mesh(obj):
        return None
    return fix_button("Make Single User", _make_mesh_local, "Give this object its own copy of the mesh", alternative)


def _make_local(obj: bpy.types.Object) -> None:
    obj.make_local()


def _make_object_and_mesh_local(obj: bpy.types.Object, scene: bpy.types.Scene) -> None:
    local = obj.make_local()
    if local.data.library is not None:
        local.data.make_local()


def _make_mesh_local(obj: bpy.types.Object, scene: bpy.types.Scene) -> None:
    # A copy of an overridden mesh is an override, too.
    obj.data = obj.data.copy().make_local()


def _link_fix(obj: bpy.types.Object, error: DampSimError) -> Issue | None:
    useless = [link for link in obj.dampsim.links if _is_useless(obj, link)]
    if useless:
        tooltip = "Remove the links whose target or bone is missing, or whose target is the object itself"
        remove = fix_button("Remove Link", _remove_useless_links, tooltip)
        if all(_lacks_bone(link) for link in useless) and useless[0].other.type == "ARMATURE":
            return closest_fix(useless[0], "bone", useless[0].other.pose.bones.keys(), remove)
        return remove
    if linked_outside_group(obj):
        tooltip = "Simulate the object together with those that it is linked to"
        return fix_button("Simulate Together", lambda o, s: simulate_together([o, *linked_outside_group(o)]), tooltip)
    return None


def _is_useless(obj: bpy.types.Object, link: bpy.types.PropertyGroup) -> bool:
    return is_target_deleted(link) or link.other == obj or _lacks_bone(link)


def _lacks_bone(link: bpy.types.PropertyGroup) -> bool:
    return not is_target_deleted(link) and bool(link.bone) and not has_bone(link.other, link.bone)


def _remove_useless_links(obj: bpy.types.Object, scene: bpy.types.Scene) -> None:
    links = obj.dampsim.links
    for number in reversed(range(len(links))):
        if _is_useless(obj, links[number]):
            remove_item(obj, links, number)
    obj.dampsim.active_link = max(min(obj.dampsim.active_link, len(links) - 1), 0)


def _mesh_fix(obj: bpy.types.Object, error: DampSimError) -> Issue | None:
    if isinstance(error, OpenSheetError):
        # Keyframes would set the pressure again.
        remove = fix_button("Set Pressure to 0", set_options(pressure=0.0), "Simulate without air")
        return None if has_animated_pressure(obj) else remove
    if isinstance(error, WrongKindError):
        kind = kind_by_name(error.kind)
        return fix_button(f"Simulate as {kind.label}", set_options(kind=kind.name), "Choose this Kind")
    if isinstance(error, FibreDirectionError):
        return fix_button(
            "Use Local Z", set_options(fibres_along=FibreDirection.Z),
            "Align the fibres with the Z axis of the object",
        )  # fmt: skip
    if isinstance(error, ResolutionError):
        return _resolution_fix(obj, error)
    if isinstance(error, PinError):
        return fix_button("Choose None", set_options(pin_group=""), "Use no pin group")
    if isinstance(error.__cause__, SeamError):
        return fix_button("Do Not Sew", _rename_seams, "Rename the vertex groups of seams, so that they sew nothing")
    return None


def _resolution_fix(obj: bpy.types.Object, error: ResolutionError) -> Issue | None:
    parameter, current = PARAMETERS["resolution"], obj.dampsim.resolution
    better = int(min(max(error.factor * current, parameter.min), parameter.max))
    if better == current:
        return None
    return fix_button(
        f"Set Resolution to {better}", set_options(resolution=better),
        "Set the approximate number of tetrahedra to one that suits the mesh",
    )  # fmt: skip


def _rename_seams(obj: bpy.types.Object, scene: bpy.types.Scene) -> None:
    for name in seam_groups(obj):
        obj.vertex_groups[name].name = f"Not {name}"


def _visibility_fix(obj: bpy.types.Object, error: DampSimError) -> Issue | None:
    scene = bpy.context.scene
    inputs = motion_inputs(obj, simulation_view_layer(scene))
    disabled = [one for one in inputs if first_disabled_frame(one, scene.frame_start, scene.frame_end) is not None]
    if disabled:
        return _animation_fix(disabled, _keep_enabled)
    return fix_button("Show", _show_inputs, "Show the object, and the collections that hide it")


def _animation_fix(disabled: list[bpy.types.Object], fix: Fix) -> Issue | None:
    """Return the fix that removes the animation by which objects are disabled; None if a library holds it."""
    if any(one.library is not None for one in disabled):
        return None
    if any(is_driven(one, VISIBILITY_PATH) for one in disabled):
        tooltip = "Remove the animation of Disable in Viewports, and keep that of Disable in Renders"
        return fix_button("Remove Driver", fix, tooltip)
    tooltip = "Remove the keyframes of Disable in Viewports, and keep those of Disable in Renders"
    return fix_button("Remove Keyframes", fix, tooltip)


def _show_without_animation(obj: bpy.types.Object, scene: bpy.types.Scene) -> None:
    remove_animation(obj, VISIBILITY_PATH)
    _show(obj, scene)


def _show_inputs(obj: bpy.types.Object, scene: bpy.types.Scene) -> None:
    layer = simulation_view_layer(scene)
    for one in motion_inputs(obj, layer):
        if not is_in_viewports(one, layer):
            _show(one, scene)


def _keep_enabled(obj: bpy.types.Object, scene: bpy.types.Scene) -> None:
    for one in motion_inputs(obj, simulation_view_layer(scene)):
        if first_disabled_frame(one, scene.frame_start, scene.frame_end) is not None:
            remove_animation(one, VISIBILITY_PATH)
            one.hide_viewport = False


def _solver_fix(obj: bpy.types.Object, error: DampSimError) -> Issue | None:
    layer = simulation_view_layer(bpy.context.scene)
    rig = known_stepped_rig(posing_inputs(obj, layer))
    if rig is None or not is_local(rig, rig.data):
        return None
    tooltip = f"Bake the pose of {rig.name} to keyframes of a new action, and remove the constraints of its bones"
    return fix_button("Bake Pose", lambda o, s: _bake_pose(rig, s), tooltip)


def _bake_pose(rig: bpy.types.Object, scene: bpy.types.Scene) -> None:
    """Replace the constraints of a rig's bones by keyframes at all frames of the shot.

    The new action keeps the other curves of the rig's action, such as those of its place and of its properties.
    """
    frame, subframe = scene.frame_current, scene.frame_subframe
    data = rig.animation_data
    earlier, slot = (None, None) if data is None else (data.action, data.action_slot)
    try:
        with bpy.context.temp_override(
            active_object=rig, object=rig, selected_objects=[rig], selected_editable_objects=[rig]
        ):
            call_operator(
                bpy.ops.nla.bake, f"{rig.name}: its pose cannot be baked", "bake it by hand",
                frame_start=scene.frame_start, frame_end=scene.frame_end, only_selected=False, visual_keying=True,
                clear_constraints=True, bake_types={"POSE"},
            )  # fmt: skip
        if earlier is not None and slot is not None:
            add_other_curves(rig, earlier, slot.identifier)
    finally:
        scene.frame_set(frame, subframe=subframe)


def _roughness_fix(obj: bpy.types.Object, error: DampSimError) -> Issue | None:
    others = active_colliders(obj, simulation_view_layer(bpy.context.scene))
    other = next(one for one in others if str(error).startswith(f"{one.name}: "))
    group, known = other.dampsim_collider, other.vertex_groups.keys()
    none = fix_button("Choose None", set_values([group], roughness_group=""), "Use no roughness group")
    return none if group.roughness_group in known else closest_fix(group, "roughness_group", known, none)


def _weights_fix(obj: bpy.types.Object, error: DampSimError) -> Issue | None:
    settings = [setting for setting, name in used_groups(obj).items() if f"vertex group '{name}'" in str(error)]

    def choose_none(obj: bpy.types.Object, scene: bpy.types.Scene) -> None:
        for owner, name in settings:
            setattr(owner, name, "")

    tooltip = "Simulate the original mesh, which keeps its weights, and bake to shape keys"
    keys = fix_button(f"Bake to {CompressedKeys.label}", target_issue(CompressedKeys).fix, tooltip)
    has_mirror = any(modifier.type == "MIRROR" for modifier in simulated_topology_modifiers(obj))
    return fix_button("Choose None", choose_none, "Do not use this vertex group", None if has_mirror else keys)


_FIXES: dict[str, Issue | Callable[[bpy.types.Object, DampSimError], Issue | None]] = {
    "object": _object_fix,
    "stretching": fix_button(
        "Turn Off Time Stretching",
        _disable_stretching,
        "Set Old and New under Time Stretching to 100. The animation then plays at its keyframed speed",
    ),
    "unsaved": fix_button(
        "Use Default Folder",
        set_options(cache_folder=""),
        "Use the folder for caches of unsaved files. It moves beside the .blend file when that is saved",
    ),
    "target": _target_check_fix,
    "parent": _parent_fix,
    "links": _link_fix,
    "mesh": _mesh_fix,
    "model": _mesh_fix,
    "fibres": fix_button(
        "Use Longest Axis",
        set_options(fibres_along=FibreDirection.LENGTH),
        "Align the fibres with the longest axis of their group",
    ),
    "visibility": _visibility_fix,
    "solver": _solver_fix,
    "roughness": _roughness_fix,
    "weights": _weights_fix,
}
"""Fixes of refusals by the name of their check; the others only the user can fix."""


def _known_mesh_refusal(obj: bpy.types.Object, scene: bpy.types.Scene, layer: bpy.types.ViewLayer) -> None:
    """Raise the error of REFUSALS["mesh"] as it was last found.

    Panels are drawn too often to read the mesh each time.
    """
    # The check of the object reports a mesh without faces, and vertices far away, beside which all faces are tiny.
    is_reported = kind_by_name(obj.dampsim.kind).needs_faces and not len(obj.data.polygons)
    is_reported = is_reported or reaches_too_far(obj)
    error = None if is_reported or simulated_topology_modifiers(obj) else known_refusal(obj)
    if error is not None:
        raise error


def _known_solver_refusal(obj: bpy.types.Object, scene: bpy.types.Scene, layer: bpy.types.ViewLayer) -> None:
    """Raise the error of REFUSALS["solver"] as it was found after the last update."""
    refuse_stepped_rig(known_stepped_rig(posing_inputs(obj, layer)))


def _known_model_error(obj: bpy.types.Object, scene: bpy.types.Scene, layer: bpy.types.ViewLayer) -> None:
    """Raise the error because of which a bake will not be able to build the model, as far as it is known."""
    error = known_model_error(obj)
    # Other checks report those of the mesh.
    if error is not None and known_refusal(obj) is None and not reaches_too_far(obj):
        raise error


def _refusal_check(name: str, refusal: Refusal) -> Check:
    def check(obj: bpy.types.Object, scene: bpy.types.Scene) -> Issue | None:
        try:
            refusal(obj, scene, simulation_view_layer(scene))
        except DampSimError as error:
            # The panel shows the name of the object where it is needed.
            text = str(error).removeprefix(f"{obj.name}: ").rstrip(".")
            text = f"{text[:1].upper()}{text[1:]}"
            fix = _FIXES.get(name)
            fix = fix(obj, error) if callable(fix) else fix
            return Issue(text) if fix is None else replace(fix, text=text)
        return None

    return check


def refused_target(obj: bpy.types.Object, scene: bpy.types.Scene) -> Issue | None:
    """Report that the object cannot be baked to its target."""
    # Another check reports generated vertices.
    if not obj.dampsim.bakes_to_file and simulated_topology_modifiers(obj):
        return None
    return _refusal_check("target", REFUSALS["target"])(obj, scene)


def refused_bake(obj: bpy.types.Object, scene: bpy.types.Scene) -> Issue | None:
    """Report the error that only the last bake of the object found."""
    error = remembered_refusal(obj, scene)
    if error is None:
        return None
    text = f"The last bake stopped: {str(error).removeprefix(f'{obj.name}: ').rstrip('.')}"
    if isinstance(error, UnplayableMotionError):
        return target_issue(PointCache, text)
    named = [one for one in motion_inputs(obj, simulation_view_layer(scene)) if str(error).startswith(f"{one.name}: ")]
    disabled = [one for one in named if "Disable in Viewports" in str(error) and VISIBILITY_PATH in animated_paths(one)]
    fix = _animation_fix(disabled, lambda o, s: _enable(o, disabled)) if disabled else None
    return Issue(text) if fix is None else replace(fix, text=text)


def _enable(obj: bpy.types.Object, disabled: list[bpy.types.Object]) -> None:
    for one in disabled:
        remove_animation(one, VISIBILITY_PATH)
        one.hide_viewport = False
    forget_refusal(obj)


unbuildable_model = _refusal_check("model", _known_model_error)
"""Check that reports parts of a mesh of which no model can be built."""
REFUSAL_CHECKS: dict[str, Check] = {
    **{name: _refusal_check(name, refusal) for name, refusal in REFUSALS.items()},
    "target": refused_target,
    "mesh": _refusal_check("mesh", _known_mesh_refusal),
    "solver": _refusal_check("solver", _known_solver_refusal),
}
"""Checks of all refusals that are known before a bake."""
