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

from ...core.frames.part import begun

_MANIFEST = Path(__file__).parents[2] / "blender_manifest.toml"


@lru_cache(maxsize=1)
def version() -> str:
    """Return the version of DampSim."""
    found = re.search(r'^version = "(.+)"', _MANIFEST.read_text(encoding="utf-8"), re.M)
    return found[1] if found else ""


def made_from(asked: Mapping[str, Any], inputs: Iterable[Path], outputs: Iterable[Path]) -> dict[str, Any]:
    """Return the provenance of a report. requested: options as JSON values.  inputs, outputs: files. Raises OSError."""
    return {
        "version": version(),
        "asked": dict(asked),
        "inputs": {str(path): digest(path) for path in inputs},
        "outputs": {str(path): path.stat().st_size for path in outputs},
    }


def holds(report: Mapping[str, Any] | None, asked: Mapping[str, Any]) -> bool:
    """Return whether a report is of the requested work, with unchanged inputs and existing outputs."""
    made = (report or {}).get("made_from")
    if report is None or report.get("exit_code") != 0 or not isinstance(made, dict):
        return False
    if made.get("version") != version() or made.get("asked") != json.loads(json.dumps(dict(asked))):
        return False
    try:
        return all(Path(path).stat().st_size == size for path, size in made["outputs"].items()) and all(
            digest(Path(path)) == known for path, known in made["inputs"].items()
        )
    except (OSError, KeyError, AttributeError):
        return False


def read(path: Path) -> dict[str, Any] | None:
    """Return a report; None if it is missing or damaged."""
    try:
        found = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError):
        return None
    return found if isinstance(found, dict) else None


def write(path: Path, content: str) -> None:
    """Write a text atomically, through a temporary file. Raises OSError."""
    part = path.with_name(f"{path.name}.part")
    with begun(part) as file:
        file.write(content.encode())
        file.flush()
        os.fsync(file.fileno())
    part.replace(path)


def digest(path: Path) -> str:
    """Return the SHA-256 of a file; it is cached until size or date change. Raises OSError."""
    about = path.stat()
    return _digest(str(path), about.st_size, about.st_mtime_ns)


@lru_cache(maxsize=4096)
def _digest(path: str, _size: int, _date: int) -> str:
    with Path(path).open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
