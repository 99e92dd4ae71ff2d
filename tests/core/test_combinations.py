"""Every damping method with every integrator on a body."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from scipy.spatial.transform import Rotation

from animated import AnimatedBody, AnimatedScene
from builders import bar, weld
from builders import scene as linked
from dampsim.core.base.errors import ParameterError, PinError, StepError
from dampsim.core.frames.frame import Frame
from dampsim.core.literature.damping import DAMPINGS, Damping
from dampsim.core.literature.damping.torque import TORQUE_SCHEMES
from dampsim.core.literature.integrators import INTEGRATORS, Integrator
from dampsim.core.materials import ELASTIC_MODELS
from dampsim.core.measure.calibrate import calibrate
from dampsim.core.scene.parameters import PARAMETERS, Settings
from dampsim.core.scene.scene import Scene
from dampsim.core.simulation.method_selection import has_reference_effect, method_warnings
from dampsim.core.simulation.simulation import Simulation
from shapes import box, sphere, tube

DOWN = np.array([0.0, 0.0, -9.81])
DAMPED = {"gamma": 0.6, "damping_ratio": 0.5, "wavelength": 0.3}
PLAIN = {"gamma": 0.0, "damping_ratio": 0.0, "wavelength": 1e-4}


def scene(settings: Settings, last: int = 10) -> Scene:
    """Return a scene with a rod on its foot, which is moved sideways and stops."""
    surface = tube(1.0, 0.08, 24, 12)
    pins = (surface.vertices[:, 2] < 0.06).astype(float)

    def motion(frame: float) -> np.ndarray:
        return surface.vertices + np.array([0.05 * min(frame - 1.0, 4.0), 0.0, 0.0])

    return AnimatedScene((AnimatedBody(surface, pins, settings, motion=motion),), 24.0, DOWN, 1, last)


def simulate(
    method: type[Damping], integrator: type[Integrator], dials: dict[str, float], **more: object
) -> list[Frame]:
    settings = Settings(
        stiffness=3000.0, resolution=200, damping_by=method.name, integrator=integrator.name,
        **dials, **more,  # type: ignore[arg-type]
    )  # fmt: skip
    return list(Simulation(scene(settings)).frames())


@pytest.mark.slow
@pytest.mark.parametrize("integrator", INTEGRATORS, ids=lambda one: one.name)
@pytest.mark.parametrize("method", DAMPINGS, ids=lambda one: one.name)
def test_damping_reduces_motion_every_integrator(method: type[Damping], integrator: type[Integrator]) -> None:
    """Each damping reduces the motion with each implicit integrator; explicit ones state the substeps they need."""
    if not integrator.is_implicit:
        with pytest.raises(StepError, match="An explicit integrator needs about"):
            simulate(method, integrator, DAMPED, substeps=8)
        return
    left = []
    for dials in (DAMPED, PLAIN):
        frames = simulate(method, integrator, dials, substeps=8)
        assert all(np.isfinite(frame.surface).all() for frame in frames)
        left.append(sum(float((frame.state.velocities**2).sum()) for frame in frames[6:]))
    assert left[0] < left[1]


def largest_size(stiffness: float, **dials: object) -> float:
    """Return the largest size in m of a ball of 1 m that is pulled by its cap by 0.6 m in 3 frames."""
    surface = sphere(400)
    surface = replace(surface, vertices=surface.vertices / np.ptp(surface.vertices[:, 0]))

    def motion(frame: float) -> np.ndarray:
        return surface.vertices + np.array([0.2 * min(frame - 1.0, 3.0), 0.0, 0.0])

    settings = Settings(stiffness=stiffness, resolution=300, damping_by="STRAIN_RATE", **dials)  # type: ignore[arg-type]
    pins = (surface.vertices[:, 2] > 0.3).astype(float)
    made = AnimatedScene((AnimatedBody(surface, pins, settings, motion=motion),), 24.0, DOWN, 1, 40)
    return max(float(np.ptp(frame.surface, axis=0).max()) for frame in Simulation(made).frames())


@pytest.mark.slow
@pytest.mark.parametrize(("stiffness", "size"), [(3.0, 2.3), (10.0, 1.45), (30.0, 1.35)])
@pytest.mark.parametrize("integrator", [one for one in INTEGRATORS if one.is_implicit], ids=lambda one: one.name)
def test_damped_ball_one_substep(integrator: type[Integrator], stiffness: float, size: float) -> None:
    """A pinned ball that moves by 0.6 m in 3 frames keeps its size with Strain Rate and one substep per frame.

    Newmark's method with C at predicted positions, or with only one repetition, lets it grow to over 100 m.
    """
    # The ball hangs by its cap, so a soft one is longer than 1 m.
    assert largest_size(stiffness, integrator=integrator.name, damping_ratio=0.5) < size


def test_explicit_integrator_with_requested_substeps() -> None:
    soft = {"gamma": 0.1}
    method = next(one for one in DAMPINGS if one.name == "DIRECT")
    explicit = next(one for one in INTEGRATORS if one.name == "SYMPLECTIC_EULER")
    with pytest.raises(StepError, match=r"needs about \d+ substeps") as raised:
        simulate(method, explicit, soft, substeps=1)
    needed = int(str(raised.value).split("needs about ")[1].split()[0])
    settings = Settings(
        stiffness=3000.0 * (50.0 / needed) ** 2, resolution=200, damping_by=method.name, integrator=explicit.name,
        gamma=0.1, substeps=60,
    )  # fmt: skip
    # Softer, so that 50 substeps are enough.
    frames = list(Simulation(replace(scene(settings), gravity=np.zeros(3))).frames())
    assert all(np.isfinite(frame.surface).all() for frame in frames)
    assert np.abs(frames[-1].surface).max() < 3.0


def test_traditional_damping_refuses_negative_viscosity() -> None:
    settings = Settings(poisson=0.3, damping_by="TRADITIONAL", resolution=200)
    with pytest.raises(ParameterError, match=r"Tube: traditional damping would have a negative viscosity.*1/3"):
        list(Simulation(scene(settings)).frames())
    assert any("1/3" in remark for remark in method_warnings(settings))


def test_method_warnings_name_ineffective_settings() -> None:
    assert method_warnings(Settings()) == []
    for method in DAMPINGS:
        for integrator in INTEGRATORS:
            chosen = Settings(damping_by=method.name, integrator=integrator.name, follow_through=0.5)
            said = " ".join(method_warnings(chosen))
            assert ("Follow-through" in said) == (not integrator.supports_follow_through)
            assert ("Explicit" in said) == (not integrator.is_implicit)
            undamped = {"NEWMARK", "IMPLICIT_MIDPOINT"}
            assert ("can grow without bound" in said) == (integrator.name in undamped)
            assert "can grow" not in " ".join(method_warnings(replace(chosen, substeps=2)))


@pytest.mark.slow
@pytest.mark.parametrize("integrator", [one for one in INTEGRATORS if one.is_implicit], ids=lambda one: one.name)
def test_undamped_ball_with_enough_substeps(integrator: type[Integrator]) -> None:
    """Without damping, a pinned ball that is pulled keeps its size with the stated substeps; Newmark fails with one."""
    sizes = {
        count: largest_size(10.0, integrator=integrator.name, damping_ratio=0.0, substeps=count)
        for count in {1, integrator.min_substeps}
    }
    assert sizes[integrator.min_substeps] < 1.6
    assert (sizes[1] > 10.0) == (integrator.name == "NEWMARK")


@pytest.mark.slow
@pytest.mark.parametrize("throw", [1.0, 0.5])
@pytest.mark.parametrize(
    ("damping", "integrator"),
    [
        *((name, "BACKWARD_EULER") for name in ("DIALS", "TAU_KAPPA", *(one.name for one in DAMPINGS))),
        *(("POINT", one.name) for one in INTEGRATORS[1:]),
    ],
)
def test_reference_motion_effect_matches_visibility(damping: str, integrator: str, throw: float) -> None:
    """The reference motion changes the result exactly where has_reference_effect says so."""
    implicit = next(one for one in INTEGRATORS if one.name == integrator).is_implicit
    # Soft, so that explicit steps are stable.
    settings = Settings(
        stiffness=1.0, resolution=100, damping_by=damping, integrator=integrator, follow_through=throw,
        substeps=1 if implicit else 40, accuracy="TIGHT", **DAMPED,
    )  # fmt: skip
    light = replace(scene(settings, last=6), gravity=np.zeros(3))
    lasts = []
    for name in ("PINS", "MESH", "NONE"):
        made = replace(light, bodies=(replace(light.bodies[0], settings=replace(settings, carrier=name)),))
        lasts.append(list(Simulation(made).frames())[-1].surface)
    apart = max(float(np.abs(one - lasts[0]).max()) for one in lasts[1:])
    assert (apart > 1e-3) == has_reference_effect(settings)
    assert (apart < 1e-5) == (not has_reference_effect(settings))


@pytest.mark.parametrize("method", DAMPINGS, ids=lambda one: one.name)
def test_visible_parameters_are_those_read(method: type[Damping]) -> None:
    """A damping method shows exactly the parameters that it reads."""
    shown = {name for name, p in PARAMETERS.items() if p.visible_if and method.name in p.visible_if[1:]}
    assert shown == {*method.parameters, "integrator"}


def pinned_box(**dials: object) -> Scene:
    """Return a scene with a box that its pins move and rotate."""
    surface = box()

    def motion(frame: float) -> np.ndarray:
        turn = Rotation.from_rotvec([0.0, 0.2 * frame, 0.0]).as_matrix()
        return surface.vertices @ turn.T + np.array([0.1 * frame, 0.0, 0.02 * frame**2])

    settings = Settings(resolution=200, **dials)  # type: ignore[arg-type]
    return AnimatedScene(
        (AnimatedBody(surface, np.ones(len(surface.vertices)), settings, motion=motion),), 24.0, DOWN, 1, 4
    )


def assert_follows_pins(made: Scene) -> None:
    simulation = Simulation(made)
    for frame in simulation.frames():
        # Surfaces are stored in single precision.
        np.testing.assert_allclose(frame.surface, made.bodies[0].vertices_at(frame.number), atol=1e-6)
    assert simulation.sag(made.bodies[0].name) < 1e-6


# Further choices of a damping method, besides its defaults.
CHOICES: dict[str, list[dict[str, object]]] = {
    "STRAIN_RATE": [{"strain": "BIOT"}, {"strain": "SPATIAL"}, {"anisotropy": 5.0}],
    "DIRECT": [{"clusters": "ELEMENTS", "torque": torque} for torque in TORQUE_SCHEMES if torque != "PROGRAMME"],
}


@pytest.mark.slow
@pytest.mark.parametrize("integrator", INTEGRATORS, ids=lambda one: one.name)
@pytest.mark.parametrize("method", DAMPINGS, ids=lambda one: one.name)
def test_fully_pinned_body_every_method(method: type[Damping], integrator: type[Integrator]) -> None:
    for more in ({}, *CHOICES.get(method.name, [])):
        assert_follows_pins(pinned_box(damping_by=method.name, integrator=integrator.name, **DAMPED, **more))


@pytest.mark.parametrize(
    "dials",
    [
        *({"damping_by": name} for name in ("DIALS", "TAU_KAPPA", "TAU_GAMMA")),
        *({"carrier": name, "follow_through": 0.5} for name in ("NONE", "MESH", "PINS")),
        *({"material": law.name} for law in ELASTIC_MODELS),
        {"stiffness_by": "SAG"},
        {"preroll": 3},
        {"start_settled": False},
    ],
    ids=str,
)
def test_fully_pinned_body_every_setting(dials: dict[str, object]) -> None:
    assert_follows_pins(pinned_box(**dials))


def test_calibration_refuses_fully_pinned_body() -> None:
    (body,) = pinned_box().bodies
    with pytest.raises(PinError, match=r"Box: it is completely pinned, .*\. Leave a part of it unpinned\."):
        list(calibrate(Simulation(pinned_box()), body.name, 0.1))
    held, free = (bar(name, low, low + 0.5, False, resolution=150) for name, low in (("Held", 0.0), ("Free", 0.5)))
    held = replace(held, pins=np.ones(len(held.pins)))
    both = Simulation(linked(held, free, last=2, links=weld("Weld", "Held", "Free", 0.5)))
    with pytest.raises(PinError, match="Held: it is completely pinned"):
        list(calibrate(both, "Held", 0.1))
