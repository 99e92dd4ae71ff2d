"""Primary button of a bake: its label says what the bake will do, and API and command line do the same."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import bpy
import pytest
from scenes import new_scene, wobbler
from test_drawing import Context, Layout

pytestmark = [pytest.mark.bpy, pytest.mark.versions]
Load = Callable[[str], ModuleType]
LAST = 6


def stop_bake(load: Load, obj: bpy.types.Object, frames: int) -> None:
    """Bake, and stop after a number of frames."""
    steps = load("dampsim_addon.jobs.bake").bake_object(bpy.context.scene, bpy.context.view_layer, obj, False)
    for step in steps:
        if step.text == "Simulating" and step.completed == frames:
            break
    steps.close()


def label(load: Load, *objects: bpy.types.Object) -> str:
    return str(load("dampsim_addon.status.next_bake").bake_label(objects, bpy.context.scene))


def test_button_names_next_bake(load: Load, tmp_path: Path) -> None:
    scene = new_scene(LAST)
    obj = wobbler(tmp_path)
    assert label(load, obj) == "Bake"
    stop_bake(load, obj, 2)
    assert label(load, obj) == "Resume at Frame 4"
    obj.dampsim.settle += 1.0
    assert label(load, obj) == "Re-bake"
    with pytest.raises(RuntimeError, match=r"Settle \(8, now 9\) changed .* Press Re-bake"):
        bpy.ops.dampsim.bake(resume=True)
    obj.dampsim.settle -= 1.0
    assert label(load, obj) == "Resume at Frame 4"
    assert bpy.ops.dampsim.bake(resume=True) == {"FINISHED"}
    assert label(load, obj) == "Re-bake"
    scene.frame_end = LAST + 2
    assert label(load, obj) == f"Resume at Frame {LAST + 1}"
    assert bpy.ops.dampsim.clear() == {"FINISHED"}
    assert label(load, obj) == "Bake"
    other = wobbler(tmp_path, "Other")
    assert label(load, obj, other) == "Bake (2 objects)"


class _OperatorLayout(Layout):
    """Layout that records the operators and menus of a panel."""

    def operator(self, name: str, **named: Any) -> Any:
        self.texts.append(name)
        return SimpleNamespace()

    def menu(self, name: str, **named: Any) -> None:
        self.texts.append(name)

    def separator(self, **named: Any) -> None:
        self.texts.append("separator")


def drawn_operators(cls: Any) -> list[str]:
    found: list[str] = []
    cls.draw(SimpleNamespace(layout=_OperatorLayout(found)), Context())
    return found


def test_panel_has_one_bake_button(load: Load, tmp_path: Path) -> None:
    """The panel has one button to bake in every state. Other ways to bake are in the menu beside it."""
    scene = new_scene(LAST)
    obj = wobbler(tmp_path)
    module, states = load("dampsim_addon.ui.bake.panel"), []

    def check() -> None:
        found = drawn_operators(module.DAMPSIM_PT_bake)
        baking = [name for name in found if name in ("dampsim.bake", "DAMPSIM_MT_bake")]
        assert baking == ["dampsim.bake", "DAMPSIM_MT_bake"]
        states.append(label(load, obj))

    check()
    stop_bake(load, obj, 2)
    check()
    assert bpy.ops.dampsim.bake() == {"FINISHED"}
    obj.dampsim.settle += 1.0
    check()
    scene.frame_end = LAST + 2
    check()
    assert states == ["Bake", "Resume at Frame 4", "Re-bake", "Re-bake"]


def test_menu_separates_other_objects(load: Load, tmp_path: Path) -> None:
    """The menu beside the button ends with its last entry, without an empty section."""
    new_scene(LAST)
    wobbler(tmp_path)
    cls = load("dampsim_addon.ui.bake.operators").DAMPSIM_MT_bake
    own = ["dampsim.bake", "dampsim.rebake_range", "dampsim.bake"]
    assert [name for name in drawn_operators(cls) if name] == own
    wobbler(tmp_path, "Other")
    assert [name for name in drawn_operators(cls) if name] == [*own, "separator", "dampsim.bake"]


def test_outdated_resume_is_refused_early(load: Load, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Resume is refused before the preparation, also after changes of keyframes, and Re-bake keeps valid frames."""
    new_scene(LAST)
    obj = wobbler(tmp_path)
    stop_bake(load, obj, 4)
    cache = load("dampsim_addon.model.caches").frame_cache(obj)
    before = {number: cache.read(number).surface.tobytes() for number in cache.frame_numbers()}
    obj.location.x = 3.0
    obj.keyframe_insert("location", frame=5)
    job = load("dampsim_addon.jobs.prepare")
    with monkeypatch.context() as patch:
        patch.setattr(job, "prepare_scene", lambda *_: pytest.fail("the scene was read"))
        with pytest.raises(RuntimeError, match="keyframes of Wobbler changed since the last bake, so it cannot"):
            bpy.ops.dampsim.bake(resume=True)
    assert label(load, obj) == "Re-bake"
    assert bpy.ops.dampsim.bake() == {"FINISHED"}
    after = {number: cache.read(number).surface.tobytes() for number in cache.frame_numbers()}
    assert list(after) == list(range(1, LAST + 1))
    assert [number for number in before if before[number] != after[number]] == [5]


@pytest.mark.parametrize("way", ["button", "api", "cli"])
def test_bake_after_unsaved_session(load: Load, tmp_path: Path, way: str) -> None:
    """An earlier Blender baked another kind and quit without saving: every way to bake starts anew."""
    new_scene(3)
    obj = wobbler(tmp_path / "cache")
    bpy.ops.wm.save_as_mainfile(filepath=str(tmp_path / "quit.blend"))
    assert bpy.ops.dampsim.bake() == {"FINISHED"}
    bpy.ops.wm.open_mainfile(filepath=str(tmp_path / "quit.blend"))
    obj = bpy.data.objects["Wobbler"]
    obj.dampsim.kind = "CLOTH"
    assert obj.dampsim.cache_id == ""
    if way == "button":
        assert bpy.ops.dampsim.bake() == {"FINISHED"}
    elif way == "api":
        assert load("dampsim_addon.api").bake([obj])[0].problem == ""
    else:
        bpy.ops.wm.save_mainfile()
        assert load("dampsim_addon.cli").main(["bake"]) == 0
    assert bpy.data.objects["Wobbler"].dampsim.baked == "SHAPE_KEYS"
    assert load("dampsim_addon.api").info(bpy.data.objects["Wobbler"]).changed == ()


def test_shortened_range_is_up_to_date(load: Load, tmp_path: Path) -> None:
    scene = new_scene(LAST)
    obj = wobbler(tmp_path)
    assert bpy.ops.dampsim.bake() == {"FINISHED"}
    changes = load("dampsim_addon.status.bake_changes").changes_since_bake
    scene.frame_start, scene.frame_end = 2, LAST - 1
    assert changes(obj, scene) == []
    scene.frame_end = LAST + 1
    assert changes(obj, scene) == [f"End {LAST}, now {LAST + 1}"]
    scene.frame_start, scene.frame_end = 0, LAST
    assert changes(obj, scene) == ["Frame Start 1, now 0"]
    obj.dampsim.loop = True
    scene.frame_start, scene.frame_end = 1, LAST - 1
    assert f"End {LAST}, now {LAST - 1}" in changes(obj, scene)


def test_button_label_is_cheap(load: Load, tmp_path: Path) -> None:
    """The panel asks for the label at every redraw, so it must not read the disk."""
    new_scene(3)
    obj = wobbler(tmp_path)
    assert bpy.ops.dampsim.bake() == {"FINISHED"}
    for path in sorted(tmp_path.rglob("*"), reverse=True):
        path.rmdir() if path.is_dir() else path.unlink()
    assert label(load, obj) == "Re-bake"


def test_short_range_is_refused_early(load: Load, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A range that is too short for its blends is refused before a frame is read, by the button and the dialog."""
    scene = new_scene(12)
    wobbler(tmp_path)
    assert bpy.ops.dampsim.bake() == {"FINISHED"}
    monkeypatch.setattr(load("dampsim_addon.jobs.prepare"), "prepare_scene", lambda *_: pytest.fail("read"))
    words = "frames 5 to 8 are too few for blends over 8 frames"
    with pytest.raises(RuntimeError, match=words):
        bpy.ops.dampsim.rebake_range(first=5, last=8)
    scene.use_preview_range, scene.frame_preview_start, scene.frame_preview_end = True, 5, 8
    with pytest.raises(RuntimeError, match=words):
        bpy.ops.dampsim.bake()
