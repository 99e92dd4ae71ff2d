"""Where the compiled kernel is: its name tells of what source it was made. With the standard library alone."""

from __future__ import annotations

import hashlib
import importlib.util
import sys
from pathlib import Path

SOURCE = Path(__file__).with_name("kernel.c")
# What the zips' wheel installs.
MODULE = "dampsim_kernel"
_ENDINGS = {"win32": ".dll", "darwin": ".dylib"}


def digest() -> str:
    """Of the source, however a checkout ends its lines."""
    return hashlib.sha256(SOURCE.read_bytes().replace(b"\r\n", b"\n")).hexdigest()[:12]


def file_name(system: str = sys.platform) -> str:
    """Of the library for a system, as sys.platform names it."""
    return f"{MODULE}-{digest()}{_ENDINGS.get(system, '.so')}"


def of_checkout(root: Path) -> Path:
    """Where tools/kernel.py puts that for this machine."""
    return root / ".tools" / "kernel" / file_name()


def found() -> Path | None:
    """The library made of this very source: of the wheel that came with the add-on, or of a checkout."""
    spec = importlib.util.find_spec(MODULE)
    folders = list(spec.submodule_search_locations or []) if spec is not None else []
    paths = [*(Path(folder) / file_name() for folder in folders), of_checkout(Path(__file__).parents[2])]
    return next((path for path in paths if path.is_file()), None)
