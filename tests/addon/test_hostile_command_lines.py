"""Hostile command lines: each ends with an exit code and one sentence, and writes nothing outside of its folder."""

from __future__ import annotations

import random
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

import bpy
import pytest
from hostile_files import QUICK, SLOW
from scenes import new_scene, wobbler
from test_baking import bake

pytestmark = [pytest.mark.bpy, pytest.mark.versions]
Load = Callable[[str], ModuleType]
counts = pytest.mark.parametrize("count", [QUICK, pytest.param(SLOW, marks=pytest.mark.slow)])

WORDS = [
    "", " ", "--", "-1", "0", "1", "3", "-0.0", "nan", "inf", "1e400", "1e308", str(2**31), str(-(2**31) - 1),
    str(2**63), "9" * 30, "9" * 5000, "١٢", "1_0", "0x10", "1:8", "8:1", ":", "1:", "1:2:3", f"1:{'9' * 30}", "-5:3",
    "a=b", "=", "=1", "settle=nan", "settle=", "settle=12", "settle=1e999", "bounce=10,20", "settle=6,,7",
    "settle=" + "9" * 5000, "stiffness=-1", "Wobbler", "wobbler.settle=1", "\udcff", "a\udcffb", "\u202eabc", "a\nb",
    "\x1b[31m", "'", '"', "\\", "{0.__class__}", "%s%n%d", "%(prog)s", "x" * 300, "x" * 5000, "x/" * 3000, "\0",
    "a\0b", "/dev/full", "/dev/zero", "/proc/self/mem", "/", ".", "..", "~", "$HOME", "//", "//x", "file:///x",
    "missing/x", "0.1%", "nan%", "infmm", "1e400mm", "1mm", "mm", "%", "glb", "GLB", "shape_keys", "existing_bones",
    "land", "rest", "remove", "1-3", "3-1", "-", "0-0", f"1-{'9' * 30}", "@file",
]  # fmt: skip
PATHS = ("--output", "--report", "--cache", "--cancel", "--blender")
PLAIN = {
    "set": "settle=6,7", "object": "Wobbler", "frames": "1:3", "target": "pc2", "bound": "1mm", "format": "gltf",
    "engine": "unity", "report": "r.json", "output": "o.blend", "blender": "sh", "range": "1:2", "cache": "c",
}  # fmt: skip
# A mistake, and what is said about it.
MISTAKES = [
    (["bake", "--bones", "9" * 30], "the number is too large"), (["retime", "--scale", "nan"], "not a number"),
    (["caches", "--report", "x" * 300], "the path cannot be used"), (["bake", "--cache", "a\0b"], "characters"),
    (["bake", "--object", "\ud800"], "characters"),
    (["farm", ".", "--blender", "sh", "--blender-options", "'"], "mark"),
    (["export", "--output", "x" * 240], "the path cannot be used"),
    (["bake", "--skip-done", "--cancel", "x" * 300], "path"),
]  # fmt: skip


def is_outside(word: str) -> bool:
    """Return whether a word is a path that the test must not write to."""
    return word.startswith(("/", "~", "$", "..", ".")) and not word.startswith("/dev/full")


def command_line(commands: dict[str, Any], dice: random.Random, folder: Path) -> list[str]:
    """Return a command with up to five of its options, and wild words as values and arguments."""
    name = dice.choice(list(commands))
    words = [dice.choice([name] * 20 + WORDS)]
    options = [one for one in commands[name]._actions if one.option_strings and one.dest != "help"]
    required = [one for one in options if one.required]
    for one in [*required, *dice.sample(options, min(dice.randrange(5), len(options)))]:
        words.append(one.option_strings[-1])
        value = dice.choice(WORDS)
        if one.option_strings[-1] in PATHS and (is_outside(value) or dice.random() < 0.3):
            value = str(folder / dice.choice(["out", "in/out", "x" * 300, "x" * 5000, "a\nb", "\udcff", "\0"]))
        elif dice.random() < 0.5:
            value = PLAIN.get(one.dest, "1")
        if one.nargs != 0:
            words[-1:] = [f"{words[-1]}={value}"] if dice.random() < 0.5 else [words[-1], value]
    for one in commands[name]._actions:
        if not one.option_strings:
            words.append(dice.choice([*map(str, one.choices or ()), *WORDS]))
    if dice.random() < 0.1:
        words.insert(dice.randrange(len(words) + 1), dice.choice(WORDS))
    return words


@counts
def test_hostile_command_lines_end_plainly(
    load: Load, tmp_path: Path, count: int, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """No command line is a bug of DampSim; each failure is a sentence on one line."""
    new_scene(3)
    obj = wobbler(tmp_path)
    bake(obj, "SHAPE_KEYS")
    cli, error_type = load("dampsim_addon.cli"), load("core").DampSimError

    def stop(*_: Any, **__: Any) -> Any:
        raise error_type("Wobbler: the test ends here.")

    for module in ("bake_commands", "landing_commands", "search_commands"):
        monkeypatch.setattr(load(f"dampsim_addon.cli.{module}"), "run_steps", stop)
    monkeypatch.setattr(load("dampsim_addon.cli.saving"), "call_operator", stop)
    for name in ("clear_bake", "remove_unused_cache"):
        monkeypatch.setattr(load("dampsim_addon.cli.bake_commands"), name, stop)
    monkeypatch.setattr(load("dampsim_addon.cli.search_commands").compare, "run_comparison", stop)
    monkeypatch.setitem(load("dampsim_addon.cli.farm_commands").ENGINES, "local", stop)
    folder = tmp_path / "work"
    folder.mkdir()
    monkeypatch.chdir(folder)
    parser = cli._Parser(prog="dampsim")
    commands = parser.add_subparsers(dest="command", parser_class=cli._Parser)
    for group in (cli.bake_commands, cli.landing_commands, cli.search_commands, cli.farm_commands):
        group.add_to(commands)
    dice, outside = random.Random(70), sorted(path.name for path in tmp_path.iterdir())
    for _ in range(count):
        words = command_line(commands.choices, dice, folder)
        code = cli.main(words)
        said = capsys.readouterr()
        assert code in (cli.DONE, cli.FAILED, cli.USAGE), (words, said.err[-1500:])
        if code != cli.DONE:
            lines = [line for line in said.err.splitlines() if line.startswith("dampsim")]
            # A second line says that the file was not saved.
            assert 1 <= len(lines) == len(said.err.splitlines()) <= 2, (words, said.err[-1500:])
            assert len(lines[0]) < 1200, words
    assert sorted(path.name for path in tmp_path.iterdir()) == outside
    assert bpy.data.objects[obj.name].dampsim.baked


@pytest.mark.parametrize(("words", "said"), MISTAKES, ids=range(len(MISTAKES)))
def test_unusable_values_are_refused(
    load: Load, tmp_path: Path, words: list[str], said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """Values that no command can use are wrong usage, before the command begins."""
    new_scene()
    wobbler(tmp_path)
    cli = load("dampsim_addon.cli")
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(tmp_path)
        (tmp_path / "a.blend").touch()
        assert cli.main(words) == cli.USAGE
    error = capsys.readouterr().err
    assert said in error
    assert len(error.splitlines()) == 1


def test_file_errors_end_commands(
    load: Load, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """An error of the disk that no command expects is not reported as a bug of DampSim."""
    new_scene()
    wobbler(tmp_path)
    cli = load("dampsim_addon.cli")

    def full(*_: Any, **__: Any) -> Any:
        raise OSError(28, "No space left on device", "/farm/x")

    monkeypatch.setattr(load("dampsim_addon.cli.bake_commands").info, "object_info", full)
    assert cli.main(["info"]) == cli.FAILED
    error = capsys.readouterr().err
    assert error.startswith("dampsim: /farm/x cannot be used (No space left on device); ")
    assert len(error.splitlines()) == 1
