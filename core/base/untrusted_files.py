"""Reading and writing of files that anyone may have made: links are not followed, and content is limited.

Errors are OSError, or ValueError with a clause about the file, such as "it is too large".
"""

from __future__ import annotations

import contextlib
import json
import math
import os
import re
import stat
import tomllib
from pathlib import Path
from typing import Any, BinaryIO

from .errors import CacheError

# Largest accepted JSON or TOML text in bytes. Parsing takes fifty times the memory of the text.
MAX_TEXT_SIZE = 4_000_000
# Largest accepted nesting of lists and tables; the deepest of DampSim's own files has 8 levels.
MAX_DEPTH = 32
# Largest accepted integer.
_MAX_INTEGER = 2**63
# Characters that end a dotted key of TOML.
_KEY_END = re.compile(r"[=\n,{\[]")
# Reparse points of Windows that lead to another path. Others, such as those of cloud storage, are ordinary files.
_LINK_TAGS = {getattr(stat, name, -1) for name in ("IO_REPARSE_TAG_SYMLINK", "IO_REPARSE_TAG_MOUNT_POINT")}


def is_link(path: Path) -> bool:
    """Return whether a path is a symbolic link or a junction; False if it is missing. Raises OSError."""
    try:
        status = path.lstat()
    except FileNotFoundError:
        return False
    return stat.S_ISLNK(status.st_mode) or getattr(status, "st_reparse_tag", 0) in _LINK_TAGS


def require_unlinked_folder(folder: Path, name: str) -> None:
    """Raise CacheError if the last component of a folder's path is a link. name: object in the message."""
    try:
        linked = is_link(folder)
    except OSError:
        # The next access reports the reason.
        return
    if linked:
        raise CacheError(
            f"{name}: the cache folder {folder} is a link to another folder; delete the link, or choose another folder."
        )


def open_regular_file(path: Path, follow_link: bool = False) -> tuple[BinaryIO, int]:
    """Open a regular file and return it with its size in bytes. Raises ValueError for anything else, such as a pipe.

    follow_link: whether the path may be a link to a regular file.
    """
    if not follow_link and is_link(path):
        raise ValueError("it is a link to another file")
    # O_NONBLOCK: opening a pipe would wait for a writer. fstat: the path may refer to another file by now.
    no_follow = 0 if follow_link else getattr(os, "O_NOFOLLOW", 0)
    flags = os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_BINARY", 0) | no_follow
    descriptor = os.open(path, flags)
    status = os.fstat(descriptor)
    if not stat.S_ISREG(status.st_mode):
        os.close(descriptor)
        raise ValueError("it is not a regular file")
    return os.fdopen(descriptor, "rb"), status.st_size


def open_new_file(path: Path) -> BinaryIO:
    """Create a file, replacing any existing one; a link is removed, not followed. Raises OSError."""
    path.unlink(missing_ok=True)
    return path.open("xb")


def write_atomically(path: Path, content: str | bytes) -> None:
    """Write a text or bytes atomically, through a temporary file. Raises OSError."""
    part = path.with_name(f"{path.name}.part")
    try:
        with open_new_file(part) as file:
            file.write(content if isinstance(content, bytes) else content.encode("utf-8", "backslashreplace"))
            file.flush()
            os.fsync(file.fileno())
        part.replace(path)
    except OSError:
        with contextlib.suppress(OSError):
            part.unlink(missing_ok=True)
        raise


def read_json(path: Path, follow_link: bool = False) -> Any:
    """Return the content of a JSON file, see parse_json(). Raises OSError and ValueError."""
    return parse_json(_read_content(path, follow_link))


def read_toml(path: Path, follow_link: bool = False) -> dict[str, Any]:
    """Return the content of a TOML file, see parse_toml(). Raises OSError and ValueError."""
    return parse_toml(_read_content(path, follow_link))


def parse_json(content: bytes | str) -> Any:
    """Return the value of a JSON text whose numbers are finite and whose keys are unique. Raises ValueError."""
    try:
        found = json.loads(_decode(content), object_pairs_hook=_unique_pairs)
    except RecursionError:
        raise ValueError("it is nested too deeply") from None
    _check_values(found)
    return found


def parse_toml(content: bytes | str) -> dict[str, Any]:
    """Return the tables of a TOML text whose numbers are finite. Raises ValueError."""
    text = _decode(content)
    # The parser takes time quadratic in the length of a dotted key.
    if max(part.count(".") for part in _KEY_END.split(text)) > MAX_DEPTH:
        raise ValueError("it is nested too deeply")
    try:
        found = tomllib.loads(text)
    except RecursionError:
        raise ValueError("it is nested too deeply") from None
    _check_values(found)
    return found


def _read_content(path: Path, follow_link: bool) -> bytes:
    file, size = open_regular_file(path, follow_link)
    with file:
        if size > MAX_TEXT_SIZE:
            raise ValueError("it is too large")
        return file.read(size)


def _decode(content: bytes | str) -> str:
    if len(content) > MAX_TEXT_SIZE:
        raise ValueError("it is too large")
    try:
        return content if isinstance(content, str) else content.decode("utf-8")
    except UnicodeDecodeError:
        raise ValueError("it is not UTF-8 text") from None


def _unique_pairs(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) < len(pairs):
        raise ValueError("one of its keys is repeated")
    return found


def _is_accepted(number: float) -> bool:
    return math.isfinite(number) if isinstance(number, float) else abs(number) < _MAX_INTEGER


def _check_values(found: object) -> None:
    """Raise ValueError if parsed values are nested too deeply, or if a number is not finite or too large."""
    level: list[Any] = [found]
    for _ in range(MAX_DEPTH + 1):
        if any(type(one) in (int, float) and not _is_accepted(one) for one in level):
            raise ValueError("one of its numbers is too large or not a number")
        # Large files consist of millions of empty values.
        filled = (one for one in level if one and type(one) in (dict, list))
        level = [below for one in filled for below in (one.values() if type(one) is dict else one)]
        if not level:
            return
    raise ValueError("it is nested too deeply")
