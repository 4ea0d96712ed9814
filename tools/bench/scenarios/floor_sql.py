"""The hub's statements for one batch of successful deliveries in raw SQL: no ORM, no objects, one connection.

The same statements as in events/routing.py, sagas/dispatch.py, jobs/lease.py, jobs/report.py and sagas/settle.py,
without queries that find no work. A test in tests/nightly/bench compares them.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from typing import Any

from tools.bench.database import COUNTERS, INBOX, JOBS, PERIODS, SAGAS, Server

Row = tuple[Any, ...]
POLICY = "20, 30000000, NULL"
TOKEN = "0123456789abcdef0123456789abcdef"
WORKER = "worker@bench:1:abcdef"


class Floor:
    """One method per stage; each processes at most `size` rows."""

    def __init__(self, database: Server, size: int) -> None:
        self._connection = database.connection
        self._size = size
        # Ids of subscriptions and their endpoints, as SQL.
        self._subscriptions: dict[str, list[str]] = {}
        for event_type, *ids in self._rows("SELECT event_type, id, endpoint_id FROM subscriptions ORDER BY id"):
            self._subscriptions.setdefault(event_type, []).append(", ".join(map(str, ids)))

    def route(self) -> int:
        self._execute("BEGIN")
        inbox = self._rows(
            f"SELECT event_id, event_type, labels FROM {INBOX} ORDER BY event_id LIMIT {self._size} "
            "FOR UPDATE SKIP LOCKED"
        )
        self._rows("SELECT version FROM subscription_version LIMIT 1")
        now = self._now()
        sagas = [
            f"({event}, {ids}, 0, 'Pending', 0, {now}, {POLICY}, {now}, {now})"
            for event, event_type, _ in inbox
            for ids in self._subscriptions[event_type]
        ]
        if sagas:
            self._execute(
                f"INSERT INTO {SAGAS} (event_id, subscription_id, endpoint_id, generation, status, attempt_count, "
                "next_attempt_at, max_retry_limit, base_delay, retry_delays, created_at, updated_at) "
                f"VALUES {', '.join(sagas)}"
            )
            events = _list(event for event, *_ in inbox)
            self._rows(f"SELECT id, event_id, subscription_id, generation FROM {SAGAS} WHERE event_id IN ({events})")
            union = " UNION ALL SELECT ".join([f"{inbox[0][0]} AS event_id", *(str(event) for event, *_ in inbox[1:])])
            self._execute(
                f"DELETE {INBOX} FROM (SELECT {union}) input STRAIGHT_JOIN {INBOX} FORCE INDEX (PRIMARY) "
                f"ON {INBOX}.event_id = input.event_id"
            )
            self._rows(
                f"SELECT event_id, COUNT(id) FROM {SAGAS} WHERE event_id IN ({events}) AND generation = 0 "
                "GROUP BY event_id"
            )
            self._count(("deliveries", "routed", len(sagas)), ("events_routed", "matched", len(inbox)))
        self._execute("COMMIT")
        return len(sagas)

    def dispatch(self) -> int:
        now = self._now()
        due = self._rows(
            f"SELECT id, subscription_id, status, attempt_count, next_attempt_at FROM {SAGAS} WHERE status = 'Pending' "
            f"AND next_attempt_at <= {now} ORDER BY next_attempt_at, id LIMIT {self._size}"
        )
        if not due:
            return 0
        wanted = _list({row[1] for row in due})
        self._rows(f"SELECT id FROM subscriptions WHERE active AND verified AND id IN ({wanted})")
        ids = _list(row[0] for row in due)
        self._execute(
            f"INSERT INTO {JOBS} (saga_id, attempt_no, status, attempt_at, lease_until) "
            f"SELECT s.id, s.attempt_count + 1, 'Pending', LEAST(s.next_attempt_at, {now}), {now} FROM {SAGAS} s "
            f"WHERE NOT EXISTS (SELECT 1 FROM {JOBS} j WHERE j.saga_id = s.id AND j.attempt_no = s.attempt_count + 1) "
            f"AND s.attempt_count = 0 AND s.id IN ({ids}) AND s.status = 'Pending' ORDER BY s.next_attempt_at, s.id"
        )
        self._rows(f"SELECT saga_id, id FROM {JOBS} WHERE saga_id IN ({ids}) AND attempt_no = 1")
        self._execute(
            f"UPDATE {SAGAS} SET status = 'InProgress', updated_at = {now} WHERE attempt_count = 0 "
            f"AND id IN ({ids}) AND status = 'Pending'"
        )
        return len(due)

    def lease(self) -> list[Row]:
        """Rows of job id, uid, type, time and payload of the event, URL, and what else a worker reads."""
        self._execute("BEGIN")
        now = self._now()
        ids = _list(
            row[0]
            for row in self._rows(
                f"SELECT id FROM {JOBS} WHERE lease_until <= {now} AND status = 'Pending' ORDER BY lease_until, id "
                f"LIMIT {self._size} FOR UPDATE SKIP LOCKED"
            )
        )
        if ids:
            self._execute(
                f"UPDATE {JOBS} SET status = 'Leased', lease_until = {now} + INTERVAL 60 SECOND, "
                f"lease_token = '{TOKEN}', worker_id = '{WORKER}' WHERE id IN ({ids}) AND status = 'Pending'"
            )
        self._execute("COMMIT")
        if not ids:
            return []
        return self._rows(
            "SELECT j.id, e.uid, e.event_type, e.created_at, e.payload, u.callback_url, j.saga_id, j.attempt_no, "
            "j.lease_resets, e.correlation_id, s.subscription_id, u.active, u.verified, u.secret, u.previous_secret, "
            f"u.previous_secret_until, u.custom_headers, u.credentials FROM {JOBS} j "
            f"JOIN {SAGAS} s ON s.id = j.saga_id JOIN events e ON e.id = s.event_id "
            "JOIN subscriptions u ON u.id = s.subscription_id "
            f"WHERE j.id IN ({ids}) AND j.lease_token = '{TOKEN}' ORDER BY j.id"
        )

    def report(self, job_ids: Iterable[int]) -> None:
        self._execute(
            f"UPDATE {JOBS} FORCE INDEX (PRIMARY) SET status = 'Completed', error_code = NULL, response_status = 200, "
            f"duration_ms = 3, retry_after = NULL, response_snippet = 'ok', finished_at = {self._now()} "
            f"WHERE ((lease_token = '{TOKEN}' AND id IN ({_list(job_ids)}))) AND {JOBS}.status = 'Leased'"
        )

    def settle(self) -> int:
        finished = self._rows(
            "SELECT id, saga_id, attempt_no, error_code, attempt_at, finished_at, retry_after, worker_id, lease_until, "
            f"duration_ms FROM {JOBS} WHERE settled_at IS NULL AND status = 'Completed' AND id > 0 ORDER BY id "
            f"LIMIT {self._size}"
        )
        if not finished:
            return 0
        now = self._now()
        sagas = _list(row[1] for row in finished)
        applied = self._rows(
            "SELECT s.id, s.status, s.attempt_count, s.max_retry_limit, s.base_delay, s.retry_delays, s.event_id, "
            f"s.subscription_id, e.correlation_id, e.created_at, s.generation, s.created_at FROM {SAGAS} s "
            f"JOIN events e ON e.id = s.event_id WHERE s.id IN ({sagas})"
        )
        self._execute(
            f"UPDATE {SAGAS} SET status = 'Completed', attempt_count = 1, updated_at = {now} WHERE attempt_count = 0 "
            f"AND id IN ({sagas}) AND status = 'InProgress'"
        )
        self._execute("BEGIN")
        self._execute(
            f"UPDATE {JOBS} SET settled_at = {now} WHERE id IN ({_list(row[0] for row in finished)}) "
            "AND settled_at IS NULL"
        )
        count = len(finished)
        self._count(
            ("duration_ms", "", 3 * count),
            ("durations", "10", count),
            ("latencies", "0.1", count),
            ("latency_us", "", count),
            ("attempts", "completed", count),
        )
        self._count_periods(now, Counter(row[6] for row in applied))
        self._execute("COMMIT")
        return count

    def _count(self, *counters: tuple[str, str, int]) -> None:
        rows = ", ".join(f"('{name}', '{label}', 1, {value})" for name, label, value in counters)
        self._execute(
            f"INSERT INTO {COUNTERS} (name, label, shard, value) VALUES {rows} "
            f"ON DUPLICATE KEY UPDATE value = {COUNTERS}.value + VALUES(value)"
        )

    def _count_periods(self, now: str, attempts: Counter[int]) -> None:
        """Adds to one row per minute and subscription. `now` is a quoted time."""
        minute = f"{now[:17]}:00'"
        rows = ", ".join(
            f"('minute', {minute}, {subscription}, 1, {count}, {count}, {3 * count}, {count})"
            for subscription, count in sorted(attempts.items())
        )
        added = ("attempts", "completed", "duration_ms", "within_10_ms")
        sums = ", ".join(f"{column} = {PERIODS}.{column} + VALUES({column})" for column in added)
        self._execute(
            f"INSERT INTO {PERIODS} (period, starts_at, subscription_id, shard, {', '.join(added)}) VALUES {rows} "
            f"ON DUPLICATE KEY UPDATE {sums}"
        )

    def _now(self) -> str:
        return f"'{self._rows('SELECT UTC_TIMESTAMP(6)')[0][0]}'"

    def _execute(self, sql: str) -> None:
        self._connection.query(sql.encode())

    def _rows(self, sql: str) -> list[Row]:
        self._connection.query(sql.encode())
        return list(self._connection.store_result().fetch_row(maxrows=0))


def _list(values: Iterable[int]) -> str:
    return ", ".join(map(str, values))
