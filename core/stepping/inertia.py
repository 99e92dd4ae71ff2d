"""The predicted velocity and the inertia of one region for one step (docs/physics.md section 2)."""

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

# Where a flight is known, the rigid part's inertia over its own: the elastic forces of a step's start, up to a hundred
# times the weight of those at its end, must not turn what they do not turn with (docs/decisions/0009).
_FIRM = 1e4
# A metric has at least this part of the rigid inertia: with dead loads that pull at a body psi has less where it turns,
# and the stiffness that makes up for it is not in the metric.
_LEAST = 0.25
# From this theta q on the inertia is at most a third of what resists, and a metric leaves it out.
_LIGHT = 2.0


@dataclass(frozen=True)
class RegionTerms:
    """What one region adds to psi, at its free nodes (f,).

    reference: (f, 3) m/s of the undeformed places, see State.
    predicted: (f, 3) m/s, the velocity that the step starts from.
    load: (f, 3) N.
    inertia: (f,) kg/s.
    columns, signs: (f, 3, k), (k,) of the low rank part of the inertia.
    metric: the same two for a metric, which is positive; None where they are.
    rotation: (3, 3), how the region is turned since rest.
    ahead: (f, 3) m, where the nodes come to if nothing deforms any further; of the waveform law only.
    turn: (3, 3) or (f, 3, 3), by which the undeformed body turns in the step.
    flight: the rigid motion that pins leave, if any.
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
    """parts: the region's pieces.  throws: (b,) follow-through of each block."""
    system, state, h = moment.system, moment.state, moment.h
    free, x = region.free, state.positions[region.free]
    mass = system.mass[free]
    motion = carried(moment, region, parts)
    here, undeformed = motion.here, motion.home
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
    """Of a law that every mode follows. parts, throws: see region_terms.  begin: what the last step left.

    touched: whether a contact may press on the region.  ground: what it rests on; None where it does not.
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
        # What something presses is out of balance without it.
        fresh = np.broadcast_to(coefficients.sigma * coefficients.fresh, len(free))[:, None]
        dead = dead - fresh * (rows(begin.elastic, free) - weight)
    u, dead = turned(motion.turn, rows(begin.velocity, free)), turned(motion.turn, dead)
    # What is held so that it hardly turns remembers its force as it is in space: else the weight of what leans would
    # turn it at once, and the rest of it as slowly as dialled.
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
        # To set right the momenta of what a contact might have pressed would feed back all that it is out by.
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
        # What acts on the rigid part is in the flight.
        load = load - (momenta @ (fields.T @ load.ravel())).reshape(-1, 3)
    # Beside the elastic force of its end, which turns with it, it has all of its torque.
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
    """What a metric counts of the inertia (f,). firm: see step.Stepper.

    Of modes that all follow the waveform, theta h K resists more than M/s by theta q in the first one, and by more in
    the others. Without M/s the factors serve all dials, keyed ones too (docs/decisions/0035).
    """
    light = firm and all(law.waveform and np.min(law.theta * law.q) >= _LIGHT for law in laws)
    return np.zeros_like(inertia) if light else inertia


def _lifted(more: Array, h: float) -> Array | None:
    """What is beside 1/h of the rigid inertia, (r, r), so that their sum is positive; None where it is."""
    values, vectors = np.linalg.eigh(more)
    least = (_LEAST - 1.0) / h
    return None if (values >= least).all() else np.asarray((vectors * np.maximum(values, least)) @ vectors.T)


def _pushed(block: Block) -> bool:
    """Whether more than elasticity and weight may act on a block."""
    return any(term.factor is Factor.FIXED for term in block.terms)


def _steadied(turn: Array) -> float | Array:
    """Of a turn by an angle t, (t/2)^2/sin^2(t/2): what the centripetal acceleration of its chords falls short by."""
    cosine = np.clip(0.5 * (np.trace(turn, axis1=-2, axis2=-1) - 1.0), -1.0, 1.0)
    half = 0.5 * np.arccos(cosine)
    factor = np.where(half > 1e-4, (half / np.sin(np.maximum(half, 1e-4))) ** 2, 1.0)
    return float(factor) if factor.ndim == 0 else factor[:, None]


def low_rank(
    fields: Array, momenta: Array, inertia: Array, h: float, uniform: bool, more: Array | None = None
) -> tuple[Array, Array]:
    """What M Pi / h + (I - Pi)^T D (I - Pi) has beyond the diagonal D: columns (3f, k) and their signs (k,).

    fields, momenta: R and M R, (3f, r).  inertia: D = M/s at the free nodes (f,).  more: (r, r) beside 1/h, 1/s.
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
        # D R = M R / s: then the whole is (1/h - 1/s) (M R)(M R)^T.
        weight = 1.0 / h - float(np.trace(inner)) / count
        return np.sqrt(abs(weight)) * momenta, np.full(count, np.sign(weight))
    eye = np.eye(count)
    values, vectors = np.linalg.eigh(
        np.block([[np.zeros((count, count)), -eye], [-eye, inner + eye / h + (0.0 if more is None else more)]])
    )
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
