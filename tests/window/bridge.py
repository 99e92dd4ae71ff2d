"""Window test with real events: the links of the sample bridge, then a session with a wire and a box.

The wire and the box are added, pinned, grouped, welded, played, baked and cleared.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import bpy
from mathutils import Quaternion

sys.path.insert(0, str(Path(__file__).parent))
from events import (
    SHOTS,
    addon_module,
    click,
    lower_edge,
    panel_picture,
    picture,
    point,
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

FRAMES = 12
# Pixels from the lower edge of Bake to the header of Links.
HEADER = 178
# Region with the bridge next to the panel, in pixels from the window's upper left corner.
VIEW = (240, 200, 780, 520)


def select(*objects: bpy.types.Object) -> None:
    """Select the objects; the first one becomes active."""
    bpy.ops.object.select_all(action="DESELECT")
    for obj in objects:
        obj.select_set(True)
    bpy.context.view_layer.objects.active = objects[0]


def set_view(place: tuple[float, float, float], distance: float) -> None:
    view = sidebar()[1].spaces.active.region_3d
    view.view_perspective, view.view_location, view.view_distance = "PERSP", place, distance
    view.view_rotation = Quaternion((0.72, 0.53, 0.27, 0.36))


def browser() -> tuple[bpy.types.Window, bpy.types.Area] | None:
    """Return the open file dialog and its window."""
    windows = bpy.context.window_manager.windows
    return next(((w, a) for w in windows for a in w.screen.areas if a.type == "FILE_BROWSER"), None)


def export_by_dialog() -> Iterator[float]:
    """Click Export and Check, confirm the file dialog with Enter, and wait for the checked files."""
    bpy.context.preferences.view.filebrowser_display_type = "SCREEN"
    files = [Path(bpy.data.filepath).with_name(f"bridge_baked{suffix}") for suffix in (".glb", ".fbx")]
    assert not any(path.exists() for path in files)
    yield from click("export(")
    yield from wait_until(lambda: browser() is not None, 10, "the file dialog to open")
    yield 2.0
    shot("13_export_dialog")
    window, area = browser()
    shell("xdotool", "mousemove", str(area.x + area.width // 2), str(window.height - area.y - area.height // 2))
    yield 0.5
    shell("xdotool", "key", "Return")
    yield from wait_until(lambda: browser() is None, 10, "Enter to confirm the dialog")
    yield from wait_until(lambda: all(path.exists() for path in files), 60, "the files of the export")
    yield from wait_until(lambda: not progress().object_name, 60, "the export to end")
    for path in files:
        path.unlink()
    yield 1.5
    shot("14_exported")
    box, wire = (bpy.data.objects[name] for name in ("Cube", "Wire"))
    assert box.dampsim.exported.startswith("glTF 0"), box.dampsim.exported
    # glTF holds no vertices without faces.
    assert "11 vertices belong to no face" in wire.dampsim.exported, wire.dampsim.exported


def bridge() -> Iterator[float]:
    _, area, region = sidebar()
    area.spaces.active.show_region_ui = True
    area.spaces.active.shading.color_type = "MATERIAL"
    for name in ("floor", "axis_x", "axis_y", "cursor", "extras", "relationship_lines", "text"):
        setattr(area.spaces.active.overlay, f"show_{name}", False)
    area.spaces.active.show_gizmo = False
    bpy.context.preferences.system.viewport_aa = "OFF"
    yield 2.0
    region.active_panel_category = "DampSim"
    for obj in bpy.data.objects:
        # Ignore caches that an earlier run left elsewhere.
        obj.dampsim.cache_folder = str(SHOTS / "bridge")
    select(bpy.data.objects["Plank 03"])
    set_view((-1.6, 0.0, 0.9), 3.2)
    yield 2.5
    # A panel header is no button: the header of Links is found below the bake buttons, after scrolling to it.
    yield from scroll(3)
    y = yield from lower_edge("bake()")
    point((0.3, y + HEADER))
    yield 0.3
    shell("xdotool", "click", "1")
    yield 2.5
    shot("10_links")
    picture("welds", *VIEW)
    panel_picture("links", 824)

    scene = bpy.context.window.scene = bpy.data.scenes.new("Bodies")
    scene.frame_start, scene.frame_end = 1, FRAMES
    bpy.ops.mesh.primitive_cube_add(size=0.5)
    box = bpy.context.object
    mesh = bpy.data.meshes.new("Wire")
    count = 11
    mesh.from_pydata([(0.25 + 0.1 * k, 0.0, 0.0) for k in range(count)], [(k, k + 1) for k in range(count - 1)], [])
    wire = bpy.data.objects.new("Wire", mesh)
    scene.collection.objects.link(wire)
    for obj, held in ((box, lambda co: co.z < 0.0), (wire, lambda co: co.x > 1.24)):
        obj.data.polygons.foreach_set("select", [False] * len(obj.data.polygons))
        obj.data.edges.foreach_set("select", [False] * len(obj.data.edges))
        obj.data.vertices.foreach_set("select", [held(vertex.co) for vertex in obj.data.vertices])
    set_view((0.5, 0.0, 0.0), 3.0)
    select(wire, box)
    yield 1.5
    yield from click("add()")
    yield from wait_until(lambda: box.dampsim.enabled, 5, "Add by a click")
    assert (wire.dampsim.kind, box.dampsim.kind) == ("ROPE", "SOLID")
    for obj in (wire, box):
        obj.dampsim.cache_folder = str(SHOTS / "bodies")
        obj.dampsim.resolution = 100
        select(obj)
        yield 1.5
        yield from click("pin()")
        yield from wait_until(lambda obj=obj: obj.dampsim.pin_group == "Pin", 5, "Pin Selected Vertices by a click")
    select(box, wire)
    yield 1.5
    yield from click("together()")
    members = addon_module("dampsim_addon.model.groups").group_of
    yield from wait_until(lambda: len(members(box).members) == 2, 5, "Simulate Together by a click")
    yield 1.5
    yield from click("weld()")
    yield from wait_until(lambda: len(box.dampsim.links) == 1, 5, "Weld Nearby by a click")
    yield 1.0
    shot("11_group")

    box.location.y = 0.0
    box.keyframe_insert("location", frame=1)
    box.location.y = 0.2
    box.keyframe_insert("location", frame=FRAMES)
    live = addon_module("dampsim_addon.live")
    yield from start_playback()
    yield from wait_until(
        lambda: live.find_session(wire) and live.find_session(wire).verified == FRAMES, 60, "the group to play"
    )
    assert live.find_session(wire) is live.find_session(box)
    yield from stop_playback()

    yield 1.0
    yield from click("bake(which='SELECTED')")
    yield from wait_until(lambda: progress().object_name == "Cube, Wire", 10, "Bake to start by a click")
    yield from wait_until(lambda: not progress().object_name, 60, "the bake to end")
    assert wire.dampsim.baked
    assert box.dampsim.baked
    yield 1.5
    shot("12_group_baked")
    yield from export_by_dialog()
    yield from click("clear()")
    yield from wait_until(lambda: not wire.dampsim.baked and not box.dampsim.baked, 5, "Clear All by a click")
    assert wire.data.shape_keys is None
    assert box.data.shape_keys is None


run(bridge(), "bridge")
