"""The load: events inserted at one stroke, and the wait until the last of their deliveries has ended."""

from __future__ import annotations

import json
import time
import uuid
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass

from tools.bench.database import INBOX, SAGAS, Database
from tools.bench.echo import Arrival, Echo

# Subscriptions per event. Eight event types of each width, so that deliveries go to eight receivers.
WIDTHS = (1, 4)
PAYLOAD = json.dumps({"order": 123456, "customer": "c-1", "lines": [{"sku": "A", "n": 2}] * 10}, separators=(",", ":"))
ROWS = 500
LOOK_SECONDS = 0.02
PATIENCE_SECONDS = 60.0


def event_types(width: int) -> list[str]:
    return [f"wide{width}.{number}" for number in range(8)]


@dataclass(frozen=True)
class Batch:
    """Events with ids above `after`, visible to the hub since `began` (the database's clock)."""

    after: int
    deliveries: int
    began: float


class Stalled(RuntimeError):
    """Nothing moves any more."""


def insert(database: Database, deliveries: int, width: int = 1) -> Batch:
    """Publish as a program would that knows nothing of the hub: rows in `events`, all in one transaction."""
    types = event_types(width)
    events = deliveries // width
    [(after,)] = database.execute("SELECT COALESCE(MAX(id), 0) FROM events")
    row = "(" + ", ".join([database.mark] * 5) + ")"
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


def wait(database: Database, echo: Echo, batch: Batch, alive: Callable[[], None]) -> float:
    """Until every delivery of a batch has ended; returns the seconds from its commit to when the last one was seen to.

    The receiver is asked first, because it costs the database nothing. What the rows say of their end is the moment at
    which somebody began to write it. `alive` raises if the hub is not.
    """
    until(lambda: echo.gauge().answered, batch.deliveries, alive)
    ended = f"SELECT COUNT(*) FROM {SAGAS} WHERE event_id > {batch.after} AND status IN ('Completed', 'DeadLettered')"
    until(lambda: int(database.execute(ended)[0][0]), batch.deliveries, alive)
    [(seen,)] = database.execute(f"SELECT {database.now_sql}")
    assert database.execute(f"SELECT COUNT(*) FROM {INBOX}") == [(0,)]
    return database.seconds(seen) - batch.began


def duplicates(arrivals: list[Arrival]) -> int:
    """Deliveries that the receiver has answered with success more than once."""
    times = Counter((arrival.port, arrival.message_id) for arrival in arrivals)
    return sum(count - 1 for count in times.values())


def until(count: Callable[[], int], wanted: int, alive: Callable[[], None], patience: float = PATIENCE_SECONDS) -> None:
    """Wait for a count, for as long as it moves."""
    reached, moved_at = -1, time.monotonic()
    while (now := count()) < wanted:
        alive()
        if now != reached:
            reached, moved_at = now, time.monotonic()
        elif time.monotonic() - moved_at > patience:
            raise Stalled(f"{reached} of {wanted}, and no more in {patience:g} s")
        time.sleep(LOOK_SECONDS)
