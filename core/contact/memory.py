"""Contact history that is kept from step to step."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from ..arrays import Array, Index, Mask

# Kinds of contacts.
POINT, EDGE = 0, 1
# Additional contacts of a point in a hollow.
CORNERS = (2, 3)


def _none(*shape: int) -> Array:
    return np.zeros(shape)


def _numbered(*keys: Index) -> list[Index]:
    """Return one integer per key (k, 4) for each array of keys; equal keys get equal integers."""
    both = np.concatenate(keys)
    sizes = [int(size) + 1 for size in both.max(axis=0)]
    if np.prod([float(size) for size in sizes]) < 2.0**62:
        total = both[:, 0]
        for column, size in zip(both.T[1:], sizes[1:], strict=True):
            total = total * size + column
    else:
        total = np.unique(both, axis=0, return_inverse=True)[1].reshape(-1)
    return np.split(total, np.cumsum([len(one) for one in keys])[:-1])


def _points(keys: Index) -> Index:
    """Return keys (k, 4) with the kinds in CORNER_KINDS replaced by POINT."""
    found = keys.copy()
    found[np.isin(found[:, 1], CORNERS), 1] = POINT
    return found


@dataclass(frozen=True)
class ContactMemory:
    """History of the contacts that were closed at the end of a step.

    keys: (k, 4), see ContactSet, sorted.
    slips: (k, 3) m, slip held by friction.
    forces: (k,) N, normal forces.
    depths: (k,) m, depth of a point behind the touched surface; negative in front of it.
    sides: the history with separate contacts per side, if merged_by_point() merged them.
    """

    keys: Index = field(default_factory=lambda: np.zeros((0, 4), dtype=np.int64))
    slips: Array = field(default_factory=lambda: _none(0, 3))
    forces: Array = field(default_factory=lambda: _none(0))
    depths: Array = field(default_factory=lambda: _none(0))
    sides: ContactMemory | None = None

    @staticmethod
    def of(keys: Index, slips: Array, forces: Array, depths: Array) -> ContactMemory:
        """Return the history of a step's contacts; only closed ones are kept."""
        there = np.flatnonzero(forces > 0.0)
        order = there[np.lexsort(keys[there].T[::-1])]
        return ContactMemory(keys[order], slips[order], forces[order], depths[order])

    def places(self, keys: Index) -> Index:
        """Return the index (k,) of each key (k, 4) in this history; -1 if it is missing."""
        if not len(self.keys) or not len(keys):
            return np.full(len(keys), -1)
        own, asked = _numbered(self.keys, keys)
        order = np.argsort(own, kind="stable")
        spot = np.minimum(np.searchsorted(own, asked, sorter=order), len(own) - 1)
        place = order[spot]
        return np.where(own[place] == asked, place, -1)

    def stretch(self, keys: Index) -> Array:
        """Return the slips (k, 3) m of contacts with keys (k, 4); 0 for new contacts.

        keys: of all current contacts. If the number of sides of a point is unchanged, each side keeps its slip;
            otherwise the nearest side gets the sum.
        """
        place = self.places(keys)
        found = np.where(place[:, None] >= 0, self.slips[place] if len(self.slips) else 0.0, 0.0)
        if self.sides is not None:
            same = self._alike(keys)
            found[same] = self.sides.stretch(keys[same])
        return found

    def pressed(self, keys: Index) -> Array:
        """Return the normal forces (k,) N at the end of the last step; 0 for new contacts. Sides as in slips_of()."""
        place = self.places(keys)
        found = np.where(place >= 0, self.forces[place] if len(self.forces) else 0.0, 0.0)
        if self.sides is not None:
            same = self._alike(keys)
            found[same] = self.sides.pressed(keys[same])
        return found

    def _alike(self, keys: Index) -> Mask:
        """Return whether each contact's point has as many sides as in the last step, (k,)."""
        assert self.sides is not None
        points = np.concatenate([_points(one) for one in (self.sides.keys, keys)])
        _, of = np.unique(points, axis=0, return_inverse=True)
        had, now = np.split(of.reshape(-1), [len(self.sides.keys)])
        size = int(of.max(initial=0)) + 1
        return np.asarray((np.bincount(had, minlength=size) == np.bincount(now, minlength=size))[now])

    def depth(self, keys: Index) -> Array:
        """Return the depths (k,) m at the end of the last step; 0 for new contacts and points in front."""
        place = self.places(keys)
        return np.where(place >= 0, np.maximum(self.depths[place], 0.0) if len(self.depths) else 0.0, 0.0)

    def of_points(self) -> ContactMemory:
        """Return the history for detection: all sides of a point merged, with slips and forces summed."""
        if not len(self.keys) or self.keys[:, 1].max() < CORNERS[0]:
            return self
        keys, first, of = np.unique(_points(self.keys), axis=0, return_index=True, return_inverse=True)
        slips = np.zeros((len(keys), 3))
        np.add.at(slips, of.reshape(-1), self.slips)
        forces = np.zeros(len(keys))
        np.add.at(forces, of.reshape(-1), self.forces)
        return ContactMemory(keys, slips, forces, self.depths[first], self)

    def behind(self, surface: int, other: int) -> Index:
        """Return the points of a surface that lay behind another surface."""
        mine = (self.keys[:, 0] == surface) & (self.keys[:, 3] == other) & (self.keys[:, 1] == 0) & (self.depths > 0.0)
        return np.asarray(np.unique(self.keys[mine, 2]))

    def packed(self) -> Array:
        """Return the history as numbers (k, 9), the format of cached frames."""
        return np.column_stack([self.keys.astype(float), self.slips, self.forces, self.depths])

    @staticmethod
    def unpacked(numbers: Array | None) -> ContactMemory:
        """Return the history from numbers (k, 9); empty if the array has another shape."""
        if numbers is None or numbers.ndim != 2 or numbers.shape[1] != 9:
            return ContactMemory()
        return ContactMemory(numbers[:, :4].astype(np.int64), numbers[:, 4:7], numbers[:, 7], numbers[:, 8])
