"""What a cache was made from, to tell whether it still fits, and if not, why."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping

import numpy as np

from ..arrays import Array
from .parameters import PARAMETERS
from .scene import Scene

# Raised whenever the same inputs would give other frames than before.
RESULTS_VERSION = 4


def digest(*arrays: Array) -> str:
    """Of shapes and bytes."""
    total = hashlib.sha256()
    for array in arrays:
        total.update(repr(array.shape).encode())
        total.update(np.ascontiguousarray(array).tobytes())
    return total.hexdigest()


def inputs(scene: Scene) -> dict[str, object]:
    """Everything that does not change from frame to frame, by names an artist knows; plain values or digests.

    The last frame counts for loops only.
    """
    settings = scene.body.settings.as_dict()
    return {
        "the version of DampSim": RESULTS_VERSION,
        **{PARAMETERS[name].label: value for name, value in settings.items()},
        "the frame rate": scene.fps,
        "the first frame": scene.first,
        "the last frame": scene.last if scene.body.settings.loop else None,
        "the carrier in force": scene.carrier,
        **_arrays(scene),
    }


def fingerprint(scene: Scene) -> str:
    """Of inputs()."""
    return _of(inputs(scene))


def changes(before: Mapping[str, object], now: Mapping[str, object]) -> list[str]:
    """What differs between two inputs(), in words."""
    # As JSON has them.
    now = json.loads(json.dumps(now))
    names = [name for name in {**now, **before} if before.get(name) != now.get(name)]
    return [
        f"{name} ({_short(before[name])}, now {_short(now[name])})"
        if isinstance(now.get(name), int | float) and name in before
        else name
        for name in names
    ]


def _short(value: object) -> str:
    return f"{value:.6g}" if isinstance(value, float) else str(value)


# What the model is made from, beside the arrays.
_MODEL = ("resolution", "poisson", "density", "material")


def model_fingerprint(scene: Scene) -> str:
    """Of what bodies.volume.build_volume looks at."""
    settings = scene.body.settings.as_dict()
    return _of({**{name: settings[name] for name in _MODEL}, **_arrays(scene)})


def _arrays(scene: Scene) -> dict[str, object]:
    body = scene.body
    painted = {"the painted Settle": body.settle_map, "the painted Stiffness": body.stiffness_map}
    return {
        "the mesh": digest(body.surface.vertices, body.surface.triangles.astype(float)),
        "the pins": digest(body.pins),
        "gravity": digest(scene.gravity),
        **{name: None if painted is None else digest(painted) for name, painted in painted.items()},
    }


def _of(constants: Mapping[str, object]) -> str:
    return hashlib.sha256(json.dumps(constants, sort_keys=True).encode()).hexdigest()
