"""Measure the route through the modules of the project of a reader who follows a call by hand.

The reader follows the code of one module in source order, from a function on. Each function, method and variable of the
module is read where it is used first, and only once. Each use of a name that the module imports from another module of
the project is a visit to that module. The attributes of the name belong to the visit; the code of the other module is
not followed, because the reader trusts the name. Annotations, decorators and default values are not uses.

The types of other values are unknown, so an attribute leads to all methods and class variables of the module that have
its name.

Successive visits to a module count once. A return is a visit to a module that was visited before, with another one in
between. The module of the function counts as a module, but the way back to it is no return.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).parents[2]
_FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef)


def route(path: Path, function: str, root: Path = ROOT) -> list[str]:
    """Return the visited modules in order, the own one first, as paths relative to the root without suffix.

    path: of the module of the function.  function: name, or `Class.method`.
    """
    own = path.with_suffix("")
    visits = [own]
    for module in _Reader(path).visits(function):
        if module not in (visits[-1], own):
            visits.append(module)
    return [one.relative_to(root).as_posix() for one in visits]


def count_returns(visits: list[str]) -> int:
    """Return the number of visits to modules that were visited before."""
    return len(visits) - len(set(visits))


class _Reader:
    """Reader of one module.

    imported: module of each imported name.
    definitions: functions, classes and values of variables by name; those of classes also with the name of the class.
    """

    def __init__(self, path: Path) -> None:
        tree = ast.parse(path.read_text(encoding="utf-8"))
        self.imported = {
            alias.asname or alias.name: _module(path, node, alias.name)
            for node in ast.walk(tree)
            if isinstance(node, ast.ImportFrom) and node.level
            for alias in node.names
        }
        self.definitions: dict[str, list[ast.AST]] = {}
        self._read: set[ast.AST] = set()
        for name, node in _definitions(tree):
            self.definitions.setdefault(name, []).append(node)
            for member, part in _definitions(node) if isinstance(node, ast.ClassDef) else ():
                for key in (f"{name}.{member}", f".{member}"):
                    self.definitions.setdefault(key, []).append(part)

    def visits(self, name: str) -> Iterator[Path]:
        """Yield the visits of a definition that was not read before."""
        for node in self.definitions.get(name, ()):
            if isinstance(node, ast.ClassDef):
                for method in ("__init__", "__post_init__"):
                    yield from self.visits(f"{name}.{method}")
            elif node not in self._read:
                self._read.add(node)
                yield from self._uses(node)

    def _uses(self, root: ast.AST) -> Iterator[Path]:
        """Yield the visits of the code of a definition."""
        for node in sorted(_run_time_nodes(root), key=_end):
            if isinstance(node, ast.Name):
                if node.id in self.imported:
                    yield self.imported[node.id]
                else:
                    yield from self.visits(node.id)
                continue
            owner = node.value.id if isinstance(node.value, ast.Name) else ""
            if f"{owner}.{node.attr}" in self.definitions and owner:
                yield from self.visits(f"{owner}.{node.attr}")
            elif owner not in self.imported:
                yield from self.visits(f".{node.attr}")


def _module(path: Path, node: ast.ImportFrom, name: str) -> Path:
    """Return the path of the module from which a relative import takes a name, without suffix."""
    source = path.parents[node.level - 1].joinpath(*(node.module or "").split("."))
    if (source / name).with_suffix(".py").exists() or (source / name).is_dir():
        source = source / name
    return source


def _end(node: ast.expr) -> tuple[int, int]:
    """Return the position at which an expression ends. The parts of an attribute begin at the same position."""
    return node.end_lineno or 0, node.end_col_offset or 0


def _definitions(owner: ast.Module | ast.ClassDef) -> Iterator[tuple[str, ast.AST]]:
    """Yield the functions, classes and values of variables in the body of a module or of a class, with their names."""
    for node in owner.body:
        if isinstance(node, (*_FUNCTIONS, ast.ClassDef)):
            yield node.name, node
        elif isinstance(node, ast.Assign | ast.AnnAssign) and node.value is not None:
            for target in node.targets if isinstance(node, ast.Assign) else [node.target]:
                yield ast.unparse(target), node.value


def _run_time_nodes(root: ast.AST) -> Iterator[ast.Name | ast.Attribute]:
    """Yield the names and attributes that the code of a definition uses when it runs."""
    if isinstance(root, ast.Name | ast.Attribute):
        yield root
    for field, value in ast.iter_fields(root):
        if field in ("annotation", "returns", "decorator_list", "args") and not isinstance(root, ast.Call):
            continue
        for part in value if isinstance(value, list) else [value]:
            if isinstance(part, ast.AST):
                yield from _run_time_nodes(part)
