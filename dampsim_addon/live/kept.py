"""What a live session keeps of a frame and reads of a member."""

from __future__ import annotations

import enum
from collections.abc import Mapping
from dataclasses import dataclass

import bpy

from ...core.arrays import Array
from ...core.fields.field import Outside
from ...core.frames.frame import Frame
from ...core.measure.report import Touched
from ...core.scene.muscles import Watched
from ...core.scene.parameters import ColliderDials, Settings
from ..blender.modifiers import dialled_of, simulated_makers


class Standing(enum.Enum):
    """What is to say of an object's live shape at a frame."""

    VALID = "simulated"
    STALE = "out of date"
    MISSING = "not simulated yet"


@dataclass(frozen=True)
class Kept:
    """A frame and how it is shown.

    frame: as simulated.
    locals: (v, 3) float32 in each member's own space, by its number of the session.
    count: see core Sampled.
    touched: what contacts say of members, by their number of the session; of those of which they say anything.
    """

    frame: Frame
    locals: Mapping[int, Array]
    count: int
    touched: Mapping[int, Touched]


@dataclass(frozen=True)
class Read:
    """Of one member, of what a link holds on to, or of a collider."""

    positions: Array
    matrix: Array
    settings: Settings | None = None
    outside: Outside | None = None
    collider: ColliderDials | None = None
    watched: Watched | None = None


# The number of a mesh's own vertices, and the modifiers whose vertices are simulated too.
Stack = tuple[int, str]


def stack(obj: bpy.types.Object) -> Stack:
    return len(obj.data.vertices), repr([dialled_of(modifier) for modifier in simulated_makers(obj)])
