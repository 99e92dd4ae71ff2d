"""The only loop: frame after frame."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import numpy as np

from ..arrays import Array
from ..bodies.pins import MeshCarrier
from ..bodies.volume import BASE_YOUNG, LEAST_PACE, VolumeModel, build_volume
from ..errors import MeshError, SceneError, StepError
from ..frames.frame import Frame, Pose, Sampled
from ..scene.fingerprint import digest
from ..scene.parameters import Settings
from ..scene.scene import Scene, check_motion, check_scene
from ..solvers.problem import Outcome
from ..stepping.inertia import hanging
from ..stepping.law import (
    BackwardEulerLaw,
    Coefficients,
    FixedLaw,
    InertiaLaw,
    Substeps,
    choose_substeps,
    remembered,
    settle_law,
)
from ..stepping.static import settled
from ..stepping.step import Controls, Stepper
from ..system.state import Carrying, PinMotion, Standing, State
from . import start
from .choice import Integration, chosen, is_own, mend
from .sag import stiffness_for_sag

# A first eigenvalue below this part of (speed of sound / size)^2 is none at all.
_LOOSE = 1e-9


class Simulation:
    """A scene made ready to run. Raises the errors for the artist before anything is simulated."""

    def __init__(self, scene: Scene, model: VolumeModel | None = None) -> None:
        check_scene(scene)
        self.scene = scene
        self.model = model or build_volume(scene.body, scene.gravity)
        settings = scene.body.settings
        limit = _LOOSE * BASE_YOUNG / settings.density / scene.body.surface.size**2
        for region in self.model.system.regions:
            if not region.eigenvalue > limit:
                raise MeshError(
                    f"{scene.body.surface.name}: a part of it hangs by less than a face; "
                    "raise Resolution or pin more of it."
                )
        self.stepper = Stepper(self.model.system)
        self.loop_error = 0.0
        self._controls: dict[Settings, Controls] = {}
        self._young: dict[float, float] = {}
        self._integrations: dict[tuple[object, ...], Integration] = {}
        self._first: Frame | None = None
        self._hanging: dict[float, State] = {}
        self._hang()

    def _hang(self) -> None:
        """Find what the weight does to the first eigenvalues; a tall thing is softer, a hanging one is stiffer."""
        if not self.held or not self.scene.gravity.any() or not self.model.system.regions:
            return
        stiffness = self.young(self.scene.body.settings) / BASE_YOUNG
        state = self.settled_pose(self.sampled(self.scene.first).animated[-1], stiffness)
        system = replace(self.model.system, regions=hanging(self.model.system, state, stiffness))
        self.model = replace(self.model, system=system)
        self.stepper = Stepper(system)
        # Found with the stepper of before.
        self._hanging.clear()

    def prime(self) -> None:
        """Work out now what needs nothing but the first frame's inputs."""
        if self.held:
            self.hanging(self.controls(self.scene.body.settings).stiffness)

    def substeps(self, settings: Settings) -> Substeps:
        """How many substeps a frame needs with these dials."""
        frame_time = 1.0 / self.scene.fps
        if settings.damping_by != "DIALS":
            return Substeps(settings.substeps, 0.0, False)
        fastest = 1.0 if self.scene.body.settle_map is None else LEAST_PACE
        if self.model.pace is not None:
            fastest = float(self.model.pace.min())
        settle = settings.settle * settings.calibration * frame_time
        return choose_substeps(fastest * settle, settings.overshoot, frame_time, settings.substeps)

    def young(self, settings: Settings) -> float:
        """Young's modulus in Pa: as dialled, or what gives the dialled sag at the first frame."""
        if settings.stiffness_by != "SAG":
            return settings.young
        if settings.sag not in self._young:
            regions = self.model.system.regions
            pull = float(np.linalg.norm(self.scene.gravity))
            if pull == 0.0 or not regions or not self.held:
                raise SceneError(
                    f"{self.scene.body.surface.name}: Sag needs gravity and pins that hold the body; "
                    "add them, or dial Young's modulus."
                )
            wanted = settings.sag / 100.0
            slowest = min(region.eigenvalue for region in regions)
            guess = pull / (slowest * wanted * self.scene.body.surface.size)
            # Always from the same guess: what came before must not change a frame.
            factor = stiffness_for_sag(lambda factor: self.sag(factor * BASE_YOUNG), wanted, guess)
            self._young[settings.sag] = BASE_YOUNG * factor
        return self._young[settings.sag]

    def sag(self, young: float) -> float:
        """How far the surface hangs from its animation at the first frame, in parts of its size."""
        animated = self.sampled(self.scene.first).animated[-1]
        surface = self.model.surface(self.hanging(young / BASE_YOUNG).positions, animated)
        return float(np.linalg.norm(surface - animated, axis=1).max()) / self.scene.body.surface.size

    def controls(self, settings: Settings) -> Controls:
        """What the dials mean for each region."""
        if settings not in self._controls:
            stiffness = self.young(settings) / BASE_YOUNG
            self._controls[settings] = Controls(
                laws=self._laws(settings, stiffness),
                follow_through=settings.follow_through,
                tolerance=settings.tolerance,
                stiffness=stiffness,
            )
        return self._controls[settings]

    def _laws(self, settings: Settings, stiffness: float) -> tuple[InertiaLaw, ...]:
        regions = self.model.system.regions
        substeps = self.substeps(settings)
        if not is_own(settings):
            return tuple(BackwardEulerLaw() for _ in regions)
        if settings.damping_by != "DIALS":
            kappa = settings.kappa
            if settings.damping_by == "TAU_GAMMA":
                kappa = remembered(settings.gamma, 1.0 / (self.scene.fps * substeps.count))
            return tuple(FixedLaw(kappa, settings.tau) for _ in regions)
        settle = settings.settle * settings.calibration / self.scene.fps
        pace = self.model.pace
        return tuple(
            replace(
                settle_law(settle, substeps.overshoot, region.eigenvalue_at(stiffness)),
                pace=None if pace is None else pace[region.free],
            )
            for region in regions
        )

    def effective(self, settings: Settings) -> tuple[Coefficients, ...]:
        """kappa and s of each region for one substep with these dials."""
        h = 1.0 / (self.scene.fps * self.substeps(settings).count)
        return tuple(law.coefficients(h) for law in self.controls(settings).laws)

    def times(self, number: int, before: int) -> list[float]:
        """The frames, fractions included, at which the inputs of a frame are sampled. before: see Sampled.count."""
        if number == self.scene.first:
            return [float(number)]
        return [number - 1 + part / before for part in range(1, before)] + [float(number)]

    def sampled(self, number: int, before: int = 1) -> Sampled:
        """The inputs of a frame. before: the count of the frame before it."""
        scene = self.scene
        if scene.dials is None:
            count = self.substeps(scene.body.settings).count
        else:
            # Dials can be read only where the motion was just asked.
            self._animated(float(number))
            count = self.substeps(scene.settings(float(number))).count
        animated, settings = [], []
        for frame in self.times(number, max(before, count)):
            animated.append(self._animated(frame))
            settings.append(scene.settings(frame))
        dials = np.array([one.animated for one in settings])
        return Sampled(number, tuple(animated), tuple(settings), count, digest(dials, *animated))

    def _animated(self, frame: float) -> Array:
        animated = self.scene.motion(frame)
        surface = self.scene.body.surface
        check_motion(surface.name, animated, len(surface.vertices), frame)
        return animated

    @property
    def held(self) -> bool:
        """Whether the pins leave no body free to fall."""
        return all(region.rigid_modes == 0 for region in self.model.system.regions)

    def pose(self, animated: Array) -> Pose:
        """What an animated surface (v, 3) means to the nodes."""
        targets = self.model.pins(animated)
        return Pose(targets, *self.model.start.frames(animated)) if self.scene.carrier == "MESH" else Pose(targets)

    def _between(self, start: Pose, end: Pose) -> PinMotion:
        carrying: Carrying | None = None
        if self.scene.carrier == "NONE":
            carrying = Standing()
        elif start.turns is not None and start.places is not None and end.turns is not None and end.places is not None:
            carrying = MeshCarrier((start.turns, end.turns), (start.places, end.places), self.model.start.offsets)
        return PinMotion(start.targets, end.targets, carrying)

    def animated_pose(self, animated: Array) -> State:
        """The nodes where the animated surface (v, 3) has them, still."""
        nodes = self.model.start(animated)
        system = self.model.system
        hard = np.isinf(system.pin_stiffness)
        nodes[system.pinned[hard]] = self.model.pins(animated)[hard]
        return State.at_rest(nodes, self.scene.first / self.scene.fps)

    def hanging(self, stiffness: float) -> State:
        """Where the nodes hang at rest at the first frame."""
        if stiffness not in self._hanging:
            self._hanging[stiffness] = self.settled_pose(self.sampled(self.scene.first).animated[-1], stiffness)
        return self._hanging[stiffness]

    def settled_pose(self, animated: Array, stiffness: float, state: State | None = None) -> State:
        """Where the nodes come to rest under gravity, from the state or from the animated surface (v, 3)."""
        targets = self.model.pins(animated)
        tolerance = min(self.scene.body.settings.tolerance, 1e-3)
        begin = self.animated_pose(animated) if state is None else state
        return settled(self.stepper, begin, PinMotion(targets, targets), tolerance, stiffness)

    def _stepping(self, settings: Settings) -> Stepper | Integration:
        """What takes the steps."""
        if is_own(settings):
            return self.stepper
        # Of the dials that can be keyframed, these make another damping.
        key = (settings.damping_by, settings.integrator, self.young(settings), settings.gamma)
        if key not in self._integrations:
            name = self.scene.body.surface.name
            self._integrations[key] = chosen(name, self.model.system, settings, self.young(settings), BASE_YOUNG)
        return self._integrations[key]

    def step(self, state: State, pose: Pose, sampled: Sampled) -> tuple[State, Pose, int]:
        """The state at the end of a frame from the one at its start, at the pose; and the solver's iterations."""
        parts = len(sampled.animated)
        iterations = 0
        for animated, settings in zip(sampled.animated, sampled.settings, strict=True):
            following = self.pose(animated)
            motion = self._between(pose, following)
            controls = self.controls(settings)
            state, report = self._stepping(settings).step(state, motion, 1.0 / (self.scene.fps * parts), controls)
            iterations += report.iterations
            pose = following
            if report.outcome is not Outcome.CONVERGED:
                raise StepError(
                    f"{self.scene.body.surface.name}: frame {sampled.number} could not be simulated "
                    f"({report.outcome.value}) {mend(self.stepper, settings, controls.stiffness, self.scene.fps)}"
                )
        # Exact frame times, whatever the number of substeps adds up to.
        time = sampled.number / self.scene.fps
        return State(time, state.positions, state.velocities, state.carrier), pose, iterations

    def surface(self, state: State, animated: Array) -> Array:
        """The simulated surface (v, 3) in single precision, as it is kept and shown."""
        return self.model.surface(state.positions, animated).astype(np.float32).astype(float)

    def warm_up(self) -> Iterator[tuple[int, int]]:
        """Find the first frame, yielding how much of the work (done, total) is done; see start.warm_up."""
        if self._first is None:
            self._first = yield from start.warm_up(self)

    def first_frame(self) -> Frame:
        """The frame from which the simulation starts."""
        for _ in self.warm_up():
            pass
        assert self._first is not None
        return self._first

    def frames(self, last: Frame | None = None) -> Iterator[Frame]:
        """The frames after the last one, or from the start. Raises StepError where a step fails."""
        if last is None:
            last = self.first_frame()
            yield last
        run = Run(self, last, self.sampled(last.number))
        while run.frame.number < self.scene.last:
            yield run.advance(self.sampled(run.frame.number + 1, run.count))


class Run:
    """A simulation at one of its frames. sampled: that frame's inputs; the end of it will do."""

    def __init__(self, simulation: Simulation, frame: Frame, sampled: Sampled) -> None:
        self.simulation, self.frame, self.count = simulation, frame, sampled.count
        self._pose = simulation.pose(sampled.animated[-1])

    def advance(self, sampled: Sampled) -> Frame:
        """Go on to the following frame, whose inputs are given. Where it fails, the run stays where it is."""
        state, pose, iterations = self.simulation.step(self.frame.state, self._pose, sampled)
        surface = self.simulation.surface(state, sampled.animated[-1])
        self.frame = Frame(sampled.number, state, surface, sampled.digest, iterations)
        self._pose, self.count = pose, sampled.count
        return self.frame
