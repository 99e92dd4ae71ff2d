"""Records of a live session: simulated frames and samples of the animation."""

from __future__ import annotations

import enum
from collections.abc import Mapping
from dataclasses import dataclass

import bpy

from ...core import Array, ColliderSettings, ExternalForces, Frame, SensorInputs, Settings
from ...core.measure.report import BodyContactSummary
from ..blender.modifiers import modifier_settings, simulated_topology_modifiers


class FrameStatus(enum.Enum):
    """Status of an object's live shape at a frame."""

    VALID = "simulated"
    STALE = "out of date"
    MISSING = "not simulated yet"


@dataclass(frozen=True)
class LiveFrame:
    """Simulated frame with its display shapes.

    frame: the simulated frame.
    local_vertices: (v, 3) float32 in the object space of each member, by session_uid.
    count: number of substeps, see FrameInputs.substep_count.
    contacts: contact results of members by session_uid; members without contact are missing.
    """

    frame: Frame
    local_vertices: Mapping[int, Array]
    count: int
    contacts: Mapping[int, BodyContactSummary]


@dataclass(frozen=True)
class Sample:
    """Sample of a member, of the anchor of a link, or of a collider at one time.

    positions: (v, 3) in world space.  matrix: (4, 4) object to world. The other fields are None unless they are keyed.
    """

    positions: Array
    matrix: Array
    settings: Settings | None = None
    outside: ExternalForces | None = None
    collider: ColliderSettings | None = None
    watched: SensorInputs | None = None


# Vertex count of a mesh, and the properties of the modifiers that create simulated vertices.
ModifierStack = tuple[int, str]


def modifier_stack(obj: bpy.types.Object) -> ModifierStack:
    """Return the properties that determine the simulated vertices of an object."""
    return len(obj.data.vertices), repr([modifier_settings(modifier) for modifier in simulated_topology_modifiers(obj)])
