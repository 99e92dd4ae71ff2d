"""The farm's page of all shots, also in a real browser, and the Flamenco job type."""

from __future__ import annotations

import json
import os
import re
import subprocess
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

import bpy
import farm_helpers
import pytest
from scenes import new_scene, wobbler

pytestmark = pytest.mark.bpy
Load = Callable[[str], ModuleType]
MODEL, SCRIPT = farm_helpers.ROOT / "tests/farm/flamenco.js", farm_helpers.ROOT / "farm/dampsim_bake.js"


def write_report(folder: Path, label: str, **facts: Any) -> None:
    """Write a report in the format of a bake."""
    place = folder / label
    place.mkdir(parents=True)
    outputs = {str(place / "shot.blend"): 1000}
    if facts.pop("picture", False):
        image = bpy.data.images.new("Strip", 1280, 180)
        image.generated_color = (0.2, 0.4, 0.6, 1.0)
        image.filepath_raw, image.file_format = str(place / "shot.png"), "PNG"
        image.save()
        outputs[str(place / "shot.png")] = 1000
    problem = facts.pop("problem", "")
    entry = {
        "name": "Tail", "first": 1, "last": 120, "size": 3_200_000, "seconds": 41.0, "error": 0.0002, "bound": 0.001,
        "rest": 11.8, "dialled_rest": 12.0, "overshoot": 0.31, "dialled_overshoot": 0.3, "helped": 0, "touched": [],
        "problem": problem, **facts,
    }  # fmt: skip
    whole = {"exit_code": 1 if problem else 0, "problem": "", "objects": [entry], "made_from": {"outputs": outputs}}
    (place / "report.json").write_text(json.dumps(whole))


@pytest.fixture
def gathered(load: Load, tmp_path: Path) -> Path:
    """Return the folder of a farm's page with every kind of result."""
    folder = tmp_path / "A night & <more>"
    write_report(folder, "sh010/settle=12", picture=True)
    write_report(folder, "sh020/settle=12", rest=19.0, picture=True, helped=3)
    write_report(folder, "sh030/settle=12", rest=None, overshoot=0.9)
    write_report(folder, "sh040/settle=12", dialled_rest=None, rest=None, overshoot=None, dialled_overshoot=None)
    write_report(folder, "sh050/settle=12", problem="Tail: the <pins> are gone & nothing holds it; choose a pin group.")
    listed = [{"label": f"sh0{number}0 · settle 12", "folder": f"sh0{number}0/settle=12"} for number in range(1, 7)]
    (folder / "units.json").write_text(json.dumps(listed))
    # Left over from an earlier shot list.
    write_report(folder, "sh070/settle=12")
    load("dampsim_addon.farm.page").write_page(folder)
    return folder


def test_page_lists_worst_first(gathered: Path) -> None:
    """The page lists the worst shots first and needs no script or other site."""
    page = (gathered / "index.html").read_text()
    places = [page.index(f"sh0{number}0") for number in (5, 6, 3, 2, 1, 4)]
    assert places == sorted(places)
    assert "the &lt;pins&gt; are gone &amp; nothing holds it" in page
    assert "4 baked, <span class=bad>2 failed</span>" in page
    assert "No report, because it was ended too early." in page
    assert "<script" not in page
    links = re.findall(r'(?:src|href)="([^"]*)"', page)
    assert links
    assert not any(re.match(r"[a-z]+:|/", link) for link in links)
    table = (gathered / "farm.csv").read_text().splitlines()
    assert len(table) == 7


def test_moved_page_finds_pictures(load: Load, gathered: Path) -> None:
    moved = gathered.rename(gathered.parent / "moved")
    load("dampsim_addon.farm.page").write_page(moved)
    links = re.findall(r'src="([^"]*)"', (moved / "index.html").read_text())
    assert len(links) == 2
    assert all((moved / link.replace("%3D", "=")).is_file() for link in links)


@pytest.mark.slow
def test_page_opens_in_browser(gathered: Path, tmp_path: Path) -> None:
    chromium = farm_helpers.require_program("chromium")
    out = os.environ.get("DAMPSIM_PICTURES")
    picture = (Path(out) if out else tmp_path) / "farm_page.png"
    quiet = ["--headless", "--no-sandbox", "--disable-gpu", f"--user-data-dir={tmp_path / 'profile'}"]
    address = (gathered / "index.html").as_uri()
    done = subprocess.run(
        [chromium, *quiet, "--dump-dom", address], capture_output=True, text=True, check=False, timeout=120
    )
    # The browser's document has a table row for each shot and no broken strip.
    assert done.returncode == 0, done.stderr
    assert done.stdout.count('<div class="fail">') == 2
    assert done.stdout.count("<td") == 4 * 7 + 2
    command = [chromium, *quiet, "--window-size=1200,900", f"--screenshot={picture}", address]
    subprocess.run(command, capture_output=True, check=False, timeout=120)
    image = bpy.data.images.load(str(picture))
    assert tuple(image.size) == (1200, 900)
    seen = {tuple(round(channel, 1) for channel in image.pixels[4 * k : 4 * k + 3]) for k in range(0, 1200 * 900, 997)}
    # The strips are visible in their colour.
    assert any(red < green < blue for red, green, blue in seen)


def run_flamenco_model(*arguments: object) -> Any:
    """Run the model of Flamenco's manager on the job type; return its output."""
    done = subprocess.run(
        [farm_helpers.require_program("node"), str(MODEL), str(SCRIPT), *(str(one) for one in arguments)],
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    if done.returncode:
        raise ValueError(done.stderr.strip())
    return json.loads(done.stdout)


def compile_job(folder: Path, **settings: Any) -> Any:
    """Return the tasks of a job submitted as by Flamenco's add-on."""
    values: dict[str, Any] = {
        one["key"]: one["default"] for one in run_flamenco_model()["settings"] if "default" in one
    }
    values |= {"blendfile": "/s/sh010.flamenco.blend", "output_root": "/o", "output_path": "/o/night", **settings}
    folder.mkdir(exist_ok=True)
    (folder / "job.json").write_text(json.dumps({"name": "night", "settings": values}))
    return run_flamenco_model(folder / "job.json")


def test_flamenco_tasks_per_unit(tmp_path: Path) -> None:
    """Flamenco gets a task for each shot, object and wedge, and one that gathers the reports."""
    tasks = compile_job(
        tmp_path,
        shots="/s/sh020.blend; /s/b/sh020.blend",
        all_objects="Tail\nEar, left",
        wedges="settle=8,16; bounce=0,40",
    )
    # The submitted file has two objects. The objects of the other files are unknown before they are opened.
    assert len(tasks) == 2 * 4 + 4 + 4 + 1
    assert all(task["type"] == "blender" for task in tasks)
    assert [task["name"] for task in tasks][:3] == [
        "sh010 settle=8,bounce=0 Tail", "sh010 settle=8,bounce=0 Ear, left", "sh010 settle=8,bounce=40 Tail",
    ]  # fmt: skip
    assert tasks[-1]["name"] == "gather"
    assert tasks[-1]["needs"] == list(range(16))
    reports = [task["commands"][1]["parameters"]["args"] for task in tasks[:-1]]
    places = [said[said.index("--report") + 1] for said in reports]
    assert len(set(places)) == 16
    assert [Path(place).parent.as_posix() for place in places] == [
        t["commands"][0]["parameters"]["path"] for t in tasks[:-1]
    ]
    one = compile_job(tmp_path, all_objects="Tail\nEar", split_objects=False)
    assert [task["name"] for task in one] == ["sh010 as_it_is", "gather"]
    assert "--object" not in one[0]["commands"][1]["parameters"]["args"]
    with pytest.raises(ValueError, match="'settle' is not a wedge; write NAME=VALUE,VALUE"):
        compile_job(tmp_path, wedges="settle")


def test_flamenco_finds_objects(tmp_path: Path) -> None:
    new_scene()
    wobbler("", "Tail")
    for name in ("Left", "Right"):
        wobbler("", name).dampsim.together = "0123456789abcdef"
    bpy.ops.mesh.primitive_cube_add()
    expression = next(one["eval"] for one in run_flamenco_model()["settings"] if one["key"] == "all_objects")
    # Flamenco's add-on evaluates it in the same way.
    found = eval(expression, {}, {"C": bpy.context, "bpy": bpy})
    assert found.split("\n") in (["Left", "Tail"], ["Right", "Tail"])


@pytest.mark.slow
def test_flamenco_tasks_run(tmp_path: Path) -> None:
    program, output = farm_helpers.blender(tmp_path), tmp_path / "out"
    folder = farm_helpers.create_shots(tmp_path / "shots", 2, broken=(2,))
    tasks = compile_job(
        tmp_path / "job", blendfile=str(folder / "sh001.blend"), shots=str(folder / "sh002.blend"),
        all_objects="Wobbler", wedges="settle=6,9", target="point_cache", pictures=0, output_path=str(output),
    )  # fmt: skip
    codes = []
    for task in tasks:
        for command in task["commands"]:
            said = command["parameters"]
            if command["name"] == "make-directory":
                Path(said["path"]).mkdir(parents=True, exist_ok=True)
                continue
            # A worker has no standard input either.
            line = [program, *said["exeArgs"].replace("{blenderArgs}", "-b -y").split(), *said["argsBefore"]]
            line += [said["blendfile"], *said["args"]]
            done = subprocess.run(line, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False)
            codes.append(done.returncode)
    # A failing shot only writes a report, so that the last task can run. That task fails.
    assert codes == [0, 0, 0, 0, 1], done.stdout + done.stderr
    page = (output / "index.html").read_text()
    assert "2 baked, <span class=bad>2 failed</span>" in page
