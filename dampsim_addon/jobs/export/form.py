"""Export formats, and the result of checking an exported file."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ....core import Array
from ...blender.operator_calls import call_operator


@dataclass(frozen=True)
class Format:
    """Export format. suffix: end of the file name.  write: export of the selection in the window.

    read: import into the scene in the window; it may return the vertices (f, v, 3) of each object in world space, if
    the imported objects do not move by themselves.

    reads_metres: whether the importer returns metres regardless of the scene's unit.
    holds_vertices: whether it holds the vertices of each frame, instead of bones and shape keys.
    """

    name: str
    label: str
    suffix: str
    write: Callable[[Path], None]
    read: Callable[[Path], list[Array] | None]
    reads_metres: bool = False
    holds_vertices: bool = False


@dataclass(frozen=True)
class ExportResult:
    """Result for one object in one file. Its fields are keys of the JSON report.

    format, label: identifier and name of the format.
    error: largest distance of a vertex after export and import, at any frame, m.  part: the same as a fraction of the
    object's size.  problem: sentence that says why there is no result; error is meaningless then.
    warning: probable causes of a large error, with their fixes; '' for a good export.
    notes: remarks on unpinned pieces and on frames outside the bake.
    """

    name: str
    format: str
    label: str
    path: str
    error: float = 0.0
    part: float = 0.0
    problem: str = ""
    warning: str = ""
    notes: tuple[str, ...] = ()


def run_exporter(operator: Callable[..., Any], path: Path, label: str, **options: Any) -> None:
    """Write a file with one of Blender's exporters. label: name of the format in error messages."""
    fix = "enable it in the preferences, remove unusual materials, or choose another folder"
    call_operator(operator, f"{path.name}: Blender's {label} export failed", fix, filepath=str(path), **options)


def run_importer(operator: Callable[..., Any], path: Path, label: str, **options: Any) -> None:
    """Read a file with one of Blender's importers. label: name of the format in error messages."""
    fix = "enable the importer in the preferences, or export again"
    call_operator(operator, f"{path.name}: Blender's {label} import failed", fix, filepath=str(path), **options)
