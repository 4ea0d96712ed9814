"""What is sent for a job: a pure function of what is stored, so that every attempt sends the same bytes."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from email.utils import parsedate_to_datetime

from webhookhub import __version__
from webhookhub.egress.curl import Request

from .lease import LeasedJob

USER_AGENT = f"WebhookHub/{__version__}"
# A date near the end of the calendar must not carry later sums beyond it.
LONGEST_RETRY_AFTER = timedelta(seconds=10**9)


def build(job: LeasedJob, sent_at: datetime) -> Request:
    headers = [
        "Content-Type: application/json",
        f"User-Agent: {USER_AGENT}",
        f"webhook-id: {job.event_uid}",
        f"webhook-timestamp: {int(sent_at.timestamp())}",
        f"webhook-attempt: {job.attempt_no}",
    ]
    return Request(job.callback_url, headers, body(job))


def body(job: LeasedJob) -> bytes:
    """Type, time and data; the payload's text goes in as it is stored, unparsed."""
    timestamp = job.event_created_at.astimezone(UTC).isoformat().replace("+00:00", "Z")
    return f'{{"type":{json.dumps(job.event_type)},"timestamp":"{timestamp}","data":{job.payload}}}'.encode()


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
