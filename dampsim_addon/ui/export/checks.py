"""Checks of parts that export formats cannot hold. A new check is one entry of EXPORT_CHECKS."""

from __future__ import annotations

import bpy

from ....core.base.wording import format_count
from ...blender.vertex_groups import MAX_EXPORTED_BONES
from ...jobs.export import apply_bone_limit
from ...status.pieces import accept, is_accepted, known_parts
from ..common.issue import Check, Issue


def _too_many_bones(obj: bpy.types.Object, scene: bpy.types.Scene) -> Issue | None:
    parts = known_parts(obj)
    if parts is None or not parts.overweighted.any():
        return None
    count = int(parts.overweighted.sum())
    verb = "has" if count == 1 else "have"
    return Issue(
        f"glTF: {format_count(count, 'vertex')} {verb} more than {MAX_EXPORTED_BONES} bone weights",
        f"Limit to {MAX_EXPORTED_BONES} Bones",
        lambda o, s: apply_bone_limit(o),
        f"Keep the {MAX_EXPORTED_BONES} largest bone weights of each vertex. Then bake again",
        vertices=parts.overweighted,
    )


def _vertices_without_faces(obj: bpy.types.Object, scene: bpy.types.Scene) -> Issue | None:
    parts = known_parts(obj)
    if parts is None or not parts.faceless.any() or is_accepted(obj, "faceless", parts.faceless):
        return None
    vertices, count = parts.faceless, int(parts.faceless.sum())
    verb = "belongs" if count == 1 else "belong"
    return Issue(
        f"glTF: {format_count(count, 'vertex')} {verb} to no face and would be left out",
        f"Export without {'It' if count == 1 else 'Them'}",
        lambda o, s: accept(o, "faceless", vertices),
        "Do not compare these vertices after an export, and do not warn again about them",
        vertices=vertices,
    )


EXPORT_CHECKS: dict[str, Check] = {"bones": _too_many_bones, "faceless": _vertices_without_faces}
