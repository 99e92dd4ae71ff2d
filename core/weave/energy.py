"""Elastic energy of a woven cloth with its gradient and Hessian, and the forces and friction at crossings."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from scipy.sparse import csr_matrix

from ..arrays import Array, Index
from ..elements.assembly import assembled
from . import elements
from .elements import ALONG, BEND, SHEAR
from .woven import Woven

# Step of finite differences for second derivatives, relative to the pitch.
_STEP = 1e-6


@dataclass(frozen=True)
class Blocks:
    """Hessians of all elements: stretch (s, 8, 8), bending (m, 11, 11) and shear (c, 12, 12)."""

    along: Array
    bend: Array
    shear: Array


class Elastic:
    """Stretch, bending, shear and jamming energy of a woven cloth, with a factor on the stiffness of its material."""

    def __init__(self, cloth: Woven, factor: float = 1.0) -> None:
        self.cloth, self._factor = cloth, factor
        self._along, self._bend = cloth.along_unknowns, cloth.bend_unknowns
        self._shear = cloth.shear_unknowns
        self._stretch = np.full(len(cloth.segments), factor * cloth.material.stretch)
        self._jam = self._stretch / cloth.pitch
        self._bending = np.full(len(cloth.bends), factor * cloth.material.bend)
        self._shearing = factor * cloth.shear_stiffness

    def _ways(self, x: Array) -> Array:
        a, b = self.cloth.ends.T
        return np.asarray(x[b] - x[a])

    def _corners(self, ways: Array, D: Array) -> tuple[Array, Array, Array]:
        first, last = self.cloth.bends.T
        return ways[first], ways[last], D[first] + D[last]

    def _sides(self, x: Array) -> tuple[Array, Array]:
        around = self.cloth.around
        return x[around[:, 1]] - x[around[:, 0]], x[around[:, 3]] - x[around[:, 2]]

    def value_gradient(self, x: Array, u: Array) -> tuple[float, Array]:
        """Return the energy in J and its gradient (d,). x: (n, 3) m.  u: (p,) m.

        The energy is infinite if two crossings are closer than their minimum distance.
        """
        cloth = self.cloth
        D, ways = cloth.lengths(u), self._ways(x)
        if (cloth.least >= D).any():
            return np.inf, np.zeros(cloth.unknowns)
        energy, slope = elements.stretch(ways, D, self._stretch)
        jammed, pushed, _ = elements.jam(D, cloth.jam, cloth.least, self._jam)
        slope[:, 3] += pushed
        total = float(energy.sum()) + float(jammed.sum())
        bent, by_bend = elements.bending(*self._corners(ways, D), self._bending, cloth.angles)
        sheared, by_shear = elements.shear(*self._sides(x), self._shearing, cloth.cosine)
        parts = ((self._along, slope @ ALONG), (self._bend, by_bend @ BEND), (self._shear, by_shear @ SHEAR))
        return total + float(bent.sum()) + float(sheared.sum()), added(parts, cloth.unknowns)

    def blocks(self, x: Array, u: Array) -> Blocks:
        """Return positive semidefinite element Hessians."""
        cloth = self.cloth
        D, ways = cloth.lengths(u), self._ways(x)
        along = elements.stretch_hessian(ways, D, self._stretch, True)
        along[:, 3, 3] += elements.jam(D, cloth.jam, cloth.least, self._jam)[2]
        bend = elements.bending_hessian(*self._corners(ways, D), self._bending, cloth.angles)
        shear = elements.shear_hessian(*self._sides(x), self._shearing)
        return Blocks(ALONG.T @ along @ ALONG, BEND.T @ bend @ BEND, SHEAR.T @ shear @ SHEAR)

    def forces(self, x: Array, u: Array) -> Array:
        """Return the force (s, 3) N with which each segment pulls its first node towards its second."""
        slope = elements.stretch(self._ways(x), self.cloth.lengths(u), self._stretch)[1]
        return np.asarray(slope[:, :3])

    def rate_blocks(self, x: Array, u: Array, stretch: float, bend: float) -> Blocks:
        """Return the Hessians of ½ v C v by strain rates, [SRD] (12), without shear.

        stretch, bend: s, damping coefficients divided by the stiffness.
        """
        cloth = self.cloth
        D, ways = cloth.lengths(u), self._ways(x)
        rate = elements.stretch_rate(ways, D)
        along = (stretch * self._stretch * D)[:, None, None] * rate[:, :, None] * rate[:, None, :]
        a, b, L = self._corners(ways, D)
        J = elements.bending_rate(a, b)
        own = np.zeros((len(J), 7, 7))
        own[:, :6, :6] = (2.0 * bend * self._bending / L)[:, None, None] * (J.transpose(0, 2, 1) @ J)
        none = np.zeros((len(cloth.crossings), 12, 12))
        return Blocks(ALONG.T @ along @ ALONG, BEND.T @ own @ BEND, none)

    def rayleigh_blocks(self, x: Array, u: Array, stretch: float, bend: float) -> Blocks:
        """Return the Hessians of ½ v C v with C = beta K, [SRD] (11).

        K is the tangent stiffness of stretch and bending, including the geometric stiffness. stretch, bend: beta in s.
        """
        cloth = self.cloth
        D, ways = cloth.lengths(u), self._ways(x)
        along = stretch * elements.stretch_hessian(ways, D, self._stretch, True)
        bending = bend * elements.bending_hessian(*self._corners(ways, D), self._bending, cloth.angles)
        none = np.zeros((len(cloth.crossings), 12, 12))
        return Blocks(ALONG.T @ along @ ALONG, BEND.T @ bending @ BEND, none)

    # Hessian of the nodes for yarns that do not slide.

    def hessian_of_nodes(self, x: Array, u: Array, project: bool) -> csr_matrix:
        """Return the Hessian (3n, 3n) N/m. Unless projected, bending and shear use finite differences of gradients."""
        cloth = self.cloth
        D, ways = cloth.lengths(u), self._ways(x)
        along = elements.stretch_hessian(ways, D, self._stretch, project)[:, :3, :3]
        along = ALONG[:3, :6].T @ along @ ALONG[:3, :6]
        if project:
            made = self.blocks(x, u)
            bend, shear = made.bend[:, :9, :9], made.shear
        else:
            corners, L = self._corners(ways, D)[:2], self._corners(ways, D)[2]

            def bent(way: Array) -> Array:
                return elements.bending(way[:, :3], way[:, 3:], L, self._bending, cloth.angles)[1][:, :6]

            def sheared(way: Array) -> Array:
                return elements.shear(way[:, :3], way[:, 3:], self._shearing, cloth.cosine)[1]

            step = _STEP * cloth.pitch
            own = BEND[:6, :9]
            bend = own.T @ _differences(bent, np.concatenate(corners, axis=1), step) @ own
            shear = SHEAR.T @ _differences(sheared, np.concatenate(self._sides(x), axis=1), step) @ SHEAR
        first, last = cloth.ends[cloth.bends[:, 0]], cloth.ends[cloth.bends[:, 1]]
        bent_nodes = np.column_stack([first, last[:, 1]])
        total = assembled(along, cloth.ends, cloth.count) + assembled(bend, bent_nodes, cloth.count)
        return (total + assembled(shear, cloth.around, cloth.count)).tocsr()


def _differences(slopes: Callable[[Array], Array], at: Array, step: float) -> Array:
    """Return symmetric derivatives (m, k, k) of gradients (m, k) at points (m, k), by central differences."""
    columns = []
    for k in range(at.shape[1]):
        way = np.zeros(at.shape[1])
        way[k] = step
        columns.append((slopes(at + way) - slopes(at - way)) / (2.0 * step))
    found = np.stack(columns, axis=2)
    return np.asarray(0.5 * (found + found.transpose(0, 2, 1)))


def added(parts: tuple[tuple[Index, Array], ...], count: int) -> Array:
    """Return the sums (count,) of gradients (m, k) at unknowns (m, k); the index count is ignored."""
    total = sum(np.bincount(where.ravel(), what.ravel(), minlength=count + 1) for where, what in parts)
    return np.asarray(total)[:count]


def pressed(cloth: Woven, forces: Array, x: Array) -> Array:
    """Return the normal force (p,) N by which yarn tension presses the yarns of a crossing together; 0 if none slides.

    forces: (s, 3) N, see YarnElasticity.tensions.
    """
    found = np.zeros(len(cloth.node))
    w, f = cloth.crossings.T
    around = cloth.around
    normal = np.cross(x[around[:, 1]] - x[around[:, 0]], x[around[:, 3]] - x[around[:, 2]])
    normal /= np.maximum(np.linalg.norm(normal, axis=1), 1e-300)[:, None]
    pulls = [forces[cloth.behind[one]] - forces[cloth.before[one]] for one in (w, f)]
    found[w] = found[f] = 0.5 * np.abs(((pulls[0] - pulls[1]) * normal).sum(axis=1))
    return found


def weighed(cloth: Woven, x: Array, u: Array, pull: Array) -> tuple[float, Array]:
    """Return the gravity energy in J and its gradient (d,): the sum of -rho D (g_a . x_a + g_b . x_b)/2 over segments.

    The derivative by D is included, so that yarn that slides through a crossing falls.

    acceleration: g (n, 3) m/s^2.
    """
    line, (a, b) = cloth.material.line, cloth.ends.T
    high = (pull * x).sum(axis=1)
    mean, D = 0.5 * (high[a] + high[b]), cloth.lengths(u)
    half = -0.5 * line * D[:, None]
    slope = np.column_stack([half * pull[a], half * pull[b], line * mean, -line * mean])
    return -line * float(D @ mean), added(((cloth.along_unknowns, slope),), cloth.unknowns)


@dataclass(frozen=True)
class Friction:
    """Coulomb friction of sliding as a Huber function of the distance from the anchor: a spring until it slips.

    anchor: (p,) m, sticking position.  limit: (p,) N, slipping force; 0 where nothing slides.
    stiffness: N/m of the spring.
    """

    anchor: Array
    most: Array
    stiffness: float

    def value_gradient(self, u: Array) -> tuple[float, Array]:
        """Return the energy in J and its gradient (p,) N."""
        way = u - self.anchor
        far = np.abs(way)
        reach = self.most / self.stiffness
        value = np.where(far <= reach, 0.5 * self.stiffness * way**2, self.most * (far - 0.5 * reach))
        return float(value.sum()), np.clip(self.stiffness * way, -self.most, self.most)

    def curvature(self, u: Array) -> Array:
        """Return the second derivative (p,) N/m, 0 where it slips."""
        sticks = (np.abs(u - self.anchor) <= self.most / self.stiffness) & (self.most > 0.0)
        return np.where(sticks, self.stiffness, 0.0)

    def after(self, u: Array) -> Array:
        """Return the anchors (p,) m after a move to positions u: slipping drags them along."""
        way = u - self.anchor
        return np.asarray(self.anchor + np.sign(way) * np.maximum(np.abs(way) - self.most / self.stiffness, 0.0))
