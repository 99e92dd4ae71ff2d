"""Damaged and hostile setups, materials, reports, lists, sweeps and stored texts: one sentence each, no traceback."""

from __future__ import annotations

import contextlib
import hashlib
import importlib
import json
import os
import random
import re
import signal
import sys
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

import bpy
import numpy as np
import pytest
from hostile_files import QUICK, SLOW, VALUES, assert_is_sentence, damaged_bytes, hostile_arrays, hostile_value
from scenes import armature, new_scene, wobbler
from test_baking import bake

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
    curve = load("core").SettleCurve(np.ones(4), np.ones(4), np.ones(4), None, 24.0, float("inf"), 0.3, 0.2)
    checkpoint.write(1, {"sag": 1.0, "rest": float("inf")}, curve, [np.zeros((4, 3))] * 2)
    path = next(tmp_path.iterdir())
    content = path.read_bytes()
    for _ in range(count):
        path.write_bytes(dice.choice([damaged_bytes, hostile_arrays])(content, dice))
        found = checkpoint.read(1)
        if found is not None:
            row, found_curve, shapes = found
            assert all(isinstance(value, str | int | float | None) for value in row.values())
            assert np.isfinite(np.array(shapes).reshape(-1, 3)).all()
            assert found_curve is None or (found_curve.summary and found_curve.has_missed_dial in (True, False))


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
    landing = load("dampsim_addon.targets.landing")
    for _ in range(count):
        group.baked_of, group.baked_from, walk.numbers, group.blended_frames = (
            hostile_json(value, dice).decode("utf-8", "replace").replace("\0", "")
            for value in (*known, numbers, [[1.0, 0.0], [8.0, 1.0]])
        )
        assert not any("\n" in text for text in changes.changes_since_bake(obj, scene))
        assert np.isfinite(np.array(landing.stored_weights(obj))).all()
        assert np.isfinite([muscle.threshold for muscle in group.muscles]).all()
        assert np.isfinite([changes.baked_number(obj, label) for label in ("Frame Start", "End", "Settle")]).all()
        if walks.is_compatible_walk(obj, walk):
            walks.apply_walk(obj, walk)
    with contextlib.suppress(RuntimeError):
        bpy.ops.dampsim.bake()


RECORD_VALUES: list[Any] = [
    0, -1, 1.5, float("nan"), float("inf"), "", "x", b"", b"\xff" * 7, bytes(400), [1, 2], {"a": 1},
    "[" * 5000, "{}", "null",
]  # fmt: skip


@counts
def test_damaged_bone_records_are_ignored(load: Load, tmp_path: Path, count: int) -> None:
    """Records of bakes to bones, in the mesh and in pose bones, are ignored if something else has changed them."""
    new_scene()
    obj, dice = wobbler(tmp_path), random.Random(6)
    records, rig = load("dampsim_addon.blender.bone_bakes"), armature(obj)
    weights: Any = [[("low", 1.0)], [("low", 0.5)]]
    known = records.BoneRecord("m", {"own": "low"}, len(obj.data.vertices), [0, 1], weights, weights[::-1])
    records.write_record(obj.data, known)
    name = next(iter(obj.data.keys()))
    stored = obj.data[name].to_dict()
    bone = rig.pose.bones["low"]
    records.keep_pose(bone, "m", ["location", "scale"])
    pose_name = next(iter(bone.keys()))
    for _ in range(count):
        changed = dict(stored)
        key = dice.choice(list(changed))
        if key == "head" and dice.random() < 0.7:
            text = hostile_json(json.loads(stored["head"]), dice).decode("utf-8", "replace").replace("\0", "")
            changed[key] = text[:100_000]
        elif isinstance(changed[key], bytes) and dice.random() < 0.7:
            changed[key] = damaged_bytes(changed[key], dice)
        else:
            changed[key] = dice.choice(RECORD_VALUES)
        obj.data[name] = changed
        assert isinstance(records.record_mark(obj.data), str)
        found = records.read_record(obj.data)
        if found is not None:
            records.unmute_bone_weights(obj, records.mute_bone_weights(obj))
            records.restore_groups(obj, found, [])
            records.restore_weights(obj, found)
            assert np.isfinite([one.weight for vertex in obj.data.vertices for one in vertex.groups]).all()
        place: Any = dice.choice([[float("nan")] * 3, ["a", "b", "c"], [1.0, 2.0], [1, 2, 3], {"a": 1}, "x", 3.0])
        bone[pose_name] = {"mark": dice.choice(["m", 5, [1]]), dice.choice(["location", "scale", "x"]): place}
        records.restore_poses(rig, "m")
        assert np.isfinite([*bone.location, *bone.scale]).all()


SHOTS = """frames = "1:8"
target = "PC2"
[set]
settle = 6
[[shots]]
file = "a.blend"
name = "sh010"
objects = ["Tail", "Ears"]
wedges = { bounce = [10, 20], settle = 4 }
[[shots]]
file = "b.blend"
pictures = 2
"""


@counts
def test_damaged_shot_lists_are_refused(load: Load, tmp_path: Path, count: int) -> None:
    """A damaged list is refused in one sentence; the folders of accepted ones are in the output folder."""
    shots, dice, path, out = load("dampsim_addon.farm.shots"), random.Random(7), tmp_path / "list.toml", tmp_path
    values = ['""', "nan", "1e400", "-0.0", "[[]]", "{}", "true", "1979-05-27", '"../../x"', '"=1+1"', '"CON"', '"-x"',
              '"\\u202e"', '"1:2:3"', "{ a = { b = 1 } }", '"a\\nb"', "[3]", "99999999999999999999"]  # fmt: skip
    for _ in range(count):
        lines = SHOTS.splitlines()
        number = dice.choice([k for k, line in enumerate(lines) if " = " in line])
        lines[number] = f"{lines[number].split(' = ')[0]} = {dice.choice(values)}"
        changed = damaged_bytes(SHOTS.encode(), dice) if dice.random() < 0.5 else "\n".join(lines).encode()
        path.write_bytes(changed)
        try:
            units = shots.units_from_list(path, {}, out)
        except load("core").DampSimError as error:
            assert_is_sentence(str(error))
        else:
            for unit in units:
                assert out in unit.folder.parents
                assert ".." not in unit.folder.parts
                assert "\n" not in unit.label


@counts
def test_damaged_vertex_textures_are_refused(load: Load, tmp_path: Path, count: int) -> None:
    """A damaged description of vertex textures is refused in one sentence, or read as finite vertices."""
    new_scene(4)
    obj, dice = wobbler(tmp_path), random.Random(8)
    bake(obj, "SHAPE_KEYS")
    textures = load("dampsim_addon.jobs.export.vertex_textures")
    load("dampsim_addon.api").export([obj], tmp_path / "out", ["VAT_PNG"])
    path = tmp_path / "out_vat_png.json"
    known = json.loads(path.read_text())
    image = path.with_name(known["objects"][0]["offsets"])
    content = image.read_bytes()
    # Importing the mesh takes longer than all the rest.
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(textures, "run_importer", lambda *_: None)
        for _ in range(count):
            path.write_bytes(hostile_json(known, dice))
            image.write_bytes(content if dice.random() < 0.5 else damaged_bytes(content, dice))
            try:
                textures.VERTEX_TEXTURES_PNG.read(path)
            except load("core").SceneError as error:
                assert_is_sentence(str(error))


@counts
@pytest.mark.parametrize("target", ["POINT_CACHE", "MDD"])
def test_damaged_bakes_are_not_exported(load: Load, tmp_path: Path, target: str, count: int) -> None:
    """A file of a bake that was damaged, replaced or removed is never taken for the whole one, whatever its date.

    Not for Alembic: Blender itself ends where an archive that it has open is damaged.
    """
    scene, dice = new_scene(3), random.Random(76)
    obj = wobbler(tmp_path)
    bake(obj, target)
    files, api, error_type = (
        load("dampsim_addon.targets.cache_file"),
        load("dampsim_addon.api"),
        load("core").SceneError,
    )
    path = files.baked_file(obj)
    content, checksum = path.read_bytes(), files._checksum_file(path).read_bytes()
    for number in range(count):
        wrong = [content, checksum]
        place = dice.choice([0, 0, 0, 1])
        wrong[place] = damaged_bytes(wrong[place], dice)
        for one, written in zip((path, files._checksum_file(path)), wrong, strict=True):
            one.write_bytes(written)
            os.utime(one, (dice.choice([0, 2**32]),) * 2)
        is_whole = wrong == [content, checksum]
        assert files.file_fault(path) == ("" if is_whole else "damaged")
        if not is_whole and number < QUICK:
            with pytest.raises(error_type, match=r"Wobbler: .+ is damaged; bake again") as error:
                api.export([obj], tmp_path / "out", ["USD"])
            assert_is_sentence(str(error.value))
    path.unlink()
    with pytest.raises(error_type, match="is gone; bake again"):
        api.export([obj], tmp_path / "out", ["USD"])
    assert not list(tmp_path.glob("out*"))
    bake(obj, target)
    scene.frame_set(2)
    assert path.read_bytes() == content


@pytest.mark.skipif(sys.platform == "win32", reason="Windows has no limits of files")
# Blender's exporter of glTF does not close the file that it cannot write.
@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning", "ignore::ResourceWarning")
@pytest.mark.parametrize("form", ["VAT_PNG", "VAT_EXR", "GLTF", "FBX", "setup"])
def test_full_disk_leaves_whole_files(load: Load, tmp_path: Path, form: str) -> None:
    """A file that cannot be written to its end leaves the earlier one, or none."""
    resource: Any = importlib.import_module("resource")
    new_scene(3)
    obj, api, error_type = wobbler(tmp_path / "cache"), load("dampsim_addon.api"), load("core").SceneError
    bake(obj, "SHAPE_KEYS")
    out = tmp_path / "out"
    out.mkdir()

    def write() -> str:
        if form == "setup":
            bpy.ops.dampsim.setup_save(filepath=str(out / "a.json"))
            return ""
        return str(api.export([obj], out / "a", [form])[0].problem)

    assert write() == ""
    whole = {path.name: path.read_bytes() for path in out.iterdir()}
    for part in (0.0, 0.4, 0.99):
        for existing in (whole, {}):
            for path in out.iterdir():
                path.unlink()
            for name, content in existing.items():
                (out / name).write_bytes(content)
            problem = ""
            limit = int(part * max(map(len, whole.values())))
            resource.setrlimit(resource.RLIMIT_FSIZE, (limit, resource.RLIM_INFINITY))
            try:
                problem = write()
            except (RuntimeError, error_type) as error:
                problem = str(error).removeprefix("Error: ").strip()
            finally:
                resource.setrlimit(resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
            assert "File too large" in problem
            assert_is_sentence(problem)
            for path in out.iterdir():
                assert len(path.read_bytes()) == len(whole[path.name]), (path, part)


@counts
def test_damaged_pictures_are_refused(load: Load, tmp_path: Path, count: int) -> None:
    """A damaged picture is refused in one sentence, or Blender reads it, and the sheet is whole."""
    sheet, path, dice = load("dampsim_addon.compare.contact_sheet"), tmp_path / "frame.png", random.Random(10)
    image = bpy.data.images.new("Frame", 16, 16)
    image.pixels.foreach_set(np.random.default_rng(0).random(4 * 16 * 16, dtype=np.float32))
    image.filepath_raw, image.file_format = str(path), "PNG"
    image.save()
    bpy.data.images.remove(image)
    content, out, accepted = path.read_bytes(), tmp_path / "sheet.png", 0
    contents = [b"", b"x", b"\x89PNG\r\n\x1a\n" + bytes(100), *(damaged_bytes(content, dice) for _ in range(count))]
    for place, one in enumerate(contents):
        path.write_bytes(one)
        try:
            sheet.assemble_sheet([[path]], out)
        except load("core").SceneError as error:
            assert_is_sentence(str(error))
            assert sorted(file.name for file in tmp_path.iterdir()) == ["frame.png"]
            continue
        assert place > 2
        assert out.read_bytes().endswith(sheet._PNG_END)
        out.unlink()
        accepted += 1
    # Flipped bits of pixels or of the end change no size.
    assert accepted < count
    assert {one.name for one in bpy.data.images} <= {"Render Result"}


@counts
def test_damaged_checksums_are_found(load: Load, tmp_path: Path, count: int) -> None:
    """A bake whose file or checksum is changed is damaged, whatever the checksum's file holds."""
    module, path, dice = load("dampsim_addon.targets.cache_file"), tmp_path / "bake.pc2", random.Random(11)
    content = dice.randbytes(2000)
    checksum = hashlib.sha256(content).hexdigest().encode()
    for _ in range(count):
        is_file = dice.random() < 0.5
        wild, right = damaged_bytes(content if is_file else checksum, dice), content if is_file else checksum
        path.write_bytes(wild if is_file else content)
        module._checksum_file(path).write_bytes(checksum if is_file else wild)
        assert module.file_fault(path) == ("" if wild == right else "damaged")


@counts
def test_cut_blends_are_found(load: Load, tmp_path: Path, count: int) -> None:
    """A .blend file of any length but its own is not whole, and damaged ones raise no error."""
    is_whole_blend, dice = load("dampsim_addon.blender.archives").is_whole_blend, random.Random(12)
    new_scene()
    for is_compressed in (False, True):
        path = tmp_path / f"{is_compressed}.blend"
        bpy.ops.wm.save_as_mainfile(filepath=str(path), compress=is_compressed)
        content = path.read_bytes()
        assert is_whole_blend(path)
        for _ in range(count // 2):
            path.write_bytes(damaged_bytes(content, dice))
            assert is_whole_blend(path) in (True, False)
            path.write_bytes(content[: dice.randrange(len(content) - 64)])
            assert not is_whole_blend(path)


@pytest.mark.skipif(sys.platform == "win32", reason="Windows has no such files")
@pytest.mark.parametrize("kind", ["pipe", "device", "folder", "dead link"])
def test_special_files_are_refused(load: Load, tmp_path: Path, kind: str) -> None:
    """Pipes, devices and folders in place of files end no reader, which would wait for ever or fill the memory."""
    make: dict[str, Callable[[Path], object]] = {
        "pipe": os.mkfifo, "device": lambda path: path.symlink_to("/dev/zero"), "folder": Path.mkdir,
        "dead link": lambda path: path.symlink_to("nowhere"),
    }  # fmt: skip
    path, error_type = tmp_path / "wild.json", load("core").DampSimError
    make[kind](path)
    # Ends a reader that waits for a writer of the pipe, with an error.
    signal.signal(signal.SIGALRM, signal.default_int_handler)
    signal.alarm(60)
    cache_file, shots = load("dampsim_addon.targets.cache_file"), load("dampsim_addon.farm.shots")
    for read in (
        load("dampsim_addon.ui.objects.panel").read_setup_file,
        load("dampsim_addon.model.presets").preset_values,
        lambda path: shots.units_from_list(path, {}, tmp_path),
    ):  # fmt: skip
        with pytest.raises(error_type) as error:
            read(path)
        assert_is_sentence(str(error.value))
    reports = load("dampsim_addon.farm.report_file")
    assert reports.read_report(path) is None
    # The command line composes a sentence of the reason and the name of the file.
    with pytest.raises(OSError, match=f"{re.escape(str(path))}") as fault:
        reports.file_digest(path)
    assert (fault.value.filename, bool(fault.value.strerror)) == (str(path), True)
    baked = tmp_path / "bake.pc2"
    baked.write_bytes(b"x")
    make[kind](cache_file._checksum_file(baked))
    assert cache_file.file_fault(baked) == "damaged"
    signal.alarm(0)
