"""The predicted velocity and the inertia of one region for one step (docs/physics.md section 2)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from ..arrays import Array, Index
from ..geometry.rigid import coasting, free_spin, rigid_basis, rigid_motion
from ..system.inputs import Inputs
from ..system.region import Region
from ..system.state import State
from ..system.system import System
from .law import Coefficients


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

    def pins(self, held: Index) -> Index:
        """Places of held nodes among the pins."""
        return np.searchsorted(self.system.pinned, held)


@dataclass(frozen=True)
class RegionTerms:
    """What one region adds to psi, at its free nodes (f,).

    reference: (f, 3) m/s of the undeformed places, see State.
    predicted: (f, 3) m/s, the velocity that the step starts from.
    load: (f, 3) N.
    inertia: (f,) kg/s.
    columns, signs: (f, 3, k), (k,) of the low rank part of the inertia.
    rotation: (3, 3), how the region is turned since rest.
    """

    reference: Array
    predicted: Array
    load: Array
    inertia: Array
    columns: Array
    signs: Array
    rotation: Array


def region_terms(
    moment: Moment, region: Region, parts: Sequence[Piece], coefficients: Coefficients, throws: Array
) -> RegionTerms:
    """parts: the region's pieces.  throws: (b,) follow-through of each block."""
    system, state, h = moment.system, moment.state, moment.h
    free, x = region.free, state.positions[region.free]
    mass = system.mass[free]
    here, undeformed = _reference_velocities(moment, region, parts)
    # docs/decisions/0005: what is left when the acceleration that is felt is taken out of Newton's law.
    u = state.velocities[free] - here + (undeformed - state.reference[free])
    basis = np.zeros((len(free), 3, 0))
    kappa = np.broadcast_to(coefficients.kappa, len(free))[:, None]
    predicted = here + kappa * u
    if region.rigid_modes and not coefficients.is_backward_euler(h):
        coast, rest = _coast(system, region, state, u, h)
        predicted = here + coast + kappa * rest
        # The basis belongs to the end of the step, where inner forces have no torque.
        ahead = x + h * (here + coast)
        basis = rigid_basis(ahead, _held_ahead(moment, region, ahead), mass)
    fields = basis.reshape(3 * len(free), -1)
    momenta = (mass[:, None, None] * basis).reshape(fields.shape)
    push = (mass[:, None] * (undeformed - state.reference[free]) / h).ravel()
    phi = throws[parts[0].block] if len(parts) == 1 else _spread(throws, parts).repeat(3)
    felt = phi * push + (1.0 - phi) * (momenta @ (fields.T @ push))

    inertia = mass / coefficients.s
    columns, signs = _low_rank(fields, momenta, inertia, h, uniform=np.ndim(coefficients.s) == 0)
    return RegionTerms(
        reference=undeformed,
        predicted=np.asarray(predicted),
        load=mass[:, None] * system.gravity - felt.reshape(-1, 3),
        inertia=inertia,
        columns=columns.reshape(len(free), 3, -1),
        signs=signs,
        rotation=rigid_motion(system.rest[free], x)[0],
    )


def _spread(values: Array, parts: Sequence[Piece]) -> Array:
    """Of each block (b,), at the free nodes of a region (f,)."""
    return np.repeat(values[[part.block for part in parts]], [len(part.nodes) for part in parts])


def _held_ahead(moment: Moment, region: Region, ahead: Array) -> Array:
    """Where the nodes that hold the region end (p, 3) m; the soft ones as the free nodes ahead (f, 3)."""
    held = moment.end[moment.pins(region.held)]
    spot = np.minimum(np.searchsorted(region.free, region.held), len(region.free) - 1)
    soft = region.free[spot] == region.held
    held[soft] = ahead[spot[soft]]
    return held


def _reference_velocities(moment: Moment, region: Region, parts: Sequence[Piece]) -> tuple[Array, Array]:
    """The reference motion's velocities (f, 3) m/s at the free nodes, and at their undeformed places."""
    x = moment.state.positions[region.free]
    if not len(region.held):
        return np.zeros_like(x), np.zeros_like(x)
    references = [moment.inputs[part.block].reference for part in parts]
    if all(reference is None for reference in references):
        return _rigid_velocities(moment, region)
    here, undeformed = _rigid_velocities(moment, region) if None in references else (np.empty_like(x), np.empty_like(x))
    for part, reference in zip(parts, references, strict=True):
        if reference is not None:
            there = x[part.rows]
            places = reference.undeformed(part.nodes)
            places = there if places is None else places
            here[part.rows] = (reference.moved(part.nodes, there) - there) / moment.h
            undeformed[part.rows] = (reference.moved(part.nodes, places) - places) / moment.h
    return here, undeformed


def _rigid_velocities(moment: Moment, region: Region) -> tuple[Array, Array]:
    """As _reference_velocities, for the rigid motion of the pins."""
    rest, x = moment.system.rest, moment.state.positions[region.free]
    place = moment.pins(region.held)
    turn, shift = rigid_motion(moment.start[place], moment.end[place])
    # Pins that leave it free to swing do not say where it is; the body itself does.
    known = (rest[region.free], x) if region.rigid_modes else (rest[region.held], moment.start[place])
    placed, moved = rigid_motion(*known)
    undeformed = rest[region.free] @ placed.T + moved
    # The displacement of a node that goes with the pins, over h: a steady turn then leaves nothing behind.
    way = turn - np.eye(3)
    return (x @ way.T + shift) / moment.h, (undeformed @ way.T + shift) / moment.h


def _low_rank(fields: Array, momenta: Array, inertia: Array, h: float, uniform: bool) -> tuple[Array, Array]:
    """What M Pi / h + (I - Pi)^T D (I - Pi) has beyond the diagonal D: columns (3f, k) and their signs (k,).

    fields, momenta: R and M R, (3f, r).  inertia: D = M/s at the free nodes (f,).
    """
    count = fields.shape[1]
    if count == 0:
        return fields, np.zeros(0)
    slowed = inertia.repeat(3)[:, None] * fields
    inner = fields.T @ slowed
    if uniform:
        # D R = M R / s: then the whole is (1/h - 1/s) (M R)(M R)^T.
        weight = 1.0 / h - float(np.trace(inner)) / count
        return np.sqrt(abs(weight)) * momenta, np.full(count, np.sign(weight))
    eye = np.eye(count)
    values, vectors = np.linalg.eigh(np.block([[np.zeros((count, count)), -eye], [-eye, inner + eye / h]]))
    columns: Array = np.concatenate([slowed, momenta], axis=1) @ (vectors * np.sqrt(np.abs(values)))
    return columns, np.sign(values)


def _coast(system: System, region: Region, state: State, u: Array, h: float) -> tuple[Array, Array]:
    """Split velocities u (f, 3) into the displacement over h that keeps the rigid momenta, and the deformation's rest.

    physics.md takes the rigid part at the old positions, which loses angular momentum at a rate of h times the spin
    squared. Here the body turns by a finite rotation, and the rest turns with it.
    """
    free, mass = region.free, system.mass[region.free]
    x = state.positions[free]
    held = state.positions[region.held]
    basis = rigid_basis(x, held, mass).reshape(3 * len(free), -1)
    rest = u - (basis @ (basis.T @ (mass[:, None] * u).ravel())).reshape(-1, 3)
    if len(held):
        centre, drift = held.mean(axis=0), np.zeros(3)
    else:
        centre, drift = mass @ x / mass.sum(), mass @ u / mass.sum()
    offset = x - centre
    Q = coasting(offset, mass, mass @ np.cross(offset, u), free_spin(held), h)
    return drift + offset @ (Q - np.eye(3)).T / h, rest @ Q.T
