"""Every body type: its description, its model at rest and deformed, its kinematic parts, and a shot."""

from __future__ import annotations

from dataclasses import replace
from itertools import product

import numpy as np
import pytest
from scipy.spatial.transform import Rotation
from woven_scenes import swatch

from animated import AnimatedBody
from builders import scene, static_body
from dampsim.core.base.errors import ParameterError
from dampsim.core.bodies import KINDS
from dampsim.core.bodies.kind import BodyKind
from dampsim.core.literature.damping import DAMPINGS
from dampsim.core.materials.assembly import element_edges
from dampsim.core.scene.body import Body
from dampsim.core.scene.parameters import PARAMETERS, Settings
from dampsim.core.scene.part import Part
from dampsim.core.simulation.simulation import Simulation
from dampsim.core.system.state import BlockHistory, State, YarnHistory
from dampsim.core.system.weave_term import find_weave_term
from dampsim.core.yarns.woven_cloth import WovenCloth
from shapes import sphere

# Sections that panels show for every body type; tests/addon/test_panel.py checks the panels.
COMMON = {"dials", "advanced", "pins", "shot", "throw", "papers", "fields", "contact"}
# A little gravity upwards keeps bodies taut: a net of springs that stood on its foot would fold.
UP = np.array([0.0, 0.0, 0.5])
TURN = Rotation.from_rotvec([0.3, -1.0, 0.7]).as_matrix()


def body(what: type[BodyKind], **more: object) -> Body:
    """Return a ball of 1 m with hard pins at its foot and soft ones above; for woven cloth, a panel."""
    if what.name == "WEAVE":
        return panel(**more)
    surface = sphere(120)
    surface = replace(surface, vertices=0.5 * surface.vertices)
    low = surface.vertices[:, 2]
    pins = np.select([low < -0.3, low < -0.1], [1.0, 0.5], 0.0)
    edges = element_edges(surface.triangles) if what.uses_edges else np.zeros((0, 2), dtype=np.int64)
    return static_body(surface, pins, kind=what.name, edges=edges, **{"resolution": 150, "stiffness": 300.0, **more})


def panel(**more: object) -> Body:
    """Return an upright woven panel of 1 m x 1 m with hard pins at its foot and soft ones above."""
    surface, edges = swatch(6, 6, 1.0 / 7.0)
    surface = replace(surface, name="Sphere", vertices=surface.vertices[:, [0, 2, 1]] - np.array([0.5, 0.0, 0.5]))
    low = surface.vertices[:, 2]
    pins = np.select([low < -0.4, low < -0.3], [1.0, 0.5], 0.0)
    return static_body(surface, pins, kind="WEAVE", edges=edges, **{"stiffness": 300.0, **more})


def mean_yarn_velocity(cloth: WovenCloth, state: State) -> np.ndarray:
    """Return the mean velocity (3,) m/s of the yarns, which slide relative to the nodes."""
    (history,) = state.history.blocks.values()
    yarns = history.yarns or YarnHistory.at_rest(cloth.rest_arc_lengths)
    masses, directions = cloth.masses(yarns.positions), cloth.directions(state.positions, yarns.positions)
    speeds = np.zeros(len(masses)) if yarns.speeds is None else yarns.speeds
    sliding = directions * speeds[:, None]
    return np.asarray(masses @ (state.velocities[cloth.node] - sliding) / masses.sum())


def sections(what: type[BodyKind]) -> set[str]:
    """Return all sections that a body type shows, over all values of its choices."""
    lists = {name: [choice.name for choice in p.choices] for name, p in PARAMETERS.items() if p.section not in COMMON}
    lists = {name: values for name, values in lists.items() if values}
    every = (Settings(**dict(zip(lists, values, strict=True))) for values in product(*lists.values()))
    return {section for settings in every for section in what.sections(settings)}


def test_parameter_sections_match_body_types() -> None:
    """Every section of parameters is shown for some body type, and every section that a type names exists."""
    named = set().union(*(sections(one) for one in KINDS))
    assert named | COMMON == {parameter.section for parameter in PARAMETERS.values()}


@pytest.mark.parametrize("what", KINDS, ids=lambda one: one.name)
def test_rest_shape_has_no_forces(what: type[BodyKind]) -> None:
    """At rest, energies and forces vanish and the skin reproduces the surface."""
    one = body(what)
    model = what.build(one)
    block, vertices = model.block, one.surface.vertices
    inputs = block.stationary_inputs()
    for term in block.terms:
        value, gradient = term.energy_for(inputs, BlockHistory()).value_gradient(block.rest)
        # Rounding errors of forces that are as large as the stiffness over a metre.
        bound = 1e-13 * block.stiffness_at_rest(False).diagonal().max()
        assert abs(value) < bound
        assert np.abs(gradient).max() < bound
    assert (block.mass > 0.0).all()
    assert block.groups[0].max() < len(block.rest)
    np.testing.assert_allclose(model.skin(block.rest, vertices), vertices, atol=1e-12)
    nodes, weights = model.skin.weights_for_points(vertices)
    np.testing.assert_allclose((weights[:, :, None] * block.rest[nodes]).sum(axis=1), vertices, atol=1e-9)


@pytest.mark.parametrize("what", KINDS, ids=lambda one: one.name)
def test_pins_and_skin_follow_rigid_motion(what: type[BodyKind]) -> None:
    """Pin targets, nodes and skin follow a rigid motion of the animation, which adds no elastic energy."""
    one = body(what)
    model = what.build(one)
    block, shift = model.block, np.array([1.0, 2.0, 3.0])
    turned = one.surface.vertices @ TURN.T + shift
    there = block.rest @ TURN.T + shift
    np.testing.assert_allclose(model.pins(turned), there[block.pinned], atol=1e-9)
    np.testing.assert_allclose(model.nodes(turned), there, atol=1e-9)
    # A rotation together with the pins adds no energy.
    np.testing.assert_allclose(model.skin(there, turned), turned, atol=1e-9)
    assert abs(block.elastic_energy(there)) < 1e-13 * block.stiffness_at_rest(False).diagonal().max()


@pytest.mark.parametrize("what", KINDS, ids=lambda one: one.name)
def test_forces_and_stiffness_match_differences(what: type[BodyKind]) -> None:
    block = what.build(body(what)).block
    rng, step = np.random.default_rng(2), 1e-6
    bent = block.rest @ np.array([[1.1, 0.2, 0.0], [-0.1, 0.95, 0.1], [0.1, 0.0, 1.05]])
    way = rng.standard_normal(bent.shape)
    for term in block.terms:
        energy = term.energy_for(block.stationary_inputs(), BlockHistory())
        (ahead, high), (behind, low) = (energy.value_gradient(bent + sign * step * way) for sign in (1.0, -1.0))
        slope = float(np.vdot(energy.value_gradient(bent)[1], way))
        # Errors of central differences: rounding, eps/step, and the third derivative times step^2.
        assert (ahead - behind) / (2.0 * step) == pytest.approx(slope, rel=1e-6, abs=1e-6 * ahead)
        product_ = energy.hessian(bent, False) @ way.ravel()
        np.testing.assert_allclose((high - low).ravel() / (2.0 * step), product_, atol=1e-6 * np.abs(product_).max())


@pytest.mark.parametrize("what", KINDS, ids=lambda one: one.name)
def test_model_independent_of_stiffness_dial(what: type[BodyKind]) -> None:
    """Models are built with the base modulus, whatever Stiffness is dialled; the mass is proportional to Density."""
    soft, hard = (what.build(body(what, stiffness=stiffness)).block for stiffness in (10.0, 1000.0))
    assert (soft.stiffness_at_rest(True) != hard.stiffness_at_rest(True)).nnz == 0
    assert soft.mass.tobytes() == hard.mass.tobytes()
    dense = what.build(body(what, density=2000.0)).block
    np.testing.assert_allclose(dense.mass, 2.0 * soft.mass, rtol=1e-12)


@pytest.mark.parametrize("what", KINDS, ids=lambda one: one.name)
def test_painted_settle_sets_settle_scale(what: type[BodyKind]) -> None:
    """A painted Settle map becomes the settle scale of the nodes."""
    one = body(what)
    assert what.build(one).block.settle_scale is None
    pace = what.build(replace(one, settle_map=np.full(len(one.pins), 0.5))).block.settle_scale
    assert pace is not None
    np.testing.assert_allclose(pace, 0.5, atol=1e-9)


@pytest.mark.parametrize("what", KINDS, ids=lambda one: one.name)
def test_parts_set_shares_of_nodes(what: type[BodyKind]) -> None:
    """The painted weights of parts become shares of the nodes."""
    one = replace(body(what), pins=np.zeros(len(body(what).pins)))
    assert what.build(one).block.part_shares is None
    half, other, whole = (
        Part(name, np.full(len(one.pins), weight), 9.0, 0.0, 1.0)
        for name, weight in (("a", 0.5), ("b", 0.5), ("c", 1.0))
    )
    for parts, wanted in (((half,), [0.5, 0.5]), ((whole,), [0.0, 1.0]), ((half, other), [0.0, 0.5, 0.5])):
        shares = what.build(replace(one, parts=parts)).block.part_shares
        assert shares is not None
        np.testing.assert_allclose(shares, np.broadcast_to(wanted, (len(shares), len(wanted))), atol=1e-9)


@pytest.mark.parametrize(
    "what",
    [pytest.param(one, marks=pytest.mark.slow if one.name == "WEAVE" else ()) for one in KINDS if one.has_stiffness],
    ids=lambda one: one.name,
)
def test_type_follows_pins_and_sags(what: type[BodyKind]) -> None:
    """A body of each type follows its pins, lags behind a motion, and sags more when it is softer."""
    one = body(what)
    rest = one.surface.vertices

    def motion(frame: float) -> np.ndarray:
        return np.asarray(rest + np.array([0.03 * min(frame - 1.0, 4.0), 0.0, 0.0]))

    simulation = Simulation(scene(replace(one, motion=motion), last=8, gravity=UP))
    frames = list(simulation.frames())
    held = one.pins == 1.0
    for frame in frames:
        np.testing.assert_allclose(frame.surface[held], motion(frame.number)[held], atol=1e-12)
    late = frames[3].surface - motion(4.0) - (frames[0].surface - rest)
    assert late[~held, 0].min() < -0.01
    soft = Simulation(scene(body(what, stiffness=150.0), last=1, gravity=UP))
    assert soft.sag(one.name) > 1.5 * simulation.sag(one.name)


@pytest.mark.parametrize("what", KINDS, ids=lambda one: one.name)
def test_type_lets_go_and_catches(what: type[BodyKind]) -> None:
    """A carried body keeps its momentum when Hold is 0, and returns to its pins in the dialled time without a jump."""
    one, last_held, first_caught, count = body(what, catch_frames=4), 4, 10, 4
    rest, carried = one.surface.vertices, np.array([0.02, 0.0, 0.01])

    def settings_at(frame: float) -> Settings:
        return replace(one.settings, hold=float(frame <= last_held or frame >= first_caught))

    def motion(frame: float) -> np.ndarray:
        return np.asarray(rest + (frame - 1.0) * carried)

    thrown = AnimatedBody(
        one.surface, one.pins, one.settings, one.kind, one.edges, motion=motion, settings_by_frame=settings_at,
        has_animated_pins=True,
    )  # fmt: skip
    simulation = Simulation(scene(thrown, last=16, gravity=UP))
    frames, mass = list(simulation.frames()), simulation.system_of(one.name).mass
    held = one.pins == 1.0
    for frame in frames:
        error = np.abs(frame.surface - motion(frame.number))[held].max()
        assert (error < 1e-6) == (frame.number <= last_held or frame.number >= first_caught - 1 + count)
    weave = find_weave_term(simulation.system_of(one.name).blocks[0].terms)
    velocities = [
        mass @ frame.state.velocities / mass.sum() if weave is None else mean_yarn_velocity(weave.cloth, frame.state)
        for frame in frames
    ]
    for frame in range(last_held, first_caught - 1):
        fallen = (frame + 1 - last_held) * UP / 24.0
        np.testing.assert_allclose(velocities[frame], velocities[last_held - 1] + fallen, atol=1e-3 * 0.5)
    # The surface changes its velocity by less in any frame of the catch than by stopping within one frame: by up to
    # 0.82 of it for springs, which retain the change of their force (decision 0113). The woven panel, which stands,
    # has collapsed by then.
    change = np.diff([frame.surface for frame in frames], n=2, axis=0)[first_caught - 3 :]
    gap = np.abs(frames[first_caught - 2].surface - motion(first_caught - 1)).max()
    assert what.name == "WEAVE" or np.abs(change).max() < 0.85 * gap + 0.5 * np.abs(carried).max()
    again = list(simulation.frames(frames[first_caught]))
    assert [one.state.positions.tobytes() for one in again] == [
        one.state.positions.tobytes() for one in frames[first_caught + 1 :]
    ]


@pytest.mark.parametrize(
    "what",
    [pytest.param(one, marks=pytest.mark.slow if one.name in ("ROPE", "WEAVE") else ()) for one in KINDS],
    ids=lambda one: one.name,
)
def test_damping_works_or_is_refused(what: type[BodyKind]) -> None:
    """Each damping simulates each body type, or refuses it with an error that names the object."""
    for method in DAMPINGS:
        one, frames, said = body(what, damping_by=method.name), [], ""
        try:
            frames = list(Simulation(scene(one, last=3, gravity=UP)).frames())
        except ParameterError as error:
            said = str(error)
        assert len(frames) == 3 or said.startswith(f"{one.name}: ")
        assert all(np.isfinite(frame.surface).all() for frame in frames)
