"""The load: inserts events and waits until all of their deliveries have ended."""

from __future__ import annotations

import json
import time
import uuid
from collections.abc import Callable
from dataclasses import dataclass

from tools.bench.database import INBOX, SAGAS, Database
from tools.bench.endpoint import Endpoint

# Subscriptions per event. There are eight event types of each width, so that deliveries go to eight endpoints.
WIDTHS = (1, 4)
PAYLOAD = json.dumps({"order": 123456, "customer": "c-1", "lines": [{"sku": "A", "n": 2}] * 10}, separators=(",", ":"))
ROWS = 500
POLL_SECONDS = 0.02
STALL_SECONDS = 60.0


def event_types(width: int) -> list[str]:
    return [f"wide{width}.{number}" for number in range(8)]


@dataclass(frozen=True)
class Batch:
    """Events with ids above `after`, committed at `started` (the database's clock)."""

    after: int
    deliveries: int
    started: float


class Stalled(RuntimeError):
    """The awaited number has stopped growing."""


def insert(database: Database, deliveries: int, width: int = 1) -> Batch:
    """Inserts rows into `events` in one transaction, as a program does that does not use the hub's code."""
    types = event_types(width)
    events = deliveries // width
    [(after,)] = database.execute("SELECT COALESCE(MAX(id), 0) FROM events")
    row = "(" + ", ".join([database.placeholder] * 5) + ")"
    database.execute("BEGIN")
    for start in range(0, events, ROWS):
        values: list[str] = []
        count = min(ROWS, events - start)
        for number in range(start, start + count):
            uid = uuid.uuid4().hex
            values += [uid, types[number % len(types)], "bench", uid, PAYLOAD]
        rows = ", ".join([row] * count)
        database.execute(
            f"INSERT INTO events (uid, event_type, source, correlation_id, payload) VALUES {rows}",
            values,
        )
    database.execute("COMMIT")
    [(now,)] = database.execute(f"SELECT {database.now_sql}")
    return Batch(after, events * width, database.seconds(now))


def wait_for_end(database: Database, endpoint: Endpoint, batch: Batch, check_alive: Callable[[], None]) -> float:
    """Waits until every delivery of a batch has ended. Returns the seconds since its commit.

    Waits for the endpoint first, which costs the database nothing. The end is the time at which it is seen, because
    the times in the rows are taken before the rows are written. `check_alive` raises if the hub has exited.
    """
    wait_until(lambda: endpoint.counts().received, batch.deliveries, check_alive)
    ended = f"SELECT COUNT(*) FROM {SAGAS} WHERE event_id > {batch.after} AND status IN ('Completed', 'DeadLettered')"
    wait_until(lambda: int(database.execute(ended)[0][0]), batch.deliveries, check_alive)
    [(seen,)] = database.execute(f"SELECT {database.now_sql}")
    assert database.execute(f"SELECT COUNT(*) FROM {INBOX}") == [(0,)]
    return database.seconds(seen) - batch.started


def wait_until(
    count: Callable[[], int], expected: int, check_alive: Callable[[], None], stall_seconds: float = STALL_SECONDS
) -> None:
    """Waits while the count grows. Raises Stalled if it has not changed for `stall_seconds`."""
    reached, changed_at = -1, time.monotonic()
    while (now := count()) < expected:
        check_alive()
        if now != reached:
            reached, changed_at = now, time.monotonic()
        elif time.monotonic() - changed_at > stall_seconds:
            raise Stalled(f"{reached} of {expected}, unchanged for {stall_seconds:g} s")
        time.sleep(POLL_SECONDS)
