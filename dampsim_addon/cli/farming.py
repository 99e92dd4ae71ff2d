"""farm and gather: many shots, each in a Blender of its own, and the page of all of them."""

from __future__ import annotations

import argparse
import shlex
import shutil
import signal
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import bpy

from ..farm import dask_engine, local, page
from ..farm.ledger import Ledger, fail
from ..farm.shots import CANCEL, OF_BAKE, Unit, from_folder, from_list, wedges_of, write_units
from ..work.stopping import PATIENCE, Stopped, Watch
from .baking import Report
from .options import UsageError


def add_to(commands: Any) -> None:
    farm = commands.add_parser("farm", help="bake the shots of a list, or all .blend files of a folder")
    farm.set_defaults(run=run_farm)
    farm.add_argument("shots", metavar="LIST.toml|FOLDER")
    farm.add_argument(
        "--set", action="append", default=[], metavar="NAME=VALUE,VALUE,…", help="bake each shot with all combinations"
    )
    farm.add_argument("--output", metavar="FOLDER", default="farm_output", help="for all of it (default farm_output)")
    farm.add_argument("--workers", type=int, default=2, metavar="N", help="Blenders side by side (default 2)")
    farm.add_argument("--retries", type=int, default=3, metavar="N", help="how often a shot is tried again (default 3)")
    for name, text in (("frames", "FIRST:LAST"), ("target", "NAME"), ("bound", "0.1%|1mm"), ("pictures", "N")):
        farm.add_argument(f"--{name}", metavar=text, help=f"of bake, for the shots of a folder: see bake --{name}")
    farm.add_argument("--blender", metavar="PROGRAM", help="the Blender to start (default this one)")
    farm.add_argument("--blender-options", metavar="TEXT", default="", help='of that Blender, as "--enable-autoexec"')
    farm.add_argument("--engine", choices=["local", "dask"], default="local", help="who does the work (default local)")
    farm.add_argument("--scheduler", metavar="ADDRESS", help="of Dask, as tcp://host:8786")
    farm.add_argument("--list", action="store_true", help="say what there is to do, and do nothing")
    farm.add_argument("--only", metavar="N|N-M", help="do only these, in this Blender, as a farm's task")
    farm.add_argument("--failures-in-report", action="store_true", help="with --only: see bake")
    farm.add_argument("--until-parent-ends", action="store_true", help="with --only: see bake")
    farm.add_argument("--report", metavar="FILE", help="write what was done there, as JSON")
    gather = commands.add_parser("gather", help="make the page of a farm's folder; fails where a shot has failed")
    gather.set_defaults(run=run_gather)
    gather.add_argument("folder", metavar="FOLDER", help="the farm's --output")
    gather.add_argument("--report", metavar="FILE", help="write what is on the page there, as JSON")


def run_farm(options: argparse.Namespace) -> Report:
    if options.workers < 1 or options.retries < 0:
        raise UsageError("dampsim: give 1 or more --workers, and 0 or more --retries")
    output = Path(options.output).absolute()
    units = _units(options, output)
    if options.list:
        for unit in units:
            print(f"dampsim: {unit.number}: {unit.label}: {'done' if unit.is_done else 'to do'}")
        print(f"dampsim: {len(units)} in all")
        return True, []
    write_units(units, output)
    if options.only:
        return _these(options, units, output)
    cancel = output / CANCEL
    if cancel.exists():
        raise UsageError(f"dampsim: {cancel} cancels the farm; remove it to go on")
    blender = _blender(options)
    # Longer than its children have.
    watch = Watch(cancel=cancel, patience=4.0 * PATIENCE)
    ledger = Ledger(units, options.retries)
    # Asked to end, children end too, between two frames.
    before = {number: signal.signal(number, lambda *_: _end(watch)) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        if options.engine == "dask":
            dask_engine.run(ledger, options.scheduler, blender, output, lambda: bool(watch.why))
        else:
            local.run(ledger, blender, output, options.workers, lambda: bool(watch.why))
    finally:
        watch.close()
        for number, handler in before.items():
            # Blender's own is none of Python's.
            signal.signal(number, handler or signal.SIG_DFL)
    rows = page.write(output)
    if watch.why:
        raise Stopped(watch.why)
    return _told(rows, output)


def run_gather(options: argparse.Namespace) -> Report:
    folder = Path(options.folder).absolute()
    return _told(page.write(folder), folder)


def _told(rows: Sequence[page.Row], output: Path) -> Report:
    failed = [row for row in rows if row.problem]
    for row in failed:
        print(f"dampsim: {row.label}: {row.problem}", file=sys.stderr)
    print(f"dampsim: {len(rows) - len(failed)} baked, {len(failed)} failed; look at {output / page.PAGE}", flush=True)
    entries = [{**vars(row), "remarks": list(row.remarks)} for row in rows]
    return not failed, entries


def _end(watch: Watch) -> None:
    watch.why = "it was asked to end"


def _units(options: argparse.Namespace, output: Path) -> list[Unit]:
    shots = Path(options.shots)
    wedges = wedges_of(options.set)
    given = {name: getattr(options, name) for name in OF_BAKE if getattr(options, name)}
    if shots.is_dir():
        return from_folder(shots, wedges, output, given)
    if given:
        raise UsageError(f"dampsim: --{next(iter(given))}: write it into {shots}, which says it for each shot")
    return from_list(shots, wedges, output)


def _blender(options: argparse.Namespace) -> list[str]:
    """The program with its options, for the list is ended with `--command`."""
    # Workers have their own.
    program = options.blender or ("blender" if options.engine == "dask" else bpy.app.binary_path)
    if not program:
        raise UsageError("dampsim: this Python is no Blender; give the program with --blender")
    if options.engine == "local" and shutil.which(program) is None:
        raise UsageError(f"dampsim: --blender {program}: there is no such program")
    return [program, *shlex.split(options.blender_options)]


def _these(options: argparse.Namespace, units: Sequence[Unit], output: Path) -> Report:
    """Do some units in this process, one after the other."""
    first, _, last = options.only.partition("-")
    try:
        numbers = range(int(first), int(last or first) + 1)
    except ValueError:
        raise UsageError(f"dampsim: --only {options.only}: give a number, or FIRST-LAST") from None
    if not numbers or numbers[0] < 1 or numbers[-1] > len(units):
        raise UsageError(f"dampsim: --only {options.only}: there are 1 to {len(units)}")
    flags = [
        f"--{name}" for name in ("failures-in-report", "until-parent-ends")
        if getattr(options, name.replace("-", "_"))
    ]  # fmt: skip
    whole, entries = True, []
    for unit in units[numbers[0] - 1 : numbers[-1]]:
        code = 0
        if not unit.is_done:
            unit.folder.mkdir(parents=True, exist_ok=True)
            try:
                bpy.ops.wm.open_mainfile(filepath=str(unit.file), load_ui=False)
            except RuntimeError as error:
                said = [line for line in str(error).strip().splitlines() if line]
                problem = f"{unit.file} cannot be opened ({said[-1]}); give a whole .blend file."
                print(f"dampsim: {problem}", file=sys.stderr, flush=True)
                fail(unit, problem)
                code = 0 if options.failures_in_report else 1
            else:
                code = options.main([*unit.arguments(output / CANCEL), *flags])
        whole = whole and code == 0
        entries.append({"name": unit.label, "exit_code": code, "problem": ""})
    return whole, entries
