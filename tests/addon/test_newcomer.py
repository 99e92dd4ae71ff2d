"""Panels and documents list all registry entries, including those that "How to add" adds to a copy."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import numpy as np
import pytest
from scenes import new_scene, wobbler
from test_drawing import Context, Layout, panels
from test_registries import PAGES, SAVED

from example_additions import copy_with_additions

pytestmark = pytest.mark.bpy
Load = Callable[[str], ModuleType]


class PropertyRecorder(Layout):
    """Layout that records the names of its properties."""

    def prop(self, _: object, name: str, **__: object) -> None:
        self.texts.append(name)


def drawn_properties(load: Load) -> set[str]:
    """Return the names of the properties in all panels."""
    names: list[str] = []
    for panel in panels(load):
        panel.draw(SimpleNamespace(layout=PropertyRecorder(names)), Context())
    return set(names)


def drawn_effective_properties(load: Load, obj: Any) -> set[str]:
    """Return the names of the properties in all panels; assert that each parameter has an effect there."""
    parameters, now = load("core.scene.parameters").PARAMETERS, drawn_properties(load)
    value_of = load("dampsim_addon.model.properties").effective_value
    for name in now & set(parameters):
        assert parameters[name].has_effect(lambda other: value_of(obj.dampsim, other))
    return now


def test_panels_show_all_parameters(load: Load, tmp_path: Path) -> None:
    """Panels draw each parameter where it has an effect, and nowhere else."""
    new_scene()
    obj = wobbler(tmp_path)
    parameters = load("core.scene.parameters").PARAMETERS
    found = set()
    for kind in load("core.bodies").KINDS:
        obj.dampsim.kind = kind.name
        for name, parameter in parameters.items():
            for choice in parameter.choices:
                setattr(obj.dampsim, name, choice.name)
                found |= drawn_effective_properties(load, obj)
            # A parameter may depend on two choices.
            conditions = (parameter.visible_if, parameter.also_visible_if) if parameter.also_visible_if else ()
            for other, value, *_ in conditions:
                setattr(obj.dampsim, other, value)
            found |= drawn_effective_properties(load, obj)
            for other in (name, *(condition[0] for condition in conditions)):
                setattr(obj.dampsim, other, parameters[other].default)
    # Objects without pins can be thrown.
    obj.dampsim.pin_group = ""
    assert set(parameters) <= found | drawn_effective_properties(load, obj)


def test_element_stretch_uses_worst_pair(load: Load) -> None:
    rest = np.array([[0.0, 0.0, 0.0], [1.0, 0.0, 0.0], [0.0, 1.0, 0.0], [1.0, 1.0, 0.0]])
    now = rest * np.array([1.0, 1.5, 1.0])
    for elements, wanted in (([[0, 1], [0, 2]], [1.0, 1.5]), ([[0, 1, 2], [1, 0, 3]], [1.5, 1.5])):
        block = SimpleNamespace(rest=rest, groups=(np.array(elements),))
        simulation = SimpleNamespace(model_of=lambda name, block=block: SimpleNamespace(block=block))
        found = load("dampsim_addon.ui.viewport.shape_overlays").element_stretches(simulation, "", now)
        np.testing.assert_allclose(found, wanted)


# `dampsim` is the copy; its folder is the first argument.
SCRIPT = """
import sys
sys.path[:0] = ["tests", "tests/addon"]
import conftest, bpy, dampsim, importlib
dampsim.register()
import numpy as np
from scenes import dump, new_scene, wobbler
load = lambda name: importlib.import_module(f"dampsim.dampsim_addon.{name}")
new_scene()
obj = wobbler(sys.argv[1] + "/cache")
group, cli = obj.dampsim, load("cli")
has = lambda name: [item.identifier for item in group.bl_rna.properties[name].enum_items]
for name, new in (("damping_by", "HALF"), ("material", "MOONEY"), ("kind", "CLOUD"), ("target", "INCREMENTS"),
                  ("target", "SHOT_FILE")):
    assert new in has(name), (name, has(name))
bpy.ops.wm.save_as_mainfile(filepath=sys.argv[1] + "/scene.blend")
before = dump()
NONE = {"ballast": 0.0, "calm": 0.0, "material": "StableNeoHookean", "damping_by": "DIALS"}

def baked(*options):
    assert cli.main(["bake", "--frames", "1:7", "--restart", *options]) == 0, options
    shape = load("model.caches").frame_cache(bpy.context.object).read(7).surface
    for name, value in NONE.items():
        setattr(group, name, value)
    return shape

plain = baked()
shapes = [baked("--set", dial) for dial in ("ballast=3", "calm=1", "material=MOONEY", "damping_by=HALF")]
for k, shape in enumerate(shapes):
    assert np.abs(shape - plain).max() > 1e-5, k
# Keyframes are followed.
for frame, value in ((1, 0.0), (7, 1.0)):
    group.calm = value
    obj.keyframe_insert("dampsim.calm", frame=frame)
keyed = baked()
assert min(np.abs(keyed - one).max() for one in (plain, shapes[1])) > 1e-5
for frame in (1, 7):
    obj.keyframe_delete("dampsim.calm", frame=frame)
group.calm = 0.0
assert bpy.ops.dampsim.clear() == {"FINISHED"}
# A body of the new kind is simulated, drawn live, baked to the new targets, and restored.
group.kind, group.neighbours, group.stiffness = "CLOUD", 10, 2e4
live, overlay = load("live"), load("ui.viewport.overlay")
live.install()
for frame in range(1, 8):
    bpy.context.scene.frame_set(frame)
shape = load("ui.viewport.shape_overlays")
found = overlay.body_view(obj, bpy.context.scene)
obj.dampsim.show_centre = True
(centre,) = (option for option in overlay.OVERLAYS if option.property_name == "show_centre")
assert centre.is_enabled(obj) and centre.is_available(obj)
drawn = []
load("ui.common.drawing").draw_points = lambda points, color: drawn.append(points)
centre.draw(bpy.context, obj, found)
assert len(drawn) == 1 and np.allclose(drawn[0][0], found.nodes.mean(axis=0))
assert len(found.data(shape.cage_edges)) and found.data(shape.worst_element)[1] > 1.0
live.uninstall()
bpy.context.scene.frame_set(1)
clean = dump()
cloud = None
for target in ("increments", "shot_file"):
    now = baked("--target", target)
    assert cloud is None or np.array_equal(now, cloud)
    cloud = now
    assert group.baked == target.upper() and group.baked_part < 1e-3
    assert (obj.data.shape_keys is not None) == (target == "increments")
    assert bpy.ops.dampsim.clear() == {"FINISHED"}
    assert dump() == clean
assert np.abs(cloud - plain).max() > 1e-3
assert cli.main(["compare", "--damping", "half", "--no-step", "--output", sys.argv[1] + "/compare"]) == 0
dampsim.unregister()
print("found")
"""
# Tests of the copy that must include the additions.
TESTS_OF_COPY = {
    "test_newcomer.py": [
        "test_panels_show_all_parameters",
    ],
    "test_registries.py": [
        *(f"test_entries_are_documented[{name}]" for name in PAGES),
        *(f"test_entries_have_their_own_numbers[{name}]" for name in SAVED),
        "test_every_option_is_read",
    ],
    "test_baking.py": [
        f"test_bake_and_clear_restore_user_data[{case}]"
        for case in (
            "wobbler-INCREMENTS",
            "object_with_user_data-INCREMENTS",
            "wobbler-SHOT_FILE",
            "object_with_shared_mesh-SHOT_FILE",
        )
    ],
    "test_error_messages.py": [],
}


@pytest.mark.slow
def test_additions_work_throughout_the_addon(tmp_path: Path) -> None:
    """Additions to a copy of the project appear in panels, commands and bakes, and Clear removes their bakes."""
    if os.environ.get("DAMPSIM_INSTALLED"):
        pytest.skip("the zip has no sources to copy")
    copy_with_additions(tmp_path)
    settings = {**os.environ, "PYTHONDONTWRITEBYTECODE": "1"}

    def call(*command: str) -> str:
        done = subprocess.run(
            [sys.executable, *command], cwd=tmp_path, env=settings, capture_output=True, text=True, check=False
        )
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout

    call("tools/parameters_page.py")
    files = [f"tests/addon/{name}" for name in TESTS_OF_COPY]
    tests = {name for names in TESTS_OF_COPY.values() for name in names}
    said = call(
        "-m", "pytest", "-v", "-p", "no:cacheprovider", *files, "-m", "not slow",
        "-k", "(SHOT_FILE or INCREMENTS or panel or test_registries) and not export",
    )  # fmt: skip
    assert tests <= set(re.findall(r"::(\S+) PASSED", said))
    # The conftest of the add-on tests would shadow that of all tests.
    (tmp_path / "tests" / "addon" / "conftest.py").unlink()
    assert "found" in call("-c", SCRIPT, str(tmp_path))
