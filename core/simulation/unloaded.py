"""Keep Modelled Shape: inverse statics for rest shapes that sag into the modelled shape (docs/physics.md section 6)."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from scipy.sparse import csr_matrix
from scipy.sparse.linalg import spsolve

from ..arrays import Array
from ..bodies.followers import Tied
from ..bodies.model import Model
from ..energies import TetElasticity
from ..energies.tetrahedra import tet_volumes
from ..system.block import Block
from ..system.inputs import BlockInputs
from ..system.term import Factor, PinSprings, Potential

# Largest residual force, relative to the largest nodal weight.
_BALANCED = 1e-8
_MOST, _HALVINGS = 60, 12
# No element's rest volume may shrink below this fraction of its modelled volume.
_THINNEST = 0.05
# Smallest load increment, as a fraction of the weight.
_LEAST = 1.0 / 256.0


def can_unload(model: Model) -> bool:
    """Return whether a model's rest shape can be changed."""
    return any(_elements(model.block)) and isinstance(model.pins, Tied)


def unloaded(model: Model, surface: Array, places: Array, weight: Array, factor: float) -> Model:
    """Return the model with a rest shape X that is in equilibrium at the given positions.

    surface: (v, 3) m, animated. positions: (n, 3) m of the nodes. weight: (n, 3) N. factor: on the stiffness.

    Newton's method solves grad U(positions; X) = weight for X at the nodes that are not hard pins. Spring pins move
    along with X. The load is applied in increments where a full step does not converge. If no such shape exists for the
    full weight, return the shape for the largest solvable load. This happens where the material would have to turn
    inside out.
    """
    if not can_unload(model) or model.block.fixed.all():
        return model
    problem = _Unloading(model, surface, places, weight, factor)
    rest, carried, part = model.block.rest, 0.0, 1.0
    close = _BALANCED * max(float(np.abs(weight).max(initial=0.0)), 1e-30)
    while carried < 1.0 and part >= _LEAST:
        found = problem.solved(rest, min(carried + part, 1.0), close)
        if found is None:
            part /= 2.0
        else:
            rest, carried, part = found, min(carried + part, 1.0), 2.0 * part
    return problem.reshaped(rest)


class _Unloading:
    """Equilibrium at given positions as a function of the rest shape."""

    def __init__(self, model: Model, surface: Array, places: Array, weight: Array, factor: float) -> None:
        self._model, self._places, self._factor, self._weight = model, places, factor, weight
        block = model.block
        self._free = np.flatnonzero(np.repeat(~block.fixed, 3))
        self._first = [own for own in _elements(block) if own is not None]
        self._volumes = [tet_volumes(block.rest, own.tets) for own in self._first]
        self._turns, _ = model.pins.frames(surface)
        targets = model.pins(surface)
        inputs = BlockInputs(targets, targets)
        # Terms without a rest shape, except the pins, exert a constant force.
        self._others = np.zeros_like(places)
        for term, own in zip(block.terms, _elements(block), strict=True):
            if own is None:
                scale = factor if term.factor is Factor.MATERIAL else 1.0
                self._others += scale * term.prepare(inputs, {}).value_gradient(places)[1]
        self._springs = [term for term in block.terms if isinstance(term, PinSprings)]

    def reshaped(self, rest: Array) -> Model:
        """Return the model with another rest shape (n, 3) in m."""
        block, pins = self._model.block, self._model.pins
        terms = tuple(
            term.with_energy(own.with_rest(rest)) if isinstance(term, Potential) and own is not None else term
            for term, own in zip(block.terms, _elements(block), strict=True)
        )
        assert isinstance(pins, Tied)
        moved = pins.points + (rest - block.rest)[block.pinned]
        return replace(self._model, block=replace(block, rest=rest, terms=terms), pins=replace(pins, points=moved))

    def solved(self, rest: Array, part: float, close: float) -> Array | None:
        """Return the rest shape for a load fraction, starting from another one; None if Newton's method fails."""
        left = self._left(rest, part)
        for _ in range(_MOST):
            if float(np.abs(left).max()) <= close:
                return rest
            elements = [own.with_rest(rest) for own in self._first]
            slope = self._held() + self._factor * sum(own.rest_jacobian(self._places) for own in elements)
            step = np.zeros(rest.size)
            step[self._free] = -spsolve(slope.tocsc()[self._free][:, self._free], left)
            if not np.isfinite(step).all():
                return None
            way, length = step.reshape(rest.shape), 1.0
            for _ in range(_HALVINGS):
                tried = rest + length * way
                after = self._left(tried, part) if self._sound(tried) else None
                if after is not None and float(after @ after) < (1.0 - 1e-4 * length) * float(left @ left):
                    break
                length /= 2.0
            else:
                return None
            rest, left = tried, after
        return None

    def _left(self, rest: Array, part: float) -> Array:
        """Return the residual forces at the free components, in N."""
        total = self._others - part * self._weight
        way = rest - self._model.block.rest
        for one in self._springs:
            # The spring's end moves with the rest shape, rotated like its surroundings.
            turned = self._turns[one.places] @ way[one.nodes][:, :, None]
            total[one.nodes] -= self._factor * one.stiffness[:, None] * turned[:, :, 0]
        for own in self._first:
            total = total + self._factor * own.with_rest(rest).value_gradient(self._places)[1]
        return np.asarray(total.ravel()[self._free])

    def _held(self) -> csr_matrix:
        """Return the derivative of the pin springs' forces with respect to the rest shape, (3n, 3n) N/m."""
        size = self._places.size
        total = csr_matrix((size, size))
        for one in self._springs:
            blocks = -self._factor * one.stiffness[:, None, None] * self._turns[one.places]
            dof = 3 * one.nodes[:, None] + np.arange(3)
            rows, columns = dof[:, :, None].repeat(3, axis=2), dof[:, None, :].repeat(3, axis=1)
            total = total + csr_matrix((blocks.ravel(), (rows.ravel(), columns.ravel())), shape=(size, size))
        return total

    def _sound(self, rest: Array) -> bool:
        return all(
            bool((tet_volumes(rest, own.tets) > _THINNEST * before).all())
            for own, before in zip(self._first, self._volumes, strict=True)
        )


def _elements(block: Block) -> list[TetElasticity | None]:
    """Return the elastic energy of each term whose rest shape can be changed, None for other terms."""
    return [
        term.energy if isinstance(term, Potential) and isinstance(term.energy, TetElasticity) else None
        for term in block.terms
    ]
