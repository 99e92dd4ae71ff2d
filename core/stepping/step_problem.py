"""Potential psi of one substep (docs/physics.md section 1) with the inertia of section 2."""

from __future__ import annotations

from collections.abc import Set

import numpy as np
from scipy.sparse import csr_matrix, diags

from ..arrays import Array, Index, rows
from ..contact.rows import ContactEnergy, Rows
from ..solvers.factor import LowRank, Solve
from ..solvers.metric import metric_of
from ..solvers.problem import Accepted
from ..solvers.ways import longest
from ..system.fibres import draws
from ..system.inputs import Inputs
from ..system.state import State
from ..system.term import Term
from .carrier import Moment
from .controls import Controls
from .held import Around
from .inertia import RegionTerms, region_terms, resisting, waveform_terms
from .keeping import Ending
from .last_way import secant
from .potentials import AtStart, Potentials, Share, at_start, shared_out
from .prefactored import Prefactored
from .remembered import forgotten
from .renewing import Renewing
from .touching import Metric, Touched


class StepProblem:
    """Potential psi(v) over the free nodes' velocities (f, 3), with its preconditioner."""

    def __init__(
        self,
        stepper: Prefactored,
        state: State,
        inputs: Inputs,
        h: float,
        controls: Controls,
        calm: bool = False,
        damped_at: Array | None = None,
        around: Around | None = None,
    ) -> None:
        """use_fallback_coefficients: for all regions.  damping_positions: see step.Stepper."""
        system = stepper.system
        self._stepper, self._state, self._inputs, self._h, self._calm = stepper, state, inputs, h, calm
        self._around = around or Around()
        self._touched: Touched | None = None
        self._factors = controls.factors(len(system.blocks))
        self._next = system.placed(state.positions, inputs)
        self._reference = (self._next - state.positions) / h
        calmer = range(len(controls.laws)) if calm else self._around.hit
        self._coefficients = [
            law.calmer(h) if place in calmer else law.coefficients(h) for place, law in enumerate(controls.laws)
        ]
        share = shared_out(stepper, self._coefficients)
        self._potentials = Potentials(system, state, inputs, self._factors, share.theta)
        self._assemble_inertia(Moment.of(system, state, inputs, h), controls, share)
        # M/s + h theta e K = theta e (M/(s theta e) + h K) with the stiffness factor e.
        theta = share.theta if share.uniform else 1.0
        self._scale = float(self._factors[0]) * float(theta)
        parts = None if share.uniform else np.asarray(share.theta)
        counted = resisting(self._inertia / self._scale, self._coefficients, stepper.firm)
        self._solve = stepper.factor(h, counted, self._factors, parts)
        place = state.positions if damped_at is None else damped_at
        self._drag = system.drag(state.memory, place, self._factors)
        if stepper.viscous is not None:
            self._drag = stepper.viscous(place).tocsr() + (0 if self._drag is None else self._drag)
        self._from = rows(state.positions, stepper.free)
        self._placed: tuple[Array, Array] | None = None
        # An unpinned body starts with the velocity that its weight adds, so no search step changes its momentum.
        self.start = self.allowed(self._predicted + h * self._flying[:, None] * system.pull(inputs, stepper.free))
        self._changed: tuple[Array, list[tuple[Array, Array]]] | None = None
        rotation = stepper.turns.at(self.positions(self.start), self._regions)
        # No reference back to the problem: a cycle would keep factorisations alive until the garbage collector runs.
        self._metric = Metric(stepper, self._positive, self._solve, rotation, self._scale, h)
        self._renewing = Renewing(stepper.turns, self._regions, self._metric, draws(system.blocks, inputs))
        self.value_noise = self._potentials.rounding / h
        self.noise = stepper.rounding(self._solve, self._far(state, share)) / np.sqrt(self._scale)

    def _assemble_inertia(self, moment: Moment, controls: Controls, share: Share) -> None:
        stepper = self._stepper
        count, system = len(stepper.free), stepper.system
        throws = controls.throws(len(system.blocks))
        self._inertia = np.empty(count)
        self._predicted = np.empty((count, 3))
        self._load = np.empty((count, 3))
        self._regions = np.empty((count, 3, 3))
        self._flying = np.zeros(count)
        self._begin: AtStart | None = None
        if any(law.waveform for law in controls.laws):
            self._begin = at_start(system, moment.state, moment.inputs, self._factors, moment.h, share)
        self._terms: list[tuple[Index, RegionTerms]] = []
        for place, (region, coefficients) in enumerate(zip(system.regions, self._coefficients, strict=True)):
            slots, parts = stepper.slot[region.free], stepper.pieces[place]
            if self._begin is not None and coefficients.waveform:
                ground, touched = self._around.grounds.get(place), place in self._around.touched
                terms = waveform_terms(moment, region, parts, coefficients, throws, self._begin, touched, ground)
            else:
                terms = region_terms(moment, region, parts, coefficients, throws)
                self._flying[slots] = not len(region.held)
            self._reference[region.free] = terms.reference
            self._inertia[slots], self._predicted[slots] = terms.inertia, terms.predicted
            self._load[slots], self._regions[slots] = terms.load, terms.rotation
            self._terms.append((slots, terms))
        places = [one for one, _ in self._terms]
        own = [(one.columns, one.signs) for _, one in self._terms]
        self.low_rank = self._low_rank = self._positive = LowRank.of(count, places, own)
        if any(one.metric for _, one in self._terms):
            lifted = [one.metric or known for (_, one), known in zip(self._terms, own, strict=True)]
            self._positive = LowRank.of(count, places, lifted)

    def _far(self, state: State, share: Share) -> Array:
        """Return each free node's stiffness factor and theta times the largest coordinate of its block, m."""
        system, free = self._stepper.system, self._stepper.free
        far = [float(np.abs(state.positions[part]).max(initial=0.0)) for part in system.slices]
        each = np.array(far) * self._factors
        theta = share.theta if np.ndim(share.theta) == 0 else np.asarray(share.theta)[free]
        return np.asarray((each[0] if len(each) == 1 else each[system.owner()[free]]) * theta)

    def positions(self, v: Array) -> Array:
        """Return the positions (n, 3) m of all nodes at the end of a step with velocities v (f, 3)."""
        if self._placed is None or self._placed[0] is not v:
            x = self._next.copy()
            x[self._stepper.free] = self._from + self._h * v
            self._placed = v, x
        return self._placed[1]

    def value_gradient(self, v: Array) -> tuple[float, Array]:
        if self._touched:
            self._touched.tried += 1
        # A trial may overshoot; its value is then infinite or NaN, and the search backtracks.
        with np.errstate(over="ignore", invalid="ignore"):
            return self._value_gradient(v)

    def _value_gradient(self, v: Array) -> tuple[float, Array]:
        x = self.positions(v)
        free = self._stepper.free
        change = v - self._predicted
        momentum = self._inertia[:, None] * change
        value = 0.5 * float(np.vdot(momentum, change))
        gradient = momentum - self._load
        if not self._low_rank.empty:
            along = self._low_rank.along(change.ravel())
            value += 0.5 * float(np.vdot(self._low_rank.signs, along**2))
            gradient += self._low_rank.combined(self._low_rank.columns, self._low_rank.signs * along).reshape(-1, 3)
        value -= float(np.vdot(self._load, v))
        if self._drag is not None:
            # Pins have the velocities of their animation.
            given = (self._next - self._state.positions) / self._h
            given[free] = v
            pull = (self._drag @ given.ravel()).reshape(-1, 3)
            value += 0.5 * float(np.vdot(pull, given))
            gradient += rows(pull, free)
        potential, slope = self._potentials.value_gradient(x)
        return value + potential / self._h, gradient + rows(slope, free)

    def motion(self, v: Array) -> float:
        """Return the norm of the deformation velocity in sqrt(W s), as if it were all in the first mode.

        It is infinite if unknown. The norm of the predicted velocity is no measure: straight motion may stretch a
        slender body so much that a small fraction of that error exceeds all of its bending.
        """
        total, changes = 0.0, self._changes(v)
        if changes is None:
            return np.inf
        for (_, terms), one, (change, along) in zip(self._terms, self._coefficients, changes, strict=True):
            stiff = float((terms.inertia * (1.0 + one.theta * one.q)) @ np.einsum("fi,fi->f", change, change))
            # The rigid part has no inertia time and no stiffness.
            total += stiff + float(along @ along) / self._h
        return float(np.sqrt(total))

    def way(self, v: Array) -> float:
        """Return the largest deformation velocity of a node, m/s; infinite if unknown."""
        return max((longest(change) for change, _ in self._changes(v) or ()), default=np.inf)

    def _changes(self, v: Array) -> list[tuple[Array, Array]] | None:
        """Return deformation velocities (f, 3) and rigid amplitudes of each region; None if unknown."""
        if self._begin is None:
            return None
        if self._changed is not None and self._changed[0] is v:
            return self._changed[1]
        found = []
        for slots, terms in self._terms:
            if terms.ahead is None:
                return None
            free, along = self._stepper.free[slots], np.zeros(0)
            change = rows(v, slots) - (terms.ahead - rows(self._state.positions, free)) / self._h
            if terms.flight is not None:
                along = np.einsum("fik,fi,f->k", terms.flight.basis, change, self._stepper.system.mass[free])
                change = change - terms.flight.basis @ along
            found.append((change, along))
        self._changed = v, found
        return found

    def secant(self, v: Array) -> tuple[Array, Array] | None:
        """Return a direction (f, 3) m/s and the gradient's change (f, 3) N along it, or None, from the last step."""
        begin, nodes = self._begin, self._stepper.free
        if begin is None or begin.past is None or self._stepper.system.joints is not None:
            return None
        force = self._potentials.elastic(self.positions(v))
        found = secant(begin, self._terms, self._coefficients, nodes, force, self._h)
        if found is None:
            return None
        way, stress = found
        return way, self._inertia[:, None] * way + self._h * self._potentials.shared(stress, nodes)

    def begun(self, guess: Array | None) -> Array:
        """Return the velocities (f, 3) to start from."""
        return self.start if guess is None else self.allowed(guess)

    @property
    def slots(self) -> Index:
        """Row of v of each node, (n,); -1 for hard pins."""
        return self._stepper.slot

    @property
    def as_before(self) -> Array:
        """Velocities (f, 3) m/s of the last step."""
        return self._state.velocities[self._stepper.free]

    def lower(self, rows: Rows, pressing: Array, *found: Array) -> Array:
        """Return the velocities (f, 3) with the lowest psi, with contacts as in set_contacts()."""
        self._potentials.touch(ContactEnergy(rows, pressing) if len(rows) else None)
        starts = [self.allowed(v) for v in found]
        return min(starts, key=lambda v: self.value_gradient(v)[0])

    def allowed(self, v: Array) -> Array:
        """Scale velocities (f, 3) down to the largest fraction that all terms allow from the start."""
        part = self.largest_step(np.zeros_like(v), v)
        return v if part == 1.0 else part * v

    def largest_step(self, v: Array, direction: Array) -> float:
        limiting = [
            (part, term)
            for block, part in zip(self._stepper.system.blocks, self._stepper.system.slices, strict=True)
            for term in block.terms
            if type(term).largest_step is not Term.largest_step
        ]
        if not limiting:
            return 1.0
        x, way = self.positions(v), np.zeros_like(self._next)
        way[self._stepper.free] = self._h * direction
        return min(term.largest_step(x[part], way[part]) for part, term in limiting)

    def hessian(self, v: Array, project: bool) -> csr_matrix:
        x = self.positions(v)
        dof = self._stepper.dof
        total = diags(self._inertia.repeat(3)).tocsr()
        if self._drag is not None:
            total = total + self._drag[dof][:, dof]
        return total + self._h * self._potentials.hessian(x, project)[dof][:, dof]

    @property
    def contacts(self) -> ContactEnergy | None:
        return self._potentials.contacts

    def precondition(self, gradient: Array) -> Array:
        return self._metric(gradient.ravel()).reshape(-1, 3)

    def touch(self, rows: Rows, pressing: Array, v: Array) -> None:
        """Replace the contacts, and precondition with their stiffness at v (f, 3).

        normal_forces: (k,) N, lagged normal forces.
        """
        self._touched, self.low_rank = None, self._low_rank
        self._potentials.touch(None)
        self._metric.loosen()
        if len(rows):
            if len(self._low_rank.signs) > 1 and not self._low_rank.empty:
                self.low_rank = self._low_rank.joined()
            free, x = self._stepper.free, self.positions(v)
            self._touched = Touched(self._potentials, self._metric, free, rows, pressing, x, self._h)

    def accept(self, v: Array, value: float, gradient: Array) -> Accepted:
        if self._touched is None:
            return Accepted(value, gradient, fresh=self._renewing.again(v, self.positions, self._factorised))
        return self._touched.accept(self.positions(v), value, gradient)

    def _factorised(self, v: Array) -> Solve:
        return metric_of(self.hessian(v, True).tocsr(), self._stepper.system.rest[self._stepper.free])

    def apart(self, step: Array) -> Array | None:
        return None if self._touched is None else self._metric.pushed(step)

    def state_after(self, v: Array, stopped: Set[int] = frozenset()) -> State:
        """Return the state at the step's end, with velocities v (f, 3) m/s. truncated_regions: see StepEnd."""
        x = self.positions(v)
        stepper, state, h = self._stepper, self._state, self._h
        velocities = (x - state.positions) / h
        velocities[stepper.free] = v
        memory = stepper.system.remembered(state.memory, x)
        if self._begin is None:
            return State(state.time + h, x, velocities, self._reference, forgotten(memory))
        kept = Ending(
            stepper.system, state, self._inputs, h, self._potentials, [one for _, one in self._terms],
            self._coefficients, self._factors, self._around.hit, stopped,
        ).kept(x, velocities, self._begin)  # fmt: skip
        # A fallback step may undo a whole swing at once. As a history velocity it would amplify the next steps.
        memory = forgotten(memory) if self._calm else kept.kept(stepper.system, memory)
        return State(state.time + h, x, velocities, self._reference, memory)
