"""Counts the results of attempts: in the counters, and per minute and subscription."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Sequence
from datetime import datetime
from functools import cache, lru_cache
from http import HTTPStatus
from typing import NamedTuple

from webhookhub.db.bulk import add_up
from webhookhub.egress import error_codes

from . import counters
from .histogram import DURATION_MS, LATENCY_SECONDS, bucket
from .models import COUNTED, DURATION_COLUMNS, FAILURES, MINUTE, Period

COMPLETED, RETRIED, DEAD_LETTERED = "completed", "retried", "dead_lettered"

KEY = ("period", "starts_at", "subscription_id", "shard")
POSITION = {column: position for position, column in enumerate(COUNTED)}
ATTEMPTS, DURATION_MS_SUM = POSITION["attempts"], POSITION["duration_ms"]
FIRST_BUCKET = POSITION[DURATION_COLUMNS[0]]
DURATION_LABELS = (*map(str, DURATION_MS), counters.MORE)
LATENCY_LABELS = (*(f"{bound:g}" for bound in LATENCY_SECONDS), counters.MORE)
CONNECTION_CODES = {
    error_codes.DNS_ERROR,
    error_codes.CONNECT_ERROR,
    error_codes.TLS_ERROR,
    error_codes.CONNECTION_LOST,
    error_codes.PROTOCOL_ERROR,
    error_codes.CLIENT_CERTIFICATE_REQUIRED,
    error_codes.CLIENT_CERTIFICATE_REFUSED,
    error_codes.TOKEN_UNREACHABLE,
    error_codes.PROXY_REFUSED,
    error_codes.PROXY_TIMEOUT,
    error_codes.PROXY_ERROR,
}
KNOWN_STATUSES = {str(status.value) for status in HTTPStatus}


class AttemptResult(NamedTuple):
    subscription_id: int
    outcome: str
    error_code: str | None
    # When the event was created, or the delivery requeued.
    requested_at: datetime
    finished_at: datetime
    duration_ms: int
    lease_resets: int = 0

    @property
    def repetitions(self) -> int:
        """How often the attempt was sent again after its lease was lost, at most: the lost worker may not have sent."""
        # The last lease of an attempt that was given up sends nothing.
        return self.lease_resets - (self.error_code == error_codes.LEASE_EXPIRED) if self.lease_resets else 0


def add(results: Sequence[AttemptResult]) -> None:
    """Count results. Call it at the end of the transaction that marks them as settled.

    Counters before periods, each in the order of its key, so that concurrent calls cannot deadlock.
    """
    if not results:
        return
    minutes: dict[tuple[datetime, int], list[int]] = defaultdict(lambda: [0] * len(COUNTED))
    ended: dict[tuple[str, str | None], int] = defaultdict(int)
    latencies = [0] * len(LATENCY_LABELS)
    latency_sum = 0.0
    repeated = 0
    for result in results:
        subscription_id, outcome, error_code, requested_at, finished_at, duration_ms, lease_resets = result
        if lease_resets:
            repeated += result.repetitions
        row = minutes[_minute(finished_at), subscription_id]
        row[ATTEMPTS] += 1
        row[DURATION_MS_SUM] += duration_ms
        row[FIRST_BUCKET + bucket(DURATION_MS, duration_ms)] += 1
        ended[outcome, error_code] += 1
        if error_code is None:
            latency = max(0.0, (finished_at - requested_at).total_seconds())
            latencies[bucket(LATENCY_SECONDS, latency)] += 1
            latency_sum += latency
        row[_column(outcome, error_code)] += 1
        if outcome == DEAD_LETTERED:
            row[POSITION[DEAD_LETTERED]] += 1
    sums = [sum(column) for column in zip(*minutes.values(), strict=True)]
    counts = Counter({(counters.DURATION_SUM, ""): sums[DURATION_MS_SUM]})
    counts[counters.LATENCY_SUM, ""] = round(latency_sum * 1_000_000)
    counts[counters.REPEATED, ""] = repeated
    counts.update({(counters.DURATIONS, name): n for name, n in zip(DURATION_LABELS, sums[FIRST_BUCKET:], strict=True)})
    counts.update({(counters.LATENCIES, name): n for name, n in zip(LATENCY_LABELS, latencies, strict=True)})
    for (outcome, error_code), count in ended.items():
        counts[counters.ATTEMPTS, label(outcome, error_code)] += count
    counters.add(counts)
    shard = counters.own_shard()
    rows = {(MINUTE, starts_at, subscription_id, shard): row for (starts_at, subscription_id), row in minutes.items()}
    add_up(Period, KEY, COUNTED, rows)


@lru_cache(maxsize=16)  # results that were reported together have the same time
def _minute(time: datetime) -> datetime:
    return time.replace(second=0, microsecond=0)


@cache
def _column(outcome: str, error_code: str | None) -> int:
    return POSITION[COMPLETED if error_code is None else failure(known(error_code))]


def label(outcome: str, error_code: str | None) -> str:
    """`completed`, or `retried/timeout`."""
    return outcome if error_code is None else f"{outcome}/{known(error_code)}"


def known(error_code: str) -> str:
    """The code, or the class of an unknown HTTP status, so that an endpoint cannot create counters at will."""
    status = error_code.removeprefix("http_")
    return f"http_{status[:1]}xx" if status != error_code and status not in KNOWN_STATUSES else error_code


def failure(error_code: str) -> str:
    """The column of a failed attempt."""
    if error_code.startswith(("http_4", "http_5")):
        name = f"failed_{error_code[5]}xx"
    elif error_code == error_codes.TIMEOUT:
        name = "failed_timeout"
    else:
        name = "failed_connection" if error_code in CONNECTION_CODES else "failed_other"
    assert name in FAILURES
    return name
