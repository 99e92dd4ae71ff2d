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
from ..settle.keyed_curve import CURVE_PHASES, SwingMotion, phase_to_rest, tempo_on_time
from ..settle.law import DeformationLaw
from ..settle.waveform import SECOND_ROOT_RATIO, WaveformLaw
from ..system.inputs import Inputs
from ..system.region import Region
from ..system.state import DeformationHistory, State
from ..system.system import System
from ..system.term import StiffnessScaling
from .factorised_system import FactorisedSystem
from .reference_motion import RegionSlice, StepContext, reference_velocities, reference_velocity
from .slack_steering import (
    UNKNOWN_SWING,
    SlackSwing,
    can_follow_curve,
    can_steer_slack,
    has_search,
    known_swings,
    next_slack_swing,
    relaxed_part,
    search_law,
)
from .step_potential import ThetaWeights, step_start_forces
from .swing_record import SwingRecord, will_buckle

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


def steer(
    stepper: FactorisedSystem, state: State, inputs: Inputs, h: float, controls: Controls
) -> tuple[State, Controls]:
    """Return the state with the records of its swings, and the controls of a step at the regions' paces."""
    system, laws = stepper.system, controls.laws
    if controls.is_static or controls.yarns:
        return state, controls
    can_follow = can_steer_slack if stepper.is_pinned_solid else _can_follow
    if any(can_follow(region, law) for region, law in zip(system.regions, laws, strict=True)):
        return _steer_slack(stepper, state, inputs, h, controls)
    if not stepper.is_pinned_solid or not any(isinstance(law, WaveformLaw) for law in laws):
        return state, controls
    own = state.history.block(system.name)
    known = None
    if own.steering is not None and own.steering.shape == (len(laws), 9):
        known = [SwingRecord.read(row) for row in own.steering]
    acceleration = _known_acceleration(stepper, state, inputs)
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
    last_records = [unsteered] * len(laws) if known is None else known
    if all(one.pace == one.tempo == 1.0 and one.has_bounce for one in (*records, *last_records)):
        return state, controls
    steered, former = (
        tuple(one.law(law) for one, law in zip(own_records, some, strict=True))
        for own_records, some in ((records, laws), (last_records, controls.former_laws or laws))
    )
    has_new_law = any(
        (one.tempo, one.has_bounce) != (last.tempo, last.has_bounce)
        for one, last in zip(records, last_records, strict=True)
    )
    if controls.former_laws or has_new_law:
        return state, replace(controls, laws=steered, former_laws=former)
    # The motion goes on at another pace, as after a change of the dials. With overshoot only the decay changes.
    ratios = tuple(
        one.pace / last.pace if isinstance(law, WaveformLaw) and law.frequency == 0.0 else 1.0
        for law, one, last in zip(steered, records, last_records, strict=True)
    )
    return state, replace(controls, laws=steered, velocity_ratios=ratios)


def _can_follow(region: Region, law: DeformationLaw) -> bool:
    return can_steer_slack(region, law) or can_follow_curve(region, law)


def _steer_slack(
    stepper: FactorisedSystem, state: State, inputs: Inputs, h: float, controls: Controls
) -> tuple[State, Controls]:
    """Return the state with the swings of regions that their weight holds, and the controls of the step."""
    system, laws = stepper.system, controls.laws
    own = state.history.block(system.name)
    known, swings, steered = known_swings(own.steering, len(laws)), [UNKNOWN_SWING] * len(laws), list(laws)
    acceleration = _known_acceleration(stepper, state, inputs, is_slack=True)
    if acceleration is not None:
        context, touched = StepContext.create(system, state, inputs, h), system.touched_regions(state)
        places = [
            place
            for place, (region, law) in enumerate(zip(system.regions, laws, strict=True))
            if place not in touched and _can_follow(region, law)
        ]
        motions = reference_velocities(
            context, [system.regions[place] for place in places], [stepper.region_slices[place] for place in places]
        )
        places = [place for place, one in zip(places, motions, strict=True) if not one.at_undeformed.any()]
        searched = [place for place in places if isinstance(laws[place], FirstModeLaw)]
        deflections = dict(zip(searched, _slack_deflections(stepper, context, controls, searched), strict=True))
        for place in places:
            region, law, away = system.regions[place], laws[place], deflections.get(place)
            assert isinstance(law, FirstModeLaw | WaveformLaw)
            speed = _largest(take_rows(state.velocities, region.free))
            has_stopped = bool(take_rows(state.reference, region.free).any())
            deflection = math.inf if away is None else _largest(away)
            is_outward = away is not None and float((away * take_rows(state.velocities, region.free)).sum()) > 0.0
            last = None if known is None else known[place]
            former = controls.former_laws[place] if controls.former_laws else None
            motion = None if away is None else _swing_motion(stepper, context, region, away, controls.former_step or h)
            swings[place] = next_slack_swing(
                law, last, speed, deflection, acceleration, h, has_stopped, is_outward, former, motion
            )
            steered[place] = search_law(law, swings[place], h)
    own = replace(own, steering=SlackSwing.numbers(swings))
    state = replace(state, history=state.history.with_block(system.name, own))
    last_swings = [UNKNOWN_SWING] * len(laws) if known is None else known
    former_laws = controls.former_laws
    if former_laws or any(one.tempo != last.tempo for one, last in zip(swings, last_swings, strict=True)):
        former_laws = tuple(last.law(law) for last, law in zip(last_swings, former_laws or laws, strict=True))
    return state, replace(controls, laws=tuple(steered), former_laws=former_laws)


def relax(system: System, before: State, after: State, h: float) -> State:
    """Return the state on the way to the equilibrium that a step of h s has found.

    before: state at the start of the step, with the swings of the step.
    """
    numbers = before.history.block(system.name).steering
    swings = known_swings(numbers, len(system.regions)) if has_search(numbers) else None
    if swings is None:
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


def _swing_motion(
    stepper: FactorisedSystem, context: StepContext, region: Region, away: Array, last_step: float
) -> SwingMotion:
    """Return the motion of a region. away: (f, 3) m from the hanging shape.  last_step: its duration, s."""
    mass, velocities = stepper.system.mass[region.free], take_rows(context.state.velocities, region.free)
    return SwingMotion(away, last_step * velocities, mass / mass.sum(), last_step)


def _slack_deflections(
    stepper: FactorisedSystem, context: StepContext, controls: Controls, places: Sequence[int]
) -> list[Array | None]:
    """Return the deflections (f, 3) m of regions from their hanging shapes, of each region or None if unknown."""
    system = context.system
    known = [place for place in places if system.regions[place].hanging_shape is not None]
    poses = _undeformed_poses(context, [(system.regions[k], stepper.region_slices[k]) for k in known])
    found: dict[int, Array | None] = dict.fromkeys(places)
    factors = controls.stiffness_per_block(len(system.blocks))
    for place, (undeformed, rotation) in zip(known, poses, strict=True):
        region, hanging = system.regions[place], system.regions[place].hanging_shape
        assert hanging is not None
        change = hanging.acceleration_change(_acceleration_of(system, context.inputs, region), rotation)
        is_turned = float(np.linalg.norm(change)) > _ROUNDING * float(np.linalg.norm(hanging.acceleration))
        if is_turned or not np.array_equal(hanging.factors, factors):
            continue
        away = take_rows(context.state.positions, region.free) - undeformed
        found[place] = away - hanging.displacements @ rotation.T
    return [found[place] for place in places]


def _acceleration_of(system: System, inputs: Inputs, region: Region) -> Array:
    """Return the external acceleration of the free nodes of a region, m/s^2: (3,) if it is uniform, else (f, 3)."""
    accelerations = np.atleast_2d(system.acceleration(inputs, region.free))
    return np.asarray(accelerations[0] if (accelerations == accelerations[0]).all() else accelerations)


def _known_acceleration(
    stepper: FactorisedSystem, state: State, inputs: Inputs, is_slack: bool = False
) -> Array | None:
    """Return the mean external acceleration (3,) m/s^2 of a system; None if other forces say where it rests.

    is_slack: whether its equilibrium is searched. The drag of still air then counts as no other force.
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
    return inputs[0].steady_load


@dataclass(frozen=True)
class _SteeredStep:
    """Step of a system under a known external acceleration, whose mean is (3,) m/s^2."""

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
        fresh = SwingRecord(0.0, law.decay * (h - law.time_to_peak), 1.0, a, progress=h / law.settle_time)
        hanging = region.hanging_shape
        has_load = a.any() or context.inputs[0].steady_load is not None
        if (hanging is None and has_load) or (hanging is not None and not np.array_equal(hanging.factors, factors)):
            return replace(fresh, swing=-1.0)
        is_at_rest = history is None and not take_rows(context.state.velocities, region.free).any()
        is_thrown = history is None and not is_at_rest and last is None
        if last is None or last.swing < 0.0 or history is None:
            # Released from the largest swing: at the start of a shot, where other forces have acted so far, or after a
            # hard step, which leaves no velocity of the deformation.
            last = SwingRecord(0.0, 0.0, 1.0, a, progress=law.time_to_peak / law.settle_time)
        elif not np.array_equal(last.acceleration, a):
            last = self._under_new_load(place, last.curve(law), last)
        if is_thrown:
            return fresh
        if history is not None and (history.elastic_gradient is None or history.force_rate is None):
            return last.after(law, h)
        velocity = reference_velocity(context, region, self.stepper.region_slices[place]).at_undeformed
        jump = float(np.abs(velocity - take_rows(context.state.reference, region.free)).max())
        # While a motion slows down, each step begins a new swing, until the motion ends.
        has_just_begun = last.phase < law.decay * (1.5 * h - law.time_to_peak)
        least = 0.0 if has_just_begun else _NEW_SWING_FRACTION * last.swing * math.exp(-max(last.phase, 0.0))
        if jump / law.natural_frequency > least:
            # The rest of the former swing may be larger than the new one.
            y, _, error = self._deflection(place, factors)
            former_swing = _largest(y)
            return replace(fresh, swing=former_swing if error <= _MAX_EQUILIBRIUM_ERROR * former_swing else 0.0)
        if not last.has_bounce and last.phase >= last.curve(law).rest_phase:
            last = replace(last, has_bounce=True, tempo=1.0)
        law = last.curve(law)
        dialled = self.controls.former_laws[place] if self.controls.former_laws else None
        former = None if dialled is None else last.law(dialled)
        is_new = isinstance(dialled, WaveformLaw) and has_new_bounce(law, last.curve(dialled))
        if former is not None and last.swing > 0.0 and is_new:
            last = self._with_new_bounce(place, law, former, last, history)
        following, rest_phase = last.after(law, h), law.decay * law.release_rest_time
        left = rest_phase - last.phase
        is_growing = last.phase < -_ROUNDING
        number, last_number = (
            math.floor(one / _PHASE_INTERVAL) for one in (last.phase, 2.0 * last.phase - following.phase)
        )
        is_turning = last.pace > 1.0 and last.phase < _turn_phase(law)
        # Without a visible swing, the turn is after rest.
        is_due = not is_growing and left > _LAST_PHASE and (number != last_number or is_turning)
        if last.phase > _PEAK_PHASE and not is_due:
            return following
        pace = last.pace
        y, rotation, error = self._deflection(place, factors)
        swing = max(_largest(y), last.swing)
        # False for a state that is not finite, whose step fails.
        is_known = swing > 0.0 and error <= _MAX_EQUILIBRIUM_ERROR * swing
        if is_growing or not is_known:
            pace = 1.0
        elif is_due:
            is_largest = last_number < 0 <= number
            if is_largest and law.frequency > 0.0 and will_buckle(self.stepper, region, y, factors, law.overshoot):
                return self._without_bounce(place, law, replace(last, swing=swing, has_bounce=False), history)
            envelope = self._envelope(region, last.paced(law), rotation, factors, history, former)
            pace = float(np.clip(steered_pace(law, swing, last.phase, envelope), *_PACES[law.frequency > 0.0]))
            turn = turning_pace(law, swing, last.phase, envelope)
            pace = max(pace, turn) if turn > 1.0 else pace
        return replace(following, swing=swing, pace=pace)

    def _without_bounce(
        self, place: int, law: WaveformLaw, last: SwingRecord, history: DeformationHistory | None
    ) -> SwingRecord:
        """Return the record of a region that goes on from its largest swing without bounce, so that it rests on time.

        law: of the last step.
        """
        curve = last.curve(law)
        if history is None:
            time_left = (1.0 - last.progress) * curve.settle_time
            last = replace(last, pace=1.0, tempo=tempo_on_time(curve, curve.rest_phase, time_left))
        return self._with_new_bounce(place, curve, last.paced(law), last, history).after(curve, self.context.h)

    def _with_new_bounce(
        self,
        place: int,
        law: WaveformLaw,
        former: DeformationLaw,
        last: SwingRecord,
        history: DeformationHistory | None,
    ) -> SwingRecord:
        """Return a record with the phase of the law's curve and the tempo at which it rests on time.

        former: law of the last step.
        """
        if history is None or not isinstance(former, WaveformLaw):
            return last
        region = self.context.system.regions[place]
        factors = self.controls.stiffness_per_block(len(self.context.system.blocks))
        rotation = _undeformed_positions(self.context, region, self.stepper.region_slices[place])[1]
        c, change = self._late_deflection(region, law, rotation, factors, history, former)
        phase, rest_phase = phases_of_curve(law, c, change, self.context.h, last.swing)
        tempo = tempo_on_time(law, rest_phase, (1.0 - last.progress) * law.settle_time)
        return replace(last, phase=phase, pace=1.0, tempo=tempo)

    def _under_new_load(self, place: int, law: WaveformLaw, last: SwingRecord) -> SwingRecord:
        """Return the record of a region after its load has changed: its motion is part of a swing around the new shape.

        law: of the curve.  last: record of the last step.
        """
        context, free, h = self.context, self.context.system.regions[place].free, self.context.h
        y, rotation, _ = self._deflection(place, self.controls.stiffness_per_block(len(context.system.blocks)))
        velocity = (take_rows(context.state.velocities, free) - take_rows(context.state.reference, free)) @ rotation
        progress = law.time_to_peak / law.settle_time
        released = SwingRecord(0.0, 0.0, 1.0, self.acceleration, progress=progress, has_bounce=last.has_bounce)
        if not velocity.any() or not y.any():
            return released
        envelope = law_envelope(replace(law, decay=law.decay * last.pace), y, h * velocity, h) / law.release_envelope
        swing = max(_largest(y), envelope)
        phase = -math.log(max(envelope / swing, _MIN_ENVELOPE)) if math.isfinite(swing) else 0.0
        progress = (law.time_to_peak + phase / law.decay) / law.settle_time
        return replace(released, swing=swing, phase=phase, progress=progress)

    def _deflection(self, place: int, factors: Array) -> tuple[Array, Array, float]:
        """Return the deflection (f, 3) m from the equilibrium in the rest frame, the rotation, and an error in m."""
        context, region = self.context, self.context.system.regions[place]
        free = region.free
        undeformed, rotation = _undeformed_positions(context, region, self.stepper.region_slices[place])
        y, hanging = (take_rows(context.state.positions, free) - undeformed) @ rotation, region.hanging_shape
        if hanging is None:
            return y, rotation, 0.0
        # The equilibrium is extrapolated linearly if the pins turn or the weight changes.
        acceleration = _acceleration_of(context.system, context.inputs, region)
        difference = hanging.acceleration_change(acceleration, rotation)
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
        former: DeformationLaw | None,
    ) -> float:
        """Return the envelope E in m of the deflection late in the swing, see _late_deflection()."""
        if history is not None:
            return law_envelope(
                law, *self._late_deflection(region, law, rotation, factors, history, former), self.context.h
            )
        context, system = self.context, self.context.system
        forces = step_start_forces(
            system, context.state, context.inputs, factors, context.h, ThetaWeights(1.0, 0.0)
        ).elastic_gradient
        assert forces is not None
        force = self._unbalanced_force(region, forces, rotation, factors)
        return law.release_envelope * _largest(self._compliance(region, force, factors))

    def _unbalanced_force(self, region: Region, elastic: Array, rotation: Array, factors: Array) -> Array:
        """Return the elastic force beyond the load (f, 3) N in the rest frame. elastic: (n, 3) N at a factor of 1."""
        system, free = self.context.system, region.free
        scale, acceleration = (
            factors[system.node_blocks()[free]][:, None],
            _acceleration_of(system, self.context.inputs, region),
        )
        return np.asarray((scale * elastic[free] - system.mass[free][:, None] * acceleration) @ rotation)

    def _late_deflection(
        self,
        region: Region,
        law: WaveformLaw,
        rotation: Array,
        factors: Array,
        history: DeformationHistory,
        former: DeformationLaw | None,
    ) -> tuple[Array, Array]:
        """Return the deflection (f, 3) m late in the swing, and its change in the last step.

        law: of the last step, or with new dials.  former: of the last step if the dials are new; the change is then
        that of the new law.
        """
        context, free = self.context, region.free
        system, h = context.system, context.h
        assert history.elastic_gradient is not None
        assert history.force_rate is not None
        scale = factors[system.node_blocks()[free]][:, None]
        force = self._unbalanced_force(region, history.elastic_gradient, rotation, factors)
        c = self._compliance(region, force, factors)
        # The rate is the mean of the last step.
        last_step = h if former is None else self.controls.former_step or h
        change = last_step * self._compliance(region, scale * history.force_rate[free] @ rotation, factors)
        if former is not None:
            ratio, part = history_change(law, former, h, last_step)
            change = ratio * change + part * c
        return c, change


def _largest(vectors: Array) -> float:
    """Return the largest length of vectors (k, 3)."""
    return math.sqrt((vectors * vectors).sum(axis=1).max())


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
    return float(_envelopes(law, *_amplitudes(law, c, change, h)).max())


def _amplitudes(law: WaveformLaw, c: Array, change: Array, h: float) -> tuple[Array, Array]:
    """Return p and q (f, 3) of e^{-at} (p cos wt - q sin wt), or of p e^{-at} + q e^{-2at}, for vectors c at t = 0."""
    z = math.exp(-law.decay * h)
    if law.frequency == 0.0:
        # c = A z^k + B z^2k, whose slow part is A = (c_k - z^2 c_{k-1})/(1 - z).
        second = z**SECOND_ROOT_RATIO
        slow = ((1.0 - second) * c + second * change) / (1.0 - second / z)
        return slow, c - slow
    # c_k = Re A and c_{k-1} = Re(A/z e^{-iwh}).
    cosine, sine = math.cos(law.frequency * h), math.sin(law.frequency * h)
    return c, (z * (c - change) - cosine * c) / sine


def _envelopes(law: WaveformLaw, p: Array, q: Array) -> Array:
    """Return the envelopes (f,) of vectors with amplitudes (f, 3)."""
    if law.frequency == 0.0:
        return np.asarray(np.linalg.norm(p, axis=1) / SECOND_ROOT_RATIO)
    # The largest value of |Re(A e^{i phi})|.
    real_square, imaginary_square = (p**2).sum(axis=1), (q**2).sum(axis=1)
    squares, half = 0.5 * (real_square + imaginary_square), 0.5 * (real_square - imaginary_square)
    return np.asarray(np.sqrt(squares + np.hypot(half, (p * q).sum(axis=1))))


def phases_of_curve(law: WaveformLaw, c: Array, change: Array, h: float, swing: float) -> tuple[float, float]:
    """Return the phase since the largest swing of vectors (f, 3) that follow a law, and the phase that is left to rest.

    change: of the vectors in the last step of h s.  swing: largest one so far, m. Before the largest swing, the phase
    is negative.
    """
    p, q = _amplitudes(law, c, change, h)
    envelopes = _envelopes(law, p, q)
    place, phases = int(envelopes.argmax()), CURVE_PHASES[:, None]
    if law.frequency == 0.0:
        path = p[place] * np.exp(-phases) + q[place] * np.exp(-SECOND_ROOT_RATIO * phases)
    else:
        turns = law.frequency / law.decay * phases
        path = np.exp(-phases) * (p[place] * np.cos(turns) - q[place] * np.sin(turns))
    distances = np.linalg.norm(path, axis=1)
    peak = int(distances.argmax())
    rest = phase_to_rest(distances, swing)
    if peak > 0 and distances[peak] > swing:
        return -float(phases[peak, 0]), rest
    relative = max(float(envelopes[place]) / (law.release_envelope * swing), _MIN_ENVELOPE)
    return max(-math.log(relative), _ROUNDING), rest


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
