"""Keep Modelled Shape: inverse statics for rest shapes that sag into the modelled shape.

See docs/explanation/physics/06-body-models.md.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np
from scipy.sparse import csr_matrix
from scipy.sparse.linalg import spsolve

from ..base.arrays import Array
from ..base.computation import StageProgress
from ..bodies.kind import Model
from ..bodies.surface_binding import SurfaceBinding
from ..materials import TetElasticity
from ..materials.assembly import assemble_matrix
from ..materials.tetrahedra import tet_volumes
from ..settle.step_report import Guard, Verdict
from ..system.discretization import BodyDiscretization
from ..system.inputs import BlockInputs
from ..system.state import BlockHistory
from ..system.term import PinSprings, Potential, StiffnessScaling

# Largest residual force, relative to the largest nodal weight.
_RESIDUAL_TOLERANCE = 1e-8
_MAX_ITERATIONS, _MAX_HALVINGS = 60, 12
# No element's rest volume may shrink below this fraction of its modelled volume.
_MIN_VOLUME_RATIO = 0.05
# Smallest load increment, as a fraction of the weight.
_MIN_LOAD_INCREMENT = 1.0 / 256.0
# Newton iterations of a search, over all load increments.
_ITERATION_BUDGET = 240


@dataclass(frozen=True)
class SpentRestShapeSearch(Guard):
    """End a search for a rest shape that has spent its work, and accept that of a part of the load (decision 0083).

    Where no rest shape exists for the full weight, Newton's method fails again and again near the largest load.

    max_iterations: Newton iterations, over all load increments.
    """

    name: ClassVar[str] = "SPENT_REST_SHAPE_SEARCH"
    verdict: ClassVar[Verdict] = Verdict.ACCEPT
    max_iterations: int = _ITERATION_BUDGET


def can_change_rest_shape(model: Model) -> bool:
    """Return whether a model's rest shape can be changed."""
    return any(_tet_energies(model.block)) and isinstance(model.pins, SurfaceBinding)


def solve_rest_shape(
    model: Model,
    surface: Array,
    positions: Array,
    weight: Array,
    factor: float,
    progress: StageProgress,
) -> Model:
    """Return the model with a rest shape X that is in equilibrium at the given positions.

    surface: (v, 3) m, animated. positions: (n, 3) m of the nodes. weight: (n, 3) N. factor: on the stiffness.
    progress: receives the solved fraction of the load at each iteration, and counts spent searches.

    Newton's method solves grad U(positions; X) = weight for X at the nodes that are not hard pins. Spring pins move
    along with X. The load is applied in increments where a full step does not converge. If no such shape exists for the
    full weight, return the shape for the largest solvable load. This happens where the material would have to turn
    inside out.
    """
    if not can_change_rest_shape(model) or model.block.is_fixed.all():
        return model
    problem, guard = _InverseStaticProblem(model, surface, positions, weight, factor, progress), SpentRestShapeSearch()
    rest, load_fraction, increment = model.block.rest, 0.0, 1.0
    tolerance = _RESIDUAL_TOLERANCE * max(float(np.abs(weight).max(initial=0.0)), 1e-30)
    while load_fraction < 1.0 and increment >= _MIN_LOAD_INCREMENT:
        if guard.fires(problem.iterations >= guard.max_iterations, Counter()):
            progress.record_cut()
            break
        found = problem.solve(rest, min(load_fraction + increment, 1.0), load_fraction, tolerance)
        if found is None:
            increment /= 2.0
        else:
            rest, load_fraction, increment = found, min(load_fraction + increment, 1.0), 2.0 * increment
    return problem.with_rest_shape(rest)


class _InverseStaticProblem:
    """Equilibrium at given positions as a function of the rest shape.

    iterations: number of Newton iterations so far.
    """

    def __init__(
        self,
        model: Model,
        surface: Array,
        positions: Array,
        weight: Array,
        factor: float,
        progress: StageProgress,
    ) -> None:
        self._progress, self.iterations = progress, 0
        self._model, self._positions, self._factor, self._weight = model, positions, factor, weight
        block = model.block
        self._free = np.flatnonzero(np.repeat(~block.is_fixed, 3))
        self._energies = [own for own in _tet_energies(block) if own is not None]
        self._volumes = [tet_volumes(block.rest, own.tets) for own in self._energies]
        self._rotations, _ = model.pins.local_frames(surface)
        targets = model.pins(surface)
        inputs = BlockInputs(targets, targets)
        # Terms without a rest shape, except the pins, exert a constant force.
        self._constant_forces = np.zeros_like(positions)
        for term, own in zip(block.terms, _tet_energies(block), strict=True):
            if own is None:
                scale = factor if term.scaling is StiffnessScaling.SCALED else 1.0
                self._constant_forces += scale * term.energy_for(inputs, BlockHistory()).value_gradient(positions)[1]
        self._springs = [term for term in block.terms if isinstance(term, PinSprings)]

    def with_rest_shape(self, rest: Array) -> Model:
        """Return the model with another rest shape (n, 3) in m."""
        block, pins = self._model.block, self._model.pins
        terms = tuple(
            term.with_energy(own.with_rest(rest)) if isinstance(term, Potential) and own is not None else term
            for term, own in zip(block.terms, _tet_energies(block), strict=True)
        )
        assert isinstance(pins, SurfaceBinding)
        pin_points = pins.points + (rest - block.rest)[block.pinned]
        return replace(self._model, block=replace(block, rest=rest, terms=terms), pins=replace(pins, points=pin_points))

    def solve(self, rest: Array, load_fraction: float, solved_fraction: float, tolerance: float) -> Array | None:
        """Return the rest shape for a load fraction, starting from another one; None if Newton's method fails.

        solved_fraction: of the load, for the progress.
        """
        residual = self._residual(rest, load_fraction)
        for _ in range(_MAX_ITERATIONS):
            if float(np.abs(residual).max()) <= tolerance:
                return rest
            self._progress.advance(solved_fraction)
            self.iterations += 1
            elements = [own.with_rest(rest) for own in self._energies]
            jacobian = self._pin_jacobian() + self._factor * sum(own.rest_jacobian(self._positions) for own in elements)
            step = np.zeros(rest.size)
            step[self._free] = -spsolve(jacobian.tocsc()[self._free][:, self._free], residual)
            if not np.isfinite(step).all():
                return None
            direction, length = step.reshape(rest.shape), 1.0
            for _ in range(_MAX_HALVINGS):
                trial, allowed = rest + length * direction, (1.0 - 1e-4 * length) * float(residual @ residual)
                trial_residual = self._residual(trial, load_fraction) if self._has_valid_volumes(trial) else None
                if trial_residual is not None and float(trial_residual @ trial_residual) < allowed:
                    break
                length /= 2.0
            else:
                return None
            rest, residual = trial, trial_residual
        return None

    def _residual(self, rest: Array, load_fraction: float) -> Array:
        """Return the residual forces at the free components, in N."""
        total = self._constant_forces - load_fraction * self._weight
        displacement = rest - self._model.block.rest
        for one in self._springs:
            # The spring's end moves with the rest shape, rotated like its surroundings.
            rotated = self._rotations[one.pin_indices] @ displacement[one.nodes][:, :, None]
            total[one.nodes] -= self._factor * one.stiffness[:, None] * rotated[:, :, 0]
        for own in self._energies:
            total = total + self._factor * own.with_rest(rest).value_gradient(self._positions)[1]
        return np.asarray(total.ravel()[self._free])

    def _pin_jacobian(self) -> csr_matrix:
        """Return the derivative of the pin springs' forces with respect to the rest shape, (3n, 3n) N/m."""
        total = csr_matrix((self._positions.size, self._positions.size))
        for one in self._springs:
            blocks = -self._factor * one.stiffness[:, None, None] * self._rotations[one.pin_indices]
            total = total + assemble_matrix(blocks, one.nodes[:, None], len(self._positions))
        return total

    def _has_valid_volumes(self, rest: Array) -> bool:
        return all(
            bool((tet_volumes(rest, own.tets) > _MIN_VOLUME_RATIO * before).all())
            for own, before in zip(self._energies, self._volumes, strict=True)
        )


def _tet_energies(block: BodyDiscretization) -> list[TetElasticity | None]:
    """Return the elastic energy of each term whose rest shape can be changed, None for other terms."""
    return [
        term.energy if isinstance(term, Potential) and isinstance(term.energy, TetElasticity) else None
        for term in block.terms
    ]
