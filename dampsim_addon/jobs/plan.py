"""Plan of a bake: the checks before it, and the frames that it simulates."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass

import bpy

from ...core import Scene, StaleCacheError
from ...core.frames.cache import RebakedRange
from ...core.simulation.bake import (
    check_kept_frames,
    check_range,
    check_range_model,
    check_start,
    outdated_message,
)
from .. import live
from ..blender.sampler import frame_rate
from ..model import colliders, force_fields
from ..model.caches import frame_cache, upcoming_cache
from ..model.groups import Group, last_frame
from ..status.bake_changes import setting_changes
from ..status.followed_names import follow_names
from ..status.next_bake import BakeAction, check_resumable, next_bake
from .refusals import check_refusals


@dataclass(frozen=True)
class BakePlan:
    """Frames that a bake of a group simulates.

    began: time.monotonic() at the start of the bake, s.
    group, scene: the group, and the scene whose frames it plays.
    restart, start, resume: see bake_group().
    part: range of frames to simulate again and blend into the others; None for all of the shot.
    last: last frame of the shot.
    """

    began: float
    group: Group
    scene: bpy.types.Scene
    restart: bool
    start: int | None
    resume: bool
    part: RebakedRange | None
    last: int

    @property
    def replaces_outdated(self) -> bool:
        """Return whether outdated frames are simulated again, instead of raising StaleCacheError."""
        return not self.resume and self.start is None

    @property
    def keeps_frames(self) -> bool:
        """Return whether outdated frames end the bake."""
        return not self.restart and not self.replaces_outdated and self.start != self.scene.frame_start

    @property
    def begins_with_first_frame(self) -> bool:
        """Return whether the first frame is simulated, as far as this is known before the cached frames are checked."""
        return self.part is None and (self.restart or not self.cached_numbers())

    def simulates(self, numbers: Sequence[int]) -> bool:
        """Return whether some of these frames are simulated, as far as this is known before the frames are checked."""
        return self.part is not None or self.restart or not set(numbers) <= set(self.cached_numbers())

    def check_cache(self, core_scene: Scene) -> None:
        """Raise CacheError if cached frames that the bake keeps are known to be outdated, before the long stages."""
        if self.part is not None:
            check_range_model(upcoming_cache(self.group), self.part, core_scene)
        elif self.keeps_frames:
            check_kept_frames(upcoming_cache(self.group), core_scene)

    def cached_numbers(self) -> list[int]:
        """Return the numbers of the cached frames."""
        return upcoming_cache(self.group).frame_numbers()


def plan_bake(
    scene: bpy.types.Scene,
    view_layer: bpy.types.ViewLayer,
    group: Group,
    restart: bool,
    start: int | None,
    resume: bool,
    frames: tuple[int, int] | None,
) -> BakePlan:
    """Check that a group can be baked, and return its plan; see bake_group(). Raises DampSimError."""
    began = time.monotonic()
    # Edits by scripts may not have triggered a depsgraph update yet.
    follow_names()
    force_fields.ForceFieldIndex.current().clear()
    colliders.ColliderIndex.current().clear()
    for obj in group.members:
        live.drop_session(obj)
    check_refusals(group.members, scene, view_layer)
    if any(obj.dampsim.cache_folder for obj in group.members):
        # Where the user chose no folder, another one is used if it cannot be written.
        frame_cache(group.members[0]).check_writable()
    if resume:
        check_resumable(group, scene)
    if frames is None and not restart and start is None:
        upcoming = next_bake(group, scene)
        frames = (upcoming.first, upcoming.last) if upcoming.action is BakeAction.RANGE else None
    part = None if frames is None else RebakedRange(*frames, group.members[0].dampsim.range_blend)
    first, last = scene.frame_start, scene.frame_end if part is not None else last_frame(group, scene)
    # The same checks follow the preparation, which may take long.
    if part is not None:
        is_loop = any(member.dampsim.loop for member in group.members)
        check_range(upcoming_cache(group), part, first, last, frame_rate(scene), is_loop=is_loop)
    if start is not None and not restart:
        check_start(group.name, upcoming_cache(group).frame_numbers(), start, first, last)
        if start > first:
            _check_settings(group, scene)
    return BakePlan(began, group, scene, restart, start, resume, part, last)


def _check_settings(group: Group, scene: bpy.types.Scene) -> None:
    """Raise StaleCacheError if dials or settings of the cached frames, which should be kept, have changed."""
    header = upcoming_cache(group).compatible_header()
    changes = [] if header is None else setting_changes(group, scene, header.inputs)
    if changes:
        raise StaleCacheError(outdated_message(group.name, changes))
