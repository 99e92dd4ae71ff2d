"""Blends that the frames of a bake contain, because straight paths would shorten edges."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from types import ModuleType, SimpleNamespace

import bpy
import numpy as np
import pytest
from scenes import add_simulation, dump, new_scene, size, world_vertices
from test_landing import influences, largest_accelerations

pytestmark = [pytest.mark.bpy, pytest.mark.versions]
Load = Callable[[str], ModuleType]
END = 24
EVERY = range(1, END + 1)
SLOW_TARGETS = ("FRAME_KEYS", "POINT_CACHE", "BONES")
TARGETS = ["SHAPE_KEYS", *(pytest.param(name, marks=pytest.mark.slow) for name in SLOW_TARGETS)]


def hanging_sheet(cache: Path, target: str = "SHAPE_KEYS") -> bpy.types.Object:
    """Return a sheet that is pinned at one side and hangs down from its pose. It is not baked yet."""
    new_scene(END)
    bpy.ops.mesh.primitive_grid_add(x_subdivisions=6, y_subdivisions=3, size=1.0)
    obj = bpy.context.object
    obj.name = "Sheet"
    add_simulation(obj, cache)
    obj.vertex_groups.new(name="Pin").add([v.index for v in obj.data.vertices if v.co.x < -0.3], 1.0, "REPLACE")
    obj.dampsim.pin_group, obj.dampsim.kind, obj.dampsim.settle, obj.dampsim.target = "Pin", "CLOTH", 10.0, target
    return obj


def bake(obj: bpy.types.Object) -> None:
    bpy.context.view_layer.objects.active = obj
    assert bpy.ops.dampsim.bake() == {"FINISHED"}


def shapes(obj: bpy.types.Object, frames: range = EVERY) -> np.ndarray:
    return np.array([world_vertices(obj, frame) for frame in frames])


def edge_lengths(obj: bpy.types.Object, played: np.ndarray) -> np.ndarray:
    pairs = np.array([edge.vertices for edge in obj.data.edges])
    return np.linalg.norm(played[:, pairs[:, 0]] - played[:, pairs[:, 1]], axis=2)


@pytest.mark.parametrize("target", TARGETS)
def test_landing_keeps_edges(load: Load, tmp_path: Path, target: str) -> None:
    """No edge is shortened by more than 2%, nothing pops, and Influence blends the result linearly."""
    obj = hanging_sheet(tmp_path, target)
    plain = shapes(obj)
    before = dump()
    bake(obj)
    simulated = shapes(obj)
    api, extent = load("dampsim_addon.api"), size(plain[0])
    assert api.blend([obj], "LAND", 22, 12) == [""]
    assert (influences(obj, EVERY) == 1.0).all()
    landed = shapes(obj)
    bound = 0.01 * obj.dampsim.baked_part * extent
    np.testing.assert_allclose(landed[:10], simulated[:10], atol=2.0 * bound + 1e-6)
    np.testing.assert_allclose(landed[21:], plain[21:], atol=bound + 1e-6)
    # The sheet hangs by more than 60 degrees, so that straight paths shorten edges by more than 13%.
    lengths = [edge_lengths(obj, one) for one in (landed, plain, simulated, plain + 0.5 * (simulated - plain))]
    assert (1.0 - lengths[3][15] / np.minimum(lengths[1], lengths[2])[15]).max() > 0.1
    assert (1.0 - lengths[0] / np.minimum(lengths[1], lengths[2])).max() < 0.02
    found, usual = largest_accelerations(landed - plain), largest_accelerations(simulated - plain)
    for place in range(9, 21):
        neighbours = max(found[place - 1], found[place + 1], usual[place - 1 : place + 2].max())
        assert found[place] <= 1.5 * neighbours + 4.0 * bound, place + 2
    for influence in (0.0, 0.25, 0.5, 1.0):
        obj.dampsim.influence = influence
        expected = plain + influence * (landed - plain)
        # Bones blend rotations.
        allowed = 1e-6 if target != "BONES" or influence in (0.0, 1.0) else 0.1 * extent
        np.testing.assert_allclose(shapes(obj), expected, atol=allowed * extent)
    obj.dampsim.influence = 1.0
    api.clear([obj])
    assert dump() == before


@pytest.mark.slow
def test_bones_keep_blended_edges(load: Load, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The fit keeps all edges in a blend, and 3 frames before and after it. Each bone has keyframes there."""
    obj, bones = hanging_sheet(tmp_path, "BONES"), load("dampsim_addon.targets.bones")
    fit, kept = bones.fit_bones, []

    def spy(*arguments: object, **settings: object) -> object:
        kept.append(settings["kept_edges"])
        return fit(*arguments, **settings)

    monkeypatch.setattr(bones, "fit_bones", spy)
    bake(obj)
    assert load("dampsim_addon.api").blend([obj], "LAND", 22, 12) == [""]
    assert kept[0] is None
    assert kept[-1].frames.tolist() == list(range(7, 24))
    assert {frozenset(pair) for pair in kept[-1].pairs.tolist()} == {frozenset(one.vertices) for one in obj.data.edges}
    rig = load("dampsim_addon.blender.bone_bakes").rig_of(obj)
    (strip,) = load("dampsim_addon.targets.bake_tracks").bake_strips(
        rig.animation_data, load("dampsim_addon.blender.bone_bakes").record_mark(obj.data)
    )
    (bag,) = strip.action.layers[0].strips[0].channelbags
    for curve in bag.fcurves:
        assert set(range(8, 25)) <= {round(key.co.x) for key in curve.keyframe_points}


@pytest.mark.parametrize(("target", "fix"), [("BONES", "Raise Max Bones"), ("SHAPE_KEYS", "Lower Max Error")])
def test_short_edges_of_bakes_are_reported(
    load: Load, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, target: str, fix: str
) -> None:
    """The shapes of the blend keep their edges; the bake shortens one by 3%."""
    obj, landing = hanging_sheet(tmp_path), load("dampsim_addon.jobs.landing")
    bake(obj)
    assert load("dampsim_addon.api").blend([obj], "LAND", 22, 12) == [""]
    obj.dampsim.baked = target
    original = landing._shapes
    monkeypatch.setattr(landing, "_shapes", lambda *more: 0.97 * original(*more))
    motion = landing.BlendedMotion(
        np.arange(20, 27), *(np.tile(original(bpy.context.scene, obj, [22]), (7, 1, 1)) for _ in range(2)),
        np.array([edge.vertices for edge in obj.data.edges]),
    )  # fmt: skip
    warning = landing.blend_warning(bpy.context.scene, obj, motion)
    assert warning == f"Sheet: the bake shortens edges of the blend by up to 3%. {fix}"


def test_rebakes_keep_blended_frames(load: Load, tmp_path: Path) -> None:
    """A re-bake, also to another target, contains the blend; its removal restores the bake."""
    obj = hanging_sheet(tmp_path)
    bake(obj)
    simulated, api = shapes(obj), load("dampsim_addon.api")
    assert api.blend([obj], "LAND", 22, 12) == [""]
    landed = shapes(obj)
    bound = 0.002 * size(landed[0])
    obj.dampsim.target = "POINT_CACHE"
    bake(obj)
    np.testing.assert_allclose(shapes(obj), landed, atol=bound)
    obj.dampsim.target = "SHAPE_KEYS"
    bake(obj)
    np.testing.assert_array_equal(shapes(obj), landed)
    assert bpy.ops.dampsim.remove_blends() == {"FINISHED"}
    np.testing.assert_array_equal(shapes(obj), simulated)
    assert not bpy.ops.dampsim.remove_blends.poll()


def test_fade_in_follows_landing(load: Load, tmp_path: Path) -> None:
    """Later blends are in the frames, too, and replace those in between."""
    obj = hanging_sheet(tmp_path)
    plain = shapes(obj)
    bake(obj)
    simulated, api = shapes(obj), load("dampsim_addon.api")
    assert bpy.ops.dampsim.blend(kind="LAND", frame=14, length=6) == {"FINISHED"}
    assert bpy.ops.dampsim.blend(kind="FADE_IN", frame=16, length=6) == {"FINISHED"}
    played, bound = shapes(obj), 0.003 * size(plain[0])
    np.testing.assert_allclose(played[:8], simulated[:8], atol=bound)
    np.testing.assert_allclose(played[13:16], plain[13:16], atol=bound)
    np.testing.assert_allclose(played[21:], simulated[21:], atol=bound)
    # The settle curve shows the blends.
    panel, curve = load("dampsim_addon.ui.main.panel"), SimpleNamespace(frames=range(20))
    weights = panel._influence_of_curve(obj, SimpleNamespace(start=4.0, curve=curve))
    np.testing.assert_allclose(np.array(weights)[[0, 10, 12, 18]], [1.0, 0.0, 0.0, 1.0], atol=1e-6)
    assert api.blend([obj], "LAND", 20, 10) == [""]
    points = load("dampsim_addon.targets.landing").stored_weights(obj)
    assert points == sorted(set(points))
    np.testing.assert_allclose(shapes(obj)[19], plain[19], atol=bound)


@pytest.mark.parametrize("change", ["keyed", "scaled", "outside"])
def test_unsuitable_bakes_key_influence(load: Load, tmp_path: Path, change: str) -> None:
    """A blend in the frames needs their own times. Keyframes of the user stay, and a message reports short edges."""
    obj = hanging_sheet(tmp_path)
    bake(obj)
    api = load("dampsim_addon.api")
    if change == "keyed":
        load("dampsim_addon.targets.influence").key_influence(obj, [(1.0, 1.0), (2.0, 0.9)])
    elif change == "scaled":
        api.retime([obj], 1.25)
    (warning,) = api.blend([obj], "LAND", 30 if change == "outside" else 22, 12)
    assert "Sheet: the blend shortens edges by up to" in warning
    assert influences(obj, range(22, 23))[0] < 1.0
    assert not obj.dampsim.blended_frames


def test_scaled_blend_keeps_edges(load: Load, tmp_path: Path) -> None:
    """A bake that is landed at its own speed and scaled later keeps its edges, at all frames."""
    obj = hanging_sheet(tmp_path)
    plain = shapes(obj)[:1]
    bake(obj)
    simulated, api = shapes(obj), load("dampsim_addon.api")
    assert api.blend([obj], "LAND", 22, 12) == [""]
    api.retime([obj], 1.7)
    played = shapes(obj, range(1, round(1.7 * END)))
    np.testing.assert_allclose(played[-1], plain[0], atol=0.002 * size(plain[0]))
    shortest = np.minimum(edge_lengths(obj, plain), edge_lengths(obj, simulated).min(axis=0))
    assert (1.0 - edge_lengths(obj, played) / shortest).max() < 0.02


def test_failed_bake_restores_blends(load: Load, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    obj = hanging_sheet(tmp_path)
    bake(obj)
    simulated, api = shapes(obj), load("dampsim_addon.api")
    error, write = load("core.base.errors").SceneError, load("dampsim_addon.jobs.write")

    def fail(*_: object) -> None:
        raise error("Sheet: no room; free some.")

    with monkeypatch.context() as patch:
        patch.setattr(write, "max_error", fail)
        with pytest.raises(error, match="no room"):
            api.blend([obj], "LAND", 22, 12)
    assert not obj.dampsim.blended_frames
    np.testing.assert_array_equal(shapes(obj), simulated)


def baked_pair(cache: Path) -> list[bpy.types.Object]:
    """Return two sheets, Other and Sheet, both baked alone."""
    first = hanging_sheet(cache)
    second = first.copy()
    second.name, second.data, second.location.y = "Other", first.data.copy(), 3.0
    second.dampsim.cache_folder = str(cache / "other")
    bpy.context.scene.collection.objects.link(second)
    for obj in (first, second):
        bpy.ops.object.select_all(action="DESELECT")
        obj.select_set(True)
        bake(obj)
    return [second, first]


@pytest.mark.parametrize("event", ["error", "cancellation", "unreadable"])
def test_bakes_match_their_blends(load: Load, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, event: str) -> None:
    """If the second of two objects fails or is cancelled, the first has its blend, and the second none."""
    first, second = objects = baked_pair(tmp_path)
    before = [shapes(obj) for obj in objects]
    blends, landing = load("dampsim_addon.jobs.blends"), load("dampsim_addon.targets.landing")
    error, bake_all, blend_bake = load("core.base.errors").SceneError, blends.bake_all, blends.blend_bake

    def write(scene: object, layer: object, chosen: Iterable[bpy.types.Object], restart: bool) -> Iterator[object]:
        """Bake the first object. Stop or fail at the second, also if both are baked by one call."""
        chosen = list(chosen)
        results = (yield from bake_all(scene, layer, [first], restart)) if first in chosen else []
        if second in chosen:
            if event == "cancellation":
                yield "second"
            if event == "error":
                return [*results, SimpleNamespace(name="Sheet", problem="Sheet: no room; free some.")]
            results += yield from bake_all(scene, layer, [second], restart)
        return results

    def read(scene: object, obj: bpy.types.Object, *more: object) -> object:
        if obj == second and event == "unreadable":
            raise error("Sheet: no room; free some.")
        return blend_bake(scene, obj, *more)

    monkeypatch.setattr(blends, "bake_all", write)
    monkeypatch.setattr(blends, "blend_bake", read)
    steps = blends.blend_bakes(bpy.context.scene, bpy.context.view_layer, objects, landing.Blend.LAND, 22, 12)
    if event == "cancellation":
        assert "second" in steps
        steps.close()
    else:
        with pytest.raises(error, match="no room"):
            list(steps)
    assert first.dampsim.blended_frames
    assert not second.dampsim.blended_frames
    assert np.abs(shapes(first) - before[0]).max() > 0.1
    np.testing.assert_array_equal(shapes(second), before[1])


def test_preview_range_changes_no_blend(load: Load, tmp_path: Path) -> None:
    """A blend contains all its frames, whatever the preview range."""
    obj, scene = hanging_sheet(tmp_path), bpy.context.scene
    plain = shapes(obj)
    bake(obj)
    simulated = shapes(obj)
    scene.use_preview_range, scene.frame_preview_start, scene.frame_preview_end = True, 8, 15
    assert bpy.ops.dampsim.blend(kind="LAND", frame=22, length=12) == {"FINISHED"}
    assert scene.use_preview_range
    np.testing.assert_allclose(shapes(obj)[21:], plain[21:], atol=0.002 * size(plain[0]))
    assert bpy.ops.dampsim.remove_blends() == {"FINISHED"}
    np.testing.assert_array_equal(shapes(obj), simulated)


@pytest.mark.parametrize("lost", ["every frame", "one frame"])
def test_blend_needs_cached_frames(load: Load, tmp_path: Path, lost: str) -> None:
    obj, api = hanging_sheet(tmp_path), load("dampsim_addon.api")
    bake(obj)
    assert api.blend([obj], "LAND", 22, 12) == [""]
    files = sorted(tmp_path.rglob("frame_*.frame"))
    assert len(files) >= END
    for path in files if lost == "every frame" else files[10:11]:
        path.unlink()
    landed = shapes(obj)
    with pytest.raises(load("core.base.errors").SceneError, match="Sheet: its frames are not simulated yet"):
        api.blend([obj], "LAND", 14, 8)
    np.testing.assert_array_equal(shapes(obj), landed)
    api.remove_blends([obj])
    assert not obj.dampsim.blended_frames


def test_damaged_blends_are_none(load: Load, tmp_path: Path) -> None:
    """A text that no version wrote counts as no blend."""
    obj, stored = hanging_sheet(tmp_path), load("dampsim_addon.targets.landing").stored_weights
    for text in ("[", "{}", "[[1]]", '[["a", 2]]', "7", "null", "[[1, null]]"):
        obj.dampsim.blended_frames = text
        assert stored(obj) == []
    obj.dampsim.blended_frames = "[[5, 2.0], [2, -1]]"
    assert stored(obj) == [(2.0, 0.0), (5.0, 1.0)]


@pytest.mark.slow
def test_cli_removes_blends(load: Load, tmp_path: Path) -> None:
    obj = hanging_sheet(tmp_path / "cache")
    bake(obj)
    path, cli = tmp_path / "scene.blend", load("dampsim_addon.cli")
    bpy.ops.wm.save_as_mainfile(filepath=str(path))
    assert cli.main(["blend", "land", "--frame", "22"]) == cli.DONE
    bpy.ops.wm.open_mainfile(filepath=str(path))
    assert bpy.data.objects["Sheet"].dampsim.blended_frames
    assert cli.main(["blend", "remove"]) == cli.DONE
    bpy.ops.wm.open_mainfile(filepath=str(path))
    assert not bpy.data.objects["Sheet"].dampsim.blended_frames
    assert cli.main(["blend", "land"]) == cli.USAGE


@pytest.mark.parametrize("seed", [0, *[pytest.param(k, marks=pytest.mark.slow) for k in range(1, 8)]])
def test_random_blends_keep_ends(load: Load, tmp_path: Path, seed: int) -> None:
    """After blends, re-bakes to other targets, removals and undo, frames are the pose, the simulation or between both.

    Frames that no blend reaches play the simulation, and Clear restores the object.
    """
    obj, chance, api = hanging_sheet(tmp_path), random.Random(seed), load("dampsim_addon.api")
    landing, before, plain = load("dampsim_addon.targets.landing"), dump(), shapes(obj)
    bake(obj)
    simulated, bound = shapes(obj), 0.003 * size(plain[0])
    bpy.ops.ed.undo_push(message="Baked")
    for _ in range(4):
        kept = obj.dampsim.blended_frames
        step = chance.choice(["blend", "blend", "target", "remove", "undo"])
        if step == "target":
            obj.dampsim.target = chance.choice(["SHAPE_KEYS", "FRAME_KEYS"])
            bake(obj)
            assert obj.dampsim.blended_frames == kept
        elif step == "remove":
            api.remove_blends([obj])
        else:
            kind, length = chance.choice(["LAND", "FADE_IN", "FADE_OUT"]), chance.randrange(4, 8)
            api.blend([obj], kind, chance.randrange(length + 1, END - length), length)
        bpy.ops.ed.undo_push(message=step)
        if step == "undo":
            bpy.ops.ed.undo()
            obj = bpy.data.objects["Sheet"]
            assert obj.dampsim.blended_frames == kept
        weights = landing.weights_at(landing.stored_weights(obj), EVERY)
        if not obj.dampsim.blended_frames:
            weights = influences(obj, EVERY)
        played = shapes(obj)
        for ends, weight in ((plain, 0.0), (simulated, 1.0)):
            np.testing.assert_allclose(played[weights == weight], ends[weights == weight], atol=bound)
    obj.dampsim.target = "SHAPE_KEYS"
    bpy.context.scene.frame_set(1)
    api.clear([obj])
    assert dump() == before


def test_blend_is_compared_with_cached_frames(load: Load, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A bake that plays edges 1% too long before the blend does not change those of the simulation."""
    obj, landing = hanging_sheet(tmp_path), load("dampsim_addon.jobs.landing")
    bake(obj)
    original = landing._shapes
    monkeypatch.setattr(landing, "_shapes", lambda *more: 1.01 * original(*more))
    _, motion = landing.blend_bake(bpy.context.scene, obj, load("dampsim_addon.targets.landing").Blend.LAND, 18, 10)
    assert motion.numbers.tolist() == list(range(5, 22))
    cache = load("dampsim_addon.model.caches").frame_cache(obj)
    expected = [cache.read_shape(number, obj.name) for number in range(5, 22)]
    np.testing.assert_array_equal(motion.simulated, expected)
