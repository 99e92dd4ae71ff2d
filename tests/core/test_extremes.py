"""Every dial at both ends of its range."""

from __future__ import annotations

import numpy as np
import pytest

from builders import scene, still
from dampsim.core.errors import DampSimError
from dampsim.core.scene.parameters import PARAMETERS, Settings
from dampsim.core.simulation.simulation import Simulation
from shapes import box

# As many tetrahedra as can be asked for take minutes and gigabytes: that is a question of scale, not of sentences.
_LONG = {("resolution", "most")}
# Flesh as soft as can be asked for collapses, and is jerked: that takes as long as all others.
_SLOW = {("stiffness", "least"), ("sweeps", "most"), ("preroll", "most")}
ENDS = [
    pytest.param(name, end, marks=pytest.mark.slow if (name, end) in _SLOW else ())
    for name, parameter in PARAMETERS.items()
    if not parameter.choices and not isinstance(parameter.default, bool)
    for end in ("least", "most")
    if (name, end) not in _LONG
]


def chosen_for(name: str) -> dict[str, object]:
    """What has to be chosen for a parameter to have a meaning."""
    parameter = PARAMETERS[name]
    return {choice[0]: choice[1] for choice in (parameter.only_with, parameter.also_with) if choice}


@pytest.mark.parametrize(("name", "end"), ENDS)
def test_each_dial_s_ends_are_simulated_or_refused_in_a_sentence(name: str, end: str) -> None:
    surface = box((0.6, 0.2, 0.2))
    x = surface.vertices[:, 0]
    shift = np.array([0.2, 0.0, 0.0])
    dials = {"resolution": 60, **chosen_for(name), name: getattr(PARAMETERS[name], end)}
    body = still(
        surface, (x <= x.min()).astype(float), lambda frame: surface.vertices + shift * min(frame - 1.0, 2.0), **dials
    )
    assert Settings(**dials)
    said, frames = f"{body.name}.", []
    try:
        frames = list(Simulation(scene(body, last=4)).frames())
    except DampSimError as error:
        said = str(error)
    assert said.startswith(body.name)
    assert said.endswith(".")
    assert all(np.isfinite(frame.shapes[body.name]).all() for frame in frames)
