"""`python -m tools.torture`: injects faults into a hub on a private server; exits 0 only if every claim holds."""

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

from tools.support.database_server import NoServer, PrivateServer
from tools.support.galera import Cluster

from . import summary
from .cluster_database import ClusterDatabase
from .config import Config
from .database import DURABLE, FORGETFUL, Database, ServerDatabase
from .run import Run

NO_SERVER = 69
DISK = Path("/var/tmp")
# Fewer other faults during failovers; killed loops must find the new writer.
FEWER_FAULTS = {"kill_mean": 2.0, "stop_mean": 0.0, "cut_mean": 0.0}


def main() -> int:
    # Exit by an exception, so that the private server is stopped.
    signal.signal(signal.SIGTERM, lambda number, frame: sys.exit(128 + number))
    options = parse()
    config = Config(
        seconds=options.seconds,
        events=options.events,
        seed=secrets.randbelow(10**6) if options.seed is None else options.seed,
        database_kills=options.database_kills,
        converge_seconds=options.converge,
        one_process=options.one_process,
        **(FEWER_FAULTS if options.galera else {}),
    )
    folder = options.logs or Path(tempfile.mkdtemp(prefix="webhookhub-torture-"))
    folder.mkdir(parents=True, exist_ok=True)
    print(f"Injecting faults for {config.seconds:g} s with seed {config.seed}; logs in {folder}", flush=True)
    try:
        with start_database(options) as (database, url, version):
            stats, verdicts = Run(config, folder, database, url).go()
    except NoServer as reason:
        print(f"No database server: {reason}", file=sys.stderr)
        return NO_SERVER
    stats = {"server": version, **stats}
    print("\n" + summary.text(stats, verdicts), flush=True)
    if options.json:
        document = {"stats": stats, "verdicts": [asdict(verdict) for verdict in verdicts]}
        options.json.write_text(json.dumps(document, indent=2))
    refuted = any(verdict.violations for verdict in verdicts)
    if refuted or options.logs:
        print(f"\nLogs: {folder}")
    else:
        shutil.rmtree(folder)
    return int(refuted)


@contextmanager
def start_database(options: argparse.Namespace) -> Iterator[tuple[Database, str, str]]:
    if options.galera:
        with Cluster() as cluster, ClusterDatabase(cluster) as database:
            yield database, database.url, f"{len(cluster.nodes)} nodes of {cluster.nodes[0].version}"
    else:
        # On a disk: a server in memory would lose no commits.
        settings = {"options": FORGETFUL, "parent": DISK} if options.forgetful else {"options": DURABLE}
        with PrivateServer(program=options.server, **settings) as server:
            yield ServerDatabase(server), server.url(), server.version


def parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tools.torture", description=__doc__)
    parser.add_argument(
        "--seconds", type=number(float, 1), default=Config.seconds, help="duration of the fault injection (90)"
    )
    parser.add_argument(
        "--events", type=number(int, 8), default=Config.events, help="events published in that time (2000)"
    )
    parser.add_argument("--seed", type=int, help="seed of the random faults (random)")
    parser.add_argument("--database-kills", type=number(int, 0), default=Config.database_kills, metavar="N", help="(3)")
    parser.add_argument(
        "--converge", type=number(float, 1), default=Config.converge_seconds, metavar="SECONDS", help="(120)"
    )
    parser.add_argument("--one-process", action="store_true", help="run all steps in each process, as run_hub does")
    parser.add_argument("--server", metavar="PROGRAM", help="mariadbd or mysqld (default: the first one found)")
    parser.add_argument(
        "--forgetful", action="store_true", help="run a server that loses commits, which the run must detect"
    )
    parser.add_argument("--galera", action="store_true", help="run a cluster of three nodes and kill the writer")
    parser.add_argument("--json", type=Path, metavar="FILE", help="also write the summary to this file")
    parser.add_argument(
        "--logs",
        type=empty_folder,
        metavar="FOLDER",
        help="keep all logs in this folder (default: keep only the logs of a failed run)",
    )
    return parser.parse_args()


def empty_folder(text: str) -> Path:
    """An empty folder, because logs of an earlier run would be checked with this one."""
    path = Path(text)
    if path.exists() and (not path.is_dir() or any(path.iterdir())):
        raise argparse.ArgumentTypeError(f"{text!r} is not an empty folder")
    return path


def number(kind: Callable[[str], float], minimum: float) -> Callable[[str], float]:
    def parse(text: str) -> float:
        try:
            value = kind(text)
        except ValueError:
            value = minimum - 1
        if value < minimum:
            raise argparse.ArgumentTypeError(f"{text!r} is not a number of at least {minimum}")
        return value

    return parse


if __name__ == "__main__":
    sys.exit(main())
