"""External accelerations of the nodes: gravity per body, and force fields.

See docs/explanation/physics/08-force-fields.md.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from ..base.arrays import Array
from ..fields.field import ExternalForces
from ..fields.forces import field_accelerations
from ..geometry.mesh.rigid_motion import rigid_mode_basis
from ..scene.parameters import Settings
from ..scene.sample import SceneSample
from ..system.inputs import Inputs
from ..system.state import State
from .assembly import Island
from .method_selection import uses_dampsim_stepper


def with_gravity(island: Island, settings: Sequence[Settings]) -> Island:
    """Return the island with the gravity of its bodies; the largest one if they differ.

    settings: of its bodies.
    """
    largest_weight = max((one.gravity_weight for one in settings), key=abs)
    if largest_weight == 1.0:
        return island
    return replace(island, system=replace(island.system, gravity=largest_weight * island.system.gravity))


def with_accelerations(
    island: Island,
    inputs: Inputs,
    settings: Sequence[Settings],
    external_forces: Sequence[ExternalForces | None],
    gravity: Array,
    fields: FieldAccelerations | None = None,
) -> Inputs:
    """Return step inputs with the acceleration of each block, where it differs from the system's gravity.

    settings, external_forces: of the island's bodies.
    gravity: (3,) m/s^2, of the scene.
    fields: None to ignore force fields.
    """
    accelerated_inputs = list(inputs)
    for block, (dials, one) in enumerate(zip(settings, external_forces, strict=True)):
        acceleration = dials.gravity_weight * (gravity if one is None else one.gravity)
        if fields is not None and one is not None and one.fields and dials.field_weight > 0.0:
            acceleration = acceleration + fields.block_accelerations(block, one, dials.field_weight)
        elif np.array_equal(acceleration, island.system.gravity):
            continue
        accelerated_inputs[block] = replace(accelerated_inputs[block], acceleration=acceleration)
    return tuple(accelerated_inputs)


class FieldAccelerations:
    """Accelerations of an island's nodes by force fields at the start of a step of h s."""

    def __init__(self, island: Island, state: State, settings: Sequence[Settings], frame: float, h: float) -> None:
        """Store the island's own state, the settings of its bodies, and the frame, which may be fractional."""
        self._island, self._state, self._frame, self._h = island, state, frame, h
        self._uses_dampsim_stepper = uses_dampsim_stepper(settings[0])
        self._velocities: Array | None = None

    def is_active(self, settings: Sequence[Settings], external_forces: Sequence[ExternalForces | None]) -> bool:
        """Return whether any field accelerates the island. settings, external_forces: see with_accelerations()."""
        bodies = enumerate(zip(settings, external_forces, strict=True))
        return any(
            one is not None and self.block_accelerations(k, one, dials.field_weight).any() for k, (dials, one) in bodies
        )

    def block_accelerations(self, block: int, external_forces: ExternalForces, weight: float) -> Array:
        """Return the accelerations (n, 3) of a block's nodes in m/s^2."""
        if self._velocities is None:
            self._velocities = (
                velocities_without_deformation(self._island, self._state)
                if self._uses_dampsim_stepper
                else self._state.velocities
            )
        nodes = self._island.system.slices[block]
        positions, velocities = self._state.positions[nodes], self._velocities[nodes]
        return field_accelerations(external_forces.fields, weight, self._frame, positions, velocities, self._h)


def velocities_without_deformation(island: Island, state: State) -> Array:
    """Return node velocities (n, 3) in m/s without those of the deformation.

    They contain the reference motion and the rigid motion that the pins leave free. The decay of deformation follows
    the dials alone, and air drag must not change it (docs/decisions/0010).
    """
    system = island.system
    velocities = state.reference.copy()
    for region in system.regions:
        if not region.rigid_modes:
            continue
        free, mass = region.free, system.mass[region.free]
        relative_velocities = state.velocities[free] - state.reference[free]
        basis = rigid_mode_basis(state.positions[free], state.positions[region.constrained_nodes], mass)
        rigid_modes = basis.reshape(relative_velocities.size, -1)
        velocities[free] += (rigid_modes @ (rigid_modes.T @ (mass[:, None] * relative_velocities).ravel())).reshape(
            -1, 3
        )
    return velocities


def external_forces_of(island: Island, sample: SceneSample) -> list[ExternalForces | None]:
    """Return the external forces on each of an island's bodies."""
    return [sample.bodies[k].external_forces for k in island.bodies]
