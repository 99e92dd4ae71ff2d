"""External accelerations of the nodes: gravity per body, and force fields (docs/physics.md section 8)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from ..arrays import Array
from ..fields.field import Outside
from ..fields.forces import accelerations
from ..geometry.rigid import rigid_basis
from ..scene.parameters import Settings
from ..system.inputs import Inputs
from ..system.state import State
from .assembly import Island
from .choice import is_own
from .sampling import Animated


def weighed(island: Island, settings: Sequence[Settings]) -> Island:
    """Return the island with the gravity of its bodies; the largest one if they differ.

    settings: of its bodies.
    """
    most = max((one.gravity_weight for one in settings), key=abs)
    if most == 1.0:
        return island
    return replace(island, system=replace(island.system, gravity=most * island.system.gravity))


def pulled(
    island: Island,
    inputs: Inputs,
    settings: Sequence[Settings],
    outside: Sequence[Outside | None],
    gravity: Array,
    fields: Fields | None = None,
) -> Inputs:
    """Return step inputs with the acceleration of each block, where it differs from the system's gravity.

    settings, outside: of the island's bodies.
    gravity: (3,) m/s^2, of the scene.
    fields: None to ignore force fields.
    """
    found = list(inputs)
    for block, (dials, one) in enumerate(zip(settings, outside, strict=True)):
        pull = dials.gravity_weight * (gravity if one is None else one.gravity)
        if fields is not None and one is not None and one.fields and dials.field_weight > 0.0:
            pull = pull + fields.on(block, one, dials.field_weight)
        elif np.array_equal(pull, island.system.gravity):
            continue
        found[block] = replace(found[block], pull=pull)
    return tuple(found)


class Fields:
    """Accelerations of an island's nodes by force fields at the start of a step of h s."""

    def __init__(self, island: Island, state: State, settings: Sequence[Settings], frame: float, h: float) -> None:
        """Store the island's own state, the settings of its bodies, and the frame, which may be fractional."""
        self._island, self._state, self._frame, self._h = island, state, frame, h
        self._own = is_own(settings[0])
        self._velocities: Array | None = None

    def act(self, settings: Sequence[Settings], outside: Sequence[Outside | None]) -> bool:
        """Return whether any field accelerates the island. settings, outside: see with_accelerations."""
        bodies = enumerate(zip(settings, outside, strict=True))
        return any(one is not None and self.on(k, one, dials.field_weight).any() for k, (dials, one) in bodies)

    def on(self, block: int, outside: Outside, weight: float) -> Array:
        """Return the accelerations (n, 3) of a block's nodes in m/s^2."""
        if self._velocities is None:
            self._velocities = carried_velocities(self._island, self._state) if self._own else self._state.velocities
        nodes = self._island.system.slices[block]
        places, speeds = self._state.positions[nodes], self._velocities[nodes]
        return accelerations(outside.fields, weight, self._frame, places, speeds, self._h)


def carried_velocities(island: Island, state: State) -> Array:
    """Return node velocities (n, 3) in m/s without those of the deformation.

    They contain the reference motion and the rigid motion that the pins leave free. The decay of deformation follows
    the dials alone, and air drag must not change it (docs/decisions/0010).
    """
    system = island.system
    found = state.reference.copy()
    for region in system.regions:
        if not region.rigid_modes:
            continue
        free, mass = region.free, system.mass[region.free]
        own = state.velocities[free] - state.reference[free]
        basis = rigid_basis(state.positions[free], state.positions[region.held], mass)
        fields = basis.reshape(own.size, -1)
        found[free] += (fields @ (fields.T @ (mass[:, None] * own).ravel())).reshape(-1, 3)
    return found


def fields_of(island: Island, animated: Animated) -> list[Outside | None]:
    """Return the external forces on each of an island's bodies."""
    return [animated.outside[k] if animated.outside else None for k in island.bodies]
