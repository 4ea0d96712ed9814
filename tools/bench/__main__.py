"""`python -m tools.bench [SCENARIO …]`: measures the hub on this machine, beside its lower limit and beside Celery.

It starts everything that it needs on loopback and in temporary folders, and removes it at the end.
"""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path
from typing import Any

from tools.bench import machine, plots, profiler
from tools.bench.context import FULL, QUICK, Context, Options
from tools.bench.results import Result, table
from tools.bench.scenarios import NAMES, run
from tools.demo import signals


def main() -> int:
    options = parse()
    signals.install()
    description = machine.describe()
    print(machine.as_text(description), flush=True)
    results: list[Result] = []
    sizes = QUICK if options.quick else FULL
    with Context(Options(sizes, options.mysqld, options.profile), options.minutes) as context:
        for result in run(context, options.scenarios or NAMES):
            results.append(result)
            print(table([result]), flush=True)
        if context.has_server:
            description["server"] = context.server_version()
    description["seconds"] = round(context.elapsed, 1)
    server = f", on {description['server']}" if "server" in description else ""
    print(f"\n{description['seconds']:g} s in total{server}")
    if options.json:
        options.json.write_text(json.dumps(as_document(description, options.quick, results), indent=1) + "\n")
    if options.plots:
        print(plots.draw(results, options.plots))
    if options.profile:
        print(profiler.summary(options.profile))
    return int(any(result.failed for result in results))


def parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tools.bench", description=__doc__)
    parser.add_argument("scenarios", nargs="*", metavar="SCENARIO", help=f"some of: {', '.join(NAMES)} (all)")
    parser.add_argument("--quick", action="store_true", help="small sizes and one run each, to see whether it works")
    parser.add_argument("--minutes", type=float, default=10.0, help="time limit; further runs are skipped (10)")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write all results to this file")
    parser.add_argument("--plots", type=Path, metavar="FOLDER", help="write plots as PNG files to this folder")
    parser.add_argument("--mysqld", metavar="PROGRAM", help="the server to start (mariadbd, or else mysqld)")
    parser.add_argument(
        "--profile", type=Path, metavar="FOLDER", help="profile the loops' CPU time; write the samples to this folder"
    )
    options = parser.parse_args()
    unknown = [name for name in options.scenarios if name not in NAMES]
    if unknown:
        parser.error(f"unknown scenario {unknown[0]!r}; choose from {', '.join(NAMES)}")
    if options.minutes <= 0:
        parser.error("--minutes must be above 0")
    return options


def as_document(description: dict[str, Any], quick: bool, results: list[Result]) -> dict[str, Any]:
    return {
        "machine": description,
        "quick": quick,
        "scenarios": {
            result.name: {
                **result.data,
                "skipped": result.skipped or None,
                "targets": [vars(line) for line in result.lines if line.target],
            }
            for result in results
        },
    }


if __name__ == "__main__":
    sys.exit(main())
