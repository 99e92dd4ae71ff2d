"""The farm: its shot list, and units that run once, fail alone and stop on request."""

from __future__ import annotations

import json
import os
import re
import runpy
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any
from unittest.mock import Mock

import bpy
import farm_helpers
import pytest
from scenes import new_scene, wobbler
from test_keyed_pins import balloon, key_hold

pytestmark = pytest.mark.bpy
Load = Callable[[str], ModuleType]
linux = pytest.mark.skipif(sys.platform != "linux", reason="looks at processes in /proc")


def unit_arguments(folder: Path, file: Path, *more: str) -> list[str]:
    """Open a file; return the arguments of a unit's command that writes into the folder."""
    folder.mkdir(parents=True, exist_ok=True)
    said = ["bake", "--skip-done", "--report", str(folder / "report.json"), "--output", str(folder / "out.blend")]
    bpy.ops.wm.open_mainfile(filepath=str(file))
    return [*said, "--cache", str(folder / "cache"), "--target", "point_cache", *more]


def test_shot_list_expands_to_units(load: Load, tmp_path: Path) -> None:
    shots = load("dampsim_addon.farm.shots")
    path = tmp_path / "night.toml"
    path.write_text(
        """
        target = "point_cache"
        set = { settle = 12, density = 900.0 }
        wedges = { settle = [8, 16] }
        [[shots]]
        file = "a/sh010.blend"
        objects = ["Tail", "Left ear"]
        [[shots]]
        file = "sh020.blend"
        name = "sh020 / take 2"
        target = "shape_keys"
        frames = "1:40"
        wedges = { settle = [10], bounce = [0, 40] }
        """
    )
    found = shots.units_from_list(path, {}, tmp_path / "out")
    assert [one.label for one in found] == [
        "sh010 · settle 8 · Tail", "sh010 · settle 8 · Left ear", "sh010 · settle 16 · Tail",
        "sh010 · settle 16 · Left ear", "sh020 / take 2 · settle 10, bounce 0", "sh020 / take 2 · settle 10, bounce 40",
    ]  # fmt: skip
    assert [one.number for one in found] == [1, 2, 3, 4, 5, 6]
    assert found[0].file == tmp_path / "a/sh010.blend"
    assert found[0].settings == (("settle", "8"), ("density", "900.0"))
    assert len({one.folder for one in found}) == 6
    assert all(re.fullmatch(r"[A-Za-z0-9.,=_+-]+", part) for one in found for part in one.folder.parts[-3:][1:])
    said = found[5].arguments(tmp_path / "cancel")
    assert {"--frames=1:40", "--target=shape_keys"} <= set(said)
    assert not any(word.startswith("--object") for word in said)
    # Wedges of the command line apply to all shots.
    assert len(shots.units_from_list(path, {"bounce": ["0", "20", "40"]}, tmp_path / "out")) == 15


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("shots = 3", "lists no shots; write"),
        ("[[shots]]\nname = 'a'", "a shot has no file"),
        ("[[shots]]\nfile = 'a.blend'\nsettel = 3", "'settel' is not an entry; did you mean 'set'?"),
        ("wedge = 3\n[[shots]]\nfile = 'a.blend'", "'wedge' is not an entry; did you mean 'wedges'?"),
        ("[[shots]]\nfile = 'a.blend'\nset = { wobble = 3 }", "'wobble' is not a parameter"),
        ("[[shots]]\nfile = 'a.blend'\nset = { settle = -3 }", "settle"),
        ("[[shots]]\nfile = 'a.blend'\nwedges = { settle = [] }", "give a value, or a list"),
        ("[[shots]]\nfile = 'a.blend'\nset = 4", "set must be a table"),
        ("[[shots]]\nfile = 'a.blend'\nobjects = 'Tail'", "objects must be a list of names"),
        ("[[shots]]\nfile = 'a.blend'\npictures = -2", "pictures must be the number"),
        ("[[shots]]\nfile = 'a.blend'\npictures = '\u00b2'", "pictures must be the number"),
        ("[[shots]]\nfile = 'a.blend'\nframes = '--output=/etc'", "frames must be the first and last frame"),
        ("[[shots]]\nfile = 'a.blend'\ntarget = [1]", "target must be a short text or a number"),
        ("[[shots]]\nfile = 'a.blend'\nset = { settle = nan }", "one of its numbers is too large or not a number"),
        ("[[shots]]\nfile = 'a.blend'\nset = { settle = 0xffffffffffffffffff }", "one of its numbers is too large"),
        ("[[shots]]\nfile = 'a.blend'\nset = { settle = 2020-01-01 }", "settle: '2020-01-01' is not a number"),
        ("[[shots]]\nfile = 'a.blend'\nname = ''", "a name must be a short text"),
        ('[[shots]]\nfile = "a.blend"\nname = "a\\u0000"', "a name must be a short text"),
        ("[[shots]]\nfile = 'a.blend'\nname = 5", "a name must be a short text"),
        ('[[shots]]\nfile = "\\u0000.blend"', "a shot has no file"),
        ("[[shots]]\nfile = 'a.blend'\nobjects = ['a', '']", "objects must be a list of names"),
        (f"a = {'[' * 5000}{']' * 5000}", "it is nested too deeply"),
        (f"{'a.' * 50_000}b = 1", "it is nested too deeply"),
        (f"[[shots]]\nfile = 'a.blend'\nwedges = {{ {', '.join(f'{p} = [1, 2, 3, 4, 5, 6]' for p in 'abcdef')} }}",
         "more than 10000 units"),
        ("[[shots]]\nfile = 'a.blend'\n[[shots]]\nfile = 'b/a.blend'", "two shots have this name"),
        ("shots", "cannot be read"),
    ],
)  # fmt: skip
def test_shot_list_errors_are_reported(
    load: Load, text: str, says: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "night.toml"
    path.write_text(text)
    code = load("dampsim_addon.cli").main(["farm", str(path), "--output", str(tmp_path / "out"), "--blender", "none"])
    said = capsys.readouterr().err
    assert code in {1, 2}
    assert says in said
    assert not (tmp_path / "out").exists()


NAMES = [
    "A",
    "a",
    "CON",
    "nul.txt",
    "COM1",
    "cancel",
    "Report.json",
    "cache",
    "end.",
    "x" * 300,
    "..",
    "-Tail",
    "Left ear",
]


def test_unit_folders_fit_every_file_system(load: Load, tmp_path: Path) -> None:
    """Folders differ also without case, stay inside the output folder, and have no reserved, long or dotted names."""
    shots, path = load("dampsim_addon.farm.shots"), tmp_path / "night.toml"
    for key in ("objects", "name"):
        if key == "objects":
            path.write_text(f"[[shots]]\nfile = 'a.blend'\nobjects = {json.dumps(NAMES)}")
        else:
            path.write_text("".join(f"[[shots]]\nfile = 'a.blend'\nname = {json.dumps(name)}\n" for name in NAMES))
        found = shots.units_from_list(path, {}, tmp_path / "out")
        folders = [unit.folder.relative_to(tmp_path / "out") for unit in found]
        assert len({str(folder).casefold() for folder in folders}) == len(NAMES)
        parts = {part for unit in found for part in unit.output.relative_to(tmp_path / "out").parts}
        for part in parts:
            assert re.fullmatch(r"[A-Za-z0-9_,=+-][A-Za-z0-9_.,=+-]{0,149}", part), part
            assert not part.endswith(".")
            assert part.partition(".")[0].casefold() not in {"con", "nul", "com1"}
            assert part.casefold() not in {"cancel", "report.json", "cache"}
        # The order of the list does not change the folders.
        assert {unit.label: unit.folder for unit in found} == {
            unit.label: unit.folder for unit in shots._with_folders(found[::-1], tmp_path / "out")
        }


def test_option_like_names_are_farmed(load: Load, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Names such as --help and negative frame numbers reach the command as values."""
    new_scene(2)
    for name in ("--help", "-Tail"):
        wobbler(tmp_path / "cache", name)
    bpy.ops.wm.save_as_mainfile(filepath=str(tmp_path / "n.blend"))
    path = tmp_path / "night.toml"
    path.write_text("frames = '1:2'\n[[shots]]\nfile = 'n.blend'\nobjects = ['--help', '-Tail']")
    cli, shots = load("dampsim_addon.cli"), load("dampsim_addon.farm.shots")
    for unit in shots.units_from_list(path, {}, tmp_path / "out"):
        unit.folder.mkdir(parents=True)
        bpy.ops.wm.open_mainfile(filepath=str(tmp_path / "n.blend"))
        assert cli.main(unit.arguments(tmp_path / "cancel")) == cli.DONE
        report = json.loads(unit.report.read_text())
        assert [(one["name"], one["first"], one["last"]) for one in report["objects"]] == [(unit.object, 1, 2)]
        assert unit.is_done
    capsys.readouterr()
    assert cli.main(["info", "--object", "-Tail"]) == cli.USAGE
    assert "for a value that begins with -, write OPTION=VALUE" in capsys.readouterr().err
    # Blender's scenes begin at frame 0.
    for words in (["--frames", "-3:2"], ["--frames=-3:2"]):
        assert cli.main(["bake", *words, "--output", str(tmp_path / "o.blend")]) == cli.USAGE
        assert "--frames -3:2: Blender does not allow these frame numbers; give" in capsys.readouterr().err


@pytest.mark.slow
def test_unit_reruns_only_after_change(load: Load, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    cli = load("dampsim_addon.cli")
    file, folder = farm_helpers.create_shots(tmp_path / "shots", 1) / "sh001.blend", tmp_path / "unit"
    report = folder / "report.json"

    def did(*more: str) -> str:
        arguments = unit_arguments(folder, file, *more)
        capsys.readouterr()
        assert cli.main(arguments) == cli.DONE
        said = capsys.readouterr().out
        stages = [stage for stage in ("already done", "Simulating", "Checking") if stage in said]
        return " and ".join(stages)

    assert did() == "Simulating"
    first = report.read_bytes()
    found = json.loads(first)
    entry = found["objects"][0]
    assert found["exit_code"] == 0
    assert set(found["made_from"]["inputs"]) == {str(file)}
    assert {Path(name).name for name in found["made_from"]["outputs"]} == {"out.blend", "bake.pc2"}
    assert entry["dialled_rest"] == 6.0
    assert did() == "already done"
    assert report.read_bytes() == first
    # A missing output, another frame range, a changed file.
    (folder / "out.blend").unlink()
    assert did() == "Checking"
    assert did("--frames", "1:14") == "Simulating and Checking"
    bpy.ops.wm.open_mainfile(filepath=str(file))
    bpy.data.objects["Wobbler"].dampsim.bounce = 12.0
    bpy.ops.wm.save_as_mainfile(filepath=str(file))
    assert did("--frames", "1:14") == "Simulating"
    # A truncated report counts as missing.
    report.write_bytes(first[: len(first) // 2])
    assert did("--frames", "1:14") == "Checking"
    assert [path.name for path in folder.iterdir() if path.suffix in {".part", ".lock"}] == []


@pytest.mark.slow
def test_report_measures_early_rest(load: Load, tmp_path: Path) -> None:
    api, found = load("dampsim_addon.api"), []
    for last in (30, 90):
        new_scene(last)
        obj = wobbler(tmp_path / str(last))
        obj.dampsim.settle = 8.0
        found.append(api.bake([obj], target="POINT_CACHE")[0])
    assert found[0].dialled_rest == found[1].dialled_rest == 8.0
    assert found[1].rest == pytest.approx(found[0].rest, abs=0.5)
    # A shot that moves until its end reports no rest.
    new_scene(9)
    result = api.bake([wobbler(tmp_path / "short")], target="POINT_CACHE")[0]
    assert (result.rest, result.dialled_rest, result.settling) == (None, None, "")


def test_linked_library_is_input_file(load: Load, tmp_path: Path) -> None:
    library = farm_helpers.create_shots(tmp_path / "shots", 1) / "sh001.blend"
    new_scene()
    wobbler("")
    with bpy.data.libraries.load(str(library), link=True) as (there, here):
        here.meshes = list(there.meshes)
    bpy.context.object.id_data["keeps"] = here.meshes[0]
    path = tmp_path / "shot.blend"
    bpy.ops.wm.save_as_mainfile(filepath=str(path))
    bpy.ops.wm.open_mainfile(filepath=str(path))
    assert load("dampsim_addon.cli.work_unit").input_paths() == [path, library]


@pytest.mark.slow
def test_interrupted_sweep_continues(
    load: Load, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    cli, sweep = load("dampsim_addon.cli"), load("dampsim_addon.compare.sweep")
    file, folder = farm_helpers.create_shots(tmp_path / "shots", 1) / "sh001.blend", tmp_path / "sweep"
    said = ["sweep", "--set", "settle=6,9", "--pictures", "0", "--skip-done", "--report", str(tmp_path / "report.json")]
    measured, count = sweep._measure_variant, 0

    def once(*arguments: Any) -> Any:
        nonlocal count
        count += 1
        if count == 2:
            raise KeyboardInterrupt
        return (yield from measured(*arguments))

    bpy.ops.wm.open_mainfile(filepath=str(file))
    monkeypatch.setattr(sweep, "_measure_variant", once)
    with pytest.raises(KeyboardInterrupt):
        cli.main([*said, "--output", str(folder)])
    capsys.readouterr()
    assert cli.main([*said, "--output", str(folder)]) == cli.DONE
    assert count == 3
    assert "Already done 1/2" in capsys.readouterr().out
    assert not (folder / "done").exists()
    # Apart from times, the results equal those of an uninterrupted sweep.
    monkeypatch.setattr(sweep, "_measure_variant", measured)
    assert cli.main([*said[:5], "--output", str(tmp_path / "whole")]) == cli.DONE
    for name in ("curve_01.svg", "curve_02.svg"):
        assert (folder / name).read_bytes() == (tmp_path / "whole" / name).read_bytes()
    tables = [(path / "sweep.csv").read_text().splitlines() for path in (folder, tmp_path / "whole")]
    assert [line.split(",")[:9] for line in tables[0]] == [line.split(",")[:9] for line in tables[1]]
    capsys.readouterr()
    assert cli.main([*said, "--output", str(folder)]) == cli.DONE
    assert "already done" in capsys.readouterr().out


@linux
@pytest.mark.slow
@pytest.mark.parametrize("how", ["stdin", "cancel", "parent", "reader"])
def test_unit_stops_and_resumes(how: str, tmp_path: Path) -> None:
    program, file = (
        farm_helpers.blender(tmp_path),
        farm_helpers.create_shots(tmp_path / "shots", 1, last=3000) / "sh001.blend",
    )
    folder = tmp_path / "unit"
    arguments = unit_arguments(folder, file, "--cancel", str(tmp_path / "cancel"))
    arguments += {"stdin": ["--until-stdin-closes"], "parent": ["--until-parent-ends"]}.get(how, [])
    command = [program, "--background", str(file), "--command", "dampsim", *arguments]
    if how == "parent":
        # A parent process that waits for it, as farms do.
        command = [sys.executable, "-c", "import subprocess, sys; subprocess.run(sys.argv[1:])", *command]
    with (tmp_path / "said.txt").open("wb") as said:
        out = subprocess.PIPE if how == "reader" else said
        with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=out, stderr=said) as process:
            if process.stdout is not None:
                # A full pipe would stop the bake.
                assert any(b"Simulating 6/" in line for line in process.stdout)
            farm_helpers.wait_until(lambda: len(list(folder.rglob("*.frame"))) > 5)
            if how == "stdin":
                assert process.stdin is not None
                process.stdin.close()
            elif how == "cancel":
                (tmp_path / "cancel").touch()
            elif how == "reader":
                assert process.stdout is not None
                process.stdout.close()
            else:
                process.kill()
            code = process.wait(30)
    farm_helpers.wait_for_unit_processes(folder)
    kept = len(list(folder.rglob("*.frame")))
    assert 5 < kept < 3000
    assert list(folder.rglob("*.part")) == []
    assert not (folder / "report.json").exists()
    if how != "parent":
        assert code == 1
        assert "run the same command again to continue" in (tmp_path / "said.txt").read_text()


@pytest.mark.slow
def test_failing_shot_fails_alone(tmp_path: Path) -> None:
    program, output = farm_helpers.blender(tmp_path), tmp_path / "out"
    folder = farm_helpers.create_shots(tmp_path / "shots", 3, broken=(2,))
    (folder / "sh004.blend").write_bytes(b"no file of Blender's")
    arguments = ["farm", folder, "--output", output, "--target", "point_cache", "--blender", program]
    code, said = farm_helpers.run(program, *arguments)
    assert code == 1, said
    assert "2 baked, 2 failed" in said
    assert "pin group 'Gone' is missing. Choose another pin group." in said
    report = json.loads((output / "sh002/as_it_is/report.json").read_text())
    assert report["exit_code"] == 1
    assert "pin group 'Gone' is missing" in report["objects"][0]["problem"]
    page = (output / "index.html").read_text()
    assert page.index("sh002") < page.index("sh001")
    assert page.index("sh004") < page.index("sh001")
    # A second run skips finished units and repeats failed ones.
    code, said = farm_helpers.run(program, *arguments)
    assert code == 1
    assert said.count("already done") == 2
    # After a fix the shot succeeds.
    (folder / "sh004.blend").unlink()
    bpy.ops.wm.open_mainfile(filepath=str(folder / "sh002.blend"))
    bpy.data.objects["Wobbler"].dampsim.pin_group = "Pin"
    bpy.ops.wm.save_as_mainfile(filepath=str(folder / "sh002.blend"))
    code, said = farm_helpers.run(program, *arguments)
    assert code == 0, said
    assert "3 baked, 0 failed" in said


@linux
@pytest.mark.slow
@pytest.mark.parametrize("how", ["cancel file", "terminated"])
def test_farm_stops_and_resumes(how: str, tmp_path: Path) -> None:
    program, output = farm_helpers.blender(tmp_path), tmp_path / "out"
    folder = farm_helpers.create_shots(tmp_path / "shots", 2, last=400)
    arguments = ["farm", folder, "--output", output, "--target", "point_cache", "--blender", program]
    command = farm_helpers.command(program, *arguments)
    with farm_helpers.running_process(*command, said=tmp_path / "said.txt") as farm:
        farm_helpers.wait_until(lambda: len(list(output.rglob("*.frame"))) > 5)
        if how == "cancel file":
            (output / "cancel").touch()
        else:
            farm.terminate()
        code = farm.wait(60)
    said = (tmp_path / "said.txt").read_text()
    assert code == 1, said
    assert "run the same command again to continue" in said
    farm_helpers.wait_for_unit_processes(output)
    if how == "cancel file":
        assert farm_helpers.run(program, *arguments)[0] == 2
        (output / "cancel").unlink()
    code, said = farm_helpers.run(program, *arguments)
    assert code == 0, said
    assert any("Checking" in log.read_text() for log in output.rglob("log.txt"))


def test_units_run_in_this_blender(load: Load, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    cli, output = load("dampsim_addon.cli"), tmp_path / "out"
    folder = farm_helpers.create_shots(tmp_path / "shots", 2, broken=(2,))
    arguments = ["farm", str(folder), "--output", str(output), "--target", "point_cache"]
    assert cli.main([*arguments, "--list"]) == cli.DONE
    assert "2: sh002: to do" in capsys.readouterr().out
    assert not output.exists()
    assert cli.main([*arguments, "--only", "1"]) == cli.DONE
    assert cli.main([*arguments, "--only", "2"]) == cli.FAILED
    assert cli.main([*arguments, "--only", "1-2", "--failures-in-report"]) == cli.DONE
    assert cli.main([*arguments, "--only", "3"]) == cli.USAGE
    assert cli.main([*arguments, "--only", "x"]) == cli.USAGE
    capsys.readouterr()
    # Gathering fails if any unit failed.
    assert cli.main(["gather", str(output)]) == cli.FAILED
    assert "sh002: Wobbler: pin group 'Gone' is missing" in capsys.readouterr().err
    assert cli.main(["gather", str(tmp_path / "nowhere")]) == cli.FAILED


def test_unusable_program_is_reported(load: Load, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    cli, folder = load("dampsim_addon.cli"), farm_helpers.create_shots(tmp_path / "shots", 1)
    arguments = ["farm", str(folder), "--output", str(tmp_path / "out"), "--blender"]
    assert cli.main([*arguments, "/nowhere/blender"]) == cli.USAGE
    assert "--blender /nowhere/blender: the program does not exist" in capsys.readouterr().err
    broken = tmp_path / "blender"
    broken.write_text("no program")
    broken.chmod(0o755)
    assert cli.main([*arguments, str(broken)]) == cli.FAILED
    assert "sh001: Blender cannot be run (" in capsys.readouterr().err


@pytest.mark.skipif(bool(os.environ.get("DAMPSIM_INSTALLED")), reason="the script is not in the zip")
def test_dask_is_added_by_script(
    load: Load, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    cli, folder = load("dampsim_addon.cli"), farm_helpers.create_shots(tmp_path / "shots", 1)
    arguments = ["farm", str(folder), "--output", str(tmp_path / "out"), "--engine", "dask"]
    assert cli.main(arguments) == cli.USAGE
    assert "'dask' is not a choice; choose one of local" in capsys.readouterr().err
    monkeypatch.setattr(cli.farm_commands, "ENGINES", dict(cli.farm_commands.ENGINES))
    monkeypatch.setattr(sys, "path", [*sys.path])
    runpy.run_path(str(farm_helpers.ROOT / "farm/dask_engine.py"), run_name="__main__")
    assert not any(name.split(".")[0] in {"dask", "distributed"} for name in sys.modules)
    assert cli.main(arguments) == cli.FAILED
    assert "set DASK_SCHEDULER_ADDRESS=tcp://HOST:8786" in capsys.readouterr().err
    monkeypatch.setenv("DASK_SCHEDULER_ADDRESS", "tcp://127.0.0.1:1")
    monkeypatch.setitem(sys.modules, "distributed", None)
    assert cli.main(arguments) == cli.FAILED
    assert "-m pip install distributed" in capsys.readouterr().err


@pytest.mark.skipif(bool(os.environ.get("DAMPSIM_INSTALLED")), reason="the script is not in the zip")
def test_dask_engine_empties_the_queue(load: Load, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """With a client that runs nothing: a unit of the queue is submitted and completed by its report."""
    engine = runpy.run_path(str(farm_helpers.ROOT / "farm/dask_engine.py"))
    unit = SimpleNamespace(number=1, label="Shot", folder=tmp_path)
    units, events = [unit], []
    queue = SimpleNamespace(
        next_unit=lambda: units.pop() if units else None, complete=lambda *what: events.append(what[0]),
    )  # fmt: skip
    future = Mock(done=lambda: True, status="finished", result=lambda: {"ended": False, "code": 0})
    client = SimpleNamespace(
        submit=lambda *what, **how: events.append(what[1]) or future,
        subscribe_topic=lambda *what: None, cancel=lambda *what, **how: None, upload_file=lambda *what: None,
    )  # fmt: skip
    farm = [load(f"dampsim_addon.farm.{name}") for name in ("child", "job_queue", "shots")]
    monkeypatch.setattr(farm[1], "unit_command", lambda *what: ["blender"])
    run = engine["_DaskRun"]
    monkeypatch.setitem(run.__init__.__globals__, "_upload_modules", lambda *what: SimpleNamespace(run_on_worker=None))
    run(queue, client, lambda *what, **how: None, farm, ["blender"], tmp_path).run(lambda: False)
    assert events == [["blender"], unit]


def test_farm_waits_for_locked_unit(load: Load, tmp_path: Path) -> None:
    stopping, lock = load("dampsim_addon.work.steps"), load("core.frames.cache")
    asked = 0

    def ask() -> None:
        nonlocal asked
        asked += 1
        if asked == 2:
            held.__exit__(None, None, None)

    held = lock.file_lock(tmp_path / "lock")
    held.__enter__()
    began = time.monotonic()
    with stopping.exclusive_lock(tmp_path / "lock", ask):
        assert asked == 2
    assert time.monotonic() - began > 0.5


def held_ball(load: Load) -> bpy.types.Object:
    """Return a ball that a keyed Hold lets go and catches."""
    obj = wobbler("")
    key_hold(load, obj, (1, 1.0), (5, 0.0), (8, 1.0))
    return obj


def thrown_balloon(_: Load) -> bpy.types.Object:
    """Return a balloon without pins that is thrown, spins, and is inflated by keyframes."""
    obj = balloon(Path())
    obj.dampsim.pin_group, obj.dampsim.velocity_x = "", 1.0
    return obj


@pytest.mark.parametrize(
    ("make", "dial", "values"),
    [
        (held_ball, "catch_frames", (2, 6)),
        pytest.param(thrown_balloon, "spin_z", (0.5, 1.0), marks=pytest.mark.slow),
    ],
)
def test_farm_equals_bake_with_keyed_pins(
    load: Load, tmp_path: Path, make: Callable[[Load], bpy.types.Object], dial: str, values: tuple[float, float]
) -> None:
    """Units with keyed Hold or Pressure and a throw write the same bytes as a bake and a resumed one, as wedges."""
    new_scene(12)
    made = make(load)
    made.dampsim.resolution, made.dampsim.target, made.dampsim.cache_folder = 60, "POINT_CACHE", ""
    name = made.name
    file = tmp_path / "shots" / "throw.blend"
    file.parent.mkdir()
    bpy.ops.wm.save_as_mainfile(filepath=str(file))
    shots = tmp_path / "night.toml"
    shots.write_text(f'wedges = {{ {dial} = {list(values)} }}\n[[shots]]\nfile = "shots/throw.blend"\n')
    cli, output = load("dampsim_addon.cli"), tmp_path / "out"
    assert cli.main(["farm", str(shots), "--output", str(output), "--only", "1-2"]) == cli.DONE

    def written(folder: Path) -> dict[str, bytes]:
        paths = [path for path in folder.rglob("*") if path.name.endswith((".frame", ".pc2"))]
        return {path.name: path.read_bytes() for path in paths}

    units = [found for folder in (output / "throw").iterdir() if (found := written(folder))]
    assert [sorted(one) for one in units] == 2 * [["bake.pc2", *(f"frame_{n:06d}.frame" for n in range(1, 13))]]
    assert units[0] != units[1]
    for value in values:
        bpy.ops.wm.open_mainfile(filepath=str(file))
        obj, folder = bpy.data.objects[name], tmp_path / f"wedge {value}"
        setattr(obj.dampsim, dial, value)
        obj.dampsim.cache_folder = str(folder)
        assert load("dampsim_addon.api").bake([obj])[0].problem == ""
        once = written(folder)
        assert once in units
        for path in sorted(folder.rglob("*.frame"))[8:]:
            path.unlink()
        assert load("dampsim_addon.api").bake([obj])[0].problem == ""
        assert written(folder) == once
