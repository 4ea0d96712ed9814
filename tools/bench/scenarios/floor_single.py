"""The limit of the design for events that come one at a time: the fewest statements that deliver one event.

No ORM, no signatures, and nothing is read that is known already. Inbox rows and marks of settled jobs are written for
many events at once. The connections work in parallel, as the hub's producers do.
"""

from __future__ import annotations

import os
import threading
import time
import uuid
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass

import pycurl

from tools.bench import load, machine
from tools.bench.context import Context
from tools.bench.database import INBOX, JOBS, SAGAS, Server
from tools.bench.endpoint import duplicates
from tools.bench.pycurl_client import delivery_request, new_handle, prepare
from tools.bench.results import Result, Spread, percentile
from tools.bench.scenarios.floor_sql import POLICY, TOKEN, WORKER, Row
from tools.bench.statements import StatementCounter

CONNECTIONS = 16
BATCH = 500
ALONE = 100
NOW = "UTC_TIMESTAMP(6)"


@dataclass(frozen=True)
class SingleFloorRun:
    """Deliveries per second and µs of CPU per delivery (of this process and the database) with parallel connections;
    statements per delivery; seconds from the event to the endpoint's response with one connection."""

    rate: float
    cpu: float
    statements: float
    alone_p50: float
    alone_cpu: float


class SingleFloor:
    """One connection, which delivers one event after the other."""

    def __init__(self, database: Server, authority: str, cleanup: Cleanup) -> None:
        self._database = database
        self._connection = database.connection
        self._curl = new_handle(authority)
        self._cleanup = cleanup
        self._event_type = load.event_types(1)[0]
        [(self._subscription, self._endpoint)] = database.execute(
            "SELECT id, endpoint_id FROM subscriptions WHERE event_type = %s", [self._event_type]
        )

    def deliver(self) -> float:
        """Publishes and delivers an event. Returns the seconds until the endpoint's response."""
        started = time.perf_counter()
        event = self.publish()
        saga = self.route(event)
        job = self.dispatch(saga)
        row = self.lease(job)
        prepare(self._curl, delivery_request(row))
        self._curl.perform()
        assert self._curl.getinfo(pycurl.RESPONSE_CODE) == 200
        seconds = time.perf_counter() - started
        self.report(job)
        self.settle(saga)
        self._cleanup.add(self._database, event, job)
        return seconds

    def publish(self) -> int:
        uid = uuid.uuid4().hex
        return self._insert(
            "INSERT INTO events (uid, event_type, source, correlation_id, payload) "
            f"VALUES ('{uid}', '{self._event_type}', 'bench', '{uid}', '{load.PAYLOAD}')"
        )

    def route(self, event: int) -> int:
        [_] = self._rows(f"SELECT event_id, event_type, labels FROM {INBOX} WHERE event_id = {event}")
        self._rows("SELECT version FROM subscription_version LIMIT 1")
        return self._insert(
            f"INSERT INTO {SAGAS} (event_id, subscription_id, endpoint_id, generation, status, attempt_count, "
            "next_attempt_at, max_retry_limit, base_delay, retry_delays, created_at, updated_at) "
            f"VALUES ({event}, {self._subscription}, {self._endpoint}, 0, 'Pending', 0, {NOW}, {POLICY}, {NOW}, {NOW})"
        )

    def dispatch(self, saga: int) -> int:
        job = self._insert(
            f"INSERT INTO {JOBS} (saga_id, attempt_no, status, attempt_at, lease_until) "
            f"SELECT s.id, s.attempt_count + 1, 'Pending', LEAST(s.next_attempt_at, {NOW}), {NOW} FROM {SAGAS} s "
            f"WHERE s.attempt_count = 0 AND s.id = {saga} AND s.status = 'Pending'"
        )
        self._update(
            f"UPDATE {SAGAS} SET status = 'InProgress', updated_at = {NOW} "
            f"WHERE attempt_count = 0 AND id = {saga} AND status = 'Pending'"
        )
        return job

    def lease(self, job: int) -> Row:
        self._update(
            f"UPDATE {JOBS} SET status = 'Leased', lease_until = {NOW} + INTERVAL 60 SECOND, "
            f"lease_token = '{TOKEN}', worker_id = '{WORKER}' WHERE id = {job} AND status = 'Pending'"
        )
        [row] = self._rows(
            "SELECT j.id, e.uid, e.event_type, e.created_at, e.payload, u.callback_url, j.saga_id, j.attempt_no, "
            "j.lease_resets, e.correlation_id, s.subscription_id, u.active, u.verified, u.secret, u.previous_secret, "
            f"u.previous_secret_until, u.custom_headers, u.credentials FROM {JOBS} j "
            f"JOIN {SAGAS} s ON s.id = j.saga_id JOIN events e ON e.id = s.event_id "
            "JOIN subscriptions u ON u.id = s.subscription_id "
            f"WHERE j.id = {job} AND j.lease_token = '{TOKEN}'"
        )
        return row

    def report(self, job: int) -> None:
        self._update(
            f"UPDATE {JOBS} SET status = 'Completed', error_code = NULL, response_status = 200, duration_ms = 3, "
            f"retry_after = NULL, response_snippet = 'ok', finished_at = {NOW} "
            f"WHERE id = {job} AND lease_token = '{TOKEN}' AND status = 'Leased'"
        )

    def settle(self, saga: int) -> None:
        self._update(
            f"UPDATE {SAGAS} SET status = 'Completed', attempt_count = 1, updated_at = {NOW} "
            f"WHERE attempt_count = 0 AND id = {saga} AND status = 'InProgress'"
        )

    def close(self) -> None:
        self._curl.close()

    def _insert(self, sql: str) -> int:
        """Returns the new row's id."""
        self._update(sql)
        return int(self._connection.insert_id())

    def _update(self, sql: str) -> None:
        self._connection.query(sql.encode())
        assert self._connection.affected_rows() == 1, sql

    def _rows(self, sql: str) -> list[Row]:
        self._connection.query(sql.encode())
        return list(self._connection.store_result().fetch_row(maxrows=0))


class Cleanup:
    """Deletes inbox rows and marks jobs as settled, `size` at a time."""

    def __init__(self, size: int = BATCH) -> None:
        self._size = size
        self._lock = threading.Lock()
        self._done: list[tuple[int, int]] = []  # event, job

    def add(self, database: Server, event: int, job: int) -> None:
        with self._lock:
            self._done.append((event, job))
            full = len(self._done) >= self._size
        if full:
            self.flush(database)

    def flush(self, database: Server) -> None:
        with self._lock:
            done, self._done = self._done, []
        if not done:
            return
        events, jobs = (", ".join(map(str, sorted(ids))) for ids in zip(*done, strict=True))
        database.execute(f"DELETE FROM {INBOX} WHERE event_id IN ({events})")
        database.execute(f"UPDATE {JOBS} SET settled_at = {NOW} WHERE id IN ({jobs}) AND settled_at IS NULL")


def run(context: Context, deliveries: int) -> SingleFloorRun:
    database = context.database()
    database.empty()
    cleanup = Cleanup()
    connections = [Server(database.url) for _ in range(CONNECTIONS)]
    floors = [SingleFloor(connection, str(context.authorities), cleanup) for connection in connections]
    try:
        for floor in floors:
            floor.deliver()  # opens its connection to the endpoint
        pids = [os.getpid(), context.server.pid]
        cpu = machine.cpu_of(pids)
        alone = [floors[0].deliver() for _ in range(ALONE)]
        alone_cpu = machine.cpu_of(pids) - cpu
        cleanup.flush(database)
        context.endpoint.take()
        parts = [len(range(number, deliveries, CONNECTIONS)) for number in range(CONNECTIONS)]
        statements = StatementCounter(database)
        cpu, started = machine.cpu_of(pids), time.perf_counter()
        with ThreadPoolExecutor(CONNECTIONS) as pool:
            list(pool.map(_deliver, floors, parts))
        cleanup.flush(database)
        seconds = time.perf_counter() - started
        cpu = machine.cpu_of(pids) - cpu
        _check(context, database, deliveries)
        return SingleFloorRun(
            rate=deliveries / seconds,
            cpu=cpu / deliveries * 1e6,
            statements=statements.count().total / deliveries,
            alone_p50=percentile(alone, 50),
            alone_cpu=alone_cpu / ALONE * 1e6,
        )
    finally:
        for floor, connection in zip(floors, connections, strict=True):
            floor.close()
            connection.close()


def _deliver(floor: SingleFloor, count: int) -> None:
    for _ in range(count):
        floor.deliver()


def _check(context: Context, database: Server, deliveries: int) -> None:
    """Asserts that everything was delivered and settled as by the hub."""
    arrivals = context.endpoint.take()
    assert (len(arrivals), duplicates(arrivals)) == (deliveries, 0)
    settled = (
        f"SELECT COUNT(*) FROM {SAGAS} s JOIN {JOBS} j ON j.saga_id = s.id "
        "WHERE s.status = 'Completed' AND s.attempt_count = 1 AND j.status = 'Completed' AND j.settled_at IS NOT NULL"
    )
    assert database.execute(settled) == [(deliveries + CONNECTIONS + ALONE,)]
    assert database.execute(f"SELECT COUNT(*) FROM {INBOX}") == [(0,)]


def add_to(result: Result, runs: list[SingleFloorRun]) -> None:
    result.add("deliveries/s, single events", Spread.of([run.rate for run in runs]))
    result.add("µs of CPU per delivery, single events", Spread.of([run.cpu for run in runs]))
    result.add("statements per delivery, single events", Spread.of([run.statements for run in runs]))
    result.add("ms from one event alone to the response, p50", Spread.of([run.alone_p50 * 1000 for run in runs]))
    result.add("µs of CPU per delivery, one event alone", Spread.of([run.alone_cpu for run in runs]))
    result.data["single"] = [asdict(run) for run in runs]
