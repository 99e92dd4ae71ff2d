"""Air on sheets: pressure, drag and gusts, docs/explanation/physics/08-force-fields.md."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from builders import DOWN, scene, static_body
from dampsim.core.bodies.fabrics import FABRICS
from dampsim.core.fields.air import (
    WindTime,
    air_velocities,
    face_resistance,
    nodal_resistance,
    speed_of,
    windward_weights,
)
from dampsim.core.fields.field import ExternalForces, Falloff, ForceField, ForceFieldShape, ForceFieldType
from dampsim.core.objective import sheet_matrix
from dampsim.core.scene.body import Body
from dampsim.core.simulation.body_forces import BodyLoad
from dampsim.core.simulation.sheet_air import SheetAir, carried_velocities
from dampsim.core.simulation.simulation import Simulation
from dampsim.core.steppers import sheet as sheet_steps
from dampsim.core.steppers.sheet import SheetProblem, SheetStepper
from dampsim.core.system.inputs import Inputs
from dampsim.core.system.state import State
from references.air import force_on_face
from shapes import sheet

X, NOWHERE = np.array([1.0, 0.0, 0.0]), np.zeros(3)
STILL = WindTime(0.0, None, NOWHERE)


def wind(speed: float, axis: np.ndarray = X, **more: Any) -> ForceField:
    return ForceField(ForceFieldType.WIND, ForceFieldShape.PLANE, NOWHERE, axis, 8.0 * speed**2, **more)


def eddies(speed: float, **more: Any) -> ForceField:
    return ForceField(
        ForceFieldType.TURBULENCE, ForceFieldShape.POINT, NOWHERE, X, 8.0 * speed**2, size=0.7, seed=3, **more
    )


def fabric(
    name: str = "Cotton", count: int = 9, pins: np.ndarray | None = None, size: float = 1.0, **more: Any
) -> Body:
    flat = replace(sheet(count), name="Cloth")
    place = more.pop("place", lambda points: points)
    forces, motion = more.pop("forces", None), more.pop("motion", None)
    surface = replace(flat, vertices=place(size * flat.vertices))
    settings = {"start_settled": False, "air": 1.0, **FABRICS[name].settings, **more}
    return static_body(surface, pins, motion, kind="CLOTH", external_forces=forces, **settings)


def curtain(**more: Any) -> Body:
    """Return cotton of 0.5 m that hangs from its upper edge in the plane across x."""
    flat = sheet(9)
    return fabric(
        pins=(flat.vertices[:, 0] < 1e-9).astype(float),
        size=0.5,
        place=lambda points: np.stack([0.0 * points[:, 0], points[:, 1], -points[:, 0]], axis=1),
        **more,
    )


def blown(*fields: ForceField) -> Callable[[float], ExternalForces]:
    return lambda frame: ExternalForces(DOWN, fields)


def paths(body: Body, last: int, fps: float = 24.0, **more: Any) -> np.ndarray:
    """Return node positions (frames, n, 3)."""
    return np.array([one.state.positions for one in Simulation(scene(body, last=last, fps=fps, **more)).frames()])


def random_faces() -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    rng, flat = np.random.default_rng(1), sheet(5)
    x = flat.vertices + 0.1 * rng.standard_normal(flat.vertices.shape)
    return x, flat.triangles, 3.0 * rng.standard_normal((len(flat.triangles), 3))


def test_face_force_matches_reference() -> None:
    x, triangles, past = random_faces()
    u = np.array([1.0, -2.0, 0.5])
    found = face_resistance(x, triangles, past, 0.7) @ u
    wanted = [force_on_face(x[t].tolist(), w.tolist(), u.tolist(), 0.7) for t, w in zip(triangles, past, strict=True)]
    np.testing.assert_allclose(found, wanted, rtol=1e-12, atol=1e-15)
    each = nodal_resistance(face_resistance(x, triangles, past, 0.7), triangles, len(x)) @ u
    thirds = np.zeros_like(x)
    for t, force in zip(triangles, wanted, strict=True):
        thirds[t] += np.divide(force, 3.0)
    np.testing.assert_allclose(each, thirds, rtol=1e-12, atol=1e-15)


def test_resistance_never_accelerates() -> None:
    """In still air, the force -C v has no positive power at any velocity, so C has no negative eigenvalue."""
    x, triangles, past = random_faces()
    resistance = face_resistance(x, triangles, past, 1.0)
    resistance *= windward_weights(x, triangles, past, resistance)[:, None, None]
    found = np.linalg.eigvalsh(resistance)
    assert found.min() >= -1e-15 * found.max()
    np.testing.assert_array_equal(resistance, resistance.transpose(0, 2, 1))
    assert not face_resistance(x, triangles, np.zeros_like(past), 1.0).any()


def test_windward_weights_keep_total() -> None:
    """The pressure of a tilted plate moves to its windward edge; face on, it stays."""
    flat = sheet(9)
    area, plate = np.full(len(flat.triangles), 1.0 / len(flat.triangles)), (flat.vertices, flat.triangles)
    tilted = np.tile([1.0, 0.0, -0.5], (len(area), 1))
    weight = windward_weights(*plate, tilted, face_resistance(*plate, tilted, 1.0))
    np.testing.assert_allclose(area @ weight, 1.0, rtol=1e-12)
    centre = flat.vertices[flat.triangles].mean(axis=1)[:, 0]
    assert area @ (weight * centre) < 0.4
    ahead = np.tile([0.0, 0.0, 1.0], (len(area), 1))
    np.testing.assert_allclose(windward_weights(*plate, ahead, face_resistance(*plate, ahead, 1.0)), 1.0)
    # A dome keeps its drag along the wind.
    x = flat.vertices.copy()
    x[:, 2] = -1.5 * ((x[:, :2] - 0.5) ** 2).sum(axis=1)
    resistance = face_resistance(x, flat.triangles, ahead, 1.0)
    weight = windward_weights(x, flat.triangles, ahead, resistance)
    assert np.ptp(weight) > 0.5
    assert weight @ resistance[:, 2, 2] == pytest.approx(resistance[:, 2, 2].sum(), rel=1e-12)


def problem_in_wind() -> tuple[SheetProblem, np.ndarray, Inputs]:
    """Return the problem of a step of a crumpled curtain in wind, random velocities, and the inputs."""
    rng = np.random.default_rng(0)
    simulation = Simulation(scene(curtain(forces=blown(wind(5.0), eddies(2.0))), last=3))
    island, h = simulation.islands[0], 1.0 / 24.0
    stepper = simulation.statics.steppers[0]
    assert isinstance(stepper, SheetStepper)
    x = island.system.rest + 0.01 * rng.standard_normal(island.system.rest.shape)
    x[island.system.is_fixed] = island.system.rest[island.system.is_fixed]
    state = State.at_rest(x)
    pose = simulation.pose_evaluator.pose(simulation.sample_frame(2).samples[-1])[0]
    inputs = simulation.pose_evaluator.step_inputs(island, pose, pose)
    loads = [one.load for one in pose if one.load is not None]
    air = SheetAir(simulation.scene, simulation.sample_frame(1).samples[-1])
    inputs = air.with_air(island, inputs, loads, loads, state, 2.0, h)
    controls = simulation.controls()[0]
    problem = SheetProblem(stepper, state, inputs, h, controls)
    return problem, rng.standard_normal((len(stepper.free), 3)), inputs


def test_step_gradient_with_drag_matches_differences() -> None:
    problem, v, _ = problem_in_wind()
    way, step = np.random.default_rng(2).standard_normal(v.shape), 1e-5
    slope = np.vdot(problem.value_gradient(v)[1], way)
    ends = [problem.value_gradient(v + sign * step * way)[0] for sign in (1.0, -1.0)]
    # Central differences of a smooth potential of a few joules.
    np.testing.assert_allclose((ends[0] - ends[1]) / (2.0 * step), slope, rtol=1e-6)


@pytest.mark.kernel
def test_drag_is_part_of_both_tangents() -> None:
    """The tangents of the kernel and of the fallback differ by C from those without drag."""
    problem, v, _ = problem_in_wind()
    drag = problem._damping_matrix
    assert drag is not None
    dof = problem._stepper.dof
    C = drag[dof][:, dof]
    assert np.abs(C).max() > 1e-3
    way = np.random.default_rng(3).standard_normal(v.shape)
    with_drag = problem.tangent_operator(v)(way)
    compiled = problem.compiled_directions()
    problem._damping_matrix = None
    difference = with_drag - problem.tangent_operator(v)(way)
    np.testing.assert_allclose(difference.ravel(), C @ way.ravel(), rtol=1e-9, atol=1e-9 * np.abs(difference).max())
    if compiled is None:
        pytest.skip("no kernel")
    without = problem.compiled_directions()
    assert without is not None
    totals = []
    for one in (compiled, without):
        matrix: sheet_matrix.SheetMatrix = one._matrix
        blocks = matrix.factors_at(problem.positions(v))[1]
        product = np.empty_like(way)
        product[matrix.order] = (matrix.as_sparse(blocks) @ way[matrix.order].ravel()).reshape(-1, 3)
        totals.append(product)
    difference = totals[0] - totals[1]
    np.testing.assert_allclose(difference.ravel(), C @ way.ravel(), rtol=1e-9, atol=1e-9 * np.abs(difference).max())


def test_moving_air_hides_small_steps() -> None:
    """A search in moving air ends with a larger step than in still air, where a sheet comes to rest."""
    problem, _, _ = problem_in_wind()
    assert problem.invisible_step(50.0) == 1.0
    problem._has_drag = False
    assert 0.0 < problem.invisible_step(50.0) == problem.invisible_step(0.0) < 1.0


def test_unlimited_loads_are_the_same() -> None:
    """Two samples of a field without limits are one load, so that its air is evaluated once."""
    loads = [
        BodyLoad(1.0, 1.0, 1.0, ExternalForces(DOWN, (wind(3.0, falloff=Falloff(power)),))) for power in (2.0, 2.0, 1.0)
    ]
    assert loads[0].is_same(loads[1])
    assert not loads[0].is_same(loads[2])


@pytest.mark.parametrize(("fps", "substeps"), [(24.0, 1), pytest.param(24.0, 4, marks=pytest.mark.slow), (60.0, 1)])
def test_terminal_speed_face_on(fps: float, substeps: int) -> None:
    """A plate that falls flat reaches sqrt(2 m'' g/(rho c_90)) at any frame rate and number of substeps."""
    last = int(1.5 * fps)
    fallen = paths(fabric("Paper", 7, size=0.2, substeps=substeps), last, fps)[:, :, 2].mean(axis=1)
    wanted = np.sqrt(2.0 * 0.08 * 9.81 / (1.2 * 1.2))
    # The plate bends a little, so that it is not quite flat.
    np.testing.assert_allclose(fps * (fallen[-2] - fallen[-1]), wanted, rtol=0.02)


@pytest.mark.parametrize("kernel", [True, False])
def test_still_air_slows_a_free_sheet(kernel: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without gravity, momentum and energy of a thrown, spinning sheet only decrease."""
    if not kernel:
        monkeypatch.setattr(sheet_steps, "load_library", lambda: None)
    simulation = Simulation(scene(fabric("Paper", 7, size=0.2), last=24, gravity=np.zeros(3)))
    first = simulation.first_frame()
    x = first.state.positions
    offset = x - x.mean(axis=0)
    thrown = np.array([3.0, 0.5, -1.0]) + np.cross([2.0, 8.0, 1.0], offset)
    states = [replace(first, state=replace(first.state, velocities=thrown))]
    states += list(simulation.frames(states[0]))
    mass = simulation.islands[0].system.mass
    momenta = np.array([np.linalg.norm(mass @ one.state.velocities) for one in states])
    energies = np.array([mass @ (one.state.velocities**2).sum(axis=1) for one in states])
    assert (np.diff(energies) <= 1e-9 * energies[0]).all()
    assert momenta[-1] < 0.5 * momenta[0]
    assert (np.diff(momenta) <= 1e-9 * momenta[0]).all()


@pytest.mark.parametrize("field", [wind(4.0, noise=60.0), eddies(1.5), eddies(1.5, fixed_pattern=True)])
def test_gusts_repeat_exactly(field: ForceField) -> None:
    points = np.random.default_rng(5).uniform(-2.0, 2.0, (40, 3))
    travel = np.array([3.0, 1.0, 0.0])
    one, *others = [air_velocities([field], 1.0, WindTime(0.7 + turn * 2.0, 2.0, travel), points) for turn in (0, 1, 5)]
    for other in others:
        # The times differ by rounding.
        np.testing.assert_allclose(other, one, rtol=0, atol=1e-12)
    start, end, middle = (air_velocities([field], 1.0, WindTime(t, 2.0, travel), points) for t in (0.0, 2.0, 0.9))
    np.testing.assert_array_equal(start, end)
    assert np.abs(middle - start).max() > 0.1


def test_loop_repeats_its_wind() -> None:
    """The air of a looped shot has the period of its cycle, and at no frame that of another one."""
    made = scene(curtain(forces=blown(wind(3.0, noise=20.0), eddies(1.0)), loop=True), last=25)
    simulation = Simulation(made)
    air, body = SheetAir(made, simulation.sample_frame(1).samples[-1]), simulation.islands[0]
    pose = simulation.pose_evaluator.pose(simulation.sample_frame(2).samples[-1])[0][0]
    assert pose.load is not None
    found = [air._wind(0, pose.load, frame, body.system.rest) for frame in (7.0, 31.0, 12.0)]
    np.testing.assert_allclose(found[0], found[1], rtol=0, atol=1e-12)
    assert np.abs(found[0] - found[2]).max() > 0.1


def test_speeds_of_fields() -> None:
    """Strengths are squared speeds, and turbulence has the standard deviation of its speed at any time of a loop."""
    np.testing.assert_allclose(speed_of(np.array([200.0, -200.0, 0.0])), [5.0, -5.0, 0.0])
    points = np.random.default_rng(6).uniform(-30.0, 30.0, (20000, 3))
    for time in (STILL, WindTime(0.7, 2.0, X)):
        found = air_velocities([eddies(2.0)], 1.0, time, points)
        # The mean over 20,000 points of eddies of 0.7 m in 60 m.
        np.testing.assert_allclose(found.std(axis=0), 2.0, rtol=0.03)
        np.testing.assert_allclose(found.mean(axis=0), 0.0, atol=0.05)
    np.testing.assert_allclose(air_velocities([wind(3.0)], 0.25, STILL, points[:1]), [[1.5, 0.0, 0.0]])


def test_flag_flutters_in_steady_wind() -> None:
    """A flag never comes to rest in a steady wind, as it would if the wind pushed all of it equally."""
    flat = sheet(13)
    flag = fabric(
        "Nylon", 13, (flat.vertices[:, 0] < 1e-9).astype(float),
        place=lambda points: points[:, [0, 2, 1]], forces=blown(wind(6.0, np.array([1.0, 0.1, 0.0]))),
    )  # fmt: skip
    found = paths(flag, 60)
    motion = np.linalg.norm(np.diff(found, axis=0), axis=2).mean(axis=1)
    assert motion[-20:].mean() > 0.01
    assert np.isfinite(found).all()


def test_steps_after_wind_are_calm() -> None:
    """Once the wind has died, the air is gone from a sheet on pins at rest, so that Settle counts from there."""
    gust = blown(wind(4.0))

    def forces(frame: float) -> ExternalForces:
        return gust(frame) if frame < 15.0 else ExternalForces(DOWN)

    made = scene(curtain(forces=forces), last=24)
    frames = list(Simulation(made).frames())
    without = scene(curtain(forces=lambda frame: ExternalForces(DOWN), air=0.0), last=24)
    calm = list(Simulation(without).frames(frames[15]))
    assert np.abs(frames[15].state.velocities).max() > 0.05
    for one, other in zip(frames[16:], calm, strict=True):
        assert one.state.positions.tobytes() == other.state.positions.tobytes()


def test_keyed_air_counts_from_its_frame() -> None:
    """Frames are those of constant air until it is keyed; without wind, the step in which it goes has half of it."""
    body = curtain(motion=lambda frame: curtain().surface.vertices + 0.02 * (frame - 1.0) * X)

    def keyed(air_at: Callable[[float], float]) -> list[Any]:
        moving = replace(body, settings_by_frame=lambda frame: replace(body.settings, air=air_at(frame)))
        return list(Simulation(scene(moving, last=8)).frames())

    constant, going = keyed(lambda f: 1.0), keyed(lambda f: 1.0 if f < 5.0 else 0.0)
    plain = list(Simulation(scene(body, last=8)).frames())
    for one, other in zip(plain, constant, strict=True):
        assert one.state.positions.tobytes() == other.state.positions.tobytes()
    for number, (one, other) in enumerate(zip(constant, going, strict=True), 1):
        assert (one.state.positions.tobytes() == other.state.positions.tobytes()) == (number < 5)
        assert (one.inputs == other.inputs) == (number < 5)
    # The fifth frame has the mean of 1 and 0; later ones have no air.
    for air, number in ((0.5, 5), (0.0, 6)):
        made = Simulation(scene(replace(body, settings=replace(body.settings, air=air)), last=8))
        found = next(made.frames(going[number - 2]))
        assert found.state.positions.tobytes() == going[number - 1].state.positions.tobytes()


@pytest.mark.slow
@pytest.mark.parametrize("kernel", [True, False])
@pytest.mark.parametrize("settle", [12.0, 24.0, 48.0])
def test_settle_in_still_air(kernel: bool, settle: float, monkeypatch: pytest.MonkeyPatch) -> None:
    """A curtain whose rail stops comes to rest to 1 mm in still air as without air, within 10% and a frame."""
    if not kernel:
        monkeypatch.setattr(sheet_steps, "load_library", lambda: None)
    rests = []
    for air in (0.0, 1.0):
        still = curtain().surface.vertices

        def rail(frame: float, still: np.ndarray = still) -> np.ndarray:
            return still + np.array([0.02 * min(frame - 1.0, 12.0), 0.0, 0.0])

        found = paths(curtain(air=air, settle=settle, motion=rail, start_settled=True), 13 + int(2.5 * settle))
        away = np.linalg.norm(found[12:] - found[-1], axis=2).max(axis=1)
        rests.append(1 + int(np.flatnonzero(away > 1e-3)[-1]))
    assert abs(rests[1] - rests[0]) <= 1.0 + 0.1 * rests[0]


def test_carried_velocity_after_stop() -> None:
    """In the first step after a stop, the air already stands still around the pins."""
    simulation = Simulation(scene(curtain(), last=3))
    island = simulation.islands[0]
    system, h = island.system, 0.04
    moved = replace(
        State.at_rest(system.rest), velocities=np.ones_like(system.rest), reference=np.ones_like(system.rest)
    )
    stopped = system.stationary_inputs()
    assert not carried_velocities(system, moved, stopped, h).any()
    (inputs,) = stopped
    going = (replace(inputs, end=inputs.start + 0.04 * X),)
    np.testing.assert_allclose(carried_velocities(system, State.at_rest(system.rest), going, h)[:, 0], 1.0, rtol=1e-9)


def test_preroll_starts_in_motion() -> None:
    """In wind a sheet starts where it hangs without it, or in the motion after its preroll."""
    forces = blown(wind(5.0))
    hanging = Simulation(scene(curtain(start_settled=True), last=2)).first_frame()
    for preroll in (0, 12):
        found = Simulation(scene(curtain(start_settled=True, forces=forces, preroll=preroll), last=2)).first_frame()
        is_hanging = np.allclose(found.state.positions, hanging.state.positions, rtol=0, atol=1e-9)
        assert is_hanging == (preroll == 0)
        assert bool(np.abs(found.state.velocities).max() > 0.05) == (preroll > 0)


def test_other_bodies_keep_wind_as_acceleration() -> None:
    """Air 0, and the dampings of papers, leave wind a uniform push."""
    pushed = paths(fabric(air=0.0, forces=lambda frame: ExternalForces(NOWHERE, (wind(1.0),))), 6)
    papers = paths(
        fabric(air=1.0, forces=lambda frame: ExternalForces(NOWHERE, (wind(1.0),)), damping_by="RAYLEIGH"), 6
    )
    for found in (pushed, papers):
        np.testing.assert_allclose(np.diff(found[:, :, 0].mean(axis=1), n=2) * 24.0**2, 8.0, rtol=1e-6)
