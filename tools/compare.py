"""Compare dampings on a scene, without Blender: python run.py compare --output FOLDER"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT / "tests"))
import conftest  # noqa: E402, F401  (loads the checkout as the package dampsim)
from dampsim.core.base.errors import DampSimError  # noqa: E402
from dampsim.core.literature.papers import compare  # noqa: E402


def main() -> int:
    parser = argparse.ArgumentParser(prog="run.py compare", description=compare.__doc__)
    compare.add_arguments(parser)
    options = parser.parse_args()
    try:
        compare.run_comparison(options)
    except DampSimError as error:
        print(error, file=sys.stderr)
        return 1
    print(f"Results: {Path(options.output).resolve()}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
