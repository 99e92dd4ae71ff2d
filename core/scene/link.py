"""Links between bodies, or of a body to something that only its animation moves."""

from __future__ import annotations

from dataclasses import dataclass

from ..arrays import Array
from .body import Motion


@dataclass(frozen=True)
class Collider:
    """Something that only its animation moves, to which bodies can be linked.

    name: no body or collider of the scene shares it.
    vertices: (v, 3) m at rest.
    motion: of the vertices.
    """

    name: str
    vertices: Array
    motion: Motion


@dataclass(frozen=True)
class Place:
    """A point that a body or collider carries along.

    owner: its name.
    point: (3,) m, where it is at rest.
    """

    owner: str
    point: Array


@dataclass(frozen=True)
class Link:
    """Two places that are held together.

    name: for messages.
    first, second: the places; of different owners, one of them a body's at least.
    stiffness: N/m; None for a rigid one.
    """

    name: str
    first: Place
    second: Place
    stiffness: float | None = None

    @property
    def places(self) -> tuple[Place, Place]:
        return self.first, self.second
