"""Re-bake of a range: blended into the cached frames without a pop, which stay as they were."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from test_bake import file_contents, swaying_bar

from builders import run_to_end
from dampsim.core.base.errors import CacheError, SceneError, StaleCacheError
from dampsim.core.frames.cache import FrameCache, RebakedRange
from dampsim.core.scene.scene import Scene
from dampsim.core.simulation.bake import bake, rebake_range
from dampsim.core.simulation.blend_curve import largest_shortening
from dampsim.core.simulation.range_blend import BlendEffect, BlendMeter, blend_weights
from dampsim.core.simulation.simulation import Simulation
from shapes import with_body

LAST = 44
PART = RebakedRange(12, 34, 8)


@pytest.fixture(scope="module")
def baked(tmp_path_factory: pytest.TempPathFactory) -> tuple[Scene, Path]:
    scene, folder = swaying_bar(last=LAST, resolution=150), tmp_path_factory.mktemp("baked")
    for _ in bake(Simulation(scene), FrameCache(folder, "Bar")):
        pass
    return scene, folder


@pytest.fixture
def cached(baked: tuple[Scene, Path], tmp_path: Path) -> tuple[Scene, FrameCache]:
    """Return a scene and a copy of its cache."""
    scene, folder = baked
    cache = FrameCache(tmp_path / "cache", "Bar")
    for _ in cache.copy_from(FrameCache(folder, "Bar")):
        pass
    return scene, cache


def softer(scene: Scene, **dials: float) -> Scene:
    dials = dials or {"settle": 24.0, "stiffness": 300.0}
    return with_body(scene, settings=replace(scene.bodies[0].settings, **dials))


def shapes(cache: FrameCache) -> np.ndarray:
    """Return the played vertices (f, v, 3)."""
    return np.array([cache.read_shape(number, "Box") for number in range(1, LAST + 1)])


def rebake(scene: Scene, cache: FrameCache, part: RebakedRange = PART) -> dict[str, BlendEffect]:
    return run_to_end(rebake_range(Simulation(scene), cache, part))


def worst_pop(played: np.ndarray, frames: range) -> float:
    """Return the largest second difference of a vertex at some frames, relative to the larger of its neighbours."""
    second = np.linalg.norm(np.diff(played, 2, axis=0), axis=2).max(axis=1)
    return max(second[f - 2] / max(second[f - 3], second[f - 1]) for f in frames)


def test_range_blends_into_kept_frames(cached: tuple[Scene, FrameCache]) -> None:
    """The range has the new dials in its middle, and all other frames are those of before."""
    scene, cache = cached
    before, files = shapes(cache), file_contents_of_frames(cache)
    effects = rebake(softer(scene), cache)
    after = shapes(cache)
    moved = np.abs(after - before).max(axis=(1, 2))
    assert not moved[: PART.first - 1].any()
    assert not moved[PART.last :].any()
    assert moved[PART.first + 7 : PART.last - 8].max() > 0.01
    assert cache.ranges() == [PART]
    assert effects["Box"].shortening < 0.05
    assert file_contents_of_frames(cache) == files
    fresh, last = Simulation(softer(scene)), cache.read(PART.first - 1)
    new = np.array([frame.shapes["Box"] for _, frame in zip(range(23), fresh.frames(last), strict=False)])
    weights = blend_weights(PART, has_end=True)[:, None, None]
    expected = before[11:34] + weights * (new - before[11:34])
    np.testing.assert_allclose(after[11:34], expected, atol=1e-6)
    assert weights[7] == weights[-8] == 1.0
    assert 0.0 < weights[0] < 0.05


def file_contents_of_frames(cache: FrameCache) -> list[bytes]:
    return [path.read_bytes() for path in sorted(cache.folder.glob("frame_*.frame"))]


@pytest.mark.parametrize("dials", [{"settle": 24.0}, {"bounce": 80.0}, {"stiffness": 300.0}, {"settle": 6.0}])
def test_range_has_no_pop(cached: tuple[Scene, FrameCache], dials: dict[str, float]) -> None:
    scene, cache = cached
    usual = worst_pop(shapes(cache), range(8, 40))
    assert rebake(softer(scene, **dials), cache)["Box"].needed_blend == 0
    seams = (*range(PART.first - 2, PART.first + 10), *range(PART.last - 9, PART.last + 3))
    assert worst_pop(shapes(cache), seams) < max(1.5, usual)


def test_cut_would_pop(cached: tuple[Scene, FrameCache]) -> None:
    scene, cache = cached
    played = shapes(cache)
    new = Simulation(softer(scene)).frames(cache.read(PART.first - 1))
    played[PART.first - 1 : PART.last] = [frame.shapes["Box"] for _, frame in zip(range(23), new, strict=False)]
    assert worst_pop(played, range(PART.last - 1, PART.last + 3)) > 2.0


def test_range_up_to_end(cached: tuple[Scene, FrameCache]) -> None:
    """At the end of a shot without a loop, nothing is left to blend into."""
    scene, cache = cached
    part = RebakedRange(25, LAST, 6)
    rebake(softer(scene), cache, part)
    new = list(Simulation(softer(scene)).frames(cache.read(24)))[-1].shapes["Box"]
    np.testing.assert_array_equal(cache.read_shape(LAST, "Box"), new)
    np.testing.assert_array_equal(cache.read_played(LAST).shapes["Box"], new)
    assert np.abs(cache.read(LAST).shapes["Box"] - new).max() > 1e-3


def test_repeated_range_replaces_itself(cached: tuple[Scene, FrameCache]) -> None:
    scene, cache = cached
    rebake(softer(scene), cache)
    once = shapes(cache)
    rebake(softer(scene), cache)
    np.testing.assert_array_equal(shapes(cache), once)
    rebake(softer(scene), cache, RebakedRange(10, 39, 6))
    assert cache.ranges() == [RebakedRange(10, 39, 6)]
    with pytest.raises(SceneError, match="cover a part of the re-baked frames 10 to 39"):
        rebake(softer(scene), cache, RebakedRange(20, 41, 4))


def test_stopped_range_changes_nothing(cached: tuple[Scene, FrameCache]) -> None:
    scene, cache = cached
    rebake(softer(scene), cache)
    before, files = shapes(cache), sorted(cache.folder.rglob("*"))
    steps = rebake_range(Simulation(scene), cache, PART)
    for _ in range(4):
        next(steps)
    steps.close()
    np.testing.assert_array_equal(shapes(cache), before)
    assert sorted(cache.folder.rglob("*")) == files


def test_bake_keeps_and_drops_ranges(cached: tuple[Scene, FrameCache]) -> None:
    """A bake with the dials of the cache keeps a range, one with others simulates all frames anew."""
    scene, cache = cached
    rebake(softer(scene), cache)
    played = shapes(cache)
    for _ in bake(Simulation(scene), cache, replace_outdated=True):
        pass
    np.testing.assert_array_equal(shapes(cache), played)
    for _ in bake(Simulation(scene), cache, start=35):
        pass
    assert cache.ranges() == [PART]
    for _ in bake(Simulation(scene), cache, start=34):
        pass
    assert cache.ranges() == []
    rebake(softer(scene), cache)
    for _ in bake(Simulation(softer(scene)), cache, replace_outdated=True):
        pass
    assert cache.ranges() == []
    cache.clear()
    assert not cache.folder.exists()


def test_damaged_range_is_dropped(cached: tuple[Scene, FrameCache]) -> None:
    scene, cache = cached
    before = shapes(cache)
    rebake(softer(scene), cache)
    (cache.folder / PART.folder_name / "frame_000020.frame").write_bytes(b"damaged")
    with pytest.raises(CacheError, match="frame 20 of the cache"):
        cache.read_shape(20, "Box")
    for _ in bake(Simulation(scene), cache, replace_outdated=True):
        pass
    np.testing.assert_array_equal(shapes(cache), before)


def test_copy_includes_ranges(cached: tuple[Scene, FrameCache], tmp_path: Path) -> None:
    scene, cache = cached
    rebake(softer(scene), cache)
    copy = FrameCache(tmp_path / "copy", "Bar")
    for _ in copy.copy_from(cache):
        pass
    np.testing.assert_array_equal(shapes(copy), shapes(cache))
    assert copy.range_inputs(PART)["bodies"]["Box"]["Settle"] == 24.0


def test_linked_range_is_left_alone(cached: tuple[Scene, FrameCache], tmp_path: Path) -> None:
    _, cache = cached
    before, other = shapes(cache), tmp_path / "other"
    other.mkdir()
    (other / "frame_000020.frame").write_bytes(b"mine")
    (cache.folder / PART.folder_name).symlink_to(other)
    np.testing.assert_array_equal(shapes(cache), before)
    cache.clear()
    assert file_contents(other) == [b"mine"]


@pytest.mark.parametrize(
    ("part", "text"),
    [
        (RebakedRange(1, 20, 4), "choose a range from frame 2 to 44"),
        (RebakedRange(20, 45, 4), "choose a range from frame 2 to 44"),
        (RebakedRange(20, 24, 4), "too few for blends over 4 frames"),
        (RebakedRange(20, 30, 1), "would jump"),
    ],
)
def test_impossible_ranges(cached: tuple[Scene, FrameCache], part: RebakedRange, text: str) -> None:
    scene, cache = cached
    with pytest.raises(SceneError, match=text):
        rebake(scene, cache, part)


def test_range_needs_fitting_frames(cached: tuple[Scene, FrameCache]) -> None:
    scene, cache = cached
    with pytest.raises(StaleCacheError, match="A range can change dials and animation, but not the mesh"):
        rebake(softer(scene, resolution=400), cache)
    cache.drop_from(40)
    with pytest.raises(CacheError, match="finish the bake first"):
        rebake(scene, cache)


def test_short_blend_is_reported(cached: tuple[Scene, FrameCache]) -> None:
    """A blend over 2 frames accelerates far more than both motions; the reported number of frames does not."""
    scene, cache = cached
    other = softer(scene, settle=4.0, stiffness=30.0)
    kept, first, last = shapes(cache), 12, 34
    needed = rebake(other, cache, RebakedRange(first, last, 2))["Box"].needed_blend
    played = shapes(cache)

    def acceleration(motion: np.ndarray) -> float:
        return float(np.linalg.norm(np.diff(motion[first - 3 : last + 2], 2, axis=0), axis=2).max())

    assert acceleration(played) > 1.5 * acceleration(kept)
    assert 3 <= needed <= 11
    assert rebake(other, cache, RebakedRange(first, last, needed))["Box"].needed_blend <= needed + 1
    assert acceleration(shapes(cache)) < acceleration(played)


@pytest.mark.parametrize(("gap", "blend", "needed"), [(0.02, 2, 0), (0.2, 2, 5), (0.2, 8, 0)])
def test_pop_between_still_shapes(cached: tuple[Scene, FrameCache], gap: float, blend: int, needed: int) -> None:
    """Between two still shapes, the blend moves by half the gap in a frame at its 2 frames. A small gap is no pop."""
    scene, shape = cached[0], cached[0].bodies[0].surface.vertices
    scale = scene.bodies[0].surface.size
    part = RebakedRange(10, 30, blend)
    meter, weights = BlendMeter(scene, part, has_end=True), blend_weights(part, has_end=True)
    for number in range(8, 33):
        is_inside = part.first <= number <= part.last
        kept = {"Box": shape}
        new = {"Box": shape + np.array([gap * scale * is_inside, 0.0, 0.0])}
        weight = weights[number - part.first] if is_inside else 0.0
        meter.add(number, kept, new, {"Box": kept["Box"] + weight * (new["Box"] - kept["Box"])})
    assert meter.effects()["Box"].needed_blend == needed


def test_shortening_of_turned_blend() -> None:
    """An edge halfway between two directions at right angles is 29% too short."""
    a, b = np.array([[0.0, 0, 0], [1, 0, 0]]), np.array([[0.0, 0, 0], [0, 1, 0]])
    assert largest_shortening(np.array([[0, 1]]), (a + b) / 2, a, b) == pytest.approx(1.0 - 0.5**0.5)
