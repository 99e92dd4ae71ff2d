"""Frame loop: advance a scene from frame to frame, with the lag of fibres behind their keyed contraction."""

from __future__ import annotations

from collections import Counter
from collections.abc import Generator, Iterator, Mapping, Sequence
from dataclasses import replace

import numpy as np

from ..base.arrays import Array
from ..base.computation import Memo, ProgressCallback, StageProgress, no_progress, run_steps
from ..base.errors import StepError, crowds_named
from ..bodies.kind import BASE_YOUNG, Model
from ..frames.frame import Frame
from ..literature.integrators import IntegratorStepper
from ..objective.plastic_update import apply_plastic_flow, commit_plastic_rest_shape
from ..scene.body import SceneSample
from ..scene.parameters import Settings
from ..scene.scene import Scene, check_scene
from ..settle.controls import Controls, Substeps
from ..settle.law import Coefficients
from ..settle.waveform import SECOND_ROOT_RATIO, WaveformLaw
from ..settle.work_meter import WorkMeter
from ..solvers.objective import Outcome
from ..steppers.implicit import Stepper
from ..system.inputs import Inputs
from ..system.material_terms import FibreTerm
from ..system.state import ContractionLag, State
from ..system.system import System
from ..system.weave_term import has_weave
from . import start
from .assembly import Assembly, Island, build_assembly
from .body_forces import FieldAccelerations, with_accelerations
from .dials import DialInterpreter, without_contraction
from .method_selection import build_integration, check_same_method, suggest_fix, uses_dampsim_stepper
from .muscle_control import MuscleControllers
from .pin_changes import CatchMotion, PinVersion, PinVersions, after_pin_change
from .plastic_rest_shapes import RestShapeVersion, plasticity_per_block
from .poses import loads_of
from .sampling import FrameInputs, sample_frame
from .sheet_air import SheetAir
from .statics import StaticSolver

# Limits of contraction and stretch, because Bounce overshoots the keyframed value.
_MAX_CONTRACTION, _MIN_CONTRACTION = 0.7, -1.5


def fibre_inputs(
    dials: DialInterpreter, island: Island, settings: Sequence[Settings], state: State, inputs: Inputs, h: float
) -> tuple[State, Inputs]:
    """Return the state and inputs of a step of h s, with fibres that follow the keyframes by the Settle law.

    settings: of the island's bodies.
    inputs: with the keyframed contraction.
    Laws without Settle and Bounce use the keyframed contraction unchanged, because they only define how deformation
    decays.
    """
    history, contracted_inputs = state.history, list(inputs)
    for place, (body, own) in enumerate(zip(island.bodies, settings, strict=True)):
        block = island.system.blocks[place]
        if not any(isinstance(term, FibreTerm) for term in block.terms):
            continue
        law = dials.release_law(body, own) if uses_dampsim_stepper(own) and own.is_settle_controlled else None
        if not isinstance(law, WaveformLaw):
            continue
        begin, end = inputs[place].contraction
        last_lag = history.block(block.name).contraction_lag or ContractionLag()
        next_lag = advance_lag(law, last_lag, end - begin, h, own.follow_through)
        history = history.with_block(block.name, replace(history.block(block.name), contraction_lag=next_lag))
        lagging = np.clip([begin + last_lag.lag, end + next_lag.lag], _MIN_CONTRACTION, _MAX_CONTRACTION)
        contracted_inputs[place] = replace(contracted_inputs[place], contraction=(float(lagging[0]), float(lagging[1])))
    return replace(state, history=history), tuple(contracted_inputs)


# Cached integrations of the literature's dampings. Each one holds its own factorisations.
_CACHED_INTEGRATIONS = 2


class Simulation:
    """Scene that is ready to run. frames() yields the simulated frames; bake() also stores them in a FrameCache.

    scene: the simulated scene.
    assembly: the systems built from it; reusable for a scene with the same model fingerprint.
    loop_error: largest node displacement between the last two cycles of a loop, relative to the size.
    """

    def __init__(
        self,
        scene: Scene,
        known_assembly: Assembly | None = None,
        models: Mapping[str, Model] | None = None,
        report_progress: ProgressCallback = no_progress,
        first_sample: SceneSample | None = None,
    ) -> None:
        """Check the scene, build its systems and solve its hanging shapes. Raises DampSimError.

        known_assembly: assembly of a scene with the same model fingerprint, for reuse.
        models: reusable models by body fingerprint.
        report_progress: called with the progress of each preparation stage, also in precompute().
        first_sample: of the scene at its first frame, so that this function need not call the scene's sampler.
        """
        check_scene(scene)
        if first_sample is None:
            first_sample = scene.sample(float(scene.first))
        self._first_sample = first_sample
        for k, settings in enumerate(first_sample.settings):
            # The stiffness for Sag and the first eigenvalues are those of relaxed fibres.
            first_sample = first_sample.with_body(k, settings=without_contraction(settings))
        self.scene, self._progress = scene, StageProgress(report_progress)
        self.assembly = known_assembly or build_assembly(scene, models, self._progress)
        for island in self.assembly.islands:
            bodies = [scene.bodies[k] for k in island.bodies]
            check_same_method(
                [one.name for one in bodies], [one.kind for one in bodies], [one.settings for one in bodies]
            )
        self._progress.begin("the hanging shape")
        self.statics = StaticSolver(scene, self.assembly, first_sample, progress=self._progress)
        if any(body.settings.keep_shape for body in scene.bodies):
            self._progress.begin("the rest shape that keeps the modelled shape")
            self.statics = self.statics.for_assembly(self.statics.with_inverse_rest_shapes(), self._progress)
        self.pose_evaluator, modelled = self.statics.pose_evaluator, PinVersion(scene, self.statics)
        self.dials, self._pins = modelled.dials, PinVersions(scene, modelled)
        self._muscle_controllers = MuscleControllers(scene, self.statics.assembly)
        self._air = SheetAir(scene, first_sample)
        self.loop_error = 0.0
        self._integrations: Memo[IntegratorStepper] = Memo(_CACHED_INTEGRATIONS)
        self._first_frame: Frame | None = None
        self._start: tuple[FrameInputs, State] | None = None

    @property
    def islands(self) -> list[Island]:
        """Islands of the scene."""
        return self.statics.islands

    @property
    def cut_stages(self) -> Mapping[str, int]:
        """Number of searches that spent their work budget, by stage of the preparation."""
        return self._progress.cut_stages

    def precompute(self) -> None:
        """Find the first frame, but not the cycle of a loop. Does not call the scene's sampler."""
        if self._start is None:
            self._progress.begin("the first frame")
            first_inputs = sample_frame(self.scene, self.dials.max_substeps, self.scene.first, 1, self._first_sample)
            finding = start.find_start(self, first_inputs)
            state = run_steps(finding, lambda parts: self._progress.advance(parts[0] / parts[1]))
            self._start = first_inputs, state

    # Queries for a single body.

    def island_and_block(self, body: str) -> tuple[int, int]:
        """Return the index of a body's island, and the index of its block in that island."""
        return self.assembly.island_and_block(self.scene.body_index(body))

    def system_of(self, body: str) -> System:
        """Return the system that contains a body."""
        return self.islands[self.island_and_block(body)[0]].system

    def model_of(self, body: str) -> Model:
        """Return the model of a body."""
        return self.assembly.models[self.scene.body_index(body)]

    def node_positions(self, state: State, body: str) -> Array:
        """Return the node positions (n, 3) of a body in m."""
        return state.positions[self.assembly.node_slice_of(self.scene.body_index(body))]

    def is_constrained(self, body: str) -> bool:
        """Return whether pins and links leave no part of the body free to fall."""
        island, block = self.island_and_block(body)
        system = self.islands[island].system
        return all(system.regions[k].rigid_modes == 0 for k in system.regions_of(block))

    def substeps(self, body: str, settings: Settings) -> Substeps:
        """Return the number of substeps per frame that a body needs with these dials."""
        return self.dials.substeps(self.scene.body_index(body), settings)

    def stiffness_factors(self, island: int, settings: tuple[Settings, ...] | None = None) -> Array:
        """Return the stiffness factors (b,) of an island's blocks.

        settings: of all bodies; None for those at the first frame.
        """
        own = None if settings is None else [settings[k] for k in self.islands[island].bodies]
        return self.statics.stiffness_factors(island, own)

    def young(self, body: str, settings: tuple[Settings, ...] | None = None) -> float:
        """Return a body's Young's modulus in Pa, as set or as derived from Sag at the first frame."""
        island, block = self.island_and_block(body)
        return float(BASE_YOUNG * self.stiffness_factors(island, settings)[block])

    def has_known_sag(self, body: str) -> bool:
        """Return whether sag() of a body needs no further search for its hanging shape."""
        return self.statics.has_hanging_state(self.island_and_block(body)[0])

    def sag(self, body: str, settings: tuple[Settings, ...] | None = None) -> float:
        """Return the distance of a body's surface from its animation at the first frame, relative to its size."""
        island, block = self.island_and_block(body)
        return self.statics.sag(island, block, self.stiffness_factors(island, settings))

    def controls(self, settings: tuple[Settings, ...] | None = None) -> tuple[Controls, ...]:
        """Return the step controls of each island. settings: of all bodies; None for those at the first frame."""
        all_settings = settings or self.scene.settings
        count = self.dials.max_substeps(all_settings)
        return tuple(self.dials.controls(k, all_settings, count) for k in range(len(self.islands)))

    def law_coefficients(self, settings: tuple[Settings, ...] | None = None) -> tuple[Coefficients, ...]:
        """Return the coefficients of each region of each island for one substep with these dials."""
        h = 1.0 / (self.scene.fps * self.dials.max_substeps(settings or self.scene.settings))
        return tuple(law.coefficients(h) for controls in self.controls(settings) for law in controls.laws)

    # Frame loop.

    def sample_frame(self, number: int, previous_substeps: int = 1) -> FrameInputs:
        """Return the inputs of a frame. previous_substeps: substep count of the previous frame."""
        return sample_frame(self.scene, self.dials.max_substeps, number, previous_substeps)

    def version_at(self, sample: SceneSample) -> PinVersion:
        """Return everything derived from the bodies with the pins of a sample."""
        return self._pins.version_for(sample)

    def step(self, state: State, start: SceneSample, frame_inputs: FrameInputs) -> tuple[State, int, Mapping[str, int]]:
        """Advance the state by one frame, with the pins of its end.

        start: the scene at the start of the frame.
        Return the new state, the iteration count and the guards, see Frame. Raises StepError.
        """
        last_pins, pins = self.version_at(start), self.version_at(frame_inputs.samples[-1])
        substep_count = len(frame_inputs.samples)
        h = 1.0 / (self.scene.fps * substep_count)
        iterations, guards = 0, Counter[str]()
        version = pins.rest_shapes.version_for(state.history)
        meters: dict[int, WorkMeter] = {}
        if frame_inputs.number > self.scene.first:
            # Muscles are not switched during a preroll.
            state = self._muscle_controllers.switch(version.statics.islands, state, frame_inputs.samples[-1])
        evaluator = pins.statics.pose_evaluator
        pose, last_settings = evaluator.pose(start), start.settings
        last_step = 1.0 / (self.scene.fps * self.dials.max_substeps(last_settings))
        held = [version.loads.is_held(k, start, frame_inputs.samples[-1]) for k in range(len(version.statics.islands))]
        for number, sample in enumerate(frame_inputs.samples):
            settings, time = sample.settings, (frame_inputs.number - 1) / self.scene.fps + number * h
            next_pose = evaluator.pose(sample)
            next_states = []
            for k, island in enumerate(version.statics.islands):
                island_state, island_settings = island.extract_state(state), [settings[body] for body in island.bodies]
                catches, before = CatchMotion(island, island_settings, self.scene.fps), None
                if number == 0 and pins is not last_pins:
                    before = last_pins.statics.assembly.islands[k].system
                    history = catches.begin(before, island_state, pose[k], next_pose[k], time, h)
                    island_state = replace(island_state, history=history)
                poses = tuple(
                    catches.with_offsets(one[k], island_state.history, moment)
                    for one, moment in ((pose, time), (next_pose, time + h))
                )
                inputs = evaluator.step_inputs(island, *poses)
                if before is not None:
                    island_state = after_pin_change(before, island.system, island_state, inputs, h)
                island_state, inputs = fibre_inputs(version.dials, island, island_settings, island_state, inputs, h)
                weighted = version.statics.with_part_weights
                start_settings = [last_settings[body] for body in island.bodies]
                loads = weighted(island, loads_of(pose[k]), start_settings)
                next_loads = weighted(island, loads_of(next_pose[k]), island_settings)
                loaded = version.loads.first
                if held[k]:
                    loaded = version.loads.version_for(k, loads, next_loads, island_settings, poses, island_state)
                fields = FieldAccelerations(island, island_state, island_settings, sample.frame, h)
                inputs = with_accelerations(island, inputs, loads, next_loads, self.scene.gravity, fields)
                inputs = self._air.with_air(island, inputs, loads, next_loads, island_state, sample.frame, h)
                inputs = loaded.with_steady_load(island, inputs)
                count = self.dials.max_substeps(settings)
                controls = loaded.dials.controls(k, settings, count, start_settings, last_step)
                stepper = self._stepper_for(pins, version, k, settings, loaded.statics)
                with crowds_named([self.scene.bodies[body].name for body in island.bodies]):
                    if isinstance(stepper, Stepper):
                        meter = meters.setdefault(k, stepper.frame_meter(substep_count))
                        island_state, report = stepper.step(island_state, inputs, h, controls, meter=meter)
                    else:
                        island_state, report = stepper.step(island_state, inputs, h, controls)
                iterations += report.iterations
                guards.update(report.hard_guards)
                if report.outcome is not Outcome.CONVERGED:
                    raise self._step_error(k, settings, frame_inputs.number, report.outcome)
                island_state = apply_plastic_flow(island.system, island_state, plasticity_per_block(island_settings, h))
                if sample is frame_inputs.samples[-1]:
                    island_state = commit_plastic_rest_shape(island.system, island_state)
                next_states.append(island_state)
            state, pose, last_settings = State.concatenate(next_states), next_pose, settings
            last_step = h
        state = self._muscle_controllers.measure_sensors(version.statics.islands, state, frame_inputs.samples[-1])
        # Set the exact frame time, free of the rounding of summed substeps.
        return replace(state, time=frame_inputs.number / self.scene.fps), iterations, guards

    def _stepper_for(
        self,
        pins: PinVersion,
        version: RestShapeVersion,
        island: int,
        settings: tuple[Settings, ...],
        statics: StaticSolver,
    ) -> Stepper | IntegratorStepper:
        """Return the stepper of an island for these dials. statics: of the loads that act."""
        island_data = version.statics.islands[island]
        island_settings = [settings[k] for k in island_data.bodies]
        if uses_dampsim_stepper(island_settings[0]) or has_weave(island_data.system):
            return statics.steppers[island]
        factors = self.statics.stiffness_factors(island, island_settings)
        # Of the keyframable settings, only these change the damping.
        methods = [(one.damping_by, one.integrator, one.gamma) for one in island_settings]
        key = (island, pins.key, version.key, factors.tobytes(), *methods)
        return self._integrations.get(key, lambda: build_integration(island_data.system, island_settings, factors))

    def _step_error(self, island: int, settings: tuple[Settings, ...], number: int, outcome: Outcome) -> StepError:
        bodies, factors = self.islands[island].bodies, self.stiffness_factors(island, settings)
        names = ", ".join(self.scene.bodies[k].name for k in bodies)
        advice = suggest_fix(self.statics.steppers[island], settings[bodies[0]], factors, self.scene.fps)
        return StepError(f"{names}: frame {number} could not be simulated ({outcome.value}) {advice}")

    def shapes(self, state: State, sample: SceneSample) -> dict[str, Array]:
        """Return the simulated surfaces (v, 3) in m by body, in single precision as they are stored and displayed."""
        surfaces, assembly = {}, self.version_at(sample).statics.assembly
        for k, body in enumerate(self.scene.bodies):
            number, block = assembly.island_and_block(k)
            island = assembly.islands[number]
            nodes, animated = state.positions[assembly.node_slice_of(k)], sample.bodies[k].vertices
            catches = CatchMotion(island, [sample.settings[body] for body in island.bodies], self.scene.fps)
            offsets = catches.offsets(state.history, block, state.time)
            if offsets is not None:
                # Vertices that follow the animation move with the caught nodes around them.
                around, weights = assembly.models[k].skin.weights_for_points(body.surface.vertices)
                animated = animated + np.einsum("vk,vkj->vj", weights, offsets[around])
            surface = assembly.models[k].skin(nodes, animated)
            surfaces[body.name] = surface.astype(np.float32).astype(float)
        return surfaces

    def prepare_first_frame(self) -> Generator[tuple[int, int], None, None]:
        """Find the first frame and yield the progress (done, total)."""
        if self._first_frame is None:
            if self._start is None:
                first_inputs = self.sample_frame(self.scene.first)
                with crowds_named([body.name for body in self.scene.bodies]):
                    self._start = first_inputs, (yield from start.find_start(self, first_inputs))
            first, self.loop_error = yield from start.close_loop(self, *self._start)
            if self._muscle_controllers:
                animated = self.sample_frame(self.scene.first).samples[-1]
                state = self._muscle_controllers.measure_sensors(self.islands, first.state, animated)
                first = replace(first, state=state)
            self._first_frame = first

    def first_frame(self) -> Frame:
        """Return the frame from which the simulation starts."""
        for _ in self.prepare_first_frame():
            pass
        assert self._first_frame is not None
        return self._first_frame

    def frames(self, last: Frame | None = None) -> Iterator[Frame]:
        """Yield the frames after the last one, or all frames from the start. Raises StepError if a step fails."""
        if last is None:
            last = self.first_frame()
            yield last
        run = SimulationRun(self, last, self.sample_frame(last.number))
        while run.frame.number < self.scene.last:
            yield run.advance(self.sample_frame(run.frame.number + 1, run.substep_count))


class SimulationRun:
    """Simulation that continues from one of its frames."""

    def __init__(self, simulation: Simulation, frame: Frame, frame_inputs: FrameInputs) -> None:
        """frame_inputs: of that frame; only the sample at its end is needed."""
        self.simulation, self.frame, self.substep_count = simulation, frame, frame_inputs.substep_count
        self._sample = frame_inputs.samples[-1]

    def advance(self, frame_inputs: FrameInputs) -> Frame:
        """Advance to the next frame with its inputs. If the step fails, the run stays at its frame."""
        state, iterations, guards = self.simulation.step(self.frame.state, self._sample, frame_inputs)
        shapes = self.simulation.shapes(state, frame_inputs.samples[-1])
        self.frame = Frame(frame_inputs.number, state, shapes, frame_inputs.digests, iterations, guards)
        self._sample, self.substep_count = frame_inputs.samples[-1], frame_inputs.substep_count
        return self.frame


# A lag below this fraction of the fibre length is set to zero, so that bodies at rest can sleep.
_LAG_TOLERANCE = 1e-7


def advance_lag(
    law: WaveformLaw, last: ContractionLag, contraction_change: float, h: float, follow_through: float
) -> ContractionLag:
    """Advance the contraction lag by a step of h s: an inertial response like that to pins.

    With r the keyed contraction and r + e the actual one, the lag e is the deflection of the law set by the dials,

        e'' + 2 a e' + (a^2 + w^2) e = -phi r'',     without overshoot  e'' + 3 a e' + 2 a^2 e = -phi r'',

    solved exactly for a rate r' that is constant in each step. After a stop of r, the lag decays as set by Settle and
    Bounce. See docs/explanation/physics/11-fibres.md.

    last: at the start of the step.  contraction_change: change of r in the step.  follow_through: phi.
    """
    rate = contraction_change / h
    e, lag_rate = _free_response(law, last.lag, last.lag_rate - follow_through * (rate - last.keyed_rate), h)
    if rate == 0.0 and abs(e) < _LAG_TOLERANCE and abs(lag_rate) * h < _LAG_TOLERANCE:
        e = lag_rate = 0.0
    return ContractionLag(e, lag_rate, rate)


def _free_response(law: WaveformLaw, e: float, lag_rate: float, h: float) -> tuple[float, float]:
    """Return the free response of the lag and its rate after h s."""
    a, w = law.decay, law.frequency
    if w == 0.0:
        slow_decay, fast_decay = np.exp(-a * h), np.exp(-SECOND_ROOT_RATIO * a * h)
        # Amplitudes of the two roots -a and -SECOND a.
        slow_amplitude = (lag_rate + SECOND_ROOT_RATIO * a * e) / ((SECOND_ROOT_RATIO - 1.0) * a)
        fast_amplitude = e - slow_amplitude
        return float(slow_amplitude * slow_decay + fast_amplitude * fast_decay), float(
            -a * (slow_amplitude * slow_decay + SECOND_ROOT_RATIO * fast_amplitude * fast_decay)
        )
    decay_factor, sine, cosine = np.exp(-a * h), np.sin(w * h), np.cos(w * h)
    sine_amplitude = (lag_rate + a * e) / w
    next_lag = e * cosine + sine_amplitude * sine
    return float(decay_factor * next_lag), float(
        decay_factor * (w * (sine_amplitude * cosine - e * sine) - a * next_lag)
    )
