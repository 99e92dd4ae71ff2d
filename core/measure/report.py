"""Contact report of bodies in a shot: penetrations, stretch, and the earliest time of rest."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

# A penetration that stays below this multiple of its depth at the first frame counts as modelled.
_MODELLED = 1.05


@dataclass(frozen=True)
class Sunk:
    """Visible penetration between a body and a partner at a frame.

    partner: name; the body's own for self-intersections.
    points_inside: points of the body inside the partner.
    partner_points_inside: points of the partner inside the body.
    depth: m, of the deepest point.
    is_squeezed: whether contact forces press it in. Otherwise the bodies began intersected and are separating.
    """

    other: str
    points: int
    others: int
    depth: float
    squeezed: bool


@dataclass(frozen=True)
class Touched:
    """Contact and stretch summary of one body at one frame.

    earliest_rest: time in s before which visible motion on its supports cannot come to rest; 0 for no limit.
    swing_amplitude: m, of this motion.
    stretched: largest relative stretch of parts that should not stretch; 0 if invisible.
    """

    sunk: tuple[Sunk, ...] = ()
    soonest: float = 0.0
    swing: float = 0.0
    stretched: float = 0.0


@dataclass(frozen=True)
class Report:
    """Summary of one body in a shot.

    penetrations: the deepest one for each partner, with its frame. Penetrations that pins already cause at the first
        frame are left out unless they become deeper. An example is the root of an ear modelled into a head.
    earliest_rest: see BodyContactSummary, at the largest swing since the body was last at rest.
    stretched: frame and value of the largest stretch, see BodyContactSummary.
    """

    sunk: tuple[tuple[int, Sunk], ...] = ()
    soonest: float = 0.0
    stretched: tuple[int, float] = (0, 0.0)

    @staticmethod
    def of(frames: Iterable[tuple[int, Touched]]) -> Report:
        """Return the report of numbered frames, in order, from the first frame of the shot on."""
        deepest: dict[tuple[str, bool], tuple[int, Sunk]] = {}
        modelled: dict[str, float] | None = None
        last = swing = 0.0
        longest = (0, 0.0)
        for number, touched in frames:
            if modelled is None:
                modelled = {one.other: _MODELLED * one.depth for one in touched.sunk if one.squeezed}
            if touched.soonest and touched.swing >= swing:
                last = touched.soonest
            # A body at rest can be disturbed again.
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
