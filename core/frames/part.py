"""A file that is being written, beside the one that it will replace."""

from __future__ import annotations

from pathlib import Path
from typing import BinaryIO


def begun(path: Path) -> BinaryIO:
    """A new file in the place of whatever has its name: a link there is removed, not followed. Raises OSError."""
    path.unlink(missing_ok=True)
    return path.open("xb")
