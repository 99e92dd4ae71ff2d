"""Digests of inputs, to tell whether a cache still fits them."""

from __future__ import annotations

import hashlib
import json

import numpy as np

from .arrays import Array
from .scene import Scene

# Raised whenever the same inputs would give other frames than before.
RESULTS_VERSION = 1


def digest(*arrays: Array) -> str:
    """Of shapes and bytes."""
    total = hashlib.sha256()
    for array in arrays:
        total.update(repr(array.shape).encode())
        total.update(np.ascontiguousarray(array).tobytes())
    return total.hexdigest()


def fingerprint(scene: Scene) -> str:
    """Of everything that does not change from frame to frame; the last frame does not count."""
    constants = {
        "results": RESULTS_VERSION,
        "settings": scene.body.settings.as_dict(),
        "fps": scene.fps,
        "first": scene.first,
        "arrays": digest(
            scene.body.surface.vertices, scene.body.surface.triangles.astype(float), scene.body.pins, scene.gravity
        ),
    }
    return hashlib.sha256(json.dumps(constants, sort_keys=True).encode()).hexdigest()
