"""Reference implementation of contacts, one contact and one node at a time: physics (7.1) to (7.9) and (7.11)."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np


@dataclass(frozen=True)
class Contact:
    """Contact between weighted nodes.

    weights: of nodes, W.  b: (3,) m.  n: (3,) unit.  r, e: m.  k: N/m.  mu: friction.  f: lagged normal force in N.
    held: (3,) m, d⁻ − u⁻, the displacement at which friction exerts no force.
    """

    weights: dict[int, float]
    b: np.ndarray
    n: np.ndarray
    r: float
    e: float
    k: float
    mu: float
    f: float
    anchor_offset: np.ndarray

    def offset(self, x: np.ndarray) -> np.ndarray:
        """Return d of (7.1) for nodes (n, 3)."""
        d = self.b.copy()
        for node, w in self.weights.items():
            d += w * x[node]
        return d

    def slip(self, x: np.ndarray) -> np.ndarray:
        """Return the tangential slip (3,) m."""
        u = self.offset(x) - self.anchor_offset
        return u - self.n * float(self.n @ u)

    def force(self, x: np.ndarray) -> float:
        """Return the normal force N, the negative derivative of (7.2)."""
        g = float(self.n @ self.offset(x)) - self.e
        force = -self.k * g if g < 0.0 else 0.0
        deeper = g + 0.5 * self.r
        return force - 20.0 * self.k * deeper if deeper < 0.0 else force

    def energy(self, x: np.ndarray) -> float:
        """Return the energy of (7.2) and (7.5) in J."""
        g = float(self.n @ self.offset(x)) - self.e
        total = 0.5 * self.k * g**2 if g < 0.0 else 0.0
        deeper = g + 0.5 * self.r
        total += 20.0 * 0.5 * self.k * deeper**2 if deeper < 0.0 else 0.0
        u, most = float(np.linalg.norm(self.slip(x))), self.mu * self.f
        if u <= most / self.k:
            return total + 0.5 * self.k * u**2
        return total + most * (u - 0.5 * most / self.k)

    def derivative(self, x: np.ndarray) -> np.ndarray:
        """Return the derivative (3,) N of the energy by d."""
        u, most = self.slip(x), self.mu * self.f
        length = float(np.linalg.norm(u))
        across = self.k * u if length <= most / self.k else most * u / length
        return across - self.force(x) * self.n

    def block(self, x: np.ndarray) -> np.ndarray:
        """Return the second derivative (3, 3) N/m of the energy by d, with the lagged friction of section 7."""
        g = float(self.n @ self.offset(x)) - self.e
        along = (self.k if g < 0.0 else 0.0) + (20.0 * self.k if g + 0.5 * self.r < 0.0 else 0.0)
        found = along * np.outer(self.n, self.n)
        most, u = self.mu * self.f, self.slip(x)
        length, across = float(np.linalg.norm(u)), np.eye(3) - np.outer(self.n, self.n)
        if most == 0.0:
            return found
        if length <= most / self.k:
            return found + self.k * across
        return found + most / length * (across - np.outer(u, u) / length**2)

    def remaining_slip(self, x: np.ndarray) -> np.ndarray:
        """Return the slip of (7.6) that remains, with the normal force at the end of the step."""
        u = self.slip(x)
        limit = self.mu * self.force(x) / self.k
        return u if np.linalg.norm(u) <= limit else u * limit / np.linalg.norm(u)


def energy(contacts: list[Contact], x: np.ndarray) -> float:
    return sum(one.energy(x) for one in contacts)


def gradient(contacts: list[Contact], x: np.ndarray) -> np.ndarray:
    """Return the gradient (n, 3) N of the energy."""
    total = np.zeros_like(x)
    for one in contacts:
        for node, w in one.weights.items():
            total[node] += w * one.derivative(x)
    return total


def hessian(contacts: list[Contact], x: np.ndarray) -> np.ndarray:
    """Return the dense Hessian (3n, 3n) N/m of the energy."""
    total = np.zeros((x.size, x.size))
    for one in contacts:
        block = one.block(x)
        for i, p in one.weights.items():
            for j, q in one.weights.items():
                total[3 * i : 3 * i + 3, 3 * j : 3 * j + 3] += p * q * block
    return total


def stiffness(young: list[float], area: float, r: float, halves: bool) -> float:
    """Return k of (7.3). young: of the bodies in contact.  halves: whether each body detects contacts of the other."""
    k = min(young) * area / r
    return 0.5 * k if halves else k


def eased_distance(r: float, before: float, h: float, size: float) -> float:
    """Return the eased contact distance of (7.4). before: n·d⁻."""
    return min(r, before + max(0.25 * r, 0.5 * h * size))


def directional_friction(
    painted: float, forwards: float, backwards: float, front: np.ndarray, way: np.ndarray
) -> float:
    """Return the friction coefficient of (7.7). front, way: (3,), of any length."""
    c = float(front @ way) / float(np.linalg.norm(front) * np.linalg.norm(way))
    return painted * (0.5 * forwards * (1.0 + c) + 0.5 * backwards * (1.0 - c))


def drag(rate: float, decay: float, frequency: float, overshoot: float) -> float:
    """Return the damping rate of (7.11) in 1/s. rate: λ_k, 1/s²."""
    if overshoot > 0.0:
        log = -np.log(overshoot)
        damping = log / np.sqrt(np.pi**2 + log**2)
        square, first = decay**2 + frequency**2, 2.0 * decay / (decay**2 + frequency**2)
    else:
        damping, square, first = 1.0, 2.0 * decay**2, 3.0 / (2.0 * decay)
    least = 0.59 * decay if overshoot <= 0.0 and rate > 8.7 * decay**2 else 0.0
    return max(least, rate * (2.0 * damping * np.sqrt(1.0 / rate + 1.0 / square) - first))
