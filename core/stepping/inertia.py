"""The carried velocity and the inertia of one region for one step (physics.md section 2)."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from scipy.sparse import csr_matrix

from ..arrays import Array
from ..geometry.rigid import coasting, free_spin, rigid_basis, rigid_motion
from ..system.region import Region, smallest_eigenvalue
from ..system.state import PinMotion, State
from ..system.system import System
from .law import Coefficients


@dataclass(frozen=True)
class RegionTerms:
    """What one region adds to psi, at its free nodes (f,).

    carrier: (f, 3) m/s of the places where nothing would be bent, see State.  columns, signs: (f, 3, k), (k,) of the
    low rank part of the inertia.
    """

    carrier: Array
    carried: Array
    load: Array
    inertia: Array
    columns: Array
    signs: Array
    rotation: Array


def region_terms(
    system: System,
    region: Region,
    state: State,
    pins: PinMotion,
    h: float,
    coefficients: Coefficients,
    follow_through: float,
) -> RegionTerms:
    free, x = region.free, state.positions[region.free]
    mass = system.mass[free]
    carrier, felt_carrier = _carriers(system, region, state, pins, h)
    # docs/decisions/0005: what is left when the acceleration that is felt is taken out of Newton's law.
    u = state.velocities[free] - carrier + (felt_carrier - state.carrier[free])
    basis = np.zeros((len(free), 3, 0))
    kappa = np.broadcast_to(coefficients.kappa, len(free))[:, None]
    carried = carrier + kappa * u
    if region.rigid_modes and not coefficients.is_backward_euler(h):
        coast, rest = _coast(system, region, state, u, h)
        carried = carrier + coast + kappa * rest
        # The basis belongs to the end of the step, where inner forces have no torque.
        ahead = state.positions.copy()
        ahead[system.pinned] = pins.end
        ahead[free] = x + h * (carrier + coast)
        basis = rigid_basis(ahead, system.mass, free, region.held)
    fields = basis.reshape(3 * len(free), -1)
    momenta = (mass[:, None, None] * basis).reshape(fields.shape)
    push = (mass[:, None] * (felt_carrier - state.carrier[free]) / h).ravel()
    felt = follow_through * push + (1.0 - follow_through) * (momenta @ (fields.T @ push))

    inertia = mass / coefficients.s
    columns, signs = _low_rank(fields, momenta, inertia, h, uniform=np.ndim(coefficients.s) == 0)
    return RegionTerms(
        carrier=felt_carrier,
        carried=np.asarray(carried),
        load=mass[:, None] * system.gravity - felt.reshape(-1, 3),
        inertia=inertia,
        columns=columns.reshape(len(free), 3, -1),
        signs=signs,
        rotation=rigid_motion(system.rest[free], x)[0],
    )


def _carriers(system: System, region: Region, state: State, pins: PinMotion, h: float) -> tuple[Array, Array]:
    """The carrier's velocity (f, 3) at the free nodes, and where they would be if nothing was bent."""
    free, x = region.free, state.positions[region.free]
    home = x
    if pins.carrying is not None and len(region.held):
        if pins.carrying.home is not None:
            home = pins.carrying.home[free]
        places, homes = state.positions.copy(), state.positions.copy()
        homes[free] = home
        return (pins.carrying(places)[free] - x) / h, (pins.carrying(homes)[free] - home) / h
    if not len(region.held):
        return np.zeros_like(x), np.zeros_like(x)
    place = np.searchsorted(system.pinned, region.held)
    turn, shift = rigid_motion(pins.start[place], pins.end[place])
    # Pins that leave it free to swing do not say where it is; the body itself does.
    known = (system.rest[free], x) if region.rigid_modes else (system.rest[region.held], pins.start[place])
    placed, moved = rigid_motion(*known)
    home = system.rest[free] @ placed.T + moved
    # The displacement of a node that goes with the pins, over h: a steady turn then leaves nothing behind.
    way = turn - np.eye(3)
    return (x @ way.T + shift) / h, (home @ way.T + shift) / h


def tangent(system: System, state: State) -> csr_matrix:
    """The Hessian of all energies in a state with the pins where they are, (3n, 3n) N/m."""
    total = system.soft_pins(state.positions[system.pinned]).hessian(state.positions, False)
    for energy in system.energies:
        total = total + energy.hessian(state.positions, False)
    return total.tocsr()


def hanging(system: System, state: State, stiffness: float) -> tuple[Region, ...]:
    """The regions with what the weight adds to lambda_1 where it hangs still in a state (docs/decisions/0004).

    stiffness: factor on all energies.
    """
    stiff = tangent(system, state)
    return tuple(
        replace(
            region,
            weight=stiffness
            * (smallest_eigenvalue(stiff, system.mass, region.free, region.rigid_modes) - region.eigenvalue),
        )
        for region in system.regions
    )


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
    basis = rigid_basis(state.positions, system.mass, free, region.held).reshape(3 * len(free), -1)
    rest = u - (basis @ (basis.T @ (mass[:, None] * u).ravel())).reshape(-1, 3)
    if len(held):
        centre, drift = held.mean(axis=0), np.zeros(3)
    else:
        centre, drift = mass @ x / mass.sum(), mass @ u / mass.sum()
    offset = x - centre
    Q = coasting(offset, mass, mass @ np.cross(offset, u), free_spin(held), h)
    return drift + offset @ (Q - np.eye(3)).T / h, rest @ Q.T
