"""Samples of a scene: checks, number of calls of the sampler, and digests."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from animated import AnimatedScene
from builders import DOWN, bar, scene
from dampsim.core.base.errors import SceneError
from dampsim.core.fields.field import ExternalForces
from dampsim.core.scene.body import BodySample, SampleStore, SceneSample
from dampsim.core.scene.muscles import SensorInputs
from dampsim.core.simulation.sampling import input_digests
from dampsim.core.simulation.simulation import Simulation
from shapes import with_body


def swaying_scene(**more: object) -> AnimatedScene:
    """Return a bar with an animated pinned end and animated settings."""
    body = bar("Bar", 0.0, 1.0, True, resolution=100, substeps=3, **more)
    return scene(
        replace(
            body,
            motion=lambda frame: body.surface.vertices + np.array([0.0, 0.1 * np.sin(frame), 0.0]),
            settings_by_frame=lambda frame: replace(body.settings, stiffness=300.0 + frame),
        )
    )


def counted(taken: AnimatedScene) -> tuple[AnimatedScene, list[float]]:
    """Return the scene with a sampler that lists the frames at which it is called."""
    frames: list[float] = []

    def sample(frame: float) -> SceneSample:
        frames.append(frame)
        return taken.sample(frame)

    return replace(taken, sampler=sample), frames


def test_objects_without_sampler_stay_at_rest() -> None:
    body = bar("Bar", 0.0, 1.0, True)
    sample = replace(scene(body), sampler=None).sample(3.5)
    assert sample.frame == 3.5
    np.testing.assert_array_equal(sample.bodies[0].vertices, body.surface.vertices)
    assert sample.settings == (body.settings,)


def test_frame_inputs_same_in_any_order() -> None:
    simulation = Simulation(swaying_scene())
    first = [simulation.sample_frame(number, 3) for number in (1, 2, 5)]
    again = [simulation.sample_frame(number, 3) for number in (5, 1, 2)]
    assert [one.digests for one in first] == [again[1].digests, again[2].digests, again[0].digests]
    assert len({one.digests["Bar"] for one in first}) == 3


def test_each_time_is_sampled_once() -> None:
    """Animated settings at the frame's end determine its substeps; that sample is not taken again."""
    taken, frames = counted(swaying_scene())
    simulation = Simulation(taken)
    assert frames == [1.0]
    frames.clear()
    count = simulation.sample_frame(4, 3).substep_count
    assert count >= 3
    assert len(frames) == len(set(frames)) == count
    assert frames[0] == 4.0


def test_given_first_sample_spares_sampler() -> None:
    """With a first sample, another thread can build the simulation while the host must not be accessed."""
    taken, frames = counted(swaying_scene(keep_shape=True, stiffness_by="SAG"))
    first_sample = taken.sample(1.0)
    frames.clear()
    simulation = Simulation(taken, first_sample=first_sample)
    simulation.precompute()
    assert frames == []
    assert simulation.sag("Bar") == Simulation(taken).sag("Bar")


def test_settings_of_samples_need_their_flag() -> None:
    """Settings in samples count only for bodies with animated settings."""
    taken = swaying_scene()
    assert taken.sample(5.0).settings[0].stiffness == 305.0
    still = replace(taken.bodies[0], settings_by_frame=None)
    constant = replace(taken, bodies=(still,), sampler=taken.sample)
    assert constant.sample(5.0).settings == (still.settings,)


def test_sample_without_all_objects_is_refused() -> None:
    taken = swaying_scene()
    wrong = replace(taken, sampler=lambda frame: SceneSample(frame, taken.sample(frame).bodies * 2))
    with pytest.raises(SceneError, match="Bar: the sampler returns 2 bodies instead of 1"):
        Simulation(wrong)


def test_digest_covers_every_animated_input() -> None:
    """A change of any field of a sample changes the digest, except for settings that are not animatable."""
    taken = with_body(swaying_scene(), has_animated_pins=True)
    sample = taken.sample(2.0)
    settings = sample.settings[0]
    changes = {
        "vertices": sample.bodies[0].vertices + 1e-9,
        "settings": replace(settings, settle=settings.settle + 1.0),
        "external_forces": ExternalForces(0.5 * DOWN),
        "sensor_inputs": SensorInputs(np.ones(1)),
        "pins": 0.5 * taken.bodies[0].pins,
    }
    assert set(changes) == set(BodySample.__dataclass_fields__)
    known = input_digests(taken, [sample])["Bar"]
    for name, value in changes.items():
        assert input_digests(taken, [sample.with_body(0, **{name: value})])["Bar"] != known
    unused = sample.with_body(0, settings=replace(settings, resolution=200))
    assert input_digests(taken, [unused])["Bar"] == known


@pytest.mark.parametrize("is_loop", [False, True])
def test_store_keeps_whole_frames(is_loop: bool) -> None:
    taken, frames = counted(swaying_scene())
    store = SampleStore(taken.sample, is_loop)
    for frame in (1.0, 1.5, 2.0) * 2:
        assert store(frame).frame == frame
    assert frames == ([1.0, 1.5, 2.0] if is_loop else [1.0, 1.5, 2.0, 1.5])
    vertices = taken.sample(1.0).bodies[0].vertices
    assert store.size == (3 if is_loop else 2) * vertices.nbytes


def test_store_limits_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    """Samples beyond the limit are read again; the earlier ones stay."""
    taken, frames = counted(swaying_scene())
    monkeypatch.setattr("dampsim.core.scene.body._MAX_KEPT_BYTES", 2 * taken.sample(1.0).size_in_bytes())
    frames.clear()
    store = SampleStore(taken.sample, is_loop=False)
    for frame in (1.0, 2.0, 3.0) * 2:
        store(frame)
    assert frames == [1.0, 2.0, 3.0, 3.0]
