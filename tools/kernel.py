"""Compile the C files of core/native for this machine, or into wheels for the zips: python tools/kernel.py

Run it in an environment of requirements/kernel.txt, as run.py does. Zig cross-compiles for all systems. Development
does not need the kernel: without it numpy does the same work, in 1.5 times the time.
"""

from __future__ import annotations

import base64
import hashlib
import platform
import runpy
import shutil
import subprocess
import sys
import tempfile
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
# Loaded by path: the package of the checkout may have any name, and importing it needs numpy.
PATHS = runpy.run_path(str(ROOT / "core" / "native" / "paths.py"))
MODULE: str = PATHS["KERNEL_MODULE"]
SOURCES: list[Path] = [PATHS["KERNEL_FOLDER"] / name for name in PATHS["KERNEL_FILES"]]
digest: Callable[[], str] = PATHS["source_digest"]
# Names of each system of Blender's platforms: in Python, and in Zig.
SYSTEMS = {"linux": ("linux", "linux-gnu"), "windows": ("win32", "windows-gnu"), "macos": ("darwin", "macos.11.0")}
PROCESSORS = {"x64": "x86_64", "arm64": "aarch64"}
NAMES = {"x86_64": "x64", "amd64": "x64", "arm64": "arm64", "aarch64": "arm64"}
# No library is linked, not even libc, and the result does not depend on the time or place of the build.
OPTIONS = ["-std=c11", "-O3", "-Wall", "-Wextra", "-Werror", "-ffreestanding", "-nostdlib", "-fno-math-errno"]
OPTIONS += ["-shared", "-fPIC", "-fvisibility=hidden", "-s"]
# Earliest date in a zip.
DATE = (1980, 1, 1, 0, 0, 0)


def here() -> str:
    """Return Blender's name for the platform of this machine."""
    system = next((name for name, (python, _) in SYSTEMS.items() if python == sys.platform), sys.platform)
    machine = platform.machine().lower()
    return f"{system}-{NAMES.get(machine, machine)}"


def compiled(target: str, path: Path) -> Path:
    """Compile the library for one of Blender's platforms to path. Raise KeyError for an unknown platform."""
    system, _, processor = target.partition("-")
    zig = f"{PROCESSORS[processor]}-{SYSTEMS[system][1]}"
    path.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=path.parent) as folder:
        # Compile in this folder with relative paths: macOS libraries record the path to which they are written.
        for source in SOURCES:
            shutil.copyfile(source, Path(folder) / source.name)
        names = [source.name for source in SOURCES if source.suffix == ".c"]
        command = [sys.executable, "-m", "ziglang", "cc", "-target", zig, *OPTIONS, "-o", path.name, *names]
        subprocess.run(command, cwd=folder, check=True)
        (Path(folder) / path.name).replace(path)
    return path


def library() -> Path:
    """Return the library of this checkout for this machine, compiled if the source has changed."""
    path: Path = PATHS["checkout_library"](ROOT)
    return path if path.is_file() else compiled(here(), path)


def wheel_name(tag: str) -> str:
    """Return the file name of the wheel for a platform tag of pip."""
    return f"{MODULE}-{_version()}-py3-none-{tag}.whl"


def wheel(target: str, tag: str, folder: Path) -> Path:
    """Write a wheel into folder that installs the library for one of Blender's platforms. tag: pip's name for it."""
    path, about = folder / wheel_name(tag), f"{MODULE}-{_version()}.dist-info"
    with tempfile.TemporaryDirectory() as made:
        name = PATHS["library_file_name"](SYSTEMS[target.partition("-")[0]][0])
        content = compiled(target, Path(made) / name).read_bytes()
    files = {
        f"{MODULE}/__init__.py": b"",
        f"{MODULE}/{name}": content,
        f"{about}/METADATA": f"Metadata-Version: 2.1\nName: {MODULE}\nVersion: {_version()}\n"
        "Summary: Compiled kernel of DampSim\nLicense: GPL-3.0-or-later\n".encode(),
        f"{about}/WHEEL": "Wheel-Version: 1.0\nGenerator: DampSim\nRoot-Is-Purelib: false\n"
        f"Tag: py3-none-{tag}\n".encode(),
    }
    lines = [f"{name},sha256={_sum(content)},{len(content)}" for name, content in files.items()]
    files[f"{about}/RECORD"] = "\n".join([*lines, f"{about}/RECORD,,", ""]).encode()
    folder.mkdir(parents=True, exist_ok=True)
    with zipfile.ZipFile(path, "w") as archive:
        for name, content in files.items():
            archive.writestr(zipfile.ZipInfo(name, DATE), content)
    return path


def _version() -> str:
    """Return the version, which depends on the source."""
    return f"1.{int(digest(), 16)}"


def _sum(content: bytes) -> str:
    return base64.urlsafe_b64encode(hashlib.sha256(content).digest()).rstrip(b"=").decode()


def main() -> None:
    """Compile the library for this machine, or with arguments PLATFORM=TAG wheels into wheels/."""
    made: list[Any] = [wheel(*pair.split("="), ROOT / "wheels") for pair in sys.argv[1:]] or [library()]
    for path in made:
        print(path)


if __name__ == "__main__":
    main()
