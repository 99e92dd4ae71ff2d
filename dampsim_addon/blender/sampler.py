"""Readers of the evaluated meshes of simulated objects, frame by frame. Numbers of elements must not change."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from typing import Any

import bpy
import numpy as np
import numpy.typing as npt

from ...core import Array, MeshError, SceneError
from ...core.base.arrays import SinglePrecisionArray
from ...core.base.wording import format_count
from ...core.geometry.mesh.rigid_motion import transform_points
from ..session import has_frame_handlers_of_others
from .animation import is_modifier_animated
from .bone_bakes import Memberships, mute_bone_poses, mute_bone_weights, unmute_bone_poses, unmute_bone_weights
from .dampsim_names import bake_keys, is_bake_basis, live_modifiers
from .modifiers import (
    can_change_topology,
    deform_stack,
    is_deforming,
    is_read_by_others,
    sampled_modifiers,
    simulated_topology_modifiers,
    topology_modifiers,
    trailing_solidify,
)

# Numbers of vertices, edges and faces.
MeshCounts = tuple[int, int, int]

# Topology-changing modifiers whose result depends on the mesh's connectivity, not on its positions.
_CONNECTIVITY_ONLY_TYPES = ("SUBSURF", "MULTIRES", "SOLIDIFY", "WIREFRAME")


def count_elements(mesh: bpy.types.Mesh) -> MeshCounts:
    """Return the numbers of vertices, edges and faces of a mesh."""
    return len(mesh.vertices), len(mesh.edges), len(mesh.polygons)


def check_mesh_counts(obj: bpy.types.Object, mesh: bpy.types.Mesh, expected: MeshCounts, frame: float) -> None:
    """Raise MeshError where the evaluated mesh has other numbers than at rest, which no simulation can follow."""
    found = count_elements(mesh)
    if found == expected:
        return
    culprit = _likely_culprit(obj)
    is_mirror = culprit.type == "MIRROR"
    fix = "Switch off its Merge, or apply it" if is_mirror else "Apply it, or move it below all deforming modifiers"
    difference = f"{format_count(found[0], 'vertex')} at frame {frame:.5g}, but {expected[0]} at rest"
    if found[0] == expected[0]:
        difference = f"other faces at frame {frame:.5g} than at rest"
    raise MeshError(f"{obj.name}: modifier {culprit.name} gives {difference}. {fix}.")


def _likely_culprit(obj: bpy.types.Object) -> bpy.types.Modifier:
    """Return the modifier most likely to change the vertex count: an animated one, or one after a deformation."""
    stack, changing = deform_stack(obj), topology_modifiers(obj)
    keyed = [m for m in changing if is_modifier_animated(m)]
    after_deformation = [m for k, m in enumerate(stack) if m in changing and any(map(is_deforming, stack[:k]))]
    suspects = [m for m in (after_deformation or changing) if m.type not in _CONNECTIVITY_ONLY_TYPES]
    return next(iter([*keyed, *reversed(suspects), *reversed(changing)]))


def read_array(items: Any, name: str, dtype: npt.DTypeLike, width: int = 1) -> npt.NDArray[Any]:
    """Return the values (n,) of a property of all items of a collection; (n, width) for several components."""
    flat = np.empty(width * len(items), dtype=dtype)
    items.foreach_get(name, flat)
    return flat if width == 1 else flat.reshape(-1, width)


def mesh_positions(mesh: bpy.types.Mesh) -> SinglePrecisionArray:
    """Return the vertices (v, 3) of a mesh, in single precision.

    Reading the attribute is a plain memory copy, fifty times faster than mesh.vertices. Meshes in Edit Mode have none;
    their vertices are those of the last update_from_editmode().
    """
    if mesh.is_editmode:
        return read_array(mesh.vertices, "co", np.float32, 3)
    return read_array(mesh.attributes["position"].data, "vector", np.float32, 3)


def local_vertices(obj: bpy.types.Object, view_layer: bpy.types.ViewLayer) -> Array:
    """Return the evaluated vertices (v, 3) in the object's space at the current frame."""
    return mesh_positions(obj.evaluated_get(view_layer.depsgraph).data).astype(float)


def world_matrix(obj: bpy.types.Object, view_layer: bpy.types.ViewLayer) -> Array:
    """Return the object's evaluated matrix (4, 4) to world space at the current frame."""
    return np.array(obj.evaluated_get(view_layer.depsgraph).matrix_world, dtype=float)


def world_vertices(obj: bpy.types.Object, view_layer: bpy.types.ViewLayer) -> Array:
    """Return the evaluated vertices (v, 3) in world space at the current frame."""
    return transform_points(world_matrix(obj, view_layer), local_vertices(obj, view_layer))


# Ratio of the shortest to the longest column of a matrix below which the object counts as flat.
_MIN_SCALE_RATIO = 1e-9
# Relative volume of the columns of a matrix below which they lie in a plane, as those of a turned object with a flat
# parent do. Blender's single precision does not resolve smaller ones.
_MIN_VOLUME = 1e-6
# Length of a column from which it is the longest ones that are wrong.
_MAX_SCALE = 1e6


def check_scale(obj: bpy.types.Object, matrix: Array, frame_words: str = "") -> None:
    """Raise MeshError if a matrix (4, 4) to world space is singular. frame_words: words that name the frame."""
    # Blender's matrices are in single precision, in which the square of a huge scale overflows.
    columns = np.linalg.norm(matrix[:3, :3].astype(float), axis=0)
    is_flat = not columns.min() > _MIN_SCALE_RATIO * max(columns.max(), 1e-30)
    if is_flat and not columns.max() < _MAX_SCALE:
        raise MeshError(f"{obj.name}: its scale is far too large along an axis{frame_words}. Set a smaller scale.")
    if is_flat or not _relative_volume(matrix) > _MIN_VOLUME:
        fix = "Set a scale above zero, also of its parents" if obj.parent is not None else "Set a scale above zero"
        raise MeshError(f"{obj.name}: its scale is zero along an axis{frame_words}. {fix}.")


def _relative_volume(matrix: Array) -> float:
    """Return the volume of the parallelepiped of a matrix's columns, relative to that of a box with these edges."""
    first, second, third = (column / np.linalg.norm(column) for column in matrix[:3, :3].astype(float).T)
    return abs(float(np.cross(first, second) @ third))


def largest_scale(matrix: Array) -> float:
    """Return the largest factor by which a matrix (4, 4) enlarges a distance."""
    return float(np.linalg.norm(matrix[:3, :3], ord=2))


def _can_update_one_layer(scene: bpy.types.Scene) -> bool:
    """Return whether a frame can be evaluated in one of several view layers, while frame_set() evaluates them all.

    frame_set() also calls handlers of frame changes, and switches the camera at markers.
    """
    is_plain = not has_frame_handlers_of_others() and not any(marker.camera for marker in scene.timeline_markers)
    # A frame that is set as a property is heard while scrubbing is on.
    return len(scene.view_layers) > 1 and is_plain and not scene.use_audio_scrub


# Samplers in use. While there is one, no other handler may respond to a change of frame.
ACTIVE_SAMPLERS: list[Sampler] = []


class Sampler:
    """Reader of an object, frame by frame, without DampSim's own output and without modifiers that are not simulated.

    changes_topology: whether modifiers add or remove vertices.  counts: numbers of elements at rest, once known.
    trailing_solidify: name of a Solidify modifier after the simulated ones, see the core's Surface.
    visit: function that sets the scene to a frame, or None for the usual way.

    Use it as a context manager, which restores the modifiers, shape keys and current frame on exit.
    """

    def __init__(
        self,
        scene: bpy.types.Scene,
        view_layer: bpy.types.ViewLayer,
        obj: bpy.types.Object,
        visit: Callable[[float], None] | None = None,
    ) -> None:
        self.scene, self.view_layer, self.obj, self.visit = scene, view_layer, obj, visit
        self._muted_modifiers: list[str] = []
        self._muted_keys: list[str] = []
        self._absolute_keys_uid = 0
        self._bone_weights: tuple[list[int], list[Memberships]] | None = None
        self._pose_strips: list[str] = []
        self.changes_topology, self.trailing_solidify = False, ""
        self.counts: MeshCounts | None = None

    def __enter__(self) -> Sampler:
        self._frame = (self.scene.frame_current, self.scene.frame_subframe)
        ACTIVE_SAMPLERS.append(self)
        self.mute()
        return self

    def __exit__(self, *error: Any) -> None:
        self.unmute()
        try:
            self.scene.frame_set(self._frame[0], subframe=self._frame[1])
        finally:
            ACTIVE_SAMPLERS.remove(self)

    def mute(self) -> None:
        """Switch off the modifiers, shape keys and bones that must not be sampled."""
        self._bone_weights = mute_bone_weights(self.obj) or self._bone_weights
        self._pose_strips += mute_bone_poses(self.obj)
        self.changes_topology = bool(simulated_topology_modifiers(self.obj))
        solidify = trailing_solidify(self.obj)
        self.trailing_solidify = solidify.name if solidify else ""
        sampled_names = [m.name for m in sampled_modifiers(self.obj)]
        for modifier in self.obj.modifiers:
            is_sampled = modifier.name in sampled_names or is_read_by_others(modifier)
            if modifier.show_viewport and not is_sampled:
                self._muted_modifiers.append(modifier.name)
                modifier.show_viewport = False
        keys = self.obj.data.shape_keys
        has_bake_basis = keys is not None and is_bake_basis(keys)
        for key in bake_keys(keys):
            if not key.mute:
                self._muted_keys.append(key.name)
                key.mute = True
        if keys is not None and not keys.use_relative and has_bake_basis:
            # Muted absolute keys still play; muted relative keys do not.
            self._absolute_keys_uid = keys.session_uid
            keys.use_relative = True

    @property
    def muted(self) -> tuple[str, ...]:
        """Names of the modifiers that are currently switched off."""
        return tuple(self._muted_modifiers)

    def unmute(self) -> None:
        """Undo mute()."""
        unmute_bone_weights(self.obj, self._bone_weights)
        self._bone_weights = None
        self.unmute_poses()
        for name in self._muted_modifiers:
            if name in self.obj.modifiers:
                self.obj.modifiers[name].show_viewport = True
        keys = self.obj.data.shape_keys
        blocks = keys.key_blocks if keys is not None else ()
        muted_keys = [key for key in blocks if key.name in self._muted_keys and key.mute]
        # A bake may have replaced the keys since.
        is_same_bake = len(muted_keys) == len(self._muted_keys)
        for key in muted_keys:
            key.mute = False
        if keys is not None and is_same_bake and keys.session_uid == self._absolute_keys_uid:
            keys.use_relative = False
        self._absolute_keys_uid = 0
        self._muted_modifiers.clear()
        self._muted_keys.clear()

    def unmute_poses(self) -> None:
        """Let a bake to existing bones play again, as meshes that are read after it follow them."""
        unmute_bone_poses(self.obj, self._pose_strips)
        self._pose_strips.clear()

    def set_frame(self, frame: float) -> None:
        """Set the scene to a frame, which may be fractional."""
        if self.visit is not None:
            self.visit(frame)
            return
        whole = math.floor(frame)
        # Blender clamps a negative frame_current to 0, unless the preferences allow negative frames.
        if whole >= 0 and self in ACTIVE_SAMPLERS and _can_update_one_layer(self.scene):
            self.scene.frame_current, self.scene.frame_subframe = whole, frame - whole
            self.view_layer.update()
        else:
            camera = self.scene.camera
            self.scene.frame_set(whole, subframe=frame - whole)
            if self.scene.camera != camera:
                # After a marker switched the camera, nodes still read the old one until the next update.
                self.view_layer.update()

    def local_positions(self) -> Array:
        """Return the evaluated vertices (v, 3) in the object's space at the current frame."""
        return local_vertices(self.obj, self.view_layer)

    @contextmanager
    def _without(self, modifiers: Sequence[bpy.types.Modifier]) -> Iterator[None]:
        try:
            for modifier in modifiers:
                modifier.show_viewport = False
            self.view_layer.update()
            yield
        finally:
            for modifier in modifiers:
                modifier.show_viewport = True

    def undeformed_positions(self) -> Array:
        """Return the vertices (v, 3) in the object's space, with shape keys but without sampled modifiers."""
        with self._without([m for m in sampled_modifiers(self.obj) if not can_change_topology(m)]):
            return self.local_positions()

    def matrix(self) -> Array:
        """Return the object's matrix (4, 4) to world space at the current frame."""
        return world_matrix(self.obj, self.view_layer)

    def world_positions_at(self, frame: float) -> Array:
        """Go to a frame and return the animated vertices (v, 3) m in world space."""
        self.set_frame(frame)
        return self.world_positions()

    def world_positions(self) -> Array:
        """Return the animated vertices (v, 3) m in world space at the current frame.

        Raises MeshError where the scale is zero or the topology differs from that at rest, SceneError where the object
        is disabled.
        """
        frame_words = f" at frame {self.scene.frame_current}"
        if self.obj.hide_viewport:
            raise SceneError(
                f"{self.obj.name}: it is disabled in viewports{frame_words}, so its motion is unknown. Remove the "
                "animation of its Disable in Viewports."
            )
        check_scale(self.obj, self.matrix(), frame_words)
        if self.counts is not None:
            check_mesh_counts(self.obj, self.evaluated_mesh(), self.counts, self.scene.frame_current_final)
        return world_vertices(self.obj, self.view_layer)

    def evaluated_mesh(self) -> bpy.types.Mesh:
        """Return the evaluated mesh at the current frame."""
        mesh: bpy.types.Mesh = self.evaluated_object().data
        return mesh

    def evaluated_object(self) -> bpy.types.Object:
        """Return the evaluated object at the current frame."""
        return self.obj.evaluated_get(self.view_layer.depsgraph)

    @contextmanager
    def rest_pose(self) -> Iterator[tuple[Array, bpy.types.Object]]:
        """Provide the undeformed state at the first frame: vertices (v, 3) in world space, and an object with them.

        It is evaluated if modifiers add or remove vertices, and gives topology and vertex weights. Shape keys count,
        modifiers that move vertices do not.
        """
        self.set_frame(float(self.scene.frame_start))
        with self._without([m for m in self.obj.modifiers if m.show_viewport and is_deforming(m)]):
            source = self.evaluated_object() if self.changes_topology else self.obj
            self.counts = count_elements(source.data) if self.changes_topology else None
            yield transform_points(self.matrix(), self.local_positions()), source


class GroupSampler:
    """Reader of several objects that visits each frame once for all of them. Use it as a context manager.

    visit: see Sampler.
    """

    def __init__(
        self,
        scene: bpy.types.Scene,
        view_layer: bpy.types.ViewLayer,
        objects: Sequence[bpy.types.Object],
        visit: Callable[[float], None] | None = None,
    ) -> None:
        self.scene, self.view_layer = scene, view_layer
        self.members = [Sampler(scene, view_layer, obj, visit) for obj in objects]
        self._exit_stack = ExitStack()
        self._current_frame: float | None = None

    def __enter__(self) -> GroupSampler:
        with ExitStack() as entered:
            for member in self.members:
                entered.enter_context(member)
            entered.enter_context(_hidden_live_modifiers())
            self._exit_stack = entered.pop_all()
        return self

    def __exit__(self, *error: Any) -> None:
        self._exit_stack.__exit__(*error)

    @contextmanager
    def at_current_frame(self) -> Iterator[None]:
        """Read the current frame without visiting any, which would lose values that are not keyed yet.

        Live modifiers of other objects stay on.
        """
        ACTIVE_SAMPLERS.extend(self.members)
        try:
            self.mute()
            self.view_layer.update()
            yield
        finally:
            self.unmute()
            self.view_layer.update()
            for member in self.members:
                ACTIVE_SAMPLERS.remove(member)

    def mute(self) -> None:
        """Switch off the modifiers and shape keys that must not be sampled."""
        for member in self.members:
            member.mute()

    def unmute(self) -> None:
        """Undo mute()."""
        for member in self.members:
            member.unmute()

    def member_for(self, obj: bpy.types.Object) -> Sampler:
        """Return the sampler of an object."""
        return next(member for member in self.members if member.obj == obj)

    def set_frame(self, frame: float) -> None:
        """Set the scene to a frame, unless it is there already."""
        if frame != self._current_frame:
            self.members[0].set_frame(frame)
            self._current_frame = frame

    def invalidate_frame(self) -> None:
        """Forget the current frame, because other code may change it; the next visit sets it again."""
        self._current_frame = None


@contextmanager
def _hidden_live_modifiers() -> Iterator[None]:
    """Hide all Live modifiers: objects that follow a mesh with one would otherwise follow a constant frame."""
    hidden = set[int]()
    for obj in bpy.data.objects:
        for modifier in live_modifiers(obj):
            if modifier.show_viewport:
                modifier.show_viewport = False
                hidden.add(obj.session_uid)
    try:
        yield
    finally:
        for obj in bpy.data.objects if hidden else ():
            for modifier in live_modifiers(obj) if obj.session_uid in hidden else ():
                modifier.show_viewport = True


def frame_rate(scene: bpy.types.Scene) -> float:
    """Return the frame rate of a scene, 1/s."""
    return float(scene.render.fps) / float(scene.render.fps_base)


def gravity(scene: bpy.types.Scene) -> tuple[float, ...]:
    """Return the gravity of a scene along x, y and z, m/s^2; zero where it is switched off."""
    return tuple(scene.gravity) if scene.use_gravity else (0.0, 0.0, 0.0)


def mode_name(obj: bpy.types.Object) -> str:
    """Return the mode of an object as Blender's menu names it, such as Weight Paint."""
    return str(obj.mode).replace("_", " ").title()
