"""Open Sample: each sample opens as a new file that is ready to play."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from types import ModuleType

import bpy
import pytest
from test_drawing import Context, Layout

pytestmark = [pytest.mark.bpy, pytest.mark.versions]
Load = Callable[[str], ModuleType]
SCENES = Path(__file__).parents[2] / "sample_blends"
OLDEST = (4, 5)


@pytest.fixture
def samples(load: Load) -> ModuleType:
    return load("dampsim_addon.ui.add.add_operators")


def test_each_sample_opens_unsaved(load: Load, samples: ModuleType) -> None:
    """All kinds of bodies are among the samples; none has scripts or other files, and a bake has no folder there."""
    is_simulated = load("dampsim_addon.model.objects").is_simulated
    kinds = set()
    for name in samples.SAMPLES:
        assert bpy.ops.dampsim.open_sample(sample=name) == {"FINISHED"}, name
        assert bpy.data.filepath == "", name
        assert is_simulated(bpy.context.object), name
        # Blender keeps its own library of brushes, if an earlier file was painted on.
        libraries = [one for one in bpy.data.libraries if not one.name.startswith("essentials_")]
        assert [*bpy.data.texts, *libraries, *bpy.data.images] == [], name
        kinds |= {obj.dampsim.kind for obj in bpy.context.scene.objects if is_simulated(obj)}
    assert kinds == {kind.name for kind in load("core").KINDS}


@pytest.mark.parametrize("path", sorted(SCENES.glob("*.blend")), ids=lambda path: path.stem)
def test_oldest_blender_wrote_sample(path: Path) -> None:
    """Older versions warn of data loss when they read files of newer ones, and do not know their render engine."""
    bpy.ops.wm.open_mainfile(filepath=str(path))
    assert bpy.data.version[:2] == OLDEST


def test_missing_sample_is_one_sentence(samples: ModuleType, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(samples, "_FOLDER", tmp_path)
    with pytest.raises(RuntimeError, match=r"Sample Skirt cannot be opened \(.*\); install DampSim again\."):
        bpy.ops.dampsim.open_sample(sample="skirt")


def test_running_job_forbids_samples(load: Load, monkeypatch: pytest.MonkeyPatch) -> None:
    """A bake would lose its scene."""
    operators = load("dampsim_addon.ui.add.add_operators")
    monkeypatch.setattr(operators, "can_start_job", lambda *_: False)
    assert not bpy.ops.dampsim.open_sample.poll()


def test_panel_offers_samples(load: Load, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing is selected in an empty file."""
    bpy.ops.wm.read_homefile(use_empty=True, use_factory_startup=True)
    menus = []
    monkeypatch.setattr(Layout, "operator_menu_enum", lambda _, *names, **__: menus.append(names), raising=False)
    load("dampsim_addon.ui.main.panel").draw_add(Layout(), Context())
    assert menus == [("dampsim.open_sample", "sample")]
