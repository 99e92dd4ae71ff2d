"""How DampSim knows its own among the artist's data: by the beginning of the name."""

from __future__ import annotations

PREFIX = "DampSim "
BASIS = PREFIX + "Basis"
MODIFIER = PREFIX + "Cache"
LIVE = PREFIX + "Live"


def is_ours(name: str) -> bool:
    return name.startswith(PREFIX)
