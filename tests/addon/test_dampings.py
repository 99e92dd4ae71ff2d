"""The papers' dampings as an artist meets them in a bake."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from types import ModuleType

import bpy
import numpy as np
import pytest
from scenes import LAST, fresh, wobbler

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


def test_an_explicit_integrator_that_runs_away_names_the_object_and_the_mend(tmp_path: Path) -> None:
    fresh()
    obj = wobbler(tmp_path)
    obj.dampsim.damping_by, obj.dampsim.integrator = "DIRECT", "SYMPLECTIC_EULER"
    with pytest.raises(RuntimeError, match=r"Wobbler: frame \d+ could not be simulated.*needs about \d+ substeps"):
        bpy.ops.dampsim.bake()
    assert not obj.dampsim.baked
