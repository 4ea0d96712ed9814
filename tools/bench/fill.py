"""Fills a database with deliveries that are finished or not due: the server's own work, hundreds of thousands a minute.

Of ten sagas, eight are Completed, one is postponed (Pending), one failed and waits for its second attempt.
"""

from __future__ import annotations

import time

from tools.bench.database import JOBS, SAGAS, Server
from tools.bench.load import PAYLOAD, event_types
from tools.support import guards

WIDTH = 4
PART = 50_000
EARLIER = "UTC_TIMESTAMP(6) - INTERVAL 1 DAY"
LATER = "UTC_TIMESTAMP(6) + INTERVAL 1 DAY"
CALM_SECONDS = 20.0


def fill(database: Server, sagas: int) -> None:
    events = sagas // WIDTH
    _numbers(database)
    with guards.switched_off(database.execute):
        for start in range(0, events, PART):
            _fill(database, min(PART, events - start))
    database.execute("DROP TABLE numbers")
    database.execute(f"ANALYZE TABLE events, {SAGAS}, {JOBS}")


def _numbers(database: Server) -> None:
    database.execute("CREATE TABLE numbers (n INT PRIMARY KEY)")
    digits = "(SELECT 0 d" + "".join(f" UNION ALL SELECT {digit}" for digit in range(1, 10)) + ")"
    database.execute(
        f"INSERT INTO numbers SELECT a.d + 10*b.d + 100*c.d + 1000*e.d + 10000*f.d "
        f"FROM {digits} a, {digits} b, {digits} c, {digits} e, {digits} f"
    )


def _fill(database: Server, events: int) -> None:
    [(after,)] = database.execute("SELECT COALESCE(MAX(id), 0) FROM events")
    stem = event_types(WIDTH)[0].rpartition(".")[0]
    database.execute(
        "INSERT INTO events (uid, event_type, source, correlation_id, payload, created_at) "
        f"SELECT REPLACE(UUID(), '-', ''), CONCAT('{stem}.', n MOD 8), 'bench', n, %s, {EARLIER} "
        f"FROM numbers WHERE n < {events}",
        [PAYLOAD],
    )
    database.execute("TRUNCATE TABLE routing_inbox")
    status = "CASE MOD(e.id * 4 + u.id, 10) WHEN 0 THEN 'Pending' WHEN 1 THEN 'PendingRetry' ELSE 'Completed' END"
    database.execute(
        f"INSERT INTO {SAGAS} (event_id, subscription_id, generation, status, attempt_count, next_attempt_at, "
        "max_retry_limit, base_delay, final_error_code, created_at, updated_at) "
        f"SELECT e.id, u.id, 0, {status} AS s, IF({status} = 'Pending', 0, 1), "
        f"IF({status} = 'Completed', {EARLIER}, {LATER}), 10, 30000000, "
        f"IF({status} = 'PendingRetry', 'http_500', NULL), {EARLIER}, {EARLIER} "
        f"FROM events e JOIN subscriptions u ON u.event_type = e.event_type WHERE e.id > {after} ORDER BY e.id, u.id"
    )
    succeeded = "s.status = 'Completed'"
    database.execute(
        f"INSERT INTO {JOBS} (saga_id, attempt_no, status, lease_until, attempt_at, response_status, error_code, "
        "worker_id, lease_token, lease_resets, response_snippet, duration_ms, finished_at, settled_at) "
        f"SELECT s.id, 1, IF({succeeded}, 'Completed', 'Failed'), {EARLIER}, {EARLIER}, IF({succeeded}, 200, 500), "
        f"IF({succeeded}, NULL, 'http_500'), 'bench', 'token', 0, 'ok', 5, {EARLIER}, {EARLIER} "
        f"FROM {SAGAS} s WHERE s.event_id > {after} AND s.status <> 'Pending' ORDER BY s.id"
    )


def calm(database: Server) -> None:
    """Have the server write out what it has put off, so that no measurement pays for the filling."""
    [(_, usual)] = database.execute("SHOW GLOBAL VARIABLES LIKE 'innodb_max_dirty_pages_pct'")
    database.execute("SET GLOBAL innodb_max_dirty_pages_pct = 0")
    until = time.monotonic() + CALM_SECONDS
    while _dirty_pages(database) > 100 and time.monotonic() < until:
        time.sleep(0.1)
    database.execute(f"SET GLOBAL innodb_max_dirty_pages_pct = {float(usual)}")


def _dirty_pages(database: Server) -> int:
    [(_, pages)] = database.execute("SHOW GLOBAL STATUS LIKE 'Innodb_buffer_pool_pages_dirty'")
    return int(pages)
