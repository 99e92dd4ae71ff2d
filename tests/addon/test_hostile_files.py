"""Damaged and hostile setups, materials, reports, lists, sweeps and stored texts: one sentence each, no traceback."""

from __future__ import annotations

import contextlib
import json
import random
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

import bpy
import numpy as np
import pytest
from hostile_files import QUICK, SLOW, VALUES, assert_is_sentence, damaged_bytes, hostile_value
from scenes import new_scene, wobbler

pytestmark = [pytest.mark.bpy, pytest.mark.versions]
Load = Callable[[str], ModuleType]
counts = pytest.mark.parametrize("count", [QUICK, pytest.param(SLOW, marks=pytest.mark.slow)])


def hostile_json(value: Any, dice: random.Random) -> bytes:
    """Return the JSON text of a value, damaged or with hostile values."""
    if dice.random() < 0.5:
        return damaged_bytes(json.dumps(value).encode(), dice)
    return json.dumps(hostile_value(value, dice)).encode()


@counts
def test_damaged_setups_are_refused(load: Load, tmp_path: Path, count: int) -> None:
    new_scene()
    obj, setups, dice = wobbler(tmp_path), load("dampsim_addon.scene_reader.setups"), random.Random(1)
    setup = json.loads(setups.setup_text(setups.read_setup(obj)))
    for _ in range(count):
        try:
            found = setups.parse_setup(hostile_json(setup, dice), "setup.json")
        except load("core.base.errors").ParameterError as error:
            assert_is_sentence(str(error))
        else:
            for note in setups.apply_setup(obj, found):
                assert "\n" not in note


@counts
def test_damaged_materials_are_refused(
    load: Load, tmp_path: Path, count: int, capfd: pytest.CaptureFixture[str]
) -> None:
    """A damaged material is refused in one sentence, and its other lines are not run."""
    new_scene()
    obj, presets, dice = wobbler(tmp_path), load("dampsim_addon.model.presets"), random.Random(2)
    content, path = presets.material_scripts()[0].read_bytes(), tmp_path / "wild.py"
    lines = content.decode().splitlines()
    for _ in range(count):
        value = dice.choice(VALUES)
        line = dice.randrange(len(lines))
        wild = [*lines[:line], f"{lines[line].split(' = ')[0]} = {value!r}", *lines[line + 1 :]]
        path.write_bytes(damaged_bytes(content, dice) if dice.random() < 0.5 else "\n".join(wild).encode())
        assert isinstance(presets._material_summary(path), str)
        try:
            assert bpy.ops.dampsim.preset(filepath=str(path)) == {"FINISHED"}
        except RuntimeError as error:
            assert_is_sentence(str(error).removeprefix("Error: ").strip())
        assert np.isfinite(obj.dampsim.sag)
    path.write_text(f"{content.decode()}\nbpy.data.objects['{obj.name}'].name = 'Renamed'\n")
    assert bpy.ops.dampsim.preset(filepath=str(path)) == {"FINISHED"}
    assert obj.name == "Wobbler"
    assert "Traceback" not in capfd.readouterr().err


@counts
def test_damaged_farm_files_are_reported(load: Load, tmp_path: Path, count: int) -> None:
    """A damaged report or list makes a row with a sentence; the rows of the others remain."""
    page, dice = load("dampsim_addon.farm.page"), random.Random(3)
    entry = {"name": "Ball", "target": "PC2", "keys": 0, "size": 5, "error": 0.1, "seconds": 1.0, "problem": "",
             "touched": [], "hard_steps": "", "frames": [1, 8]}  # fmt: skip
    report = {"exit_code": 0, "problem": "", "remarks": [], "objects": [entry], "command": "bake", "seconds": 2.0,
              "made_from": {"version": "1", "asked": {}, "inputs": {}, "outputs": {"a.blend": 3}}}  # fmt: skip
    units = [{"label": "good", "folder": "good"}, {"label": "wild", "folder": "wild"}]
    for name in ("good", "wild"):
        (tmp_path / name).mkdir()
        (tmp_path / name / page.REPORT).write_text(json.dumps(report))
    for _ in range(count):
        (tmp_path / page.UNITS).write_text(json.dumps(units))
        (tmp_path / "wild" / page.REPORT).write_bytes(hostile_json(report, dice))
        if dice.random() < 0.5:
            (tmp_path / page.UNITS).write_bytes(hostile_json(units, dice))
        rows = page.write_page(tmp_path)
        assert rows or not json.loads((tmp_path / page.UNITS).read_text())
        for row in rows:
            if row.problem and "is damaged" in row.problem:
                assert_is_sentence(row.problem)


@counts
def test_damaged_sweep_files_are_ignored(load: Load, tmp_path: Path, count: int) -> None:
    checkpoint, dice = load("dampsim_addon.compare.checkpoint").SweepCheckpoint(tmp_path, "mark"), random.Random(4)
    checkpoint.write(1, {"sag": 1.0, "rest": float("inf")}, None, [np.zeros((4, 3))] * 2)
    path = next(tmp_path.iterdir())
    content = path.read_bytes()
    for _ in range(count):
        path.write_bytes(damaged_bytes(content, dice))
        found = checkpoint.read(1)
        assert found is None or isinstance(found[0], dict)


@counts
def test_damaged_stored_texts_are_ignored(load: Load, tmp_path: Path, count: int) -> None:
    """Texts that a .blend file stores of its bake and its walks are ignored if something else has changed them."""
    scene = new_scene()
    obj, dice = wobbler(tmp_path), random.Random(5)
    changes, walks = load("dampsim_addon.status.bake_changes"), load("dampsim_addon.jobs.walk")
    changes.record_bake_inputs(obj, scene, scene.frame_end)
    group, numbers = obj.dampsim, [{"weights": [], "threshold": 0.5, "delay": 3, "fps": 24.0}]
    group.muscles.add()
    walk = group.walks.add()
    known = [json.loads(text) for text in (group.baked_of, group.baked_from)]
    for _ in range(count):
        group.baked_of, group.baked_from, walk.numbers = (
            hostile_json(value, dice).decode("utf-8", "replace").replace("\0", "") for value in (*known, numbers)
        )
        assert all(isinstance(text, str) for text in changes.changes_since_bake(obj, scene))
        assert np.isfinite([changes.baked_number(obj, label) for label in ("Frame Start", "End", "Settle")]).all()
        if walks.is_compatible_walk(obj, walk):
            walks.apply_walk(obj, walk)
    with contextlib.suppress(RuntimeError):
        bpy.ops.dampsim.bake()
