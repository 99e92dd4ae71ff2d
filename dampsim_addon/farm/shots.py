"""Shot lists of a farm, and the units of work that their shots and wedges make."""

from __future__ import annotations

import collections
import hashlib
import itertools
import json
import math
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from ...core import PARAMETERS, DampSimError, ParameterError
from ...core.base.errors import MAX_SHOWN, disk_errors, is_printable, printable_text
from ...core.base.untrusted_files import read_toml, write_atomically
from ...core.base.wording import unknown_name
from . import report_file

UNITS, REPORT, LOG, CANCEL = "units.json", "report.json", "log.txt", "cancel"
# Options that a shot may set, or the list for all of its shots.
BAKE_OPTIONS = ("frames", "target", "bound", "pictures")
# Options of `bake` and `sweep` that affect the result.
RESULT_OPTIONS = (
    "command", "object", "frames", "range", "blend", "set", "target", "bound", "max_keys", "bones", "chain", "pictures",
    "output",
)  # fmt: skip
_SHOT_OPTIONS = ("objects", "set", "wedges", *BAKE_OPTIONS)
_FORBIDDEN = re.compile(r"[^A-Za-z0-9.,=+-]+")
NO_WEDGE = "as_it_is"
# Names of Windows' devices, also with a suffix, and of files and folders in a farm's output folder.
_RESERVED = re.compile(r"(con|prn|aux|nul|com[0-9]|lpt[0-9])(\..*)?", re.IGNORECASE)
_OWN_NAMES = (UNITS, REPORT, f"{REPORT}.lock", LOG, CANCEL, "cache", "done", "index.html", "farm.csv")
# Largest number of characters of a folder name and of a name in a list, and largest number of units.
_MAX_FOLDER_NAME, _MAX_NAME, _MAX_UNITS = 100, 1000, 10_000


class ListError(DampSimError):
    """The list of shots is wrong. The message says where, and what to write."""


@dataclass(frozen=True)
class Unit:
    """Unit of work for one Blender process: a shot with one wedge, or one object of it.

    number: from 1.  wedge: (name, value) of the varied parameters.  settings: (name, value) of all parameters that are
    set.  object: '' for all objects of the shot.  folder: output folder of the unit.  output: baked .blend file.
    options: options of `bake`.
    """

    number: int
    shot: str
    file: Path
    wedge: tuple[tuple[str, str], ...]
    settings: tuple[tuple[str, str], ...]
    object: str
    folder: Path
    output: Path
    options: Mapping[str, str] = field(default_factory=dict)

    @property
    def label(self) -> str:
        """Name of the unit for people."""
        wedge = ", ".join(f"{name} {value}" for name, value in self.wedge)
        return printable_text(" · ".join(part for part in (self.shot, wedge, self.object) if part))

    @property
    def wedge_text(self) -> str:
        """The varied parameters as NAME=VALUE,…; NO_WEDGE without any."""
        return ",".join(f"{name}={value}" for name, value in self.wedge) or NO_WEDGE

    @property
    def report(self) -> Path:
        """Path of the report."""
        return self.folder / REPORT

    def arguments(self, cancel: Path) -> list[str]:
        """Return the arguments of the command that bakes the unit unless it is done. cancel: the cancel file."""
        places = {"cancel": cancel, "report": self.report, "output": self.output, "cache": self.folder / "cache"}
        # A value that begins with "-" has to be in the same argument as its option.
        words = ["bake", "--skip-done", *(f"--{name}={path}" for name, path in places.items())]
        words += [f"--object={self.object}"] if self.object else []
        words += [f"--set={name}={value}" for name, value in self.settings]
        return [*words, *(f"--{name}={value}" for name, value in self.options.items())]

    def requested_options(self) -> dict[str, Any]:
        """Return the options as the report of the bake contains them; see RESULT_OPTIONS."""
        return {
            **dict.fromkeys(RESULT_OPTIONS),
            **self.options,
            "command": "bake",
            "object": [self.object] if self.object else [],
            "set": [f"{name}={value}" for name, value in self.settings],
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
        content = read_toml(path, follow_link=True)
    except (OSError, ValueError) as error:
        reason = printable_text(getattr(error, "strerror", "") or str(error), 2 * MAX_SHOWN)
        raise ListError(f"{path} cannot be read ({reason}); give a list of shots as TOML, or a folder.") from error
    shots = content.pop("shots", None)
    if not isinstance(shots, list) or not shots or not all(isinstance(shot, dict) for shot in shots):
        raise ListError(f'{path} lists no shots; write [[shots]] and file = "….blend" for each.')
    _check_names(content, _SHOT_OPTIONS, f"{path}")
    entries = []
    for shot in shots:
        file = shot.get("file")
        if not _is_name(file):
            raise ListError(f'{path}: a shot has no file; write file = "….blend" under its [[shots]].')
        location = f"{path}: {_name_text(file)}"
        _check_names(shot, (*_SHOT_OPTIONS, "file", "name"), location)
        merged = {**content, **shot}
        for name in ("set", "wedges"):
            merged[name] = {**_table_entry(content, name, location), **_table_entry(shot, name, location)}
        merged["wedges"] = {**merged["wedges"], **wedges}
        name = shot.get("name", Path(file).stem)
        if not _is_name(name):
            raise ListError(f'{location}: a name must be a short text without line breaks, such as name = "sh010".')
        entries.append((name, (path.parent / file).absolute(), merged))
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
    with disk_errors(f"{output} cannot be written", "choose another folder with --output", ListError):
        output.mkdir(parents=True, exist_ok=True)
        write_atomically(output / UNITS, json.dumps(entries, indent=1))


def _make_units(shots: Sequence[tuple[str, Path, Mapping[str, Any]]], output: Path) -> list[Unit]:
    """Return the units of all shots. Raises ListError, and ParameterError for an unknown parameter or a wrong value."""
    units: list[Unit] = []
    for name, file, entry in shots:
        location = _name_text(name)
        lists = {key: _value_texts(value, location, key) for key, value in entry.get("wedges", {}).items()}
        fixed = {key: _value_texts(value, location, key)[0] for key, value in entry.get("set", {}).items()}
        objects = entry.get("objects", [""])
        if not isinstance(objects, list) or not objects or (objects != [""] and not all(map(_is_name, objects))):
            raise ListError(f'{location}: objects must be a list of names, such as ["Tail", "Ears"].')
        options = _bake_options(entry, location)
        if len(units) + len(objects) * math.prod(map(len, lists.values())) > _MAX_UNITS:
            raise ListError(f"{location}: the list has more than {_MAX_UNITS} units; make several lists.")
        for chosen in itertools.product(*lists.values()):
            wedge = dict(zip(lists, chosen, strict=True))
            settings = {**fixed, **wedge}
            for key, value in settings.items():
                if key not in PARAMETERS:
                    raise ParameterError(f"{location}: {unknown_name('a parameter', key, PARAMETERS)}")
                PARAMETERS[key].validate(value)
            pairs = tuple(wedge.items()), tuple(settings.items())
            for obj in objects:
                units.append(Unit(len(units) + 1, name, file, *pairs, obj, output, output, options))
    return _with_folders(units, output)


def _with_folders(units: Sequence[Unit], output: Path) -> list[Unit]:
    """Return the units with a folder and an output file each. Raises ListError if two have the same name."""
    shot_folder = _folder_names(unit.shot for unit in units)
    wedge_folder = _folder_names(unit.wedge_text for unit in units)
    object_folder = _folder_names(unit.object for unit in units if unit.object)
    placed = []
    for unit in units:
        folder = output / shot_folder(unit.shot) / wedge_folder(unit.wedge_text)
        folder = folder / object_folder(unit.object) if unit.object else folder
        placed.append(replace(unit, folder=folder, output=folder / f"{shot_folder(unit.shot)}.blend"))
    counts = collections.Counter(unit.folder for unit in placed)
    for unit in placed:
        if counts[unit.folder] > 1:
            raise ListError(f'{_name_text(unit.shot)}: two shots have this name; change one of them with name = "…".')
    return placed


def _bake_options(entry: Mapping[str, Any], location: str) -> dict[str, str]:
    """Return the options of `bake` of a shot. Raises ListError."""
    options = {}
    for key in BAKE_OPTIONS:
        if key in entry:
            if type(entry[key]) not in (str, int, float) or not _is_name(str(entry[key])):
                raise ListError(f"{location}: {key} must be a short text or a number.")
            options[key] = str(entry[key])
    if not re.fullmatch("[0-9]{1,4}", options.get("pictures", "0")):
        raise ListError(f"{location}: pictures must be the number of frames to render, 0 or more.")
    if not re.fullmatch("-?[0-9]{1,7}:-?[0-9]{1,7}", options.get("frames", "1:1")):
        raise ListError(f'{location}: frames must be the first and last frame, such as frames = "1:120".')
    return options


def _folder_names(names: Iterable[str]) -> Callable[[str], str]:
    """Return a function that gives each of several names a folder name that every file system accepts.

    Names that differ only in case get different folders, because Windows and macOS do not distinguish case.
    """
    counts = collections.Counter(name.casefold() for name in dict.fromkeys(names))
    return lambda name: _folder_name(name, counts[name.casefold()] > 1)


def _folder_name(name: str, is_ambiguous: bool) -> str:
    """Return a folder name that every file system accepts; with a digest if it is ambiguous or not the name itself."""
    plain = _FORBIDDEN.sub("_", name)
    reserved = bool(_RESERVED.fullmatch(name)) or name.casefold() in _OWN_NAMES
    whole = plain == name and 0 < len(name) <= _MAX_FOLDER_NAME and not name.startswith(".") and not name.endswith(".")
    if whole and not reserved and not is_ambiguous:
        return name
    digest = hashlib.sha256(name.encode("utf-8", "surrogatepass")).hexdigest()[:8]
    return f"{'_' if reserved else ''}{plain[:80].strip('.')}_{digest}"


def _is_name(value: object) -> bool:
    """Return whether a value is a name for a shot, object or file: a short text without control characters."""
    return isinstance(value, str) and 0 < len(value) <= _MAX_NAME and is_printable(value)


def _name_text(text: str) -> str:
    return printable_text(text, MAX_SHOWN)


def _value_texts(value: object, location: str, key: str) -> list[str]:
    """Return a value or a list of values as strings."""
    found = value if isinstance(value, list) else [value]
    if not found or any(isinstance(one, dict | list) for one in found):
        raise ListError(f"{location}: give a value, or a list of values, for '{_name_text(key)}'.")
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
