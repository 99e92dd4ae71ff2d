"""Reproducible builds: the released zips have the same bytes wherever and whenever they are built."""

from __future__ import annotations

import hashlib
import importlib.util
import os
import random
import shutil
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import bpy
import pytest

pytestmark = [
    pytest.mark.bpy,
    pytest.mark.skipif(bool(os.environ.get("DAMPSIM_INSTALLED")), reason="needs the checkout"),
]
ROOT = Path(__file__).parents[2]
# Script behind `blender --command extension build`.
BUILDER = Path(bpy.utils.resource_path("LOCAL")) / "scripts/addons_core/bl_pkg/cli/blender_ext.py"
WHEEL = "scipy-1.17.0-cp311-cp311-{}.whl"
PLATFORMS = {"linux-x64": "manylinux_2_28_x86_64", "windows-x64": "win_amd64"}


def package() -> Any:
    spec = importlib.util.spec_from_file_location("package", ROOT / "tools/package.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def build(folder: Path, seed: int) -> dict[str, str]:
    """Build zips from a copy with random file dates and order, and return their digests by name."""
    tool, order = package(), random.Random(seed)
    copy, out = folder / "checkout", folder / "out"
    names = [
        p.relative_to(ROOT)
        for name in (*tool.CONTENTS, tool.README, "sample_blends")
        for p in [ROOT / name, *sorted((ROOT / name).rglob("*"))]
    ]
    files = [name for name in names if (ROOT / name).is_file() and "__pycache__" not in name.parts]
    order.shuffle(files)
    for name in files:
        (copy / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(ROOT / name, copy / name)
        os.utime(copy / name, (1.5e9 + order.random() * 1e8,) * 2)
    (copy / "wheels").mkdir()
    for tag in PLATFORMS.values():
        (copy / "wheels" / WHEEL.format(tag)).write_bytes(b"no wheel")
    for path in tool.kernels(copy, list(PLATFORMS)):
        path.write_bytes(b"nor this one")
    # A kernel built from another source.
    (copy / "wheels" / "dampsim_kernel-1.0-py3-none-win_amd64.whl").write_bytes(b"stale")
    out.mkdir()
    assert tool.stage(copy, folder / "stage", list(PLATFORMS), ["3.11"]) == 2 * len(PLATFORMS)
    command = [sys.executable, str(BUILDER), "build", "--split-platforms", f"--source-dir={folder / 'stage'}"]
    done = subprocess.run([*command, f"--output-dir={out}"], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    for path in out.glob("*.zip"):
        tool.even(path)
    return {path.name: hashlib.sha256(path.read_bytes()).hexdigest() for path in sorted(out.iterdir())}


def test_builds_are_reproducible(tmp_path: Path) -> None:
    (tmp_path / "one").mkdir()
    (tmp_path / "two").mkdir()
    first = build(tmp_path / "one", 0)
    # Dates in a zip have a resolution of two seconds.
    time.sleep(2.1)
    assert build(tmp_path / "two", 1) == first
    assert len(first) == len(PLATFORMS)
