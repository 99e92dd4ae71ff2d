"""Temporary file that is written next to the file it will replace."""

from __future__ import annotations

from pathlib import Path
from typing import BinaryIO


def open_new_file(path: Path) -> BinaryIO:
    """Create a file, replacing any existing one; a link is removed, not followed. Raises OSError."""
    path.unlink(missing_ok=True)
    return path.open("xb")
