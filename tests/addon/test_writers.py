"""Every writer of files on a full disk, and with links in its way: whole files or none, and one sentence."""

from __future__ import annotations

import errno
import importlib
import os
import re
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import bpy
import numpy as np
import pytest
from hostile_files import assert_is_sentence
from scenes import new_scene, wobbler
from test_baking import bake

pytestmark = [
    pytest.mark.bpy,
    pytest.mark.skipif(not sys.platform.startswith("linux"), reason="limits and links of Linux"),
]
Load = Callable[[str], ModuleType]
ROOT = Path(__file__).parents[2]
FRAMES = 3
# Modules that write files, with the tests of each on a full disk: functions in tests/core or tests/addon.
WRITERS = {
    "core/base/untrusted_files.py": ["test_full_disk_leaves_whole_files", "test_full_disk_leaves_whole_results"],
    "core/frames/cache.py": ["test_full_disk_keeps_frames", "test_full_disk_leaves_whole_results"],
    "core/literature/papers/compare.py": ["test_full_disk_leaves_whole_results"],
    "dampsim_addon/blender/archives.py": ["test_full_disk_spares_blender"],
    "dampsim_addon/cli/saving.py": ["test_full_disk_leaves_whole_results"],
    "dampsim_addon/compare/checkpoint.py": ["test_full_disk_leaves_whole_results"],
    "dampsim_addon/compare/contact_sheet.py": ["test_full_disk_leaves_whole_results"],
    "dampsim_addon/compare/sweep.py": ["test_full_disk_leaves_whole_results"],
    "dampsim_addon/farm/child.py": ["test_full_disk_ends_child_with_reason"],
    "dampsim_addon/farm/page.py": ["test_full_disk_leaves_whole_results"],
    "dampsim_addon/farm/report_file.py": ["test_full_disk_leaves_whole_results"],
    "dampsim_addon/farm/shots.py": ["test_full_disk_leaves_whole_results"],
    "dampsim_addon/jobs/export/formats.py": ["test_full_disk_leaves_whole_files"],
    "dampsim_addon/jobs/export/geometry_caches.py": ["test_full_disk_spares_blender"],
    "dampsim_addon/jobs/export/vertex_textures.py": ["test_full_disk_leaves_whole_files"],
    "dampsim_addon/live/display.py": ["test_full_disk_leaves_whole_results"],
    "dampsim_addon/model/presets/__init__.py": ["test_full_disk_leaves_whole_results"],
    "dampsim_addon/model/save_handlers.py": ["test_full_disk_leaves_whole_results"],
    "dampsim_addon/targets/alembic.py": ["test_full_disk_spares_blender"],
    "dampsim_addon/targets/cache_file.py": ["test_full_disk_keeps_previous_bake"],
    "dampsim_addon/ui/common/manual.py": ["test_uncopied_manual_is_reported"],
    "dampsim_addon/ui/objects/panel.py": ["test_full_disk_leaves_whole_files"],
}
# Modules that write only while DampSim is developed.
DEVELOPMENT = {"dampsim_addon/translations/catalogue.py"}
_WRITE = (
    r"write_atomically\(|open_new_file\(|\.write_(text|bytes)\(|copyfileobj\(|copytree\(|shutil\.move\(|\.open\(\"[wxa]"
    r"|os\.O_APPEND|ops\.wm\.(save_as_mainfile|alembic_export|usd_export)|export_scene\.|\bimage\.save\b|render\.render\b"
)


def test_every_writer_is_tested() -> None:
    """A module that begins to write files needs a row, and a test with a full disk."""
    paths = [path for folder in ("core", "dampsim_addon") for path in (ROOT / folder).rglob("*.py")]
    found = {path for path in paths if re.search(_WRITE, path.read_text(encoding="utf-8"))}
    assert {path.relative_to(ROOT).as_posix() for path in found} - DEVELOPMENT == set(WRITERS)
    sources = "".join(path.read_text(encoding="utf-8") for path in (ROOT / "tests").glob("*/test_*.py"))
    assert [test for tests in WRITERS.values() for test in tests if f"def {test}(" not in sources] == []


def write_picture(load: Load, out: Path) -> None:
    sheet, picture = load("dampsim_addon.compare.contact_sheet"), out.parent / "frame.png"
    if not picture.exists():
        image = bpy.data.images.new("Frame", 64, 64)
        image.pixels.foreach_set(np.random.default_rng(0).random(4 * 64 * 64, dtype=np.float32))
        image.filepath_raw, image.file_format = str(picture), "PNG"
        image.save()
    sheet.assemble_sheet([[picture, picture]], out / "sheet.png")


def write_still(load: Load, out: Path) -> None:
    scene = bpy.context.scene
    if scene.camera is None:
        scene.camera = bpy.data.objects.new("Camera", bpy.data.cameras.new("Camera"))
        scene.collection.objects.link(scene.camera)
    list(load("dampsim_addon.compare.contact_sheet").render_scene_frames(scene, [1], out, "Shot"))


def write_checkpoint(load: Load, out: Path) -> None:
    checkpoint = load("dampsim_addon.compare.checkpoint").SweepCheckpoint(out, "mark")
    checkpoint.write(1, {"sag": 1.0}, None, [np.zeros((40, 3))] * 2)


def write_sweep_table(load: Load, out: Path) -> None:
    load("dampsim_addon.compare.sweep")._write_file(out / "sweep.csv", "a,b\n" * 500, "Wobbler")


def write_comparison(load: Load, out: Path) -> None:
    load("core.literature.papers.compare").compare_dampings("slivers", ["undamped"], "BACKWARD_EULER", out, False)


def write_units(load: Load, out: Path) -> None:
    shots = load("dampsim_addon.farm.shots")
    path = out.parent / "list.toml"
    if not path.exists():
        path.write_text('target = "PC2"\n' + "".join(f'[[shots]]\nfile = "{k}.blend"\n' for k in range(20)))
    shots.write_units(shots.units_from_list(path, {}, out), out)


def write_page(load: Load, out: Path) -> None:
    load("dampsim_addon.farm.page").write_page(out)


def write_report(load: Load, out: Path) -> None:
    try:
        load("dampsim_addon.farm.report_file").write_report(out / "report.json", {"objects": ["x"] * 500})
    except OSError as error:
        # The command line composes the sentence.
        raise load("core").SceneError(f"the report cannot be written ({error.strerror}).") from error


def write_copy(load: Load, out: Path) -> None:
    core = load("core")
    source = load("dampsim_addon.model.caches").frame_cache(bpy.context.object)
    for _ in core.FrameCache(out, "Wobbler").copy_from(source):
        pass


def write_blend(load: Load, out: Path) -> None:
    options = type("Options", (), {"output": str(out / "a.blend")})
    load("dampsim_addon.cli.saving").save_file(options)


def write_preset(load: Load, out: Path) -> None:
    bpy.ops.dampsim.preset_add(name="Jelly of Mine")


def write_live_frame(load: Load, out: Path) -> None:
    display = load("dampsim_addon.live.display")
    display.display_vertices(bpy.context.object, np.zeros((2000, 3), "<f4"))


def write_moved_cache(load: Load, out: Path) -> None:
    source, error_type = out.parent / "source", load("core").CacheError
    if not source.exists():
        source.mkdir()
        for number in range(3):
            (source / f"{number}").write_bytes(b"x" * (1000 + number))
    handlers = load("dampsim_addon.model.save_handlers")
    for is_copy in (False, True):
        with pytest.MonkeyPatch.context() as patch:
            # Another file system.
            patch.setattr(Path, "rename", lambda *_: (_ for _ in ()).throw(OSError(errno.EXDEV, "another disk")))
            try:
                handlers._copy_or_move(source, out / f"cache{is_copy}", is_copy)
            except OSError as error:
                raise error_type(f"the cache cannot be moved ({handlers._reason(error)}); bake again.") from error
        if not is_copy:
            (out / "cacheFalse").rename(source)


CASES = {
    one.__name__.removeprefix("write_"): one
    for one in (
        write_picture, write_still, write_checkpoint, write_sweep_table, write_comparison, write_units, write_page,
        write_report, write_copy, write_blend, write_preset, write_live_frame, write_moved_cache,
    )
}  # fmt: skip


# Rendering takes seconds.
SLOW = "still"


def cases(*excluded: str) -> list[Any]:
    return [pytest.param(one, marks=pytest.mark.slow if one == SLOW else ()) for one in CASES if one not in excluded]


@pytest.fixture
def out(load: Load, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """Yield an empty folder for results, into which presets and live frames are also written."""
    new_scene(FRAMES)
    bake(wobbler(tmp_path / "cache"), "SHAPE_KEYS")
    folder = tmp_path / "out"
    folder.mkdir()
    monkeypatch.setattr(bpy.utils, "user_resource", lambda *_, **__: str(folder))
    display = load("dampsim_addon.live.display")
    monkeypatch.setattr(display, "frame_file", lambda obj, draft=False: str(folder / f"dampsim_1{'_d' * draft}.pc2"))
    yield folder
    display.remove_display(bpy.context.object)


def message_of(load: Load, write: Callable[[Load, Path], None], out: Path) -> str:
    try:
        write(load, out)
    except (RuntimeError, load("core").DampSimError) as error:
        return str(error).removeprefix("Error: ").strip()
    return ""


def files_in(folder: Path) -> dict[str, bytes]:
    return {path.relative_to(folder).as_posix(): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


@pytest.mark.parametrize("case", cases())
def test_full_disk_leaves_whole_results(load: Load, out: Path, case: str) -> None:
    """A file that cannot be written to its end leaves the earlier one, or none."""
    resource: Any = importlib.import_module("resource")
    assert message_of(load, CASES[case], out) == ""
    whole = files_in(out)
    assert whole
    largest = max(map(len, whole.values()))
    for part in (0.0, 0.4, 0.99):
        for path in sorted(out.rglob("*"), reverse=True):
            if path.is_dir():
                path.rmdir()
            else:
                path.unlink()
        resource.setrlimit(resource.RLIMIT_FSIZE, (int(part * largest), resource.RLIM_INFINITY))
        try:
            problem = message_of(load, CASES[case], out)
        finally:
            resource.setrlimit(resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
        assert_is_sentence(problem)
        assert "Traceback" not in problem
        for name, content in files_in(out).items():
            # The table of a comparison has measured times, of different lengths.
            is_timed = name == "compare.csv" and content.endswith(b"\n")
            assert is_timed or len(content) == len(whole[name]), (name, part, problem)


@pytest.mark.parametrize("case", cases("live_frame", "moved_cache", "copy", "blend"))
def test_links_of_files_are_not_followed(load: Load, out: Path, case: str) -> None:
    """A link in place of a file, or of its temporary file, is replaced; the file to which it leads stays as it is."""
    assert message_of(load, CASES[case], out) == ""
    victim = out.parent / "victim"
    victim.write_text("my own")
    for name in files_in(out):
        path = out / name
        for link in (path, path.with_name(f"{path.name}.part"), path.with_name(f"{path.stem}.part{path.suffix}")):
            link.unlink(missing_ok=True)
            link.symlink_to(victim)
    if case == "preset":
        (out / "Jelly_of_Mine.py").unlink()
    assert message_of(load, CASES[case], out) == ""
    assert victim.read_text() == "my own"
    assert not any(path.is_symlink() and path.suffix != ".part" and ".part." not in path.name for path in out.iterdir())


def test_full_disk_ends_child_with_reason(load: Load, tmp_path: Path) -> None:
    resource: Any = importlib.import_module("resource")
    resource.setrlimit(resource.RLIMIT_FSIZE, (200, resource.RLIM_INFINITY))
    child = load("dampsim_addon.farm.child")
    try:
        program = [sys.executable, "-c", "print('x' * 3000, flush=True)"]
        result = child.run_command(program, str(tmp_path / "log.txt"), lambda _: None, lambda: False)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
    assert os.strerror(errno.EFBIG) in child.exit_reason(result)
