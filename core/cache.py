"""Frames on disk: one file for each, written whole or not at all, so that a killed bake goes on from its last frame."""

from __future__ import annotations

import contextlib
import io
import json
import os
import re
import zipfile
from pathlib import Path

import numpy as np

from .errors import CacheError
from .frame import Frame
from .state import State

_HEADER = "header.json"
_FRAME = re.compile(r"frame_(-?\d+)\.npz")


class FrameCache:
    """A folder of frames for one fingerprint. Errors of the disk end in CacheError and leave what is there."""

    def __init__(self, folder: Path, name: str) -> None:
        """folder: made when first written to.  name: of the object, for messages."""
        self.folder = folder
        self.name = name

    def fingerprint(self) -> str | None:
        """Of the frames that are there; None where there is no cache."""
        try:
            header = json.loads((self.folder / _HEADER).read_text(encoding="utf-8"))
            return str(header["fingerprint"])
        except FileNotFoundError:
            return None
        except (OSError, ValueError, KeyError, TypeError) as error:
            raise CacheError(
                f"{self.name}: the cache in {self.folder} cannot be read ({error}); clear the bake."
            ) from error

    def start(self, fingerprint: str) -> None:
        """Empty the folder and begin anew."""
        self.clear()
        self._write(_HEADER, json.dumps({"fingerprint": fingerprint}).encode())

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
        self._write(f"frame_{frame.number:06d}.npz", buffer.getvalue())

    def numbers(self) -> list[int]:
        """Numbers of the unbroken run of frames from the first one on."""
        try:
            names = [_FRAME.fullmatch(path.name) for path in self.folder.iterdir()]
        except FileNotFoundError:
            return []
        except OSError as error:
            raise CacheError(f"{self.name}: the cache in {self.folder} cannot be read ({error}).") from error
        numbers = sorted(int(match[1]) for match in names if match)
        return [number for place, number in enumerate(numbers) if number == numbers[0] + place]

    def read(self, number: int) -> Frame:
        path = self.folder / f"frame_{number:06d}.npz"
        try:
            with path.open("rb") as file, np.load(file, allow_pickle=False) as data:
                state = State(float(data["time"]), data["positions"], data["velocities"], data["carrier"])
                return Frame(number, state, data["surface"].astype(float), str(data["inputs"]), int(data["iterations"]))
        except (OSError, ValueError, KeyError, EOFError, zipfile.BadZipFile) as error:
            raise CacheError(
                f"{self.name}: frame {number} of the cache in {self.folder} is damaged or gone; "
                "bake again from the start."
            ) from error

    def clear(self) -> None:
        """Remove our files, and the folder if nothing else is in it."""
        try:
            if self.folder.is_dir():
                for path in sorted(self.folder.iterdir()):
                    if path.name == _HEADER or _FRAME.fullmatch(path.name) or path.name.endswith(".part"):
                        path.unlink()
                if not any(self.folder.iterdir()):
                    self.folder.rmdir()
        except OSError as error:
            raise CacheError(f"{self.name}: the cache in {self.folder} cannot be cleared ({error}).") from error

    def _write(self, name: str, content: bytes) -> None:
        part = self.folder / f"{name}.part"
        try:
            self.folder.mkdir(parents=True, exist_ok=True)
            with part.open("wb") as file:
                file.write(content)
                file.flush()
                os.fsync(file.fileno())
            part.replace(self.folder / name)
        except OSError as error:
            with contextlib.suppress(OSError):
                part.unlink(missing_ok=True)
            raise CacheError(
                f"{self.name}: the cache folder {self.folder} cannot be written ({error.strerror or error}); "
                "choose another folder or free some space."
            ) from error
