"""Drawing and polling access no disk and factorise no matrix."""

from __future__ import annotations

import builtins
import contextlib
import io
import os
import time
from collections.abc import Callable, Iterator
from itertools import pairwise
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any, NoReturn

import bpy
import numpy as np
import pytest
import scipy.linalg
import scipy.sparse.linalg
from scenes import LAST, new_scene, wobbler
from test_baking import bake

pytestmark = [pytest.mark.bpy, pytest.mark.versions]
Load = Callable[[str], ModuleType]
REDRAWS = 4


class Layout:
    """Layout that accepts every call of a panel and records the texts."""

    def __init__(self, texts: list[str] | None = None) -> None:
        object.__setattr__(self, "texts", [] if texts is None else texts)

    def __setattr__(self, name: str, value: object) -> None:
        pass

    def __getattr__(self, name: str) -> Any:
        def put(*_: object, text: str = "", **__: object) -> Layout:
            self.texts.append(text)
            return self

        return put


class Context:
    """Blender's context with the attributes that only a window provides."""

    def __init__(self) -> None:
        self.region = SimpleNamespace(width=320)
        themes = bpy.context.preferences.themes
        self.preferences = SimpleNamespace(
            system=SimpleNamespace(ui_scale=1.0), themes=themes, ui_styles=bpy.context.preferences.ui_styles
        )

    def __getattr__(self, name: str) -> Any:
        return getattr(bpy.context, name)


@contextlib.contextmanager
def forbid_disk_and_factorisation() -> Iterator[None]:
    """Make disk access and matrix factorisations fail within the block. pytest needs the disk after it."""

    def refuse(*_: object, **__: object) -> NoReturn:
        raise AssertionError("not while drawing")

    with pytest.MonkeyPatch.context() as patched:
        for owner, names in (
            (builtins, ["open"]),
            (io, ["open"]),
            (os, ["stat", "lstat", "scandir", "listdir", "open"]),
            (Path, ["open", "stat", "iterdir", "exists", "is_file", "is_dir", "read_text", "read_bytes", "resolve"]),
            (np.linalg, ["svd", "eigh", "inv", "solve", "pinv", "cholesky"]),
            (scipy.linalg, ["svd", "eigh", "cho_factor"]),
            (scipy.sparse.linalg, ["splu", "eigsh", "factorized", "spsolve"]),
        ):
            for name in names:
                patched.setattr(owner, name, refuse)
        yield


def panels(load: Load) -> list[Any]:
    return list(load("dampsim_addon.ui").PANELS)


def operators(load: Load) -> list[Any]:
    modules = (
        "objects.operators",
        "add.add_operators",
        "objects.group_operators",
        "pins.operators",
        "bake.operators",
        "bake.issue_list",
        "objects.panel",
        "compare.panel",
        "links.panel",
        "contact.operators",
    )
    found = [vars(load(f"dampsim_addon.ui.{module}")) for module in modules]
    return [value for names in found for name, value in names.items() if name.startswith("DAMPSIM_OT_")]


def redraw(load: Load) -> list[str]:
    context, texts = Context(), []
    for panel in panels(load):
        if panel.bl_idname == "DAMPSIM_PT_main" or panel.poll(context):
            panel.draw(SimpleNamespace(layout=Layout(texts)), context)
    for operator in operators(load):
        operator.poll(context)
    return texts


@pytest.mark.parametrize("target", ["SHAPE_KEYS", "POINT_CACHE", ""])
def test_panels_and_polls_avoid_disk(load: Load, live: ModuleType, target: str, tmp_path: Path) -> None:
    scene = new_scene()
    obj = wobbler(tmp_path)
    if target:
        bake(obj, target)
    else:
        steps = load("dampsim_addon.jobs.bake").bake_object(scene, bpy.context.view_layer, obj, True)
        while next(steps).text != "Simulating":
            pass
        next(steps)
        steps.close()
        for frame in range(1, LAST + 1):
            scene.frame_set(frame)
    # The first redraw creates the picture of the curve.
    redraw(load)
    began = time.perf_counter()
    with forbid_disk_and_factorisation():
        for _ in range(REDRAWS):
            texts = redraw(load)
    print(f"{target or 'LIVE'}: {1e3 * (time.perf_counter() - began) / REDRAWS:.2f} ms for a redraw of all panels")
    assert any(text.startswith("Baked: ") for text in texts) == bool(target)
    assert any("of 12 frames are simulated" in text for text in texts) == (not target)
    assert [text[:14] for text in texts if text.startswith("Live: ")] == ([] if target else ["Live: 12 of 12"])


def test_live_status_height_is_constant(load: Load, live: ModuleType, tmp_path: Path) -> None:
    scene = new_scene()
    scene.frame_end = 250
    obj = wobbler(tmp_path)
    for number in range(1, 11):
        scene.frame_set(number)
    layout, line = load("dampsim_addon.ui.common.layout"), load("dampsim_addon.ui.main.live_status")
    # Blender's default sidebar, a narrow and a wide one, and a display of high resolution.
    for width, scale in ((280, 1.0), (230, 1.0), (500, 1.0), (560, 2.0)):
        heights = set()
        for frame, settle in ((10, 8.0), (200, 8.0), (10, 30.0)):
            scene.frame_set(frame) if frame == 10 else scene.frame_set(frame, subframe=0.0)
            obj.dampsim.settle = settle
            texts, context = list[str](), Context()
            context.region.width, context.preferences.system.ui_scale = width, scale
            text, _ = line.live_status_text(obj, context)
            layout.draw_wrapped(Layout(texts), text, "NONE", context, alternatives=line.reserved_texts(scene))
            heights.add(len(texts))
            assert " ".join(texts).strip() == text
            obj.dampsim.settle = 8.0
        assert len(heights) == 1, (width, heights)


def test_viewport_computes_each_state_once(
    load: Load, live: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    scene = new_scene()
    obj = wobbler(tmp_path)
    for name in ("show_rest", "show_cage", "show_pins", "show_worst"):
        setattr(obj.dampsim, name, True)
    bpy.ops.object.empty_add()
    link = obj.dampsim.links.add()
    link.other = bpy.context.object
    link.points.add()
    for frame in range(1, LAST + 1):
        scene.frame_set(frame)
    overlay, drawing = load("dampsim_addon.ui.viewport.overlay"), load("dampsim_addon.ui.common.drawing")
    put: list[Any] = []
    state = SimpleNamespace(**dict.fromkeys(("blend_set", "depth_test_set", "depth_mask_set"), lambda *_: None))
    context = SimpleNamespace(
        scene=scene,
        view_layer=bpy.context.view_layer,
        object=obj,
        space_data=SimpleNamespace(overlay=SimpleNamespace(show_overlays=True)),
        preferences=bpy.context.preferences,
    )
    monkeypatch.setattr(drawing, "gpu", SimpleNamespace(state=state))
    monkeypatch.setattr(overlay, "bpy", SimpleNamespace(context=context))
    for name in ("draw_lines", "draw_points", "draw_text"):
        monkeypatch.setattr(drawing, name, lambda *given, **_: put.append(given))
    overlay.draw_in_scene()
    overlay.draw_labels()
    once = len(put)
    assert once >= 6
    words = next(word for given in put for word in given if isinstance(word, str))
    assert words.startswith("stretched")
    # The vertices nearest to the points of a link are searched once.
    monkeypatch.setattr(load("dampsim_addon.ui.links.overlay"), "_nearest_vertices", None)
    began = time.perf_counter()
    with forbid_disk_and_factorisation():
        for _ in range(REDRAWS):
            overlay.draw_in_scene()
            overlay.draw_labels()
    print(
        f"{1e3 * (time.perf_counter() - began) / REDRAWS:.2f} ms for a redraw of the viewport, but for the card's part"
    )
    assert len(put) == (REDRAWS + 1) * once
    monkeypatch.undo()
    # Another frame has its own state.
    before = overlay.body_view(obj, scene)
    scene.frame_set(5)
    assert overlay.body_view(obj, scene).state is not before.state
    assert overlay.body_view(obj, scene) is overlay.body_view(obj, scene)


def test_external_cache_changes_are_noticed(load: Load, tmp_path: Path) -> None:
    new_scene()
    obj = wobbler(tmp_path)
    on_disk = load("dampsim_addon.model.cache_status")
    bake(obj, "POINT_CACHE")
    assert (on_disk.known_status(obj).frame_count, on_disk.known_status(obj).missing_file) == (LAST, "")
    cache = load("dampsim_addon.model.caches").frame_cache(obj)
    cache.drop_from(8)
    (cache.folder / "bake.pc2").unlink()
    assert on_disk.known_status(obj).frame_count == LAST
    assert on_disk.refresh_status(obj).frame_count == 7
    assert on_disk.known_status(obj).missing_file.endswith("bake.pc2")
    # Changing the folder reads the status of the new cache at once.
    folder, obj.dampsim.cache_folder = obj.dampsim.cache_folder, str(tmp_path / "elsewhere")
    assert on_disk.known_status(obj).is_known
    assert on_disk.known_status(obj).frame_count == 0
    obj.dampsim.cache_folder = folder
    assert on_disk.known_status(obj).frame_count == 7
    path = tmp_path / "scene.blend"
    bpy.ops.wm.save_as_mainfile(filepath=str(path))
    assert on_disk.known_status(obj).frame_count == 7
    bpy.ops.wm.open_mainfile(filepath=str(path))
    assert on_disk.known_status(bpy.data.objects["Wobbler"]).frame_count == 7
    assert bpy.ops.dampsim.clear() == {"FINISHED"}
    assert on_disk.known_status(bpy.data.objects["Wobbler"]) == on_disk.CacheStatus(True)


def test_bake_with_unknown_target(load: Load, tmp_path: Path) -> None:
    """A bake to an unknown target is shown, cannot be exported, and can be cleared."""
    new_scene()
    obj = wobbler(tmp_path)
    obj.dampsim.baked = "HOLOGRAM"
    assert "Baked: HOLOGRAM" in redraw(load)
    with pytest.raises(load("core.base.errors").SceneError, match="bake target 'HOLOGRAM' is unknown"):
        load("dampsim_addon.api").export([obj], tmp_path / "out")
    bake(obj, "POINT_CACHE")
    obj.dampsim.baked = "HOLOGRAM"
    assert bpy.ops.dampsim.clear() == {"FINISHED"}
    assert obj.dampsim.baked == ""


def test_results_end_with_file(load: Load, tmp_path: Path) -> None:
    new_scene()
    obj = wobbler(tmp_path)
    results = load("dampsim_addon.status.results")
    bpy.ops.dampsim.ghost_add()
    bpy.ops.dampsim.compare()
    results.store_curve(obj, results.displayed_curve(obj) or object(), "test")
    assert results.ghosts_of(obj) is not None
    new_scene()
    shown = results._Results.current()
    assert not shown.ghosts
    assert not shown.curves


@pytest.mark.parametrize("width", [40.0, 120.0, 400.0])
def test_text_wraps_between_words(load: Load, width: float) -> None:
    layout = load("dampsim_addon.ui.common.layout")
    text = "Settle was taken over: 22 is now 24.46, which counts from where the WWWWWWWWWWWWWWWWWWWWWWWWWW stops"
    found = layout.wrap_text(text, width, 11.0)
    assert " ".join(found) == text
    # A single word may be wider than the panel.
    assert all(layout._text_width(line, 11.0) <= width for line in found if " " in line)
    both = [f"{one} {other.split()[0]}" for one, other in pairwise(found)]
    assert all(layout._text_width(line, 11.0) > width for line in both)
