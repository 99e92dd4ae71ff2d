"""Command caches: list or remove caches whose .blend file no longer exists."""

from __future__ import annotations

import argparse
import sys
import time
from dataclasses import asdict
from typing import Any

from ...core import CacheError
from ...core.base.wording import format_bytes
from ..jobs.clear import remove_unused_cache, unused_caches
from .bake_commands import Report


def add_to(commands: Any) -> None:
    """Add the command to the parser."""
    caches = commands.add_parser(
        "caches", help="list caches in DampSim's default folder whose .blend file no longer exists"
    )
    caches.add_argument("--remove", action="store_true", help="remove these caches")
    caches.add_argument("--report", metavar="FILE", help="write a JSON report to this file")
    caches.set_defaults(run=run_caches)


def run_caches(options: argparse.Namespace) -> Report:
    """Run the command caches."""
    entries, is_complete = [], True
    for one in unused_caches():
        last_write = time.strftime("%Y-%m-%d", time.localtime(one.used))
        print(f"dampsim: {one.folder}: {format_bytes(one.size)}, last used {last_write}, {one.why}", flush=True)
        problem = ""
        if options.remove:
            try:
                remove_unused_cache(one)
            except CacheError as error:
                problem, is_complete = str(error), False
                print(f"dampsim: {problem}", file=sys.stderr, flush=True)
        entries.append({**asdict(one), "removed": options.remove and not problem, "problem": problem})
    total = format_bytes(sum(entry["size"] for entry in entries))
    print(f"dampsim: unused caches: {len(entries)}, {total}" + (", removed" if options.remove and is_complete else ""))
    return is_complete, entries
