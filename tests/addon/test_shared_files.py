"""Files that several processes use at once: each ends with a correct result or one sentence, and none is lost."""

from __future__ import annotations

import dataclasses
import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from types import ModuleType

import bpy
import pytest
from hostile_files import assert_is_sentence
from scenes import new_scene, wobbler
from test_baking import bake
from test_storage_faults import command

pytestmark = pytest.mark.bpy
Load = Callable[[str], ModuleType]
LAST = 4


def saved_scene(folder: Path) -> Path:
    """Save a file with a baked object, open it, and return its path."""
    new_scene(LAST)
    path, obj = folder / "shot.blend", wobbler("//cache")
    bpy.ops.wm.save_as_mainfile(filepath=str(path))
    bake(obj, "POINT_CACHE")
    bpy.ops.wm.save_as_mainfile(filepath=str(path))
    bpy.ops.wm.open_mainfile(filepath=str(path))
    return path


def run(load: Load, capfd: pytest.CaptureFixture[str], *arguments: str) -> tuple[int, str]:
    """Run a command line in this process. Return its exit code, and the last line of its errors."""
    capfd.readouterr()
    code = load("dampsim_addon.cli").main(list(arguments))
    lines = capfd.readouterr().err.splitlines()
    return code, lines[-1].removeprefix("dampsim: ") if lines else ""


COMMANDS = [["bake", "--set", "settle=3"], ["clear"], ["retime", "--scale", "2"], ["blend", "land", "--frame", "3"],
            ["maps"]]  # fmt: skip


@pytest.mark.parametrize("arguments", COMMANDS, ids=[one[0] for one in COMMANDS])
def test_later_saves_are_kept(
    load: Load, capfd: pytest.CaptureFixture[str], tmp_path: Path, arguments: list[str]
) -> None:
    """A command that opened the file before another program saved it would undo that program's changes."""
    path = saved_scene(tmp_path)
    other = path.read_bytes() + b"saved by another program"
    path.write_bytes(other)
    files = {one: one.read_bytes() for one in tmp_path.rglob("*") if one.is_file()}
    code, message = run(load, capfd, *arguments)
    assert code == 1
    assert message == (
        f"{path}: another program has saved the file since it was opened; run the command again, or choose another "
        "file with --output."
    )
    assert {one: one.read_bytes() for one in tmp_path.rglob("*") if one.is_file()} == files
    # The file can be saved elsewhere, and after it was opened again.
    assert run(load, capfd, *arguments, "--output", str(tmp_path / "b.blend"))[0] == 0
    shutil.copy(tmp_path / "b.blend", path)
    bpy.ops.wm.open_mainfile(filepath=str(path))
    assert run(load, capfd, "maps")[0] == 0
    assert run(load, capfd, "maps", "--remove")[0] == 0


def test_saves_during_a_bake_are_kept(load: Load, capfd: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    path = saved_scene(tmp_path)
    saved = b"saved by another program"

    def save_elsewhere(*_: object) -> None:
        if path.read_bytes() != saved:
            path.write_bytes(saved)

    bpy.app.handlers.frame_change_post.append(save_elsewhere)
    try:
        code, message = run(load, capfd, "bake", "--restart")
    finally:
        bpy.app.handlers.frame_change_post.remove(save_elsewhere)
    assert (code, path.read_bytes()) == (1, saved)
    assert "another program has saved the file since it was opened" in message
    assert not list(tmp_path.glob("*dampsim*"))


@pytest.mark.parametrize("arguments", COMMANDS, ids=[one[0] for one in COMMANDS])
def test_one_command_changes_a_file(
    load: Load, capfd: pytest.CaptureFixture[str], tmp_path: Path, arguments: list[str]
) -> None:
    path = saved_scene(tmp_path)
    link = tmp_path / "link.blend"
    link.symlink_to(path)
    lock = load("core.frames.cache").file_lock
    files = {one: one.read_bytes() for one in tmp_path.rglob("*") if one.is_file()}
    for name in (path, link):
        bpy.ops.wm.open_mainfile(filepath=str(name))
        with lock(tmp_path / "shot.blend.dampsim_lock"):
            code, message = run(load, capfd, *arguments)
        assert code == 1
        assert_is_sentence(message)
        assert message.startswith(f"{name}: another command is changing the file; wait until it is done")
        assert {one: one.read_bytes() for one in tmp_path.rglob("*") if one.is_file()} == files


@pytest.mark.slow
@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="processes of Linux")
def test_simultaneous_commands_keep_the_file(tmp_path: Path) -> None:
    """Two commands that saved the same file at the same time left none behind."""
    path = saved_scene(tmp_path)
    for scale in range(2, 5):
        commands = [command(tmp_path, path, "retime", "--scale", str(scale + k / 4)) for k in range(3)]
        started = [subprocess.Popen(one, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) for one in commands]
        ended = [process.communicate()[1] for process in started]
        codes = [process.returncode for process in started]
        assert set(codes) <= {0, 1}
        assert 0 in codes, ended
        for code, errors in zip(codes, ended, strict=True):
            assert code == 0 or "run the command again" in errors or "wait until it is done" in errors, errors
        bpy.ops.wm.open_mainfile(filepath=str(path))
    assert sorted(one.name for one in tmp_path.glob("shot*")) == ["shot.blend", "shot.blend1"]


def test_whole_file_of_killed_save_returns(load: Load, tmp_path: Path) -> None:
    """A killed process had written half of a file, and kept the earlier one. The next save must not drop it."""
    path = saved_scene(tmp_path)
    content, kept = path.read_bytes(), tmp_path / "shot.blend.dampsim_kept"
    kept.write_bytes(content)
    path.write_bytes(content[: len(content) // 2])
    saving, options = load("dampsim_addon.cli.saving"), type("Options", (), {"output": str(path)})
    bpy.context.preferences.filepaths.save_version = 1
    bpy.ops.wm.read_homefile(use_empty=True, use_factory_startup=True)
    saving.save_file(options)
    # Blender keeps the earlier version beside the new one.
    assert (tmp_path / "shot.blend1").read_bytes() == content
    assert not kept.exists()
    # A whole file is not replaced by an older one, nor a file by a link.
    now = path.read_bytes()
    kept.write_bytes(content)
    saving.save_file(options)
    assert (tmp_path / "shot.blend1").read_bytes() == now
    other = tmp_path / "other.blend"
    kept = tmp_path / "other.blend.dampsim_kept"
    other.write_bytes(b"other")
    kept.symlink_to(path)
    options.output = str(other)
    saving.save_file(options)
    assert (tmp_path / "other.blend1").read_bytes() == b"other"
    assert not os.path.lexists(kept)


def test_failed_save_keeps_others_file(load: Load, tmp_path: Path) -> None:
    """Another program may have saved the file while the save of a command failed."""
    path = saved_scene(tmp_path)
    other = path.read_bytes() + b"ENDB"
    archives, error = load("dampsim_addon.blender.archives"), load("core").SceneError

    def save_beside_others() -> None:
        with archives.whole_blend(path, "It cannot be saved", "free some space"):
            path.unlink()
            path.write_bytes(other)
            raise error("It cannot be saved.")

    with pytest.raises(error):
        save_beside_others()
    assert path.read_bytes() == other


@pytest.mark.parametrize("is_removed", [False, True], ids=["replaced", "removed"])
def test_bake_replaced_during_export(load: Load, tmp_path: Path, is_removed: bool) -> None:
    """Frames of two bakes in one file are reported, with the reason."""
    saved_scene(tmp_path)
    obj, usd = bpy.context.object, load("dampsim_addon.jobs.export.geometry_caches").USD
    file = Path(load("dampsim_addon.api").info(obj).file)
    content, job = file.read_bytes(), load("dampsim_addon.jobs.export")

    def write_and_replace(path: Path) -> None:
        usd.write(path)
        file.unlink()
        if not is_removed:
            file.write_bytes(content)

    found = []
    for form in (usd, dataclasses.replace(usd, write=write_and_replace)):
        steps = job.export_objects(bpy.context.scene, bpy.context.view_layer, [obj], tmp_path / "out", [form])
        found += load("dampsim_addon.work.steps").run_steps(steps, lambda step: None)
    assert [one.problem for one in found] == [
        "",
        "Wobbler: the file of its bake was replaced or removed during the export; export again.",
    ]


def test_saved_file_is_never_missing(load: Load, tmp_path: Path) -> None:
    """Blender renames the earlier file to a backup first; a process killed then left no file of this name."""
    path = saved_scene(tmp_path)
    for one in tmp_path.glob("*.blend?"):
        one.unlink()
    options = type("Options", (), {"output": str(path)})
    filepaths, contents, counts = bpy.context.preferences.filepaths, [path.read_bytes()], list[int]()

    def note(*_: object) -> None:
        counts.append(filepaths.save_version)

    previous, filepaths.save_version = filepaths.save_version, 2
    bpy.app.handlers.save_pre.append(note)
    try:
        for number in range(3):
            bpy.context.scene.frame_end = 10 + number
            load("dampsim_addon.cli.saving").save_file(options)
            contents.append(path.read_bytes())
        assert filepaths.save_version == 2
    finally:
        bpy.app.handlers.save_pre.remove(note)
        filepaths.save_version = previous
    assert counts == [0, 0, 0]
    assert [(tmp_path / f"shot.blend{number}").read_bytes() for number in (1, 2)] == contents[-2:-4:-1]
    assert sorted(one.name for one in tmp_path.glob("shot*")) == ["shot.blend", "shot.blend1", "shot.blend2"]
