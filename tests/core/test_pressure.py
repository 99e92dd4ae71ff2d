"""Air pressure in closed sheets: p = -dE/dV for any face orientation; balloons bounce and carry weight."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from scipy.spatial import ConvexHull

from builders import scene, static_body
from dampsim.core.geometry.mesh.surface import Surface
from dampsim.core.materials import Pressure
from dampsim.core.scene.body import Body
from dampsim.core.simulation.simulation import Simulation
from shapes import sphere
from supports import plane

# A rubber skin of 0.1 mm with 100 g per square metre.
SKIN: dict[str, Any] = {"kind": "CLOTH", "thickness": 0.1, "stiffness": 10000.0, "density": 1000.0}
RADIUS = 0.15


def ball(high: float, count: int = 200) -> Surface:
    round_ = sphere(count)
    return Surface("Balloon", RADIUS * round_.vertices + np.array([0.0, 0.0, high]), round_.triangles)


def volume(points: np.ndarray, triangles: np.ndarray) -> float:
    a, b, c = points[triangles].transpose(1, 0, 2)
    return float(np.einsum("ij,ij->", a, np.cross(b, c))) / 6.0


def test_air_energy_is_pressure_times_volume() -> None:
    """Air does work equal to pressure times volume change on any path; its forces on a ball add up to zero."""
    rng = np.random.default_rng(5)
    shape = ball(0.0)
    energy = Pressure(shape.triangles, 40.0)
    dented = shape.vertices * np.array([1.3, 0.8, 1.1]) + 0.01 * rng.normal(size=shape.vertices.shape)
    blown = 1.4 * shape.vertices
    assert volume(shape.vertices, shape.triangles) == pytest.approx(ConvexHull(shape.vertices).volume)
    for one, other in ((shape.vertices, dented), (dented, blown)):
        work = energy.value_gradient(one)[0] - energy.value_gradient(other)[0]
        more = volume(other, shape.triangles) - volume(one, shape.triangles)
        assert work == pytest.approx(40.0 * more, rel=1e-9)
    # On a ball, the forces are pressure times area, and add up to zero.
    forces = -energy.value_gradient(shape.vertices)[1]
    area = ConvexHull(shape.vertices).area
    outward = float(np.einsum("ij,ij->", forces, shape.vertices / RADIUS))
    assert outward == pytest.approx(40.0 * area, rel=0.02)
    assert np.abs(forces.sum(axis=0)).max() < 1e-12 * outward


@pytest.mark.parametrize("part", [0.0, 0.5, 1.0])
def test_air_pressure_ignores_face_orientation(part: float) -> None:
    shape = ball(0.0)
    turned = shape.triangles.copy()
    some = np.arange(len(turned)) < part * len(turned)
    turned[some] = turned[some][:, [0, 2, 1]]
    pins = np.zeros(200)
    pins[0] = 1.0
    body = static_body(Surface("Balloon", shape.vertices, turned), pins, pressure=100.0, gravity_weight=0.0, **SKIN)
    blown = Simulation(scene(body, last=1)).first_frame().shapes["Balloon"]
    # Thin skin: p r/(2 E t) (1 - nu) = 1.05%; the faces are slightly flatter than a sphere.
    strain = (volume(blown, shape.triangles) / volume(shape.vertices, shape.triangles)) ** (1.0 / 3.0) - 1.0
    assert strain == pytest.approx(0.5 * 100.0 * RADIUS * 0.7 / (1e7 * 1e-4), rel=0.1)


def dropped_balloon(last: int, high: float, count: int = 200, **dials: Any) -> tuple[Body, np.ndarray]:
    """Return a balloon that falls from a height in m, and its shapes (frames, v, 3) m."""
    body = static_body(ball(RADIUS + high, count), **{**SKIN, "start_settled": False, "friction": 0.3, **dials})
    frames = Simulation(scene(body, last=last, colliders=(plane(),))).frames()
    return body, np.array([frame.shapes["Balloon"] for frame in frames])


@pytest.mark.slow
def test_balloon_bounces_and_rests() -> None:
    """A balloon bounces, and comes to rest on a contact area that carries its weight."""
    body, shapes = dropped_balloon(60, 0.3, 100, pressure=60.0, settle=30.0)
    low, middle = shapes[:, :, 2].min(axis=1), shapes[:, :, 2].mean(axis=1)
    assert low.min() > -1e-3 * body.surface.size
    touched = int((low < 0.005).argmax())
    # The balloon leaves the floor again; at the end it moves less than 1 mm per frame.
    assert low[touched:].max() > 0.01
    assert np.abs(np.diff(middle[-6:])).max() < 1e-3
    # 28 g on 60 Pa need a contact area of 46 cm^2, 4 cm in radius, at the cost of less than 1% of the volume.
    # Without air, the skin alone keeps 98.5%.
    assert volume(shapes[-1], body.surface.triangles) > 0.99 * volume(body.surface.vertices, body.surface.triangles)


@pytest.mark.slow
def test_higher_pressure_flattens_less() -> None:
    heights = [
        float(np.ptp(dropped_balloon(20, 0.02, pressure=one, settle=12.0)[1][-1][:, 2])) for one in (20.0, 200.0)
    ]
    # Half of the flattening at 20 Pa is that of the skin alone. The facets that touch the floor change it by 6 mm.
    assert heights[0] < heights[1] - 0.004


def keyed_balloon(pressure_at: Callable[[float], float], last: int, keyed: bool = True) -> tuple[np.ndarray, list[str]]:
    """Return the volumes of a weightless balloon with a pressure in Pa at each frame, and the digests of its inputs."""
    pins = np.zeros(100)
    pins[0] = 1.0
    dials: dict[str, Any] = {"gravity_weight": 0.0, "settle": 6.0, "bounce": 0.0, "bounce_by": "DIALLED", **SKIN}
    body = static_body(ball(0.0, 100), pins, **dials, pressure=pressure_at(1.0), has_animated_pressure=keyed)
    if keyed:
        body = replace(body, settings_by_frame=lambda frame: replace(body.settings, pressure=pressure_at(frame)))
    frames = list(Simulation(scene(body, last=last)).frames())
    digests = [frame.inputs["Balloon"] for frame in frames]
    return np.array([volume(frame.surface, body.surface.triangles) for frame in frames]), digests


def test_keyed_pressure_inflates_to_same_volume() -> None:
    """Air that is let in by keyframes gives the volume of a balloon that has that pressure from the start."""
    constant, constant_digests = keyed_balloon(lambda frame: 200.0, 2)
    unkeyed, _ = keyed_balloon(lambda frame: 200.0, 2, keyed=False)
    assert (constant == unkeyed).all()
    rising, digests = keyed_balloon(lambda frame: min(40.0 * (frame - 1.0), 200.0), 24)
    assert rising[0] == pytest.approx(volume(ball(0.0, 100).vertices, ball(0.0, 100).triangles), rel=1e-6)
    assert (np.diff(rising[:6]) > 0.0).all()
    # The settled state differs by less than a hundredth of the inflation.
    assert rising[-1] - rising[0] == pytest.approx(unkeyed[-1] - rising[0], rel=0.01)
    assert len({*constant_digests}) == 1
    assert len({*digests[:6]}) == 6
