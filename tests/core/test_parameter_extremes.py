"""Parameters at both ends of their ranges."""

from __future__ import annotations

import numpy as np
import pytest

from builders import scene, static_body
from dampsim.core.base.errors import DampSimError
from dampsim.core.scene.parameters import PARAMETERS, Settings
from dampsim.core.simulation.simulation import Simulation
from shapes import box

# The maximum number of tetrahedra takes minutes and gigabytes.
_LONG = {("resolution", "max")}
# The softest flesh collapses under a jerk, which takes as long as all other cases together.
_SLOW = {("stiffness", "min"), ("sweeps", "max"), ("preroll", "max")}
ENDS = [
    pytest.param(name, end, marks=pytest.mark.slow if (name, end) in _SLOW else ())
    for name, parameter in PARAMETERS.items()
    if not parameter.choices and not isinstance(parameter.default, bool)
    for end in ("min", "max")
    if (name, end) not in _LONG
]


def required_choices(name: str) -> dict[str, object]:
    """Return the choices that make a parameter effective."""
    parameter = PARAMETERS[name]
    return {choice[0]: choice[1] for choice in (parameter.visible_if, parameter.also_visible_if) if choice}


@pytest.mark.parametrize(("name", "end"), ENDS)
def test_extreme_parameters_simulate_or_raise(name: str, end: str) -> None:
    """The minimum and maximum of each parameter are simulated, or refused with a message that names the body."""
    surface = box((0.6, 0.2, 0.2))
    x = surface.vertices[:, 0]
    shift = np.array([0.2, 0.0, 0.0])
    dials = {"resolution": 60, **required_choices(name), name: getattr(PARAMETERS[name], end)}
    body = static_body(
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
