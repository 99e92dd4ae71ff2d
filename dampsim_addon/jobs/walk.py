"""Search for controllers with which an object walks, and their use."""

from __future__ import annotations

import json
from collections.abc import Generator
from dataclasses import replace
from typing import Any

import bpy
import numpy as np

from ...core import Controller, DampSimError
from ...core.base.computation import map_steps
from ...core.base.untrusted_files import parse_json
from ...core.base.wording import format_count, format_number
from ...core.gait.gait_search import Walk, WalkSearch, find_walks
from ..model.groups import group_of
from ..scene_reader.isolation import isolated_sampler
from ..scene_reader.scene_builder import check_object
from ..status.results import remove_ghosts
from ..work.steps import Step
from .prepare import prepare_scene

# Largest delay of a muscle, frames.
_MAX_DELAY = 1000


def search_walks(
    scene: bpy.types.Scene, view_layer: bpy.types.ViewLayer, obj: bpy.types.Object, search: WalkSearch
) -> Generator[Step, None, tuple[Walk, ...]]:
    """Search for walks and store them with the object. Cancelling keeps its earlier walks. Raises DampSimError."""
    check_object(obj, view_layer)
    group = obj.dampsim
    try:
        with isolated_sampler(scene, view_layer, group_of(obj).members) as sampler:
            core_scene = yield from prepare_scene(sampler)
            found: tuple[Walk, ...] = yield from map_steps(
                find_walks(core_scene, obj.name, search), lambda told: Step(*told)
            )
    except DampSimError as error:
        # The panel shows the error after the report has disappeared.
        group.walk_said = str(error)
        raise
    # Ghosts may show walks that are about to be removed.
    remove_ghosts(obj)
    group.walks.clear()
    for walk in found:
        entry = group.walks.add()
        entry.way, entry.name = walk.distance, f"{walk.distance:.2f} m in {format_number(search.seconds)} s"
        entry.numbers = json.dumps(muscle_values(walk.controller))
    group.active_walk = 0
    count = format_count(len(found), "walk")
    group.walk_said = f"Found {count}. The best walks {group.walks[0].name}. Choose one under Muscles"
    return found


def muscle_values(controller: Controller) -> list[dict[str, object]]:
    """Return the values that a search chooses for each muscle, as JSON can hold them."""
    return [
        {"weights": list(one.weights), "threshold": one.threshold, "delay": one.delay, "fps": one.fps}
        for one in controller.muscles
    ]


def is_compatible_walk(obj: bpy.types.Object, walk: bpy.types.PropertyGroup) -> bool:
    """Return whether an object still has the muscles and sensors that a walk was found for."""
    group, kept = obj.dampsim, _stored_numbers(walk)
    return len(kept) == len(group.muscles) and all(len(one["weights"]) == len(group.sensors) for one in kept)


def _stored_numbers(walk: bpy.types.PropertyGroup) -> list[dict[str, Any]]:
    """Return the values of each muscle that a file stored as JSON; none for a text that something else has changed."""
    try:
        return [
            {
                "weights": [_finite(weight) for weight in one["weights"]],
                "threshold": _finite(one["threshold"]),
                "fps": max(_finite(one["fps"]), 1.0),
                "delay": min(max(int(one["delay"]), 0), _MAX_DELAY),
            }
            for one in parse_json(walk.numbers)
        ]
    except (ValueError, TypeError, KeyError):
        return []


def _finite(value: Any) -> float:
    """Return a number. Raises TypeError and ValueError, also for texts such as 'nan'."""
    number = float(value)
    if not np.isfinite(number):
        raise ValueError("it is not finite")
    return number


def with_walk(controller: Controller, walk: bpy.types.PropertyGroup) -> Controller:
    """Return a controller with the weights, thresholds and delays of a compatible walk, in single precision."""
    muscles = tuple(
        replace(
            one,
            weights=tuple(np.array(kept["weights"], dtype=np.float32).tolist()),
            threshold=float(np.float32(kept["threshold"])),
            delay=kept["delay"],
            fps=float(np.float32(kept["fps"])),
        )
        for one, kept in zip(controller.muscles, _stored_numbers(walk), strict=True)
    )
    return replace(controller, muscles=muscles)


def apply_walk(obj: bpy.types.Object, walk: bpy.types.PropertyGroup) -> None:
    """Set the weights, thresholds and delays of the object's muscles to those of a compatible walk."""
    for muscle, one in zip(obj.dampsim.muscles, _stored_numbers(walk), strict=True):
        while len(muscle.weights) < len(one["weights"]):
            muscle.weights.add()
        for kept, value in zip(muscle.weights, one["weights"], strict=False):
            kept.weight = value
        muscle.threshold, muscle.delay = one["threshold"], one["delay"]
        # A delay counts frames at the rate at which the walk was found.
        muscle.fps = one["fps"]
    obj.dampsim.walk_said = ""
