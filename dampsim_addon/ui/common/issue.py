"""Issues that bake checks report, and their fixes."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from itertools import product
from typing import Any

import bpy

from ....core.base.arrays import Mask
from ....core.base.wording import closest_name
from ...targets import Target

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

    @property
    def without_fixes(self) -> Issue:
        """This issue for an object that no fix may change."""
        return Issue(self.text.removesuffix(", or"), vertices=self.vertices)


def set_values(owners: Sequence[Any], **values: object) -> Fix:
    """Return the fix that sets properties of some owners."""

    def fix(obj: bpy.types.Object, scene: bpy.types.Scene) -> None:
        for owner, (name, value) in product(owners, values.items()):
            setattr(owner, name, value)

    return fix


def set_options(**values: object) -> Fix:
    """Return the fix that sets DampSim properties of an object."""
    return lambda obj, scene: set_values([obj.dampsim], **values)(obj, scene)


def fix_button(label: str, fix: Fix, tooltip: str, alternative: Issue | None = None) -> Issue:
    """Return a fix of an error, whose message is the text."""
    return Issue("", label, fix, tooltip, alternative)


def closest_fix(owner: bpy.types.PropertyGroup, name: str, known: Iterable[str], other: Issue) -> Issue:
    """Return the fix that chooses the known name most similar to a missing one; the other fix follows or replaces it.

    name: of the property with the missing name.
    """
    closest = closest_name(getattr(owner, name), known)
    if not closest:
        return other
    return fix_button(f"Use {closest}", set_values([owner], **{name: closest}), "Use the most similar name", other)


def issue_with_fixes(text: str, *fixes: Issue | None) -> Issue:
    """Return an issue with those of the given fixes that exist."""
    alternative: Issue | None = None
    for fix in reversed([way for way in fixes if way is not None]):
        alternative = Issue(text, fix.button_label, fix.fix, fix.tooltip, alternative)
    return alternative or Issue(text)


def target_issue(target: type[Target], text: str = "") -> Issue:
    """Return an issue that a bake to another target fixes."""
    tooltip = "Select this option under Bake To. The mesh and its modifiers do not change"
    return Issue(text, f"Bake to {target.label}", set_options(target=target.name), tooltip)


Check = Callable[[bpy.types.Object, bpy.types.Scene], Issue | None]
