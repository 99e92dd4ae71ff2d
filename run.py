"""Task runner of DampSim: create a private environment from requirements/ and run the tools in it.

    python run.py demo          bake the sample creature without a window; pictures and files go to out/
    python run.py test          run the quick tests; `test core` runs those without Blender, `test addon` the others
    python run.py lint          check style and types
    python run.py docs          regenerate the tables and plots of docs/; with --parameters only the page of parameters
    python run.py site          build the documentation site into out/site
    python run.py translations  check the catalogues of the languages; with --update add and remove entries
    python run.py clips         render the clips of docs/images/clips/ again; `clips NAME …` only some of them
    python run.py publish       make a release: zips, clips, site, check of the catalogues; with --slice only one zip
                                and a trial of one clip, chosen by the commit
    python run.py compare       run a scene under several dampings; write a table and plots

Options of `test`:
    --all           run the slow tests too
    --slice         run the quick tests and one eighth of the slow ones, chosen by the commit
    --with NAME     run all tests in the environment requirements/NAME.txt

All other arguments are passed on to the tool: `python run.py test tests/core -k dial`.
"""

from __future__ import annotations

import argparse
import hashlib
import os
import runpy
import subprocess
import sys
import tomllib
import venv
from pathlib import Path

ROOT = Path(__file__).resolve().parent
SUPPORTED = ((3, 11), (3, 13))
# Number of worker processes that share the tests.
WORKERS = 2
# Number of parts of the slow tests; each submission runs one of them.
SLICES = 8
# Folders of the tests: without and with Blender.
SIDES = ("core", "addon")
# Options of pytest whose value could be mistaken for a path.
OPTIONS_WITH_VALUE = ("-k", "-m", "--deselect", "--ignore")
# pytest's exit code if a selection contains no test.
NO_TESTS = 5
# Small matrix products run faster on a single thread. mkdocs would advertise its successor at each build.
VARIABLES = {"OPENBLAS_NUM_THREADS": "1", "NO_MKDOCS_2_WARNING": "1"}


def read_requirements(name: str) -> str:
    """Return the text of requirements/NAME.txt with the lists it includes."""
    lines = (ROOT / "requirements" / f"{name}.txt").read_text(encoding="utf-8").splitlines()
    return "\n".join(read_requirements(line[3:-4]) if line.startswith("-r ") else line for line in lines)


def environment(name: str) -> Path:
    """Return the Python of the environment for requirements/NAME.txt; create or update it first if needed."""
    folder = ROOT / f".venv-{name}-{sys.version_info[0]}.{sys.version_info[1]}"
    python = folder / ("Scripts/python.exe" if os.name == "nt" else "bin/python")
    digest, stamp = hashlib.sha256(read_requirements(name).encode()).hexdigest(), folder / "installed"
    if not stamp.exists() or stamp.read_text() != digest:
        print(f"Setting up {folder.name} …", flush=True)
        venv.create(folder, with_pip=True, clear=True)
        path = ROOT / "requirements" / f"{name}.txt"
        run(python, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", "-r", path)
        stamp.write_text(digest)
    return python


def run(*command: object) -> None:
    """Run a command in the root folder; exit with its code if it fails."""
    if code := exit_code(*command):
        sys.exit(code)


def exit_code(*command: object) -> int:
    parts = [str(part) for part in command]
    return subprocess.run(parts, cwd=ROOT, env={**VARIABLES, **os.environ}, check=False).returncode


def version() -> str:
    """Return the version of the add-on."""
    with (ROOT / "blender_manifest.toml").open("rb") as file:
        return str(tomllib.load(file)["version"])


def build_kernel() -> None:
    """Compile the kernel for this machine if its source has changed. Everything also works without it."""
    if runpy.run_path(str(ROOT / "tools" / "kernel.py"))["checkout_library"]().is_file():
        return
    try:
        run(environment("kernel"), "tools/kernel.py")
    except SystemExit:
        if os.environ.get("DAMPSIM_CI"):
            raise
        print("The kernel could not be compiled. numpy replaces it; cloth takes ten times as long.", flush=True)


def install_readers() -> None:
    """Install the readers of exported files. Their tests are skipped where they cannot be installed."""
    try:
        environment("readers")
    except SystemExit:
        if os.environ.get("DAMPSIM_CI"):
            raise
        print("The readers of exported files could not be installed; their tests are skipped.", flush=True)


def as_test_path(argument: str) -> str:
    """Return a pytest argument as a path relative to the root, `tests/…`, or '' if it is not a test path."""
    name, colons, node = argument.partition("::")
    path = (ROOT / name).resolve()
    is_path = not argument.startswith("-") and path.exists() and path.is_relative_to(ROOT / "tests")
    return path.relative_to(ROOT).as_posix() + colons + node if is_path else ""


def commit_number() -> int:
    """Return a number from the name of the current commit, which chooses the parts that a submission runs."""
    commit = subprocess.run(["git", "rev-parse", "HEAD"], cwd=ROOT, capture_output=True, text=True, check=True)
    return int(commit.stdout[:8], 16)


def slice_of_commit() -> str:
    """Return the part of the slow tests that belongs to the current commit, as K/N."""
    return f"{commit_number() % SLICES}/{SLICES}"


def halves_of_slice() -> tuple[str, str]:
    """Return two slices that are the halves of that of the current commit, as K/2N."""
    number = commit_number()
    return f"{number % (2 * SLICES)}/{2 * SLICES}", f"{(number + SLICES) % (2 * SLICES)}/{2 * SLICES}"


def select_tests(arguments: list[str]) -> tuple[list[str], list[str]]:
    """Return the options for pytest and the chosen test paths.

    Without --all and --slice the slow tests are left out, unless paths or -m choose tests explicitly.
    """
    options, paths = list[str](), list[str]()
    sides = [argument for argument in arguments if argument in SIDES]
    arguments = [argument for argument in arguments if argument not in SIDES]
    for previous, argument in zip(["", *arguments], arguments, strict=False):
        if argument in ("--all", "--slice"):
            continue
        if previous not in OPTIONS_WITH_VALUE and (path := as_test_path(argument)):
            paths.append(path)
        else:
            options.append(argument)
    if "--slice" in arguments:
        options.append(f"--slice={slice_of_commit()}")
    elif "--all" not in arguments and not paths and "-m" not in arguments:
        options += ["-m", "not slow"]
    return options, paths or [f"tests/{side}" for side in sides or SIDES]


def run_tests(requirements: str | None, arguments: list[str]) -> None:
    """Run the core's tests in an environment without Blender, all others in Blender's."""
    options, paths = select_tests(arguments)
    if "tests" in paths:
        paths = [f"tests/{side}" for side in SIDES]
    core = [path for path in paths if f"{path}/".startswith("tests/core/")]
    addon = [path for path in paths if path not in core]
    if addon:
        install_readers()
    codes = [
        # Each module stays in one process: its tests share what is expensive to prepare.
        exit_code(
            environment(requirements or name), "-m", "pytest", f"-n{WORKERS}", "--dist=loadfile", *options, *chosen
        )
        for name, chosen in (("core", core), ("bpy", addon))
        if chosen
    ]
    # A selection such as -k may leave one side without tests, but not both.
    failed = [code for code in codes if code not in (0, NO_TESTS)]
    if failed or 0 not in codes:
        sys.exit((failed or codes)[0])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument(
        "task", choices=["demo", "test", "lint", "docs", "site", "clips", "compare", "translations", "publish"]
    )
    parser.add_argument("--with", dest="requirements", metavar="NAME", help="run all tests in this environment")
    options, rest = parser.parse_known_args()
    if sys.version_info[:2] not in SUPPORTED:
        versions = " or ".join(f"{a}.{b}" for a, b in SUPPORTED)
        sys.exit(f"DampSim's tools need Python {versions}; this is {sys.version_info[0]}.{sys.version_info[1]}.")
    only_parameters = options.task == "docs" and rest == ["--parameters"]
    if options.task not in ("lint", "site") and not only_parameters:
        build_kernel()
    if options.task == "demo":
        run(environment("bpy"), "tools/demo.py", *rest)
    elif options.task == "test":
        run_tests(options.requirements, rest)
    elif options.task == "translations":
        run(environment("bpy"), "tools/translations.py", *rest)
    elif options.task == "clips":
        run(environment("bpy"), "tools/clips.py", *rest)
    elif options.task == "publish":
        run(sys.executable, "tools/publish.py", *rest)
    elif options.task == "compare":
        run(environment("core"), "tools/compare.py", *rest)
    elif options.task == "site":
        # The header of each page names the version that the site describes.
        os.environ["DAMPSIM_SITE"] = f"DampSim {version()}"
        run(environment("site"), "-m", "mkdocs", "build", "--strict", "--site-dir", "out/site", *rest)
    elif only_parameters:
        # Does not need the plotting libraries.
        run(environment("core"), "tools/parameters_page.py")
    elif options.task == "docs":
        # The page about the papers quotes the verdict of the shirt's page.
        run(environment("bpy"), "tools/shirt_page.py")
        run(environment("docs"), "tools/validate.py", *rest)
        run(environment("bpy"), "tools/samples_page.py")
    else:
        python = environment("lint")
        run(python, "-m", "ruff", "check", ".")
        run(python, "-m", "ruff", "format", "--check", ".")
        run(python, "tools/check_package.py")


if __name__ == "__main__":
    main()
