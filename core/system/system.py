"""System of blocks that are solved together. Its data stays constant between steps."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from functools import cached_property

import numpy as np
from scipy.sparse import block_diag, csr_matrix

from ..arrays import Array, Index, Mask
from ..contact.model import ContactModel
from ..energies import Energy, TetElasticity
from ..geometry.rigid import rigid_basis
from ..solvers.modes import smallest_eigenvalue
from .block import Block
from .inputs import Inputs
from .links import Joints
from .region import Region, find_regions
from .state import OF, State, remembered_by
from .term import Factor, Memory, Potential, Term, pin_springs


@dataclass(frozen=True)
class Joined:
    """Elastic energies of several blocks, evaluated in one batch.

    members: block index and energy of each block.  energy: of all of them, over the system's nodes.
    element_blocks: (m,) block index of each element.
    """

    parts: tuple[tuple[int, TetElasticity], ...]
    energy: TetElasticity
    block: Index


@dataclass(frozen=True)
class System:
    """Blocks stacked to one vector of n nodes and connected by links.

    blocks: in the order of the stack.
    gravity: (3,) m/s^2.
    links: between nodes of different blocks; None if there are none.
    regions: connected components that deform independently.
    contact: contact model; None if contact is impossible.
    slices: node range of each block in the stack.
    rest: (n, 3) m, of all blocks.
    mass: (n,) kg.
    pinned: (p,) nodes that follow targets, hard and soft.
    pin_stiffness: (p,) N/m, infinite for hard pins.
    """

    blocks: tuple[Block, ...]
    gravity: Array
    joints: Joints | None
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
    def joined(self) -> tuple[Joined, ...]:
        """Batches of energies with equal material. For many small bodies, calls cost more than arithmetic."""
        groups: list[list[tuple[int, TetElasticity]]] = []
        for place, block in enumerate(self.blocks):
            for energy in block.energies:
                if type(energy) is TetElasticity:
                    group = next((one for one in groups if one[0][1].alike(energy)), None)
                    if group is None:
                        groups.append(group := [])
                    group.append((place, energy))
        return tuple(
            Joined(
                tuple(group),
                TetElasticity.joined([(self.slices[k].start, one) for k, one in group], len(self.rest)),
                np.repeat([k for k, _ in group], [len(one.tets) for _, one in group]),
            )
            for group in groups
            if len(group) > 1
        )

    @property
    def fixed(self) -> Mask:
        """Mask of the hard-pinned nodes, (n,); these are not unknowns."""
        return np.concatenate([block.fixed for block in self.blocks])

    @property
    def hard(self) -> Index:
        """Hard-pinned nodes in the stack."""
        return np.asarray(self.pinned[np.isinf(self.pin_stiffness)])

    def owner(self) -> Index:
        """Return the block index of each node, (n,)."""
        return np.repeat(np.arange(len(self.blocks)), [len(block.rest) for block in self.blocks])

    def pull(self, inputs: Inputs, nodes: Index) -> Array:
        """Return the external acceleration of nodes (k,) in a step, (k, 3) m/s^2, or (3,) if it is uniform."""
        if all(one.pull is None for one in inputs):
            return self.gravity
        whole = np.empty_like(self.rest)
        for part, one in zip(self.slices, inputs, strict=True):
            whole[part] = self.gravity if one.pull is None else one.pull
        return whole[nodes]

    def regions_of(self, block: int) -> tuple[int, ...]:
        """Return the indices of regions with free nodes of a block."""
        part = self.slices[block]
        return tuple(k for k, r in enumerate(self.regions) if ((r.free >= part.start) & (r.free < part.stop)).any())

    def still(self, positions: Array | None = None) -> Inputs:
        """Return inputs that hold the pins at positions (n, 3), or at the rest shape."""
        return tuple(
            block.still(None if positions is None else positions[part])
            for block, part in zip(self.blocks, self.slices, strict=True)
        )

    def placed(self, positions: Array, inputs: Inputs) -> Array:
        """Return positions (n, 3) with the hard pins at the end positions of the inputs."""
        there: Array = positions.copy()
        for block, part, one in zip(self.blocks, self.slices, inputs, strict=True):
            hard = np.isinf(block.pin_stiffness)
            there[part][block.pinned[hard]] = one.end[hard]
        return there

    def prepared(self, state: State, inputs: Inputs) -> Iterator[tuple[int, Factor, Energy]]:
        """Yield block index, scaling and energy of each force term in a step."""
        for place, (block, one) in enumerate(zip(self.blocks, inputs, strict=True)):
            memory = remembered_by(state.memory, block.name)
            for term in block.terms:
                yield place, term.factor, term.prepare(one, memory)

    def drag(self, memory: Memory, positions: Array, factors: Array) -> csr_matrix | None:
        """Return C (3n, 3n) N s/m of the terms' dampers; None if there are none. See ForceTerm.damping_matrix.

        factors: (b,) stiffness factor of each block.
        """
        if not any(type(term).drag is not Term.drag for block in self.blocks for term in block.terms):
            return None
        parts, found = [csr_matrix((3 * len(block.rest),) * 2) for block in self.blocks], False
        for place, (block, part) in enumerate(zip(self.blocks, self.slices, strict=True)):
            memory_of = remembered_by(memory, block.name)
            for term in block.terms:
                own = term.drag(memory_of, positions[part])
                if own is not None:
                    scale = float(factors[place]) if term.factor is Factor.MATERIAL else 1.0
                    parts[place], found = parts[place] + scale * own, True
        return block_diag(parts, format="csr") if found else None

    def remembered(self, memory: Memory, positions: Array) -> Memory:
        """Return the history after a step that ends at positions (n, 3)."""
        changed = {
            f"{block.name}{OF}{name}": value
            for block, part in zip(self.blocks, self.slices, strict=True)
            for term in block.terms
            if type(term).remember is not Term.remember
            for name, value in term.remember(remembered_by(memory, block.name), positions[part]).items()
        }
        return {**memory, **changed} if changed else memory

    def with_term(self, term: Term, block: int = 0) -> System:
        """Return the system with an additional term on one of its blocks."""
        blocks = list(self.blocks)
        blocks[block] = replace(blocks[block], terms=(*blocks[block].terms, term))
        return replace(self, blocks=tuple(blocks))

    def elastic_energy(self, positions: Array, factors: Array | None = None) -> float:
        """Return the energy of links and of elasticity independent of inputs, J.

        factors: (b,) stiffness factor of each block, 1 if None.
        """
        scale = np.ones(len(self.blocks)) if factors is None else factors
        parts = zip(self.blocks, self.slices, scale, strict=True)
        total = sum(float(f) * block.elastic_energy(positions[part]) for block, part, f in parts)
        return total + (self.joints.value_gradient(positions, scale)[0] if self.joints is not None else 0.0)

    def blocks_at_rest(
        self, factors: Array | None = None, project: bool = True, parts: Array | None = None
    ) -> csr_matrix:
        """Return the Hessian of the blocks at rest without links, (3n, 3n) N/m.

        factors: (b,) stiffness factor of each block, 1 if None.  node_weights: see
            BodyDiscretization.stiffness_at_rest.
        """
        scale = np.ones(len(self.blocks)) if factors is None else factors
        own = [
            f * block.stiffness_at_rest(project, None if parts is None else parts[nodes])
            for f, block, nodes in zip(scale, self.blocks, self.slices, strict=True)
        ]
        return own[0] if len(own) == 1 else block_diag(own, format="csr")

    def stiffness_at_rest(self, factors: Array, project: bool, parts: Array | None = None) -> csr_matrix:
        """Return the Hessian at rest with links, (3n, 3n) N/m. factors, node_weights: see blocks_stiffness_at_rest."""
        total = self.blocks_at_rest(factors, project, parts)
        if self.joints is not None:
            joints = self.joints if parts is None else self.joints.scaled(parts)
            total = total + joints.hessian(self.rest, factors, project)
        return total.tocsr()

    def eigenvalue(self, region: Region, factors: Array) -> float:
        """Return lambda_1 of a region at rest without weight, 1/s^2. factors: (b,) stiffness factor of each block."""
        own = factors[np.unique(self.owner()[region.free])]
        if (own == own[0]).all():
            return float(own[0] * region.eigenvalue)
        stiffness = self.stiffness_at_rest(factors, False)
        left = rigid_basis(self.rest[region.free], self.rest[region.held], self.mass[region.free]).shape[2]
        return max(smallest_eigenvalue(stiffness, self.mass, region.free, left, not region.stiff, self.rest), 0.0)

    def eigenvalue_at(self, region: Region, factors: Array) -> float:
        """Return lambda_1 of a region with the contribution of the weight, 1/s^2."""
        return region.with_weight(self.eigenvalue(region, factors))

    def elastic_force(self, state: State, factors: Array) -> Array:
        """Return the gradient of the elastic energies in a state, (n, 3) N.

        factors: (b,) stiffness factor of each block.
        """
        found = np.zeros_like(state.positions)
        for place, factor, energy in self.prepared(state, self.still(state.positions)):
            if factor is Factor.MATERIAL:
                part = self.slices[place]
                found[part] += factors[place] * energy.value_gradient(state.positions[part])[1]
        return found

    def tangent(self, state: State, factors: Array, project: bool = False) -> csr_matrix:
        """Return the Hessian of all energies in a state with the pins at its positions, (3n, 3n) N/m."""
        inputs = self.still(state.positions)
        parts = []
        found = list(self.prepared(state, inputs))
        for place, (block, part) in enumerate(zip(self.blocks, self.slices, strict=True)):
            own = csr_matrix((3 * len(block.rest), 3 * len(block.rest)))
            for where, factor, energy in found:
                if where == place:
                    scale = factors[place] if factor is Factor.MATERIAL else 1.0
                    own = own + scale * energy.hessian(state.positions[part], project)
            parts.append(own)
        total = parts[0] if len(parts) == 1 else block_diag(parts, format="csr")
        if self.joints is not None:
            total = total + self.joints.hessian(state.positions, factors, project)
        return total.tocsr()


def build_system(
    rest: Array,
    elements: Index,
    mass: Array,
    energies: tuple[Energy, ...],
    gravity: Array,
    pinned: Index,
    pin_stiffness: Array,
    modal: bool = True,
) -> System:
    """Return a system of one block, see assemble_system."""
    terms = (*(Potential(energy) for energy in energies), *pin_springs(pinned, pin_stiffness))
    return assemble((Block("Body", rest, mass, (elements,), terms, pinned, pin_stiffness),), gravity, None, modal)


def assemble(blocks: tuple[Block, ...], gravity: Array, joints: Joints | None, modal: bool = True) -> System:
    """Assemble blocks and find their regions.

    has_eigenvalues: whether to compute first eigenvalues, which separate elements do not have.
    """
    bare = System(blocks, gravity, joints, ())
    stiffness = bare.stiffness_at_rest(np.ones(len(blocks)), False) if modal else None
    groups = [group + part.start for block, part in zip(blocks, bare.slices, strict=True) for group in block.groups]
    pairs = joints.pairs if joints is not None else np.zeros((0, 2), dtype=np.int64)
    soft = np.zeros(len(bare.rest), dtype=bool)
    soft[bare.pinned[np.isfinite(bare.pin_stiffness)]] = True
    swings, net, sheet = (
        np.concatenate([np.full(len(block.rest), getattr(block, name)) for block in blocks])
        for name in ("swings", "net", "is_sheet")
    )
    regions = find_regions(bare.rest, [*groups, pairs], bare.mass, stiffness, bare.fixed, soft, swings, net, sheet)
    return System(blocks, gravity, joints, regions)
