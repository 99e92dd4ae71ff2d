"""Histories of states as stored in frame files, to compare them byte by byte."""

from __future__ import annotations

import importlib
from typing import Any


def history_bytes(history: Any) -> dict[tuple[str, str], bytes]:
    """Return the bytes of a history's arrays by block and name."""
    core = type(history).__module__.rpartition(".system.")[0]
    arrays = importlib.import_module(f"{core}.frames.frame").history_arrays(history)
    return {(block, name): value.tobytes() for block, own in arrays.items() for name, value in own.items()}
