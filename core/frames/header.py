"""What stands before a cache's frames: what they were made from, whose they are, and which DampSim can read them."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from .arrays_file import opened

FORMAT = 2
# No header is larger. What is parsed takes fifty times the memory of its text.
_LONGEST = 4_000_000


@dataclass(frozen=True)
class Header:
    """inputs: what the frames were made from; see fingerprint.inputs.  owner: the file whose frames they are, or ''.

    format: of the DampSim that made them; frames of any other than FORMAT cannot be read.
    """

    inputs: Mapping[str, Any]
    owner: str
    format: int = FORMAT

    @property
    def older(self) -> bool:
        return self.format < FORMAT

    @property
    def newer(self) -> bool:
        return self.format > FORMAT

    @property
    def foreign(self) -> str:
        """Whose frames they are and what to do, the end of a sentence; '' where they can be read."""
        if self.newer:
            return "was made by a newer DampSim; update DampSim to go on with it, or clear it or bake again"
        return "was made by an older DampSim; clear it or bake again" if self.older else ""

    def packed(self) -> bytes:
        content = {"format": self.format, "inputs": dict(self.inputs), "owner": self.owner}
        return json.dumps({"header": content, "sha256": _sum(content)}, indent=1).encode()


def read_header(path: Path) -> Header:
    """Raises FileNotFoundError where there is none, and any of a parser's errors where it is damaged."""
    file, size = opened(path)
    with file:
        if size > _LONGEST:
            raise ValueError("it is too large")
        found = json.loads(file.read().decode("utf-8"))
    header, check = found["header"], found["sha256"]
    if _sum(header) != check:
        raise ValueError("its checksum is wrong")
    # DampSim 1 wrote no format.
    version = header.get("format", 1) if isinstance(header, dict) else None
    if type(version) is not int:
        raise ValueError("it is damaged")
    if version > FORMAT:
        # What is in it is not for this DampSim to judge.
        return Header({}, owner if isinstance(owner := header.get("owner"), str) else "", version)
    inputs, owner = header["inputs"], header["owner"]
    if not isinstance(owner, str) or not _are_inputs(inputs):
        raise ValueError("it is damaged")
    return Header(inputs, owner, version)


def _are_inputs(found: object) -> bool:
    """Whether it can be compared with inputs of ours."""
    if not isinstance(found, dict):
        return False
    shared, bodies, names = (found.get(part, {}) for part in ("shared", "bodies", "names"))
    whole = all(isinstance(part, dict) for part in (shared, bodies, names))
    return whole and all(isinstance(body, dict) for body in bodies.values())


def _sum(header: object) -> str:
    return hashlib.sha256(json.dumps(header, sort_keys=True).encode()).hexdigest()
