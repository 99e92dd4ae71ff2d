"""State of an object: its cached frames, its bake, and whether both are still intact."""

from __future__ import annotations

from dataclasses import dataclass

import bpy

from ...core import CacheError, DampSimError
from ...core.base.wording import format_count
from ...core.scene.fingerprint import cache_inputs, describe_changes
from ..model.caches import upcoming_cache
from ..model.colliders import active_colliders
from ..model.groups import group_of
from ..scene_reader.isolation import isolated_sampler
from ..scene_reader.scene_builder import build_scene, check_object
from ..targets.cache_file import baked_file, file_fault
from .refusals import check_refusals


@dataclass(frozen=True)
class Info:
    """State of one object. Its fields are keys of the JSON report.

    target, baked: names of the chosen target and of the target that made the bake ('' if not baked).
    frames: first and last frame of the scene.  cache: folder.  cached: number of simulated frames.
    changed: inputs that changed since the frames were cached, in words. Animation is compared only by a bake.
    colliders: names of the colliders that act on it.  damaged: numbers of frames that cannot be read.
    file, file_fault: the file of the bake, and 'gone', 'damaged' or ''.
    keys: number of shape keys.  size: bytes.  error: m.  problem: why it cannot be simulated now.
    """

    name: str
    target: str
    baked: str
    frames: tuple[int, int]
    cache: str
    cached: int
    changed: tuple[str, ...]
    damaged: tuple[int, ...]
    file: str
    file_fault: str
    keys: int
    size: int
    error: float
    problem: str
    colliders: tuple[str, ...] = ()

    @property
    def faults(self) -> bool:
        return bool(self.damaged or self.file_fault or self.problem)

    @property
    def text(self) -> str:
        """The state in one line."""
        total = self.frames[1] - self.frames[0] + 1
        parts = [f"{min(self.cached, total)} of {format_count(total, 'frame')} simulated"]
        parts.append(f"baked to {self.baked.lower()}" if self.baked else "not baked")
        if self.colliders:
            parts.append(f"collides with {', '.join(self.colliders)}")
        if self.changed:
            parts.append(f"changed since then: {', '.join(self.changed)}")
        if self.damaged:
            parts.append(f"damaged frames: {', '.join(map(str, self.damaged))}; re-bake from frame {self.damaged[0]}")
        if self.file_fault:
            is_gone = self.file_fault == "gone"
            parts.append(f"{self.file} is gone; bake again" if is_gone else f"{self.file} is damaged; bake again")
        if self.problem:
            parts.append(self.problem)
        return "; ".join(parts)


def object_info(scene: bpy.types.Scene, view_layer: bpy.types.ViewLayer, obj: bpy.types.Object) -> Info:
    """Return the state of an object. Reads all cached frames and changes nothing."""
    group = obj.dampsim
    numbers, damaged, changed, problem, folder = [], [], [], "", ""
    try:
        # A bake that was not saved has left frames that the next one finds.
        cache = upcoming_cache(group_of(obj))
        header = cache.compatible_header()
        if header is not None or group.cache_id or group.together:
            folder = str(cache.folder)
            numbers = cache.frame_numbers()
            for number in numbers:
                try:
                    cache.read(number)
                    cache.read_played(number)
                except CacheError:
                    damaged.append(number)
            if header is not None:
                check_object(obj, view_layer)
                with isolated_sampler(scene, view_layer, group_of(obj).members) as sampler:
                    changed = describe_changes(header.inputs, cache_inputs(build_scene(sampler)))
        check_refusals([obj], scene, view_layer)
    except DampSimError as error:
        problem = str(error)
    path = baked_file(obj) if group.baked else None
    return Info(
        name=obj.name,
        target=group.target,
        baked=group.baked,
        frames=(scene.frame_start, scene.frame_end),
        cache=folder,
        cached=len(numbers),
        changed=tuple(changed),
        damaged=tuple(damaged),
        file=str(path or ""),
        file_fault=file_fault(path) if path else "",
        keys=group.baked_keys if group.baked else 0,
        size=round(1e6 * group.baked_size) if group.baked else 0,
        error=group.baked_error if group.baked else 0.0,
        problem=problem,
        colliders=tuple(str(other.name_full) for other in active_colliders(obj, view_layer)),
    )
