"""Display of live frames by a Mesh Cache modifier that reads the current frame from a file; the mesh stays unchanged.

The file is in Blender's temporary folder, and the modifier is removed before saving, so neither gets into the .blend.
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

import bpy

from ...core.arrays import Array
from ...core.errors import CacheError, DampSimError
from ..blender.marks import LIVE
from ..blender.mesh_cache import attach, detach, pc2_header, play, put
from ..scene.groups import Group, groups_of, key_of
from ..scene.objects import simulated_in
from .draft import in_draft
from .kept import Standing
from .liveness import is_live
from .session import SESSIONS, Session, find


def path(obj: bpy.types.Object, draft: bool = False) -> str:
    """Return the path of the displayed frame. Draft has its own file, so that the modifier tells which one it shows."""
    return str(Path(bpy.app.tempdir) / f"dampsim_{obj.session_uid}{'_draft' if draft else ''}.pc2")


def copied(obj: bpy.types.Object) -> bool:
    """Return whether the object is a duplicate and still has the display modifier of the original."""
    modifier = obj.modifiers.get(LIVE)
    return modifier is not None and modifier.filepath not in (path(obj), path(obj, True))


def show(obj: bpy.types.Object, local: Array, draft: bool = False) -> None:
    """Display vertices (v, 3), float32, in object space. Raises CacheError if the file cannot be written."""
    file = Path(path(obj, draft))
    try:
        file.write_bytes(pc2_header(len(local), 0.0, 1) + local.tobytes())
    except OSError as error:
        raise CacheError(
            f"{obj.name}: the live frame cannot be written to {file.parent} ({error.strerror or error}); "
            "free some space, or choose another temporary folder in the preferences."
        ) from error
    modifier = obj.modifiers.get(LIVE)
    if modifier is None:
        modifier = attach(obj, LIVE, "MESH_CACHE")
        play(modifier, "PC2", str(file), 0.0)
    # The user may have added modifiers since.
    put(obj, modifier)
    if modifier.filepath != str(file):
        modifier.filepath = str(file)
    # The modifier is evaluated, and reads the file, at each frame change.
    modifier.show_viewport = modifier.show_render = True


def hide(obj: bpy.types.Object) -> None:
    """Show the animation without the simulation."""
    modifier = obj.modifiers.get(LIVE)
    if modifier is not None and (modifier.show_viewport or modifier.show_render):
        modifier.show_viewport = modifier.show_render = False


def hide_group(group: Group) -> None:
    """Show the animation of all members without the simulation."""
    for obj in group.members:
        hide(obj)


def hide_shown(groups: Iterable[Group]) -> list[Group]:
    """Hide the simulation of the groups that display it. Returns these groups."""
    found = [group for group in groups if any(shown(obj) for obj in group.members)]
    for group in found:
        hide_group(group)
    return found


def reveal(hidden: list[Group]) -> None:
    """Display the groups hidden by hide_displayed() again, and empty the list."""
    while hidden:
        for obj in hidden.pop().members:
            modifier = obj.modifiers.get(LIVE)
            if modifier is not None:
                modifier.show_viewport = modifier.show_render = True


def show_frame(group: Group, session: Session, scene: bpy.types.Scene, number: int) -> None:
    """Display a valid frame of a group, interpolated at a subframe."""
    kept, part = session.frames[number - scene.frame_start], scene.frame_subframe
    following = None
    if part and session.standing(group.members[0], scene, number + 1) is Standing.VALID:
        following = session.frames[number + 1 - scene.frame_start]
    for obj in group.members:
        local = kept.locals[obj.session_uid]
        if following is not None:
            local = (1.0 - part) * local + part * following.locals[obj.session_uid]
        try:
            show(obj, local.astype("<f4"), session.draft)
        except DampSimError as error:
            session.problem = str(error)


def show_kept(group: Group, scene: bpy.types.Scene) -> bool:
    """Display the stored current frame, valid or not. Returns whether there is one that fits the meshes."""
    session, place = find(group.members[0]), scene.frame_current - scene.frame_start
    kept = session.frames[place].locals if session and 0 <= place < len(session.frames) else {}
    if session is None or any(not session.fits(obj) or obj.session_uid not in kept for obj in group.members):
        return False
    show_frame(group, session, scene, scene.frame_current)
    return True


def show_kept_or_hide(group: Group, scene: bpy.types.Scene) -> None:
    """Display the stored current frame if there is one, else the animation without the simulation."""
    if not is_live(group.members[0]) or not show_kept(group, scene):
        hide_group(group)


def show_as_wanted(scene: bpy.types.Scene) -> None:
    """Display Draft or full frames as chosen, after Draft was switched or a render has shown full frames."""
    for group in groups_of(simulated_in(scene)):
        if any(shown(obj) and drafted(obj) != in_draft(group) for obj in group.members):
            show_kept_or_hide(group, scene)


def displayed(obj: bpy.types.Object, scene: bpy.types.Scene) -> Array | None:
    """Return the vertices (v, 3) of the displayed live frame in object space, or None."""
    session = find(obj)
    place = min(scene.frame_current, scene.frame_end) - scene.frame_start
    if not shown(obj) or session is None or not 0 <= place < len(session.frames):
        return None
    return session.frames[place].locals.get(obj.session_uid)


def shown(obj: bpy.types.Object) -> bool:
    """Return whether a live frame of the object is displayed in the viewport."""
    modifier = obj.modifiers.get(LIVE)
    return modifier is not None and modifier.show_viewport


def drafted(obj: bpy.types.Object) -> bool:
    """Return whether the displayed frame of the object was simulated in Draft."""
    return shown(obj) and obj.modifiers[LIVE].filepath == path(obj, True)


def remove(obj: bpy.types.Object) -> None:
    """Remove the display modifier and its files."""
    modifier = obj.modifiers.get(LIVE)
    if modifier is not None:
        detach(obj, modifier)
    for draft in (False, True):
        Path(path(obj, draft)).unlink(missing_ok=True)


def remove_all() -> None:
    for obj in meshes():
        if obj.modifiers.get(LIVE):
            remove(obj)


def meshes() -> list[bpy.types.Object]:
    """Return all local mesh objects of the file."""
    # bpy.data is restricted while Blender starts.
    return [obj for obj in getattr(bpy.data, "objects", ()) if obj.type == "MESH" and obj.library is None]


def drop(obj: bpy.types.Object) -> None:
    """Discard the live frames of the object's group and remove the display from the object."""
    for draft in (False, True):
        SESSIONS.pop((key_of(obj), draft), None)
    remove(obj)
