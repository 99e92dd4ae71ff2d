"""Check built zips as a reviewer of the extension platform would: python tools/review.py build/dampsim-*.zip

Each rule is a function that yields the violations of a zip. `blender --command extension validate` checks the syntax
of the manifest in addition.
"""

from __future__ import annotations

import argparse
import ast
import functools
import html
import io
import posixpath
import re
import sys
import tomllib
import unicodedata
import zipfile
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

# Limits of the platform: bytes of a zip, and characters of a tagline and of the reason for a permission.
MAX_SIZE, MAX_TEXT = 200_000_000, 64
BINARIES = (".so", ".dll", ".dylib", ".pyd", ".exe", ".a", ".lib", ".o", ".pyc")
# Files that users do not need. Samples are allowed if the add-on offers them.
REDUNDANT = re.compile(
    r"(^|/)(tests?|docs|requirements|tools|__MACOSX|\.[^./][^/]*)(/|$)|\.blend1?$|^sample_blends/"
    r"|/papers/(?!__init__|compare)|(dask|flamenco|openjd)[^/]*$"
    r"|(^|/)(Thumbs\.db|desktop\.ini)$|(~|\.(orig|rej|bak|swp|tmp))$"
)
SAMPLE_LIST = "dampsim_addon/ui/add/add_operators.py"
# Table of the pages of the manual that the add-on opens, and parts of a page that run or load something.
MANUAL_TABLE = "dampsim_addon/ui/common/manual.py"
ACTIVE_PART = re.compile(r"""(?i)<(script|iframe|object|embed|form)\b|\bon\w+=|src=["']?\w+:|@import|url\(\w+:""")
# Modules and functions that start or end processes or call the system, which the README must name.
DISCLOSED = {"subprocess": "processes", "multiprocessing": "processes"}
DISCLOSED |= dict.fromkeys(("ctypes.windll", "ctypes.WinDLL", "ctypes.oledll", "ctypes.OleDLL"), "ctypes")
PROCESS_CALL = re.compile(
    r"os\.(exec|spawn|posix_spawn|fork|kill|startfile)\w*|asyncio\.create_subprocess_\w+|pty\.\w+"
)
# Modules that open connections, for which a permission would be needed.
NETWORK = {
    *("aiohttp", "distributed", "ftplib", "grpc", "http", "httpx", "imaplib", "nntplib", "paramiko", "poplib"),
    *("requests", "smtplib", "socket", "socketserver", "ssl", "telnetlib", "urllib", "urllib3", "websocket"),
    *("websockets", "xmlrpc", "multiprocessing.connection", "multiprocessing.managers"),
    *("asyncio.open_connection", "asyncio.start_server"),
}
DYNAMIC = {"eval", "exec", "__import__", "compile"}
# Modules that run what they read, and calls that run a text or a command line.
UNSAFE_READERS = {"pickle", "dill", "cloudpickle", "marshal", "shelve", "jsonpickle", "runpy", "code", "codeop"}
RUN_TEXT = re.compile(
    r"os\.(system|popen)|builtins\.(eval|exec|compile)|subprocess\.get(status)?output|bpy\.utils\.execfile"
    r"|bpy\.ops\.(script\.python_file_run|text\.run_script)|.*\.as_module"
)
# Lists of Python that decide what imports find.
IMPORT_STATE = {"sys.modules", "sys.path", "sys.meta_path", "sys.path_hooks", "builtins.__dict__"}
CHANGING_METHODS = {"append", "clear", "extend", "insert", "pop", "remove", "setdefault", "update"}
# Modules that Blender's Python has besides the standard library.
BLENDER_MODULES = {
    *("bpy", "bmesh", "bl_operators", "bl_ui", "bl_math", "bpy_extras", "blf", "gpu", "gpu_extras", "mathutils"),
    *("addon_utils", "aud", "bl_ext", "freestyle", "idprop", "imbuf", "keyingsets_utils", "nodeitems_utils", "numpy"),
    "rna_prop_ui",
}
# Modules of the standard library that the newest Python of a supported Blender no longer has.
REMOVED_MODULES = {
    *("aifc", "asynchat", "asyncore", "audioop", "cgi", "cgitb", "chunk", "crypt", "distutils", "imghdr", "imp"),
    *("lib2to3", "mailcap", "msilib", "nis", "nntplib", "ossaudiodev", "pipes", "smtpd", "sndhdr", "spwd", "sunau"),
    *("telnetlib", "uu", "xdrlib"),
}
# Python of each supported Blender.
BLENDER_PYTHONS = {(4, 2): "3.11", (4, 5): "3.11", (5, 0): "3.11", (5, 1): "3.13", (5, 2): "3.13"}
# What is registered, and what removes it again. Both must be in one file.
REGISTRATIONS = {
    r"\bregister_class\(": r"\bunregister_class\(",
    r"\bdraw_handler_add\(": r"\bdraw_handler_remove\(",
    r"\bhandlers\.\w+\.(append|insert)\(|getattr\(bpy\.app\.handlers, \w+\)\.append\(": r"\.remove\(",
    r"\btimers\.register\(": r"\btimers\.unregister\(",
    r"\bkeymap_items\.new\w*\(": r"\bkeymap_items\.remove\(",
    r"\bbpy\.types\.\w+_MT_\w+\.(append|prepend)\(": r"\bbpy\.types\.\w+_MT_\w+\.remove\(",
    r"\bpreviews\.new\(": r"\bpreviews\.remove\(",
    r"\btranslations\.register\(": r"\btranslations\.unregister\(",
    r"\bregister_(manual_map|preset_path|cli_command|tool)\(": r"\bunregister_\w+\(",
    r"\bsubscribe_rna\(": r"\bclear_by_owner\(",
}
# What an add-on may add to one of Blender's types: properties, which have its own prefix.
BLENDER_PART = re.compile(r"bpy\.(types|ops|utils|app|path)(\.\w+)*\.(?!dampsim)\w+")
# Modules that print their results, and the beginning of a problem that others print.
COMMAND_LINE, PRINTED = ("dampsim_addon/cli/", "core/literature/papers/compare.py"), "dampsim: "
# Blender's types that add-ons add properties to.
OWNERS = "(bpy\\.types\\.)?(Object|Scene|Collection|Mesh|Bone|PoseBone|Armature|Material|WindowManager|World|ID|Action)"
# Methods of paths that change a file or folder.
WRITING_METHODS = {"write_text", "write_bytes", "mkdir", "touch", "unlink", "rmdir", "rename", "symlink_to"}
WRITE_MODE = re.compile("[rbt]*[wxa+][bt+]*")
# Traces of work that is not finished, and a text that hides its meaning.
UNFINISHED = re.compile(r"^(<{7}|>{7}) |\b(breakpoint|set_trace)\(\)|^\s*import i?pdb\b", re.MULTILINE)
PREFERENCE_CALL = re.compile(
    r"bpy\.ops\.(preferences|extensions)\.|bpy\.ops\.wm\.(save_userpref|save_homefile|read_factory_\w+)"
    r"|addon_utils\.(enable|disable)"
)
FILE_CALLS = {"open", "write_text", "write_bytes"}
MAX_LINE = 1000
ENCODED = re.compile(r"[A-Za-z0-9+/=]{400,}")
# Licences and tags of the platform.
LICENCES = {
    *("GPL-2.0-or-later", "GPL-3.0-or-later", "LGPL-2.1-or-later", "LGPL-3.0-or-later", "BSD-1-Clause", "BSD-2-Clause"),
    *("BSD-3-Clause", "BSL-1.0", "MIT", "MIT-0", "MPL-2.0", "Pixar", "Zlib", "Apache-2.0", "CC0-1.0"),
}
# Names of files that count as assets.
ASSETS = (".blend", ".png", ".webp", ".svg")
TAGS = {
    *("3D View", "Add Curve", "Add Mesh", "Animation", "Bake", "Camera", "Compositing", "Development", "Game Engine"),
    *("Geometry Nodes", "Grease Pencil", "Import-Export", "Lighting", "Material", "Modeling", "Mesh", "Node", "Object"),
    *("Paint", "Pipeline", "Physics", "Render", "Rigging", "Scene", "Sculpt", "Sequencer", "System", "Text Editor"),
    *("Tracking", "User Interface", "UV"),
}
PERMISSIONS = {"files", "network", "clipboard", "camera", "microphone"}
# Names of files that Windows cannot create, and the longest path that it unpacks into an add-on's folder.
WINDOWS_NAME = re.compile(r'(?i)(^|/)(con|prn|aux|nul|com\d|lpt\d)(\.[^/]*)?(/|$)|[<>:"|?*\\\x00-\x1f]|[ .](/|$)')
MAX_PATH = 140
# Parts of a picture that state where, when or with what it was made.
PICTURE_NOTES = {".jpg": (b"Exif\x00\x00", b"http://ns.adobe.com/xap"), ".png": (b"tEXt", b"iTXt", b"zTXt", b"eXIf")}
# Paths of one machine in a text.
MACHINE_PATH = re.compile(r"(?<![\w.])(/(home|root|Users|tmp|work)/\w|[A-Z]:\\\\?Users)|\.tools/")
# Names of the platforms in the file names of wheels; the last part of Windows' and macOS' names may be the processor.
WHEEL_SYSTEMS = {"linux": "manylinux", "windows": "win", "macos": "macosx"}
WHEEL_PROCESSORS = {"x64": "(x86_64|amd64)", "arm64": "(arm64|aarch64)"}
REQUIRED = ("website", "copyright", "tagline", "maintainer", "license", "blender_version_min", "platforms", "wheels")
OWN_NAME = re.compile(r"DAMPSIM_(OT|PT|MT|UL|HT|PG|FH|GT|GGT)_\w+$")
REGISTERED = {"Operator", "Panel", "Menu", "UIList", "PropertyGroup", "FileHandler", "Gizmo", "GizmoGroup", "Header"}


class Zip:
    """The contents of a zip.

    entries: all entries.  files: bytes by path.  manifest: its table.  trees: parsed Python files by path.
    """

    def __init__(self, path: Path, pythons: Sequence[str] = ()) -> None:
        """Read a zip. pythons: those that its wheels must support, if not all.

        Raises KeyError without a manifest, and SyntaxError for invalid Python.
        """
        self.path, self.given_pythons = path, set(pythons)
        with zipfile.ZipFile(path) as archive:
            self.entries = archive.infolist()
            self.files = {entry.filename: archive.read(entry) for entry in self.entries if not entry.is_dir()}
        table: dict[str, Any] = tomllib.loads(self.files["blender_manifest.toml"].decode())
        # A zip for one platform keeps the lists of all, which Blender replaces by these.
        self.manifest = table | table.get("build", {}).get("generated", {})
        self.trees = {name: ast.parse(content) for name, content in self.files.items() if name.endswith(".py")}

    @property
    def pythons(self) -> set[str]:
        """Return the Pythons that the wheels must support: the given ones, or those of the supported Blenders.

        A zip for a Blender built by a distribution has wheels for its Python alone, which is none of Blender's own.
        """
        found = {
            python.replace("3", "3.", 1) for name in self.files for python in re.findall(r"-cp(3\d+)-cp3\d+-", name)
        }
        if self.given_pythons or (found and not found & set(BLENDER_PYTHONS.values())):
            return self.given_pythons or found
        oldest = tuple(int(part) for part in self.manifest["blender_version_min"].split(".")[:2])
        return {python for version, python in BLENDER_PYTHONS.items() if version >= oldest}

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
        """Return each node of the Python files with the path of its file. Most rules use them."""
        return [(name, node) for name, tree in self.trees.items() for node in ast.walk(tree)]

    def imported(self) -> Iterator[tuple[str, str]]:
        """Yield the place and the full name of all that is imported from outside of the zip."""
        for place, node in self.nodes(ast.Import, ast.ImportFrom, ast.Call):
            if isinstance(node, ast.Import):
                yield from ((place, alias.name) for alias in node.names)
            elif isinstance(node, ast.ImportFrom):
                yield from ((place, f"{node.module}.{alias.name}") for alias in node.names if not node.level)
            elif ast.unparse(node.func).endswith("import_module") and node.args:
                name = getattr(node.args[0], "value", None)
                if isinstance(name, str) and not name.startswith("."):
                    yield place, name


def entries(content: Zip) -> Iterator[str]:
    """Every system can unpack the entries, and each is a file of its own in the folder of the add-on."""
    seen = set[str]()
    for entry in content.entries:
        name = entry.filename
        if name.startswith("/") or ".." in name.split("/"):
            yield f"{name}: leads out of the folder"
        elif WINDOWS_NAME.search(name.removesuffix("/")) or len(name) > MAX_PATH:
            yield f"{name}: Windows cannot create it, or its path has more than {MAX_PATH} characters"
        if entry.external_attr >> 16 & 0o170000 == 0o120000:
            yield f"{name}: a link"
        key = unicodedata.normalize("NFC", name).casefold()
        if key in seen:
            yield f"{name}: another entry has this name, apart from upper and lower case"
        seen.add(key)


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
        yield from (f"{name}: {fault}" for fault in wheel_faults(Path(name).stem, content.files[name]))
    tags = dict[str, re.Pattern[str]]()
    for platform in content.manifest.get("platforms", ()):
        system, _, processor = platform.partition("-")
        tags[platform] = re.compile(f"(?i)-{WHEEL_SYSTEMS[system]}_[^-]*{WHEEL_PROCESSORS[processor]}")
    for name in sorted(listed & found):
        if not name.endswith("-any.whl") and not any(tag.search(name) for tag in tags.values()):
            yield f"{name}: a wheel of another platform"
    for platform, tag in tags.items():
        fitting = [Path(name).name for name in listed & found if tag.search(name)]
        for module in ("scipy", "dampsim_kernel"):
            for python in sorted(content.pythons):
                form = f"{module}-[^-]+-(py3|cp{python.replace('.', '')}|cp3\\d+-abi3)-"
                if not any(re.match(form, name) for name in fitting):
                    yield f"wheels: no {module} for {platform} and Python {python}"


def wheel_faults(stem: str, data: bytes) -> Iterator[str]:
    """Yield what a wheel lacks. stem: its name without the ending."""
    try:
        archive = zipfile.ZipFile(io.BytesIO(data))
    except zipfile.BadZipFile:
        yield "no zip"
        return
    about = "-".join(stem.split("-")[:2]) + ".dist-info/"
    names = archive.namelist()
    for required in ("METADATA", "WHEEL", "RECORD"):
        if about + required not in names:
            yield f"{required} is missing"
    if not any(re.match(re.escape(about) + r"(licenses/|LICEN[CS]E|COPYING)", name) for name in names):
        yield "its licence is missing"


def wheel_licences(content: Zip) -> Iterator[tuple[str, str]]:
    """Yield the name of each wheel with each licence that its metadata states for it or for libraries in it."""
    for name, data in content.files.items():
        if name.endswith(".whl") and zipfile.is_zipfile(io.BytesIO(data)):
            with zipfile.ZipFile(io.BytesIO(data)) as archive:
                for part in archive.namelist():
                    if re.search(r"\.dist-info/(METADATA|licenses/[^/]*|LICEN[CS]E[^/]*)$", part):
                        text = archive.read(part).decode(errors="replace")
                        found = re.findall(r"(?m)^ *License(?:-Expression)?: ([A-Z][\w.-]*\d[\w.-]*|MIT|Zlib)\b", text)
                        yield from ((name, licence) for licence in found)


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


def modules(content: Zip) -> Iterator[str]:
    """Other modules are in the standard library of all supported Blenders, in Blender, or in the wheels."""
    wheels_of = {Path(name).name.partition("-")[0] for name in content.files if name.endswith(".whl")}
    known = (sys.stdlib_module_names - REMOVED_MODULES) | BLENDER_MODULES | wheels_of
    for place, name in content.imported():
        if name.partition(".")[0] not in known:
            yield f"{place}: imports {name}, which neither all supported Blenders nor the wheels have"


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
    owned = {licence.removeprefix("SPDX:") for licence in table.get("license", ())}
    if "GPL-3.0-or-later" not in owned or "LICENSE" not in content.files:
        yield "blender_manifest.toml: add-ons are under GPL-3.0-or-later, and contain its text"
    if "CC0-1.0" not in owned and any(name.endswith(ASSETS) for name in content.files):
        yield "blender_manifest.toml: scenes and pictures in add-ons are under CC0-1.0"
    for kind, unknown in (
        ("licence", owned - LICENCES),
        ("tag", set(table.get("tags", ())) - TAGS),
        ("permission", table.get("permissions", {}).keys() - PERMISSIONS),
    ):
        yield from (f"blender_manifest.toml: the platform does not know the {kind} {name}" for name in sorted(unknown))
    for name, licence in sorted(set(wheel_licences(content))):
        if licence in LICENCES and licence not in owned:
            yield f"blender_manifest.toml: the licence {licence} of {name} is missing"
    if table.get("type") != "add-on" or not re.match("https://(?!example)", table.get("website", "")):
        yield "blender_manifest.toml: the type is not add-on, or the website not an address that begins with https"
    if re.search("(?i)blender|add-?on|extension", table.get("name", "")):
        yield f"blender_manifest.toml: the name {table['name']!r} repeats that it is an add-on for Blender"
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


def import_state(content: Zip) -> Iterator[str]:
    """Python's lists of loaded modules and of folders with modules stay as they are."""
    for place, node in content.nodes(ast.Assign, ast.Delete, ast.AugAssign, ast.Call):
        if isinstance(node, ast.Call):
            function = node.func
            changes = isinstance(function, ast.Attribute) and function.attr in CHANGING_METHODS
            changed = [function.value] if changes and isinstance(function, ast.Attribute) else []
        else:
            targets = [node.target] if isinstance(node, ast.AugAssign) else node.targets
            changed = [target.value if isinstance(target, ast.Subscript) else target for target in targets]
        for name in {ast.unparse(one) for one in changed} & IMPORT_STATE:
            yield f"{place}: changes {name}"


def network(content: Zip) -> Iterator[str]:
    """Without the permission for it, nothing opens connections, or asks for packages from the network."""
    if "network" in content.manifest.get("permissions", {}):
        return
    called = ((place, ast.unparse(node.func)) for place, node in content.nodes(ast.Call))
    for place, name in (*content.imported(), *called):
        beginnings = {name[: match.start()] for match in re.finditer(r"\.|$", name)}
        if beginnings & NETWORK and "urllib.parse" not in beginnings:
            yield f"{place}: uses {name}"
    for name, text in content.texts():
        if re.search(r"pip3? install|-m\W+pip\b|ensurepip|\bpip\.main\b|easy_install|conda install", text):
            yield f"{name}: installs packages"


def dynamic_code(content: Zip) -> Iterator[str]:
    """No text or file is run as code, or by a shell."""
    for place, node in content.nodes(ast.Call):
        name = ast.unparse(node.func)
        if (isinstance(node.func, ast.Name) and name in DYNAMIC) or RUN_TEXT.fullmatch(name):
            yield f"{place}: calls {name}()"
        for keyword in node.keywords:
            if keyword.arg in {"shell", "allow_pickle"} and ast.unparse(keyword.value) != "False":
                yield f"{place}: {keyword.arg} can run code"
    for place, name in content.imported():
        if name.partition(".")[0] in UNSAFE_READERS or RUN_TEXT.fullmatch(name):
            yield f"{place}: imports {name}, which runs code"


def preferences(content: Zip) -> Iterator[str]:
    """Blender's preferences, start-up file and other add-ons stay as they are."""
    for place, node in content.nodes(ast.Assign, ast.AugAssign, ast.Call):
        if isinstance(node, ast.Call):
            changed = [ast.unparse(node.func)] if PREFERENCE_CALL.match(ast.unparse(node.func)) else []
        else:
            targets = [node.target] if isinstance(node, ast.AugAssign) else node.targets
            changed = [text for text in map(ast.unparse, targets) if re.search(r"\bpreferences\.", text)]
        yield from (f"{place}: changes the preferences: {text}" for text in changed)


def permissions(content: Zip) -> Iterator[str]:
    """The manifest asks for the permissions that the code needs."""
    declared = content.manifest.get("permissions", {})
    for place, node in content.nodes(ast.Attribute):
        needed = "clipboard" if node.attr == "clipboard" else "files" if node.attr in FILE_CALLS else None
        if needed and needed not in declared:
            yield f"{place}: .{node.attr} needs the permission {needed}"


def own_folder(content: Zip) -> Iterator[str]:
    """Nothing is written into the folder of the add-on, which may be read-only."""
    own = set[tuple[str, str]]()
    for place, node in content.nodes(ast.Assign):
        if "__file__" in ast.unparse(node.value):
            own |= {(place.partition(":")[0], ast.unparse(target)) for target in node.targets}
    for place, node in content.nodes(ast.Call):
        is_method, name = isinstance(node.func, ast.Attribute), ast.unparse(node.func).rpartition(".")[2]
        modes = [getattr(one, "value", "") for one in (*node.args, *(one.value for one in node.keywords))]
        writes = name == "open" and any(isinstance(mode, str) and WRITE_MODE.fullmatch(mode) for mode in modes)
        if not writes and (name not in WRITING_METHODS or not is_method):
            continue
        path = [node.func.value] if isinstance(node.func, ast.Attribute) else node.args[:1]
        used = {one.id for part in path for one in ast.walk(part) if isinstance(one, ast.Name)}
        if "__file__" in used or any((place.partition(":")[0], name) in own for name in used):
            yield f"{place}: writes to the folder of the add-on"


def registration(content: Zip) -> Iterator[str]:
    """All that is registered is removed again by the same file."""
    for name in content.trees:
        text = content.files[name].decode()
        for added, removed in REGISTRATIONS.items():
            if (found := re.search(added, text)) and not re.search(removed, text):
                yield f"{name}: {found[0]}…) is not undone"
    for place, node in content.nodes(ast.Assign):
        name, is_property = place.partition(":")[0], ast.unparse(node.value).partition("(")[0].endswith("Property")
        for target in map(ast.unparse, node.targets):
            if is_property and (found := re.fullmatch(rf"{OWNERS}\.(\w+)", target)):
                if not found[3].startswith("dampsim"):
                    yield f"{place}: the property {target} does not begin with dampsim"
                if not re.search(rf"\bdel {re.escape(target)}\b", content.files[name].decode()):
                    yield f"{place}: the property {target} is not deleted"


def replaced_parts(content: Zip) -> Iterator[str]:
    """Functions and classes of Blender and of other add-ons stay as they are."""
    for place, node in content.nodes(ast.Assign, ast.AugAssign, ast.Delete, ast.Call):
        if isinstance(node, ast.Call):
            is_change = ast.unparse(node.func) in {"setattr", "delattr"} and len(node.args) > 1
            changed = [f"{ast.unparse(node.args[0])}.{getattr(node.args[1], 'value', '')}"] if is_change else []
        elif isinstance(node, ast.Assign) and ast.unparse(node.value).partition("(")[0].endswith("Property"):
            # The rule of registrations knows these.
            changed = []
        else:
            targets = [node.target] if isinstance(node, ast.AugAssign) else node.targets
            changed = [ast.unparse(target) for target in targets]
        yield from (f"{place}: changes {name}" for name in changed if BLENDER_PART.fullmatch(name))


def console(content: Zip) -> Iterator[str]:
    """Only the command line prints results. Other printed lines are problems, which begin with the add-on's name."""
    for place, node in content.nodes(ast.Call):
        if ast.unparse(node.func) not in {"print", "sys.stdout.write", "pprint.pprint"}:
            continue
        first = node.args[0] if node.args else None
        begin = first.values[0] if isinstance(first, ast.JoinedStr) else first
        is_problem = str(getattr(begin, "value", "")).startswith(PRINTED)
        is_error = any(ast.unparse(one) == "file=sys.stderr" for one in node.keywords)
        if not (place.startswith(COMMAND_LINE) or is_problem or is_error):
            yield f"{place}: prints {ast.unparse(first)[:40] if first else 'a line'}"


def readable_code(content: Zip) -> Iterator[str]:
    """Everything can be read and is finished."""
    for name, text in content.texts():
        if found := UNFINISHED.search(text):
            yield f"{name}: unfinished: {found[0].strip()}"
        is_dense = ENCODED.search(text) or max(map(len, text.splitlines()), default=0) > MAX_LINE
        if is_dense and name.endswith((".py", ".js")):
            yield f"{name}: a line of more than {MAX_LINE} characters, or encoded data"


def pictures(content: Zip) -> Iterator[str]:
    """Pictures do not state where, when or with what they were made."""
    for name, data in content.files.items():
        if any(note in data for note in PICTURE_NOTES.get(Path(name).suffix, ())):
            yield f"{name}: contains notes on its origin"


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


def own_package(content: Zip) -> Iterator[str]:
    """The add-on finds itself by __package__, since users choose the repository that it is installed into."""
    for place, node in content.nodes(ast.Subscript, ast.Constant):
        if isinstance(node, ast.Subscript):
            found = isinstance(node.slice, ast.Constant) and ast.unparse(node.value).endswith("preferences.addons")
        else:
            found = isinstance(node.value, str) and re.match(r"bl_ext\.\w", node.value) is not None
        if found:
            yield f"{place}: the add-on has a fixed name in {ast.unparse(node)}"


def disclosures(content: Zip) -> Iterator[str]:
    """The README names the processes that are started and the calls of the system."""
    readme = content.files.get("README.md", b"").decode()
    called = ((place, ast.unparse(node)) for place, node in content.nodes(ast.Attribute))
    for place, name in (*content.imported(), *called):
        beginnings = {name[: match.start()] for match in re.finditer(r"\.|$", name)}
        words = {DISCLOSED[one] for one in beginnings & DISCLOSED.keys()}
        words |= {"processes"} if PROCESS_CALL.fullmatch(name) else set()
        for word in words:
            if word not in readme:
                yield f"{place}: uses {name}, but the README does not mention {word}"


def tooltips(content: Zip) -> Iterator[str]:
    """Operators have tooltips, and no tooltip or label ends with a full stop."""
    for place, node in content.nodes(ast.ClassDef, ast.Call, ast.Assign):
        if isinstance(node, ast.ClassDef):
            texts = [ast.get_docstring(node)] if node.name.startswith("DAMPSIM_OT_") else []
            own = {ast.unparse(one).partition(" =")[0] for one in node.body if isinstance(one, ast.Assign)}
            own |= {one.name for one in node.body if isinstance(one, ast.FunctionDef)}
            if texts == [None] and not own & {"bl_description", "description"}:
                yield f"{place}: the operator {node.name} has no tooltip"
        elif isinstance(node, ast.Assign):
            is_text = {ast.unparse(target) for target in node.targets} & {"bl_description", "bl_label"}
            texts = [getattr(node.value, "value", None)] if is_text else []
        else:
            values = {one.arg: one.value for one in node.keywords if ast.unparse(node.func).endswith("Property")}
            texts = [getattr(values.get(name), "value", None) for name in ("name", "description")]
            items = getattr(values.get("items"), "elts", [])
            texts += [getattr(text, "value", None) for item in items for text in getattr(item, "elts", [])[1:3]]
        if any(isinstance(text, str) and text.endswith(".") for text in texts):
            yield f"{place}: the tooltip or label ends with a full stop"


RULES: dict[str, Callable[[Zip], Iterator[str]]] = {
    rule.__name__: rule
    for rule in (
        entries, binaries, wheels, sizes, imports, modules, redundant_files, manifest, links, manual, import_state,
        network, dynamic_code, preferences, permissions, own_folder, registration, replaced_parts, console,
        readable_code, pictures, paths, names, own_package, disclosures, tooltips,
    )
}  # fmt: skip


def violations(path: Path, pythons: Sequence[str] = ()) -> list[str]:
    """Return the violations of all rules, each with the name of its rule. pythons: as in Zip."""
    content = Zip(path, pythons)
    return [f"{name}: {text}" for name, rule in RULES.items() for text in rule(content)]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("zips", nargs="+", type=Path, metavar="ZIP")
    parser.add_argument("--python", action="append", default=[], metavar="X.Y", help="as given to tools/package.py")
    options = parser.parse_args()
    found = [f"{path}: {text}" for path in options.zips for text in violations(path, options.python)]
    print("\n".join(found) or f"{len(options.zips)} zips: no violation")
    return bool(found)


if __name__ == "__main__":
    sys.exit(main())
