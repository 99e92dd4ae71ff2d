"""Issues that bake checks report."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import bpy

Mend = Callable[[bpy.types.Object, bpy.types.Scene], None]


@dataclass(frozen=True)
class Finding:
    """Problem that would spoil a bake, and its fix.

    text: message.  button_label: label of the fix.  fix: function that applies it; None if only the user can.
    tooltip: description of the fix.  alternative: another fix of the same problem, whose own text is ignored.
    """

    text: str
    button: str = ""
    mend: Mend | None = None
    tip: str = ""
    other: Finding | None = None

    @property
    def ways(self) -> list[Finding]:
        """This issue and its alternatives, as far as they have a fix."""
        found = [] if self.mend is None else [self]
        return found if self.other is None else found + self.other.ways


Check = Callable[[bpy.types.Object, bpy.types.Scene], Finding | None]
