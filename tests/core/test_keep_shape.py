"""Keep Modelled Shape, and what Sag is a part of."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from scipy.spatial.transform import Rotation

from builders import bar, scene, still, strutted, weld
from dampsim.core.bodies.kind import BASE_YOUNG
from dampsim.core.energies import ELASTIC_MODELS, Material, TetElasticity
from dampsim.core.energies.tetrahedra import tet_volumes
from dampsim.core.geometry.surface import Surface
from dampsim.core.scene.body import Body
from dampsim.core.scene.scene import Scene
from dampsim.core.simulation.simulation import Simulation
from shapes import belly, box, ear, tail, tube


def held(surface: Any, part: float = 0.15, **dials: Any) -> Body:
    """Held at one end along its longest side."""
    x = surface.vertices[:, np.ptp(surface.vertices, axis=0).argmax()]
    return still(surface, (x <= x.min() + part * np.ptp(x)).astype(float), **dials)


def off(made: Scene) -> float:
    """How far the first frame is from what was modelled, in parts of the size."""
    frame = Simulation(made).first_frame()
    (body,) = made.bodies
    away = frame.shapes[body.name] - body.motion(1.0)
    return float(np.linalg.norm(away, axis=1).max()) / body.surface.size


@pytest.mark.parametrize("model", [model.name for model in ELASTIC_MODELS])
def test_the_rest_shape_s_part_in_the_forces_is_their_derivative(model: str) -> None:
    """Central differences of second order; where C is not smooth is left out by taking large strains at random."""
    rng = np.random.default_rng(3)
    rest = rng.normal(size=(7, 3))
    tets = np.array([[0, 1, 2, 3], [1, 2, 3, 4], [2, 3, 4, 5], [3, 4, 5, 6]])
    flip = tet_volumes(rest, tets) < 0.0
    tets[flip] = tets[flip][:, [0, 1, 3, 2]]
    law = next(one for one in ELASTIC_MODELS if one.name == model)(Material(1e4, 0.4, 1e3))
    elastic = TetElasticity(rest, tets, 0.7 * tet_volumes(rest, tets), law)
    places = rest + 0.15 * rng.normal(size=rest.shape)
    way, step = rng.normal(size=rest.shape), 1e-6
    ahead, behind = (elastic.with_rest(rest + s * way).value_gradient(places)[1] for s in (step, -step))
    wanted = (ahead - behind).ravel() / (2.0 * step)
    found = elastic.rest_jacobian(places) @ way.ravel()
    np.testing.assert_allclose(found, wanted, atol=1e-6 * np.abs(wanted).max())


def rod() -> Surface:
    return tube(1.0, 0.12, 12, 12)


@pytest.mark.parametrize(
    ("sag", "make"),
    [
        *((sag, make) for sag in (1.0, 4.0) for make in (ear, belly, tail, lambda: box((0.6, 0.3, 0.3)))),
        (1.0, rod),
        pytest.param(4.0, rod, marks=pytest.mark.slow),
    ],
)
def test_what_was_modelled_stands_at_the_first_frame(make: Any, sag: float) -> None:
    dials = {"stiffness_by": "SAG", "sag": sag, "resolution": 700}
    assert off(scene(held(make(), **dials))) > 0.004
    # The bound; the static shape itself is solved to 1e-9 of the size.
    assert off(scene(held(make(), keep_shape=True, **dials))) < 1e-4


def test_it_goes_on_standing_still() -> None:
    made = scene(held(tail(), keep_shape=True, stiffness_by="SAG", sag=5.0, resolution=700), last=10)
    (body,) = made.bodies
    for frame in Simulation(made).frames():
        assert np.abs(frame.shapes[body.name] - body.motion(1.0)).max() < 1e-4 * body.surface.size


def test_it_hangs_the_right_way_when_it_is_turned_over() -> None:
    """Turned upside down it hangs by its own sag and by as much as was taken out: twice the sag of a small one."""
    surface = box((1.0, 0.2, 0.2))
    over = Rotation.from_euler("x", 180.0, degrees=True).as_matrix()

    def turning(frame: float) -> np.ndarray:
        part = np.clip((frame - 1.0) / 10.0, 0.0, 1.0)
        return surface.vertices @ Rotation.from_rotvec([np.pi * part, 0.0, 0.0]).as_matrix().T

    dials = {"stiffness_by": "SAG", "sag": 1.0, "resolution": 700, "settle": 8.0}
    tip = surface.vertices[:, 0] > 0.99 * surface.vertices[:, 0].max()
    kept = replace(held(surface, keep_shape=True, **dials), motion=turning)
    *_, last = Simulation(scene(kept, last=40)).frames()
    fell = (last.shapes[kept.name] - surface.vertices @ over.T)[tip, 2].mean()
    plain = held(surface, **dials)
    hangs = (Simulation(scene(plain)).first_frame().shapes[plain.name] - surface.vertices)[tip, 2].mean()
    # What is bent twice as far is a little stiffer.
    assert fell == pytest.approx(2.0 * hangs, rel=0.03)


def test_the_stiffness_stays_that_of_the_dialled_sag() -> None:
    plain, kept = (
        Simulation(scene(held(tail(), keep_shape=keep, stiffness_by="SAG", sag=3.0, resolution=700)))
        for keep in (False, True)
    )
    assert kept.young("Tail") == plain.young("Tail")


def test_linked_bodies_keep_their_shapes_where_their_own_pins_hold_them() -> None:
    frames = []
    for keep in (False, True):
        dials = {"stiffness_by": "SAG", "sag": 3.0, "keep_shape": keep, "resolution": 60}
        one, two = bar("Left", 0.0, 1.0, True, **dials), bar("Right", 1.0, 2.0, False, **dials)
        made = scene(one, two, links=weld("weld", "Left", "Right", 1.0))
        frames.append(Simulation(made).first_frame())
    assert np.isfinite(frames[1].shapes["Right"]).all()
    # What the left one's own weight bends it by is taken out, and nothing of what hangs on it.
    end = one.surface.vertices[:, 0] > 0.99
    sunk, kept = (float((one.surface.vertices - frame.shapes["Left"])[end, 2].mean()) for frame in frames)
    assert sunk - kept == pytest.approx(0.03, rel=0.1)


def test_what_is_no_solid_says_nothing_and_does_nothing() -> None:
    plain, kept = (Simulation(scene(strutted(keep_shape=keep))).first_frame() for keep in (False, True))
    np.testing.assert_array_equal(plain.state.positions, kept.state.positions)


@pytest.mark.parametrize("part", [pytest.param(0.15, marks=pytest.mark.slow), 0.6, 0.9])
def test_sag_is_a_part_of_what_is_free(part: float) -> None:
    body = held(tube(1.0, 0.1, 24, 10), part, stiffness_by="SAG", sag=3.0, resolution=900)
    faces = body.surface.triangles
    free = body.surface.vertices[faces[(body.pins[faces] < 1.0).any(axis=1)].ravel()]
    frame = Simulation(scene(body)).first_frame()
    hangs = np.linalg.norm(frame.shapes[body.name] - body.motion(1.0), axis=1).max()
    assert hangs / np.linalg.norm(np.ptp(free, axis=0)) == pytest.approx(0.03, rel=0.02)


@pytest.mark.parametrize("gravity", [np.array([0.0, 0.0, -9.81]), np.zeros(3)])
def test_a_body_that_falls_has_the_stiffness_of_a_column_of_its_size(gravity: np.ndarray) -> None:
    """Of height L it is shortened by rho g L^2 / (2 E) = sag L."""
    body = still(box((1.0, 0.25, 0.25)), stiffness_by="SAG", sag=2.0, density=900.0)
    wanted = 900.0 * 9.81 * body.surface.size / (2.0 * 0.02)
    assert Simulation(scene(body, gravity=gravity)).young(body.name) == pytest.approx(wanted)


def test_without_gravity_sag_means_what_it_would_be_with_it() -> None:
    body = held(tail(), stiffness_by="SAG", sag=3.0, resolution=700)
    there, away = (Simulation(scene(body, gravity=g)) for g in (np.array([0.0, 0.0, -9.81]), np.zeros(3)))
    assert away.young(body.name) == pytest.approx(there.young(body.name), rel=1e-2)
    assert away.sag(body.name) < 1e-12
    assert away.young(body.name) > BASE_YOUNG / 100.0
