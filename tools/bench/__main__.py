"""`python -m tools.bench [SCENARIO …]`: measures the hub on this machine, beside its lower limit and beside Celery.

It starts everything that it needs on loopback and in temporary folders, and removes it at the end.
"""

from __future__ import annotations

import argparse
import json
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

from tools.bench import machine, plots, profiler
from tools.bench.context import FULL, QUICK, Context, Options
from tools.bench.installation import Checkout
from tools.bench.results import Result, table
from tools.bench.scenarios import DEFAULT, NAMES, THROUGH_API, endtoend, isolation, run
from tools.demo import signals


def main() -> int:
    options = parse()
    signals.install()
    description = machine.describe()
    print(machine.as_text(description), flush=True)
    results: list[Result] = []
    sizes = QUICK if options.quick else FULL
    if options.silence is not None:
        sizes = replace(sizes, silence_seconds=options.silence)
    if options.waiting is not None:
        sizes = sizes.with_waiting(options.waiting)
    chosen = Options(
        sizes,
        options.mysqld,
        options.profile,
        options.database_url,
        tuple(options.compare),
        tuple(options.stored),
        options.rounds,
        tuple(options.parts),
        options.workers,
    )
    with Context(chosen, options.minutes) as context:
        for result in run(context, options.scenarios):
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
    parser.add_argument(
        "scenarios",
        nargs="*",
        metavar="SCENARIO",
        help=f"some of: {', '.join(NAMES)} (all but isolation and triggers)",
    )
    parser.add_argument("--quick", action="store_true", help="small sizes and one run each, to see whether it works")
    parser.add_argument("--minutes", type=float, default=12.0, help="time limit; further runs are skipped (12)")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write all results to this file")
    parser.add_argument("--plots", type=Path, metavar="FOLDER", help="write plots as PNG files to this folder")
    parser.add_argument("--mysqld", metavar="PROGRAM", help="the server to start (mariadbd, or else mysqld)")
    parser.add_argument(
        "--profile", type=Path, metavar="FOLDER", help="profile the loops' CPU time; write the samples to this folder"
    )
    parser.add_argument(
        "--database-url", metavar="URL", help="a running server instead of a private one; the database must not exist"
    )
    parts = f"of endtoend: {', '.join(endtoend.NAMES)} (all); of isolation: {', '.join(isolation.NAMES)} (all)"
    parser.add_argument("--parts", nargs="+", default=[], metavar="PART", help=parts)
    parser.add_argument("--waiting", type=int, metavar="N", help="of isolation: deliveries that wait (300000)")
    _add_options_of_the_api(parser)
    options = parser.parse_args()
    _check(parser, options)
    options.scenarios = options.scenarios or (THROUGH_API if options.compare else DEFAULT)
    return options


def _add_options_of_the_api(parser: argparse.ArgumentParser) -> None:
    group = parser.add_argument_group(" and ".join(THROUGH_API))
    group.add_argument(
        "--compare",
        nargs="+",
        type=Path,
        default=[],
        metavar="CHECKOUT",
        help="measure these checkouts in turns, each with its own .venv, and compare them with the first",
    )
    group.add_argument(
        "--stored",
        nargs="+",
        type=int,
        default=[0],
        metavar="N",
        help="finished deliveries in the tables; several numbers are measured in turns and compared (0)",
    )
    group.add_argument("--rounds", type=int, metavar="N", help="measure all in turns this many times (1; compared: 2)")
    group.add_argument("--workers", type=int, default=1, metavar="N", help="passed to run_hub (1)")
    group.add_argument("--silence", type=float, metavar="SECONDS", help="the pause of after_silence (10)")


def _parts(options: argparse.Namespace) -> tuple[str, ...]:
    return isolation.NAMES if list(options.scenarios) == ["isolation"] else endtoend.NAMES


def _check(parser: argparse.ArgumentParser, options: argparse.Namespace) -> None:
    for kind, names, known in (("scenario", options.scenarios, NAMES), ("part", options.parts, _parts(options))):
        if unknown := [name for name in names if name not in known]:
            parser.error(f"unknown {kind} {unknown[0]!r}; choose from {', '.join(known)}")
    if options.minutes <= 0:
        parser.error("--minutes must be above 0")
    if options.waiting is not None and options.waiting < 1:
        parser.error("--waiting must be at least 1")
    if options.rounds is not None and options.rounds < 1:
        parser.error("--rounds must be at least 1")
    for folder in options.compare:
        python = Path(Checkout(folder).python)
        if not ((folder / "manage.py").exists() and python.exists()):
            parser.error(f"{folder} is not a checkout with its own .venv: run `make setup` there")
    if options.compare and not {*options.scenarios} <= {*THROUGH_API}:
        parser.error(f"--compare is for {' and '.join(THROUGH_API)} only")


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
