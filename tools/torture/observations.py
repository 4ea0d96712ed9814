"""Everything that was recorded during a run, as plain values: the journals of the producers, the endpoint and the fault
injector, the logs of the processes, and the tables."""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from . import journal, logs
from .database import Database
from .processes import Exit

Key = tuple[str, str]
# Methods of the producers.
ROLLED_BACK = "rolled_back"
ATOMIC = ("many", "transaction", "held", "batch_by_http")


@dataclass(frozen=True)
class Receipt:
    uid: str
    path: str
    attempt: int
    body: str  # a hash
    response: str
    at: float = 0.0
    timestamp: str = ""
    signature: str = ""


# Without a time zone, as the driver returns times.
LONG_AGO = datetime.fromtimestamp(0, UTC).replace(tzinfo=None)


@dataclass(frozen=True)
class Event:
    id: int
    uid: str
    event_type: str
    key: Key
    payload: Any
    body: bytes = b""  # the expected request body
    correlation: str = ""
    created_at: datetime = LONG_AGO


@dataclass(frozen=True)
class Saga:
    id: int
    event_id: int
    subscription_id: int
    generation: int
    status: str
    attempt_count: int
    max_retry_limit: int


@dataclass(frozen=True)
class Job:
    id: int
    saga_id: int
    attempt_no: int
    status: str
    response_status: int | None
    error_code: str | None
    lease_resets: int
    settled: int
    pid: int = 0  # of the worker that reported the result
    finished_at: float = 0.0
    duration: float = 0.0


@dataclass(frozen=True)
class Workflow:
    saga_id: str
    saga_type: str
    correlation: str
    status: str


@dataclass
class Observations:
    # from the producers: (source, external id) → type and payload
    sent: dict[Key, tuple[str, Any]] = field(default_factory=dict)
    acknowledged: set[Key] = field(default_factory=set)
    rolled_back: set[Key] = field(default_factory=set)  # including intended rollbacks
    transactions: list[set[Key]] = field(default_factory=list)  # events to be stored together or not at all
    # from the endpoint
    receipts: list[Receipt] = field(default_factory=list)
    # from the tables
    events: dict[int, Event] = field(default_factory=dict)
    subscriptions: dict[int, tuple[str, str]] = field(default_factory=dict)  # id → event type and path
    sagas: list[Saga] = field(default_factory=list)
    jobs: list[Job] = field(default_factory=list)
    dead_letters: list[int] = field(default_factory=list)  # ids of their deliveries
    inbox: list[int] = field(default_factory=list)
    workflows: list[Workflow] = field(default_factory=list)
    # from the fault injector, the row watcher and the processes
    faults: list[dict[str, Any]] = field(default_factory=list)
    changed: list[str] = field(default_factory=list)
    logs: logs.LogContents = field(default_factory=logs.LogContents)
    exits: list[Exit] = field(default_factory=list)
    unfinished: list[str] = field(default_factory=list)
    audit: str = ""  # the output of a failed audit
    replay: str = ""  # the output of a failed replay


def collect(folder: Path, database: Database) -> Observations:
    observed = Observations()
    for path in folder.glob("producer-*.jsonl"):
        _read_producer(observed, journal.read(path))
    for entry in journal.read(folder / "received.jsonl"):
        if entry.pop("type") == "received":
            observed.receipts.append(Receipt(**entry))
    observed.faults = list(journal.read(folder / "faults.jsonl"))
    observed.logs = logs.read((folder / "logs").glob("*.log"))
    _read_tables(observed, database)
    return observed


def _read_producer(observed: Observations, entries: Iterable[dict[str, Any]]) -> None:
    for entry in entries:
        source = entry["source"]
        if entry["type"] == "intent":
            for event in entry["events"]:
                observed.sent[source, event["id"]] = event["type"], event["payload"]
            keys = {(source, event["id"]) for event in entry["events"]}
            if entry["method"] == ROLLED_BACK:
                observed.rolled_back |= keys  # even if the producer is killed before it records the rollback
            elif entry["method"] in ATOMIC:
                observed.transactions.append(keys)
        elif entry["type"] == "acknowledged":
            observed.acknowledged |= {(source, id) for id in entry["ids"]}
        else:
            observed.rolled_back |= {(source, id) for id in entry["ids"]}


def _read_tables(observed: Observations, database: Database) -> None:
    for id, uid, event_type, source, external_id, payload, created_at, correlation in database.rows(
        "SELECT id, uid, event_type, source, external_id, payload, created_at, correlation_id FROM events"
    ):
        body = body_of(event_type, created_at, payload)
        observed.events[id] = Event(
            id, dashed(uid), event_type, (source, external_id), json.loads(payload), body, correlation, created_at
        )
    for id, event_type, url in database.rows("SELECT id, event_type, callback_url FROM subscriptions"):
        observed.subscriptions[id] = event_type, urlsplit(url).path
    columns = "id, event_id, subscription_id, generation, status, attempt_count, max_retry_limit"
    observed.sagas = [Saga(*row) for row in database.rows(f"SELECT {columns} FROM webhook_delivery_sagas")]
    columns = "id, saga_id, attempt_no, status, response_status, error_code, lease_resets, settled_at IS NOT NULL"
    result = "worker_id, UNIX_TIMESTAMP(finished_at), duration_ms"
    observed.jobs = [
        replace(
            Job(*row[:8]),
            pid=logs.pid_of(row[8]) if row[8] else 0,
            finished_at=float(row[9] or 0),
            duration=(row[10] or 0) / 1000,
        )
        for row in database.rows(f"SELECT {columns}, {result} FROM webhook_delivery_jobs ORDER BY saga_id, attempt_no")
    ]
    observed.dead_letters = [saga_id for (saga_id,) in database.rows("SELECT saga_id FROM dead_letters")]
    observed.workflows = [
        Workflow(dashed(saga_id), *row)
        for saga_id, *row in database.rows("SELECT saga_id, saga_type, correlation_key, status FROM saga_instances")
    ]
    observed.inbox = [event_id for (event_id,) in database.rows("SELECT event_id FROM routing_inbox")]


def body_of(event_type: str, created_at: datetime, payload: str) -> bytes:
    """The documented request body, built from the row without the hub's code."""
    return b'{"type":"%b","timestamp":"%bZ","data":%b}' % (
        event_type.encode(),
        created_at.isoformat().encode(),
        payload.encode(),
    )


def dashed(uid: str) -> str:
    """The uid as it is sent, independent of the column's format."""
    plain = uid.replace("-", "")
    return "-".join((plain[:8], plain[8:12], plain[12:16], plain[16:20], plain[20:]))
