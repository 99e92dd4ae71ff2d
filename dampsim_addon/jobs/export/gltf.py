"""glTF with morphs."""

from __future__ import annotations

from pathlib import Path

import bpy

from .form import Format, bring_in, export

_LABEL = "glTF"


def _write(path: Path) -> None:
    export(
        bpy.ops.export_scene.gltf,
        path,
        _LABEL,
        export_format="GLB",
        use_selection=True,
        # One animation for all objects, sampled frame by frame: so drivers, NLA and shape keys play together.
        export_animation_mode="SCENE",
        export_anim_scene_split_object=False,
        export_force_sampling=True,
        export_optimize_animation_size=False,
        export_frame_range=True,
        export_morph=True,
        export_morph_animation=True,
        # Normals for each of many keys would weigh more than the keys.
        export_morph_normal=False,
        export_morph_tangent=False,
        # Applied modifiers would lose the keys.
        export_apply=False,
    )


def _read(path: Path) -> None:
    bring_in(bpy.ops.import_scene.gltf, path, _LABEL)


GLTF = Format("GLTF", _LABEL, ".glb", _write, _read)
