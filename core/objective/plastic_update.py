"""Plastic update at the end of a step (docs/explanation/physics/09-plasticity.md)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from ..base.arrays import Array
from ..materials.plastic_flow import YieldSurface
from ..system.discretization import BodyDiscretization
from ..system.material_terms import PlasticTerm
from ..system.state import BlockHistory, History, State
from ..system.system import System

# Flow changes up to this value in every component are ignored.
_FLOW_TOLERANCE = 1e-10
# Mean change of plastic strain in a term's elements that requires a new stiffness at rest.
_STIFFNESS_UPDATE_STRAIN = 0.2


@dataclass(frozen=True)
class PlasticUpdate:
    """Plastic update of a block at the end of a step.

    yield_surface: None if the block does not flow.
    reset: whether the plastic strain is removed.
    """

    yield_surface: YieldSurface | None = None
    reset: bool = False


def initial_plastic_state(block: BodyDiscretization) -> BlockHistory:
    """Return the plastic history of a block at the start of a shot; empty if no element can flow."""
    return BlockHistory(terms={term.name: term.current_flow(BlockHistory()) for term in plastic_terms(block)})


def plastic_terms(block: BodyDiscretization) -> list[PlasticTerm]:
    """Return the terms of a block whose elements can flow."""
    return [term for term in block.terms if isinstance(term, PlasticTerm)]


def has_plastic_flow(block: BodyDiscretization, history: History) -> bool:
    """Return whether a history contains plastic flow of a block, present or past."""
    return any(term.name in history.block(block.name).terms for term in plastic_terms(block))


def apply_plastic_flow(system: System, state: State, updates: Sequence[PlasticUpdate]) -> State:
    """Apply the plastic update at the end of a step.

    Positions stay unchanged. The elastic force in the history of the waveform law becomes that of the updated flow.

    updates: of the first blocks; other blocks do not flow.
    """
    history = state.history
    for block_index, update in enumerate(updates):
        if update.yield_surface is None and not update.reset:
            continue
        block, positions = system.blocks[block_index], state.positions[system.slices[block_index]]
        for term in plastic_terms(block):
            block_history = history.block(block.name)
            before = term.current_flow(block_history)
            after = before
            if update.reset:
                after = term.flow.zero_flow()
            elif update.yield_surface is not None:
                after = term.flow.updated_flow(before, positions, update.yield_surface)
            if np.abs(after - before).max(initial=0.0) <= _FLOW_TOLERANCE:
                continue
            force_change = -term.energy_from_history(block_history).value_gradient(positions)[1]
            history = history.with_block(
                block.name, replace(block_history, terms={**block_history.terms, term.name: after})
            )
            force_change = force_change + term.energy_after(after).value_gradient(positions)[1]
            history = _with_force_change(system, history, block_index, force_change)
    return state if history is state.history else replace(state, history=history)


def _with_force_change(system: System, history: History, place: int, change: Array) -> History:
    """Return the history after a block's elastic force changed by (n, 3) N without motion, over its stiffness factor.

    The rate of the force stays: plastic flow is no motion. Sleeping blocks wake up.
    """
    for k, block in enumerate(system.blocks):
        own = history.block(block.name)
        if own.deformation is not None:
            force = own.deformation.elastic_gradient
            deformation = replace(
                own.deformation,
                elastic_gradient=force + change if k == place and force is not None else force,
            )
            history = history.with_block(block.name, replace(own, deformation=deformation, sleep=None))
    return history


def commit_plastic_rest_shape(system: System, state: State) -> State:
    """Update the flow that defines the stiffness at rest, at the end of a frame.

    The decision depends on the plastic flow alone, so an interrupted bake resumes identically.
    """
    history = state.history
    for block in system.blocks:
        own = history.block(block.name)
        terms = [term for term in plastic_terms(block) if term.name in own.terms]
        is_stale = False
        for term in terms:
            reference = own.reference_flows.get(term.name, term.flow.zero_flow())
            amounts = term.flow.equivalent_strain(own.terms[term.name], reference)
            is_stale = is_stale or float(amounts.mean() if len(amounts) else 0.0) > _STIFFNESS_UPDATE_STRAIN
        if is_stale:
            is_modelled = all(np.array_equal(own.terms[term.name], term.flow.zero_flow()) for term in terms)
            flows = {} if is_modelled else {term.name: own.terms[term.name] for term in terms}
            history = history.with_block(block.name, replace(own, reference_flows=flows))
    return replace(state, history=history)
