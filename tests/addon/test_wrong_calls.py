"""Wrong calls of the Python API raise one sentence with the fix, and change nothing."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

import bpy
import pytest
from scenes import LAST, dump, new_scene, wobbler

pytestmark = [pytest.mark.bpy, pytest.mark.versions]
Load = Callable[[str], ModuleType]
Call = Callable[[Any, Any], Any]


def unlinked() -> bpy.types.Object:
    mesh = bpy.data.meshes.new("Far")
    mesh.from_pydata([(0, 0, 0), (1, 0, 0), (0, 1, 0)], [], [(0, 1, 2)])
    return bpy.data.objects.new("Far", mesh)


def removed() -> bpy.types.Object:
    obj = unlinked()
    bpy.data.objects.remove(obj)
    return obj


WRONG_CALLS: tuple[tuple[Call, str, str], ...] = (
    (lambda api, o: api.bakee([o]), "AttributeError", "'bakee' is not a function of the API; did you mean 'bake'?"),
    (lambda api, o: api.bake([o], targt="MDD"), "ParameterError", "'targt' is not an option; did you mean 'target'?"),
    (lambda api, o: api.export([o], "x", formts=[]), "ParameterError", "did you mean 'formats'?"),
    (lambda api, o: api.bake([o], target="mddd"), "ParameterError", "did you mean 'MDD'?"),
    (lambda api, o: api.bake([o], target=5), "ParameterError", "'5' is not a bake target; choose one of SHAPE_KEYS, "),
    (lambda api, o: api.bake([o], restart="no"), "ParameterError", "restart: 'no' is neither True nor False."),
    (lambda api, o: api.bake([o], start="x"), "ParameterError", "start: 'x' is not a whole number."),
    (lambda api, o: api.bake([o], frames=(3,)), "ParameterError", "is not a range; give two frames, such as (1, 48)."),
    (lambda api, o: api.bake([o], frames="1:3"), "ParameterError", "frames: '1:3' is not a range"),
    (lambda api, o: api.bake([o], blend=1), "ParameterError", "blend: 1 is too short; give 2 or more."),
    (lambda api, o: api.bake(o), "SceneError", "is not a list; give a list of objects"),
    (lambda api, o: api.bake(["Wobler"]), "SceneError", "give one, such as bpy.data.objects['Wobbler']."),
    (lambda api, o: api.clear([None]), "SceneError", "None is not an object"),
    (lambda api, o: api.info(removed()), "SceneError", "The object was removed"),
    (lambda api, o: api.add("Wobbler"), "SceneError", "'Wobbler' is not an object; give one, such as bpy.data.objects"),
    (lambda api, o: api.add(o.data), "SceneError", "is not an object"),
    (lambda api, o: api.add(unlinked()), "MeshError", "Far: it is in no scene. Link it to a collection"),
    (lambda api, o: api.add(o, pin_group="Pni"), "ParameterError", "pin_group: 'Pni' is not a vertex group; did you"),
    (lambda api, o: api.add(o, settle=True), "ParameterError", "settle: True is not a number."),
    (lambda api, o: api.add(o, resolution=99.5), "ParameterError", "resolution: 99.5 is not a whole number."),
    (lambda api, o: api.add(o, bound_percent=1e9), "ParameterError", "is outside of its range, 0.0001 to 10."),
    (lambda api, o: api.add(o, fabric="silk"), "ParameterError", "choose another one, such as "),
    (lambda api, o: api.add_part(o, 5), "PinError", "'5' is not a vertex group; choose one of Pin."),
    (lambda api, o: api.export([o], None), "ParameterError", "path: None is not a path."),
    (lambda api, o: api.export([o], ""), "SceneError", "this is a folder; add a file name."),
    (lambda api, o: api.export([o], Path.cwd()), "SceneError", "this is a folder; add a file name."),
    (lambda api, o: api.export([o], "x", "GLFT"), "ParameterError", "'GLFT' is not an export format; did you mean"),
    (lambda api, o: api.export([o], "x", frames=3), "ParameterError", "frames: 3 is not a range"),
    (lambda api, o: api.blend([o], "LAND", "x"), "ParameterError", "frame: 'x' is not a whole number."),
    (lambda api, o: api.rest_by_frame([o], 2.5), "ParameterError", "frame: 2.5 is not a whole number."),
    (lambda api, o: api.retime([o], "fast"), "ParameterError", "scale: 'fast' is not a number."),
    (lambda api, o: api.add_maps([o], -1.0), "ParameterError", "contact_range: -1 is not a length; give 0 or more."),
)


@pytest.mark.parametrize(("call", "kind", "words"), WRONG_CALLS, ids=[case[2] for case in WRONG_CALLS])
def test_wrong_call_is_one_sentence(load: Load, call: Call, kind: str, words: str, tmp_path: Path) -> None:
    new_scene()
    obj = wobbler(tmp_path)
    api, errors = load("dampsim_addon.api"), load("core.base.errors")
    before = dump()
    with pytest.raises(getattr(errors, kind, AttributeError)) as caught:
        call(api, obj)
    assert words in str(caught.value)
    for leftover in [one for one in bpy.data.objects if one.name == "Far"]:
        bpy.data.objects.remove(leftover)
    bpy.data.meshes.remove(bpy.data.meshes["Far"]) if "Far" in bpy.data.meshes else None
    assert dump() == before


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"start": 99}, f"Wobbler: frame 99 is not in the shot; choose one from 1 to {LAST}."),
        ({"start": 5}, "Wobbler: no frame is simulated, so it cannot be re-baked from frame 5."),
        ({"frames": (90, 93)}, f"frames 90 to 93 cannot be re-baked alone; choose a range from frame 2 to {LAST}"),
        ({"frames": (4, 2)}, "Wobbler: frames 4 to 2 cannot be re-baked alone"),
    ],
)  # fmt: skip
def test_wrong_frames_refused_at_once(load: Load, options: dict[str, Any], words: str, tmp_path: Path) -> None:
    """The preparation of a large object takes long."""
    new_scene()
    obj = wobbler(tmp_path)
    steps: list[str] = []
    (result,) = load("dampsim_addon.api").bake([obj], progress=lambda done, total, text: steps.append(text), **options)
    assert words in result.problem
    assert steps == []


@pytest.mark.parametrize("is_beside", [False, True], ids=["chosen folder", "beside the file"])
def test_lost_save_finds_its_frames(load: Load, is_beside: bool, tmp_path: Path) -> None:
    """After a bake that was not saved, the file has no cache name, but its frames are there."""
    new_scene()
    obj = wobbler("" if is_beside else tmp_path / "cache")
    bpy.ops.wm.save_as_mainfile(filepath=str(tmp_path / "shot.blend"))
    api = load("dampsim_addon.api")
    assert [one.problem for one in api.bake([obj])] == [""]
    bpy.ops.wm.open_mainfile(filepath=str(tmp_path / "shot.blend"))
    obj = bpy.data.objects["Wobbler"]
    assert obj.dampsim.cache_id == ""
    stages: set[str] = set()
    (result,) = api.bake([obj], start=5, progress=lambda done, total, text: stages.add(text))
    assert result.problem == ""
    assert "Checking" in stages
    bpy.ops.wm.open_mainfile(filepath=str(tmp_path / "shot.blend"))
    (result,) = api.bake([bpy.data.objects["Wobbler"]], frames=(4, 9), blend=2)
    assert result.problem == ""


def test_export_path_with_suffix(load: Load, tmp_path: Path) -> None:
    new_scene(3)
    obj = wobbler(tmp_path / "cache")
    api = load("dampsim_addon.api")
    assert [one.problem for one in api.bake([obj])] == [""]
    (one,) = api.export([obj], tmp_path / "out.GLB", "gltf")
    assert Path(one.path) == tmp_path / "out.glb"
    assert Path(one.path).is_file()
