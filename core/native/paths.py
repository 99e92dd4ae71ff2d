"""Path of the compiled kernel, and the digest of its source. Uses only the standard library."""

from __future__ import annotations

import hashlib
import importlib
import os
import sys
from pathlib import Path

KERNEL_FOLDER = Path(__file__).parent
# The headers come first; the other files are compiled.
KERNEL_FILES = (
    *("kernel.h", "boxes.h"),
    *("kernel.c", "boxes.c", "contacts.c", "crossings.c", "noise.c", "pieces.c", "ropes.c", "sheets.c"),
)
# The package that the wheel in the add-on's zip installs.
KERNEL_MODULE = "dampsim_kernel"
# Environment variable: 0 disables the kernel, and a path replaces the installed library, as in a checkout.
KERNEL_VARIABLE = "DAMPSIM_KERNEL"
_SUFFIXES = {"win32": ".dll", "darwin": ".dylib"}


def source_digest() -> str:
    """Return the digest of the sources, independent of line endings."""
    sources = [(KERNEL_FOLDER / name).read_bytes().replace(b"\r\n", b"\n") for name in KERNEL_FILES]
    return hashlib.sha256(b"".join(sources)).hexdigest()[:12]


def library_file_name(system: str = sys.platform) -> str:
    """Return the file name of the library in its package for a system, as named by sys.platform."""
    return "kernel" + _SUFFIXES.get(system, ".so")


def installed_library() -> Path | None:
    """Return the library compiled from this source, or None if it is disabled, missing or of another source."""
    chosen = os.environ.get(KERNEL_VARIABLE, "1")
    if chosen not in ("0", "1"):
        return Path(chosen)
    if chosen == "0":
        return None
    try:
        package = importlib.import_module(KERNEL_MODULE)
    except ImportError:
        return None
    # Blender installs the newest of all extensions' wheels, so another version of DampSim may have brought this one.
    return Path(str(package.__file__)).with_name(library_file_name()) if source_digest() == package.SOURCE else None
