"""Keep Shape (sag compensation), and the size to which Sag refers."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from scipy.spatial.transform import Rotation

from builders import bar, scene, static_body, strutted_rod, weld
from dampsim.core.bodies.kind import BASE_YOUNG
from dampsim.core.geometry.mesh.surface import Surface
from dampsim.core.materials import ELASTIC_MODELS, ElasticMaterial, TetElasticity
from dampsim.core.materials.tetrahedra import tet_volumes
from dampsim.core.scene.body import Body
from dampsim.core.scene.scene import Scene
from dampsim.core.simulation.simulation import Simulation
from shapes import belly, box, ear, tail, tube


def pinned_at_end(surface: Any, part: float = 0.15, **dials: Any) -> Body:
    """Return a body that is pinned at the lower end of its longest axis."""
    x = surface.vertices[:, np.ptp(surface.vertices, axis=0).argmax()]
    return static_body(surface, (x <= x.min() + part * np.ptp(x)).astype(float), **dials)


def first_frame_deviation(made: Scene) -> float:
    """Return the distance of the first frame from the modelled shape, relative to the size."""
    frame = Simulation(made).first_frame()
    (body,) = made.bodies
    away = frame.shapes[body.name] - body.vertices_at(1.0)
    return float(np.linalg.norm(away, axis=1).max()) / body.surface.size


@pytest.mark.parametrize("model", [model.name for model in ELASTIC_MODELS])
def test_rest_jacobian_matches_differences(model: str) -> None:
    """The force's derivative with respect to the rest shape matches central differences.

    Large random strains avoid the points where C is not smooth.
    """
    rng = np.random.default_rng(3)
    rest = rng.normal(size=(7, 3))
    tets = np.array([[0, 1, 2, 3], [1, 2, 3, 4], [2, 3, 4, 5], [3, 4, 5, 6]])
    flip = tet_volumes(rest, tets) < 0.0
    tets[flip] = tets[flip][:, [0, 1, 3, 2]]
    law = next(one for one in ELASTIC_MODELS if one.name == model)(ElasticMaterial(1e4, 0.4, 1e3))
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
def test_first_frame_has_modelled_shape(make: Any, sag: float) -> None:
    dials = {"stiffness_by": "SAG", "sag": sag, "resolution": 700}
    assert first_frame_deviation(scene(pinned_at_end(make(), **dials))) > 0.004
    # The static shape itself is solved to 1e-9 of the size.
    assert first_frame_deviation(scene(pinned_at_end(make(), keep_shape=True, **dials))) < 1e-4


def test_kept_shape_stays_at_rest() -> None:
    """The modelled shape stays at rest in later frames."""
    made = scene(pinned_at_end(tail(), keep_shape=True, stiffness_by="SAG", sag=5.0, resolution=700), last=10)
    (body,) = made.bodies
    for frame in Simulation(made).frames():
        assert np.abs(frame.shapes[body.name] - body.vertices_at(1.0)).max() < 1e-4 * body.surface.size


def test_kept_shape_sags_when_upside_down() -> None:
    """Upside down, a body hangs by twice its sag: its own and the compensated one."""
    surface = box((1.0, 0.2, 0.2))
    over = Rotation.from_euler("x", 180.0, degrees=True).as_matrix()

    def turning(frame: float) -> np.ndarray:
        part = np.clip((frame - 1.0) / 10.0, 0.0, 1.0)
        return surface.vertices @ Rotation.from_rotvec([np.pi * part, 0.0, 0.0]).as_matrix().T

    dials = {"stiffness_by": "SAG", "sag": 1.0, "resolution": 700, "settle": 8.0}
    tip = surface.vertices[:, 0] > 0.99 * surface.vertices[:, 0].max()
    kept = replace(pinned_at_end(surface, keep_shape=True, **dials), motion=turning)
    *_, last = Simulation(scene(kept, last=40)).frames()
    fell = (last.shapes[kept.name] - surface.vertices @ over.T)[tip, 2].mean()
    plain = pinned_at_end(surface, **dials)
    hangs = (Simulation(scene(plain)).first_frame().shapes[plain.name] - surface.vertices)[tip, 2].mean()
    # A bar that is bent twice as far is slightly stiffer.
    assert fell == pytest.approx(2.0 * hangs, rel=0.03)


def test_keep_shape_does_not_change_stiffness() -> None:
    """The stiffness found for a dialled Sag is the same with and without Keep Shape."""
    plain, kept = (
        Simulation(scene(pinned_at_end(tail(), keep_shape=keep, stiffness_by="SAG", sag=3.0, resolution=700)))
        for keep in (False, True)
    )
    assert kept.young("Tail") == plain.young("Tail")


def test_linked_body_compensates_own_weight_only() -> None:
    """A pinned body's own sag is compensated; the sag from the weight of a linked body is not."""
    frames = []
    for keep in (False, True):
        dials = {"stiffness_by": "SAG", "sag": 3.0, "keep_shape": keep, "resolution": 60}
        one, two = bar("Left", 0.0, 1.0, True, **dials), bar("Right", 1.0, 2.0, False, **dials)
        made = scene(one, two, links=weld("weld", "Left", "Right", 1.0))
        frames.append(Simulation(made).first_frame())
    assert np.isfinite(frames[1].shapes["Right"]).all()
    # Only the sag of the left bar under its own weight is compensated.
    end = one.surface.vertices[:, 0] > 0.99
    sunk, kept = (float((one.surface.vertices - frame.shapes["Left"])[end, 2].mean()) for frame in frames)
    assert sunk - kept == pytest.approx(0.03, rel=0.1)


def test_keep_shape_ignored_without_solid() -> None:
    """Keep Shape has no effect on bodies that are not solids, and raises no error."""
    plain, kept = (Simulation(scene(strutted_rod(keep_shape=keep))).first_frame() for keep in (False, True))
    np.testing.assert_array_equal(plain.state.positions, kept.state.positions)


@pytest.mark.parametrize("part", [pytest.param(0.15, marks=pytest.mark.slow), 0.6, 0.9])
def test_sag_is_relative_to_unpinned_size(part: float) -> None:
    """Sag is a percentage of the size of the unpinned part."""
    body = pinned_at_end(tube(1.0, 0.1, 24, 10), part, stiffness_by="SAG", sag=3.0, resolution=900)
    faces = body.surface.triangles
    free = body.surface.vertices[faces[(body.pins[faces] < 1.0).any(axis=1)].ravel()]
    frame = Simulation(scene(body)).first_frame()
    hangs = np.linalg.norm(frame.shapes[body.name] - body.vertices_at(1.0), axis=1).max()
    assert hangs / np.linalg.norm(np.ptp(free, axis=0)) == pytest.approx(0.03, rel=0.02)


@pytest.mark.parametrize("gravity", [np.array([0.0, 0.0, -9.81]), np.zeros(3)])
def test_sag_stiffness_of_unpinned_body(gravity: np.ndarray) -> None:
    """An unpinned body has the stiffness of a column of its size.

    Its weight shortens a column of height L by rho g L^2 / (2 E) = sag L.
    """
    body = static_body(box((1.0, 0.25, 0.25)), stiffness_by="SAG", sag=2.0, density=900.0)
    wanted = 900.0 * 9.81 * body.surface.size / (2.0 * 0.02)
    assert Simulation(scene(body, gravity=gravity)).young(body.name) == pytest.approx(wanted)


def test_sag_stiffness_without_gravity() -> None:
    """Without gravity, a dialled Sag gives the same stiffness as with standard gravity."""
    body = pinned_at_end(tail(), stiffness_by="SAG", sag=3.0, resolution=700)
    there, away = (Simulation(scene(body, gravity=g)) for g in (np.array([0.0, 0.0, -9.81]), np.zeros(3)))
    assert away.young(body.name) == pytest.approx(there.young(body.name), rel=1e-2)
    assert away.sag(body.name) < 1e-12
    assert away.young(body.name) > BASE_YOUNG / 100.0
