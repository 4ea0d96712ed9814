"""How long the client waits, and when it stops retrying."""

from __future__ import annotations

import time
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime

import pytest

from webhookhub.client.retry import MAX_DELAY_SECONDS, Deadline, backoff, parse_retry_after


def test_the_backoff_doubles_up_to_a_maximum_with_jitter():
    for retries, longest in enumerate([0.2, 0.4, 0.8, 1.6, 3.2, 6.4, 10, 10]):
        seen = {backoff(retries) for _ in range(50)}
        assert len(seen) > 1
        assert longest / 2 <= min(seen) <= max(seen) <= longest
    assert backoff(10**6) <= MAX_DELAY_SECONDS


@pytest.mark.parametrize(("header", "seconds"), [(None, None), ("7", 7.0), (" 0 ", 0.0), ("soon", None), ("-1", None)])
def test_retry_after_may_be_seconds(header: str | None, seconds: float | None):
    assert parse_retry_after(header) == seconds


def test_retry_after_may_be_a_date():
    date = datetime.now(UTC) + timedelta(seconds=60)
    assert 55 < (parse_retry_after(format_datetime(date, usegmt=True)) or 0) <= 60
    assert parse_retry_after(format_datetime(date - timedelta(hours=1), usegmt=True)) == 0


def test_no_wait_beyond_the_deadline():
    deadline = Deadline(50)
    started = time.monotonic()
    assert not deadline.wait(100)
    assert time.monotonic() - started < 30
