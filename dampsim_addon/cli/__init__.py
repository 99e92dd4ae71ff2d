"""Command line `blender -b FILE -c dampsim bake|sweep|…`. A new command is a module with add_to()."""

from __future__ import annotations

import argparse
import contextlib
import math
import os
import re
import sys
import traceback
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import bpy

from ...core import DampSimError, ParameterError
from ...core.base.errors import MAX_SHOWN, printable_text
from ...core.base.wording import unknown_name
from ..farm import report_file
from ..work.steps import Cancelled
from . import bake_commands, farm_commands, landing_commands, search_commands, work_unit
from .options import UsageError
from .saving import reserved_file

DONE, FAILED, USAGE, BUG = 0, 1, 2, 3
# argparse names Python's types.
_WRONG_NUMBER = re.compile("invalid (int|float) value: (.+)")
_NUMBERS = {"int": "a whole number", "float": "a number"}
_NEGATIVE_FRAMES = re.compile("-[0-9]+:.*")
# Largest integer of Blender's properties, and largest number of characters of a printed problem.
_MAX_INTEGER, _MAX_PROBLEM = 2**31 - 1, 1000
# Options that are paths, and the longest suffix that DampSim appends to the name of a result.
_RESULT_PATHS, _INPUT_PATHS, _SUFFIX = ("output", "report", "cache", "cancel"), ("shots", "folder", "blender"), 32 * "x"


class _Parser(argparse.ArgumentParser):
    """Parser that raises UsageError, and suggests the closest command or option for an unknown one."""

    def error(self, message: str) -> Any:
        message = _WRONG_NUMBER.sub(lambda found: f"{found[2]} is not {_NUMBERS[found[1]]}", message)
        # argparse takes a value that begins with "-" for an option.
        fix = "; for a value that begins with -, write OPTION=VALUE" if message.endswith("one argument") else ""
        raise UsageError(f"{self.prog}: {message}{fix}")

    def parse_known_args(self, args: Any = None, namespace: Any = None) -> Any:
        found, unknown = super().parse_known_args(args, namespace)
        # A command's parser passes unknown arguments on, but only it knows its options.
        for text in unknown:
            option = text.partition("=")[0]
            kind = "an option" if text.startswith("-") else "an argument"
            self.error(unknown_name(kind, option, self._option_string_actions))
        return found, unknown

    def _check_value(self, action: argparse.Action, value: Any) -> None:
        if action.choices is not None and value not in action.choices:
            kind = "a command" if action.dest == "command" else "a choice"
            raise argparse.ArgumentError(action, unknown_name(kind, str(value), map(str, action.choices)))


def _parse_arguments(argv: Sequence[str]) -> argparse.Namespace:
    """Return the options of a command line. Raises UsageError."""
    parser = _Parser(prog="dampsim", description="Bake, compare and export DampSim objects of a .blend file.")
    commands = parser.add_subparsers(dest="command", parser_class=_Parser)
    for group in (bake_commands, landing_commands, search_commands, farm_commands):
        group.add_to(commands)
    options = parser.parse_args(_with_negative_frames(argv))
    if not options.command:
        raise UsageError(f"dampsim: a command is required; choose one of {', '.join(commands.choices)}")
    for name, value in vars(options).items():
        for one in value if isinstance(value, list) else [value]:
            problem = _problem_of_value(name, one)
            if problem:
                raise UsageError(f"dampsim: {name.replace('_', '-')} {printable_text(str(one), MAX_SHOWN)}: {problem}")
    return options


def _problem_of_value(name: str, value: object) -> str:
    """Return why a value of an option cannot be used by any command; '' for other values."""
    if isinstance(value, int | float) and not (math.isfinite(value) and abs(value) <= _MAX_INTEGER):
        return "the number is too large, or not a number"
    if not isinstance(value, str):
        return ""
    try:
        os.fsencode(value)
        if name in _RESULT_PATHS + _INPUT_PATHS:
            os.lstat(value + (_SUFFIX if name in _RESULT_PATHS else ""))
    except (FileNotFoundError, NotADirectoryError, PermissionError):
        pass
    except OSError as error:
        return f"the path cannot be used ({error.strerror or error})"
    except ValueError:
        return "it has characters that no name can have"
    return "it has characters that no name can have" if "\0" in value else ""


def main(argv: Sequence[str]) -> int:
    """Run a command. Returns the exit code: 0 success, 1 failure that the user can fix, 2 wrong usage, 3 bug."""
    options = argparse.Namespace(command="", report=None)
    with contextlib.ExitStack() as exit_stack:
        try:
            options = _parse_arguments(argv)
            report = options.report and Path(options.report)
            if report and (report.is_dir() or not report.resolve().parent.is_dir()):
                options.report = None
                raise UsageError(f"dampsim: --report {report}: give a file in an existing folder")
            # `farm --only` runs further commands.
            options.main = main
            if work_unit.begin_unit(options, exit_stack):
                return DONE
            with reserved_file(options):
                is_complete, entries = options.run(options)
            if is_complete:
                work_unit.record_provenance(options)
            code = DONE if is_complete else FAILED
            return _report_and_exit_code(options, code, entries, "")
        except (UsageError, ParameterError) as error:
            text = printable_text(str(error), _MAX_PROBLEM)
            print(text if text.startswith("dampsim") else f"dampsim: {text}", file=sys.stderr)
            return _report_and_exit_code(options, USAGE, [], text.removeprefix("dampsim: "))
        except SystemExit as stop:
            # argparse has printed its help.
            return int(stop.code or 0)
        except Cancelled as stopped:
            with contextlib.suppress(OSError):
                print(
                    f"dampsim: cancelled because {stopped}; run the same command again to continue",
                    file=sys.stderr,
                    flush=True,
                )
            return FAILED
        except DampSimError as error:
            print(f"dampsim: {printable_text(str(error))}", file=sys.stderr)
            return _report_and_exit_code(options, FAILED, [], str(error))
        except Exception as error:
            if isinstance(error, OSError) and error.filename:
                problem = (
                    f"{printable_text(str(error.filename), _MAX_PROBLEM)} cannot be used ({error.strerror}); check the "
                    "path, the rights and the free space."
                )
                print(f"dampsim: {problem}", file=sys.stderr)
                return _report_and_exit_code(options, FAILED, [], problem)
            traceback.print_exc()
            problem = f"This is a bug in DampSim, not an error in the scene ({type(error).__name__}: {error})"
            print(f"dampsim: {problem}. Please report it with the lines above", file=sys.stderr)
            _write_report(options, BUG, [], problem)
            return BUG


def _with_negative_frames(argv: Sequence[str]) -> list[str]:
    """Return the arguments with a negative value of --frames in one argument with its option."""
    words: list[str] = []
    for word in argv:
        if words and words[-1] == "--frames" and _NEGATIVE_FRAMES.fullmatch(word):
            words[-1] += f"={word}"
        else:
            words.append(word)
    return words


def _report_and_exit_code(options: argparse.Namespace, code: int, entries: list[dict[str, Any]], problem: str) -> int:
    """Write the report and return the exit code, which is DONE for failures with --failures-in-report."""
    written = _write_report(options, code, entries, problem)
    mendable = code in (FAILED, USAGE)
    return DONE if mendable and written and getattr(options, "failures_in_report", False) else code


def _write_report(options: argparse.Namespace, code: int, entries: list[dict[str, Any]], problem: str) -> bool:
    """Write the report if the options ask for one, and return whether it was written."""
    if not options.report:
        return False
    content = {
        "command": options.command,
        "file": bpy.data.filepath,
        "blender": bpy.app.version_string,
        "exit_code": code,
        "problem": problem,
        "objects": entries,
    }
    for name in ("remarks", "made_from"):
        if getattr(options, name, None):
            content[name] = getattr(options, name)
    try:
        report_file.write_report(Path(options.report), content)
    except OSError as error:
        print(f"dampsim: the report {options.report} cannot be written ({error.strerror or error})", file=sys.stderr)
        return False
    return True


_command_handle: Any = None


def register() -> None:
    global _command_handle  # Needed by unregister().
    _command_handle = bpy.utils.register_cli_command("dampsim", main)


def unregister() -> None:
    bpy.utils.unregister_cli_command(_command_handle)
