"""Static equilibrium of a scene, and the stiffness that gives a requested Sag."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from copy import copy
from dataclasses import replace
from functools import partial

import numpy as np

from ..base.arrays import Array, Index
from ..base.computation import Memo, StageProgress
from ..bodies import kind_by_name
from ..bodies.kind import BASE_YOUNG
from ..contact.collision_detection import CollisionDetection
from ..contact.collision_state import CollisionState
from ..contact.penalty_and_friction import TOLERATED_DEPTH, ContactPotential
from ..scene.body import HARD_PIN_WEIGHT, Body, SceneSample, unpinned_size
from ..scene.parameters import Settings, StiffnessBy
from ..scene.part import freely_moved_weights, part_shares, parts_at
from ..scene.scene import Scene
from ..settle.geometric_stiffness import estimated_regions, with_geometric_stiffness, with_minimum_eigenvalues
from ..steppers.implicit import Stepper
from ..steppers.static import solve_static_equilibrium
from ..system.inputs import Inputs, without_contact
from ..system.region import Region
from ..system.state import State
from ..system.system import System, assemble_system
from .assembly import Assembly, Island, rebuild_islands
from .body_forces import BodyLoad, FieldAccelerations, body_loads, with_accelerations, with_gravity
from .inverse_statics import can_change_rest_shape, solve_rest_shape
from .method_selection import has_net, make_stepper, yarn_dials
from .poses import PoseEvaluator

# Relative tolerance of the sag, and the maximum number of static solves.
_RELATIVE_TOLERANCE = 2e-3
_MAX_SOLVES = 14
# If the sag is below half this fraction of the target, jump to half the target. Stiffen by the second factor beyond the
# predicted stiffness.
_JUMP_RATIO, _OVERSTIFFENING = 0.5, 1.05
# Largest ratio between a trial and the nearest known factor.
_MAX_STEP_RATIO = 1e6
# Stiffening ratio while every known factor sags too much.
_STIFFENING_RATIO = 20.0
# From this fraction of the target on, take full secant steps.
_FULL_STEP_RATIO = 0.8


def stiffness_for_sag(
    sag_at: Callable[[float], float], target_sag: float, guess: float, is_cut: Callable[[], bool] = lambda: False
) -> float:
    """Return the stiffness factor with which a body sags by the target.

    sag_at: static sag for a factor; decreases roughly in inverse proportion.
    target_sag: in the same unit.
    guess: initial factor.
    is_cut: returns whether the last static solve spent its work, so that its sag is not that at rest, and further
        solves would take as long.

    If the target cannot be reached, return the best factor tried. A rope, for example, hangs no lower than its length.
    Callers measure and display the resulting sag.
    """
    factor, sags = guess, dict[float, float]()
    for _ in range(_MAX_SOLVES):
        sags[factor] = sag_at(factor)
        if is_cut():
            if len(sags) > 1:
                del sags[factor]
            break
        if abs(sags[factor] - target_sag) <= _RELATIVE_TOLERANCE * target_sag:
            break
        softest_bound = max((f for f, sag in sags.items() if sag > target_sag), default=0.0)
        stiff_bound = min((f for f, sag in sags.items() if sag <= target_sag), default=0.0)
        best, *others = sorted(sags, key=lambda f: abs(np.log(max(sags[f], 1e-300) / target_sag)))
        slope = 0.0
        if others and min(sags[best], sags[others[0]]) > 0.0 and sags[best] != sags[others[0]]:
            # In logarithms, sag over stiffness is nearly a straight line. It is steeper towards collapse.
            slope = float(np.log(best / others[0]) / np.log(sags[best] / sags[others[0]]))
        # Where sag hardly depends on stiffness, the extrapolation overflows.
        with np.errstate(over="ignore"):
            step = np.power(target_sag / max(sags[best], 1e-300), slope if slope < 0.0 else -1.0)
        factor = best * float(np.clip(step, 1.0 / _MAX_STEP_RATIO, _MAX_STEP_RATIO))
        if not softest_bound:
            # Collapsing bodies converge slowly, so approach from the stiff side. Small sags are exactly linear.
            half_target_ratio = 2.0 * sags[stiff_bound] / target_sag
            if half_target_ratio < _JUMP_RATIO:
                factor = stiff_bound * half_target_ratio
            elif sags[stiff_bound] < _FULL_STEP_RATIO * target_sag:
                factor = float(np.sqrt(factor * best))
        elif not stiff_bound:
            # Where all known sags are equal, the secant step returns to its start.
            stiffest = softest_bound * _STIFFENING_RATIO
            factor = min(factor * _OVERSTIFFENING, stiffest) if factor > softest_bound else stiffest
        elif not softest_bound < factor < stiff_bound:
            factor = float(np.sqrt(softest_bound * stiff_bound))
        if factor in sags:
            break
    return min(sags, key=lambda f: abs(sags[f] - target_sag))


# Cached equilibrium states and stiffnesses.
_CACHED_STATES = 16
# For a keyframed Sag, stiffness is solved at this many values per doubling and interpolated linearly between their
# logarithms. Sag is nearly inversely proportional to stiffness, so the error is below 0.1%.
_KNOTS_PER_DOUBLING = 2.0
# Rounds in which the weights of parts that pull on each other are found for their Sag, one part after the other.
_PART_ROUNDS = 3
# Share from which a vertex counts for the Sag of a part.
_MIN_PART_SHARE = 0.5
# Solver tolerance where only the sag is needed, not the shape.
_SAG_TOLERANCE = 1e-3
# In m/s^2. Without gravity in the scene, Sag refers to this one.
_EARTH_GRAVITY = np.array([0.0, 0.0, -9.81])
# In non-uniform fields, equilibrium is a fixed-point iteration. It stops once no node moves by more than the first
# fraction of the size. It fails if an iteration moves nodes by more than the second fraction of the previous move.
_WIND_TOLERANCE = 1e-7
# The same where only first eigenvalues are needed.
_LOAD_TOLERANCE = 1e-4
_REQUIRED_DECREASE = 0.5


def interpolate_over_sag(sag: float, value_at: Callable[[float], float]) -> float:
    """Return a positive value for a keyframed Sag in percent, interpolated between the values at two knots."""
    knot = np.log2(sag) * _KNOTS_PER_DOUBLING
    low = float(np.floor(knot))
    fraction = float(knot - low)
    below, above = (value_at(float(f"{2.0 ** (k / _KNOTS_PER_DOUBLING):.6g}")) for k in (low, low + 1.0))
    return float(np.exp((1.0 - fraction) * np.log(below) + fraction * np.log(above)))


def part_size(body: Body, vertices: Index) -> float:
    """Return the size in m that the Sag of a part of a body refers to, see unpinned_size(). vertices: of the part."""
    is_inside = np.zeros(len(body.pins), dtype=bool)
    is_inside[vertices] = True
    elements = (one[is_inside[one].any(axis=1)] for one in (body.surface.triangles, body.edges))
    return unpinned_size(body.surface.vertices, body.pins, *elements)


class StaticSolver:
    """Static solver of one assembly in the pose of its first frame."""

    def __init__(
        self,
        scene: Scene,
        assembly: Assembly,
        first_sample: SceneSample,
        factor_source: StaticSolver | None = None,
        progress: StageProgress | None = None,
    ) -> None:
        """Build a stepper per island, and add the effect of weight to its first eigenvalues.

        factor_source: solver that resolves the stiffness dials; this one if None.
        progress: receives the progress of each search.
        """
        self.progress, self._factor_source = progress or StageProgress(), factor_source
        self._scene, self.assembly, self.first_sample = scene, assembly, first_sample
        self.pose_evaluator = PoseEvaluator(scene, assembly)
        self.islands = [with_gravity(one, self._settings(one)) for one in assembly.islands]
        self.steppers = [make_stepper(island.system) for island in self.islands]
        self._hanging_cache: Memo[State] = Memo(_CACHED_STATES)
        self._hanging_guess: dict[int, State] = {}
        self._estimated_islands: set[int] = set()
        self._young_cache: Memo[float] = Memo(_CACHED_STATES)
        self._part_weights: Memo[tuple[float, ...]] = Memo(_CACHED_STATES)
        self._add_gravity_stiffness()

    def for_assembly(self, assembly: Assembly, progress: StageProgress | None = None) -> StaticSolver:
        """Return the solver of another assembly of the scene, with the stiffness of this one."""
        return StaticSolver(self._scene, assembly, self.first_sample, self, progress)

    def with_inverse_rest_shapes(self) -> Assembly:
        """Return the assembly with inverse rest shapes for the bodies that use Keep Modelled Shape."""
        models, bodies = list(self.assembly.models), self._scene.bodies
        for number, island in enumerate(self.islands):
            factors, state = self.stiffness_factors(number), self.posed_state(number)
            for place, k in enumerate(island.bodies):
                model, surface = models[k], self.first_sample.bodies[k].vertices
                if not bodies[k].settings.keep_shape or not can_change_rest_shape(model):
                    continue
                # Links do not count.
                if is_constrained(assemble_system((model.block,), np.zeros(3), None, has_eigenvalues=False)):
                    weight = model.block.mass[:, None] * self._gravity_of(k)
                    node_weights = self._node_weights(number, place, bodies[k].settings)
                    weight = weight if node_weights is None else node_weights[:, None] * weight
                    nodes, factor = state.positions[island.system.slices[place]], float(factors[place])
                    models[k] = solve_rest_shape(model, surface, nodes, weight, factor, self.progress)
        return rebuild_islands(self._scene, Assembly(tuple(models), tuple(self.islands)))

    def _add_gravity_stiffness(self) -> None:
        """Add the effect of weight to the first eigenvalues. Standing bodies become softer, hanging ones stiffer."""
        for number, island in enumerate(self.islands):
            regions = island.system.regions
            is_hanging = island.system.gravity.any() and is_constrained(island.system) and bool(regions)
            if not is_hanging and all(region.has_elastic_stiffness for region in regions):
                continue
            factors, posed = self.stiffness_factors(number), self.posed_state(number).positions
            if is_hanging:
                estimated = (
                    None if self.needs_hanging_state(number) else estimated_regions(island.system, factors, posed)
                )
                if estimated is None:
                    state = self.solve_equilibrium(number, self.first_sample, factors)
                    if has_net(island.system):
                        # The search for a hanging net is long, and the new eigenvalues do not change its result.
                        self._hanging_guess[number] = state
                    acceleration = self.acceleration_under(number, self.first_loads(number), None)
                    regions = with_geometric_stiffness(island.system, state, factors, posed, acceleration)
                else:
                    regions = estimated
                    self._estimated_islands.add(number)
            else:
                regions = with_minimum_eigenvalues(island.system, factors)
            self.steppers[number] = self.steppers[number].with_regions(regions)
            self.islands[number] = replace(island, system=self.steppers[number].system)
        # These states were found with the previous steppers.
        self._hanging_cache.clear()

    def with_regions(self, number: int, regions: tuple[Region, ...]) -> StaticSolver:
        """Return the solver with other eigenvalues and hanging shapes of an island. Sag is that of this one."""
        other = self.without_progress()
        other.islands, other.steppers = list(self.islands), list(self.steppers)
        other.steppers[number] = self.steppers[number].with_regions(regions)
        other.islands[number] = replace(self.islands[number], system=other.steppers[number].system)
        other._factor_source = self._factor_source or self
        return other

    def with_island_gravity(self, number: int, gravity: Array) -> StaticSolver:
        """Return the solver with another gravity (3,) m/s^2 of an island, for its dials. The stepper is the same."""
        other, island = copy(self), self.islands[number]
        other.islands = list(self.islands)
        other.islands[number] = replace(island, system=replace(island.system, gravity=gravity))
        other._factor_source = self._factor_source or self
        return other

    def without_progress(self) -> StaticSolver:
        """Return the solver for searches after the preparation, which report no progress."""
        other = copy(self)
        other.progress = StageProgress()
        return other

    def posed_state(self, island: int) -> State:
        """Return the state of an island in the first pose, not deflected."""
        return self.pose_evaluator.animated_state(self.islands[island], self.first_sample)

    def first_loads(self, island: int) -> list[BodyLoad]:
        """Return the loads of an island's bodies at the first frame."""
        return self._loads_in(self.islands[island], self.first_sample)

    def fields_at(self, island: int, state: State, frames: float = 0.0) -> FieldAccelerations:
        """Return the accelerations of an island by force fields in a state at rest, in frames after the first one."""
        settings, frame = self._settings(self.islands[island]), self.first_sample.frame + frames
        return FieldAccelerations(self.islands[island], state, settings, frame, 1.0 / self._scene.fps)

    def acceleration_under(self, island: int, loads: Sequence[BodyLoad], fields: FieldAccelerations | None) -> Array:
        """Return the acceleration (n, 3) m/s^2 of an island's nodes under loads in the first pose.

        loads: of its bodies.  fields: None to ignore force fields.
        """
        data = self.islands[island]
        inputs = self._stationary_inputs(data, self.first_sample, fields, False, loads)
        found = data.system.acceleration(inputs, np.arange(len(data.system.rest)))
        return np.array(np.broadcast_to(found, data.system.rest.shape))

    def equilibrium_under(self, island: int, loads: Sequence[BodyLoad], state: State | None = None) -> State:
        """Return the equilibrium of an island in the first pose under loads, without contact.

        state: from which the search starts; force fields then act as they do in it, in any shape.
        """
        sample, factors = self.first_sample, self.stiffness_factors(island)
        fields = None if state is None else self.fields_at(island, state)
        found = self.solve_equilibrium(island, sample, factors, state, fields, loads=loads)
        return self.state_in_wind(island, sample, factors, found, loads) if state is None else found

    def _loads_in(self, island: Island, sample: SceneSample) -> list[BodyLoad]:
        settings = self._settings(island)
        return self.with_part_weights(island, body_loads(island, sample, settings), settings)

    def _stationary_inputs(
        self,
        island: Island,
        sample: SceneSample,
        fields: FieldAccelerations | None,
        with_contact: bool,
        loads: Sequence[BodyLoad],
    ) -> Inputs:
        """Return the inputs of an equilibrium, see solve_equilibrium()."""
        inputs = self.pose_evaluator.stationary_inputs(island, sample)
        inputs = inputs if with_contact else without_contact(inputs)
        return with_accelerations(island, inputs, loads, loads, self._scene.gravity, fields)

    def needs_hanging_state(self, island: int) -> bool:
        """Return whether Start at Rest, Sag or Keep Modelled Shape of an island's bodies needs its equilibrium."""
        settings = self._settings(self.islands[island])
        return (
            all(one.start_settled for one in settings)
            or any(one.keep_shape or one.stiffness_by == StiffnessBy.SAG for one in settings)
            or self._has_sagging_parts(island)
        )

    def _has_sagging_parts(self, island: int) -> bool:
        """Return whether a part of an island's bodies has a Sag of its own. The Sag of a body does not count it."""
        return any(part.sag is not None for k in self.islands[island].bodies for part in self._scene.bodies[k].parts)

    def has_hanging_state(self, island: int) -> bool:
        """Return whether an island's equilibrium at the first frame was solved during the preparation."""
        return island not in self._estimated_islands

    def _settings(self, island: Island) -> list[Settings]:
        """Return the settings of an island's bodies at the first frame."""
        return [self._scene.bodies[k].settings for k in island.bodies]

    def solve_equilibrium(
        self,
        island: int,
        sample: SceneSample,
        factors: Array,
        state: State | None = None,
        fields: FieldAccelerations | None = None,
        with_contact: bool = False,
        allow_sliding: bool = False,
        loads: Sequence[BodyLoad] | None = None,
    ) -> State:
        """Return the static equilibrium of an island under gravity.

        The search starts at the state, or in the animated shape if None.
        fields: force fields, which stay constant.
        with_contact: whether contacts act, as at the start of a shot; Sag is solved without them.
        allow_sliding: whether woven yarns may slide against friction.
        loads: of the island's bodies; None for those of the sample.
        """
        island_data = self.islands[island]
        initial = self.pose_evaluator.animated_state(island_data, sample) if state is None else state
        acting = self._loads_in(island_data, sample) if loads is None else loads
        inputs = self._stationary_inputs(island_data, sample, fields, with_contact, acting)
        # The tolerance of other islands must not affect this one.
        tolerance = min([1e-3, *(self._scene.bodies[k].settings.tolerance for k in island_data.bodies)])
        yarns = yarn_dials(island_data.system, self._settings(island_data)) if allow_sliding else ()
        return solve_static_equilibrium(
            self.steppers[island], initial, inputs, tolerance, factors, yarns, self.progress
        )

    def contracted_state(self, island: int, sample: SceneSample, state: State) -> State:
        """Return the equilibrium of an island under its contracted fibres alone, without gravity, fields or contact."""
        island_data, factors = self.islands[island], self.stiffness_factors(island)
        stepper = make_stepper(replace(island_data.system, gravity=np.zeros(3)))
        inputs = without_contact(self.pose_evaluator.stationary_inputs(island_data, sample))
        return solve_static_equilibrium(stepper, state, inputs, _SAG_TOLERANCE, factors, progress=self.progress)

    def rests_on_contact(self, island: int, sample: SceneSample, state: State) -> bool:
        """Return whether an island has contact forces, and no penetration that is deep enough to be visible."""
        island_data = self.islands[island]
        model = island_data.system.contact
        assert model is not None
        contact_inputs = [one.contact for one in self.pose_evaluator.stationary_inputs(island_data, sample)]
        factors = self.stiffness_factors(island)
        moment = CollisionState.of(model, state.positions, contact_inputs, factors, 1.0 / self._scene.fps)
        rows = CollisionDetection(moment, None)(state.positions)
        contact_state = ContactPotential(rows, np.zeros(len(rows))).forces_at(state.positions)
        depths = -contact_state.gap - rows.target_gap
        return bool((contact_state.force > 0.0).any() and (depths <= TOLERATED_DEPTH * rows.distance).all())

    def state_in_wind(
        self,
        island: int,
        sample: SceneSample,
        factors: Array,
        state: State,
        loads: Sequence[BodyLoad] | None = None,
    ) -> State:
        """Return the equilibrium under gravity and force fields, starting from the equilibrium without fields.

        Return the given state if the iteration does not converge, as in fields that keep a body rotating.

        loads: of the island's bodies, without contact; None for those of the sample, with contact.
        """
        cut_count = self.progress.cut_count
        island_data = self.islands[island]
        island_settings = self._settings(island_data)
        acting = body_loads(island_data, sample, island_settings) if loads is None else loads
        tolerance = _WIND_TOLERANCE if loads is None else _LOAD_TOLERANCE
        size = min(self._scene.bodies[k].surface.size for k in island_data.bodies)
        current, last_move = state, np.inf
        while True:
            # At rest, there is no velocity relative to the air.
            fields = FieldAccelerations(island_data, current, island_settings, sample.frame, 1.0 / self._scene.fps)
            if current is state and not fields.is_active(acting):
                return state
            after = self.solve_equilibrium(
                island, sample, factors, current, fields, with_contact=loads is None, loads=loads
            )
            move = float(np.abs(after.positions - current.positions).max())
            current = after
            if move <= tolerance * size:
                return current
            if not move <= _REQUIRED_DECREASE * last_move or self.progress.cut_count > cut_count:
                return state
            last_move = move

    def hanging_state(self, island: int, factors: Array) -> State:
        """Return the equilibrium of an island at the first frame."""
        key, initial = (island, factors.tobytes()), self._hanging_guess.get(island)
        return self._hanging_cache.get(key, lambda: self.solve_equilibrium(island, self.first_sample, factors, initial))

    def stiffness_factors(self, island: int, settings: Sequence[Settings] | None = None) -> Array:
        """Return the stiffness factor (b,) of each block of an island.

        settings: of the island's bodies; None for those at the first frame.
        """
        if self._factor_source is not None:
            return self._factor_source.stiffness_factors(island, settings)
        island_data = self.islands[island]
        found = np.ones(len(island_data.system.blocks))
        for k, one in enumerate(settings or self._settings(island_data)):
            if kind_by_name(self._scene.bodies[island_data.bodies[k]].kind).has_stiffness:
                is_sagging = one.stiffness_by == StiffnessBy.SAG
                found[k] = (self._young_for_sag(island, k, one.sag) if is_sagging else one.young) / BASE_YOUNG
        return found

    def _young_for_sag(self, island: int, block: int, sag: float) -> float:
        body = self._scene.bodies[self.islands[island].bodies[block]]

        def young_at(value: float) -> float:
            return self._young_cache.get(
                (island, block, value), lambda: self._solve_young_for_sag(island, block, value)
            )

        return interpolate_over_sag(sag, young_at) if body.has_animated_settings else young_at(sag)

    def _solve_young_for_sag(self, island: int, block: int, sag: float) -> float:
        isolated, block_index = self._isolated_island(island, block)
        body = self._scene.bodies[isolated.bodies[block_index]]
        if not isolated.system.regions_of(block_index):
            # Completely pinned bodies do not sag, whatever their stiffness.
            return BASE_YOUNG
        gravity, size = float(np.linalg.norm(isolated.system.gravity)), body.unpinned_size
        target_sag = sag / 100.0
        if not is_constrained(isolated.system):
            # Unconstrained bodies do not hang. Use the compression of a standing column of the same size.
            return body.settings.density * gravity * size / (2.0 * target_sag)
        slowest = min(region.eigenvalue for region in isolated.system.regions)
        # A net may have no stiffness at rest, so its weight limits the first guess.
        guess = gravity / (max(slowest, 1e-6 * gravity / size) * target_sag * size)
        solver, initial, inputs = self._isolated_problem(island, isolated)

        def sag_at(factor: float) -> float:
            factors = np.ones(len(isolated.system.blocks))
            factors[block_index] = factor
            if isolated is self.islands[island] and not self._has_sagging_parts(island):
                state = self.hanging_state(island, factors)
            else:
                state = solve_static_equilibrium(
                    solver, initial, inputs, _SAG_TOLERANCE, factors, progress=self.progress
                )
            return self._sag_depth(isolated, block_index, state)

        cut_count = self.progress.cut_count
        # Always start from the same guess, so that a frame does not depend on earlier solves.
        factor = stiffness_for_sag(sag_at, target_sag, guess, lambda: self.progress.cut_count > cut_count)
        return BASE_YOUNG * factor

    def with_part_weights(
        self, island: Island, loads: Sequence[BodyLoad], settings: Sequence[Settings]
    ) -> list[BodyLoad]:
        """Return the loads of an island's bodies with the weights that give their parts the dialled Sag.

        settings: of these bodies.
        """
        number, _ = self.assembly.island_and_block(island.bodies[0])
        weights = [self._node_weights(number, k, one) for k, one in enumerate(settings)]
        return [
            load if own is None else replace(load, node_weights=own) for load, own in zip(loads, weights, strict=True)
        ]

    def _node_weights(self, island: int, block: int, settings: Settings) -> Array | None:
        """Return factors (n,) on the gravity of a body's nodes; None if no part has a Sag."""
        body = self._scene.bodies[self.islands[island].bodies[block]]
        first, parts = body.parts, parts_at(body.parts, settings)
        shares = self.islands[island].system.blocks[block].part_shares
        if shares is None or all(part.sag is None for part in parts):
            return None
        dialled = tuple(part.sag for part in first)
        weights = np.array(self.part_weights(island, block, dialled))

        def weight_at(k: int, sag: float) -> float:
            return self.part_weights(island, block, (*dialled[:k], sag, *dialled[k + 1 :]))[k]

        for k, part in enumerate(parts):
            if part.sag != dialled[k] and part.sag is not None:
                weights[k] = interpolate_over_sag(part.sag, partial(weight_at, k))
        return np.asarray(1.0 + shares[:, 1:] @ (weights - 1.0))

    def part_weights(self, island: int, block: int, sags: tuple[float | None, ...]) -> tuple[float, ...]:
        """Return the factor on the gravity of each part of a body with which it hangs as far as its Sag.

        sags: in percent of the size of each part; parts with None keep the factor 1, as does a part without a free
            vertex. All are 1 for a body that its own pins do not hold.
        """
        if self._factor_source is not None:
            return self._factor_source.part_weights(island, block, sags)
        return self._part_weights.get((island, block, sags), lambda: self._solve_part_weights(island, block, sags))

    def _solve_part_weights(self, island: int, block: int, sags: tuple[float | None, ...]) -> tuple[float, ...]:
        isolated, place = self._isolated_island(island, block)
        system, body, found = isolated.system, self._scene.bodies[isolated.bodies[place]], np.ones(len(sags))
        shares, painted = system.blocks[place].part_shares, freely_moved_weights(body.parts, body.pins)
        vertices = [
            np.flatnonzero(share >= _MIN_PART_SHARE) for share in part_shares(painted, 1.0 - body.pins)[:, 1:].T
        ]
        # No weight moves vertices that are pinned hard.
        vertices = [one[body.pins[one] < HARD_PIN_WEIGHT] for one in vertices]
        targets = {k: sag / 100.0 for k, sag in enumerate(sags) if sag is not None and len(vertices[k])}
        if shares is None or not targets or not is_constrained(isolated.system):
            return tuple(found.tolist())
        factors = self.stiffness_factors(island)
        factors = factors if len(factors) == len(system.blocks) else factors[[block]]
        (stepper, start, still), known = self._isolated_problem(island, isolated), dict[bytes, Array]()
        inputs = list(still)

        def hang(weights: Array) -> Array:
            """Return the displacements (v,) m of the vertices."""
            key = weights.tobytes()
            if key not in known:
                node_weights = 1.0 + shares[:, 1:] @ (weights - 1.0)
                inputs[place] = replace(inputs[place], acceleration=node_weights[:, None] * system.gravity)
                state = solve_static_equilibrium(
                    stepper, start, tuple(inputs), _SAG_TOLERANCE, factors, progress=self.progress
                )
                known[key] = self._surface_displacements(isolated, place, state)
            return known[key]

        sizes, cut_count = [part_size(body, one) for one in vertices], self.progress.cut_count

        def is_cut() -> bool:
            return self.progress.cut_count > cut_count

        def sag_of(part: int, inverse_weight: float) -> float:
            trial = found.copy()
            trial[part] = 1.0 / inverse_weight
            return float(hang(trial)[vertices[part]].max()) / sizes[part]

        for _ in range(_PART_ROUNDS):
            before = found.copy()
            for k, target in targets.items():
                # Sag decreases with the inverse of the weight, as it does with stiffness.
                found[k] = 1.0 / stiffness_for_sag(partial(sag_of, k), target, 1.0 / found[k], is_cut)
            if len(targets) == 1 or np.array_equal(found, before):
                break
        return tuple(found.tolist())

    def _isolated_problem(self, number: int, isolated: Island) -> tuple[Stepper, State, Inputs]:
        """Return the stepper, the start and the inputs of the search for the equilibrium of an isolated island.

        number: of the island that isolated is, or that it is a part of.
        """
        stepper = self.steppers[number] if isolated is self.islands[number] else make_stepper(isolated.system)
        inputs = without_contact(self.pose_evaluator.stationary_inputs(isolated, self.first_sample))
        return stepper, self.pose_evaluator.animated_state(isolated, self.first_sample), inputs

    def _isolated_island(self, island: int, block: int) -> tuple[Island, int]:
        """Return an island of one body under its own weight, and the index of its block there.

        Earth's gravity replaces zero gravity. Linked bodies are left out, because each one has its own Sag.
        """
        island_data = self.islands[island]
        weight = self._gravity_of(island_data.bodies[block])
        gravity = weight if weight.any() else _EARTH_GRAVITY
        if len(island_data.bodies) == 1:
            if gravity is weight:
                return island_data, block
            return replace(island_data, system=replace(island_data.system, gravity=gravity)), block
        system = assemble_system((island_data.system.blocks[block],), gravity, None)
        return Island(system, (island_data.bodies[block],), (), slice(0, len(system.rest))), 0

    def sag(self, island: int, block: int, factors: Array) -> float:
        """Return the distance of a body's surface from its animation at the first frame, relative to its free size."""
        if not self.islands[island].system.regions_of(block):
            # The body is completely pinned. A chain that hangs from it may take long to settle, so skip the solve.
            return 0.0
        return self._sag_depth(self.islands[island], block, self.hanging_state(island, factors))

    def _gravity_of(self, body: int) -> Array:
        """Return the gravity (3,) that acts on a body, in m/s^2."""
        return np.asarray(self._scene.bodies[body].settings.gravity_weight * self._scene.gravity)

    def _sag_depth(self, island: Island, block: int, state: State) -> float:
        size = self._scene.bodies[island.bodies[block]].unpinned_size
        return float(self._surface_displacements(island, block, state).max()) / size

    def _surface_displacements(self, island: Island, block: int, state: State) -> Array:
        """Return the distance (v,) m of a body's vertices from their animation at the first frame."""
        body = island.bodies[block]
        animated = self.first_sample.bodies[body].vertices
        surface = self.assembly.models[body].skin(state.positions[island.system.slices[block]], animated)
        return np.asarray(np.linalg.norm(surface - animated, axis=1))


def is_constrained(system: System) -> bool:
    """Return whether the pins leave no part of a system free to fall."""
    return all(region.rigid_modes == 0 for region in system.regions)
