"""What an animated scene means to the nodes."""

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
    """What one block's nodes have to go along with.

    targets: (p, 3) m of its pins.
    turns, places: (n, 3, 3), (n, 3) m of the animated mesh around its nodes, where that is the reference motion.
    touch: what counts where it touches something; None where nothing can.
    contraction: of its fibres, in parts of their length.
    """

    targets: Array
    turns: Array | None = None
    places: Array | None = None
    touch: TouchPose | None = None
    contraction: float = 0.0


Pose = tuple[tuple[BlockPose, ...], ...]
"""Of the blocks of each island."""


class Posing:
    """Poses of one assembly."""

    def __init__(self, scene: Scene, assembly: Assembly) -> None:
        self._scene, self._assembly = scene, assembly
        self._references = [body.reference for body in scene.bodies]

    def pose(self, animated: Animated) -> Pose:
        return tuple(self._island_pose(island, animated) for island in self._assembly.islands)

    def _island_pose(self, island: Island, animated: Animated) -> tuple[BlockPose, ...]:
        bodies = [self._body_pose(k, animated) for k in island.bodies]
        anchors = [BlockPose(one.follow(animated.colliders[one.collider])) for one in island.anchors]
        return (*bodies, *anchors)

    def _body_pose(self, body: int, animated: Animated) -> BlockPose:
        model, surface = self._assembly.models[body], animated.bodies[body]
        targets = model.pins(surface)
        touch = TouchPose.of(self._scene, body, animated) if self._scene.touching else None
        # Nobody reads the dials where Sag and the first eigenvalues are found: they are of fibres that do nothing.
        contraction = animated.settings[body].shortening if animated.settings else 0.0
        return (
            BlockPose(targets, *model.nodes.frames(surface), touch, contraction)
            if self._references[body] == Reference.MESH
            else BlockPose(targets, touch=touch, contraction=contraction)
        )

    def between(self, island: Island, start: tuple[BlockPose, ...], end: tuple[BlockPose, ...]) -> Inputs:
        """What moves an island from one pose to another."""
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
        """Inputs that hold an island where the animation has it."""
        return tuple(
            BlockInputs(
                pose.targets, pose.targets, None, None, touching(pose.touch, pose.touch), (pose.contraction,) * 2
            )
            for pose in self._island_pose(island, animated)
        )

    def at_rest(self, island: Island, animated: Animated) -> State:
        """An island's nodes where the animation has them, still."""
        places = [_placed(self._assembly.models[k], animated.bodies[k]) for k in island.bodies]
        places += [one.follow(animated.colliders[one.collider]) for one in island.anchors]
        flows: dict[str, Array] = {}
        for place, k in enumerate(island.bodies):
            # What will flow is what can, from the start: a flat sheet's folds are found in another way.
            if self._scene.bodies[k].settings.plastic_yield > 0.0:
                flows |= begun(island.system.blocks[place])
        return State.at_rest(np.concatenate(places), self._scene.first / self._scene.fps, flows)


def _placed(model: Model, surface: Array) -> Array:
    nodes = model.nodes(surface)
    hard = np.isinf(model.block.pin_stiffness)
    nodes[model.block.pinned[hard]] = model.pins(surface)[hard]
    return nodes
