"""Live frames of one group and their validity."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import astuple, replace

import bpy
import numpy as np

from ...core.arrays import Array
from ...core.errors import DampSimError
from ...core.fields.field import Outside
from ...core.frames.frame import Frame
from ...core.geometry.affine import transformed
from ...core.measure.contacts import touched
from ...core.measure.curve import SettleCurve, simulation_curve
from ...core.measure.report import Report, Touched
from ...core.scene.fingerprint import digest, fingerprint, model_fingerprint
from ...core.simulation.assembly import Assembly
from ...core.simulation.sampling import Sampled
from ...core.simulation.simulation import Run, Simulation
from ..blender.counts import Counts
from ..blender.obstacles import ObstacleReader
from ..blender.sampler import GroupSampler
from ..scene import overlaps
from ..scene.anchors import anchors_of, frame_points, standing
from ..scene.colliders import read_dials
from ..scene.groups import Group, group_of, key_of, marks
from ..scene.muscles import has_muscles, watched
from ..scene.properties import read_settings
from ..scene.snapshot import check_object, has_keyed_dials, take
from .draft import drafts, in_draft
from .kept import Kept, Read, Stack, Standing, stack
from .liveness import check_shown, steady
from .recalling import mark_of, recalling


class Session:
    """Live frames of a group, from the first frame of the scene on.

    verified: number of leading frames that are known to match the scene. An edit resets it but keeps the frames. They
    are sampled again during playback, and are discarded from the first frame with different inputs on.
    draft: whether it uses the coarser Draft simulation, which is never rendered or baked.
    problem: sentence that says why it cannot be simulated, or ''.
    """

    def __init__(self, draft: bool = False) -> None:
        self.draft = draft
        self.simulation: Simulation | None = None
        self.frames: list[Kept] = []
        self.verified = 0
        self.problem = ""
        # Rest positions (v, 3) in object space by session_uid, of members with vertices created by modifiers.
        self.rests: dict[int, Array] = {}
        # Whether the inputs that do not change with the frame must be read again.
        self.touched = True
        self._mark = self._model_mark = ""
        self._known: Assembly | None = None
        self._steady: tuple[object, ...] = ()
        self._samples: dict[float, dict[str, Read]] = {}
        self._sampler: GroupSampler | None = None
        self._counts: dict[int, Counts | None] = {}
        self._stacks: dict[int, Stack] = {}
        self._anchors: Mapping[str, tuple[bpy.types.Object, str]] = {}
        # External forces by identity of the body.
        self._outside: Mapping[str, Callable[[float], Outside]] = {}
        # Readers of the colliders by name.
        self._obstacles: Mapping[str, ObstacleReader] = {}
        self._last: Sampled | None = None
        self._run: Run | None = None

    def touch(self) -> None:
        """Mark all frames as unverified because the scene may have changed."""
        self.verified, self.touched, self.problem = 0, True, ""

    def look(self, group: Group, scene: bpy.types.Scene) -> None:
        """Invalidate the frames if an input has changed without a depsgraph update."""
        now = steady(group, scene, self.draft)
        if now != self._steady:
            self._steady = now
            self.touch()

    def standing(self, obj: bpy.types.Object, scene: bpy.types.Scene, number: int) -> Standing:
        """Return the status of a frame, taking edits into account that no handler has reported yet."""
        place = number - scene.frame_start
        if self.simulation is None or not 0 <= place < len(self.frames):
            return Standing.MISSING
        fits = not self.touched and place < self.verified and self._steady == steady(group_of(obj), scene, self.draft)
        return Standing.VALID if fits else Standing.STALE

    @property
    def next(self) -> int:
        """Number of the first frame that is not verified."""
        assert self.simulation is not None
        return self.simulation.scene.first + self.verified

    @property
    def megabytes(self) -> float:
        """Memory used by the frames, MB."""
        arrays = [
            array.nbytes
            for kept in self.frames
            for array in (*kept.locals.values(), *kept.frame.shapes.values(), *vars(kept.frame.state).values())
            if isinstance(array, np.ndarray)
        ]
        return sum(arrays) / 1e6

    @property
    def loop_error(self) -> float:
        """Mismatch between the ends of a loop as a fraction of the size; 0 without a loop."""
        return self.simulation.loop_error if self.simulation else 0.0

    def curve(self, obj: bpy.types.Object) -> SettleCurve | None:
        """Return the settle curve of a member at the end of the verified frames, or None."""
        assert self.simulation is not None
        assert self._last is not None
        frames, name = [kept.frame for kept in self.frames[: self.verified]], self.body_of(obj)
        place = [body.name for body in self.simulation.scene.bodies].index(name)
        return simulation_curve(self.simulation, name, frames, self._last.settings[-1][place])

    def report(self, obj: bpy.types.Object) -> Report:
        """Return the contact report of a member over the verified frames."""
        uid = obj.session_uid
        return Report.of((kept.frame.number, kept.touched.get(uid, Touched())) for kept in self.frames[: self.verified])

    def obstacles_here(self, view_layer: bpy.types.ViewLayer, frame: float) -> dict[str, Array]:
        """Return the collider vertices (v, 3) m by name. frame: the current frame.  Raises DampSimError."""
        return {name: reader.here(view_layer, frame) for name, reader in self._obstacles.items()}

    def begin(self, sampler: GroupSampler) -> None:
        """Read the inputs that do not change with the frame; this visits other frames. Raises DampSimError."""
        self._sampler, self._samples = sampler, {}
        for member in sampler.members:
            member.counts = self._counts.get(member.obj.session_uid)
        if not self.touched:
            return
        try:
            for member in sampler.members:
                check_object(member.obj, sampler.view_layer)
                check_shown(member.obj, member.muted)
            taken = take(sampler)
            self._counts = {member.obj.session_uid: member.counts for member in sampler.members}
            # The scene is still at the first frame.
            self.rests = {
                member.obj.session_uid: transformed(np.linalg.inv(member.matrix()), body.surface.vertices)
                for member, body in zip(sampler.members, taken.bodies, strict=True)
                if member.makes
            }
            self._stacks = {member.obj.session_uid: stack(member.obj) for member in sampler.members}
            self._anchors = anchors_of([member.obj for member in sampler.members])
            self._outside = {body.identity: body.outside for body in taken.bodies if body.outside is not None}
            self._obstacles = sampler.obstacles
            taken = recalling(taken, self._read)
            if self.draft:
                taken = drafts(taken, Group(tuple(member.obj for member in sampler.members)))
            # The hanging shape and the stiffness depend on the first pose and the external forces there.
            first = [body.motion(float(taken.first)) for body in taken.bodies]
            first += [body.outside(float(taken.first)).numbers() for body in taken.bodies if body.outside is not None]
            first += [obstacle.motion(float(taken.first)) for obstacle in taken.obstacles]
            first += [np.array(astuple(obstacle.at(float(taken.first)))) for obstacle in taken.obstacles]
            # Keyframes may be added or removed without a change at the first frame.
            first.append(np.array([body.dials is not None for body in taken.bodies]))
            model = model_fingerprint(taken)
            mark = fingerprint(taken) + model + digest(*first)
            if self.simulation is None or mark != self._mark:
                self.frames, self.verified, self._run = [], 0, None
                overlaps.note(taken, [member.obj for member in sampler.members])
                known = self._known if model == self._model_mark else None
                self.simulation = Simulation(taken, known)
                self._known, self._model_mark, self._mark = self.simulation.assembly, model, mark
            self.touched = False
        except DampSimError:
            self.simulation = None
            raise

    def fits(self, obj: bpy.types.Object) -> bool:
        """Return whether the object still has the simulated vertices, as far as known without evaluation."""
        return self._stacks.get(obj.session_uid) == stack(obj)

    def wanted(self) -> list[float]:
        """Return the times (frames) at which the next frame needs samples."""
        assert self.simulation is not None
        return self.simulation.sampling.times(self.next, self._last.count if self.verified and self._last else 1)

    def sample(self, time: float) -> None:
        """Store a sample of the animation. time: the current frame, including the subframe."""
        assert self._sampler is not None
        found = {}
        known = marks(Group(tuple(member.obj for member in self._sampler.members)))
        for member in self._sampler.members:
            obj = member.obj
            mark = known[obj.name]
            settings = read_settings(obj) if has_keyed_dials(obj) else None
            outside = self._outside[mark](time) if mark in self._outside else None
            told = watched(obj, self._sampler.view_layer) if has_muscles(obj) else None
            found[mark] = Read(member.here(), member.matrix(), settings, outside, watched=told)
        for name, (other, bone) in self._anchors.items():
            matrix = standing(self._sampler.view_layer, other, bone)
            found[name] = Read(frame_points(matrix), matrix)
        for name, reader in self._obstacles.items():
            positions = reader.here(self._sampler.view_layer, time)
            found[mark_of(name)] = Read(positions, np.eye(4), collider=read_dials(reader.obj))
        self._samples[time] = found

    def advance(self) -> Kept:
        """Verify or simulate the next frame from its samples and return it. Missing samples are taken first.

        Raises DampSimError.
        """
        assert self.simulation is not None
        number, place = self.next, self.verified
        sampled = self.simulation.sampled(number, self._last.count if place and self._last else 1)
        if place < len(self.frames) and self.frames[place].frame.inputs != sampled.digests:
            del self.frames[place:]
        if place == len(self.frames):
            self.frames.append(self._kept(sampled, self._simulated(sampled, place)))
        else:
            self._placed(place)
        self.verified, self._last = place + 1, sampled
        self._samples = {number: self._samples[number]} if number in self._samples else {}
        return self.frames[place]

    def _simulated(self, sampled: Sampled, place: int) -> Frame:
        assert self.simulation is not None
        if place == 0:
            return self.simulation.first_frame()
        before = self.frames[place - 1].frame
        if self._run is None or self._run.frame.state is not before.state:
            assert self._last is not None
            assert self._last.number == before.number
            self._run = Run(self.simulation, before, self._last)
        return self._run.advance(sampled)

    def _kept(self, sampled: Sampled, frame: Frame) -> Kept:
        shapes = {name: shape.astype(np.float32) for name, shape in frame.shapes.items()}
        return Kept(replace(frame, shapes=shapes), self._locals(frame), sampled.count, self._touched(frame))

    def _touched(self, frame: Frame) -> dict[int, Touched]:
        """Return the contacts of LiveFrame."""
        assert self._sampler is not None
        assert self.simulation is not None
        known = self._bodies([member.obj for member in self._sampler.members])
        said = {obj: touched(self.simulation, frame.state, name) for obj, (_, name) in known.items()}
        return {obj.session_uid: one for obj, one in said.items() if one != Touched()}

    def _placed(self, place: int) -> None:
        """Update the local vertices of a frame that stays valid: the object's matrix may have changed."""
        kept = self.frames[place]
        local = self._locals(kept.frame)
        if any(kept.locals[uid].tobytes() != now.tobytes() for uid, now in local.items()):
            self.frames[place] = replace(kept, locals=local)

    def _locals(self, frame: Frame) -> dict[int, Array]:
        """Return the local vertices of LiveFrame."""
        assert self._sampler is not None
        reads, known = self._samples[float(frame.number)], self._bodies([m.obj for m in self._sampler.members])
        return {
            obj.session_uid: transformed(np.linalg.inv(reads[mark].matrix), frame.shapes[name].astype(float)).astype(
                "<f4"
            )
            for obj, (mark, name) in known.items()
        }

    def _bodies(self, members: Sequence[bpy.types.Object]) -> dict[bpy.types.Object, tuple[str, str]]:
        """Return the sample key and the body name of each member. The object may have been renamed since."""
        assert self.simulation is not None
        names = {body.identity: body.name for body in self.simulation.scene.bodies}
        known = marks(Group(tuple(members)))
        return {obj: (known[obj.name], names[known[obj.name]]) for obj in members}

    def body_of(self, obj: bpy.types.Object) -> str:
        """Return the name of an object's body in the simulation."""
        return self._bodies(group_of(obj).members)[obj][1]

    def _read(self, time: float, name: str) -> Read:
        if time not in self._samples:
            assert self._sampler is not None
            self._sampler.members[0].go(time)
            self.sample(time)
        return self._samples[time][name]


# Sessions by group key, which survives undo and renaming, and Draft.
SESSIONS: dict[tuple[str, bool], Session] = {}


def find(obj: bpy.types.Object, render: bool = False) -> Session | None:
    """Return the session that the viewport shows of an object, or that is rendered, which is never in Draft."""
    return SESSIONS.get((key_of(obj), not render and in_draft(group_of(obj))))


def played(obj: bpy.types.Object) -> bool:
    """Return whether an object has a session, in Draft or not."""
    return any((key_of(obj), draft) in SESSIONS for draft in (False, True))
