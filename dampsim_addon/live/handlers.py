"""Blender handlers that simulate and display live frames when the frame or the scene changes."""

from __future__ import annotations

from functools import partial
from typing import Any

import bpy
from bpy.app.handlers import persistent

from ..blender.handlers import unwatch, watch
from ..blender.sampler import SAMPLING, GroupSampler
from ..blender.views import redraw
from ..scene import results
from ..scene.groups import Group, groups_of, key_of
from ..scene.objects import everywhere, simulated_in
from ..scene.registry import resting, trusting
from . import display, waiting_render
from .catching_up import Waiting, catch_up, guarded, prepare
from .draft import in_draft
from .kept import Standing
from .liveness import is_live
from .session import SESSIONS, Session, find

# Types of datablocks whose changes never move a vertex.
_HARMLESS = (
    bpy.types.Scene,
    bpy.types.Material,
    bpy.types.World,
    bpy.types.Light,
    bpy.types.Camera,
    bpy.types.WindowManager,
    bpy.types.Screen,
    bpy.types.WorkSpace,
)

_working = False
# True from the first frame of a render to its end.
_rendering = False
# Groups that need the evaluated scene; filled between the pre and post handlers of a frame change.
_waiting: list[Waiting] = []
# Groups whose display is hidden meanwhile, so that objects which depend on their meshes are read as animated.
_beside: list[Group] = []


def _session(group: Group, rendering: bool) -> Session:
    draft = in_draft(group) and not rendering
    return SESSIONS.setdefault((group.key, draft), Session(draft))


@persistent
def before_frame(scene: bpy.types.Scene, depsgraph: Any = None) -> None:
    """Display valid frames. For the other groups, simulate up to this frame and take the samples that precede it."""
    global _working
    if _working or SAMPLING:
        return
    # A render started in the window runs in its own thread and waits for the main thread; a script's render runs here.
    rendering = _rendering or bpy.app.is_job_running("RENDER")
    _working = True
    try:
        for _, _, sampler in _waiting:
            sampler.unmute()
        _waiting.clear()
        view_layer = bpy.context.view_layer
        if not rendering and bpy.context.scene == scene:
            # Edits by scripts trigger depsgraph_update_post only at the next update.
            _working = False
            view_layer.update()
            _working = True
        todo = []
        with resting():
            groups = groups_of(simulated_in(scene))
            for group in groups:
                session = _shown(group, scene, rendering)
                if session is None or bpy.context.scene != scene:
                    continue
                if any(obj.visible_get(view_layer=view_layer) for obj in group.members):
                    todo.append((group, session, GroupSampler(scene, view_layer, group.members)))
        _beside[:] = display.hide_shown(groups) if todo else []
        if todo and rendering and not waiting_render.here():
            waiting_render.done_there(lambda alive: catch_up(scene, todo, alive))
        elif todo and rendering:
            catch_up(scene, todo)
        elif todo:
            _waiting.extend(prepare(scene, todo))
        if not _waiting:
            display.reveal(_beside)
    finally:
        _working = False


def _shown(group: Group, scene: bpy.types.Scene, rendering: bool) -> Session | None:
    """Display the current frame of a group, or its animation without the simulation.

    Returns the session if this frame has to be simulated first. rendering: never use Draft.
    """
    if not is_live(group.members[0]):
        display.hide_group(group)
        return None
    session, number = _session(group, rendering), min(scene.frame_current, scene.frame_end)
    session.look(group, scene)
    if session.standing(group.members[0], scene, number) is Standing.VALID:
        display.show_frame(group, session, scene, number)
        return None
    display.hide_group(group)
    return session if number >= scene.frame_start and not session.problem else None


@persistent
def after_frame(scene: bpy.types.Scene, depsgraph: Any = None) -> None:
    """Take the sample of the evaluated frame, simulate the frame and display it."""
    global _working
    if _working or not _waiting:
        return
    _working = True
    waiting = list(_waiting)
    _waiting.clear()
    number = scene.frame_current
    try:
        # Sample all groups first: a group with keyed substeps visits subframes when it advances.
        read = [one for one in waiting if guarded(one[1], partial(one[1].sample, float(number)), one[2])]
        done = [(group, session) for group, session, sampler in read if guarded(session, session.advance, sampler)]
        if (scene.frame_current, scene.frame_subframe) != (number, 0.0):
            scene.frame_set(number)
    finally:
        for _, _, sampler in waiting:
            sampler.unmute()
        display.reveal(_beside)
        _working = False
    with resting():
        for group, session in done:
            display.show_frame(group, session, scene, number)
            if number == scene.frame_end:
                for obj in group.members:
                    source = "playback in Draft" if session.draft else "playback"
                    results.keep_curve(obj, session.curve(obj), source)


@persistent
def after_update(scene: bpy.types.Scene, depsgraph: bpy.types.Depsgraph) -> None:
    """Invalidate the live frames after an edit."""
    if _working or SAMPLING:
        return
    if all(isinstance(update.id, _HARMLESS) for update in depsgraph.updates):
        return
    with trusting():
        there = {key_of(obj) for obj in everywhere()}
        for key in [key for key in SESSIONS if key[0] not in there]:
            del SESSIONS[key]
        _touch()
        for obj in simulated_in(scene):
            if (display.shown(obj) and display.copied(obj)) or not is_live(obj):
                display.remove(obj)
        display.show_as_wanted(scene)


@persistent
def after_undo(scene: bpy.types.Scene, depsgraph: Any = None) -> None:
    """Display the stored current frame after an undo, which may change the frame without a frame change handler."""
    _touch()
    with _Unseen(), resting():
        for group in groups_of(simulated_in(scene)):
            display.show_kept_or_hide(group, scene)


def _touch() -> None:
    if any(session.verified for session in SESSIONS.values()):
        # The sidebar shows the status of live frames.
        redraw()
    for session in SESSIONS.values():
        session.touch()
    results.mark_stale()


@persistent
def before_save(*_: object) -> None:
    """Remove the display before the file is written."""
    with _Unseen():
        display.remove_all()


@persistent
def after_save(*_: object) -> None:
    """Display valid frames again after the file was written."""
    scene = bpy.context.scene
    with _Unseen(), resting():
        for group in groups_of(everywhere()):
            session, live = find(group.members[0]), is_live(group.members[0])
            if session and live and session.standing(group.members[0], scene, scene.frame_current) is Standing.VALID:
                display.show_frame(group, session, scene, scene.frame_current)


@persistent
def before_render(*_: object) -> None:
    """Simulate the first frame of a render, and notify the user of groups that cannot be simulated."""
    global _rendering
    if waiting_render.here():
        # Edits by scripts trigger depsgraph_update_post only at the next update.
        bpy.context.view_layer.update()
    _rendering = True
    scene = bpy.context.scene
    # A still render triggers no frame change.
    before_frame(scene)
    shown = [find(group.members[0], render=True) for group in groups_of(simulated_in(scene))]
    problems = {session.problem for session in shown if session}
    for problem in sorted(problems - {""}):
        waiting_render.tell(f"Rendered without simulation: {problem}")


@persistent
def after_render(*_: object) -> None:
    """Return to playback, which may use Draft."""
    global _rendering
    _rendering = False
    waiting_render.afterwards(_show_after_render)


def _show_after_render() -> None:
    global _working
    # Switching the display is not an edit.
    _working = True
    display.show_as_wanted(bpy.context.scene)
    bpy.context.view_layer.update()
    _working = False


class _Unseen:
    """Context in which changes to the scene are not treated as user edits."""

    def __enter__(self) -> None:
        global _working
        bpy.context.view_layer.update()
        _working = True

    def __exit__(self, *_: object) -> None:
        global _working
        bpy.context.view_layer.update()
        _working = False


@persistent
def before_load(*_: object) -> None:
    """Discard all live frames before another file is loaded."""
    SESSIONS.clear()
    _waiting.clear()
    _beside.clear()


@persistent
def after_load(*_: object) -> None:
    """Remove display modifiers that a file contains if it was saved without our handlers, as after a crash."""
    SESSIONS.clear()
    for obj in display.meshes():
        display.remove(obj)


@persistent
def after_import(*_: object) -> None:
    """Remove display modifiers of appended objects: writing a library triggers no save handler."""
    for obj in display.meshes():
        if display.copied(obj):
            display.remove(obj)


_HANDLERS = {
    "frame_change_pre": before_frame,
    "frame_change_post": after_frame,
    "depsgraph_update_post": after_update,
    "undo_post": after_undo,
    "redo_post": after_undo,
    "save_pre": before_save,
    "save_post": after_save,
    "save_post_fail": after_save,
    "render_init": before_render,
    "render_complete": after_render,
    "render_cancel": after_render,
    "load_pre": before_load,
    "load_post": after_load,
    "blend_import_post": after_import,
}


def install() -> None:
    """Register all handlers of live simulation."""
    waiting_render.register()
    watch(_HANDLERS)


def installed() -> bool:
    return before_frame in bpy.app.handlers.frame_change_pre


def detach() -> None:
    """Unregister the handlers and remove the display. Frames are kept, but have to be verified again."""
    waiting_render.unregister()
    unwatch(_HANDLERS)
    display.remove_all()
    for session in SESSIONS.values():
        session.touch()
    _waiting.clear()
    _beside.clear()


def uninstall() -> None:
    """Unregister the handlers and discard all live frames."""
    detach()
    SESSIONS.clear()
