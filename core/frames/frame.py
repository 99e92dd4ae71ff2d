"""What goes into a simulated frame, and what comes out."""

from __future__ import annotations

from dataclasses import dataclass

from ..arrays import Array
from ..scene.parameters import Settings
from ..system.state import State


@dataclass(frozen=True)
class Frame:
    """number: of the frame.  state: of the nodes.  surface: (v, 3) m.  inputs: digest of what it was made from."""

    number: int
    state: State
    surface: Array
    inputs: str
    iterations: int


@dataclass(frozen=True)
class Sampled:
    """The inputs of one frame: the animated surfaces (v, 3) and the dials at the end of each of its substeps.

    count: substeps that the dials at its end ask for.  digest: of all of it.
    """

    number: int
    animated: tuple[Array, ...]
    settings: tuple[Settings, ...]
    count: int
    digest: str


@dataclass(frozen=True)
class Pose:
    """What the nodes have to go along with. targets: (p, 3) of the pins.  turns, places: see bodies.pins.Followers."""

    targets: Array
    turns: Array | None = None
    places: Array | None = None
