"""Potential of one step: terms, links and contacts; and its forces at the step's start.

See docs/explanation/physics/02-settle-law.md.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from scipy.sparse import block_diag, csr_matrix

from ..base.arrays import Array, Index, are_equal
from ..contact.penalty_and_friction import ContactPotential
from ..materials import Energy, Membrane, ShellBending, TetElasticity
from ..settle.law import Coefficients
from ..system.inputs import Inputs
from ..system.links import Links
from ..system.state import DeformationHistory, State
from ..system.system import ActiveEnergy, System
from ..system.term import StiffnessScaling
from .factorised_system import FactorisedSystem
from .tangent import Tangent, TangentBlock


@dataclass(frozen=True)
class ThetaWeights:
    """Weights theta and sigma, see law.Coefficients: numbers where all nodes have the same, else (n,) each."""

    theta: float | Array
    sigma: float | Array

    @property
    def is_uniform(self) -> bool:
        """True if all nodes have the same weights."""
        return np.ndim(self.theta) == 0 and np.ndim(self.sigma) == 0


def nodal_theta(stepper: FactorisedSystem, coefficients: Sequence[Coefficients]) -> ThetaWeights:
    """Return theta and sigma of all nodes, from the coefficients of each region."""
    region_weights = [(one.theta, one.sigma if one.is_waveform else 0.0) for one in coefficients]
    if not region_weights:
        return ThetaWeights(1.0, 0.0)
    # Hair has a law for each of hundreds of strands.
    is_uniform = all(isinstance(one, float) for weights in region_weights for one in weights)
    if is_uniform and len(set(region_weights)) == 1:
        return ThetaWeights(*region_weights[0])
    nodal_weights = np.empty((len(stepper.free), 2))
    nodal_weights[:] = 1.0, 0.0
    for region, (theta, sigma) in zip(stepper.system.regions, region_weights, strict=True):
        slots = stepper.free_index[region.free]
        nodal_weights[slots, 0], nodal_weights[slots, 1] = theta, sigma
    # Hard pins take the weights of the nearest free node.
    return ThetaWeights(nodal_weights[stepper.nearest_free_index, 0], nodal_weights[stepper.nearest_free_index, 1])


class StepPotential:
    """Potential of the terms, links and contacts of a system in one step.

    rounding: energy differences up to this are rounding errors, J.
    links: between the blocks.  contacts: active ones.  Either is None if there are none.
    """

    def __init__(self, system: System, energies: Iterable[ActiveEnergy], factors: Array, theta: float | Array) -> None:
        """energies: see System.active_energies().  factors: (b,) stiffness factor of each block.

        theta: weight of the elastic energies, see ThetaWeights.
        """
        self._system, self._factors = system, factors
        uniform = np.ndim(theta) == 0
        self._theta = float(theta) if uniform else 1.0
        self._energies: list[tuple[int, float, Energy, bool]] = []
        for place, factor, energy in energies:
            elastic = factor is StiffnessScaling.SCALED
            own = energy if uniform or not elastic else energy.with_nodal_scale(np.asarray(theta)[system.slices[place]])
            self._energies.append((place, float(factors[place]) if elastic else 1.0, own, elastic))
        self._batched, self._unbatched = self._batch_elasticity()
        joints = system.links
        self.links = joints if joints is None or uniform else joints.with_nodal_scale(np.asarray(theta))
        self.rounding = sum(
            scale * energy.rounding * (self._theta if elastic else 1.0) for _, scale, energy, elastic in self._energies
        )
        self.contacts: ContactPotential | None = None
        self._last_gradients: tuple[Array, Array, Array | None] | None = None
        self._cached_terms: list[tuple[Array, float, Array, Array | None]] = []

    def _batch_elasticity(self) -> tuple[list[TetElasticity], list[tuple[int, float, Energy, bool]]]:
        """Return the blocks' elastic energies that are evaluated in one batch, scaled, and all other energies."""
        scale_of_energy = {(place, id(energy)): scale for place, scale, energy, elastic in self._energies if elastic}
        batched, batched_keys = [], set()
        for one in self._system.batched_energies:
            # Plastic and partly weighted energies are new objects in each step.
            keys = [(place, id(energy)) for place, energy in one.members]
            if all(key in scale_of_energy for key in keys):
                scales = np.ones(len(self._system.blocks))
                for key in keys:
                    scales[key[0]] = scale_of_energy[key]
                batched.append(one.energy.with_element_scale(scales[one.element_blocks]))
                batched_keys.update(keys)
        return batched, [one for one in self._energies if (one[0], id(one[2])) not in batched_keys]

    @cached_property
    def scaled_energies(self) -> tuple[tuple[slice, float, Energy], ...]:
        """The nodes, the total factor and the energy of each term."""
        return tuple(
            (self._system.slices[place], scale * self._theta if material else scale, energy)
            for place, scale, energy, material in self._energies
        )

    def link_hessian(self, x: Array) -> csr_matrix:
        """Return the positive semi-definite part of the links' Hessian, (3n, 3n) N/m. Only with links."""
        assert self.links is not None
        return (self._theta * self.links.hessian(x, self._factors, True)).tocsr()

    def set_contacts(self, contacts: ContactPotential | None) -> None:
        """Replace the active contacts."""
        self.contacts, self._last_gradients = contacts, None

    def value_gradient(self, x: Array) -> tuple[float, Array]:
        """Return the energy in J, and its gradient (n, 3) N at positions (n, 3) m."""
        value, elastic, non_elastic = self._contact_free_terms(x)
        if self.contacts is not None:
            potential, slope = self.contacts.value_gradient(x)
            value += potential
            non_elastic = slope if non_elastic is None else non_elastic + slope
        self._last_gradients = (x, elastic, non_elastic)
        gradient = self._theta * elastic
        if self.links is not None:
            potential, slope = self.links.value_gradient(x, self._factors)
            value, gradient = value + self._theta * potential, gradient + self._theta * slope
        return value, gradient if non_elastic is None else gradient + non_elastic

    def _contact_free_terms(self, x: Array) -> tuple[float, Array, Array | None]:
        """Return the contact-free energy in J, and its elastic and non-elastic gradients (n, 3) N.

        Two evaluations are cached: after a change of contacts, a search restarts at its last position or at one of two
        compared ones.
        """
        for known in self._cached_terms:
            if are_equal(known[0], x):
                return known[1:]
        value, elastic, non_elastic = 0.0, np.zeros_like(x), None
        for joined in self._batched:
            potential, slope = joined.value_gradient(x)
            value += self._theta * potential
            elastic += slope
        for place, scale, energy, material in self._unbatched:
            part = self._system.slices[place]
            potential, slope = energy.value_gradient(x[part])
            if material:
                value += self._theta * scale * potential
                elastic[part] += scale * slope
            else:
                non_elastic = np.zeros_like(x) if non_elastic is None else non_elastic
                value += scale * potential
                non_elastic[part] += scale * slope
        self._cached_terms = [(x, value, elastic, non_elastic), *self._cached_terms[:1]]
        return value, elastic, non_elastic

    def elastic_gradient(self, x: Array) -> Array:
        """Return the gradient (n, 3) N of the blocks' elastic energies over their stiffness factors, without theta."""
        return self._gradients_at(x)[1] / _nodal_factors(self._system, self._factors)

    def scaled_by_theta(self, force: Array, nodes: Index) -> Array:
        """Scale forces (k, 3) N at nodes (k,), over their blocks' stiffness factors, by those factors and theta."""
        each = _nodal_factors(self._system, self._factors)
        return np.asarray(force * self._theta * (each if isinstance(each, float) else each[nodes]))

    def has_external_force(self, x: Array, nodes: Index) -> bool:
        """Return whether a non-elastic force, such as a contact, acts on any of the nodes at positions (n, 3) m."""
        other = self._gradients_at(x)[2]
        return other is not None and bool(other[nodes].any())

    def _gradients_at(self, x: Array) -> tuple[Array, Array, Array | None]:
        """Return the gradients (n, 3) N of the last evaluation, after a new one at x if that was elsewhere."""
        if self._last_gradients is None or not are_equal(self._last_gradients[0], x):
            self.value_gradient(x)
        assert self._last_gradients is not None
        return self._last_gradients

    def hessian(self, x: Array, project: bool) -> csr_matrix:
        """Return the Hessian (3n, 3n) N/m; with project, its positive semi-definite part."""
        system = self._system
        parts = [csr_matrix((3 * len(block.rest),) * 2) for block in system.blocks]
        for place, scale, energy, material in self._energies:
            factor = scale * self._theta if material else scale
            parts[place] = parts[place] + factor * energy.hessian(x[system.slices[place]], project)
        total = parts[0] if len(parts) == 1 else block_diag(parts, format="csr")
        if self.links is not None:
            total = total + self._theta * self.links.hessian(x, self._factors, project)
        if self.contacts is not None:
            total = total + self.contacts.hessian(x, project)
        return total.tocsr()

    def tangent(self, x: Array) -> Tangent:
        """Return the positive semi-definite part of the Hessian as a sum of blocks, which is cheap to assemble."""
        blocks = []
        for part, factor, energy in self.scaled_energies:
            if isinstance(energy, ShellBending) and energy.coordinate_hessian is not None:
                blocks.append(TangentBlock(part, factor, energy.coordinate_hessian, False))
            else:
                hessian = energy.block_hessian if isinstance(energy, Membrane) else energy.hessian
                blocks.append(TangentBlock(part, factor, hessian(x[part], True), True))
        if self.contacts is not None:
            blocks.append(TangentBlock(slice(0, len(x)), 1.0, self.contacts.hessian(x), True))
        if self.links is not None:
            blocks.append(TangentBlock(slice(0, len(x)), self._theta, self.links.hessian(x, self._factors, True), True))
        return Tangent(tuple(blocks), len(x))


def _nodal_factors(system: System, factors: Array) -> float | Array:
    """Return the blocks' stiffness factors (b,) at the nodes (n, 1), or the single factor."""
    return float(factors[0]) if len(factors) == 1 else factors[system.node_blocks()][:, None]


@dataclass(frozen=True)
class StepStartForces:
    """History and forces of the waveform law at the start of a step.

    velocity: (n, 3) m/s, of the deformation alone.
    elastic_gradient: (n, 3) N, see DeformationHistory; None where theta differs between nodes.
    dead_load: (n, 3) N, (1 - theta) g - sigma h g' of the elastic force g and its rate of change.
    history: history of the last step; None at the start of a shot.
    elastic_force: (n, 3) N, the total elastic force at the start of a shot or where the dials change; None later.
    """

    velocity: Array
    elastic_gradient: Array | None
    dead_load: Array
    history: DeformationHistory | None
    elastic_force: Array | None = None


def step_start_forces(
    system: System,
    state: State,
    inputs: Inputs,
    factors: Array,
    h: float,
    weights: ThetaWeights,
    has_changed_dials: bool = False,
) -> StepStartForces:
    """Return the forces at the start of a step. Without a history, the velocity and g' are zero.

    factors: (b,) stiffness factor of each block.
    """
    x, history = state.positions, system.deformation_history(state)
    velocity = np.zeros_like(x) if history is None else history.velocity
    previous_positions = x - h * velocity
    # Soft pins and fibres act here as at the start of the step.
    start_inputs = tuple(one.at_start() for one in inputs)
    elastic_energies = [
        (place, energy)
        for place, factor, energy in system.active_energies(state, start_inputs)
        if factor is StiffnessScaling.SCALED
    ]

    def block_gradient(at: Array, part: Array | None = None) -> Array:
        total = np.zeros_like(x)
        for place, energy in elastic_energies:
            nodes = system.slices[place]
            own = energy if part is None else energy.with_nodal_scale(part[nodes])
            total[nodes] += factors[place] * own.value_gradient(at[nodes])[1]
        return total

    def link_gradient(joints: Links | None, at: Array, part: Array | None = None) -> Array:
        if joints is None:
            return np.zeros_like(x)
        return (joints if part is None else joints.with_nodal_scale(part)).value_gradient(at, factors)[1]

    # Rigid links act instantly: their forces have no history.
    soft_links = None if system.links is None else system.links.soft_links

    if not weights.is_uniform:
        theta, sigma = np.asarray(weights.theta), np.asarray(weights.sigma)
        dead_load = block_gradient(x, 1.0 - theta) + link_gradient(soft_links, x, 1.0 - theta)
        if history is not None:
            dead_load -= (
                block_gradient(x, sigma)
                + link_gradient(soft_links, x, sigma)
                - block_gradient(previous_positions, sigma)
                - link_gradient(soft_links, previous_positions, sigma)
            )
        elastic = block_gradient(x) + link_gradient(system.links, x) if history is None or has_changed_dials else None
        return StepStartForces(velocity, None, dead_load, history, elastic)
    nodal_factors = _nodal_factors(system, factors)
    if history is not None and history.elastic_gradient is not None and history.force_rate is not None:
        force, change = history.elastic_gradient, h * history.force_rate
    else:
        force = block_gradient(x) / nodal_factors
        change = force - block_gradient(previous_positions) / nodal_factors if history is not None else np.zeros_like(x)
    dead_load = nodal_factors * ((1.0 - weights.theta) * force - weights.sigma * change)
    if soft_links is not None:
        dead_load = (
            dead_load
            + (1.0 - weights.theta) * link_gradient(soft_links, x)
            - weights.sigma * (link_gradient(soft_links, x) - link_gradient(soft_links, previous_positions))
        )
    elastic = None
    if history is None or has_changed_dials:
        elastic = np.asarray(nodal_factors * force + link_gradient(system.links, x))
    return StepStartForces(velocity, force, np.asarray(dead_load), history, elastic)


def elastic_force_change(system: System, state: State, inputs: Inputs, factors: Array, displacements: Array) -> Array:
    """Return the change (n, 3) N of the elastic force over the last displacements (n, 3) m.

    factors: (b,) stiffness factor of each block.
    """
    # Soft pins act here as at the start of the step.
    start_inputs = tuple(one.at_start() for one in inputs)
    change, x, before = np.zeros_like(displacements), state.positions, state.positions - displacements
    for place, factor, energy in system.active_energies(state, start_inputs):
        if factor is StiffnessScaling.SCALED:
            nodes = system.slices[place]
            forces = energy.value_gradient(x[nodes])[1], energy.value_gradient(before[nodes])[1]
            change[nodes] += factors[place] * (forces[0] - forces[1])
    soft_links = None if system.links is None else system.links.soft_links
    if soft_links is not None:
        change += soft_links.value_gradient(x, factors)[1] - soft_links.value_gradient(before, factors)[1]
    return change
