"""The layers hold: who may import whom."""

from __future__ import annotations

import ast
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
CORE = sorted((ROOT / "core").rglob("*.py"))
# Presets are scripts of Blender's, run one by one.
ADDON = sorted(p for p in (ROOT / "dampsim_addon").rglob("*.py") if p.parent.name != "dampsim")
STANDARD = set(sys.stdlib_module_names)


def imported(path: Path) -> set[str]:
    """Top-level names of absolute imports; relative ones begin with a dot."""
    names = set()
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            names |= {alias.name.partition(".")[0] for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            names.add("." if node.level else (node.module or "").partition(".")[0])
    return names


@pytest.mark.parametrize("path", CORE, ids=lambda p: str(p.relative_to(ROOT)))
def test_core_imports_numpy_and_scipy_only(path: Path) -> None:
    assert imported(path) <= STANDARD | {".", "numpy", "scipy"}


@pytest.mark.parametrize("path", ADDON, ids=lambda p: str(p.relative_to(ROOT)))
def test_addon_imports_blender_and_numpy_only(path: Path) -> None:
    blender = {"bl_operators", "blf", "bpy", "bpy_extras", "gpu", "gpu_extras", "mathutils"}
    assert imported(path) <= STANDARD | {".", "numpy"} | blender


def test_every_core_module_loads_where_there_is_no_blender() -> None:
    modules = [".".join(("dampsim", *p.relative_to(ROOT).with_suffix("").parts)) for p in CORE]
    script = (
        "import sys, importlib; sys.modules['bpy'] = None; sys.path.insert(0, 'tests'); import conftest\n"
        f"for name in {modules!r}: importlib.import_module(name.removesuffix('.__init__'))"
    )
    done = subprocess.run([sys.executable, "-c", script], cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


def test_modules_stay_small() -> None:
    sizes = {str(p.relative_to(ROOT)): len(p.read_text(encoding="utf-8").splitlines()) for p in CORE + ADDON}
    assert {name: size for name, size in sizes.items() if size > 300} == {}
