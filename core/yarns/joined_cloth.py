"""Several woven cloths as one, over all nodes of a system: cloths that touch or are linked are solved together."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from ..base.arrays import Array, Index
from .woven_cloth import WovenCloth


@dataclass(frozen=True)
class JoinedCloth(WovenCloth):
    """Woven cloths over the nodes of a system, in which some nodes carry no yarn.

    Its arrays are those of the parts, one after the other. Each part keeps its own material and pitch, so `material`
    and `pitch`, which are those of the first part, have no use here.

    parts: the cloths over their own nodes.
    factors: (k,) factor on the stiffness of each part.
    """

    parts: tuple[WovenCloth, ...] = ()
    factors: tuple[float, ...] = ()

    def _per_part(self, value: Callable[[WovenCloth], Array], *, is_stiffness: bool = False) -> Array:
        """Return the concatenated values of the parts, times their factors if they are stiffnesses."""
        scales = self.factors if is_stiffness else (1.0,) * len(self.parts)
        return np.concatenate([scale * value(part) for part, scale in zip(self.parts, scales, strict=True)])

    @cached_property
    def segment_pitches(self) -> Array:
        return self._per_part(lambda part: part.segment_pitches)

    @cached_property
    def stretch_stiffness(self) -> Array:
        return self._per_part(lambda part: part.stretch_stiffness, is_stiffness=True)

    @cached_property
    def bend_stiffness(self) -> Array:
        return self._per_part(lambda part: part.bend_stiffness, is_stiffness=True)

    @cached_property
    def shear_stiffness(self) -> Array:
        return self._per_part(lambda part: part.shear_stiffness, is_stiffness=True)

    @cached_property
    def stick_stiffness(self) -> Array:
        return self._per_part(lambda part: part.stick_stiffness, is_stiffness=True)

    @cached_property
    def linear_densities(self) -> Array:
        return self._per_part(lambda part: part.linear_densities)

    @cached_property
    def passing_densities(self) -> Array:
        return self._per_part(lambda part: part.passing_densities)

    @cached_property
    def jam_lengths(self) -> Array:
        return self._per_part(lambda part: part.jam_lengths)


def join_cloths(
    parts: Sequence[WovenCloth], first_nodes: Sequence[int], count: int, factors: Sequence[float]
) -> JoinedCloth:
    """Return cloths as one over a number of nodes.

    first_nodes: first node of each part.  count: number of nodes, including those without yarn.
    factors: on the stiffness of each part.
    """
    passings = np.cumsum([0, *(len(part.node) for part in parts)])[:-1]
    segments = np.cumsum([0, *(len(part.segments) for part in parts)])[:-1]

    def shifted(value: Callable[[WovenCloth], Index], starts: Sequence[int] | Index) -> Index:
        return np.concatenate([value(part) + start for part, start in zip(parts, starts, strict=True)])

    def concatenate(value: Callable[[WovenCloth], Array]) -> Array:
        return np.concatenate([value(part) for part in parts])

    return JoinedCloth(
        count=count,
        node=shifted(lambda part: part.node, first_nodes),
        rest_arc_lengths=concatenate(lambda part: part.rest_arc_lengths),
        can_slide=np.concatenate([part.can_slide for part in parts]),
        segments=shifted(lambda part: part.segments, passings),
        closing_length=concatenate(lambda part: part.closing_length),
        bends=shifted(lambda part: part.bends, segments),
        angles=concatenate(lambda part: part.angles),
        crossings=shifted(lambda part: part.crossings, passings),
        crossing_neighbours=shifted(lambda part: part.crossing_neighbours, first_nodes),
        cosine=concatenate(lambda part: part.cosine),
        material=parts[0].material,
        parts=tuple(parts),
        factors=tuple(factors),
    )
