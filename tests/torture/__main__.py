"""`python -m tests.torture`: one run on a private server; exits 0 only if every claim holds."""

from __future__ import annotations

import argparse
import json
import secrets
import shutil
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path

from tests.support.galera import Cluster
from tests.support.server import PrivateServer

from . import summary
from .failover import FailoverTarget
from .plan import Plan
from .run import Run
from .target import DURABLE, ServerTarget, Target

# A failover is fault enough; loops that die beside it show that they find the way to the new writer by themselves.
GENTLE = {"kill_mean": 2.0, "stop_mean": 0.0, "cut_mean": 0.0}


def main() -> int:
    options = parse()
    plan = Plan(
        seconds=options.seconds,
        events=options.events,
        seed=secrets.randbelow(10**6) if options.seed is None else options.seed,
        database_kills=options.database_kills,
        converge_seconds=options.converge,
        **(GENTLE if options.galera else {}),
    )
    folder = Path(tempfile.mkdtemp(prefix="webhookhub-torture-"))
    print(f"Tormenting for {plan.seconds:g} s with seed {plan.seed}; logs in {folder}", flush=True)  # noqa: T201
    with database(options) as (target, url, version):
        figures, verdicts = Run(plan, folder, target, url).go()
    figures = {"server": version, **figures}
    print("\n" + summary.text(figures, verdicts), flush=True)  # noqa: T201
    if options.json:
        document = {"figures": figures, "verdicts": [asdict(verdict) for verdict in verdicts]}
        options.json.write_text(json.dumps(document, indent=2))
    refuted = any(verdict.found for verdict in verdicts)
    if refuted or options.keep:
        print(f"\nKept: {folder}")  # noqa: T201
    else:
        shutil.rmtree(folder)
    return int(refuted)


@contextmanager
def database(options: argparse.Namespace) -> Iterator[tuple[Target, str, str]]:
    if options.galera:
        with Cluster() as cluster, FailoverTarget(cluster) as moving:
            yield moving, moving.url, f"{len(cluster.nodes)} nodes of {cluster.nodes[0].version}"
    else:
        with PrivateServer(DURABLE, program=options.server) as server:
            yield ServerTarget(server), server.url(), server.version


def parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tests.torture", description=__doc__)
    parser.add_argument("--seconds", type=float, default=Plan.seconds, help="how long faults are injected (90)")
    parser.add_argument("--events", type=int, default=Plan.events, help="events published in that time (2000)")
    parser.add_argument("--seed", type=int, help="of the dice; random unless given")
    parser.add_argument("--database-kills", type=int, default=Plan.database_kills, metavar="N", help="(3)")
    parser.add_argument("--converge", type=float, default=Plan.converge_seconds, metavar="SECONDS", help="(120)")
    parser.add_argument("--server", metavar="PROGRAM", help="mariadbd or mysqld to run; found by itself unless given")
    parser.add_argument("--galera", action="store_true", help="a cluster of three, whose writer is killed")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the summary there, too")
    parser.add_argument("--keep", action="store_true", help="keep the logs although every claim holds")
    return parser.parse_args()


if __name__ == "__main__":
    sys.exit(main())
