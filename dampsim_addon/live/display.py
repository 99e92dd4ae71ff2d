"""Shows positions without touching the mesh: a Mesh Cache modifier that reads the frame at hand from a file.

The file lives in the session's temporary folder and the modifier leaves the scene before it is saved, so that nothing
of it gets into the artist's file.
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
    """Of the frame that is shown. What is in Draft has a file of its own: so the modifier says which it shows."""
    return str(Path(bpy.app.tempdir) / f"dampsim_{obj.session_uid}{'_draft' if draft else ''}.pc2")


def copied(obj: bpy.types.Object) -> bool:
    """Whether the object has the modifier of another one, of which it is a duplicate."""
    modifier = obj.modifiers.get(LIVE)
    return modifier is not None and modifier.filepath not in (path(obj), path(obj, True))


def show(obj: bpy.types.Object, local: Array, draft: bool = False) -> None:
    """Show vertices (v, 3), float32, in the object's space."""
    file = Path(path(obj, draft))
    try:
        file.write_bytes(pc2_header(len(local), 0.0, 1) + local.tobytes())
    except OSError as error:
        raise CacheError(
            f"{obj.name}: the live frame cannot be written to {file.parent} ({error.strerror or error}); "
            "free some space or choose another temporary folder in the preferences."
        ) from error
    modifier = obj.modifiers.get(LIVE)
    if modifier is None:
        modifier = attach(obj, LIVE, "MESH_CACHE")
        play(modifier, "PC2", str(file), 0.0)
    # The artist may have added others since.
    put(obj, modifier)
    if modifier.filepath != str(file):
        modifier.filepath = str(file)
    # The modifier reads the file whenever it is evaluated, and it is at each change of frame.
    modifier.show_viewport = modifier.show_render = True


def hide(obj: bpy.types.Object) -> None:
    """Show the animation alone."""
    modifier = obj.modifiers.get(LIVE)
    if modifier is not None and (modifier.show_viewport or modifier.show_render):
        modifier.show_viewport = modifier.show_render = False


def hide_group(group: Group) -> None:
    """Show the animation of all members alone."""
    for obj in group.members:
        hide(obj)


def hide_shown(groups: Iterable[Group]) -> list[Group]:
    """Show the animation alone of those that are shown; returns them."""
    found = [group for group in groups if any(shown(obj) for obj in group.members)]
    for group in found:
        hide_group(group)
    return found


def reveal(hidden: list[Group]) -> None:
    """Show again what hide_shown() hid; the list is empty then."""
    while hidden:
        for obj in hidden.pop().members:
            modifier = obj.modifiers.get(LIVE)
            if modifier is not None:
                modifier.show_viewport = modifier.show_render = True


def show_frame(group: Group, session: Session, scene: bpy.types.Scene, number: int) -> None:
    """Show a valid frame of a group, and between two frames, what lies between."""
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
    """Show what is kept of the frame at hand, valid or not; whether there is anything that fits the meshes."""
    session, place = find(group.members[0]), scene.frame_current - scene.frame_start
    kept = session.frames[place].locals if session and 0 <= place < len(session.frames) else {}
    if session is None or any(not session.fits(obj) or obj.session_uid not in kept for obj in group.members):
        return False
    show_frame(group, session, scene, scene.frame_current)
    return True


def show_kept_or_hide(group: Group, scene: bpy.types.Scene) -> None:
    """Show what is kept of the frame at hand, or the animation alone."""
    if not is_live(group.members[0]) or not show_kept(group, scene):
        hide_group(group)


def show_as_wanted(scene: bpy.types.Scene) -> None:
    """Show in Draft or in full what is shown otherwise: Draft was switched, or what was rendered is still there."""
    for group in groups_of(simulated_in(scene)):
        if any(shown(obj) and drafted(obj) != in_draft(group) for obj in group.members):
            show_kept_or_hide(group, scene)


def displayed(obj: bpy.types.Object, scene: bpy.types.Scene) -> Array | None:
    """The vertices (v, 3), in the object's space, of the live frame that is shown; None if there is none."""
    session = find(obj)
    place = min(scene.frame_current, scene.frame_end) - scene.frame_start
    if not shown(obj) or session is None or not 0 <= place < len(session.frames):
        return None
    return session.frames[place].locals.get(obj.session_uid)


def shown(obj: bpy.types.Object) -> bool:
    modifier = obj.modifiers.get(LIVE)
    return modifier is not None and modifier.show_viewport


def drafted(obj: bpy.types.Object) -> bool:
    """Whether it is in Draft that the object is shown at this moment."""
    return shown(obj) and obj.modifiers[LIVE].filepath == path(obj, True)


def remove(obj: bpy.types.Object) -> None:
    """Leave nothing behind in the scene."""
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
    """All objects that could show a live shape."""
    # While Blender starts, there is no data yet.
    return [obj for obj in getattr(bpy.data, "objects", ()) if obj.type == "MESH" and obj.library is None]


def drop(obj: bpy.types.Object) -> None:
    """Forget the object's live frames and leave nothing of them in the scene."""
    for draft in (False, True):
        SESSIONS.pop((key_of(obj), draft), None)
    remove(obj)
