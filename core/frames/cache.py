"""Frames on disk: one file for each, written whole or not at all, so that a killed bake goes on from its last frame.

One folder belongs to all bodies that are simulated together; a reader asks for the shape of one.
"""

from __future__ import annotations

import contextlib
import os
import re
import shutil
from collections.abc import Iterator, Mapping
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..arrays import Array
from ..errors import CacheError, StaleCacheError
from ..system.state import OF, State
from .arrays_file import ArraysFile, opened, packed
from .behind import Behind
from .frame import Frame
from .header import Header, read_header
from .lock import Busy, locked
from .part import begun

_HEADER, _LOCK = "header.json", "lock"
_FRAME = re.compile(r"frame_(-?\d+)\.frame")
# Of DampSim 1, which are removed, but not read.
_OLDER = re.compile(r"frame_(-?\d+)\.npz")
_SHAPE, _MEMORY = "shape/", "memory/"
_STATE = ("positions", "velocities", "reference")
# What reading a file ends in that is damaged, or was made to look like one of ours.
_DAMAGED = (OSError, ValueError, KeyError, TypeError, OverflowError, RecursionError)


class FrameCache:
    """A folder of frames for the same inputs. Errors of the disk end in CacheError and leave what is there."""

    def __init__(self, folder: Path, name: str, owner: str = "", marks: Mapping[str, str] | None = None) -> None:
        """folder: made when first written to.  name: of the object, for messages.  owner: see Header.

        marks: what bodies are known by in the files, by name, see Body.identity; their names if None.
        """
        self.folder, self.name, self.owner = folder, name, owner
        self._marks = dict(marks or {})
        self._names = {mark: name for name, mark in self._marks.items()}

    def header(self) -> Header | None:
        """Of the frames that are there; None where there is no cache."""
        try:
            return read_header(self.folder / _HEADER)
        except FileNotFoundError:
            return None
        except _DAMAGED as error:
            raise CacheError(
                f"{self.name}: the cache in {self.folder} cannot be read ({error}); bake again from the start."
            ) from error

    def own_header(self) -> Header | None:
        """The same; raises StaleCacheError where another DampSim made the frames, so that they cannot be read."""
        header = self.header()
        if header is not None and header.foreign:
            raise StaleCacheError(f"{self.name}: the cache in {self.folder} {header.foreign}.")
        return header

    def start(self, inputs: Mapping[str, Any]) -> None:
        """Empty the folder and begin anew."""
        self.clear()
        self._make()
        self._write_header(Header(inputs, self.owner))

    def claim(self) -> None:
        """Say that the frames are this owner's. Raises StaleCacheError where they are another DampSim's."""
        header = self.own_header()
        if header is not None and header.owner != self.owner:
            self._write_header(Header(header.inputs, self.owner))

    @contextlib.contextmanager
    def held(self) -> Iterator[None]:
        """Keep all others from writing. Raises CacheError where another process does."""
        self._make()
        path = self.folder / _LOCK
        try:
            with locked(path):
                yield
        except Busy:
            raise CacheError(
                f"{self.name}: another Blender is writing to the cache in {self.folder}; "
                "wait until it is done, or choose another folder."
            ) from None
        finally:
            with contextlib.suppress(OSError):
                if not any(self.folder.iterdir()):
                    self.folder.rmdir()

    def append(self, frame: Frame, behind: Behind | None = None) -> None:
        """behind: where it is written beside what goes on, and when it is there is known; at once if None."""
        state = frame.state
        facts = {
            "number": frame.number,
            "time": state.time,
            "inputs": {self._mark(name): value for name, value in frame.inputs.items()},
            "iterations": frame.iterations,
            "helped": frame.helped,
        }
        arrays = {name: getattr(state, name) for name in _STATE}
        arrays |= {f"{_MEMORY}{self._mark(name)}": value for name, value in state.memory.items()}
        arrays |= {f"{_SHAPE}{self._mark(name)}": shape.astype(np.float32) for name, shape in frame.shapes.items()}
        self._check_there()
        # Frames are never written to: to pack one, and to sum it up, can wait too.
        write = partial(self._append, self._path(frame.number).name, facts, arrays)
        behind.begin(write) if behind else write()

    def _append(self, name: str, facts: Mapping[str, Any], arrays: Mapping[str, NDArray[Any]]) -> None:
        try:
            self._write(name, packed(facts, arrays))
        except CacheError:
            self._check_there()
            raise

    def _check_there(self) -> None:
        if not (self.folder / _HEADER).exists():
            raise CacheError(f"{self.name}: the cache folder {self.folder} was removed during the bake; bake again.")

    def numbers(self) -> list[int]:
        """Numbers of the unbroken run of frames from the first one on."""
        numbers = self._all()
        return [number for place, number in enumerate(numbers) if number == numbers[0] + place]

    def read(self, number: int) -> Frame:
        with self._open(number) as data:
            memory = {
                self._name(name.removeprefix(_MEMORY)): data.read(name)
                for name in data.names
                if name.startswith(_MEMORY)
            }
            positions, velocities, reference = (_points(data, name) for name in _STATE)
            if not positions.shape == velocities.shape == reference.shape:
                raise ValueError("its nodes are not as many throughout")
            state = State(float(data.facts["time"]), positions, velocities, reference, memory)
            shapes = {
                self._name(name.removeprefix(_SHAPE)): _points(data, name).astype(float)
                for name in data.names
                if name.startswith(_SHAPE)
            }
            made_from = data.facts["inputs"]
            if not isinstance(made_from, dict):
                raise ValueError("its head is damaged")
            inputs = {self._name(name): value for name, value in made_from.items()}
            # Older frames do not say how many.
            helped = int(data.facts.get("helped", 0))
            return Frame(number, state, shapes, inputs, int(data.facts["iterations"]), helped)

    def _mark(self, name: str) -> str:
        """A body's name, or a memory's that begins with it, as the files have it."""
        body, of, rest = name.partition(OF)
        return self._marks.get(body, body) + of + rest

    def _name(self, mark: str) -> str:
        """The way back."""
        body, of, rest = mark.partition(OF)
        return self._names.get(body, body) + of + rest

    def shape(self, number: int, body: str) -> Array:
        """A body's surface (v, 3) m at a frame, without the rest of it."""
        with self._open(number) as data:
            return np.asarray(_points(data, f"{_SHAPE}{self._mark(body)}").astype(float))

    @contextlib.contextmanager
    def _open(self, number: int) -> Iterator[ArraysFile]:
        """A frame's file. What is wrong with it is a CacheError."""
        try:
            file, size = opened(self._path(number))
            with file:
                data = ArraysFile(file, size)
                if data.facts.get("number") != number:
                    raise ValueError("it is another frame")
                yield data
        except _DAMAGED as error:
            raise self.damaged(number) from error

    def damaged(self, number: int) -> CacheError:
        """What is to be said of a frame that cannot be gone on with."""
        return CacheError(
            f"{self.name}: frame {number} of the cache in {self.folder} is damaged or gone; "
            f"re-bake from frame {number}."
        )

    def drop_from(self, number: int) -> None:
        """Remove this frame and all after it, the last one first, so that what is left is always an unbroken run."""
        for found in reversed(self._all()):
            if found >= number:
                self._remove(self._path(found))

    def clear(self) -> None:
        """Remove our files, and the folder if nothing else is in it."""
        try:
            paths = sorted(self.folder.iterdir()) if self.folder.is_dir() else []
        except OSError as error:
            raise self._unreadable(error) from error
        # The header goes first: frames without one are nobody's.
        for path in sorted(paths, key=lambda path: path.name != _HEADER):
            ours = _FRAME.fullmatch(path.name) or _OLDER.fullmatch(path.name) or path.name.endswith(".part")
            if path.name == _HEADER or ours:
                self._remove(path)
        with contextlib.suppress(OSError):
            self.folder.rmdir()

    def copy_from(self, other: FrameCache) -> Iterator[tuple[int, int]]:
        """Take over another cache's frames, yielding how many (done, total) are; the header comes last.

        Raises StaleCacheError where they are another DampSim's, and then leaves what is here.
        """
        header = other.own_header()
        if header is None:
            return
        self.clear()
        self._make()
        numbers = other.numbers()
        for done, number in enumerate(numbers, 1):
            part = self.folder / f"{self._path(number).name}.part"
            with self._saying_why():
                try:
                    source, _ = opened(other._path(number))
                except ValueError as error:
                    raise other.damaged(number) from error
                with source, begun(part) as file:
                    shutil.copyfileobj(source, file)
                part.replace(self._path(number))
            yield done, len(numbers)
        self._write_header(Header(header.inputs, self.owner))

    def _all(self) -> list[int]:
        try:
            names = [_FRAME.fullmatch(path.name) for path in self.folder.iterdir()]
        except FileNotFoundError:
            return []
        except OSError as error:
            raise self._unreadable(error) from error
        return sorted(int(match[1]) for match in names if match)

    def _path(self, number: int) -> Path:
        return self.folder / f"frame_{number:06d}.frame"

    def _remove(self, path: Path) -> None:
        try:
            path.unlink(missing_ok=True)
        except OSError as error:
            raise CacheError(f"{self.name}: {path} cannot be removed ({error.strerror or error}).") from error

    def _make(self) -> None:
        with self._saying_why():
            self.folder.mkdir(parents=True, exist_ok=True)

    def _write_header(self, header: Header) -> None:
        self._write(_HEADER, header.packed())

    def _write(self, name: str, content: bytes) -> None:
        part = self.folder / f"{name}.part"
        with self._saying_why():
            try:
                with begun(part) as file:
                    file.write(content)
                    file.flush()
                    os.fsync(file.fileno())
                part.replace(self.folder / name)
            except OSError:
                with contextlib.suppress(OSError):
                    part.unlink(missing_ok=True)
                raise

    @contextlib.contextmanager
    def _saying_why(self) -> Iterator[None]:
        try:
            yield
        except OSError as error:
            raise CacheError(
                f"{self.name}: the cache folder {self.folder} cannot be written ({error.strerror or error}); "
                "choose another folder or free some space."
            ) from error

    def _unreadable(self, error: OSError) -> CacheError:
        return CacheError(
            f"{self.name}: the cache folder {self.folder} cannot be read ({error.strerror or error}); "
            "choose another folder."
        )


def _points(data: ArraysFile, name: str) -> Array:
    """An array (n, 3); ValueError where it is another."""
    found = data.read(name)
    if found.ndim != 2 or found.shape[1] != 3:
        raise ValueError(f"its {name} are no points")
    return found
