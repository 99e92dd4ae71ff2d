"""External faults: killed processes; full, read-only, removed, damaged or locked storage. No data is lost."""

from __future__ import annotations

import contextlib
import hashlib
import json
import random
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from types import ModuleType

import bpy
import pytest
from scenes import FILES, LAST, PACKAGE, TARGETS, dump, new_scene, wobbler
from test_baking import bake

pytestmark = pytest.mark.bpy
Load = Callable[[str], ModuleType]
KILLS = 20
needs_linux = pytest.mark.skipif(not sys.platform.startswith("linux"), reason="kills, mounts and rights of Linux")
# Bakes a file like the command line. The bpy module and the Blender program start it differently.
SCRIPT = """
import os, sys, bpy
folder, arguments = sys.argv[sys.argv.index("--") + 1], sys.argv[sys.argv.index("--") + 2 :]
package = arguments.pop(0)
if package == "dampsim":
    sys.path.insert(0, folder)
    import conftest, dampsim
    dampsim.register()
bpy.ops.wm.open_mainfile(filepath=arguments.pop(0))
import importlib
code = importlib.import_module(package + ".dampsim_addon.cli").main(arguments)
sys.stdout.flush()
os._exit(code)
"""


def command(folder: Path, path: Path, *arguments: str) -> list[str]:
    """Return the command of a process that runs DampSim's command line on a file."""
    script = folder / "script.py"
    script.write_text(SCRIPT)
    start = ["--background", "--python-exit-code", "1", "--python", str(script)]
    program = [bpy.app.binary_path, *start] if bpy.app.binary_path else [sys.executable, str(script)]
    return [*program, "--", str(Path(__file__).parents[1]), PACKAGE, str(path), *arguments]


def frame_files(cache: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in cache.rglob("frame_*.frame")}


def save_scene(folder: Path, last: int = LAST, resolution: int = 400) -> Path:
    scene = new_scene(last)
    obj = wobbler(folder / "cache")
    obj.dampsim.resolution = resolution
    scene.frame_set(1)
    path = folder / "scene.blend"
    bpy.ops.wm.save_as_mainfile(filepath=str(path))
    return path


@pytest.mark.slow
@needs_linux
def test_killed_bake_resumes_bitwise(tmp_path: Path) -> None:
    path = save_scene(tmp_path, last=60)
    cache, out = tmp_path / "cache", tmp_path / "out.blend"
    arguments = command(tmp_path, path, "bake", "--target", "point_cache", "--output", str(out))
    began = time.monotonic()
    done = subprocess.run(arguments, capture_output=True, text=True, check=False)
    whole = time.monotonic() - began
    assert done.returncode == 0, done.stdout + done.stderr
    expected, played = frame_files(cache), next(cache.rglob("bake.pc2")).read_bytes()
    assert len(expected) == 60
    shutil.rmtree(cache)
    out.unlink()
    dice, reached = random.Random(5), []
    for _ in range(KILLS):
        process = subprocess.Popen(arguments, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        time.sleep(dice.uniform(0.3 * whole, whole))
        process.send_signal(signal.SIGKILL)
        process.wait()
        found = frame_files(cache)
        reached.append(len(found))
        # Files with their final name are complete.
        assert all(expected[name] == content for name, content in found.items())
        assert sorted(found) == sorted(expected)[: len(found)]
        if len(found) == 60:
            # Start again, so that the remaining kills interrupt a bake.
            shutil.rmtree(cache)
    assert max(reached) > 0
    done = subprocess.run(arguments, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    assert frame_files(cache) == expected
    assert next(cache.rglob("bake.pc2")).read_bytes() == played
    assert [p.name for p in cache.rglob("*") if p.name.endswith(".part")] == []


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[Path]:
    """Yield a folder with room for only a few frames."""
    folder = tmp_path / "disk"
    folder.mkdir()
    made = subprocess.run(["mount", "-t", "tmpfs", "-o", "size=600k", "tmpfs", str(folder)], check=False)
    if made.returncode:
        pytest.skip("no right to mount a file system")
    yield folder
    subprocess.run(["umount", str(folder)], check=True)


@pytest.mark.slow
@needs_linux
@pytest.mark.parametrize("target", TARGETS)
def test_full_disk_keeps_frames(load: Load, target: str, disk: Path, tmp_path: Path) -> None:
    new_scene(60)
    obj = wobbler(disk)
    obj.dampsim.target = target
    before = dump()
    with pytest.raises(RuntimeError, match=r"Wobbler: .*cannot be written.*No space left on device.*free some space"):
        bpy.ops.dampsim.bake()
    assert dump() == before
    caches = load("dampsim_addon.model.caches")
    kept = caches.cached_frame_count(obj)
    assert 0 < kept < 60
    assert list(disk.rglob("*.part")) == []
    # In a folder with more room the bake continues from the same frames.
    room = tmp_path / "room"
    shutil.copytree(disk, room)
    obj.dampsim.cache_folder = str(room)
    steps = [
        step.text
        for step in load("dampsim_addon.jobs.bake").bake_object(bpy.context.scene, bpy.context.view_layer, obj, False)
    ]
    assert (steps.count("Checking"), steps.count("Simulating")) == (kept, 60 - kept)


@pytest.mark.slow
@needs_linux
@pytest.mark.parametrize("target", FILES)
def test_full_disk_keeps_previous_bake(load: Load, target: str, disk: Path, tmp_path: Path) -> None:
    new_scene()
    obj = wobbler(disk)
    bake(obj, "SHAPE_KEYS")
    before, kept = dump(), frame_files(disk)
    room = shutil.disk_usage(disk).free
    (disk / "filling").write_bytes(b"x" * (room - 16_000))
    obj.dampsim.target = target
    with pytest.raises(RuntimeError, match=r"Wobbler: .*cannot be written.*free some space"):
        bpy.ops.dampsim.bake(resume=True)
    assert dump() == before
    assert frame_files(disk) == kept
    assert obj.dampsim.baked == "SHAPE_KEYS"


@needs_linux
def test_removed_cache_folder_is_reported(load: Load, tmp_path: Path) -> None:
    scene = new_scene()
    obj = wobbler(tmp_path / "cache")
    before = dump()
    steps = load("dampsim_addon.jobs.bake").bake_object(scene, bpy.context.view_layer, obj, True)
    for step in steps:
        if step.text == "Simulating" and step.completed == 5:
            while (tmp_path / "cache").exists():
                # The next frame is being written there.
                shutil.rmtree(tmp_path / "cache", ignore_errors=True)
            break
    with pytest.raises(load("core.base.errors").CacheError, match=r"Wobbler: the cache .* was removed during the bake"):
        next(steps)
    assert dump() == before
    bake(obj, "SHAPE_KEYS")


@needs_linux
@pytest.mark.parametrize("target", FILES)
def test_linked_cache_folder_is_refused(load: Load, target: str, tmp_path: Path) -> None:
    """Neither a bake nor Clear reads, writes or removes files in the folder to which a cache folder is linked."""
    new_scene(3)
    obj = wobbler(tmp_path / "cache")
    obj.dampsim.cache_id, obj.dampsim.target = "0123456789abcdef", target
    victim = tmp_path / "Downloads"
    victim.mkdir()
    file = load("dampsim_addon.targets").get_target(target).file
    for name in ("film.mkv.part", "header.json", file, f"{file}.part", f"{file}.sha256", "frame_000001.npz", "lock"):
        (victim / name).write_text("my own")
    before = {path.name: path.read_bytes() for path in victim.iterdir()}
    (tmp_path / "cache").mkdir()
    (tmp_path / "cache" / obj.dampsim.cache_id).symlink_to(victim)
    # There is nothing to clear without a bake.
    obj.dampsim.baked = target
    for operator in (bpy.ops.dampsim.bake, bpy.ops.dampsim.clear):
        with pytest.raises(RuntimeError, match=r"Wobbler: the cache folder .* is a link to another folder; delete"):
            operator()
        assert {path.name: path.read_bytes() for path in victim.iterdir()} == before
    # The folder above may be a link, such as one to a larger disk.
    (tmp_path / "cache" / obj.dampsim.cache_id).unlink()
    (tmp_path / "link").symlink_to(tmp_path / "cache")
    obj.dampsim.cache_folder = str(tmp_path / "link")
    bake(obj, target)
    bpy.ops.dampsim.clear()
    assert [*(tmp_path / "cache").iterdir()] == []


@pytest.mark.slow
@pytest.mark.parametrize("damage", ["truncated", "flipped", "empty", "swapped", "gone"])
def test_damaged_frame_is_rebaked(load: Load, damage: str, tmp_path: Path) -> None:
    new_scene()
    obj = wobbler(tmp_path)
    bake(obj, "POINT_CACHE")
    expected = frame_files(tmp_path)
    paths = sorted(tmp_path.rglob("frame_*.frame"))
    hurt, content = paths[6], paths[6].read_bytes()
    if damage == "truncated":
        hurt.write_bytes(content[:-100])
    elif damage == "flipped":
        middle = len(content) // 2
        hurt.write_bytes(content[:middle] + bytes([content[middle] ^ 1]) + content[middle + 1 :])
    elif damage == "empty":
        hurt.write_bytes(b"")
    elif damage == "swapped":
        hurt.write_bytes(paths[5].read_bytes())
    else:
        hurt.unlink()
    if damage == "gone":
        # Frames after a gap are simulated again.
        assert load("dampsim_addon.model.caches").cached_frame_count(obj) == 6
        bake(obj, "POINT_CACHE", resume=True)
        assert frame_files(tmp_path) == expected
        return
    assert load("dampsim_addon.api").info(obj).damaged == (7,)
    before = dump()
    with pytest.raises(
        RuntimeError, match=r"Wobbler: frame 7 of the cache .* is damaged or gone; re-bake from frame 7"
    ):
        bpy.ops.dampsim.bake(resume=True)
    assert dump() == before
    bake(obj, "POINT_CACHE", rebake=True, frame=7)
    assert frame_files(tmp_path) == expected


def test_flipped_bit_is_detected(load: Load, tmp_path: Path) -> None:
    new_scene(2)
    obj = wobbler(tmp_path)
    bake(obj, "SHAPE_KEYS")
    cache = load("dampsim_addon.model.caches").frame_cache(obj)
    error = load("core.base.errors").CacheError
    frame, header = cache.folder / "frame_000002.frame", cache.folder / "header.json"
    dice = random.Random(7)
    for path, read in ((frame, lambda: cache.read(2)), (header, cache.header)):
        content = path.read_bytes()
        known = read()
        for place in dice.sample(range(len(content)), min(len(content), 400)):
            path.write_bytes(
                content[:place] + bytes([content[place] ^ (1 << dice.randrange(8))]) + content[place + 1 :]
            )
            try:
                found = read()
            except error:
                continue
            # White space of a header may change, but not its content.
            assert path is header
            assert found == known
        path.write_bytes(content)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("target", "damage"),
    [(target, damage) for target in FILES for damage in ("truncated", "flipped", "gone")],
)
def test_damaged_target_file_is_rebaked(load: Load, target: str, damage: str, tmp_path: Path) -> None:
    new_scene()
    obj = wobbler(tmp_path)
    bake(obj, target)
    api = load("dampsim_addon.api")
    assert not api.info(obj).faults
    path = Path(api.info(obj).file)
    content = path.read_bytes()
    if damage == "gone":
        path.unlink()
        load("dampsim_addon.model.cache_status").refresh_status(obj)
        assert "is missing" in load("dampsim_addon.ui.bake.checks").find_issues(obj, bpy.context.scene)["file"].text
    else:
        middle = len(content) // 2
        flipped = content[:middle] + bytes([content[middle] ^ 1]) + content[middle + 1 :]
        # Replace the file: Blender has the old one open.
        part = path.with_name("damaged")
        part.write_bytes(flipped if damage == "flipped" else content[:middle])
        part.replace(path)
    assert api.info(obj).file_fault == ("gone" if damage == "gone" else "damaged")
    bake(obj, target, resume=True)
    assert not api.info(obj).faults


@pytest.mark.slow
@needs_linux
def test_concurrent_cache_writers_are_refused(load: Load, tmp_path: Path) -> None:
    path = save_scene(tmp_path)
    obj = bpy.context.object
    job = load("dampsim_addon.jobs.bake")
    # Close the bake after failures too, or every later test finds it running.
    with contextlib.closing(job.bake_object(bpy.context.scene, bpy.context.view_layer, obj, True)) as steps:
        for step in steps:
            if step.text == "Simulating" and step.completed == 3:
                break
        bpy.ops.wm.save_as_mainfile(filepath=str(path))
        known = frame_files(tmp_path / "cache")
        for what in ("bake", "clear"):
            other = subprocess.run(command(tmp_path, path, what), capture_output=True, text=True, check=False)
            assert other.returncode == 1, other.stdout + other.stderr
            assert "Wobbler: another Blender is writing to the cache" in other.stderr
            assert "Traceback" not in other.stderr
            found = frame_files(tmp_path / "cache")
            assert {name: found.get(name) for name in known} == known
            # One more frame was being written.
            assert 3 <= len(known) <= len(found) <= 4
        for _ in steps:
            pass
    assert load("dampsim_addon.model.caches").cached_frame_count(obj) == LAST
    # After the first process ends, the second may write.
    other = subprocess.run(command(tmp_path, path, "clear"), capture_output=True, text=True, check=False)
    assert other.returncode == 0, other.stdout + other.stderr


@needs_linux
def test_read_only_folder_is_reported(tmp_path: Path) -> None:
    path = save_scene(tmp_path)
    (tmp_path / "cache").mkdir()
    mount = ["mount", "--bind", "-o", "ro", str(tmp_path / "cache"), str(tmp_path / "cache")]
    if subprocess.run(mount, check=False).returncode:
        pytest.skip("no right to mount a file system")
    try:
        with pytest.raises(
            RuntimeError, match=r"Wobbler: the cache folder .* cannot be written \(Read-only file system\)"
        ):
            bpy.ops.dampsim.bake()
    finally:
        subprocess.run(["umount", str(tmp_path / "cache")], check=True)
    assert path.exists()
    bake(bpy.context.object, "SHAPE_KEYS")


@pytest.mark.slow
def test_caches_follow_saved_files(load: Load, tmp_path: Path) -> None:
    """Caches stay with their files through Save As, copies and renames."""
    caches, job = load("dampsim_addon.model.caches"), load("dampsim_addon.jobs.bake")
    new_scene()
    obj = wobbler("//cache")
    shots = tmp_path / "shots"
    (shots / "old").mkdir(parents=True)
    first, second = tmp_path / "first.blend", shots / "second.blend"
    bpy.ops.wm.save_as_mainfile(filepath=str(first))
    bake(obj, "POINT_CACHE")
    bpy.ops.wm.save_as_mainfile(filepath=str(first))
    expected = frame_files(tmp_path / "cache")

    # Saving a copy leaves this file unchanged, and the copy finds the frames.
    bpy.ops.wm.save_as_mainfile(filepath=str(shots / "old" / "copy.blend"), copy=True)
    assert obj.dampsim.cache_folder == "//cache"
    # A failed save leaves it unchanged too.
    (shots / "full.blend@").mkdir()
    with pytest.raises(RuntimeError, match="Cannot open file"):
        bpy.ops.wm.save_as_mainfile(filepath=str(shots / "full.blend"))
    assert obj.dampsim.cache_folder == "//cache"
    # After Save As to another folder the frames are found, and the first file keeps its own.
    bpy.ops.wm.save_as_mainfile(filepath=str(second))
    assert caches.cached_frame_count(obj) == LAST
    obj.dampsim.settle += 4.0
    bake(obj, "POINT_CACHE")
    own = caches.cache_folder(obj)
    assert {name: (own / name).read_bytes() for name in expected} != expected
    bpy.ops.wm.save_as_mainfile(filepath=str(second))
    assert bpy.ops.dampsim.clear() == {"FINISHED"}
    bpy.ops.wm.open_mainfile(filepath=str(first))
    obj = bpy.context.object
    assert frame_files(caches.cache_folder(obj)) == expected
    assert not load("dampsim_addon.api").info(obj).faults
    for path in (second, shots / "old" / "copy.blend"):
        bpy.ops.wm.open_mainfile(filepath=str(path))
        assert bpy.context.object.dampsim.cache_folder.startswith("//")

    # With equal inputs, a file of another name copies the frames.
    third = shots / "third.blend"
    bpy.ops.wm.open_mainfile(filepath=str(first))
    bpy.ops.wm.save_as_mainfile(filepath=str(third))
    obj = bpy.context.object
    texts = [step.text for step in job.bake_object(bpy.context.scene, bpy.context.view_layer, obj, False)]
    assert (texts.count("Copying"), texts.count("Checking"), texts.count("Simulating")) == (LAST, LAST, 0)
    assert frame_files(caches.cache_folder(obj)) == expected
    # After renames of the file and the object nothing is simulated again.
    bpy.ops.wm.save_as_mainfile(filepath=str(third))
    third.rename(shots / "renamed.blend")
    bpy.ops.wm.open_mainfile(filepath=str(shots / "renamed.blend"))
    obj = bpy.context.object
    obj.name = "Jelly"
    texts = [step.text for step in job.bake_object(bpy.context.scene, bpy.context.view_layer, obj, False)]
    assert (texts.count("Copying"), texts.count("Simulating")) == (0, 0)


def set_cache_format(cache: Path, number: int) -> dict[str, bytes]:
    """Set the format number of a cache; return its files."""
    header = json.loads((cache / "header.json").read_text())["header"] | {"format": number}
    check = hashlib.sha256(json.dumps(header, sort_keys=True).encode()).hexdigest()
    (cache / "header.json").write_text(json.dumps({"header": header, "sha256": check}))
    return {path.name: path.read_bytes() for path in cache.iterdir()}


@pytest.mark.slow
@pytest.mark.parametrize(("number", "words"), [(1, "an older DampSim; clear"), (3, "a newer DampSim; update")])
def test_other_cache_version_is_reported(load: Load, tmp_path: Path, number: int, words: str) -> None:
    """A cache of another version of DampSim is reported as such and stays unchanged when the file is saved."""
    caches, api = load("dampsim_addon.model.caches"), load("dampsim_addon.api")
    new_scene(4)
    obj = wobbler(tmp_path / "cache")
    # The caches of an unsaved file have no owner; saving assigns them.
    bake(obj, "POINT_CACHE")
    there = caches.cache_folder(obj)
    before = set_cache_format(there, number)
    bpy.ops.wm.save_as_mainfile(filepath=str(tmp_path / "first.blend"))
    assert {path.name: path.read_bytes() for path in there.iterdir()} == before
    assert f"was made by {words}" in api.info(obj).problem
    with pytest.raises(RuntimeError, match=f"Wobbler: the cache in .* was made by {words}"):
        bpy.ops.dampsim.bake(resume=True)
    assert {path.name: path.read_bytes() for path in there.iterdir()} == before
    bake(obj, "POINT_CACHE")
    assert not api.info(obj).problem


@pytest.mark.slow
@pytest.mark.parametrize("resume", [False, True])
def test_save_as_beside_older_cache(load: Load, tmp_path: Path, resume: bool) -> None:
    """A file saved under another name bakes into its own cache if the first file's cache is of an older version."""
    caches = load("dampsim_addon.model.caches")
    new_scene(4)
    obj = wobbler(tmp_path / "cache")
    bpy.ops.wm.save_as_mainfile(filepath=str(tmp_path / "first.blend"))
    bake(obj, "POINT_CACHE")
    bpy.ops.wm.save_as_mainfile(filepath=str(tmp_path / "first.blend"))
    there = caches.cache_folder(obj)
    before = set_cache_format(there, 1)
    bpy.ops.wm.save_as_mainfile(filepath=str(tmp_path / "second.blend"))
    bake(obj, "POINT_CACHE", resume=resume)
    assert caches.cache_folder(obj) != there
    assert {path.name: path.read_bytes() for path in there.iterdir()} == before
    assert caches.frame_cache(obj).frame_numbers() == [1, 2, 3, 4]
