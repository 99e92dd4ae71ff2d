"""Versions of a scene under the loads that act later in a shot: gravity, wind and force fields that are switched.

The settle law refers to the first eigenvalue in equilibrium under the load. A load that changes in the shot changes the
equilibrium, so that its eigenvalues replace those under the weight of the first frame.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from ..base.arrays import Array, Index
from ..base.computation import Memo
from ..scene.body import SceneSample
from ..scene.parameters import Settings
from ..scene.scene import Scene
from ..settle.geometric_stiffness import estimated_regions, with_geometric_stiffness, with_minimum_eigenvalues
from ..system.inputs import Inputs
from ..system.region import Region
from ..system.state import State
from .assembly import Island
from .body_forces import BodyLoad, acceleration_gradient, body_loads
from .dials import DialInterpreter, has_natural_bounce
from .field_equilibrium import find_field_equilibrium
from .method_selection import uses_dampsim_stepper
from .poses import BlockPose
from .statics import StaticSolver, is_constrained

# Frames after which fields that change by themselves differ.
_LATER = 1.37
# Largest gradient of the acceleration, relative to the first eigenvalue, at which an equilibrium under the acceleration
# at the start of a step is near the true one.
_MAX_GRADIENT = 0.3
# Largest gradient, relative to the same, at which any equilibrium in a field is stable.
_MAX_FLAT_GRADIENT = 0.5
# A mean acceleration below this fraction of the largest one is a rounding error.
_ROUNDING = 1e-9
# Cached versions of each island. Each one holds its own hanging shape, and its stepper its own factorisations.
_CACHED_VERSIONS = 8


@dataclass(frozen=True)
class LoadVersion:
    """First eigenvalues, hanging shapes and settle laws of an island under certain loads.

    steady_load: see BlockInputs.
    held_accelerations: (n, 3) m/s^2, of the nodes in equilibrium; None where fields act at the place of each node.
    """

    statics: StaticSolver
    dials: DialInterpreter
    steady_load: Array | None = None
    held_accelerations: Array | None = None

    def with_steady_load(self, island: Island, inputs: Inputs) -> Inputs:
        """Return the inputs of a step of an island with the load that acts in it, where it varies in space only."""
        if self.steady_load is None:
            return inputs
        found = [replace(one, steady_load=self.steady_load) for one in inputs]
        if self.held_accelerations is not None:
            for block, nodes in enumerate(island.system.slices):
                found[block] = replace(found[block], acceleration=self.held_accelerations[nodes])
        return tuple(found)


class LoadVersions:
    """Load versions of one scene. Each one depends only on the loads, not on the frames in between."""

    def __init__(self, scene: Scene, statics: StaticSolver, dials: DialInterpreter) -> None:
        """statics, dials: those of the loads at the first frame."""
        self._scene, self._first = scene, LoadVersion(statics, dials)
        self._first_loads: dict[int, Sequence[BodyLoad]] = {}
        self._versions: dict[int, Memo[LoadVersion]] = {}
        self._first_poses: dict[int, Sequence[BlockPose]] = {}

    @property
    def first(self) -> LoadVersion:
        """Version of the loads at the first frame."""
        return self._first

    def is_held(self, island: int, start: SceneSample, end: SceneSample) -> bool:
        """Return whether the loads of an island are the same at the start and the end of a frame.

        Otherwise loads that are keyed with steps would count as constant between these, and each new value would be
        searched.
        """
        statics, data = self._first.statics, self._first.statics.islands[island]
        loads = []
        for sample in (start, end):
            settings = [sample.settings[k] for k in data.bodies]
            loads.append(statics.with_part_weights(data, body_loads(data, sample, settings), settings))
        return all(one.is_same(other) for one, other in zip(*loads, strict=True))

    def version_for(
        self,
        island: int,
        start: Sequence[BodyLoad],
        end: Sequence[BodyLoad],
        settings: Sequence[Settings],
        poses: Sequence[Sequence[BlockPose]] = (),
        state: State | None = None,
    ) -> LoadVersion:
        """Return the version of an island for a step.

        While its loads change, it is that of the first frame.

        start, end: loads of the island's bodies at the start and the end of the step.  settings: of these bodies.
        poses: of the island at the start and the end of the step; () for that of the first frame.
        state: of the island at the start of the step; None if nothing touches it.
        """
        first = self._loads_at_start(island)
        if all(one.is_same(other) for one, other in zip(end, first, strict=True)):
            return self._first
        is_constant = all(one.is_same(other) for one, other in zip(start, end, strict=True))
        if not is_constant or not self._depends_on_loads(island, settings):
            return self._first
        # The islands take turns in each substep, so that one memo for all would keep none of many versions.
        versions = self._versions.setdefault(island, Memo(_CACHED_VERSIONS))
        can_hold = self._can_hold(island, end, settings, poses, state)
        key = (can_hold, *(one.key for one in end))
        return versions.get(key, lambda: self._build(island, tuple(end), can_hold))

    def _can_hold(
        self,
        island: int,
        loads: Sequence[BodyLoad],
        settings: Sequence[Settings],
        poses: Sequence[Sequence[BlockPose]],
        state: State | None,
    ) -> bool:
        """Return whether an island rests in its fields as it would in the first pose, with nothing else that acts."""
        statics = self._first.statics
        return (
            any(one.accelerating_fields for one in loads)
            and not any(one.has_wind for one in loads)
            and not any(block.is_driven for pose in poses for block in pose)
            and all(self._is_first_pose(island, pose) for pose in poses)
            and np.array_equal(statics.stiffness_factors(island, settings), statics.stiffness_factors(island))
            and (state is None or not statics.islands[island].system.touched_regions(state))
        )

    def _is_first_pose(self, island: int, pose: Sequence[BlockPose]) -> bool:
        """Return whether the pins and the animated meshes of an island are where they were at the first frame."""
        if island not in self._first_poses:
            statics = self._first.statics
            evaluator = statics.pose_evaluator
            self._first_poses[island] = evaluator.island_pose(statics.islands[island], statics.first_sample)
        return all(one.has_place_of(first) for one, first in zip(pose, self._first_poses[island], strict=True))

    def _loads_at_start(self, island: int) -> Sequence[BodyLoad]:
        if island not in self._first_loads:
            self._first_loads[island] = self._first.statics.first_loads(island)
        return self._first_loads[island]

    def _depends_on_loads(self, island: int, settings: Sequence[Settings]) -> bool:
        """Return whether the law of an island refers to its first eigenvalues.

        Dampings of the papers do not, and a natural Bounce has the inertia of nature, so that its decay depends on no
        eigenvalue.
        """
        data = self._first.statics.islands[island]
        kinds = [self._scene.bodies[k].kind for k in data.bodies]
        return (
            bool(data.system.regions)
            and is_constrained(data.system)
            and all(uses_dampsim_stepper(one) for one in settings)
            and any(one.is_settle_controlled for one in settings)
            and not any(has_natural_bounce(kind, one) for kind, one in zip(kinds, settings, strict=True))
        )

    def _build(self, island: int, loads: Sequence[BodyLoad], can_hold: bool) -> LoadVersion:
        statics = self._first.statics
        posed = statics.posed_state(island)
        fields = statics.fields_at(island, posed)
        acceleration = statics.acceleration_under(island, loads, fields)
        if np.array_equal(acceleration, statics.acceleration_under(island, self._loads_at_start(island), None)):
            # The fields of the first frame are off.
            return self._first
        later = statics.acceleration_under(island, loads, statics.fields_at(island, posed, _LATER))
        is_steady = np.array_equal(acceleration, later)
        regions, held = regions_under_loads(statics, island, loads, acceleration, is_steady and can_hold)
        other = statics.with_regions(island, regions)
        # Their limit between taut and slack refers to the weight. The steppers keep the gravity that inputs replace.
        mean = mean_acceleration(statics.islands[island], acceleration)
        dials = DialInterpreter(self._scene, other.with_island_gravity(island, mean))
        system, gradient = other.islands[island].system, acceleration_gradient(loads, fields)
        if held is None and not (
            is_steady and gradient.any() and _is_flat(statics, island, regions, gradient, _MAX_GRADIENT)
        ):
            return LoadVersion(other, dials)
        return LoadVersion(other, dials, np.average(acceleration, 0, system.mass), held)


def is_uniform_load(island: Island, acceleration: Array) -> bool:
    """Return whether all free nodes of an island have the same acceleration. acceleration: (n, 3) m/s^2."""
    free = _free_nodes(island)
    return bool((acceleration[free] == acceleration[free[0]]).all())


def mean_acceleration(island: Island, acceleration: Array) -> Array:
    """Return the mean acceleration (3,) m/s^2 of an island's free mass. acceleration: (n, 3) m/s^2, of its nodes."""
    free = _free_nodes(island)
    if is_uniform_load(island, acceleration):
        return np.asarray(acceleration[free[0]])
    mean = np.average(acceleration[free], 0, island.system.mass[free])
    return np.zeros(3) if np.abs(mean).max() < _ROUNDING * np.abs(acceleration[free]).max() else np.asarray(mean)


def _free_nodes(island: Island) -> Index:
    return np.concatenate([region.free for region in island.system.regions])


def _is_flat(statics: StaticSolver, island: int, regions: Sequence[Region], gradient: Array, limit: float) -> bool:
    """Return whether no gradient (n, 3, 3) 1/s^2 of accelerations exceeds a part of the smallest first eigenvalue."""
    factors, system = statics.stiffness_factors(island), statics.islands[island].system
    slowest = min(system.effective_eigenvalue(region, factors) for region in regions)
    return float(np.linalg.norm(gradient, axis=(1, 2)).max()) <= limit * slowest


def regions_under_loads(
    statics: StaticSolver, island: int, loads: Sequence[BodyLoad], acceleration: Array, can_hold: bool
) -> tuple[tuple[Region, ...], Array | None]:
    """Return the regions of an island with the first eigenvalues and hanging shapes of other loads.

    The loads act in the first pose, as the weight of the first frame does.
    Second, return the accelerations (n, 3) m/s^2 of the nodes in equilibrium, if each step can hold them.

    loads: of the island's bodies.  acceleration: (n, 3) m/s^2, of its nodes before they are deflected.
    can_hold: whether the steps may hold the fields, which do not change with time then.
    """
    data, factors, posed = statics.islands[island], statics.stiffness_factors(island), statics.posed_state(island)
    mean, is_uniform = mean_acceleration(data, acceleration), is_uniform_load(data, acceleration)
    system = replace(data.system, gravity=mean)
    if is_uniform and not mean.any():
        return with_minimum_eigenvalues(system, factors), None
    if is_uniform and not statics.needs_hanging_state(island):
        estimated = estimated_regions(system, factors, posed.positions)
        if estimated is not None:
            return estimated, None
    state = statics.without_progress().equilibrium_under(island, loads)
    fields = statics.fields_at(island, state)
    there, gradient = statics.acceleration_under(island, loads, fields), acceleration_gradient(loads, fields)
    if can_hold and not is_uniform:
        found = find_field_equilibrium(statics.without_progress(), island, loads, state)
        if found is not None:
            held = found.accelerations
            regions = with_geometric_stiffness(system, found.state, factors, posed.positions, held)
            if _is_flat(statics, island, regions, found.gradient, _MAX_FLAT_GRADIENT) or found.is_stable(
                system, factors
            ):
                return regions, held
    return with_geometric_stiffness(system, state, factors, posed.positions, there, gradient), None
