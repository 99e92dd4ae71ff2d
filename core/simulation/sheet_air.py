"""Air on the sheets of a scene: push of the wind as an acceleration, and drag as a matrix of the step.

See docs/explanation/physics/08-force-fields.md.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import cached_property

import numpy as np

from ..base.arrays import Array, Index
from ..fields.air import (
    WindTime,
    air_velocities,
    face_resistance,
    mean_wind,
    nodal_resistance,
    windward_weights,
)
from ..materials import Membrane
from ..objective.reference_motion import StepContext, reference_velocity, region_slices
from ..scene.body import BodySample, SceneSample
from ..scene.scene import Scene
from ..system.discretization import BodyDiscretization
from ..system.inputs import BlockInputs, Inputs
from ..system.state import State
from ..system.system import System
from .assembly import Island
from .body_forces import BodyLoad, with_rigid_velocities
from .start import loop_end


class SheetAir:
    """Air on the sheets of a scene, with random parts that depend on the time alone."""

    def __init__(self, scene: Scene, first_sample: SceneSample) -> None:
        """first_sample: of the scene at its first frame, whose wind carries the eddies of the whole shot."""
        self._scene, self._first_sample = scene, first_sample

    @cached_property
    def _period(self) -> float | None:
        """Period of gusts and eddies in s: the cycle of a loop. Calls the scene's sampler."""
        end = loop_end(self._scene)
        return None if end is None else (end - self._scene.first) / self._scene.fps

    @cached_property
    def _travel(self) -> list[Array]:
        """Velocity (3,) m/s at which eddies pass each body."""
        return [_travel(body) for body in self._first_sample.bodies]

    def with_air(
        self,
        island: Island,
        inputs: Inputs,
        start_loads: Sequence[BodyLoad],
        end_loads: Sequence[BodyLoad],
        state: State,
        frame: float,
        h: float,
    ) -> Inputs:
        """Return step inputs with the push and the drag of the air on each sheet.

        start_loads, end_loads: of the island's bodies, at the start and the end of a step of h s.
        state: of the island.  frame: at the end of the step; may be fractional.
        """
        system = island.system
        # Air that changes within a step acts as if it changed halfway.
        airs = [0.5 * (start.air + end.air) for start, end in zip(start_loads, end_loads, strict=True)]
        resisting = [block for block, air in enumerate(airs) if air > 0.0]
        if not resisting:
            return inputs
        velocities, changed = carried_velocities(system, state, inputs, h), list(inputs)
        for block in resisting:
            nodes, load = system.slices[block], end_loads[block]
            positions = state.positions[nodes]
            wind = self._wind(island.bodies[block], load, frame, positions)
            if not load.is_same(start_loads[block]):
                wind = 0.5 * (wind + self._wind(island.bodies[block], start_loads[block], frame, positions))
            changed[block] = _block_with_air(
                inputs[block], system, block, positions, wind, wind - velocities[nodes], airs[block]
            )
        return tuple(changed)

    def _wind(self, body: int, load: BodyLoad, frame: float, positions: Array) -> Array:
        """Return the velocity (n, 3) m/s of the air at positions (n, 3) m."""
        if not load.has_wind or load.external_forces is None:
            return np.zeros_like(positions)
        # A preroll comes before the loop, and may run where the scene cannot be sampled.
        is_in_loop = self._scene.is_loop and frame > self._scene.first
        seconds = (frame - self._scene.first) / self._scene.fps
        time = WindTime(seconds, self._period if is_in_loop else None, self._travel[body])
        return air_velocities(load.external_forces.fields, load.field_weight, time, positions)


def _travel(sample: BodySample) -> Array:
    if sample.external_forces is None or sample.settings is None:
        return np.zeros(3)
    return mean_wind(sample.external_forces.fields, sample.settings.field_weight, sample.vertices.mean(axis=0))


def carried_velocities(system: System, state: State, inputs: Inputs, h: float) -> Array:
    """Return node velocities (n, 3) m/s without those of the deformation, for a step of h s.

    They contain the reference motion of the coming step, and the rigid motion that the pins leave free.
    """
    context, reference = StepContext.create(system, state, inputs, h), np.zeros_like(state.positions)
    reference[system.pinned] = (context.pin_end - context.pin_start) / h
    for region in system.regions:
        if len(region.constrained_nodes):
            reference[region.free] = reference_velocity(context, region, region_slices(system, region)).at_current
    return with_rigid_velocities(system, state, reference)


def sheet_triangles(block: BodyDiscretization) -> Index:
    """Return the triangles (m, 3) of a block's membranes."""
    found = [energy.triangles for energy in block.energies if isinstance(energy, Membrane)]
    return np.concatenate(found) if found else np.zeros((0, 3), dtype=np.int64)


def _loose_pieces(system: System, block: int) -> list[Index]:
    """Return the triangles of each piece of a block that nothing holds, as indices (k,)."""
    part, triangles = system.slices[block], sheet_triangles(system.blocks[block])
    pieces = []
    for region in system.regions:
        if region.rigid_modes == 6:
            is_member = np.zeros(len(system.rest), dtype=bool)
            is_member[region.free] = True
            rows = np.flatnonzero(is_member[part][triangles].all(axis=1))
            if len(rows):
                pieces.append(rows)
    return pieces


def _block_with_air(
    inputs: BlockInputs,
    system: System,
    block: int,
    positions: Array,
    wind: Array,
    relative_wind: Array,
    air: float,
) -> BlockInputs:
    """Return the inputs of a block with the air's push C u/m as an acceleration and its drag C.

    positions: (n, 3) m, of its nodes.  wind, relative_wind: (n, 3) m/s, of the air at rest and past the nodes.
    air: factor on the density of the air.
    """
    triangles = sheet_triangles(system.blocks[block])
    past_faces = relative_wind[triangles].mean(axis=1)
    resistance = face_resistance(positions, triangles, past_faces, air)
    for rows in _loose_pieces(system, block):
        weights = windward_weights(positions, triangles[rows], past_faces[rows], resistance[rows])
        resistance[rows] *= weights[:, None, None]
    if not resistance.any():
        return inputs
    drag = nodal_resistance(resistance, triangles, len(positions))
    if not wind.any():
        return replace(inputs, drag=drag)
    push = np.einsum("nij,nj->ni", drag, wind) / system.blocks[block].mass[:, None]
    acceleration = system.gravity if inputs.acceleration is None else inputs.acceleration
    return replace(inputs, acceleration=acceleration + push, drag=drag)
