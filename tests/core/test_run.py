"""The task runner: which tests run in which environment, and what a quick run and the rest leave out."""

from __future__ import annotations

import ast
import importlib.util
import re
import sys
from fnmatch import fnmatch
from itertools import combinations
from pathlib import Path
from types import ModuleType

import pytest
from _pytest.mark.expression import Expression as MarkExpression

ROOT = Path(__file__).parents[2]
MODULES = sorted((ROOT / "tests").rglob("test_*.py"))
FAULTS = "tests/addon/test_faults.py"
# What follows the core's tests, and is left out beside them.
NAMES = (FAULTS, "tests/addon/test_walks.py")
BESIDE, IGNORE = " ".join(NAMES), " ".join(f"--ignore={name}" for name in NAMES)
SLOW = {"pytest.mark.slow", "pytest.mark.long"}


class _Done:
    def __init__(self, code: int) -> None:
        self.returncode = code

    def poll(self) -> int:
        return self.returncode


@pytest.fixture
def runner() -> ModuleType:
    spec = importlib.util.spec_from_file_location("run", ROOT / "run.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def started(
    runner: ModuleType,
    monkeypatch: pytest.MonkeyPatch,
    arguments: str,
    requirements: str | None = None,
    codes: tuple[int, int] = (0, 0),
) -> set[str]:
    """What is started, as the environment's name and pytest's arguments; it ends with the codes for core and bpy."""
    commands = set()

    def start(*command: object, said: object = None) -> _Done:
        commands.add(" ".join(str(part) for part in command if part != "pytest"))
        return _Done(codes[command[0] != "core"])

    monkeypatch.setattr(runner, "environment", lambda name: name)
    monkeypatch.setattr(runner, "start", start)
    runner.test(requirements, arguments.split())
    return commands


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        (
            "-q",
            {
                "core -m -q -m not slow and not long tests/core",
                f"bpy -m -q -m not slow and not long {BESIDE}",
                f"bpy -m -q -m not slow and not long tests/addon {IGNORE}",
            },
        ),
        (
            "-k core",
            {
                "core -m -k core -m not slow and not long tests/core",
                f"bpy -m -k core -m not slow and not long {BESIDE}",
                f"bpy -m -k core -m not slow and not long tests/addon {IGNORE}",
            },
        ),
        (
            "--rest -q",
            {
                "core -m -q -m slow or long or not scenes tests/core",
                f"bpy -m -q -m slow or long or not scenes {BESIDE}",
                f"bpy -m -q -m slow or long or not scenes tests/addon {IGNORE}",
            },
        ),
        ("--all", {"core -m tests/core", f"bpy -m {BESIDE}", f"bpy -m tests/addon {IGNORE}"}),
        ("-m long", {"core -m -m long tests/core", f"bpy -m -m long {BESIDE}", f"bpy -m -m long tests/addon {IGNORE}"}),
        ("tests/", {"core -m tests/core", f"bpy -m {BESIDE}", f"bpy -m tests/addon {IGNORE}"}),
        ("tests/core -k dial", {"core -m -k dial tests/core"}),
        ("./tests/core/test_dial.py::test_x[a/b] -x", {"core -m -x tests/core/test_dial.py::test_x[a/b]"}),
        ("--all tests/core -k dial", {"core -m -k dial tests/core"}),
        ("tests/addon", {f"bpy -m {BESIDE}", f"bpy -m tests/addon {IGNORE}"}),
        (f"{FAULTS} -q", {f"bpy -m -q {FAULTS}"}),
        ("tests/addon/test_live.py tests/core", {"bpy -m tests/addon/test_live.py", "core -m tests/core"}),
        ("--deselect tests/core/test_x.py tests/core", {"core -m --deselect tests/core/test_x.py tests/core"}),
    ],
)
def test_only_what_needs_blender_runs_in_its_environment(
    runner: ModuleType, monkeypatch: pytest.MonkeyPatch, arguments: str, expected: set[str]
) -> None:
    assert started(runner, monkeypatch, arguments) == expected


def test_an_environment_that_is_asked_for_is_for_all(runner: ModuleType, monkeypatch: pytest.MonkeyPatch) -> None:
    commands = started(runner, monkeypatch, "-q", "bpy-4.5")
    assert {command.split()[0] for command in commands} == {"bpy-4.5"}


@pytest.mark.parametrize(("codes", "told"), [((0, 1), 1), ((2, 0), 2), ((5, 1), 1), ((5, 5), 5)])
def test_a_run_that_fails_or_finds_no_test_at_all_is_told(
    runner: ModuleType, monkeypatch: pytest.MonkeyPatch, codes: tuple[int, int], told: int
) -> None:
    with pytest.raises(SystemExit) as stopped:
        started(runner, monkeypatch, "-q", codes=codes)
    assert stopped.value.code == told


@pytest.mark.parametrize("codes", [(5, 0), (0, 5)])
def test_a_choice_may_leave_one_side_without_tests(
    runner: ModuleType, monkeypatch: pytest.MonkeyPatch, codes: tuple[int, int]
) -> None:
    started(runner, monkeypatch, "-k dial", codes=codes)


def test_where_one_of_two_is_done_the_next_begins_and_all_that_is_said_is_told(
    runner: ModuleType, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    monkeypatch.setattr(runner, "environment", lambda name: sys.executable)
    # The first one waits for what the third one makes, half a minute at most.
    there = tmp_path / "there"
    wait = (
        f"import os, sys, time\nfor _ in range(600): os.path.exists({str(there)!r}) and sys.exit(0); time.sleep(0.05)\n"
    )
    parts = [f"{wait}sys.exit(3)", "print('second'); exit(4)", f"open({str(there)!r}, 'x'); print('third')"]
    assert runner.side_by_side([("any", ["-c", part]) for part in parts]) == [4, 0, 0]
    assert capfd.readouterr().out.split() == ["second", "third"]


@pytest.mark.parametrize("path", MODULES, ids=lambda p: p.stem)
def test_every_module_keeps_something_quick_or_is_slow_as_a_whole(path: Path) -> None:
    body = ast.parse(path.read_text(encoding="utf-8")).body
    tests = [one for one in body if isinstance(one, ast.FunctionDef) and one.name.startswith("test_")]
    assert any(SLOW.isdisjoint(map(ast.unparse, one.decorator_list)) for one in tests), "mark the module: pytestmark"


@pytest.mark.parametrize(
    "path", [path for path in MODULES if "mark.scenes" in path.read_text(encoding="utf-8")], ids=lambda p: p.stem
)
def test_what_the_rest_leaves_out_of_a_module_has_slow_tests_that_go_the_same_ways(path: Path) -> None:
    text = path.read_text(encoding="utf-8")
    assert path.parent.name == "core", "all of the add-on's are run in the oldest Blender"
    assert any(mark in text for mark in SLOW), "nothing of it would be run with the oldest Blender's numpy"


def test_all_of_the_add_ons_modules_are_run_in_the_oldest_blender_each_once() -> None:
    text = (ROOT / ".ci/run").read_text(encoding="utf-8")
    stages = re.findall(r"^(?:beside|queue) .* oldest --rest (.*)$", text, re.MULTILINE)
    for path in MODULES:
        name = path.relative_to(ROOT).as_posix()
        there = [stage for stage in stages if fnmatch(name, stage)]
        assert len(there) == (path.parent.name == "addon"), f"{name}: {there}"


def test_two_stages_together_run_the_rest_of_the_cores_in_the_oldest_blender(runner: ModuleType) -> None:
    text = (ROOT / ".ci/run").read_text(encoding="utf-8")
    choices = re.findall(r'^\w+\(\) { .*oldest tests/core -m "(.*)"; }$', text, re.MULTILINE)
    assert len(choices) == 2
    for count in range(4):
        for marks in combinations(("slow", "long", "scenes"), count):
            assert sum(taken(one, *marks) for one in choices) == taken(runner.CHOICES["--rest"], *marks), marks


def taken(expression: str, *marks: str) -> bool:
    return MarkExpression.compile(expression).evaluate(lambda name, /, **_: name in marks)


def test_every_test_is_quick_or_in_the_rest_and_all_of_the_add_ons_are_in_the_rest(runner: ModuleType) -> None:
    quick, rest = runner.CHOICES[""], runner.CHOICES["--rest"]
    for count in range(4):
        for marks in combinations(("slow", "long", "scenes"), count):
            assert taken(quick, *marks) or taken(rest, *marks), marks
            if "scenes" not in marks:
                assert taken(rest, *marks), marks
