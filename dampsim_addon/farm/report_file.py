"""Reading and writing of report files. Their provenance tells whether finished work is still up to date."""

from __future__ import annotations

import errno
import hashlib
import json
import math
import re
from collections.abc import Callable, Iterable, Mapping
from functools import lru_cache
from pathlib import Path
from typing import Any

from ...core.base.untrusted_files import open_regular_file, read_json, write_atomically

# Largest number in a report, and largest frame number of Blender.
_MAX_NUMBER, _MAX_FRAME = 1e15, 1_048_574
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
    if report is None or report.get("exit_code") != 0 or work is None:
        return False
    if work.get("version") != addon_version() or work.get("asked") != json.loads(json.dumps(dict(requested))):
        return False
    try:
        return all(Path(path).stat().st_size == size for path, size in work["outputs"].items()) and all(
            file_digest(Path(path)) == known for path, known in work["inputs"].items()
        )
    except (OSError, ValueError, KeyError):
        return False


def load_report(path: Path) -> dict[str, Any]:
    """Return a report. Raises OSError, and ValueError with a clause if it is damaged or has values of wrong types."""
    found = read_json(path)
    _check_fields(found, _REPORT_FIELDS, "report")
    for entry in found.get("objects", ()):
        _check_fields(entry, _OBJECT_FIELDS, "object")
    work = found.get("made_from")
    if work is not None:
        _check_fields(work, _PROVENANCE_FIELDS, "provenance")
    return dict(found)


def read_report(path: Path) -> dict[str, Any] | None:
    """Return a report; None if it is missing or damaged."""
    try:
        return load_report(path)
    except (OSError, ValueError):
        return None


def _check_fields(found: object, fields: Mapping[str, Callable[[Any], bool]], name: str) -> None:
    """Raise ValueError unless a value is a table whose fields have the right types. Fields may be missing."""
    if not isinstance(found, dict):
        raise ValueError(f"its {name} is not a table")
    for key, is_valid in fields.items():
        if key in found and not is_valid(found[key]):
            raise ValueError(f"the field '{key}' of its {name} has a wrong value")


def _is_text(value: Any) -> bool:
    return isinstance(value, str)


def _is_texts(value: Any) -> bool:
    return isinstance(value, list) and all(map(_is_text, value))


def _is_count(value: Any) -> bool:
    return type(value) is int and 0 <= value <= _MAX_NUMBER


def _is_number(value: Any) -> bool:
    return type(value) in (int, float) and abs(value) <= _MAX_NUMBER


def _is_table_of(is_valid: Callable[[Any], bool]) -> Callable[[Any], bool]:
    return lambda value: isinstance(value, dict) and all(map(is_valid, value.values()))


# Fields that are read, and the check of each.
_REPORT_FIELDS: Mapping[str, Callable[[Any], bool]] = {
    "exit_code": lambda value: type(value) is int,
    "problem": _is_text,
    "remarks": _is_texts,
    "objects": lambda value: isinstance(value, list),
}
_OBJECT_FIELDS: Mapping[str, Callable[[Any], bool]] = {
    **dict.fromkeys(("name", "problem", "hard_steps"), _is_text),
    "touched": _is_texts,
    **dict.fromkeys(("first", "last"), lambda value: type(value) is int and abs(value) <= _MAX_FRAME),
    "size": _is_count,
    "seconds": lambda value: _is_number(value) and value >= 0.0,
    **dict.fromkeys(
        ("rest", "dialled_rest", "overshoot", "dialled_overshoot", "error", "bound"),
        lambda value: value is None or _is_number(value),
    ),
}
_PROVENANCE_FIELDS: Mapping[str, Callable[[Any], bool]] = {
    "version": _is_text,
    "inputs": _is_table_of(_is_text),
    "outputs": _is_table_of(_is_count),
}


def write_report(path: Path, content: Mapping[str, Any]) -> None:
    """Write a report atomically. Infinite numbers, such as the rest of a body that still moves, become null.

    Raises OSError.
    """
    write_atomically(path, json.dumps(_finite(content), indent=1, default=str))


def _finite(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {name: _finite(one) for name, one in value.items()}
    if isinstance(value, list | tuple):
        return [_finite(one) for one in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value


def file_digest(path: Path) -> str:
    """Return the SHA-256 of a file; it is cached until size or date change. Raises OSError with the file's name."""
    about = path.stat()
    return _cached_digest(str(path), about.st_size, about.st_mtime_ns)


@lru_cache(maxsize=4096)
def _cached_digest(path: str, _size: int, _date: int) -> str:
    try:
        file, _ = open_regular_file(Path(path), follow_link=True)
    except ValueError as error:
        # Something else has replaced the file since it was listed.
        raise OSError(errno.EINVAL, str(error), path) from error
    with file:
        return hashlib.file_digest(file, "sha256").hexdigest()
