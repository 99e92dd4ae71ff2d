"""The zip passes the platform's rules, and each rule finds what violates it."""

from __future__ import annotations

import io
import os
import runpy
import subprocess
import sys
import zipfile
from collections.abc import Sequence
from pathlib import Path
from types import SimpleNamespace

import pytest

ROOT = Path(__file__).parents[2]
PACKAGE = SimpleNamespace(**runpy.run_path(str(ROOT / "tools/package.py")))
REVIEW = SimpleNamespace(**runpy.run_path(str(ROOT / "tools/review.py"), run_name="review"))
# Each rule, and a file that violates it: its path in the zip and its content. Text that begins with + is appended.
VIOLATIONS = [
    ("binaries", "core/native/kernel.so", ""),
    ("binaries", "core/data", "\x7fELF"),
    ("binaries", "samples.zip", "PK"),
    ("wheels", "wheels/other-1.0-py3-none-any.whl", ""),
    ("redundant_files", "tests/test_all.py", "pass"),
    ("redundant_files", "core/literature/papers/rate_step.py", "pass"),
    ("redundant_files", "farm/flamenco.js", ""),
    ("redundant_files", "farm/dask_engine.py", ""),
    ("redundant_files", "sample_blends/build.py", ""),
    ("redundant_files", "sample_blends/unlisted.blend", ""),
    ("redundant_files", "core/.DS_Store", ""),
    ("redundant_files", "core/base/arrays.py.orig", ""),
    ("redundant_files", "dampsim_addon/ui/add/add_operators.py", "SAMPLES = {'missing': 'Missing'}"),
    ("imports", "core/literature/papers/compare.py", "from .rate_step import step"),
    ("imports", "core/literature/papers/compare.py", "from ...core import literature"),
    ("links", "README.md", "+[more](docs/index.md)"),
    ("links", "manual/index.html", '+<a href="more.html#part">'),
    ("links", "manual/reference/panels/bake.html", '+<meta http-equiv="refresh" content="0; url=../panel.html#bake">'),
    ("manual", "dampsim_addon/ui/common/manual.py", "PAGES = {'reference/panels#baked': ()}"),
    ("manual", "manual/index.html", "+<script>"),
    ("manual", "manual/index.html", '+<img src="https://example.org/1.png">'),
    ("manual", "manual/manual.css", "+@import 'https://example.org/1.css';"),
    ("import_state", "core/__init__.py", "+\nimport sys\nsys.modules['a'] = sys\n"),
    ("import_state", "core/__init__.py", "+\nimport sys\ndel sys.modules['a']\n"),
    ("import_state", "core/__init__.py", "+\nimport sys\nsys.modules.pop('a')\n"),
    ("import_state", "core/__init__.py", "+\nimport sys\nsys.path.insert(0, 'vendor')\n"),
    ("import_state", "core/__init__.py", "+\nimport sys\nsys.path += ['vendor']\n"),
    ("entries", "core/../../outside.txt", ""),
    ("entries", "/outside.txt", ""),
    ("entries", "core/aux.md", ""),
    ("entries", "core/what?.md", ""),
    ("entries", f"core/{'long' * 40}.md", ""),
    ("entries", "Core/__init__.py", ""),
    ("modules", "core/__init__.py", "+\nimport yaml\n"),
    ("modules", "core/__init__.py", "+\nfrom dampsim.core import bake\n"),
    ("modules", "core/__init__.py", "+\nimport distutils.version\n"),
    ("modules", "core/__init__.py", "+\nimport importlib\nimportlib.import_module('PIL.Image')\n"),
    ("preferences", "core/__init__.py", "+\nimport bpy\nbpy.context.preferences.view.show_splash = False\n"),
    ("preferences", "core/__init__.py", "+\nimport bpy\nbpy.ops.wm.save_userpref()\n"),
    ("preferences", "core/__init__.py", "+\nimport bpy\nbpy.ops.preferences.addon_enable(module='io_x3d')\n"),
    ("permissions", "core/__init__.py", "+\nimport bpy\nbpy.context.window_manager.clipboard = 'x'\n"),
    ("own_folder", "core/__init__.py", "+\nfrom pathlib import Path\n(Path(__file__).parent / 'x').write_text('')\n"),
    ("own_folder", "core/__init__.py", "+\nFOLDER = __file__\n\n\ndef f(): return open(FOLDER + '.log', mode='a')\n"),
    ("registration", "core/__init__.py", "+\nimport bpy\nbpy.utils.register_class(X)\n"),
    ("registration", "core/__init__.py", "+\nimport bpy\nbpy.app.handlers.load_post.append(print)\n"),
    ("registration", "core/__init__.py", "+\nimport bpy\nbpy.types.VIEW3D_MT_add.append(print)\n"),
    ("registration", "core/__init__.py", "+\nimport bpy\nbpy.types.Scene.dampsim_x = bpy.props.IntProperty()\n"),
    ("registration", "core/__init__.py", "+\nfrom bpy.types import Scene\nScene.x = IntProperty()\ndel Scene.x\n"),
    ("replaced_parts", "core/__init__.py", "+\nimport bpy\nbpy.types.VIEW3D_PT_tools_active.draw = print\n"),
    ("replaced_parts", "core/__init__.py", "+\nimport bpy\nsetattr(bpy.ops.mesh, 'dissolve', print)\n"),
    ("replaced_parts", "core/__init__.py", "+\nimport bpy\ndel bpy.types.OBJECT_PT_other_addon.draw\n"),
    ("console", "core/__init__.py", "+\nprint('registered')\n"),
    ("console", "core/__init__.py", "+\nx = 1\nprint(f'{x} frames')\n"),
    ("readable_code", "core/__init__.py", "+\nbreakpoint()\n"),
    ("readable_code", "core/native/kernel.md", "<<<<<<< HEAD\n"),
    ("readable_code", "core/__init__.py", f"+\nDATA = '{'eNq0' * 120}'\n"),
    ("readable_code", "core/__init__.py", f"+\nx = [{'1, ' * 400}]\n"),
    ("pictures", "manual/images/new.jpg", "\xff\xd8\xff\xe1Exif\x00\x00"),
    ("pictures", "manual/images/new.png", "\x89PNG tEXtDate"),
    ("own_package", "core/__init__.py", "+\nimport bpy\nx = bpy.context.preferences.addons['dampsim']\n"),
    ("own_package", "core/__init__.py", "+\nPACKAGE = 'bl_ext.user_default.dampsim'\n"),
    ("network", "core/__init__.py", "+\nimport urllib.request\n"),
    ("network", "core/__init__.py", "+\nfrom socket import create_connection\n"),
    ("network", "dampsim_addon/api.py", "+\n# python -m pip install scipy\n"),
    ("network", "core/__init__.py", "+\nfrom urllib import request\n"),
    ("network", "core/__init__.py", "+\nfrom multiprocessing.connection import Listener  # processes\n"),
    ("network", "core/__init__.py", "+\nimport importlib\nimportlib.import_module('http.client')\n"),
    ("network", "core/__init__.py", "+\nimport asyncio\nasyncio.open_connection('example.org', 80)\n"),
    ("dynamic_code", "core/__init__.py", "+\neval('1')\n"),
    ("dynamic_code", "core/__init__.py", "+\nimport pickle\n"),
    ("dynamic_code", "core/__init__.py", "+\nfrom os import system\n"),
    ("dynamic_code", "core/__init__.py", "+\nimport builtins\nbuiltins.exec('1')\n"),
    ("dynamic_code", "core/__init__.py", "+\nimport numpy\nnumpy.load('x.npy', allow_pickle=True)\n"),
    ("dynamic_code", "core/__init__.py", "+\nimport subprocess\nsubprocess.run('ls', shell=True)\n"),
    ("dynamic_code", "core/__init__.py", "+\nimport bpy\nbpy.data.texts[0].as_module()\n"),
    ("dynamic_code", "core/__init__.py", "+\nimport os\nos.system('ls')\n"),
    ("paths", "core/__init__.py", "+\nCACHE = '/home/me/cache'\n"),
    ("paths", "core/__init__.py", "+\nFOLDER = '.tools/kernel'\n"),
    ("names", "core/__init__.py", "+\nclass DampSimThing(PropertyGroup): pass\n"),
    ("names", "core/__init__.py", "+\nbl_info = {}\n"),
    ("names", "core/__init__.py", "+\nclass DAMPSIM_OT_x:\n    'Bake'\n    bl_idname = 'object.x'\n"),
    ("names", "core/__init__.py", "+\nclass DampSimGroup(bpy.types.PropertyGroup): pass\n"),
    ("disclosures", "README.md", "Nothing else."),
    ("tooltips", "core/__init__.py", "+\nclass DAMPSIM_OT_x(Operator):\n    'Bake it.'\n"),
    ("tooltips", "core/__init__.py", "+\nx = FloatProperty(description='Mass of it.')\n"),
    ("tooltips", "core/__init__.py", "+\nclass DAMPSIM_OT_x(Operator):\n    bl_description = 'Bake it.'\n"),
    ("tooltips", "core/__init__.py", "+\nx = EnumProperty(items=[('A', 'First', 'Take the first.')])\n"),
    ("tooltips", "core/__init__.py", "+\nclass DAMPSIM_OT_x(Operator):\n    bl_label = 'Bake'\n"),
]


WHEEL_PARTS = ("METADATA", "WHEEL", "RECORD", "licenses/LICENSE")


def wheel(name: str, parts: Sequence[str] = WHEEL_PARTS, text: str = "") -> bytes:
    """Return a wheel without code. text: of its parts."""
    buffer, about = io.BytesIO(), "-".join(name.split("-")[:2])
    with zipfile.ZipFile(buffer, "w") as archive:
        for part in parts:
            archive.writestr(f"{about}.dist-info/{part}", text)
    return buffer.getvalue()


@pytest.fixture(scope="module")
def contents(tmp_path_factory: pytest.TempPathFactory) -> dict[str, bytes]:
    """Return the files of a zip for one platform, with empty wheels."""
    root = tmp_path_factory.mktemp("checkout")
    site = runpy.run_path(str(ROOT / "run.py"))["environment"]("site")
    subprocess.run([site, ROOT / "tools" / "manual.py", root / "manual"], check=True)
    for name in (*PACKAGE.CONTENTS, "tools", "sample_blends"):
        (root / name).symlink_to(ROOT / name)
    (root / "wheels").mkdir()
    wheels = [root / "wheels" / f"scipy-1.17.1-cp{python}-cp{python}-win_amd64.whl" for python in ("311", "313")]
    wheels += PACKAGE.kernels(root, ["windows-x64"])
    for path in wheels:
        path.write_bytes(wheel(path.name))
    stage = tmp_path_factory.mktemp("stage") / "files"
    assert PACKAGE.stage(root, stage, ["windows-x64"], ["3.11", "3.13"]) == 3
    return {path.relative_to(stage).as_posix(): path.read_bytes() for path in stage.rglob("*") if path.is_file()}


@pytest.fixture(scope="module")
def few(contents: dict[str, bytes]) -> dict[str, bytes]:
    """Return the files of a zip with hardly any code and without violations."""
    # Samples and catalogues are long.
    long = (".blend", ".po", ".png", ".c")
    found = {name: b"" if name.endswith(long) else text for name, text in contents.items() if not name.endswith(".py")}
    found |= dict.fromkeys(("__init__.py", "core/__init__.py", "dampsim_addon/api.py"), b"")
    # The list of the samples, and the modules that start processes.
    kept = ("dampsim_addon/ui/add/add_operators.py", "dampsim_addon/farm/child.py")
    forwarding = "manual/reference/panels/bake.html"
    found = {name: content for name, content in found.items() if not name.startswith("manual/")}
    found |= {
        "manual/index.html": b'<a href="reference/panels.html">',
        "manual/manual.css": b"",
        "manual/reference/panels.html": b'<h2 id="bake">Bake</h2>',
        forwarding: contents[forwarding],
        "dampsim_addon/ui/common/manual.py": b"PAGES = {'reference/panels#bake': ()}",
    }
    return found | {name: contents[name].replace(b"from .", b"# from .") for name in kept}


def rules_violated(contents: dict[str, bytes], path: Path) -> set[str]:
    with zipfile.ZipFile(path, "w") as archive:
        for name, content in contents.items():
            archive.writestr(name, content)
    return {text.partition(":")[0] for text in REVIEW.violations(path)}


def test_zip_passes_review(contents: dict[str, bytes], tmp_path: Path) -> None:
    assert rules_violated(contents, tmp_path / "out.zip") == set()


def test_review_reads_generated_lists(few: dict[str, bytes], tmp_path: Path) -> None:
    """Blender's builder appends the platform and the wheels of one zip to the manifest of all."""
    name, other = "blender_manifest.toml", b'"./wheels/scipy-1.17.1-cp311-cp311-manylinux_2_28_x86_64.whl"'
    wheels = ", ".join(f'"./{wheel}"' for wheel in few if wheel.endswith(".whl"))
    lists = few[name].replace(b'["windows-x64"]', b'["windows-x64", "linux-x64"]')
    lists = lists.replace(b"wheels = [", b"wheels = [\n  " + other + b",")
    generated = f'\n[build.generated]\nplatforms = ["windows-x64"]\nwheels = [{wheels}]\n'
    assert rules_violated({**few, name: lists + generated.encode()}, tmp_path / "out.zip") == set()
    assert rules_violated({**few, name: lists}, tmp_path / "out.zip") == {"wheels"}


@pytest.mark.parametrize(("rule", "name", "text"), VIOLATIONS)
def test_review_finds_violation(few: dict[str, bytes], rule: str, name: str, text: str, tmp_path: Path) -> None:
    added = text.encode("latin-1")
    changed = few[name] + added[1:] if text.startswith("+") else added
    assert rules_violated({**few, name: changed}, tmp_path / "out.zip") == {rule}


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("website = ", "site = "),
        ("2026 The DampSim founders", "The DampSim founders"),
        ('tagline = "', f'tagline = "{"long " * 20}'),
        ('version = "0', 'version = "x'),
        ("SPDX:GPL-3.0-or-later", "SPDX:MIT"),
        ("SPDX:LGPL-2.1-or-later", "SPDX:GPL-3.0-only"),
        ("SPDX:CC0-1.0", "SPDX:MIT"),
        ('tags = ["', 'tags = ["Secondary Motion", "'),
        ('type = "add-on"', 'type = "theme"'),
        ('name = "DampSim"', 'name = "DampSim for Blender"'),
        ('website = "https://extensions', 'website = "http://extensions'),
        ("[permissions]", '[permissions]\nanything = "Do anything"'),
    ],
)
def test_review_reads_manifest(few: dict[str, bytes], before: str, after: str, tmp_path: Path) -> None:
    name = "blender_manifest.toml"
    changed = few[name].decode().replace(before, after, 1).encode()
    assert changed != few[name]
    assert "manifest" in rules_violated({**few, name: changed}, tmp_path / "out.zip")


@pytest.mark.parametrize("module", ["scipy", "dampsim_kernel"])
def test_review_finds_missing_wheel(few: dict[str, bytes], module: str, tmp_path: Path) -> None:
    """A wheel that neither the zip nor its manifest has. There is one of scipy for each Python."""
    for name in [name for name in few if f"/{module}-" in name]:
        changed = {other: content for other, content in few.items() if other != name}
        line = f'  "./{name}",\n'.encode()
        assert line in changed["blender_manifest.toml"]
        changed["blender_manifest.toml"] = changed["blender_manifest.toml"].replace(line, b"")
        assert rules_violated(changed, tmp_path / "out.zip") == {"wheels"}
        python = ["3.11" if "cp313" in name else "3.13"]
        others = {text.partition(":")[0] for text in REVIEW.violations(tmp_path / "out.zip", python)}
        assert others == (set() if module == "scipy" else {"wheels"})


def replace_wheel(few: dict[str, bytes], old: str, new: str, content: bytes) -> dict[str, bytes]:
    """Return the files with another wheel in place of one."""
    changed = {name: data for name, data in few.items() if name != old} | {new: content}
    listed = changed["blender_manifest.toml"].replace(old.encode(), new.encode())
    return {**changed, "blender_manifest.toml": listed}


def test_distribution_needs_own_python_only(few: dict[str, bytes], tmp_path: Path) -> None:
    """A zip with wheels for Python 3.14 alone is complete; one with wheels for 3.11 and 3.14 lacks 3.13."""
    older, newer = sorted(name for name in few if "/scipy-" in name)
    changed = replace_wheel(few, newer, newer.replace("cp313", "cp314"), few[newer])
    assert rules_violated(changed, tmp_path / "out.zip") == {"wheels"}
    line = f'  "./{older}",\n'.encode()
    manifest = changed.pop("blender_manifest.toml").replace(line, b"")
    del changed[older]
    assert rules_violated({**changed, "blender_manifest.toml": manifest}, tmp_path / "out.zip") == set()


@pytest.mark.parametrize("parts", [WHEEL_PARTS[1:], WHEEL_PARTS[:-1], None])
def test_review_finds_broken_wheel(few: dict[str, bytes], parts: Sequence[str] | None, tmp_path: Path) -> None:
    """A wheel without its metadata or its licence, and a file that is no wheel."""
    name = next(name for name in few if "/scipy-" in name)
    content = b"" if parts is None else wheel(Path(name).name, parts)
    assert rules_violated({**few, name: content}, tmp_path / "out.zip") == {"wheels"}


def test_review_finds_wheel_of_other_platform(few: dict[str, bytes], tmp_path: Path) -> None:
    name, manifest = "wheels/scipy-1.17.1-cp311-cp311-macosx_12_0_arm64.whl", "blender_manifest.toml"
    listed = few[manifest].replace(b"wheels = [", f'wheels = [\n  "./{name}",'.encode())
    changed = {**few, manifest: listed, name: wheel(Path(name).name)}
    assert rules_violated(changed, tmp_path / "out.zip") == {"wheels"}


def test_review_reads_licences_of_wheels(few: dict[str, bytes], tmp_path: Path) -> None:
    name = next(name for name in few if "/scipy-" in name)
    for text, expected in (("License: LGPL-2.1-or-later", set()), ("  License: MPL-2.0 AND MIT", {"manifest"})):
        changed = {**few, name: wheel(Path(name).name, text=text)}
        assert rules_violated(changed, tmp_path / "out.zip") == expected


def test_review_finds_links_among_entries(few: dict[str, bytes], tmp_path: Path) -> None:
    assert rules_violated(few, tmp_path / "out.zip") == set()
    with zipfile.ZipFile(tmp_path / "out.zip", "a") as archive:
        about = zipfile.ZipInfo("core/link")
        about.external_attr = 0o120777 << 16
        archive.writestr(about, "/etc/passwd")
    assert [text.partition(":")[0] for text in REVIEW.violations(tmp_path / "out.zip")] == ["entries"]


def test_review_names_undisclosed_calls(few: dict[str, bytes], tmp_path: Path) -> None:
    """Processes that are started without the module subprocess, and other names of Windows' libraries."""
    bare = {name: content for name, content in few.items() if name != "dampsim_addon/farm/child.py"}
    bare["README.md"] = b""
    assert rules_violated(bare, tmp_path / "out.zip") == set()
    for line in ("import os\nos.startfile('x')", "import os\nos.fork()", "from ctypes import windll"):
        changed = {**bare, "core/__init__.py": line.encode()}
        assert rules_violated(changed, tmp_path / "out.zip") == {"disclosures"}, line


def test_review_knows_needed_permissions(few: dict[str, bytes], tmp_path: Path) -> None:
    bare = few["blender_manifest.toml"].replace(b"files = ", b"camera = ")
    assert rules_violated({**few, "blender_manifest.toml": bare}, tmp_path / "out.zip") == {"permissions"}


@pytest.mark.parametrize("version", ["1.1234567890", "9.9.9"])
def test_review_finds_wrong_kernel(few: dict[str, bytes], version: str, tmp_path: Path) -> None:
    current = next(name for name in few if "dampsim_kernel-" in name)
    other = f"wheels/dampsim_kernel-{version}-py3-none-win_amd64.whl"
    changed = replace_wheel(few, current, other, wheel(Path(other).name))
    assert rules_violated(changed, tmp_path / "out.zip") == {"wheels"}


def test_review_knows_limit_of_size(few: dict[str, bytes], tmp_path: Path) -> None:
    assert rules_violated(few, tmp_path / "out.zip") == set()
    content = REVIEW.Zip(tmp_path / "out.zip")
    content.path = SimpleNamespace(stat=lambda: SimpleNamespace(st_size=REVIEW.MAX_SIZE + 1))
    assert list(REVIEW.sizes(content)) == ["200 MB are more than 200 MB"]


@pytest.mark.slow
@pytest.mark.kernel
def test_kernel_is_built_from_source_package(tmp_path: Path) -> None:
    """Its source package alone gives a wheel whose library passes the checks."""
    python = ROOT / f".venv-kernel-{sys.version_info[0]}.{sys.version_info[1]}/bin/python"
    if not python.exists() and not os.environ.get("DAMPSIM_CI"):
        pytest.skip("there is no compiler here")
    tool = SimpleNamespace(**runpy.run_path(str(ROOT / "tools/kernel.py")))
    source = tool.sdist(tmp_path)
    command = [python, "-m", "pip", "wheel", "--quiet", "--no-deps", "--no-build-isolation", "--wheel-dir", tmp_path]
    subprocess.run([*map(str, command), str(source)], check=True)
    (wheel,) = tmp_path.glob("*.whl")
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(tmp_path / "installed")
    code = (
        f"import sys; sys.path[:0] = [{str(ROOT / 'tests')!r}, {str(tmp_path / 'installed')!r}]\n"
        "import os, conftest\ndel os.environ['DAMPSIM_KERNEL']\n"
        "from dampsim.core.native import interface, library\n"
        f"assert str(interface.installed_library()).startswith({str(tmp_path)!r})\n"
        "assert library.load_library() is not None\n"
    )
    subprocess.run([sys.executable, "-c", code], check=True)
