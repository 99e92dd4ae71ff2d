"""Blender's scene as plain arrays of the core."""

from __future__ import annotations

import math
from types import TracebackType

import bpy
import numpy as np

from ..core.arrays import Array, Index
from ..core.errors import MeshError, PinError, SceneError
from ..core.geometry.affine import transformed
from ..core.geometry.surface import Surface, check_surface
from ..core.scene import Body, Scene
from .marks import is_ours
from .modifiers import DEFORMING
from .properties import read_settings

# Properties of DampSimObject that name a vertex group.
GROUPS = ("pin_group", "settle_group", "stiffness_group")
# A column of the object's matrix shorter than this times the longest squeezes the mesh flat.
_FLAT = 1e-9


# Those at work: while there is one, nothing else may answer to a change of frame.
SAMPLING: list[Sampler] = []


class Sampler:
    """Reads an object frame by frame, with our own output and all that changes its vertices' number switched off.

    Use as a context: on leaving it the modifiers, shape keys and the current frame are as before.
    """

    def __init__(self, scene: bpy.types.Scene, view_layer: bpy.types.ViewLayer, obj: bpy.types.Object) -> None:
        self.scene, self.view_layer, self.obj = scene, view_layer, obj
        self._modifiers: list[str] = []
        self._keys: list[str] = []
        self._frame = (scene.frame_current, scene.frame_subframe)

    def __enter__(self) -> Sampler:
        self._frame = (self.scene.frame_current, self.scene.frame_subframe)
        SAMPLING.append(self)
        self.mute()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.unmute()
        try:
            self.scene.frame_set(self._frame[0], subframe=self._frame[1])
        finally:
            SAMPLING.remove(self)

    def mute(self) -> None:
        """Switch off what must not be sampled."""
        for modifier in self.obj.modifiers:
            if modifier.show_viewport and (modifier.type not in DEFORMING or is_ours(modifier.name)):
                self._modifiers.append(modifier.name)
                modifier.show_viewport = False
        for key in self._key_blocks():
            if is_ours(key.name) and not key.mute:
                self._keys.append(key.name)
                key.mute = True

    def unmute(self) -> None:
        """Switch on again what mute() switched off."""
        for name in self._modifiers:
            if name in self.obj.modifiers:
                self.obj.modifiers[name].show_viewport = True
        for key in self._key_blocks():
            if key.name in self._keys:
                key.mute = False
        self._modifiers.clear()
        self._keys.clear()

    def _key_blocks(self) -> list[bpy.types.ShapeKey]:
        keys = self.obj.data.shape_keys
        return list(keys.key_blocks) if keys else []

    @property
    def deforms(self) -> bool:
        """Whether any modifier moves the vertices after the shape keys."""
        return any(m.show_viewport and m.type in DEFORMING and not is_ours(m.name) for m in self.obj.modifiers)

    def go(self, frame: float) -> None:
        whole = math.floor(frame)
        self.scene.frame_set(whole, subframe=frame - whole)

    def local(self) -> Array:
        """Evaluated vertices (v, 3) in the object's space, now."""
        evaluated = self.obj.evaluated_get(self.view_layer.depsgraph)
        mesh = evaluated.data
        flat = np.empty(3 * len(mesh.vertices), dtype=np.float32)
        mesh.vertices.foreach_get("co", flat)
        return flat.reshape(-1, 3).astype(float)

    def matrix(self) -> Array:
        """The object's matrix (4, 4) to world space, now."""
        return np.array(self.obj.evaluated_get(self.view_layer.depsgraph).matrix_world, dtype=float)

    def world(self, frame: float) -> Array:
        """Animated vertices (v, 3) m in world space at a frame."""
        self.go(frame)
        return self.here()

    def here(self) -> Array:
        """Animated vertices (v, 3) m in world space, now."""
        return transformed(self.matrix(), self.local())

    def rest(self) -> Array:
        """Undeformed vertices (v, 3) in world space at the first frame: shape keys count, modifiers do not."""
        deforming = [m for m in self.obj.modifiers if m.show_viewport]
        try:
            for modifier in deforming:
                modifier.show_viewport = False
            return self.world(float(self.scene.frame_start))
        finally:
            for modifier in deforming:
                modifier.show_viewport = True


def check_object(obj: bpy.types.Object, view_layer: bpy.types.ViewLayer) -> None:
    """Raise an error for the artist where the object cannot be taken as it is; changes nothing."""
    if obj.type != "MESH":
        raise MeshError(f"{obj.name}: only meshes can be simulated; convert the object to a mesh first.")
    if obj.mode != "OBJECT":
        raise SceneError(f"{obj.name}: leave {obj.mode.title()} Mode before baking.")
    if obj.library is not None:
        raise SceneError(f"{obj.name}: the object is linked from another file; bake it there, or make it local.")
    if not obj.visible_get(view_layer=view_layer):
        # Blender does not evaluate what cannot be seen, so that its pins would stand still.
        raise SceneError(f"{obj.name}: the object is hidden; show it in the outliner before baking.")
    if len(obj.data.polygons) == 0:
        raise MeshError(f"{obj.name}: the mesh has no faces; choose an object with a closed surface.")
    for role in GROUPS:
        group = getattr(obj.dampsim, role)
        if group and group not in obj.vertex_groups:
            what = role.replace("_", " ")
            raise PinError(f"{obj.name}: {what} '{group}' is gone; choose a {what}.")
    columns = np.linalg.norm(np.array(obj.matrix_world)[:3, :3], axis=0)
    if not columns.min() > _FLAT * max(columns.max(), 1e-30):
        raise MeshError(f"{obj.name}: its scale is zero along an axis; set a scale above zero.")


def pin_weights(obj: bpy.types.Object) -> Array:
    """Weights (v,) of the pin group; zero without one."""
    name = obj.dampsim.pin_group
    if not name:
        return np.zeros(len(obj.data.vertices))
    weights = group_weights(obj, name)
    if not weights.max(initial=0.0) > 0.0:
        raise PinError(
            f"{obj.name}: no vertex has a weight in pin group '{name}'; assign some or choose another group."
        )
    return weights


def group_weights(obj: bpy.types.Object, name: str) -> Array:
    """Weights (v,) of a vertex group; zero where a vertex is not in it."""
    weights = np.zeros(len(obj.data.vertices))
    index = obj.vertex_groups[name].index
    for vertex in obj.data.vertices:
        for element in vertex.groups:
            if element.group == index:
                weights[vertex.index] = element.weight
    return np.round(weights, 6)


def _painted(obj: bpy.types.Object, name: str) -> Array | None:
    return group_weights(obj, name) if name else None


def triangles(mesh: bpy.types.Mesh) -> Index:
    mesh.calc_loop_triangles()
    flat = np.empty(3 * len(mesh.loop_triangles), dtype=np.int32)
    mesh.loop_triangles.foreach_get("vertices", flat)
    return flat.reshape(-1, 3).astype(np.int64)


def frame_rate(scene: bpy.types.Scene) -> float:
    return float(scene.render.fps) / float(scene.render.fps_base)


def take(sampler: Sampler) -> Scene:
    """The core's scene for an object; raises the errors for the artist before anything is changed."""
    obj, scene = sampler.obj, sampler.scene
    check_object(obj, sampler.view_layer)
    surface = Surface(obj.name, sampler.rest(), triangles(obj.data))
    check_surface(surface)
    # Read after rest(), which goes to the first frame: keyframed dials have their first values there.
    settings = read_settings(obj)
    gravity = np.array(scene.gravity, dtype=float) if scene.use_gravity else np.zeros(3)
    group = obj.dampsim
    body = Body(
        surface, pin_weights(obj), settings, _painted(obj, group.settle_group), _painted(obj, group.stiffness_group)
    )
    dials = (lambda frame: read_settings(obj)) if has_keyed_dials(obj) else None
    return Scene(
        body, sampler.world, frame_rate(scene), gravity, scene.frame_start, scene.frame_end, dials, deforming(obj)
    )


def deforming(obj: bpy.types.Object) -> bool:
    """Whether modifiers, or shape keys that move, bend the artist's mesh."""
    if any(m.type in DEFORMING and m.show_viewport and not is_ours(m.name) for m in obj.modifiers):
        return True
    keys = obj.data.shape_keys
    return keys is not None and bool(animated_paths(keys))


def has_keyed_dials(obj: bpy.types.Object) -> bool:
    """Whether anything animates the object's dials: keyframes, drivers or NLA strips."""
    return any(path.startswith("dampsim.") for path in animated_paths(obj))


def animated_paths(block: bpy.types.ID) -> list[str]:
    """Data paths of a datablock that keyframes, drivers or NLA strips of the artist move."""
    data = block.animation_data
    if data is None:
        return []
    actions = [data.action, *(strip.action for track in data.nla_tracks for strip in track.strips)]
    layers = [layer for action in actions if action and not is_ours(action.name) for layer in action.layers]
    bags = [bag for layer in layers for strip in layer.strips for bag in strip.channelbags]
    return [curve.data_path for bag in bags for curve in bag.fcurves] + [driver.data_path for driver in data.drivers]
