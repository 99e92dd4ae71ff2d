"""Sequence of dampings: global, then local, each with its own torque scheme ([Sch] section 3.4.2)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

# Choice of the second torque scheme: the same as the first.
SAME_SCHEME = "SAME"


def damping_stages(dials: Mapping[str, Any]) -> tuple[tuple[str, str], ...]:
    """Return (kind of clusters, torque scheme) of each stage that the dials select, in order."""
    first, then = dials["torque"], dials.get("torque_then", SAME_SCHEME)
    kinds = dials["clusters"].split("_THEN_")
    return tuple((kind, first if place == 0 or then == SAME_SCHEME else then) for place, kind in enumerate(kinds))
