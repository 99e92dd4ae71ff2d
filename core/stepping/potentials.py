"""Potential of one step: terms, links and contacts; and its forces at the step's start (docs/physics.md section 2)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from scipy.sparse import block_diag, csr_matrix

from ..arrays import Array, Index
from ..contact.rows import ContactEnergy
from ..energies import Energy, Membrane, ShellBending, TetElasticity
from ..system.inputs import Inputs
from ..system.links import Joints
from ..system.state import State
from ..system.system import System
from ..system.term import Factor
from .law import Coefficients
from .prefactored import Prefactored
from .remembered import Remembered
from .tangent import Part, Tangent


@dataclass(frozen=True)
class Share:
    """Weights theta and sigma, see law.Coefficients: numbers where all nodes have the same, else (n,) each."""

    theta: float | Array
    sigma: float | Array

    @property
    def uniform(self) -> bool:
        """Whether all nodes have the same weights."""
        return np.ndim(self.theta) == 0 and np.ndim(self.sigma) == 0


def shared_out(stepper: Prefactored, coefficients: Sequence[Coefficients]) -> Share:
    """Return theta and sigma of all nodes, from the coefficients of each region."""
    found = [(one.theta, one.sigma) for one in coefficients]
    if not found:
        return Share(1.0, 0.0)
    if all(np.ndim(theta) == 0 and np.ndim(sigma) == 0 for theta, sigma in found) and len(set(found)) == 1:
        return Share(*found[0])
    both = np.empty((len(stepper.free), 2))
    both[:] = 1.0, 0.0
    for region, (theta, sigma) in zip(stepper.system.regions, found, strict=True):
        slots = stepper.slot[region.free]
        both[slots, 0], both[slots, 1] = theta, sigma
    # Hard pins take the weights of the nearest free node.
    return Share(both[stepper.beside, 0], both[stepper.beside, 1])


class Potentials:
    """Potential of the terms, links and contacts of a system in one step.

    rounding: energy differences up to this are rounding errors, J.
    contacts: active contacts; None if there are none.
    """

    def __init__(self, system: System, state: State, inputs: Inputs, factors: Array, theta: float | Array) -> None:
        """factors: (b,) stiffness factor of each block.  theta: weight of the elastic energies, see ThetaWeights."""
        self._system, self._factors = system, factors
        uniform = np.ndim(theta) == 0
        self._theta = float(theta) if uniform else 1.0
        self._energies: list[tuple[int, float, Energy, bool]] = []
        for place, factor, energy in system.prepared(state, inputs):
            elastic = factor is Factor.MATERIAL
            own = energy if uniform or not elastic else energy.scaled(np.asarray(theta)[system.slices[place]])
            self._energies.append((place, float(factors[place]) if elastic else 1.0, own, elastic))
        self._together, self._alone = self._joined()
        joints = system.joints
        self._joints = joints if joints is None or uniform else joints.scaled(np.asarray(theta))
        self.rounding = sum(
            scale * energy.rounding * (self._theta if elastic else 1.0) for _, scale, energy, elastic in self._energies
        )
        self.contacts: ContactEnergy | None = None
        self._last: tuple[Array, Array, Array | None] | None = None
        self._known: list[tuple[Array, float, Array, Array | None]] = []

    def _joined(self) -> tuple[list[TetElasticity], list[tuple[int, float, Energy, bool]]]:
        """Return the blocks' elastic energies that are evaluated in one batch, scaled, and all other energies."""
        here = {(place, id(energy)): scale for place, scale, energy, elastic in self._energies if elastic}
        together, gone = [], set()
        for one in self._system.joined:
            # Plastic and partly weighted energies are new objects in each step.
            keys = [(place, id(energy)) for place, energy in one.parts]
            if all(key in here for key in keys):
                scales = np.ones(len(self._system.blocks))
                for key in keys:
                    scales[key[0]] = here[key]
                together.append(one.energy.times(scales[one.block]))
                gone.update(keys)
        return together, [one for one in self._energies if (one[0], id(one[2])) not in gone]

    def touch(self, contacts: ContactEnergy | None) -> None:
        """Replace the active contacts."""
        self.contacts, self._last = contacts, None

    def value_gradient(self, x: Array) -> tuple[float, Array]:
        """Return the energy in J, and its gradient (n, 3) N at positions (n, 3) m."""
        value, elastic, other = self._terms_at(x)
        if self.contacts is not None:
            potential, slope = self.contacts.value_gradient(x)
            value += potential
            other = slope if other is None else other + slope
        self._last = (x, elastic, other)
        gradient = self._theta * elastic
        if self._joints is not None:
            potential, slope = self._joints.value_gradient(x, self._factors)
            value, gradient = value + self._theta * potential, gradient + self._theta * slope
        return value, gradient if other is None else gradient + other

    def _terms_at(self, x: Array) -> tuple[float, Array, Array | None]:
        """Return the contact-free energy in J, and its elastic and non-elastic gradients (n, 3) N.

        Two evaluations are cached: after a change of contacts, a search restarts at its last position or at one of two
        compared ones.
        """
        for known in self._known:
            if np.array_equal(known[0], x):
                return known[1:]
        value, elastic, other = 0.0, np.zeros_like(x), None
        for joined in self._together:
            potential, slope = joined.value_gradient(x)
            value += self._theta * potential
            elastic += slope
        for place, scale, energy, material in self._alone:
            part = self._system.slices[place]
            potential, slope = energy.value_gradient(x[part])
            if material:
                value += self._theta * scale * potential
                elastic[part] += scale * slope
            else:
                other = np.zeros_like(x) if other is None else other
                value += scale * potential
                other[part] += scale * slope
        self._known = [(x, value, elastic, other), *self._known[:1]]
        return value, elastic, other

    def elastic(self, x: Array) -> Array:
        """Return the gradient (n, 3) N of the blocks' elastic energies over their stiffness factors, without theta."""
        return self._at(x)[1] / _each(self._system, self._factors)

    def shared(self, force: Array, nodes: Index) -> Array:
        """Scale forces (k, 3) N at nodes (k,), over their blocks' stiffness factors, by those factors and theta."""
        each = _each(self._system, self._factors)
        return np.asarray(force * self._theta * (each if isinstance(each, float) else each[nodes]))

    def pushed(self, x: Array, nodes: Index) -> bool:
        """Return whether a non-elastic force, such as a contact, acts on any of the nodes at positions (n, 3) m."""
        other = self._at(x)[2]
        return other is not None and bool(other[nodes].any())

    def _at(self, x: Array) -> tuple[Array, Array, Array | None]:
        """Return the gradients (n, 3) N of the last evaluation, after a new one at x if that was elsewhere."""
        if self._last is None or not np.array_equal(self._last[0], x):
            self.value_gradient(x)
        assert self._last is not None
        return self._last

    def hessian(self, x: Array, project: bool) -> csr_matrix:
        """Return the Hessian (3n, 3n) N/m; with project, its positive semi-definite part."""
        system = self._system
        parts = [csr_matrix((3 * len(block.rest),) * 2) for block in system.blocks]
        for place, scale, energy, material in self._energies:
            factor = scale * self._theta if material else scale
            parts[place] = parts[place] + factor * energy.hessian(x[system.slices[place]], project)
        total = parts[0] if len(parts) == 1 else block_diag(parts, format="csr")
        if self._joints is not None:
            total = total + self._theta * self._joints.hessian(x, self._factors, project)
        if self.contacts is not None:
            total = total + self.contacts.hessian(x, project)
        return total.tocsr()

    def tangent(self, x: Array) -> Tangent:
        """Return the positive semi-definite part of the Hessian as a sum of blocks, which is cheap to assemble."""
        system, found = self._system, []
        for place, scale, energy, material in self._energies:
            factor, part = (scale * self._theta if material else scale), system.slices[place]
            if isinstance(energy, ShellBending) and energy.scalar is not None:
                found.append(Part(part, factor, energy.scalar, False))
            else:
                own = energy.blocks(x[part], True) if isinstance(energy, Membrane) else energy.hessian(x[part], True)
                found.append(Part(part, factor, own, True))
        if self.contacts is not None:
            found.append(Part(slice(0, len(x)), 1.0, self.contacts.hessian(x), True))
        if self._joints is not None:
            found.append(Part(slice(0, len(x)), self._theta, self._joints.hessian(x, self._factors, True), True))
        return Tangent(tuple(found), len(x))


def _each(system: System, factors: Array) -> float | Array:
    """Return the blocks' stiffness factors (b,) at the nodes (n, 1), or the single factor."""
    return float(factors[0]) if len(factors) == 1 else factors[system.owner()][:, None]


@dataclass(frozen=True)
class AtStart:
    """History and forces of the waveform law at the start of a step.

    velocity: (n, 3) m/s, of the deformation alone.
    elastic_gradient: (n, 3) N, see DeformationHistory; None where theta differs between nodes.
    dead_load: (n, 3) N, (1 - theta) g - sigma h g' of the elastic force g and its rate of change.
    history: history of the last step; None at the start of a shot.
    initial_elastic_force: (n, 3) N, the total elastic force at the start of a shot; None later.
    """

    velocity: Array
    force: Array | None
    dead: Array
    past: Remembered | None
    elastic: Array | None = None


def at_start(system: System, state: State, inputs: Inputs, factors: Array, h: float, share: Share) -> AtStart:
    """Return the forces at the start of a step. Without a history, the velocity and g' are zero.

    factors: (b,) stiffness factor of each block.
    """
    x, past = state.positions, Remembered.of(system, state)
    velocity = np.zeros_like(x) if past is None else past.velocity
    before = x - h * velocity
    # Soft pins and fibres act here as at the start of the step.
    begun = tuple(one.begun() for one in inputs)
    found = [(place, energy) for place, factor, energy in system.prepared(state, begun) if factor is Factor.MATERIAL]

    def blocks(at: Array, part: Array | None = None) -> Array:
        total = np.zeros_like(x)
        for place, energy in found:
            nodes = system.slices[place]
            own = energy if part is None else energy.scaled(part[nodes])
            total[nodes] += factors[place] * own.value_gradient(at[nodes])[1]
        return total

    def links(joints: Joints | None, at: Array, part: Array | None = None) -> Array:
        if joints is None:
            return np.zeros_like(x)
        return (joints if part is None else joints.scaled(part)).value_gradient(at, factors)[1]

    # Rigid links act instantly: their forces have no history.
    soft = None if system.joints is None else system.joints.soft

    if not share.uniform:
        theta, sigma = np.asarray(share.theta), np.asarray(share.sigma)
        dead = blocks(x, 1.0 - theta) + links(soft, x, 1.0 - theta)
        if past is not None:
            dead -= blocks(x, sigma) + links(soft, x, sigma) - blocks(before, sigma) - links(soft, before, sigma)
        return AtStart(velocity, None, dead, past, blocks(x) + links(system.joints, x) if past is None else None)
    each = _each(system, factors)
    if past is not None and past.force is not None and past.rate is not None:
        force, change = past.force, h * past.rate
    else:
        force = blocks(x) / each
        change = force - blocks(before) / each if past is not None else np.zeros_like(x)
    dead = each * ((1.0 - share.theta) * force - share.sigma * change)
    if soft is not None:
        dead = dead + (1.0 - share.theta) * links(soft, x) - share.sigma * (links(soft, x) - links(soft, before))
    elastic = np.asarray(each * force + links(system.joints, x)) if past is None else None
    return AtStart(velocity, force, np.asarray(dead), past, elastic)
