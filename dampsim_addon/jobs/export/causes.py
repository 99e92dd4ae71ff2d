"""Parts of an object that a format cannot hold, each with a fix: known before the export, and causes of errors."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

import bpy
import numpy as np

from ....core import SceneError
from ....core.base.arrays import Mask
from ....core.base.wording import format_count, format_percent
from ...blender.animation import user_fcurves
from ...blender.bone_bakes import read_record, record_mark
from ...blender.dampsim_names import bake_keys, is_output_modifier
from ...blender.geometry_nodes import modifier_effect
from ...blender.modifiers import can_change_topology, is_deforming
from ...blender.movers import moves_on_its_own
from ...blender.sampler import mode_name
from ...blender.vertex_groups import MAX_EXPORTED_BONES
from ...scene_reader.contributors import unbaked_caches
from ...scene_reader.mesh_parts import limit_bone_weights
from ...status.bake_changes import baked_number
from ...status.pieces import is_accepted, known_parts, known_piece_messages, refresh_parts
from ...targets.retiming import played_frames
from .engines import Engine, exceeded_limits
from .formats import ExportResult, Format
from .rig_causes import lost_motion, lost_scale, lost_skinning, short_list
from .staging import omitted_modifiers


def export_warning(scene: bpy.types.Scene, obj: bpy.types.Object, result: ExportResult, numbers: Sequence[int]) -> str:
    """Return the warning for an object whose error after an export is large, with its probable causes.

    numbers: exported frames. An animated scale may shear the object at some of them only.
    """
    causes: list[str] = []
    for number in dict.fromkeys(numbers[place] for place in (0, len(numbers) // 2, -1)):
        scene.frame_set(number)
        causes += [text for text in lost_parts(obj, result.format) if text not in causes]
    causes = causes or ["Compare the file with the scene in the program that reads it."]
    return f"{obj.name}: {result.label} is off by {format_percent(result.part)} of its size. {' '.join(causes)}"


def lost_parts(obj: bpy.types.Object, form: str) -> Iterator[str]:
    """Yield a sentence with a fix for each part of an object that a format cannot hold. Evaluates nothing."""
    if form not in ("GLTF", "FBX"):
        yield from _unbaked_simulations(obj)
        yield from lost_scale(obj, form)
        return
    parts = known_parts(obj)
    # Bakes to bones are exported with all influences; see export_notes().
    is_limited = form == "GLTF" and not record_mark(obj.data)
    heavy = int(parts.overweighted.sum()) if parts is not None and is_limited else 0
    if heavy:
        have = "has" if heavy == 1 else "have"
        yield (
            f"{format_count(heavy, 'vertex')} {have} more than {MAX_EXPORTED_BONES} bone weights; press Limit to "
            f"{MAX_EXPORTED_BONES} Bones and bake again."
        )
    loose = 0 if parts is None or is_accepted(obj, "faceless", parts.faceless) else int(parts.faceless.sum())
    if loose and form == "GLTF":
        belong = "belongs" if loose == 1 else "belong"
        yield f"{format_count(loose, 'vertex')} {belong} to no face; use Mesh › Clean Up › Delete Loose."
    yield from _lost_shape_keys(obj, form)
    for modifier in obj.modifiers:
        lost = modifier.type != "ARMATURE" and modifier.show_viewport and _moves_vertices(modifier)
        if lost and not is_output_modifier(modifier):
            yield (
                f"The modifier '{modifier.name}' moves vertices, and files hold only shape keys and bones; export "
                "Alembic or USD, or clear the bake, apply the modifier and bake again."
            )
    yield from lost_skinning(obj, form)
    yield from lost_motion(obj, form)
    yield from lost_scale(obj, form)


def export_notes(
    obj: bpy.types.Object, form: Format, frames: tuple[int, int], engine: Engine | None = None
) -> list[str]:
    """Return remarks on an export: unpinned pieces, exceeded limits of an engine, and frames outside the bake.

    frames: first and last exported frame.
    """
    first, last = (round(baked_number(obj, label)) for label in ("Frame Start", "End"))
    notes = known_piece_messages(obj)
    record = read_record(obj.data) if engine is None else None
    if engine is not None and not form.holds_vertices:
        notes += [text.removesuffix(".") for text in exceeded_limits(obj, engine)]
    if record is not None and max((len(row) for row in record.new), default=0) > MAX_EXPORTED_BONES:
        notes.append(
            f"some vertices have more than {MAX_EXPORTED_BONES} bone weights, and many glTF importers keep "
            f"{MAX_EXPORTED_BONES}; set Influences to {MAX_EXPORTED_BONES} and bake again for those"
        )
    first, last = played_frames(obj, first, last + obj.dampsim.loop)
    if last > first and (frames[0] < first or frames[1] > last):
        notes.append(f"the bake covers frames {first} to {last}, but the export frames {frames[0]} to {frames[1]}")
    return notes


def omission_note(obj: bpy.types.Object, holds_vertices: bool) -> str:
    """Return a remark on the modifiers of an object that an export leaves out, with a fix; '' if there are none."""
    names = short_list([modifier.name for modifier in omitted_modifiers(obj, holds_vertices)])
    return names and (
        f"the file leaves out modifiers that change the number of vertices ({names}); add them where it is read, or "
        "clear the bake, apply them and bake again"
    )


def omitted_vertices(obj: bpy.types.Object, form: str) -> Mask:
    """Return the vertices (v,) that a format leaves out with the user's consent: in glTF, those without faces."""
    parts = known_parts(obj)
    if form != "GLTF" or parts is None or not is_accepted(obj, "faceless", parts.faceless):
        return np.zeros(len(obj.data.vertices), dtype=bool)
    return parts.faceless


def apply_bone_limit(obj: bpy.types.Object) -> None:
    """Keep the largest bone weights of each vertex, as many as files hold. Raises SceneError."""
    if obj.mode != "OBJECT":
        mode = mode_name(obj)
        raise SceneError(f"{obj.name}: leave {mode} Mode before changing bone weights.")
    if not obj.data.is_editable:
        raise SceneError(f"{obj.name}: its mesh is linked from another file; change the bone weights there.")
    limit_bone_weights(obj)
    refresh_parts(obj, is_forced=True)


def exporter_failure(path: Path, form: Format, objects: Iterable[bpy.types.Object]) -> str:
    """Return why an exporter failed: a node group of a material is missing. '' if none is."""
    for obj in objects:
        for slot in obj.material_slots:
            tree = slot.material.node_tree if slot.material is not None else None
            for node in tree.nodes if tree is not None else ():
                group = node.node_tree if node.type == "GROUP" else None
                if group is not None and (
                    group.is_missing or not any(one.type == "GROUP_OUTPUT" for one in group.nodes)
                ):
                    return (
                        f"{path.name}: Blender's {form.label} export failed, because the node group '{group.name}' of "
                        f"the material '{slot.material.name}' is missing or has no output; relocate its library, or "
                        "remove the node."
                    )
    return ""


def _unbaked_simulations(obj: bpy.types.Object) -> Iterator[str]:
    """Yield a sentence for each modifier with a simulation of Blender that plays only from its cache."""
    for modifier in obj.modifiers:
        if modifier.show_viewport and any(unbaked_caches(modifier, bpy.context.scene, uses_particles=False)):
            yield f"The modifier '{modifier.name}' is not baked, and exporters play only its cache; bake it first."


def _lost_shape_keys(obj: bpy.types.Object, form: str) -> Iterator[str]:
    """Yield a sentence for each setting of the shape keys that a format cannot hold."""
    keys = obj.data.shape_keys
    if keys is None:
        return
    if obj.show_only_shape_key:
        yield "Solo Active Shape Key hides its bake; switch off the pin beside the shape keys."
    made = bake_keys(keys)
    for key in keys.key_blocks:
        if key.mute or key in made or key == keys.reference_key:
            continue
        if not 0.0 <= min(values := _key_values(key)) <= max(values) <= 1.0:
            yield (
                f"The values of its shape key '{key.name}' leave the range from 0 to 1, where readers cut them off; "
                "scale the shape instead and bake again."
            )
        if form == "GLTF" and key.vertex_group:
            yield f"glTF ignores the vertex group of its shape key '{key.name}'; apply the group to the shape."
        if form == "GLTF" and key.relative_key != keys.reference_key:
            yield (
                f"glTF takes its shape key '{key.name}' relative to '{keys.reference_key.name}'; make it relative to "
                "that key."
            )


def _key_values(key: bpy.types.ShapeKey) -> list[float]:
    """Return the value of a shape key and those of its keyframes, within its range."""
    path = key.path_from_id("value")
    curves = (curve for curve in user_fcurves(key.id_data) if curve.data_path == path)
    values = [key.value, *(point.co.y for curve in curves for point in curve.keyframe_points)]
    return [min(max(value, key.slider_min), key.slider_max) for value in values]


def _moves_vertices(modifier: bpy.types.Modifier) -> bool:
    """Return whether a modifier moves vertices, also by the same amount at all frames, and keeps their number."""
    if modifier.type == "NODES":
        effect = modifier_effect(modifier)
        return effect.keeps_topology and effect.moves_points
    return is_deforming(modifier) or (not can_change_topology(modifier) and moves_on_its_own(modifier))
