"""What a format of the export check is, and what is found out about a file."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ...blender.own_operators import called


@dataclass(frozen=True)
class Format:
    """suffix: of the file.  write, read: with Blender's exporter and importer, from and to the scene in the window.

    metres: what is read is in metres, whatever the scene's unit.
    """

    name: str
    label: str
    suffix: str
    write: Callable[[Path], None]
    read: Callable[[Path], None]
    metres: bool = False


@dataclass(frozen=True)
class Exported:
    """Of one object in one file. error: m, largest distance of a vertex after the way out and back, at any frame.

    part: the same, in parts of the object's size.  problem: what is missing, in a sentence; then there is no error.
    """

    name: str
    format: str
    path: str
    error: float = 0.0
    part: float = 0.0
    problem: str = ""


def export(operator: Callable[..., Any], path: Path, label: str, **options: Any) -> None:
    """Write a file with one of Blender's exporters. label: of the format."""
    mend = "enable it in the preferences, or choose another folder"
    called(operator, f"{path.name}: Blender's {label} export failed", mend, filepath=str(path), **options)


def bring_in(operator: Callable[..., Any], path: Path, label: str, **options: Any) -> None:
    """Read it again with one of Blender's importers."""
    mend = "enable the importer in the preferences, or export again"
    called(operator, f"{path.name}: Blender's {label} import failed", mend, filepath=str(path), **options)
