"""What can touch what: surfaces that nodes carry, and obstacles that only their animation moves."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from scipy.sparse import block_diag, coo_matrix, csr_matrix

from ..arrays import Array, Index, Mask
from .fronts import along
from .joint import Joint, Pair
from .touchable import Touchable


@dataclass(frozen=True)
class ContactModel:
    """All that can touch in one system.

    surfaces: bodies' first, then obstacles', then flesh: what lies behind a body's coarse faces, cut finer.
    obstacles: of each surface, its place among the inputs' obstacles; -1 for bodies.
    facing: (a, b) places of surfaces of which each one's points may touch the other; of which b may be an obstacle.
    own: places of surfaces that may touch themselves.
    flesh: (place, body) of surfaces: what has edges that count is the body's.
    """

    surfaces: tuple[Touchable, ...]
    obstacles: tuple[int, ...]
    facing: tuple[tuple[int, int], ...]
    own: tuple[int, ...] = ()
    flesh: tuple[tuple[int, int], ...] = ()

    @cached_property
    def threads(self) -> frozenset[int]:
        """Places of surfaces that are strung."""
        return frozenset(place for place, one in enumerate(self.surfaces) if one.strung)

    @cached_property
    def seen(self) -> Index:
        """(s,) the surface that one sees of each."""
        found = np.arange(len(self.surfaces))
        for place, body in self.flesh:
            found[place] = body
        return found

    @cached_property
    def starts(self) -> Index:
        """Where each surface's points begin in the stack, and its end."""
        return np.cumsum([0, *(len(one.rest) for one in self.surfaces)])

    @cached_property
    def count(self) -> int:
        """Points of all surfaces."""
        return int(self.starts[-1])

    @cached_property
    def operator(self) -> csr_matrix:
        """(N, n) all points as means of the system's nodes."""
        nodes = next(one.operator.shape[1] for one in self.surfaces if one.operator is not None)
        parts, rows, columns, values = self.starts, [], [], []
        for start, one in zip(parts, self.surfaces, strict=False):
            if one.operator is not None:
                own = one.operator.tocoo()
                rows.append(own.row + start)
                columns.append(own.col)
                values.append(own.data)
        return coo_matrix(
            (np.concatenate(values), (np.concatenate(rows), np.concatenate(columns))), shape=(self.count, nodes)
        ).tocsr()

    @cached_property
    def is_obstacle(self) -> Mask:
        """(s,) which surfaces only their animation moves."""
        return np.array([one.is_obstacle for one in self.surfaces], dtype=bool)

    @cached_property
    def joints(self) -> dict[tuple[Pair, ...], Joint]:
        """The surfaces of pairs as one, as they are first asked for."""
        return {}

    @cached_property
    def sizes(self) -> Array:
        """(s,) m of bodies; obstacles have none."""
        return np.array([0.0 if one.is_obstacle else one.size for one in self.surfaces])

    @cached_property
    def thicknesses(self) -> Array:
        """(s,) m, see Touchable.thickness; without end of what is not closed."""
        return np.array([one.thickness if one.closed else np.inf for one in self.surfaces])

    @cached_property
    def areas(self) -> Array:
        """(N,) m^2 that points stand for."""
        return np.concatenate([one.areas for one in self.surfaces])

    @cached_property
    def rough(self) -> Array:
        """(N,) painted parts of the friction."""
        return np.concatenate([np.ones(len(one.rest)) if one.rough is None else one.rough for one in self.surfaces])

    @cached_property
    def fronts(self) -> csr_matrix | None:
        """(N, N) that gives each point's front from where all points are; None where no surface has one.

        Its rows are sums of edges at a point, as [Ctl]'s forward and backward masses are, that make the front at rest:
        it turns and shears with the surface.
        """
        if all(one.front is None for one in self.surfaces):
            return None
        parts = [
            along(one.sides[0] if one.strung else np.concatenate([one.sides[0], one.wires]), one.rest, one.front)
            if one.front is not None
            else coo_matrix((len(one.rest),) * 2)
            for one in self.surfaces
        ]
        return block_diag(parts, format="csr")

    @cached_property
    def moved(self) -> Mask:
        """(N,) whether nodes move a point at all."""
        return np.asarray(np.diff(self.operator.indptr) > 0)

    @cached_property
    def nodes(self) -> Index:
        """Nodes that carry points."""
        return np.asarray(np.unique(self.operator.indices))

    @cached_property
    def owner(self) -> Index:
        """(N,) the surface of each point."""
        return np.repeat(np.arange(len(self.surfaces)), np.diff(self.starts))

    def points_of(self, surface: int) -> slice:
        return slice(int(self.starts[surface]), int(self.starts[surface + 1]))
