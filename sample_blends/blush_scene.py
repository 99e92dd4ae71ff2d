"""Sample scene of maps for build.py: a finger strokes a soft cushion, which wrinkles and blushes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import bpy
from mathutils import Matrix, Vector

from build import add_vertex_group, key, material, new_scene, points, primitive, simulate, smooth_step, stage


def skin() -> bpy.types.Material:
    """Return a material that wrinkles where the surface is compressed, and blushes where it is touched or stretched."""
    look = material("Skin", (0.72, 0.42, 0.3), Roughness=0.5, Subsurface_Weight=0.15)
    nodes, link = look.node_tree.nodes, look.node_tree.links.new
    shader = nodes["Principled BSDF"]

    def add(kind: str, place: tuple[float, float], label: str = "", **values: Any) -> Any:
        node = nodes.new(kind)
        node.location, node.label = place, label
        for name, value in values.items():
            setattr(node, name, value)
        return node

    def attribute(name: str, y: float) -> Any:
        return add("ShaderNodeAttribute", (-1100.0, y), name, attribute_name=name)

    def ramp(source: Any, low: float, high: float, y: float, label: str) -> Any:
        """Return a smooth step from 0 to 1 between two values of a map."""
        node = add("ShaderNodeMapRange", (-850.0, y), label, interpolation_type="SMOOTHSTEP", clamp=True)
        node.inputs["From Min"].default_value, node.inputs["From Max"].default_value = low, high
        link(source, node.inputs["Value"])
        return node.outputs["Result"]

    contact = ramp(attribute("dampsim_contact", 300.0).outputs["Fac"], 0.0, 1.0, 300.0, "Touched")
    stretch = ramp(attribute("dampsim_stretch", 60.0).outputs["Fac"], 0.03, 0.3, 60.0, "Stretched")
    compression = ramp(attribute("dampsim_compression", -250.0).outputs["Fac"], 0.02, 0.25, -250.0, "Compressed")
    blush = add("ShaderNodeMath", (-600.0, 200.0), "Blush", operation="MAXIMUM")
    link(contact, blush.inputs[0])
    link(stretch, blush.inputs[1])
    color = add("ShaderNodeMix", (-350.0, 250.0), "Blush", data_type="RGBA")
    colors = [one for one in color.inputs if one.type == "RGBA"]
    colors[0].default_value, colors[1].default_value = (0.72, 0.42, 0.3, 1.0), (0.75, 0.06, 0.05, 1.0)
    link(blush.outputs[0], color.inputs["Factor"])
    link(next(one for one in color.outputs if one.type == "RGBA"), shader.inputs["Base Color"])
    # Wrinkles run across the direction of compression: bands of the coordinate along it at rest.
    rest = add("ShaderNodeAttribute", (-1100.0, -450.0), "Rest", attribute_name="rest_position")
    across = add("ShaderNodeAttribute", (-1100.0, -650.0), "Direction", attribute_name="dampsim_compression_direction")
    along = add("ShaderNodeVectorMath", (-850.0, -550.0), operation="DOT_PRODUCT")
    link(rest.outputs["Vector"], along.inputs[0])
    link(across.outputs["Vector"], along.inputs[1])
    phase = add("ShaderNodeMath", (-680.0, -550.0), operation="MULTIPLY")
    phase.inputs[1].default_value = 140.0
    link(along.outputs["Value"], phase.inputs[0])
    bands = add("ShaderNodeMath", (-520.0, -550.0), operation="SINE")
    link(phase.outputs[0], bands.inputs[0])
    depth = add("ShaderNodeMath", (-360.0, -400.0), "Wrinkles", operation="MULTIPLY")
    link(bands.outputs[0], depth.inputs[0])
    link(compression, depth.inputs[1])
    bump = add("ShaderNodeBump", (-200.0, -300.0))
    bump.inputs["Distance"].default_value = 0.02
    link(depth.outputs[0], bump.inputs["Height"])
    link(bump.outputs["Normal"], shader.inputs["Normal"])
    return look


def blush() -> None:
    """Build blush.blend: a finger presses into a cushion and pulls it sideways. Its maps drive the material."""
    scene = new_scene(60)
    stage(scene, (0.0, -3.4, 2.1), (0.0, 0.0, 0.25), 45)
    cushion = primitive(bpy.ops.mesh.primitive_uv_sphere_add, "Cushion", skin(), radius=0.5, segments=64, ring_count=40)
    cushion.data.transform(Matrix.Translation((0.0, 0.0, 0.25)) @ Matrix.Diagonal((1.2, 0.9, 0.5, 1.0)))
    where = points(cushion)
    add_vertex_group(cushion, "Pin", 1.0 - smooth_step(where[:, 2], 0.04, 0.14))
    finger = primitive(
        bpy.ops.mesh.primitive_uv_sphere_add, "Finger", material("Glove", (0.08, 0.2, 0.45), Roughness=0.4),
        radius=0.13, segments=32, ring_count=20,
    )  # fmt: skip
    finger.dampsim_collider.is_collider = True
    high, low = Vector((-0.15, -0.1, 0.75)), Vector((-0.15, -0.1, 0.47))
    aside = low + Vector((0.3, 0.0, -0.02))
    key(finger, "location", {1: high, 8: high, 18: low, 24: low, 36: aside, 42: aside, 50: aside + Vector((0, 0, 0.4))})
    simulate(cushion, settle=16.0, bounce=30.0, stiffness_by="SAG", sag=1.5, resolution=2500, follow_through=1.0)
    bpy.context.view_layer.objects.active = cushion
    assert bpy.ops.dampsim.maps(contact_range=0.06) == {"FINISHED"}


SCENES: dict[str, Callable[[], None]] = {"blush": blush}
