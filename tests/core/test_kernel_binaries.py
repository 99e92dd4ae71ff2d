"""The kernels for Windows and macOS: machine code that Linux can run is run, and the rest is read."""

from __future__ import annotations

import ctypes
import os
import platform
import re
import runpy
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from foreign_binaries import WindowsBinary, read_mach, windows_adapter

from dampsim.core.native import library as native

pytestmark = [pytest.mark.kernel, pytest.mark.slow]
ROOT = Path(__file__).parents[2]
COMPILER = ROOT / f".venv-kernel-{sys.version_info[0]}.{sys.version_info[1]}/bin/python"
# Oldest macOS of scipy's wheels for each processor, and of Blender 4.5.
OLDEST_MACOS = {"arm64": (11, 0), "x64": (11, 0)}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a folder with the libraries for all platforms but Linux."""
    if not COMPILER.exists() and not os.environ.get("DAMPSIM_CI"):
        pytest.skip("there is no compiler here")
    made = tmp_path_factory.mktemp("kernels")
    code = f"import sys; sys.path.insert(0, {str(ROOT / 'tools')!r}); import kernel; from pathlib import Path\n"
    names = ("windows-x64", "windows-arm64", "macos-arm64", "macos-x64")
    code += "".join(f"kernel.compiled({name!r}, Path({str(made / name)!r}))\n" for name in names)
    subprocess.run([str(COMPILER), "-c", code], check=True)
    return made


def exported_names() -> set[str]:
    """Return the functions that the C files show."""
    source = "\n".join(path.read_text(encoding="utf-8") for path in (ROOT / "core" / "native").glob("*.c"))
    return set(re.findall(r"\bSHOWN\b[^;{(]*?\b(dampsim_\w+)\(", source))


def functions() -> dict[str, Any]:
    """Return the functions of the kernel of this machine by name, with their types."""
    path = runpy.run_path(str(ROOT / "tools" / "kernel.py"))["checkout_library"]()
    if not path.is_file() and not os.environ.get("DAMPSIM_CI"):
        pytest.skip("the kernel is not compiled here")
    found = {one.__name__: one for one in vars(native.KernelLibrary(path)).values() if hasattr(one, "argtypes")}
    runs = ctypes.PyDLL(str(path)).dampsim_runs
    runs.restype, runs.argtypes = ctypes.c_int32, []
    return {"dampsim_runs": runs, **found}


def test_all_functions_are_compared() -> None:
    assert set(functions()) == exported_names()
    assert len(exported_names()) > 20


@pytest.mark.skipif(platform.machine() != "x86_64" or sys.platform != "linux", reason="runs code for x64 on Linux")
def test_windows_kernel_gives_known_answers(folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The self-test of the library has known answers of every function; here it runs the code for Windows."""
    binary = WindowsBinary((folder / "windows-x64").read_bytes())
    loaded = native.KernelLibrary(windows_adapter(binary, functions(), tmp_path, COMPILER))
    assert loaded.runs
    called = set()
    for name in functions().keys() - {"dampsim_runs"}:
        attribute = name.removeprefix("dampsim_")

        def record(*values: Any, name: str = name, function: Any = getattr(loaded, attribute)) -> Any:
            called.add(name)
            return function(*values)

        monkeypatch.setattr(loaded, attribute, record)
    assert native.is_right(loaded)
    assert called | {"dampsim_runs"} == exported_names()


@pytest.mark.skipif(shutil.which("wine") is None, reason="wine is not installed; CI has it in some runs")
def test_wine_loads_windows_kernel(folder: Path, tmp_path: Path) -> None:
    """The loader of Windows, as far as wine has it, accepts the library and finds its functions."""
    source, program = tmp_path / "load.c", tmp_path / "load.exe"
    found = "".join(f'if (!GetProcAddress(kernel, "{name}")) ExitProcess(3);\n' for name in sorted(exported_names()))
    # Without the C library, whose compilation would take minutes.
    source.write_text(
        "__declspec(dllimport) void *LoadLibraryA(const char *);\n"
        "__declspec(dllimport) void *GetProcAddress(void *, const char *);\n"
        "__declspec(dllimport) void ExitProcess(unsigned);\n"
        'void start(void) {\nvoid *kernel = LoadLibraryA("kernel.dll");\nif (!kernel) ExitProcess(2);\n'
        f'{found}ExitProcess(((int (*)(void))GetProcAddress(kernel, "dampsim_runs"))() == 1 ? 42 : 4);\n}}\n',
        encoding="utf-8",
    )
    command = [COMPILER, "-m", "ziglang", "cc", "-target", "x86_64-windows-gnu", "-nostdlib", "-Wl,-e,start"]
    subprocess.run([*map(str, command), "-o", str(program), str(source), "-lkernel32"], check=True)
    shutil.copy(folder / "windows-x64", tmp_path / "kernel.dll")
    # Neither .NET nor a browser nor menus are installed into the new folder of wine.
    variables = {"WINEPREFIX": str(tmp_path / "wine"), "WINEDEBUG": "-all"}
    variables["WINEDLLOVERRIDES"] = "mscoree,mshtml,winemenubuilder.exe="
    environment = {**os.environ, **variables}
    done = subprocess.run(["wine", str(program)], cwd=tmp_path, env=environment, check=False, timeout=300)
    assert done.returncode == 42


@pytest.mark.parametrize("processor", ["x64", "arm64"])
def test_windows_kernel_needs_no_library(folder: Path, processor: str) -> None:
    binary = WindowsBinary((folder / f"windows-{processor}").read_bytes())
    assert binary.processor == processor
    assert not binary.has_imports
    assert set(binary.exports) == exported_names()


@pytest.mark.parametrize("processor", ["arm64", "x64"])
def test_macos_kernel_can_be_loaded(folder: Path, processor: str) -> None:
    """Processor, oldest system, libraries and exports; Apple's processors run signed code only."""
    binary = read_mach((folder / f"macos-{processor}").read_bytes())
    assert binary.processor == processor
    assert binary.minimum <= OLDEST_MACOS[processor]
    assert set(binary.libraries) <= {"/usr/lib/libSystem.B.dylib"}
    assert binary.paths == []
    # A path of the machine that compiled it would differ between builds.
    assert "/" not in binary.name.removeprefix("@rpath/")
    assert binary.exports == exported_names()
    assert binary.is_signed or processor == "x64"
