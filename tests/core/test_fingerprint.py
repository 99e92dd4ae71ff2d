"""Fingerprints of scenes, and descriptions of changes since a bake."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from dampsim.core.base.wording import format_number
from dampsim.core.scene.body import Body
from dampsim.core.scene.fingerprint import (
    body_fingerprint,
    cache_inputs,
    describe_changes,
    model_fingerprint,
    scene_fingerprint,
)
from dampsim.core.scene.parameters import PARAMETERS, AffectedPart, Settings
from dampsim.core.scene.scene import Scene
from shapes import box

DOWN = np.array([0.0, 0.0, -9.81])


def body(name: str, **dials: Any) -> Body:
    surface = replace(box(), name=name)
    return Body(surface, np.ones(8), Settings(**dials))


def scene(*bodies: Body) -> Scene:
    return Scene(bodies, 24.0, DOWN, 1, 10)


def stored_inputs(one: Scene) -> dict[str, Any]:
    """Return the inputs of a scene as they are read from a header."""
    found: dict[str, Any] = json.loads(json.dumps(cache_inputs(one)))
    return found


def test_no_changes_for_equal_scenes() -> None:
    one = scene(body("Cape"), body("Tail"))
    assert describe_changes(stored_inputs(one), cache_inputs(one)) == []


def test_change_names_body_among_several() -> None:
    before = stored_inputs(scene(body("Cape", settle=24.0), body("Tail")))
    assert describe_changes(before, cache_inputs(scene(body("Cape", settle=12.0), body("Tail")))) == [
        "Cape: Settle (24, now 12)"
    ]


def test_change_of_single_body_is_unnamed() -> None:
    before = stored_inputs(scene(body("Cape", settle=24.0)))
    assert describe_changes(before, cache_inputs(scene(body("Cape", settle=12.0)))) == ["Settle (24, now 12)"]


def test_shared_changes_are_listed_once() -> None:
    one = scene(body("Cape"), body("Tail"))
    assert describe_changes(stored_inputs(one), cache_inputs(replace(one, fps=30.0))) == ["the frame rate (24, now 30)"]
    assert describe_changes(stored_inputs(one), cache_inputs(replace(one, gravity=2.0 * DOWN))) == ["gravity"]


def test_changed_maps_and_meshes_are_named() -> None:
    one, half = body("Cape"), np.full(8, 0.5)
    for change, words in (
        ({"pins": half}, "the pins"),
        ({"settle_map": half}, "the painted Settle"),
        ({"stiffness_map": half}, "the painted Stiffness"),
        ({"length_map": half}, "the painted Length"),
        ({"kind": "SPRINGS"}, "the kind"),
        ({"edges": np.array([[0, 1]])}, "the mesh"),
        ({"is_deforming": True}, "the reference motion in use"),
        ({"surface": replace(one.surface, vertices=2.0 * one.surface.vertices)}, "the mesh"),
    ):
        assert describe_changes(stored_inputs(scene(one)), cache_inputs(scene(replace(one, **change)))) == [words]  # type: ignore[arg-type]


def test_added_and_removed_bodies_are_named() -> None:
    alone, both = scene(body("Cape")), scene(body("Cape"), body("Tail"))
    assert describe_changes(stored_inputs(alone), cache_inputs(both)) == ["Tail, which is new,"]
    assert describe_changes(stored_inputs(both), cache_inputs(alone)) == ["Tail, which is gone,"]


@pytest.mark.parametrize("parameter", PARAMETERS.values(), ids=PARAMETERS)
def test_missing_older_parameter_counts_as_default(parameter: Any) -> None:
    def lacking(one: Scene) -> dict[str, Any]:
        before = stored_inputs(one)
        for name in before["bodies"]:
            del before["bodies"][name][parameter.label]
        return before

    plain = scene(body("Cape"), body("Tail"))
    assert describe_changes(lacking(plain), cache_inputs(plain)) == []
    if parameter.choices:
        other = next(choice.name for choice in parameter.choices if choice.name != parameter.default)
    elif isinstance(parameter.default, bool):
        other = not parameter.default
    else:
        other = parameter.max if parameter.max != parameter.default else parameter.min
    # Some parameters also change other effective inputs.
    said = describe_changes(lacking(plain), cache_inputs(scene(body("Cape", **{parameter.name: other}), body("Tail"))))
    before, now = (format_number(one, 6) if isinstance(one, float) else one for one in (parameter.default, other))
    numbers = f" ({before}, now {now})" if not isinstance(other, bool | str) else ""
    assert any(one.startswith(f"Cape: {parameter.label}{numbers}") for one in said)
    assert not any(one.startswith("Tail") for one in said)


def test_renamed_parameter_label_is_compared() -> None:
    before = stored_inputs(scene(body("Cape", carrier="PINS")))
    (old,) = before["bodies"].values()
    old["Carrier"] = old.pop("Reference Motion")
    assert describe_changes(before, cache_inputs(scene(body("Cape", carrier="PINS")))) == []
    assert "Reference Motion" in describe_changes(before, cache_inputs(scene(body("Cape", carrier="NONE"))))


def test_fingerprints_distinguish_models_and_settings() -> None:
    one = scene(body("Cape", settle=24.0), body("Tail"))
    dialled = scene(body("Cape", settle=12.0), body("Tail"))
    finer = scene(body("Cape", settle=24.0, resolution=500), body("Tail"))
    assert scene_fingerprint(one) == scene_fingerprint(scene(body("Cape", settle=24.0), body("Tail")))
    assert len({scene_fingerprint(each) for each in (one, dialled, finer)}) == 3
    assert model_fingerprint(one) == model_fingerprint(dialled) != model_fingerprint(finer)
    assert model_fingerprint(one) != model_fingerprint(replace(one, gravity=2.0 * DOWN))
    assert body_fingerprint(one.bodies[0]) == body_fingerprint(dialled.bodies[0]) != body_fingerprint(finer.bodies[0])
    assert body_fingerprint(one.bodies[1]) == body_fingerprint(finer.bodies[1])


@pytest.mark.parametrize("parameter", PARAMETERS.values(), ids=PARAMETERS)
def test_model_fingerprint_changes_with_affects(parameter: Any) -> None:
    if parameter.choices:
        other = next(choice.name for choice in parameter.choices if choice.name != parameter.default)
    else:
        # Shear is largest by default. Hold is, too, but its other values change the pins of a body.
        extreme = parameter.min if parameter.name == "shear" else parameter.max
        other = not parameter.default if isinstance(parameter.default, bool) else extreme
    same = body_fingerprint(body("Cape")) == body_fingerprint(body("Cape", **{parameter.name: other}))
    assert same == (parameter.affects is not AffectedPart.MODEL)
