"""Kinds of simulated bodies. To add one, add a file to this folder and its class to KINDS; the first is the default."""

from __future__ import annotations

from dataclasses import replace

from ..base.errors import ParameterError
from ..base.wording import unknown_name
from ..scene.body import Body
from ..scene.parameters import PARAMETERS, Settings
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


def resolution_parameter(body: Body) -> str:
    """Return the name of the parameter that sets the resolution of a body; '' if its mesh determines it."""
    return kind_by_name(body.kind).resolution_parameter(body.settings)


def coarsen_body(body: Body, fraction: float) -> Body:
    """Return the body with a fraction (0 to 1) of its tetrahedra or vertices; unchanged if its mesh determines them."""
    name = resolution_parameter(body)
    if not name:
        return body
    return replace(body, settings=coarsen_settings(body.settings, name, fraction, len(body.surface.vertices)))


def coarsen_settings(settings: Settings, name: str, fraction: float, vertex_count: int) -> Settings:
    """Return settings with a scaled resolution parameter. vertex_count: of the surface, the limit for sheets."""
    fine = getattr(settings, name)
    most = min(fine, vertex_count) if PARAMETERS[name].unit == "vertices" else fine
    wanted = max(round(fraction * most), int(PARAMETERS[name].min))
    return replace(settings, **{name: min(wanted, fine)})
