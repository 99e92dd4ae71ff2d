"""Versions of a scene with the pins of different frames."""

from __future__ import annotations

import numpy as np

from ..base.arrays import Array
from ..base.memo import Memo
from ..bodies.pieces import with_pins
from ..scene.sample import SceneSample
from ..scene.scene import Scene
from .assembly import Assembly, rebuild_islands
from .dials import DialInterpreter
from .plastic_rest_shapes import PlasticRestShapes, RestShapeVersion
from .statics import StaticSolver

# Cached versions: those before and after a change, and the one after the next. Each one holds its own factorisations.
_CACHED_VERSIONS = 3


class PinVersion:
    """Everything derived from a scene's bodies with certain pins.

    key: identifies the pins; empty for those of the bodies.
    """

    def __init__(self, scene: Scene, statics: StaticSolver, key: bytes = b"") -> None:
        self.statics, self.dials, self.key = statics, DialInterpreter(scene, statics), key
        self.rest_shapes = PlasticRestShapes(scene, RestShapeVersion(statics, self.dials))


class PinVersions:
    """Pin versions of one scene. Each one depends only on the pins, not on the frames in between.

    modelled: the version with the pins of the bodies, which also defines their stiffness.
    """

    def __init__(self, scene: Scene, modelled: PinVersion) -> None:
        self._scene, self.modelled = scene, modelled
        self._changing = [k for k, body in enumerate(scene.bodies) if body.has_changing_pins]
        self._versions: Memo[PinVersion] = Memo(_CACHED_VERSIONS)

    def version_for(self, sample: SceneSample) -> PinVersion:
        """Return the version with the pins of a sample."""
        pins = {k: self._scene.bodies[k].pins_at(sample.bodies[k]) for k in self._changing}
        if all(np.array_equal(weights, self._scene.bodies[k].pins) for k, weights in pins.items()):
            return self.modelled
        key = b"".join(np.ascontiguousarray(weights).tobytes() for weights in pins.values())
        return self._versions.get(key, lambda: self._build(pins, key))

    def _build(self, pins: dict[int, Array], key: bytes) -> PinVersion:
        scene, known = self._scene, self.modelled.statics.assembly
        models = list(known.models)
        for k, weights in pins.items():
            models[k] = with_pins(models[k], scene.bodies[k], weights)
        assembly = rebuild_islands(scene, Assembly(tuple(models), known.islands))
        return PinVersion(scene, self.modelled.statics.for_assembly(assembly), key)
