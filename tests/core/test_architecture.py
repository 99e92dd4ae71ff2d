"""Layers of modules, their imports, and the size of modules."""

from __future__ import annotations

import ast
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
CORE = sorted((ROOT / "core").rglob("*.py"))
# Presets are separate scripts that Blender runs.
ADDON = sorted(p for p in (ROOT / "dampsim_addon").rglob("*.py") if p.parent.name != "dampsim")
STANDARD = set(sys.stdlib_module_names)
# From bottom to top: files and folders of each package. A module imports from lower layers and its own folder.
LAYERS = {
    "core": [
        "arrays", "errors", "memo", "native", "fields", "geometry", "elements", "energies", "solvers", "contact",
        "weave", "system", "damping", "stepping", "integrators", "scene", "bodies", "frames", "simulation", "measure",
        "papers",
    ],
    "dampsim_addon": ["farm", "blender", "work", "targets", "scene", "live", "jobs", "compare", "ui", "cli", "api"],
}  # fmt: skip


def imported_packages(path: Path) -> set[str]:
    """Return the top-level names of absolute imports, and "." if there is a relative one."""
    names = set()
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            names |= {alias.name.partition(".")[0] for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            names.add("." if node.level else (node.module or "").partition(".")[0])
    return names


def _module(path: Path) -> str:
    return ".".join(path.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__")


def relative_imports() -> set[tuple[str, str]]:
    """Return pairs (importer, imported) of the project's modules, from anywhere in a file."""
    files = {_module(path): path for path in CORE + ADDON}
    found = set()
    for name, path in files.items():
        package = name.split(".") if path.stem == "__init__" else name.split(".")[:-1]
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if not isinstance(node, ast.ImportFrom) or not node.level:
                continue
            base = package[: len(package) - node.level + 1] + (node.module.split(".") if node.module else [])
            for alias in node.names:
                # A package provides modules, and names that its __init__.py defines.
                module = ".".join([*base, alias.name])
                found.add((name, module if module in files else ".".join(base)))
    assert {module for pair in found for module in pair} <= set(files)
    return found


def _layer(module: str) -> tuple[str, int]:
    """Return a module's package and its index in LAYERS; a package's own file is above all layers."""
    package, _, rest = module.partition(".")
    return package, LAYERS[package].index(rest.partition(".")[0]) if rest else len(LAYERS[package])


def modules_in_cycles(imports: set[tuple[str, str]]) -> set[str]:
    """Return the modules that take part in import cycles."""
    left = {module for pair in imports for module in pair}
    while True:
        waiting = {importer for importer, target in imports if target in left and importer in left}
        needed = {target for importer, target in imports if importer in left and target in left}
        rest = left & waiting & needed
        if rest == left:
            return left
        left = rest


def test_imports_follow_layers_without_cycles() -> None:
    for package, layers in LAYERS.items():
        there = {p.stem for p in (ROOT / package).iterdir() if p.suffix == ".py" or (p / "__init__.py").exists()}
        assert there - {"__init__"} == set(layers)
    imports = relative_imports()
    up = {
        (importer, target)
        for importer, target in imports
        if (_layer(importer)[0], target.partition(".")[0]) == ("core", "dampsim_addon")
        or (_layer(importer)[0] == _layer(target)[0] and _layer(importer)[1] < _layer(target)[1])
    }
    assert up == set()
    assert modules_in_cycles(imports) == set()


@pytest.mark.parametrize("path", CORE, ids=lambda p: str(p.relative_to(ROOT)))
def test_core_imports_numpy_and_scipy_only(path: Path) -> None:
    assert imported_packages(path) <= STANDARD | {".", "numpy", "scipy"}


@pytest.mark.parametrize("path", ADDON, ids=lambda p: str(p.relative_to(ROOT)))
def test_addon_imports_blender_and_numpy_only(path: Path) -> None:
    blender = {"bl_operators", "blf", "bmesh", "bpy", "bpy_extras", "gpu", "gpu_extras", "mathutils"}
    if path.parent.name == "farm":
        # The farm runs in any Python. Dask is optional, so it is imported inside functions.
        assert imported_packages(path) <= STANDARD | {".", "distributed"}
        top = ast.parse(path.read_text(encoding="utf-8")).body
        named = [alias.name for node in top if isinstance(node, ast.Import) for alias in node.names]
        assert "distributed" not in [*named, *(node.module for node in top if isinstance(node, ast.ImportFrom))]
        return
    assert imported_packages(path) <= STANDARD | {".", "numpy"} | blender


def test_core_imports_without_blender() -> None:
    modules = [".".join(("dampsim", *p.relative_to(ROOT).with_suffix("").parts)) for p in CORE]
    script = (
        "import sys, importlib; sys.modules['bpy'] = None; sys.path.insert(0, 'tests'); import conftest\n"
        f"for name in {modules!r}: importlib.import_module(name.removesuffix('.__init__'))"
    )
    done = subprocess.run([sys.executable, "-c", script], cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


def test_modules_stay_small() -> None:
    """Modules have at most 600 lines."""
    sizes = {str(p.relative_to(ROOT)): len(p.read_text(encoding="utf-8").splitlines()) for p in CORE + ADDON}
    assert {name: size for name, size in sizes.items() if size > 600} == {}
