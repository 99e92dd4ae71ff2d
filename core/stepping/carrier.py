"""Reference motion of a region during a step: the motion that counts as no deformation (docs/physics.md section 2)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from ..arrays import Array, Index, rows
from ..geometry.rigid import rigid_motion
from ..system.inputs import Inputs
from ..system.region import Region
from ..system.state import State
from ..system.system import System


@dataclass(frozen=True)
class Piece:
    """The free nodes of a region that lie in one block.

    block_index: index of the block in the system.
    rows: rows of these nodes among the region's free nodes.
    nodes: (k,) node numbers in the block.
    """

    block: int
    rows: slice
    nodes: Index


def pieces(system: System, region: Region) -> tuple[Piece, ...]:
    """Return the slices of a region by block, in the order of its free nodes."""
    found = []
    for place, part in enumerate(system.slices):
        first, last = (int(k) for k in np.searchsorted(region.free, [part.start, part.stop]))
        if last > first:
            found.append(Piece(place, slice(first, last), region.free[first:last] - part.start))
    return tuple(found)


@dataclass(frozen=True)
class Moment:
    """System, state and inputs at the start of a step.

    pin_start, pin_end: (p, 3) m, positions of all pins at the start and end of the step, in the order of System.pinned.
    h: length of the step, s.
    """

    system: System
    state: State
    inputs: Inputs
    start: Array
    end: Array
    h: float

    @staticmethod
    def of(system: System, state: State, inputs: Inputs, h: float) -> Moment:
        """Create the context of a step of h s."""
        start, end = (np.concatenate([getattr(one, side) for one in inputs]) for side in ("start", "end"))
        return Moment(system, state, inputs, start, end, h)

    def weight(self, nodes: Index) -> Array:
        """Return the external forces on nodes (k,), (k, 3) N."""
        return rows(self.system.mass, nodes)[:, None] * self.system.pull(self.inputs, nodes)

    def pins(self, held: Index) -> Index:
        """Return the indices of pinned nodes among all pins."""
        return np.searchsorted(self.system.pinned, held)


@dataclass(frozen=True)
class Carried:
    """Velocity of the reference motion at the free nodes (f,) of a region.

    at_current, at_undeformed: (f, 3) m/s, displacement in the step divided by its length, at the nodes' current and
        undeformed positions.
    rotation: (3, 3), or (f, 3, 3) if each node has its own.
    """

    here: Array
    home: Array
    turn: Array


def carried(moment: Moment, region: Region, parts: Sequence[Piece]) -> Carried:
    """Return the reference velocity of a region. slices: see region_slices()."""
    x = rows(moment.state.positions, region.free)
    if not len(region.held):
        return Carried(np.zeros_like(x), np.zeros_like(x), np.eye(3))
    references = [moment.inputs[part.block].reference for part in parts]
    if all(reference is None for reference in references):
        return _rigidly(moment, region)
    here, home, turn = np.empty_like(x), np.empty_like(x), np.empty((len(x), 3, 3))
    if None in references:
        rigid = _rigidly(moment, region)
        here, home, turn = rigid.here, rigid.home, np.tile(rigid.turn, (len(x), 1, 1))
    for part, reference in zip(parts, references, strict=True):
        if reference is not None:
            there = x[part.rows]
            places = reference.undeformed(part.nodes)
            places = there if places is None else places
            here[part.rows] = (reference.moved(part.nodes, there) - there) / moment.h
            home[part.rows] = (reference.moved(part.nodes, places) - places) / moment.h
            turn[part.rows] = reference.turned(part.nodes)
    return Carried(here, home, turn)


def _rigidly(moment: Moment, region: Region) -> Carried:
    """Return the reference velocity given by the best rigid motion of the region's pins."""
    rest, x = rows(moment.system.rest, region.free), rows(moment.state.positions, region.free)
    place = moment.pins(region.held)
    start, end = rows(moment.start, place), rows(moment.end, place)
    if np.array_equal(start, end):
        # Exactly zero without rounding errors, so that later tests recognise a region at rest.
        return Carried(np.zeros_like(x), np.zeros_like(x), np.eye(3))
    turn, shift = rigid_motion(start, end)
    # Pins that leave the region free to swing do not define its position; use the body itself.
    known = (rest, x) if region.rigid_modes else (rows(moment.system.rest, region.held), start)
    placed, moved = rigid_motion(*known)
    undeformed = rest @ placed.T + moved
    # Displacement of a node that moves with the pins, over h: a steady turn then causes no deformation.
    way = turn - np.eye(3)
    return Carried((x @ way.T + shift) / moment.h, (undeformed @ way.T + shift) / moment.h, turn)


def turned(turn: Array, vectors: Array) -> Array:
    """Rotate vectors (f, 3) by one rotation (3, 3), or each by its own (f, 3, 3)."""
    return np.asarray(vectors @ turn.T if turn.ndim == 2 else (turn @ vectors[:, :, None])[:, :, 0])


def spread(values: Array, parts: Sequence[Piece]) -> Array:
    """Expand one value per block (b,) to the free nodes of a region (f,)."""
    return np.repeat(values[[part.block for part in parts]], [len(part.nodes) for part in parts])


def held_ahead(moment: Moment, region: Region, ahead: Array) -> Array:
    """Return the predicted end positions of a region's pins, (p, 3) m.

    Soft pins move with the predicted free nodes (f, 3).
    """
    held = moment.end[moment.pins(region.held)]
    spot = np.minimum(np.searchsorted(region.free, region.held), len(region.free) - 1)
    soft = region.free[spot] == region.held
    held[soft] = ahead[spot[soft]]
    return held
