"""Independent bodies in one scene: each moves bit for bit as if it were alone."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from builders import gridded_box, net, scene, static_body, strutted_rod, wire_cube
from dampsim.core.base.errors import SceneError
from dampsim.core.frames.cache import FrameCache
from dampsim.core.frames.frame import Frame
from dampsim.core.scene.body import Body
from dampsim.core.scene.parameters import Settings
from dampsim.core.scene.scene import Scene
from dampsim.core.simulation.bake import bake
from dampsim.core.simulation.simulation import Simulation
from shapes import box


def shaken_bar(name: str, place: float = 0.0, size: float = 1.0, **more: object) -> Body:
    """Return a bar whose pinned end is shaken to and fro."""
    surface = box()
    surface = replace(surface, name=name, vertices=size * surface.vertices + np.array([place, 0.0, 0.0]))
    pins = (box().vertices[:, 0] < 0.01).astype(float)

    def motion(frame: float) -> np.ndarray:
        return surface.vertices + np.array([0.0, 0.2 * size * np.sin(0.7 * frame), 0.0])

    return static_body(surface, pins, motion, **{"stiffness": 500.0, "resolution": 150, "settle": 12.0, **more})


def with_keyed_dials(body: Body) -> Body:
    """Return the body with keyframes: within ten frames, Stiffness doubles and Settle falls to half."""

    def dials(frame: float) -> Settings:
        part = min((frame - 1.0) / 10.0, 1.0)
        first = body.settings
        return replace(first, stiffness=first.stiffness * (1.0 + part), settle=first.settle * (1.0 - 0.5 * part))

    return replace(body, settings_by_frame=dials)


def falling_block(name: str = "Falling") -> Body:
    return static_body(gridded_box(name, (3.0, 0.0, 0.0), (3.6, 0.3, 0.3), 0.15), stiffness=50.0, resolution=100)


# Both bodies of a pair take the same number of substeps: the larger of their two numbers.
PAIRS = {
    "two alike": (shaken_bar("A"), shaken_bar("B", 2.0)),
    "other dials": (shaken_bar("A"), shaken_bar("B", 2.0, stiffness=90.0, follow_through=0.3, density=300.0)),
    "other accuracies": (shaken_bar("A", stiffness=90.0), shaken_bar("B", 2.0, stiffness=90.0, accuracy="TIGHT")),
    "a kilometre apart": (shaken_bar("A"), shaken_bar("B", 1000.0)),
    "a millimetre and a hundred metres": (
        shaken_bar("A", size=1e-3),
        shaken_bar("B", 300.0, size=100.0, stiffness=1e5),
    ),
    "keyed dials": (with_keyed_dials(shaken_bar("A", substeps=8)), shaken_bar("B", 2.0, substeps=8)),
    "a solid and a net": (shaken_bar("A", substeps=4), net(5, substeps=4)),
    "wires and springs of a solid": (wire_cube(substeps=4), strutted_rod(resolution=120, substeps=4)),
    "held and free": (shaken_bar("A", substeps=4), falling_block()),
    "the papers' dampings": (
        shaken_bar("A", damping_by="RAYLEIGH", substeps=4, damping_ratio=0.3),
        shaken_bar("B", 2.0, substeps=4),
    ),
    "one damping for two shapes": (
        shaken_bar("A", damping_by="RAYLEIGH", substeps=4, damping_ratio=0.3),
        shaken_bar("B", 2.0, size=0.5, damping_by="RAYLEIGH", substeps=4, damping_ratio=0.3),
    ),
    "one sag for two shapes": (
        shaken_bar("A", stiffness_by="SAG", sag=2.0),
        shaken_bar("B", 2.0, size=0.5, stiffness_by="SAG", sag=2.0),
    ),
    "dialled sags": (
        shaken_bar("A", stiffness_by="SAG", sag=3.0),
        shaken_bar("B", 2.0, stiffness_by="SAG", sag=1.0),
    ),
}


def with_substeps(body: Body, substeps: int) -> Body:
    """Return the body with this number of substeps per frame."""
    fewest, dials = replace(body.settings, substeps=substeps), body.settings_by_frame
    if dials is None:
        return replace(body, settings=fewest)
    return replace(body, settings=fewest, settings_by_frame=lambda frame: replace(dials(frame), substeps=substeps))


def frames(one: Scene) -> list[Frame]:
    return list(Simulation(one).frames())


@pytest.mark.slow
@pytest.mark.parametrize("name", PAIRS)
def test_unlinked_body_moves_as_if_alone(name: str) -> None:
    """Each of two unlinked bodies has the same frames, bit for bit, as in a scene of its own."""
    bodies = PAIRS[name]
    simulation = Simulation(scene(*bodies))
    most = simulation.dials.max_substeps(tuple(body.settings_at(12.0) for body in bodies))
    bodies = tuple(with_substeps(body, most) for body in bodies)
    together = Simulation(scene(*bodies))
    assert len(together.islands) == 2
    parts = [together.assembly.node_slice_of(k) for k in range(2)]
    both, separate = list(together.frames()), [frames(scene(body)) for body in bodies]
    assert len(both) == 12
    for frame, *alone in zip(both, *separate, strict=True):
        for body, part, own in zip(bodies, parts, alone, strict=True):
            assert frame.shapes[body.name].tobytes() == own.shapes[body.name].tobytes()
            for what in ("positions", "velocities", "reference"):
                assert getattr(frame.state, what)[part].tobytes() == getattr(own.state, what).tobytes()
    for body, own in zip(bodies, separate, strict=True):
        assert np.abs(own[-1].surface - body.surface.vertices).max() > 1e-5 * body.surface.size, "nothing moved"


def test_body_order_does_not_matter() -> None:
    one, other = shaken_bar("A"), shaken_bar("B", 2.0, stiffness=900.0)
    for a, b in zip(frames(scene(one, other)), frames(scene(other, one)), strict=True):
        assert {name: shape.tobytes() for name, shape in a.shapes.items()} == {
            name: shape.tobytes() for name, shape in b.shapes.items()
        }


def test_substeps_follow_most_demanding_body() -> None:
    """All bodies of a scene take the largest number of substeps that any of them requires."""
    one, other = shaken_bar("A"), shaken_bar("B", 2.0, bounce=80.0, settle=4.0)
    simulation = Simulation(scene(one, other))
    counts = [simulation.substeps(body.name, body.settings).count for body in (one, other)]
    assert counts[0] < counts[1]
    # The number does not depend on the substeps of the frame before.
    for before in (1, counts[1]):
        assert len(simulation.sample_frame(2, before).samples) == counts[1]


def test_duplicate_object_names_are_refused() -> None:
    with pytest.raises(SceneError, match="A: two objects of this name"):
        Simulation(scene(shaken_bar("A"), shaken_bar("A", 2.0)))


@pytest.mark.slow
def test_multi_body_bake_resumes_identically(tmp_path: Path) -> None:
    """An interrupted bake of several bodies ends in the same bytes, and the cache returns each body's shape."""
    bodies = (with_keyed_dials(shaken_bar("A")), shaken_bar("B", 1000.0, size=3.0), net(4), falling_block())

    def baked(folder: Path, stop: int | None) -> list[bytes]:
        steps = bake(Simulation(scene(*bodies, last=9)), FrameCache(folder, "All"))
        for progress in steps:
            if progress.stage == "Simulating" and progress.done == stop:
                steps.close()
                break
        return [path.read_bytes() for path in sorted(folder.iterdir())]

    whole = baked(tmp_path / "whole", None)
    assert len(baked(tmp_path / "parts", 4)) < len(whole)
    assert baked(tmp_path / "parts", None) == whole
    cache = FrameCache(tmp_path / "whole", "All")
    last = frames(scene(*bodies, last=9))[-1]
    for body in bodies:
        assert cache.read_shape(9, body.name).tobytes() == last.shapes[body.name].tobytes()
