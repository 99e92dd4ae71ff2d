"""Potential psi of a substep of woven cloth and of the bodies that it touches, over velocities of nodes and yarns.

See docs/explanation/woven-cloth.md.
"""

from __future__ import annotations

from collections.abc import Sequence, Set
from dataclasses import replace

import numpy as np
from scipy.sparse import csr_matrix

from ..base.arrays import Array
from ..contact.penalty_and_friction import ContactPotential, ContactSet
from ..geometry.mesh.rigid_motion import inverse_inertia, rigid_body_modes
from ..settle.controls import Controls
from ..solvers.factorisation import LowRank
from ..solvers.objective import AcceptedPoint
from ..system.inputs import Inputs
from ..system.state import State, YarnHistory
from ..system.weave_term import FrozenSliding
from ..yarns.energy import SlidingFriction, crossing_normal_forces, gravity_energy
from ..yarns.woven_cloth import AssembledMatrix
from .contact_problem import MAX_FRICTION_UPDATES
from .factorised_system import FactorisedSystem
from .inertia import first_mode_inertia
from .reference_motion import RegionSlice, StepContext
from .step_objective import StepObjective, WovenUnknowns
from .step_potential import StepPotential

# Fraction of a yarn segment's mass that moves with its yarn position, which otherwise has no inertia within a plane.
_PLACE_INERTIA_FRACTION = 1e-3
# Motion of a node in a step that rounding hides, as a fraction of the block's size.
_ROUNDED_MOTION = 1e-11


class WeaveProblem(StepObjective):
    """Potential psi(v) of woven cloths, and of other bodies that touch them or are linked to them.

    v (t, 3) in m/s: the nodes' velocities, then those of the two yarn positions at each crossing, see WovenCloth. Other
    bodies have the fallback coefficients of their laws, which control the first mode.
    """

    def __init__(
        self, stepper: FactorisedSystem, state: State, inputs: Inputs, h: float, controls: Controls, *unused: object
    ) -> None:
        """unused: further arguments of StepProblem, which do not apply to woven cloth."""
        system, unknowns = stepper.system, stepper.unknowns
        assert isinstance(unknowns, WovenUnknowns)
        cloth, factors = unknowns.cloth, controls.stiffness_per_block(len(system.blocks))
        self._system, self._cloth, self._free, self._pattern = system, cloth, unknowns.is_free, unknowns.pattern
        self._woven, self._bare = unknowns, unknowns.bare_nodes
        self._dials = unknowns.settings(controls.yarns)
        self._elastic = unknowns.elastic(factors)
        yarns = unknowns.yarns_of(state.history)
        self._u = yarns.positions
        grip_forces = np.where(cloth.can_slide, self._dials.grip + yarns.normal_forces, 0.0)
        self._friction = SlidingFriction(
            yarns.anchors, self._dials.friction * grip_forces, self._elastic.stick_stiffness
        )
        nodal = (one for one in system.active_energies(state, inputs) if not isinstance(one[2], FrozenSliding))
        end_positions = system.with_pins(state.positions, inputs)
        super().__init__(unknowns, StepPotential(system, nodal, factors, 1.0), state, end_positions, h)
        self._accelerations = np.broadcast_to(system.acceleration(inputs, np.arange(cloth.count)), (cloth.count, 3))
        self._pin_velocities = (end_positions - state.positions) / h
        context = StepContext.create(system, state, inputs, h)
        self._assemble_inertia(context, stepper.region_slices, controls, yarns.speeds)
        self._damping_matrix = system.damping_matrix(state.history, state.positions, factors, inputs)
        self._assemble_damping()
        pinned_velocities = cloth.stack_unknowns(self._pin_velocities, np.zeros_like(self._u))
        velocities = cloth.stack_unknowns(state.velocities, self._sliding_speeds)
        self.start = self.clip_to_feasible(np.where(self._free, velocities, pinned_velocities))
        self.value_noise = (self._elastic.rounding + self._potential.rounding) / h
        size = min((block.size for block in system.blocks if block.groups), default=0.0)
        self.noise = _ROUNDED_MOTION * size / h * float(np.sqrt(self._nodal_inertia.sum()))
        self._friction_updates = 0

    def _assemble_inertia(
        self,
        context: StepContext,
        region_slices: Sequence[tuple[RegionSlice, ...]],
        controls: Controls,
        speeds: Array | None,
    ) -> None:
        """Assemble |x' - w u'|^2 of each yarn at each crossing, w at the step's start, and a small inertia of u'."""
        cloth, h, state = self._cloth, self._h, self._state
        self._sliding_speeds = np.zeros(len(self._u)) if speeds is None else speeds
        predicted = self._pin_velocities.copy()
        rate = np.full(cloth.count, 1.0 / h)
        self.reference = self._pin_velocities.copy()
        follow_through = controls.follow_through_per_block(len(self._system.blocks))
        # Inertial acceleration of the yarns, m/s^2. It acts at pins too: yarns slide there as elsewhere.
        phi = follow_through[self._system.node_blocks()][:, None]
        inertial_acceleration = -phi * (self._pin_velocities - state.reference) / h
        masses, w = cloth.masses(self._u), cloth.directions(state.positions, self._u)
        node_masses = self._node_masses(masses)
        crossing, mass_fraction = cloth.node[cloth.crossings[:, 0]], (masses / node_masses[cloth.node])[:, None]
        # A yarn that has slid loads another node than the one where it was woven.
        parts_of_system = zip(context.system.blocks, context.system.slices, strict=True)
        blocks_of_system = tuple(replace(block, mass=node_masses[part]) for block, part in parts_of_system)
        system = replace(context.system, blocks=blocks_of_system)
        # The law acts on the velocity of the yarns, as the momentum is theirs. A node moves along sliding yarns.
        self._masses, self._directions = masses, w
        sliding = cloth.sliding_velocities(masses, w, self._sliding_speeds)
        self._yarn_velocities = state.velocities - sliding
        context = replace(context, system=system, state=replace(state, velocities=self._yarn_velocities))
        places, low_rank_terms, load = [], [], np.zeros_like(self._pin_velocities)
        for number, (region, parts) in enumerate(zip(self._system.regions, region_slices, strict=True)):
            coefficients = controls.coefficients(number, h, use_fallback=True)
            terms = first_mode_inertia(context, region, parts, coefficients, follow_through)
            predicted[region.free] = terms.predicted_velocity + sliding[region.free]
            load[region.free] = terms.load
            # Weight and inertial load act on the yarns, not on the nodes.
            inertial_acceleration[region.free] = (terms.load - context.external_forces(region.free)) / node_masses[
                region.free
            ][:, None]
            rate[region.free] = terms.inertia / node_masses[region.free]
            self.reference[region.free] = terms.reference_velocity
            # The rigid motion is that of the yarns: sliding carries a part of it.
            columns = np.zeros((cloth.triples, 3, len(terms.signs)))
            columns[region.free] = terms.columns
            for side, one in enumerate(cloth.crossings.T):
                columns[cloth.count :, side] = -mass_fraction[one] * np.einsum("ci,cik->ck", w[one], columns[crossing])
            unknowns = np.concatenate([region.free, cloth.count + np.flatnonzero(np.isin(crossing, region.free))])
            places.append(unknowns)
            low_rank_terms.append((columns[unknowns], terms.signs))
        self._bare_inertia = np.zeros((cloth.triples, 3))
        self._bare_inertia[self._bare] = (node_masses * rate)[self._bare, None]
        passing_inertia = masses * rate[cloth.node]
        woven_inertia = np.asarray(np.bincount(cloth.node, passing_inertia, minlength=cloth.count), dtype=float)
        self._nodal_inertia = woven_inertia + self._bare_inertia[: cloth.count, 0]
        blocks = np.zeros((len(masses), 4, 4))
        blocks[:, :3, :3] = passing_inertia[:, None, None] * np.eye(3)
        blocks[:, :3, 3] = blocks[:, 3, :3] = -passing_inertia[:, None] * w
        blocks[:, 3, 3] = passing_inertia * (w * w).sum(axis=1) + _PLACE_INERTIA_FRACTION * masses / h
        self._inertia = blocks
        self._predicted = cloth.stack_unknowns(predicted, self._sliding_speeds)
        loads = masses[:, None] * inertial_acceleration[cloth.node]
        load[cloth.node] = 0.0
        np.add.at(load, cloth.node, loads)
        self._load = cloth.stack_unknowns(load, -(w * loads).sum(axis=1))
        low = LowRank.of(cloth.triples, places, low_rank_terms)
        # Pins hold crossings whose yarns slide from one region into another, so the regions are coupled.
        self.low_rank = low.as_single_block() if len(low.signs) > 1 and not low.is_empty else low

    def _assemble_damping(self) -> None:
        """Assemble the damping matrix C at the step's start."""
        dials, x = self._dials, self._state.positions
        assemble = self._elastic.rayleigh_hessians if dials.rayleigh else self._elastic.strain_rate_hessians
        damping = assemble(x, self._u, dials.stretch, dials.bend)
        self._sliding_damping = np.zeros(self._cloth.unknown_count)
        self._sliding_damping[self._cloth.arc_length_unknown[self._cloth.can_slide]] = dials.drag[self._cloth.can_slide]
        stretch, bend, _ = self._cloth.element_groups
        self._viscous = ((stretch, damping.stretch), (bend, damping.bend))
        diagonal = self._sliding_damping + self._bare_inertia.ravel()
        blocks = [damping.stretch, damping.bend, damping.shear, self._inertia, diagonal]
        self._constant = self._pattern.assemble(blocks)

    def _node_masses(self, masses: Array) -> Array:
        """Return the mass (n,) kg of each node. masses: (p,) kg of the yarns at each node."""
        found = np.bincount(self._cloth.node, masses, minlength=self._cloth.count).astype(float)
        found[self._bare] = self._system.mass[self._bare]
        return np.asarray(found)

    def set_contacts(self, contacts: ContactSet, normal_forces: Array, v: Array) -> None:
        self._potential.set_contacts(ContactPotential(contacts, normal_forces) if len(contacts) else None)
        self._friction_updates = 0

    def accept(self, v: Array, value: float, gradient: Array) -> AcceptedPoint:
        """Update friction from the normal forces, see contact_problem.ActiveContacts."""
        if (
            self.contacts is None
            or self._friction_updates >= MAX_FRICTION_UPDATES
            or not self.contacts.contacts.friction.any()
        ):
            return AcceptedPoint(value, gradient)
        self._friction_updates += 1
        self._potential.set_contacts(self.contacts.with_normal_forces_at(self.positions(v)))
        return AcceptedPoint(*self.value_gradient(v))

    def end_configuration(self, v: Array) -> tuple[Array, Array]:
        """Return positions (n, 3) and yarn positions (p,) at the step's end, m."""
        return self.positions(v), self._u + self._h * self._cloth.split_unknowns(v)[1]

    def value_gradient(self, v: Array) -> tuple[float, Array]:
        cloth, h = self._cloth, self._h
        x, u = self.end_configuration(v)
        elastic, slope = self._elastic.value_gradient(x, u)
        if not np.isfinite(elastic):
            return np.inf, np.zeros_like(v)
        weight, by_weight = gravity_energy(cloth, x, u, self._accelerations)
        friction_energy, by_slip = self._friction.value_gradient(u)
        total, gradient = (elastic + weight + friction_energy) / h, slope + by_weight
        gradient[cloth.arc_length_unknown[cloth.can_slide]] += by_slip[cloth.can_slide]
        nodal, by_node = self._potential.value_gradient(x)
        total += nodal / h
        gradient[: by_node.size] += by_node.ravel()
        flat, off = v.ravel(), (v - self._predicted).ravel()
        for group, blocks, of in ((cloth.passing_group, self._inertia, off), *((*one, flat) for one in self._viscous)):
            energy, by_unknown = group.value_gradient(blocks, of)
            total += energy
            gradient += by_unknown
        total += 0.5 * float((self._sliding_damping * flat) @ flat) - float(np.vdot(self._load, v))
        gradient += self._sliding_damping * flat - self._load.ravel()
        if len(self._bare):
            force = self._bare_inertia.ravel() * off
            total, gradient = total + 0.5 * float(force @ off), gradient + force
        if self._damping_matrix is not None:
            nodes = flat[: 3 * cloth.count]
            drag = self._damping_matrix @ nodes
            total += 0.5 * float(drag @ nodes)
            gradient[: len(drag)] += drag
        if not self.low_rank.is_empty:
            along = self.low_rank.project(off)
            total += 0.5 * float((self.low_rank.signs * along**2).sum())
            gradient += self.low_rank.combine(self.low_rank.columns, self.low_rank.signs * along)
        return total, np.where(self._free, gradient.reshape(v.shape), 0.0)

    def sparse_hessian(self, v: Array) -> AssembledMatrix:
        cloth, h = self._cloth, self._h
        x, u = self.end_configuration(v)
        own = self._elastic.element_hessians(x, u)
        diagonal = np.zeros(cloth.unknown_count)
        diagonal[cloth.arc_length_unknown[cloth.can_slide]] = self._friction.curvature(u)[cloth.can_slide]
        elastic = self._pattern.assemble([own.stretch, own.bend, own.shear, None, diagonal])
        nodal = h * self._potential.hessian(x, True)
        more = (nodal if self._damping_matrix is None else nodal + self._damping_matrix).tocoo()
        there = self._free.ravel()[more.row] & self._free.ravel()[more.col]
        place, shape = (more.row[there], more.col[there]), (cloth.unknown_count, cloth.unknown_count)
        other = csr_matrix((more.data[there], place), shape=shape) if there.any() else None
        return AssembledMatrix(self._pattern, self._constant + h * elastic, other)

    def largest_step(self, v: Array, direction: Array) -> float:
        """Return the largest fraction of the direction that keeps crossings at their minimum distance."""
        cloth = self._cloth
        D = cloth.lengths(self.end_configuration(v)[1])
        shorter = cloth.lengths(self._h * cloth.split_unknowns(direction)[1]) - cloth.closing_length
        near = shorter < 0.0
        room = (D - cloth.min_lengths)[near] / -shorter[near]
        return float(min(1.0, 0.9 * room.min(initial=np.inf)))

    @property
    def previous_velocities(self) -> Array:
        return self.start

    def clip_to_feasible(self, v: Array) -> Array:
        """Return velocities (t, 3), slowed down until crossings keep their minimum distance."""
        for _ in range(60):
            if (self._cloth.lengths(self.end_configuration(v)[1]) >= self._cloth.min_lengths).all():
                break
            v = np.where(self._free, 0.5 * v, v)
        return v

    def motion_norm(self, v: Array) -> float:
        """Return the norm of the nodes' motion without the reference motion, sqrt(W)."""
        moved = np.where(self._free[: self._cloth.count], v[: self._cloth.count] - self.reference, 0.0)
        return float(np.sqrt(self._nodal_inertia @ (moved**2).sum(axis=1)))

    def state_after(self, v: Array, truncated_regions: Set[int] = frozenset()) -> State:
        """Return the state at the step's end, with velocities v (t, 3) m/s. truncated_regions: not used."""
        x, u = self.end_configuration(v)
        velocities, speeds = self._cloth.split_unknowns(v)
        velocities = self._velocities_after(x, u, velocities, speeds)
        normal_forces = crossing_normal_forces(self._cloth, self._elastic.tensions(x, u), x)
        history = self._system.updated_history(self._state.history, x).without_deformation()
        history = self._woven.with_yarns(history, YarnHistory(u, self._friction.moved_anchor(u), normal_forces, speeds))
        return State(self._state.time + self._h, x, velocities, self.reference, history)

    def _velocities_after(self, x: Array, u: Array, velocities: Array, speeds: Array) -> Array:
        """Return the nodes' velocities (n, 3) m/s with which the next step starts.

        The yarns keep their velocity while their directions and their masses at the nodes change. A rigid motion gives
        free regions the momentum and the angular momentum of the step's start, changed by the external forces only.
        """
        cloth, found = self._cloth, velocities.copy()
        masses = cloth.masses(u)
        before, after = (self._node_masses(one)[:, None] for one in (self._masses, masses))
        kept = velocities - cloth.sliding_velocities(self._masses, self._directions, speeds)
        sliding = cloth.sliding_velocities(masses, cloth.directions(x, u), speeds)
        forces = -gravity_energy(cloth, x, u, self._accelerations)[1].reshape(-1, 3)[: cloth.count]
        forces[self._bare] += before[self._bare] * self._accelerations[self._bare]
        forces -= self._potential.value_gradient(x)[1]
        if self._damping_matrix is not None:
            forces -= (self._damping_matrix @ velocities.ravel()).reshape(-1, 3)
        for region in self._system.regions:
            nodes = region.free
            found[nodes] = kept[nodes] + sliding[nodes]
            if region.rigid_modes and not len(region.constrained_nodes):
                centre = x[nodes].mean(axis=0)
                size = np.abs(x[nodes] - centre).max()
                modes, modes_at_start = (
                    rigid_body_modes((one[nodes] - centre) / size) for one in (x, self._state.positions)
                )
                change = np.einsum("fik,fi->k", modes_at_start, (before * self._yarn_velocities)[nodes])
                change += np.einsum("fik,fi->k", modes, (self._h * forces - after * kept)[nodes])
                inertia = np.einsum("fik,f,fil->kl", modes, after[nodes, 0], modes, optimize=True)
                found[nodes] += modes @ (inverse_inertia(inertia) @ change)
        return found
