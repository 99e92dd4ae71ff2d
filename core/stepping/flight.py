"""What a region does that its pins leave it free to do: it flies, swings and turns as nature has it.

docs/physics.md section 2, "Rigid part".
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ..arrays import Array, rows
from ..geometry.rigid import coasting, free_spin, rigid_basis, spinning, turning
from ..system.region import Region
from .carrier import Carried, Moment, held_ahead, turned


@dataclass(frozen=True)
class Flight:
    """A region's rigid motion in a step, from where its reference motion carries it.

    places: (f, 3) m, there.
    turn: (3, 3).
    ahead: (f, 3) m, where the rigid motion leads.
    centre: (3,) m there, what is turned about: the pins' mean, or None for the centre of mass.
    linear: (3,) kg m/s, angular: (3,) kg m^2/s about the centre, momenta relative to the reference motion.
    axes: (3, r), see free_spin.
    basis: (f, 3, k), R ahead.
    exact: whether nothing elastic changes the momenta, as a spring at a soft pin does.
    """

    places: Array
    turn: Array
    ahead: Array
    centre: Array | None
    linear: Array
    angular: Array
    axes: Array
    basis: Array
    exact: bool


def fly(moment: Moment, region: Region, motion: Carried, force: Array) -> Flight:
    """force: (f, 3) N, all that acts on the rigid motion, at the step's start.

    The step's momenta are those of displacements, taken at their ends; with the forces of its start this is the
    leapfrog, which keeps a pendulum's height (docs/decisions/0009).
    """
    system, state, h = moment.system, moment.state, moment.h
    free, mass = region.free, rows(system.mass, region.free)
    places = rows(state.positions, free) + h * motion.here
    own = mass[:, None] * turned(motion.turn, rows(state.velocities, free) - rows(state.reference, free)) + h * force
    pins = held_ahead(moment, region, places)
    linear = own.sum(axis=0)
    if len(pins):
        centre, drift = pins.mean(axis=0), np.zeros(3)
    else:
        centre, drift = mass @ places / mass.sum(), linear / mass.sum()
    offset, axes = places - centre, free_spin(pins)
    angular = turning(offset.T @ own)
    turn = coasting(offset, mass, angular, axes, h)
    ahead = centre + h * drift + offset @ turn.T
    basis = rigid_basis(ahead, held_ahead(moment, region, ahead), mass)
    hard = not np.isin(region.held, free).any()
    return Flight(places, turn, ahead, centre if len(pins) else None, linear, angular, axes, basis, hard)


def restored(flight: Flight, mass: Array, positions: Array, h: float) -> tuple[Array, Array]:
    """Positions (f, 3) m at the step's end with the flight's momenta, and the turn (3, 3) that they were turned by.

    mass: (f,) kg.
    """
    centre = flight.centre
    if centre is None:
        total = mass.sum()
        positions = positions + (h * flight.linear - mass @ (positions - flight.places)) / total
        centre = mass @ positions / total
    offset = positions - centre
    turn = coasting(offset, mass, flight.angular, flight.axes, h, flight.places - centre)
    return centre + offset @ turn.T, turn


def yielding(flight: Flight, dead: Array, mass: Array, h: float) -> Array:
    """How a dead load changes the rigid part's inertia where the body turns, (k, k) in the basis, 1/s.

    dead: (f, 3) N on the nodes.  What is remembered of the elastic force does not turn with the body in the step; its
    torque is compensated to first order: -h W^T H W with the spins W of the basis.
    """
    centre = flight.centre if flight.centre is not None else mass @ flight.ahead / mass.sum()
    offset = flight.ahead - centre
    product = offset.T @ dead
    H = 0.5 * (product + product.T) - np.trace(product) * np.eye(3)
    second = (mass[:, None] * offset).T @ offset
    inertia = np.trace(second) * np.eye(3) - second
    weighted = (mass[:, None] * offset).T
    momenta = turning((weighted @ flight.basis.reshape(len(offset), -1)).reshape(3, 3, -1))
    spins = spinning(inertia) @ momenta
    return np.asarray(-h * spins.T @ H @ spins)
