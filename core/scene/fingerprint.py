"""Description of the inputs of a cache, to detect and explain changes that make it stale."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from typing import Any

import numpy as np

from ..base.arrays import Array
from ..base.errors import MAX_SHOWN, printable_text
from ..base.wording import format_number
from .body import Body
from .parameters import PARAMETERS, AffectedPart, FrontDirection, StiffnessBy
from .scene import Scene

# Increased whenever the same inputs give different frames than before.
RESULTS_VERSION = 10
# Largest number of changes that a message lists.
_MAX_CHANGES = 20

# Labels in older caches, and their current names.
_FORMER_LABELS = {
    "Carrier": "Reference Motion",
    "Each Other": "Other Bodies",
    "Itself": "Self-Collision",
    "Damped Within": "Damping Clusters",
    "Torque, Then": "Second Torque Scheme",
    "λ_d, of Volume": "Volume Damping (λ_d)",
    "μ_d, of Shape": "Shape Damping (μ_d)",
    "Along One Axis": "Anisotropy",
    "β_s, of Stretch": "Stretch Damping (β_s)",
    "β_b, of Bend": "Bend Damping (β_b)",
    "Damping By": "Damping Model",
    "Bounce By": "Bounce Mode",
    "Fibres Along": "Fibre Direction",
    "Weave": "Cloth Elasticity",
    "Depth": "Exit Direction",
    "the carrier in force": "the reference motion in use",
    "what it stops at": "the list of its colliders",
}


def array_digest(*arrays: Array) -> str:
    """Return the SHA-256 hex digest of the shapes and bytes of arrays."""
    total = hashlib.sha256()
    for array in arrays:
        total.update(repr(array.shape).encode())
        total.update(np.ascontiguousarray(array).reshape(-1).view(np.uint8).data)
    return total.hexdigest()


def cache_inputs(scene: Scene) -> dict[str, Any]:
    """Return all inputs that are constant over the frames, shared and by body, as plain values or digests.

    The last frame is included only for loops.
    """
    return {
        "shared": {
            "the version of DampSim": RESULTS_VERSION,
            "the frame rate": scene.fps,
            "the first frame": scene.first,
            "the last frame": scene.last if scene.is_loop else None,
            "gravity": array_digest(scene.gravity),
            "the links": _links_digest(scene),
            **({"the colliders": _colliders_digest(scene)} if scene.colliders else {}),
        },
        "bodies": {body.identity: _body_inputs(scene, body) for body in scene.bodies},
        "names": {body.identity: body.name for body in scene.bodies},
    }


def _body_inputs(scene: Scene, body: Body) -> dict[str, object]:
    front = body.settings.front not in (FrontDirection.NONE, FrontDirection.PAINTED)
    return {
        **({"the axes": array_digest(body.axes)} if front else {}),
        **({"the list of its colliders": _collider_identities(scene, body)} if scene.colliders else {}),
        **{PARAMETERS[name].label: value for name, value in body.settings.as_dict().items()},
        "the reference motion in use": body.reference_motion,
        # In earlier versions Sag referred to the size of the whole body, including pinned parts.
        **({"the meaning of Sag": "of what is free"} if body.settings.stiffness_by == StiffnessBy.SAG else {}),
        **{
            f"part {part.name}: {PARAMETERS[name].label}": value
            for part in body.parts
            for name, value in part.dials.items()
        },
        **{f"part {part.name}: {PARAMETERS['sag'].label}": part.sag for part in body.parts if part.sag is not None},
        **_array_digests(body),
    }


def _links_digest(scene: Scene) -> str:
    known = {body.name: body.identity for body in scene.bodies}
    places = [
        (link.stiffness, *((known.get(place.owner, place.owner), place.point.tolist()) for place in link.points))
        for link in scene.links
    ]
    # In earlier versions rigid links yielded at the rate of the dialled motion.
    return _json_digest({"links": places, "rigid": "at once"}) if places else ""


def _collider_identities(scene: Scene, body: Body) -> list[str]:
    return sorted(scene.colliders[k].identity for k in scene.collider_indices(body))


def _colliders_digest(scene: Scene) -> str:
    found: dict[str, list[object]] = {}
    for one in scene.colliders:
        # Without paint, caches of earlier versions stay valid.
        painted = [] if one.roughness_map is None else [array_digest(one.roughness_map)]
        found[one.identity] = [array_digest(one.triangles.astype(float)), one.is_plane, *painted]
    return _json_digest(found)


def scene_fingerprint(scene: Scene) -> str:
    """Return a digest of cache_inputs() that ignores object names."""
    return _json_digest({name: value for name, value in cache_inputs(scene).items() if name != "names"})


def body_fingerprint(body: Body) -> str:
    """Return a digest of the inputs from which a kind builds the model of a body."""
    return _json_digest({**body.settings.as_dict(AffectedPart.MODEL), **_array_digests(body)})


def model_fingerprint(scene: Scene) -> str:
    """Return a digest of the inputs from which an assembly is built."""
    known: dict[str, object] = {
        "bodies": [[body.identity, body_fingerprint(body)] for body in scene.bodies],
        "links": _links_digest(scene),
        "gravity": array_digest(scene.gravity),
        # The rest vertices of the anchors determine where links are attached.
        "tied": array_digest(*(anchor.vertices for anchor in scene.anchors)),
    }
    if scene.has_contact:
        touching = [
            [_collider_identities(scene, body), dials.touch_together, dials.touch_self, dials.front]
            for body, dials in zip(scene.bodies, scene.settings, strict=True)
        ]
        known["touching"] = [_colliders_digest(scene), *touching]
    return _json_digest(known)


def describe_changes(before: Mapping[str, Any], now: Mapping[str, Any]) -> list[str]:
    """Return the differences between two cache_inputs() in words.

    A parameter that is missing in the older inputs counts as its default.
    """
    # Compare values as they are after a round trip through JSON.
    now = json.loads(json.dumps(now))
    found = _differences(before.get("shared", {}), now["shared"])
    several = len(now["bodies"]) > 1
    names = {**before.get("names", {}), **now["names"]}
    for mark in {**now["bodies"], **before.get("bodies", {})}:
        name = printable_text(names.get(mark, mark), 2 * MAX_SHOWN)
        if mark not in now["bodies"] or mark not in before.get("bodies", {}):
            found.append(f"{name}, which is {'new' if mark in now['bodies'] else 'gone'},")
            continue
        differing = _differences(before["bodies"][mark], now["bodies"][mark])
        found += [f"{name}: {what}" for what in differing] if several else differing
    # Headers of caches may contain any number of inputs.
    return found if len(found) <= _MAX_CHANGES else [*found[:_MAX_CHANGES], f"{len(found) - _MAX_CHANGES} more"]


def describe_known_changes(before: Mapping[str, Any], known: Mapping[str, Any]) -> list[str]:
    """Return describe_changes() for those inputs that are known, without a scene.

    known: part of cache_inputs(), with all bodies.
    """
    bodies = {
        mark: {name: value for name, value in body.items() if _FORMER_LABELS.get(name, name) in known["bodies"][mark]}
        if mark in known["bodies"]
        else body
        for mark, body in before.get("bodies", {}).items()
    }
    shared = {name: value for name, value in before.get("shared", {}).items() if name in known["shared"]}
    return describe_changes({**before, "shared": shared, "bodies": bodies}, known)


def known_inputs(fps: float, first: int, bodies: Mapping[str, tuple[str, str, Mapping[str, object]]]) -> dict[str, Any]:
    """Return the part of cache_inputs() that is known without a scene.

    fps: frames per second.  first: first frame.  bodies: name, kind and parameters of each body by its identity.
    """
    return {
        "shared": {"the version of DampSim": RESULTS_VERSION, "the frame rate": fps, "the first frame": first},
        "bodies": {
            mark: {"the kind": kind, **{PARAMETERS[name].label: value for name, value in values.items()}}
            for mark, (_, kind, values) in bodies.items()
        },
        "names": {mark: name for mark, (name, *_) in bodies.items()},
    }


def _differences(before: Mapping[str, Any], now: Mapping[str, Any]) -> list[str]:
    defaults = {parameter.label: parameter.default for parameter in PARAMETERS.values()}
    known = {_FORMER_LABELS.get(name, name): value for name, value in before.items()}
    old = {**{name: defaults[name] for name in now if name in defaults}, **known}
    return [
        f"{name} ({_format_value(old[name])}, now {_format_value(now[name])})"
        if isinstance(now.get(name), int | float) and name in old
        else printable_text(name, MAX_SHOWN)
        for name in {**now, **old}
        if old.get(name) != now.get(name)
    ]


def _format_value(value: object) -> str:
    return format_number(value, 6) if isinstance(value, float) else printable_text(str(value), MAX_SHOWN)


def _array_digests(body: Body) -> dict[str, object]:
    mesh, mask = [body.surface.vertices, body.surface.triangles.astype(float)], body.follower_mask
    if len(body.edges):
        mesh.append(body.edges.astype(float))
    return {
        "the kind": body.kind,
        "the mesh": array_digest(*mesh),
        "the pins": array_digest(body.pins),
        **{name: None if painted is None else array_digest(painted) for name, painted in body.maps.items()},
        **({"the muscles": array_digest(*body.controller.numbers())} if body.controller is not None else {}),
        **({"the dampers": array_digest(body.dampers)} if body.dampers is not None else {}),
        **({"the keyed pressure": True} if body.has_animated_pressure else {}),
        **({"the keyed pins": True} if body.has_changing_pins else {}),
        **({"the seams": array_digest(body.seams.astype(float))} if len(body.seams) else {}),
        **({} if mask is None else {"the pieces that follow": array_digest(mask.astype(float))}),
    }


def _json_digest(constants: Mapping[str, object]) -> str:
    return hashlib.sha256(json.dumps(constants, sort_keys=True).encode()).hexdigest()
