"""Generate docs/validation/bones.md in Blender's environment: the error of bakes to bones on rigged scenes."""

from __future__ import annotations

import itertools
import math
import os
import sys
import tempfile
import time
from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass, replace
from operator import itemgetter
from pathlib import Path
from typing import Any

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
ROOT = Path(__file__).resolve().parents[1]
sys.path[:0] = [str(ROOT / "tests"), str(ROOT / "tests" / "addon")]
# Loads the checkout as the package dampsim, which the others import.
import conftest  # noqa: E402, F401, I001
import bpy  # noqa: E402
import numpy as np  # noqa: E402
from mathutils import Matrix  # noqa: E402
from scipy.spatial.transform import Rotation  # noqa: E402
from scenes import new_scene  # noqa: E402
from test_bone_bakes import belly  # noqa: E402

import dampsim  # noqa: E402
from dampsim.core import SceneError  # noqa: E402
from dampsim.core.frames.bone_fit import fit_bones  # noqa: E402
from dampsim.core.frames.compression import compress_motion  # noqa: E402
from dampsim.core.frames.key_reduction import bone_centres, continuous_quaternions, keyframe_indices  # noqa: E402
from dampsim.core.frames.skinning import BoneFit, SkinnedMotion, skin  # noqa: E402
from dampsim.dampsim_addon.blender.bone_bakes import rig_of  # noqa: E402
from dampsim.dampsim_addon.blender.sampler import Sampler  # noqa: E402
from dampsim.dampsim_addon.targets.bones import Bones, RecordedMotion  # noqa: E402

OUT = ROOT / "docs" / "validation" / "bones.md"
# Turn of two bones of the rig in another pose.
TURN = math.radians(34.0)
# Bytes of a vertex of a shape key, and of a keyframe; see key_cost().
KEY_BYTES, KEYFRAME_BYTES = 12, 8
# Default of Max Error for bones, as a fraction of the size.
BOUND = 0.005
# Targets: largest error after a turn (%), largest difference of Blender from the fit, as a fraction of the size, and of
# bones from shape keys between frames, as a multiple of the error at frames.
REPOSED, EVALUATED, BETWEEN = 2.0, 1e-4, 2.0
# Number of bones whose motion between frames is measured.
HALF_BONES = 16
# Those of the targets first; with --few, only so many.
FEW = 3
# Cell of a number that was not measured.
UNKNOWN = "| – |"
CASES = [(bones, influences, keeps) for keeps in (True, False) for influences in (8, 4) for bones in (16, 32, 8)]
SCENE_HEAD = "| scene | vertices | frames | carrying bones | without new bones | evaluated by Blender |"
FIT_HEAD = (
    "| scene | bones | influences | weights | worst | root mean square | reposed | kB | keyframes | shape keys | s |"
)
HALF_HEAD = "| scene | largest turn | error at frames | shape keys between | bones between | bones from shape keys |"
TARGET_HEAD = "| target | measured | result |"
PAGE = """# Bakes to bones

This page states how far the flesh is from the simulation if it is baked to *Bones*. `python tools/bones_table.py`
generates it in Blender's environment; with names of scenes, it measures only those again. All errors are in percent of
the size, which is the diagonal of the box around the mesh, and include all vertices. Each table begins with the worst
row.

## Targets

{targets}

*Reposed* and *shared* are explained below the table of errors.

## Errors at frames

{fits}

{notes}- The tentacle with 8 or 32 bones and 4 influences is of an earlier fit, which took longer, with larger errors.
- *Worst*, *root mean square*: error over all frames.
- *Same*, *shared*: a bone and its new children keep the weight of the bone ([decision
  0061](../decisions/0061-bake-to-rigid-bones-that-share-weights.md)). *Free*: only the sum of all weights stays, as
  with *Keep Rig Posable* off. With a single carrying bone, there is no difference (*same*).
- *Reposed*: largest difference from shape keys with the same motion, after two bones of the rig were turned by 34°.
- *kB*: size of the weights and of keyframes at all frames. *Keyframes*: part of them that remains with a *Max Error* of
  0.5%, or of the error of the fit if that is larger.
- *Shape keys*: number of shape keys that have the same size as the bones, and their largest error. A shape key stores
  all vertices.
- *s*: CPU time of the fit. Vertices that the simulation does not move cost nothing: for a tube whose 11,000 vertices
  all move at 120 frames, 32 bones took 20 s, and the reduction of keyframes 4 s. Without the compiled kernel, the fit
  takes about four times as long.

## Scenes

{scenes}

- *Without new bones*: largest distance between the flesh and the mesh as the carrying bones alone move it.
- *Evaluated by Blender*: difference between the largest error in Blender and that of the fit, as a fraction of the
  size, with 8 bones.
- Ears, tentacle, cape and jelly have no rig, so that the bake makes one with a single bone.

## Errors between frames

{halves}

- Errors halfway between frames, with {half_bones} bones and 8 influences. Each scene is simulated at twice its frame
  rate. Bones and shape keys get every second frame, and are compared with the frames in between.
- *Error at frames*: of the bones, at the frames that they got.
- *Largest turn* of a bone within a frame, relative to its parent. Bones turn along arcs, while shape keys move vertices
  along straight lines. Half a turn belongs to a bone with small weights, whose orientation hardly matters.
- *Bones from shape keys*: largest distance between both.
- Most of both errors is the change of velocity within a frame, which is in neither bake ([decision
  0101](../decisions/0101-measure-bones-between-frames-by-the-simulation.md)).

## Where bones do not suffice

- **Cloth folds between bones.** The cape is the worst scene, and shape keys of the same size are more exact there.
- **Four influences** leave only two for each of two carrying bones. Such vertices have the largest error of the belly:
  0.20% with 16 bones. Eight influences lower it to 0.031%.
- **Small meshes take few bytes per shape key.** Shape keys of the same size are then often more exact than bones, as
  for belly and rope. On the creature, bones are more exact by far, and engines limit the number of morph targets.
- **A reposed tail with 32 bones** misses the target of 2%; with 16 bones, it reaches it. Children of two bones can move
  apart and cancel each other in the baked pose, but not in another one. A prototype that draws the children of each
  bone to the goal lowered the error from 2.32% to 0.16%, with the motion of the table between frames. It was not
  adopted, because it enlarged the largest error in the baked pose from 0.004% to 0.033%.
- **Reposed free weights** have errors of up to 8.6% (belly), because other bones got a part of a bone's weight. Shared
  weights have only the difference between two blends: bones blend matrices, and shape keys blend moves.
- **More bones** help little where the number of influences is the limit: with 4 influences, the ears have 0.240%,
  0.229% and 0.214% with 8, 16 and 32 bones. With 8 influences, they have 0.116%, 0.072% and 0.044%.
- **Between frames**, bones and shape keys both miss the simulation (see above). More frames per second reduce this.

## Smoothed weights

Smoothed weights do not help. A prototype drew the weights of each vertex to the mean of its neighbours, with 8
influences, 16 bones (32 for the tail) and the motion of the table between frames. A weak pull changed little:

| scene | largest error | largest change of the length of an edge |
|---|---|---|
| cape | from 0.507% to 0.534% | from 37% to 32% |
| ears | from 0.057% to 0.053% | from 4.6% to 2.9% |
| belly | from 0.025% to 0.023% | from 2.3% to 1.7% |
| tail | from 0.004% to 0.006% | from 1.4% to 1.8% |

The mean change of edges and the reposed errors stayed the same. A strong pull, which made weights smoother by up to a
third, enlarged the largest error by 23% (ears) to 190% (tail), except for the cape.
"""


@dataclass
class Recorded:
    """Recorded motion of a scene.

    ancestors: of each carrying bone, itself included.  heads: (p, 3) m, bound heads.
    evaluated: difference of the evaluated error from that of the fit, as a fraction of the size.
    """

    name: str
    motion: SkinnedMotion
    ancestors: list[set[int]]
    heads: np.ndarray
    evaluated: float

    @property
    def size(self) -> float:
        return float(np.linalg.norm(np.ptp(self.motion.rest, axis=0)))


def tail(cache: Path) -> None:
    """Make a tail of six bones, pinned at its root, that swings."""
    obj, rig = belly(cache)
    rig.animation_data_clear()
    bpy.context.view_layer.objects.active = rig
    bpy.ops.object.mode_set(mode="EDIT")
    bones = rig.data.edit_bones
    for bone in list(bones):
        bones.remove(bone)
    before = None
    for k in range(6):
        bone = bones.new(f"tail{k}")
        bone.head, bone.tail, bone.parent = (0.0, 0.0, -1.0 + k / 3.0), (0.0, 0.0, -1.0 + (k + 1) / 3.0), before
        before, bone.roll = bone, 0.4 * k
    bpy.ops.object.mode_set(mode="OBJECT")
    bpy.context.view_layer.objects.active = obj
    height = np.array([vertex.co.z for vertex in obj.data.vertices])
    for name in ("hips", "spine.L", "chest"):
        obj.vertex_groups.remove(obj.vertex_groups[name])
    for vertex in obj.data.vertices:
        vertex.co.x, vertex.co.y = (0.35 * value * (1.3 - 0.5 * (vertex.co.z + 1.0)) for value in vertex.co.xy)
    obj.vertex_groups["Pin"].remove(np.flatnonzero(height > -0.9).tolist())
    for k in range(6):
        weights = np.clip(1.0 - np.abs(height - (-1.0 + (k + 0.5) / 3.0)) * 3.0, 0.0, 1.0)
        weights[(height < -5.0 / 6.0) & (k == 0) | (height > 5.0 / 6.0) & (k == 5)] = 1.0
        group = obj.vertex_groups.new(name=f"tail{k}")
        for vertex in np.flatnonzero(weights > 0.0).tolist():
            group.add([vertex], float(weights[vertex]), "REPLACE")
        pose = rig.pose.bones[f"tail{k}"]
        pose.rotation_mode = "XYZ"
        for frame in range(1, 41, 4):
            pose.rotation_euler.x = 0.15 * math.sin(0.35 * frame - 0.6 * k) * (frame < 30)
            pose.keyframe_insert("rotation_euler", frame=frame)


def sample(name: str) -> Callable[[Path], None]:
    def open_sample(cache: Path) -> None:
        bpy.ops.wm.open_mainfile(filepath=str(ROOT / "sample_blends" / f"{name}.blend"))
        group = bpy.context.object.dampsim
        group.cache_folder, group.target = str(cache), "BONES"

    return open_sample


def rope(cache: Path) -> None:
    """Make a rope, a tube that hangs from one bone, which swings it."""
    obj, rig = belly(cache)
    rig.animation_data_clear()
    for name in ("spine.L", "chest"):
        obj.vertex_groups.remove(obj.vertex_groups[name])
    obj.vertex_groups["hips"].add(list(range(len(obj.data.vertices))), 1.0, "REPLACE")
    low = [vertex.index for vertex in obj.data.vertices if vertex.co.z < 0.9]
    obj.vertex_groups["Pin"].remove(low)
    for vertex in obj.data.vertices:
        vertex.co.x, vertex.co.y = 0.12 * vertex.co.x, 0.12 * vertex.co.y
    bone = rig.pose.bones["hips"]
    for frame, place in ((1, 0.0), (8, 0.6), (16, -0.5), (24, 0.0)):
        bone.location.x = place
        bone.keyframe_insert("location", frame=frame)


SCENES: dict[str, tuple[Callable[[Path], Any], int]] = {
    "belly": (belly, 60),
    "tail": (tail, 60),
    "creature": (sample("creature"), 0),
    "cape": (sample("cape"), 0),
    "rope": (rope, 60),
    "ears": (sample("ears"), 0),
    "tentacle": (sample("tentacle"), 0),
    "jelly": (sample("jelly"), 0),
}


def record(name: str, make: Callable[[Path], Any], last: int, cache: Path) -> Recorded:
    """Bake a scene and return the motion that the fit saw."""
    if last:
        new_scene(last)
    make(cache)
    # So small a bound keeps all keyframes.
    bpy.context.object.dampsim.max_bones, bpy.context.object.dampsim.bone_bound_percent = 8, 0.001
    seen: list[RecordedMotion] = []
    original = Bones.compress

    def compress(self: Bones, shot: Any, collected: RecordedMotion) -> Any:
        seen.append(collected)
        fitted = yield from original(self, shot, collected)
        errors.append(fitted.error)
        return fitted

    errors: list[float] = []
    Bones.compress = compress  # type: ignore[method-assign]
    try:
        assert bpy.ops.dampsim.bake(which="ACTIVE", restart=True) == {"FINISHED"}
    finally:
        Bones.compress = original  # type: ignore[method-assign]
    obj, recorded = bpy.context.object, seen[0]
    bones, names = rig_of(obj).data.bones, recorded.bones
    ancestors = [{names.index(one.name) for one in [bones[n], *bones[n].parent_recursive] if one.name in names}
                 for n in names]  # fmt: skip
    heads = np.array([bones[n].head_local for n in names])
    size = float(np.linalg.norm(np.ptp(recorded.motion.rest, axis=0)))
    evaluated = abs(obj.dampsim.baked_error - errors[-1]) / recorded.scale / size
    return Recorded(name, recorded.motion, ancestors, heads, evaluated)


def record_halves(make: Callable[[Path], Any], last: int, cache: Path) -> SkinnedMotion:
    """Simulate a scene with twice its frame rate, and return the motion at its frames and halfway between them."""
    if last:
        new_scene(last)
    make(cache)
    scene, seen, originals = bpy.context.scene, list[RecordedMotion](), (Sampler.set_frame, Bones.compress)
    first = scene.frame_start
    scene.frame_end, scene.render.fps = 2 * scene.frame_end - first, 2 * scene.render.fps

    def set_frame(self: Sampler, frame: float) -> None:
        originals[0](self, first + 0.5 * (frame - first))

    def compress(self: Bones, shot: Any, collected: RecordedMotion) -> Any:
        seen.append(collected)
        raise SceneError("The motion is recorded.")
        yield

    Sampler.set_frame, Bones.compress = set_frame, compress  # type: ignore[method-assign]
    try:
        bpy.ops.dampsim.bake(which="ACTIVE", restart=True)
    except RuntimeError:
        # The bake ends with the record.
        assert seen
    finally:
        Sampler.set_frame, Bones.compress = originals  # type: ignore[method-assign]
    return seen[0].motion


def half_row(name: str, halves: SkinnedMotion) -> str:
    """Return the row of the errors halfway between frames. halves: motion with twice the frame rate."""
    even, odd = (replace(halves, goal=halves.goal[first::2], bones=halves.bones[first::2]) for first in (0, 1))
    fit = fit_bones(even, HALF_BONES)
    transforms, turn = transforms_between(even, fit)
    moved = moved_vertices(even)
    blend = np.einsum("vp,fpij->fvij", odd.carrying, odd.bones)
    of_keys = np.einsum("fvij,fvj->fvi", blend[..., :3, :3], 0.5 * (moved[1:] + moved[:-1])) + blend[..., :3, 3]
    of_bones = skin(odd, fit.parents, transforms, fit.weights)
    size = float(np.linalg.norm(np.ptp(halves.rest, axis=0)))
    pairs = (of_keys, odd.goal), (of_bones, odd.goal), (of_bones, of_keys)
    keys, bones, apart = (100.0 * np.linalg.norm(one - other, axis=2).max() / size for one, other in pairs)
    return f"| {name} | {turn:.0f}° | {100.0 * fit.error / size:.3f}% | {keys:.2f}% | {bones:.2f}% | {apart:.3f}% |"


def transforms_between(motion: SkinnedMotion, fit: BoneFit) -> tuple[np.ndarray, float]:
    """Return the transforms (f - 1, k, 4, 4) of new bones halfway between frames, and their largest turn, degrees."""
    found, largest = np.tile(np.eye(4), (len(motion.goal) - 1, len(fit.parents), 1, 1)), 0.0
    for k, centre in enumerate(bone_centres(motion, fit)):
        turns = continuous_quaternions(Rotation.from_matrix(fit.transforms[:, k, :3, :3]).as_quat())
        places = fit.transforms[:, k, :3, :3] @ centre + fit.transforms[:, k, :3, 3]
        half = Rotation.from_quat(0.5 * (turns[1:] + turns[:-1]))
        found[:, k, :3, :3] = half.as_matrix()
        found[:, k, :3, 3] = 0.5 * (places[1:] + places[:-1]) - half.apply(centre)
        cosines = np.clip((turns[1:] * turns[:-1]).sum(axis=1), -1.0, 1.0)
        largest = max(largest, float(np.degrees(2.0 * np.arccos(cosines)).max()))
    return found, largest


def moved_vertices(motion: SkinnedMotion) -> np.ndarray:
    """Return the positions (f, v, 3) m before the rig that it carries to the goal."""
    blend = np.einsum("vp,fpij->fvij", motion.carrying, motion.bones)
    blend[:, motion.carrying.sum(axis=1) == 0.0] = np.eye(4)
    return np.einsum("fvij,fvj->fvi", np.linalg.inv(blend[..., :3, :3]), motion.goal - blend[..., :3, 3])


def reposed_error(one: Recorded, fit: BoneFit) -> float:
    """Return the largest difference from moved shape keys after two bones were turned, m."""
    motion, bones = one.motion, one.motion.bones.copy()
    order = np.argsort(-motion.carrying.sum(axis=0))
    for chosen in order[:2]:
        for frame in range(len(bones)):
            head = (bones[frame, chosen] @ np.append(one.heads[chosen], 1.0))[:3]
            turn = np.eye(4)
            turn[:3, :3] = np.array(Matrix.Rotation(TURN, 3, "X"))
            turn[:3, 3] = head - turn[:3, :3] @ head
            for k, above in enumerate(one.ancestors):
                if chosen in above:
                    bones[frame, k] = turn @ bones[frame, k]
    moved = moved_vertices(motion)
    new = np.einsum("vp,fpij->fvij", motion.carrying, bones)
    wanted = np.einsum("fvij,fvj->fvi", new[..., :3, :3], moved) + new[..., :3, 3]
    is_skinned = motion.carrying.sum(axis=1) > 0.0
    found = skin(replace(motion, bones=bones), fit.parents, fit.transforms, fit.weights)
    return float(np.linalg.norm((found - wanted)[:, is_skinned], axis=2).max())


def key_error(one: Recorded, size: float) -> tuple[int, float]:
    """Return the number of shape keys in so many bytes, and their largest error, m."""
    motion = one.motion
    frames, vertices = motion.goal.shape[:2]
    count = int(size / (KEY_BYTES * vertices + KEYFRAME_BYTES * frames))
    moves = moved_vertices(motion) - motion.rest
    if count < 2:
        # The offset alone is the first key.
        still = moves if count == 0 else moves - moves.mean(axis=0)
        return count, float(np.linalg.norm(still, axis=2).max())
    if count - 1 >= frames - 1:
        return count, 0.0
    return count, compress_motion(moves.astype(np.float32), 1e-9, count - 1).error


def scene_row(one: Recorded) -> str:
    """Return the row of a scene."""
    frames, vertices, bones = *one.motion.goal.shape[:2], one.motion.carrying.shape[1]
    none = np.zeros((frames, 0, 4, 4))
    still = skin(one.motion, np.zeros(0, dtype=int), none, one.motion.carrying)
    before = np.linalg.norm(still - one.motion.goal, axis=2).max() / one.size
    return f"| {one.name} | {vertices} | {frames} | {bones} | {100.0 * before:.2f}% | {one.evaluated:.0e} |"


def row_key(row: str) -> tuple[str, ...]:
    """Return scene, bones, influences and weights of a row."""
    return tuple(cell.strip() for cell in row.split("|")[1:5])


def fit_rows(one: Recorded, known: Collection[tuple[str, ...]]) -> Iterator[str]:
    """Yield the row of each case that is not known."""
    motion = one.motion
    count = motion.carrying.shape[1]
    for bones, influences, keeps in CASES if count > 1 else [case for case in CASES if case[2]]:
        kind = "same" if count == 1 else "shared" if keeps else "free"
        if (one.name, str(bones), str(influences), kind) in known:
            continue
        began = time.process_time()
        fit = fit_bones(motion, bones, influences=influences, keeps_shares=keeps)
        seconds = time.process_time() - began
        weights = int((fit.weights[:, count:] > 0.0).sum())
        size = 7 * KEYFRAME_BYTES * len(fit.parents) * len(motion.goal) + 8 * weights
        kept = sum(map(len, keyframe_indices(motion, fit, BOUND * one.size))) / (len(fit.parents) * len(motion.goal))
        keys, of_keys = key_error(one, size)
        parts = [100.0 * value / one.size for value in (fit.error, fit.mean_error, reposed_error(one, fit), of_keys)]
        yield (
            f"| {one.name} | {bones} | {influences} | {kind} | {parts[0]:.3f}% | {parts[1]:.4f}% | {parts[2]:.2f}% | "
            f"{size / 1e3:.0f} | {100.0 * kept:.0f}% | {keys}: {parts[3]:.2g}% | {seconds:.0f} |"
        )


def kept_rows(page: str, head: str, names: Collection[str]) -> list[str]:
    """Return the rows of some scenes in the table with a head line."""
    lines = page.partition(head)[2].partition("\n\n")[0].splitlines() if head in page else []
    return [line for line in lines if line.split("|")[1:2] and line.split("|")[1].strip() in names]


def target_rows(fits: list[str], scenes: list[str], halves: list[str]) -> list[str]:
    """Return the row of each target of the errors and of the time, those that are missed first."""
    cells = [[cell.strip() for cell in row.split("|")[1:-1]] for row in fits]
    numbers = {tuple(one[:4]): [float(one[k].rstrip("%")) for k in (4, 6, 10)] for one in cells}
    found = []
    belly_key, creature_key = ("belly", "16", "8", "shared"), ("creature", "32", "8", "shared")
    for text, key, place, limit, unit in (
        ("belly, 16 bones, 8 influences, shared: worst", belly_key, 0, 0.1, "%"),
        ("belly, 16 bones, 8 influences, shared: reposed", belly_key, 1, 2.0, "%"),
        ("creature, 32 bones, 8 influences, shared: worst", creature_key, 0, 0.2, "%"),
        ("creature (10,896 vertices, 120 frames), the same bones: CPU time", creature_key, 2, 60.0, " s"),
    ):
        if key in numbers:
            value = numbers[key][place]
            found.append((value <= limit, f"| {text} at most {limit:g}{unit} | {value:g}{unit}"))
    if kept := [(of_key[1], key) for key, of_key in numbers.items() if key[3] != "free"]:
        value, (name, bones, influences, _) = max(kept)
        text = f"every scene and number of bones, shared or same: reposed at most {REPOSED:g}%"
        found.append((value <= REPOSED, f"| {text} | {value:g}% ({name}, {bones} bones, {influences} influences)"))
    if scenes:
        evaluated, name = max((float(row.split("|")[6]), row.split("|")[1].strip()) for row in scenes)
        text = f"every scene, evaluated by Blender: at most {EVALUATED:g} of the size from the fit"
        found.append((evaluated <= EVALUATED, f"| {text} | {evaluated:.0e} ({name})"))
    if halves:
        found.append(_between_target(halves))
    return [
        f"{row} | {'reached' if is_reached else 'missed'} |" for is_reached, row in sorted(found, key=itemgetter(0))
    ]


def _between_target(halves: list[str]) -> tuple[bool, str]:
    """Return whether the target between frames is reached, and its row without the last cell."""
    found = []
    for row in halves:
        name, _, error, of_keys, of_bones = (cell.strip().rstrip("%") for cell in row.split("|")[1:6])
        farther = float(of_bones) - float(of_keys)
        found.append((farther / max(float(error), 1e-9) if farther > 0.0 else 0.0, name))
    part, name = max(found)
    text = f"every scene, between frames: farther off than shape keys by at most {BETWEEN:g} times the error at frames"
    return part <= BETWEEN, f"| {text} | {part:.1f} times ({name})"


def table(head: str, rows: list[str]) -> str:
    return "\n".join([head, "|" + "---|" * (head.count("|") - 1), *rows])


def with_kept_rows(page: str, head: str, rows: list[str]) -> list[str]:
    """Return rows of some scenes, and those of the others in the table with a head line."""
    others = [name for name in SCENES if not any(row.startswith(f"| {name} |") for row in rows)]
    return [*rows, *kept_rows(page, head, others)]


def write_page(scenes: list[str], fits: list[str], halves: list[str]) -> None:
    """Write the page with rows of some scenes, and keep those of the others. Worst first."""
    page = OUT.read_text(encoding="utf-8") if OUT.exists() else ""
    scenes = with_kept_rows(page, SCENE_HEAD, scenes)
    halves = with_kept_rows(page, HALF_HEAD, halves)
    measured = set(map(row_key, fits))
    fits = [*fits, *(row for row in kept_rows(page, FIT_HEAD, SCENES) if row_key(row) not in measured)]

    def percent(row: str, place: int) -> float:
        return -float(row.split("|")[place].strip().rstrip("%"))

    tables = {
        "targets": table(TARGET_HEAD, target_rows(fits, scenes, halves)),
        "scenes": table(SCENE_HEAD, sorted(scenes, key=lambda row: percent(row, 5))),
        "halves": table(HALF_HEAD, sorted(halves, key=lambda row: percent(row, 5))),
        "fits": table(FIT_HEAD, sorted(fits, key=lambda row: percent(row, 5))),
    }
    partly = [name for name in SCENES if _measured_part(name, fits) < 1.0]
    missing = f"Measured only in part, or not at all: {', '.join(partly)}.\n\n"
    earlier = "Rows without a number of keyframes are of earlier versions of the simulation and of the fit.\n\n"
    notes = (earlier if any(UNKNOWN in row for row in fits) else "") + (missing if partly else "")
    OUT.write_text(PAGE.format(notes=notes, half_bones=HALF_BONES, **tables), encoding="utf-8")


def _measured_part(name: str, fits: list[str]) -> float:
    """Return the fraction of the cases of a scene that are measured. A single carrying bone has half of them."""
    own = [row for row in fits if row.startswith(f"| {name} |")]
    return len(own) / (len(CASES) / 2 if any("| same |" in row for row in own) else len(CASES))


def main() -> int:
    """Measure the scenes that are named as arguments, or all of them, and write the page after each fit.

    With --few, each scene has only the first cases; with --missing, those that the page lacks; with --halves, only the
    errors between frames are measured.
    """
    dampsim.register()
    scenes: list[str] = []
    fits: list[str] = []
    halves: list[str] = []
    names = [name for name in sys.argv[1:] if not name.startswith("--")] or list(SCENES)
    page = OUT.read_text(encoding="utf-8") if "--missing" in sys.argv else ""
    known = {row_key(row) for row in kept_rows(page, FIT_HEAD, SCENES) if UNKNOWN not in row}
    for name in names:
        with tempfile.TemporaryDirectory() as folder:
            if "--halves" in sys.argv:
                halves.append(half_row(name, record_halves(*SCENES[name], Path(folder))))
                print(halves[-1], flush=True)
                write_page(scenes, fits, halves)
                continue
            one = record(name, *SCENES[name], Path(folder))
        scenes.append(scene_row(one))
        for row in itertools.islice(fit_rows(one, known), FEW if "--few" in sys.argv else None):
            print(row, flush=True)
            fits.append(row)
            write_page(scenes, fits, halves)
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
