"""Countable rules of the project's language: names, docstrings and prose. See "Names and texts" in CONTRIBUTING.md."""

from __future__ import annotations

import ast
import re
from collections import defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cache

# Most occurrences of "what" in a thousand words. Texts that exceed it usually lack nouns.
MAX_WHAT = 3.0
# Fewest and most words in the name of a test, without the leading "test".
TEST_NAME_WORDS = (2, 6)
MIN_TEST_WORDS, MAX_TEST_WORDS = 2, 6
# A string with at least so many words is a text that somebody reads.
TEXT_WORDS = 3
# Words that say nothing on their own: participles, adverbs, prepositions and pronouns.
BANNED_NAMES = frozenset(
    """
    ahead along alone among anew apart around aside asked away begun behind beside blown bred called carried chosen
    crossing dialled doing drawn fallen following followed forgotten glued going gone given going_on held here holds
    hung joined kept known laid lasting leaning led left lies lingering lone looked lying made marked meant mended
    mine more moved of_all own passed passing pressed pressing pulled pulling pushed read_off reached remarked said
    seen sewn shown shrunk shut slowed soon spread standing strained striven striving sunk taken telling tells there
    thrown tied together told touched touching turned turning unmoved untold wanted way ways weighed what whatever
    where which whose with_it woven_by
    """.split()  # noqa: SIM905
)
# First words of docstrings that continue a name or lack a noun.
BANNED_STARTS = ("What", "Of", "Whether", "Where", "Who", "Which", "How")
# Names that files or reports store: properties of objects and operators, and keys of reports.
SAVED_NAMES = frozenset(
    {
        "DAMPSIM_OT_bake.which",
        "DAMPSIM_OT_mend.way",
        "DAMPSIM_OT_muscle_add.what",
        "DAMPSIM_OT_muscle_assign.what",
        "DAMPSIM_OT_muscle_remove.what",
        "DAMPSIM_OT_pin_gradient.held",
        "DAMPSIM_OT_weave.along",
        "DAMPSIM_PG_object.together",
        "DAMPSIM_PG_point.there",
        "DAMPSIM_PG_walk.shown",
        "DAMPSIM_PG_walk.way",
        "Result.touched",
    }
)
# Names that a registry or Blender prescribes, so that several modules have them.
PROTOCOL_NAMES = frozenset({"register", "unregister", "draw", "run", "main", "add_to"})


@dataclass(frozen=True)
class Name:
    """A name that a module defines. kind: class, function, method, attribute or parameter."""

    kind: str
    scope: str
    text: str

    @property
    def is_public(self) -> bool:
        return not self.text.startswith("_")


# Several rules look at the same modules.
@cache
def names(source: str) -> tuple[Name, ...]:
    """Return the names of classes, functions, methods, annotated attributes and parameters of a module."""
    return tuple(_names(ast.parse(source), ""))


def _names(node: ast.AST, scope: str) -> Iterator[Name]:
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.ClassDef):
            yield Name("class", scope, child.name)
            yield from _names(child, f"{scope}.{child.name}".lstrip("."))
        elif isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef):
            yield Name("method" if isinstance(node, ast.ClassDef) else "function", scope, child.name)
            inside = f"{scope}.{child.name}".lstrip(".")
            arguments = child.args
            for argument in (*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs):
                yield Name("parameter", inside, argument.arg)
            yield from _names(child, inside)
        elif isinstance(child, ast.AnnAssign) and isinstance(child.target, ast.Name) and isinstance(node, ast.ClassDef):
            yield Name("attribute", scope, child.target.id)
        else:
            yield from _names(child, scope)


def duplicate_names(sources: Mapping[str, str]) -> dict[str, list[str]]:
    """Return the public classes and functions that several modules define, with these modules.

    sources: text of each module by its path.
    """
    places = defaultdict(list)
    for path, source in sources.items():
        for name in names(source):
            if name.kind in ("class", "function") and not name.scope and name.is_public:
                places[name.text].append(path)
    return {name: paths for name, paths in places.items() if len(paths) > 1 and name not in PROTOCOL_NAMES}


def banned_names(source: str) -> list[str]:
    """Return the classes, functions, methods and attributes of a module with a banned name, each with its scope."""
    found = (
        f"{name.scope}.{name.text}".lstrip(".")
        for name in names(source)
        if name.kind != "parameter" and name.text.strip("_").lower() in BANNED_NAMES
    )
    return [name for name in found if name not in SAVED_NAMES]


@cache
def docstrings(source: str) -> tuple[str, ...]:
    places = (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)
    found = (ast.get_docstring(node) for node in ast.walk(ast.parse(source)) if isinstance(node, places))
    return tuple(text for text in found if text)


def headless_docstrings(source: str) -> list[str]:
    """Return the first lines of docstrings that begin with one of BANNED_STARTS."""
    lines = (text.splitlines()[0] for text in docstrings(source))
    return [line for line in lines if line.partition(" ")[0].rstrip(",:") in BANNED_STARTS]


def texts(source: str) -> list[str]:
    """Return the strings of a module that people read: those of several words that are no docstrings."""
    tree = ast.parse(source)
    bare = {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Expr)}
    return [
        node.value
        for node in ast.walk(tree)
        if isinstance(node, ast.Constant)
        and isinstance(node.value, str)
        and id(node) not in bare
        and len(node.value.split()) >= TEXT_WORDS
    ]


def prose(page: str) -> str:
    """Return a Markdown page without code blocks, inline code and tables."""
    page = re.sub(r"^(```|~~~).*?^\1", "", page, flags=re.MULTILINE | re.DOTALL)
    page = re.sub(r"`[^`\n]*`", "", page)
    return "\n".join(line for line in page.splitlines() if not line.lstrip().startswith("|") and line[:4] != "    ")


def what_rate(text: str) -> float:
    """Return how often "what" occurs in a thousand words."""
    words = re.findall(r"[A-Za-z][A-Za-z'’-]*", text)
    return 1000.0 * sum(word.lower().startswith("what") for word in words) / max(len(words), 1)


def words_of_test(name: str) -> int:
    """Return the number of words in the name of a test function."""
    return len(name.removeprefix("test_").split("_"))
