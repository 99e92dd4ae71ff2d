"""Page docs/validation/methods.md: methods of the sources that DampSim replaces or leaves out, and the measured reasons."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.sparse import coo_matrix
from scipy.sparse.linalg import eigsh
from scipy.spatial import Delaunay, cKDTree

import shapes
from dampsim.core.base.arrays import Array, Index, Mask
from dampsim.core.geometry.collision.ccd import point_triangle_ccd
from dampsim.core.geometry.collision.intersections import points_inside
from dampsim.core.geometry.mesh.primitives import box_tets
from dampsim.core.geometry.mesh.surface import Surface, sample_triangles
from dampsim.core.geometry.mesh.triangles import Triangles
from dampsim.core.geometry.tetmesh.embedding import FACES, adjacent_tets, barycentric_coordinates
from dampsim.core.geometry.tetmesh.tetrahedralise import tetrahedralise
from dampsim.core.geometry.tetmesh.winding_number import WindingNumber
from dampsim.core.literature.damping.damping import DampedBody, Damping
from dampsim.core.literature.damping.velocity_dampings import DirectDamping, SpringDamping
from dampsim.core.literature.damping.viscous_dampings import PowerLawDissipation
from dampsim.core.literature.integrators import INTEGRATORS, IntegratorStepper
from dampsim.core.literature.papers.compare import (
    Case,
    backward_euler_controls,
    bar,
    largest_stable_step,
)
from dampsim.core.literature.papers.flat_scenes import spring_orbit
from dampsim.core.literature.papers.rate_step import PerStepDamping, PositionJacobian, RateStep
from dampsim.core.literature.papers.schmedding_scenes import (
    energy_limit,
    largest_scene_step,
    rope_bridge,
    run_explicit,
)
from dampsim.core.materials import ElasticMaterial, StableNeoHookean, TetElasticity
from dampsim.core.materials.strain_energy import StrainEnergy
from dampsim.core.materials.tetrahedra import lumped_mass, tet_volumes
from dampsim.core.scene.parameters import Settings
from dampsim.core.system.inputs import BlockInputs
from dampsim.core.system.state import State
from dampsim.core.system.system import System, build_system

from . import dialled
from .page import Claim, claimed, judge, small, table
from .schmedding_figures import LABELS, damped

MATERIAL = ElasticMaterial(1e5, 0.35, 1000.0)
TET_COUNT = 800
# Random meshes, of which the page gives medians.
DRAWS = 5
# Kinetic energy of the spun spring of [SRD] 3.6 in uniform circular motion, J.
CIRCULAR = 83.9


def smallest_angles(nodes: Array, tets: Index) -> Array:
    """Return the smallest dihedral angle (m,) of each tetrahedron in degrees."""
    corners = nodes[tets]
    normals = []
    for opposite in range(4):
        a, b, c = (corners[:, k] for k in range(4) if k != opposite)
        normal = np.cross(b - a, c - a)
        outward = np.einsum("mi,mi->m", normal, a - corners[:, opposite])
        normals.append(normal * (np.sign(outward) / np.linalg.norm(normal, axis=1))[:, None])
    cosines = [
        -np.einsum("mi,mi->m", normals[i], normals[j]) for i in range(4) for j in range(i + 1, 4)
    ]  # fmt: skip
    return np.asarray(np.degrees(np.arccos(np.clip(np.max(cosines, axis=0), -1.0, 1.0))))


@dataclass(frozen=True)
class Mesh:
    """Tetrahedra around a surface. fill: (m,) part of each inside the surface.  outside: share of free vertices."""

    nodes: Array
    tets: Index
    fill: Array
    outside: float

    def elastic(self) -> tuple[TetElasticity, Array]:
        """Return the energy and the mass (n,) in kg of the part inside the surface."""
        volumes = tet_volumes(self.nodes, self.tets)
        mass = lumped_mass(self.tets, volumes * self.fill, MATERIAL.density, len(self.nodes))
        return TetElasticity(self.nodes, self.tets, volumes * self.fill, StableNeoHookean(MATERIAL)), mass

    def longest_step(self) -> float:
        """Return the longest stable step of symplectic Euler without damping, s."""
        elastic, mass = self.elastic()
        scale = np.repeat(mass**-0.5, 3)
        stiffness = elastic.hessian(self.nodes, False)
        scaled = coo_matrix(stiffness)
        scaled.data = scaled.data * scale[scaled.row] * scale[scaled.col]
        start = np.random.default_rng(0).standard_normal(len(scale))
        return float(2.0 / np.sqrt(eigsh(scaled.tocsr(), 1, which="LA", v0=start, return_eigenvectors=False)[0]))


def _fill(nodes: Array, tets: Index, winding: WindingNumber) -> Array:
    """Return the part (m,) of each tetrahedron inside a surface, from 40 random points in each."""
    weights = np.random.default_rng(0).dirichlet(np.ones(4), 40)
    points = np.einsum("pk,mki->mpi", weights, nodes[tets])
    return np.asarray((np.abs(winding(points.reshape(-1, 3))) > 0.5).reshape(points.shape[:2]).mean(axis=1))


def delaunay_mesh(surface: Surface, node_count: int, spacing: float, seed: int) -> Mesh:
    """Return the slides' simple mesh: random points inside and in a band above the surface, connected by Delaunay.

    spacing: thickness of the band, m.
    """
    rng, winding = np.random.default_rng(seed), WindingNumber(surface.vertices, surface.triangles)
    low, high = surface.vertices.min(axis=0) - spacing, surface.vertices.max(axis=0) + spacing
    near = cKDTree(sample_triangles(surface.vertices, surface.triangles, spacing / 3.0))
    points: Array = np.zeros((0, 3))
    while len(points) < node_count:
        tried = rng.uniform(low, high, (4 * node_count, 3))
        kept = (np.abs(winding(tried)) > 0.5) | (near.query(tried)[0] < spacing)
        points = np.concatenate([points, tried[kept]])
    points = points[:node_count]
    net = Delaunay(points)
    tets: Index = net.simplices.astype(np.int64)
    volumes = tet_volumes(points, tets)
    turned = volumes < 0.0
    tets[turned] = tets[turned][:, [0, 1, 3, 2]]
    fill, around = _fill(points, tets, winding), net.find_simplex(surface.vertices)
    used = fill > 0.0
    used[around[around >= 0]] = True
    outside = float((around < 0).mean())
    names, inner = np.unique(tets[used], return_inverse=True)
    # As in DampSim, so that every node has some mass.
    return Mesh(points[names], inner.reshape(-1, 4), np.maximum(fill[used], 0.05), outside)


def lattice_mesh(surface: Surface) -> tuple[Mesh, float]:
    """Return DampSim's mesh, and its lattice edge in m."""
    made = tetrahedralise(surface, TET_COUNT)
    weights = made.embedding.weights.min(axis=1)
    mesh = Mesh(made.nodes, made.tets, made.fill_fractions, float((weights < -1e-6).mean()))
    return mesh, made.spacing


def _quality(mesh: Mesh, surface: Surface) -> tuple[float, ...]:
    """Return the numbers of a row of the table of meshes."""
    angles = smallest_angles(mesh.nodes, mesh.tets)
    volume = abs(np.linalg.det(surface.vertices[surface.triangles]).sum()) / 6.0
    filled = float((tet_volumes(mesh.nodes, mesh.tets) * mesh.fill).sum())
    worst, usual = float(angles.min()), float(np.median(angles))
    return len(mesh.tets), worst, usual, abs(filled / volume - 1.0), mesh.outside, 1e3 * mesh.longest_step()


def _meshes(claims: list[Claim]) -> str:
    rows: list[list[object]] = []
    found: dict[str, list[Array]] = {"lattice": [], "Delaunay": []}
    for surface in (shapes.sphere(400), shapes.horn(), shapes.dumbbell(), shapes.ring()):
        lattice, spacing = lattice_mesh(surface)
        drawn = [delaunay_mesh(surface, len(lattice.nodes), spacing, seed) for seed in range(DRAWS)]
        for name, meshes in (("lattice", [lattice]), ("Delaunay", drawn)):
            numbers = np.median([_quality(mesh, surface) for mesh in meshes], axis=0)
            found[name].append(numbers[1:])
            count, worst, usual, error, outside, step = numbers
            rows.append([
                surface.name, name, f"{count:.0f}", f"{worst:.1f}°", f"{usual:.1f}°", f"{error:.1%}", f"{outside:.1%}",
                f"{step:.2f}",
            ])  # fmt: skip
    ours, theirs = np.array(found["lattice"]).T, np.array(found["Delaunay"]).T
    ratios = ours[4] / theirs[4]
    claims += [
        Claim(
            "[MSS]: random points inside and above the surface, connected by Delaunay, make a good tetrahedral mesh",
            judge(theirs[0].min() > 5.0, theirs[2].max() < 0.05, theirs[3].max() == 0.0),
            f"smallest angle {theirs[0].min():.1f}° (DampSim's lattice: {ours[0].min():.1f}°), error of the volume up to {theirs[2].max():.1%} "
            f"({ours[2].max():.1%}), up to {theirs[3].max():.1%} of the vertices outside of all tetrahedra ({ours[3].max():.1%})",
            float(ratios.max()),
        ),
        Claim(
            "DampSim's lattice replaces Delaunay meshes, because explicit steps can be longer",
            judge(bool((ratios > 1.0).all()), bool((ours[0] > theirs[0]).all())),
            f"the longest stable step is {ratios.min():.1f} to {ratios.max():.1f} times as long on four shapes",
        ),
    ]  # fmt: skip
    return (
        "\n## Meshes: the slides' Delaunay against DampSim's lattice\n\n"
        f"About {TET_COUNT} tetrahedra around four shapes. *Delaunay* has as many nodes as the lattice, at random inside and in a band of one lattice edge\n"
        "above the surface ([MSS]). The table gives the smallest dihedral angle of all tetrahedra, the median of their smallest angles, the error of\n"
        "the filled volume, the share of vertices outside of all tetrahedra, and the longest stable undamped step of symplectic Euler\n"
        f"(E = {MATERIAL.young / 1e3:g} kPa); of {DRAWS} random meshes, the medians.\n\n"
        + table(["shape", "mesh", "tetrahedra", "smallest angle", "median", "volume", "outside", "longest step, ms"], rows)
    )  # fmt: skip


def clamped_bar(is_lattice: bool) -> Case:
    """Return a bar clamped at one end, of DampSim's lattice or of the slides' Delaunay mesh."""
    surface = shapes.box((1.0, 0.25, 0.25))
    made = tetrahedralise(surface, 200)
    if is_lattice:
        mesh = Mesh(made.nodes, made.tets, made.fill_fractions, 0.0)
    else:
        mesh = delaunay_mesh(surface, len(made.nodes), made.spacing, 0)
    elastic, mass = mesh.elastic()
    pinned: Index = np.flatnonzero(mesh.nodes[:, 0] < 0.5 * made.spacing)
    hard = np.full(len(pinned), np.inf)
    system = build_system(mesh.nodes, mesh.tets, mass, (elastic,), np.zeros(3), pinned, hard)
    place = mesh.nodes[pinned]
    return Case("A clamped bar", system, State.at_rest(mesh.nodes), lambda time: place)


def _damping(kind: type[Damping], system: System, **dials: object) -> Damping:
    """Return a damping with gamma = 1 in every step."""
    values = Settings(damping_by=kind.name, gamma=1.0, **dials).as_dict()  # type: ignore[arg-type]
    chosen = {name: values[name] for name in kind.parameters}
    return PerStepDamping(kind(DampedBody(system.blocks[0], chosen, MATERIAL, 1.0)))


def _gains(claims: list[Claim]) -> str:
    (symplectic,) = (one for one in INTEGRATORS if one.name == "SYMPLECTIC_EULER")
    own = {"clusters": "BODY_THEN_ELEMENTS", "torque": "EDGES_PRINTED", "torque_then": "RADII"}
    rows: list[list[object]] = []
    gains: list[tuple[float, float]] = []
    for name, is_lattice in (("lattice", True), ("Delaunay", False)):
        case = clamped_bar(is_lattice)
        dampings = (None, _damping(SpringDamping, case.system), _damping(DirectDamping, case.system, **own))
        free, springs, direct = (1e3 * largest_stable_step(case, symplectic, one) for one in dampings)
        rows.append([name, *(f"{step:.2f}" for step in (free, springs, direct)), f"{direct / springs - 1.0:+.0%}"])
        gains.append((springs / free, direct / springs))
    claims.append(
        Claim(
            "[Sch] 5: the mesh generator does not decide what the paper compares",
            judge(*((a > 1.0) == (b > 1.0) for a, b in zip(*gains, strict=True))),
            f"springs lengthen the step to {gains[0][0]:.2f} (lattice) and {gains[1][0]:.2f} (Delaunay) of the undamped one, and the paper's combination to "
            f"{gains[0][1]:.2f} and {gains[1][1]:.2f} of that of springs",
        )
    )
    return (
        "\nA bar of about 200 tetrahedra clamped at one end, with both meshes and the dampings of [Sch], γ = 1: the longest stable step in ms.\n\n"
        + table(["mesh", "undamped", "springs", "(a), then (b)", "against springs"], rows)
    )


def contained_pairs(points: Array, nodes: Array, tets: Index) -> tuple[Mask, int]:
    """Find the points inside tetrahedra with a hashed grid, as the sources do. Return a mask (p,), and the tested pairs.

    The cells are as wide as the mean edge. Each tetrahedron is in all cells that its bounding box touches.
    """
    corners = nodes[tets]
    width = float(np.linalg.norm(corners[:, 1:] - corners[:, :1], axis=2).mean())
    low, high = (np.floor(side / width).astype(np.int64) for side in (corners.min(axis=1), corners.max(axis=1)))
    cells: dict[tuple[int, ...], list[int]] = {}
    for tet, (a, b) in enumerate(zip(low, high, strict=True)):
        for cell in np.ndindex(*(b - a + 1)):
            cells.setdefault(tuple(a + cell), []).append(tet)
    pairs = [
        (point, tet)
        for point, cell in enumerate(np.floor(points / width).astype(np.int64))
        for tet in cells.get(tuple(cell), ())
    ]
    inside = np.zeros(len(points), dtype=bool)
    if pairs:
        point, tet = np.array(pairs).T
        inside[point[barycentric_coordinates(points[point], corners[tet]).min(axis=1) >= 0.0]] = True
    return inside, len(pairs)


def _skin(tets: Index) -> Index:
    """Return the outer triangles of tetrahedra with positive volumes, outward."""
    tet, corner = np.nonzero(adjacent_tets(tets) < 0)
    faces = tets[tet[:, None], FACES[corner]]
    inward = corner % 2 == 1
    faces[inward] = faces[inward][:, ::-1]
    return np.asarray(faces)


def _collisions(claims: list[Claim]) -> str:
    surface = shapes.dumbbell()
    made = tetrahedralise(surface, TET_COUNT)
    skin = Triangles(made.nodes, _skin(made.tets))
    rng, equal, found, tests, count = np.random.default_rng(0), 0, 0, 0, 0
    centre, extent = surface.vertices.mean(axis=0), float(np.ptp(surface.vertices, axis=0).max())
    for _ in range(20):
        turn = np.linalg.qr(rng.standard_normal((3, 3)))[0]
        points = (surface.vertices - centre) @ turn.T + centre + 0.1 * extent * rng.standard_normal(3)
        hashed, pairs = contained_pairs(points, made.nodes, made.tets)
        ours = points_inside(points, skin)
        equal, found = equal + int((hashed == ours).sum()), found + int(ours.sum())
        tests, count = tests + pairs, count + len(points)
    thickness, rows, missed = 0.05, [], {}
    nodes, tets = box_tets((1.0, 1.0, thickness), (10, 10, 1))
    faces = _skin(tets)
    for ratio in (0.5, 1.0, 2.0, 4.0, 8.0):
        start = rng.uniform([0.05, 0.05, thickness], [0.95, 0.95, thickness * (1.0 + ratio)], (1000, 3))
        way, seen, crossed = np.array([0.0, 0.0, -ratio * thickness]), np.zeros(1000, bool), np.zeros(1000, bool)
        place = start
        while place[:, 2].max() > -thickness:
            hits = point_triangle_ccd(place, place + way, nodes, nodes, faces)
            crossed[hits.point] = True
            place = place + way
            seen |= contained_pairs(place, nodes, tets)[0]
        missed[ratio] = 1.0 - float(seen.mean())
        rows.append([f"{ratio:g}", f"{missed[ratio]:.0%}", f"{1.0 - float(crossed.mean()):.0%}"])
    claims.append(
        Claim(
            "[MSS], [Sch] 5: a hashed grid of tetrahedra finds the collisions",
            judge(equal == count, max(missed.values()) == 0.0),
            f"of points at rest it finds the same as DampSim's trees of triangles in {equal:,} of {count:,} cases, {found:,} of them inside, with "
            f"{tests / count:.1f} tested tetrahedra per point; of points that move by 2 thicknesses of a plate per step it misses {missed[2.0]:.0%}, of 8 "
            f"{missed[8.0]:.0%}, and DampSim's CCD none",
        )
    )
    return (
        "\n## Collisions: a hashed grid against triangles and CCD\n\n"
        "The grid of [MSS] and [Sch] has tetrahedra in cells as wide as their mean edge, and tests the points in each cell. It sees a point only\n"
        "at the end of a step, and only in bodies with tetrahedra: cloth, ropes and colliders have none. 1000 points fall through a plate in steps\n"
        "of the given length. The table gives the share of points that no step finds.\n\n"
        + table(["step, thicknesses of the plate", "hashed grid", "CCD"], rows)
    )


def _joints(claims: list[Claim]) -> str:
    scene = rope_bridge(has_joints=True)
    limit = energy_limit(scene)
    names = ("undamped", "springs", "own")
    steps = {name: 1e3 * largest_scene_step(scene, damped(scene, name, 1.0), limit) for name in names}
    first, second = scene.joints.T
    ended = run_explicit(scene, [], scene.step).final_positions
    apart = float(np.linalg.norm(ended[first] - ended[second], axis=1).max())
    bridge = dialled.bridge(scene.seconds, rigid=True)
    gain = steps["own"] / steps["springs"]
    claims += [
        Claim(
            "[Sch] figure 3 with local constraints instead of springs between the planks: (a), then (b) allows longer steps than springs",
            judge(gain > 1.02),
            f"γ = 1: undamped {steps['undamped']:.3g} ms, springs {steps['springs']:.3g} ms, (a), then (b) {steps['own']:.3g} ms ({gain - 1.0:+.0%})",
        ),
        Claim(
            "DampSim's rigid links replace local constraints, because they hold in longer steps",
            judge(1e3 * bridge.h > max(steps.values()), bridge.widest_link < 1e-4),
            f"the links of the bridge open by at most {small(1e3 * bridge.widest_link)} mm in steps of {1e3 * bridge.h:.1f} ms; the constraints hold to "
            f"{small(1e3 * apart)} mm, but need explicit steps of at most {max(steps.values()):.3g} ms",
        ),
    ]  # fmt: skip
    return (
        "\n## Local constraints between meshes against links\n\n"
        "[Sch] connects the planks of its bridge by local constraints. Their paper is not among the sources, so the constraint is the plainest one:\n"
        "equal and opposite forces on both nodes of a joint, with which they meet at the end of an undamped explicit step. The planks touch; the scene\n"
        "is otherwise that of [schmedding.md](schmedding.md).\n\n"
        + table(["damping, γ = 1", "longest step, ms"], [[LABELS[name], f"{step:.3g}"] for name, step in steps.items()])
    )


def _fluids(claims: list[Claim]) -> str:
    nodes, tets = box_tets((1.0, 1.0, 0.25), (12, 12, 3))
    turn = 2.0  # Time of a turn at the centre of the vortex, s.
    steps = 400
    start = tet_volumes(nodes, tets)

    def flow(x: Array) -> Array:
        a, b = np.pi * x[:, 0], np.pi * x[:, 1]
        return np.column_stack([np.sin(a) * np.cos(b), -np.cos(a) * np.sin(b), np.zeros(len(x))])

    x, h, first, rows = nodes.copy(), turn / steps, np.inf, []
    for step in range(1, steps + 1):
        k1 = flow(x)
        k2 = flow(x + 0.5 * h * k1)
        k3 = flow(x + 0.5 * h * k2)
        x = x + h / 6.0 * (k1 + 2.0 * k2 + 2.0 * k3 + flow(x + h * k3))
        volumes = tet_volumes(x, tets)
        if first == np.inf and volumes.min() <= 0.0:
            first = step / steps
        if step % (steps // 4) == 0:
            upright = volumes > 0.0
            angles = smallest_angles(x, tets[upright])
            rows.append([
                f"{step / steps:g}", f"{1.0 - float(upright.mean()):.0%}", f"{float(np.median(angles)):.1f}°",
                f"{float(np.abs(volumes / start - 1.0).max()):.0%}",
            ])  # fmt: skip
    inverted = rows[-1][1]
    # Directions of motion that keep the volume of every tetrahedron, as an incompressible fluid would.
    small_nodes, small_tets = box_tets((1.0, 1.0, 1.0), (5, 5, 5))
    corners = small_nodes[small_tets]
    gradient = np.zeros((len(small_tets), small_nodes.size))
    for k in range(4):
        a, b, c = (corners[:, j] for j in FACES[k])
        slope = np.cross(b - a, c - a)
        slope *= np.sign(np.einsum("mi,mi->m", slope, corners[:, k] - a))[:, None]
        for axis in range(3):
            np.add.at(gradient, (np.arange(len(small_tets)), 3 * small_tets[:, k] + axis), slope[:, axis])
    wall = np.isclose(small_nodes, 0.0) | np.isclose(small_nodes, 1.0)
    free = ~wall.ravel()
    ways = int(free.sum()) - int(np.linalg.matrix_rank(gradient[:, free]))
    claims.append(
        Claim(
            "DampSim leaves out fluids, [You] 5.1.3: its tetrahedra move with the material",
            judge(first < 1.0, ways < 0.1 * free.sum()),
            f"in a vortex, the first tetrahedron is inverted after {first:.2f} turns, and {inverted} after one; in a closed box of "
            f"{len(small_tets)} linear tetrahedra, {ways} of {int(free.sum())} motions keep all volumes, so that an incompressible fluid of them could not "
            "flow. A fluid needs a grid that stays in place, and pressures as further unknowns",
        )
    )
    return (
        "\n## Fluids\n\n"
        "[You] proposes to add the kinetic energy of an incompressible fluid to the minimum. Contact and friction are in the minimum; the\n"
        f"air's drag is a force. The nodes of a box of {len(tets)} tetrahedra follow the vortex u = (sin πx cos πy, −cos πx sin πy), which changes no volume.\n"
        "The table gives the share of inverted tetrahedra, the median of the smallest angles of the others, and the largest change of a volume.\n\n"
        + table(["turns at the centre", "inverted", "median angle", "volume"], rows)
    )


def _nonlinear(claims: list[Claim]) -> str:
    system = spring_orbit()
    (energy,) = system.blocks[0].energies
    assert isinstance(energy, StrainEnergy)
    beta, h, seconds = 0.05, 0.002, 20.0
    # The rate at which the power law begins: that of a swing by 5% of the length.
    omega = float(np.sqrt(100.0 / 2.0))
    power = float(beta * energy.moduli[0, 0] * (0.05 * omega) ** 2)
    length = float(np.linalg.norm(system.rest[1]))
    rows, kept, ends = [], {}, {}
    for exponent in (1.0, 2.0, 4.0):
        damping = PowerLawDissipation(
            energy.strain, beta * energy.moduli, energy.weights, 2, exponent, power
        )  # fmt: skip
        stepper = RateStep(system, energy, damping, PositionJacobian.WHOLE, False, newmark=True)
        for size in (0.001, 0.2):
            x, v = system.rest.copy(), np.zeros((2, 3))
            x[1, 0] *= 1.0 + size
            begun = energy.value_gradient(x)[0]
            for _ in range(round(2.0 * np.pi / omega / h)):
                made = stepper.step(x, v, h)
                x, v = made.positions, made.velocities
            left = energy.value_gradient(x)[0] + 0.5 * float(system.mass @ (v * v).sum(axis=1))
            kept[exponent, size] = left / begun
        x, v = system.rest.copy(), np.zeros((2, 3))
        v[1, 1] = 20.0
        for _ in range(round(seconds / 0.02)):
            made = stepper.step(x, v, 0.02)
            x, v = made.positions, made.velocities
        ends[exponent] = 0.5 * float(v[1] @ v[1])
        rows.append([
            f"{exponent:g}", *(f"{kept[exponent, size]:.1%}" for size in (0.001, 0.2)), f"{ends[exponent]:.1f} J",
        ])  # fmt: skip
    ratio = {exponent: np.log(kept[exponent, 0.2]) / np.log(kept[exponent, 0.001]) for exponent in (1.0, 2.0, 4.0)}
    claims.append(
        Claim(
            "[SRD] 7: the potential may be nonlinear, so that the damping depends on the speed",
            judge(ratio[1.0] < 0.8, ratio[4.0] > 1.25, all(abs(end - CIRCULAR) < 4.0 for end in ends.values())),
            f"a swing of 20% decays {ratio[4.0]:.1f} times as fast as one of 0.1% for p = 4, {ratio[2.0]:.2f} times for p = 2 and {ratio[1.0]:.2f} times for "
            f"p = 1; after {seconds:g} s the kinetic energy of the spun spring is {ends[4.0]:.1f} J (p = 4), {ends[2.0]:.1f} J (p = 2) and {ends[1.0]:.1f} J (p = 1, "
            f"least damped) where uniform circular motion has {CIRCULAR} J",
        )
    )
    return (
        "\n## Nonlinear dissipation potentials, [SRD] 7\n\n"
        "The paper gives no formula. `PowerLawDissipation` in `core/literature/damping/viscous_dampings.py` grows with a power p of fast rates\n"
        "([physics, section 4](../explanation/physics/04-strain-rate-dissipation.md)); it is for scripts, because the steps of the panel hold the\n"
        f"damping matrix constant. The spring of [SRD] 3.6 (length {length:g} m), β = {beta} s: energy that remains after one swing, and kinetic energy of the\n"
        f"spun spring after {seconds:g} s.\n\n" + table(["p", "swing of 0.1%", "swing of 20%", "spun spring"], rows)
    )


def _predicted(claims: list[Claim]) -> str:
    (midpoint,) = (one for one in INTEGRATORS if one.name == "IMPLICIT_MIDPOINT")
    rows, factors = [], []
    for cells in ((8, 2, 2), (16, 4, 4)):
        system = bar(cells, material=MATERIAL)
        start = system.rest + np.outer(system.rest[:, 0] ** 2, [0.0, 0.0, 0.2])
        place = system.rest[system.pinned]
        for h in (1.0 / 960.0, 1.0 / 96.0, 1.0 / 24.0):
            stepper, state = IntegratorStepper(midpoint, system), State.at_rest(start)
            worst = 0.0
            for _ in range(8):
                pull = -sum(one.value_gradient(state.positions)[1] for one in system.blocks[0].energies)
                predicted = state.velocities + h * pull / system.mass[:, None]
                predicted[system.pinned] = 0.0
                state, _ = stepper.step(state, (BlockInputs(place, place),), h, backward_euler_controls(system))
                sizes = [float(system.mass @ (v * v).sum(axis=1)) for v in (predicted, state.velocities)]
                worst = max(worst, sizes[0] / sizes[1])
            rows.append([f"{len(system.rest)}", f"{1e3 * h:.1f}", f"{worst:.3g}"])
            factors.append(worst)
    claims.append(
        Claim(
            "[Sch] 2: implicit steps have no predicted velocities v + h f/m, because these are far from those at the step's end",
            judge(max(factors) > 10.0),
            f"in steps of a 24th of a second they have up to {max(factors):.2g} times the kinetic energy of the step's end, in steps of a 960th "
            f"{min(factors):.3g} times",
        )
    )
    return (
        "\n## Predicted velocities of implicit steps\n\n"
        "A bent bar is released, with implicit midpoint steps and without damping. The table gives the largest ratio in eight steps of the kinetic\n"
        "energy of the predicted velocities v + h f/m to that of the velocities at the step's end.\n\n"
        + table(["nodes", "step, ms", "ratio of energies"], rows)
    )


SECTIONS = (_meshes, _gains, _collisions, _joints, _fluids, _nonlinear, _predicted)


def methods() -> str:
    claims: list[Claim] = []
    body = "".join(section(claims) for section in SECTIONS)
    return claimed(
        "Methods that DampSim replaces or leaves out",
        "The sources use or propose these methods, or refer to papers for them. DampSim\nhas other ones, for the measured reasons below.",
        claims,
        body,
    )
