"""Contact samples: no visible intersections at frames and half frames."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from types import ModuleType

import bpy
import numpy as np
import pytest
from scenes import size, world_vertices
from test_contact_motion import VISIBLE_FRACTION, triangles

pytestmark = [pytest.mark.bpy, pytest.mark.slow]
Load = Callable[[str], ModuleType]
SAMPLES = Path(__file__).parents[2] / "sample_blends"


def unpinned_vertices(obj: bpy.types.Object) -> np.ndarray:
    """Return which vertices no pin holds, (v,) bool."""
    pins = obj.vertex_groups.get(obj.dampsim.pin_group)
    held = (
        [any(one.group == pins.index and one.weight > 0.0 for one in v.groups) for v in obj.data.vertices]
        if pins
        else []
    )
    return ~np.array(held, dtype=bool) if pins else np.ones(len(obj.data.vertices), dtype=bool)


@pytest.mark.parametrize(
    ("name", "last", "touched"),
    [
        ("stairs", 70, 12),
        *(
            pytest.param(*one, marks=pytest.mark.slow)
            for one in (
                ("stack", 30, 14),
                ("ears", 60, 20),
                ("runner", 32, 17),
                ("membrane", 24, 12),
                ("chain", 24, 12),
            )
        ),
    ],
)
def test_sample_has_no_intersections(load: Load, name: str, last: int, touched: int, tmp_path: Path) -> None:
    bpy.ops.wm.open_mainfile(filepath=str(SAMPLES / f"{name}.blend"))
    scene = bpy.context.scene
    assert 100 <= scene.frame_end <= 150
    scene.frame_end = last
    objects = [obj for obj in scene.objects if obj.dampsim.enabled]
    for obj in objects:
        obj.dampsim.cache_folder = str(tmp_path)
    results = load("dampsim_addon.api").bake(objects, target="POINT_CACHE")
    assert [result.problem for result in results] == [""] * len(objects)
    geometry = load("core.geometry.collision.intersections")
    surface = load("core.geometry.collision.proximity").Triangles
    cache = load("dampsim_addon.model.caches").frame_cache(objects[0])
    assert any(len(one.contacts.keys) for one in cache.read(touched).state.history.contacts.values())
    colliders = [obj for obj in scene.objects if obj.type == "MESH" and obj.dampsim_collider.is_collider]
    loose, faces = (
        {obj: unpinned_vertices(obj) for obj in objects},
        {obj: triangles(obj) for obj in (*objects, *colliders)},
    )
    for half in range(2, 2 * last + 1):
        there = {obj: world_vertices(obj, 0.5 * half) for obj in faces}
        for obj in objects:
            own, limit = there[obj], VISIBLE_FRACTION * size(there[obj])
            for other in colliders:
                if other.dampsim_collider.plane:
                    assert own[:, 2].min() > other.location.z - limit
                elif loose[obj].all():
                    assert geometry.penetration_depth(own, faces[obj], there[other], faces[other]) < limit
                else:
                    # Pinned vertices lie inside the collider that the body grows out of.
                    assert geometry.depth_inside(own[loose[obj]], surface(there[other], faces[other])).max() < limit
            for other in objects:
                if other.name > obj.name:
                    assert geometry.penetration_depth(own, faces[obj], there[other], faces[other]) < limit
            if obj.dampsim.touch_self:
                # In the creases of the joints the animation itself intersects.
                soft = faces[obj][loose[obj][faces[obj]].all(axis=1)]
                edges, _ = geometry.intersecting_edges(own, soft, own, soft)
                assert not len(edges)
