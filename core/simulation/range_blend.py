"""Blends at the ends of a re-baked range: their weights, and their effects on edges and accelerations."""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from ..base.arrays import Array, Index
from ..frames.cache import RebakedRange
from ..scene.scene import Scene
from .blend_curve import MAX_ACCELERATION_RATIO, largest_shortening

# Shortest blend, in frames.
MIN_BLEND = 2
# A blend with an acceleration below this part of the object's size per squared frame does not pop. An object of 1 m
# falls with 1.7% at 24 frames/s.
_MIN_POP = 0.02


@dataclass(frozen=True)
class BlendEffect:
    """Effect of the blends of a re-baked range on one body.

    shortening: largest part by which they shorten the distance of neighbouring vertices.
    needed_blend: frames of the shortest blends that would not pop; 0 if these do not.
    """

    shortening: float = 0.0
    needed_blend: int = 0


class BlendMeter:
    """Measurement of the blends of a re-baked range.

    has_end: whether cached frames follow the range.
    """

    def __init__(self, scene: Scene, part: RebakedRange, *, has_end: bool) -> None:
        self._part, self._has_end = part, has_end
        self._pairs = {body.name: neighbour_pairs(body.surface.triangles, body.edges) for body in scene.bodies}
        self._sizes = {body.name: body.surface.size for body in scene.bodies}
        self._shortening = dict.fromkeys(self._pairs, 0.0)
        self._last: dict[str, deque[Array]] = {name: deque(maxlen=3) for name in self._pairs}
        # Largest accelerations (3,) of the kept, the new and the played motion in m per squared frame, by frame.
        self._accelerations: dict[str, dict[int, Array]] = {name: {} for name in self._pairs}

    def add(
        self, number: int, kept: Mapping[str, Array], new: Mapping[str, Array], played: Mapping[str, Array]
    ) -> None:
        """Add the shapes of the next frame; outside the range, all three are those of the cache."""
        for name, pairs in self._pairs.items():
            shapes = kept[name], new[name], played[name]
            if self._part.first <= number <= self._part.last:
                found = largest_shortening(pairs, shapes[2], *shapes[:2])
                self._shortening[name] = max(self._shortening[name], found)
            last = self._last[name]
            last.append(np.array(shapes))
            if len(last) == last.maxlen:
                change = np.linalg.norm(last[0] - 2.0 * last[1] + last[2], axis=2)
                self._accelerations[name][number - 1] = change.max(axis=1)

    def effects(self) -> dict[str, BlendEffect]:
        """Return the effect of the blends on each body, by name."""
        return {name: BlendEffect(part, self._needed_blend(name)) for name, part in self._shortening.items()}

    def _needed_blend(self, name: str) -> int:
        part, found, needed = self._part, self._accelerations[name], 0
        spans = [range(part.first - 1, part.first + part.blend)]
        if self._has_end:
            spans.append(range(part.last - part.blend + 1, part.last + 2))
        for span in spans:
            values = [(number, found[number]) for number in span if number in found]
            # Where the range ends, the new motion does not go on into the cached frames.
            new = [one[1] for number, one in values if number < part.last]
            natural = max([one[0] for _, one in values] + new, default=0.0)
            allowed = max(MAX_ACCELERATION_RATIO * natural, _MIN_POP * self._sizes[name])
            largest = max((one[2] for _, one in values), default=0.0)
            if largest > allowed:
                # A blend twice as long has a quarter of the acceleration.
                needed = max(needed, int(np.ceil(part.blend * np.sqrt(largest / allowed))))
        return needed


def blend_weights(part: RebakedRange, *, has_end: bool) -> Array:
    """Return the weight (f,) of the new shape at each frame of a range. has_end: whether cached frames follow it.

    It is 0 at the frames next to the range.
    """
    from_start = np.arange(1, part.last - part.first + 2)
    weights = _minimum_jerk(from_start / part.blend)
    return np.minimum(weights, _minimum_jerk(from_start[::-1] / part.blend)) if has_end else weights


def _minimum_jerk(t: Array) -> Array:
    """Return the minimum-jerk polynomial at t (n,), constant below 0 and above 1."""
    t = np.clip(t, 0.0, 1.0)
    return np.asarray(t**3 * (10.0 - 15.0 * t + 6.0 * t**2))


def neighbour_pairs(triangles: Index, edges: Index) -> Index:
    """Return the pairs of neighbouring vertices (p, 2) of a mesh. triangles: (t, 3).  edges: (e, 2)."""
    return np.concatenate([edges, *(triangles[:, [a, b]] for a, b in ((0, 1), (1, 2), (2, 0)))])
