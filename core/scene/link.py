"""Links between two bodies, or between a body and an object that only its animation moves."""

from __future__ import annotations

from dataclasses import dataclass

from ..base.arrays import Array


@dataclass(frozen=True)
class Anchor:
    """Object that only its animation moves, and to which bodies can be linked. Scene.sampler gives its motion.

    name: unique among the bodies and anchors of the scene.
    vertices: (v, 3) m at rest.
    """

    name: str
    vertices: Array


@dataclass(frozen=True)
class LinkPoint:
    """Point attached to a body or an anchor.

    owner: name of the body or anchor.
    point: (3,) m, position at rest.
    """

    owner: str
    point: Array


@dataclass(frozen=True)
class Link:
    """Connection between two points. Simulation raises SceneError if an owner is not part of the scene.

    name: name used in messages.
    first, second: the points. They have different owners, at least one of which is a body.
    stiffness: N/m; None for a rigid link.
    """

    name: str
    first: LinkPoint
    second: LinkPoint
    stiffness: float | None = None

    @property
    def points(self) -> tuple[LinkPoint, LinkPoint]:
        return self.first, self.second
