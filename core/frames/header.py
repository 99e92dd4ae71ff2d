"""Header of a frame cache: inputs and owner of the frames, and their format version."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ..base.untrusted_files import read_json

FORMAT = 2


@dataclass(frozen=True)
class Header:
    """Header of a frame cache.

    inputs: inputs of the frames, see fingerprint.cache_inputs.  owner: .blend file that owns the frames, or ''.
    format: format version of the frames; only FORMAT can be read.
    """

    inputs: Mapping[str, Any]
    owner: str
    format: int = FORMAT

    @property
    def is_older(self) -> bool:
        return self.format < FORMAT

    @property
    def is_newer(self) -> bool:
        return self.format > FORMAT

    @property
    def incompatibility(self) -> str:
        """End of a sentence that explains an incompatible version and its fix; '' if the frames can be read."""
        if self.is_newer:
            return "was made by a newer DampSim; update DampSim to use it, or clear it or bake again"
        return "was made by an older DampSim; clear it or bake again" if self.is_older else ""

    def to_bytes(self) -> bytes:
        content = {"format": self.format, "inputs": dict(self.inputs), "owner": self.owner}
        return json.dumps({"header": content, "sha256": _checksum(content)}, indent=1).encode()


def read_header(path: Path) -> Header:
    """Read a header. Raises FileNotFoundError if there is none, and any parser error if it is damaged."""
    found = read_json(path)
    header, check = found["header"], found["sha256"]
    if _checksum(header) != check:
        raise ValueError("its checksum is wrong")
    # Headers of DampSim 1 have no format.
    version = header.get("format", 1) if isinstance(header, dict) else None
    if type(version) is not int:
        raise ValueError("it is damaged")
    if version > FORMAT:
        # The content of a newer header is unknown.
        return Header({}, owner if isinstance(owner := header.get("owner"), str) else "", version)
    inputs, owner = header["inputs"], header["owner"]
    if not isinstance(owner, str) or not _is_inputs(inputs):
        raise ValueError("it is damaged")
    return Header(inputs, owner, version)


def _is_inputs(found: object) -> bool:
    """Return whether a parsed value has the structure of cache_inputs()."""
    if not isinstance(found, dict):
        return False
    shared, bodies, names = (found.get(part, {}) for part in ("shared", "bodies", "names"))
    if not all(isinstance(part, dict) for part in (shared, bodies, names)):
        return False
    # Messages contain the names.
    return all(isinstance(body, dict) for body in bodies.values()) and all(
        isinstance(name, str) for name in names.values()
    )


def _checksum(header: object) -> str:
    return hashlib.sha256(json.dumps(header, sort_keys=True).encode()).hexdigest()
