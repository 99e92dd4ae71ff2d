"""Steps of systems with sheets: scalar preconditioner and Newton-CG iterations (docs/physics.md section 1)."""

from __future__ import annotations

import math
from typing import Any, cast

import numpy as np
from scipy.sparse import block_diag, csr_matrix, diags

from ..arrays import Array, Index, rows
from ..contact.rows import ContactEnergy, Rows
from ..elements.triangles import normals_of
from ..energies import Energy, Membrane, ShellBending
from ..solvers.factor import LowRankUpdate, Solve, factorise
from ..solvers.inexact import Product, minimise_inexact
from ..solvers.problem import Accepted
from ..system.inputs import Inputs
from ..system.state import State
from ..system.system import System
from ..system.term import Factor
from .contact_step import ContactStep
from .controls import Controls
from .step import Minimiser, Stepper, rounded
from .step_problem import StepProblem
from .tangent import Across, Tangent
from .touching import Metric

# Largest penetration of a sheet in a step, as a fraction of the block's size; the step is bisected up to so many times
# to stay below it.
_AHEAD, _HALVED = 0.025, 3
# Motion of a node in a step that is negligible, as a fraction of the block's size.
_MEANT = 1e-8


def has_sheet(system: System) -> bool:
    """Return whether any block resists stretching as a sheet does."""
    return any(block.is_sheet for block in system.blocks)


def _over(solve: Solve, scale: float) -> Solve:
    """Return the solve divided by a number."""
    return lambda right: solve(right) / scale


class Constant(Metric):
    """Preconditioner without contacts: they are as stiff as the sheet, so conjugate gradients resolve them.

    It treats all coordinates alike, so rotations do not affect it either.
    """

    def __init__(self, base: LowRankUpdate) -> None:
        self.base, self._stiff = base, None

    def stiffen(self, energy: ContactEnergy, x: Array, branches: Index) -> None:
        pass

    def foresee(self, weights: csr_matrix) -> None:
        pass


class SheetProblem(StepProblem):
    """Step potential psi whose Hessian is available as a product."""

    def __init__(self, *given: Any, **named: Any) -> None:
        super().__init__(*given, **named)
        system = self._stepper.system
        size = min((block.size for block in system.blocks if block.groups), default=0.0)
        self._metric = Constant(LowRankUpdate(_over(self._solve, self._scale), self._low_rank))
        self._across: Across | None = None
        self.noise = max(self.noise, _MEANT * size / self._h * float(np.sqrt(self._inertia.sum())))

    def tangent(self, v: Array) -> Product:
        return self._product(self._potentials.tangent(self.positions(v)))

    def _product(self, potentials: Tangent) -> Product:
        free, low = self._stepper.free, self.low_rank
        whole = np.zeros_like(self._next)
        inertia, h = self._inertia[:, None], self._h

        def product(way: Array) -> Array:
            whole[free] = way
            pushed = inertia * way + h * rows(potentials.times(whole), free)
            if not low.empty:
                pushed = pushed + low.combined(low.columns, low.signs * low.along(way.ravel())).reshape(-1, 3)
            return np.asarray(pushed)

        return product

    def sharpened(self, v: Array) -> Product:
        """Return the same product, and add to the preconditioner the sheet's low stiffness along its normals at v."""
        x, free = self.positions(v), self._stepper.free
        found = self._potentials.tangent(x)
        self._across = Across.of(self._normals(x), found, self._inertia, self._h, free)
        return self._product(found)

    def precondition(self, gradient: Array) -> Array:
        found = super().precondition(gradient)
        return found if self._across is None else found + self._across(gradient)

    def touch(self, rows: Rows, pressing: Array, v: Array) -> None:
        super().touch(rows, pressing, v)
        self._across = None

    def _normals(self, x: Array) -> Array:
        """Return the vertex normals (n, 3) of the sheets; 0 at other nodes."""
        total = np.zeros_like(x)
        for block, part in zip(self._stepper.system.blocks, self._stepper.system.slices, strict=True):
            for energy in block.energies:
                if isinstance(energy, Membrane):
                    total[part] += normals_of(x[part], energy.triangles)
        return np.asarray(total / np.maximum(np.linalg.norm(total, axis=1), 1e-300)[:, None])

    def accept(self, v: Array, value: float, gradient: Array) -> Accepted:
        found = super().accept(v, value, gradient)
        return Accepted(found.value, found.gradient)

    def motion(self, v: Array) -> float:
        """Return the norm of the motion without reference motion and rigid motion, sqrt(W s)."""
        total = 0.0
        for slots, terms in self._terms:
            moved = v[slots] - terms.reference
            if terms.columns.shape[2]:
                moved = moved - (terms.inertia @ moved) / terms.inertia.sum()
            total += float(terms.inertia @ (moved**2).sum(axis=1))
        return float(np.sqrt(total))


class SheetStepper(Stepper):
    """Steps with a preconditioner that is alike for each coordinate, M/s + h sum w (2 mu + lambda/2) G G^T.

    It omits bending, which would fill the factors; conjugate gradients resolve it.
    """

    problem = SheetProblem

    def __init__(self, system: System) -> None:
        # minimise_inexact needs SheetProblems, which this class creates.
        super().__init__(system, cast(Minimiser, minimise_inexact))

    def factor(self, h: float, inertia: Array, factors: Array, share: Array | None = None) -> Solve:
        key = self._key(h, inertia, factors, share)
        if key not in self._factors:
            metric = diags(rounded(inertia)) + h * self._scalar(factors, share)
            solve = factorise(metric.tocsr())

            def threefold(right: Array) -> Array:
                # There may be no free nodes.
                columns = 3 * (right.shape[1] if right.ndim > 1 else 1)
                return np.asarray(solve(right.reshape(len(inertia), columns)).reshape(right.shape))

            self._keep(key, threefold)
        return self._factors[key]

    def halved_first(self, state: State, inputs: Inputs, h: float, controls: Controls) -> int:
        """Return how often a step is bisected at first because something would penetrate a sheet deeply.

        In a single step, the sheet would stretch over the whole displacement before any of it slides off.
        """
        if self.system.contact is None or all(one.touching is None for one in inputs):
            return 0
        sheets = {
            place: block.size for place, block in enumerate(self.system.blocks) if block.is_sheet and block.groups
        }
        if not sheets:
            return 0
        ahead = ContactStep.of(self.system, state, inputs, h, controls).ahead(sheets)
        parts = ahead / (_AHEAD * min(sheets.values()))
        return min(math.ceil(math.log2(parts)), _HALVED) if parts > 1.0 else 0

    def _scalar(self, factors: Array, share: Array | None) -> csr_matrix:
        """Return the scalar stiffness of the free nodes over the first of the factors (b,), (f, f) N/m."""
        system, parts = self.system, []
        for block, nodes, factor in zip(system.blocks, system.slices, factors, strict=True):
            own = csr_matrix((len(block.rest), len(block.rest)))
            for term in block.terms:
                energy = term.at_rest(block.rest) if term.factor is Factor.MATERIAL else None
                if energy is not None:
                    energy = energy if share is None else energy.scaled(share[nodes])
                    own = own + _scalar_of(energy, block.rest)
            parts.append(float(factor) * own)
        total = block_diag(parts, format="csr")
        if system.joints is not None:
            joints = system.joints if share is None else system.joints.scaled(share)
            total = total + joints.difference.T @ diags(joints.strength(factors)) @ joints.difference
        return total.tocsr()[self.free][:, self.free] / float(factors[0])


def _scalar_of(energy: Energy, rest: Array) -> csr_matrix:
    """Return the approximate stiffness of an energy at rest for each single coordinate, (n, n) N/m."""
    if isinstance(energy, Membrane):
        return energy.laplacian()
    if isinstance(energy, ShellBending):
        return csr_matrix((len(rest), len(rest)))
    stiffness = energy.hessian(rest, True)
    return 0.5 * sum((stiffness[k::3][:, k::3] for k in (1, 2)), stiffness[::3][:, ::3])
