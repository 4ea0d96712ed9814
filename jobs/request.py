"""The request of a job: a pure function of the stored rows, so that every attempt sends the same bytes."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from email.utils import parsedate_to_datetime
from functools import lru_cache

from subscriptions.signing import sign
from webhookhub.egress.messages import Request

from .lease import LeasedJob

# Adding a longer delay to a date could overflow.
MAX_RETRY_AFTER = timedelta(seconds=10**9)


def build(job: LeasedJob, timestamp: int, *more_headers: str) -> Request:
    """The request as sent at `timestamp` (Unix time).

    Raises subscriptions.signing.Unsendable if the stored URL, headers or secret cannot be used.
    """
    uid = job.event_uid
    # W3C trace context: an event is one trace, each attempt a span.
    trace = f"traceparent: 00-{uid.replace('-', '')}-{job.id:016x}-01"
    return sign(job.endpoint, uid, body(job), timestamp, f"webhook-attempt: {job.attempt_no}", trace, *more_headers)


def body(job: LeasedJob) -> bytes:
    """Type, timestamp and data; the stored payload text is inserted without parsing."""
    return f'{{"type":{_quoted(job.event_type)},"timestamp":"{job.event_created_at}","data":{job.payload}}}'.encode()


@lru_cache(maxsize=10_000)
def _quoted(event_type: str) -> str:
    return json.dumps(event_type)


def retry_after(header: str | None, now: datetime) -> timedelta | None:
    """The delay that a Retry-After header asks for, as seconds or as a date; None if it is neither."""
    if header is None:
        return None
    if header.isascii() and header.isdigit():
        return min(timedelta(seconds=int(header[:12])), MAX_RETRY_AFTER)
    try:
        date = parsedate_to_datetime(header)
    except (TypeError, ValueError, OverflowError):
        return None
    if date.tzinfo is None:
        date = date.replace(tzinfo=UTC)
    return min(max(timedelta(0), date - now), MAX_RETRY_AFTER)
