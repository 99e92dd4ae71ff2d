"""Export to glTF and FBX, and a check of the written files. A new format is one file here and one name in FORMATS."""

from __future__ import annotations

from .check import GOOD
from .files import FORMATS, check_exportable, run
from .form import Exported, Format

__all__ = ["FORMATS", "GOOD", "Exported", "Format", "check_exportable", "run"]
