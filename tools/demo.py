"""Bake the sample creature through the command line, export it, and render pictures into out/."""

from __future__ import annotations

import argparse
import math
import sys
import time
from pathlib import Path

import bpy
from PIL import Image

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT / "tests"))
import conftest  # noqa: E402, F401  (loads the checkout as the package dampsim)

import dampsim  # noqa: E402  isort: skip

OBJECT = "Creature"
# Interval of rendered frames; number of pictures and columns of the contact sheet.
RENDER_STEP, SHEET, COLUMNS = 4, 12, 4
WIDTH, HEIGHT, SAMPLES = 480, 270, 12


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path, default=ROOT / "out")
    parser.add_argument("--no-render", action="store_true", help="bake and export only")
    options = parser.parse_args()
    out = options.out.resolve()
    out.mkdir(parents=True, exist_ok=True)

    dampsim.register()
    from dampsim.dampsim_addon import cli

    began = time.monotonic()
    bpy.ops.wm.open_mainfile(filepath=str(ROOT / "sample_blends" / "creature.blend"))
    baked = out / "creature_baked.blend"
    code = cli.main(["bake", "--object", OBJECT, "--restart", "--cache", str(out / "cache"), "--output", str(baked)])
    if code:
        return code
    print(f"baked in {time.monotonic() - began:.0f} s: {baked}")
    # Export one animation for the whole scene, because viewers play only one at a time.
    bpy.ops.export_scene.gltf(
        filepath=str(out / "creature.glb"), export_format="GLB", export_animation_mode="SCENE",
        export_anim_scene_split_object=False,
    )  # fmt: skip
    if not options.no_render:
        render(out)
    print(f"done in {time.monotonic() - began:.0f} s: {out}")
    return 0


def render(out: Path) -> None:
    scene = bpy.context.scene
    bpy.ops.preferences.addon_enable(module="cycles")
    scene.render.engine = "CYCLES"
    scene.cycles.samples, scene.cycles.use_denoising = SAMPLES, True
    scene.render.resolution_x, scene.render.resolution_y = WIDTH, HEIGHT
    scene.render.resolution_percentage = 100
    scene.render.use_persistent_data = True
    pictures = []
    (out / "frames").mkdir(exist_ok=True)
    for frame in range(scene.frame_start, scene.frame_end + 1, RENDER_STEP):
        scene.frame_set(frame)
        path = out / "frames" / f"{frame:04d}.png"
        scene.render.filepath = str(path)
        bpy.ops.render.render(write_still=True)
        with Image.open(path) as picture:
            pictures.append(picture.convert("RGB"))
    fps = scene.render.fps / scene.render.fps_base
    pictures[0].save(
        out / "creature.webp", save_all=True, append_images=pictures[1:], duration=round(1000 * RENDER_STEP / fps),
        loop=0, quality=85,
    )  # fmt: skip
    chosen = [pictures[round(k * (len(pictures) - 1) / (SHEET - 1))] for k in range(SHEET)]
    sheet = Image.new("RGB", (COLUMNS * WIDTH, math.ceil(SHEET / COLUMNS) * HEIGHT))
    for k, picture in enumerate(chosen):
        sheet.paste(picture, (k % COLUMNS * WIDTH, k // COLUMNS * HEIGHT))
    sheet.save(out / "contact_sheet.png")


if __name__ == "__main__":
    sys.exit(main())
