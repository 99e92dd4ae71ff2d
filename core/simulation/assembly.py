"""Assembly of a scene into systems: each body becomes a block, and linked or touching bodies form an island."""

from __future__ import annotations

from collections.abc import Mapping, Sequence, Set
from dataclasses import dataclass, replace
from itertools import pairwise

import numpy as np
from scipy.sparse import coo_matrix
from scipy.sparse.csgraph import connected_components

from ..base.arrays import Array, Index
from ..base.computation import StageProgress
from ..base.errors import ResolutionError
from ..bodies import kind_by_name
from ..bodies.kind import BASE_YOUNG, Model
from ..bodies.pieces import build_model
from ..bodies.surface_binding import SurfaceBinding
from ..scene.body import Body
from ..scene.fingerprint import body_fingerprint
from ..scene.scene import Link, LinkPoint, Scene
from ..system.discretization import BodyDiscretization
from ..system.links import COINCIDENCE_TOLERANCE, Links, rigid_stiffness
from ..system.state import State
from ..system.system import System, assemble_system
from .contact_setup import build_contact_model

# First eigenvalues below this fraction of (speed of sound / size)^2 count as zero.
_ZERO_EIGENVALUE = 1e-9


@dataclass(frozen=True)
class AnchorBinding:
    """Nodes that follow an anchor object and hold the ends of links.

    anchor: index in the scene's anchors.
    binding: how the nodes follow it.
    """

    anchor: int
    binding: SurfaceBinding


@dataclass(frozen=True)
class Island:
    """Bodies that are solved together because they are linked or can touch each other.

    bodies: scene indices of the bodies; these are the system's first blocks.
    anchors: one for each of the remaining blocks.
    node_slice: the island's nodes in the state of the scene.
    """

    system: System
    bodies: tuple[int, ...]
    anchors: tuple[AnchorBinding, ...]
    node_slice: slice

    def extract_state(self, state: State) -> State:
        """Return the island's part of a scene's state."""
        return state.subset(self.node_slice, [block.name for block in self.system.blocks])


@dataclass(frozen=True)
class Assembly:
    """Models and systems that are built once per scene.

    models: of the bodies, in the scene's order.
    islands: each body belongs to exactly one.
    """

    models: tuple[Model, ...]
    islands: tuple[Island, ...]

    def island_and_block(self, body: int) -> tuple[int, int]:
        """Return the index of a body's island, and the index of its block there."""
        for number, one in enumerate(self.islands):
            if body in one.bodies:
                return number, one.bodies.index(body)
        raise ValueError(f"no island has a body {body}")

    def node_slice_of(self, body: int) -> slice:
        """Return the slice of a body's nodes in the state of the scene."""
        number, block = self.island_and_block(body)
        island = self.islands[number]
        part, start = island.system.slices[block], island.node_slice.start
        return slice(start + part.start, start + part.stop)


def build_assembly(
    scene: Scene, known_models: Mapping[str, Model] | None = None, progress: StageProgress | None = None
) -> Assembly:
    """Build the models and islands of a scene.

    known_models: reusable models by scene.fingerprint.body_fingerprint.
    Raises a DampSimError that the user can fix.
    """
    models, progress = [], progress or StageProgress()
    for body in scene.bodies:
        progress.begin(f"the simulation mesh of {body.name}")
        kind_by_name(body.kind).check(body)
        mark = body_fingerprint(body)
        models.append(known_models[mark] if known_models and mark in known_models else build_model(body))
    islands: list[Island] = []
    start = 0
    for bodies in _connected_bodies(scene):
        names = [scene.bodies[k].name for k in bodies]
        links = [link for link in scene.links if not {link.first.owner, link.second.owner}.isdisjoint(names)]
        progress.begin(f"the natural frequency of {', '.join(scene.bodies[k].name for k in bodies)}")
        known_blocks = {block.name for one in islands for block in one.system.blocks}
        island = _mark_loose_regions(scene, _build_island(scene, models, bodies, links, start, known_blocks))
        islands.append(island)
        start = island.node_slice.stop
    return Assembly(tuple(models), tuple(islands))


def check_buildable(body: Body) -> None:
    """Raise the error because of which a body cannot be simulated, even alone. Takes as long as building its model."""
    build_assembly(Scene((body,), 24.0, np.zeros(3), 1, 1))


def rebuild_islands(scene: Scene, assembly: Assembly) -> Assembly:
    """Return the assembly with its islands rebuilt from its models. Node counts must not have changed."""
    islands = []
    for island in assembly.islands:
        blocks = [assembly.models[k].block for k in island.bodies] + list(island.system.blocks[len(island.bodies) :])
        system = assemble_system(tuple(blocks), scene.gravity, island.system.links)
        system = replace(system, contact=build_contact_model(scene, assembly.models, island.bodies, system))
        islands.append(_mark_loose_regions(scene, replace(island, system=system)))
    return Assembly(assembly.models, tuple(islands))


def _connected_bodies(scene: Scene) -> list[tuple[int, ...]]:
    """Return groups of body indices that are linked or can touch each other, ordered by their first member."""
    place = {body.name: k for k, body in enumerate(scene.bodies)}
    pairs = [
        (place[a.owner], place[b.owner])
        for a, b in (link.points for link in scene.links)
        if a.owner in place and b.owner in place
    ]
    pairs += pairwise(k for k, body in enumerate(scene.bodies) if body.settings.touch_together)
    rows, columns = np.array(pairs, dtype=np.int64).reshape(-1, 2).T
    count = len(scene.bodies)
    graph = coo_matrix((np.ones(len(rows)), (rows, columns)), shape=(count, count))
    _, labels = connected_components(graph, directed=False)
    return [tuple(int(k) for k in np.flatnonzero(labels == label)) for label in dict.fromkeys(labels.tolist())]


def _build_island(
    scene: Scene,
    models: Sequence[Model],
    bodies: tuple[int, ...],
    links: Sequence[Link],
    start: int,
    used_block_names: Set[str],
) -> Island:
    """Build the island of some bodies.

    start: index of its first node in the scene's state.
    used_block_names: block names of other islands; history is stored per block name, so names must be unique.
    """
    blocks = [models[k].block for k in bodies]
    names = [scene.bodies[k].name for k in bodies]
    anchors = []
    for number, collider in enumerate(scene.anchors):
        points = np.array([place.point for link in links for place in link.points if place.owner == collider.name])
        if len(points):
            name = collider.name if collider.name not in used_block_names else f"{collider.name}, {names[0]}"
            nodes, held = np.arange(len(points)), np.full(len(points), np.inf)
            blocks.append(BodyDiscretization(name, points, np.ones(len(points)), (), (), nodes, held))
            binding = SurfaceBinding.bind(points, collider.vertices, np.arange(len(collider.vertices)))
            anchors.append(AnchorBinding(number, binding))
            names.append(collider.name)
    joints = _build_links(links, names, blocks, [models[k] for k in bodies]) if links else None
    system = assemble_system(tuple(blocks), scene.gravity, joints)
    system = replace(system, contact=build_contact_model(scene, models, bodies, system))
    return Island(system, bodies, tuple(anchors), slice(start, start + len(system.rest)))


def _build_links(
    links: Sequence[Link], names: Sequence[str], blocks: Sequence[BodyDiscretization], models: Sequence[Model]
) -> Links:
    """Return the links with their end points as weighted means of the stacked nodes."""
    starts = np.cumsum([0, *(len(block.rest) for block in blocks)])
    node_stiffness = [_node_stiffness(block) for block in blocks]
    used_points = [0] * len(blocks)
    rows, columns, values, owners, node_strengths, lengths = [], [], [], [], [], []

    def attachment(place: LinkPoint) -> tuple[int, Index, Array]:
        block = names.index(place.owner)
        if block < len(models):
            nodes, weights = models[block].skin.weights_for_points(place.point[None])
            return block, nodes[0], weights[0]
        used_points[block] += 1
        return block, np.array([used_points[block] - 1]), np.ones(1)

    rest = np.concatenate([block.rest for block in blocks])
    for row, link in enumerate(links):
        offset, ends, strength = np.zeros(3), [], 0.0
        for place, sign in zip(link.points, (1.0, -1.0), strict=True):
            block, nodes, weights = attachment(place)
            columns_of_end = nodes + starts[block]
            rows += [row] * len(columns_of_end)
            columns += columns_of_end.tolist()
            values += (sign * weights).tolist()
            offset += sign * weights @ rest[columns_of_end]
            strength = max(strength, float(node_stiffness[block][nodes].max(initial=0.0)))
            ends.append(block)
        owners.append(ends)
        rest_length, size = float(np.linalg.norm(offset)), max(block.size for block in blocks)
        lengths.append(rest_length if rest_length > COINCIDENCE_TOLERANCE * size else 0.0)
        node_strengths.append(strength)
    difference = coo_matrix((values, (rows, columns)), shape=(len(links), len(rest))).tocsr()
    rigid = np.array([link.stiffness is None for link in links])
    soft = np.array([link.stiffness or 0.0 for link in links])
    stiffness = np.where(rigid, rigid_stiffness(np.array(node_strengths)), soft)
    return Links(difference, stiffness, np.array(lengths), rigid, np.array(owners, dtype=np.int64))


def _node_stiffness(block: BodyDiscretization) -> Array:
    """Return the stiffness (n,) in N/m with which elements at rest resist moving each node alone."""
    if not block.groups:
        return np.zeros(len(block.rest))
    return np.asarray(block.stiffness_at_rest(True).diagonal().reshape(-1, 3).max(axis=1))


def _mark_loose_regions(scene: Scene, island: Island) -> Island:
    """Return the island with every region marked as not stiff in which links let bodies rotate freely about each other.

    Raises ResolutionError if a part of a solid itself is connected by less than a face.
    """
    system, regions = island.system, []
    owner = system.node_blocks()
    for region in system.regions:
        blocks = np.unique(owner[region.free])
        is_loose = region.has_elastic_stiffness and not region.eigenvalue > max(
            _eigenvalue_threshold(scene, island, block) for block in blocks
        )
        if is_loose:
            single_systems = [system]
            if system.links:
                single_systems = [assemble_system((system.blocks[k],), scene.gravity, None) for k in blocks]
            for block, one in zip(blocks, single_systems, strict=True):
                eigenvalues = [part.eigenvalue for part in one.regions if part.has_elastic_stiffness]
                if any(not value > _eigenvalue_threshold(scene, island, block) for value in eigenvalues):
                    message = (
                        f"{system.blocks[block].name}: a part of it is connected by less than a face. Raise Resolution "
                        "or pin more of it."
                    )
                    raise ResolutionError(message, 2.0)
        regions.append(replace(region, has_elastic_stiffness=False) if is_loose else region)
    return replace(island, system=replace(system, regions=tuple(regions)))


def _eigenvalue_threshold(scene: Scene, island: Island, block: int) -> float:
    """Return the first eigenvalue of a body in 1/s^2 below which it counts as zero."""
    body = scene.bodies[island.bodies[block]]
    return _ZERO_EIGENVALUE * BASE_YOUNG / body.settings.density / body.surface.size**2
