"""Registry of body kinds. To add one, add a file to this folder and its class to KINDS; the first is the default."""

from __future__ import annotations

from ..base.errors import ParameterError
from ..base.wording import unknown_name
from .cloth import ClothKind
from .kind import BodyKind
from .rigid import RigidKind
from .rope import RopeKind
from .solid import SolidKind
from .springs import SpringsKind
from .weave import WeaveKind

KINDS: tuple[type[BodyKind], ...] = (SolidKind, SpringsKind, ClothKind, RopeKind, WeaveKind, RigidKind)
"""All kinds of bodies. Body.kind is the `name` of one of them."""


def kind_by_name(name: str) -> type[BodyKind]:
    """Return the kind with a name. Raises ParameterError if the name is unknown, as from another version."""
    for one in KINDS:
        if one.name == name:
            return one
    raise ParameterError(f"kind: {unknown_name('a choice', name, [one.name for one in KINDS])}")
