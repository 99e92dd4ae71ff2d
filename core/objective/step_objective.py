"""Objective of a substep with the parts that all kinds of bodies share: unknowns, positions and contacts."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Set

import numpy as np

from ..base.arrays import Array, take_rows
from ..contact.penalty_and_friction import ContactPotential, ContactSet
from ..solvers.objective import Objective
from ..system.state import State
from ..system.system import System
from ..system.weave_term import find_weave_term
from .factorised_system import Unknowns
from .step_potential import StepPotential


class WovenUnknowns(Unknowns):
    """Unknowns of woven cloth: velocities of all nodes, then of the two yarn positions at each crossing.

    term: of the cloth.
    is_free: (t, 3) mask of the numbers that a search changes; hard pins have rows, but their velocities are given.
    pattern: assembly pattern of matrices over them.
    """

    def __init__(self, system: System) -> None:
        """system: a system with one block."""
        super().__init__(np.arange(len(system.rest)), len(system.rest))
        (block,) = system.blocks
        term = find_weave_term(block.terms)
        assert term is not None
        self.term, cloth = term, term.cloth
        self.is_free = cloth.stack_unknowns(np.zeros((cloth.count, 3)), np.ones(len(cloth.node))) > 0.0
        self.is_free[: cloth.count] = ~system.is_fixed[:, None]
        self.pattern = cloth.assembly_pattern(self.is_free)

    @property
    def is_empty(self) -> bool:
        return not self.is_free.any()


class StepObjective(Objective):
    """Potential psi(v) over the rows v (r, 3) m/s of unknowns. Kinds of bodies differ in its energies and inertia.

    start: velocities at which the search starts.  noise: rounding error of the error estimate, sqrt(W).
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
