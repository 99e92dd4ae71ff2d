"""Application of an object's first modifiers to its mesh and all of its shape keys."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager

import bmesh
import bpy
import numpy as np

from ...core.arrays import Index, Single
from ...core.errors import SceneError
from .animation import animated_paths
from .marks import PREFIX, is_ours
from .sampler import positions

# Modifier types whose result depends only on the mesh and on their own settings.
_PLAIN = (
    "ARRAY",
    "BEVEL",
    "DECIMATE",
    "EDGE_SPLIT",
    "MASK",
    "MIRROR",
    "REMESH",
    "SCREW",
    "SOLIDIFY",
    "SUBSURF",
    "TRIANGULATE",
    "WELD",
    "WIREFRAME",
)
_ORDER = PREFIX + "Order"


def applicable(obj: bpy.types.Object, kind: str) -> list[bpy.types.Modifier]:
    """Return the modifiers up to the last one of a type, if applying them changes nothing visible; otherwise none.

    Applying is not safe where one of them deforms, is animated, refers to another object, or differs in renders.
    """
    mesh: bpy.types.Mesh = obj.data
    shared = mesh.users - int(mesh.use_fake_user) > 1
    if obj.library or obj.override_library or mesh.library or mesh.override_library or shared:
        return []
    stack = [m for m in obj.modifiers if (m.show_viewport or m.show_render) and not is_ours(m.name)]
    last = max((k for k, m in enumerate(stack) if m.type == kind), default=-1)
    found, keyed = stack[: last + 1], animated_paths(obj)
    if all(_is_plain(modifier) and not _is_keyed(modifier, keyed) for modifier in found):
        return found
    return []


def _is_plain(modifier: bpy.types.Modifier) -> bool:
    if modifier.type not in _PLAIN or not modifier.show_viewport or renders_otherwise(modifier):
        return False
    properties = modifier.bl_rna.properties
    return all(p.type != "POINTER" or getattr(modifier, p.identifier) is None for p in properties if p != properties[0])


def _is_keyed(modifier: bpy.types.Modifier, paths: list[str]) -> bool:
    return any(path.startswith(f'modifiers["{bpy.utils.escape_identifier(modifier.name)}"]') for path in paths)


def renders_otherwise(modifier: bpy.types.Modifier) -> bool:
    """Return whether a modifier gives other vertices in renders than in the viewport."""
    if modifier.show_viewport != modifier.show_render:
        return True
    return modifier.type in ("SUBSURF", "MULTIRES") and modifier.levels != modifier.render_levels


def apply(obj: bpy.types.Object, view_layer: bpy.types.ViewLayer, modifiers: Sequence[bpy.types.Modifier]) -> None:
    """Apply modifiers found by modifiers_safe_to_apply(). Shape keys keep their values, drivers and animation.

    Raises SceneError outside Object Mode, and where the modifiers give shape keys different numbers of vertices.
    """
    if obj.mode != "OBJECT":
        raise SceneError(f"{obj.name}: leave {obj.mode.title()} Mode before applying modifiers.")
    names = [modifier.name for modifier in modifiers]
    keys = obj.data.shape_keys
    blocks = list(keys.key_blocks) if keys else []
    with _alone(obj, names) as stand_in:
        shapes = []
        for block in blocks:
            flat = np.empty(3 * len(block.points), dtype=np.float32)
            block.points.foreach_get("co", flat)
            shapes.append(_shaped(stand_in, view_layer, flat))
        for block, shape in zip(blocks, shapes, strict=True):
            if len(shape) != len(shapes[0]):
                raise SceneError(
                    f"{obj.name}: {' and '.join(names)} would give shape key '{block.name}' another number of vertices "
                    f"than '{blocks[0].name}'. Switch off Merge, or bake to a point cache."
                )
        if blocks:
            flat = np.empty(3 * len(blocks[0].points), dtype=np.float32)
            keys.reference_key.points.foreach_get("co", flat)
            _shaped(stand_in, view_layer, flat)
        view_layer.update()
        made = bpy.data.meshes.new_from_object(
            stand_in.evaluated_get(view_layer.depsgraph), preserve_all_data_layers=True, depsgraph=view_layer.depsgraph
        )
    try:
        order = _exchange(obj.data, made, bool(blocks))
    finally:
        bpy.data.meshes.remove(made)
    for block, shape in zip(blocks, shapes, strict=True):
        block.points.foreach_set("co", shape[order].ravel())
    for name in names:
        obj.modifiers.remove(obj.modifiers[name])
    obj.data.update()
    view_layer.update()


def _shaped(obj: bpy.types.Object, view_layer: bpy.types.ViewLayer, flat: Single) -> Single:
    """Return the modifiers' vertices (w, 3) for given mesh vertices, flat (3v,)."""
    obj.data.vertices.foreach_set("co", flat)
    obj.data.update()
    obj.update_tag()
    view_layer.update()
    return positions(obj.evaluated_get(view_layer.depsgraph).data).copy()


def _exchange(mesh: bpy.types.Mesh, made: bpy.types.Mesh, keyed: bool) -> Index:
    """Replace the content of a mesh by another mesh. Return the index in the other mesh of each vertex."""
    attribute = made.attributes.new(_ORDER, "INT", "POINT")
    attribute.data.foreach_set("value", np.arange(len(made.vertices), dtype=np.int32))
    content = bmesh.new()
    try:
        if keyed:
            # Shape keys are stored as layers, which a new bmesh lacks.
            content.from_mesh(mesh)
            bmesh.ops.delete(content, geom=content.verts[:], context="VERTS")
        content.from_mesh(made)
        content.to_mesh(mesh)
    finally:
        content.free()
    order = np.empty(len(mesh.vertices), dtype=np.int32)
    mesh.attributes[_ORDER].data.foreach_get("value", order)
    mesh.attributes.remove(mesh.attributes[_ORDER])
    return order.astype(np.int64)


@contextmanager
def _alone(obj: bpy.types.Object, names: Sequence[str]) -> Iterator[bpy.types.Object]:
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
