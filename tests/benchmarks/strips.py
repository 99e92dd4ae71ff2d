"""Compare the look of cloth with Blender's Cloth: python tests/benchmarks/strips.py [--shots NAME ...] [--frames N]

Each shot of shots.py is simulated by both solvers from the same mesh and rendered as a strip of frames, with Blender's
Cloth above and DampSim below, in out/strips/. DampSim has the fabric, stiffness and air that Add chooses for the
object. Blender's Cloth has its defaults, but a distance of self-collision that suits its edges.
Strands of hair, see hair.py in this folder, are narrow ribbons for Blender's Cloth, since wires do not collide; for
DampSim they are hair curves with guides.
For both, the stretch of edges that no pin holds and the crossings of triangles are printed, worst frame first.
With --blind, both rows have one colour and a random order, which out/strips/order.txt states. No test depends on them.
"""

from __future__ import annotations

import argparse
import itertools
import random
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path

import shots  # isort: skip  (loads the checkout as the package dampsim)
import bpy
import hair
import numpy as np
from mathutils import Vector
from mathutils.bvhtree import BVHTree
from PIL import Image

import dampsim

sys.path.insert(0, str(shots.ROOT / "sample_blends"))
import build as samples

WIDTH, HEIGHT, SAMPLES, PICTURES = 320, 320, 6, 6
COLOURS = {"blender": (0.75, 0.40, 0.12), "dampsim": (0.12, 0.35, 0.70)}
BLIND_COLOUR = (0.12, 0.35, 0.70)
# Largest distance of self-collision of Blender's Cloth, relative to the mean edge. At a distance of an edge, the
# neighbours of a vertex push each other away, and the cloth crumples.
SELF_DISTANCE = 0.5
# Position and target of the camera relative to the object that it follows, and its focal length (mm).
VIEWS = {
    "flag": ((0.75, -4.5, 1.7), (0.75, 0.0, 1.45), 70.0),
    "table": ((0.9, -1.9, 1.25), (0.0, 0.0, 0.28), 55.0),
    "cape": ((-2.9, -2.2, 1.4), (-0.15, 0.0, 0.87), 62.0),
    "gathered": ((-2.9, -2.2, 1.4), (-0.15, 0.0, 0.87), 62.0),
    "shirt": ((2.2, -2.4, 1.5), (0.0, 0.0, 1.1), 60.0),
    "skirt": ((2.4, -2.4, 1.1), (0.0, 0.0, 0.7), 60.0),
    "net": ((0.8, -1.8, 1.7), (0.0, 0.0, 0.9), 55.0),
    "sheet": ((3.0, -3.0, 1.7), (0.35, 0.0, 0.75), 60.0),
    "hair": ((0.12, 1.5, 0.25), (0.12, 0.0, 0.0), 62.0),
}
# Distance of collision of hair, width of a ribbon, radius of a rendered strand, and height of the floor, m.
HAIR_DISTANCE, RIBBON, STRAND_RADIUS, FLOOR = 2e-3, 4e-3, 1.2e-3, -0.6
# Depth from which a point counts as in the head, m.
DEPTH = 1e-4


@dataclass
class Quality:
    """Worst values of a shot, with their frames.

    percentile, largest: relative stretch of an edge.  itself, bodies: number of pairs of a crossing edge and triangle;
    for hair, bodies is the number of points in the head.
    """

    percentile: tuple[float, int] = (0.0, 0)
    largest: tuple[float, int] = (0.0, 0)
    itself: tuple[int, int] = (0, 0)
    bodies: tuple[int, int] = (0, 0)

    def add(self, frame: int, ratios: np.ndarray, itself: int, bodies: int) -> None:
        self.percentile = max(self.percentile, (float(np.percentile(ratios, 99.0)), frame))
        self.largest = max(self.largest, (float(ratios.max()), frame))
        self.itself, self.bodies = max(self.itself, (itself, frame)), max(self.bodies, (bodies, frame))


def triangles_of(mesh: bpy.types.Mesh) -> np.ndarray:
    mesh.calc_loop_triangles()
    flat = np.empty(3 * len(mesh.loop_triangles), dtype=np.int32)
    mesh.loop_triangles.foreach_get("vertices", flat)
    return flat.reshape(-1, 3)


def count_crossings(points: np.ndarray, triangles: np.ndarray, others: np.ndarray, other: np.ndarray) -> int:
    """Count the pairs of an edge and a triangle that cross, between two meshes or (others is points) within one.

    points (v, 3), triangles (t, 3); others (w, 3), other (s, 3).
    """
    if not len(triangles) or not len(other):
        return 0
    first = BVHTree.FromPolygons(points.tolist(), triangles.tolist())
    second = BVHTree.FromPolygons(others.tolist(), other.tolist())
    pairs = np.array(first.overlap(second), dtype=int).reshape(-1, 2)
    found = set()
    if others is points:
        pairs = pairs[(triangles[pairs[:, 0]][:, :, None] != other[pairs[:, 1]][:, None]).all(axis=(1, 2))]
    for a, b, one, two, is_swapped in (
        (points, others, triangles[pairs[:, 0]], other[pairs[:, 1]], False),
        (others, points, other[pairs[:, 1]], triangles[pairs[:, 0]], True),
    ):
        for i, j in ((0, 1), (1, 2), (2, 0)):
            crosses = edge_crosses(a[one[:, i]], a[one[:, j]], b[two])
            edges = np.sort(one[:, [i, j]][crosses], axis=1)
            faces = np.sort(two[crosses], axis=1)
            side = is_swapped and others is not points
            found.update((side, *edge, *face) for edge, face in zip(edges.tolist(), faces.tolist(), strict=True))
    return len(found)


def edge_crosses(start: np.ndarray, end: np.ndarray, corners: np.ndarray) -> np.ndarray:
    """Return whether edges (k, 3), (k, 3) cross triangles (k, 3, 3), by the signs of volumes."""

    def volume(*four: np.ndarray) -> np.ndarray:
        a, b, c = (one - four[3] for one in four[:3])
        return np.einsum("ij,ij->i", a, np.cross(b, c))

    first, second, third = (corners[:, k] for k in range(3))
    is_through = volume(first, second, third, start) * volume(first, second, third, end) < 0.0
    sides = [volume(start, end, a, b) for a, b in ((first, second), (second, third), (third, first))]
    return is_through & ((np.min(sides, axis=0) > 0.0) | (np.max(sides, axis=0) < 0.0))


def colliders_at(scene: bpy.types.Scene, cloth: bpy.types.Object) -> tuple[np.ndarray, np.ndarray]:
    """Return the vertices (v, 3) and triangles (t, 3) of all colliders at the current frame."""
    graph, points, triangles, start = scene.view_layers[0].depsgraph, [np.empty((0, 3))], [np.empty((0, 3), int)], 0
    for obj in scene.objects:
        if obj.type == "MESH" and obj is not cloth:
            one = obj.evaluated_get(graph)
            place = np.array(one.matrix_world)
            points.append(shots.vertices(one) @ place[:3, :3].T + place[:3, 3])
            triangles.append(triangles_of(one.data) + start)
            start += len(points[-1])
    return np.concatenate(points), np.concatenate(triangles)


def world_points(scene: bpy.types.Scene, obj: bpy.types.Object) -> np.ndarray:
    """Return the evaluated vertices (v, 3) m of the current frame in the world."""
    place = np.array(obj.evaluated_get(scene.view_layers[0].depsgraph).matrix_world)
    return shots.evaluated(scene, obj) @ place[:3, :3].T + place[:3, 3]


def mean_edge(obj: bpy.types.Object) -> float:
    """Return the mean length (m) of the edges of an object's mesh."""
    a, b = np.array([tuple(edge.vertices) for edge in obj.data.edges]).T
    places = shots.vertices(obj)
    return float(np.linalg.norm(places[a] - places[b], axis=1).mean())


def build(name: str, frames: int) -> tuple[bpy.types.Scene, bpy.types.Object]:
    """Build a shot and return its scene and its cloth, or the wires of its strands, whose roots are pinned."""
    if name != "hair":
        return shots.build(name, frames)
    scene = new_scene(name, frames)
    places = hair.strands().reshape(-1, 3)
    edges = [(k, k + 1) for k in range(len(places) - 1) if (k + 1) % hair.POINTS]
    wires = shots.mesh_object(scene, "Strands", places, [], edges)
    wires.parent = hair.add_head(scene)
    shots.pin(wires, np.arange(len(places)) % hair.POINTS == 0)
    return scene, wires


def new_scene(name: str, frames: int) -> bpy.types.Scene:
    """Return a new scene in the window, to which operators add their objects."""
    scene = bpy.data.scenes.new(name)
    scene.frame_start, scene.frame_end, scene.render.fps = 1, frames, shots.FPS
    bpy.context.window.scene = scene
    return scene


def blender_hair(frames: int) -> tuple[bpy.types.Scene, bpy.types.Object]:
    """Build the shot of hair with ribbons for Blender's Cloth. The rails of all ribbons follow each other."""
    scene, groom = new_scene("Ribbons", frames), hair.strands()
    across = np.cross(np.gradient(groom, axis=1), groom)
    across *= 0.5 * RIBBON / np.linalg.norm(across, axis=2, keepdims=True)
    start, step = groom.shape[0] * groom.shape[1], hair.POINTS
    faces = [(k, k + 1, start + k + 1, start + k) for k in range(start - 1) if (k + 1) % step]
    ribbons = shots.mesh_object(scene, "Strands", np.stack([groom + across, groom - across]), faces, [])
    ribbons.parent = hair.add_head(scene)
    ribbons.parent.collision.thickness_outer = HAIR_DISTANCE
    shots.pin(ribbons, np.arange(2 * start) % step == 0)
    cloth = ribbons.modifiers.new("Cloth", "CLOTH")
    cloth.settings.vertex_group_mass = "Pin"
    cloth.collision_settings.distance_min = HAIR_DISTANCE
    return scene, ribbons


def simulate_hair(frames: int) -> np.ndarray:
    """Return the frames (f, v, 3) m of the strands that DampSim's guides move, in the world."""
    from dampsim.dampsim_addon.jobs import bake as job

    scene, groom = new_scene("Hair", frames), hair.strands()
    strands = hair.add_hair(groom, hair.add_head(scene))
    bpy.ops.dampsim.hair(guides=hair.GUIDES)
    guides = bpy.context.object
    guides.dampsim.cache_folder, guides.dampsim.target = tempfile.mkdtemp(), "POINT_CACHE"
    for _ in job.bake_object(scene, scene.view_layers[0], guides, True):
        pass
    found = []
    for frame in range(1, frames + 1):
        scene.frame_set(frame)
        place = np.array(strands.evaluated_get(bpy.context.evaluated_depsgraph_get()).matrix_world)
        points = hair.evaluated_strands(strands, groom.shape[1]).reshape(-1, 3)
        found.append(points @ place[:3, :3].T + place[:3, 3])
    return np.array(found)


def simulate(name: str, solver: str, frames: int) -> np.ndarray:
    """Return the frames (f, v, 3) m of a shot in the world. A bake of DampSim is played."""
    if (name, solver) == ("hair", "dampsim"):
        return simulate_hair(frames)
    from dampsim.dampsim_addon.jobs import bake as job
    from dampsim.dampsim_addon.model.default_settings import set_defaults

    if solver == "dampsim":
        scene, obj = shots.dampsim_object(name, frames)
        set_defaults(obj, scene)
        for _ in job.bake_object(scene, scene.view_layers[0], obj, True):
            pass
    elif name == "hair":
        scene, obj = blender_hair(frames)
    else:
        scene, obj = shots.blender_object(name, frames)
        collision = obj.modifiers["Cloth"].collision_settings
        collision.self_distance_min = min(collision.self_distance_min, SELF_DISTANCE * mean_edge(obj))
    found = []
    for frame in range(1, frames + 1):
        scene.frame_set(frame)
        points = world_points(scene, obj)
        # The middle of each ribbon.
        found.append(points.reshape(2, -1, 3).mean(axis=0) if name == "hair" else points)
    return np.array(found)


def rows_of(name: str, frames: int, folder: Path) -> dict[str, list[np.ndarray]]:
    """Return the frames (v, 3) of both solvers; those of an earlier run if they are stored in the folder."""
    found = {}
    for solver in COLOURS:
        file = folder / f"{name}_{solver}_{frames}.npy"
        if not file.exists():
            np.save(file, simulate(name, solver, frames))
        found[solver] = list(np.load(file))
    return found


def measure(name: str, frames: int, found: dict[str, list[np.ndarray]]) -> None:
    scene, cloth = build(name, frames)
    edges = np.array([tuple(edge.vertices) for edge in cloth.data.edges])
    triangles, rest = triangles_of(cloth.data), shots.vertices(cloth)
    group = cloth.vertex_groups.get("Pin")
    index = group.index if group is not None else -1
    pinned = np.array([any(one.group == index for one in vertex.groups) for vertex in cloth.data.vertices])
    # Edges next to pins are held by them.
    is_near = pinned.copy()
    is_near[edges[pinned[edges].any(axis=1)].ravel()] = True
    free = edges[~is_near[edges].any(axis=1)]
    lengths = np.linalg.norm(rest[free[:, 0]] - rest[free[:, 1]], axis=1)
    quality, depths = {solver: Quality() for solver in found}, hair.depths_in(cloth.parent) if name == "hair" else None
    for frame in range(1, frames + 1):
        scene.frame_set(frame)
        bodies, corners = colliders_at(scene, cloth)
        for solver, states in found.items():
            points = states[frame - 1]
            ratios = np.linalg.norm(points[free[:, 0]] - points[free[:, 1]], axis=1) / lengths - 1.0
            itself = count_crossings(points, triangles, points, triangles)
            crossed = count_crossings(points, triangles, bodies, corners)
            if depths is not None:
                local = points[~pinned] - np.array(cloth.matrix_world)[:3, 3]
                crossed = int((depths(local @ np.array(cloth.matrix_world)[:3, :3]) > DEPTH).sum())
            quality[solver].add(frame, ratios, itself, crossed)
    for solver, one in quality.items():
        print(
            f"{name:8} {solver:8} stretch: 99th percentile {100 * one.percentile[0]:6.2f}% "
            f"(frame {one.percentile[1]}), "
            f"largest {100 * one.largest[0]:7.2f}% (frame {one.largest[1]}); crossings: itself {one.itself[0]} "
            f"(frame {one.itself[1]}), bodies {one.bodies[0]} (frame {one.bodies[1]})",
            flush=True,
        )


def shown_object(scene: bpy.types.Scene, cloth: bpy.types.Object, is_hair: bool) -> bpy.types.Object:
    """Add the object that is rendered in place of a cloth, wires or strands."""
    if is_hair:
        data = bpy.data.hair_curves.new("Shown")
        data.add_curves([hair.POINTS] * hair.STRANDS)
        data.attributes.new("radius", "FLOAT", "POINT").data.foreach_set("value", [STRAND_RADIUS] * len(data.points))
    else:
        data = cloth.data.copy()
        data.materials.clear()
        for polygon in data.polygons:
            polygon.use_smooth = True
    shown = bpy.data.objects.new("Shown", data)
    scene.collection.objects.link(shown)
    if not is_hair and not len(data.polygons):
        shown.modifiers.new("Wires", "SKIN")
        for vertex in data.skin_vertices[0].data:
            vertex.radius = (0.006, 0.006)
    return shown


def render(name: str, frames: int, found: dict[str, list[np.ndarray]], out: Path, is_blind: bool = False) -> None:
    """Write a strip of pictures, one row per solver. is_blind: whether all rows have the same colour."""
    scene, cloth = build(name, frames)
    bpy.context.window.scene = scene
    place, target, lens = VIEWS[name]
    samples.stage(scene, place, target, lens)
    camera = scene.camera
    if name == "hair":
        next(obj for obj in scene.objects if obj.name.startswith("Backdrop")).location.z = FLOOR
    scene.render.engine, scene.cycles.samples, scene.cycles.use_denoising = "CYCLES", SAMPLES, True
    scene.cycles.max_bounces, scene.view_settings.exposure = 1, -0.8
    scene.render.resolution_x, scene.render.resolution_y = WIDTH, HEIGHT
    scene.render.resolution_percentage = 100
    colours = dict.fromkeys(COLOURS, BLIND_COLOUR) if is_blind else COLOURS
    looks = {one: samples.material(one, colours[one], Roughness=0.8) for one in colours}
    grey = samples.material("Body", (0.5, 0.48, 0.46), Roughness=0.7)
    for obj in list(scene.objects):
        if obj.type == "MESH" and obj is not cloth and not obj.data.materials:
            obj.data.materials.append(grey)
            for polygon in obj.data.polygons:
                polygon.use_smooth = True
    moving = next((obj for obj in scene.objects if obj.type == "ARMATURE"), None)
    start = camera.location.copy()
    shown = shown_object(scene, cloth, name == "hair")
    shown.data.materials.append(grey)
    cloth.hide_render = True
    chosen = np.linspace(1, frames, PICTURES).round().astype(int).tolist()
    sheet = Image.new("RGB", (PICTURES * WIDTH, len(found) * HEIGHT))
    for (row, solver), (column, frame) in itertools.product(enumerate(found), enumerate(chosen)):
        scene.frame_set(frame)
        graph = scene.view_layers[0].depsgraph
        points = shown.data.attributes["position"].data if name == "hair" else shown.data.vertices
        points.foreach_set("vector" if name == "hair" else "co", found[solver][frame - 1].astype(np.float32).ravel())
        shown.data.materials[0] = looks[solver]
        shown.data.update_tag()
        camera.location = start + (moving.evaluated_get(graph).location if moving is not None else Vector())
        scene.render.filepath = str(out / "picture.png")
        bpy.ops.render.render(write_still=True, scene=scene.name)
        with Image.open(out / "picture.png") as picture:
            sheet.paste(picture.convert("RGB"), (column * WIDTH, row * HEIGHT))
    (out / "picture.png").unlink()
    sheet.save(out / f"{name}.png")


def shuffle(name: str, found: dict[str, list[np.ndarray]], out: Path) -> dict[str, list[np.ndarray]]:
    """Return the rows in a random order, and write the order to a file, so that a judge can look it up afterwards."""
    order = random.SystemRandom().sample(list(found), len(found))
    with (out / "order.txt").open("a", encoding="utf-8") as file:
        file.write(f"{name}: {', '.join(order)}\n")
    return {solver: found[solver] for solver in order}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--shots", nargs="+", choices=[*VIEWS], default=[*VIEWS])
    parser.add_argument("--frames", type=int, default=60)
    parser.add_argument("--blind", action="store_true", help="hide which row is which")
    parser.add_argument("--out", type=Path, default=shots.ROOT / "out" / "strips")
    options = parser.parse_args()
    options.out.mkdir(parents=True, exist_ok=True)
    dampsim.register()
    bpy.ops.wm.read_homefile(use_empty=True, use_factory_startup=True)
    bpy.ops.preferences.addon_enable(module="cycles")
    for name in options.shots:
        found = rows_of(name, options.frames, options.out)
        measure(name, options.frames, found)
        if options.blind:
            found = shuffle(name, found, options.out)
        render(name, options.frames, found, options.out, options.blind)


if __name__ == "__main__":
    main()
