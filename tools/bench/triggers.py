"""The cost of the state machine's triggers: the database server's CPU per delivery, with and without them.

DATABASE_URL names a scratch database on a server of this machine, which is created and dropped at the end. Rounds
alternate. Only the CPU of the thread that serves the connection is counted, so a busy machine matters little.
"""

from __future__ import annotations

import argparse
import os
import statistics
from collections.abc import Callable
from contextlib import nullcontext
from pathlib import Path

from tools.bench.scratch_database import scratch_database
from tools.support import guards

TYPE = "bench.happened"
NANOSECONDS_PER_MICROSECOND = 1000
# Where the servers show the thread of a connection.
THREAD_QUERIES = (
    "SELECT tid FROM information_schema.processlist WHERE id = CONNECTION_ID()",
    "SELECT thread_os_id FROM performance_schema.threads WHERE processlist_id = CONNECTION_ID()",
)


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tools.bench.triggers", description=__doc__)
    parser.add_argument("--rounds", type=int, default=8, help="rounds with and without the triggers, each")
    parser.add_argument("--deliveries", type=int, default=2000, help="deliveries per round")
    parser.add_argument("--batch-size", type=int, default=500, help="1 measures single deliveries")
    options = parser.parse_args()
    os.environ.setdefault("WEBHOOKHUB_LOG_LEVEL", "WARNING")
    with scratch_database():
        _subscribe()
        thread = _server_thread()
        steps = _steps(options.batch_size)
        _round(thread, steps, options.deliveries)  # fills caches
        cost: dict[str, list[dict[str, float]]] = {"with": [], "without": []}
        for number in range(options.rounds):
            for name in sorted(cost, reverse=bool(number % 2)):
                with guards.switched_off() if name == "without" else nullcontext():
                    cost[name].append(_round(thread, steps, options.deliveries))
        _print(cost, options.batch_size)
    return 0


def _subscribe() -> None:
    from subscriptions.models import Subscription
    from webhookhub.db import clock

    Subscription.objects.create(event_type=TYPE, callback_url="https://example.com/")
    Subscription.objects.update(verified=True, verification_at=clock.now())


def _steps(batch_size: int) -> dict[str, Callable[[], int]]:
    """What the loops do for a delivery; each returns how many rows it has worked on."""
    from events.routing import Router
    from jobs.lease import lease
    from jobs.report import Report, report
    from sagas.dispatch import dispatch
    from sagas.settle import Settler

    leased: list[Report] = []

    def take() -> int:
        leased[:] = [Report(job, None, response_status=204, duration_ms=1) for job in lease("bench", batch_size)]
        return len(leased)

    return {
        "route": lambda: Router().route(batch_size),
        "dispatch": lambda: dispatch(batch_size),
        "lease": take,
        "report": lambda: report("bench", leased),
        "settle": lambda: Settler().settle(batch_size),
    }


def _round(thread: Path, steps: dict[str, Callable[[], int]], deliveries: int) -> dict[str, float]:
    """Microseconds of the server's CPU per delivery, for each step."""
    from events.intake import NewEvent, publish_many

    for start in range(0, deliveries, 500):
        publish_many([NewEvent(TYPE, {"n": n}) for n in range(start, min(start + 500, deliveries))])
    used = dict.fromkeys(steps, 0.0)
    while True:
        for name, step in steps.items():
            before = _cpu(thread)
            done = step()
            used[name] += _cpu(thread) - before
            if name == "route" and not done:
                return {name: value / deliveries for name, value in used.items()}


def _server_thread() -> Path:
    """The file with the CPU time of the thread that serves this connection."""
    from django.db import DatabaseError, connection

    for query in THREAD_QUERIES:
        try:
            with connection.cursor() as cursor:
                cursor.execute(query)
                [thread] = cursor.fetchone()
        except DatabaseError:
            continue
        for path in Path("/proc").glob(f"[0-9]*/task/{thread}/schedstat"):
            return path
    raise SystemExit("the server's thread was not found: run this on the server's machine")


def _cpu(thread: Path) -> float:
    """Microseconds."""
    return int(thread.read_text().split()[0]) / NANOSECONDS_PER_MICROSECOND


def _print(cost: dict[str, list[dict[str, float]]], batch_size: int) -> None:
    print(f"µs of server CPU per delivery, batches of {batch_size}: median (minimum) of {len(cost['with'])} rounds")
    for step in [*cost["with"][0], "all"]:
        texts = []
        for name, rounds in cost.items():
            values = [sum(each.values()) if step == "all" else each[step] for each in rounds]
            texts.append(f"{name} {statistics.median(values):7.1f} ({min(values):.1f})")
        print(f"{step:<9} {'   '.join(texts)}")


if __name__ == "__main__":
    raise SystemExit(main())
