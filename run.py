"""DampSim's task runner: makes a private environment from requirements/ and calls the real tools in it.

    python run.py demo          bake the sample creature without a window; pictures and files go to out/
    python run.py test          run the quick tests; with --all all of them, with --rest what they leave out
    python run.py lint          style and types
    python run.py docs          make the tables and plots of docs/ anew; with --parameters only the page of parameters
    python run.py compare       run a scene under several dampings; table and plots

Everything behind the name goes on to the tool: `python run.py test tests/core -k dial`.
"""

from __future__ import annotations

import argparse
import hashlib
import os
import runpy
import subprocess
import sys
import tempfile
import time
import venv
from collections.abc import Sequence
from pathlib import Path
from typing import IO, Any

ROOT = Path(__file__).resolve().parent
SUPPORTED = ((3, 11), (3, 13))
# So many commands at a time, looked at so often, s.
LANES, POLL = 2, 0.05
# Run on their own, when one of the cores is free, so that both are busy about as long.
BESIDE = ("tests/addon/test_faults.py", "tests/addon/test_walks.py")
# What an option leaves of the tests, as pytest's -m; nothing is left out where tests are named.
CHOICES = {"": "not slow and not long", "--all": "", "--rest": "slow or long or not scenes"}
# Options of pytest whose value could be taken for a path.
WITH_VALUE = ("-k", "-m", "--deselect", "--ignore")
# pytest's exit code where a choice leaves none.
NO_TESTS = 5
# One thread for each product of small matrices: more only wait for each other.
SETTINGS = {"OPENBLAS_NUM_THREADS": "1", "PYTHONDONTWRITEBYTECODE": "1"}


def listed(requirements: str) -> str:
    """What a list asks for, with the lists that it names."""
    lines = (ROOT / "requirements" / f"{requirements}.txt").read_text(encoding="utf-8").splitlines()
    return "\n".join(listed(line[3:-4]) if line.startswith("-r ") else line for line in lines)


def environment(requirements: str) -> Path:
    """The Python of an environment with these requirements, made or brought up to date where needed."""
    folder = ROOT / f".venv-{requirements}-{sys.version_info[0]}.{sys.version_info[1]}"
    python = folder / ("Scripts/python.exe" if os.name == "nt" else "bin/python")
    mark, stamp = hashlib.sha256(listed(requirements).encode()).hexdigest(), folder / "installed"
    if not stamp.exists() or stamp.read_text() != mark:
        print(f"Setting up {folder.name} …", flush=True)
        venv.create(folder, with_pip=True, clear=True)
        path = ROOT / "requirements" / f"{requirements}.txt"
        call(python, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", "-r", path)
        stamp.write_text(mark)
    return python


def start(*command: object, said: IO[str] | None = None) -> subprocess.Popen[str]:
    """A command in this folder; what it says goes to the terminal or into a file."""
    beside: dict[str, Any] = {"stdin": subprocess.DEVNULL, "stdout": said, "stderr": subprocess.STDOUT} if said else {}
    return subprocess.Popen(
        [str(part) for part in command], cwd=ROOT, env={**SETTINGS, **os.environ}, text=True, **beside
    )


def call(*command: object) -> None:
    with start(*command) as running:
        code = running.wait()
    if code:
        sys.exit(code)


def kernel() -> None:
    """The compiled kernel for this machine, made where its source is another since. All goes on without it."""
    where = runpy.run_path(str(ROOT / "core" / "native" / "where.py"))
    if where["of_checkout"](ROOT).is_file():
        return
    try:
        call(environment("kernel"), "tools/kernel.py")
    except SystemExit:
        if os.environ.get("DAMPSIM_CI"):
            raise
        print("The kernel could not be compiled: numpy does the same, in half as much time again.", flush=True)


def test_path(part: str) -> str:
    """An argument for pytest as a path from here, `tests/…`; empty if it is none."""
    name, colons, node = part.partition("::")
    path = (ROOT / name).resolve()
    is_path = not part.startswith("-") and path.exists() and path.is_relative_to(ROOT / "tests")
    return path.relative_to(ROOT).as_posix() + colons + node if is_path else ""


def side_by_side(parts: Sequence[tuple[str, Sequence[str]]]) -> list[int]:
    """How Python ends with these arguments in these environments, two at a time: where one is done the next begins.

    One of them speaks to the terminal; what another says is told when that is silent.
    """
    waiting, codes, untold = list(parts), list[int](), list[IO[str]]()
    running: list[tuple[subprocess.Popen[str], IO[str] | None]] = []
    try:
        while waiting or running:
            while waiting and len(running) < LANES:
                name, arguments = waiting.pop(0)
                speaking = any(said is None for _, said in running)
                # Closed when it is told.
                said = tempfile.TemporaryFile("w+", encoding="utf-8") if speaking else None  # noqa: SIM115
                # An environment is set up while the first of them runs.
                running.append((start(environment(name), *arguments, said=said), said))
            for process, said in [one for one in running if one[0].poll() is not None]:
                running.remove((process, said))
                codes.append(process.returncode)
                untold += [said] if said else []
            if all(said for _, said in running):
                tell(untold)
            time.sleep(POLL)
    finally:
        for process, said in running:
            process.kill()  # where it was interrupted
            process.wait()
            untold += [said] if said else []
        tell(untold)
    return codes


def tell(untold: list[IO[str]]) -> None:
    while untold:
        with untold.pop(0) as said:
            said.seek(0)
            print(said.read(), flush=True)


def test(requirements: str | None, rest: list[str]) -> None:
    """Core tests in an environment without Blender, the others in Blender's; side by side, as two cores are for."""
    common, chosen = ["-m", "pytest"], []
    choice = next((part for part in rest if part in CHOICES), "")
    for option, part in zip(["", *rest], rest, strict=False):
        if part in CHOICES:
            continue
        if option not in WITH_VALUE and (path := test_path(part)):
            chosen.append(path)
        else:
            common.append(part)
    if not choice and (chosen or "-m" in rest):
        choice = "--all"
    marks = ["-m", CHOICES[choice]] if CHOICES[choice] else []
    if not chosen or "tests" in chosen:
        chosen = ["tests/core", "tests/addon"]
    core = [part for part in chosen if f"{part}/".startswith("tests/core/")]
    addon = [part for part in chosen if part not in core]
    whole = "tests/addon" in addon
    left_out = [f"--ignore={name}" for name in BESIDE] if whole else []
    lanes = [("bpy", [*addon, *left_out]), ("core", core), ("bpy", BESIDE if whole else [])]
    codes = side_by_side([(requirements or name, [*common, *marks, *paths]) for name, paths in lanes if paths])
    # A choice such as `-k` may leave one of them without tests, but not all.
    failed = [code for code in codes if code not in (0, NO_TESTS)]
    if failed or 0 not in codes:
        sys.exit((failed or codes)[0])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("task", choices=["demo", "test", "lint", "docs", "compare"])
    parser.add_argument(
        "--with", dest="requirements", metavar="NAME", help="another list of requirements/ for all of the tests"
    )
    options, rest = parser.parse_known_args()
    if sys.version_info[:2] not in SUPPORTED:
        versions = " or ".join(f"{a}.{b}" for a, b in SUPPORTED)
        sys.exit(f"DampSim's tools need Python {versions}; this is {sys.version_info[0]}.{sys.version_info[1]}.")
    if options.task != "lint" and rest != ["--parameters"]:
        kernel()
    if options.task == "demo":
        call(environment("bpy"), "tools/demo.py", *rest)
    elif options.task == "test":
        test(options.requirements, rest)
    elif options.task == "compare":
        call(environment("core"), "tools/compare.py", *rest)
    elif options.task == "docs" and rest == ["--parameters"]:
        # Quick, and without what draws.
        call(environment("core"), "tools/parameters_page.py")
    elif options.task == "docs":
        call(environment("docs"), "tools/validate.py", *rest)
        call(environment("bpy"), "tools/samples_page.py")
    else:
        python = environment("lint")
        call(python, "-m", "ruff", "check", ".")
        call(python, "-m", "ruff", "format", "--check", ".")
        call(python, "tools/check_types.py")


if __name__ == "__main__":
    main()
