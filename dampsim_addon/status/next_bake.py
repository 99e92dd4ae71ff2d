"""Decision on the next bake of a group: new, again or continued. Panel, API and command line follow it."""

from __future__ import annotations

import enum
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import bpy

from ...core import StaleCacheError
from ...core.base.wording import format_count
from ..model.cache_status import known_status
from ..model.groups import Group, groups_of, last_frame, preview_range
from .bake_changes import changes_since_simulation, refresh_digests


class BakeAction(enum.Enum):
    """Action of the next bake.

    All of them keep the cached frames before the first one that is outdated or missing. RANGE keeps those after the
    range, too.
    """

    BAKE = "Bake"
    REBAKE = "Re-bake"
    RESUME = "Resume"
    FINISH = "Finish Bake"
    RANGE = "Re-bake Frames"


@dataclass(frozen=True)
class NextBake:
    """Next bake of a group.

    changes: inputs that changed since the cached frames were simulated, in words.  first: number of the first frame to
    be simulated, where the cached frames are not known to be outdated.  last: of a range.
    """

    action: BakeAction
    first: int
    changes: tuple[str, ...] = ()
    last: int = 0


def next_bake(group: Group, scene: bpy.types.Scene) -> NextBake:
    """Return the next bake of a group, from information that is known without disk access."""
    obj, first = group.members[0], scene.frame_start
    total = last_frame(group, scene) - first + 1
    status, is_baked = known_status(obj), all(member.dampsim.baked for member in group.members)
    preview, end = preview_range(scene), scene.frame_end
    if preview and is_baked and first < preview[0] <= preview[1] <= end and status.frame_count > end - first:
        return NextBake(BakeAction.RANGE, preview[0], (), preview[1])
    done = min(status.frame_count, total)
    if not done:
        return NextBake(BakeAction.REBAKE if is_baked else BakeAction.BAKE, first)
    if status.inputs is None:
        return NextBake(BakeAction.REBAKE, first, ("the version of DampSim",))
    changes = tuple(changes_since_simulation(obj, scene))
    if changes:
        return NextBake(BakeAction.REBAKE, first, changes)
    if done < total:
        return NextBake(BakeAction.RESUME, first + done)
    return NextBake(BakeAction.REBAKE if is_baked else BakeAction.FINISH, first + done)


def bake_label(objects: Iterable[bpy.types.Object], scene: bpy.types.Scene) -> str:
    """Return the label of the button that bakes some objects: what it will do, and to how many."""
    groups = groups_of(objects)
    upcoming = [next_bake(group, scene) for group in groups]
    count = sum(len(group.members) for group in groups)
    suffix = f" ({format_count(count, 'object')})" if count > 1 else ""
    return f"{_action_label(upcoming)}{suffix}"


def _action_label(upcoming: Sequence[NextBake]) -> str:
    actions, firsts = {one.action for one in upcoming}, {one.first for one in upcoming}
    if actions == {BakeAction.RANGE}:
        return f"{BakeAction.RANGE.value} {upcoming[0].first} to {upcoming[0].last}"
    if actions == {BakeAction.RESUME}:
        return f"Resume at Frame {firsts.pop()}" if len(firsts) == 1 else BakeAction.RESUME.value
    if len(actions) == 1:
        action = actions.pop()
    else:
        action = BakeAction.BAKE if BakeAction.BAKE in actions else BakeAction.REBAKE
    return str(action.value)


def check_resumable(group: Group, scene: bpy.types.Scene) -> None:
    """Raise StaleCacheError at once if the cached frames of a group are known to be outdated."""
    refresh_digests(group.members[0])
    found = next_bake(group, scene)
    # A cache of another version is reported by its reader, unless it belongs to another file.
    if found.changes and known_status(group.members[0]).inputs is not None:
        raise StaleCacheError(
            f"{group.name}: {' and '.join(found.changes)} changed since the last bake, so it cannot be resumed. "
            "Press Re-bake: it keeps the frames before the change."
        )
