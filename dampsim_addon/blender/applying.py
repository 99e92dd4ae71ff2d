"""Makes real vertices of what an object's first modifiers make, shape keys and all."""

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

# Those whose outcome depends on nothing but the mesh and what is set of them.
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
    """The modifiers down to the last one of a kind, if making them real changes nothing of what is seen; else none.

    It would where one of them deforms, is keyed, follows another object, or is rendered otherwise than shown.
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
    """Whether it makes other vertices in a render than in the viewport."""
    if modifier.show_viewport != modifier.show_render:
        return True
    return modifier.type in ("SUBSURF", "MULTIRES") and modifier.levels != modifier.render_levels


def apply(obj: bpy.types.Object, view_layer: bpy.types.ViewLayer, modifiers: Sequence[bpy.types.Modifier]) -> None:
    """Make real what applicable() named. Shape keys stay, with their values, drivers and animation."""
    if obj.mode != "OBJECT":
        raise SceneError(f"{obj.name}: leave {obj.mode.title()} Mode before modifiers are applied.")
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
                    f"{obj.name}: {' and '.join(names)} would make other vertices of shape key '{block.name}' than of "
                    f"'{blocks[0].name}'; switch off Merge, or bake to a point cache."
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
    """What the modifiers make (w, 3) of vertices, flat (3v,)."""
    obj.data.vertices.foreach_set("co", flat)
    obj.data.update()
    obj.update_tag()
    view_layer.update()
    return positions(obj.evaluated_get(view_layer.depsgraph).data).copy()


def _exchange(mesh: bpy.types.Mesh, made: bpy.types.Mesh, keyed: bool) -> Index:
    """Put another mesh in the place of a mesh's own; which of its vertices each one is."""
    attribute = made.attributes.new(_ORDER, "INT", "POINT")
    attribute.data.foreach_set("value", np.arange(len(made.vertices), dtype=np.int32))
    content = bmesh.new()
    try:
        if keyed:
            # Its shape keys are known by layers that a new one has not.
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
    """For a while, a copy of the object without shape keys, with these modifiers alone."""
    scene = bpy.context.scene
    stand_in = obj.copy()
    stand_in.dampsim.enabled = False
    stand_in.animation_data_clear()
    stand_in.parent = None
    # Without shape keys, which a copy of the mesh would bring along.
    mesh = stand_in.data = bpy.data.meshes.new_from_object(obj)
    try:
        for modifier in [m for m in stand_in.modifiers if m.name not in names]:
            stand_in.modifiers.remove(modifier)
        scene.collection.objects.link(stand_in)
        yield stand_in
    finally:
        bpy.data.objects.remove(stand_in)
        bpy.data.meshes.remove(mesh)
