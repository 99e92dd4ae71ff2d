"""Random walks of an animator's edits, re-bakes to any target, and undo lose none of the animator's keys and strips.

A walk is determined by its seed. Its edits use Blender alone, and its state is read by the functions of this file.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

import bpy
import pytest
from scenes import LAST, new_scene, wobbler
from test_bone_bakes import belly, key_shape
from test_existing_bones import tail
from test_influence import EDITS, edit_influence

pytestmark = [pytest.mark.bpy, pytest.mark.versions]
Load = Callable[[str], ModuleType]
SEEDS = 40
# Targets between which a walk changes, by the object that it edits.
TARGETS = {
    "ball": ("SHAPE_KEYS", "POINT_CACHE", "FRAME_KEYS", "MDD"),
    "keyed ball": ("SHAPE_KEYS", "FRAME_KEYS"),
    "belly": ("BONES", "SHAPE_KEYS"),
    "tail": ("EXISTING_BONES", "BONES"),
}
MADE = "DampSim"
# Blender itself inserts no keyframes beneath modifiers of a curve.
STRIP_EDITS = [edit for edit in EDITS if edit is not edit_influence]
MODIFIERS = ("CYCLES", "NOISE", "LIMITS", "STEPPED", "GENERATOR", "ENVELOPE", "FNGENERATOR")


def make(name: str, cache: Path) -> bpy.types.Object:
    if "ball" not in name:
        obj, rig = (belly if name == "belly" else tail)(cache)
        rig.animation_data_create()
        return obj
    obj = wobbler(cache)
    obj.dampsim.resolution = 60
    if name == "keyed ball":
        key_shape(obj)
    return obj


def blocks(obj: bpy.types.Object) -> list[bpy.types.ID]:
    """Return the datablocks that a bake can animate."""
    return [one for one in (obj, obj.data.shape_keys, obj.parent) if one is not None]


def values(struct: Any) -> dict[str, Any]:
    """Return the plain values of a struct, without those that depend on the selection or on other data."""
    skipped = ("co_ui", "is_valid", "group", "color", "active", "data_path", "length")
    found = {}
    for prop in struct.bl_rna.properties:
        if prop.identifier not in skipped and not prop.identifier.startswith("select") and prop.type != "POINTER":
            value = getattr(struct, prop.identifier)
            if prop.type == "COLLECTION":
                is_shown = prop.identifier in ("control_points",)
                found[prop.identifier] = [values(one) for one in value] if is_shown else None
            else:
                found[prop.identifier] = tuple(value) if getattr(prop, "is_array", False) else value
    return found


def curve_state(curve: bpy.types.FCurve) -> Any:
    keys = [values(key) for key in curve.keyframe_points]
    return values(curve), keys, [(one.type, values(one)) for one in curve.modifiers]


def action_state(action: bpy.types.Action | None) -> Any:
    """Return the curves of an action, without those of the influence of a file."""
    bags = [bag for layer in action.layers for strip in layer.strips for bag in strip.channelbags] if action else []
    curves = [curve for bag in bags for curve in bag.fcurves if f'["{MADE}' not in curve.data_path]
    return {(curve.data_path, curve.array_index): curve_state(curve) for curve in curves}


def strip_state(strip: Any) -> Any:
    is_made = strip.action.name.startswith(MADE)
    curves = {curve.data_path: curve_state(curve) for curve in strip.fcurves}
    # Animated values are those of the last evaluation.
    settings = {name: value for name, value in values(strip).items() if name not in curves}
    return settings, curves, None if is_made else action_state(strip.action)


def artist_state(load: Load, obj: bpy.types.Object) -> dict[str, Any]:
    """Return all animation except the motion of the bake, the influence, and the tracks of the bake by their block."""
    found: dict[str, Any] = {}
    for block in blocks(obj):
        data = block.animation_data
        if data is None:
            continue
        if state := action_state(data.action):
            found[f"{block.name} action"] = state, data.action_influence, data.action_blend_type
        for track in data.nla_tracks:
            if track.name.startswith("DampSim Base") or not track.strips:
                continue
            is_made = all(strip.action.name.startswith(MADE) for strip in track.strips)
            state = track.name, track.mute, track.lock, [strip_state(strip) for strip in track.strips]
            found.setdefault(f"{block.name} {'bake' if is_made else 'tracks'}", []).append(state)
        found.update({f"{block.name} {d.data_path}": d.driver.expression for d in data.drivers})
    curves = load("dampsim_addon.targets.influence").keyed_curves(obj)
    keyed = [curve_state(curve) for curve in curves[:1] if len(curve.keyframe_points)]
    found["influence"] = keyed or round(float(obj.dampsim.influence), 6)
    return found


def kept_state(load: Load, obj: bpy.types.Object, is_same_storage: bool) -> dict[str, Any]:
    """Return what a bake must keep. Strips of the bake itself end with its storage."""
    state = artist_state(load, obj)
    return {name: one for name, one in state.items() if is_same_storage or not name.endswith(" bake")}


def differences(one: Any, other: Any, path: str = "") -> list[str]:
    """Return the places at which two states differ, with both values."""
    if isinstance(one, dict) and isinstance(other, dict) and one.keys() == other.keys():
        pairs = [(key, one[key], other[key]) for key in one]
    elif isinstance(one, (list, tuple)) and isinstance(other, type(one)) and len(one) == len(other):
        pairs = [(str(k), a, b) for k, (a, b) in enumerate(zip(one, other, strict=True))]
    else:
        return [] if one == other else [f"{path}: {one!r}, was {other!r}"]
    return [line for key, a, b in pairs for line in differences(a, b, f"{path}/{key}")]


def edit_keys(load: Load, obj: bpy.types.Object, chance: random.Random) -> None:
    """Key the object, its rig or a shape key of the animator."""
    rig = obj.parent
    owner: Any = chance.choice([rig, rig.pose.bones[0]]) if rig is not None else obj
    owner.location[chance.randrange(3)] += chance.uniform(-0.05, 0.05)
    owner.keyframe_insert("location", frame=chance.randrange(1, LAST))
    keys = obj.data.shape_keys
    if keys is not None and "Smile" in keys.key_blocks:
        keys.key_blocks["Smile"].value = chance.random()
        keys.key_blocks["Smile"].keyframe_insert("value", frame=chance.randrange(1, LAST))


def edit_own_track(load: Load, obj: bpy.types.Object, chance: random.Random) -> None:
    """Add a strip with an action of the animator on a new track, above or below the bake."""
    owner = obj.parent or obj
    data = owner.animation_data or owner.animation_data_create()
    action = bpy.data.actions.new("Mine")
    slot = action.slots.new(id_type="OBJECT", name=owner.name)
    bag = action.layers.new("Layer").strips.new(type="KEYFRAME").channelbag(slot, ensure=True)
    curve = bag.fcurves.new("location", index=chance.randrange(3))
    for frame in (2, 5, 9):
        curve.keyframe_points.insert(frame, chance.uniform(-0.1, 0.1)).interpolation = chance.choice(["BACK", "BEZIER"])
    curve.modifiers.new("NOISE").strength = 0.02
    track = data.nla_tracks.new(prev=chance.choice([None, *data.nla_tracks][-2:]))
    track.name = chance.choice(["Mine", "Jitter", "DampSim"])
    strip = track.strips.new("Mine", 1, action)
    strip.action_slot, strip.blend_type = slot, "ADD"
    track.lock, strip.mute = chance.random() < 0.5, chance.random() < 0.3


def edit_influence_curve(load: Load, obj: bpy.types.Object, chance: random.Random) -> None:
    """Key Influence, and change its curve in the Graph Editor."""
    obj.dampsim.influence = chance.random()
    bpy.context.scene.frame_set(chance.randrange(1, LAST))
    assert bpy.ops.dampsim.key_influence() == {"FINISHED"}
    for curve in load("dampsim_addon.targets.influence").keyed_curves(obj)[:1]:
        key = chance.choice(curve.keyframe_points)
        key.interpolation, key.type = (
            chance.choice(["ELASTIC", "BACK", "CONSTANT"]),
            chance.choice(["EXTREME", "JITTER"]),
        )
        key.amplitude, key.period, key.back = (
            chance.uniform(0.5, 3.0),
            chance.uniform(1.0, 6.0),
            chance.uniform(1.0, 3.0),
        )
        curve.extrapolation = chance.choice(["LINEAR", "CONSTANT"])
        kind = chance.choice(MODIFIERS)
        if kind not in [one.type for one in curve.modifiers] and (kind != "CYCLES" or not curve.modifiers):
            made = curve.modifiers.new(kind)
            made.use_restricted_range = made.use_influence = True
            made.frame_start, made.frame_end, made.blend_in, made.influence = 2.0, 9.0, 1.5, 0.4
            if kind == "ENVELOPE":
                made.control_points.add(4.0)
                # Setting it at the point itself may end Blender.
                made.control_points.foreach_set("max", [0.7])
            elif kind == "GENERATOR":
                made.poly_order = 2
                made.coefficients = (0.1, 0.5, 0.01)
        curve.update()


def edit_bake_strip(load: Load, obj: bpy.types.Object, chance: random.Random) -> None:
    tracks = [
        t for b in blocks(obj) if b.animation_data for t in b.animation_data.nla_tracks if t.name == "DampSim Bake"
    ]
    strips = [strip for track in tracks for strip in track.strips]
    if strips:
        chance.choice(STRIP_EDITS)(chance.choice(strips), chance)


STEPS = (edit_keys, edit_own_track, edit_influence_curve, edit_influence_curve, edit_bake_strip, edit_bake_strip)


def seed_parameters() -> list[Any]:
    return [pytest.param(seed, marks=pytest.mark.slow if seed >= 2 else ()) for seed in range(SEEDS)]


@pytest.mark.parametrize("seed", seed_parameters())
def test_walks_keep_artists_work(load: Load, tmp_path: Path, seed: int) -> None:
    """A bake keeps all animation, whether it stays with its target or moves to another one, and after undo and redo."""
    chance = random.Random(seed)
    subject = list(TARGETS)[seed % len(TARGETS)]
    new_scene()
    obj, targets = make(subject, tmp_path / "cache"), load("dampsim_addon.targets")
    name = obj.name
    bpy.context.view_layer.objects.active = obj
    obj.dampsim.target = TARGETS[subject][0]
    assert bpy.ops.dampsim.bake() == {"FINISHED"}
    log: list[str] = []
    for _ in range(3):
        for step in chance.choices(STEPS, k=3):
            log.append(step.__name__)
            step(load, obj, chance)
        bpy.context.scene.frame_set(1)
        target = chance.choice(TARGETS[subject])
        storages = [targets.find_target(one).storage for one in (obj.dampsim.baked, target)]
        # The record of new bones differs from that of existing ones.
        is_same = storages[0] == storages[1] and (target == obj.dampsim.baked or "BONES" not in target)
        before = kept_state(load, obj, is_same)
        obj.dampsim.target = target
        obj.dampsim.settle += 0.5
        bpy.ops.ed.undo_push(message="Edits")
        log.append(f"bake to {target}")
        assert bpy.ops.dampsim.bake() == {"FINISHED"}, log
        assert differences(kept_state(load, obj, is_same), before) == [], log
        if chance.random() < 0.5:
            log.append("undo")
            bpy.ops.ed.undo_push(message="Bake")
            bpy.ops.ed.undo()
            obj = bpy.data.objects[name]
            assert differences(kept_state(load, obj, is_same), before) == [], log
            if chance.random() < 0.5:
                log.append("redo")
                bpy.ops.ed.redo()
            else:
                assert bpy.ops.dampsim.bake() == {"FINISHED"}, log
            obj = bpy.data.objects[name]
            assert differences(kept_state(load, obj, is_same), before) == [], log
    before = kept_state(load, obj, False)
    assert bpy.ops.dampsim.clear() == {"FINISHED"}
    after = kept_state(load, obj, False)
    before.pop("influence"), after.pop("influence")
    assert differences(after, before) == [], log
