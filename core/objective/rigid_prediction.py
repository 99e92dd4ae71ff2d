"""Rigid motion of a region within the freedom left by its pins: free flight, swinging and turning.

docs/explanation/physics/02-settle-law.md, "Rigid part".
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ..base.arrays import Array, take_rows
from ..geometry.mesh.rigid_motion import (
    cross_product_sum,
    fit_rigid_motion,
    free_rotation,
    free_rotation_axes,
    inverse_inertia,
    rigid_mode_basis,
)
from ..system.region import Region
from .reference_motion import ReferenceVelocity, StepContext, predicted_pin_positions, rotate


@dataclass(frozen=True)
class RigidPrediction:
    """Predicted rigid motion of a region in a step, applied after its reference motion.

    reference_positions: (f, 3) m, positions after the reference motion.
    rotation: (3, 3).
    positions: (f, 3) m, positions after the rigid motion.
    centre: (3,) m, centre of rotation after the reference motion: the mean of the pins; None for the centre of mass.
    linear_momentum: (3,) kg m/s, angular_momentum: (3,) kg m^2/s about the centre, relative to the reference motion.
    free_axes: (3, r), see free_rotation_axes().
    basis: (f, 3, k), rigid basis R at the predicted positions.
    conserves_momenta: whether no elastic force changes the momenta, as the spring of a soft pin does.
    """

    reference_positions: Array
    rotation: Array
    positions: Array
    centre: Array | None
    linear_momentum: Array
    angular_momentum: Array
    free_axes: Array
    basis: Array
    conserves_momenta: bool


def predict_rigid_motion(
    context: StepContext, region: Region, reference: ReferenceVelocity, force: Array
) -> RigidPrediction:
    """Predict the rigid motion of a region in a step.

    The momenta of the step are those of its displacements, taken at their ends. With the forces at the start of the
    step this is the leapfrog scheme, which conserves the height of a pendulum (docs/decisions/0009).

    force: (f, 3) N, total force on the rigid motion at the start of the step.
    """
    system, state, h = context.system, context.state, context.h
    free, mass = region.free, take_rows(system.mass, region.free)
    reference_positions = take_rows(state.positions, free) + h * reference.at_current
    momenta = (
        mass[:, None] * rotate(reference.rotation, take_rows(state.velocities, free) - take_rows(state.reference, free))
        + h * force
    )
    pins = predicted_pin_positions(context, region, reference_positions)
    linear_momentum = momenta.sum(axis=0)
    if len(pins):
        centre, velocity = pins.mean(axis=0), np.zeros(3)
    else:
        centre, velocity = mass @ reference_positions / mass.sum(), linear_momentum / mass.sum()
    offset, free_axes = reference_positions - centre, free_rotation_axes(pins)
    angular_momentum = cross_product_sum(offset.T @ momenta)
    rotation = free_rotation(offset, mass, angular_momentum, free_axes, h)
    predicted = centre + h * velocity + offset @ rotation.T
    basis = rigid_mode_basis(predicted, predicted_pin_positions(context, region, predicted), mass)
    has_only_hard_pins = not np.isin(region.constrained_nodes, free).any()
    return RigidPrediction(
        reference_positions,
        rotation,
        predicted,
        centre if len(pins) else None,
        linear_momentum,
        angular_momentum,
        free_axes,
        basis,
        has_only_hard_pins,
    )


def project_onto_momenta(prediction: RigidPrediction, mass: Array, positions: Array, h: float) -> tuple[Array, Array]:
    """Project end positions (f, 3) m onto the predicted momenta.

    Returns the projected positions and the rotation (3, 3) that was applied.

    mass: (f,) kg.
    """
    centre = prediction.centre
    if centre is None:
        total = mass.sum()
        positions = (
            positions + (h * prediction.linear_momentum - mass @ (positions - prediction.reference_positions)) / total
        )
        centre = mass @ positions / total
    offset = positions - centre
    rotation = free_rotation(
        offset, mass, prediction.angular_momentum, prediction.free_axes, h, prediction.reference_positions - centre
    )
    return centre + offset @ rotation.T, rotation


def turning_energy(
    prediction: RigidPrediction,
    load: Array,
    inertia: Array,
    motion: tuple[Array, Array, Array],
    mass: Array,
    h: float,
) -> float:
    """Return the energy that a dead load gives a body by turning it, over the kinetic energy of its rigid motion.

    The load should turn with the body, and so do no work. (2.37) compensates its torque for the spin of all velocities.
    In large turns, and where parts move by themselves, the rest is an error, (7.16) of physics, section 7. Return 0
    where (2.37) leaves the body's inertia positive: then the error is small.

    load: (f, 3) N, with the dead load.  inertia: (k, k) 1/s, see dead_load_stiffness().
    motion: end positions (f, 3) m, velocities (f, 3) m/s, and their difference (f, 3) m/s from the predicted ones.
    mass: (f,) kg.
    """
    if np.linalg.eigvalsh(inertia)[0] > -1.0 / h:
        return 0.0
    positions, velocities, change = motion
    total, amplitudes = (np.einsum("fik,fi,f->k", prediction.basis, one, mass) for one in (velocities, change))
    centre = prediction.centre if prediction.centre is not None else mass @ prediction.positions / mass.sum()
    offset = prediction.positions - centre
    rotation, _ = fit_rigid_motion(prediction.positions, positions)
    work = float(np.vdot(load, offset @ rotation.T - offset)) - 0.5 * h * float(amplitudes @ inertia @ amplitudes)
    return work / max(0.5 * float(total @ total), float(np.finfo(float).tiny))


def dead_load_stiffness(prediction: RigidPrediction, dead_load: Array, mass: Array, h: float) -> Array:
    """Return the first-order change of rigid inertia by a dead load where the body turns, (k, k) in the basis, 1/s.

    The remembered elastic force does not rotate with the body in the step. The matrix -h W^T H W with the spins W of
    the basis compensates its torque to first order.

    dead_load: (f, 3) N at the nodes.
    """
    centre = prediction.centre if prediction.centre is not None else mass @ prediction.positions / mass.sum()
    offset = prediction.positions - centre
    product = offset.T @ dead_load
    H = 0.5 * (product + product.T) - np.trace(product) * np.eye(3)
    second_moment = (mass[:, None] * offset).T @ offset
    inertia = np.trace(second_moment) * np.eye(3) - second_moment
    weighted = (mass[:, None] * offset).T
    momenta = cross_product_sum((weighted @ prediction.basis.reshape(len(offset), -1)).reshape(3, 3, -1))
    spins = inverse_inertia(inertia) @ momenta
    return np.asarray(-h * spins.T @ H @ spins)
