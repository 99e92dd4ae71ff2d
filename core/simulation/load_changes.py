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
from .assembly import Island
from .body_forces import BodyLoad, acceleration_gradient, body_loads
from .dials import DialInterpreter, has_natural_bounce
from .method_selection import uses_dampsim_stepper
from .statics import StaticSolver, is_constrained

# Frames after which fields that change by themselves differ.
_LATER = 1.37
# Largest gradient of the acceleration, relative to the first eigenvalue, at which an equilibrium under the acceleration
# at the start of a step is near the true one.
_MAX_GRADIENT = 0.3
# A mean acceleration below this fraction of the largest one is a rounding error.
_ROUNDING = 1e-9
# Cached versions of each island. Each one holds its own hanging shape, and its stepper its own factorisations.
_CACHED_VERSIONS = 8


@dataclass(frozen=True)
class LoadVersion:
    """First eigenvalues, hanging shapes and settle laws of an island under certain loads.

    steady_load: see BlockInputs.
    """

    statics: StaticSolver
    dials: DialInterpreter
    steady_load: Array | None = None

    def with_steady_load(self, inputs: Inputs) -> Inputs:
        """Return the inputs of a step with the load that acts in it, where it varies in space only."""
        if self.steady_load is None:
            return inputs
        return tuple(replace(one, steady_load=self.steady_load) for one in inputs)


class LoadVersions:
    """Load versions of one scene. Each one depends only on the loads, not on the frames in between."""

    def __init__(self, scene: Scene, statics: StaticSolver, dials: DialInterpreter) -> None:
        """statics, dials: those of the loads at the first frame."""
        self._scene, self._first = scene, LoadVersion(statics, dials)
        self._first_loads: dict[int, Sequence[BodyLoad]] = {}
        self._versions: dict[int, Memo[LoadVersion]] = {}

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
        self, island: int, start: Sequence[BodyLoad], end: Sequence[BodyLoad], settings: Sequence[Settings]
    ) -> LoadVersion:
        """Return the version of an island for a step.

        While its loads change, it is that of the first frame.

        start, end: loads of the island's bodies at the start and the end of the step.  settings: of these bodies.
        """
        first = self._loads_at_start(island)
        if all(one.is_same(other) for one, other in zip(end, first, strict=True)):
            return self._first
        is_constant = all(one.is_same(other) for one, other in zip(start, end, strict=True))
        if not is_constant or not self._depends_on_loads(island, settings):
            return self._first
        # The islands take turns in each substep, so that one memo for all would keep none of many versions.
        versions = self._versions.setdefault(island, Memo(_CACHED_VERSIONS))
        return versions.get(tuple(one.key for one in end), lambda: self._build(island, tuple(end)))

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

    def _build(self, island: int, loads: Sequence[BodyLoad]) -> LoadVersion:
        statics = self._first.statics
        posed = statics.posed_state(island)
        fields = statics.fields_at(island, posed)
        acceleration = statics.acceleration_under(island, loads, fields)
        if np.array_equal(acceleration, statics.acceleration_under(island, self._loads_at_start(island), None)):
            # The fields of the first frame are off.
            return self._first
        other = statics.with_regions(island, regions_under_loads(statics, island, loads, acceleration))
        # Their limit between taut and slack refers to the weight. The steppers keep the gravity that inputs replace.
        mean = mean_acceleration(statics.islands[island], acceleration)
        dials = DialInterpreter(self._scene, other.with_island_gravity(island, mean))
        factors, system = statics.stiffness_factors(island), other.islands[island].system
        slowest = min(system.effective_eigenvalue(region, factors) for region in system.regions)
        later = statics.acceleration_under(island, loads, statics.fields_at(island, posed, _LATER))
        gradient = float(np.linalg.norm(acceleration_gradient(loads, fields), axis=(1, 2)).max())
        if not np.array_equal(acceleration, later) or not 0.0 < gradient <= _MAX_GRADIENT * slowest:
            return LoadVersion(other, dials)
        return LoadVersion(other, dials, np.average(acceleration, 0, system.mass))


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


def regions_under_loads(
    statics: StaticSolver, island: int, loads: Sequence[BodyLoad], acceleration: Array
) -> tuple[Region, ...]:
    """Return the regions of an island with the first eigenvalues and hanging shapes of other loads.

    The loads act in the first pose, as the weight of the first frame does.

    loads: of the island's bodies.  acceleration: (n, 3) m/s^2, of its nodes before they are deflected.
    """
    data, factors, posed = statics.islands[island], statics.stiffness_factors(island), statics.posed_state(island)
    mean, is_uniform = mean_acceleration(data, acceleration), is_uniform_load(data, acceleration)
    system = replace(data.system, gravity=mean)
    if is_uniform and not mean.any():
        return with_minimum_eigenvalues(system, factors)
    if is_uniform and not statics.needs_hanging_state(island):
        estimated = estimated_regions(system, factors, posed.positions)
        if estimated is not None:
            return estimated
    state = statics.without_progress().equilibrium_under(island, loads)
    fields = statics.fields_at(island, state)
    there, gradient = statics.acceleration_under(island, loads, fields), acceleration_gradient(loads, fields)
    return with_geometric_stiffness(system, state, factors, posed.positions, there, gradient)
