"""Reference implementation of the integrators for springs with hard and soft pins, gravity and drag.

Equations are physics (1.8) to (1.13).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from references.elastic import dof, spring_force, spring_hessian


@dataclass(frozen=True)
class Scene:
    """Springs with pins.

    W: (e,) J, the springs' energy in (6.8).  viscosity: (e,) J s, of the rate of l/L.  soft: N/m by node.
    hard: (p,) nodes that move along straight lines.  factor: multiplies all elastic forces.  damped: map of a velocity
    damping, from positions, the velocities before the step and the predicted ones to the damped velocities.
    """

    mass: np.ndarray
    edges: np.ndarray
    lengths: np.ndarray
    W: np.ndarray
    viscosity: np.ndarray
    soft: dict[int, float]
    hard: np.ndarray
    gravity: np.ndarray
    factor: float
    damped: Callable[[np.ndarray, np.ndarray, np.ndarray], np.ndarray]

    def force(self, x: np.ndarray, targets: np.ndarray) -> np.ndarray:
        """Return the forces (n, 3) N without drag. targets: (n, 3), positions of pins."""
        total = self.factor * spring_force(x, self.edges, self.lengths, self.W)
        for node, k in self.soft.items():
            total[node] -= self.factor * k * (x[node] - targets[node])
        return total + self.mass[:, None] * self.gravity

    def stiffness(self, x: np.ndarray, project: bool) -> np.ndarray:
        K = spring_hessian(x, self.edges, self.lengths, self.W, project)
        for node, k in self.soft.items():
            K[dof([node]), dof([node])] += k
        return self.factor * K

    def drag(self, x: np.ndarray) -> np.ndarray:
        """Return the damping matrix C (3n, 3n)."""
        C = np.zeros((x.size, x.size))
        for (i, j), L, w in zip(self.edges, self.lengths, self.viscosity, strict=True):
            way = (x[i] - x[j]) / np.linalg.norm(x[i] - x[j]) / L
            row = np.concatenate([way, -way])
            C[np.ix_(dof((i, j)), dof((i, j)))] += w * np.outer(row, row)
        return C


@dataclass(frozen=True)
class Start:
    """State at the start of a step.

    x, v: (n, 3).  begin, end: (n, 3) m, positions of pins at both ends of the step; rows of other nodes are ignored.
    """

    x: np.ndarray
    v: np.ndarray
    begin: np.ndarray
    end: np.ndarray
    h: float


def with_hard_pins(scene: Scene, start: Start, x: np.ndarray, v: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return positions and velocities with hard pins at their targets."""
    x, v = x.copy(), v.copy()
    x[scene.hard] = start.end[scene.hard]
    v[scene.hard] = (start.end - start.begin)[scene.hard] / start.h
    return x, v


def solve_euler(
    scene: Scene, x: np.ndarray, before: np.ndarray, guess: np.ndarray, pins: tuple[np.ndarray, np.ndarray], h: float,
    most: int = 200, damped_at: np.ndarray | None = None,
) -> np.ndarray:  # fmt: skip
    """Solve M (v+ - v)/h = f(x + h v+) - C v+ for the free nodes by Newton's method and return v+.

    pins: start of the hard pins and end of all pins.  most: iterations; a single one uses the projected Hessian.
    damped_at: positions of C, x if None.
    """
    begin, end = pins
    free = dof(sorted(set(range(len(x))) - set(map(int, scene.hard))))
    v, C = guess.copy(), scene.drag(x if damped_at is None else damped_at)
    v[scene.hard] = (end - begin)[scene.hard] / h
    for _ in range(most):
        ahead = x + h * v
        ahead[scene.hard] = end[scene.hard]
        residual = scene.mass[:, None] * (v - before) / h - scene.force(ahead, end) + (C @ v.ravel()).reshape(-1, 3)
        H = np.diag(scene.mass.repeat(3)) / h + C + h * scene.stiffness(ahead, most == 1)
        change = np.zeros(x.size)
        change[free] = np.linalg.solve(H[np.ix_(free, free)], residual.ravel()[free])
        v = v - change.reshape(-1, 3)
        if np.abs(change).max() < 1e-14:
            break
    return v


def backward_euler(scene: Scene, start: Start, most: int = 200) -> tuple[np.ndarray, np.ndarray]:
    before = scene.damped(start.x, start.v, start.v)
    v = solve_euler(scene, start.x, before, start.v, (start.begin, start.end), start.h, most)
    return with_hard_pins(scene, start, start.x + start.h * v, v)


def midpoint(scene: Scene, start: Start) -> tuple[np.ndarray, np.ndarray]:
    before = scene.damped(start.x, start.v, start.v)
    middle = 0.5 * (start.begin + start.end)
    there = start.x + 0.5 * start.h * before
    there[scene.hard] = middle[scene.hard]
    v = solve_euler(scene, start.x, before, start.v, (start.begin, middle), 0.5 * start.h, damped_at=there)
    return with_hard_pins(scene, start, start.x + start.h * v, 2 * v - before)


def newmark(scene: Scene, start: Start) -> tuple[np.ndarray, np.ndarray]:
    """Make a step of (1.11), as half a step of free flight followed by half a step of backward Euler."""
    h, before = start.h, scene.damped(start.x, start.v, start.v)
    force = scene.force(start.x, start.begin) - (scene.drag(start.x) @ before.ravel()).reshape(-1, 3)
    middle = start.x + 0.5 * h * before
    half = 0.5 * (start.begin + start.end)
    middle[scene.hard] = half[scene.hard]
    speed = before + 0.5 * h * force / scene.mass[:, None]
    # C belongs to the end, which is known only afterwards: repeat the step until its end no longer moves by over 1%.
    v, repeats = before, 0
    there, _ = with_hard_pins(scene, start, start.x + h * before, before)
    while True:
        v = solve_euler(scene, middle, speed, start.v, (half, start.end), 0.5 * h, damped_at=there)
        after = with_hard_pins(scene, start, start.x + 0.5 * h * (before + v), v)
        moved = np.linalg.norm(after[0] - there, axis=1).max()
        there, repeats = after[0], repeats + 1
        if repeats == 6 or (repeats > 1 and moved <= 0.01 * np.linalg.norm(there - start.x, axis=1).max()):
            return after


def predicted_velocities(scene: Scene, start: Start) -> np.ndarray:
    """Return the velocities of the explicit methods."""
    force = scene.force(start.x, start.begin) - (scene.drag(start.x) @ start.v.ravel()).reshape(-1, 3)
    predicted = start.v + start.h * force / scene.mass[:, None]
    # The forces that hold the pins are part of the predicted velocities.
    return scene.damped(start.x, start.v, with_hard_pins(scene, start, start.x, predicted)[1])


def symplectic(scene: Scene, start: Start) -> tuple[np.ndarray, np.ndarray]:
    v = predicted_velocities(scene, start)
    return with_hard_pins(scene, start, start.x + start.h * v, v)


def forward(scene: Scene, start: Start) -> tuple[np.ndarray, np.ndarray]:
    return with_hard_pins(scene, start, start.x + start.h * start.v, predicted_velocities(scene, start))


INTEGRATORS: dict[str, Callable[[Scene, Start], tuple[np.ndarray, np.ndarray]]] = {
    "BACKWARD_EULER": backward_euler,
    "LINEAR_BACKWARD_EULER": lambda scene, start: backward_euler(scene, start, most=1),
    "NEWMARK": newmark,
    "IMPLICIT_MIDPOINT": midpoint,
    "SYMPLECTIC_EULER": symplectic,
    "FORWARD_EULER": forward,
}
