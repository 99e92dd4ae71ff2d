"""Removal of the torque from damping forces, [Sch] section 3.3, schemes (a) to (c), and our own (d).

A scheme maps forces f (p, 3) in N on the memberships of clusters, whose sum in each cluster is zero, to forces without
torque. Only scheme "NONE" leaves them unchanged.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from scipy.optimize import linprog
from scipy.sparse import csr_matrix, eye, hstack, vstack

from ..arrays import Array
from .clusters import Clusters

# An eigenvalue of a cluster's inertia below this fraction of the largest counts as zero.
_FLAT = 1e-10


@dataclass(frozen=True)
class Field:
    """Damping forces on the memberships of clusters.

    forces: (p, 3) N.  positions: (p, 3) m.  velocities: (p, 3) m/s, relative to the cluster's centre.
    step_length: h in s.
    ray_weights: (p,) alpha_i, which sum to 1 in each cluster and define the origin of the rays; by mass if None.
    """

    clusters: Clusters
    forces: Array
    positions: Array
    velocities: Array
    step: float
    shares: Array | None = None


def spins(clusters: Clusters, offsets: Array, momenta: Array) -> Array:
    """Return angular velocities (count, 3) that give each cluster the angular momentum of momenta (p, 3)."""
    second = clusters.sums(clusters.mass[:, None, None] * offsets[:, :, None] * offsets[:, None, :])
    inertia = np.trace(second, axis1=1, axis2=2)[:, None, None] * np.eye(3) - second
    angular = clusters.sums(np.cross(offsets, momenta))
    values, vectors = np.linalg.eigh(inertia)
    # A cluster that is a line has no rotation about itself.
    usable = values > _FLAT * values[:, -1:]
    along = np.einsum("cik,ci->ck", vectors, angular)
    part = np.where(usable, along / np.where(usable, values, 1.0), 0.0)
    return np.asarray(np.einsum("cik,ck->ci", vectors, part))


def _edges(field: Field) -> Array:
    """Return f_e = f_i - f_j along the edges, unscaled."""
    pairs = field.clusters.edges
    way = field.positions[pairs[:, 0]] - field.positions[pairs[:, 1]]
    length = np.linalg.norm(way, axis=1, keepdims=True)
    unit = np.divide(way, length, out=np.zeros_like(way), where=length > 0.0)
    size = ((field.forces[pairs[:, 0]] - field.forces[pairs[:, 1]]) * unit).sum(axis=1, keepdims=True)
    total = np.zeros_like(field.forces)
    for side, sign in ((0, 1.0), (1, -1.0)):
        for axis in range(3):
            total[:, axis] += np.bincount(pairs[:, side], sign * (size * unit)[:, axis], minlength=len(total))
    return total


def along_edges(field: Field) -> Array:
    """Apply scheme (a) with the factor of largest energy loss, at most 1."""
    return _most_lost(field, _edges(field))


def _most_lost(field: Field, forces: Array) -> Array:
    """Scale the forces of each cluster by the factor between 0 and 1 that loses most energy."""
    clusters = field.clusters
    power = clusters.sums((field.velocities * forces).sum(axis=1))
    gain = field.step * clusters.sums((forces**2).sum(axis=1) / clusters.mass)
    factor = np.clip(np.divide(-power, gain, out=np.zeros_like(gain), where=gain > 0.0), 0.0, 1.0)
    return np.asarray(factor[clusters.of, None] * forces)


def along_edges_as_printed(field: Field) -> Array:
    """Apply scheme (a) with the paper's factor as intended, min |f_i| / |f'_i|, at most 1; energy is not bounded."""
    forces, clusters = _edges(field), field.clusters
    new = np.linalg.norm(forces, axis=1)
    ratio = np.divide(np.linalg.norm(field.forces, axis=1), new, out=np.ones_like(new), where=new > 0.0)
    factor = np.ones(clusters.count)
    np.minimum.at(factor, clusters.of, ratio)
    return np.asarray(factor[clusters.of, None] * forces)


def along_radii(field: Field) -> Array:
    """Apply scheme (b): project on the rays from the centre, then remove the net force, distributed by mass."""
    clusters = field.clusters
    offset = field.positions - clusters.means(field.positions)[clusters.of]
    length = np.linalg.norm(offset, axis=1, keepdims=True)
    unit = np.divide(offset, length, out=np.zeros_like(offset), where=length > 0.0)
    forces = (field.forces * unit).sum(axis=1, keepdims=True) * unit
    share = clusters.mass / clusters.sums(clusters.mass)[clusters.of]
    return np.asarray(forces - share[:, None] * clusters.sums(forces)[clusters.of])


def along_rays(field: Field) -> Array:
    """Apply scheme (b) with rays from any point x = sum alpha_i x_i, and the factor of largest energy loss.

    With weights by mass it is (b) itself. Without the factor, energy could be added: nodes of large alpha_i take up the
    net force, whatever their mass.
    """
    clusters = field.clusters
    by_mass = clusters.mass / clusters.sums(clusters.mass)[clusters.of]
    share = (by_mass if field.shares is None else field.shares)[:, None]
    offset = field.positions - clusters.sums(share * field.positions)[clusters.of]
    length = np.linalg.norm(offset, axis=1, keepdims=True)
    unit = np.divide(offset, length, out=np.zeros_like(offset), where=length > 0.0)
    forces = (field.forces * unit).sum(axis=1, keepdims=True) * unit
    return _most_lost(field, forces - share * clusters.sums(forces)[clusters.of])


def unprojected(field: Field) -> Array:
    """Return the forces unchanged, [Sch] section 4: rotation is damped as well."""
    return field.forces


def by_programme(field: Field) -> Array:
    """Apply scheme (c): a linear programme for the nearest forces, by sum of magnitudes, with zero sum and torque."""
    clusters, forces = field.clusters, field.forces.copy()
    bounds = np.searchsorted(clusters.of, np.arange(clusters.count + 1))
    centre = clusters.means(field.positions)[clusters.of]
    for start, end in itertools.pairwise(bounds):
        forces[start:end] = _nearest(forces[start:end], (field.positions - centre)[start:end])
    return forces


def _nearest(forces: Array, offset: Array) -> Array:
    """Return the forces (q, 3) N nearest to the given ones by the sum of magnitudes that have zero sum and torque."""
    size, reach = float(np.abs(forces).max()), float(np.abs(offset).max())
    if size == 0.0 or reach == 0.0:
        return forces
    wanted, arm, count = (forces / size).ravel(), offset / reach, len(offset)
    # Rows of (f, f x arm): the 6 sums that have to vanish.
    sums = np.tile(np.eye(3), (1, count))
    cross = np.concatenate([np.cross(arm[i], np.eye(3)).T for i in range(count)], axis=1)
    zero = np.concatenate([sums, cross])
    unit = eye(3 * count)
    found = linprog(
        np.concatenate([np.zeros(3 * count), np.ones(3 * count)]),
        A_ub=vstack([hstack([unit, -unit]), hstack([-unit, -unit])]),
        b_ub=np.concatenate([wanted, -wanted]),
        A_eq=hstack([csr_matrix(zero), csr_matrix((6, 3 * count))]),
        b_eq=np.zeros(6),
        bounds=[(None, None)] * (3 * count) + [(0.0, None)] * (3 * count),
        method="highs",
    )
    # HiGHS stops at 1e-7; least squares remove the remaining error.
    x = found.x[: 3 * count]
    x = x - np.linalg.pinv(zero) @ (zero @ x)
    return np.asarray(size * x.reshape(-1, 3))


def rigid(field: Field) -> Array:
    """Apply our scheme (d): subtract each cluster's best-fit rigid motion, whose mass-weighted moment then vanishes."""
    clusters = field.clusters
    offset = field.positions - clusters.means(field.positions)[clusters.of]
    # A rigid field with the same torque is the rotation that these forces cause if taken as momenta.
    spin = spins(clusters, offset, field.forces)
    return np.asarray(field.forces - clusters.mass[:, None] * np.cross(spin[clusters.of], offset))


TORQUE_SCHEMES: dict[str, Callable[[Field], Array]] = {
    "RIGID": rigid,
    "EDGES": along_edges,
    "EDGES_PRINTED": along_edges_as_printed,
    "RADII": along_radii,
    "PROGRAMME": by_programme,
    "RAYS": along_rays,
    "NONE": unprojected,
}
