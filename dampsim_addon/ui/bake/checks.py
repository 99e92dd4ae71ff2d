"""Checks for problems that would spoil a bake. A new check is one entry of CHECKS."""

from __future__ import annotations

import math
from collections.abc import Mapping

import bpy
import numpy as np

from ....core import PARAMETERS, Array, SceneError, kind_by_name
from ....core.base.wording import format_count, format_metres, format_number
from ....core.frames.cache import RebakedRange
from ....core.simulation.bake import check_blends
from ....core.simulation.range_blend import MIN_BLEND
from ...blender.animated_values import is_driven
from ...blender.animation import animated_paths
from ...blender.bone_bakes import animated_bones, own_bones, rig_of
from ...blender.dampsim_names import bake_keys, bake_modifier, is_lost_rig_modifier, joined_bake_keys
from ...blender.sampler import frame_rate
from ...model.cache_status import known_status
from ...model.force_fields import unsupported_features
from ...model.groups import group_of
from ...model.properties import read_settings
from ...scene_reader.parts import remove_part
from ...status.bake_changes import baked_number, changed_dials
from ...status.measurements import is_measurement_current
from ...status.next_bake import BakeAction, next_bake
from ...status.pieces import accept, is_accepted, known_edited_keys, known_parts, refresh_parts
from ...targets import Storage, Target, find_target
from ...targets.bake_tracks import bake_strips
from ...targets.bone_rig import orphaned_bones, remove_orphaned_bones
from ...targets.cache_file import is_detached
from ...targets.influence import animated_owners, is_muted, unmute_bake
from ...targets.keys import copy_edited_keys, remove_joined_keys
from ...targets.retiming import is_time_scale
from ...work.operators import call_operator
from ..common.issue import Check, Issue, set_options, set_values
from ..contact import checks as contact_checks
from ..fibres import panel as fibre_panel
from ..pins import checks as pin_checks
from . import modifier_checks, motion_checks, rig_checks
from .refusal_checks import REFUSAL_CHECKS, refused_bake, unbuildable_model

# Sizes (m) outside this range are rarely intended: under gravity, the object looks far too stiff or too soft.
_MIN_SIZE, _MAX_SIZE = 0.01, 50.0
# Mean filled fraction of the tetrahedra, below which the body is thinner than two of them.
_MIN_FILL = 0.45
# Relative difference of Settle that counts as no change: Blender stores single precision.
_SETTLE_TOLERANCE = 1e-5
# Relative difference between the scales of two axes that counts as uneven.
_SCALE_TOLERANCE = 1e-4
# Constraints that change the scale of their owner.
_SCALING_CONSTRAINTS = (
    "ACTION", "ARMATURE", "CHILD_OF", "COPY_SCALE", "COPY_TRANSFORMS", "GEOMETRY_ATTRIBUTE", "LIMIT_SCALE",
    "MAINTAIN_VOLUME", "STRETCH_TO", "TRANSFORM", "TRANSFORM_CACHE",
)  # fmt: skip


def _unapplied_scale(obj: bpy.types.Object, scene: bpy.types.Scene) -> Issue | None:
    matrix = np.array(obj.matrix_world)[:3, :3]
    problem = _scale_problem(matrix)
    if not problem:
        return None
    cause = _scale_source(obj)
    if cause:
        return Issue(f"{problem}, because of {cause}")
    own = np.array(obj.scale) * np.array(obj.delta_scale)
    if not own.all() or _scale_problem(matrix / own):
        # Only a parent can turn the axes of the scale.
        return Issue(f"{problem}, because of its parent {_scaled_parent(obj).name}" if obj.parent else problem)
    if obj.data.users > 1 or not obj.data.is_editable:
        whose = "other objects share the mesh" if obj.data.users > 1 else "the mesh is linked"
        tip = "Give this object its own copy of the mesh, and apply the scale to it"
        return Issue(f"{problem}, and {whose}", "Make Single User and Apply Scale", _apply_scale, tip)
    return Issue(problem, "Apply Scale", _apply_scale)


def _scaled_parent(obj: bpy.types.Object) -> bpy.types.Object:
    """Return the nearest parent with a negative or uneven scale of its own, or else the parent."""
    parents, one = list[bpy.types.Object](), obj.parent
    while one is not None:
        parents.append(one)
        one = one.parent
    scales = [np.array(each.scale) * np.array(each.delta_scale) for each in parents]
    return next(
        (each for each, scale in zip(parents, scales, strict=True) if _scale_problem(np.diag(scale))), parents[0]
    )


def _scale_problem(matrix: Array) -> str:
    """Return the problem of the scale of a matrix (3, 3) in words; '' if it has none."""
    scale = np.linalg.norm(matrix, axis=0)
    if np.linalg.det(matrix) < 0.0:
        return "The scale is negative"
    return "The scale differs between axes" if np.ptp(scale) > _SCALE_TOLERANCE * scale.max() else ""


def _scale_source(obj: bpy.types.Object) -> str:
    """Return the animation or constraint that sets the scale of an object after it is applied, in words; or ''."""
    for path in ("scale", "delta_scale"):
        if path in animated_paths(obj):
            return "its driver" if any(is_driven(obj, path, axis) for axis in range(3)) else "its keyframes"
    names = [one.name for one in obj.constraints if one.type in _SCALING_CONSTRAINTS and not one.mute]
    return f"its constraint {names[0]}" if names else ""


def _apply_scale(obj: bpy.types.Object, scene: bpy.types.Scene) -> None:
    if obj.data.users > 1 or not obj.data.is_editable:
        # A copy of an overridden mesh is an override, too.
        obj.data = obj.data.copy().make_local()
    with bpy.context.temp_override(
        active_object=obj, object=obj, selected_objects=[obj], selected_editable_objects=[obj]
    ):
        failure, scale_only = f"{obj.name}: the scale cannot be applied", {"location": False, "rotation": False}
        call_operator(bpy.ops.object.transform_apply, failure, "apply it by hand", scale=True, **scale_only)


def _scale_settle(obj: bpy.types.Object, factor: float) -> None:
    """Multiply Settle of an object and of its parts by a factor."""
    for dials in (obj.dampsim, *obj.dampsim.parts):
        dials.settle *= factor


def _changed_frame_rate(obj: bpy.types.Object, scene: bpy.types.Scene) -> Issue | None:
    rate, current = obj.dampsim.baked_fps, frame_rate(scene)
    # Bakes without a stored rate come from older files.
    if not obj.dampsim.baked or not rate or abs(rate - current) < 1e-3 or is_time_scale(obj, current / rate):
        return None
    settle, baked_settle = obj.dampsim.settle, baked_number(obj, PARAMETERS["settle"].label)
    scaled_settle, seconds_fix = baked_settle * current / rate, None
    if baked_settle and math.isclose(settle, scaled_settle, rel_tol=_SETTLE_TOLERANCE):
        # The user has kept the seconds. The panel reports the bake as out of date.
        return None
    is_allowed = PARAMETERS["settle"].min <= scaled_settle <= PARAMETERS["settle"].max
    if baked_settle and is_allowed and math.isclose(settle, baked_settle, rel_tol=_SETTLE_TOLERANCE):
        seconds_fix = Issue(
            "", f"Keep Seconds (Settle {format_number(settle, 4)} → {format_number(scaled_settle, 4)})",
            lambda o, s: _scale_settle(o, current / rate),
            "Set Settle so that the object comes to rest after the same time in seconds. Then bake again",
        )  # fmt: skip
    before, now = format_number(rate, 4), format_number(current, 4)
    return Issue(
        f"Baked at {before} frames per second, but the scene now has {now}", f"Restore {before} fps",
        _restore_frame_rate, "Set the frame rate of the scene to that of the bake", seconds_fix,
    )  # fmt: skip


def _restore_frame_rate(obj: bpy.types.Object, scene: bpy.types.Scene) -> None:
    rate = obj.dampsim.baked_fps
    scene.render.fps = max(int(np.ceil(rate - 1e-6)), 1)
    scene.render.fps_base = scene.render.fps / rate


def _range_with_other_dials(obj: bpy.types.Object, scene: bpy.types.Scene) -> Issue | None:
    """Report re-baked ranges that the next bake of all frames would replace, since the dials are no longer theirs."""
    ranges, changed = known_status(obj).ranges, changed_dials(obj)
    if not ranges or not changed or next_bake(group_of(obj), scene).action is BakeAction.RANGE:
        return None
    frames = " and ".join(f"{one.first} to {one.last}" for one in ranges)
    return Issue(
        f"The next bake simulates all frames with these dials, and no longer frames {frames} alone",
        f"Restore {format_count(len(changed), 'Dial')}", set_options(**changed),
        "Set the dials to those of the other frames, so that bakes keep the re-baked ones",
    )  # fmt: skip


def _unblendable_range(obj: bpy.types.Object, scene: bpy.types.Scene) -> Issue | None:
    """Report a preview range that cannot be blended into the other frames when it is baked again."""
    owner = group_of(obj).members[0]
    blend, text = owner.dampsim.range_blend, _blend_problem(obj, scene, owner.dampsim.range_blend)
    if not text:
        return None
    tooltip = "Bake all frames of the scene, and no longer those of the preview range alone"
    whole = Issue(text, "Turn Off Preview Range", lambda o, s: setattr(s, "use_preview_range", False), tooltip)
    shorter = next((n for n in range(blend - 1, MIN_BLEND - 1, -1) if not _blend_problem(obj, scene, n)), None)
    if shorter is None:
        return whole
    fix = set_values([owner.dampsim], range_blend=shorter)
    return Issue(text, f"Set Blend to {shorter}", fix, "Blend over fewer frames", whole)


def _blend_problem(obj: bpy.types.Object, scene: bpy.types.Scene, blend: int) -> str:
    """Return why the preview range cannot be baked again with a blend, in frames; '' if it can, or is not."""
    group = group_of(obj)
    upcoming, owner = next_bake(group, scene), group.members[0]
    if upcoming.action is not BakeAction.RANGE:
        return ""
    part, is_loop = RebakedRange(upcoming.first, upcoming.last, blend), any(one.dampsim.loop for one in group.members)
    try:
        check_blends("", part, scene.frame_start, scene.frame_end, known_status(owner).ranges, is_loop=is_loop)
    except SceneError as error:
        text = str(error).removeprefix(": ").rstrip(".")
        return text[:1].upper() + text[1:]
    return ""


def _unusual_size(obj: bpy.types.Object, scene: bpy.types.Scene) -> Issue | None:
    size = max(obj.dimensions[:]) * scene.unit_settings.scale_length
    if _MIN_SIZE <= size <= _MAX_SIZE or is_accepted(obj, "size", size):
        return None
    parts = known_parts(obj)
    if parts is not None and parts.far.any():
        # Another check reports these vertices as the cause.
        return None
    effect, word = ("hardly move", "only ") if size < _MIN_SIZE else ("sag and swing slowly", "")
    return Issue(
        f"The object is {word}{format_metres(size)} large. Real materials {effect} at this size",
        "Accept Size", lambda o, s: accept(o, "size", size),
        "Simulate the object at this size, and do not report it again. Otherwise scale it, or set Unit Scale in the "
        "scene properties",
    )  # fmt: skip


def _coarse_tetrahedra(obj: bpy.types.Object, scene: bpy.types.Scene) -> Issue | None:
    fill = obj.dampsim.measured_fill
    has_tets = "tets" in kind_by_name(obj.dampsim.kind).sections(read_settings(obj))
    if not has_tets or not 0.0 < fill < _MIN_FILL:
        return None
    text = f"The tetrahedra are too coarse: the object fills only {100.0 * fill:.0f}% of them"
    shell_fix = None
    if obj.dampsim.kind == "SOLID" and obj.dampsim.measured_shell:
        tip = "Simulate the two sides as a cloth shell, which needs no tetrahedra"
        shell_fix = Issue("", "Simulate as Shell", set_options(kind="CLOTH", measured_fill=0.0), tip)
    if 2 * obj.dampsim.resolution > PARAMETERS["resolution"].max:
        return Issue(text, alternative=shell_fix)
    # The fill is unknown until the tetrahedra are built again.
    double = set_options(resolution=2 * obj.dampsim.resolution, measured_fill=0.0)
    return Issue(text, "Double Resolution", double, "Double the number of tetrahedra", shell_fix)


def _cannot_stand(obj: bpy.types.Object, scene: bpy.types.Scene) -> Issue | None:
    if not obj.dampsim.measured_falling or not is_measurement_current(obj, scene):
        return None
    dial = "Bending" if obj.dampsim.kind in ("CLOTH", "ROPE") else "Stiffness"
    return Issue(f"It cannot stand under its own weight. Raise {dial}, or pin it higher")


def _missing_bake_file(obj: bpy.types.Object, scene: bpy.types.Scene) -> Issue | None:
    path = known_status(obj).missing_file
    fault = "damaged" if is_detached(obj) else "missing"
    return Issue(f"The bake file {path} is {fault}. Restore it or bake again") if path else None


def _unsupported_field_settings(obj: bpy.types.Object, scene: bpy.types.Scene) -> Issue | None:
    unsupported = unsupported_features(obj, scene)
    return Issue(f"These force field settings have no effect on it: {unsupported}") if unsupported else None


def _damaged_bake(obj: bpy.types.Object, scene: bpy.types.Scene) -> Issue | None:
    """Report a bake of which shape keys, their animation or the modifier are missing, so that it does not play."""
    target = find_target(obj.dampsim.baked)
    if target is None:
        return None
    if target.storage is Storage.FILE:
        text = "" if bake_modifier(obj) is not None else "The modifier that plays the bake is missing"
    elif target.storage is Storage.KEYS:
        # A bake without motion has no keys.
        text = _missing_keys(obj) or (obj.dampsim.baked_keys and _missing_strip(obj, target)) or _muted_keys(obj)
    else:
        text = _missing_bone_part(obj, target)
    if not text:
        return None
    return Issue(f"{text}, so the bake does not play as simulated. Bake again to restore it, or press Clear")


def _muted_bake(obj: bpy.types.Object, scene: bpy.types.Scene) -> Issue | None:
    """Report a muted bake, which a new one would leave muted."""
    owners = animated_owners(obj)
    has_strips = any(bake_strips(owner.animation_data, mark) for owner, mark in owners)
    is_there = bake_modifier(obj) is not None or has_strips
    if not obj.dampsim.baked or not is_there or not is_muted(obj):
        return None
    fix = "Let the bake play in the viewport: unmute its modifier, or its NLA tracks and strips"
    return Issue("Its bake is muted, so it does not play", "Unmute", lambda o, s: unmute_bake(o), fix)


def _missing_bone_part(obj: bpy.types.Object, target: Target) -> str:
    if any(map(is_lost_rig_modifier, obj.modifiers)):
        return "The rig of the bake is missing"
    rig, mark = target.animated_data(obj)
    bones = own_bones(rig, mark)
    missing = [name for name in (*bones, *bones.values()) if name not in obj.vertex_groups]
    if missing:
        return f"The vertex group '{missing[0]}' of the bake is missing"
    # A bake without motion has no bones.
    return _missing_strip(obj, target) if bones or animated_bones(rig, mark) else ""


def _keys_of_bake(obj: bpy.types.Object) -> list[bpy.types.ShapeKey]:
    keys = obj.data.shape_keys
    return [key for key in bake_keys(keys) if key != keys.reference_key]


def _missing_keys(obj: bpy.types.Object) -> str:
    missing = obj.dampsim.baked_keys - len(_keys_of_bake(obj))
    if missing <= 0:
        return ""
    return f"{format_count(missing, 'shape key')} of the bake {'is' if missing == 1 else 'are'} missing"


def _missing_strip(obj: bpy.types.Object, target: Target) -> str:
    owner, mark = target.animated_data(obj)
    is_playing = owner is not None and bool(bake_strips(owner.animation_data, mark))
    return "" if is_playing else "The NLA strip of the bake is missing"


def _muted_keys(obj: bpy.types.Object) -> str:
    muted = [key for key in _keys_of_bake(obj) if key.mute]
    if not muted:
        return ""
    return f"{format_count(len(muted), 'shape key')} of the bake {'is' if len(muted) == 1 else 'are'} muted"


def _edited_keys(obj: bpy.types.Object, scene: bpy.types.Scene) -> Issue | None:
    """Report shape keys of a bake whose vertices were edited, which the next bake replaces."""
    names = known_edited_keys(obj)
    if not names or find_target(obj.dampsim.baked) is None:
        return None
    text = f"{len(names)} shape keys of the bake were edited. The next bake replaces them"
    if len(names) == 1:
        text = f"Shape key {names[0]} was edited. The next bake replaces it"
    tooltip = "Copy the edited shapes to shape keys of your own with value 0, which bakes keep"
    return Issue(text, "Copy to Own Keys", _copy_edited_keys, tooltip)


def _copy_edited_keys(obj: bpy.types.Object, scene: bpy.types.Scene) -> None:
    copy_edited_keys(obj)
    refresh_parts(obj, is_forced=True)


def _part_without_group(obj: bpy.types.Object, scene: bpy.types.Scene) -> Issue | None:
    parts = obj.dampsim.parts
    index = next((index for index, part in enumerate(parts) if not part.vertex_group), None)
    if index is None:
        return None
    text = f"Part '{parts[index].name}' has no effect, because no vertex group is chosen for it"
    return Issue(text, "Remove Part", lambda o, s: remove_part(o, index), "Remove this part")


def _joined_keys(obj: bpy.types.Object, scene: bpy.types.Scene) -> Issue | None:
    count = len(joined_bake_keys(obj.data.shape_keys))
    if not count:
        return None
    verb = "plays" if count == 1 else "play"
    text = f"{format_count(count, 'shape key')} of a baked object that was joined into it no longer {verb}"
    tooltip = "Remove these shape keys, and keep your own. The joined mesh gets the shape that it had without the bake"
    return Issue(text, "Remove Keys", lambda o, s: remove_joined_keys(o), tooltip)


def _orphaned_bones(obj: bpy.types.Object, scene: bpy.types.Scene) -> Issue | None:
    found = orphaned_bones(obj)
    if not found:
        return None
    count = sum(map(len, found.values()))
    tooltip = (
        "Remove the new bones and the animation of that bake. The weights of new bones go to the bones that carry them"
    )
    return Issue(
        f"{format_count(count, 'bone')} of {rig_of(obj).name} still {'plays' if count == 1 else 'play'} the bake of an "
        "object that was joined or deleted", "Remove Its Bake", lambda o, s: remove_orphaned_bones(o), tooltip,
    )  # fmt: skip


CHECKS: dict[str, Check] = {
    **REFUSAL_CHECKS,
    "model": unbuildable_model,
    "refused": refused_bake,
    "cycle": motion_checks.unrepeated_animation,
    "vanishing": motion_checks.vanishing_scale,
    "switched": motion_checks.switched_modifiers,
    "separate": rig_checks.separate_motion,
    "sheared": rig_checks.uneven_bones,
    "scale": _unapplied_scale,
    "keys": modifier_checks.keys_cannot_bake_generated,
    "folded": modifier_checks.folds_moved_mesh,
    "stretched": modifier_checks.stretches_by_extent,
    "shown": modifier_checks.live_cannot_show,
    "render": modifier_checks.render_differs,
    "solidify": modifier_checks.thickness_after_simulation,
    "unfelt": modifier_checks.unfelt_motion,
    "envelopes": modifier_checks.position_dependent_weights,
    "rate": _changed_frame_rate,
    "ranges": _range_with_other_dials,
    "blend": _unblendable_range,
    "size": _unusual_size,
    "coarse": _coarse_tetrahedra,
    "falling": _cannot_stand,
    "file": _missing_bake_file,
    "damaged": _damaged_bake,
    "muted": _muted_bake,
    "edited": _edited_keys,
    "leftover": _joined_keys,
    "orphaned": _orphaned_bones,
    "rigs": rig_checks.lost_rigs,
    "fields": _unsupported_field_settings,
    "inside": contact_checks.starts_inside_collider,
    "changes": contact_checks.collider_changes_topology,
    "hidden": contact_checks.hidden_collider,
    "unbaked": contact_checks.unbaked_collider,
    "flat": contact_checks.flat_collider,
    "instances": contact_checks.unfelt_instances,
    "nobody": contact_checks.no_collision_partner,
    "unheeded": contact_checks.colliders_disabled,
    "unassigned": _part_without_group,
    "unplaced": fibre_panel.contraction_without_fibres,
    "pinned": pin_checks.fully_pinned,
    "catch": pin_checks.slow_catch,
    "pieces": pin_checks.unpinned_pieces,
    "far": pin_checks.far_loose_vertices,
    "boneless": pin_checks.vertices_without_bone_weights,
}
# Checks that foresee refusals, so that the one of the last bake adds nothing.
_FORESEEING = {*REFUSAL_CHECKS, "model", "cycle", "vanishing", "switched", "separate", "sheared"}


def find_issues(
    obj: bpy.types.Object, scene: bpy.types.Scene, checks: Mapping[str, Check] = CHECKS
) -> dict[str, Issue]:
    """Return the issues of an object by the name of their check. Cheap enough to run at every redraw.

    A linked object has a fix only for the check "object", which makes it local: Blender would lose other changes. It
    cannot be baked before, so this check stands for all others.
    """
    if obj.library is not None:
        checks = {"object": checks["object"]} if "object" in checks else checks
    found = {name: issue for name, check in checks.items() if (issue := check(obj, scene)) is not None}
    if _FORESEEING & found.keys():
        found.pop("refused", None)
    if obj.library is not None:
        found = {name: issue if name == "object" else issue.without_fixes for name, issue in found.items()}
    return found
