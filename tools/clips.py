"""Render the clips of the documentation into docs/images/clips/: python run.py clips [NAME …]

Each clip shows a sample scene, or tails that differ in one dial. A clip is baked through the command line and
rendered with Cycles.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path

import bpy
import numpy as np
from mathutils import Vector
from PIL import Image

ROOT = Path(__file__).resolve().parents[1]
FOLDER = ROOT / "docs" / "images" / "clips"
sys.path[:0] = [str(ROOT / "tests"), str(ROOT / "sample_blends")]
import conftest  # noqa: E402, F401  (loads the checkout as the package dampsim)

import dampsim  # noqa: E402  isort: skip
import build  # noqa: E402  isort: skip

SAMPLES, BOUNCES = 8, 3
# Largest size of a clip (bytes), and the qualities that are tried to reach it.
LARGEST, QUALITIES = 300_000, (80, 70, 60, 50, 40, 30)

# Frames of a clip of tails: the animals move, stop at once, and return before the clip repeats.
STOP, RETURN, LAST = 9, 61, 72
# Distance that the animals move, and distance between two of them (m).
TRAVEL, DISTANCE = 0.6, 1.65
COLOURS = ((0.75, 0.13, 0.04), (0.80, 0.36, 0.03), (0.07, 0.26, 0.42))


@dataclass(frozen=True)
class Clip:
    """A rendered sequence of frames.

    scene: a sample in sample_blends/ by its name, or a function that builds the scene.
    frames: first and last frame; None for the range of the scene.
    step: interval of the rendered frames.
    width, height: size of the whole view in pixels.
    crop: left, bottom, right and top edge of the displayed part, as fractions of the view.
    """

    scene: str | Callable[[], None]
    step: int = 3
    width: int = 400
    height: int = 225
    frames: tuple[int, int] | None = None
    crop: tuple[float, float, float, float] = (0.0, 0.0, 1.0, 1.0)

    @property
    def size(self) -> tuple[int, int]:
        """Return width and height of the pictures (pixels)."""
        left, bottom, right, top = self.crop
        return round(self.width * (right - left)), round(self.height * (top - bottom))


def tails(dial: str, label: str, values: tuple[float, float, float], **others: object) -> Callable[[], None]:
    """Return a function that builds three animals whose tails differ in one dial."""

    def scene() -> None:
        shot = build.new_scene(LAST)
        build.stage(shot, (TRAVEL / 2, -9.0, 2.3), (TRAVEL / 2, 0.0, 0.62), 54)
        shot.view_settings.exposure = -0.9
        white = build.material("Tip", (0.9, 0.88, 0.84), Roughness=0.6)
        ink = build.material("Ink", (0.02, 0.02, 0.03), Roughness=0.8)
        for index, value in enumerate(values):
            look = build.material(f"Fur {index}", COLOURS[index], Roughness=0.55, Sheen_Weight=0.4)
            animal(index, (index - 1) * DISTANCE, look, white, **{**others, dial: value})
            caption(f"{label} {value:g}", (index - 1) * DISTANCE + TRAVEL / 2, ink)

    return scene


def animal(
    index: int, x: float, look: bpy.types.Material, white: bpy.types.Material, **dials: object
) -> bpy.types.Object:
    """Build a sitting animal seen from behind, with a soft upright tail."""
    body = build.fuse_ellipsoids(
        f"Body {index}",
        [
            (Vector((0.0, 0.0, 0.42)), Vector((0.44, 0.40, 0.44)), (0.0, 0.0, 0.0)),
            (Vector((0.0, 0.25, 0.72)), Vector((0.30, 0.28, 0.36)), (0.0, 0.0, 0.0)),
            (Vector((0.0, 0.36, 1.16)), Vector((0.30, 0.26, 0.26)), (0.0, 0.0, 0.0)),
            (Vector((-0.19, 0.36, 1.40)), Vector((0.08, 0.06, 0.17)), (0.0, -0.25, 0.0)),
            (Vector((0.19, 0.36, 1.40)), Vector((0.08, 0.06, 0.17)), (0.0, 0.25, 0.0)),
            (Vector((-0.30, -0.02, 0.10)), Vector((0.17, 0.30, 0.11)), (0.0, 0.0, 0.3)),
            (Vector((0.30, -0.02, 0.10)), Vector((0.17, 0.30, 0.11)), (0.0, 0.0, -0.3)),
        ],
        0.03,
    )
    body.data.materials.append(look)
    # The tail leaves the back, rises, and curls away from the body.
    along = np.linspace(0.0, 1.0, 16)
    centres = [
        Vector((0.34 * np.sin(5.0 * t) * t**0.6, -0.36 - 0.25 * np.sin(1.6 * t), 0.24 + 1.2 * t**1.2)) for t in along
    ]
    radii = 0.07 + 0.035 * np.sin(np.pi * along)
    tail = build.fuse_ellipsoids(
        f"Tail {index}",
        [(centre, Vector((r, r, 1.25 * r)), (0.0, 0.0, 0.0)) for centre, r in zip(centres, radii, strict=True)],
        0.028,
    )
    tail.data.materials.append(look)
    tail.data.materials.append(white)
    height = build.points(tail)[:, 2]
    for polygon in tail.data.polygons:
        polygon.material_index = int(polygon.center.z > 1.22)
    build.add_vertex_group(tail, "Pin", 1.0 - build.smooth_step(height, 0.24, 0.36))
    for part in (body, tail):
        left, right = Vector((x - TRAVEL / 2, 0.0, 0.0)), Vector((x + TRAVEL / 2, 0.0, 0.0))
        build.key(part, "location", {1: left, STOP: right, RETURN: right, LAST + 1: left})
        for curve in build.curves_of(part.animation_data.action):
            for point in curve.keyframe_points:
                # The move ends without slowing down.
                point.interpolation = "LINEAR" if point.co.x == 1 else "BEZIER"
    build.simulate(tail, **{"stiffness": 3e4, "resolution": 700, "loop": True, **dials})
    return tail


def caption(text: str, x: float, look: bpy.types.Material) -> None:
    curve = bpy.data.curves.new(text, "FONT")
    curve.body, curve.align_x, curve.extrude = text, "CENTER", 0.005
    # Long captions are smaller, so that neighbours do not touch.
    curve.size = min(0.26, 2.6 / len(text))
    curve.materials.append(look)
    letters = bpy.data.objects.new(text, curve)
    letters.location, letters.rotation_euler = (x, -1.25, 0.08), (0.9, 0.0, 0.0)
    bpy.context.scene.collection.objects.link(letters)


def strip(dial: str, label: str, values: tuple[float, float, float], **others: object) -> Clip:
    return Clip(tails(dial, label, values, **others), step=2, width=640, height=264)


def close_up(sample: str, last: int, step: int, crop: tuple[float, float, float, float], width: int = 560) -> Clip:
    return Clip(sample, step, width, width * 9 // 16, (1, last), crop)


CLIPS = {
    "settle": strip("settle", "Settle", (12.0, 24.0, 48.0), bounce=30.0),
    "bounce": strip("bounce", "Bounce", (0.0, 30.0, 60.0), settle=36.0),
    "follow_through": strip("follow_through", "Follow-through", (0.5, 1.0, 2.0), settle=30.0, bounce=30.0),
    "sag": strip("sag", "Sag", (2.0, 15.0, 40.0), settle=24.0, bounce=20.0, stiffness_by="SAG"),
    "solid": Clip("jelly"),
    "bones": Clip("creature"),
    "together": close_up("troll", 96, 3, (0.2, 0.0, 0.8, 1.0)),
    "cloth": close_up("skirt", 90, 2, (0.28, 0.03, 0.72, 0.97)),
    "hair": close_up("shag", 70, 3, (0.30, 0.08, 0.70, 0.86)),
    "collide": close_up("runner", 66, 3, (0.34, 0.08, 0.66, 0.94)),
    "garment": close_up("shirt", 72, 3, (0.28, 0.0, 0.72, 1.0)),
    "throw": Clip("throw", 4, frames=(1, 84)),
    "flag": close_up("flag", 96, 4, (0.32, 0.18, 0.74, 1.0)),
    "weave": close_up("sackcloth", 66, 3, (0.12, 0.08, 0.88, 0.97), 480),
    "springs": close_up("bridge", 72, 4, (0.12, 0.12, 0.98, 0.8), 480),
    "rigid": close_up("chain", 72, 4, (0.36, 0.16, 0.76, 1.0)),
    "plasticity": close_up("dent", 104, 4, (0.22, 0.02, 0.86, 1.0), 480),
    "muscles": close_up("walker", 180, 6, (0.02, 0.34, 0.98, 0.62)),
    "air": close_up("paper", 72, 3, (0.08, 0.0, 0.92, 1.0), 480),
    "fibres": close_up("tentacle", 120, 5, (0.0, 0.0, 0.72, 1.0), 480),
    "maps": close_up("blush", 60, 2, (0.24, 0.24, 0.76, 0.9), 800),
}


def bake(clip: Clip, folder: Path) -> None:
    """Open or build the scene of a clip and bake every simulated object of it."""
    from dampsim.dampsim_addon import cli

    if isinstance(clip.scene, str):
        bpy.ops.wm.open_mainfile(filepath=str(ROOT / "sample_blends" / f"{clip.scene}.blend"))
    else:
        clip.scene()
    if clip.frames:
        if clip.frames[1] < bpy.context.scene.frame_end:
            # A part of a cycle is no loop.
            for obj in bpy.context.scene.objects:
                obj.dampsim.loop = False
        bpy.context.scene.frame_end = clip.frames[1]
    # The command line saves the file after a bake, which must not change the samples.
    bpy.ops.wm.save_as_mainfile(filepath=str(folder / "scene.blend"))
    code = cli.main(["bake", "--restart", "--cache", str(folder / "cache")])
    if code:
        sys.exit(code)


def render(clip: Clip, folder: Path) -> list[Image.Image]:
    scene = bpy.context.scene
    bpy.ops.preferences.addon_enable(module="cycles")
    scene.render.engine = "CYCLES"
    scene.cycles.samples, scene.cycles.max_bounces, scene.cycles.use_denoising = SAMPLES, BOUNCES, True
    scene.render.resolution_x, scene.render.resolution_y = clip.width, clip.height
    scene.render.resolution_percentage = 100
    scene.render.use_persistent_data = True
    scene.render.use_border = scene.render.use_crop_to_border = True
    scene.render.border_min_x, scene.render.border_min_y, scene.render.border_max_x, scene.render.border_max_y = (
        clip.crop
    )
    first, last = clip.frames or (scene.frame_start, scene.frame_end)
    pictures = []
    for frame in range(first, last + 1, clip.step):
        scene.frame_set(frame)
        scene.render.filepath = str(folder / f"{frame:04d}.png")
        bpy.ops.render.render(write_still=True)
        with Image.open(scene.render.filepath) as picture:
            pictures.append(picture.convert("RGB"))
    return pictures


def save(pictures: list[Image.Image], path: Path, duration: float) -> None:
    """Write an endless WebP with the highest quality that fits LARGEST. duration: of one picture (ms)."""
    for quality in QUALITIES:
        pictures[0].save(
            path, save_all=True, append_images=pictures[1:], duration=round(duration), loop=0, quality=quality, method=6
        )
        if path.stat().st_size <= LARGEST:
            return
    sys.exit(f"{path} has {path.stat().st_size} bytes: shorten the clip, or make it smaller")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("names", nargs="*", metavar="NAME", help="clips to render (default: all)")
    parser.add_argument("--out", type=Path, default=FOLDER)
    parser.add_argument("--number", type=int, help="render one of the clips, chosen by a number")
    parser.add_argument("--step", type=int, help="render every STEP-th frame only, as a trial")
    parser.add_argument("--frames", type=int, help="end after FRAMES frames, as a trial")
    options = parser.parse_args()
    if unknown := set(options.names) - set(CLIPS):
        parser.error(f"unknown clips: {', '.join(sorted(unknown))}; there are {', '.join(CLIPS)}")
    options.out.mkdir(parents=True, exist_ok=True)
    dampsim.register()
    names = options.names or list(CLIPS)
    if options.number is not None:
        names = [names[options.number % len(names)]]
    for name in names:
        began, clip = time.monotonic(), CLIPS[name]
        clip = replace(clip, step=options.step or clip.step)
        if options.frames:
            clip = replace(clip, frames=(1, options.frames + 1))
        with tempfile.TemporaryDirectory() as folder:
            bake(clip, Path(folder))
            pictures = render(clip, Path(folder))
        rate = bpy.context.scene.render.fps / bpy.context.scene.render.fps_base
        path = options.out / f"{name}.webp"
        save(pictures, path, 1000.0 * clip.step / rate)
        size = path.stat().st_size / 1000
        print(f"{path.name}: {len(pictures)} pictures, {size:.0f} kB, {time.monotonic() - began:.0f} s")
    return 0


if __name__ == "__main__":
    sys.exit(main())
