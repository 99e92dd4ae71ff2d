"""Digests of inputs, to tell whether a cache still fits them."""

from __future__ import annotations

import hashlib
import json

import numpy as np

from .arrays import Array
from .scene import Scene

# Raised whenever the same inputs would give other frames than before.
RESULTS_VERSION = 3


def digest(*arrays: Array) -> str:
    """Of shapes and bytes."""
    total = hashlib.sha256()
    for array in arrays:
        total.update(repr(array.shape).encode())
        total.update(np.ascontiguousarray(array).tobytes())
    return total.hexdigest()


def fingerprint(scene: Scene) -> str:
    """Of everything that does not change from frame to frame; the last frame counts for loops only."""
    settings = scene.body.settings
    constants = {
        "results": RESULTS_VERSION,
        "settings": settings.as_dict(),
        "fps": scene.fps,
        "first": scene.first,
        "last": scene.last if settings.loop else None,
        "carrier": scene.carrier,
        "arrays": _arrays(scene),
    }
    return _of(constants)


# What the model is made from, beside the arrays.
_MODEL = ("resolution", "poisson", "density", "material")


def model_fingerprint(scene: Scene) -> str:
    """Of what models.volume.build_volume looks at."""
    settings = scene.body.settings.as_dict()
    return _of({"settings": {name: settings[name] for name in _MODEL}, "arrays": _arrays(scene)})


def _arrays(scene: Scene) -> str:
    body = scene.body
    maps = [np.zeros(0) if painted is None else painted for painted in (body.settle_map, body.stiffness_map)]
    return digest(body.surface.vertices, body.surface.triangles.astype(float), body.pins, scene.gravity, *maps)


def _of(constants: dict[str, object]) -> str:
    return hashlib.sha256(json.dumps(constants, sort_keys=True).encode()).hexdigest()
