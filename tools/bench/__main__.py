"""`python -m tools.bench [SCENARIO …]`: what the hub can do on this machine, beside its own floor and beside Celery.

Everything it needs it starts itself, on loopback and in scratch folders, and stops and removes at the end.
"""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path
from typing import Any

from tools.bench import machine, plots, profiles
from tools.bench.context import Context
from tools.bench.options import FULL, QUICK, Options
from tools.bench.result import Result, table
from tools.bench.scenarios import NAMES, run
from tools.demo import signals


def main() -> int:
    options = _options()
    signals.install()
    told = machine.about()
    print(machine.in_words(told), flush=True)
    results: list[Result] = []
    with Context(
        Options(QUICK if options.quick else FULL, options.mysqld, options.profile), options.minutes
    ) as context:
        for result in run(context, options.scenarios or NAMES):
            results.append(result)
            print(f"{table([result])}", flush=True)
        if context.has_server:
            told["server"] = context.server_version()
    told["seconds"] = round(context.elapsed, 1)
    print(f"\n{told['seconds']:g} s in all" + (f", on {told['server']}" if "server" in told else ""))
    if options.json:
        options.json.write_text(json.dumps(_document(told, options, results), indent=1) + "\n")
    if options.plots:
        print(plots.draw(results, options.plots))
    if options.profile:
        print(profiles.shown(options.profile))
    return int(any(result.wrong for result in results))


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tools.bench", description=__doc__)
    parser.add_argument("scenarios", nargs="*", metavar="SCENARIO", help=f"some of: {', '.join(NAMES)} (all)")
    parser.add_argument("--quick", action="store_true", help="small numbers, one run each: whether it works at all")
    parser.add_argument("--minutes", type=float, default=10.0, help="leave out what would take longer (10)")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write all figures there")
    parser.add_argument("--plots", type=Path, metavar="FOLDER", help="draw them as PNG files there")
    parser.add_argument("--mysqld", metavar="PROGRAM", help="the server to start (mariadbd, or else mysqld)")
    parser.add_argument(
        "--profile", type=Path, metavar="FOLDER", help="show where the loops spend their CPU, keep it there"
    )
    options = parser.parse_args()
    unknown = [name for name in options.scenarios if name not in NAMES]
    if unknown:
        parser.error(f"there is no scenario {unknown[0]!r}; there are {', '.join(NAMES)}")
    if options.minutes <= 0:
        parser.error("--minutes must be above 0")
    return options


def _document(told: dict[str, Any], options: argparse.Namespace, results: list[Result]) -> dict[str, Any]:
    return {
        "machine": told,
        "quick": options.quick,
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
