"""DampSim's task runner: makes a private environment from requirements/ and calls the real tools in it.

    python run.py demo          bake the sample creature without a window; pictures and files go to out/
    python run.py test          run all tests
    python run.py lint          style and types
    python run.py docs          make the tables and plots of docs/ anew
    python run.py compare       run a scene under several dampings; table and plots

Everything behind the name goes on to the tool: `python run.py test tests/core -k dial`.
"""

from __future__ import annotations

import argparse
import hashlib
import os
import subprocess
import sys
import tempfile
import venv
from pathlib import Path

ROOT = Path(__file__).resolve().parent
SUPPORTED = ((3, 11), (3, 13))
# Goes with the core's tests, so that both runs take about as long.
FAULTS = "tests/addon/test_faults.py"
# One thread for each product of small matrices: more only wait for each other.
SETTINGS = {"OPENBLAS_NUM_THREADS": "1", "PYTHONDONTWRITEBYTECODE": "1"}


def environment(requirements: str) -> Path:
    """The Python of an environment with these requirements, made or brought up to date where needed."""
    folder = ROOT / f".venv-{requirements}-{sys.version_info[0]}.{sys.version_info[1]}"
    python = folder / ("Scripts/python.exe" if os.name == "nt" else "bin/python")
    texts = b"".join(path.read_bytes() for path in sorted((ROOT / "requirements").glob("*.txt")))
    mark, stamp = hashlib.sha256(texts).hexdigest(), folder / "installed"
    if not stamp.exists() or stamp.read_text() != mark:
        print(f"Setting up {folder.name} …", flush=True)
        venv.create(folder, with_pip=True, clear=True)
        listed = ROOT / "requirements" / f"{requirements}.txt"
        call(python, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", "-r", listed)
        stamp.write_text(mark)
    return python


def call(*command: object) -> None:
    done = subprocess.run([str(part) for part in command], cwd=ROOT, env={**SETTINGS, **os.environ}, check=False)
    if done.returncode:
        sys.exit(done.returncode)


def test(python: Path, rest: list[str]) -> None:
    """All tests as two runs side by side, which is what two cores are for; chosen ones as they are chosen."""
    if any(not part.startswith("-") for part in rest):
        call(python, "-m", "pytest", *rest)
        return
    command = [str(python), "-m", "pytest", *rest]
    with tempfile.TemporaryFile("w+", encoding="utf-8") as said:
        addon = subprocess.Popen(
            [*command, "tests/addon", f"--ignore={FAULTS}"],
            cwd=ROOT,
            env={**SETTINGS, **os.environ},
            stdout=said,
            stderr=subprocess.STDOUT,
        )
        core = subprocess.run([*command, "tests/core", FAULTS], cwd=ROOT, env={**SETTINGS, **os.environ}, check=False)
        addon.wait()
        said.seek(0)
        print(said.read(), flush=True)
    if core.returncode or addon.returncode:
        sys.exit(core.returncode or addon.returncode)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("task", choices=["demo", "test", "lint", "docs", "compare"])
    parser.add_argument(
        "--with", dest="requirements", metavar="NAME", help="another list of requirements/ for the tests"
    )
    options, rest = parser.parse_known_args()
    if sys.version_info[:2] not in SUPPORTED:
        versions = " or ".join(f"{a}.{b}" for a, b in SUPPORTED)
        sys.exit(f"DampSim's tools need Python {versions}; this is {sys.version_info[0]}.{sys.version_info[1]}.")
    if options.task == "demo":
        call(environment("bpy"), "tools/demo.py", *rest)
    elif options.task == "test":
        test(environment(options.requirements or "bpy"), rest)
    elif options.task == "compare":
        call(environment("core"), "tools/compare.py", *rest)
    elif options.task == "docs":
        call(environment("docs"), "tools/validate.py", *rest)
    else:
        python = environment("lint")
        call(python, "-m", "ruff", "check", ".")
        call(python, "-m", "ruff", "format", "--check", ".")
        call(python, "tools/check_types.py")


if __name__ == "__main__":
    main()
