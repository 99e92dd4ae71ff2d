"""caches: which ones no file needs any more."""

from __future__ import annotations

import argparse
import sys
import time
from dataclasses import asdict
from typing import Any

from ...core.errors import CacheError
from ..jobs.unused import remove, unused
from .baking import Report


def add_to(commands: Any) -> None:
    caches = commands.add_parser("caches", help="list caches in DampSim's own folder whose file is gone")
    caches.add_argument("--remove", action="store_true", help="and remove them")
    caches.add_argument("--report", metavar="FILE", help="write what was found there, as JSON")
    caches.set_defaults(run=run_caches)


def run_caches(options: argparse.Namespace) -> Report:
    entries, whole = [], True
    for one in unused():
        used = time.strftime("%Y-%m-%d", time.localtime(one.used))
        print(f"dampsim: {one.folder}: {one.size / 1e6:.3g} MB, last used {used}, {one.why}", flush=True)
        problem = ""
        if options.remove:
            try:
                remove(one)
            except CacheError as error:
                problem, whole = str(error), False
                print(f"dampsim: {problem}", file=sys.stderr, flush=True)
        entries.append({**asdict(one), "removed": options.remove and not problem, "problem": problem})
    total = sum(entry["size"] for entry in entries) / 1e6
    print(f"dampsim: {len(entries)} unused caches, {total:.3g} MB" + (", removed" if options.remove and whole else ""))
    return whole, entries
