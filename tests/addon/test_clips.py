"""The clips of the documentation: each is rendered, small enough, and shown on a page."""

from __future__ import annotations

import runpy
import sys
from collections.abc import Callable
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import bpy
import numpy as np
import pytest

# Blender itself has no Pillow.
Image = pytest.importorskip("PIL.Image")
Load = Callable[[str], ModuleType]
ROOT = Path(__file__).resolve().parents[2]
CLIPS = ROOT / "docs" / "images" / "clips"
# Pages about files, commands, times and lists.
NOTHING_MOVES = {
    "bake-to-a-file", "bake-without-a-window", "copy-a-setup", "install", "limits", "rebake-a-range", "resume-a-bake",
    "run-a-farm", "speed", "troubleshooting",
}  # fmt: skip


@pytest.fixture(scope="module")
def tool() -> dict[str, Any]:
    return runpy.run_path(str(ROOT / "tools" / "clips.py"), run_name="clips")


def test_every_clip_is_rendered(tool: dict[str, Any]) -> None:
    assert {path.stem for path in CLIPS.glob("*.webp")} == set(tool["CLIPS"])
    for name, clip in tool["CLIPS"].items():
        path = CLIPS / f"{name}.webp"
        assert path.stat().st_size <= tool["LARGEST"], name
        with Image.open(path) as picture:
            # Blender may round the edges of a part of the view outwards.
            assert np.abs(np.subtract(picture.size, clip.size)).max() <= 1, name
            # Equal pictures in a row are stored once.
            assert picture.n_frames > 15, name
            assert picture.info["loop"] == 0, name


def test_every_clip_is_shown() -> None:
    pages = "\n".join(page.read_text(encoding="utf-8") for page in (ROOT / "docs").rglob("*.md"))
    assert [path.name for path in sorted(CLIPS.glob("*.webp")) if f"images/clips/{path.name}" not in pages] == []


def test_every_dial_has_a_clip(tool: dict[str, Any], load: Load) -> None:
    assert {*load("core.scene.part").PART_DIALS, "sag", "air"} <= set(tool["CLIPS"])


def test_every_kind_has_a_clip(tool: dict[str, Any], load: Load) -> None:
    """The kinds of the registry are simulated in the samples that the clips show."""
    kinds = set[str]()
    for clip in tool["CLIPS"].values():
        if isinstance(clip.scene, str):
            bpy.ops.wm.open_mainfile(filepath=str(ROOT / "sample_blends" / f"{clip.scene}.blend"))
            meshes = [obj for obj in bpy.context.scene.objects if obj.type == "MESH" and obj.dampsim.enabled]
            assert meshes, clip.scene
            kinds |= {obj.dampsim.kind for obj in meshes}
    assert kinds == {kind.name for kind in load("core").KINDS}


def test_every_guide_shows_a_clip() -> None:
    """How-to guides and explanations show a clip, unless their subject does not move."""
    pages = [*(ROOT / "docs" / "how-to").glob("*.md"), *(ROOT / "docs" / "explanation").glob("*.md")]
    without = {page.stem for page in pages if "/images/clips/" not in page.read_text(encoding="utf-8")}
    assert without == NOTHING_MOVES


def test_number_chooses_one_clip(tool: dict[str, Any], monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """A CI run renders a few frames of the clip that belongs to its commit."""
    rendered = []
    module = tool["main"].__globals__
    monkeypatch.setitem(module, "dampsim", SimpleNamespace(register=lambda: None))
    monkeypatch.setitem(module, "bake", lambda clip, _: rendered.append(clip))
    monkeypatch.setitem(module, "render", lambda clip, _: [Image.new("RGB", clip.size)])
    clips = list(tool["CLIPS"].values())
    for number in (3, 3 + len(clips)):
        arguments = ["--number", str(number), "--step", "12", "--frames", "24", "--out", str(tmp_path)]
        monkeypatch.setattr(sys, "argv", ["clips.py", *arguments])
        assert tool["main"]() == 0
    assert [(one.scene, one.frames, one.step) for one in rendered] == 2 * [(clips[3].scene, (1, 25), 12)]
