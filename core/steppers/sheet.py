"""Steps of systems with sheets: scalar preconditioner and Newton-CG iterations. Steps of ropes and nets.

See docs/explanation/physics/01-step-potential.md.
"""

from __future__ import annotations

from dataclasses import replace
from functools import cached_property
from typing import Any

import numpy as np
from scipy.sparse import block_diag, csr_matrix, diags

from ..base.arrays import Array, Index, take_rows
from ..base.computation import Memo
from ..contact.collision_detection import CollisionDetection
from ..contact.penalty_and_friction import ContactPotential, ContactSet, contact_potential
from ..contact_response.contact_solve import ContactSolve
from ..materials import Energy, Membrane, ShellBending
from ..materials.strains import area_weighted_normals
from ..native.library import KernelLibrary, load_library
from ..native.steps import CompiledStep
from ..objective.contact_problem import SearchedContacts, StepPreconditioner
from ..objective.factorised_system import round_inertia
from ..objective.rope_matrix import RopeDirections, RopeMatrix, RopePattern, envelope_solve
from ..objective.rope_pieces import RopePieces, RopeStep, can_separate
from ..objective.sheet_matrix import BlockDirections, ElementPattern, SheetMatrix, cached_elements
from ..objective.step_objective import WovenUnknowns
from ..objective.step_problem import StepProblem
from ..objective.tangent import NormalDirectionSolve, Tangent
from ..objective.weave_problem import WeaveProblem
from ..solvers.factorisation import LowRankUpdate, Solve, factorise
from ..solvers.inexact_newton import Product, minimise_inexact_newton
from ..solvers.multifrontal import SymbolicFactorisation
from ..solvers.newton import minimise_compiled_newton
from ..solvers.newton_cg import KeptFactors, minimise_newton_cg, rough_forcing
from ..solvers.objective import AcceptedPoint, Minimum, Tolerance
from ..system.system import System
from ..system.term import StiffnessScaling
from .implicit import Stepper
from .step_policy import ExcessiveMotion, Minimiser, SlowProgress, SpentWork
from .step_task import StepTask

# Motion of a node in a step that is negligible, as a fraction of the block's size.
_NEGLIGIBLE_MOTION = 1e-8
# Invisible displacement, as a fraction of the median edge length. With contacts, and in moving air, the motion itself
# hides a displacement of the second fraction of it.
_INVISIBLE_CHANGE, _INVISIBLE_FRACTION = 2.5e-3, 0.02
# Up to so many unknowns, a general factorisation is used instead of the multifrontal one.
_MIN_MULTIFRONTAL_UNKNOWNS = 600
# Number of nodes of woven cloth above which factors are smaller if they neglect couplings.
_MIN_NEGLECTING_NODES = 1500
# Number of cached elimination orders of woven cloth in contact.
_MAX_CACHED_ORDERS = 4


def has_sheet(system: System) -> bool:
    """Return whether any block resists stretching as a sheet does."""
    return any(block.is_sheet for block in system.blocks)


def _divided_solve(solve: Solve, scale: float) -> Solve:
    """Return the solve divided by a number."""
    return lambda right: solve(right) / scale


def _extended_solve(solve: Solve, rows: Index) -> Solve:
    """Return the solve with a matrix that has the identity beside the given rows (r,)."""

    def extended(right: Array) -> Array:
        answer = right.copy()
        answer[rows] = solve(right[rows])
        return answer

    return extended


class ContactFreePreconditioner(StepPreconditioner):
    """Preconditioner without contacts: they are as stiff as the sheet, so conjugate gradients resolve them.

    It treats all coordinates alike, so rotations do not affect it either.
    """

    def __init__(self, base: LowRankUpdate) -> None:
        self.base, self._contact_preconditioner = base, None


class ContactFreeProblem(StepProblem):
    """Step potential psi whose compiled contacts are not in the preconditioner."""

    def contact_potential(self, contacts: ContactSet, normal_forces: Array) -> ContactPotential:
        return contact_potential(contacts, normal_forces)

    def searched_contacts(self, energy: ContactPotential, v: Array) -> SearchedContacts:
        return SearchedContacts(self._potential, self._stepper.free, energy, self._h)

    def accept(self, v: Array, value: float, gradient: Array) -> AcceptedPoint:
        return super().accept(v, value, gradient) if self._active_contacts else AcceptedPoint(value, gradient)


class SheetProblem(ContactFreeProblem):
    """Step potential psi whose Hessian is available as a product."""

    rotates_preconditioner = False

    def __init__(self, *given: Any, **named: Any) -> None:
        super().__init__(*given, **named)
        system = self._stepper.system
        size = min((block.size for block in system.blocks if block.groups), default=0.0)
        self._preconditioner = ContactFreePreconditioner(
            LowRankUpdate(_divided_solve(self._solve, self._scale), self._low_rank)
        )
        self._normal_solve: NormalDirectionSolve | None = None
        self.noise = max(self.noise, _NEGLIGIBLE_MOTION * size / self._h * float(np.sqrt(self._inertia.sum())))

    @cached_property
    def _compiled_step(self) -> CompiledStep | None:
        """Inertia, load and drag; None without a kernel."""
        library = load_library()
        if library is None:
            return None
        vectors = self._start_positions, self._predicted, self._load
        ends, drag = (self._end_positions, self.end_velocities), self._damping_matrix
        return CompiledStep(library, self._stepper.free, self._h, self._inertia, vectors, ends, drag)

    def motion_terms(self, v: Array) -> tuple[float, Array]:
        if self._compiled_step is None:
            return super().motion_terms(v)
        value, gradient, positions = self._compiled_step.evaluate(v)
        self._cached_positions = v, positions
        return value if self._low_rank.is_empty else value + self._add_low_rank(v, gradient), gradient

    def invisible_step(self, motion: float) -> float:
        """Return the largest norm of an invisible step, sqrt(W); 0 in statics, whose steps add up.

        motion: motion_norm() at its start.
        """
        stepper = self._stepper
        if self._is_static or not isinstance(stepper, SheetStepper):
            return 0.0
        invisible = _INVISIBLE_CHANGE * stepper.median_edge / self._h * float(np.sqrt(self._inertia.sum()))
        # The drag is zero once the air stands still around the sheet, so that it comes to rest with full accuracy.
        is_hidden = self.has_contacts or self._has_drag
        return max(invisible, _INVISIBLE_FRACTION * motion) if is_hidden else invisible

    def step_norm(self, direction: Array) -> float:
        """Return the norm of a step (f, 3) m/s by the inertia, sqrt(W)."""
        return float(np.sqrt(self._inertia @ np.einsum("fi,fi->f", direction, direction)))

    @property
    def has_contacts(self) -> bool:
        """True if contacts may press."""
        return self.contacts is not None

    def compiled_directions(self) -> BlockDirections | None:
        """Return the compiled Newton directions from now on; None without a kernel."""
        library = load_library()
        stepper = self._stepper
        if library is None or not isinstance(stepper, SheetStepper):
            return None
        elements = cached_elements(stepper.element_patterns, self._potential, stepper.free_index, self._end_positions)
        matrix = SheetMatrix(library, elements, self._potential, self._inertia, self._h, self._damping_matrix)
        # Statics add up the errors of many searches.
        is_in_contact = self.has_contacts and not self._is_static
        return BlockDirections(matrix, self.positions, lambda: self.low_rank, is_in_contact=is_in_contact)

    def tangent_operator(self, v: Array) -> Product:
        return self._product(self._potential.tangent(self.positions(v)))

    def _product(self, tangent: Tangent) -> Product:
        free, low = self._stepper.free, self.low_rank
        displacements = np.zeros_like(self._end_positions)
        inertia, h = self._inertia[:, None], self._h
        dof = self._stepper.dof
        damping = None if self._damping_matrix is None else self._damping_matrix[dof][:, dof]

        def product(velocities: Array) -> Array:
            displacements[free] = velocities
            result = inertia * velocities + h * take_rows(tangent.apply(displacements), free)
            if damping is not None:
                result = result + (damping @ velocities.ravel()).reshape(-1, 3)
            if not low.is_empty:
                result = result + low.combine(low.columns, low.signs * low.project(velocities.ravel())).reshape(-1, 3)
            return np.asarray(result)

        return product

    def refined_tangent(self, v: Array) -> Product:
        """Return the same product, and add to the preconditioner the sheet's low stiffness along its normals at v."""
        x, free = self.positions(v), self._stepper.free
        tangent = self._potential.tangent(x)
        self._normal_solve = NormalDirectionSolve.factorise(self._normals(x), tangent, self._inertia, self._h, free)
        return self._product(tangent)

    def precondition(self, gradient: Array) -> Array:
        found = super().precondition(gradient)
        return found if self._normal_solve is None else found + self._normal_solve(gradient)

    def set_contacts(self, contacts: ContactSet, normal_forces: Array, v: Array) -> None:
        super().set_contacts(contacts, normal_forces, v)
        self._normal_solve = None

    def _normals(self, x: Array) -> Array:
        """Return the vertex normals (n, 3) of the sheets; 0 at other nodes."""
        total = np.zeros_like(x)
        for block, part in zip(self._stepper.system.blocks, self._stepper.system.slices, strict=True):
            for energy in block.energies:
                if isinstance(energy, Membrane):
                    total[part] += area_weighted_normals(x[part], energy.triangles)
        return np.asarray(total / np.maximum(np.linalg.norm(total, axis=1), 1e-300)[:, None])

    def motion_norm(self, v: Array) -> float:
        """Return the norm of the motion without reference motion and rigid motion, sqrt(W)."""
        total = 0.0
        for slots, terms in self._region_inertias:
            deformation = v[slots] - terms.reference_velocity
            if terms.columns.shape[2]:
                deformation = deformation - (terms.inertia @ deformation) / terms.inertia.sum()
            total += float(terms.inertia @ (deformation**2).sum(axis=1))
        return float(np.sqrt(total))


class SheetStepper(Stepper):
    """Steps with a preconditioner that is alike for each coordinate, M/s + h sum w (2 mu + lambda/2) G G^T.

    It omits bending, which would fill the factors; conjugate gradients resolve it.
    """

    problem_type = SheetProblem

    def __init__(self, system: System) -> None:
        super().__init__(system, minimise_inexact_newton)
        self.policy = replace(self.policy, spent_work=SpentWork.of_sheets())
        self.element_patterns: dict[int, ElementPattern] = {}
        lengths = [
            np.linalg.norm(corners - np.roll(corners, 1, axis=1), axis=2).ravel()
            for block in system.blocks
            for energy in block.energies
            if isinstance(energy, Membrane)
            for corners in [block.rest[energy.triangles]]
        ]
        self.median_edge = float(np.median(np.concatenate(lengths))) if lengths else 0.0

    def factorise(self, h: float, inertia: Array, factors: Array, stiffness_weights: Array | None = None) -> Solve:
        key = self._factorisation_key(h, inertia, factors, stiffness_weights)
        if key not in self._factorisations:
            metric = diags(round_inertia(inertia)) + h * self._scalar_stiffness(factors, stiffness_weights)
            solve = factorise(metric.tocsr())

            def solve_vectors(right: Array) -> Array:
                # There may be no free nodes.
                columns = 3 * (right.shape[1] if right.ndim > 1 else 1)
                return np.asarray(solve(right.reshape(len(inertia), columns)).reshape(right.shape))

            self._cache_factorisation(key, solve_vectors)
        return self._factorisations[key]

    def initial_bisections(self, task: StepTask) -> tuple[int, CollisionDetection | None]:
        """Return the number of bisections before the first attempt, see DeepSheetContact, and the detection."""
        if not task.has_contact:
            return 0, None
        sheets = {
            place: block.size for place, block in enumerate(self.system.blocks) if block.is_sheet and block.groups
        }
        if not sheets:
            return 0, None
        contact = ContactSolve(self.system, task.state, task.inputs, task.h, task.controls)
        penetration = contact.predicted_penetration(sheets)
        halvings = self.policy.deep_sheet_contact.bisections(penetration, min(sheets.values()), task.counts)
        return halvings, contact.detection

    def _scalar_stiffness(self, factors: Array, stiffness_weights: Array | None) -> csr_matrix:
        """Return the scalar stiffness of the free nodes over the first of the factors (b,), (f, f) N/m."""
        system, parts = self.system, []
        for block, nodes, factor in zip(system.blocks, system.slices, factors, strict=True):
            own = csr_matrix((len(block.rest), len(block.rest)))
            for term in block.terms:
                energy = term.rest_energy(block.rest) if term.scaling is StiffnessScaling.SCALED else None
                if energy is not None:
                    energy = energy if stiffness_weights is None else energy.with_nodal_scale(stiffness_weights[nodes])
                    own = own + _coordinate_stiffness(energy, block.rest)
            parts.append(float(factor) * own)
        total = block_diag(parts, format="csr")
        if system.links is not None:
            joints = system.links if stiffness_weights is None else system.links.with_nodal_scale(stiffness_weights)
            total = total + joints.difference.T @ diags(joints.effective_stiffness(factors)) @ joints.difference
        return total.tocsr()[self.free][:, self.free] / float(factors[0])


def _coordinate_stiffness(energy: Energy, rest: Array) -> csr_matrix:
    """Return the approximate stiffness of an energy at rest for each single coordinate, (n, n) N/m."""
    if isinstance(energy, Membrane):
        return energy.stiffness_laplacian()
    if isinstance(energy, ShellBending):
        return csr_matrix((len(rest), len(rest)))
    stiffness = energy.hessian(rest, True)
    return 0.5 * sum((stiffness[k::3][:, k::3] for k in (1, 2)), stiffness[::3][:, ::3])


class RopeProblem(ContactFreeProblem):
    """Step potential psi whose Newton directions are compiled. Newton's method needs no preconditioner."""

    rotates_preconditioner = False

    def __init__(self, *given: Any, **named: Any) -> None:
        super().__init__(*given, **named)
        self._preconditioner = ContactFreePreconditioner(self._preconditioner.base)

    def compiled_newton(self) -> RopeDirections | None:
        """Return the compiled Newton directions from now on; None without a kernel."""
        matrix = self._matrix(load_library())
        return None if matrix is None else RopeDirections(matrix, self.positions, lambda: self.low_rank)

    def separate_pieces(self, start: Array) -> RopePieces | None:
        """Return the independent pieces at velocities start (f, 3) m/s; None if they are not compiled."""
        library = load_library()
        matrix = self._matrix(library) if self.low_rank.is_empty and not self.limiting_terms else None
        if library is None or matrix is None or not can_separate(self._potential, matrix):
            return None
        step = RopeStep(
            self._h, self._inertia, self._predicted, self._load, self._start_positions, self._end_positions,
            self.value_noise,
        )  # fmt: skip
        return RopePieces(library, self._potential, matrix, step, self.positions, start)

    def _matrix(self, library: KernelLibrary | None) -> RopeMatrix | None:
        """Return the Hessian of the step; None without a kernel."""
        stepper = self._stepper
        if library is None or not isinstance(stepper, RopeStepper):
            return None
        return RopeMatrix(
            library,
            self._potential,
            stepper.free_index,
            self._inertia,
            self._h,
            self._damping_matrix,
            stepper.patterns,
            self._end_positions,
        )


class RopeStepper(Stepper):
    """Steps of ropes and nets, whose stiffness at rest says little about their hanging shape.

    patterns: of the Hessians so far.
    """

    problem_type = RopeProblem

    def __init__(self, system: System, **named: Any) -> None:
        super().__init__(system, minimise_compiled_newton, **named)
        # Slow plates stretch ropes and nets without any violence.
        motion = ExcessiveMotion(max_calm_ratio=ExcessiveMotion.max_ratio, limits_spent_steps=True)
        self.policy = replace(self.policy, spent_work=SpentWork.of_nets(), excessive_motion=motion)
        self.patterns: list[RopePattern] = []

    def build_solve(self, matrix: csr_matrix) -> Solve:
        library = load_library()
        solve = None if library is None or not len(self.free) else envelope_solve(library, matrix)
        return super().build_solve(matrix) if solve is None else solve


class WeaveStepper(Stepper):
    """Time stepper of a system with woven cloth. It caches nothing but elimination orders.

    It uses Newton's method only: the stiffness changes most where yarns begin to slip, which no constant preconditioner
    represents. Factors are kept within a frame, and renewed when they represent the stiffness too badly.
    """

    problem_type = WeaveProblem

    def __init__(self, system: System) -> None:
        super().__init__(system)
        self.policy = replace(
            self.policy, slow_progress=SlowProgress.of_woven_cloth(), spent_work=SpentWork.of_woven_cloth()
        )
        self.unknowns: WovenUnknowns = WovenUnknowns(system)
        self._orders: Memo[SymbolicFactorisation] = Memo(_MAX_CACHED_ORDERS)

    @cached_property
    def _free_rows(self) -> Index:
        """Free unknowns (r,) in ascending order; the matrix has the identity in the other rows."""
        return np.flatnonzero(self.unknowns.is_free)

    @cached_property
    def _pattern(self) -> csr_matrix:
        """Pattern of the yarns' Hessians over the free unknowns."""
        pattern, rows = self.unknowns.pattern, self._free_rows
        return pattern.matrix(np.ones(pattern.entry_count)).full()[rows][:, rows]

    @cached_property
    def _symbolic(self) -> SymbolicFactorisation:
        """Elimination order of the yarns' Hessians."""
        return self._order(self._pattern)

    def _order(self, pattern: csr_matrix) -> SymbolicFactorisation:
        """Return the elimination order of a pattern; a crossing's yarn positions are eliminated with its node.

        The factors of large cloth may neglect that bends, and the shear of crossings, couple the two neighbours of a
        node along a yarn.
        """
        cloth = self.unknowns.cloth
        nodes = np.concatenate([np.arange(cloth.count), cloth.node[cloth.crossings[:, 0]]]).repeat(3)[self._free_rows]
        used, node_of_row = np.unique(nodes, return_inverse=True)
        negligible = None
        if cloth.count > _MIN_NEGLECTING_NODES:
            number = np.full(cloth.count, -1)
            number[used] = np.arange(len(used))
            first, last = cloth.bends.T
            negligible = number[np.column_stack([cloth.ends[first, 0], cloth.ends[last, 1]])]
            negligible = negligible[(negligible >= 0).all(axis=1)]
        return SymbolicFactorisation.of(pattern, self.system.rest[used], node_of_row, negligible)

    def _symbolic_of(self, matrix: csr_matrix) -> SymbolicFactorisation:
        """Return the elimination order of a Hessian of the free unknowns.

        A contact with a collider acts on one node, or on the two of a yarn segment, which are coupled anyway. Other
        contacts, links and other bodies couple more nodes.
        """
        if len(self.system.blocks) == 1 and not self._touches_itself:
            return self._symbolic
        joined = self._pattern + csr_matrix((np.ones(matrix.nnz), matrix.indices, matrix.indptr), matrix.shape)
        if joined.nnz == self._pattern.nnz:
            return self._symbolic
        key = joined.indptr.tobytes(), joined.indices.tobytes()
        return self._orders.get(key, lambda: self._order(joined))

    @cached_property
    def _touches_itself(self) -> bool:
        """True if yarns may touch others of the same cloth."""
        return self.system.contact is not None and len(self.system.contact.self_colliding) > 0

    def _factorise(self, matrix: csr_matrix) -> Solve:
        rows = self._free_rows
        if len(rows) > _MIN_MULTIFRONTAL_UNKNOWNS:
            free = matrix[rows][:, rows]
            symbolic = self._symbolic_of(free)
            # Single precision suffices for a preconditioner if no pivot is lost in rounding.
            for kind in (np.float32, np.float64):
                solve = symbolic.factorise(free, kind)
                if solve is not None:
                    return _extended_solve(solve, rows)
        return factorise(matrix)

    def attempts(self, task: StepTask) -> list[tuple[bool, Minimiser]]:
        """Return the only attempt: its law has no history, and Newton's method is used already."""
        factors = task.meter.factors.setdefault(self, KeptFactors(self._factorise))
        # Statics add up the errors of many searches.
        forcing = rough_forcing(0.0 if task.controls.is_static else task.controls.tolerance)

        def minimise(problem: WeaveProblem, start: Array, tolerance: Tolerance) -> Minimum:
            return minimise_newton_cg(problem, start, tolerance, factors, forcing=forcing)

        return [(False, minimise)]
