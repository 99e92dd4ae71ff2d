"""The clips of the documentation: each is rendered, small enough, and shown on a page."""

from __future__ import annotations

import runpy
from pathlib import Path

import pytest

# Blender itself has no Pillow.
Image = pytest.importorskip("PIL.Image")
ROOT = Path(__file__).resolve().parents[2]
CLIPS = ROOT / "docs" / "images" / "clips"


@pytest.fixture(scope="module")
def tool() -> dict[str, object]:
    return runpy.run_path(str(ROOT / "tools" / "clips.py"), run_name="clips")


def test_every_clip_is_rendered(tool: dict[str, object]) -> None:
    assert {path.stem for path in CLIPS.glob("*.webp")} == set(tool["CLIPS"])
    for name, clip in tool["CLIPS"].items():
        path = CLIPS / f"{name}.webp"
        assert path.stat().st_size <= tool["LARGEST"], name
        with Image.open(path) as picture:
            assert picture.size == (clip.width, clip.height), name
            assert picture.n_frames > 20, name
            assert picture.info["loop"] == 0, name


def test_every_clip_is_shown() -> None:
    pages = "\n".join(page.read_text(encoding="utf-8") for page in (ROOT / "docs").rglob("*.md"))
    assert [path.name for path in sorted(CLIPS.glob("*.webp")) if f"images/clips/{path.name}" not in pages] == []


def test_every_dial_has_a_clip(tool: dict[str, object]) -> None:
    assert {"settle", "bounce", "follow_through", "sag"} <= set(tool["CLIPS"])
