"""Garments and props with the settings that Add chooses: shaken for 100 frames, none tears or diverges."""

from __future__ import annotations

import math
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

import bmesh
import bpy
import numpy as np
import pytest
from scenes import new_scene

pytestmark = [pytest.mark.bpy, pytest.mark.slow]
Load = Callable[[str], ModuleType]
FRAMES = 100


def primitive(name: str, **how: Any) -> bpy.types.Object:
    getattr(bpy.ops.mesh, f"primitive_{name}_add")(**how)
    return bpy.context.object


def edit_mesh(obj: bpy.types.Object, change: Callable[[Any], object]) -> bpy.types.Object:
    bm = bmesh.new()
    bm.from_mesh(obj.data)
    change(bm)
    bm.to_mesh(obj.data)
    bm.free()
    obj.data.update()
    return obj


def mesh_from_data(vertices: Any, edges: Any, faces: Any = ()) -> bpy.types.Object:
    mesh = bpy.data.meshes.new("Drawn")
    mesh.from_pydata([tuple(map(float, one)) for one in vertices], list(edges), list(faces))
    obj = bpy.data.objects.new("Drawn", mesh)
    bpy.context.scene.collection.objects.link(obj)
    return obj


def flag(across: int = 12) -> bpy.types.Object:
    return primitive("grid", x_subdivisions=across, y_subdivisions=8, size=1.0)


def move_vertices(obj: bpy.types.Object, place: Callable[[Any], None]) -> bpy.types.Object:
    for vertex in obj.data.vertices:
        place(vertex.co)
    return obj


def wave(co: Any) -> None:
    co.z = 0.2 * math.cos(3.0 * co.x)


def flatten(part: float) -> Callable[[Any], None]:
    def press(co: Any) -> None:
        co.z *= part

    return press


def make_slivers(co: Any) -> None:
    co.x = 4.0 * co.x**3 + 1e-4 * co.x


def tube(sides: int = 16, radius: float = 0.1, cuts: int = 6, end: float | None = None) -> bpy.types.Object:
    obj = primitive("cone", vertices=sides, radius1=radius, radius2=end or radius, depth=0.6, end_fill_type="NOTHING")
    along = lambda bm: [e for e in bm.edges if abs(e.verts[0].co.z - e.verts[1].co.z) > 0.1]  # noqa: E731
    return edit_mesh(obj, lambda bm: bmesh.ops.subdivide_edges(bm, edges=along(bm), cuts=cuts))


def box(size: float, cuts: int, part: float) -> bpy.types.Object:
    obj = primitive("cube", size=size)
    edit_mesh(obj, lambda bm: bmesh.ops.subdivide_edges(bm, edges=bm.edges[:], cuts=cuts, use_grid_fill=True))
    return move_vertices(obj, flatten(part))


def shirt() -> bpy.types.Object:
    """Two intersecting tubes without shared vertices."""
    sleeve, torso = tube(), tube(16, 0.2)
    sleeve.rotation_euler.y = 0.5 * math.pi
    sleeve.select_set(True)
    torso.select_set(True)
    bpy.ops.object.join()
    return bpy.context.object


def book() -> bpy.types.Object:
    """Three pages joined at one edge."""

    def page(bm: Any) -> None:
        middle = [edge for edge in bm.edges if all(abs(vertex.co.x) < 1e-6 for vertex in edge.verts)]
        made = bmesh.ops.extrude_edge_only(bm, edges=middle)["geom"]
        new = [one for one in made if isinstance(one, bmesh.types.BMVert)]
        bmesh.ops.translate(bm, verts=new, vec=(0.0, 0.0, 0.5))

    return edit_mesh(flag(), page)


def moebius(segments: int = 36, across: int = 4) -> bpy.types.Object:
    vertices, faces = [], []
    for i in range(segments):
        turn = 2.0 * math.pi * i / segments
        for j in range(across + 1):
            wide = 0.4 * (j / across - 0.5)
            radius = 1.0 + wide * math.cos(0.5 * turn)
            vertices.append((radius * math.cos(turn), radius * math.sin(turn), wide * math.sin(0.5 * turn)))
    row = across + 1
    for i in range(segments):
        for j in range(across):
            a = i * row + j
            ends = (a + 1 + row, a + row) if i < segments - 1 else (across - j - 1, across - j)
            faces.append((a, a + 1, *ends))
    return mesh_from_data(vertices, (), faces)


def text() -> bpy.types.Object:
    bpy.ops.object.text_add()
    bpy.context.object.data.body = "DAMP"
    bpy.ops.object.convert(target="MESH")
    return bpy.context.object


def add_loose_parts(bm: Any) -> None:
    bm.verts.new((0.3, 0.3, -0.3))
    bm.edges.new((bm.verts.new((0.2, 0.2, -0.2)), bm.verts.new((0.2, 0.2, -0.3))))


def circle(count: int, closed: bool) -> bpy.types.Object:
    turn = 2.0 * np.pi * np.arange(count) / count
    points = np.column_stack([np.cos(turn), np.sin(turn), 0.0 * turn])
    return mesh_from_data(points, [(k, (k + 1) % count) for k in range(count if closed else count - 1)])


def twig() -> bpy.types.Object:
    chance = np.random.default_rng(1)
    vertices, edges = [np.zeros(3)], []
    for k in range(1, 40):
        start, way = int(chance.integers(k)), chance.normal(size=3)
        way[2] = abs(way[2])
        vertices.append(vertices[start] + 0.1 * way / np.linalg.norm(way))
        edges.append((start, k))
    return mesh_from_data(vertices, edges)


CLOTH: dict[str, Any] = {"kind": "CLOTH"}
GARMENTS: dict[str, tuple[Callable[[], bpy.types.Object], dict[str, Any]]] = {
    "flag": (flag, {}),
    "cape": (lambda: move_vertices(flag(), wave), {}),
    "skirt": (
        lambda: primitive("cone", vertices=32, radius1=0.6, radius2=0.25, depth=0.7, end_fill_type="NOTHING"),
        {},
    ),
    "creased skirt": (lambda: tube(16, 0.5, 6, 0.25), {}),
    "sleeve": (tube, {}),
    "cushion": (lambda: box(0.5, 4, 0.2), {**CLOTH, "pressure": 20.0}),
    "balloon": (lambda: primitive("uv_sphere", segments=16, ring_count=10, radius=0.2), {**CLOTH, "pressure": 50.0}),
    "shirt": (shirt, {}),
    "book": (book, {}),
    "moebius": (moebius, {}),
    "text": (text, {}),
    "mask": (lambda: primitive("monkey"), CLOTH),
    "slivers": (lambda: move_vertices(flag(), make_slivers), {}),
    "split": (lambda: edit_mesh(flag(), lambda bm: bmesh.ops.split_edges(bm, edges=list(bm.edges)[::3])), {}),
    "loose": (lambda: edit_mesh(flag(), add_loose_parts), {}),
    "leaf": (lambda: box(0.3, 5, 0.01), {}),
    "cord": (lambda: mesh_from_data(np.linspace((0, 0, 0), (1, 0, 0), 31), [(k, k + 1) for k in range(30)]), {}),
    "open loop": (lambda: circle(40, False), {}),
    "loop": (lambda: circle(40, True), {}),
    "twig": (twig, {}),
    "disc": (lambda: primitive("circle", vertices=12, fill_type="NGON"), {}),
    "tyre": (lambda: primitive("torus", major_segments=20, minor_segments=8), CLOTH),
}


# On slivers as thin as those of text, rounding leaves few digits of the bending energy, so a step may not descend.
SLIVERS = pytest.mark.xfail(reason="text simulated as cloth can fail with an error when shaken", strict=False)


@pytest.mark.parametrize("name", [pytest.param(name, marks=SLIVERS if name == "text" else ()) for name in GARMENTS])
def test_edges_intact_after_shaking(load: Load, tmp_path: Path, name: str) -> None:
    """No edge grows by more than 5% of the garment's size in 100 frames."""
    scene = new_scene(FRAMES)
    make, dials = GARMENTS[name]
    obj = make()
    for other in bpy.context.selected_objects:
        other.select_set(False)
    obj.select_set(True)
    bpy.context.view_layer.objects.active = obj
    bpy.context.view_layer.update()
    places = np.array([vertex.co for vertex in obj.data.vertices])
    axis = 2 if np.ptp(places[:, 2]) > 0.1 * np.ptp(places, axis=0).max() else 0
    top = np.flatnonzero(places[:, axis] > places[:, axis].max() - 0.08 * np.ptp(places[:, axis]))
    obj.vertex_groups.new(name="Pin").add(top.tolist(), 1.0, "REPLACE")
    for frame, place in ((1, 0.0), (10, 0.0), (16, 0.3), (22, 0.0)):
        obj.location.y = place
        obj.keyframe_insert("location", frame=frame)
    assert bpy.ops.dampsim.add() == {"FINISHED"}
    assert obj.dampsim.kind in ("CLOTH", "ROPE", "SOLID")
    for key, value in dials.items():
        setattr(obj.dampsim, key, value)
    snapshot, simulation = load("dampsim_addon.scene_reader.scene_builder"), load("core.simulation.simulation")
    with snapshot.GroupSampler(scene, bpy.context.view_layer, [obj]) as sampler:
        taken = snapshot.build_scene(sampler)
        rest = taken.bodies[0].surface.vertices
        edges = np.array([edge.vertices[:] for edge in obj.data.edges])
        before = np.linalg.norm(rest[edges[:, 0]] - rest[edges[:, 1]], axis=1)
        size, count = float(np.ptp(rest, axis=0).max()), 0
        for frame in simulation.Simulation(taken).frames():
            points = frame.shapes[obj.name]
            # Unpinned pieces fall.
            assert np.isfinite(points).all()
            longer = np.linalg.norm(points[edges[:, 0]] - points[edges[:, 1]], axis=1) - before
            # The limit refers to the whole size: a single edge at a corner of the pins carries all the weight.
            assert longer.max() < 0.05 * size
            count += 1
        assert count == FRAMES
