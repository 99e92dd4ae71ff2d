"""Public API of the core: its exports, its cost at import, and the examples of docs/reference/python-core.md."""

from __future__ import annotations

import ast
import importlib
import inspect
import itertools
import re
import subprocess
import sys
from pathlib import Path
from types import ModuleType

import pytest

from dampsim import core

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs" / "reference" / "python-core.md"
sys.path.append(str(ROOT / "docs" / "examples"))
import cloth_over_ball  # noqa: E402
import settling_bar  # noqa: E402


def typed_imports() -> dict[str, str]:
    """Return the names that core/__init__.py imports for type checkers, with their modules."""
    tree = ast.parse(Path(core.__file__).read_text(encoding="utf-8"))
    (block,) = (node for node in tree.body if isinstance(node, ast.If) and isinstance(node.test, ast.Name))
    imports = [node for node in block.body if isinstance(node, ast.ImportFrom)]
    return {alias.name: f"dampsim.core.{node.module}" for node in imports for alias in node.names}


def docstring_of(module: ModuleType, name: str) -> str:
    """Return the docstring of a class or function, or the string after an assignment; "" if there is none."""
    body = ast.parse(inspect.getsource(module)).body
    for statement, following in itertools.zip_longest(body, body[1:]):
        if getattr(statement, "name", "") == name:
            return ast.get_docstring(statement) or ""
        targets = [statement.target] if isinstance(statement, ast.AnnAssign) else getattr(statement, "targets", [])
        if name in [target.id for target in targets if isinstance(target, ast.Name)]:
            is_text = isinstance(following, ast.Expr) and isinstance(following.value, ast.Constant)
            return str(following.value.value) if is_text else ""
    return ""


def loaded_modules(statement: str) -> set[str]:
    """Return the modules that a statement loads in a new process."""
    script = (
        "import sys; sys.path.insert(0, 'docs/examples'); import checkout\n"
        f"before = set(sys.modules)\n{statement}\nprint(*set(sys.modules) - before)"
    )
    done = subprocess.run([sys.executable, "-c", script], cwd=ROOT, capture_output=True, text=True, check=True)
    return set(done.stdout.split())


def test_exports_match_typed_imports() -> None:
    modules = typed_imports()
    assert sorted(core.__all__) == sorted(modules)
    for name, module in modules.items():
        assert getattr(core, name) is getattr(importlib.import_module(module), name)
    assert set(core.__all__) <= set(dir(core))


def test_addon_imports_exports_from_core() -> None:
    modules = {(module.removeprefix("dampsim."), name) for name, module in typed_imports().items()}
    # A package that offers the same names.
    modules |= {
        ("core.scene.parameters", name) for module, name in modules if module.startswith("core.scene.parameters")
    }
    found = []
    for path in sorted((ROOT / "dampsim_addon").rglob("*.py")):
        imports = [node for node in ast.walk(ast.parse(path.read_text("utf-8"))) if isinstance(node, ast.ImportFrom)]
        names = [(node.module, alias.name) for node in imports if node.level for alias in node.names]
        found += [(path.name, *name) for name in names if name in modules]
    assert found == []


def test_unknown_export_raises() -> None:
    with pytest.raises(AttributeError, match="no attribute 'Unknown'"):
        _ = core.Unknown


def test_core_import_is_light() -> None:
    loaded = loaded_modules("import dampsim.core")
    assert not {"numpy", "scipy"} & loaded
    assert {name for name in loaded if name.startswith("dampsim.")} == {"dampsim.core"}
    loaded = loaded_modules("import dampsim.core.base.arrays")
    assert {name for name in loaded if name.startswith("dampsim.core.")} == {
        "dampsim.core.base", "dampsim.core.base.arrays",
    }  # fmt: skip
    loaded = loaded_modules("from dampsim.core import Body, Scene")
    assert "dampsim.core.scene.scene" in loaded
    assert "dampsim.core.simulation" not in loaded


@pytest.mark.parametrize("name", core.__all__)
def test_export_has_docstring(name: str) -> None:
    assert docstring_of(importlib.import_module(typed_imports()[name]), name)


@pytest.mark.parametrize("name", core.__all__)
def test_page_names_export(name: str) -> None:
    page = PAGE.read_text(encoding="utf-8")
    assert re.search(rf"^\|.*`{name}(\(\))?`", page, re.MULTILINE)


@pytest.mark.parametrize("example", [settling_bar, cloth_over_ball])
def test_page_includes_example(example: ModuleType) -> None:
    page = PAGE.read_text(encoding="utf-8")
    assert f'\n--8<-- "{example.__name__}.py"\n' in page


def test_example_bar_settles_as_dialled() -> None:
    curve = settling_bar.simulate(settle=20.0, bounce=30.0)
    # The promise of a stop: one frame, and 5 percentage points of the first mode's overshoot.
    assert curve.rest == pytest.approx(20.0, abs=1.0)
    assert curve.dial == 20.0
    assert curve.overshoot == pytest.approx(0.3, abs=0.05)


def test_example_cloth_stays_outside_ball() -> None:
    lowest, distance = cloth_over_ball.simulate()
    # The corners hang below the ball's centre, above the place that a stretched cloth would reach.
    assert -cloth_over_ball.WIDTH < lowest < 0.0
    assert distance > 0.0
