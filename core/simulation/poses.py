"""Poses: positions, rotations and loads that an animated scene prescribes for the nodes."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ..base.arrays import Array
from ..bodies.kind import Model
from ..bodies.surface_binding import AnimatedReference
from ..objective.plastic_update import initial_plastic_state
from ..scene.body import SceneSample
from ..scene.parameters import ReferenceChoice
from ..scene.scene import Scene
from ..system.inputs import BlockInputs, Inputs, ReferenceMotion
from ..system.state import History, State
from .assembly import Assembly, Island
from .body_forces import BodyLoad
from .contact_setup import ContactSample, contact_inputs


@dataclass(frozen=True)
class BlockPose:
    """Kinematic inputs of one block at one time.

    targets: (p, 3) m of its pins.
    mesh: rotations (n, 3, 3) and positions (n, 3) m of the animated mesh around its nodes, if that is the reference
        motion.
    contact: samples of the body and the colliders; None if contact is impossible.
    contraction: of its fibres, relative to their length.
    pressure_change: of the air, since the first frame, Pa.
    load: external forces; None for anchors.
    """

    targets: Array
    mesh: tuple[Array, Array] | None = None
    contact: ContactSample | None = None
    contraction: float = 0.0
    pressure_change: float = 0.0
    load: BodyLoad | None = None

    @property
    def is_driven(self) -> bool:
        """True if fibres or the pressure of the air act on the block."""
        return self.contraction != 0.0 or self.pressure_change != 0.0

    def has_place_of(self, other: BlockPose) -> bool:
        """Return whether the pins and the animated mesh are at the same places as in another pose."""
        pairs = zip((self.targets, *(self.mesh or ())), (other.targets, *(other.mesh or ())), strict=True)
        return all(np.array_equal(one, two) for one, two in pairs)


Pose = tuple[tuple[BlockPose, ...], ...]
"""Poses of the blocks of each island."""


def loads_of(poses: tuple[BlockPose, ...]) -> list[BodyLoad]:
    """Return the loads of the bodies among an island's blocks."""
    return [one.load for one in poses if one.load is not None]


class PoseEvaluator:
    """Evaluator of poses for one assembly."""

    def __init__(self, scene: Scene, assembly: Assembly) -> None:
        self._scene, self._assembly = scene, assembly
        self._last: tuple[SceneSample, Pose] | None = None
        self._references = [body.reference_motion for body in scene.bodies]

    def pose(self, sample: SceneSample) -> Pose:
        """Return the pose of all islands in a sample of the scene."""
        # The sample at the end of a frame is also the one at the start of the next frame.
        if self._last is None or self._last[0] is not sample:
            self._last = sample, tuple(self.island_pose(island, sample) for island in self._assembly.islands)
        return self._last[1]

    def island_pose(self, island: Island, sample: SceneSample) -> tuple[BlockPose, ...]:
        """Return the pose of an island in a sample of the scene."""
        bodies = [self._body_pose(k, sample) for k in island.bodies]
        anchors = [BlockPose(one.binding(sample.anchors[one.anchor])) for one in island.anchors]
        return (*bodies, *anchors)

    def _body_pose(self, body: int, sample: SceneSample) -> BlockPose:
        model, surface = self._assembly.models[body], sample.bodies[body].vertices
        targets = model.pins(surface)
        contact = (sample.bodies[body], sample.colliders) if self._scene.has_contact else None
        settings = sample.settings[body]
        load = BodyLoad.of(settings, sample.bodies[body].external_forces, model.block)
        mesh = model.nodes.local_frames(surface) if self._references[body] == ReferenceChoice.MESH else None
        model_body = self._scene.bodies[body]
        pressure = settings.pressure - model_body.settings.pressure if model_body.has_animated_pressure else 0.0
        return BlockPose(targets, mesh, contact, settings.contraction_fraction, pressure, load)

    def step_inputs(self, island: Island, start: tuple[BlockPose, ...], end: tuple[BlockPose, ...]) -> Inputs:
        """Return the inputs of an island for a step between two poses."""
        found = []
        for block, (a, b) in enumerate(zip(start, end, strict=True)):
            reference: ReferenceMotion | None = None
            if block < len(island.bodies):
                body = island.bodies[block]
                if self._references[body] == ReferenceChoice.NONE:
                    reference = ReferenceMotion()
                elif a.mesh is not None and b.mesh is not None:
                    (rotations, positions), (next_rotations, next_positions) = a.mesh, b.mesh
                    offsets = self._assembly.models[body].nodes.offsets
                    reference = AnimatedReference((rotations, next_rotations), (positions, next_positions), offsets)
            found.append(_block_inputs(a, b, reference))
        return tuple(found)

    def stationary_inputs(self, island: Island, sample: SceneSample) -> Inputs:
        """Return inputs that keep an island in the pose of a sample."""
        return tuple(_block_inputs(pose, pose) for pose in self.island_pose(island, sample))

    def animated_state(self, island: Island, sample: SceneSample) -> State:
        """Return the state of an island with its nodes in the animated shape at zero velocity."""
        positions = [_animated_nodes(self._assembly.models[k], sample.bodies[k].vertices) for k in island.bodies]
        positions += [one.binding(sample.anchors[one.anchor]) for one in island.anchors]
        plastic_history = {}
        for place, k in enumerate(island.bodies):
            # Add plastic history from the start to all bodies that may flow, because folds of a flat sheet are computed
            # differently with it.
            if self._scene.bodies[k].settings.plastic_yield > 0.0:
                block = island.system.blocks[place]
                plastic_history[block.name] = initial_plastic_state(block)
        return State.at_rest(np.concatenate(positions), self._scene.first / self._scene.fps, History(plastic_history))


def _block_inputs(start: BlockPose, end: BlockPose, reference: ReferenceMotion | None = None) -> BlockInputs:
    contact, contraction = contact_inputs(start.contact, end.contact), (start.contraction, end.contraction)
    pressure = start.pressure_change, end.pressure_change
    return BlockInputs(start.targets, end.targets, reference, None, contact, contraction, pressure)


def _animated_nodes(model: Model, surface: Array) -> Array:
    """Return the animated positions (n, 3) of a model's nodes in m, exact at hard pins."""
    nodes = model.nodes(surface)
    is_hard_pin = np.isinf(model.block.pin_stiffness)
    nodes[model.block.pinned[is_hard_pin]] = model.pins(surface)[is_hard_pin]
    return nodes
