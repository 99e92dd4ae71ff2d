"""Contact history that is kept from step to step: closed contacts, impacts and supports."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from ..base.arrays import Array, Index, Mask

# Kinds of contacts.
POINT, EDGE = 0, 1
# Kinds of the additional contacts of a point in a fold or corner.
CORNER_KINDS = (2, 3)
# Kind of the contacts of a point with a neighbour at rest; its feature is point * number of triangles + triangle.
NEIGHBOUR = 4


def _integer_keys(*keys: Index) -> list[Index]:
    """Return an integer for each key (k, 4), per array of keys; equal keys have equal integers."""
    stacked = np.concatenate(keys)
    sizes = [int(size) + 1 for size in stacked.max(axis=0)]
    if np.prod([float(size) for size in sizes]) < 2.0**62:
        numbers = stacked[:, 0]
        for column, size in zip(stacked.T[1:], sizes[1:], strict=True):
            numbers = numbers * size + column
    else:
        numbers = np.unique(stacked, axis=0, return_inverse=True)[1].reshape(-1)
    return np.split(numbers, np.cumsum([len(one) for one in keys])[:-1])


def key_indices(known: Index, keys: Index) -> Index:
    """Return the index (k,) of each key (k, 4) among known ones (m, 4); -1 if it is missing."""
    if not len(known) or not len(keys):
        return np.full(len(keys), -1)
    own, wanted = _integer_keys(known, keys)
    order = np.argsort(own, kind="stable")
    indices = order[np.minimum(np.searchsorted(own, wanted, sorter=order), len(own) - 1)]
    return np.where(own[indices] == wanted, indices, -1)


def point_keys(side_keys: Index) -> Index:
    """Return keys (k, 4) with the kinds in CORNER_KINDS replaced by POINT."""
    point_keys = side_keys.copy()
    point_keys[np.isin(point_keys[:, 1], CORNER_KINDS), 1] = POINT
    return point_keys


@dataclass(frozen=True)
class ContactHistory:
    """History of the contacts that were closed at the end of a step.

    keys: (k, 4), see ContactSet, sorted.
    slips: (k, 3) m, slip that friction retains, see ContactPotential.retained_slip().
    forces: (k,) N, normal forces.
    depths: (k,) m, depth of a point behind the touched surface; negative in front of it.
    sides: the history before merged_by_point(), with a contact for each side of a point; None if nothing was merged.
    """

    keys: Index = field(default_factory=lambda: np.zeros((0, 4), dtype=np.int64))
    slips: Array = field(default_factory=lambda: np.zeros((0, 3)))
    forces: Array = field(default_factory=lambda: np.zeros(0))
    depths: Array = field(default_factory=lambda: np.zeros(0))
    sides: ContactHistory | None = None

    @staticmethod
    def of(keys: Index, slips: Array, forces: Array, depths: Array) -> ContactHistory:
        """Return the history of a step's contacts; only closed ones are kept."""
        closed = np.flatnonzero(forces > 0.0)
        order = closed[np.lexsort(keys[closed].T[::-1])]
        return ContactHistory(keys[order], slips[order], forces[order], depths[order])

    def indices_of(self, keys: Index) -> Index:
        """Return the index (k,) of each key (k, 4) in this history; -1 if it is missing."""
        return key_indices(self.keys, keys)

    def slips_of(self, keys: Index) -> Array:
        """Return the slips (k, 3) m of contacts with keys (k, 4); 0 for new contacts.

        keys: of all current contacts. While a point has the same number of sides, each side keeps its slip. Otherwise
            the nearest side gets the sum.
        """
        return self._values_of(keys, "slips")

    def forces_of(self, keys: Index) -> Array:
        """Return the normal forces (k,) N at the end of the last step; 0 for new contacts. keys: see slips_of()."""
        return self._values_of(keys, "forces")

    def _values_of(self, keys: Index, name: str) -> Array:
        """Return slips or forces, by name, of contacts with keys (k, 4); see slips_of()."""
        indices, known = self.indices_of(keys), getattr(self, name)
        values = np.zeros((len(keys), *known.shape[1:]))
        values[indices >= 0] = known[indices[indices >= 0]]
        if self.sides is not None:
            unchanged = self._has_same_side_count(keys)
            values[unchanged] = self.sides._values_of(keys[unchanged], name)
        return values

    def _has_same_side_count(self, keys: Index) -> Mask:
        """Return whether each contact's point has as many sides as in the last step, (k,)."""
        assert self.sides is not None
        points = np.concatenate([point_keys(one) for one in (self.sides.keys, keys)])
        _, point = np.unique(points, axis=0, return_inverse=True)
        had, now = np.split(point.reshape(-1), [len(self.sides.keys)])
        size = int(point.max(initial=0)) + 1
        return np.asarray((np.bincount(had, minlength=size) == np.bincount(now, minlength=size))[now])

    def depths_of(self, keys: Index) -> Array:
        """Return the depths (k,) m at the end of the last step; 0 for new contacts and points in front."""
        indices = self.indices_of(keys)
        return np.where(indices >= 0, np.maximum(self.depths[indices], 0.0) if len(self.depths) else 0.0, 0.0)

    def merged_by_point(self) -> ContactHistory:
        """Return the history for detection: all sides of a point merged, with slips and forces summed."""
        if not len(self.keys) or self.keys[:, 1].max() < CORNER_KINDS[0]:
            return self
        keys, first, point = np.unique(point_keys(self.keys), axis=0, return_index=True, return_inverse=True)
        slips, forces = np.zeros((len(keys), 3)), np.zeros(len(keys))
        np.add.at(slips, point.reshape(-1), self.slips)
        np.add.at(forces, point.reshape(-1), self.forces)
        return ContactHistory(keys, slips, forces, self.depths[first], self)

    def points_behind(self, surface: int, other: int) -> Index:
        """Return the points of a surface that ended the last step behind another surface."""
        return np.asarray(np.unique(self._features_behind(surface, POINT, other)))

    def depths_behind(self, surface: int, other: int, points: Index) -> Array:
        """Return how far the given points (k,) of a surface ended the last step behind another one, m."""
        # The keys are sorted, so those of the same surfaces have ascending features.
        is_match = self._is_between(surface, POINT, other)
        known, depths = self.keys[is_match, 2], np.maximum(self.depths[is_match], 0.0)
        if not len(known):
            return np.zeros(len(points))
        places = np.minimum(np.searchsorted(known, points), len(known) - 1)
        return np.where(known[places] == points, depths[places], 0.0)

    def edges_behind(self, surface: int, other: int) -> Index:
        """Return the features of edge pairs of surfaces that ended the last step on the wrong side of each other."""
        return self._features_behind(surface, EDGE, other)

    def neighbours_behind(self, surface: int) -> Index:
        """Return the features of points and neighbours of a surface that ended the last step behind each other."""
        return self._features_behind(surface, NEIGHBOUR, surface)

    def _features_behind(self, surface: int, kind: int, other: int) -> Index:
        return np.asarray(self.keys[self._is_between(surface, kind, other) & (self.depths > 0.0), 2])

    def _is_between(self, surface: int, kind: int, other: int) -> Mask:
        """Return which contacts (k,) of a kind are those of a surface and another one."""
        keys = self.keys
        return np.asarray((keys[:, 0] == surface) & (keys[:, 1] == kind) & (keys[:, 3] == other))


@dataclass(frozen=True)
class Impact:
    """Contact history of a region and the region or surface that it touches.

    contact_steps: number of steps in contact.
    approach_speed: m/s, of the approach; 0 if it was slow or the impact is over.
    rebound_speed: m/s, upper limit of the separation speed; negative until the motion has reversed.
    normal: (3,).  support_velocity: (3,) m/s, see ContactResultant.
    """

    region: int
    other: int
    contact_steps: int
    approach_speed: float = 0.0
    rebound_speed: float = -1.0
    normal: Array = field(default_factory=lambda: np.zeros(3))
    support_velocity: Array = field(default_factory=lambda: np.zeros(3))


@dataclass(frozen=True)
class SupportModes:
    """Rigid modes of a region on its contacts.

    pressed_count: number of nodes under contact forces.  sticking_count: number of contacts that do not slide.
    compliance: (6,) s^2, 1/l_k.
    shapes: (6, 6), one column per mode, in translations and rotations about the centre of mass; M-orthonormal.
    contact_stiffness: (6, 6) N/m, N and N m, of the contacts against translations and rotations about that centre.
    """

    pressed_count: int
    sticking_count: int
    compliance: Array
    shapes: Array
    contact_stiffness: Array = field(default_factory=lambda: np.zeros((6, 6)))
