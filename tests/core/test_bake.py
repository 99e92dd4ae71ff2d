"""Pins, simulation, cache and resume, without Blender."""

from __future__ import annotations

import hashlib
import json
import os
import subprocess
import sys
import threading
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy.spatial.transform import Rotation

from dampsim.core.bodies.followers import Tied
from dampsim.core.bodies.volume import Solid
from dampsim.core.errors import CacheError, DampSimError, SceneError, StaleCacheError
from dampsim.core.frames.cache import FrameCache
from dampsim.core.scene.body import Body
from dampsim.core.scene.fingerprint import inputs
from dampsim.core.scene.parameters import Settings
from dampsim.core.scene.scene import Scene
from dampsim.core.simulation.record import Progress, bake
from dampsim.core.simulation.sag import stiffness_for_sag
from dampsim.core.simulation.simulation import Simulation
from dampsim.core.stepping.controls import StepReport
from dampsim.core.stepping.step import Stepper
from dampsim.core.system.state import State
from dampsim.core.system.system import assemble
from shapes import box, sphere, with_body

ROOT = Path(__file__).parents[2]
DOWN = np.array([0.0, 0.0, -9.81])
LAST = 30


def swaying(last: int = LAST, **dials: float | str | bool) -> Scene:
    """A bar, held at one end, that is shaken to and fro."""
    surface = box()
    pins = (surface.vertices[:, 0] < 0.01).astype(float)
    settings = Settings(**{"stiffness": 500.0, "resolution": 600, "settle": 12.0, **dials})

    def motion(frame: float) -> np.ndarray:
        return surface.vertices + np.array([0.0, 0.2 * np.sin(0.7 * frame), 0.0])

    return Scene((Body(surface, pins, settings, motion),), 24.0, DOWN, 1, last)


def run(scene: Scene, folder: Path, **options: bool) -> list[bytes]:
    for _ in bake(Simulation(scene), FrameCache(folder, "Bar"), **options):
        pass
    return contents(folder)


def contents(folder: Path) -> list[bytes]:
    return [path.read_bytes() for path in sorted(folder.iterdir())]


def test_steps_that_were_helped_are_counted_over_a_bake_that_was_stopped(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Without overshoot a frame is one step.
    simulation, cache = Simulation(swaying(last=6, bounce=0.0)), FrameCache(tmp_path, "Bar")
    simulation.first_frame()
    usual = Stepper.step
    helps = iter([(0, 1), (3, 1), (0, 2), (2, 4), (0, 1)])

    def helped(stepper: Stepper, *given: Any) -> tuple[State, StepReport]:
        state, report = usual(stepper, *given)
        how, parts = next(helps)
        return state, replace(report, helped=how, substeps=parts)

    monkeypatch.setattr(Stepper, "step", helped)
    running = bake(simulation, cache)
    assert [next(running).helped for _ in range(4)] == [0, 0, 1, 2]
    running.close()
    sums = [progress.helped for progress in bake(simulation, cache)]
    assert [cache.read(number).helped for number in cache.numbers()] == [0, 0, 1, 1, 1, 0]
    assert sums == [0, 0, 1, 2, 3, 3]


def test_pinned_vertices_stay_on_their_animation_and_the_rest_is_thrown() -> None:
    scene = swaying()
    (body,) = scene.bodies
    pinned = body.pins == 1.0
    way = []
    for frame in Simulation(scene).frames():
        animated = body.motion(frame.number)
        np.testing.assert_allclose(frame.surface[pinned], animated[pinned], atol=1e-12)
        way.append(np.abs(frame.surface - animated).max())
    assert max(way) > 0.02


def test_a_scene_starts_hanging_still() -> None:
    rest = box().vertices
    frames = list(Simulation(with_body(swaying(), motion=lambda frame: rest)).frames())
    assert np.abs(frames[0].surface - rest).max() > 1e-3
    # What the start's solver leaves is a thousandth of its last small step.
    assert np.abs(frames[-1].surface - frames[0].surface).max() < 1e-6


@pytest.mark.slow
def test_weaker_pins_give_way_more_at_every_resolution() -> None:
    sags = {}
    for resolution in (400, 3000):
        for weight in (0.3, 0.9):
            surface = sphere()
            pins, settings = np.full(len(surface.vertices), weight), Settings(resolution=resolution, stiffness=100.0)
            body = Body(surface, pins, settings, lambda frame, still=surface.vertices: still)
            simulation = Simulation(Scene((body,), 24.0, DOWN, 1, 1))
            nodes = simulation.first_frame().state.positions
            sags[resolution, weight] = float((simulation.islands[0].system.rest - nodes)[:, 2].mean())
    for weight in (0.3, 0.9):
        assert sags[400, weight] == pytest.approx(sags[3000, weight], rel=0.25)  # The coarse body is stiffer itself.
    assert sags[400, 0.3] > 5.0 * sags[400, 0.9]


def test_followers_go_rigidly_with_a_turning_surface() -> None:
    surface = sphere().vertices
    points = np.random.default_rng(0).standard_normal((50, 3))
    follow = Tied.tie(points, surface, np.arange(len(surface)))
    c, s = np.cos(1.1), np.sin(1.1)
    turn = np.array([[c, -s, 0.0], [s, c, 0.0], [0.0, 0.0, 1.0]])
    shift = np.array([1.0, 2.0, 3.0])
    np.testing.assert_allclose(follow(surface @ turn.T + shift), points @ turn.T + shift, atol=1e-9)


def test_followers_turn_with_what_is_next_to_them_and_with_all_where_all_moves_as_one() -> None:
    surface = sphere().vertices
    follow = Tied.tie(surface, surface, np.arange(len(surface)))
    whole, shift = Rotation.from_rotvec([0.3, -0.8, 0.5]), np.array([1.0, 2.0, 3.0])
    moved = whole.apply(surface) + shift
    # To the last bit: nothing is found vertex by vertex.
    assert np.ptp(follow.frames(moved)[0], axis=0).max() == 0.0
    np.testing.assert_allclose(follow.frames(moved)[0][0], whole.as_matrix(), atol=1e-12)
    # Above half of its height it is twisted by another thousandth of a turn for each metre.
    twisted = moved.copy()
    high = np.maximum(surface[:, 2] - 0.5, 0.0)
    twisted[:] = whole.apply(Rotation.from_rotvec(np.outer(1e-3 * high, [0.0, 0.0, 1.0])).apply(surface)) + shift
    turns = follow.frames(twisted)[0]
    low, top = surface[:, 2] < 0.0, np.argmax(surface[:, 2])
    assert np.abs(turns[low] - whole.as_matrix()).max() < 1e-6
    way = (whole.inv() * Rotation.from_matrix(turns[top])).as_rotvec()
    assert 0.3e-3 < way[2] < 0.6e-3  # half a metre above, and its neighbours lower


def test_two_ears_on_a_pinned_head_are_two_regions_with_one_settle_time() -> None:
    surface = box((3.0, 0.25, 0.25))
    settings = Settings(resolution=1500)
    rest = Solid.build(Body(surface, np.zeros(8), settings, lambda frame: surface.vertices)).block.rest
    # Long left, short right: the middle is pinned by vertices of its own.
    middle = np.array([(x, y, z) for x in (1.7, 2.2) for y in (0.0, 0.25) for z in (0.0, 0.25)])
    vertices = np.concatenate([surface.vertices, np.repeat(middle, 1, axis=0)])
    hull = replace(surface, vertices=vertices)
    model = Solid.build(Body(hull, np.array([0.0] * 8 + [1.0] * 8), settings, lambda frame: vertices))
    system = assemble((model.block,), DOWN, None)
    assert len(system.rest) == len(rest)
    regions = [r for r in system.regions if len(r.free) > 20]
    assert len(regions) == 2
    assert max(r.eigenvalue for r in regions) > 3.0 * min(r.eigenvalue for r in regions)


@pytest.mark.slow
def test_a_stopped_bake_resumes_to_the_same_bytes(tmp_path: Path) -> None:
    whole = run(swaying(), tmp_path / "whole")
    steps = bake(Simulation(swaying()), FrameCache(tmp_path / "parts", "Bar"))
    for progress in steps:
        if progress.done == 11:
            break
    steps.close()
    assert run(swaying(), tmp_path / "parts") == whole


@pytest.mark.slow
def test_a_killed_bake_resumes_to_the_same_bytes(tmp_path: Path) -> None:
    script = (
        "import sys; sys.path[:0] = ['tests', 'tests/core']; import conftest; from pathlib import Path\n"
        "import time, test_bake as t\n"
        "for p in t.bake(t.Simulation(t.swaying()), t.FrameCache(Path(sys.argv[1]), 'Bar')):\n"
        "    print(p.done, flush=True); time.sleep(0.02)"
    )
    folder = tmp_path / "killed"
    command = [sys.executable, "-c", script, str(folder)]
    with subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        for line in process.stdout:
            if int(line) == 9:
                break
        process.kill()  # SIGKILL: nothing can be tidied up.
    done = len(FrameCache(folder, "Bar").numbers())
    assert 9 <= done < LAST
    assert run(swaying(), folder) == run(swaying(), tmp_path / "whole")


def test_a_frame_that_is_told_of_is_on_the_disk_and_the_next_one_is_simulated_while_it_is_flushed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    simulation, cache = Simulation(swaying(last=6)), FrameCache(tmp_path, "Bar")
    flush, ahead, asked, flushed = os.fsync, threading.Event(), [0], [0]
    plain = simulation.step

    def step(*what: Any) -> Any:
        asked[0] += 1
        ahead.set()
        return plain(*what)

    def slow(file: int) -> None:
        if threading.current_thread() is not threading.main_thread():
            # Never set where a flush is waited for before anything else is done. The last frame has no next one.
            assert flushed[0] == 5 or ahead.wait(30.0)
            ahead.clear()
            flushed[0] += 1
        flush(file)

    monkeypatch.setattr(simulation, "step", step)
    monkeypatch.setattr(os, "fsync", slow)
    for progress in bake(simulation, cache):
        if progress.stage == "Simulating":
            assert progress.done <= flushed[0]
            assert cache.numbers()[: progress.done] == list(range(1, progress.done + 1))
    assert (asked[0], flushed[0]) == (5, 6)
    monkeypatch.undo()
    assert contents(tmp_path) == run(swaying(last=6), tmp_path / "at once")


def test_what_the_disk_refuses_beside_the_simulation_is_said_and_costs_no_other_frame(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    flush, count = os.fsync, [0]
    told: list[Progress] = []

    def refusing(file: int) -> None:
        count[0] += 1
        # The first one is the header's.
        if count[0] == 5:
            raise OSError(28, "No space left on device")
        flush(file)

    monkeypatch.setattr(os, "fsync", refusing)
    cache = FrameCache(tmp_path, "Bar")
    with pytest.raises(CacheError, match=r"Bar: the cache folder .* cannot be written \(No space left"):
        told.extend(bake(Simulation(swaying(last=8)), cache))
    assert told[-1].done == 3
    assert cache.numbers() == [1, 2, 3]
    monkeypatch.undo()
    assert run(swaying(last=8), tmp_path) == run(swaying(last=8), tmp_path / "whole")


def test_a_bake_that_is_left_ends_what_it_writes_and_keeps_it(tmp_path: Path) -> None:
    cache = FrameCache(tmp_path, "Bar")
    steps = bake(Simulation(swaying(last=8)), cache)
    for progress in steps:
        if progress.done == 4 and progress.stage == "Simulating":
            break
    steps.close()
    # With the next one, which was simulated meanwhile.
    assert cache.numbers() == [1, 2, 3, 4, 5]
    assert not [path for path in tmp_path.iterdir() if path.name.endswith(".part")]


def test_a_longer_range_goes_on_from_the_last_frame(tmp_path: Path) -> None:
    short = run(swaying(last=10), tmp_path / "a")
    first = (tmp_path / "a" / "frame_000003.frame").stat().st_mtime_ns
    longer = run(swaying(last=15), tmp_path / "a")
    assert (tmp_path / "a" / "frame_000003.frame").stat().st_mtime_ns == first
    assert set(short) < set(longer)


def test_resume_after_a_change_is_refused_and_keeps_the_frames(tmp_path: Path) -> None:
    before = run(swaying(last=8), tmp_path)
    with pytest.raises(StaleCacheError, match=r"Bar: Settle \(12, now 13\) changed since the last bake"):
        run(swaying(last=12, settle=13.0), tmp_path)
    moved, motion = swaying(last=12), swaying().bodies[0].motion
    moved = with_body(moved, motion=lambda frame: motion(frame) + (0.1 if frame == 5.0 else 0.0))
    with pytest.raises(StaleCacheError, match="animation or dials at frame 5 changed"):
        run(moved, tmp_path)
    assert contents(tmp_path) == before


@pytest.mark.slow
@pytest.mark.parametrize("damage", ["cut", "flip", "empty"])
def test_a_damaged_frame_is_found(tmp_path: Path, damage: str) -> None:
    run(swaying(last=6), tmp_path)
    path = tmp_path / "frame_000004.frame"
    data = bytearray(path.read_bytes())
    if damage == "cut":
        data = data[: len(data) // 2]
    elif damage == "flip":
        data[len(data) // 3] ^= 0xFF
    else:
        data = bytearray()
    path.write_bytes(data)
    with pytest.raises(CacheError, match="Bar: frame 4 of the cache"):
        run(swaying(last=8), tmp_path)


def rewritten(folder: Path, number: int, **changes: object) -> None:
    """Another frame in its place, as whole as any."""
    cache = FrameCache(folder, "Bar")
    cache.append(replace(cache.read(number), **changes))


@pytest.mark.slow
@pytest.mark.parametrize("wrong", ["fewer nodes", "more vertices", "another body", "no body"])
def test_a_frame_that_is_not_of_the_body_is_named_and_nothing_is_lost(tmp_path: Path, wrong: str) -> None:
    run(swaying(last=6), tmp_path)
    frame = FrameCache(tmp_path, "Bar").read(4)
    (name,), state, surface = frame.shapes, frame.state, frame.surface
    changes: dict[str, dict[str, object]] = {
        "fewer nodes": {
            "state": replace(
                state,
                positions=state.positions[1:],
                velocities=state.velocities[1:],
                reference=state.reference[1:],
            )
        },
        "more vertices": {"shapes": {name: np.concatenate([surface, surface])}},
        "another body": {"shapes": {"Ear": surface}},
        "no body": {"shapes": {}},
    }
    rewritten(tmp_path, 4, **changes[wrong])
    before = contents(tmp_path)
    with pytest.raises(CacheError, match=r"Bar: frame 4 of the cache in .* is damaged or gone; re-bake from frame 4\."):
        run(swaying(last=8), tmp_path)
    assert contents(tmp_path) == before
    for _ in bake(Simulation(swaying(last=8)), FrameCache(tmp_path, "Bar"), start=4):
        pass
    assert contents(tmp_path) == run(swaying(last=8), tmp_path / "whole")


def test_a_cache_of_a_newer_dampsim_is_refused_as_such_and_kept(tmp_path: Path) -> None:
    run(swaying(last=6), tmp_path)
    header = json.loads((tmp_path / "header.json").read_text(encoding="utf-8"))["header"] | {"format": 3}
    check = hashlib.sha256(json.dumps(header, sort_keys=True).encode()).hexdigest()
    (tmp_path / "header.json").write_text(json.dumps({"header": header, "sha256": check}), encoding="utf-8")
    before = contents(tmp_path)
    with pytest.raises(StaleCacheError, match=r"Bar: the cache in .* was made by a newer DampSim; update DampSim"):
        run(swaying(last=8), tmp_path)
    assert contents(tmp_path) == before


def aged(folder: Path, made_from: dict[str, object]) -> None:
    """A cache as DampSim 1 left it."""
    header = {"inputs": made_from, "owner": ""}
    check = hashlib.sha256(json.dumps(header, sort_keys=True).encode()).hexdigest()
    folder.mkdir()
    (folder / "header.json").write_text(json.dumps({"header": header, "sha256": check}, indent=1), encoding="utf-8")
    for number in range(1, 7):
        (folder / f"frame_{number:06d}.npz").write_bytes(b"of its time")


@pytest.mark.parametrize("start", [None, 3])
@pytest.mark.parametrize("same", [False, True])
def test_a_cache_of_an_older_dampsim_is_refused_as_such_and_can_be_cleared(
    tmp_path: Path, same: bool, start: int | None
) -> None:
    folder, scene = tmp_path / "old", swaying(last=6)
    aged(folder, inputs(scene) if same else {"Settle": 12.0, "the frame rate": 24.0})
    before = contents(folder)
    cache = FrameCache(folder, "Bar")
    header = cache.header()
    assert header is not None
    assert header.older
    assert cache.numbers() == []
    with pytest.raises(StaleCacheError, match=r"Bar: the cache in .* was made by an older DampSim; clear it or bake"):
        list(bake(Simulation(scene), cache, start=start))
    assert contents(folder) == before
    cache.clear()
    assert not folder.exists()


def test_a_bake_from_the_start_takes_the_place_of_an_older_dampsims(tmp_path: Path) -> None:
    aged(tmp_path / "old", {"Settle": 12.0})
    assert run(swaying(last=6), tmp_path / "old", restart=True) == run(swaying(last=6), tmp_path / "new")


def test_dials_that_are_keyframed_but_constant_change_nothing() -> None:
    scene = swaying(last=12, bounce=40.0)
    keyed = with_body(scene, dials=lambda frame: scene.bodies[0].settings)
    plain, same = list(Simulation(scene).frames()), list(Simulation(keyed).frames())
    assert [f.state.positions.tobytes() for f in plain] == [f.state.positions.tobytes() for f in same]


def test_a_keyframed_stiffness_ends_at_the_sag_of_its_last_value() -> None:
    def hanging(stiffness: float) -> Scene:
        scene = swaying(last=40, stiffness=stiffness, bounce=0.0, accuracy="TIGHT")
        return with_body(scene, motion=lambda frame: scene.bodies[0].surface.vertices)

    def stiffening(frame: float) -> Settings:
        return replace(scene.bodies[0].settings, stiffness=float(np.clip(500.0 + 100.0 * (frame - 5.0), 500.0, 1000.0)))

    scene = hanging(500.0)
    frames = list(Simulation(with_body(scene, dials=stiffening)).frames())
    stiff = next(Simulation(hanging(1000.0)).frames())
    assert np.abs(frames[0].surface - stiff.surface).max() > 2e-3
    # From frame 10 on it had two and a half settle times of 12 frames: 1e-5 of the way.
    assert (
        np.abs(frames[-1].surface - stiff.surface).max() < 1e-5 * np.abs(frames[0].surface - stiff.surface).max() + 1e-6
    )


def test_a_keyframed_settle_holds_from_its_keyframe_on() -> None:
    scene = swaying(last=60, settle=200.0, bounce=0.0, start_settled=False)
    (body,) = scene.bodies
    scene = with_body(scene, motion=lambda frame: body.surface.vertices)
    slow = body.settings
    quick = replace(slow, settle=8.0)
    frames = list(Simulation(with_body(scene, dials=lambda frame: slow if frame < 20.5 else quick)).frames())
    way = [float(np.abs(f.surface - frames[-1].surface).max()) for f in frames]
    # Frame 20 is the 20th; eight frames after a stop 1% would be left, and it hardly moved: half of that, or less.
    assert way[19] > 0.5 * way[0]
    assert 0.002 * way[19] < way[27] < 0.006 * way[19]


@pytest.mark.skipif(os.name == "nt" or not Path("/proc/self").exists(), reason="needs /proc, which nobody can write to")
def test_a_folder_that_cannot_be_written_is_named(tmp_path: Path) -> None:
    with pytest.raises(CacheError, match=r"Bar: the cache folder .* cannot be written"):
        run(swaying(), Path("/proc/self/dampsim"))
    blocked = tmp_path / "file"
    blocked.write_text("in the way")
    with pytest.raises(CacheError, match=r"Bar: the cache"):
        run(swaying(), blocked)
    assert blocked.read_text() == "in the way"


@pytest.mark.parametrize(
    ("scene", "words"),
    [
        (replace(swaying(), fps=0.0), "Box: the frame rate is 0"),
        (replace(swaying(), last=0), "Box: the frame range 1 to 0 is empty"),
        (
            with_body(swaying(), motion=lambda frame: np.zeros((5, 3))),
            "Box: the mesh has 5 vertices at frame 1 instead of 8",
        ),
        (
            with_body(swaying(), motion=lambda frame: np.full((8, 3), np.nan)),
            "Box: the animation gives vertices no valid position",
        ),
    ],
)
def test_a_scene_that_cannot_run_says_why(scene: Scene, words: str) -> None:
    with pytest.raises(SceneError, match=words):
        Simulation(scene)


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:overflow", "ignore:invalid value")
def test_a_simulation_that_breaks_down_names_the_frame() -> None:
    rest = box().vertices
    wild = with_body(swaying(), motion=lambda frame: rest * (1.0 if frame < 3.0 else 1e8))
    with pytest.raises(DampSimError, match=r"Box: frame \d+ could not be simulated"):
        list(Simulation(wild).frames())


def test_frame_times_are_exact_whatever_the_substeps() -> None:
    frames = list(Simulation(swaying(substeps=3)).frames())
    assert [f.state.time for f in frames] == [f.number / 24.0 for f in frames]


@pytest.mark.parametrize("most", [1e-6, 0.3, 1e3])
@pytest.mark.parametrize("power", [0.5, 1.0, 2.0])
@pytest.mark.parametrize("guess", [1e-3, 1.0, 1e3])
def test_a_sag_that_can_be_had_is_found_and_one_that_cannot_is_come_near_to(
    most: float, power: float, guess: float
) -> None:
    def sag(factor: float) -> float:
        """Falls with this power of the stiffness; what is soft hangs at its length but for the last digits."""
        free = factor**-power
        return float(most * (1.0 - 1e-14 / free) if free >= most else free)

    for wanted in (1e-3, 0.05, 0.5):
        factor = stiffness_for_sag(sag, wanted, guess)
        assert 0.0 < factor < np.inf
        assert sag(factor) == pytest.approx(min(wanted, most), rel=3e-3)


@pytest.mark.parametrize("sag", [0.2, 1.0, 5.0])
def test_the_dialled_sag_is_the_measured_sag(sag: float) -> None:
    scene = swaying(last=1, stiffness_by="SAG", sag=sag)
    frame = next(Simulation(scene).frames())
    (body,) = scene.bodies
    measured = np.linalg.norm(frame.surface - body.motion(1.0), axis=1).max() / body.surface.size
    assert 100.0 * measured == pytest.approx(sag, rel=0.02)


def test_what_is_being_made_ready_is_told() -> None:
    told: list[str] = []
    Simulation(with_body(swaying(), settings=replace(swaying().bodies[0].settings, keep_shape=True)), tell=told.append)
    assert told == ["what Box is made of", "how Box swings", "where it hangs", "what hangs as it was modelled"]


def test_a_body_pinned_all_over_just_follows() -> None:
    scene = with_body(swaying(last=5), pins=np.ones(8))
    for frame in Simulation(scene).frames():
        np.testing.assert_allclose(frame.surface, scene.bodies[0].motion(frame.number), atol=1e-12)


@pytest.mark.slow
@pytest.mark.parametrize("settle", [1.0, 2.0, 5.0])
def test_the_wildest_dials_stay_sane(settle: float) -> None:
    scene = swaying(settle=settle, bounce=90.0)
    frames = list(Simulation(scene).frames())
    assert max(np.abs(f.surface - scene.bodies[0].motion(f.number)).max() for f in frames) < 1.0
