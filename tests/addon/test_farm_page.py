"""The farm's page of all shots, also in a real browser, and the Flamenco job type."""

from __future__ import annotations

import csv
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
        "rest": 11.8, "dialled_rest": 12.0, "overshoot": 0.31, "dialled_overshoot": 0.3, "touched": [],
        "hard_steps": "", "problem": problem, **facts,
    }  # fmt: skip
    whole = {"exit_code": 1 if problem else 0, "problem": "", "objects": [entry], "made_from": {"outputs": outputs}}
    (place / "report.json").write_text(json.dumps(whole))


@pytest.fixture
def gathered(load: Load, tmp_path: Path) -> Path:
    """Return the folder of a farm's page with every kind of result."""
    folder = tmp_path / "A night & <more>"
    write_report(folder, "sh010/settle=12", picture=True)
    write_report(folder, "sh020/settle=12", rest=19.0, picture=True, hard_steps="Steps were halved on frame 7.")
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


HOSTILE_TEXTS = [
    "<script>alert(1)</script>", '"><img src=x onerror=alert(1)>', "=cmd|' /C calc'!A0", "+1+1", "-2+3", "@SUM(A1)",
    "\t=1", "\r=1", " =1", "\uff1d1", "</title>", "javascript:alert(1)", "a\nb", "\u202eabc", "\ud800",
    "\x1b[2J", "\0", "",
]  # fmt: skip
HOSTILE_VALUES: list[Any] = [
    None, True, -1, 10**30, 1e308, -1e308, "x", [], {}, [[]], [None], ["a", 1], {"a": {}}, {"\0": 1}, {"a" * 5000: 1},
    {"//evil/x.png": 1}, {"/etc/passwd.png": 1}, {"..": 1}, {"a.png/": 1},
]  # fmt: skip


def test_hostile_texts_are_escaped(load: Load, tmp_path: Path) -> None:
    """Names, problems and remarks are shown as text by browsers and spreadsheets."""
    listed = []
    for number, text in enumerate(HOSTILE_TEXTS):
        for kind, problem in (("u", ""), ("p", text)):
            write_report(tmp_path, f"{kind}{number}", name=text, touched=[text], problem=problem)
            listed.append({"label": text, "folder": f"{kind}{number}"})
    (tmp_path / "units.json").write_text(json.dumps(listed))
    rows = load("dampsim_addon.farm.page").write_page(tmp_path)
    assert len(rows) == len(listed)
    page = (tmp_path / "index.html").read_text(encoding="utf-8")
    assert "<script" not in page
    assert "<img src=x" not in page
    assert "&lt;script&gt;alert(1)&lt;/script&gt;" in page
    assert page.count("<title>") == page.count("</title>") == 1
    assert not re.search("[\x00-\x09\x0b-\x1f\u202a-\u202e]", page)
    assert not any(re.match(r"[a-z]+:|/", link) for link in re.findall(r'(?:src|href)="([^"]*)"', page))
    with (tmp_path / "farm.csv").open(encoding="utf-8", newline="") as file:
        table = list(csv.reader(file))
    assert len(table) == len(listed) + 1
    for cell in (cell for line in table[1:] for cell in line):
        assert not cell.lstrip() or cell.lstrip()[0] not in "=+-@\uff1d" or re.fullmatch(r"-?[0-9.e+-]+", cell), cell


def test_hostile_reports_fail_alone(load: Load, tmp_path: Path) -> None:
    """A report with any value of a wrong type or size makes one row, and the other units are shown as ever."""
    page = load("dampsim_addon.farm.page")
    write_report(tmp_path, "good")
    write_report(tmp_path, "hostile")
    path = tmp_path / "hostile/report.json"
    whole = json.loads(path.read_text())
    parts = {"": whole, "objects": whole["objects"][0], "made_from": whole["made_from"]}
    for part, fields in parts.items():
        for key in fields:
            for value in HOSTILE_VALUES:
                report = json.loads(json.dumps(whole))
                place = report if not part else report["objects"][0] if part == "objects" else report["made_from"]
                place[key] = value
                path.write_text(json.dumps(report))
                rows = {row.label: row for row in page.write_page(tmp_path)}
                assert set(rows) == {"good", "hostile"}, (part, key, value)
                assert not rows["good"].problem
                problem = rows["hostile"].problem
                assert "\n" not in problem
                assert len(problem) < 300
    for text in (
        "",
        "[",
        "5",
        "[]",
        '{"exit_code": 0, "exit_code": 0}',
        "[" * 10**5,
        '{"a":' * 10**5,
        "9" * 5000,
        "\xff",
    ):
        path.write_bytes(text.encode("latin-1"))
        assert "Its report.json is damaged" in next(row.problem for row in page.write_page(tmp_path) if row.problem)
    os.truncate(path, 10**9)
    assert "(it is too large)" in page.write_page(tmp_path)[0].problem
    path.unlink()
    path.symlink_to("/dev/zero")
    assert "(it is a link to another file)" in page.write_page(tmp_path)[0].problem


def test_hostile_unit_lists_are_reported(load: Load, tmp_path: Path) -> None:
    """A damaged list of units makes a row beside those of all reports; a damaged entry makes a row of its own."""
    page = load("dampsim_addon.farm.page")
    write_report(tmp_path, "good")
    for text in ('"x"', "{}", "5", "[" * 10**5, "", "\xff", '[{"label":1,"label":2}]', "[1e400]"):
        (tmp_path / "units.json").write_bytes(text.encode("latin-1"))
        rows = {row.label: row.problem for row in page.write_page(tmp_path)}
        assert set(rows) == {"units.json", "good"}
        assert "The list of units is damaged" in rows["units.json"]
    entries: list[Any] = [
        1, [], None, {}, {"label": 1, "folder": "good"}, {"label": "x"},
        *({"label": "x", "folder": folder} for folder in (
            2, "", ".", "..", "../good", "/etc", "good/..", "a/" * 500 + "a", "a" * 500, "\0", "C:", "a\\b", "\ud800",
            "//x/y",
        )),
    ]  # fmt: skip
    (tmp_path / "units.json").write_text(json.dumps([*entries, {"label": "good", "folder": "good"}]))
    rows = page.write_page(tmp_path)
    assert len(rows) == len(entries) + 1
    assert [row.problem for row in rows if row.label == "good"] == [""]
    assert {row.problem for row in rows if row.label != "good"} == {
        "Its entry in units.json is damaged. Run the farm again."
    }


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
    places = [next(word.removeprefix("--report=") for word in said if word.startswith("--report=")) for said in reports]
    assert len(set(places)) == 16
    assert [Path(place).parent.as_posix() for place in places] == [
        t["commands"][0]["parameters"]["path"] for t in tasks[:-1]
    ]
    one = compile_job(tmp_path, all_objects="Tail\nEar", split_objects=False)
    assert [task["name"] for task in one] == ["sh010 as_it_is", "gather"]
    assert not any(word.startswith("--object") for word in one[0]["commands"][1]["parameters"]["args"])
    odd = compile_job(tmp_path, all_objects="A\na\nCON\n-Tail\nend.\n" + "x" * 300, frames="-3:2")
    folders = [task["commands"][0]["parameters"]["path"].removeprefix("/o/night/sh010/") for task in odd[:-1]]
    assert folders == [f"as_it_is/{name}" for name in ("A", "a_2", "_CON", "-Tail", "end_", "x" * 100)]
    said = odd[3]["commands"][1]["parameters"]["args"]
    assert {"--object=-Tail", "--frames=-3:2"} <= set(said)
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
