"""Links between bodies and their effect on motion."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from builders import DOWN, bar, gridded_box, run_to_end, scene, static_body, weld, wire
from dampsim.core.base.errors import SceneError
from dampsim.core.measure.calibrate import release_test
from dampsim.core.measure.curve import SettleCurve
from dampsim.core.measure.release import energies, linear_momentum
from dampsim.core.scene.body import Body
from dampsim.core.scene.parameters import Settings
from dampsim.core.scene.scene import Anchor, Link, LinkPoint, Scene
from dampsim.core.settle.law import PiecewiseLaw, TauKappaLaw
from dampsim.core.settle.waveform import WaveformLaw
from dampsim.core.simulation.simulation import Simulation
from shapes import sphere


def run_release_test(simulation: Simulation, body: str, deflection: float) -> SettleCurve:
    return run_to_end(release_test(simulation, body, deflection))


def whole_bar(resolution: int, **more: object) -> Scene:
    return scene(bar("Whole", 0.0, 1.0, True, resolution=resolution, **{"stiffness": 5000.0, **more}), last=2)


def welded_bars(resolution: int, **more: object) -> Scene:
    """Return the bar in two pieces that are welded together."""
    dials = {"resolution": resolution // 2, "stiffness": 5000.0, **more}
    pieces = (bar("Left", 0.0, 0.5, True, **dials), bar("Right", 0.5, 1.0, False, **dials))
    return scene(*pieces, last=2, links=weld("Weld", "Left", "Right", 0.5))


def linked_bar(resolution: int, **more: object) -> Scene:
    """Return the bar without pins, welded to a wall by its end."""
    wall = Anchor("Wall", gridded_box("Wall", (-0.1, 0.0, 0.0), (0.0, 0.1, 0.1), 0.05).vertices)
    body = bar("Whole", 0.0, 1.0, False, resolution=resolution, **{"stiffness": 5000.0, **more})
    return scene(body, last=2, links=weld("Weld", "Whole", "Wall", 0.0), anchors=(wall,))


@pytest.mark.slow
def test_welded_halves_match_whole_bar() -> None:
    """Two welded halves sag and settle like one bar."""
    for fps in (24.0, 60.0):
        one, two = (Simulation(replace(made(2400), fps=fps)) for made in (whole_bar, welded_bars))
        assert len(two.islands) == 1
        assert len(two.islands[0].system.regions) == 1
        low = [one.first_frame().shapes["Whole"][:, 2].min(), two.first_frame().shapes["Right"][:, 2].min()]
        assert low[1] == pytest.approx(low[0], rel=0.01)  # The lattices differ.
        joints = two.islands[0].system.links
        assert joints is not None
        assert np.abs(joints.gaps(two.first_frame().state.positions)).max() < 1e-4
        rests = [run_release_test(one, "Whole", 0.05).rest, run_release_test(two, "Right", 0.05).rest]
        assert rests[1] == pytest.approx(rests[0], abs=1.0)
        assert rests[1] == pytest.approx(24.0, abs=1.0)


@pytest.mark.parametrize("resolution", [600, pytest.param(4800, marks=pytest.mark.slow)])
def test_linked_bar_sags_like_pinned(resolution: int) -> None:
    # Pins fix whole cells at the end, a weld only points on it: 3% off at the finer resolution, up to 8% between.
    sags = [Simulation(made(resolution)).sag("Whole") for made in (whole_bar, linked_bar)]
    assert sags[1] == pytest.approx(sags[0], rel=0.05)


def flying_pair(points: int, stiffness: float | None, gravity: np.ndarray) -> Scene:
    """Return two different bars in flight: welded at four points, hinged at two, or linked at one."""
    a = bar("A", 0.0, 0.5, False, resolution=60, bounce=0.0, settle=12.0)
    surface = gridded_box("B", (0.5, 0.0, 0.0), (1.0, 0.1, 0.2), 0.05)
    b = static_body(surface, **{**a.settings.as_dict(), "density": 400.0, "stiffness": 100.0})
    places = [np.array([0.5, y, z]) for y in (0.02, 0.08) for z in (0.02, 0.08)]
    links = tuple(
        Link(f"Joint {k}", LinkPoint("A", p), LinkPoint("B", p), stiffness) for k, p in enumerate(places[:points])
    )
    return scene(a, b, last=51, links=links, gravity=gravity)


@pytest.mark.slow
@pytest.mark.parametrize("gravity", [np.zeros(3), DOWN], ids=["weightless", "falling"])
@pytest.mark.parametrize("stiffness", [None, 300.0], ids=["rigid", "soft"])
@pytest.mark.parametrize("points", [4, 2, 1])
def test_linked_flight_momentum_and_energy(points: int, stiffness: float | None, gravity: np.ndarray) -> None:
    """Linked bodies in flight conserve momentum, and their energy never exceeds its initial value."""
    simulation = Simulation(flying_pair(points, stiffness, gravity))
    (island,) = simulation.islands
    system, joints_, first = island.system, island.system.links, simulation.first_frame()
    assert joints_ is not None
    # Bent, spun and thrown.
    x = first.state.positions + 0.05 * np.sin(6.0 * first.state.positions[:, [0]]) * np.array([0.0, 1.0, 0.3])
    spin = np.cross(np.array([0.5, 1.0, 2.0]), x - system.mass @ x / system.mass.sum())
    state = replace(first.state, positions=x, velocities=spin + np.array([1.0, 0.3, 2.0]))
    scale = float(system.mass @ np.linalg.norm(state.velocities, axis=1))
    begin, turning = linear_momentum(system, state), angular_momentum(system.mass, x, state.velocities)
    factors, most, step = simulation.stiffness_factors(0), np.inf, 0
    for step, frame in enumerate(simulation.frames(replace(first, state=state)), 1):
        now, time = frame.state, step / 24.0
        expected = begin + system.mass.sum() * gravity * time
        assert np.abs(linear_momentum(system, now) - expected).max() < 1e-12 * scale
        turned = angular_momentum(system.mass, now.positions, now.velocities)
        # The initial velocities are tangents and those of the steps are chords: compare from the first step on.
        turning = turned if step == 1 else turning
        # Bodies that can turn about each other use the first law, which does not correct angular momentum.
        lost = 1e-9 if all(region.has_elastic_stiffness for region in system.regions) else 0.01 * max(time, 1.0)
        assert np.linalg.norm(turned - turning) < lost * np.linalg.norm(turning)
        drift = system.mass @ now.velocities / system.mass.sum()
        inner = energies(system, now).kinetic - 0.5 * float(system.mass.sum() * drift @ drift)
        inner += system.elastic_energy(now.positions, factors)
        # An oscillation may return stored energy, but the total never exceeds the initial value.
        assert inner <= most * (1.0 + 1e-4)
        most = max(inner, 0.0) if most == np.inf else most
    assert step == 50
    if stiffness is None:
        assert np.abs(joints_.gaps(now.positions)).max() < 1e-4


def angular_momentum(mass: np.ndarray, x: np.ndarray, v: np.ndarray) -> np.ndarray:
    """Return the angular momentum about the centre of mass."""
    centre, drift = mass @ x / mass.sum(), mass @ v / mass.sum()
    return np.asarray(mass @ np.cross(x - centre, v - drift))


def test_linked_bodies_keep_own_dials() -> None:
    made = welded_bars(200)
    left, right = made.bodies
    right = replace(right, settings=replace(right.settings, settle=60.0, bounce=0.0, stiffness=2500.0))
    simulation = Simulation(replace(made, bodies=(left, right)))
    (controls,) = simulation.controls()
    (law,) = controls.laws
    assert isinstance(law, PiecewiseLaw)
    (region,) = simulation.islands[0].system.regions
    owner = simulation.islands[0].system.node_blocks()[region.free]
    h = 1.0 / 24.0 / simulation.dials.max_substeps((left.settings, right.settings))
    found = law.coefficients(h)
    for k, body in enumerate((left, right)):
        settings: Settings = body.settings
        # Linked bodies share one lambda_1, but each has its own decay and frequency: roots of e^{(-a +- i w) h}.
        own = law.parts[k][0]
        assert isinstance(own, WaveformLaw)
        system = simulation.islands[0].system
        assert own.eigenvalue == pytest.approx(system.effective_eigenvalue(region, np.array([50.0, 25.0])))
        # The eigenvalue lies between those with both bodies soft and with both bodies stiff.
        alike = [system.effective_eigenvalue(region, np.full(2, factor)) for factor in (25.0, 50.0)]
        assert 1.05 * alike[0] < own.eigenvalue < 0.99 * alike[1]
        c = {name: getattr(found, name)[owner == k] for name in ("kappa", "inertia_time", "theta", "sigma")}
        assert all(np.unique(values).size == 1 for values in c.values())
        kappa, s, theta, sigma = (float(values[0]) for values in c.values())
        q = h * s * own.eigenvalue
        A, B = (kappa + sigma * q) / (1.0 + theta * q), q / (1.0 + theta * q)
        assert np.log(np.abs(np.roots([1.0, -(1.0 + A - B), A])).max()) / h == pytest.approx(-own.decay, rel=1e-9)
        if settings.bounce == 0.0:
            # 5.989 is the last time at which e^-t - e^-2t is 1% of its maximum.
            assert own.decay == pytest.approx(5.989 / (settings.settle / 24.0), rel=1e-4)
    named = [
        replace(body, settings=replace(body.settings, damping_by="TAU_KAPPA", tau=tau, kappa=kappa))
        for body, tau, kappa in zip((left, right), (0.2, 0.7), (0.1, 0.8), strict=True)
    ]
    (controls,) = Simulation(replace(made, bodies=tuple(named))).controls()
    found = controls.laws[0].coefficients(h)
    np.testing.assert_array_equal(found.inertia_time, np.where(owner == 0, 0.2, 0.7))
    np.testing.assert_array_equal(found.kappa, np.where(owner == 0, 0.1, 0.8))
    assert TauKappaLaw(0.1, 0.2) in [one for one, _ in controls.laws[0].parts]  # type: ignore[attr-defined]


def test_single_link_swings_as_pendulum() -> None:
    wall = Anchor("Wall", np.array([[0.0, 0.05, 0.05], [0.0, 1.0, 0.0], [0.0, 0.0, 1.0]]))
    body = bar("Rod", 0.0, 1.0, False, resolution=100, stiffness=1e6)
    end = np.array([0.0, 0.05, 0.05])
    made = scene(body, last=150, links=(Link("Nail", LinkPoint("Rod", end), LinkPoint("Wall", end)),), anchors=(wall,))
    simulation = Simulation(replace(made, fps=240.0))
    nodes = simulation.assembly.node_slice_of(0)
    mass, arm = simulation.islands[0].system.mass[nodes], simulation.islands[0].system.rest[nodes] - end
    # A pendulum released horizontally is lowest after K(sin 45 degrees)/omega; K is the elliptic integral.
    omega = np.sqrt(9.81 * float(mass @ arm[:, 0]) / float(mass @ (arm[:, 0] ** 2 + arm[:, 2] ** 2)))
    heights = [float(frame.shapes["Rod"][:, 2].mean()) for frame in simulation.frames()]
    # The integrator is of first order, with steps of 1/240 s.
    assert np.argmin(heights) / 240.0 == pytest.approx(1.8541 / omega, rel=0.02)


def test_point_link_starts_at_rest() -> None:
    left, right = (bar("A", 0.0, 0.5, True, resolution=100, stiffness=5000.0),
                   bar("B", 0.5, 1.0, False, resolution=100, stiffness=5000.0))  # fmt: skip
    point = np.array([0.5, 0.05, 0.05])
    made = scene(left, right, last=6, links=(Link("Joint", LinkPoint("A", point), LinkPoint("B", point)),))
    simulation = Simulation(made)
    assert simulation.is_constrained("B")
    frames = list(simulation.frames())
    # The second bar hangs down from the end of the first.
    assert frames[0].shapes["B"][:, 2].min() < -0.3
    # The tolerance of the static start, as for a single body: less than a millimetre.
    assert np.abs(frames[-1].shapes["B"] - frames[0].shapes["B"]).max() < 1e-3


def test_linked_mixed_integrators_are_refused() -> None:
    made = welded_bars(200)
    left, right = made.bodies
    other = replace(right.settings, damping_by="RAYLEIGH")
    with pytest.raises(SceneError, match="Left and Right: they are simulated together, but use different time"):
        Simulation(replace(made, bodies=(left, replace(right, settings=other))))


def test_fully_pinned_bodies_can_be_linked() -> None:
    a, b = (wire(name, np.array([[x, 0.0, 0.0], [x + 0.4, 0.0, 0.0]]), (0, 1)) for name, x in (("A", 0.0), ("B", 1.0)))
    ends = LinkPoint("A", np.array([0.4, 0.0, 0.0])), LinkPoint("B", np.array([1.0, 0.0, 0.0]))
    for frame in Simulation(scene(a, b, last=4, links=(Link("Joint", *ends),))).frames():
        np.testing.assert_array_equal(frame.shapes["A"], a.surface.vertices.astype(np.float32))


def test_fully_pinned_body_has_no_sag(monkeypatch: pytest.MonkeyPatch) -> None:
    """A fully pinned body has no sag, whatever is linked to it."""
    beads = [bar(f"Bead {k}", 0.2 * k, 0.2 * k + 0.2, False, resolution=60) for k in range(3)]
    beads[0] = replace(beads[0], pins=np.ones(len(beads[0].surface.vertices)))
    links = tuple(
        Link(f"Joint {k}", *(LinkPoint(f"Bead {n}", np.array([0.2 * k, 0.05, 0.05])) for n in (k - 1, k)))
        for k in (1, 2)
    )
    simulation = Simulation(scene(*beads, last=2, links=links))
    # The beads turn freely about their links; their hanging shape must not be computed.
    monkeypatch.setattr(type(simulation.statics), "hanging_state", None)
    assert simulation.is_constrained("Bead 0")
    assert simulation.sag("Bead 0") == 0.0


def test_keyed_stiffness_of_linked_bodies() -> None:
    """Linked bodies with a keyed Stiffness end at the sag of its last value, and rigid links stay rigid."""
    soft, hard = 1000.0, 50000.0
    begin, end = welded_bars(200, stiffness=soft, settle=8.0, bounce=0.0), welded_bars(200, stiffness=hard, settle=8.0)

    def keyed(body: Body) -> Body:
        def dials(frame: float) -> Settings:
            return replace(
                body.settings, stiffness=soft * (hard / soft) ** float(np.clip((frame - 2.0) / 8.0, 0.0, 1.0))
            )

        return replace(body, settings_by_frame=dials)

    scene_ = replace(begin, bodies=tuple(keyed(body) for body in begin.bodies), last=40)
    simulation = Simulation(scene_)
    frames = list(simulation.frames())
    joint = simulation.islands[0].system.links
    assert joint is not None
    assert max(np.abs(joint.gaps(frame.state.positions)).max() for frame in frames) < 1e-4
    last = next(Simulation(end).frames())
    way = np.abs(frames[0].shapes["Right"] - last.shapes["Right"]).max()
    assert way > 0.1
    # Thirty frames are almost four settle times.
    assert np.abs(frames[-1].shapes["Right"] - last.shapes["Right"]).max() < 1e-3 * way


@pytest.mark.parametrize("damping_by", ["DIALS", "FIRST_MODE"])
def test_rigid_link_holds_when_pins_move(damping_by: str) -> None:
    """A rigid link to a static object is not subject to Settle: it would open by 0.1 m and close in Settle frames."""
    surface = sphere(200)
    z = surface.vertices[:, 2]
    top = surface.vertices[z.argmax()]

    def moved(frame: float) -> np.ndarray:
        return surface.vertices + np.array([0.4 * float(np.clip((frame - 2.0) / 4.0, 0.0, 1.0)), 0.0, 0.0])

    foot = (z < z.min() + 0.1 * np.ptp(z)).astype(float)
    body = static_body(surface, foot, moved, resolution=200, settle=12.0, damping_by=damping_by)
    post = Anchor("Post", top + np.concatenate([np.zeros((1, 3)), np.eye(3)]))
    link = Link("Joint", LinkPoint(body.name, top), LinkPoint("Post", top))
    simulation = Simulation(scene(body, last=30, links=(link,), anchors=(post,)))
    joint = simulation.islands[0].system.links
    assert joint is not None
    gaps = [float(np.abs(joint.gaps(frame.state.positions)).max()) for frame in simulation.frames()]
    # The pins move 0.4 m and pull the body; the link opens by less than a thousandth of that.
    assert max(gaps) < 1e-4


def test_bodies_on_one_anchor_stay_independent() -> None:
    """Two bodies on one anchor each move bit for bit as alone, even with different numbers of links."""
    wall = Anchor("Wall", gridded_box("Wall", (-0.1, 0.0, 0.0), (0.0, 0.1, 0.1), 0.05).vertices)
    bodies = [bar(name, 0.0, 1.0, False, resolution=100, stiffness=500.0) for name in ("One", "Two")]
    links = [weld("Weld", body.name, "Wall", 0.0) for body in bodies]
    links[1] = links[1][:-1]
    both = Simulation(scene(*bodies, last=3, links=(*links[0], *links[1]), anchors=(wall,)))
    together = list(both.frames())
    for body, own in zip(bodies, links, strict=True):
        alone = list(Simulation(scene(body, last=3, links=own, anchors=(wall,))).frames())
        for one, other in zip(together, alone, strict=True):
            assert one.shapes[body.name].tobytes() == other.shapes[body.name].tobytes()
