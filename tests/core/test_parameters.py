"""Parameters: each is defined once, described, validated, used and documented."""

from __future__ import annotations

import ast
import importlib.util
from pathlib import Path

import pytest

from dampsim.core.base.errors import ParameterError
from dampsim.core.scene.parameters import COLLIDER_PARAMETERS, PARAMETERS, Parameter, Settings

NUMBERS = [p for p in PARAMETERS.values() if not p.choices and not isinstance(p.default, bool)]


@pytest.mark.parametrize("parameter", PARAMETERS.values(), ids=PARAMETERS)
def test_parameter_description_and_default(parameter: Parameter) -> None:
    assert parameter.label
    assert len(parameter.description) > 20
    assert not parameter.description.endswith(".")
    assert parameter.validate(parameter.default) == parameter.default
    assert parameter.validate(str(parameter.default)) == parameter.default


@pytest.mark.parametrize("parameter", NUMBERS, ids=lambda p: p.name)
def test_number_out_of_range_is_refused(parameter: Parameter) -> None:
    for value in (parameter.min, parameter.max):
        assert parameter.validate(value) == pytest.approx(value)
    with pytest.raises(ParameterError, match=parameter.name):
        parameter.validate(parameter.max * 2 + 1)
    with pytest.raises(ParameterError, match=parameter.name):
        parameter.validate("much")
    with pytest.raises(ParameterError, match=parameter.name):
        parameter.validate(float("nan"))


def test_every_parameter_is_read() -> None:
    """Some module reads each parameter, as an attribute or by the name in a damping's list."""
    core, found = Path(__file__).parents[2] / "core", set()
    for path in core.rglob("*.py"):
        if path.parent.name != "parameters" or path.name == "settings.py":
            nodes = list(ast.walk(ast.parse(path.read_text(encoding="utf-8"))))
            found |= {node.attr for node in nodes if isinstance(node, ast.Attribute)}
            found |= {node.value for node in nodes if isinstance(node, ast.Constant) and isinstance(node.value, str)}
    assert set(PARAMETERS) <= found


def test_single_precision_limit_reads_back() -> None:
    assert Settings(poisson=0.49500000476837158).poisson == 0.495


def test_parameter_page_is_up_to_date() -> None:
    root = Path(__file__).parents[2]
    spec = importlib.util.spec_from_file_location("parameters_page", root / "tools" / "parameters_page.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    page = (root / "docs" / "reference" / "parameters.md").read_text(encoding="utf-8")
    assert page == module.parameters_page(PARAMETERS, COLLIDER_PARAMETERS), (
        "make it anew: python run.py docs --parameters"
    )
