"""Write docs/explanation/physics/constants.md: the tunable constants of core/, with values read from the source.

Run it as `python tools/constants_page.py`. The register, constants.toml beside the page, gives each constant's unit and
meaning but never its value, which is read from the module by ast.
"""

from __future__ import annotations

import ast
import math
import operator
import re
import sys
import tomllib
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
FOLDER = ROOT / "docs" / "explanation" / "physics"
REGISTER = FOLDER / "constants.toml"
PAGE = FOLDER / "constants.md"
FIELDS = ("module", "name", "unit", "meaning", "page")

_ALL_CAPS = re.compile(r"_?[A-Z][A-Z0-9_]*")
_HEADING = re.compile(r"^# (.+)$", re.MULTILINE)
_OPERATORS: dict[type[ast.operator], Callable[[Any, Any], Any]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.Div: operator.truediv,
    ast.Pow: operator.pow,
}
# Functions and names that a constant's value may use, without their module (math, np).
_FUNCTIONS: dict[str, Callable[..., Any]] = {
    "array": lambda values: values,
    "cos": math.cos,
    "sin": math.sin,
    "sqrt": math.sqrt,
    "radians": math.radians,
    "float": float,
    "int": int,
}
_NAMES = {"pi": math.pi, "eps": sys.float_info.epsilon, "inf": math.inf}

Value = int | float | tuple["Value", ...] | dict[str, "Value"]


class UnknownValueError(ValueError):
    """A value that is not a number, or a tuple or dictionary of numbers."""


def evaluate(node: ast.expr, known: Mapping[str, Value]) -> Value:
    """Return the number or numbers that an expression stands for; known: constants defined above it."""
    match node:
        case ast.Constant(value=bool()):
            raise UnknownValueError(ast.unparse(node))
        case ast.Constant(value=int() | float() as number):
            return number
        case ast.UnaryOp(op=ast.USub()):
            return -_number(evaluate(node.operand, known))
        case ast.BinOp() if type(node.op) in _OPERATORS:
            left, right = (_number(evaluate(side, known)) for side in (node.left, node.right))
            return _number(_OPERATORS[type(node.op)](left, right))
        case ast.Tuple() | ast.List():
            return tuple(evaluate(one, known) for one in node.elts)
        case ast.Dict() if node.keys and all(node.keys):
            return {_key(k): evaluate(v, known) for k, v in zip(node.keys, node.values, strict=True) if k}
        case ast.Name() if node.id in known:
            return known[node.id]
        case ast.Attribute() if node.attr in _NAMES:
            return _NAMES[node.attr]
        case ast.Call(args=[argument]) if not node.keywords:
            name = ast.unparse(node.func).rpartition(".")[2]
            if name in _FUNCTIONS:
                result: Value = _FUNCTIONS[name](evaluate(argument, known))
                return result
    raise UnknownValueError(ast.unparse(node))


def _number(value: Value) -> int | float:
    if not isinstance(value, (int, float)):
        raise UnknownValueError(str(value))
    return value


def _key(node: ast.expr) -> str:
    return str(node.value) if isinstance(node, ast.Constant) else ast.unparse(node).rpartition(".")[2]


def constants(source: str) -> dict[str, Value]:
    """Return the numeric ALL_CAPS constants at the top level of a module, in order."""
    found: dict[str, Value] = {}
    for target, node in _assignments(source):
        try:
            value = evaluate(node, found)
        except UnknownValueError:
            continue
        if _ALL_CAPS.fullmatch(target):
            found[target] = value
    return found


def _assignments(source: str) -> list[tuple[str, ast.expr]]:
    """Return names and values of a module's assignments, with A, B = 1, 2 taken apart."""
    pairs: list[tuple[ast.expr, ast.expr]] = []
    for node in ast.parse(source).body:
        if isinstance(node, ast.AnnAssign) and node.value is not None:
            pairs.append((node.target, node.value))
        elif isinstance(node, ast.Assign) and len(node.targets) == 1:
            pairs.append((node.targets[0], node.value))
    flat: list[tuple[str, ast.expr]] = []
    for target, value in pairs:
        if isinstance(target, ast.Name):
            flat.append((target.id, value))
        elif isinstance(target, ast.Tuple) and isinstance(value, ast.Tuple):
            both = zip(target.elts, value.elts, strict=True)
            flat += [(one.id, part) for one, part in both if isinstance(one, ast.Name)]
    return flat


def read_register(path: Path = REGISTER) -> dict[str, list[dict[str, str]]]:
    """Return the tables `constant` and `ignored` of the register."""
    return tomllib.loads(path.read_text(encoding="utf-8"))


def problems(register: Mapping[str, list[dict[str, str]]], sources: Mapping[str, str]) -> list[str]:
    """Return what is wrong with the register; sources: text of each module of core/, by its path."""
    found = {path: constants(source) for path, source in sources.items()}
    wrong = []
    listed: set[tuple[str, str]] = set()
    for table in ("constant", "ignored"):
        for entry in register[table]:
            key = (entry["module"], entry["name"])
            if key[0] not in found:
                wrong.append(f"{key[0]}: no such module")
            elif key[1] not in found[key[0]]:
                wrong.append(f"{key[0]}: {key[1]} is registered, but missing or not a number")
            if key in listed:
                wrong.append(f"{key[0]}: {key[1]} is listed twice")
            listed.add(key)
            fields = FIELDS if table == "constant" else ("reason",)
            wrong += [f"{key[0]}: {key[1]} has no {field}" for field in fields if not entry.get(field)]
    for path, values in found.items():
        wrong += [f"{path}: {name} is not registered" for name in values if (path, name) not in listed]
    return wrong


def core_sources() -> dict[str, str]:
    """Return the text of every module of core/, by its path from the root."""
    paths = sorted((ROOT / "core").rglob("*.py"))
    return {path.relative_to(ROOT).as_posix(): path.read_text(encoding="utf-8") for path in paths}


def constants_page(
    register: Mapping[str, list[dict[str, str]]], sources: Mapping[str, str], titles: Mapping[str, str]
) -> str:
    """Return the page; titles: headings of the physics pages, by file name."""
    lines = [
        "# Constants",
        "",
        "Thresholds, tolerances and limits of the implementation. They are not part of the models on the other pages.",
        "This page is generated from the source code by `python tools/constants_page.py`. Units and meanings are in",
        "`docs/explanation/physics/constants.toml`. Dimensionless values have the unit –. Numbers under *Decision* are",
        "those of decision records.",
    ]
    pages = [page for page in titles if any(entry["page"] == page for entry in register["constant"])]
    for page in [*pages, "none"]:
        entries = [entry for entry in register["constant"] if entry["page"] == page]
        if not entries:
            continue
        if page == "none":
            lines += [
                "",
                "## Other",
                "",
                "Constants outside the physics: meshes, files and measurements.",
            ]
        else:
            lines += ["", f"## {titles[page]}", "", f"Model: [{titles[page]}]({page})"]
        lines += ["", "| Value | Unit | Meaning | Constant | Decision |", "|---|---|---|---|---|"]
        for entry in entries:
            value = constants(sources[entry["module"]])[entry["name"]]
            where = f"`{entry['module']}` `{entry['name']}`"
            cells = (shown(value), entry["unit"], entry["meaning"], where, entry.get("decision", ""))
            lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines) + "\n"


def shown(value: Value) -> str:
    """Return a value as text."""
    if isinstance(value, dict):
        return ", ".join(f"{key} {shown(one)}" for key, one in value.items())
    if isinstance(value, tuple):
        return ", ".join(f"({shown(one)})" if isinstance(one, tuple) else shown(one) for one in value)
    if isinstance(value, int):
        return f"{value:,}"
    text = f"{value:.4g}"
    # A value such as 1 + 1e-9 would read as 1.
    return f"{value:.10g}" if float(text).is_integer() and float(text) != value else text


def page_titles(folder: Path = FOLDER) -> dict[str, str]:
    """Return the headings of the numbered pages, by file name."""
    found = {}
    for path in sorted(folder.glob("[0-9][0-9]-*.md")):
        heading = _HEADING.search(path.read_text(encoding="utf-8"))
        found[path.name] = heading[1] if heading else path.stem
    return found


def main() -> None:
    register, sources = read_register(), core_sources()
    wrong = problems(register, sources)
    if wrong:
        sys.exit("\n".join(wrong))
    PAGE.write_text(constants_page(register, sources, page_titles()), encoding="utf-8")


if __name__ == "__main__":
    main()
