"""Time and disk use of a farm: python tests/benchmarks/farm.py [--blender PROGRAM] [--tetrahedra 1000 5000 …]

`farm` bakes growing numbers of shots of a shaken ball with one and two Blenders, then balls of several sizes. Finally
the page and the skipping of finished shots are timed with synthetic reports of 10,000 shots. No test depends on this.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import resource
import shutil
import sys
import tempfile
import time
from pathlib import Path

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
TESTS = Path(__file__).resolve().parents[1]
# The tests' own conftest.py, not the add-on's, loads the checkout as the package dampsim.
sys.path[:0] = [str(TESTS), str(TESTS / "addon")]
import bpy  # noqa: E402

import conftest  # noqa: E402, F401
import dampsim  # noqa: E402

LAST = 48


def shots(folder: Path, count: int, tetrahedra: int) -> None:
    from scenes import new_scene, wobbler

    folder.mkdir(parents=True)
    for number in range(count):
        new_scene(LAST)
        obj = wobbler("")
        obj.modifiers.clear()
        bpy.ops.object.modifier_add(type="SUBSURF")
        obj.modifiers[0].levels = 2
        bpy.ops.object.modifier_apply(modifier=obj.modifiers[0].name)
        obj.dampsim.resolution, obj.dampsim.settle, obj.scale.x = tetrahedra, 12.0, 0.5 + 0.01 * number
        bpy.ops.wm.save_as_mainfile(filepath=str(folder / f"sh{number:03d}.blend"))


def size(path: Path, pattern: str) -> float:
    """Return the total size of the files that match a pattern, MB."""
    return sum(file.stat().st_size for file in path.rglob(pattern) if file.is_file()) / 1e6


def farm(blender: str, folder: Path, output: Path, workers: int, target: str) -> tuple[float, float]:
    """Run a farm and return the elapsed time and the CPU time, s; CPU time is more robust on a busy machine."""
    import farm_helpers

    began, before = time.perf_counter(), resource.getrusage(resource.RUSAGE_CHILDREN)
    code, said = farm_helpers.run(
        blender, "farm", folder, "--output", output, "--workers", workers, "--target", target, "--blender", blender
    )
    assert code == 0, said
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return time.perf_counter() - began, after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def time_shot_counts(blender: str, folder: Path, counts: list[int]) -> None:
    print(f"\n| shots of {LAST} frames, 400 tetrahedra | workers | s | CPU s | CPU s again, all done | MB on disk |")
    print("|---|---|---|---|---|---|")
    for count in counts:
        shots(folder / f"s{count}", count, 400)
        for workers in (1, 2):
            output = folder / "out"
            took, used = farm(blender, folder / f"s{count}", output, workers, "point_cache")
            _, again = farm(blender, folder / f"s{count}", output, workers, "point_cache")
            print(
                f"| {count} | {workers} | {took:.1f} | {used:.1f} | {again:.1f} | {size(output, '*'):.1f} |", flush=True
            )
            shutil.rmtree(output)


def time_body_sizes(blender: str, folder: Path, sizes: list[int]) -> None:
    heads = ("tetrahedra asked for", "target", "CPU s in all", "ms a frame", "kB a frame in the cache", "MB baked")
    print("\n| " + " | ".join((*heads, "MB .blend")) + " |\n|---|---|---|---|---|---|---|")
    for tetrahedra in sizes:
        shots(folder / f"b{tetrahedra}", 1, tetrahedra)
        for target in ("point_cache", "shape_keys"):
            output = folder / "out"
            _, used = farm(blender, folder / f"b{tetrahedra}", output, 1, target)
            place = output / "sh000/as_it_is"
            entry = json.loads((place / "report.json").read_text())["objects"][0]
            said = (place / "log.txt").read_text()
            stamps = [float(text) for text in re.findall(r"Simulating \d+/\d+ ([\d.]+) s", said)]
            pace = (stamps[-1] - stamps[0]) / (len(stamps) - 1)
            cache = size(place / "cache", "*.frame") / LAST * 1e3
            baked, blend = entry["size"] / 1e6, size(place, "*.blend")
            cells = [f"{used:.1f}", f"{1e3 * pace:.0f}", f"{cache:.0f}", f"{baked:.2f}", f"{blend:.2f}"]
            print("| " + " | ".join([str(tetrahedra), target, *cells]) + " |", flush=True)
            shutil.rmtree(output)


def time_large_farm(folder: Path, count: int) -> None:
    """Time the page and the job queue of a large farm with synthetic reports."""
    from dampsim.dampsim_addon.farm import job_queue, page, report_file
    from dampsim.dampsim_addon.farm import shots as lists

    file = folder / "shots/sh.blend"
    file.parent.mkdir()
    file.write_bytes(b"x" * 2_000_000)
    text = "".join(f'[[shots]]\nfile = "shots/sh.blend"\nname = "sh{number:05d}"\n' for number in range(count))
    (folder / "night.toml").write_text(text)
    output = folder / "night"
    began = time.perf_counter()
    units = lists.units_from_list(folder / "night.toml", {}, output)
    listed = time.perf_counter() - began
    lists.write_units(units, output)
    entry = {
        "name": "Tail", "first": 1, "last": 120, "size": 3_200_000, "seconds": 41.0, "error": 2e-4, "bound": 1e-3,
        "rest": 11.8, "dialled_rest": 12.0, "overshoot": 0.31, "dialled_overshoot": 0.3, "problem": "",
    }  # fmt: skip
    for unit in units:
        unit.folder.mkdir(parents=True)
        unit.output.touch()
        made = report_file.provenance(unit.requested_options(), [file], [unit.output])
        whole = {"exit_code": 0, "problem": "", "objects": [entry], "made_from": made}
        unit.report.write_text(json.dumps(whole))
    began, out = time.perf_counter(), os.dup(1)
    os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
    done = job_queue.JobQueue(units, 3).done_count
    os.dup2(out, 1)
    skipped = time.perf_counter() - began
    assert done == count
    began = time.perf_counter()
    page.write_page(output)
    written = time.perf_counter() - began
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e3
    print(f"\n{count} shots: list read in {listed:.2f} s, all found done in {skipped:.1f} s")
    print(f"page written in {written:.1f} s, {size(output, 'index.html'):.1f} MB; peak {peak:.0f} MB")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--blender", help="the program; a stand-in in the bpy module unless given")
    parser.add_argument("--shots", type=int, nargs="+", default=[2, 4, 8])
    parser.add_argument("--tetrahedra", type=int, nargs="+", default=[1000, 5000, 20000])
    options = parser.parse_args()
    dampsim.register()
    import farm_helpers

    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        blender = options.blender or farm_helpers.blender(folder)
        time_shot_counts(blender, folder, options.shots)
        time_body_sizes(blender, folder, options.tetrahedra)
        time_large_farm(folder, 10_000)


if __name__ == "__main__":
    main()
