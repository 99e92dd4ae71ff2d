"""Potential psi of one substep with its preconditioner.

See docs/explanation/physics/01-step-potential.md, and 02-settle-law.md for the inertia.
"""

from __future__ import annotations

from collections.abc import Set
from typing import ClassVar

import numpy as np
from scipy.sparse import csr_matrix, diags

from ..base.arrays import Array, Index, take_rows
from ..contact.penalty_and_friction import ContactPotential, ContactSet
from ..settle.controls import Controls
from ..settle.first_mode import FirstModeLaw
from ..settle.law import DeformationLaw
from ..settle.support_modes import ContactEnvironment
from ..solvers.displacement_criterion import max_norm
from ..solvers.factorisation import LowRank
from ..solvers.objective import AcceptedPoint
from ..solvers.preconditioner import build_preconditioner
from ..system.inputs import Inputs
from ..system.material_terms import has_active_fibres
from ..system.state import DeformationHistory, State
from ..system.term import ForceTerm
from .contact_problem import ActiveContacts, SearchedContacts, StepPreconditioner
from .factorised_system import FactorisedSystem
from .inertia import (
    RegionInertia,
    delay_forces,
    first_mode_inertias,
    preconditioner_inertia,
    region_motions,
    retained_parts,
    waveform_inertia,
)
from .reference_motion import StepContext, rotate
from .rigid_prediction import project_onto_momenta, turning_energy
from .sleep import is_nearly_still
from .step_objective import StepObjective
from .step_potential import (
    StepPotential,
    StepStartForces,
    ThetaWeights,
    elastic_force_change,
    nodal_theta,
    step_start_forces,
)

# Iterations after which it is rotated or refactorised. A factorisation costs as much as a few dozen iterations.
_ROTATION_ITERATIONS, _FACTORISATION_ITERATIONS = (4, 8, 16, 32, 64), (12, 36, 108)
# Largest relative difference between the change of the elastic force in the prediction and that expected from the last
# step.
_MAX_DEVIATION = 0.03


class StepProblem(StepObjective):
    """Potential psi(v) over the free nodes' velocities (f, 3), with its preconditioner.

    rotates_preconditioner: whether it rotates with the regions.
    """

    rotates_preconditioner: ClassVar[bool] = True

    def __init__(
        self,
        stepper: FactorisedSystem,
        state: State,
        inputs: Inputs,
        h: float,
        controls: Controls,
        use_fallback_coefficients: bool = False,
        damping_positions: Array | None = None,
        environment: ContactEnvironment | None = None,
    ) -> None:
        """use_fallback_coefficients: whether all regions use them.  damping_positions: see Stepper.step()."""
        system = stepper.system
        self._stepper = stepper
        self._use_fallback_coefficients = use_fallback_coefficients
        self._environment = environment or ContactEnvironment()
        self._active_contacts: SearchedContacts | None = None
        self._stiffness_factors = controls.stiffness_per_block(len(system.blocks))
        self._is_static = controls.is_static
        self._has_drag = any(one.drag is not None for one in inputs)
        self._has_viscous_forces = self._has_drag or stepper.viscous is not None
        end_positions = system.with_pins(state.positions, inputs)
        self._reference = (end_positions - state.positions) / h
        self._coefficients = [
            controls.coefficients(place, h, use_fallback_coefficients or self._uses_fallback(place, law))
            for place, law in enumerate(controls.laws)
        ]
        weights = nodal_theta(stepper, self._coefficients)
        energies = system.active_energies(state, inputs)
        potential = StepPotential(system, energies, self._stiffness_factors, weights.theta)
        super().__init__(stepper.unknowns, potential, state, end_positions, h)
        self._assemble_inertia(StepContext.create(system, state, inputs, h), controls, weights)
        # M/s + h theta e K = theta e (M/(s theta e) + h K) with the stiffness factor e.
        theta = weights.theta if weights.is_uniform else 1.0
        self._scale = float(self._stiffness_factors[0]) * float(theta)
        stiffness_weights = None if weights.is_uniform else np.asarray(weights.theta)
        preconditioned_inertia = preconditioner_inertia(
            self._inertia / self._scale, self._coefficients, stepper.is_pinned_solid
        )
        self._solve = stepper.factorise(h, preconditioned_inertia, self._stiffness_factors, stiffness_weights)
        place = state.positions if damping_positions is None else damping_positions
        self._damping_matrix = system.damping_matrix(state.history, place, self._stiffness_factors, inputs)
        if stepper.viscous is not None:
            self._damping_matrix = stepper.viscous(place).tocsr() + (
                0 if self._damping_matrix is None else self._damping_matrix
            )
        # Start an unpinned body with the velocity that its weight adds, so that no search step changes its momentum.
        self.start = self.clip_to_feasible(
            self._predicted + h * self._is_unpinned[:, None] * system.acceleration(inputs, stepper.free)
        )
        self._cached_deformation: tuple[Array, list[tuple[Array, Array]]] | None = None
        rotation = stepper.nodal_rotations.rotations_at(self.positions(self.start), self._region_rotations)
        # The preconditioner has no reference to the problem: a cycle would keep factorisations alive until the garbage
        # collector runs.
        self._preconditioner = StepPreconditioner(
            stepper, self._positive_low_rank, self._solve, rotation, self._scale, h
        )
        self._has_contracted_fibres = has_active_fibres(system.blocks, inputs)
        self._iterations = 0
        self.value_noise = self._potential.rounding / h
        self.noise = stepper.rounding_error(self._solve, self._rounding_scale(state, weights)) / np.sqrt(self._scale)

    def _uses_fallback(self, place: int, law: DeformationLaw) -> bool:
        """Return whether a region gets fallback coefficients.

        Free and touched regions under the first law retain no force change, because other forces than elastic ones move
        them. For the same reason, slack sheets with drag have no lag.
        """
        if place in self._environment.rebounding_regions:
            return True
        is_free = self._stepper.system.regions[place].rigid_modes > 0
        is_touched = place in self._environment.touched_regions
        if law.is_waveform or is_free or is_touched or not isinstance(law, FirstModeLaw):
            return not law.is_waveform
        return law.can_snap_taut and (self._is_static or self._has_viscous_forces)

    def _assemble_inertia(self, context: StepContext, controls: Controls, weights: ThetaWeights) -> None:
        stepper = self._stepper
        count, system = len(stepper.free), stepper.system
        follow_through = controls.follow_through_per_block(len(system.blocks))
        self._inertia = np.empty(count)
        self._predicted = np.empty((count, 3))
        self._load = np.empty((count, 3))
        self._region_rotations = np.empty((count, 3, 3))
        self._is_unpinned = np.zeros(count)
        self._step_start: StepStartForces | None = None
        if any(law.is_waveform for law in controls.laws):
            self._step_start = step_start_forces(
                system,
                context.state,
                context.inputs,
                self._stiffness_factors,
                context.h,
                weights,
                any(np.any(one.dial_change) for one in self._coefficients),
            )
        self._region_inertias: list[tuple[Index, RegionInertia]] = []
        motions = region_motions(
            context, system.regions, stepper.region_slices, has_rotations=self.rotates_preconditioner
        )
        has_history = self._step_start is not None
        others = [place for place, one in enumerate(self._coefficients) if not (has_history and one.is_waveform)]
        first_mode = first_mode_inertias(
            context,
            [system.regions[place] for place in others],
            [stepper.region_slices[place] for place in others],
            [self._coefficients[place] for place in others],
            follow_through,
            [motions[place] for place in others],
        )
        known = dict(zip(others, first_mode, strict=True))
        for place, region in enumerate(system.regions):
            slots, parts = stepper.free_index[region.free], stepper.region_slices[place]
            if place in known:
                terms = known[place]
                self._is_unpinned[slots] = not len(region.constrained_nodes)
            else:
                assert self._step_start is not None
                terms = waveform_inertia(
                    context,
                    region,
                    parts,
                    self._coefficients[place],
                    follow_through,
                    self._step_start,
                    place in self._environment.touched_regions,
                    self._environment.supports.get(place),
                    motions[place],
                )
            self._reference[region.free] = terms.reference_velocity
            self._inertia[slots], self._predicted[slots] = terms.inertia, terms.predicted_velocity
            self._load[slots], self._region_rotations[slots] = terms.load, terms.rotation
            self._region_inertias.append((slots, terms))
        self._retain_force_change(context)
        if not self._is_static:
            kept = self._environment.touched_regions
            held = [one for one, region in enumerate(system.regions) if not region.rigid_modes and one not in kept]
            start_gradient = lambda: self._potential.value_gradient(context.state.positions)[1][stepper.free]  # noqa: E731
            can_release = not is_nearly_still(system, context.state)
            delay_forces(
                context, held, self._region_inertias, self._coefficients, self._load, start_gradient, can_release
            )
        places = [one for one, _ in self._region_inertias]
        low_rank_terms = [(one.columns, one.signs) for _, one in self._region_inertias]
        self.low_rank = self._low_rank = self._positive_low_rank = LowRank.of(count, places, low_rank_terms)
        if any(one.preconditioner_terms for _, one in self._region_inertias):
            positive_terms = [
                one.preconditioner_terms or known
                for (_, one), known in zip(self._region_inertias, low_rank_terms, strict=True)
            ]
            self._positive_low_rank = LowRank.of(count, places, positive_terms)

    def _retain_force_change(self, context: StepContext) -> None:
        """Add the retained change of the elastic force under the first law to the load (docs/decisions/0076)."""
        retaining = [
            (slots, terms.deformation_velocity, one)
            for (slots, terms), one in zip(self._region_inertias, self._coefficients, strict=True)
            if not one.is_waveform and terms.deformation_velocity is not None and one.retains_force
        ]
        if not retaining:
            return
        displacements, free = np.zeros_like(context.state.positions), self._stepper.free
        for slots, velocity, _ in retaining:
            displacements[free[slots]] = context.h * velocity
        change = elastic_force_change(
            context.system, context.state, context.inputs, self._stiffness_factors, displacements
        )
        alike: dict[int, list[int]] = {}
        for place, (slots, _, _) in enumerate(retaining):
            alike.setdefault(len(slots), []).append(place)
        for places in alike.values():
            own = [retaining[place][2] for place in places]
            slots = np.stack([retaining[place][0] for place in places])
            velocity = np.stack([retaining[place][1] for place in places])
            # One value for each region, or for each of its nodes.
            inertia_time, kappa = (
                np.array([[value] for value in values])
                if all(isinstance(value, float) for value in values)
                else np.array([np.broadcast_to(value, slots.shape[1]) for value in values])
                for values in ([one.inertia_time for one in own], [one.kappa for one in own])
            )
            force, mass = take_rows(change, free[slots]), self._inertia[slots] * inertia_time
            sigma, retained = retained_parts(own, mass, velocity, force)
            self._load[slots] += sigma[:, None, None] * force
            self._predicted[slots] += (retained[:, None] - kappa)[:, :, None] * velocity

    def _rounding_scale(self, state: State, weights: ThetaWeights) -> Array:
        """Return stiffness factor * theta * largest coordinate of the block, m: a number, or (f,) per free node."""
        system, free = self._stepper.system, self._stepper.free
        largest_coordinates = [float(np.abs(state.positions[part]).max(initial=0.0)) for part in system.slices]
        each = np.array(largest_coordinates) * self._stiffness_factors
        theta = weights.theta if np.ndim(weights.theta) == 0 else np.asarray(weights.theta)[free]
        return np.asarray((each[0] if len(each) == 1 else each[system.node_blocks()[free]]) * theta)

    def value_gradient(self, v: Array) -> tuple[float, Array]:
        if self._active_contacts:
            self._active_contacts.evaluations += 1
        # A trial may overshoot; its value is then infinite or NaN, and the search backtracks.
        with np.errstate(over="ignore", invalid="ignore"):
            return self._value_gradient(v)

    def _value_gradient(self, v: Array) -> tuple[float, Array]:
        value, gradient = self.motion_terms(v)
        potential, potential_gradient = self._potential.value_gradient(self.positions(v))
        return value + potential / self._h, gradient + take_rows(potential_gradient, self._stepper.free)

    def motion_terms(self, v: Array) -> tuple[float, Array]:
        """Return the part of psi in W that depends on the velocities v (f, 3) alone, and its gradient (f, 3) N."""
        free, change = self._stepper.free, v - self._predicted
        inertial_force = self._inertia[:, None] * change
        value = 0.5 * float(np.vdot(inertial_force, change))
        gradient = inertial_force - self._load
        if not self._low_rank.is_empty:
            value += self._add_low_rank(v, gradient)
        value -= float(np.vdot(self._load, v))
        if self._damping_matrix is not None:
            velocities = self.end_velocities
            velocities[free] = v
            damping_force = (self._damping_matrix @ velocities.ravel()).reshape(-1, 3)
            value += 0.5 * float(np.vdot(damping_force, velocities))
            gradient += take_rows(damping_force, free)
        return value, gradient

    def _add_low_rank(self, v: Array, gradient: Array) -> float:
        """Return the low-rank part of psi in W at velocities v (f, 3), and add its gradient to gradient (f, 3) N."""
        low = self._low_rank
        amplitudes = low.project((v - self._predicted).ravel())
        gradient += low.combine(low.columns, low.signs * amplitudes).reshape(-1, 3)
        return 0.5 * float(np.vdot(low.signs, amplitudes**2))

    @property
    def end_velocities(self) -> Array:
        """Velocities (n, 3) m/s of the nodes; hard pins move at those of their animation."""
        return (self._end_positions - self._state.positions) / self._h

    def motion_norm(self, v: Array) -> float:
        """Return the norm of the deformation velocity, sqrt(W), as if all of it were in the first mode.

        Return infinity if it is unknown. The norm of the predicted velocity is not suitable: prediction along straight
        lines may stretch a slender body so much that a small fraction of this error exceeds all of its bending.
        """
        total, changes = 0.0, self._deformation_velocities(v)
        if changes is None:
            return np.inf
        for (_, terms), one, (change, along) in zip(self._region_inertias, self._coefficients, changes, strict=True):
            energy = float(
                (terms.inertia * (1.0 + one.theta * one.first_mode_stiffness_ratio))
                @ np.einsum("fi,fi->f", change, change)
            )
            # The rigid part has no inertia time and no stiffness.
            total += energy + float(along @ along) / self._h
        return float(np.sqrt(total))

    def max_displacement(self, v: Array) -> float:
        """Return the largest deformation velocity of a node, m/s; infinity if it is unknown."""
        return max((max_norm(change) for change, _ in self._deformation_velocities(v) or ()), default=np.inf)

    def _deformation_velocities(self, v: Array) -> list[tuple[Array, Array]] | None:
        """Return the deformation velocities (f, 3) and rigid amplitudes (r,) of each region; None if unknown."""
        if self._step_start is None:
            return None
        if self._cached_deformation is not None and self._cached_deformation[0] is v:
            return self._cached_deformation[1]
        found = []
        for slots, terms in self._region_inertias:
            if terms.predicted_positions is None:
                return None
            free, rigid_amplitudes = self._stepper.free[slots], np.zeros(0)
            deformation = (
                take_rows(v, slots) - (terms.predicted_positions - take_rows(self._state.positions, free)) / self._h
            )
            if terms.rigid_prediction is not None:
                rigid_amplitudes = np.einsum(
                    "fik,fi,f->k", terms.rigid_prediction.basis, deformation, self._stepper.system.mass[free]
                )
                deformation = deformation - terms.rigid_prediction.basis @ rigid_amplitudes
            found.append((deformation, rigid_amplitudes))
        self._cached_deformation = v, found
        return found

    def turning_energy(self, v: Array) -> float:
        """Return the largest turning_energy() of a region; 0 without history."""
        x, mass, found = self.positions(v), self._stepper.system.mass, [0.0]
        for slots, terms in self._region_inertias:
            if terms.rigid_prediction is None or terms.dead_load_inertia is None:
                continue
            free, velocities = self._stepper.free[slots], take_rows(v, slots)
            motion = take_rows(x, free), velocities, velocities - terms.predicted_velocity
            inertia = terms.dead_load_inertia
            found.append(
                turning_energy(terms.rigid_prediction, terms.load, inertia, motion, take_rows(mass, free), self._h)
            )
        return max(found)

    def initial_secant(self, v: Array) -> tuple[Array, Array] | None:
        """Return the secant pair of the last step, or None if it would mislead the search.

        The pair is a step (f, 3) m/s and the change of the gradient along it, (f, 3) N.

        The prediction extrapolates along this step. If the elastic force does not change accordingly, for example
        because motion along straight lines stretches a slender body, search directions built from the pair are ten
        times too long. Unpinned regions have no pair either, since no search direction may change their momenta.
        """
        start, free, h = self._step_start, self._stepper.free, self._h
        if start is None or start.history is None or self._stepper.system.links is not None:
            return None
        if is_nearly_still(self._stepper.system, self._state):
            # The pair would consist of rounding errors.
            return None
        last_rate, last_force = start.history.force_rate, start.elastic_gradient
        if start.history.elastic_gradient is None or last_rate is None or last_force is None:
            return None
        force = self._potential.elastic_gradient(self.positions(v))
        # The last deformation velocity and elastic force rate, both rotated with the body; see DeformationHistory.
        direction, force_rate = np.zeros((len(free), 3)), np.zeros((len(free), 3))
        predicted_work = expected_work = 0.0
        for (slots, one), law in zip(self._region_inertias, self._coefficients, strict=True):
            if one.predicted_positions is None or one.step_rotation is None or one.rigid_prediction is not None:
                return None
            nodes = free[slots]
            velocity, change, old_force = (
                rotate(one.step_rotation, take_rows(of, nodes)) for of in (start.velocity, last_rate, last_force)
            )
            kappa = np.broadcast_to(law.kappa, len(nodes))[:, None]
            predicted_work += float(np.vdot(velocity, take_rows(force, nodes) - old_force))
            expected_work += h * float(np.vdot(velocity, kappa * change))
            direction[slots], force_rate[slots] = velocity, change
        if not abs(predicted_work - expected_work) < _MAX_DEVIATION * abs(expected_work):
            return None
        scaled_rate = self._potential.scaled_by_theta(force_rate, free)
        return direction, self._inertia[:, None] * direction + h * scaled_rate

    def clip_to_feasible(self, v: Array) -> Array:
        """Return velocities (f, 3), scaled down to the largest fraction that all terms admit."""
        fraction = self.largest_step(np.zeros_like(v), v)
        return v if fraction == 1.0 else fraction * v

    @property
    def limiting_terms(self) -> list[tuple[slice, ForceTerm]]:
        """The terms that limit steps, with their nodes."""
        return [
            (part, term)
            for block, part in zip(self._stepper.system.blocks, self._stepper.system.slices, strict=True)
            for term in block.terms
            if type(term).largest_step is not ForceTerm.largest_step
        ]

    def largest_step(self, v: Array, direction: Array) -> float:
        limiting_terms = self.limiting_terms
        if not limiting_terms:
            return 1.0
        x, displacements = self.positions(v), np.zeros_like(self._end_positions)
        displacements[self._stepper.free] = self._h * direction
        return min(term.largest_step(x[part], displacements[part]) for part, term in limiting_terms)

    def hessian(self, v: Array, project: bool) -> csr_matrix:
        x = self.positions(v)
        dof = self._stepper.dof
        total = diags(self._inertia.repeat(3)).tocsr()
        if self._damping_matrix is not None:
            total = total + self._damping_matrix[dof][:, dof]
        return total + self._h * self._potential.hessian(x, project)[dof][:, dof]

    def precondition(self, gradient: Array) -> Array:
        return self._preconditioner(gradient.ravel()).reshape(-1, 3)

    def set_contacts(self, contacts: ContactSet, normal_forces: Array, v: Array) -> None:
        """Replace the contacts, and add their stiffness at v (f, 3) to the preconditioner.

        normal_forces: (k,) N, lagged normal forces.
        """
        self._active_contacts, self.low_rank = None, self._low_rank
        self._potential.set_contacts(None)
        self._preconditioner.drop_contacts()
        if len(contacts):
            if len(self._low_rank.signs) > 1 and not self._low_rank.is_empty:
                self.low_rank = self._low_rank.as_single_block()
            self._active_contacts = self.searched_contacts(self.contact_potential(contacts, normal_forces), v)

    def searched_contacts(self, energy: ContactPotential, v: Array) -> SearchedContacts:
        """Return the contacts of a search that starts at velocities v (f, 3) m/s."""
        free, x = self._stepper.free, self.positions(v)
        return ActiveContacts(self._potential, self._preconditioner, free, energy, x, self._h)

    def contact_potential(self, contacts: ContactSet, normal_forces: Array) -> ContactPotential:
        """Return the potential of contacts. normal_forces: (k,) N, lagged."""
        return ContactPotential(contacts, normal_forces)

    def accept(self, v: Array, value: float, gradient: Array) -> AcceptedPoint:
        if self._active_contacts is None:
            return AcceptedPoint(value, gradient, preconditioner_changed=self._refresh_preconditioner(v))
        return self._active_contacts.accept(self.positions(v), value, gradient)

    def _refresh_preconditioner(self, v: Array) -> bool:
        """Refresh the preconditioner after an iteration that ends at v, if it is due; return whether it changed.

        With contacts, ActiveContacts refreshes it instead.
        """
        self._iterations += 1
        rotations, rest = self._stepper.nodal_rotations, self._stepper.system.rest
        individual = rotations.rotates_individually
        # Unpinned regions are excluded: a preconditioner that rotates as a whole conserves their momenta.
        if self._has_contracted_fibres and individual.all() and self._iterations >= _FACTORISATION_ITERATIONS[0]:
            if self._iterations in _FACTORISATION_ITERATIONS:
                hessian = self.hessian(v, True).tocsr()
                self._preconditioner.refactorise(build_preconditioner(hessian, rest[self._stepper.free]))
            return self._iterations in _FACTORISATION_ITERATIONS
        if self._iterations not in _ROTATION_ITERATIONS or not individual.any():
            return False
        self._preconditioner.rotate(rotations.rotations_at(self.positions(v), self._region_rotations))
        return True

    def known_gradient_change(self, step: Array) -> Array | None:
        return None if self._active_contacts is None else self._preconditioner.apply_contact_stiffness(step)

    def state_after(self, v: Array, truncated_regions: Set[int] = frozenset()) -> State:
        """Return the state at the step's end, with velocities v (f, 3) m/s.

        truncated_regions: regions whose motion was truncated. They get no history, and their momenta are not corrected.
        """
        x = self.positions(v)
        stepper, state, h = self._stepper, self._state, self._h
        velocities = (x - state.positions) / h
        velocities[stepper.free] = v
        all_history = stepper.system.updated_history(state.history, x)
        if self._step_start is None:
            return State(state.time + h, x, velocities, self._reference, all_history.without_deformation())
        history = self._history_after(x, velocities, self._step_start, truncated_regions)
        # A fallback step may undo a whole swing at once. Such a velocity in the history would amplify the next steps.
        if self._use_fallback_coefficients:
            all_history = all_history.without_deformation()
        else:
            all_history = stepper.system.with_deformation(all_history, history)
        return State(state.time + h, x, velocities, self._reference, all_history)

    def _history_after(
        self, x: Array, velocities: Array, start: StepStartForces, truncated_regions: Set[int]
    ) -> DeformationHistory:
        """Return the history of a step that ends at positions x and velocities (n, 3).

        Modifies x and velocities in place: the momenta of free regions are corrected.
        """
        system, h = self._stepper.system, self._h
        force, velocity, force_rate = self._potential.elastic_gradient(x), np.zeros_like(x), np.zeros_like(x)
        # External forces change the momenta, which are then not corrected.
        externally_forced = [self._potential.has_external_force(x, region.free) for region in system.regions]
        for place, ((_, terms), region) in enumerate(zip(self._region_inertias, system.regions, strict=True)):
            if terms.predicted_positions is None or terms.step_rotation is None:
                continue
            free, prediction = region.free, terms.rigid_prediction
            velocity[free] = (take_rows(x, free) - terms.predicted_positions) / h
            if start.elastic_gradient is not None:
                old_force = rotate(terms.step_rotation, take_rows(start.elastic_gradient, free))
                force_rate[free] = (take_rows(force, free) - old_force) / h
            is_forced = externally_forced[place] or place in truncated_regions
            if prediction is not None and prediction.conserves_momenta and not is_forced:
                x[free], turn = project_onto_momenta(prediction, system.mass[free], x[free], h)
                velocities[free] = (x[free] - self._state.positions[free]) / h
                for vectors in (velocity, force, force_rate):
                    vectors[free] = vectors[free] @ turn.T
        for place in {*self._environment.rebounding_regions, *truncated_regions}:
            free = system.regions[place].free
            velocity[free] = 0.0
            force_rate[free] = 0.0
        if start.elastic_gradient is None:
            return DeformationHistory(velocity, None, None)
        return DeformationHistory(velocity, force, force_rate)
