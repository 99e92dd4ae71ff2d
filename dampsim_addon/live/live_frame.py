"""Records of a live session: simulated frames and samples of the animation, coarser ones in Draft."""

from __future__ import annotations

import enum
from collections.abc import Mapping
from dataclasses import dataclass, replace

import bpy

from ...core import KINDS, Array, Frame, Scene, SceneSample
from ...core.bodies import coarsen_body, resolution_parameter
from ...core.measure.report import BodyContactSummary
from ..blender.modifiers import modifier_settings, simulated_topology_modifiers
from ..model.groups import Group


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


def modifier_stack(obj: bpy.types.Object) -> tuple[int, str]:
    """Return the vertex count of an object's mesh, and the properties of the modifiers that create simulated ones."""
    return len(obj.data.vertices), repr([modifier_settings(modifier) for modifier in simulated_topology_modifiers(obj)])


def _uses_draft(obj: bpy.types.Object) -> bool:
    """Return whether Draft is on for an object and its kind supports it. Kinds of newer versions do not."""
    group = obj.dampsim
    kind = next((one for one in KINDS if one.name == group.kind), None)
    return bool(group.draft) and kind is not None and bool(kind.resolution_parameter(group))


def is_in_draft(group: Group) -> bool:
    """Return whether a group plays in Draft. One member is enough, as all are simulated together."""
    return any(_uses_draft(obj) for obj in group.members)


def draft_fractions(group: Group) -> tuple[float, ...]:
    """Return the fraction (0 to 1) of tetrahedra or vertices that each member uses in Draft."""
    return tuple(0.01 * obj.dampsim.draft_part if _uses_draft(obj) else 1.0 for obj in group.members)


def draft_scene(core_scene: Scene, group: Group) -> Scene:
    """Return the scene of a group with coarser bodies where Draft is on. Members and bodies have the same order."""
    pairs = zip(core_scene.bodies, draft_fractions(group), strict=True)
    return replace(core_scene, bodies=tuple(coarsen_body(body, part) if part < 1.0 else body for body, part in pairs))


def resolutions(core_scene: Scene) -> dict[str, tuple[str, int]]:
    """Return the name and value of the resolution parameter by body, for bodies that have one."""
    named = {body.name: (resolution_parameter(body), body) for body in core_scene.bodies}
    return {body: (name, int(getattr(one.settings, name))) for body, (name, one) in named.items() if name}
