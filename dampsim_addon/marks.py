"""How DampSim knows its own among the artist's data: by the beginning of the name."""

from __future__ import annotations

PREFIX = "DampSim "
MODIFIER = PREFIX + "Cache"
LIVE = PREFIX + "Live"


def key_name(frame: int) -> str:
    return f"{PREFIX}{frame:05d}"


def is_ours(name: str) -> bool:
    return name.startswith(PREFIX)
