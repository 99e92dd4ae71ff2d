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
