"""Large files: DampSim finds its objects without a loop over all of them."""

from __future__ import annotations

import contextlib
import os
import random
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from types import FrameType, ModuleType
from typing import Any

import bpy
import pytest
from scenes import new_scene, wobbler
from test_drawing import redraw

pytestmark = [pytest.mark.bpy, pytest.mark.versions]
Load = Callable[[str], ModuleType]
STEPS = 60


def simulated_objects() -> list[bpy.types.Object]:
    return [obj for obj in bpy.data.objects if obj.type == "MESH" and obj.dampsim.enabled]


def expected_members(obj: bpy.types.Object) -> set[bpy.types.Object]:
    """Return the group of an object by a search through all objects."""
    mark, scenes = obj.dampsim.together, set(obj.users_scene)
    return {obj} | {
        other
        for other in simulated_objects()
        if mark and other.dampsim.together == mark and scenes & set(other.users_scene)
    }


def assert_known(load: Load) -> None:
    objects, groups = load("dampsim_addon.model.objects"), load("dampsim_addon.model.groups")
    assert objects.all_simulated() == simulated_objects()
    for scene in bpy.data.scenes:
        assert objects.simulated_in_scene(scene) == [obj for obj in scene.objects if obj in simulated_objects()]
    for obj in simulated_objects():
        assert set(groups.group_of(obj).members) == expected_members(obj)


class RandomUser:
    """Random edits of the objects of a file, by operators or as a script does."""

    def __init__(self, seed: int, library: Path) -> None:
        self.random, self.library = random.Random(seed), str(library)
        bpy.ops.ed.undo_push(message="start")

    def any(self) -> bpy.types.Object | None:
        local = [obj for obj in bpy.data.objects if obj.library is None]
        return self.random.choice(local) if local else None

    def create(self) -> None:
        data = bpy.data.meshes.new("New") if self.random.random() < 0.7 else None
        obj = bpy.data.objects.new("New", data)
        if self.random.random() < 0.8:
            bpy.context.scene.collection.objects.link(obj)

    def enable(self) -> None:
        if obj := self.any():
            obj.dampsim.enabled = True

    def disable(self) -> None:
        if obj := self.any():
            if self.random.random() < 0.5:
                obj.dampsim.enabled = False
            else:
                obj.dampsim.property_unset("enabled")

    def group(self) -> None:
        if obj := self.any():
            obj.dampsim.together = self.random.choice(["", "0123456789abcdef", "fedcba9876543210"])

    def copy(self) -> None:
        if obj := self.any():
            bpy.context.scene.collection.objects.link(obj.copy())

    def duplicate(self) -> None:
        if len(bpy.data.objects) < 40:
            bpy.ops.object.select_all(action="SELECT")
            bpy.ops.object.duplicate()
            self.push()

    def delete(self) -> None:
        if obj := self.any():
            bpy.data.objects.remove(obj)

    def swap(self) -> None:
        """Replace an object and keep the number of objects."""
        if obj := self.any():
            other = obj.copy()
            other.dampsim.enabled = not obj.dampsim.enabled
            bpy.context.scene.collection.objects.link(other)
            bpy.data.objects.remove(obj)

    def delete_selected(self) -> None:
        obj = self.any()
        if obj and obj in bpy.context.view_layer.objects[:] and obj.visible_get():
            bpy.ops.object.select_all(action="DESELECT")
            obj.select_set(True)
            bpy.ops.object.delete()
            self.push()

    def rename(self) -> None:
        if obj := self.any():
            obj.name = self.random.choice("abcxyz")

    def convert(self) -> None:
        if len(bpy.data.objects) < 40:
            curve = bpy.data.objects.new("Curve", bpy.data.curves.new("Curve", "CURVE"))
            curve.dampsim.enabled = True
            bpy.context.scene.collection.objects.link(curve)
            bpy.ops.object.select_all(action="DESELECT")
            bpy.context.view_layer.objects.active = curve
            curve.select_set(True)
            bpy.ops.object.convert(target="MESH")

    def unlink(self) -> None:
        there = list(bpy.context.scene.collection.objects)
        if there:
            bpy.context.scene.collection.objects.unlink(self.random.choice(there))

    def link_elsewhere(self) -> None:
        scene = bpy.data.scenes.get("Other") or bpy.data.scenes.new("Other")
        obj = self.any()
        if obj and obj not in scene.collection.objects[:]:
            scene.collection.objects.link(obj)

    def into_collection(self) -> None:
        found = bpy.data.collections.get("Deep")
        if found is None:
            found = bpy.data.collections.new("Deep")
            bpy.context.scene.collection.children.link(found)
        obj = self.any()
        if obj and obj not in found.objects[:]:
            found.objects.link(obj)

    def append(self, link: bool = False) -> None:
        with bpy.data.libraries.load(self.library, link=link) as (there, here):
            here.objects = list(there.objects)
        for obj in here.objects:
            if obj not in bpy.context.scene.collection.objects[:]:
                bpy.context.scene.collection.objects.link(obj)

    def link(self) -> None:
        self.append(link=True)

    def make_local(self) -> None:
        linked = [obj for obj in bpy.data.objects if obj.library]
        if linked:
            linked[0].make_local()

    def reload(self) -> None:
        for library in bpy.data.libraries:
            library.reload()

    def override(self) -> None:
        linked = [obj for obj in bpy.data.objects if obj.library]
        if linked:
            linked[0].override_create(remap_local_usages=True)

    def push(self) -> None:
        bpy.ops.ed.undo_push(message="step")

    def undo(self) -> None:
        # Blender crashes when it undoes changes that no undo step contains.
        self.push()
        if bpy.ops.ed.undo.poll():
            bpy.ops.ed.undo()

    def redo(self) -> None:
        self.undo()
        if bpy.ops.ed.redo.poll():
            bpy.ops.ed.redo()

    def evaluate(self) -> None:
        bpy.context.view_layer.update()

    def play(self) -> None:
        bpy.context.scene.frame_set(self.random.randrange(1, 9))

    def act(self) -> str:
        names = [name for name, value in vars(RandomUser).items() if name[0] != "_" and name not in ("any", "act")]
        name = self.random.choice(names)
        getattr(self, name)()
        return name


@pytest.mark.parametrize("seed", range(6))
def test_registry_after_random_file_edits(load: Load, tmp_path: Path, seed: int) -> None:
    new_scene()
    made = bpy.data.objects.new("FromLibrary", bpy.data.meshes.new("FromLibrary"))
    made.dampsim.enabled = True
    bpy.data.libraries.write(str(tmp_path / "library.blend"), {made})
    new_scene()
    bpy.context.preferences.edit.use_global_undo = True
    artist, done = RandomUser(seed, tmp_path / "library.blend"), []
    with installed_handlers(load):
        for _ in range(STEPS):
            done.append(artist.act())
            # Sometimes the registry is not queried for a while.
            if artist.random.random() < 0.7:
                try:
                    assert_known(load)
                except AssertionError:
                    raise AssertionError(f"after {done[-8:]}") from None


@pytest.mark.parametrize("evaluate", ["frame_set", "evaluated_depsgraph_get", "update"])
def test_poll_sees_objects_linked_by_script(load: Load, tmp_path: Path, evaluate: str) -> None:
    scene = new_scene(3)
    obj = wobbler(tmp_path)
    scene.collection.objects.unlink(obj)
    bpy.context.view_layer.update()
    assert not bpy.ops.dampsim.bake.poll()
    for _ in range(3):
        scene.collection.objects.link(bpy.data.objects.new("Other", None))
    scene.collection.objects.link(obj)
    if evaluate == "frame_set":
        scene.frame_set(2)
    elif evaluate == "update":
        bpy.context.view_layer.update()
    else:
        bpy.context.evaluated_depsgraph_get()
    assert bpy.ops.dampsim.bake.poll()


@contextlib.contextmanager
def installed_handlers(load: Load) -> Iterator[None]:
    live = load("dampsim_addon.live")
    live.install()
    try:
        yield
    finally:
        live.uninstall()


@contextlib.contextmanager
def count_lines(load: Load) -> Iterator[list[int]]:
    """Count the executed lines of DampSim, including each repetition in a loop."""
    folder, steps = str(Path(load("").__file__ or "").parent) + os.sep, [0]

    def line(frame: FrameType, event: str, _: Any) -> Any:
        steps[0] += event == "line"
        return line

    def call(frame: FrameType, event: str, _: Any) -> Any:
        return line if frame.f_code.co_filename.startswith(folder) else None

    before = sys.gettrace()
    sys.settrace(call)
    try:
        yield steps
    finally:
        sys.settrace(before)


def add_crowd(number: int) -> None:
    mesh = bpy.data.meshes.new("Crowd")
    for place in range(number):
        bpy.context.scene.collection.objects.link(bpy.data.objects.new(f"A{place:05d}", mesh if place % 2 else None))
    bpy.context.view_layer.update()


def lines_per_event(load: Load, number: int, cache: Path, grouped: bool) -> dict[str, int]:
    """Return the executed lines per event in a scene with this number of other objects."""
    scene = new_scene(3)
    objects = [wobbler(cache, name) for name in ("Wobbler", "Other")] if grouped is not None else []
    for obj in objects:
        obj.dampsim.live = False
    if grouped:
        load("dampsim_addon.model.groups").join_group(objects)
    add_crowd(number)
    scene.frame_set(2)
    context, found = bpy.context, {}

    def move() -> None:
        bpy.data.objects["A00001"].location.x += 1.0
        context.view_layer.update()

    def link() -> None:
        collection = scene.collection.objects
        obj = collection["A00003"]
        collection.unlink(obj)
        collection.link(obj)
        context.view_layer.update()

    def copy() -> None:
        scene.collection.objects.link(bpy.data.objects["A00001"].copy())
        context.view_layer.update()

    acts: dict[str, Callable[[], object]] = {
        "a frame": lambda: scene.frame_set(scene.frame_current + 1),
        "a move": move, "a link": link, "a copy": copy,
    }  # fmt: skip
    if objects:
        context.view_layer.objects.active = objects[0]
        # Fill the caches that drawing a panel uses.
        redraw(load)
        acts["a redraw"] = lambda: redraw(load)
    for name, act in acts.items():
        with count_lines(load) as steps:
            act()
        found[name] = steps[0]
    return found


@pytest.mark.parametrize("grouped", [False, True])
def test_cost_independent_of_unrelated_objects(load: Load, tmp_path: Path, grouped: bool) -> None:
    """Frames, edits and redraws run as many lines with 100 as with 400 other objects."""
    with installed_handlers(load):
        few, many = (lines_per_event(load, number, tmp_path, grouped) for number in (100, 400))
    assert few == many
    assert all(few.values())
