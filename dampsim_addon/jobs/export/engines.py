"""Limits of game engines: weights of a vertex, morph targets and bones. A new engine is one entry of ENGINES."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import bpy

from ....core.base.wording import format_count
from ...blender.bone_bakes import record_mark, rig_of
from ...blender.dampsim_names import bake_keys
from ...blender.vertex_groups import MAX_EXPORTED_BONES


@dataclass(frozen=True)
class Engine:
    """Game engine, or a class of readers. name, label: identifier and name.

    influences: weights of a vertex that it keeps by default.  morphs: morph targets of a mesh; 0 without a limit.
    bones: bones of a rig, beyond which some of its platforms split or refuse a mesh.
    """

    name: str
    label: str
    influences: int
    morphs: int = 0
    bones: int = 256


# Sources: the specification of glTF 2.0 (3.7.2.1 and 3.7.2.2), and the manuals of the engines. Unity keeps more weights
# if Skin Weights is set to Unlimited.
ENGINES = (
    Engine("GLTF", "Any Reader of glTF", 4, 8),
    Engine("THREE", "three.js", 4),
    Engine("UNITY", "Unity", 4),
    Engine("BABYLON", "Babylon.js", 8),
    Engine("GODOT", "Godot", 8),
    Engine("UNREAL", "Unreal Engine", 8),
)


def find_engine(name: str) -> Engine | None:
    """Return an engine by name; None for others."""
    return next((engine for engine in ENGINES if engine.name == name), None)


def exceeded_limits(obj: bpy.types.Object, engine: Engine) -> Iterator[str]:
    """Yield a sentence with a fix for each limit of an engine that a baked object exceeds. Evaluates nothing."""
    rig = rig_of(obj)
    bones = [bone.name for bone in rig.data.bones if bone.use_deform] if rig is not None else []
    groups = {obj.vertex_groups[name].index for name in bones if name in obj.vertex_groups}
    counts = [sum(one.group in groups and one.weight > 0.0 for one in v.groups) for v in obj.data.vertices]
    heavy, least = sum(count > engine.influences for count in counts), engine.influences
    if heavy:
        have = "has" if heavy == 1 else "have"
        is_baked = record_mark(obj.data) != ""
        fix = f"set Influences to {least}" if is_baked else f"press Limit to {MAX_EXPORTED_BONES} Bones"
        text = f"{format_count(heavy, 'vertex')} {have} more than {least} bone weights"
        yield f"{engine.label}: {text}; {fix}. Bake again."
    keys = obj.data.shape_keys
    count = len(keys.key_blocks) - 1 if keys is not None else 0
    if 0 < engine.morphs < count:
        fix = f"set Max Keys to {engine.morphs}" if bake_keys(keys) else "remove shape keys"
        yield f"{engine.label}: {count} morph targets are more than {engine.morphs}; {fix}. Bake again."
    if len(bones) > engine.bones:
        text = f"{rig.name} has {len(bones)} deforming bones, more than {engine.bones}"
        yield f"{engine.label}: {text}; bake to fewer bones."
