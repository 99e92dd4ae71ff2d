"""Window test with real events: play live, bake, stop, resume, clear, calibrate and compare the sample creature."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import bpy
import numpy as np

sys.path.insert(0, str(Path(__file__).parent))
from events import (
    SHOTS,
    addon_module,
    call_menu_entry,
    click,
    panel_picture,
    picture,
    point_at_viewport,
    progress,
    run,
    scroll,
    shell,
    shot,
    sidebar,
    start_playback,
    stop_playback,
    wait_until,
)

FRAMES, RESOLUTION = 40, 5000
# Frames and Settle long enough that work lasts several redraws on any machine before ESC stops it.
LONG_SHOT, LONG_SETTLE = 400, 150.0
# Turns of the wheel from the top of the panel to the settle curve.
TURNS = 12
# Region of the camera frame in the window, in pixels.
CAMERA = (330, 280, 656, 370)


class CallTimer:
    """Total time in wrapped functions, nested calls counted once. worked: CPU time of this thread, s."""

    def __init__(self) -> None:
        self.spent, self.worked, self._depth = 0.0, 0.0, 0

    def wrap(self, function: Callable[..., Any]) -> Callable[..., Any]:
        def timed(*args: Any, **more: Any) -> Any:
            self._depth += 1
            began, worked = time.perf_counter(), time.thread_time()
            try:
                return function(*args, **more)
            finally:
                self._depth -= 1
                if not self._depth:
                    self.spent += time.perf_counter() - began
                    self.worked += time.thread_time() - worked

        return timed


class RedrawRecorder:
    """Recorder of the redraws of the sidebar."""

    def __init__(self) -> None:
        self._times = [time.monotonic()]
        self._handle = bpy.types.SpaceView3D.draw_handler_add(self._record, (), "UI", "POST_PIXEL")

    def _record(self) -> None:
        self._times.append(time.monotonic())

    def stop(self) -> tuple[float, int]:
        """Stop and return the longest time between two redraws, s, and the number of redraws."""
        bpy.types.SpaceView3D.draw_handler_remove(self._handle, "UI")
        self._record()
        return float(np.diff(self._times).max()), len(self._times) - 2


def play_live(creature: bpy.types.Object) -> Iterator[float]:
    """Play the shot once; print the times of DampSim and of its solver, from the second frame on."""
    handlers, session = addon_module("dampsim_addon.live.handlers"), addon_module("dampsim_addon.live.session")
    total, paces = CallTimer(), []
    simulation, stepping = addon_module("core.simulation.simulation"), addon_module("core.steppers.implicit")
    inner = {(simulation.Simulation, "step"): CallTimer(), (stepping.Stepper, "step"): CallTimer()}
    plain = {place: getattr(*place) for place in inner}
    untimed = handlers.SUBSCRIBER.handlers
    timed = {event: total.wrap(untimed[event]) for event in ("frame_change_pre", "frame_change_post")}
    handlers.SUBSCRIBER.handlers = {**untimed, **timed}
    for place, clock in inner.items():
        setattr(*place, clock.wrap(plain[place]))
    yield from start_playback()
    seen = 0
    while seen < FRAMES:
        yield 0.01
        found = session.find_session(creature)
        now = found.verified if found else 0
        assert not (found and found.problem), found.problem
        if now > seen and now > 1:
            paces.append((total.spent, *(clock.spent for clock in inner.values()), total.worked))
        seen = now
    yield from stop_playback()
    for place, function in plain.items():
        setattr(*place, function)
    handlers.SUBSCRIBER.handlers = untimed
    whole, solver, steps, worked = 1000.0 * (np.array(paces)[-1] - np.array(paces)[0]) / (FRAMES - 2)
    count = len(session.find_session(creature).simulation.model_of(creature.name).block.groups[0])
    print(
        f"window: live, {count} tets: {whole:.1f} ms a frame, the solver's own {solver:.1f} ms, ratio "
        f"{whole / solver:.2f} (minimising alone {steps:.1f} ms); without other programs {worked:.1f} ms",
        flush=True,
    )


def play() -> Iterator[float]:
    _window, area, region = sidebar()
    scene = bpy.context.scene
    scene.frame_end = FRAMES
    creature = bpy.data.objects["Creature"]
    creature.dampsim.cache_folder = str(SHOTS / "cache")
    creature.dampsim.resolution = RESOLUTION
    area.spaces.active.show_region_ui = True
    area.spaces.active.shading.type = "MATERIAL"
    area.spaces.active.region_3d.view_perspective = "CAMERA"
    for name in ("floor", "axis_x", "axis_y", "cursor", "extras", "bones", "relationship_lines"):
        setattr(area.spaces.active.overlay, f"show_{name}", False)
    yield 2.0
    region.active_panel_category = "DampSim"
    yield 2.0
    shot("1_panel")

    yield from play_live(creature)
    live = addon_module("dampsim_addon.live")
    session = live.find_session(creature)
    played = [kept.frame for kept in session.frames]
    for name in ("show_cage", "show_pins", "show_worst"):
        setattr(creature.dampsim, name, True)
    scene.frame_set(14)
    yield 1.5
    assert session.frame_status(creature, scene, 14) is live.FrameStatus.VALID
    shot("2_overlay")
    picture("overlay", *CAMERA)
    for name in ("show_cage", "show_pins", "show_worst"):
        setattr(creature.dampsim, name, False)
    scene.frame_set(1)
    yield 1.0

    # The default of a viewport. Without a graphics card, materials take most of a second and antialiasing a part of
    # it; the measured gaps should come from the bake alone.
    area.spaces.active.shading.type = "SOLID"
    smooth = bpy.context.preferences.system.viewport_aa
    bpy.context.preferences.system.viewport_aa = "OFF"
    scene.frame_end = LONG_SHOT
    yield 2.0
    yield from click("bake()")
    yield from wait_until(lambda: progress().object_name == "Creature", 10, "Bake to start by a click")
    yield from wait_until(lambda: "Simulating" in progress().text and progress().factor > 0.05, 120, "some frames")
    shot("3_baking")
    shell("xdotool", "key", "Escape")
    pressed = time.monotonic()
    yield from wait_until(lambda: not progress().object_name, 5, "ESC to stop the bake")
    stopped = time.monotonic() - pressed
    yield 1.0
    shot("4_stopped")
    kept = len(list((SHOTS / "cache").rglob("frame_*.frame")))
    print(f"window: ESC stopped the bake after {stopped:.2f} s, {kept} of {LONG_SHOT} frames kept", flush=True)
    assert 0 < kept < LONG_SHOT, f"{kept} frames kept"
    assert creature.data.shape_keys is None

    yield from click("bake()")
    yield from wait_until(lambda: progress().object_name == "Creature", 10, "Resume to start by a click")
    gaps = RedrawRecorder()
    yield from wait_until(lambda: not progress().object_name, 180, "the bake to end")
    print(
        "window: while baking the longest gap between redraws was {:.2f} s ({} redraws)".format(*gaps.stop()),
        flush=True,
    )
    yield 1.0
    cache = addon_module("dampsim_addon.model.caches").frame_cache(creature)
    assert cache.frame_numbers() == list(range(1, LONG_SHOT + 1))
    for frame in played:
        baked = cache.read(frame.number)
        assert frame.state.positions.tobytes() == baked.state.positions.tobytes(), f"frame {frame.number} differs"
        assert frame.state.velocities.tobytes() == baked.state.velocities.tobytes(), f"frame {frame.number} differs"
    print(f"window: {len(played)} live frames are the baked ones to the bit", flush=True)
    result = creature.dampsim
    assert len(creature.data.shape_keys.key_blocks) == 1 + result.baked_keys < FRAMES / 2
    assert result.baked_part <= result.bound_percent
    print(f"window: {result.baked_keys} keys, {result.baked_size:.2f} MB, {result.baked_part:.3f}% off", flush=True)
    scene.frame_set(20)
    yield 1.0
    shot("5_baked")
    panel_picture("bake", 700)
    yield from call_menu_entry("bake", rebake=True, frame=20)
    yield from wait_until(lambda: progress().object_name == "Creature", 10, "Re-bake to start by a click")
    yield from wait_until(lambda: not progress().object_name, 180, "the bake to end")
    for frame in played:
        assert frame.state.positions.tobytes() == cache.read(frame.number).state.positions.tobytes()
    yield 1.0

    yield from click("clear()")
    yield from wait_until(lambda: creature.data.shape_keys is None, 10, "Clear by a click")
    scene.frame_end = FRAMES
    area.spaces.active.shading.type = "MATERIAL"
    bpy.context.preferences.system.viewport_aa = smooth
    scene.frame_set(1)
    yield 1.0
    shot("6_cleared")
    assert list((SHOTS / "cache").rglob("frame_*.frame")) == []

    settle, creature.dampsim.settle = creature.dampsim.settle, LONG_SETTLE
    yield from click("calibrate()")
    yield from wait_until(lambda: "Releasing" in progress().text, 60, "Calibrate to start by a click")
    shell("xdotool", "key", "Escape")
    yield from wait_until(lambda: not progress().object_name, 5, "ESC to stop the calibration")
    curves = addon_module("dampsim_addon.status.results")
    assert creature.dampsim.calibration == 1.0
    assert curves.displayed_curve(creature) is None
    creature.dampsim.settle = settle
    yield 1.0
    yield from click("calibrate()")
    yield from wait_until(lambda: progress().object_name == "Creature", 10, "Calibrate to start again")
    yield from wait_until(lambda: not progress().object_name, 240, "the calibration to end")
    yield 1.0
    curve = curves.displayed_curve(creature).curve
    print(f"window: calibrated to {creature.dampsim.calibration:.3f}: {curve.summary}", flush=True)
    assert abs(curve.rest - creature.dampsim.settle) <= 1.0
    # The curve and its numbers are below the visible part of the sidebar.
    yield from scroll(TURNS)
    point_at_viewport()
    yield 2.0
    shot("7_curve")
    panel_picture("curve", 824)

    creature.dampsim.live = False
    for settle, bounce in ((8.0, 0.0), (40.0, 60.0)):
        creature.dampsim.settle, creature.dampsim.bounce = settle, bounce
        bpy.ops.dampsim.ghost_add()
    window, area, region = sidebar()
    with bpy.context.temp_override(
        window=window, area=area, region=next(r for r in area.regions if r.type == "WINDOW")
    ):
        bpy.ops.dampsim.compare("INVOKE_DEFAULT")
    yield from wait_until(lambda: progress().object_name == "Creature", 10, "Compare to start")
    yield from wait_until(lambda: not progress().object_name, 240, "the comparison to end")
    area.spaces.active.region_3d.view_perspective = "PERSP"
    area.spaces.active.region_3d.view_location, area.spaces.active.region_3d.view_distance = (2.2, 0.0, 0.5), 9.0
    scene.frame_set(14)
    yield 2.0
    shot("8_ghosts")
    picture("ghosts", 240, 170, 790, 400)

    folder = next(p for p in bpy.utils.preset_paths("interface_theme") if (Path(p) / "Blender_Light.xml").exists())
    bpy.ops.script.execute_preset(
        filepath=str(Path(folder) / "Blender_Light.xml"), menu_idname="USERPREF_MT_interface_theme_presets"
    )
    yield 2.0
    shot("9_light")
    panel_picture("curve_light", 824)


run(play(), "creature")
