"""Figures 1 to 3 of [Sch] recomputed: similar scenes with springs and with the paper's own damping."""

from __future__ import annotations

from typing import Any

import numpy as np

from dampsim.core.base.arrays import Array
from dampsim.core.literature.damping.clusters import Clusters, Mesh, connected_clusters
from dampsim.core.literature.damping.damping import DampedBody, Damping
from dampsim.core.literature.damping.torque import remove_torque
from dampsim.core.literature.damping.velocity_dampings import DirectDamping, PointDamping, SpringDamping
from dampsim.core.literature.papers.rate_step import PerStepDamping
from dampsim.core.literature.papers.schmedding_scenes import (
    ExplicitRun,
    SchmeddingScene,
    ball_on_membrane,
    dragged_shoe,
    energy_limit,
    largest_scene_step,
    rope_bridge,
    run_explicit,
)
from dampsim.core.materials import ElasticMaterial
from dampsim.core.scene.parameters import Settings

from . import dialled
from .dialled import BLUE, ORANGE, Shown
from .drawing import Drawn, Panel, pictures, surface
from .page import table

LABELS = {
    "undamped": "undamped", "point": "point", "springs": "springs", "own": "the paper's: whole by (a), then elements by (b)",
    "ours": "whole, then elements, by (d), ours",
}  # fmt: skip
# Pictures continue to this multiple of the energy limit, so that they show the failure.
SEEN = 30.0


class Balanced(Damping):
    """Point damping without its sum and torque, as section 4 proposes. It does not act on rigid motion."""

    def __init__(self, scene: SchmeddingScene, gamma: float, scheme: str) -> None:
        self._clusters: Clusters = connected_clusters(Mesh.from_elements(scene.block.mass, scene.block.groups))
        self._mass, self._gamma, self._scheme = scene.block.mass[:, None], gamma, scheme

    def damp_velocities(self, positions: Array, before: Array, predicted: Array, h: float) -> Array:
        # Remove at most the whole velocity of a node, as Point does.
        force = -np.minimum(self._gamma * float(self._mass.mean()), self._mass) / h * predicted
        return predicted + h * remove_torque(force, positions, self._clusters, self._scheme) / self._mass


def _made(scene: SchmeddingScene, method: type[Damping], gamma: float, **dials: object) -> Damping:
    values = Settings(damping_by=method.name, gamma=gamma, **dials).as_dict()  # type: ignore[arg-type]
    chosen = {name: values[name] for name in method.parameters}
    return PerStepDamping(method(DampedBody(scene.block, chosen, ElasticMaterial(1e5, 0.3, 1000.0), 1.0)))


def damped(scene: SchmeddingScene, name: str, gamma: float) -> list[Damping]:
    """Return the dampings to apply in sequence; "the whole" is each connected object of a scene."""
    if name == "undamped":
        return []
    if name in ("point", "springs"):
        return [_made(scene, PointDamping if name == "point" else SpringDamping, gamma)]
    first, then = ("EDGES_PRINTED", "RADII") if name == "own" else ("RIGID", "RIGID")
    return [
        _made(scene, DirectDamping, gamma, clusters="PIECES", torque=first),
        _made(scene, DirectDamping, gamma, clusters="ELEMENTS", torque=then),
    ]


def _limits(scene: SchmeddingScene, limit: float) -> dict[str, list[float]]:
    """Return the longest steps in ms by name, with gamma = 1/2 and 1."""
    found = {}
    for name in LABELS:
        gammas = (1.0,) if name == "undamped" else (0.5, 1.0)
        steps = [1e3 * largest_scene_step(scene, damped(scene, name, gamma), limit) for gamma in gammas]
        found[name] = [steps[0], steps[-1]]
    return found


def _parts(scene: SchmeddingScene, positions: Array) -> list[Drawn]:
    colors, found = (BLUE, ORANGE), []
    # Links between objects are not drawn.
    solids = [group for group in scene.block.groups if group.shape[1] == 4]
    for group, color in zip(solids, colors, strict=False):
        found.append(Drawn(positions, surface(group), color))
    node, radius = scene.ball_marker
    if radius:
        found.append(Drawn(positions[node][None], np.zeros((0, 3), dtype=int), ORANGE, radius))
    return found


def _row(scene: SchmeddingScene, label: str, name: str, h: float, limit: float, times: list[float]) -> list[Panel]:
    """Return panels at the given times, gamma = 1. A failed run gets one more, at SEEN times the energy limit."""
    one = run_explicit(scene, damped(scene, name, 1.0), h, SEEN * limit, times)
    panels = []
    for k, time in enumerate(times):
        head = f"{label}, steps of {1e3 * h:.2f} ms"
        if k < len(one.snapshots):
            panels.append(Panel((head, f"{time:g} s"), _parts(scene, one.snapshots[k])))
        else:
            first = k == len(one.snapshots)
            panels.append(
                Panel(
                    (head, f"failed at {one.failure_time:.2f} s" if first else ""),
                    _parts(scene, one.final_positions) if first else [],
                )
            )
    return panels


def _table(found: dict[str, list[float]]) -> str:
    rows = [[LABELS[name], f"{values[0]:.3g}", f"{values[1]:.3g}"] for name, values in found.items()]
    return table(["damping", "longest step in ms, γ = ½", "γ = 1"], rows)


def _shoe() -> tuple[str, dict[str, Any]]:
    scene = dragged_shoe()
    limit, mass = energy_limit(scene), scene.block.mass
    steps = _limits(scene, limit)
    short = run_explicit(scene, [], scene.step)

    def fall(positions: Array) -> float:
        return float(mass @ (scene.start - positions)[:, 2] / mass.sum())

    falls = {
        name: fall(run_explicit(scene, damped(scene, name, 1.0), scene.step).final_positions)
        / fall(short.final_positions)
        for name in ("point", "springs", "own")
    }
    schemes = {
        scheme: fall(run_explicit(scene, [Balanced(scene, 1.0, scheme)], scene.step).final_positions)
        / fall(short.final_positions)
        for scheme in ("EDGES", "RADII", "RIGID")
    }
    falls["balanced"] = schemes["RADII"]
    h = 1e-3 * 1.1 * steps["undamped"][1]
    longer = 1e-3 * 0.98 * steps["springs"][1]
    times = [0.0, 0.2, 0.4, 0.6]
    panels = []
    for label, name, step in (
        ("undamped", "undamped", h),
        ("point", "point", h),
        ("springs", "springs", h),
        ("springs", "springs", longer),
    ):
        panels += _row(scene, label, name, step, limit, times)
    rows = [
        ["point", f"{falls['point']:.1%}"],
        ["springs", f"{falls['springs']:.1%}"],
        ["the paper's own", f"{falls['own']:.1%}"],
    ]
    names = {"EDGES": "(a) with our factor", "RADII": "(b)", "RIGID": "(d)"}
    rows += [[f"point, balanced by {names[scheme]}", f"{value:.1%}"] for scheme, value in schemes.items()]
    text = (
        "\n## Figure 1: a shoe on a spring dragger\n\n"
        "A soft boot (E = 30 kPa, 252 tetrahedra) hangs in the air. A spring of 80 N/m drags its toe up for 0.3 s, then the boot falls. A run fails\n"
        "when the elastic energy reaches three times that of the undamped run with steps of 1 ms.\n\n"
        + pictures("sch_figure1", "A dragged boot: undamped, with point damping, and with springs at two step lengths", panels, 4,
                   np.array([-0.1, -0.3, -1.1]), np.array([1.05, 0.15, 0.6]), 150.0)
        + "\n" + _table(steps)
        + "\nFall of its centre of mass with steps of 1 ms and γ = 1, relative to the undamped fall:\n\n" + table(["damping", "fall"], rows)
        + "\nAs in the paper, the undamped run fails, point damping is stable but leaves the boot hanging in the air, and with springs it falls. Springs\n"
        f"allow a step {steps['springs'][1] / steps['undamped'][1]:.2f} times as long as the undamped one.\n"
        "\nThe sample `sample_blends/shoe.blend` has a sneaker with *Settle* and *Bounce*, which a spring drags over the floor and raises onto its heel:\n\n"
        "![The sneaker at frames 1, 40, 52, 62, 84 and 110](../images/sch_shoe.jpg)\n"
    )  # fmt: skip
    return text, {**steps, "falls": falls}


def _beside(
    scene: SchmeddingScene, steps: dict[str, list[float]], limit: float, times: list[float]
) -> tuple[list[Panel], dict[str, ExplicitRun], float]:
    """Compare springs and the paper's own damping, gamma = 1, at a step between the longest of both."""
    h = 1e-3 * float(np.sqrt(steps["springs"][1] * steps["own"][1]))
    runs = {name: run_explicit(scene, damped(scene, name, 1.0), h, limit) for name in ("springs", "own")}
    labels = {"springs": "springs", "own": "(a), then (b)"}
    panels = [panel for name, label in labels.items() for panel in _row(scene, label, name, h, limit, times)]
    return panels, runs, h


def _touched(scene: SchmeddingScene) -> float:
    """Return the time of first contact of the falling bodies, s."""
    moving = scene.velocities[:, 2] != 0.0
    for time in np.arange(0.0, scene.seconds, 1e-3):
        fallen = scene.velocities * time - 0.5 * 9.81 * time**2 * moving[:, None] * [0.0, 0.0, 1.0]
        if np.abs(scene.external_force(scene.start + fallen, time)).max() > 0.0:
            return float(time)
    return np.inf


def _under_dials(one: Shown) -> str:
    return (
        f"\nThe last row is the scene as DampSim simulates it, with its own meshes and contact, Settle 12 and Bounce 50%, in steps of {1e3 * one.h:.1f} ms.\n"
        f"{one.hard_frames} of its {len(one.frames) - 1} frames had hard steps. The deepest penetration at any frame is {1e3 * one.deepest:.2f} mm.\n"
    )


def _ended(one: ExplicitRun) -> str:
    return "holds" if one.is_stable else f"fails at {one.failure_time:.3f} s"


def _membrane() -> tuple[str, dict[str, Any]]:
    scene = ball_on_membrane()
    limit = energy_limit(scene)
    steps = _limits(scene, limit)
    times = [0.0, 0.06, 0.2, 0.5]
    panels, runs, h = _beside(scene, steps, limit, times)
    ours = dialled.membrane(scene.seconds)
    node = scene.ball_marker[0]
    back = runs["own"].final_positions[node, 2] - scene.start[node, 2]
    free = run_explicit(scene, [], scene.step).final_positions[node, 2] - scene.start[node, 2]
    said = (
        f"γ = 1, {1e3 * h:.3g} ms: springs: {_ended(runs['springs'])}; (a), then (b): {_ended(runs['own'])}, and the ball is {back:+.2f} m above its start "
        f"after {scene.seconds:g} s ({free:+.2f} m undamped with short steps); the longest steps are {steps['springs'][1]:.3g} and {steps['own'][1]:.3g} ms"
    )
    text = (
        "\n## Figure 2: a ball falls on a membrane\n\n"
        "A square metre (60 mm thick, E = 100 kPa, 384 tetrahedra) is pinned all around. A ball of 2 kg falls on it at 3 m/s and pushes with a\n"
        "penalty of 10 kN/m. A run fails by the same criterion as that of the shoe.\n\n"
        + pictures("sch_figure2", "A ball on a membrane: springs, the paper's own, DampSim's dials", panels + ours.panels(times, "Membrane"), 4,
                   np.array([-0.05, -0.05, -0.4]), np.array([1.05, 1.05, 0.75]), 225.0)
        + _under_dials(ours) + "\n" + _table(steps)
        + "\nThe sample `sample_blends/membrane.blend` has three balls that bounce on a round membrane, with *Settle* and *Bounce*:\n\n"
        "![The balls at frames 1, 9, 13, 20, 30 and 80](../images/sch_membrane.jpg)\n"
    )  # fmt: skip
    return text, {**steps, "shown": {name: one.is_stable for name, one in runs.items()}, "text": said}


def _bridge() -> tuple[str, dict[str, Any]]:
    scene = rope_bridge()
    limit = energy_limit(scene)
    steps = _limits(scene, limit)
    times = [0.0, 0.1, 0.35]
    panels, runs, h = _beside(scene, steps, limit, times)
    ours = dialled.bridge(scene.seconds)
    said = (
        f"γ = 1, {1e3 * h:.3g} ms: springs: {_ended(runs['springs'])}; (a), then (b): {_ended(runs['own'])}; the longest steps are "
        f"{steps['springs'][1]:.3g} and {steps['own'][1]:.3g} ms. The bars touch it at {_touched(scene):.3f} s; in the paper, springs fail before that"
    )
    text = (
        "\n## Figure 3: bars fall on a rope bridge\n\n"
        "Nine planks of 24 tetrahedra (E = 200 kPa) are joined by springs of 40 kN/m along their sides; the outer sides are pinned. Two soft bars\n"
        "fall on them at 1 m/s. Nodes of bars and planks repel each other with a penalty of 2 kN/m. For the damping, the whole bridge is one piece,\n"
        "and the springs are elements of it. [methods.md](methods.md) has the bridge with local constraints instead of springs.\n\n"
        + pictures("sch_figure3", "Bars on a rope bridge: springs, the paper's own, DampSim's dials", panels + ours.panels(times, "Plank"), 3,
                   np.array([-0.05, -0.05, -0.3]), np.array([1.4, 0.65, 0.4]), 300.0)
        + _under_dials(ours) + "\n" + _table(steps)
    )  # fmt: skip
    return text, {**steps, "shown": {name: one.is_stable for name, one in runs.items()}, "text": said}


def figures() -> tuple[str, dict[str, dict[str, Any]]]:
    """Return the text of the three figures, and their numbers."""
    made = {"shoe": _shoe(), "membrane": _membrane(), "bridge": _bridge()}
    return "".join(text for text, _ in made.values()), {name: found for name, (_, found) in made.items()}
