"""Window test with real events: no label is truncated in a sidebar narrower than the default."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from pathlib import Path

import bpy

sys.path.insert(0, str(Path(__file__).parent))
import scenes
from events import SHOTS, addon_module, call_menu_entry, click, point_at_viewport, run, shell, shot, sidebar, wait_until
from truncated_labels import find_truncations, grab_grey

# Difference from the default width of the sidebar, pixels.
NARROWER = 12


def narrow_sidebar() -> Iterator[float]:
    """Drag the sidebar's edge to the right."""
    wanted, system = sidebar()[2].width - NARROWER, bpy.context.preferences.system
    # The edge of an overlapping sidebar is hard to grab.
    system.use_region_overlap = False
    yield 1.0
    for _ in range(4):
        window, _, region = sidebar()
        left, missing = region.x, region.width - wanted
        if not missing:
            break
        y = window.height - (region.y + region.height // 2)
        shell("xdotool", "mousemove", str(left - 40), str(y))
        yield 0.2
        shell("xdotool", "mousemove", str(left), str(y))
        yield 0.3
        shell("xdotool", "mousedown", "1")
        yield 0.3
        for step in range(1, abs(missing) + 1):
            shell("xdotool", "mousemove", str(left + (step if missing > 0 else -step)), str(y))
            yield 0.05
        shell("xdotool", "mouseup", "1")
        yield 0.7
    system.use_region_overlap = True
    yield 1.0
    assert sidebar()[2].width == wanted, f"the sidebar is {sidebar()[2].width} wide, not {wanted}"


def check_labels(name: str) -> Iterator[float]:
    """Add the state to FAILED if a label is truncated."""
    point_at_viewport()
    sidebar()[2].tag_redraw()
    # The panels below may still be moving to their positions.
    yield 1.5
    found = truncated_positions()
    if name.startswith("baked"):
        # The label of Export and Check, which opens a dialog, ends with an ellipsis at this x.
        found = [place for place in found if place[0] != DIALOG_ELLIPSIS]
    shot(f"labels_{LANGUAGE}{name}")
    print(f"window: labels, {name}: {len(found)} cut", flush=True)
    if found:
        TRUNCATED.append(f"{name} at {found}")


TRUNCATED: list[str] = []
DIALOG_ELLIPSIS = 181
# Language of the interface, as Blender's preferences name it; English if empty.
LANGUAGE = os.environ.get("DAMPSIM_LANGUAGE", "")


def truncated_positions() -> list[tuple[int, int]]:
    window, _, region = sidebar()
    return find_truncations(
        grab_grey(region.x, window.height - (region.y + region.height), region.width, region.height)
    )


def select_only(*objects: bpy.types.Object) -> None:
    """Select only these objects; the first one becomes active."""
    for obj in bpy.context.scene.objects:
        obj.select_set(obj in objects)
    bpy.context.view_layer.objects.active = objects[0] if objects else None


def labels() -> Iterator[float]:
    if LANGUAGE:
        bpy.context.preferences.view.language = LANGUAGE
    for obj in list(bpy.data.objects):
        bpy.data.objects.remove(obj)
    _, area, region = sidebar()
    area.spaces.active.show_region_ui = True
    area.spaces.active.show_gizmo = False
    yield 2.0
    region.active_panel_category = "DampSim"
    yield 1.0
    yield from narrow_sidebar()
    scene = scenes.new_scene("labels", 24)

    # Check of the detection itself.
    lamp = scenes.link_object(bpy.data.objects.new("Object", None))
    long = scenes.mesh_object("A name that is longer than any sidebar is wide", scenes.ball(1.0, (0.0, 0.0, 0.0)))
    select_only(long)
    bpy.ops.dampsim.add()
    yield 1.0
    assert truncated_positions(), "a name that is cut is not found"
    bpy.ops.dampsim.remove()
    long.name = "Ball"

    select_only()
    yield from check_labels("nothing")
    select_only(lamp)
    yield from check_labels("no_mesh")
    select_only(scenes.linked_jelly(scene, SHOTS))
    yield from check_labels("linked")
    select_only(scenes.text(scene))
    yield from check_labels("text")
    select_only(long)
    yield from check_labels("mesh")
    yield from click("add()")
    yield 0.5
    yield from check_labels("nothing_holds_it")
    yield from call_menu_entry("pin_gradient", begin="TOP")
    yield 0.5
    yield from check_labels("pinned")
    long.dampsim.stiffness_by = "MODULUS"
    yield from check_labels("young")
    long.dampsim.stiffness_by = "SAG"
    shirt = scenes.shirt(scene)
    select_only(shirt)
    bpy.ops.dampsim.add()
    yield from check_labels("springs")
    select_only(long, shirt)
    yield from check_labels("two_selected")
    bpy.ops.dampsim.together()
    yield from check_labels("together")
    bpy.ops.dampsim.alone()
    head = scenes.half_head(scene)
    select_only(head)
    bpy.ops.dampsim.add()
    yield from check_labels("mirror")
    bpy.ops.dampsim.mend(check="keys", way=0)
    yield from check_labels("subdivision")
    if LANGUAGE:
        # The states below differ in values and messages, which are wrapped.
        assert not TRUNCATED, "; ".join(TRUNCATED)
        return
    select_only(long)
    point_at_viewport()
    live = addon_module("dampsim_addon.live")
    shell("xdotool", "key", "space")
    yield from wait_until(
        lambda: live.find_session(long) and live.find_session(long).verified == scene.frame_end, 60, "it to play"
    )
    shell("xdotool", "key", "Escape")
    yield 1.0
    yield from check_labels("played")
    scene.frame_set(10)
    long.dampsim.settle = 30.0
    yield from check_labels("out_of_date")
    bpy.ops.dampsim.bake()
    yield 1.0
    yield from check_labels("baked")
    scene.gravity[2] = -5.0
    long.dampsim.settle = 12.0
    yield from check_labels("baked_out_of_date")
    assert not TRUNCATED, "; ".join(TRUNCATED)


run(labels(), "labels")
