"""Contact potential that the compiled kernel evaluates, for steps with many evaluations."""

from __future__ import annotations

from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from ..base.arrays import Array, Index
from ..native.contacts import CompiledContacts, ContactEvaluation
from ..native.library import load_library
from .penalty_and_friction import ContactForces, ContactPotential, ContactSet


def contact_potential(contacts: ContactSet, lagged_normal_force: Array) -> ContactPotential:
    """Return the compiled potential of contacts, or the one in numpy without a kernel. lagged_normal_force: (k,) N."""
    library = load_library()
    if library is None:
        return ContactPotential(contacts, lagged_normal_force)
    vectors = contacts.base_offset, contacts.normal, contacts.stick_anchor
    scalars = contacts.distance, contacts.target_gap, contacts.stiffness
    compiled = CompiledContacts(library, contacts.weights, vectors, scalars)
    return CompiledContactPotential(contacts, lagged_normal_force, compiled)


class CompiledContactPotential(ContactPotential):
    """ContactPotential whose values, gradients and Hessians the kernel computes, equal but for rounding."""

    def __init__(self, contacts: ContactSet, lagged_normal_force: Array, compiled: CompiledContacts) -> None:
        super().__init__(contacts, lagged_normal_force)
        self._compiled = compiled
        self._last: tuple[Array, ContactEvaluation, ContactForces] | None = None

    @cached_property
    def _limits(self) -> Array:
        """Limits (k,) of friction, N."""
        return np.asarray(self.contacts.friction * self.lagged_normal_force)

    def _at(self, positions: Array) -> tuple[ContactEvaluation, ContactForces]:
        if self._last is None or not np.array_equal(self._last[0], positions):
            found = self._compiled.evaluate(self._limits, positions)
            self._last = positions, found, ContactForces(found.gap, found.force, found.slip, found.offset)
        return self._last[1:]

    def forces_at(self, positions: Array) -> ContactForces:
        return self._at(positions)[1]

    def value_gradient(self, positions: Array) -> tuple[float, Array]:
        found = self._at(positions)[0]
        return found.value, found.gradient

    def contact_states(self, positions: Array) -> Index:
        return self._at(positions)[0].states

    def with_normal_forces_at(self, positions: Array) -> ContactPotential:
        return self.with_normal_forces(self.forces_at(positions).force)

    def with_normal_forces(self, lagged_normal_force: Array) -> ContactPotential:
        """Return the potential of the same contacts with other normal forces (k,) N, which limit friction."""
        return CompiledContactPotential(self.contacts, lagged_normal_force, self._compiled)

    def add_blocks(
        self,
        positions: Array,
        factor: float,
        pattern: tuple[NDArray[np.int32], NDArray[np.int32], NDArray[np.int32]],
        blocks: Array,
    ) -> int:
        """Add the Hessian at positions (n, 3) m times a factor to blocks; see CompiledContacts.add_blocks()."""
        return self._compiled.add_blocks(self._limits, self._at(positions)[0], factor, pattern, blocks)

    def active_contacts(self, positions: Array) -> Index:
        """Return the indices of the contacts that have a stiffness at positions (n, 3) m."""
        return np.flatnonzero((self.contact_states(positions) % 4 > 0) | (self._limits > 0.0))
