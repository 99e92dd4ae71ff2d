"""Reference implementation of woven cloth, element by element, for a rectangle of yarns.

It is written from [SRD] section 5 and from Cirio et al. (2014). Nodes are (i, j); a warp j goes through (0, j),
(1, j) and on, a weft i through (i, 0), (i, 1) and on. Functions are analytic, so that derivatives follow by a complex
step (see elastic.slopes).
"""

from __future__ import annotations

from itertools import pairwise

import numpy as np

Place = tuple[int, int]


def length(a: np.ndarray) -> np.ndarray:
    return np.sqrt((a * a).sum())


def angle(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """Return the bending angle (20)."""
    cross, dot = np.cross(a, b), (a * b).sum()
    over = np.arctan(length(cross) / dot)
    return over + np.pi if dot.real < 0 else over


def angle_rate(a: np.ndarray, b: np.ndarray, da: np.ndarray, db: np.ndarray) -> float:
    """Return the rate of the bending angle, (21)."""
    theta, cross, dot = angle(a, b), np.cross(a, b), a @ b
    turn = cross / length(cross) @ (np.cross(a, db) - np.cross(b, da))
    return float(np.cos(theta) ** 2 / dot * ((-1.0) * (a @ db + b @ da) * np.tan(theta) + turn))


def bend_rate(a: np.ndarray, b: np.ndarray, da: np.ndarray, db: np.ndarray) -> np.ndarray:
    """Return the rate of k = a x b/(a . b), (24)."""
    dot = a @ b
    return (-(a @ db + b @ da) * np.cross(a, b) / dot + np.cross(a, db) - np.cross(b, da)) / dot


class Rectangle:
    """Rectangle of yarns.

    stretch, bend, shear, line, thick: E A, E I, J of a crossing's shear, kg/m, m; the same for every segment. In its
    methods, x is the position of each node, and warp and weft are the arc lengths of its yarns there.
    """

    def __init__(
        self,
        across: int,
        along: int,
        stretch: float,
        bend: float,
        shear: float,
        line: float,
        thick: float,
        pitch: float,
    ) -> None:
        self.warps = [[(i, j) for i in range(across + 2)] for j in range(1, along + 1)]
        self.wefts = [[(i, j) for j in range(along + 2)] for i in range(1, across + 1)]
        self.crossings = [(i, j) for i in range(1, across + 1) for j in range(1, along + 1)]
        self.stretch, self.bend, self.shear, self.line = stretch, bend, shear, line
        self.thick, self.least, self.pitch = thick, 0.15 * pitch, pitch

    def energy(self, x: dict[Place, np.ndarray], warp: dict[Place, float], weft: dict[Place, float]) -> np.ndarray:
        total = 0.0
        for yarns, u in ((self.warps, warp), (self.wefts, weft)):
            for yarn in yarns:
                for a, b in pairwise(yarn):
                    D = u[b] - u[a]
                    total = total + self.stretch / 2 * D * (length(x[b] - x[a]) / D - 1) ** 2
                    if D.real < self.thick:
                        # A jammed segment is a spring that stiffens like 1/(D - least).
                        free, left = self.thick - self.least, D - self.least
                        total = total + self.stretch / self.pitch / 2 * free * (free - left) ** 2 / left
                for a, b, c in zip(yarn[:-2], yarn[1:-1], yarn[2:], strict=True):
                    total = total + self.bend * angle(x[b] - x[a], x[c] - x[b]) ** 2 / (u[c] - u[a])
        for i, j in self.crossings:
            w, f = x[i + 1, j] - x[i - 1, j], x[i, j + 1] - x[i, j - 1]
            total = total + self.shear / 2 * ((w * f).sum() / length(w) / length(f)) ** 2
        return np.asarray(total)

    def weight(
        self, x: dict[Place, np.ndarray], warp: dict[Place, float], weft: dict[Place, float], gravity: np.ndarray
    ) -> np.ndarray:
        total = 0.0
        for yarns, u in ((self.warps, warp), (self.wefts, weft)):
            for yarn in yarns:
                for a, b in pairwise(yarn):
                    total = total - self.line * (u[b] - u[a]) * (gravity * (x[a] + x[b])).sum() / 2
        return np.asarray(total)

    def kinetic(
        self,
        x: dict[Place, np.ndarray],
        warp: dict[Place, float],
        weft: dict[Place, float],
        v: dict[Place, np.ndarray],
        dwarp: dict[Place, float],
        dweft: dict[Place, float],
    ) -> float:
        """Return the kinetic energy of the yarn material at the nodes, whose velocity is x' - w u'."""
        total = 0.0
        for yarns, u, du in ((self.warps, warp, dwarp), (self.wefts, weft, dweft)):
            for yarn in yarns:
                for k, node in enumerate(yarn):
                    sides = [(yarn[m], yarn[m + 1]) for m in (k - 1, k) if 0 <= m < len(yarn) - 1]
                    w = sum((x[b] - x[a]) / (u[b] - u[a]) for a, b in sides) / len(sides)
                    mass = self.line * sum(u[b] - u[a] for a, b in sides) / 2
                    total += mass / 2 * float(((v[node] - w * du[node]) ** 2).sum())
        return total


def huber(way: float, most: float, stiffness: float) -> float:
    """Return the energy of a spring that slips where its force reaches the limit of friction."""
    reach = most / stiffness
    return stiffness * way**2 / 2 if abs(way) <= reach else most * (abs(way) - reach / 2)
