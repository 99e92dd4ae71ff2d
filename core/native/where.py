"""Paths of the compiled kernel. Its file name contains a digest of the source. Uses only the standard library."""

from __future__ import annotations

import hashlib
import importlib.util
import sys
from pathlib import Path

SOURCE = Path(__file__).with_name("kernel.c")
# The package that the wheel in the add-on's zip installs.
MODULE = "dampsim_kernel"
_ENDINGS = {"win32": ".dll", "darwin": ".dylib"}


def digest() -> str:
    """Return the digest of the source, independent of line endings."""
    return hashlib.sha256(SOURCE.read_bytes().replace(b"\r\n", b"\n")).hexdigest()[:12]


def file_name(system: str = sys.platform) -> str:
    """Return the library's file name for a system, as named by sys.platform."""
    return f"{MODULE}-{digest()}{_ENDINGS.get(system, '.so')}"


def of_checkout(root: Path) -> Path:
    """Return the path at which tools/kernel.py puts the library for this machine."""
    return root / ".tools" / "kernel" / file_name()


def found() -> Path | None:
    """Return the library compiled from the current source, or None if it is missing.

    It comes from the add-on's wheel or from a checkout.
    """
    spec = importlib.util.find_spec(MODULE)
    folders = list(spec.submodule_search_locations or []) if spec is not None else []
    paths = [*(Path(folder) / file_name() for folder in folders), of_checkout(Path(__file__).parents[2])]
    return next((path for path in paths if path.is_file()), None)
