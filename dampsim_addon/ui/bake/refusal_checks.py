"""Bake checks that report, before the wait, problems because of which a bake would be refused."""

from __future__ import annotations

import bpy

from ....core import DampSimError
from ....core.bodies.cloth import OpenSheetError
from ....core.geometry.mesh.seams import SeamError
from ...blender.dampsim_names import is_output_modifier
from ...blender.modifiers import simulated_topology_modifiers
from ...scene_reader.seams import seam_groups
from ...status.pieces import known_refusal
from ...targets import PointCache, Target, find_target
from ...targets.absolute_keys import AbsoluteKeys
from ...targets.frame_keys import FrameKeys
from ...targets.influence import is_blended
from ...targets.keys import check_shared_mesh, has_shared_mesh
from ..common.issue import Issue


def time_stretching(obj: bpy.types.Object, scene: bpy.types.Scene) -> Issue | None:
    """Report Time Stretching, with which the frames of the shot are not those of the animation."""
    if scene.render.frame_map_old == scene.render.frame_map_new:
        return None
    return Issue(
        "Time Stretching is on", "Turn Off Time Stretching", _disable_stretching,
        "Set Old and New under Time Stretching to 100. The animation then plays at its keyframed speed",
    )  # fmt: skip


def _disable_stretching(obj: bpy.types.Object, scene: bpy.types.Scene) -> None:
    scene.render.frame_map_old = scene.render.frame_map_new = 100


def refused_target(obj: bpy.types.Object, scene: bpy.types.Scene) -> Issue | None:
    """Report that the object cannot be baked to its target."""
    target = find_target(obj.dampsim.target)
    # Other checks report generated vertices.
    if target is None or (obj.dampsim.bakes_to_keys and simulated_topology_modifiers(obj)):
        return None
    try:
        check_shared_mesh(obj)
    except DampSimError as error:
        return _refusal(obj, error, _single_user_fix(obj))
    try:
        target.check(obj)
    except DampSimError as error:
        if target is AbsoluteKeys and is_blended(obj):
            return _refusal(obj, error, _target_fix(FrameKeys))
        to_file = None if target is PointCache else _target_fix(PointCache)
        return _refusal(obj, error, _single_user_fix(obj, to_file) or to_file)
    replacing = _replacing_modifier(obj)
    if obj.dampsim.bakes_to_keys and replacing is not None:
        fix = _target_fix(PointCache)
        text = f"Shape keys have no effect before {replacing.name}, which replaces the vertices"
        return Issue(text, fix.button_label, fix.fix, fix.tooltip)
    return None


def _refusal(obj: bpy.types.Object, error: DampSimError, fix: Issue | None) -> Issue:
    """Return an error as an issue, without the name of the object."""
    text = str(error).removeprefix(f"{obj.name}: ").rstrip(".")
    text = f"{text[:1].upper()}{text[1:]}"
    return Issue(text) if fix is None else Issue(text, fix.button_label, fix.fix, fix.tooltip, fix.alternative)


def _target_fix(kind: type[Target]) -> Issue:
    return Issue(
        "", f"Bake to {kind.label}", lambda o, s: setattr(o.dampsim, "target", kind.name),
        "Select this option under Bake To. The mesh and its modifiers do not change",
    )  # fmt: skip


def _single_user_fix(obj: bpy.types.Object, alternative: Issue | None = None) -> Issue | None:
    """Return the fix that gives an object a mesh of its own; None if it has one, or if its mesh is linked."""
    if not has_shared_mesh(obj) or obj.data.library is not None:
        return None

    def make_single_user(o: bpy.types.Object, s: bpy.types.Scene) -> None:
        o.data = o.data.copy()

    return Issue("", "Make Single User", make_single_user, "Give this object its own copy of the mesh", alternative)


def _replacing_modifier(obj: bpy.types.Object) -> bpy.types.Modifier | None:
    """Return the last modifier that discards the positions of the vertices before it, or None."""
    found = None
    for modifier in obj.modifiers:
        if not modifier.show_viewport or is_output_modifier(modifier):
            continue
        is_file = modifier.type == "MESH_CACHE" and modifier.deform_mode == "OVERWRITE" and modifier.factor == 1.0
        is_sequence = modifier.type == "MESH_SEQUENCE_CACHE" and "VERT" in modifier.read_data
        is_bound = modifier.type == "SURFACE_DEFORM" and modifier.is_bound and modifier.strength == 1.0
        if (is_file or is_sequence or is_bound) and not getattr(modifier, "vertex_group", ""):
            found = modifier
    return found


def refused_mesh(obj: bpy.types.Object, scene: bpy.types.Scene) -> Issue | None:
    """Report a mesh that cannot be simulated as it is: air pressure on an open sheet, seams that form no pairs."""
    error = known_refusal(obj)
    if error is None:
        return None
    if isinstance(error, OpenSheetError):
        fix = Issue("", "Set Pressure to 0", lambda o, s: setattr(o.dampsim, "pressure", 0.0), "Simulate without air")
        return _refusal(obj, error, fix)
    if isinstance(error.__cause__, SeamError):
        tooltip = "Rename the vertex groups of seams, so that they sew nothing"
        return _refusal(obj, error, Issue("", "Do Not Sew", _rename_seams, tooltip))
    return _refusal(obj, error, None)


def _rename_seams(obj: bpy.types.Object, scene: bpy.types.Scene) -> None:
    for name in seam_groups(obj):
        obj.vertex_groups[name].name = f"Not {name}"
