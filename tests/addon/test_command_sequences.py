"""Sequences of commands on one file, as tests/cli.sh runs them late in CI: here with a coarse box, in this process.

Each command opens the file, as Blender does, and a file that a command does not save loses its changes.
"""

from __future__ import annotations

import json
import shlex
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

import bpy
import pytest
from scenes import new_scene
from test_upcoming_caches import LAST, box, save

pytestmark = [pytest.mark.bpy, pytest.mark.versions]
Load = Callable[[str], ModuleType]


class Shell:
    """Runner of command lines. Each opens a .blend file first."""

    def __init__(self, cli: ModuleType, capture: pytest.CaptureFixture[str], folder: Path) -> None:
        self.cli, self.capture, self.folder = cli, capture, folder
        self.file = folder / "shot.blend"

    def expect(self, code: int, words: str) -> str:
        """Run a command line, in which OUT is the folder. Return the output without the times."""
        bpy.ops.wm.open_mainfile(filepath=str(self.file))
        self.capture.readouterr()
        found = self.cli.main(shlex.split(words.replace("OUT", str(self.folder))))
        said = self.capture.readouterr()
        assert found == code, (words, said.out, said.err)
        # Only unexpected errors and faults of Python have more lines.
        assert all(line.startswith("dampsim: ") for line in said.err.splitlines()), said.err
        return str(said.out + said.err)

    def frames(self, name: str) -> list[str]:
        return sorted(path.name for path in (self.folder / name).rglob("*.frame"))

    def report(self, name: str = "report.json") -> dict[str, Any]:
        found: dict[str, Any] = json.loads((self.folder / name).read_text())
        return found


@pytest.fixture
def shell(load: Load, capsys: pytest.CaptureFixture[str], tmp_path: Path) -> Shell:
    new_scene(LAST)
    box("Box")
    found = Shell(load("dampsim_addon.cli"), capsys, tmp_path)
    save(found.file)
    return found


def stages(said: str) -> list[str]:
    """Return the stages that an output names, once each."""
    return [stage for stage in ("Copying", "Checking", "Simulating", "Re-baking") if f" {stage} " in said]


@pytest.mark.parametrize("place", ["", "--cache OUT/cache "], ids=["beside the file", "chosen folder"])
def test_bakes_of_unsaved_results(shell: Shell, place: str) -> None:
    """The input file never refers to the frames: each bake of another output finds only its own ones."""
    bake = f"bake {place}--output OUT/baked.blend --report OUT/report.json"
    assert stages(shell.expect(0, f"{bake} --frames 1:5")) == ["Simulating"]
    assert stages(shell.expect(0, f"{bake} --frames 1:6")) == ["Checking", "Simulating"]
    # A message and a report, and no result.
    said = shell.expect(1, f"{bake} --frames 1:8 --from 8")
    assert "Box: only frames up to 6 are simulated, so it cannot be re-baked from frame 8." in said
    assert stages(said) == []
    assert shell.report()["objects"][0]["problem"] in said
    assert "Preparing" not in said
    said = shell.expect(1, f"{bake} --frames 1:8 --range 4:6 --blend 2")
    assert "finish the bake first" in said
    assert stages(shell.expect(0, f"{bake} --frames 1:8 --from 5")) == ["Checking", "Simulating"]
    assert shell.report()["objects"][0]["last"] == LAST
    assert stages(shell.expect(0, f"{bake} --range 4:6 --blend 2")) == ["Re-baking"]
    assert stages(shell.expect(0, bake)) == ["Checking"]
    assert stages(shell.expect(0, f"{bake} --restart")) == ["Simulating"]
    # Of another output, the first frames are missing.
    said = shell.expect(1, f"bake {place}--output OUT/other.blend --from 5")
    assert "Box: no frame is simulated, so it cannot be re-baked from frame 5." in said
    assert not (shell.folder / "other.blend").exists()
    # The result itself knows its frames, and other changes than those of its file are refused before a preparation.
    shell.file = shell.folder / "baked.blend"
    assert "8 of 8 frames simulated; baked to shape_keys" in shell.expect(0, "info")
    said = shell.expect(1, "bake --from 5 --set bounce=60")
    assert "Box: Bounce (30, now 60) changed since the last bake." in said
    assert "Preparing" not in said
    assert stages(shell.expect(0, "bake --set bounce=60 --range 4:6 --blend 2")) == ["Re-baking"]
    assert stages(shell.expect(0, "bake --from 1 --set bounce=60")) == ["Simulating"]
    assert "the file was not saved" in shell.expect(1, "bake --from 99")


def test_changes_that_are_not_saved(shell: Shell) -> None:
    """After a failed or a cancelled bake, the file is as before, and the next bake finds the simulated frames."""
    shell.expect(2, "bake --from 5 --range 4:6")
    shell.expect(2, "bake --set wobble=3")
    before = shell.file.read_bytes()
    (shell.folder / "cancel").touch()
    assert "cancelled because" in shell.expect(1, "bake --cancel OUT/cancel")
    (shell.folder / "cancel").unlink()
    assert shell.file.read_bytes() == before
    shell.expect(0, "bake --frames 1:5 --output OUT/baked.blend")
    assert shell.file.read_bytes() == before
    assert "0 of 8 frames simulated; not baked" in shell.expect(0, "info")
    # The saving fails after the simulation.
    (shell.folder / "taken.blend").mkdir()
    said = shell.expect(1, "bake --output OUT/taken.blend")
    assert "taken.blend: the file cannot be saved" in said
    (shell.folder / "taken.blend").rmdir()
    assert stages(shell.expect(0, "bake --output OUT/taken.blend --from 6")) == ["Checking", "Simulating"]


def test_bake_with_failures_is_saved(shell: Shell) -> None:
    """The file refers to the frames and files on disk also if some objects failed."""
    box("Other", place=3.0)
    save(shell.file)
    shell.expect(0, "bake --target point_cache")
    assert len(list(shell.folder.rglob("bake.pc2"))) == 2
    bpy.data.objects["Other"].scale.x = 0.0
    save(shell.file)
    said = shell.expect(1, "bake --target shape_keys --set bounce=50")
    assert f"{shell.file}: saved without a new bake of Other" in said
    shown = shell.expect(1, "info --report OUT/info.json")
    assert "gone" not in shown
    box_info, other_info = shell.report("info.json")["objects"]
    assert (box_info["baked"], box_info["changed"], box_info["problem"]) == ("SHAPE_KEYS", [], "")
    assert (other_info["baked"], other_info["file_fault"]) == ("POINT_CACHE", "")
    assert [str(path) for path in shell.folder.rglob("bake.pc2")] == [other_info["file"]]
    before = shell.file.read_bytes()
    assert "the file was not saved" in shell.expect(1, "bake --object Other")
    assert shell.file.read_bytes() == before


def test_cleared_and_copied_results(shell: Shell) -> None:
    shell.expect(0, "bake --output OUT/baked.blend")
    shell.file = shell.folder / "baked.blend"
    first = {path: path.read_bytes() for path in shell.folder.rglob("*.frame")}
    # A copy has frames of its own.
    assert stages(shell.expect(0, "bake --output OUT/copy.blend --from 6")) == ["Copying", "Checking", "Simulating"]
    assert stages(shell.expect(0, "bake --output OUT/copy.blend --range 3:6 --blend 2")) == ["Re-baking"]
    assert {path: path.read_bytes() for path in first} == first
    # The first file does not refer to those of the copy.
    assert stages(shell.expect(0, "bake")) == ["Checking"]
    shell.file = shell.folder / "copy.blend"
    assert "8 of 8 frames simulated; baked" in shell.expect(0, "info")
    shell.expect(0, "clear --output OUT/cleared.blend")
    shell.file = shell.folder / "cleared.blend"
    assert "not baked" in shell.expect(0, "info")
    assert "no object is baked; bake one first" in shell.expect(2, "export --output OUT/nothing")
    assert {path: path.read_bytes() for path in first} == first


def test_skipped_and_repeated_units(shell: Shell) -> None:
    unit = "bake --skip-done --output OUT/unit.blend --report OUT/unit.json --cache OUT/unit --frames 1:5"
    shell.expect(2, "bake --skip-done --output OUT/unit.blend")
    assert stages(shell.expect(0, unit)) == ["Simulating"]
    assert "already done" in shell.expect(0, unit)
    assert stages(shell.expect(0, f"{unit} --set settle=7")) == ["Simulating"]
    assert "already done" in shell.expect(0, f"{unit} --set settle=7")
    # A result that is gone is written again from its frames.
    (shell.folder / "unit.blend").unlink()
    assert stages(shell.expect(0, f"{unit} --set settle=7")) == ["Checking"]
    (shell.folder / "cancel").touch()
    assert "cancelled because" in shell.expect(1, f"{unit} --cancel OUT/cancel")
    # A failed unit is not done, and exits as a farm asks.
    said = shell.expect(0, f"{unit} --set settle=9 --from 99 --failures-in-report")
    assert "frame 99 is not in the shot" in said
    assert shell.report("unit.json")["exit_code"] == 1
    assert stages(shell.expect(0, f"{unit} --set settle=9")) == ["Simulating"]


def test_swept_and_farmed_variants(shell: Shell) -> None:
    sweep = "sweep --set settle=6,9 --frames 1:5 --pictures 0"
    shell.expect(2, "sweep --output OUT/nothing")
    assert "the folder" in shell.expect(1, f"{sweep} --output /proc/self/nowhere").lower()
    shell.expect(0, f"{sweep} --output OUT/sweep")
    assert {"sweep.csv", "index.html", "curve_01.svg", "curve_02.svg"} <= {
        path.name for path in (shell.folder / "sweep").iterdir()
    }
    shots = shell.folder / "shots"
    shots.mkdir()
    shell.file.rename(shots / "sh010.blend")
    shell.file = shots / "sh010.blend"
    (shots / "sh020.blend").write_text("not a Blender file")
    farm = "farm OUT/shots --set settle=6,9 --frames 1:5 --target point_cache --output OUT/farm"
    shell.expect(2, "farm OUT/shots --set wobble=1 --output OUT/nothing")
    shell.expect(1, "farm OUT/nowhere.toml --output OUT/nothing")
    assert not (shell.folder / "nothing").exists()
    assert "sh020.blend cannot be opened" in shell.expect(1, f"{farm} --only 1-4")
    assert "2 baked, 2 failed" in shell.expect(1, "gather OUT/farm")
    said = shell.expect(0, f"{farm} --list")
    assert said.count(": done") == 2
    (shots / "sh020.blend").unlink()
    assert "Simulating" not in shell.expect(0, f"{farm} --only 1-2")
    assert "2 baked, 0 failed" in shell.expect(0, "gather OUT/farm")
    # The variants have their own frames, and nothing lies beside the shots.
    assert len(shell.frames("farm")) == 2 * 5
    assert [path.name for path in shots.iterdir()] == ["sh010.blend"]
