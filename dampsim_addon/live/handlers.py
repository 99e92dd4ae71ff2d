"""Blender handlers that simulate and display live frames when the frame or the scene changes."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import bpy
from bpy.types import Camera, Light, Material, Scene, Screen, WindowManager, WorkSpace, World

from ..blender.sampler import ACTIVE_SAMPLERS, GroupSampler
from ..model.groups import Group, group_key, groups_of
from ..model.objects import all_simulated, simulated_in_scene
from ..model.registry import frozen_scene, reuse_last_scan
from ..session import OwnUpdates, SessionState, Subscriber, enclose_frame_handlers_of_others
from ..status import results
from ..work.operators import redraw_viewports
from . import display, main_thread
from .frame_visits import FrameVisits, leave_to_blender, record_handled, take_samples
from .live_frame import FrameStatus, is_in_draft
from .liveness import is_live
from .session import LiveSessions, Session, find_session

# Time, s, for which a frame change simulates skipped frames after a jump. The next frame change continues.
TIME_BUDGET = 0.25
# Types of datablocks whose changes never move a vertex.
_NON_GEOMETRY_TYPES = (Scene, Material, World, Light, Camera, WindowManager, Screen, WorkSpace)


@dataclass
class _Updates(SessionState):
    """Progress of updates between handlers.

    is_rendering: True from the first frame of a render to its end.  pending: sessions that need the evaluated scene;
    filled between the pre and post handlers of a frame change.  visits: of that frame change.  hidden_groups: groups
    whose display is hidden meanwhile, so that objects which depend on their meshes are read as animated.
    """

    is_rendering: bool = False
    pending: list[Session] = field(default_factory=list)
    visits: FrameVisits | None = None
    hidden_groups: list[Group] = field(default_factory=list)

    @property
    def is_updating(self) -> bool:
        """Return whether changes to the scene are our own."""
        return OwnUpdates.current().is_running

    @is_updating.setter
    def is_updating(self, value: bool) -> None:
        OwnUpdates.current().is_running = value


def on_frame_change_pre(scene: bpy.types.Scene, depsgraph: Any = None) -> None:
    """Display valid frames. For the other groups, simulate up to this frame and take the samples that precede it."""
    updates = _Updates.current()
    if updates.is_updating or ACTIVE_SAMPLERS:
        return
    # A render started in the window runs in its own thread and waits for the main thread; a script's render runs here.
    rendering = updates.is_rendering or bpy.app.is_job_running("RENDER")
    updates.is_updating = True
    enclose_frame_handlers_of_others()
    view_layer = bpy.context.view_layer
    visits = updates.visits = FrameVisits(scene, view_layer)
    try:
        for session in updates.pending:
            session.sampler.unmute()
        updates.pending.clear()
        if not rendering and bpy.context.scene == scene:
            # Edits by scripts trigger depsgraph_update_post only at the next update.
            updates.is_updating = False
            view_layer.update()
            updates.is_updating = True
        scheduled = []
        with frozen_scene():
            groups = groups_of(simulated_in_scene(scene))
            for group in groups:
                incomplete = _show_or_schedule(group, scene, rendering)
                if incomplete is None or bpy.context.scene != scene:
                    continue
                if any(obj.visible_get(view_layer=view_layer) for obj in group.members):
                    incomplete.sampler = GroupSampler(scene, view_layer, group.members, visits.visit)
                    scheduled.append(incomplete)
        updates.hidden_groups[:] = display.hide_displayed(groups) if scheduled else []
        if scheduled and rendering and not main_thread.is_main_thread():
            main_thread.run_on_main_thread(lambda alive: _simulate_to_frame(scene, scheduled, alive))
        elif scheduled and rendering:
            _simulate_to_frame(scene, scheduled)
        elif scheduled:
            updates.pending.extend(_simulate_before_frame(scene, scheduled))
        if not updates.pending:
            display.show_hidden(updates.hidden_groups)
    finally:
        updates.is_updating = False


def _show_or_schedule(group: Group, scene: bpy.types.Scene, rendering: bool) -> Session | None:
    """Display the current frame of a group, or its animation without the simulation.

    Returns the session if this frame has to be simulated first. rendering: never use Draft.
    """
    if not is_live(group.members[0]):
        display.show_display(group, False)
        return None
    draft, number = is_in_draft(group) and not rendering, min(scene.frame_current, scene.frame_end)
    session = LiveSessions.current().setdefault((group.key, draft), Session(draft))
    session.check_inputs(group, scene)
    status = session.frame_status(group.members[0], scene, number)
    if status is FrameStatus.UNVERIFIED and number == scene.frame_start:
        # Playback begins: sample all frames again.
        session.invalidate()
    elif status.can_be_shown:
        display.display_frame(group, session, scene, number)
        return None
    display.show_display(group, False)
    return session if number >= scene.frame_start and not session.problem else None


def _simulate_before_frame(scene: bpy.types.Scene, scheduled: list[Session]) -> list[Session]:
    """Simulate up to the frame before the current one, and take the samples that precede the current frame.

    Returns the sessions that need the evaluation of the current frame. Their simulated modifiers stay muted.
    """
    number, subframe = min(scene.frame_current, scene.frame_end), scene.frame_subframe
    current_time = (scene.frame_current, subframe)
    deadline = time.monotonic() + TIME_BUDGET
    for session in scheduled:
        session.sampler.mute()
    try:
        if current_time == (scene.frame_start, 0.0):
            # Inputs and samples of the first frame need its evaluation only.
            return scheduled
        pending = [session for session in scheduled if session.attempt(session.read_inputs)]
        while time.monotonic() < deadline:
            first = min((session.next_frame for session in pending), default=number)
            if first >= number:
                break
            late = [session for session in pending if session.next_frame == first]
            sampled = take_samples(late, until=float(first))
            simulated = [session for session in sampled if session.attempt(session.advance)]
            pending = [session for session in pending if session in simulated or session not in late]
        # Past the end or between two frames, the coming evaluation is not at a frame that can be sampled.
        ready = [session for session in pending if session.next_frame == number and current_time == (number, 0.0)]
        for session in pending:
            if session not in ready:
                session.sampler.unmute()
        return take_samples(ready, until=number - 0.5 / 64.0)
    except BaseException:
        # An unexpected error must not leave modifiers muted.
        for session in scheduled:
            session.sampler.unmute()
        raise
    finally:
        # Blender evaluates the frame after this handler.
        leave_to_blender(scene, scheduled[0].sampler.view_layer, *current_time)


def _simulate_to_frame(
    scene: bpy.types.Scene, pending: list[Session], on_frame: Callable[[], None] = lambda: None
) -> None:
    """Simulate up to the current frame without a time limit and show it, for a render.

    on_frame: called after each simulated frame.
    """
    number, current_time = min(scene.frame_current, scene.frame_end), (scene.frame_current, scene.frame_subframe)
    simulated = []
    for session in pending:
        session.sampler.mute()
        try:
            succeeded = session.attempt(session.read_inputs)
            while succeeded and session.next_frame <= number:
                is_sampled = bool(take_samples([session], until=float(session.next_frame)))
                succeeded = is_sampled and session.attempt(session.advance)
                on_frame()
        finally:
            session.sampler.unmute()
            leave_to_blender(scene, session.sampler.view_layer, *current_time)
        if succeeded:
            simulated.append(session)
    # Display only after all groups are read, so that no group reads the displayed shape of another one.
    for session in simulated:
        display.display_frame(session.group, session, scene, number)


def on_frame_change_post(scene: bpy.types.Scene, depsgraph: Any = None) -> None:
    """Take the sample of the evaluated frame, simulate the frame and display it."""
    updates = _Updates.current()
    if updates.is_updating:
        return
    visits, number = updates.visits, scene.frame_current
    updates.visits = None
    record_handled(scene)
    if visits is None or not updates.pending:
        return
    updates.is_updating = True
    pending = list(updates.pending)
    updates.pending.clear()
    try:
        visits.show(number)
        if number == scene.frame_start:
            pending = [session for session in pending if session.attempt(session.read_inputs)]
        # Sample all groups first: a group with keyed substeps visits subframes when it advances.
        sampled = [session for session in pending if session.attempt(partial(session.sample, float(number)))]
        simulated = [session for session in sampled if session.attempt(session.advance)]
        if (scene.frame_current, scene.frame_subframe) != (number, 0.0):
            visits.visit(float(number))
    finally:
        for session in pending:
            session.sampler.unmute()
        display.show_hidden(updates.hidden_groups)
        updates.is_updating = False
    with frozen_scene():
        for session in simulated:
            display.display_frame(session.group, session, scene, number)
            if number == scene.frame_end:
                source = "playback in Draft" if session.draft else "playback"
                for obj in session.group.members:
                    results.store_curve(obj, session.settle_curve(obj), source)


def on_depsgraph_update(scene: bpy.types.Scene, depsgraph: bpy.types.Depsgraph) -> None:
    """Invalidate the live frames after an edit."""
    if _Updates.current().is_updating or ACTIVE_SAMPLERS:
        return
    if all(isinstance(update.id, _NON_GEOMETRY_TYPES) for update in depsgraph.updates):
        return
    with reuse_last_scan():
        group_keys = {group_key(obj) for obj in all_simulated()}
        sessions = LiveSessions.current()
        for key in [key for key in sessions if key[0] not in group_keys]:
            del sessions[key]
        _invalidate_sessions()
        for obj in simulated_in_scene(scene):
            if (display.is_displayed(obj) and display.is_duplicate(obj)) or not is_live(obj):
                display.remove_display(obj)
        display.sync_display(scene)


def on_undo(scene: bpy.types.Scene, depsgraph: Any = None) -> None:
    """Display the stored current frame after an undo, which may change the frame without a frame change handler."""
    _invalidate_sessions()
    with _suppress_edit_tracking(), frozen_scene():
        for group in groups_of(simulated_in_scene(scene)):
            display.display_stored_frame_or_hide(group, scene)


def _invalidate_sessions() -> None:
    sessions = LiveSessions.current().values()
    if any(session.verified for session in sessions):
        # The sidebar shows the status of live frames.
        redraw_viewports()
    for session in sessions:
        session.invalidate()
    results.mark_ghosts_stale()


def on_save_pre(*_: object) -> None:
    """Remove the display before the file is written."""
    with _suppress_edit_tracking():
        display.remove_all_displays()


def on_save_post(*_: object) -> None:
    """Display valid frames again after the file was written."""
    scene = bpy.context.scene
    with _suppress_edit_tracking(), frozen_scene():
        for group in groups_of(all_simulated()):
            session, live = find_session(group.members[0]), is_live(group.members[0])
            if session and live and session.frame_status(group.members[0], scene, scene.frame_current).can_be_shown:
                display.display_frame(group, session, scene, scene.frame_current)


def on_render_init(*_: object) -> None:
    """Simulate the first frame of a render, and notify the user of groups that cannot be simulated."""
    if main_thread.is_main_thread():
        # Edits by scripts trigger depsgraph_update_post only at the next update.
        bpy.context.view_layer.update()
    _Updates.current().is_rendering = True
    scene = bpy.context.scene
    # A still render triggers no frame change.
    on_frame_change_pre(scene)
    sessions = [find_session(group.members[0], render=True) for group in groups_of(simulated_in_scene(scene))]
    problems = {session.problem for session in sessions if session}
    for problem in sorted(problems - {""}):
        main_thread.notify(f"Rendered without simulation: {problem}")


def on_render_end(*_: object) -> None:
    """Return to playback, which may use Draft."""
    _Updates.current().is_rendering = False
    main_thread.post_to_main_thread(_sync_display_after_render)


def _sync_display_after_render() -> None:
    updates = _Updates.current()
    # Switching the display is not an edit.
    updates.is_updating = True
    display.sync_display(bpy.context.scene)
    bpy.context.view_layer.update()
    updates.is_updating = False


@contextlib.contextmanager
def _suppress_edit_tracking() -> Iterator[None]:
    """Context in which changes to the scene are not treated as user edits."""
    updates = _Updates.current()
    bpy.context.view_layer.update()
    updates.is_updating = True
    try:
        yield
    finally:
        bpy.context.view_layer.update()
        updates.is_updating = False


def on_load_post(*_: object) -> None:
    """Remove display modifiers that a file contains if it was saved without our handlers, as after a crash."""
    LiveSessions.current().clear()
    display.remove_all_displays(lambda _: True)


SUBSCRIBER = Subscriber(
    "live",
    {
        "frame_change_pre": on_frame_change_pre,
        "frame_change_post": on_frame_change_post,
        "depsgraph_update_post": on_depsgraph_update,
        "save_pre": on_save_pre,
        "render_init": on_render_init,
        "load_post": on_load_post,
        # Writing a library triggers no save handler.
        "blend_import_post": lambda *_: display.remove_all_displays(display.is_duplicate),
        **dict.fromkeys(("undo_post", "redo_post"), on_undo),
        **dict.fromkeys(("save_post", "save_post_fail"), on_save_post),
        **dict.fromkeys(("render_complete", "render_cancel"), on_render_end),
    },
    is_active=False,
)


def install() -> None:
    """Activate all handlers of live simulation."""
    SUBSCRIBER.is_active = True


def is_installed() -> bool:
    return SUBSCRIBER.is_active


def suspend() -> None:
    """Deactivate the handlers and remove the display. Frames are kept, but have to be verified again."""
    SUBSCRIBER.is_active = False
    display.remove_all_displays()
    for session in LiveSessions.current().values():
        session.invalidate()
    updates = _Updates.current()
    updates.pending, updates.visits, updates.hidden_groups = [], None, []


def uninstall() -> None:
    """Deactivate the handlers and discard all live frames."""
    suspend()
    LiveSessions.current().clear()
