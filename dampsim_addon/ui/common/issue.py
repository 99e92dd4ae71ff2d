"""Issues that bake checks report."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import bpy

from ....core.base.arrays import Mask

Fix = Callable[[bpy.types.Object, bpy.types.Scene], None]


@dataclass(frozen=True)
class Issue:
    """Problem that would spoil a bake, and its fix.

    text: message.  button_label: label of the fix.  fix: function that applies it; None if only the user can.
    tooltip: description of the fix.  alternative: another fix of the same problem, whose own text is ignored.
    vertices: (v,) mask of the vertices with the problem, which the panel offers to select; None for the whole object.
    """

    text: str
    button_label: str = ""
    fix: Fix | None = None
    tooltip: str = ""
    alternative: Issue | None = None
    vertices: Mask | None = None

    @property
    def fixes(self) -> list[Issue]:
        """This issue and its alternatives, as far as they have a fix."""
        found = [] if self.fix is None else [self]
        return found if self.alternative is None else found + self.alternative.fixes


Check = Callable[[bpy.types.Object, bpy.types.Scene], Issue | None]
