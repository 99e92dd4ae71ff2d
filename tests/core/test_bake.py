"""Simulation with pins, baking into a cache, and resuming, without Blender."""

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

from animated import AnimatedBody, AnimatedScene
from dampsim.core.base.errors import CacheError, DampSimError, SceneError, StaleCacheError
from dampsim.core.bodies.solid import SolidKind
from dampsim.core.bodies.surface_binding import SurfaceBinding
from dampsim.core.frames.cache import FrameCache
from dampsim.core.scene.body import Body
from dampsim.core.scene.fingerprint import cache_inputs
from dampsim.core.scene.parameters import Settings
from dampsim.core.scene.scene import Scene
from dampsim.core.settle.step_report import StepReport
from dampsim.core.simulation.bake import Progress, bake
from dampsim.core.simulation.simulation import Simulation
from dampsim.core.simulation.statics import stiffness_for_sag
from dampsim.core.solvers.objective import Outcome
from dampsim.core.steppers.implicit import Stepper
from dampsim.core.steppers.step_policy import ChangedContacts, FailedAttempts, FailedSearch
from dampsim.core.system.state import State
from dampsim.core.system.system import assemble_system
from shapes import box, sphere, with_body

ROOT = Path(__file__).parents[2]
DOWN = np.array([0.0, 0.0, -9.81])
LAST = 30


def swaying_bar(last: int = LAST, **dials: float | str | bool) -> Scene:
    """Return a scene with a bar that is pinned at one end and shaken sideways."""
    surface = box()
    pins = (surface.vertices[:, 0] < 0.01).astype(float)
    settings = Settings(**{"stiffness": 500.0, "resolution": 600, "settle": 12.0, **dials})

    def motion(frame: float) -> np.ndarray:
        return surface.vertices + np.array([0.0, 0.2 * np.sin(0.7 * frame), 0.0])

    return AnimatedScene((AnimatedBody(surface, pins, settings, motion=motion),), 24.0, DOWN, 1, last)


def run_bake(scene: Scene, folder: Path, **options: bool) -> list[bytes]:
    for _ in bake(Simulation(scene), FrameCache(folder, "Bar"), **options):
        pass
    return file_contents(folder)


def file_contents(folder: Path) -> list[bytes]:
    return [path.read_bytes() for path in sorted(folder.iterdir())]


def test_guards_across_resumed_bake(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The report of guards goes on where a stopped bake left it. Guards that refine contacts are not in it."""
    # Without overshoot a frame is one step.
    simulation, cache = Simulation(swaying_bar(last=6, bounce=0.0)), FrameCache(tmp_path, "Bar")
    simulation.first_frame()
    usual = Stepper.step
    fired = iter(
        [{ChangedContacts: 2}, {FailedSearch: 3}, {FailedAttempts: 1}, {FailedSearch: 1, FailedAttempts: 2}, {}]
    )

    def report_guards(*given: Any, **named: Any) -> tuple[State, StepReport]:
        state, report = usual(*given, **named)
        return state, replace(report, guards=next(fired))

    monkeypatch.setattr(Stepper, "step", report_guards)
    running = bake(simulation, cache)
    once = {"FAILED_SEARCH": (3,)}
    twice = once | {"FAILED_ATTEMPTS": (4,)}
    assert [next(running).guards for _ in range(4)] == [{}, {}, once, twice]
    running.close()
    found = [progress.guards for progress in bake(simulation, cache)]
    last = {"FAILED_SEARCH": (3, 5), "FAILED_ATTEMPTS": (4, 5)}
    assert found == [{}, {}, once, twice, last, last]
    # A frame counts its hard steps, however often a guard fired in each.
    assert cache.read(5).guards == {"FAILED_SEARCH": 1, "FAILED_ATTEMPTS": 1}


def test_pinned_vertices_follow_animation_exactly() -> None:
    """Pinned vertices stay on their animation; free vertices swing away from it."""
    scene = swaying_bar()
    (body,) = scene.bodies
    pinned = body.pins == 1.0
    way = []
    for frame in Simulation(scene).frames():
        animated = body.vertices_at(frame.number)
        np.testing.assert_allclose(frame.surface[pinned], animated[pinned], atol=1e-12)
        way.append(np.abs(frame.surface - animated).max())
    assert max(way) > 0.02


def test_shot_starts_at_static_equilibrium() -> None:
    rest = box().vertices
    frames = list(Simulation(with_body(swaying_bar(), motion=lambda frame: rest)).frames())
    assert np.abs(frames[0].surface - rest).max() > 1e-3
    # The static solver's residual is a thousandth of its last small step.
    assert np.abs(frames[-1].surface - frames[0].surface).max() < 1e-6


@pytest.mark.slow
def test_sag_of_soft_pins_across_resolutions() -> None:
    """Weaker pins sag more, by the same distance at each resolution."""
    sags = {}
    for resolution in (400, 3000):
        for weight in (0.3, 0.9):
            surface = sphere()
            pins, settings = np.full(len(surface.vertices), weight), Settings(resolution=resolution, stiffness=100.0)
            body = Body(surface, pins, settings)
            simulation = Simulation(Scene((body,), 24.0, DOWN, 1, 1))
            nodes = simulation.first_frame().state.positions
            sags[resolution, weight] = float((simulation.islands[0].system.rest - nodes)[:, 2].mean())
    for weight in (0.3, 0.9):
        assert sags[400, weight] == pytest.approx(sags[3000, weight], rel=0.25)  # The coarse mesh is itself stiffer.
    assert sags[400, 0.3] > 5.0 * sags[400, 0.9]


def test_surface_binding_follows_rigid_motion() -> None:
    surface = sphere().vertices
    points = np.random.default_rng(0).standard_normal((50, 3))
    follow = SurfaceBinding.bind(points, surface, np.arange(len(surface)))
    c, s = np.cos(1.1), np.sin(1.1)
    turn = np.array([[c, -s, 0.0], [s, c, 0.0], [0.0, 0.0, 1.0]])
    shift = np.array([1.0, 2.0, 3.0])
    np.testing.assert_allclose(follow(surface @ turn.T + shift), points @ turn.T + shift, atol=1e-9)


def test_surface_binding_rotations_local_or_common() -> None:
    """Bound points turn with the surface near them, and exactly alike if the surface moves rigidly."""
    surface = sphere().vertices
    follow = SurfaceBinding.bind(surface, surface, np.arange(len(surface)))
    whole, shift = Rotation.from_rotvec([0.3, -0.8, 0.5]), np.array([1.0, 2.0, 3.0])
    moved = whole.apply(surface) + shift
    # Equal to the last bit: a rigid motion gives one common rotation.
    assert np.ptp(follow.local_frames(moved)[0], axis=0).max() == 0.0
    np.testing.assert_allclose(follow.local_frames(moved)[0][0], whole.as_matrix(), atol=1e-12)
    # Above z = 0.5 m it is twisted by 0.001 rad per metre.
    twisted = moved.copy()
    high = np.maximum(surface[:, 2] - 0.5, 0.0)
    twisted[:] = whole.apply(Rotation.from_rotvec(np.outer(1e-3 * high, [0.0, 0.0, 1.0])).apply(surface)) + shift
    turns = follow.local_frames(twisted)[0]
    low, top = surface[:, 2] < 0.0, np.argmax(surface[:, 2])
    assert np.abs(turns[low] - whole.as_matrix()).max() < 1e-6
    way = (whole.inv() * Rotation.from_matrix(turns[top])).as_rotvec()
    assert 0.3e-3 < way[2] < 0.6e-3  # Half a metre above; its neighbours are lower.


def test_pinned_middle_separates_regions() -> None:
    """Two ears on a pinned head are two regions, each with its own first eigenvalue."""
    surface = box((3.0, 0.25, 0.25))
    settings = Settings(resolution=1500)
    rest = SolidKind.build(Body(surface, np.zeros(8), settings)).block.rest
    # Long on the left, short on the right; separate vertices pin the middle.
    middle = np.array([(x, y, z) for x in (1.7, 2.2) for y in (0.0, 0.25) for z in (0.0, 0.25)])
    vertices = np.concatenate([surface.vertices, np.repeat(middle, 1, axis=0)])
    hull = replace(surface, vertices=vertices)
    model = SolidKind.build(Body(hull, np.array([0.0] * 8 + [1.0] * 8), settings))
    system = assemble_system((model.block,), DOWN, None)
    assert len(system.rest) == len(rest)
    regions = [r for r in system.regions if len(r.free) > 20]
    assert len(regions) == 2
    assert max(r.eigenvalue for r in regions) > 3.0 * min(r.eigenvalue for r in regions)


@pytest.mark.slow
def test_stopped_bake_resumes_bit_identically(tmp_path: Path) -> None:
    whole = run_bake(swaying_bar(), tmp_path / "whole")
    steps = bake(Simulation(swaying_bar()), FrameCache(tmp_path / "parts", "Bar"))
    for progress in steps:
        if progress.done == 11:
            break
    steps.close()
    assert run_bake(swaying_bar(), tmp_path / "parts") == whole


@pytest.mark.slow
def test_killed_bake_resumes_bit_identically(tmp_path: Path) -> None:
    script = (
        "import sys; sys.path[:0] = ['tests', 'tests/core']; import conftest; from pathlib import Path\n"
        "import time, test_bake as t\n"
        "for p in t.bake(t.Simulation(t.swaying_bar()), t.FrameCache(Path(sys.argv[1]), 'Bar')):\n"
        "    print(p.done, flush=True); time.sleep(0.02)"
    )
    folder = tmp_path / "killed"
    command = [sys.executable, "-c", script, str(folder)]
    with subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        for line in process.stdout:
            if int(line) == 9:
                break
        process.kill()  # SIGKILL leaves no time for cleanup.
    done = len(FrameCache(folder, "Bar").frame_numbers())
    assert 9 <= done < LAST
    assert run_bake(swaying_bar(), folder) == run_bake(swaying_bar(), tmp_path / "whole")


def test_background_writer_flushes_before_reporting(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A reported frame is on the disk, and the next frame is simulated during its flush."""
    simulation, cache = Simulation(swaying_bar(last=6)), FrameCache(tmp_path, "Bar")
    flush, ahead, asked, flushed = os.fsync, threading.Event(), [0], [0]
    plain = simulation.step

    def step(*what: Any) -> Any:
        asked[0] += 1
        ahead.set()
        return plain(*what)

    def slow(file: int) -> None:
        if threading.current_thread() is not threading.main_thread():
            # Times out if the bake waits for the flush before it simulates. The last frame has no successor.
            assert flushed[0] == 5 or ahead.wait(30.0)
            ahead.clear()
            flushed[0] += 1
        flush(file)

    monkeypatch.setattr(simulation, "step", step)
    monkeypatch.setattr(os, "fsync", slow)
    for progress in bake(simulation, cache):
        if progress.stage == "Simulating":
            assert progress.done <= flushed[0]
            assert cache.frame_numbers()[: progress.done] == list(range(1, progress.done + 1))
    assert (asked[0], flushed[0]) == (5, 6)
    monkeypatch.undo()
    assert file_contents(tmp_path) == run_bake(swaying_bar(last=6), tmp_path / "at once")


def test_background_write_error_keeps_earlier_frames(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """An error of the background writer is raised; earlier frames stay and the bake can resume."""
    flush, count = os.fsync, [0]
    told: list[Progress] = []

    def refusing(file: int) -> None:
        count[0] += 1
        # The first flush is that of the header.
        if count[0] == 5:
            raise OSError(28, "No space left on device")
        flush(file)

    monkeypatch.setattr(os, "fsync", refusing)
    cache = FrameCache(tmp_path, "Bar")
    with pytest.raises(CacheError, match=r"Bar: the cache folder .* cannot be written \(No space left"):
        told.extend(bake(Simulation(swaying_bar(last=8)), cache))
    assert told[-1].done == 3
    assert cache.frame_numbers() == [1, 2, 3]
    monkeypatch.undo()
    assert run_bake(swaying_bar(last=8), tmp_path) == run_bake(swaying_bar(last=8), tmp_path / "whole")


def test_closed_bake_finishes_pending_write(tmp_path: Path) -> None:
    cache = FrameCache(tmp_path, "Bar")
    steps = bake(Simulation(swaying_bar(last=8)), cache)
    for progress in steps:
        if progress.done == 4 and progress.stage == "Simulating":
            break
    steps.close()
    # The next frame, simulated in the meantime, is kept too.
    assert cache.frame_numbers() == [1, 2, 3, 4, 5]
    assert not [path for path in tmp_path.iterdir() if path.name.endswith(".part")]


def test_longer_range_keeps_baked_frames(tmp_path: Path) -> None:
    short = run_bake(swaying_bar(last=10), tmp_path / "a")
    first = (tmp_path / "a" / "frame_000003.frame").stat().st_mtime_ns
    longer = run_bake(swaying_bar(last=15), tmp_path / "a")
    assert (tmp_path / "a" / "frame_000003.frame").stat().st_mtime_ns == first
    assert set(short) < set(longer)


def test_resume_refused_after_change(tmp_path: Path) -> None:
    """A bake of changed inputs does not resume, and leaves the cache unchanged."""
    before = run_bake(swaying_bar(last=8), tmp_path)
    with pytest.raises(StaleCacheError, match=r"Bar: Settle \(12, now 13\) changed since the last bake"):
        run_bake(swaying_bar(last=12, settle=13.0), tmp_path)
    moved, motion = swaying_bar(last=12), swaying_bar().bodies[0].motion
    moved = with_body(moved, motion=lambda frame: motion(frame) + (0.1 if frame == 5.0 else 0.0))
    with pytest.raises(StaleCacheError, match="animation or dials at frame 5 changed"):
        run_bake(moved, tmp_path)
    assert file_contents(tmp_path) == before


@pytest.mark.slow
@pytest.mark.parametrize("damage", ["cut", "flip", "empty"])
def test_damaged_frame_raises_cache_error(tmp_path: Path, damage: str) -> None:
    run_bake(swaying_bar(last=6), tmp_path)
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
        run_bake(swaying_bar(last=8), tmp_path)


def rewrite_frame(folder: Path, number: int, **changes: object) -> None:
    """Replace a frame of the cache by a changed one with valid checksums."""
    cache = FrameCache(folder, "Bar")
    cache.append(replace(cache.read(number), **changes))


@pytest.mark.slow
@pytest.mark.parametrize("wrong", ["fewer nodes", "more vertices", "another body", "no body"])
def test_resume_rejects_mismatched_frame(tmp_path: Path, wrong: str) -> None:
    """The error names the frame, the cache stays, and a bake from that frame repairs it."""
    run_bake(swaying_bar(last=6), tmp_path)
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
    rewrite_frame(tmp_path, 4, **changes[wrong])
    before = file_contents(tmp_path)
    with pytest.raises(CacheError, match=r"Bar: frame 4 of the cache in .* is damaged or gone; re-bake from frame 4\."):
        run_bake(swaying_bar(last=8), tmp_path)
    assert file_contents(tmp_path) == before
    for _ in bake(Simulation(swaying_bar(last=8)), FrameCache(tmp_path, "Bar"), start=4):
        pass
    assert file_contents(tmp_path) == run_bake(swaying_bar(last=8), tmp_path / "whole")


def test_newer_cache_refused_and_kept(tmp_path: Path) -> None:
    run_bake(swaying_bar(last=6), tmp_path)
    header = json.loads((tmp_path / "header.json").read_text(encoding="utf-8"))["header"] | {"format": 3}
    check = hashlib.sha256(json.dumps(header, sort_keys=True).encode()).hexdigest()
    (tmp_path / "header.json").write_text(json.dumps({"header": header, "sha256": check}), encoding="utf-8")
    before = file_contents(tmp_path)
    with pytest.raises(StaleCacheError, match=r"Bar: the cache in .* was made by a newer DampSim; update DampSim"):
        run_bake(swaying_bar(last=8), tmp_path)
    assert file_contents(tmp_path) == before


def write_old_cache(folder: Path, made_from: dict[str, object]) -> None:
    """Write a cache in the format of DampSim 1."""
    header = {"inputs": made_from, "owner": ""}
    check = hashlib.sha256(json.dumps(header, sort_keys=True).encode()).hexdigest()
    folder.mkdir()
    (folder / "header.json").write_text(json.dumps({"header": header, "sha256": check}, indent=1), encoding="utf-8")
    for number in range(1, 7):
        (folder / f"frame_{number:06d}.npz").write_bytes(b"of its time")


@pytest.mark.parametrize("start", [None, 3])
@pytest.mark.parametrize("same", [False, True])
def test_older_cache_refused_but_clearable(tmp_path: Path, same: bool, start: int | None) -> None:
    folder, scene = tmp_path / "old", swaying_bar(last=6)
    write_old_cache(folder, cache_inputs(scene) if same else {"Settle": 12.0, "the frame rate": 24.0})
    before = file_contents(folder)
    cache = FrameCache(folder, "Bar")
    header = cache.header()
    assert header is not None
    assert header.is_older
    assert cache.frame_numbers() == []
    with pytest.raises(StaleCacheError, match=r"Bar: the cache in .* was made by an older DampSim; clear it or bake"):
        list(bake(Simulation(scene), cache, start=start))
    assert file_contents(folder) == before
    cache.clear()
    assert not folder.exists()


def test_restart_replaces_older_cache(tmp_path: Path) -> None:
    write_old_cache(tmp_path / "old", {"Settle": 12.0})
    assert run_bake(swaying_bar(last=6), tmp_path / "old", restart=True) == run_bake(
        swaying_bar(last=6), tmp_path / "new"
    )


def test_constant_keyframed_settings_change_nothing() -> None:
    scene = swaying_bar(last=12, bounce=40.0)
    keyed = with_body(scene, settings_by_frame=lambda frame: scene.bodies[0].settings)
    plain, same = list(Simulation(scene).frames()), list(Simulation(keyed).frames())
    assert [f.state.positions.tobytes() for f in plain] == [f.state.positions.tobytes() for f in same]


def test_keyframed_stiffness_reaches_final_sag() -> None:
    def hanging(stiffness: float) -> Scene:
        scene = swaying_bar(last=40, stiffness=stiffness, bounce=0.0, accuracy="TIGHT")
        return with_body(scene, motion=lambda frame: scene.bodies[0].surface.vertices)

    def stiffening(frame: float) -> Settings:
        return replace(scene.bodies[0].settings, stiffness=float(np.clip(500.0 + 100.0 * (frame - 5.0), 500.0, 1000.0)))

    scene = hanging(500.0)
    frames = list(Simulation(with_body(scene, settings_by_frame=stiffening)).frames())
    stiff = next(Simulation(hanging(1000.0)).frames())
    assert np.abs(frames[0].surface - stiff.surface).max() > 2e-3
    # From frame 10 on there are two and a half Settle times of 12 frames, which leave 1e-5 of the change.
    assert (
        np.abs(frames[-1].surface - stiff.surface).max() < 1e-5 * np.abs(frames[0].surface - stiff.surface).max() + 1e-6
    )


def test_keyframed_settle_applies_from_its_keyframe() -> None:
    scene = swaying_bar(last=60, settle=200.0, bounce=0.0, start_settled=False)
    (body,) = scene.bodies
    scene = with_body(scene, motion=lambda frame: body.surface.vertices)
    slow = body.settings
    quick = replace(slow, settle=8.0)
    frames = list(
        Simulation(with_body(scene, settings_by_frame=lambda frame: slow if frame < 20.5 else quick)).frames()
    )
    way = [float(np.abs(f.surface - frames[-1].surface).max()) for f in frames]
    # Eight frames after a stop 1% would be left. A body almost at rest keeps half of that or less.
    assert way[19] > 0.5 * way[0]
    assert 0.002 * way[19] < way[27] < 0.006 * way[19]


@pytest.mark.skipif(os.name == "nt" or not Path("/proc/self").exists(), reason="needs /proc, which nobody can write to")
def test_unwritable_cache_folder_is_named(tmp_path: Path) -> None:
    with pytest.raises(CacheError, match=r"Bar: the cache folder .* cannot be written"):
        run_bake(swaying_bar(), Path("/proc/self/dampsim"))
    blocked = tmp_path / "file"
    blocked.write_text("in the way")
    with pytest.raises(CacheError, match=r"Bar: the cache"):
        run_bake(swaying_bar(), blocked)
    assert blocked.read_text() == "in the way"


@pytest.mark.parametrize(
    ("scene", "words"),
    [
        (replace(swaying_bar(), fps=0.0), "Box: the frame rate is 0"),
        (replace(swaying_bar(), last=0), "Box: the frame range 1 to 0 is empty"),
        (
            with_body(swaying_bar(), motion=lambda frame: np.zeros((5, 3))),
            "Box: the mesh has 5 vertices at frame 1 instead of 8",
        ),
        (
            with_body(swaying_bar(), motion=lambda frame: np.full((8, 3), np.nan)),
            "Box: the animation gives vertices no valid position",
        ),
    ],
)
def test_invalid_scene_error_states_reason(scene: Scene, words: str) -> None:
    with pytest.raises(SceneError, match=words):
        Simulation(scene)


def test_failed_simulation_names_frame(monkeypatch: pytest.MonkeyPatch) -> None:
    """A step that the policy cannot end either stops the simulation, with a message that names the frame."""
    simulation = Simulation(swaying_bar())
    frames = [simulation.first_frame()]
    usual = Stepper.step

    def fail_late(self: Stepper, state: State, *given: Any, **named: Any) -> tuple[State, StepReport]:
        after, report = usual(self, state, *given, **named)
        return after, replace(report, outcome=Outcome.NOT_FINITE) if state.time > 3.5 / 24.0 else report

    monkeypatch.setattr(Stepper, "step", fail_late)
    with pytest.raises(DampSimError, match=r"Box: frame 5 could not be simulated"):
        frames += simulation.frames(frames[0])


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:overflow", "ignore:invalid value")
def test_wild_motion_ends_calmly() -> None:
    """Pins that suddenly grow a hundred million times stop no bake; the report names the frame."""
    rest = box().vertices
    wild = with_body(replace(swaying_bar(), last=6), motion=lambda frame: rest * (1.0 if frame < 3.0 else 1e8))
    frames = list(Simulation(wild).frames())
    assert all(np.isfinite(frame.surface).all() for frame in frames)
    assert not any(frame.guards for frame in frames[:2])
    assert "SPENT_WORK" in frames[2].guards


def test_frame_times_exact_with_substeps() -> None:
    frames = list(Simulation(swaying_bar(substeps=3)).frames())
    assert [f.state.time for f in frames] == [f.number / 24.0 for f in frames]


@pytest.mark.parametrize("most", [1e-6, 0.3, 1e3])
@pytest.mark.parametrize("power", [0.5, 1.0, 2.0])
@pytest.mark.parametrize("guess", [1e-3, 1.0, 1e3])
def test_stiffness_for_sag_within_reach(most: float, power: float, guess: float) -> None:
    """A reachable sag is met; otherwise the sag is as near as the body allows."""

    def sag(factor: float) -> float:
        """Return a sag that falls with a power of the stiffness and saturates at most for soft bodies."""
        free = factor**-power
        return float(most * (1.0 - 1e-14 / free) if free >= most else free)

    for wanted in (1e-3, 0.05, 0.5):
        factor = stiffness_for_sag(sag, wanted, guess)
        assert 0.0 < factor < np.inf
        assert sag(factor) == pytest.approx(min(wanted, most), rel=3e-3)


@pytest.mark.parametrize("sag", [0.2, 1.0, 5.0])
def test_measured_sag_matches_setting(sag: float) -> None:
    scene = swaying_bar(last=1, stiffness_by="SAG", sag=sag)
    frame = next(Simulation(scene).frames())
    (body,) = scene.bodies
    measured = np.linalg.norm(frame.surface - body.vertices_at(1.0), axis=1).max() / body.surface.size
    assert 100.0 * measured == pytest.approx(sag, rel=0.02)


def test_preparation_reports_its_stages() -> None:
    told: list[tuple[str, float]] = []
    Simulation(
        with_body(swaying_bar(), settings=replace(swaying_bar().bodies[0].settings, keep_shape=True)),
        report_progress=lambda *stage: told.append(stage),
    )
    assert list(dict(told)) == [
        "the simulation mesh of Box",
        "the natural frequency of Box",
        "the hanging shape",
        "the rest shape that keeps the modelled shape",
    ]
    search = [fraction for stage, fraction in told if stage == "the hanging shape"]
    assert search == sorted(search)
    assert search[0] == 0.0
    assert search[-1] > 0.9
    assert len(set(search)) > 4


def test_fully_pinned_body_follows_animation() -> None:
    scene = with_body(swaying_bar(last=5), pins=np.ones(8))
    for frame in Simulation(scene).frames():
        np.testing.assert_allclose(frame.surface, scene.bodies[0].vertices_at(frame.number), atol=1e-12)


@pytest.mark.slow
@pytest.mark.parametrize("settle", [1.0, 2.0, 5.0])
def test_extreme_settings_stay_bounded(settle: float) -> None:
    """With the shortest Settle times and 90% Bounce, the body stays within 1 m of its animation."""
    scene = swaying_bar(settle=settle, bounce=90.0)
    frames = list(Simulation(scene).frames())
    assert max(np.abs(f.surface - scene.bodies[0].vertices_at(f.number)).max() for f in frames) < 1.0


@pytest.mark.parametrize("change", ["dial", "frame 5", "first frame", "damage", "header", "older version"])
def test_outdated_frames_are_replaced(tmp_path: Path, change: str) -> None:
    """Exactly the frames from the first invalid one on are simulated again, and all equal those of a new bake."""
    run_bake(swaying_bar(last=8), tmp_path / "old")
    scene, motion, kept = swaying_bar(last=9), swaying_bar().bodies[0].motion, 0
    if change == "dial":
        scene = swaying_bar(last=9, settle=13.0)
    elif change in ("frame 5", "first frame"):
        number, kept = (5.0, 4) if change == "frame 5" else (1.0, 0)
        scene = with_body(scene, motion=lambda frame: motion(frame) + (0.1 if frame == number else 0.0))
    elif change == "damage":
        (tmp_path / "old" / "frame_000003.frame").write_bytes(b"")
        kept = 2
    elif change == "header":
        (tmp_path / "old" / "header.json").write_text("{")
    else:
        (tmp_path / "old").rename(tmp_path / "gone")
        write_old_cache(tmp_path / "old", {"Settle": 12.0})
    before = {path.name: path.stat().st_mtime_ns for path in (tmp_path / "old").glob("*.frame")}
    assert run_bake(scene, tmp_path / "old", replace_outdated=True) == run_bake(scene, tmp_path / "new")
    after = {path.name: path.stat().st_mtime_ns for path in (tmp_path / "old").glob("*.frame")}
    same = [name for name in sorted(before) if before[name] == after.get(name)]
    assert same == [f"frame_{number:06d}.frame" for number in range(1, kept + 1)]
