"""Hair on a head that is thrown and turned: times, depths in the head, and lengths.

Run by tests/benchmarks/shots.py as the shot `hair`: 300 strands of 12 points and 50 guides on a head of 120 mm that
moves 350 mm and turns by 50 degrees in six frames.
"""

from __future__ import annotations

import statistics
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass

import bpy
import numpy as np
from mathutils.bvhtree import BVHTree

RADIUS, STRANDS, POINTS, GUIDES = 0.12, 300, 12, 50
# Keyframes of the head: frame, place along x in m, turn about z in rad.
THROW = ((1, 0.0, 0.0), (8, 0.0, 0.0), (14, 0.35, 0.9), (20, 0.0, -0.6), (24, 0.0, 0.0))


def strands(count: int = STRANDS, points: int = POINTS, seed: int = 1) -> np.ndarray:
    """Return strands (count, points, 3) m that fall over the upper part of a sphere around the origin."""
    chance, roots = np.random.default_rng(seed), []
    while len(roots) < count:
        root = chance.normal(size=3)
        root /= np.linalg.norm(root)
        if root[2] > 0.1 and not (root[1] < -0.5 and root[2] < 0.5):
            roots.append(root)
    root, part = np.array(roots)[:, None], np.linspace(0.0, 1.0, points)[:, None]
    away = root * (RADIUS + 0.05 * np.minimum(4.0 * part, 1.0))
    found = away + part * (0.03 * root * [1.0, 1.0, 0.0] + [0.0, 0.06, 0.0]) - 0.22 * part**2 * [0.0, 0.0, 1.0]
    distance = np.linalg.norm(found, axis=2, keepdims=True)
    # The groom is combed around the head.
    outside = np.where((distance < RADIUS + 5e-3) & (part > 0.0), (RADIUS + 5e-3) / distance, 1.0)
    return np.asarray(found * outside)


def ball(rings: int, segments: int) -> tuple[list[list[float]], list[tuple[int, ...]], list[tuple[int, ...]]]:
    """Return points, no edges and the faces of a ball; Blender's own one has another order of corners in each run."""
    down, turn = np.meshgrid(
        np.pi * np.arange(1, rings) / rings, 2.0 * np.pi * np.arange(segments) / segments, indexing="ij"
    )
    around = np.stack([np.sin(down) * np.cos(turn), np.sin(down) * np.sin(turn), np.cos(down)], axis=2).reshape(-1, 3)
    points = RADIUS * np.concatenate([around, [[0.0, 0.0, 1.0], [0.0, 0.0, -1.0]]])
    top, bottom, last = len(around), len(around) + 1, (rings - 2) * segments
    faces: list[tuple[int, ...]] = []
    for k in range(segments):
        after = (k + 1) % segments
        faces += [(top, k, after), (bottom, last + after, last + k)]
        faces += [
            (row + k, row + segments + k, row + segments + after, row + after) for row in range(0, last, segments)
        ]
    return points.tolist(), [], faces


def add_head(scene: bpy.types.Scene) -> bpy.types.Object:
    mesh = bpy.data.meshes.new("Head")
    mesh.from_pydata(*ball(32, 64))
    head = bpy.data.objects.new("Head", mesh)
    scene.collection.objects.link(head)
    for frame, place, turn in THROW:
        head.location.x, head.rotation_euler.z = place, turn
        head.keyframe_insert("location", frame=frame)
        head.keyframe_insert("rotation_euler", frame=frame)
    head.modifiers.new("Collision", "COLLISION")
    return head


def add_hair(points: np.ndarray, parent: bpy.types.Object) -> bpy.types.Object:
    """Add hair curves with strands (s, k, 3) in the parent's space."""
    data = bpy.data.hair_curves.new("Hair")
    data.add_curves([points.shape[1]] * len(points))
    data.attributes["position"].data.foreach_set("vector", points.astype(np.float32).ravel())
    hair = bpy.data.objects.new("Hair", data)
    bpy.context.scene.collection.objects.link(hair)
    hair.parent = parent
    for other in bpy.context.selected_objects:
        other.select_set(False)
    hair.select_set(True)
    bpy.context.view_layer.objects.active = hair
    return hair


def evaluated_strands(hair: bpy.types.Object, points: int) -> np.ndarray:
    """Return the shown strands (s, points, 3) in the space of the hair."""
    data = hair.evaluated_get(bpy.context.evaluated_depsgraph_get()).data
    flat = np.empty(3 * len(data.points), dtype=np.float32)
    data.attributes["position"].data.foreach_get("vector", flat)
    return flat.reshape(-1, points, 3).astype(float)


def depths_in(obj: bpy.types.Object) -> Callable[[np.ndarray], np.ndarray]:
    """Return a function that returns depths (p,) m of points (p, 3) in a star-shaped mesh around its origin."""
    obj.data.calc_loop_triangles()
    corners = [tuple(triangle.vertices) for triangle in obj.data.loop_triangles]
    tree = BVHTree.FromPolygons([vertex.co for vertex in obj.data.vertices], corners)

    def depths(points: np.ndarray) -> np.ndarray:
        found = []
        for point in points.tolist():
            distance, surface = tree.find_nearest(point)[3], tree.ray_cast((0.0, 0.0, 0.0), point)[3]
            found.append(distance if np.linalg.norm(point) < surface else -distance)
        return np.array(found)

    return depths


@dataclass
class Quality:
    """Worst values of all frames.

    depth: of a point in the head, m.  inside: largest number of points in the head at a frame.
    lengths: smallest and largest length of a strand, relative to its groom.
    """

    depth: float = -np.inf
    inside: int = 0
    lengths: tuple[float, float] = (np.inf, -np.inf)

    def add(self, shown: np.ndarray, groom: np.ndarray, depths: Callable[[np.ndarray], np.ndarray]) -> None:
        # The root is on the scalp.
        depth = depths(shown[:, 1:].reshape(-1, 3))
        self.depth, self.inside = max(self.depth, float(depth.max())), max(self.inside, int((depth > 1e-5).sum()))
        lengths = [np.linalg.norm(np.diff(one, axis=1), axis=2).sum(axis=1) for one in (shown, groom)]
        ratio = lengths[0] / lengths[1]
        self.lengths = min(self.lengths[0], float(ratio.min())), max(self.lengths[1], float(ratio.max()))


def run(frames: int) -> None:
    """Bake and play the shot, and print its times and quality."""
    from dampsim.dampsim_addon.jobs import bake as job

    bpy.ops.wm.read_homefile(use_empty=True, use_factory_startup=True)
    scene, groom = bpy.context.scene, strands()
    scene.frame_start, scene.frame_end, scene.render.fps = 1, frames, 24
    hair = add_hair(groom, add_head(scene))
    bpy.ops.dampsim.hair(guides=GUIDES)
    wire = bpy.context.object
    wire.dampsim.cache_folder, wire.dampsim.target = tempfile.mkdtemp(), "POINT_CACHE"
    began, spent = time.process_time(), []
    for step in job.bake_object(scene, scene.view_layers[0], wire, True):
        if step.text == "Simulating":
            spent.append(time.process_time() - began)
            began = time.process_time()
    quality, shown, depths = Quality(), [], depths_in(bpy.data.objects["Head"])
    for frame in range(1, frames + 1):
        scene.frame_set(frame)
        hair.update_tag(refresh={"DATA"})
        began = time.process_time()
        scene.view_layers[0].update()
        shown.append(time.process_time() - began)
        points = evaluated_strands(hair, POINTS)
        quality.add(points, groom, depths)
    print(
        f"hair   dampsim  {len(wire.data.vertices):6} vertices: preparation {spent[0]:6.2f} s, "
        f"mean {1e3 * statistics.mean(spent[1:]):7.1f} ms a frame, median {1e3 * statistics.median(spent[1:]):7.1f}, "
        f"longest {1e3 * max(spent[1:]):7.1f}; strands: mean {1e3 * statistics.mean(shown):5.1f} ms a frame, "
        f"longest {1e3 * max(shown):5.1f}; deepest point {1e3 * quality.depth:.2f} mm, {quality.inside} points inside, "
        f"length {100.0 * (quality.lengths[0] - 1.0):+.3f}% to {100.0 * (quality.lengths[1] - 1.0):+.3f}%",
        flush=True,
    )
