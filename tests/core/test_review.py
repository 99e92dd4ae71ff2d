"""The zip passes the platform's rules, and each rule finds what violates it."""

from __future__ import annotations

import os
import runpy
import subprocess
import sys
import zipfile
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
    ("module_table", "core/__init__.py", "+\nimport sys\nsys.modules['a'] = sys\n"),
    ("module_table", "core/__init__.py", "+\nimport sys\ndel sys.modules['a']\n"),
    ("module_table", "core/__init__.py", "+\nimport sys\nsys.modules.pop('a')\n"),
    ("network", "core/__init__.py", "+\nimport urllib.request\n"),
    ("network", "core/__init__.py", "+\nfrom socket import create_connection\n"),
    ("network", "dampsim_addon/api.py", "+\n# python -m pip install scipy\n"),
    ("dynamic_code", "core/__init__.py", "+\neval('1')\n"),
    ("dynamic_code", "core/__init__.py", "+\nimport os\nos.system('ls')\n"),
    ("paths", "core/__init__.py", "+\nCACHE = '/home/me/cache'\n"),
    ("paths", "core/__init__.py", "+\nFOLDER = '.tools/kernel'\n"),
    ("names", "core/__init__.py", "+\nclass DampSimThing(PropertyGroup): pass\n"),
    ("names", "core/__init__.py", "+\nbl_info = {}\n"),
    ("names", "core/__init__.py", "+\nclass DAMPSIM_OT_x:\n    bl_idname = 'object.x'\n"),
    ("names", "core/__init__.py", "+\nclass DampSimGroup(bpy.types.PropertyGroup): pass\n"),
    ("disclosures", "README.md", "Nothing else."),
    ("tooltips", "core/__init__.py", "+\nclass DAMPSIM_OT_x(Operator):\n    'Bake it.'\n"),
    ("tooltips", "core/__init__.py", "+\nx = FloatProperty(description='Mass of it.')\n"),
]


@pytest.fixture(scope="module")
def contents(tmp_path_factory: pytest.TempPathFactory) -> dict[str, bytes]:
    """Return the files of a zip for one platform, with empty wheels."""
    root = tmp_path_factory.mktemp("checkout")
    site = runpy.run_path(str(ROOT / "run.py"))["environment"]("site")
    subprocess.run([site, ROOT / "tools" / "manual.py", root / "manual"], check=True)
    for name in (*PACKAGE.CONTENTS, "tools", "sample_blends"):
        (root / name).symlink_to(ROOT / name)
    (root / "wheels").mkdir()
    (root / "wheels" / "scipy-1.17.1-cp311-cp311-win_amd64.whl").touch()
    for path in PACKAGE.kernels(root, ["windows-x64"]):
        path.touch()
    stage = tmp_path_factory.mktemp("stage") / "files"
    assert PACKAGE.stage(root, stage, ["windows-x64"], ["3.11"]) == 2
    return {path.relative_to(stage).as_posix(): path.read_bytes() for path in stage.rglob("*") if path.is_file()}


@pytest.fixture(scope="module")
def few(contents: dict[str, bytes]) -> dict[str, bytes]:
    """Return the files of a zip with hardly any code and without violations."""
    found = {name: content for name, content in contents.items() if not name.endswith(".py")}
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
    ],
)
def test_review_reads_manifest(few: dict[str, bytes], before: str, after: str, tmp_path: Path) -> None:
    name = "blender_manifest.toml"
    changed = few[name].decode().replace(before, after, 1).encode()
    assert changed != few[name]
    assert "manifest" in rules_violated({**few, name: changed}, tmp_path / "out.zip")


@pytest.mark.parametrize("module", ["scipy", "dampsim_kernel"])
def test_review_finds_missing_wheel(few: dict[str, bytes], module: str, tmp_path: Path) -> None:
    """A wheel that neither the zip nor its manifest has."""
    name = next(name for name in few if f"/{module}-" in name)
    changed = {other: content for other, content in few.items() if other != name}
    line = f'  "./{name}",\n'.encode()
    assert line in changed["blender_manifest.toml"]
    changed["blender_manifest.toml"] = changed["blender_manifest.toml"].replace(line, b"")
    assert rules_violated(changed, tmp_path / "out.zip") == {"wheels"}


@pytest.mark.parametrize("version", ["1.1234567890", "9.9.9"])
def test_review_finds_wrong_kernel(few: dict[str, bytes], version: str, tmp_path: Path) -> None:
    current = next(name for name in few if "dampsim_kernel-" in name)
    other = f"wheels/dampsim_kernel-{version}-py3-none-win_amd64.whl"
    changed = {name: content for name, content in few.items() if name != current} | {other: b""}
    changed["blender_manifest.toml"] = changed["blender_manifest.toml"].replace(current.encode(), other.encode())
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
        "from dampsim.core.native import library, paths\n"
        f"assert str(paths.installed_library()).startswith({str(tmp_path)!r})\n"
        "assert library.load_library() is not None\n"
    )
    subprocess.run([sys.executable, "-c", code], check=True)
