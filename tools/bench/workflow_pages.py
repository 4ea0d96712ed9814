"""Lists of workflow runs on a large database, in the API and in the console: the duration of each.

DATABASE_URL names a scratch database on a server, which is created and dropped at the end.
"""

from __future__ import annotations

import argparse
import statistics
import time
from typing import Any

from tools.bench.database import NUMBERS
from tools.bench.scratch_database import execute, scratch_database
from tools.support import guards

ROWS = 100_000  # per statement
# Of a thousand: 10 in progress, 2 compensating, 8 compensated, 3 failed (1 waits for an operator); one in ten belongs
# to another workflow.
STATUS = """CASE WHEN n % 1000 < 10 THEN 'IN_PROGRESS' WHEN n % 1000 < 12 THEN 'COMPENSATING'
    WHEN n % 1000 < 20 THEN 'COMPENSATED' WHEN n % 1000 < 23 THEN 'FAILED' ELSE 'COMPLETED' END"""
STEP = """CASE WHEN n % 1000 < 23 THEN ELT(1 + n % 3, 'inventory', 'payment', 'shipping') ELSE 'confirmation' END"""
STEPS = '{"order": "done", "inventory": "done", "payment": "done", "shipping": "done", "confirmation": "done"}'
INSTANCES = f"""INSERT INTO saga_instances (id, saga_id, saga_type, definition_version, correlation_key, aggregate_id,
       current_step, status, started_at, completed_at, error_message, deadline, steps, anomaly, needs_operator, by_hand,
       version, updated_at)
   SELECT n + 1 + %s, REPLACE(UUID(), '-', ''), IF(n %% 10 = 0, 'order_cancellation', 'order_submission'), 1,
       CONCAT('k-', n + %s), CONCAT('o-', n + %s), {STEP.replace("%", "%%")}, {STATUS.replace("%", "%%")},
       UTC_TIMESTAMP(6) - INTERVAL (%s - n - %s) SECOND,
       IF(n %% 1000 < 12, NULL, UTC_TIMESTAMP(6) - INTERVAL (%s - n - %s) SECOND + INTERVAL 1 SECOND),
       IF(n %% 1000 BETWEEN 12 AND 22, 'failed', ''), IF(n %% 1000 < 12, UTC_TIMESTAMP(6) + INTERVAL n SECOND, NULL),
       %s, '', n %% 1000 = 22, 0, 1, UTC_TIMESTAMP(6)
   FROM {NUMBERS} WHERE n < %s"""
FACTS = """INSERT INTO saga_facts (instance_id, step, role, origin, actor, reason, detail, occurred_at, recorded_at)
   SELECT id, step, 'done', 'event', '', '', '', started_at, started_at FROM saga_instances,
       (SELECT 'order' AS step UNION SELECT 'inventory' UNION SELECT 'payment' UNION SELECT 'shipping') steps
   WHERE id > %s"""


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tools.bench.workflow_pages", description=__doc__)
    parser.add_argument("--instances", type=int, default=1_000_000, help="number of workflow runs")
    parser.add_argument("--rounds", type=int, default=10)
    options = parser.parse_args()
    with scratch_database():
        started = time.monotonic()
        with guards.switched_off():
            fill(options.instances)
        print(f"filled with {options.instances} runs in {time.monotonic() - started:.0f} s", flush=True)
        _open(options.rounds)
    return 0


def fill(count: int) -> None:
    """Inserts `count` runs, and facts for the newest of them."""
    for start in range(0, count, ROWS):
        rows = min(ROWS, count - start)
        execute(INSTANCES, start, start, start, count, start, count, start, STEPS, rows)
    execute(FACTS, max(0, count - 5000))
    execute("ANALYZE TABLE saga_instances")
    execute("ANALYZE TABLE saga_facts")


def _open(rounds: int) -> None:
    from django.contrib.auth.models import User
    from django.test import Client

    from api import keys
    from workflows.models import Instance

    key = keys.create("bench", ["read"], by="bench")[1]
    api = Client(headers={"Authorization": f"Bearer {key}"}, SERVER_NAME="localhost")
    console = Client(SERVER_NAME="localhost")
    console.force_login(User.objects.create_superuser("bench"))
    newest = Instance.objects.order_by("-id")[0]
    for client, url in [
        *((api, f"/api/v1/sagas{path}") for path in API_PATHS),
        (api, f"/api/v1/sagas/{newest.saga_id}/timeline"),
        *((console, f"/admin/workflows/instance/{path}") for path in CONSOLE_PATHS),
        (console, f"/admin/workflows/instance/{newest.pk}/change/"),
    ]:
        durations = [_timed(client, url) for _ in range(rounds)]
        print(f"{statistics.median(durations):8.1f} ms  (to {max(durations):.1f})  {url}", flush=True)


API_PATHS = [
    "/failed",
    "/failed?limit=200",
    "/stuck?quiet_seconds=0",
    "",
    "?status=COMPLETED",
    "/aggregate/o-777?all=true",
]
CONSOLE_PATHS = [
    "",
    "?status=FAILED",
    "?saga_type=order_submission",
    "?saga_type=order_submission&status=COMPLETED&step=confirmation",
    "?saga_type=order_submission&step=payment",
    "?status=COMPLETED&age=over-day",
    "?status=COMPLETED&age=over-week",
    "?operator=1",
    "?q=o-777",
    "?q=o-777&status=FAILED&saga_type=order_submission",
    "definitions/order_submission/",
]


def _timed(client: Any, url: str) -> float:
    started = time.perf_counter()
    response = client.get(url)
    assert response.status_code == 200, (url, response.status_code, response.content[:500])
    return (time.perf_counter() - started) * 1000


if __name__ == "__main__":
    raise SystemExit(main())
