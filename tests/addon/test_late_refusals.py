"""Bakes that would fail after the simulation are refused before it, as far as that can be known."""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterator
from pathlib import Path
from types import ModuleType
from typing import NoReturn

import bpy
import pytest
from scenes import new_scene, wobbler
from test_bone_bakes import belly
from test_existing_bones import CHAIN, tail

pytestmark = pytest.mark.bpy
Load = Callable[[str], ModuleType]
ROOT = Path(__file__).resolve().parents[2] / "dampsim_addon"
# Modules that write a bake.
WRITING = [*sorted((ROOT / "targets").glob("*.py")), ROOT / "jobs" / "write.py", ROOT / "jobs" / "curve_bake.py"]
DISK = "a failure of the disk or of Blender's exporter"
# Functions that refuse a bake while it is written, and the check that foresees it, or the reason why none can.
LATE = {
    "bones._require_bone_weights": "boneless",
    "pre_modifier_shapes._solve_offset": "Target.check_motion",
    "write._write_target": "settings of the user that no check knows; the message names them",
    "cache_file.os_errors_as_cache_errors": DISK,
    "cache_file.remove_cache_files": DISK,
    "alembic.attach_modifier": DISK,
    "alembic._export_alembic": DISK,
    "__init__.get_target": "the name is stored in the file, and read before the simulation",
}
# Functions that no bake calls.
OTHER = {"retiming.set_time_scale", "retiming._scale_file"}


def raising_functions(path: Path) -> Iterator[str]:
    """Iterate over the functions of a module that raise a message for the user, but are no checks."""

    def visit(node: ast.AST, function: str) -> Iterator[str]:
        for child in ast.iter_child_nodes(node):
            if isinstance(child, ast.FunctionDef):
                yield from visit(child, child.name)
                continue
            if isinstance(child, ast.Raise) and child.exc is not None:
                called = child.exc.func if isinstance(child.exc, ast.Call) else child.exc
                name = ast.unparse(called)
                is_message = name.endswith("Error") and name not in ("ValueError", "InterruptedError")
                if is_message or name == "_no_shape":
                    yield function
            yield from visit(child, function)

    found = visit(ast.parse(path.read_text(encoding="utf-8")), "")
    return (f"{path.stem}.{name}" for name in dict.fromkeys(found) if not name.lstrip("_").startswith("check"))


def test_late_refusals_are_listed(load: Load) -> None:
    """A new refusal after the simulation needs a check that foresees it, or a reason."""
    found = {name for path in WRITING for name in raising_functions(path)}
    assert found - OTHER == set(LATE)
    checks = load("dampsim_addon.ui.bake.checks").CHECKS
    named = {reason for reason in LATE.values() if " " not in reason}
    assert named <= {*checks, "Target.check_motion"}


def moved_by_constraint(cache: Path) -> bpy.types.Object:
    """Return a mesh that a constraint moves relative to its rig."""
    obj, _ = belly(cache)
    guide = bpy.data.objects.new("Guide", None)
    bpy.context.scene.collection.objects.link(guide)
    for frame, place in ((1, 0.0), (3, 0.5)):
        guide.location.x = place
        guide.keyframe_insert("location", frame=frame)
    constraint = obj.constraints.new("COPY_LOCATION")
    constraint.target, constraint.use_offset = guide, True
    return obj


def scaled_by_strip(cache: Path) -> bpy.types.Object:
    """Return a tail with a bone above the chain that a strip scales unevenly."""
    obj, rig = tail(cache)
    root = rig.pose.bones["root"]
    for frame, scale in ((1, 1.0), (3, 1.5)):
        root.scale.x = scale
        root.keyframe_insert("scale", frame=frame)
    data = rig.animation_data
    strip, slot = data.nla_tracks.new().strips.new("Mine", 1, data.action), data.action_slot
    strip.action_slot, data.action = slot, None
    return obj


def read_by_driver(cache: Path, kind: str = "TRANSFORMS") -> bpy.types.Object:
    """Return a tail with a corrective shape key that a bone of the chain drives."""
    obj, rig = tail(cache)
    obj.shape_key_add(name="Basis")
    key = obj.shape_key_add(name="Bulge")
    key.data[0].co.x += 0.1
    driver = key.driver_add("value").driver
    variable = driver.variables.new()
    variable.type, variable.targets[0].id = kind, rig
    if kind == "TRANSFORMS":
        variable.targets[0].bone_target = CHAIN[1]
    else:
        variable.targets[0].data_path = f'pose.bones["{CHAIN[1]}"].rotation_quaternion[1]'
    driver.expression = variable.name
    return obj


def read_by_path(cache: Path) -> bpy.types.Object:
    return read_by_driver(cache, "SINGLE_PROP")


def cast_to_sphere(cache: Path) -> bpy.types.Object:
    """Return an object whose modifier leaves its vertices no other places than those on a sphere."""
    obj = wobbler(cache)
    cast = obj.modifiers.new("Cast", "CAST")
    cast.factor = 1.0
    obj.modifiers.move(len(obj.modifiers) - 1, 0)
    return obj


CASES = {
    moved_by_constraint: "Torso: it moves relative to its rig",
    scaled_by_strip: "Tail: the bone root is scaled unevenly at frame",
    read_by_driver: 'Tail: the driver of key_blocks["Bulge"].value reads a bone of the bake',
    read_by_path: 'Tail: the driver of key_blocks["Bulge"].value reads a bone of the bake',
    cast_to_sphere: "Wobbler: at frame 1, its modifiers cannot produce the simulated shape",
}


@pytest.mark.parametrize("build", CASES, ids=lambda one: one.__name__)
def test_refused_before_simulation(
    load: Load, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, build: Callable[[Path], bpy.types.Object]
) -> None:
    """Nothing is simulated, and nothing is changed."""

    def simulate(*_: object) -> NoReturn:
        pytest.fail("the simulation has begun")

    monkeypatch.setattr(load("dampsim_addon.jobs.bake"), "prepare_scene", simulate)
    new_scene(4)
    obj = build(tmp_path)
    if build is moved_by_constraint:
        obj.dampsim.target = "BONES"
    bpy.context.view_layer.update()
    keys = obj.data.shape_keys
    (result,) = load("dampsim_addon.api").bake([obj], restart=True)
    assert CASES[build] in result.problem
    assert obj.data.shape_keys == keys
    assert not list(tmp_path.rglob("*.npz"))


@pytest.mark.parametrize("build", [belly, tail], ids=lambda one: one.__name__)
def test_sound_rigs_reach_simulation(
    load: Load,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    build: Callable[[Path], tuple[bpy.types.Object, object]],
) -> None:
    class StartedError(Exception):
        pass

    def simulate(*_: object) -> NoReturn:
        raise StartedError

    monkeypatch.setattr(load("dampsim_addon.jobs.bake"), "prepare_scene", simulate)
    new_scene(4)
    obj, _ = build(tmp_path)
    with pytest.raises(StartedError):
        load("dampsim_addon.api").bake([obj], restart=True)
