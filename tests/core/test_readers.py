"""Every place that reads content which anyone may have made is attacked by a test, and uses the safe readers."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
# Tests of each module that reads untrusted content: functions in tests/core or tests/addon.
READERS = {
    "core/base/untrusted_files.py": ["test_damaged_texts_raise_value_error"],
    "core/frames/arrays_file.py": ["test_damaged_frames_are_refused", "test_crafted_frames_are_never_continued"],
    "core/frames/cache.py": ["test_damaged_frames_are_refused", "test_crafted_frames_are_never_continued"],
    "core/frames/header.py": ["test_damaged_headers_are_refused"],
    "core/frames/texture_files.py": ["test_damaged_images_are_refused"],
    "dampsim_addon/blender/archives.py": ["test_cut_archives_are_found"],
    "dampsim_addon/blender/bone_bakes.py": ["test_damaged_bone_records_are_ignored"],
    "dampsim_addon/compare/checkpoint.py": ["test_damaged_sweep_files_are_ignored"],
    "dampsim_addon/compare/contact_sheet.py": ["test_damaged_pictures_are_refused"],
    "dampsim_addon/farm/page.py": ["test_damaged_farm_files_are_reported"],
    "dampsim_addon/farm/report_file.py": ["test_damaged_farm_files_are_reported"],
    "dampsim_addon/farm/shots.py": ["test_damaged_shot_lists_are_refused"],
    "dampsim_addon/jobs/export/vertex_textures.py": ["test_damaged_vertex_textures_are_refused"],
    "dampsim_addon/jobs/walk.py": ["test_damaged_stored_texts_are_ignored"],
    "dampsim_addon/model/presets/__init__.py": ["test_damaged_materials_are_refused"],
    "dampsim_addon/scene_reader/setups.py": ["test_damaged_setups_are_refused"],
    "dampsim_addon/status/bake_changes.py": ["test_damaged_stored_texts_are_ignored"],
    "dampsim_addon/status/content_digests.py": ["test_special_files_have_no_contents"],
    "dampsim_addon/targets/landing.py": ["test_damaged_stored_texts_are_ignored"],
    "dampsim_addon/targets/cache_file.py": ["test_special_files_are_refused", "test_damaged_bakes_are_not_exported"],
    "dampsim_addon/ui/objects/panel.py": ["test_special_files_are_refused"],
}
# Modules that read only files of the add-on itself, or their own output while they write it.
OWN_FILES = {
    "core/native/interface.py", "dampsim_addon/farm/child.py", "dampsim_addon/targets/alembic.py",
    "dampsim_addon/translations/catalogue.py",
}  # fmt: skip
_SAFE = r"\b(open_regular_file|read_json|read_toml|parse_json|parse_toml|ArraysFile)\("
_RAW = (
    r"\bjson\.loads?\((?!json\.dumps)|\bmap\(json\.loads|\btomllib\.loads?\(|\bnp\.(load|fromfile|loadtxt|memmap)\("
    r"|\bfrombuffer\(|\bzlib\.decompress|\bzipfile\.|\bpickle\.|\.read_(text|bytes)\(|\bliteral_eval\(|\bimages\.load\("
    r"|\bos\.fdopen\(|(?<![\w.])open\(|\.open\(\"r|\bexec\(|\beval\("
)
# Raw readers that the modules above use on content whose size and kind they have checked.
CHECKED = {
    "core/base/untrusted_files.py", "core/frames/arrays_file.py", "core/frames/texture_files.py",
    "dampsim_addon/blender/bone_bakes.py", "dampsim_addon/compare/contact_sheet.py",
    "dampsim_addon/farm/report_file.py", "dampsim_addon/model/presets/__init__.py",
}  # fmt: skip


def matching(pattern: str) -> set[str]:
    """Return the modules of the core and the add-on with a match in their code."""
    paths = [path for folder in ("core", "dampsim_addon") for path in (ROOT / folder).rglob("*.py")]
    found = {path for path in paths if re.search(pattern, path.read_text(encoding="utf-8"))}
    return {path.relative_to(ROOT).as_posix() for path in found}


def test_every_reader_is_attacked() -> None:
    """A module that begins to read files or stored texts needs a row, and a test with hostile ones."""
    assert matching(f"{_SAFE}|{_RAW}") - OWN_FILES == set(READERS)


def test_raw_readers_are_known() -> None:
    """Content of unknown size and kind passes core/base/untrusted_files.py."""
    assert matching(_RAW) - OWN_FILES == CHECKED


@pytest.mark.parametrize("module", READERS)
def test_attacks_exist(module: str) -> None:
    sources = [path.read_text(encoding="utf-8") for path in (ROOT / "tests").glob("*/test_*.py")]
    for test in READERS[module]:
        assert sum(f"def {test}(" in source for source in sources) == 1, test
