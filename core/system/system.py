"""System of blocks that are solved together. It does not change from step to step."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from functools import cached_property

import numpy as np
from scipy.sparse import block_diag, bsr_matrix, csr_matrix, vstack

from ..base.arrays import Array, Index, Mask
from ..contact.contact_model import ContactModel
from ..geometry.mesh.rigid_motion import rigid_mode_basis
from ..materials import Energy, TetElasticity
from ..solvers.modes import smallest_eigenvalue
from .discretization import BodyDiscretization
from .inputs import Inputs
from .links import Links
from .region import Region, RegionStack, find_regions, longest_ways, node_adjacency, stack_regions
from .state import DeformationHistory, History, State, SystemContacts
from .term import ForceTerm, PinSprings, Potential, StiffnessScaling, pin_springs

# Weight of free nodes above which a touched point can give way.
MIN_TOUCHED_WEIGHT = 0.1

ActiveEnergy = tuple[int, StiffnessScaling, Energy]
"""Block index, scaling and energy of a force term in a step."""


@dataclass(frozen=True)
class BatchedEnergy:
    """Elastic energies of several blocks, evaluated in one batch.

    members: block index and energy of each block.  energy: of all of them, over the system's nodes.
    element_blocks: (m,) block index of each element.
    """

    members: tuple[tuple[int, TetElasticity], ...]
    energy: TetElasticity
    element_blocks: Index


@dataclass(frozen=True)
class System:
    """Blocks (discretised bodies and anchors) whose nodes are stacked to n nodes and may be connected by links.

    blocks: in the order in which their nodes are stacked.
    gravity: (3,) m/s^2.
    links: between nodes of different blocks; None if there are none.
    regions: connected components that deform independently.
    contact: contact model; None if contact is impossible.
    slices: range of each block's nodes among the n nodes.
    rest: (n, 3) m, of all blocks.
    mass: (n,) kg.
    pinned: (p,) nodes that follow targets, hard and soft.
    pin_stiffness: (p,) N/m, infinite for hard pins.
    """

    blocks: tuple[BodyDiscretization, ...]
    gravity: Array
    links: Links | None
    regions: tuple[Region, ...]
    contact: ContactModel | None = None
    slices: tuple[slice, ...] = field(init=False)
    rest: Array = field(init=False)
    mass: Array = field(init=False)
    pinned: Index = field(init=False)
    pin_stiffness: Array = field(init=False)

    def __post_init__(self) -> None:
        starts = np.cumsum([0, *(len(block.rest) for block in self.blocks)])
        pins = np.concatenate([block.pinned + start for block, start in zip(self.blocks, starts, strict=False)])
        stacked = {
            "slices": tuple(slice(int(a), int(b)) for a, b in itertools.pairwise(starts)),
            "rest": np.concatenate([block.rest for block in self.blocks]),
            "mass": np.concatenate([block.mass for block in self.blocks]),
            "pinned": pins.astype(np.int64),
            "pin_stiffness": np.concatenate([block.pin_stiffness for block in self.blocks]),
        }
        for name, value in stacked.items():
            object.__setattr__(self, name, value)

    @cached_property
    def batched_energies(self) -> tuple[BatchedEnergy, ...]:
        """Energies with equal material in batches: with many small bodies, calls cost more than arithmetic."""
        groups: list[list[tuple[int, TetElasticity]]] = []
        for place, block in enumerate(self.blocks):
            for energy in block.energies:
                if type(energy) is TetElasticity:
                    group = next((one for one in groups if one[0][1].has_same_material(energy)), None)
                    if group is None:
                        groups.append(group := [])
                    group.append((place, energy))
        return tuple(
            BatchedEnergy(
                tuple(group),
                TetElasticity.concatenate([(self.slices[k].start, one) for k, one in group], len(self.rest)),
                np.repeat([k for k, _ in group], [len(one.tets) for _, one in group]),
            )
            for group in groups
            if len(group) > 1
        )

    @cached_property
    def element_groups(self) -> list[Index]:
        """Node numbers (m, k) of the elements of all blocks, and (l, 2) of linked nodes."""
        groups = [
            group + part.start for block, part in zip(self.blocks, self.slices, strict=True) for group in block.groups
        ]
        return groups if self.links is None else [*groups, self.links.node_pairs]

    @cached_property
    def longest_ways(self) -> tuple[float, ...]:
        """Longest way through each region at rest, m, see longest_ways() in region.py."""
        # Elements that bend have more nodes than those that stretch, and join the ends of a bent part.
        groups = [
            group + part.start
            for block, part in zip(self.blocks, self.slices, strict=True)
            for group in block.groups
            if group.shape[1] <= block.groups[0].shape[1]
        ]
        if self.links is not None:
            groups.append(self.links.node_pairs)
        return longest_ways(self.regions, self.rest, node_adjacency(groups, len(self.rest)))

    @cached_property
    def region_stacks(self) -> tuple[RegionStack, ...]:
        """The regions, those of equal size together."""
        return stack_regions([one.free for one in self.regions], [self.held_nodes(one) for one in self.regions])

    def held_nodes(self, region: Region) -> Index:
        """Return the pins (p,) of a region that have places of their own. Hinges leave all nodes of a piece free."""
        held = region.constrained_nodes
        return held[~self.is_hinged[held]] if len(held) else held

    @property
    def name(self) -> str:
        """Name of the first block, which names the system in a history."""
        return self.blocks[0].name

    @property
    def is_fixed(self) -> Mask:
        """Mask of the hard-pinned nodes, (n,); these are not unknowns."""
        return np.concatenate([block.is_fixed for block in self.blocks])

    @cached_property
    def is_hinged(self) -> Mask:
        """Mask (n,) of the nodes of rigid pieces that turn about their pins."""
        found = np.zeros(len(self.rest), dtype=bool)
        for block, part in zip(self.blocks, self.slices, strict=True):
            if block.is_rigid:
                found[part][block.pinned] = np.isfinite(block.pin_stiffness)
        return found

    @cached_property
    def hinges(self) -> csr_matrix:
        """Weights (c, n) of the nodes at hard pins about which rigid pieces turn."""
        by_block = []
        for block in self.blocks:
            pins = [term.hinges for term in block.terms if isinstance(term, PinSprings)]
            by_block.append(vstack([csr_matrix((0, len(block.rest))), *(one for one in pins if one is not None)]))
        return block_diag(by_block, format="csr")

    def node_blocks(self) -> Index:
        """Return the block index of each node, (n,)."""
        return np.repeat(np.arange(len(self.blocks)), [len(block.rest) for block in self.blocks])

    def acceleration(self, inputs: Inputs, nodes: Index) -> Array:
        """Return the external acceleration of nodes (k,) in a step, (k, 3) m/s^2, or (3,) if it is uniform."""
        if all(one.acceleration is None for one in inputs):
            return self.gravity
        accelerations = np.empty_like(self.rest)
        for part, one in zip(self.slices, inputs, strict=True):
            accelerations[part] = self.gravity if one.acceleration is None else one.acceleration
        return accelerations[nodes]

    def regions_of(self, block: int) -> tuple[int, ...]:
        """Return the indices of the regions that contain free nodes of a block."""
        part = self.slices[block]
        return tuple(k for k, r in enumerate(self.regions) if ((r.free >= part.start) & (r.free < part.stop)).any())

    def touched_regions(self, state: State) -> frozenset[int]:
        """Return the indices of the regions on whose free nodes contacts may act in a state."""
        last = self.last_contacts(state)
        if self.contact is None or last is None or not len(last.contacts.keys) or not self.regions:
            return frozenset()
        is_touched = np.zeros(self.contact.point_count, dtype=bool)
        is_touched[self.contact.touched_points(last.contacts.keys)] = True
        points, regions = self._carried_points
        return frozenset(regions[is_touched[points]].tolist())

    @cached_property
    def _carried_points(self) -> tuple[Index, Index]:
        """Points (k,) of contact surfaces, and the regions (k,) whose free nodes carry them."""
        assert self.contact is not None
        nodes = np.concatenate([region.free for region in self.regions])
        places = np.repeat(np.arange(len(self.regions)), [len(region.free) for region in self.regions])
        membership = csr_matrix((np.ones(len(nodes)), (nodes, places)), shape=(len(self.rest), len(self.regions)))
        weights = (self.contact.operator @ membership).tocoo()
        is_carried = weights.data > MIN_TOUCHED_WEIGHT
        return weights.row[is_carried], weights.col[is_carried]

    def stationary_inputs(self, positions: Array | None = None) -> Inputs:
        """Return inputs that hold the pins at positions (n, 3), or at the rest shape."""
        return tuple(
            block.stationary_inputs(None if positions is None else positions[part])
            for block, part in zip(self.blocks, self.slices, strict=True)
        )

    def with_pins(self, positions: Array, inputs: Inputs) -> Array:
        """Return positions (n, 3) with the hard pins at the end positions of the inputs."""
        moved: Array = positions.copy()
        for block, part, one in zip(self.blocks, self.slices, inputs, strict=True):
            hard = np.isinf(block.pin_stiffness)
            moved[part][block.pinned[hard]] = one.end[hard]
        return moved

    def active_energies(self, state: State, inputs: Inputs) -> Iterator[ActiveEnergy]:
        """Yield the energy of each force term in a step."""
        for place, (block, block_inputs) in enumerate(zip(self.blocks, inputs, strict=True)):
            history = state.history.block(block.name)
            for term in block.terms:
                yield place, term.scaling, term.energy_for(block_inputs, history)

    def damping_matrix(self, history: History, positions: Array, factors: Array, inputs: Inputs) -> csr_matrix | None:
        """Return C (3n, 3n) N s/m of the terms' dampers and of the inputs' drag; None if there is neither.

        factors: (b,) stiffness factor of each block.
        """
        dampers, drag = self._dampers(history, positions, factors), _drag_matrix(self.blocks, inputs)
        return drag if dampers is None else dampers if drag is None else (dampers + drag).tocsr()

    def _dampers(self, history: History, positions: Array, factors: Array) -> csr_matrix | None:
        """Return the part of the terms, see ForceTerm.damping_matrix()."""
        if not any(
            type(term).damping_matrix is not ForceTerm.damping_matrix for block in self.blocks for term in block.terms
        ):
            return None
        parts, found = self._empty_matrices(), False
        for place, (block, part) in enumerate(zip(self.blocks, self.slices, strict=True)):
            block_history = history.block(block.name)
            for term in block.terms:
                damping = term.damping_matrix(block_history, positions[part])
                if damping is not None:
                    scaling = term.damping_scaling or term.scaling
                    scale = float(factors[place]) if scaling is StiffnessScaling.SCALED else 1.0
                    parts[place], found = parts[place] + scale * damping, True
        return block_diag(parts, format="csr") if found else None

    def _empty_matrices(self) -> list[csr_matrix]:
        """Return a zero matrix (3k, 3k) for each block of k nodes."""
        return [csr_matrix((3 * len(block.rest),) * 2) for block in self.blocks]

    def updated_history(self, history: History, positions: Array) -> History:
        """Return the history after a step that ends at positions (n, 3)."""
        for block, part in zip(self.blocks, self.slices, strict=True):
            own = history.block(block.name)
            changed = {
                name: value
                for term in block.terms
                if type(term).history_update is not ForceTerm.history_update
                for name, value in term.history_update(own, positions[part]).items()
            }
            if changed:
                history = history.with_block(block.name, replace(own, terms={**own.terms, **changed}))
        return history

    def deformation_history(self, state: State) -> DeformationHistory | None:
        """Return the deformation history of all nodes in a state; None if any block has none."""
        parts = [one for block in self.blocks if (one := state.history.block(block.name).deformation) is not None]
        return DeformationHistory.concatenate(parts) if len(parts) == len(self.blocks) else None

    def with_deformation(self, history: History, deformation: DeformationHistory) -> History:
        """Return a history with the deformation history of all nodes replaced."""
        for block, part in zip(self.blocks, self.slices, strict=True):
            own = replace(history.block(block.name), deformation=deformation.part(part))
            history = history.with_block(block.name, own)
        return history

    def last_contacts(self, state: State) -> SystemContacts | None:
        """Return the contact history of a state; None if no step with contacts preceded it."""
        return state.history.contacts.get(self.name)

    def with_term(self, term: ForceTerm, block: int = 0) -> System:
        """Return the system with an additional term on one of its blocks."""
        blocks = list(self.blocks)
        blocks[block] = replace(blocks[block], terms=(*blocks[block].terms, term))
        return replace(self, blocks=tuple(blocks))

    def elastic_energy(self, positions: Array, factors: Array | None = None) -> float:
        """Return the energy of the links and of all elasticity that does not depend on inputs, J.

        factors: (b,) stiffness factor of each block; 1 if None.
        """
        scale = np.ones(len(self.blocks)) if factors is None else factors
        parts = zip(self.blocks, self.slices, scale, strict=True)
        total = sum(float(f) * block.elastic_energy(positions[part]) for block, part, f in parts)
        return total + (self.links.value_gradient(positions, scale)[0] if self.links is not None else 0.0)

    def blocks_stiffness_at_rest(
        self, factors: Array | None = None, project: bool = True, node_weights: Array | None = None
    ) -> csr_matrix:
        """Return the Hessian of the blocks at rest without links, (3n, 3n) N/m.

        factors: (b,) stiffness factor of each block; 1 if None.
        node_weights: see BodyDiscretization.stiffness_at_rest().
        """
        scale = np.ones(len(self.blocks)) if factors is None else factors
        own = [
            f * block.stiffness_at_rest(project, None if node_weights is None else node_weights[nodes])
            for f, block, nodes in zip(scale, self.blocks, self.slices, strict=True)
        ]
        return _block_diagonal(own)

    def stiffness_at_rest(self, factors: Array, project: bool, node_weights: Array | None = None) -> csr_matrix:
        """Return the Hessian at rest with links, (3n, 3n) N/m. factors, node_weights: see blocks_stiffness_at_rest."""
        total = self.blocks_stiffness_at_rest(factors, project, node_weights)
        if self.links is not None:
            links = self.links if node_weights is None else self.links.with_nodal_scale(node_weights)
            total = total + links.hessian(self.rest, factors, project)
        return total.tocsr()

    def eigenvalue(self, region: Region, factors: Array) -> float:
        """Return lambda_1 of a region at rest without weight, 1/s^2. factors: (b,) stiffness factor of each block."""
        region_factors = factors[np.unique(self.node_blocks()[region.free])]
        if (region_factors == region_factors[0]).all():
            return float(region_factors[0] * region.eigenvalue)
        stiffness = self.stiffness_at_rest(factors, False)
        rigid_count = rigid_mode_basis(
            self.rest[region.free], self.rest[region.constrained_nodes], self.mass[region.free]
        ).shape[2]
        is_net = not region.has_elastic_stiffness
        return max(smallest_eigenvalue(stiffness, self.mass, region.free, rigid_count, is_net, self.rest), 0.0)

    def effective_eigenvalue(self, region: Region, factors: Array) -> float:
        """Return lambda_1 of a region with the contribution of the weight, 1/s^2."""
        return region.effective_eigenvalue(self.eigenvalue(region, factors))

    def tangent(self, state: State, factors: Array, project: bool = False) -> csr_matrix:
        """Return the tangent stiffness (3n, 3n) N/m in a state: the Hessian of all energies, with the pins in place."""
        inputs = self.stationary_inputs(state.positions)
        parts = self._empty_matrices()
        for place, scaling, energy in self.active_energies(state, inputs):
            scale = factors[place] if scaling is StiffnessScaling.SCALED else 1.0
            parts[place] = parts[place] + scale * energy.hessian(state.positions[self.slices[place]], project)
        total = _block_diagonal(parts)
        if self.links is not None:
            total = total + self.links.hessian(state.positions, factors, project)
        return total.tocsr()


def _block_diagonal(parts: list[csr_matrix]) -> csr_matrix:
    return parts[0] if len(parts) == 1 else block_diag(parts, format="csr")


def _drag_matrix(blocks: tuple[BodyDiscretization, ...], inputs: Inputs) -> csr_matrix | None:
    """Return the drag of the inputs, (3n, 3n) N s/m; None if there is none."""
    if all(one.drag is None for one in inputs):
        return None
    pairs = zip(blocks, inputs, strict=True)
    drag = np.concatenate([np.zeros((len(b.rest), 3, 3)) if one.drag is None else one.drag for b, one in pairs])
    count = len(drag)
    return bsr_matrix((drag, np.arange(count), np.arange(count + 1)), shape=(3 * count,) * 2).tocsr()


def build_system(
    rest: Array,
    elements: Index,
    mass: Array,
    energies: tuple[Energy, ...],
    gravity: Array,
    pinned: Index,
    pin_stiffness: Array,
    has_eigenvalues: bool = True,
) -> System:
    """Return a system of one block, see assemble_system."""
    terms = (*(Potential(energy) for energy in energies), *pin_springs(pinned, pin_stiffness))
    block = BodyDiscretization("Body", rest, mass, (elements,), terms, pinned, pin_stiffness)
    return assemble_system((block,), gravity, None, has_eigenvalues)


def assemble_system(
    blocks: tuple[BodyDiscretization, ...], gravity: Array, links: Links | None, has_eigenvalues: bool = True
) -> System:
    """Assemble blocks and find their regions.

    has_eigenvalues: whether to compute first eigenvalues; False for scenes of unconnected elements.
    """
    unconnected = System(blocks, gravity, links, ())
    stiffness = unconnected.stiffness_at_rest(np.ones(len(blocks)), False) if has_eigenvalues else None
    is_soft = np.zeros(len(unconnected.rest), dtype=bool)
    is_soft[unconnected.pinned[np.isfinite(unconnected.pin_stiffness)]] = True
    keeps_pendulum_free, is_net, is_sheet = (
        np.concatenate([np.broadcast_to(getattr(block, name), len(block.rest)) for block in blocks])
        for name in ("keeps_pendulum_free", "is_net", "is_sheet")
    )
    regions = find_regions(
        unconnected.rest,
        unconnected.element_groups,
        unconnected.mass,
        stiffness,
        unconnected.is_fixed,
        is_soft,
        keeps_pendulum_free,
        is_net,
        is_sheet,
    )
    return System(blocks, gravity, links, regions)
