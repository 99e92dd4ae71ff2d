"""All kinds of bodies. A new one is one file in this folder and its name in KINDS; the first one is the default."""

from __future__ import annotations

from ..errors import ParameterError
from .cloth import Cloth
from .kind import Kind
from .rope import Rope
from .springs import Springs
from .volume import Solid
from .weave import Weave

KINDS: tuple[type[Kind], ...] = (Solid, Springs, Cloth, Rope, Weave)


def kind(name: str) -> type[Kind]:
    """By name. Raises ParameterError where it is another version's."""
    for one in KINDS:
        if one.name == name:
            return one
    raise ParameterError(f"kind: '{name}' is not one of {', '.join(one.name for one in KINDS)}.")
