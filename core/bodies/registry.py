"""Registry of body kinds. To add one, add a file to this folder and its class to KINDS; the first is the default."""

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
    """Return the kind with a name. Raises ParameterError if the name is unknown, as from another version."""
    for one in KINDS:
        if one.name == name:
            return one
    raise ParameterError(f"kind: '{name}' is not one of {', '.join(one.name for one in KINDS)}.")
