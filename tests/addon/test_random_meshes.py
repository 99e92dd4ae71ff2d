"""Random meshes, each given by its seed, simulate or are refused with a message whose advice works."""

from __future__ import annotations

import re
import sys
import time
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path
from random import Random
from types import ModuleType

import bmesh
import bpy
import numpy as np
import pytest
from scenes import new_scene

# Coordinates that are not finite print warnings before they are refused.
pytestmark = [pytest.mark.bpy, pytest.mark.filterwarnings("ignore::RuntimeWarning")]
Load = Callable[[str], ModuleType]
Mesh = bmesh.types.BMesh
MESHES, FRAMES = 300, 3
# Longest time (s) and largest memory (MB) of a refusal.
MAX_SECONDS, MAX_MEGABYTES = 5.0, 500.0
# Most fixes in a row: a faulty mesh often has several faults.
MAX_FIXES = 4
UNSUPPORTED_CASES = ("loose_vertex", "thin_tube", "flat_and_closed", "far_away", "tiny_net")


# Shapes.


def ball(mesh: Mesh, chance: Random) -> None:
    bmesh.ops.create_icosphere(mesh, subdivisions=chance.choice((1, 2)), radius=1.0)


def box(mesh: Mesh, chance: Random) -> None:
    bmesh.ops.create_cube(mesh, size=1.0)


def spike(mesh: Mesh, chance: Random) -> None:
    bmesh.ops.create_cone(mesh, cap_ends=True, segments=7, radius1=1.0, radius2=0.0, depth=chance.uniform(0.2, 3.0))


def sheet(mesh: Mesh, chance: Random) -> None:
    bmesh.ops.create_grid(mesh, x_segments=4, y_segments=3, size=1.0)


def plate(mesh: Mesh, chance: Random) -> None:
    bmesh.ops.create_cube(mesh, size=1.0)
    bmesh.ops.scale(mesh, vec=(1.0, 1.0, 10.0 ** chance.uniform(-3.0, -1.0)), verts=mesh.verts)


def hairs(mesh: Mesh, chance: Random) -> None:
    for _ in range(chance.randrange(1, 4)):
        made = bmesh.ops.create_cone(mesh, cap_ends=True, segments=5, radius1=0.02, radius2=0.001, depth=1.0)
        bmesh.ops.translate(mesh, vec=(chance.uniform(-1.0, 1.0), chance.uniform(-1.0, 1.0), 0.0), verts=made["verts"])


def soup(mesh: Mesh, chance: Random) -> None:
    """Add random triangles that intersect one another."""
    for _ in range(chance.randrange(1, 30)):
        mesh.faces.new([mesh.verts.new([chance.uniform(-1.0, 1.0) for _ in range(3)]) for _ in range(3)])


def wire(mesh: Mesh, chance: Random) -> None:
    points = [mesh.verts.new((0.2 * k, chance.uniform(-0.1, 0.1), 0.0)) for k in range(chance.randrange(2, 8))]
    for pair in pairwise(points):
        mesh.edges.new(pair)


def point(mesh: Mesh, chance: Random) -> None:
    mesh.verts.new((0.3, 0.0, 0.0))


def nothing(mesh: Mesh, chance: Random) -> None:
    pass


# Faults.


def torn(mesh: Mesh, chance: Random) -> None:
    faces = chance.sample(list(mesh.faces), chance.randrange(1, 1 + len(mesh.faces) // 2))
    bmesh.ops.delete(mesh, geom=faces, context="FACES")


def doubled(mesh: Mesh, chance: Random) -> None:
    found = bmesh.ops.duplicate(mesh, geom=[*mesh.verts, *mesh.edges, *mesh.faces])["geom"]
    if chance.random() < 0.5:
        verts = [one for one in found if isinstance(one, bmesh.types.BMVert)]
        bmesh.ops.translate(mesh, vec=(chance.choice((0.3, 4.0)), 0.1, 0.0), verts=verts)


def inside_out(mesh: Mesh, chance: Random) -> None:
    bmesh.ops.reverse_faces(mesh, faces=chance.sample(list(mesh.faces), chance.randrange(1, 1 + len(mesh.faces))))


def collapsed(mesh: Mesh, chance: Random) -> None:
    """Collapse a face to zero area."""
    face = chance.choice(list(mesh.faces))
    for vert in face.verts:
        vert.co = face.verts[0].co


def crushed(mesh: Mesh, chance: Random) -> None:
    """Flatten the mesh to a line or a point."""
    bmesh.ops.scale(mesh, vec=(chance.choice((0.0, 1.0)), 0.0, 0.0), verts=mesh.verts)


def finned(mesh: Mesh, chance: Random) -> None:
    """Add another face to an edge."""
    edge = chance.choice(list(mesh.edges))
    mesh.faces.new([*edge.verts, mesh.verts.new([chance.uniform(-2.0, 2.0) for _ in range(3)])])


def loose_edge(mesh: Mesh, chance: Random) -> None:
    verts = list(mesh.verts)
    # Near the mesh: distant vertices without faces are one of LATER.
    there = chance.choice(verts).co + 0.3 * (chance.choice(verts).co - chance.choice(verts).co)
    mesh.edges.new([chance.choice(verts), mesh.verts.new(there)])


def crumpled(mesh: Mesh, chance: Random) -> None:
    for vert in mesh.verts:
        vert.co += type(vert.co)([chance.gauss(0.0, 0.4) for _ in range(3)])


def non_finite(mesh: Mesh, chance: Random) -> None:
    for vert in chance.sample(list(mesh.verts), 1 + len(mesh.verts) // 8):
        vert.co[chance.randrange(3)] = chance.choice((float("nan"), float("inf")))


def tiny(mesh: Mesh, chance: Random) -> None:
    bmesh.ops.scale(mesh, vec=(10.0 ** chance.uniform(-6.0, -2.0),) * 3, verts=mesh.verts)


def huge(mesh: Mesh, chance: Random) -> None:
    bmesh.ops.scale(mesh, vec=(10.0 ** chance.uniform(2.0, 6.0),) * 3, verts=mesh.verts)


SOLID = (ball, box, spike, plate, hairs)
SHAPES = (*SOLID, *SOLID, *SOLID, sheet, sheet, soup, soup, wire, point, nothing)
FAULTS = (torn, doubled, inside_out, collapsed, crushed, finned, loose_edge, crumpled, non_finite, tiny, huge)


def random_object(seed: int) -> tuple[bpy.types.Object, str] | None:
    """Return a random object after Add, and its description; None if Add refuses it because it has no edges."""
    chance = Random(seed)
    scene = new_scene(FRAMES)
    shape, said = chance.choice(SHAPES), []
    faults = chance.sample([one for one in FAULTS if one.__name__ not in UNSUPPORTED_CASES], chance.randrange(3))
    mesh = bmesh.new()
    shape(mesh, chance)
    for fault in faults:
        mesh.faces.ensure_lookup_table()
        if mesh.faces or (mesh.verts and fault in (crushed, crumpled, non_finite, tiny, huge, loose_edge)):
            fault(mesh, chance)
            said.append(fault.__name__)
    data = bpy.data.meshes.new("Thing")
    mesh.to_mesh(data)
    mesh.free()
    obj = bpy.data.objects.new("Thing", data)
    scene.collection.objects.link(obj)
    if chance.random() < 0.1:
        obj.scale[chance.randrange(3)] = 0.0
        said.append("no scale")
    obj.select_set(True)
    bpy.context.view_layer.objects.active = obj
    bpy.context.view_layer.update()
    if not data.edges:
        with pytest.raises(RuntimeError, match="Thing: it has neither edges nor faces"):
            bpy.ops.dampsim.add()
        return None
    assert bpy.ops.dampsim.add() == {"FINISHED"}
    obj.dampsim.resolution = chance.choice((50, 100, 300))
    if chance.random() < 0.3:
        # Override the choice of Add.
        obj.dampsim.kind = chance.choice(("SOLID", "SPRINGS"))
        said.append(obj.dampsim.kind.lower())
    if obj.dampsim.kind == "SPRINGS":
        # The default of Add for springs.
        obj.dampsim.stiffness_by = "MODULUS"
        if "tiny_net" in UNSUPPORTED_CASES:
            obj.scale *= 1.0 if "tiny" not in said else 1e4
    if len(data.vertices) and chance.random() < 0.6:
        some = chance.sample(range(len(data.vertices)), 1 + len(data.vertices) // 5)
        obj.vertex_groups.new(name="Pin").add(some, 1.0, "REPLACE")
        obj.dampsim.pin_group = "Pin"
    return obj, f"{shape.__name__} {' '.join(said)}"


# Fixes that refusals recommend.


def edit_mesh(obj: bpy.types.Object, work: Callable[[Mesh], None]) -> None:
    mesh = bmesh.new()
    mesh.from_mesh(obj.data)
    work(mesh)
    mesh.to_mesh(obj.data)
    mesh.free()
    obj.data.update()


def replace_mesh(obj: bpy.types.Object) -> None:
    obj.data.clear_geometry()
    edit_mesh(obj, lambda mesh: bmesh.ops.create_cube(mesh, size=1.0) and None)
    obj.dampsim.kind, obj.dampsim.pin_group = "SOLID", ""


def delete_non_finite_vertices(obj: bpy.types.Object) -> None:
    def work(mesh: Mesh) -> None:
        broken = [vert for vert in mesh.verts if not np.isfinite(vert.co[:]).all()]
        bmesh.ops.delete(mesh, geom=broken, context="VERTS")

    edit_mesh(obj, work)


def thicken(obj: bpy.types.Object) -> None:
    """Apply a Solidify modifier."""
    size = max(obj.dimensions) / max(*(abs(one) for one in obj.scale), 1e-9)
    obj.modifiers.new("Solidify", "SOLIDIFY").thickness = 0.2 * size
    bpy.ops.object.modifier_apply(modifier="Solidify")


def choose_springs(obj: bpy.types.Object) -> None:
    obj.dampsim.kind, obj.dampsim.stiffness_by = "SPRINGS", "MODULUS"


def reset_scale(obj: bpy.types.Object) -> None:
    obj.scale = (1.0, 1.0, 1.0)


def raise_resolution(obj: bpy.types.Object) -> None:
    obj.dampsim.resolution *= 4


def lower_resolution(obj: bpy.types.Object) -> None:
    obj.dampsim.resolution = max(obj.dampsim.resolution // 4, 50)


def clear_pins(obj: bpy.types.Object) -> None:
    obj.dampsim.pin_group = ""


def raise_substeps(obj: bpy.types.Object) -> None:
    obj.dampsim.substeps = min(4 * obj.dampsim.substeps, 64)


# Fix for each wording of the advice in a message. The first match applies.
FIXES: tuple[tuple[str, Callable[[bpy.types.Object], None]], ...] = (
    (r"delete or move them", delete_non_finite_vertices),
    (r"[Ss]et a scale above zero", reset_scale),
    (r"give it thickness", thicken),
    (r"choose (Rope or )?Springs", choose_springs),
    (r"raise Resolution", raise_resolution),
    (r"lower Resolution", lower_resolution),
    (r"Assign vertices to it, or choose another group|Choose another pin group", clear_pins),
    (r"[Rr]aise Substeps|more substeps", raise_substeps),
    (r"[Cc]hoose (an object|another object)|another mesh", replace_mesh),
)


@pytest.fixture
def attempt(load: Load) -> Callable[[bpy.types.Object], str]:
    """Return a function that simulates an object. It returns the refusal, or '' if all vertices stay finite."""
    snapshot, simulation = load("dampsim_addon.scene_reader.scene_builder"), load("core.simulation.simulation")
    errors = load("core.base.errors")

    def simulate(obj: bpy.types.Object) -> str:
        bpy.context.view_layer.update()
        try:
            with snapshot.GroupSampler(bpy.context.scene, bpy.context.view_layer, [obj]) as sampler:
                frames = list(simulation.Simulation(snapshot.build_scene(sampler)).frames())
        except errors.DampSimError as error:
            return str(error)
        assert len(frames) == FRAMES
        assert all(np.isfinite(frame.shapes[obj.name]).all() for frame in frames)
        return ""

    return simulate


def peak_memory() -> float:
    """Return the peak memory of this process in MB, or 0 if the system does not report it."""
    if not sys.platform.startswith("linux"):
        return 0.0
    found = re.search(r"VmHWM:\s+(\d+)", Path("/proc/self/status").read_text(encoding="ascii"))
    return float(found[1]) / 1e3 if found else 0.0


def apply_fix(obj: bpy.types.Object, said: str) -> None:
    """Apply the fix that a message recommends; raise AssertionError if none is known."""
    advice = re.split(r";|\. (?=[A-Z])", said, maxsplit=1)[-1]
    mend = next((mend for words, mend in FIXES if re.search(words, advice)), None)
    assert mend is not None, f"no fix is known for: {said}"
    mend(obj)


def seed_parameters() -> list[object]:
    return [pytest.param(k, marks=pytest.mark.slow if k >= 2 else (), id=f"seeds{10 * k}") for k in range(MESHES // 10)]


@pytest.mark.parametrize("ten", seed_parameters())
def test_random_mesh_simulates_or_is_fixable(attempt: Callable[[bpy.types.Object], str], ten: int) -> None:
    wrong = []
    for seed in range(10 * ten, 10 * ten + 10):
        found = random_object(seed)
        if found is None:
            continue
        (obj, what), sentences = found, list[str]()
        try:
            for _ in range(MAX_FIXES + 1):
                before, began = peak_memory(), time.process_time()
                said = attempt(obj)
                if not said:
                    break
                sentences.append(said)
                assert time.process_time() - began < MAX_SECONDS, "the refusal takes too long"
                assert peak_memory() - before < MAX_MEGABYTES, "the refusal takes too much memory"
                assert re.fullmatch(r"Thing: [^;\n]+(?:[;)] |\. (?=[A-Z]))[^\n]+\.", said), (
                    f"not a sentence with advice: {said}"
                )
                apply_fix(obj, said)
            else:
                raise AssertionError("no fix works")
        except Exception as error:
            wrong.append(f"{seed}: {what}: {type(error).__name__} {str(error)[:300]}: {sentences}")
    assert not wrong, "\n".join(wrong)
