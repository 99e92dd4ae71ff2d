"""Records of a live session: simulated frames and samples of the animation."""

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
    """Status of an object's live shape at a frame."""

    VALID = "simulated"
    STALE = "out of date"
    MISSING = "not simulated yet"


@dataclass(frozen=True)
class Kept:
    """Simulated frame with its display shapes.

    frame: the simulated frame.
    local_vertices: (v, 3) float32 in the object space of each member, by session_uid.
    count: number of substeps, see Sampled.
    contacts: contact results of members by session_uid; members without contact are missing.
    """

    frame: Frame
    locals: Mapping[int, Array]
    count: int
    touched: Mapping[int, Touched]


@dataclass(frozen=True)
class Read:
    """Sample of a member, of the anchor of a link, or of a collider at one time.

    positions: (v, 3) in world space.  matrix: (4, 4) object to world. The other fields are None unless they are keyed.
    """

    positions: Array
    matrix: Array
    settings: Settings | None = None
    outside: Outside | None = None
    collider: ColliderDials | None = None
    watched: Watched | None = None


# Vertex count of a mesh, and the properties of the modifiers that create simulated vertices.
Stack = tuple[int, str]


def stack(obj: bpy.types.Object) -> Stack:
    """Return the properties that determine the simulated vertices of an object."""
    return len(obj.data.vertices), repr([dialled_of(modifier) for modifier in simulated_makers(obj)])
