"""Draft: coarser versions of bodies. The parameters keep their meaning, since none depends on the resolution."""

from __future__ import annotations

from dataclasses import replace

from ..scene.body import Body
from ..scene.parameters import PARAMETERS, Settings
from .registry import kind_by_name


def resolution_parameter(body: Body) -> str:
    """Return the name of the parameter that sets the resolution of a body; '' if its mesh determines it."""
    return kind_by_name(body.kind).resolution_parameter(body.settings)


def coarsen_body(body: Body, fraction: float) -> Body:
    """Return the body with a fraction (0 to 1) of its tetrahedra or vertices; unchanged if its mesh determines them."""
    name = resolution_parameter(body)
    return (
        replace(body, settings=coarsen_settings(body.settings, name, fraction, len(body.surface.vertices)))
        if name
        else body
    )


def coarsen_settings(settings: Settings, name: str, fraction: float, vertex_count: int) -> Settings:
    """Return settings with a scaled resolution parameter. vertex_count: of the surface, the limit for sheets."""
    fine = getattr(settings, name)
    most = min(fine, vertex_count) if PARAMETERS[name].unit == "vertices" else fine
    wanted = max(round(fraction * most), int(PARAMETERS[name].min))
    return replace(settings, **{name: min(wanted, fine)})
