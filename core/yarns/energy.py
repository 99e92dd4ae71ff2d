"""Elastic energy of a woven cloth with its gradient and Hessian, and the forces and friction at crossings."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from scipy.sparse import csr_matrix

from ..base.arrays import Array, Index
from ..materials.assembly import assemble_matrix
from . import elements
from .elements import BEND_MAP, SHEAR_MAP, STRETCH_MAP
from .woven_cloth import WovenCloth

# Step of finite differences for second derivatives, relative to the pitch.
_DIFFERENCE_STEP = 1e-6


@dataclass(frozen=True)
class YarnHessians:
    """Hessians of all elements by edge vectors: stretch (s, 4, 4), bending (m, 7, 7) and shear (c, 6, 6) or None.

    WovenCloth.element_groups maps unknowns to the vectors.
    """

    stretch: Array
    bend: Array
    shear: Array | None = None


class YarnElasticity:
    """Stretch, bending, shear and jamming energy of a woven cloth, with a factor on the stiffness of its material."""

    def __init__(self, cloth: WovenCloth, factor: float = 1.0) -> None:
        self.cloth, self._factor = cloth, factor
        self._stretch_stiffness = factor * cloth.stretch_stiffness
        self._jam_stiffness = self._stretch_stiffness / cloth.segment_pitches
        self._bend_stiffness = factor * cloth.bend_stiffness
        self._shear_stiffness = factor * cloth.shear_stiffness

    @property
    def stick_stiffness(self) -> Array:
        """Stiffness (p,) in N/m with which a crossing that sticks holds each passing."""
        return np.asarray(self._factor * self.cloth.stick_stiffness)

    @property
    def rounding(self) -> float:
        """Rounding error of the energy in J, in which strains are differences of positions."""
        scale = float(self._stretch_stiffness @ self.cloth.rest_lengths)
        return 8.0 * float(np.finfo(float).eps) * scale

    def _edge_vectors(self, x: Array) -> Array:
        a, b = self.cloth.ends.T
        return np.asarray(x[b] - x[a])

    def _bend_vectors(self, edges: Array, D: Array) -> tuple[Array, Array, Array]:
        first, last = self.cloth.bends.T
        return edges[first], edges[last], D[first] + D[last]

    def _crossing_vectors(self, x: Array) -> tuple[Array, Array]:
        around = self.cloth.crossing_neighbours
        return x[around[:, 1]] - x[around[:, 0]], x[around[:, 3]] - x[around[:, 2]]

    def value_gradient(self, x: Array, u: Array) -> tuple[float, Array]:
        """Return the energy in J and its gradient (d,). x: (n, 3) m.  u: (p,) m.

        The energy is infinite if two crossings are closer than their minimum distance.
        """
        cloth = self.cloth
        D, edges = cloth.lengths(u), self._edge_vectors(x)
        if (cloth.min_lengths >= D).any():
            return np.inf, np.zeros(cloth.unknown_count)
        energy, slope = elements.stretch_energy(edges, D, self._stretch_stiffness)
        jam_energy, jam_slope, _ = elements.jam_energy(D, cloth.jam_lengths, cloth.min_lengths, self._jam_stiffness)
        slope[:, 3] += jam_slope
        total = float(energy.sum()) + float(jam_energy.sum())
        bend_energy, by_bend = elements.bending_energy(
            *self._bend_vectors(edges, D), self._bend_stiffness, cloth.angles
        )
        shear_energy, by_shear = elements.shear_energy(*self._crossing_vectors(x), self._shear_stiffness, cloth.cosine)
        parts = (
            (cloth.stretch_unknowns, slope @ STRETCH_MAP),
            (cloth.bend_unknowns, by_bend @ BEND_MAP),
            (cloth.shear_unknowns, by_shear @ SHEAR_MAP),
        )
        return total + float(bend_energy.sum()) + float(shear_energy.sum()), sum_gradients(parts, cloth.unknown_count)

    def element_hessians(self, x: Array, u: Array) -> YarnHessians:
        """Return positive semidefinite element Hessians."""
        cloth = self.cloth
        D, ways = cloth.lengths(u), self._edge_vectors(x)
        along = elements.stretch_hessian(ways, D, self._stretch_stiffness, True)
        along[:, 3, 3] += elements.jam_energy(D, cloth.jam_lengths, cloth.min_lengths, self._jam_stiffness)[2]
        bend = elements.bending_hessian(*self._bend_vectors(ways, D), self._bend_stiffness, cloth.angles)
        shear = elements.shear_hessian(*self._crossing_vectors(x), self._shear_stiffness)
        return YarnHessians(along, bend, shear)

    def tensions(self, x: Array, u: Array) -> Array:
        """Return the force (s, 3) N with which each segment pulls its first node towards its second."""
        slope = elements.stretch_energy(self._edge_vectors(x), self.cloth.lengths(u), self._stretch_stiffness)[1]
        return np.asarray(slope[:, :3])

    def strain_rate_hessians(self, x: Array, u: Array, stretch: float | Array, bend: float | Array) -> YarnHessians:
        """Return the Hessians of ½ v C v by strain rates, [SRD] (12), without shear.

        stretch, bend: s, damping coefficients divided by the stiffness; of all yarns, or (s,) and (m,).
        """
        cloth = self.cloth
        D, ways = cloth.lengths(u), self._edge_vectors(x)
        rate = elements.stretch_rate(ways, D)
        along = (stretch * self._stretch_stiffness * D)[:, None, None] * rate[:, :, None] * rate[:, None, :]
        a, b, L = self._bend_vectors(ways, D)
        J = elements.bending_rate(a, b)
        bend_hessians = np.zeros((len(J), 7, 7))
        bend_hessians[:, :6, :6] = (2.0 * bend * self._bend_stiffness / L)[:, None, None] * (J.transpose(0, 2, 1) @ J)
        return YarnHessians(along, bend_hessians)

    def rayleigh_hessians(self, x: Array, u: Array, stretch: float | Array, bend: float | Array) -> YarnHessians:
        """Return the Hessians of ½ v C v with C = beta K, [SRD] (11).

        K is the tangent stiffness of stretch and bending, including the geometric stiffness. stretch, bend: beta in s,
        of all yarns, or (s,) and (m,).
        """
        cloth = self.cloth
        D, ways = cloth.lengths(u), self._edge_vectors(x)
        along = elements.stretch_hessian(ways, D, self._stretch_stiffness, True)
        bending = elements.bending_hessian(*self._bend_vectors(ways, D), self._bend_stiffness, cloth.angles)
        along, bending = (
            np.reshape(beta, (-1, 1, 1)) * stiffness for beta, stiffness in ((stretch, along), (bend, bending))
        )
        return YarnHessians(along, bending)

    # Hessian of the nodes for yarns that do not slide.

    def node_hessian(self, x: Array, u: Array, project: bool) -> csr_matrix:
        """Return the Hessian (3n, 3n) N/m. Unless projected, bending and shear use finite differences of gradients."""
        cloth = self.cloth
        D, ways = cloth.lengths(u), self._edge_vectors(x)
        along = elements.stretch_hessian(ways, D, self._stretch_stiffness, project)[:, :3, :3]
        along = STRETCH_MAP[:3, :6].T @ along @ STRETCH_MAP[:3, :6]
        if project:
            bend = elements.bending_hessian(*self._bend_vectors(ways, D), self._bend_stiffness, cloth.angles)[:, :6, :6]
            shear = elements.shear_hessian(*self._crossing_vectors(x), self._shear_stiffness)
        else:
            *corners, L = self._bend_vectors(ways, D)

            def bent(way: Array) -> Array:
                return elements.bending_energy(way[:, :3], way[:, 3:], L, self._bend_stiffness, cloth.angles)[1][:, :6]

            def sheared(way: Array) -> Array:
                return elements.shear_energy(way[:, :3], way[:, 3:], self._shear_stiffness, cloth.cosine)[1]

            step = _DIFFERENCE_STEP * cloth.pitch
            bend = _difference_hessian(bent, np.concatenate(corners, axis=1), step)
            shear = _difference_hessian(sheared, np.concatenate(self._crossing_vectors(x), axis=1), step)
        bend_map = BEND_MAP[:6, :9]
        bend, shear = bend_map.T @ bend @ bend_map, SHEAR_MAP.T @ shear @ SHEAR_MAP
        first, last = cloth.ends[cloth.bends[:, 0]], cloth.ends[cloth.bends[:, 1]]
        bent_nodes = np.column_stack([first, last[:, 1]])
        total = assemble_matrix(along, cloth.ends, cloth.count) + assemble_matrix(bend, bent_nodes, cloth.count)
        return (total + assemble_matrix(shear, cloth.crossing_neighbours, cloth.count)).tocsr()


def _difference_hessian(slopes: Callable[[Array], Array], at: Array, step: float) -> Array:
    """Return symmetric derivatives (m, k, k) of gradients (m, k) at points (m, k), by central differences."""
    columns = []
    for k in range(at.shape[1]):
        shift = np.zeros(at.shape[1])
        shift[k] = step
        columns.append((slopes(at + shift) - slopes(at - shift)) / (2.0 * step))
    found = np.stack(columns, axis=2)
    return np.asarray(0.5 * (found + found.transpose(0, 2, 1)))


def sum_gradients(parts: tuple[tuple[Index, Array], ...], count: int) -> Array:
    """Return the sums (count,) of gradients (m, k) at unknowns (m, k); the index count is ignored."""
    total = sum(np.bincount(where.ravel(), what.ravel(), minlength=count + 1) for where, what in parts)
    return np.asarray(total)[:count]


def crossing_normal_forces(cloth: WovenCloth, forces: Array, x: Array) -> Array:
    """Return the normal force (p,) N by which yarn tension presses the yarns of a crossing together; 0 if none slides.

    forces: (s, 3) N, see YarnElasticity.tensions.
    """
    found = np.zeros(len(cloth.node))
    w, f = cloth.crossings.T
    around = cloth.crossing_neighbours
    normal = np.cross(x[around[:, 1]] - x[around[:, 0]], x[around[:, 3]] - x[around[:, 2]])
    normal /= np.maximum(np.linalg.norm(normal, axis=1), 1e-300)[:, None]
    pulls = [forces[cloth.outgoing_segment[one]] - forces[cloth.incoming_segment[one]] for one in (w, f)]
    found[w] = found[f] = 0.5 * np.abs(((pulls[0] - pulls[1]) * normal).sum(axis=1))
    return found


def gravity_energy(cloth: WovenCloth, x: Array, u: Array, acceleration: Array) -> tuple[float, Array]:
    """Return the gravity energy in J and its gradient (d,): the sum of -rho D (g_a . x_a + g_b . x_b)/2 over segments.

    The derivative by D is included, so that yarn that slides through a crossing falls.

    acceleration: g (n, 3) m/s^2.
    """
    line, (a, b) = cloth.linear_densities, cloth.ends.T
    potential = (acceleration * x).sum(axis=1)
    mean, D = 0.5 * (potential[a] + potential[b]), cloth.lengths(u)
    half = (-0.5 * line * D)[:, None]
    slope = np.column_stack([half * acceleration[a], half * acceleration[b], line * mean, -line * mean])
    return -float((line * D) @ mean), sum_gradients(((cloth.stretch_unknowns, slope),), cloth.unknown_count)


@dataclass(frozen=True)
class SlidingFriction:
    """Coulomb friction of sliding as a Huber function of the distance from the anchor: a spring until it slips.

    anchor: (p,) m, sticking position.  limit: (p,) N, slipping force; 0 where nothing slides.
    stiffness: N/m of the spring, of all yarns or (p,).
    """

    anchor: Array
    limit: Array
    stiffness: float | Array

    def value_gradient(self, u: Array) -> tuple[float, Array]:
        """Return the energy in J and its gradient (p,) N."""
        slip = u - self.anchor
        distance = np.abs(slip)
        reach = self.limit / self.stiffness
        value = np.where(distance <= reach, 0.5 * self.stiffness * slip**2, self.limit * (distance - 0.5 * reach))
        return float(value.sum()), np.clip(self.stiffness * slip, -self.limit, self.limit)

    def curvature(self, u: Array) -> Array:
        """Return the second derivative (p,) N/m, 0 where it slips."""
        sticks = (np.abs(u - self.anchor) <= self.limit / self.stiffness) & (self.limit > 0.0)
        return np.where(sticks, self.stiffness, 0.0)

    def moved_anchor(self, u: Array) -> Array:
        """Return the anchors (p,) m after a move to positions u: slipping drags them along."""
        slip = u - self.anchor
        return np.asarray(self.anchor + np.sign(slip) * np.maximum(np.abs(slip) - self.limit / self.stiffness, 0.0))
