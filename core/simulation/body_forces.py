"""External accelerations of the nodes: gravity per body, and force fields.

See docs/explanation/physics/08-force-fields.md.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from ..base.arrays import Array
from ..fields.air import AIR_FIELDS
from ..fields.field import ExternalForces, ForceField
from ..fields.forces import field_accelerations
from ..geometry.mesh.rigid_motion import rigid_mode_basis
from ..scene.body import SceneSample
from ..scene.parameters import Settings
from ..system.discretization import BodyDiscretization
from ..system.inputs import Inputs
from ..system.state import State
from ..system.system import System
from .assembly import Island
from .method_selection import uses_dampsim_stepper

# Distance over which the gradient of force fields is measured, as a fraction of the size.
_GRADIENT_STEP = 1e-3


def with_gravity(island: Island, settings: Sequence[Settings]) -> Island:
    """Return the island with the gravity of its bodies; the largest one if they differ.

    settings: of its bodies.
    """
    largest_weight = max((one.gravity_weight for one in settings), key=abs)
    if largest_weight == 1.0:
        return island
    return replace(island, system=replace(island.system, gravity=largest_weight * island.system.gravity))


@dataclass(frozen=True)
class BodyLoad:
    """External forces on a body at one time, with the weights of its dials.

    external_forces: None if there is only the scene's constant gravity.
    air: factor on the density of the air; 0 for bodies that do not resist it.
    node_weights: (n,) factors on the gravity of the nodes, for the Sag of parts; None for 1.
    """

    gravity_weight: float
    field_weight: float
    external_forces: ExternalForces | None
    air: float = 0.0
    node_weights: Array | None = None

    @staticmethod
    def of(settings: Settings, external_forces: ExternalForces | None, block: BodyDiscretization) -> BodyLoad:
        air = settings.air if block.is_sheet and uses_dampsim_stepper(settings) else 0.0
        return BodyLoad(settings.gravity_weight, settings.field_weight, external_forces, air)

    @property
    def accelerating_fields(self) -> tuple[ForceField, ...]:
        """Force fields that accelerate the body directly, not through the air."""
        return tuple(one for one in self._fields if self.air == 0.0 or one.kind not in AIR_FIELDS)

    @property
    def has_wind(self) -> bool:
        """True if fields move the air and the body resists it."""
        return self.air > 0.0 and self.field_weight > 0.0 and any(one.kind in AIR_FIELDS for one in self._fields)

    @property
    def _fields(self) -> tuple[ForceField, ...]:
        return () if self.external_forces is None else self.external_forces.fields

    @property
    def key(self) -> tuple[float, float, float, bytes, bytes]:
        """All parameters but those of the air, as a key of the accelerations by loads."""
        forces = self.external_forces and replace(self.external_forces, fields=self.accelerating_fields)
        arrays = (None if forces is None else forces.numbers(), self.node_weights)
        numbers = (b"" if one is None else np.ascontiguousarray(one).tobytes() for one in arrays)
        return (self.gravity_weight, self.field_weight, self.air, *numbers)  # type: ignore[return-value]

    def is_same(self, other: BodyLoad) -> bool:
        """Return whether two loads have the same parameters."""
        one, two = self.external_forces, other.external_forces
        if (self.gravity_weight, self.field_weight, self.air) != (other.gravity_weight, other.field_weight, other.air):
            return False
        if not np.array_equal(self.node_weights, other.node_weights):  # type: ignore[arg-type]
            return False
        if one is None or two is None:
            return one is two
        # Limits that are not set are NaN.
        return one is two or np.array_equal(one.numbers(), two.numbers(), equal_nan=True)


def with_accelerations(
    island: Island,
    inputs: Inputs,
    start_loads: Sequence[BodyLoad],
    end_loads: Sequence[BodyLoad],
    gravity: Array,
    fields: FieldAccelerations | None,
) -> Inputs:
    """Return step inputs with the mean acceleration of each block between the loads at the start and end of a step.

    Only accelerations that differ from the gravity of the system are set.

    A load that changes between two samples then acts as if it changed halfway between them, at any number of substeps.

    start_loads, end_loads: of the island's bodies.
    gravity: (3,) m/s^2, of the scene.
    fields: None to ignore force fields.
    """
    accelerated_inputs = list(inputs)
    for block, (start, end) in enumerate(zip(start_loads, end_loads, strict=True)):
        acceleration = _block_acceleration(block, end, gravity, fields)
        if not end.is_same(start):
            acceleration = 0.5 * (acceleration + _block_acceleration(block, start, gravity, fields))
            accelerated_inputs[block] = replace(accelerated_inputs[block], has_changing_load=True)
        if not np.array_equal(acceleration, island.system.gravity):
            accelerated_inputs[block] = replace(accelerated_inputs[block], acceleration=acceleration)
    return tuple(accelerated_inputs)


def _block_acceleration(block: int, load: BodyLoad, gravity: Array, fields: FieldAccelerations | None) -> Array:
    """Return the acceleration of a block's nodes, (3,) or (n, 3) m/s^2."""
    forces = load.external_forces
    acceleration = load.gravity_weight * (gravity if forces is None else forces.gravity)
    if load.node_weights is not None:
        acceleration = load.node_weights[:, None] * acceleration
    if fields is not None and load.accelerating_fields and load.field_weight > 0.0:
        acceleration = acceleration + fields.block_accelerations(block, load)
    return acceleration


class FieldAccelerations:
    """Accelerations of an island's nodes by force fields at the start of a step of h s."""

    def __init__(self, island: Island, state: State, settings: Sequence[Settings], frame: float, h: float) -> None:
        """Store the island's own state, the settings of its bodies, and the frame, which may be fractional."""
        self._island, self._state, self._frame, self._h = island, state, frame, h
        self._uses_dampsim_stepper = uses_dampsim_stepper(settings[0])

    def is_active(self, loads: Sequence[BodyLoad]) -> bool:
        """Return whether any field accelerates the island. loads: of its bodies."""
        return any(
            bool(load.accelerating_fields) and self.block_accelerations(block, load).any()
            for block, load in enumerate(loads)
        )

    def block_accelerations(self, block: int, load: BodyLoad) -> Array:
        """Return the accelerations (n, 3) of a block's nodes in m/s^2."""
        nodes = self._island.system.slices[block]
        positions, velocities = self._state.positions[nodes], self._velocities[nodes]
        return field_accelerations(
            load.accelerating_fields, load.field_weight, self._frame, positions, velocities, self._h
        )

    def block_gradient(self, block: int, load: BodyLoad) -> Array:
        """Return the change (n, 3, 3) of a block's accelerations with the positions of its nodes, 1/s^2.

        Across the edge of a field, it is the change on the flatter side.
        """
        data = self._island.system
        positions, velocities = (one[data.slices[block]] for one in (self._state.positions, self._velocities))
        shift = _GRADIENT_STEP * data.blocks[block].size

        def at(moved: Array) -> Array:
            fields = load.accelerating_fields
            return field_accelerations(fields, load.field_weight, self._frame, moved, velocities, self._h)

        here = at(positions)
        columns = [_flatter(at(positions + one) - here, here - at(positions - one)) for one in shift * np.eye(3)]
        return np.stack(columns, axis=2) / shift

    @cached_property
    def _velocities(self) -> Array:
        """Node velocities (n, 3) m/s; for DampSim's own stepper without those of the deformation.

        They then contain the reference motion and the rigid motion that the pins leave free. The decay of deformation
        follows the dials alone, and air drag must not change it (docs/decisions/0010).
        """
        if not self._uses_dampsim_stepper:
            return self._state.velocities
        return with_rigid_velocities(self._island.system, self._state, self._state.reference)


def _flatter(forward: Array, backward: Array) -> Array:
    """Return the smaller of two differences, element by element; 0 where their signs differ."""
    smaller = np.where(np.abs(forward) <= np.abs(backward), forward, backward)
    return np.where(forward * backward > 0.0, smaller, 0.0)


def acceleration_gradient(loads: Sequence[BodyLoad], fields: FieldAccelerations) -> Array:
    """Return the change of the field accelerations with the position of each node of an island, (n, 3, 3) 1/s^2.

    The element [i, j, k] belongs to component j of the acceleration and component k of the position.

    loads: of the island's bodies.
    """
    return np.concatenate([fields.block_gradient(block, load) for block, load in enumerate(loads)])


def with_rigid_velocities(system: System, state: State, reference: Array) -> Array:
    """Return reference velocities (n, 3) m/s with those of the rigid motion that the pins leave free added."""
    velocities = reference.copy()
    for region in system.regions:
        if not region.rigid_modes:
            continue
        free, mass = region.free, system.mass[region.free]
        relative_velocities = state.velocities[free] - state.reference[free]
        basis = rigid_mode_basis(state.positions[free], state.positions[region.constrained_nodes], mass)
        rigid_modes = basis.reshape(relative_velocities.size, -1)
        rigid_velocities = rigid_modes @ (rigid_modes.T @ (mass[:, None] * relative_velocities).ravel())
        velocities[free] += rigid_velocities.reshape(-1, 3)
    return velocities


def body_loads(island: Island, sample: SceneSample, settings: Sequence[Settings]) -> list[BodyLoad]:
    """Return the loads of an island's bodies. settings: of these bodies."""
    return [
        BodyLoad.of(one, sample.bodies[k].external_forces, block)
        for k, one, block in zip(island.bodies, settings, island.system.blocks, strict=False)
    ]
