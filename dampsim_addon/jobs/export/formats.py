"""Export formats, those with morph targets (FBX and glTF), and the result of checking an exported file."""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import bpy

from ....core import Array
from ....core.base.errors import disk_errors
from ...blender.archives import require_room
from ...blender.bone_bakes import record_mark
from ...work.operators import call_operator
from .staging import temporary_values

_FBX_LABEL = "FBX"
_GLTF_LABEL = "glTF"


@dataclass(frozen=True)
class Format:
    """Export format. suffix: end of the file name.  write: export of the selection in the window.

    read: import into the scene in the window; it may return the vertices (f, v, 3) of each object in world space, if
    the imported objects do not move by themselves.

    reads_metres: whether the importer returns metres regardless of the scene's unit.
    holds_vertices: whether it holds the vertices of each frame, instead of bones and shape keys.
    """

    name: str
    label: str
    suffix: str
    write: Callable[[Path], None]
    read: Callable[[Path], list[Array] | None]
    reads_metres: bool = False
    holds_vertices: bool = False


@dataclass(frozen=True)
class ExportResult:
    """Result for one object in one file. Its fields are keys of the JSON report.

    format, label: identifier and name of the format.
    error: largest distance of a vertex after export and import, at any frame, m.  part: the same as a fraction of the
    object's size.  problem: sentence that says why there is no result; error is meaningless then.
    warning: probable causes of a large error, with their fixes; '' for a good export.
    notes: remarks on unpinned pieces and on frames outside the bake.
    """

    name: str
    format: str
    label: str
    path: str
    error: float = 0.0
    part: float = 0.0
    problem: str = ""
    warning: str = ""
    notes: tuple[str, ...] = ()


def run_exporter(
    operator: Callable[..., Any],
    path: Path,
    label: str,
    *,
    size: int = 0,
    is_whole: Callable[[Path], bool] | None = None,
    **options: Any,
) -> None:
    """Write a file with one of Blender's exporters. label: name of the format in error messages.

    size: room that the file needs, in bytes.  is_whole: whether a written file is complete, for exporters that do not
    report a full disk.
    It appears only when complete, so that a full disk leaves an earlier file, or none. Raises SceneError.
    """
    failed = f"{path.name}: Blender's {label} export failed"
    fix = "enable it in the preferences, remove unusual materials, or choose another folder"
    disk_fix = "choose another folder or free some space"
    part = path.with_name(f"{path.stem}.part{path.suffix}")
    try:
        with disk_errors(failed, disk_fix):
            # It also removes a link, which the exporter would follow.
            require_room(part, size)
        call_operator(operator, failed, fix, filepath=str(part), **options)
        with disk_errors(failed, disk_fix):
            if is_whole is not None and not is_whole(part):
                raise OSError("the file is cut off")
            part.replace(path)
    finally:
        with contextlib.suppress(OSError):
            part.unlink(missing_ok=True)


def run_importer(operator: Callable[..., Any], path: Path, label: str, **options: Any) -> None:
    """Read a file with one of Blender's importers. label: name of the format in error messages."""
    fix = "enable the importer in the preferences, or export again"
    call_operator(operator, f"{path.name}: Blender's {label} import failed", fix, filepath=str(path), **options)


def _write_fbx(path: Path) -> None:
    run_exporter(
        bpy.ops.export_scene.fbx,
        path,
        _FBX_LABEL,
        use_selection=True,
        # Applied modifiers would remove the shape keys; other actions and NLA strips would replace their animation.
        use_mesh_modifiers=False,
        bake_anim=True,
        bake_anim_use_nla_strips=False,
        bake_anim_use_all_actions=False,
        bake_anim_simplify_factor=0.0,
        bake_anim_step=1.0,
        add_leaf_bones=False,
    )


def _read_fbx(path: Path) -> None:
    run_importer(bpy.ops.wm.fbx_import, path, _FBX_LABEL, anim_offset=0.0)
    # The importer connects adjacent bones. Connected bones ignore their location keys.
    for rig in [obj for obj in bpy.context.scene.objects if obj.type == "ARMATURE"]:
        bpy.context.view_layer.objects.active = rig
        bpy.ops.object.mode_set(mode="EDIT")
        for bone in rig.data.edit_bones:
            bone.use_connect = False
        bpy.ops.object.mode_set(mode="OBJECT")


FBX = Format("FBX", _FBX_LABEL, ".fbx", _write_fbx, _read_fbx, reads_metres=True)


def _true_seconds() -> AbstractContextManager[None]:
    """Context in which Blender's exporter and importer count seconds at the frame rate of the scene in the window.

    They multiply its fps by its base instead of dividing, which is wrong for rates such as 29.97 (30 / 1.001).
    """
    render = bpy.context.scene.render
    return temporary_values([(render, "fps_base", 1.0 / render.fps_base)])


def _write_gltf(path: Path) -> None:
    with _true_seconds():
        run_exporter(
            bpy.ops.export_scene.gltf,
            path,
            _GLTF_LABEL,
            export_format="GLB",
            use_selection=True,
            # One animation for all objects, sampled at each frame, so that drivers, NLA and shape keys play together.
            export_animation_mode="SCENE",
            export_anim_scene_split_object=False,
            export_force_sampling=True,
            export_optimize_animation_size=False,
            export_frame_range=True,
            export_morph=True,
            export_morph_animation=True,
            # Normals of all keys would be larger than the keys.
            export_morph_normal=False,
            export_morph_tangent=False,
            # Applied modifiers would remove the shape keys.
            export_apply=False,
            # Otherwise, the four largest weights of a vertex remain.
            export_all_influences=any(record_mark(obj.data) for obj in bpy.context.selected_objects),
        )


def _read_gltf(path: Path) -> None:
    with _true_seconds():
        run_importer(bpy.ops.import_scene.gltf, path, _GLTF_LABEL)


GLTF = Format("GLTF", _GLTF_LABEL, ".glb", _write_gltf, _read_gltf)
