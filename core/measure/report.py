"""Contact report of bodies in a shot: penetrations, stretch, and the earliest time of rest."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

# A penetration that stays below this multiple of its depth at the first frame counts as modelled.
_MODELLED_DEPTH_RATIO = 1.05


@dataclass(frozen=True)
class Penetration:
    """Visible penetration between a body and a partner at a frame.

    partner: name; the body's own for self-intersections.
    points_inside: points of the body inside the partner.
    partner_points_inside: points of the partner inside the body.
    depth: m, of the deepest point.
    is_squeezed: whether contact forces press it in. Otherwise the bodies began intersected and are separating.
    """

    partner: str
    points_inside: int
    partner_points_inside: int
    depth: float
    is_squeezed: bool


@dataclass(frozen=True)
class WalkerPose:
    """Pose of a body with muscles and a Front: its centre in m and the current unit vector of its front, both (3,)."""

    centre: tuple[float, ...]
    front: tuple[float, ...]


@dataclass(frozen=True)
class BodyContactSummary:
    """Contact and stretch summary of one body at one frame.

    earliest_rest: time in s before which visible motion on its supports cannot come to rest; 0 for no limit.
    swing_amplitude: m, of this motion.
    stretched: largest relative stretch of parts that should not stretch; 0 if invisible.
    walker: pose; None without muscles or without an axis as Front.
    partners: names of the objects that touch parts of it that can move.
    posed_stretch: that of its edges by the animation alone; 0 where it is unknown.
    """

    penetrations: tuple[Penetration, ...] = ()
    earliest_rest: float = 0.0
    swing_amplitude: float = 0.0
    stretched: float = 0.0
    walker: WalkerPose | None = None
    partners: tuple[str, ...] = ()
    posed_stretch: float = 0.0


@dataclass(frozen=True)
class ShotReport:
    """Summary of one body in a shot.

    penetrations: the deepest one for each partner, with its frame. Penetrations that pins already cause at the first
        frame are left out unless they become deeper. An example is the root of an ear modelled into a head.
    earliest_rest: see BodyContactSummary, at the largest swing since the body was last at rest.
    stretched: frame and value of the largest stretch, see BodyContactSummary.
    posed_stretch: at that frame, by the animation alone.
    walked: m, path of the centre along the body's front; negative backward.
    contact_frames: partners that touch parts of it that can move, and the frames at which they do.
    """

    penetrations: tuple[tuple[int, Penetration], ...] = ()
    earliest_rest: float = 0.0
    stretched: tuple[int, float] = (0, 0.0)
    walked: float = 0.0
    contact_frames: tuple[tuple[str, tuple[int, ...]], ...] = ()
    posed_stretch: float = 0.0

    @staticmethod
    def from_frames(frames: Iterable[tuple[int, BodyContactSummary]]) -> ShotReport:
        """Return the report of numbered frames, in order, from the first frame of the shot on."""
        deepest: dict[tuple[str, bool], tuple[int, Penetration]] = {}
        modelled_depths: dict[str, float] | None = None
        earliest_rest = swing_amplitude = 0.0
        largest_stretch, walked, walker = (0, 0.0), 0.0, None
        posed, contact_frames = 0.0, dict[str, list[int]]()
        for number, summary in frames:
            for partner in summary.partners:
                contact_frames.setdefault(partner, []).append(number)
            if modelled_depths is None:
                modelled_depths = {
                    one.partner: _MODELLED_DEPTH_RATIO * one.depth for one in summary.penetrations if one.is_squeezed
                }
            if summary.earliest_rest and summary.swing_amplitude >= swing_amplitude:
                earliest_rest = summary.earliest_rest
            if walker is not None and summary.walker is not None:
                walked += _path_along_front(walker, summary.walker)
            walker = summary.walker
            # A body at rest can be disturbed again.
            swing_amplitude = max(swing_amplitude, summary.swing_amplitude) if summary.earliest_rest else 0.0
            if summary.stretched > largest_stretch[1]:
                largest_stretch, posed = (number, summary.stretched), summary.posed_stretch
            for one in summary.penetrations:
                if one.is_squeezed and one.depth <= modelled_depths.get(one.partner, 0.0):
                    continue
                known = deepest.get((one.partner, one.is_squeezed))
                if known is None or one.depth > known[1].depth:
                    deepest[one.partner, one.is_squeezed] = number, one
        return ShotReport(
            tuple(sorted(deepest.values(), key=lambda found: -found[1].depth)),
            earliest_rest,
            largest_stretch,
            walked,
            tuple((partner, tuple(frames)) for partner, frames in contact_frames.items()),
            posed,
        )

    def longest_contact(self, first: float, last: float) -> tuple[str, tuple[int, ...]]:
        """Return the partner with the most frames of contact from a first to a last frame, and these frames.

        '' and () if nothing touches the body there.
        """
        within = ((partner, tuple(k for k in frames if first <= k <= last)) for partner, frames in self.contact_frames)
        return max((one for one in within if one[1]), key=lambda one: len(one[1]), default=("", ()))


def _path_along_front(before: WalkerPose, after: WalkerPose) -> float:
    """Return the displacement in m between two poses along the mean of their fronts."""
    steps = (b - a for a, b in zip(before.centre, after.centre, strict=True))
    fronts = (0.5 * (a + b) for a, b in zip(before.front, after.front, strict=True))
    return sum(step * front for step, front in zip(steps, fronts, strict=True))
