"""Predicted velocity and inertia of one region for one step (docs/explanation/physics/02-settle-law.md)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np

from ..base.arrays import Array, Index, take_rows
from ..geometry.mesh.rigid_motion import fit_rigid_motions, free_rotation, free_rotation_axes, rigid_mode_basis
from ..settle.law import Coefficients
from ..settle.support_modes import Support
from ..system.discretization import BodyDiscretization
from ..system.region import Region
from ..system.state import State
from ..system.system import System
from ..system.term import StiffnessScaling
from .reference_motion import (
    ReferenceVelocity,
    RegionSlice,
    StepContext,
    expand_to_nodes,
    predicted_pin_positions,
    reference_velocities,
    rotate,
)
from .rigid_prediction import RigidPrediction, dead_load_stiffness, predict_rigid_motion
from .step_potential import StepStartForces

# Extra rigid inertia, relative to the body's own, where the rigid prediction is exact. The factor 1 - theta of the
# elastic force at the step's start can reach a hundred, and this force must not turn the body (docs/decisions/0009).
_EXACT_RIGID_INERTIA_RATIO = 1e4
# Minimum rigid inertia of a preconditioner, relative to the body's own. Dead loads that pull on a body reduce the
# rotational inertia of psi, and the stiffness that compensates for this is not in the preconditioner.
_MIN_PRECONDITIONER_RATIO = 0.25
# Above this theta q the inertia is at most a third of the Hessian in any mode, and a preconditioner omits it.
_NEGLIGIBLE_THETA_Q = 2.0
# Largest ratio of stiffness to inertia of a motion, q Lambda, at which the force change is retained in full. A step
# does not resolve stiffer modes: their forces change direction within it.
_MAX_RETAINED_STIFFNESS = 3.0


@dataclass(frozen=True)
class RegionInertia:
    """Contribution of one region to psi, at its free nodes (f,).

    reference_velocity: (f, 3) m/s, of the undeformed positions, see State.reference.
    predicted_velocity: (f, 3) m/s, v-hat, about which the inertia acts.
    load: (f, 3) N.
    inertia: (f,) kg/s.
    columns, signs: (f, 3, k) and (k,), low-rank part of the inertia.
    rotation: (3, 3), of the region since rest.
    preconditioner_terms: positive columns and signs for a preconditioner; None if columns and signs are positive.
    predicted_positions: (f, 3) m, end positions without further deformation; waveform law only.
    step_rotation: (3, 3) or (f, 3, 3), rotation of the undeformed body in the step.
    rigid_prediction: rigid motion within the freedom left by the pins, if any.
    dead_load_inertia: (k, k) 1/s, see dead_load_stiffness(); None where the dead load cannot turn the region.
    deformation_velocity: (f, 3) m/s, at the start of the step; first-mode law only.
    """

    reference_velocity: Array
    predicted_velocity: Array
    load: Array
    inertia: Array
    columns: Array
    signs: Array
    rotation: Array
    preconditioner_terms: tuple[Array, Array] | None = None
    predicted_positions: Array | None = None
    step_rotation: Array | None = None
    rigid_prediction: RigidPrediction | None = None
    dead_load_inertia: Array | None = None
    deformation_velocity: Array | None = None


@dataclass(frozen=True)
class RegionMotion:
    """Motion of a region at the start of a step.

    reference: its reference motion.  rotation: (3, 3), best fit from the rest shape to the current one.
    """

    reference: ReferenceVelocity
    rotation: Array


def region_motions(
    context: StepContext,
    regions: Sequence[Region],
    slices: Sequence[Sequence[RegionSlice]],
    *,
    has_rotations: bool = True,
) -> list[RegionMotion]:
    """Return the motions of regions.

    slices: of each region, see region_slices().  has_rotations: whether to fit the rotations; else they are none.
    """
    rest, x = context.system.rest, context.state.positions
    references = reference_velocities(context, regions, slices)
    if not has_rotations:
        return [RegionMotion(reference, np.eye(3)) for reference in references]
    fits = fit_rigid_motions([(take_rows(rest, region.free), take_rows(x, region.free)) for region in regions])
    return [RegionMotion(reference, rotation) for reference, (rotation, _) in zip(references, fits, strict=True)]


def first_mode_inertia(
    context: StepContext,
    region: Region,
    slices: Sequence[RegionSlice],
    coefficients: Coefficients,
    follow_through: Array,
    motion: RegionMotion | None = None,
) -> RegionInertia:
    """Return the inertia of a region under a law that controls the first mode only.

    slices: of the region, see region_slices().  follow_through: (b,) of each block.
    motion: of the region, if it is known.
    """
    system, state, h = context.system, context.state, context.h
    free, x = region.free, state.positions[region.free]
    mass = system.mass[free]
    motion = motion or region_motions(context, [region], [slices])[0]
    reference = motion.reference
    at_current, undeformed = reference.at_current, reference.at_undeformed
    # Velocity relative to the reference motion, corrected by the change of the reference velocity at the undeformed
    # positions (docs/decisions/0005).
    deformation_velocity = state.velocities[free] - at_current + (undeformed - state.reference[free])
    basis = np.zeros((len(free), 3, 0))
    kappa = np.broadcast_to(coefficients.kappa, len(free))[:, None]
    predicted_velocity = at_current + kappa * deformation_velocity
    if region.rigid_modes and not coefficients.is_backward_euler(h):
        rigid_velocity, deformation = _split_rigid_and_deformation(system, region, state, deformation_velocity, h)
        predicted_velocity = at_current + rigid_velocity + kappa * deformation
        # Evaluate the basis at the end of the step, where internal forces have no torque.
        predicted_positions = x + h * (at_current + rigid_velocity)
        basis = rigid_mode_basis(
            predicted_positions, predicted_pin_positions(context, region, predicted_positions), mass
        )
    fields = basis.reshape(3 * len(free), -1)
    momenta = (mass[:, None, None] * basis).reshape(fields.shape)
    reference_impulse = (mass[:, None] * (undeformed - state.reference[free]) / h).ravel()
    phi = (
        follow_through[slices[0].block_index] if len(slices) == 1 else expand_to_nodes(follow_through, slices).repeat(3)
    )
    if np.ndim(coefficients.follow_through_offset):
        phi = phi + np.repeat(coefficients.follow_through_offset, 3)
    inertial_load = phi * reference_impulse + (1.0 - phi) * (momenta @ (fields.T @ reference_impulse))

    inertia = mass / coefficients.inertia_time
    columns, signs = low_rank_inertia(fields, momenta, inertia, h, uniform=np.ndim(coefficients.inertia_time) == 0)
    return RegionInertia(
        reference_velocity=undeformed,
        predicted_velocity=np.asarray(predicted_velocity),
        load=context.external_forces(free) - inertial_load.reshape(-1, 3),
        inertia=inertia,
        columns=columns.reshape(len(free), 3, -1),
        signs=signs,
        rotation=motion.rotation,
        deformation_velocity=deformation_velocity,
    )


def first_mode_inertias(
    context: StepContext,
    regions: Sequence[Region],
    slices: Sequence[Sequence[RegionSlice]],
    coefficients: Sequence[Coefficients],
    follow_through: Array,
    motions: Sequence[RegionMotion],
) -> list[RegionInertia]:
    """Return first_mode_inertia() of many regions. Those without rigid modes are computed at once: strands of hair."""
    found = {
        place: first_mode_inertia(context, regions[place], slices[place], own, follow_through, motions[place])
        for place, own in enumerate(coefficients)
        if len(slices[place]) != 1
        or not own.is_uniform
        or (regions[place].rigid_modes and not own.is_backward_euler(context.h))
    }
    plain = [place for place in range(len(regions)) if place not in found]
    if plain:
        own, motion = [coefficients[place] for place in plain], [motions[place] for place in plain]
        blocks = [slices[place][0].block_index for place in plain]
        nodes = [regions[place].free for place in plain]
        inertias = _plain_inertias(context, nodes, own, follow_through[blocks], motion)
        found |= zip(plain, inertias, strict=True)
    return [found[place] for place in range(len(regions))]


def _plain_inertias(
    context: StepContext,
    nodes: Sequence[Index],
    coefficients: Sequence[Coefficients],
    follow_through: Array,
    motions: Sequence[RegionMotion],
) -> list[RegionInertia]:
    """Return first_mode_inertia() of regions without rigid modes. nodes: free ones.  follow_through: (r,)."""
    counts = [len(one) for one in nodes]
    free, ends = np.concatenate(nodes), np.cumsum(counts)
    mass, state = take_rows(context.system.mass, free), context.state
    at_current, undeformed = (
        np.concatenate([getattr(motion.reference, name) for motion in motions])
        for name in ("at_current", "at_undeformed")
    )
    reference_change = undeformed - take_rows(state.reference, free)
    deformation_velocity = take_rows(state.velocities, free) - at_current + reference_change
    kappa, inertia_time, phi = (
        np.repeat(np.asarray(values, dtype=float), counts)
        for values in (
            [one.kappa for one in coefficients],
            [one.inertia_time for one in coefficients],
            follow_through,
        )
    )
    load = context.external_forces(free) - (phi * mass)[:, None] * reference_change / context.h
    predicted, inertia = at_current + kappa[:, None] * deformation_velocity, mass / inertia_time
    return [
        RegionInertia(
            reference_velocity=undeformed[start:end],
            predicted_velocity=predicted[start:end],
            load=load[start:end],
            inertia=inertia[start:end],
            columns=np.zeros((end - start, 3, 0)),
            signs=np.zeros(0),
            rotation=motion.rotation,
            deformation_velocity=deformation_velocity[start:end],
        )
        for motion, start, end in zip(motions, (ends - counts).tolist(), ends.tolist(), strict=True)
    ]


def retained_parts(
    coefficients: Sequence[Coefficients], mass: Array, velocity: Array, force_change: Array
) -> tuple[Array, Array]:
    """Return the retained fractions sigma (r,) of elastic force changes (r, f, 3) N, and kappa (r,) of velocities.

    coefficients: of r regions.  mass: (r, f) kg.  velocity: (r, f, 3) m/s, of the deformations that changed the forces.

    Less of the change is retained where the motion is stiffer than a step resolves, (2.47) of physics, section 2.
    """
    largest, s, ratio, kappa = np.array(
        [
            [
                one if isinstance(one, float) else float(np.max(one))
                for one in (own.sigma, own.inertia_time, own.first_mode_stiffness_ratio, own.kappa)
            ]
            for own in coefficients
        ]
    ).T
    # Products of rows and columns are those of single regions, bit for bit.
    motion = (mass[:, None] @ (velocity**2).sum(axis=2)[:, :, None])[:, 0, 0] / s**2
    stiffness = ((force_change**2).sum(axis=2)[:, None] @ (1.0 / mass)[:, :, None])[:, 0, 0]
    limit = _MAX_RETAINED_STIFFNESS**2 * motion
    is_stiff = stiffness > limit
    sigma = np.where(is_stiff, largest * (limit / np.where(is_stiff, stiffness, 1.0)), largest)
    return sigma, np.maximum(kappa, np.minimum(kappa + (largest - sigma) * ratio, 1.0))


def delay_forces(
    context: StepContext,
    places: Sequence[int],
    inertias: Sequence[tuple[Index, RegionInertia]],
    coefficients: Sequence[Coefficients],
    load: Array,
    start_gradient: Callable[[], Array],
    can_release: bool,
) -> None:
    """Take the part of the unbalanced force that does not act in the step out of the load (f, 3) N of regions.

    The first law would move regions at rest out of balance as if released half a step earlier (docs/decisions/0100).
    Others have a lag that damps them (docs/decisions/0100).

    places: of the regions; those that are touched or free are left out.  inertias: slots and terms of each region.
    start_gradient: returns the gradient (f, 3) N of the potential energy at the start of the step.
    can_release: whether regions at rest are released in this step.
    """
    # The mean of both loads acts already.
    can_release = can_release and not any(one.has_changing_load for one in context.inputs)
    force: Array | None = None
    for place in places:
        (slots, terms), own = inertias[place], coefficients[place]
        if own.is_waveform or terms.deformation_velocity is None:
            continue
        is_released = can_release and not terms.deformation_velocity.any()
        # A release has no last step that new dials would have to continue.
        part, dial_change = (own.initial_force_change, 0.0) if is_released else (own.force_lag, own.dial_change)
        if not np.any(part) and not np.any(dial_change):
            continue
        force = start_gradient() if force is None else force
        share, change = (np.broadcast_to(one, len(slots))[:, None] for one in (part, dial_change))
        weight = context.external_forces(context.system.regions[place].free)
        load[slots] += share * (force[slots] - load[slots]) + change * (force[slots] - weight)


def waveform_inertia(
    context: StepContext,
    region: Region,
    slices: Sequence[RegionSlice],
    coefficients: Coefficients,
    follow_through: Array,
    start_forces: StepStartForces,
    is_touched: bool = False,
    support: Support | None = None,
    motion: RegionMotion | None = None,
) -> RegionInertia:
    """Return the inertia of a region under a waveform law, which controls all modes.

    slices, follow_through, motion: see first_mode_inertia().  start_forces: history at the start of the step.
    is_touched: whether contacts may act on the region.  support: None if the region is not at rest on a support.
    """
    system, state, h = context.system, context.state, context.h
    free, x = region.free, take_rows(state.positions, region.free)
    mass = take_rows(system.mass, free)
    motion = motion or region_motions(context, [region], [slices])[0]
    reference = motion.reference
    phi = (
        follow_through[slices[0].block_index] if len(slices) == 1 else expand_to_nodes(follow_through, slices)[:, None]
    )
    if np.ndim(coefficients.follow_through_offset):
        phi = phi + np.asarray(coefficients.follow_through_offset)[:, None]
    acceleration = (
        _chord_correction(reference.rotation)
        * rotate(reference.rotation, reference.at_undeformed - take_rows(state.reference, free))
        / h
    )
    reference_inertia_ratio = np.broadcast_to(coefficients.reference_inertia_ratio, len(free))[:, None]
    weight = context.external_forces(free)
    load = weight - phi * reference_inertia_ratio * mass[:, None] * acceleration
    dead_load = take_rows(start_forces.dead_load, free)
    if start_forces.elastic_force is not None and not is_touched:
        # Under contact forces the elastic force alone is not balanced.
        part = coefficients.dial_change
        if start_forces.history is None:
            part = coefficients.sigma * coefficients.initial_force_change
        part = np.broadcast_to(part, len(free))[:, None]
        dead_load = dead_load - part * (take_rows(start_forces.elastic_force, free) - weight)
    u = rotate(reference.rotation, take_rows(start_forces.velocity, free))
    dead_load = rotate(reference.rotation, dead_load)
    # The history force of a firmly supported body stays fixed in space. If it turned with a leaning body, the weight
    # would tip the body at once, while the elastic response would follow only at the pace of the dials.
    is_firmly_supported = support is not None and support.is_firmly_supported(x - mass @ x / mass.sum(), -dead_load)
    predicted_positions, step_rotation, prediction = x + h * reference.at_current, reference.rotation, None
    fields = momenta = np.zeros((3 * len(free), 0))
    extra_rigid_inertia, dead_load_inertia = np.zeros((0, 0)), None
    if region.rigid_modes:
        prediction = predict_rigid_motion(context, region, reference, weight - mass[:, None] * acceleration)
        predicted_positions = prediction.positions
        if not is_firmly_supported:
            u, dead_load = u @ prediction.rotation.T, dead_load @ prediction.rotation.T
            step_rotation = prediction.rotation @ reference.rotation
        fields = prediction.basis.reshape(3 * len(free), -1)
        momenta = (mass[:, None, None] * prediction.basis).reshape(fields.shape)
        u = u - (fields @ (momenta.T @ u.ravel())).reshape(-1, 3)
        # A contact may have changed the momenta. Correcting them would feed the whole error back.
        conserves_momenta = (
            prediction.conserves_momenta
            and not is_touched
            and not any(_has_fixed_terms(system.blocks[part.block_index]) for part in slices)
            and all(context.inputs[part.block_index].drag is None for part in slices)
        )
        prediction = replace(prediction, conserves_momenta=conserves_momenta)
        extra_rigid_inertia = np.zeros((fields.shape[1],) * 2)
        if conserves_momenta:
            extra_rigid_inertia = _EXACT_RIGID_INERTIA_RATIO / h * np.eye(fields.shape[1])
        elif not is_firmly_supported:
            extra_rigid_inertia = dead_load_inertia = dead_load_stiffness(prediction, dead_load, mass, h)
    predicted = (predicted_positions - x) / h + np.broadcast_to(coefficients.kappa, len(free))[:, None] * u
    if support is not None and prediction is not None:
        offset = prediction.positions - mass @ prediction.positions / mass.sum()
        damping = support.damping_matrix(offset, momenta)
        rigid_inertia = np.eye(len(extra_rigid_inertia)) / h + extra_rigid_inertia
        rigid_velocity = momenta.T @ predicted.ravel()
        damped_velocity = np.linalg.solve(
            rigid_inertia + damping,
            rigid_inertia @ rigid_velocity + damping @ (momenta.T @ np.tile(support.velocity, len(free))),
        )
        predicted = predicted + (fields @ (damped_velocity - rigid_velocity)).reshape(-1, 3)
        extra_rigid_inertia = extra_rigid_inertia + damping
    load = load if is_firmly_supported else load - dead_load
    if prediction is not None:
        # The rigid prediction already includes the forces on the rigid part.
        load = load - (momenta @ (fields.T @ load.ravel())).reshape(-1, 3)
    # Not projected: its torque acts together with that of the elastic force at the step's end, which turns with the
    # body.
    load = load - dead_load if is_firmly_supported else load
    inertia = mass / coefficients.inertia_time
    uniform = np.ndim(coefficients.inertia_time) == 0
    columns, signs = low_rank_inertia(fields, momenta, inertia, h, uniform, extra_rigid_inertia)
    positive_inertia, preconditioner_terms = _positive_rigid_inertia(extra_rigid_inertia, h), None
    if positive_inertia is not None:
        positive_columns, positive_signs = low_rank_inertia(fields, momenta, inertia, h, uniform, positive_inertia)
        preconditioner_terms = positive_columns.reshape(len(free), 3, -1), positive_signs
    return RegionInertia(
        reference_velocity=reference.at_undeformed,
        predicted_velocity=predicted,
        load=load,
        inertia=inertia,
        columns=columns.reshape(len(free), 3, -1),
        signs=signs,
        rotation=(step_rotation if step_rotation.ndim == 2 else np.eye(3)) @ motion.rotation,
        preconditioner_terms=preconditioner_terms,
        predicted_positions=predicted_positions,
        step_rotation=step_rotation,
        rigid_prediction=prediction,
        dead_load_inertia=dead_load_inertia,
    )


def preconditioner_inertia(inertia: Array, laws: Sequence[Coefficients], is_pinned_solid: bool) -> Array:
    """Return the part of the inertia (f,) that a preconditioner includes. is_pinned_solid: see Stepper.

    Under waveform laws theta h K is theta q times M/s in the first mode, and more in the others. Without M/s a single
    factorisation serves all dials, including keyframed ones (docs/decisions/0035).
    """
    is_negligible = is_pinned_solid and all(
        law.is_waveform and np.min(law.theta * law.first_mode_stiffness_ratio) >= _NEGLIGIBLE_THETA_Q for law in laws
    )
    return np.zeros_like(inertia) if is_negligible else inertia


def _positive_rigid_inertia(extra_rigid_inertia: Array, h: float) -> Array | None:
    """Return extra rigid inertia (r, r) with eigenvalues raised until its sum with 1/h is positive; None if it is."""
    values, vectors = np.linalg.eigh(extra_rigid_inertia)
    minimum = (_MIN_PRECONDITIONER_RATIO - 1.0) / h
    return None if (values >= minimum).all() else np.asarray((vectors * np.maximum(values, minimum)) @ vectors.T)


def _has_fixed_terms(block: BodyDiscretization) -> bool:
    """Return whether a block has force terms that its stiffness factor does not scale."""
    return any(term.scaling is StiffnessScaling.FIXED for term in block.terms)


def _chord_correction(rotation: Array) -> float | Array:
    """Return (t/2)^2/sin^2(t/2) for a rotation by t: the centripetal acceleration over that of the chords."""
    cosine = np.clip(0.5 * (np.trace(rotation, axis1=-2, axis2=-1) - 1.0), -1.0, 1.0)
    half_angle = 0.5 * np.arccos(cosine)
    factor = np.where(half_angle > 1e-4, (half_angle / np.sin(np.maximum(half_angle, 1e-4))) ** 2, 1.0)
    return float(factor) if factor.ndim == 0 else factor[:, None]


def low_rank_inertia(
    fields: Array, momenta: Array, inertia: Array, h: float, uniform: bool, extra_rigid_inertia: Array | None = None
) -> tuple[Array, Array]:
    """Return the low-rank part of M Pi / h + (I - Pi)^T D (I - Pi), without D: columns (3f, k) and signs (k,).

    fields, momenta: R and M R, (3f, r).  inertia: D = M/s at the free nodes, (f,).
    extra_rigid_inertia: (r, r) 1/s, added to 1/h.
    """
    count = fields.shape[1]
    if count == 0:
        return fields, np.zeros(0)
    scaled_fields = inertia.repeat(3)[:, None] * fields
    projected_inertia = fields.T @ scaled_fields
    if extra_rigid_inertia is not None and uniform:
        values, vectors = np.linalg.eigh(
            (1.0 / h - float(np.trace(projected_inertia)) / count) * np.eye(count) + extra_rigid_inertia
        )
        return momenta @ (vectors * np.sqrt(np.abs(values))), np.where(values < 0.0, -1.0, 1.0)
    if uniform:
        # D R = M R / s, so the whole is (1/h - 1/s) (M R)(M R)^T.
        weight = 1.0 / h - float(np.trace(projected_inertia)) / count
        return np.sqrt(abs(weight)) * momenta, np.full(count, np.sign(weight))
    eye = np.eye(count)
    values, vectors = np.linalg.eigh(
        np.block(
            [
                [np.zeros((count, count)), -eye],
                [-eye, projected_inertia + eye / h + (0.0 if extra_rigid_inertia is None else extra_rigid_inertia)],
            ]
        )
    )
    columns: Array = np.concatenate([scaled_fields, momenta], axis=1) @ (vectors * np.sqrt(np.abs(values)))
    return columns, np.sign(values)


def _split_rigid_and_deformation(
    system: System, region: Region, state: State, u: Array, h: float
) -> tuple[Array, Array]:
    """Split velocities u (f, 3) into the rigid velocity, which conserves momenta, and the deformation velocity.

    The rigid velocity is a displacement over h.

    The split at the old positions, as in docs/explanation/physics/02-settle-law.md, loses angular momentum at a rate of
    h times the squared spin. Here the body turns by a finite rotation, and the deformation velocity turns with it.
    """
    free, mass = region.free, system.mass[region.free]
    x = state.positions[free]
    pin_positions = state.positions[region.constrained_nodes]
    basis = rigid_mode_basis(x, pin_positions, mass).reshape(3 * len(free), -1)
    deformation = u - (basis @ (basis.T @ (mass[:, None] * u).ravel())).reshape(-1, 3)
    if len(pin_positions):
        centre, velocity = pin_positions.mean(axis=0), np.zeros(3)
    else:
        centre, velocity = mass @ x / mass.sum(), mass @ u / mass.sum()
    offset = x - centre
    Q = free_rotation(offset, mass, mass @ np.cross(offset, u), free_rotation_axes(pin_positions), h)
    return velocity + offset @ (Q - np.eye(3)).T / h, deformation @ Q.T
