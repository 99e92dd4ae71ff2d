"""Looks for controllers with which an object walks, and gives it one of those that were found."""

from __future__ import annotations

import json
from collections.abc import Generator, Sequence
from dataclasses import replace

import bpy
import numpy as np

from ...core.errors import DampSimError
from ...core.measure.walks import Search, Walk, find_walks
from ...core.scene.muscles import Controller
from ..blender.sampler import GroupSampler
from ..scene.groups import group_of
from ..scene.results import drop_ghosts
from ..scene.snapshot import check_object, take
from ..work.steps import Step, each


def find(
    scene: bpy.types.Scene, view_layer: bpy.types.ViewLayer, obj: bpy.types.Object, search: Search
) -> Generator[Step, None, tuple[Walk, ...]]:
    """Keep the walks with the object; stopped, it keeps those of before. Raises the errors for the artist."""
    check_object(obj, view_layer)
    group = obj.dampsim
    try:
        with GroupSampler(scene, view_layer, group_of(obj).members) as sampler:
            taken = take(sampler)
            found: tuple[Walk, ...] = yield from each(find_walks(taken, obj.name, search), lambda told: Step(*told))
    except DampSimError as error:
        # Also where its panel is closed, and when the report is gone.
        group.walk_said = str(error)
        raise
    # Ghosts may be of the walks that are gone.
    drop_ghosts(obj)
    group.walks.clear()
    for walk in found:
        kept = group.walks.add()
        kept.way, kept.name = walk.way, f"{walk.way:.2f} m in {search.seconds:g} s"
        kept.numbers = json.dumps(numbers(walk.controller))
    group.active_walk = 0
    group.walk_said = f"{_counted(len(found))}, the farthest comes {group.walks[0].name}: choose one under Muscles"
    return found


def _counted(walks: int) -> str:
    return "A walk is found" if walks == 1 else f"{walks} walks are found"


def numbers(controller: Controller) -> list[dict[str, object]]:
    """What a search chooses of each muscle."""
    return [
        {"weights": list(one.weights), "threshold": one.threshold, "delay": one.delay, "fps": one.fps}
        for one in controller.muscles
    ]


def fits(obj: bpy.types.Object, walk: bpy.types.PropertyGroup) -> bool:
    """Whether an object still has the muscles and sensors that a walk was found for."""
    group, kept = obj.dampsim, json.loads(walk.numbers)
    return len(kept) == len(group.muscles) and all(len(one["weights"]) == len(group.sensors) for one in kept)


def _kept(value: float) -> float:
    """In single precision, as Blender's properties are."""
    return float(np.float32(value))


def walking(controller: Controller, walk: bpy.types.PropertyGroup) -> Controller:
    """A controller with the weights, thresholds and delays of a walk that fits it, as the object would keep them."""
    muscles = tuple(
        replace(
            one,
            weights=tuple(_kept(w) for w in kept["weights"]),
            threshold=_kept(kept["threshold"]),
            delay=int(kept["delay"]),
            fps=_kept(kept["fps"]),
        )
        for one, kept in zip(controller.muscles, json.loads(walk.numbers), strict=True)
    )
    return replace(controller, muscles=muscles)


def use(obj: bpy.types.Object, walk: bpy.types.PropertyGroup) -> None:
    """Give the object's muscles the weights, thresholds and delays of a walk that fits it."""
    for muscle, one in zip(obj.dampsim.muscles, json.loads(walk.numbers), strict=True):
        while len(muscle.weights) < len(one["weights"]):
            muscle.weights.add()
        _weigh(muscle, one["weights"])
        muscle.threshold, muscle.delay = one["threshold"], one["delay"]
        # A delay is of the rate at which it was found.
        muscle.fps = one["fps"]
    obj.dampsim.walk_said = ""


def _weigh(muscle: bpy.types.PropertyGroup, weights: Sequence[float]) -> None:
    for kept, value in zip(muscle.weights, weights, strict=False):
        kept.weight = value
