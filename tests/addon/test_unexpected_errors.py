"""Bugs keep their traceback. Failures of Blender or the disk become messages of one sentence."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import NoReturn

import bpy
import pytest
from scenes import dump, new_scene, wobbler
from test_baking import bake

pytestmark = pytest.mark.bpy
Load = Callable[[str], ModuleType]
# Exceptions that were once mistaken for errors of Blender or the disk.
EXCEPTIONS = [RuntimeError, OSError, AttributeError, ZeroDivisionError]


def raising_function(kind: type[Exception]) -> Callable[..., NoReturn]:
    def blunder(*_: object, **__: object) -> NoReturn:
        raise kind("planted")

    return blunder


@pytest.fixture
def scene(tmp_path: Path) -> Path:
    new_scene()
    wobbler(tmp_path / "cache")
    path = tmp_path / "scene.blend"
    bpy.ops.wm.save_as_mainfile(filepath=str(path))
    return path


def unpin_object() -> None:
    """Unpin the object: a falling body has no static shape, so the first solved step belongs to the shot."""
    bpy.data.objects["Wobbler"].dampsim.pin_group = ""


@pytest.mark.slow
@pytest.mark.parametrize("begin", [lambda: None, unpin_object], ids=["at the start", "in the shot"])
@pytest.mark.parametrize("kind", EXCEPTIONS)
def test_step_bug_propagates_from_bake(
    load: Load, scene: Path, kind: type[Exception], begin: Callable[[], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    begin()
    monkeypatch.setattr(load("core.steppers.implicit").Stepper, "step", raising_function(kind))
    with pytest.raises(kind, match="planted"):
        load("dampsim_addon.api").bake([bpy.data.objects["Wobbler"]])
    with pytest.raises(RuntimeError, match=r"(?s)Traceback.*blunder.*planted"):
        bpy.ops.dampsim.bake()


@pytest.mark.parametrize("kind", EXCEPTIONS)
def test_cli_bug_exits_three(
    load: Load, scene: Path, kind: type[Exception], monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    """A bug ends a command with exit code 3, a traceback and a report, and saves nothing."""
    cli, report, before = load("dampsim_addon.cli"), scene.with_name("report.json"), scene.read_bytes()
    monkeypatch.setattr(load("core.steppers.implicit").Stepper, "step", raising_function(kind))
    assert cli.main(["bake", "--report", str(report)]) == cli.BUG == 3
    said = capfd.readouterr().err
    assert "Traceback (most recent call last)" in said
    assert "in blunder" in said
    assert "This is a bug in DampSim" in said
    entry = json.loads(report.read_text())
    assert (entry["exit_code"], entry["objects"]) == (3, [])
    assert f"{kind.__name__}: planted" in entry["problem"]
    assert scene.read_bytes() == before


def test_bug_in_cli_command(
    load: Load, scene: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    cli = load("dampsim_addon.cli")
    monkeypatch.setattr(load("dampsim_addon.cli.bake_commands"), "chosen_objects", raising_function(RuntimeError))
    assert cli.main(["info"]) == 3
    assert "in blunder" in capfd.readouterr().err


@pytest.mark.parametrize("kind", EXCEPTIONS)
def test_export_bug_restores_scene(
    load: Load, scene: Path, kind: type[Exception], monkeypatch: pytest.MonkeyPatch
) -> None:
    obj = bpy.data.objects["Wobbler"]
    bake(obj, "SHAPE_KEYS")
    bpy.ops.object.empty_add()
    bpy.context.scene.frame_set(5)

    def chosen() -> tuple[list[str], str, int]:
        names = [one.name for one in bpy.context.selected_objects]
        return names, bpy.context.view_layer.objects.active.name, bpy.context.scene.frame_current

    before, selected = dump(), chosen()
    monkeypatch.setattr(load("dampsim_addon.jobs.export.check"), "match_vertices", raising_function(kind))
    with pytest.raises(kind, match="planted"):
        load("dampsim_addon.api").export([obj], scene.with_name("out"), ["GLTF"])
    assert dump() == before
    assert chosen() == selected


@pytest.mark.parametrize(("form", "suffix"), [("GLTF", "glb"), ("FBX", "fbx")])
def test_exporter_failure_message(load: Load, scene: Path, form: str, suffix: str) -> None:
    obj = bpy.data.objects["Wobbler"]
    bake(obj, "SHAPE_KEYS")
    scene.with_name(f"out.{suffix}").mkdir()
    results = load("dampsim_addon.api").export([obj], scene.with_name("out"))
    (failed,) = (one.problem for one in results if one.format == form)
    assert re.search(rf"out\.{suffix}: Blender's .* failed .*another folder", failed)
    # The other format is written.
    assert [one.part < 1e-4 for one in results if one.format != form] == [True]


def test_missing_node_group_message(load: Load, scene: Path) -> None:
    """Blender's glTF exporter fails with an IndexError if the library of a node group is missing."""
    obj = bpy.data.objects["Wobbler"]
    bake(obj, "SHAPE_KEYS")
    material, group = bpy.data.materials.new("Skin"), bpy.data.node_groups.new("Gone", "ShaderNodeTree")
    material.use_nodes = True
    group.interface.new_socket("BSDF", in_out="OUTPUT", socket_type="NodeSocketShader")
    tree = material.node_tree
    node = tree.nodes.new("ShaderNodeGroup")
    node.node_tree = group
    tree.links.new(node.outputs[0], next(one for one in tree.nodes if one.type == "OUTPUT_MATERIAL").inputs[0])
    obj.data.materials.append(material)
    gltf, fbx = load("dampsim_addon.api").export([obj], scene.with_name("out"))
    assert "the node group 'Gone' of the material 'Skin' is missing or has no output; relocate" in gltf.problem
    assert (fbx.part < 1e-4, fbx.problem) == (True, "")


def test_missing_operator_message(load: Load) -> None:
    called = load("dampsim_addon.work.operators").call_operator
    with pytest.raises(
        load("core.base.errors").SceneError, match=r"a\.glb: no export \(.*export_scene\.nothing.*\); mend it"
    ):
        called(bpy.ops.export_scene.nothing, "a.glb: no export", "mend it", filepath="a.glb")


def test_uncreatable_output_message(load: Load, scene: Path, capfd: pytest.CaptureFixture[str]) -> None:
    cli, obj = load("dampsim_addon.cli"), bpy.data.objects["Wobbler"]
    bake(obj, "SHAPE_KEYS")
    below = scene / "below"
    assert cli.main(["export", "--output", str(below / "out")]) == cli.FAILED
    assert f"out: the folder {below} cannot be created" in capfd.readouterr().err
    (taken := scene.with_name("taken.blend")).mkdir()
    assert cli.main(["clear", "--output", str(taken)]) == cli.FAILED
    said = capfd.readouterr().err
    assert f"{taken}: the file cannot be saved" in said
    assert "Traceback" not in said


MODES = ["OBJECT", "EDIT", "SCULPT", "WEIGHT_PAINT"]


@pytest.mark.parametrize("mode", MODES)
def test_operators_work_in_all_modes(load: Load, tmp_path: Path, mode: str) -> None:
    """Each operator that the interface offers works with its default values, or says what is wrong."""
    tracebacks = []
    choices = {"pin_gradient": ("begin", ["TOP", "BOTTOM", "PARENT", "CURSOR", "BONE", "-Y"])}
    for name in dir(bpy.ops.dampsim):
        key, values = choices.get(name, ("", [None]))
        for value in values:
            new_scene(2)
            bpy.ops.mesh.primitive_grid_add(x_subdivisions=2, y_subdivisions=2, rotation=(1.0, 0.0, 0.0))
            obj = bpy.context.object
            obj.dampsim.cache_folder = str(tmp_path)
            bpy.ops.dampsim.add()
            bpy.ops.object.mode_set(mode=mode)
            operator = getattr(bpy.ops.dampsim, name)
            if not operator.poll():
                continue
            try:
                operator(**({key: value} if key else {}))
            except RuntimeError as error:
                tracebacks += [(name, value)] if "Traceback" in str(error) else []
    assert tracebacks == []


@pytest.mark.parametrize("typed", ["", "new/", "."])
def test_setup_without_file_name(load: Load, tmp_path: Path, typed: str) -> None:
    new_scene()
    wobbler(tmp_path)
    (tmp_path / "new").mkdir()
    with pytest.raises(RuntimeError, match=r"Wobbler: the setup has no file name\. Choose a folder and type a name\."):
        bpy.ops.dampsim.setup_save(filepath=typed and f"{tmp_path}/{typed}")
    assert not list(tmp_path.rglob("*.json"))
