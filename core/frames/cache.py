"""Frames on disk: one file for each, written whole or not at all, so that a killed bake goes on from its last frame."""

from __future__ import annotations

import contextlib
import hashlib
import io
import json
import os
import re
import shutil
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from ..errors import CacheError
from ..system.state import State
from .frame import Frame
from .lock import Busy, locked

_HEADER, _LOCK = "header.json", "lock"
_FRAME = re.compile(r"frame_(-?\d+)\.npz")
# Bytes of the checksum behind a frame.
_SUM = hashlib.sha256().digest_size


@dataclass(frozen=True)
class Header:
    """inputs: what the frames were made from; see fingerprint.inputs.  owner: the file whose frames they are, or ''."""

    inputs: Mapping[str, object]
    owner: str


class FrameCache:
    """A folder of frames for the same inputs. Errors of the disk end in CacheError and leave what is there."""

    def __init__(self, folder: Path, name: str, owner: str = "") -> None:
        """folder: made when first written to.  name: of the object, for messages.  owner: see Header."""
        self.folder, self.name, self.owner = folder, name, owner

    def header(self) -> Header | None:
        """Of the frames that are there; None where there is no cache."""
        try:
            found = json.loads((self.folder / _HEADER).read_text(encoding="utf-8"))
            header, check = found["header"], found["sha256"]
            if _sum(_text(header)).hex() != check:
                raise ValueError("its checksum is wrong")
            return Header(header["inputs"], header["owner"])
        except FileNotFoundError:
            return None
        except (OSError, ValueError, KeyError, TypeError) as error:
            raise CacheError(
                f"{self.name}: the cache in {self.folder} cannot be read ({error}); bake again from the start."
            ) from error

    def start(self, inputs: Mapping[str, object]) -> None:
        """Empty the folder and begin anew."""
        self.clear()
        self._make()
        self._write_header(Header(inputs, self.owner))

    def claim(self) -> None:
        """Say that the frames are this owner's."""
        header = self.header()
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

    def append(self, frame: Frame) -> None:
        buffer = io.BytesIO()
        np.savez(
            buffer,
            number=np.array(frame.number),
            time=np.array(frame.state.time),
            positions=frame.state.positions,
            velocities=frame.state.velocities,
            carrier=frame.state.carrier,
            surface=frame.surface.astype(np.float32),
            inputs=np.array(frame.inputs),
            iterations=np.array(frame.iterations),
        )
        content = buffer.getvalue()
        if not (self.folder / _HEADER).exists():
            raise CacheError(f"{self.name}: the cache folder {self.folder} was removed during the bake; bake again.")
        self._write(self._path(frame.number).name, content + _sum(content))

    def numbers(self) -> list[int]:
        """Numbers of the unbroken run of frames from the first one on."""
        numbers = self._all()
        return [number for place, number in enumerate(numbers) if number == numbers[0] + place]

    def read(self, number: int) -> Frame:
        try:
            content = self._path(number).read_bytes()
            if _sum(content[:-_SUM]) != content[-_SUM:]:
                raise ValueError("its checksum is wrong")
            with np.load(io.BytesIO(content[:-_SUM]), allow_pickle=False) as data:
                if int(data["number"]) != number:
                    raise ValueError("it is another frame")
                state = State(float(data["time"]), data["positions"], data["velocities"], data["carrier"])
                return Frame(number, state, data["surface"].astype(float), str(data["inputs"]), int(data["iterations"]))
        except (OSError, ValueError) as error:
            raise CacheError(
                f"{self.name}: frame {number} of the cache in {self.folder} is damaged or gone; "
                f"re-bake from frame {number}."
            ) from error

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
            if path.name == _HEADER or _FRAME.fullmatch(path.name) or path.name.endswith(".part"):
                self._remove(path)
        with contextlib.suppress(OSError):
            self.folder.rmdir()

    def copy_from(self, other: FrameCache) -> Iterator[tuple[int, int]]:
        """Take over another cache's frames, yielding how many (done, total) are; the header comes last."""
        header = other.header()
        if header is None:
            return
        self.clear()
        self._make()
        numbers = other.numbers()
        for done, number in enumerate(numbers, 1):
            part = self.folder / f"{self._path(number).name}.part"
            with self._saying_why():
                shutil.copyfile(other._path(number), part)
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
        return self.folder / f"frame_{number:06d}.npz"

    def _remove(self, path: Path) -> None:
        try:
            path.unlink(missing_ok=True)
        except OSError as error:
            raise CacheError(f"{self.name}: {path} cannot be removed ({error.strerror or error}).") from error

    def _make(self) -> None:
        with self._saying_why():
            self.folder.mkdir(parents=True, exist_ok=True)

    def _write_header(self, header: Header) -> None:
        content = {"inputs": dict(header.inputs), "owner": header.owner}
        whole = {"header": content, "sha256": _sum(_text(content)).hex()}
        self._write(_HEADER, json.dumps(whole, indent=1).encode())

    def _write(self, name: str, content: bytes) -> None:
        part = self.folder / f"{name}.part"
        with self._saying_why():
            try:
                with part.open("wb") as file:
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


def _sum(content: bytes) -> bytes:
    return hashlib.sha256(content).digest()


def _text(header: Mapping[str, object]) -> bytes:
    return json.dumps(header, sort_keys=True).encode()
