"""The task runner: environments, selections and slices of the tests."""

from __future__ import annotations

import ast
import importlib.util
import itertools
import os
import re
import runpy
import subprocess
import sys
from pathlib import Path
from types import ModuleType

import pytest

ROOT = Path(__file__).parents[2]
MODULES = sorted((ROOT / "tests").rglob("test_*.py"))
QUICK = "-m not slow"


@pytest.fixture
def runner() -> ModuleType:
    spec = importlib.util.spec_from_file_location("run", ROOT / "run.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def commands(
    runner: ModuleType,
    monkeypatch: pytest.MonkeyPatch,
    arguments: str,
    requirements: str | None = None,
    codes: tuple[int, int] = (0, 0),
) -> list[str]:
    """Return the commands of `run.py test`, each as environment and pytest arguments.

    codes: exit codes of pytest in the core's environment and in Blender's.
    """
    found = []

    def exit_code(*command: object) -> int:
        found.append(" ".join(str(part) for part in command if part not in ("-m", "pytest", "-n2", "--dist=loadfile")))
        return codes[command[0] != "core"]

    monkeypatch.setattr(runner, "environment", lambda name: name)
    monkeypatch.setattr(runner, "exit_code", exit_code)
    runner.run_tests(requirements, arguments.split())
    return found


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        ("-q", ["core -q not slow tests/core", "bpy -q not slow tests/addon"]),
        ("-k dial", ["core -k dial not slow tests/core", "bpy -k dial not slow tests/addon"]),
        ("core -q", ["core -q not slow tests/core"]),
        ("addon --all", ["bpy tests/addon"]),
        ("--all", ["core tests/core", "bpy tests/addon"]),
        ("-m slow", ["core slow tests/core", "bpy slow tests/addon"]),
        ("tests/", ["core tests/core", "bpy tests/addon"]),
        ("tests/core -k dial", ["core -k dial tests/core"]),
        (
            "./tests/core/test_release_settle.py::test_x[a/b] -x",
            ["core -x tests/core/test_release_settle.py::test_x[a/b]"],
        ),
        ("--all tests/core -k dial", ["core -k dial tests/core"]),
        ("tests/addon", ["bpy tests/addon"]),
        ("tests/addon/test_live.py tests/core", ["core tests/core", "bpy tests/addon/test_live.py"]),
        ("--deselect tests/core/test_x.py tests/core", ["core --deselect tests/core/test_x.py tests/core"]),
    ],
)
def test_selection_of_tests(
    runner: ModuleType, monkeypatch: pytest.MonkeyPatch, arguments: str, expected: list[str]
) -> None:
    assert commands(runner, monkeypatch, arguments) == expected


def test_requested_environment_runs_all(runner: ModuleType, monkeypatch: pytest.MonkeyPatch) -> None:
    found = commands(runner, monkeypatch, "-q", "bpy-4.5")
    assert [command.split()[0] for command in found] == ["bpy-4.5", "bpy-4.5"]


@pytest.mark.parametrize(("codes", "expected"), [((0, 1), 1), ((2, 0), 2), ((5, 1), 1), ((5, 5), 5)])
def test_failure_sets_exit_code(
    runner: ModuleType, monkeypatch: pytest.MonkeyPatch, codes: tuple[int, int], expected: int
) -> None:
    with pytest.raises(SystemExit) as stopped:
        commands(runner, monkeypatch, "-q", codes=codes)
    assert stopped.value.code == expected


@pytest.mark.parametrize("codes", [(5, 0), (0, 5)])
def test_selection_empty_on_one_side(
    runner: ModuleType, monkeypatch: pytest.MonkeyPatch, codes: tuple[int, int]
) -> None:
    commands(runner, monkeypatch, "-k dial", codes=codes)


@pytest.mark.parametrize(("option", "sliced", "others"), [("--slice", 10, 4), ("--quick-slice", 4, 10)])
def test_slices_contain_each_test_once(tmp_path: Path, option: str, sliced: int, others: int) -> None:
    (tmp_path / "test_x.py").write_text(
        "import pytest\n"
        "@pytest.mark.parametrize('k', range(10))\n@pytest.mark.slow\ndef test_slow(k): pass\n"
        "@pytest.mark.parametrize('k', range(4))\ndef test_quick(k): pass\n"
    )
    (tmp_path / "conftest.py").write_text((ROOT / "tests/conftest.py").read_text().replace("\n_load()\n", "\n"))
    found = []
    for part in range(4):
        command = [
            sys.executable,
            "-m",
            "pytest",
            "-q",
            "--collect-only",
            f"{option}={part}/4",
            "-p",
            "no:cacheprovider",
        ]
        command += ["-p", "no:cacheprovider", "-W", "ignore", str(tmp_path)]
        shown = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=True).stdout
        found += [line for line in shown.splitlines() if "::" in line]
    assert len(found) == sliced + 4 * others
    assert len(set(found)) == sliced + others


def test_ci_runs_each_mark() -> None:
    """Tests of every combination of marks run in a stage of CI; those of Blender's versions run in two or more."""
    lines = (ROOT / ".ci" / "run").read_text(encoding="utf-8").splitlines()
    chosen = [found.strip('"') for line in lines for found in re.findall(r' -m ("[^"]+"|versions)', line)]
    assert len(chosen) == 4
    # The README's command chooses its tests itself.
    assert '"$python" run.py test -q' in lines
    chosen.append("not slow")
    for slow, versions, kernel in itertools.product((False, True), repeat=3):
        marks = {"slow": slow, "versions": versions, "kernel": kernel}
        assert sum(bool(eval(one, {}, marks)) for one in chosen) >= 1 + versions, marks


def test_slice_depends_on_commit(runner: ModuleType, monkeypatch: pytest.MonkeyPatch) -> None:
    for commit, part in (("0000000f" + 32 * "0", 7), ("00000012" + 32 * "f", 2)):
        done = subprocess.CompletedProcess([], 0, stdout=commit)
        monkeypatch.setattr(runner.subprocess, "run", lambda *_, done=done, **__: done)
        options, paths = runner.select_tests(["--slice", "-q"])
        assert options == ["-q", f"--slice={part}/8"]
        assert paths == ["tests/core", "tests/addon"]


@pytest.mark.parametrize("number", [3, 11, 0xFFFFFFFF])
def test_halves_make_up_slice(runner: ModuleType, monkeypatch: pytest.MonkeyPatch, number: int) -> None:
    monkeypatch.setattr(runner, "commit_number", lambda: number)
    parts = [[int(one) for one in text.split("/")] for text in (runner.slice_of_commit(), *runner.halves_of_slice())]
    whole, *halves = [{k for k in range(64) if k % count == part} for part, count in parts]
    assert halves[0] | halves[1] == whole
    assert len(halves[0]) == len(halves[1]) == len(whole) / 2


@pytest.mark.parametrize(
    ("arguments", "number", "platforms", "clips"),
    [
        ([], 7, ["linux-x64", "windows-x64", "windows-arm64", "macos-arm64", "macos-x64"], "bpy tools/clips.py"),
        (["--slice"], 7, ["windows-arm64"], "bpy tools/clips.py --number 7 --frames 24 --step 12 --out OUT"),
        (["--slice"], 10, ["linux-x64"], "bpy tools/clips.py --number 10 --frames 24 --step 12 --out OUT"),
    ],
)
def test_publish_runs_every_part(
    monkeypatch: pytest.MonkeyPatch, arguments: list[str], number: int, platforms: list[str], clips: str
) -> None:
    """A release has all zips and clips; a slice of it has one of each, chosen by the commit."""
    tool, found = runpy.run_path(str(ROOT / "tools" / "publish.py"), run_name="publish"), []
    record = {
        "run": lambda *command: found.append(" ".join(map(str, command))),
        "environment": lambda name: name,
        "commit_number": lambda: number,
    }
    for name, function in record.items():
        monkeypatch.setitem(tool["RUNNER"], name, function)
    monkeypatch.setitem(tool["main"].__globals__, "build_zips", lambda chosen: found.append(chosen) or [])
    monkeypatch.setattr(sys, "argv", ["publish.py", *arguments])
    assert tool["main"]() == 0
    clips = clips.replace("OUT", str(ROOT / "out" / "publish" / "clips"))
    assert found == ["bpy tools/translations.py", platforms, clips, f"{sys.executable} run.py site"]


def test_site_names_its_version(runner: ModuleType, monkeypatch: pytest.MonkeyPatch) -> None:
    names = list[str]()
    monkeypatch.setenv("DAMPSIM_SITE", "")
    monkeypatch.setattr(runner, "environment", lambda name: name)
    monkeypatch.setattr(runner, "run", lambda *_: names.append(os.environ["DAMPSIM_SITE"]))
    monkeypatch.setattr(sys, "argv", ["run.py", "site"])
    runner.main()
    assert re.fullmatch(r"DampSim \d+\.\d+\.\d+", *names)
    assert "!ENV [DAMPSIM_SITE, " in (ROOT / "mkdocs.yml").read_text(encoding="utf-8")


def test_rotation_reaches_each_part(runner: ModuleType) -> None:
    """The slices of CI choose each of the longer window tests, and each language of the catalogues."""
    text = (ROOT / ".ci" / "run").read_text(encoding="utf-8")
    lists = {name: words.split() for name, words in re.findall(r"(\w+)=\(([\w ]+)\)", text)}
    catalogues = {path.stem for path in (ROOT / "dampsim_addon" / "translations").glob("*.po")}
    chosen = {
        name: {lists[name][part % int(count)] for part in range(runner.SLICES)}
        for name, count in re.findall(r"\$\{(\w+)\[part % (\d+)\]\}", text)
    }
    assert chosen["longer"] == {"animator", "timing", "tutorials"}
    assert {name if name in catalogues else name.partition("_")[0] for name in chosen["languages"]} == catalogues


@pytest.mark.parametrize("path", MODULES, ids=lambda p: p.stem)
def test_module_keeps_a_quick_test(path: Path) -> None:
    body = ast.parse(path.read_text(encoding="utf-8")).body
    tests = [one for one in body if isinstance(one, ast.FunctionDef) and one.name.startswith("test_")]
    quick = any("pytest.mark.slow" not in map(ast.unparse, one.decorator_list) for one in tests)
    assert quick, "mark the whole module: pytestmark = pytest.mark.slow"
