"""`python -m tools.torture`: one run on a private server; exits 0 only if every claim holds."""

from __future__ import annotations

import argparse
import json
import secrets
import shutil
import signal
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path

from tests.support.galera import Cluster
from tests.support.server import NoServer, PrivateServer

from . import summary
from .failover import FailoverTarget
from .plan import Plan
from .run import Run
from .target import DURABLE, FORGETFUL, ServerTarget, Target

NOTHING_TO_TORMENT = 69
DISK = Path("/var/tmp")
# A failover is fault enough; loops that die beside it show that they find the way to the new writer by themselves.
GENTLE = {"kill_mean": 2.0, "stop_mean": 0.0, "cut_mean": 0.0}


def main() -> int:
    # Asked to end, it takes its server along.
    signal.signal(signal.SIGTERM, lambda number, frame: sys.exit(128 + number))
    options = parse()
    plan = Plan(
        seconds=options.seconds,
        events=options.events,
        seed=secrets.randbelow(10**6) if options.seed is None else options.seed,
        database_kills=options.database_kills,
        converge_seconds=options.converge,
        **(GENTLE if options.galera else {}),
    )
    folder = options.logs or Path(tempfile.mkdtemp(prefix="webhookhub-torture-"))
    folder.mkdir(parents=True, exist_ok=True)
    print(f"Tormenting for {plan.seconds:g} s with seed {plan.seed}; logs in {folder}", flush=True)
    try:
        with database(options) as (target, url, version):
            figures, verdicts = Run(plan, folder, target, url).go()
    except NoServer as reason:
        print(f"There is nothing to torment: {reason}", file=sys.stderr)
        return NOTHING_TO_TORMENT
    figures = {"server": version, **figures}
    print("\n" + summary.text(figures, verdicts), flush=True)
    if options.json:
        document = {"figures": figures, "verdicts": [asdict(verdict) for verdict in verdicts]}
        options.json.write_text(json.dumps(document, indent=2))
    refuted = any(verdict.found for verdict in verdicts)
    if refuted or options.logs:
        print(f"\nKept: {folder}")
    else:
        shutil.rmtree(folder)
    return int(refuted)


@contextmanager
def database(options: argparse.Namespace) -> Iterator[tuple[Target, str, str]]:
    if options.galera:
        with Cluster() as cluster, FailoverTarget(cluster) as moving:
            yield moving, moving.url, f"{len(cluster.nodes)} nodes of {cluster.nodes[0].version}"
    else:
        # In memory, MariaDB would lose no commit.
        settings = {"options": FORGETFUL, "parent": DISK} if options.forgetful else {"options": DURABLE}
        with PrivateServer(program=options.server, **settings) as server:
            yield ServerTarget(server), server.url(), server.version


def parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tools.torture", description=__doc__)
    parser.add_argument(
        "--seconds", type=number(float, 1), default=Plan.seconds, help="how long faults are injected (90)"
    )
    parser.add_argument(
        "--events", type=number(int, 8), default=Plan.events, help="events published in that time (2000)"
    )
    parser.add_argument("--seed", type=int, help="of the dice; random unless given")
    parser.add_argument("--database-kills", type=number(int, 0), default=Plan.database_kills, metavar="N", help="(3)")
    parser.add_argument(
        "--converge", type=number(float, 1), default=Plan.converge_seconds, metavar="SECONDS", help="(120)"
    )
    parser.add_argument("--server", metavar="PROGRAM", help="mariadbd or mysqld to run; found by itself unless given")
    parser.add_argument("--forgetful", action="store_true", help="a server that loses commits: must be found out")
    parser.add_argument("--galera", action="store_true", help="a cluster of three, whose writer is killed")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the summary there, too")
    parser.add_argument(
        "--logs",
        type=empty_folder,
        metavar="FOLDER",
        help="keep all logs there; otherwise only those of a refuted run are kept",
    )
    return parser.parse_args()


def empty_folder(text: str) -> Path:
    """What an earlier run has left there would be judged with this one."""
    path = Path(text)
    if path.exists() and (not path.is_dir() or any(path.iterdir())):
        raise argparse.ArgumentTypeError(f"{text!r} is not an empty folder")
    return path


def number(kind: Callable[[str], float], least: float) -> Callable[[str], float]:
    def parse(text: str) -> float:
        try:
            value = kind(text)
        except ValueError:
            value = least - 1
        if value < least:
            raise argparse.ArgumentTypeError(f"{text!r} is not a number from {least} on")
        return value

    return parse


if __name__ == "__main__":
    sys.exit(main())
