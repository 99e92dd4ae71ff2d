"""Reference motion of a region during a step: the motion that counts as no deformation.

See docs/explanation/physics/02-settle-law.md.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from ..base.arrays import Array, Index, take_rows
from ..geometry.mesh.rigid_motion import fit_stacked_rigid_motions
from ..system.inputs import Inputs
from ..system.region import Region
from ..system.state import State
from ..system.system import System


@dataclass(frozen=True)
class RegionSlice:
    """The free nodes of a region that lie in one block.

    block_index: index of the block in the system.
    rows: rows of these nodes among the region's free nodes.
    nodes: (k,) node numbers in the block.
    """

    block_index: int
    rows: slice
    nodes: Index


def region_slices(system: System, region: Region) -> tuple[RegionSlice, ...]:
    """Return the slices of a region by block, in the order of its free nodes."""
    slices = []
    for block_index, part in enumerate(system.slices):
        first, last = (int(k) for k in np.searchsorted(region.free, [part.start, part.stop]))
        if last > first:
            slices.append(RegionSlice(block_index, slice(first, last), region.free[first:last] - part.start))
    return tuple(slices)


@dataclass(frozen=True)
class StepContext:
    """System, state and inputs at the start of a step.

    pin_start, pin_end: (p, 3) m, positions of all pins at the start and end of the step, in the order of System.pinned.
    h: length of the step, s.
    """

    system: System
    state: State
    inputs: Inputs
    pin_start: Array
    pin_end: Array
    h: float

    @staticmethod
    def create(system: System, state: State, inputs: Inputs, h: float) -> StepContext:
        """Create the context of a step of h s."""
        start, end = (
            np.concatenate([getattr(block_inputs, side) for block_inputs in inputs]) for side in ("start", "end")
        )
        return StepContext(system, state, inputs, start, end, h)

    def external_forces(self, nodes: Index) -> Array:
        """Return the external forces on nodes (k,), (k, 3) N."""
        return take_rows(self.system.mass, nodes)[:, None] * self.system.acceleration(self.inputs, nodes)

    def pin_indices(self, nodes: Index) -> Index:
        """Return the indices of pinned nodes among all pins."""
        return np.searchsorted(self.system.pinned, nodes)


@dataclass(frozen=True)
class ReferenceVelocity:
    """Velocity of the reference motion at the free nodes (f,) of a region.

    at_current, at_undeformed: (f, 3) m/s, displacement in the step divided by its length, at the nodes' current and
        undeformed positions.
    rotation: (3, 3), or (f, 3, 3) if each node has its own.
    """

    at_current: Array
    at_undeformed: Array
    rotation: Array


def reference_velocity(context: StepContext, region: Region, slices: Sequence[RegionSlice]) -> ReferenceVelocity:
    """Return the reference velocity of a region. slices: see region_slices()."""
    return reference_velocities(context, [region], [slices])[0]


def reference_velocities(
    context: StepContext, regions: Sequence[Region], slices: Sequence[Sequence[RegionSlice]]
) -> list[ReferenceVelocity]:
    """Return the reference velocities of regions. slices: of each region, see region_slices().

    The rigid motions of all regions are fitted at once: hair has hundreds of small ones.
    """
    references = [[context.inputs[part.block_index].reference for part in parts] for parts in slices]
    needs_pins = [
        len(region.constrained_nodes) > 0 and None in own for region, own in zip(regions, references, strict=True)
    ]
    pinned = iter(
        _rigid_pin_velocities(context, [one for one, is_needed in zip(regions, needs_pins, strict=True) if is_needed])
    )
    rigid = [next(pinned) if is_needed else None for is_needed in needs_pins]
    return [
        _reference_velocity(context, region, parts, one)
        if one is None or any(each is not None for each in own)
        else one
        for region, parts, own, one in zip(regions, slices, references, rigid, strict=True)
    ]


def _reference_velocity(
    context: StepContext, region: Region, slices: Sequence[RegionSlice], rigid: ReferenceVelocity | None
) -> ReferenceVelocity:
    """Return the reference velocity of a region. rigid: that of its pins, where a block has no other."""
    x = take_rows(context.state.positions, region.free)
    if not len(region.constrained_nodes):
        return ReferenceVelocity(np.zeros_like(x), np.zeros_like(x), np.eye(3))
    references = [context.inputs[part.block_index].reference for part in slices]
    at_current, at_undeformed, rotation = np.empty_like(x), np.empty_like(x), np.empty((len(x), 3, 3))
    if rigid is not None:
        at_current, at_undeformed = rigid.at_current, rigid.at_undeformed
        rotation = np.tile(rigid.rotation, (len(x), 1, 1))
    for part, reference in zip(slices, references, strict=True):
        if reference is not None:
            current = x[part.rows]
            undeformed = reference.undeformed_positions(part.nodes)
            undeformed = current if undeformed is None else undeformed
            at_current[part.rows] = (reference.end_positions(part.nodes, current) - current) / context.h
            at_undeformed[part.rows] = (reference.end_positions(part.nodes, undeformed) - undeformed) / context.h
            rotation[part.rows] = reference.rotations(part.nodes)
    return ReferenceVelocity(at_current, at_undeformed, rotation)


def _rigid_pin_velocities(context: StepContext, regions: Sequence[Region]) -> list[ReferenceVelocity]:
    """Return the reference velocities given by the best rigid motions of the regions' pins.

    Regions of equal size are computed at once.
    """
    alike: dict[tuple[int, int, bool], list[int]] = {}
    for place, region in enumerate(regions):
        size = len(region.free), len(region.constrained_nodes), region.rigid_modes > 0
        alike.setdefault(size, []).append(place)
    found: dict[int, ReferenceVelocity] = {}
    for places in alike.values():
        found |= zip(places, _pin_velocities_of_stack(context, [regions[place] for place in places]), strict=True)
    return [found[place] for place in range(len(regions))]


def _pin_velocities_of_stack(context: StepContext, regions: Sequence[Region]) -> Iterator[ReferenceVelocity]:
    """Yield _rigid_pin_velocities() of regions with equally many free nodes and pins."""
    free, held = np.stack([one.free for one in regions]), np.stack([one.constrained_nodes for one in regions])
    pins = context.pin_indices(held)
    start, end = take_rows(context.pin_start, pins), take_rows(context.pin_end, pins)
    is_moving = ~(start == end).all(axis=(1, 2))
    moving: Iterator[ReferenceVelocity] = iter(())
    if is_moving.any():
        free, start, end = free[is_moving], start[is_moving], end[is_moving]
        x, rest = take_rows(context.state.positions, free), take_rows(context.system.rest, free)
        rotation, translation = fit_stacked_rigid_motions(start, end)
        # Pins that leave the region free to swing do not define its position; use the body itself.
        bodies = (rest, x) if regions[0].rigid_modes else (take_rows(context.system.rest, held[is_moving]), start)
        body_rotation, body_translation = fit_stacked_rigid_motions(*bodies)
        undeformed = rest @ body_rotation.transpose(0, 2, 1) + body_translation[:, None]
        # Displacement of a node that moves with the pins, over h: a steady turn then causes no deformation.
        displacement_map = (rotation - np.eye(3)).transpose(0, 2, 1)
        at_current, at_undeformed = (
            (positions @ displacement_map + translation[:, None]) / context.h for positions in (x, undeformed)
        )
        moving = map(ReferenceVelocity, at_current, at_undeformed, rotation)
    for region, is_one_moving in zip(regions, is_moving.tolist(), strict=True):
        # Exactly zero without rounding errors, so that later tests recognise a region at rest.
        at_current, at_undeformed = np.zeros((2, len(region.free), 3))
        yield next(moving) if is_one_moving else ReferenceVelocity(at_current, at_undeformed, np.eye(3))


def rotate(rotation: Array, vectors: Array) -> Array:
    """Rotate vectors (f, 3) by one rotation (3, 3), or each by its own (f, 3, 3)."""
    return np.asarray(vectors @ rotation.T if rotation.ndim == 2 else (rotation @ vectors[:, :, None])[:, :, 0])


def expand_to_nodes(values: Array, slices: Sequence[RegionSlice]) -> Array:
    """Expand one value per block (b,) to the free nodes of a region (f,)."""
    return np.repeat(values[[part.block_index for part in slices]], [len(part.nodes) for part in slices])


def predicted_pin_positions(context: StepContext, region: Region, predicted: Array) -> Array:
    """Return the predicted end positions of a region's pins, (p, 3) m.

    Soft pins move with the predicted free nodes (f, 3).
    """
    positions = context.pin_end[context.pin_indices(region.constrained_nodes)]
    free_rows = np.minimum(np.searchsorted(region.free, region.constrained_nodes), len(region.free) - 1)
    is_soft = region.free[free_rows] == region.constrained_nodes
    positions[is_soft] = predicted[free_rows[is_soft]]
    return positions
