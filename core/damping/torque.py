"""Taking the torque out of a field of damping forces, [Sch] section 3.3, schemes (a) to (c), and ours (d).

A scheme maps forces f (p, 3) in N on the memberships of clusters, whose sum in each cluster is zero, to forces without
torque; but for the one that leaves them as they are.
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

# A cluster whose second moments span less than this part of the largest has no inertia about that axis.
_FLAT = 1e-10


@dataclass(frozen=True)
class Field:
    """forces: (p, 3) N.  positions: (p, 3) m.  velocities: (p, 3) m/s, relative to the cluster's centre.  step: h.

    shares: (p,) alpha_i, which sum to 1 in each cluster and say whose middle the rays come from; by mass if None.
    """

    clusters: Clusters
    forces: Array
    positions: Array
    velocities: Array
    step: float
    shares: Array | None = None


def spins(clusters: Clusters, offsets: Array, momenta: Array) -> Array:
    """Angular velocities (count, 3) that give each cluster the angular momentum of momenta (p, 3) about its centre."""
    second = clusters.sums(clusters.mass[:, None, None] * offsets[:, :, None] * offsets[:, None, :])
    inertia = np.trace(second, axis1=1, axis2=2)[:, None, None] * np.eye(3) - second
    angular = clusters.sums(np.cross(offsets, momenta))
    values, vectors = np.linalg.eigh(inertia)
    # About the line of a cluster that is one nothing can turn.
    usable = values > _FLAT * values[:, -1:]
    along = np.einsum("cik,ci->ck", vectors, angular)
    part = np.where(usable, along / np.where(usable, values, 1.0), 0.0)
    return np.asarray(np.einsum("cik,ck->ci", vectors, part))


def _edges(field: Field) -> Array:
    """f_e = f_i - f_j along the edges, unscaled."""
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
    """(a) with the factor that loses most energy, at most 1."""
    return _most_lost(field, _edges(field))


def _most_lost(field: Field, forces: Array) -> Array:
    """The forces times what loses most energy in each cluster, between 0 and 1."""
    clusters = field.clusters
    power = clusters.sums((field.velocities * forces).sum(axis=1))
    gain = field.step * clusters.sums((forces**2).sum(axis=1) / clusters.mass)
    factor = np.clip(np.divide(-power, gain, out=np.zeros_like(gain), where=gain > 0.0), 0.0, 1.0)
    return np.asarray(factor[clusters.of, None] * forces)


def along_edges_as_printed(field: Field) -> Array:
    """(a) with the paper's factor as it is meant, min |f_i| / |f'_i|, at most 1; it does not bound the energy."""
    forces, clusters = _edges(field), field.clusters
    new = np.linalg.norm(forces, axis=1)
    ratio = np.divide(np.linalg.norm(field.forces, axis=1), new, out=np.ones_like(new), where=new > 0.0)
    factor = np.ones(clusters.count)
    np.minimum.at(factor, clusters.of, ratio)
    return np.asarray(factor[clusters.of, None] * forces)


def along_radii(field: Field) -> Array:
    """(b): along the ray from the centre, then without the net force, which the masses share."""
    clusters = field.clusters
    offset = field.positions - clusters.means(field.positions)[clusters.of]
    length = np.linalg.norm(offset, axis=1, keepdims=True)
    unit = np.divide(offset, length, out=np.zeros_like(offset), where=length > 0.0)
    forces = (field.forces * unit).sum(axis=1, keepdims=True) * unit
    share = clusters.mass / clusters.sums(clusters.mass)[clusters.of]
    return np.asarray(forces - share[:, None] * clusters.sums(forces)[clusters.of])


def along_rays(field: Field) -> Array:
    """(b) from any point x = sum alpha_i x_i, with the factor that loses most energy; by mass it is (b) itself.

    Without the factor energy could be added: nodes of large alpha_i take up the net force, whatever they weigh.
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
    """The forces as they are, [Sch] section 4: turning is damped as well."""
    return field.forces


def by_programme(field: Field) -> Array:
    """(c): a linear programme, read as the forces nearest in the sum of magnitudes that have no sum and no torque."""
    clusters, forces = field.clusters, field.forces.copy()
    bounds = np.searchsorted(clusters.of, np.arange(clusters.count + 1))
    centre = clusters.means(field.positions)[clusters.of]
    for start, end in itertools.pairwise(bounds):
        forces[start:end] = _nearest(forces[start:end], (field.positions - centre)[start:end])
    return forces


def _nearest(forces: Array, offset: Array) -> Array:
    size, reach = float(np.abs(forces).max()), float(np.abs(offset).max())
    if size == 0.0 or reach == 0.0:
        return forces
    wanted, arm, count = (forces / size).ravel(), offset / reach, len(offset)
    # Rows of (f, f x arm): what has to vanish, 6 of them.
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
    # HiGHS is content with 1e-7; the rest goes by least squares.
    x = found.x[: 3 * count]
    x = x - np.linalg.pinv(zero) @ (zero @ x)
    return np.asarray(size * x.reshape(-1, 3))


def rigid(field: Field) -> Array:
    """(d), ours: only what differs from each cluster's best-fit rigid motion, whose mass-weighted moment is zero."""
    clusters = field.clusters
    offset = field.positions - clusters.means(field.positions)[clusters.of]
    # The torque's own rigid field has that torque, and is what a spin of these momenta would be.
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
