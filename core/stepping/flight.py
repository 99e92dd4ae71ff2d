"""Rigid motion of a region within the freedom left by its pins: free flight, swinging and turning.

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
    """Predicted rigid motion of a region in a step, applied after its reference motion.

    reference_positions: (f, 3) m, positions after the reference motion.
    rotation: (3, 3).
    positions: (f, 3) m, positions after the rigid motion.
    centre: (3,) m, centre of rotation after the reference motion: the mean of the pins; None for the centre of mass.
    linear_momentum: (3,) kg m/s, angular_momentum: (3,) kg m^2/s about the centre, relative to the reference motion.
    free_axes: (3, r), see free_spin.
    basis: (f, 3, k), rigid basis R at the predicted positions.
    conserves_momenta: whether no elastic force changes the momenta, as the spring of a soft pin does.
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
    """Predict the rigid motion of a region in a step.

    The momenta of the step are those of its displacements, taken at their ends. With the forces at the start of the
    step
    this is the leapfrog scheme, which conserves the height of a pendulum (docs/decisions/0009).

    force: (f, 3) N, total force on the rigid motion at the start of the step.
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
    """Project end positions (f, 3) m onto the predicted momenta.

    Returns the projected positions and the rotation (3, 3) that was applied.

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
    """Return the first-order change of rigid inertia by a dead load where the body turns, (k, k) in the basis, 1/s.

    The remembered elastic force does not rotate with the body in the step. The matrix -h W^T H W with the spins W of
    the
    basis compensates its torque to first order.

    dead_load: (f, 3) N at the nodes.
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
