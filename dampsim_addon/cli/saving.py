"""Saving of the .blend file that a command changes: by one command at a time, and only over the file that it opened."""

from __future__ import annotations

import argparse
import contextlib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import bpy

from ...core import SceneError
from ...core.frames.cache import LockBusy, file_lock
from ..blender.archives import whole_blend
from ..session import SessionState, Subscriber
from ..work.operators import call_operator
from .options import UsageError

_FIX = "choose another file with --output"


@dataclass
class _OpenedFile(SessionState):
    """File on disk as Blender has read or saved it. path: with links resolved.  state: see _file_state()."""

    path: Path | None = None
    state: tuple[int, int] | None = None


def _record_file(path: str, _: object = None) -> None:
    """Record the state of a file that Blender is about to read, or has saved."""
    opened = _OpenedFile.current()
    # The startup file has no path.
    opened.path = Path(path).resolve() if path else None
    opened.state = None if opened.path is None else _file_state(opened.path)


def _record_save(path: str, _: object = None) -> None:
    # Otherwise, Blender has saved a copy.
    if path == bpy.data.filepath:
        _record_file(path)


def _file_state(path: Path) -> tuple[int, int] | None:
    """Return the time of the last change, ns, and the size in bytes of a file; None if it is missing."""
    try:
        found = path.stat()
    except OSError:
        return None
    return found.st_mtime_ns, found.st_size


def add_output(parser: argparse.ArgumentParser) -> None:
    """Add the option --output of a command that saves the file."""
    parser.add_argument("--output", metavar="FILE", help="save to this file instead of the current one")
    parser.set_defaults(saves_file=True)


@contextlib.contextmanager
def reserved_file(options: argparse.Namespace) -> Iterator[None]:
    """Context in which no other command changes the file that this one saves.

    Raises SceneError immediately if another one does so, or if a program has saved the file since it was opened: the
    result of one of them would be lost.
    """
    path = _saved_path(options)
    if not path or not getattr(options, "saves_file", False):
        yield
        return
    # A file opened through a link is the same file.
    target = Path(path).resolve()
    try:
        with file_lock(target.with_name(f"{target.name}.dampsim_lock")):
            _check_unchanged(path)
            yield
    except LockBusy:
        raise SceneError(f"{path}: another command is changing the file; wait until it is done, or {_FIX}.") from None


def save_file(options: argparse.Namespace) -> None:
    """Save the .blend file to --output, or in place. Raises SceneError, and UsageError without a path."""
    path = _saved_path(options)
    if not path:
        raise UsageError("dampsim: the scene was never saved; give --output")
    failed, fix = f"{path}: the file cannot be saved", f"{_FIX}, or free some space"
    _check_unchanged(path)
    with whole_blend(Path(path), failed, fix):
        call_operator(bpy.ops.wm.save_as_mainfile, failed, fix, filepath=path)


def _saved_path(options: argparse.Namespace) -> str:
    return options.output or bpy.data.filepath if hasattr(options, "output") else ""


def _check_unchanged(path: str) -> None:
    """Raise SceneError if a path is that of the open file, and another program has saved it since it was opened."""
    opened, target = _OpenedFile.current(), Path(path).resolve()
    state = _file_state(target)
    if opened.path == target and None not in (opened.state, state) and opened.state != state:
        raise SceneError(
            f"{path}: another program has saved the file since it was opened; run the command again, or {_FIX}."
        )


SUBSCRIBER = Subscriber("saving", {"load_pre": _record_file, "save_post": _record_save})
