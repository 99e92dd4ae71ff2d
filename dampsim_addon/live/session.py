"""The live frames of one object, and how far they still fit the scene."""

from __future__ import annotations

import enum
from collections.abc import Iterable
from dataclasses import dataclass, replace

import bpy
import numpy as np

from ...core.arrays import Array
from ...core.bodies.volume import VolumeModel
from ...core.errors import DampSimError
from ...core.frames.frame import Frame, Sampled
from ...core.geometry.affine import transformed
from ...core.measure.curve import SettleCurve, simulation_curve
from ...core.scene.fingerprint import fingerprint, model_fingerprint
from ...core.scene.parameters import PARAMETERS, Settings
from ...core.simulation.simulation import Run, Simulation
from ..blender.mesh_cache import check_stack
from ..blender.sampler import Sampler, frame_rate
from ..scene.objects import is_simulated
from ..scene.properties import read_settings
from ..scene.snapshot import check_object, has_keyed_dials, take


class Standing(enum.Enum):
    """What is to say of an object's live shape at a frame."""

    VALID = "simulated"
    STALE = "out of date"
    MISSING = "not simulated yet"


@dataclass(frozen=True)
class Kept:
    """frame: as simulated.  local: (v, 3) float32 in the object's space, as shown.  count: see core Sampled."""

    frame: Frame
    local: Array
    count: int


@dataclass(frozen=True)
class _Sample:
    positions: Array
    matrix: Array
    settings: Settings | None


class Session:
    """Frames from the first one on, of which the verified ones are known to fit the scene.

    An edit takes the verification away, not the frames: they are sampled again when they are played, and stay up to
    the first one whose inputs are others than those it was made from.
    """

    def __init__(self) -> None:
        self.simulation: Simulation | None = None
        self.frames: list[Kept] = []
        self.verified = 0
        self.problem = ""
        # Inputs that never change with the frame must be read again.
        self.touched = True
        self._mark = self._model_mark = ""
        self._model: VolumeModel | None = None
        self._steady: tuple[object, ...] = ()
        self._samples: dict[float, _Sample] = {}
        self._sampler: Sampler | None = None
        self._last: Sampled | None = None
        self._run: Run | None = None

    def touch(self) -> None:
        """The scene may have changed."""
        self.verified, self.touched, self.problem = 0, True, ""

    def look(self, obj: bpy.types.Object, scene: bpy.types.Scene) -> None:
        """Notice an edit that nobody told of."""
        now = steady(obj, scene)
        if now != self._steady:
            self._steady = now
            self.touch()

    def standing(self, obj: bpy.types.Object, scene: bpy.types.Scene, number: int) -> Standing:
        """Of a frame; an edit that no handler has seen yet is looked for."""
        place = number - scene.frame_start
        if self.simulation is None or not 0 <= place < len(self.frames):
            return Standing.MISSING
        fits = not self.touched and place < self.verified and self._steady == steady(obj, scene)
        return Standing.VALID if fits else Standing.STALE

    @property
    def next(self) -> int:
        """The first frame that is not verified."""
        assert self.simulation is not None
        return self.simulation.scene.first + self.verified

    @property
    def megabytes(self) -> float:
        arrays = [
            array.nbytes
            for kept in self.frames
            for array in (kept.local, kept.frame.surface, *vars(kept.frame.state).values())
            if isinstance(array, np.ndarray)
        ]
        return sum(arrays) / 1e6

    @property
    def loop_error(self) -> float:
        """In parts of the size; 0 where nothing was looped."""
        return self.simulation.loop_error if self.simulation else 0.0

    def curve(self) -> SettleCurve | None:
        """How the shot came to rest, where it did."""
        assert self.simulation is not None
        assert self._last is not None
        frames = [kept.frame for kept in self.frames[: self.verified]]
        return simulation_curve(self.simulation, frames, self._last.settings[-1])

    def begin(self, sampler: Sampler) -> None:
        """Read what never changes with the frame, which goes through frames. Raises the errors for the artist."""
        obj = sampler.obj
        self._sampler, self._samples = sampler, {}
        if not self.touched:
            return
        try:
            check_object(obj, sampler.view_layer)
            check_stack(obj)
            taken = take(sampler)
            taken = replace(taken, motion=self._motion, dials=self._settings if taken.dials else None)
            mark, model = fingerprint(taken), model_fingerprint(taken)
            if self.simulation is not None and mark == self._mark:
                # The end may have moved; the scene is otherwise the same.
                self.simulation.scene = taken
            else:
                self.frames, self.verified, self._run = [], 0, None
                known = self._model if model == self._model_mark else None
                self.simulation = Simulation(taken, known)
                self._model, self._model_mark, self._mark = self.simulation.model, model, mark
            self.touched = False
        except DampSimError:
            self.simulation = None
            raise

    def wanted(self) -> list[float]:
        """The frames, fractions included, at which the next frame wants samples."""
        assert self.simulation is not None
        return self.simulation.times(self.next, self._last.count if self.verified and self._last else 1)

    def sample(self, time: float) -> None:
        """Keep what the animation is like now, which is at that frame."""
        assert self._sampler is not None
        obj = self._sampler.obj
        settings = read_settings(obj) if has_keyed_dials(obj) else None
        self._samples[time] = _Sample(self._sampler.here(), self._sampler.matrix(), settings)

    def advance(self) -> Kept:
        """Verify the next frame, or simulate it, from its samples; those that lack are taken.

        Raises the errors for the artist.
        """
        assert self.simulation is not None
        number, place = self.next, self.verified
        sampled = self.simulation.sampled(number, self._last.count if place and self._last else 1)
        if place < len(self.frames) and self.frames[place].frame.inputs != sampled.digest:
            del self.frames[place:]
        if place == len(self.frames):
            self.frames.append(self._kept(sampled, self._simulated(sampled, place)))
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
        local = transformed(np.linalg.inv(self._samples[float(frame.number)].matrix), frame.surface)
        surface = frame.surface.astype(np.float32)
        return Kept(replace(frame, surface=surface), local.astype("<f4"), sampled.count)

    def _motion(self, time: float) -> Array:
        if time not in self._samples:
            assert self._sampler is not None
            self._sampler.go(time)
            self.sample(time)
        return self._samples[time].positions

    def _settings(self, time: float) -> Settings:
        self._motion(time)
        settings = self._samples[time].settings
        assert settings is not None
        return settings


# By the session's number of the object, which survives undo and renaming.
SESSIONS: dict[int, Session] = {}


def find(obj: bpy.types.Object) -> Session | None:
    return SESSIONS.get(obj.session_uid)


def is_live(obj: bpy.types.Object) -> bool:
    """Whether the object is to be simulated while it plays."""
    group = obj.dampsim
    return is_simulated(obj) and group.live and not group.baked and obj.mode == "OBJECT"


def steady(obj: bpy.types.Object, scene: bpy.types.Scene) -> tuple[object, ...]:
    """What the frames depend on and can be looked up at any time, whatever the frame."""
    group = obj.dampsim
    names: Iterable[str] = PARAMETERS
    if has_keyed_dials(obj):
        names = [name for name in PARAMETERS if not PARAMETERS[name].animatable]
    groups = (group.pin_group, group.settle_group, group.stiffness_group)
    gravity = tuple(scene.gravity) if scene.use_gravity else (0.0, 0.0, 0.0)
    return (*(getattr(group, name) for name in names), *groups, gravity, frame_rate(scene), scene.frame_start)
