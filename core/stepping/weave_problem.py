"""Potential psi of a substep of woven cloth, over velocities of nodes and of yarn positions.

See docs/explanation/woven-cloth.md.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
from scipy.sparse import csr_matrix

from ..arrays import Array, Index, Mask
from ..contact.rows import ContactEnergy, Rows
from ..energies import Energy
from ..solvers.factor import LowRank
from ..solvers.problem import Accepted
from ..system.inputs import Inputs
from ..system.state import OF, State, remembered_by
from ..system.system import System
from ..system.term import Factor
from ..system.weave import ANCHORS, PLACES, PRESSED, SPEEDS, Held, Weave
from ..weave.energy import Friction, added, pressed, weighed
from ..weave.scatter import Scatter
from .carrier import Moment, Piece
from .controls import Controls, YarnDials
from .inertia import region_terms
from .remembered import forgotten
from .touching import FOLLOWS

# Fraction of a yarn segment's mass that moves with its yarn position, which otherwise has no inertia within a plane.
_OWN = 1e-3


class WeaveProblem:
    """Potential psi(v) of woven cloth.

    v (t, 3) in m/s: the nodes' velocities, then those of the two yarn positions at each crossing, see Woven.
    """

    def __init__(
        self,
        system: System,
        term: Weave,
        pieces: Sequence[tuple[Piece, ...]],
        free: Mask,
        scatter: Scatter,
        state: State,
        inputs: Inputs,
        h: float,
        controls: Controls,
    ) -> None:
        """region_slices: of the system's regions.  free: (t, 3).  scatter: of the cloth, for free unknowns only."""
        cloth = term.cloth
        self._system, self._cloth, self._state, self._h = system, cloth, state, h
        self._free, self._scatter = free, scatter
        self._dials = controls.yarns[0] if controls.yarns else YarnDials()
        factor = float(controls.factors(1)[0])
        self._elastic = term.elastic_of(factor)
        known = remembered_by(state.memory, system.blocks[0].name)
        self._u = known.get(PLACES, cloth.places)
        anchor, before = known.get(ANCHORS, self._u), known.get(PRESSED, np.zeros(len(self._u)))
        grip = np.where(cloth.slides, self._dials.grip + before, 0.0)
        self._friction = Friction(anchor, self._dials.friction * grip, factor * cloth.grip_stiffness)
        self._others: list[tuple[float, Energy]] = [
            (factor if kind is Factor.MATERIAL else 1.0, energy)
            for _, kind, energy in system.prepared(state, inputs)
            if not isinstance(energy, Held)
        ]
        self._pull = np.broadcast_to(system.pull(inputs, np.arange(cloth.count)), (cloth.count, 3))
        placed = system.placed(state.positions, inputs)
        self._pinned = (placed - state.positions) / h
        self._assemble_inertia(Moment.of(system, state, inputs, h), pieces, controls, known.get(SPEEDS))
        self._damp()
        nothing = np.zeros_like(self._u)
        there = cloth.stacked(self._pinned, nothing)
        self.start = np.where(free, cloth.stacked(state.velocities, self._speeds), there)
        self.value_noise = 0.0
        self.noise = 0.0
        self._contacts: ContactEnergy | None = None
        self._followed = 0

    def _assemble_inertia(
        self, moment: Moment, pieces: Sequence[tuple[Piece, ...]], controls: Controls, speeds: Array | None
    ) -> None:
        """Assemble |x' - w u'|^2 of each yarn at each crossing, w at the step's start, and a small inertia of u'."""
        cloth, h, state = self._cloth, self._h, self._state
        self._speeds = np.zeros(len(self._u)) if speeds is None else speeds
        predicted = self._pinned.copy()
        rate = np.full(cloth.count, 1.0 / h)
        self.reference = self._pinned.copy()
        throws = controls.throws(1)
        # Inertial acceleration of the yarns, m/s^2. It acts at pins too: yarns slide there as elsewhere.
        felt = -throws[0] * (self._pinned - state.reference) / h
        masses, w = cloth.masses(self._u), cloth.directions(state.positions, self._u)
        heavy = np.asarray(np.bincount(cloth.node, masses, minlength=cloth.count), dtype=float)
        crossing, part = cloth.node[cloth.crossings[:, 0]], (masses / heavy[cloth.node])[:, None]
        # A yarn that has slid loads another node than the one where it was woven.
        (block,) = moment.system.blocks
        moment = replace(moment, system=replace(moment.system, blocks=(replace(block, mass=heavy),)))
        places, found = [], []
        for region, parts, law in zip(self._system.regions, pieces, controls.laws, strict=True):
            terms = region_terms(moment, region, parts, law.coefficients(h), throws)
            predicted[region.free] = terms.predicted
            # Weight and inertial load act on the yarns, not on the nodes.
            felt[region.free] = (terms.load - moment.weight(region.free)) / heavy[region.free][:, None]
            rate[region.free] = terms.inertia / heavy[region.free]
            self.reference[region.free] = terms.reference
            # The rigid motion is that of the yarns: sliding carries a part of it.
            own = np.zeros((cloth.triples, 3, len(terms.signs)))
            own[region.free] = terms.columns
            for side, one in enumerate(cloth.crossings.T):
                own[cloth.count :, side] = -part[one] * np.einsum("ci,cik->ck", w[one], own[crossing])
            there = np.concatenate([region.free, cloth.count + np.flatnonzero(np.isin(crossing, region.free))])
            places.append(there)
            found.append((own[there], terms.signs))
        heavy = masses * rate[cloth.node]
        self._heavy = np.bincount(cloth.node, heavy, minlength=cloth.count)
        blocks = np.zeros((len(masses), 4, 4))
        blocks[:, :3, :3] = heavy[:, None, None] * np.eye(3)
        blocks[:, :3, 3] = blocks[:, 3, :3] = -heavy[:, None] * w
        blocks[:, 3, 3] = heavy * (w * w).sum(axis=1) + _OWN * masses / h
        self._inertia = blocks
        self._target = cloth.stacked(predicted, self._speeds)
        pushed = masses[:, None] * felt[cloth.node]
        load = np.zeros_like(self._pinned)
        np.add.at(load, cloth.node, pushed)
        self._load = cloth.stacked(load, -(w * pushed).sum(axis=1))
        low = LowRank.of(cloth.triples, places, found)
        # Pins hold crossings whose yarns slide from one region into another, so the regions are coupled.
        self._low = low.joined() if len(low.signs) > 1 and not low.empty else low

    def _damp(self) -> None:
        """Assemble the damping matrix C at the step's start."""
        dials, x = self._dials, self._state.positions
        made = self._elastic.rayleigh_blocks if dials.rayleigh else self._elastic.rate_blocks
        own = made(x, self._u, dials.stretch, dials.bend)
        self._drag = np.zeros(self._cloth.unknowns)
        self._drag[self._cloth.slot[self._cloth.slides]] = dials.drag
        self._viscous = ((self._cloth.along_unknowns, own.along), (self._cloth.bend_unknowns, own.bend))
        blocks = [own.along, own.bend, own.shear, self._inertia, self._drag[:, None, None]]
        self._constant = self._scatter.numbers(blocks)

    @property
    def low_rank(self) -> LowRank:
        return self._low

    @property
    def slots(self) -> Index:
        """Row of v of each node, (n,): nodes come first."""
        return np.arange(self._cloth.count)

    @property
    def contacts(self) -> ContactEnergy | None:
        return self._contacts

    @property
    def _pushing(self) -> list[tuple[float, Energy | ContactEnergy]]:
        """Energies that depend on the nodes only, with their factors."""
        return [*self._others, *([] if self._contacts is None else [(1.0, self._contacts)])]

    def touch(self, rows: Rows, pressing: Array, v: Array) -> None:
        """Replace the contacts. normal_forces: (k,) N, lagged normal forces."""
        self._contacts = ContactEnergy(rows, pressing) if len(rows) else None
        self._followed = 0

    def accept(self, v: Array, value: float, gradient: Array) -> Accepted:
        """Update friction from the normal forces, see contact_problem.ActiveContacts."""
        if self._contacts is None or self._followed >= FOLLOWS or not self._contacts.rows.friction.any():
            return Accepted(value, gradient)
        self._followed += 1
        self._contacts = self._contacts.pressed(self.positions(v))
        return Accepted(*self.value_gradient(v))

    def positions(self, v: Array) -> Array:
        """Return the positions (n, 3) m at the step's end."""
        return self.reached(v)[0]

    def reached(self, v: Array) -> tuple[Array, Array]:
        """Return positions (n, 3) and yarn positions (p,) at the step's end, m."""
        ahead, slid = self._cloth.parted(v)
        return self._state.positions + self._h * ahead, self._u + self._h * slid

    def value_gradient(self, v: Array) -> tuple[float, Array]:
        cloth, h = self._cloth, self._h
        x, u = self.reached(v)
        elastic, slope = self._elastic.value_gradient(x, u)
        if not np.isfinite(elastic):
            return np.inf, np.zeros_like(v)
        weight, by_weight = weighed(cloth, x, u, self._pull)
        stuck, by_slip = self._friction.value_gradient(u)
        total, gradient = (elastic + weight + stuck) / h, slope + by_weight
        gradient[cloth.slot[cloth.slides]] += by_slip[cloth.slides]
        for factor, energy in self._pushing:
            value, own = energy.value_gradient(x)
            total += factor * value / h
            gradient[: own.size] += factor * own.ravel()
        flat, off = v.ravel(), (v - self._target).ravel()
        parts = [(cloth.passing_unknowns, self._inertia, off), *((where, what, flat) for where, what in self._viscous)]
        for where, blocks, of in parts:
            local = np.append(of, 0.0)[where]
            pushed = (blocks @ local[:, :, None])[:, :, 0]
            total += 0.5 * float(np.vdot(local, pushed))
            gradient += added(((where, pushed),), cloth.unknowns)
        total += 0.5 * float((self._drag * flat) @ flat) - float(np.vdot(self._load, v))
        gradient += self._drag * flat - self._load.ravel()
        if not self._low.empty:
            along = self._low.along(off)
            total += 0.5 * float((self._low.signs * along**2).sum())
            gradient += self._low.combined(self._low.columns, self._low.signs * along)
        return total, np.where(self._free, gradient.reshape(v.shape), 0.0)

    def matrix(self, v: Array) -> csr_matrix:
        cloth, h = self._cloth, self._h
        x, u = self.reached(v)
        own = self._elastic.blocks(x, u)
        diagonal = np.zeros(cloth.unknowns)
        diagonal[cloth.slot[cloth.slides]] = h * self._friction.curvature(u)[cloth.slides]
        none = np.zeros((len(cloth.node), 4, 4))
        blocks = [h * own.along, h * own.bend, h * own.shear, none, diagonal[:, None, None]]
        found = self._scatter.matrix(self._constant + self._scatter.numbers(blocks))
        for factor, energy in self._pushing:
            more = energy.hessian(x, True).tocoo()
            there = self._free.ravel()[more.row] & self._free.ravel()[more.col]
            place = (more.row[there], more.col[there])
            found = found + csr_matrix((factor * h * more.data[there], place), shape=found.shape)
        return found

    def largest_step(self, v: Array, direction: Array) -> float:
        """Return the largest fraction of the direction that keeps crossings at their minimum distance."""
        cloth = self._cloth
        D = cloth.lengths(self.reached(v)[1])
        shorter = cloth.lengths(self._h * cloth.parted(direction)[1]) - cloth.wrap
        near = shorter < 0.0
        room = (D - cloth.least)[near] / -shorter[near]
        return float(min(1.0, 0.9 * room.min(initial=np.inf)))

    @property
    def as_before(self) -> Array:
        """Velocities of the last step, from which the search starts."""
        return self.start

    def lower(self, rows: Rows, pressing: Array, *found: Array) -> Array:
        """Return the velocities with the lowest psi, with contacts as in set_contacts()."""
        self._contacts = ContactEnergy(rows, pressing) if len(rows) else None
        slowed = [self.begun(one) for one in found]
        return slowed[int(np.argmin([self.value_gradient(one)[0] for one in slowed]))]

    def begun(self, guess: Array | None = None) -> Array:
        """Return the start, or a guess, slowed down until crossings keep their minimum distance."""
        v = self.start if guess is None else guess
        for _ in range(60):
            if (self._cloth.lengths(self.reached(v)[1]) >= self._cloth.least).all():
                break
            v = np.where(self._free, 0.5 * v, v)
        return v

    def motion(self, v: Array) -> float:
        """Return the norm of the nodes' motion without the reference motion, sqrt(W s)."""
        moved = np.where(self._free[: self._cloth.count], v[: self._cloth.count] - self.reference, 0.0)
        return float(np.sqrt(self._heavy @ (moved**2).sum(axis=1)))

    def state_after(self, v: Array) -> State:
        """Return the state at the step's end, with velocities v (t, 3) m/s."""
        x, u = self.reached(v)
        speeds, name = self._cloth.parted(v)[1], self._system.blocks[0].name
        forces = self._elastic.forces(x, u)
        kept = {
            PLACES: u, SPEEDS: speeds, ANCHORS: self._friction.after(u), PRESSED: pressed(self._cloth, forces, x)
        }  # fmt: skip
        memory = {**forgotten(self._state.memory), **{f"{name}{OF}{key}": value for key, value in kept.items()}}
        velocities = self._cloth.parted(v)[0].copy()
        return State(self._state.time + self._h, x, velocities, self.reference, memory)
