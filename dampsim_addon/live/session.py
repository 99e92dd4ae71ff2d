"""Live frames of one group and their validity."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import bpy
import numpy as np

from ...core import Array, DampSimError, Frame, SceneSample, SettleCurve, Simulation, simulation_curve
from ...core.geometry.mesh.rigid_motion import transform_points
from ...core.measure.contact_results import contact_summary, posed_stretch
from ...core.measure.report import BodyContactSummary, ShotReport
from ...core.scene.fingerprint import model_fingerprint, scene_fingerprint
from ...core.simulation.assembly import Assembly
from ...core.simulation.sampling import FrameInputs, input_digests, sample_times
from ...core.simulation.simulation import SimulationRun
from ..blender.sampler import GroupSampler, MeshCounts
from ..model.groups import Group, cache_ids, group_key, group_of
from ..scene_reader.contributors import frame_handler_inputs, untracked_group_inputs, update_followers
from ..scene_reader.sample_reader import SampleReader
from ..scene_reader.scene_builder import check_object, read_scene
from ..session import SessionState
from ..status import overlaps
from .live_frame import FrameStatus, LiveFrame, LiveSample, draft_scene, is_in_draft, modifier_stack
from .liveness import check_displayable, static_inputs


class Session:
    """Live frames of a group, from the first frame of the scene on.

    verified: number of frames, from the first one on, that are known to match the scene. An edit resets it but keeps
    the frames. During playback their inputs are sampled again. From the first frame with different inputs on, frames
    are discarded.
    sampler: of the group at the latest change of the frame.
    draft: whether the session uses the coarser Draft simulation, which is never rendered or baked.
    problem: sentence that says why the group cannot be simulated, or ''.
    """

    sampler: GroupSampler

    def __init__(self, draft: bool = False) -> None:
        self.draft = draft
        self.simulation: Simulation | None = None
        self.frames: list[LiveFrame] = []
        self.verified = 0
        self.problem = ""
        # Inputs, in words, that may change without an update. They were found when the inputs were last read.
        self._untracked_inputs: list[str] = []
        # Rest positions (v, 3) in object space, by session_uid, of members whose modifiers change the topology.
        self.rest_vertices: dict[int, Array] = {}
        # Whether the inputs that are constant over the shot must be read again.
        self.needs_inputs = True
        self._scene_fingerprint = self._model_fingerprint = ""
        self._assembly: Assembly | None = None
        self._static_inputs: tuple[object, ...] = ()
        self._samples: dict[float, LiveSample] = {}
        self._counts: dict[int, MeshCounts | None] = {}
        self._modifier_stacks: dict[int, tuple[int, str]] = {}
        self._reader: SampleReader | None = None
        self._last_sampled: FrameInputs | None = None
        self._run: SimulationRun | None = None

    @property
    def group(self) -> Group:
        """Group at the latest change of the frame."""
        return Group(tuple(member.obj for member in self.sampler.members))

    def attempt(self, work: Callable[[], object]) -> bool:
        """Run work and return whether it succeeded. A DampSimError is stored as the problem of the session.

        After any error, the modifiers of the group are not muted.
        """
        try:
            work()
        except DampSimError as error:
            self.problem = str(error)
            self.sampler.unmute()
            return False
        except BaseException:
            self.sampler.unmute()
            raise
        return True

    def invalidate(self) -> None:
        """Mark all frames as unverified because the scene may have changed."""
        self.verified, self.needs_inputs, self.problem = 0, True, ""

    def check_inputs(self, group: Group, scene: bpy.types.Scene) -> None:
        """Invalidate the frames if an input has changed without a depsgraph update."""
        now = static_inputs(group, scene, self.draft)
        if now != self._static_inputs:
            self._static_inputs = now
            self.invalidate()

    def frame_status(self, obj: bpy.types.Object, scene: bpy.types.Scene, number: int) -> FrameStatus:
        """Return the status of a frame. Edits that no handler has reported yet are taken into account."""
        index = number - scene.frame_start
        if self.simulation is None or not 0 <= index < len(self.frames):
            return FrameStatus.MISSING
        is_valid = (
            not self.needs_inputs
            and index < self.verified
            and self._static_inputs == static_inputs(group_of(obj), scene, self.draft)
        )
        if not is_valid:
            return FrameStatus.STALE
        return FrameStatus.UNVERIFIED if self.untracked_inputs else FrameStatus.VALID

    @property
    def untracked_inputs(self) -> list[str]:
        """Inputs, in words, that may have changed without a depsgraph update."""
        return self._untracked_inputs + frame_handler_inputs()

    @property
    def next_frame(self) -> int:
        """Number of the first frame that is not verified."""
        assert self.simulation is not None
        return self.simulation.scene.first + self.verified

    @property
    def megabytes(self) -> float:
        """Memory used by the frames, MB."""
        arrays = [
            array.nbytes
            for kept in self.frames
            for array in (*kept.local_vertices.values(), *kept.frame.shapes.values(), *vars(kept.frame.state).values())
            if isinstance(array, np.ndarray)
        ]
        return sum(arrays) / 1e6

    @property
    def loop_error(self) -> float:
        """Mismatch between the ends of a loop as a fraction of the size; 0 without a loop."""
        return self.simulation.loop_error if self.simulation else 0.0

    def settle_curve(self, obj: bpy.types.Object) -> SettleCurve | None:
        """Return the settle curve of a member at the end of the verified frames, or None."""
        assert self.simulation is not None
        assert self._last_sampled is not None
        frames, name = [kept.frame for kept in self.frames[: self.verified]], self.body_name(obj)
        place = [body.name for body in self.simulation.scene.bodies].index(name)
        return simulation_curve(self.simulation, name, frames, self._last_sampled.samples[-1].settings[place])

    def contact_report(self, obj: bpy.types.Object) -> ShotReport:
        """Return the contact report of a member over the verified frames."""
        uid = obj.session_uid
        return ShotReport.from_frames(
            (kept.frame.number, kept.contacts.get(uid, BodyContactSummary())) for kept in self.frames[: self.verified]
        )

    def collider_vertices(self, view_layer: bpy.types.ViewLayer, frame: float) -> dict[str, Array]:
        """Return the vertices (v, 3) m of the colliders by name. frame: the current frame.  Raises DampSimError."""
        readers = () if self._reader is None else self._reader.colliders
        return {one.name: one.world_positions(view_layer, frame) for one in readers}

    def read_inputs(self) -> None:
        """Read the inputs that are constant over the shot, if needed. This changes the frame. Raises DampSimError."""
        sampler, group, self._samples = self.sampler, self.group, {}
        for member in sampler.members:
            member.counts = self._counts.get(member.obj.session_uid)
        if not self.needs_inputs:
            return
        try:
            for member in sampler.members:
                check_object(member.obj, sampler.view_layer)
                check_displayable(member.obj, member.muted)
            core_scene, self._reader = read_scene(sampler)
            self._counts = {member.obj.session_uid: member.counts for member in sampler.members}
            # The scene is still at the first frame.
            self.rest_vertices = {
                member.obj.session_uid: transform_points(np.linalg.inv(member.matrix()), body.surface.vertices)
                for member, body in zip(sampler.members, core_scene.bodies, strict=True)
                if member.changes_topology
            }
            self._modifier_stacks = {obj.session_uid: modifier_stack(obj) for obj in group.members}
            core_scene = replace(core_scene, sampler=self._sample_at)
            if self.draft:
                core_scene = draft_scene(core_scene, group)
            # The hanging shape and the stiffness depend on the first sample. Keyframes may leave it unchanged.
            first_sample = core_scene.sample(float(core_scene.first))
            keyed = [body.has_animated_settings for body in core_scene.bodies]
            first_inputs = repr([*input_digests(core_scene, [first_sample]).values(), keyed])
            model = model_fingerprint(core_scene)
            scene_key = scene_fingerprint(core_scene) + model + first_inputs
            if self.simulation is None or scene_key != self._scene_fingerprint:
                self.frames, self.verified, self._run = [], 0, None
                overlaps.record_overlaps(core_scene, group.members)
                update_followers(sampler)
                assembly = self._assembly if model == self._model_fingerprint else None
                self.simulation = Simulation(core_scene, assembly, first_sample=first_sample)
                self._assembly = self.simulation.assembly
                self._model_fingerprint, self._scene_fingerprint = model, scene_key
            self._untracked_inputs = untracked_group_inputs(sampler)
            self.needs_inputs = False
        except DampSimError:
            self.simulation = None
            raise

    def can_display(self, group: Group, index: int) -> bool:
        """Return whether the frame with an index fits the current meshes, judged without evaluating them."""
        local_vertices = self.frames[index].local_vertices if 0 <= index < len(self.frames) else {}
        return all(
            obj.session_uid in local_vertices and self._modifier_stacks.get(obj.session_uid) == modifier_stack(obj)
            for obj in group.members
        )

    def required_times(self) -> list[float]:
        """Return the times (frames) at which the next frame needs samples."""
        assert self.simulation is not None
        return sample_times(self.simulation.scene, self.next_frame, self._previous_substeps)

    @property
    def _previous_substeps(self) -> int:
        """Number of substeps of the frame before the next one."""
        return self._last_sampled.substep_count if self.verified and self._last_sampled else 1

    def sample(self, time: float) -> None:
        """Store a sample of the animation. time: the current frame, including the subframe."""
        assert self._reader is not None
        matrices = {member.obj.session_uid: member.matrix() for member in self.sampler.members}
        self._samples[time] = LiveSample(self._reader.read(self.sampler, time), matrices)

    def advance(self) -> LiveFrame:
        """Verify or simulate the next frame, and return it. Missing samples are taken first. Raises DampSimError."""
        assert self.simulation is not None
        number, index = self.next_frame, self.verified
        sampled = self.simulation.sample_frame(number, self._previous_substeps)
        if index < len(self.frames) and self.frames[index].frame.inputs != sampled.digests:
            del self.frames[index:]
        if index == len(self.frames):
            self.frames.append(self._live_frame(sampled, self._simulate_frame(sampled, index)))
        else:
            self._refresh_local_vertices(index)
        self.verified, self._last_sampled = index + 1, sampled
        self._samples = {number: self._samples[number]} if number in self._samples else {}
        return self.frames[index]

    def _simulate_frame(self, sampled: FrameInputs, index: int) -> Frame:
        assert self.simulation is not None
        if index == 0:
            return self.simulation.first_frame()
        before = self.frames[index - 1].frame
        if self._run is None or self._run.frame.state is not before.state:
            assert self._last_sampled is not None
            assert self._last_sampled.number == before.number
            self._run = SimulationRun(self.simulation, before, self._last_sampled)
        return self._run.advance(sampled)

    def _live_frame(self, sampled: FrameInputs, frame: Frame) -> LiveFrame:
        assert self.simulation is not None
        shapes = {name: shape.astype(np.float32) for name, shape in frame.shapes.items()}
        contacts = {}
        for obj, name in self._body_names(self.group).items():
            found = contact_summary(self.simulation, frame.state, name)
            if found.stretched:
                place = self.simulation.scene.body_index(name)
                body, sample = self.simulation.scene.bodies[place], sampled.samples[-1].bodies[place]
                found = replace(found, posed_stretch=posed_stretch(body, sample.vertices))
            if found != BodyContactSummary():
                contacts[obj.session_uid] = found
        return LiveFrame(replace(frame, shapes=shapes), self._local_vertices(frame), sampled.substep_count, contacts)

    def _refresh_local_vertices(self, index: int) -> None:
        """Update the local vertices of a frame that stays valid: the object's matrix may have changed."""
        kept = self.frames[index]
        local = self._local_vertices(kept.frame)
        if any(kept.local_vertices[uid].tobytes() != now.tobytes() for uid, now in local.items()):
            self.frames[index] = replace(kept, local_vertices=local)

    def _local_vertices(self, frame: Frame) -> dict[int, Array]:
        """Return the vertices of a frame in object space, see LiveFrame.local_vertices."""
        to_local = {uid: np.linalg.inv(one) for uid, one in self._samples[float(frame.number)].matrices.items()}
        return {
            obj.session_uid: transform_points(to_local[obj.session_uid], frame.shapes[name].astype(float)).astype("<f4")
            for obj, name in self._body_names(self.group).items()
        }

    def _body_names(self, group: Group) -> dict[bpy.types.Object, str]:
        """Return the body name of each member; a renamed object keeps it."""
        assert self.simulation is not None
        names = {body.identity: body.name for body in self.simulation.scene.bodies}
        known = cache_ids(group)
        return {obj: names[known[obj.name]] for obj in group.members}

    def body_name(self, obj: bpy.types.Object) -> str:
        """Return the name of an object's body in the simulation."""
        return self._body_names(group_of(obj))[obj]

    def _sample_at(self, time: float) -> SceneSample:
        if time not in self._samples:
            self.sampler.members[0].set_frame(time)
            self.sample(time)
        return self._samples[time].scene


class LiveSessions(SessionState, dict[tuple[str, bool], Session]):
    """Sessions by group key and Draft. Group keys survive undo and renaming."""


def find_session(obj: bpy.types.Object, render: bool = False) -> Session | None:
    """Return the session that the viewport displays for an object.

    render: whether to return the session that is rendered instead, which is never in Draft.
    """
    return LiveSessions.current().get((group_key(obj), not render and is_in_draft(group_of(obj))))


def has_session(obj: bpy.types.Object) -> bool:
    """Return whether an object has a session, in Draft or not."""
    return any((group_key(obj), draft) in LiveSessions.current() for draft in (False, True))
