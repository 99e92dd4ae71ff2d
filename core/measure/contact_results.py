"""Contact results of a simulated frame: contact forces, penetrations, and the earliest time of rest."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from ..base.arrays import Array, Index
from ..contact.collision_surface import CollisionSurface
from ..contact.contact_history import EDGE, POINT, ContactHistory, SupportModes
from ..contact.contact_model import ContactModel
from ..frames.frame import Frame
from ..geometry.collision.proximity import nearest_triangles
from ..geometry.mesh.primitives import closest_points_of_lines
from ..geometry.mesh.rigid_motion import fit_rigid_motion
from ..geometry.mesh.triangles import Triangles, unit_vectors
from ..materials import Membrane
from ..materials.strain_energy import StrainEnergy
from ..materials.strains import SpringStrain
from ..scene.body import Body
from ..settle.support_modes import earliest_rest_time, translation_rotation_fields
from ..simulation.contact_setup import front_axis
from ..simulation.simulation import Simulation
from ..system.state import State
from ..system.switched_springs import SwitchedSprings
from ..system.system import MIN_TOUCHED_WEIGHT, System
from ..system.term import Potential
from .report import BodyContactSummary, Penetration, WalkerPose

# Smaller stretches are invisible.
_VISIBLE_STRETCH = 0.1


def max_stretch(system: System, block_index: int, positions: Array) -> float:
    """Return the largest relative stretch of a block's sheets and ropes; 0 if it is invisible.

    block_index: of the block.
    positions: (n, 3) m of all nodes.
    Plastic terms and springs are left out, because they are meant to stretch.
    """
    block, x = system.blocks[block_index], positions[system.slices[block_index]]
    if not (block.is_sheet or block.is_rope):
        return 0.0
    max_ratio = 1.0
    for term in block.terms:
        # Muscles change their length by design.
        if not isinstance(term, Potential) or isinstance(term, SwitchedSprings):
            continue
        energy = term.energy
        if isinstance(energy, Membrane):
            a, b = energy.deformation_gradients(x)
            aa, ab, bb = ((one * other).sum(axis=1) for one, other in ((a, a), (a, b), (b, b)))
            # The larger eigenvalue of F^T F.
            square = 0.5 * (aa + bb) + np.sqrt((0.5 * (aa - bb)) ** 2 + ab**2)
            max_ratio = max(max_ratio, float(np.sqrt(square.max(initial=0.0))))
        elif isinstance(energy, StrainEnergy) and isinstance(energy.strain, SpringStrain):
            values = energy.strain.values(x[energy.strain.elements])
            max_ratio = max(max_ratio, 1.0 + float(values.max(initial=0.0)))
    return max_ratio - 1.0 if max_ratio - 1.0 > _VISIBLE_STRETCH else 0.0


# Penetrations below this fraction of a body's size are invisible and not reported.
VISIBLE_PENETRATION = 1e-3
# A penetration counts as squeezed above this fraction of Young's modulus. Otherwise the bodies began intersected.
_SQUEEZE_PRESSURE = 0.5
# Search radius for the touched surface, relative to its size.
_SEARCH_RADIUS = 1.0


@dataclass(frozen=True)
class BodyContactForces:
    """Normal contact forces on a body at a frame, k contacts, without friction.

    points: (k, 3) m, on its surface.
    normals: (k, 3) direction in which the body is pushed.
    forces: (k,) N along the normals.
    depths: (k,) m behind the touched surface, negative in front of it.
    partner_indices: (k,) into partner_names; the body itself for self-contact.
    """

    points: Array
    normals: Array
    forces: Array
    depths: Array
    partner_indices: Index
    partner_names: tuple[str, ...]

    def __len__(self) -> int:
        return len(self.points)

    def total_force(self, name: str) -> Array:
        """Return the total force (3,) in N that the named partner exerts on the body."""
        place = self.partner_names.index(name) if name in self.partner_names else -1
        is_partner = self.partner_indices == place
        return np.asarray(self.forces[is_partner] @ self.normals[is_partner])


def posed_stretch(body: Body, vertices: Array) -> float:
    """Return the largest relative stretch of the edges of a body by its animation alone; 0 if none is longer.

    vertices: (v, 3) m, animated.
    """
    triangles, rest = body.surface.triangles, body.surface.vertices
    edges = np.concatenate([body.edges, *(triangles[:, pair] for pair in ((0, 1), (1, 2), (2, 0)))])
    before, after = (np.linalg.norm(one[edges[:, 0]] - one[edges[:, 1]], axis=1) for one in (rest, vertices))
    has_length = before > 0.0
    return float((after[has_length] / before[has_length]).max(initial=1.0)) - 1.0


def has_contact_findings(system: System) -> bool:
    """Return whether contact_summary() can report anything for a system."""
    return system.contact is not None or any(block.is_sheet or block.is_rope for block in system.blocks)


def contact_summary(simulation: Simulation, state: State, body: str) -> BodyContactSummary:
    """Summarise contacts and stretch of a body in a state. The cost is one pass over the active contacts."""
    number, block = simulation.island_and_block(body)
    system = simulation.islands[number].system
    stretch = max_stretch(system, block, state.positions)
    if system.contact is None:
        return BodyContactSummary(stretched=stretch)
    penetrations = _penetrations(simulation, system.contact, number, block, _contact_history(system, state))
    walker = _walker_pose(simulation, state, body)
    partners = partners_in_contact(simulation, state, body)
    return BodyContactSummary(penetrations, *_rest_limit(simulation, number, block, state), stretch, walker, partners)


def partners_in_contact(simulation: Simulation, state: State, body: str) -> tuple[str, ...]:
    """Return the names of the partners that act on free nodes of a body in a state; its own name for itself."""
    number, block = simulation.island_and_block(body)
    system = simulation.islands[number].system
    if (model := system.contact) is None:
        return ()
    keys = _contact_history(system, state).keys
    visible = model.visible_surface[keys[:, [0, 3]]]
    own = visible == block
    others, is_free = np.where(own[:, 0], visible[:, 1], visible[:, 0]), (~system.is_fixed).astype(float)
    found = []
    for partner in np.unique(others[own.any(axis=1)]):
        points = model.touched_points(keys[own.any(axis=1) & (others == partner)])
        points = points[model.visible_surface[model.owner[points]] == block]
        if (model.operator[points] @ is_free > MIN_TOUCHED_WEIGHT).any():
            found.append(model.surfaces[partner].name)
    return tuple(found)


def _walker_pose(simulation: Simulation, state: State, name: str) -> WalkerPose | None:
    """Return the pose of a body with muscles and an axis as Front; None for other bodies."""
    body = simulation.scene.body(name)
    front = front_axis(body)
    if front is None or body.controller is None or not body.controller.muscles:
        return None
    positions = simulation.node_positions(state, name)
    rotation, _ = fit_rigid_motion(simulation.model_of(name).block.rest, positions)
    return WalkerPose(tuple(positions.mean(axis=0).tolist()), tuple((rotation @ front).tolist()))


def body_contact_forces(
    simulation: Simulation, frame: Frame, body: str, obstacles: Mapping[str, Array] | None = None
) -> BodyContactForces:
    """Return the contact forces on a body at a frame.

    obstacles: (v, 3) m by name, at that frame; None to sample them from the scene.
    """
    number, block = simulation.island_and_block(body)
    model = simulation.islands[number].system.contact
    empty = np.zeros((0, 3)), np.zeros((0, 3)), np.zeros(0), np.zeros(0), np.zeros(0, dtype=np.int64)
    if model is None:
        return BodyContactForces(*empty, ())
    history = _contact_history(simulation.islands[number].system, frame.state)
    names = tuple(one.name for one in model.surfaces)
    is_own_contact = (model.visible_surface[history.keys[:, [0, 3]]] == block).any(axis=1)
    found: list[tuple[Array, Array, Array, Array, Index]] = [empty]
    if is_own_contact.any() and obstacles is None:
        sample = simulation.scene.sample(float(frame.number))
        pairs = zip(simulation.scene.colliders, sample.colliders, strict=True)
        obstacles = {one.name: found.vertices for one, found in pairs}
    surface_vertices = {**(obstacles or {}), **frame.shapes}
    for first, kind, second in np.unique(history.keys[is_own_contact][:, [0, 1, 3]], axis=0):
        rows = np.flatnonzero(is_own_contact & (history.keys[:, [0, 1, 3]] == (first, kind, second)).all(axis=1))
        one, other = model.surfaces[first], model.surfaces[second]
        if one.name not in surface_vertices or other.name not in surface_vertices:
            continue
        own_points, other_points = (
            _surface_points(surface, surface_vertices[surface.name]) for surface in (one, other)
        )
        features, depths = history.keys[rows, 2], history.depths[rows]
        if kind == EDGE:
            edges, other_edges = model.edge_pairs(first, second, features)
            p, q = _closest_edge_points(own_points[edges], other_points[other_edges])
            inward_normals = -_outward_normals(one, own_points, edges[:, 0])
        else:
            vertices = model.touching_vertices(history.keys[rows])
            p = own_points[vertices]
            inward_normals = -_outward_normals(one, own_points, vertices)
            q = _touched_positions(p, inward_normals, (other, other_points), first == second)
        # Direction out of the touched surface; undefined on the surface itself.
        separation = (p - q) * np.where(depths > 0.0, -1.0, 1.0)[:, None]
        size = max(one.size, other.size if np.isfinite(other.size) else 0.0)
        has_direction = np.linalg.norm(separation, axis=1) > 1e-9 * size
        normal = np.where(has_direction[:, None], unit_vectors(separation), inward_normals)
        ends = int(model.visible_surface[first]), int(model.visible_surface[second])
        for place, sign, points, partner in ((ends[0], 1.0, p, ends[1]), (ends[1], -1.0, q, ends[0])):
            if place == block:
                partners = np.full(len(rows), partner)
                found.append((points, sign * normal, history.forces[rows], depths, partners))
    points, normals, forces, depth, others = (np.concatenate(parts) for parts in zip(*found, strict=True))
    return BodyContactForces(points, normals, forces, depth, others, names)


def _surface_points(surface: CollisionSurface, vertices: Array) -> Array:
    """Return the positions (p, 3) of a surface's points for its object's vertices (v, 3), in m."""
    return vertices if surface.animation_operator is None else np.asarray(surface.animation_operator @ vertices)


def _contact_history(system: System, state: State) -> ContactHistory:
    last_contacts = system.last_contacts(state)
    return ContactHistory() if last_contacts is None else last_contacts.contacts


def _rest_limit(simulation: Simulation, number: int, block: int, state: State) -> tuple[float, float]:
    """Return earliest_rest and swing_amplitude over the regions of a block, see BodyContactSummary."""
    system = simulation.islands[number].system
    last_contacts = system.last_contacts(state)
    if last_contacts is None or len(last_contacts.support_modes) != len(system.regions):
        # Pins that let go or catch divide the body into other regions, see simulation/pin_versions.py.
        return 0.0, 0.0
    laws, earliest_rest, swing = simulation.controls()[number].laws, 0.0, 0.0
    for place in system.regions_of(block):
        support = last_contacts.support_modes[place]
        if support is None:
            continue
        amplitudes, size = _mode_amplitudes(system, place, support, state)
        if amplitudes.max() > VISIBLE_PENETRATION * size:
            mode_shares = np.where(amplitudes > VISIBLE_PENETRATION * size, amplitudes, 0.0) / amplitudes.max()
            earliest_rest = max(earliest_rest, earliest_rest_time(support, laws[place], mode_shares))
            swing = max(swing, float(amplitudes.max()))
    return earliest_rest, swing


def _mode_amplitudes(system: System, region_index: int, support: SupportModes, state: State) -> tuple[Array, float]:
    """Return the amplitude (6,) of each rigid mode at its fastest node in m, and the region's size in m."""
    free = system.regions[region_index].free
    mass, x = system.mass[free], state.positions[free]
    offset = x - mass @ x / mass.sum()
    shapes = translation_rotation_fields(offset) @ support.shapes
    speeds = shapes.T @ (mass[:, None] * state.velocities[free]).ravel()
    largest = np.linalg.norm(shapes.reshape(-1, 3, 6), axis=1).max(axis=0)
    amplitudes = np.sqrt(support.compliance) * np.abs(speeds) * largest
    return np.asarray(amplitudes), float(np.linalg.norm(np.ptp(x, axis=0)))


def _penetrations(
    simulation: Simulation, model: ContactModel, number: int, block: int, history: ContactHistory
) -> tuple[Penetration, ...]:
    """Return the visible penetrations of a block, one for each partner."""
    size = model.surfaces[block].size
    # Edges are counted by their ends. Penetrations behind coarse faces are invisible.
    ends = history.keys[:, [0, 3]]
    is_deep = (history.depths > VISIBLE_PENETRATION * size) & (model.visible_surface[ends] == ends).all(axis=1)
    # Ignore self-intersections between pinned points, which the simulation cannot resolve.
    is_self_point = (history.keys[:, 1] != EDGE) & (history.keys[:, 0] == history.keys[:, 3])
    free = model.operator @ (~simulation.islands[number].system.is_fixed).astype(float)
    places = model.point_starts[history.keys[:, 0]] + np.where(is_self_point, model.touching_vertices(history.keys), 0)
    is_deep &= ~is_self_point | (free[places] > MIN_TOUCHED_WEIGHT)
    if not is_deep.any():
        return ()
    factors, found = simulation.stiffness_factors(number), []
    mine, theirs = is_deep & (history.keys[:, 0] == block), is_deep & (history.keys[:, 3] == block)
    for partner in np.unique(np.concatenate([history.keys[mine, 3], history.keys[theirs, 0]])):
        own_points, partner_points = mine & (history.keys[:, 3] == partner), theirs & (history.keys[:, 0] == partner)
        contacts = np.flatnonzero(own_points | partner_points)
        worst = contacts[history.depths[contacts].argmax()]
        strength = _contact_strength(model, history.keys[worst], factors)
        is_squeezed = bool(history.forces[worst] > _SQUEEZE_PRESSURE * strength)
        inside = (history.keys[:, 1] == POINT) & (history.keys[:, 0] != history.keys[:, 3])
        own_count = int((own_points & inside).sum()) if partner != block else int(own_points.sum())
        partner_count, depth = int((partner_points & inside).sum()), float(history.depths[worst])
        found.append(Penetration(model.surfaces[partner].name, own_count, partner_count, depth, is_squeezed))
    return tuple(found)


def _contact_strength(model: ContactModel, key: Index, factors: Array) -> float:
    """Return the Young's modulus times the area of a contact in N, as for its stiffness.

    key: (4,).  factors: (b,) stiffness factor of each block.
    """
    first, second = model.surfaces[key[0]], model.surfaces[key[3]]
    young = np.array([np.inf if one.is_collider else one.young * factors[one.block] for one in (first, second)])
    if key[1] != EDGE:
        return float(young.min() * first.areas[model.touching_vertices(key[None])[0]])
    ends = model.edge_pairs(key[0], key[3], key[2:3])
    areas = np.array([one.areas[pair].mean() for one, pair in zip((first, second), ends, strict=True)])
    is_unlike = model.are_unlike(key[None, [0, 3]])[0]
    return float((young * areas).min() if is_unlike else young.min() * areas.min())


def _outward_normals(surface: CollisionSurface, positions: Array, points: Index) -> Array:
    """Return outward normals (k, 3) at vertices."""
    if surface.is_plane:
        normal = np.cross(positions[1] - positions[0], positions[2] - positions[0])
        return np.tile(unit_vectors(normal[None]), (len(points), 1))
    return np.asarray(Triangles(positions, surface.triangles).vertex_normals[points])


def _touched_positions(
    points: Array, inward_normals: Array, other: tuple[CollisionSurface, Array], is_self_contact: bool
) -> Array:
    """Return the positions (k, 3) in m at which points (k, 3) touch a surface.

    inward_normals: (k, 3) of the points' own surface.
    """
    surface, positions = other
    if surface.is_plane:
        normal = _outward_normals(surface, positions, np.zeros(1, dtype=np.int64))[0]
        return np.asarray(points - ((points - positions[0]) @ normal)[:, None] * normal)
    triangles = Triangles(positions, surface.triangles)
    reach = _SEARCH_RADIUS * surface.size
    normals = -inward_normals if is_self_contact or surface.is_closed else None
    near = nearest_triangles(triangles, points, reach, normals=normals)
    found = points - 1e-3 * surface.size * inward_normals
    found[near.point] = points[near.point] - near.offset
    return np.asarray(found)


def _closest_edge_points(first: Array, second: Array) -> tuple[Array, Array]:
    """Return the closest points (k, 3) of pairs of edges with ends (k, 2, 3), in m."""
    a, b = first.astype(float), second.astype(float)
    s, t, _ = closest_points_of_lines(a[:, 0].T, (a[:, 1] - a[:, 0]).T, b[:, 0].T, (b[:, 1] - b[:, 0]).T)
    s, t = (np.clip(part, 0.0, 1.0)[:, None] for part in (s, t))
    return a[:, 0] + s * (a[:, 1] - a[:, 0]), b[:, 0] + t * (b[:, 1] - b[:, 0])
