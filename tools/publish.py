"""Make everything that a release publishes: python run.py publish [--slice]

1. check the catalogues of the languages
2. build one zip per platform into out/publish, validate and review the zips
3. render the clips of the documentation again
4. build the site, which shows them, into out/site

Blender need not be installed: the bpy module contains the builder of `blender --command extension build`.
"""

from __future__ import annotations

import argparse
import os
import runpy
import shutil
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
OUT = ROOT / "out" / "publish"
RUNNER = runpy.run_path(str(ROOT / "run.py"))
PACKAGE = runpy.run_path(str(ROOT / "tools" / "package.py"))
# Frames and interval of the pictures of a trial: enough to see that a clip is baked and rendered.
TRIAL = ("--frames", "24", "--step", "12")
BUILDER = "import bpy; print(bpy.utils.resource_path('LOCAL') + '/scripts/addons_core/bl_pkg/cli/blender_ext.py')"


def build_zips(platforms: list[str]) -> list[Path]:
    """Write the zips of some platforms into OUT, and return their paths."""
    shutil.rmtree(OUT, ignore_errors=True)
    stage, pythons = OUT / "stage", list(PACKAGE["PYTHONS"])
    for platform in platforms:
        PACKAGE["fetch"](platform, pythons)
    PACKAGE["compile_kernels"](platforms)
    PACKAGE["write_manual"]()
    PACKAGE["stage"](ROOT, stage, platforms, pythons)
    python = str(RUNNER["environment"]("bpy"))
    builder = subprocess.run([python, "-c", BUILDER], capture_output=True, text=True, check=True).stdout.split("\n")[-2]
    RUNNER["run"](python, builder, "build", "--split-platforms", f"--source-dir={stage}", f"--output-dir={OUT}")
    shutil.rmtree(stage)
    zips = sorted(OUT.glob("*.zip"))
    for path in zips:
        PACKAGE["even"](path)
        RUNNER["run"](python, builder, "validate", path)
    RUNNER["run"](sys.executable, "tools/review.py", *zips)
    return zips


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--slice", action="store_true", help="try one platform and one clip, chosen by the commit")
    options = parser.parse_args()
    os.environ.update(RUNNER["VARIABLES"])
    run, blender = RUNNER["run"], RUNNER["environment"]("bpy")
    platforms = list(PACKAGE["PLATFORMS"])
    clips = []
    if options.slice:
        number = RUNNER["commit_number"]()
        platforms = [platforms[number % len(platforms)]]
        clips = ["--number", number, *TRIAL, "--out", OUT / "clips"]
    run(blender, "tools/translations.py")
    zips = build_zips(platforms)
    run(blender, "tools/clips.py", *clips)
    run(sys.executable, "run.py", "site")
    print("\n".join(f"{path.relative_to(ROOT)}: {path.stat().st_size / 1e6:.1f} MB" for path in zips))
    return 0


if __name__ == "__main__":
    sys.exit(main())
