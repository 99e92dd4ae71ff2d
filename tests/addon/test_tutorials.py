"""The tutorials, followed step by step: each instruction of a page has an action here, and its promises hold.

Live is played by stepping through the frames, as playback does. In Blender's window, tests/window/first_minute.py and
contact.py follow the first minute, and tutorials.py the other pages; here the pages and those clicks are compared.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import bpy
import numpy as np
import pytest
from scenes import new_scene, world_vertices

pytestmark = [pytest.mark.bpy, pytest.mark.versions]
Load = Callable[[str], ModuleType]
ROOT = Path(__file__).parents[2]
# Verbs of instructions, but not "a set of", "an open mesh" or "than set".
_INSTRUCTION = re.compile(
    r"(?<!\ba )(?<!\ban )(?<!than )\b"
    r"(press|choose|select|keyframe|play|animate|paint|open|add|use|switch|set(?! \d))\b",
    re.IGNORECASE,
)


def steps_of(name: str) -> list[str]:
    """Return the instructions of a tutorial: numbered items, rows of dials, and sentences that ask for an action."""
    page = (ROOT / "docs" / "tutorials" / f"{name}.md").read_text(encoding="utf-8").partition("\n## Next")[0]
    steps = []
    for block in re.split(r"\n\n|\n(?=\d+\. |- |\|)", page):
        text = " ".join(re.sub(r"\[([^]]*)\]\([^)]*\)", r"\1", block).split())
        if re.match(r"\d+\. ", text):
            steps.append(text.partition(" ")[2])
        elif re.match(r"\| \*", text):
            steps.append(text.strip("| "))
        elif not text.startswith(("#", "|", "!")):
            sentences = re.split(r"(?<=[.:]) (?=[A-Z*])", text.removeprefix("- "))
            steps += [one for one in sentences if _INSTRUCTION.search(re.sub(r"\*[^*]*\*", "", one))]
    return steps


class TutorialUser:
    """A new user, who follows a page. obj, rig: the object of the tutorial and its armature."""

    def __init__(self, load: Load, folder: Path) -> None:
        self.load, self.folder = load, folder
        self.scene = new_scene(80)
        self.obj: Any = None
        self.rig: Any = None

    def follow(self, name: str, actions: list[tuple[str, Callable[[], None]]]) -> None:
        """Do the action of each step. Fails if the page and the actions differ."""
        steps = steps_of(name)
        assert [step[: len(start)] for step, (start, _) in zip(steps, actions, strict=False)] == [
            start for start, _ in actions
        ]
        assert len(steps) == len(actions), steps[len(actions) :]
        for _, action in actions:
            action()

    def activate(self, obj: Any) -> None:
        bpy.ops.object.select_all(action="DESELECT")
        obj.select_set(True)
        bpy.context.view_layer.objects.active = obj

    def add(self) -> None:
        assert bpy.ops.dampsim.add() == {"FINISHED"}
        self.obj.dampsim.cache_folder = str(self.folder)

    def play(self) -> Any:
        """Play to the end, and return the settle curve."""
        bpy.context.view_layer.update()
        for frame in range(self.scene.frame_start, self.scene.frame_end + 1):
            self.scene.frame_set(frame)
        shown = self.load("dampsim_addon.status.results").displayed_curve(self.obj)
        assert shown is not None
        return shown.curve

    def rest_height(self) -> float:
        return float(world_vertices(self.obj, self.scene.frame_end)[:, 2].mean())

    def swing(self) -> float:
        """Return the largest distance from the animation after the stop of the belly (m)."""
        moved = [world_vertices(self.obj, frame) for frame in range(1, 81)]
        # All frames after the motion have the same animated pose; the last one is at rest.
        return max(float(np.abs(one - moved[-1]).max()) for one in moved[12:])

    def weights(self) -> np.ndarray:
        group = self.obj.vertex_groups[self.obj.dampsim.pin_group].index
        return np.array(
            [sum(entry.weight for entry in v.groups if entry.group == group) for v in self.obj.data.vertices]
        )

    def bake_and_clear(self) -> None:
        """Bake as in the last step. The bake plays like Live, on an NLA track, and Clear restores the object."""
        frames = (5, 20, 40)
        self.play()
        live = [world_vertices(self.obj, frame) for frame in frames]
        assert bpy.ops.dampsim.bake() == {"FINISHED"}
        assert self.obj.dampsim.baked
        baked = [world_vertices(self.obj, frame) for frame in frames]
        size = max(self.obj.dimensions)
        # The bake keeps each point within 0.1% of the size.
        assert max(np.abs(a - b).max() for a, b in zip(live, baked, strict=True)) < 2e-3 * size
        assert self.obj.data.shape_keys.animation_data.action is None
        assert self.obj.data.shape_keys.animation_data.nla_tracks
        assert bpy.ops.dampsim.clear() == {"FINISHED"}
        assert self.obj.data.shape_keys is None


def count_swings(curve: Any) -> int:
    """Return the number of swings of at least 5% of the largest one."""
    parts = np.split(curve.measured, np.nonzero(np.diff(np.sign(curve.measured)))[0] + 1)
    return sum(bool(np.abs(part).max(initial=0.0) > 0.05) for part in parts)


def make_linear(animated: Any) -> None:
    """Set the interpolation of all keyframes, as T › Linear does."""
    action = animated.animation_data.action
    curves = action.fcurves if hasattr(action, "fcurves") else action.layers[0].strips[0].channelbags[0].fcurves
    for curve in curves:
        for point in curve.keyframe_points:
            point.interpolation = "LINEAR"


def no_action() -> None:
    """An instruction to Blender's window, such as the choice of a tab."""


def check_dial(
    user: TutorialUser, defaults: dict[str, float], before: dict[str, float], name: str, value: float
) -> None:
    """Change one dial, play, and compare the motion with the table of the page. before: swing and height without it."""
    for other, default in {**defaults, name: value}.items():
        setattr(user.obj.dampsim, other, default)
    curve = user.play()
    rest = value if name == "settle" else defaults["settle"]
    if (name, value) == ("bounce", 0.0):
        assert count_swings(curve) <= 2
        # The page says that it rests earlier.
        assert 0.7 * rest < curve.rest < rest
    else:
        # 5% of Settle, as in docs/validation/settle.md.
        assert curve.rest == pytest.approx(rest, rel=0.05), (name, value)
    if value == 60.0:
        assert count_swings(curve) > 2
        # "About": the body swings before the stop.
        assert curve.overshoot == pytest.approx(0.6, abs=0.12)
    if name == "follow_through":
        assert user.swing() / before["swing"] == pytest.approx(0.5, abs=0.05)
    if name == "sag":
        assert user.rest_height() < before["height"] - 0.01


def add_belly_rig(user: TutorialUser) -> None:
    bpy.ops.object.armature_add()
    user.rig = bpy.context.object
    bpy.ops.object.mode_set(mode="EDIT")
    bones = user.rig.data.edit_bones
    bones[0].name, bones[0].tail = "Root", (0.0, 0.0, 0.6)
    spine = bones.new("Spine")
    spine.head, spine.tail, spine.parent = (0.0, 0.0, 0.6), (0.0, 0.0, 1.2), bones["Root"]
    bpy.ops.object.mode_set(mode="OBJECT")


def add_belly(user: TutorialUser) -> None:
    bpy.ops.mesh.primitive_uv_sphere_add(radius=0.6, location=(0.0, -0.4, 0.9))
    user.obj = bpy.context.object


def parent_belly(user: TutorialUser) -> None:
    user.activate(user.rig)
    user.obj.select_set(True)
    bpy.ops.object.mode_set(mode="POSE")
    user.rig.data.bones.active = user.rig.data.bones["Spine"]
    assert bpy.ops.object.parent_set(type="BONE") == {"FINISHED"}


def animate_belly_rig(user: TutorialUser) -> None:
    root = user.rig.pose.bones["Root"]
    for frame, height in ((1, 0.0), (7, 0.3), (13, 0.0)):
        root.location.y = height
        root.keyframe_insert("location", frame=frame)


def select_belly(user: TutorialUser) -> None:
    bpy.ops.object.mode_set(mode="OBJECT")
    user.activate(user.obj)


@pytest.mark.slow
def test_bouncing_belly(load: Load, live: ModuleType, tmp_path: Path) -> None:
    user = TutorialUser(load, tmp_path)
    defaults: dict[str, float] = {}
    before: dict[str, float] = {}

    def add() -> None:
        user.add()
        assert "closed" in user.obj.dampsim.kind_note
        assert (user.obj.dampsim.kind, user.obj.dampsim.pin_group) == ("SOLID", "Pin")

    def check_weights() -> None:
        weights = user.weights()
        places = np.array([user.obj.matrix_world @ vertex.co for vertex in user.obj.data.vertices])
        distances = np.linalg.norm(places[:, :2], axis=1)
        assert weights[distances.argmin()] == 1.0
        assert weights[distances.argmax()] == 0.0

    def play() -> None:
        curve, group = user.play(), user.obj.dampsim
        defaults.update({name: getattr(group, name) for name in ("settle", "bounce", "follow_through", "sag")})
        assert curve.rest == pytest.approx(defaults["settle"], rel=0.05)
        before.update(swing=user.swing(), height=user.rest_height())

    def dial(name: str, value: float) -> Callable[[], None]:
        return lambda: check_dial(user, defaults, before, name, value)

    def set_end() -> None:
        for name, default in defaults.items():
            setattr(user.obj.dampsim, name, default)
        user.scene.frame_end = 80
        assert user.play().summary.startswith("At rest ")

    def calibrate() -> None:
        assert bpy.ops.dampsim.calibrate() == {"FINISHED"}
        shown = load("dampsim_addon.status.results").displayed_curve(user.obj)
        assert shown.curve.rest == pytest.approx(defaults["settle"], abs=1.0)

    user.follow(
        "bouncing-belly",
        [
            ("Add an armature with two bones", lambda: add_belly_rig(user)),
            ("Add a UV sphere", lambda: add_belly(user)),
            ("Select the sphere, then the armature", lambda: parent_belly(user)),
            ("Keyframe *Root*: on the ground at frame 1", lambda: animate_belly_rig(user)),
            ("Select these keyframes in the Timeline and press T", lambda: make_linear(user.rig)),
            ("Switch to Object Mode and select the sphere", lambda: select_belly(user)),
            ("Press N and choose the tab", no_action),
            ("Press *Add*.", add),
            ("Open Weight Paint Mode to check", check_weights),
            ("Press the space bar.", play),
            ("Now change one dial at a time and play again", no_action),
            ("*Settle* 12 | at rest 12 frames after", dial("settle", 12.0)),
            ("*Settle* 48 | at rest 48 frames after", dial("settle", 48.0)),
            ("*Bounce* 0 | swings back once", dial("bounce", 0.0)),
            ("*Bounce* 60 | each swing reaches about 60%", dial("bounce", 60.0)),
            ("*Follow-through* 0.5 | half the swing", dial("follow_through", 0.5)),
            ("*Sag* 6 | hangs lower, but takes the same time", dial("sag", 6.0)),
            ("Set *End* under *Bake* to frame 80 and play", set_end),
            ("If a large bend makes the belly rest early or late, press *Calibrate*", calibrate),
            ("Press *Bake*.", user.bake_and_clear),
        ],
    )


def add_tail_bone(user: TutorialUser) -> None:
    bpy.ops.object.armature_add()
    user.rig = bpy.context.object
    bpy.ops.object.mode_set(mode="EDIT")
    bone = user.rig.data.edit_bones[0]
    bone.head, bone.tail = (0.0, 0.0, 1.0), (0.2, 0.0, 1.0)


def extrude_tail_bones(user: TutorialUser) -> None:
    bones = user.rig.data.edit_bones
    for number in range(1, 4):
        bone = bones.new(f"Bone {number}")
        bone.parent, bone.use_connect = bones[number - 1], True
        bone.head, bone.tail = (0.2 * number, 0.0, 1.0), (0.2 * (number + 1), 0.0, 1.0)


def add_tail(user: TutorialUser) -> None:
    bpy.ops.object.mode_set(mode="OBJECT")
    bpy.ops.mesh.primitive_uv_sphere_add(radius=1.0, location=(0.4, 0.0, 1.0))
    user.obj = bpy.context.object
    user.obj.scale = (7 * 0.06, 0.06, 0.06)
    bpy.ops.object.transform_apply(location=False, scale=True)


def skin_tail(user: TutorialUser) -> None:
    user.rig.select_set(True)
    bpy.context.view_layer.objects.active = user.rig
    assert bpy.ops.object.parent_set(type="ARMATURE_AUTO") == {"FINISHED"}


def animate_tail(user: TutorialUser) -> None:
    bone = user.rig.pose.bones[0]
    bone.rotation_mode = "XYZ"
    for frame, angle in ((1, 0.0), (20, 0.0), (40, np.radians(17.0))):
        bone.rotation_euler.x = angle
        bone.keyframe_insert("rotation_euler", frame=frame)


@pytest.mark.slow
def test_tail_that_rests_on_a_frame(load: Load, live: ModuleType, tmp_path: Path) -> None:
    user = TutorialUser(load, tmp_path)
    rests: list[float] = []

    def set_range() -> None:
        user.scene.frame_start, user.scene.frame_end = 1, 80

    def add() -> None:
        user.add()
        # The origin of the mesh is its middle, and the tail begins 0.4 m before it.
        weights, along = user.weights(), np.array([vertex.co.x + 0.4 for vertex in user.obj.data.vertices])
        assert weights[along < 0.1].min() == 1.0
        assert weights[along > 0.4].max() == 0.0

    def set_settle() -> None:
        user.obj.dampsim.settle = 20.0
        user.play()

    def measure() -> None:
        curve = user.play()
        assert re.fullmatch(
            r"At rest \d+\.\d frames after the stop \(set 20\), bounce \d+% \(set \d+%\)", curve.summary
        )
        # 5% of Settle, as in docs/validation/settle.md.
        assert curve.rest == pytest.approx(20.0, rel=0.05)
        rests.append(curve.rest)

    def calibrate() -> None:
        user.obj.dampsim.swing = 10.0
        assert bpy.ops.dampsim.calibrate() == {"FINISHED"}
        assert user.play().rest == pytest.approx(20.0, rel=0.05)

    def paint_settle() -> None:
        group, obj = user.obj.vertex_groups.new(name="Tip"), user.obj
        for vertex in obj.data.vertices:
            group.add([vertex.index], 1.0 - 0.5 * min(max(vertex.co.x / 0.8 + 0.5, 0.0), 1.0), "REPLACE")
        obj.dampsim.settle_group = "Tip"
        assert user.play().rest < rests[0] - 2.0
        obj.dampsim.settle_group = ""

    def keyframe() -> None:
        for frame, value in ((1, 20.0), (30, 10.0)):
            user.obj.dampsim.settle = value
            user.obj.keyframe_insert("dampsim.settle", frame=frame)
        assert user.play().rest < rests[0] - 2.0

    user.follow(
        "tail-that-rests-on-a-frame",
        [
            ("Add an armature. In Edit Mode, set *Head* of its bone to 0, 0, 1 m", lambda: add_tail_bone(user)),
            ("Select the right end of the bone and press E, X, 0.2", lambda: extrude_tail_bones(user)),
            ("In Object Mode, add a UV sphere with a radius of 1 m at 0.4, 0, 1 m", lambda: add_tail(user)),
            ("Select the sphere, then the armature, and press Ctrl+P", lambda: skin_tail(user)),
            ("In Pose Mode, select the first bone. Insert keyframes of its rotation", lambda: animate_tail(user)),
            ("Select these keyframes in the Timeline and press T", lambda: make_linear(user.rig)),
            ("Set *End* in the Timeline to 80", set_range),
            ("Switch to Object Mode and select the mesh", lambda: user.activate(user.obj)),
            ("Press N and choose the tab", no_action),
            ("Press *Add*.", add),
            ("Set *Settle* to 20, go to frame 1 and press the space bar", set_settle),
            ("Play to the end", measure),
            ("In that case, set *Swing* to the size of the real swing and press", calibrate),
            ("To settle the tip sooner, paint a vertex group", paint_settle),
            ("To change *Settle* during the shot, keyframe it", keyframe),
            ("Press *Bake*", user.bake_and_clear),
        ],
    )


# Labels of the buttons that a case of the window test clicks, and of the entry of a menu.
BUTTONS = {"add": "Add", "local_add": "Make Local and Add", "convert_add": "Convert to Mesh and Add"}
BUTTONS |= {"pin_gradient": "Pin Gradient Top", "pin": "Pin Selected Vertices", "keys": "Apply Mirror"}
BUTTONS |= {"shown": "Bake to PC2 Cache"}


def window_cases() -> Iterator[tuple[str, list[str]]]:
    """Yield name and clicked buttons of each case of tests/window/first_minute.py."""
    source = (ROOT / "tests" / "window" / "first_minute.py").read_text(encoding="utf-8")
    constants = {"PIN_TOP": "pin_gradient"}
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Call) and ast.unparse(node.func) == "FirstSession":
            clicks = [constants.get(ast.unparse(one)) or ast.literal_eval(one) for one in node.args[2].elts]  # type: ignore[attr-defined]
            yield (
                ast.literal_eval(node.args[0]),
                [re.split(r"[\"(]", one)[2 if "check=" in one else 0] for one in clicks],
            )


def test_window_follows_first_minute() -> None:
    """Each picture's section tells which buttons its window test clicks, apart from Add of the four steps."""
    page = (ROOT / "docs" / "tutorials" / "first-minute.md").read_text(encoding="utf-8")
    sections = re.split(r"\n## ", page)
    cases = dict(window_cases())
    assert len(cases) >= 10
    for name, clicks in cases.items():
        (section,) = [one for one in sections if f"first_minute_{name}.jpg" in one]
        told = " ".join(re.findall(r"\*([^*]+)\*", section))
        assert [click for click in clicks if click != "add" and BUTTONS[click] not in told] == [], name


@pytest.mark.parametrize("name", ["bouncing-belly", "tail-that-rests-on-a-frame"])
def test_window_clicks_each_button(name: str) -> None:
    """The window test clicks all buttons that a page says to press, and types each dial of its table."""
    page = (ROOT / "docs" / "tutorials" / f"{name}.md").read_text(encoding="utf-8")
    source = (ROOT / "tests" / "window" / "tutorials.py").read_text(encoding="utf-8")
    buttons = {word.lower() for word in re.findall(r"\b[Pp]ress\s+\*(\w+)\*", page)}
    assert {"add", "calibrate", "bake"} <= buttons
    assert buttons | {"clear"} <= set(re.findall(r'click\("(\w+)\(', source))
    rows = re.findall(r"(?m)^\| \*([\w-]+)\* ([\d.]+) \|", page)
    typed = re.findall(r'(?<!\w)\("(\w+)", ([\d.]+)\)', source)
    assert {(dial.lower().replace("-", "_"), float(value)) for dial, value in rows} == (
        {(dial, float(value)) for dial, value in typed} if rows else set()
    )


def test_instructions_are_found_in_page() -> None:
    """All numbered items are steps, and a page without its actions fails."""
    assert "Press *Add*." in steps_of("bouncing-belly")
    assert len(steps_of("first-minute")) >= 10
    with pytest.raises(AssertionError):
        TutorialUser.follow(None, "bouncing-belly", [])  # type: ignore[arg-type]
