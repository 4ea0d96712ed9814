"""`make test-all`: all tests in lanes, with a summary table at the end.

make test-all LANES="torture partitions"
"""

from __future__ import annotations

import argparse
import os
import re
import subprocess
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from tests.support import suite
from tests.support.engines import MARIADB, MYSQL, SQLITE, database_on
from tests.support.scratch import scratch
from tools.support.database_server import NoServer

ROOT = Path(__file__).resolve().parents[2]
LOGS = ROOT / "var" / "test-all"
COUNTS = re.compile(r"(\d+) (passed|failed|skipped|errors?)\b")
PASSED, FAILED, NOT_RUN = "passed", "FAILED", "not run"
MINUTES = 90  # for all lanes together


@dataclass(frozen=True)
class Lane:
    name: str
    engine: str
    tests: tuple[str, ...]
    minutes: int
    about: str
    workers: int | None = None
    environment: tuple[tuple[str, str], ...] = ()


LANES = (
    Lane("sqlite", SQLITE, ("tests",), 8, "the whole default suite on SQLite"),
    Lane("mariadb", MARIADB, ("tests",), 8, "the whole default suite on MariaDB"),
    Lane("mysql", MYSQL, ("tests",), 9, "the whole default suite on the MySQL server of TEST_MYSQL_URL"),
    Lane(
        "model",
        SQLITE,
        ("tests/nightly/model", "tests/conformance/machine"),
        4,
        "every order of statements and crashes in a model; 500 examples of the state machine",
        environment=(("MACHINE_EXAMPLES", "500"),),
    ),
    Lane("torture", SQLITE, ("tests/nightly/torture",), 5, "90 seconds of random kills", workers=1),
    Lane("outages", MARIADB, ("tests/nightly/outages",), 4, "servers that crash, hang or refuse writes"),
    Lane(
        "partitions",
        SQLITE,
        ("tests/nightly/partitions",),
        14,
        "hosts in network namespaces that are cut off from each other (needs root, nftables)",
        workers=1,
    ),
    Lane("failover-galera", SQLITE, ("tests/nightly/galera",), 5, "kills of the writing node of a cluster", workers=1),
    Lane(
        "failover-mysql",
        SQLITE,
        ("tests/nightly/failover_mysql",),
        12,
        "a group of three MySQL servers behind HAProxy (needs root, haproxy, MySQL in TEST_MYSQL_ROOT)",
        workers=1,
    ),
    Lane("cells", SQLITE, ("tests/nightly/cells",), 5, "two hubs on two servers, one of which is killed", workers=1),
    Lane(
        "soak", SQLITE, ("tests/nightly/soak",), 75, "ten minutes, or SOAK_SECONDS, with database restarts", workers=1
    ),
    Lane("mutants", MARIADB, ("tests/nightly/mutants",), 15, "each guard removed in turn"),
    Lane("fuzz", MARIADB, ("tests/nightly/fuzz",), 4, "generated requests to the API"),
    Lane("rows", MARIADB, ("tests/nightly/rows",), 6, "hostile values in every column that a role can write"),
    Lane("pages", MARIADB, ("tests/nightly/pages",), 4, "every page of the console in the browser"),
    Lane("scale", MARIADB, ("tests/nightly/scale",), 4, "thousands of rows: memory of the audit, bulk requeue"),
    Lane(
        "upgrade",
        SQLITE,
        ("tests/nightly/upgrade",),
        6,
        "the previous release beside this version, on MariaDB and the MySQL server of TEST_MYSQL_URL",
        workers=1,
    ),
    Lane("packaging", SQLITE, ("tests/nightly/packaging",), 4, "both wheels, each in an empty environment", workers=1),
    Lane("demo", SQLITE, ("tests/nightly/demo",), 4, "`make run`, `make demo` and `make demo-workflows`"),
    Lane("receivers", SQLITE, ("tests/nightly/receivers",), 4, "receivers of docs/receivers.md that need a download"),
    Lane(
        "deploy",
        SQLITE,
        ("tests/nightly/deploy",),
        20,
        "deploy/: image in a bare Debian, units, chart, proxies, rules (needs root, debootstrap, Go, nginx, haproxy)",
        workers=1,
    ),
    Lane("bench", MARIADB, ("tests/nightly/bench",), 6, "the benchmarks with small sizes"),
)


@dataclass(frozen=True)
class Result:
    lane: Lane
    outcome: str
    seconds: float
    detail: str


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.nightly", description=__doc__)
    names = [lane.name for lane in LANES]
    parser.add_argument("lanes", nargs="*", metavar="lane", help=f"some of: {', '.join(names)} (all)")
    wanted = parser.parse_args().lanes
    if unknown := set(wanted) - set(names):
        parser.error(f"unknown lane {', '.join(sorted(unknown))}; choose from {', '.join(names)}")
    end = time.monotonic() + 60 * MINUTES
    with scratch():
        results = [run(lane, end) for lane in LANES if not wanted or lane.name in wanted]
    print(table(results), flush=True)  # noqa: T201
    return int(any(result.outcome == FAILED for result in results))


def run(lane: Lane, end: float) -> Result:
    """Runs one lane, at most for its own minutes and for the rest of the total time."""
    print(f"\n== {lane.name}: {lane.about} ==", flush=True)  # noqa: T201
    started = time.monotonic()
    seconds = min(60 * lane.minutes, end - started)
    if seconds < 1:
        return Result(lane, FAILED, 0, f"`make test-all` has used its {MINUTES} minutes")
    try:
        with database_on(lane.engine) as url:
            outcome, detail = _run_pytest(lane, url, seconds)
    except NoServer as reason:
        outcome, detail = NOT_RUN, str(reason)
    return Result(lane, outcome, time.monotonic() - started, detail)


def _run_pytest(lane: Lane, url: str, seconds: float) -> tuple[str, str]:
    """Copies the output to the terminal and to a file. Returns the outcome and pytest's counts."""
    LOGS.mkdir(parents=True, exist_ok=True)
    log = LOGS / f"{lane.name}.log"
    command = ["timeout", "--kill-after=20", f"{seconds:.0f}s", *suite.command(lane.tests, lane.workers)]
    with log.open("wb") as file:
        environment = suite.environment(lane.engine, url) | dict(lane.environment)
        process = subprocess.Popen(command, cwd=ROOT, env=environment, stdout=subprocess.PIPE)
        assert process.stdout is not None
        # In parts, not lines: a line of dots shows the progress.
        while part := os.read(process.stdout.fileno(), 4096):
            sys.stdout.buffer.write(part)
            sys.stdout.buffer.flush()
            file.write(part)
    code = process.wait()
    last = log.read_text(errors="replace").rstrip().rpartition("\n")[2]
    counts = ", ".join(f"{count} {what}" for count, what in COUNTS.findall(last))
    if code == 124:
        return FAILED, f"took longer than {seconds / 60:.1f} minutes; see {log.relative_to(ROOT)}"
    if not code and "passed" not in counts:
        return NOT_RUN, counts
    if code:
        return FAILED, f"{counts or f'pytest exited with {code}'}; see {log.relative_to(ROOT)}"
    return PASSED, counts


def table(results: Sequence[Result]) -> str:
    rows = [("lane", "engine", "outcome", "minutes", "")]
    for result in results:
        minutes = f"{result.seconds / 60:.1f}"
        rows.append((result.lane.name, result.lane.engine, result.outcome, minutes, result.detail))
    widths = [max(len(row[column]) for row in rows) for column in range(4)]
    lines = ["  ".join([*map(str.ljust, row[:4], widths), row[4]]).rstrip() for row in rows]
    total = sum(result.seconds for result in results) / 60
    failed = sum(result.outcome == FAILED for result in results)
    passed = sum(result.outcome == PASSED for result in results)
    return "\n".join(["", *lines, f"{passed} lanes passed, {failed} failed in {total:.1f} minutes"])


if __name__ == "__main__":
    sys.exit(main())
