"""Predicted velocity and inertia of one region for one step (docs/physics.md section 2)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from ..arrays import Array, rows
from ..geometry.rigid import coasting, free_spin, rigid_basis, rigid_motion
from ..system.block import Block
from ..system.region import Region
from ..system.state import State
from ..system.system import System
from ..system.term import Factor
from .carrier import Moment, Piece, carried, held_ahead, spread, turned
from .flight import Flight, fly, yielding
from .held import Ground
from .law import Coefficients
from .potentials import AtStart

# Extra rigid inertia, relative to the body's own, where the rigid prediction is exact. Elastic forces at the start of
# the step reach a hundred times the weight of those at its end. They must not turn the body (docs/decisions/0009).
_FIRM = 1e4
# Least rigid inertia of a preconditioner, relative to the body's own. Dead loads that pull at a body reduce the inertia
# of psi against rotation, and the compensating stiffness is not in the preconditioner.
_LEAST = 0.25
# Above this theta q the inertia is at most a third of the total resistance, and a preconditioner omits it.
_LIGHT = 2.0


@dataclass(frozen=True)
class RegionTerms:
    """Contribution of one region to psi, at its free nodes (f,).

    reference_velocity: (f, 3) m/s, of the undeformed positions, see State.
    predicted_velocity: (f, 3) m/s, initial velocity of the step.
    load: (f, 3) N.
    inertia: (f,) kg/s.
    columns, signs: (f, 3, k) and (k,), low-rank part of the inertia.
    rotation: (3, 3), of the region since rest.
    preconditioner_terms: positive columns and signs for a preconditioner; None if columns and signs are positive.
    predicted_positions: (f, 3) m, end positions without further deformation; waveform law only.
    step_rotation: (3, 3) or (f, 3, 3), rotation of the undeformed body in the step.
    rigid_prediction: rigid motion within the freedom left by the pins, if any.
    """

    reference: Array
    predicted: Array
    load: Array
    inertia: Array
    columns: Array
    signs: Array
    rotation: Array
    metric: tuple[Array, Array] | None = None
    ahead: Array | None = None
    turn: Array | None = None
    flight: Flight | None = None


def region_terms(
    moment: Moment, region: Region, parts: Sequence[Piece], coefficients: Coefficients, throws: Array
) -> RegionTerms:
    """Return the inertia of a region under a law that controls the first mode only.

    slices: of the region, see region_slices().  follow_through: (b,) of each block.
    """
    system, state, h = moment.system, moment.state, moment.h
    free, x = region.free, state.positions[region.free]
    mass = system.mass[free]
    motion = carried(moment, region, parts)
    here, undeformed = motion.here, motion.home
    # docs/decisions/0005: the remainder of Newton's law without the reference acceleration.
    u = state.velocities[free] - here + (undeformed - state.reference[free])
    basis = np.zeros((len(free), 3, 0))
    kappa = np.broadcast_to(coefficients.kappa, len(free))[:, None]
    predicted = here + kappa * u
    if region.rigid_modes and not coefficients.is_backward_euler(h):
        coast, rest = _coast(system, region, state, u, h)
        predicted = here + coast + kappa * rest
        # The basis is taken at the end of the step, where internal forces have no torque.
        ahead = x + h * (here + coast)
        basis = rigid_basis(ahead, held_ahead(moment, region, ahead), mass)
    fields = basis.reshape(3 * len(free), -1)
    momenta = (mass[:, None, None] * basis).reshape(fields.shape)
    push = (mass[:, None] * (undeformed - state.reference[free]) / h).ravel()
    phi = throws[parts[0].block] if len(parts) == 1 else spread(throws, parts).repeat(3)
    felt = phi * push + (1.0 - phi) * (momenta @ (fields.T @ push))

    inertia = mass / coefficients.s
    columns, signs = low_rank(fields, momenta, inertia, h, uniform=np.ndim(coefficients.s) == 0)
    return RegionTerms(
        reference=undeformed,
        predicted=np.asarray(predicted),
        load=moment.weight(free) - felt.reshape(-1, 3),
        inertia=inertia,
        columns=columns.reshape(len(free), 3, -1),
        signs=signs,
        rotation=rigid_motion(system.rest[free], x)[0],
    )


def waveform_terms(
    moment: Moment,
    region: Region,
    parts: Sequence[Piece],
    coefficients: Coefficients,
    throws: Array,
    begin: AtStart,
    touched: bool = False,
    ground: Ground | None = None,
) -> RegionTerms:
    """Return the inertia of a region under a waveform law, which controls all modes.

    slices, follow_through: see first_mode_inertia().  start_forces: history at the start of the step.
    is_touched: whether contacts may act on the region.  support: None if the region is not at rest on a support.
    """
    system, state, h = moment.system, moment.state, moment.h
    free, x = region.free, rows(state.positions, region.free)
    mass = rows(system.mass, free)
    motion = carried(moment, region, parts)
    phi = throws[parts[0].block] if len(parts) == 1 else spread(throws, parts)[:, None]
    acceleration = _steadied(motion.turn) * turned(motion.turn, motion.home - rows(state.reference, free)) / h
    throw = np.broadcast_to(coefficients.throw, len(free))[:, None]
    weight = moment.weight(free)
    load = weight - phi * throw * mass[:, None] * acceleration
    dead = rows(begin.dead, free)
    if begin.elastic is not None and not touched:
        # Under contact forces the elastic force alone is not balanced.
        fresh = np.broadcast_to(coefficients.sigma * coefficients.fresh, len(free))[:, None]
        dead = dead - fresh * (rows(begin.elastic, free) - weight)
    u, dead = turned(motion.turn, rows(begin.velocity, free)), turned(motion.turn, dead)
    # A firmly supported body keeps its remembered force fixed in space. Otherwise the weight of a leaning body would
    # turn it at once, and the remaining force as slowly as the dials set.
    lies = ground is not None and ground.upright(x - mass @ x / mass.sum(), -dead)
    ahead, turn, flight = x + h * motion.here, motion.turn, None
    fields = momenta = np.zeros((3 * len(free), 0))
    more = np.zeros((0, 0))
    if region.rigid_modes:
        flight = fly(moment, region, motion, weight - mass[:, None] * acceleration)
        ahead = flight.ahead
        if not lies:
            u, dead, turn = u @ flight.turn.T, dead @ flight.turn.T, flight.turn @ motion.turn
        fields = flight.basis.reshape(3 * len(free), -1)
        momenta = (mass[:, None, None] * flight.basis).reshape(fields.shape)
        u = u - (fields @ (momenta.T @ u.ravel())).reshape(-1, 3)
        # Correcting momenta that a contact may have changed would feed the whole error back.
        alone = flight.exact and not touched and not any(_pushed(system.blocks[part.block]) for part in parts)
        flight = replace(flight, exact=alone)
        more = np.zeros((fields.shape[1],) * 2)
        if alone:
            more = _FIRM / h * np.eye(fields.shape[1])
        elif not lies:
            more = yielding(flight, dead, mass, h)
    predicted = (ahead - x) / h + np.broadcast_to(coefficients.kappa, len(free))[:, None] * u
    if ground is not None and flight is not None:
        offset = flight.ahead - mass @ flight.ahead / mass.sum()
        drag, own = ground.matrix(offset, momenta), np.eye(len(more)) / h + more
        way = momenta.T @ predicted.ravel()
        there = np.linalg.solve(own + drag, own @ way + drag @ (momenta.T @ np.tile(ground.support, len(free))))
        predicted = predicted + (fields @ (there - way)).reshape(-1, 3)
        more = more + drag
    load = load if lies else load - dead
    if flight is not None:
        # Forces on the rigid part are already in the rigid prediction.
        load = load - (momenta @ (fields.T @ load.ravel())).reshape(-1, 3)
    # Added in full: its torque acts beside the elastic force at the end of the step, which turns with the body.
    load = load - dead if lies else load
    inertia = mass / coefficients.s
    uniform = np.ndim(coefficients.s) == 0
    columns, signs = low_rank(fields, momenta, inertia, h, uniform, more)
    lifted, metric = _lifted(more, h), None
    if lifted is not None:
        wide, positive = low_rank(fields, momenta, inertia, h, uniform, lifted)
        metric = wide.reshape(len(free), 3, -1), positive
    return RegionTerms(
        reference=motion.home,
        predicted=predicted,
        load=load,
        inertia=inertia,
        columns=columns.reshape(len(free), 3, -1),
        signs=signs,
        rotation=(turn if turn.ndim == 2 else np.eye(3)) @ rigid_motion(rows(system.rest, free), x)[0],
        metric=metric,
        ahead=ahead,
        turn=turn,
        flight=flight,
    )


def resisting(inertia: Array, laws: Sequence[Coefficients], firm: bool) -> Array:
    """Return the part of the inertia (f,) that a preconditioner includes. is_pinned_solid: see step.Stepper.

    Under waveform laws theta h K exceeds M/s by a factor of theta q in the first mode, and by more in the others.
    Without
    M/s one factorisation serves all dials, keyed ones too (docs/decisions/0035).
    """
    light = firm and all(law.waveform and np.min(law.theta * law.q) >= _LIGHT for law in laws)
    return np.zeros_like(inertia) if light else inertia


def _lifted(more: Array, h: float) -> Array | None:
    """Return the rigid inertia beside 1/h, (r, r), raised so that the sum is positive; None if it already is."""
    values, vectors = np.linalg.eigh(more)
    least = (_LEAST - 1.0) / h
    return None if (values >= least).all() else np.asarray((vectors * np.maximum(values, least)) @ vectors.T)


def _pushed(block: Block) -> bool:
    """Return whether forces other than elasticity and weight may act on a block."""
    return any(term.factor is Factor.FIXED for term in block.terms)


def _steadied(turn: Array) -> float | Array:
    """Return (t/2)^2/sin^2(t/2) for a rotation by t, the ratio of centripetal acceleration to that of its chords."""
    cosine = np.clip(0.5 * (np.trace(turn, axis1=-2, axis2=-1) - 1.0), -1.0, 1.0)
    half = 0.5 * np.arccos(cosine)
    factor = np.where(half > 1e-4, (half / np.sin(np.maximum(half, 1e-4))) ** 2, 1.0)
    return float(factor) if factor.ndim == 0 else factor[:, None]


def low_rank(
    fields: Array, momenta: Array, inertia: Array, h: float, uniform: bool, more: Array | None = None
) -> tuple[Array, Array]:
    """Return the low-rank part of M Pi / h + (I - Pi)^T D (I - Pi) beyond its diagonal D: columns (3f, k), signs (k,).

    fields, momenta: R and M R, (3f, r).  inertia: D = M/s at the free nodes (f,).
    extra_rigid_inertia: (r, r) beside 1/h, 1/s.
    """
    count = fields.shape[1]
    if count == 0:
        return fields, np.zeros(0)
    slowed = inertia.repeat(3)[:, None] * fields
    inner = fields.T @ slowed
    if more is not None and uniform:
        values, vectors = np.linalg.eigh((1.0 / h - float(np.trace(inner)) / count) * np.eye(count) + more)
        return momenta @ (vectors * np.sqrt(np.abs(values))), np.where(values < 0.0, -1.0, 1.0)
    if uniform:
        # D R = M R / s, so the whole is (1/h - 1/s) (M R)(M R)^T.
        weight = 1.0 / h - float(np.trace(inner)) / count
        return np.sqrt(abs(weight)) * momenta, np.full(count, np.sign(weight))
    eye = np.eye(count)
    values, vectors = np.linalg.eigh(
        np.block([[np.zeros((count, count)), -eye], [-eye, inner + eye / h + (0.0 if more is None else more)]])
    )
    columns: Array = np.concatenate([slowed, momenta], axis=1) @ (vectors * np.sqrt(np.abs(values)))
    return columns, np.sign(values)


def _coast(system: System, region: Region, state: State, u: Array, h: float) -> tuple[Array, Array]:
    """Split velocities u (f, 3) into a momentum-conserving rigid displacement over h and the deformation velocity.

    The split at the old positions, as in physics.md, loses angular momentum at a rate of h times the squared spin. Here
    the
    body turns by a finite rotation, and the deformation velocity turns with it.
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
