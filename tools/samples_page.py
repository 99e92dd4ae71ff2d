"""Makes docs/validation/samples.md, in Blender's environment: the dials on the meshes of the samples."""

from __future__ import annotations

import os
import sys
from dataclasses import replace
from pathlib import Path

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
ROOT = Path(__file__).resolve().parents[1]
sys.path[:0] = [str(ROOT / "tests"), str(ROOT / "tests" / "core")]
import bpy  # noqa: E402
import numpy as np  # noqa: E402

import conftest  # noqa: E402, F401  (loads the checkout as the package dampsim)
import dampsim  # noqa: E402
import promise  # noqa: E402
from dampsim.core.scene.body import Body  # noqa: E402
from dampsim.dampsim_addon.scene import snapshot  # noqa: E402
from test_promise import broken  # noqa: E402

OUT = ROOT / "docs" / "validation" / "samples.md"
NAMES = ("jelly", "creature", "antenna")
# Of the tetrahedra, so that the page takes minutes.
RESOLUTION = 1000
# How far a stop or a load moves the surface, in parts of the size.
PARTS = (0.01, 0.05)
DRAWS = 4


def sample(name: str) -> Body:
    """The simulated object of a sample at its first pose, with its pins, maps and dials."""
    bpy.ops.wm.open_mainfile(filepath=str(ROOT / "sample_blends" / f"{name}.blend"))
    with snapshot.GroupSampler(bpy.context.scene, bpy.context.view_layer, [bpy.context.object]) as sampler:
        (body,) = snapshot.take(sampler).bodies
        pose = body.motion(float(bpy.context.scene.frame_start))
    settings = replace(body.settings, resolution=min(body.settings.resolution, RESOLUTION), follow_through=1.0)
    return replace(
        body, settings=settings, surface=replace(body.surface, vertices=pose), motion=lambda _: pose, dials=None
    )


def measured(name: str, rng: np.random.Generator) -> list[tuple[float, str, list[str]]]:
    """How far the rest misses the dial (in parts of it), the row, and what does not hold, of each run."""
    body, found = sample(name), []
    for draw in range(DRAWS):
        settle, bounce = (float(rng.choice(some)) for some in ((12, 24, 48), (0, 10, 30, 60)))
        own = draw == 0
        if not own:
            body = replace(body, settings=replace(body.settings, settle=settle, bounce=bounce))
        settle, bounce = body.settings.settle, body.settings.bounce
        for part in PARTS:
            fps = float(rng.choice([24, 60]))
            way, speed = promise.direction(rng), part / (0.045 * settle / fps) * body.surface.size
            stopped = promise.stop(body, promise.straight(body.surface, speed * way), fps)
            let_go = promise.released(body, promise.along(promise.direction(rng)), part, fps)
            for kind, one in (("stop", stopped), ("release", let_go)):
                wrong = broken(one, settle, bounce, kind == "stop")
                dials = f"{settle:.4g} | {bounce:.4g}%{' (its own)' if own else ''} | {fps:g}"
                row = (
                    f"| {name} | {kind} | {one.largest / body.surface.size:.1%} | {dials} | {one.rest:.1f} "
                    f"| {one.overshoot:.0%} | {'**' + ', '.join(wrong) + '**' if wrong else ''} |"
                )
                off = one.rest / settle
                late = off - 1.0 if kind == "stop" else max(off - 1.05, 0.8 - off, 0.0)
                found.append((abs(late), row, wrong))
    return found


def main() -> None:
    dampsim.register()
    rng = np.random.default_rng(7)
    found = [one for name in NAMES for one in measured(name, rng)]
    found.sort(key=lambda one: (not one[2], -one[0]))
    holding = sum(not wrong for *_, wrong in found)
    lines = [
        "| sample | what | moved by | Settle | Bounce | fps | rest | swing | does not hold |",
        "|---|---|---|---|---|---|---|---|---|",
        *(row for _, row, _ in found),
    ]
    OUT.write_text(
        "# The dials on the samples\n\n"
        f"Made by `python run.py docs` in Blender's environment; {holding} of {len(found)} runs hold. The meshes, pins and painted maps of the samples, at most {RESOLUTION}\n"
        "tetrahedra, their own dials first and then drawn ones. Stops and releases in random directions that move the surface by about 1% or 5% of its size,\n"
        "measured and judged as on [the page of the dials](settle.md): rest in frames from the stop or the release, of all regions together. Worst first.\n\n"
        + "\n".join(lines)
        + "\n",
        encoding="utf-8",
    )
    print(OUT, flush=True)


if __name__ == "__main__":
    main()
