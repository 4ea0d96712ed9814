"""Everything that is known after a run, from the producers', the receiver's and the tormentor's own logs, from the
processes' logs and from the tables: plain values for the judge."""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from . import journal, logs
from .fleet import Ending
from .target import Target

Key = tuple[str, str]
# The producers' ways, as they name them.
ROLLED_BACK = "rolled_back"
TOGETHER = ("many", "transaction", "held", "batch_by_http")


@dataclass(frozen=True)
class Receipt:
    uid: str
    path: str
    attempt: int
    body: str  # its hash
    answer: str
    at: float = 0.0
    timestamp: str = ""
    signature: str = ""


# As the driver gives times, without a zone.
LONG_AGO = datetime.fromtimestamp(0, UTC).replace(tzinfo=None)


@dataclass(frozen=True)
class Event:
    id: int
    uid: str
    event_type: str
    key: Key
    payload: Any
    body: bytes = b""  # what is to be sent of it
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
    pid: int = 0  # of the worker whose result it is
    finished_at: float = 0.0
    duration: float = 0.0


@dataclass(frozen=True)
class Workflow:
    saga_id: str
    saga_type: str
    correlation: str
    status: str


@dataclass
class Evidence:
    # what the producers say: (source, external id) → type and payload
    asked: dict[Key, tuple[str, Any]] = field(default_factory=dict)
    acknowledged: set[Key] = field(default_factory=set)
    rolled_back: set[Key] = field(default_factory=set)  # or meant to be
    transactions: list[set[Key]] = field(default_factory=list)  # what is stored together or not at all
    # what the receiver says
    receipts: list[Receipt] = field(default_factory=list)
    # what the tables say
    events: dict[int, Event] = field(default_factory=dict)
    subscriptions: dict[int, tuple[str, str]] = field(default_factory=dict)  # id → event type and path
    sagas: list[Saga] = field(default_factory=list)
    jobs: list[Job] = field(default_factory=list)
    letters: list[int] = field(default_factory=list)  # their sagas' ids
    inbox: list[int] = field(default_factory=list)
    workflows: list[Workflow] = field(default_factory=list)
    # what the tormentor, the sampler and the processes say
    faults: list[dict[str, Any]] = field(default_factory=list)
    changed: list[str] = field(default_factory=list)
    said: logs.Said = field(default_factory=logs.Said)
    endings: list[Ending] = field(default_factory=list)
    unfinished: list[str] = field(default_factory=list)
    audit: str = ""  # what it found; empty if nothing
    replay: str = ""  # likewise


def collect(folder: Path, target: Target) -> Evidence:
    found = Evidence()
    for path in folder.glob("producer-*.jsonl"):
        _hear_producer(found, journal.read(path))
    for fact in journal.read(folder / "received.jsonl"):
        if fact.pop("say") == "received":
            found.receipts.append(Receipt(**fact))
    found.faults = list(journal.read(folder / "chaos.jsonl"))
    found.said = logs.read((folder / "logs").glob("*.log"))
    _read_tables(found, target)
    return found


def _hear_producer(found: Evidence, facts: Iterable[dict[str, Any]]) -> None:
    for fact in facts:
        source = fact["source"]
        if fact["say"] == "intent":
            for event in fact["events"]:
                found.asked[source, event["id"]] = event["type"], event["payload"]
            keys = {(source, event["id"]) for event in fact["events"]}
            if fact["way"] == ROLLED_BACK:
                found.rolled_back |= keys  # though it may be killed before it has said so
            elif fact["way"] in TOGETHER:
                found.transactions.append(keys)
        elif fact["say"] == "acknowledged":
            found.acknowledged |= {(source, number) for number in fact["ids"]}
        else:
            found.rolled_back |= {(source, number) for number in fact["ids"]}


def _read_tables(found: Evidence, target: Target) -> None:
    for id, uid, event_type, source, external_id, payload, created_at, correlation in target.rows(
        "SELECT id, uid, event_type, source, external_id, payload, created_at, correlation_id FROM events"
    ):
        body = body_of(event_type, created_at, payload)
        found.events[id] = Event(
            id, dashed(uid), event_type, (source, external_id), json.loads(payload), body, correlation, created_at
        )
    for id, event_type, url in target.rows("SELECT id, event_type, callback_url FROM subscriptions"):
        found.subscriptions[id] = event_type, urlsplit(url).path
    columns = "id, event_id, subscription_id, generation, status, attempt_count, max_retry_limit"
    found.sagas = [Saga(*row) for row in target.rows(f"SELECT {columns} FROM webhook_delivery_sagas")]
    columns = "id, saga_id, attempt_no, status, response_status, error_code, lease_resets, settled_at IS NOT NULL"
    result = "worker_id, UNIX_TIMESTAMP(finished_at), duration_ms"
    found.jobs = [
        replace(
            Job(*row[:8]),
            pid=logs.pid_of(row[8]) if row[8] else 0,
            finished_at=float(row[9] or 0),
            duration=(row[10] or 0) / 1000,
        )
        for row in target.rows(f"SELECT {columns}, {result} FROM webhook_delivery_jobs ORDER BY saga_id, attempt_no")
    ]
    found.letters = [saga_id for (saga_id,) in target.rows("SELECT saga_id FROM dead_letters")]
    found.workflows = [
        Workflow(dashed(saga_id), *row)
        for saga_id, *row in target.rows("SELECT saga_id, saga_type, correlation_key, status FROM saga_instances")
    ]
    found.inbox = [event_id for (event_id,) in target.rows("SELECT event_id FROM routing_inbox")]


def body_of(event_type: str, created_at: datetime, payload: str) -> bytes:
    """What the documentation says that is sent, made of the row and without the hub's own code."""
    return b'{"type":"%b","timestamp":"%bZ","data":%b}' % (
        event_type.encode(),
        created_at.isoformat().encode(),
        payload.encode(),
    )


def dashed(uid: str) -> str:
    """As the receiver saw it, however the column keeps it."""
    plain = uid.replace("-", "")
    return "-".join((plain[:8], plain[8:12], plain[12:16], plain[16:20], plain[20:]))
