"""Refresh of the preconditioner in a long search: rotate it with its nodes, or factorise it again."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from ..base.arrays import Array
from ..solvers.factorisation import Solve
from .contact_problem import StepPreconditioner
from .nodal_rotations import NodalRotations

# Iterations after which it is rotated or refactorised. A factorisation costs as much as a few dozen iterations.
_ROTATION_ITERATIONS, _FACTORISATION_ITERATIONS = (4, 8, 16, 32, 64), (12, 36, 108)


@dataclass
class PreconditionerRefresh:
    """Refresh schedule for the preconditioner of one search. With contacts, ActiveContacts refreshes it instead.

    region_rotations: (f, 3, 3), of whole regions.
    has_contracted_fibres: whether fibres have pulled the flesh far from its rest shape, see
        system.fibres.has_active_fibres().
    """

    nodal_rotations: NodalRotations
    region_rotations: Array
    preconditioner: StepPreconditioner
    has_contracted_fibres: bool
    _iterations: int = 0

    def refresh_if_due(
        self, v: Array, positions: Callable[[Array], Array], factorise_at: Callable[[Array], Solve]
    ) -> bool:
        """Refresh the preconditioner after an iteration if it is due; return whether it changed.

        v: (f, 3) m/s, the current velocities of the search.  positions: returns (n, 3) m for v.
        factorise_at: returns a solve with the positive Hessian at v.
        """
        self._iterations += 1
        individual = self.nodal_rotations.rotates_individually
        # Unpinned regions are excluded: a preconditioner that rotates as a whole conserves their momenta.
        if self.has_contracted_fibres and individual.all() and self._iterations >= _FACTORISATION_ITERATIONS[0]:
            if self._iterations in _FACTORISATION_ITERATIONS:
                self.preconditioner.refactorise(factorise_at(v))
            return self._iterations in _FACTORISATION_ITERATIONS
        if self._iterations not in _ROTATION_ITERATIONS or not individual.any():
            return False
        self.preconditioner.rotate(self.nodal_rotations.rotations_at(positions(v), self.region_rotations))
        return True
