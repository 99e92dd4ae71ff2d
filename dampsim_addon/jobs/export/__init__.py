"""Export of bakes, and a check of the written files. A new format is one file here and one name in FORMATS."""

from __future__ import annotations

from .causes import apply_bone_limit, lost_parts
from .check import MAX_EXPORT_ERROR
from .engines import ENGINES, Engine, exceeded_limits, find_engine
from .files import DEFAULT_FORMATS, FORMATS, check_exportable, export_objects
from .form import ExportResult, Format

__all__ = [
    "DEFAULT_FORMATS",
    "ENGINES",
    "FORMATS",
    "MAX_EXPORT_ERROR",
    "Engine",
    "ExportResult",
    "Format",
    "apply_bone_limit",
    "check_exportable",
    "exceeded_limits",
    "export_objects",
    "find_engine",
    "lost_parts",
]
