"""Frame loop: advance a scene from frame to frame."""

from __future__ import annotations

from collections.abc import Generator, Iterator, Mapping
from dataclasses import replace

import numpy as np

from ..arrays import Array
from ..bodies.kind import BASE_YOUNG
from ..bodies.model import Model
from ..errors import StepError
from ..frames.frame import Frame
from ..integrators import Integration
from ..memo import Memo
from ..scene.parameters import Settings
from ..scene.scene import Scene, check_scene
from ..solvers.problem import Outcome
from ..stepping.controls import Controls
from ..stepping.flowing import flowed, settled
from ..stepping.law import Coefficients
from ..stepping.step import Stepper
from ..stepping.substeps import Substeps
from ..system.state import State
from ..system.system import System
from ..system.weave import has_weave
from . import start
from .assembly import Assembly, Island, Tell, build_assembly, silent
from .choice import check_alike, chosen, is_own, mend
from .contracting import contracting
from .controlled import Machines
from .dials import Dials
from .flowed import Stage, Stages, flowing
from .posing import Pose, Posing
from .pulling import Fields, fields_of, pulled
from .sampling import Animated, Sampled, Sampling
from .statics import Statics, held

# Cached integrations of the literature's dampings. Each one holds its own factorisations.
_KEPT = 2


class Simulation:
    """Scene that is ready to run.

    scene: the simulated scene.
    assembly: the systems built from it; reusable for a scene with the same model fingerprint.
    loop_error: largest node displacement between the last two cycles of a loop, relative to the size.
    """

    def __init__(
        self,
        scene: Scene,
        known: Assembly | None = None,
        models: Mapping[str, Model] | None = None,
        tell: Tell = silent,
    ) -> None:
        """Check the scene, build its systems and find its stiffness.

        known_assembly: from a scene with the same model fingerprint.
        models: reusable models by body fingerprint.
        report_progress: called with the name of each preparation step.
        Raises a DampSimError that the user can fix.
        """
        check_scene(scene)
        self.scene = scene
        self.assembly = known or build_assembly(scene, models, tell)
        for island in self.assembly.islands:
            check_alike(
                [scene.bodies[k].name for k in island.bodies], [scene.bodies[k].settings for k in island.bodies]
            )
        # The dials are not resolved yet, so the number of substeps per frame is still unknown.
        first = Sampling(scene, lambda settings: 1).animated(float(scene.first))
        made = self.assembly
        self.posing = Posing(scene, made)
        tell("the hanging shape")
        self.statics = Statics(scene, made, self.posing, first)
        self.statics.weigh()
        if any(body.settings.keep_shape for body in scene.bodies):
            tell("the rest shape that keeps the modelled shape")
            made = self.statics.unloaded()
            self.posing = Posing(scene, made)
            self.statics = Statics(scene, made, self.posing, first, self.statics)
            self.statics.weigh()
        self.dials = Dials(scene, self.statics)
        self._stages = Stages(scene, made, self.posing, first, Stage(self.statics, self.dials))
        self._machines = Machines(scene, made)
        self.sampling = Sampling(scene, self.dials.most_substeps)
        self.loop_error = 0.0
        self._integrations: Memo[Integration] = Memo(_KEPT)
        self._first: Frame | None = None

    @property
    def islands(self) -> list[Island]:
        """Islands of the scene."""
        return self.statics.islands

    def prime(self) -> None:
        """Precompute everything that depends only on the inputs of the first frame."""
        for number, island in enumerate(self.islands):
            if held(island):
                settings = [self.scene.bodies[k].settings for k in island.bodies]
                self.statics.hanging(number, self.statics.factors(number, settings))

    # Queries for a single body.

    def place(self, body: str) -> tuple[int, int]:
        """Return the index of a body's island, and the index of its block there."""
        return self.statics.place(self.scene.place_of(body))

    def system_of(self, body: str) -> System:
        """Return the system that contains a body."""
        return self.islands[self.place(body)[0]].system

    def model_of(self, body: str) -> Model:
        """Return the model of a body."""
        return self.assembly.models[self.scene.place_of(body)]

    def nodes(self, state: State, body: str) -> Array:
        """Return the node positions (n, 3) of a body in m."""
        number = self.scene.place_of(body)
        return state.positions[self.assembly.nodes_of(number)]

    def is_held(self, body: str) -> bool:
        """Return whether pins and links leave no part of the body free to fall."""
        island, block = self.place(body)
        there = self.islands[island]
        own = [there.system.regions[k] for k in there.system.regions_of(block)]
        return all(region.rigid_modes == 0 for region in own)

    def substeps(self, body: str, settings: Settings) -> Substeps:
        """Return the number of substeps per frame that a body needs with these dials."""
        return self.dials.substeps(self.scene.place_of(body), settings)

    def factors(self, island: int, settings: tuple[Settings, ...] | None = None) -> Array:
        """Return the stiffness factors (b,) of an island's blocks.

        settings: of all bodies; None for those at the first frame.
        """
        dialled = settings or tuple(body.settings for body in self.scene.bodies)
        return self.statics.factors(island, [dialled[k] for k in self.islands[island].bodies])

    def young(self, body: str, settings: tuple[Settings, ...] | None = None) -> float:
        """Return a body's Young's modulus in Pa, as set or as derived from Sag at the first frame."""
        island, block = self.place(body)
        return float(BASE_YOUNG * self.factors(island, settings)[block])

    def sag(self, body: str, settings: tuple[Settings, ...] | None = None) -> float:
        """Return the distance of a body's surface from its animation at the first frame, relative to its size."""
        island, block = self.place(body)
        return self.statics.sag(island, block, self.factors(island, settings))

    def controls(self, settings: tuple[Settings, ...] | None = None) -> tuple[Controls, ...]:
        """Return the step controls of each island. settings: of all bodies; None for those at the first frame."""
        dialled = settings or tuple(body.settings for body in self.scene.bodies)
        count = self.dials.most_substeps(dialled)
        return tuple(self.dials.controls(k, dialled, count) for k in range(len(self.islands)))

    def effective(self, settings: tuple[Settings, ...] | None = None) -> tuple[Coefficients, ...]:
        """Return the coefficients of each region of each island for one substep with these dials."""
        dialled = settings or tuple(body.settings for body in self.scene.bodies)
        h = 1.0 / (self.scene.fps * self.dials.most_substeps(dialled))
        return tuple(law.coefficients(h) for controls in self.controls(dialled) for law in controls.laws)

    # Frame loop.

    def sampled(self, number: int, before: int = 1) -> Sampled:
        """Return the inputs of a frame, see SceneSampler.sample_frame."""
        return self.sampling.sampled(number, before)

    def step(self, state: State, pose: Pose, sampled: Sampled) -> tuple[State, Pose, int, int]:
        """Advance the state and the pose by one frame.

        Return the new state and pose, the iteration count and the fallback count, see Frame. Raises StepError.
        """
        parts = len(sampled.animated)
        iterations = helped = 0
        stage = self._stages.of(state.memory)
        if sampled.number > self.scene.first:
            # Muscles are not switched during a preroll.
            state = self._machines.ticked(stage.statics.islands, state, sampled.animated[-1])
        for animated, settings in zip(sampled.animated, sampled.settings, strict=True):
            following = self.posing.pose(animated)
            after = []
            for k, island in enumerate(stage.statics.islands):
                h = 1.0 / (self.scene.fps * parts)
                own, dials = island.own(state), [settings[body] for body in island.bodies]
                own, keyed = contracting(
                    stage.dials, island, dials, own, self.posing.between(island, pose[k], following[k]), h
                )
                inputs = pulled(
                    island,
                    keyed,
                    dials,
                    fields_of(island, animated),
                    self.scene.gravity,
                    Fields(island, own, dials, animated.frame, h),
                )
                controls = stage.dials.controls(k, settings, self.dials.most_substeps(settings))
                own, report = self._stepping(stage, k, settings).step(own, inputs, h, controls)
                iterations += report.iterations
                # A step that was split into parts had failed as a whole before.
                helped += report.helped > 0 or report.substeps > 1
                if report.outcome is not Outcome.CONVERGED:
                    raise self._failed(k, settings, sampled.number, report.outcome)
                own = flowed(island.system, own, flowing(dials, h))
                if animated is sampled.animated[-1]:
                    own = settled(island.system, own)
                after.append(own)
            state, pose = State.joined(after), following
        state = self._machines.sensed(stage.statics.islands, state, sampled.animated[-1])
        # Set the exact frame time, free of the rounding of summed substeps.
        time = sampled.number / self.scene.fps
        return State(time, state.positions, state.velocities, state.reference, state.memory), pose, iterations, helped

    def _stepping(self, stage: Stage, island: int, settings: tuple[Settings, ...]) -> Stepper | Integration:
        """Return the stepper of an island for these dials."""
        there = stage.statics.islands[island]
        own = [settings[k] for k in there.bodies]
        if is_own(own[0]) or has_weave(there.system):
            return stage.statics.steppers[island]
        factors = self.statics.factors(island, own)
        # Only these keyframable dials change the damping.
        key = (island, stage.key, factors.tobytes(), *((one.damping_by, one.integrator, one.gamma) for one in own))
        return self._integrations.get(key, lambda: chosen(there.system, own, factors))

    def _failed(self, island: int, settings: tuple[Settings, ...], number: int, outcome: Outcome) -> StepError:
        there = self.islands[island]
        own = [settings[k] for k in there.bodies]
        names = ", ".join(self.scene.bodies[k].name for k in there.bodies)
        factors = self.statics.factors(island, own)
        advice = mend(self.statics.steppers[island], own[0], factors, self.scene.fps)
        return StepError(f"{names}: frame {number} could not be simulated ({outcome.value}) {advice}")

    def shapes(self, state: State, animated: Animated) -> dict[str, Array]:
        """Return the simulated surfaces (v, 3) in m by body, in single precision as they are stored and displayed."""
        found = {}
        for k, body in enumerate(self.scene.bodies):
            nodes = state.positions[self.assembly.nodes_of(k)]
            surface = self.assembly.models[k].skin(nodes, animated.bodies[k])
            found[body.name] = surface.astype(np.float32).astype(float)
        return found

    def warm_up(self) -> Generator[tuple[int, int], None, None]:
        """Find the first frame and yield the progress (done, total), see start.prepare_first_frame."""
        if self._first is None:
            first, self.loop_error = yield from start.warm_up(self)
            if self._machines:
                animated = self.sampled(self.scene.first).animated[-1]
                first = replace(first, state=self._machines.sensed(self.islands, first.state, animated))
            self._first = first

    def first_frame(self) -> Frame:
        """Return the frame from which the simulation starts."""
        for _ in self.warm_up():
            pass
        assert self._first is not None
        return self._first

    def frames(self, last: Frame | None = None) -> Iterator[Frame]:
        """Yield the frames after the last one, or all frames from the start. Raises StepError if a step fails."""
        if last is None:
            last = self.first_frame()
            yield last
        run = Run(self, last, self.sampled(last.number))
        while run.frame.number < self.scene.last:
            yield run.advance(self.sampled(run.frame.number + 1, run.count))


class Run:
    """Simulation at one of its frames.

    sampled: the inputs of that frame; the sample at its end is sufficient.
    """

    def __init__(self, simulation: Simulation, frame: Frame, sampled: Sampled) -> None:
        self.simulation, self.frame, self.count = simulation, frame, sampled.count
        self._pose = simulation.posing.pose(sampled.animated[-1])

    def advance(self, sampled: Sampled) -> Frame:
        """Advance to the next frame, whose inputs are given. The run keeps its frame if the step fails."""
        state, pose, iterations, helped = self.simulation.step(self.frame.state, self._pose, sampled)
        shapes = self.simulation.shapes(state, sampled.animated[-1])
        self.frame = Frame(sampled.number, state, shapes, sampled.digests, iterations, helped)
        self._pose, self.count = pose, sampled.count
        return self.frame
