"""Frame cache on disk: one file per frame, written atomically, so that a killed bake resumes from its last frame.

A folder contains all bodies that are simulated together. The shape of each body can be read separately.
A re-baked range is a cache in a subfolder. Its frames play in place of those of the folder, which stay as they were.
"""

from __future__ import annotations

import contextlib
import errno
import os
import re
import shutil
import sys
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from ..base.arrays import Array
from ..base.errors import CacheError, StaleCacheError
from ..base.untrusted_files import is_link, open_new_file, open_regular_file, require_unlinked_folder
from ..system.state import State
from .arrays_file import ArraysFile, pack_arrays
from .frame import Frame, history_arrays, history_from_arrays
from .header import Header, read_header

if sys.platform == "win32":
    import msvcrt
else:
    import fcntl


class LockBusy(Exception):  # noqa: N818 (not an error: the answer to a question)
    """Another process, or another part of this process, holds the lock."""


@contextlib.contextmanager
def file_lock(path: Path, prepare: Callable[[], None] = lambda: None) -> Iterator[None]:
    """Hold the lock of a file. Raises LockBusy immediately if it is taken.

    Without support for locks (some network drives), or if the file cannot be created, no lock is held.

    prepare: creates the folder. It is called again if another process has removed the folder meanwhile.
    """
    file = _open_locked(path, prepare)
    if file is None:
        # The next write reports the reason.
        yield
        return
    is_own = False
    try:
        try:
            yield
        finally:
            with contextlib.suppress(OSError):
                # Otherwise, a link has replaced the folder, and the file is another one.
                is_own = os.path.samestat(path.lstat(), os.fstat(file))
            if is_own:
                # Unlink while the lock is held, so that no other process locks a deleted file.
                with contextlib.suppress(OSError):
                    path.unlink()
    finally:
        os.close(file)
        # Windows cannot remove an open file.
        if sys.platform == "win32" and is_own:
            with contextlib.suppress(OSError):
                path.unlink()


def _open_locked(path: Path, prepare: Callable[[], None]) -> int | None:
    """Open a file and lock it. Return its descriptor, or None if it cannot be created. Raises LockBusy."""
    for _ in range(_LOCK_ATTEMPTS):
        prepare()
        try:
            # O_NOFOLLOW: a symbolic link would create a file elsewhere.
            file = os.open(path, os.O_RDWR | os.O_CREAT | getattr(os, "O_NOFOLLOW", 0), 0o666)
        except FileNotFoundError:
            continue
        except OSError:
            return None
        is_locked = False
        try:
            is_locked = _acquire(file, path)
        finally:
            if not is_locked:
                os.close(file)
        if is_locked:
            return file
    # Without its folder, the file could not be created; otherwise, others take the lock all the time.
    if path.parent.is_dir():
        raise LockBusy
    return None


def _acquire(file: int, path: Path) -> bool:
    """Lock an open file. Return False if the previous holder has removed it since. Raises LockBusy."""
    try:
        if sys.platform == "win32":
            msvcrt.locking(file, msvcrt.LK_NBLCK, 1)
        else:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            return path.stat().st_ino == os.fstat(file).st_ino
    except FileNotFoundError:
        return False
    except (BlockingIOError, PermissionError):
        raise LockBusy from None
    except OSError:
        pass
    return True


class BackgroundWriter:
    """Background thread that runs one task at a time. An exception of a task is raised by the next wait.

    The thread is reused, since starting one costs 5% of the time of a small body's frame. A task that was started is
    completed even if the interpreter exits.
    """

    def __init__(self) -> None:
        self._pool = ThreadPoolExecutor(1, "DampSim frame")
        self._pending: Future[None] | None = None

    def submit(self, work: Callable[[], None]) -> None:
        """Start a task after the previous one is done. If that failed, raise its exception instead."""
        self.wait()
        self._pending = self._pool.submit(work)

    def wait(self) -> None:
        """Wait for the current task, and raise its exception, once."""
        pending, self._pending = self._pending, None
        if pending is not None:
            pending.result()

    def close(self) -> None:
        """Wait for the current task and stop the thread."""
        try:
            self.wait()
        finally:
            self._pool.shutdown()


_HEADER, _LOCK = "header.json", "lock"
# Attempts to lock a file that other processes remove at the same time.
_LOCK_ATTEMPTS = 20
_FRAME = re.compile(r"frame_(-?[0-9]{5,10})\.frame")
_RANGE = re.compile(r"range_(-?[0-9]{1,10})_(-?[0-9]{1,10})_([0-9]{1,6})")
# Subfolder of a range that is being simulated.
_NEW_RANGE = "range_new"
# Files that clear() removes: also temporary files, and frames of DampSim 1, which cannot be read.
_OWN_FILE = re.compile(r"(header\.json|frame_-?[0-9]{5,10}\.(frame|npz))(\.part)?")
_SHAPE, _HISTORY = "shape/", "memory/"
# Separator of block and array in names of history arrays. It cannot occur in names of objects.
_SEPARATOR = "\x1f"
_STATE = ("positions", "velocities", "reference")
# The largest count and number of a real frame.
_MAX_COUNT, _MAX_NUMBER = 10**12, 1e30
# Exceptions while reading a damaged or maliciously crafted file.
_READ_ERRORS = (OSError, ValueError, KeyError, TypeError, OverflowError, RecursionError)

T = TypeVar("T")


@dataclass(frozen=True, order=True)
class RebakedRange:
    """Range of frames that was simulated again. first, last: its frames.  blend: frames of a blend at either end."""

    first: int
    last: int
    blend: int

    @property
    def folder_name(self) -> str:
        return f"range_{self.first}_{self.last}_{self.blend}"


class FrameCache:
    """Folder of frames with the same inputs. Disk errors raise CacheError and keep the existing frames."""

    def __init__(self, folder: Path, name: str, owner: str = "", cache_ids: Mapping[str, str] | None = None) -> None:
        """Create the cache object without accessing the disk.

        folder: created on the first write.  name: name of the object in messages.  owner: see Header.
        cache_ids: identifier of each body in the files, by name, see Body.identity; None to use the names.
        """
        self.folder, self.name, self.owner = folder, name, owner
        self._cache_ids = dict(cache_ids or {})
        self._names_by_id = {mark: name for name, mark in self._cache_ids.items()}

    def header(self) -> Header | None:
        """Return the header; None if there is no cache. Raises CacheError if it cannot be read."""
        self._require_own_folder()
        try:
            return read_header(self.folder / _HEADER)
        except FileNotFoundError:
            return None
        except _READ_ERRORS as error:
            raise CacheError(
                f"{self.name}: the cache in {self.folder} cannot be read ({error}); bake again from the start."
            ) from error

    def compatible_header(self) -> Header | None:
        """Return the header. Raises StaleCacheError if an incompatible version of DampSim wrote the frames."""
        header = self.header()
        if header is not None and header.incompatibility:
            raise StaleCacheError(f"{self.name}: the cache in {self.folder} {header.incompatibility}.")
        return header

    def start(self, inputs: Mapping[str, Any]) -> None:
        """Clear the folder and start a new cache."""
        self.clear()
        self._create_folder()
        self._write(_HEADER, Header(inputs, self.owner).to_bytes())

    def take_ownership(self) -> None:
        """Store this owner as owner of the frames. Raises StaleCacheError if their version is incompatible."""
        header = self.compatible_header()
        if header is not None and header.owner != self.owner:
            self._write(_HEADER, Header(header.inputs, self.owner).to_bytes())

    @contextlib.contextmanager
    def write_lock(self) -> Iterator[None]:
        """Hold the write lock of the folder. Raises CacheError if another process holds it."""
        self._create_folder()
        path = self.folder / _LOCK
        try:
            with self._os_errors_as_cache_errors():
                if is_link(path):
                    raise CacheError(f"{self.name}: the lock {path} of the cache is a link; delete it.")
            with file_lock(path, self._create_folder):
                yield
        except LockBusy:
            raise CacheError(
                f"{self.name}: another Blender is writing to the cache in {self.folder}; "
                "wait until it is done, or choose another folder."
            ) from None
        finally:
            with contextlib.suppress(OSError):
                if not any(self.folder.iterdir()):
                    self.folder.rmdir()

    def check_writable(self) -> None:
        """Raise CacheError if the folder certainly cannot be written. Changes nothing."""
        with self._os_errors_as_cache_errors():
            there = next((one for one in (self.folder, *self.folder.parents) if os.path.lexists(one)), self.folder)
            if not there.is_dir():
                raise NotADirectoryError(errno.ENOTDIR, os.strerror(errno.ENOTDIR))
            if hasattr(os, "statvfs") and os.statvfs(there).f_flag & os.ST_RDONLY:
                raise OSError(errno.EROFS, os.strerror(errno.EROFS))
            if not os.access(there, os.W_OK | os.X_OK):
                raise PermissionError(errno.EACCES, os.strerror(errno.EACCES))

    def ranges(self) -> list[RebakedRange]:
        """Return the re-baked ranges, which do not overlap."""
        try:
            names = [entry.name for entry in os.scandir(self.folder) if entry.is_dir(follow_symlinks=False)]
        except OSError:
            return []
        found = (RebakedRange(*map(int, match.groups())) for match in map(_RANGE.fullmatch, names) if match)
        return sorted(one for one in found if one.folder_name in names)

    def range_inputs(self, one: RebakedRange) -> Mapping[str, Any]:
        """Return the inputs of a re-baked range; {} if they cannot be read."""
        try:
            header = self._subcache(one.folder_name).compatible_header()
        except CacheError:
            return {}
        return {} if header is None else header.inputs

    def new_range(self) -> FrameCache:
        """Return the cache to which the frames of a range are written, until install_range()."""
        return self._subcache(_NEW_RANGE)

    def install_range(self, one: RebakedRange) -> None:
        """Play the frames of new_range(), in place of those of ranges within it."""
        for old in self.ranges():
            if one.first <= old.first and old.last <= one.last:
                self.remove_range(old)
        with self._os_errors_as_cache_errors():
            self._subcache(_NEW_RANGE).folder.replace(self.folder / one.folder_name)

    def remove_range(self, one: RebakedRange) -> None:
        """Play the frames of the folder again in place of those of a range."""
        self._subcache(one.folder_name).clear()

    def _subcache(self, name: str) -> FrameCache:
        return FrameCache(self.folder / name, self.name, self.owner, self._cache_ids)

    def _layer_of(self, number: int) -> FrameCache:
        """Return the cache from which a frame plays: that of a re-baked range, or this one."""
        found = next((one for one in self.ranges() if one.first <= number <= one.last), None)
        return self if found is None else self._subcache(found.folder_name)

    def append(self, frame: Frame, writer: BackgroundWriter | None = None) -> None:
        """Write a frame, in the background if a writer is given. Raises CacheError if the folder was removed."""
        state = frame.state
        facts = {
            "number": frame.number,
            "time": state.time,
            "inputs": {self._stored_name(name): value for name, value in frame.inputs.items()},
            "iterations": frame.iterations,
            "guards": dict(frame.guards),
        }
        arrays = {name: getattr(state, name) for name in _STATE}
        arrays |= {
            f"{_HISTORY}{self._stored_name(block)}{_SEPARATOR}{name}": value
            for block, own in history_arrays(state.history).items()
            for name, value in own.items()
        }
        arrays |= {
            f"{_SHAPE}{self._stored_name(name)}": shape.astype(np.float32) for name, shape in frame.shapes.items()
        }
        self._check_exists()
        # Frames are immutable, so the background thread can also pack them and compute checksums.
        write = partial(self._append, self._path(frame.number).name, facts, arrays)
        writer.submit(write) if writer else write()

    def _append(self, name: str, facts: Mapping[str, Any], arrays: Mapping[str, NDArray[Any]]) -> None:
        try:
            self._write(name, pack_arrays(facts, arrays))
        except CacheError:
            self._check_exists()
            raise

    def _check_exists(self) -> None:
        self._require_own_folder()
        if not (self.folder / _HEADER).exists():
            raise CacheError(f"{self.name}: the cache folder {self.folder} was removed during the bake; bake again.")

    def frame_numbers(self) -> list[int]:
        """Return the numbers of the stored frames from the first one to the first gap."""
        numbers = self._stored_numbers()
        return [number for place, number in enumerate(numbers) if number == numbers[0] + place]

    def read_played(self, number: int) -> Frame:
        """Return a frame as it plays: that of a re-baked range if there is one."""
        return self._layer_of(number).read(number)

    def read(self, number: int) -> Frame:
        """Return a frame of the folder, from which the simulation continues."""
        with self._open(number) as data:
            history: dict[str, dict[str, Array]] = {}
            for name in data.names:
                if name.startswith(_HISTORY):
                    block, _, key = name.removeprefix(_HISTORY).partition(_SEPARATOR)
                    history.setdefault(self._runtime_name(block), {})[key] = _read_numbers(data, name)
            positions, velocities, reference = (_read_points(data, name) for name in _STATE)
            if not positions.shape == velocities.shape == reference.shape:
                raise ValueError("its arrays have different numbers of nodes")
            state = State(_fact(data, "time", float), positions, velocities, reference, history_from_arrays(history))
            shapes = {
                self._runtime_name(name.removeprefix(_SHAPE)): _read_points(data, name).astype(float)
                for name in data.names
                if name.startswith(_SHAPE)
            }
            digests = _fact(data, "inputs", dict)
            if not all(isinstance(digest, str) for digest in digests.values()):
                raise ValueError("its head is damaged")
            inputs = {self._runtime_name(name): digest for name, digest in digests.items()}
            # Older frames lack the guards.
            guards = _fact(data, "guards", dict) if "guards" in data.facts else {}
            iterations = _fact(data, "iterations", int)
            # A bool is an int for Python.
            if not all(type(count) is int and 0 <= count <= _MAX_COUNT for count in (iterations, *guards.values())):
                raise ValueError("its head is damaged")
            return Frame(number, state, shapes, inputs, iterations, guards)

    def _stored_name(self, name: str) -> str:
        """Return a body's name as stored in files."""
        return self._cache_ids.get(name, name)

    def _runtime_name(self, mark: str) -> str:
        """Return the name of a body stored in files; the inverse of _stored_name()."""
        return self._names_by_id.get(mark, mark)

    def read_shape(self, number: int, body: str) -> Array:
        """Return the surface (v, 3) m of a body as it plays at a frame, without reading the rest of the frame."""
        with self._layer_of(number)._open(number) as data:
            return np.asarray(_read_points(data, f"{_SHAPE}{self._stored_name(body)}").astype(float))

    @contextlib.contextmanager
    def _open(self, number: int) -> Iterator[ArraysFile]:
        """Open the file of a frame. Raises CacheError if it is missing or damaged."""
        self._require_own_folder()
        try:
            file, size = open_regular_file(self._path(number))
            with file:
                data = ArraysFile(file, size)
                if _fact(data, "number", int) != number:
                    raise ValueError("it is another frame")
                yield data
        except _READ_ERRORS as error:
            raise self.damaged_error(number) from error

    def damaged_error(self, number: int) -> CacheError:
        """Return the error for a frame that cannot be read."""
        return CacheError(
            f"{self.name}: frame {number} of the cache in {self.folder} is damaged or gone; "
            f"re-bake from frame {number}."
        )

    def drop_from(self, number: int) -> None:
        """Remove a frame and all later ones, the last one first, so that no gap can remain.

        Ranges that contain one of them are removed too, since they were blended into it.
        """
        for one in self.ranges():
            if one.last >= number:
                self.remove_range(one)
        for found in reversed(self._stored_numbers()):
            if found >= number:
                self._remove(self._path(found))

    def clear(self) -> None:
        """Remove the files of the cache, and then the folder if it is empty."""
        self._require_own_folder()
        for name in (_NEW_RANGE, *(one.folder_name for one in self.ranges())):
            if (self.folder / name).is_dir() and not is_link(self.folder / name):
                self._subcache(name).clear()
        # Remove the header first, since frames without a header are ignored.
        paths = self._paths() if self.folder.is_dir() else []
        for path in sorted(paths, key=lambda path: (path.name != _HEADER, path)):
            if _OWN_FILE.fullmatch(path.name):
                self._remove(path)
        with contextlib.suppress(OSError):
            self.folder.rmdir()

    def copy_from(self, other: FrameCache) -> Iterator[tuple[int, int]]:
        """Replace the frames by copies of another cache's frames, yielding the progress (done, total).

        The header is written last. Raises StaleCacheError if the other version is incompatible; the existing frames
        are then kept.
        """
        header = other.compatible_header()
        if header is None:
            return
        self.clear()
        self._create_folder()
        numbers = other.frame_numbers()
        for one in other.ranges():
            for _ in self._subcache(one.folder_name).copy_from(other._subcache(one.folder_name)):
                yield 0, len(numbers)
        for done, number in enumerate(numbers, 1):
            part = self.folder / f"{self._path(number).name}.part"
            with self._os_errors_as_cache_errors():
                try:
                    source, _ = open_regular_file(other._path(number))
                except ValueError as error:
                    raise other.damaged_error(number) from error
                try:
                    with source, open_new_file(part) as file:
                        shutil.copyfileobj(source, file)
                    part.replace(self._path(number))
                except OSError:
                    with contextlib.suppress(OSError):
                        part.unlink(missing_ok=True)
                    raise
            yield done, len(numbers)
        self._write(_HEADER, Header(header.inputs, self.owner).to_bytes())

    def _stored_numbers(self) -> list[int]:
        self._require_own_folder()
        names = {path.name for path in self._paths()}
        numbers = {int(match[1]) for match in map(_FRAME.fullmatch, names) if match}
        # A name may spell a number in another way.
        return sorted(number for number in numbers if self._path(number).name in names)

    def _path(self, number: int) -> Path:
        return self.folder / f"frame_{number:06d}.frame"

    def _remove(self, path: Path) -> None:
        try:
            path.unlink(missing_ok=True)
        except OSError as error:
            raise CacheError(f"{self.name}: {path} cannot be removed ({error.strerror or error}).") from error

    def _require_own_folder(self) -> None:
        """Raise CacheError if the folder is a link: its files may be anyone's."""
        require_unlinked_folder(self.folder, self.name)

    def _create_folder(self) -> None:
        self._require_own_folder()
        with self._os_errors_as_cache_errors():
            self.folder.mkdir(parents=True, exist_ok=True)

    def _write(self, name: str, content: bytes) -> None:
        part = self.folder / f"{name}.part"
        # A link may have replaced the folder since the frame was handed over, and while it is written.
        self._require_own_folder()
        with self._os_errors_as_cache_errors():
            try:
                with open_new_file(part) as file:
                    file.write(content)
                    file.flush()
                    os.fsync(file.fileno())
                self._require_own_folder()
                part.replace(self.folder / name)
            except OSError:
                with contextlib.suppress(OSError):
                    part.unlink(missing_ok=True)
                raise

    @contextlib.contextmanager
    def _os_errors_as_cache_errors(self) -> Iterator[None]:
        try:
            yield
        except OSError as error:
            raise CacheError(
                f"{self.name}: the cache folder {self.folder} cannot be written ({error.strerror or error}); "
                "choose another folder or free some space."
            ) from error

    def _paths(self) -> list[Path]:
        """Return the contents of the folder, which may not exist. Raises CacheError if it cannot be read."""
        try:
            return list(self.folder.iterdir())
        except FileNotFoundError:
            return []
        except OSError as error:
            raise CacheError(
                f"{self.name}: the cache folder {self.folder} cannot be read ({error.strerror or error}); "
                "choose another folder."
            ) from error


def _fact(data: ArraysFile, name: str, kind: type[T]) -> T:
    """Return a fact of a frame. Raises ValueError for another type."""
    found = data.facts[name]
    # A bool is an int for Python.
    if type(found) is not kind:
        raise ValueError(f"its {name} is wrong")
    return found


def _read_numbers(data: ArraysFile, name: str) -> NDArray[Any]:
    """Return an array. Raises ValueError if a number in it is not finite or absurdly large."""
    found = data.read(name)
    # Also False for NaN.
    if found.size and not np.abs(found).max() <= _MAX_NUMBER:
        raise ValueError(f"its {name} has impossible numbers")
    return found


def _read_points(data: ArraysFile, name: str) -> Array:
    """Return an array (n, 3). Raises ValueError for other shapes."""
    found = _read_numbers(data, name)
    if found.ndim != 2 or found.shape[1] != 3:
        raise ValueError(f"its {name} are not 3D points")
    return found
