"""Compiles core/native/kernel.c, for this machine or into wheels for the zips: python tools/kernel.py

In an environment of requirements/kernel.txt, as run.py makes it. Zig compiles for all systems wherever it runs. Nothing
of it is needed to work on DampSim: without the kernel numpy does the same, in half as much time again.
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
# The package of the checkout may have any name, and needs numpy.
WHERE = runpy.run_path(str(ROOT / "core" / "native" / "where.py"))
MODULE: str = WHERE["MODULE"]
SOURCE: Path = WHERE["SOURCE"]
digest: Callable[[], str] = WHERE["digest"]
# Of a system, as Blender's platforms begin: what Python calls it, and what Zig does.
SYSTEMS = {"linux": ("linux", "linux-gnu"), "windows": ("win32", "windows-gnu"), "macos": ("darwin", "macos.11.0")}
PROCESSORS = {"x64": "x86_64", "arm64": "aarch64"}
NAMES = {"x86_64": "x64", "amd64": "x64", "arm64": "arm64", "aarch64": "arm64"}
# No library is linked, that of C neither, and nothing of where or when it was made is in it.
OPTIONS = ["-std=c11", "-O3", "-Wall", "-Wextra", "-Werror", "-ffreestanding", "-nostdlib"]
OPTIONS += ["-shared", "-fPIC", "-fvisibility=hidden", "-s"]
# The first day that zips know.
DATE = (1980, 1, 1, 0, 0, 0)


def here() -> str:
    """This machine, as Blender names it."""
    system = next((name for name, (python, _) in SYSTEMS.items() if python == sys.platform), sys.platform)
    machine = platform.machine().lower()
    return f"{system}-{NAMES.get(machine, machine)}"


def compiled(target: str, path: Path) -> Path:
    """The library for a platform of Blender's, at path. Raises KeyError where none can be made for it."""
    system, _, processor = target.partition("-")
    zig = f"{PROCESSORS[processor]}-{SYSTEMS[system][1]}"
    path.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=path.parent) as folder:
        # In there alone: libraries for macOS know the path that they were written to.
        shutil.copyfile(SOURCE, Path(folder) / SOURCE.name)
        command = [sys.executable, "-m", "ziglang", "cc", "-target", zig, *OPTIONS, "-o", path.name, SOURCE.name]
        subprocess.run(command, cwd=folder, check=True)
        (Path(folder) / path.name).replace(path)
    return path


def library() -> Path:
    """This machine's, of this checkout; made where the source is another since."""
    path: Path = WHERE["of_checkout"](ROOT)
    return path if path.is_file() else compiled(here(), path)


def wheel_name(tag: str) -> str:
    """Of the wheel for a platform, as pip names it."""
    return f"{MODULE}-{_version()}-py3-none-{tag}.whl"


def wheel(target: str, tag: str, folder: Path) -> Path:
    """A wheel in folder that installs the library for a platform of Blender's, which pip calls tag."""
    path, about = folder / wheel_name(tag), f"{MODULE}-{_version()}.dist-info"
    with tempfile.TemporaryDirectory() as made:
        name = WHERE["file_name"](SYSTEMS[target.partition("-")[0]][0])
        content = compiled(target, Path(made) / name).read_bytes()
    files = {
        f"{MODULE}/__init__.py": b"",
        f"{MODULE}/{name}": content,
        f"{about}/METADATA": f"Metadata-Version: 2.1\nName: {MODULE}\nVersion: {_version()}\n"
        "Summary: What DampSim has compiled\nLicense: GPL-3.0-or-later\n".encode(),
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
    """Another for each source."""
    return f"1.{int(digest(), 16)}"


def _sum(content: bytes) -> str:
    return base64.urlsafe_b64encode(hashlib.sha256(content).digest()).rstrip(b"=").decode()


def main() -> None:
    """With arguments PLATFORM=TAG wheels for those, in wheels/; without, the library for this machine."""
    made: list[Any] = [wheel(*pair.split("="), ROOT / "wheels") for pair in sys.argv[1:]] or [library()]
    for path in made:
        print(path)


if __name__ == "__main__":
    main()
