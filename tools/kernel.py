"""Compile the C files of core/native, and package them as dampsim_kernel.

    python tools/kernel.py                       compile the library of this checkout for this machine
    python tools/kernel.py PLATFORM=TAG …        write wheels for Blender's platforms into wheels/
    python tools/kernel.py sdist                 write the source package into wheels/

Run it in an environment of requirements/kernel.txt, as run.py does. Zig cross-compiles for all systems. Development
does not need the kernel: without it numpy does the same work, in 1.5 times the time. This file is also the build
backend of the source package (PEP 517).
"""

from __future__ import annotations

import base64
import gzip
import hashlib
import io
import platform
import runpy
import shutil
import subprocess
import sys
import sysconfig
import tarfile
import tempfile
import tomllib
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
# Loaded by path: the package of the checkout may have any name, and importing it needs numpy.
PATHS = runpy.run_path(str(ROOT / "core" / "native" / "interface.py"))
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
# The files of the source package alone, which are at its root once it is unpacked.
PACKAGE = next(path for path in (ROOT / "tools" / "kernel_package", ROOT) if path.is_dir())


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


def checkout_library() -> Path:
    """Return the path of this checkout's library for this machine, which need not exist."""
    suffix = Path(PATHS["library_file_name"]()).suffix
    return ROOT / ".tools" / "kernel" / f"{MODULE}-{digest()}{suffix}"


def library() -> Path:
    """Return the library of this checkout for this machine, compiled if the source has changed."""
    path = checkout_library()
    return path if path.is_file() else compiled(here(), path)


def version() -> str:
    """Return the version, which is that of the add-on."""
    manifest = tomllib.loads((ROOT / "blender_manifest.toml").read_text(encoding="utf-8"))
    return str(manifest["version"])


def wheel_name(tag: str) -> str:
    """Return the file name of the wheel for a platform tag of pip."""
    return f"{MODULE}-{version()}-py3-none-{tag}.whl"


def is_current(path: Path) -> bool:
    """Return whether a wheel exists and contains the library of this source."""
    if not path.is_file():
        return False
    with zipfile.ZipFile(path) as archive:
        return archive.read(f"{MODULE}/__init__.py").decode() == _init_file()


def wheel(target: str, tag: str, folder: Path) -> Path:
    """Write a wheel into folder that installs the library for one of Blender's platforms. tag: pip's name for it."""
    path, about = folder / wheel_name(tag), f"{MODULE}-{version()}.dist-info"
    name: str = PATHS["library_file_name"](SYSTEMS[target.partition("-")[0]][0])
    with tempfile.TemporaryDirectory() as made:
        content = compiled(target, Path(made) / name).read_bytes()
    files = {
        f"{MODULE}/__init__.py": _init_file().encode(),
        f"{MODULE}/{name}": content,
        f"{about}/METADATA": _metadata().encode(),
        f"{about}/WHEEL": "Wheel-Version: 1.0\nGenerator: DampSim\nRoot-Is-Purelib: false\n"
        f"Tag: py3-none-{tag}\n".encode(),
        f"{about}/licenses/LICENSE": (ROOT / "LICENSE").read_bytes(),
    }
    lines = [f"{name},sha256={_sum(content)},{len(content)}" for name, content in files.items()]
    files[f"{about}/RECORD"] = "\n".join([*lines, f"{about}/RECORD,,", ""]).encode()
    folder.mkdir(parents=True, exist_ok=True)
    with zipfile.ZipFile(path, "w") as archive:
        for name, content in files.items():
            archive.writestr(zipfile.ZipInfo(name, DATE), content)
    return path


def sdist(folder: Path) -> Path:
    """Write the source package into folder: the C files, this script, and what it reads."""
    base = f"{MODULE}-{version()}"
    packaged = {name: PACKAGE / name for name in ("pyproject.toml", "README.md")}
    read = [Path(__file__).resolve(), Path(PATHS["__file__"]), *SOURCES]
    packaged |= {path.relative_to(ROOT).as_posix(): path for path in read}
    packaged |= {name: ROOT / name for name in ("LICENSE", "blender_manifest.toml")}
    files = {"PKG-INFO": _metadata().encode(), **{name: path.read_bytes() for name, path in packaged.items()}}
    path = folder / f"{base}.tar.gz"
    folder.mkdir(parents=True, exist_ok=True)
    with (
        path.open("wb") as file,
        gzip.GzipFile("", "wb", fileobj=file, mtime=0) as packed,
        tarfile.open(fileobj=packed, mode="w") as archive,
    ):
        for name, content in sorted(files.items()):
            entry = tarfile.TarInfo(f"{base}/{name}")
            entry.size = len(content)
            archive.addfile(entry, io.BytesIO(content))
    return path


def build_wheel(wheel_directory: str, config_settings: Any = None, metadata_directory: Any = None) -> str:
    """Build the wheel for this machine (PEP 517), and return its name."""
    tag = sysconfig.get_platform().replace("-", "_").replace(".", "_")
    return wheel(here(), tag, Path(wheel_directory)).name


def build_sdist(sdist_directory: str, config_settings: Any = None) -> str:
    """Build the source package (PEP 517), and return its name."""
    return sdist(Path(sdist_directory)).name


def _init_file() -> str:
    return f'"""Compiled kernel of DampSim {version()}."""\n\nSOURCE = "{digest()}"\n'


def _metadata() -> str:
    about = tomllib.loads((PACKAGE / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    return (
        f"Metadata-Version: 2.4\nName: {about['name']}\nVersion: {version()}\nSummary: {about['description']}\n"
        f"License-Expression: {about['license']}\nLicense-File: LICENSE\nRequires-Python: {about['requires-python']}\n"
    )


def _sum(content: bytes) -> str:
    return base64.urlsafe_b64encode(hashlib.sha256(content).digest()).rstrip(b"=").decode()


def main() -> None:
    arguments, folder = sys.argv[1:], ROOT / "wheels"
    if arguments == ["sdist"]:
        made = [sdist(folder)]
    else:
        made = [wheel(*pair.split("="), folder) for pair in arguments] or [library()]
    for path in made:
        print(path)


if __name__ == "__main__":
    main()
