"""Samples of a scene read from Blender: complete, and independent of the order in which frames are visited."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import ModuleType
from typing import Any

import bpy
import numpy as np
import pytest
from scenes import new_scene, wobbler
from test_colliders import collider, key_height
from test_fields import keyed_wind

pytestmark = pytest.mark.bpy
Load = Callable[[str], ModuleType]
FRAMES = (1.0, 3.5, 6.0)


@contextmanager
def animated_scene(load: Load, folder: Path) -> Iterator[Any]:
    """Yield the core scene of an object whose every input is animated, while its sampler is open."""
    scene = new_scene(8)
    obj, box = wobbler(folder), collider(roughness=0.0)
    group = obj.dampsim
    for frame, share in ((1, 0.0), (8, 1.0)):
        group.settle = 10.0 + 20.0 * share
        obj.keyframe_insert("dampsim.settle", frame=frame)
        box.dampsim_collider.roughness = share
        box.dampsim_collider.keyframe_insert("roughness", frame=frame)
        scene.gravity[2] = -10.0 + share
        scene.keyframe_insert("gravity", frame=frame)
    key_height(box, f1=-3.0, f8=-2.0)
    keyed_wind()
    post = bpy.data.objects.new("Post", None)
    scene.collection.objects.link(post)
    key_height(post, f1=0.0, f8=1.0)
    link = group.links.add()
    link.other = post
    link.points.add()
    with load("dampsim_addon.blender.sampler").GroupSampler(scene, bpy.context.view_layer, [obj]) as sampler:
        yield load("dampsim_addon.scene_reader.scene_builder").build_scene(sampler)


def test_samples_independent_of_visited_frame(load: Load, tmp_path: Path) -> None:
    """Samples are the same in any order of frames, and keep their values when they are read late."""
    digests = load("core.simulation.sampling").input_digests
    with animated_scene(load, tmp_path) as taken:
        first = [taken.sample(frame) for frame in FRAMES]
        again = {frame: taken.sample(frame) for frame in reversed(FRAMES)}
    for frame, sample in zip(FRAMES, first, strict=True):
        assert digests(taken, [sample]) == digests(taken, [again[frame]])
    # Everything is animated, so that each part of each sample differs from the others.
    for name in digests(taken, [first[0]]):
        assert len({digests(taken, [sample])[name] for sample in first}) == len(FRAMES)
    settles, roughness, gravity, winds = (
        [read(sample) for sample in first]
        for read in (
            lambda sample: sample.settings[0].settle,
            lambda sample: sample.colliders[0].settings.roughness,
            lambda sample: sample.bodies[0].external_forces.gravity[2],
            lambda sample: sample.bodies[0].external_forces.fields[0].strength,
        )
    )
    for values in (settles, roughness, gravity, winds):
        assert np.all(np.diff(values) > 0.0)
