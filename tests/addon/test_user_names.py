"""Data of the user whose names look like DampSim's survive Bake, re-bakes, Clear, Copy Setup and undo."""

from __future__ import annotations

import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import bpy
import numpy as np
import pytest
from hostile_files import assert_is_sentence
from scenes import FILES, KINDS, TARGETS, armature, dump, new_scene, wobbler, world_vertices
from test_drawing import Context, Layout

pytestmark = [pytest.mark.bpy, pytest.mark.versions]
Load = Callable[[str], Any]
LAST_FRAME = 5


def few_quick(names: list[str], *quick: str) -> list[Any]:
    return [pytest.param(name, marks=[] if name in quick else pytest.mark.slow) for name in names]


KEY_NAMES = ("Basis", "Probe", "Offset", "Shape 001", "00001", "00003")


def user_keys(obj: bpy.types.Object) -> None:
    for number, name in enumerate(KEY_NAMES):
        key = obj.shape_key_add(name=f"DampSim {name}", from_mix=False)
        key.points[0].co.z += 0.01 * number
        key.value = 0.1 * number
    keys = obj.data.shape_keys
    keys.key_blocks["DampSim Shape 001"].keyframe_insert("value", frame=1)
    strip_on(keys, "DampSim Base")


def strip_on(block: Any, name: str) -> None:
    """Move the active action of a datablock to a strip in a track, and add an empty track of the same name."""
    data = block.animation_data
    action, slot = data.action, data.action_slot
    data.action = None
    track = data.nla_tracks.new()
    strip = track.strips.new(name, 1, action)
    strip.action_slot = slot
    track.name, action.name = name, "DampSim Wobbler"
    data.nla_tracks.new().name = name


def user_modifiers(obj: bpy.types.Object) -> None:
    for name in ("DampSim Cache", "DampSim Live"):
        modifier = obj.modifiers.new(name, "SMOOTH")
        modifier.factor = 0.0
        obj.modifiers.move(len(obj.modifiers) - 1, 0)
        modifier.keyframe_insert("factor", frame=1)


def user_vertex_groups(obj: bpy.types.Object) -> None:
    for name in ("DampSim Pin", "Fibres"):
        obj.vertex_groups.new(name=name).add([0, 3], 0.3, "REPLACE")


def user_attributes(obj: bpy.types.Object) -> None:
    attribute = obj.data.attributes.new("DampSim Order", "INT", "POINT")
    attribute.data[0].value = 7


def user_collections(obj: bpy.types.Object) -> None:
    for name in ("DampSim Cache", "DampSim Alembic"):
        collection = bpy.data.collections.new(name)
        bpy.context.scene.collection.children.link(collection)
        collection.objects.link(bpy.data.objects.new(name, None))


def user_node_groups(obj: bpy.types.Object) -> None:
    for name in ("DampSim Cache", "DampSim Yarns"):
        tree: Any = bpy.data.node_groups.new(name, "GeometryNodeTree")
        tree.use_fake_user = True
        for side in ("INPUT", "OUTPUT"):
            tree.interface.new_socket("Geometry", in_out=side, socket_type="NodeSocketGeometry")
        tree.links.new(tree.nodes.new("NodeGroupInput").outputs[0], tree.nodes.new("NodeGroupOutput").inputs[0])
        obj.modifiers.new(f"Nodes {name}", "NODES").node_group = tree


def user_actions(obj: bpy.types.Object) -> None:
    obj.keyframe_insert("scale", frame=1)
    strip_on(obj, "DampSim Bake")
    for name in ("DampSim Wobbler", "DampSim Wobbler Base"):
        bpy.data.actions.new(name).use_fake_user = True


def user_scene(obj: bpy.types.Object) -> None:
    bpy.data.scenes.new("DampSim Alembic")
    bpy.data.texts.new("DampSim Cache").write("mine")


# Every kind of data that DampSim creates or names.
USER_DATA = (
    user_keys, user_modifiers, user_vertex_groups, user_attributes, user_collections, user_node_groups, user_actions,
    user_scene,
)  # fmt: skip


def bake(obj: bpy.types.Object, target: str) -> None:
    bpy.ops.object.select_all(action="DESELECT")
    obj.select_set(True)
    bpy.context.view_layer.objects.active = obj
    obj.dampsim.target = target
    assert bpy.ops.dampsim.bake() == {"FINISHED"}


def simple_body(cache: Path) -> bpy.types.Object:
    obj = wobbler(cache)
    obj.dampsim.resolution = 150
    return obj


@pytest.mark.parametrize(
    ("target", "other"),
    [
        ("SHAPE_KEYS", "POINT_CACHE"),
        *(pytest.param(one, "SHAPE_KEYS", marks=pytest.mark.slow) for one in TARGETS if one != "SHAPE_KEYS"),
    ],
)
def test_similar_names_survive_bakes(load: Load, tmp_path: Path, target: str, other: str) -> None:
    new_scene(LAST_FRAME)
    obj = simple_body(tmp_path)
    for add in USER_DATA:
        if add is not user_keys or "ABSOLUTE_KEYS" not in (target, other):
            add(obj)
    before = dump()
    attribute = obj.data.attributes["DampSim Order"]
    # The second bake replaces the first one, and the fourth one changes the storage.
    for one in (target, target, other, target):
        bake(obj, one)
        baked = dump()
        for name, content in before.items():
            if name.startswith("action"):
                assert baked[name] == content
        kept = [m for m in baked["object Wobbler"]["modifiers"] if m in before["object Wobbler"]["modifiers"]]
        assert kept == before["object Wobbler"]["modifiers"]
        check_playback(load, obj)
    assert bpy.ops.dampsim.clear() == {"FINISHED"}
    assert dump() == before
    assert attribute.data[0].value == 7


def check_playback(load: Load, obj: bpy.types.Object) -> None:
    cache = load("dampsim_addon.model.caches").frame_cache(obj)
    for frame in (1, LAST_FRAME):
        offset = world_vertices(obj, frame) - cache.read_shape(frame, obj.name)
        assert np.linalg.norm(offset, axis=1).max() < 5e-3
    bpy.context.scene.frame_set(1)


def test_similar_names_survive_setup_and_undo(tmp_path: Path) -> None:
    new_scene(LAST_FRAME)
    obj = simple_body(tmp_path)
    for add in USER_DATA:
        add(obj)
    source = simple_body(tmp_path / "source")
    bake(source, "POINT_CACHE")
    obj.select_set(True)
    before = dump()["object Wobbler"]
    assert bpy.ops.dampsim.setup_copy() == {"FINISHED"}
    after = dump()["object Wobbler"]
    assert {**after, "groups": before["groups"]} == before
    assert after["groups"][: len(before["groups"])] == before["groups"]
    assert obj.dampsim.cache_modifier == ""
    before = dump()
    bpy.ops.ed.undo_push(message="before")
    bake(obj, "SHAPE_KEYS")
    bpy.ops.ed.undo_push(message="after")
    bpy.ops.ed.undo()
    assert dump() == before
    bpy.ops.ed.redo()
    obj = bpy.data.objects["Wobbler"]
    bpy.context.view_layer.objects.active = obj
    assert bpy.ops.dampsim.clear() == {"FINISHED"}
    assert dump()["mesh Wobbler"] == before["mesh Wobbler"]


def test_copied_and_remade_keys_survive(tmp_path: Path) -> None:
    """A copy of a key, and a key that the user makes in place of a deleted one, are the user's."""
    new_scene(LAST_FRAME)
    obj = simple_body(tmp_path)
    bake(obj, "FRAME_KEYS")
    blocks = obj.data.shape_keys.key_blocks
    copy = obj.shape_key_add(name="DampSim 00003", from_mix=False)
    copy.slider_max = blocks["DampSim 00003"].slider_max
    blocks["DampSim 00004"].slider_max = 2.0
    bake(obj, "FRAME_KEYS")
    blocks = obj.data.shape_keys.key_blocks
    assert len(blocks) == 1 + LAST_FRAME + 1
    assert "DampSim 00003.001" in blocks
    obj.shape_key_remove(blocks["DampSim 00002"])
    obj.shape_key_add(name="DampSim 00002", from_mix=False).points[0].co.z = 9.0
    assert bpy.ops.dampsim.clear() == {"FINISHED"}
    assert sorted(blocks.keys()) == ["Basis", "DampSim 00002", "DampSim 00003.001"]
    assert blocks["DampSim 00002"].points[0].co.z == 9.0


@pytest.mark.parametrize("target", few_quick(FILES, "POINT_CACHE"))
def test_copied_cache_modifier_is_kept(load: Load, tmp_path: Path, target: str) -> None:
    new_scene(LAST_FRAME)
    obj = simple_body(tmp_path)
    bake(obj, target)
    first = load("dampsim_addon.model.caches").frame_cache(obj).read_shape(LAST_FRAME, obj.name)
    bpy.ops.object.modifier_copy(modifier="DampSim Cache")
    bpy.ops.dampsim.bake(restart=True)
    again = load("dampsim_addon.model.caches").frame_cache(obj).read_shape(LAST_FRAME, obj.name)
    np.testing.assert_array_equal(again, first)
    assert bpy.ops.dampsim.clear() == {"FINISHED"}
    assert sorted(m.name for m in obj.modifiers) == ["DampSim Cache.001", "Subdivision"]


@pytest.mark.parametrize("target", few_quick(TARGETS, "SHAPE_KEYS", "POINT_CACHE"))
def test_bake_of_earlier_version_is_recognised(load: Load, tmp_path: Path, target: str) -> None:
    """Earlier versions stored no names of keys, curves and modifiers."""
    new_scene(LAST_FRAME)
    obj = simple_body(tmp_path)
    before = dump()
    bake(obj, target)
    baked = dump()
    for clear in (False, True):
        keys = obj.data.shape_keys
        if keys is not None:
            for key in keys.key_blocks:
                key.slider_max = 1.0
            del keys["dampsim_keys"]
        for block in (*bpy.data.actions, *bpy.data.cache_files):
            if "dampsim_curves" in block:
                del block["dampsim_curves"]
        obj.dampsim.cache_modifier = ""
        if clear:
            assert bpy.ops.dampsim.clear() == {"FINISHED"}
            assert dump() == before
        else:
            bpy.ops.dampsim.bake(restart=True)
            assert dump() == baked


def test_group_named_pin_survives(tmp_path: Path) -> None:
    new_scene(LAST_FRAME)
    obj = simple_body(tmp_path)
    obj.dampsim.pin_group = ""
    before = [[(g.group, g.weight) for g in v.groups] for v in obj.data.vertices]
    assert bpy.ops.dampsim.pin_gradient(begin="TOP") == {"FINISHED"}
    assert obj.dampsim.pin_group == "Pin.001"
    own = obj.vertex_groups["Pin"].index
    after = [[(g.group, g.weight) for g in v.groups if g.group == own] for v in obj.data.vertices]
    assert after == before


def test_similar_hair_names_survive(load: Load) -> None:
    new_scene(LAST_FRAME)
    data = bpy.data.hair_curves.new("Hair")
    data.add_curves([4] * 9)
    hair = bpy.data.objects.new("Hair", data)
    bpy.context.scene.collection.objects.link(hair)
    bpy.context.view_layer.objects.active = hair
    data.attributes["position"].data.foreach_set("vector", np.random.default_rng(0).random(3 * 36))
    data.attributes.new(".dampsim_guide0", "INT", "POINT").data[2].value = 5
    user_tree = bpy.data.node_groups.new("DampSim Hair Hair", "GeometryNodeTree")
    hair.modifiers.new("DampSim Hair", "NODES").node_group = user_tree
    assert bpy.ops.dampsim.hair(guides=3) == {"FINISHED"}
    assert data.attributes[".dampsim_guide0"].data[2].value == 5
    assert hair.modifiers["DampSim Hair"].node_group == user_tree
    assert not len(user_tree.nodes)
    assert load("dampsim_addon.blender.hair").guide_object(hair) == bpy.context.object


def test_yarn_name_alone_is_no_yarn(load: Load) -> None:
    new_scene(LAST_FRAME)
    bpy.ops.mesh.primitive_cube_add()
    obj = bpy.context.object
    user_node_groups(obj)
    assert not load("dampsim_addon.blender.yarns").shows_yarns(obj)
    assert bpy.ops.dampsim.add() == {"FINISHED"}
    assert obj.dampsim.enabled


def test_every_target_is_covered() -> None:
    """A new kind of storage needs marks of its own, and data in USER_DATA."""
    assert {target.storage.name for target in KINDS.values()} == {"KEYS", "FILE"}


@pytest.mark.parametrize("target", ["SHAPE_KEYS", "FRAME_KEYS"])
@pytest.mark.parametrize("has_keys", [False, True])
@pytest.mark.parametrize("is_simulated", [False, True])
def test_clear_removes_joined_keys(load: Load, tmp_path: Path, target: str, has_keys: bool, is_simulated: bool) -> None:
    """Clear removes the keys of a baked object that was joined into another one, and keeps the keys of that one."""
    scene = new_scene(4)
    obj = wobbler(tmp_path)
    obj.modifiers.clear()
    obj.dampsim.target = target
    assert bpy.ops.dampsim.bake() == {"FINISHED"}
    bpy.ops.mesh.primitive_cube_add(location=(3.0, 0.0, 0.0))
    cube = bpy.context.object
    cube.dampsim.enabled = is_simulated
    if has_keys:
        cube.shape_key_add(name="Basis")
        frown = cube.shape_key_add(name="Frown")
        frown.data[0].co.z, frown.value = 3.0, 0.5
        frown.keyframe_insert("value", frame=1)
        # A name like those of a bake, with the default range.
        cube.shape_key_add(name="DampSim Shape 001")
    obj.select_set(True)
    assert bpy.ops.object.join() == {"FINISHED"}
    if is_simulated:
        text = load("dampsim_addon.ui.bake.checks").find_issues(cube, scene)["leftover"].text
        assert "of a baked object that was joined into it" in text
    layout = Layout()
    load("dampsim_addon.ui.main.panel").draw_add(layout, Context())
    assert "Remove Keys of Bake" in layout.texts
    assert bpy.ops.dampsim.clear() == {"FINISHED"}
    keys = cube.data.shape_keys
    assert (list(keys.key_blocks.keys()) if keys else []) == (
        ["Basis", "Frown", "DampSim Shape 001"] if has_keys else []
    )
    if has_keys:
        assert [curve.data_path for bag in channelbags(load, keys) for curve in bag.fcurves] == [
            'key_blocks["Frown"].value'
        ]
    assert not bpy.ops.dampsim.clear.poll()


def channelbags(load: Load, keys: bpy.types.Key) -> Any:
    return load("dampsim_addon.blender.animation").channelbags(keys)


@pytest.mark.parametrize(
    ("target", "name"),
    [
        pytest.param(target, name, marks=pytest.mark.slow if target != "SHAPE_KEYS" and len(name) != 85 else ())
        for target in ("SHAPE_KEYS", "FRAME_KEYS", "BONES")
        for name in ("ä" * 31, "€" * 85, "ä" * 100)
    ],
    ids=[f"{target}-{length}" for target in ("SHAPE_KEYS", "FRAME_KEYS", "BONES") for length in (31, 85, 100)],
)
def test_long_names_with_umlauts(load: Load, tmp_path: Path, target: str, name: str) -> None:
    """Blender cuts the names of strips inside of a character, and then cannot read them."""
    new_scene(LAST_FRAME)
    obj = wobbler(tmp_path)
    obj.modifiers.clear()
    obj.dampsim.target, obj.name = target, name
    tracks = load("dampsim_addon.targets.bake_tracks")
    for settle in (6.0, 7.0):
        obj.dampsim.settle = settle
        assert bpy.ops.dampsim.bake() == {"FINISHED"}
        owners = [obj.data.shape_keys] if target != "BONES" else [one for one in bpy.data.objects if one.pose]
        strips = [one for one in tracks.all_strips(owners[0].animation_data) if one.action is not None]
        assert strips
        assert all(one.name.startswith("DampSim ") for one in strips)
        mark = load("dampsim_addon.blender.dampsim_names").bake_mark(strips[0].action)
        with tracks.play_bake_alone(owners[0], mark):
            assert len([one for one in tracks.all_strips(owners[0].animation_data) if one.name]) == len(strips) + 1
    assert bpy.ops.dampsim.clear() == {"FINISHED"}
    assert not any(one.name.startswith("DampSim") for one in bpy.data.actions)


# Parts of names that scripts and importers may set: Blender's interface allows all of them but control characters.
PIECES = (
    "a", "B", " ", ".", "..", "/", "\\", ":", "*", "\n", "\r", "\t", "\x01", "\x1b[31m", "\x7f", "%s", "{0}", "{name}",
    "]", "'", '"', "$", ";", "=1+1", "<b>", "ä", "漢", "\U0001d11e", "\u202e", "\u2028", "\u200b", "\ufeff", "\u0301",
    "../", "nul", ".001", "DampSim ", "bake.abc", '"]', "Pin", "x" * 70,
)  # fmt: skip


@pytest.mark.parametrize("seed", [*range(6), *(pytest.param(seed, marks=pytest.mark.slow) for seed in range(6, 120))])
def test_hostile_names_make_sentences(load: Load, tmp_path: Path, seed: int) -> None:
    """A bake, its setup and an export keep to the folders, and each message is one sentence, whatever the names."""
    dice = random.Random(seed)
    scene = new_scene(3)
    obj = simple_body(tmp_path / "cache")
    rig = armature(obj)
    part = obj.dampsim.parts.add()
    part.vertex_group = "Pin"
    obj.modifiers.new("Decimate", "DECIMATE")
    for named in (obj, obj.data, rig, *rig.data.bones, *obj.vertex_groups, *obj.modifiers, part, scene):
        named.name = "".join(dice.choice(PIECES) for _ in range(dice.choice([1, 2, 5, 30])))
    obj.dampsim.pin_group = obj.vertex_groups[0].name
    bpy.context.view_layer.objects.active = obj
    setups, core = load("dampsim_addon.scene_reader.setups"), load("core")
    text = setups.setup_text(setups.read_setup(obj))
    assert all("\n" not in note for note in setups.apply_setup(obj, setups.parse_setup(text.encode(), "own.json")))
    obj.dampsim.target = dice.choice([*TARGETS, "BONES"])
    try:
        assert bpy.ops.dampsim.bake() == {"FINISHED"}
    except RuntimeError as error:
        assert_is_sentence(str(error).removeprefix("Error: ").strip())
    else:
        form = dice.choice(["GLTF", "FBX", "USD", "VAT_PNG"])
        try:
            for result in load("dampsim_addon.api").export([obj], tmp_path / "out" / "a", [form]):
                assert not any("\n" in said for said in (result.problem, result.warning, *result.notes))
        except core.DampSimError as error:
            assert_is_sentence(str(error))
        assert bpy.ops.dampsim.clear() == {"FINISHED"}
    assert {path.name for path in tmp_path.iterdir()} <= {"cache", "out"}


def test_line_breaks_leave_messages() -> None:
    """Names come into messages as they are, and each message becomes one line where it is shown."""
    new_scene(LAST_FRAME)
    bpy.ops.mesh.primitive_cube_add()
    obj = bpy.context.object
    obj.name = "two\nlines\u2028\u202e"
    assert bpy.ops.dampsim.add() == {"FINISHED"}
    obj.dampsim.target = "BONES"
    obj.dampsim.pin_group = "none\nat all"
    with pytest.raises(RuntimeError) as error:
        bpy.ops.dampsim.bake()
    text = str(error.value).removeprefix("Error: ").strip()
    assert_is_sentence(text)
    assert text.startswith("two lines")
