"""The cost of the counters: settles batches of results with and without them.

DATABASE_URL names a scratch database on a server, which is created and dropped at the end. Rounds alternate, so that a
busy machine affects both equally; medians are compared.
"""

from __future__ import annotations

import argparse
import os
import statistics
import time
from collections.abc import Callable
from datetime import datetime
from typing import Any
from unittest.mock import patch

from tools.bench.scratch_database import execute, scratch_database
from tools.support import guards

BATCH = 500


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tools.bench.counters", description=__doc__)
    parser.add_argument("--rounds", type=int, default=40)
    parser.add_argument("--subscriptions", type=int, default=20)
    options = parser.parse_args()
    os.environ.setdefault("WEBHOOKHUB_LOG_LEVEL", "WARNING")
    with scratch_database():
        with guards.switched_off():
            _fill(options.rounds * 2 + 2, options.subscriptions)
        _compare(options.rounds)
    return 0


def _fill(batches: int, subscriptions: int) -> None:
    """Inserts finished attempts whose results are not settled yet; one in ten failed."""
    from events.intake import publish

    event = publish("bench.happened", {})
    for start in range(0, batches * BATCH * 10 // 9, BATCH):
        rows = ", ".join(
            f"({event.id}, {1 + n % subscriptions}, {n}, 'InProgress', 0, 10, 30000000)"
            for n in range(start, start + BATCH)
        )
        execute(
            "INSERT INTO webhook_delivery_sagas "
            "(event_id, subscription_id, generation, status, attempt_count, max_retry_limit, base_delay) "
            f"VALUES {rows}"
        )
    execute(
        "INSERT INTO webhook_delivery_jobs (saga_id, attempt_no, status, attempt_at, lease_until, lease_token, "
        "worker_id, finished_at, error_code, response_status, duration_ms, response_snippet, lease_resets) "
        "SELECT id, 1, IF(id MOD 10 = 0, 'Failed', 'Completed'), created_at, created_at, 't', 'w', UTC_TIMESTAMP(6), "
        "IF(id MOD 10 = 0, 'http_503', NULL), IF(id MOD 10 = 0, 503, 200), 5 + (id * 7919) MOD 900, '', 0 "
        "FROM webhook_delivery_sagas"
    )
    execute("ANALYZE TABLE webhook_delivery_sagas, webhook_delivery_jobs")


def _without(results: dict[int, Any], now: datetime) -> None:
    """Marks results as settled without counting them."""
    from jobs.models import Job
    from webhookhub.db.retry import one_statement

    open_jobs = Job.objects.filter(id__in=results, settled_at__isnull=True)
    if results:
        one_statement(lambda: open_jobs.update(settled_at=now))


def _compare(rounds: int) -> None:
    from sagas import settle
    from webhookhub.stats import attempts

    settler = settle.Settler()
    durations: dict[str, list[float]] = {"with": [], "without": []}
    counting: list[float] = []
    add = attempts.add

    def timed_add(counts: Any) -> None:
        started = time.perf_counter()
        add(counts)
        counting.append(time.perf_counter() - started)

    with patch.object(attempts, "add", timed_add):
        for number in range(rounds):
            for name in sorted(durations, reverse=bool(number % 2)):
                with patch.object(settle, "_mark", settle._mark if name == "with" else _without):
                    durations[name].append(_timed(lambda: settler._settle("Completed", BATCH)))
    for name, seconds in durations.items():
        minimum = f"minimum {min(seconds) * 1000:.2f}"
        print(f"{name:<9} {statistics.median(seconds) * 1000:7.2f} ms for {BATCH} results, {minimum}")
    ratios = [ours / theirs for ours, theirs in zip(durations["with"], durations["without"], strict=True)]
    low, middle, high = statistics.quantiles(ratios, n=4)
    print(f"ratio     {middle:7.3f} (median of neighbouring rounds; quartiles {low:.3f} to {high:.3f})")
    # The time of the counting itself, which varies less than that of the whole step.
    shares = [part / whole for part, whole in zip(counting, durations["with"], strict=True)]
    print(f"counting  {statistics.median(counting) * 1000:7.2f} ms, {statistics.median(shares):.1%} of the step")


def _timed(work: Callable[[], int]) -> float:
    started = time.perf_counter()
    done = work()
    seconds = time.perf_counter() - started
    assert done == BATCH, done
    return seconds


if __name__ == "__main__":
    raise SystemExit(main())
