"""Viscosities of strain-rate damping are shown for the kinds whose bakes they change."""

from __future__ import annotations

from functools import cache

import numpy as np
import pytest
from test_body_types import body

from builders import scene
from dampsim.core.base.arrays import Array
from dampsim.core.bodies.kind import BodyKind
from dampsim.core.bodies.registry import KINDS
from dampsim.core.scene.parameters import PARAMETERS, Settings
from dampsim.core.simulation.simulation import Simulation

BASE: dict[str, object] = {"resolution": 60}
OTHER: dict[str, object] = {"lambda_d": 4.0, "mu_d": 4.0}


def is_shown(name: str, what: type[BodyKind], settings: Settings) -> bool:
    """Return whether the panel of a kind shows a parameter of dampings."""
    values, parameter = settings.as_dict(), PARAMETERS[name]
    return parameter.section in ("papers", *what.sections(settings)) and parameter.has_effect(values.__getitem__)


@cache
def last_surface(what: type[BodyKind], damping: str, name: str = "") -> Array:
    """Return the surface after two frames of shaken pins, (v, 3) m, with another value of one parameter."""
    values = {**BASE, "damping_by": damping, **({name: OTHER[name]} if name else {})}
    still = body(what, **values)
    vertices = still.surface.vertices

    def motion(frame: float) -> Array:
        return vertices * (1.0 + 0.02 * (frame - 1.0)) + 0.03 * (frame - 1.0) * np.array([1.0, 0.5, 0.2])

    moving = body(what, motion=motion, **values)
    return list(Simulation(scene(moving, last=3)).frames())[-1].surface


@pytest.mark.parametrize("what", [one for one in KINDS if one.name in ("CLOTH", "SOLID")], ids=lambda one: one.name)
@pytest.mark.parametrize("name", ["lambda_d", "mu_d"])
def test_viscosities_shown_and_effective(what: type[BodyKind], name: str) -> None:
    settings = Settings(damping_by="STRAIN_RATE")
    assert is_shown(name, what, settings)
    assert np.abs(last_surface(what, "STRAIN_RATE", name) - last_surface(what, "STRAIN_RATE")).max() > 1e-5
