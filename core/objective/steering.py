"""Steering: the pace at which a region decays, so that far deflections rest on time (docs/decisions/0065).

The elastic force of a region follows the waveform law at any deflection, but a bent body stiffens or softens. Late in
the swing, the deflection is c = K^-1 (g - F), with the stiffness K at rest, the elastic force g and the load F. Its
envelope E and the largest deflection Y so far say how far it still has to decay. The law's decay in the phase that is
left is scaled accordingly:

    a' = a (ln(E/(S Y)) + phi_T) / (phi_T - phi)

phi is the decayed phase (the integral of a) since the largest swing, phi_T the phase at rest, and S the ratio of the
law's envelope to its largest swing.

A body whose envelope is larger than that of the law would also swing too far past rest: in the first half swing it
decays so much faster that the next swing has the dialled size (docs/decisions/0090).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from ..base.arrays import Array, take_rows
from ..geometry.mesh.rigid_motion import fit_rigid_motion, fit_rigid_motions
from ..settle.controls import Controls, has_new_bounce, history_change
from ..settle.first_mode import FirstModeLaw
from ..settle.law import DeformationLaw
from ..settle.waveform import SECOND_ROOT_RATIO, WaveformLaw
from ..system.inputs import Inputs
from ..system.region import Region
from ..system.state import DeformationHistory, State
from ..system.system import System
from ..system.term import StiffnessScaling
from .factorised_system import FactorisedSystem
from .reference_motion import RegionSlice, StepContext, reference_velocities, reference_velocity
from .slack_steering import UNKNOWN_SWING, can_steer_slack, known_swings, next_slack_swing, relaxed_part, search_law
from .step_potential import ThetaWeights, step_start_forces

# Bounds of the pace without and with overshoot.
_PACES = {False: (0.5, 3.0), True: (0.5, 2.0)}
# A change of the reference velocity starts a new swing if it deflects the body by at least this fraction of its swing.
_NEW_SWING_FRACTION = 0.1
# The next swing is limited if the logarithm of its envelope exceeds that of the law by this, up to the second pace.
_MIN_EXCESS, _MAX_TURNING_PACE = 0.1, 4.0
# Smallest part of the phase up to the next swing in which the excess is taken away.
_MIN_TURN_FRACTION = 0.1
# Relative size of rounding errors, and a lower bound on relative envelopes.
_ROUNDING, _MIN_ENVELOPE = 1e-9, 1e-6
# The pace is computed anew at these intervals of the phase. The largest swing is within the first phase.
_PHASE_INTERVAL, _PEAK_PHASE = 0.5, 1.0
# The pace stays as it is in the last part of the phase before rest.
_LAST_PHASE = 0.5


# Largest part of the largest swing that the estimated equilibrium may be wrong by.
_MAX_EQUILIBRIUM_ERROR = 0.1


@dataclass(frozen=True)
class SwingRecord:
    """Swing of a region so far.

    swing: Y in m; negative while other forces act.  phase: phi since the largest swing.  pace: a'/a in the last step.
    acceleration: (3,) m/s^2, external, in the last step.
    """

    swing: float
    phase: float
    pace: float
    acceleration: Array

    @staticmethod
    def read(numbers: Array) -> SwingRecord:
        """Return the record in an array (6,)."""
        swing, phase, pace = (float(one) for one in numbers[:3])
        return SwingRecord(swing, phase, pace, numbers[3:])

    @property
    def numbers(self) -> Array:
        """Array (6,) of the record."""
        return np.array([self.swing, self.phase, self.pace, *self.acceleration])


def steer(
    stepper: FactorisedSystem, state: State, inputs: Inputs, h: float, controls: Controls
) -> tuple[State, Controls]:
    """Return the state with the records of its swings, and the controls of a step at the regions' paces."""
    system, laws = stepper.system, controls.laws
    if controls.is_static or controls.yarns:
        return state, controls
    if any(can_steer_slack(region, law) for region, law in zip(system.regions, laws, strict=True)):
        return _steer_slack(stepper, state, inputs, h, controls)
    if not stepper.is_pinned_solid or not any(isinstance(law, WaveformLaw) for law in laws):
        return state, controls
    own = state.history.block(system.name)
    known = None
    if own.steering is not None and own.steering.shape == (len(laws), 6):
        known = [SwingRecord.read(row) for row in own.steering]
    acceleration = _uniform_acceleration(stepper, state, inputs)
    if acceleration is None and own.steering is None:
        return state, controls
    unsteered = SwingRecord(-1.0, 0.0, 1.0, np.zeros(3))
    records = [unsteered] * len(laws)
    if acceleration is not None:
        touched = system.touched_regions(state)
        step = _SteeredStep(stepper, StepContext.create(system, state, inputs, h), controls, acceleration)
        records = [
            step.next_record(place, law, None if known is None else known[place])
            if isinstance(law, WaveformLaw) and law.settle_scale is None and place not in touched
            else unsteered
            for place, law in enumerate(laws)
        ]
    own = replace(own, steering=np.array([one.numbers for one in records]))
    state = replace(state, history=state.history.with_block(system.name, own))
    paces = [one.pace for one in records]
    last_paces = [1.0] * len(laws) if known is None else [one.pace for one in known]
    if all(pace == 1.0 for pace in (*paces, *last_paces)):
        return state, controls
    steered, former = (
        tuple(
            replace(law, decay=law.decay * pace) if isinstance(law, WaveformLaw) else law
            for law, pace in zip(some, own_paces, strict=True)
        )
        for some, own_paces in ((laws, paces), (controls.former_laws or laws, last_paces))
    )
    if controls.former_laws:
        return state, replace(controls, laws=steered, former_laws=former)
    # The motion goes on at another pace, as after a change of the dials. With overshoot only the decay changes.
    ratios = tuple(
        pace / last if isinstance(law, WaveformLaw) and law.frequency == 0.0 else 1.0
        for law, pace, last in zip(laws, paces, last_paces, strict=True)
    )
    return state, replace(controls, laws=steered, velocity_ratios=ratios)


def _steer_slack(
    stepper: FactorisedSystem, state: State, inputs: Inputs, h: float, controls: Controls
) -> tuple[State, Controls]:
    """Return the state with the swings of regions that their weight holds, and the controls of the step."""
    system, laws = stepper.system, controls.laws
    own = state.history.block(system.name)
    known, swings, steered = known_swings(own.steering, len(laws)), [UNKNOWN_SWING] * len(laws), list(laws)
    acceleration = _uniform_acceleration(stepper, state, inputs, is_slack=True)
    if acceleration is not None:
        context, touched = StepContext.create(system, state, inputs, h), system.touched_regions(state)
        places = [
            place
            for place, (region, law) in enumerate(zip(system.regions, laws, strict=True))
            if place not in touched and can_steer_slack(region, law)
        ]
        motions = reference_velocities(
            context, [system.regions[place] for place in places], [stepper.region_slices[place] for place in places]
        )
        places = [place for place, one in zip(places, motions, strict=True) if not one.at_undeformed.any()]
        deflections = _slack_deflections(stepper, context, controls, places)
        for place, away in zip(places, deflections, strict=True):
            region, law = system.regions[place], laws[place]
            assert isinstance(law, FirstModeLaw)
            speed = _largest(take_rows(state.velocities, region.free))
            has_stopped = bool(take_rows(state.reference, region.free).any())
            deflection = math.inf if away is None else _largest(away)
            is_outward = away is not None and float((away * take_rows(state.velocities, region.free)).sum()) > 0.0
            last = None if known is None else known[place]
            swings[place] = next_slack_swing(law, last, speed, deflection, acceleration, h, has_stopped, is_outward)
            steered[place] = search_law(law, swings[place], h)
    own = replace(own, steering=np.array([one.numbers for one in swings]))
    state = replace(state, history=state.history.with_block(system.name, own))
    return state, replace(controls, laws=tuple(steered))


def relax(system: System, before: State, after: State, h: float) -> State:
    """Return the state on the way to the equilibrium that a step of h s has found.

    before: state at the start of the step, with the swings of the step.
    """
    swings = known_swings(before.history.block(system.name).steering, len(system.regions))
    if swings is None or all(math.isinf(one.remaining_time) for one in swings):
        return after
    x, v = after.positions.copy(), after.velocities.copy()
    for region, swing in zip(system.regions, swings, strict=True):
        if math.isinf(swing.remaining_time):
            continue
        start = take_rows(before.positions, region.free)
        way = take_rows(x, region.free) - start
        part = relaxed_part(swing, float(np.linalg.norm(way, axis=1).max()), h)
        x[region.free] = start + part * way
        v[region.free] = part * take_rows(v, region.free)
    return replace(after, positions=x, velocities=v)


def _slack_deflections(
    stepper: FactorisedSystem, context: StepContext, controls: Controls, places: Sequence[int]
) -> list[Array | None]:
    """Return the deflections (f, 3) m of regions from their hanging shapes, of each region or None if unknown."""
    system = context.system
    known = [place for place in places if system.regions[place].hanging_shape is not None]
    poses = _undeformed_poses(context, [(system.regions[k], stepper.region_slices[k]) for k in known])
    found: dict[int, Array | None] = dict.fromkeys(places)
    for place, (undeformed, rotation) in zip(known, poses, strict=True):
        region, hanging = system.regions[place], system.regions[place].hanging_shape
        assert hanging is not None
        acceleration = np.atleast_2d(system.acceleration(context.inputs, region.free))[0]
        turn = float(np.linalg.norm(acceleration @ rotation - hanging.acceleration))
        if turn > _ROUNDING * float(np.linalg.norm(hanging.acceleration)) or not np.array_equal(
            hanging.factors, controls.stiffness_per_block(len(system.blocks))
        ):
            continue
        away = take_rows(context.state.positions, region.free) - undeformed
        found[place] = away - hanging.displacements @ rotation.T
    return [found[place] for place in places]


def _uniform_acceleration(
    stepper: FactorisedSystem, state: State, inputs: Inputs, is_slack: bool = False
) -> Array | None:
    """Return the external acceleration (3,) m/s^2 of a system; None if other forces say where it rests.

    is_slack: whether its equilibrium is searched. The drag of still air and a steady load then count as no other force.
    """
    system = stepper.system
    has_other_terms = any(term.scaling is StiffnessScaling.FIXED for block in system.blocks for term in block.terms)
    has_flow = any(state.history.block(block.name).terms for block in system.blocks)
    is_pulled = any(any(one.contraction) or any(one.pressure_change) for one in inputs)
    is_dragged = not is_slack and any(one.drag is not None for one in inputs)
    if has_other_terms or has_flow or is_pulled or is_dragged:
        return None
    accelerations = np.atleast_2d(system.acceleration(inputs, stepper.free))
    if (accelerations == accelerations[0]).all():
        return np.asarray(accelerations[0])
    return inputs[0].steady_load if is_slack else None


@dataclass(frozen=True)
class _SteeredStep:
    """Step of a system under a uniform external acceleration (3,) m/s^2."""

    stepper: FactorisedSystem
    context: StepContext
    controls: Controls
    acceleration: Array

    def next_record(self, place: int, law: WaveformLaw, last: SwingRecord | None) -> SwingRecord:
        """Return the record of a region for the step that begins. last: None at the start of a shot."""
        context, h, a = self.context, self.context.h, self.acceleration
        region = context.system.regions[place]
        factors = self.controls.stiffness_per_block(len(context.system.blocks))
        history = context.system.deformation_history(context.state)
        # The largest swing follows this step's start by the lead.
        fresh = SwingRecord(0.0, law.decay * (h - law.time_to_peak), 1.0, a)
        hanging = region.hanging_shape
        if (hanging is None and a.any()) or (hanging is not None and not np.array_equal(hanging.factors, factors)):
            return replace(fresh, swing=-1.0)
        is_at_rest = history is None and not take_rows(context.state.velocities, region.free).any()
        is_thrown = history is None and not is_at_rest
        if last is None or last.swing < 0.0 or not np.array_equal(last.acceleration, a):
            # Released from the largest swing: at the start of a shot, or where other forces have acted so far.
            last = SwingRecord(0.0, 0.0, 1.0, a)
        if is_thrown:
            return fresh
        if history is not None and (history.elastic_gradient is None or history.force_rate is None):
            return replace(last, phase=last.phase + law.decay * h)
        velocity = reference_velocity(context, region, self.stepper.region_slices[place]).at_undeformed
        jump = float(np.abs(velocity - take_rows(context.state.reference, region.free)).max())
        if jump / law.natural_frequency > _NEW_SWING_FRACTION * last.swing * math.exp(-max(last.phase, 0.0)):
            return fresh
        former, former_pace = self.controls.former_laws[place] if self.controls.former_laws else law, last.pace
        if last.phase > 0.0 and last.swing > 0.0 and has_new_bounce(law, former):
            last = self._with_new_bounce(place, law, former, last, history)
        following, rest_phase = last.phase + law.decay * h, law.decay * law.release_rest_time
        left = rest_phase - last.phase
        is_growing = last.phase < -_ROUNDING
        number, last_number = (math.floor(one / _PHASE_INTERVAL) for one in (last.phase, 2.0 * last.phase - following))
        is_turning = last.pace > 1.0 and last.phase < _turn_phase(law)
        # Without a visible swing, the turn is after rest.
        is_due = not is_growing and left > _LAST_PHASE and (number != last_number or is_turning)
        if last.phase > _PEAK_PHASE and not is_due:
            return replace(last, phase=following)
        pace = last.pace
        y, rotation, error = self._deflection(place, factors)
        swing = max(_largest(y), last.swing)
        # False for a state that is not finite, whose step fails.
        is_known = swing > 0.0 and error <= _MAX_EQUILIBRIUM_ERROR * swing
        if is_growing or not is_known:
            pace = 1.0
        elif is_due:
            former_at_pace = self._at_pace(former, former_pace) if self.controls.former_laws else None
            envelope = self._envelope(
                region, replace(law, decay=law.decay * last.pace), rotation, factors, history, former_at_pace
            )
            pace = float(np.clip(steered_pace(law, swing, last.phase, envelope), *_PACES[law.frequency > 0.0]))
            turn = turning_pace(law, swing, last.phase, envelope)
            pace = max(pace, turn) if turn > 1.0 else pace
        return SwingRecord(swing, following, pace, a)

    @staticmethod
    def _at_pace(law: DeformationLaw, pace: float) -> WaveformLaw | None:
        return replace(law, decay=law.decay * pace) if isinstance(law, WaveformLaw) else None

    def _with_new_bounce(
        self,
        place: int,
        law: WaveformLaw,
        former: DeformationLaw,
        last: SwingRecord,
        history: DeformationHistory | None,
    ) -> SwingRecord:
        """Return a record with the phase at which the law has the region's envelope. former: law of the last step."""
        if history is None or not isinstance(former, WaveformLaw):
            return last
        region = self.context.system.regions[place]
        factors = self.controls.stiffness_per_block(len(self.context.system.blocks))
        rotation = _undeformed_positions(self.context, region, self.stepper.region_slices[place])[1]
        envelope = self._envelope(region, law, rotation, factors, history, self._at_pace(former, last.pace))
        relative = max(envelope / (law.release_envelope * last.swing), _MIN_ENVELOPE)
        return replace(last, phase=max(-math.log(relative), _ROUNDING), pace=1.0)

    def _deflection(self, place: int, factors: Array) -> tuple[Array, Array, float]:
        """Return the deflection (f, 3) m from the equilibrium in the rest frame, the rotation, and an error in m."""
        context, region = self.context, self.context.system.regions[place]
        free = region.free
        undeformed, rotation = _undeformed_positions(context, region, self.stepper.region_slices[place])
        y, hanging = (take_rows(context.state.positions, free) - undeformed) @ rotation, region.hanging_shape
        if hanging is None:
            return y, rotation, 0.0
        # The equilibrium is extrapolated linearly if the pins turn or the weight changes.
        difference = self.acceleration @ rotation - hanging.acceleration
        moved = np.zeros_like(y)
        if np.linalg.norm(difference) > _ROUNDING * np.linalg.norm(hanging.acceleration):
            moved = self._compliance(region, context.system.mass[free][:, None] * difference, factors)
        size = float(np.ptp(take_rows(context.system.rest, free), axis=0).max())
        # A single free node has no size, so its error is unknown.
        error = float((moved**2).sum(axis=1).max()) / size if size > 0.0 else math.inf
        return y - hanging.displacements - moved, rotation, error

    def _compliance(self, region: Region, force: Array, factors: Array) -> Array:
        """Return the displacements (f, 3) m under forces (f, 3) N on a region, both in the rest frame."""
        slots = self.stepper.free_index[region.free]
        load = np.zeros((len(self.stepper.free), 3))
        load[slots] = force
        return np.asarray(self.stepper.hanging_compliance(factors)(load.ravel()).reshape(-1, 3)[slots])

    def _envelope(
        self,
        region: Region,
        law: WaveformLaw,
        rotation: Array,
        factors: Array,
        history: DeformationHistory | None,
        former: WaveformLaw | None = None,
    ) -> float:
        """Return the envelope E in m of the deflection late in the swing.

        law: of the last step, or with new dials.  former: of the last step if the dials are new.
        """
        context, free = self.context, region.free
        system, h = context.system, context.h
        scale = factors[system.node_blocks()[free]][:, None]
        weight = system.mass[free][:, None] * self.acceleration
        if history is None:
            forces = step_start_forces(
                system, context.state, context.inputs, factors, h, ThetaWeights(1.0, 0.0)
            ).elastic_gradient
            assert forces is not None
            force = (scale * forces[free] - weight) @ rotation
            return law.release_envelope * _largest(self._compliance(region, force, factors))
        assert history.elastic_gradient is not None
        assert history.force_rate is not None
        c = self._compliance(region, (scale * history.elastic_gradient[free] - weight) @ rotation, factors)
        # The rate is the mean of the last step.
        last_step = h if former is None else self.controls.former_step or h
        change = last_step * self._compliance(region, scale * history.force_rate[free] @ rotation, factors)
        if former is not None:
            ratio, part = history_change(law, former, h, last_step)
            change = ratio * change + part * c
        return law_envelope(law, c, change, h)


def _largest(vectors: Array) -> float:
    """Return the largest length of vectors (k, 3)."""
    return float(np.linalg.norm(vectors, axis=1).max())


def _turn_phase(law: WaveformLaw) -> float:
    """Return the phase from the largest swing to the next one; 0 without overshoot."""
    return math.pi * law.decay / law.frequency if law.frequency > 0.0 else 0.0


def turning_pace(law: WaveformLaw, swing: float, phase: float, envelope: float) -> float:
    """Return the pace a'/a at which the next swing has the dialled size; 1 if it will not be much larger.

    The arguments are those of steered_pace().
    """
    turn, excess = _turn_phase(law), math.log(max(envelope / (law.release_envelope * swing), _MIN_ENVELOPE)) + phase
    if phase >= turn or excess < _MIN_EXCESS:
        return 1.0
    return min(1.0 + excess / max(turn - phase, _MIN_TURN_FRACTION * turn), _MAX_TURNING_PACE)


def steered_pace(law: WaveformLaw, swing: float, phase: float, envelope: float) -> float:
    """Return the pace a'/a at which a swing rests on time. swing, phase, envelope: Y in m, phi, E in m."""
    rest_phase = law.decay * law.release_rest_time
    logarithm = math.log(max(envelope / (law.release_envelope * swing), _MIN_ENVELOPE))
    return (rest_phase + logarithm) / (rest_phase - phase)


def law_envelope(law: WaveformLaw, c: Array, change: Array, h: float) -> float:
    """Return the largest envelope of vectors (f, 3) that follow a law. change: of the vectors in the last step of h s.

    The envelope of the law after a release from 1 is WaveformLaw.release_envelope at the start.
    """
    z = math.exp(-law.decay * h)
    if law.frequency == 0.0:
        # c = A z^k + B z^2k, whose slow part is A = (c_k - z^2 c_{k-1})/(1 - z).
        second = z**SECOND_ROOT_RATIO
        slow = ((1.0 - second) * c + second * change) / (1.0 - second / z)
        return _largest(slow) / SECOND_ROOT_RATIO
    # c_k = Re A and c_{k-1} = Re(A/z e^{-iwh}).
    cosine, sine = math.cos(law.frequency * h), math.sin(law.frequency * h)
    imaginary = (z * (c - change) - cosine * c) / sine
    # The largest value of |Re(A e^{i phi})|.
    real_square, imaginary_square = (c**2).sum(axis=1), (imaginary**2).sum(axis=1)
    squares, half = 0.5 * (real_square + imaginary_square), 0.5 * (real_square - imaginary_square)
    product = (c * imaginary).sum(axis=1)
    return float(np.sqrt((squares + np.hypot(half, product)).max()))


def _undeformed_positions(context: StepContext, region: Region, slices: Sequence[RegionSlice]) -> tuple[Array, Array]:
    """Return the undeformed positions (f, 3) m of a region at the start of a step, and its rotation since rest."""
    return _undeformed_poses(context, [(region, slices)])[0]


def _undeformed_poses(
    context: StepContext, regions: Sequence[tuple[Region, Sequence[RegionSlice]]]
) -> list[tuple[Array, Array]]:
    """Return _undeformed_positions() of many regions. The rigid motions of their pins are fitted at once."""
    pins = [
        (
            take_rows(context.system.rest, region.constrained_nodes),
            take_rows(context.pin_start, context.pin_indices(region.constrained_nodes)),
        )
        for region, _ in regions
    ]
    found = []
    for (region, slices), (rotation, translation) in zip(regions, fit_rigid_motions(pins), strict=True):
        rest = take_rows(context.system.rest, region.free)
        undeformed = rest @ rotation.T + translation
        references = [context.inputs[part.block_index].reference for part in slices]
        for part, reference in zip(slices, references, strict=True):
            positions = None if reference is None else reference.undeformed_positions(part.nodes)
            if positions is not None:
                undeformed[part.rows] = positions
        if any(reference is not None for reference in references):
            found.append((undeformed, fit_rigid_motion(rest, undeformed)[0]))
        else:
            found.append((undeformed, rotation))
    return found
