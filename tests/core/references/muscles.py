"""Reference implementation of the controller of docs/explanation/muscles.md, and a mass on a damped spring.

It treats one muscle and one frame at a time.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass


@dataclass
class ReferenceController:
    """Controller of one muscle.

    weights: by sensor.  wished: number of frames for which it has asked for the other state.
    """

    weights: Sequence[float]
    threshold: float
    delay: int
    on: bool = False
    wished: int = 0

    def frame(self, sensors: Sequence[bool], forced: str = "AUTO") -> None:
        if forced != "AUTO":
            self.on, self.wished = forced == "ON", 0
            return
        total = 0.0
        for weight, sensor in zip(self.weights, sensors, strict=True):
            if sensor:
                total += weight
        if total > self.threshold:
            wants = True
        elif total < self.threshold:
            wants = False
        else:
            wants = self.on
        if wants == self.on:
            self.wished = 0
            return
        self.wished += 1
        if self.wished == self.delay + 1:
            self.on, self.wished = wants, 0


def damped_spring(
    m: float, k: float, c: float, rest: float, start: float, h: float, steps: int, pull: float = 0.0
) -> list[float]:
    """Return the lengths of a damped spring with a mass m in kg at its end, per step of backward Euler along a line.

    m (v' - v)/h = -k (x + h v' - rest) - c v' + pull is solved for v'.
    """
    x, v, found = start, 0.0, [start]
    for _ in range(steps):
        v = (m * v - h * k * (x - rest) + h * pull) / (m + h * c + h * h * k)
        x += h * v
        found.append(x)
    return found


def damped_chain(
    m: tuple[float, float], k: tuple[float, float], c: tuple[float, float], g: float, h: float, steps: int
) -> list[tuple[float, float]]:
    """Return the sinking of two masses in m that hang below each other on damped springs, per step of backward Euler.

    m: kg, the upper one first.  k, c: N/m and N s/m of the springs above them.  g: m/s^2.  The springs start unloaded.

    With s_i = h^2 k_i + h c_i, the velocities after a step solve, by Cramer's rule,
        (m_1 + s_1 + s_2) v_1' - s_2 v_2' = m_1 (v_1 + h g) - h k_1 x_1 + h k_2 (x_2 - x_1)
        -s_2 v_1' + (m_2 + s_2) v_2' = m_2 (v_2 + h g) - h k_2 (x_2 - x_1).
    """
    x1 = x2 = v1 = v2 = 0.0
    s1, s2 = (h * h * stiff + h * damp for stiff, damp in zip(k, c, strict=True))
    found = [(x1, x2)]
    for _ in range(steps):
        first = m[0] * (v1 + h * g) - h * k[0] * x1 + h * k[1] * (x2 - x1)
        second = m[1] * (v2 + h * g) - h * k[1] * (x2 - x1)
        a, b, d = m[0] + s1 + s2, -s2, m[1] + s2
        size = a * d - b * b
        v1, v2 = (first * d - b * second) / size, (a * second - b * first) / size
        x1, x2 = x1 + h * v1, x2 + h * v2
        found.append((x1, x2))
    return found
