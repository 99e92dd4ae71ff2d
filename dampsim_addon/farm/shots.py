"""The list of a farm: which shots, with which wedges, make which units of work."""

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
# What a shot may say, and the list as a whole for all of its shots.
OF_BAKE = ("frames", "target", "bound", "pictures")
_OF_SHOT = ("objects", "set", "wedges", *OF_BAKE)
_PLAIN = re.compile(r"[^A-Za-z0-9.,=+-]+")
AS_IT_IS = "as_it_is"


class ListError(DampSimError):
    """The list of shots cannot be read; the sentence says where and what to write."""


@dataclass(frozen=True)
class Unit:
    """A shot with one wedge, or one object of it: what one Blender does.

    number: from 1 on.  wedge: of the parameters that vary.  settings: all that are set, these too.  object: '' for all
    that the shot has.  folder: where all of it goes.
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
        wedge = ", ".join(f"{name} {value}" for name, value in self.wedge)
        return " · ".join(part for part in (self.shot, wedge, self.object) if part)

    @property
    def report(self) -> Path:
        return self.folder / REPORT

    @property
    def output(self) -> Path:
        return self.folder / f"{_plain(self.shot)}.blend"

    def arguments(self, cancel: Path) -> list[str]:
        """Of the command that does it, and only what is not done yet. cancel: the file that ends it."""
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
        """As the report of a bake notes it; see cli.units."""
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
        return record.holds(record.read(self.report), self.asked())


def from_list(path: Path, wedges: Mapping[str, Sequence[str]], output: Path) -> list[Unit]:
    """The units of a TOML list, whose paths begin in its folder. wedges: more of them, for all shots.

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
            raise ListError(f'{path}: a shot without a file; write file = "….blend" under its [[shots]].')
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
    """The units of all .blend files in a folder. options: as a list has for all of its shots."""
    files = sorted(path for path in folder.absolute().glob("*.blend") if path.is_file())
    if not files:
        raise ListError(f"{folder} has no .blend files; give a folder that has, or a list of shots as TOML.")
    return _units([(file.stem, file, {**options, "wedges": wedges}) for file in files], output)


def wedges_of(entries: Sequence[str]) -> dict[str, list[str]]:
    """Of NAME=VALUE,VALUE,… as the command line has them. Raises ListError."""
    found = {}
    for entry in entries:
        name, sign, values = entry.partition("=")
        if not sign:
            raise ListError(f"--set {entry}: give NAME=VALUE,VALUE,….")
        found[name] = values.split(",")
    return found


def write_units(units: Sequence[Unit], output: Path) -> None:
    """Leave a list of all units, from which the page is made. Raises ListError."""
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
            raise ListError(f'{name}: objects are a list of names, as ["Tail", "Ears"].')
        options = {key: str(said[key]) for key in OF_BAKE if key in said}
        if not options.get("pictures", "0").isdigit():
            raise ListError(f"{name}: pictures is how many frames to render: 0 or more.")
        for chosen in itertools.product(*lists.values()):
            wedge = dict(zip(lists, chosen, strict=True))
            settings = {**fixed, **wedge}
            for key, value in settings.items():
                if key not in PARAMETERS:
                    raise ParameterError(f"{name}: there is no parameter '{key}'; docs/parameters.md lists them.")
                PARAMETERS[key].checked(value)
            for obj in objects:
                folder = output / _plain(name) / _plain(",".join(f"{k}={v}" for k, v in wedge.items()) or AS_IT_IS)
                folder = folder / _plain(obj) if obj else folder
                if folder in taken:
                    raise ListError(f'{name}: two shots have this name; give one of them another with name = "…".')
                taken.add(folder)
                pairs = tuple(wedge.items()), tuple(settings.items())
                units.append(Unit(len(units) + 1, name, file, *pairs, obj, folder, options))
    return units


def _plain(name: str) -> str:
    """A folder's name that every disk can hold; its own for each name."""
    plain = _PLAIN.sub("_", name)
    if plain == name and len(name) <= 100 and not name.startswith("."):
        return name
    return f"{plain[:80].strip('.')}_{hashlib.sha256(name.encode('utf-8', 'surrogatepass')).hexdigest()[:8]}"


def _values(value: object) -> list[str]:
    """As the command line says them."""
    found = value if isinstance(value, list) else [value]
    if not found or any(isinstance(one, (dict, list)) for one in found):
        raise ListError(f"{value!r}: give a value, or a list of values.")
    return [str(one) for one in found]


def _table(said: Mapping[str, Any], name: str, where: str) -> dict[str, Any]:
    found = said.get(name, {})
    if not isinstance(found, dict):
        raise ListError(f"{where}: {name} is a table, as {name} = {{ settle = 12 }}.")
    return found


def _check_names(said: Mapping[str, Any], known: Sequence[str], where: str) -> None:
    for name in said:
        if name not in known:
            raise ListError(f"{where}: nobody knows '{name}'; there are {', '.join(known)}.")
