"""What is sent for a job: a pure function of what is stored, so that every attempt sends the same bytes."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from email.utils import parsedate_to_datetime
from functools import lru_cache

from subscriptions.signed_request import sign
from webhookhub.egress.messages import Request

from .lease import LeasedJob

# A date near the end of the calendar must not carry later sums beyond it.
LONGEST_RETRY_AFTER = timedelta(seconds=10**9)


def build(job: LeasedJob, timestamp: int) -> Request:
    """What is sent at `timestamp`, in seconds since 1970.

    Raises subscriptions.signed_request.Unsendable if what is stored does not make a request.
    """
    uid = job.event_uid
    # W3C trace context: all attempts of all deliveries of an event are one trace, each attempt a span of its own.
    trace = f"traceparent: 00-{uid.replace('-', '')}-{job.id:016x}-01"
    return sign(job.endpoint, uid, body(job), timestamp, f"webhook-attempt: {job.attempt_no}", trace)


def body(job: LeasedJob) -> bytes:
    """Type, time and data; the payload's text goes in as it is stored, unparsed."""
    return f'{{"type":{_quoted(job.event_type)},"timestamp":"{job.event_created_at}","data":{job.payload}}}'.encode()


@lru_cache(maxsize=10_000)
def _quoted(event_type: str) -> str:
    return json.dumps(event_type)


def retry_after(header: str | None, now: datetime) -> timedelta | None:
    """How long a Retry-After header asks to wait: a number of seconds or a date; None if it is neither."""
    if header is None:
        return None
    if header.isascii() and header.isdigit():
        return min(timedelta(seconds=int(header[:12])), LONGEST_RETRY_AFTER)
    try:
        moment = parsedate_to_datetime(header)
    except (TypeError, ValueError, OverflowError):
        return None
    if moment.tzinfo is None:
        moment = moment.replace(tzinfo=UTC)
    return min(max(timedelta(0), moment - now), LONGEST_RETRY_AFTER)
