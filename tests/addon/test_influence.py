"""Influence of a bake: exact at every value, muted, scaled and repeated, and kept by re-bakes."""

from __future__ import annotations

import contextlib
import random
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

import bpy
import numpy as np
import pytest
from scenes import LAST, dump, new_scene, size, wobbler, world_vertices
from test_drawing import Context, Layout

pytestmark = [pytest.mark.bpy, pytest.mark.versions]
Load = Callable[[str], ModuleType]
RELATIVE = ("SHAPE_KEYS", "FRAME_KEYS")
POINT_FILES = ("POINT_CACHE", "MDD")
FRAMES = (1, 4, 6, 7, 9, LAST)


def bake(obj: bpy.types.Object, target: str) -> None:
    bpy.context.view_layer.objects.active = obj
    obj.dampsim.target = target
    assert bpy.ops.dampsim.bake() == {"FINISHED"}


def tracks(obj: bpy.types.Object) -> Any:
    return obj.data.shape_keys.animation_data.nla_tracks


def bake_strip(obj: bpy.types.Object) -> Any:
    return tracks(obj)[-1].strips[0]


def shapes(obj: bpy.types.Object, frames: tuple[float, ...] = FRAMES) -> np.ndarray:
    return np.array([world_vertices(obj, frame) for frame in frames])


def bound(obj: bpy.types.Object) -> float:
    """Return the largest permitted error, m. Exact targets store single precision."""
    exact = 2e-6 * size(world_vertices(obj, 1))
    # The measured error is stored in single precision, too.
    return max((1.0 + 1e-6) * float(obj.dampsim.baked_error), exact)


def worst(played: np.ndarray, expected: np.ndarray) -> float:
    return float(np.linalg.norm(played - expected, axis=-1).max())


@pytest.mark.parametrize("target", ["SHAPE_KEYS", "POINT_CACHE", *[
    pytest.param(target, marks=pytest.mark.slow) for target in ("FRAME_KEYS", "MDD")
]])  # fmt: skip
def test_influence_blends_exactly(load: Load, tmp_path: Path, target: str) -> None:
    """At influence I, every vertex is the fraction I of the way from the plain animation to the simulation."""
    new_scene()
    obj = wobbler(tmp_path)
    plain = shapes(obj)
    bake(obj, target)
    cache = load("dampsim_addon.model.caches").frame_cache(obj)
    simulated = np.array([cache.read_shape(frame, obj.name) for frame in FRAMES])
    assert worst(plain, simulated) > 0.05
    for influence in (0.0, 0.25, 0.5, 1.0, 0.5):
        obj.dampsim.influence = influence
        assert obj.dampsim.influence == pytest.approx(influence)
        expected = plain + influence * (simulated - plain)
        assert worst(shapes(obj), expected) < bound(obj)


@pytest.mark.parametrize("target", ["SHAPE_KEYS", pytest.param("FRAME_KEYS", marks=pytest.mark.slow)])
def test_muted_scaled_and_repeated_strip(load: Load, tmp_path: Path, target: str) -> None:
    new_scene()
    obj = wobbler(tmp_path)
    plain = shapes(obj)
    bake(obj, target)
    baked = shapes(obj, tuple(range(1, LAST + 1)))
    local = baked - shapes_without(obj, tuple(range(1, LAST + 1)))
    tracks(obj)[-1].mute = True
    assert worst(shapes(obj), plain) < 2e-6
    tracks(obj)[-1].mute = False
    strip = bake_strip(obj)
    strip.scale = 2.0
    frames = tuple(1 + 2 * k for k in range(LAST))
    offsets = shapes(obj, frames) - shapes_without(obj, frames)
    assert worst(offsets, local) < 2e-5
    strip.scale, strip.repeat = 1.0, 3.0
    frames = tuple(LAST + k for k in range(1, LAST - 1))
    offsets = shapes(obj, frames) - shapes_without(obj, frames)
    assert worst(offsets, local[1 : LAST - 1]) < 2e-5


def shapes_without(obj: bpy.types.Object, frames: tuple[float, ...]) -> np.ndarray:
    """Return the shapes with the bake's keys muted."""
    ours = [key for key in obj.data.shape_keys.key_blocks if key.name.startswith("DampSim")]
    for key in ours:
        key.mute = True
    found = shapes(obj, frames)
    for key in ours:
        key.mute = False
    return found


def strip_settings(strip: Any) -> dict[str, Any]:
    names = ("frame_start", "frame_end", "action_frame_start", "action_frame_end", "scale", "repeat", "blend_in")
    found = {name: getattr(strip, name) for name in (*names, "blend_out", "blend_type", "extrapolation", "mute")}
    curves = [(c.data_path, [(tuple(k.co), k.interpolation) for k in c.keyframe_points]) for c in strip.fcurves]
    return {**found, "animated": strip.use_animated_influence, "curves": curves, "reverse": strip.use_reverse}


def all_settings(obj: bpy.types.Object) -> list[Any]:
    return [
        (track.name, track.mute, [strip_settings(s) for s in track.strips])
        for track in tracks(obj)
        if not track.name.startswith("DampSim Base")
    ]


def edit_scale(strip: Any, chance: random.Random) -> None:
    strip.scale = chance.choice([0.5, 1.0, 2.0])


def edit_repeat(strip: Any, chance: random.Random) -> None:
    strip.repeat = chance.choice([1.0, 2.0, 3.0])


def edit_influence(strip: Any, chance: random.Random) -> None:
    strip.use_animated_influence = True
    strip.influence = chance.random()
    strip.keyframe_insert("influence", frame=chance.randrange(1, LAST))


def edit_fades(strip: Any, chance: random.Random) -> None:
    strip.blend_in, strip.blend_out = chance.choice([0.0, 2.0]), chance.choice([0.0, 3.0])


def edit_mute(strip: Any, chance: random.Random) -> None:
    strip.mute = not strip.mute


def edit_blend_type(strip: Any, chance: random.Random) -> None:
    strip.blend_type = chance.choice(["REPLACE", "ADD", "COMBINE"])


def edit_start(strip: Any, chance: random.Random) -> None:
    strip.frame_end += 3.0
    strip.frame_start += 3.0


def edit_extrapolation(strip: Any, chance: random.Random) -> None:
    strip.extrapolation = chance.choice(["HOLD", "NOTHING"])


EDITS = [value for name, value in sorted(globals().items()) if name.startswith("edit_")]


@pytest.mark.parametrize("seed", [0, *[pytest.param(k, marks=pytest.mark.slow) for k in range(1, 40)]])
def test_rebakes_keep_user_edits(load: Load, tmp_path: Path, seed: int) -> None:
    """Edits of strips, new tracks, re-bakes, stopped ones and undo in random order lose no setting.

    Clear restores the object.
    """
    new_scene()
    obj = wobbler(tmp_path)
    obj.dampsim.resolution = 60
    before = dump()
    bake(obj, "SHAPE_KEYS")
    chance = random.Random(seed)
    for _ in range(3):
        for edit in chance.choices(EDITS, k=3):
            edit(chance.choice([s for t in tracks(obj) for s in t.strips if t.name != "DampSim Base"]), chance)
        if chance.random() < 0.4:
            source = bake_strip(obj)
            track = tracks(obj).new()
            track.name = chance.choice(["Mine", "DampSim Bake"])
            strip = track.strips.new("More", LAST + 40, source.action)
            strip.action_slot = source.action_slot
        if chance.random() < 0.3:
            tracks(obj)[-1].mute = not tracks(obj)[-1].mute
        use_panel_tools(load, obj, chance)
        kept, maps = all_settings(obj), maps_of(load, obj)
        obj.dampsim.settle += 1.0
        if chance.random() < 0.5:
            stop_bake(load, obj, chance.choice(RELATIVE))
            assert all_settings(obj) == kept
        if chance.random() < 0.4 and obj.dampsim.baked in RELATIVE:
            obj.dampsim.range_blend = 2
            assert load("dampsim_addon.api").bake([obj], frames=(4, 9))[0].problem == ""
            assert all_settings(obj) == kept
        bpy.ops.ed.undo_push(message="Edits")
        target = chance.choice(RELATIVE)
        bake(obj, target)
        assert all_settings(obj) == kept
        assert maps_of(load, obj) == maps
        baked = shapes(obj, (3, 8))
        if chance.random() < 0.6:
            bpy.ops.ed.undo_push(message="Bake")
            bpy.ops.ed.undo()
            obj = bpy.data.objects["Wobbler"]
            assert all_settings(obj) == kept
            if chance.random() < 0.5:
                bpy.ops.ed.redo()
            else:
                bake(bpy.data.objects["Wobbler"], target)
            obj = bpy.data.objects["Wobbler"]
            assert all_settings(obj) == kept
            np.testing.assert_array_equal(shapes(obj, (3, 8)), baked)
        assert load("dampsim_addon.targets.bake_tracks").has_base_track(obj.data.shape_keys.animation_data)
        assert not load("dampsim_addon.status.bake_changes").changes_since_bake(obj, bpy.context.scene)
    obj.dampsim.settle -= 3.0
    obj.dampsim.property_unset("range_blend")
    bpy.context.scene.frame_set(1)
    load("dampsim_addon.api").remove_maps([obj])
    assert bpy.ops.dampsim.clear() == {"FINISHED"}
    obj.dampsim.target = "SHAPE_KEYS"
    assert dump() == before


def use_panel_tools(load: Load, obj: bpy.types.Object, chance: random.Random) -> None:
    """Retime or blend the bake, or add or remove maps, as the buttons of the panel do, where they are possible."""
    api = load("dampsim_addon.api")
    for tool in chance.sample(
        (
            lambda: api.retime([obj], chance.choice([0.5, 1.0, 1.5])),
            lambda: api.blend([obj], chance.choice(["LAND", "FADE_IN", "FADE_OUT"]), chance.randrange(3, LAST), 3),
            lambda: (api.remove_maps if maps_of(load, obj) else api.add_maps)([obj]),
        ),
        2,
    ):
        # A strip in the way or another frame rate refuses a scale.
        with contextlib.suppress(load("core.base.errors").SceneError):
            tool()


def maps_of(load: Load, obj: bpy.types.Object) -> bool:
    return load("dampsim_addon.blender.maps").maps_modifier(obj) is not None


@pytest.mark.parametrize("is_baked", [False, True])
def test_alembic_refuses_blending(load: Load, tmp_path: Path, is_baked: bool) -> None:
    """An Alembic file plays in full, so an influence of Live or of a point cache is refused with a fix."""
    new_scene()
    obj = wobbler(tmp_path)
    if is_baked:
        bake(obj, "POINT_CACHE")
    obj.dampsim.influence, obj.dampsim.target = 0.5, "ALEMBIC"
    issue = load("dampsim_addon.ui.bake.checks").find_issues(obj, bpy.context.scene)["target"]
    assert issue.text.startswith("An Alembic file cannot be blended")
    with pytest.raises(RuntimeError, match="an Alembic file cannot be blended"):
        bake(obj, "ALEMBIC")
    issue.fix(obj, bpy.context.scene)
    bake(obj, obj.dampsim.target)
    assert (obj.dampsim.baked, obj.dampsim.influence) == ("POINT_CACHE", pytest.approx(0.5))


@pytest.mark.parametrize("edit", [edit_influence, "fade", "factor"])
def test_absolute_keys_refuse_blending(load: Load, tmp_path: Path, edit: Any) -> None:
    """Their one time value cannot be blended, so an influence is refused with a fix, before and after the bake."""
    new_scene()
    obj = wobbler(tmp_path)
    bake(obj, "POINT_CACHE" if edit == "factor" else "ABSOLUTE_KEYS")
    issues = load("dampsim_addon.ui.bake.checks").find_issues
    obj.dampsim.target = "ABSOLUTE_KEYS"
    assert "target" not in issues(obj, bpy.context.scene)
    if edit == "factor":
        obj.dampsim.influence = 0.5
    elif edit == "fade":
        bake_strip(obj).blend_out = 3.0
    else:
        edit(bake_strip(obj), random.Random(1))
    with pytest.raises(RuntimeError, match="absolute shape keys cannot be blended"):
        bake(obj, "ABSOLUTE_KEYS")
    issue = issues(obj, bpy.context.scene)["target"]
    assert issue.button_label == "Bake to Key per Frame"
    issue.fix(obj, bpy.context.scene)
    bake(obj, obj.dampsim.target)
    assert obj.dampsim.baked == "FRAME_KEYS"
    assert edit != "factor" or obj.dampsim.influence == pytest.approx(0.5)


def stop_bake(load: Load, obj: bpy.types.Object, target: str) -> None:
    """Stop a bake while it measures what it has written."""
    obj.dampsim.target = target
    steps = load("dampsim_addon.jobs.bake").bake_object(bpy.context.scene, bpy.context.view_layer, obj, False)
    for step in steps:
        if step.text == "Measuring" and step.completed == 3:
            break
    steps.close()


@pytest.mark.parametrize(
    ("first", "second"),
    [
        ("SHAPE_KEYS", "FRAME_KEYS"),
        ("POINT_CACHE", "POINT_CACHE"),
        *[
            pytest.param(*pair, marks=pytest.mark.slow)
            for pair in (
                ("", "SHAPE_KEYS"), ("FRAME_KEYS", "SHAPE_KEYS"), ("ABSOLUTE_KEYS", "SHAPE_KEYS"),
                ("SHAPE_KEYS", "ABSOLUTE_KEYS"), ("MDD", "POINT_CACHE"), ("ALEMBIC", "ALEMBIC"),
                ("ALEMBIC", "MDD"), ("SHAPE_KEYS", "POINT_CACHE"), ("POINT_CACHE", "SHAPE_KEYS"),
            )
        ],
    ],
)  # fmt: skip
def test_stopped_rebake_changes_nothing(load: Load, tmp_path: Path, first: str, second: str) -> None:
    new_scene()
    obj = wobbler(tmp_path)
    if first:
        bake(obj, first)
    if first in RELATIVE:
        bake_strip(obj).scale = 2.0
    if first in RELATIVE and second in RELATIVE:
        edit_influence(bake_strip(obj), random.Random(3))
        bake_strip(obj).blend_out = 3.0
    elif first in POINT_FILES:
        obj.dampsim.influence = 0.4
    obj.dampsim.settle += 2.0
    obj.dampsim.target = second
    played, before = shapes(obj), dump()
    files = {path.name for path in tmp_path.rglob("*") if not path.name.startswith("frame_")} - {"lock"}
    edits = all_settings(obj) if first in RELATIVE else None
    stop_bake(load, obj, second)
    np.testing.assert_array_equal(shapes(obj), played)
    assert dump() == before
    assert obj.dampsim.baked == first
    if edits is not None:
        assert all_settings(obj) == edits
    if first == second:
        assert {p.name for p in tmp_path.rglob("*") if not p.name.startswith("frame_")} - {"lock"} == files
    bake(obj, second)
    assert not any(path.name.endswith(".kept") for path in tmp_path.rglob("*"))


@pytest.mark.parametrize("target", ["SHAPE_KEYS", "POINT_CACHE"])
def test_keyed_influence_moves_between_storages(tmp_path: Path, target: str) -> None:
    new_scene()
    obj = wobbler(tmp_path)
    before = dump()
    bake(obj, target)
    for frame, value in ((2, 1.0), (6, 0.3), (10, 0.0)):
        bpy.context.scene.frame_set(frame)
        obj.dampsim.influence = value
        assert bpy.ops.dampsim.key_influence() == {"FINISHED"}

    def values() -> list[float]:
        found = []
        for frame in (2, 4, 6, 8, 10):
            bpy.context.scene.frame_set(frame)
            found.append(obj.dampsim.influence)
        return found

    keyed = values()
    assert [keyed[k] for k in (0, 2, 4)] == pytest.approx([1.0, 0.3, 0.0])
    for again in (target, "POINT_CACHE", "POINT_CACHE", "FRAME_KEYS", target):
        bake(obj, again)
        assert values() == pytest.approx(keyed)
    assert bpy.ops.dampsim.clear() == {"FINISHED"}
    bpy.context.scene.frame_set(1)
    obj.dampsim.target = "SHAPE_KEYS"
    after = dump()
    before["scene"] = after["scene"]
    assert after == before


def test_bake_without_base_track_is_repaired(load: Load, tmp_path: Path) -> None:
    """A bake of an earlier version, whose strip lies at the bottom, keeps its keyed influence."""
    new_scene()
    obj = wobbler(tmp_path)
    bake(obj, "SHAPE_KEYS")
    tracks(obj).remove(tracks(obj)[0])
    edit_influence(bake_strip(obj), random.Random(3))
    bake_strip(obj).scale, bake_strip(obj).blend_out = 2.0, 3.0
    kept = all_settings(obj)
    has_base_track = load("dampsim_addon.targets.bake_tracks").has_base_track
    assert not has_base_track(obj.data.shape_keys.animation_data)
    bake(obj, "SHAPE_KEYS")
    assert has_base_track(obj.data.shape_keys.animation_data)
    assert all_settings(obj) == kept


@pytest.mark.parametrize("target", ["SHAPE_KEYS", *[
    pytest.param(one, marks=pytest.mark.slow) for one in ("FRAME_KEYS", "ABSOLUTE_KEYS")
]])  # fmt: skip
@pytest.mark.parametrize("is_closed", [False, pytest.param(True, marks=pytest.mark.slow)])
def test_repeated_loop(load: Load, tmp_path: Path, target: str, is_closed: bool) -> None:
    """A cycle repeated three times plays each frame of each cycle as in the first one."""
    scene = new_scene()
    obj = wobbler(tmp_path)
    obj.animation_data_clear()
    period = LAST - int(is_closed)
    for frame in range(1, LAST + 2):
        obj.location.x = 0.2 * np.sin(2 * np.pi * (frame - 1) / period)
        obj.keyframe_insert("location", frame=frame)
    obj.dampsim.loop, obj.dampsim.resolution = True, 60
    bake(obj, target)
    strip = bake_strip(obj)
    assert (strip.frame_start, strip.frame_end) == (1.0, 1.0 + period)
    assert strip.action.use_cyclic
    assert strip.action.frame_range[:] == (1.0, 1.0 + period)
    changes = load("dampsim_addon.status.bake_changes").changes_since_bake
    scene.frame_end = 3 * period
    assert changes(obj, scene) == [f"End {LAST}, now {3 * period}"]
    strip.repeat = 3.0
    # Frames that the repeated strip plays need no bake.
    assert changes(obj, scene) == []
    scene.frame_end = 3 * period + 2
    assert changes(obj, scene) == [f"End {LAST}, now {3 * period + 2}"]

    def local(frame: float) -> np.ndarray:
        scene.frame_set(int(frame), subframe=frame % 1.0)
        layer = bpy.context.view_layer
        mesh = obj.evaluated_get(layer.depsgraph).data
        flat = np.empty(3 * len(mesh.vertices), dtype=np.float32)
        mesh.vertices.foreach_get("co", flat)
        return flat.reshape(-1, 3)

    once = [local(1.0 + frame) for frame in range(period)]
    size_limit = 1e-3 * obj.dampsim.bound_percent * size(once[0]) if target == "SHAPE_KEYS" else 2e-6
    moved = max(worst(shape, once[0]) for shape in once)
    assert moved > 0.01
    # Frames and the middle of the step from one cycle to the next.
    for cycle in (1, 2):
        for frame in range(period):
            assert worst(local(1.0 + cycle * period + frame), once[frame]) < size_limit
    # Simulated cycles repeat within the loop's own closing error.
    closing = 2e-4 * size(once[0]) + 10 * size_limit
    middle = 0.5 * (once[-1] + once[0])
    assert worst(local(period + 0.5), middle) < closing


@pytest.mark.slow
def test_exported_loop_contains_closing_frame(load: Load, tmp_path: Path) -> None:
    scene = new_scene()
    obj = wobbler(tmp_path / "cache")
    obj.animation_data_clear()
    for frame in range(1, LAST + 2):
        obj.location.x = 0.2 * np.sin(2 * np.pi * (frame - 1) / LAST)
        obj.keyframe_insert("location", frame=frame)
    obj.dampsim.loop, obj.dampsim.resolution = True, 60
    bake(obj, "SHAPE_KEYS")
    results = load("dampsim_addon.api").export([obj], tmp_path / "out")
    assert all(one.part < 1e-4 for one in results)
    assert scene.frame_end == LAST
    bpy.ops.import_scene.gltf(filepath=str(tmp_path / "out.glb"))
    copy = bpy.context.selected_objects[0]
    assert copy != obj
    clip = copy.data.shape_keys.animation_data
    actions = [clip.action] if clip.action else [s.action for t in clip.nla_tracks for s in t.strips]
    spans = [tuple(action.frame_range) for action in actions]
    assert max(end - start for start, end in spans) == pytest.approx(LAST), (spans, [a.name for a in actions])


@pytest.mark.parametrize("target", ["SHAPE_KEYS", "POINT_CACHE"])
def test_live_shows_influence(load: Load, live: ModuleType, tmp_path: Path, target: str) -> None:
    """Live blends the simulation with the plain animation, and the first bake takes its influence over."""
    new_scene()
    obj = wobbler(tmp_path)
    obj.dampsim.live = False
    plain = shapes(obj)
    obj.dampsim.live = True

    def play() -> np.ndarray:
        """Return the displayed shapes at FRAMES, played from the start."""
        every = [world_vertices(obj, frame) for frame in range(1, LAST + 1)]
        return np.array([every[frame - 1] for frame in FRAMES])

    full = play()
    assert worst(full, plain) > 0.05
    for influence in (0.0, 0.25, 0.5, 1.0, 0.5):
        obj.dampsim.influence = influence
        assert worst(play(), plain + influence * (full - plain)) < 2e-6 * size(full[0])
    bake(obj, target)
    assert obj.dampsim.influence == pytest.approx(0.5)
    assert worst(shapes(obj), plain + 0.5 * (full - plain)) < bound(obj)
    # Clear leaves it for Live.
    assert bpy.ops.dampsim.clear() == {"FINISHED"}
    assert obj.dampsim.influence == pytest.approx(0.5)


@pytest.mark.parametrize("target", ["SHAPE_KEYS", "POINT_CACHE"])
def test_influence_curve_moves_whole(load: Load, tmp_path: Path, target: str) -> None:
    """Modifiers, extrapolation and elastic keyframes of the influence move along to another target, and back."""
    new_scene()
    obj, influence = wobbler(tmp_path), load("dampsim_addon.targets.influence")
    bake(obj, target)
    influence.key_influence(obj, [(2.0, 1.0), (6.0, 0.3), (10.0, 0.6)])

    def curve() -> bpy.types.FCurve:
        return influence.keyed_curves(obj)[0]

    key = curve().keyframe_points[1]
    key.interpolation, key.amplitude, key.period, key.type = "ELASTIC", 0.1, 3.0, "EXTREME"
    curve().modifiers.new("CYCLES").mode_after = "MIRROR"
    limits = curve().modifiers.new("LIMITS")
    limits.use_max_y, limits.max_y, limits.use_restricted_range = True, 0.8, True
    limits.frame_start, limits.frame_end, limits.blend_out = 1.0, 8.0, 2.0
    envelope = curve().modifiers.new("ENVELOPE")
    envelope.control_points.add(5.0)
    # Setting it at the point itself may end Blender.
    envelope.control_points.foreach_set("min", [-0.9])
    curve().modifiers.new("GENERATOR").poly_order = 2
    curve().modifiers[-1].coefficients = (0.05, 0.9, 0.0)
    curve().extrapolation = "LINEAR"
    curve().update()
    expected = [curve().evaluate(0.5 * frame) for frame in range(60)]
    assert np.ptp(expected) > 0.2
    for again in ("POINT_CACHE", "FRAME_KEYS", "MDD", target):
        bake(obj, again)
        assert [curve().evaluate(0.5 * frame) for frame in range(60)] == pytest.approx(expected, abs=1e-6)
        key = curve().keyframe_points[1]
        assert (curve().extrapolation, key.type, [one.type for one in curve().modifiers]) == (
            "LINEAR", "EXTREME", ["CYCLES", "LIMITS", "ENVELOPE", "GENERATOR"],
        )  # fmt: skip


@pytest.mark.parametrize("target", ["SHAPE_KEYS", "POINT_CACHE"])
def test_modifiers_and_locks_of_influence(load: Load, tmp_path: Path, target: str) -> None:
    """Keyframes beneath a modifier are inserted; a locked curve stays, and a message names the fix."""
    new_scene()
    obj, influence = wobbler(tmp_path), load("dampsim_addon.targets.influence")
    bake(obj, target)
    influence.key_influence(obj, [(2.0, 1.0), (9.0, 0.4)])
    (curve,) = influence.keyed_curves(obj)
    curve.modifiers.new("NOISE").strength = 0.0
    bpy.context.scene.frame_set(5)
    obj.dampsim.influence = 0.7
    assert bpy.ops.dampsim.key_influence() == {"FINISHED"}
    keys = [tuple(key.co) for key in influence.keyed_curves(obj)[0].keyframe_points]
    np.testing.assert_allclose(keys, [(2.0, 1.0), (5.0, 0.7), (9.0, 0.4)], atol=1e-6)
    influence.keyed_curves(obj)[0].lock = True
    obj.dampsim.influence = 0.1
    message = "Wobbler: the curve of its Influence is locked; unlock it in the Graph Editor"
    with pytest.raises(RuntimeError, match=message):
        bpy.ops.dampsim.key_influence()
    with pytest.raises(load("core.base.errors").SceneError, match=message):
        load("dampsim_addon.api").blend([obj], "LAND", 9, 4)
    assert [tuple(key.co) for key in influence.keyed_curves(obj)[0].keyframe_points] == keys


class InfluenceRow(Layout):
    """Layout that records whether its rows are enabled."""

    def __init__(self) -> None:
        super().__init__()
        object.__setattr__(self, "states", [])

    def __setattr__(self, name: str, value: object) -> None:
        if name == "enabled":
            self.states.append(value)


@pytest.mark.parametrize("target", ["SHAPE_KEYS", "POINT_CACHE"])
def test_uneditable_influence_is_disabled(load: Load, tmp_path: Path, target: str) -> None:
    """The panel tells why a locked or sampled curve cannot be edited, and commands refuse it."""
    new_scene()
    obj, influence = wobbler(tmp_path), load("dampsim_addon.targets.influence")
    bake(obj, target)
    influence.key_influence(obj, [(2.0, 1.0), (9.0, 0.4)])
    (curve,) = influence.keyed_curves(obj)

    def drawn() -> tuple[bool, str]:
        row = InfluenceRow()
        load("dampsim_addon.ui.bake.panel")._draw_influence(row, obj, Context())
        return row.states[0], " ".join(row.texts)

    assert drawn()[0]
    curve.lock = True
    is_enabled, text = drawn()
    assert not is_enabled
    assert "the curve of its Influence is locked; unlock it" in text
    curve.lock = False
    assert drawn()[0]
    curve.convert_to_samples(1, LAST)
    is_enabled, text = drawn()
    assert not is_enabled
    message = "the curve of its Influence consists of samples; choose Samples to Keys"
    assert message in text
    with pytest.raises(load("core.base.errors").SceneError, match=f"Wobbler: {message}"):
        influence.key_influence(obj, [(4.0, 0.5)])


@pytest.mark.parametrize("target", ["SHAPE_KEYS", "POINT_CACHE"])
def test_empty_curve_beneath_modifier(load: Load, tmp_path: Path, target: str) -> None:
    """A curve without keyframes, which the user has modified, takes keyframes."""
    new_scene()
    obj, influence = wobbler(tmp_path), load("dampsim_addon.targets.influence")
    bake(obj, target)
    influence.key_influence(obj, [(2.0, 1.0), (9.0, 0.4)])
    (curve,) = influence.keyed_curves(obj)
    curve.keyframe_points.clear()
    curve.modifiers.new("LIMITS")
    influence.key_influence(obj, [(4.0, 0.5), (8.0, 0.25)])
    (curve,) = influence.keyed_curves(obj)
    assert [tuple(key.co) for key in curve.keyframe_points] == [(4.0, 0.5), (8.0, 0.25)]


@pytest.mark.parametrize("is_tweaked", [True, False])
@pytest.mark.parametrize("is_reversed", [False, True])
def test_influence_in_nla_strip(load: Load, tmp_path: Path, is_tweaked: bool, is_reversed: bool) -> None:
    """Keyframes and blends play at their frames of the scene, in a strip of another start, speed and direction."""
    scene = new_scene(20)
    obj, influence = wobbler(tmp_path), load("dampsim_addon.targets.influence")
    landing = load("dampsim_addon.targets.landing")
    bake(obj, "POINT_CACHE")
    influence.key_influence(obj, [(1.0, 1.0), (5.0, 0.7), (9.0, 0.4)])
    data = obj.animation_data
    track = data.nla_tracks.new()
    strip = track.strips.new("Shot", 3, data.action)
    strip.action_slot, data.action = data.action_slot, None
    strip.action_frame_start, strip.action_frame_end = 1.0, 9.0
    strip.scale, strip.use_reverse = 2.0, is_reversed
    if is_tweaked:
        data.nla_tracks.active, strip.select = track, True
        data.use_tweak_mode = True
        assert data.use_tweak_mode
    assert (strip.frame_start, strip.frame_end) == (3.0, 19.0)

    def played() -> np.ndarray:
        """Return the factor that Blender plays at frames 3 to 19."""
        found = []
        for frame in range(3, 20):
            scene.frame_set(frame)
            found.append(obj.modifiers["DampSim Cache"].factor)
            assert obj.dampsim.influence == pytest.approx(found[-1], abs=1e-5)
        return np.array(found)

    # The keyframe at frame 11 goes, as it lies between new ones.
    influence.key_influence(obj, [(7.0, 0.2), (13.0, 0.8)])
    assert played()[[4, 10]] == pytest.approx([0.2, 0.8], abs=1e-6)
    assert (np.diff(played()[4:11]) > 0.0).all()
    assert len(influence.keyed_curves(obj)[0].keyframe_points) == 4
    scene.frame_set(16)
    obj.dampsim.influence = 0.3
    assert played()[[4, 10, 13]] == pytest.approx([0.2, 0.8, 0.3], abs=1e-6)
    blend = landing.Blend.LAND
    assert landing.neighbour_span(obj, landing.blend_points(obj, blend, 13.0, 6.0)) == pytest.approx((3.0, 16.0))
    landing.key_blend(obj, blend, 13.0, 6.0)
    t = np.linspace(0.0, 1.0, 7)
    expected = 0.2 * (1.0 - t**3 * (10.0 - 15.0 * t + 6.0 * t**2))
    np.testing.assert_allclose(played()[4:11], expected, atol=0.014)
    # The curve keeps its frames in another target.
    before = played()
    kept = influence.read_influence(obj)
    assert [dict(key)["co"][0] for key in kept.curve.keyframes] != [
        key.co.x for key in influence.keyed_curves(obj)[0].keyframe_points
    ]
    influence.write_influence(obj, kept)
    np.testing.assert_allclose(played(), before, atol=1e-5)
