"""Validity of live frames under random sequences of edits, undo, playback and saving.

After each step, every frame that Live marks valid must equal, bit for bit, that of a fresh simulation of the current
scene. A sequence is determined by its seed; a failure lists the edits, and the same seed repeats them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path
from random import Random
from types import ModuleType
from typing import Any
from zlib import crc32

import bpy
import numpy as np
import pytest
from random_edits import bodies, create_shot, random_edit

pytestmark = [pytest.mark.bpy, pytest.mark.versions]
Load = Callable[[str], ModuleType]
# 40 sequences of 25 edits are 1,000 edits.
SEQUENCES, EDITS = 40, 25
# Least frames that a sequence compares: with fewer, its edits led to refusals only.
MIN_COMPARED = 10


@pytest.fixture
def live(load: Load, monkeypatch: pytest.MonkeyPatch) -> Iterator[ModuleType]:
    module = load("dampsim_addon.live")
    # A sequence does not depend on the speed of the machine.
    monkeypatch.setattr(load("dampsim_addon.live.handlers"), "TIME_BUDGET", 600.0)
    # Ten times faster, for Live and for the reference: a rough step has the same inputs as an accurate one.
    step, lbfgs, substeps, reports = (
        load(f"core.{name}")
        for name in ("steppers.step_policy", "solvers.lbfgs", "settle.controls", "settle.step_report")
    )
    monkeypatch.setattr(substeps, "MAX_SUBSTEPS", 2)
    # Results cached with another limit, here and after the test.
    substeps.choose_substeps.cache_clear()
    # Keyed values need more substeps in some frames, and fewer in others.
    dials = load("core.simulation.dials").DialInterpreter
    counted = dials._count_substeps

    def counts(self: Any, body: int, settings: Any) -> Any:
        return replace(counted(self, body, settings), count=settings.substeps + crc32(repr(settings).encode()) % 2)

    monkeypatch.setattr(dials, "_count_substeps", counts)
    monkeypatch.setattr(step.StepPolicy, "accepts_part", lambda *_, **__: reports.Verdict.ACCEPT)
    monkeypatch.setattr(step.StepPolicy, "attempts", lambda self, minimiser, controls: [(False, minimiser)])
    monkeypatch.setattr(lbfgs.minimise_lbfgs, "__defaults__", (20, 5))
    monkeypatch.setattr(load("core.solvers.newton").minimise_newton, "__defaults__", (5,))
    monkeypatch.setattr(load("core.steppers.static"), "_MAX_STEPS", 5)
    module.install()
    yield module
    module.uninstall()
    substeps.choose_substeps.cache_clear()


@dataclass(frozen=True)
class ValidFrame:
    """A frame marked valid. group: names of the members; locals: their local vertices by name."""

    group: tuple[str, ...]
    number: int
    live_frame: Any
    locals: dict[str, bytes]


@dataclass
class EditSequence:
    """A random sequence of edits. said: log of the edits.  compared: number of compared frames."""

    load: Load
    live: ModuleType
    folder: Path
    seed: int
    log: list[str] = field(default_factory=list)
    compared: int = 0

    def __post_init__(self) -> None:
        self.chance = Random(self.seed)
        self.groups = self.load("dampsim_addon.model.groups")

    def go(self, edits: int) -> None:
        """Make this number of edits, and check after every one to five."""
        create_shot(self.folder / "cache", self.chance)
        bpy.context.view_layer.update()
        bpy.ops.ed.undo_push(message="start")
        self.scrub()
        self.check([], "the start")
        while edits > 0:
            few = min(self.chance.choice((1, 2, 3, 4, 5)), edits)
            edits -= few
            for _ in range(few):
                self.edit()
            if told := self.chance.random() < 0.8:
                # The window does the same before it draws.
                bpy.context.view_layer.update()
            before = self.claims() if told else []
            self.scrub()
            if not self.check(before, "the edit") and self.chance.random() < 0.7:
                self.undo("undo what was refused")
                self.check(self.claims(), "the undo")

    def undo(self, why: str) -> None:
        # There may be nothing to undo after a file is opened.
        if bpy.ops.ed.undo.poll():
            self.record(why)
            bpy.ops.ed.undo()

    def record(self, entry: str) -> None:
        self.log.append(entry)

    def edit(self) -> None:
        turn = self.chance.random()
        if turn < 0.06:
            self.undo("undo")
        elif turn < 0.09:
            if bpy.ops.ed.redo.poll():
                self.record("redo")
                bpy.ops.ed.redo()
        elif turn < 0.10:
            self.record("save and open")
            path = self.folder / "walk.blend"
            bpy.ops.wm.save_as_mainfile(filepath=str(path))
            self.check(self.claims(), "saving")
            bpy.ops.wm.open_mainfile(filepath=str(path))
            bpy.ops.ed.undo_push(message="opened")
        else:
            self.record(random_edit(self.chance))
            bpy.ops.ed.undo_push(message="edit")

    def scrub(self) -> None:
        """Go to random frames, or play part of the shot or all of it."""
        scene, turn = bpy.context.scene, self.chance.random()
        first, last = scene.frame_start, scene.frame_end
        if turn < 0.3:
            frames = list(range(first, last + 1))
        elif turn < 0.5:
            begin = self.chance.randrange(first, last + 1)
            frames = list(range(begin, last + 1))
        else:
            frames = [self.chance.randrange(first, last + 1) for _ in range(self.chance.randrange(1, 4))]
        self.record(f"  frames {frames}")
        for frame in frames:
            scene.frame_set(frame)

    def claims(self) -> list[ValidFrame]:
        """Return all frames that are marked valid now."""
        scene, found = bpy.context.scene, []
        for group in self.groups.groups_of(scene.objects):
            obj = group.members[0]
            session = self.live.find_session(obj)
            if session is None or not self.live.is_live(obj):
                continue
            for number in range(scene.frame_start, scene.frame_end + 1):
                if session.frame_status(obj, scene, number) is self.live.FrameStatus.VALID:
                    kept = session.frames[number - scene.frame_start]
                    locals_ = {one.name: kept.local_vertices[one.session_uid].tobytes() for one in group.members}
                    found.append(ValidFrame(tuple(one.name for one in group.members), number, kept, locals_))
        return found

    def check(self, earlier: list[ValidFrame], when: str) -> bool:
        """Compare the frames marked valid before and now with the truth; return whether there are any."""
        claims = {"before": earlier, "after": self.claims()}
        there = {group for shown in claims.values() for group in {one.group for one in shown}}
        truths = {names: self.truth(names) for names in sorted(there)}
        for moment, shown in claims.items():
            for one in shown:
                self.compare(one, truths[one.group], f"{moment} scrubbing, {when}")
        return bool(there)

    def truth(self, names: tuple[str, ...]) -> tuple[dict[int, tuple[Any, dict[str, bytes]]], str]:
        """Return the frames and local vertices of a fresh simulation, and the message of an error that ends it."""
        snapshot, simulation = (
            self.load("dampsim_addon.scene_reader.scene_builder"),
            self.load("core.simulation.simulation"),
        )
        sorts = [
            getattr(self.load(f"dampsim_addon.{module}"), name).current()
            for module, name in (
                ("model.force_fields", "ForceFieldIndex"),
                ("model.colliders", "ColliderIndex"),
                ("status.pieces", "YarnIndex"),
            )
        ]
        affine, errors = self.load("core.geometry.mesh.rigid_motion"), self.load("core.base.errors")
        known = [(one._known_uids, dict(one._matches)) for one in sorts]
        for one in sorts:
            one.clear()
        found: dict[int, tuple[Any, dict[str, bytes]]] = {}
        objects = [bpy.data.objects[name] for name in names]
        try:
            with snapshot.GroupSampler(bpy.context.scene, bpy.context.view_layer, objects) as sampler:
                taken, group = snapshot.build_scene(sampler), self.groups.group_of(objects[0])
                if self.live.is_in_draft(group):
                    taken = self.load("dampsim_addon.live.live_frame").draft_scene(taken, group)
                for frame in simulation.Simulation(taken).frames():
                    sampler.invalidate_frame()
                    sampler.set_frame(float(frame.number))
                    shown = {
                        one.obj.name: affine.transform_points(np.linalg.inv(one.matrix()), frame.shapes[one.obj.name])
                        for one in sampler.members
                    }
                    found[frame.number] = frame, {name: at.astype("<f4").tobytes() for name, at in shown.items()}
        except errors.DampSimError as error:
            return found, str(error)
        finally:
            # Restore the caches of fields and colliders that Live uses.
            for one, (everything, yes) in zip(sorts, known, strict=True):
                one._known_uids, one._matches = everything, yes
        return found, ""

    def compare(self, one: ValidFrame, truth: tuple[dict[int, Any], str], when: str) -> None:
        frames, problem = truth
        self.compared += 1
        wrong = ""
        if one.number not in frames:
            wrong = f"is none: {problem}"
        else:
            frame, locals_ = frames[one.number]
            if one.live_frame.frame.state.positions.tobytes() != frame.state.positions.tobytes():
                ours, theirs = one.live_frame.frame.state.positions, frame.state.positions
                off = np.abs(ours - theirs).max() if ours.shape == theirs.shape else np.nan
                wrong = f"has other nodes, by {off:.3g} m"
            elif one.live_frame.frame.state.velocities.tobytes() != frame.state.velocities.tobytes():
                wrong = "has other velocities"
            elif sorted(one.live_frame.frame.inputs.values()) != sorted(frame.inputs.values()):
                wrong = "has other inputs"
            elif one.locals != locals_:
                wrong = "is shown elsewhere"
        if wrong:
            done = "\n".join(self.log)
            pytest.fail(f"seed {self.seed}: frame {one.number} of {one.group}, {when}, {wrong}\n{done}", pytrace=False)


def seeds() -> list[Any]:
    """Return the seeds; all but the first one are marked as slow."""
    return [pytest.param(seed, marks=pytest.mark.slow if seed else (), id=f"seed{seed}") for seed in range(SEQUENCES)]


@pytest.mark.parametrize("seed", seeds())
def test_valid_frames_equal_fresh_simulation(load: Load, live: ModuleType, tmp_path: Path, seed: int) -> None:
    walk = EditSequence(load, live, tmp_path, seed)
    walk.go(EDITS)
    assert bodies()
    assert walk.compared >= MIN_COMPARED, "\n".join(walk.log)
