"""Step with contacts: detect contacts, minimise with them, and repeat until the contact set has converged."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, replace
from typing import TypeVar

import numpy as np

from ..arrays import Array, Mask
from ..contact.corners import cornered, lingering
from ..contact.detection import Detection
from ..contact.hardening import Hardening
from ..contact.memory import ContactMemory
from ..contact.moment import Moment
from ..contact.passing import doubtful, passes
from ..contact.rows import ContactEnergy, Rows
from ..solvers.problem import Minimum, Outcome, Tolerance
from ..system.inputs import Inputs
from ..system.state import State
from ..system.system import System
from .controls import Controls
from .cut_back import cut_back
from .flowing import flows
from .found_again import carried, deeper, gone_through, same
from .ground import IMPACT, Impact, impacted, is_even, leaving, opened, rebound_before, steady, support, touches
from .held import NUMBERS, Around, Ground, Holding, drag, holding, overshoot, renewed
from .remembered import CONTACTS, DIALS, HELD, IMPACTS, Remembered, shared
from .rigid_part import adrift, balanced, drift
from .sleep import touch_dials
from .touching import Meeting, Stopped

# Contact detections at the end of a step.
_PASSES = 3
# Contacts are detected again after displacements above this fraction of the contact distance.
_STAYED = 0.02
# Penalty increases for contacts that penetrate too far.
_HARDENED = 3
# Minimisations with more iterations moved far, so their end gets an exact intersection test.
_FAR = 60
# Speed limit of a region at rest, relative to the speed that gravity adds in one step.
_SLOW = 3.0
# Friction above this fraction of the Coulomb limit counts as close to sliding.
_STRAINED = 0.7

_Kind = TypeVar("_Kind", bound=Meeting)


@dataclass(frozen=True)
class ContactStep:
    """Contact solve of one step of h s.

    contact_history: contacts at the end of the last step; None at the start of a shot.
    impacts: by pair of region indices.
    support_modes: damped rigid modes of supported regions, by region index.
    """

    system: System
    state: State
    inputs: Inputs
    h: float
    controls: Controls
    detection: Detection
    memory: ContactMemory | None
    impacts: Mapping[tuple[int, int], Impact]
    held: Mapping[int, Holding]

    @staticmethod
    def of(
        system: System, state: State, inputs: Inputs, h: float, controls: Controls, thorough: bool = False
    ) -> ContactStep:
        """Create the contact solve of a step. thorough: see Detection."""
        assert system.contact is not None
        factors = controls.factors(len(system.blocks))
        moment = Moment.of(system.contact, state.positions, [one.touching for one in inputs], factors, h)
        numbers = state.memory.get(shared(system, CONTACTS))
        memory = None if numbers is None else ContactMemory.unpacked(numbers).of_points()
        impacts = Impact.unpacked(state.memory.get(shared(system, IMPACTS)))
        known = state.memory.get(shared(system, HELD))
        held = {}
        if known is not None and known.shape == (len(system.regions), NUMBERS):
            held = {k: one for k, row in enumerate(known) if (one := Holding.unpacked(row)) is not None}
        detection = Detection(moment, memory, thorough)
        return ContactStep(system, state, inputs, h, controls, detection, memory, impacts, held)

    @property
    def _fall(self) -> float:
        """Largest speed that external accelerations add in one step, m/s."""
        return self.h * float(
            np.linalg.norm(self.system.pull(self.inputs, np.arange(len(self.system.rest))), axis=-1).max()
        )

    @property
    def _stayed(self) -> float:
        """Displacement up to which contacts are not detected again, m.

        Negative for sheets and threads, which can fold: their contacts are always detected again.
        """
        if self.detection.model.threads or any(block.is_sheet for block in self.system.blocks):
            return -1.0
        moment = self.detection.moment
        return _STAYED * float(moment.distance[[not one.is_obstacle for one in moment.model.surfaces]].min())

    @property
    def _predicted(self) -> Array:
        """Positions at the end of the step without any forces, (n, 3) m."""
        return self.system.placed(self.state.positions + self.h * self.state.velocities, self.inputs)

    def ahead(self, blocks: Collection[int]) -> float:
        """Return the predicted increase of penetration depth of some blocks without contact forces, m."""
        if self.memory is None:
            return 0.0
        x = self._predicted
        rows, model = self.detection(x), self.detection.moment.model
        mine = np.array([not one.is_obstacle and one.block in blocks for one in model.surfaces], dtype=bool)
        rows = rows.some(mine[rows.key[:, [0, 3]]].any(axis=1))
        return float(deeper(rows, x, self.memory).max(initial=0.0))

    def minimised(
        self,
        made: Callable[[Around | None], _Kind],
        minimiser: Callable[[_Kind, Array, Tolerance], Minimum],
        guess: Array | None,
        tolerance: float,
    ) -> tuple[_Kind, Minimum]:
        """Minimise with contacts until the contact set has converged. Returns the problem and its minimum.

        make_problem: creates the problem for a contact environment.
        guess: initial velocities (f, 3) m/s, or None.
        """
        # Free prediction would tunnel through supports. The previous velocities do not.
        x, known = self._predicted, self.memory or ContactMemory()
        rows = self.detection(x)
        pressing = known.pressed(rows.key)
        touched = self._touched(rows, (ContactEnergy(rows, pressing).at(x).force > 0.0) | (pressing > 0.0))
        around = Around(touched, self._grounds(rows, pressing), self._leaving())
        problem = made(around)
        v = (
            problem.begun(guess)
            if guess is not None
            else problem.lower(rows, pressing, problem.start, problem.as_before)
        )
        iterations = evaluations = 0
        first = 0.0
        hardening, hardened, attempt, soft = Hardening(), 0, 0, rows
        looked = self.detection.model.operator @ x
        while True:
            problem.touch(rows, pressing, v)
            noise = problem.noise + (problem.contacts.noise(problem.positions(v), self.h) if problem.contacts else 0.0)
            # Near the minimum, a tolerance relative to the initial error would be too strict.
            enough = noise if attempt == 0 else max(noise, tolerance * min(first, problem.motion(v)))
            minimum = minimiser(problem, v, Tolerance(tolerance, enough))
            first = minimum.first if attempt == 0 else first
            iterations += minimum.iterations
            evaluations += minimum.evaluations
            if minimum.outcome is not Outcome.CONVERGED:
                break
            v = minimum.velocities
            x = problem.positions(v)
            there = self.detection.model.operator @ x
            found, agree = soft, True
            if float(np.abs(there - looked).max()) > self._stayed:
                found = cornered(soft, self.detection(x), x, known)
                found = lingering(soft, found, x, self.detection.model.threads)
                looked, agree = there, same(rows, found, x)
            if agree and (hardened == _HARDENED or not hardening.more(found, x, known.depth(found.key))):
                break
            hardened += agree
            soft, found = found, hardening(found)
            if attempt == _PASSES + hardened:
                if gone_through(found, x, known):
                    minimum = replace(minimum, outcome=Outcome.TOUCHING)
                break
            pressing = carried(rows, found, x)
            more = around.touched | self._touched(found, ContactEnergy(found, pressing).at(x).force > 0.0)
            rows, attempt = found, attempt + 1
            if more != around.touched:
                around = replace(around, touched=more)
                problem = made(around)
        # Shortened steps would make plastic dents depend on the frame rate.
        dented = {k for k, block in enumerate(self.system.blocks) if flows(block, self.state.memory)}
        moment = self.detection.moment
        if minimum.outcome is Outcome.CONVERGED and (iterations > _FAR or doubtful(moment, found, x, dented)):
            minimum = replace(minimum, outcome=Outcome.TOUCHING) if passes(moment, x) else minimum
        if problem.contacts is not None:
            groups = adrift(self.system, problem.contacts, x, around.touched - {*around.grounds})
            minimum = replace(minimum, velocities=balanced(self.system, problem, minimum.velocities, self.h, groups))
        return problem, replace(minimum, iterations=iterations, evaluations=evaluations)

    def _touched(self, rows: Rows, pressing: Mask) -> frozenset[int]:
        """Return the indices of regions whose nodes take part in the masked contacts (k,)."""
        nodes = np.zeros(len(self.system.rest), dtype=bool)
        nodes[rows.weights.indices[pressing[rows.of]]] = True
        return frozenset(k for k, region in enumerate(self.system.regions) if nodes[region.free].any())

    def _grounds(self, rows: Rows, pressing: Array) -> dict[int, Ground]:
        """Return the supports of regions at rest, by region index. normal_force: (k,) N."""
        found: dict[int, Ground] = {}
        slow = _SLOW * self._fall
        if self._strained(rows, pressing):
            return found
        for place in sorted(steady(self.impacts)):
            if place not in self.held or not self.system.regions[place].rigid_modes:
                continue
            free = self.system.regions[place].free
            under = support(rows, pressing, self.state.velocities, free, self.h)
            own = drift(self.system, place, self.state.velocities)
            if float(np.linalg.norm(own - under)) < slow:
                even = is_even(rows, pressing, len(self.system.rest), free)
                found[place] = Ground(self.held[place], drag(self.held[place], self.controls.laws[place]), under, even)
        return found

    def _strained(self, rows: Rows, pressing: Array) -> bool:
        """Return whether friction is close to sliding, so that supported regions are not at rest.

        normal_force: (k,) N.
        """
        most = float(rows.friction @ pressing)
        stretch = np.linalg.norm((self.memory or ContactMemory()).stretch(rows.key), axis=1)
        return most > 0.0 and float(rows.stiffness @ stretch) > _STRAINED * most

    def _leaving(self) -> frozenset[int]:
        """Return the indices of regions that rebound from an impact and are still compressed."""
        found = {
            k
            for one in self.impacts.values()
            if one.speed > 0.0 and one.rebound > 0.0 and leaving(self.system, one, self.state)
            for k in (one.region, one.other)
        }
        return frozenset(k for k in found if k >= 0 and overshoot(self.controls.laws[k]) >= 0.0)

    def after(self, problem: Stopped, v: Array, last: bool) -> State:
        """Return the state after the step with velocities (f, 3) m/s.

        Motion that ends in an intersection is truncated if is_final is set, as no shorter step follows.
        """
        state, moment = problem.state_after(v), self.detection.moment
        if last and state.is_finite and (crossing := passes(moment, state.positions)):
            v, blocks = cut_back(self.system, moment, problem, v, crossing)
            state = problem.state_after(v, {k for block in blocks for k in self.system.regions_of(block)})
        return self.ended(problem, state)

    def ended(self, problem: Meeting, state: State) -> State:
        """Return the state after the step with rebounds applied and contact history added."""
        energy, x, system = problem.contacts, state.positions, self.system
        kept, found = ContactMemory(), []
        if energy is not None:
            rows, there = energy.rows, energy.at(x)
            behind = -np.einsum("ki,ki->k", rows.normal, there.way)
            kept = ContactMemory.of(rows.key, energy.stretched(x), there.force, behind)
            found = touches(system, energy, x, self.h)
        bounces = [overshoot(law) for law in self.controls.laws]
        before = self.state.positions, self.state.velocities
        impacts, v = impacted(system, self.impacts, found, before, (x, state.velocities), bounces, self.h, self._fall)
        memory = dict(state.memory)
        memory[shared(system, CONTACTS)] = kept.packed()
        memory[shared(system, IMPACTS)] = np.array([one.packed() for one in impacts]).reshape(-1, IMPACT)
        memory[shared(system, DIALS)] = touch_dials(self.inputs)
        memory[shared(system, HELD)] = self._holdings(problem, state, impacts, kept)
        state = replace(state, velocities=v, memory=memory)
        # At its deepest, a dent is at rest. Its elastic energy for the rebound is in its shape.
        turned = {
            k
            for one in impacts
            for k in (one.region, one.other)
            if one.rebound >= 0.0 and k >= 0 and rebound_before(self.impacts, one) < 0.0
        }
        return self._reset(state, opened(self.impacts, impacts) | turned)

    def _reset(self, state: State, regions: set[int]) -> State:
        """Return the state with the deformation history of some regions reset, where it would make dents grow."""
        past = Remembered.of(self.system, state)
        if not regions or past is None:
            return state
        velocity = past.velocity.copy()
        rate = None if past.rate is None else past.rate.copy()
        for place in regions:
            free = self.system.regions[place].free
            velocity[free] = 0.0
            if rate is not None:
                rate[free] = 0.0
        return replace(state, memory=replace(past, velocity=velocity, rate=rate).kept(self.system, state.memory))

    def _holdings(self, problem: Meeting, state: State, impacts: list[Impact], kept: ContactMemory) -> Array:
        """Return the packed support modes of all regions, (r, SUPPORT_MODES_SIZE); zero rows without support."""
        numbers = np.zeros((len(self.system.regions), NUMBERS))
        energy = problem.contacts
        if energy is None:
            return numbers
        branches, force = energy.branches(state.positions), energy.at(state.positions).force
        pressed, sticking = branches % 4 > 0, int(((branches > 0) & (branches < 4)).sum())
        slow, holds = _SLOW * self._fall, None
        there = np.zeros(len(self.system.rest), dtype=bool)
        there[energy.rows.weights.indices[pressed[energy.rows.of]]] = True
        for place in sorted(steady({(one.region, one.other): one for one in impacts})):
            region = self.system.regions[place]
            if not region.rigid_modes or overshoot(self.controls.laws[place]) < 0.0:
                continue
            count = int(there[region.free].sum())
            known = self.held.get(place)
            own = drift(self.system, place, state.velocities)
            own = own - support(energy.rows, force, state.velocities, region.free, self.h)
            if known is None or renewed(known, count, sticking):
                if float(np.linalg.norm(own)) > slow:
                    continue
                if holds is None:
                    factors = self.controls.factors(len(self.system.blocks))
                    holds = self.system.tangent(state, factors, True), energy.holding(state.positions)
                known = holding(self.system, region, state.positions, *holds, count, sticking)
            numbers[place] = known.packed()
        return numbers
