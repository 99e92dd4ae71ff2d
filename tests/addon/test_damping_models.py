"""The damping models of the papers in bakes and in their panel."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from types import ModuleType, SimpleNamespace

import bpy
import numpy as np
import pytest
from scenes import LAST, new_scene, size, wobbler, world_vertices
from test_drawing import Context, Layout

pytestmark = pytest.mark.bpy
Load = Callable[[str], ModuleType]


@pytest.mark.slow
def test_damping_models_bake_differently(load: Load, tmp_path: Path) -> None:
    scene = new_scene()
    obj = wobbler(tmp_path)
    job = load("dampsim_addon.jobs.bake")
    seen = {}
    for method in load("core.literature.damping").DAMPINGS:
        obj.dampsim.damping_by = method.name
        obj.dampsim.gamma, obj.dampsim.damping_ratio = 0.8, 0.5
        for _ in job.bake_object(scene, bpy.context.view_layer, obj, True):
            pass
        cache = load("dampsim_addon.model.caches").frame_cache(obj)
        assert cache.frame_numbers() == list(range(1, LAST + 1))
        seen[method.name] = cache.read(LAST).surface
    names = list(seen)
    for k, name in enumerate(names):
        for other in names[:k]:
            assert np.abs(seen[name] - seen[other]).max() > 1e-6


@pytest.mark.slow
@pytest.mark.parametrize("target", ["SHAPE_KEYS", "POINT_CACHE"])
def test_fully_pinned_body_follows_animation(load: Load, tmp_path: Path, target: str) -> None:
    scene = new_scene(5)
    obj = wobbler(tmp_path)
    obj.vertex_groups["Pin"].add([v.index for v in obj.data.vertices], 1.0, "REPLACE")
    plain = {frame: world_vertices(obj, frame) for frame in range(1, 6)}
    live, overlay = load("dampsim_addon.live"), load("dampsim_addon.ui.viewport.overlay")
    shapes = load("dampsim_addon.ui.viewport.shape_overlays")
    standing = load("dampsim_addon.ui.main.live_status").live_status_text
    live.install()
    try:
        for frame, animated in plain.items():
            scene.frame_set(frame)
            np.testing.assert_allclose(live.find_session(obj).frames[frame - 1].frame.surface, animated, atol=1e-6)
            found = overlay.body_view(obj, scene)
            assert found.data(shapes.worst_element)[1] == 1.0
            np.testing.assert_allclose(found.data(shapes.rest_shape)[0], animated, atol=1e-5)
        assert not standing(obj, bpy.context)[1]
    finally:
        live.uninstall()
        live.drop_session(obj)
    assert bpy.ops.dampsim.measure() == {"FINISHED"}
    assert obj.dampsim.measured_sag < 1e-4
    obj.dampsim.target = target
    names = [one.name for one in load("core.scene.parameters").PARAMETERS["damping_by"].choices]
    for name in names:
        obj.dampsim.damping_by = name
        assert bpy.ops.dampsim.bake() == {"FINISHED"}
        for frame, animated in plain.items():
            np.testing.assert_allclose(world_vertices(obj, frame), animated, atol=2e-6 * size(animated))


def test_unstable_integrator_message(tmp_path: Path) -> None:
    """The message about an unstable explicit integrator names the object and the substeps that it needs."""
    new_scene()
    obj = wobbler(tmp_path)
    obj.dampsim.damping_by, obj.dampsim.integrator = "DIRECT", "SYMPLECTIC_EULER"
    with pytest.raises(RuntimeError, match=r"Wobbler: frame \d+ could not be simulated.*needs about \d+ substeps"):
        bpy.ops.dampsim.bake()
    assert not obj.dampsim.baked


def bake_last_surface(load: Load, obj: bpy.types.Object) -> np.ndarray:
    """Bake with the current settings; return the surface at the last frame, (v, 3) m."""
    for _ in load("dampsim_addon.jobs.bake").bake_object(bpy.context.scene, bpy.context.view_layer, obj, True):
        pass
    return load("dampsim_addon.model.caches").frame_cache(obj).read(LAST).surface


@pytest.mark.slow
def test_torque_schemes_bake_differently(load: Load, tmp_path: Path) -> None:
    new_scene()
    obj = wobbler(tmp_path)
    group = obj.dampsim
    obj.vertex_groups.new(name="Top").add([v.index for v in obj.data.vertices if v.co.z > 0.5], 1.0, "REPLACE")
    group.damping_by, group.gamma, group.clusters, group.torque = "DIRECT", 0.8, "BODY_THEN_ELEMENTS", "EDGES"
    seen = {}
    # Omit the scheme with a linear programme for each element and step, which takes minutes.
    for then in ("SAME", "RADII", "RIGID", "EDGES_PRINTED", "NONE"):
        group.torque_then = then
        seen[then] = bake_last_surface(load, obj)
    group.clusters, group.torque = "BODY", "RAYS"
    seen["rays from the centre of mass"] = bake_last_surface(load, obj)
    group.centre_group = "Top"
    seen["rays from the top"] = bake_last_surface(load, obj)
    group.torque = "NONE"
    seen["no projection"] = bake_last_surface(load, obj)
    names = list(seen)
    for k, name in enumerate(names):
        for other in names[:k]:
            assert np.abs(seen[name] - seen[other]).max() > 1e-6, (name, other)


@pytest.mark.slow
def test_spring_net_painted_centre(load: Load, tmp_path: Path) -> None:
    new_scene()
    obj = wobbler(tmp_path)
    group = obj.dampsim
    group.kind, group.damping_by, group.gamma, group.torque = "SPRINGS", "DIRECT", 0.8, "RAYS"
    obj.vertex_groups.new(name="Top").add([v.index for v in obj.data.vertices if v.co.z > 0.5], 1.0, "REPLACE")
    before = bake_last_surface(load, obj)
    group.centre_group = "Top"
    assert np.abs(bake_last_surface(load, obj) - before).max() > 1e-6


def test_painted_strain_rate_damping(load: Load, tmp_path: Path) -> None:
    """Weights of 1 change nothing, weights of 0 remove the damping, and the panel shows the group with this model."""
    new_scene()
    obj = wobbler(tmp_path)
    group = obj.dampsim
    group.damping_by, group.damping_ratio = "STRAIN_RATE", 0.8
    painted = obj.vertex_groups.new(name="Calm")
    seen = []
    for name, weight, ratio in (("", 0.0, 0.8), ("Calm", 1.0, 0.8), ("Calm", 0.0, 0.8), ("", 0.0, 0.0)):
        painted.add(range(len(obj.data.vertices)), weight, "REPLACE")
        group.damping_group, group.damping_ratio = name, ratio
        seen.append(bake_last_surface(load, obj))
    np.testing.assert_array_equal(seen[1], seen[0])
    np.testing.assert_allclose(seen[2], seen[3], atol=1e-6)
    assert np.abs(seen[2] - seen[0]).max() > 1e-5
    assert "damping_group" in draw_advanced_panel(load)[0]
    group.damping_by = "POINT"
    assert "damping_group" not in draw_advanced_panel(load)[0]
    group.damping_group = "Lost"
    assert "damping_group" not in draw_advanced_panel(load)[0]


class RecordingLayout(Layout):
    """Layout that records the names of properties in addition to the texts."""

    def __init__(self, names: list[str], texts: list[str]) -> None:
        super().__init__(texts)
        object.__setattr__(self, "names", names)

    def prop(self, data: object, name: str, **_: object) -> None:
        self.names.append(name)

    def prop_search(self, data: object, name: str, *_: object, **__: object) -> None:
        self.names.append(name)


def draw_advanced_panel(load: Load) -> tuple[set[str], str]:
    """Draw the Advanced panel; return the names of its properties and its text."""
    names: list[str] = []
    texts: list[str] = []
    panel = load("dampsim_addon.ui.main.advanced_panel").DAMPSIM_PT_advanced
    panel.draw(SimpleNamespace(layout=RecordingLayout(names, texts)), Context())
    return set(names), " ".join(texts)


def test_panel_shows_effective_settings(load: Load, tmp_path: Path) -> None:
    """The panel shows only settings with an effect, and explains those without."""
    new_scene()
    obj = wobbler(tmp_path)
    group = obj.dampsim
    group.damping_by = "DIRECT"
    assert not {"torque_then", "centre_group", "damp_current"} & draw_advanced_panel(load)[0]
    group.clusters = "BODY_THEN_RINGS"
    assert {"torque", "torque_then"} <= draw_advanced_panel(load)[0]
    group.torque_then = "RAYS"
    names, said = draw_advanced_panel(load)
    assert "centre_group" in names
    assert "centre of mass" in said
    group.clusters = "BODY"
    assert "centre_group" not in draw_advanced_panel(load)[0]
    group.torque = "NONE"
    assert "slows rotation" in draw_advanced_panel(load)[1]
    # A missing group without effect does not stop the bake either.
    group.centre_group = "Lost"
    assert "centre_group" not in draw_advanced_panel(load)[0]
    group.centre_group = ""
    for damping in ("SPRING", "SPRING_WHOLE"):
        group.damping_by, group.damp_current = damping, True
        for integrator in load("core.literature.integrators").INTEGRATORS:
            group.integrator = integrator.name
            names, said = draw_advanced_panel(load)
            assert ("damp_current" in names) == (not integrator.is_implicit)
            assert ("Current Velocities has no effect" in said) == integrator.is_implicit


def test_rigid_ignores_damping_model(load: Load, tmp_path: Path) -> None:
    """The damping of the kind before has no effect: hidden, not baked, no change, and back with that kind."""
    scene = new_scene(4)
    obj = wobbler(tmp_path)
    group, frames = obj.dampsim, {}
    group.kind, group.centre_group, group.damping_group = "RIGID", "Lost", "Lost"
    top = max(obj.data.vertices, key=lambda vertex: vertex.co.z).index
    obj.vertex_groups["Pin"].add([top], 1.0, "REPLACE")
    obj.vertex_groups["Pin"].remove([vertex.index for vertex in obj.data.vertices if vertex.index != top])
    hidden = {"damping_by", "tau", "gamma", "torque", "centre_group", "damping_group", "stiffness_group"}
    for damping in ("DIALS", "STRAIN_RATE", "TAU_GAMMA"):
        group.damping_by = damping
        names, said = draw_advanced_panel(load)
        assert not hidden & names
        assert {"settle_group", "calibration"} <= names
        assert "In use" in said or "known after" in said
        assert bpy.ops.dampsim.bake() == {"FINISHED"}
        cache = load("dampsim_addon.model.caches").frame_cache(obj)
        frames[damping] = cache.read(scene.frame_end).surface
        np.testing.assert_array_equal(frames[damping], frames["DIALS"])
        group.damping_by = "DIALS"
        assert not load("dampsim_addon.status.bake_changes").changes_since_bake(obj, scene)
        group.damping_by = damping
    assert bpy.ops.dampsim.calibrate.poll()
    assert not bpy.ops.dampsim.measure.poll()
    group.kind = "SOLID"
    assert "gamma" in draw_advanced_panel(load)[0]
    assert bpy.ops.dampsim.measure.poll()


@pytest.mark.slow
def test_current_velocities_with_implicit_integrators(load: Load, tmp_path: Path) -> None:
    """Current Velocities has no effect with an implicit integrator, as the panel states."""
    new_scene()
    obj = wobbler(tmp_path)
    group = obj.dampsim
    group.damping_by, group.gamma = "SPRING", 0.8
    for integrator in load("core.literature.integrators").INTEGRATORS:
        if not integrator.is_implicit:
            continue
        group.integrator = integrator.name
        group.damp_current = False
        before = bake_last_surface(load, obj)
        group.damp_current = True
        assert np.array_equal(bake_last_surface(load, obj), before)
