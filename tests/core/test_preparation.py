"""Preparation of a shot: searches that it skips, estimates in their place, and cancellation."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest
from hanging_bodies import flag, run_release

from builders import STOUT_COTTON, scene, static_body
from dampsim.core.geometry.mesh.surface import Surface
from dampsim.core.scene.body import Body
from dampsim.core.simulation import inverse_statics
from dampsim.core.simulation.simulation import Simulation
from dampsim.core.simulation.statics import StaticSolver, stiffness_for_sag
from dampsim.core.steppers.static import SpentSearch
from shapes import sheet, tail


def pinned_cotton(is_pinned, count: int = 17, **more: object) -> Body:
    """Return a flat square metre of cotton in the plane z = 0. is_pinned: mask as a function of x and y (n,)."""
    flat = sheet(count)
    x, y = (flat.vertices[:, k] - flat.vertices[:, k].mean() for k in (0, 1))
    return static_body(flat, is_pinned(x, y).astype(float), kind="CLOTH", **{**STOUT_COTTON, **more})


def pinned_in_the_middle(x: np.ndarray, y: np.ndarray) -> np.ndarray:
    return np.hypot(x, y) < 0.2


def pinned_at_one_side(x: np.ndarray, y: np.ndarray) -> np.ndarray:
    return x < -0.4


def pinned_at_two_sides(x: np.ndarray, y: np.ndarray) -> np.ndarray:
    return np.abs(x) > 0.49


def forbid_search(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*given: object, **named: object) -> None:
        raise AssertionError("searched for the hanging shape")

    monkeypatch.setattr(StaticSolver, "solve_equilibrium", fail)


def first_eigenvalue(body: Body) -> float:
    simulation = Simulation(scene(body))
    island = simulation.islands[0]
    return island.system.effective_eigenvalue(island.system.regions[0], simulation.stiffness_factors(0))


def as_modelled(body: Body) -> Body:
    return replace(body, settings=replace(body.settings, start_settled=False))


SHEETS = {
    "curtain": (flag(17), 0.02),
    "at one side": (pinned_cotton(pinned_at_one_side), 0.02),
    "in the middle": (pinned_cotton(pinned_in_the_middle), 0.1),
    # The pins hold one row of vertices only, so that even stiff card swings like a door.
    "stiff curtain": (flag(17, bending=2000.0), 0.02),
    # It bends downwards, so that its weight acts along it only in part.
    "clamped card": (pinned_cotton(pinned_at_one_side, bending=1e4), 0.25),
}


@pytest.mark.parametrize("name", SHEETS)
def test_estimated_eigenvalue_of_sheet(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without Start at Rest, lambda_1 is estimated without a search for the hanging shape.

    Folds in which a search ends change lambda_1 by a tenth, so an error of a tenth costs Settle no more.
    """
    body, tolerance = SHEETS[name]
    hanging = first_eigenvalue(body)
    forbid_search(monkeypatch)
    assert first_eigenvalue(as_modelled(body)) == pytest.approx(hanging, rel=tolerance)
    simulation = Simulation(scene(as_modelled(body)))
    simulation.precompute()
    assert not simulation.has_known_sag(body.name)


@pytest.mark.parametrize(
    "body",
    [
        as_modelled(pinned_cotton(pinned_at_two_sides, 9)),
        as_modelled(flag(9, keep_shape=True)),
        as_modelled(flag(9, stiffness_by="SAG", sag=5.0)),
        flag(9),
    ],
    ids=["stretched between pins", "Keep Modelled Shape", "Sag", "Start at Rest"],
)
def test_search_for_needed_hanging_shape(body: Body, monkeypatch: pytest.MonkeyPatch) -> None:
    assert Simulation(scene(body)).has_known_sag(body.name)
    forbid_search(monkeypatch)
    with pytest.raises(AssertionError, match="searched"):
        Simulation(scene(body))


@pytest.mark.slow
@pytest.mark.parametrize("settle", [12.0, 24.0, 48.0])
def test_settle_with_estimated_eigenvalue(settle: float) -> None:
    """A flag that starts as modelled comes to rest on time."""
    body = flag(9, settle=settle)
    found = run_release(as_modelled(body), 5.0, 24.0, int(2.5 * settle), resting=body)
    assert found.settle_frames == pytest.approx(settle, rel=0.1)


def test_estimate_for_nodes_at_one_place() -> None:
    """Unwelded vertices have no distance, but are connected."""
    flat = sheet(5)
    upright = np.column_stack([flat.vertices[:, 0], flat.vertices[:, 2], -flat.vertices[:, 1]])
    own = upright[flat.triangles].reshape(-1, 3)
    split = Surface("Split", own, np.arange(len(own)).reshape(-1, 3))
    pins = (own[:, 2] > -1e-9).astype(float)
    body = static_body(split, pins, kind="CLOTH", start_settled=False, **STOUT_COTTON)
    assert first_eigenvalue(body) == pytest.approx(first_eigenvalue(as_modelled(flag(5))), rel=1e-6)


def test_cancelled_preparation_ends() -> None:
    """An exception of the progress callback ends the search after its current step."""
    calls: list[tuple[str, float]] = []

    def cancel(stage: str, fraction: float) -> None:
        calls.append((stage, fraction))
        if fraction > 0.0:
            raise InterruptedError(stage)

    with pytest.raises(InterruptedError, match="hanging shape"):
        Simulation(scene(flag(9)), report_progress=cancel)
    assert sum(fraction > 0.0 for _, fraction in calls) == 1


def counted_calls(body: Body) -> tuple[Simulation, int]:
    """Prepare the first frame of a body; return its simulation and the number of progress reports."""
    calls: list[str] = []
    simulation = Simulation(scene(body), report_progress=lambda stage, fraction: calls.append(stage))
    simulation.precompute()
    return simulation, len(calls)


def test_ordinary_search_spends_little() -> None:
    """The budget of a search is far above the work of a flag that folds."""
    simulation, _ = counted_calls(pinned_cotton(pinned_at_one_side))
    assert not simulation.cut_stages


@pytest.mark.parametrize("sag", [0.0, 5.0], ids=["hanging shape", "Sag"])
def test_budget_bounds_hanging_shape(sag: float, monkeypatch: pytest.MonkeyPatch) -> None:
    body = pinned_cotton(pinned_at_one_side, 9, **({"stiffness_by": "SAG", "sag": sag} if sag else {}))
    _, usual_calls = counted_calls(body)
    monkeypatch.setattr(SpentSearch, "__init__", small_budget(SpentSearch, "budget", 10.0))
    simulation, calls = counted_calls(body)
    assert calls < usual_calls
    assert simulation.cut_stages["the hanging shape"] >= 1
    assert np.isfinite(simulation.first_frame().shapes[body.name]).all()


def test_budget_bounds_first_frame(monkeypatch: pytest.MonkeyPatch) -> None:
    """A search with contacts ends with the shape that it has reached."""
    body = flag(9, touch_self=True)
    simulation = Simulation(scene(body))
    monkeypatch.setattr(SpentSearch, "__init__", small_budget(SpentSearch, "budget", 10.0))
    simulation.precompute()
    assert dict(simulation.cut_stages) == {"the first frame": 1}
    assert np.isfinite(simulation.first_frame().shapes[body.name]).all()


def test_budget_bounds_rest_shape(monkeypatch: pytest.MonkeyPatch) -> None:
    """A spent search for the rest shape keeps that of the load that it has solved."""
    surface = tail()
    x = surface.vertices[:, np.ptp(surface.vertices, axis=0).argmax()]
    body = static_body(surface, (x <= x.min() + 0.1).astype(float), keep_shape=True, resolution=60)
    monkeypatch.setattr(
        inverse_statics.SpentRestShapeSearch, "__init__",
        small_budget(inverse_statics.SpentRestShapeSearch, "max_iterations", 0),
    )  # fmt: skip
    simulation = Simulation(scene(body))
    assert dict(simulation.cut_stages) == {"the rest shape that keeps the modelled shape": 1}


def small_budget(guard: type, name: str, value: float) -> Callable[..., None]:
    """Return the constructor of a guard with a smaller value of one field."""
    usual = guard.__init__

    def construct(self: object, **given: object) -> None:
        usual(self, **{name: value, **given})

    return construct


def test_sag_search_ends_when_cut() -> None:
    """The sag of a search that spent its work is not used if there is another one."""
    tried: list[float] = []

    def sag_at(factor: float) -> float:
        tried.append(factor)
        return 2.0 if len(tried) == 1 else 1.0

    assert stiffness_for_sag(sag_at, 1.0, 1.0, lambda: len(tried) == 2) == 1.0
    assert len(tried) == 2
    tried.clear()
    assert stiffness_for_sag(sag_at, 1.0, 3.0, lambda: True) == 3.0
    assert len(tried) == 1


def test_cancelled_step_of_a_search_ends() -> None:
    """An exception of the progress callback ends a step with contacts before its next detection."""
    calls: list[float] = []

    def cancel(stage: str, fraction: float) -> None:
        if stage == "the first frame":
            calls.append(fraction)
            if len(calls) == 3:
                raise InterruptedError(stage)

    simulation = Simulation(scene(flag(9, touch_self=True)), report_progress=cancel)
    with pytest.raises(InterruptedError, match="first frame"):
        simulation.precompute()
    # A step reports at least a detection and a search, so the second of these belongs to the first step.
    assert len(calls) == 3
