"""Landing and fading of a bake, and rest by a frame."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from types import ModuleType

import bpy
import numpy as np
import pytest
from scenes import LAST, new_scene, wobbler, world_vertices
from test_bone_bakes import belly
from test_existing_bones import tail

pytestmark = [pytest.mark.bpy, pytest.mark.versions]
Load = Callable[[str], ModuleType]


def baked_wobbler(tmp_path: Path, last: int = LAST, target: str = "SHAPE_KEYS") -> bpy.types.Object:
    new_scene(last)
    obj = wobbler(tmp_path / "cache")
    obj.dampsim.resolution, obj.dampsim.target = 60, target
    bpy.context.view_layer.objects.active = obj
    assert bpy.ops.dampsim.bake() == {"FINISHED"}
    return obj


def influences(obj: bpy.types.Object, frames: range) -> np.ndarray:
    found = []
    for frame in frames:
        bpy.context.scene.frame_set(frame)
        found.append(obj.dampsim.influence)
    return np.array(found)


def largest_accelerations(moved: np.ndarray) -> np.ndarray:
    """Return the largest second difference (f - 2,) m of each frame from the second on. moved: (f, v, 3) m."""
    return np.linalg.norm(np.diff(moved, 2, axis=0), axis=2).max(axis=1)


@pytest.mark.parametrize("target", ["SHAPE_KEYS", pytest.param("POINT_CACHE", marks=pytest.mark.slow)])
@pytest.mark.parametrize(("kind", "frame", "first"), [("LAND", 11, 3), ("FADE_OUT", 3, 3), ("FADE_IN", 3, 3)])
def test_blend_follows_minimum_jerk_curve(
    load: Load, tmp_path: Path, target: str, kind: str, frame: int, first: int
) -> None:
    obj = baked_wobbler(tmp_path, target=target)
    bpy.context.scene.frame_set(frame)
    assert bpy.ops.dampsim.blend(kind=kind, frame=frame, length=8) == {"FINISHED"}
    t = np.clip((np.arange(1, 15) - first) / 8.0, 0.0, 1.0)
    rising = t**3 * (10.0 - 15.0 * t + 6.0 * t**2)
    values = influences(obj, range(1, 15))
    # A Bezier segment is no polynomial of the fifth degree.
    assert np.abs(values - (rising if kind == "FADE_IN" else 1.0 - rising)).max() < 0.014
    # No second difference sticks out of its neighbours as a pop does.
    second = np.abs(np.diff(values, 2))
    neighbours = np.maximum(second[:-2], second[2:])
    assert (second[1:-1] <= 1.5 * neighbours + 2e-3).all()
    # A re-bake keeps the keyframes.
    obj.dampsim.settle += 1.0
    assert bpy.ops.dampsim.bake() == {"FINISHED"}
    np.testing.assert_allclose(influences(obj, range(1, 15)), values, atol=1e-6)


def test_landed_bake_is_on_pose(tmp_path: Path) -> None:
    new_scene()
    obj = wobbler(tmp_path)
    plain = world_vertices(obj, LAST)
    bpy.context.view_layer.objects.active = obj
    assert bpy.ops.dampsim.bake() == {"FINISHED"}
    assert np.abs(world_vertices(obj, LAST) - plain).max() > 1e-3
    assert bpy.ops.dampsim.blend(kind="LAND", frame=LAST, length=6) == {"FINISHED"}
    np.testing.assert_allclose(world_vertices(obj, LAST), plain, atol=2e-6)
    # Landing is undone as one step.
    bpy.ops.ed.undo_push(message="Landed")
    assert bpy.ops.dampsim.blend(kind="FADE_IN", frame=1, length=4) == {"FINISHED"}
    bpy.ops.ed.undo_push(message="Faded")
    bpy.ops.ed.undo()
    bpy.context.scene.frame_set(1)
    assert bpy.data.objects["Wobbler"].dampsim.influence == pytest.approx(1.0)


def test_landing_moves_vertices_smoothly(load: Load, tmp_path: Path) -> None:
    """Measured on the vertices of a still pose: no pop, and no edge is more than 2% shorter than in both shapes."""
    new_scene(40)
    obj = wobbler(tmp_path / "cache")
    obj.dampsim.resolution, obj.dampsim.settle, obj.dampsim.bounce = 60, 40.0, 50.0
    bpy.context.view_layer.objects.active = obj
    obj.modifiers.clear()
    plain = np.array([world_vertices(obj, frame) for frame in range(1, 41)])
    assert bpy.ops.dampsim.bake() == {"FINISHED"}
    simulated = np.array([world_vertices(obj, frame) for frame in range(1, 41)])
    assert bpy.ops.dampsim.blend(kind="LAND", frame=32, length=16) == {"FINISHED"}
    shown = np.array([world_vertices(obj, frame) for frame in range(1, 41)])
    found, usual = largest_accelerations(shown - plain), largest_accelerations(simulated - plain)
    assert np.linalg.norm(simulated[20] - plain[20], axis=1).max() > 0.005
    for place in range(14, 34):
        neighbours = max(found[place - 1], found[place + 1], usual[place - 1 : place + 2].max())
        assert found[place] <= 1.5 * neighbours + 1e-6, place + 2
    edges = np.array([edge.vertices for edge in obj.data.edges])
    lengths = [np.linalg.norm(one[:, edges[:, 0]] - one[:, edges[:, 1]], axis=2) for one in (shown, plain, simulated)]
    shortening = float((1.0 - lengths[0] / np.minimum(*lengths[1:])).max())
    # Here the simulation is smooth enough that the blend need not be compared with it.
    jump = (found[14:31] / np.maximum(found[13:30], found[15:32])).max()
    assert jump <= 1.5
    assert shortening < 0.02


@pytest.mark.parametrize(("length", "kind"), [(3, "LAND"), (4, "LAND"), (5, "FADE_OUT"), (6, "FADE_IN")])
def test_short_blends_do_not_pop(load: Load, tmp_path: Path, length: int, kind: str) -> None:
    """Measured on the vertices of a still pose: the curve is chosen for the motion that it blends."""
    new_scene(24)
    obj = wobbler(tmp_path / "cache")
    obj.dampsim.resolution, obj.dampsim.settle = 60, 20.0
    obj.modifiers.clear()
    frames = range(1, 25)
    plain = np.array([world_vertices(obj, frame) for frame in frames])
    bpy.context.view_layer.objects.active = obj
    assert bpy.ops.dampsim.bake() == {"FINISHED"}
    simulated = np.array([world_vertices(obj, frame) for frame in frames])
    assert load("dampsim_addon.api").blend([obj], kind, 16, length) == [""]
    shown = np.array([world_vertices(obj, frame) for frame in frames])
    pose = 16 if kind != "FADE_OUT" else 16 + length
    np.testing.assert_allclose(shown[pose - 1], plain[pose - 1], atol=2e-6)
    found, usual = largest_accelerations(shown - plain), largest_accelerations(simulated - plain)
    for place in range(8, 21):
        neighbours = max(found[place - 1], found[place + 1], usual[place - 1 : place + 2].max())
        assert found[place] <= 1.5 * neighbours + 4e-6, place + 2


@pytest.mark.parametrize("kind", ["LAND", "FADE_IN", pytest.param("FADE_OUT", marks=pytest.mark.slow)])
def test_blend_with_changing_vertex_count(load: Load, tmp_path: Path, kind: str) -> None:
    """Motions of other numbers of vertices cannot be compared: the usual curve is keyed."""
    obj = baked_wobbler(tmp_path)
    bpy.ops.mesh.primitive_cube_add(size=1.0)
    cutter = bpy.context.object
    for frame, x in ((1, 0.5), (LAST, 1.5)):
        cutter.location = (x, 0.0, 0.5)
        cutter.keyframe_insert("location", frame=frame)
    obj.modifiers.new("Cut", "BOOLEAN").object = cutter
    assert len({len(world_vertices(obj, frame)) for frame in range(3, 11)}) > 1
    assert load("dampsim_addon.api").blend([obj], kind, 9 if kind == "LAND" else 3, 6) == [""]
    t = np.clip((np.arange(1, LAST + 1) - 3) / 6.0, 0.0, 1.0)
    rising = t**3 * (10.0 - 15.0 * t + 6.0 * t**2)
    values = influences(obj, range(1, LAST + 1))
    assert np.abs(values - (rising if kind == "FADE_IN" else 1.0 - rising)).max() < 0.014


@pytest.mark.parametrize("part", [0.0, 0.3])
def test_vertices_merged_within_blend(load: Load, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, part: float) -> None:
    """A modifier can merge vertices only between the pose and the simulation: the blend is keyed unmeasured.

    part: influence above which it merges them.
    """
    new_scene()
    obj, _ = tail(tmp_path)
    assert bpy.ops.dampsim.bake() == {"FINISHED"}
    landing = load("dampsim_addon.jobs.landing")
    original, counts = landing.world_vertices, set()

    def merged(one: bpy.types.Object, layer: bpy.types.ViewLayer) -> np.ndarray:
        shape = original(one, layer)[: -1 if part < one.dampsim.influence < 1.0 else None]
        counts.add(len(shape))
        return shape

    monkeypatch.setattr(landing, "world_vertices", merged)
    assert load("dampsim_addon.api").blend([obj], "LAND", 10, 6) == [""]
    assert len(counts) == 2
    values = influences(obj, range(4, 11))
    assert values[[0, -1]] == pytest.approx([1.0, 0.0])
    assert (np.diff(values) < 0.0).all()
    # The same holds for a blend in the frames of the bake.
    shapes = np.tile(np.eye(3), (7, 1, 1))
    motion = landing.BlendedMotion(np.arange(4, 11), shapes, shapes + 1.0, np.array([[0, 1]]))
    assert landing.blend_warning(bpy.context.scene, obj, motion) == ""


def test_stored_blend_plays_no_bones(load: Load, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Another blend of a bake that contains one joins it in its frames: that of Influence needs no measurement."""
    new_scene()
    obj, _ = tail(tmp_path)
    assert bpy.ops.dampsim.bake() == {"FINISHED"}
    load("dampsim_addon.targets.landing").store_weights(obj, [(1, 0.0), (3, 1.0)])
    landing = load("dampsim_addon.jobs.landing")
    original, numbers = landing._shapes, []

    def counted(scene: bpy.types.Scene, one: bpy.types.Object, frames: np.ndarray) -> np.ndarray:
        numbers.append(len(frames))
        return original(scene, one, frames)

    monkeypatch.setattr(landing, "_shapes", counted)
    _, motion = landing.blend_bake(bpy.context.scene, obj, landing.Blend.LAND, 10, 6)
    assert motion is not None
    # Only the pose is read.
    assert numbers == [13]


def test_unmeasured_blend_writes_nothing(load: Load, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    obj = baked_wobbler(tmp_path)

    def fail(*_: object) -> None:
        raise MemoryError("too many vertices")

    monkeypatch.setattr(load("dampsim_addon.jobs.landing"), "_shapes", fail)
    with pytest.raises(MemoryError):
        load("dampsim_addon.api").blend([obj], "LAND", 10, 6)
    assert not any(len(curve.keyframe_points) for curve in load("dampsim_addon.targets.influence").keyed_curves(obj))
    np.testing.assert_array_equal(influences(obj, range(1, LAST + 1)), 1.0)


def swinging_wobbler(tmp_path: Path, last: int = 30) -> bpy.types.Object:
    """Return a baked ball that two moves shake, at rest in between."""
    new_scene(last)
    obj = wobbler(tmp_path / "cache")
    obj.animation_data_clear()
    obj.modifiers.clear()
    obj.dampsim.resolution, obj.dampsim.settle = 60, 20.0
    for frame, x in ((1, 0.0), (6, 0.6), (14, 0.1), (18, 0.5)):
        obj.location.x = x
        obj.keyframe_insert("location", frame=frame)
    bpy.context.view_layer.objects.active = obj
    assert bpy.ops.dampsim.bake() == {"FINISHED"}
    return obj


def test_blend_keeps_neighbouring_curves(load: Load, tmp_path: Path) -> None:
    """Each blend has a curve that is chosen for its motion; the next blend leaves it."""
    obj, api = swinging_wobbler(tmp_path), load("dampsim_addon.api")
    frames = range(1, 31)
    spans = []
    for kind, frame, first, last in (("LAND", 14, 8, 14), ("FADE_IN", 14, 14, 20), ("FADE_OUT", 20, 20, 24)):
        before = influences(obj, frames)
        assert api.blend([obj], kind, frame, last - first) == [""]
        spans.append((first, last))
        now = influences(obj, frames)
        if len(spans) > 1:
            start = spans[0][0]
            np.testing.assert_allclose(now[start - 1 : first], before[start - 1 : first], atol=1e-6)
            assert np.ptp(now[start - 1 : first]) == pytest.approx(1.0)


def test_blend_keeps_user_keyframes(load: Load, tmp_path: Path) -> None:
    """Handles of the user before a blend, and a hold after it, stay."""
    obj, influence = swinging_wobbler(tmp_path), load("dampsim_addon.targets.influence")
    influence.key_influence(obj, [(2.0, 0.2), (8.0, 1.0), (14.0, 0.0), (20.0, 0.6), (26.0, 0.3)])
    for curve in influence.keyed_curves(obj):
        keys = curve.keyframe_points
        keys[1].handle_left_type = keys[1].handle_right_type = "ALIGNED"
        keys[1].handle_left = (7.0, 0.7)
        keys[2].interpolation = "CONSTANT"
        keys[3].interpolation = "LINEAR"
        curve.update()
    before = influences(obj, range(1, 31))
    load("dampsim_addon.api").blend([obj], "LAND", 14, 6)
    now = influences(obj, range(1, 31))
    np.testing.assert_allclose(now[:8], before[:8], atol=1e-6)
    np.testing.assert_allclose(now[13:], before[13:], atol=1e-6)


def test_neighbour_that_pops_is_reported(load: Load, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A landing of a still shape begins with a kink, 10 frames before a fade-in."""
    obj, landing = baked_wobbler(tmp_path), load("dampsim_addon.jobs.landing")
    calls: list[np.ndarray] = []

    def moved(scene: bpy.types.Scene, one: bpy.types.Object, numbers: np.ndarray) -> np.ndarray:
        """Return a triangle at its place, beside it, and then between both."""
        calls.append(numbers)
        shares = [influences(one, range(n, n + 1))[0] if len(calls) == 3 else len(calls) - 1.0 for n in numbers]
        return np.array([np.eye(3) + share for share in shares])

    monkeypatch.setattr(landing, "_shapes", moved)
    influence = load("dampsim_addon.targets.influence")
    influence.key_influence(obj, [(4.0, 1.0), (14.0, 0.0)])
    (curve,) = influence.keyed_curves(obj)
    curve.keyframe_points[0].handle_right_type = "FREE"
    curve.keyframe_points[0].handle_right = (5.0, 0.7)
    curve.update()
    assert load("dampsim_addon.api").blend([obj], "FADE_IN", 14, 8) == [
        "Wobbler: the blend is too short for its motion, so it pops. Blend over more frames"
    ]
    # The frames of the landing and 3 on both sides.
    assert [(one[0], one[-1]) for one in calls] == 3 * [(1, 25)]


def test_shortened_edges_are_reported(load: Load, tmp_path: Path) -> None:
    """An edge that the simulation turns by 90 degrees for good cannot keep its length on the way to the pose."""
    obj = baked_wobbler(tmp_path)
    landing = load("dampsim_addon.jobs.landing")
    assert load("dampsim_addon.api").blend([obj], "land", LAST, 6) == [""]
    ball = np.array([vertex.co for vertex in obj.data.vertices])
    step = ball[:, [1, 0, 2]] * [1.0, -1.0, 1.0] - ball
    original, calls = landing._shapes, []

    def turned(scene: bpy.types.Scene, one: bpy.types.Object, numbers: np.ndarray) -> np.ndarray:
        """Return the still ball, the turned one, and then their blend."""
        calls.append(len(numbers))
        shares = [influences(one, range(n, n + 1))[0] if len(calls) == 3 else len(calls) - 1.0 for n in numbers]
        return np.array([ball + share * step for share in shares])

    landing._shapes = turned
    try:
        (warning,) = load("dampsim_addon.api").blend([obj], "land", LAST, 6)
    finally:
        landing._shapes = original
    assert calls == 3 * [13]
    found = re.fullmatch(r"Wobbler: the blend shortens edges by up to ([\d.]+)%, because .*", warning)
    assert found, warning
    # The middle of six frames lies between two of them at most.
    assert 20.0 <= float(found[1]) <= 29.5


@pytest.mark.slow
def test_rest_by_frame(load: Load, tmp_path: Path) -> None:
    obj = baked_wobbler(tmp_path, last=60)
    landing = load("dampsim_addon.jobs.landing")
    cache = load("dampsim_addon.model.caches").frame_cache(obj)
    stop = cache.frame_numbers()[landing.last_motion_index(cache, list(cache.frame_numbers()), obj.name)]
    assert bpy.ops.dampsim.rest_by_frame(frame=stop + 20) == {"FINISHED"}
    curve = load("dampsim_addon.status.results").displayed_curve(obj)
    assert curve.start + curve.curve.dial == stop + 20
    assert abs(curve.start + curve.curve.rest - (stop + 20)) < 3.0
    with pytest.raises(load("core.base.errors").SceneError, match="cannot rest by frame 1; choose one from"):
        load("dampsim_addon.api").rest_by_frame([obj], 1)
    obj.dampsim.keyframe_insert("settle", frame=1)
    with pytest.raises(load("core.base.errors").SceneError, match="its Settle is animated"):
        load("dampsim_addon.api").rest_by_frame([obj], stop + 20)


def test_bakes_that_cannot_be_blended(load: Load, tmp_path: Path) -> None:
    new_scene()
    obj = wobbler(tmp_path)
    api, error = load("dampsim_addon.api"), load("core.base.errors").SceneError
    with pytest.raises(error, match="Wobbler: it has no bake to blend"):
        api.blend([obj], "land", 8)
    obj.dampsim.target = "ABSOLUTE_KEYS"
    assert bpy.ops.dampsim.bake() == {"FINISHED"}
    with pytest.raises(error, match="Wobbler: this bake cannot be blended; bake it to"):
        api.blend([obj], "LAND", 8)


@pytest.mark.parametrize("what", ["strip", "track", "solo", "nla", "file"])
def test_muted_bakes_are_refused(load: Load, tmp_path: Path, what: str) -> None:
    """The motion of a muted bake cannot be measured: a blend would be keyed blindly."""
    obj = baked_wobbler(tmp_path, target="POINT_CACHE" if what == "file" else "SHAPE_KEYS")
    api, error = load("dampsim_addon.api"), load("core.base.errors").SceneError
    fix = "unmute its NLA tracks and strips"
    if what == "file":
        obj.modifiers[obj.dampsim.cache_modifier].show_viewport, fix = False, "show its cache modifier in the viewport"
    else:
        data = obj.data.shape_keys.animation_data
        (track,) = (one for one in data.nla_tracks if one.name == "DampSim Bake")
        if what == "solo":
            data.nla_tracks.new().is_solo = True
        elif what == "nla":
            data.use_nla = False
        else:
            (track if what == "track" else track.strips[0]).mute = True
    with pytest.raises(error, match=f"Wobbler: its bake is muted, .*; {fix}"):
        api.blend([obj], "LAND", 10, 6)
    assert not any(len(curve.keyframe_points) for curve in load("dampsim_addon.targets.influence").keyed_curves(obj))


@pytest.mark.slow
def test_cli_blends(load: Load, tmp_path: Path) -> None:
    obj = baked_wobbler(tmp_path)
    path = tmp_path / "scene.blend"
    bpy.ops.wm.save_as_mainfile(filepath=str(path))
    cli = load("dampsim_addon.cli")
    assert cli.main(["blend", "land", "--frame", "11", "--length", "6"]) == cli.DONE
    bpy.ops.wm.open_mainfile(filepath=str(path))
    obj = bpy.data.objects["Wobbler"]
    assert influences(obj, range(5, 12))[[0, 6]] == pytest.approx([1.0, 0.0])
    assert cli.main(["blend", "leap", "--frame", "11"]) == cli.USAGE


def test_curve_shows_influence(load: Load, tmp_path: Path) -> None:
    picture, curve = load("core.measure.picture"), load("core.measure.curve")
    frames = np.arange(20.0)
    shown = curve.SettleCurve(frames, np.cos(frames), None, None, 12.0, 12.0, 0.1, 0.1)
    plain, blended = (picture.draw_curve(shown, picture.DARK, one) for one in (None, np.linspace(1.0, 0.0, 20)))
    assert np.abs(plain - blended).max() > 0.2
    results = load("dampsim_addon.status.results")
    displayed = results.DisplayedCurve(shown, "bake", 3.0)
    assert results.curve_icon(displayed, True) == results.curve_icon(displayed, True)
    results.curve_icon(displayed, True, tuple(np.linspace(1.0, 0.0, 20)))
    results.curve_icon(displayed, True, tuple(np.linspace(0.5, 0.0, 20)))
    assert len(results._Results.current().icons) == 1


def shortening(obj: bpy.types.Object, shown: np.ndarray, plain: np.ndarray, simulated: np.ndarray) -> float:
    """Return the largest part by which an edge is shorter than without and with the simulation. shapes: (f, v, 3) m."""
    edges = np.array([edge.vertices for edge in obj.data.edges])
    found = [np.linalg.norm(one[:, edges[:, 0]] - one[:, edges[:, 1]], axis=2) for one in (shown, plain, simulated)]
    return float((1.0 - found[0] / np.minimum(*found[1:])).max())


@pytest.mark.slow
@pytest.mark.parametrize(("target", "frame", "length"), [("EXISTING_BONES", 24, 12), ("BONES", 14, 6)])
def test_bones_are_blended_as_played(load: Load, tmp_path: Path, target: str, frame: int, length: int) -> None:
    """Bones turn on the way. A chain keeps its edges that straight paths would shorten by 5%, so that Influence is
    keyed. Bones that share weights would lose 8%, where straight paths lose 1%, so that the frames are blended.
    """
    new_scene(30)
    obj, _ = (tail if target == "EXISTING_BONES" else belly)(tmp_path)
    obj.dampsim.settle, obj.dampsim.bounce, obj.dampsim.target = 20.0, 50.0, target
    obj.dampsim.max_bones, obj.dampsim.bone_bound_percent = 16, 0.5
    frames = range(frame - length, frame + 1)
    plain = np.array([world_vertices(obj, one) for one in frames])
    assert bpy.ops.dampsim.bake() == {"FINISHED"}
    simulated = np.array([world_vertices(obj, one) for one in frames])
    is_chain, straight = target == "EXISTING_BONES", 0.5 * (plain + simulated)
    assert (shortening(obj, straight, plain, simulated) > 0.02) == is_chain
    (warning,) = load("dampsim_addon.api").blend([obj], "LAND", frame, length)
    shown = np.array([world_vertices(obj, one) for one in frames])
    found = shortening(obj, shown, plain, simulated)
    assert bool(obj.dampsim.blended_frames) != is_chain
    assert found < (1e-3 if is_chain else 0.045)
    # With as many bones, the fit leaves a little more than the limit, and says so.
    assert ("Raise Max Bones" in warning) != is_chain
