"""Woven cloth: swatches and quad meshes become yarns, which play, bake and are displayed as tubes."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import bpy
import numpy as np
import pytest
from scenes import LAST, new_scene
from test_damping_models import RecordingLayout
from test_drawing import Context, redraw

pytestmark = pytest.mark.bpy
Load = Callable[[str], ModuleType]


def swaying_swatch(cache: Path, columns: int = 5, rows: int = 4) -> bpy.types.Object:
    """A new swatch with keyframed sway of its pinned upper tails."""
    assert bpy.ops.dampsim.weave(across=columns, along=rows, size=0.6) == {"FINISHED"}
    obj = bpy.context.object
    obj.dampsim.cache_folder, obj.dampsim.settle, obj.dampsim.target = str(cache), 12.0, "POINT_CACHE"
    for frame, place in ((1, 0.0), (3, 0.0), (5, 0.2)):
        obj.location.y = place
        obj.keyframe_insert("location", frame=frame)
    return obj


def test_weave_options_for_new_swatch(load: Load) -> None:
    """A mesh that is woven has no such options."""
    new_scene()
    weave = load("dampsim_addon.ui.yarns.operators").DAMPSIM_OT_weave
    names: list[str] = []
    one = SimpleNamespace(across=4, along=4, size=1.0, report=lambda *_: None, layout=RecordingLayout(names, []))
    assert weave.execute(one, bpy.context) == {"FINISHED"}
    weave.draw(one, bpy.context)
    assert names == ["across", "along", "size"]
    names.clear()
    bpy.ops.mesh.primitive_grid_add(x_subdivisions=4, y_subdivisions=4)
    assert weave.execute(one, bpy.context) == {"FINISHED"}
    weave.draw(one, bpy.context)
    assert names == []


def evaluated_vertices(obj: bpy.types.Object, frame: int) -> np.ndarray:
    """Return the evaluated vertices (v, 3) of a frame in world space."""
    bpy.context.scene.frame_set(frame)
    one = obj.evaluated_get(bpy.context.evaluated_depsgraph_get())
    found = np.empty(3 * len(one.data.vertices), dtype=np.float32)
    one.data.vertices.foreach_get("co", found)
    matrix = np.array(one.matrix_world)
    return np.asarray(found.reshape(-1, 3) @ matrix[:3, :3].T + matrix[:3, 3])


def test_new_swatch_defaults(tmp_path: Path) -> None:
    new_scene()
    obj = swaying_swatch(tmp_path)
    group = obj.dampsim
    assert (group.kind, group.pin_group, group.collide, group.touch_self) == ("WEAVE", "Pin", True, False)
    assert len(obj.data.vertices) == 7 * 6 - 4
    assert "20 crossings" in group.kind_note
    # The spacing of the yarns is 0.1 m.
    assert group.thickness == pytest.approx(40.0, rel=1e-2)
    assert group.stiffness_by == "MODULUS"


def test_yarn_tubes_follow_bake(load: Any, tmp_path: Path) -> None:
    new_scene()
    obj = swaying_swatch(tmp_path)
    (yarns,) = [child for child in obj.children if "DampSim Yarns" in child.modifiers]
    plain = evaluated_vertices(yarns, 1)
    # Nine round yarns reach one thickness above and below the plane of the crossings.
    assert len(plain) > 9 * 8 * 6
    assert plain[:, 1].max() == pytest.approx(0.04, rel=0.1)
    assert plain[:, 1].min() == pytest.approx(-0.04, rel=0.1)
    assert bpy.ops.dampsim.bake() == {"FINISHED"}
    cache = load("dampsim_addon.model.caches").frame_cache(obj)
    for number in (3, LAST):
        wanted, tubes = cache.read_shape(number, obj.name), evaluated_vertices(yarns, number)
        np.testing.assert_allclose(evaluated_vertices(obj, number), wanted, atol=2e-6)
        near = np.linalg.norm(tubes[:, None] - wanted[None], axis=2).min(axis=0)
        # Each crossing is within the two yarns that meet there.
        assert near.max() < 0.045
    assert np.abs(evaluated_vertices(yarns, LAST) - plain).max() > 0.01
    assert bpy.ops.dampsim.clear() == {"FINISHED"}


def _select_only(*objects: bpy.types.Object) -> None:
    """Select the objects; the first one becomes active."""
    bpy.ops.object.select_all(action="DESELECT")
    for obj in objects:
        obj.select_set(True)
    bpy.context.view_layer.objects.active = objects[0]


def test_copied_swatch_has_separate_yarns(tmp_path: Path) -> None:
    new_scene()
    obj = swaying_swatch(tmp_path)
    obj.animation_data_clear()
    (yarns,) = obj.children
    plain = evaluated_vertices(yarns, 1)
    _select_only(obj, yarns)
    bpy.ops.object.duplicate()
    copy = bpy.context.object
    (twin,) = copy.children
    copy.location.x = 5.0
    for vertex in copy.data.vertices:
        vertex.co.y += 2.0
    # Single precision at a distance of some metres.
    np.testing.assert_allclose(evaluated_vertices(twin, 1), plain + np.array([5.0, 2.0, 0.0]), atol=1e-5)
    np.testing.assert_allclose(evaluated_vertices(yarns, 1), plain, atol=1e-6)
    # A swatch copied without its yarns gets new ones and keeps its dials.
    _select_only(copy)
    bpy.ops.object.duplicate()
    bare = bpy.context.object
    bare.dampsim.stiffness = 77.0
    assert bpy.ops.dampsim.weave() == {"FINISHED"}
    assert bpy.context.object == bare
    assert len(bare.children) == 1
    assert bare.dampsim.stiffness == 77.0


def test_yarns_are_not_simulated(load: Any, tmp_path: Path) -> None:
    """The panel of the yarns selects the woven object."""
    new_scene()
    obj = swaying_swatch(tmp_path)
    (yarns,) = obj.children
    _select_only(yarns)
    assert not bpy.ops.dampsim.add.poll()
    texts = redraw(load)
    assert any("shows the yarns of Swatch" in text for text in texts)
    assert bpy.ops.dampsim.select_woven() == {"FINISHED"}
    assert bpy.context.object == obj
    assert bpy.context.selected_objects == [obj]
    bpy.data.objects.remove(obj)
    _select_only(yarns)
    assert not bpy.ops.dampsim.select_woven.poll()


def test_orphaned_yarns_can_be_deleted(load: Any, tmp_path: Path) -> None:
    new_scene()
    keeps = swaying_swatch(tmp_path, 3, 3)
    bpy.ops.object.select_all(action="DESELECT")
    obj = swaying_swatch(tmp_path)
    (yarns,), (kept,) = obj.children, keeps.children
    _select_only(kept)
    assert not bpy.ops.dampsim.drop_yarns.poll()
    mesh = yarns.data.name
    _select_only(obj)
    assert bpy.ops.object.delete() == {"FINISHED"}
    _select_only(yarns, kept)
    assert not bpy.ops.dampsim.add.poll()
    assert "yarns of a deleted object" in " ".join(redraw(load))
    assert bpy.ops.dampsim.drop_yarns() == {"FINISHED"}
    assert mesh not in bpy.data.meshes
    assert set(bpy.context.scene.objects) == {keeps, kept}


def test_rebuilt_yarns_match_edited_mesh(tmp_path: Path) -> None:
    new_scene()
    obj = swaying_swatch(tmp_path)
    obj.animation_data_clear()
    obj.location.y = 0.0
    assert "20 crossings" in obj.dampsim.kind_note
    bpy.ops.object.mode_set(mode="EDIT")
    bpy.ops.mesh.select_all(action="SELECT")
    bpy.ops.mesh.subdivide()
    bpy.ops.object.mode_set(mode="OBJECT")
    obj.dampsim.thickness = 10.0
    assert bpy.ops.dampsim.weave() == {"FINISHED"}
    (yarns,) = obj.children
    assert yarns.name == "Swatch Yarns"
    # Inner vertices of the 9 by 7 grid, and border vertices with tails.
    assert f"{7 * 5 + 2 * (5 + 4) - 4} crossings" in obj.dampsim.kind_note
    assert evaluated_vertices(yarns, 1)[:, 1].max() == pytest.approx(0.01, rel=0.15)
    assert obj.dampsim.thickness == 10.0


def test_rebuild_offered_for_outdated_yarns(load: Load, tmp_path: Path) -> None:
    new_scene()
    obj = swaying_swatch(tmp_path)
    obj.animation_data_clear()
    (yarns,) = obj.children

    def yarn_texts() -> list[str]:
        bpy.context.view_layer.update()
        words = ("ts yarns", "changed", "Rebuild Yarns", "Create Yarns")
        return [text for text in redraw(load) if any(one in text for one in words)]

    # Other dials, motion, renaming and a bake do not outdate the yarns.
    obj.dampsim.stiffness *= 2.0
    obj.data.vertices[8].co.y += 0.02
    obj.location.x, obj.name, yarns.name = 2.0, "Sack", "Threads"
    assert yarn_texts() == []
    assert bpy.ops.dampsim.bake() == {"FINISHED"}
    bpy.context.scene.frame_set(5)
    assert yarn_texts() == []
    assert bpy.ops.dampsim.clear() == {"FINISHED"}
    bpy.ops.wm.save_as_mainfile(filepath=str(tmp_path / "saved.blend"))
    bpy.ops.wm.open_mainfile(filepath=str(tmp_path / "saved.blend"))
    obj = bpy.context.object
    assert yarn_texts() == []

    def assert_rebuild(*words: str) -> None:
        assert yarn_texts() == [*words]
        assert bpy.ops.dampsim.weave() == {"FINISHED"}
        assert yarn_texts() == []

    earlier = ("Its yarns are outdated: mesh or thickness has", "changed", "Rebuild Yarns")
    obj.dampsim.thickness *= 0.5
    assert_rebuild(*earlier)
    obj.scale = 3 * (1.5,)
    assert_rebuild(*earlier)
    bpy.ops.object.mode_set(mode="EDIT")
    bpy.ops.mesh.select_all(action="SELECT")
    bpy.ops.mesh.subdivide()
    bpy.ops.object.mode_set(mode="OBJECT")
    assert_rebuild(*earlier)
    obj.modifiers.new("Mirror", "MIRROR").use_axis = (False, False, True)
    assert_rebuild(*earlier)
    # A swatch copied without its yarns, and one whose yarns were deleted.
    _select_only(obj)
    bpy.ops.object.duplicate()
    assert_rebuild("Its yarns are not displayed", "Create Yarns")
    copy = bpy.context.object
    _select_only(*copy.children)
    bpy.ops.object.delete()
    _select_only(copy)
    assert_rebuild("Its yarns are not displayed", "Create Yarns")


def test_yarns_on_mirrored_half(tmp_path: Path) -> None:
    new_scene()
    bpy.ops.mesh.primitive_grid_add(x_subdivisions=4, y_subdivisions=4, size=2.0)
    obj = bpy.context.object
    for vertex in obj.data.vertices:
        vertex.co.x += 1.0
    obj.modifiers.new("Mirror", "MIRROR")
    assert bpy.ops.dampsim.weave() == {"FINISHED"}
    assert np.ptp(evaluated_vertices(obj.children[0], 1)[:, 0]) == pytest.approx(
        4.0 + 1e-3 * obj.dampsim.thickness, rel=0.01
    )


def test_weave_quads_and_refuse_triangles(tmp_path: Path) -> None:
    new_scene()
    bpy.ops.mesh.primitive_grid_add(x_subdivisions=6, y_subdivisions=5, size=1.0)
    grid = bpy.context.object
    grid.scale = (2.0, 2.0, 2.0)
    bpy.context.view_layer.update()
    assert bpy.ops.dampsim.weave() == {"FINISHED"}
    assert bpy.context.object == grid
    # The border is a hem without sliding yarns.
    assert f"{5 * 4} crossings" in grid.dampsim.kind_note
    assert grid.dampsim.thickness == pytest.approx(400.0 * 2.0 * np.mean([1 / 6] * 36 + [1 / 5] * 35), rel=0.02)
    bpy.ops.mesh.primitive_ico_sphere_add()
    with pytest.raises(RuntimeError, match="no two yarns cross"):
        bpy.ops.dampsim.weave()
    assert not bpy.context.object.dampsim.enabled


def test_swatch_live_equals_bake(live: Any, load: Any, tmp_path: Path) -> None:
    scene = new_scene()
    obj = swaying_swatch(tmp_path)
    played = []
    for number in range(1, LAST + 1):
        scene.frame_set(number)
        played.append(evaluated_vertices(obj, number))
    assert bpy.ops.dampsim.bake() == {"FINISHED"}
    cache = load("dampsim_addon.model.caches").frame_cache(obj)
    for number, there in enumerate(played, 1):
        np.testing.assert_allclose(there, cache.read_shape(number, obj.name), atol=2e-6)
    assert np.abs(played[-1] - played[0]).max() > 0.01


def test_panel_offers_contact_of_swatch(load: Load, tmp_path: Path) -> None:
    """The panel has Other Bodies and Self-Collision, and says that folds intersect without the latter."""
    new_scene()
    obj = swaying_swatch(tmp_path)
    panel = load("dampsim_addon.ui.contact.panel").DAMPSIM_PT_contact
    for touches in (False, True):
        obj.dampsim.touch_self = touches
        names: list[str] = []
        texts: list[str] = []
        panel.draw(SimpleNamespace(layout=RecordingLayout(names, texts)), Context())
        assert {"touch_together", "touch_self"} <= set(names)
        assert ("Folds pass through each other" in " ".join(texts)) != touches


def test_thrown_box_pushes_swatch(load: Any, tmp_path: Path) -> None:
    """A box that is simulated together with a hanging swatch is thrown at it, and both are baked."""
    new_scene()
    obj = swaying_swatch(tmp_path)
    obj.animation_data_clear()
    obj.dampsim.touch_self = True
    middle = evaluated_vertices(obj, 1).mean(axis=0)
    bpy.ops.mesh.primitive_cube_add(size=0.2, location=(middle[0] + 0.01, middle[1] - 0.16, middle[2] + 0.1))
    box = bpy.context.object
    assert bpy.ops.dampsim.add() == {"FINISHED"}
    box.dampsim.pin_group, box.dampsim.density, box.dampsim.resolution = "", 50.0, 50
    box.dampsim.velocity_y = 2.0
    _select_only(obj, box)
    load("dampsim_addon.ui.objects.group_operators").simulate_together([obj, box], collide=True)
    assert obj.dampsim.touch_together
    assert box.dampsim.touch_together
    assert bpy.ops.dampsim.bake() == {"FINISHED"}
    cache = load("dampsim_addon.model.caches").frame_cache(obj)
    shapes = np.array([cache.read_shape(number, obj.name) for number in range(1, 7)])
    # Nothing else moves the swatch.
    assert np.abs(shapes - shapes[0]).max() > 0.02


@pytest.mark.slow
def test_woven_mesh_falls_on_box(live: Any, load: Any, tmp_path: Path) -> None:
    """The cloth lies on box and floor, and live playback equals the bake."""
    new_scene(30)
    bpy.ops.mesh.primitive_grid_add(x_subdivisions=7, y_subdivisions=7, size=1.0, location=(0.02, 0.01, 0.56))
    obj = bpy.context.object
    bpy.ops.mesh.primitive_cube_add(size=0.5, location=(0.0, 0.0, 0.25))
    box = bpy.context.object
    bpy.ops.object.select_all(action="DESELECT")
    obj.select_set(True)
    bpy.context.view_layer.objects.active = obj
    assert bpy.ops.dampsim.weave() == {"FINISHED"}
    obj.dampsim.thickness = 10.0
    obj.dampsim.cache_folder, obj.dampsim.settle, obj.dampsim.target = str(tmp_path), 8.0, "POINT_CACHE"
    assert bpy.ops.dampsim.floor() == {"FINISHED"}
    box.select_set(True)
    assert bpy.ops.dampsim.collider() == {"FINISHED"}
    played = [evaluated_vertices(obj, number) for number in range(1, 31)]
    assert bpy.ops.dampsim.bake() == {"FINISHED"}
    cache = load("dampsim_addon.model.caches").frame_cache(obj)
    for number, there in enumerate(played, 1):
        np.testing.assert_allclose(there, cache.read_shape(number, obj.name), atol=2e-6)
        # It penetrates neither box nor floor by more than 1/1000 of its size.
        inside = np.minimum(0.25 - np.abs(there[:, :2]).max(axis=1), 0.5 - there[:, 2])
        assert inside.max() < 1.4e-3
        assert there[:, 2].min() > -1.4e-3
    # It lies one thickness above the box, and its sides hang down.
    assert 0.505 < played[-1][:, 2].max() < 0.56
    assert played[-1][:, 2].min() < 0.4
    assert np.abs(played[-1] - played[-3]).max() < 5e-3


@pytest.mark.slow
def test_sample_sackcloth_stays_on_trolley(load: Any, tmp_path: Path) -> None:
    """The sackcloth never penetrates ball, trolley or floor, and the trolley carries it along."""
    bpy.ops.wm.open_mainfile(filepath=str(Path(__file__).parents[2] / "sample_blends" / "sackcloth.blend"))
    scene, obj = bpy.context.scene, bpy.data.objects["Sackcloth"]
    obj.dampsim.cache_folder = str(tmp_path)
    (result,) = load("dampsim_addon.api").bake([obj], target="POINT_CACHE")
    assert result.problem == ""
    crossings, proximity = load("core.geometry.collision.intersections"), load("core.geometry.collision.proximity")
    sewn, others = (
        load("core.simulation.contact_setup").weld_coincident,
        [bpy.data.objects[name] for name in ("Ball", "Trolley")],
    )
    edges = np.array([edge.vertices[:] for edge in obj.data.edges])
    parts, before = np.linspace(0.0, 1.0, 9)[:, None, None], None
    for frame in range(1, scene.frame_end + 1):
        there = evaluated_vertices(obj, frame)
        size = float(np.linalg.norm(np.ptp(there, axis=0)))
        yarns = ((1.0 - parts) * there[edges[:, 0]] + parts * there[edges[:, 1]]).reshape(-1, 3)
        assert yarns[:, 2].min() > -1e-3 * size
        for other in others:
            places = evaluated_vertices(other, frame)
            other.data.calc_loop_triangles()
            faces = sewn(places, np.array([one.vertices[:] for one in other.data.loop_triangles]))
            assert crossings.depth_inside(yarns, proximity.Triangles(places, faces)).max(initial=0.0) < 1e-3 * size
        before = there if frame == 50 else before
    assert before is not None
    # The trolley carries it along by 75 cm except for some slip, and it comes to rest.
    way = there - before
    np.testing.assert_allclose(way.mean(axis=0), [0.75, 0.0, 0.0], atol=0.03)
    assert np.abs(there - evaluated_vertices(obj, scene.frame_end - 6)).max() < 0.01


@pytest.mark.slow
def test_sample_sacking_yarn_slides(load: Any) -> None:
    bpy.ops.wm.open_mainfile(filepath=str(Path(__file__).parents[2] / "sample_blends" / "sacking.blend"))
    scene, obj = bpy.context.scene, bpy.data.objects["Sacking"]
    snapshot, simulation = load("dampsim_addon.scene_reader.scene_builder"), load("core.simulation.simulation")
    with snapshot.GroupSampler(scene, bpy.context.view_layer, [obj]) as sampler:
        made = simulation.Simulation(snapshot.build_scene(sampler))
        frames = list(made.frames())
    cloth = load("core.system.weave_term").find_weave_term(made.islands[0].system.blocks[0].terms).cloth
    places = [frame.state.history.block("Sacking").yarns.positions for frame in frames[1:]]
    slid = np.abs(places[-1] - places[0])
    # The ring moves by 30 cm, and the cloth yields a part of it. Only the 16 crossings of the pulled yarn slide so far.
    assert int((slid > 0.1).sum()) == 16
    assert 0.2 < float(slid.max()) < 0.3
    for frame, u in zip(frames[1:], places, strict=True):
        x, (a, b) = frame.state.positions, cloth.ends.T
        # No piece of yarn is stretched by more than 5%.
        assert float((np.linalg.norm(x[b] - x[a], axis=1) / cloth.lengths(u)).max()) < 1.05
    # The ring stops at frame 82, less than Settle before the end.
    moved = np.linalg.norm(frames[-1].surface - frames[-6].surface, axis=1).max()
    assert moved < 0.01 * 0.3
