"""Check built zips as a reviewer of the extension platform would: python tools/review.py build/dampsim-*.zip

Each rule is a function that yields the violations of a zip. `blender --command extension validate` checks the syntax
of the manifest in addition.
"""

from __future__ import annotations

import ast
import functools
import html
import posixpath
import re
import sys
import tomllib
import zipfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

# Limits of the platform: bytes of a zip, and characters of a tagline and of the reason for a permission.
MAX_SIZE, MAX_TEXT = 200_000_000, 64
BINARIES = (".so", ".dll", ".dylib", ".pyd", ".exe", ".a", ".lib", ".o", ".pyc")
# Files that users do not need. Samples are allowed if the add-on offers them.
REDUNDANT = re.compile(
    r"(^|/)(tests?|docs|requirements|tools|\.[^/]+)(/|$)|\.blend1?$|^sample_blends/|/papers/(?!__init__|compare)"
    r"|(dask|flamenco|openjd)[^/]*$"
)
SAMPLE_LIST = "dampsim_addon/ui/add/add_operators.py"
# Table of the pages of the manual that the add-on opens, and parts of a page that run or load something.
MANUAL_TABLE = "dampsim_addon/ui/common/manual.py"
ACTIVE_PART = re.compile(r"""(?i)<(script|iframe|object|embed|form)\b|\bon\w+=|src=["']?\w+:|@import|url\(\w+:""")
# Modules that start processes or call the system, which the README must name.
DISCLOSED = {"subprocess": "processes", "multiprocessing": "processes", "ctypes.windll": "ctypes"}
# Modules that open connections, for which a permission would be needed.
NETWORK = {
    "aiohttp",
    "distributed",
    "ftplib",
    "http",
    "requests",
    "smtplib",
    "socket",
    "socketserver",
    "urllib",
    "xmlrpc",
}
DYNAMIC = {"eval", "exec", "__import__", "compile"}
# Paths of one machine in a text.
MACHINE_PATH = re.compile(r"(?<![\w.])(/(home|root|Users|tmp|work)/\w|[A-Z]:\\\\?Users)|\.tools/")
# Names of the platforms in the file names of wheels; the last part of Windows' and macOS' names may be the processor.
WHEEL_SYSTEMS = {"linux": "manylinux", "windows": "win", "macos": "macosx"}
WHEEL_PROCESSORS = {"x64": "(x86_64|amd64)", "arm64": "(arm64|aarch64)"}
REQUIRED = ("website", "copyright", "tagline", "maintainer", "license", "blender_version_min", "platforms", "wheels")
OWN_NAME = re.compile(r"DAMPSIM_(OT|PT|MT|UL|HT|PG|FH|GT|GGT)_\w+$")
REGISTERED = {"Operator", "Panel", "Menu", "UIList", "PropertyGroup", "FileHandler", "Gizmo", "GizmoGroup", "Header"}


class Zip:
    """The contents of a zip. files: bytes by path.  manifest: its table.  trees: parsed Python files by path."""

    def __init__(self, path: Path) -> None:
        """Read a zip. Raises KeyError without a manifest, and SyntaxError for invalid Python."""
        self.path = path
        with zipfile.ZipFile(path) as archive:
            self.files = {entry.filename: archive.read(entry) for entry in archive.infolist() if not entry.is_dir()}
        table: dict[str, Any] = tomllib.loads(self.files["blender_manifest.toml"].decode())
        # A zip for one platform keeps the lists of all, which Blender replaces by these.
        self.manifest = table | table.get("build", {}).get("generated", {})
        self.trees = {name: ast.parse(content) for name, content in self.files.items() if name.endswith(".py")}

    def keys(self, path: str, name: str) -> set[str]:
        """Return the keys of a dictionary literal that a Python file assigns to a name."""
        body = self.trees[path].body if path in self.trees else []
        found = [node.value for node in body if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == name]
        return {key for value in found for key in ast.literal_eval(value)}

    def samples(self) -> set[str]:
        """Return the paths of the samples that the add-on offers."""
        return {f"sample_blends/{name}.blend" for name in self.keys(SAMPLE_LIST, "SAMPLES")}

    def texts(self) -> Iterator[tuple[str, str]]:
        """Yield path and text of each text file."""
        for name, content in self.files.items():
            if Path(name).suffix in {".py", ".toml", ".md", ".json", ".js", ".css", ".html", ".txt"}:
                yield name, content.decode()

    def nodes(self, *kinds: type[Any]) -> Iterator[tuple[str, Any]]:
        """Yield the place and the node of each part of the Python files that has one of some types."""
        for name, node in self._all_nodes:
            if isinstance(node, kinds):
                yield f"{name}:{node.lineno}", node

    @functools.cached_property
    def _all_nodes(self) -> list[tuple[str, ast.AST]]:
        """Return each node of the Python files with the path of its file. Eight rules use them."""
        return [(name, node) for name, tree in self.trees.items() for node in ast.walk(tree)]


def binaries(content: Zip) -> Iterator[str]:
    """Native code is in wheels alone."""
    for name, data in content.files.items():
        is_native = name.endswith(BINARIES) or data[:4] in (b"\x7fELF", b"\xcf\xfa\xed\xfe", b"\xca\xfe\xba\xbe")
        if is_native or (data[:2] == b"MZ" and not name.endswith((".py", ".md"))):
            yield f"{name}: native code outside of a wheel"
        if name.endswith((".whl", ".zip", ".tar.gz")) and not re.match(r"wheels/[^/]+\.whl$", name):
            yield f"{name}: an archive"


def wheels(content: Zip) -> Iterator[str]:
    """The manifest lists the wheels of the zip, and each has metadata, a licence and an orderly version."""
    listed = {name.removeprefix("./") for name in content.manifest.get("wheels", ())}
    found = {name for name in content.files if name.endswith(".whl")}
    for name in sorted(listed ^ found):
        yield f"{name}: either only listed in the manifest, or only in the zip"
    for name in sorted(listed & found):
        version = Path(name).name.split("-")[1]
        if not re.fullmatch(r"\d{1,4}(\.\d{1,4}){1,3}(\.post\d{1,4})?", version):
            yield f"{name}: the version {version} does not grow with each release"
        if name.startswith("wheels/dampsim_kernel-") and version != content.manifest["version"]:
            yield f"{name}: its version is not that of the add-on"
    for platform in content.manifest.get("platforms", ()):
        system, _, processor = platform.partition("-")
        tag = re.compile(f"(?i)-{WHEEL_SYSTEMS[system]}_[^-]*{WHEEL_PROCESSORS[processor]}")
        for module in ("scipy", "dampsim_kernel"):
            if not any(Path(name).name.startswith(f"{module}-") and tag.search(name) for name in listed & found):
                yield f"wheels: no {module} for {platform}"


def sizes(content: Zip) -> Iterator[str]:
    """The platform takes zips up to a size."""
    size = content.path.stat().st_size
    if size > MAX_SIZE:
        yield f"{size / 1e6:.0f} MB are more than {MAX_SIZE / 1e6:.0f} MB"


def imports(content: Zip) -> Iterator[str]:
    """Relative imports lead to modules of the zip, or to names of its packages."""
    for place, node in content.nodes(ast.ImportFrom):
        if not node.level:
            continue
        name = place.partition(":")[0]
        folder = Path(name).parents[node.level - 1] / (node.module or "").replace(".", "/")
        parts = [folder.with_suffix(".py"), folder / "__init__.py"]
        if not any(part.as_posix() in content.files for part in parts):
            yield f"{place}: imports {node.module}, which is not in the zip"
        elif not node.module:
            package = content.files.get((folder / "__init__.py").as_posix(), b"").decode()
            for alias in node.names:
                modules = [folder / f"{alias.name}.py", folder / alias.name / "__init__.py"]
                if not any(one.as_posix() in content.files for one in modules) and alias.name not in package:
                    yield f"{place}: imports {alias.name}, which is not in the zip"


def redundant_files(content: Zip) -> Iterator[str]:
    """A zip has all that the add-on uses, and nothing else."""
    samples = content.samples()
    for name in content.files:
        if REDUNDANT.search(name) and name not in samples:
            yield f"{name}: a redundant file"
    for name in sorted(samples - content.files.keys()):
        yield f"{name}: a sample that the add-on offers is missing"


def manifest(content: Zip) -> Iterator[str]:
    """The manifest names its owners, and its texts have the platform's form."""
    table = content.manifest
    for name in REQUIRED:
        if not table.get(name):
            yield f"blender_manifest.toml: {name} is missing"
    for text in [table.get("tagline", ""), *table.get("permissions", {}).values()]:
        if len(text) > MAX_TEXT or text.endswith("."):
            yield f"blender_manifest.toml: {text!r} is longer than {MAX_TEXT} characters, or ends with a full stop"
    for text in table.get("copyright", ()):
        if not re.match(r"\d{4}(-\d{4})? \S", text):
            yield f"blender_manifest.toml: {text!r} does not begin with a year"
    if not re.fullmatch(r"\d+\.\d+\.\d+", table.get("version", "")):
        yield f"blender_manifest.toml: the version {table.get('version')} is not MAJOR.MINOR.PATCH"


def links(content: Zip) -> Iterator[str]:
    """Relative links of the pages lead to files of the zip."""
    forms = {".md": r"\]\(([^)#\s]+)", ".html": r'(?:href|src|content)="(?:0; url=)?([^"#?]*[.][^"#?]*)'}
    for name, text in content.texts():
        form = forms.get(Path(name).suffix)
        for target in re.findall(form, text) if form else ():
            path = posixpath.normpath(posixpath.join(posixpath.dirname(name), html.unescape(target)))
            if "://" not in target and path not in content.files:
                yield f"{name}: a dead link to {target}"


def manual(content: Zip) -> Iterator[str]:
    """The pages that the add-on opens are in the zip. They run and load nothing."""
    for page in sorted(content.keys(MANUAL_TABLE, "PAGES")):
        if f"manual/{page.replace('#', '/')}.html" not in content.files:
            yield f"manual: the page {page} is missing; tools/package.py writes it"
    for name, text in content.texts():
        if name.endswith((".html", ".css")) and (found := ACTIVE_PART.search(text)):
            yield f"{name}: runs or loads something: {found[0]}"


def module_table(content: Zip) -> Iterator[str]:
    """The table of loaded modules stays as it is."""
    for place, node in content.nodes(ast.Assign, ast.Delete, ast.AugAssign, ast.Call):
        if isinstance(node, ast.Call):
            function = node.func
            changes = isinstance(function, ast.Attribute) and function.attr in {"pop", "update", "setdefault", "clear"}
            changed = [function.value] if changes and isinstance(function, ast.Attribute) else []
        else:
            targets = [node.target] if isinstance(node, ast.AugAssign) else node.targets
            changed = [target.value for target in targets if isinstance(target, ast.Subscript)]
        if any(ast.unparse(one) == "sys.modules" for one in changed):
            yield f"{place}: changes sys.modules"


def network(content: Zip) -> Iterator[str]:
    """Without the permission for it, nothing opens connections, or asks for packages from the network."""
    if "network" in content.manifest.get("permissions", {}):
        return
    for place, node in content.nodes(ast.Import, ast.ImportFrom):
        names = [alias.name for alias in node.names] if isinstance(node, ast.Import) else [node.module or ""]
        level = 0 if isinstance(node, ast.Import) else node.level
        for name in names:
            if not level and name.partition(".")[0] in NETWORK and name != "urllib.parse":
                yield f"{place}: imports {name}"
    for name, text in content.texts():
        if re.search(r"pip install|-m\W+pip\b|ensurepip", text):
            yield f"{name}: installs packages"


def dynamic_code(content: Zip) -> Iterator[str]:
    """No text is run as code."""
    for place, node in content.nodes(ast.Call):
        if isinstance(node.func, ast.Name) and node.func.id in DYNAMIC:
            yield f"{place}: calls {node.func.id}()"
        if ast.unparse(node.func) in {"os.system", "os.popen"}:
            yield f"{place}: runs a shell"


def paths(content: Zip) -> Iterator[str]:
    """No path of one machine, or of a checkout, is left in a text."""
    for name, text in content.texts():
        for found in MACHINE_PATH.finditer(text):
            yield f"{name}: the path {text[found.start() : found.start() + 30].splitlines()[0]!r}"


def names(content: Zip) -> Iterator[str]:
    """Registered classes and operators have names that no other add-on uses; there is no bl_info."""
    for place, node in content.nodes(ast.ClassDef):
        bases = {ast.unparse(base).rpartition(".")[2] for base in node.bases}
        if bases & REGISTERED and not OWN_NAME.match(node.name):
            yield f"{place}: the class {node.name} is not called DAMPSIM_XX_name"
    for place, node in content.nodes(ast.Assign, ast.AnnAssign):
        targets = [node.target] if isinstance(node, ast.AnnAssign) else node.targets
        for target in targets:
            if ast.unparse(target) == "bl_info":
                yield f"{place}: bl_info belongs to legacy add-ons"
            is_id = ast.unparse(target) == "bl_idname" and isinstance(node.value, ast.Constant)
            if is_id and not re.match("(?i)dampsim[._]", str(node.value.value)):
                yield f"{place}: the identifier {node.value.value!r} does not begin with dampsim"


def disclosures(content: Zip) -> Iterator[str]:
    """The README names the processes that are started and the calls of the system."""
    readme = content.files.get("README.md", b"").decode()
    for place, node in content.nodes(ast.Import, ast.ImportFrom, ast.Attribute):
        if isinstance(node, ast.Attribute):
            used = {ast.unparse(node)}
        else:
            used = {alias.name for alias in node.names} | {getattr(node, "module", "")}
        for name in sorted(used & DISCLOSED.keys()):
            if DISCLOSED[name] not in readme:
                yield f"{place}: uses {name}, but the README does not mention {DISCLOSED[name]}"


def tooltips(content: Zip) -> Iterator[str]:
    """Tooltips do not end with a full stop."""
    for place, node in content.nodes(ast.ClassDef, ast.Call):
        if isinstance(node, ast.ClassDef):
            texts = [ast.get_docstring(node) if node.name.startswith("DAMPSIM_OT_") else None]
        else:
            is_property = ast.unparse(node.func).endswith("Property")
            texts = [ast.unparse(one.value)[1:-1] for one in node.keywords if is_property and one.arg == "description"]
        if any(text and text.endswith(".") for text in texts):
            yield f"{place}: the tooltip ends with a full stop"


RULES: dict[str, Callable[[Zip], Iterator[str]]] = {
    rule.__name__: rule
    for rule in (
        binaries, wheels, sizes, imports, redundant_files, manifest, links, manual, module_table, network, dynamic_code,
        paths, names, disclosures, tooltips,
    )
}  # fmt: skip


def violations(path: Path) -> list[str]:
    """Return the violations of all rules, each with the name of its rule."""
    content = Zip(path)
    return [f"{name}: {text}" for name, rule in RULES.items() for text in rule(content)]


def main() -> int:
    found = [f"{path}: {text}" for path in map(Path, sys.argv[1:]) for text in violations(path)]
    print("\n".join(found) or f"{len(sys.argv) - 1} zips: no violation")
    return bool(found)


if __name__ == "__main__":
    sys.exit(main())
