"""Buttons apply to all selected objects, dials do on request, and setups are copied, saved and made assets."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import bpy
import numpy as np
import pytest
from scenes import add_simulation, new_scene
from test_drawing import Context, Layout

pytestmark = [pytest.mark.bpy, pytest.mark.versions]
Load = Callable[[str], ModuleType]


@pytest.fixture(autouse=True)
def keep_dials_separate() -> Any:
    yield
    bpy.context.window_manager.dampsim_all_selected = False


def pillows(tmp_path: Path, count: int = 4) -> list[bpy.types.Object]:
    """Return simulated balls in a row, all selected; the first one is active."""
    new_scene()
    found = []
    for k in range(count):
        bpy.ops.mesh.primitive_ico_sphere_add(subdivisions=2, location=(3.0 * k, 0.0, 0.0))
        obj = bpy.context.object
        obj.name = f"Pillow {k + 1}"
        obj.vertex_groups.new(name="Pin").add([v.index for v in obj.data.vertices if v.co.z < -0.5], 1.0, "REPLACE")
        add_simulation(obj, tmp_path / str(k))
        found.append(obj)
    select(*found)
    return found


def select(*objects: bpy.types.Object) -> None:
    bpy.ops.object.select_all(action="DESELECT")
    for obj in objects:
        obj.select_set(True)
    bpy.context.view_layer.objects.active = objects[0]
    bpy.context.view_layer.update()


def drawn(load: Load, *names: str) -> list[str]:
    context, texts = Context(), []
    for panel in load("dampsim_addon.ui").PANELS:
        if panel.bl_idname in names:
            panel.draw(SimpleNamespace(layout=Layout(texts)), context)
    return [text for text in texts if text]


def test_fix_applies_to_all_selected(load: Load, tmp_path: Path) -> None:
    """The issue of others stays in the panel after the active object is fixed."""
    objects = pillows(tmp_path)
    for obj in objects:
        obj.scale.x = 0.5
    bpy.context.view_layer.update()
    texts = drawn(load, "DAMPSIM_PT_bake")
    assert "Apply Scale (4 objects)" in texts
    assert " ".join(texts).count("The scale differs between axes") == 1
    select(objects[0])
    assert "Apply Scale" in drawn(load, "DAMPSIM_PT_bake")
    assert bpy.ops.dampsim.mend(check="scale") == {"FINISHED"}
    select(*objects)
    texts = drawn(load, "DAMPSIM_PT_bake")
    assert "Apply Scale (3 objects)" in texts
    assert "Pillow 2, Pillow 3, Pillow 4" in " ".join(texts)
    assert bpy.ops.dampsim.mend(check="scale") == {"FINISHED"}
    assert [obj.scale.x for obj in objects] == [1.0] * 4
    assert not any("Scale" in text for text in drawn(load, "DAMPSIM_PT_bake"))


def _pinned(obj: bpy.types.Object) -> int:
    group = obj.vertex_groups[obj.dampsim.pin_group]
    return sum(any(one.group == group.index and one.weight > 0.0 for one in v.groups) for v in obj.data.vertices)


# Operator, its properties, and a value that shows its effect on an object.
BUTTONS: dict[str, tuple[dict[str, Any], Callable[[bpy.types.Object], object]]] = {
    "pin_gradient": ({"begin": "TOP", "free": 0.5}, _pinned),
    "let_fall": ({}, lambda obj: obj.dampsim.let_fall),
    "measure": ({}, lambda obj: obj.dampsim.measured_sag > 0.0),
    "fibres": ({}, lambda obj: obj.dampsim.fibre_group),
    "remove": ({}, lambda obj: obj.dampsim.enabled),
    "plastic_reset": ({}, lambda obj: obj.animation_data is not None),
}


@pytest.mark.parametrize("name", BUTTONS)
def test_button_applies_to_all_selected(tmp_path: Path, name: str) -> None:
    *chosen, other = pillows(tmp_path, 3)
    options, effect = BUTTONS[name]
    before = effect(other)
    assert effect(chosen[0]) == before
    select(*chosen)
    assert getattr(bpy.ops.dampsim, name)(**options) == {"FINISHED"}
    values = [effect(obj) for obj in chosen]
    assert values[0] == values[1] != before
    assert effect(other) == before


def test_material_applies_to_all_selected(load: Load, tmp_path: Path) -> None:
    objects = pillows(tmp_path, 2)
    path = next(one for one in load("dampsim_addon.model.presets").material_scripts() if one.stem == "jelly")
    assert bpy.ops.dampsim.preset(filepath=str(path)) == {"FINISHED"}
    assert [obj.dampsim.preset for obj in objects] == ["Jelly", "Jelly"]
    assert objects[0].dampsim.sag == objects[1].dampsim.sag


def test_one_failure_does_not_stop_others(tmp_path: Path) -> None:
    """Objects without selected vertices keep their pins, and are named."""
    objects = pillows(tmp_path, 2)
    for vertex in objects[1].data.vertices:
        vertex.select = False
    for number, vertex in enumerate(objects[0].data.vertices):
        vertex.select = number < 5
    before = [_pinned(obj) for obj in objects]
    assert bpy.ops.dampsim.pin() == {"FINISHED"}
    assert _pinned(objects[0]) > before[0]
    assert _pinned(objects[1]) == before[1]


class _Job(SimpleNamespace):
    """Stand-in for a modal operator, which Blender creates only in a window."""

    finished_names = None

    def __init__(self, load: Load, operator: str, **options: Any) -> None:
        modal = load("dampsim_addon.work.operators").ModalJob
        super().__init__(texts=[], kind=getattr(bpy.types, operator), modal=modal, _timer=None, **options)

    def __getattr__(self, name: str) -> Any:
        return getattr(self.kind, name).__get__(self)

    def report(self, kinds: set[str], text: str) -> None:
        self.texts.append((next(iter(kinds)), text))

    def run(self) -> list[tuple[str, str]]:
        """Work as in a window, and return all reports."""
        manager = SimpleNamespace(
            dampsim_progress=SimpleNamespace(object_name=self.kind.subject(self, bpy.context)),
            event_timer_remove=lambda timer: None,
        )
        workspace = SimpleNamespace(status_text_set=lambda text: None)
        self._steps = self.kind.work(self, bpy.context)
        for _ in self._steps:
            pass
        self.modal._finish(self, SimpleNamespace(window_manager=manager, workspace=workspace), is_cancelled=False)
        return self.texts


BAKE = {"restart": False, "resume": False, "rebake": False, "which": "SELECTED"}


def test_failed_objects_are_not_called_baked(load: Load, tmp_path: Path) -> None:
    objects = pillows(tmp_path, 3)
    for obj in objects:
        obj.dampsim.target = "POINT_CACHE"
    bpy.context.scene.frame_end = 2
    objects[1].vertex_groups.remove(objects[1].vertex_groups["Pin"])
    error = ("ERROR", "Pillow 2: pin group 'Pin' is missing. Choose another pin group.")
    assert _Job(load, "DAMPSIM_OT_bake", **BAKE).run() == [error, ("INFO", "Pillow 1, Pillow 3: baked")]
    select(objects[1], objects[2])
    objects[2].vertex_groups.remove(objects[2].vertex_groups["Pin"])
    assert [kind for kind, _ in _Job(load, "DAMPSIM_OT_bake", **BAKE).run()] == ["ERROR", "ERROR"]


def test_dials_change_all_selected_on_request(load: Load, tmp_path: Path) -> None:
    *chosen, other = pillows(tmp_path, 3)
    select(*chosen)
    assert "2 objects selected: buttons apply to all of" in " ".join(drawn(load, "DAMPSIM_PT_main"))
    chosen[0].dampsim.settle = 30.0
    assert chosen[1].dampsim.settle == 8.0
    bpy.context.window_manager.dampsim_all_selected = True
    chosen[0].dampsim.settle, chosen[0].dampsim.target, chosen[0].dampsim.draft = 31.0, "POINT_CACHE", True
    chosen[0].dampsim.influence, chosen[0].dampsim.swing = 0.5, 20.0
    assert (chosen[1].dampsim.influence, chosen[1].dampsim.swing) == (0.5, 20.0)
    assert chosen[1].dampsim.settle == 31.0
    assert chosen[1].dampsim.target == "POINT_CACHE"
    assert chosen[1].dampsim.draft
    # Only a change of the active object reaches the others.
    chosen[1].dampsim.settle = 12.0
    assert chosen[0].dampsim.settle == 31.0
    assert other.dampsim.settle == 8.0


def test_setup_is_copied_with_nearest_pins(tmp_path: Path) -> None:
    """The target is another mesh elsewhere, without a Pin group, and is not simulated yet."""
    source, other = pillows(tmp_path, 2)
    source.dampsim.settle, source.dampsim.kind, source.dampsim.target = 31.0, "SPRINGS", "POINT_CACHE"
    source.dampsim.collider_collection = bpy.data.collections.new("Walls")
    bpy.ops.mesh.primitive_ico_sphere_add(subdivisions=4, location=(0.0, 9.0, 0.0))
    fine = bpy.context.object
    select(source, other, fine)
    assert bpy.ops.dampsim.setup_copy() == {"FINISHED"}
    for obj in (other, fine):
        assert obj.dampsim.enabled
        assert (obj.dampsim.settle, obj.dampsim.kind, obj.dampsim.target) == (31.0, "SPRINGS", "POINT_CACHE")
        assert obj.dampsim.pin_group == "Pin"
        assert obj.dampsim.collider_collection == source.dampsim.collider_collection
        assert obj.dampsim.cache_folder != source.dampsim.cache_folder
    weights = np.array([sum(one.weight for one in v.groups) for v in fine.data.vertices])
    heights = np.array([v.co.z for v in fine.data.vertices])
    assert weights[heights < -0.9].min() == pytest.approx(1.0, abs=5e-3)
    assert weights[heights > 0.2].max() == 0.0


def test_setup_file_restores_all_values(load: Load, tmp_path: Path) -> None:
    source, other = pillows(tmp_path, 2)
    source.dampsim.settle, source.dampsim.bounce, source.dampsim.sag = 12.3, 45.6, 7.89
    source.dampsim.accuracy, source.dampsim.touch_self, source.dampsim.resolution = "TIGHT", False, 1234
    source.dampsim.stiffness_group = "Lost"
    path = tmp_path / "pillow.json"
    select(source)
    assert bpy.ops.dampsim.setup_save(filepath=str(path)) == {"FINISHED"}
    select(other)
    assert bpy.ops.dampsim.setup_load(filepath=str(path)) == {"FINISHED"}
    read = load("dampsim_addon.scene_reader.setups").read_setup
    assert read(other).values == read(source).values
    # The group of the stiffness exists nowhere, so the object keeps none.
    assert read(other).groups == {"pin_group": "Pin"}


def edited(changes: dict[str, Any]) -> Callable[[dict[str, Any]], str]:
    def edit(setup: dict[str, Any]) -> str:
        setup["values"].update(changes)
        return json.dumps(setup)

    return edit


# Contents of a file made from a valid setup, and words of the message.
FAULTY: dict[str, tuple[Callable[[dict[str, Any]], str], str]] = {
    "empty": (lambda _: "", "not valid JSON"),
    "cut": (lambda s: json.dumps(s)[:-10], "not valid JSON"),
    "deep": (lambda _: "[" * 100_000 + "]" * 100_000, "nested too deeply"),
    "long": (lambda _: " " * 2_000_000, "more than 1000000 bytes"),
    "list": (lambda _: "[1]", "no setup of DampSim"),
    "foreign": (lambda s: json.dumps({**s, "format": "Cloth"}), "no setup of DampSim"),
    "newer": (lambda s: json.dumps({**s, "version": 2}), "another version of DampSim"),
    "twice": (lambda s: json.dumps(s).replace('"groups"', '"values"'), "is repeated"),
    "missing part": (lambda s: json.dumps({k: v for k, v in s.items() if k != "groups"}), "'groups' is missing"),
    "unknown part": (lambda s: json.dumps({**s, "links": {}}), "'links' is unknown"),
    "misspelt": (edited({"setle": 3.0}), "did you mean 'settle'?"),
    "text": (edited({"settle": "3"}), "'settle' is '3', which is not a number"),
    "flag": (edited({"settle": True}), "which is not a number"),
    "fraction": (edited({"resolution": 3.5}), "which is not a whole number"),
    "not a number": (edited({"settle": float("nan")}), "too large or not a number"),
    "infinite": (lambda s: json.dumps(s).replace("8.0", "1e999"), "too large or not a number"),
    "huge": (edited({"settle": 1e30}), "outside of"),
    "choice": (edited({"kind": "JELLO"}), "not one of SOLID"),
    "command": (edited({"enabled": False}), "'enabled' is unknown"),
    "group": (lambda s: json.dumps({**s, "groups": {"pin_group": 7}}), "'pin_group' is no name"),
    "long name": (lambda s: json.dumps({**s, "groups": {"pin_group": "x" * 1999}}), "'pin_group' is no name"),
}


@pytest.mark.parametrize("case", FAULTY)
def test_faulty_setup_file_gives_one_sentence(load: Load, tmp_path: Path, case: str) -> None:
    (obj,) = pillows(tmp_path, 1)
    setups = load("dampsim_addon.scene_reader.setups")
    make, words = FAULTY[case]
    path = tmp_path / "setup.json"
    path.write_text(make(json.loads(setups.setup_text(setups.read_setup(obj)))))
    before = setups.read_setup(obj)
    with pytest.raises(RuntimeError) as error:
        bpy.ops.dampsim.setup_load(filepath=str(path))
    message = str(error.value).strip().removeprefix("Error: ")
    assert message.startswith("setup.json: ")
    assert words in message
    assert message.endswith("; choose a file that Save Setup wrote.")
    assert "\n" not in message
    assert setups.read_setup(obj) == before


def test_unreadable_setup_file_is_reported(tmp_path: Path) -> None:
    pillows(tmp_path, 1)
    for path in (tmp_path / "none.json", tmp_path):
        with pytest.raises(RuntimeError, match="cannot be read"):
            bpy.ops.dampsim.setup_load(filepath=str(path))
    with pytest.raises(RuntimeError, match="cannot be written"):
        bpy.ops.dampsim.setup_save(filepath=str(tmp_path / "none" / "setup.json"))


def test_appended_asset_carries_setup(load: Load, tmp_path: Path) -> None:
    """The asset of one file is appended to another, where its setup is copied to a mesh."""
    (obj,) = pillows(tmp_path, 1)
    obj.dampsim.settle, obj.dampsim.target = 31.0, "POINT_CACHE"
    assert bpy.ops.dampsim.setup_asset() == {"FINISHED"}
    carrier = bpy.data.objects["Pillow 1 Setup"]
    assert carrier.asset_data is not None
    path = tmp_path / "assets.blend"
    bpy.ops.wm.save_as_mainfile(filepath=str(path))
    new_scene()
    with bpy.data.libraries.load(str(path), assets_only=True) as (source, target):
        assert source.objects == ["Pillow 1 Setup"]
        target.objects = source.objects
    carrier = target.objects[0]
    bpy.context.scene.collection.objects.link(carrier)
    bpy.ops.mesh.primitive_ico_sphere_add(subdivisions=2)
    mesh = bpy.context.object
    mesh.vertex_groups.new(name="Pin").add([0], 1.0, "REPLACE")
    select(carrier, mesh)
    assert "Copy Setup to Selected" in drawn(load, "DAMPSIM_PT_main")
    assert bpy.ops.dampsim.setup_copy() == {"FINISHED"}
    assert mesh.dampsim.enabled
    assert (mesh.dampsim.settle, mesh.dampsim.target, mesh.dampsim.pin_group) == (31.0, "POINT_CACHE", "Pin")
    assert not carrier.dampsim.enabled


def test_partly_selected_objects_count_too(load: Load, tmp_path: Path) -> None:
    """The active object is one of those that buttons apply to, selected or not."""
    bpy.context.scene.frame_end = 3
    objects = pillows(tmp_path, 3)
    bpy.context.scene.frame_end = 3
    select(objects[1])
    bpy.context.view_layer.objects.active = objects[0]
    assert "Bake (2 objects)" in drawn(load, "DAMPSIM_PT_bake")
    assert bpy.ops.dampsim.bake(which="SELECTED") == {"FINISHED"}
    assert [bool(obj.dampsim.baked) for obj in objects] == [True, True, False]
    assert bpy.ops.dampsim.key_influence() == {"FINISHED"}
    influence = load("dampsim_addon.targets.influence")
    assert [influence.has_influence(obj) for obj in objects] == [True, True, False]
    export = load("dampsim_addon.ui.export.operators").DAMPSIM_OT_export
    assert export._baked_objects(None, bpy.context) == objects[:2]


def test_failing_object_does_not_stop_jobs(load: Load, tmp_path: Path) -> None:
    """Calibrate and Rest by Frame name it, and go on with the others."""
    scene = new_scene()
    objects = pillows(tmp_path, 2)
    scene = bpy.context.scene
    scene.frame_end = 12
    for frame, place in ((1, 3.0), (4, 3.5)):
        objects[1].location.x = place
        objects[1].keyframe_insert("location", frame=frame)
    assert bpy.ops.dampsim.bake(which="SELECTED") == {"FINISHED"}
    objects[0].dampsim.settle = 9.0
    objects[0].keyframe_insert("dampsim.settle", frame=1)
    assert bpy.ops.dampsim.rest_by_frame(frame=10) == {"FINISHED"}
    assert objects[1].dampsim.settle != 8.0
    objects[0].scale.x = 0.0
    bpy.context.view_layer.update()
    objects[1].dampsim.calibration = before = 0.5
    assert bpy.ops.dampsim.calibrate() == {"FINISHED"}
    assert objects[1].dampsim.calibration != before
    objects[1].scale.x = 0.0
    bpy.context.view_layer.update()
    with pytest.raises(RuntimeError, match=r"Pillow 1: its scale is zero.*Pillow 2: its scale is zero"):
        bpy.ops.dampsim.calibrate()


# Operators that do not apply to the active and all other selected simulated objects, and the reason.
OTHER_OPERATORS = {
    **dict.fromkeys(("add", "convert_add", "local_add", "curve_rope", "hair", "weave"), "they add objects"),
    **dict.fromkeys(("open_sample", "help", "go_on", "use_preview_range"), "they concern the file"),
    **dict.fromkeys(("together", "select_group", "link", "weld"), "they concern the selection as a whole"),
    **dict.fromkeys(("collider", "no_collider", "floor"), "they concern objects that are not simulated"),
    **dict.fromkeys(("unlink", "part_add", "part_add_bones", "part_remove"), "they edit a list of the active object"),
    **dict.fromkeys(("part_preset", "part_preset_add"), "they concern the active part"),
    **dict.fromkeys(("muscle_add", "muscle_remove", "muscle_assign", "muscle_key"), "they edit a list of it"),
    **dict.fromkeys(("ghost_add", "ghost_remove", "ghost_pick", "compare"), "they edit a list of it"),
    **dict.fromkeys(("find_walk", "use_walk", "show_walks", "hide_walks"), "a walk belongs to one object"),
    **dict.fromkeys(("select_woven", "drop_yarns", "select_vertices"), "they prepare its Edit Mode"),
    **dict.fromkeys(("setup_save", "use_selected_bones"), "a file or chain has one object"),
    **dict.fromkeys(("bake", "rebake_range", "export", "calibrate"), "a test above shows that they do"),
    **dict.fromkeys(("blend", "remove_blends", "rest_by_frame"), "a test above and test_influence show that they do"),
    **dict.fromkeys(("preset", "preset_add", "preset_remove"), "menus of presets; a test above shows the first"),
}


def test_operators_follow_one_rule(load: Load) -> None:
    rule = load("dampsim_addon.ui.common.operators").ChosenObjectsOperator
    classes = {cls.__name__.removeprefix("DAMPSIM_OT_"): cls for cls in bpy.types.Operator.__subclasses__()}
    ours = {name: cls for name, cls in classes.items() if cls.__module__.startswith(load("dampsim_addon").__name__)}
    assert len(ours) > 50
    assert {name for name, cls in ours.items() if not issubclass(cls, rule)} == set(OTHER_OPERATORS)


# Properties in panels that Change All Selected leaves alone.
OWN_PROPERTIES = {
    *("damper_attribute", "cache_folder", "chain_collection", "links", "parts", "walks"),
    *("active_link", "active_part", "active_walk", "walk_seconds", "walk_seed"),
}


def test_drawn_dials_change_all(load: Load) -> None:
    """Dials that a panel draws change all selected objects on request, but for names and lists of one object."""
    properties = load("dampsim_addon.model.properties")
    source = "\n".join(
        path.read_text(encoding="utf-8") for path in sorted((Path(properties.__file__).parents[1] / "ui").rglob("*.py"))
    )
    stored = [one.identifier for one in properties.DAMPSIM_PG_object.bl_rna.properties]
    shared = {*load("core").PARAMETERS, *properties._SHARED_PROPERTIES}
    drawn_here = {name for name in stored if f'group, "{name}"' in source or f'.dampsim, "{name}"' in source}
    # Vertex groups have names of their own in each mesh.
    assert drawn_here - shared - set(properties.VERTEX_GROUP_ROLES) == OWN_PROPERTIES


def test_setup_skips_unsuitable_meshes(tmp_path: Path) -> None:
    """They are named, get no half of a setup, and do not stop the others."""
    source, other, edited = pillows(tmp_path, 3)
    source.dampsim.settle = 31.0
    empty = bpy.data.objects.new("Empty", bpy.data.meshes.new("Empty"))
    bpy.context.scene.collection.objects.link(empty)
    select(edited)
    bpy.ops.object.mode_set(mode="EDIT")
    for obj in (source, other, empty):
        obj.select_set(True)
    bpy.context.view_layer.objects.active = source
    assert bpy.ops.dampsim.setup_copy() == {"FINISHED"}
    assert (other.dampsim.settle, edited.dampsim.settle) == (31.0, 8.0)
    assert not empty.dampsim.enabled
    bpy.context.view_layer.objects.active = edited
    with pytest.raises(RuntimeError, match="Pillow 3: leave Edit Mode before a setup is copied"):
        bpy.ops.dampsim.setup_copy()
    bpy.ops.object.mode_set(mode="OBJECT")


def test_override_has_own_parts(load: Load, tmp_path: Path) -> None:
    """Parts of a library override are added, changed, copied and kept in its file; those of the library stay."""
    (obj,) = pillows(tmp_path, 1)
    ear = obj.dampsim.parts.add()
    ear.name, ear.vertex_group, ear.settle = "Ear", "Pin", 55.0
    library, path = tmp_path / "library.blend", tmp_path / "scene.blend"
    bpy.ops.wm.save_as_mainfile(filepath=str(library))
    (source,) = pillows(tmp_path, 1)
    for name, settle in (("Ear", 33.0), ("Tail", 44.0)):
        part = source.dampsim.parts.add()
        part.name, part.vertex_group, part.settle = name, "Pin", settle
    with bpy.data.libraries.load(str(library), link=True) as (_, target):
        target.objects = ["Pillow 1"]
    linked = target.objects[0]
    bpy.context.scene.collection.objects.link(linked)
    override = linked.override_create(remap_local_usages=True)
    select(source, override)
    assert bpy.ops.dampsim.setup_copy() == {"FINISHED"}
    bpy.ops.wm.save_as_mainfile(filepath=str(path))
    bpy.ops.wm.open_mainfile(filepath=str(path))
    override = next(one for one in bpy.data.objects if one.override_library is not None)
    assert [(one.name, one.settle) for one in override.dampsim.parts] == [("Ear", 33.0), ("Tail", 44.0)]
    select(override)
    override.dampsim.active_part = 1
    assert bpy.ops.dampsim.part_remove() == {"FINISHED"}
    with pytest.raises(RuntimeError, match="this entry comes from its library; remove it there"):
        bpy.ops.dampsim.part_remove()
    assert [one.name for one in override.dampsim.parts] == ["Ear"]


def test_setup_file_keeps_dots(tmp_path: Path) -> None:
    """The ending of a name that contains another dot is no ending of a file."""
    pillows(tmp_path, 1)
    for name in ("pillow.v2", "pillow.v2.json", "pillow"):
        assert bpy.ops.dampsim.setup_save(filepath=str(tmp_path / name)) == {"FINISHED"}
    assert sorted(one.name for one in tmp_path.glob("pillow*")) == ["pillow.json", "pillow.v2.json"]
