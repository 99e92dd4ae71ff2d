"""Values of animation at other frames: as Blender evaluates them, in random NLA stacks and drivers."""

from __future__ import annotations

import random
from collections.abc import Callable
from types import ModuleType

import bpy
import numpy as np
import pytest
from scenes import new_scene

pytestmark = [pytest.mark.bpy, pytest.mark.versions]
Load = Callable[[str], ModuleType]
LAST = 30
MODES = ("REPLACE", "ADD", "SUBTRACT", "MULTIPLY", "COMBINE")


def evaluated(obj: bpy.types.Object, path: str, index: int | None = None) -> list[float]:
    """Return the values of a property as Blender evaluates them at each frame."""
    found = []
    for frame in range(1, LAST + 1):
        bpy.context.scene.frame_set(frame)
        value = obj.evaluated_get(bpy.context.evaluated_depsgraph_get()).path_resolve(path)
        found.append(float(value if index is None else value[index]))
    return found


def predicted(load: Load, obj: bpy.types.Object, path: str, index: int = 0) -> np.ndarray:
    values = load("dampsim_addon.blender.animated_values").animated_values(obj, path, range(1, LAST + 1), index)
    # Muted animation leaves the current value.
    return np.full(LAST, evaluated(obj, path, index)[0]) if values is None else values


def empty(name: str) -> bpy.types.Object:
    obj = bpy.data.objects.new(name, None)
    bpy.context.scene.collection.objects.link(obj)
    return obj


def new_action(obj: bpy.types.Object, dice: random.Random) -> None:
    """Key scale and visibility in a new action."""
    obj.animation_data_create().action = None
    for frame in sorted(dice.sample(range(1, 15), 3)):
        obj.scale = [dice.choice((0.0, 0.5, 1.0, 2.0)) for _ in range(3)]
        obj.hide_viewport = dice.random() < 0.5
        obj.keyframe_insert("scale", frame=frame)
        obj.keyframe_insert("hide_viewport", frame=frame)


def add_strip(obj: bpy.types.Object, dice: random.Random, track: bpy.types.NlaTrack, start: int) -> None:
    data = obj.animation_data
    action, slot = data.action, data.action_slot
    strip = track.strips.new("Mine", start, action)
    strip.action_slot, data.action = slot, None
    strip.extrapolation, strip.blend_type = dice.choice(("NOTHING", "HOLD", "HOLD_FORWARD")), dice.choice(MODES)
    strip.use_reverse, strip.mute = dice.random() < 0.2, dice.random() < 0.1
    strip.scale, strip.repeat = dice.choice((1.0, 1.0, 0.5, 0.8)), dice.choice((1.0, 1.0, 2.0, 1.5))
    if dice.random() < 0.3:
        strip.use_animated_influence, strip.influence = True, dice.choice((0.0, 0.4, 1.0))
    elif dice.random() < 0.3:
        strip.blend_in, strip.blend_out = 2.0, 1.0


@pytest.mark.parametrize("seed", range(40))
def test_strips_play_as_in_blender(load: Load, seed: int) -> None:
    new_scene(LAST)
    obj, dice = empty("Strips"), random.Random(seed)
    for _ in range(dice.randint(1, 3)):
        track = obj.animation_data_create().nla_tracks.new()
        for start in (2, 40) if dice.random() < 0.2 else (dice.randint(1, 12),):
            new_action(obj, dice)
            add_strip(obj, dice, track, start)
        track.mute = dice.random() < 0.1
    if dice.random() < 0.2:
        track.is_solo, track.mute = True, dice.random() < 0.5
    if dice.random() < 0.5:
        new_action(obj, dice)
        data = obj.animation_data
        data.action_extrapolation = dice.choice(("NOTHING", "HOLD", "HOLD_FORWARD"))
        data.action_blend_type, data.action_influence = dice.choice(MODES), dice.choice((0.5, 1.0))
    for axis in range(3):
        np.testing.assert_allclose(predicted(load, obj, "scale", axis), evaluated(obj, "scale", axis), atol=1e-5)
    tracks = obj.animation_data.nla_tracks
    if all(track.mute and not track.is_solo for track in tracks) and obj.animation_data.action is None:
        return
    shown = load("dampsim_addon.blender.animated_values").first_disabled_frame(obj, 1, LAST)
    hidden = [frame for frame, value in enumerate(evaluated(obj, "hide_viewport"), 1) if value]
    assert shown == (hidden[0] if hidden else None)


@pytest.mark.parametrize(
    "expression",
    [
        "frame / 10", "1.0 if frame < 6 else 0.0", "0 < a <= 1", "not a or frame > 20", "a and b", "max(a, 0.3, b)",
        "clamp(a - 0.5)", "lerp(a, b, 0.25)", "floor(frame / 7) % 3", "-a ** 2 + int(b * 3)", "round(frame / 4)",
        "abs(sin(radians(frame * 9)))", "sqrt(abs(a)) + True",
    ],
)  # fmt: skip
@pytest.mark.parametrize("curve", [False, True])
def test_drivers_calculate_as_in_blender(load: Load, expression: str, curve: bool) -> None:
    new_scene(LAST)
    obj, source = empty("Driven"), empty("Source")
    source["a"], source.location.y = 0.0, 0.5
    for frame, value in ((1, -1.0), (10, 1.0), (20, 0.0), (29, 2.0)):
        source["a"] = value
        source.keyframe_insert('["a"]', frame=frame)
    fcurve = obj.driver_add("scale", 1)
    for name, path in (("a", '["a"]'), ("b", "location.y")):
        variable = fcurve.driver.variables.new()
        variable.name, variable.targets[0].id, variable.targets[0].data_path = name, source, path
    fcurve.driver.expression = expression
    if curve:
        for modifier in list(fcurve.modifiers):
            fcurve.modifiers.remove(modifier)
        for x, y in ((0.0, 1.0), (1.0, 0.0), (2.0, 0.5)):
            fcurve.keyframe_points.insert(x, y)
    np.testing.assert_allclose(predicted(load, obj, "scale", 1), evaluated(obj, "scale", 1), atol=1e-5)


@pytest.mark.parametrize("kind", ["AVERAGE", "SUM", "MIN", "MAX"])
def test_driver_chains_as_in_blender(load: Load, kind: str) -> None:
    new_scene(LAST)
    obj, source = empty("Driven"), empty("Source")
    source.driver_add("location", 0).driver.expression = "frame - 15"
    source.location.y = 3.0
    driver = obj.driver_add("scale", 2).driver
    driver.type = kind
    for path in ("location[0]", "location[1]"):
        target = driver.variables.new().targets[0]
        target.id, target.data_path = source, path
    np.testing.assert_allclose(predicted(load, obj, "scale", 2), evaluated(obj, "scale", 2), atol=1e-5)


@pytest.mark.parametrize(
    "expression",
    ["bpy.context.scene.frame_current", "self.location.x", "sum([frame])", "unknown(frame)", "frame +", "1 / 0"],
)
def test_python_drivers_are_unknown(load: Load, expression: str) -> None:
    new_scene(LAST)
    obj = empty("Driven")
    obj.driver_add("scale", 0).driver.expression = expression
    assert load("dampsim_addon.blender.animated_values").animated_values(obj, "scale", range(1, LAST)) is None


def test_tweak_mode_is_unknown(load: Load) -> None:
    """A strip that is edited plays at its own place, not where its action has its keyframes."""
    new_scene(LAST)
    obj, dice = empty("Tweaked"), random.Random(1)
    new_action(obj, dice)
    data = obj.animation_data
    track = data.nla_tracks.new()
    add_strip(obj, dice, track, 15)
    track.select = track.strips[0].select = True
    data.nla_tracks.active, data.use_tweak_mode = track, True
    assert data.action is not None
    assert load("dampsim_addon.blender.animated_values").animated_values(obj, "scale", range(1, LAST)) is None


def test_curves_of_deleted_bones(load: Load) -> None:
    """The keyframes of a bone stay when it is deleted."""
    scene = new_scene(LAST)
    rig = bpy.data.objects.new("Rig", bpy.data.armatures.new("Rig"))
    scene.collection.objects.link(rig)
    bpy.context.view_layer.objects.active = rig
    bpy.ops.object.mode_set(mode="EDIT")
    for name in ("Gone", "Kept"):
        rig.data.edit_bones.new(name).tail = 0.0, 0.0, 1.0
    bpy.ops.object.mode_set(mode="OBJECT")
    for name in ("Gone", "Kept"):
        rig.pose.bones[name].scale = 0.0, 0.0, 0.0
        rig.pose.bones[name].keyframe_insert("scale", frame=5)
    bpy.ops.object.mode_set(mode="EDIT")
    rig.data.edit_bones.remove(rig.data.edit_bones["Gone"])
    bpy.ops.object.mode_set(mode="OBJECT")
    found = load("dampsim_addon.ui.bake.motion_checks")._zero_scales(rig, scene)
    assert list(found) == ['pose.bones["Kept"].scale']


def test_muted_sources_are_unknown(load: Load) -> None:
    """A property whose only track is muted keeps its value, and not its default, while other tracks play."""
    new_scene(LAST)
    obj, source = empty("Driven"), empty("Source")
    for path in ("location", "scale"):
        source.keyframe_insert(path, frame=1)
        add_strip(source, random.Random(0), source.animation_data.nla_tracks.new(), 1)
    source.animation_data.nla_tracks[0].mute, source.location.x = True, 3.0
    read(obj, source, "location.x")
    assert load("dampsim_addon.blender.animated_values").animated_values(obj, "scale", range(1, LAST)) is None


def test_mixed_rotations_are_unknown(load: Load) -> None:
    """Strips combine all components of a quaternion."""
    new_scene(LAST)
    obj, source = empty("Driven"), empty("Source")
    source.rotation_mode = "QUATERNION"
    for frame in (1, 9):
        source.rotation_quaternion = 1.0, frame, 0.0, 0.0
        source.keyframe_insert("rotation_quaternion", frame=frame)
    read(obj, source, "rotation_quaternion[1]")
    np.testing.assert_allclose(predicted(load, obj, "scale"), evaluated(obj, "scale", 0), atol=1e-5)
    add_strip(source, random.Random(0), source.animation_data.nla_tracks.new(), 1)
    source.animation_data.nla_tracks[0].strips[0].blend_type = "COMBINE"
    assert load("dampsim_addon.blender.animated_values").animated_values(obj, "scale", range(1, LAST)) is None


def read(obj: bpy.types.Object, source: bpy.types.ID, path: str) -> None:
    """Drive the first scale of an object by a property."""
    driver = obj.driver_add("scale", 0).driver
    target = driver.variables.new().targets[0]
    driver.type, target.id, target.data_path = "SUM", source, path


@pytest.mark.parametrize(
    ("path", "expression"),
    [
        ("pass_index", "frame / 10"), ("pass_index", "5 - frame"), ("hide_render", "frame / 20"),
        ("empty_display_size", "frame - 20"), ('["count"]', "frame / 10 - 1.5"), ('["part"]', "frame / 10 - 1"),
        ('["switch"]', "frame / 10 - 0.5"),
    ],
)  # fmt: skip
def test_sources_keep_their_limits(load: Load, path: str, expression: str) -> None:
    """Drivers read what a property keeps of the value that another driver gives it."""
    new_scene(LAST)
    obj, source = empty("Driven"), empty("Source")
    source["count"], source["part"], source["switch"] = 1, 0.5, True
    source.id_properties_ui("part").update(min=0.0, max=1.0)
    source.driver_add(path).driver.expression = expression
    read(obj, source, path)
    np.testing.assert_allclose(predicted(load, obj, "scale"), evaluated(obj, "scale", 0), atol=1e-5)


@pytest.mark.parametrize("path", ["dimensions.x", "matrix_world[3][0]", 'data.shape_keys.key_blocks["Key"].value'])
def test_calculated_sources_are_unknown(load: Load, path: str) -> None:
    """Properties that others determine, and those of other datablocks, have no animation of their own."""
    scene = new_scene(LAST)
    mesh = bpy.data.meshes.new("Source")
    mesh.from_pydata([(0, 0, 0), (1, 0, 0), (0, 1, 0)], [], [(0, 1, 2)])
    obj, source = empty("Driven"), bpy.data.objects.new("Source", mesh)
    scene.collection.objects.link(source)
    source.shape_key_add(name="Basis")
    key = source.shape_key_add(name="Key")
    for frame in (1, LAST):
        source.scale.x = source.location.x = key.value = frame / LAST
        for block, name in ((source, "scale"), (source, "location"), (key, "value")):
            block.keyframe_insert(name, frame=frame)
    read(obj, source, path)
    assert load("dampsim_addon.blender.animated_values").animated_values(obj, "scale", range(1, LAST)) is None
