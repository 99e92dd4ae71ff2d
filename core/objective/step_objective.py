"""Objective of a substep with the parts that all kinds of bodies share: unknowns, positions and contacts."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Sequence, Set
from dataclasses import dataclass, replace

import numpy as np

from ..base.arrays import Array, Index, take_rows
from ..base.computation import Memo
from ..contact.penalty_and_friction import ContactPotential, ContactSet
from ..settle.controls import YarnDials
from ..solvers.objective import Objective
from ..system.state import History, State, YarnHistory
from ..system.system import System
from ..system.weave_term import WeaveTerm, find_weave_term
from ..yarns.energy import YarnElasticity
from ..yarns.joined_cloth import join_cloths
from ..yarns.woven_cloth import WovenCloth
from .factorised_system import Unknowns
from .step_potential import StepPotential


@dataclass(frozen=True)
class YarnSettings:
    """Dials of all yarns, see YarnDials.

    friction, grip, drag: (p,).  stretch: (s,).  bend: (m,).  rayleigh: of all cloths.
    """

    friction: Array
    grip: Array
    drag: Array
    stretch: Array
    bend: Array
    rayleigh: bool


class WovenUnknowns(Unknowns):
    """Unknowns of woven cloths: velocities of all nodes, then of the two yarn positions at each crossing.

    cloth: all yarns over the nodes of the system.
    bare_nodes: nodes without yarn, which belong to other bodies.
    is_free: (t, 3) mask of the numbers that a search changes; hard pins have rows, but their velocities are given.
    pattern: assembly pattern of the yarns' matrices over them.
    """

    def __init__(self, system: System) -> None:
        count = len(system.rest)
        super().__init__(np.arange(count), count)
        self._terms: dict[int, WeaveTerm] = {
            place: term
            for place, block in enumerate(system.blocks)
            if (term := find_weave_term(block.terms)) is not None
        }
        self._names = [system.blocks[place].name for place in self._terms]
        self._first_nodes = [system.slices[place].start for place in self._terms]
        self._elastic: Memo[YarnElasticity] = Memo(2)
        self.cloth: WovenCloth = self.elastic(np.ones(len(system.blocks))).cloth
        carries_yarn = np.zeros(count, dtype=bool)
        carries_yarn[self.cloth.node] = True
        self.bare_nodes: Index = np.flatnonzero(~carries_yarn)
        self.is_free = self.cloth.stack_unknowns(np.zeros((count, 3)), np.ones(len(self.cloth.node))) > 0.0
        self.is_free[:count] = ~system.is_fixed[:, None]
        self.pattern = self.cloth.assembly_pattern(self.is_free)

    @property
    def is_empty(self) -> bool:
        return not self.is_free.any()

    def elastic(self, factors: Array) -> YarnElasticity:
        """Return the elastic energy of all yarns. factors: (b,) stiffness factor of each block."""
        own = tuple(float(factors[place]) for place in self._terms)
        terms = list(self._terms.values())
        if len(factors) == 1:
            return terms[0].scaled_elastic(own[0])

        def join() -> YarnElasticity:
            return YarnElasticity(join_cloths([one.cloth for one in terms], self._first_nodes, len(self.nodes), own))

        return self._elastic.get(own, join)

    def settings(self, dials: Sequence[YarnDials]) -> YarnSettings:
        """Return the dials of all yarns. dials: of each body; the defaults if there are none."""
        own = [dials[place] if dials else YarnDials() for place in self._terms]

        def repeated(value: Callable[[YarnDials], float], size: Callable[[WovenCloth], int]) -> Array:
            return np.repeat([value(one) for one in own], [size(term.cloth) for term in self._terms.values()])

        return YarnSettings(
            repeated(lambda one: one.friction, lambda cloth: len(cloth.node)),
            repeated(lambda one: one.grip, lambda cloth: len(cloth.node)),
            repeated(lambda one: one.drag, lambda cloth: len(cloth.node)),
            repeated(lambda one: one.stretch, lambda cloth: len(cloth.segments)),
            repeated(lambda one: one.bend, lambda cloth: len(cloth.bends)),
            own[0].rayleigh,
        )

    def yarns_of(self, history: History) -> YarnHistory:
        """Return all yarns at the end of the last step."""
        parts = [
            history.block(name).yarns or YarnHistory.at_rest(term.cloth.rest_arc_lengths)
            for name, term in zip(self._names, self._terms.values(), strict=True)
        ]
        speeds = [np.zeros(len(one.positions)) if one.speeds is None else one.speeds for one in parts]
        return YarnHistory(
            np.concatenate([one.positions for one in parts]),
            np.concatenate([one.anchors for one in parts]),
            np.concatenate([one.normal_forces for one in parts]),
            np.concatenate(speeds),
        )

    def with_yarns(self, history: History, yarns: YarnHistory) -> History:
        """Return a history with all yarns replaced."""
        start = 0
        for name, term in zip(self._names, self._terms.values(), strict=True):
            part = slice(start, start + len(term.cloth.node))
            speeds = None if yarns.speeds is None else yarns.speeds[part]
            own = YarnHistory(yarns.positions[part], yarns.anchors[part], yarns.normal_forces[part], speeds)
            history, start = history.with_block(name, replace(history.block(name), yarns=own)), part.stop
        return history


class StepObjective(Objective):
    """Potential psi(v) over the rows v (r, 3) m/s of unknowns. Kinds of bodies differ in its energies and inertia.

    unknowns: of the step.
    start: velocities at which the search starts.
    noise: rounding error of the error estimate, sqrt(W).
    """

    start: Array
    noise: float

    def __init__(
        self, unknowns: Unknowns, potential: StepPotential, state: State, end_positions: Array, h: float
    ) -> None:
        """potential: of the nodes.  end_positions: (n, 3) m at the end of the step, for nodes without a row."""
        self.unknowns, self._potential, self._state, self._h = unknowns, potential, state, h
        self._end_positions, self._start_positions = end_positions, take_rows(state.positions, unknowns.nodes)
        self._cached_positions: tuple[Array, Array] | None = None

    def positions(self, v: Array) -> Array:
        """Return the positions (n, 3) m of all nodes at the end of a step with velocities v (r, 3)."""
        if self._cached_positions is None or self._cached_positions[0] is not v:
            x, nodes = self._end_positions.copy(), self.unknowns.nodes
            x[nodes] = self._start_positions + self._h * v[: len(nodes)]
            self._cached_positions = v, x
        return self._cached_positions[1]

    def initial_guess(self, guess: Array | None) -> Array:
        """Return the velocities (r, 3) m/s at which the search starts."""
        return self.start if guess is None else self.clip_to_feasible(guess)

    def best_start(self, contacts: ContactSet, normal_forces: Array, *candidates: Array) -> Array:
        """Return the candidate velocities (r, 3) with the lowest psi, with the contacts of set_contacts()."""
        self._potential.set_contacts(ContactPotential(contacts, normal_forces) if len(contacts) else None)
        starts = [self.clip_to_feasible(v) for v in candidates]
        return min(starts, key=lambda v: self.value_gradient(v)[0])

    @property
    def contacts(self) -> ContactPotential | None:
        return self._potential.contacts

    @property
    def previous_velocities(self) -> Array:
        """Velocities (r, 3) m/s of the last step."""
        return self._state.velocities[self.unknowns.nodes]

    @abstractmethod
    def clip_to_feasible(self, v: Array) -> Array:
        """Return velocities (r, 3), scaled down until all terms admit them."""

    @abstractmethod
    def set_contacts(self, contacts: ContactSet, normal_forces: Array, v: Array) -> None:
        """Replace the contacts at velocities v (r, 3). normal_forces: (k,) N, lagged normal forces."""

    @abstractmethod
    def state_after(self, v: Array, truncated_regions: Set[int] = frozenset()) -> State:
        """Return the state at the step's end. truncated_regions: regions whose motion was truncated."""
