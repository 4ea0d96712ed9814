"""Scenario `backlog`: drain with tables full of deliveries that have ended or are not due.

Of ten stored deliveries, eight are Completed, one is Pending until tomorrow, and one waits for its second attempt.
"""

from __future__ import annotations

import time

from tools.bench import hub
from tools.bench.context import Context
from tools.bench.database import JOBS, NUMBERS, SAGAS, Server
from tools.bench.load import PAYLOAD, event_types
from tools.bench.results import Result, Spread, ratios
from tools.bench.scenarios import drain
from tools.support import guards

TARGET = 0.9
WIDTH = 4
ROWS = 50_000  # per statement
PAST = "UTC_TIMESTAMP(6) - INTERVAL 1 DAY"
FUTURE = "UTC_TIMESTAMP(6) + INTERVAL 1 DAY"
FLUSH_SECONDS = 20.0


def run(context: Context) -> Result:
    result = Result("backlog", data={"deliveries_per_run": context.sizes.backlog})
    databases = _fill_databases(context, result)
    rates: dict[int, list[float]] = {stored: [] for stored in databases}
    # Runs alternate, so that a busy machine affects all equally.
    for _ in context.within(range(context.sizes.repeats)):
        for stored, database in databases.items():
            with hub.running(context, database) as loops:
                rates[stored].append(drain.measure(context, loops, context.sizes.backlog).rate)
    for stored, values in rates.items():
        result.add(f"deliveries/s with {stored:,} stored", Spread.of(values))
    smallest, largest = min(rates), max(rates)
    spread = ratios(rates[largest], rates[smallest])
    name = f"rate with {largest:,} ÷ rate with {smallest:,}"
    if largest == max(context.sizes.backlogs):
        result.at_least(name, spread, spread.median, TARGET)
    else:
        result.add(name, spread)  # the target is for the size that was skipped
    result.data |= {"rates": {str(stored): values for stored, values in rates.items()}, "ratio": spread.median}
    return result


def _fill_databases(context: Context, result: Result) -> dict[int, Server]:
    """As many databases as can be filled in time, at least one."""
    databases: dict[int, Server] = {}
    seconds_per_row = 0.0
    for stored in context.sizes.backlogs:
        if seconds_per_row * stored > context.remaining / 2:
            result.add(f"deliveries/s with {stored:,} stored", "skipped: filling would take too long")
            break
        database = databases[stored] = context.database(f"backlog_{stored}")
        started = time.monotonic()
        _fill(database, stored)
        seconds_per_row = (time.monotonic() - started) / stored
        result.data[f"fill_seconds_{stored}"] = seconds_per_row * stored
    _flush(database)
    return databases


def _fill(database: Server, deliveries: int) -> None:
    events = deliveries // WIDTH
    with guards.switched_off(database.execute):
        for start in range(0, events, ROWS):
            _insert(database, min(ROWS, events - start))
    database.execute(f"ANALYZE TABLE events, {SAGAS}, {JOBS}")


def _insert(database: Server, events: int) -> None:
    [(after,)] = database.execute("SELECT COALESCE(MAX(id), 0) FROM events")
    stem = event_types(WIDTH)[0].rpartition(".")[0]
    database.execute(
        "INSERT INTO events (uid, event_type, source, correlation_id, payload, created_at) "
        f"SELECT REPLACE(UUID(), '-', ''), CONCAT('{stem}.', n MOD 8), 'bench', n, %s, {PAST} "
        f"FROM {NUMBERS} WHERE n < {events} ORDER BY n",
        [PAYLOAD],
    )
    database.execute("TRUNCATE TABLE routing_inbox")
    status = "CASE MOD(e.id * 4 + u.id, 10) WHEN 0 THEN 'Pending' WHEN 1 THEN 'PendingRetry' ELSE 'Completed' END"
    database.execute(
        f"INSERT INTO {SAGAS} (event_id, subscription_id, generation, status, attempt_count, next_attempt_at, "
        "max_retry_limit, base_delay, final_error_code, created_at, updated_at) "
        f"SELECT e.id, u.id, 0, {status} AS s, IF({status} = 'Pending', 0, 1), "
        f"IF({status} = 'Completed', {PAST}, {FUTURE}), 10, 30000000, "
        f"IF({status} = 'PendingRetry', 'http_500', NULL), {PAST}, {PAST} "
        f"FROM events e JOIN subscriptions u ON u.event_type = e.event_type WHERE e.id > {after} ORDER BY e.id, u.id"
    )
    succeeded = "s.status = 'Completed'"
    database.execute(
        f"INSERT INTO {JOBS} (saga_id, attempt_no, status, lease_until, attempt_at, response_status, error_code, "
        "worker_id, lease_token, lease_resets, response_snippet, duration_ms, finished_at, settled_at) "
        f"SELECT s.id, 1, IF({succeeded}, 'Completed', 'Failed'), {PAST}, {PAST}, IF({succeeded}, 200, 500), "
        f"IF({succeeded}, NULL, 'http_500'), 'bench', 'token', 0, 'ok', 5, {PAST}, {PAST} "
        f"FROM {SAGAS} s WHERE s.event_id > {after} AND s.status <> 'Pending' ORDER BY s.id"
    )


def _flush(database: Server) -> None:
    """Makes the server write its dirty pages, so that the measurements do not pay for the filling."""
    [(_, usual)] = database.execute("SHOW GLOBAL VARIABLES LIKE 'innodb_max_dirty_pages_pct'")
    database.execute("SET GLOBAL innodb_max_dirty_pages_pct = 0")
    until = time.monotonic() + FLUSH_SECONDS
    while _dirty_pages(database) > 100 and time.monotonic() < until:
        time.sleep(0.1)
    database.execute(f"SET GLOBAL innodb_max_dirty_pages_pct = {float(usual)}")


def _dirty_pages(database: Server) -> int:
    [(_, pages)] = database.execute("SHOW GLOBAL STATUS LIKE 'Innodb_buffer_pool_pages_dirty'")
    return int(pages)
