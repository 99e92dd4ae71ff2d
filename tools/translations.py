"""Compare the catalogues of dampsim_addon/translations/ with the texts of the add-on, in the bpy module.

    python run.py translations              fail if a text has no entry, an entry no text, or an entry is faulty
    python run.py translations --update     remove entries without text, and add missing ones, marked as fuzzy
    python run.py translations --list       print all messages

Labels and tooltips are those of the registered classes and properties. Messages are the texts in the source: each
f-string is a template, whose placeholders are named after the variables.
"""

from __future__ import annotations

import argparse
import ast
import importlib.util
import itertools
import re
import sys
from collections import defaultdict
from collections.abc import Iterable, Iterator
from importlib import import_module
from pathlib import Path
from types import ModuleType

ROOT = Path(__file__).resolve().parents[1]


def load_module(name: str, path: Path) -> ModuleType:
    """Import a module of the add-on alone, without Blender."""
    spec = importlib.util.spec_from_file_location(name, path)
    assert spec is not None
    assert spec.loader is not None
    sys.modules[name] = module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


catalogue = load_module("dampsim_catalogue", ROOT / "dampsim_addon" / "translations" / "catalogue.py")
# Largest share of entries that may be marked as fuzzy: uncertain, or not translated yet and displayed in English.
MAX_MARKED = 0.02
# Modules without texts for the interface: the command line, files for developers, pages and node trees.
LEFT_OUT = re.compile(
    r"dampsim_addon/(cli|farm|api|translations|compare/(sweep|contact_sheet|checkpoint)|session"
    r"|blender/(hair_tree|node_builder|dampsim_names|yarns|maps|geometry_nodes))"
    r"|core/(__init__|native/(interface|library|elements|matrices|ropes|pieces|contacts)|literature/papers|measure/(picture|plot)|frames/(frame|background)"
    r"|settle/step_report|system/term|bodies/fabrics)"
)
# Calls whose texts are names, bugs, or labels that registered classes have.
NOT_SHOWN = re.compile(
    r"(^|\.)(ValueError|TypeError|RuntimeError|KeyError|AssertionError|AttributeError|require_\w+|take\w*|get"
    r"|\w+Property|Parameter|parameter|Choice|print|new|link|math|input|output|endswith|startswith|split|compile|Flag"
    r"|ThreadPoolExecutor|int|_json_digest|PlasticTerm\.create|at_index|compare|FabricPreset)$"
)
# Calls and fields whose short texts are shown too.
SHOWN = re.compile(
    r"(^|\.)(label|operator|menu|prop|translate|draw_wrapped|draw_property|Issue|fix_button|issue_with_fixes|Step|count_label)$"
)
NO_MESSAGE = re.compile(
    r"import bpy|\w+ papers|how (steps|the shot) |nodes, elements|Not \{|kind: \{|bone \{places|DampSim$|It$|Them$"
    r"|\{number\} k?mm?$|its (parent|standard) \w+ |\{collider\} as a collider$"
)
# Values of placeholders that the code takes from elsewhere, such as the "stop" after which a body rests.
VALUES = (
    *("itself", "release", "stop", "tetrahedra", "playback", "gravity", "particles", "fluid"),
    # Results of operators in one word.
    *("baked", "blended", "calibrated"),
    *("a choice", "a fabric", "from the {begin} side", "a number", "text", "a whole number", "True or False"),
    *("it has no values", "it is too large", "it is a link to another file", "it is not a regular file"),
    *("it is nested too deeply", "it is not UTF-8 text", "one of its keys is repeated"),
    "one of its numbers is too large or not a number",
    *("halved {frames}", "retried with calmer motion {frames}", "accepted before they converged {frames}"),
    "cut short to keep surfaces apart {frames}",
)
WORDS = re.compile(r"[A-Za-z]{2,}[,.:;]? ['\"(]?[A-Za-z\0]|\0[:;,]? \(?[a-z]{2,}")
# Most variants of a template whose variables have constant values.
MAX_VARIANTS = 12


def registered_texts() -> set[str]:
    """Return the labels, tooltips, choices and units of all registered classes and their properties."""
    import bpy

    core = import_module("dampsim.core")
    texts = {parameter.unit for parameter in core.PARAMETERS.values()}
    texts |= set(import_module("dampsim.core.bodies.fabrics").FABRICS)
    classes = [bpy.types.Operator, bpy.types.Panel, bpy.types.Menu, bpy.types.PropertyGroup, bpy.types.FileHandler]
    structs = [bpy.types.Object.bl_rna, bpy.types.Scene.bl_rna, bpy.types.WindowManager.bl_rna]
    while classes:
        for cls in classes.pop().__subclasses__():
            classes.append(cls)
            if not cls.__module__.startswith("dampsim.dampsim_addon") or not getattr(cls, "is_registered", False):
                continue
            if issubclass(cls, bpy.types.Operator):
                struct = getattr(bpy.ops.dampsim, cls.bl_idname.partition(".")[2]).get_rna_type()
                texts |= {struct.name, struct.description}
            else:
                struct = cls.bl_rna
                # Blender changes the label of a preset menu to the last preset that was added.
                texts.add("" if hasattr(cls, "preset_subdir") else getattr(cls, "bl_label", ""))
            structs.append(struct)
    for struct in structs:
        is_blenders = struct.identifier in ("Object", "Scene", "WindowManager")
        for prop in struct.properties:
            is_inherited = struct.base is not None and prop.identifier in struct.base.properties
            if is_inherited or (is_blenders and not prop.identifier.startswith("dampsim")):
                continue
            items = getattr(prop, "enum_items_static", ())
            # Without a name, a property has that of its identifier.
            label = "" if prop.name == prop.identifier else prop.name
            texts.update((label, prop.description), *((item.name, item.description) for item in items))
    return {
        text for text in texts if re.search("[A-Z]|frames|τ", text) and re.search("[a-z]", text) and text != "DampSim"
    }


class Source:
    """The messages of one module."""

    def __init__(self, tree: ast.Module, labels: set[str]) -> None:
        self.labels = labels
        self.parents = {child: node for node in ast.walk(tree) for child in ast.iter_child_nodes(node)}
        self.constants = _constants(tree.body)
        self.tree = tree

    def messages(self) -> Iterator[tuple[str, str]]:
        """Yield each message with its plural, or ''."""
        for node in ast.walk(self.tree):
            if isinstance(node, ast.Call) and ast.unparse(node.func).rpartition(".")[2] in ("format_count", "plural"):
                noun = node.args[1] if len(node.args) > 1 else None
                for text in self._values(noun) if noun is not None else ():
                    yield from _count_messages(text, ast.unparse(node.func))
            elif isinstance(node, ast.JoinedStr) or (isinstance(node, ast.Constant) and isinstance(node.value, str)):
                is_part = isinstance(self.parents.get(node), ast.JoinedStr | ast.Expr)
                for text in self._templates(node) if not is_part and self._is_shown(node) else ():
                    yield text, ""

    def _is_shown(self, node: ast.AST) -> bool:
        """Return True unless the text is an argument of a call in NOT_SHOWN, a key or a format."""
        is_short = not isinstance(node, ast.JoinedStr) and not WORDS.search(node.value)  # type: ignore[attr-defined]
        if is_short and not re.match(r"[A-Z]?[a-z]+$|[A-Z][a-z]+", node.value):  # type: ignore[attr-defined]
            return False
        child = node
        while (parent := self.parents.get(child)) is not None:
            if isinstance(parent, ast.FormattedValue) and parent.format_spec is child:
                return False
            if isinstance(parent, ast.Compare | ast.Subscript | ast.arg | ast.Assert):
                return False
            if isinstance(parent, ast.Attribute) and parent.attr == "split":
                # A list of words.
                return False
            # The keys of digests are inputs, which messages list, such as "the mesh".
            is_input = isinstance(node, ast.Constant) and str(node.value).startswith("the ")
            if isinstance(parent, ast.Dict) and child in parent.keys and not is_input:
                return False
            if isinstance(parent, ast.Call):
                name = ast.unparse(parent.func)
                if child is parent.func:
                    child = parent
                    continue
                if NOT_SHOWN.search(name):
                    return False
                if is_short:
                    return bool(SHOWN.search(name)) and bool(re.match("[A-Z]", node.value))  # type: ignore[attr-defined]
                if name.rpartition(".")[2] in ("format_count", "plural"):
                    return False
            if isinstance(parent, ast.stmt):
                if is_short:
                    targets = [
                        ast.unparse(one) for one in getattr(parent, "targets", [getattr(parent, "target", None)]) if one
                    ]
                    is_name = re.search("^[A-Z]", node.value)  # type: ignore[attr-defined]
                    return any(
                        (re.search(r"(label|text|tip)s?$", target) and is_name) or re.search("BEAUFORT", target)
                        for target in targets
                    ) or (bool(is_name) and self._is_in_enum(parent))
                return not (isinstance(parent, ast.FunctionDef) or self._is_alias_table(parent))
            child = parent
        return True

    def _is_in_enum(self, node: ast.AST) -> bool:
        parent = self.parents[node]
        return isinstance(parent, ast.ClassDef) and any("Enum" in ast.unparse(base) for base in parent.bases)

    def _is_alias_table(self, node: ast.stmt) -> bool:
        names = [ast.unparse(one) for one in getattr(node, "targets", ())]
        return any(
            re.search(r"FORMER|PREFIX|MODIFIER|FORMAT_NAME|_SHAPE|_TYPE_NAMES|_LIST_KEYS|_AXES", name) for name in names
        )

    def _templates(self, node: ast.AST) -> Iterator[str]:
        """Yield the templates of a text, one for each combination of its variables' constant values."""
        if isinstance(node, ast.Constant):
            numbers = itertools.count(1)
            parts: list[list[str]] = [[re.sub(r"\{(:\w+)?\}", lambda _: f"{{value{next(numbers)}}}", node.value)]]
        else:
            parts, used = [], dict[str, str]()
            for value in node.values:  # type: ignore[attr-defined]
                if isinstance(value, ast.Constant):
                    parts.append([value.value])
                else:
                    texts = self._values(value.value)
                    name = _placeholder(value.value)
                    source = ast.unparse(value)
                    while used.setdefault(name, source) != source:
                        digits = re.search(r"\d*$", name)[0]  # type: ignore[index]
                        name = name.removesuffix(digits) + str(int(digits or 1) + 1)
                    parts.append(texts or [f"{{{name}}}"])
        if len(list(itertools.islice(itertools.product(*parts), MAX_VARIANTS + 1))) > MAX_VARIANTS:
            parts = [part if len(part) == 1 else ["{text}"] for part in parts]
        for combination in itertools.product(*parts):
            text = "".join(combination)
            if text not in self.labels:
                yield from self._clauses(text, isinstance(node, ast.Constant))

    def _clauses(self, text: str, is_whole: bool) -> Iterator[str]:
        """Yield the clauses of a message, without the name of the object before them."""
        text = re.sub(r"^\{\w+\}: (?!\{\w+\}$)", "", text)
        for part in re.split(r"(?<=[^.])\. |; ", text):
            clause = re.sub(r"^[\s;,.:…]+|[\s.]+$", "", part)
            plain = re.sub(r"\{\w+\}", "\0", clause)
            is_text = WORDS.search(plain) or re.match(r"[A-Z]", plain) or is_whole
            if is_text and re.search(r"[A-Za-z]{2,}", plain) and not NO_MESSAGE.match(clause):
                yield clause

    def _values(self, node: ast.AST) -> list[str]:
        """Return the texts that an expression can have, if all are constants."""
        if isinstance(node, ast.Constant):
            return [node.value] if isinstance(node.value, str) else []
        if isinstance(node, ast.IfExp):
            texts = [self._values(node.body), self._values(node.orelse)]
            return [*texts[0], *texts[1]] if all(texts) else []
        if isinstance(node, ast.Name):
            child: ast.AST | None = node
            while child is not None and not isinstance(child, ast.FunctionDef):
                child = self.parents.get(child)
            body = list(ast.walk(child)) if child is not None else []
            if any(isinstance(one, ast.arg) and one.arg == node.id for one in body):
                return []
            local = _constants(body).get(node.id)
            return local if local is not None else self.constants.get(node.id, [])
        return []


def _constants(nodes: Iterable[ast.AST]) -> dict[str, list[str]]:
    """Return the texts of the variables that nodes assign; none for a variable that can have other values."""
    assigned = defaultdict[str, list[ast.AST | None]](list)
    for node in nodes:
        for target in getattr(node, "targets", [getattr(node, "target", None)]):
            value = getattr(node, "value", None)
            if isinstance(target, ast.Tuple):
                choices = [value.body, value.orelse] if isinstance(value, ast.IfExp) else [value]
                for choice in choices:
                    values = choice.elts if isinstance(choice, ast.Tuple) else [None] * len(target.elts)
                    for name, part in zip(target.elts, values, strict=True):
                        assigned[ast.unparse(name)].append(part)
            elif target is not None:
                assigned[ast.unparse(target)].append(value if isinstance(node, ast.Assign | ast.AnnAssign) else None)
    texts = {name: [list(_constant_texts(value)) for value in values] for name, values in assigned.items()}
    return {name: list(dict.fromkeys(itertools.chain(*parts))) if all(parts) else [] for name, parts in texts.items()}


def _constant_texts(node: ast.AST | None) -> Iterator[str]:
    if isinstance(node, ast.Constant) and isinstance(node.value, str):
        yield node.value
    elif isinstance(node, ast.IfExp):
        texts = [list(_constant_texts(node.body)), list(_constant_texts(node.orelse))]
        if all(texts):
            yield from (*texts[0], *texts[1])


def _count_messages(noun: str, function: str) -> Iterator[tuple[str, str]]:
    plural = import_module("dampsim.core.base.wording").plural(2, noun)
    if function.endswith("plural"):
        yield noun, ""
        yield plural, ""
    else:
        yield f"{{count}} {noun}", f"{{count}} {plural}"


def _placeholder(node: ast.AST) -> str:
    """Return the name of the placeholder for an expression."""
    if isinstance(node, ast.Name):
        return node.id.strip("_").lower()
    if isinstance(node, ast.Attribute):
        return node.attr.strip("_").lower()
    if isinstance(node, ast.Subscript):
        return _placeholder(node.value)
    if isinstance(node, ast.IfExp):
        return "text"
    if isinstance(node, ast.Call):
        function = ast.unparse(node.func).rpartition(".")[2]
        if function == "format_count":
            noun = node.args[1]
            return "counted" if not isinstance(noun, ast.Constant) else noun.value.replace(" ", "_").replace("-", "_")
        if function in ("format_names", "format_bones"):
            return "names"
        if function == "join":
            listed = node.args[0]
            return _placeholder(listed.generators[0].iter if isinstance(listed, ast.GeneratorExp) else listed)
        if function in ("len", "sum"):
            return "number"
        if function.startswith("format_") or function in ("min", "max", "str", "int", "shown_text", "printable_text"):
            return _placeholder(node.args[0])
        if function in ("lower", "title", "strip", "rstrip", "removesuffix", "removeprefix", "split") and isinstance(
            node.func, ast.Attribute
        ):
            return _placeholder(node.func.value)
        return function.strip("_").lower()
    if isinstance(node, ast.BinOp):
        return "number"
    if isinstance(node, ast.BoolOp):
        return _placeholder(node.values[0])
    return "listed" if isinstance(node, ast.List | ast.ListComp | ast.Starred) else "value"


def source_messages(labels: set[str]) -> set[tuple[str, str]]:
    """Return the messages in the source that are no labels, each with its plural or ''."""
    found = set[tuple[str, str]]()
    for folder in ("core", "dampsim_addon"):
        for path in sorted((ROOT / folder).rglob("*.py")):
            if not LEFT_OUT.match(path.relative_to(ROOT).as_posix()):
                found |= set(Source(ast.parse(path.read_text(encoding="utf-8")), labels).messages())
    # The same clause at the begin of a sentence and within one is a single message.
    return {
        (text, plural)
        for text, plural in found
        if not text[0].isupper() or (text[0].lower() + text[1:], "") not in found
    }


def all_messages() -> set[tuple[str, str]]:
    """Return all messages of the add-on, each with its plural or ''. The add-on must be registered."""
    labels = registered_texts()
    return {(text, "") for text in (*labels, *VALUES)} | source_messages(labels)


def faults(language: str, messages: set[tuple[str, str]]) -> list[str]:
    """Return the faults of a catalogue: missing, stale and empty entries, placeholders, forms, and full stops."""
    entries = catalogue.read_catalogue(catalogue.FOLDER / f"{language}.po")
    known = {(entry.message, entry.plural) for entry in entries}
    found = [f"no entry: {message!r}" for message, _ in sorted(messages - known)]
    found += [f"no text: {message!r}" for message, _ in sorted(known - messages)]
    forms = 1 + max(map(catalogue.PLURAL_FORMS[language], (0, 1, 2)))
    for entry in entries:
        is_complete = all(entry.translations) or (entry.is_fuzzy and not any(entry.translations))
        if len(entry.translations) != (forms if entry.plural else 1) or not is_complete:
            found.append(f"incomplete: {entry.message!r}")
        places = set(catalogue.PLACEHOLDER.findall(entry.message))
        if any(text and set(catalogue.PLACEHOLDER.findall(text)) != places for text in entry.translations):
            found.append(f"other placeholders: {entry.message!r}")
        if any(text.endswith((".", "。")) for text in entry.translations) and not entry.message.endswith("."):
            found.append(f"a full stop at its end: {entry.message!r}")
    marked = sum(entry.is_fuzzy for entry in entries)
    if marked > MAX_MARKED * len(entries):
        found.append(f"{marked} of {len(entries)} entries are marked as fuzzy")
    return found


def update(language: str, messages: set[tuple[str, str]]) -> None:
    """Remove the entries without text from a catalogue, and add empty ones for new messages."""
    path = catalogue.FOLDER / f"{language}.po"
    entries = {(entry.message, entry.plural): entry for entry in catalogue.read_catalogue(path)}
    forms = 1 + max(map(catalogue.PLURAL_FORMS[language], (0, 1, 2)))
    empty = {pair: catalogue.Entry(*pair, ("",) * (forms if pair[1] else 1), is_fuzzy=True) for pair in messages}
    catalogue.write_catalogue(path, language, (entries.get(pair, empty[pair]) for pair in messages))


def load_addon() -> None:
    """Register the checkout as the package `dampsim`."""
    spec = importlib.util.spec_from_file_location(
        "dampsim", ROOT / "__init__.py", submodule_search_locations=[str(ROOT)]
    )
    assert spec is not None
    assert spec.loader is not None
    sys.modules["dampsim"] = module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    module.register()


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--update", action="store_true", help="remove stale entries, and add missing ones without text")
    parser.add_argument("--list", action="store_true", help="print all messages")
    options = parser.parse_args()
    load_addon()
    messages = all_messages()
    if options.list:
        print("\n".join(message for message, _ in sorted(messages)))
        return 0
    failed = False
    for language in catalogue.languages():
        if options.update:
            update(language, messages)
        found = faults(language, messages)
        failed = failed or bool(found)
        print("\n".join([f"{language}: {len(found)} faults in {len(messages)} entries", *found]))
    return int(failed)


if __name__ == "__main__":
    sys.exit(main())
