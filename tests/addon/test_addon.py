"""Registration, properties, presets, the command line and the Python API."""

from __future__ import annotations

import importlib.util
import json
import os
import re
from collections.abc import Callable
from pathlib import Path
from types import ModuleType

import bpy
import pytest
from scenes import LAST, new_scene, wobbler

pytestmark = [pytest.mark.bpy, pytest.mark.versions]
Load = Callable[[str], ModuleType]


@pytest.mark.skipif(bool(os.environ.get("DAMPSIM_INSTALLED")), reason="the installed extension stays on")
def test_reregistration_leaves_nothing_behind(load: Load) -> None:
    """Unregistering removes properties and panels, and registering again restores them."""
    package = load("")
    for _ in range(2):
        package.unregister()
        assert not hasattr(bpy.types.Object, "dampsim")
        assert not hasattr(bpy.types, "DAMPSIM_PT_main")
        package.register()
        assert hasattr(bpy.types.Object, "dampsim")


@pytest.mark.skipif(not os.environ.get("DAMPSIM_INSTALLED"), reason="the zip is not installed")
def test_installed_extension_loads_its_kernel(load: Load) -> None:
    """The installed extension loads the compiled kernel from its own wheel."""
    path = load("core.native.interface").installed_library()
    assert path is not None
    assert path.parent.name == "dampsim_kernel"
    assert load("core.native.library").load_library() is not None


@pytest.mark.skipif(bool(os.environ.get("DAMPSIM_INSTALLED")), reason="the installed extension stays on")
def test_failed_registration_is_rolled_back(load: Load, monkeypatch: pytest.MonkeyPatch) -> None:
    """A failing registration raises its error and unregisters the earlier classes."""
    package = load("")
    package.unregister()

    def fail() -> None:
        raise OSError("on purpose")

    monkeypatch.setattr(load("dampsim_addon.ui"), "register", fail)
    with pytest.raises(OSError, match="on purpose"):
        package.register()
    assert not hasattr(bpy.types.Object, "dampsim")
    assert not hasattr(bpy.types, "DAMPSIM_OT_bake")
    monkeypatch.undo()
    package.register()


@pytest.mark.skipif(bool(os.environ.get("DAMPSIM_INSTALLED")), reason="the installed extension stays on")
def test_missing_scipy_is_reported(
    load: Load, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Without scipy, a panel says what to install; nothing else is registered, and nothing fails."""
    package = load("")
    package.unregister()
    try:
        with monkeypatch.context() as patch:
            patch.setattr(importlib.util, "find_spec", lambda name: None)
            package.register()
        assert bpy.types.DAMPSIM_PT_notice.bl_category == "DampSim"
        assert not hasattr(bpy.types.Object, "dampsim")
        assert re.fullmatch(r"DampSim needs scipy, .* and Python 3\.\d+ again\.\n", capsys.readouterr().err)
        package.unregister()
        assert not hasattr(bpy.types, "DAMPSIM_PT_notice")
    finally:
        package.register()
    assert hasattr(bpy.types.Object, "dampsim")


def test_parameters_become_properties(load: Load) -> None:
    """Each parameter has a property with its label, description and default."""
    parameters = load("core.scene.parameters")
    new_scene()
    bpy.ops.mesh.primitive_cube_add()
    group = bpy.context.object.dampsim
    for name, parameter in parameters.PARAMETERS.items():
        prop = group.bl_rna.properties[name]
        assert prop.name == parameter.label
        assert prop.description == parameter.description
    settings = load("dampsim_addon.model.properties").read_settings(bpy.context.object)
    assert settings == parameters.Settings()


def test_add_requires_mesh(tmp_path: Path) -> None:
    """Add refuses an empty, and sets the stiffness of a mesh by its sag."""
    new_scene()
    bpy.ops.object.empty_add()
    assert not bpy.ops.dampsim.add.poll()
    obj = wobbler(tmp_path)
    assert bpy.ops.dampsim.remove() == {"FINISHED"}
    assert not obj.dampsim.enabled
    obj.scale *= 10.0
    bpy.context.view_layer.update()
    obj.select_set(True)
    bpy.ops.dampsim.add()
    assert obj.dampsim.stiffness_by == "SAG"


def test_measured_sag_matches_setting(load: Load, tmp_path: Path) -> None:
    """Measure finds the sag that was set. Its result becomes out of date when a setting changes."""
    new_scene()
    obj = wobbler(tmp_path)
    obj.animation_data_clear()
    obj.dampsim.stiffness_by, obj.dampsim.sag = "SAG", 3.0
    assert bpy.ops.dampsim.measure() == {"FINISHED"}
    assert obj.dampsim.measured_sag == pytest.approx(3.0, rel=0.02)
    young = obj.dampsim.measured_young
    holds, scene = load("dampsim_addon.status.measurements").is_measurement_current, bpy.context.scene
    assert holds(obj, scene)
    # Set as a modulus, the same value gives the same sag.
    obj.dampsim.stiffness_by, obj.dampsim.stiffness = "MODULUS", young
    assert not holds(obj, scene)
    assert bpy.ops.dampsim.measure() == {"FINISHED"}
    assert obj.dampsim.measured_sag == pytest.approx(3.0, rel=0.02)
    obj.dampsim.pin_group = ""
    with pytest.raises(RuntimeError, match="Wobbler: not all of it is pinned"):
        bpy.ops.dampsim.measure()


def test_presets_set_distinct_settings(load: Load, tmp_path: Path) -> None:
    """Each preset sets valid and distinct settings."""
    new_scene()
    obj = wobbler(tmp_path)
    read = load("dampsim_addon.model.properties").read_settings
    files = sorted(Path(folder) for folder in bpy.utils.preset_paths("dampsim") if "dampsim_addon" in folder)
    scripts = sorted(path for folder in files for path in folder.glob("*.py"))
    assert len(scripts) >= 10
    seen = set()
    for script in scripts:
        assert bpy.ops.script.execute_preset(filepath=str(script), menu_idname="DAMPSIM_MT_presets") == {"FINISHED"}
        settings = read(obj)
        for line in script.read_text(encoding="utf-8").splitlines():
            name, _, value = line.removeprefix("dampsim.").partition(" = ")
            if line.startswith("dampsim."):
                assert str(getattr(settings, name)) == value.strip('"')
        seen.add(settings)
    assert len(seen) == len(scripts)


def test_user_preset_saved_and_removed(load: Load, tmp_path: Path) -> None:
    new_scene()
    obj = wobbler(tmp_path)
    obj.dampsim.settle, obj.dampsim.poisson = 33.0, 0.31
    # Remove the preset of an earlier run.
    bpy.ops.dampsim.preset_add(name="Test Pudding", remove_name=True)
    assert bpy.ops.dampsim.preset_add(name="Test Pudding") == {"FINISHED"}
    saved = [p for f in bpy.utils.preset_paths("dampsim") for p in Path(f).glob("Test_Pudding.py")]
    assert len(saved) == 1
    obj.dampsim.settle, obj.dampsim.poisson = 10.0, 0.4
    bpy.ops.script.execute_preset(filepath=str(saved[0]), menu_idname="DAMPSIM_MT_presets")
    assert (obj.dampsim.settle, round(obj.dampsim.poisson, 6)) == (33.0, 0.31)
    # Only the chosen material is removed, never the one that was saved last, and none of the add-on's own.
    jelly = next(Path(f) / "jelly.py" for f in bpy.utils.preset_paths("dampsim") if (Path(f) / "jelly.py").is_file())
    assert bpy.ops.dampsim.preset(filepath=str(jelly)) == {"FINISHED"}
    assert not bpy.ops.dampsim.preset_remove.poll()
    assert bpy.ops.dampsim.preset(filepath=str(saved[0])) == {"FINISHED"}
    assert bpy.ops.dampsim.preset_remove() == {"FINISHED"}
    assert not saved[0].exists()
    assert jelly.exists()
    assert obj.dampsim.settle == 33.0
    with pytest.raises(RuntimeError, match="Material 'Test Pudding' has no file any more"):
        bpy.ops.dampsim.preset_remove()


@pytest.fixture
def saved(tmp_path: Path) -> Path:
    new_scene()
    wobbler(tmp_path / "cache")
    path = tmp_path / "scene.blend"
    bpy.ops.wm.save_as_mainfile(filepath=str(path))
    return path


@pytest.mark.slow
def test_cli_bake_saves_file(load: Load, saved: Path, capfd: pytest.CaptureFixture[str]) -> None:
    """The bake command saves, reports and resumes. It refuses a partial re-bake after a change of settings."""
    cli = load("dampsim_addon.cli")
    out, report = saved.with_name("baked.blend"), saved.with_name("report.json")
    code = cli.main(
        ["bake", "--object", "Wobbler", "--frames", "1:6", "--set", "settle=5", "--set", "accuracy=PREVIEW",
         "--target", "point_cache", "--report", str(report), "--output", str(out)]
    )  # fmt: skip
    assert code == cli.DONE
    lines = capfd.readouterr().out
    assert "dampsim: Wobbler: Simulating 6/6" in lines
    bpy.ops.wm.open_mainfile(filepath=str(out))
    obj = bpy.data.objects["Wobbler"]
    assert obj.dampsim.settle == 5.0
    assert "DampSim Cache" in obj.modifiers
    entry = json.loads(report.read_text())
    assert (entry["command"], entry["exit_code"], entry["problem"]) == ("bake", 0, "")
    baked = entry["objects"][0]
    assert (baked["name"], baked["target"], baked["first"], baked["last"]) == ("Wobbler", "POINT_CACHE", 1, 6)
    assert baked["size"] == 32 + 6 * 12 * len(obj.data.vertices)
    assert 0.0 <= baked["error"] < 1e-5
    assert (baked["guards"], baked["hard_steps"]) == ({}, "")
    # A repeated bake has nothing to simulate. A changed setting starts over with a message.
    assert cli.main(["bake"]) == cli.DONE
    assert "Simulating" not in capfd.readouterr().out
    assert cli.main(["bake", "--set", "settle=7"]) == cli.DONE
    assert "Replacing outdated frames: Wobbler: Settle (5, now 7) changed" in capfd.readouterr().out
    assert cli.main(["bake", "--from", "5", "--target", "shape_keys", "--bound", "2%"]) == cli.DONE
    lines = capfd.readouterr().out
    assert (lines.count("Checking"), lines.count("Simulating")) == (4, 2)
    assert bpy.data.objects["Wobbler"].dampsim.bound_percent == 2.0
    assert cli.main(["bake", "--from", "5", "--set", "settle=8"]) == cli.FAILED
    assert "Settle (7, now 8) changed" in capfd.readouterr().err


def test_cli_info_export_clear(load: Load, saved: Path, tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    cli, report = load("dampsim_addon.cli"), tmp_path / "report.json"
    assert cli.main(["info", "--report", str(report)]) == cli.DONE
    assert "0 of 12 frames simulated; not baked" in capfd.readouterr().out
    assert cli.main(["export", "--output", str(tmp_path / "out")]) == cli.USAGE
    assert cli.main(["bake"]) == cli.DONE
    assert cli.main(["info", "--report", str(report)]) == cli.DONE
    entry = json.loads(report.read_text())["objects"][0]
    assert (entry["cached"], entry["baked"], entry["changed"], entry["damaged"]) == (12, "SHAPE_KEYS", [], [])
    assert cli.main(["export", "--format", "gltf", "--output", str(tmp_path / "out"), "--report", str(report)]) == 0
    entry = json.loads(report.read_text())["objects"][0]
    assert Path(entry["path"]).name == "out.glb"
    assert entry["part"] < 1e-4
    assert cli.main(["clear"]) == cli.DONE
    bpy.ops.wm.open_mainfile(filepath=str(saved))
    assert bpy.data.objects["Wobbler"].data.shape_keys is None
    assert not (tmp_path / "cache").exists() or list((tmp_path / "cache").iterdir()) == []


def test_api_bakes_unsaved_file(load: Load, tmp_path: Path) -> None:
    api = load("dampsim_addon.api")
    new_scene()
    obj = wobbler(tmp_path)
    obj.dampsim.enabled = False
    api.add(obj, pin_group="Pin", settle=6.0, cache_folder=str(tmp_path))
    seen = []
    result = api.bake([obj], target="MDD", progress=lambda done, total, text: seen.append((done, total, text)))[0]
    assert (result.problem, result.target, result.last) == ("", "MDD", LAST)
    assert (LAST, LAST, "Simulating") in seen
    assert api.info(obj).cached == LAST
    api.clear([obj])
    assert api.info(obj).cached == 0
    obj.scale.x = 0.0
    bpy.context.view_layer.update()
    assert api.bake([obj])[0].problem.startswith("Wobbler: its scale is zero")


@pytest.mark.parametrize(
    ("properties", "words"),
    [
        ({"setle": 3.0}, "'setle' is not a property; did you mean 'settle'?"),
        ({"settle": "soon"}, "settle: 'soon' is not a number"),
        ({"settle": -1.0}, "settle: -1 frames is outside of its range"),
        ({"accuracy": "tigt"}, "'tigt' is not a choice; did you mean 'TIGHT'?"),
        ({"kind": "clot"}, "'clot' is not a choice; did you mean 'CLOTH'?"),
        ({"pin_group": 3}, "pin_group: 3 is not text"),
        ({"live": "on"}, "live: 'on' is not True or False"),
        ({"curve": "Curve"}, "curve: 'Curve' is not a data-block"),
        ({"links": []}, "links: [] is not a value: add its entries with add()"),
        ({"baked": "MDD"}, "'baked' is not a property"),
    ],
)
def test_api_add_refuses_wrong_properties(load: Load, properties: dict[str, object], words: str) -> None:
    new_scene()
    bpy.ops.mesh.primitive_uv_sphere_add()
    obj = bpy.context.object
    with pytest.raises(load("core").ParameterError, match=re.escape(words)):
        load("dampsim_addon.api").add(obj, bounce=9.0, **properties)
    assert not obj.dampsim.enabled


def test_api_refuses_wrong_objects_and_names(load: Load, tmp_path: Path) -> None:
    api, core = load("dampsim_addon.api"), load("core")
    new_scene()
    empty = bpy.data.objects.new("Empty", None)
    bpy.context.scene.collection.objects.link(empty)
    with pytest.raises(core.MeshError, match="Empty: only meshes can be simulated"):
        api.add(empty)
    bpy.ops.mesh.primitive_uv_sphere_add()
    obj = bpy.context.object
    for call in (
        api.bake,
        api.clear,
        lambda objects: api.info(*objects),
        lambda ones: api.export(ones, tmp_path / "a"),
    ):
        for wrong in (empty, obj):
            with pytest.raises(core.SceneError, match="DampSim does not simulate it"):
                call([wrong])
    api.add(obj)
    with pytest.raises(core.ParameterError, match="'points' is not a bake target"):
        api.bake([obj], target="points")
    with pytest.raises(core.ParameterError, match="did you mean 'GLTF'"):
        api.export([obj], tmp_path / "a", ["glft"])


def test_api_adds_as_button_does(load: Load) -> None:
    """The API chooses kind and defaults as the button does, but keeps given values."""
    api, found = load("dampsim_addon.api"), []
    for use_api in (False, True):
        new_scene()
        bpy.ops.mesh.primitive_grid_add(size=0.3)
        obj = bpy.context.object
        obj.vertex_groups.new(name="pin")
        if use_api:
            assert "simulated as cloth" in api.add(obj)
        else:
            bpy.ops.dampsim.add()
        group = obj.dampsim
        found.append((group.kind, group.pin_group, group.kind_note, group.thickness, group.stiffness, group.density))
    assert found[0] == found[1]
    assert found[0][:2] == ("CLOTH", "pin")
    assert api.add(obj, settle=3.0) == ""
    assert (obj.dampsim.kind, obj.dampsim.settle) == ("CLOTH", 3.0)
    new_scene()
    bpy.ops.mesh.primitive_grid_add()
    api.add(bpy.context.object, stiffness=321.0, kind="solid")
    assert (bpy.context.object.dampsim.kind, bpy.context.object.dampsim.stiffness) == ("SOLID", 321.0)


@pytest.mark.parametrize("vertices", [0, 1, 3])
def test_add_refuses_loose_vertices(load: Load, vertices: int) -> None:
    new_scene()
    mesh = bpy.data.meshes.new("Loose")
    mesh.from_pydata([(k, 0.0, 0.0) for k in range(vertices)], [], [])
    obj = bpy.data.objects.new("Loose", mesh)
    bpy.context.scene.collection.objects.link(obj)
    obj.select_set(True)
    with pytest.raises(RuntimeError, match="Loose: it has neither edges nor faces"):
        bpy.ops.dampsim.add()
    assert not obj.dampsim.enabled


def test_fabric_names_in_any_case(load: Load) -> None:
    new_scene()
    bpy.ops.mesh.primitive_grid_add()
    bpy.ops.dampsim.add()
    assert bpy.ops.dampsim.fabric(fabric="denim") == {"FINISHED"}
    assert load("dampsim_addon.ui.add.add_operators").current_fabric(bpy.context.object.dampsim) == "Denim"
    with pytest.raises(RuntimeError, match="'denm' is not a fabric; did you mean 'Denim'"):
        bpy.ops.dampsim.fabric(fabric="denm")


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["bake", "--object", "Nobody"], "'Nobody' is not a simulated object"),
        (["bake", "--set", "settle=soon"], "settle: 'soon' is not a number"),
        (["bake", "--set", "settle=-1"], "settle: -1 frames is outside of its range"),
        (["bake", "--set", "wobble=1"], "'wobble' is not a parameter; choose another one, such as settle, "),
        (["bake", "--from", "x"], "argument --from: 'x' is not a whole number"),
        (["retime", "--scale", "x"], "argument --scale: 'x' is not a number"),
        (["bake", "--bound", "5"], "--bound 5: give a part of the size as 0.1%, or a length as 1mm"),
        (["bake", "--set", "settle=x"], "dampsim: settle: 'x' is not a number"),
        (["bake", "--set", "settl=3"], "--set settl=3: 'settl' is not a parameter; did you mean 'settle'?"),
        (["bake", "--set", "settle"], "give NAME=VALUE, for example settle=12"),
        (["bake", "--restrat"], "'--restrat' is not an option; did you mean '--restart'?"),
        (["bake", "--object", "Wobler"], "'Wobler' is not a simulated object; did you mean 'Wobbler'?"),
        (["bake", "--frames", "9"], "give FIRST:LAST"),
        (["bake", "--frames", "9:3"], "the last frame must not precede the first"),
        (["bake", "--target", "video"], "'video' is not a bake target; choose one of shape_keys, "),
        (["bake", "--target", "shapekeys"], "did you mean 'shape_keys'?"),
        (["bake", "--bound", "little"], "give a part of the size as 0.1%, or a length as 1mm"),
        (["bake", "--report", "/nowhere/at/all.json"], "give a file in an existing folder"),
        (["bake", "--frames=-4:-2"], "Blender does not allow these frame numbers"),
        (["bake", "--frames", "0:2000000000000"], "Blender does not allow these frame numbers"),
        (["bake", "--output", "/nowhere/at/all.blend"], "the folder does not exist"),
        (["export"], "required"),
        (["cook"], "'cook' is not a command; choose one of bake, "),
        (["bak"], "'bak' is not a command; did you mean 'bake'?"),
        ([], "a command is required; choose one of bake, "),
    ],
)
def test_cli_usage_error_exits_two(
    load: Load, saved: Path, capfd: pytest.CaptureFixture[str], arguments: list[str], words: str
) -> None:
    before = saved.read_bytes()
    assert load("dampsim_addon.cli").main(arguments) == 2
    assert words in capfd.readouterr().err
    assert saved.read_bytes() == before


def test_cli_failed_bake_saves_nothing(load: Load, saved: Path, capfd: pytest.CaptureFixture[str]) -> None:
    before = saved.read_bytes()
    bpy.data.objects["Wobbler"].scale.y = 0.0
    bpy.context.view_layer.update()
    assert load("dampsim_addon.cli").main(["bake"]) == 1
    assert "Wobbler: its scale is zero" in capfd.readouterr().err
    assert saved.read_bytes() == before
