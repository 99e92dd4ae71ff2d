"""Muscles and sensors: the controller rule of [Ctl], spring forces, and identical bytes after a kill."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import creatures
import numpy as np
import pytest
from creatures import distance_walked, frames, looper, walk_scene
from killed_bakes import frame_bytes_of_bake, kill_bake

from builders import scene, static_body, wire, wire_cube
from dampsim.core.base.errors import DampSimError
from dampsim.core.contact.contact_history import CORNER_KINDS, POINT, ContactHistory
from dampsim.core.contact.contact_history import EDGE as EDGE_CONTACT
from dampsim.core.frames.cache import FrameCache
from dampsim.core.frames.frame import history_arrays, history_from_arrays
from dampsim.core.geometry.mesh.surface import Surface
from dampsim.core.measure.contact_results import contact_summary
from dampsim.core.measure.report import BodyContactSummary, ShotReport, WalkerPose
from dampsim.core.scene.body import Body, check_body
from dampsim.core.scene.fingerprint import cache_inputs
from dampsim.core.scene.muscles import (
    MUSCLE_OVERRIDES,
    Controller,
    Muscle,
    MuscleOverride,
    Sensor,
    SensorInputs,
    SensorType,
    check_controller,
)
from dampsim.core.scene.scene import Collider, Scene
from dampsim.core.simulation.muscle_control import MuscleControllers, next_switch_state, sensor_value
from dampsim.core.simulation.simulation import Simulation
from dampsim.core.system.state import BlockHistory, History, MuscleHistory
from dampsim.core.system.switched_springs import SpringDampers, SwitchedSprings
from references.muscles import ReferenceController, damped_chain, damped_spring

ZERO_GRAVITY = np.zeros(3)


def test_random_controllers_match_reference() -> None:
    """500 random controllers follow the rule of [Ctl], even when their state is saved and restored halfway."""
    rng = np.random.default_rng(5)
    switched = 0
    for _ in range(500):
        muscles, sensors = int(rng.integers(1, 6)), int(rng.integers(0, 6))
        # Quarters add up exactly, so sums often equal the threshold.
        weights = rng.integers(-4, 9, (muscles, sensors)) / 4.0
        thresholds = rng.integers(-2, 5, muscles) / 4.0
        delays = rng.integers(0, 5, muscles)
        lows, highs = rng.uniform(0.5, 1.0, sensors), rng.uniform(1.0, 1.5, sensors)
        senses = rng.choice(list(SensorType), sensors)
        edge = np.array([[0, 1]])
        controller = Controller(
            tuple(
                Muscle(str(k), edge, threshold=float(thresholds[k]), delay=int(delays[k]), weights=tuple(weights[k]))
                for k in range(muscles)
            ),
            tuple(
                Sensor(str(k), SensorType(senses[k]), float(lows[k]), float(highs[k]), edge, np.array([0]), 0)
                for k in range(sensors)
            ),
        )
        reference = [ReferenceController(tuple(weights[k]), thresholds[k], int(delays[k])) for k in range(muscles)]
        kept = MuscleHistory(np.zeros(muscles, dtype=bool), np.zeros(muscles))
        for frame in range(40):
            values = rng.uniform(0.4, 1.6, sensors) * (rng.random(sensors) < 0.8)
            forced = rng.choice(3, muscles, p=[0.9, 0.05, 0.05])
            if frame == 20:
                # Restore the state as from a cache.
                stored = history_arrays(History({"Looper": BlockHistory(muscles=kept)}))
                kept = history_from_arrays(stored).block("Looper").muscles
            after = next_switch_state(controller, kept, values, SensorInputs(forced), 24.0)
            reads = [
                bool(value > 0.0) if sense == "CONTACT" else bool(low <= value <= high)
                for value, sense, low, high in zip(values, senses, lows, highs, strict=True)
            ]
            for one, how in zip(reference, forced, strict=True):
                one.frame(reads, MUSCLE_OVERRIDES[how])
            switched += int((after.is_on != kept.is_on).sum())
            kept = after
            assert kept.is_on.tolist() == [one.on for one in reference]
            assert kept.due_ticks.tolist() == [float(one.wished) for one in reference]
    # Make sure that switching was compared.
    assert switched > 5000


def hanging_muscle(muscle: Muscle, forced: MuscleOverride = MuscleOverride.ON, **more: object) -> Body:
    """Return a hanging wire of 1 m that is one muscle, with an override from the second frame on."""
    points = np.array([[0.0, 0.0, 0.0], [0.0, 0.0, -1.0]])
    watched = SensorInputs(np.array([MUSCLE_OVERRIDES.index(forced)]))
    dials = {"stiffness": 1000.0, "thickness": 20.0, "density": 1000.0, **more}
    body = wire("Wire", points, (0,), controller=Controller((muscle,)), **dials)
    return replace(body, sensor_inputs=lambda frame: watched)


EDGE = np.array([[0, 1]])


def stiffness(body: Body) -> float:
    """Return the stiffness E A / L of a wire of 1 m, N/m."""
    return 1e3 * body.settings.stiffness * np.pi * (0.5e-3 * body.settings.thickness) ** 2


def mass(body: Body) -> float:
    """Return the mass of its lower half, kg."""
    return 0.5 * body.settings.density * np.pi * (0.5e-3 * body.settings.thickness) ** 2


@pytest.mark.parametrize("kind", ["SPRINGS", "ROPE"])
@pytest.mark.parametrize("forced", [MuscleOverride.ON, MuscleOverride.OFF])
def test_muscle_hangs_at_spring_length(forced: MuscleOverride, kind: str) -> None:
    body = hanging_muscle(Muscle("Pull", EDGE, 0.6, stiffness=0.5, stiffness_on=0.25), forced, settle=4.0, bounce=0.0)
    body = replace(body, kind=kind)
    found = frames(scene(body, last=60))[-1].surface[1, 2]
    length, part = (0.6, 0.25) if forced is MuscleOverride.ON else (1.0, 0.5)
    # The tolerance is that of a bake.
    assert found == pytest.approx(-length - 9.81 * mass(body) / (part * stiffness(body)), abs=1e-5)


@pytest.mark.parametrize("integrator", ["BACKWARD_EULER", "LINEAR_BACKWARD_EULER"])
@pytest.mark.parametrize(("kind", "damper"), [("SPRINGS", 0.0), ("SPRINGS", 0.05), ("SPRINGS", 0.4), ("ROPE", 0.05)])
def test_muscle_matches_damped_spring(kind: str, damper: float, integrator: str) -> None:
    muscle = Muscle("Pull", EDGE, 0.7, stiffness_on=0.1, damping=9.0, damping_on=damper)
    body = replace(
        hanging_muscle(muscle, damping_by="POINT", gamma=0.0, integrator=integrator, accuracy="TIGHT"), kind=kind
    )
    found = [-one.surface[1, 2] for one in frames(scene(body, last=40, gravity=ZERO_GRAVITY))]
    k = 0.1 * stiffness(body)
    want = damped_spring(mass(body), k, k * damper, 0.7, 1.0, 1.0 / 24.0, 39)
    # Frames are in single precision; steps stop at an error of about 1e-6 of the displacement.
    assert np.abs(np.array(found) - want).max() < 2e-5
    assert np.ptp(want) > 0.2


@pytest.mark.parametrize("integrator", ["BACKWARD_EULER", "LINEAR_BACKWARD_EULER"])
@pytest.mark.parametrize("kind", ["SPRINGS", "ROPE"])
@pytest.mark.parametrize("dampers", [(0.0, 0.0), (3.0, 0.0), (0.0, 5.0), (1.0, 8.0)])
def test_spring_dampers_match_two_masses(dampers: tuple[float, float], kind: str, integrator: str) -> None:
    """Each of two hanging springs has a damper of its own, whatever the order of the edges and the stiffness."""
    dials = {"stiffness": 10.0, "thickness": 30.0, "density": 1000.0, "bending": 0.0, "start_settled": False}
    dials |= {"damping_by": "POINT", "gamma": 0.0, "integrator": integrator, "accuracy": "TIGHT"}
    body = wire("Wire", np.array([[0.0, 0.0, 0.0], [0.0, 0.0, -1.0], [0.0, 0.0, -2.0]]), (0,), **dials)
    body = replace(body, kind=kind, edges=body.edges[::-1, ::-1], dampers=np.array(dampers[::-1]))
    found = np.array([-one.surface[1:, 2] - [1.0, 2.0] for one in frames(scene(body, last=60))])
    k, m = stiffness(body), mass(body)
    wanted = np.array(damped_chain((2.0 * m, m), (k, k), dampers, 9.81, 1.0 / 24.0, 59))
    # Frames are in single precision; steps stop at an error of about 1e-6 of the displacement.
    assert np.abs(found - wanted).max() < 1e-5 * np.abs(wanted).max() + 1e-6
    assert np.ptp(wanted[:, 1]) > 0.2


def test_rope_shortens_and_recovers() -> None:
    """A rope becomes shorter with its muscles, and recovers its length when they are off."""
    z = -np.linspace(0.0, 1.0, 11)
    k = np.arange(10)
    surface = Surface("Worm", np.column_stack([0.0 * z, 0.0 * z, z]), np.zeros((0, 3), dtype=np.int64))
    dials = {"thickness": 10.0, "stiffness": 1e4, "density": 1000.0, "settle": 6.0, "bounce": 0.0}
    body = static_body(surface, np.arange(11) == 0, kind="ROPE", edges=np.stack([k, k + 1], 1), **dials)
    how = {True: MUSCLE_OVERRIDES.index(MuscleOverride.ON), False: MUSCLE_OVERRIDES.index(MuscleOverride.OFF)}
    body = replace(
        body,
        controller=Controller((Muscle("Pull", np.stack([k[3:7], k[3:7] + 1], 1), 0.5),)),
        sensor_inputs=lambda frame: SensorInputs(np.array([how[2.0 <= frame < 30.0]])),
    )
    simulation = Simulation(scene(body, last=60))
    found = list(simulation.frames())
    low = np.array([one.surface[10] for one in found])
    # Four tenths of the rope become half as long; its weight stretches it by less than a thousandth.
    assert low[28] == pytest.approx([0.0, 0.0, -0.8], abs=1e-3)
    assert low[-1] == pytest.approx([0.0, 0.0, -1.0], abs=1e-3)
    # A muscle at its new rest length counts as unstretched.
    assert contact_summary(simulation, found[28].state, "Worm") == BodyContactSummary()


def test_muscle_damper_ignores_rigid_motion() -> None:
    """Muscle dampers exert no force under a rigid motion; else their power is c times the squared length rate."""
    body = looper(2, damping=0.3)
    block = Simulation(walk_scene(body, 1.0)).system_of("Looper").blocks[0]
    (term,) = (one for one in block.terms if isinstance(one, SwitchedSprings))
    rng = np.random.default_rng(1)
    x = block.rest + 0.05 * rng.standard_normal(block.rest.shape)
    drag = term.damping_matrix(BlockHistory(), x)
    assert drag is not None
    spin = np.cross(rng.standard_normal(3), x) + rng.standard_normal(3)
    size = np.abs(drag).max()
    assert np.abs(drag @ spin.ravel()).max() < 1e-13 * size * 100.0
    # The force along an edge is c times the rate of its length.
    speed = rng.standard_normal(x.shape)
    force = (drag @ speed.ravel()).reshape(-1, 3)
    power = 0.0
    rest = np.linalg.norm(block.rest[block.groups[0][:, 0]] - block.rest[block.groups[0][:, 1]], axis=1)
    for a, b, length in zip(*block.groups[0].T, rest, strict=True):
        ends = {(0, 2), (1, 3), (2, 4), (3, 5), (0, 3), (1, 2), (2, 5), (3, 4)}
        if tuple(sorted((int(a), int(b)))) in ends:
            unit = (x[a] - x[b]) / np.linalg.norm(x[a] - x[b])
            c = 0.3 * 0.1 * 1e5 * np.pi * 0.015**2 / length
            power += c * float(unit @ (speed[a] - speed[b])) ** 2
    assert float(np.vdot(force, speed)) == pytest.approx(power, rel=1e-10)


@pytest.mark.parametrize("on", [False, True])
def test_muscle_damper_on_and_off(on: bool) -> None:
    """The damper is Damping times Stiffness while off, and Damping On times Stiffness On while on."""
    muscle = Muscle("Pull", EDGE, 0.7, stiffness=0.5, stiffness_on=2.0, damping=0.3, damping_on=0.05)
    body = hanging_muscle(muscle)
    block = Simulation(scene(body, last=1)).islands[0].system.blocks[0]
    (term,) = (one for one in block.terms if isinstance(one, SwitchedSprings))
    drag = term.damping_matrix(BlockHistory(muscles=MuscleHistory(np.array([on]), np.zeros(1))), block.rest)
    assert drag is not None
    # The muscle hangs along z. Terms refer to 1e5 Pa.
    wanted = (2.0 * 0.05 if on else 0.5 * 0.3) * stiffness(body) * 1e5 / body.settings.young
    assert drag.toarray()[5, 5] == pytest.approx(wanted, rel=1e-9)
    assert drag.toarray()[5, 2] == pytest.approx(-wanted, rel=1e-9)
    assert drag.toarray()[4, 4] == 0.0


@pytest.mark.parametrize(("value", "wrong"), [(np.inf, "finite"), (np.nan, "finite"), (-1.0, "negative")])
def test_invalid_spring_dampers(value: float, wrong: str) -> None:
    body = wire_cube()
    with pytest.raises(DampSimError, match=f"Cube: one of its dampers is .*{wrong}"):
        check_body(replace(body, dampers=np.append(np.ones(11), value)))
    with pytest.raises(DampSimError, match="Cube: its dampers do not fit its edges"):
        check_body(replace(body, dampers=np.ones(11)))


def test_spring_dampers_conserve_momenta() -> None:
    """Their forces act along the edges, and have neither a sum nor a torque. The strongest of two on one edge acts."""
    rng = np.random.default_rng(5)
    body = replace(wire_cube(pins=np.zeros(8)), dampers=rng.uniform(0.0, 4.0, 12))
    coincident = replace(
        body, edges=np.concatenate([body.edges, body.edges[:3]]), dampers=np.append(body.dampers, [9.0, 0.0, 9.0])
    )
    x, v = body.surface.vertices + 0.1 * rng.standard_normal((8, 3)), rng.standard_normal((8, 3))
    unit = x[body.edges[:, 0]] - x[body.edges[:, 1]]
    unit /= np.linalg.norm(unit, axis=1)[:, None]
    rate = np.einsum("ei,ei->e", unit, v[body.edges[:, 0]] - v[body.edges[:, 1]])
    for one, damping in ((body, body.dampers), (coincident, [9.0, body.dampers[1], 9.0, *body.dampers[3:]])):
        block = Simulation(scene(one)).islands[0].system.blocks[0]
        (term,) = (each for each in block.terms if isinstance(each, SpringDampers))
        force = -(term.damping_matrix(BlockHistory(), x) @ v.ravel()).reshape(-1, 3)
        assert np.abs(force.sum(axis=0)).max() < 1e-12
        assert np.abs(np.cross(x, force).sum(axis=0)).max() < 1e-12
        assert float(np.vdot(force, v)) == pytest.approx(-float(np.asarray(damping) @ rate**2), rel=1e-10)


def test_muscle_stiffness_at_rest() -> None:
    """The preconditioner uses the stiffer of both states, and the first mode uses the state that is off."""
    soft, hard = (hanging_muscle(Muscle("Pull", EDGE, 0.7, stiffness_on=part)) for part in (0.2, 8.0))
    for body, most in ((soft, 1.0), (hard, 8.0)):
        block = Simulation(scene(body)).system_of("Wire").blocks[0]
        assert block.stiffness_at_rest(True)[5, 5] == pytest.approx(
            most * stiffness(body) / (body.settings.stiffness / 100.0)
        )
        assert block.stiffness_at_rest(False)[5, 5] == pytest.approx(
            stiffness(body) / (body.settings.stiffness / 100.0)
        )


@pytest.mark.slow
def test_sensors_measure_displayed_frame() -> None:
    target = np.array([1.0, 2.0, 0.5])
    feet, top = np.array([0, 1]), np.array([4, 5])
    sensors = (
        Sensor("Long", SensorType.LENGTH, 0.9, 1.1, edges=np.array([[0, 2], [1, 3]])),
        Sensor("Foot", SensorType.CONTACT, vertices=feet),
        Sensor("Top", SensorType.CONTACT, vertices=top),
        Sensor("Near", SensorType.DISTANCE, high=2.0, vertices=top, target=0),
    )
    body = looper()
    assert body.controller is not None
    muscles = tuple(replace(one, weights=(2.0, 0.0, 0.0, 0.0)) for one in body.controller.muscles)
    body = replace(
        body,
        controller=Controller(muscles, sensors),
        sensor_inputs=lambda frame: SensorInputs(np.zeros(2), target[None] + 0.01 * frame),
    )
    found = frames(walk_scene(body, 1.5))
    stood = False
    for one in found[1:]:
        values, x = one.state.history.block("Looper").sensors, one.surface
        rest = body.surface.vertices
        long, before = (np.linalg.norm(p[0] - p[2]) + np.linalg.norm(p[1] - p[3]) for p in (x, rest))
        # Stored shapes are in single precision.
        assert values[0] == pytest.approx(long / before, abs=1e-6)
        assert values[3] == pytest.approx(np.linalg.norm(x[top].mean(axis=0) - target - 0.01 * one.number), abs=1e-6)
        # Contact begins at a height of 0.5% of the body's size.
        reach = 0.005 * np.linalg.norm(np.ptp(rest, axis=0))
        assert values[1] == 0.0 or x[feet, 2].min() < reach
        assert values[2] == 0.0
        stood = stood or values[1] > 5.0
    assert stood


def test_length_sensor_is_relative_to_rest() -> None:
    """A length sensor returns the current length of its edges together over their length at rest."""
    body, sensor = looper(), Sensor("Long", SensorType.LENGTH, 0.9, 1.1, edges=np.array([[0, 2], [1, 3]]))
    rest = body.surface.vertices
    stretched = rest * np.array([1.3, 1.0, 1.0])
    lengths = [np.linalg.norm(x[0] - x[2]) + np.linalg.norm(x[1] - x[3]) for x in (stretched, rest)]
    found = sensor_value(body, sensor, stretched, np.zeros(len(rest)), None)
    assert found == pytest.approx(lengths[0] / lengths[1], rel=1e-12)
    assert lengths[1] != pytest.approx(1.0, abs=0.01)


def test_distance_sensor_from_centre_to_target() -> None:
    """A distance sensor measures from the centre of its vertices to its own target."""
    body, sensor = looper(), Sensor("Near", SensorType.DISTANCE, high=2.0, vertices=np.array([4, 5]), target=1)
    x, targets = body.surface.vertices, np.array([[9.0, 9.0, 9.0], [1.0, 2.0, 0.5]])
    found = sensor_value(body, sensor, x, np.zeros(len(x)), SensorInputs(np.zeros(2), targets))
    assert found == pytest.approx(float(np.sqrt(((0.5 * (x[4] + x[5]) - targets[1]) ** 2).sum())), rel=1e-12)


@pytest.mark.parametrize("kind", [POINT, *CORNER_KINDS])
def test_contact_sensor_counts_every_kind(kind: int) -> None:
    """The forces of a vertex on faces, edges and corners of a collider reach its sensor; those of edges do not."""
    made = walk_scene(looper(), 0.1)
    simulation = Simulation(made)
    (island,) = simulation.islands
    keys = np.array([[0, EDGE_CONTACT, 1, 5], [0, kind, 1, 7]])
    contacts = ContactHistory(keys, np.zeros((2, 3)), np.array([4.0, 3.0]), np.zeros(2))
    forces = MuscleControllers(made, simulation.assembly)._vertex_forces(island, 0, 0, contacts)
    assert forces.tolist() == [0.0, 3.0, *np.zeros(len(forces) - 2)]


def test_delay_scales_with_frame_rate() -> None:
    """A delay has the same duration in seconds at every frame rate."""
    controller = Controller((Muscle("A", EDGE, delay=6), Muscle("B", EDGE, delay=2, fps=48.0)))
    assert controller.delays(24.0).tolist() == [6.0, 1.0]
    assert controller.delays(60.0).tolist() == [15.0, 3.0]
    assert controller.delays(12.0).tolist() == [3.0, 1.0]


def test_preroll_switches_no_muscle() -> None:
    body = creatures.with_settings(looper(delay=0), preroll=12)
    first = Simulation(walk_scene(body, 0.5)).first_frame()
    history = first.state.history.block("Looper")
    assert history.muscles is None
    assert history.sensors is not None


def short_walk() -> Scene:
    return walk_scene(looper(delay=3), 1.5)


def roped() -> Scene:
    return walk_scene(replace(looper(delay=3), kind="ROPE"), 1.5)


@pytest.mark.slow
@pytest.mark.parametrize("shot", ["short_walk", "roped"])
def test_killed_muscle_bake_resumes_identically(shot: str, tmp_path: Path) -> None:
    folder, made = tmp_path / "killed", globals()[shot]
    assert 15 <= kill_bake(folder, "test_muscles", shot, 15) < 36
    whole = frame_bytes_of_bake(tmp_path / "whole", made())
    on = [FrameCache(tmp_path / "whole", "Looper").read(k).state.history.block("Looper").muscles for k in range(2, 36)]
    # Muscles switch both before and after the kill.
    assert all(len({one.is_on.tobytes() for one in part}) > 1 for part in (on[:14], on[15:]))
    assert frame_bytes_of_bake(folder, made()) == whole


def test_changed_muscle_is_reported() -> None:
    """A changed muscle is named among the changed inputs; a body without muscles has no such input."""
    body = looper()
    assert body.controller is not None
    muscles = (replace(body.controller.muscles[0], delay=9), *body.controller.muscles[1:])
    one, two, none = (
        cache_inputs(walk_scene(replace(body, controller=controller), 1.0))["bodies"]["Looper"]
        for controller in (body.controller, replace(body.controller, muscles=muscles), None)
    )
    assert {name for name in one if one[name] != two[name]} == {"the muscles"}
    assert "the muscles" not in none


def test_muscle_override_changes_frame_digest() -> None:
    body = hanging_muscle(Muscle("Pull", EDGE))
    there = Simulation(scene(body)).sample_frame(3).digests["Wire"]
    off = replace(
        body, sensor_inputs=lambda frame: SensorInputs(np.array([MUSCLE_OVERRIDES.index(MuscleOverride.OFF)]))
    )
    assert Simulation(scene(off)).sample_frame(3).digests["Wire"] != there


@pytest.mark.parametrize(
    ("muscle", "words"),
    [
        (Muscle("Pull", EDGE[:0]), "Wire: muscle Pull has no edges; select some in Edit Mode and press Assign"),
        (Muscle("Pull", EDGE, 0.0), "Wire: muscle Pull has no length or stiffness"),
        (Muscle("Pull", EDGE, damping=-1.0), "Wire: muscle Pull has a negative damping"),
        (Muscle("Pull", EDGE, weights=(1.0,)), "Wire: muscle Pull has 1 weights for 0 sensors"),
        (Muscle("Pull", np.array([[0, 0]])), "Wire: no edge of muscle Pull is simulated"),
    ],
)
def test_invalid_muscle_is_refused(muscle: Muscle, words: str) -> None:
    with pytest.raises(DampSimError, match=words):
        Simulation(scene(hanging_muscle(muscle)))


def test_shared_muscle_edge_is_refused() -> None:
    body = hanging_muscle(Muscle("Pull", EDGE))
    both = replace(body, controller=Controller((Muscle("Pull", EDGE), Muscle("Push", EDGE))))
    with pytest.raises(DampSimError, match="muscles Pull and Push share an edge"):
        Simulation(scene(both))


def test_incomplete_sensor_is_refused() -> None:
    for sensor, words in (
        (Sensor("Eye"), "sensor Eye has no edges"),
        (Sensor("Eye", SensorType.CONTACT), "sensor Eye has no vertices"),
        (Sensor("Eye", SensorType.DISTANCE, vertices=np.array([0])), "sensor Eye has no target"),
    ):
        with pytest.raises(DampSimError, match=words):
            check_controller("Wire", Controller((), (sensor,)))


@pytest.mark.parametrize(("front", "sign"), [("PLUS_X", -1.0), ("MINUS_X", 1.0), ("PLUS_Y", 0.0)])
def test_report_of_walk_along_front(front: str, sign: float) -> None:
    """The report states the path along the front as it is turned at that time; negative backward."""
    simulation = Simulation(walk_scene(looper(front=front), 0.1))
    first = simulation.first_frame().state
    turn = np.array([[0.0, -1.0, 0.0], [1.0, 0.0, 0.0], [0.0, 0.0, 1.0]])
    x = first.positions
    # Turned to the left, its x axis points along y. It then moves against y.
    states = [replace(first, positions=x @ turn.T), replace(first, positions=x @ turn.T - [0.0, 0.7, 0.0])]
    report = ShotReport.from_frames((k, contact_summary(simulation, one, "Looper")) for k, one in enumerate(states))
    assert report.walked == pytest.approx(sign * 0.7, abs=1e-9)


def test_turned_walker_follows_its_front() -> None:
    """A body that walks around a quarter circle covers its whole length along its front."""
    turns = np.linspace(0.0, 0.5 * np.pi, 91)
    poses = [WalkerPose((np.sin(t), 1.0 - np.cos(t), 0.0), (np.cos(t), np.sin(t), 0.0)) for t in turns]
    report = ShotReport.from_frames((k, BodyContactSummary(walker=one)) for k, one in enumerate(poses))
    assert report.walked == pytest.approx(0.5 * np.pi, rel=1e-3)


@pytest.mark.slow
def test_looper_grips_where_rough() -> None:
    """It walks on the rough half of a ground, and treads on the spot on the half that is painted as ice."""
    x = np.repeat(np.linspace(-9.0, 9.0, 10), 2)
    k = np.arange(0, 18, 2)
    triangles = np.concatenate([np.stack([k, k + 2, k + 1], 1), np.stack([k + 1, k + 2, k + 3], 1)])
    corners = np.stack([x, np.tile([-2.0, 2.0], 10), np.zeros(20)], 1)
    rough, ice = (
        distance_walked(
            frames(
                walk_scene(
                    looper(2), 3.0,
                    floor=Collider("Ground", corners + shift, triangles, roughness_map=np.where(x < 0.0, 1.0, 0.0)),
                )
            )
        )
        for shift in ([7.0, 0.0, 0.0], [-4.0, 0.0, 0.0])
    )  # fmt: skip
    assert rough > 1.0
    # Ice gives no push at all: the centre of mass stays, and the mean of the vertices nearly so.
    assert abs(ice) < 0.01


@pytest.mark.slow
def test_looper_walks_by_directional_friction() -> None:
    """A looper walks five metres in twelve seconds, and only because of the directional friction of its feet."""
    found = frames(walk_scene(looper(2)))
    assert distance_walked(found) > 5.0
    # For the other cases, half of the time is enough.
    half = 6.0
    there = distance_walked(found[: 1 + round(half * 24)])
    # With isotropic friction, each half of a stride undoes the other.
    for rough in (0.15, 0.9):
        assert (
            abs(
                distance_walked(
                    frames(walk_scene(creatures.with_settings(looper(2), friction=rough, friction_back=rough), half))
                )
            )
            < 0.25
        )
    # Twice the number of substeps changes the distance by less than a tenth.
    finer = distance_walked(frames(walk_scene(looper(2, substeps=4), half)))
    assert abs(finer - there) < 0.1 * there
