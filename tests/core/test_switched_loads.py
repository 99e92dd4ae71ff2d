"""A load that is switched within a shot: the body rests when the law for the equilibrium under the new load does."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest

from animated import AnimatedBody
from builders import DOWN, scene, wire
from dampsim.core.fields.field import ExternalForces, Falloff, ForceField, ForceFieldShape, ForceFieldType
from dampsim.core.geometry.mesh.surface import Surface
from dampsim.core.objective.step_potential import ThetaWeights, step_start_forces
from dampsim.core.scene.body import Body
from dampsim.core.scene.parameters import BounceBy, DampingBy, Settings, Struts
from dampsim.core.settle.waveform import REST_FRACTION
from dampsim.core.simulation import load_changes
from dampsim.core.simulation.body_forces import BodyLoad
from dampsim.core.simulation.field_equilibrium import FieldEquilibrium, find_field_equilibrium
from dampsim.core.simulation.load_changes import LoadVersions
from dampsim.core.simulation.simulation import Simulation
from dampsim.core.solvers.modes import mass_scaled_stiffness
from dampsim.core.system.state import History, State
from dampsim.core.system.system import System
from settle_cases import pinned_body
from shapes import horn

FPS, SWITCH, SUBSTEPS = 24.0, 3.0, 2


def dialled(body: Body, settle: float, bounce: float) -> Body:
    dials = {"settle": settle, "bounce": bounce, "bounce_by": BounceBy.DIALLED, "substeps": SUBSTEPS}
    return replace(body, settings=replace(body.settings, **dials))


def sheet(width: float, length: float, pinned: float, **settings: float) -> Body:
    """Return a sheet that reaches sideways from its pinned part, and is slightly curved."""
    u, v = np.meshgrid(np.linspace(0.0, 1.0, 8), np.linspace(-0.5, 0.5, 6), indexing="ij")
    points = np.stack([length * u, width * v, -0.25 * v**2], axis=2).reshape(-1, 3)
    corner = (6 * np.arange(7)[:, None] + np.arange(5)).ravel()
    triangles = np.concatenate([corner[:, None] + [0, 6, 7], corner[:, None] + [0, 7, 1]])
    pins = (u.ravel() <= pinned).astype(float)
    return Body(Surface("Sheet", points, triangles), pins, Settings(**settings), kind="CLOTH")  # type: ignore[arg-type]


def truss(settle: float, bounce: float, stiffness: float = 150.0) -> Body:
    """Return a crooked tube whose edges are springs, with struts across its faces."""
    t, angles = np.linspace(0.0, 1.0, 9), np.linspace(0.0, 2.0 * np.pi, 7)[:6]
    along = np.stack([0.5 * t, 0.0 * t, -0.6 * t], axis=1)
    ring = 0.09 * np.cos(angles)[:, None] * [0.8, 0.0, 0.6] + 0.07 * np.sin(angles)[:, None] * [0.0, 1.0, 0.0]
    corner, turn = 6 * np.arange(8)[:, None], np.arange(6)
    low, next_low = corner + turn, corner + (turn + 1) % 6
    triangles = np.stack([low, next_low, next_low + 6, low, next_low + 6, low + 6], axis=2).reshape(-1, 3)
    surface = Surface("Truss", (along[:, None] + ring).reshape(-1, 3), triangles)
    edges = np.unique(np.sort(triangles[:, [0, 1, 1, 2, 2, 0]].reshape(-1, 2), axis=1), axis=0)
    settings = Settings(stiffness=stiffness, struts=Struts.FACES)
    body = Body(surface, (np.arange(54) < 6).astype(float), settings, kind="SPRINGS", edges=edges)
    return dialled(body, settle, bounce)


def point_field(strength: float, place: tuple[float, float, float]) -> ExternalForces:
    """Return gravity and a force that pushes away from a place, and falls off with the distance."""
    kind, shape, axis = ForceFieldType.FORCE, ForceFieldShape.POINT, np.array([0.0, 0.0, 1.0])
    field = ForceField(kind, shape, np.array(place), axis, strength=strength, falloff=Falloff(power=1.0))
    return ExternalForces(DOWN, (field,))


def vortex(strength: float) -> ExternalForces:
    """Return gravity and a vortex behind a horn, which falls off with the distance from its axis."""
    kind, shape, place, axis = ForceFieldType.VORTEX, ForceFieldShape.POINT, np.array([0.0, -1.5, 0.0]), np.eye(3)[0]
    field = ForceField(kind, shape, place, axis, strength=strength, falloff=Falloff(power=1.0))
    return ExternalForces(DOWN, (field,))


def upright_strand(settle: float, bounce: float) -> Body:
    t = np.linspace(0.0, 1.0, 11)
    points = 0.25 * np.stack([0.1 * t, 0.1 * t**2, t], axis=1)
    return dialled(wire("Strand", points, (0, 1), thickness=8.0, density=500.0, stiffness=2e4), settle, bounce)


def switched(body: Body, before: ExternalForces, after: ExternalForces) -> tuple[Simulation, np.ndarray]:
    """Return a simulation with another load from the switch on, and the shapes of its frames."""
    return keyed(body, lambda frame: after if frame > SWITCH else before)


def keyed(body: Body, load: Callable[[float], ExternalForces]) -> tuple[Simulation, np.ndarray]:
    """Return a simulation with a load at each frame, and the shapes of its frames."""
    animated = AnimatedBody(
        body.surface, body.pins, body.settings, kind=body.kind, edges=body.edges, external_forces=load
    )
    last = int(SWITCH + 2.5 * body.settings.settle)
    simulation = Simulation(scene(animated, fps=FPS, last=last))
    return simulation, np.array([frame.shapes[body.name] for frame in simulation.frames()])


def law_after_ramp(simulation: Simulation, ramp: float) -> float:
    """Return the frames from the start of a load that grows for so many frames until the law's answer rests."""
    (law,), step = simulation.controls()[0].laws, 0.01
    x, v, away = 0.0, 0.0, []
    for n in range(int(8.0 * simulation.scene.bodies[0].settings.settle / step)):
        load = min((n + 0.5) * step / ramp, 1.0)
        a, w = law.decay / FPS, law.frequency / FPS  # type: ignore[attr-defined]
        v += step * ((a**2 + w**2) * (load - x) - 2.0 * a * v)
        x += step * v
        away.append(abs(1.0 - x))
    return step * float(np.flatnonzero(np.array(away) > REST_FRACTION)[-1] + 1)


def frames_to_rest(shapes: np.ndarray) -> float:
    """Return the frames from the middle of the step of the switch until no vertex is far from its last position."""
    away = np.linalg.norm(shapes[int(SWITCH) - 1 :] - shapes[-1], axis=2).max(axis=1)
    limit = REST_FRACTION * away.max()
    last = int(np.flatnonzero(away > limit)[-1])
    return last + float((away[last] - limit) / (away[last] - away[last + 1])) - 0.5 / SUBSTEPS


SIDEWAYS = np.array([1.0, 0.5, 0.0])
PLAIN, WEIGHTLESS = ExternalForces(DOWN), ExternalForces(0.0 * DOWN)
FIELD = point_field(4.0, (0.0, -3.0, 0.0))
CASES = {
    "hair gets its weight": (lambda: upright_strand(24.0, 0.0), WEIGHTLESS, PLAIN),
    "hair gets its weight, with bounce": (lambda: upright_strand(27.0, 35.0), WEIGHTLESS, PLAIN),
    "solid loses a field": (lambda: dialled(pinned_body(horn(), 0.1, stiffness=60.0), 30.0, 20.0), FIELD, PLAIN),
    "shell gets a field": (
        lambda: dialled(sheet(0.4, 0.6, 0.2, stiffness=2e5, thickness=3.0, density=300.0, bending=30.0), 26.0, 0.0),
        PLAIN,
        point_field(6000.0, (0.0, 0.0, -2.0)),
    ),
    "shell gets a steep field": (
        lambda: dialled(sheet(0.4, 0.6, 0.2, stiffness=2e5, thickness=3.0, density=300.0, bending=30.0), 26.0, 50.0),
        PLAIN,
        point_field(3e4, (0.0, 0.0, -1.0)),
    ),
    "solid gets a vortex": (
        lambda: dialled(pinned_body(horn(), 0.1, stiffness=60.0), 30.0, 20.0),
        PLAIN,
        vortex(10.0),
    ),
    "sheet gets a field": (
        lambda: dialled(sheet(0.5, 0.6, 0.0, stiffness=600.0, thickness=1.0, density=200.0), 24.0, 0.0),
        PLAIN,
        FIELD,
    ),
    "truss gets a side load": (lambda: truss(28.0, 50.0), PLAIN, ExternalForces(DOWN + 3.0 * SIDEWAYS)),
    "truss loses its weight": (lambda: truss(30.0, 35.0, 60.0), PLAIN, WEIGHTLESS),
}


@pytest.mark.parametrize("name", CASES)
def test_switched_load_rests_on_time(name: str) -> None:
    """Hair that gets its weight rested after 44 of 24 frames, and a solid in a vortex after 63 of 26."""
    make, before, after = CASES[name]
    simulation, shapes = switched(make(), before, after)
    (law,) = simulation.controls()[0].laws
    settle = simulation.scene.bodies[0].settings.settle
    expected = settle - FPS * law.time_to_peak  # type: ignore[attr-defined]
    assert frames_to_rest(shapes) == pytest.approx(expected, abs=max(1.0, 0.05 * settle))


def version_and_loads(body: Body, forces: ExternalForces) -> tuple[LoadVersions, list[BodyLoad]]:
    """Return the load versions of a body, and its loads in forces."""
    simulation = Simulation(scene(body, fps=FPS, last=2))
    version = simulation.version_at(simulation.sample_frame(1).samples[-1]).rest_shapes.version_for(History())
    return version.loads, [replace(simulation.statics.first_loads(0)[0], external_forces=forces)]


def test_field_equilibrium_balances_forces() -> None:
    """In a vortex that bends a horn by four fifths of its size, the elastic force balances the field in place."""
    versions, loads = version_and_loads(dialled(pinned_body(horn(), 0.1, stiffness=60.0), 12.0, 0.0), vortex(10.0))
    statics = versions.first.statics
    plain = [replace(one, external_forces=PLAIN) for one in loads]
    hanging = statics.equilibrium_under(0, plain)
    found = find_field_equilibrium(statics, 0, loads, hanging)
    assert found is not None
    system, factors = statics.islands[0].system, statics.stiffness_factors(0)
    free = system.regions[0].free
    field = statics.acceleration_under(0, loads, statics.fields_at(0, found.state))
    elastic = factors[0] * step_start_forces(
        system, found.state, statics.pose_evaluator.stationary_inputs(statics.islands[0], statics.first_sample),
        factors, 1.0, ThetaWeights(1.0, 0.0),
    ).elastic_gradient  # fmt: skip
    weight = system.mass[free][:, None] * field[free]
    assert np.abs(found.state.positions - hanging.positions).max() > 0.8
    assert np.linalg.norm(elastic[free] - weight) < 1e-3 * np.linalg.norm(weight)
    assert found.is_stable(system, factors)
    pull = 2.0 * system.effective_eigenvalue(system.regions[0], factors) * np.eye(3)
    assert not replace(found, gradient=found.gradient + pull).is_stable(system, factors)


def test_unstable_equilibrium_is_not_held(monkeypatch: pytest.MonkeyPatch) -> None:
    """The accelerations of an equilibrium that the body would leave are not held."""
    body = dialled(pinned_body(horn(), 0.1, stiffness=60.0), 12.0, 0.0)
    found = []
    for is_stable in (True, False):
        monkeypatch.setattr(FieldEquilibrium, "is_stable", lambda *_, answer=is_stable: answer)
        versions, loads = version_and_loads(body, vortex(10.0))
        found.append(versions.version_for(0, loads, loads, [body.settings]).held_accelerations)
    assert found[0] is not None
    assert found[1] is None


def test_moved_pins_feel_field() -> None:
    """The accelerations in equilibrium are held only where the pins were at the first frame."""
    body = dialled(pinned_body(horn(), 0.1, stiffness=60.0), 12.0, 0.0)
    versions, loads = version_and_loads(body, FIELD)
    statics = versions.first.statics
    pose = statics.pose_evaluator.island_pose(statics.islands[0], statics.first_sample)
    moved = tuple(replace(one, targets=one.targets + 0.01) for one in pose)
    still, moving = (versions.version_for(0, loads, loads, [body.settings], (pose, end)) for end in (pose, moved))
    assert still.held_accelerations is not None
    assert moving.held_accelerations is None
    inputs = statics.pose_evaluator.stationary_inputs(statics.islands[0], statics.first_sample)
    (held,), (free,) = (one.with_steady_load(statics.islands[0], inputs) for one in (still, moving))
    assert free.acceleration is None
    np.testing.assert_array_equal(held.acceleration, still.held_accelerations)


def test_field_is_held_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    """With another stiffness, in wind or touched, a body rests elsewhere than in the field alone."""
    body = dialled(pinned_body(horn(), 0.1, stiffness=60.0), 12.0, 0.0)
    versions, loads = version_and_loads(body, FIELD)
    state, plain = versions.first.statics.posed_state(0), [body.settings]
    stiffer = [replace(body.settings, stiffness=2.0 * body.settings.stiffness)]
    assert versions.version_for(0, loads, loads, plain, state=state).held_accelerations is not None
    assert versions.version_for(0, loads, loads, stiffer, state=state).held_accelerations is None
    monkeypatch.setattr(System, "touched_regions", lambda *_: frozenset({0}))
    assert versions.version_for(0, loads, loads, plain, state=state).held_accelerations is None
    monkeypatch.undo()
    monkeypatch.setattr(BodyLoad, "has_wind", True)
    assert versions.version_for(0, loads, loads, plain, state=state).held_accelerations is None


@pytest.mark.parametrize("gravity", [DOWN, 0.0 * DOWN], ids=["hanging", "weightless"])
def test_truss_follows_whole_tangent(gravity: np.ndarray) -> None:
    """A truss has the eigenvalue of its whole tangent and retains forces; without diagonals, it is a slack net."""
    body = truss(24.0, 30.0)
    assert body.edges is not None
    # The vertices of a diagonal lie on neighbouring rings, at different angles.
    is_diagonal = np.ptp(body.edges // 6, axis=1).astype(bool) & np.ptp(body.edges % 6, axis=1).astype(bool)
    plain = replace(body.settings, struts=Struts.NONE)
    net = replace(body, edges=body.edges[~is_diagonal], settings=plain)
    for own in (body, net):
        simulation = Simulation(scene(own, fps=FPS, last=2, gravity=gravity))
        (law,), system = simulation.controls()[0].laws, simulation.islands[0].system
        (region,), factors = system.regions, simulation.stiffness_factors(0)
        state = State.at_rest(system.rest)
        if gravity.any():
            state = simulation.statics.equilibrium_under(0, simulation.statics.first_loads(0))
        block, _ = mass_scaled_stiffness(system.tangent(state, factors), system.mass, region.free)
        least = float(np.linalg.eigvalsh(block.toarray())[0])
        assert region.is_truss == (own is body)
        assert not region.is_truss or law.eigenvalue == pytest.approx(least, rel=1e-3)
        assert law.can_snap_taut != region.is_truss  # type: ignore[attr-defined]


@pytest.mark.slow
def test_solid_follows_keyed_load() -> None:
    """A solid rests when the law's answer to a load that grows over 6 frames does. It rested after 32 of 39 frames."""
    settle, ramp = 40.0, 6.0
    body = dialled(pinned_body(horn(), 0.1, stiffness=60.0), settle, 35.0)

    def pull(frame: float) -> ExternalForces:
        return ExternalForces(DOWN + 0.6 * float(np.clip((frame - SWITCH) / ramp, 0.0, 1.0)) * SIDEWAYS)

    simulation, shapes = keyed(body, pull)
    found = frames_to_rest(shapes) + 0.5 / SUBSTEPS
    assert found == pytest.approx(law_after_ramp(simulation, ramp), abs=0.05 * settle)


def test_stepped_load_searches_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    """A load that steps in each frame keeps the law of the first frame, whatever the number of substeps is."""
    body, searches = upright_strand(12.0, 0.0), []
    stepped = AnimatedBody(
        body.surface, body.pins, body.settings, kind=body.kind, edges=body.edges,
        external_forces=lambda frame: ExternalForces((1.0 + 0.02 * math.ceil(frame - 1e-6)) * DOWN),
    )  # fmt: skip
    monkeypatch.setattr(load_changes, "regions_under_loads", lambda *_: searches.append(1))
    assert Simulation(scene(stepped, fps=FPS, last=2)).sample_frame(2).samples[1:]
    assert len(list(Simulation(scene(stepped, fps=FPS, last=5)).frames())) == 5
    assert not searches


def test_fields_that_end_restore_law() -> None:
    """Without the fields of the first frame, the law is the one that the weight gives, at no further cost."""
    body = dialled(pinned_body(horn(), 0.1, stiffness=60.0), 12.0, 0.0)
    simulation, _ = switched(body, FIELD, PLAIN)
    version = simulation.version_at(simulation.sample_frame(1).samples[-1]).rest_shapes.version_for(History())
    settings = simulation.scene.settings
    (before,) = simulation.statics.first_loads(0)
    after = replace(before, external_forces=PLAIN)
    assert version.loads.version_for(0, [after], [after], settings).dials is simulation.dials


def test_changing_load_keeps_first_law() -> None:
    """While a load is keyed, the law stays that of the first frame. Then it is that of the new load, found once."""
    body = upright_strand(12.0, 0.0)
    simulation, _ = switched(body, WEIGHTLESS, PLAIN)
    version = simulation.version_at(simulation.sample_frame(1).samples[-1]).rest_shapes.version_for(History())
    settings = simulation.scene.settings
    (before,) = simulation.statics.first_loads(0)
    half, after = (replace(before, external_forces=ExternalForces(part * DOWN)) for part in (0.5, 1.0))
    assert version.loads.version_for(0, [half], [after], settings).dials is simulation.dials
    found = version.loads.version_for(0, [after], [after], settings)
    assert found.dials is not simulation.dials
    assert version.loads.version_for(0, [after], [after], settings) is found


def test_more_weight_keeps_cloth_slack() -> None:
    """Cloth that its weight holds stays slack under ten times the weight. It counted as stiff."""
    body = dialled(sheet(0.5, 0.6, 0.0, stiffness=600.0, thickness=1.0, density=200.0), 24.0, 30.0)
    simulation, _ = switched(body, PLAIN, PLAIN)
    version = simulation.version_at(simulation.sample_frame(1).samples[-1]).rest_shapes.version_for(History())
    after = replace(simulation.statics.first_loads(0)[0], external_forces=ExternalForces(10.0 * DOWN))
    found = version.loads.version_for(0, [after], [after], simulation.scene.settings)
    (law,) = found.dials.controls(0, simulation.scene.settings, SUBSTEPS).laws
    assert law.eigenvalue > 3.0 * simulation.controls()[0].laws[0].eigenvalue
    assert law.can_snap_taut  # type: ignore[attr-defined]


def test_many_islands_keep_their_versions() -> None:
    """The cached versions of one island are not lost to those of the others."""
    strand = upright_strand(12.0, 0.0)
    bodies = [replace(strand, surface=replace(strand.surface, name=f"Strand {k}")) for k in range(9)]
    simulation = Simulation(scene(*bodies, fps=FPS, last=2))
    version = simulation.version_at(simulation.sample_frame(1).samples[-1]).rest_shapes.version_for(History())
    loads = [
        [replace(simulation.statics.first_loads(k)[0], external_forces=ExternalForces(0.5 * DOWN))] for k in range(9)
    ]
    first, second = (
        [version.loads.version_for(k, one, one, simulation.scene.settings[k : k + 1]) for k, one in enumerate(loads)]
        for _ in range(2)
    )
    assert first[0].dials is not simulation.dials
    assert all(one is other for one, other in zip(first, second, strict=True))


def test_edge_of_field_has_no_gradient() -> None:
    """Nodes at the edge of a field have a gradient of at most that of the unbounded field."""
    body = dialled(sheet(0.5, 0.6, 0.0, stiffness=600.0, thickness=1.0, density=200.0), 12.0, 0.0)
    statics = Simulation(scene(body, fps=FPS, last=2)).statics
    posed, (first,), (field,) = statics.posed_state(0), statics.first_loads(0), FIELD.fields
    distance = float(np.linalg.norm(posed.positions[20] - field.location))
    edge = replace(field, falloff=replace(field.falloff, max=distance + 1e-5))
    unbounded, bounded = (
        statics.fields_at(0, posed).block_gradient(0, replace(first, external_forces=ExternalForces(DOWN, (one,))))
        for one in (field, edge)
    )
    assert np.abs(bounded).max() > 0.0
    assert np.abs(bounded).max() <= np.abs(unbounded).max()
    y = posed.positions[:, 1]
    inside, outside = (one & (np.abs(y - y[20]) > 0.05) for one in (y < y[20], y > y[20]))
    np.testing.assert_allclose(bounded[inside], unbounded[inside], rtol=1e-9)
    assert not bounded[outside].any()


@pytest.mark.parametrize("rounding", [0.0, 1e-15])
def test_balanced_field_changes_law(rounding: float) -> None:
    """A field whose mean over the body is zero, but for rounding errors, still presses it."""
    flat = sheet(1.0, 1.0, 0.0, stiffness=500.0, thickness=1.0, density=200.0)
    vertices = flat.surface.vertices * [1.0, 1.0, 0.0] - [0.5, 0.0, 0.0]
    pins = (np.abs(vertices).max(axis=1) < 0.2).astype(float)
    vertices += rounding * np.random.default_rng(106).standard_normal(vertices.shape)
    body = dialled(replace(flat, surface=replace(flat.surface, vertices=vertices), pins=pins), 24.0, 30.0)
    simulation = Simulation(scene(body, fps=FPS, last=2, gravity=0.0 * DOWN))
    version = simulation.version_at(simulation.sample_frame(1).samples[-1]).rest_shapes.version_for(History())
    forces = ExternalForces(0.0 * DOWN, point_field(4.0, (0.0, 0.0, 0.0)).fields)
    after = replace(simulation.statics.first_loads(0)[0], external_forces=forces)
    found = version.loads.version_for(0, [after], [after], simulation.scene.settings)
    (law,), (first,) = (one.controls(0, simulation.scene.settings, 2).laws for one in (found.dials, simulation.dials))
    assert law.eigenvalue != pytest.approx(first.eigenvalue, rel=0.1)
    assert law.can_snap_taut  # type: ignore[attr-defined]


@pytest.mark.parametrize(
    "dials",
    [{"bounce_by": BounceBy.NATURAL}, {"damping_by": DampingBy.TAU_GAMMA}, {"damping_by": DampingBy.TAU_KAPPA}],
    ids=["natural", "gamma", "kappa"],
)
def test_laws_without_eigenvalue_stay(dials: dict[str, object]) -> None:
    """A natural Bounce has the inertia of nature, and dampings of the papers are given directly."""
    body = upright_strand(12.0, 0.0)
    body = replace(body, settings=replace(body.settings, **dials))
    simulation, _ = switched(body, WEIGHTLESS, PLAIN)
    version = simulation.version_at(simulation.sample_frame(1).samples[-1]).rest_shapes.version_for(History())
    (before,) = simulation.statics.first_loads(0)
    after = replace(before, external_forces=PLAIN)
    found = version.loads.version_for(0, [after], [after], simulation.scene.settings)
    assert found.dials is simulation.dials


def test_wind_on_air_needs_no_version() -> None:
    """Wind does not accelerate cloth with Air, so that other winds need no other law."""
    body = dialled(sheet(0.5, 0.6, 0.0, stiffness=600.0, thickness=1.0, density=200.0, air=1.0), 12.0, 0.0)
    simulation, _ = switched(body, PLAIN, PLAIN)
    version = simulation.version_at(simulation.sample_frame(1).samples[-1]).rest_shapes.version_for(History())
    (before,), settings, axis = simulation.statics.first_loads(0), simulation.scene.settings, np.array([0.0, 0.0, 1.0])
    found = []
    for strength in (5.0, 20.0):
        wind = ForceField(ForceFieldType.WIND, ForceFieldShape.PLANE, np.zeros(3), axis, strength=strength)
        load = [replace(before, external_forces=ExternalForces(0.5 * DOWN, (wind,)))]
        found.append(version.loads.version_for(0, load, load, settings))
    assert found[0] is found[1]
    assert found[0].dials is not simulation.dials


def test_noisy_field_has_no_steady_load() -> None:
    """A field that changes by itself has no equilibrium, which is then not searched."""
    body = dialled(sheet(0.5, 0.6, 0.0, stiffness=600.0, thickness=1.0, density=200.0), 12.0, 0.0)
    simulation, _ = switched(body, PLAIN, PLAIN)
    version = simulation.version_at(simulation.sample_frame(1).samples[-1]).rest_shapes.version_for(History())
    (before,) = simulation.statics.first_loads(0)
    for noise in (0.0, 1.0):
        (field,) = FIELD.fields
        forces = ExternalForces(DOWN, (replace(field, noise=noise),))
        load = replace(before, external_forces=forces)
        found = version.loads.version_for(0, [load], [load], simulation.scene.settings)
        assert (found.steady_load is None) == (noise > 0.0)
