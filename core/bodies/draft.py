"""Draft: the same bodies, simulated less finely. The dials mean the same, since none of them knows of the elements."""

from __future__ import annotations

from dataclasses import replace

from ..scene.body import Body
from ..scene.parameters import PARAMETERS, Settings
from .registry import kind


def fineness(body: Body) -> str:
    """The name of the parameter that says how finely a body is simulated; '' where its mesh alone does."""
    return kind(body.kind).fineness(body.settings)


def drafted(body: Body, part: float) -> Body:
    """The body with that part (0 to 1) of its tetrahedra or vertices; as it is where its mesh alone says how many."""
    name = fineness(body)
    return replace(body, settings=coarser(body.settings, name, part, len(body.surface.vertices))) if name else body


def coarser(settings: Settings, name: str, part: float, vertices: int) -> Settings:
    """Settings with a part of a fineness. vertices: of the surface, of which a sheet has no more."""
    fine = getattr(settings, name)
    most = min(fine, vertices) if PARAMETERS[name].unit == "vertices" else fine
    wanted = max(round(part * most), int(PARAMETERS[name].least))
    return replace(settings, **{name: min(wanted, fine)})
