"""Step with contacts: detect contacts, minimise with them, and repeat until the contact set has converged."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, replace
from typing import TypeVar

import numpy as np

from ..base.arrays import Array, Mask
from ..contact.collision_detection import CollisionDetection
from ..contact.collision_state import CollisionState
from ..contact.contact_history import ContactHistory, Impact, SupportModes
from ..contact.contact_hysteresis import keep_corner_contacts, keep_thread_contacts
from ..contact.intersections import needs_exact_check, new_intersections
from ..contact.penalty_and_friction import ContactPotential, ContactSet
from ..contact.penalty_scaling import TOLERATED_DEPTH, PenaltyScaling
from ..objective.contact_problem import ContactProblem
from ..objective.plastic_update import has_plastic_flow
from ..objective.rigid_part import centre_of_mass_velocity, conserve_momentum, floating_clusters
from ..objective.sleep import contact_dial_values
from ..settle.controls import Controls
from ..settle.support_modes import (
    ContactEnvironment,
    Support,
    compute_support_modes,
    has_support_changed,
    law_overshoot,
    modal_damping,
)
from ..solvers.objective import Minimum, Outcome, Tolerance
from ..system.history import SystemContacts
from ..system.inputs import Inputs
from ..system.state import State
from ..system.system import System
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
from .step_truncation import truncate_to_intersection_free

# Gap tolerances for a missing contact and for a changed one, in contact distances.
_MISSING_GAP, _CHANGED_GAP = 0.1, 0.3
# Tolerated force of contacts with a changed normal, as a fraction of the total normal force.
_TURNED_FORCE_FRACTION = 0.01


def is_contact_set_unchanged(contacts: ContactSet, new_contacts: ContactSet, x: Array) -> bool:
    """Return whether the contacts detected at the end of the step agree with those of its minimisation."""
    before, now = (ContactPotential(one, np.zeros(len(one))).forces_at(x) for one in (contacts, new_contacts))
    sorted_keys = ContactHistory.of(contacts.key, contacts.stick_anchor, np.ones(len(contacts)), contacts.distance)
    matches = sorted_keys.indices_of(new_contacts.key)
    order = np.lexsort(contacts.key.T[::-1]) if len(contacts) else np.zeros(0, dtype=np.int64)
    is_missing = matches < 0
    if (now.gap[is_missing] < -_MISSING_GAP * new_contacts.distance[is_missing]).any():
        return False
    is_matched = ~is_missing
    old_gap, new_gap = before.gap[order][matches[is_matched]], now.gap[is_matched]
    has_changed = (
        np.abs(np.minimum(old_gap, 0.0) - np.minimum(new_gap, 0.0)) > _CHANGED_GAP * new_contacts.distance[is_matched]
    )
    # A changed normal turns the force, which would then alternate from step to step.
    normal_change = np.linalg.norm(
        contacts.normal[order][matches[is_matched]] - new_contacts.normal[is_matched], axis=1
    )
    force = np.maximum(before.force[order][matches[is_matched]], now.force[is_matched])
    if has_changed.any() or (normal_change * force).max(initial=0.0) > _TURNED_FORCE_FRACTION * now.force.sum():
        return False
    is_gone = np.ones(len(contacts), dtype=bool)
    is_gone[order[matches[is_matched]]] = False
    return not (before.gap[is_gone] < -_MISSING_GAP * contacts.distance[is_gone]).any()


def penetration_increase(contacts: ContactSet, x: Array, history: ContactHistory) -> Array:
    """Return the increase of penetration depth at x since the start of the step, (k,) m; negative outside."""
    depth = -ContactPotential(contacts, np.zeros(len(contacts))).forces_at(x).gap - contacts.target_gap
    return np.asarray(depth - history.depths_of(contacts.key))


def has_tunnelled(contacts: ContactSet, x: Array, history: ContactHistory) -> bool:
    """Return whether a contact has tunnelled: it penetrates visibly and deeper than at the start of the step."""
    return bool((penetration_increase(contacts, x, history) > TOLERATED_DEPTH * contacts.distance).any())


def warm_start_normal_forces(contacts: ContactSet, new_contacts: ContactSet, x: Array) -> Array:
    """Return warm-start normal forces for new contacts, (k,) N.

    Known contacts keep the normal force of the last minimisation. New ones get the force at their current gap.
    """
    current_force = ContactPotential(new_contacts, np.zeros(len(new_contacts))).forces_at(x).force
    last_force = ContactPotential(contacts, np.zeros(len(contacts))).forces_at(x).force
    history = ContactHistory.of(contacts.key, contacts.stick_anchor, last_force, contacts.distance)
    matched_force = history.forces_of(new_contacts.key)
    return np.where(matched_force > 0.0, matched_force, current_force)


# Largest number of contact detections at the end of a step.
_MAX_DETECTIONS = 3
# Contacts are detected again after displacements above this fraction of the contact distance.
_REDETECTION_FRACTION = 0.02
# Largest number of penalty increases for contacts that penetrate too far.
_MAX_PENALTY_INCREASES = 3
# A minimisation with more iterations has moved far, so its result is tested exactly for intersections.
_EXACT_CHECK_ITERATIONS = 60
# Speed limit of a region at rest, relative to the speed that gravity adds in one step.
_REST_SPEED_RATIO = 3.0
# Friction above this fraction of the Coulomb limit counts as close to sliding.
_NEAR_LIMIT_FRACTION = 0.7

_Problem = TypeVar("_Problem", bound=ContactProblem)


@dataclass(frozen=True)
class ContactSolve:
    """Contact solve of one step of h seconds.

    contact_history: contacts at the end of the last step; None at the start of a shot.
    impacts: impacts in progress, by pair of region indices.
    support_modes: damped rigid modes of each region; None where it has no support.
    """

    system: System
    state: State
    inputs: Inputs
    h: float
    controls: Controls
    detection: CollisionDetection
    contact_history: ContactHistory | None
    impacts: Mapping[tuple[int, int], Impact]
    support_modes: tuple[SupportModes | None, ...]

    @staticmethod
    def create(
        system: System, state: State, inputs: Inputs, h: float, controls: Controls, is_thorough: bool = False
    ) -> ContactSolve:
        """Create the contact solve of a step. is_thorough: see CollisionDetection."""
        assert system.contact is not None
        factors = controls.stiffness_per_block(len(system.blocks))
        collision_state = CollisionState.of(
            system.contact, state.positions, [one.contact for one in inputs], factors, h
        )
        last = system.last_contacts(state)
        contact_history = None if last is None else last.contacts.merged_by_point()
        impacts = {} if last is None else {(one.region, one.other): one for one in last.impacts}
        support_modes = (None,) * len(system.regions) if last is None else last.support_modes
        detection = CollisionDetection(collision_state, contact_history, is_thorough)
        return ContactSolve(system, state, inputs, h, controls, detection, contact_history, impacts, support_modes)

    @property
    def _gravity_step_speed(self) -> float:
        """Largest change of a node's speed by external accelerations in one step, m/s."""
        return self.h * float(
            np.linalg.norm(self.system.acceleration(self.inputs, np.arange(len(self.system.rest))), axis=-1).max()
        )

    @property
    def _redetection_tolerance(self) -> float:
        """Displacement up to which contacts are not detected again, m.

        It is negative for sheets and threads, which can fold: their contacts are always detected again.
        """
        if self.detection.model.threads or any(block.is_sheet for block in self.system.blocks):
            return -1.0
        collision_state = self.detection.state
        return _REDETECTION_FRACTION * float(
            collision_state.contact_distance[[not one.is_collider for one in collision_state.model.surfaces]].min()
        )

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
        make_problem: Callable[[ContactEnvironment | None], _Problem],
        minimise: Callable[[_Problem, Array, Tolerance], Minimum],
        guess: Array | None,
        tolerance: float,
    ) -> tuple[_Problem, Minimum]:
        """Minimise with contacts until the contact set has converged, and return the problem and its minimum.

        make_problem: function that creates the problem for a contact environment.
        guess: initial velocities (f, 3) m/s, or None.
        """
        # Detect at the end of a step with the previous velocities. The law's predicted velocity, which ignores contact
        # forces, could tunnel through a support.
        x, history = self._predicted_positions, self.contact_history or ContactHistory()
        contacts = self.detection(x)
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
        iterations = evaluations = 0
        first_error = 0.0
        penalty_scaling, penalty_increases, attempt, unscaled_contacts = PenaltyScaling(), 0, 0, contacts
        detected_at = self.detection.model.operator @ x
        while True:
            problem.set_contacts(contacts, normal_force, v)
            noise = problem.noise + (
                problem.contacts.rounding_error(problem.positions(v), self.h) if problem.contacts else 0.0
            )
            # Later searches start near the minimum, where a tolerance relative to their first error is too strict.
            stop_threshold = noise if attempt == 0 else max(noise, tolerance * min(first_error, problem.motion_norm(v)))
            minimum = minimise(problem, v, Tolerance(tolerance, stop_threshold))
            first_error = minimum.first_error if attempt == 0 else first_error
            iterations += minimum.iterations
            evaluations += minimum.evaluations
            if minimum.outcome is not Outcome.CONVERGED:
                break
            v = minimum.velocities
            x = problem.positions(v)
            surface_points = self.detection.model.operator @ x
            new_contacts, is_converged = unscaled_contacts, True
            if float(np.abs(surface_points - detected_at).max()) > self._redetection_tolerance:
                new_contacts = keep_corner_contacts(unscaled_contacts, self.detection(x), x, history)
                new_contacts = keep_thread_contacts(unscaled_contacts, new_contacts, x, self.detection.model.threads)
                detected_at, is_converged = surface_points, is_contact_set_unchanged(contacts, new_contacts, x)
            if is_converged and (
                penalty_increases == _MAX_PENALTY_INCREASES
                or not penalty_scaling.raise_stiffness(new_contacts, x, history.depths_of(new_contacts.key))
            ):
                break
            penalty_increases += is_converged
            unscaled_contacts, new_contacts = new_contacts, penalty_scaling(new_contacts)
            if attempt == _MAX_DETECTIONS + penalty_increases:
                if has_tunnelled(new_contacts, x, history):
                    minimum = replace(minimum, outcome=Outcome.CONTACT_SET)
                break
            normal_force = warm_start_normal_forces(contacts, new_contacts, x)
            touched_regions = environment.touched_regions | self._touched_regions(
                new_contacts, ContactPotential(new_contacts, normal_force).forces_at(x).force > 0.0
            )
            contacts, attempt = new_contacts, attempt + 1
            if touched_regions != environment.touched_regions:
                environment = replace(environment, touched_regions=touched_regions)
                problem = make_problem(environment)
        # Bisected steps would make plastic dents depend on the frame rate.
        plastic_blocks = {
            k for k, block in enumerate(self.system.blocks) if has_plastic_flow(block, self.state.history)
        }
        collision_state = self.detection.state
        if minimum.outcome is Outcome.CONVERGED and (
            iterations > _EXACT_CHECK_ITERATIONS or needs_exact_check(collision_state, new_contacts, x, plastic_blocks)
        ):
            minimum = (
                replace(minimum, outcome=Outcome.CONTACT_SET) if new_intersections(collision_state, x) else minimum
            )
        if problem.contacts is not None:
            groups = floating_clusters(
                self.system, problem.contacts, x, environment.touched_regions - {*environment.supports}
            )
            minimum = replace(
                minimum, velocities=conserve_momentum(self.system, problem, minimum.velocities, self.h, groups)
            )
        return problem, replace(minimum, iterations=iterations, evaluations=evaluations)

    def _touched_regions(self, contacts: ContactSet, is_pressed: Mask) -> frozenset[int]:
        """Return the indices of regions with nodes in the contacts of a mask (k,)."""
        is_touched = np.zeros(len(self.system.rest), dtype=bool)
        is_touched[contacts.weights.indices[is_pressed[contacts.weight_rows]]] = True
        return frozenset(k for k, region in enumerate(self.system.regions) if is_touched[region.free].any())

    def _resting_supports(self, contacts: ContactSet, normal_force: Array) -> dict[int, Support]:
        """Return the supports of regions at rest, by region index. normal_force: (k,) N."""
        supports: dict[int, Support] = {}
        speed_limit = _REST_SPEED_RATIO * self._gravity_step_speed
        if self._friction_near_limit(contacts, normal_force):
            return supports
        for place in sorted(resting_regions(self.impacts)):
            modes = self.support_modes[place]
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
            for one in self.impacts.values()
            if one.approach_speed > 0.0 and one.rebound_speed > 0.0 and is_separating(self.system, one, self.state)
            for k in (one.region, one.other)
        }
        return frozenset(k for k in regions if k >= 0 and law_overshoot(self.controls.laws[k]) >= 0.0)

    def finish_step(self, problem: ContactProblem, v: Array, is_final: bool) -> State:
        """Return the state after the step with velocities (f, 3) m/s.

        is_final: whether no shorter step follows; motion that ends in an intersection is then truncated.
        """
        state, collision_state = problem.state_after(v), self.detection.state
        if is_final and state.is_finite and (intersecting_pairs := new_intersections(collision_state, state.positions)):
            v, blocks = truncate_to_intersection_free(self.system, collision_state, problem, v, intersecting_pairs)
            state = problem.state_after(v, {k for block in blocks for k in self.system.regions_of(block)})
        return self.state_with_contact_history(problem, state)

    def state_with_contact_history(self, problem: ContactProblem, state: State) -> State:
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
        start = self.state.positions, self.state.velocities
        impacts, v = update_impacts(
            system,
            self.impacts,
            resultants,
            start,
            (x, state.velocities),
            restitution,
            self.h,
            self._gravity_step_speed,
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
            if one.rebound_speed >= 0.0 and k >= 0 and previous_rebound_speed(self.impacts, one) < 0.0
        }
        return self._without_deformation_history(state, released_regions(self.impacts, impacts) | rebounding)

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
        self, problem: ContactProblem, state: State, impacts: list[Impact]
    ) -> tuple[SupportModes | None, ...]:
        """Return the support modes of each region at the end of the step; None where it has no support."""
        found: list[SupportModes | None] = [None] * len(self.system.regions)
        contact_potential = problem.contacts
        if contact_potential is None:
            return tuple(found)
        states, force = (
            contact_potential.contact_states(state.positions),
            contact_potential.forces_at(state.positions).force,
        )
        is_pressed, sticking_count = states % 4 > 0, int(((states > 0) & (states < 4)).sum())
        speed_limit, stiffness = _REST_SPEED_RATIO * self._gravity_step_speed, None
        is_touched = np.zeros(len(self.system.rest), dtype=bool)
        is_touched[contact_potential.contacts.weights.indices[is_pressed[contact_potential.contacts.weight_rows]]] = (
            True
        )
        for place in sorted(resting_regions({(one.region, one.other): one for one in impacts})):
            region = self.system.regions[place]
            if not region.rigid_modes or law_overshoot(self.controls.laws[place]) < 0.0:
                continue
            pressed_count, modes = int(is_touched[region.free].sum()), self.support_modes[place]
            if pressed_count == 0:
                continue
            relative_velocity = centre_of_mass_velocity(self.system, place, state.velocities)
            relative_velocity = relative_velocity - support_velocity(
                contact_potential.contacts, force, state.velocities, region.free, self.h
            )
            if modes is None or has_support_changed(modes, pressed_count, sticking_count):
                if float(np.linalg.norm(relative_velocity)) > speed_limit:
                    continue
                if stiffness is None:
                    factors = self.controls.stiffness_per_block(len(self.system.blocks))
                    stiffness = (
                        self.system.tangent(state, factors, True),
                        contact_potential.resting_stiffness(state.positions),
                    )
                modes = compute_support_modes(
                    self.system, region, state.positions, *stiffness, pressed_count, sticking_count
                )
            found[place] = modes
        return tuple(found)
