"""Reading and writing of report files. Their provenance tells whether finished work is still up to date."""

from __future__ import annotations

import hashlib
import json
import os
import re
from collections.abc import Iterable, Mapping
from functools import lru_cache
from pathlib import Path
from typing import Any

from ...core.base.untrusted_files import open_new_file, read_json

_MANIFEST = Path(__file__).parents[2] / "blender_manifest.toml"


@lru_cache(maxsize=1)
def addon_version() -> str:
    """Return the version of DampSim."""
    found = re.search(r'^version = "(.+)"', _MANIFEST.read_text(encoding="utf-8"), re.M)
    return found[1] if found else ""


def provenance(requested: Mapping[str, Any], inputs: Iterable[Path], outputs: Iterable[Path]) -> dict[str, Any]:
    """Return the provenance of a report. requested: options as JSON values.  inputs, outputs: files. Raises OSError."""
    return {
        "version": addon_version(),
        "asked": dict(requested),
        "inputs": {str(path): file_digest(path) for path in inputs},
        "outputs": {str(path): path.stat().st_size for path in outputs},
    }


def is_up_to_date(report: Mapping[str, Any] | None, requested: Mapping[str, Any]) -> bool:
    """Return whether a report is of the requested work, with unchanged inputs and existing outputs."""
    work = (report or {}).get("made_from")
    if report is None or report.get("exit_code") != 0 or not isinstance(work, dict):
        return False
    if work.get("version") != addon_version() or work.get("asked") != json.loads(json.dumps(dict(requested))):
        return False
    try:
        return all(Path(path).stat().st_size == size for path, size in work["outputs"].items()) and all(
            file_digest(Path(path)) == known for path, known in work["inputs"].items()
        )
    except (OSError, KeyError, AttributeError):
        return False


def read_report(path: Path) -> dict[str, Any] | None:
    """Return a report; None if it is missing or damaged."""
    try:
        found = read_json(path)
    except (OSError, ValueError):
        return None
    return found if isinstance(found, dict) else None


def write_atomically(path: Path, content: str) -> None:
    """Write a text atomically, through a temporary file. Raises OSError."""
    part = path.with_name(f"{path.name}.part")
    with open_new_file(part) as file:
        file.write(content.encode())
        file.flush()
        os.fsync(file.fileno())
    part.replace(path)


def file_digest(path: Path) -> str:
    """Return the SHA-256 of a file; it is cached until size or date change. Raises OSError."""
    about = path.stat()
    return _cached_digest(str(path), about.st_size, about.st_mtime_ns)


@lru_cache(maxsize=4096)
def _cached_digest(path: str, _size: int, _date: int) -> str:
    with Path(path).open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
