"""Commands farm and gather: bake many shots, each in its own Blender process, and write the overview page."""

from __future__ import annotations

import argparse
import shlex
import shutil
import signal
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import bpy

from ..farm import page
from ..farm.job_queue import JobQueue, run_locally, write_failure_report
from ..farm.shots import BAKE_OPTIONS, CANCEL, Unit, parse_wedges, units_from_folder, units_from_list, write_units
from ..work.steps import GRACE_PERIOD, Cancelled, CancelWatch
from .bake_commands import Report
from .options import UsageError

# Engines by name, which run a queue of units. A script may add others: see farm/dask_engine.py in the repository.
ENGINES: dict[str, Callable[[JobQueue, Sequence[str], Path, int, Callable[[], bool]], None]] = {"local": run_locally}


def add_to(commands: Any) -> None:
    """Add the commands to the parser."""
    farm = commands.add_parser("farm", help="bake the shots of a list, or all .blend files in a folder")
    farm.set_defaults(run=run_farm)
    farm.add_argument("shots", metavar="LIST.toml|FOLDER")
    farm.add_argument(
        "--set",
        action="append",
        default=[],
        metavar="NAME=VALUE,VALUE,…",
        help="bake each shot with all combinations of these values",
    )
    farm.add_argument(
        "--output", metavar="FOLDER", default="farm_output", help="folder for all results (default farm_output)"
    )
    farm.add_argument(
        "--workers", type=int, default=2, metavar="N", help="number of parallel Blender processes (default 2)"
    )
    farm.add_argument("--retries", type=int, default=3, metavar="N", help="retries of a shot that fails (default 3)")
    for name, text in (("frames", "FIRST:LAST"), ("target", "NAME"), ("bound", "0.1%|1mm"), ("pictures", "N")):
        farm.add_argument(f"--{name}", metavar=text, help=f"only for a folder of shots: see bake --{name}")
    farm.add_argument("--blender", metavar="PROGRAM", help="Blender executable to run (default: this one)")
    farm.add_argument(
        "--blender-options", metavar="TEXT", default="", help='options of that Blender, such as "--enable-autoexec"'
    )
    farm.add_argument(
        "--engine",
        choices=list(ENGINES),
        default="local",
        help="run on this machine (local, the default), or by an engine that a script has added",
    )
    farm.add_argument("--list", action="store_true", help="list the numbered units and their status without baking")
    farm.add_argument(
        "--only", metavar="N|N-M", help="bake only these units, in this Blender process, as a task of another farm"
    )
    farm.add_argument("--failures-in-report", action="store_true", help="with --only: see bake --failures-in-report")
    farm.add_argument("--until-parent-ends", action="store_true", help="with --only: see bake --until-parent-ends")
    farm.add_argument("--report", metavar="FILE", help="write a JSON report to this file")
    gather = commands.add_parser("gather", help="write the overview page of a farm; fails if a shot has failed")
    gather.set_defaults(run=run_gather)
    gather.add_argument("folder", metavar="FOLDER", help="the --output folder of the farm")
    gather.add_argument("--report", metavar="FILE", help="write the content of the page to this file as JSON")


def run_farm(options: argparse.Namespace) -> Report:
    """Run the command farm."""
    if options.workers < 1 or options.retries < 0:
        raise UsageError("dampsim: give --workers 1 or more, and --retries 0 or more")
    output = Path(options.output).absolute()
    units = _requested_units(options, output)
    if options.list:
        for unit in units:
            print(f"dampsim: {unit.number}: {unit.label}: {'done' if unit.is_done else 'to do'}")
        print(f"dampsim: {len(units)} in total")
        return True, []
    write_units(units, output)
    if options.only:
        return _bake_units(options, units, output)
    cancel = output / CANCEL
    if cancel.exists():
        raise UsageError(f"dampsim: the file {cancel} cancels the farm; delete it to continue")
    blender = _blender_command(options)
    # The child processes must have time to end first.
    watch = CancelWatch(cancel=cancel, grace_period=4.0 * GRACE_PERIOD)
    job_queue = JobQueue(units, options.retries)
    # On a signal, the child processes end too, between two frames.
    previous_handlers = {
        number: signal.signal(number, lambda *_: _interrupt(watch)) for number in (signal.SIGINT, signal.SIGTERM)
    }
    try:
        ENGINES[options.engine](job_queue, blender, output, options.workers, lambda: bool(watch.reason))
    finally:
        watch.close()
        for number, handler in previous_handlers.items():
            # A handler that was not installed by Python is None.
            signal.signal(number, handler or signal.SIG_DFL)
    rows = page.write_page(output)
    if watch.reason:
        raise Cancelled(watch.reason)
    return _report_rows(rows, output)


def run_gather(options: argparse.Namespace) -> Report:
    """Run the command gather."""
    folder = Path(options.folder).absolute()
    return _report_rows(page.write_page(folder), folder)


def _report_rows(rows: Sequence[page.FarmRow], output: Path) -> Report:
    failed = [row for row in rows if row.problem]
    for row in failed:
        print(f"dampsim: {row.label}: {row.problem}", file=sys.stderr)
    print(f"dampsim: {len(rows) - len(failed)} baked, {len(failed)} failed; overview: {output / page.PAGE}", flush=True)
    entries = [{**vars(row), "remarks": list(row.remarks)} for row in rows]
    return not failed, entries


def _interrupt(watch: CancelWatch) -> None:
    watch.reason = "it was interrupted"


def _requested_units(options: argparse.Namespace, output: Path) -> list[Unit]:
    shots = Path(options.shots)
    wedges = parse_wedges(options.set)
    bake_options = {name: getattr(options, name) for name in BAKE_OPTIONS if getattr(options, name)}
    if shots.is_dir():
        return units_from_folder(shots, wedges, output, bake_options)
    if bake_options:
        raise UsageError(
            f"dampsim: --{next(iter(bake_options))} works only with a folder; write it into the list {shots}"
        )
    return units_from_list(shots, wedges, output)


def _blender_command(options: argparse.Namespace) -> list[str]:
    """Return the command line of Blender up to the .blend file."""
    # Other machines use the Blender in their PATH.
    program = options.blender or (bpy.app.binary_path if options.engine == "local" else "blender")
    if not program:
        raise UsageError("dampsim: no Blender executable is known; give one with --blender")
    if options.engine == "local" and shutil.which(program) is None:
        raise UsageError(f"dampsim: --blender {program}: the program does not exist")
    try:
        return [program, *shlex.split(options.blender_options)]
    except ValueError:
        raise UsageError(f"dampsim: --blender-options {options.blender_options}: a quotation mark is missing") from None


def _bake_units(options: argparse.Namespace, units: Sequence[Unit], output: Path) -> Report:
    """Bake some units in this process, one after the other."""
    first, _, last = options.only.partition("-")
    try:
        numbers = range(int(first), int(last or first) + 1)
    except ValueError:
        raise UsageError(f"dampsim: --only {options.only}: give a number or FIRST-LAST") from None
    if not numbers or numbers[0] < 1 or numbers[-1] > len(units):
        raise UsageError(f"dampsim: --only {options.only}: give numbers from 1 to {len(units)}")
    flags = [
        f"--{name}" for name in ("failures-in-report", "until-parent-ends")
        if getattr(options, name.replace("-", "_"))
    ]  # fmt: skip
    is_complete, entries = True, []
    for unit in units[numbers[0] - 1 : numbers[-1]]:
        code = 0
        if not unit.is_done:
            unit.folder.mkdir(parents=True, exist_ok=True)
            try:
                bpy.ops.wm.open_mainfile(filepath=str(unit.file), load_ui=False)
            except RuntimeError as error:
                error_lines = [line for line in str(error).strip().splitlines() if line]
                problem = f"{unit.file} cannot be opened ({error_lines[-1]}); give an intact .blend file."
                print(f"dampsim: {problem}", file=sys.stderr, flush=True)
                write_failure_report(unit, problem)
                code = 0 if options.failures_in_report else 1
            else:
                code = options.main([*unit.arguments(output / CANCEL), *flags])
        is_complete = is_complete and code == 0
        entries.append({"name": unit.label, "exit_code": code, "problem": ""})
    return is_complete, entries
