"""`manage.py audit` on a large, healthy database: seconds and peak memory of the audit's own process.

DATABASE_URL names a scratch database on a server, which is made anew and dropped at the end.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import time
from pathlib import Path

from tools.bench.scratch import execute, scratch_database
from tools.support import guards

ROOT = Path(__file__).resolve().parents[2]
SUBSCRIPTIONS = 4
LIMIT = 3
PART = 100_000
PAYLOAD = json.dumps({"order": 123456, "customer": "c-1", "lines": [{"sku": "A", "n": 2}] * 10}, separators=(",", ":"))
LONG_AGO = "NOW(6) - INTERVAL 1 DAY"

# Of each hundred sagas: one DeadLettered (n = 0), four Completed at the second attempt, one each Pending, InProgress
# with a ready job, InProgress with a result to be applied, and PendingRetry; all others Completed at once.
STATUS = """CASE WHEN n = 0 THEN 'DeadLettered' WHEN n < 5 THEN 'Completed' WHEN n = 5 THEN 'Pending'
    WHEN n IN (6, 7) THEN 'InProgress' WHEN n = 8 THEN 'PendingRetry' ELSE 'Completed' END"""
ATTEMPTS = f"CASE WHEN n = 0 THEN {LIMIT} WHEN n < 5 THEN 2 WHEN n IN (5, 6, 7) THEN 0 ELSE 1 END"
SAGA_COLUMNS = (
    "event_id, subscription_id, generation, status, attempt_count, next_attempt_at, max_retry_limit, base_delay, "
    "final_error_code, created_at, updated_at"
)
JOB_COLUMNS = (
    "saga_id, attempt_no, status, lease_until, attempt_at, response_status, error_code, worker_id, lease_token, "
    "lease_resets, response_snippet, finished_at, settled_at"
)


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tools.bench.audit", description=__doc__)
    parser.add_argument("--sagas", type=int, default=1_000_000)
    parser.add_argument("--keep", action="store_true", help="leave the database for another look")
    parser.add_argument("--batch-size", type=int, default=20_000)
    options = parser.parse_args()
    with scratch_database(keep=options.keep):
        started = time.monotonic()
        fill(options.sagas)
        print(f"filled in {time.monotonic() - started:.0f} s", flush=True)
        return _audit(options.batch_size)


def fill(sagas: int) -> None:
    from subscriptions.models import Subscription

    for number in range(SUBSCRIPTIONS):
        Subscription.objects.create(event_type="order.created", callback_url=f"https://hooks.example.com/{number}")
    earlier = f"{LONG_AGO} - INTERVAL 1 DAY"
    execute(f"UPDATE subscriptions SET verified = 1, verification_at = {earlier}, updated_at = {earlier}")
    execute("CREATE TABLE numbers (n INT PRIMARY KEY)")
    digits = "(SELECT 0 d" + "".join(f" UNION ALL SELECT {digit}" for digit in range(1, 10)) + ")"
    execute(
        f"INSERT INTO numbers SELECT a.d + 10*b.d + 100*c.d + 1000*e.d + 10000*f.d "
        f"FROM {digits} a, {digits} b, {digits} c, {digits} e, {digits} f"
    )
    events = sagas // SUBSCRIPTIONS
    for start in range(0, events, PART):
        execute(
            "INSERT INTO events (uid, event_type, source, correlation_id, payload, created_at) "
            f"SELECT REPLACE(UUID(), '-', ''), 'order.created', 'bench', n, %s, {LONG_AGO} "
            "FROM numbers WHERE n < %s",
            PAYLOAD,
            min(PART, events - start),
        )
    execute("TRUNCATE routing_inbox")
    execute("DROP TABLE numbers")
    execute("ANALYZE TABLE events, subscriptions")
    with guards.switched_off():
        for low in range(0, events * 2, PART):
            _fill_part(low, low + PART)
    execute("ANALYZE TABLE webhook_delivery_sagas, webhook_delivery_jobs, dead_letters")


def _fill_part(low: int, high: int) -> None:
    """The sagas of some events, in the order in which a router would have made them, and what belongs to them."""
    execute(
        f"INSERT INTO webhook_delivery_sagas ({SAGA_COLUMNS}) "
        f"SELECT event_id, subscription_id, 0, {STATUS}, {ATTEMPTS}, {LONG_AGO}, {LIMIT}, 30000000, "
        f"CASE WHEN n < 5 OR n = 8 THEN 'http_500' END, {LONG_AGO}, {LONG_AGO} FROM ("
        "SELECT e.id AS event_id, u.id AS subscription_id, (e.id * 4 + u.id) MOD 100 AS n "
        f"FROM events e CROSS JOIN subscriptions u WHERE e.id > {low} AND e.id <= {high}) given ORDER BY 1, 2"
    )
    within = f"s.event_id > {low} AND s.event_id <= {high}"
    # Accepted results: the last of a Completed saga succeeded, all others failed.
    succeeded = "s.status = 'Completed' AND a.n = s.attempt_count"
    attempts = "(SELECT 1 n UNION ALL SELECT 2 UNION ALL SELECT 3)"
    execute(
        f"INSERT INTO webhook_delivery_jobs ({JOB_COLUMNS}) "
        f"SELECT s.id, a.n, IF({succeeded}, 'Completed', 'Failed'), {LONG_AGO}, {LONG_AGO} + INTERVAL a.n SECOND, "
        f"IF({succeeded}, 200, 500), IF({succeeded}, NULL, 'http_500'), 'bench', 'token', 0, 'ok', "
        f"{LONG_AGO}, {LONG_AGO} FROM webhook_delivery_sagas s JOIN {attempts} a ON a.n <= s.attempt_count "
        f"WHERE {within} ORDER BY s.id, a.n"
    )
    # What is under way: ready, or finished and waiting to be applied.
    ready = "s.id MOD 2 = 0"
    execute(
        f"INSERT INTO webhook_delivery_jobs ({JOB_COLUMNS}) "
        f"SELECT s.id, 1, IF({ready}, 'Pending', 'Completed'), NULL, {LONG_AGO}, IF({ready}, NULL, 200), NULL, "
        f"IF({ready}, '', 'bench'), IF({ready}, '', 'token'), 0, '', IF({ready}, NULL, NOW(6)), NULL "
        f"FROM webhook_delivery_sagas s WHERE {within} AND s.status = 'InProgress'"
    )
    execute(
        "INSERT INTO dead_letters (saga_id, event_id, subscription_id, final_error_code, failed_at, payload_snapshot) "
        f"SELECT s.id, s.event_id, s.subscription_id, s.final_error_code, {LONG_AGO}, e.payload "
        f"FROM webhook_delivery_sagas s JOIN events e ON e.id = s.event_id "
        f"WHERE {within} AND s.status = 'DeadLettered'"
    )


def _audit(batch_size: int) -> int:
    """As a process of its own, so that the memory is its alone."""
    command = [sys.executable, str(ROOT / "manage.py"), "audit", "--batch-size", str(batch_size)]
    started = time.monotonic()
    process = subprocess.Popen(command, cwd=ROOT)
    _, status, used = os.wait4(process.pid, 0)
    cpu = used.ru_utime + used.ru_stime
    print(f"{time.monotonic() - started:.1f} s, {cpu:.1f} s of CPU, peak memory {used.ru_maxrss // 1024} MB")
    return os.waitstatus_to_exitcode(status)


if __name__ == "__main__":
    raise SystemExit(main())
