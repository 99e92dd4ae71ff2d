"""glTF export with morph targets."""

from __future__ import annotations

from contextlib import AbstractContextManager
from pathlib import Path

import bpy

from ...blender.bone_bakes import record_mark
from .form import Format, run_exporter, run_importer
from .staging import temporary_values

_LABEL = "glTF"


def _true_seconds() -> AbstractContextManager[None]:
    """Context in which Blender's exporter and importer count seconds at the frame rate of the scene in the window.

    They multiply its fps by its base instead of dividing, which is wrong for rates such as 29.97 (30 / 1.001).
    """
    render = bpy.context.scene.render
    return temporary_values([(render, "fps_base", 1.0 / render.fps_base)])


def _write(path: Path) -> None:
    with _true_seconds():
        run_exporter(
            bpy.ops.export_scene.gltf,
            path,
            _LABEL,
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


def _read(path: Path) -> None:
    with _true_seconds():
        run_importer(bpy.ops.import_scene.gltf, path, _LABEL)


GLTF = Format("GLTF", _LABEL, ".glb", _write, _read)
