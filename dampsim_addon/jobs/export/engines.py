"""Limits of game engines: weights of a vertex, morph targets and bones. A new engine is one entry of ENGINES."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import bpy

from ....core.base.wording import format_count
from ...blender.bone_bakes import own_bones, read_record, rig_of
from ...blender.dampsim_names import bake_keys
from ...blender.vertex_groups import MAX_EXPORTED_BONES, positive_weights

# Smallest number of compressed keys that move: one of them is the offset.
_MIN_KEYS = 2


@dataclass(frozen=True)
class Engine:
    """Game engine, or a class of importers. name, label: identifier and name.

    influences: weights of a vertex that it keeps by default.  morphs: morph targets of a mesh; 0 without a limit.
    bones: bones of a mesh beyond which it splits the mesh or rejects it; 0 without a limit.
    description: tooltip; '' for one that names the engine.
    """

    name: str
    label: str
    influences: int
    morphs: int = 0
    bones: int = 0
    description: str = ""


# Sources, by engine:
# glTF 2.0 specification, 3.7.2.1 (one set of four joints) and 3.7.2.2 (eight morph targets), which every importer has
# to support. The specification limits no number of joints.
# three.js r187, documentation of SkinnedMesh: skinIndex and skinWeight have four components.
# Unity 2022.3, Scripting API, QualitySettings.skinWeights: one, two, four or unlimited; four in new projects.
# Babylon.js 8, shader include bonesVertex: two sets of four.
# Godot 4, class reference of Mesh, ARRAY_FLAG_USE_8_BONE_WEIGHTS: four or eight.
# Unreal Engine 5.3, Skeletal Mesh Rendering Paths: 8-bit bone indices by default, so 256 bones in a section.
ENGINES = (
    Engine("GLTF", "Any glTF Importer", 4, 8, description="Check the limits of every glTF importer"),
    Engine("THREE", "three.js", 4),
    Engine("UNITY", "Unity", 4),
    Engine("BABYLON", "Babylon.js", 8),
    Engine("GODOT", "Godot", 8),
    Engine("UNREAL", "Unreal Engine", 8, bones=256),
)


def find_engine(name: str) -> Engine | None:
    """Return an engine by name; None for others."""
    return next((engine for engine in ENGINES if engine.name == name), None)


def exceeded_limits(obj: bpy.types.Object, engine: Engine) -> Iterator[str]:
    """Yield a sentence with a fix for each limit of an engine that a baked object exceeds. Evaluates nothing."""
    rig = rig_of(obj)
    bones = [bone.name for bone in rig.data.bones if bone.use_deform] if rig is not None else []
    yield from _exceeding_weights(obj, engine, bones)
    yield from _exceeding_keys(obj, engine)
    if 0 < engine.bones < len(bones):
        fix = "lower Max Bones, or turn off Deform for bones that move no vertices"
        text = f"rig {rig.name} has {len(bones)} deforming bones, more than {engine.bones}"
        yield f"{engine.label}: {text}; {fix}. Bake again."


def _exceeding_weights(obj: bpy.types.Object, engine: Engine, bones: list[str]) -> Iterator[str]:
    """Yield a sentence on vertices that too many bones of the user move, and one on vertices of the bake.

    A bake gives a vertex no more weights than Influences, except where more bones of the user carry it.
    """
    limit = engine.influences
    weights = positive_weights(obj, [name for name in bones if name in obj.vertex_groups])
    heavy = {vertex: set(row) for vertex, row in enumerate(weights) if len(row) > limit}
    if not heavy:
        return
    users = sum(count > limit for count in _count_user_bones(obj, heavy, set(bones)))
    if limit == MAX_EXPORTED_BONES:
        limiting = f"press Limit to {MAX_EXPORTED_BONES} Bones"
    else:
        limiting = f"use Weights › Limit Total with Limit {limit}"
    for count, fix in ((users, limiting), (len(heavy) - users, f"set Influences to {limit}")):
        if count:
            have = "has" if count == 1 else "have"
            text = f"{format_count(count, 'vertex')} {have} more than {limit} bone weights"
            yield f"{engine.label}: {text}; {fix}. Bake again."


def _count_user_bones(obj: bpy.types.Object, heavy: dict[int, set[int]], bones: set[str]) -> list[int]:
    """Return how many bones of the user move each heavy vertex without the bake. heavy: vertex groups by vertex."""
    record = read_record(obj.data)
    if record is None:
        return [len(groups) for groups in heavy.values()]
    added = set(own_bones(rig_of(obj), record.mark) or record.parents)
    is_same = record.count == len(obj.data.vertices)
    previous = dict(zip(record.vertices, record.old, strict=True)) if is_same else {}
    names = {group.index: group.name for group in obj.vertex_groups}
    return [
        sum(weight > 0.0 and name in bones for name, weight in previous[vertex]) if vertex in previous
        else sum(names[group] not in added for group in groups)
        for vertex, groups in heavy.items()
    ]  # fmt: skip


def _exceeding_keys(obj: bpy.types.Object, engine: Engine) -> Iterator[str]:
    """Yield a sentence on too many morph targets. Keys of the user leave fewer to the bake."""
    keys = obj.data.shape_keys
    count = len(keys.key_blocks) - 1 if keys is not None else 0
    if not 0 < engine.morphs < count:
        return
    # A bake also makes the basis if there is none.
    baked = sum(key != keys.reference_key for key in bake_keys(keys))
    allowed = engine.morphs - (count - baked)
    if not baked or allowed < _MIN_KEYS:
        fix = "remove shape keys"
    elif obj.dampsim.baked == "SHAPE_KEYS":
        fix = f"set Max Keys to {allowed}"
    else:
        fix = f"bake to Compressed Keys with Max Keys {allowed}"
    yield f"{engine.label}: it has {count} morph targets, more than {engine.morphs}; {fix}. Bake again."
