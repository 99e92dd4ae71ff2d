"""Application of an object's first modifiers to its mesh and all of its shape keys."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager

import bmesh
import bpy
import numpy as np

from ...core import Index, SceneError
from ...core.base.arrays import SinglePrecisionArray
from .animation import is_modifier_animated
from .dampsim_names import PREFIX, is_output_modifier
from .movers import is_local
from .sampler import mesh_positions, mode_name, read_array

# Modifier types whose result depends only on the mesh and on their own settings.
_MESH_ONLY_TYPES = (
    *("ARRAY", "BEVEL", "DECIMATE", "EDGE_SPLIT", "MASK", "MIRROR", "REMESH", "SCREW", "SOLIDIFY", "SUBSURF"),
    *("TRIANGULATE", "WELD", "WIREFRAME"),
)
_INDEX_ATTRIBUTE = PREFIX + "Order"


def modifiers_safe_to_apply(obj: bpy.types.Object, modifier_type: str) -> list[bpy.types.Modifier]:
    """Return the modifiers up to the last one of a type, if applying them changes nothing visible; otherwise none.

    Applying is not safe where one of them deforms, is animated, refers to another object, or differs in renders.
    """
    mesh: bpy.types.Mesh = obj.data
    shared = mesh.users - int(mesh.use_fake_user) > 1
    if shared or not is_local(obj, mesh):
        return []
    stack = [m for m in obj.modifiers if (m.show_viewport or m.show_render) and not is_output_modifier(m)]
    last = max((k for k, m in enumerate(stack) if m.type == modifier_type), default=-1)
    found = stack[: last + 1]
    return found if all(map(_is_mesh_only, found)) and not any(map(is_modifier_animated, found)) else []


def _is_mesh_only(modifier: bpy.types.Modifier) -> bool:
    if modifier.type not in _MESH_ONLY_TYPES or not modifier.show_viewport or is_different_in_render(modifier):
        return False
    properties = modifier.bl_rna.properties
    return all(p.type != "POINTER" or getattr(modifier, p.identifier) is None for p in properties if p != properties[0])


def is_different_in_render(modifier: bpy.types.Modifier) -> bool:
    """Return whether a modifier gives other vertices in renders than in the viewport."""
    if modifier.show_viewport != modifier.show_render:
        return True
    return modifier.type in ("SUBSURF", "MULTIRES") and modifier.levels != modifier.render_levels


def apply_modifiers(
    obj: bpy.types.Object, view_layer: bpy.types.ViewLayer, modifiers: Sequence[bpy.types.Modifier]
) -> None:
    """Apply modifiers found by modifiers_safe_to_apply(). Shape keys keep their values, drivers and animation.

    Raises SceneError outside Object Mode, and where the modifiers give shape keys different numbers of vertices.
    """
    if obj.mode != "OBJECT":
        mode = mode_name(obj)
        raise SceneError(f"{obj.name}: leave {mode} Mode before applying modifiers.")
    names = [modifier.name for modifier in modifiers]
    keys = obj.data.shape_keys
    blocks = list(keys.key_blocks) if keys else []
    with _isolated_copy(obj, names) as stand_in:
        shapes = [_evaluate_modifiers(stand_in, view_layer, block) for block in blocks]
        for block, shape in zip(blocks, shapes, strict=True):
            if len(shape) != len(shapes[0]):
                raise SceneError(
                    f"{obj.name}: {' and '.join(names)} would give shape key '{block.name}' another number of vertices "
                    f"than '{blocks[0].name}'. Switch off Merge, or bake to a point cache."
                )
        if blocks:
            _evaluate_modifiers(stand_in, view_layer, keys.reference_key)
        view_layer.update()
        graph = view_layer.depsgraph
        applied = stand_in.evaluated_get(graph)
        new_mesh = bpy.data.meshes.new_from_object(applied, preserve_all_data_layers=True, depsgraph=graph)
    try:
        order = _swap_mesh(obj.data, new_mesh, bool(blocks))
    finally:
        bpy.data.meshes.remove(new_mesh)
    for block, shape in zip(blocks, shapes, strict=True):
        block.points.foreach_set("co", shape[order].ravel())
    for name in names:
        obj.modifiers.remove(obj.modifiers[name])
    obj.data.update()
    view_layer.update()


def _evaluate_modifiers(
    obj: bpy.types.Object, view_layer: bpy.types.ViewLayer, key: bpy.types.ShapeKey
) -> SinglePrecisionArray:
    """Return the modifiers' vertices (w, 3) for those of a shape key."""
    obj.data.vertices.foreach_set("co", read_array(key.points, "co", np.float32, 3).ravel())
    obj.data.update()
    obj.update_tag()
    view_layer.update()
    return mesh_positions(obj.evaluated_get(view_layer.depsgraph).data).copy()


def _swap_mesh(mesh: bpy.types.Mesh, new_mesh: bpy.types.Mesh, has_shape_keys: bool) -> Index:
    """Replace the content of a mesh by another mesh. Return the index in the other mesh of each vertex."""
    attribute = new_mesh.attributes.new(_INDEX_ATTRIBUTE, "INT", "POINT")
    # Another name if the user has an attribute of this name.
    name = attribute.name
    attribute.data.foreach_set("value", np.arange(len(new_mesh.vertices), dtype=np.int32))
    content = bmesh.new()
    try:
        if has_shape_keys:
            # Shape keys are stored as layers, which a new bmesh lacks.
            content.from_mesh(mesh)
            bmesh.ops.delete(content, geom=content.verts[:], context="VERTS")
        content.from_mesh(new_mesh)
        content.to_mesh(mesh)
    finally:
        content.free()
    order = read_array(mesh.attributes[name].data, "value", np.int32)
    mesh.attributes.remove(mesh.attributes[name])
    return order.astype(np.int64)


@contextmanager
def _isolated_copy(obj: bpy.types.Object, names: Sequence[str]) -> Iterator[bpy.types.Object]:
    """Provide a temporary copy of the object, without shape keys and with only the named modifiers."""
    scene = bpy.context.scene
    stand_in = obj.copy()
    stand_in.dampsim.enabled = False
    stand_in.animation_data_clear()
    stand_in.parent = None
    # A copy of the mesh would bring its shape keys along.
    mesh = stand_in.data = bpy.data.meshes.new_from_object(obj)
    try:
        for modifier in [m for m in stand_in.modifiers if m.name not in names]:
            stand_in.modifiers.remove(modifier)
        scene.collection.objects.link(stand_in)
        yield stand_in
    finally:
        bpy.data.objects.remove(stand_in)
        bpy.data.meshes.remove(mesh)
