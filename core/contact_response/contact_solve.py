"""Step with contacts: detect contacts, minimise with them, and repeat until the contact set has converged."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property

import numpy as np

from ..base.arrays import Array, Mask, take_rows
from ..contact.collision_detection import CollisionDetection
from ..contact.collision_state import CollisionState
from ..contact.contact_history import ContactHistory, Impact, SupportModes
from ..contact.contact_hysteresis import keep_alternating_contacts, keep_corner_contacts, keep_thread_contacts
from ..contact.intersections import exactly_checked_pairs
from ..contact.penalty_and_friction import ContactPotential, ContactSet, PenaltyScaling
from ..objective.plastic_update import has_plastic_flow
from ..objective.sleep import contact_dial_values
from ..objective.step_objective import StepObjective
from ..settle.controls import Controls
from ..settle.step_report import GuardCounts, Verdict
from ..settle.support_modes import (
    ContactEnvironment,
    Support,
    compute_support_modes,
    has_support_changed,
    law_overshoot,
    modal_damping,
)
from ..settle.work_meter import Minimise, WorkMeter
from ..solvers.objective import Minimum, Outcome, Tolerance
from ..system.inputs import Inputs
from ..system.state import State, SystemContacts
from ..system.system import System
from .contact_guards import ContactGuards, penetration_increase
from .impacts import (
    contact_resultants,
    is_separating,
    is_translating_support,
    previous_rebound_speed,
    released_regions,
    resting_regions,
    support_velocity,
    update_impacts,
)
from .rigid_part import centre_of_mass_velocity, conserve_momentum, floating_clusters
from .step_truncation import truncate_to_intersection_free


def warm_start_normal_forces(contacts: ContactSet, new_contacts: ContactSet, x: Array) -> Array:
    """Return warm-start normal forces for new contacts, (k,) N.

    Known contacts keep the normal force of the last minimisation. New ones get the force at their current gap.
    """
    current_force = ContactPotential(new_contacts, np.zeros(len(new_contacts))).forces_at(x).force
    last_force = ContactPotential(contacts, np.zeros(len(contacts))).forces_at(x).force
    history = ContactHistory.of(contacts.key, contacts.stick_anchor, last_force, contacts.distance)
    matched_force = history.forces_of(new_contacts.key)
    return np.where(matched_force > 0.0, matched_force, current_force)


# Contacts are detected again after displacements above this fraction of the contact distance. Without contacts, points
# of sheets and threads may move farther: features that were not found are twice the contact distance away.
_REDETECTION_FRACTION, _FREE_REDETECTION_FRACTION = 0.02, 0.5
# Successive minimisations that must be rejected before the refinement of contacts ends: new contacts may help a first
# one.
_MAX_REJECTIONS = 2
# Speed limit of a region at rest, relative to the speed that gravity adds in one step.
_REST_SPEED_RATIO = 3.0
# Friction above this fraction of the Coulomb limit counts as close to sliding.
_NEAR_LIMIT_FRACTION = 0.7


@dataclass(frozen=True)
class ContactSolve:
    """Contact solve of one step of h seconds.

    guards: judge the contacts and the motion.  counts: how often each fired, increased by this solve.
    meter: counts the work of detections and exact tests.
    is_thorough: see CollisionDetection.  shared_detection: of another solve of the same step, which is as thorough.
    """

    system: System
    state: State
    inputs: Inputs
    h: float
    controls: Controls
    guards: ContactGuards = field(default_factory=ContactGuards)
    counts: GuardCounts = field(default_factory=Counter)
    meter: WorkMeter = field(default_factory=WorkMeter)
    is_thorough: bool = False
    shared_detection: CollisionDetection | None = None

    @cached_property
    def detection(self) -> CollisionDetection:
        """Detection of the contacts in the step."""
        if self.shared_detection is not None:
            return self.shared_detection
        assert self.system.contact is not None
        factors = self.controls.stiffness_per_block(len(self.system.blocks))
        collision_state = CollisionState.of(
            self.system.contact, self.state.positions, [one.contact for one in self.inputs], factors, self.h
        )
        return CollisionDetection(collision_state, self.contact_history, self.is_thorough)

    @cached_property
    def _last(self) -> SystemContacts | None:
        return self.system.last_contacts(self.state)

    @cached_property
    def contact_history(self) -> ContactHistory | None:
        """Contacts at the end of the last step; None at the start of a shot."""
        return None if self._last is None else self._last.contacts.merged_by_point()

    @cached_property
    def _impacts(self) -> Mapping[tuple[int, int], Impact]:
        """Impacts in progress, by pair of region indices."""
        return {} if self._last is None else {(one.region, one.other): one for one in self._last.impacts}

    def _last_support_modes(self, place: int) -> SupportModes | None:
        """Return the damped rigid modes of a region; None where it has no support."""
        return None if self._last is None else self._last.support_modes[place]

    @property
    def _gravity_step_speed(self) -> float:
        """Largest change of a node's speed by external accelerations in one step, m/s."""
        return self.h * float(
            np.linalg.norm(self.system.acceleration(self.inputs, np.arange(len(self.system.rest))), axis=-1).max()
        )

    def needs_redetection(self, contacts: ContactSet, displacement: Array) -> bool:
        """Return whether nodes moved so far since the detection of contacts that it has to be repeated.

        displacement: (n, 3) m.
        """
        collision_state = self.detection.state
        distance = float(
            collision_state.contact_distance[[not one.is_collider for one in collision_state.model.surfaces]].min()
        )
        largest = float(np.abs(self.detection.model.operator @ displacement).max())
        if not largest > _REDETECTION_FRACTION * distance:
            return False
        if not self._can_fold or largest > _FREE_REDETECTION_FRACTION * distance:
            return True
        touching = take_rows(displacement, contacts.weights.indices)
        return bool(np.abs(touching).max(initial=0.0) > _REDETECTION_FRACTION * distance)

    @property
    def _can_fold(self) -> bool:
        """True if a block is a sheet or a thread."""
        return bool(self.detection.model.threads) or any(block.is_sheet for block in self.system.blocks)

    @property
    def _predicted_positions(self) -> Array:
        """Positions at the end of the step if all velocities stay constant, (n, 3) m."""
        return self.system.with_pins(self.state.positions + self.h * self.state.velocities, self.inputs)

    def predicted_penetration(self, blocks: Collection[int]) -> float:
        """Return how much deeper the given blocks would penetrate in the step without contact forces, m."""
        if self.contact_history is None:
            return 0.0
        x = self._predicted_positions
        contacts, model = self.detection(x), self.detection.state.model
        is_own = np.array([not one.is_collider and one.block in blocks for one in model.surfaces], dtype=bool)
        contacts = contacts.select(is_own[contacts.key[:, [0, 3]]].any(axis=1))
        return float(penetration_increase(contacts, x, self.contact_history).max(initial=0.0))

    def solve(
        self,
        make_problem: Callable[[ContactEnvironment | None], StepObjective],
        minimise: Minimise,
        guess: Array | None,
        tolerance: float,
        is_rejected: Callable[[Array], bool] | None = None,
    ) -> tuple[StepObjective, Minimum]:
        """Minimise with contacts until the contact set has converged, and return the problem and its minimum.

        make_problem: function that creates the problem for a contact environment.
        guess: initial velocities (f, 3) m/s, or None.
        is_rejected: returns whether velocities (f, 3) m/s will be rejected, so that refining their contacts is wasted.
        """
        # Detect at the end of a step with the previous velocities. The law's predicted velocity, which ignores contact
        # forces, could tunnel through a support.
        x, history = self._predicted_positions, self.contact_history or ContactHistory()
        contacts = self.detection(x)
        self.meter.charge_detection()
        normal_force = history.forces_of(contacts.key)
        initially_touched = self._touched_regions(
            contacts, (ContactPotential(contacts, normal_force).forces_at(x).force > 0.0) | (normal_force > 0.0)
        )
        environment = ContactEnvironment(
            initially_touched, self._resting_supports(contacts, normal_force), self._separating_regions()
        )
        problem = make_problem(environment)
        v = (
            problem.initial_guess(guess)
            if guess is not None
            else problem.best_start(contacts, normal_force, problem.start, problem.previous_velocities)
        )
        refinement = _Refinement(self, contacts, x, contacts)
        iterations = evaluations = rejections = 0
        first_error: float | None = None
        while True:
            problem.set_contacts(refinement.contacts, normal_force, v)
            noise = problem.noise + (
                problem.contacts.rounding_error(problem.positions(v), self.h) if problem.contacts else 0.0
            )
            # Later searches start near the minimum, where a tolerance relative to their first error is too strict.
            stop_threshold = (
                noise if first_error is None else max(noise, tolerance * min(first_error, problem.motion_norm(v)))
            )
            minimum = minimise(problem, v, Tolerance(tolerance, stop_threshold))
            first_error = minimum.first_error if first_error is None else first_error
            iterations += minimum.iterations
            evaluations += minimum.evaluations
            if minimum.outcome is not Outcome.CONVERGED:
                break
            v = minimum.velocities
            x = problem.positions(v)
            before, verdict = refinement.contacts, refinement.judge(x)
            if verdict is Verdict.BISECT:
                minimum = replace(minimum, outcome=Outcome.CONTACT_SET)
            if verdict is not Verdict.REFINE_CONTACTS:
                break
            rejections = rejections + 1 if is_rejected is not None and is_rejected(v) else 0
            if rejections == _MAX_REJECTIONS:
                # Its contacts have not converged, so it is not accepted in any case.
                minimum = replace(minimum, outcome=Outcome.CONTACT_SET)
                break
            normal_force = warm_start_normal_forces(before, refinement.contacts, x)
            touched_regions = environment.touched_regions | self._touched_regions(
                refinement.contacts, ContactPotential(refinement.contacts, normal_force).forces_at(x).force > 0.0
            )
            if touched_regions != environment.touched_regions:
                environment = replace(environment, touched_regions=touched_regions)
                # Only waveform laws depend on the environment.
                if any(law.is_waveform for law in self.controls.laws):
                    problem = make_problem(environment)
        if minimum.outcome is Outcome.CONVERGED and self._has_intersected(refinement.detected, x, iterations):
            minimum = replace(minimum, outcome=Outcome.CONTACT_SET)
        if problem.contacts is not None:
            groups = floating_clusters(
                self.system, problem.contacts, x, environment.touched_regions - {*environment.supports}
            )
            minimum = replace(
                minimum, velocities=conserve_momentum(self.system, problem, minimum.velocities, self.h, groups)
            )
        return problem, replace(minimum, iterations=iterations, evaluations=evaluations)

    def _has_intersected(self, contacts: ContactSet, x: Array, iterations: int) -> bool:
        """Return whether the guard against new intersections fires at x (n, 3) m."""
        # Bisected steps would make plastic dents depend on the frame rate.
        plastic_blocks = {
            k for k, block in enumerate(self.system.blocks) if has_plastic_flow(block, self.state.history)
        }
        guard = self.guards.new_intersections
        self._charge_search(contacts)
        has_intersected = guard.has_intersected(self.detection.state, contacts, x, iterations, plastic_blocks)
        return guard.fires(has_intersected, self.counts)

    def _charge_search(self, contacts: ContactSet) -> None:
        """Count a search for intersections, in which only pairs with contacts take long."""
        if self.meter.costs.searched_pair > 0.0:
            near = {*map(tuple, contacts.key[:, [0, 3]].tolist())}
            self.meter.charge_search(len(near.intersection(exactly_checked_pairs(self.detection.state))))

    def _touched_regions(self, contacts: ContactSet, is_pressed: Mask) -> frozenset[int]:
        """Return the indices of regions with nodes in the contacts of a mask (k,)."""
        is_touched = self._touched_nodes(contacts, is_pressed)
        return frozenset(k for k, region in enumerate(self.system.regions) if is_touched[region.free].any())

    def _touched_nodes(self, contacts: ContactSet, is_pressed: Mask) -> Mask:
        """Return the mask (n,) of the nodes in the contacts of a mask (k,)."""
        is_touched = np.zeros(len(self.system.rest), dtype=bool)
        is_touched[contacts.weights.indices[is_pressed[contacts.weight_rows]]] = True
        return is_touched

    def _resting_supports(self, contacts: ContactSet, normal_force: Array) -> dict[int, Support]:
        """Return the supports of regions at rest, by region index. normal_force: (k,) N."""
        supports: dict[int, Support] = {}
        speed_limit = _REST_SPEED_RATIO * self._gravity_step_speed
        if self._friction_near_limit(contacts, normal_force):
            return supports
        for place in sorted(resting_regions(self._impacts)):
            modes = self._last_support_modes(place)
            if modes is None or not self.system.regions[place].rigid_modes:
                continue
            free = self.system.regions[place].free
            ground_velocity = support_velocity(contacts, normal_force, self.state.velocities, free, self.h)
            region_velocity = centre_of_mass_velocity(self.system, place, self.state.velocities)
            if float(np.linalg.norm(region_velocity - ground_velocity)) < speed_limit:
                is_translating = is_translating_support(contacts, normal_force, len(self.system.rest), free)
                damping = modal_damping(modes, self.controls.laws[place])
                supports[place] = Support(modes, damping, ground_velocity, is_translating)
        return supports

    def _friction_near_limit(self, contacts: ContactSet, normal_force: Array) -> bool:
        """Return whether contacts are close to sliding, so that supported regions do not count as at rest.

        normal_force: (k,) N.
        """
        friction_limit = float(contacts.friction @ normal_force)
        slip = np.linalg.norm((self.contact_history or ContactHistory()).slips_of(contacts.key), axis=1)
        return friction_limit > 0.0 and float(contacts.stiffness @ slip) > _NEAR_LIMIT_FRACTION * friction_limit

    def _separating_regions(self) -> frozenset[int]:
        """Return the indices of regions that rebound from an impact but are still compressed."""
        regions = {
            k
            for one in self._impacts.values()
            if one.approach_speed > 0.0 and one.rebound_speed > 0.0 and is_separating(self.system, one, self.state)
            for k in (one.region, one.other)
        }
        return frozenset(k for k in regions if k >= 0 and law_overshoot(self.controls.laws[k]) >= 0.0)

    def finish_step(self, problem: StepObjective, v: Array, is_final: bool) -> State:
        """Return the state after the step with velocities (f, 3) m/s.

        is_final: whether no shorter step follows; motion that ends in an intersection is then truncated.
        """
        state, collision_state = problem.state_after(v), self.detection.state
        if is_final and state.is_finite:
            guard = self.guards.remaining_intersections
            if problem.contacts is not None:
                self._charge_search(problem.contacts.contacts)
            intersecting_pairs = guard.find(collision_state, state.positions)
            if guard.fires(bool(intersecting_pairs), self.counts):
                v, blocks = truncate_to_intersection_free(
                    self.system, collision_state, problem, v, intersecting_pairs, guard.max_bisections
                )
                self.meter.charge_exact_tests(guard.max_bisections * len(intersecting_pairs))
                state = problem.state_after(v, {k for block in blocks for k in self.system.regions_of(block)})
        return self.state_with_contact_history(problem, state)

    def state_with_contact_history(self, problem: StepObjective, state: State) -> State:
        """Return the state after the step with rebounds applied and contact history added."""
        contact_potential, x, system = problem.contacts, state.positions, self.system
        contact_history, resultants = ContactHistory(), []
        if contact_potential is not None:
            contacts, response = contact_potential.contacts, contact_potential.forces_at(x)
            depths = -np.einsum("ki,ki->k", contacts.normal, response.offset)
            contact_history = ContactHistory.of(
                contacts.key, contact_potential.retained_slip(x), response.force, depths
            )
            resultants = contact_resultants(system, contact_potential, x, self.h)
        restitution = [law_overshoot(law) for law in self.controls.laws]
        start, end = (self.state.positions, self.state.velocities), (x, state.velocities)
        impacts, v = update_impacts(
            system, self._impacts, resultants, start, end, restitution, self.h, self._gravity_step_speed
        )
        support_modes = self._updated_support_modes(problem, state, impacts)
        last = SystemContacts(contact_history, tuple(impacts), support_modes, contact_dial_values(self.inputs))
        history = replace(state.history, contacts={**state.history.contacts, system.name: last})
        state = replace(state, velocities=v, history=history)
        # A dent is at rest when it is deepest. Its shape then stores all of the elastic energy for the rebound.
        rebounding = {
            k
            for one in impacts
            for k in (one.region, one.other)
            if one.rebound_speed >= 0.0 and k >= 0 and previous_rebound_speed(self._impacts, one) < 0.0
        }
        return self._without_deformation_history(state, released_regions(self._impacts, impacts) | rebounding)

    def _without_deformation_history(self, state: State, regions: set[int]) -> State:
        """Return the state with the deformation history of some regions reset, as it would make dents grow."""
        deformation = self.system.deformation_history(state)
        if not regions or deformation is None:
            return state
        velocity = deformation.velocity.copy()
        rate = None if deformation.force_rate is None else deformation.force_rate.copy()
        for place in regions:
            free = self.system.regions[place].free
            velocity[free] = 0.0
            if rate is not None:
                rate[free] = 0.0
        deformation = replace(deformation, velocity=velocity, force_rate=rate)
        return replace(state, history=self.system.with_deformation(state.history, deformation))

    def _updated_support_modes(
        self, problem: StepObjective, state: State, impacts: list[Impact]
    ) -> tuple[SupportModes | None, ...]:
        """Return the support modes of each region at the end of the step; None where it has no support."""
        found: list[SupportModes | None] = [None] * len(self.system.regions)
        if problem.contacts is None:
            return tuple(found)
        contacts, x = problem.contacts, state.positions
        states, force = contacts.contact_states(x), contacts.forces_at(x).force
        sticking_count = int(((states > 0) & (states < 4)).sum())
        speed_limit, stiffness = _REST_SPEED_RATIO * self._gravity_step_speed, None
        is_touched = self._touched_nodes(contacts.contacts, states % 4 > 0)
        for place in sorted(resting_regions({(one.region, one.other): one for one in impacts})):
            region = self.system.regions[place]
            if not region.rigid_modes or law_overshoot(self.controls.laws[place]) < 0.0:
                continue
            pressed_count, modes = int(is_touched[region.free].sum()), self._last_support_modes(place)
            if pressed_count == 0:
                continue
            v = state.velocities
            relative_velocity = centre_of_mass_velocity(self.system, place, v) - support_velocity(
                contacts.contacts, force, v, region.free, self.h
            )
            if modes is None or has_support_changed(modes, pressed_count, sticking_count):
                if float(np.linalg.norm(relative_velocity)) > speed_limit:
                    continue
                if stiffness is None:
                    factors = self.controls.stiffness_per_block(len(self.system.blocks))
                    stiffness = self.system.tangent(state, factors, True), contacts.resting_stiffness(x)
                modes = compute_support_modes(self.system, region, x, *stiffness, pressed_count, sticking_count)
            found[place] = modes
        return tuple(found)


@dataclass
class _Refinement:
    """Contacts of a contact solve, refined at the end of each minimisation.

    contacts: of the current minimisation.
    detected_at: (n, 3) m, nodes at the last detection.
    detected: contacts of that detection, without the higher penalties.
    changes, penalty_increases: how often either was the reason to minimise again.
    """

    solve: ContactSolve
    contacts: ContactSet
    detected_at: Array
    detected: ContactSet
    changes: int = 0
    penalty_increases: int = 0
    _scaling: PenaltyScaling = field(default_factory=PenaltyScaling)

    def judge(self, x: Array) -> Verdict | None:
        """Detect contacts at the minimum x (n, 3) m, and return the verdict; None if the contacts have converged."""
        solve, guards, history = self.solve, self.solve.guards, self.solve.contact_history or ContactHistory()
        has_changed = self._detect_again(x, history) and guards.changed_contacts.has_changed(
            self.contacts, self.detected, x
        )
        if has_changed and not guards.changed_contacts.may_refine(self.changes):
            has_tunnelled = guards.tunnelled_contacts.has_tunnelled(self.detected, x, history)
            return Verdict.BISECT if guards.tunnelled_contacts.fires(has_tunnelled, solve.counts) else None
        if guards.changed_contacts.fires(has_changed, solve.counts):
            self.changes += 1
        elif guards.deep_contacts.may_refine(self.penalty_increases) and guards.deep_contacts.fires(
            self._scaling.raise_stiffness(self.detected, x, history.depths_of(self.detected.key)), solve.counts
        ):
            self.penalty_increases += 1
        else:
            return None
        self.contacts = self._scaling(self.detected)
        return Verdict.REFINE_CONTACTS

    def _detect_again(self, x: Array, history: ContactHistory) -> bool:
        """Detect the contacts at x (n, 3) m, unless the surfaces hardly moved; return whether they were detected."""
        detection = self.solve.detection
        if not self.solve.needs_redetection(self.detected, x - self.detected_at):
            return False
        self.solve.meter.charge_detection()
        contacts = keep_corner_contacts(self.detected, detection(x), x, history)
        contacts = keep_thread_contacts(self.detected, contacts, x, detection.model.threads)
        if self.solve.controls.is_static and self.changes:
            contacts = keep_alternating_contacts(self.detected, contacts, history)
        self.detected = contacts
        self.detected_at = x
        return True
