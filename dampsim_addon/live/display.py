"""Display of live frames by a Mesh Cache modifier that reads the current frame from a file; the mesh stays unchanged.

The file is in Blender's temporary folder, and the modifier is removed before saving, so neither gets into the .blend.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterable
from pathlib import Path

import bpy

from ...core import Array, CacheError, DampSimError
from ..blender.dampsim_names import LIVE_MODIFIER, live_modifier, live_modifiers
from ..blender.modifiers import add_cache_modifier, pc2_header, place_modifier, play_file, remove_modifier
from ..model.groups import Group, group_key, groups_of
from ..model.objects import simulated_in_scene
from .live_frame import is_in_draft
from .liveness import is_live
from .session import LiveSessions, Session, find_session


def frame_file(obj: bpy.types.Object, draft: bool = False) -> str:
    """Return the path of the displayed frame. Draft has its own file, so that the modifier tells which one it shows."""
    return str(Path(bpy.app.tempdir) / f"dampsim_{obj.session_uid}{'_draft' if draft else ''}.pc2")


def is_duplicate(obj: bpy.types.Object) -> bool:
    """Return whether the object is a duplicate and still has the display modifier of the original."""
    modifier = live_modifier(obj)
    return modifier is not None and modifier.filepath not in (frame_file(obj), frame_file(obj, True))


def display_vertices(obj: bpy.types.Object, local: Array, draft: bool = False) -> None:
    """Display vertices (v, 3), float32, in object space. Raises CacheError if the file cannot be written."""
    file = Path(frame_file(obj, draft))
    try:
        file.write_bytes(pc2_header(len(local), 0.0, 1) + local.tobytes())
    except OSError as error:
        # Blender would display what is left of a frame.
        with contextlib.suppress(OSError):
            file.unlink(missing_ok=True)
        raise CacheError(
            f"{obj.name}: the live frame cannot be written to {file.parent} ({error.strerror or error}); "
            "free some space, or choose another temporary folder in the preferences."
        ) from error
    modifier = live_modifier(obj)
    if modifier is None:
        modifier = add_cache_modifier(obj, LIVE_MODIFIER, "MESH_CACHE")
        play_file(modifier, "PC2", str(file), 0.0)
    # The user may have added modifiers since.
    place_modifier(obj, modifier)
    if modifier.filepath != str(file):
        modifier.filepath = str(file)
    modifier.factor = obj.dampsim.influence
    # The modifier is evaluated, and reads the file, at each frame change.
    modifier.show_viewport = modifier.show_render = True


def show_display(group: Group, is_shown: bool) -> None:
    """Show all members with the simulation, or only their animation."""
    for modifier in filter(None, map(live_modifier, group.members)):
        if {modifier.show_viewport, modifier.show_render} != {is_shown}:
            modifier.show_viewport = modifier.show_render = is_shown


def hide_displayed(groups: Iterable[Group]) -> list[Group]:
    """Hide the simulation of the groups that display it. Returns these groups."""
    found = [group for group in groups if any(is_displayed(obj) for obj in group.members)]
    for group in found:
        show_display(group, False)
    return found


def show_hidden(hidden: list[Group]) -> None:
    """Display the groups hidden by hide_displayed() again, and empty the list."""
    while hidden:
        show_display(hidden.pop(), True)


def display_frame(group: Group, session: Session, scene: bpy.types.Scene, number: int) -> None:
    """Display a valid frame of a group, interpolated at a subframe."""
    live_frame, subframe = session.frames[number - scene.frame_start], scene.frame_subframe
    following = None
    if subframe and session.frame_status(group.members[0], scene, number + 1).can_be_shown:
        following = session.frames[number + 1 - scene.frame_start]
    for obj in group.members:
        local = live_frame.local_vertices[obj.session_uid]
        if following is not None:
            local = (1.0 - subframe) * local + subframe * following.local_vertices[obj.session_uid]
        try:
            display_vertices(obj, local.astype("<f4"), session.draft)
        except DampSimError as error:
            session.problem = str(error)


def display_stored_frame_or_hide(group: Group, scene: bpy.types.Scene) -> None:
    """Display the stored current frame, valid or not, if there is one that fits the meshes, else the animation."""
    session, index = find_session(group.members[0]), scene.frame_current - scene.frame_start
    if session is not None and is_live(group.members[0]) and session.can_display(group, index):
        display_frame(group, session, scene, scene.frame_current)
    else:
        show_display(group, False)


def sync_display(scene: bpy.types.Scene) -> None:
    """Display Draft or full frames as chosen, after Draft was switched or a render has shown full frames."""
    for group in groups_of(simulated_in_scene(scene)):
        if any(is_displayed(obj) and is_displayed_in_draft(obj) != is_in_draft(group) for obj in group.members):
            display_stored_frame_or_hide(group, scene)


def displayed_vertices(obj: bpy.types.Object, scene: bpy.types.Scene) -> Array | None:
    """Return the vertices (v, 3) of the displayed live frame in object space, or None."""
    session = find_session(obj)
    index = min(scene.frame_current, scene.frame_end) - scene.frame_start
    if not is_displayed(obj) or session is None or not 0 <= index < len(session.frames):
        return None
    return session.frames[index].local_vertices.get(obj.session_uid)


def is_displayed(obj: bpy.types.Object) -> bool:
    """Return whether a live frame of the object is displayed in the viewport."""
    modifier = live_modifier(obj)
    return modifier is not None and modifier.show_viewport


def is_displayed_in_draft(obj: bpy.types.Object) -> bool:
    """Return whether the displayed frame of the object was simulated in Draft."""
    return is_displayed(obj) and bool(live_modifier(obj).filepath == frame_file(obj, True))


def remove_display(obj: bpy.types.Object) -> None:
    """Remove the display modifier and its files."""
    for modifier in live_modifiers(obj):
        remove_modifier(obj, modifier)
    for draft in (False, True):
        Path(frame_file(obj, draft)).unlink(missing_ok=True)


def remove_all_displays(is_match: Callable[[bpy.types.Object], object] = live_modifier) -> None:
    """Remove the display of all local mesh objects that have one, or that match."""
    # bpy.data is restricted while Blender starts.
    for obj in getattr(bpy.data, "objects", ()):
        if obj.type == "MESH" and obj.library is None and is_match(obj):
            remove_display(obj)


def drop_session(obj: bpy.types.Object) -> None:
    """Discard the live frames of the object's group and remove the display from the object."""
    for draft in (False, True):
        LiveSessions.current().pop((group_key(obj), draft), None)
    remove_display(obj)
