"""One damping after another: global, then local, each with a scheme of its own for the torque ([Sch] section 3.4.2)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

# Of the second torque: whatever the first one is.
SAME = "SAME"


def stages(dials: Mapping[str, Any]) -> tuple[tuple[str, str], ...]:
    """(kind of clusters, scheme for the torque) of each stage that the dials ask for, in their order."""
    first, then = dials["torque"], dials.get("torque_then", SAME)
    kinds = dials["clusters"].split("_THEN_")
    return tuple((kind, first if place == 0 or then == SAME else then) for place, kind in enumerate(kinds))
