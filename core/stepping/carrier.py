"""The reference motion of a region during a step: what is no deformation (docs/physics.md section 2)."""

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

    block: its place in the system.
    rows: which of the region's free nodes.
    nodes: (k,) their numbers in the block.
    """

    block: int
    rows: slice
    nodes: Index


def pieces(system: System, region: Region) -> tuple[Piece, ...]:
    """A region's pieces, in the order of its free nodes."""
    found = []
    for place, part in enumerate(system.slices):
        first, last = (int(k) for k in np.searchsorted(region.free, [part.start, part.stop]))
        if last > first:
            found.append(Piece(place, slice(first, last), region.free[first:last] - part.start))
    return tuple(found)


@dataclass(frozen=True)
class Moment:
    """A system at the start of a step.

    start, end: places (p, 3) m of all pins, in the order of System.pinned.
    h: s, the length of the step.
    """

    system: System
    state: State
    inputs: Inputs
    start: Array
    end: Array
    h: float

    @staticmethod
    def of(system: System, state: State, inputs: Inputs, h: float) -> Moment:
        start, end = (np.concatenate([getattr(one, side) for one in inputs]) for side in ("start", "end"))
        return Moment(system, state, inputs, start, end, h)

    def weight(self, nodes: Index) -> Array:
        """What pulls nodes (k,) from outside, (k, 3) N."""
        return rows(self.system.mass, nodes)[:, None] * self.system.pull(self.inputs, nodes)

    def pins(self, held: Index) -> Index:
        """Places of held nodes among the pins."""
        return np.searchsorted(self.system.pinned, held)


@dataclass(frozen=True)
class Carried:
    """The reference motion at a region's free nodes (f,).

    here, home: (f, 3) m/s, displacements in the step over its length, of where the nodes are and of their undeformed
        places.
    turn: (3, 3), or (f, 3, 3) where each node has its own.
    """

    here: Array
    home: Array
    turn: Array


def carried(moment: Moment, region: Region, parts: Sequence[Piece]) -> Carried:
    """parts: the region's pieces."""
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
    """The rigid motion of the pins."""
    rest, x = rows(moment.system.rest, region.free), rows(moment.state.positions, region.free)
    place = moment.pins(region.held)
    start, end = rows(moment.start, place), rows(moment.end, place)
    if np.array_equal(start, end):
        # Without rounding, so that what is still is seen to be.
        return Carried(np.zeros_like(x), np.zeros_like(x), np.eye(3))
    turn, shift = rigid_motion(start, end)
    # Pins that leave it free to swing do not say where it is; the body itself does.
    known = (rest, x) if region.rigid_modes else (rows(moment.system.rest, region.held), start)
    placed, moved = rigid_motion(*known)
    undeformed = rest @ placed.T + moved
    # The displacement of a node that goes with the pins, over h: a steady turn then leaves nothing behind.
    way = turn - np.eye(3)
    return Carried((x @ way.T + shift) / moment.h, (undeformed @ way.T + shift) / moment.h, turn)


def turned(turn: Array, vectors: Array) -> Array:
    """Vectors (f, 3) turned by one rotation (3, 3), or each by its own (f, 3, 3)."""
    return np.asarray(vectors @ turn.T if turn.ndim == 2 else (turn @ vectors[:, :, None])[:, :, 0])


def spread(values: Array, parts: Sequence[Piece]) -> Array:
    """Of each block (b,), at the free nodes of a region (f,)."""
    return np.repeat(values[[part.block for part in parts]], [len(part.nodes) for part in parts])


def held_ahead(moment: Moment, region: Region, ahead: Array) -> Array:
    """Where the nodes that hold the region end (p, 3) m; the soft ones as the free nodes ahead (f, 3)."""
    held = moment.end[moment.pins(region.held)]
    spot = np.minimum(np.searchsorted(region.free, region.held), len(region.free) - 1)
    soft = region.free[spot] == region.held
    held[soft] = ahead[spot[soft]]
    return held
