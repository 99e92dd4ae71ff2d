"""Frames that a bake finds: after lost saves, killed bakes, copies of files, and duplicates of objects and scenes."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

import bpy
import pytest
from scenes import add_simulation, new_scene

pytestmark = [pytest.mark.bpy, pytest.mark.versions]
Load = Callable[[str], ModuleType]
LAST = 8


def box(name: str, cache: object = "", place: float = 0.0) -> bpy.types.Object:
    """Return a coarse box that is pinned at its foot and moved to the side."""
    bpy.ops.mesh.primitive_cube_add(location=(0.0, place, 0.0))
    obj = bpy.context.object
    obj.name = obj.data.name = name
    bpy.ops.object.mode_set(mode="EDIT")
    bpy.ops.mesh.subdivide(number_cuts=2)
    bpy.ops.object.mode_set(mode="OBJECT")
    pins = [vertex.index for vertex in obj.data.vertices if vertex.co.z < -0.9]
    obj.vertex_groups.new(name="Pin").add(pins, 1.0, "REPLACE")
    for frame, x in ((1, 0.0), (3, 0.0), (6, 0.6)):
        obj.location.x = x
        obj.keyframe_insert("location", frame=frame)
    add_simulation(obj, cache, resolution=100, range_blend=2)
    return obj


def pair(load: Load) -> list[bpy.types.Object]:
    """Return two boxes of one simulation group."""
    boxes = [box("A"), box("B", place=3.0)]
    load("dampsim_addon.model.groups").join_group(boxes)
    return boxes


def duplicate(obj: bpy.types.Object) -> bpy.types.Object:
    """Return a copy of an object with its own mesh, as Duplicate Objects makes it."""
    copy = obj.copy()
    copy.data = obj.data.copy()
    bpy.context.collection.objects.link(copy)
    return copy


def save(path: Path) -> None:
    bpy.ops.wm.save_as_mainfile(filepath=str(path))


def reopen(path: Path) -> list[bpy.types.Object]:
    """Open a file, and return its simulated objects."""
    bpy.ops.wm.open_mainfile(filepath=str(path))
    return [obj for obj in bpy.data.objects if obj.dampsim.enabled]


def problems(load: Load, objects: list[bpy.types.Object], **options: Any) -> list[str]:
    """Bake and return the problems."""
    return [one.problem for one in load("dampsim_addon.api").bake(objects, **options)]


def stop_at(load: Load, objects: list[bpy.types.Object], number: int, **options: Any) -> None:
    """Begin a bake, and stop it as a killed process would."""
    group = load("dampsim_addon.model.groups").group_of(objects[0])
    layer = bpy.context.view_layer
    steps = load("dampsim_addon.jobs.bake").bake_group(bpy.context.scene, layer, group, False, **options)
    while (step := next(steps)).text != "Simulating" or step.completed < number:
        pass
    steps.close()


OPTIONS: list[dict[str, Any]] = [{"start": 5}, {"frames": (4, 7)}]


@pytest.mark.parametrize("options", OPTIONS, ids=["start", "range"])
def test_lost_save_of_group(load: Load, options: dict[str, Any], tmp_path: Path) -> None:
    """The group knows the name of its cache, but not yet that it lies beside the file."""
    new_scene(LAST)
    boxes = pair(load)
    save(tmp_path / "shot.blend")
    assert problems(load, boxes) == ["", ""]
    boxes = reopen(tmp_path / "shot.blend")
    assert [load("dampsim_addon.api").info(obj).cached for obj in boxes] == [LAST, LAST]
    assert problems(load, boxes, **options) == ["", ""]


def test_lost_save_through_linked_folder(load: Load, tmp_path: Path) -> None:
    new_scene(LAST)
    box("A")
    folder, link = tmp_path / "shots", tmp_path / "link"
    folder.mkdir()
    link.symlink_to(folder)
    save(folder / "shot.blend")
    assert problems(load, reopen(link / "shot.blend")) == [""]
    assert problems(load, reopen(folder / "shot.blend"), start=5) == [""]


def test_info_counts_lost_frames(load: Load, tmp_path: Path) -> None:
    new_scene(LAST)
    obj = box("A")
    save(tmp_path / "shot.blend")
    info = load("dampsim_addon.api").info
    assert (info(obj).cached, info(obj).cache) == (0, "")
    # Asking creates no folder.
    assert [path.name for path in tmp_path.iterdir()] == ["shot.blend"]
    assert problems(load, [obj]) == [""]
    (obj,) = reopen(tmp_path / "shot.blend")
    assert info(obj).cached == LAST
    assert info(obj).text.startswith("8 of 8 frames simulated; not baked")


@pytest.mark.parametrize("joined", [False, True], ids=["object", "group"])
def test_killed_bake_to_other_output(load: Load, joined: bool, tmp_path: Path) -> None:
    """The frames that a killed bake has left for another file come before those of the first file."""
    new_scene(4)
    boxes = pair(load) if joined else [box("A")]
    first, other = tmp_path / "first.blend", tmp_path / "other.blend"
    save(first)
    assert set(problems(load, boxes)) == {""}
    bpy.context.scene.frame_end = LAST
    save(first)
    caches = load("dampsim_addon.model.caches")
    with caches.override_blend_path(str(other)):
        stop_at(load, boxes, 7)
    boxes = reopen(first)
    stages: list[str] = []
    with caches.override_blend_path(str(other)):
        results = problems(load, boxes, start=7, progress=lambda done, total, text: stages.append(text))
    assert set(results) == {""}
    assert stages.count("Simulating") == 2
    assert "Copying" not in stages
    # The first file still has its four frames.
    boxes = reopen(first)
    assert {load("dampsim_addon.api").info(obj).cached for obj in boxes} == {4}


@pytest.mark.parametrize("target", ["POINT_CACHE", "MDD"])
def test_group_of_other_file_keeps_files(load: Load, target: str, tmp_path: Path) -> None:
    """A group saved under another name writes the files of its bakes beside those of the first file."""
    new_scene(LAST)
    boxes = pair(load)
    save(tmp_path / "first.blend")
    assert problems(load, boxes, target=target) == ["", ""]
    save(tmp_path / "first.blend")
    before = {path: path.read_bytes() for path in tmp_path.rglob("bake.*")}
    assert len(before) >= 2
    save(tmp_path / "other.blend")
    for obj in boxes:
        obj.dampsim.bounce = 60.0
    assert problems(load, boxes) == ["", ""]
    assert {path: path.read_bytes() for path in before} == before
    assert len(list(tmp_path.rglob("bake.*"))) == 2 * len(before)
    load("dampsim_addon.api").clear(boxes)
    assert {path: path.read_bytes() for path in before} == before


@pytest.mark.parametrize("options", OPTIONS, ids=["start", "range"])
@pytest.mark.parametrize("is_original", [True, False], ids=["original", "duplicate"])
def test_duplicate_and_original_find_frames(
    load: Load, is_original: bool, options: dict[str, Any], tmp_path: Path
) -> None:
    """Both refer to the same frames until one of them is baked, which copies them."""
    new_scene(LAST)
    obj = box("A", tmp_path)
    assert problems(load, [obj]) == [""]
    frames = {path: path.read_bytes() for path in tmp_path.rglob("*.frame")}
    copy = duplicate(obj)
    baked, other = (obj, copy) if is_original else (copy, obj)
    assert problems(load, [baked], **options) == [""]
    assert baked.dampsim.cache_id != other.dampsim.cache_id
    assert {path: path.read_bytes() for path in frames} == frames
    # The other one is the only user of the earlier frames now.
    stages: set[str] = set()
    assert problems(load, [other], progress=lambda done, total, text: stages.add(text)) == [""]
    assert not {"Copying", "Simulating"} & stages


def test_preview_range_after_duplication(load: Load, tmp_path: Path) -> None:
    """The button that offers the frames of the preview range bakes them."""
    new_scene(LAST)
    obj = box("A", tmp_path)
    assert problems(load, [obj]) == [""]
    copy = duplicate(obj)
    scene = bpy.context.scene
    scene.use_preview_range, scene.frame_preview_start, scene.frame_preview_end = True, 4, 7
    for one in (copy, obj):
        assert load("dampsim_addon.status.next_bake").bake_label([one], scene) == "Re-bake Frames 4 to 7"
        assert problems(load, [one]) == [""]


def test_restarted_duplicate_copies_no_frames(load: Load, tmp_path: Path) -> None:
    """The chosen folder stays, although it has the name of the usual one."""
    new_scene(LAST)
    folder = tmp_path / "disk" / "dampsim_cache"
    (tmp_path / "shots").mkdir()
    save(tmp_path / "shots" / "shot.blend")
    obj = box("A", folder)
    assert problems(load, [obj]) == [""]
    copy = duplicate(obj)
    stages: set[str] = set()
    assert problems(load, [copy], restart=True, progress=lambda done, total, text: stages.add(text)) == [""]
    assert "Copying" not in stages
    assert copy.dampsim.cache_folder == str(folder)


def test_moved_duplicate_is_simulated_anew(load: Load, tmp_path: Path) -> None:
    """The copied frames of another animation are outdated."""
    new_scene(LAST)
    obj = box("A", tmp_path)
    assert problems(load, [obj]) == [""]
    copy = duplicate(obj)
    copy.animation_data_clear()
    copy.location = (5.0, 0.0, 1.0)
    (problem,) = problems(load, [copy], start=5)
    assert "changed since the last bake" in problem
    assert problems(load, [copy]) == [""]
    cache = load("dampsim_addon.model.caches").frame_cache(copy)
    assert float(cache.read_shape(LAST, copy.name)[:, 0].mean()) == pytest.approx(5.0, abs=0.1)


def test_copied_scene_keeps_frames(load: Load, tmp_path: Path) -> None:
    """The group of a copied scene does not write into the cache of the original."""
    new_scene(LAST)
    boxes = pair(load)
    save(tmp_path / "shot.blend")
    assert problems(load, boxes) == ["", ""]
    frames = {path: path.read_bytes() for path in tmp_path.rglob("*.frame")}
    original, known = bpy.context.scene, [obj.dampsim.together for obj in boxes]
    for bounce in (60.0, 5.0):
        before = set(bpy.data.scenes)
        with bpy.context.temp_override(scene=original):
            bpy.ops.scene.new(type="FULL_COPY")
        (scene,) = set(bpy.data.scenes) - before
        copies = [obj for obj in scene.objects if obj.dampsim.enabled]
        for obj in copies:
            obj.dampsim.bounce = bounce
        with bpy.context.temp_override(scene=scene, view_layer=scene.view_layers[0]):
            assert problems(load, copies) == ["", ""]
        assert {path: path.read_bytes() for path in frames} == frames
        assert {obj.dampsim.together for obj in copies}.isdisjoint(known)
        known += [obj.dampsim.together for obj in copies]
        frames |= {path: path.read_bytes() for path in tmp_path.rglob("*.frame")}


def test_member_in_other_scene_keeps_cache(load: Load, tmp_path: Path) -> None:
    """A member that was moved to another scene is simulated alone, and not copied again by each bake."""
    new_scene(LAST)
    boxes = pair(load)
    save(tmp_path / "shot.blend")
    bpy.data.scenes.new("Other").collection.objects.link(boxes[1])
    bpy.context.scene.collection.objects.unlink(boxes[1])
    assert problems(load, boxes[:1]) == [""]
    first = boxes[0].dampsim.cache_id
    assert problems(load, boxes[:1]) == [""]
    assert boxes[0].dampsim.cache_id == first


def test_damaged_frames_of_original(load: Load, tmp_path: Path) -> None:
    """A duplicate can be baked although the head of the original's cache is damaged."""
    new_scene(LAST)
    obj = box("A", tmp_path)
    assert problems(load, [obj]) == [""]
    (head,) = tmp_path.rglob("header.json")
    head.write_text("{")
    copy = duplicate(obj)
    assert problems(load, [copy]) == [""]


CHANGES: dict[str, tuple[Callable[[bpy.types.Object], None], dict[str, Any], str]] = {
    "dial": (lambda obj: setattr(obj.dampsim, "bounce", 70.0), {"start": 5}, "Bounce (30, now 70) changed since"),
    "kind": (lambda obj: setattr(obj.dampsim, "kind", "SPRINGS"), {"start": 5}, "the kind changed since the last bake"),
    "rate": (lambda _: setattr(bpy.context.scene.render, "fps", 12), {"start": 5}, "frame rate (24, now 12) changed"),
    "rate of range": (
        lambda _: setattr(bpy.context.scene.render, "fps", 12), {"frames": (4, 7)},
        "frame 3 cannot be continued, because it has another frame rate. A range can change dials and animation",
    ),
    "first frame": (
        lambda _: setattr(bpy.context.scene, "frame_start", 0), {"start": 5}, "the first frame (1, now 0) changed since"
    ),
    "first frame of range": (
        lambda _: setattr(bpy.context.scene, "frame_start", 0), {"frames": (4, 7)},
        "can be re-baked once all frames of the shot are simulated; finish the bake first",
    ),
}  # fmt: skip


@pytest.mark.parametrize("is_saved", [True, False], ids=["saved", "lost save"])
@pytest.mark.parametrize("case", CHANGES)
def test_known_changes_refused_at_once(load: Load, case: str, is_saved: bool, tmp_path: Path) -> None:
    """Frames that are known to be outdated are reported before the preparation, and the proposed fix works."""
    change, options, words = CHANGES[case]
    new_scene(LAST)
    obj = box("A")
    save(tmp_path / "shot.blend")
    assert problems(load, [obj]) == [""]
    if is_saved:
        save(tmp_path / "shot.blend")
    (obj,) = reopen(tmp_path / "shot.blend")
    change(obj)
    steps: list[str] = []
    (problem,) = problems(load, [obj], progress=lambda done, total, text: steps.append(text), **options)
    assert words in problem
    assert steps == []
    assert problems(load, [obj]) == [""]
    assert problems(load, [obj], **options) == [""]


def subdivide(obj: bpy.types.Object) -> None:
    bpy.context.view_layer.objects.active = obj
    bpy.ops.object.mode_set(mode="EDIT")
    bpy.ops.mesh.select_all(action="SELECT")
    bpy.ops.mesh.subdivide()
    bpy.ops.object.mode_set(mode="OBJECT")


def add_parent(obj: bpy.types.Object) -> None:
    parent = bpy.data.objects.new("Parent", None)
    bpy.context.scene.collection.objects.link(parent)
    parent.location.z, obj.parent = 1.0, parent


def add_collider(_: bpy.types.Object) -> None:
    bpy.ops.mesh.primitive_plane_add(location=(0.0, 0.0, -3.0))
    assert bpy.ops.dampsim.collider() == {"FINISHED"}


_AGAIN = "its animation or dials at frame 1 changed since the last bake. Bake again, or clear the bake."
_NODES = "frame 3 cannot be continued, because it has other nodes or vertices. A range can change dials and animation"
READ_CHANGES: dict[str, tuple[Callable[[bpy.types.Object], object], dict[str, Any], str]] = {
    "mesh": (subdivide, {"start": 5}, "the mesh and the pins changed since the last bake"),
    "shape": (lambda obj: setattr(obj.data.vertices[0].co, "x", 1.2), {"start": 5}, "the mesh"),
    "scale": (lambda obj: setattr(obj, "scale", (1.2, 1.0, 1.0)), {"start": 5}, "the mesh"),
    "parent": (add_parent, {"start": 5}, "the mesh changed since the last bake"),
    "wind": (lambda _: bpy.ops.object.effector_add(type="WIND"), {"start": 5}, _AGAIN),
    "pins": (lambda obj: obj.vertex_groups["Pin"].add([0, 1], 0.5, "REPLACE"), {"start": 5}, "the pins changed since"),
    "gravity": (lambda _: setattr(bpy.context.scene, "gravity", (0, 0, -4)), {"start": 5}, "gravity changed since"),
    "collider": (add_collider, {"start": 5}, "colliders changed since the last bake"),
    "mesh of range": (subdivide, {"frames": (4, 7)}, _NODES),
    "resolution of range": (lambda obj: setattr(obj.dampsim, "resolution", 200), {"frames": (4, 7)}, _NODES),
    "kind of range": (lambda obj: setattr(obj.dampsim, "kind", "SPRINGS"), {"frames": (4, 7)}, "it has another kind"),
}  # fmt: skip


@pytest.mark.parametrize("case", READ_CHANGES)
def test_read_changes_refused_before_preparation(load: Load, case: str, tmp_path: Path) -> None:
    """Changes that only the evaluated scene shows are reported before all frames are read and the model is built."""
    change, options, words = READ_CHANGES[case]
    new_scene(LAST)
    obj = box("A", tmp_path)
    assert problems(load, [obj]) == [""]
    frames = {path: path.read_bytes() for path in tmp_path.rglob("*.frame")}
    change(obj)
    steps: list[str] = []
    (problem,) = problems(load, [obj], progress=lambda done, total, text: steps.append(text), **options)
    assert words in problem
    assert steps == []
    assert {path: path.read_bytes() for path in tmp_path.rglob("*.frame")} == frames
    assert problems(load, [obj]) == [""]
    assert problems(load, [obj], **options) == [""]


def test_rebake_from_first_frame(load: Load, tmp_path: Path) -> None:
    """No frame is kept, so changes do not matter, as the message about a damaged first frame promises."""
    new_scene(LAST)
    obj = box("A", tmp_path)
    assert problems(load, [obj]) == [""]
    obj.dampsim.bounce = 70.0
    next(tmp_path.rglob("frame_000001.frame")).write_bytes(b"damaged")
    assert problems(load, [obj], start=1) == [""]
    cache = load("dampsim_addon.model.caches").frame_cache(obj)
    assert cache.frame_numbers() == list(range(1, LAST + 1))
    assert load("dampsim_addon.api").info(obj).changed == ()


@pytest.mark.parametrize("joined", [False, True], ids=["object", "group"])
@pytest.mark.parametrize("is_killed", [False, True], ids=["lost save", "killed"])
def test_panel_knows_lost_frames(load: Load, joined: bool, is_killed: bool, tmp_path: Path) -> None:
    """The button says what the bake will do, and Clear removes the frames that it would find."""
    new_scene(LAST)
    boxes = pair(load) if joined else [box("A")]
    path, label = tmp_path / "shot.blend", load("dampsim_addon.status.next_bake").bake_label
    suffix = " (2 objects)" if joined else ""
    save(path)
    assert label(boxes, bpy.context.scene) == f"Bake{suffix}"
    if is_killed:
        stop_at(load, boxes, 4)
    else:
        assert set(problems(load, boxes, target="POINT_CACHE")) == {""}
        assert list(tmp_path.rglob("bake.pc2"))
    boxes = reopen(path)
    scene = bpy.context.scene
    done = load("dampsim_addon.model.cache_status").known_status(boxes[0]).frame_count
    assert done == load("dampsim_addon.api").info(boxes[0]).cached
    assert (4 <= done < LAST) if is_killed else done == LAST
    assert label(boxes, scene) == (f"Resume at Frame {done + 1}{suffix}" if is_killed else f"Finish Bake{suffix}")
    # Outdated frames are reported as such.
    boxes[0].dampsim.bounce += 10.0
    assert label(boxes, scene) == f"Re-bake{suffix}"
    load("dampsim_addon.api").clear(boxes)
    assert label(boxes, scene) == f"Bake{suffix}"
    assert [one.name for one in tmp_path.iterdir()] == ["shot.blend"]


def test_save_creates_no_cache_folder(load: Load, tmp_path: Path) -> None:
    new_scene(LAST)
    obj = box("A")
    save(tmp_path / "shot.blend")
    for target in ("POINT_CACHE", "SHAPE_KEYS"):
        assert problems(load, [obj], target=target) == [""]
    obj.dampsim.cache_folder = str(tmp_path / "gone" / "deep")
    save(tmp_path / "shot.blend")
    assert not (tmp_path / "gone").exists()


@pytest.mark.parametrize("joined", [False, True], ids=["object", "group"])
def test_replaced_files_last_until_save(load: Load, joined: bool, tmp_path: Path) -> None:
    """The file on disk plays its bake, and so does an undo; a copy or another name removes no file of the first one."""
    new_scene(LAST)
    boxes, path = pair(load) if joined else [box("A")], tmp_path / "shot.blend"
    save(path)
    assert set(problems(load, boxes, target="POINT_CACHE")) == {""}
    bpy.context.preferences.edit.use_global_undo = True
    bpy.ops.ed.undo_push(message="Baked")
    save(path)
    files = {file: file.read_bytes() for file in tmp_path.rglob("bake.pc2*")}
    assert len(files) == 2 * len(boxes)

    def has_all_files() -> bool:
        return all(file.is_file() and file.read_bytes() == content for file, content in files.items())

    assert set(problems(load, boxes, target="SHAPE_KEYS")) == {""}
    bpy.ops.ed.undo_push(message="Baked again")
    bpy.ops.wm.save_as_mainfile(filepath=str(tmp_path / "copy.blend"), copy=True)
    assert has_all_files()
    bpy.ops.ed.undo()
    boxes = [bpy.data.objects[name] for name in ("A", "B")[: len(boxes)]]
    assert {obj.dampsim.baked for obj in boxes} == {"POINT_CACHE"}
    save(path)
    assert has_all_files()
    boxes = reopen(path)
    assert set(problems(load, boxes, target="SHAPE_KEYS")) == {""}
    save(tmp_path / "other.blend")
    assert has_all_files()
    boxes = reopen(path)
    assert {load("dampsim_addon.api").info(obj).file_fault for obj in boxes} == {""}
    assert set(problems(load, boxes, target="SHAPE_KEYS")) == {""}
    save(path)
    assert not list(tmp_path.rglob("bake.*"))
    assert {obj.dampsim.baked for obj in boxes} == {"SHAPE_KEYS"}


def test_clear_keeps_frames_of_others(load: Load, tmp_path: Path) -> None:
    """An object that was never baked clears no frames of another file, nor those of another object."""
    new_scene(LAST)
    first, other = box("A"), box("B", place=3.0)
    save(tmp_path / "shot.blend")
    assert problems(load, [first]) == [""]
    frames = {path: path.read_bytes() for path in tmp_path.rglob("*.frame")}
    load("dampsim_addon.api").clear([other])
    boxes = reopen(tmp_path / "shot.blend")
    cache = load("dampsim_addon.model.caches").upcoming_cache(load("dampsim_addon.model.groups").group_of(boxes[0]))
    cache.owner = str(tmp_path / "other.blend")
    (tmp_path / "other.blend").write_bytes((tmp_path / "shot.blend").read_bytes())
    cache.take_ownership()
    load("dampsim_addon.api").clear(boxes)
    assert {path: path.read_bytes() for path in tmp_path.rglob("*.frame")} == frames
    # A name that no file can have.
    cache.owner = "a\0b"
    cache.take_ownership()
    load("dampsim_addon.api").clear(boxes)
    assert {path: path.read_bytes() for path in tmp_path.rglob("*.frame")} == frames


def test_unbaked_objects_need_no_search(load: Load, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """The status of an object without frames does not depend on the names of all others, which take long to read."""
    new_scene(LAST)
    box("Flesh")
    bpy.ops.wm.save_as_mainfile(filepath=str(tmp_path / "unbaked.blend"))
    obj = bpy.data.objects["Flesh"]
    caches, status = load("dampsim_addon.model.caches"), load("dampsim_addon.model.cache_status")
    plans, plan = [], caches._plan_cache
    monkeypatch.setattr(caches, "_plan_cache", lambda *args: [plans.append(1), plan(*args)][1])
    status.refresh_all_statuses()
    assert status.known_status(obj).is_known
    assert not plans
