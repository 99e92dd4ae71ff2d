"""Description of the inputs of a cache, to detect and explain changes that make it stale."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from typing import Any

import numpy as np

from ..arrays import Array
from .body import Body
from .parameters import PARAMETERS, Affects, Front, StiffnessBy
from .scene import Scene

# Increased whenever the same inputs give different frames than before.
RESULTS_VERSION = 6

# Labels in older caches, and their current names.
_FORMER = {"Carrier": "Reference Motion"}


def digest(*arrays: Array) -> str:
    """Return the SHA-256 hex digest of the shapes and bytes of arrays."""
    total = hashlib.sha256()
    for array in arrays:
        total.update(repr(array.shape).encode())
        total.update(np.ascontiguousarray(array).reshape(-1).view(np.uint8).data)
    return total.hexdigest()


def inputs(scene: Scene) -> dict[str, Any]:
    """Return all inputs that are constant over the frames, shared and by body, as plain values or digests.

    The last frame is included only for loops.
    """
    return {
        "shared": {
            "the version of DampSim": RESULTS_VERSION,
            "the frame rate": scene.fps,
            "the first frame": scene.first,
            "the last frame": scene.last if scene.loop else None,
            "gravity": digest(scene.gravity),
            "the links": _links(scene),
            **({"the colliders": _obstacles(scene)} if scene.obstacles else {}),
        },
        "bodies": {body.identity: _body(scene, body) for body in scene.bodies},
        "names": {body.identity: body.name for body in scene.bodies},
    }


def _body(scene: Scene, body: Body) -> dict[str, object]:
    front = body.settings.front not in (Front.NONE, Front.PAINTED)
    return {
        **({"the axes": digest(body.axes)} if front else {}),
        **({"what it stops at": _stops_at(scene, body)} if scene.obstacles else {}),
        **{PARAMETERS[name].label: value for name, value in body.settings.as_dict().items()},
        "the carrier in force": body.reference,
        # In earlier versions Sag referred to the size of the whole body, including pinned parts.
        **({"the meaning of Sag": "of what is free"} if body.settings.stiffness_by == StiffnessBy.SAG else {}),
        **_arrays(body),
    }


def _links(scene: Scene) -> str:
    known = {body.name: body.identity for body in scene.bodies}
    places = [
        (link.stiffness, *((known.get(place.owner, place.owner), place.point.tolist()) for place in link.places))
        for link in scene.links
    ]
    # In earlier versions rigid links yielded at the rate of the dialled motion.
    return _of({"links": places, "rigid": "at once"}) if places else ""


def _stops_at(scene: Scene, body: Body) -> list[str]:
    return sorted(scene.obstacles[k].identity for k in scene.obstacles_of(body))


def _obstacles(scene: Scene) -> str:
    return _of({one.identity: [digest(one.triangles.astype(float)), one.plane] for one in scene.obstacles})


def fingerprint(scene: Scene) -> str:
    """Return a digest of cache_inputs() that ignores object names."""
    return _of({name: value for name, value in inputs(scene).items() if name != "names"})


def body_fingerprint(body: Body) -> str:
    """Return a digest of the inputs from which a kind builds the model of a body."""
    return _of({**body.settings.as_dict(Affects.MODEL), **_arrays(body)})


def model_fingerprint(scene: Scene) -> str:
    """Return a digest of the inputs from which an assembly is built."""
    bodies = [[body.identity, body_fingerprint(body)] for body in scene.bodies]
    # The rest vertices of the anchors determine where links are attached.
    tied = digest(*(collider.vertices for collider in scene.colliders))
    touching: list[object] = []
    if scene.touching:
        touching.append(_obstacles(scene))
        for body in scene.bodies:
            dials = body.settings
            touching.append([_stops_at(scene, body), dials.touch_together, dials.touch_self, dials.front])
    known = {"bodies": bodies, "links": _links(scene), "gravity": digest(scene.gravity), "tied": tied}
    return _of({**known, "touching": touching} if touching else known)


def changes(before: Mapping[str, Any], now: Mapping[str, Any]) -> list[str]:
    """Return the differences between two cache_inputs() in words.

    A parameter that is missing in the older inputs counts as its default.
    """
    # Compare values as they are after a round trip through JSON.
    now = json.loads(json.dumps(now))
    found = _differences(before.get("shared", {}), now["shared"])
    several = len(now["bodies"]) > 1
    names = {**before.get("names", {}), **now["names"]}
    for mark in {**now["bodies"], **before.get("bodies", {})}:
        name = names.get(mark, mark)
        if mark not in now["bodies"] or mark not in before.get("bodies", {}):
            found.append(f"{name}, which is {'new' if mark in now['bodies'] else 'gone'},")
            continue
        differing = _differences(before["bodies"][mark], now["bodies"][mark])
        found += [f"{name}: {what}" for what in differing] if several else differing
    return found


def _differences(before: Mapping[str, Any], now: Mapping[str, Any]) -> list[str]:
    defaults = {parameter.label: parameter.default for parameter in PARAMETERS.values()}
    known = {_FORMER.get(name, name): value for name, value in before.items()}
    old = {**{name: defaults[name] for name in now if name in defaults}, **known}
    return [
        f"{name} ({_short(old[name])}, now {_short(now[name])})"
        if isinstance(now.get(name), int | float) and name in old
        else name
        for name in {**now, **old}
        if old.get(name) != now.get(name)
    ]


def _short(value: object) -> str:
    return f"{value:.6g}" if isinstance(value, float) else str(value)


def _arrays(body: Body) -> dict[str, object]:
    mesh = [body.surface.vertices, body.surface.triangles.astype(float)]
    if len(body.edges):
        mesh.append(body.edges.astype(float))
    return {
        "the kind": body.kind,
        "the mesh": digest(*mesh),
        "the pins": digest(body.pins),
        **{name: None if painted is None else digest(painted) for name, painted in body.maps.items()},
        **({"the muscles": digest(*body.controller.numbers())} if body.controller is not None else {}),
        **({"the seams": digest(body.seams.astype(float))} if len(body.seams) else {}),
    }


def _of(constants: Mapping[str, object]) -> str:
    return hashlib.sha256(json.dumps(constants, sort_keys=True).encode()).hexdigest()
