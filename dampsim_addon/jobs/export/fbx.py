"""FBX export with morph targets."""

from __future__ import annotations

from pathlib import Path

import bpy

from .form import Format, run_exporter, run_importer

_LABEL = "FBX"


def _write(path: Path) -> None:
    run_exporter(
        bpy.ops.export_scene.fbx,
        path,
        _LABEL,
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


def _read(path: Path) -> None:
    run_importer(bpy.ops.wm.fbx_import, path, _LABEL, anim_offset=0.0)
    # The importer connects adjacent bones. Connected bones ignore their location keys.
    for rig in [obj for obj in bpy.context.scene.objects if obj.type == "ARMATURE"]:
        bpy.context.view_layer.objects.active = rig
        bpy.ops.object.mode_set(mode="EDIT")
        for bone in rig.data.edit_bones:
            bone.use_connect = False
        bpy.ops.object.mode_set(mode="OBJECT")


FBX = Format("FBX", _LABEL, ".fbx", _write, _read, reads_metres=True)
