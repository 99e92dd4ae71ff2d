"""Render the pictures of the material menu: a ball that swings after a stop, for each material.

.venv-bpy-3.11/bin/python tools/material_pictures.py [NAME …]
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import bpy
import numpy as np
from PIL import Image

ROOT = Path(__file__).resolve().parents[1]
PRESETS = ROOT / "dampsim_addon" / "model" / "presets"
SIZE, SAMPLES, STOP, LATER = 96, 32, 8, 2
COLOURS = {
    "clay": (0.5, 0.24, 0.13),
    "cork": (0.55, 0.33, 0.16), "dough": (0.85, 0.72, 0.5), "ear": (0.75, 0.45, 0.35), "fat": (0.9, 0.78, 0.45),
    "flesh": (0.75, 0.25, 0.2), "jelly": (0.8, 0.05, 0.12), "memory_foam": (0.75, 0.75, 0.8),
    "nylon_rod": (0.9, 0.9, 0.92), "rubber": (0.05, 0.05, 0.06), "silicone": (0.25, 0.55, 0.75),
    "sponge": (0.95, 0.75, 0.1), "tail": (0.45, 0.25, 0.1), "water_balloon": (0.1, 0.3, 0.85),
}  # fmt: skip
CLEAR = ("jelly", "silicone", "water_balloon")


def scene_of(name: str, ours: Any) -> bpy.types.Object:
    """Build a ball on a plate that moves to the right and stops at once."""
    bpy.ops.wm.read_factory_settings(use_empty=True)
    scene = bpy.context.scene
    scene.frame_start, scene.frame_end = 1, STOP + LATER
    bpy.ops.mesh.primitive_uv_sphere_add(segments=48, ring_count=32, radius=0.5, location=(0.0, 0.0, 0.5))
    obj = bpy.context.object
    bpy.ops.object.shade_smooth()
    z = np.array([vertex.co.z for vertex in obj.data.vertices])
    obj.vertex_groups.new(name="Pin").add(np.flatnonzero(z < -0.4).tolist(), 1.0, "REPLACE")
    for frame, x in ((1, -0.6), (STOP, 0.0)):
        obj.location.x = x
        obj.keyframe_insert("location", frame=frame)
    for curve in ours("dampsim_addon.blender.animation").user_fcurves(obj):
        for key in curve.keyframe_points:
            key.interpolation = "LINEAR"
    assert bpy.ops.dampsim.add() == {"FINISHED"}
    assert bpy.ops.dampsim.preset(filepath=str(PRESETS / "dampsim" / f"{name}.py")) == {"FINISHED"}
    obj.dampsim.resolution = 1500
    material = bpy.data.materials.new(name)
    material.use_nodes = True
    shader = next(node for node in material.node_tree.nodes if node.type == "BSDF_PRINCIPLED")
    shader.inputs["Base Color"].default_value = (*COLOURS.get(name, (0.6, 0.6, 0.6)), 1.0)
    shader.inputs["Roughness"].default_value = 0.15 if name in CLEAR else 0.6
    shader.inputs["Subsurface Weight"].default_value = 0.5 if name in CLEAR else 0.0
    obj.data.materials.append(material)
    return obj


def stage() -> None:
    scene = bpy.context.scene
    bpy.ops.mesh.primitive_cylinder_add(radius=0.42, depth=0.12, location=(0.0, 0.0, 0.03))
    world = bpy.data.worlds.new("World")
    world.use_nodes = True
    world.node_tree.nodes["Background"].inputs["Color"].default_value = (0.3, 0.33, 0.36, 1.0)
    scene.world = world
    bpy.ops.object.light_add(type="AREA", location=(-2.0, -2.5, 3.5), rotation=(0.7, 0.0, -0.7))
    bpy.context.object.data.energy, bpy.context.object.data.size = 110.0, 2.0
    bpy.ops.object.camera_add(location=(0.0, -4.6, 1.1), rotation=(1.44, 0.0, 0.0))
    bpy.context.object.data.lens = 135.0
    bpy.context.object.data.shift_y = 0.02
    scene.camera = bpy.context.object
    scene.render.engine, scene.cycles.samples = "CYCLES", SAMPLES
    scene.cycles.use_denoising = False
    scene.render.resolution_x = scene.render.resolution_y = SIZE
    scene.render.film_transparent = True
    scene.view_settings.view_transform = "Standard"
    scene.render.image_settings.file_format, scene.render.image_settings.color_mode = "PNG", "RGBA"
    scene.render.image_settings.compression = 100


def main(names: list[str]) -> None:
    sys.path.insert(0, str(ROOT / "tests"))
    import conftest
    from dampsim import dampsim_addon  # type: ignore[attr-defined]

    del conftest
    dampsim_addon.register()
    import importlib
    import tempfile

    def ours(name: str) -> Any:
        return importlib.import_module(f"dampsim.{name}")

    for name in names or sorted(path.stem for path in (PRESETS / "dampsim").glob("*.py")):
        with tempfile.TemporaryDirectory() as folder:
            obj = scene_of(name, ours)
            obj.dampsim.cache_folder = folder
            assert bpy.ops.dampsim.bake() == {"FINISHED"}
            stage()
            bpy.context.scene.frame_set(STOP + LATER)
            bpy.context.scene.render.filepath = str(PRESETS / "pictures" / f"{name}.png")
            bpy.ops.render.render(write_still=True)
            # Blender adds the date, the render time and the name of the file.
            with Image.open(bpy.context.scene.render.filepath) as picture:
                plain = Image.frombytes(picture.mode, picture.size, picture.tobytes())
            plain.save(bpy.context.scene.render.filepath, optimize=True)
        print(name, flush=True)
    dampsim_addon.unregister()


if __name__ == "__main__":
    main(sys.argv[1:])
