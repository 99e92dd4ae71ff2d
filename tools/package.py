"""Prepare the folder from which `blender --command extension build` makes the installable zips.

    python tools/package.py [--platform linux-x64 …] [--python 3.14 …]     write build/stage, with its wheels
    python tools/package.py --even build/*.zip                          afterwards: make the zips reproducible

Blender's Python has no scipy, so the zips contain it, one wheel for each Python of the supported Blenders. A Blender
built by a distribution with another Python needs a zip with the wheel for that Python. The zips also contain the
compiled kernel of tools/kernel.py, one wheel per platform for all Pythons, and the manual of tools/manual.py.
"""

from __future__ import annotations

import argparse
import ast
import os
import re
import runpy
import shutil
import subprocess
import sys
import time
import zipfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
STAGE = ROOT / "build" / "stage"
# Blender 4.5 and 5.0 embed Python 3.11, 5.1 and 5.2 embed 3.13.
PYTHONS = ("3.11", "3.13")
PLATFORMS = {
    "linux-x64": ["manylinux_2_27_x86_64", "manylinux_2_28_x86_64", "manylinux2014_x86_64"],
    "windows-x64": ["win_amd64"],
    "windows-arm64": ["win_arm64"],
    "macos-arm64": ["macosx_12_0_arm64", "macosx_14_0_arm64"],
    "macos-x64": ["macosx_10_14_x86_64", "macosx_14_0_x86_64"],
}
# Date of all files in a zip, s since 1970. Without a fixed date, two zips of the same content would differ.
# The default is the earliest date in a zip.
DATE = int(os.environ.get("SOURCE_DATE_EPOCH", "315619200"))
CONTENTS = ("__init__.py", "blender_manifest.toml", "LICENSE", "CHANGELOG.md", "core", "dampsim_addon")
# The README of a zip, which must be complete without the repository.
README = "tools/zip_readme.md"
# Experiments of the papers, which only tests and pages of the documentation use. The command `compare` is not one.
EXPERIMENTS = (
    "flat_scenes",
    "oscillator",
    "rate_step",
    "schmedding_scenes",
    "stress_form",
)
LEFT_OUT = ("__pycache__", *(f"{name}.py" for name in EXPERIMENTS))


# Names of the samples in a zip.
_SAMPLE_LIST = ast.parse((ROOT / "dampsim_addon" / "ui" / "add" / "add_operators.py").read_text(encoding="utf-8"))
SAMPLES = next(
    tuple(ast.literal_eval(node.value))
    for node in _SAMPLE_LIST.body
    if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == "SAMPLES"
)


def scipy_version() -> str:
    found = re.search(r"^scipy==(\S+)", (ROOT / "requirements" / "core.txt").read_text(encoding="utf-8"), re.M)
    assert found is not None
    return found[1]


def fetch(platform: str, pythons: list[str]) -> None:
    for python in pythons:
        command = [sys.executable, "-m", "pip", "download", "--quiet", "--disable-pip-version-check", "--no-deps"]
        command += ["--only-binary=:all:", "--python-version", python, "--dest", str(ROOT / "wheels")]
        for tag in PLATFORMS[platform]:
            command += ["--platform", tag]
        subprocess.run([*command, f"scipy=={scipy_version()}"], check=True)


def kernels(root: Path, platforms: list[str]) -> list[Path]:
    """Return the paths of the kernel wheels of this version in root/wheels."""
    name = runpy.run_path(str(ROOT / "tools" / "kernel.py"))["wheel_name"]
    return [root / "wheels" / name(PLATFORMS[platform][0]) for platform in platforms]


def compile_kernels(platforms: list[str]) -> None:
    """Compile the kernel wheels that are missing or of another source."""
    is_current = runpy.run_path(str(ROOT / "tools" / "kernel.py"))["is_current"]
    pairs = zip(platforms, kernels(ROOT, platforms), strict=True)
    missing = [f"{platform}={PLATFORMS[platform][0]}" for platform, path in pairs if not is_current(path)]
    if missing:
        environment = runpy.run_path(str(ROOT / "run.py"))["environment"]
        subprocess.run([str(environment("kernel")), str(ROOT / "tools" / "kernel.py"), *missing], check=True)


def write_manual() -> None:
    """Write the manual into the checkout, from which it is copied into the zips."""
    environment = runpy.run_path(str(ROOT / "run.py"))["environment"]
    subprocess.run([str(environment("site")), str(ROOT / "tools" / "manual.py")], check=True)


def belongs(wheel: str, platforms: list[str], pythons: list[str]) -> bool:
    fits = any(tag in wheel for platform in platforms for tag in PLATFORMS[platform])
    return fits and any(f"-cp{python.replace('.', '')}-" in wheel for python in pythons)


def stage(root: Path, folder: Path, platforms: list[str], pythons: list[str]) -> int:
    """Write the folder to build from, with the wheels in root/wheels. Return the number of wheels.

    Without root/manual, the add-on has no help buttons, and tools/review.py refuses the zip.
    """
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    for name in CONTENTS:
        source = root / name
        if source.is_dir():
            shutil.copytree(source, folder / name, ignore=shutil.ignore_patterns(*LEFT_OUT))
        else:
            shutil.copy(source, folder / name)
    shutil.copy(root / README, folder / "README.md")
    if (root / "manual").is_dir():
        shutil.copytree(root / "manual", folder / "manual")
    (folder / "sample_blends").mkdir()
    for name in SAMPLES:
        shutil.copy(root / "sample_blends" / f"{name}.blend", folder / "sample_blends")
    wheels = [path for path in sorted((root / "wheels").glob("scipy-*.whl")) if belongs(path.name, platforms, pythons)]
    wheels += [path for path in kernels(root, platforms) if path.is_file()]
    (folder / "wheels").mkdir()
    for wheel in wheels:
        shutil.copy(wheel, folder / "wheels")
    lines = "".join(f'  "./wheels/{wheel.name}",\n' for wheel in wheels)
    names = ", ".join(f'"{platform}"' for platform in platforms)
    manifest = (folder / "blender_manifest.toml").read_text(encoding="utf-8")
    extra = f"platforms = [{names}]\nwheels = [\n{lines}]\n\n[permissions]"
    (folder / "blender_manifest.toml").write_text(manifest.replace("[permissions]", extra, 1), encoding="utf-8")
    for path in (folder, *folder.rglob("*")):
        path.chmod(0o755 if path.is_dir() else 0o644)
        os.utime(path, (DATE, DATE))
    return len(wheels)


def even(path: Path) -> None:
    """Rewrite a zip so that it depends only on its content.

    Blender's builder adds files in the order of the disk, and dates each platform's manifest with the current time.
    """
    part = path.with_suffix(".part")
    with zipfile.ZipFile(path) as source, zipfile.ZipFile(part, "w") as made:
        for entry in sorted(source.infolist(), key=lambda entry: entry.filename):
            about = zipfile.ZipInfo(entry.filename, time.gmtime(DATE)[:6])
            about.compress_type, about.external_attr, about.create_system = entry.compress_type, 0o100644 << 16, 3
            made.writestr(about, source.read(entry), compresslevel=9)
    part.replace(path)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--platform", action="append", choices=PLATFORMS, default=[])
    parser.add_argument("--python", action="append", default=[], metavar="X.Y")
    parser.add_argument("--even", nargs="+", type=Path, metavar="ZIP", help="make built zips reproducible")
    options = parser.parse_args()
    if options.even:
        for path in options.even:
            even(path)
        return
    platforms, pythons = options.platform or list(PLATFORMS), options.python or list(PYTHONS)
    for platform in platforms:
        fetch(platform, pythons)
    compile_kernels(platforms)
    write_manual()
    print(f"{STAGE}: {stage(ROOT, STAGE, platforms, pythons)} wheels")


if __name__ == "__main__":
    main()
