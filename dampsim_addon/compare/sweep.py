"""Parameter sweep: all combinations of values are simulated and compared by table, settle curves and contact sheet."""

from __future__ import annotations

import csv
import html
import io
import itertools
import time
from collections.abc import Generator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import bpy
import numpy as np

from ...core import PARAMETERS, Array, DampSimError, Frame, SettleCurve, Simulation, simulation_curve
from ...core.base.errors import disk_errors
from ...core.base.untrusted_files import write_atomically
from ...core.measure import picture
from ...core.measure.calibrate import release_test
from ..blender.sampler import Sampler
from ..farm.page import csv_text
from ..jobs.prepare import prepare_scene
from ..live.liveness import check_displayable
from ..model.groups import group_of
from ..scene_reader.isolation import isolated_sampler
from ..scene_reader.scene_builder import check_object
from ..work.steps import Step, paired_steps
from . import contact_sheet
from .checkpoint import SweepCheckpoint
from .ghosts import Variants, simulate_all_frames

Values = Mapping[str, object]
TABLE, PAGE, SHEET = "sweep.csv", "index.html", "contact_sheet.png"


@dataclass(frozen=True, eq=False)
class SweepRow:
    """Result of one variant. Its fields are keys of the JSON report.

    number: from 1.  values: the varied parameters.  curve: settle curve of a release, or of the shot for bodies that
    cannot be released.  shot_rest: settle time after the animation of the shot stops, frames.
    offset: largest distance from the animation, fraction of the size.  young: Young's modulus, Pa.
    sag: fraction of the size.  pace: computing time of a frame, s.  problem: sentence that says why it failed, or ''.
    """

    number: int
    values: Values
    curve: SettleCurve | None = None
    shot_rest: float | None = None
    offset: float | None = None
    young: float | None = None
    sag: float | None = None
    pace: float | None = None
    problem: str = ""

    @property
    def label(self) -> str:
        """The varied parameters as text."""
        return ", ".join(f"{name} {_value_text(value)}" for name, value in self.values.items())


def parameter_grid(lists: Mapping[str, Sequence[object]]) -> list[Values]:
    """Return all combinations of the values listed for each parameter. The last parameter changes fastest."""
    return [dict(zip(lists, chosen, strict=True)) for chosen in itertools.product(*lists.values())]


def simulate_sweep(
    scene: bpy.types.Scene,
    view_layer: bpy.types.ViewLayer,
    obj: bpy.types.Object,
    choices: Sequence[Values],
    folder: Path,
    pictures: int,
    checkpoint: SweepCheckpoint | None = None,
) -> Generator[Step, None, list[SweepRow]]:
    """Simulate all variants and write the comparison into a folder. The object's bake and parameters stay unchanged.

    pictures: number of rendered frames of each variant.  checkpoint: stores finished variants, so that an interrupted
    sweep can continue.  Variants that cannot be simulated become rows with a problem. Raises SceneError.
    """
    check_object(obj, view_layer)
    if pictures:
        contact_sheet.check_renderable(scene)
        check_displayable(obj)
    with disk_errors(f"{obj.name}: the folder {folder} cannot be created", "choose another one"):
        folder.mkdir(parents=True, exist_ok=True)
    rows: list[SweepRow] = []
    shapes: dict[int, list[Array]] = {}
    with isolated_sampler(scene, view_layer, group_of(obj).members) as sampler:
        variants = Variants((yield from prepare_scene(sampler)), obj.name)
        for number, values in enumerate(choices):
            stored = checkpoint.read(number) if checkpoint is not None else None
            if stored is not None:
                facts, curve, shapes[number] = stored
                row = SweepRow(values=values, curve=curve, **facts)
                yield Step(number + 1, len(choices), "Already done")
            else:
                try:
                    swing = obj.dampsim.swing / 100.0
                    row, frames = yield from _measure_variant(variants, values, number, len(choices), swing)
                except DampSimError as error:
                    rows.append(SweepRow(number + 1, values, problem=str(error)))
                    continue
                shapes[number] = [frame.shapes[obj.name].astype("<f4") for frame in frames]
                if checkpoint is not None:
                    facts = {name: value for name, value in vars(row).items() if name not in {"values", "curve"}}
                    checkpoint.write(number, facts, row.curve, shapes[number])
            rows.append(row)
            if row.curve is not None:
                _write_file(folder / curve_file_name(row), picture.curve_svg(row.curve, row.label), obj.name)
        if shapes and pictures:
            chosen = contact_sheet.representative_frames(list(shapes.values()), pictures)
            yield from _render_pictures(
                sampler.member_for(obj),
                {rows[number]: [shapes[number][k] for k in chosen] for number in shapes},
                [scene.frame_start + k for k in chosen],
                folder,
            )
    _write_file(folder / TABLE, _csv_table(rows), obj.name)
    _write_file(folder / PAGE, _html_page(rows, obj.name, bool(shapes and pictures)), obj.name)
    if checkpoint is not None:
        checkpoint.clear()
    return rows


def sweep_files(rows: Sequence[SweepRow], folder: Path, pictures: bool) -> list[Path]:
    """Return the files that the sweep has written, except the single pictures."""
    seen = [SHEET] if pictures and not all(row.problem for row in rows) else []
    return [
        folder / name for name in [TABLE, PAGE, *seen, *(curve_file_name(row) for row in rows if row.curve is not None)]
    ]


def _render_pictures(
    sampler: Sampler, surfaces: Mapping[SweepRow, Sequence[Array]], frames: Sequence[int], folder: Path
) -> Generator[Step]:
    strips: list[list[Path]] = []
    total = len(surfaces) * len(frames)
    pictures = folder / "frames"
    for row, row_surfaces in surfaces.items():
        strip = []
        for path in contact_sheet.render_frames(
            sampler, dict(zip(frames, row_surfaces, strict=True)), pictures, row.number, row.label
        ):
            strip.append(path)
            yield Step(len(strips) * len(frames) + len(strip), total, "Rendering")
        strips.append(strip)
    contact_sheet.assemble_sheet(strips, folder / SHEET)


def curve_file_name(row: SweepRow) -> str:
    return f"curve_{row.number:02d}.svg"


def _measure_variant(
    variants: Variants, values: Values, index: int, count: int, swing: float
) -> Generator[Step, None, tuple[SweepRow, list[Frame]]]:
    simulation = yield from variants.prepare(values)
    start = time.perf_counter()
    frames = yield from simulate_all_frames(simulation, index, count)
    pace = (time.perf_counter() - start) / len(frames)
    scene = simulation.scene
    name, dials = variants.name, scene.sample(float(scene.last)).settings
    settings = dials[scene.body_index(name)]
    shot = simulation_curve(simulation, name, frames, settings)
    curve, is_pinned = shot, simulation.is_constrained(name)
    if is_pinned and settings.is_settle_controlled:
        curve = yield from paired_steps(release_test(simulation, name, swing), "Releasing")
    row = SweepRow(
        index + 1, values, curve, shot.rest if shot else None, _max_offset(simulation, name, frames),
        simulation.young(name, dials), simulation.sag(name, dials) if is_pinned else None, pace,
    )  # fmt: skip
    return row, frames


def _max_offset(simulation: Simulation, name: str, frames: Sequence[Frame]) -> float:
    scene, index = simulation.scene, simulation.scene.body_index(name)
    animated = (scene.sample(float(frame.number)).bodies[index].vertices for frame in frames)
    far = [
        np.linalg.norm(frame.shapes[name] - surface, axis=1).max()
        for frame, surface in zip(frames, animated, strict=True)
    ]
    return float(max(far)) / scene.bodies[index].surface.size


def _value_text(value: object) -> str:
    return f"{value:.4g}" if isinstance(value, float) else str(value)


def _cells(row: SweepRow) -> dict[str, str]:
    """Return the cells of a row by column; a cell is empty if its value could not be measured."""

    def number_text(value: float | None, scale: float = 1.0) -> str:
        return "" if value is None or not np.isfinite(value) else f"{scale * value:.4g}"

    curve = row.curve
    return {
        "number": str(row.number),
        **{name: _value_text(value) for name, value in row.values.items()},
        "rest_frames": number_text(curve.rest if curve else None),
        "dialled_frames": number_text(curve.dial if curve else None),
        "bounce_percent": number_text(curve.overshoot if curve else None, 100.0),
        "dialled_bounce_percent": number_text(curve.bounce if curve else None, 100.0),
        "shot_rest_frames": number_text(row.shot_rest),
        "largest_offset_percent": number_text(row.offset, 100.0),
        "young_kpa": number_text(row.young, 1e-3),
        "sag_percent": number_text(row.sag, 100.0),
        "ms_per_frame": number_text(row.pace, 1e3),
        "problem": row.problem,
    }


def _write_file(path: Path, text: str, name: str) -> None:
    with disk_errors(f"{name}: {path} cannot be written", "choose another folder or free some space"):
        write_atomically(path, text)


def _csv_table(rows: Sequence[SweepRow]) -> str:
    cells = [{**_cells(row), "problem": csv_text(row.problem)} for row in rows]
    text = io.StringIO(newline="")
    writer = csv.DictWriter(text, list(cells[0]), lineterminator="\n")
    writer.writeheader()
    writer.writerows(cells)
    return text.getvalue()


def _html_page(rows: Sequence[SweepRow], name: str, pictures: bool) -> str:
    cells = [_cells(row) for row in rows]
    heads = "".join(f"<th>{html.escape(_heading(key))}</th>" for key in cells[0])
    lines = ["".join(f"<td>{html.escape(value)}</td>" for value in row.values()) for row in cells]
    curves = "".join(
        f'<img src="{curve_file_name(row)}" alt="{html.escape(row.label)}">\n' for row in rows if row.curve
    )
    seen = f'<h2>Pictures</h2>\n<img src="{SHEET}" alt="One row for each variant">\n' if pictures else ""
    title = html.escape(f"{name}: variants: {len(rows)}")
    return (
        f'<!doctype html>\n<html lang="en"><meta charset="utf-8"><title>{title}</title>\n'
        "<style>body{font-family:sans-serif;margin:2em}td,th{padding:.2em .7em;text-align:right;"
        "border-bottom:1px solid #ccc}img{max-width:100%}</style>\n"
        f"<h1>{title}</h1>\n<table><tr>{heads}</tr>\n"
        + "".join(f"<tr>{line}</tr>\n" for line in lines)
        + "</table>\n<h2>Settle curves after a release (frame 0: the stop that would cause the same swing)</h2>\n"
        + f"{curves}{seen}</html>\n"
    )


def _heading(key: str) -> str:
    """Return the heading of a column."""
    if key in PARAMETERS:
        unit = PARAMETERS[key].unit
        return PARAMETERS[key].label + (f" ({unit})" if unit else "")
    return key.replace("_percent", " (%)").replace("_kpa", " (kPa)").replace("_", " ").capitalize()
