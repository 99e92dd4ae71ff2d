"""Shot lists of a farm, and the units of work that their shots and wedges make."""

from __future__ import annotations

import hashlib
import itertools
import json
import re
import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from ...core import PARAMETERS, DampSimError, ParameterError
from ...core.base.wording import unknown_name
from . import report_file

UNITS, REPORT, LOG, CANCEL = "units.json", "report.json", "log.txt", "cancel"
# Options that a shot may set, or the list for all of its shots.
BAKE_OPTIONS = ("frames", "target", "bound", "pictures")
_SHOT_OPTIONS = ("objects", "set", "wedges", *BAKE_OPTIONS)
_FORBIDDEN = re.compile(r"[^A-Za-z0-9.,=+-]+")
NO_WEDGE = "as_it_is"


class ListError(DampSimError):
    """The list of shots is wrong. The message says where, and what to write."""


@dataclass(frozen=True)
class Unit:
    """Unit of work for one Blender process: a shot with one wedge, or one object of it.

    number: from 1.  wedge: (name, value) of the varied parameters.  settings: (name, value) of all parameters that are
    set.  object: '' for all objects of the shot.  folder: output folder of the unit.  options: options of `bake`.
    """

    number: int
    shot: str
    file: Path
    wedge: tuple[tuple[str, str], ...]
    settings: tuple[tuple[str, str], ...]
    object: str
    folder: Path
    options: Mapping[str, str] = field(default_factory=dict)

    @property
    def label(self) -> str:
        """Name of the unit for people."""
        wedge = ", ".join(f"{name} {value}" for name, value in self.wedge)
        return " · ".join(part for part in (self.shot, wedge, self.object) if part)

    @property
    def report(self) -> Path:
        """Path of the report."""
        return self.folder / REPORT

    @property
    def output(self) -> Path:
        """Path of the baked .blend file."""
        return self.folder / f"{_folder_name(self.shot)}.blend"

    def arguments(self, cancel: Path) -> list[str]:
        """Return the arguments of the command that bakes the unit unless it is done. cancel: the cancel file."""
        words = ["bake", "--skip-done", "--cancel", str(cancel), "--report", str(self.report)]
        words += ["--output", str(self.output), "--cache", str(self.folder / "cache")]
        if self.object:
            words += ["--object", self.object]
        for name, value in self.settings:
            words += ["--set", f"{name}={value}"]
        for name, value in self.options.items():
            words += [f"--{name}", value]
        return words

    def requested_options(self) -> dict[str, Any]:
        """Return the options as the report of the bake contains them; see cli.work_unit."""
        return {
            "command": "bake",
            "object": [self.object] if self.object else [],
            "frames": self.options.get("frames"),
            "set": [f"{name}={value}" for name, value in self.settings],
            "target": self.options.get("target"),
            "bound": self.options.get("bound"),
            "pictures": int(self.options.get("pictures", "0")),
            "output": str(self.output),
        }

    @property
    def is_done(self) -> bool:
        """Return whether the unit was baked with the same options and files."""
        return report_file.is_up_to_date(report_file.read_report(self.report), self.requested_options())


def units_from_list(path: Path, wedges: Mapping[str, Sequence[str]], output: Path) -> list[Unit]:
    """Return the units of a TOML list. Its paths are relative to its folder. wedges: added to all shots.

    Raises ListError and ParameterError.
    """
    try:
        content = tomllib.loads(path.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        raise ListError(f"{path} cannot be read ({error}); give a list of shots as TOML, or a folder.") from error
    shots = content.pop("shots", None)
    if not isinstance(shots, list) or not shots or not all(isinstance(shot, dict) for shot in shots):
        raise ListError(f'{path} lists no shots; write [[shots]] and file = "….blend" for each.')
    _check_names(content, _SHOT_OPTIONS, f"{path}")
    entries = []
    for shot in shots:
        file = shot.get("file")
        if not isinstance(file, str) or not file:
            raise ListError(f'{path}: a shot has no file; write file = "….blend" under its [[shots]].')
        location = f"{path}: {file}"
        _check_names(shot, (*_SHOT_OPTIONS, "file", "name"), location)
        merged = {**content, **shot}
        for name in ("set", "wedges"):
            merged[name] = {**_table_entry(content, name, location), **_table_entry(shot, name, location)}
        merged["wedges"] = {**merged["wedges"], **wedges}
        entries.append((str(shot.get("name", Path(file).stem)), (path.parent / file).absolute(), merged))
    return _make_units(entries, output)


def units_from_folder(
    folder: Path, wedges: Mapping[str, Sequence[str]], output: Path, options: Mapping[str, Any]
) -> list[Unit]:
    """Return the units of all .blend files in a folder. options: options of `bake`.  Raises ListError."""
    files = sorted(path for path in folder.absolute().glob("*.blend") if path.is_file())
    if not files:
        raise ListError(f"{folder} contains no .blend files; give another folder, or a list of shots as TOML.")
    return _make_units([(file.stem, file, {**options, "wedges": wedges}) for file in files], output)


def parse_wedges(entries: Sequence[str]) -> dict[str, list[str]]:
    """Return the values by name of NAME=VALUE,VALUE,… entries. Raises ListError."""
    found = {}
    for entry in entries:
        name, sign, values = entry.partition("=")
        if not sign:
            raise ListError(f"--set {entry}: give NAME=VALUE,VALUE,….")
        found[name] = values.split(",")
    return found


def write_units(units: Sequence[Unit], output: Path) -> None:
    """Write the list of all units, which the page needs. Raises ListError."""
    entries = [{"label": unit.label, "folder": unit.folder.relative_to(output).as_posix()} for unit in units]
    try:
        output.mkdir(parents=True, exist_ok=True)
        report_file.write_atomically(output / UNITS, json.dumps(entries, indent=1))
    except OSError as error:
        raise ListError(
            f"{output} cannot be written ({error.strerror or error}); choose another folder with --output."
        ) from error


def _make_units(shots: Sequence[tuple[str, Path, Mapping[str, Any]]], output: Path) -> list[Unit]:
    units: list[Unit] = []
    taken: set[Path] = set()
    for name, file, entry in shots:
        lists = {key: _value_texts(value) for key, value in entry.get("wedges", {}).items()}
        fixed = {key: _value_texts(value)[0] for key, value in entry.get("set", {}).items()}
        objects = entry.get("objects", [""])
        if not isinstance(objects, list) or not objects or not all(isinstance(one, str) for one in objects):
            raise ListError(f'{name}: objects must be a list of names, such as ["Tail", "Ears"].')
        options = {key: str(entry[key]) for key in BAKE_OPTIONS if key in entry}
        if not options.get("pictures", "0").isdigit():
            raise ListError(f"{name}: pictures must be the number of frames to render, 0 or more.")
        for chosen in itertools.product(*lists.values()):
            wedge = dict(zip(lists, chosen, strict=True))
            settings = {**fixed, **wedge}
            for key, value in settings.items():
                if key not in PARAMETERS:
                    raise ParameterError(f"{name}: {unknown_name('a parameter', key, PARAMETERS)}")
                PARAMETERS[key].validate(value)
            for obj in objects:
                folder = (
                    output
                    / _folder_name(name)
                    / _folder_name(",".join(f"{k}={v}" for k, v in wedge.items()) or NO_WEDGE)
                )
                folder = folder / _folder_name(obj) if obj else folder
                if folder in taken:
                    raise ListError(f'{name}: two shots have this name; change one of them with name = "…".')
                taken.add(folder)
                pairs = tuple(wedge.items()), tuple(settings.items())
                units.append(Unit(len(units) + 1, name, file, *pairs, obj, folder, options))
    return units


def _folder_name(name: str) -> str:
    """Return a unique folder name that every file system accepts."""
    plain = _FORBIDDEN.sub("_", name)
    if plain == name and len(name) <= 100 and not name.startswith("."):
        return name
    return f"{plain[:80].strip('.')}_{hashlib.sha256(name.encode('utf-8', 'surrogatepass')).hexdigest()[:8]}"


def _value_texts(value: object) -> list[str]:
    """Return a value or a list of values as strings."""
    found = value if isinstance(value, list) else [value]
    if not found or any(isinstance(one, (dict, list)) for one in found):
        raise ListError(f"{value!r}: give a value, or a list of values.")
    return [str(one) for one in found]


def _table_entry(entries: Mapping[str, Any], name: str, location: str) -> dict[str, Any]:
    found = entries.get(name, {})
    if not isinstance(found, dict):
        raise ListError(f"{location}: {name} must be a table, such as {name} = {{ settle = 12 }}.")
    return found


def _check_names(entries: Mapping[str, Any], allowed: Sequence[str], location: str) -> None:
    for name in entries:
        if name not in allowed:
            raise ListError(f"{location}: {unknown_name('an entry', name, allowed)}")
