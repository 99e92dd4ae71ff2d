"""Packages that modules may import, and the size of modules. import-linter checks the layers (see pyproject.toml)."""

from __future__ import annotations

import ast
import subprocess
import sys
from pathlib import Path

import pytest
from routes import count_returns, route

from example_additions import copy_with_additions

ROOT = Path(__file__).parents[2]


def modules(root: Path) -> list[Path]:
    """Return the modules below a root. Presets are separate scripts that Blender runs."""
    paths = [*(root / "core").rglob("*.py"), *(root / "dampsim_addon").rglob("*.py")]
    return sorted(path for path in paths if path.parent.name != "dampsim")


CORE = [path for path in modules(ROOT) if "core" in path.relative_to(ROOT).parts[:1]]
ADDON = [path for path in modules(ROOT) if path not in CORE]
STANDARD = set(sys.stdlib_module_names)
MIN_LINES, MAX_LINES = 80, 600
# Largest part of core in one folder.
MAX_SHARE = 0.12
# Registries that newcomers extend by one file and one line. A module that only its registry imports may start small.
OPEN_REGISTRIES = (
    "core/bodies/__init__.py",
    "core/literature/damping/__init__.py",
    "core/literature/integrators/__init__.py",
    "core/materials/__init__.py",
    "dampsim_addon/jobs/export/__init__.py",
    "dampsim_addon/targets/__init__.py",
    "dampsim_addon/ui/viewport/overlay.py",
)
# Variables of the add-on's modules that do not belong to the open file.
MODULE_VARIABLES = {
    "blender/sampler.py:ACTIVE_SAMPLERS": "stack of entered contexts",
    "cli/__init__.py:_command_handle": "registered command",
    "live/main_thread.py:_requests": "queue between threads",
    "model/caches.py:_blend_path_overrides": "stack of entered contexts",
    "model/presets/__init__.py:_icons": "icons of the add-on",
    "session.py:_SESSION": "session itself",
    "ui/viewport/overlay.py:_handles": "registered draw handlers",
}


def imported_packages(path: Path) -> set[str]:
    """Return the top-level names of absolute imports, and "." if there is a relative one."""
    names = set()
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            names |= {alias.name.partition(".")[0] for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            names.add("." if node.level else (node.module or "").partition(".")[0])
    return names


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


def module_variables(tree: ast.Module) -> set[str]:
    """Return the names of globals that functions replace, and of those that begin as an empty container."""
    names = {name for node in ast.walk(tree) if isinstance(node, ast.Global) for name in node.names}
    for node in tree.body:
        if isinstance(node, ast.Assign | ast.AnnAssign) and node.value is not None:
            is_empty = ast.unparse(node.value) in {"[]", "{}"}
            is_empty |= isinstance(node.value, ast.Call) and not node.value.args and not node.value.keywords
            targets = node.targets if isinstance(node, ast.Assign) else [node.target]
            names |= {ast.unparse(target) for target in targets if is_empty}
    return names


def test_addon_keeps_state_in_its_session() -> None:
    """Other modules have neither variables nor handlers and timers of their own."""
    variables, touching = set(), set()
    for path in ADDON:
        tree, name = ast.parse(path.read_text(encoding="utf-8")), path.relative_to(ROOT / "dampsim_addon").as_posix()
        variables |= {f"{name}:{variable}" for variable in module_variables(tree)}
        used = {ast.unparse(node) for node in ast.walk(tree) if isinstance(node, ast.Attribute)}
        for node in ast.walk(tree):
            if isinstance(node, ast.ImportFrom):
                used |= {node.module or "", *(f"{node.module}.{alias.name}" for alias in node.names)}
        if used & {"bpy.app.handlers", "bpy.app.timers"}:
            touching.add(name)
    assert variables == MODULE_VARIABLES.keys()
    assert touching == {"session.py"}


def test_envelope_points_are_set_together() -> None:
    """Blender reads beyond the memory of a point of an envelope if a property of it is set. foreach_set does not."""
    adding = ".control_points.add("
    for path in [*ADDON, *(ROOT / "tests" / "addon").rglob("*.py"), *(ROOT / "tests" / "window").rglob("*.py")]:
        source = path.read_text(encoding="utf-8")
        statements = [ast.unparse(node) for node in ast.walk(ast.parse(source)) if isinstance(node, ast.Expr)]
        unused = [line for line in statements if adding in line and line.endswith(")")]
        assert len(unused) == source.count(adding), path


def test_core_imports_without_blender() -> None:
    modules = [".".join(("dampsim", *p.relative_to(ROOT).with_suffix("").parts)) for p in CORE]
    script = (
        "import sys, importlib; sys.modules['bpy'] = None; sys.path.insert(0, 'tests'); import conftest\n"
        f"for name in {modules!r}: importlib.import_module(name.removesuffix('.__init__'))"
    )
    done = subprocess.run([sys.executable, "-c", script], cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


def relative_importers(paths: list[Path]) -> dict[Path, list[Path]]:
    """Return for each module the modules that import it by a relative import."""
    importers: dict[Path, list[Path]] = {path: [] for path in paths}
    for path in paths:
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if not isinstance(node, ast.ImportFrom) or not node.level:
                continue
            base = path.parents[node.level - 1].joinpath(*(node.module or "").split("."))
            targets = [base, *(base / alias.name for alias in node.names)]
            for target in {target.with_suffix(".py") for target in targets} & importers.keys():
                importers[target].append(path)
    return importers


def count_lines(path: Path) -> int:
    return len(path.read_text(encoding="utf-8").splitlines())


def small_modules(root: Path) -> set[str]:
    """Return the modules with too few lines. Packages are no modules, and entries of registries may start small."""
    importers, registries = relative_importers(modules(root)), {root / name for name in OPEN_REGISTRIES}
    return {
        path.relative_to(root).as_posix()
        for path, users in importers.items()
        if path.stem != "__init__" and count_lines(path) < MIN_LINES and not (users and set(users) <= registries)
    }


def test_modules_have_reasonable_size() -> None:
    assert {path for path in modules(ROOT) if count_lines(path) > MAX_LINES} == set()
    assert small_modules(ROOT) == set()
    assert all((ROOT / name).exists() for name in OPEN_REGISTRIES)


def test_new_entries_may_be_small(tmp_path: Path) -> None:
    """The additions of "How to add" need one file each; other small modules are reported, also with two importers."""
    copy_with_additions(tmp_path)
    assert small_modules(tmp_path) == set()
    (tmp_path / "core/materials/small.py").write_text("", encoding="utf-8")
    entry = tmp_path / "core/literature/damping/damping.py"
    entry.write_text("from .half import HalfDamping\n" + entry.read_text(encoding="utf-8"), encoding="utf-8")
    assert small_modules(tmp_path) == {"core/literature/damping/half.py", "core/materials/small.py"}


def test_no_folder_dominates_core() -> None:
    lines = {path: count_lines(path) for path in CORE}
    shares = {
        folder.name: sum(n for p, n in lines.items() if folder in p.parents) / sum(lines.values())
        for folder in (ROOT / "core").iterdir()
        if folder.is_dir()
    }
    assert {name: share for name, share in shares.items() if share > MAX_SHARE} == {}


# Stages of a step and of a bake, with the largest numbers of modules and of returns on their routes.
ROUTES = {
    "core/steppers/implicit.py:Stepper.step": (10, 4),
    **dict.fromkeys(
        (
            "dampsim_addon/jobs/bake.py:bake_all",
            "dampsim_addon/jobs/bake.py:bake_group",
            "dampsim_addon/jobs/plan.py:plan_bake",
            "dampsim_addon/jobs/prepare.py:prepare_shot",
            "dampsim_addon/jobs/simulate.py:simulate_shot",
            "dampsim_addon/jobs/write.py:write_member",
            "dampsim_addon/jobs/clear.py:replaced_bake",
            "dampsim_addon/jobs/result.py:measure_settling",
            "dampsim_addon/jobs/result.py:bake_result",
            "dampsim_addon/jobs/result.py:store_result",
        ),
        (15, 6),
    ),
}


@pytest.mark.parametrize("stage", ROUTES)
def test_route_goes_forward(stage: str) -> None:
    """See routes.py for the measure."""
    path, _, function = stage.partition(":")
    visits, (max_modules, max_returns) = route(ROOT / path, function), ROUTES[stage]
    assert len(visits) > 1
    assert len(set(visits)) <= max_modules, visits
    assert count_returns(visits) <= max_returns, visits


# A call whose route is known. Comments name the visits.
ROUTE_EXAMPLE = """
from __future__ import annotations
from .a import A, make
from .b import B as Renamed
from . import c
from .unused import Unused

LIMIT = Renamed(1)

class Call:
    kind = A  # a
    def step(self, x: Unused, y=Unused()) -> Unused:
        z: Unused = make(x).then()  # a
        if x > LIMIT:  # b
            return self.kind(z)  # a again: a return
        other = Part(z)
        return other.end(c.last(LIMIT))  # method of Part, then c: a return; LIMIT was read
    def unread(self):
        return Unused()

class Part:
    def __init__(self, z):
        self.z = make(z)  # a, nothing in between
    @Unused
    def end(self, x):
        return [c.last(one) for one in x if A]  # c, then a: a return
"""


def example_route(folder: Path, code: str) -> list[str]:
    for name in ("a", "b", "c", "unused"):
        (folder / f"{name}.py").touch()
    (folder / "own.py").write_text(code, encoding="utf-8")
    return route(folder / "own.py", "Call.step", folder)


def test_route_follows_own_code_once(tmp_path: Path) -> None:
    assert example_route(tmp_path, ROUTE_EXAMPLE) == ["own", "a", "b", "a", "c", "a", "c"]
    assert count_returns(["own", "a", "b", "a", "c", "a", "c"]) == 3


def test_route_follows_unknown_owner(tmp_path: Path) -> None:
    """A method of any class of the module is read; the attributes of an imported name are not."""
    assert example_route(tmp_path, ROUTE_EXAMPLE.replace("other.end(", "x.end("))[-3:] == ["c", "a", "c"]
    assert example_route(tmp_path, ROUTE_EXAMPLE.replace("other.end(", "A.end("))[-3:] == ["b", "a", "c"]
