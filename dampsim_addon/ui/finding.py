"""What the doctor finds."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import bpy

Mend = Callable[[bpy.types.Object, bpy.types.Scene], None]


@dataclass(frozen=True)
class Finding:
    """text: what is wrong.  button: what the mend does.  mend: does it; None where only the artist can.

    tip: what the mend does, at length.  other: another way to mend it, of which the text does not count.
    """

    text: str
    button: str = ""
    mend: Mend | None = None
    tip: str = ""
    other: Finding | None = None

    @property
    def ways(self) -> list[Finding]:
        """All that have a mend."""
        found = [] if self.mend is None else [self]
        return found if self.other is None else found + self.other.ways


Check = Callable[[bpy.types.Object, bpy.types.Scene], Finding | None]
