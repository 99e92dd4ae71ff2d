"""What is to be said of bodies in a shot: what they went into, how far they were stretched, how soon they can rest."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

# So many times as deep as at the first frame is as deep as it was modelled.
_MODELLED = 1.05


@dataclass(frozen=True)
class Sunk:
    """Of a body and something that have gone into each other at a frame, farther than can be seen.

    other: its name; the body's own where it is in itself.  points: of the body that are in it.  others: of its points
    that are in the body.  depth: m, of the deepest.  squeezed: whether it is pressed in; else it began inside, and is
    on its way out.
    """

    other: str
    points: int
    others: int
    depth: float
    squeezed: bool


@dataclass(frozen=True)
class Touched:
    """What is to be said of one body at one frame.

    soonest: s within which it cannot come to rest where it lies, of motions that can be seen; 0 for no limit.
    swing: m, how far such motions carry it.
    stretched: by which part the most stretched of what is not meant to give way is longer; 0 where that cannot be seen.
    """

    sunk: tuple[Sunk, ...] = ()
    soonest: float = 0.0
    swing: float = 0.0
    stretched: float = 0.0


@dataclass(frozen=True)
class Report:
    """What is to be said of one body in a shot.

    sunk: of everything that it went into, the deepest, with its frame; not what pins have pressed in from the first
    frame on, no deeper than so, as the root of an ear that was modelled into a head.
    soonest: as in Touched, where it swung farthest after it was last at rest.
    stretched: as in Touched, where most, with its frame.
    """

    sunk: tuple[tuple[int, Sunk], ...] = ()
    soonest: float = 0.0
    stretched: tuple[int, float] = (0, 0.0)

    @staticmethod
    def of(frames: Iterable[tuple[int, Touched]]) -> Report:
        """Of numbered frames, in order, from the shot's first one on."""
        deepest: dict[tuple[str, bool], tuple[int, Sunk]] = {}
        modelled: dict[str, float] | None = None
        last = swing = 0.0
        longest = (0, 0.0)
        for number, touched in frames:
            if modelled is None:
                modelled = {one.other: _MODELLED * one.depth for one in touched.sunk if one.squeezed}
            if touched.soonest and touched.swing >= swing:
                last = touched.soonest
            # What rests can be pushed anew.
            swing = max(swing, touched.swing) if touched.soonest else 0.0
            if touched.stretched > longest[1]:
                longest = number, touched.stretched
            for one in touched.sunk:
                if one.squeezed and one.depth <= modelled.get(one.other, 0.0):
                    continue
                known = deepest.get((one.other, one.squeezed))
                if known is None or one.depth > known[1].depth:
                    deepest[one.other, one.squeezed] = number, one
        return Report(tuple(sorted(deepest.values(), key=lambda found: -found[1].depth)), last, longest)
