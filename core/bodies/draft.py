"""Draft: coarser versions of bodies. The parameters keep their meaning, since none depends on the resolution."""

from __future__ import annotations

from dataclasses import replace

from ..scene.body import Body
from ..scene.parameters import PARAMETERS, Settings
from .registry import kind


def fineness(body: Body) -> str:
    """Return the name of the parameter that sets the resolution of a body; '' if its mesh determines it."""
    return kind(body.kind).fineness(body.settings)


def drafted(body: Body, part: float) -> Body:
    """Return the body with a fraction (0 to 1) of its tetrahedra or vertices; unchanged if its mesh determines them."""
    name = fineness(body)
    return replace(body, settings=coarser(body.settings, name, part, len(body.surface.vertices))) if name else body


def coarser(settings: Settings, name: str, part: float, vertices: int) -> Settings:
    """Return settings with a scaled resolution parameter. vertex_count: of the surface, the limit for sheets."""
    fine = getattr(settings, name)
    most = min(fine, vertices) if PARAMETERS[name].unit == "vertices" else fine
    wanted = max(round(part * most), int(PARAMETERS[name].least))
    return replace(settings, **{name: min(wanted, fine)})
