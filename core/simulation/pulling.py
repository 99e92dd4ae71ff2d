"""What pulls the nodes from outside: gravity as each body feels it, and force fields (docs/physics.md section 8)."""

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
    """An island with the gravity that its bodies feel; the largest, where they do not feel the same.

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
    """Inputs of a step with what pulls each block, where that is not the system's gravity.

    settings, outside: of the island's bodies.  gravity: (3,) m/s^2, of the scene.  fields: None to feel none.
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
    """What force fields do to an island's nodes where they are at the start of a step of h s."""

    def __init__(self, island: Island, state: State, settings: Sequence[Settings], frame: float, h: float) -> None:
        """state: the island's own.  settings: of its bodies.  frame: fractions included."""
        self._island, self._state, self._frame, self._h = island, state, frame, h
        self._own = is_own(settings[0])
        self._velocities: Array | None = None

    def act(self, settings: Sequence[Settings], outside: Sequence[Outside | None]) -> bool:
        """Whether any of them does anything. settings, outside: see pulled."""
        bodies = enumerate(zip(settings, outside, strict=True))
        return any(one is not None and self.on(k, one, dials.field_weight).any() for k, (dials, one) in bodies)

    def on(self, block: int, outside: Outside, weight: float) -> Array:
        """(n, 3) m/s^2 of a block's nodes."""
        if self._velocities is None:
            self._velocities = carried_velocities(self._island, self._state) if self._own else self._state.velocities
        nodes = self._island.system.slices[block]
        places, speeds = self._state.positions[nodes], self._velocities[nodes]
        return accelerations(outside.fields, weight, self._frame, places, speeds, self._h)


def carried_velocities(island: Island, state: State) -> Array:
    """(n, 3) m/s without the deformation's: what goes along with the animation, and flies, swings or turns freely.

    How fast a deformation calms is what the dials say, and no air changes that (docs/decisions/0010).
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
    """What acts on an island's bodies from outside."""
    return [animated.outside[k] if animated.outside else None for k in island.bodies]
