"""The papers' dampings as an artist meets them in a bake."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from types import ModuleType

import bpy
import numpy as np
import pytest
from scenes import LAST, fresh, size, wobbler, world

pytestmark = pytest.mark.bpy
Load = Callable[[str], ModuleType]


@pytest.mark.slow
def test_every_damping_bakes_and_changes_the_shot(load: Load, tmp_path: Path) -> None:
    scene = fresh()
    obj = wobbler(tmp_path)
    job = load("dampsim_addon.jobs.bake")
    seen = {}
    for method in load("core.damping.registry").DAMPINGS:
        obj.dampsim.damping_by = method.name
        obj.dampsim.gamma, obj.dampsim.damping_ratio = 0.8, 0.5
        for _ in job.run(scene, bpy.context.view_layer, obj, True):
            pass
        cache = load("dampsim_addon.scene.caches").frame_cache(obj)
        assert cache.numbers() == list(range(1, LAST + 1))
        seen[method.name] = cache.read(LAST).surface
    names = list(seen)
    for k, name in enumerate(names):
        for other in names[:k]:
            assert np.abs(seen[name] - seen[other]).max() > 1e-6


@pytest.mark.parametrize("target", ["SHAPE_KEYS", "POINT_CACHE"])
def test_an_object_that_is_pinned_all_over_is_simulated_and_baked_as_it_is_animated(
    load: Load, tmp_path: Path, target: str
) -> None:
    scene = fresh(5)
    obj = wobbler(tmp_path)
    obj.vertex_groups["Pin"].add([v.index for v in obj.data.vertices], 1.0, "REPLACE")
    plain = {frame: world(obj, frame) for frame in range(1, 6)}
    live, overlay = load("dampsim_addon.live"), load("dampsim_addon.ui.overlay")
    standing = load("dampsim_addon.ui.live_line").standing
    live.install()
    try:
        for frame, animated in plain.items():
            scene.frame_set(frame)
            np.testing.assert_allclose(live.find(obj).frames[frame - 1].frame.surface, animated, atol=1e-6)
            found = overlay.drawn(obj, scene)
            assert found.worst[1] == 1.0
            np.testing.assert_allclose(found.rest[0], animated, atol=1e-5)
        assert not standing(obj, scene)[1]
    finally:
        live.uninstall()
        live.drop(obj)
    assert bpy.ops.dampsim.measure() == {"FINISHED"}
    assert obj.dampsim.measured_sag < 1e-4
    obj.dampsim.target = target
    names = [one.name for one in load("core.scene.parameters").PARAMETERS["damping_by"].choices]
    for name in names:
        obj.dampsim.damping_by = name
        assert bpy.ops.dampsim.bake() == {"FINISHED"}
        for frame, animated in plain.items():
            np.testing.assert_allclose(world(obj, frame), animated, atol=2e-6 * size(animated))


def test_an_explicit_integrator_that_runs_away_names_the_object_and_the_mend(tmp_path: Path) -> None:
    fresh()
    obj = wobbler(tmp_path)
    obj.dampsim.damping_by, obj.dampsim.integrator = "DIRECT", "SYMPLECTIC_EULER"
    with pytest.raises(RuntimeError, match=r"Wobbler: frame \d+ could not be simulated.*needs about \d+ substeps"):
        bpy.ops.dampsim.bake()
    assert not obj.dampsim.baked
