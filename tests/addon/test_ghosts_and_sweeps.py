"""Comparison of dials: ghosts in the viewport and sweeps in background mode."""

from __future__ import annotations

import csv
from collections.abc import Callable
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import bpy
import numpy as np
import pytest
from mathutils import Matrix
from scenes import LAST, add_simulation, armature, dump, new_scene, wobbler
from test_groups import cube, grid, wire

pytestmark = pytest.mark.bpy
Load = Callable[[str], ModuleType]
OTHER_DIALS = {"settle": 5.0, "bounce": 70.0, "follow_through": 0.4, "stiffness": 60.0}


def bake_surfaces(load: Load, obj: bpy.types.Object) -> np.ndarray:
    job = load("dampsim_addon.jobs.bake")
    for _ in job.bake_object(bpy.context.scene, bpy.context.view_layer, obj, True):
        pass
    cache = load("dampsim_addon.model.caches").frame_cache(obj)
    made = np.array([cache.read(number).surface for number in cache.frame_numbers()], dtype=np.float32)
    assert bpy.ops.dampsim.clear() == {"FINISHED"}
    return made


def set_dials(obj: bpy.types.Object, values: dict[str, float]) -> None:
    for name, value in values.items():
        setattr(obj.dampsim, name, value)


@pytest.mark.slow
def test_ghosts_equal_bakes(load: Load, tmp_path: Path) -> None:
    """Picking a ghost sets its dials on the object."""
    scene = new_scene()
    obj = wobbler(tmp_path)
    armature(obj)
    ghosts = load("dampsim_addon.status.results")
    obj.dampsim.keyframe_insert("settle", frame=1)
    own = {name: getattr(obj.dampsim, name) for name in OTHER_DIALS}
    assert bpy.ops.dampsim.ghost_add() == {"FINISHED"}
    obj.animation_data.action.layers[0].strips[0].channelbags[0].fcurves.clear()
    set_dials(obj, OTHER_DIALS)
    assert bpy.ops.dampsim.ghost_add() == {"FINISHED"}
    set_dials(obj, {"settle": 33.0})
    armature_free = dump()
    scene.frame_set(3)
    assert bpy.ops.dampsim.compare() == {"FINISHED"}
    assert scene.frame_current == 3
    assert obj.dampsim.settle == 33.0
    shown = ghosts.ghosts_of(obj)
    assert shown.first_frame == 1
    assert "Bounce 70 %" in shown.labels[1]
    scene.frame_set(1)
    assert dump() == armature_free
    for number, dials in enumerate((own, OTHER_DIALS)):
        set_dials(obj, dials)
        assert shown.surfaces[number].tobytes() == bake_surfaces(load, obj).tobytes()
    set_dials(obj, own)
    assert bpy.ops.dampsim.ghost_pick(number=1) == {"FINISHED"}
    assert {name: getattr(obj.dampsim, name) for name in OTHER_DIALS} == pytest.approx(OTHER_DIALS)
    assert len(obj.dampsim.variants) == 0
    assert ghosts.ghosts_of(obj) is None


class Shader:
    """Stand-in for a GPU shader, which a background Blender lacks."""

    def __init__(self, name: str) -> None:
        self.name, self.values = name, {}

    def uniform_float(self, name: str, value: Any) -> None:
        self.values[name] = value


def drawn_ghosts(load: Load, monkeypatch: pytest.MonkeyPatch, obj: bpy.types.Object) -> list[SimpleNamespace]:
    """Return the batches that the viewport draws for the ghosts of an object, seen from above."""
    drawing, batches = load("dampsim_addon.ui.common.drawing"), []

    def batch(shader: Shader, sort: str, content: dict[str, np.ndarray], indices: Any = None) -> SimpleNamespace:
        made = SimpleNamespace(sort=sort, indices=indices, values=shader.values, **content)
        return SimpleNamespace(draw=lambda _: batches.append(made))

    state = SimpleNamespace(
        depth_test_set=lambda *_: None, depth_mask_set=lambda *_: None, viewport_get=lambda: (0, 0, 640, 480)
    )
    monkeypatch.setattr(drawing, "gpu", SimpleNamespace(state=state, shader=SimpleNamespace(from_builtin=Shader)))
    monkeypatch.setattr(drawing, "batch_for_shader", batch)
    above = SimpleNamespace(view_matrix=Matrix())
    load("dampsim_addon.ui.compare.overlay").GhostOption().draw(
        SimpleNamespace(scene=bpy.context.scene, region_data=above), obj, None
    )
    return batches


def compare_two_ghosts(obj: bpy.types.Object, cache: Path, **dials: Any) -> None:
    """Add an object to the simulation and compare two ghosts of it."""
    add_simulation(obj, cache, resolution=100, **dials)
    for settle in (5.0, 10.0):
        obj.dampsim.settle = settle
        assert bpy.ops.dampsim.ghost_add() == {"FINISHED"}
    assert bpy.ops.dampsim.compare() == {"FINISHED"}


def net() -> bpy.types.Object:
    """A grid without faces."""
    obj = grid()
    edges = [tuple(edge.vertices) for edge in obj.data.edges]
    places = [tuple(vertex.co) for vertex in obj.data.vertices]
    pinned = [v.index for v in obj.data.vertices if v.groups]
    obj.data.clear_geometry()
    obj.data.from_pydata(places, edges, [])
    # Weights are stored in the vertices, which are new.
    obj.vertex_groups.new(name="Pin").add(pinned, 1.0, "REPLACE")
    return obj


@pytest.mark.parametrize("make", [wire, net])
def test_ghosts_of_wires_draw_edges(
    load: Load, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, make: Callable[[], bpy.types.Object]
) -> None:
    scene = new_scene(5)
    obj = make()
    edges = np.array([tuple(edge.vertices) for edge in obj.data.edges])
    compare_two_ghosts(obj, tmp_path)
    shown = load("dampsim_addon.status.results").ghosts_of(obj)
    for frame in (1, 4):
        scene.frame_set(frame)
        batches = drawn_ghosts(load, monkeypatch, obj)
        assert [one.sort for one in batches] == ["LINES", "LINES"]
        assert len({one.values["color"] for one in batches}) == 2
        for place, one in enumerate(batches):
            there = shown.surfaces[place][frame - 1][np.sort(edges, axis=1)].reshape(-1, 3)
            # Each ghost is translated along the screen and otherwise unchanged.
            aside = one.pos - there
            assert aside[:, 0].min() > 0.9 * (place + 1)
            np.testing.assert_allclose(aside, np.tile(aside[:1], (len(aside), 1)), atol=1e-5)
            np.testing.assert_allclose(aside[:, 1:], 0.0, atol=1e-6)


def test_ghosts_draw_faces_and_loose_edges(load: Load, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    new_scene(3)
    compare_two_ghosts(solid := cube(), tmp_path)
    batches = drawn_ghosts(load, monkeypatch, solid)
    assert [one.sort for one in batches] == ["TRIS", "TRIS"]
    assert all(one.pos.shape == (8, 3) and one.indices.shape == (12, 3) for one in batches)
    sheet = grid()
    fringe = len(sheet.data.vertices)
    sheet.data.vertices.add(1)
    sheet.data.vertices[fringe].co = (-0.2, 0.0, 0.0)
    sheet.data.edges.add(1)
    sheet.data.edges[-1].vertices = (0, fringe)
    sheet.data.update()
    compare_two_ghosts(sheet, tmp_path, kind="SPRINGS")
    batches = drawn_ghosts(load, monkeypatch, sheet)
    assert [one.sort for one in batches] == ["TRIS", "LINES"] * 2
    assert all(one.pos.shape == (2, 3) for one in batches[1::2])


def test_ghost_spacing_of_end_on_wire(load: Load, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    new_scene(2)
    obj = wire()
    obj.rotation_euler.y = -np.pi / 2
    compare_two_ghosts(obj, tmp_path)
    first, second = (one.pos[0, 0] for one in drawn_ghosts(load, monkeypatch, obj))
    assert first > 0.1
    assert second > first + 0.1


def test_ghost_limit_and_removal(load: Load, tmp_path: Path) -> None:
    new_scene()
    obj = wobbler(tmp_path)
    for settle in (5.0, 6.0, 7.0, 8.0):
        obj.dampsim.settle = settle
        assert bpy.ops.dampsim.ghost_add() == {"FINISHED"}
    with pytest.raises(RuntimeError, match="limit of 4 ghosts"):
        bpy.ops.dampsim.ghost_add()
    assert bpy.ops.dampsim.ghost_remove(number=1) == {"FINISHED"}
    assert [variant.settle for variant in obj.dampsim.variants] == [5.0, 7.0, 8.0]


def test_scene_edit_outdates_ghosts(load: Load, tmp_path: Path) -> None:
    new_scene()
    obj = wobbler(tmp_path)
    live, ghosts = load("dampsim_addon.live"), load("dampsim_addon.status.results")
    live.install()
    try:
        bpy.ops.dampsim.ghost_add()
        bpy.ops.dampsim.compare()
        bpy.context.scene.frame_set(5)
        assert not ghosts.ghosts_of(obj).is_stale
        obj.scale.z *= 1.1
        bpy.context.view_layer.update()
        assert ghosts.ghosts_of(obj).is_stale
    finally:
        live.uninstall()


@pytest.fixture
def camera_scene(tmp_path: Path) -> bpy.types.Object:
    scene = new_scene()
    obj = wobbler(tmp_path / "cache")
    data = bpy.data.cameras.new("Camera")
    camera = bpy.data.objects.new("Camera", data)
    camera.location, camera.rotation_euler = (0.3, -4.0, 0.0), (np.pi / 2, 0.0, 0.0)
    scene.collection.objects.link(camera)
    scene.camera = camera
    scene.world = bpy.data.worlds.new("World")
    scene.world.color = (1.0, 1.0, 1.0)
    return obj


@pytest.mark.slow
def test_sweep_measures_all_combinations(
    load: Load, camera_scene: bpy.types.Object, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    """The scene stays unchanged."""
    cli, out = load("dampsim_addon.cli"), tmp_path / "sweep"
    bpy.context.scene.render.resolution_x = bpy.context.scene.render.resolution_y = 64
    before = dump()
    dials = {name: getattr(camera_scene.dampsim, name) for name in OTHER_DIALS}
    assert (
        cli.main(["sweep", "--set", "settle=5,9", "--set", "bounce=0,60", "--pictures", "2", "--output", str(out)]) == 0
    )
    assert {name: getattr(camera_scene.dampsim, name) for name in OTHER_DIALS} == dials
    bpy.context.scene.frame_set(1)
    assert dump() == before
    with (out / "sweep.csv").open(encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    assert [(row["settle"], row["bounce"]) for row in rows] == [("5", "0"), ("5", "60"), ("9", "0"), ("9", "60")]
    for row in rows:
        # Accuracy of the dials for the swing that Calibrate uses.
        assert float(row["rest_frames"]) == pytest.approx(float(row["settle"]), abs=1.0)
        assert float(row["bounce_percent"]) == pytest.approx(float(row["bounce"]), abs=5.0)
        assert 0.0 < float(row["largest_offset_percent"]) < 100.0
        assert (out / f"curve_0{row['number']}.svg").read_text(encoding="utf-8").startswith("<svg")
    # A longer Settle gives a larger swing.
    assert all(float(rows[k + 2]["largest_offset_percent"]) > float(rows[k]["largest_offset_percent"]) for k in (0, 1))
    page = (out / "index.html").read_text(encoding="utf-8")
    assert all(f"curve_0{number}.svg" in page for number in range(1, 5))
    sheet = bpy.data.images.load(str(out / "contact_sheet.png"))
    assert tuple(sheet.size) == (2 * 320, 4 * 320)
    pixels = np.array(sheet.pixels[:]).reshape(4, 320, 2, 320, 4)[..., :3]
    # The captions at the top differ. Below, the body is darker than the world, and its pose depends on the dials.
    below = pixels[:, :280]
    assert (np.ptp(below, axis=(1, 3, 4)) > 0.02).all()
    assert all(np.abs(below[0] - below[k]).max() > 0.02 for k in (1, 2, 3))
    said = capfd.readouterr().out
    assert f"At rest {float(rows[0]['rest_frames']):.1f} frames after the stop (set 5)" in said


@pytest.mark.slow
def test_sweep_over_laws_and_whip(
    load: Load, camera_scene: bpy.types.Object, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    cli, out = load("dampsim_addon.cli"), tmp_path / "sweep"
    sets = ["--set", "damping_by=DIALS,FIRST_MODE", "--set", "whip=1.05,2", "--pictures", "0"]
    assert cli.main(["sweep", *sets, "--output", str(out)]) == 0
    with (out / "sweep.csv").open(encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    # Whip has no effect on the first-mode law.
    assert [row["rest_frames"] for row in rows[2:]] == [rows[2]["rest_frames"]] * 2
    assert rows[0]["largest_offset_percent"] != rows[1]["largest_offset_percent"]
    said = capfd.readouterr().out
    assert "frames after the stop" in said
    assert "frames after the release" in said


def test_sweep_reports_failed_combination(
    load: Load, camera_scene: bpy.types.Object, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    cli, out = load("dampsim_addon.cli"), tmp_path / "sweep"
    camera_scene.dampsim.poisson = 0.2
    arguments = ["sweep", "--set", "damping_by=TRADITIONAL,DIALS", "--pictures", "0", "--output", str(out)]
    assert cli.main([*arguments, "--frames", f"1:{LAST - 4}"]) == 1
    with (out / "sweep.csv").open(encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    assert "Raise it to 1/3" in rows[0]["problem"]
    assert rows[1]["problem"] == ""
    assert float(rows[1]["rest_frames"]) > 1.0


@pytest.mark.parametrize(
    ("arguments", "code", "words"),
    [
        (["--set", "settle=4,x"], 2, "settle: 'x' is not a number"),
        (["--set", "settle=4", "--pictures", "-1"], 2, "give 0 or more"),
        ([], 2, "at least once"),
        (["--set", "settle=4"], 1, "no camera"),
    ],
)
def test_invalid_sweep_writes_nothing(
    load: Load, tmp_path: Path, capfd: pytest.CaptureFixture[str], arguments: list[str], code: int, words: str
) -> None:
    new_scene()
    wobbler(tmp_path / "cache")
    out = tmp_path / "sweep"
    assert load("dampsim_addon.cli").main(["sweep", *arguments, "--output", str(out)]) == code
    assert words in capfd.readouterr().err
    assert not out.exists()


def test_checkpoint_names_unwritable_folder(load: Load, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("", encoding="utf-8")
    checkpoint = load("dampsim_addon.compare.checkpoint").SweepCheckpoint(tmp_path / "file" / "folder", "mark")
    with pytest.raises(load("core").SceneError, match=r"cannot be written .*; choose another folder"):
        checkpoint.write(1, {}, None, [np.zeros((1, 3))])
