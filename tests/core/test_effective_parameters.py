"""Parameters of damping models are shown exactly where they change a bake: all kinds, models and parameters."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import numpy as np
import pytest
from hanging_bodies import tail
from test_body_types import body

from builders import scene
from dampsim.core.base.arrays import Array
from dampsim.core.base.errors import ParameterError
from dampsim.core.bodies import KINDS
from dampsim.core.bodies.kind import BodyKind
from dampsim.core.literature.damping import DAMPINGS
from dampsim.core.scene.parameters import PARAMETERS, DampingBy, Settings, ViscosityBy
from dampsim.core.simulation.simulation import Simulation

MODELS = [*(str(one) for one in DampingBy), *(method.name for method in DAMPINGS)]
NAMES = [name for name, p in PARAMETERS.items() if p.section.endswith("papers") and name != "damping_by"]
# Values at which every parameter could matter.
BASE: dict[str, object] = {
    "resolution": 60, "poisson": 0.4, "settle": 12.0, "bounce": 30.0, "damping_ratio": 0.3, "gamma": 0.4,
    "wavelength": 0.3, "anisotropy": 2.0, "clusters": "BODY_THEN_RINGS",
}  # fmt: skip
# Changes of the surface in m that count as an effect.
EFFECT = 1e-7


def is_shown(name: str, what: type[BodyKind], settings: Settings) -> bool:
    """Return whether the panel of a kind shows a parameter of dampings."""
    values, parameter = settings.as_dict(), PARAMETERS[name]
    if not what.has_damping_models:
        return False
    return parameter.section in ("papers", *what.sections(settings)) and parameter.has_effect(values.__getitem__)


def last_surface(what: type[BodyKind], damping: str, **more: object) -> Array:
    """Return the surface after three frames of shaken pins, (v, 3) m."""
    struts = {"struts": "VOLUME"} if what.name == "SPRINGS" else {}
    values = {**BASE, **struts, "damping_by": damping, **more}
    # A ball of ropes would be slow.
    still = tail(9, **values) if what.name == "ROPE" else body(what, **values)
    vertices = still.surface.vertices
    if what.name == "RIGID":
        # It swings from its highest point; its usual pins would hold it completely.
        still = replace(still, pins=(vertices[:, 2] == vertices[:, 2].max()).astype(float))

    def motion(frame: float) -> Array:
        return vertices * (1.0 + 0.02 * (frame - 1.0)) + 0.03 * (frame - 1.0) * np.array([1.0, 0.5, 0.2])

    return list(Simulation(scene(replace(still, motion=motion), last=4)).frames())[-1].surface


def other_values(name: str) -> Iterator[object]:
    """Yield the first and the last other choice of a parameter, or another value."""
    parameter = PARAMETERS[name]
    value = BASE.get(name, parameter.default)
    if parameter.choices:
        others = [choice.name for choice in parameter.choices if choice.name != value]
        yield from dict.fromkeys((others[0], others[-1]))
    elif isinstance(value, bool):
        yield not value
    else:
        yield min(2 * value + 1, parameter.max)  # type: ignore[operator, type-var]


def changes_bake(what: type[BodyKind], damping: str, name: str, plain: Array, **more: object) -> bool:
    """Return whether another value of a parameter changes a bake. plain: surface with its usual value."""
    for value in other_values(name):
        try:
            found = last_surface(what, damping, **{**more, name: value})
        except ParameterError:
            continue
        if np.abs(found - plain).max() > EFFECT:
            return True
    return False


def hidden_or_ineffective(what: type[BodyKind], damping: str, names: list[str], **more: object) -> dict[str, str]:
    """Return the parameters that are hidden although they change a bake, or shown although they do not.

    more: further settings, the same in all bakes.
    """
    try:
        plain = last_surface(what, damping, **more)
    except ParameterError as error:
        if "damping" not in str(error):
            raise
        # The kind refuses this model.
        return {}
    settings, found = Settings(**{**BASE, "damping_by": damping, **more}), {}  # type: ignore[arg-type]
    for name in names:
        shown = is_shown(name, what, settings)
        if shown != changes_bake(what, damping, name, plain, **more):
            found[name] = "shown without effect" if shown else "hidden"
    return found


@pytest.mark.slow
@pytest.mark.parametrize("damping", MODELS)
@pytest.mark.parametrize("what", KINDS, ids=lambda one: one.name)
def test_shown_parameters_change_bakes(what: type[BodyKind], damping: str) -> None:
    assert not hidden_or_ineffective(what, damping, NAMES)


VISCOSITIES = ["damping_ratio", "lambda_d", "mu_d", "lambda_d_value", "mu_d_value"]


@pytest.mark.parametrize("meaning", ViscosityBy)
@pytest.mark.parametrize("what", [one for one in KINDS if one.name in ("CLOTH", "SOLID")], ids=lambda one: one.name)
def test_viscosities_shown_and_effective(what: type[BodyKind], meaning: ViscosityBy) -> None:
    assert not hidden_or_ineffective(what, "STRAIN_RATE", VISCOSITIES, viscosity_by=meaning)


@pytest.mark.parametrize("what", [one for one in KINDS if one.name in ("ROPE", "SPRINGS")], ids=lambda one: one.name)
def test_hidden_viscosities_have_no_effect(what: type[BodyKind]) -> None:
    """Values that were dialled on a solid do not stay in force when its kind changes."""
    assert not hidden_or_ineffective(what, "STRAIN_RATE", ["viscosity_by", *VISCOSITIES], viscosity_by="VALUES")
