"""One scrape of /metrics on a large database: its duration and its slowest statements.

DATABASE_URL names a scratch database on a server, which is created and dropped at the end.
"""

from __future__ import annotations

import argparse
import statistics
import time

from tools.bench.scratch_database import scratch_database
from tools.bench.seed_bulk import Sizes, seed


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tools.bench.metrics", description=__doc__)
    parser.add_argument("--sagas", type=int, default=1_000_000, help="number of stored deliveries")
    parser.add_argument("--rounds", type=int, default=20)
    options = parser.parse_args()
    with scratch_database():
        started = time.monotonic()
        seed(Sizes.mixed(options.sagas))
        print(f"filled with {options.sagas} deliveries in {time.monotonic() - started:.0f} s", flush=True)
        _scrape(options.rounds)
    return 0


def _scrape(rounds: int) -> None:
    from django.db import connection
    from django.test.utils import CaptureQueriesContext

    from webhookhub.stats import prometheus

    durations = []
    for _ in range(rounds):
        started = time.perf_counter()
        text = prometheus.text()
        durations.append((time.perf_counter() - started) * 1000)
    print(f"scrape: median {statistics.median(durations):.1f} ms, {min(durations):.1f} to {max(durations):.1f}")
    for line in text.decode().splitlines():
        if line.startswith(("webhookhub_deliveries{", "webhookhub_deliveries_due{", "webhookhub_jobs{")):
            print(f"  {line}")
    with CaptureQueriesContext(connection) as captured:
        prometheus.text()
    slowest = sorted(captured.captured_queries, key=lambda query: -float(query["time"]))[:3]
    for query in slowest:
        print(f"  {float(query['time']) * 1000:.0f} ms  {query['sql'][:150]}")


if __name__ == "__main__":
    raise SystemExit(main())
