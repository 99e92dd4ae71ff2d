"""Poses: positions and rotations that an animated scene prescribes for the nodes."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ..arrays import Array
from ..bodies.followers import AnimatedReference
from ..bodies.model import Model
from ..scene.parameters import Reference
from ..scene.scene import Scene
from ..stepping.flowing import begun
from ..system.inputs import BlockInputs, Inputs, NoReferenceMotion, ReferenceMotion
from ..system.state import State
from .assembly import Assembly, Island
from .contacts import TouchPose, touching
from .sampling import Animated


@dataclass(frozen=True)
class BlockPose:
    """Kinematic inputs of one block at one time.

    targets: (p, 3) m of its pins.
    rotations, positions: (n, 3, 3), (n, 3) m of the animated mesh around its nodes, if that is the reference motion.
    contact: contact data; None if contact is impossible.
    contraction: of its fibres, relative to their length.
    """

    targets: Array
    turns: Array | None = None
    places: Array | None = None
    touch: TouchPose | None = None
    contraction: float = 0.0


Pose = tuple[tuple[BlockPose, ...], ...]
"""Poses of the blocks of each island."""


class Posing:
    """Evaluator of poses for one assembly."""

    def __init__(self, scene: Scene, assembly: Assembly) -> None:
        self._scene, self._assembly = scene, assembly
        self._references = [body.reference for body in scene.bodies]

    def pose(self, animated: Animated) -> Pose:
        """Return the pose of all islands in a sample of the scene."""
        return tuple(self._island_pose(island, animated) for island in self._assembly.islands)

    def _island_pose(self, island: Island, animated: Animated) -> tuple[BlockPose, ...]:
        bodies = [self._body_pose(k, animated) for k in island.bodies]
        anchors = [BlockPose(one.follow(animated.colliders[one.collider])) for one in island.anchors]
        return (*bodies, *anchors)

    def _body_pose(self, body: int, animated: Animated) -> BlockPose:
        model, surface = self._assembly.models[body], animated.bodies[body]
        targets = model.pins(surface)
        touch = TouchPose.of(self._scene, body, animated) if self._scene.touching else None
        # The solves for Sag and the first eigenvalues run without settings, so their fibres are not contracted.
        contraction = animated.settings[body].shortening if animated.settings else 0.0
        return (
            BlockPose(targets, *model.nodes.frames(surface), touch, contraction)
            if self._references[body] == Reference.MESH
            else BlockPose(targets, touch=touch, contraction=contraction)
        )

    def between(self, island: Island, start: tuple[BlockPose, ...], end: tuple[BlockPose, ...]) -> Inputs:
        """Return the inputs of an island for a step between two poses."""
        found = []
        for block, (a, b) in enumerate(zip(start, end, strict=True)):
            reference: ReferenceMotion | None = None
            if block < len(island.bodies):
                body = island.bodies[block]
                if self._references[body] == Reference.NONE:
                    reference = NoReferenceMotion()
                elif a.turns is not None and a.places is not None and b.turns is not None and b.places is not None:
                    offsets = self._assembly.models[body].nodes.offsets
                    reference = AnimatedReference((a.turns, b.turns), (a.places, b.places), offsets)
            touch, fibres = touching(a.touch, b.touch), (a.contraction, b.contraction)
            found.append(BlockInputs(a.targets, b.targets, reference, None, touch, fibres))
        return tuple(found)

    def held(self, island: Island, animated: Animated) -> Inputs:
        """Return inputs that keep an island in the pose of a sample."""
        return tuple(
            BlockInputs(
                pose.targets, pose.targets, None, None, touching(pose.touch, pose.touch), (pose.contraction,) * 2
            )
            for pose in self._island_pose(island, animated)
        )

    def at_rest(self, island: Island, animated: Animated) -> State:
        """Return the state of an island with its nodes in the animated shape at zero velocity."""
        places = [_placed(self._assembly.models[k], animated.bodies[k]) for k in island.bodies]
        places += [one.follow(animated.colliders[one.collider]) for one in island.anchors]
        flows: dict[str, Array] = {}
        for place, k in enumerate(island.bodies):
            # Add plastic history from the start to all bodies that may flow, because folds of a flat sheet are computed
            # differently with it.
            if self._scene.bodies[k].settings.plastic_yield > 0.0:
                flows |= begun(island.system.blocks[place])
        return State.at_rest(np.concatenate(places), self._scene.first / self._scene.fps, flows)


def _placed(model: Model, surface: Array) -> Array:
    """Return the animated positions (n, 3) of a model's nodes in m, exact at hard pins."""
    nodes = model.nodes(surface)
    hard = np.isinf(model.block.pin_stiffness)
    nodes[model.block.pinned[hard]] = model.pins(surface)[hard]
    return nodes
