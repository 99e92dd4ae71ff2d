"""State of a system between two steps, and its history: what the next step needs to know of earlier ones.

Frame files store the history as named arrays, see frames/frame.py.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from ..base.arrays import Array, Mask
from ..contact.contact_history import ContactHistory, Impact, SupportModes


@dataclass(frozen=True)
class DeformationHistory:
    """Deformation history of the waveform law at the end of a step, of one block or of all b blocks of a system.

    See docs/explanation/physics/02-settle-law.md.

    velocity: (n, 3) m/s, of the deformation alone.
    elastic_gradient: (n, 3) N, gradient of the elastic energy over each block's stiffness factor; None if it has to be
        recomputed.
    force_rate: (n, 3) N/s, its rate of change during the step; None likewise.
    """

    velocity: Array
    elastic_gradient: Array | None
    force_rate: Array | None

    @staticmethod
    def concatenate(parts: Sequence[DeformationHistory]) -> DeformationHistory:
        """Concatenate the histories of consecutive blocks."""
        forces = [one.elastic_gradient for one in parts if one.elastic_gradient is not None]
        rates = [one.force_rate for one in parts if one.force_rate is not None]
        return DeformationHistory(
            np.concatenate([one.velocity for one in parts]),
            np.concatenate(forces) if len(forces) == len(parts) else None,
            np.concatenate(rates) if len(rates) == len(parts) else None,
        )

    def part(self, nodes: slice) -> DeformationHistory:
        """Return the history of a block, given by its nodes."""
        return DeformationHistory(
            self.velocity[nodes],
            None if self.elastic_gradient is None else self.elastic_gradient[nodes],
            None if self.force_rate is None else self.force_rate[nodes],
        )


@dataclass(frozen=True)
class YarnHistory:
    """Yarns of woven cloth at the end of a step, two at each crossing.

    positions: (p,) m, sliding positions.
    anchors: (p,) m, of friction.
    normal_forces: (p,) N.
    speeds: (p,) m/s, of sliding; None at rest.
    """

    positions: Array
    anchors: Array
    normal_forces: Array
    speeds: Array | None = None

    @staticmethod
    def at_rest(positions: Array) -> YarnHistory:
        """Return yarns at rest without friction at positions (p,) m."""
        return YarnHistory(positions, positions, np.zeros(len(positions)))


@dataclass(frozen=True)
class SleepCounter:
    """Counter of the still steps of a block, and its inputs in them; see objective/sleep.py.

    still_steps: number of consecutive still steps.
    dial_values: (k,) stiffness factor and settings of yarns in them.
    acceleration: external acceleration in them, see BlockInputs.
    """

    still_steps: float
    dial_values: Array
    acceleration: Array | None


@dataclass(frozen=True)
class MuscleHistory:
    """Switches of the muscles of a block. is_on: (m,).  due_ticks: (m,) ticks for which each was due to switch."""

    is_on: Mask
    due_ticks: Array


@dataclass(frozen=True)
class ContractionLag:
    """Lag of fibres behind their keyed contraction, see settle/contraction_lag.py.

    lag: e.  lag_rate: e' in 1/s.  keyed_rate: r' of the last step in 1/s.
    """

    lag: float = 0.0
    lag_rate: float = 0.0
    keyed_rate: float = 0.0


@dataclass(frozen=True)
class Catch:
    """Motion of caught nodes onto their pins' targets, see simulation/pin_changes.py.

    offsets: (n, 3) m, from the target at the time of the catch; zero for nodes that were not caught.
    velocities: (n, 3) m/s, relative to the target's then.
    times: (n,) s, of the catch.
    """

    offsets: Array
    velocities: Array
    times: Array


@dataclass(frozen=True)
class BlockHistory:
    """History of one block. A part is None where the block has no such history.

    terms: variables of force terms, such as the plastic flow, by the terms' own names.
    reference_flows: plastic flow at which the stiffness at rest is taken, by term; missing for the modelled shape.
    sensors: (s,) last value of each sensor.
    sleep: None after a step that was not still.
    catch: None if no node was caught.
    steering: (r, k) of the regions of a system, among its first block's: see steering.py and slack_steering.py in
        objective/.
    violence: (2,) remaining steps of limits, likewise: see steppers/violence.py.
    impact: (1 + 4r,) speed of the impact, and the falls of the regions since then, m/s, each with 1 if it was struck.
    pressed_steps: (1,) remaining steps in which bodies count as pressed, likewise.
    """

    deformation: DeformationHistory | None = None
    terms: Mapping[str, Array] = field(default_factory=dict)
    reference_flows: Mapping[str, Array] = field(default_factory=dict)
    muscles: MuscleHistory | None = None
    sensors: Array | None = None
    contraction_lag: ContractionLag | None = None
    yarns: YarnHistory | None = None
    sleep: SleepCounter | None = None
    catch: Catch | None = None
    steering: Array | None = None
    violence: Array | None = None
    impact: Array | None = None
    pressed_steps: Array | None = None


@dataclass(frozen=True)
class SystemContacts:
    """Contact history of a system at the end of a step.

    contacts: contacts that were closed.
    impacts: one for each pair of regions, or of a region and a kinematic surface, in contact.
    support_modes: of each region; None without a support.
    dial_values: (k,) contact settings in the step.
    """

    contacts: ContactHistory
    impacts: tuple[Impact, ...]
    support_modes: tuple[SupportModes | None, ...]
    dial_values: Array


_NO_HISTORY = BlockHistory()


@dataclass(frozen=True)
class History:
    """History of a state.

    blocks: by block name; blocks without history may be missing.
    contacts: of each system that has had contacts, by its name (System.name).
    """

    blocks: Mapping[str, BlockHistory] = field(default_factory=dict)
    contacts: Mapping[str, SystemContacts] = field(default_factory=dict)

    def block(self, name: str) -> BlockHistory:
        """Return the history of a block; an empty one if it has none."""
        return self.blocks.get(name, _NO_HISTORY)

    def with_block(self, name: str, block: BlockHistory) -> History:
        """Return the history with that of one block replaced."""
        return replace(self, blocks={**self.blocks, name: block})

    def subset(self, names: Sequence[str]) -> History:
        """Return the history of the blocks and systems with given names."""
        return History(
            {name: self.blocks[name] for name in names if name in self.blocks},
            {name: self.contacts[name] for name in names if name in self.contacts},
        )

    @staticmethod
    def merge(parts: Sequence[History]) -> History:
        """Return the common history of different blocks."""
        return History(
            {name: one for part in parts for name, one in part.blocks.items()},
            {name: one for part in parts for name, one in part.contacts.items()},
        )

    def moved_in_time(self, seconds: float) -> History:
        """Return this history as that of a state at another time. seconds: s, from the old time to the new one."""
        moved = {
            name: replace(own, catch=replace(own.catch, times=own.catch.times + seconds))
            for name, own in self.blocks.items()
            if own.catch is not None
        }
        return replace(self, blocks={**self.blocks, **moved})

    def without_deformation(self) -> History:
        """Return the history without that of the waveform law and without sleep counters."""
        blocks = {name: replace(one, deformation=None, sleep=None) for name, one in self.blocks.items()}
        return replace(self, blocks=blocks)

    def at_rest(self) -> History:
        """Return the history without that of any motion."""
        resting = {
            name: replace(
                one,
                yarns=one.yarns and replace(one.yarns, speeds=None),
                steering=None,
                violence=None,
                impact=None,
                pressed_steps=None,
            )
            for name, one in self.without_deformation().blocks.items()
        }
        return replace(self, blocks=resting)


@dataclass(frozen=True)
class State:
    """Positions, velocities and history of all nodes, pinned ones included, at one time.

    time: s.
    positions: (n, 3) m.
    velocities: (n, 3) m/s.
    reference: (n, 3) m/s, velocity of each node's undeformed position in the last step due to the animation
        (docs/decisions/0005); zero without animation.
    history: what the next step needs to know of earlier ones.
    """

    time: float
    positions: Array
    velocities: Array
    reference: Array
    history: History = field(default_factory=History)

    @staticmethod
    def at_rest(positions: Array, time: float = 0.0, history: History | None = None) -> State:
        """Return a state with zero velocities at positions (n, 3) m."""
        zero_velocities = np.zeros_like(positions)
        return State(time, positions.copy(), zero_velocities, zero_velocities.copy(), history or History())

    def subset(self, nodes: slice, blocks: Sequence[str]) -> State:
        """Return the state of some nodes, with the history of the blocks with given names."""
        return State(
            self.time,
            self.positions[nodes],
            self.velocities[nodes],
            self.reference[nodes],
            self.history.subset(blocks),
        )

    @staticmethod
    def concatenate(states: list[State]) -> State:
        """Concatenate the states of consecutive ranges of nodes at one time."""
        if len(states) == 1:
            return states[0]
        return State(
            states[0].time,
            np.concatenate([state.positions for state in states]),
            np.concatenate([state.velocities for state in states]),
            np.concatenate([state.reference for state in states]),
            History.merge([state.history for state in states]),
        )

    @property
    def is_finite(self) -> bool:
        return bool(np.isfinite(self.positions).all() and np.isfinite(self.velocities).all())
