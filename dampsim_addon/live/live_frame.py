"""Records of a live session: simulated frames and samples of the animation."""

from __future__ import annotations

import enum
from collections.abc import Mapping
from dataclasses import dataclass

import bpy

from ...core import Array, Frame, SceneSample
from ...core.measure.report import BodyContactSummary
from ..blender.modifiers import modifier_settings, simulated_topology_modifiers


class FrameStatus(enum.Enum):
    """Status of an object's live shape at a frame.

    An unverified frame matches all inputs whose changes are noticed, but others may have changed.
    """

    VALID = "simulated"
    UNVERIFIED = "unverified"
    STALE = "out of date"
    MISSING = "not simulated yet"

    @property
    def can_be_shown(self) -> bool:
        """True for frames that are shown as the current state of the object."""
        return self in (FrameStatus.VALID, FrameStatus.UNVERIFIED)


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
class LiveSample:
    """Sample of the core scene. matrices: (4, 4) from object to world space of each member, by session_uid."""

    scene: SceneSample
    matrices: Mapping[int, Array]


# Vertex count of a mesh, and the properties of the modifiers that create simulated vertices.
ModifierStack = tuple[int, str]


def modifier_stack(obj: bpy.types.Object) -> ModifierStack:
    """Return the properties that determine the simulated vertices of an object."""
    return len(obj.data.vertices), repr([modifier_settings(modifier) for modifier in simulated_topology_modifiers(obj)])
