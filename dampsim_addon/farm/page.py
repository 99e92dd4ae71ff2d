"""Overview of all shots, worst first, as an HTML page for any browser and as a CSV table."""

from __future__ import annotations

import csv
import html
import io
import os
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any
from urllib.parse import quote

from ...core import DampSimError
from ...core.base.errors import disk_errors, is_printable, printable_text
from ...core.base.untrusted_files import read_json, write_atomically
from ...core.base.wording import format_bytes, format_count, format_metres, format_number
from . import report_file
from .job_queue import problem_text
from .shots import LOG, NO_WEDGE, REPORT, UNITS

PAGE, TABLE = "index.html", "farm.csv"
# Deviations above which a value is highlighted: settle time relative to Settle, and overshoot (absolute).
_SETTLE_TOLERANCE, _BOUNCE_TOLERANCE = 0.2, 0.1
# Characters with which spreadsheets begin a formula, also in their full-width forms.
_FORMULA_STARTS = tuple("=+-@\uff1d\uff0b\uff0d\uff20")
# Part of the path of a unit's folder.
_FOLDER_PART = re.compile(r"[A-Za-z0-9_,=+-][A-Za-z0-9_.,=+-]{0,150}")
# Largest number of parts of that path: shot, wedge, object, and some more for other farms.
_MAX_FOLDER_PARTS = 8


class FolderError(DampSimError):
    """The output folder of a farm cannot be read or written."""


@dataclass(frozen=True)
class FarmRow:
    """Row of the page: one object of a unit. Its fields are keys of the JSON report.

    Lengths in m; rest and frames in frames; seconds in s; size in bytes. '' or None: unknown.
    """

    label: str
    folder: Path
    problem: str = ""
    object: str = ""
    rest: float | None = None
    dialled_rest: float | None = None
    overshoot: float | None = None
    dialled_overshoot: float | None = None
    error: float | None = None
    bound: float | None = None
    frames: int = 0
    size: int = 0
    seconds: float = 0.0
    output: Path | None = None
    picture: Path | None = None
    remarks: Sequence[str] = field(default_factory=tuple)

    @property
    def sort_key(self) -> tuple[float, float]:
        """Sort key, worst first: failures, then the largest deviation from the requested values."""
        deviations = [0.0]
        if self.dialled_rest is not None:
            deviations.append(
                2.0 if self.rest is None else abs(self.rest - self.dialled_rest) / max(self.dialled_rest, 1.0)
            )
        if self.overshoot is not None and self.dialled_overshoot is not None:
            deviations.append(abs(self.overshoot - self.dialled_overshoot))
        if self.error is not None and self.bound:
            deviations.append(max(self.error / self.bound - 1.0, 0.0))
        return (0.0 if self.problem else 1.0, -max(deviations) - (0.1 if self.remarks else 0.0))


def write_page(folder: Path) -> list[FarmRow]:
    """Write index.html and farm.csv for a farm's folder, and return the rows in their order. Raises FolderError."""
    if not folder.is_dir():
        raise FolderError(f"{folder} is not a folder; give the output folder of a farm.")
    rows = sorted((row for unit in _listed_units(folder) for row in _unit_rows(unit)), key=lambda row: row.sort_key)
    with disk_errors(f"{folder} cannot be written", "free some space, or check the permissions", FolderError):
        write_atomically(folder / TABLE, _csv_table(rows))
        write_atomically(folder / PAGE, _html_page(rows, folder))
    return rows


def _listed_units(folder: Path) -> list[FarmRow]:
    """Return a row without results for each unit, from the farm's list; without a list, for each report in the folder.

    A damaged list, or an invalid entry of it, has a row with a problem.
    """
    fix = "Run the farm again."
    try:
        listed = read_json(folder / UNITS)
        if not isinstance(listed, list):
            raise ValueError("it is not a list")
    except FileNotFoundError:
        return _found_units(folder)
    except (OSError, ValueError) as error:
        return [
            *_found_units(folder),
            FarmRow(UNITS, folder, f"The list of units is damaged ({_reason(error)}). {fix}"),
        ]
    return [
        FarmRow(printable_text(one["label"]), folder / one["folder"])
        if _is_listed_unit(one)
        else FarmRow(f"unit {number}", folder, f"Its entry in {UNITS} is damaged. {fix}")
        for number, one in enumerate(listed, 1)
    ]


def _is_listed_unit(entry: object) -> bool:
    """Return whether an entry of the list has a label, and a folder inside the farm's folder."""
    if not isinstance(entry, dict) or not all(isinstance(entry.get(key), str) for key in ("label", "folder")):
        return False
    parts = entry["folder"].split("/")
    return len(parts) <= _MAX_FOLDER_PARTS and all(map(_FOLDER_PART.fullmatch, parts))


def _found_units(folder: Path) -> list[FarmRow]:
    """Return a row without results for each report in a folder."""
    places = sorted(report.parent for report in folder.rglob(REPORT))
    parts = {place: place.relative_to(folder).parts for place in places}
    labels = [printable_text(" · ".join(part for part in parts[place] if part != NO_WEDGE)) for place in places]
    return [FarmRow(label, place) for label, place in zip(labels, places, strict=True)]


def _unit_rows(row: FarmRow) -> list[FarmRow]:
    """Return the rows of a unit, one per object. row: without results. A missing or damaged report makes one row."""
    label, folder = row.label, row.folder
    if row.problem:
        return [row]
    try:
        report = report_file.load_report(folder / REPORT)
    except FileNotFoundError:
        return [FarmRow(label, folder, "No report, because it was ended too early. Run the farm again.")]
    except (OSError, ValueError) as error:
        return [FarmRow(label, folder, f"Its {REPORT} is damaged ({_reason(error)}). Run the farm again.")]
    work = report.get("made_from") or {}
    # The folder may have been moved, or a worker may have mounted it under another path.
    outputs = [folder / name for path in work.get("outputs", {}) if (name := _file_name(path))]
    output = next((path for path in outputs if path.suffix == ".blend"), None)
    picture = next((path for path in outputs if path.suffix == ".png"), None)
    remarks = tuple(printable_text(text) for text in report.get("remarks", ()))
    entries, problem = report.get("objects", []), printable_text(problem_text(report))
    if problem or not entries:
        named = [printable_text(entry.get("name", "")) for entry in entries if entry.get("problem")]
        return [FarmRow(label, folder, problem or "nothing was baked", ", ".join(named), remarks=remarks)]
    return [
        _object_row(FarmRow(label, folder, output=output, picture=picture, remarks=remarks), entry) for entry in entries
    ]


def _reason(error: OSError | ValueError) -> str:
    return (error.strerror if isinstance(error, OSError) else "") or str(error)


def _file_name(path: str) -> str:
    """Return the last part of a path of any system; '' if it is no file name."""
    name = re.split(r"[\\/]", path)[-1]
    return name if name.strip(".") and is_printable(name) else ""


def _object_row(row: FarmRow, entry: Mapping[str, Any]) -> FarmRow:
    remarks = [*row.remarks, *map(printable_text, entry.get("touched", ()))]
    if entry.get("hard_steps"):
        remarks.append(printable_text(entry["hard_steps"]))
    values = {
        name: entry.get(name) for name in ("rest", "dialled_rest", "overshoot", "dialled_overshoot", "error", "bound")
    }
    frames, size = entry.get("last", 0) - entry.get("first", 0) + 1, entry.get("size", 0)
    seconds, name = float(entry.get("seconds", 0.0)), printable_text(entry.get("name", ""))
    return replace(row, object=name, frames=frames, size=size, seconds=seconds, remarks=remarks, **values)


def _number_text(value: float | None, scale: float = 1.0) -> str:
    # Adding 0.0 turns -0.0 into 0.0.
    return "" if value is None else f"{scale * value + 0.0:.3g}"


def csv_text(text: str) -> str:
    """Return the text of a cell. An apostrophe in front keeps spreadsheets from evaluating it as a formula."""
    return f"'{text}" if text.lstrip()[:1] in _FORMULA_STARTS else text


def _csv_table(rows: Sequence[FarmRow]) -> str:
    text = io.StringIO(newline="")
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow([
        "shot", "object", "rest_frames", "dialled_frames", "bounce_percent", "dialled_bounce_percent",
        "largest_error_mm", "allowed_mm", "frames", "bytes", "seconds", "problem", "remarks",
    ])  # fmt: skip
    for row in rows:
        writer.writerow([
            csv_text(row.label), csv_text(row.object), _number_text(row.rest), _number_text(row.dialled_rest),
            _number_text(row.overshoot, 100.0), _number_text(row.dialled_overshoot, 100.0),
            _number_text(row.error, 1e3), _number_text(row.bound, 1e3), row.frames, row.size,
            _number_text(row.seconds), csv_text(row.problem), csv_text(" ".join(row.remarks)),
        ])  # fmt: skip
    return text.getvalue()


_STYLE = """
:root{color-scheme:light dark;--line:#8884;--bad:#b3261e;--warn:#9a6700;--good:#1a7f37;--soft:#8881}
@media (prefers-color-scheme:dark){:root{--bad:#ff8a80;--warn:#e3b341;--good:#56d364}}
body{font:15px/1.45 system-ui,sans-serif;margin:1.5em auto;max-width:78em;padding:0 1em}
h1{font-size:1.4em;margin:0 0 .2em}.sum{margin:0 0 1.2em;color:GrayText}
.fail{border-left:4px solid var(--bad);background:var(--soft);padding:.6em .9em;margin:0 0 .6em}
.fail b{color:var(--bad)}.fail p{margin:.2em 0 0}
table{border-collapse:collapse;width:100%}
th,td{padding:.45em .6em;text-align:right;border-bottom:1px solid var(--line);vertical-align:top}
th{position:sticky;top:0;background:Canvas;font-weight:600}
th:first-child,td:first-child{text-align:left}
td+td{white-space:nowrap}
.dial{color:GrayText;font-size:.85em;white-space:nowrap}.warn{color:var(--warn);font-weight:600}
.bad{color:var(--bad);font-weight:600}.good{color:var(--good)}
.note{color:GrayText;font-size:.85em;max-width:40em}
.strip td{border-bottom:1px solid var(--line);padding-top:0}.strip img{max-width:100%;display:block;border-radius:3px}
tr.has td{border-bottom:0}a{color:LinkText}
"""


def _html_page(rows: Sequence[FarmRow], folder: Path) -> str:
    failed = [row for row in rows if row.problem]
    good = [row for row in rows if not row.problem]
    size, seconds = sum(row.size for row in good), sum(row.seconds for row in good)
    count = f"{len(good)} baked" + (f", <span class=bad>{len(failed)} failed</span>" if failed else ", none failed")
    summary = f"{count} · {format_bytes(size)} · {_time_text(seconds)} computing time · worst first"
    title = html.escape(printable_text(folder.resolve().name))
    parts = [
        '<!doctype html>\n<html lang="en"><meta charset="utf-8">',
        '<meta name="viewport" content="width=device-width,initial-scale=1">',
        f"<title>{title}: {format_count(len(rows), 'shot')}</title><style>{_STYLE}</style>",
        f'<h1>{title}</h1><p class="sum">{summary}</p>',
    ]
    for row in failed:
        log = row.folder / LOG
        link = f' <a href="{_link(log, folder)}">log</a>' if log.is_file() else ""
        name = html.escape(row.label + (f" · {row.object}" if row.object and row.object not in row.label else ""))
        parts.append(f'<div class="fail"><b>{name}</b>{link}<p>{html.escape(row.problem)}</p></div>')
    if good:
        heads = ("Shot", "Settle", "Bounce", "Largest error", "Frames", "Size", "Time")
        parts.append("<table><thead><tr>" + "".join(f"<th>{head}</th>" for head in heads) + "</tr></thead><tbody>")
        pictures: set[Path] = set()
        for row in good:
            fresh = row.picture is not None and row.picture not in pictures
            parts.append(_table_row(row, folder, fresh))
            if fresh and row.picture is not None:
                pictures.add(row.picture)
                seen = f'<img loading="lazy" src="{_link(row.picture, folder)}" alt="{html.escape(row.label)}">'
                parts.append(f'<tr class="strip"><td colspan="{len(heads)}">{seen}</td></tr>')
        parts.append("</tbody></table>")
    return "\n".join([*parts, f'<p class="note">As a table: <a href="{TABLE}">{TABLE}</a></p></html>\n'])


def _table_row(row: FarmRow, folder: Path, has_picture: bool) -> str:
    name = html.escape(row.label)
    if row.output is not None:
        name = f'<a href="{_link(row.output, folder)}">{name}</a>'
    other = f" {html.escape(row.object)}" if row.object and row.object not in row.label else ""
    notes = "".join(f'<div class="note">{html.escape(text)}</div>' for text in row.remarks)
    rest = bounce = '<span class="dial">not measured:<br>it moves until the end</span>'
    if row.dialled_rest is not None:
        off = row.rest is None or abs(row.rest - row.dialled_rest) > max(_SETTLE_TOLERANCE * row.dialled_rest, 1.0)
        said = "not at rest" if row.rest is None else f"{row.rest:.1f} frames"
        rest = _measured_cell(said, format_number(row.dialled_rest, 4), off)
        swing, dialled = row.overshoot or 0.0, row.dialled_overshoot or 0.0
        bounce = _measured_cell(
            f"{100 * swing:.0f}%", f"{100 * dialled:.0f}%", abs(swing - dialled) > _BOUNCE_TOLERANCE
        )
    allowed = "exact" if row.bound is None else f"allowed {format_metres(row.bound)}"
    error = f'{format_metres(row.error or 0.0)}<br><span class="dial">{allowed}</span>'
    cells = f"{name}{other}{notes}", rest, bounce, error, row.frames, format_bytes(row.size), _time_text(row.seconds)
    return f"<tr{' class=has' if has_picture else ''}>" + "".join(f"<td>{cell}</td>" for cell in cells) + "</tr>"


def _link(path: Path, folder: Path) -> str:
    """Return a relative link, so that the folder can be moved."""
    return html.escape(quote(Path(os.path.relpath(path, folder)).as_posix(), errors="replace"))


def _measured_cell(text: str, dialled_text: str, is_off: bool) -> str:
    return (
        f'<span class="{"warn" if is_off else "good"}">{text}</span><br><span class="dial">set to {dialled_text}</span>'
    )


def _time_text(seconds: float) -> str:
    if seconds < 100.0:
        return f"{seconds:.2g} s" if seconds < 10.0 else f"{seconds:.0f} s"
    minutes = round(seconds / 60.0)
    return f"{minutes} min" if minutes < 120 else f"{minutes // 60} h {minutes % 60} min"
