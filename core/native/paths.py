"""Paths of the compiled kernel. Its file name contains a digest of the source. Uses only the standard library."""

from __future__ import annotations

import hashlib
import importlib.util
import sys
from pathlib import Path

KERNEL_FOLDER = Path(__file__).parent
# The header comes first; the other files are compiled.
KERNEL_FILES = ("kernel.h", "kernel.c", "boxes.c", "contacts.c", "noise.c", "sheets.c")
# The package that the wheel in the add-on's zip installs.
KERNEL_MODULE = "dampsim_kernel"
_SUFFIXES = {"win32": ".dll", "darwin": ".dylib"}


def source_digest() -> str:
    """Return the digest of the sources, independent of line endings."""
    sources = [(KERNEL_FOLDER / name).read_bytes().replace(b"\r\n", b"\n") for name in KERNEL_FILES]
    return hashlib.sha256(b"".join(sources)).hexdigest()[:12]


def library_file_name(system: str = sys.platform) -> str:
    """Return the library's file name for a system, as named by sys.platform."""
    return f"{KERNEL_MODULE}-{source_digest()}{_SUFFIXES.get(system, '.so')}"


def checkout_library(root: Path) -> Path:
    """Return the path at which tools/kernel.py puts the library for this machine."""
    return root / ".tools" / "kernel" / library_file_name()


def installed_library() -> Path | None:
    """Return the library compiled from the current source, or None if it is missing.

    It comes from the add-on's wheel or from a checkout.
    """
    spec = importlib.util.find_spec(KERNEL_MODULE)
    folders = list(spec.submodule_search_locations or []) if spec is not None else []
    paths = [*(Path(folder) / library_file_name() for folder in folders), checkout_library(Path(__file__).parents[2])]
    return next((path for path in paths if path.is_file()), None)
