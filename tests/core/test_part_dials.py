"""Sag and keyframed dials of parts of a body."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from test_keyed_dials import CURVES
from test_parts import BELLY, EAR, EDGES, WAY, part_rests, two_part_body

from builders import DOWN, scene
from dampsim.core.base.errors import ParameterError, SceneError
from dampsim.core.scene.body import Body
from dampsim.core.scene.fingerprint import cache_inputs, describe_changes
from dampsim.core.scene.parameters import Settings
from dampsim.core.scene.part import Part, freely_moved_weights, part_shares, with_part_dials
from dampsim.core.simulation.sampling import input_digests
from dampsim.core.simulation.simulation import Simulation
from dampsim.core.simulation.statics import part_size
from dampsim.core.system.state import State
from settle_cases import displacements_after_stop, make_simulation, translation_motion


def sagging(body: Body, *sags: float | None) -> Body:
    """Return a body with a Sag in percent for each part."""
    return replace(body, parts=tuple(replace(part, sag=sag) for part, sag in zip(body.parts, sags, strict=True)))


def measured_sags(simulation: Simulation, body: Body, state: State | None = None) -> list[float]:
    """Return how far each part of a body has moved from its rest shape, in percent of its own size."""
    positions = (simulation.first_frame().state if state is None else state).positions
    surface = simulation.model_of(body.name).skin(positions, body.surface.vertices)
    moved = np.linalg.norm(surface - body.surface.vertices, axis=1)
    shares = part_shares(freely_moved_weights(body.parts, body.pins), 1.0 - body.pins)[:, 1:].T
    inside = [np.flatnonzero(share >= 0.5) for share in shares]
    return [100.0 * float(moved[chosen].max()) / part_size(body, chosen) for chosen in inside]


@pytest.mark.parametrize("edge", EDGES)
@pytest.mark.parametrize("dials", [{"stiffness": 100.0}, {"stiffness_by": "SAG", "sag": 1.0}], ids=["modulus", "sag"])
def test_parts_sag_as_dialled(edge: str, dials: dict[str, Any]) -> None:
    """Each part hangs as far as its Sag, whatever the object's stiffness and the edge of the painted weights."""
    body, _ = two_part_body(edge, 30.0, 30.0, start_settled=True, **dials)
    body = sagging(body, 6.0, 2.0)
    found = measured_sags(Simulation(scene(body)), body)
    # The search for a static shape stops within 0.1%, that for a weight within 0.2%.
    np.testing.assert_allclose(found, [6.0, 2.0], rtol=4e-3)


def test_own_sag_keeps_other_parts() -> None:
    """A part without Sag, and the stiffness for the object's Sag, stay as they are."""
    body, _ = two_part_body("hard", 30.0, 30.0, start_settled=True, stiffness_by="SAG", sag=1.0)
    plain, own = Simulation(scene(body)), Simulation(scene(sagging(body, 6.0, None)))
    assert own.young(body.name) == pytest.approx(plain.young(body.name), rel=1e-9)
    assert own.statics.part_weights(0, 0, (6.0, None))[1] == 1.0


def test_whole_part_sags_as_object() -> None:
    """A part that is the whole body has the size of the body, so that equal percentages mean equal distances."""
    body, _ = two_part_body("hard", 30.0, 30.0, start_settled=True, stiffness_by="SAG", sag=3.0)
    whole = replace(body, parts=(Part("All", np.ones(len(body.pins)), 9.0, 0.0, 1.0, 3.0),))
    assert part_size(whole, np.arange(len(body.pins))) == pytest.approx(body.unpinned_size)
    (weight,) = Simulation(scene(whole)).statics.part_weights(0, 0, (3.0,))
    # Both searches stop within 0.2%.
    assert weight == pytest.approx(1.0, abs=5e-3)


@pytest.mark.parametrize("sags", [(6.0, 2.0), (1.0, 8.0)])
def test_sagging_parts_rest_on_time(sags: tuple[float, float]) -> None:
    """The weight of a part does not change when it rests, within one frame of its Settle."""
    body, belly = two_part_body("soft", 30.0, 0.0, start_settled=True)
    body = sagging(body, *sags)
    ways, _, _ = displacements_after_stop(body, translation_motion(body.surface, 0.4 * WAY), 24.0, DOWN)
    assert np.abs(ways).max() > 0.005
    ear_rest, belly_rest = part_rests(ways, body.pins, belly)
    assert abs(ear_rest - EAR) <= 1.0, ear_rest
    assert abs(belly_rest - BELLY) <= 1.0, belly_rest


def test_kept_shape_carries_part_weights() -> None:
    """Keep Modelled Shape compensates the weight of the parts too."""
    body, _ = two_part_body("soft", 30.0, 30.0, start_settled=True, keep_shape=True)
    body = sagging(body, 6.0, 2.0)
    assert max(measured_sags(Simulation(scene(body)), body)) < 0.05


def test_free_body_ignores_part_sag() -> None:
    """A body that no pin holds falls as a whole, with one acceleration."""
    body, _ = two_part_body("hard", 30.0, 30.0)
    free = sagging(replace(body, pins=np.zeros(len(body.pins))), 6.0, 2.0)
    simulation = Simulation(scene(free, last=6))
    assert simulation.statics.part_weights(0, 0, (6.0, 2.0)) == (1.0, 1.0)
    mass = simulation.islands[0].system.mass
    first, last = [frame.state for frame in simulation.frames()][::5]
    fallen = mass @ (last.velocities - first.velocities) / mass.sum()
    np.testing.assert_allclose(fallen, DOWN * 5.0 / 24.0, atol=1e-6)


def keyed_parts(body: Body, dials: Callable[[float], list[tuple[float | None, ...]]]) -> Body:
    """Return a body with keyframed dials of its parts. dials: Part.dial_values of each part by frame."""
    first = tuple(part.with_dial_values(one) for part, one in zip(body.parts, dials(1.0), strict=True))
    return replace(  # type: ignore[call-arg]
        body, parts=first, settings_by_frame=lambda frame: with_part_dials(body.settings, dials(frame))
    )


@pytest.mark.parametrize(
    "curve", [one if one == "ramp to shorter" else pytest.param(one, marks=pytest.mark.slow) for one in CURVES]
)
def test_keyed_part_moves_as_keyed_body(curve: str) -> None:
    """Keys of a part that is the whole body have the effect of the same keys of the body.

    Keys of Bounce differ: they also change the tempo of a whole body, but not that of a part (decision 0112).
    """
    settle = CURVES[curve]
    body, _ = two_part_body("soft", 30.0, 30.0, accuracy="TIGHT", substeps=4, settle=48.0)

    def dials(frame: float) -> tuple[float, float, float]:
        return settle(frame), 30.0, 1.0 - 0.01 * frame

    def settings(frame: float) -> Settings:
        values = dict(zip(("settle", "bounce", "follow_through"), dials(frame), strict=True))
        return replace(body.settings, **values)

    body = replace(body, settings=settings(1.0))
    whole = replace(body, parts=(Part("All", np.ones(len(body.pins)), 48.0, 30.0, 1.0),))
    keyed_body = replace(body, parts=(), settings_by_frame=settings)  # type: ignore[call-arg]
    keyed_part = keyed_parts(whole, lambda frame: [(*dials(frame), None)])
    # Far swings are steered only without parts.
    way = translation_motion(body.surface, 0.02 * WAY)
    found = [displacements_after_stop(one, way, 24.0, duration=0.4)[0][:20] for one in (keyed_body, keyed_part)]
    swing = float(np.abs(found[0]).max())
    # Surfaces have single precision.
    assert swing > 200.0 * np.spacing(np.float32(body.surface.size))
    assert np.abs(found[1] - found[0]).max() < 5e-3 * swing


def test_keyed_sag_is_reached() -> None:
    """A part hangs as far as the keyed Sag after it has settled; another part stays."""
    body, _ = two_part_body("hard", 0.0, 0.0, start_settled=True, settle=6.0)

    def dials(frame: float) -> list[tuple[float | None, ...]]:
        return [(4.0, 0.0, 1.0, float(np.interp(frame, [2.0, 6.0], [2.0, 7.0]))), (4.0, 0.0, 1.0, 3.0)]

    body = keyed_parts(sagging(body, 2.0, 3.0), dials)
    simulation = Simulation(scene(body, last=24))
    *_, last = simulation.frames()
    np.testing.assert_allclose(measured_sags(simulation, body), [2.0, 3.0], rtol=4e-3)
    # The weight is interpolated between solved values. The heavier ear lifts the belly a little.
    np.testing.assert_allclose(measured_sags(simulation, body, last.state), [7.0, 3.0], rtol=3e-2)


def test_keys_of_parts_change_digests() -> None:
    """A resumed bake notices that a frame has another dial of a part."""
    body, _ = two_part_body("soft", 30.0, 30.0)
    found = []
    for settle in (20.0, 21.0):
        keyed = keyed_parts(body, lambda frame, settle=settle: [(settle, 30.0, 1.0, None), (10.0, 30.0, 1.0, 2.0)])
        keyed_scene = make_simulation(keyed, 24.0, 2).scene
        found.append(input_digests(keyed_scene, [keyed_scene.sample(1.0)])[body.name])
    assert found[0] != found[1]


def test_changed_part_sag_is_named() -> None:
    """A part without Sag has the inputs of earlier versions."""
    body, _ = two_part_body("soft", 30.0, 30.0)
    plain, own, other = (
        cache_inputs(make_simulation(one, 24.0, 2).scene)
        for one in (body, sagging(body, 4.0, None), sagging(body, 5.0, None))
    )
    assert not any("Sag" in name for name in plain["bodies"][body.identity] if name.startswith("part "))
    assert describe_changes(plain, own) == ["part Ear: Sag"]
    assert describe_changes(own, other) == ["part Ear: Sag (4, now 5)"]


def test_wrong_part_sag_is_refused() -> None:
    body, _ = two_part_body("soft", 30.0, 30.0)
    with pytest.raises(SceneError, match="part 'Ear': sag"):
        make_simulation(sagging(body, -1.0, None), 24.0, 2)
    with pytest.raises(ParameterError, match="settle"):
        with_part_dials(body.settings, [(-2.0, 30.0, 1.0, None)])
