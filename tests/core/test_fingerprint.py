"""What a cache was made from, and what of it changed, in words."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from dampsim.core.scene.body import Body
from dampsim.core.scene.fingerprint import body_fingerprint, changes, fingerprint, inputs, model_fingerprint
from dampsim.core.scene.parameters import PARAMETERS, Affects, Settings
from dampsim.core.scene.scene import Scene
from shapes import box

DOWN = np.array([0.0, 0.0, -9.81])


def body(name: str, **dials: Any) -> Body:
    surface = replace(box(), name=name)
    return Body(surface, np.ones(8), Settings(**dials), lambda frame: surface.vertices)


def scene(*bodies: Body) -> Scene:
    return Scene(bodies, 24.0, DOWN, 1, 10)


def kept(one: Scene) -> dict[str, Any]:
    """As a header has them when it is read again."""
    found: dict[str, Any] = json.loads(json.dumps(inputs(one)))
    return found


def test_nothing_changed_is_nothing_said() -> None:
    one = scene(body("Cape"), body("Tail"))
    assert changes(kept(one), inputs(one)) == []


def test_a_change_of_one_of_several_bodies_names_it() -> None:
    before = kept(scene(body("Cape", settle=24.0), body("Tail")))
    assert changes(before, inputs(scene(body("Cape", settle=12.0), body("Tail")))) == ["Cape: Settle (24, now 12)"]


def test_a_change_of_the_only_body_says_what_alone() -> None:
    before = kept(scene(body("Cape", settle=24.0)))
    assert changes(before, inputs(scene(body("Cape", settle=12.0)))) == ["Settle (24, now 12)"]


def test_what_all_bodies_share_is_said_once() -> None:
    one = scene(body("Cape"), body("Tail"))
    assert changes(kept(one), inputs(replace(one, fps=30.0))) == ["the frame rate (24, now 30)"]
    assert changes(kept(one), inputs(replace(one, gravity=2.0 * DOWN))) == ["gravity"]


def test_painted_weights_and_meshes_are_named() -> None:
    one, half = body("Cape"), np.full(8, 0.5)
    for change, words in (
        ({"pins": half}, "the pins"),
        ({"settle_map": half}, "the painted Settle"),
        ({"stiffness_map": half}, "the painted Stiffness"),
        ({"length_map": half}, "the painted Length"),
        ({"kind": "SPRINGS"}, "the kind"),
        ({"edges": np.array([[0, 1]])}, "the mesh"),
        ({"deforming": True}, "the carrier in force"),
        ({"surface": replace(one.surface, vertices=2.0 * one.surface.vertices)}, "the mesh"),
    ):
        assert changes(kept(scene(one)), inputs(scene(replace(one, **change)))) == [words]  # type: ignore[arg-type]


def test_a_body_that_is_new_or_gone_is_named() -> None:
    alone, both = scene(body("Cape")), scene(body("Cape"), body("Tail"))
    assert changes(kept(alone), inputs(both)) == ["Tail, which is new,"]
    assert changes(kept(both), inputs(alone)) == ["Tail, which is gone,"]


@pytest.mark.parametrize("parameter", PARAMETERS.values(), ids=PARAMETERS)
def test_a_parameter_that_the_older_inputs_lack_counts_as_its_default(parameter: Any) -> None:
    def lacking(one: Scene) -> dict[str, Any]:
        before = kept(one)
        for name in before["bodies"]:
            del before["bodies"][name][parameter.label]
        return before

    plain = scene(body("Cape"), body("Tail"))
    assert changes(lacking(plain), inputs(plain)) == []
    if parameter.choices:
        other = next(choice.name for choice in parameter.choices if choice.name != parameter.default)
    elif isinstance(parameter.default, bool):
        other = not parameter.default
    else:
        other = parameter.most
    # Some change what is in force beside.
    said = changes(lacking(plain), inputs(scene(body("Cape", **{parameter.name: other}), body("Tail"))))
    numbers = f" ({parameter.default:.6g}, now {other:.6g})" if not isinstance(other, bool | str) else ""
    assert any(one.startswith(f"Cape: {parameter.label}{numbers}") for one in said)
    assert not any(one.startswith("Tail") for one in said)


def test_a_parameter_that_older_inputs_have_by_another_label_is_compared() -> None:
    before = kept(scene(body("Cape", carrier="PINS")))
    (old,) = before["bodies"].values()
    old["Carrier"] = old.pop("Reference Motion")
    assert changes(before, inputs(scene(body("Cape", carrier="PINS")))) == []
    assert "Reference Motion" in changes(before, inputs(scene(body("Cape", carrier="NONE"))))


def test_fingerprints_tell_what_has_to_be_made_anew() -> None:
    one = scene(body("Cape", settle=24.0), body("Tail"))
    dialled = scene(body("Cape", settle=12.0), body("Tail"))
    finer = scene(body("Cape", settle=24.0, resolution=500), body("Tail"))
    assert fingerprint(one) == fingerprint(scene(body("Cape", settle=24.0), body("Tail")))
    assert len({fingerprint(each) for each in (one, dialled, finer)}) == 3
    assert model_fingerprint(one) == model_fingerprint(dialled) != model_fingerprint(finer)
    assert model_fingerprint(one) != model_fingerprint(replace(one, gravity=2.0 * DOWN))
    assert body_fingerprint(one.bodies[0]) == body_fingerprint(dialled.bodies[0]) != body_fingerprint(finer.bodies[0])
    assert body_fingerprint(one.bodies[1]) == body_fingerprint(finer.bodies[1])


@pytest.mark.parametrize("parameter", PARAMETERS.values(), ids=PARAMETERS)
def test_a_model_is_made_anew_for_what_affects_it_and_for_nothing_else(parameter: Any) -> None:
    if parameter.choices:
        other = next(choice.name for choice in parameter.choices if choice.name != parameter.default)
    else:
        other = not parameter.default if isinstance(parameter.default, bool) else parameter.most
    same = body_fingerprint(body("Cape")) == body_fingerprint(body("Cape", **{parameter.name: other}))
    assert same == (parameter.affects is not Affects.MODEL)
