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

from ...core.errors import DampSimError, ParameterError
from ...core.scene.parameters import PARAMETERS
from . import record

UNITS, REPORT, LOG, CANCEL = "units.json", "report.json", "log.txt", "cancel"
# Options that a shot may set, or the list for all of its shots.
OF_BAKE = ("frames", "target", "bound", "pictures")
_OF_SHOT = ("objects", "set", "wedges", *OF_BAKE)
_PLAIN = re.compile(r"[^A-Za-z0-9.,=+-]+")
AS_IT_IS = "as_it_is"


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
        return self.folder / f"{_plain(self.shot)}.blend"

    def arguments(self, cancel: Path) -> list[str]:
        """Return the arguments of the command that bakes the unit unless it is done. cancel: the cancel file."""
        said = ["bake", "--skip-done", "--cancel", str(cancel), "--report", str(self.report)]
        said += ["--output", str(self.output), "--cache", str(self.folder / "cache")]
        if self.object:
            said += ["--object", self.object]
        for name, value in self.settings:
            said += ["--set", f"{name}={value}"]
        for name, value in self.options.items():
            said += [f"--{name}", value]
        return said

    def asked(self) -> dict[str, Any]:
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
        return record.holds(record.read(self.report), self.asked())


def from_list(path: Path, wedges: Mapping[str, Sequence[str]], output: Path) -> list[Unit]:
    """Return the units of a TOML list. Its paths are relative to its folder. wedges: added to all shots.

    Raises ListError and ParameterError.
    """
    try:
        said = tomllib.loads(path.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        raise ListError(f"{path} cannot be read ({error}); give a list of shots as TOML, or a folder.") from error
    shots = said.pop("shots", None)
    if not isinstance(shots, list) or not shots or not all(isinstance(shot, dict) for shot in shots):
        raise ListError(f'{path} lists no shots; write [[shots]] and file = "….blend" for each.')
    _check_names(said, _OF_SHOT, f"{path}")
    found = []
    for shot in shots:
        file = shot.get("file")
        if not isinstance(file, str) or not file:
            raise ListError(f'{path}: a shot has no file; write file = "….blend" under its [[shots]].')
        where = f"{path}: {file}"
        _check_names(shot, (*_OF_SHOT, "file", "name"), where)
        whole = {**said, **shot}
        for name in ("set", "wedges"):
            whole[name] = {**_table(said, name, where), **_table(shot, name, where)}
        whole["wedges"] = {**whole["wedges"], **wedges}
        found.append((str(shot.get("name", Path(file).stem)), (path.parent / file).absolute(), whole))
    return _units(found, output)


def from_folder(
    folder: Path, wedges: Mapping[str, Sequence[str]], output: Path, options: Mapping[str, Any]
) -> list[Unit]:
    """Return the units of all .blend files in a folder. options: options of `bake`.  Raises ListError."""
    files = sorted(path for path in folder.absolute().glob("*.blend") if path.is_file())
    if not files:
        raise ListError(f"{folder} contains no .blend files; give another folder, or a list of shots as TOML.")
    return _units([(file.stem, file, {**options, "wedges": wedges}) for file in files], output)


def wedges_of(entries: Sequence[str]) -> dict[str, list[str]]:
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
    said = [{"label": unit.label, "folder": unit.folder.relative_to(output).as_posix()} for unit in units]
    try:
        output.mkdir(parents=True, exist_ok=True)
        record.write(output / UNITS, json.dumps(said, indent=1))
    except OSError as error:
        raise ListError(
            f"{output} cannot be written ({error.strerror or error}); choose another folder with --output."
        ) from error


def _units(shots: Sequence[tuple[str, Path, Mapping[str, Any]]], output: Path) -> list[Unit]:
    units: list[Unit] = []
    taken: set[Path] = set()
    for name, file, said in shots:
        lists = {key: _values(value) for key, value in said.get("wedges", {}).items()}
        fixed = {key: _values(value)[0] for key, value in said.get("set", {}).items()}
        objects = said.get("objects", [""])
        if not isinstance(objects, list) or not objects or not all(isinstance(one, str) for one in objects):
            raise ListError(f'{name}: objects must be a list of names, such as ["Tail", "Ears"].')
        options = {key: str(said[key]) for key in OF_BAKE if key in said}
        if not options.get("pictures", "0").isdigit():
            raise ListError(f"{name}: pictures must be the number of frames to render, 0 or more.")
        for chosen in itertools.product(*lists.values()):
            wedge = dict(zip(lists, chosen, strict=True))
            settings = {**fixed, **wedge}
            for key, value in settings.items():
                if key not in PARAMETERS:
                    raise ParameterError(
                        f"{name}: '{key}' is not a parameter; docs/reference/parameters.md lists them all."
                    )
                PARAMETERS[key].checked(value)
            for obj in objects:
                folder = output / _plain(name) / _plain(",".join(f"{k}={v}" for k, v in wedge.items()) or AS_IT_IS)
                folder = folder / _plain(obj) if obj else folder
                if folder in taken:
                    raise ListError(f'{name}: two shots have this name; change one of them with name = "…".')
                taken.add(folder)
                pairs = tuple(wedge.items()), tuple(settings.items())
                units.append(Unit(len(units) + 1, name, file, *pairs, obj, folder, options))
    return units


def _plain(name: str) -> str:
    """Return a unique folder name that every file system accepts."""
    plain = _PLAIN.sub("_", name)
    if plain == name and len(name) <= 100 and not name.startswith("."):
        return name
    return f"{plain[:80].strip('.')}_{hashlib.sha256(name.encode('utf-8', 'surrogatepass')).hexdigest()[:8]}"


def _values(value: object) -> list[str]:
    """Return a value or a list of values as strings."""
    found = value if isinstance(value, list) else [value]
    if not found or any(isinstance(one, (dict, list)) for one in found):
        raise ListError(f"{value!r}: give a value, or a list of values.")
    return [str(one) for one in found]


def _table(said: Mapping[str, Any], name: str, where: str) -> dict[str, Any]:
    found = said.get(name, {})
    if not isinstance(found, dict):
        raise ListError(f"{where}: {name} must be a table, such as {name} = {{ settle = 12 }}.")
    return found


def _check_names(said: Mapping[str, Any], known: Sequence[str], where: str) -> None:
    for name in said:
        if name not in known:
            raise ListError(f"{where}: '{name}' is unknown; choose one of {', '.join(known)}.")
